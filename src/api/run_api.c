/* run_api.c: runs: fitting, resuming, reading; what they found. */
#include "api/api_int.h"
#include "run/amortize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- making a run ---------------------------------------------------------------------------- */

typedef struct {
  pvi_context *c;
  pvi_run *r;
  const pvi_model *m;
  const pvi_options *o;
  const pvi_split *split;
  const char *folder;
} FitArgs;

static pvi_run *new_run(void) {
  pvi_run *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  ctx_init(&r->ctx);
  ctx_init(&r->problem_ctx);
  pthread_mutex_init(&r->lock, NULL);
  return r;
}

void pvi_run_free(pvi_run *r) {
  if (!r) return;
  ctx_free(&r->ctx);
  ctx_free(&r->problem_ctx);
  pthread_mutex_destroy(&r->lock);
  free(r);
}

/* Marks the observations of a part; none may be marked before. */
static void claim(Ctx *ctx, Split *s, int part, const size_t *rows, size_t count, bool *taken) {
  if (count && !rows)
    ctx_fail(ctx, PVI_USAGE, NOWHERE, "the rows of the part %s are NULL", part_names[part]);
  if (count > s->n)
    ctx_fail(ctx, PVI_DATA, NOWHERE, "%s has %zu observations, but there are %zu", part_names[part],
             count, s->n);
  s->rows[part] = NEW_ARRAY(&ctx->arena, size_t, count + 1);
  s->count[part] = count;
  for (size_t k = 0; k < count; k++) {
    if (rows[k] >= s->n)
      ctx_fail(ctx, PVI_DATA, NOWHERE,
               "%s has the observation %zu, but there are %zu, counted from 0", part_names[part],
               rows[k], s->n);
    if (taken[rows[k]])
      ctx_fail(ctx, PVI_DATA, NOWHERE, "%s has the observation %zu, which was given before",
               part_names[part], rows[k]);
    taken[rows[k]] = true;
    s->rows[part][k] = rows[k];
  }
}

const Split *api_split(Ctx *ctx, const pvi_split *p, size_t n) {
  if (!p) return NULL;
  Split *s = NEW(&ctx->arena, Split);
  bool *taken = NEW_ARRAY(&ctx->arena, bool, n + 1);
  s->n = n;
  claim(ctx, s, PART_TEST, p->test, p->ntest, taken);
  claim(ctx, s, PART_VALID, p->valid, p->nvalid, taken);
  if (p->train) {
    claim(ctx, s, PART_TRAIN, p->train, p->ntrain, taken);
    return s;
  }
  s->rows[PART_TRAIN] = NEW_ARRAY(&ctx->arena, size_t, n + 1);
  for (size_t k = 0; k < n; k++)
    if (!taken[k]) s->rows[PART_TRAIN][s->count[PART_TRAIN]++] = k;
  return s;
}

/* ---- what a fit tells and asks --------------------------------------------------------------- */

static void tell_progress(void *self, const FitProgress *p) {
  pvi_context *c = self;
  if (!c->report) return;
  pvi_progress shown = {p->stage,       p->iterations, p->total,
                        p->evaluations, p->objective,  p->seconds};
  if (c->report(c->report_self, &shown)) atomic_store(&c->cancelled, true);
}

static bool ask_cancelled(void *self) {
  pvi_context *c = self;
  return atomic_load(&c->cancelled);
}

RunHooks api_hooks(pvi_context *c) { return (RunHooks){tell_progress, ask_cancelled, c}; }

/* ---- results --------------------------------------------------------------------------------- */

/* One row per part and score: observations in increasing order. */
static void list_scores(Ctx *ctx, pvi_run *r) {
  const Scores *s = r->scores;
  size_t nparts = 0, n = 0;
  for (int p = 0; p < PART_COUNT; p++) nparts += s->parts[p].count != 0;
  r->rows = NEW_ARRAY(&ctx->arena, pvi_score, nparts * s->list.count + 1);
  for (int p = 0; p < PART_COUNT; p++) {
    const SummaryPart *part = &s->parts[p];
    if (!part->count) continue;
    size_t *obs = NEW_ARRAY(&ctx->arena, size_t, s->n_obs + 1), count = 0;
    for (size_t k = 0; k < s->n_obs; k++)
      if (s->part[k] == p) obs[count++] = k;
    for (size_t j = 0; j < part->count; j++) {
      double *v = NEW_ARRAY(&ctx->arena, double, count + 1);
      for (size_t k = 0; k < count; k++) v[k] = s->by_obs[obs[k] * s->list.count + j];
      const SummaryScore *x = &part->scores[j];
      r->rows[n++] = (pvi_score){part_names[p], x->name, count, x->sum, x->mean, x->se, obs, v};
    }
  }
  r->nrows = n;
}

/* Of draws of the posterior, whose files are on the scale of the program, they are not known. */
static void moments_of(const Run *run, size_t dim, double *mean, double *sd) {
  if (!run->sampled) {
    q_moments(&run->q, run->phi, mean, sd);
    return;
  }
  for (size_t k = 0; k < dim; k++) mean[k] = sd[k] = NAN;
}

static void keep_result(Ctx *ctx, pvi_run *r) {
  const Run *run = r->run;
  const Summary *s = run->summary;
  size_t dim = run->sampled ? s->dim : run->q.dim;
  double *mean = NEW_ARRAY(&ctx->arena, double, dim + 1);
  double *sd = NEW_ARRAY(&ctx->arena, double, dim + 1);
  moments_of(run, dim, mean, sd);
  r->result = (pvi_result){.converged = s->converged,
                           .interrupted = s->interrupted,
                           .reason = s->reason,
                           .objective = s->objective,
                           .score = run->fit ? run->fit->value.score : NAN,
                           .regularizer = run->fit ? run->fit->value.regularizer : NAN,
                           .evaluations = s->evaluations,
                           .iterations = s->iterations,
                           .seconds = s->seconds,
                           .family = s->family,
                           .folder = run->folder,
                           .dim = dim,
                           .mean = mean,
                           .sd = sd};
  r->scores = run->scores;
  if (r->scores) list_scores(ctx, r);
}

int api_verdict(const pvi_run *r) {
  return r->result.interrupted ? PVI_STATUS_INTERRUPTED
         : r->result.converged ? PVI_STATUS_OK
                               : PVI_STATUS_NOT_CONVERGED;
}

/* ---- the three ways -------------------------------------------------------------------------- */

static void fit(Ctx *ctx, void *arg) {
  FitArgs *a = arg;
  RunHooks h = api_hooks(a->c);
  const Problem *p = a->m->problem;
  a->r->problem = p;
  a->r->run =
      run_fit(ctx, p, api_options(ctx, a->o), api_split(ctx, a->split, p->model->n_obs), &h);
  keep_result(ctx, a->r);
}

int api_make_run(pvi_context *c, ApiStep *step, void *arg, pvi_run **slot, pvi_run **out) {
  NEED(c, out);
  *out = NULL;
  pvi_run *r = *slot = new_run();
  NEED(c, r);
  int status = api_call(c, &r->ctx, step, arg);
  atomic_store(&c->cancelled, false);
  if (status) {
    pvi_run_free(r);
    return status;
  }
  *out = r;
  return PVI_STATUS_OK;
}

int pvi_fit(pvi_context *c, const pvi_model *m, const pvi_options *o, const pvi_split *split,
            pvi_run **out) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, m);
  FitArgs a = {.c = c, .m = m, .o = o, .split = split};
  int status = api_make_run(c, fit, &a, &a.r, out);
  return status ? status : api_verdict(*out);
}

/* ---- posteriors by networks ------------------------------------------------------------------ */

static void amortize(Ctx *ctx, FitArgs *a, AmortizedMethod method) {
  RunHooks h = api_hooks(a->c);
  const Problem *p = a->m->problem;
  a->r->problem = p;
  a->r->run = amortize_run(ctx, p, api_options(ctx, a->o),
                           api_split(ctx, a->split, p->model->n_obs), method, &h);
  keep_result(ctx, a->r);
}
static void npe(Ctx *ctx, void *arg) { amortize(ctx, arg, AMORTIZED_npe); }
static void nre(Ctx *ctx, void *arg) { amortize(ctx, arg, AMORTIZED_nre); }

int pvi_npe(pvi_context *c, const pvi_model *m, const pvi_options *o, const pvi_split *split,
            pvi_run **out) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, m);
  FitArgs a = {.c = c, .m = m, .o = o, .split = split};
  int status = api_make_run(c, npe, &a, &a.r, out);
  return status ? status : api_verdict(*out);
}

int pvi_nre(pvi_context *c, const pvi_model *m, const pvi_options *o, const pvi_split *split,
            pvi_run **out) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, m);
  FitArgs a = {.c = c, .m = m, .o = o, .split = split};
  int status = api_make_run(c, nre, &a, &a.r, out);
  return status ? status : api_verdict(*out);
}

/* The Problem that the run in a folder was asked for: given, or loaded in the run's own Ctx. */
const Problem *api_asked_problem(Ctx *ctx, const pvi_model *m, const Asked *asked) {
  Run then = {.o = asked->options, .program_origin = asked->program, .data_origin = asked->data};
  if (!m) return run_problem(ctx, &then);
  run_check_problem(ctx, &then, m->problem);
  return m->problem;
}

static void resume(Ctx *ctx, void *arg) {
  FitArgs *a = arg;
  const Asked *asked = folder_asked(ctx, a->folder);
  if (asked->sampling)
    ctx_fail(
        ctx, PVI_DATA, NOWHERE,
        "%s holds draws of the posterior; to go on with them: pvi sample " OPTION("resume") " %s",
        a->folder, a->folder);
  if (asked->amortized && asked->unfinished)
    ctx_fail(ctx, PVI_DATA, NOWHERE, "the run in %s cannot be continued; begin it anew with pvi %s",
             a->folder, asked->amortized);
  RunHooks h = api_hooks(a->c);
  a->r->problem = api_asked_problem(ctx, a->m, asked);
  options_set(ctx, asked->options, "out", a->folder);
  Run then = {.folder = a->folder};
  const Split *split = run_split(ctx, &then, a->r->problem);
  if (asked->unfinished) {
    a->r->run = run_fit(ctx, a->r->problem, asked->options, split, &h);
  } else {
    a->r->run = run_read(ctx, a->folder);
  }
  keep_result(ctx, a->r);
}

int pvi_resume(pvi_context *c, const char *folder, const pvi_model *m, pvi_run **out) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, folder);
  FitArgs a = {.c = c, .m = m, .folder = folder};
  int status = api_make_run(c, resume, &a, &a.r, out);
  return status ? status : api_verdict(*out);
}

static void read_folder(Ctx *ctx, void *arg) {
  FitArgs *a = arg;
  a->r->run = run_read(ctx, a->folder);
  if (a->m) {
    run_check_problem(ctx, a->r->run, a->m->problem);
    a->r->problem = a->m->problem;
  }
  keep_result(ctx, a->r);
}

int pvi_read(pvi_context *c, const char *folder, const pvi_model *m, pvi_run **out) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, folder);
  FitArgs a = {.c = c, .m = m, .folder = folder};
  return api_make_run(c, read_folder, &a, &a.r, out);
}

/* ---- the Problem of a run -------------------------------------------------------------------- */

typedef struct {
  const Run *run;
  const Problem *made;
} ProblemArgs;

static void load_problem(Ctx *ctx, void *arg) {
  ProblemArgs *a = arg;
  a->made = run_problem(ctx, a->run);
}

static void refuse_simulator(Ctx *ctx, void *arg) {
  (void)arg;
  ctx_fail(ctx, PVI_USAGE, NOWHERE,
           "the run is a simulator's: without a program there is nothing to predict or to report "
           "but its draws, scores and log q");
}

int api_problem(pvi_context *c, pvi_run *r, const Problem **out) {
  int status = PVI_STATUS_OK;
  if (r->simulator) return api_call(c, NULL, refuse_simulator, NULL);
  pthread_mutex_lock(&r->lock);
  if (!r->problem) {
    ProblemArgs a = {r->run, NULL};
    status = api_call(c, &r->problem_ctx, load_problem, &a);
    r->problem = a.made;
  }
  *out = r->problem;
  pthread_mutex_unlock(&r->lock);
  return status;
}

/* ---- what it found --------------------------------------------------------------------------- */

const pvi_result *pvi_result_of(const pvi_run *r) { return r ? &r->result : NULL; }
size_t pvi_scores(const pvi_run *r) { return r ? r->nrows : 0; }

const char *pvi_score_title(const char *name, int *sign) {
  ScoreShown shown = score_shown(name ? name : "");
  if (sign) *sign = shown.sign < 0 ? -1 : 1;
  return shown.title;
}

pvi_score pvi_score_at(const pvi_run *r, size_t k) {
  static const pvi_score none = {.part = "", .name = "", .sum = NAN, .mean = NAN, .se = NAN};
  return r && k < r->nrows ? r->rows[k] : none;
}

pvi_score pvi_score_of(const pvi_run *r, const char *part, const char *name) {
  for (size_t k = 0; r && part && name && k < r->nrows; k++)
    if (!strcmp(r->rows[k].part, part) && !strcmp(r->rows[k].name, name)) return r->rows[k];
  return pvi_score_at(NULL, 0);
}

typedef struct {
  const Run *run;
  const double *points;
  size_t npoints;
  double *out;
} QArgs;

void api_need_q(Ctx *ctx, const Run *run) {
  if (run->sampled)
    ctx_fail(ctx, PVI_USAGE, NOWHERE,
             "%s holds draws of the posterior (pvi sample), and no q to draw from or to evaluate: "
             "the draws are in draws_1.csv and the files beside it, and pvi summary, pvi predict, "
             "pvi report and pvi export read them",
             run->folder);
}

static void log_q(Ctx *ctx, void *arg) {
  QArgs *a = arg;
  api_need_q(ctx, a->run);
  api_check_count(ctx, a->npoints, a->run->q.dim + 1);
  q_log_density(&a->run->q, a->run->phi, a->points, a->npoints, a->out);
}

int pvi_log_q(pvi_context *c, const pvi_run *r, const double *points, size_t npoints, double *out) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, r);
  NEED(c, points);
  NEED(c, out);
  return api_call(c, NULL, log_q, &(QArgs){r->run, points, npoints, out});
}

static void covariance(Ctx *ctx, void *arg) {
  QArgs *a = arg;
  api_need_q(ctx, a->run);
  q_covariance(&ctx->arena, &a->run->q, a->run->phi, a->out);
}

int pvi_covariance(pvi_context *c, const pvi_run *r, double *out) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, r);
  NEED(c, out);
  return api_call(c, NULL, covariance, &(QArgs){r->run, NULL, 0, out});
}

/* ---- draws ----------------------------------------------------------------------------------- */

typedef struct {
  pvi_draws shown; /* the first member: what the user holds */
  Ctx ctx;
} DrawsHandle;

typedef struct {
  const Run *run;
  const Problem *problem;
  size_t n;
  uint64_t seed;
  DrawsHandle *d;
} DrawArgs;

static void draw(Ctx *ctx, void *arg) {
  DrawArgs *a = arg;
  api_need_q(ctx, a->run);
  if (!a->n || a->n > 100000000)
    ctx_fail(ctx, PVI_USAGE, NOWHERE, "the number of draws is from 1 to 100000000, not %zu", a->n);
  const RunDraws *d = a->problem ? run_draw(ctx, a->run, a->problem, a->n, a->seed, NULL)
                                 : run_draw_plain(ctx, a->run, a->n, a->seed);
  a->d->shown = (pvi_draws){.n = a->n,
                            .ncols = d->draws.ncols,
                            .dim = a->run->q.dim,
                            .names = d->draws.names,
                            .values = d->draws.values,
                            .theta = d->theta,
                            .log_p = d->draws.log_p,
                            .log_q = d->draws.log_g};
}

int pvi_draw(pvi_context *c, const pvi_run *r, size_t n, uint64_t seed, pvi_draws **out) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, r);
  NEED(c, out);
  *out = NULL;
  DrawArgs a = {.run = r->run, .n = n, .seed = seed};
  int status = r->simulator ? PVI_STATUS_OK : api_problem(c, (pvi_run *)r, &a.problem);
  if (status) return status;
  a.d = calloc(1, sizeof *a.d);
  NEED(c, a.d);
  ctx_init(&a.d->ctx);
  status = api_call(c, &a.d->ctx, draw, &a);
  if (status)
    pvi_draws_free(&a.d->shown);
  else
    *out = &a.d->shown;
  return status;
}

void pvi_draws_free(pvi_draws *d) {
  if (!d) return;
  ctx_free(&((DrawsHandle *)d)->ctx);
  free(d);
}
