/* spread.c: E|Y - Y'| / 2, in one of two ways.
 *
 * Pairs: 1/2 sum_jk w_j w_k e_jk with e_jk = E|Y_j - Y_k| in closed form (normal, exponential,
 * double exponential): exact, M^2 / 2 evaluations.
 *
 * Nodes: int F (1 - F) dt = int F (1 - F) T'(x) dx by the trapezoidal rule on a coordinate x in
 * which the integrand is analytic and falls off fast: t = c + s sinh x on the line, exp x on the
 * half line, inv_logit x on (0, 1). The rule then converges exponentially in 1/h (Trefethen and
 * Weideman 2014): 18 nodes for one normal. The sum over every second node comes free and tells the
 * error: that of the whole is the square or better. G M evaluations for G nodes (cells.c: of six
 * densities). Unlike int (F(t) - 1{y <= t})^2 dt the integrand has no jump, so there is nothing to
 * split. The derivatives are those of the integral at the same nodes: d = int (1 - 2 F) dF T' dx.
 */
#include "score/spread_int.h"

#include "num/simd.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define SQRT_2PI 2.50662827463100050242
#define SQRT_PI 1.77245385090551602730

/* ---- pairs ----------------------------------------------------------------------------------- */

/* e = E|A - B| of two lanes and its derivatives by the parameters of both. */
typedef double Pair(const double *a, const double *b, double *da, double *db);

/* 1/a + 1/b - 2/(a + b) */
static double exponential_pair(const double *a, const double *b, double *da, double *db) {
  double s = a[0] + b[0], both = 2 / (s * s);
  da[0] = both - 1 / (a[0] * a[0]);
  db[0] = both - 1 / (b[0] * b[0]);
  return 1 / a[0] + 1 / b[0] - 2 / s;
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

static Pair *pair_of(Kind kind) {
  return kind == KIND_EXPONENTIAL          ? exponential_pair
         : kind == KIND_DOUBLE_EXPONENTIAL ? laplace_pair
                                           : NULL;
}

static double pairs(const ScoreCase *c, Pair *pair, double g, const ScoreAdjoint *adj) {
  const Mixture *q = &c->q;
  int n = kind_parameters(q->kind);
  double value = 0, a[KIND_PARAMETERS], b[KIND_PARAMETERS], da[KIND_PARAMETERS],
         db[KIND_PARAMETERS];
  for (size_t j = 0; j < q->M; j++) {
    double wj = mixture_weight(q, j);
    mixture_lane(q, j, a);
    for (size_t i = 0; i <= j; i++) {
      double wi = mixture_weight(q, i), both = i == j ? 0.5 : 1; /* (i, j) stands for (j, i) too */
      mixture_lane(q, i, b);
      double e = pair(a, b, da, db);
      value += both * wi * wj * e;
      for (int k = 0; k < n; k++)
        if (adj->par[k])
          adj->par[k][j] += g * both * wi * wj * da[k],
              adj->par[k][i] += g * both * wi * wj * db[k];
      if (adj->weights) adj->weights[j] += g * both * wi * e, adj->weights[i] += g * both * wj * e;
    }
  }
  return value;
}

/* ---- pairs of normals, a row at a time
 * -------------------------------------------------------------------------------- e = A(mu_j -
 * mu_i, s), s^2 = s_j^2 + s_i^2, A(d, s) = d (2 Phi(z) - 1) + 2 s phi(z), z = d / s; dA/dd = 2 Phi
 * - 1, dA/ds = 2 phi. Lane j meets the lanes i < j: rows of width n. */

typedef struct {
  double *z, *s, *P, *e; /* d / s, s, Phi(z), exp(-z^2 / 2) */
} PairRows;

static void normal_pair_rows(const ScoreCase *c, size_t j, size_t n, const PairRows *r) {
  const double *mu = c->q.par[0], *scale = c->q.par[1];
  for (size_t i = 0; i < n; i += VL) {
    vd si = v_load(scale + i), s = v_sqrt(si * si + scale[j] * scale[j]),
       z = (mu[j] - v_load(mu + i)) / s;
    vd near = v_min(v_splat(30), v_max(v_splat(-30), z)); /* no subnormal numbers, which are slow */
    v_store(r->s + i, s);
    v_store(r->z + i, z);
    v_store(r->P + i, near);
    v_store(r->e + i, -0.5 * near * near);
  }
  c->k->forward[IR_PHI](r->P, (const double *const[]){r->P}, (size_t[]){1}, n);
  c->k->forward[IR_EXP](r->e, (const double *const[]){r->e}, (size_t[]){1}, n);
}

/* Sums over the lanes i of a row, w: their weights. */
typedef struct {
  vd e, slope, per; /* A, dA/dd, dA/ds / s */
} PairSums;

/* n <= VL lanes from i on against lane j: adds to the sums and to the derivatives by the lanes i. f
 * = g w_j. */
VFN void normal_pair_add(const ScoreCase *c, const PairRows *r, size_t i, size_t n, double f,
                         const ScoreAdjoint *adj, PairSums *sum) {
  double each = 1 / (double)c->q.M;
  vd w = v_load_n(c->q.weights ? c->q.weights + i : (const double[VL]){[0 ... VL - 1] = each}, n);
  vd s = v_max(v_load_n(r->s + i, n), v_splat(DBL_MIN)),
     phi = 2 / SQRT_2PI * v_load_n(r->e + i, n); /* 0 in lanes from n on */
  vd slope = 2.0 * v_load_n(r->P + i, n) - 1.0, e = s * (v_load_n(r->z + i, n) * slope + phi),
     per = phi / s;
  sum->e += w * e;
  sum->slope += w * slope;
  sum->per += w * per;
  double *mu = adj->par[0], *scale = adj->par[1], *weights = adj->weights;
  if (mu) v_store_n(mu + i, v_load_n(mu + i, n) - f * w * slope, n);
  if (scale)
    v_store_n(scale + i, v_load_n(scale + i, n) + f * w * per * v_load_n(c->q.par[1] + i, n), n);
  if (weights) v_store_n(weights + i, v_load_n(weights + i, n) + f * e, n);
}

/* Row j of the sums, i < j: its part of the value, and derivatives by lane j. The pair (j, j) has e
 * = 2 s_j / sqrt(pi). */
static double normal_pair_sum(const ScoreCase *c, size_t j, const PairRows *r, double g,
                              const ScoreAdjoint *adj) {
  double wj = mixture_weight(&c->q, j), scale = c->q.par[1][j], self = 2 / SQRT_PI;
  PairSums sum = {{0}, {0}, {0}};
  size_t i = 0;
  for (; i + VL <= j; i += VL) normal_pair_add(c, r, i, VL, g * wj, adj, &sum);
  if (i < j) normal_pair_add(c, r, i, j - i, g * wj, adj, &sum);
  if (adj->par[0]) adj->par[0][j] += g * wj * v_sum(sum.slope);
  if (adj->par[1]) adj->par[1][j] += g * wj * (scale * v_sum(sum.per) + 0.5 * wj * self);
  if (adj->weights) adj->weights[j] += g * (v_sum(sum.e) + wj * self * scale);
  return wj * (v_sum(sum.e) + 0.5 * wj * self * scale);
}

static double normal_pairs(const ScoreCase *c, double g, const ScoreAdjoint *adj) {
  double *space = mixture_space(c), value = 0;
  size_t row = score_padded(c->q.M);
  PairRows r = {space, space + row, space + 2 * row, space + 3 * row};
  for (size_t j = 0; j < c->q.M; j++) {
    normal_pair_rows(c, j, score_padded(j), &r);
    value += normal_pair_sum(c, j, &r, g, adj);
  }
  return value;
}

/* ---- nodes: where they are ------------------------------------------------------------------- */

/* What one lane asks of the grid: no mass that matters outside [lo, hi]; a step that resolves it in
 * the outcome, at `at`. */
typedef struct {
  double lo, hi, at, step;
} Reach;

/* How far below its mean, in log t, a gamma(a)'s share t F(t) < e^-30 begins; beta's in logit t at
 * both ends. */
static double log_reach(double a, double sd) { return fmin((36 + a) / (1 + a), 11 * sd); }

static Reach lane_reach(Kind kind, const double *p) {
  double tail, sd, centre;
  switch (kind) {
  case KIND_NORMAL: return (Reach){p[0] - 7 * p[1], p[0] + 7 * p[1], p[0], 0.68 * p[1]};
  case KIND_LOGISTIC: return (Reach){p[0] - 28 * p[1], p[0] + 28 * p[1], p[0], 0.75 * p[1]};
  case KIND_STUDENT_T: /* the cdf has branch points at location +- i scale sqrt(nu); its tail is (z
                          / sqrt(nu))^-nu */
    tail = p[2] * fmin(sqrt(p[0]) * exp(28 / (p[0] - 1)), 1e140);
    return (Reach){p[1] - tail, p[1] + tail, p[1], p[2] * fmin(0.2 * sqrt(p[0]), 0.6)};
  case KIND_LOGNORMAL: return (Reach){p[0] - 7 * p[1], p[0] + p[1] * (p[1] + 7), 0, 0.68 * p[1]};
  case KIND_GAMMA:
    sd = 1 / sqrt(p[0]);
    return (Reach){log(p[0] / p[1]) - log_reach(p[0], sd),
                   log((p[0] + sqrt(60 * p[0]) + 30) / p[1]), 0, fmin(0.3, 0.55 * sd)};
  default: /* beta */
    sd = sqrt(1 / p[0] + 1 / p[1]);
    centre = log(p[0] / p[1]);
    return (Reach){fmin(centre, 0) - log_reach(p[0], sd), fmax(centre, 0) + log_reach(p[1], sd), 0,
                   fmin(0.4, 0.5 * sd)};
  }
}

/* On the line the coordinate is sinh: steps grow with the distance from the centre, so that wide
 * lanes do not pay for narrow ones, which must lie near the centre to be resolved. Heavy tails get
 * a cubic on top. */
static bool on_line(Kind k) {
  return k == KIND_NORMAL || k == KIND_LOGISTIC || k == KIND_STUDENT_T;
}

static Axis line_axis(const ScoreCase *c) {
  int at = c->q.kind == KIND_STUDENT_T;
  const double *mu = c->q.par[at], *s = c->q.par[at + 1];
  double centre = mixture_mean(c, mu), far = 0, narrow = (double)INFINITY;
  for (size_t j = 0; j < c->q.M; j++) {
    far += (mu[j] - centre) * (mu[j] - centre);
    narrow = fmin(narrow, s[j]);
  }
  return (Axis){AXIS_SINH, centre, 0.5 * sqrt(far / (double)c->q.M) + 4 * narrow, at ? 0.1 : 0};
}

/* T'(x) where t is d away from the centre */
static double axis_slope(const Axis *a, double d) {
  double slope = sqrt(a->s * a->s + d * d), x = a->g > 0 ? axis_place(a, a->c + d) : 0;
  return slope * (1 + 3 * a->g * x * x);
}

static Grid grid_make(const ScoreCase *c) {
  bool line = on_line(c->q.kind);
  Grid g = {.axis = {.map = c->q.kind == KIND_BETA ? AXIS_LOGIT : AXIS_EXP}};
  double lo = (double)INFINITY, hi = (double)-INFINITY, par[KIND_PARAMETERS];
  if (line) g.axis = line_axis(c);
  g.h = line ? 0.25 : 1;
  for (size_t j = 0; j < c->q.M; j++) {
    mixture_lane(&c->q, j, par);
    Reach r = lane_reach(c->q.kind, par);
    lo = fmin(lo, r.lo);
    hi = fmax(hi, r.hi);
    g.h =
        fmin(g.h, line ? r.step / axis_slope(&g.axis, fabs(r.at - g.axis.c) + 2 * r.step) : r.step);
  }
  g.x0 = line ? axis_place(&g.axis, lo) : lo;
  double width = (line ? axis_place(&g.axis, hi) : hi) - g.x0;
  double n = 2 * ceil(0.5 * width / g.h); /* even: every second node is a grid too */
  g.n = n < SPREAD_NODES ? (size_t)n : SPREAD_NODES;
  if (n > SPREAD_NODES) g.h = width / SPREAD_NODES;
  return g;
}

/* ---- nodes: the sums ------------------------------------------------------------------------- */

/* F (or -(1 - F)) at the nodes first, first + stride, ... of a grid. Only the lognormal's tail is
 * so long that 1 - F needs care. */
static void fill(const ScoreCase *c, const Grid *g, size_t first, size_t stride, double *F) {
  double slope,
      middle = c->q.kind == KIND_LOGNORMAL ? exp(mixture_mean(c, c->q.par[0])) : (double)INFINITY;
  if (cells_serve(c->q.kind)) {
    cells_fill(c, g, F);
    return;
  }
  for (size_t i = first; i <= g->n; i += stride) {
    double t = axis_outcome(&g->axis, g->x0 + (double)i * g->h, &slope);
    F[i] = t <= middle ? mixture_cdf(c, t) : -mixture_tail(c, t);
  }
}

/* h sum F (1 - F) T' over every stride-th node */
static double trapezoid(const Grid *g, size_t stride, const double *F) {
  double s = 0, slope;
  for (size_t i = 0; i <= g->n; i += stride) {
    axis_outcome(&g->axis, g->x0 + (double)i * g->h, &slope);
    s += fabs(F[i]) * (1 - fabs(F[i])) * slope;
  }
  return s * g->h * (double)stride;
}

/* Twice as many nodes: the old ones move to the even places. */
static void refine(const ScoreCase *c, Grid *g, double *F) {
  for (size_t i = g->n + 1; i-- > 0;) F[2 * i] = F[i];
  g->n *= 2;
  g->h *= 0.5;
  fill(c, g, 1, 2, F);
}

/* For g d/dpar int F (1 - F) dt = g int (1 - 2 F) dF_j/dpar dt: the factors of dF_j at the nodes
 * into v, and what the weights get in common: int F + (1 - 2 F) F_j dt; where cells.c puts -(1 -
 * F_j) in place of F_j, 1 - F in place of F. */
static double nodes_slopes(const Grid *grid, const double *F, double g, bool whole, double *v) {
  double common = 0, slope;
  for (size_t i = 0; i <= grid->n; i++) {
    axis_outcome(&grid->axis, grid->x0 + (double)i * grid->h, &slope);
    v[i] = g * slope * grid->h * (1 - 2 * node_cdf(F[i]));
    common += g * slope * grid->h * (whole ? node_cdf(F[i]) : fabs(F[i]));
  }
  return common;
}

static void nodes_adjoint(const ScoreCase *c, const Grid *grid, double *F, double g,
                          const ScoreAdjoint *adj) {
  double *v = F + SPREAD_NODES + 1, common = nodes_slopes(grid, F, g, !cells_serve(c->q.kind), v),
         slope;
  for (size_t j = 0; adj->weights && j < c->q.M; j++) adj->weights[j] += common;
  if (cells_serve(c->q.kind)) {
    cells_adjoint(c, grid, F, v, adj);
    return;
  }
  for (size_t i = 0; i <= grid->n; i++)
    F[i] = axis_outcome(&grid->axis, grid->x0 + (double)i * grid->h, &slope);
  mixture_cdf_adjoint(c, grid->n + 1, F, v, adj);
}

static bool wants(const ScoreAdjoint *adj) {
  return adj->par[0] || adj->par[1] || adj->par[2] || adj->weights;
}

static double nodes(const ScoreCase *c, Grid *grid, double g, const ScoreAdjoint *adj) {
  double *F = mixture_space(c), value, rough;
  double enough = c->q.kind == KIND_NORMAL || c->q.kind == KIND_LOGNORMAL ? 5e-3 : 1e-5;
  mixture_prepare(c);
  fill(c, grid, 0, 1, F);
  for (;;) {
    value = trapezoid(grid, 1, F);
    rough = trapezoid(grid, 2, F);
    if (!(fabs(value - rough) > enough * value) || 2 * grid->n >= SPREAD_NODES) break;
    refine(c, grid, F);
  }
  if (wants(adj)) nodes_adjoint(c, grid, F, g, adj);
  return value;
}

/* ---- the choice ------------------------------------------------------------------------------ */

double mixture_spread(const ScoreCase *c, SpreadMethod how, double g, const ScoreAdjoint *adj) {
  Kind kind = c->q.kind;
  if (pair_of(kind)) return pairs(c, pair_of(kind), g, adj);
  if (kind == KIND_NORMAL && how == SPREAD_PAIRS) return normal_pairs(c, g, adj);
  Grid grid = grid_make(c);
  if (kind == KIND_NORMAL && how == SPREAD_CHEAPEST && 2 * grid.n > c->q.M)
    return normal_pairs(c, g, adj);
  return nodes(c, &grid, g, adj);
}
