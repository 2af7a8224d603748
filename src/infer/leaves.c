/* leaves.c: quadrature nodes, and the values of an observation's functions on them.
 *
 * A leaf of the reduced graph holds, for every row, the coefficients of its values on the nodes x:
 * f = m + s x for one function; for two, g = m1 + s1 x1 and f given g = m + slope x1 + rest x2.
 * They follow from the laws of f and g (laws.c); what is differentiated in the coefficients goes
 * the same way back.
 *
 * The other way round, a law may be so wide that a binary outcome jumps from 0 to 1 between two
 * nodes. Then lanes are the normals of which a logistic variable is a mixture (num/logistic.h), for
 * every node of g: the leaves are f's mean and variance given g, and the variance of the lane.
 *
 * Peaked densities (a count of thousands) are narrower than any fixed nodes are dense. For them,
 * where there is one function, the nodes are placed about the mean of f given y, with its standard
 * deviation as the unit, and reweighted by N(f | m, v) / node density. The placing is not
 * differentiated: where it is good enough the integral does not depend on it.
 */
#include "infer/exact_int.h"

#include "num/hermite.h"
#include "num/logistic.h"

#include <math.h>
#include <string.h>

/* Many rows are done in groups, by several threads. Adjoints of the laws are summed group by group,
 * so the sums do not depend on the number of threads. */
enum { GROUP_ROWS = 8192, MOST_GROUPS = 8 };
size_t leaves_groups(size_t rows) { return rows > GROUP_ROWS ? MOST_GROUPS : 1; }

/* ---- making ---------------------------------------------------------------------------------- */

/* A product grid has fewer nodes a side. */
size_t leaves_side(ReducedForm form, size_t nodes) {
  return form == FORM_PLANE ? nodes * 3 / 4 : nodes;
}

/* Their sum converges much faster than one over nodes: 16 give seven digits, 24 twelve. */
size_t leaves_normals(size_t nodes) {
  size_t few = nodes / 2, many = 8 + nodes / 4;
  return few < 2 ? 2 : few < many ? few : many;
}

/* The second function of a wide plane is a scale as a rule: smoother than a predictor. */
static size_t outer_side(size_t nodes) { return nodes < 6 ? 2 : nodes * 3 / 8; }

static void make_nodes(Arena *a, Integral *I, size_t nodes) {
  I->nodes = nodes;
  I->node_weight = NEW_ARRAY(a, double, nodes);
  I->log_node_weight = NEW_ARRAY(a, double, nodes);
  I->x1 = NEW_ARRAY(a, double, nodes);
  I->x2 = NEW_ARRAY(a, double, nodes);
}

/* x1: nodes of the second function; x2: variances of the normals. */
static void wide_nodes_of(Arena *a, Integral *I) {
  size_t N = leaves_normals(I->e->target.nodes),
         K = I->r->form == FORM_PLANE ? outer_side(I->e->target.nodes) : 1;
  double x[K], w[K], u[N], v[N];
  if (K > 1) normal_rule(K, I->e->target.reach, x, w);
  logistic_mixture(N, u, v);
  make_nodes(a, I, K * N);
  for (size_t k = 0; k < I->nodes; k++) {
    I->x1[k] = K > 1 ? x[k / N] : 0;
    I->x2[k] = u[k % N];
    I->node_weight[k] = v[k % N] * (K > 1 ? w[k / N] : 1);
    I->log_node_weight[k] = log(I->node_weight[k]);
  }
}

/* x1: nodes of the only function, or of the second; x2: of the first given the second. */
void leaves_nodes(Arena *a, Integral *I) {
  if (I->wide) {
    wide_nodes_of(a, I);
    return;
  }
  const Reduced *r = I->r;
  size_t K = leaves_side(r->form, I->e->target.nodes);
  bool plane = r->form == FORM_PLANE, line = r->form == FORM_NORMAL ? r->count == 2 : r->count >= 1;
  const double *x = I->e->rule[plane], *w = x + K;
  make_nodes(a, I, plane ? K * K : line ? K : 1);
  for (size_t k = 0; k < I->nodes; k++) {
    size_t i = plane ? k / K : k, j = k % K;
    I->x1[k] = I->nodes == 1 ? 0 : x[i];
    I->x2[k] = plane ? x[j] : 0;
    I->node_weight[k] = I->nodes == 1 ? 1 : plane ? w[i] * w[j] : w[i];
    I->log_node_weight[k] = log(I->node_weight[k]);
  }
}

static double basis_value(const Integral *I, int leaf, size_t p, size_t k) {
  if (leaf == LEAF_LANE) return I->x2[k];
  if (p == 0) return 1;
  if (p == 1) return I->x1[k];
  return leaf == LEAF_WEIGHT ? I->x1[k] * I->x1[k] : I->x2[k];
}

/* Leaf values are sums of `powers` numbers per component: 1, x, ... */
static void make_leaf(Arena *a, Integral *I, int leaf, size_t powers, size_t rows) {
  size_t C = I->e->laws.count, terms = C * powers;
  double *basis = NEW_ARRAY(a, double, terms * I->ld);
  for (size_t l = 0; l < I->ld; l++) {
    size_t at = l < I->M ? l : I->M - 1, c = at / I->nodes; /* the padding is like the last lane */
    for (size_t p = 0; p < powers; p++)
      basis[(c * powers + p) * I->ld + l] = basis_value(I, leaf, p, at % I->nodes);
  }
  I->terms[leaf] = terms;
  I->coef[leaf] = NEW_ARRAY(a, double, rows *terms);
  I->adj[leaf] = NEW_ARRAY(a, double, rows *terms);
  vm_set_outer(I->work, leaf, (VmOuter){terms, basis, I->coef[leaf], I->adj[leaf]});
}

/* The first function is integrated given the second: its mean and its variance are leaves. */
static bool by_variance(const Integral *I) { return I->wide || I->r->form == FORM_NORMAL; }

void leaves_make(Arena *a, Integral *I) {
  const Reduced *r = I->r;
  size_t rows = (size_t)r->rows, C = I->e->laws.count;
  I->weights = NEW_ARRAY(a, double, I->ld);
  I->log_weights = NEW_ARRAY(a, double, I->ld);
  bool normal = by_variance(I);
  if (r->count) {
    size_t powers = normal ? (size_t)r->count : r->form == FORM_PLANE ? 3 : 2;
    make_leaf(a, I, LEAF_FIRST, powers, (size_t)r->first_rows);
  }
  if (r->count == 2) make_leaf(a, I, LEAF_SECOND, 2, (size_t)r->f[1].rows);
  if (normal) make_leaf(a, I, LEAF_VARIANCE, 1, (size_t)r->first_rows);
  if (I->wide) {
    make_leaf(a, I, LEAF_LANE, 1, 1);
    for (size_t c = 0; c < C; c++) I->coef[LEAF_LANE][c] = 1;
  }
  if (I->centred) {
    make_leaf(a, I, LEAF_CENTRED, 2, rows);
    make_leaf(a, I, LEAF_WEIGHT, 3, rows);
    I->centre = NEW_ARRAY(a, double, rows *C);
    I->width = NEW_ARRAY(a, double, rows *C); /* 0: not placed yet */
  }
}

/* ---- from laws to coefficients --------------------------------------------------------------- */

static double *leaf_coef(const Integral *I, int leaf, size_t row, size_t c) {
  return I->coef[leaf] + row * I->terms[leaf] + c * (I->terms[leaf] / I->e->laws.count);
}
static double *leaf_adj(const Integral *I, int leaf, size_t row, size_t c) {
  return I->adj[leaf] + row * I->terms[leaf] + c * (I->terms[leaf] / I->e->laws.count);
}
static LawRows rows_of(const Integral *I, size_t c, size_t row, size_t n) {
  return (LawRows){&I->e->laws.law[c], I->e->laws.dim, row, n, I->e->k};
}

/* Narrower than this a law is a point to any double. */
static double floor_variance(double mean, double v) {
  double least = 1e-8 * fmax(1, fabs(mean));
  return fmax(v, least * least);
}

static void place_centred(Integral *I, size_t row, size_t c, double m, double v) {
  size_t k = row * I->e->laws.count + c;
  v = floor_variance(m, v);
  if (I->width[k] == 0) {
    I->centre[k] = m;
    I->width[k] = sqrt(v);
  }
  double h = I->width[k], d = I->centre[k] - m;
  double *at = leaf_coef(I, LEAF_CENTRED, row, c), *w = leaf_coef(I, LEAF_WEIGHT, row, c);
  at[0] = I->centre[k];
  at[1] = h;
  w[0] = log(h) - 0.5 * log(v) - 0.5 * d * d / v;
  w[1] = -h * d / v;
  w[2] = 0.5 - 0.5 * h * h / v;
}

/* The laws of a block of rows, number by number. */
typedef double RowLaws[LAW_NUMBERS][ROW_BLOCK];

double leaves_step(const double *law, int which) {
  static const double part = 1e-4;
  double s = sqrt(law[LAW_VARIANCE]), s2 = sqrt(law[LAW_VARIANCE_2]);
  switch (which) {
  case LAW_MEAN: return part * fmax(s, 1e-3 * fmax(1, fabs(law[LAW_MEAN])));
  case LAW_VARIANCE: return part * s * s;
  case LAW_COVARIANCE: return part * s * s2;
  case LAW_MEAN_2: return part * fmax(s2, 1e-3 * fmax(1, fabs(law[LAW_MEAN_2])));
  default: return part * s2 * s2;
  }
}

static void find_laws(const Integral *I, const LawRows *at, RowLaws l) {
  const Reduced *r = I->r;
  laws_means(&r->f[0], at, l[LAW_MEAN]);
  laws_variances(&r->f[0], at, l[LAW_VARIANCE]);
  if (r->count < 2) return;
  laws_covariances(&r->f[0], &r->f[1], at, l[LAW_COVARIANCE]);
  laws_means(&r->f[1], at, l[LAW_MEAN_2]);
  laws_variances(&r->f[1], at, l[LAW_VARIANCE_2]);
}

static void law_at(const RowLaws l, int count, size_t k, double *law) {
  for (int i = 0; i < LAW_NUMBERS; i++) law[i] = count == 2 || i < LAW_COVARIANCE ? l[i][k] : 0;
}

/* The laws of the rows, one number of each moved where that is asked for. */
static void rows_laws(const Integral *I, const LawRows *at, RowLaws l) {
  find_laws(I, at, l);
  for (size_t k = 0; I->row_laws && k < at->n; k++)
    law_at(l, I->r->count, k, I->row_laws + (at->row + k) * LAW_NUMBERS);
  for (size_t k = 0; I->moved >= 0 && k < at->n; k++) {
    double law[LAW_NUMBERS];
    law_at(l, I->r->count, k, law);
    l[I->moved][k] += leaves_step(law, I->moved);
  }
}

/* Rows [row, row + n) of the leaves of component c. */
static void set_rows(Integral *I, size_t c, size_t row, size_t n) {
  const Reduced *r = I->r;
  LawRows at = rows_of(I, c, row, n);
  RowLaws l;
  rows_laws(I, &at, l);
  const double *m = l[LAW_MEAN], *v = l[LAW_VARIANCE], *cov = l[LAW_COVARIANCE],
               *m1 = l[LAW_MEAN_2], *v1 = l[LAW_VARIANCE_2];
  for (size_t k = 0; k < n; k++) {
    double *first = leaf_coef(I, LEAF_FIRST, row + k, c), s1 = r->count == 2 ? sqrt(v1[k]) : 0;
    double slope = s1 > 0 ? cov[k] / s1 : 0, rest = fmax(v[k] - slope * slope, 0);
    first[0] = m[k];
    if (r->count == 2) first[1] = slope;
    if (by_variance(I))
      leaf_coef(I, LEAF_VARIANCE, row + k, c)[0] = rest;
    else
      first[r->form == FORM_PLANE ? 2 : 1] = sqrt(rest);
    if (r->count == 2 && row + k < (size_t)r->f[1].rows) {
      double *second = leaf_coef(I, LEAF_SECOND, row + k, c);
      second[0] = m1[k];
      second[1] = s1;
    }
  }
}

/* Centred nodes: all observations, also where the function is the same for all. */
static void set_centred(Integral *I, size_t c, size_t row, size_t n) {
  LawRows at = rows_of(I, c, row, n);
  RowLaws l;
  rows_laws(I, &at, l);
  for (size_t k = 0; k < n; k++) place_centred(I, row + k, c, l[LAW_MEAN][k], l[LAW_VARIANCE][k]);
}

static void for_rows(size_t from, size_t to, Integral *I,
                     void (*work)(Integral *, size_t, size_t, size_t), size_t c) {
  for (size_t row = from; row < to; row += ROW_BLOCK)
    work(I, c, row, to - row < ROW_BLOCK ? to - row : ROW_BLOCK);
}

static void run_groups(Integral *I, void (*work)(void *, size_t, int)) {
  size_t groups = leaves_groups((size_t)I->r->rows);
  if (I->pool && groups > 1) {
    pool_run(I->pool, groups, work, I);
  } else {
    for (size_t g = 0; g < groups; g++) work(I, g, 0);
  }
}

static void set_group(void *arg, size_t g, int worker) {
  Integral *I = arg;
  size_t first_rows = (size_t)I->r->first_rows, rows = (size_t)I->r->rows, G = leaves_groups(rows);
  (void)worker;
  for (size_t c = 0; I->r->count && c < I->e->laws.count; c++) {
    for_rows(first_rows * g / G, first_rows * (g + 1) / G, I, set_rows, c);
    if (I->centred) for_rows(rows * g / G, rows * (g + 1) / G, I, set_centred, c);
  }
}

void leaves_set(Integral *I) {
  if (I->given) {
    given_set(I);
  } else {
    run_groups(I, set_group);
  }
  for (size_t c = 0; c < I->e->laws.count; c++) {
    double weight = I->e->laws.law[c].weight;
    for (size_t k = 0; k < I->nodes; k++) {
      I->weights[c * I->nodes + k] = weight * I->node_weight[k];
      I->log_weights[c * I->nodes + k] = log(weight) + I->log_node_weight[k];
    }
  }
}

/* ---- and back -------------------------------------------------------------------------------- */

/* d sqrt(v) = dv / (2 s) */
static double half_over(double g, double s) { return s > 1e-150 ? 0.5 * g / s : 0; }

/* Adds to the slopes of the rows one number each, where they are wanted. */
static void keep_slopes(const Integral *I, size_t row, size_t n, int which, const double *g) {
  for (size_t k = 0; I->row_slopes && k < n; k++)
    I->row_slopes[(row + k) * LAW_NUMBERS + (size_t)which] += g[k];
}

/* The other way of set_rows: adjoints of the leaves to those of the laws. */
static void fold_rows(Integral *I, size_t c, size_t row, size_t n, NormalLaw *adj) {
  const Reduced *r = I->r;
  LawRows at = rows_of(I, c, row, n);
  double gm[ROW_BLOCK], gv[ROW_BLOCK], gc[ROW_BLOCK], gm1[ROW_BLOCK], gv1[ROW_BLOCK];
  bool each_second = r->count == 2 && r->f[1].rows > 1;
  for (size_t k = 0; k < n; k++) {
    const double *a = leaf_adj(I, LEAF_FIRST, row + k, c),
                 *x = leaf_coef(I, LEAF_FIRST, row + k, c);
    gm[k] = a[0];
    size_t own = r->form == FORM_PLANE ? 2 : 1; /* the coefficient of its own deviation */
    gv[k] = by_variance(I) ? leaf_adj(I, LEAF_VARIANCE, row + k, c)[0] : half_over(a[own], x[own]);
    if (r->count < 2) continue;
    const double *second = leaf_coef(I, LEAF_SECOND, each_second ? row + k : 0, c);
    const double *as = leaf_adj(I, LEAF_SECOND, each_second ? row + k : 0, c);
    double s1 = second[1], slope = a[1] - 2 * x[1] * gv[k];
    gc[k] = s1 > 1e-150 ? slope / s1 : 0;
    gm1[k] = each_second ? as[0] : 0;
    gv1[k] = half_over((each_second ? as[1] : 0) - (s1 > 1e-150 ? slope * x[1] / s1 : 0), s1);
  }
  keep_slopes(I, row, n, LAW_MEAN, gm);
  keep_slopes(I, row, n, LAW_VARIANCE, gv);
  laws_means_adjoint(&r->f[0], &at, gm, adj);
  laws_variances_adjoint(&r->f[0], &at, gv, adj);
  if (r->count < 2) return;
  keep_slopes(I, row, n, LAW_COVARIANCE, gc);
  keep_slopes(I, row, n, LAW_MEAN_2, gm1);
  keep_slopes(I, row, n, LAW_VARIANCE_2, gv1);
  laws_covariances_adjoint(&r->f[0], &r->f[1], &at, gc, adj);
  laws_means_adjoint(&r->f[1], &at, gm1, adj);
  laws_variances_adjoint(&r->f[1], &at, gv1, adj);
}

/* d LEAF_WEIGHT / d (m, v): Fisher's identity. */
static void fold_centred(Integral *I, size_t c, size_t row, size_t n, NormalLaw *adj) {
  const Affine *f = &I->r->f[0];
  LawRows rows = rows_of(I, c, row, n);
  double gm[ROW_BLOCK], gv[ROW_BLOCK];
  RowLaws l;
  rows_laws(I, &rows, l);
  const double *m = l[LAW_MEAN], *v = l[LAW_VARIANCE];
  for (size_t k = 0; k < n; k++) {
    const double *b = leaf_adj(I, LEAF_WEIGHT, row + k, c);
    size_t at = (row + k) * I->e->laws.count + c;
    double w = floor_variance(m[k], v[k]), d = (I->centre[at] - m[k]) / w, h = I->width[at] / w;
    gm[k] = b[0] * d + b[1] * h;
    gv[k] = w > v[k] ? 0 : 0.5 * b[0] * (d * d - 1 / w) + b[1] * h * d + 0.5 * b[2] * h * h;
  }
  keep_slopes(I, row, n, LAW_MEAN, gm);
  keep_slopes(I, row, n, LAW_VARIANCE, gv);
  laws_means_adjoint(f, &rows, gm, adj);
  laws_variances_adjoint(f, &rows, gv, adj);
}

static void clear_adjoints(const QLaws *l) {
  for (size_t c = 0; c < l->count; c++) {
    memset(l->adj[c].mean, 0, l->dim * sizeof(double));
    memset(l->dense ? l->adj[c].cov : l->adj[c].var, 0,
           (l->dense ? l->dim * l->dim : l->dim) * sizeof(double));
  }
}

static void fold_group(void *arg, size_t g, int worker) {
  Integral *I = arg;
  size_t first_rows = (size_t)I->r->first_rows, rows = (size_t)I->r->rows, G = leaves_groups(rows);
  QLaws *to = G == 1 ? &I->e->laws : &I->e->group[g];
  (void)worker;
  if (G > 1) clear_adjoints(to);
  for (size_t c = 0; I->r->count && c < to->count; c++) {
    size_t end = first_rows * (g + 1) / G;
    for (size_t row = first_rows * g / G; row < end; row += ROW_BLOCK)
      fold_rows(I, c, row, end - row < ROW_BLOCK ? end - row : ROW_BLOCK, &to->adj[c]);
    end = rows * (g + 1) / G;
    for (size_t row = rows * g / G; I->centred && row < end; row += ROW_BLOCK)
      fold_centred(I, c, row, end - row < ROW_BLOCK ? end - row : ROW_BLOCK, &to->adj[c]);
  }
}

/* The second function where it is the same for all observations. */
static void fold_shared_second(Integral *I) {
  const Reduced *r = I->r;
  if (r->count < 2 || r->f[1].rows > 1) return;
  for (size_t c = 0; c < I->e->laws.count; c++) {
    const double *a = leaf_adj(I, LEAF_SECOND, 0, c), *x = leaf_coef(I, LEAF_SECOND, 0, c);
    LawRows at = rows_of(I, c, 0, 1);
    double gv = half_over(a[1], x[1]);
    I->shared_slopes[0] = a[0];
    I->shared_slopes[1] = gv;
    laws_means_adjoint(&r->f[1], &at, &a[0], &I->e->laws.adj[c]);
    laws_variances_adjoint(&r->f[1], &at, &gv, &I->e->laws.adj[c]);
  }
}

/* The adjoints of one group of rows, to those of all. */
static void add_group(const QLaws *all, const QLaws *group) {
  size_t dim = all->dim, n = all->dense ? dim * dim : dim;
  for (size_t c = 0; c < all->count; c++) {
    const NormalLaw *from = &group->adj[c];
    NormalLaw *to = &all->adj[c];
    double *sum = all->dense ? to->cov : to->var;
    const double *more = all->dense ? from->cov : from->var;
    for (size_t k = 0; k < dim; k++) to->mean[k] += from->mean[k];
    for (size_t k = 0; k < n; k++) sum[k] += more[k];
  }
}

static void fold_leaves(Integral *I) {
  size_t G = leaves_groups((size_t)I->r->rows);
  run_groups(I, fold_group);
  fold_shared_second(I);
  for (size_t g = 0; G > 1 && g < G; g++) add_group(&I->e->laws, &I->e->group[g]);
}

void leaves_fold(Integral *I) {
  Exact *e = I->e;
  (I->given ? given_fold : fold_leaves)(I);
  if (!I->adj_w) return;
  for (size_t chunk = 0; chunk < vm_chunks(I->work); chunk++)
    for (size_t l = 0; l < I->M; l++)
      e->laws.adj[l / I->nodes].weight +=
          I->node_weight[l % I->nodes] * I->adj_w[chunk * I->ld + l];
}
