/* bessel.c: Bessel functions, for the von Mises distribution and Stan's functions of the same
 * names. J and Y are libm's. */
#include <math.h>

#include "num/special.h"

#define EULER 0.57721566490153286061
#define LOG_2PI 1.8378770664093454836

/* sum_k>=1 y^k / (k! (nu+1)...(nu+k)), y = x^2/4: I_nu's power series without its first term; all
 * terms are positive. */
static double i_series(double nu, double y) {
  double t = 1, s = 0;
  for (int k = 1; k < 1000; k++) {
    t *= y / (k * (nu + k));
    s += t;
    if (t < 1e-17 * s) break;
  }
  return s;
}

/* Hankel's expansion: I_nu(x) sqrt(2 pi x) e^-x = 1 - (4 nu^2 - 1)/(8x) + (4 nu^2 - 1)(4 nu^2 -
 * 9)/(2! (8x)^2) - ... */
static double i_hankel(double nu, double x) {
  double t = 1, s = 0;
  for (int k = 1; k < 200; k++) {
    double odd = 2.0 * k - 1, next = -t * (4 * nu * nu - odd * odd) / (8 * x * k);
    if (fabs(next) > fabs(t)) break; /* it diverges from here */
    t = next;
    s += t;
    if (fabs(t) < 1e-17) break;
  }
  return s;
}

double num_log_bessel_i0(double x) {
  x = fabs(x);
  if (x < 20) return log1p(i_series(0, 0.25 * x * x));
  return isinf(x) ? x : x - 0.5 * (LOG_2PI + log(x)) + log1p(i_hankel(0, x));
}

double num_log_bessel_i1(double x) {
  x = fabs(x);
  if (x < 20) return log(0.5 * x) + log1p(i_series(1, 0.25 * x * x));
  return isinf(x) ? x : x - 0.5 * (LOG_2PI + log(x)) + log1p(i_hankel(1, x));
}

double num_bessel_ratio(double x) {
  double a = fabs(x), r;
  if (a < 20)
    r = 0.5 * a * (1 + i_series(1, 0.25 * a * a)) / (1 + i_series(0, 0.25 * a * a));
  else
    r = isinf(a) ? 1 : (1 + i_hankel(1, a)) / (1 + i_hankel(0, a));
  return x < 0 ? -r : r;
}

/* The power series from its largest term outwards, so that nothing overflows. */
static double log_i_peak(double nu, double x) {
  double y = 0.25 * x * x, k0 = floor(0.5 * (sqrt(nu * nu + x * x) - nu)), s = 1, t = 1;
  double peak = (nu + 2 * k0) * log(0.5 * x) - num_lgamma(k0 + 1) - num_lgamma(nu + k0 + 1);
  for (double k = k0 + 1; t > 1e-17 * s; k++) s += (t *= y / (k * (nu + k)));
  t = 1;
  for (double k = k0; k >= 1 && t > 1e-17 * s; k--) s += (t *= k * (nu + k) / y);
  return peak + log(s);
}

double num_log_bessel_i(double nu, double x) {
  if (!(nu >= 0) || !(x >= 0)) return (double)NAN;
  if (x == 0) return nu == 0 ? 0 : -(double)INFINITY;
  if (isinf(x)) return x;
  if (x > 30 && x > nu * nu) return x - 0.5 * (LOG_2PI + log(x)) + log1p(i_hankel(nu, x));
  if (x < 10) return nu * log(0.5 * x) - num_lgamma1p(nu) + log1p(i_series(nu, 0.25 * x * x));
  return log_i_peak(nu, x);
}

double num_bessel_i(double n, double x) {
  double m = fabs(n), r = exp(num_log_bessel_i(m, fabs(x)));
  return x < 0 && fmod(m, 2) != 0 ? -r : r;
}

/* Recurrences take as many steps as the order has, so there is an end to it. Where the order is
 * much larger than x, |J_n| <= (x/2)^n / n! and -Y_n >= (n-1)!/pi (2/x)^n. */
enum { MOST_ORDER = 1000000 };

static bool vanishes(double m, double x) {
  return m * log(0.5 * fabs(x)) - num_lgamma(m + 1) < -800;
}

double num_bessel_j(double n, double x) {
  double m = fabs(n);
  if (m > MOST_ORDER) return m > fabs(x) && vanishes(m, x) ? 0 : (double)NAN;
  return jn((int)n, x);
}

double num_bessel_y(double n, double x) {
  double m = fabs(n), sign = n < 0 && fmod(m, 2) != 0 ? 1 : -1;
  if (m > MOST_ORDER)
    return x > 0 && m > x && vanishes(m, x) ? sign * (double)INFINITY : (double)NAN;
  return yn((int)n, x);
}

/* K_0 = -(log(x/2) + gamma) I_0 + sum_k y^k/(k!)^2 (1 + 1/2 + ... + 1/k), and K_1 from the
 * Wronskian I_0 K_1 + I_1 K_0 = 1/x.
 */
static void k_series(double x, double *k0, double *k1) {
  double y = 0.25 * x * x, t = 1, H = 0, s = 0, i0 = 1 + i_series(0, y),
         i1 = 0.5 * x * (1 + i_series(1, y));
  for (int k = 1; k < 50; k++) {
    t *= y / ((double)k * k);
    H += 1.0 / k;
    s += t * H;
  }
  *k0 = s - (log(0.5 * x) + EULER) * i0;
  *k1 = (1 / x - i1 * *k0) / i0;
}

/* Steed's method for Temme's continued fraction (Numerical Recipes, section 6.7), at order 0; x
 * >= 2. */
static void k_steed(double x, double *k0, double *k1) {
  double b = 2 * (1 + x), d = 1 / b, h = d, dh = d, q1 = 0, q2 = 1, a1 = 0.25, q = a1, c = a1,
         a = -a1, s = 1 + q * dh;
  for (int i = 2; i < 10000; i++) {
    a -= 2 * (i - 1);
    c = -a * c / i;
    double qn = (q1 - b * q2) / a;
    q1 = q2;
    q2 = qn;
    q += c * qn;
    b += 2;
    d = 1 / (b + a * d);
    dh = (b * d - 1) * dh;
    h += dh;
    s += q * dh;
    if (fabs(q * dh) < 1e-17 * fabs(s)) break;
  }
  *k0 = sqrt(M_PI_2 / x) * exp(-x) / s;
  *k1 = *k0 * (x + 0.5 - a1 * h) / x;
}

double num_bessel_k(double n, double x) {
  if (!(x > 0)) return x == 0 ? (double)INFINITY : (double)NAN;
  double k0, k1, m = fabs(n);
  if (m > MOST_ORDER) return m > x && vanishes(m, x) ? (double)INFINITY : (double)NAN;
  if (x < 2)
    k_series(x, &k0, &k1);
  else
    k_steed(x, &k0, &k1);
  for (int i = 0; i < m && isfinite(k0); i++) { /* K_(i+2) = K_i + 2 (i+1)/x K_(i+1) */
    double next = k0 + 2.0 * (i + 1) / x * k1;
    k0 = k1;
    k1 = next;
  }
  return k0;
}
