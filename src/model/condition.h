/* condition.h: observations that see theta through one affine function of it once a few of the
 * parameters are given: the scales of a non-centred program, mu + tau * z[g], the sigma of a normal
 * outcome, the discrimination of an item.
 *
 * Under a normal q the other parameters are normal given the scales, and so is the function f:
 * its mean is the function at their means, its variance V a sum of squared coefficients times
 * variances. So the observation is put on a tape whose inputs are
 *
 *   theta     the scales' values on a grid, of the others their means given these
 *   x         one standard normal number, for f = mean + sqrt(V) x; not needed where the outcome
 *             is normal: f integrates out of normal(f, sigma)
 *   pairs     variances (and covariances) of the others given the scales, those that are read
 *
 * and whose lanes are the points of the grid, with the rule's weights. Where the scales are too
 * many for a grid, they are on quasi-random points instead: all else is still integrated.
 */
#ifndef PVI_CONDITION_H
#define PVI_CONDITION_H

#include "ir/ir.h"

typedef struct Condition {
  const Graph *graph; /* the model's, with more nodes */
  int32_t rows;       /* of the heads, of which the block has those in `select` */
  const int32_t *select;
  int32_t dim;
  const int32_t *axis; /* of every parameter: the axis of the grid that it moves along; -1: it is
                          integrated given the others */
  int32_t axes;
  const int32_t *term; /* of every parameter: the one term of a mixture that sees it, < 0: several
                          or none. Those of one term may be taken to be independent of another's.
                          NULL: all belong together */
  bool sampled;        /* the scales are on quasi-random points: the axes are too many for a grid */
  const int32_t *pair; /* two parameters each, whose covariance is an input */
  int32_t npairs;
  bool line;  /* x is used */
  bool tails; /* x is also the tail of a student_t, whose density is integrated over f
                 all the same */
  Node density, mean, par[3]; /* mean, of a mixture: NO_NODE */
  Node wide[3]; /* of a binary outcome, as in reduce.h: where x is the u of a lane; or NO_NODE */
} Condition;

static inline int32_t condition_inputs(const Condition *c) { return c->dim + 1 + c->npairs; }

#endif
