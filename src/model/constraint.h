/* constraint.h: what the files behind constraints.def share, for this folder. Each transform works
 * on one item (a vector or matrix) of an array of them:
 *
 *   TRANSFORM(x) { the item of the shape `item` that the unconstrained numbers u make, in Stan's
 *                  order; adds the log Jacobian }
 *   INVERSE(x)   { the unconstrained numbers, a vector of the shape `free`, of the item x }
 *
 * An inverse is given what the declaration promises; where a value is on the border it returns
 * infinite numbers.
 */
#ifndef PVI_CONSTRAINT_H
#define PVI_CONSTRAINT_H

#include "model/arith.h"

typedef Value *Transform(Eval *E, Value *u, const Value *item);
typedef Value *Inverse(Eval *E, Value *x, const Value *free);

#define TYPE_WORD(id, type, least, most, numbers)                                                  \
  Transform constrain_##id;                                                                        \
  Inverse unconstrain_##id;
#include "stan/constraints.def"

#define MAYBE __attribute__((unused))
#define TRANSFORM(id) Value *constrain_##id(Eval *E, Value *u, MAYBE const Value *item)
#define INVERSE(id) Value *unconstrain_##id(MAYBE Eval *E, Value *x, MAYBE const Value *free)

/* ---- constraints.c --------------------------------------------------------------------------- */

void constrain_jacobian(Eval *E, Value *v); /* adds the sum of v */

/* lower < x < upper, NULL: none; offset + multiplier u */
Value *constrain_bounds(Eval *E, Value *u, Value *lower, Value *upper);
Value *unconstrain_bounds(Eval *E, Value *x, Value *lower, Value *upper);
Value *constrain_affine(Eval *E, Value *u, Value *offset, Value *multiplier);
Value *unconstrain_affine(Eval *E, Value *x, Value *offset, Value *multiplier);

/* What an array is made of: `count` items of m rows and n columns, and how many unconstrained
 * numbers make one: negative, where there is none of this size. */
typedef struct {
  int32_t count, m, n, numbers;
  int32_t parts; /* of one element: 2 of complex ones */
  Value *shape;  /* of one item */
} ItemShape;
ItemShape constrain_items(Eval *E, ConstraintKind kind, const Value *v);
/* Every item by itself: u has the numbers of one item after the other. */
Value *constrain_by_items(Eval *E, ConstraintKind kind, Value *u, const Value *shape);
Value *unconstrain_by_items(Eval *E, ConstraintKind kind, Value *x); /* a vector */

#endif
