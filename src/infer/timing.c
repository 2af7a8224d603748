/* timing.c: batches of evaluations, by the clock of several threads, by the processor's of one.
 * Short ones, and many: on a machine with other work the best is the one that was left alone. */
#include "infer/timing.h"

#include "infer/exact.h"

#include <stdlib.h>

enum { BATCHES = 41, BATCHES_LEAST = 5 };
static const double batch_seconds = 0.005, enough_seconds = 0.5;

Timed timing_make(Ctx *c, const Model *m, const Split *split, const TimingOptions *options,
                  Pool *pool) {
  const Target *t = &options->target;
  const char *why;
  if (!target_allows(c, m, t, &why)) ctx_fail(c, PVI_USAGE, NOWHERE, "%s", why);
  Arena *a = &c->arena;
  Observed *o =
      observed_make(a, m, split->rows[PART_TRAIN], split->count[PART_TRAIN], target_wants(t));
  Observed *condensed = t->score == SCORE_elbo ? observed_condensed(a, o) : NULL;
  size_t n = o->n;
  if (condensed) o = condensed;
  Q *q = NEW(a, Q);
  *q = q_make(a, options->family, options->shape, m->dim, NULL);
  if (t->integrate == INTEGRATE_EXACT) {
    observed_reduce(o);
    if (!exact_applies(o, t, q, &why))
      ctx_fail(c, PVI_USAGE, NOWHERE, "exact integration is not available, because %s", why);
  } else {
    if (t->score != SCORE_elbo) observed_reduce_prior(o);
    observed_sort(o);
  }
  Timed timed = {.p = predictive_make(a, o, t, q, (NoiseSet){options->draws, 1}, pool),
                 .q = q,
                 .o = o,
                 .n = n,
                 .clock = pool_threads(pool) == 1 ? base_thread_seconds : base_seconds};
  timed.phi = NEW_ARRAY(a, double, q_size(q));
  timed.grad = NEW_ARRAY(a, double, q_size(q));
  double *mean = NEW_ARRAY(a, double, m->dim), *sd = NEW_ARRAY(a, double, m->dim);
  for (size_t k = 0; k < m->dim; k++) sd[k] = 0.1;
  q_start(q, timed.phi, mean, sd);
  return timed;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double seconds_of(const Timed *t, long evaluations) {
  PredictiveValue v;
  double start = t->clock();
  for (long k = 0; k < evaluations; k++) predictive_eval(t->p, t->phi, &v, t->grad);
  return (t->clock() - start) / (double)evaluations;
}

Timing timing_of(const Timed *t) {
  double once = seconds_of(t, 1), runs[BATCHES];
  long each = (long)(batch_seconds / (once + 1e-9)) + 1;
  double start = t->clock();
  int n = 0;
  while (n < BATCHES && (n < BATCHES_LEAST || t->clock() - start < enough_seconds))
    runs[n++] = seconds_of(t, each);
  qsort(runs, (size_t)n, sizeof *runs, by_value);
  return (Timing){runs[0], runs[n / 2], 1 + n * each};
}
