/* simulator_api.c: pvi_fit_simulator: a user's C simulator as infer/simulator.h wants it. */
#include "api/api_int.h"

#include "infer/simulator.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
  pvi_context *c;
  const pvi_simulator *s;
  const pvi_options *o;
  pvi_run *r;
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

static bool cancelled(void *self) {
  pvi_context *c = self;
  return atomic_load(&c->cancelled);
}

static void check(Ctx *ctx, const pvi_simulator *s) {
  if (!s->dim || !s->n || !s->width)
    ctx_fail(ctx, PVI_USAGE, NOWHERE, "a simulator needs parameters and observations");
  if (!s->y || !s->prior_mean || !s->prior_sd || !s->simulate || !s->pullback)
    ctx_fail(
        ctx, PVI_USAGE, NOWHERE,
        "a simulator needs y, prior_mean, prior_sd, simulate and pullback; one of them is NULL");
  for (size_t k = 0; k < s->dim; k++)
    if (!isfinite(s->prior_mean[k]) || !(s->prior_sd[k] > 0) || !isfinite(s->prior_sd[k]))
      ctx_fail(ctx, PVI_USAGE, NOWHERE,
               "the prior of parameter %zu has mean %g and standard deviation %g", k + 1,
               s->prior_mean[k], s->prior_sd[k]);
}

static SimulatorOptions options_of(pvi_context *c, const pvi_simulator *s, const Options *o) {
  ScoreId usual = s->width > 1 ? SCORE_energy : SCORE_crps_sim;
  return (SimulatorOptions){.score = options_is_given(o, OPTION_score) ? (ScoreId)o->score : usual,
                            .score_options = {.alpha = o->alpha},
                            .family = o->family < 0 ? FAMILY_meanfield : (FamilyId)o->family,
                            .lambda = isnan(o->lambda) ? USUAL_LAMBDA : o->lambda,
                            .M = (size_t)o->draws,
                            .seed = (uint64_t)o->seed,
                            .shape = {.knots = (size_t)o->knots,
                                      .layers = (size_t)o->layers,
                                      .hidden = (size_t)o->hidden},
                            .cancelled = cancelled,
                            .cancelled_self = c};
}

/* A run without a program: q, and how the fit ended. */
static void keep(Ctx *ctx, SimulatorArgs *a, const SimulatorFit *f, double seconds) {
  Run *run = NEW(&ctx->arena, Run);
  run->o = options_make(&ctx->arena);
  run->q = f->q;
  run->phi = f->phi;
  a->r->run = run;
  double *mean = NEW_ARRAY(&ctx->arena, double, a->s->dim);
  double *sd = NEW_ARRAY(&ctx->arena, double, a->s->dim);
  q_moments(&f->q, f->phi, mean, sd);
  a->r->result = (pvi_result){.converged = f->converged,
                              .interrupted = f->interrupted,
                              .reason = f->reason,
                              .objective = f->objective,
                              .score = NAN,
                              .regularizer = NAN,
                              .evaluations = f->evaluations,
                              .seconds = seconds,
                              .family = family_name(f->q.family),
                              .dim = a->s->dim,
                              .mean = mean,
                              .sd = sd};
}

static void fit_simulator(Ctx *ctx, void *arg) {
  SimulatorArgs *a = arg;
  const pvi_simulator *s = a->s;
  check(ctx, s);
  Simulator sim = {.dim = s->dim,
                   .n = s->n,
                   .width = s->width,
                   .y = s->y,
                   .prior_mean = s->prior_mean,
                   .prior_sd = s->prior_sd,
                   .self = (void *)s,
                   .simulate = simulate,
                   .pullback = pullback};
  SimulatorOptions o = options_of(a->c, s, api_options(ctx, a->o));
  double started = base_seconds();
  SimulatorFit f = simulator_fit(ctx, &sim, &o);
  keep(ctx, a, &f, base_seconds() - started);
}

int pvi_fit_simulator(pvi_context *c, const pvi_simulator *s, const pvi_options *o, pvi_run **out) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, s);
  NEED(c, out);
  SimulatorArgs a = {c, s, o, NULL};
  int status = api_make_run(c, fit_simulator, &a, &a.r, out);
  return status ? status : api_verdict(*out);
}
