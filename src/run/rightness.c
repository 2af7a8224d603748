/* rightness.c: the outcomes' own distribution, and what a program adds to it (rightness.h). */
#include "run/rightness.h"

#include <math.h>
#include <string.h>

/* Maxima of the likelihood are in closed form for these kinds. */
typedef struct {
  const Model *m;
  const ObsBlock *b;
  const double *counted;
} Outcomes;

static bool counts(const Outcomes *o, int32_t row) { return !isnan(o->counted[o->b->obs[row]]); }

/* y log p, which is 0 for y = 0. */
static double log_times(double y, double p) { return y > 0 ? y * log(p) : 0; }

/* normal(mean, sd) of y, or of log y. */
static double normal_score(const Outcomes *o, bool logarithm) {
  double n = 0, sum = 0, square = 0, shift = 0, first = 0;
  for (int32_t k = 0; k < o->b->rows; k++) {
    if (!counts(o, k)) continue;
    double x = logarithm ? log(o->b->y[k]) : o->b->y[k];
    if (n == 0) first = x; /* as origin, for the digits */
    n++;
    sum += x - first;
    square += (x - first) * (x - first);
    shift -= logarithm ? x : 0;
  }
  double var = square / n - sum * sum / (n * n);
  return n == 0 ? 0 : shift - 0.5 * n * (log(2 * acos(-1) * var) + 1);
}

/* binomial(size, p), and with trials of one bernoulli(p). */
static double binomial_score(const Outcomes *o) {
  double trials = 0, successes = 0, ways = 0;
  for (int32_t k = 0; k < o->b->rows; k++) {
    if (!counts(o, k)) continue;
    double y = o->b->y[k], size = o->b->size ? o->b->size[k] : 1;
    trials += size;
    successes += y;
    ways += lgamma(size + 1) - lgamma(y + 1) - lgamma(size - y + 1);
  }
  double p = successes / trials;
  return trials > 0 ? ways + log_times(successes, p) + log_times(trials - successes, 1 - p) : 0;
}

static double poisson_score(const Outcomes *o) {
  double n = 0, sum = 0, factorials = 0;
  for (int32_t k = 0; k < o->b->rows; k++) {
    if (!counts(o, k)) continue;
    n++;
    sum += o->b->y[k];
    factorials += lgamma(o->b->y[k] + 1);
  }
  return n > 0 ? log_times(sum, sum / n) - sum - factorials : 0;
}

static double categorical_score(const Outcomes *o) {
  double total = 0, score = 0;
  for (int32_t k = 0; k < o->b->rows; k++) total += counts(o, k);
  for (int32_t category = 1; category <= o->b->width; category++) {
    double n = 0;
    for (int32_t k = 0; k < o->b->rows; k++) n += counts(o, k) && o->b->y[k] == category;
    score += log_times(n, n / total);
  }
  return score;
}

static double block_score(const Outcomes *o) {
  switch (observed_kind(o->b)) {
  case KIND_NORMAL: return normal_score(o, false);
  case KIND_LOGNORMAL: return normal_score(o, true);
  case KIND_BERNOULLI:
  case KIND_BINOMIAL: return binomial_score(o);
  case KIND_POISSON: return poisson_score(o);
  case KIND_CATEGORICAL: return categorical_score(o);
  default: return NAN;
  }
}

double rightness_outcomes(const Model *m, const double *counted) {
  double sum = 0;
  if (m->unit || m->joint || m->outcomes_missing) return NAN;
  for (int b = 0; b < m->nblocks; b++) sum += block_score(&(Outcomes){m, &m->blocks[b], counted});
  return sum;
}

Rightness rightness_of(Ctx *c, const Model *m, const Scores *bayes, double gain) {
  Rightness r = {.share = NAN, .total = gain};
  if (strcmp(bayes->list.names[0], score_name(SCORE_log)) != 0) return r;
  TempArena *temp = temp_open(c);
  double *log = NEW_ARRAY(&temp->arena, double, m->n_obs + 1);
  for (size_t k = 0; k < m->n_obs; k++) {
    log[k] = bayes->by_obs[k];
    if (!isnan(log[k])) r.total += log[k], r.n++;
  }
  r.total -= rightness_outcomes(m, log);
  temp_close(temp);
  if (r.total > 0 && isfinite(r.total) && gain > 0) r.share = fmin(gain / r.total, 1);
  return r;
}

const char *rightness_words(Arena *a, const Rightness *r) {
  return arena_format(
      a,
      "of the %.0f nats by which %zu observations can be predicted better than by one "
      "distribution for all of them Bayes misses %.2g%%",
      r->total, r->n, 100 * r->share);
}
