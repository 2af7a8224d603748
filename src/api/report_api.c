/* report_api.c: what the commands print, and predictions. */
#include "api/api_int.h"

#include "infer/timing.h"
#include "run/amortize.h"
#include "run/sampling.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
  ProblemSource source;
  const pvi_options *o;
  const Model *model;
  const Run *run;
  const Problem *problem;
  const char *const *places;
  size_t n;
  RunHooks hooks;
} ReportArgs;

/* Each report is a step of the same shape, which passes on what its name says. */
#define REPORT(name, call)                                                                         \
  static Status name(Ctx *ctx, void *arg, Text *out) {                                             \
    const ReportArgs *a = arg;                                                                     \
    const Options *o = api_options(ctx, a->o);                                                     \
    call;                                                                                          \
    return PVI_OK;                                                                                 \
  }
REPORT(check, return report_program(ctx, &a->source, o, out))
REPORT(density, report_density(ctx, a->model, o, out))
REPORT(bench, report_bench(ctx, a->model, o, out))
REPORT(fit_report, report_fit(ctx, a->run, o, out))
REPORT(summary, report_summary(ctx, a->run, o, out))
REPORT(draws, api_need_q(ctx, a->run); report_draws(ctx, a->run, a->problem, o, out))
REPORT(diagnose, report_diagnosis(ctx, a->problem, o, &a->hooks, out))
REPORT(bag, report_bag(ctx, a->problem, o, &a->hooks, out))
REPORT(compare, report_comparison(ctx, a->places, a->n, o, &a->hooks, out))
REPORT(page, report_page(ctx, a->places, a->n, o, out))
REPORT(export_run, report_export(ctx, a->places[0], o, out))
REPORT(folder, text_puts(out, folder_default(ctx, run_make(ctx, a->problem, o, NULL))))
REPORT(sample_folder, text_puts(out, folder_default(ctx, sample_make(ctx, a->problem, o, NULL))))
REPORT(npe_folder,
       text_puts(out, folder_default(ctx, amortize_make(ctx, a->problem, o, NULL, AMORTIZED_npe))))
REPORT(nre_folder,
       text_puts(out, folder_default(ctx, amortize_make(ctx, a->problem, o, NULL, AMORTIZED_nre))))
#undef REPORT

int pvi_check_report(pvi_context *c, const char *program, const char *data, const pvi_options *o,
                     const char **text) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, program);
  return api_report(c, check, &(ReportArgs){.source = {.program = program, .data = data}, .o = o},
                    text);
}

int pvi_density_report(pvi_context *c, const pvi_model *m, const pvi_options *o,
                       const char **text) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, m);
  return api_report(c, density, &(ReportArgs){.model = m->problem->model, .o = o}, text);
}

int pvi_bench_report(pvi_context *c, const pvi_model *m, const pvi_options *o, const char **text) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, m);
  return api_report(c, bench, &(ReportArgs){.model = m->problem->model, .o = o}, text);
}

int pvi_fit_report(pvi_context *c, const pvi_run *r, const pvi_options *o, const char **text) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, r);
  return api_report(c, fit_report, &(ReportArgs){.run = r->run, .o = o}, text);
}

int pvi_summary_report(pvi_context *c, const pvi_run *r, const pvi_options *o, const char **text) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, r);
  return api_report(c, r->simulator ? fit_report : summary, &(ReportArgs){.run = r->run, .o = o},
                    text);
}

int pvi_draws_report(pvi_context *c, const pvi_run *r, const pvi_options *o, const char **text) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, r);
  ReportArgs a = {.run = r->run, .o = o};
  int status = api_problem(c, (pvi_run *)r, &a.problem);
  return status ? status : api_report(c, draws, &a, text);
}

int pvi_compare_report(pvi_context *c, const char *const *places, size_t n, const pvi_options *o,
                       const char **text) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, places);
  for (size_t k = 0; k < n; k++) NEED(c, places[k]);
  return api_report(c, compare,
                    &(ReportArgs){.places = places, .n = n, .o = o, .hooks = api_hooks(c)}, text);
}

int pvi_export_report(pvi_context *c, const char *folder, const pvi_options *o, const char **text) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, folder);
  return api_report(c, export_run, &(ReportArgs){.places = &folder, .n = 1, .o = o}, text);
}

int pvi_page_report(pvi_context *c, const char *const *runs, size_t n, const pvi_options *o,
                    const char **text) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, runs);
  for (size_t k = 0; k < n; k++) NEED(c, runs[k]);
  return api_report(c, page, &(ReportArgs){.places = runs, .n = n, .o = o}, text);
}

int pvi_diagnose_report(pvi_context *c, const pvi_model *m, const pvi_options *o,
                        const char **text) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, m);
  return api_report(c, diagnose,
                    &(ReportArgs){.problem = m->problem, .o = o, .hooks = api_hooks(c)}, text);
}

int pvi_bag_report(pvi_context *c, const pvi_model *m, const pvi_options *o, const char **text) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, m);
  return api_report(c, bag, &(ReportArgs){.problem = m->problem, .o = o, .hooks = api_hooks(c)},
                    text);
}

int pvi_default_folder(pvi_context *c, const pvi_model *m, const pvi_options *o,
                       const char **text) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, m);
  return api_report(c, folder, &(ReportArgs){.problem = m->problem, .o = o}, text);
}

int pvi_sample_folder(pvi_context *c, const pvi_model *m, const pvi_options *o, const char **text) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, m);
  return api_report(c, sample_folder, &(ReportArgs){.problem = m->problem, .o = o}, text);
}

int pvi_npe_folder(pvi_context *c, const pvi_model *m, const pvi_options *o, const char **text) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, m);
  return api_report(c, npe_folder, &(ReportArgs){.problem = m->problem, .o = o}, text);
}

int pvi_nre_folder(pvi_context *c, const pvi_model *m, const pvi_options *o, const char **text) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, m);
  return api_report(c, nre_folder, &(ReportArgs){.problem = m->problem, .o = o}, text);
}

/* ---- predictions ----------------------------------------------------------------------------- */

typedef struct {
  pvi_predictions shown; /* the first member: what the user holds */
  Ctx ctx;
} PredictionsHandle;

typedef struct {
  const Run *run;
  const char *data;
  const Problem *problem; /* of the fit; NULL where new data are given */
  const Problem *known;   /* of the fit, where it is at hand */
  const pvi_options *o;
  PredictionsHandle *h;
  const Predictions *made;
} PredictArgs;

typedef struct {
  const PredictArgs *a;
  const Options *o;
  const Problem *problem;
} NewProblem;

static void load_new(Ctx *ctx, void *arg) {
  NewProblem *n = arg;
  const char *path = n->a->run->program_origin.path;
  const Source *source = path ? NULL : n->a->known->program->source;
  ProblemSource s = {.program = path ? path : source->text,
                     .text = !path,
                     .name = path ? NULL : source->name,
                     .data = n->a->data,
                     .data_is_file = true,
                     .outcomes_may_be_missing = true};
  n->problem = problem_load(ctx, &s, n->o);
}

/* The options of the fit, with what is set now behind what was set then, or in its place. */
static const Options *with_sets(Ctx *ctx, const Run *run, const Options *o, bool also_then) {
  Options *both = options_copy(&ctx->arena, run->o);
  if (!also_then) options_set(ctx, both, "set", NULL);
  for (size_t k = 0; k < o->set.count; k++) options_set(ctx, both, "set", o->set.items[k]);
  return both;
}

/* The program of the run with new data, which may lack the outcomes. Numbers that were set for the
 * fit (how many groups there are) hold where the new data cannot be read without; not before, for
 * they may have been the number of rows. */
static const Problem *new_problem(Ctx *ctx, const PredictArgs *a, const Options *o) {
  if (!a->run->program_origin.path && !a->known)
    ctx_fail(ctx, PVI_DATA, NOWHERE,
             "this run was made from a program in memory, which its folder does not have: predict "
             "with the fit itself, or fit a file");
  Message why;
  NewProblem n = {a, with_sets(ctx, a->run, o, false), NULL};
  if (a->run->o->set.count) {
    if (ctx_try(ctx, load_new, &n, &why)) return n.problem;
    n.o = with_sets(ctx, a->run, o, true);
  }
  load_new(ctx, &n);
  return n.problem;
}

static const Predictions *predict(Ctx *ctx, const PredictArgs *a) {
  const Options *o = api_options(ctx, a->o);
  return run_predict(ctx, a->run, a->problem ? a->problem : new_problem(ctx, a, o), o);
}

static void predict_step(Ctx *ctx, void *arg) {
  PredictArgs *a = arg;
  const Predictions *p = predict(ctx, a);
  const Scores *s = p->scores;
  a->h->shown = (pvi_predictions){.n = p->n,
                                  .nlevels = p->nlevels,
                                  .nscores = s ? s->list.count : 0,
                                  .noutcomes = p->noutcomes,
                                  .levels = p->levels,
                                  .mean = p->mean,
                                  .sd = p->sd,
                                  .quantiles = p->quantiles,
                                  .names = s ? s->list.names : NULL,
                                  .scores = s ? s->by_obs : NULL,
                                  .outcomes = p->outcomes,
                                  .note = p->note};
}

static int predict_args(pvi_context *c, const pvi_run *r, PredictArgs *a) {
  a->run = r->run;
  a->known = r->problem;
  return a->data ? PVI_STATUS_OK : api_problem(c, (pvi_run *)r, &a->problem);
}

int pvi_predict(pvi_context *c, const pvi_run *r, const char *new_data, const pvi_options *o,
                pvi_predictions **out) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, r);
  NEED(c, out);
  *out = NULL;
  PredictArgs a = {.data = new_data, .o = o};
  int status = predict_args(c, r, &a);
  if (status) return status;
  a.h = calloc(1, sizeof *a.h);
  NEED(c, a.h);
  ctx_init(&a.h->ctx);
  status = api_call(c, &a.h->ctx, predict_step, &a);
  if (status)
    pvi_predictions_free(&a.h->shown);
  else
    *out = &a.h->shown;
  return status;
}

void pvi_predictions_free(pvi_predictions *p) {
  if (!p) return;
  ctx_free(&((PredictionsHandle *)p)->ctx);
  free(p);
}

static Status predict_report(Ctx *ctx, void *arg, Text *out) {
  const PredictArgs *a = arg;
  report_predictions(ctx, predict(ctx, a), api_options(ctx, a->o), out);
  return PVI_OK;
}

int pvi_predict_report(pvi_context *c, const pvi_run *r, const char *new_data, const pvi_options *o,
                       const char **text) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, r);
  PredictArgs a = {.data = new_data, .o = o};
  int status = predict_args(c, r, &a);
  return status ? status : api_report(c, predict_report, &a, text);
}

/* ---- what an evaluation costs ---------------------------------------------------------------- */

typedef struct {
  const Model *m;
  const pvi_options *o;
  double seconds;
} TimeArgs;

static void time_step(Ctx *ctx, void *arg) {
  TimeArgs *a = arg;
  a->seconds = bench_seconds(ctx, a->m, api_options(ctx, a->o));
}

int pvi_time(pvi_context *c, const pvi_model *m, const pvi_options *o, double *seconds) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, m);
  NEED(c, seconds);
  TimeArgs a = {m->problem->model, o, NAN};
  int status = api_call(c, NULL, time_step, &a);
  *seconds = a.seconds;
  return status;
}
