/* component.c: cdf, density, E|Y - y| and moments of one lane, with derivatives by its parameters.
 * One section a kind; the tables are at the end. Densities of counts are Loader's saddle-point
 * forms (2000), exact to a few ulp at any size. */
#include "score/component.h"

#include "num/special.h"

#include <math.h>

#define PI 3.14159265358979323846
#define SQRT_2PI 2.50662827463100050242

/* ---- location-scale kinds: Z standard, Y = par[0] + par[1] Z, z = (t - par[0]) / par[1]
 * ------------------------------ F(t) = F(z)    d F / d (location, scale) = -f(z) (1, z) / scale
 *   E|Y - y| = scale G(z), G(z) = E|Z - z|, G' = 2 F - 1, so its derivatives are -(2 F - 1) and G -
 * z (2 F - 1). */
#define LOCATION_SCALE(name)                                                                       \
  static double name##_cdf(const double *p, double t) { return name##_F((t - p[0]) / p[1]); }      \
  static double name##_pdf(const double *p, double t) {                                            \
    return name##_f((t - p[0]) / p[1]) / p[1];                                                     \
  }                                                                                                \
  static void name##_cdf_d(const double *p, double t, unsigned want, double *d) {                  \
    (void)want;                                                                                    \
    double z = (t - p[0]) / p[1], f = name##_f(z) / p[1];                                          \
    d[0] = -f;                                                                                     \
    d[1] = f == 0 ? 0 : -z * f;                                                                    \
  }                                                                                                \
  static double name##_gap(const double *p, double y, double *d) {                                 \
    double z = (y - p[0]) / p[1], G = name##_G(z);                                                 \
    if (d) {                                                                                       \
      double slope = 2 * name##_F(z) - 1;                                                          \
      d[0] = -slope;                                                                               \
      d[1] = G - z * slope;                                                                        \
    }                                                                                              \
    return p[1] * G;                                                                               \
  }

static double normal_F(double z) { return num_Phi(z); }
static double normal_f(double z) { return exp(-0.5 * z * z) / SQRT_2PI; }
static double normal_G(double z) { return z * (2 * num_Phi(z) - 1) + 2 * normal_f(z); }
LOCATION_SCALE(normal)

/* atan(1/z)/pi below: no digits lost in the tail */
static double cauchy_F(double z) { return z < -1 ? -atan(1 / z) / PI : 0.5 + atan(z) / PI; }
static double cauchy_f(double z) { return 1 / (PI * (1 + z * z)); }
static double cauchy_G(double z) { return z + (double)INFINITY; }
static double cauchy_Q(double p) { return p < 0.5 ? -1 / tan(PI * p) : 1 / tan(PI * (1 - p)); }
LOCATION_SCALE(cauchy)

static double logistic_F(double z) { return num_inv_logit(z); }
static double logistic_f(double z) {
  double e = exp(-fabs(z));
  return e / ((1 + e) * (1 + e));
}
static double logistic_G(double z) { return fabs(z) + 2 * log1p(exp(-fabs(z))); }
static double logistic_Q(double p) { return num_logit(p); }
LOCATION_SCALE(logistic)

static double laplace_F(double z) { return z < 0 ? 0.5 * exp(z) : 1 - 0.5 * exp(-z); }
static double laplace_f(double z) { return 0.5 * exp(-fabs(z)); }
static double laplace_G(double z) { return fabs(z) + exp(-fabs(z)); }
static double laplace_Q(double p) { return p < 0.5 ? log(2 * p) : -log(2 * (1 - p)); }
LOCATION_SCALE(laplace)

/* ---- student_t(nu, location, scale) ---------------------------------------------------------- */

static double student_z(const double *p, double t) { return (t - p[1]) / p[2]; }
static double student_cdf(const double *p, double t) {
  return num_student_t_cdf(student_z(p, t), p[0]);
}
static double student_f(double z, double nu) {
  return exp(-0.5 * (nu + 1) * log1p(z * z / nu) - num_lbeta(0.5, 0.5 * nu)) / sqrt(nu);
}
static double student_pdf(const double *p, double t) {
  return student_f(student_z(p, t), p[0]) / p[2];
}
static void student_cdf_d(const double *p, double t, unsigned want, double *d) {
  double z = student_z(p, t), f;
  if (want & 1)
    num_student_t_cdf_d(z, p[0], &f, &d[0]);
  else
    f = student_f(z, p[0]);
  d[1] = -f / p[2];
  d[2] = f == 0 ? 0 : -z * f / p[2];
}

/* d log f(z) / d nu */
static double student_log_f_dnu(double z, double nu) {
  double r = z * z / nu;
  return 0.5 * (num_digamma(0.5 * (nu + 1)) - num_digamma(0.5 * nu) - 1 / nu - log1p(r) +
                (nu + 1) / nu * (r / (1 + r)));
}

/* G(z) = z (2 F - 1) + 2 H, H = f(z) (nu + z^2) / (nu - 1), nu > 1 */
static double student_gap(const double *p, double y, double *d) {
  double nu = p[0], z = student_z(p, y), f, dnu;
  if (!(nu > 1)) {
    for (int k = 0; d && k < 3; k++) d[k] = (double)NAN;
    return (double)INFINITY;
  }
  num_student_t_cdf_d(z, nu, &f, &dnu);
  double slope = 1 - 2 * num_student_t_cdf(-z, nu), H = f * (nu + z * z) / (nu - 1);
  if (d) {
    d[0] = 2 * p[2] * (z * dnu + H * (student_log_f_dnu(z, nu) + 1 / (nu + z * z) - 1 / (nu - 1)));
    d[1] = -slope;
    d[2] = 2 * H;
  }
  return p[2] * (z * slope + 2 * H);
}

/* ---- positive kinds -------------------------------------------------------------------------- */

/* lognormal(mu, s): the normal at log t; E|Y - y| = y (2 F - 1) + m (1 - 2 Phi(z - s)), m = exp(mu
 * + s^2 / 2) */
static double lognormal_cdf(const double *p, double t) { return t > 0 ? normal_cdf(p, log(t)) : 0; }
static double lognormal_pdf(const double *p, double t) {
  return t > 0 ? normal_pdf(p, log(t)) / t : 0;
}
static void lognormal_cdf_d(const double *p, double t, unsigned want, double *d) {
  d[0] = d[1] = 0;
  if (t > 0) normal_cdf_d(p, log(t), want, d);
}
static double lognormal_gap(const double *p, double y, double *d) {
  double s = p[1], m = exp(p[0] + 0.5 * s * s), z = y > 0 ? (log(y) - p[0]) / s : (double)-INFINITY;
  double rest = m * (1 - 2 * num_Phi(z - s));
  if (d) {
    d[0] = rest;
    d[1] = s * rest + 2 * m * normal_f(z - s);
  }
  return (y > 0 ? y * (2 * num_Phi(z) - 1) : -y) + rest;
}

/* gamma(a, rate b): P(a, x), x = b t; E|Y - y| = [x (2 P(a, x) - 1) + a (1 - 2 P(a + 1, x))] / b */
static double gamma_cdf(const double *p, double t) {
  return t > 0 ? num_gamma_p(p[0], p[1] * t) : 0;
}
static double gamma_pdf(const double *p, double t) {
  return t > 0 ? p[1] * num_gamma_p_dx(p[0], p[1] * t) : 0;
}
static void gamma_cdf_d(const double *p, double t, unsigned want, double *d) {
  d[0] = t > 0 && want & 1 ? num_gamma_p_da(p[0], p[1] * t) : 0;
  d[1] = t > 0 ? t * num_gamma_p_dx(p[0], p[1] * t) : 0;
}
static double gamma_gap(const double *p, double y, double *d) {
  double a = p[0], b = p[1], x = b * fmax(y, 0);
  double slope = 2 * num_gamma_p(a, x) - 1, rest = 1 - 2 * num_gamma_p(a + 1, x);
  if (d) {
    d[0] = (2 * x * num_gamma_p_da(a, x) + rest - 2 * a * num_gamma_p_da(a + 1, x)) / b;
    d[1] = -a * rest / (b * b);
  }
  return fmax(-y, 0) + (x * slope + a * rest) / b;
}

/* exponential(rate b): E|Y - y| = y - 1/b + 2 exp(-b y) / b for y >= 0 */
static double exponential_cdf(const double *p, double t) { return t > 0 ? -expm1(-p[0] * t) : 0; }
static double exponential_pdf(const double *p, double t) {
  return t > 0 ? p[0] * exp(-p[0] * t) : 0;
}
static void exponential_cdf_d(const double *p, double t, unsigned want, double *d) {
  (void)want;
  d[0] = t > 0 ? t * exp(-p[0] * t) : 0;
}
static double exponential_gap(const double *p, double y, double *d) {
  double b = p[0], t = fmax(y, 0), e = exp(-b * t);
  if (d) d[0] = (1 - 2 * e * (1 + b * t)) / (b * b);
  return fabs(y) + (2 * e - 1) / b;
}

/* beta(a, b): E|Y - y| = y (2 I_y(a, b) - 1) + m (1 - 2 I_y(a + 1, b)), m = a / (a + b) */
static double beta_cdf(const double *p, double t) {
  return t <= 0 ? 0 : t >= 1 ? 1 : num_inc_beta(p[0], p[1], t);
}
static double beta_pdf(const double *p, double t) {
  if (!(t > 0 && t < 1)) return 0;
  return exp((p[0] - 1) * log(t) + (p[1] - 1) * log1p(-t) - num_lbeta(p[0], p[1]));
}
static void beta_cdf_d(const double *p, double t, unsigned want, double *d) {
  (void)want;
  double dx;
  d[0] = d[1] = 0;
  if (t > 0 && t < 1) num_inc_beta_d(p[0], p[1], t, &d[0], &d[1], &dx);
}
static double beta_gap(const double *p, double y, double *d) {
  double a = p[0], b = p[1], n = a + b, t = fmin(fmax(y, 0), 1), next[2] = {a + 1, b};
  double rest = 1 - 2 * beta_cdf(next, t);
  if (d) {
    double d0[2], d1[2];
    beta_cdf_d(p, t, 3, d0);
    beta_cdf_d(next, t, 3, d1);
    d[0] = 2 * t * d0[0] + b / (n * n) * rest - 2 * a / n * d1[0];
    d[1] = 2 * t * d0[1] - a / (n * n) * rest - 2 * a / n * d1[1];
  }
  return fabs(y - t) + t * (2 * beta_cdf(p, t) - 1) + a / n * rest;
}

static const Component components[KIND_COUNT] = {
    [KIND_NORMAL] = {normal_cdf, normal_pdf, normal_cdf_d, normal_gap, num_inv_Phi},
    [KIND_STUDENT_T] = {student_cdf, student_pdf, student_cdf_d, student_gap, NULL},
    [KIND_LOGNORMAL] = {lognormal_cdf, lognormal_pdf, lognormal_cdf_d, lognormal_gap, NULL},
    [KIND_CAUCHY] = {cauchy_cdf, cauchy_pdf, cauchy_cdf_d, cauchy_gap, cauchy_Q},
    [KIND_LOGISTIC] = {logistic_cdf, logistic_pdf, logistic_cdf_d, logistic_gap, logistic_Q},
    [KIND_DOUBLE_EXPONENTIAL] = {laplace_cdf, laplace_pdf, laplace_cdf_d, laplace_gap, laplace_Q},
    [KIND_GAMMA] = {gamma_cdf, gamma_pdf, gamma_cdf_d, gamma_gap, NULL},
    [KIND_EXPONENTIAL] = {exponential_cdf, exponential_pdf, exponential_cdf_d, exponential_gap,
                          NULL},
    [KIND_BETA] = {beta_cdf, beta_pdf, beta_cdf_d, beta_gap, NULL},
};

const Component *component_of(Kind kind) { return components[kind].cdf ? &components[kind] : NULL; }

/* ---- counts ---------------------------------------------------------------------------------- */

/* Parameters on the boundary are moved a hair inside, where p(k) (k - mean) slope has the right
 * limit without 0/0. */
static double inside(double x, double top) { return fmin(fmax(x, 1e-280), top); }

Count count_make(Kind kind, size_t trials, const double *par) {
  if (kind == KIND_BINOMIAL) {
    double p = inside(par[0], 1 - 0x1p-53), n = (double)trials, odds = p / (1 - p);
    return (Count){
        .kind = kind, .n = n, .a = n * odds, .b = -odds, .mean = n * p, .slope = 1 / (p * (1 - p))};
  }
  double mu = inside(par[0], (double)INFINITY);
  if (kind == KIND_POISSON)
    return (Count){.kind = kind, .n = (double)INFINITY, .a = mu, .mean = mu, .slope = 1 / mu};
  double size = par[1], q = mu / (mu + size);
  return (Count){.kind = kind,
                 .n = (double)INFINITY,
                 .a = size * q,
                 .b = q,
                 .mean = mu,
                 .slope = (1 - q) / mu,
                 .size = size};
}

/* x log(x / m) + m - x >= 0, without cancellation near x = m (Loader's bd0). */
static double deviance(double x, double m) {
  double d = x - m, v = d / (x + m);
  if (fabs(v) >= 0.1) return x * log(x / m) - d;
  double s = d * v, e = 2 * x * v;
  for (int k = 1; k < 40; k++) {
    double next = s + (e *= v * v) / (2 * k + 1);
    if (next == s) break;
    s = next;
  }
  return s;
}

static double poisson_log_pmf(double k, double mu) {
  return k == 0 ? -mu : -num_stirling(k) - deviance(k, mu) - 0.5 * log(2 * PI * k);
}

/* x successes in n trials, x and n not necessarily whole; q = 1 - p */
static double binomial_log_pmf(double x, double n, double p, double q) {
  if (x == 0) return p < 0.1 ? n * log1p(-p) : n * log(q);
  if (x == n) return q < 0.1 ? n * log1p(-q) : n * log(p);
  return num_stirling(n) - num_stirling(x) - num_stirling(n - x) - deviance(x, n * p) -
         deviance(n - x, n * q) + 0.5 * log(n / (2 * PI * x * (n - x)));
}

double count_pmf(const Count *c, double k) {
  if (!(k >= 0 && k <= c->n)) return 0;
  if (c->kind == KIND_POISSON) return exp(poisson_log_pmf(k, c->mean));
  if (c->kind == KIND_BINOMIAL) {
    double p = c->mean / c->n;
    return c->n == 0 ? 1 : exp(binomial_log_pmf(k, c->n, p, -c->b > 1 ? p / -c->b : 1 - p));
  }
  double s = c->size;
  return s / (s + k) * exp(binomial_log_pmf(s, s + k, s / (s + c->mean), c->b));
}

double count_cdf(const Count *c, double k) {
  k = floor(k);
  if (k < 0) return 0;
  if (k >= c->n) return 1;
  if (c->kind == KIND_POISSON) return num_gamma_q(k + 1, c->mean);
  if (c->kind == KIND_BINOMIAL) return num_inc_beta(c->n - k, k + 1, 1 - c->mean / c->n);
  return num_inc_beta(c->size, k + 1, c->size / (c->size + c->mean));
}

/* p(k + 1) >= p(k) while k <= (a - 1) / (1 - b) */
double count_mode(const Count *c) {
  return fmin(c->n, fmax(0, floor((c->a - 1) / (1 - c->b)) + 1));
}

/* psi(k + size) - psi(size) + log(size / (mu + size)) + (mu - k) / (mu + size) */
double count_log_pmf_dsize(const Count *c, double k) {
  double s = c->size, all = c->mean + s;
  return num_digamma(k + s) - num_digamma(s) - log1p(c->mean / s) + (c->mean - k) / all;
}

/* Bernstein's bounds: binomial and poisson have P(X >= mean + x) <= exp(-x^2 / (2 (variance + x /
 * 3))) and P(X <= mean - x) <= exp(-x^2 / (2 variance)) with the Poisson's variance, which is the
 * larger; the rate of a negative binomial is gamma(size), sub-gamma with variance size and scale 1.
 */
void count_range(const Count *c, double nats, double *lo, double *hi) {
  double low = c->mean, high = c->mean;
  if (c->kind == KIND_NEG_BINOMIAL_2) {
    nats += 0.7;
    low *= fmax(0, 1 - sqrt(2 * nats / c->size));
    high *= 1 + sqrt(2 * nats / c->size) + nats / c->size;
  }
  double variance = c->kind == KIND_BINOMIAL ? c->mean * (1 - c->mean / c->n) : high;
  double third = nats / 3, x = third + sqrt(third * third + 2 * nats * variance);
  double below = c->kind == KIND_BINOMIAL ? x : sqrt(2 * nats * low);
  *lo = fmax(0, floor(low - below));
  *hi = fmin(c->n, ceil(high + x));
}

/* ---- moments --------------------------------------------------------------------------------- */

static Moments location_scale(const double *p, double variance) {
  double s = p[1];
  return (Moments){p[0], variance * s * s, {1, 0}, {0, 2 * variance * s}};
}

static Moments student_moments(const double *p) {
  double nu = p[0], s = p[2], r = nu / (nu - 2);
  if (!(nu > 2)) return (Moments){nu > 1 ? p[1] : (double)NAN, (double)INFINITY, {0, 1, 0}, {0}};
  return (Moments){p[1], r * s * s, {0, 1, 0}, {-2 * s * s / ((nu - 2) * (nu - 2)), 0, 2 * r * s}};
}

static Moments lognormal_moments(const double *p) {
  double s = p[1], m = exp(p[0] + 0.5 * s * s), r = expm1(s * s), v = m * m * r;
  return (Moments){m, v, {m, s * m}, {2 * v, 2 * s * (v + m * m * (1 + r))}};
}

static Moments gamma_moments(const double *p) {
  double a = p[0], b = p[1], m = a / b, v = m / b;
  return (Moments){m, v, {1 / b, -m / b}, {1 / (b * b), -2 * v / b}};
}

static Moments exponential_moments(const double *p) {
  double m = 1 / p[0], v = m * m;
  return (Moments){m, v, {-v}, {-2 * v * m}};
}

/* v = m (1 - m) / (1 + n), n = a + b */
static Moments beta_moments(const double *p) {
  double n = p[0] + p[1], m = p[0] / n, w = p[1] / n, v = m * w / (1 + n), turn = (w - m) / (1 + n),
         loss = v / (1 + n);
  return (Moments){m, v, {w / n, -m / n}, {w / n * turn - loss, -m / n * turn - loss}};
}

Moments component_moments(Kind kind, size_t trials, const double *p) {
  double n = (double)trials;
  switch (kind) {
  case KIND_NORMAL: return location_scale(p, 1);
  case KIND_STUDENT_T: return student_moments(p);
  case KIND_LOGNORMAL: return lognormal_moments(p);
  case KIND_LOGISTIC: return location_scale(p, PI * PI / 3);
  case KIND_DOUBLE_EXPONENTIAL: return location_scale(p, 2);
  case KIND_GAMMA: return gamma_moments(p);
  case KIND_EXPONENTIAL: return exponential_moments(p);
  case KIND_BETA: return beta_moments(p);
  case KIND_BERNOULLI: return (Moments){p[0], p[0] * (1 - p[0]), {1}, {1 - 2 * p[0]}};
  case KIND_BINOMIAL: return (Moments){n * p[0], n * p[0] * (1 - p[0]), {n}, {n * (1 - 2 * p[0])}};
  case KIND_POISSON: return (Moments){p[0], p[0], {1}, {1}};
  case KIND_NEG_BINOMIAL_2: {
    double r = p[0] / p[1];
    return (Moments){p[0], p[0] * (1 + r), {1, 0}, {1 + 2 * r, -r * r}};
  }
  default: return (Moments){(double)NAN, (double)INFINITY, {0}, {0}};
  }
}
