/* api.c: include/pvi.h over the stages: contexts, loading, densities. Every call runs under its own
 * trap, and its messages are kept as text. */
#include "api/api_int.h"

#include <stdlib.h>
#include <string.h>

const char *pvi_version(void) { return PVI_VERSION; }

pvi_context *pvi_open(void) {
  pvi_context *c = calloc(1, sizeof *c);
  if (c) ctx_init(&c->ctx);
  return c;
}

void pvi_close(pvi_context *c) {
  if (!c) return;
  ctx_free(&c->ctx);
  free(c->error);
  free(c);
}

const char *pvi_error(pvi_context *c) { return c->error ? c->error : ""; }

/* What the command line would have printed. */
static void keep_messages(pvi_context *c) {
  free(c->error);
  c->error = NULL;
  FILE *f = open_memstream(&c->error, &c->nerror);
  if (!f) return;
  ctx_print(&c->ctx, f);
  fclose(f);
}

int api_run(pvi_context *c, ApiStep *step, void *arg) {
  jmp_buf here;
  volatile int status = PVI_STATUS_OK;
  c->ctx.nmessages = c->ctx.nerrors = 0;
  if (setjmp(here)) {
    status = (int)c->ctx.status;
  } else {
    c->ctx.trap = &here;
    step(c, arg);
  }
  c->ctx.trap = NULL;
  keep_messages(c);
  if (status)
    ctx_close(&c->ctx); /* threads that the jump left waiting, texts that the messages have shown */
  return status;
}

/* ---- loading --------------------------------------------------------------------------------- */

typedef struct {
  const char *program, *data;
  bool text;
  pvi_model *made;
} LoadArgs;

/* The caller may free what he gave; messages and names point into it. */
static const char *copy(Ctx *ctx, const char *text) {
  return arena_text(&ctx->arena, text, strlen(text));
}

static Program *load_program(Ctx *ctx, const LoadArgs *a) {
  StanOptions o = {0};
  Program *p = a->text
                   ? stan_parse_text(ctx, "program", copy(ctx, a->program), strlen(a->program), &o)
                   : stan_parse(ctx, a->program, &o);
  if (!ctx->nerrors) stan_check(ctx, p);
  if (ctx->nerrors) ctx_jump(ctx, PVI_PROGRAM);
  return p;
}

static const Data *load_data(Ctx *ctx, const LoadArgs *a) {
  if (!a->data) return data_empty(ctx);
  return a->text ? data_read_text(ctx, "data", a->data, NULL) : data_read(ctx, a->data, NULL);
}

static void load(pvi_context *c, void *arg) {
  LoadArgs *a = arg;
  Ctx *ctx = &c->ctx;
  pvi_model *m = NEW(&ctx->arena, pvi_model);
  m->program = load_program(ctx, a);
  m->data = load_data(ctx, a);
  m->model = model_make(ctx, m->program, m->data);
  a->made = m;
}

static int run_load(pvi_context *c, LoadArgs a, pvi_model **out) {
  int status = api_run(c, load, &a);
  *out = status ? NULL : a.made;
  return status;
}

int pvi_load(pvi_context *c, const char *program, const char *data, pvi_model **out) {
  return run_load(c, (LoadArgs){program, data, false, NULL}, out);
}

int pvi_load_text(pvi_context *c, const char *program, const char *data, pvi_model **out) {
  return run_load(c, (LoadArgs){program, data, true, NULL}, out);
}

typedef struct {
  pvi_model *m;
  const char *simulate, *observed;
} SimulateArgs;

static void simulate(pvi_context *c, void *arg) {
  SimulateArgs *a = arg;
  a->m->model = model_make_simulator(&c->ctx, a->m->program, a->m->data, copy(&c->ctx, a->simulate),
                                     copy(&c->ctx, a->observed));
  a->m->work = NULL;
}

int pvi_simulate(pvi_context *c, pvi_model *m, const char *simulate_name, const char *observed) {
  return api_run(c, simulate, &(SimulateArgs){m, simulate_name, observed});
}

size_t pvi_dim(const pvi_model *m) { return m->model->dim; }
size_t pvi_observations(const pvi_model *m) { return m->model->n_obs; }
const char *pvi_parameter(const pvi_model *m, size_t k) {
  return k < m->model->dim ? model_unconstrained_name(m->model, &m->model->ctx->arena, k) : NULL;
}

/* ---- densities ------------------------------------------------------------------------------- */

typedef struct {
  pvi_model *m;
  const double *points;
  size_t npoints;
  double *lp, *gradient, *pointwise;
} DensityArgs;

typedef struct {
  const DensityArgs *a;
  size_t lanes, first, count;
  double *likelihood;
} DensityTile;

static void density_tile(void *self, const TileView *t) {
  DensityTile *d = self;
  size_t n = d->a->m->model->n_obs;
  for (size_t r = 0; r < t->rows; r++)
    for (size_t j = 0; j < d->lanes; j++) {
      double l = t->heads[HEAD_LL][r * d->lanes + j];
      d->likelihood[j] += l;
      t->adj[HEAD_LL][r * d->lanes + j] = 1;
      if (d->a->pointwise && j < d->count)
        d->a->pointwise[(d->first + j) * n + (size_t)d->a->m->obs[t->row + r]] = l;
    }
}

/* The tape and its buffers, for at most BATCH points at a time. */
static void prepare_density(pvi_model *m, Arena *arena, size_t npoints) {
  enum { BATCH = 64 };
  const Model *model = m->model;
  size_t n = model_has_densities(model) ? model->n_obs : 0;
  m->obs = NEW_ARRAY(arena, int32_t, model->n_obs);
  m->lanes = npoints < BATCH ? (npoints + LANES - 1) / LANES * LANES : BATCH;
  if (!m->lanes) m->lanes = LANES;
  ModelRows rows = model_rows(arena, model, n ? NULL : (size_t[]){0}, n);
  model_numbers(model, &rows, m->obs);
  m->work = vm_work(arena, model_tape(arena, model, &rows, WANT_LL), m->lanes, NULL);
}

static void density(pvi_context *c, void *arg) {
  DensityArgs *a = arg;
  const Model *m = a->m->model;
  Arena *arena = &c->ctx.arena;
  if (!a->m->work) prepare_density(a->m, arena, a->npoints);
  size_t lanes = a->m->lanes;
  ArenaMark mark = arena_mark(arena);
  double *theta = NEW_ARRAY(arena, double, m->dim *lanes),
         *grad = NEW_ARRAY(arena, double, m->dim *lanes);
  double *sum = NEW_ARRAY(arena, double, lanes);
  for (size_t i = 0; i < a->npoints; i += lanes) {
    size_t count = a->npoints - i < lanes ? a->npoints - i : lanes;
    for (size_t k = 0; k < m->dim * lanes; k++)
      theta[k] = a->points[(i + (k % lanes < count ? k % lanes : 0)) * m->dim + k / lanes];
    memset(sum, 0, lanes * sizeof *sum);
    DensityTile tile = {a, lanes, i, count, sum};
    vm_forward(a->m->work, theta);
    vm_tiles(a->m->work, density_tile, &tile, true);
    vm_backward(a->m->work, (double[]){1, 1}, NULL, grad);
    for (size_t j = 0; j < count; j++) {
      a->lp[i + j] = sum[j] + vm_value(a->m->work, ROOT_PRIOR, 0)[j] +
                     vm_value(a->m->work, ROOT_JACOBIAN, 0)[j];
      for (size_t k = 0; a->gradient && k < m->dim; k++)
        a->gradient[(i + j) * m->dim + k] = grad[k * lanes + j];
    }
  }
  arena_reset(arena, mark);
}

int pvi_density(pvi_context *c, pvi_model *m, const double *points, size_t npoints, double *lp,
                double *gradient, double *pointwise) {
  return api_run(c, density, &(DensityArgs){m, points, npoints, lp, gradient, pointwise});
}
