/* optim_int.h: shared by optim.c, optim_lbfgs.c and optim_sgd.c. */
#ifndef PVI_INFER_OPTIM_INT_H
#define PVI_INFER_OPTIM_INT_H

#include "infer/optim.h"

/* One run: the problem, what is allowed, and the counts. */
typedef struct {
  Arena *arena;
  const Objective *f;
  const OptimOptions *o;
  double *phi; /* the result in the making */
  double *grad;
  double value, gradient_norm, step;
  long iterations, evaluations, skipped;
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

/* f(phi), counted; false (and counted as skipped) when value or gradient are not finite. */
bool optim_eval(Run *r, const double *phi, double *value, double *grad);
bool optim_out_of_evaluations(const Run *r);
bool optim_observe(const Run *r); /* false: stop */

#endif
