/* special.c: functions on the log scale, of the normal distribution, and of the gamma family, of
 * one double.
 *
 * Most are one lane of vmath.h, so that what runs draw by draw agrees with what runs in the
 * kernels.
 */
#include "num/special.h"

#include <math.h>

#include "num/vmath.h"

#define SCALAR(name, f)                                                                            \
  double name(double x) { return f(v_splat(x))[0]; }

/* ---- on the log scale ------------------------------------------------------------------------ */

SCALAR(num_log1p_exp, v_log1p_exp)
SCALAR(num_inv_logit, v_inv_logit)
SCALAR(num_logit, v_logit)

double num_log1m_exp(double x) { return x > -0.6931471805599453 ? log(-expm1(x)) : log1p(-exp(x)); }

double num_log_diff_exp(double a, double b) {
  if (a == b && !isnan(a)) return a == (double)INFINITY ? (double)NAN : -(double)INFINITY;
  return b == -(double)INFINITY ? a : a + num_log1m_exp(b - a);
}

double num_log_sum_exp(const double *x, size_t n) {
  double max = -(double)INFINITY, sum = 0;
  for (size_t i = 0; i < n; i++) max = x[i] > max || isnan(x[i]) ? x[i] : max;
  if (!isfinite(max)) return max;
  for (size_t i = 0; i < n; i++) sum += exp(x[i] - max);
  return max + log(sum);
}

double num_log_inv_logit(double x) { return -num_log1p_exp(-x); }
double num_log1m_inv_logit(double x) { return -num_log1p_exp(x); }

/* inv_logit(x) - inv_logit(y) = (e^x - e^y) / ((1 + e^x)(1 + e^y)) */
double num_log_inv_logit_diff(double x, double y) {
  if (x == (double)INFINITY) return num_log1m_inv_logit(y);
  if (y == -(double)INFINITY) return num_log_inv_logit(x);
  return x + num_log1m_exp(y - x) - num_log1p_exp(x) - num_log1p_exp(y);
}

/* ---- normal distribution --------------------------------------------------------------------- */

SCALAR(num_Phi, v_Phi)
SCALAR(num_log_Phi, v_log_Phi)
SCALAR(num_log_Phi_d, v_log_Phi_d)

static double phi(double x) { return 0.39894228040143267794 * exp(-0.5 * x * x); }

/* AS 241, then one Halley step: x -= e / (1 + x e / 2), e = (F(x) - p) / phi(x). Each part of the
 * line has its own accurate F.
 */
double num_inv_Phi(double p) {
  double x = v_inv_Phi(v_splat(p))[0], q = p - 0.5, e;
  if (!isfinite(x) || p < 1e-290) return x;
  if (fabs(x) < 1.4) /* within the polynomial of normal_centre */
    e = (normal_centre(v_splat(x))[0] - q) / phi(x);
  else
    e = (x < 0 ? num_Phi(x) - p : (1 - p) - num_Phi(-x)) / phi(x);
  return x - e / (1 + 0.5 * x * e);
}

/* Where exp(log_p) underflows: Newton's iteration on log Phi, which is nearly a parabola there. */
double num_inv_log_Phi(double log_p) {
  if (!(log_p <= 0)) return (double)NAN;
  if (log_p > -0.6931471805599453) return -num_inv_Phi(-expm1(log_p));
  if (log_p > -600) return num_inv_Phi(exp(log_p));
  if (log_p == -(double)INFINITY) return log_p;
  double x = -sqrt(-2 * log_p - log(-2 * log_p) - 1.8378770664093453);
  for (int i = 0; i < 4; i++) x -= (num_log_Phi(x) - log_p) / num_log_Phi_d(x);
  return x;
}

/* erfc(x) = 2 Phi(-sqrt(2) x) */
double num_inv_erfc(double x) { return -0.70710678118654752440 * num_inv_Phi(0.5 * x); }

/* Gauss-Legendre, 40 nodes: the positive half. */
static const double gl_x[] = {
    0.998237709710559201, 0.990726238699457006, 0.977259949983774263, 0.957916819213791656,
    0.932812808278676533, 0.902098806968874297, 0.86595950321225951,  0.824612230833311663,
    0.778305651426519388, 0.727318255189927103, 0.671956684614179548, 0.612553889667980238,
    0.549467125095128203, 0.483075801686178713, 0.413779204371605002, 0.341994090825758473,
    0.268152185007253681, 0.192697580701371099, 0.116084070675255208, 0.0387724175060508219};
static const double gl_w[] = {
    0.00452127709853319126, 0.0104982845311528136, 0.0164210583819078887, 0.0222458491941669573,
    0.0279370069800234011,  0.0334601952825478474, 0.0387821679744720176, 0.0438709081856732719,
    0.048695807635072232,   0.0532278469839368244, 0.0574397690993915514, 0.0613062424929289392,
    0.0648040134566010381,  0.067912045815233904,  0.0706116473912867797, 0.0728865823958040591,
    0.0747231690579682642,  0.0761103619006262424, 0.077039818164247966,  0.0775059479784248113};

/* T(h, a) = int_0^a exp(-h^2 (1 + x^2)/2)/(1 + x^2) dx / (2 pi), for h >= 0 and 0 <= a <= 1; beyond
 * x = 9/h nothing is left. */
static double owens_inner(double h, double a) {
  double top = h * a > 9 ? 9 / h : a, sum = 0;
  for (size_t i = 0; i < sizeof gl_x / sizeof *gl_x; i++)
    for (int side = -1; side <= 1; side += 2) {
      double x = 0.5 * top * (1 + side * gl_x[i]);
      sum += gl_w[i] * exp(-0.5 * h * h * x * x) / (1 + x * x);
    }
  return 0.5 * top * sum * exp(-0.5 * h * h) * 0.15915494309189533577;
}

/* Owen 1956: T(h, a) = T(-h, a) = -T(h, -a), and T(h, a) = (q(h) + q(ah))/2 - q(h) q(ah) - T(ah,
 * 1/a), q = 1 - Phi, for a > 1.
 */
double num_owens_t(double h, double a) {
  if (isnan(h) || isnan(a)) return h + a;
  double x = fabs(h), b = fabs(a), t;
  if (b <= 1) {
    t = owens_inner(x, b);
  } else {
    double q1 = num_Phi(-x), q2 = x == 0 ? 0.5 : num_Phi(-x * b);
    t = 0.5 * (q1 + q2) - q1 * q2 - owens_inner(x == 0 ? 0 : x * b, 1 / b);
  }
  return a < 0 ? -t : t;
}

/* ---- gamma family ---------------------------------------------------------------------------- */

SCALAR(num_lgamma, v_lgamma)
SCALAR(num_digamma, v_digamma)

/* lgamma(1 + x) = lgamma(2 + x) - log1p(x), lgamma(2 + x) = (1 + x) x H(x + 0.15). */
double num_lgamma1p(double x) {
  if (!(fabs(x) < 0.5)) return num_lgamma(1 + x);
  return (1 + x) * x * V_POLY(v_splat(x + 0.15), lgamma_H)[0] - log1p(x);
}

/* B_2k: psi_1(x) = 1/x + 1/(2x^2) + sum_k B_2k / x^(2k+1), after the recurrence psi_1(x) =
 * psi_1(x+1) + 1/x^2 up to 15. */
double num_trigamma(double x) {
  static const double B[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                             5.0 / 66, -691.0 / 2730, 7.0 / 6,  -3617.0 / 510};
  if (!(x > -0x1p52)) return (double)NAN;
  if (x <= 0) { /* psi_1(x) = (pi / sin(pi x))^2 - psi_1(1 - x) */
    double f = x - floor(x), s = f == 0 ? 0 : M_PI / sin(M_PI * f);
    return f == 0 ? (double)INFINITY : s * s - num_trigamma(1 - x);
  }
  double sum = 0;
  for (; x < 15; x++) sum += 1 / (x * x);
  double y = 1 / (x * x), t = 0;
  for (int k = 7; k >= 0; k--) t = t * y + B[k];
  return sum + (1 / x + 0.5 * y + y * t / x);
}

/* psi_2(x) = -1/x^2 - 1/x^3 - sum_k (2k + 1) B_2k / x^(2k+2), after the recurrence psi_2(x) =
 * psi_2(x+1) - 2/x^3 up to 15. */
double num_tetragamma(double x) {
  static const double B[] = {3.0 / 6,   -5.0 / 30,          7.0 / 42,     -9.0 / 30,
                             55.0 / 66, -13 * 691.0 / 2730, 15 * 7.0 / 6, -17 * 3617.0 / 510};
  if (!(x > -0x1p52)) return (double)NAN;
  if (x <= 0) { /* psi_2(x) = psi_2(1 - x) - 2 pi^3 cos(pi x) / sin(pi x)^3 */
    double f = x - floor(x), s = sin(M_PI * f);
    return f == 0 ? (double)NAN
                  : num_tetragamma(1 - x) - 2 * M_PI * M_PI * M_PI * cos(M_PI * f) / (s * s * s);
  }
  double sum = 0;
  for (; x < 15; x++) sum -= 2 / (x * x * x);
  double y = 1 / (x * x), t = 0;
  for (int k = 7; k >= 0; k--) t = t * y + B[k];
  return sum - y * (1 + 1 / x + y * t);
}

double num_stirling(double x) {
  if (x >= 4.5) return V_POLY(v_splat(1 / x / x), lgamma_W)[0] / x;
  return num_lgamma(x) - ((x - 0.5) * log(x) - x + 0.91893853320467274178);
}

/* log B(1/2, b), the constant of Student's t: with w = b - 1/4 the ratio of the two gammas has the
 * logarithm log(w) / 2 - sum_k 2 E_2k / (4^(2k + 1) 2k w^2k), E Euler's numbers; where b is small
 * it is moved up, Gamma(b + 1) = b Gamma(b). */
static double lbeta_half(double b) {
  static const double c[] = {1.0 / 64,          -5.0 / 2048,        61.0 / 49152,
                             -1385.0 / 1048576, 50521.0 / 20971520, -2702765.0 / 402653184};
  double ratio = 1, sum = 0;
  for (; b < 12; b++) ratio *= (b + 0.5) / b;
  double w = b - 0.25, r = 1 / (w * w);
  for (int k = 5; k >= 0; k--) sum = r * (c[k] + sum);
  return 0.57236494292470008707 - 0.5 * log(w / (ratio * ratio)) - sum;
}

/* The leading parts of the three lgamma are combined analytically when large (as in DiDonato &
 * Morris 1992). */
double num_lbeta(double a, double b) {
  double p = a < b ? a : b, q = a < b ? b : a, s = p + q;
  if (!(p > 0)) return p == 0 ? (double)INFINITY : (double)NAN;
  if (q == (double)INFINITY) return -q;
  if (a == 0.5 || b == 0.5) return lbeta_half(a == 0.5 ? b : a);
  if (p >= 10)
    return 0.91893853320467274178 - 0.5 * log(q) +
           (num_stirling(p) + num_stirling(q) - num_stirling(s)) + (p - 0.5) * log(p / s) +
           q * log1p(-p / s);
  if (q >= 10)
    return num_lgamma(p) + (num_stirling(q) - num_stirling(s)) + p - p * log(s) +
           (q - 0.5) * log1p(-p / s);
  return num_lgamma(p) + (num_lgamma(q) - num_lgamma(s));
}

/* (n over k) = 1 / ((n + 1) B(n - k + 1, k + 1)) */
double num_lchoose(double n, double k) {
  if (k == 0 || k == n) return 0;
  return -num_lbeta(n - k + 1, k + 1) - log1p(n);
}

double num_lmgamma(int k, double x) {
  double s = 0.25 * k * (k - 1) * 1.1447298858494001741; /* log pi */
  for (int j = 1; j <= k; j++) s += num_lgamma(x + 0.5 * (1 - j));
  return s;
}

/* w e^w = x by Halley's iteration (Corless et al. 1996). */
static double lambert_refine(double w, double x) {
  for (int i = 0; i < 30; i++) {
    double e = exp(w), f = w * e - x, step = f / (e * (w + 1) - 0.5 * (w + 2) * f / (w + 1));
    w -= step;
    if (!(fabs(step) > 1e-16 * fabs(w))) break;
  }
  return w;
}

/* Near the branch point x = -1/e: w = -1 + p - p^2/3 + 11 p^3/72, p = +-sqrt(2 (e x + 1)). */
static double lambert_branch(double x, double sign) {
  double z = 2 * (2.718281828459045 * x + 1 + 1.4456468917292502e-16 * x),
         p = sign * sqrt(z > 0 ? z : 0);
  double w = -1 + p * (1 + p * (-1.0 / 3 + p * (11.0 / 72)));
  return fabs(p) < 1e-5 ? w : lambert_refine(w, x);
}

double num_lambert_w0(double x) {
  if (!(x >= -0.36787944117144233)) return (double)NAN;
  if (x == 0 || x == (double)INFINITY) return x;
  if (x < -0.2) return lambert_branch(x, 1);
  double l = log1p(x); /* a start good to some percent everywhere */
  return lambert_refine(
      x < 3 ? l * (1 - log1p(l) / (2 + l)) : log(x) - log(log(x)) * (1 - 1 / log(x)), x);
}

/* For the lower branch w + log(-w) = log(-x): Newton's iteration in that form has no underflow. */
double num_lambert_wm1(double x) {
  if (!(x >= -0.36787944117144233 && x < 0)) return x == 0 ? -(double)INFINITY : (double)NAN;
  if (x < -0.3) return lambert_branch(x, -1);
  double l = log(-x), w = l - log(-l);
  for (int i = 0; i < 12; i++) w -= (w + log(-w) - l) / (1 + 1 / w);
  return w;
}
