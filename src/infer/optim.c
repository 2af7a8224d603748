/* optim.c: the table of optimizers and what they share. */
#include "infer/optim.h"

#include <math.h>
#include <string.h>

#include "infer/optim_int.h"
#include "num/linalg.h"

typedef OptimStatus RunFn(Run *r, StepFn *step, int vectors);

static const struct {
  const char *name;
  RunFn *run;
  StepFn *step;
  int vectors;
  double rate;
} rows[] = {
#define OPTIMIZER(id, name, run, step, vectors, rate) {name, run, step, vectors, rate},
#include "infer/optimizers.def"
#undef OPTIMIZER
};

static const char *const schedules[] = {"constant", "step", "warmup-cosine"};

static const char *const reasons[] = {
    [OPTIM_CONVERGED] = "converged",
    [OPTIM_FINISHED] = "all iterations done",
    [OPTIM_LIMIT] = "stopped at the limit on iterations or evaluations, before it converged",
    [OPTIM_STOPPED] = "stopped by its observer",
    [OPTIM_INTERRUPTED] = "interrupted",
    [OPTIM_STUCK] = "stopped because no step gains, although the gradient is not zero",
    [OPTIM_EDGE] = "stopped at the edge of where the objective is finite",
    [OPTIM_NOT_FINITE] = "stopped because the objective or its gradient is not finite at the start",
};

OptimOptions optim_defaults(OptimKind kind) {
  bool lbfgs = kind == OPTIM_LBFGS;
  return (OptimOptions){.kind = kind,
                        .max_iterations = lbfgs ? 2000 : 10000,
                        .learning_rate = rows[kind].rate,
                        .schedule = lbfgs ? SCHEDULE_CONSTANT : SCHEDULE_STEP,
                        .warmup = 0.05,
                        .gradient_scale = 1,
                        .history = 100,
                        .tol_relative = 1e-9,
                        .tol_window = 5,
                        .tol_gradient = 1e-8};
}

const char *optim_name(OptimKind kind) { return rows[kind].name; }
const char *optim_reason(OptimStatus s) { return reasons[s]; }
bool optim_converged(OptimStatus s) { return s == OPTIM_CONVERGED || s == OPTIM_FINISHED; }
const char *optim_schedule_name(OptimSchedule s) { return schedules[s]; }

bool optim_find(const char *name, OptimKind *kind) {
  for (int i = 0; i < OPTIM_COUNT; i++)
    if (strcmp(name, rows[i].name) == 0) return *kind = (OptimKind)i, true;
  return false;
}

bool optim_find_schedule(const char *name, OptimSchedule *s) {
  for (int i = 0; i < SCHEDULE_COUNT; i++)
    if (strcmp(name, schedules[i]) == 0) return *s = (OptimSchedule)i, true;
  return false;
}

double optim_rate(const OptimOptions *o, long t) {
  double n = (double)o->max_iterations, x = (double)t, warm = floor(o->warmup * n);
  switch (o->schedule) {
  case SCHEDULE_STEP: return o->learning_rate * (x < 0.5 * n ? 1 : 0.1);
  case SCHEDULE_WARMUP_COSINE:
    if (x < warm) return o->learning_rate * (x + 1) / (warm + 1);
    return o->learning_rate * 0.5 * (1 + cos(M_PI * (x - warm) / (n - warm)));
  default: return o->learning_rate;
  }
}

bool optim_eval(Run *r, const double *phi, double *value, double *grad) {
  r->interrupted = r->interrupted || (r->o->cancelled && r->o->cancelled(r->o->cancelled_self));
  if (r->interrupted) return false;
  r->evaluations++;
  bool ok = r->f->eval(r->f->self, phi, value, grad) && isfinite(*value) &&
            isfinite(la_norm(grad, r->f->dim));
  r->skipped += !ok;
  return ok;
}

bool optim_out_of_evaluations(const Run *r) {
  return r->interrupted || (r->o->max_evaluations > 0 && r->evaluations >= r->o->max_evaluations);
}

bool optim_observe(const Run *r) {
  if (!r->o->observer) return true;
  OptimState s = {.iteration = r->iterations,
                  .evaluations = r->evaluations,
                  .skipped = r->skipped,
                  .dim = r->f->dim,
                  .phi = r->phi,
                  .gradient = r->grad,
                  .value = r->value,
                  .gradient_norm = r->gradient_norm,
                  .step = r->step};
  return r->o->observer(r->o->observer_self, &s);
}

/* ---- interrupting and taking up again -------------------------------------------------------- */

void optim_pause(Run *r) {
  r->paused = true;
  r->paused_evaluations = r->evaluations;
  r->paused_skipped = r->skipped;
  if (r->o->pause) r->o->pause(r->o->pause_self, r, false);
}

OptimStatus optim_interrupted(Run *r) {
  if (!r->paused) return OPTIM_INTERRUPTED;
  r->evaluations = r->paused_evaluations;
  r->skipped = r->paused_skipped;
  if (r->o->pause) r->o->pause(r->o->pause_self, r, true);
  return OPTIM_INTERRUPTED;
}

void optim_state(OptimRun *r, Archive *a) {
  size_t dim = r->f->dim;
  archive_count(a, &dim, dim);
  a->bad |= dim != r->f->dim;
  archive_doubles(a, r->phi, dim);
  archive_doubles(a, r->grad, dim);
  archive_double(a, &r->value);
  archive_double(a, &r->gradient_norm);
  archive_double(a, &r->step);
  archive_long(a, &r->iterations);
  archive_long(a, &r->evaluations);
  archive_long(a, &r->skipped);
  r->own_state(r->own, a);
}

/* ---- a run ----------------------------------------------------------------------------------- */

OptimResult optim_run(Arena *a, const Objective *f, const double *phi0, const OptimOptions *o) {
  Run r = {.arena = a, .f = f, .o = o, .value = (double)NAN, .gradient_norm = (double)NAN};
  r.phi = NEW_ARRAY(a, double, f->dim);
  r.grad = NEW_ARRAY(a, double, f->dim);
  memcpy(r.phi, phi0, f->dim * sizeof *phi0);
  OptimStatus s = rows[o->kind].run(&r, rows[o->kind].step, rows[o->kind].vectors);
  return (OptimResult){.phi = r.phi,
                       .value = r.value,
                       .gradient_norm = r.gradient_norm,
                       .iterations = r.iterations,
                       .evaluations = r.evaluations,
                       .skipped = r.skipped,
                       .status = s,
                       .converged = optim_converged(s),
                       .reason = optim_reason(s)};
}
