/* quadratic.c: the quadratic (Brier) score of a discrete outcome, 2 p_y - sum_k p_k^2, p_k = sum_j
 * w_j p_jk: proper, unlike the form in the paper's released code, which counts f^2 twice. Counts
 * are in count_sums.c. */
#include "score/count_sums.h"

static double categories(const ScoreCase *c, const ScoreAdjoint *adj) {
  double lo, hi, p, score = 0;
  mixture_support(c, &lo, &hi);
  for (double k = lo; k <= hi; k++) {
    mixture_pmf(c, k, 1, &p);
    score += p * (2 * (k == c->y) - p);
    mixture_pmf_adjoint(c, k, 1, &(double){2 * ((k == c->y) - p)}, adj);
  }
  return score;
}

double score_quadratic(const ScoreCase *c, const ScoreAdjoint *adj) {
  score_clear(c, adj);
  return kind_code(c->q.kind)->count ? count_quadratic(c, adj) : categories(c, adj);
}
