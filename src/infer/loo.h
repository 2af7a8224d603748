/* loo.h: leave-one-out log scores of the observations that trained a posterior, from its draws
 * (PSIS-LOO; Vehtari, Gelman, Gabry 2017): the posterior without observation i is the posterior
 * weighted with 1 / p(y_i | theta). Only for draws of the Bayes posterior.
 */
#ifndef PVI_LOO_H
#define PVI_LOO_H

#include "infer/observed.h"

/* theta: [n x dim], draw by draw. score and k: of every row of o, in its order. */
typedef struct {
  const double *theta;
  size_t n;
  Pool *pool;
} LooDraws;
void loo_scores(Ctx *c, const Observed *o, const LooDraws *d, double *score, double *k);

#endif
