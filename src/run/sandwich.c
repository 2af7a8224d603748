/* sandwich.c: see sandwich.h. All derivatives are central differences of single scores. */
#include "run/sandwich.h"

#include <math.h>

enum { POINTS = 9 }; /* the corners, edges and middle of a square of steps: 3 (i + 1) + (j + 1) */

static double *scores_around(Arena *a, const ScoredAt *s, double *phi, const size_t at[2],
                             const double step[2]) {
  double *all = NEW_ARRAY(a, double, POINTS * s->n + 1), kept[2] = {phi[at[0]], phi[at[1]]};
  for (int i = -1; i <= 1; i++)
    for (int j = -1; j <= 1; j++) {
      phi[at[0]] = kept[0] + i * step[0];
      phi[at[1]] = kept[1] + j * step[1];
      s->scores(s->self, phi, all + (size_t)(3 * (i + 1) + j + 1) * s->n);
    }
  phi[at[0]] = kept[0];
  phi[at[1]] = kept[1];
  return all;
}

static double sum(const double *x, size_t n) {
  double total = 0;
  for (size_t k = 0; k < n; k++) total += isnan(x[k]) ? 0 : x[k];
  return total;
}

double sandwich_error(Arena *a, const ScoredAt *s, double *phi, const size_t at[2],
                      const double step[2]) {
  size_t n = s->n;
  const double *v = scores_around(a, s, phi, at, step);
  double f[POINTS], J[2][2] = {{0, 0}, {0, 0}}, H[2][2];
  for (int k = 0; k < POINTS; k++) f[k] = sum(v + (size_t)k * n, n);
  for (size_t i = 0; i < n; i++) {
    double g[2] = {(v[7 * n + i] - v[1 * n + i]) / (2 * step[0]),
                   (v[5 * n + i] - v[3 * n + i]) / (2 * step[1])};
    if (isnan(g[0]) || isnan(g[1])) continue;
    for (int p = 0; p < 2; p++)
      for (int q = 0; q < 2; q++) J[p][q] += g[p] * g[q];
  }
  H[0][0] = (f[7] - 2 * f[4] + f[1]) / (step[0] * step[0]);
  H[1][1] = (f[5] - 2 * f[4] + f[3]) / (step[1] * step[1]);
  H[0][1] = H[1][0] = (f[8] - f[6] - f[2] + f[0]) / (4 * step[0] * step[1]);
  double det = H[0][0] * H[1][1] - H[0][1] * H[1][0];
  if (!(det > 0) || !(H[1][1] < 0)) return NAN;
  double row[2] = {-H[1][0] / det, H[0][0] / det}; /* of the inverse */
  double variance = 0;
  for (int p = 0; p < 2; p++)
    for (int q = 0; q < 2; q++) variance += row[p] * J[p][q] * row[q];
  return sqrt(variance);
}
