/* linear.c: Cholesky's decomposition, triangular systems, Householder's reflections, column by
 * column: step k works on all that is left as one vector, so a k x k matrix costs O(k) nodes of
 * O(k^2) elements. */
#include "model/linear.h"

#include "model/arith.h"
#include "num/linalg.h"

#include <assert.h>
#include <math.h>

/* ---- pieces ---------------------------------------------------------------------------------- */

static Value *take(Eval *E, Value *v, int32_t n, const int32_t *index) {
  return value_take(E, v, value_shape(E, TY_VECTOR, 0, 1, &n), NULL, index);
}

static Value *matrix_shape(Eval *E, int32_t rows, int32_t cols) {
  return value_shape(E, TY_MATRIX, 0, 2, (int32_t[]){rows, cols});
}

/* Parts that are made one by one, addressed by place when all are there; place 0 is the number 0.
 */
typedef struct {
  Value **parts;
  int count, cap;
  int32_t n;
} Pieces;

static int32_t piece_add(Eval *E, Pieces *p, Value *v) {
  if (!p->count) {
    p->n = 1;
    PUSH(E->arena, p->parts, p->count, p->cap, NUM(0));
  }
  int32_t at = p->n;
  PUSH(E->arena, p->parts, p->count, p->cap, v);
  p->n += v->n;
  return at;
}

static Value *piece_take(Eval *E, const Pieces *p, const int32_t *index, const Value *shape) {
  Value *all = value_join(E, p->parts, p->count, value_shape(E, TY_VECTOR, 0, 1, &p->n));
  return value_take(E, all, shape, NULL, index);
}

Value *linear_identity(Eval *E, int32_t n) {
  Value *r = value_known(E, matrix_shape(E, n, n), NULL);
  for (int32_t i = 0; i < n; i++) r->v[i * n + i] = 1;
  return r;
}

Value *linear_diagonal(Eval *E, Value *A) {
  int32_t n = A->dims[0] < A->dims[1] ? A->dims[0] : A->dims[1],
          *index = NEW_ARRAY(E->arena, int32_t, n);
  for (int32_t k = 0; k < n; k++) index[k] = k * A->dims[1] + k;
  return take(E, A, n, index);
}

Value *linear_log_diagonal(Eval *E, Value *A) {
  return value_sum(E, M(LOG, linear_diagonal(E, A)));
}

Items linear_columns(Eval *E, Value *B) {
  if (B->kind != TY_MATRIX) return (Items){B, 1, B->n};
  return (Items){value_transpose(E, B), B->dims[1], B->dims[0]};
}

Value *linear_matrix(Eval *E, Items x, const Value *shape) {
  if (shape->kind != TY_MATRIX) return value_reshape(E, x.v, shape->kind, 0, 1, &x.size);
  return value_transpose(E, value_reshape(E, x.v, TY_MATRIX, 0, 2, (int32_t[]){x.count, x.size}));
}

/* ---- Cholesky -------------------------------------------------------------------------------- */

static Value *known_cholesky(Eval *E, const Value *A, const char *who, Loc loc) {
  Value *L = value_known(E, A, A->axis);
  size_t K = (size_t)A->dims[0];
  for (int32_t r = 0; r < value_total(A); r += A->n) {
    bool strict = !eval_is_draw(E) && !eval_is_conditional(E);
    if (strict && !la_is_symmetric(A->v + r, K))
      ctx_fail(E->ctx, PVI_DATA, loc, "%s: the matrix is not symmetric", who);
    if (la_cholesky(A->v + r, L->v + r, K)) continue;
    if (strict) ctx_fail(E->ctx, PVI_DATA, loc, "%s: the matrix is not positive definite", who);
    for (int32_t k = 0; k < A->n; k++) L->v[r + k] = NAN;
  }
  return L;
}

/* The lower triangle, column after column: column k begins with its diagonal element. */
static Value *lower_triangle(Eval *E, Value *A) {
  int32_t K = A->dims[0], n = K * (K + 1) / 2, *index = NEW_ARRAY(E->arena, int32_t, n);
  for (int32_t j = 0, e = 0; j < K; j++)
    for (int32_t i = j; i < K; i++) index[e++] = i * K + j;
  return take(E, A, n, index);
}

/* rest_ij - l_i l_j for i >= j > k, of the triangle S of m columns whose first one gave l (m - 1
 * elements) */
static Value *without_column(Eval *E, Value *S, Value *l, int32_t m) {
  int32_t n = m * (m - 1) / 2, e = 0;
  int32_t *left = NEW_ARRAY(E->arena, int32_t, n), *right = NEW_ARRAY(E->arena, int32_t, n);
  for (int32_t j = 0; j < m - 1; j++)
    for (int32_t i = j; i < m - 1; i++, e++) left[e] = i, right[e] = j;
  return map3(E, IR_FNMA, take(E, l, n, left), take(E, l, n, right), value_slice(E, S, m, n));
}

/* L_kk = sqrt(A_kk), L_ik = A_ik / L_kk, then A_ij -= L_ik L_jk */
Value *linear_cholesky(Eval *E, Value *A, const char *who, Loc loc) {
  assert(A->dims[0] == A->dims[1]);
  if (A->known || !A->n) return known_cholesky(E, A, who, loc);
  int32_t K = A->dims[0], *index = NEW_ARRAY(E->arena, int32_t, A->n);
  Value *S = lower_triangle(E, A);
  Pieces pieces = {0};
  for (int32_t k = 0; k < K; k++) {
    Value *d = M(SQRT, value_element(E, S, 0));
    index[k * K + k] = piece_add(E, &pieces, d);
    if (k + 1 == K) break;
    Value *l = DIV(value_slice(E, S, 1, K - k - 1), d);
    int32_t at = piece_add(E, &pieces, l);
    for (int32_t i = k + 1; i < K; i++) index[i * K + k] = at + i - k - 1;
    S = without_column(E, S, l, K - k);
  }
  return piece_take(E, &pieces, index, A);
}

/* ---- triangular systems ---------------------------------------------------------------------- */

/* Where step k finds the coefficient of unknown k in equation i; upper triangles are solved from
 * the last unknown on. */
static int32_t coefficient(Triangle kind, int32_t i, int32_t k, int32_t K) {
  int32_t p = K - 1 - i, q = K - 1 - k;
  return kind == LOWER ? i * K + k : kind == UPPER ? p * K + q : q * K + p;
}

/* b_i - T_ik x_k for the equations after k; b has the elements of the equations k.. of all K. */
static Value *without_unknown(Eval *E, Triangle kind, Value *T, Value *x, Items b, int32_t k) {
  int32_t m = b.size - 1, n = b.count * m, K = k + b.size;
  int32_t *t = NEW_ARRAY(E->arena, int32_t, n), *own = NEW_ARRAY(E->arena, int32_t, n),
          *rest = NEW_ARRAY(E->arena, int32_t, n);
  for (int32_t e = 0; e < n; e++) {
    int32_t item = e / m, i = e % m;
    t[e] = coefficient(kind, k + 1 + i, k, K);
    own[e] = item;
    rest[e] = item * b.size + 1 + i;
  }
  return map3(E, IR_FNMA, take(E, T, n, t), take(E, x, n, own), take(E, b.v, n, rest));
}

/* The elements of every item in the order in which they are solved for. */
static Value *in_order(Eval *E, Triangle kind, Items b) {
  if (kind == LOWER) return b.v;
  int32_t n = b.count * b.size, *index = NEW_ARRAY(E->arena, int32_t, n);
  for (int32_t e = 0; e < n; e++) index[e] = e / b.size * b.size + b.size - 1 - e % b.size;
  return take(E, b.v, n, index);
}

/* x_k = b_k / T_kk, then b_i -= T_ik x_k */
Items linear_solve(Eval *E, Triangle kind, Value *T, Items b) {
  int32_t K = b.size, n = b.count * K, *index = NEW_ARRAY(E->arena, int32_t, n);
  if (!n) return b;
  Items rest = {in_order(E, kind, b), b.count, K};
  Pieces pieces = {0};
  for (int32_t k = 0; k < K; k++) {
    int32_t *first = NEW_ARRAY(E->arena, int32_t, b.count);
    for (int32_t r = 0; r < b.count; r++) first[r] = r * rest.size;
    Value *x =
        DIV(take(E, rest.v, b.count, first), value_element(E, T, coefficient(kind, k, k, K)));
    int32_t at = piece_add(E, &pieces, x);
    for (int32_t r = 0; r < b.count; r++) index[r * K + (kind == LOWER ? k : K - 1 - k)] = at + r;
    if (k + 1 == K) break;
    rest = (Items){without_unknown(E, kind, T, x, rest, k), b.count, rest.size - 1};
  }
  return (Items){piece_take(E, &pieces, index, value_shape(E, TY_VECTOR, 0, 1, &n)), b.count, K};
}

/* ---- Householder ----------------------------------------------------------------------------- */

/* Columns of m elements each. */
typedef struct {
  Value *v;
  int32_t m, columns;
} Columns;

/* One element of each column from `first` on, or all but that one. */
static Value *heads(Eval *E, Columns c, int32_t first) {
  int32_t n = c.columns - first, *index = NEW_ARRAY(E->arena, int32_t, n);
  for (int32_t j = 0; j < n; j++) index[j] = (first + j) * c.m;
  return take(E, c.v, n, index);
}

static Value *tails(Eval *E, Columns c, int32_t first) {
  int32_t m = c.m - 1, n = (c.columns - first) * m, *index = NEW_ARRAY(E->arena, int32_t, n);
  for (int32_t e = 0; e < n; e++) index[e] = (first + e / m) * c.m + 1 + e % m;
  return take(E, c.v, n, index);
}

/* (I - beta v v') c, v repeated for every column */
static Value *reflected(Eval *E, Value *v, Value *beta, Columns c) {
  int32_t n = c.m * c.columns, *row = NEW_ARRAY(E->arena, int32_t, n),
          *column = NEW_ARRAY(E->arena, int32_t, n);
  for (int32_t e = 0; e < n; e++) row[e] = e % c.m, column[e] = e / c.m;
  Value *each = take(E, v, n, row);
  Value *w = value_reduce_rows(E, IR_SUM, MUL(each, c.v), c.m,
                               value_shape(E, TY_VECTOR, 0, 1, &c.columns));
  return map3(E, IR_FNMA, each, take(E, MUL(beta, w), n, column), c.v);
}

/* The reflection that turns the first of the columns into (alpha, 0, ..., 0), applied to the
 * others: alpha = -sign(x_1) |x|, v = x - alpha e_1, beta = 2 / v'v = 1 / (|x| (|x| + |x_1|)) */
static Columns reflect(Eval *E, Columns c, Value **alpha) {
  Value *x = value_slice(E, c.v, 0, c.m), *top = value_element(E, x, 0);
  Value *norm = M(SQRT, value_sum(E, M(SQUARE, x)));
  *alpha = map3(E, IR_SELECT, map2(E, IR_LT, top, NUM(0)), norm, M(NEG, norm));
  Value *parts[2] = {SUB(top, *alpha), value_slice(E, x, 1, c.m - 1)};
  Value *v = value_join(E, parts, 2, x), *beta = M(INV, MUL(norm, ADD(norm, M(ABS, top))));
  Columns others = {value_slice(E, c.v, c.m, c.m * (c.columns - 1)), c.m, c.columns - 1};
  if (others.columns) others.v = reflected(E, v, beta, others);
  return others;
}

Reflected linear_reflect(Eval *E, Value *A, Value *B) {
  int32_t m = A->dims[0], K = A->dims[1], C = B ? B->dims[1] : 0;
  Value *parts[2] = {value_transpose(E, A), B ? value_transpose(E, B) : NULL};
  int32_t n = A->n + (B ? B->n : 0), *r = NEW_ARRAY(E->arena, int32_t, K * K),
          *q = NEW_ARRAY(E->arena, int32_t, m * C);
  Columns c = {value_join(E, parts, B ? 2 : 1, value_shape(E, TY_VECTOR, 0, 1, &n)), m, K + C};
  Reflected out = {0};
  Pieces pieces = {0};
  for (int32_t k = 0; k < K; k++) { /* row k of R and C is finished, and column k gone */
    Value *alpha = NULL;
    if (c.m > 1) {
      c = reflect(E, c, &alpha);
      out.flips++;
    } else {
      alpha = value_element(E, c.v, 0);
      c = (Columns){value_slice(E, c.v, 1, c.columns - 1), 1, c.columns - 1};
    }
    r[k * K + k] = piece_add(E, &pieces, alpha);
    int32_t at = c.columns ? piece_add(E, &pieces, heads(E, c, 0)) : 0;
    for (int32_t j = k + 1; j < K; j++) r[k * K + j] = at + j - k - 1;
    for (int32_t j = 0; j < C; j++) q[k * C + j] = at + K - k - 1 + j;
    c = (Columns){c.m > 1 ? tails(E, c, 0) : NULL, c.m - 1, c.columns};
  }
  if (C && c.m) {
    int32_t at = piece_add(E, &pieces, c.v);
    for (int32_t i = 0; i < c.m; i++)
      for (int32_t j = 0; j < C; j++) q[(K + i) * C + j] = at + j * c.m + i;
  }
  out.R = piece_take(E, &pieces, r, matrix_shape(E, K, K));
  if (B) out.C = piece_take(E, &pieces, q, B);
  return out;
}

Value *linear_divide(Eval *E, Value *A, Value *B) {
  Value *columns = B;
  if (B->kind != TY_MATRIX) columns = value_reshape(E, B, TY_MATRIX, 0, 2, (int32_t[]){B->n, 1});
  Reflected q = linear_reflect(E, A, columns);
  return linear_matrix(E, linear_solve(E, UPPER, q.R, linear_columns(E, q.C)), B);
}
