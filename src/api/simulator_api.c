/* simulator_api.c: pvi_fit_simulator: a user's C simulator as infer/simulator.h wants it, and what
 * was found as a run without a program. */
#include "api/api_int.h"

#include "infer/shared_score.h"
#include "infer/simulator.h"
#include "num/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  pvi_context *c;
  const pvi_simulator *s;
  const pvi_options *o;
  pvi_run *r;
} SimulatorArgs;

/* ---- the user's functions -------------------------------------------------------------------- */

static bool simulate(void *self, const double *theta, size_t M, size_t ld, uint64_t seed,
                     double *out) {
  const pvi_simulator *s = self;
  return s->simulate(s->self, theta, M, ld, seed, out) != 0;
}

static bool pullback(void *self, const double *theta, size_t M, size_t ld, uint64_t seed,
                     const double *adj_out, double *adj) {
  const pvi_simulator *s = self;
  return s->pullback(s->self, theta, M, ld, seed, adj_out, adj) != 0;
}

static bool simulate_one(void *self, const SimulatorDraw *d, double *out) {
  const pvi_simulator *s = self;
  return s->simulate_one(s->self, &(pvi_simulator_draw){d->j, d->theta, d->u}, out) != 0;
}

static bool pullback_one(void *self, const SimulatorDraw *d, const double *adj_out, double *adj) {
  const pvi_simulator *s = self;
  return s->pullback_one(s->self, &(pvi_simulator_draw){d->j, d->theta, d->u}, adj_out, adj) != 0;
}

static void check_shared(Ctx *ctx, const pvi_simulator *s) {
  if (s->simulate || s->pullback || !s->pullback_one)
    ctx_fail(ctx, PVI_USAGE, NOWHERE,
             "a simulator has simulate and pullback, or simulate_one and pullback_one, not some of "
             "both");
  if (!(s->noise_sd >= 0) || !isfinite(s->noise_sd))
    ctx_fail(ctx, PVI_USAGE, NOWHERE, "noise_sd is a standard deviation, not %g", s->noise_sd);
  if (s->noise_sd > 0 && s->width < SHARED_LEAST_WIDTH)
    ctx_fail(ctx, PVI_USAGE, NOWHERE,
             "noise is integrated out (noise_sd) of outcomes of %d numbers or more; let "
             "simulate_one add it to these %zu",
             SHARED_LEAST_WIDTH, s->width);
}

static void check(Ctx *ctx, const pvi_simulator *s) {
  if (!s->dim || !s->n || !s->width)
    ctx_fail(ctx, PVI_USAGE, NOWHERE, "a simulator needs parameters and observations");
  if (!s->y || !s->prior_mean || !s->prior_sd ||
      (!s->simulate_one && (!s->simulate || !s->pullback)))
    ctx_fail(
        ctx, PVI_USAGE, NOWHERE,
        "a simulator needs y, prior_mean, prior_sd, simulate and pullback; one of them is NULL");
  if (s->simulate_one) check_shared(ctx, s);
  for (size_t k = 0; k < s->dim; k++)
    if (!isfinite(s->prior_mean[k]) || !(s->prior_sd[k] > 0) || !isfinite(s->prior_sd[k]))
      ctx_fail(ctx, PVI_USAGE, NOWHERE,
               "the prior of parameter %zu has mean %g and standard deviation %g", k + 1,
               s->prior_mean[k], s->prior_sd[k]);
  for (size_t k = 0; k < s->n * s->width; k++)
    if (!isfinite(s->y[k]))
      ctx_fail(ctx, PVI_DATA, NOWHERE, "number %zu of observation %zu is %g", k % s->width + 1,
               k / s->width + 1, s->y[k]);
}

/* ---- options --------------------------------------------------------------------------------- */

/* How it is optimized: the two forms have defaults of their own. */
static void set_optimizer(const pvi_simulator *s, const Options *o, SimulatorOptions *to) {
  enum { USUAL_BATCH = 1024 };
  bool shared = s->simulate_one, given = options_is_given(o, OPTION_optimizer);
  to->optimizer = given ? (OptimKind)o->optimizer : shared ? OPTIM_ADAM : OPTIM_LBFGS;
  to->iterations = (long)o->iterations;
  to->learning_rate = isfinite(o->learning_rate) ? o->learning_rate : 0;
  to->schedule =
      options_is_given(o, OPTION_schedule) ? (OptimSchedule)o->schedule : SCHEDULE_WARMUP_COSINE;
  to->clip = o->clip;
  to->minibatch = (size_t)o->minibatch;
  if (shared && to->optimizer != OPTIM_LBFGS && !to->minibatch) to->minibatch = USUAL_BATCH;
}

static SimulatorOptions options_of(pvi_context *c, const pvi_simulator *s, const Options *o) {
  ScoreId usual = s->width > 1 ? SCORE_energy : SCORE_crps_sim;
  RunHooks h = api_hooks(c);
  SimulatorOptions to = {.score = options_is_given(o, OPTION_score) ? (ScoreId)o->score : usual,
                         .score_options = {.alpha = o->alpha},
                         .family = o->family < 0 ? FAMILY_meanfield : (FamilyId)o->family,
                         .lambda = isnan(o->lambda) ? USUAL_LAMBDA : o->lambda,
                         .M = (size_t)o->draws,
                         .seed = (uint64_t)o->seed,
                         .shape = {.components = (size_t)o->components,
                                   .rank = (size_t)o->rank,
                                   .knots = (size_t)o->knots,
                                   .layers = (size_t)o->layers,
                                   .hidden = (size_t)o->hidden},
                         .threads = (int)o->threads,
                         .cancelled = h.cancelled,
                         .cancelled_self = h.self,
                         .progress = h.progress,
                         .progress_self = h.self};
  set_optimizer(s, o, &to);
  return to;
}

/* The folder of the option `out`, with the journal that an interrupted fit has left there. */
static RunDir *open_folder(Ctx *ctx, const Options *o, SimulatorOptions *to) {
  if (!o->out || !*o->out) return NULL;
  RunDir *d = run_open(ctx, o->out);
  to->journal = o->force ? NULL : folder_checkpoint(ctx, d, &ctx->arena);
  if (!to->journal) to->journal = journal_make(&ctx->arena);
  journal_on_save(to->journal, o->checkpoint, folder_save_checkpoint, d);
  return d;
}

/* ---- what was found -------------------------------------------------------------------------- */

static const char *const *parameter_names(Ctx *ctx, size_t dim) {
  const char **names = NEW_ARRAY(&ctx->arena, const char *, dim + 1);
  for (size_t k = 0; k < dim; k++) names[k] = arena_format(&ctx->arena, "theta.%zu", k + 1);
  return names;
}

/* Means and quantiles of q, by draws where there is no formula. */
static const SummaryParameter *parameters_of(Ctx *ctx, const Run *run, const pvi_result *r) {
  enum { DRAWS = 4000 };
  const RunDraws *d = run_draw_plain(ctx, run, DRAWS, 1);
  SummaryParameter *p = NEW_ARRAY(&ctx->arena, SummaryParameter, r->dim);
  double *x = NEW_ARRAY(&ctx->arena, double, DRAWS);
  for (size_t k = 0; k < r->dim; k++) {
    for (size_t j = 0; j < DRAWS; j++) x[j] = d->theta[j * r->dim + k];
    stat_sort(x, DRAWS);
    p[k] = (SummaryParameter){.name = arena_format(&ctx->arena, "theta[%zu]", k + 1),
                              .mean = r->mean[k],
                              .sd = r->sd[k],
                              .q5 = x[DRAWS / 20],
                              .q50 = x[DRAWS / 2],
                              .q95 = x[DRAWS - DRAWS / 20],
                              .bayes_mean = NAN,
                              .bayes_sd = NAN,
                              .corrected = NAN};
  }
  return p;
}

/* The scores of all observations, by the name of what was maximised. */
static void list_scores(Ctx *ctx, SimulatorArgs *a, const SimulatorOptions *o,
                        const SimulatorFit *f, Summary *s) {
  size_t n = a->s->n, *observations = NEW_ARRAY(&ctx->arena, size_t, n);
  double mean = 0, ss = 0;
  if (!isfinite(f->value.score)) return;
  for (size_t i = 0; i < n; i++) observations[i] = i, mean += f->scores[i] / (double)n;
  for (size_t i = 0; i < n; i++) ss += (f->scores[i] - mean) * (f->scores[i] - mean);
  double se = n > 1 ? sqrt(ss / (double)(n - 1) / (double)n) : NAN;
  SummaryScore *row = NEW(&ctx->arena, SummaryScore);
  *row = (SummaryScore){score_name(o->score), mean * (double)n, mean, se, n};
  s->parts[PART_TRAIN] = (SummaryPart){row, 1};
  a->r->rows = NEW(&ctx->arena, pvi_score);
  a->r->rows[0] = (pvi_score){"train", row->name, n, row->sum, mean, se, observations, f->scores};
  a->r->nrows = 1;
}

static void keep_result(Ctx *ctx, SimulatorArgs *a, const SimulatorFit *f, double seconds) {
  double *mean = NEW_ARRAY(&ctx->arena, double, a->s->dim);
  double *sd = NEW_ARRAY(&ctx->arena, double, a->s->dim);
  q_moments(&f->q, f->phi, mean, sd);
  a->r->simulator = true;
  a->r->result = (pvi_result){.converged = f->converged,
                              .interrupted = f->interrupted,
                              .reason = f->reason,
                              .objective = f->value.value,
                              .score = f->value.score,
                              .regularizer = f->value.regularizer,
                              .evaluations = f->evaluations,
                              .iterations = f->iterations,
                              .seconds = seconds,
                              .family = family_name(f->q.family),
                              .dim = a->s->dim,
                              .mean = mean,
                              .sd = sd};
}

/* A run without a program: q, and how the fit ended. */
static Run *keep(Ctx *ctx, SimulatorArgs *a, const SimulatorOptions *o, const SimulatorFit *f) {
  Run *run = NEW(&ctx->arena, Run);
  const pvi_result *r = &a->r->result;
  *run = (Run){.o = options_make(&ctx->arena),
               .q = f->q,
               .phi = f->phi,
               .score = o->score,
               .lambda = o->lambda,
               .parameters = parameter_names(ctx, a->s->dim)};
  Summary *s = NEW(&ctx->arena, Summary);
  *s = (Summary){.version = PVI_VERSION,
                 .program = "simulator",
                 .seed = o->seed,
                 .score = score_name(o->score),
                 .family = r->family,
                 .regularizer = "prior",
                 .lambda = o->lambda,
                 .draws = (long)f->draws,
                 .optimizer = optim_name(o->optimizer),
                 .converged = r->converged,
                 .interrupted = r->interrupted,
                 .reason = r->reason,
                 .objective = r->objective,
                 .evaluations = r->evaluations,
                 .iterations = r->iterations,
                 .seconds = r->seconds,
                 .n_obs = a->s->n,
                 .dim = r->dim,
                 .parameters = parameters_of(ctx, run, r),
                 .nparameters = r->dim};
  list_scores(ctx, a, o, f, s);
  run->summary = s;
  a->r->run = run;
  return run;
}

static Simulator simulator_of(const pvi_simulator *s) {
  return (Simulator){.dim = s->dim,
                     .n = s->n,
                     .width = s->width,
                     .y = s->y,
                     .prior_mean = s->prior_mean,
                     .prior_sd = s->prior_sd,
                     .self = (void *)s,
                     .simulate = s->simulate ? simulate : NULL,
                     .pullback = s->pullback ? pullback : NULL,
                     .simulate_one = s->simulate_one ? simulate_one : NULL,
                     .pullback_one = s->pullback_one ? pullback_one : NULL,
                     .noises = s->noises,
                     .noise_sd = s->noise_sd};
}

static void fit_simulator(Ctx *ctx, void *arg) {
  SimulatorArgs *a = arg;
  check(ctx, a->s);
  const Options *given = api_options(ctx, a->o);
  Simulator sim = simulator_of(a->s);
  SimulatorOptions o = options_of(a->c, a->s, given);
  RunDir *d = open_folder(ctx, given, &o);
  double started = base_seconds();
  SimulatorFit *f = simulator_fit(ctx, &sim, &o);
  keep_result(ctx, a, f, base_seconds() - started);
  Run *run = keep(ctx, a, &o, f);
  if (!d) return;
  run->folder = a->r->result.folder = arena_format(&ctx->arena, "%s", given->out);
  qfile_write(ctx, d, run);
  if (!f->interrupted) folder_forget_state(d);
}

int pvi_fit_simulator(pvi_context *c, const pvi_simulator *s, const pvi_options *o, pvi_run **out) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, s);
  NEED(c, out);
  SimulatorArgs a = {c, s, o, NULL};
  int status = api_make_run(c, fit_simulator, &a, &a.r, out);
  return status ? status : api_verdict(*out);
}
