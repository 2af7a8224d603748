/* weighted_interval.c: minus the weighted interval score (Bracher, Ray, Gneiting and Reich 2021):
 * for the intervals of levels 1 - alpha_k, k = 1 .. K, and the median m,
 *
 *   WIS = [ |y - m| / 2 + sum_k alpha_k / 2 IS_{alpha_k}(y) ] / (K + 1/2).
 *
 * It is twice the mean pinball loss over the 2 K + 1 quantiles and tends to the CRPS. Default: the
 * 11 levels of the forecast hubs. */
#include "score/predictive_mixture.h"

#include <math.h>

static const double hub[] = {0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9};

/* alpha / 2 IS_alpha times `weight`, and its adjoint. */
static double one_interval(const ScoreCase *c, double alpha, double weight,
                           const ScoreAdjoint *adj) {
  double y = c->y, L = mixture_quantile(c, 0.5 * alpha, NULL),
         U = mixture_quantile(c, 1 - 0.5 * alpha, NULL);
  mixture_quantile_adjoint(c, L, weight * (0.5 * alpha - (y < L)), adj);
  mixture_quantile_adjoint(c, U, weight * ((y > U) - 0.5 * alpha), adj);
  return weight * (0.5 * alpha * (U - L) + fmax(L - y, 0) + fmax(y - U, 0));
}

double score_weighted_interval(const ScoreCase *c, const ScoreAdjoint *adj) {
  size_t n = c->o.nlevels ? c->o.nlevels : sizeof hub / sizeof *hub;
  const double *alpha = c->o.nlevels ? c->o.levels : hub;
  double weight = 1 / ((double)n + 0.5);
  score_clear(c, adj);
  mixture_prepare(c);
  double median = mixture_quantile(c, 0.5, NULL), sum = 0.5 * weight * fabs(c->y - median);
  mixture_quantile_adjoint(c, median, 0.5 * weight * ((c->y > median) - (c->y < median)), adj);
  for (size_t k = 0; k < n; k++) sum += one_interval(c, alpha[k], weight, adj);
  return -sum;
}
