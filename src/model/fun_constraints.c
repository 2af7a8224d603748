/* fun_constraints.c: the transforms of declarations as functions that a program calls itself:
 * x_constrain, from unconstrained numbers; x_jacobian, which adds the log Jacobian too; and
 * x_unconstrain, the way back. The transforms are those of constraint.h. */
#include "model/constraint.h"
#include "model/fun.h"

/* ---- with and without the Jacobian ----------------------------------------------------------- */

/* What a transform adds to the Jacobian is dropped, or added where the program stands. */
static Value *settle(Eval *E, size_t before, bool jacobian, Value *x) {
  size_t n = E->njacobian - before;
  Value **terms = NEW_ARRAY(E->arena, Value *, n + 1);
  for (size_t k = 0; k < n; k++) terms[k] = E->jacobian[before + k];
  E->njacobian = before;
  for (size_t k = 0; jacobian && k < n; k++) eval_add_jacobian(E, terms[k]);
  return x;
}

/* ---- bounds, offset and multiplier ----------------------------------------------------------- */

/* As many elements as there are bounds. */
static Value *spread(Eval *E, Value *u, Value *const *bounds, int n) {
  for (int k = 0; k < n; k++)
    if (bounds[k]->n != u->n && u->n == 1) u = map2(E, IR_ADD, u, value_known(E, bounds[k], NULL));
  return u;
}

#define BRACKETS(name, count, first, second, kind)                                                 \
  static Value *name##_of(Eval *E, Value **a, bool jacobian) {                                     \
    size_t before = E->njacobian;                                                                  \
    Value *u = spread(E, a[0], a + 1, count);                                                      \
    return settle(E, before, jacobian, constrain_##kind(E, u, first, second));                     \
  }                                                                                                \
  FN(name##_constrain) { return name##_of(E, a, false); }                                          \
  FN(name##_jacobian) { return name##_of(E, a, true); }                                            \
  FN(name##_unconstrain) {                                                                         \
    return unconstrain_##kind(E, spread(E, a[0], a + 1, count), first, second);                    \
  }

BRACKETS(lower_bound, 1, a[1], NULL, bounds)
BRACKETS(upper_bound, 1, NULL, a[1], bounds)
BRACKETS(lower_upper_bound, 2, a[1], a[2], bounds)
BRACKETS(offset_multiplier, 2, a[1], a[2], affine)

/* ---- vectors and matrices -------------------------------------------------------------------- */

/* The shape of an array like v of items of m rows and n columns, or of n elements (m = 0). */
static Value *array_like(Eval *E, const Value *v, TypeKind kind, int32_t m, int32_t n) {
  int32_t dims[MAX_DIMS];
  int ndims = v->array_dims;
  for (int k = 0; k < ndims; k++) dims[k] = v->dims[k];
  if (kind == TY_MATRIX) dims[ndims++] = m;
  dims[ndims++] = n;
  return value_shape(E, kind, v->array_dims, ndims, dims);
}

/* Every matrix of v, its elements row by row, as one that has them column by column, in m columns.
 */
static Value *turned(Eval *E, Value *v, int32_t size, int32_t m, const Value *shape) {
  int32_t rows = v->axis ? v->axis->rows : 1, n = size / m;
  int32_t *index = NEW_ARRAY(E->arena, int32_t, rows * v->n + 1);
  for (int32_t e = 0; e < rows * v->n; e++) {
    int32_t at = e % v->n, in = at % size;
    index[e] = at - in + in % m * n + in / m;
  }
  return value_take(E, v, shape, v->axis, index);
}

/* Matrices of unconstrained numbers have them column by column. */
static Value *column_major(Eval *E, Value *v) {
  if (v->kind != TY_MATRIX || !v->n) return v;
  int32_t m = v->dims[v->ndims - 2], n = v->dims[v->ndims - 1];
  return turned(E, v, m * n, m, value_shape(E, TY_VECTOR, 0, 1, &v->n));
}

static Value *row_major(Eval *E, Value *u, const Value *shape) {
  if (shape->kind != TY_MATRIX || !shape->n)
    return value_reshape(E, u, shape->kind, shape->array_dims, shape->ndims, shape->dims);
  int32_t m = shape->dims[shape->ndims - 2], n = shape->dims[shape->ndims - 1];
  return turned(E, u, m * n, n, shape);
}

typedef struct {
  ConstraintKind kind;
  const Expr *call;
  bool jacobian;
} Wanted;

static Value *make(Eval *E, const Wanted *w, Value *u, const Value *shape) {
  size_t before = E->njacobian;
  ItemShape items = constrain_items(E, w->kind, shape);
  int32_t have =
      u->kind == TY_MATRIX ? u->dims[u->ndims - 2] * u->dims[u->ndims - 1] : u->dims[u->ndims - 1];
  if (items.numbers < 0 || (items.count && items.numbers != have))
    ctx_fail(E->ctx, PVI_PROGRAM, fun_place(w->call),
             "%s: %d numbers are given; a %s of this size is made of %d", w->call->name, have,
             stan_constraint_name(w->kind), items.numbers < 0 ? 0 : items.numbers);
  return settle(E, before, w->jacobian, constrain_by_items(E, w->kind, column_major(E, u), shape));
}

static void must_exist(Eval *E, ConstraintKind kind, const Value *v, const Expr *call) {
  ItemShape items = constrain_items(E, kind, v);
  E->density = fun_place(call);
  if (items.numbers < 0)
    ctx_fail(E->ctx, PVI_PROGRAM, fun_place(call), "%s: there is no %s of %d rows and %d columns",
             call ? call->name : "this function", stan_constraint_name(kind), items.m, items.n);
}

static int32_t last(const Value *v) { return v->dims[v->ndims - 1]; }
static int32_t rows_of(const Value *v) { return v->dims[v->ndims - 2]; }

/* `shape` is what the function makes, `free` what it is made of. */
#define ITEMS(name, id, shape, free)                                                               \
  FN(name##_constrain) { return make(E, &(Wanted){CON_##id, call, false}, a[0], shape); }          \
  FN(name##_jacobian) { return make(E, &(Wanted){CON_##id, call, true}, a[0], shape); }            \
  FN(name##_unconstrain) {                                                                         \
    must_exist(E, CON_##id, a[0], call);                                                           \
    return row_major(E, unconstrain_by_items(E, CON_##id, a[0]), free);                            \
  }
#define VECTOR(n) array_like(E, a[0], TY_VECTOR, 0, n)
#define MATRIX(m, n) array_like(E, a[0], TY_MATRIX, m, n)
#define NUMBERS(id) VECTOR(constrain_items(E, CON_##id, a[0]).numbers)
#define SIZE(k) fun_size(E, a[k], call)

ITEMS(ordered, ordered, VECTOR(last(a[0])), VECTOR(last(a[0])))
ITEMS(positive_ordered, positive_ordered, VECTOR(last(a[0])), VECTOR(last(a[0])))
ITEMS(simplex, simplex, VECTOR(last(a[0]) + 1), VECTOR(last(a[0]) - 1))
ITEMS(unit_vector, unit_vector, VECTOR(last(a[0])), VECTOR(last(a[0])))
ITEMS(stochastic_column, column_stochastic_matrix, MATRIX(rows_of(a[0]) + 1, last(a[0])),
      MATRIX(rows_of(a[0]) - 1, last(a[0])))
ITEMS(stochastic_row, row_stochastic_matrix, MATRIX(rows_of(a[0]), last(a[0]) + 1),
      MATRIX(rows_of(a[0]), last(a[0]) - 1))
ITEMS(corr_matrix, corr_matrix, MATRIX(SIZE(1), SIZE(1)), NUMBERS(corr_matrix))
ITEMS(cov_matrix, cov_matrix, MATRIX(SIZE(1), SIZE(1)), NUMBERS(cov_matrix))
ITEMS(cholesky_factor_corr, cholesky_factor_corr, MATRIX(SIZE(1), SIZE(1)),
      NUMBERS(cholesky_factor_corr))
ITEMS(cholesky_factor_cov, cholesky_factor_cov, MATRIX(SIZE(1), SIZE(2)),
      NUMBERS(cholesky_factor_cov))

/* Vectors and matrices have one name. */
static Value *make_zero_sum(Eval *E, Value **a, const Expr *call, bool jacobian) {
  if (a[0]->kind == TY_MATRIX)
    return make(E, &(Wanted){CON_sum_to_zero_matrix, call, jacobian}, a[0],
                MATRIX(rows_of(a[0]) + 1, last(a[0]) + 1));
  return make(E, &(Wanted){CON_sum_to_zero_vector, call, jacobian}, a[0], VECTOR(last(a[0]) + 1));
}
FN(sum_to_zero_constrain) { return make_zero_sum(E, a, call, false); }
FN(sum_to_zero_jacobian) { return make_zero_sum(E, a, call, true); }
FN(sum_to_zero_unconstrain) {
  if (a[0]->kind == TY_MATRIX)
    return row_major(E, unconstrain_by_items(E, CON_sum_to_zero_matrix, a[0]),
                     MATRIX(rows_of(a[0]) - 1, last(a[0]) - 1));
  return row_major(E, unconstrain_by_items(E, CON_sum_to_zero_vector, a[0]),
                   VECTOR(last(a[0]) - 1));
}
