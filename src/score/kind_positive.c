/* kind_positive.c: kinds of positive outcome: lognormal, gamma, exponential. One section per
 * kind; kind_int.h says what the functions are. */
#include "score/kind_int.h"

#include "num/special.h"

#include <math.h>

/* ---- lognormal(mu, s): the normal at log t --------------------------------------------------- */

static double normal_density(double z) { return exp(-0.5 * z * z) / SQRT_2PI; }
static double lognormal_z(const double *p, double t) { return (log(t) - p[0]) / p[1]; }

static double lognormal_cdf(const double *p, double t) {
  return t > 0 ? num_Phi(lognormal_z(p, t)) : 0;
}
static double lognormal_pdf(const double *p, double t) {
  return t > 0 ? normal_density(lognormal_z(p, t)) / p[1] / t : 0;
}
static void lognormal_cdf_d(const double *p, double t, unsigned want, double *d) {
  (void)want;
  d[0] = d[1] = 0;
  if (!(t > 0)) return;
  double z = lognormal_z(p, t), f = normal_density(z) / p[1];
  d[0] = -f;
  d[1] = f == 0 ? 0 : -z * f;
}

/* E|Y - y| = y (2 F - 1) + m (1 - 2 Phi(z - s)), m = exp(mu + s^2 / 2) */
static double lognormal_gap(const double *p, double y, double *d) {
  double s = p[1], m = exp(p[0] + 0.5 * s * s), z = y > 0 ? (log(y) - p[0]) / s : (double)-INFINITY;
  double rest = m * (1 - 2 * num_Phi(z - s));
  if (d) {
    d[0] = rest;
    d[1] = s * rest + 2 * m * normal_density(z - s);
  }
  return (y > 0 ? y * (2 * num_Phi(z) - 1) : -y) + rest;
}

static Moments lognormal_moments(const double *p, size_t size) {
  (void)size;
  double s = p[1], m = exp(p[0] + 0.5 * s * s), r = expm1(s * s), v = m * m * r;
  return (Moments){m, v, {m, s * m}, {2 * v, 2 * s * (v + m * m * (1 + r))}};
}

static double lognormal_sample(const double *p, size_t size, RngStream *r) {
  (void)size;
  return exp(p[0] + p[1] * rngs_normal(r));
}
static Reach lognormal_reach(const double *p) {
  return (Reach){p[0] - 7 * p[1], p[0] + p[1] * (p[1] + 7), 0, 0.68 * p[1]};
}

const KindCode kind_lognormal = {
    .moments = lognormal_moments,
    .sample = lognormal_sample,
    .cdf = lognormal_cdf,
    .pdf = lognormal_pdf,
    .cdf_d = lognormal_cdf_d,
    .gap = lognormal_gap,
    .normal = NORMAL_LOG,
    .domain = ON_POSITIVE,
    .standard_quantile = num_inv_Phi,
    .reach = lognormal_reach,
};

/* ---- gamma(a, rate b): P(a, x), x = b t ------------------------------------------------------ */

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

/* E|Y - y| = [x (2 P(a, x) - 1) + a (1 - 2 P(a + 1, x))] / b */
static double gamma_gap(const double *p, double y, double *d) {
  double a = p[0], b = p[1], x = b * fmax(y, 0);
  double slope = 2 * num_gamma_p(a, x) - 1, rest = 1 - 2 * num_gamma_p(a + 1, x);
  if (d) {
    d[0] = (2 * x * num_gamma_p_da(a, x) + rest - 2 * a * num_gamma_p_da(a + 1, x)) / b;
    d[1] = -a * rest / (b * b);
  }
  return fmax(-y, 0) + (x * slope + a * rest) / b;
}

static Moments gamma_moments(const double *p, size_t size) {
  (void)size;
  double a = p[0], b = p[1], m = a / b, v = m / b;
  return (Moments){m, v, {1 / b, -m / b}, {1 / (b * b), -2 * v / b}};
}

static double gamma_sample(const double *p, size_t size, RngStream *r) {
  (void)size;
  return rngs_gamma(r, p[0]) / p[1];
}

/* The lower end, in log t: where its share t F(t) is below e^-30. */
static Reach gamma_reach(const double *p) {
  double sd = 1 / sqrt(p[0]), below = fmin((36 + p[0]) / (1 + p[0]), 11 * sd);
  return (Reach){log(p[0] / p[1]) - below, log((p[0] + sqrt(60 * p[0]) + 30) / p[1]), 0,
                 fmin(0.3, 0.55 * sd)};
}

/* log f = a log b - lgamma(a) + (a - 1) log t - b t, linear in log t and -t */
static void gamma_features(double x, double t, double *r1, double *r2) {
  *r1 = x;
  *r2 = -t;
}
static void gamma_log_mass(const Kernels *k, const CellChunk *c, CellLane *lane) {
  double a = lane->par[0], b = lane->par[1];
  (void)k;
  cells_linear(c, a * log(b) - num_lgamma(a), a - 1, b, lane->p);
}
static double gamma_mass_adjoint(const CellChunk *c, const CellLane *lane, const double *V,
                                 double *d) {
  double a = lane->par[0], b = lane->par[1], all = cells_linear_sums(c, lane, V, d);
  d[0] += (log(b) - num_digamma(a)) * all;
  d[1] += a / b * all;
  return all;
}
/* One of small shape has some mass near 0, if no width. */
static double gamma_end_mass(const double *par, const Grid *g, bool upper, double *d) {
  double slope, t = axis_outcome(&g->axis, g->x0, &slope);
  if (upper) {
    if (d) d[0] = d[1] = 0;
    return 0;
  }
  if (d) gamma_cdf_d(par, t, 3, d);
  return gamma_cdf(par, t);
}

static const KindCells gamma_cells = {.features = gamma_features,
                                      .log_mass = gamma_log_mass,
                                      .adjoint = gamma_mass_adjoint,
                                      .end_mass = gamma_end_mass};

const KindCode kind_gamma = {
    .moments = gamma_moments,
    .sample = gamma_sample,
    .cdf = gamma_cdf,
    .pdf = gamma_pdf,
    .cdf_d = gamma_cdf_d,
    .gap = gamma_gap,
    .domain = ON_POSITIVE,
    .reach = gamma_reach,
    .cells = &gamma_cells,
};

/* ---- exponential(rate b) --------------------------------------------------------------------- */

static double exponential_cdf(const double *p, double t) { return t > 0 ? -expm1(-p[0] * t) : 0; }
static double exponential_pdf(const double *p, double t) {
  return t > 0 ? p[0] * exp(-p[0] * t) : 0;
}
static void exponential_cdf_d(const double *p, double t, unsigned want, double *d) {
  (void)want;
  d[0] = t > 0 ? t * exp(-p[0] * t) : 0;
}

/* E|Y - y| = y - 1/b + 2 exp(-b y) / b for y >= 0 */
static double exponential_gap(const double *p, double y, double *d) {
  double b = p[0], t = fmax(y, 0), e = exp(-b * t);
  if (d) d[0] = (1 - 2 * e * (1 + b * t)) / (b * b);
  return fabs(y) + (2 * e - 1) / b;
}

static Moments exponential_moments(const double *p, size_t size) {
  (void)size;
  double m = 1 / p[0], v = m * m;
  return (Moments){m, v, {-v}, {-2 * v * m}};
}

static double exponential_sample(const double *p, size_t size, RngStream *r) {
  (void)size;
  return rngs_exponential(r) / p[0];
}

/* 1/a + 1/b - 2/(a + b) */
static double exponential_pair(const double *a, const double *b, double *da, double *db) {
  double s = a[0] + b[0], both = 2 / (s * s);
  da[0] = both - 1 / (a[0] * a[0]);
  db[0] = both - 1 / (b[0] * b[0]);
  return 1 / a[0] + 1 / b[0] - 2 / s;
}

const KindCode kind_exponential = {
    .moments = exponential_moments,
    .sample = exponential_sample,
    .cdf = exponential_cdf,
    .pdf = exponential_pdf,
    .cdf_d = exponential_cdf_d,
    .gap = exponential_gap,
    .domain = ON_POSITIVE,
    .pair = exponential_pair,
};
