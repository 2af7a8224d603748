/* optim_int.h: shared by optim.c, optim_lbfgs.c and optim_sgd.c. */
#ifndef PVI_INFER_OPTIM_INT_H
#define PVI_INFER_OPTIM_INT_H

#include "infer/optim.h"

/* One run: the problem, what is allowed, and the counts. */
typedef struct OptimRun {
  Arena *arena;
  const Objective *f;
  const OptimOptions *o;
  double *phi; /* the result in the making */
  double *grad;
  double value, gradient_norm, step;
  long iterations, evaluations, skipped;
  void *own; /* what the algorithm has besides, and how that is written and read */
  void (*own_state)(void *own, Archive *a);
  bool interrupted;
  bool paused; /* at least once; the counts were then, at the last time: */
  long paused_evaluations, paused_skipped;
} Run;

/* The state of a stochastic step: the vectors its row asks for, and how many steps were done
 * before. */
typedef struct {
  size_t dim;
  double *m, *v;
  long t;
} Step;
typedef void StepFn(Step *s, double *phi, const double *g, double rate);

OptimStatus optim_lbfgs(Run *r, StepFn *unused, int vectors);
OptimStatus optim_stochastic(Run *r, StepFn *step, int vectors);
StepFn step_adam, step_rmsprop, step_sgd, step_nesterov;

/* f(phi), counted; false (and counted as skipped) when value or gradient are not finite, and also,
 * but not counted, when the run is interrupted. */
bool optim_eval(Run *r, const double *phi, double *value, double *grad);
bool optim_out_of_evaluations(const Run *r); /* true when interrupted, too */
bool optim_observe(const Run *r);            /* false: stop */
/* At the head of every iteration. */
void optim_pause(Run *r);
/* The end of an interrupted run. An algorithm gets here with all that its own_state writes as it
 * was at the last pause; the counts are put back. */
OptimStatus optim_interrupted(Run *r);

#endif
