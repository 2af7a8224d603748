/* row_kernels.h: rows of numbers, one per draw or node of a quadrature ("lanes"), and what is
 * computed over them (row_kernels.def). */
#ifndef PVI_NUM_ROW_KERNELS_H
#define PVI_NUM_ROW_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

/* Rows are padded to this many lanes: the widest vector of all instruction sets. */
enum { LANES = 8 };

/* A product of numbers with rows: i < rows, k < inner, over n lanes. */
typedef struct {
  double *out;
  size_t ldo; /* distance of its rows */
  const double *a;
  size_t a_row, a_column; /* element (i, k) is a[i a_row + k a_column] */
  const double *b;
  size_t ldb;
  size_t rows, inner, n;
  bool add; /* to what is in out */
} RowProduct;

/* A product of matrices whose elements are rows: out[i, j] (+)= sum_k x[i, k] y[k, j], i < rows, k
 * < inner, j < columns, over n lanes. Element (i, j) of a matrix is the row at[i down + j across].
 */
typedef struct {
  double *at;
  size_t down, across;
} RowsOut;
typedef struct {
  const double *at;
  size_t down, across;
} RowsIn;
typedef struct {
  RowsOut out;
  RowsIn x, y;
  size_t rows, inner, columns, n;
  bool back; /* on the way back: added to what is in out; where x = 0 nothing is, whatever y is */
} LaneProduct;

/* `count` rows. One that does not vary over lanes is LANES copies, read with step 0, else 1. */
typedef struct {
  const double *const *row;
  const size_t *step;
  size_t count;
} RowList;

/* softmax of `rows` rows l + plus, ld apart. */
typedef struct {
  double *w;              /* may be NULL */
  const double *l, *plus; /* plus: one row for all, or NULL */
  size_t ld, rows, m;
  double *out; /* rows: what softmax returns */
} SoftmaxRows;

typedef struct {
  const double *mean, *inverse; /* inverse[j] = 1 / sd */
  const double *weights;        /* NULL: 1 / m each */
  size_t m;
} NormalRow;

#endif
