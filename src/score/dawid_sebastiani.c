/* dawid_sebastiani.c: -log v - (y - m)^2 / v with mean m and variance v of the mixture (Dawid and
 * Sebastiani 1999): the log score of a normal with its moments, up to constants. v = sum_j w_j (v_j
 * + (m_j - m)^2); -inf where a variance is infinite. Categories count as the numbers 1, 2, ... */
#include "score/predictive_mixture.h"

#include <math.h>

/* What the score and its adjoint share. */
typedef struct {
  double mean, variance, by_mean, by_variance;
} State;

static double finish(State *s, double y) {
  double r = (y - s->mean) / s->variance;
  s->by_mean = 2 * r;
  s->by_variance = r * r - 1 / s->variance;
  return -log(s->variance) - r * (y - s->mean);
}

/* d m = sum_j w_j dm_j, d v = sum_j w_j [dv_j + 2 (m_j - m) dm_j] */
static void lanes_adjoint(const ScoreCase *c, const State *s, const ScoreAdjoint *adj) {
  double par[KIND_PARAMETERS];
  int n = kind_parameters(c->q.kind);
  for (size_t j = 0; j < c->q.M; j++) {
    mixture_lane(&c->q, j, par);
    Moments x = kind_code(c->q.kind)->moments(par, c->q.size);
    double off = x.mean - s->mean, w = mixture_weight(&c->q, j),
           gm = s->by_mean + 2 * off * s->by_variance;
    for (int k = 0; k < n; k++)
      if (adj->par[k]) adj->par[k][j] = w * (gm * x.dmean[k] + s->by_variance * x.dvariance[k]);
    if (adj->weights)
      adj->weights[j] = s->by_mean * x.mean + s->by_variance * (x.variance + off * off);
  }
}

/* Probabilities P_k of the mixture: m = sum k P_k, v = sum (k - m)^2 P_k, so dv / dP_k = (k - m)^2.
 */
static void categorical_state(const ScoreCase *c, State *s) {
  double p;
  *s = (State){0};
  for (double k = 1; k <= (double)c->q.size; k++) mixture_pmf(c, k, 1, &p), s->mean += k * p;
  for (double k = 1; k <= (double)c->q.size; k++)
    mixture_pmf(c, k, 1, &p), s->variance += (k - s->mean) * (k - s->mean) * p;
}

static void categorical_adjoint(const ScoreCase *c, const State *s, const ScoreAdjoint *adj) {
  for (double k = 1; k <= (double)c->q.size; k++) {
    double g = s->by_mean * k + s->by_variance * (k - s->mean) * (k - s->mean);
    mixture_pmf_adjoint(c, k, 1, &g, adj);
  }
}

double score_dawid_sebastiani(const ScoreCase *c, const ScoreAdjoint *adj) {
  State s = {0};
  bool categorical = kind_code(c->q.kind)->vector;
  score_clear(c, adj);
  if (categorical)
    categorical_state(c, &s);
  else
    s.mean = mixture_moments(c, &s.variance);
  if (!(s.variance < (double)INFINITY)) return (double)-INFINITY;
  double value = finish(&s, c->y);
  if (categorical)
    categorical_adjoint(c, &s, adj);
  else
    lanes_adjoint(c, &s, adj);
  return value;
}
