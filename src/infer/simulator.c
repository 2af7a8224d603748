/* simulator.c: how a fit through a simulator goes.
 *
 *   1. q begins as the prior;
 *   2. a stochastic optimizer, with fresh noise and the next mini-batch in every iteration, does
 * all its iterations; or L-BFGS converges on fixed noise;
 *   3. noise that the optimizer has not seen has the last word. After a stochastic optimizer it
 * says whether the last eighth of the way still gained, after L-BFGS whether the objective is as
 *      good there: if not, and the number of draws is free, there are four times as many.
 *
 * Runs of the optimizer and evaluations are steps of a journal, as those of a fit are (steps.c): an
 * interrupted fit that is given its journal ends with the bits of an undisturbed one.
 */
#include "infer/simulated.h"

#include "infer/journal_int.h"
#include "num/rng.h"

#include <math.h>
#include <string.h>

enum { FRESH_SETS = 8, MOST_DRAWS = 4096, SEED_FIXED = 11, SEED_FRESH = 12, SEED_STEP = 100 };

typedef struct {
  Ctx *c;
  const Simulator *s;
  const SimulatorOptions *o;
  Arena *arena;
  Pool *pool;
  SimulatorFit *fit;
  Simulated *f; /* of the run under way */
  double *late; /* phi when seven eighths of the iterations of a stochastic optimizer were done */
  long planned;
  bool live; /* the journal knows no more steps */
  double started;
} Course;

static uint64_t seed_of(const Course *k, uint64_t what) {
  return rng_mix(k->o->seed + rng_mix(what));
}

static bool stochastic(const SimulatorOptions *o) { return o->optimizer != OPTIM_LBFGS; }

/* ---- the journal ----------------------------------------------------------------------------- */

_Noreturn static void refuse_journal(const Course *k) {
  ctx_fail(k->c, PVI_DATA, NOWHERE,
           "the fit cannot be resumed from its checkpoint: that is of another fit, with another "
           "simulator, other data or other options");
}

static uint64_t bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/* Whatever makes results differ, as far as it can be seen from outside of the simulator. */
static uint64_t identity(const Simulator *s, const SimulatorOptions *o) {
  uint64_t h = 1;
  const uint64_t numbers[] = {
      s->dim, s->n,         s->width,    s->noises,    o->score,          o->family,
      o->M,   o->optimizer, o->schedule, o->minibatch, (uint64_t)o->seed, (uint64_t)o->iterations};
  const double reals[] = {s->noise_sd, o->lambda, o->learning_rate, o->clip};
  for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) h = rng_mix(h ^ numbers[k]);
  for (size_t k = 0; k < sizeof reals / sizeof *reals; k++) h = rng_mix(h ^ bits_of(reals[k]));
  for (size_t k = 0; k < s->n * s->width; k++) h = rng_mix(h ^ bits_of(s->y[k]));
  return h;
}

/* All steps so far, the state of the run under way (NULL: none), and the late phi in the place of
 * the best one. */
static void capture(Course *k, OptimRun *run) {
  Journal *j = k->o->journal;
  size_t size = q_size(&k->fit->q);
  j->captured = j->nsteps;
  j->seconds = base_seconds() - k->started;
  j->run.n = 0;
  if (run) {
    Archive a = archive_writer(&j->run);
    optim_state(run, &a);
  }
  if (!k->late) return;
  if (j->nbest != size) j->best_phi = NEW_ARRAY(j->arena, double, size);
  j->nbest = size;
  memcpy(j->best_phi, k->late, size * sizeof *k->late);
}

static void open_journal(Course *k) {
  Journal *j = k->o->journal;
  if (!j) return;
  if (!journal_open(j, identity(k->s, k->o))) refuse_journal(k);
  k->started -= j->seconds;
}

/* The result of the next step where it is known; *resume: else, is it the run that was under way?
 */
static const JournalStep *recorded(Course *k, StepKind kind, bool *resume) {
  Journal *j = k->o->journal;
  *resume = false;
  if (!j || k->live) return NULL;
  const JournalStep *s = journal_next(j);
  if (s && (s->kind != kind || (kind == STEP_RUN && s->dim != q_size(&k->fit->q))))
    refuse_journal(k);
  if (s) return s;
  k->live = true;
  *resume = j->run.n > 0;
  if (*resume && kind != STEP_RUN) refuse_journal(k);
  return NULL;
}

static void record(Course *k, const JournalStep *s) {
  Journal *j = k->o->journal;
  if (!j) return;
  journal_add(j, s);
  if (!journal_due(j)) return;
  capture(k, NULL);
  journal_save(j);
}

static void pause_run(void *self, OptimRun *run, bool interrupted) {
  Course *k = self;
  if (!interrupted && !journal_due(k->o->journal)) return;
  capture(k, run);
  journal_save(k->o->journal);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void reach(void *self, const double *phi, double *d) {
  const Course *k = self;
  q_reach(&k->fit->q, phi, d);
}

static bool evaluate(void *self, const double *phi, double *value, double *grad) {
  const Course *k = self;
  PredictiveValue v;
  bool ok = simulated_eval(k->f, phi, &v, grad);
  *value = v.value;
  return ok;
}

static void next_iteration(void *self, long t) {
  Course *k = self;
  if (!stochastic(k->o)) return;
  simulated_renew(k->f, seed_of(k, SEED_STEP + (uint64_t)t));
  simulated_batch(k->f, t);
}

static bool observe(void *self, const OptimState *s) {
  Course *k = self;
  if (k->late && s->iteration == k->planned - k->planned / 8)
    memcpy(k->late, s->phi, s->dim * sizeof *s->phi);
  if (k->o->progress)
    k->o->progress(k->o->progress_self,
                   &(FitProgress){.stage = "fit",
                                  .iterations = s->iteration,
                                  .total = stochastic(k->o) ? k->planned : 0,
                                  .evaluations = k->fit->evaluations + s->evaluations,
                                  .objective = s->value,
                                  .seconds = base_seconds() - k->started});
  return true;
}

static OptimOptions optim_options(Course *k) {
  const SimulatorOptions *o = k->o;
  OptimOptions r = optim_defaults(o->optimizer);
  r.max_iterations = o->iterations ? o->iterations : stochastic(o) ? 2000 : 500;
  r.tol_relative = 1e-6; /* absolute values have kinks; noise sets the limit anyway */
  if (o->learning_rate > 0) r.learning_rate = o->learning_rate;
  r.schedule = o->schedule;
  r.clip = o->clip;
  r.observer = observe;
  r.cancelled = o->cancelled;
  r.cancelled_self = o->cancelled_self;
  r.pause = o->journal ? pause_run : NULL;
  r.observer_self = r.pause_self = k;
  return r;
}

/* phi becomes the optimizer's; false: it was interrupted. */
static bool optimize(Course *k, double *phi, OptimResult *result) {
  bool resume;
  size_t size = q_size(&k->fit->q);
  const Journal *j = k->o->journal;
  const JournalStep *known = recorded(k, STEP_RUN, &resume);
  if (k->late && j && j->nbest == size) memcpy(k->late, j->best_phi, size * sizeof *phi);
  OptimOptions o = optim_options(k);
  Text state = text_make(k->arena); /* a copy: the journal's own is written to from now on */
  if (resume) text_add(&state, j->run.s, j->run.n);
  Archive in = archive_reader(state.s, state.n);
  o.resume = resume ? &in : NULL;
  k->planned = o.max_iterations;
  Objective objective = {
      .dim = size, .self = k, .eval = evaluate, .iteration = next_iteration, .reach = reach};
  *result = known ? known->run : optim_run(k->arena, &objective, phi, &o);
  if (in.bad || in.left) refuse_journal(k);
  memmove(phi, result->phi, size * sizeof *phi);
  k->fit->evaluations += result->evaluations;
  k->fit->iterations += result->iterations;
  if (isfinite(result->value)) k->fit->value.value = result->value;
  if (result->status == OPTIM_INTERRUPTED) return false;
  if (!known) record(k, &(JournalStep){.kind = STEP_RUN, .run = *result, .dim = size});
  return true;
}

/* The value at phi, -inf where it is not finite; false: interrupted. */
static bool value_at(Course *k, Simulated *f, const double *phi, double *value) {
  bool resume;
  const JournalStep *known = recorded(k, STEP_EVALUATION, &resume);
  PredictiveValue v = {.value = -INFINITY};
  if (!known && k->o->cancelled && k->o->cancelled(k->o->cancelled_self)) {
    if (k->o->journal) capture(k, NULL), journal_save(k->o->journal);
    return false;
  }
  k->fit->evaluations++;
  bool finite = known ? known->finite : simulated_eval(f, phi, &v, NULL);
  if (known) v = known->value;
  *value = finite ? v.value : -INFINITY;
  if (!known) record(k, &(JournalStep){.kind = STEP_EVALUATION, .finite = finite, .value = v});
  return true;
}

/* ---- verdicts -------------------------------------------------------------------------------- */

/* What the fit is worth on noise of its own: value and scores. */
static void measure(Course *k, Simulated *f, const double *phi) {
  simulated_batch(f, -1);
  simulated_renew(f, seed_of(k, SEED_FRESH));
  k->fit->evaluations++;
  PredictiveValue nothing = {NAN, NAN, NAN};
  if (!simulated_eval(f, phi, &k->fit->value, NULL)) k->fit->value = nothing;
  memcpy(k->fit->scores, simulated_scores(f), k->s->n * sizeof *k->fit->scores);
}

/* Differences that do not matter: a twentieth of the standard error that the sum of scores has as
 * an estimate of the population's. */
static double tolerated(const Course *k) {
  size_t n = k->s->n;
  double mean = 0, ss = 0;
  for (size_t i = 0; i < n; i++) mean += k->fit->scores[i] / (double)n;
  for (size_t i = 0; i < n; i++) ss += (k->fit->scores[i] - mean) * (k->fit->scores[i] - mean);
  double sd = n > 1 ? sqrt(ss / (double)(n - 1)) : fabs(mean);
  return 0.05 * sqrt((double)n) * sd;
}

typedef struct {
  double mean, error;
} Estimate;

static Estimate estimate(const double *x) {
  double mean = 0, ss = 0;
  for (int r = 0; r < FRESH_SETS; r++) mean += x[r] / FRESH_SETS;
  for (int r = 0; r < FRESH_SETS; r++) ss += (x[r] - mean) * (x[r] - mean);
  return (Estimate){mean, sqrt(ss / (FRESH_SETS * (FRESH_SETS - 1)))};
}

/* On FRESH_SETS sets of noise: the value at phi, or its gain over `before`; false: interrupted. */
static bool on_fresh_noise(Course *k, Simulated *f, const double *phi, const double *before,
                           Estimate *e) {
  double x[FRESH_SETS], other = 0;
  for (int r = 0; r < FRESH_SETS; r++) {
    simulated_renew(f, seed_of(k, SEED_FRESH + 1 + (uint64_t)r));
    if (!value_at(k, f, phi, &x[r])) return false;
    if (before && !value_at(k, f, before, &other)) return false;
    x[r] -= other;
  }
  *e = estimate(x);
  return true;
}

/* phi and a step of this length along the gradient, lengths being measured by the widths of q. */
typedef struct {
  const double *phi, *grad, *reach;
  double longest; /* of the gradient */
} Slope;

static void step_along(const Slope *s, size_t n, double length, double *there) {
  for (size_t i = 0; i < n; i++)
    there[i] = s->phi[i] + length * s->reach[i] * s->reach[i] * s->grad[i] / s->longest;
}

/* A schedule ends in small steps, and a small rate makes no others: that the last iterations gained
 * nothing does not mean that nothing is left. So the gradient is followed from where they ended:
 * the length that gains most on one set of noise is judged on others. False: interrupted. */
static bool left_to_gain(Course *k, const double *phi, Estimate *gain) {
  static const double lengths[] = {0.003, 0.01, 0.03, 0.1, 0.3, 1};
  Arena *a = &k->c->arena;
  size_t n = q_size(&k->fit->q);
  double *grad = NEW_ARRAY(a, double, n), *there = NEW_ARRAY(a, double, n),
         *room = NEW_ARRAY(a, double, n), best = 0, most = 0, here, value;
  PredictiveValue v;
  Slope s = {phi, grad, room, 0};
  *gain = (Estimate){0, 0};
  simulated_renew(k->f, seed_of(k, SEED_FRESH));
  if (!simulated_eval(k->f, phi, &v, grad)) return true;
  q_reach(&k->fit->q, phi, room);
  for (size_t i = 0; i < n; i++) s.longest = fmax(s.longest, fabs(grad[i]) * room[i]);
  if (!(s.longest > 0)) return true;
  if (!value_at(k, k->f, phi, &here)) return false;
  for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
    step_along(&s, n, lengths[l], there);
    if (!value_at(k, k->f, there, &value)) return false;
    if (value - here > most) most = value - here, best = lengths[l];
  }
  if (!(most > 0)) return true;
  step_along(&s, n, best, there);
  return on_fresh_noise(k, k->f, there, phi, gain);
}

/* Did the last eighth gain? By then the usual schedule has the rate at a twenty-fifth, so that what
 * is gained is no longer that its noise dies down. */
static bool judge_stochastic(Course *k, const OptimResult *r, const double *phi) {
  Estimate gain;
  SimulatorFit *fit = k->fit;
  fit->reason = r->status == OPTIM_NOT_FINITE
                    ? "stopped because the objective or its gradient was not finite many times in "
                      "a row; try a smaller " OPTION("learning-rate")
                    : r->reason;
  measure(k, k->f, phi);
  if (r->status != OPTIM_FINISHED) return true;
  if (!on_fresh_noise(k, k->f, phi, k->late, &gain)) return false;
  double allowed = tolerated(k);
  fit->converged = fabs(gain.mean) <= 2 * gain.error + allowed && gain.error <= allowed;
  fit->reason = arena_format(
      &k->c->arena,
      "all %ld iterations done; by %d fresh sets of noise their last eighth gained %.2g (standard "
      "error %.2g)%s",
      r->iterations, FRESH_SETS, gain.mean, gain.error,
      fit->converged
          ? ""
          : ": more iterations or " OPTION("draws") ", or another " OPTION("learning-rate"));
  if (!fit->converged) return true;
  if (!left_to_gain(k, phi, &gain)) return false;
  if (gain.mean <= 2 * gain.error + allowed) return true;
  fit->converged = false;
  fit->reason = arena_format(
      &k->c->arena,
      "all %ld iterations done, but one step along the gradient still gains "
      "%.2g (standard error %.2g): more iterations, or a larger " OPTION("learning-rate"),
      r->iterations, gain.mean, gain.error);
  return true;
}

/* Is phi as good on other noise as on the optimizer's? */
static bool judge_fixed(Course *k, const OptimResult *r, const double *phi, bool *agree) {
  Estimate fresh;
  SimulatorFit *fit = k->fit;
  measure(k, k->f, phi);
  if (!on_fresh_noise(k, k->f, phi, NULL, &fresh)) return false;
  double allowed = tolerated(k), gap = r->value - fresh.mean;
  *agree = gap <= 2 * fresh.error + allowed && fresh.error <= allowed;
  fit->converged = r->converged && *agree;
  fit->reason = r->reason;
  if (r->converged)
    fit->reason = arena_format(
        &k->c->arena,
        *agree
            ? "converged on %zu draws; %d fresh sets of noise differ by %.2g (standard error %.2g)"
            : "converged on %zu draws, but %d fresh sets of noise give %.2g less (standard error "
              "%.2g): more " OPTION("draws"),
        fit->draws, FRESH_SETS, gap, fresh.error);
  return true;
}

/* ---- the course ------------------------------------------------------------------------------ */

static bool course_stochastic(Course *k, double *phi) {
  OptimResult r;
  k->fit->draws = k->o->M ? k->o->M : 64;
  k->late = memcpy(NEW_ARRAY(k->arena, double, q_size(&k->fit->q)), phi,
                   q_size(&k->fit->q) * sizeof *phi);
  k->f = simulated_make(k->arena, k->s, k->o, &k->fit->q, k->fit->draws, k->pool);
  return optimize(k, phi, &r) && judge_stochastic(k, &r, phi);
}

static bool course_fixed(Course *k, double *phi) {
  for (size_t M = k->o->M ? k->o->M : 256;; M *= 4) {
    OptimResult r;
    bool agree;
    ArenaMark mark = arena_mark(k->arena);
    k->fit->draws = M;
    k->f = simulated_make(k->arena, k->s, k->o, &k->fit->q, M, k->pool);
    simulated_renew(k->f, seed_of(k, SEED_FIXED + M));
    if (!optimize(k, phi, &r) || !judge_fixed(k, &r, phi, &agree)) return false;
    arena_reset(k->arena, mark);
    if (agree || k->o->M || 4 * M > MOST_DRAWS) return true;
  }
}

static void check_score(Ctx *c, const Simulator *s, const SimulatorOptions *o) {
  unsigned needs = score_needs(o->score);
  if (!(needs & (NEEDS_SIM | NEEDS_VECTOR_SIM)))
    ctx_fail(
        c, PVI_USAGE, NOWHERE,
        "a simulator is scored by crps_sim, crps_pairs, interval_sim, energy or mmd, not by %s",
        score_name(o->score));
  if (needs & NEEDS_SIM && s->width != 1)
    ctx_fail(c, PVI_USAGE, NOWHERE, "outcomes of %zu numbers are scored by energy or mmd",
             s->width);
  if (s->simulate_one && needs & NEEDS_SIM && o->score != SCORE_crps_sim)
    ctx_fail(
        c, PVI_USAGE, NOWHERE,
        "outcomes that serve all observations are scored by energy, mmd or crps_sim, not by %s",
        score_name(o->score));
}

static void check(Ctx *c, const Simulator *s, const SimulatorOptions *o) {
  check_score(c, s, o);
  if (o->M == 1)
    ctx_fail(
        c, PVI_USAGE, NOWHERE,
        "scores by simulation compare pairs of outcomes; " OPTION("draws") " must be 2 or more");
  if (!s->simulate_one && family_of(o->family)->weights)
    ctx_fail(c, PVI_USAGE, NOWHERE,
             "draws of a %s have weights, which only outcomes that serve all observations "
             "(simulate_one) can carry; take another family",
             family_name(o->family));
  if (!s->simulate_one && o->minibatch)
    ctx_fail(
        c, PVI_USAGE, NOWHERE,
        "mini-batches need outcomes that serve all observations (simulate_one): simulate makes "
        "outcomes of every observation at once");
  if (o->minibatch && !stochastic(o))
    ctx_fail(c, PVI_USAGE, NOWHERE,
             OPTION("minibatch") " goes with a stochastic optimizer, not with lbfgs");
}

SimulatorFit *simulator_fit(Ctx *c, const Simulator *s, const SimulatorOptions *o) {
  check(c, s, o);
  TempArena *work = temp_open(c);
  SimulatorFit *fit = NEW(&c->arena, SimulatorFit);
  fit->q = q_make(&c->arena, o->family, o->shape, s->dim, NULL);
  fit->phi = NEW_ARRAY(&c->arena, double, q_size(&fit->q));
  fit->scores = NEW_ARRAY(&c->arena, double, s->n);
  fit->value = (PredictiveValue){NAN, NAN, NAN};
  Course k = {.c = c,
              .s = s,
              .o = o,
              .arena = &work->arena,
              .pool = pool_make(c, o->threads),
              .fit = fit,
              .started = base_seconds()};
  q_start(&fit->q, fit->phi, s->prior_mean, s->prior_sd);
  open_journal(&k);
  if (!(stochastic(o) ? course_stochastic : course_fixed)(&k, fit->phi)) {
    fit->interrupted = true;
    fit->converged = false;
    fit->reason = "interrupted";
  }
  pool_free(k.pool);
  temp_close(work);
  return fit;
}
