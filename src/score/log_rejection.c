/* log_rejection.c: the paper's unbiased estimator (b) of the gradient of the log score (supplement,
 * "Unbiased rejection sampling for the logarithmic score gradient"): accept draw j when t_j < p(y |
 * theta_j) / C, t_j uniform; then d/dphi log int p(y | theta) q(theta) dtheta ~ sum_j accepted
 * d/dphi log q(theta_j) / number accepted. Unbiased for any M given that something was accepted;
 * with nothing accepted the caller draws again. Its variance is far larger than that of the
 * reparameterised gradient. */
#include "score/score.h"

#include <math.h>

size_t score_log_rejection(const double *ll, const double *uniform, size_t M, double log_bound,
                           double *weights) {
  size_t accepted = 0;
  for (size_t j = 0; j < M; j++) {
    bool in = log(uniform[j]) < ll[j] - log_bound;
    weights[j] = in;
    accepted += in;
  }
  for (size_t j = 0; accepted && j < M; j++) weights[j] /= (double)accepted;
  return accepted;
}
