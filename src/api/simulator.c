/* simulator.c: pvi_fit_simulator: a user's C simulator as infer/simulator.h wants it. */
#include "api/api_int.h"

#include "infer/simulator.h"

typedef struct {
  const pvi_simulator *s;
  const pvi_options *o;
  pvi_result *out;
} SimulatorArgs;

static bool simulate(void *self, const double *theta, size_t M, size_t ld, uint64_t seed,
                     double *out) {
  const pvi_simulator *s = self;
  return s->simulate(s->self, theta, M, ld, seed, out) != 0;
}

static bool pullback(void *self, const double *theta, size_t M, size_t ld, uint64_t seed,
                     const double *adj_out, double *adj) {
  const pvi_simulator *s = self;
  return s->pullback(s->self, theta, M, ld, seed, adj_out, adj) != 0;
}

static void fit_simulator(pvi_context *c, void *arg) {
  SimulatorArgs *a = arg;
  Ctx *ctx = &c->ctx;
  const pvi_simulator *s = a->s;
  SimulatorOptions o = {
      .score = s->width > 1 ? SCORE_energy : SCORE_crps_sim,
      .score_options = {.alpha = a->o->alpha},
      .family = FAMILY_meanfield,
      .lambda = a->o->lambda,
      .M = a->o->draws,
      .seed = a->o->seed,
      .shape = {.knots = a->o->knots, .layers = a->o->layers, .hidden = a->o->hidden}};
  if (!s->dim || !s->n || !s->width)
    ctx_fail(ctx, PVI_USAGE, NOWHERE, "a simulator needs parameters and observations");
  if (a->o->score && !score_find(a->o->score, &o.score))
    ctx_fail(ctx, PVI_USAGE, NOWHERE, "unknown score %s", a->o->score);
  if (a->o->family && !family_find(a->o->family, &o.family))
    ctx_fail(ctx, PVI_USAGE, NOWHERE, "unknown family %s", a->o->family);
  Simulator sim = {.dim = s->dim,
                   .n = s->n,
                   .width = s->width,
                   .y = s->y,
                   .prior_mean = s->prior_mean,
                   .prior_sd = s->prior_sd,
                   .self = (void *)s,
                   .simulate = simulate,
                   .pullback = pullback};
  double started = base_seconds();
  SimulatorFit f = simulator_fit(ctx, &sim, &o);
  double *mean = NEW_ARRAY(&ctx->arena, double, s->dim),
         *sd = NEW_ARRAY(&ctx->arena, double, s->dim);
  q_moments(&f.q, f.phi, mean, sd);
  *a->out = (pvi_result){.converged = f.converged,
                         .objective = f.objective,
                         .evaluations = f.evaluations,
                         .seconds = base_seconds() - started,
                         .mean = mean,
                         .sd = sd,
                         .family = family_name(f.q.family),
                         .reason = f.reason};
}

int pvi_fit_simulator(pvi_context *c, const pvi_simulator *s, const pvi_options *o,
                      pvi_result *out) {
  *out = (pvi_result){0};
  int status = api_run(c, fit_simulator, &(SimulatorArgs){s, o, out});
  return status ? status : out->converged ? PVI_STATUS_OK : PVI_STATUS_NOT_CONVERGED;
}
