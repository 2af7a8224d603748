/* spread.c: E|Y - Y'| / 2, in one of two ways.
 *
 * Pairs: 1/2 sum_jk w_j w_k e_jk with e_jk = E|Y_j - Y_k|, where the kind has it in closed form
 * (KindCode.pair; the normal kind, all lanes at once, is here): exact, M^2 / 2 evaluations.
 *
 * Nodes: int F (1 - F) dt = int F (1 - F) T'(x) dx by the trapezoidal rule on a coordinate x in
 * which the integrand is analytic and falls off fast: t = c + s sinh x on the line, exp x on the
 * half line, inv_logit x on (0, 1). The rule then converges exponentially in 1/h (Trefethen and
 * Weideman 2014): 18 nodes for one normal. The sum over every second node comes free and tells the
 * error: that of the whole is the square or better. G M evaluations for G nodes (cells.c: of four
 * densities). Unlike int (F(t) - 1{y <= t})^2 dt the integrand has no jump, so there is nothing to
 * split. The derivatives are those of the integral at the same nodes: d = int (1 - 2 F) dF T' dx.
 */
#include "score/spread_int.h"

#include "num/simd.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define SQRT_PI 1.77245385090551602730

/* ---- pairs ----------------------------------------------------------------------------------- */

static double pairs(const ScoreCase *c, double g, const ScoreAdjoint *adj) {
  const Mixture *q = &c->q;
  const KindCode *kind = kind_code(q->kind);
  int n = kind_parameters(q->kind);
  double value = 0, a[KIND_PARAMETERS], b[KIND_PARAMETERS], da[KIND_PARAMETERS],
         db[KIND_PARAMETERS];
  for (size_t j = 0; j < q->M; j++) {
    double wj = mixture_weight(q, j);
    mixture_lane(q, j, a);
    for (size_t i = 0; i <= j; i++) {
      double wi = mixture_weight(q, i), both = i == j ? 0.5 : 1; /* (i, j) stands for (j, i) too */
      mixture_lane(q, i, b);
      double e = kind->pair(a, b, da, db);
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

/* ---- pairs of normals, a row at a time ------------------------------------------------------- */

/* e = A(mu_j - mu_i, s), s^2 = s_j^2 + s_i^2, A(d, s) = d (2 Phi(z) - 1) + 2 s phi(z), z = d / s;
 * dA/dd = 2 Phi - 1, dA/ds = 2 phi. Lane j meets the lanes i < j: rows of width n. */
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

/* Sums over the lanes i of a row, weighted. */
typedef struct {
  double factor;    /* of derivatives: g w_j */
  vd e, slope, per; /* A, dA/dd, dA/ds / s */
} PairSums;

/* n <= VL lanes from i on against lane j: adds to the sums and to the derivatives by the lanes i.
 */
VFN void normal_pair_add(const ScoreCase *c, const PairRows *r, size_t i, size_t n,
                         const ScoreAdjoint *adj, PairSums *sum) {
  double each = 1 / (double)c->q.M, f = sum->factor;
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
  PairSums sum = {.factor = g * wj};
  size_t i = 0;
  for (; i + VL <= j; i += VL) normal_pair_add(c, r, i, VL, adj, &sum);
  if (i < j) normal_pair_add(c, r, i, j - i, adj, &sum);
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

/* On the line the coordinate is sinh: steps grow with the distance from the centre, so that wide
 * lanes do not pay for narrow ones, which must lie near the centre to be resolved. Heavy tails get
 * a cubic on top. */
static bool on_line(const ScoreCase *c) { return kind_code(c->q.kind)->domain <= ON_HEAVY_LINE; }

static Axis line_axis(const ScoreCase *c) {
  const KindCode *kind = kind_code(c->q.kind);
  const double *mu = c->q.par[kind->location], *s = c->q.par[kind->location + 1];
  double centre = mixture_mean(c, mu), far = 0, narrow = (double)INFINITY;
  for (size_t j = 0; j < c->q.M; j++) {
    far += (mu[j] - centre) * (mu[j] - centre);
    narrow = fmin(narrow, s[j]);
  }
  return (Axis){AXIS_SINH, centre, 0.5 * sqrt(far / (double)c->q.M) + 4 * narrow,
                kind->domain == ON_HEAVY_LINE ? 0.1 : 0};
}

/* T'(x) where t is d away from the centre */
static double axis_slope(const Axis *a, double d) {
  double slope = sqrt(a->s * a->s + d * d), x = a->g > 0 ? axis_place(a, a->c + d) : 0;
  return slope * (1 + 3 * a->g * x * x);
}

/* With steps `coarse` times as long as the sharpest lane asks for. */
static Grid grid_make(const ScoreCase *c, double coarse) {
  const KindCode *kind = kind_code(c->q.kind);
  bool line = on_line(c);
  Grid g = {.axis = {.map = kind->domain == ON_UNIT ? AXIS_LOGIT : AXIS_EXP}};
  double lo = (double)INFINITY, hi = (double)-INFINITY, par[KIND_PARAMETERS];
  if (line) g.axis = line_axis(c);
  g.h = line ? 0.25 : 1;
  for (size_t j = 0; j < c->q.M; j++) {
    mixture_lane(&c->q, j, par);
    Reach r = kind->reach(par);
    lo = fmin(lo, r.lo);
    hi = fmax(hi, r.hi);
    g.h =
        fmin(g.h, line ? r.step / axis_slope(&g.axis, fabs(r.at - g.axis.c) + 2 * r.step) : r.step);
  }
  g.h *= coarse;
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
  const KindCode *kind = kind_code(c->q.kind);
  double slope,
      middle = kind->normal == NORMAL_LOG ? exp(mixture_mean(c, c->q.par[0])) : (double)INFINITY;
  if (kind->cells) {
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
  bool by_cells = kind_code(c->q.kind)->cells;
  double *v = F + SPREAD_NODES + 1, common = nodes_slopes(grid, F, g, !by_cells, v), slope;
  for (size_t j = 0; adj->weights && j < c->q.M; j++) adj->weights[j] += common;
  if (by_cells) {
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

static double nodes(const ScoreCase *c, Grid *grid, double enough, double g,
                    const ScoreAdjoint *adj) {
  double *F = mixture_space(c), value, rough;
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

/* Lanes as sharp as the sharpest are few, so where less than ten digits are asked for, steps begin
 * this much longer, and are halved until the sums agree. Those of normals are told by their square.
 */
#define COARSE 4.0
#define COARSE_NORMAL 1.5

/* How much longer, for digits that a value alone needs. */
static double first_steps(const KindCode *kind, bool digits) {
  return !digits ? 1 : kind->cells ? COARSE : kind->normal ? COARSE_NORMAL : 1;
}

double mixture_spread(const ScoreCase *c, SpreadMethod how, double g, const ScoreAdjoint *adj) {
  const KindCode *kind = kind_code(c->q.kind);
  bool normal = kind->normal == NORMAL_OUTCOME;
  if (kind->pair) return pairs(c, g, adj);
  if (normal && how == SPREAD_PAIRS) return normal_pairs(c, g, adj);
  bool digits = c->o.accuracy > 0 && !wants(adj), rough = kind->cells && digits;
  Grid grid = grid_make(c, first_steps(kind, digits));
  if (normal && how == SPREAD_CHEAPEST && 2 * grid.n > c->q.M) return normal_pairs(c, g, adj);
  return nodes(c, &grid, rough ? c->o.accuracy : kind->normal ? 5e-3 : 1e-5, g, adj);
}
