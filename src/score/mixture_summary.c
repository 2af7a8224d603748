/* mixture_summary.c: the predictive distribution of one observation in a few numbers. */
#include "score/predictive_mixture.h"

#include <math.h>

/* Categories are numbered from 1: the mean and variance of that number, for ordered ones. */
static double category_moments(const ScoreCase *c, double *variance) {
  double mean = 0, square = 0;
  for (size_t k = 1; k <= c->q.size; k++) {
    double p;
    mixture_pmf(c, (double)k, 1, &p);
    mean += p * (double)k;
    square += p * (double)k * (double)k;
  }
  *variance = square - mean * mean;
  return mean;
}

void score_describe(const ScoreCase *c, const double *levels, size_t nlevels, ScoreSummary *out) {
  double variance, hint = 0;
  if (!kind_discrete(c->q.kind)) mixture_prepare(c);
  out->mean = c->q.kind == KIND_CATEGORICAL ? category_moments(c, &variance)
                                            : mixture_moments(c, &variance);
  out->sd = sqrt(fmax(variance, 0));
  if (!isfinite(out->mean)) out->mean = out->sd = NAN;
  for (size_t k = 0; k < nlevels; k++) {
    hint = 0;
    out->quantiles[k] = mixture_quantile(c, levels[k], &hint);
  }
}
