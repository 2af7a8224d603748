/* elbo.c: sum_j w_j l_j. */
#include "score/score.h"

double score_elbo(const ScoreCase *c, const ScoreAdjoint *adj) {
  size_t M = c->q.M, padded = (M + LANES - 1) / LANES * LANES;
  const double *w = c->q.weights;
  double each = 1.0 / (double)M;
  if (adj->ll) {
    for (size_t j = 0; j < M; j++) adj->ll[j] = each;
    for (size_t j = 0; w && j < M; j++) adj->ll[j] = w[j];
    for (size_t j = M; j < padded; j++) adj->ll[j] = 0;
  }
  if (adj->weights) {
    for (size_t j = 0; j < M; j++) adj->weights[j] = c->ll[j];
    for (size_t j = M; j < padded; j++) adj->weights[j] = 0;
  }
  return w ? c->k->dot(w, c->ll, M) : c->k->sum(c->ll, M) * each;
}

void score_elbo_rows(const ScoreRows *c) {
  double each = 1.0 / (double)c->M;
  for (size_t r = 0; r < c->rows; r++) {
    if (c->adj) c->k->fill(c->adj + r * c->ld, each, c->M);
    c->scores[r] = c->k->sum(c->ll + r * c->ld, c->M) * each;
  }
}
