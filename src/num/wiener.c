/* wiener.c: the time at which a Wiener process without drift first reaches 0 from w, 0 < w < 1, not
 * having reached 1. Two series, of which the one for short times is an image sum, the other one of
 * eigenfunctions (Feller 1968, chapter XIV.6); each converges within a few terms where it is used.
 */
#include "num/special.h"

#include <math.h>

enum { TERMS = 7 };
static const double SHORT = 0.5;

/* (2 pi t^3)^(-1/2) sum_k (w + 2k) exp(-(w + 2k)^2 / (2t)), the term k = 0 taken out of the sum */
static double short_times(double t, double w, double *dt, double *dw) {
  double s = 0, st = 0, sw = 0;
  for (int k = -TERMS; k <= TERMS; k++) {
    double a = w + 2 * k, g = 0.5 * (a * a - w * w) / t, e = exp(-g);
    s += a * e;
    st += a * e * g / t;
    sw += e * (1 - a * (a - w) / t);
  }
  *dt = 0.5 * w * w / (t * t) - 1.5 / t + st / s;
  *dw = -w / t + sw / s;
  return log(s) - 0.5 * w * w / t - 1.5 * log(t) - 0.91893853320467274178;
}

/* pi sum_k k exp(-k^2 pi^2 t / 2) sin(k pi w), the exponential of k = 1 taken out */
static double long_times(double t, double w, double *dt, double *dw) {
  double s = 0, st = 0, sw = 0, rate = 0.5 * M_PI * M_PI;
  for (int k = 1; k <= TERMS; k++) {
    double g = rate * (k * k - 1), e = k * exp(-g * t);
    s += e * sin(k * M_PI * w);
    st -= e * g * sin(k * M_PI * w);
    sw += e * k * M_PI * cos(k * M_PI * w);
  }
  *dt = st / s - rate;
  *dw = sw / s;
  return log(M_PI) - rate * t + log(s);
}

double num_log_passage_d(double t, double w, double *dt, double *dw) {
  *dt = *dw = 0;
  if (!(t > 0)) return t <= 0 ? -INFINITY : t;
  return (t < SHORT ? short_times : long_times)(t, w, dt, dw);
}

double num_log_passage(double t, double w) {
  return num_log_passage_d(t, w, &(double){0}, &(double){0});
}
