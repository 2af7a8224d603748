/* fit.c: pvi_fit: options by name -> a fit, its moments, and scores of the observations held out.
 */
#include "api/api_int.h"

#include "infer/exact.h"
#include "infer/fit.h"
#include "infer/timing.h"
#include "num/rng.h"

#include <math.h>
#include <string.h>

/* ---- options --------------------------------------------------------------------------------- */

static Regularizer regularizer_of(Ctx *ctx, const char *name) {
  if (!name || !strcmp(name, "posterior")) return REG_POSTERIOR;
  if (strcmp(name, "prior") != 0)
    ctx_fail(ctx, PVI_USAGE, NOWHERE, "unknown regularizer %s: prior or posterior", name);
  return REG_PRIOR;
}

static Integrate integrate_of(Ctx *ctx, const char *name) {
  if (!name || !strcmp(name, "auto")) return INTEGRATE_AUTO;
  if (!strcmp(name, "exact")) return INTEGRATE_EXACT;
  if (strcmp(name, "draws") != 0)
    ctx_fail(ctx, PVI_USAGE, NOWHERE, "unknown integration %s: auto, exact or draws", name);
  return INTEGRATE_DRAWS;
}

static FitOptions fit_options(Ctx *ctx, const pvi_options *p) {
  FitOptions o = {.target = {.score = SCORE_log,
                             .score_options = {.alpha = p->alpha > 0 ? p->alpha : 0.1},
                             .regularizer = regularizer_of(ctx, p->regularizer),
                             .lambda = p->lambda,
                             .score_weight = 1,
                             .integrate = integrate_of(ctx, p->integrate)},
                  .family = FAMILY_meanfield,
                  .choose_family = !p->family,
                  .shape = {.knots = p->knots, .layers = p->layers, .hidden = p->hidden},
                  .points = p->points,
                  .npoints = (int)p->npoints,
                  .draws = p->draws,
                  .optimizer = OPTIM_LBFGS,
                  .iterations = p->iterations,
                  .learning_rate = p->learning_rate,
                  .clip = p->clip,
                  .seed = p->seed};
  if (p->score && !score_find(p->score, &o.target.score))
    ctx_fail(ctx, PVI_USAGE, NOWHERE, "unknown score %s", p->score);
  if (p->family && !family_find(p->family, &o.family))
    ctx_fail(ctx, PVI_USAGE, NOWHERE, "unknown family %s", p->family);
  if (p->optimizer && !optim_find(p->optimizer, &o.optimizer))
    ctx_fail(ctx, PVI_USAGE, NOWHERE, "unknown optimizer %s", p->optimizer);
  if (p->schedule && !optim_find_schedule(p->schedule, &o.schedule))
    ctx_fail(ctx, PVI_USAGE, NOWHERE, "unknown schedule %s", p->schedule);
  if (!(p->alpha >= 0 && p->alpha < 1))
    ctx_fail(ctx, PVI_USAGE, NOWHERE, "alpha lies between 0 and 1, not at %g", p->alpha);
  if (!(p->lambda >= 0))
    ctx_fail(ctx, PVI_USAGE, NOWHERE, "lambda is not negative, as %g is", p->lambda);
  return o;
}

/* Marks the observations of a part; none may be marked before. */
static void claim(Ctx *ctx, bool *taken, size_t n, const size_t *rows, size_t count,
                  const char *part) {
  for (size_t k = 0; k < count; k++) {
    if (rows[k] >= n)
      ctx_fail(ctx, PVI_DATA, NOWHERE,
               "%s has the observation %zu, but there are %zu, counted from 0", part, rows[k], n);
    if (taken[rows[k]])
      ctx_fail(ctx, PVI_DATA, NOWHERE, "%s has the observation %zu, which was given before", part,
               rows[k]);
    taken[rows[k]] = true;
  }
}

static Split *split_of(Ctx *ctx, const pvi_options *p, size_t n) {
  Split *s = split_all(ctx, n);
  bool *taken = NEW_ARRAY(&ctx->arena, bool, n + 1);
  claim(ctx, taken, n, p->test, p->ntest, "test");
  if (p->train) {
    claim(ctx, taken, n, p->train, p->ntrain, "train");
    s->count[PART_TRAIN] = p->ntrain;
    memcpy(s->rows[PART_TRAIN], p->train, p->ntrain * sizeof *p->train);
  } else {
    s->count[PART_TRAIN] = 0;
    for (size_t k = 0; k < n; k++)
      if (!taken[k]) s->rows[PART_TRAIN][s->count[PART_TRAIN]++] = k;
  }
  if (!s->count[PART_TRAIN]) ctx_fail(ctx, PVI_DATA, NOWHERE, "no observation is left to train on");
  return s;
}

/* ---- scores of what was held out ------------------------------------------------------------- */

enum { CHEAP_DRAWS = 16384, DRAWS = 1024, MOST_SCORES = 8 };

typedef struct {
  Ctx *ctx;
  const Model *m;
  const pvi_options *p;
  const FitOptions *o;
  const Fit *f;
  Pool *pool;
  size_t *place; /* of an observation in p->test */
  pvi_score *scores;
  size_t nscores;
} Scorer;

/* v: in the order of the part's tape. */
static void add_score(Scorer *s, const char *name, const Observed *part, const double *v) {
  double *rows = NEW_ARRAY(&s->ctx->arena, double, part->n), sum = 0;
  int32_t *obs = NEW_ARRAY(&s->ctx->arena, int32_t, part->n);
  model_numbers(s->m, &part->rows, obs);
  for (size_t k = 0; k < part->n; k++) rows[s->place[obs[k]]] = v[k];
  for (size_t k = 0; k < part->n; k++) sum += rows[k];
  s->scores[s->nscores++] = (pvi_score){name, sum, rows};
}

static size_t scoring_draws(const Scorer *s, size_t usual) {
  return s->p->scoring_draws ? s->p->scoring_draws : usual;
}

static Integrate scoring_how(const Scorer *s) {
  return s->p->scoring_draws ? INTEGRATE_DRAWS : s->o->target.integrate;
}

/* Those of the named scores that the outcomes allow. */
static void add_scores(Scorer *s, const char *const *names, size_t count, unsigned wants,
                       double *v) {
  Observed *part = NULL;
  for (size_t k = 0; k < count; k++) {
    const char *why;
    Target t = {.score_options = s->o->target.score_options,
                .score_weight = 1,
                .integrate = scoring_how(s),
                .nodes = s->f->exact ? s->f->draws : 0};
    if (!score_find(names[k], &t.score) || !observed_allows(s->ctx, s->m, t.score, &why)) continue;
    if (!part) {
      part = observed_make(&s->ctx->arena, s->m, s->p->test, s->p->ntest, wants);
      if (model_has_densities(s->m)) observed_reduce(part);
    }
    predictive_scores(s->ctx, part, &t, &s->f->q, s->f->phi, scoring_draws(s, DRAWS),
                      rng_mix(s->p->seed + 78), s->pool, v);
    add_score(s, names[k], part, v);
  }
}

static void add_log_scores(Scorer *s, double *v) {
  Ctx *ctx = s->ctx;
  Observed *part = observed_make(&ctx->arena, s->m, s->p->test, s->p->ntest, WANT_LL);
  observed_reduce(part);
  double *mean = NEW_ARRAY(&ctx->arena, double, s->m->dim),
         *sd = NEW_ARRAY(&ctx->arena, double, s->m->dim);
  predictive_log_scores(ctx, part, scoring_how(s), &s->f->q, s->f->phi,
                        scoring_draws(s, CHEAP_DRAWS), rng_mix(s->p->seed + 77), s->pool, v);
  add_score(s, "log", part, v);
  q_moments(&s->f->q, s->f->phi, mean, sd);
  predictive_point(ctx, part, mean, v);
  add_score(s, "log_at_mean", part, v);
}

static void score_heldout(Scorer *s) {
  static const char *const known[] = {"quadratic", "crps", "interval"}, *const simulated[] = {
                                                                            "crps_sim", "energy"};
  double *v = NEW_ARRAY(&s->ctx->arena, double, s->p->ntest);
  s->scores = NEW_ARRAY(&s->ctx->arena, pvi_score, MOST_SCORES);
  s->place = NEW_ARRAY(&s->ctx->arena, size_t, s->m->n_obs);
  for (size_t k = 0; k < s->p->ntest; k++) s->place[s->p->test[k]] = k;
  if (model_has_densities(s->m)) {
    add_log_scores(s, v);
    add_scores(s, known, sizeof known / sizeof *known, WANT_PARAMETERS, v);
  } else {
    add_scores(s, simulated, sizeof simulated / sizeof *simulated, WANT_SIM, v);
  }
}

/* ---- the call -------------------------------------------------------------------------------- */

typedef struct {
  pvi_model *m;
  const pvi_options *o;
  pvi_result *out;
} FitArgs;

static void fit(pvi_context *c, void *arg) {
  FitArgs *a = arg;
  Ctx *ctx = &c->ctx;
  const Model *m = a->m->model;
  if (!m->n_obs)
    ctx_fail(ctx, PVI_PROGRAM, NOWHERE,
             "the program makes no observation: no density of data is in its log density");
  FitOptions o = fit_options(ctx, a->o);
  Split *split = split_of(ctx, a->o, m->n_obs);
  Pool *pool = pool_make(ctx, a->o->threads);
  const Fit *f = fit_run(ctx, m, split, &o, pool);
  Scorer s = {.ctx = ctx, .m = m, .p = a->o, .o = &o, .f = f, .pool = pool};
  if (a->o->ntest) score_heldout(&s);
  pool_free(pool);
  double *mean = NEW_ARRAY(&ctx->arena, double, m->dim),
         *sd = NEW_ARRAY(&ctx->arena, double, m->dim);
  q_moments(&f->q, f->phi, mean, sd);
  *a->out = (pvi_result){.converged = f->converged,
                         .objective = f->value.value,
                         .score = f->value.score,
                         .regularizer = f->value.regularizer,
                         .evaluations = f->evaluations,
                         .seconds = f->seconds,
                         .mean = mean,
                         .sd = sd,
                         .family = family_name(f->q.family),
                         .reason = f->reason,
                         .scores = s.scores,
                         .nscores = s.nscores};
}

int pvi_fit(pvi_context *c, pvi_model *m, const pvi_options *o, pvi_result *out) {
  *out = (pvi_result){0};
  int status = api_run(c, fit, &(FitArgs){m, o, out});
  return status ? status : out->converged ? PVI_STATUS_OK : PVI_STATUS_NOT_CONVERGED;
}

pvi_score pvi_heldout(const pvi_result *r, const char *name) {
  for (size_t k = 0; k < r->nscores; k++)
    if (!strcmp(r->scores[k].name, name)) return r->scores[k];
  return (pvi_score){name, NAN, NULL};
}

/* ---- what an evaluation costs ---------------------------------------------------------------- */

typedef struct {
  pvi_model *m;
  const pvi_options *o;
  double seconds;
} TimeArgs;

static void time_step(pvi_context *c, void *arg) {
  TimeArgs *a = arg;
  Ctx *ctx = &c->ctx;
  const Model *m = a->m->model;
  FitOptions o = fit_options(ctx, a->o);
  Split *split = split_of(ctx, a->o, m->n_obs);
  Pool *pool = pool_make(ctx, a->o->threads);
  Timed t = timing_make(ctx, m, split, &o.target, o.family, o.shape, o.draws ? o.draws : 100, pool);
  a->seconds = timing_of(&t).best;
  pool_free(pool);
}

int pvi_time(pvi_context *c, pvi_model *m, const pvi_options *o, double *seconds) {
  TimeArgs a = {m, o, NAN};
  int status = api_run(c, time_step, &a);
  *seconds = a.seconds;
  return status;
}
