/* fun_matrix.c: matrices: products, decompositions, equations. */
#include "model/fun.h"
#include "model/linear.h"
#include "num/linalg.h"

#include <math.h>
#include <string.h>

static const char *name_of(const Expr *call) {
  return call && call->name ? call->name : "the matrix";
}

static int32_t rows_of(const Value *v) { return v->kind == TY_ROW_VECTOR ? 1 : v->dims[0]; }
static int32_t columns_of(const Value *v) {
  return v->kind == TY_MATRIX ? v->dims[1] : v->kind == TY_VECTOR ? 1 : v->dims[0];
}

static Value *product(Eval *E, Value *a, Value *b, const Expr *call) {
  return eval_binary(E, OP_MUL, a, b, fun_place(call));
}

/* ---- diagonals ------------------------------------------------------------------------------- */

/* Rows (or columns) of a matrix scaled by a vector. */
static Value *scale_matrix(Eval *E, Value *m, Value *v, bool by_row) {
  int32_t *index = NEW_ARRAY(E->arena, int32_t, m->n);
  for (int32_t k = 0; k < m->n; k++) index[k] = by_row ? k / m->dims[1] : k % m->dims[1];
  return MUL(m, value_take(E, v, m, NULL, index));
}
FN(diag_pre_multiply) { return scale_matrix(E, a[1], a[0], true); }
FN(diag_post_multiply) { return scale_matrix(E, a[0], a[1], false); }
FN(quad_form_diag) { return scale_matrix(E, scale_matrix(E, a[0], a[1], true), a[1], false); }

/* v on the diagonal of a matrix like `shape`; of one number, that number. */
static Value *on_diagonal(Eval *E, Value *v, const Value *shape) {
  int32_t *index = NEW_ARRAY(E->arena, int32_t, shape->n), C = shape->dims[1];
  for (int32_t k = 0; k < shape->n; k++) index[k] = k / C != k % C ? 0 : v->ndims ? k / C + 1 : 1;
  return value_take_or_zero(E, v, shape, index);
}
FN(diag_matrix) {
  return on_diagonal(E, a[0], value_shape(E, TY_MATRIX, 0, 2, (int32_t[]){a[0]->n, a[0]->n}));
}
FN(add_diag) { return ADD(a[0], on_diagonal(E, a[1], a[0])); }
FN(diagonal) { return linear_diagonal(E, a[0]); }
FN(trace) { return value_sum(E, linear_diagonal(E, a[0])); }
FN(identity_matrix) { return linear_identity(E, fun_size(E, a[0], call)); }

/* ---- products -------------------------------------------------------------------------------- */

FN(tcrossprod) { return product(E, a[0], value_transpose(E, a[0]), call); }
FN(crossprod) { return product(E, value_transpose(E, a[0]), a[0], call); }
FN(quad_form) { return product(E, value_transpose(E, a[1]), product(E, a[0], a[1], call), call); }

static Value *lower_part(Eval *E, Value *A) {
  int32_t *index = NEW_ARRAY(E->arena, int32_t, A->n), C = A->dims[1];
  for (int32_t k = 0; k < A->n; k++) index[k] = k % C <= k / C ? k + 1 : 0;
  return value_take_or_zero(E, A, A, index);
}
FN(multiply_lower_tri_self_transpose) {
  Value *L = lower_part(E, a[0]);
  return product(E, L, value_transpose(E, L), call);
}
FN(symmetrize_from_lower_tri) {
  int32_t *index = NEW_ARRAY(E->arena, int32_t, a[0]->n), K = a[0]->dims[0];
  for (int32_t k = 0; k < a[0]->n; k++) index[k] = k % K <= k / K ? k : k % K * K + k / K;
  return value_take(E, a[0], a[0], NULL, index);
}

/* tr(B' A B) = sum of the elements of B .* (A B) */
FN(trace_quad_form) { return value_sum(E, MUL(a[1], product(E, a[0], a[1], call))); }
/* tr(D B' A B) */
FN(trace_gen_quad_form) {
  return value_sum(
      E, MUL(product(E, a[2], value_transpose(E, a[0]), call), product(E, a[1], a[2], call)));
}
/* tr(A B) */
FN(trace_dot) { return value_sum(E, MUL(a[0], value_transpose(E, a[1]))); }

/* Of the rows of x .* y. */
static Value *row_sums(Eval *E, Value *m) {
  int32_t rows = rows_of(m);
  return value_reduce_rows(E, IR_SUM, m, columns_of(m), value_shape(E, TY_VECTOR, 0, 1, &rows));
}
static Value *column_sums(Eval *E, Value *m) {
  Value *s = row_sums(E, value_transpose(E, m));
  return value_reshape(E, s, TY_ROW_VECTOR, 0, 1, s->dims);
}
FN(rows_dot_product) { return row_sums(E, MUL(a[0], a[1])); }
FN(columns_dot_product) { return column_sums(E, MUL(a[0], a[1])); }
FN(rows_dot_self) { return row_sums(E, M(SQUARE, a[0])); }
FN(columns_dot_self) { return column_sums(E, M(SQUARE, a[0])); }

FN(matrix_power) {
  long power = fun_int(E, a[1], call);
  if (power < 0)
    ctx_fail(E->ctx, PVI_PROGRAM, fun_place(call), "matrix_power: the exponent %ld is negative",
             power);
  Value *r = NULL, *square = a[0];
  for (; power; power /= 2) {
    if (power % 2) r = r ? product(E, r, square, call) : square;
    if (power > 1) square = product(E, square, square, call);
  }
  return r ? r : linear_identity(E, a[0]->dims[0]);
}

/* ---- triangles ------------------------------------------------------------------------------- */

static Value *solve(Eval *E, Triangle kind, Value *T, Value *B) {
  return B->n ? linear_matrix(E, linear_solve(E, kind, T, linear_columns(E, B)), B) : B;
}

FN(cholesky_decompose) { return linear_cholesky(E, a[0], name_of(call), fun_place(call)); }
FN(mdivide_left_tri_low) { return solve(E, LOWER, a[0], a[1]); }
/* X L = B is L' X' = B' */
FN(mdivide_right_tri_low) {
  return value_transpose(E, solve(E, LOWER_TRANSPOSED, a[1], value_transpose(E, a[0])));
}

static Value *solve_with_factor(Eval *E, Value *L, Value *B) {
  return solve(E, LOWER_TRANSPOSED, L, solve(E, LOWER, L, B));
}
FN(mdivide_left_spd) {
  return solve_with_factor(E, linear_cholesky(E, a[0], name_of(call), fun_place(call)), a[1]);
}
FN(mdivide_right_spd) {
  Value *L = linear_cholesky(E, a[1], name_of(call), fun_place(call));
  return value_transpose(E, solve_with_factor(E, L, value_transpose(E, a[0])));
}
/* (L L')^-1 = X' X with X = L^-1 */
FN(chol2inv) {
  return fn_crossprod(E, (Value *[]){solve(E, LOWER, a[0], linear_identity(E, a[0]->dims[0]))}, 1,
                      call);
}
FN(inverse_spd) {
  return fn_chol2inv(E, (Value *[]){linear_cholesky(E, a[0], name_of(call), fun_place(call))}, 1,
                     call);
}
FN(log_determinant_spd) {
  return MUL(NUM(2),
             linear_log_diagonal(E, linear_cholesky(E, a[0], name_of(call), fun_place(call))));
}

/* ---- square matrices ------------------------------------------------------------------------- */

FN(mdivide_left) { return a[1]->n ? linear_divide(E, a[0], a[1]) : a[1]; }
/* B A^-1 = (A'^-1 B')' */
FN(mdivide_right) {
  return value_transpose(
      E,
      fn_mdivide_left(E, (Value *[]){value_transpose(E, a[1]), value_transpose(E, a[0])}, 2, call));
}
FN(inverse) {
  return fn_mdivide_left(E, (Value *[]){a[0], linear_identity(E, a[0]->dims[0])}, 2, call);
}

FN(log_determinant) {
  if (!a[0]->n) return NUM(0);
  return value_sum(E, M(LOG, M(ABS, linear_diagonal(E, linear_reflect(E, a[0], NULL).R))));
}
FN(determinant) {
  if (!a[0]->n) return NUM(1);
  Reflected q = linear_reflect(E, a[0], NULL);
  Value *d = fn_prod(E, (Value *[]){linear_diagonal(E, q.R)}, 1, call);
  return q.flips % 2 ? M(NEG, d) : d;
}

/* ---- Q R: the diagonal of R is not negative -------------------------------------------------- */

/* Of an m x k matrix, m >= k: Q is m x `columns`, R is `columns` x k, k <= columns. */
typedef struct {
  Value *Q, *R;
} Orthogonal;

static Orthogonal orthogonal(Eval *E, Value *A, bool thin, const Expr *call) {
  int32_t m = A->dims[0], k = A->dims[1], columns = thin ? k : m, q = m * columns, r = columns * k;
  if (m < k)
    ctx_fail(E->ctx, PVI_PROGRAM, fun_place(call), "%s: of a %d x %d matrix is not supported yet",
             name_of(call), m, k);
  Reflected f = linear_reflect(E, A, linear_identity(E, m));
  Value *d = linear_diagonal(E, f.R),
        *sign = map3(E, IR_SELECT, map2(E, IR_LT, d, NUM(0)), NUM(-1), NUM(1));
  int32_t size = columns - k, *at = NEW_ARRAY(E->arena, int32_t, q),
          *by = NEW_ARRAY(E->arena, int32_t, q);
  Value *ones = value_vector(E, size);
  for (int32_t e = 0; e < size; e++) ones->v[e] = 1;
  Value *signs =
      value_join(E, (Value *[]){sign, ones}, 2, value_shape(E, TY_VECTOR, 0, 1, &columns));
  const Value *Q = value_shape(E, TY_MATRIX, 0, 2, (int32_t[]){m, columns});
  for (int32_t e = 0; e < q; e++) { /* Q_ij = C_ji sign_j */
    at[e] = e % columns * m + e / columns;
    by[e] = e % columns;
  }
  Orthogonal out = {.Q = MUL(value_take(E, f.C, Q, NULL, at), value_take(E, signs, Q, NULL, by))};
  at = NEW_ARRAY(E->arena, int32_t, r);
  for (int32_t e = 0; e < k * k; e++) at[e] = e + 1; /* zeros below */
  const Value *R = value_shape(E, TY_MATRIX, 0, 2, (int32_t[]){columns, k});
  out.R = value_take_or_zero(E, scale_matrix(E, f.R, sign, true), R, at);
  return out;
}

FN(qr_Q) { return orthogonal(E, a[0], false, call).Q; }
FN(qr_R) { return orthogonal(E, a[0], false, call).R; }
FN(qr_thin_Q) { return orthogonal(E, a[0], true, call).Q; }
FN(qr_thin_R) { return orthogonal(E, a[0], true, call).R; }
FN(qr) {
  Orthogonal o = orthogonal(E, a[0], false, call);
  return value_tuple(E, (Value *[]){o.Q, o.R}, 2);
}
FN(qr_thin) {
  Orthogonal o = orthogonal(E, a[0], true, call);
  return value_tuple(E, (Value *[]){o.Q, o.R}, 2);
}

/* (A' A)^-1 A', or A' (A A')^-1: of full rank */
FN(generalized_inverse) {
  Value *T = value_transpose(E, a[0]);
  if (!a[0]->n) return T;
  if (a[0]->dims[0] < a[0]->dims[1])
    return fn_mdivide_right_spd(E, (Value *[]){T, product(E, a[0], T, call)}, 2, call);
  return fn_mdivide_left_spd(E, (Value *[]){product(E, T, a[0], call), T}, 2, call);
}

/* ---- e^A ------------------------------------------------------------------------------------- */

/* The number of halvings after which the largest column sum is at most 1/2: of others six, for sums
 * up to a hundred. */
static int halvings(const Value *A) {
  int32_t K = A->dims[0];
  double most = 0;
  if (!A->known) return 6;
  for (int32_t r = 0; r < value_total(A); r += A->n)
    for (int32_t j = 0; j < K; j++) {
      double s = 0;
      for (int32_t i = 0; i < K; i++) s += fabs(A->v[r + i * K + j]);
      if (s > most) most = s;
    }
  return most > 0.5 && most < 1e300 ? (int)ceil(log2(most)) + 1 : 0;
}

/* e^A = (e^(A / 2^s))^(2^s); Taylor's series to the order 20, good for columns of X up to 2, by
 * powers of X = A / 2^s in steps of three: sum_j X^3j (I / (3j)! + X / (3j + 1)! + X^2 / (3j + 2)!)
 */
FN(matrix_exp) {
  if (!a[0]->n) return a[0];
  int s = halvings(a[0]);
  Value *X = MUL(a[0], NUM(ldexp(1, -s))), *I = linear_identity(E, X->dims[0]);
  Value *X2 = product(E, X, X, call), *X3 = product(E, X2, X, call), *sum = NULL;
  for (int j = 6; j >= 0; j--) {
    double f = tgamma(3 * j + 1);
    Value *term = ADD(MUL(I, NUM(1 / f)), ADD(MUL(X, NUM(1 / (f * (3 * j + 1)))),
                                              MUL(X2, NUM(1 / (f * (3 * j + 1) * (3 * j + 2))))));
    sum = sum ? ADD(term, product(E, X3, sum, call)) : term;
  }
  for (; s > 0; s--) sum = product(E, sum, sum, call);
  return sum;
}
FN(matrix_exp_multiply) { return product(E, fn_matrix_exp(E, a, 1, call), a[1], call); }
FN(scale_matrix_exp_multiply) {
  return fn_matrix_exp_multiply(E, (Value *[]){MUL(a[0], a[1]), a[2]}, 2, call);
}
