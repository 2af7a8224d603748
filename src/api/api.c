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

static Data *load_data(Ctx *ctx, const LoadArgs *a) {
  if (!a->data) return data_empty(ctx);
  return a->text ? data_read_text(ctx, "data", a->data, NULL) : data_read(ctx, a->data, NULL);
}

static void load(pvi_context *c, void *arg) {
  LoadArgs *a = arg;
  Ctx *ctx = &c->ctx;
  pvi_model *m = NEW(&ctx->arena, pvi_model);
  m->program = load_program(ctx, a);
  m->data = load_data(ctx, a);
  m->model = model_make(ctx, m->program, m->data, NULL);
  data_forget_text(m->data);
  m->names = NEW_ARRAY(&ctx->arena, const char *, m->model->dim + 1);
  for (size_t k = 0; k < m->model->dim; k++)
    m->names[k] = model_unconstrained_name(m->model, &ctx->arena, k);
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
  ModelOptions o = {.simulate = a->simulate, .observed = a->observed};
  a->m->model = model_make(&c->ctx, a->m->program, a->m->data, &o);
  a->m->density = NULL;
}

int pvi_simulate(pvi_context *c, pvi_model *m, const char *simulate_name, const char *observed) {
  return api_run(c, simulate, &(SimulateArgs){m, simulate_name, observed});
}

size_t pvi_dim(const pvi_model *m) { return m->model->dim; }
size_t pvi_observations(const pvi_model *m) { return m->model->n_obs; }
const char *pvi_parameter(const pvi_model *m, size_t k) {
  return k < m->model->dim ? m->names[k] : NULL;
}

/* ---- densities ------------------------------------------------------------------------------- */

typedef struct {
  pvi_model *m;
  const double *points;
  size_t npoints;
  double *lp, *gradient, *pointwise;
} DensityArgs;

static void density(pvi_context *c, void *arg) {
  DensityArgs *a = arg;
  pvi_model *m = a->m;
  if (!m->density) m->density = density_make(&c->ctx.arena, m->model, NULL, 0, a->npoints);
  ModelPoints points = {a->points, a->npoints, m->model->dim, 1};
  DensityOut out = {.log_density = a->lp, .gradient = a->gradient, .pointwise = a->pointwise};
  density_eval(m->density, &points, &out);
}

int pvi_density(pvi_context *c, pvi_model *m, const double *points, size_t npoints, double *lp,
                double *gradient, double *pointwise) {
  return api_run(c, density, &(DensityArgs){m, points, npoints, lp, gradient, pointwise});
}
