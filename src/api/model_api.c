/* model_api.c: models: loading, names, transforms, densities. */
#include "api/api_int.h"

#include "model/density.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_KEPT = 65536 }; /* points of a call for which a plan is kept */

/* ---- loading --------------------------------------------------------------------------------- */

typedef struct {
  ProblemSource source;
  const pvi_options *o;
  pvi_model *m;
} LoadArgs;

static void load(Ctx *ctx, void *arg) {
  LoadArgs *a = arg;
  a->m->problem = problem_load(ctx, &a->source, api_options(ctx, a->o));
}

static int run_load(pvi_context *c, LoadArgs *a, pvi_model **out) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, out);
  *out = NULL;
  if (!a->source.program) return api_missing(c, "program");
  a->m = calloc(1, sizeof *a->m);
  NEED(c, a->m);
  ctx_init(&a->m->ctx);
  ctx_init(&a->m->density_ctx);
  pthread_mutex_init(&a->m->lock, NULL);
  pthread_mutex_init(&a->m->density_lock, NULL);
  int status = api_call(c, &a->m->ctx, load, a);
  if (status)
    pvi_model_free(a->m);
  else
    *out = a->m;
  return status;
}

int pvi_load(pvi_context *c, const char *program, const char *data, const pvi_options *o,
             pvi_model **out) {
  return run_load(c, &(LoadArgs){{.program = program, .data = data}, o, NULL}, out);
}

int pvi_load_text(pvi_context *c, const char *program, const char *data, const pvi_options *o,
                  pvi_model **out) {
  return run_load(c, &(LoadArgs){{.program = program, .data = data, .text = true}, o, NULL}, out);
}

void pvi_model_free(pvi_model *m) {
  if (!m) return;
  ctx_free(&m->ctx);
  ctx_free(&m->density_ctx);
  pthread_mutex_destroy(&m->lock);
  pthread_mutex_destroy(&m->density_lock);
  free(m->parameters);
  free(m->columns);
  free(m);
}

/* ---- sizes and names ------------------------------------------------------------------------- */

size_t pvi_dim(const pvi_model *m) { return m ? m->problem->model->dim : 0; }
size_t pvi_observations(const pvi_model *m) { return m ? m->problem->model->n_obs : 0; }
size_t pvi_columns(const pvi_model *m) { return m ? model_output_count(m->problem->model) : 0; }

size_t pvi_parameter_columns(const pvi_model *m) {
  size_t n = 0, all = pvi_columns(m);
  while (n < all && model_output_is_parameter(m->problem->model, n)) n++;
  return n;
}

/* All names at once, in one block: pointers, then the texts they point to. NULL: no memory. */
typedef const char *NameOf(const Model *m, Arena *a, size_t k);

static const char *parameter_name(const Model *m, Arena *a, size_t k) {
  return model_unconstrained_name(m, a, k);
}
static const char *column_name(const Model *m, Arena *a, size_t k) {
  return model_output_name(m, a, k, true);
}

typedef struct {
  const Model *m;
  NameOf *name;
  size_t n;
  const char **made;
} NamesArgs;

static void make_names(Ctx *ctx, void *arg) {
  NamesArgs *a = arg;
  size_t bytes = a->n * sizeof *a->made;
  const char **names = NEW_ARRAY(&ctx->arena, const char *, a->n + 1);
  for (size_t k = 0; k < a->n; k++) {
    names[k] = a->name(a->m, &ctx->arena, k);
    bytes += strlen(names[k]) + 1;
  }
  a->made = malloc(bytes + 1);
  if (!a->made) return;
  char *to = (char *)(a->made + a->n);
  for (size_t k = 0; k < a->n; k++) {
    a->made[k] = strcpy(to, names[k]);
    to += strlen(to) + 1;
  }
}

static const char *name_at(pvi_model *m, const char ***names, NameOf *name, size_t n, size_t k) {
  if (k >= n) return NULL;
  pthread_mutex_lock(&m->lock);
  if (!*names) {
    pvi_context scratch = {.alloc_left = -1};
    NamesArgs a = {m->problem->model, name, n, NULL};
    if (!api_call(&scratch, NULL, make_names, &a)) *names = a.made;
  }
  const char *found = *names ? (*names)[k] : NULL;
  pthread_mutex_unlock(&m->lock);
  return found;
}

const char *pvi_parameter(const pvi_model *m, size_t k) {
  pvi_model *own = (pvi_model *)m; /* its names are made once, under its lock */
  return m ? name_at(own, &own->parameters, parameter_name, pvi_dim(m), k) : NULL;
}

const char *pvi_column(const pvi_model *m, size_t k) {
  pvi_model *own = (pvi_model *)m;
  return m ? name_at(own, &own->columns, column_name, pvi_columns(m), k) : NULL;
}

/* ---- transforms ------------------------------------------------------------------------------ */

typedef struct {
  const Model *m;
  const double *points;
  size_t npoints;
  uint64_t seed;
  double *out;
} PointsArgs;

void api_check_count(Ctx *ctx, size_t n, size_t each) {
  if (each && n > SIZE_MAX / 64 / each)
    ctx_fail(ctx, PVI_USAGE, NOWHERE, "%zu points are too many", n);
}

static void constrain(Ctx *ctx, void *arg) {
  PointsArgs *a = arg;
  api_check_count(ctx, a->npoints, a->m->dim + 1);
  ModelPoints points = {a->points, a->npoints, a->m->dim, 1};
  if (a->npoints) model_outputs(ctx, a->m, &points, a->seed, a->out);
}

int pvi_constrain(pvi_context *c, const pvi_model *m, const double *points, size_t npoints,
                  uint64_t seed, double *out) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, m);
  NEED(c, points);
  NEED(c, out);
  return api_call(c, NULL, constrain, &(PointsArgs){m->problem->model, points, npoints, seed, out});
}

static void unconstrain(Ctx *ctx, void *arg) {
  PointsArgs *a = arg;
  model_unconstrain(ctx, a->m, a->points, a->out);
}

int pvi_unconstrain(pvi_context *c, const pvi_model *m, const double *columns, double *theta) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, m);
  NEED(c, columns);
  NEED(c, theta);
  return api_call(c, NULL, unconstrain, &(PointsArgs){m->problem->model, columns, 1, 0, theta});
}

/* ---- densities ------------------------------------------------------------------------------- */

typedef struct {
  pvi_model *m;
  const double *points;
  size_t npoints;
  const pvi_densities *out;
} DensityArgs;

/* The densities as pvi.h has them: its prior has the Jacobian in it. */
static void evaluate(Ctx *ctx, Density *density, const DensityArgs *a) {
  const pvi_densities *o = a->out;
  size_t n = a->npoints;
  double *jacobian = o->jacobian ? o->jacobian : NEW_ARRAY(&ctx->arena, double, n + 1);
  DensityOut out = {.log_density = o->lp,
                    .prior = o->prior,
                    .jacobian = jacobian,
                    .likelihood = o->likelihood,
                    .gradient = o->gradient,
                    .pointwise = o->pointwise};
  density_eval(density, &(ModelPoints){a->points, n, a->m->problem->model->dim, 1}, &out);
  for (size_t k = 0; o->prior && k < n; k++) o->prior[k] += jacobian[k];
}

static Density *make_density(Ctx *ctx, const DensityArgs *a) {
  return density_make(&ctx->arena, a->m->problem->model, NULL, 0, a->npoints);
}

static void plan_once(Ctx *ctx, void *arg) {
  DensityArgs *a = arg;
  a->m->density = make_density(ctx, a);
}

static void evaluate_planned(Ctx *ctx, void *arg) {
  DensityArgs *a = arg;
  evaluate(ctx, a->m->density, a);
}

static void plan_and_evaluate(Ctx *ctx, void *arg) {
  DensityArgs *a = arg;
  api_check_count(ctx, a->npoints, a->m->problem->model->dim + 1);
  evaluate(ctx, make_density(ctx, a), a);
}

/* The model keeps one plan, for those who ask again and again; while another thread uses it, a call
 * makes its own. */
static int density(pvi_context *c, DensityArgs *a) {
  pvi_model *m = a->m;
  if (a->npoints > MOST_KEPT || pthread_mutex_trylock(&m->density_lock))
    return api_call(c, NULL, plan_and_evaluate, a);
  int status = m->density ? PVI_STATUS_OK : api_call(c, &m->density_ctx, plan_once, a);
  if (!status) status = api_call(c, NULL, evaluate_planned, a);
  pthread_mutex_unlock(&m->density_lock);
  return status;
}

int pvi_density(pvi_context *c, const pvi_model *m, const double *points, size_t npoints,
                const pvi_densities *out) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, m);
  NEED(c, out);
  if (npoints) NEED(c, points);
  return density(c, &(DensityArgs){(pvi_model *)m, points, npoints, out});
}
