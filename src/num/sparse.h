/* sparse.h: systems of equations with a symmetric matrix most of whose numbers are zero. */
#ifndef PVI_NUM_SPARSE_H
#define PVI_NUM_SPARSE_H

#include "base/base.h"

#include <stdint.h>

/* Where a symmetric matrix has numbers: column k in the rows row[first[k]] to row[first[k + 1] -
 * 1], which ascend. Both halves are there, and the diagonal. */
typedef struct {
  size_t n;
  const size_t *first;
  const int32_t *row;
} SparsePattern;

typedef struct SparseFactor SparseFactor;

/* Room for a factor L L' = A of matrices with this pattern, which has to live as long. Rows and
 * columns are taken in an order that leaves few numbers in L: at every step that which meets the
 * fewest others (minimum degree). NULL: they are more than `most`. */
SparseFactor *sparse_factor_make(Arena *a, const SparsePattern *pattern, size_t most);
/* Factors A, whose numbers x follow the pattern. Where it is not positive definite, pivots are made
 * positive, and large enough that no factor is large (Gill, Murray & Wright 1981, section
 * 4.4.2.2). False: a number of the diagonal is zero or not finite. */
bool sparse_factor(SparseFactor *f, const double *x);
/* Was the matrix that was factored last positive definite as it was? */
bool sparse_was_definite(const SparseFactor *f);
void sparse_solve(SparseFactor *f, const double *b, double *x); /* L L' x = b; x may be b */
/* The numbers of the factor, for those who keep them. */
double *sparse_numbers(SparseFactor *f, size_t *n);

#endif
