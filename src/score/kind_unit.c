/* kind_unit.c: the kind of outcome between 0 and 1: beta. kind_int.h says what the functions are.
 */
#include "score/kind_int.h"

#include "num/special.h"

#include <math.h>

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

/* E|Y - y| = y (2 I_y(a, b) - 1) + m (1 - 2 I_y(a + 1, b)), m = a / (a + b) */
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

/* v = m (1 - m) / (1 + n), n = a + b */
static Moments beta_moments(const double *p, size_t size) {
  (void)size;
  double n = p[0] + p[1], m = p[0] / n, w = p[1] / n, v = m * w / (1 + n), turn = (w - m) / (1 + n),
         loss = v / (1 + n);
  return (Moments){m, v, {w / n, -m / n}, {w / n * turn - loss, -m / n * turn - loss}};
}

static double beta_sample(const double *p, size_t size, RngStream *r) {
  (void)size;
  return rngs_beta(r, p[0], p[1]);
}

/* How far from the middle, in logit t, an end of shape a has a share below e^-30. */
static double end_reach(double a, double sd) { return fmin((36 + a) / (1 + a), 11 * sd); }
static Reach beta_reach(const double *p) {
  double sd = sqrt(1 / p[0] + 1 / p[1]), centre = log(p[0] / p[1]);
  return (Reach){fmin(centre, 0) - end_reach(p[0], sd), fmax(centre, 0) + end_reach(p[1], sd), 0,
                 fmin(0.4, 0.5 * sd)};
}

/* log f = (a - 1) log t + (b - 1) log(1 - t) - log Beta(a, b) */
static void beta_features(double x, double t, double *r1, double *r2) {
  (void)t;
  *r1 = num_log_inv_logit(x);
  *r2 = num_log1m_inv_logit(x);
}
static void beta_log_mass(const Kernels *k, const CellChunk *c, CellLane *lane) {
  double a = lane->par[0], b = lane->par[1];
  (void)k;
  cells_linear(c, -num_lbeta(a, b), a - 1, b - 1, lane->p);
}
static double beta_mass_adjoint(const CellChunk *c, const CellLane *lane, const double *V,
                                double *d) {
  double a = lane->par[0], b = lane->par[1], all = cells_linear_sums(c, lane, V, d);
  d[0] += (num_digamma(a + b) - num_digamma(a)) * all;
  d[1] += (num_digamma(a + b) - num_digamma(b)) * all;
  return all;
}
/* Ends of small shape have some mass, if no width. The upper end is the lower one of 1 - t, a and b
 * exchanged. */
static double beta_end_mass(const double *par, const Grid *g, bool upper, double *d) {
  double slope, swapped[2] = {par[1], par[0]}, other[2];
  double t = axis_outcome(&g->axis, upper ? -(g->x0 + (double)g->n * g->h) : g->x0, &slope);
  if (d) beta_cdf_d(upper ? swapped : par, t, 3, other);
  for (int k = 0; d && k < 2; k++) d[k] = other[upper ? 1 - k : k];
  return beta_cdf(upper ? swapped : par, t);
}

static const KindCells beta_cells = {.features = beta_features,
                                     .log_mass = beta_log_mass,
                                     .adjoint = beta_mass_adjoint,
                                     .end_mass = beta_end_mass};

const KindCode kind_beta = {
    .moments = beta_moments,
    .sample = beta_sample,
    .cdf = beta_cdf,
    .pdf = beta_pdf,
    .cdf_d = beta_cdf_d,
    .gap = beta_gap,
    .domain = ON_UNIT,
    .reach = beta_reach,
    .cells = &beta_cells,
};
