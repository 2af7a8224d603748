/* timing.h: what one evaluation of the objective with its gradient costs. */
#ifndef PVI_TIMING_H
#define PVI_TIMING_H

#include "data/data.h"
#include "infer/predictive.h"

/* An objective of the training part, as a fit would have it, at a place that suits any model: q
 * about the origin with standard deviations 0.1. The KL to the prior is exact where it can be, but
 * not for the elbo, which is to show what whole densities of draws cost. */
typedef struct {
  Predictive *p;
  Q *q;
  const Observed *o;
  size_t n; /* observations, however many rows they are evaluated in */
  double *phi, *grad;
  double (*clock)(void); /* seconds */
} Timed;

typedef struct {
  Target target;
  FamilyId family;
  Shape shape;
  size_t draws;
} TimingOptions;

/* Stops where the score or exact integration (Target.integrate) does not apply. */
Timed timing_make(Ctx *c, const Model *m, const Split *split, const TimingOptions *options,
                  Pool *pool);

typedef struct {
  double best, median; /* seconds per evaluation, of several batches */
  long evaluations;
} Timing;
Timing timing_of(const Timed *t);

#endif
