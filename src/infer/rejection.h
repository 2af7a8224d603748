/* rejection.h: the log score's gradient by rejection sampling (the paper's second estimator):
 * unbiased at any number of draws.
 *
 * Draw j is accepted for observation i with probability p(y_i | theta_j) / C; the accepted ones are
 * draws of q(theta | y_i), so
 *     d / d phi log int p(y_i | theta) q(theta) d theta = E[d log q(theta) / d phi | accepted].
 * C must be known: 1 for discrete outcomes, 1 / (sqrt(2 pi) sigma) for normal ones whose sigma does
 * not vary under q. Where
 * nothing is accepted, new draws are made for that observation. Its variance is far larger than the
 * reparameterized
 * estimator's.
 */
#ifndef PVI_REJECTION_H
#define PVI_REJECTION_H

#include "infer/predictive.h"

typedef struct Rejection Rejection;

/* NULL, or why it is not available: no bound of a density is known, or q has no score function. */
const char *rejection_cannot(Arena *a, const Observed *o, const Q *q);
/* Observations must have log likelihood and parameters as heads. */
Rejection *rejection_make(Arena *a, const Observed *o, const Target *t, const Q *q, size_t M,
                          Pool *pool);
bool rejection_eval(Rejection *r, const double *phi, uint64_t seed, double *value, double *grad);
bool rejection_refused(const Rejection *r); /* a scale varied between draws: there is no bound */
/* Observations for which nothing was accepted in many rounds, so far. */
long rejection_unmatched(const Rejection *r);
void rejection_state(Rejection *r, Archive *a); /* both of these */

#endif
