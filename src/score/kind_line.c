/* kind_line.c: kinds of outcome on the real line: normal, student_t, cauchy, logistic, double
 * exponential. One section per kind; kind_int.h says what the functions are. */
#include "score/kind_int.h"

#include "num/simd.h"
#include "num/special.h"

#include <math.h>

/* ---- location and scale ---------------------------------------------------------------------- */

/* Y = par[0] + par[1] Z with Z standard, z = (t - par[0]) / par[1]:
 *   F(t) = F(z)                  d F / d (location, scale) = -f(z) (1, z) / scale
 *   E|Y - y| = scale G(z)        G(z) = E|Z - z|, G' = 2 F - 1, so the derivatives are -(2 F - 1)
 *                                and G - z (2 F - 1) */
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

static Moments location_scale_moments(const double *p, double variance) {
  double s = p[1];
  return (Moments){p[0], variance * s * s, {1, 0}, {0, 2 * variance * s}};
}

/* ---- normal ---------------------------------------------------------------------------------- */

static double normal_F(double z) { return num_Phi(z); }
static double normal_f(double z) { return exp(-0.5 * z * z) / SQRT_2PI; }
static double normal_G(double z) { return z * (2 * num_Phi(z) - 1) + 2 * normal_f(z); }
LOCATION_SCALE(normal)

static Moments normal_moments(const double *p, size_t size) {
  (void)size;
  return location_scale_moments(p, 1);
}
static double normal_sample(const double *p, size_t size, RngStream *r) {
  (void)size;
  return p[0] + p[1] * rngs_normal(r);
}
static Reach normal_reach(const double *p) {
  return (Reach){p[0] - 7 * p[1], p[0] + 7 * p[1], p[0], 0.68 * p[1]};
}

const KindCode kind_normal = {
    .moments = normal_moments,
    .sample = normal_sample,
    .cdf = normal_cdf,
    .pdf = normal_pdf,
    .cdf_d = normal_cdf_d,
    .gap = normal_gap,
    .normal = NORMAL_OUTCOME,
    .domain = ON_LINE,
    .standard_quantile = num_inv_Phi,
    .reach = normal_reach,
};

/* ---- cauchy: no moments ---------------------------------------------------------------------- */

/* atan(1/z)/pi below: no digits lost in the tail */
static double cauchy_F(double z) { return z < -1 ? -atan(1 / z) / PI : 0.5 + atan(z) / PI; }
static double cauchy_f(double z) { return 1 / (PI * (1 + z * z)); }
static double cauchy_G(double z) { return z + (double)INFINITY; }
static double cauchy_Q(double p) { return p < 0.5 ? -1 / tan(PI * p) : 1 / tan(PI * (1 - p)); }
LOCATION_SCALE(cauchy)

static double cauchy_sample(const double *p, size_t size, RngStream *r) {
  (void)size;
  return p[0] + p[1] * rngs_cauchy(r);
}

const KindCode kind_cauchy = {
    .sample = cauchy_sample,
    .cdf = cauchy_cdf,
    .pdf = cauchy_pdf,
    .cdf_d = cauchy_cdf_d,
    .gap = cauchy_gap,
    .domain = ON_HEAVY_LINE,
    .standard_quantile = cauchy_Q,
};

/* ---- logistic -------------------------------------------------------------------------------- */

static double logistic_F(double z) { return num_inv_logit(z); }
static double logistic_f(double z) {
  double e = exp(-fabs(z));
  return e / ((1 + e) * (1 + e));
}
static double logistic_G(double z) { return fabs(z) + 2 * log1p(exp(-fabs(z))); }
LOCATION_SCALE(logistic)

static Moments logistic_moments(const double *p, size_t size) {
  (void)size;
  return location_scale_moments(p, PI * PI / 3);
}
static double logistic_sample(const double *p, size_t size, RngStream *r) {
  (void)size;
  return p[0] + p[1] * rngs_logistic(r);
}
static Reach logistic_reach(const double *p) {
  return (Reach){p[0] - 28 * p[1], p[0] + 28 * p[1], p[0], 0.75 * p[1]};
}

const KindCode kind_logistic = {
    .moments = logistic_moments,
    .sample = logistic_sample,
    .cdf = logistic_cdf,
    .pdf = logistic_pdf,
    .cdf_d = logistic_cdf_d,
    .gap = logistic_gap,
    .domain = ON_LINE,
    .standard_quantile = num_logit,
    .reach = logistic_reach,
};

/* ---- double exponential (Laplace) ------------------------------------------------------------ */

static double laplace_F(double z) { return z < 0 ? 0.5 * exp(z) : 1 - 0.5 * exp(-z); }
static double laplace_f(double z) { return 0.5 * exp(-fabs(z)); }
static double laplace_G(double z) { return fabs(z) + exp(-fabs(z)); }
static double laplace_Q(double p) { return p < 0.5 ? log(2 * p) : -log(2 * (1 - p)); }
LOCATION_SCALE(laplace)

static Moments laplace_moments(const double *p, size_t size) {
  (void)size;
  return location_scale_moments(p, 2);
}
static double laplace_sample(const double *p, size_t size, RngStream *r) {
  (void)size;
  return p[0] + p[1] * rngs_double_exponential(r);
}

/* H(a) = a^3 exp(-d / a) and its first two derivatives */
static double laplace_H(double a, double d, double *h1, double *h2) {
  double e = exp(-d / a);
  *h1 = (3 * a * a + d * a) * e;
  *h2 = (6 * a + 4 * d + d * d / a) * e;
  return a * a * a * e;
}

/* [H(a) - H(b)] / (a - b) = int_0^1 H'(b + (a - b) u) du, with derivatives by a, b, d: directly, or
 * for close scales by Gauss-Legendre with six nodes (error below 1e-15 for |a - b| < 0.1 (a + b)).
 */
static double laplace_divided(double a, double b, double d, double *da, double *db, double *dd) {
  static const double x[] = {0.1252334085114689, 0.3678314989981802, 0.5873179542866175,
                             0.7699026741943047, 0.9041172563704749, 0.9815606342467193};
  static const double w[] = {0.2491470458134028, 0.2334925365383548, 0.2031674267230659,
                             0.1600783285433462, 0.1069393259953184, 0.0471753363865118};
  double r = 0, ha, hb, h2;
  *da = *db = *dd = 0;
  if (fabs(a - b) >= 0.1 * (a + b)) {
    double step = a - b;
    r = (laplace_H(a, d, &ha, &h2) - laplace_H(b, d, &hb, &h2)) / step;
    *da = (ha - r) / step;
    *db = (r - hb) / step;
    *dd = -(a * a * exp(-d / a) - b * b * exp(-d / b)) / step;
    return r;
  }
  for (int k = 0; k < 12; k++) {
    double u = 0.5 * (1 + (k < 6 ? x[k] : -x[k - 6])), weight = 0.5 * w[k % 6], s = b + (a - b) * u,
           h1;
    laplace_H(s, d, &h1, &h2);
    r += weight * h1;
    *da += weight * u * h2;
    *db += weight * (1 - u) * h2;
    *dd -= weight * (2 * s + d) * exp(-d / s);
  }
  return r;
}

/* The difference of two Laplace variables is a signed mixture of Laplace variables (partial
 * fractions of the characteristic function): e = d + [a^3 exp(-d/a) - b^3 exp(-d/b)] / (a^2 - b^2),
 * d = |difference of locations|. */
static double laplace_pair(const double *p, const double *q, double *dp, double *dq) {
  double a = p[1], b = q[1], shift = p[0] - q[0], d = fabs(shift), da, db, dd;
  double r = laplace_divided(a, b, d, &da, &db, &dd), s = a + b;
  double by_d = shift == 0 ? 0 : copysign(1 + dd / s, shift);
  dp[0] = by_d;
  dq[0] = -by_d;
  dp[1] = (da - r / s) / s;
  dq[1] = (db - r / s) / s;
  return d + r / s;
}

const KindCode kind_double_exponential = {
    .moments = laplace_moments,
    .sample = laplace_sample,
    .cdf = laplace_cdf,
    .pdf = laplace_pdf,
    .cdf_d = laplace_cdf_d,
    .gap = laplace_gap,
    .domain = ON_LINE,
    .standard_quantile = laplace_Q,
    .pair = laplace_pair,
};

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
  double nu = p[0], z = student_z(p, y), f = student_f(z, nu), same, dnu = 0;
  if (!(nu > 1)) {
    for (int k = 0; d && k < 3; k++) d[k] = (double)NAN;
    return (double)INFINITY;
  }
  if (d) num_student_t_cdf_d(z, nu, &same, &dnu);
  double slope = 1 - 2 * num_student_t_cdf(-z, nu), H = f * (nu + z * z) / (nu - 1);
  if (d) {
    d[0] = 2 * p[2] * (z * dnu + H * (student_log_f_dnu(z, nu) + 1 / (nu + z * z) - 1 / (nu - 1)));
    d[1] = -slope;
    d[2] = 2 * H;
  }
  return p[2] * (z * slope + 2 * H);
}

static Moments student_moments(const double *p, size_t size) {
  (void)size;
  double nu = p[0], s = p[2], r = nu / (nu - 2);
  if (!(nu > 2)) return (Moments){nu > 1 ? p[1] : (double)NAN, (double)INFINITY, {0, 1, 0}, {0}};
  return (Moments){p[1], r * s * s, {0, 1, 0}, {-2 * s * s / ((nu - 2) * (nu - 2)), 0, 2 * r * s}};
}

static double student_sample(const double *p, size_t size, RngStream *r) {
  (void)size;
  return p[1] + p[2] * rngs_student_t(r, p[0]);
}

/* The cdf has branch points at location +- i scale sqrt(nu); its tail is (z / sqrt(nu))^-nu. */
static Reach student_reach(const double *p) {
  double tail = p[2] * fmin(sqrt(p[0]) * exp(28 / (p[0] - 1)), 1e140);
  return (Reach){p[1] - tail, p[1] + tail, p[1], p[2] * fmin(0.24 * sqrt(p[0]), 0.7)};
}

/* log f = constant - (nu + 1) / 2 log(1 + z^2 / nu): one log1p a point. z and l of the lane hold z
 * and log(1 + z^2 / nu). */
static void student_log_mass(const Kernels *k, const CellChunk *c, CellLane *lane) {
  double nu = lane->par[0], scale = lane->par[2], inverse = 1 / scale, half = 0.5 * (nu + 1);
  double constant = -num_lbeta(0.5, 0.5 * nu) - 0.5 * log(nu) - log(scale);
  size_t n = score_padded(c->n);
  for (size_t i = 0; i < n; i += VL) {
    vd z = (v_load(c->t + i) - lane->par[1]) * inverse;
    v_store(lane->z + i, z);
    v_store(lane->l + i, z * z / nu);
  }
  k->forward[IR_LOG1P](lane->l, (const double *const[]){lane->l}, (size_t[]){1}, n);
  for (size_t i = 0; i < n; i += VL)
    v_store(lane->p + i, constant + v_load(c->weight + i) - half * v_load(lane->l + i));
}

/* The derivatives of log f are sums of log(1 + z^2 / nu), z / (nu + z^2) and z^2 / (nu + z^2). */
static double student_mass_adjoint(const CellChunk *c, const CellLane *lane, const double *V,
                                   double *d) {
  double nu = lane->par[0], s = lane->par[2], all = 0, logs = 0, ones = 0, twos = 0;
  for (size_t k = 0; k < c->n; k++) {
    double e = V[k] * lane->p[k], z = lane->z[k], q = e * z / (nu + z * z);
    all += e;
    logs += e * lane->l[k];
    ones += q;
    twos += q * z;
  }
  d[0] = 0.5 * ((num_digamma(0.5 * (nu + 1)) - num_digamma(0.5 * nu) - 1 / nu) * all - logs +
                (nu + 1) / nu * twos);
  d[1] = (nu + 1) / s * ones;
  d[2] = ((nu + 1) * twos - all) / s;
  return all;
}

static const KindCells student_cells = {.log_mass = student_log_mass,
                                        .adjoint = student_mass_adjoint};

const KindCode kind_student_t = {
    .moments = student_moments,
    .sample = student_sample,
    .cdf = student_cdf,
    .pdf = student_pdf,
    .cdf_d = student_cdf_d,
    .gap = student_gap,
    .domain = ON_HEAVY_LINE,
    .location = 1,
    .reach = student_reach,
    .cells = &student_cells,
};
