/* vector_sim.c: sums of a function of two points over simulated outcomes, and their derivatives. */
#include "score/vector_sim.h"

#include <math.h>

static double distance2(const double *a, const double *b, size_t n) {
  double s = 0;
  for (size_t i = 0; i < n; i++) s += (a[i] - b[i]) * (a[i] - b[i]);
  return s;
}

/* weight D(a, b); its derivatives are added where there is an adjoint. */
static double add_pair(const ScoreCase *c, PairFunction *D, double weight, const double *a,
                       const double *b, double *da, double *db) {
  double slope, value = D(distance2(a, b, c->dim), &c->o, &slope);
  for (size_t i = 0; da && i < c->dim; i++) {
    double g = weight * slope * (a[i] - b[i]);
    da[i] += g;
    if (db) db[i] -= g;
  }
  return weight * value;
}

double vector_sim_score(const ScoreCase *c, PairFunction *D, const ScoreAdjoint *adj) {
  size_t K = c->nsim, half = K / 2, n = c->dim;
  double value = 0, all = (double)K * (double)(K - 1);
  const double *Y = c->sim;
  double *dY = adj->sim;
  score_clear(c, adj);
  if (K < 2) return (double)NAN;
#define AT(p, k) ((p) ? (p) + (k)*n : NULL)
  for (size_t k = 0; k < K; k++)
    value += add_pair(c, D, 1 / (double)K, Y + k * n, c->yvec, AT(dY, k), NULL);
  if (c->o.halves) {
    for (size_t k = 0; k < half; k++)
      value += add_pair(c, D, -0.5 / (double)half, Y + k * n, Y + (k + half) * n, AT(dY, k),
                        AT(dY, k + half));
    return value;
  }
  for (size_t k = 1; k < K; k++)
    for (size_t j = 0; j < k; j++)
      value += add_pair(c, D, -1 / all, Y + k * n, Y + j * n, AT(dY, k), AT(dY, j));
#undef AT
  return value;
}
