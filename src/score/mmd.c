/* mmd.c: minus the squared maximum mean discrepancy between the predictive distribution and the
 * point mass at y,
 *   MMD^2 = E k(Y, Y') - 2 E k(Y, y) + k(y, y),  k(a, b) = exp(-|a - b|^2 / (2 h^2)),
 * from simulated outcomes. The bandwidth h must not depend on the forecast, or the score would not
 * be proper. */
#include "score/vector_sim.h"

#include <math.h>

/* D = 2 k, dD / da = -2 k (a - b) / h^2 */
static double twice_kernel(double r2, const ScoreOptions *o, double *slope) {
  double h = o->bandwidth > 0 ? o->bandwidth : 1, k = 2 * exp(-0.5 * r2 / (h * h));
  *slope = -k / (h * h);
  return k;
}

double score_mmd(const ScoreCase *c, const ScoreAdjoint *adj) {
  return vector_sim_score(c, twice_kernel, adj) - 1;
}
