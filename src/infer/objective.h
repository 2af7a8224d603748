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
  /* Optional: x becomes H0 x, H0(phi) symmetric, positive definite and about the inverse of minus
   * the Hessian: where L-BFGS begins. May be NULL. */
  void (*precondition)(void *self, const double *phi, double *x);
  /* Optional: where the objective is highest if it is what its gradient at phi says it may be
   * (Family.leap); false: that is nothing. May be NULL. */
  bool (*leap)(void *self, const double *phi, const double *grad, double *to);
  /* Optional: A becomes minus the Hessian at phi, dim x dim, about, not always positive definite;
   * returns what that cost in evaluations, 0: it is not to be had. May be NULL. */
  long (*curvature)(void *self, const double *phi, double *A);
  /* Optional, where curvature is not: a cheap objective whose second derivatives are zero where
   * those of this one are. L-BFGS then takes the Hessian from differences of gradients, where few
   * are enough (sparse_hessian.h). unit, which goes with it: the unit of every number of phi, a
   * small part of which is a step of a difference. */
  const struct Objective *probe;
  void (*unit)(void *self, const double *phi, double *d);
  /* Optional, where curvature is not: about the same objective, one evaluation of which costs the
   * part few_price of one of this. Where few differences are not enough and L-BFGS is slow, it
   * takes one of its gradients for every number of phi; where it is close enough (few_close), these
   * few are of its gradients, too. It goes with unit. */
#define MOST_FEW_NUMBERS 600
  const struct Objective *few;
  double few_price;
  bool few_close;
  /* Optional: how far one iteration of L-BFGS may move every number of phi, all > 0. Where the
   * start is far off, gradients are enormous and any point at all gains: without a limit the first
   * step would end in another world. May be NULL. */
  void (*reach)(void *self, const double *phi, double *d);
  /* Optional. Stochastic optimizers call it before iteration t = 0, 1, ... (new draws, next
   * mini-batch); L-BFGS, for which the objective must stay the same, after it accepted iteration t.
   */
  void (*iteration)(void *self, long t);
  /* Optional: what it remembers from one evaluation to the next, where the value of the next one
   * depends on it by a rounding error. */
  void (*state)(void *self, Archive *a);
} Objective;

#endif
