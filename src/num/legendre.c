/* legendre.c: nodes are the zeros of Legendre's polynomial, by Newton's method from Tricomi's
 * approximation; the polynomial and its derivative come from the three-term recurrence. */
#include "num/legendre.h"

#include <math.h>

/* P_n(z), and its derivative. */
static double polynomial(size_t n, double z, double *slope) {
  double p = 1, before = 0;
  for (size_t k = 1; k <= n; k++) {
    double next = ((2 * (double)k - 1) * z * p - ((double)k - 1) * before) / (double)k;
    before = p;
    p = next;
  }
  *slope = (double)n * (z * p - before) / (z * z - 1);
  return p;
}

void legendre_rule(size_t n, double *x, double *w) {
  for (size_t k = 0; k < (n + 1) / 2; k++) {
    double z = cos(M_PI * ((double)k + 0.75) / ((double)n + 0.5)), slope;
    for (int step = 0; step < 8; step++) {
      double p = polynomial(n, z, &slope);
      z -= p / slope;
    }
    if (n % 2 && k == n / 2) z = 0;
    polynomial(n, z, &slope);
    x[k] = 0.5 * (1 - z);
    x[n - 1 - k] = 0.5 * (1 + z);
    w[k] = w[n - 1 - k] = 1 / ((1 - z * z) * slope * slope);
  }
}
