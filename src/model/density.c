/* density.c: evaluating the log density (density.h).
 *
 * A Density is a tape of some observations, with buffers for LANES_MOST points. `run` evaluates one
 * batch of points and adds to what is there, so that the sums over observations are the same
 * whether these come in one batch or in several.
 */
#include "model/density.h"

#include <string.h>

enum { LANES_MOST = 64, BATCH_ROWS = 1 << 16 };

struct Density {
  const Model *model;
  Work *work;
  size_t lanes;
  size_t columns;        /* of DensityOut.pointwise */
  const int32_t *column; /* of each row of the tape: which of them it is */
  double *theta, *grad;  /* [dim x lanes] */
  double *likelihood;    /* [lanes]: summed so far */
  /* the batch that is being evaluated */
  size_t first, count;
  const DensityOut *out;
};

/* ---- rows ------------------------------------------------------------------------------------ */

/* The observations of a density, block by block, and the column of each. */
typedef struct {
  ModelRows rows;
  const int32_t *column;
  size_t columns;
} Selected;

static Selected select_rows(Arena *a, const Model *m, const size_t *rows, size_t nrows) {
  static const size_t none[1] = {0};
  Selected s = {.columns = rows ? nrows : m->n_obs};
  if (!model_has_densities(m)) rows = none, nrows = 0;
  s.rows = model_rows(a, m, rows, nrows);
  int32_t *column = NEW_ARRAY(a, int32_t, s.rows.n + 1);
  model_numbers(m, &s.rows, column);
  s.column = column;
  if (!rows) return s;
  int32_t *place = NEW_ARRAY(a, int32_t, m->n_obs + 1);
  for (size_t k = 0; k < nrows; k++) place[rows[k]] = (int32_t)k;
  for (size_t k = 0; k < s.rows.n; k++) column[k] = place[column[k]];
  return s;
}

static Selected slice(Arena *a, const Model *m, const Selected *s, size_t from, size_t to) {
  return (Selected){model_slice(a, m, &s->rows, from, to), s->column + from, s->columns};
}

/* ---- one batch of points --------------------------------------------------------------------- */

static Density *make(Arena *a, const Model *m, const Selected *s, size_t npoints) {
  Density *d = NEW(a, Density);
  size_t lanes = npoints < LANES_MOST ? (npoints + LANES - 1) / LANES * LANES : LANES_MOST;
  if (!lanes) lanes = LANES;
  *d = (Density){.model = m,
                 .work = vm_work(a, model_tape(a, m, &s->rows, WANT_LL), lanes, NULL),
                 .lanes = lanes,
                 .columns = s->columns,
                 .column = s->column,
                 .theta = NEW_ARRAY(a, double, m->dim *lanes),
                 .grad = NEW_ARRAY(a, double, m->dim *lanes),
                 .likelihood = NEW_ARRAY(a, double, lanes)};
  vm_overwrites(d->work);
  return d;
}

/* d likelihood / d log likelihood of an observation = 1: every point for itself. */
static void keep_tile(void *self, const TileView *t) {
  Density *d = self;
  for (size_t r = 0; r < t->rows; r++) {
    const double *l = t->heads[HEAD_LL] + r * d->lanes;
    size_t column = (size_t)d->column[t->row + r];
    for (size_t j = 0; j < d->lanes; j++) d->likelihood[j] += l[j];
    for (size_t j = 0; t->adj[HEAD_LL] && j < d->lanes; j++) t->adj[HEAD_LL][r * d->lanes + j] = 1;
    for (size_t j = 0; d->out->pointwise && j < d->count; j++)
      d->out->pointwise[(d->first + j) * d->columns + column] = l[j];
  }
}

/* Adds the observations of the tape to the likelihood and to the gradient of a batch of points, and
 * `roots` times the gradient of prior and Jacobian. */
static void run(Density *d, const ModelPoints *p, size_t first, double roots,
                const DensityOut *out) {
  size_t dim = d->model->dim;
  d->first = first;
  d->count = model_lanes(d->model, p, first, (ModelLanes){d->theta, d->lanes, d->lanes});
  d->out = out;
  vm_forward(d->work, d->theta);
  vm_tiles(d->work, keep_tile, d, out->gradient != NULL);
  if (!out->gradient) return;
  vm_backward(d->work, (double[]){roots, roots}, NULL, d->grad);
  for (size_t j = 0; j < d->count; j++)
    for (size_t k = 0; k < dim; k++)
      out->gradient[(first + j) * dim + k] += d->grad[k * d->lanes + j];
}

static void put(double *to, size_t at, double x) {
  if (to) to[at] = x;
}

/* All parts of the batch, once every observation is in the likelihood. */
static void finish(const Density *d) {
  const double *prior = vm_value(d->work, ROOT_PRIOR, 0),
               *jacobian = vm_value(d->work, ROOT_JACOBIAN, 0);
  for (size_t j = 0; j < d->count; j++) {
    size_t at = d->first + j;
    put(d->out->prior, at, prior[j]);
    put(d->out->jacobian, at, jacobian[j]);
    put(d->out->likelihood, at, d->likelihood[j]);
    put(d->out->log_density, at, d->likelihood[j] + (prior[j] + jacobian[j]));
  }
}

static void clear_gradient(const Model *m, const ModelPoints *p, const DensityOut *out) {
  if (out->gradient) memset(out->gradient, 0, p->n * m->dim * sizeof *out->gradient);
}

/* ---- evaluations ----------------------------------------------------------------------------- */

Density *density_make(Arena *a, const Model *m, const size_t *rows, size_t nrows, size_t npoints) {
  Selected s = select_rows(a, m, rows, nrows);
  return make(a, m, &s, npoints);
}

void density_eval(Density *d, const ModelPoints *p, const DensityOut *out) {
  clear_gradient(d->model, p, out);
  for (size_t first = 0; first < p->n; first += d->lanes) {
    memset(d->likelihood, 0, d->lanes * sizeof *d->likelihood);
    run(d, p, first, 1, out);
    finish(d);
  }
}

/* One batch of rows at all points; the last one, which has no rows, has the roots. */
static void add_batch(Ctx *c, const Model *m, const Selected *s, const ModelPoints *p,
                      const DensityOut *out, double *likelihood) {
  TempArena *temp = temp_open(c);
  Density *d = make(&temp->arena, m, s, p->n);
  bool last = !s->rows.n;
  if (!last) vm_skip_roots(d->work);
  for (size_t first = 0; first < p->n; first += d->lanes) {
    size_t bytes = (p->n - first < d->lanes ? p->n - first : d->lanes) * sizeof *likelihood;
    memcpy(d->likelihood, likelihood + first, bytes);
    run(d, p, first, last, out);
    memcpy(likelihood + first, d->likelihood, bytes);
    if (last) finish(d);
  }
  temp_close(temp);
}

void density_once(Ctx *c, const Model *m, const size_t *rows, size_t nrows, const ModelPoints *p,
                  const DensityOut *out) {
  TempArena *temp = temp_open(c);
  Arena *a = &temp->arena;
  Selected all = select_rows(a, m, rows, nrows);
  double *likelihood = NEW_ARRAY(a, double, p->n);
  clear_gradient(m, p, out);
  for (size_t from = 0; from < all.rows.n; from += BATCH_ROWS) {
    Selected batch = slice(a, m, &all, from, from + BATCH_ROWS);
    add_batch(c, m, &batch, p, out, likelihood);
  }
  Selected none = slice(a, m, &all, all.rows.n, all.rows.n);
  add_batch(c, m, &none, p, out, likelihood);
  temp_close(temp);
}
