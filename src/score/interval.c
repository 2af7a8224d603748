/* interval.c: minus the interval score (Winkler 1972; Gneiting and Raftery 2007) of the central
 * interval of level 1 - alpha: IS = (U - L) + 2/alpha [(L - y)_+ + (y - U)_+],  L, U = quantiles of
 * the mixture at alpha/2, 1 - alpha/2. Derivatives through the quantiles: every lane contributes
 * (mixture_quantile_adjoint). Discrete kinds have a value only. With o.smooth = tau > 0 the hinge
 * (x)_+ is tau log(1 + e^(x / tau)): a way to the optimum without kinks, never a result. */
#include "num/special.h"
#include "score/predictive_mixture.h"

#include <math.h>

/* (x)_+ and its derivative, smooth for tau > 0. */
static double hinge(double x, double tau, double *slope) {
  if (tau <= 0) {
    *slope = x > 0;
    return fmax(x, 0);
  }
  *slope = num_inv_logit(x / tau);
  return tau * num_log1p_exp(x / tau);
}

double score_interval(const ScoreCase *c, const ScoreAdjoint *adj) {
  double alpha = c->o.alpha > 0 ? c->o.alpha : 0.1, y = c->y;
  score_clear(c, adj);
  mixture_prepare(c);
  double L = mixture_quantile(c, 0.5 * alpha, c->hint),
         U = mixture_quantile(c, 1 - 0.5 * alpha, c->hint ? c->hint + 1 : NULL);
  double below, above, miss = hinge(L - y, c->o.smooth, &below) + hinge(y - U, c->o.smooth, &above);
  mixture_quantile_adjoint(c, L, 1 - below * 2 / alpha, adj);
  mixture_quantile_adjoint(c, U, above * 2 / alpha - 1, adj);
  return -(U - L + 2 / alpha * miss);
}
