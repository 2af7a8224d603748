/* loo.c: PSIS-LOO in batches of rows, so that memory is that of a batch (loo.h). */
#include "infer/loo.h"

#include "infer/psis.h"

#include <math.h>
#include <string.h>

enum { LOO_LANES = 256 };

typedef struct {
  size_t n;      /* draws */
  double *ll;    /* [rows x n] */
  double *ratio; /* [workers x ld], ld: n padded */
  size_t ld;
  const Kernels *kernels;
  size_t first, count; /* draws that are being evaluated */
  PsisWork **work;
  double *score, *k;
} Loo;

static void keep_tile(void *self, const TileView *t) {
  Loo *l = self;
  for (size_t r = 0; r < t->rows; r++)
    memcpy(l->ll + (t->row + r) * l->n + l->first, t->heads[HEAD_LL] + r * t->ld,
           l->count * sizeof *l->ll);
}

/* All log densities of the rows. */
static void evaluate(Arena *a, const Observed *o, const LooDraws *d, Loo *l) {
  Work *w = vm_work_forward(a, observed_tape(o), LOO_LANES, d->pool);
  ModelLanes lanes = {vm_theta(w), LOO_LANES, vm_ld(w)};
  ModelPoints points = {d->theta, d->n, o->model->dim, 1};
  for (l->first = 0; l->first < d->n; l->first += LOO_LANES) {
    l->count = model_lanes(o->model, &points, l->first, lanes);
    vm_forward(w, lanes.theta);
    vm_tiles(w, keep_tile, l, false);
  }
}

/* log sum_s w_s p(y | theta_s), w the smoothed 1 / p. */
static void score_row(void *self, size_t row, int worker) {
  Loo *l = self;
  double *ratio = l->ratio + (size_t)worker * l->ld, *ll = l->ll + row * l->n;
  for (size_t s = 0; s < l->n; s++) ratio[s] = -ll[s];
  l->k[row] = psis_smooth(l->work[worker], ratio);
  for (size_t s = 0; s < l->n; s++) ratio[s] += ll[s];
  l->score[row] = l->kernels->softmax(NULL, ratio, l->n);
}

void loo_scores(Ctx *c, const Observed *o, const LooDraws *d, double *score, double *k) {
  const size_t most = ((size_t)1 << 18) / (d->n + 1) + 1; /* memory that stays in cache */
  size_t ld = (d->n + LANES - 1) / LANES * LANES,
         workers = d->pool ? (size_t)pool_threads(d->pool) : 1;
  for (size_t from = 0; from < o->n; from += most) {
    TempArena *temp = temp_open(c);
    Arena *a = &temp->arena;
    ModelRows rows = model_slice(a, o->model, &o->rows, from, from + most);
    Loo l = {.n = d->n,
             .ll = NEW_ARRAY(a, double, rows.n * d->n),
             .ratio = NEW_ARRAY(a, double, workers *ld),
             .ld = ld,
             .kernels = kernels_best(),
             .work = NEW_ARRAY(a, PsisWork *, workers),
             .score = score + from,
             .k = k + from};
    for (size_t w = 0; w < workers; w++) l.work[w] = psis_work(a, d->n);
    evaluate(a, observed_of(a, o->model, &rows, WANT_LL), d, &l);
    if (d->pool)
      pool_run(d->pool, rows.n, score_row, &l);
    else
      for (size_t r = 0; r < rows.n; r++) score_row(&l, r, 0);
    temp_close(temp);
  }
}
