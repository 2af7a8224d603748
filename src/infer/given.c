/* given.c: integrals over scales on a grid or, where they are many, on quasi-random points, all
 * other parameters being normal given these (model/condition.h).
 *
 * With the scales first and the others behind them, the Cholesky factor of q's covariance begins
 * with the columns L (scales) and C (others). The scales are s = m + L x on the points x of the
 * grid, the means of the others m + C x, their covariance S - C C' at every point. Where q's
 * parameters are independent L is a diagonal of standard deviations and C is 0. Of a mixture whose
 * terms see parameters of their own, entries of L and C between two terms are left out. These are
 * the inputs of the tape; their adjoints go back the same way.
 */
#include "infer/exact_int.h"

#include "num/hermite.h"
#include "num/logistic.h"
#include "num/sobol.h"

#include <math.h>
#include <string.h>

struct Given {
  const Condition *c;
  bool *point;           /* of every parameter: it has no variance */
  double *grid;          /* [axes x nodes]; 0 along the axes of points */
  double *x;             /* [nodes] */
  size_t k;              /* dense: scales with a variance, */
  int32_t *scale, *axis; /* which, and along which axis */
  double *factor, *adj;  /* dense: [dim x k], rows of L and C; its adjoint */
};

const Condition *given_of(const Reduced *r, const QLaws *laws) { return r->given[laws->dense]; }

static void mark_points(const Q *q, bool *point) {
  memset(point, 0, (q->dim + 1) * sizeof *point);
  for (size_t k = 0; k < q->npoint; k++) point[q->point[k]] = true;
}

/* ---- the grid -------------------------------------------------------------------------------- */

/* Nodes along an axis of scales, and along x. Scales are smoother than predictors, so they get
 * fewer. In fits, twice the nodes are twice as many along each of two axes, and half as many more
 * along each of several: errors of Gauss's rules fall so fast that this tells as much. */
typedef struct {
  size_t scale, x;
} Sides;

/* Points of mean log densities that count little are so many times fewer. */
enum { FEWER = 4 };

static size_t at_least_two(double n) { return n < 2 ? 2 : (size_t)(n + 0.5); }

/* Points of scales that are too many for a grid; of these and x, where there is one. A rich q makes
 * the densities of a mixture as narrow at some points as suits some observations, so there are more
 * of them: with five normals and full rank 2,048 were exploited by 23 nats, 4,096 by at most a
 * half. */
static size_t sampled_points(const Condition *c, size_t nodes) {
  return (c->mean == NO_NODE ? 128 : c->line ? 16 : 4) * nodes;
}

static Sides sides_of(size_t nodes, size_t axes, bool line) {
  static const double scale[2][4] = {{1, 32, 10, 6}, {1, 10, 6, 4}}, x[4] = {32, 20, 14, 12};
  double times = (double)nodes / EXACT_NODES;
  if (axes + line > 2) times = times > 2 ? pow(2, 0.6) * times / 2 : pow(times, 0.6);
  return (Sides){at_least_two(scale[line][axes] * times), line ? at_least_two(x[axes] * times) : 1};
}

size_t given_lanes(const Condition *c, size_t nodes) {
  if (c->sampled) return sampled_points(c, nodes);
  Sides s = sides_of(nodes, (size_t)c->axes, c->line);
  for (int32_t d = 0; d < c->axes; d++) s.x *= s.scale;
  return s.x;
}

/* Do nodes lie along this axis (-1: along x)? Not where all parameters there are points. */
static bool moves(const Condition *c, const bool *point, int32_t axis) {
  for (int32_t k = 0; k < c->dim; k++)
    if (c->axis[k] == axis && !point[k]) return true;
  return false;
}

static bool has_line(const Condition *c, const bool *point) {
  return c->line && (c->tails || moves(c, point, -1));
}

static size_t active_axes(const Condition *c, const bool *point) {
  size_t n = 0;
  for (int32_t d = 0; d < c->axes; d++) n += moves(c, point, d);
  return n;
}

static void rule(Arena *a, const Integral *I, size_t n, double **x, double **w) {
  *x = NEW_ARRAY(a, double, n);
  *w = NEW_ARRAY(a, double, n);
  if (n == 1) {
    (*w)[0] = 1;
  } else {
    normal_rule(n, I->e->target.reach, *x, *w);
  }
}

static Given *begin(Arena *a, const Integral *I) {
  Given *g = NEW(a, Given);
  g->c = given_of(I->r, &I->e->laws);
  g->point = NEW_ARRAY(a, bool, I->e->q->dim + 1);
  mark_points(I->e->q, g->point);
  return g;
}

static void make_points(Arena *a, Integral *I) {
  I->given->grid = NEW_ARRAY(a, double, ((size_t)I->given->c->axes + 1) * I->nodes);
  I->given->x = NEW_ARRAY(a, double, I->nodes);
  I->node_weight = NEW_ARRAY(a, double, I->nodes);
  I->log_node_weight = NEW_ARRAY(a, double, I->nodes);
}

/* The grid of all axes that move. */
static void grid_points(Arena *a, Integral *I, const bool *moving) {
  Given *g = I->given;
  size_t axes = (size_t)g->c->axes, active = active_axes(g->c, g->point);
  Sides s = sides_of(I->e->target.nodes, active, has_line(g->c, g->point));
  double *xs, *ws, *xx, *wx;
  rule(a, I, s.scale, &xs, &ws);
  if (I->wide) s.x = leaves_normals(I->e->target.nodes);
  rule(a, I, s.x, &xx, &wx);
  if (I->wide) logistic_mixture(s.x, xx, wx);
  I->nodes = s.x;
  for (size_t d = 0; d < active; d++) I->nodes *= s.scale;
  make_points(a, I);
  for (size_t l = 0; l < I->nodes; l++) {
    size_t rest = l / s.x;
    g->x[l] = xx[l % s.x];
    I->node_weight[l] = wx[l % s.x];
    for (size_t d = 0; d < axes; d++) {
      if (!moving[d]) continue;
      g->grid[d * I->nodes + l] = xs[rest % s.scale];
      I->node_weight[l] *= ws[rest % s.scale];
      rest /= s.scale;
    }
  }
}

/* Is x the tail of a student_t? In means of log densities it is the predictor. */
static bool has_tails(const Integral *I) {
  return I->given->c->tails && !integral_is_mean(I) && target_needs(&I->e->target) & NEEDS_LL;
}

/* The tail of a student_t is what gives an outlier its density, so x is drawn wider than it is, by
 * WIDER, and weighted: far out there are points enough, for a fifth of those in the middle. */
static void widen(const Integral *I) {
  const double WIDER = 1.5, less = 0.5 * (1 - 1 / (WIDER * WIDER));
  double sum = 0;
  for (size_t l = 0; l < I->nodes; l++) {
    double x = I->given->x[l] *= WIDER;
    sum += I->node_weight[l] = exp(-less * x * x);
  }
  for (size_t l = 0; l < I->nodes; l++) I->node_weight[l] /= sum;
}

/* Quasi-random scales. Another number of points is another scramble, so that twice as many are
 * fresh ones. */
static void random_points(Arena *a, Integral *I, const bool *moving) {
  Given *g = I->given;
  size_t axes = (size_t)g->c->axes;
  I->nodes = sampled_points(g->c, I->e->target.nodes) / (I->mean ? FEWER : 1);
  make_points(a, I);
  sobol_normal(g->grid, axes + g->c->line, I->nodes, I->nodes, I->nodes, false);
  for (size_t l = 0; l < I->nodes; l++) I->node_weight[l] = 1 / (double)I->nodes;
  if (has_line(g->c, g->point)) {
    memcpy(g->x, g->grid + axes * I->nodes, I->nodes * sizeof *g->x);
    if (has_tails(I)) widen(I);
  }
  for (size_t d = 0; d < axes; d++)
    if (!moving[d]) memset(g->grid + d * I->nodes, 0, I->nodes * sizeof *g->grid);
}

void given_nodes(Arena *a, Integral *I) {
  Given *g = I->given = begin(a, I);
  bool moving[g->c->axes + 1];
  for (int32_t d = 0; d < g->c->axes; d++) moving[d] = moves(g->c, g->point, d);
  (g->c->sampled ? random_points : grid_points)(a, I, moving);
  for (size_t l = 0; l < I->nodes; l++) I->log_node_weight[l] = log(I->node_weight[l]);
}

/* Does one term of a mixture alone see it? Such scales are given what all terms see. */
static bool is_own(const Condition *c, size_t k) { return c->term && c->term[k] >= 0; }

static void add_scale(Given *g, size_t k) {
  g->scale[g->k] = (int32_t)k;
  g->axis[g->k++] = g->c->axis[k];
}

void given_make(Arena *a, Integral *I) {
  Given *g = I->given;
  size_t dim = (size_t)g->c->dim;
  I->weights = NEW_ARRAY(a, double, I->ld);
  I->log_weights = NEW_ARRAY(a, double, I->ld);
  if (!I->e->laws.dense) return;
  g->scale = NEW_ARRAY(a, int32_t, dim);
  g->axis = NEW_ARRAY(a, int32_t, dim);
  for (int own = 0; own < 2; own++)
    for (size_t k = 0; k < dim; k++)
      if (g->c->axis[k] >= 0 && !g->point[k] && is_own(g->c, k) == own) add_scale(g, k);
  g->factor = NEW_ARRAY(a, double, dim *(g->k + 1) * I->e->laws.count);
  g->adj = NEW_ARRAY(a, double, dim *(g->k + 1));
}

/* ---- rows of lanes --------------------------------------------------------------------------- */

static double *row_of(const Integral *I, double *rows, size_t input, size_t c) {
  return rows + input * I->ld + c * I->nodes;
}

static double *pair_row(const Integral *I, double *rows, int32_t pair, size_t c) {
  return row_of(I, rows, (size_t)I->given->c->dim + 1 + (size_t)pair, c);
}

/* The padding is like the last lane. */
static void pad(const Integral *I, double *row) {
  for (size_t l = I->M; l < I->ld; l++) row[l] = row[I->M - 1];
}

static void fill(const Integral *I, double *row, double x) {
  for (size_t l = 0; l < I->nodes; l++) row[l] = x;
}

static void add_times(const Integral *I, double *row, double c, const double *x) {
  for (size_t l = 0; l < I->nodes; l++) row[l] += c * x[l];
}

/* Lanes whose density is zero have no finite derivatives, and no weight either. x NULL: ones. */
static double over_lanes(const Integral *I, const double *g, const double *x) {
  double sum = x ? I->e->k->dot(g, x, I->nodes) : I->e->k->sum(g, I->nodes);
  if (isfinite(sum)) return sum;
  sum = 0;
  for (size_t l = 0; l < I->nodes; l++)
    if (isfinite(g[l])) sum += g[l] * (x ? x[l] : 1);
  return sum;
}

static const double *grid_row(const Integral *I, int32_t axis) {
  return I->given->grid + (size_t)axis * I->nodes;
}

/* ---- independent parameters ------------------------------------------------------------------ */

static void set_independent(const Integral *I, size_t c, double *rows) {
  const Condition *to = I->given->c;
  const NormalLaw *law = &I->e->laws.law[c];
  for (size_t k = 0; k < (size_t)to->dim; k++) {
    double *at = row_of(I, rows, k, c), sd = sqrt(law->var[k]);
    fill(I, at, law->mean[k]);
    if (to->axis[k] >= 0) add_times(I, at, sd, grid_row(I, to->axis[k]));
  }
  for (int32_t q = 0; q < to->npairs; q++) {
    int32_t k = to->pair[2 * q];
    fill(I, pair_row(I, rows, q, c), to->axis[k] < 0 ? law->var[k] : 0);
  }
}

static void fold_independent(const Integral *I, size_t c, double *rows) {
  const Condition *to = I->given->c;
  const NormalLaw *law = &I->e->laws.law[c];
  NormalLaw *adj = &I->e->laws.adj[c];
  for (size_t p = 0; p < (size_t)to->dim; p++) {
    const double *g = row_of(I, rows, p, c);
    double sd = sqrt(law->var[p]);
    adj->mean[p] += over_lanes(I, g, NULL);
    if (to->axis[p] >= 0 && sd > 1e-150)
      adj->var[p] += 0.5 * over_lanes(I, g, grid_row(I, to->axis[p])) / sd;
  }
  for (int32_t q = 0; q < to->npairs; q++) {
    int32_t k = to->pair[2 * q];
    if (to->axis[k] < 0) adj->var[k] += over_lanes(I, pair_row(I, rows, q, c), NULL);
  }
}

/* ---- correlated ones ------------------------------------------------------------------------- */

/* Rows of L and C, [dim x k]: f_p . f_s = S_ps for every scale s. */
static double *factor_of(const Integral *I, size_t c) {
  return I->given->factor + c * (size_t)I->given->c->dim * I->given->k;
}

/* Parameters of two terms of a mixture, neither of which is given to the other. */
static bool are_apart(const Condition *c, size_t p, size_t s) {
  return is_own(c, p) && is_own(c, s) && c->term[p] != c->term[s];
}

static void factorise(const Integral *I, size_t c) {
  const Given *g = I->given;
  const double *cov = I->e->laws.law[c].cov;
  size_t dim = (size_t)g->c->dim, ld = I->e->laws.dim, k = g->k;
  double *F = factor_of(I, c);
  memset(F, 0, dim * k * sizeof *F);
  for (size_t d = 0; d < k; d++) {
    size_t s = (size_t)g->scale[d];
    double pivot = cov[s * ld + s];
    for (size_t j = 0; j < d; j++) pivot -= F[s * k + j] * F[s * k + j];
    if (!(pivot > 1e-14 * cov[s * ld + s])) continue; /* the others say where it is */
    F[s * k + d] = sqrt(pivot);
    for (size_t p = 0; p < dim; p++) {
      bool done = p == s || are_apart(g->c, p, s);
      for (size_t j = 0; j < d; j++) done = done || p == (size_t)g->scale[j];
      if (done) continue;
      double sum = cov[p * ld + s];
      for (size_t j = 0; j < d; j++) sum -= F[p * k + j] * F[s * k + j];
      F[p * k + d] = sum / F[s * k + d];
    }
  }
}

/* The other way: adj of F becomes that of the covariances, columns from the last to the first. */
static void factorise_adjoint(const Integral *I, size_t c) {
  const Given *g = I->given;
  size_t dim = (size_t)g->c->dim, ld = I->e->laws.dim, k = g->k;
  const double *F = factor_of(I, c);
  double *A = g->adj, *cov = I->e->laws.adj[c].cov;
  for (size_t d = k; d-- > 0;) {
    size_t s = (size_t)g->scale[d];
    double l = F[s * k + d];
    if (l == 0) continue;
    for (size_t p = 0; p < dim; p++) {
      bool done = p == s || are_apart(g->c, p, s);
      for (size_t j = 0; j < d; j++) done = done || p == (size_t)g->scale[j];
      if (done) continue;
      double sum = A[p * k + d] / l;
      A[s * k + d] -= A[p * k + d] * F[p * k + d] / l;
      cov[p * ld + s] += sum;
      for (size_t j = 0; j < d; j++) {
        A[p * k + j] -= sum * F[s * k + j];
        A[s * k + j] -= sum * F[p * k + j];
      }
    }
    double pivot = 0.5 * A[s * k + d] / l;
    cov[s * ld + s] += pivot;
    for (size_t j = 0; j < d; j++) A[s * k + j] -= 2 * pivot * F[s * k + j];
  }
}

static void set_dense(const Integral *I, size_t c, double *rows) {
  const Given *g = I->given;
  const NormalLaw *law = &I->e->laws.law[c];
  size_t dim = (size_t)g->c->dim, ld = I->e->laws.dim, k = g->k;
  factorise(I, c);
  const double *F = factor_of(I, c);
  for (size_t p = 0; p < dim; p++) {
    double *at = row_of(I, rows, p, c);
    fill(I, at, law->mean[p]);
    for (size_t d = 0; d < k; d++) add_times(I, at, F[p * k + d], grid_row(I, g->axis[d]));
  }
  for (int32_t q = 0; q < g->c->npairs; q++) {
    size_t i = (size_t)g->c->pair[2 * q], j = (size_t)g->c->pair[2 * q + 1];
    double v = law->cov[i * ld + j];
    for (size_t d = 0; d < k; d++) v -= F[i * k + d] * F[j * k + d];
    fill(I, pair_row(I, rows, q, c), i == j ? fmax(v, 0) : v);
  }
}

static void fold_dense(const Integral *I, size_t c, double *rows) {
  const Given *g = I->given;
  NormalLaw *adj = &I->e->laws.adj[c];
  size_t dim = (size_t)g->c->dim, ld = I->e->laws.dim, k = g->k;
  const double *F = factor_of(I, c);
  for (size_t p = 0; p < dim; p++) {
    const double *at = row_of(I, rows, p, c);
    adj->mean[p] += over_lanes(I, at, NULL);
    for (size_t d = 0; d < k; d++) g->adj[p * k + d] = over_lanes(I, at, grid_row(I, g->axis[d]));
  }
  for (int32_t q = 0; q < g->c->npairs; q++) {
    size_t i = (size_t)g->c->pair[2 * q], j = (size_t)g->c->pair[2 * q + 1];
    double v = over_lanes(I, pair_row(I, rows, q, c), NULL);
    if (v == 0) continue;
    adj->cov[i * ld + j] += v;
    for (size_t d = 0; d < k; d++) {
      g->adj[i * k + d] -= v * F[j * k + d];
      g->adj[j * k + d] -= v * F[i * k + d];
    }
  }
  factorise_adjoint(I, c);
}

/* ---- all components -------------------------------------------------------------------------- */

void given_set(Integral *I) {
  double *rows = vm_theta(I->work);
  size_t inputs = (size_t)condition_inputs(I->given->c);
  for (size_t c = 0; c < I->e->laws.count; c++) {
    (I->e->laws.dense ? set_dense : set_independent)(I, c, rows);
    memcpy(row_of(I, rows, (size_t)I->given->c->dim, c), I->given->x, I->nodes * sizeof *rows);
  }
  for (size_t k = 0; k < inputs; k++) pad(I, rows + k * I->ld);
}

void given_fold(Integral *I) {
  double *adj = vm_theta_adjoint(I->work);
  for (size_t c = 0; c < I->e->laws.count; c++)
    (I->e->laws.dense ? fold_dense : fold_independent)(I, c, adj);
}
