/* simulator.c: draws, the simulator, the score of every observation, and back through the
 * simulator's pullback; L-BFGS on fixed noise from the prior, then fresh noise for the verdict. */
#include "infer/simulator.h"

#include "infer/optim.h"
#include "num/rng.h"
#include "num/sobol.h"

#include <math.h>
#include <string.h>

typedef struct {
  const Simulator *s;
  const SimulatorOptions *o;
  const Q *q;
  QDraws draws;
  size_t M, ld;
  uint64_t seed;
  double *theta, *adj, *out, *adj_out; /* [dim x ld], [n width x ld] */
  double *vectors, *scratch; /* one observation, simulation by simulation, and its adjoint */
} Run;

static Run run_make(Arena *a, const Simulator *s, const SimulatorOptions *o, const Q *q) {
  size_t M = o->M ? o->M : 256, ld = (M + LANES - 1) / LANES * LANES;
  Run r = {.s = s, .o = o, .q = q, .M = M, .ld = ld, .draws = q_draws(a, q, M, ld, kernels_best())};
  r.theta = NEW_ARRAY(a, double, s->dim *ld);
  r.adj = NEW_ARRAY(a, double, s->dim *ld);
  r.out = NEW_ARRAY(a, double, s->n * s->width * ld);
  r.adj_out = NEW_ARRAY(a, double, s->n * s->width * ld);
  r.vectors = NEW_ARRAY(a, double, 2 * s->width * ld);
  r.scratch = NEW_ARRAY(a, double, score_scratch(M, M, false));
  return r;
}

static void renew(Run *r, uint64_t seed) {
  sobol_normal(r->draws.u, q_noise(r->q), r->M, r->ld, seed, false);
  r->seed = rng_mix(seed + 5);
}

/* The score of observation i; its derivatives into adj_out. */
static double score_one(Run *r, size_t i) {
  size_t width = r->s->width, ld = r->ld;
  const double *out = r->out + i * width * ld;
  double *v = r->vectors, *g = v + width * ld;
  for (size_t j = 0; j < r->M; j++)
    for (size_t k = 0; k < width; k++) v[j * width + k] = out[k * ld + j];
  ScoreCase c = {.q = {.M = r->M, .ld = ld},
                 .y = r->s->y[i * width],
                 .yvec = r->s->y + i * width,
                 .dim = width,
                 .sim = v,
                 .nsim = r->M,
                 .o = r->o->score_options,
                 .k = r->draws.noise.k,
                 .scratch = r->scratch};
  double score = score_of(r->o->score)(&c, &(ScoreAdjoint){.sim = g});
  for (size_t j = 0; j < r->M; j++)
    for (size_t k = 0; k < width; k++) r->adj_out[(i * width + k) * ld + j] = g[j * width + k];
  return score;
}

/* lambda (E log prior + entropy): value, and its derivative into adj and grad. */
static double regularize(Run *r, const double *phi, double *grad) {
  const Simulator *s = r->s;
  double lambda = r->o->lambda, sum = 0;
  for (size_t d = 0; d < s->dim; d++)
    for (size_t j = 0; j < r->M; j++) {
      double w = r->draws.weights ? r->draws.weights[j] : 1 / (double)r->M;
      double z = (r->theta[d * r->ld + j] - s->prior_mean[d]) / s->prior_sd[d];
      sum -= w * (0.5 * z * z + log(s->prior_sd[d]) + 0.91893853320467274178);
      r->adj[d * r->ld + j] -= lambda * w * z / s->prior_sd[d];
    }
  return lambda * (sum + q_entropy(r->q, phi, &r->draws, lambda, grad));
}

static bool evaluate(void *self, const double *phi, double *value, double *grad) {
  Run *r = self;
  const Simulator *s = r->s;
  memset(grad, 0, q_size(r->q) * sizeof *grad);
  memset(r->adj, 0, s->dim * r->ld * sizeof *r->adj);
  memset(r->adj_out, 0, s->n * s->width * r->ld * sizeof *r->adj_out);
  q_draw(r->q, phi, &r->draws, r->theta);
  if (!s->simulate(s->self, r->theta, r->M, r->ld, r->seed, r->out)) return false;
  double sum = 0;
  for (size_t i = 0; i < s->n; i++) sum += score_one(r, i);
  if (!s->pullback(s->self, r->theta, r->M, r->ld, r->seed, r->adj_out, r->adj)) return false;
  *value = sum + regularize(r, phi, grad);
  q_adjoint(r->q, phi, &r->draws, r->adj, NULL, grad);
  for (size_t k = 0; k < q_size(r->q); k++)
    if (!isfinite(grad[k])) return false;
  return isfinite(*value);
}

static void check(Ctx *c, const Simulator *s, const SimulatorOptions *o) {
  if (!(score_needs(o->score) & (NEEDS_SIM | NEEDS_VECTOR_SIM)))
    ctx_fail(
        c, PVI_USAGE, NOWHERE,
        "a simulator is scored by crps_sim, crps_pairs, interval_sim, energy or mmd, not by %s",
        score_name(o->score));
  if (score_needs(o->score) & NEEDS_SIM && s->width != 1)
    ctx_fail(c, PVI_USAGE, NOWHERE, "outcomes of %zu numbers are scored by energy or mmd",
             s->width);
  if (family_of(o->family)->weights)
    ctx_fail(c, PVI_USAGE, NOWHERE, "families with weights are not for simulators");
}

SimulatorFit simulator_fit(Ctx *c, const Simulator *s, const SimulatorOptions *o) {
  check(c, s, o);
  Q *q = NEW(&c->arena, Q);
  *q = q_make(&c->arena, o->family, o->shape, s->dim, NULL);
  Run r = run_make(&c->arena, s, o, q);
  double *phi = NEW_ARRAY(&c->arena, double, q_size(q)),
         *grad = NEW_ARRAY(&c->arena, double, q_size(q));
  q_start(q, phi, s->prior_mean, s->prior_sd);
  renew(&r, rng_mix(o->seed + 11));
  Objective f = {.dim = q_size(q), .self = &r, .eval = evaluate};
  OptimOptions opt = optim_defaults(OPTIM_LBFGS);
  opt.max_iterations = 500;
  opt.tol_relative = 1e-6; /* absolute values have kinks; noise sets the limit anyway */
  opt.cancelled = o->cancelled;
  opt.cancelled_self = o->cancelled_self;
  OptimResult fit = optim_run(&c->arena, &f, phi, &opt);
  SimulatorFit result = {.q = *q,
                         .phi = fit.phi,
                         .objective = fit.value,
                         .evaluations = fit.evaluations,
                         .converged = fit.converged,
                         .interrupted = fit.status == OPTIM_INTERRUPTED,
                         .reason = fit.reason};
  if (result.interrupted) return result;
  renew(&r, rng_mix(o->seed + 12));
  result.evaluations++;
  if (!evaluate(&r, fit.phi, &result.objective, grad)) result.objective = NAN;
  return result;
}
