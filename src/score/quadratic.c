/* quadratic.c: the quadratic (Brier) score of a discrete outcome, 2 p_y - sum_k p_k^2, p_k = sum_j
 * w_j p_jk: proper, unlike the form in the paper's released code, which counts f^2 twice. Counts
 * without bound: over the support up to mass 1e-15. */
#include "score/predictive_mixture.h"

#include <math.h>

double score_quadratic(const ScoreCase *c, const ScoreAdjoint *adj) {
  double lo, hi, p[PMF_BLOCK], squares = 0, py;
  score_clear(c, adj);
  mixture_support(c, &lo, &hi);
  mixture_pmf(c, c->y, 1, &py);
  mixture_pmf_adjoint(c, c->y, 1, &(double){2}, adj);
  for (double k = lo; k <= hi; k += PMF_BLOCK) {
    size_t n = (size_t)fmin(hi - k + 1, PMF_BLOCK);
    mixture_pmf(c, k, n, p);
    for (size_t i = 0; i < n; i++) {
      squares += p[i] * p[i];
      p[i] *= -2;
    }
    mixture_pmf_adjoint(c, k, n, p, adj);
  }
  return 2 * py - squares;
}
