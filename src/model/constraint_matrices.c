/* constraint_matrices.c: matrices from unconstrained numbers, and back; constraint.h tells how to
 * read them. */
#include "model/constraint.h"
#include "model/linear.h"

#include <math.h>

/* ---- rows and columns that sum to zero ------------------------------------------------------- */

/* Element i of column k of an orthonormal basis of the vectors of N + 1 elements that sum to zero:
 * k + 1 in row k, -1 in the rows before it and in the last one, over sqrt((k + 1) (k + 2)). (It is
 * the basis of sum_to_zero_vector with its rows in another order.) */
static double zero_basis(int32_t N, int32_t i, int32_t k) {
  double w = 1 / sqrt((k + 1.0) * (k + 2.0));
  return i == k ? (k + 1) * w : i < k || i == N ? -w : 0;
}

/* X = B_m U B_n', so there is no Jacobian; U, (m - 1) x (n - 1), column by column. */
static Value *zero_sum_products(Eval *E, int32_t m, int32_t n) {
  int32_t free = (m - 1) * (n - 1), dims[2] = {m * n, free};
  Value *B = value_known(E, value_shape(E, TY_MATRIX, 0, 2, dims), NULL);
  for (int32_t e = 0; e < m * n; e++)
    for (int32_t k = 0; k < free; k++)
      B->v[e * free + k] =
          zero_basis(m - 1, e / n, k % (m - 1)) * zero_basis(n - 1, e % n, k / (m - 1));
  return B;
}
TRANSFORM(sum_to_zero_matrix) {
  int32_t m = item->dims[0], n = item->dims[1];
  if (!u->n) return value_known(E, item, NULL);
  return value_matmul(E, zero_sum_products(E, m, n), u, (MatrixProduct){m * n, u->n, 1}, item);
}
INVERSE(sum_to_zero_matrix) {
  if (!free->n) return value_known(E, free, NULL);
  Value *B = value_transpose(E, zero_sum_products(E, x->dims[0], x->dims[1]));
  return value_matmul(E, B, x, (MatrixProduct){free->n, x->n, 1}, free);
}

/* ---- rows or columns that are simplexes ------------------------------------------------------ */

/* Line k of an m x n matrix, a column or a row. */
static Value *line(Eval *E, Value *x, const Value *shape, int32_t k, bool column) {
  int32_t m = shape->dims[0], n = shape->dims[1], length = column ? m : n;
  int32_t *index = NEW_ARRAY(E->arena, int32_t, length + 1);
  for (int32_t i = 0; i < length; i++) index[i] = column ? i * n + k : k * n + i;
  return value_take(E, x, value_shape(E, TY_VECTOR, 0, 1, &length), NULL, index);
}

/* Lines of equal length as the matrix of a shape. */
static Value *from_lines(Eval *E, Value **lines, int32_t count, const Value *shape, bool column) {
  int32_t dims[2] = {count, count ? shape->n / count : 0};
  const Value *turned = column ? value_shape(E, TY_MATRIX, 0, 2, dims) : shape;
  Value *x = value_join(E, lines, count, turned);
  return column ? value_transpose(E, x) : x;
}

/* Every line a simplex. The unconstrained numbers are a matrix too, which is one row or one column
 * smaller; u has it column by column, as Stan does. */
static Value *simplexes(Eval *E, Value *u, const Value *item, bool column) {
  int32_t m = item->dims[0], n = item->dims[1], count = column ? n : m, length = column ? m : n;
  int32_t free = length - 1, *index = NEW_ARRAY(E->arena, int32_t, length);
  const Value *own = value_shape(E, TY_VECTOR, 0, 1, &free);
  const Value *simplex = value_shape(E, TY_VECTOR, 0, 1, &length);
  Value **lines = NEW_ARRAY(E->arena, Value *, count + 1);
  for (int32_t k = 0; k < count; k++) {
    for (int32_t i = 0; i < free; i++) index[i] = column ? k * free + i : i * count + k;
    lines[k] = constrain_simplex(E, value_take(E, u, own, NULL, index), simplex);
  }
  return from_lines(E, lines, count, item, column);
}

static Value *from_simplexes(Eval *E, Value *x, const Value *free, bool column) {
  int32_t count = x->dims[column ? 1 : 0], length = x->dims[column ? 0 : 1] - 1;
  const Value *own = value_shape(E, TY_VECTOR, 0, 1, &length);
  Value **lines = NEW_ARRAY(E->arena, Value *, count + 1);
  for (int32_t k = 0; k < count; k++)
    lines[k] = unconstrain_simplex(E, line(E, x, x, k, column), own);
  int32_t dims[2] = {count, length};
  Value *u = value_join(E, lines, count, value_shape(E, TY_MATRIX, 0, 2, dims));
  if (!column) u = value_transpose(E, u);
  return value_reshape(E, u, TY_VECTOR, 0, 1, free->dims);
}

TRANSFORM(column_stochastic_matrix) { return simplexes(E, u, item, true); }
INVERSE(column_stochastic_matrix) { return from_simplexes(E, x, free, true); }
TRANSFORM(row_stochastic_matrix) { return simplexes(E, u, item, false); }
INVERSE(row_stochastic_matrix) { return from_simplexes(E, x, free, false); }

/* ---- Cholesky factors of correlation matrices ------------------------------------------------ */

/* z = tanh(u), Jacobian log(1 - z^2) = log 4 - 2 log(e^u + e^-u) */
static Value **tanh_all(Eval *E, Value *u) {
  Value **z = NEW_ARRAY(E->arena, Value *, u->n + 1);
  for (int32_t k = 0; k < u->n; k++) {
    Value *uk = value_element(E, u, k);
    z[k] = M(TANH, uk);
    Value *two = MUL(uk, NUM(2));
    Value *j = ADD(M(LOG_INV_LOGIT, two), M(LOG_INV_LOGIT, M(NEG, two)));
    constrain_jacobian(E, ADD(j, NUM(log(4))));
  }
  return z;
}

/* The u of element j of row i of such a factor: z is the element over the length of what is left of
 * the row from j on, and atanh z the asinh of the element over the length of what is left behind
 * j. */
static Value *row_inverse(Eval *E, Value *L, int32_t i, int32_t j) {
  int32_t K = L->dims[0];
  Value *rest = value_slice(E, L, i * K + j + 1, i - j);
  Value *length = M(SQRT, value_sum(E, M(SQUARE, rest)));
  return M(ASINH, DIV(value_element(E, L, i * K + j), length));
}

/* A K x K matrix of zeros, 1 in front. */
static Value **with_one(Eval *E, int32_t K) {
  Value **x = NEW_ARRAY(E->arena, Value *, K * K + 1);
  for (int32_t k = 0; k < K * K; k++) x[k] = NUM(0);
  x[0] = NUM(1);
  return x;
}

/* Row by row, z in (-1, 1): x[i,j] = z sqrt(1 - sum of squares so far). */
TRANSFORM(cholesky_factor_corr) {
  int32_t K = item->dims[0];
  Value **z = tanh_all(E, u), **x = with_one(E, K);
  for (int32_t i = 1, k = 0; i < K; i++) {
    Value *left = NUM(1); /* 1 - sum of squares */
    for (int32_t j = 0; j < i; j++, k++) {
      Value *s = M(SQRT, left);
      if (j) constrain_jacobian(E, M(LOG, s));
      x[i * K + j] = MUL(z[k], s);
      left = SUB(left, M(SQUARE, x[i * K + j]));
    }
    x[i * K + i] = M(SQRT, left);
  }
  return value_join(E, x, K * K, item);
}
INVERSE(cholesky_factor_corr) {
  Value **u = NEW_ARRAY(E->arena, Value *, free->n + 1);
  for (int32_t i = 1, k = 0; i < x->dims[0]; i++)
    for (int32_t j = 0; j < i; j++) u[k++] = row_inverse(E, x, i, j);
  return value_join(E, u, free->n, free);
}

/* ---- Cholesky factors of covariance matrices ------------------------------------------------- */

/* L, lower triangular, row by row, the diagonal by exp: Jacobian sum_k u_kk. Where the product L L'
 * is what is wanted, that of L L' is in it: K log 2 + sum_k (K - k + 2) u_kk, k = 1.. */
static Value *lower_triangle(Eval *E, Value *u, const Value *shape, bool product) {
  int32_t rows = shape->dims[0], columns = shape->dims[1];
  Value **x = NEW_ARRAY(E->arena, Value *, rows * columns + 1);
  for (int32_t i = 0, k = 0; i < rows; i++)
    for (int32_t j = 0; j < columns; j++) {
      Value *at = x[i * columns + j] = j <= i ? value_element(E, u, k++) : NUM(0);
      if (j != i) continue;
      constrain_jacobian(E, product ? ADD(MUL(at, NUM(columns - i + 1)), NUM(log(2))) : at);
      x[i * columns + j] = M(EXP, at);
    }
  return value_join(E, x, rows * columns, shape);
}

static Value *lower_inverse(Eval *E, Value *L, const Value *free) {
  Value **u = NEW_ARRAY(E->arena, Value *, free->n + 1);
  int32_t m = L->dims[0], n = L->dims[1];
  for (int32_t i = 0, k = 0; i < m; i++)
    for (int32_t j = 0; j < n && j <= i; j++, k++) {
      u[k] = value_element(E, L, i * n + j);
      if (j == i) u[k] = M(LOG, u[k]);
    }
  return value_join(E, u, free->n, free);
}

/* m x n with m >= n */
TRANSFORM(cholesky_factor_cov) { return lower_triangle(E, u, item, false); }
INVERSE(cholesky_factor_cov) { return lower_inverse(E, x, free); }

/* ---- correlation and covariance matrices ----------------------------------------------------- */

static Value *times_transpose(Eval *E, Value *L, const Value *shape) {
  int32_t K = shape->dims[0];
  return value_matmul(E, L, value_transpose(E, L), (MatrixProduct){K, K, K}, shape);
}

/* The factor of a positive definite matrix, or of what is none: not a number. */
static Value *factor_of(Eval *E, Value *x) {
  return linear_cholesky(E, x, "unconstrain", E->density);
}

/* Partial correlations z column by column; Jacobian of the correlation matrix from the factor's, as
 * Stan adds it. */
TRANSFORM(corr_matrix) {
  int32_t K = item->dims[0];
  Value **z = tanh_all(E, u), **x = with_one(E, K);
  Value **left = NEW_ARRAY(E->arena, Value *, K + 1); /* log of 1 - sum of squares so far, by row */
  for (int32_t i = 0; i < K; i++) left[i] = NUM(0);
  for (int32_t j = 0, k = 0; j < K - 1; j++) {
    for (int32_t i = j + 1; i < K; i++, k++) {
      x[i * K + j] = MUL(z[k], M(EXP, MUL(left[i], NUM(0.5))));
      Value *l1m = M(LOG1M, M(SQUARE, z[k]));
      left[i] = ADD(left[i], l1m);
      /* d corr / d partial: (K - j - 2) / 2 log(1 - z^2), j 0-based */
      constrain_jacobian(E, MUL(l1m, NUM(0.5 * (K - j - 2))));
    }
    x[(j + 1) * K + j + 1] = M(EXP, MUL(left[j + 1], NUM(0.5)));
  }
  return times_transpose(E, value_join(E, x, K * K, item), item);
}
INVERSE(corr_matrix) {
  Value **u = NEW_ARRAY(E->arena, Value *, free->n + 1), *L = factor_of(E, x);
  for (int32_t j = 0, k = 0; j < x->dims[0] - 1; j++)
    for (int32_t i = j + 1; i < x->dims[0]; i++) u[k++] = row_inverse(E, L, i, j);
  return value_join(E, u, free->n, free);
}

TRANSFORM(cov_matrix) { return times_transpose(E, lower_triangle(E, u, item, true), item); }
INVERSE(cov_matrix) { return lower_inverse(E, factor_of(E, x), free); }
