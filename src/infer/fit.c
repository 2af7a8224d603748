/* fit.c: how a fit goes.
 *
 * L-BFGS (default). The noise is fixed, so the objective is a function; but a rich family can exploit fixed draws (it puts a
 * sharp component on a datum wherever a draw happens to lie). So:
 *   1. ordinary VI from the origin gives a centre and a unit for every parameter;
 *   2. predictive scores start from several widths around it, for VI's own narrow q is a flat saddle of theirs: a few
 *      iterations each, then the best, judged on common draws no start has seen;
 *   3. the best is taken to convergence; then fresh draws are compared with the fixed ones, and while they disagree the number
 *      of draws grows fourfold.
 * Stochastic optimizers draw new noise, and the next mini-batch, at every iteration.
 */
#include "infer/fit.h"

#include "num/rng.h"

#include <math.h>
#include <string.h>

#ifdef PVI_TORTURE
enum { VI_DRAWS = 16, EXPLORE_DRAWS = 32, FIRST_DRAWS = 64, MOST_DRAWS = 128, JUDGE_DRAWS = 64 };
#else
enum { VI_DRAWS = 64, EXPLORE_DRAWS = 256, FIRST_DRAWS = 1024, MOST_DRAWS = 16384, JUDGE_DRAWS = 1024 };
#endif
enum { EXPLORE_ITERATIONS = 25, SCRAMBLES = 4, FULLRANK_MOST = 30 };

/* Everything a fit needs at hand. */
typedef struct {
  Ctx *ctx;
  Arena *arena;
  const Model *model;
  const Tape *train, *valid;
  const FitOptions *o;
  Target target;
  size_t n; /* training observations */
  Pool *pool;
  Fit *fit;
  double started;
  /* the optimizer that is running */
  Predictive *running;
  const char *stage;
  double *best_phi; /* with the best validation score so far */
  double best_valid;
  size_t nvalid;
  double *valid_scores;
} Fitter;

static uint64_t seed_of(const Fitter *f, uint64_t what) { return rng_mix(f->o->seed * 1000003u + what); }
enum { SEED_VI = 1, SEED_EXPLORE, SEED_JUDGE, SEED_FIT, SEED_FRESH = 1000, SEED_STEP = 100000 };

static void add_note(Fitter *f, const char *text) {
  PUSH(&f->ctx->arena, f->fit->notes, f->fit->nnotes, f->fit->cap_notes, text);
}

/* ---- running an optimizer ----------------------------------------------------------------------------------------- */

/* Validation score of an iterate, on few draws: enough to compare iterates. */
static double validate(Fitter *f, const double *phi) {
  predictive_scores(f->ctx, f->model, f->valid, f->target.family, &f->target.shape, phi, 1024, seed_of(f, SEED_JUDGE), f->pool, f->valid_scores);
  double s = 0;
  for (size_t k = 0; k < f->nvalid; k++) s += f->valid_scores[k];
  return s;
}

static bool observe(void *self, const OptimState *s) {
  Fitter *f = self;
  PredictiveValue v = predictive_last(f->running);
  FitTrace row = {f->fit->iterations + s->iteration, base_seconds() - f->started, s->value, v.score, v.regularizer,
                  s->gradient_norm, s->step};
  PUSH(&f->ctx->arena, f->fit->trace, f->fit->ntrace, f->fit->cap_trace, row);
  if (f->o->progress) f->o->progress(f->o->progress_self, f->fit->evaluations + s->evaluations, s->value, f->stage);
  if (f->best_phi) {
    double score = validate(f, s->phi);
    if (score > f->best_valid) {
      f->best_valid = score;
      memcpy(f->best_phi, s->phi, family_of(f->target.family)->size(&f->target.shape) * sizeof *f->best_phi);
    }
  }
  return true;
}

static OptimResult run_lbfgs(Fitter *f, Predictive *p, double *phi, long iterations, double tolerance, const char *stage) {
  Objective objective = predictive_objective(p);
  OptimOptions o = optim_defaults(OPTIM_LBFGS);
  o.max_iterations = iterations;
  o.tol_relative = tolerance;
  o.observer = observe;
  o.observer_self = f;
  f->running = p;
  f->stage = stage;
  OptimResult r = optim_run(f->arena, &objective, phi, &o);
  memcpy(phi, r.phi, objective.dim * sizeof *phi);
  f->fit->evaluations += r.evaluations;
  f->fit->iterations += r.iterations;
  f->fit->skipped += r.skipped;
  return r;
}

static Predictive *objective_of(Fitter *f, Arena *a, const Target *t, size_t M, uint64_t seed) {
  return predictive_make(f->ctx, a, f->model, f->train, t, M, seed, f->pool);
}

static bool evaluate(Fitter *f, Predictive *p, const double *phi, PredictiveValue *v) {
  f->fit->evaluations++;
  return predictive_eval(p, phi, v, NULL);
}

/* ---- 1. ordinary VI: centre and units ----------------------------------------------------------------------------- */

static const double start_sds[] = {0.1, 1, 0.01, 0.001};

/* Mean-field VI on few draws, from zero; phi of the mean-field family. */
static double *vi_centre(Fitter *f, Arena *a) {
  size_t d = f->model->dim;
  const Family *mf = family_of(FAMILY_meanfield);
  Target t = {SCORE_elbo, FAMILY_meanfield, {.dim = d}, REG_PRIOR, 1};
  Predictive *p = objective_of(f, a, &t, VI_DRAWS, seed_of(f, SEED_VI));
  double *phi = NEW_ARRAY(a, double, 2 * d), *zero = NEW_ARRAY(a, double, d), *sd = NEW_ARRAY(a, double, d);
  for (size_t s = 0; s < sizeof start_sds / sizeof *start_sds; s++) {
    PredictiveValue v;
    for (size_t k = 0; k < d; k++) sd[k] = start_sds[s];
    mf->start(phi, &t.shape, zero, sd);
    if (evaluate(f, p, phi, &v)) break;
    if (s + 1 == sizeof start_sds / sizeof *start_sds)
      ctx_fail(f->ctx, PVI_FAILURE, NOWHERE,
               "the log density is not finite at any starting point around zero; check the priors and the data");
  }
  Target kept = f->target;
  double *best = f->best_phi;
  f->best_phi = NULL;
  double tolerance = f->target.score == SCORE_elbo ? 1e-7 : 1e-5; /* others need only a centre and units */
  f->target = t;
  OptimResult r = run_lbfgs(f, p, phi, 2000, tolerance, "VI");
  f->target = kept;
  f->best_phi = best;
  (void)r;
  return phi;
}

/* ---- 2. starts ---------------------------------------------------------------------------------------------------- */

typedef struct {
  const char *name;
  double power; /* sd of VI times n^power */
} Width;

/* VI's sd is that of n observations; one observation's is sqrt(n) times as wide. */
static const Width widths[] = {{"VI", 0}, {"VI widened by n^1/4", 0.25}, {"VI widened by n^1/2 / 2", 0.5}};

static void start_at(const Fitter *f, const double *centre, const Width *w, double *phi) {
  size_t d = f->model->dim;
  double *mean = NEW_ARRAY(f->arena, double, d), *sd = NEW_ARRAY(f->arena, double, d);
  family_of(FAMILY_meanfield)->moments(centre, &(Shape){.dim = d}, mean, sd);
  double factor = pow((double)f->n, w->power) * (w->power == 0.5 ? 0.5 : 1);
  for (size_t k = 0; k < d; k++) {
    double wide = sd[k] * factor, most = fmax(1, 2 * sd[k]);
    sd[k] = w->power == 0 ? sd[k] : fmin(wide, most);
  }
  family_of(f->target.family)->start(phi, &f->target.shape, mean, sd);
}

/* The best of the starts after a few iterations each. */
static double *explore(Fitter *f, Arena *a, const double *centre) {
  size_t size = family_of(f->target.family)->size(&f->target.shape);
  size_t M = f->o->draws && f->o->draws < EXPLORE_DRAWS ? f->o->draws : EXPLORE_DRAWS;
  if (f->target.family == FAMILY_fullrank) M *= 4;
  Predictive *p = objective_of(f, a, &f->target, M, seed_of(f, SEED_EXPLORE));
  Predictive *judge = objective_of(f, a, &f->target, JUDGE_DRAWS, seed_of(f, SEED_JUDGE));
  double *best = NULL, best_value = -INFINITY;
  double *kept = f->best_phi;
  f->best_phi = NULL;
  for (size_t s = 0; s < sizeof widths / sizeof *widths; s++) {
    double *phi = NEW_ARRAY(a, double, size);
    PredictiveValue v;
    start_at(f, centre, &widths[s], phi);
    if (!evaluate(f, p, phi, &v)) continue;
    run_lbfgs(f, p, phi, EXPLORE_ITERATIONS, 1e-4, widths[s].name);
    bool finite = evaluate(f, judge, phi, &v);
    FitStart row = {widths[s].name, finite ? v.value : -INFINITY};
    PUSH(&f->ctx->arena, f->fit->starts, f->fit->nstarts, f->fit->cap_starts, row);
    if (finite && v.value > best_value) {
      best_value = v.value;
      best = phi;
    }
  }
  f->best_phi = kept;
  if (!best) ctx_fail(f->ctx, PVI_FAILURE, NOWHERE, "the objective is not finite at any start");
  return best;
}

/* ---- 3. to convergence, with enough draws ------------------------------------------------------------------------- */

/* The objective on fresh draws: mean and standard error over independent scrambles. */
static double fresh_value(Fitter *f, Predictive *p, const double *phi, double *se, PredictiveValue *mean) {
  double x[SCRAMBLES], s = 0, ss = 0;
  *mean = (PredictiveValue){0, 0, 0};
  for (int k = 0; k < SCRAMBLES; k++) {
    PredictiveValue v;
    predictive_renew(p, seed_of(f, SEED_FRESH + (uint64_t)k + 10 * f->fit->nstages), false);
    x[k] = evaluate(f, p, phi, &v) ? v.value : -INFINITY;
    s += x[k] / SCRAMBLES;
    mean->value += v.value / SCRAMBLES;
    mean->score += v.score / SCRAMBLES;
    mean->regularizer += v.regularizer / SCRAMBLES;
  }
  for (int k = 0; k < SCRAMBLES; k++) ss += (x[k] - s) * (x[k] - s);
  *se = sqrt(ss / (SCRAMBLES * (SCRAMBLES - 1)));
  return s;
}

/* What is small against the data's own noise: a fiftieth of the standard deviation of the sum of scores, at most. */
static double tolerated_gap(const Fitter *f) { return 0.02 * sqrt((double)(f->n ? f->n : 1)); }

/* Does the fixed set of draws tell the truth about phi? Says so in the stage's row and in the verdict. */
static bool agrees(Fitter *f, Predictive *p, const double *phi, const OptimResult *r, size_t M) {
  double se, fresh = fresh_value(f, p, phi, &se, &f->fit->value), gap = r->value - fresh;
  FitStage row = {M, r->value, fresh, gap};
  PUSH(&f->ctx->arena, f->fit->stages, f->fit->nstages, f->fit->cap_stages, row);
  bool agree = gap <= 2 * se + tolerated_gap(f) && se <= tolerated_gap(f);
  Arena *a = &f->ctx->arena;
  f->fit->draws = M;
  f->fit->converged = r->converged && agree;
  if (!r->converged) {
    f->fit->reason = arena_format(a, "the optimizer stopped: %s", r->reason);
  } else if (agree) {
    f->fit->reason = arena_format(a, "%s; %d fresh sets of %zu draws agree", r->reason, SCRAMBLES, M);
  } else {
    f->fit->reason = arena_format(a, "fresh draws give %.4g less than the %zu fixed ones (standard error %.2g)", gap, M, se);
  }
  return agree;
}

/* phi becomes other where that is better on new draws: what exploited too few draws is no start for more. */
static void prefer(Fitter *f, Predictive *p, double *phi, const double *other, size_t size) {
  PredictiveValue a, b;
  bool fa = evaluate(f, p, phi, &a), fb = evaluate(f, p, other, &b);
  if (fb && (!fa || b.value > a.value)) memcpy(phi, other, size * sizeof *phi);
}

static void finish(Fitter *f, double *phi) {
  size_t size = family_of(f->target.family)->size(&f->target.shape);
  double *start = memcpy(NEW_ARRAY(f->arena, double, size), phi, size * sizeof *phi);
  size_t M = f->o->draws ? f->o->draws : f->target.family == FAMILY_fullrank ? 4 * FIRST_DRAWS : FIRST_DRAWS;
  for (;; M *= 4) {
    ArenaMark stage = arena_mark(f->arena);
    Predictive *p = objective_of(f, f->arena, &f->target, M, seed_of(f, SEED_FIT + M));
    if (f->fit->nstages) prefer(f, p, phi, start, size);
    OptimResult r = run_lbfgs(f, p, phi, f->o->iterations ? f->o->iterations : 5000, 1e-9, "fit");
    bool done = agrees(f, p, phi, &r, M) || f->o->draws || M >= MOST_DRAWS;
    arena_reset(f->arena, stage);
    if (done) return;
  }
}

/* ---- stochastic optimizers ---------------------------------------------------------------------------------------- */

typedef struct {
  Fitter *f;
  Predictive *p;
  size_t batches;
} Stochastic;

/* New noise and the next mini-batch. */
static void next_iteration(void *self, long t) {
  Stochastic *s = self;
  predictive_renew(s->p, seed_of(s->f, SEED_STEP + (uint64_t)t), true);
  if (s->batches > 1) {
    size_t k = (size_t)t % s->batches;
    predictive_range(s->p, (double)k / (double)s->batches, (double)(k + 1) / (double)s->batches);
  }
}

static bool stochastic_eval(void *self, const double *phi, double *value, double *grad) {
  Stochastic *s = self;
  PredictiveValue v;
  bool ok = predictive_eval(s->p, phi, &v, grad);
  *value = v.value;
  return ok;
}

static void run_stochastic(Fitter *f, Arena *a, double *phi) {
  size_t M = f->o->draws ? f->o->draws : 100;
  Stochastic s = {f, objective_of(f, a, &f->target, M, seed_of(f, SEED_FIT)), 1};
  if (f->o->minibatch && f->o->minibatch < f->n) s.batches = (f->n + f->o->minibatch - 1) / f->o->minibatch;
  Objective objective = {.dim = family_of(f->target.family)->size(&f->target.shape), .self = &s, .eval = stochastic_eval,
                         .iteration = next_iteration};
  OptimOptions o = optim_defaults(f->o->optimizer);
  if (f->o->iterations) o.max_iterations = f->o->iterations;
  if (f->o->learning_rate > 0) o.learning_rate = f->o->learning_rate;
  o.schedule = f->o->schedule;
  o.clip = f->o->clip;
  o.observer = observe;
  o.observer_self = f;
  f->running = s.p;
  f->stage = "fit";
  OptimResult r = optim_run(f->arena, &objective, phi, &o);
  memcpy(phi, r.phi, objective.dim * sizeof *phi);
  f->fit->evaluations += r.evaluations;
  f->fit->iterations += r.iterations;
  f->fit->skipped += r.skipped;
  f->fit->draws = M;
  f->fit->converged = r.converged;
  f->fit->reason = r.reason;
}

/* ---- all ---------------------------------------------------------------------------------------------------------- */

static void choose_family(Fitter *f) {
  if (!f->o->choose_family) return;
  f->target.family = f->model->dim <= FULLRANK_MOST ? FAMILY_fullrank : FAMILY_meanfield;
  add_note(f, arena_format(&f->ctx->arena, "family %s chosen: %zu parameters (%s up to %d)", family_name(f->target.family),
                           f->model->dim, family_name(FAMILY_fullrank), FULLRANK_MOST));
}

/* Value of the final q on fresh draws, for those ways that have not measured it, or have changed phi since. */
static void measure(Fitter *f, Arena *a, const double *phi) {
  double se;
  Predictive *p = objective_of(f, a, &f->target, FIRST_DRAWS, seed_of(f, SEED_FRESH));
  fresh_value(f, p, phi, &se, &f->fit->value);
}

static void run(Fitter *f) {
  const Family *family = family_of(f->target.family);
  size_t size = family->size(&f->target.shape);
  double *phi = f->fit->phi = NEW_ARRAY(&f->ctx->arena, double, size);
  double *centre = vi_centre(f, f->arena);
  if (f->o->select_validation) f->best_phi = NEW_ARRAY(f->arena, double, size);
  f->best_valid = -INFINITY;
  if (f->target.score == SCORE_elbo) {
    start_at(f, centre, &widths[0], phi);
  } else {
    memcpy(phi, explore(f, f->arena, centre), size * sizeof *phi);
  }
  if (f->o->optimizer == OPTIM_LBFGS) {
    finish(f, phi);
  } else {
    run_stochastic(f, f->arena, phi);
  }
  if (f->best_phi && isfinite(f->best_valid)) {
    memcpy(phi, f->best_phi, size * sizeof *phi);
    add_note(f, "the iterate with the best validation score was kept");
  }
  if (f->best_phi || f->o->optimizer != OPTIM_LBFGS) measure(f, f->arena, phi);
}

/* Mini-batches are consecutive rows: of a random order. */
static const size_t *training_order(Fitter *f, const Split *split) {
  size_t n = split->count[PART_TRAIN];
  if (!f->o->minibatch) return split->rows[PART_TRAIN];
  size_t *rows = NEW_ARRAY(f->arena, size_t, n);
  memcpy(rows, split->rows[PART_TRAIN], n * sizeof *rows);
  RngStream r = rngs_make(f->o->seed, SEED_STEP);
  rngs_shuffle(&r, rows, n);
  return rows;
}

Fit *fit_run(Ctx *c, const Model *m, const Split *split, const FitOptions *o, Pool *pool) {
  Fit *fit = NEW(&c->arena, Fit);
  Arena arena = arena_make(c);
  Fitter f = {.ctx = c, .arena = &arena, .model = m, .o = o, .target = o->target, .pool = pool, .fit = fit,
              .n = split->count[PART_TRAIN], .started = base_seconds(), .nvalid = split->count[PART_VALID]};
  jmp_buf here, *outer = c->trap;
  if (setjmp(here)) {
    arena_free(&arena);
    c->trap = outer;
    ctx_jump(c, c->status);
  }
  c->trap = &here;
  if (f.target.score == SCORE_elbo) {
    f.target.regularizer = REG_PRIOR;
    f.target.lambda = 1;
  }
  choose_family(&f);
  f.target.shape.dim = m->dim;
  f.target.shape = family_shape(f.target.family, f.target.shape);
  f.train = model_tape(m, training_order(&f, split), split->count[PART_TRAIN], NULL, WANT_LL);
  f.valid = model_tape(m, split->rows[PART_VALID], split->count[PART_VALID], NULL, WANT_LL);
  f.valid_scores = NEW_ARRAY(&arena, double, f.nvalid);
  run(&f);
  fit->family = f.target.family;
  fit->shape = f.target.shape;
  fit->seconds = base_seconds() - f.started;
  c->trap = outer;
  arena_free(&arena);
  return fit;
}
