/* log.c: log sum_j w_j exp(l_j); d / d l_j = w_j exp(l_j) / sum: the posterior weight of draw j given y_i. */
#include "score/score.h"

#include <math.h>

double score_log(const Lanes *lanes, const double *l, double *adj) {
  size_t M = lanes->M;
  if (!lanes->weights) return lanes->k->softmax(adj, l, M) - log((double)M);
  double top = -INFINITY, sum = 0;
  for (size_t j = 0; j < M; j++) top = l[j] > top ? l[j] : top;
  for (size_t j = 0; j < M; j++) sum += lanes->weights[j] * exp(l[j] - top);
  for (size_t j = 0; adj && j < (M + LANES - 1) / LANES * LANES; j++)
    adj[j] = j < M ? lanes->weights[j] * exp(l[j] - top) / sum : 0;
  return top + log(sum);
}
