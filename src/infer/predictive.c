/* predictive.c: the objective: theta = T_phi(u), global values, tiles with their scores, and all the way back. */
#include "infer/predictive.h"

#include "num/rng.h"
#include "num/sobol.h"

#include <math.h>
#include <string.h>

struct Predictive {
  const Model *model;
  const Tape *tape;
  Target target;
  const Family *family;
  Shape shape;
  ScoreFunction *score;
  Work *work;
  Noise noise;
  double *u, *theta, *adj; /* [rows x ld] */
  double *row_score;       /* per observation: its score */
  double *row_mean;        /* per observation: mean log likelihood, for the posterior regularizer */
  double scale;            /* of the observations' sum: all / those in the mini-batch */
  double posterior;        /* lambda where the posterior regularizes, else 0 */
  size_t rows;
  PredictiveValue last;
  double *scratch;         /* gradient nobody asked for */
};

Predictive *predictive_make(Ctx *c, Arena *a, const Model *m, const Tape *tape, const Target *t, size_t M, uint64_t seed,
                            Pool *pool) {
  (void)c;
  Predictive *p = NEW(a, Predictive);
  p->model = m;
  p->tape = tape;
  p->target = *t;
  p->family = family_of(t->family);
  p->shape = t->shape;
  p->score = score_of(t->score);
  p->work = vm_work(a, tape, M, pool);
  p->rows = vm_rows(tape);
  p->scale = 1;
  p->posterior = t->regularizer == REG_POSTERIOR ? t->lambda : 0;
  size_t ld = vm_lanes(p->work);
  p->u = NEW_ARRAY(a, double, p->family->noise(&p->shape) * ld);
  p->theta = NEW_ARRAY(a, double, m->dim * ld);
  p->adj = NEW_ARRAY(a, double, m->dim * ld);
  p->row_score = NEW_ARRAY(a, double, p->rows);
  p->row_mean = NEW_ARRAY(a, double, p->rows);
  p->scratch = NEW_ARRAY(a, double, p->family->size(&p->shape));
  p->noise = (Noise){.shape = &p->shape, .M = M, .ld = ld, .u = p->u, .k = vm_kernels(p->work)};
  if (p->family->scratch) p->noise.scratch = NEW_ARRAY(a, double, p->family->scratch(&p->shape, ld));
  predictive_renew(p, seed, false);
  return p;
}

void predictive_renew(Predictive *p, uint64_t seed, bool random) {
  size_t rows = p->family->noise(&p->shape);
  if (random) {
    for (size_t k = 0; k < rows; k++) rng_fill_normal(rng_make(seed, 0), 0, k, p->u + k * p->noise.ld, p->noise.M);
  } else {
    sobol_normal(p->u, rows, p->noise.M, p->noise.ld, seed, false);
  }
}

void predictive_range(Predictive *p, double lo, double hi) {
  size_t n = vm_set_range(p->work, lo, hi);
  p->scale = n ? (double)p->rows / (double)n : 1;
}

/* ---- one evaluation ----------------------------------------------------------------------------------------------- */

/* Every observation of the tile: its score, and what flows back from it. */
static void score_tile(void *self, const TileView *t) {
  Predictive *p = self;
  size_t row = t->row, rows = t->rows;
  const double *ll = t->heads[0];
  double *adj = t->adj[0];
  size_t ld = p->noise.ld, M = p->noise.M;
  ScoreCase one = {.q = {.M = M, .ld = ld}, .k = p->noise.k};
  double each = p->posterior * p->scale / (double)M;
  for (size_t r = 0; r < rows; r++) {
    double *a = adj ? adj + r * ld : NULL;
    one.ll = ll + r * ld;
    p->row_score[row + r] = p->score(&one, &(ScoreAdjoint){.ll = a});
    if (p->posterior != 0) p->row_mean[row + r] = p->noise.k->sum(ll + r * ld, M) / (double)M;
    if (!a || (p->scale == 1 && each == 0)) continue;
    for (size_t j = 0; j < M; j++) a[j] = a[j] * p->scale + each;
  }
}

/* Sum in a fixed order, of the observations in range. */
static double sum_rows(const double *x, size_t n) {
  if (n <= 64) {
    double s = 0;
    for (size_t k = 0; k < n; k++) s += x[k];
    return s;
  }
  return sum_rows(x, n / 2) + sum_rows(x + n / 2, n - n / 2);
}

static double mean_root(const Predictive *p, int root) {
  return p->noise.k->sum(vm_value(p->work, root, 0), p->noise.M) / (double)p->noise.M;
}

static bool all_finite(const double *x, size_t n) {
  for (size_t k = 0; k < n; k++)
    if (!isfinite(x[k])) return false;
  return true;
}

bool predictive_eval(Predictive *p, const double *phi, PredictiveValue *v, double *grad) {
  size_t size = p->family->size(&p->shape);
  double lambda = p->target.lambda;
  double *g = grad ? grad : p->scratch;
  memset(p->row_score, 0, p->rows * sizeof *p->row_score);
  memset(p->row_mean, 0, p->rows * sizeof *p->row_mean);
  memset(g, 0, size * sizeof *g);
  p->family->draw(phi, &p->noise, p->theta);
  vm_forward(p->work, p->theta);
  vm_tiles(p->work, score_tile, p, grad != NULL);
  double prior = lambda == 0 ? 0 : mean_root(p, ROOT_PRIOR) + mean_root(p, ROOT_JACOBIAN);
  double entropy = p->family->entropy(phi, &p->noise, lambda, g);
  v->score = p->scale * sum_rows(p->row_score, p->rows);
  v->regularizer = -(prior + entropy);
  if (p->posterior != 0) v->regularizer -= p->scale * sum_rows(p->row_mean, p->rows);
  v->value = v->score - (lambda == 0 ? 0 : lambda * v->regularizer);
  if (!isfinite(v->value)) return false;
  if (grad) {
    double seed = lambda / (double)p->noise.M;
    vm_backward(p->work, (double[]){seed, seed}, p->adj);
    p->family->adjoint(phi, &p->noise, p->adj, NULL, grad);
    if (!all_finite(grad, size)) return false;
  }
  p->last = *v;
  return true;
}

PredictiveValue predictive_last(const Predictive *p) { return p->last; }

/* ---- as the optimizers see it ------------------------------------------------------------------------------------- */

static bool objective_eval(void *self, const double *phi, double *value, double *grad) {
  PredictiveValue v;
  bool ok = predictive_eval(self, phi, &v, grad);
  *value = v.value;
  return ok;
}

static void objective_scale(void *self, const double *phi, double *d) {
  Predictive *p = self;
  p->family->scale(phi, &p->shape, d);
}

Objective predictive_objective(Predictive *p) {
  return (Objective){.dim = p->family->size(&p->shape), .self = p, .eval = objective_eval,
                     .scale = p->family->scale ? objective_scale : NULL};
}

/* ---- scores on fresh draws ---------------------------------------------------------------------------------------- */

typedef struct {
  size_t M, ld;
  const Kernels *k;
  double *scores; /* running log of the sum of densities */
} Running;

static void add_densities(void *self, const TileView *v) {
  Running *s = self;
  for (size_t r = 0; r < v->rows; r++) {
    double lse = s->k->softmax(NULL, v->heads[0] + r * s->ld, s->M), *t = &s->scores[v->row + r];
    double top = lse > *t ? lse : *t, low = lse > *t ? *t : lse;
    *t = top == -INFINITY ? top : top + log1p(exp(low - top));
  }
}

void predictive_scores(Ctx *c, const Model *m, const Tape *tape, FamilyId family, const Shape *shape, const double *phi, size_t M,
                       uint64_t seed, Pool *pool, double *log_scores) {
  enum { BATCH = 1024 };
  Arena arena = arena_make(c);
  jmp_buf here, *outer = c->trap;
  if (setjmp(here)) {
    arena_free(&arena);
    c->trap = outer;
    ctx_jump(c, c->status);
  }
  c->trap = &here;
  const Family *f = family_of(family);
  size_t batches = (M + BATCH - 1) / BATCH, n = vm_rows(tape), rows = f->noise(shape);
  Work *w = vm_work(&arena, tape, BATCH, pool);
  double *all = NEW_ARRAY(&arena, double, rows * batches * BATCH);
  double *u = NEW_ARRAY(&arena, double, rows * BATCH), *theta = NEW_ARRAY(&arena, double, m->dim * BATCH);
  double *scratch = f->scratch ? NEW_ARRAY(&arena, double, f->scratch(shape, BATCH)) : NULL;
  sobol_normal(all, rows, batches * BATCH, batches * BATCH, seed, false);
  for (size_t k = 0; k < n; k++) log_scores[k] = -INFINITY;
  for (size_t b = 0; b < batches; b++) {
    for (size_t k = 0; k < rows; k++) memcpy(u + k * BATCH, all + (k * batches + b) * BATCH, BATCH * sizeof *u);
    Noise noise = {.shape = shape, .M = BATCH, .ld = BATCH, .u = u, .k = vm_kernels(w), .scratch = scratch};
    f->draw(phi, &noise, theta);
    vm_forward(w, theta);
    Running s = {BATCH, BATCH, vm_kernels(w), log_scores};
    vm_tiles(w, add_densities, &s, false);
  }
  for (size_t k = 0; k < n; k++) log_scores[k] -= log((double)(batches * BATCH));
  c->trap = outer;
  arena_free(&arena);
}

static void keep_first(void *self, const TileView *t) {
  double *out = self;
  for (size_t r = 0; r < t->rows; r++) out[t->row + r] = t->heads[0][r * LANES];
}

void predictive_point(Ctx *c, const Model *m, const Tape *tape, const double *theta, double *log_densities) {
  double *rows = NEW_ARRAY(&c->arena, double, m->dim * LANES);
  for (size_t k = 0; k < m->dim * LANES; k++) rows[k] = theta[k / LANES];
  Work *w = vm_work(&c->arena, tape, LANES, NULL);
  vm_forward(w, rows);
  vm_tiles(w, keep_first, log_densities, false);
}
