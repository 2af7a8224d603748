/* certificate.c: climbs on log D, and the mixture with the points that they find.
 *
 * Points are lanes of a tape, as in posterior.c: one visit of the observations has D and its
 * gradient at LANES points. Before the exponential is taken a reference is subtracted, the value
 * that the lane had last.
 */
#include "infer/certificate.h"

#include "infer/observed.h"
#include "infer/optim.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
  CLIMBS = 6,
  VISITS = 40 /* of a climb, about */,
  CANDIDATES = 256,
  EM_ROUNDS = 500,
  ITERATIONS = 200
};

/* A gain beyond this, in nats an observation, is taken for one without limit. */
static const double limitless = 30;

typedef struct {
  Ctx *c;
  Arena *arena;
  const CertificateProblem *p;
  const Observed *o;
  Pool *pool;
  int32_t *obs;  /* of each row of the tape: which of the n it is */
  double *score; /* by row: log of what p(y_i | theta) is divided by; moves with the mixture */
  Work *work;
  size_t lanes, chunks;
  double *sum;      /* [chunks x lanes]: of ratios */
  double reference; /* log D is near this */
  double *column;   /* by row: log p(y_i | theta) of lane 0, where asked for; else NULL */
  long climbs;
} Search;

/* ---- log D ----------------------------------------------------------------------------------- */

static void add_tile(void *self, const TileView *t) {
  Search *s = self;
  double *sum = s->sum + t->chunk * s->lanes;
  for (size_t r = 0; r < t->rows; r++) {
    const double *ll = t->heads[HEAD_LL] + r * s->lanes;
    double *adj = t->adj[HEAD_LL] ? t->adj[HEAD_LL] + r * s->lanes : NULL;
    double from = s->score[t->row + r] + s->reference;
    if (s->column) s->column[t->row + r] = ll[0];
    for (size_t j = 0; j < s->lanes; j++) {
      double ratio = exp(ll[j] - from);
      sum[j] += ratio;
      if (adj) adj[j] = ratio;
    }
  }
}

/* log D of every lane, from theta in its lanes. */
static void log_ratios(Search *s, bool back, double *out) {
  memset(s->sum, 0, s->chunks * s->lanes * sizeof *s->sum);
  vm_forward(s->work, vm_theta(s->work));
  vm_tiles(s->work, add_tile, s, back);
  for (size_t j = 0; j < s->lanes; j++) {
    double total = 0;
    for (size_t c = 0; c < s->chunks; c++) total += s->sum[c * s->lanes + j];
    out[j] = s->reference + log(total / (double)s->p->n);
  }
}

static void put_points(Search *s, const double *points, size_t n) {
  size_t dim = s->p->model->dim;
  double *theta = vm_theta(s->work);
  for (size_t j = 0; j < s->lanes; j++)
    for (size_t k = 0; k < dim; k++) theta[k * s->lanes + j] = points[(j < n ? j : 0) * dim + k];
}

/* An optimizer's view: one point in all lanes. */
static bool evaluate(void *self, const double *theta, double *value, double *grad) {
  Search *s = self;
  size_t dim = s->p->model->dim;
  double out[s->lanes];
  put_points(s, theta, 1);
  log_ratios(s, true, out);
  *value = out[0];
  if (!isfinite(out[0])) return false;
  vm_backward(s->work, (double[]){0, 0}, NULL, vm_theta_adjoint(s->work));
  double total = exp(out[0] - s->reference) * (double)s->p->n;
  for (size_t k = 0; k < dim; k++) grad[k] = vm_theta_adjoint(s->work)[k * s->lanes] / total;
  return true;
}

/* ---- the supremum ---------------------------------------------------------------------------- */

typedef struct {
  double *theta, value; /* log D */
} Peak;

/* Where to climb from: half are the best of the candidates, best first; the others are taken evenly
 * from all of them, so that not all climbs are of the same hill. */
static void choose(const double *value, size_t n, size_t *start) {
  enum { BEST = CLIMBS / 2 };
  size_t count = 0;
  for (size_t i = 0; i < n; i++) {
    size_t at = count < BEST ? count++ : BEST;
    for (; at > 0 && value[i] > value[start[at - 1]]; at--)
      if (at < BEST) start[at] = start[at - 1];
    if (at < BEST) start[at] = i;
  }
  for (size_t k = BEST; k < CLIMBS; k++)
    start[k] = n * (2 * (k - BEST) + 1) / (2 * (CLIMBS - BEST));
}

static Peak climb(Search *s, const double *from) {
  Objective f = {.dim = s->p->model->dim, .self = s, .eval = evaluate};
  OptimOptions o = optim_defaults(OPTIM_LBFGS);
  double out[s->lanes];
  o.max_iterations = ITERATIONS;
  o.tol_relative = 1e-8;
  put_points(s, from, 1);
  s->reference = 0;
  log_ratios(s, false, out);
  s->reference = isfinite(out[0]) ? out[0] : 0;
  OptimResult r = optim_run(s->arena, &f, from, &o);
  s->climbs++;
  return (Peak){r.phi, isfinite(r.value) ? r.value : -INFINITY};
}

/* The highest of the hills that are found from the candidates. */
static Peak highest(Search *s, const double *candidates, size_t n) {
  size_t dim = s->p->model->dim, start[CLIMBS] = {0};
  double *value = NEW_ARRAY(s->arena, double, n + s->lanes);
  s->reference = 0;
  for (size_t from = 0; from < n; from += s->lanes) {
    put_points(s, candidates + from * dim, n - from);
    log_ratios(s, false, value + from);
  }
  for (size_t i = 0; i < n; i++)
    if (isnan(value[i])) value[i] = -INFINITY;
  choose(value, n, start);
  Peak top = {NULL, -INFINITY};
  for (size_t k = 0; k < CLIMBS && k < n; k++) {
    Peak p = climb(s, candidates + start[k] * dim);
    if (!top.theta || p.value > top.value) top = p;
  }
  return top;
}

/* ---- the mixture ----------------------------------------------------------------------------- */

typedef struct {
  size_t n, count;
  double *weight;                       /* count: of q, then of points */
  double *ratio[CERTIFICATE_STEPS + 1]; /* n each: p(y_i | point) / p_q(y_i); that of q is one */
} Mixed;

/* EM for the weights: each becomes the mean share that its component has in the observations. */
static double improve(Mixed *m, double *total) {
  double share[CERTIFICATE_STEPS + 1], gain = 0;
  for (int round = 0; round < EM_ROUNDS; round++) {
    memset(share, 0, sizeof share);
    for (size_t i = 0; i < m->n; i++) {
      total[i] = 0;
      for (size_t k = 0; k < m->count; k++) total[i] += m->weight[k] * m->ratio[k][i];
      for (size_t k = 0; k < m->count; k++)
        share[k] += m->weight[k] * m->ratio[k][i] / total[i] / (double)m->n;
    }
    for (size_t k = 0; k < m->count; k++) m->weight[k] = share[k];
  }
  for (size_t i = 0; i < m->n; i++) {
    total[i] = 0;
    for (size_t k = 0; k < m->count; k++) total[i] += m->weight[k] * m->ratio[k][i];
    gain += log(total[i]);
  }
  return gain;
}

/* The densities at a point become a component with a small weight. */
static void add_point(Search *s, Mixed *m, const double *theta, const double *base) {
  double out[s->lanes], *column = NEW_ARRAY(s->arena, double, m->n);
  put_points(s, theta, 1);
  s->column = column;
  log_ratios(s, false, out);
  s->column = NULL;
  for (size_t i = 0; i < m->n; i++) column[i] = exp(fmin(column[i] - base[i], 700));
  for (size_t k = 0; k < m->count; k++) m->weight[k] *= 0.95;
  m->weight[m->count] = 0.05;
  m->ratio[m->count++] = column;
}

static Search *search_make(Ctx *c, Arena *a, const CertificateProblem *p, Pool *pool) {
  Search *s = NEW(a, Search);
  *s = (Search){.c = c, .arena = a, .p = p, .pool = pool};
  s->o = observed_make(a, p->model, p->rows, p->n, WANT_LL);
  s->work = vm_work(a, observed_tape(s->o), LANES, pool);
  s->lanes = vm_ld(s->work);
  s->chunks = vm_chunks(s->work);
  s->sum = NEW_ARRAY(a, double, s->chunks * s->lanes);
  s->score = NEW_ARRAY(a, double, p->n);
  s->obs = NEW_ARRAY(a, int32_t, p->n);
  model_numbers(p->model, &s->o->rows, s->obs);
  double *by_obs = NEW_ARRAY(a, double, p->model->n_obs);
  for (size_t k = 0; k < p->n; k++) by_obs[p->rows[k]] = p->log_scores[k];
  for (size_t k = 0; k < p->n; k++) s->score[k] = by_obs[s->obs[k]];
  return s;
}

/* Draws of q, and as far again from their mean. */
static double *candidates_of(Search *s, size_t *n) {
  const CertificateProblem *p = s->p;
  size_t dim = p->model->dim, half = p->ndraws < CANDIDATES / 2 ? p->ndraws : CANDIDATES / 2;
  double *x = NEW_ARRAY(s->arena, double, 2 * half * dim + 1),
         *mean = NEW_ARRAY(s->arena, double, dim + 1);
  for (size_t i = 0; i < half * dim; i++) mean[i % dim] += p->draws[i] / (double)half;
  memcpy(x, p->draws, half * dim * sizeof *x);
  for (size_t i = 0; i < half * dim; i++)
    x[half * dim + i] = mean[i % dim] + 2 * (p->draws[i] - mean[i % dim]);
  *n = 2 * half;
  return x;
}

/* Mixing in points until no distribution can gain much more than they do. */
static void refine(Search *s, Certificate *r, const double *candidates, size_t n, Peak top) {
  size_t rows = s->p->n;
  double *base = memcpy(NEW_ARRAY(s->arena, double, rows), s->score, rows * sizeof *base),
         *total = NEW_ARRAY(s->arena, double, rows);
  Mixed m = {.n = rows, .count = 1, .weight = NEW_ARRAY(s->arena, double, CERTIFICATE_STEPS + 2)};
  m.weight[0] = 1;
  m.ratio[0] = NEW_ARRAY(s->arena, double, rows);
  for (size_t i = 0; i < rows; i++) m.ratio[0][i] = 1;
  for (int step = 0; step < s->p->steps && r->bounded; step++) {
    add_point(s, &m, top.theta, base);
    r->gain = improve(&m, total);
    r->points = m.count - 1;
    for (size_t i = 0; i < rows; i++) s->score[i] = base[i] + log(total[i]);
    top = highest(s, candidates, n);
    double bound = r->gain + (double)rows * fmax(top.value, 0);
    r->at_most = fmin(r->at_most, bound);
    if (r->at_most - r->gain < 0.01 + 0.01 * r->gain || !top.theta) return;
  }
}

double certificate_cost(int steps) { return (1 + steps) * (CLIMBS * VISITS + CANDIDATES / LANES); }

const Certificate *certificate_find(Ctx *c, const CertificateProblem *p, Pool *pool) {
  TempArena *temp = temp_open(c);
  Certificate *r = NEW(&c->arena, Certificate);
  Search *s = search_make(c, &temp->arena, p, pool);
  size_t n, dim = p->model->dim;
  assert(p->steps <= CERTIFICATE_STEPS && p->n && p->ndraws);
  const double *candidates = candidates_of(s, &n);
  Peak top = highest(s, candidates, n);
  r->theta = memcpy(NEW_ARRAY(&c->arena, double, dim + 1), top.theta, dim * sizeof *r->theta);
  r->bounded = top.value < limitless;
  r->slope = (double)p->n * expm1(fmax(top.value, 0));
  r->bound = r->at_most = (double)p->n * fmax(top.value, 0);
  refine(s, r, candidates, n, top);
  r->searches = (size_t)s->climbs;
  temp_close(temp);
  return r;
}
