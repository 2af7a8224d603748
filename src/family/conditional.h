/* conditional.h: the family `flow` with networks that see something else besides, lane by lane.
 *
 * What else is seen adds a `shift` to the hidden units of every layer before tanh (in one
 * dimension, where there are none, to the numbers of the spline). Given it, a conditional flow is
 * an ordinary one with other weights: conditional_shift makes them. Lanes are points of theta
 * before the affine layer, each with a shift of its own; they go from theta to u, the direction in
 * which densities are learned.
 */
#ifndef PVI_FAMILY_CONDITIONAL_H
#define PVI_FAMILY_CONDITIONAL_H

#include "family/family.h"

typedef struct {
  const Shape *shape;
  const Kernels *k;
  size_t ld;           /* all of them are points */
  const double *w;     /* weights of the layers: phi without the affine layer's */
  const double *shift; /* [conditional_shifts x ld] */
  double *room;        /* conditional_room numbers */
} FlowLanes;

size_t conditional_shifts(const Shape *s); /* numbers of one shift */
size_t conditional_room(const Shape *s, size_t ld);
/* x [dim x ld] becomes u with layers(u) = x; log_det [ld]: of the layers, there. */
void conditional_normalise(const FlowLanes *c, double *x, double *log_det);
/* After it, with the same room, where every lane's log_det has adjoint 1: adj, of u, becomes that
 * of x; grad += that of the weights; adj_shift = that of the shifts. */
void conditional_adjoint(const FlowLanes *c, double *adj, double *grad, double *adj_shift);
/* w += one shift: the weights of an ordinary flow. */
void conditional_shift(const Shape *s, const double *shift, double *w);

#endif
