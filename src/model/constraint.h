/* constraint.h: what the files behind constraints.def share, for this folder. Each transform works
 * on one item (a vector or matrix) of an array of them:
 *
 *   TRANSFORM(x) { the item of the shape `item` that the unconstrained numbers u make, in Stan's
 *                  order; adds the log Jacobian }
 *   INVERSE(x)   { from the item x, m rows and n columns, row-major (a vector: m = 1), the
 *                  unconstrained numbers into u; scratch memory in the arena a }
 *
 * An inverse is given what the declaration promises; where a value is on the border it returns
 * infinite numbers.
 */
#ifndef PVI_CONSTRAINT_H
#define PVI_CONSTRAINT_H

#include "model/arith.h"

typedef Value *Transform(Eval *E, Value *u, const Value *item);
typedef void Inverse(Arena *a, const double *x, int32_t m, int32_t n, double *u);

#define CODE(id)                                                                                   \
  Transform constrain_##id;                                                                        \
  Inverse unconstrain_##id;
#define MISSING(id)
#define TYPE_WORD(id, type, least, most, numbers, transform) transform(id)
#include "stan/constraints.def"
#undef CODE
#undef MISSING

#define MAYBE __attribute__((unused))
#define TRANSFORM(id) Value *constrain_##id(Eval *E, Value *u, MAYBE const Value *item)
#define INVERSE(id)                                                                                \
  void unconstrain_##id(MAYBE Arena *a, const double *x, MAYBE int32_t m, int32_t n, double *u)

void constrain_jacobian(Eval *E, Value *v); /* adds the sum of v */

#endif
