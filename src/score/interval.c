/* interval.c: minus the interval score (Winkler 1972; Gneiting and Raftery 2007) of the central interval of level 1 - alpha:
 *   IS = (U - L) + 2/alpha [(L - y)_+ + (y - U)_+],  L, U = quantiles of the mixture at alpha/2, 1 - alpha/2.
 * Derivatives through the quantiles: every lane contributes (mixture_quantile_adjoint). Discrete kinds have a value only. */
#include "score/mixture.h"

#include <math.h>

double score_interval(const ScoreCase *c, const ScoreAdjoint *adj) {
  double alpha = c->o.alpha > 0 ? c->o.alpha : 0.1, y = c->y;
  score_clear(c, adj);
  mixture_prepare(c);
  double L = mixture_quantile(c, 0.5 * alpha), U = mixture_quantile(c, 1 - 0.5 * alpha);
  mixture_quantile_adjoint(c, L, 1 - (y < L) * 2 / alpha, adj);
  mixture_quantile_adjoint(c, U, (y > U) * 2 / alpha - 1, adj);
  return -(U - L + 2 / alpha * (fmax(L - y, 0) + fmax(y - U, 0)));
}
