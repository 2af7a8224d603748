/* centring.h: hierarchies in a program, and the same posterior in coordinates that suit them.
 *
 * Where a program says x_k ~ normal(mu_k, sigma_k), with mu or sigma functions of other parameters,
 * a sampler may move w_k instead of x_k,
 *
 *     x_k = c_k mu_k + sigma_k^c_k w_k,
 *
 * with a share c_k from 0 (x itself: centred) to 1 (non-centred). The density of w is that of x
 * times prod sigma_k^c_k, whatever mu and sigma are, as long as they do not depend on x_k.
 */
#ifndef PVI_CENTRING_H
#define PVI_CENTRING_H

#include "model/model.h"

typedef struct {
  size_t n;                         /* parameters that can be moved */
  const int32_t *parameter;         /* of each its number in theta, ascending */
  const Graph *graph;               /* the model's, with a few nodes more */
  const Pick *location, *log_scale; /* mu_k and log sigma_k, elements of its nodes */
  int depth; /* hierarchies upon each other: mu and sigma may depend on what is moved */
} Centring;

/* NULL: nothing can be moved. */
const Centring *centring_find(Arena *a, const Model *m);
/* The posterior of w: prior, Jacobian and the densities of the observations. Nothing else of this
 * Model is to be used. share: c_k of the n parameters. */
const Model *centring_model(Arena *a, const Model *m, const Centring *x, const double *share);

#endif
