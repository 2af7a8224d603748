/* api.c: include/pvi.h over the stages: every call runs under its own trap, and its messages are kept as text. */
#include "pvi.h"

#include "infer/fit.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

struct pvi_context {
  Ctx ctx;
  char *error; /* of the last call */
  size_t nerror;
};

struct pvi_model {
  Model *model;
  Work *work; /* for densities; made when first needed */
  size_t lanes;
  int32_t *obs;
};

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

typedef void Step(pvi_context *c, void *arg);

/* Runs a step; a jump out of it becomes its status. */
static int trapped(pvi_context *c, Step *step, void *arg) {
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
  return status;
}

/* ---- loading ------------------------------------------------------------------------------------------------------ */

typedef struct {
  const char *program, *data;
  pvi_model *made;
} LoadArgs;

static void load(pvi_context *c, void *arg) {
  LoadArgs *a = arg;
  Ctx *ctx = &c->ctx;
  Program *p = stan_parse(ctx, a->program, &(StanOptions){0});
  if (!ctx->nerrors) stan_check(ctx, p);
  if (ctx->nerrors) ctx_jump(ctx, PVI_PROGRAM);
  const Data *d = a->data ? data_read(ctx, a->data, NULL) : data_empty(ctx);
  a->made = NEW(&ctx->arena, pvi_model);
  a->made->model = model_make(ctx, p, d);
}

int pvi_load(pvi_context *c, const char *program, const char *data, pvi_model **out) {
  LoadArgs a = {program, data, NULL};
  int status = trapped(c, load, &a);
  *out = status ? NULL : a.made;
  return status;
}

size_t pvi_dim(const pvi_model *m) { return m->model->dim; }
size_t pvi_observations(const pvi_model *m) { return m->model->n_obs; }
const char *pvi_parameter(const pvi_model *m, size_t k) {
  return k < m->model->dim ? model_unconstrained_name(m->model, &m->model->ctx->arena, k) : NULL;
}

/* ---- densities ---------------------------------------------------------------------------------------------------- */

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
      if (d->a->pointwise && j < d->count) d->a->pointwise[(d->first + j) * n + (size_t)d->a->m->obs[t->row + r]] = l;
    }
}

static void density(pvi_context *c, void *arg) {
  enum { BATCH = 64 };
  DensityArgs *a = arg;
  const Model *m = a->m->model;
  Arena *arena = &c->ctx.arena;
  if (!a->m->work) {
    a->m->obs = NEW_ARRAY(arena, int32_t, m->n_obs);
    a->m->lanes = a->npoints < BATCH ? (a->npoints + LANES - 1) / LANES * LANES : BATCH;
    if (!a->m->lanes) a->m->lanes = LANES;
    a->m->work = vm_work(arena, model_tape(m, NULL, 0, a->m->obs, WANT_LL), a->m->lanes, NULL);
  }
  size_t lanes = a->m->lanes;
  ArenaMark mark = arena_mark(arena);
  double *theta = NEW_ARRAY(arena, double, m->dim * lanes), *grad = NEW_ARRAY(arena, double, m->dim * lanes);
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
      a->lp[i + j] = sum[j] + vm_value(a->m->work, ROOT_PRIOR, 0)[j] + vm_value(a->m->work, ROOT_JACOBIAN, 0)[j];
      for (size_t k = 0; a->gradient && k < m->dim; k++) a->gradient[(i + j) * m->dim + k] = grad[k * lanes + j];
    }
  }
  arena_reset(arena, mark);
}

int pvi_density(pvi_context *c, pvi_model *m, const double *points, size_t npoints, double *lp, double *gradient,
                double *pointwise) {
  return trapped(c, density, &(DensityArgs){m, points, npoints, lp, gradient, pointwise});
}

/* ---- fitting ------------------------------------------------------------------------------------------------------ */

typedef struct {
  pvi_model *m;
  const pvi_options *o;
  pvi_result *out;
} FitArgs;

static void fit(pvi_context *c, void *arg) {
  FitArgs *a = arg;
  Ctx *ctx = &c->ctx;
  const Model *m = a->m->model;
  FitOptions o = {.target = {.score = SCORE_log, .regularizer = REG_POSTERIOR, .lambda = a->o->lambda, .score_weight = 1},
                  .family = FAMILY_meanfield, .choose_family = !a->o->family,
                  .optimizer = OPTIM_LBFGS, .seed = a->o->seed};
  if (a->o->score && !score_find(a->o->score, &o.target.score)) ctx_fail(ctx, PVI_USAGE, NOWHERE, "unknown score %s", a->o->score);
  if (a->o->family && !family_find(a->o->family, &o.family))
    ctx_fail(ctx, PVI_USAGE, NOWHERE, "unknown family %s", a->o->family);
  if (a->o->regularizer && !strcmp(a->o->regularizer, "prior")) {
    o.target.regularizer = REG_PRIOR;
  } else if (a->o->regularizer && strcmp(a->o->regularizer, "posterior") != 0) {
    ctx_fail(ctx, PVI_USAGE, NOWHERE, "unknown regularizer %s", a->o->regularizer);
  }
  Pool *pool = pool_make(ctx, a->o->threads);
  const Fit *f = fit_run(ctx, m, split_all(ctx, m->n_obs), &o, pool);
  pool_free(pool);
  double *mean = NEW_ARRAY(&ctx->arena, double, m->dim), *sd = NEW_ARRAY(&ctx->arena, double, m->dim);
  q_moments(&f->q, f->phi, mean, sd);
  *a->out = (pvi_result){f->converged, f->value.value, f->value.score, f->value.regularizer, f->evaluations, mean, sd,
                         family_name(f->q.family), f->reason};
}

int pvi_fit(pvi_context *c, pvi_model *m, const pvi_options *o, pvi_result *out) {
  *out = (pvi_result){0};
  int status = trapped(c, fit, &(FitArgs){m, o, out});
  return status ? status : out->converged ? PVI_STATUS_OK : PVI_STATUS_NOT_CONVERGED;
}
