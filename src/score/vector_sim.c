/* vector_sim.c: sums of a function of two points over simulated outcomes, and their derivatives. */
#include "score/vector_sim.h"

#include <math.h>

static double distance2(const double *a, const double *b, size_t n) {
  double s = 0;
  for (size_t i = 0; i < n; i++) s += (a[i] - b[i]) * (a[i] - b[i]);
  return s;
}

/* A point and where its derivatives are added, or NULL. */
typedef struct {
  const double *at;
  double *adj;
} Point;

/* Simulated outcome k. */
static Point outcome(const ScoreCase *c, const ScoreAdjoint *adj, size_t k) {
  return (Point){c->sim + k * c->dim, adj->sim ? adj->sim + k * c->dim : NULL};
}

/* weight D(a, b), and its derivatives. */
static double add_pair(const ScoreCase *c, PairFunction *D, double weight, Point a, Point b) {
  double slope, value = D(distance2(a.at, b.at, c->dim), &c->o, &slope);
  for (size_t i = 0; a.adj && i < c->dim; i++) {
    double g = weight * slope * (a.at[i] - b.at[i]);
    a.adj[i] += g;
    if (b.adj) b.adj[i] -= g;
  }
  return weight * value;
}

double vector_sim_score(const ScoreCase *c, PairFunction *D, const ScoreAdjoint *adj) {
  size_t K = c->nsim, half = K / 2;
  double value = 0, all = (double)K * (double)(K - 1);
  score_clear(c, adj);
  if (K < 2) return (double)NAN;
  for (size_t k = 0; k < K; k++)
    value += add_pair(c, D, 1 / (double)K, outcome(c, adj, k), (Point){c->yvec, NULL});
  if (c->o.halves) {
    for (size_t k = 0; k < half; k++)
      value += add_pair(c, D, -0.5 / (double)half, outcome(c, adj, k), outcome(c, adj, k + half));
    return value;
  }
  for (size_t k = 1; k < K; k++)
    for (size_t j = 0; j < k; j++)
      value += add_pair(c, D, -1 / all, outcome(c, adj, k), outcome(c, adj, j));
  return value;
}
