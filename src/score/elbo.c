/* elbo.c: sum_j w_j l_j. */
#include "score/score.h"

double score_elbo(const Lanes *lanes, const double *l, double *adj) {
  size_t M = lanes->M;
  double each = 1.0 / (double)M;
  for (size_t j = 0; adj && j < (M + LANES - 1) / LANES * LANES; j++)
    adj[j] = j >= M ? 0 : lanes->weights ? lanes->weights[j] : each;
  return lanes->weights ? lanes->k->dot(lanes->weights, l, M) : lanes->k->sum(l, M) * each;
}
