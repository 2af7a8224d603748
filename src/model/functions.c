/* functions.c: the code behind functions.def. fn_x evaluates function x on Values; what is known is computed, the rest becomes
 * nodes. Elementwise functions need no code here: MAP(OP) in their row names the op. */
#include "model/eval.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FN(id)                                                                                                                 \
  static Value *fn_##id(__attribute__((unused)) Eval *E, __attribute__((unused)) Value **a, __attribute__((unused)) int n,     \
                        __attribute__((unused)) const Expr *call)

static Loc place(const Expr *call) { return call ? call->loc : NOWHERE; }

static long int_arg(Eval *E, Value *v, const Expr *call) { return value_int_of(E, v, place(call), "an argument"); }

static int32_t size_arg(Eval *E, Value *v, const Expr *call) {
  long k = int_arg(E, v, call);
  if (k < 0 || k > INT32_MAX) ctx_fail(E->ctx, PVI_PROGRAM, place(call), "size %ld is negative or too large", k);
  return (int32_t)k;
}

static void need_known(Eval *E, const Value *v, const Expr *call) {
  if (!v->known)
    ctx_fail(E->ctx, PVI_PROGRAM, place(call), "%s of values that depend on parameters is not supported yet",
             call && call->name ? call->name : "this function");
  if (v->axis) lift_bail(E, "a function that works on whole columns of data is called");
}

/* ---- constants ---------------------------------------------------------------------------------------------------- */

FN(pi) { return value_real(E, M_PI); }
FN(e) { return value_real(E, M_E); }
FN(sqrt2) { return value_real(E, M_SQRT2); }
FN(not_a_number) { return value_real(E, NAN); }
FN(positive_infinity) { return value_real(E, INFINITY); }
FN(negative_infinity) { return value_real(E, -INFINITY); }
FN(machine_precision) { return value_real(E, DBL_EPSILON); }

/* ---- operators by name -------------------------------------------------------------------------------------------- */

FN(add) { return eval_binary(E, OP_ADD, a[0], a[1], place(call)); }
FN(subtract) { return eval_binary(E, OP_SUB, a[0], a[1], place(call)); }
FN(multiply) { return eval_binary(E, OP_MUL, a[0], a[1], place(call)); }
FN(divide) { return eval_binary(E, OP_DIV, a[0], a[1], place(call)); }
FN(elt_multiply) { return eval_binary(E, OP_ELT_MUL, a[0], a[1], place(call)); }
FN(elt_divide) { return eval_binary(E, OP_ELT_DIV, a[0], a[1], place(call)); }
FN(transpose) { return value_transpose(E, a[0]); }
FN(idivide) { return eval_binary(E, OP_IDIV, a[0], a[1], place(call)); }
FN(modulus) { return eval_binary(E, OP_MOD, a[0], a[1], place(call)); }

/* ---- tests -------------------------------------------------------------------------------------------------------- */

static Value *test(Eval *E, Value *v, const Expr *call, bool (*holds)(double)) {
  if (!v->known) ctx_fail(E->ctx, PVI_PROGRAM, place(call), "%s of a parameter is not supported yet", call->name);
  Value *r = value_known(E, v, v->axis);
  r->kind = TY_INT;
  for (int32_t k = 0; k < value_total(v); k++) r->v[k] = holds(v->v[k]);
  return r;
}
static bool is_nan_number(double x) { return isnan(x); }
static bool is_inf_number(double x) { return isinf(x); }
static bool is_positive(double x) { return x > 0; }
FN(is_nan) { return test(E, a[0], call, is_nan_number); }
FN(is_inf) { return test(E, a[0], call, is_inf_number); }
FN(int_step) { return test(E, a[0], call, is_positive); }
FN(to_int) {
  Value *r = map1(E, IR_TRUNC, a[0]);
  r->kind = TY_INT;
  return r;
}

/* ---- reductions --------------------------------------------------------------------------------------------------- */

static Value *int_if(Value *r, const Value *like) {
  if (like->kind == TY_INT && r->known) r->kind = TY_INT;
  return r;
}

FN(sum) { return int_if(value_sum(E, a[0]), a[0]); }
FN(mean) { return value_mean(E, a[0]); }

static Value *element(Eval *E, Value *v, int32_t k) {
  Value scalar = {.kind = v->kind == TY_INT ? TY_INT : TY_REAL, .n = 1};
  return value_take(E, v, &scalar, NULL, &k);
}

/* a[0] op a[1] op ... over the elements, as a balanced tree. */
static Value *fold(Eval *E, unsigned op, Value *v, int32_t from, int32_t n) {
  if (n == 1) return element(E, v, from);
  return map2(E, op, fold(E, op, v, from, n / 2), fold(E, op, v, from + n / 2, n - n / 2));
}

FN(prod) { return int_if(a[0]->n ? fold(E, IR_MUL, a[0], 0, a[0]->n) : value_real(E, 1), a[0]); }

static Value *extreme(Eval *E, Value **a, int n, unsigned op, double empty) {
  if (n == 2)
    return a[0]->kind == TY_INT && a[1]->kind == TY_INT ? int_if(map2(E, op, a[0], a[1]), a[0]) : map2(E, op, a[0], a[1]);
  return a[0]->n ? int_if(fold(E, op, a[0], 0, a[0]->n), a[0]) : value_real(E, empty);
}
FN(min) { return extreme(E, a, n, IR_FMIN, INFINITY); }
FN(max) { return extreme(E, a, n, IR_FMAX, -INFINITY); }

/* sum (x - mean)^2 / (n - 1) */
FN(variance) {
  if (a[0]->n < 2) return value_real(E, 0);
  Value *d = map2(E, IR_SUB, a[0], value_mean(E, a[0]));
  return map2(E, IR_DIV, value_sum(E, map1(E, IR_SQUARE, d)), value_real(E, a[0]->n - 1));
}
FN(sd) { return a[0]->n < 2 ? value_real(E, 0) : map1(E, IR_SQRT, fn_variance(E, a, n, call)); }
FN(norm1) { return value_sum(E, map1(E, IR_ABS, a[0])); }
FN(dot_self) { return value_sum(E, map1(E, IR_SQUARE, a[0])); }
FN(norm2) { return map1(E, IR_SQRT, fn_dot_self(E, a, n, call)); }
FN(squared_distance) { return value_sum(E, map1(E, IR_SQUARE, map2(E, IR_SUB, a[0], a[1]))); }
FN(distance) { return map1(E, IR_SQRT, fn_squared_distance(E, a, n, call)); }
FN(dot_product) {
  if (a[0]->n != a[1]->n) ctx_fail(E->ctx, PVI_PROGRAM, place(call), "sizes do not match: %d and %d", a[0]->n, a[1]->n);
  static const Value scalar = {.kind = TY_REAL, .n = 1};
  if (a[0]->n == 0) return value_real(E, 0);
  return value_matmul(E, a[0], a[1], 1, a[0]->n, 1, &scalar);
}

FN(log_sum_exp) { return n == 2 ? map2(E, IR_LOG_SUM_EXP2, a[0], a[1]) : value_reduce(E, IR_LSE, a[0]); }
FN(log_softmax) { return map2(E, IR_SUB, a[0], value_reduce(E, IR_LSE, a[0])); }
FN(softmax) { return map1(E, IR_EXP, fn_log_softmax(E, a, n, call)); }

/* log_mix(theta, l1, l2), or log sum_k theta[k] exp(l[k]) */
FN(log_mix) {
  if (n == 3) return map3(E, IR_LOG_MIX, a[0], a[1], a[2]);
  return value_reduce(E, IR_LSE, map2(E, IR_ADD, map1(E, IR_LOG, a[0]), a[1]));
}

FN(cumulative_sum) {
  Value *v = a[0];
  if (!v->n) return v;
  if (v->known) {
    Value *r = value_known(E, v, v->axis);
    for (int32_t k = 0; k < value_total(v); k++) r->v[k] = v->v[k] + (k % v->n ? r->v[k - 1] : 0);
    return r;
  }
  return value_of_node(E, v, v->axis, ir_cumsum(E->graph, value_node(E, v), v->n));
}

/* ---- sizes -------------------------------------------------------------------------------------------------------- */

FN(size) { return value_int(E, a[0]->ndims == 0 ? 1 : a[0]->array_dims ? a[0]->dims[0] : a[0]->n); }
FN(num_elements) { return value_int(E, a[0]->n); }
FN(rows) { return value_int(E, a[0]->kind == TY_ROW_VECTOR ? 1 : a[0]->dims[0]); }
FN(cols) { return value_int(E, a[0]->kind == TY_VECTOR ? 1 : a[0]->kind == TY_ROW_VECTOR ? a[0]->dims[0] : a[0]->dims[1]); }
FN(dims) {
  int32_t nd = a[0]->ndims;
  Value *r = value_known(E, value_shape(E, TY_INT, 1, 1, &nd), NULL);
  for (int k = 0; k < nd; k++) r->v[k] = a[0]->dims[k];
  return r;
}

/* ---- filling ------------------------------------------------------------------------------------------------------ */

/* Element k of the result is element k % n of v. */
static Value *repeat(Eval *E, Value *v, const Value *shape) {
  int32_t *index = NEW_ARRAY(E->arena, int32_t, shape->n);
  for (int32_t k = 0; k < shape->n; k++) index[k] = k % v->n;
  return shape->n ? value_take(E, v, shape, NULL, index) : value_known(E, shape, NULL);
}

FN(rep_vector) {
  int32_t m = size_arg(E, a[1], call);
  return repeat(E, a[0], value_shape(E, TY_VECTOR, 0, 1, &m));
}
FN(rep_row_vector) {
  int32_t m = size_arg(E, a[1], call);
  return repeat(E, a[0], value_shape(E, TY_ROW_VECTOR, 0, 1, &m));
}
/* rep_matrix(x, m, n), rep_matrix(column, n), rep_matrix(row, m) */
FN(rep_matrix) {
  int32_t dims[2];
  if (n == 3) {
    dims[0] = size_arg(E, a[1], call);
    dims[1] = size_arg(E, a[2], call);
    return repeat(E, a[0], value_shape(E, TY_MATRIX, 0, 2, dims));
  }
  bool column = a[0]->kind == TY_VECTOR;
  dims[column ? 0 : 1] = a[0]->n;
  dims[column ? 1 : 0] = size_arg(E, a[1], call);
  Value *shape = value_shape(E, TY_MATRIX, 0, 2, dims);
  if (!column) return repeat(E, a[0], shape);
  int32_t *index = NEW_ARRAY(E->arena, int32_t, shape->n);
  for (int32_t k = 0; k < shape->n; k++) index[k] = k / dims[1];
  return value_take(E, a[0], shape, NULL, index);
}
FN(rep_array) {
  int32_t dims[MAX_DIMS];
  int nd = 0;
  if (n - 1 + a[0]->ndims > MAX_DIMS) ctx_fail(E->ctx, PVI_PROGRAM, place(call), "more than %d dimensions", MAX_DIMS);
  for (int k = 1; k < n; k++) dims[nd++] = size_arg(E, a[k], call);
  for (int k = 0; k < a[0]->ndims; k++) dims[nd++] = a[0]->dims[k];
  return repeat(E, a[0], value_shape(E, a[0]->kind, n - 1 + a[0]->array_dims, nd, dims));
}

static Value *filled(Eval *E, Value *size, const Expr *call, TypeKind kind, double x) {
  int32_t m = size_arg(E, size, call);
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
  for (int32_t k = 0; k < r->n; k++) r->v[k] /= r->n;
  return r;
}

static Value *one_hot(Eval *E, Value **a, const Expr *call, TypeKind kind) {
  Value *r = filled(E, a[0], call, kind, 0);
  long k = int_arg(E, a[1], call);
  if (k < 1 || k > r->n) ctx_fail(E->ctx, PVI_PROGRAM, place(call), "index %ld is out of range 1 to %d", k, r->n);
  r->v[k - 1] = 1;
  return r;
}
FN(one_hot_vector) { return one_hot(E, a, call, TY_VECTOR); }
FN(one_hot_row_vector) { return one_hot(E, a, call, TY_ROW_VECTOR); }
FN(one_hot_array) { return one_hot(E, a, call, TY_REAL); }
FN(one_hot_int_array) { return one_hot(E, a, call, TY_INT); }

static Value *linspaced(Eval *E, Value **a, const Expr *call, TypeKind kind) {
  Value *r = filled(E, a[0], call, kind, 0);
  need_known(E, a[1], call);
  need_known(E, a[2], call);
  double lo = a[1]->v[0], hi = a[2]->v[0];
  for (int32_t k = 0; k < r->n; k++) r->v[k] = r->n == 1 ? hi : lo + (hi - lo) * k / (r->n - 1);
  return r;
}
FN(linspaced_vector) { return linspaced(E, a, call, TY_VECTOR); }
FN(linspaced_row_vector) { return linspaced(E, a, call, TY_ROW_VECTOR); }
FN(linspaced_array) { return linspaced(E, a, call, TY_REAL); }
FN(identity_matrix) {
  int32_t k = size_arg(E, a[0], call), dims[2] = {k, k};
  Value *r = value_known(E, value_shape(E, TY_MATRIX, 0, 2, dims), NULL);
  for (int32_t i = 0; i < k; i++) r->v[i * k + i] = 1;
  return r;
}

/* ---- shapes ------------------------------------------------------------------------------------------------------- */

/* Elements in Stan's order: matrices column by column. */
static Value *column_major(Eval *E, Value *v) { return v->kind == TY_MATRIX && !v->array_dims ? value_transpose(E, v) : v; }

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
    dims[0] = v->kind == TY_ROW_VECTOR ? 1 : v->dims[0];
    dims[1] = v->ndims == 2 ? v->dims[1] : v->kind == TY_ROW_VECTOR ? v->n : 1;
    return value_reshape(E, v, TY_MATRIX, 0, 2, dims);
  }
  dims[0] = size_arg(E, a[1], call);
  dims[1] = size_arg(E, a[2], call);
  if (dims[0] * dims[1] != v->n)
    ctx_fail(E->ctx, PVI_PROGRAM, place(call), "%d elements do not make %d x %d", v->n, dims[0], dims[1]);
  bool by_column = n < 4 || int_arg(E, a[3], call) != 0;
  v = column_major(E, v);
  if (!by_column) return value_reshape(E, v, TY_MATRIX, 0, 2, dims);
  int32_t turned[2] = {dims[1], dims[0]};
  return value_transpose(E, value_reshape(E, v, TY_MATRIX, 0, 2, turned));
}

static int32_t matrix_rows(const Value *v) { return v->kind == TY_MATRIX || v->kind == TY_VECTOR ? v->dims[0] : 1; }
static int32_t matrix_cols(const Value *v) {
  return v->kind == TY_MATRIX ? v->dims[1] : v->kind == TY_ROW_VECTOR ? v->dims[0] : 1;
}

FN(append_row) {
  int32_t dims[2] = {matrix_rows(a[0]) + matrix_rows(a[1]), matrix_cols(a[0])};
  if (matrix_cols(a[0]) != matrix_cols(a[1])) ctx_fail(E->ctx, PVI_PROGRAM, place(call), "numbers of columns differ");
  bool vector = a[0]->kind != TY_MATRIX && a[1]->kind != TY_MATRIX && a[0]->kind != TY_ROW_VECTOR;
  return value_join(E, a, 2, vector ? value_shape(E, TY_VECTOR, 0, 1, dims) : value_shape(E, TY_MATRIX, 0, 2, dims));
}
FN(append_col) {
  int32_t dims[2] = {matrix_rows(a[0]), matrix_cols(a[0]) + matrix_cols(a[1])};
  if (matrix_rows(a[0]) != matrix_rows(a[1])) ctx_fail(E->ctx, PVI_PROGRAM, place(call), "numbers of rows differ");
  if (a[0]->kind != TY_MATRIX && a[1]->kind != TY_MATRIX && a[0]->kind != TY_VECTOR)
    return value_join(E, a, 2, value_shape(E, TY_ROW_VECTOR, 0, 1, dims + 1));
  int32_t turned[2] = {dims[1], dims[0]};
  Value *parts[2];
  for (int k = 0; k < 2; k++) parts[k] = a[k]->kind == TY_MATRIX ? value_transpose(E, a[k]) : a[k];
  return value_transpose(E, value_join(E, parts, 2, value_shape(E, TY_MATRIX, 0, 2, turned)));
}
FN(append_array) {
  Value shape = *a[0];
  shape.dims[0] += a[1]->dims[0];
  shape.n = a[0]->n + a[1]->n;
  return value_join(E, a, 2, &shape);
}

/* ---- parts -------------------------------------------------------------------------------------------------------- */

/* count items of the first dimension, from `from` (0-based) on. */
static Value *part(Eval *E, Value *v, long from, long count, const Expr *call) {
  if (from < 0 || count < 0 || from + count > v->dims[0])
    ctx_fail(E->ctx, PVI_PROGRAM, place(call), "elements %ld to %ld of %d", from + 1, from + count, v->dims[0]);
  Value shape = *v;
  int32_t each = v->dims[0] ? v->n / v->dims[0] : 0;
  shape.dims[0] = (int32_t)count;
  shape.n = (int32_t)count * each;
  int32_t *index = NEW_ARRAY(E->arena, int32_t, shape.n);
  for (int32_t k = 0; k < shape.n; k++) index[k] = (int32_t)from * each + k;
  return value_take(E, v, &shape, NULL, index);
}
FN(head) { return part(E, a[0], 0, int_arg(E, a[1], call), call); }
FN(tail) {
  long k = int_arg(E, a[1], call);
  return part(E, a[0], a[0]->dims[0] - k, k, call);
}
FN(segment) { return part(E, a[0], int_arg(E, a[1], call) - 1, int_arg(E, a[2], call), call); }

static Value *submatrix(Eval *E, Value *m, long i, long j, long nr, long nc, TypeKind kind, const Expr *call) {
  if (i < 1 || j < 1 || nr < 0 || nc < 0 || i - 1 + nr > m->dims[0] || j - 1 + nc > m->dims[1])
    ctx_fail(E->ctx, PVI_PROGRAM, place(call), "rows %ld to %ld, columns %ld to %ld of a %d x %d matrix", i, i + nr - 1, j,
             j + nc - 1, m->dims[0], m->dims[1]);
  int32_t dims[2] = {(int32_t)nr, (int32_t)nc}, one = (int32_t)(nr * nc);
  Value *shape = kind == TY_MATRIX ? value_shape(E, kind, 0, 2, dims) : value_shape(E, kind, 0, 1, &one);
  int32_t *index = NEW_ARRAY(E->arena, int32_t, shape->n);
  for (int32_t k = 0; k < shape->n; k++) index[k] = ((int32_t)i - 1 + k / dims[1]) * m->dims[1] + (int32_t)j - 1 + k % dims[1];
  return value_take(E, m, shape, NULL, index);
}
FN(row) { return submatrix(E, a[0], int_arg(E, a[1], call), 1, 1, a[0]->dims[1], TY_ROW_VECTOR, call); }
FN(col) { return submatrix(E, a[0], 1, int_arg(E, a[1], call), a[0]->dims[0], 1, TY_VECTOR, call); }
FN(block) {
  return submatrix(E, a[0], int_arg(E, a[1], call), int_arg(E, a[2], call), int_arg(E, a[3], call), int_arg(E, a[4], call),
                   TY_MATRIX, call);
}
FN(sub_row) {
  return submatrix(E, a[0], int_arg(E, a[1], call), int_arg(E, a[2], call), 1, int_arg(E, a[3], call), TY_ROW_VECTOR, call);
}
FN(sub_col) {
  return submatrix(E, a[0], int_arg(E, a[1], call), int_arg(E, a[2], call), int_arg(E, a[3], call), 1, TY_VECTOR, call);
}
FN(reverse) {
  Value *v = a[0];
  int32_t each = v->dims[0] ? v->n / v->dims[0] : 0, *index = NEW_ARRAY(E->arena, int32_t, v->n);
  for (int32_t k = 0; k < v->n; k++) index[k] = (v->dims[0] - 1 - k / each) * each + k % each;
  return value_take(E, v, v, NULL, index);
}
FN(diagonal) {
  int32_t m = a[0]->dims[0] < a[0]->dims[1] ? a[0]->dims[0] : a[0]->dims[1], *index = NEW_ARRAY(E->arena, int32_t, m);
  for (int32_t k = 0; k < m; k++) index[k] = k * a[0]->dims[1] + k;
  return value_take(E, a[0], value_shape(E, TY_VECTOR, 0, 1, &m), NULL, index);
}
FN(trace) { return value_sum(E, fn_diagonal(E, a, n, call)); }

/* ---- matrices ----------------------------------------------------------------------------------------------------- */

/* Rows (or columns) of a matrix scaled by a vector. */
static Value *scale_matrix(Eval *E, Value *m, Value *v, bool by_row) {
  int32_t *index = NEW_ARRAY(E->arena, int32_t, m->n);
  for (int32_t k = 0; k < m->n; k++) index[k] = by_row ? k / m->dims[1] : k % m->dims[1];
  return map2(E, IR_MUL, m, value_take(E, v, m, NULL, index));
}
FN(diag_pre_multiply) { return scale_matrix(E, a[1], a[0], true); }
FN(diag_post_multiply) { return scale_matrix(E, a[0], a[1], false); }
FN(diag_matrix) {
  int32_t k = a[0]->n;
  return scale_matrix(E, fn_identity_matrix(E, (Value *[]){value_int(E, k)}, 1, call), a[0], true);
}
FN(tcrossprod) { return eval_binary(E, OP_MUL, a[0], value_transpose(E, a[0]), place(call)); }
FN(crossprod) { return eval_binary(E, OP_MUL, value_transpose(E, a[0]), a[0], place(call)); }
FN(quad_form) {
  return eval_binary(E, OP_MUL, value_transpose(E, a[1]), eval_binary(E, OP_MUL, a[0], a[1], place(call)), place(call));
}
FN(quad_form_diag) { return scale_matrix(E, scale_matrix(E, a[0], a[1], true), a[1], false); }

/* ---- sorting: of data only ---------------------------------------------------------------------------------------- */

typedef struct {
  double x;
  int32_t at;
} Ranked;

static int ascending(const void *p, const void *q) {
  const Ranked *a = p, *b = q;
  return a->x < b->x ? -1 : a->x > b->x ? 1 : a->at < b->at ? -1 : a->at > b->at;
}
static int descending(const void *p, const void *q) {
  const Ranked *a = p, *b = q;
  return a->x > b->x ? -1 : a->x < b->x ? 1 : a->at < b->at ? -1 : a->at > b->at;
}

static Value *sorted(Eval *E, Value *v, const Expr *call, int (*order)(const void *, const void *), bool indices) {
  need_known(E, v, call);
  Ranked *r = NEW_ARRAY(E->arena, Ranked, v->n);
  for (int32_t k = 0; k < v->n; k++) r[k] = (Ranked){v->v[k], k};
  qsort(r, (size_t)v->n, sizeof *r, order);
  int32_t m = v->n;
  Value *out = value_known(E, indices ? value_shape(E, TY_INT, 1, 1, &m) : v, NULL);
  for (int32_t k = 0; k < v->n; k++) out->v[k] = indices ? r[k].at + 1 : r[k].x;
  return out;
}
FN(sort_asc) { return sorted(E, a[0], call, ascending, false); }
FN(sort_desc) { return sorted(E, a[0], call, descending, false); }
FN(sort_indices_asc) { return sorted(E, a[0], call, ascending, true); }
FN(sort_indices_desc) { return sorted(E, a[0], call, descending, true); }

/* ---- differential equations --------------------------------------------------------------------------------------- */

FN(ode_rk45) { return eval_ode(E, ODE_RK45, a, n, call); }
FN(ode_ckrk) { return eval_ode(E, ODE_CKRK, a, n, call); }
FN(ode_adams) { return eval_ode(E, ODE_ADAMS, a, n, call); }
FN(ode_bdf) { return eval_ode(E, ODE_BDF, a, n, call); }

/* ---- dispatch ----------------------------------------------------------------------------------------------------- */

typedef struct {
  FunCode *code;
  unsigned op; /* when there is no code: the elementwise op */
} FunRow;

#define MAP(OP)                                                                                                                \
  { NULL, IR_##OP }
#define CODE(id)                                                                                                               \
  { fn_##id, 0 }
#define MISSING                                                                                                                \
  { NULL, 0 }
static const FunRow rows[FUN_COUNT] = {
#define FUN(id, signatures, code) [FUN_##id] = code,
#include "stan/functions.def"
#undef FUN
};

Value *eval_function(Eval *E, FunId id, Value **args, int nargs, const Expr *call) {
  const FunRow *row = &rows[id];
  if (row->code) return row->code(E, args, nargs, call);
  if (!row->op) ctx_fail(E->ctx, PVI_PROGRAM, place(call), "the function %s is not supported yet", stan_fun_names[id]);
  Value *r = value_map(E, row->op, args);
  if (call && call->type && call->type->kind == TY_INT) r->kind = TY_INT; /* abs of an int */
  return r;
}
