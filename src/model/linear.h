/* linear.h: decompositions and equations of matrices that are Values. Known matrices are computed,
 * the others become graphs of a few whole-vector nodes per column; nothing is decided by the
 * numbers, so every draw goes through the same steps. */
#ifndef PVI_LINEAR_H
#define PVI_LINEAR_H

#include "model/eval.h"

/* Columns of a matrix, or vectors of an array: `count` items of `size` elements each, one after the
 * other. */
typedef struct {
  Value *v;
  int32_t count, size;
} Items;

/* L with L L' = A; who asks, for the message when numbers are not positive definite (of a draw:
 * nan). Reads the lower triangle. */
Value *linear_cholesky(Eval *E, Value *A, const char *who, Loc loc);

typedef enum { LOWER, LOWER_TRANSPOSED, UPPER } Triangle;
Items linear_solve(Eval *E, Triangle kind, Value *T,
                   Items b); /* L x = b, L' x = b or U x = b, item by item */

/* Q' A = R and C = Q' B by Householder's reflections: A is m x k, m >= k; R is k x k, upper
 * triangular; B is m x c, and so is C. *flips: the number of reflections, det Q = (-1)^flips. */
typedef struct {
  Value *R, *C;
  int flips;
} Reflected;
Reflected linear_reflect(Eval *E, Value *A, Value *B);

Value *linear_divide(Eval *E, Value *A, Value *B); /* A^-1 B of square A */
Value *linear_diagonal(Eval *E, Value *A);
Value *linear_log_diagonal(Eval *E,
                           Value *A); /* sum log A_ii: half of log det A A' of a triangle A */
Value *linear_identity(Eval *E, int32_t n);
Items linear_columns(Eval *E, Value *B); /* of a matrix, or a vector as one */
Value *linear_matrix(Eval *E, Items x,
                     const Value *shape); /* items as the columns of a matrix, or one as a vector */

#endif
