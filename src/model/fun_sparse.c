/* fun_sparse.c: compressed sparse rows: values w, their columns v and the places u where rows
 * begin, both from 1 on. */
#include "model/fun.h"

/* Which elements of a known matrix are not zero. */
typedef struct {
  int32_t n, rows, cols, *at;
} Nonzero;

static Nonzero nonzero(Eval *E, Value *A, const Expr *call) {
  Nonzero z = {.rows = A->dims[0], .cols = A->dims[1], .at = NEW_ARRAY(E->arena, int32_t, A->n)};
  fun_need_known(E, A, call);
  for (int32_t k = 0; k < A->n; k++)
    if (A->v[k] != 0) z.at[z.n++] = k;
  return z;
}

static Value *ints(Eval *E, int32_t n) {
  return value_known(E, value_shape(E, TY_INT, 1, 1, &n), NULL);
}

FN(csr_extract_w) {
  Nonzero z = nonzero(E, a[0], call);
  return value_take(E, a[0], value_shape(E, TY_VECTOR, 0, 1, &z.n), NULL, z.at);
}
FN(csr_extract_v) {
  Nonzero z = nonzero(E, a[0], call);
  Value *r = ints(E, z.n);
  for (int32_t k = 0; k < z.n; k++) r->v[k] = z.at[k] % z.cols + 1;
  return r;
}
FN(csr_extract_u) {
  Nonzero z = nonzero(E, a[0], call);
  Value *r = ints(E, z.rows + 1);
  for (int32_t i = 0; i <= z.rows; i++) r->v[i] = 1;
  for (int32_t k = 0; k < z.n; k++)
    for (int32_t i = z.at[k] / z.cols + 1; i <= z.rows; i++) r->v[i]++;
  return r;
}
FN(csr_extract) {
  Value *w = fn_csr_extract_w(E, a, n, call), *v = fn_csr_extract_v(E, a, n, call),
        *u = fn_csr_extract_u(E, a, n, call);
  return value_tuple(E, (Value *[]){w, v, u}, 3);
}

/* A matrix given as (m, n, w, v, u): the row of every value, checked. */
static int32_t *rows_of(Eval *E, Value **a, const Expr *call) {
  long m = fun_int(E, a[0], call), cols = fun_int(E, a[1], call);
  int32_t count = a[2]->n, *row = NEW_ARRAY(E->arena, int32_t, count);
  fun_need_known(E, a[3], call);
  fun_need_known(E, a[4], call);
  bool right = m >= 0 && a[4]->n == m + 1 && a[4]->v[0] == 1 && a[4]->v[m] == count + 1;
  for (int32_t k = 0; right && k < count; k++)
    right = a[3]->v[k] >= 1 && a[3]->v[k] <= (double)cols;
  for (long i = 0; right && i < m; i++) {
    right = a[4]->v[i] <= a[4]->v[i + 1] && a[4]->v[i + 1] <= count + 1;
    for (int32_t k = (int32_t)a[4]->v[i] - 1; right && k < (int32_t)a[4]->v[i + 1] - 1; k++)
      row[k] = (int32_t)i;
  }
  if (!right)
    ctx_fail(E->ctx, PVI_PROGRAM, call->loc, "%s: values, columns and rows do not fit together",
             call->name);
  return row;
}

FN(csr_to_dense_matrix) {
  int32_t *row = rows_of(E, a, call), m = fun_size(E, a[0], call), cols = fun_size(E, a[1], call);
  const Value *shape = value_shape(E, TY_MATRIX, 0, 2, (int32_t[]){m, cols});
  int32_t *index = NEW_ARRAY(E->arena, int32_t, shape->n);
  for (int32_t k = 0; k < a[2]->n; k++) index[row[k] * cols + (int32_t)a[3]->v[k] - 1] = k + 1;
  return value_take_or_zero(E, a[2], shape, index);
}

/* Products w b[v], padded with zeros to rows of one width, which are summed. */
FN(csr_matrix_times_vector) {
  int32_t *row = rows_of(E, a, call), m = fun_size(E, a[0], call), count = a[2]->n, width = 1;
  if (a[5]->n != fun_int(E, a[1], call)) /* in a lifted loop the row of the table did not see it */
    ctx_fail(E->ctx, PVI_PROGRAM, call->loc, "%s: the vector has %d elements", call->name, a[5]->n);
  if (!m || !count) return value_vector(E, m);
  for (int32_t i = 0; i < m; i++) {
    int32_t own = (int32_t)(a[4]->v[i + 1] - a[4]->v[i]);
    if (own > width) width = own;
  }
  int32_t total = m * width, *column = NEW_ARRAY(E->arena, int32_t, count),
          *place = NEW_ARRAY(E->arena, int32_t, total);
  for (int32_t k = 0; k < count; k++) {
    column[k] = (int32_t)a[3]->v[k] - 1;
    place[row[k] * width + k - (int32_t)a[4]->v[row[k]] + 1] = k + 1;
  }
  Value *products =
      MUL(a[2], value_take(E, a[5], value_shape(E, TY_VECTOR, 0, 1, &count), NULL, column));
  Value *padded = value_take_or_zero(E, products, value_shape(E, TY_VECTOR, 0, 1, &total), place);
  return value_reduce_rows(E, IR_SUM, padded, width, value_shape(E, TY_VECTOR, 0, 1, &m));
}
