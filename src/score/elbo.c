/* elbo.c: sum_j w_j l_j. */
#include "score/score.h"

double score_elbo(const ScoreCase *c, const ScoreAdjoint *adj) {
  size_t M = c->q.M;
  const double *w = c->q.weights;
  double each = 1.0 / (double)M;
  for (size_t j = 0; adj->ll && j < (M + LANES - 1) / LANES * LANES; j++) adj->ll[j] = j >= M ? 0 : w ? w[j] : each;
  for (size_t j = 0; adj->weights && j < (M + LANES - 1) / LANES * LANES; j++) adj->weights[j] = j < M ? c->ll[j] : 0;
  return w ? c->k->dot(w, c->ll, M) : c->k->sum(c->ll, M) * each;
}
