/* rqs.c: rational-quadratic splines: raw parameters to knots and back, value, inverse and adjoint
 * of one point. */
#include "family/rqs.h"

#include <math.h>
#include <string.h>

/* A bin has at least this part of the width (height) it would have if all were equal; a slope is at
 * least MIN_SLOPE. */
#define MIN_SHARE 0.01
#define MIN_SLOPE 1e-3
#define SLOPE_SHIFT 0.53974241723695207924 /* log(exp(1 - MIN_SLOPE) - 1): raw 0 is slope 1 */

static double floor_of(size_t bins) { return 2 * RQS_BOUND * MIN_SHARE / (double)bins; }
static const double SHARED = 2 * RQS_BOUND * (1 - MIN_SHARE); /* what softmax divides */

Knots rqs_place(size_t bins, size_t ld, double *room) {
  size_t each = (bins + 1) * ld;
  return (Knots){bins, ld, room, room + each, room + 2 * each};
}

/* ---- raw parameters and knots ---------------------------------------------------------------- */

static void map_row(IrOp op, double *row, size_t n, const Kernels *k) {
  k->forward[op](row, (const double *[]){row}, (size_t[]){1}, n);
}

/* e_i+1 = -RQS_BOUND + sum over bins up to i of (floor + SHARED softmax_i); row 0 of e keeps
 * maximum and sum meanwhile. */
static void edges(double *e, const double *raw, size_t bins, size_t ld, size_t n,
                  const Kernels *k) {
  for (size_t j = 0; j < n; j++) e[j] = raw[j];
  for (size_t i = 1; i < bins; i++)
    for (size_t j = 0; j < n; j++) e[j] = raw[i * ld + j] > e[j] ? raw[i * ld + j] : e[j];
  for (size_t i = 0; i < bins; i++) {
    double *row = e + (i + 1) * ld;
    for (size_t j = 0; j < n; j++) row[j] = raw[i * ld + j] - e[j];
    map_row(IR_EXP, row, n, k);
  }
  memset(e, 0, n * sizeof *e);
  for (size_t i = 1; i <= bins; i++) k->add(e, e + i * ld, n);
  for (size_t j = 0; j < n; j++) e[j] = SHARED / e[j];
  for (size_t j = 0; j < n; j++) e[ld + j] = e[j] * e[ld + j] + (floor_of(bins) - RQS_BOUND);
  for (size_t i = 2; i <= bins; i++) {
    double *row = e + i * ld, *below = e + (i - 1) * ld;
    for (size_t j = 0; j < n; j++) row[j] = below[j] + (e[j] * row[j] + floor_of(bins));
  }
  for (size_t j = 0; j < n; j++) e[j] = -RQS_BOUND, e[bins * ld + j] = RQS_BOUND;
}

void rqs_knots(const Knots *knots, const double *raw, size_t n, const Kernels *k) {
  size_t bins = knots->bins, ld = knots->ld;
  edges(knots->x, raw, bins, ld, n, k);
  edges(knots->y, raw + bins * ld, bins, ld, n, k);
  for (size_t i = 1; i < bins; i++) {
    const double *in = raw + (2 * bins + i - 1) * ld;
    double *d = knots->d + i * ld;
    for (size_t j = 0; j < n; j++) d[j] = in[j] + SLOPE_SHIFT;
    map_row(IR_LOG1P_EXP, d, n, k);
    for (size_t j = 0; j < n; j++) d[j] += MIN_SLOPE;
  }
  for (size_t j = 0; j < n; j++) knots->d[j] = knots->d[bins * ld + j] = 1;
}

/* Bin i is floor + share_i, share = SHARED softmax(raw). It moves all knots above it but the last:
 * its adjoint is a_i = sum of g_k, i < k < bins, and that of raw_i is share_i (a_i - sum_m a_m
 * share_m / SHARED). */
static void edges_adjoint(const double *e, double *g, double *adj_raw, size_t bins, size_t ld,
                          size_t n) {
  double *mean = g, low = floor_of(bins); /* the first knot does not move: its row is free */
  for (size_t j = 0; j < n; j++) adj_raw[(bins - 1) * ld + j] = mean[j] = 0;
  for (size_t i = bins - 1; i-- > 0;)
    for (size_t j = 0; j < n; j++) {
      size_t at = i * ld + j;
      adj_raw[at] = adj_raw[at + ld] + g[at + ld];
      mean[j] += adj_raw[at] * (e[at + ld] - e[at] - low);
    }
  for (size_t i = 0; i < bins; i++)
    for (size_t j = 0; j < n; j++) {
      size_t at = i * ld + j;
      adj_raw[at] = (e[at + ld] - e[at] - low) * (adj_raw[at] - mean[j] / SHARED);
    }
}

/* d slope / d raw = 1 - exp(-softplus(raw + shift)) = -expm1(MIN_SLOPE - slope) */
static void slopes_adjoint(const Knots *knots, const Knots *adj, double *adj_raw, size_t n,
                           const Kernels *k) {
  size_t bins = knots->bins, ld = knots->ld;
  for (size_t i = 1; i < bins; i++) {
    const double *d = knots->d + i * ld, *g = adj->d + i * ld;
    double *out = adj_raw + (i - 1) * ld;
    for (size_t j = 0; j < n; j++) out[j] = MIN_SLOPE - d[j];
    map_row(IR_EXPM1, out, n, k);
    for (size_t j = 0; j < n; j++) out[j] *= -g[j];
  }
}

void rqs_knots_adjoint(const Knots *knots, const Knots *adj, double *adj_raw, size_t n,
                       const Kernels *k) {
  size_t bins = knots->bins, ld = knots->ld;
  edges_adjoint(knots->x, adj->x, adj_raw, bins, ld, n);
  edges_adjoint(knots->y, adj->y, adj_raw + bins * ld, bins, ld, n);
  slopes_adjoint(knots, adj, adj_raw + 2 * bins * ld, n, k);
}

/* ---- one point ------------------------------------------------------------------------------- */

typedef struct {
  double x, y, w, h, s, d0, d1;
} Bin;

/* The bin of x among the knots at e[0], e[ld], ...: e_k <= x < e_k+1. */
static size_t find(const double *e, size_t bins, size_t ld, double x) {
  size_t lo = 0, hi = bins;
  while (hi - lo > 1) {
    size_t mid = (lo + hi) / 2;
    if (x < e[mid * ld])
      hi = mid;
    else
      lo = mid;
  }
  return lo;
}

static Bin bin_at(const Knots *knots, size_t at) {
  const double *x = knots->x + at, *y = knots->y + at, *d = knots->d + at;
  double w = x[knots->ld] - *x, h = y[knots->ld] - *y;
  return (Bin){*x, *y, w, h, h / w, *d, d[knots->ld]};
}

static bool outside(double x) { return !(fabs(x) < RQS_BOUND); }

/* log dy/dx at xi in the bin */
static double log_slope_at(const Bin *b, double xi) {
  double p = xi * (1 - xi), den = b->s + (b->d0 + b->d1 - 2 * b->s) * p;
  double q = b->s / den;
  return log(q * q * (b->d1 * xi * xi + 2 * b->s * p + b->d0 * (1 - xi) * (1 - xi)));
}

double rqs_value(const Knots *knots, size_t lane, double x, double *log_slope) {
  if (outside(x)) {
    if (log_slope) *log_slope = 0;
    return x;
  }
  Bin b = bin_at(knots, find(knots->x + lane, knots->bins, knots->ld, x) * knots->ld + lane);
  double xi = (x - b.x) / b.w, p = xi * (1 - xi);
  if (log_slope) *log_slope = log_slope_at(&b, xi);
  return b.y + b.h * (b.s * xi * xi + b.d0 * p) / (b.s + (b.d0 + b.d1 - 2 * b.s) * p);
}

/* xi = 2 c / (-b - sqrt(b^2 - 4 a c)) (their eq. 6-8, the root without cancellation) */
double rqs_inverse(const Knots *knots, size_t lane, double y, double *log_slope) {
  *log_slope = 0;
  if (outside(y)) return y;
  Bin bin = bin_at(knots, find(knots->y + lane, knots->bins, knots->ld, y) * knots->ld + lane);
  double up = y - bin.y, t = up * (bin.d0 + bin.d1 - 2 * bin.s);
  double a = bin.h * (bin.s - bin.d0) + t, b = bin.h * bin.d0 - t, c = -bin.s * up;
  double xi = 2 * c / (-b - sqrt(fmax(b * b - 4 * a * c, 0)));
  *log_slope = log_slope_at(&bin, xi);
  return bin.x + xi * bin.w;
}

/* Reverse through y = y_k + h A / den and l = 2 log s + log N - 2 log den, with A = s xi^2 + d_k p,
 * den = s + t p, t = d_k + d_k+1 - 2 s, N = d_k+1 xi^2 + 2 s p + d_k (1 - xi)^2; then through xi,
 * s, w and h to the two knots. */
double rqs_adjoint(const Knots *knots, size_t lane, double x, double adj_y, double adj_l,
                   const Knots *adj) {
  if (outside(x)) return adj_y;
  size_t ld = knots->ld, at = find(knots->x + lane, knots->bins, ld, x) * ld + lane;
  Bin b = bin_at(knots, at);
  double xi = (x - b.x) / b.w, eta = 1 - xi, p = xi * eta, t = b.d0 + b.d1 - 2 * b.s;
  double A = b.s * xi * xi + b.d0 * p, den = b.s + t * p,
         N = b.d1 * xi * xi + 2 * b.s * p + b.d0 * eta * eta;
  double gA = adj_y * b.h / den, gN = adj_l / N, gden = -(gA * A + 2 * adj_l) / den;
  double gp = gA * b.d0 + gden * t + 2 * gN * b.s;
  double gxi = 2 * gA * b.s * xi + gp * (1 - 2 * xi) + 2 * gN * (b.d1 * xi - b.d0 * eta);
  double gs = 2 * adj_l / b.s + gA * xi * xi + gden * (1 - 2 * p) + 2 * gN * p;
  double gx = gxi / b.w, gh = adj_y * A / den + gs / b.w, gw = -(gs * b.s + gxi * xi) / b.w;
  adj->x[at] -= gx + gw;
  adj->x[at + ld] += gw;
  adj->y[at] += adj_y - gh;
  adj->y[at + ld] += gh;
  adj->d[at] += (gA + gden) * p + gN * eta * eta;
  adj->d[at + ld] += gden * p + gN * xi * xi;
  return gx;
}
