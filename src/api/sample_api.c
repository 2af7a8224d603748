/* sample_api.c: the posterior by draws. */
#include "api/api_int.h"

#include "run/sampling.h"

#include <stdlib.h>

typedef struct {
  pvi_posterior shown; /* the first member: what the user holds */
  Ctx ctx;
  const SampleRun *run;
} PosteriorHandle;

typedef struct {
  pvi_context *c;
  const pvi_model *m;
  const pvi_options *o;
  const pvi_split *split;
  const char *folder;
  PosteriorHandle *h;
} SampleArgs;

/* One number of every column. */
static const double *column_of(Ctx *ctx, const SampleRun *s, size_t offset) {
  double *x = NEW_ARRAY(&ctx->arena, double, s->kept->ncols + 1);
  for (size_t k = 0; k < s->kept->ncols; k++)
    x[k] = *(const double *)((const char *)&s->summary.variables[k].quality + offset);
  return x;
}

static void keep(Ctx *ctx, SampleArgs *a, const SampleRun *s) {
  a->h->run = s;
  a->h->shown = (pvi_posterior){.chains = s->sample->chains,
                                .draws = s->draws,
                                .ncols = s->kept->ncols,
                                .dim = s->sample->dim,
                                .names = s->kept->names,
                                .values = s->kept->values,
                                .theta = s->theta,
                                .lp = s->kept->log_p,
                                .rhat = column_of(ctx, s, offsetof(DrawsQuality, rhat)),
                                .ess_bulk = column_of(ctx, s, offsetof(DrawsQuality, ess_bulk)),
                                .ess_tail = column_of(ctx, s, offsetof(DrawsQuality, ess_tail)),
                                .mcse = column_of(ctx, s, offsetof(DrawsQuality, mcse)),
                                .divergences = s->summary.divergences,
                                .trusted = s->summary.trusted,
                                .interrupted = s->sample->interrupted,
                                .verdict = s->summary.verdict,
                                .folder = s->run->folder};
}

static void sample(Ctx *ctx, void *arg) {
  SampleArgs *a = arg;
  RunHooks h = api_hooks(a->c);
  const Problem *p = a->m->problem;
  keep(ctx, a,
       sample_problem(ctx, p, api_options(ctx, a->o), api_split(ctx, a->split, p->model->n_obs),
                      &h));
}

static void resume(Ctx *ctx, void *arg) {
  SampleArgs *a = arg;
  RunHooks h = api_hooks(a->c);
  const Asked *asked = folder_asked(ctx, a->folder);
  if (!asked->sampling)
    ctx_fail(ctx, PVI_DATA, NOWHERE, "%s holds a fit, not draws of the posterior", a->folder);
  const Problem *p = api_asked_problem(ctx, a->m, asked);
  options_set(ctx, asked->options, "out", a->folder);
  const Split *split = run_split(ctx, &(Run){.folder = a->folder}, p);
  keep(ctx, a, sample_problem(ctx, p, asked->options, split, &h));
}

static int run_step(SampleArgs *a, ApiStep *step, pvi_posterior **out) {
  pvi_context *c = a->c;
  NEED(c, out);
  *out = NULL;
  a->h = calloc(1, sizeof *a->h);
  NEED(c, a->h);
  ctx_init(&a->h->ctx);
  int status = api_call(c, &a->h->ctx, step, a);
  atomic_store(&c->cancelled, false);
  pvi_posterior *p = &a->h->shown;
  if (status) {
    pvi_posterior_free(p);
    return status;
  }
  *out = p;
  return p->interrupted ? PVI_STATUS_INTERRUPTED
         : p->trusted   ? PVI_STATUS_OK
                        : PVI_STATUS_NOT_CONVERGED;
}

int pvi_sample(pvi_context *c, const pvi_model *m, const pvi_options *o, const pvi_split *split,
               pvi_posterior **out) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, m);
  return run_step(&(SampleArgs){.c = c, .m = m, .o = o, .split = split}, sample, out);
}

int pvi_resume_sample(pvi_context *c, const char *folder, const pvi_model *m, pvi_posterior **out) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, folder);
  return run_step(&(SampleArgs){.c = c, .m = m, .folder = folder}, resume, out);
}

void pvi_posterior_free(pvi_posterior *p) {
  if (!p) return;
  ctx_free(&((PosteriorHandle *)p)->ctx);
  free(p);
}

typedef struct {
  const SampleRun *run;
  const pvi_options *o;
} SampleReportArgs;

static Status report(Ctx *ctx, void *arg, Text *out) {
  const SampleReportArgs *a = arg;
  report_sample(ctx, &a->run->summary, a->run->run->folder, api_options(ctx, a->o), out);
  return PVI_OK;
}

int pvi_sample_report(pvi_context *c, const pvi_posterior *p, const pvi_options *o,
                      const char **text) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, p);
  return api_report(c, report, &(SampleReportArgs){((const PosteriorHandle *)p)->run, o}, text);
}
