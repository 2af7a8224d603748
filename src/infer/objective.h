/* objective.h: what an algorithm sees of a problem: a function of phi to be maximised. */
#ifndef PVI_INFER_OBJECTIVE_H
#define PVI_INFER_OBJECTIVE_H

#include "infer/archive.h"

typedef struct Objective { /* maximise value over phi */
  size_t dim;
  void *self;
  /* Value and gradient at phi; false when not finite (then value and grad are not used). Counts
   * nothing: the optimizer counts.
   */
  bool (*eval)(void *self, const double *phi, double *value, double *grad);
  /* Optional: a diagonal D(phi) > 0 approximating the inverse of minus the Hessian, for L-BFGS's
   * H0; may be NULL. */
  void (*scale)(void *self, const double *phi, double *d);
  /* Optional. Stochastic optimizers call it before iteration t = 0, 1, ... (new draws, next
   * mini-batch); L-BFGS, for which the objective must stay the same, after it accepted iteration t.
   */
  void (*iteration)(void *self, long t);
  /* Optional: what it remembers from one evaluation to the next, where the value of the next one
   * depends on it by a rounding error. */
  void (*state)(void *self, Archive *a);
} Objective;

#endif
