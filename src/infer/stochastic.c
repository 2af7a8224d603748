/* stochastic.c: a fit by a stochastic optimizer: new noise, and the next mini-batch, at every
 * iteration.
 *
 * It does all its iterations, and whether they were enough is seen from the objective on the way:
 * every iteration looked at it with noise of its own, so the means of two stretches of iterations
 * tell, with a standard error, whether it still gained.
 */
#include "infer/fit_int.h"

#include "infer/rejection.h"

#include <math.h>
#include <string.h>

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

/* ---- the verdict ----------------------------------------------------------------------------- */

typedef struct {
  double mean, error;
} Stretch;

/* The mean objective of iterations [from, to) of the last run, and its standard error from the
 * means of BATCHES parts: neighbouring iterations are not independent. */
static Stretch stretch_of(const Fit *fit, size_t from, size_t to) {
  enum { BATCHES = 10 };
  double part[BATCHES] = {0}, mean = 0, ss = 0;
  for (int b = 0; b < BATCHES; b++) {
    size_t lo = from + (to - from) * (size_t)b / BATCHES,
           hi = from + (to - from) * (size_t)(b + 1) / BATCHES;
    for (size_t k = lo; k < hi; k++) part[b] += fit->trace[k].objective / (double)(hi - lo);
    mean += part[b] / BATCHES;
  }
  for (int b = 0; b < BATCHES; b++) ss += (part[b] - mean) * (part[b] - mean);
  return (Stretch){mean, sqrt(ss / (BATCHES * (BATCHES - 1)))};
}

/* Did the last quarter of the iterations gain over the one before? */
static void judge(Fitter *f, const OptimResult *r) {
  enum { LEAST = 40 }; /* iterations */
  Fit *fit = f->fit;
  size_t n = (size_t)r->iterations, end = fit->ntrace;
  Arena *a = &f->ctx->arena;
  fit->converged = false;
  fit->reason = r->reason;
  if (r->status == OPTIM_NOT_FINITE)
    fit->reason = "stopped because the objective or its gradient was not finite many times in a "
                  "row; try a smaller " OPTION("learning-rate");
  if (r->status != OPTIM_FINISHED) return;
  if (n < LEAST || n > end) {
    fit->reason =
        arena_format(a, "all %zu iterations done: too few to tell whether it converged", n);
    return;
  }
  Stretch before = stretch_of(fit, end - n / 2, end - n / 4),
          last = stretch_of(fit, end - n / 4, end);
  double gain = last.mean - before.mean, error = hypot(last.error, before.error);
  fit->converged = fabs(gain) <= 2 * error + fit_tolerated_gap(f) &&
                   error <= fmax(5 * fit_tolerated_gap(f), 1e-4 * fabs(last.mean));
  fit->reason =
      arena_format(a,
                   "all %zu iterations done; the last quarter changed the objective by "
                   "%.2g (standard error %.2g)%s",
                   n, gain, error,
                   fit->converged ? "" : ": more iterations, or another " OPTION("learning-rate"));
}

/* The objective at phi by draws of their own. One of a few draws that the user asked for is an
 * objective of its own, between VI's and the predictive one: the mean over many sets of so many. */
static double judged(Fitter *f, const double *phi) {
  enum { FEW = 64, SETS = 256 };
  bool few = f->o->draws && f->o->draws < FEW;
  size_t sets = few ? SETS : 1, M = few ? f->o->draws : fit_draws(f, JUDGE_DRAWS);
  PredictiveValue v;
  FitMark mark = fit_mark(f);
  double sum = 0;
  Predictive *p = fit_objective(f, M, fit_seed(f, SEED_JUDGE));
  for (size_t k = 0; k < sets; k++) {
    if (few) predictive_renew(p, fit_seed(f, SEED_JUDGE) + k, true);
    sum += fit_evaluate(f, p, phi, &v) ? v.value : -INFINITY;
  }
  fit_release(f, mark);
  return sum / (double)sets;
}

/* What is handed back is no worse than where it began. */
static void keep_better(Fitter *f, double *phi, const double *start) {
  double end = judged(f, phi), began = judged(f, start);
  if (!(began > end)) return;
  memcpy(phi, start, q_size(&f->q) * sizeof *phi);
  if (began - end <= fit_tolerated_gap(f)) return;
  f->fit->converged = false;
  f->fit->reason =
      "the optimizer ended below its start, which was kept; try a smaller " OPTION("learning-rate");
}

/* ---- all ------------------------------------------------------------------------------------- */

void fit_stochastic(Fitter *f, double *phi) {
  size_t size = q_size(&f->q);
  double *start = memcpy(NEW_ARRAY(f->arena, double, size), phi, size * sizeof *phi);
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
  judge(f, &r);
  keep_better(f, phi, start);
}
