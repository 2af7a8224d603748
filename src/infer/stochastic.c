/* stochastic.c: a fit by a stochastic optimizer: new noise, and the next mini-batch, at every
 * iteration.
 */
#include "infer/fit_int.h"

#include "infer/rejection.h"

enum { STEP_DRAWS = 100 };

typedef struct {
  Fitter *f;
  Predictive *p;
  Rejection *rejection; /* NULL: the reparameterized estimator */
  size_t batches;
  uint64_t seed; /* of this iteration */
} Stochastic;

static void next_iteration(void *self, long t) {
  Stochastic *s = self;
  s->seed = fit_seed(s->f, SEED_STEP + (uint64_t)t);
  predictive_renew(s->p, s->seed, true);
  if (s->batches > 1) {
    size_t k = (size_t)t % s->batches;
    predictive_range(s->p, (double)k / (double)s->batches, (double)(k + 1) / (double)s->batches);
  }
}

static bool evaluate(void *self, const double *phi, double *value, double *grad) {
  Stochastic *s = self;
  if (s->rejection) return rejection_eval(s->rejection, phi, s->seed, value, grad);
  PredictiveValue v;
  bool ok = predictive_eval(s->p, phi, &v, grad);
  *value = v.value;
  return ok;
}

/* ---- the rejection estimator ----------------------------------------------------------------- */

static void rejection_memory(void *self, Archive *a) { rejection_state(self, a); }

static Rejection *make_rejection(Fitter *f, size_t M) {
  const Observed *o = observed_make(f->parts, f->model, f->order, f->n, WANT_LL | WANT_PARAMETERS);
  const char *why = rejection_cannot(&f->ctx->arena, o, &f->q);
  if (why) ctx_fail(f->ctx, PVI_USAGE, NOWHERE, "%s", why);
  Rejection *r = rejection_make(f->arena, o, &f->target, &f->q, M, f->pool);
  fit_remember(f, r, rejection_memory);
  return r;
}

static void say_rejection(Fitter *f, const Rejection *r) {
  if (fit_number(f, rejection_refused(r)) != 0)
    ctx_fail(f->ctx, PVI_USAGE, NOWHERE,
             "no bound of the density is known, because its scale varies under q; estimate the "
             "scale as a point (" OPTION("point") "), or use reparameterization");
  double unmatched = fit_number(f, (double)rejection_unmatched(r));
  if (unmatched > 0)
    fit_note(f, arena_format(&f->ctx->arena, "%.0f times no draw was accepted for an observation",
                             unmatched));
}

/* ---- the run --------------------------------------------------------------------------------- */

static OptimOptions options_of(const FitOptions *given) {
  OptimOptions o = optim_defaults(given->optimizer);
  if (given->iterations) o.max_iterations = given->iterations;
  if (given->learning_rate > 0) o.learning_rate = given->learning_rate;
  o.schedule = given->schedule;
  o.clip = given->clip;
  return o;
}

void fit_stochastic(Fitter *f, double *phi) {
  size_t M = f->o->draws ? f->o->draws : STEP_DRAWS;
  Stochastic s = {.f = f, .p = fit_objective(f, M, fit_seed(f, SEED_FIT)), .batches = 1};
  if (f->o->rejection) s.rejection = make_rejection(f, M);
  if (f->o->minibatch && f->o->minibatch < f->n)
    s.batches = (f->n + f->o->minibatch - 1) / f->o->minibatch;
  Objective objective = {
      .dim = q_size(&f->q), .self = &s, .eval = evaluate, .iteration = next_iteration};
  OptimOptions o = options_of(f->o);
  OptimResult r = fit_optimize(f, s.p, &objective, phi, &o, "fit");
  if (s.rejection) say_rejection(f, s.rejection);
  f->fit->draws = M;
  f->fit->converged = r.converged;
  f->fit->reason = r.reason;
}
