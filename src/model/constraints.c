/* constraints.c: parameters from the unconstrained vector, with the log Jacobian of each transform,
 * as Stan 2.33 has them.
 *
 * Each transform works on one item (a scalar, vector or matrix) of an array of them; u holds its
 * unconstrained numbers in Stan's order. Bounds and offsets work on all elements together, for they
 * may be given per element.
 */
#include "model/eval.h"

#include <math.h>

static void add_jacobian(Eval *E, Value *v) {
  if (v->n == 0) return;
  Value *s = value_sum(E, v);
  PUSH(E->arena, E->jacobian, E->njacobian, E->cap_jacobian, s);
}

static Value *number(Eval *E, double x) { return value_real(E, x); }

/* ---- bounds: per element --------------------------------------------------------------------- */

/* exp(u) + lower, Jacobian u */
static Value *lower_bound(Eval *E, Value *u, Value *lower) {
  add_jacobian(E, u);
  return map2(E, IR_ADD, map1(E, IR_EXP, u), lower);
}

/* upper - exp(u), Jacobian u */
static Value *upper_bound(Eval *E, Value *u, Value *upper) {
  add_jacobian(E, u);
  return map2(E, IR_SUB, upper, map1(E, IR_EXP, u));
}

/* lower + (upper - lower) inv_logit(u), Jacobian log(upper - lower) + log inv_logit(u) + log
 * inv_logit(-u) */
static Value *both_bounds(Eval *E, Value *u, Value *lower, Value *upper) {
  Value *width = map2(E, IR_SUB, upper, lower);
  Value *j =
      map2(E, IR_ADD, map1(E, IR_LOG_INV_LOGIT, u), map1(E, IR_LOG_INV_LOGIT, map1(E, IR_NEG, u)));
  add_jacobian(E, map2(E, IR_ADD, map1(E, IR_LOG, width), j));
  return map2(E, IR_ADD, lower, map2(E, IR_MUL, width, map1(E, IR_INV_LOGIT, u)));
}

static bool all_equal_to(const Value *v, double x) {
  for (int32_t k = 0; v && v->known && k < v->n; k++)
    if (v->v[k] != x) return false;
  return !v || v->known;
}

static bool any_infinite(const Value *v) {
  for (int32_t k = 0; v && v->known && k < v->n; k++)
    if (isinf(v->v[k])) return true;
  return false;
}

static Value *bounded(Eval *E, Value *u, Value *lower, Value *upper) {
  if (all_equal_to(lower, -INFINITY)) lower = NULL;
  if (all_equal_to(upper, INFINITY)) upper = NULL;
  if ((any_infinite(lower) || any_infinite(upper)) &&
      u->n > 1) { /* element by element: some have a bound, some none */
    Value **parts = NEW_ARRAY(E->arena, Value *, u->n);
    for (int32_t k = 0; k < u->n; k++)
      parts[k] = bounded(E, value_element(E, u, k),
                         lower ? value_element(E, lower, lower->n == 1 ? 0 : k) : NULL,
                         upper ? value_element(E, upper, upper->n == 1 ? 0 : k) : NULL);
    return value_join(E, parts, u->n, u);
  }
  if (lower && upper) return both_bounds(E, u, lower, upper);
  if (lower) return lower_bound(E, u, lower);
  return upper ? upper_bound(E, u, upper) : u;
}

/* offset + multiplier u, Jacobian log multiplier per element */
static Value *affine(Eval *E, Value *u, Value *offset, Value *multiplier) {
  if (multiplier) {
    Value *j = map1(E, IR_LOG, multiplier);
    add_jacobian(E, j->n == u->n ? j : map2(E, IR_MUL, j, number(E, u->n)));
    u = map2(E, IR_MUL, multiplier, u);
  }
  return offset ? map2(E, IR_ADD, offset, u) : u;
}

/* ---- vectors --------------------------------------------------------------------------------- */

static Value *cumulative(Eval *E, Value *v) {
  return v->n ? value_of_node(E, v, v->axis, ir_cumsum(E->graph, value_node(E, v), v->n)) : v;
}

/* x[1] = u[1], x[k] = x[k-1] + exp(u[k]) */
static Value *ordered(Eval *E, Value *u) {
  if (u->n < 2) return u;
  Value *rest = value_slice(E, u, 1, u->n - 1);
  add_jacobian(E, rest);
  return cumulative(
      E, value_join(E, (Value *[]){value_slice(E, u, 0, 1), map1(E, IR_EXP, rest)}, 2, u));
}

static Value *positive_ordered(Eval *E, Value *u) {
  add_jacobian(E, u);
  return cumulative(E, map1(E, IR_EXP, u));
}

/* Stick breaking, centred: z[k] = inv_logit(u[k] - log(K - k)), x[k] = z[k] (1 - x[1] - ... -
 * x[k-1]) */
static Value *simplex(Eval *E, Value *u, const Value *shape) {
  int32_t K = u->n + 1;
  Value **x = NEW_ARRAY(E->arena, Value *, K), *log_stick = number(E, 0);
  for (int32_t k = 0; k < K - 1; k++) {
    Value *a = map2(E, IR_SUB, value_element(E, u, k), number(E, log(K - k - 1)));
    Value *log_z = map1(E, IR_LOG_INV_LOGIT, a),
          *log_1mz = map1(E, IR_LOG_INV_LOGIT, map1(E, IR_NEG, a));
    Value *log_x = map2(E, IR_ADD, log_stick, log_z);
    add_jacobian(E, map2(E, IR_ADD, log_x, log_1mz));
    x[k] = map1(E, IR_EXP, log_x);
    log_stick = map2(E, IR_ADD, log_stick, log_1mz);
  }
  x[K - 1] = map1(E, IR_EXP, log_stick);
  return value_join(E, x, K, shape);
}

/* x = u / |u|, Jacobian -|u|^2 / 2 */
static Value *unit_vector(Eval *E, Value *u) {
  Value *ss = value_sum(E, map1(E, IR_SQUARE, u));
  add_jacobian(E, map2(E, IR_MUL, ss, number(E, -0.5)));
  return map2(E, IR_DIV, u, map1(E, IR_SQRT, ss));
}

/* Isometric log-ratio basis: the inverse of Stan's Helmert-like map, no Jacobian. */
static Value *sum_to_zero(Eval *E, Value *u, const Value *shape) {
  int32_t N = u->n;
  double *B = NEW_ARRAY(E->arena, double, (N + 1) * N); /* x = B u */
  for (int32_t i = N; i > 0; i--) {
    double w = 1 / sqrt((double)i * (i + 1));
    for (int32_t k = 0; k < i; k++) B[k * N + i - 1] += w;
    B[i * N + i - 1] -= w * i;
  }
  int32_t dims[2] = {N + 1, N};
  Value *b = value_known(E, value_shape(E, TY_MATRIX, 0, 2, dims), NULL);
  for (int32_t k = 0; k < b->n; k++) b->v[k] = B[k];
  return value_matmul(E, b, u, (MatrixProduct){N + 1, N, 1}, shape);
}

/* ---- matrices -------------------------------------------------------------------------------- */

static Value *assemble(Eval *E, Value **x, int32_t n, const Value *shape) {
  return value_join(E, x, n, shape);
}

/* Rows of a Cholesky factor of a correlation matrix from z in (-1, 1), row by row: x[i,j] = z
 * sqrt(1 - sum of squares so far).
 */
static Value *cholesky_corr_rows(Eval *E, Value *const *z, const Value *shape) {
  int32_t K = shape->dims[0];
  Value **x = NEW_ARRAY(E->arena, Value *, K * K);
  for (int32_t k = 0; k < K * K; k++) x[k] = number(E, 0);
  x[0] = number(E, 1);
  for (int32_t i = 1, k = 0; i < K; i++) {
    Value *left = number(E, 1); /* 1 - sum of squares */
    for (int32_t j = 0; j < i; j++, k++) {
      Value *s = map1(E, IR_SQRT, left);
      if (j) add_jacobian(E, map1(E, IR_LOG, s));
      x[i * K + j] = map2(E, IR_MUL, z[k], s);
      left = map2(E, IR_SUB, left, map1(E, IR_SQUARE, x[i * K + j]));
    }
    x[i * K + i] = map1(E, IR_SQRT, left);
  }
  return assemble(E, x, K * K, shape);
}

/* z = tanh(u), Jacobian log(1 - z^2) = log 4 - 2 log(e^u + e^-u) */
static Value **tanh_all(Eval *E, Value *u) {
  Value **z = NEW_ARRAY(E->arena, Value *, u->n + 1);
  for (int32_t k = 0; k < u->n; k++) {
    Value *uk = value_element(E, u, k);
    z[k] = map1(E, IR_TANH, uk);
    Value *two = map2(E, IR_MUL, uk, number(E, 2));
    Value *j = map2(E, IR_ADD, map1(E, IR_LOG_INV_LOGIT, two),
                    map1(E, IR_LOG_INV_LOGIT, map1(E, IR_NEG, two)));
    add_jacobian(E, map2(E, IR_ADD, j, number(E, log(4))));
  }
  return z;
}

/* Lower triangle row by row, the diagonal by exp; M x N with M >= N. */
static Value *cholesky_cov(Eval *E, Value *u, const Value *shape) {
  int32_t M = shape->dims[0], N = shape->dims[1];
  Value **x = NEW_ARRAY(E->arena, Value *, M * N);
  for (int32_t i = 0, k = 0; i < M; i++)
    for (int32_t j = 0; j < N; j++) {
      x[i * N + j] = j <= i ? value_element(E, u, k++) : number(E, 0);
      if (j == i) {
        add_jacobian(E, x[i * N + j]);
        x[i * N + j] = map1(E, IR_EXP, x[i * N + j]);
      }
    }
  return assemble(E, x, M * N, shape);
}

static Value *times_transpose(Eval *E, Value *L, const Value *shape) {
  int32_t K = shape->dims[0];
  return value_matmul(E, L, value_transpose(E, L), (MatrixProduct){K, K, K}, shape);
}

/* L L' of an unconstrained Cholesky factor; Jacobian K log 2 + sum_k (K - k + 2) u_kk, k = 1.. */
static Value *cov_matrix(Eval *E, Value *u, const Value *shape) {
  int32_t K = shape->dims[0];
  Value **x = NEW_ARRAY(E->arena, Value *, K * K);
  for (int32_t i = 0, k = 0; i < K; i++)
    for (int32_t j = 0; j < K; j++) {
      x[i * K + j] = j <= i ? value_element(E, u, k++) : number(E, 0);
      if (j != i) continue;
      add_jacobian(E, map2(E, IR_ADD, map2(E, IR_MUL, x[i * K + j], number(E, K - i + 1)),
                           number(E, log(2))));
      x[i * K + j] = map1(E, IR_EXP, x[i * K + j]);
    }
  return times_transpose(E, assemble(E, x, K * K, shape), shape);
}

/* Partial correlations column by column; Jacobian of the correlation matrix from the factor's, as
 * Stan adds it. */
static Value *corr_matrix(Eval *E, Value *u, const Value *shape) {
  int32_t K = shape->dims[0];
  Value **z = tanh_all(E, u);
  Value **x = NEW_ARRAY(E->arena, Value *, K * K);
  for (int32_t k = 0; k < K * K; k++) x[k] = number(E, 0);
  Value **left = NEW_ARRAY(E->arena, Value *, K); /* log of 1 - sum of squares of each row so far */
  for (int32_t i = 0; i < K; i++) left[i] = number(E, 0);
  x[0] = number(E, 1);
  for (int32_t j = 0, k = 0; j < K - 1; j++) {
    for (int32_t i = j + 1; i < K; i++, k++) {
      x[i * K + j] =
          map2(E, IR_MUL, z[k], map1(E, IR_EXP, map2(E, IR_MUL, left[i], number(E, 0.5))));
      Value *l1m = map1(E, IR_LOG1M, map1(E, IR_SQUARE, z[k]));
      left[i] = map2(E, IR_ADD, left[i], l1m);
      /* d corr / d partial: (K - j - 2) / 2 log(1 - z^2), j 0-based */
      add_jacobian(E, map2(E, IR_MUL, l1m, number(E, 0.5 * (K - j - 2))));
    }
    x[(j + 1) * K + j + 1] = map1(E, IR_EXP, map2(E, IR_MUL, left[j + 1], number(E, 0.5)));
  }
  return times_transpose(E, assemble(E, x, K * K, shape), shape);
}

/* ---- dispatch -------------------------------------------------------------------------------- */

static int32_t item_size(const Decl *d, const int32_t *inner, int ninner) {
  int32_t n = 1;
  for (int k = 0; k < ninner; k++) n *= inner[k];
  int32_t K = ninner ? inner[0] : 1;
  switch (d->con.kind) {
  case CON_SIMPLEX:
  case CON_SUM_TO_ZERO: return ninner == 1 ? (K > 0 ? K - 1 : 0) : n;
  case CON_CHOLESKY_CORR:
  case CON_CORR: return K * (K - 1) / 2;
  case CON_COV: return K * (K + 1) / 2;
  case CON_CHOLESKY_COV: return inner[1] * (inner[1] + 1) / 2 + (inner[0] - inner[1]) * inner[1];
  default: return n;
  }
}

static int32_t item_count(const Value *shape) {
  int32_t n = 1;
  for (int k = 0; k < shape->array_dims; k++) n *= shape->dims[k];
  return n;
}

int32_t constrain_size(const Decl *d, const Value *shape) {
  int inner = shape->ndims - shape->array_dims;
  return item_count(shape) * item_size(d, shape->dims + shape->array_dims, inner);
}

static Value *one_item(Eval *E, const Decl *d, Value *u, const Value *item) {
  switch (d->con.kind) {
  case CON_ORDERED: return ordered(E, u);
  case CON_POSITIVE_ORDERED: return positive_ordered(E, u);
  case CON_SIMPLEX: return simplex(E, u, item);
  case CON_UNIT_VECTOR: return unit_vector(E, u);
  case CON_SUM_TO_ZERO: return sum_to_zero(E, u, item);
  case CON_CHOLESKY_CORR: return cholesky_corr_rows(E, tanh_all(E, u), item);
  case CON_CHOLESKY_COV: return cholesky_cov(E, u, item);
  case CON_CORR: return corr_matrix(E, u, item);
  case CON_COV: return cov_matrix(E, u, item);
  default:
    ctx_fail(E->ctx, PVI_PROGRAM, d->loc,
             "parameters of this constrained type are not supported yet");
  }
}

/* Structured types: every item of the array by itself. */
static Value *structured(Eval *E, const Decl *d, const Value *shape, int32_t offset) {
  int32_t count = item_count(shape);
  int inner = shape->ndims - shape->array_dims;
  Value *item = value_shape(E, shape->kind, 0, inner, shape->dims + shape->array_dims);
  int32_t size = item_size(d, item->dims, inner);
  Value **parts = NEW_ARRAY(E->arena, Value *, count + 1);
  for (int32_t k = 0; k < count; k++) {
    Value *u = value_shape(E, TY_VECTOR, 0, 1, &size);
    u = size ? value_of_node(E, u, NULL, ir_input(E->graph, offset + k * size, size))
             : value_known(E, u, NULL);
    parts[k] = one_item(E, d, u, item);
  }
  return value_join(E, parts, count, shape);
}

/* The unconstrained numbers of a scalar, vector or matrix, row-major: Stan has matrices column by
 * column. */
static Value *raw(Eval *E, const Value *shape, int32_t offset) {
  if (!shape->n) return value_known(E, shape, NULL);
  Node u = ir_input(E->graph, offset, shape->n);
  if (shape->kind == TY_MATRIX) {
    int32_t R = shape->dims[shape->ndims - 2], C = shape->dims[shape->ndims - 1],
            *index = NEW_ARRAY(E->arena, int32_t, shape->n);
    for (int32_t k = 0; k < shape->n; k++) {
      int32_t item = k / (R * C), i = k % (R * C) / C, j = k % C;
      index[k] = item * R * C + j * R + i;
    }
    u = ir_gather(E->graph, u, index, shape->n);
  }
  return value_of_node(E, shape, NULL, u);
}

static Value *argument(Eval *E, const Expr *e, const Value *shape) {
  if (!e) return NULL;
  Value *v = eval_expr(E, e);
  if (v->n != 1 && v->n != shape->n)
    ctx_fail(E->ctx, PVI_PROGRAM, e->loc, "%d bounds for %d elements", v->n, shape->n);
  return v;
}

Value *constrain(Eval *E, const Decl *d, int32_t *offset) {
  Value shape;
  eval_dims(E, d, &shape);
  if (shape.kind != TY_REAL && shape.kind != TY_VECTOR && shape.kind != TY_ROW_VECTOR &&
      shape.kind != TY_MATRIX)
    ctx_fail(E->ctx, PVI_PROGRAM, d->loc,
             "parameter %s: this type of parameter is not supported yet", d->name);
  int32_t at = *offset;
  *offset += constrain_size(d, &shape);
  if (d->con.kind == CON_NONE) return raw(E, &shape, at);
  if (d->con.kind == CON_BOUNDS)
    return shape.n ? bounded(E, raw(E, &shape, at), argument(E, d->con.lower, &shape),
                             argument(E, d->con.upper, &shape))
                   : raw(E, &shape, at);
  if (d->con.kind == CON_AFFINE)
    return affine(E, raw(E, &shape, at), argument(E, d->con.offset, &shape),
                  argument(E, d->con.multiplier, &shape));
  return structured(E, d, &shape, at);
}
