/* optim.h: optimizers. They see an Objective and nothing else, allocate once at the start, and
 * report numerical trouble as counters; `optim_run` is the one entry.
 *
 * A run can be interrupted before any evaluation and taken up again later, in another process: at
 * its last pause before that, `optim_state` has written all that the iterations to come depend on,
 * and a run that resumes from it ends with the same bits.
 */
#ifndef PVI_INFER_OPTIM_H
#define PVI_INFER_OPTIM_H

#include "base/base.h"
#include "infer/objective.h"

typedef enum {
#define OPTIMIZER(id, name, run, step, vectors, rate) OPTIM_##id,
#include "infer/optimizers.def"
#undef OPTIMIZER
  OPTIM_COUNT
} OptimKind;

typedef enum {
  SCHEDULE_CONSTANT,
  SCHEDULE_STEP,          /* a tenth of the rate after half the iterations */
  SCHEDULE_WARMUP_COSINE, /* linear from 0 over the warm-up, then a half cosine to 0 */
  SCHEDULE_COUNT
} OptimSchedule;

/* Where an optimizer stands; what the observer sees after every iteration. */
typedef struct OptimState {
  long iteration;   /* done, counted from 1 */
  long evaluations; /* of the objective, so far */
  long skipped;     /* non-finite trial points (L-BFGS) or steps left out (stochastic), so far */
  size_t dim;
  const double *phi;
  const double
      *gradient; /* L-BFGS: at phi; stochastic: where it was last evaluated, one step before phi */
  double value;  /* of the same place */
  double gradient_norm;
  double step; /* the line search's step length or the learning rate */
} OptimState;

typedef struct OptimRun OptimRun; /* a run under way */

typedef struct OptimOptions {
  OptimKind kind;
  long max_iterations;
  long max_evaluations; /* 0: no limit */
  /* stochastic only */
  double learning_rate;
  OptimSchedule schedule;
  double warmup;         /* the part of the iterations that warms up, for SCHEDULE_WARMUP_COSINE */
  double clip;           /* gradients with a larger norm are scaled down to it; 0: off */
  double gradient_scale; /* multiplies the gradient after clipping */
  /* L-BFGS only */
  size_t history;      /* pairs kept */
  bool near;           /* it begins near the optimum: curvature is worth its cost at once */
  double tol_relative; /* converged when an iteration gains less than this times max(|value|, 1),
                          ... */
  double tol_absolute; /* ... or less than this, ... */
  int tol_window;      /* ... on average over so many iterations, ... */
  double tol_gradient; /* ... or when the gradient's norm is below this */
  /* both */
  bool (*observer)(void *self, const OptimState *state); /* may be NULL; false stops the run */
  void *observer_self;
  /* Asked before every evaluation; true interrupts the run. May be NULL. */
  bool (*cancelled)(void *self);
  void *cancelled_self;
  /* Called where the run could be taken up again: before every iteration, and once more at the end
   * when it is interrupted, the run being as it was at the last pause. May be NULL. */
  void (*pause)(void *self, OptimRun *r, bool interrupted);
  void *pause_self;
  Archive *resume; /* holds what optim_state wrote at a pause of this run; NULL: begin at phi0 */
} OptimOptions;

typedef enum {
  OPTIM_CONVERGED, /* L-BFGS met a tolerance */
  OPTIM_FINISHED,  /* a stochastic optimizer did all its iterations */
  OPTIM_LIMIT,     /* the limit on iterations (L-BFGS) or on evaluations */
  OPTIM_STOPPED,   /* by the observer */
  OPTIM_INTERRUPTED,
  OPTIM_STUCK,     /* no step gains, though the gradient says one should */
  OPTIM_EDGE,      /* the same, or nearly so, because it is not finite right beyond */
  OPTIM_NOT_FINITE /* the objective is not finite at the start, or never again */
} OptimStatus;

typedef struct OptimResult {
  double *phi; /* [dim], in the arena */
  double value, gradient_norm;
  long iterations, evaluations, skipped;
  OptimStatus status;
  bool converged;     /* optim_converged(status) */
  const char *reason; /* optim_reason(status) */
} OptimResult;

OptimOptions optim_defaults(OptimKind kind);
const char *optim_name(OptimKind kind);
bool optim_find(const char *name, OptimKind *kind); /* false: no such name */
bool optim_converged(OptimStatus s);                /* it met a tolerance, or did all it had to */
const char *optim_reason(OptimStatus s);            /* one line for the user */
const char *optim_schedule_name(OptimSchedule s);
bool optim_find_schedule(const char *name, OptimSchedule *s);
double optim_rate(const OptimOptions *o, long t); /* the learning rate of iteration t = 0, 1, ... */

/* Maximises from phi0. All memory comes from the arena, before the first iteration. Where it is
 * interrupted, phi is that of the last iteration. A state to resume from that is not one of such a
 * run is bad, and the run ends at once as OPTIM_NOT_FINITE. */
OptimResult optim_run(Arena *a, const Objective *f, const double *phi0, const OptimOptions *o);
/* To be called from `pause`: all that the rest of the run depends on. */
void optim_state(OptimRun *r, Archive *a);

#endif
