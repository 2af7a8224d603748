/* spline.c: every dimension by itself: theta_k = a_k + b_k S_k(u_k), S_k a monotone
 * rational-quadratic spline with `knots` bins on the scale of the normal u (rqs.h); phi = (a, log
 * b, widths, heights, slopes), the last three a row for every dimension.
 *
 * Splines are made for LANES dimensions at a time: a lane of rqs.h is a dimension here.
 */
#include "family/family_int.h"
#include "family/rqs.h"

#include <math.h>
#include <string.h>

static size_t size(const Shape *s) { return s->dim * (2 + rqs_raw(s->knots)); }
static size_t noise(const Shape *s) { return s->dim; }
static size_t widths_at(const Shape *s) { return 2 * s->dim; }
static size_t heights_at(const Shape *s) { return (2 + s->knots) * s->dim; }
static size_t slopes_at(const Shape *s) { return (2 + 2 * s->knots) * s->dim; }

/* Raw parameter i of dimension k in phi. */
static size_t raw_at(const Shape *s, size_t i, size_t k) {
  size_t bins = s->knots;
  if (i < bins) return widths_at(s) + k * bins + i;
  if (i < 2 * bins) return heights_at(s) + k * bins + i - bins;
  return slopes_at(s) + k * (bins - 1) + i - 2 * bins;
}

/* Raw parameters, knots and the adjoints of both, of LANES splines. */
static size_t splines_room(const Shape *s) {
  return 2 * (rqs_raw(s->knots) + rqs_room(s->knots)) * LANES;
}
static size_t scratch(const Shape *s, size_t ld) {
  (void)ld;
  return splines_room(s);
}

/* The splines of dimensions [first, first + count). */
typedef struct {
  size_t first, count;
  double *raw, *adj_raw; /* [rqs_raw x LANES] */
  Knots knots, adj;
} Splines;

static Splines splines_of(const double *phi, const Shape *s, size_t first, const Kernels *k,
                          double *room) {
  size_t bins = s->knots, nraw = rqs_raw(bins), rest = s->dim - first;
  Splines g = {.first = first,
               .count = rest < LANES ? rest : LANES,
               .raw = room,
               .adj_raw = room + nraw * LANES};
  double *place = room + 2 * nraw * LANES;
  g.knots = rqs_place(bins, LANES, place);
  g.adj = rqs_place(bins, LANES, place + rqs_room(bins) * LANES);
  for (size_t i = 0; i < nraw; i++)
    for (size_t l = 0; l < LANES; l++)
      g.raw[i * LANES + l] = l < g.count ? phi[raw_at(s, i, first + l)] : 0;
  rqs_knots(&g.knots, g.raw, LANES, k);
  memset(g.adj.x, 0, rqs_room(bins) * LANES * sizeof *g.adj.x);
  return g;
}

/* Walks through the dimensions: at the first of a group makes its splines. Returns k's lane. */
static size_t spline_of(Splines *g, const double *phi, const Shape *s, size_t k,
                        const Kernels *kernels, double *room) {
  if (k % LANES == 0) *g = splines_of(phi, s, k, kernels, room);
  return k % LANES;
}

/* After the last dimension of a group: adds to grad what the adjoints of its knots are in phi. */
static void splines_adjoint(const Splines *g, const Noise *n, size_t k, double *grad) {
  const Shape *s = n->shape;
  if (k + 1 < g->first + g->count) return;
  rqs_knots_adjoint(&g->knots, &g->adj, g->adj_raw, LANES, n->k);
  for (size_t i = 0; i < rqs_raw(s->knots); i++)
    for (size_t l = 0; l < g->count; l++)
      grad[raw_at(s, i, g->first + l)] += g->adj_raw[i * LANES + l];
}

static void start(double *phi, const Shape *shape, const double *mean, const double *sd) {
  size_t dim = shape->dim;
  memset(phi, 0, size(shape) * sizeof *phi);
  for (size_t k = 0; k < dim; k++) {
    phi[k] = mean[k];
    phi[dim + k] = log(sd[k]);
  }
}

/* Mean and sd of S(u), by the trapezoidal rule: S has a continuous slope, so its error is below
 * 1e-6. */
static void spline_moments(const Knots *knots, size_t lane, double *mean, double *sd) {
  enum { NODES = 4096 };
  double total = 0, first = 0, second = 0, far = 10;
  for (size_t i = 0; i <= NODES; i++) {
    double u = far * (2 * (double)i / NODES - 1), p = exp(-0.5 * u * u),
           x = rqs_value(knots, lane, u, NULL);
    total += p;
    first += p * x;
    second += p * x * x;
  }
  *mean = first / total;
  *sd = sqrt(fmax(second / total - *mean * *mean, 0));
}

static void moments(const double *phi, const Shape *shape, double *mean, double *sd) {
  double room[splines_room(shape)];
  Splines g;
  for (size_t k = 0; k < shape->dim; k++) {
    size_t l = spline_of(&g, phi, shape, k, kernels_best(), room);
    double b = family_sd(phi[shape->dim + k]), m, s;
    spline_moments(&g.knots, l, &m, &s);
    mean[k] = phi[k] + b * m;
    sd[k] = b * s;
  }
}

static void stretch(double *phi, const Shape *shape, size_t k, double factor, double move) {
  phi[k] += move;
  phi[shape->dim + k] += log(factor);
}

static void draw(const double *phi, const Noise *n, double *theta) {
  size_t dim = n->shape->dim;
  Splines g;
  for (size_t k = 0; k < dim; k++) {
    size_t l = spline_of(&g, phi, n->shape, k, n->k, n->scratch);
    double a = phi[k], b = family_sd(phi[dim + k]);
    const double *u = n->u + k * n->ld;
    double *out = theta + k * n->ld;
    for (size_t j = 0; j < n->ld; j++) out[j] = a + b * rqs_value(&g.knots, l, u[j], NULL);
  }
}

static void adjoint(const double *phi, const Noise *n, const double *adj, const double *adj_w,
                    double *grad) {
  size_t dim = n->shape->dim;
  Splines g;
  (void)adj_w;
  for (size_t k = 0; k < dim; k++) {
    size_t l = spline_of(&g, phi, n->shape, k, n->k, n->scratch);
    const double *u = n->u + k * n->ld, *a = adj + k * n->ld;
    double b = family_sd(phi[dim + k]), sum = 0, dot = 0;
    for (size_t j = 0; j < n->M; j++) {
      sum += a[j];
      dot += a[j] * rqs_value(&g.knots, l, u[j], NULL);
      rqs_adjoint(&g.knots, l, u[j], a[j] * b, 0, &g.adj);
    }
    grad[k] += sum;
    grad[dim + k] += family_sd_slope(phi[dim + k]) * dot;
    splines_adjoint(&g, n, k, grad);
  }
}

/* sum over k of (1 + log 2 pi) / 2 + log b_k + mean over the draws of log S_k'(u_k) */
static double entropy(const double *phi, const Noise *n, double weight, double *grad) {
  size_t dim = n->shape->dim;
  Splines g;
  double h = (double)dim * (0.5 + HALF_LOG_2PI);
  for (size_t k = 0; k < dim; k++) {
    size_t l = spline_of(&g, phi, n->shape, k, n->k, n->scratch);
    const double *u = n->u + k * n->ld;
    double sum = 0, slope, each = weight / (double)n->M;
    for (size_t j = 0; j < n->M; j++) {
      rqs_value(&g.knots, l, u[j], &slope);
      sum += slope;
      if (weight != 0) rqs_adjoint(&g.knots, l, u[j], 0, each, &g.adj);
    }
    h += family_log_sd(phi[dim + k]) + sum / (double)n->M;
    grad[dim + k] += weight * family_log_sd_slope(phi[dim + k]);
    if (weight != 0) splines_adjoint(&g, n, k, grad);
  }
  return h;
}

static void log_q(const double *phi, const Noise *n, double *out) {
  size_t dim = n->shape->dim;
  Splines g;
  for (size_t j = 0; j < n->M; j++) out[j] = 0;
  for (size_t k = 0; k < dim; k++) {
    size_t l = spline_of(&g, phi, n->shape, k, n->k, n->scratch);
    const double *u = n->u + k * n->ld;
    double log_b = family_log_sd(phi[dim + k]);
    for (size_t j = 0; j < n->M; j++) {
      double slope;
      rqs_value(&g.knots, l, u[j], &slope);
      out[j] -= HALF_LOG_2PI + 0.5 * u[j] * u[j] + log_b + slope;
    }
  }
}

/* a and b as in meanfield; raw parameters have no unit. */
static void scale(const double *phi, const Shape *shape, const double *unit, double *d) {
  size_t dim = shape->dim;
  for (size_t k = 0; k < dim; k++) {
    double s = family_wider(family_sd(phi[dim + k]), unit, k);
    d[k] = s * s;
    d[dim + k] = 0.5;
  }
  for (size_t i = widths_at(shape); i < size(shape); i++) d[i] = 1;
}

static void reach(const double *phi, const Shape *shape, double *d) {
  size_t dim = shape->dim;
  for (size_t k = 0; k < dim; k++) d[k] = family_reach_at(phi[k], family_sd(phi[dim + k]));
  for (size_t i = dim; i < size(shape); i++) d[i] = REACH_LOG;
}

static int parts(const Shape *s, FamilyPart *out) {
  out[0] = (FamilyPart){"location", 0, s->dim, 1};
  out[1] = (FamilyPart){"log_scale", s->dim, s->dim, 1};
  out[2] = (FamilyPart){"widths", widths_at(s), s->dim, s->knots};
  out[3] = (FamilyPart){"heights", heights_at(s), s->dim, s->knots};
  out[4] = (FamilyPart){"slopes", slopes_at(s), s->dim, s->knots - 1};
  return 5;
}

static void inverse(const double *phi, const Shape *shape, const double *theta, double *u,
                    double *log_det) {
  double room[splines_room(shape)];
  Splines g;
  *log_det = 0;
  for (size_t k = 0; k < shape->dim; k++) {
    size_t l = spline_of(&g, phi, shape, k, kernels_best(), room);
    double b = phi[shape->dim + k], slope;
    u[k] = rqs_inverse(&g.knots, l, (theta[k] - phi[k]) / family_sd(b), &slope);
    *log_det += family_log_sd(b) + slope;
  }
}

const Family family_spline = {.size = size,
                              .noise = noise,
                              .scratch = scratch,
                              .start = start,
                              .stretch = stretch,
                              .moments = moments,
                              .draw = draw,
                              .adjoint = adjoint,
                              .entropy = entropy,
                              .log_q = log_q,
                              .scale = scale,
                              .reach = reach,
                              .parts = parts,
                              .inverse = inverse,
                              .affine = &family_meanfield,
                              .independent = true};
