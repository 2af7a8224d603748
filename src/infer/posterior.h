/* posterior.h: the log density of the posterior and its gradient, at many points in one visit.
 *
 *     log density = prior + Jacobians of the constraints + likelihood of the observations,
 *
 * with all constants. Points are the lanes of one tape, so a point costs a fraction of what it
 * would alone; what comes out for a point does not depend on the others.
 */
#ifndef PVI_POSTERIOR_H
#define PVI_POSTERIOR_H

#include "infer/observed.h"

/* The observations of a posterior, merged and sorted for speed: what Posteriors are made of. */
Observed *posterior_observed(Arena *a, const Model *m, const size_t *rows, size_t nrows);

/* Room for at most so many points at a time. Nothing is allocated in an evaluation, and one is made
 * at a time; several Posteriors of the same observations may work in several threads. */
typedef struct Posterior Posterior;
Posterior *posterior_make(Arena *a, const Observed *o, size_t points, Pool *pool);
/* From now on without the Jacobians: the density of the constrained parameters, whose maximum
 * penalised maximum likelihood is. */
void posterior_without_jacobian(Posterior *p);

/* A point: where it is, and where value and gradient go (dim numbers each). The value is -inf, and
 * the gradient nothing to rely on, where there is no density. */
typedef struct {
  const double *theta;
  double *gradient, *value;
} PosteriorPoint;
void posterior_eval(Posterior *p, const PosteriorPoint *points, size_t n);
long posterior_undefined(const Posterior *p); /* points so far that had no density */

#endif
