/* logistic.c: a logistic variable is 2 K Z, Z standard normal and K of Kolmogorov's distribution
 * (Andrews & Mallows 1974; Stefanski 1991). The integral over t = 2 K is done by the trapezoidal
 * rule in log t, which converges exponentially: its error is about exp(-4.9 / step) in the middle,
 * and exp(-4.9 / (f step^2)) times the value where that is exp(-f).
 */
#include "num/logistic.h"

#include <math.h>

/* The density of t: two series, for small and for large t. */
static double kolmogorov(double t) {
  double sum = 0;
  if (t < 2) {
    for (int j = 1; j < 12; j += 2) {
      double a = 0.5 * (double)(j * j) * M_PI * M_PI / (t * t);
      sum += exp(-a) * (2 * a - 1);
    }
    return 2 * sqrt(2 * M_PI) * sum / (t * t);
  }
  for (int j = 1; j < 12; j++)
    sum += (j % 2 ? 2 : -2) * (double)(j * j) * t * exp(-0.5 * (double)(j * j) * t * t);
  return sum;
}

void logistic_mixture(size_t n, double *v, double *w) {
  const double least = 0.42;
  double most = 14 * fmax(1, sqrt((double)n / 24)), sum = 0;
  double step = log(most / least) / (double)(n - 1);
  for (size_t k = 0; k < n; k++) {
    double t = least * exp((double)k * step);
    v[k] = t * t;
    w[k] = t * kolmogorov(t);
    sum += w[k];
  }
  for (size_t k = 0; k < n; k++) w[k] /= sum;
}
