/* fun_shape.c: functions that make containers, put them together and take them apart. */
#include "model/fun.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

FN(size) { return value_int(E, a[0]->ndims == 0 ? 1 : a[0]->array_dims ? a[0]->dims[0] : a[0]->n); }
FN(num_elements) { return value_int(E, a[0]->n); }
FN(rows) { return value_int(E, a[0]->kind == TY_ROW_VECTOR ? 1 : a[0]->dims[0]); }
FN(cols) {
  return value_int(E, a[0]->kind == TY_VECTOR       ? 1
                      : a[0]->kind == TY_ROW_VECTOR ? a[0]->dims[0]
                                                    : a[0]->dims[1]);
}
FN(dims) {
  int32_t nd = a[0]->ndims;
  Value *r = value_known(E, value_shape(E, TY_INT, 1, 1, &nd), NULL);
  for (int k = 0; k < nd; k++) r->v[k] = a[0]->dims[k];
  return r;
}

/* ---- filling --------------------------------------------------------------------------------- */

/* Element k of the result is element k % n of v. */
static Value *repeat(Eval *E, Value *v, const Value *shape) {
  int32_t *index = NEW_ARRAY(E->arena, int32_t, shape->n);
  for (int32_t k = 0; k < shape->n; k++) index[k] = k % v->n;
  return shape->n ? value_take(E, v, shape, NULL, index) : value_known(E, shape, NULL);
}

FN(rep_vector) {
  int32_t m = fun_size(E, a[1], call);
  return repeat(E, a[0], value_shape(E, TY_VECTOR, 0, 1, &m));
}
FN(rep_row_vector) {
  int32_t m = fun_size(E, a[1], call);
  return repeat(E, a[0], value_shape(E, TY_ROW_VECTOR, 0, 1, &m));
}
/* rep_matrix(x, m, n), rep_matrix(column, n), rep_matrix(row, m) */
FN(rep_matrix) {
  int32_t dims[2];
  if (n == 3) {
    dims[0] = fun_size(E, a[1], call);
    dims[1] = fun_size(E, a[2], call);
    return repeat(E, a[0], value_shape(E, TY_MATRIX, 0, 2, dims));
  }
  bool column = a[0]->kind == TY_VECTOR;
  dims[column ? 0 : 1] = a[0]->n;
  dims[column ? 1 : 0] = fun_size(E, a[1], call);
  Value *shape = value_shape(E, TY_MATRIX, 0, 2, dims);
  if (!column) return repeat(E, a[0], shape);
  int32_t *index = NEW_ARRAY(E->arena, int32_t, shape->n);
  for (int32_t k = 0; k < shape->n; k++) index[k] = k / dims[1];
  return value_take(E, a[0], shape, NULL, index);
}
FN(rep_array) {
  int32_t dims[MAX_DIMS];
  int nd = 0;
  if (n - 1 + a[0]->ndims > MAX_DIMS)
    ctx_fail(E->ctx, PVI_PROGRAM, fun_place(call), "more than %d dimensions", MAX_DIMS);
  for (int k = 1; k < n; k++) dims[nd++] = fun_size(E, a[k], call);
  for (int k = 0; k < a[0]->ndims; k++) dims[nd++] = a[0]->dims[k];
  return repeat(E, a[0], value_shape(E, a[0]->kind, n - 1 + a[0]->array_dims, nd, dims));
}

static Value *filled(Eval *E, Value *size, const Expr *call, TypeKind kind, double x) {
  int32_t m = fun_size(E, size, call);
  Value *r = value_known(E, value_shape(E, kind, kind == TY_REAL || kind == TY_INT, 1, &m), NULL);
  for (int32_t k = 0; k < m; k++) r->v[k] = x;
  return r;
}
FN(zeros_vector) { return filled(E, a[0], call, TY_VECTOR, 0); }
FN(zeros_row_vector) { return filled(E, a[0], call, TY_ROW_VECTOR, 0); }
FN(zeros_array) { return filled(E, a[0], call, TY_REAL, 0); }
FN(zeros_int_array) { return filled(E, a[0], call, TY_INT, 0); }
FN(ones_vector) { return filled(E, a[0], call, TY_VECTOR, 1); }
FN(ones_row_vector) { return filled(E, a[0], call, TY_ROW_VECTOR, 1); }
FN(ones_array) { return filled(E, a[0], call, TY_REAL, 1); }
FN(ones_int_array) { return filled(E, a[0], call, TY_INT, 1); }
FN(uniform_simplex) {
  Value *r = filled(E, a[0], call, TY_VECTOR, 1);
  if (!r->n)
    ctx_fail(E->ctx, PVI_PROGRAM, fun_place(call), "uniform_simplex: the size must be positive");
  for (int32_t k = 0; k < r->n; k++) r->v[k] /= r->n;
  return r;
}

static Value *one_hot(Eval *E, Value **a, const Expr *call, TypeKind kind) {
  Value *r = filled(E, a[0], call, kind, 0);
  long k = fun_int(E, a[1], call);
  if (k < 1 || k > r->n)
    ctx_fail(E->ctx, PVI_PROGRAM, fun_place(call), "index %ld is out of range 1 to %d", k, r->n);
  r->v[k - 1] = 1;
  return r;
}
FN(one_hot_vector) { return one_hot(E, a, call, TY_VECTOR); }
FN(one_hot_row_vector) { return one_hot(E, a, call, TY_ROW_VECTOR); }
FN(one_hot_array) { return one_hot(E, a, call, TY_REAL); }
FN(one_hot_int_array) { return one_hot(E, a, call, TY_INT); }

static Value *linspaced(Eval *E, Value **a, const Expr *call, TypeKind kind) {
  Value *r = filled(E, a[0], call, kind, 0);
  fun_need_known(E, a[1], call);
  fun_need_known(E, a[2], call);
  double lo = a[1]->v[0], hi = a[2]->v[0];
  for (int32_t k = 0; k < r->n; k++) r->v[k] = r->n == 1 ? hi : lo + (hi - lo) * k / (r->n - 1);
  return r;
}
FN(linspaced_vector) { return linspaced(E, a, call, TY_VECTOR); }
FN(linspaced_row_vector) { return linspaced(E, a, call, TY_ROW_VECTOR); }
/* Steps of the same whole size; or, where there are more numbers than values, each value as often
 * as fits. */
FN(linspaced_int_array) {
  Value *r = filled(E, a[0], call, TY_INT, 0);
  long n_ = r->n, lo = fun_int(E, a[1], call), width = fun_int(E, a[2], call) - lo;
  if (width < 0)
    ctx_fail(E->ctx, PVI_PROGRAM, fun_place(call),
             "linspaced_int_array: the upper end is below the lower one");
  for (long k = 0; k < n_; k++)
    r->v[k] = (double)(n_ == 1          ? lo + width
                       : width + 1 < n_ ? lo + k / ((n_ + width) / (width + 1))
                                        : lo + k * (width / (n_ - 1)));
  return r;
}
FN(linspaced_array) { return linspaced(E, a, call, TY_REAL); }

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Elements in Stan's order: matrices column by column. */
static Value *column_major(Eval *E, Value *v) {
  return v->kind == TY_MATRIX && !v->array_dims ? value_transpose(E, v) : v;
}

static Value *flat(Eval *E, Value *v, TypeKind kind, int array_dims) {
  int32_t m = v->n;
  return value_reshape(E, column_major(E, v), kind, array_dims, 1, &m);
}
FN(to_vector) { return flat(E, a[0], TY_VECTOR, 0); }
FN(to_row_vector) { return flat(E, a[0], TY_ROW_VECTOR, 0); }
FN(to_array_1d) { return flat(E, a[0], a[0]->kind == TY_INT ? TY_INT : TY_REAL, 1); }
FN(to_array_2d) {
  int32_t dims[2] = {a[0]->dims[0], a[0]->dims[1]};
  return value_reshape(E, a[0], TY_REAL, 2, 2, dims);
}
/* to_matrix(x), to_matrix(x, rows, cols [, column_major]) */
FN(to_matrix) {
  Value *v = a[0];
  int32_t dims[2];
  if (n == 1) {
    dims[0] = v->ndims == 1 && v->kind == TY_ROW_VECTOR ? 1 : v->dims[0];
    dims[1] = v->ndims == 2 ? v->dims[1] : v->kind == TY_ROW_VECTOR ? v->n : 1;
    return value_reshape(E, v, TY_MATRIX, 0, 2, dims);
  }
  dims[0] = fun_size(E, a[1], call);
  dims[1] = fun_size(E, a[2], call);
  if ((int64_t)dims[0] * dims[1] != v->n)
    ctx_fail(E->ctx, PVI_PROGRAM, fun_place(call), "%d elements do not make %d x %d", v->n, dims[0],
             dims[1]);
  bool by_column = n < 4 || fun_int(E, a[3], call) != 0;
  v = column_major(E, v);
  if (!by_column) return value_reshape(E, v, TY_MATRIX, 0, 2, dims);
  int32_t turned[2] = {dims[1], dims[0]};
  return value_transpose(E, value_reshape(E, v, TY_MATRIX, 0, 2, turned));
}

static int32_t matrix_rows(const Value *v) {
  return v->kind == TY_MATRIX || v->kind == TY_VECTOR ? v->dims[0] : 1;
}
static int32_t matrix_cols(const Value *v) {
  return v->kind == TY_MATRIX ? v->dims[1] : v->kind == TY_ROW_VECTOR ? v->dims[0] : 1;
}

FN(append_row) {
  int32_t dims[2] = {matrix_rows(a[0]) + matrix_rows(a[1]), matrix_cols(a[0])};
  bool vector = a[0]->kind != TY_MATRIX && a[1]->kind != TY_MATRIX && a[0]->kind != TY_ROW_VECTOR;
  return value_join(E, a, 2,
                    vector ? value_shape(E, TY_VECTOR, 0, 1, dims)
                           : value_shape(E, TY_MATRIX, 0, 2, dims));
}
FN(append_col) {
  int32_t dims[2] = {matrix_rows(a[0]), matrix_cols(a[0]) + matrix_cols(a[1])};
  if (a[0]->kind != TY_MATRIX && a[1]->kind != TY_MATRIX && a[0]->kind != TY_VECTOR)
    return value_join(E, a, 2, value_shape(E, TY_ROW_VECTOR, 0, 1, dims + 1));
  int32_t turned[2] = {dims[1], dims[0]};
  Value *parts[2];
  for (int k = 0; k < 2; k++) parts[k] = a[k]->kind == TY_MATRIX ? value_transpose(E, a[k]) : a[k];
  return value_transpose(E, value_join(E, parts, 2, value_shape(E, TY_MATRIX, 0, 2, turned)));
}
FN(append_array) {
  if (!a[0]->dims[0] || !a[1]->dims[0]) return a[a[0]->dims[0] ? 0 : 1];
  Value shape = *a[0];
  shape.dims[0] += a[1]->dims[0];
  shape.n = a[0]->n + a[1]->n;
  return value_join(E, a, 2, &shape);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Where a part begins, counted from 1: one place, or one for every iteration of a lifted loop. */
typedef struct {
  const Axis *axis;
  const double *at;
} Places;

static Places places(Eval *E, Value *v, const Expr *call) {
  v = eval_decided(E, v);
  if (!v->known) eval_needs_draw(E, fun_place(call), "an argument depends on parameters");
  v = value_on_axis(E, v, E->axis);
  return (Places){v->axis, v->v};
}

static Places place(Eval *E, long at) { return (Places){NULL, value_real(E, (double)at)->v}; }
static long place_at(Places p, int32_t row) { return (long)p.at[p.axis ? row : 0]; }

/* count items of the first dimension. */
static Value *part(Eval *E, Value *v, Places from, long count, const Expr *call) {
  Value shape = *v;
  int32_t each = v->dims[0] ? v->n / v->dims[0] : 0, rows = from.axis ? from.axis->rows : 1;
  for (int32_t r = 0; r < rows; r++)
    if (place_at(from, r) < 1 || count < 0 || place_at(from, r) - 1 + count > v->dims[0])
      ctx_fail(E->ctx, PVI_PROGRAM, fun_place(call), "elements %ld to %ld of %d", place_at(from, r),
               place_at(from, r) - 1 + count, v->dims[0]);
  shape.dims[0] = (int32_t)count;
  shape.n = (int32_t)count * each;
  int32_t *index = NEW_ARRAY(E->arena, int32_t, value_count(E, from.axis, shape.n));
  for (int32_t r = 0; r < rows; r++)
    for (int32_t k = 0; k < shape.n; k++)
      index[r * shape.n + k] = (int32_t)(place_at(from, r) - 1) * each + k;
  return value_take(E, v, &shape, from.axis, index);
}
FN(head) { return part(E, a[0], place(E, 1), fun_int(E, a[1], call), call); }
FN(tail) {
  long k = fun_int(E, a[1], call);
  return part(E, a[0], place(E, a[0]->dims[0] - k + 1), k, call);
}
FN(segment) { return part(E, a[0], places(E, a[1], call), fun_int(E, a[2], call), call); }

/* Rows i.. and columns j.. of a matrix. */
typedef struct {
  Places i, j;
  long rows, cols;
} Rectangle;

static void check_rectangle(Eval *E, const Value *m, const Rectangle *r, int32_t row,
                            const Expr *call) {
  long i = place_at(r->i, row), j = place_at(r->j, row);
  if (i < 1 || j < 1 || r->rows < 0 || r->cols < 0 || i - 1 + r->rows > m->dims[0] ||
      j - 1 + r->cols > m->dims[1])
    ctx_fail(E->ctx, PVI_PROGRAM, fun_place(call),
             "rows %ld to %ld, columns %ld to %ld of a %d x %d matrix", i, i + r->rows - 1, j,
             j + r->cols - 1, m->dims[0], m->dims[1]);
}

static Value *submatrix(Eval *E, Value *m, Rectangle r, TypeKind kind, const Expr *call) {
  const Axis *axis = r.i.axis ? r.i.axis : r.j.axis;
  int32_t count = axis ? axis->rows : 1;
  for (int32_t row = 0; row < count; row++) check_rectangle(E, m, &r, row, call);
  int32_t dims[2] = {(int32_t)r.rows, (int32_t)r.cols}, one = (int32_t)(r.rows * r.cols);
  Value *shape =
      kind == TY_MATRIX ? value_shape(E, kind, 0, 2, dims) : value_shape(E, kind, 0, 1, &one);
  int32_t *index = NEW_ARRAY(E->arena, int32_t, value_count(E, axis, shape->n)), *to = index;
  for (int32_t row = 0; row < count; row++)
    for (int32_t k = 0; k < shape->n; k++)
      *to++ = ((int32_t)place_at(r.i, row) - 1 + k / dims[1]) * m->dims[1] +
              (int32_t)place_at(r.j, row) - 1 + k % dims[1];
  return value_take(E, m, shape, axis, index);
}
#define INT(k) fun_int(E, a[k], call)
#define PLACES(k) places(E, a[k], call)
#define FIRST place(E, 1)
FN(row) {
  return submatrix(E, a[0], (Rectangle){PLACES(1), FIRST, 1, a[0]->dims[1]}, TY_ROW_VECTOR, call);
}
FN(col) {
  return submatrix(E, a[0], (Rectangle){FIRST, PLACES(1), a[0]->dims[0], 1}, TY_VECTOR, call);
}
FN(block) {
  return submatrix(E, a[0], (Rectangle){PLACES(1), PLACES(2), INT(3), INT(4)}, TY_MATRIX, call);
}
FN(sub_row) {
  return submatrix(E, a[0], (Rectangle){PLACES(1), PLACES(2), 1, INT(3)}, TY_ROW_VECTOR, call);
}
FN(sub_col) {
  return submatrix(E, a[0], (Rectangle){PLACES(1), PLACES(2), INT(3), 1}, TY_VECTOR, call);
}
#undef FIRST
#undef PLACES
#undef INT
FN(reverse) {
  Value *v = a[0];
  int32_t each = v->dims[0] ? v->n / v->dims[0] : 0, *index = NEW_ARRAY(E->arena, int32_t, v->n);
  for (int32_t k = 0; k < v->n; k++) index[k] = (v->dims[0] - 1 - k / each) * each + k % each;
  return value_take(E, v, v, NULL, index);
}
