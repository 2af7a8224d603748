/* exact.c: quadrature over an observation's affine functions.
 *
 * One evaluation: the law of every function f_r(theta) under q (mean, variance, covariance with the
 * other function); from it the coefficients of the leaves, f = m + s x on the nodes x; the tape on
 * these lanes, whose weights are the rule's; and all the way back: adjoints of the coefficients, of
 * the laws, of phi. Every block of observations, and every term of the prior, is an Integral of its
 * own, with its own number of lanes.
 *
 * Peaked densities (a count of thousands) are narrower than any fixed nodes are dense. For them,
 * where there is one function, the nodes are placed about the mean of f given y, with its standard
 * deviation as the unit, and reweighted by N(f | m, v) / node density. The placing is not
 * differentiated: where it is good enough the integral does not depend on it.
 */
#include "infer/exact.h"

#include "infer/predictive_int.h"

#include "num/hermite.h"
#include "num/linalg.h"
#include "num/sobol.h"
#include "num/stats.h"

#include <math.h>
#include <string.h>

enum {
  NLEAVES = LEAF_WEIGHT + 1,
  ROW_BLOCK = 128,
  GROUP_ROWS = 8192,
  MOST_GROUPS = 8,
  MOST_PASSES = 20
};
enum { ENTROPY_DRAWS = 2048 };

/* Far nodes whose density underflows in the program's own arithmetic (log(1 - inv_logit(40))) do
 * not count. */
#define NEGLIGIBLE 1e-10

typedef struct {
  Exact *e;
  const Reduced *r;
  bool prior;
  int block;    /* of the model, for observations */
  size_t first; /* number of its first row among all */
  Kind kind;
  bool centred;
  Work *work;
  size_t nodes, M, ld; /* lanes: nodes of each component of q */
  double *node_weight, *log_node_weight, *x1, *x2;
  double *weights, *log_weights; /* of the lanes */
  size_t terms[NLEAVES];
  double *coef[NLEAVES], *adj[NLEAVES];
  double *hint;           /* rows x 2: ends of the interval at the last evaluation */
  double *centre, *width; /* rows x components: where centred nodes are */
  double *adj_w;          /* [chunks x ld], several components only */
  Pool *pool;
} Integral;

struct Exact {
  const Observed *o;
  Target target;
  const Q *q;
  ScoreFunction *score;
  const Kernels *k;
  Pool *pool;
  int workers;
  Integral *integrals;
  int count;
  QLaws laws;
  QLaws *group; /* adjoints of groups of rows, summed in order */
  QDraws draws; /* for the entropy of mixtures */
  double posterior;
  double *row_score, *row_mean, *row_prior;
  size_t nprior;
  double prior_constant;
  double *scratch, *lane_row; /* per worker */
  size_t scratch_size, lane_size;
  bool *unsettled; /* per worker */
  double *gradient;
  size_t most_lanes;
  Stages *stages;  /* NULL: nobody asks */
  VmTimes *times;  /* per worker */
  double *rule[2]; /* nodes and weights on a line, and on a side of a plane */
};

/* ---- does it apply --------------------------------------------------------------------------- */

static const char *cannot(const Observed *o, const Target *t, const Q *q) {
  unsigned needs = score_needs(t->score);
  if (!q_is_normal(q)) return "q is not normal";
  if (needs & (NEEDS_SIM | NEEDS_VECTOR_SIM)) return "the score simulates outcomes";
  if (!o->reduction) return o->not_reduced ? o->not_reduced : "the observations were not reduced";
  if (t->lambda != 0 && !o->prior) return o->prior_not_reduced;
  for (int b = 0; needs & NEEDS_KIND && b < o->reduction->nblocks; b++)
    if (o->reduction->blocks[b].rows && o->reduction->blocks[b].par[0] == NO_NODE)
      return "the outcome's parameters are not functions of the same predictors";
  return NULL;
}

bool exact_applies(const Observed *o, const Target *t, const Q *q, const char **why) {
  *why = cannot(o, t, q);
  return !*why;
}

static bool has_plane(const Reduction *r) {
  for (int b = 0; r && b < r->nblocks; b++)
    if (r->blocks[b].rows && r->blocks[b].form == FORM_PLANE) return true;
  return false;
}

size_t exact_most_nodes(const Observed *o) {
  return has_plane(o->reduction) || has_plane(o->prior) ? 64 : 256;
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Peaked in its function: counts of many. */
static bool wants_centred(const Exact *e, const Reduced *r, Kind kind) {
  return e->target.score == SCORE_log && r->centred != NO_NODE && kind != KIND_BERNOULLI;
}

/* A product grid has fewer nodes a side. */
static size_t plane_nodes(size_t K) { return K * 3 / 4; }

/* Nodes and weights of one component's lanes. x1: of the only function, or of the second; x2: of
 * the first given the second. */
static void make_nodes(Arena *a, Integral *I, size_t K) {
  const Reduced *r = I->r;
  bool plane = r->form == FORM_PLANE, line = r->form == FORM_NORMAL ? r->count == 2 : r->count >= 1;
  const double *x = I->e->rule[plane], *w = x + K;
  I->nodes = plane ? K * K : line ? K : 1;
  I->node_weight = NEW_ARRAY(a, double, I->nodes);
  I->log_node_weight = NEW_ARRAY(a, double, I->nodes);
  I->x1 = NEW_ARRAY(a, double, I->nodes);
  I->x2 = NEW_ARRAY(a, double, I->nodes);
  for (size_t k = 0; k < I->nodes; k++) {
    size_t i = plane ? k / K : k, j = k % K;
    I->x1[k] = I->nodes == 1 ? 0 : x[i];
    I->x2[k] = plane ? x[j] : 0;
    I->node_weight[k] = I->nodes == 1 ? 1 : plane ? w[i] * w[j] : w[i];
    I->log_node_weight[k] = log(I->node_weight[k]);
  }
}

static double basis_value(const Integral *I, int leaf, size_t p, size_t k) {
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

static Tape *make_tape(Arena *a, const Exact *e, const Integral *I, const Graph *g) {
  const Reduced *r = I->r;
  int32_t *select = NEW_ARRAY(a, int32_t, r->rows);
  for (int32_t k = 0; k < r->rows; k++) select[k] = k;
  VmBlock v = {.rows = r->rows, .select = select, .nselect = r->rows};
  for (int h = 0; h < VM_HEADS; h++) v.heads[h] = NO_NODE;
  unsigned needs = I->prior ? NEEDS_LL : score_needs(e->target.score);
  bool mean = I->prior || e->target.score == SCORE_elbo;
  if (needs & NEEDS_LL) v.heads[HEAD_LL] = mean ? r->mean : I->centred ? r->centred : r->density;
  for (int k = 0; needs & NEEDS_KIND && k < kind_parameters(I->kind); k++)
    v.heads[HEAD_PAR + k] = r->par[k];
  if (!I->prior && e->posterior != 0) v.heads[HEAD_SIM] = r->mean;
  return vm_plan(a, &(VmPlan){.graph = g, .blocks = &v, .nblocks = 1});
}

static void make_integral(Arena *a, Integral *I, const Graph *g, size_t K) {
  Exact *e = I->e;
  const Reduced *r = I->r;
  size_t rows = (size_t)r->rows, C = e->laws.count;
  make_nodes(a, I, r->form == FORM_PLANE ? plane_nodes(K) : K);
  I->M = C * I->nodes;
  I->pool = rows * I->M > 40000 ? e->pool : NULL;
  I->work = vm_work(a, make_tape(a, e, I, g), I->M, I->pool);
  I->ld = vm_lanes(I->work);
  I->weights = NEW_ARRAY(a, double, I->ld);
  I->log_weights = NEW_ARRAY(a, double, I->ld);
  if (r->count) {
    size_t powers = r->form == FORM_PLANE ? 3 : r->form == FORM_LINE ? 2 : (size_t)r->count;
    make_leaf(a, I, LEAF_FIRST, powers, (size_t)r->first_rows);
  }
  if (r->count == 2) make_leaf(a, I, LEAF_SECOND, 2, (size_t)r->f[1].rows);
  if (r->form == FORM_NORMAL) make_leaf(a, I, LEAF_VARIANCE, 1, (size_t)r->first_rows);
  if (I->centred) {
    make_leaf(a, I, LEAF_CENTRED, 2, rows);
    make_leaf(a, I, LEAF_WEIGHT, 3, rows);
    I->centre = NEW_ARRAY(a, double, rows *C);
    I->width = NEW_ARRAY(a, double, rows *C); /* 0: not placed yet */
  }
  if (e->target.score == SCORE_interval) I->hint = NEW_ARRAY(a, double, 2 * rows);
  if (C > 1) I->adj_w = NEW_ARRAY(a, double, vm_chunks(I->work) * I->ld);
  if (I->M > e->most_lanes) e->most_lanes = I->M;
}

static void add_blocks(Arena *a, Exact *e, const Reduction *r, bool prior, size_t K) {
  size_t first = 0;
  for (int b = 0; b < r->nblocks; b++) {
    const Reduced *k = &r->blocks[b];
    if (!k->rows) continue;
    Integral *I = &e->integrals[e->count++];
    *I = (Integral){.e = e, .r = k, .prior = prior, .block = b, .first = first};
    if (!prior) {
      I->kind = e->o->kinds[b];
      I->centred = wants_centred(e, k, I->kind);
    }
    make_integral(a, I, r->graph, K);
    first += (size_t)k->rows;
  }
}

static size_t group_count(size_t rows) { return rows > GROUP_ROWS ? MOST_GROUPS : 1; }

static size_t widest(const Reduction *r) {
  size_t most = 0;
  for (int b = 0; b < r->nblocks; b++)
    most = (size_t)r->blocks[b].rows > most ? (size_t)r->blocks[b].rows : most;
  return most;
}

static Exact *make(Arena *a, const Observed *o, const Reduction *seen, const Target *t, const Q *q,
                   size_t nodes, uint64_t seed, Pool *pool) {
  Exact *e = NEW(a, Exact);
  *e = (Exact){
      .o = o, .target = *t, .q = q, .score = score_of(t->score), .k = kernels_best(), .pool = pool};
  e->workers = pool ? pool_threads(pool) : 1;
  e->posterior = t->regularizer == REG_POSTERIOR ? t->lambda : 0;
  e->laws = q_laws(a, q);
  const Reduction *prior = t->lambda != 0 ? o->prior : NULL;
  for (int plane = 0; plane < 1 + (has_plane(seen) || has_plane(prior)); plane++) {
    size_t K = plane ? plane_nodes(nodes) : nodes;
    e->rule[plane] = NEW_ARRAY(a, double, 2 * K);
    normal_rule(K, e->rule[plane], e->rule[plane] + K);
  }
  e->group = NEW_ARRAY(a, QLaws, MOST_GROUPS);
  e->integrals = NEW_ARRAY(a, Integral, seen->nblocks + (prior ? prior->nblocks : 0) + 1);
  size_t most_rows = widest(seen), prior_rows = prior ? widest(prior) : 0;
  if (prior_rows > most_rows) most_rows = prior_rows;
  for (size_t g = 0; g < group_count(most_rows); g++) e->group[g] = q_laws(a, q);
  add_blocks(a, e, seen, false, nodes);
  for (int b = 0; prior && b < prior->nblocks; b++) e->nprior += (size_t)prior->blocks[b].rows;
  if (prior) {
    e->prior_constant = prior->constant;
    add_blocks(a, e, prior, true, nodes);
  }
  size_t M = q->family == FAMILY_mixture && t->lambda != 0 ? ENTROPY_DRAWS : LANES,
         workers = (size_t)e->workers;
  e->draws = q_draws(a, q, M, M, e->k);
  sobol_normal(e->draws.u, q_noise(q), M, M, seed, false);
  e->row_score = NEW_ARRAY(a, double, o->n);
  e->row_mean = NEW_ARRAY(a, double, o->n);
  e->row_prior = NEW_ARRAY(a, double, e->nprior + 1);
  e->lane_size = (e->most_lanes + LANES) / LANES * LANES;
  e->scratch_size = (score_scratch(e->most_lanes, 0) + LANES) / LANES * LANES;
  e->scratch = NEW_ARRAY(a, double, workers * e->scratch_size);
  e->lane_row = NEW_ARRAY(a, double, 3 * workers * e->lane_size);
  e->unsettled = NEW_ARRAY(a, bool, workers);
  e->gradient = NEW_ARRAY(a, double, q_size(q));
  return e;
}

Exact *exact_make(Arena *a, const Observed *o, const Target *t, const Q *q, size_t nodes,
                  uint64_t seed, Pool *pool) {
  return make(a, o, o->reduction, t, q, nodes, seed, pool);
}

bool exact_prior_applies(const Observed *o, const Target *t, const Q *q) {
  return t->lambda != 0 && o->prior && q_is_normal(q);
}

Exact *exact_prior(Arena *a, const Observed *o, const Target *t, const Q *q, uint64_t seed,
                   Pool *pool) {
  static const Reduction nothing = {.nblocks = 0};
  Target only = *t;
  only.regularizer = REG_PRIOR;
  return make(a, o, &nothing, &only, q, EXACT_NODES, seed, pool);
}

const double *exact_rows(const Exact *e) { return e->row_score; }
const Work *exact_work(const Exact *e) { return e->integrals[0].work; }

void exact_time(Arena *a, Exact *e, Stages *stages) {
  e->stages = stages;
  e->times = stages ? NEW_ARRAY(a, VmTimes, e->workers) : NULL;
  for (int k = 0; k < e->count; k++) vm_set_times(e->integrals[k].work, e->times);
}

size_t exact_lanes(const Exact *e) { return e->most_lanes; }

/* ---- laws of affine functions ---------------------------------------------------------------- */

static double cov_at(const NormalLaw *law, size_t dim, int32_t j, int32_t k) {
  if (law->cov) return law->cov[(size_t)j * dim + (size_t)k];
  return j == k ? law->var[j] : 0;
}

static void add_cov(NormalLaw *adj, size_t dim, int32_t j, int32_t k, double g) {
  if (adj->cov) {
    adj->cov[(size_t)j * dim + (size_t)k] += g;
  } else if (j == k) {
    adj->var[j] += g;
  }
}

static int32_t input_at(const AffineTerm *t, size_t r) { return t->index ? t->index[r] : t->input; }
static double coef_at(const AffineTerm *t, size_t r) { return t->coef ? t->coef[r] : 1; }
static size_t row_in(const Affine *f, size_t r) { return f->rows == 1 ? 0 : r; }

/* Do two terms have entries in common in the covariance matrix? */
static bool related(const NormalLaw *law, const AffineTerm *a, const AffineTerm *b) {
  return law->cov || (a->low <= b->high && b->low <= a->high);
}

/* The coefficients of a term that is a column of data times one parameter, the usual case; NULL
 * otherwise. */
static const double *column(const Affine *f, const AffineTerm *a, size_t row) {
  return f->rows > 1 && !a->index && a->coef ? a->coef + row : NULL;
}

static void means(const Affine *f, const NormalLaw *law, size_t row, size_t n, double *mean) {
  for (size_t r = 0; r < n; r++) mean[r] = f->constant ? f->constant[row_in(f, row + r)] : 0;
  for (int t = 0; t < f->nterms; t++) {
    const AffineTerm *a = &f->terms[t];
    const double *x = column(f, a, row);
    double m = law->mean[a->input];
    for (size_t r = 0; x && r < n; r++) mean[r] += x[r] * m;
    for (size_t r = 0; !x && r < n; r++) {
      size_t at = row_in(f, row + r);
      mean[r] += coef_at(a, at) * law->mean[input_at(a, at)];
    }
  }
}

static void means_adjoint(const Affine *f, size_t row, size_t n, const double *g, NormalLaw *adj) {
  for (int t = 0; t < f->nterms; t++) {
    const AffineTerm *a = &f->terms[t];
    const double *x = column(f, a, row);
    if (x) adj->mean[a->input] += la_dot(g, x, n);
    for (size_t r = 0; !x && r < n; r++) {
      size_t at = row_in(f, row + r);
      adj->mean[input_at(a, at)] += g[r] * coef_at(a, at);
    }
  }
}

/* Two terms, of one function or of two, in a block of rows; `twice`: they stand for both orders of
 * the two. */
typedef struct {
  const AffineTerm *a, *b;
  const Affine *f, *h;
  const NormalLaw *law;
  size_t dim, row, n;
  bool twice;
} Pair;

/* Coefficients of a block of rows, with zeros behind: loops of constant length are vector loops. */
static void load_coefs(const Affine *f, const AffineTerm *a, size_t row, size_t n, double *x) {
  for (size_t r = 0; r < n; r++) x[r] = coef_at(a, row_in(f, row + r));
  for (size_t r = n; r < ROW_BLOCK; r++) x[r] = 0;
}

static void add_both(const Pair *p, NormalLaw *adj, int32_t j, int32_t k, double g) {
  add_cov(adj, p->dim, j, k, g);
  if (p->twice) add_cov(adj, p->dim, k, j, g);
}

/* Parameters that are the same in all rows, the usual case; x is a's coefficients. */
static void fixed_pair(const Pair *p, const double *x, double *cov, const double *g,
                       NormalLaw *adj) {
  double y[ROW_BLOCK], sum = 0,
                       c = cov_at(p->law, p->dim, p->a->input, p->b->input) * (p->twice ? 2 : 1);
  load_coefs(p->h, p->b, p->row, p->n, y);
  for (size_t r = 0; r < ROW_BLOCK; r++) y[r] *= x[r];
  for (size_t r = 0; cov && r < ROW_BLOCK; r++) cov[r] += c * y[r];
  if (cov) return;
  for (size_t r = 0; r < p->n; r++) sum += g[r] * y[r];
  add_both(p, adj, p->a->input, p->b->input, sum);
}

static void indexed_pair(const Pair *p, const double *x, double *cov, const double *g,
                         NormalLaw *adj) {
  for (size_t r = 0; r < p->n; r++) {
    size_t s = row_in(p->h, p->row + r);
    int32_t j = input_at(p->a, row_in(p->f, p->row + r)), k = input_at(p->b, s);
    double c = x[r] * coef_at(p->b, s);
    if (cov) {
      cov[r] += c * cov_at(p->law, p->dim, j, k) * (p->twice ? 2 : 1);
    } else {
      add_both(p, adj, j, k, g[r] * c);
    }
  }
}

/* Of every pair of terms in rows [row, row + n): cov[r] += coef coef cov(theta_j, theta_k); or,
 * where cov is NULL, back from g. cov has room for a block. */
static void over_pairs(const Affine *f, const Affine *h, const NormalLaw *law, size_t dim,
                       size_t row, size_t n, double *cov, const double *g, NormalLaw *adj) {
  double x[ROW_BLOCK];
  for (int t = 0; t < f->nterms; t++) {
    load_coefs(f, &f->terms[t], row, n, x);
    for (int u = f == h ? t : 0; u < h->nterms; u++) {
      Pair p = {&f->terms[t], &h->terms[u], f, h, law, dim, row, n, f == h && u > t};
      if (!related(law, p.a, p.b)) continue;
      (p.a->index || p.b->index ? indexed_pair : fixed_pair)(&p, x, cov, g, adj);
    }
  }
}

static void covariances(const Affine *f, const Affine *h, const NormalLaw *law, size_t dim,
                        size_t row, size_t n, double *cov) {
  for (size_t r = 0; r < ROW_BLOCK; r++) cov[r] = 0;
  over_pairs(f, h, law, dim, row, n, cov, NULL, NULL);
}

static void covariances_adjoint(const Affine *f, const Affine *h, const NormalLaw *law, size_t dim,
                                size_t row, size_t n, const double *g, NormalLaw *adj) {
  over_pairs(f, h, law, dim, row, n, NULL, g, adj);
}

/* A variance: terms that share nothing are squares alone. */
static void variances(const Affine *f, const NormalLaw *law, size_t dim, size_t row, size_t n,
                      double *var) {
  if (law->cov || f->overlapping) {
    covariances(f, f, law, dim, row, n, var);
    return;
  }
  for (size_t r = 0; r < n; r++) var[r] = 0;
  for (int t = 0; t < f->nterms; t++) {
    const AffineTerm *a = &f->terms[t];
    const double *x = column(f, a, row);
    double v = law->var[a->input];
    for (size_t r = 0; x && r < n; r++) var[r] += x[r] * x[r] * v;
    for (size_t r = 0; !x && r < n; r++) {
      size_t at = row_in(f, row + r);
      var[r] += coef_at(a, at) * coef_at(a, at) * law->var[input_at(a, at)];
    }
  }
}

static void variances_adjoint(const Affine *f, const NormalLaw *law, size_t dim, size_t row,
                              size_t n, const double *g, NormalLaw *adj) {
  if (law->cov || f->overlapping) {
    covariances_adjoint(f, f, law, dim, row, n, g, adj);
    return;
  }
  for (int t = 0; t < f->nterms; t++) {
    const AffineTerm *a = &f->terms[t];
    const double *x = column(f, a, row);
    double sum = 0;
    for (size_t r = 0; x && r < n; r++) sum += g[r] * x[r] * x[r];
    if (x) adj->var[a->input] += sum;
    for (size_t r = 0; !x && r < n; r++) {
      size_t at = row_in(f, row + r);
      adj->var[input_at(a, at)] += g[r] * coef_at(a, at) * coef_at(a, at);
    }
  }
}

/* ---- from laws to coefficients --------------------------------------------------------------- */

static double *leaf_coef(const Integral *I, int leaf, size_t row, size_t c) {
  return I->coef[leaf] + row * I->terms[leaf] + c * (I->terms[leaf] / I->e->laws.count);
}
static double *leaf_adj(const Integral *I, int leaf, size_t row, size_t c) {
  return I->adj[leaf] + row * I->terms[leaf] + c * (I->terms[leaf] / I->e->laws.count);
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

/* Rows [row, row + n) of the leaves of component c. */
static void set_rows(Integral *I, size_t c, size_t row, size_t n) {
  const Reduced *r = I->r;
  const NormalLaw *law = &I->e->laws.law[c];
  size_t dim = I->e->laws.dim;
  double m[ROW_BLOCK], v[ROW_BLOCK], cov[ROW_BLOCK], m1[ROW_BLOCK], v1[ROW_BLOCK];
  means(&r->f[0], law, row, n, m);
  variances(&r->f[0], law, dim, row, n, v);
  if (r->count == 2) {
    covariances(&r->f[0], &r->f[1], law, dim, row, n, cov);
    means(&r->f[1], law, row, n, m1);
    variances(&r->f[1], law, dim, row, n, v1);
  }
  for (size_t k = 0; k < n; k++) {
    double *first = leaf_coef(I, LEAF_FIRST, row + k, c), s1 = r->count == 2 ? sqrt(v1[k]) : 0;
    double slope = s1 > 0 ? cov[k] / s1 : 0, rest = fmax(v[k] - slope * slope, 0);
    first[0] = m[k];
    if (r->count == 2) first[1] = slope;
    if (r->form == FORM_LINE) first[1] = sqrt(v[k]);
    if (r->form == FORM_PLANE) first[2] = sqrt(rest);
    if (r->form == FORM_NORMAL) leaf_coef(I, LEAF_VARIANCE, row + k, c)[0] = rest;
    if (r->count == 2 && row + k < (size_t)r->f[1].rows) {
      double *second = leaf_coef(I, LEAF_SECOND, row + k, c);
      second[0] = m1[k];
      second[1] = s1;
    }
  }
}

/* Centred nodes: all observations, also where the function is the same for all. */
static void set_centred(Integral *I, size_t c, size_t row, size_t n) {
  const Affine *f = &I->r->f[0];
  const NormalLaw *law = &I->e->laws.law[c];
  double m[ROW_BLOCK], v[ROW_BLOCK];
  means(f, law, row, n, m);
  variances(f, law, I->e->laws.dim, row, n, v);
  for (size_t k = 0; k < n; k++) place_centred(I, row + k, c, m[k], v[k]);
}

static void for_rows(size_t from, size_t to, Integral *I,
                     void (*work)(Integral *, size_t, size_t, size_t), size_t c) {
  for (size_t row = from; row < to; row += ROW_BLOCK)
    work(I, c, row, to - row < ROW_BLOCK ? to - row : ROW_BLOCK);
}

static void run_groups(const Integral *I, size_t rows, void (*work)(void *, size_t, int),
                       void *arg) {
  if (I->pool && group_count(rows) > 1) {
    pool_run(I->pool, group_count(rows), work, arg);
  } else {
    for (size_t g = 0; g < group_count(rows); g++) work(arg, g, 0);
  }
}

static void set_group(void *arg, size_t g, int worker) {
  Integral *I = arg;
  size_t first_rows = (size_t)I->r->first_rows, rows = (size_t)I->r->rows, G = group_count(rows);
  (void)worker;
  for (size_t c = 0; I->r->count && c < I->e->laws.count; c++) {
    for_rows(first_rows * g / G, first_rows * (g + 1) / G, I, set_rows, c);
    if (I->centred) for_rows(rows * g / G, rows * (g + 1) / G, I, set_centred, c);
  }
}

static void set_leaves(Integral *I) {
  size_t C = I->e->laws.count;
  run_groups(I, (size_t)I->r->rows, set_group, I);
  for (size_t c = 0; c < C; c++)
    for (size_t k = 0; k < I->nodes; k++) {
      I->weights[c * I->nodes + k] = I->e->laws.law[c].weight * I->node_weight[k];
      I->log_weights[c * I->nodes + k] = log(I->e->laws.law[c].weight) + I->log_node_weight[k];
    }
}

/* ---- and back -------------------------------------------------------------------------------- */

static double half_over(double g, double s) { return s > 1e-150 ? 0.5 * g / s : 0; }

/* The other way of set_rows: adjoints of the leaves to those of the laws. */
static void fold_rows(Integral *I, size_t c, size_t row, size_t n, NormalLaw *adj) {
  const Reduced *r = I->r;
  const NormalLaw *law = &I->e->laws.law[c];
  size_t dim = I->e->laws.dim;
  double gm[ROW_BLOCK], gv[ROW_BLOCK], gc[ROW_BLOCK], gm1[ROW_BLOCK], gv1[ROW_BLOCK];
  bool each_second = r->count == 2 && r->f[1].rows > 1;
  for (size_t k = 0; k < n; k++) {
    const double *a = leaf_adj(I, LEAF_FIRST, row + k, c),
                 *x = leaf_coef(I, LEAF_FIRST, row + k, c);
    gm[k] = a[0];
    if (r->form == FORM_LINE) gv[k] = half_over(a[1], x[1]);
    if (r->form == FORM_PLANE) gv[k] = half_over(a[2], x[2]);
    if (r->form == FORM_NORMAL) gv[k] = leaf_adj(I, LEAF_VARIANCE, row + k, c)[0];
    if (r->count < 2) continue;
    const double *second = leaf_coef(I, LEAF_SECOND, each_second ? row + k : 0, c);
    const double *as = leaf_adj(I, LEAF_SECOND, each_second ? row + k : 0, c);
    double s1 = second[1], slope = a[1] - 2 * x[1] * gv[k];
    gc[k] = s1 > 1e-150 ? slope / s1 : 0;
    gm1[k] = each_second ? as[0] : 0;
    gv1[k] = half_over((each_second ? as[1] : 0) - (s1 > 1e-150 ? slope * x[1] / s1 : 0), s1);
  }
  means_adjoint(&r->f[0], row, n, gm, adj);
  variances_adjoint(&r->f[0], law, dim, row, n, gv, adj);
  if (r->count < 2) return;
  covariances_adjoint(&r->f[0], &r->f[1], law, dim, row, n, gc, adj);
  means_adjoint(&r->f[1], row, n, gm1, adj);
  variances_adjoint(&r->f[1], law, dim, row, n, gv1, adj);
}

/* d LEAF_WEIGHT / d (m, v): Fisher's identity. */
static void fold_centred(Integral *I, size_t c, size_t row, size_t n, NormalLaw *adj) {
  const Affine *f = &I->r->f[0];
  const NormalLaw *law = &I->e->laws.law[c];
  size_t dim = I->e->laws.dim, C = I->e->laws.count;
  double m[ROW_BLOCK], v[ROW_BLOCK], gm[ROW_BLOCK], gv[ROW_BLOCK];
  means(f, law, row, n, m);
  variances(f, law, dim, row, n, v);
  for (size_t k = 0; k < n; k++) {
    const double *b = leaf_adj(I, LEAF_WEIGHT, row + k, c);
    size_t at = (row + k) * C + c;
    double w = floor_variance(m[k], v[k]), d = (I->centre[at] - m[k]) / w, h = I->width[at] / w;
    gm[k] = b[0] * d + b[1] * h;
    gv[k] = w > v[k] ? 0 : 0.5 * b[0] * (d * d - 1 / w) + b[1] * h * d + 0.5 * b[2] * h * h;
  }
  means_adjoint(f, row, n, gm, adj);
  variances_adjoint(f, law, dim, row, n, gv, adj);
}

static void clear_laws(const QLaws *l) {
  for (size_t c = 0; c < l->count; c++) {
    memset(l->adj[c].mean, 0, l->dim * sizeof(double));
    memset(l->dense ? l->adj[c].cov : l->adj[c].var, 0,
           (l->dense ? l->dim * l->dim : l->dim) * sizeof(double));
  }
}

static void fold_group(void *arg, size_t g, int worker) {
  Integral *I = arg;
  size_t first_rows = (size_t)I->r->first_rows, rows = (size_t)I->r->rows, G = group_count(rows);
  QLaws *to = G == 1 ? &I->e->laws : &I->e->group[g];
  (void)worker;
  if (G > 1) clear_laws(to);
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
    double gv = half_over(a[1], x[1]);
    means_adjoint(&r->f[1], 0, 1, &a[0], &I->e->laws.adj[c]);
    variances_adjoint(&r->f[1], &I->e->laws.law[c], I->e->laws.dim, 0, 1, &gv, &I->e->laws.adj[c]);
  }
}

static void fold_leaves(Integral *I) {
  Exact *e = I->e;
  size_t rows = (size_t)I->r->rows, G = group_count(rows), dim = e->laws.dim;
  run_groups(I, rows, fold_group, I);
  fold_shared_second(I);
  for (size_t g = 0; G > 1 && g < G; g++)
    for (size_t c = 0; c < e->laws.count; c++) {
      const NormalLaw *from = &e->group[g].adj[c];
      NormalLaw *to = &e->laws.adj[c];
      size_t n = e->laws.dense ? dim * dim : dim;
      for (size_t k = 0; k < dim; k++) to->mean[k] += from->mean[k];
      for (size_t k = 0; k < n; k++)
        *(e->laws.dense ? &to->cov[k] : &to->var[k]) += e->laws.dense ? from->cov[k] : from->var[k];
    }
  if (!I->adj_w) return;
  for (size_t chunk = 0; chunk < vm_chunks(I->work); chunk++)
    for (size_t l = 0; l < I->M; l++)
      e->laws.adj[l / I->nodes].weight +=
          I->node_weight[l % I->nodes] * I->adj_w[chunk * I->ld + l];
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* Are the nodes of component c centred where f is, given y? ll: its log densities. If not, they
 * move. */
static void settle(Integral *I, size_t row, size_t c, const double *ll, double *p, int worker) {
  size_t at = row * I->e->laws.count + c, n = I->nodes, padded = (n + LANES - 1) / LANES * LANES;
  double mean = 0, square = 0, *l = p + padded;
  for (size_t k = 0; k < padded; k++) l[k] = k < n ? ll[k] + I->log_node_weight[k] : -INFINITY;
  I->e->k->softmax(p, l, n);
  for (size_t k = 0; k < n; k++) {
    mean += p[k] * I->x1[k];
    square += p[k] * I->x1[k] * I->x1[k];
  }
  double sd = sqrt(fmax(square - mean * mean, 0));
  if (!isfinite(mean) || (fabs(mean) < 0.3 && sd > 0.7 && sd < 1.4)) return;
  I->centre[at] += I->width[at] * mean;
  I->width[at] *= fmin(fmax(sd, 0.2), 4);
  I->e->unsettled[worker] = true;
}

/* The weighted mean of a head of log densities; adds factor times its adjoints (the head may be the
 * score's, too). */
static double mean_head(const Integral *I, const double *head, double *adj, double *adj_w,
                        double factor) {
  if (adj) I->e->k->axpy(adj, factor, I->weights, I->ld);
  for (size_t j = 0; adj_w && j < I->M; j++) adj_w[j] += factor * (isfinite(head[j]) ? head[j] : 0);
  double mean = I->e->k->dot(I->weights, head, I->M);
  if (isfinite(mean)) return mean;
  mean = 0;
  for (size_t j = 0; j < I->M; j++)
    if (isfinite(head[j]) || I->weights[j] > NEGLIGIBLE) mean += I->weights[j] * head[j];
  return mean;
}

static double score_row(Integral *I, const TileView *t, size_t r, double *adj_w) {
  Exact *e = I->e;
  const Observed *o = e->o;
  size_t ld = I->ld, obs = I->first + t->row + r;
  double *mine = e->lane_row + (size_t)t->worker * 3 * e->lane_size, *p = mine + e->lane_size;
  ScoreCase c = {.q = {.kind = I->kind,
                       .M = I->M,
                       .ld = ld,
                       .weights = I->weights,
                       .log_weights = I->log_weights},
                 .y = observed_y(o, I->block, obs),
                 .o = e->target.score_options,
                 .k = e->k,
                 .scratch = e->scratch + (size_t)t->worker * e->scratch_size};
  ScoreAdjoint adj = {.weights = adj_w ? mine : NULL};
  if (I->hint) c.hint = I->hint + 2 * (t->row + r);
  c.q.size = observed_size(o, I->block, obs);
  if (t->heads[HEAD_LL]) c.ll = t->heads[HEAD_LL] + r * ld;
  if (t->adj[HEAD_LL]) adj.ll = t->adj[HEAD_LL] + r * ld;
  for (int k = 0; k < KIND_PARAMETERS; k++) {
    if (t->heads[HEAD_PAR + k]) c.q.par[k] = t->heads[HEAD_PAR + k] + r * ld;
    if (t->adj[HEAD_PAR + k]) adj.par[k] = t->adj[HEAD_PAR + k] + r * ld;
  }
  double s = e->score(&c, &adj), factor = e->target.score_weight * observed_count(o, obs);
  for (size_t k = 0; I->centred && k < e->laws.count; k++)
    settle(I, t->row + r, k, c.ll + k * I->nodes, p, t->worker);
  times(adj.ll, factor, ld);
  for (int k = 0; k < KIND_PARAMETERS; k++) times(adj.par[k], factor, ld);
  for (size_t j = 0; adj_w && j < I->M; j++) adj_w[j] += factor * mine[j];
  return s;
}

/* The log score of all rows of the tile at once, where there is one component and so no weights to
 * differentiate. */
static bool log_rows(Integral *I, const TileView *t) {
  Exact *e = I->e;
  if (I->prior || e->target.score != SCORE_log || I->adj_w) return false;
  double *adj = t->adj[HEAD_LL], *p = e->lane_row + (size_t)t->worker * 3 * e->lane_size;
  e->k->softmax_rows(adj, t->heads[HEAD_LL], I->log_weights, I->ld, t->rows, I->M,
                     e->row_score + I->first + t->row);
  for (size_t r = 0; adj && r < t->rows; r++)
    times(adj + r * I->ld, e->target.score_weight * observed_count(e->o, I->first + t->row + r),
          I->ld);
  for (size_t r = 0; I->centred && r < t->rows; r++)
    settle(I, t->row + r, 0, t->heads[HEAD_LL] + r * I->ld, p, t->worker);
  return true;
}

static void tile_rows(void *self, const TileView *t) {
  Integral *I = self;
  Exact *e = I->e;
  bool scored = log_rows(I, t), back = t->adj[HEAD_LL] || t->adj[HEAD_PAR] || t->adj[HEAD_SIM];
  double *adj_w = back && I->adj_w ? I->adj_w + t->chunk * I->ld : NULL;
  for (size_t r = 0; r < t->rows; r++) {
    size_t row = t->row + r;
    double *adj_ll = t->adj[HEAD_LL] ? t->adj[HEAD_LL] + r * I->ld : NULL;
    if (I->prior) {
      double c = I->r->factor;
      e->row_prior[I->first + row] =
          c * mean_head(I, t->heads[HEAD_LL] + r * I->ld, adj_ll, adj_w, c * e->target.lambda);
      continue;
    }
    double count = observed_count(e->o, I->first + row);
    if (e->target.score == SCORE_elbo) {
      e->row_score[I->first + row] = mean_head(I, t->heads[HEAD_LL] + r * I->ld, adj_ll, adj_w,
                                               e->target.score_weight * count);
    } else if (!scored) {
      e->row_score[I->first + row] = score_row(I, t, r, adj_w);
    }
    if (t->heads[HEAD_SIM])
      e->row_mean[I->first + row] = mean_head(
          I, t->heads[HEAD_SIM] + r * I->ld, t->adj[HEAD_SIM] ? t->adj[HEAD_SIM] + r * I->ld : NULL,
          adj_w, e->posterior * count);
  }
}

/* One integral, over again while its centred nodes move. */
static void integrate(Integral *I, bool back) {
  static const double nothing[1] = {0};
  Exact *e = I->e;
  double unused[1];
  for (int round = 0; round < MOST_PASSES; round++) {
    memset(e->unsettled, 0, (size_t)e->workers * sizeof *e->unsettled);
    if (I->adj_w) memset(I->adj_w, 0, vm_chunks(I->work) * I->ld * sizeof *I->adj_w);
    double clock = e->stages ? base_seconds() : 0;
    set_leaves(I);
    if (e->stages) pass(&clock, &e->stages->draws);
    vm_forward(I->work, nothing);
    if (e->stages) pass(&clock, &e->stages->globals);
    vm_tiles(I->work, tile_rows, I, back);
    if (e->stages) pass_tiles(e->stages, e->times, e->workers, &clock);
    bool again = false;
    for (int w = 0; w < e->workers; w++) again = again || e->unsettled[w];
    if (!again) break;
  }
  if (!back) return;
  double clock = e->stages ? base_seconds() : 0;
  vm_backward(I->work, NULL, NULL, unused);
  fold_leaves(I);
  if (e->stages) pass(&clock, &e->stages->adjoints);
}

/* ---- one evaluation -------------------------------------------------------------------------- */

bool exact_eval(Exact *e, const double *phi, PredictiveValue *v, double *grad) {
  double lambda = e->target.lambda, *g = grad ? grad : e->gradient;
  memset(g, 0, q_size(e->q) * sizeof *g);
  q_laws_at(e->q, phi, &e->laws);
  for (int k = 0; k < e->count; k++) integrate(&e->integrals[k], grad != NULL);
  double prior = lambda == 0 ? 0 : e->prior_constant + stat_sum(e->row_prior, e->nprior);
  double entropy = lambda == 0 ? 0 : q_entropy(e->q, phi, &e->draws, lambda, g);
  v->score = observed_sum(e->o, e->row_score);
  v->regularizer = -(prior + entropy) - (e->posterior != 0 ? observed_sum(e->o, e->row_mean) : 0);
  v->value = e->target.score_weight * v->score - (lambda == 0 ? 0 : lambda * v->regularizer);
  if (!isfinite(v->value)) return false;
  if (!grad) return true;
  q_laws_adjoint(e->q, phi, &e->laws, grad);
  return all_finite(grad, q_size(e->q));
}
