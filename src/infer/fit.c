/* fit.c: how a fit goes.
 *
 * L-BFGS (default). The noise is fixed, so the objective is a function; but a rich family can
 * exploit fixed draws (it puts a sharp component on a datum wherever a draw happens to lie). So:
 *   1. ordinary VI from the origin gives a centre and a unit for every parameter;
 *   2. predictive scores start from several widths around it, for VI's own narrow q is a flat
 * saddle of theirs: a few iterations each, then the best, judged on common draws no start has seen;
 *   3. the best is taken to convergence; then fresh draws are compared with the fixed ones, and
 * while they disagree the number of draws grows fourfold. Where the integral is exact (exact.h)
 * there are no draws to grow: 3 ends when twice the nodes agree. Stochastic optimizers draw new
 * noise, and the next mini-batch, at every iteration.
 */
#include "infer/fit.h"

#include "infer/exact.h"
#include "infer/rejection.h"

#include "num/rng.h"

#include <math.h>
#include <string.h>

#ifdef PVI_TORTURE
enum { SAMPLE_ROWS = 64, SAMPLE_ROWS_EACH = 0 };
enum { VI_DRAWS = 16, EXPLORE_DRAWS = 32, FIRST_DRAWS = 64, MOST_DRAWS = 128, JUDGE_DRAWS = 64 };
#else
enum { SAMPLE_ROWS = 16384, SAMPLE_ROWS_EACH = 16 }; /* in all, and more for every parameter */
enum {
  VI_DRAWS = 64,
  EXPLORE_DRAWS = 256,
  FIRST_DRAWS = 1024,
  MOST_DRAWS = 16384,
  JUDGE_DRAWS = 1024
};
#endif
enum {
  SAMPLED_FROM = 16,
  EXPLORE_ITERATIONS = 25,
  SCRAMBLES = 4,
  FULLRANK_MOST = 30,
  EXPLORE_NODES = 16
};

/* Everything a fit needs at hand. */
typedef struct {
  Ctx *ctx;
  Arena *parts; /* of the observations */
  Arena *arena; /* of objectives and the like, reset from stage to stage */
  const Model *model;
  const Observed *train, *train_ll,
      *valid; /* the training part with the heads of the target, and with the log likelihood */
  const Observed *few, *few_ll; /* of very many, a sample, for the starts; else the same */
  const FitOptions *o;
  Target target;
  Q q;
  size_t n;            /* training observations */
  const size_t *order; /* and which they are */
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

static uint64_t seed_of(const Fitter *f, uint64_t what) {
  return rng_mix(f->o->seed * 1000003u + what);
}
enum { SEED_VI = 1, SEED_EXPLORE, SEED_JUDGE, SEED_FIT, SEED_FRESH = 1000, SEED_STEP = 100000 };

static void add_note(Fitter *f, const char *text) {
  PUSH(&f->ctx->arena, f->fit->notes, f->fit->nnotes, f->fit->cap_notes, text);
}

/* ---- running an optimizer -------------------------------------------------------------------- */

/* Validation score of an iterate, on few draws: enough to compare iterates. */
static double validate(Fitter *f, const double *phi) {
  predictive_scores(f->ctx, f->valid, &f->target, &f->q, phi, 1024, seed_of(f, SEED_JUDGE), f->pool,
                    f->valid_scores);
  double s = 0;
  for (size_t k = 0; k < f->nvalid; k++) s += f->valid_scores[k];
  return s;
}

static bool observe(void *self, const OptimState *s) {
  Fitter *f = self;
  PredictiveValue v = predictive_last(f->running);
  FitTrace row = {f->fit->iterations + s->iteration,
                  base_seconds() - f->started,
                  s->value,
                  v.score,
                  v.regularizer,
                  s->gradient_norm,
                  s->step};
  PUSH(&f->ctx->arena, f->fit->trace, f->fit->ntrace, f->fit->cap_trace, row);
  if (f->o->progress)
    f->o->progress(f->o->progress_self, f->fit->evaluations + s->evaluations, s->value, f->stage);
  if (f->best_phi) {
    double score = validate(f, s->phi);
    if (score > f->best_valid) {
      f->best_valid = score;
      memcpy(f->best_phi, s->phi, q_size(&f->q) * sizeof *f->best_phi);
    }
  }
  return true;
}

static OptimResult run_lbfgs(Fitter *f, Predictive *p, double *phi, long iterations,
                             double tolerance, const char *stage) {
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

static Predictive *objective_of(Fitter *f, size_t M, uint64_t seed) {
  return predictive_make(f->arena, f->train, &f->target, &f->q, M, seed, f->pool);
}

static bool is_exact(const Fitter *f) {
  const char *why;
  return f->target.integrate != INTEGRATE_DRAWS && exact_applies(f->train, &f->target, &f->q, &why);
}

static bool evaluate(Fitter *f, Predictive *p, const double *phi, PredictiveValue *v) {
  f->fit->evaluations++;
  return predictive_eval(p, phi, v, NULL);
}

/* ---- 1. ordinary VI: centre and units -------------------------------------------------------- */

static const double start_sds[] = {0.1, 1, 0.01, 0.001};

static Target vi_target(const Fitter *f) {
  return (Target){.score = SCORE_elbo,
                  .regularizer = REG_PRIOR,
                  .lambda = 1,
                  .score_weight = 1,
                  .integrate = f->target.integrate,
                  .nodes = f->target.score == SCORE_elbo ? EXPLORE_NODES : EXPLORE_NODES / 2};
}

/* Mean-field VI on few draws, from zero: mean and sd of every parameter. */
static void vi_centre(Fitter *f, double *mean, double *sd) {
  size_t d = f->model->dim;
  Target vi = vi_target(f);
  ArenaMark mark = arena_mark(f->arena);
  Q *q = NEW(f->arena, Q);
  *q = q_make(f->arena, FAMILY_meanfield, (Shape){0}, d, NULL);
  Predictive *p =
      predictive_make(f->arena, f->train_ll, &vi, q, VI_DRAWS, seed_of(f, SEED_VI), f->pool);
  double *phi = NEW_ARRAY(f->arena, double, q_size(q));
  enum { NSTARTS = sizeof start_sds / sizeof *start_sds };
  for (int s = 0; s < NSTARTS; s++) {
    PredictiveValue v;
    for (size_t k = 0; k < d; k++) mean[k] = 0, sd[k] = start_sds[s];
    q_start(q, phi, mean, sd);
    if (evaluate(f, p, phi, &v)) break;
    if (s + 1 == NSTARTS)
      ctx_fail(f->ctx, PVI_FAILURE, NOWHERE,
               "the log density is not finite at any starting point around zero; check the priors "
               "and the data");
  }
  double tolerance =
      f->target.score == SCORE_elbo ? 1e-7 : 1e-4; /* others need only a centre and units */
  run_lbfgs(f, p, phi, 2000, tolerance, "VI");
  q_moments(q, phi, mean, sd);
  arena_reset(f->arena, mark);
}

/* ---- 2. starts ------------------------------------------------------------------------------- */

typedef struct {
  const char *name;
  double power; /* sd of VI times n^power */
} Width;

/* VI's sd is that of n observations; one observation's is sqrt(n) times as wide. */
static const Width widths[] = {
    {"VI", 0}, {"VI widened by n^1/4", 0.25}, {"VI widened by n^1/2 / 2", 0.5}};

static double width_factor(const Fitter *f, const Width *w) {
  return pow((double)f->n, w->power) * (w->power == 0.5 ? 0.5 : 1);
}

static void start_at(const Fitter *f, const double *mean, const double *vi_sd, double factor,
                     double *phi) {
  size_t d = f->model->dim;
  double *sd = NEW_ARRAY(f->arena, double, d);
  for (size_t k = 0; k < d; k++) {
    double wide = vi_sd[k] * factor, most = fmax(1, 2 * vi_sd[k]);
    sd[k] = factor == 1 ? vi_sd[k] : fmin(wide, most);
  }
  q_start(&f->q, phi, mean, sd);
}

/* Families that can put a component on a single datum need more draws from the beginning. */
static bool is_rich(const Fitter *f) { return f->q.family != FAMILY_meanfield; }

static bool is_continuous(const Fitter *f) {
  for (int b = 0; b < f->model->nblocks; b++)
    if (!kind_discrete(f->train->kinds[b])) return true;
  return false;
}

/* Scores of a continuous outcome's distribution integrate over it exactly, draw by draw: they are
 * smooth in theta and need fewer draws, and each draw costs more. */
static size_t draws_of(const Fitter *f, size_t draws) {
  bool fewer = score_needs(f->target.score) & NEEDS_KIND && is_continuous(f);
  return (fewer ? draws / 4 : draws) * (is_rich(f) ? 2 : 1);
}

/* Standard deviation of the training outcomes: the unit of their interval score. */
static double outcome_sd(const Fitter *f) {
  double mean = 0, ss = 0, n = (double)f->n;
  const ModelRows *rows = &f->train->rows;
  for (int b = 0; b < f->model->nblocks; b++)
    for (size_t k = rows->first[b]; k < rows->first[b + 1]; k++)
      mean += observed_count(f->train, k) * observed_y(f->train, b, k) / n;
  for (int b = 0; b < f->model->nblocks; b++)
    for (size_t k = rows->first[b]; k < rows->first[b + 1]; k++) {
      double d = observed_y(f->train, b, k) - mean;
      ss += observed_count(f->train, k) * d * d;
    }
  return sqrt(ss / n);
}

/* A few iterations from phi; the value on common draws, -inf where it is not finite. */
static double try_start(Fitter *f, Predictive *p, Predictive *judge, double *phi,
                        const char *name) {
  PredictiveValue v;
  if (!evaluate(f, p, phi, &v)) return -INFINITY;
  run_lbfgs(f, p, phi, EXPLORE_ITERATIONS, 1e-4, name);
  double value = evaluate(f, judge, phi, &v) ? v.value : -INFINITY;
  FitStart row = {name, value};
  PUSH(&f->ctx->arena, f->fit->starts, f->fit->nstarts, f->fit->cap_starts, row);
  return value;
}

/* VI's q in the family itself, where that has correlations: a predictive q is often wide along a
 * ridge of the posterior. */
static const double *correlated_vi(Fitter *f, const double *mean, const double *sd) {
  Target vi = vi_target(f);
  const char *why;
  if (!family_of(f->q.family)->widen || !exact_applies(f->train_ll, &vi, &f->q, &why)) return NULL;
  double *phi = NEW_ARRAY(f->arena, double, q_size(&f->q));
  ArenaMark mark = arena_mark(f->arena);
  PredictiveValue v;
  Predictive *p =
      predictive_make(f->arena, f->train_ll, &vi, &f->q, 0, seed_of(f, SEED_VI), f->pool);
  q_start(&f->q, phi, mean, sd);
  bool finite = evaluate(f, p, phi, &v);
  if (finite) run_lbfgs(f, p, phi, 500, 1e-6, "VI, correlated");
  arena_reset(f->arena, mark);
  return finite ? phi : NULL;
}

/* Of VI's q times 1, 2, 4, ... that with the best objective; NULL: none is finite. Where one
 * observation says as much as a thousand others (a count of many trials), no power of n is right.
 */
static double *best_width(Fitter *f, Predictive *p, const double *mean, const double *sd,
                          const double *correlated) {
  size_t size = q_size(&f->q);
  double *phi = NEW_ARRAY(f->arena, double, size), *best = NEW_ARRAY(f->arena, double, size),
         top = -INFINITY;
  for (double factor = 1; factor < 1e4; factor *= 2) {
    PredictiveValue v;
    if (correlated) {
      memcpy(phi, correlated, size * sizeof *phi);
      family_of(f->q.family)->widen(phi, &f->q.shape, factor);
    } else {
      start_at(f, mean, sd, factor, phi);
    }
    if (!evaluate(f, p, phi, &v) || v.value <= top) continue;
    top = v.value;
    memcpy(best, phi, size * sizeof *phi);
  }
  return isfinite(top) ? best : NULL;
}

typedef struct {
  const char *name;
  double *phi;
} Start;

/* phi: the best of the starts after a few iterations each. */
static void explore(Fitter *f, const double *mean, const double *sd, double *phi) {
  enum { NWIDTHS = sizeof widths / sizeof *widths };
  ArenaMark mark = arena_mark(f->arena);
  const double *correlated = is_exact(f) ? correlated_vi(f, mean, sd) : NULL;
  size_t size = q_size(&f->q), M = draws_of(f, 2 * EXPLORE_DRAWS);
  if (!is_rich(f)) M /= 2;
  if (f->o->draws && f->o->draws < M) M = f->o->draws;
  Target sharp = f->target;
  f->target.nodes = EXPLORE_NODES;
  if (f->target.score == SCORE_interval) f->target.score_options.smooth = 0.1 * outcome_sd(f);
  Predictive *p = objective_of(f, M, seed_of(f, SEED_EXPLORE));
  f->target = sharp;
  Predictive *judge = predictive_is_exact(p) && f->target.score != SCORE_interval
                          ? p
                          : objective_of(f, draws_of(f, JUDGE_DRAWS), seed_of(f, SEED_JUDGE));
  const double *given = f->o->start ? f->o->start(f->o->start_self, &f->q) : NULL;
  Start starts[NWIDTHS + 3];
  int n = 0;
  bool exact = predictive_is_exact(p);
  for (int k = 0; k < NWIDTHS; k++) {
    if (exact && k == 1) continue; /* looked for below */
    starts[n] = (Start){widths[k].name, NEW_ARRAY(f->arena, double, size)};
    start_at(f, mean, sd, width_factor(f, &widths[k]), starts[n++].phi);
  }
  if (exact) { /* evaluations are cheap: look for the best width */
    starts[n++] = (Start){"VI at its best width", best_width(f, p, mean, sd, NULL)};
    if (correlated)
      starts[n++] =
          (Start){"correlated VI at its best width", best_width(f, p, mean, sd, correlated)};
  }
  if (given) {
    starts[n] = (Start){"given", NEW_ARRAY(f->arena, double, size)};
    memcpy(starts[n++].phi, given, size * sizeof *given);
  }
  double *best = NULL, best_value = -INFINITY;
  for (int k = 0; k < n; k++) {
    double value =
        starts[k].phi ? try_start(f, p, judge, starts[k].phi, starts[k].name) : -INFINITY;
    if (value > best_value) {
      best_value = value;
      best = starts[k].phi;
    }
  }
  if (!best) ctx_fail(f->ctx, PVI_FAILURE, NOWHERE, "the objective is not finite at any start");
  memcpy(phi, best, size * sizeof *phi);
  arena_reset(f->arena, mark);
}

/* ---- 3. to convergence, with enough draws ---------------------------------------------------- */

/* The objective on fresh draws: mean and standard error over independent scrambles. */
static double fresh_value(Fitter *f, Predictive *p, const double *phi, double *se,
                          PredictiveValue *mean) {
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

/* What is small against the data's own noise: a fiftieth of the standard deviation of the sum of
 * scores, at most. */
static double tolerated_gap(const Fitter *f) { return 0.02 * sqrt((double)(f->n ? f->n : 1)); }

/* Does the fixed set of draws tell the truth about phi? Says so in the stage's row and in the
 * verdict. */
static bool agrees(Fitter *f, Predictive *p, const double *phi, const OptimResult *r, size_t M) {
  double se, fresh = fresh_value(f, p, phi, &se, &f->fit->value), gap = r->value - fresh;
  FitStage row = {M, r->value, fresh, gap};
  PUSH(&f->ctx->arena, f->fit->stages, f->fit->nstages, f->fit->cap_stages, row);
  bool agree = gap <= 2 * se + tolerated_gap(f) && se <= tolerated_gap(f);
  bool kink = f->target.score == SCORE_interval &&
              r->status == OPTIM_STUCK; /* no step gains: the optimum is a kink */
  Arena *a = &f->ctx->arena;
  f->fit->draws = M;
  f->fit->converged = (r->converged || kink) && agree;
  if (kink && agree) {
    f->fit->reason = arena_format(
        a, "no step gains: an optimum at a kink; %d fresh sets of %zu draws agree", SCRAMBLES, M);
  } else if (!r->converged) {
    f->fit->reason = arena_format(a, "the optimizer stopped: %s", r->reason);
  } else if (agree) {
    f->fit->reason =
        arena_format(a, "%s; %d fresh sets of %zu draws agree", r->reason, SCRAMBLES, M);
  } else {
    f->fit->reason = arena_format(
        a, "fresh draws give %.4g less than the %zu fixed ones (standard error %.2g)", gap, M, se);
  }
  return agree;
}

/* phi becomes other where that is better on new draws: what exploited too few draws is no start for
 * more. */
static void prefer(Fitter *f, Predictive *p, double *phi, const double *other, size_t size) {
  PredictiveValue a, b;
  bool fa = evaluate(f, p, phi, &a), fb = evaluate(f, p, other, &b);
  if (fb && (!fa || b.value > a.value)) memcpy(phi, other, size * sizeof *phi);
}

/* The interval score has a kink wherever a quantile crosses a datum: approach it through rounded
 * ones, each a start of the next. */
static void anneal(Fitter *f, double *phi) {
  static const double widths_of_hinge[] = {0.3,   0.1,   0.05,   0.025,  0.012,
                                           0.006, 0.003, 0.0015, 0.0007, 0.0003};
  double sd = outcome_sd(f);
  if (f->target.score != SCORE_interval || !(sd > 0)) return;
  Target sharp = f->target;
  for (size_t k = 0; k < sizeof widths_of_hinge / sizeof *widths_of_hinge; k++) {
    ArenaMark mark = arena_mark(f->arena);
    f->target.score_options.smooth = widths_of_hinge[k] * sd;
    run_lbfgs(f, objective_of(f, 2 * draws_of(f, FIRST_DRAWS), seed_of(f, SEED_FIT)), phi, 200,
              1e-8, "annealing");
    arena_reset(f->arena, mark);
  }
  f->target = sharp;
}

/* ---- 3. where the integral is exact ---------------------------------------------------------- */

/* Twice the nodes: do they say the same? */
static bool nodes_agree(Fitter *f, const double *phi, const OptimResult *r, size_t nodes) {
  f->target.nodes = 2 * nodes;
  bool finite = evaluate(f, objective_of(f, 0, seed_of(f, SEED_FIT)), phi, &f->fit->value);
  f->target.nodes = nodes;
  double gap = r->value - f->fit->value.value;
  FitStage row = {nodes, r->value, f->fit->value.value, gap};
  PUSH(&f->ctx->arena, f->fit->stages, f->fit->nstages, f->fit->cap_stages, row);
  double allowed = f->target.score == SCORE_interval ? 1e-5 : 1e-7; /* kinks */
  bool agree = finite && fabs(gap) <= 1e-4 + allowed * fabs(r->value);
  bool kink = f->target.score == SCORE_interval && r->status == OPTIM_STUCK;
  Arena *a = &f->ctx->arena;
  f->fit->draws = nodes;
  f->fit->converged = (r->converged || kink) && agree;
  f->fit->reason =
      !r->converged && !kink ? arena_format(a, "the optimizer stopped: %s", r->reason)
      : agree
          ? arena_format(a, "%s; twice the nodes change the objective by %.1g",
                         kink ? "no step gains: an optimum at a kink" : r->reason, fabs(gap))
          : arena_format(a, "twice the %zu nodes change the objective by %.2g", nodes, fabs(gap));
  return agree;
}

static void finish_exact(Fitter *f, double *phi) {
  f->fit->exact = true;
  for (size_t nodes = EXACT_NODES;; nodes *= 2) {
    ArenaMark stage = arena_mark(f->arena);
    f->target.nodes = nodes;
    Predictive *p = objective_of(f, 0, seed_of(f, SEED_FIT));
    OptimResult r = run_lbfgs(f, p, phi, f->o->iterations ? f->o->iterations : 5000, 1e-9, "fit");
    arena_reset(f->arena, stage); /* the next has as many rows */
    bool done = nodes_agree(f, phi, &r, nodes) || nodes >= exact_most_nodes(f->train);
    arena_reset(f->arena, stage);
    if (done) return;
  }
}

static void finish(Fitter *f, double *phi) {
  size_t size = q_size(&f->q);
  anneal(f, phi);
  if (is_exact(f)) {
    finish_exact(f, phi);
    return;
  }
  double *start = memcpy(NEW_ARRAY(f->arena, double, size), phi, size * sizeof *phi);
  size_t M = f->o->draws ? f->o->draws : draws_of(f, is_rich(f) ? 2 * FIRST_DRAWS : FIRST_DRAWS);
  for (;; M *= 4) {
    ArenaMark stage = arena_mark(f->arena);
    Predictive *p = objective_of(f, M, seed_of(f, SEED_FIT + M));
    if (f->fit->nstages) prefer(f, p, phi, start, size);
    OptimResult r = run_lbfgs(f, p, phi, f->o->iterations ? f->o->iterations : 5000, 1e-9, "fit");
    bool done = agrees(f, p, phi, &r, M) || f->o->draws || M >= draws_of(f, MOST_DRAWS);
    arena_reset(f->arena, stage);
    if (done) return;
  }
}

/* ---- stochastic optimizers ------------------------------------------------------------------- */

typedef struct {
  Fitter *f;
  Predictive *p;
  Rejection *rejection; /* NULL: the reparameterized estimator */
  size_t batches;
  uint64_t seed; /* of this iteration */
} Stochastic;

/* New noise and the next mini-batch. */
static void next_iteration(void *self, long t) {
  Stochastic *s = self;
  s->seed = seed_of(s->f, SEED_STEP + (uint64_t)t);
  predictive_renew(s->p, s->seed, true);
  if (s->batches > 1) {
    size_t k = (size_t)t % s->batches;
    predictive_range(s->p, (double)k / (double)s->batches, (double)(k + 1) / (double)s->batches);
  }
}

static bool stochastic_eval(void *self, const double *phi, double *value, double *grad) {
  Stochastic *s = self;
  if (s->rejection) return rejection_eval(s->rejection, phi, s->seed, value, grad);
  PredictiveValue v;
  bool ok = predictive_eval(s->p, phi, &v, grad);
  *value = v.value;
  return ok;
}

/* The rejection estimator in the place of the reparameterized one. */
static void use_rejection(Fitter *f, Stochastic *s, size_t M) {
  const char *why;
  const Observed *o = observed_make(f->parts, f->model, f->order, f->n, WANT_LL | WANT_PARAMETERS);
  s->rejection = rejection_make(f->ctx, f->arena, o, &f->target, &f->q, M, f->pool, &why);
  if (!s->rejection) ctx_fail(f->ctx, PVI_USAGE, NOWHERE, "%s", why);
}

static void run_stochastic(Fitter *f, double *phi) {
  size_t M = f->o->draws ? f->o->draws : 100;
  Stochastic s = {.f = f, .p = objective_of(f, M, seed_of(f, SEED_FIT)), .batches = 1};
  if (f->o->rejection) use_rejection(f, &s, M);
  if (f->o->minibatch && f->o->minibatch < f->n)
    s.batches = (f->n + f->o->minibatch - 1) / f->o->minibatch;
  Objective objective = {
      .dim = q_size(&f->q), .self = &s, .eval = stochastic_eval, .iteration = next_iteration};
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
  if (s.rejection && rejection_refused(s.rejection))
    ctx_fail(f->ctx, PVI_USAGE, NOWHERE,
             "no bound of the density is known: its scale varies under q; estimate it as a point "
             "(--point), or use "
             "reparameterization");
  if (s.rejection && rejection_unmatched(s.rejection))
    add_note(f, arena_format(&f->ctx->arena, "%ld times no draw was accepted for an observation",
                             rejection_unmatched(s.rejection)));
  f->fit->draws = M;
  f->fit->converged = r.converged;
  f->fit->reason = r.reason;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Which parameters are points: those of the program's variables with these names. */
static const bool *point_flags(Fitter *f) {
  const Model *m = f->model;
  bool *flags = NEW_ARRAY(&f->ctx->arena, bool, m->dim + 1);
  for (int p = 0; p < f->o->npoints; p++) {
    bool found = false;
    for (int k = 0; k < m->noutputs; k++) {
      const Output *o = &m->outputs[k];
      if (o->block != BLOCK_PARAMETERS || strcmp(o->name, f->o->points[p]) != 0) continue;
      for (int32_t i = 0; i < o->unconstrained; i++) flags[o->offset + i] = true;
      found = true;
    }
    if (!found)
      ctx_fail(f->ctx, PVI_USAGE, NOWHERE, "--point %s: the program has no such parameter",
               f->o->points[p]);
  }
  return f->o->npoints ? flags : NULL;
}

static void choose_q(Fitter *f) {
  FamilyId family = f->o->family;
  if (f->o->choose_family) {
    family = f->model->dim <= FULLRANK_MOST ? FAMILY_fullrank : FAMILY_meanfield;
    add_note(f, arena_format(&f->ctx->arena, "family %s chosen: %zu parameters (%s up to %d)",
                             family_name(family), f->model->dim, family_name(FAMILY_fullrank),
                             FULLRANK_MOST));
  }
  f->q = q_make(&f->ctx->arena, family, f->o->shape, f->model->dim, point_flags(f));
}

/* Value of the final q on fresh draws, for those ways that have not measured it, or have changed
 * phi since. */
static void measure(Fitter *f, const double *phi) {
  double se;
  fresh_value(f, objective_of(f, draws_of(f, FIRST_DRAWS), seed_of(f, SEED_FRESH)), phi, &se,
              &f->fit->value);
}

/* VI's q, or the best of the starts for predictive scores. */
static void begin(Fitter *f, double *mean, double *sd, double *phi) {
  vi_centre(f, mean, sd);
  if (f->target.score == SCORE_elbo) {
    start_at(f, mean, sd, 1, phi);
  } else {
    explore(f, mean, sd, phi);
  }
}

/* The same on a sample, and on to its optimum, before all observations are asked. They have the
 * last word: what suits the sample alone is no start for them. */
static void begin_with_few(Fitter *f, double *mean, double *sd, double *phi) {
  const Observed *train = f->train, *train_ll = f->train_ll;
  size_t M = f->o->draws ? f->o->draws : draws_of(f, FIRST_DRAWS), size = q_size(&f->q);
  f->train = f->few;
  f->train_ll = f->few_ll;
  begin(f, mean, sd, phi);
  double *start = memcpy(NEW_ARRAY(f->arena, double, size), phi, size * sizeof *phi),
         *vi = NEW_ARRAY(f->arena, double, size);
  start_at(f, mean, sd, 1, vi);
  ArenaMark mark = arena_mark(f->arena);
  run_lbfgs(f, objective_of(f, M, seed_of(f, SEED_EXPLORE)), phi, 500, 1e-7, "sample");
  arena_reset(f->arena, mark);
  f->train = train;
  f->train_ll = train_ll;
  Predictive *p = objective_of(f, M, seed_of(f, SEED_JUDGE));
  prefer(f, p, phi, start, size);
  prefer(f, p, phi, vi, size);
  arena_reset(f->arena, mark);
  add_note(f, arena_format(&f->ctx->arena, "begun on a sample of %zu of the training observations",
                           f->few->n));
}

static void run(Fitter *f) {
  size_t size = q_size(&f->q);
  double *phi = f->fit->phi = NEW_ARRAY(&f->ctx->arena, double, size);
  double *mean = NEW_ARRAY(f->arena, double, f->model->dim),
         *sd = NEW_ARRAY(f->arena, double, f->model->dim);
  (f->few == f->train ? begin : begin_with_few)(f, mean, sd, phi);
  f->best_valid = -INFINITY;
  if (f->o->select_validation) f->best_phi = NEW_ARRAY(f->arena, double, size);
  if (f->o->optimizer == OPTIM_LBFGS) {
    finish(f, phi);
  } else {
    run_stochastic(f, phi);
  }
  if (f->best_phi && isfinite(f->best_valid)) {
    memcpy(phi, f->best_phi, size * sizeof *phi);
    add_note(f, "the iterate with the best validation score was kept");
  }
  if (f->best_phi || f->o->optimizer != OPTIM_LBFGS) measure(f, phi);
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

/* Exact integration where it can be and is wanted: it is a function of phi, so not for optimizers
 * that live on fresh draws. */
static void reduce(Fitter *f, Observed *o) {
  if (f->target.integrate == INTEGRATE_DRAWS) { /* the regularizer needs none */
    observed_reduce_prior(o);
  } else {
    observed_reduce(o);
  }
}

static void choose_integration(Fitter *f) {
  Integrate *how = &f->target.integrate;
  const char *why = "it is for the optimizer lbfgs";
  if (f->o->optimizer != OPTIM_LBFGS || f->o->draws || !model_has_densities(f->model)) {
    if (*how == INTEGRATE_EXACT)
      ctx_fail(f->ctx, PVI_USAGE, NOWHERE, "--integrate exact: %s",
               f->o->draws ? "it has no draws (--draws)" : why);
    *how = INTEGRATE_DRAWS;
  }
}

/* The training part: what is the same once, and of very many a sample. */
static const Observed *training_part(Fitter *f, size_t n, unsigned wants, const Observed **few) {
  Observed *o = observed_make(f->parts, f->model, f->order, n, wants), *s = o;
  size_t most = SAMPLE_ROWS + SAMPLE_ROWS_EACH * f->model->dim;
  if (!f->o->minibatch)
    observed_collapse(
        o); /* of a batch, a share of the rows would be no share of the observations */
  if (!f->o->minibatch && o->n > SAMPLED_FROM * most)
    s = observed_sample(f->parts, o, most, seed_of(f, SEED_EXPLORE));
  reduce(f, o);
  if (!o->reduction && !f->o->minibatch) observed_sort(o);
  if (s != o) reduce(f, s);
  *few = s;
  return o;
}

static void say_integration(Fitter *f) {
  const char *why;
  if (f->target.integrate == INTEGRATE_DRAWS || exact_applies(f->train, &f->target, &f->q, &why))
    return;
  if (f->target.integrate == INTEGRATE_EXACT)
    ctx_fail(f->ctx, PVI_USAGE, NOWHERE, "--integrate exact: %s", why);
  add_note(f, arena_format(&f->ctx->arena, "integrated by draws: %s", why));
}

Fit *fit_run(Ctx *c, const Model *m, const Split *split, const FitOptions *o, Pool *pool) {
  Fit *fit = NEW(&c->arena, Fit);
  TempArena *parts = temp_open(c), *work = temp_open(c);
  Fitter f = {.ctx = c,
              .parts = &parts->arena,
              .arena = &work->arena,
              .model = m,
              .o = o,
              .target = o->target,
              .pool = pool,
              .fit = fit,
              .n = split->count[PART_TRAIN],
              .started = base_seconds(),
              .nvalid = split->count[PART_VALID]};
  if (f.target.score == SCORE_elbo) {
    f.target.regularizer = REG_PRIOR;
    f.target.lambda = 1;
  }
  const char *why;
  if (!observed_allows(c, m, f.target.score, &why)) ctx_fail(c, PVI_USAGE, NOWHERE, "%s", why);
  if (!model_has_densities(m) && f.target.regularizer == REG_POSTERIOR && f.target.lambda != 0)
    ctx_fail(c, PVI_USAGE, NOWHERE,
             "without a density there is no posterior: --regularize prior, or --lambda 0");
  choose_q(&f);
  choose_integration(&f);
  f.order = training_order(&f, split);
  unsigned wants = target_wants(&f.target);
  f.train = f.train_ll = training_part(&f, f.n, wants, &f.few);
  f.few_ll = f.few;
  if (wants != WANT_LL)
    f.train_ll = training_part(&f, model_has_densities(m) ? f.n : 0, WANT_LL, &f.few_ll);
  Observed *valid = observed_make(f.parts, m, split->rows[PART_VALID], f.nvalid, wants);
  if (f.target.integrate != INTEGRATE_DRAWS) observed_reduce(valid);
  f.valid = valid;
  say_integration(&f);
  f.valid_scores = NEW_ARRAY(f.arena, double, f.nvalid);
  run(&f);
  fit->q = f.q;
  fit->seconds = base_seconds() - f.started;
  temp_close(work);
  temp_close(parts);
  return fit;
}
