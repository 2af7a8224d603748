/* log.c: log sum_j w_j exp(l_j); d / d l_j = w_j exp(l_j) / sum: the posterior weight of lane j
 * given y. */
#include "score/predictive_mixture.h"

#include <math.h>

/* Of a lane whose density is nan or infinite: it has none, and predicts nothing. */
static double lane_density(double ll) { return ll < (double)INFINITY ? ll : -(double)INFINITY; }

/* Lanes with weights whose logarithms are known: added to l, they are lanes of weight one. */
static double log_weighted(const ScoreCase *c, const ScoreAdjoint *adj) {
  size_t M = c->q.M;
  double *l = c->scratch;
  for (size_t j = 0; j < M; j++) l[j] = c->ll[j] + c->q.log_weights[j];
  for (size_t j = M; j < score_padded(M); j++) l[j] = -INFINITY;
  double s = c->k->softmax(adj->ll, l, M);
  for (size_t j = 0; adj->weights && j < score_padded(M); j++)
    adj->weights[j] = j < M ? exp(lane_density(c->ll[j]) - s) : 0;
  return s;
}

/* Lanes with weights of their own. */
static double weighted(const ScoreCase *c, const ScoreAdjoint *adj) {
  size_t M = c->q.M;
  double top = -INFINITY, sum = 0;
  for (size_t j = 0; j < M; j++) top = fmax(top, lane_density(c->ll[j]));
  if (!isfinite(top)) top = 0;
  for (size_t j = 0; j < M; j++) sum += c->q.weights[j] * exp(lane_density(c->ll[j]) - top);
  for (size_t j = 0; j < score_padded(M); j++) {
    double p = j < M ? exp(lane_density(c->ll[j]) - top) / sum : 0;
    if (adj->ll) adj->ll[j] = j < M ? c->q.weights[j] * p : 0;
    if (adj->weights) adj->weights[j] = p;
  }
  return top + log(sum);
}

double score_log(const ScoreCase *c, const ScoreAdjoint *adj) {
  size_t M = c->q.M;
  if (c->q.weights) return c->q.log_weights ? log_weighted(c, adj) : weighted(c, adj);
  if (!adj->weights) return c->k->softmax(adj->ll, c->ll, M) - log((double)M);
  double all = c->k->softmax(adj->weights, c->ll, M);
  for (size_t j = 0; j < score_padded(M); j++) {
    if (adj->ll) adj->ll[j] = adj->weights[j];
    adj->weights[j] *= (double)M;
  }
  return all - log((double)M);
}

void score_log_rows(const ScoreRows *c) {
  double shift = log((double)c->M);
  c->k->softmax_rows(&(SoftmaxRows){c->adj, c->ll, NULL, c->ld, c->rows, c->M, c->scores});
  for (size_t r = 0; r < c->rows; r++) c->scores[r] -= shift;
}
