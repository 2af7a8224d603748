/* steps.c: the steps of a fit: one evaluation of an objective, or one run of an optimizer.
 *
 * With a journal, a step that was done by an earlier process is not done again: its result is
 * there. The first step that is not there is done from where the journal was captured: an optimizer
 * run goes on from its state, and the objectives in use remember what they did then. Interruptions
 * happen here, too: fit->phi becomes the best q so far, and the course is left by a jump.
 */
#include "infer/fit_int.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- objectives in use ----------------------------------------------------------------------- */

void fit_remember(Fitter *f, void *self, void (*state)(void *self, Archive *a)) {
  assert(f->nmemories < MOST_MEMORIES);
  f->memories[f->nmemories++] = (Memory){f->made++, self, state};
}

Predictive *fit_objective_of(Fitter *f, const Observed *o, const Target *t, const Q *q,
                             NoiseSet noise) {
  bool apart = f->apart && o == f->train && q == &f->q;
  Predictive *p = apart
                      ? predictive_of_parts(f->arena, f->apart, f->o->nparts, t, q, noise, f->pool)
                      : predictive_make(f->arena, o, t, q, noise, f->pool);
  predictive_set_units(p, f->unit);
  if (q == &f->q && t->score != SCORE_elbo) predictive_set_vi(p, f->vi);
  fit_remember(f, p, predictive_objective(p).state);
  return p;
}

Predictive *fit_objective(Fitter *f, size_t M, uint64_t seed) {
  return fit_objective_of(f, f->train, &f->target, &f->q, (NoiseSet){M, seed});
}

FitMark fit_mark(const Fitter *f) { return (FitMark){arena_mark(f->arena), f->nmemories}; }

void fit_release(Fitter *f, FitMark mark) {
  arena_reset(f->arena, mark.arena);
  f->nmemories = mark.memories;
}

/* ---- the journal ----------------------------------------------------------------------------- */

_Noreturn static void refuse_journal(const Fitter *f) {
  ctx_fail(f->ctx, PVI_DATA, NOWHERE,
           "the fit cannot be resumed from its journal: that is of another fit, with another "
           "program, other data or other options");
}

/* Of every objective in use its number and its state. */
static void write_memories(Fitter *f, Text *out) {
  out->n = 0;
  Archive a = archive_writer(out);
  for (int k = 0; k < f->nmemories; k++) {
    Memory m = f->memories[k];
    Archive one = archive_writer(&f->one);
    f->one.n = 0;
    m.state(m.self, &one);
    archive_long(&a, &m.number);
    archive_bytes(&a, &f->one);
  }
}

/* An objective that was in use when the journal was captured, and is in use again, gets its memory
 * back. One that was made later has no memory yet. */
static void read_memories(Fitter *f, const Text *from) {
  Archive a = archive_reader(from->s, from->n);
  while (a.left && !a.bad) {
    long number = -1;
    archive_long(&a, &number);
    archive_bytes(&a, &f->one);
    for (int k = 0; k < f->nmemories; k++) {
      const Memory *m = &f->memories[k];
      Archive one = archive_reader(f->one.s, f->one.n);
      if (m->number != number) continue;
      m->state(m->self, &one);
      if (one.bad || one.left) refuse_journal(f);
    }
  }
  if (a.bad) refuse_journal(f);
}

static void append_trace(Journal *j, const Fit *fit) {
  for (size_t k = j->ntrace; k < fit->ntrace; k++)
    PUSH(j->arena, j->trace, j->ntrace, j->cap_trace, fit->trace[k]);
}

static void keep_best(Journal *j, const Fitter *f) {
  size_t size = q_size(&f->q);
  if (j->nbest != size) j->best_phi = NEW_ARRAY(j->arena, double, size);
  j->nbest = size;
  memcpy(j->best_phi, f->best_phi, size * sizeof *j->best_phi);
  j->best_valid = f->best_valid;
}

/* The journal becomes what a later process needs: all steps so far, and of the run under way (NULL:
 * none) its state at the last pause, with what the objectives remembered then. */
static void capture(Fitter *f, OptimRun *r) {
  Journal *j = f->o->journal;
  j->captured = j->nsteps;
  j->seconds = base_seconds() - f->started;
  j->run.n = 0;
  if (r) {
    Archive a = archive_writer(&j->run);
    optim_state(r, &a);
    j->memories.n = 0;
    text_add(&j->memories, f->paused.s, f->paused.n);
  } else {
    write_memories(f, &j->memories);
  }
  append_trace(j, f->fit);
  if (f->best_phi && isfinite(f->best_valid)) keep_best(j, f);
}

/* The result of the next step, where it is known. Otherwise the step is to be done; before the
 * first such one, everything becomes as it was when the journal was captured. *resume: is it the
 * run that was under way then? */
static const JournalStep *recorded(Fitter *f, StepKind kind, size_t dim, bool *resume) {
  Journal *j = f->o->journal;
  *resume = false;
  if (!j) return NULL;
  const JournalStep *s = journal_next(j);
  if (s && (s->kind != kind || (kind == STEP_RUN && s->dim != dim))) refuse_journal(f);
  if (s || f->live) return s;
  f->live = true;
  if (j->run.n && kind != STEP_RUN) refuse_journal(f);
  read_memories(f, &j->memories);
  *resume = j->run.n > 0;
  return NULL;
}

static void record(Fitter *f, const JournalStep *s) {
  Journal *j = f->o->journal;
  if (!j) return;
  journal_add(j, s);
  if (!journal_due(j)) return;
  capture(f, NULL);
  journal_save(j);
}

void fit_open_journal(Fitter *f, uint64_t identity) {
  Journal *j = f->o->journal;
  if (!j) return;
  if (!journal_open(j, identity)) refuse_journal(f);
  f->started -= j->seconds;
  for (size_t k = 0; k < j->ntrace; k++)
    PUSH(&f->ctx->arena, f->fit->trace, f->fit->ntrace, f->fit->cap_trace, j->trace[k]);
}

/* ---- interruptions --------------------------------------------------------------------------- */

/* phi, of q, becomes the fit's: as it is, or, where q is VI's, by its mean and standard deviation.
 */
static void take_phi(Fitter *f, const Q *q, const double *phi) {
  size_t dim = f->model->dim;
  f->has_phi = true;
  if (q == &f->q) {
    memmove(f->fit->phi, phi, q_size(q) * sizeof *phi);
    return;
  }
  double *mean = NEW_ARRAY(f->arena, double, dim), *sd = NEW_ARRAY(f->arena, double, dim);
  q_moments(q, phi, mean, sd);
  for (size_t k = 0; k < dim; k++) sd[k] = sd[k] > 0 ? sd[k] : 0.01; /* q is a point */
  q_start(&f->q, f->fit->phi, mean, sd);
}

_Noreturn static void interrupt(Fitter *f) {
  if (f->o->journal) {
    if (!f->captured) capture(f, NULL);
    journal_save(f->o->journal);
  }
  longjmp(f->interrupted, 1);
}

/* ---- one evaluation -------------------------------------------------------------------------- */

bool fit_evaluate(Fitter *f, Predictive *p, const double *phi, PredictiveValue *v) {
  bool resume;
  const JournalStep *known = recorded(f, STEP_EVALUATION, 0, &resume);
  if (known) {
    f->fit->evaluations++;
    *v = known->value;
    return known->finite;
  }
  if (f->o->cancelled && f->o->cancelled(f->o->cancelled_self)) {
    if (!f->has_phi) take_phi(f, predictive_q(p), phi);
    interrupt(f);
  }
  f->fit->evaluations++;
  bool finite = predictive_eval(p, phi, v, NULL);
  record(f, &(JournalStep){.kind = STEP_EVALUATION, .finite = finite, .value = *v});
  return finite;
}

double fit_number(Fitter *f, double x) {
  bool resume;
  const JournalStep *known = recorded(f, STEP_EVALUATION, 0, &resume);
  if (known) return known->value.value;
  record(f, &(JournalStep){.kind = STEP_EVALUATION, .value = {.value = x}});
  return x;
}

/* Fixed draws are compared with fresh ones, and nodes with more, after every so many iterations. */
enum { WATCH_ITERATIONS = 25 };

/* ---- one run of an optimizer ----------------------------------------------------------------- */

/* Validation score of an iterate, by the score that is being optimized, on few draws: enough to
 * compare iterates. */
static double validate(Fitter *f, const double *phi) {
  NoiseSet noise = {1024, fit_seed(f, SEED_JUDGE)};
  predictive_scores(
      f->ctx, &(Scoring){.o = f->valid, .q = &f->q, .phi = phi, .noise = noise, .pool = f->pool},
      predictive_target(f->running), f->valid_scores);
  double s = 0;
  for (size_t k = 0; k < f->nvalid; k++) s += f->valid_scores[k];
  return s;
}

/* The phi of an iterate. */
static const double *whole(const Fitter *f, const double *x) {
  return f->within ? subspace_phi(f->within, x) : x;
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
                  s->step,
                  f->validates ? validate(f, whole(f, s->phi)) : NAN};
  PUSH(&f->ctx->arena, f->fit->trace, f->fit->ntrace, f->fit->cap_trace, row);
  if (f->o->progress)
    f->o->progress(f->o->progress_self,
                   &(FitProgress){.stage = f->stage,
                                  .iterations = s->iteration,
                                  .total = f->planned,
                                  .evaluations = f->fit->evaluations + s->evaluations,
                                  .objective = s->value,
                                  .seconds = row.seconds});
  if (f->best_phi && row.validation > f->best_valid) {
    f->best_valid = row.validation;
    memcpy(f->best_phi, whole(f, s->phi), q_size(&f->q) * sizeof *f->best_phi);
  }
  if (v.score > f->memorised) return false;
  if (f->arrived && f->arrived(f->arrived_self, whole(f, s->phi), s->value)) return false;
  bool look = (f->watched || f->twice) && s->iteration % WATCH_ITERATIONS == 0;
  return !look || !fit_exploits(f, whole(f, s->phi), s->value);
}

/* What objectives remember changes with every evaluation of the line search, so it is kept at every
 * pause; the optimizer itself changes only from pause to pause. */
static void pause_run(void *self, OptimRun *r, bool interrupted) {
  Fitter *f = self;
  if (interrupted) {
    capture(f, r);
    f->captured = true;
    return;
  }
  write_memories(f, &f->paused);
  if (!journal_due(f->o->journal)) return;
  capture(f, r);
  journal_save(f->o->journal);
}

static OptimResult run(Fitter *f, const Objective *objective, const double *phi, OptimOptions *o,
                       bool resume) {
  const Journal *j = f->o->journal;
  Text state = text_make(f->arena); /* a copy, for the journal's own is written to from now on */
  if (resume) text_add(&state, j->run.s, j->run.n);
  Archive in = archive_reader(state.s, state.n);
  o->observer = observe;
  o->observer_self = f;
  o->cancelled = f->o->cancelled;
  o->cancelled_self = f->o->cancelled_self;
  o->pause = j ? pause_run : NULL;
  o->pause_self = f;
  o->resume = resume ? &in : NULL;
  f->planned = o->kind == OPTIM_LBFGS ? 0 : o->max_iterations; /* L-BFGS: no telling how long */
  OptimResult r = optim_run(f->arena, objective, phi, o);
  if (in.bad || in.left) refuse_journal(f);
  return r;
}

OptimResult fit_optimize(Fitter *f, Predictive *p, const Objective *objective, double *phi,
                         OptimOptions *o, const char *stage) {
  bool resume;
  const JournalStep *known = recorded(f, STEP_RUN, objective->dim, &resume);
  f->running = p;
  f->stage = stage;
  OptimResult r = known ? known->run : run(f, objective, phi, o, resume);
  f->fit->evaluations += r.evaluations;
  f->fit->iterations += r.iterations;
  f->fit->skipped += r.skipped;
  if (r.status == OPTIM_INTERRUPTED) {
    if (!f->keep_phi) take_phi(f, predictive_q(p), whole(f, r.phi));
    interrupt(f);
  }
  memcpy(phi, r.phi, objective->dim * sizeof *phi);
  if (!known) record(f, &(JournalStep){.kind = STEP_RUN, .run = r, .dim = objective->dim});
  return r;
}

/* The same part of another objective of q. */
static const Objective *part_of(Fitter *f, const Predictive *p, const Objective *whole_of,
                                const double *phi, Objective *part) {
  *part = subspace_objective(subspace_make(f->arena, predictive_q(p), f->o->free, whole_of, phi));
  return part;
}

OptimResult fit_lbfgs(Fitter *f, Predictive *p, double *phi, long iterations, double tolerance,
                      const char *stage) {
  Objective objective = predictive_objective(p);
  OptimOptions o = optim_defaults(OPTIM_LBFGS);
  o.max_iterations = iterations;
  o.max_evaluations = 20 + 4 * iterations; /* of which a few are one iteration's, on average */
  o.tol_relative = tolerance;
  /* On draws or quasi-random points, gains far below their own noise are not worth an iteration. */
  if (!predictive_is_exact(p) || exact_is_sampled(f->train))
    o.tol_absolute = 1e-5 * fit_tolerated_gap(f);
  /* One of many neighbouring fits is compared with the others by what it predicts of few data. */
  if (f->o->rough) o.tol_absolute = 4e-3 * fit_tolerated_gap(f);
  o.near = f->o->rough || f->near;
  if (!f->o->free) return fit_optimize(f, p, &objective, phi, &o, stage);
  Subspace *part = subspace_make(f->arena, predictive_q(p), f->o->free, &objective, phi);
  Objective of_part = subspace_objective(part), of_probe, of_few;
  if (objective.probe) of_part.probe = part_of(f, p, objective.probe, phi, &of_probe);
  if (objective.few) of_part.few = part_of(f, p, objective.few, phi, &of_few);
  of_part.few_price = objective.few_price;
  double *x = NEW_ARRAY(f->arena, double, of_part.dim + 1);
  subspace_start(part, x);
  f->within = part;
  OptimResult r = fit_optimize(f, p, &of_part, x, &o, stage);
  f->within = NULL;
  memcpy(phi, subspace_phi(part, x), objective.dim * sizeof *phi);
  return r;
}
