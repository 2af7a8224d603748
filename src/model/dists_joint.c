/* dists_joint.c: log densities of vectors and matrices. An array of vectors is one observation per
 * vector; whatever does not depend on the vector (the factor of a covariance, its determinant) is
 * shared by all of them. */
#include "model/dist.h"
#include "model/linear.h"

#include <math.h>

/* ---- items ----------------------------------------------------------------------------------- */

static int32_t count_of(const Value *v) { return v->array_dims ? v->dims[0] : 1; }
static int32_t size_of(const Value *v) { return v->ndims ? v->dims[v->ndims - 1] : v->n; }

/* The arguments that are vectors, or arrays of them: how many observations, of which size. */
typedef struct {
  int32_t count, size;
  Value *shape; /* of one number per observation */
} Family;

static Family family(Eval *E, Value **vectors, int n) {
  Family f = {.count = 1, .size = size_of(vectors[0])};
  bool array = false;
  for (int k = 0; k < n; k++) {
    if (size_of(vectors[k]) != f.size)
      ctx_fail(E->ctx, PVI_PROGRAM, E->density, "vectors of different sizes, %d and %d", f.size,
               size_of(vectors[k]));
    array |= vectors[k]->array_dims != 0;
    int32_t count = count_of(vectors[k]);
    if (vectors[k]->array_dims && f.count != 1 && count != f.count)
      ctx_fail(E->ctx, PVI_PROGRAM, E->density, "arrays of different sizes, %d and %d", f.count,
               count);
    if (vectors[k]->array_dims) f.count = count;
  }
  f.shape = value_shape(E, TY_REAL, array, array, &f.count);
  return f;
}

/* v for every observation: count x size elements. */
static Value *for_each(Eval *E, const Family *f, Value *v) {
  int32_t n = f->count * f->size, *index = NEW_ARRAY(E->arena, int32_t, n);
  for (int32_t e = 0; e < n; e++) index[e] = v->n == n ? e : e % f->size;
  return value_take(E, v, value_shape(E, TY_VECTOR, 0, 1, &n), NULL, index);
}

static Value *sum_each(Eval *E, const Family *f, Value *v) {
  return value_reduce_rows(E, IR_SUM, v, f->size, f->shape);
}

static void need_order(Eval *E, const Value *S, int32_t size) {
  if (S->dims[0] != size || S->dims[1] != size)
    ctx_fail(E->ctx, PVI_PROGRAM, E->density, "a %d x %d matrix for vectors of %d elements",
             S->dims[0], S->dims[1], size);
}

static Value *factor(Eval *E, Value *S, const char *who) {
  return linear_cholesky(E, S, who, E->density);
}

/* ---- counts and proportions ------------------------------------------------------------------ */

/* lgamma(N + 1) - sum lgamma(y + 1) + sum y log theta: one observation */
static Value *log_multinomial(Eval *E, Value *y) {
  return SUB(dist_log_factorial(E, value_sum(E, y)), value_sum(E, dist_log_factorial(E, y)));
}
static void need_same(Eval *E, Value **a) {
  if (a[0]->n != a[1]->n)
    ctx_fail(E->ctx, PVI_PROGRAM, E->density, "arguments of different sizes, %d and %d", a[0]->n,
             a[1]->n);
}
LPDF(multinomial) {
  need_same(E, a);
  return ADD(log_multinomial(E, a[0]), value_sum(E, map2(E, IR_LMULTIPLY, a[0], a[1])));
}
LPDF(multinomial_logit) {
  need_same(E, a);
  return ADD(log_multinomial(E, a[0]),
             value_sum(E, MUL(a[0], SUB(a[1], value_reduce(E, IR_LSE, a[1])))));
}

/* ... + lgamma(A) - lgamma(N + A) + sum (lgamma(y + alpha) - lgamma(alpha)), A = sum alpha */
LPDF(dirichlet_multinomial) {
  need_same(E, a);
  Value *total = value_sum(E, a[1]),
        *k = SUB(M(LGAMMA, total), M(LGAMMA, ADD(total, value_sum(E, a[0]))));
  Value *t = SUB(M(LGAMMA, ADD(a[0], a[1])), M(LGAMMA, a[1]));
  return ADD(log_multinomial(E, a[0]), ADD(k, value_sum(E, t)));
}

/* lgamma(sum alpha) - sum lgamma(alpha) + sum (alpha - 1) log theta */
LPDF(dirichlet) {
  Family f = family(E, a, 2), shared = family(E, a + 1, 1);
  if (!f.size) return value_vector(E, 0);
  Value *k = SUB(M(LGAMMA, sum_each(E, &shared, a[1])), sum_each(E, &shared, M(LGAMMA, a[1])));
  return ADD(
      k, sum_each(E, &f, MUL(SUB(for_each(E, &f, a[1]), NUM(1)), M(LOG, for_each(E, &f, a[0])))));
}

/* ---- normal vectors -------------------------------------------------------------------------- */

/* |L^-1 (y - mu)|^2 of every observation */
static Value *squared_norms(Eval *E, const Family *f, Value *y, Value *mu, Value *L) {
  Items d = {SUB(for_each(E, f, y), for_each(E, f, mu)), f->count, f->size};
  return sum_each(E, f, M(SQUARE, linear_solve(E, LOWER, L, d).v));
}

/* -K/2 log(2 pi) - sum log L_kk - q/2 */
LPDF(multi_normal_cholesky) {
  Family f = family(E, a, 2);
  need_order(E, a[2], f.size);
  if (!f.size) return value_vector(E, 0);
  Value *k = ADD(NUM(0.5 * LOG_2PI * f.size), linear_log_diagonal(E, a[2]));
  return SUB(MUL(NUM(-0.5), squared_norms(E, &f, a[0], a[1], a[2])), k);
}

LPDF(multi_normal) {
  return lpdf_multi_normal_cholesky(E, (Value *[]){a[0], a[1], factor(E, a[2], "multi_normal")}, 3);
}

/* q = |C' d|^2 with C C' = Omega, and log det Omega = 2 sum log C_kk */
LPDF(multi_normal_prec) {
  Family f = family(E, a, 2);
  need_order(E, a[2], f.size);
  if (!f.size) return value_vector(E, 0);
  Value *C = factor(E, a[2], "multi_normal_prec"),
        *d = SUB(for_each(E, &f, a[0]), for_each(E, &f, a[1]));
  int32_t K = f.size, all = f.count * K * K;
  int32_t *left = NEW_ARRAY(E->arena, int32_t, all), *right = NEW_ARRAY(E->arena, int32_t, all);
  for (int32_t e = 0; e < all; e++) { /* observation, row of C', column */
    left[e] = e % K * K + e / K % K;
    right[e] = e / (K * K) * K + e % K;
  }
  const Value *flat = value_shape(E, TY_VECTOR, 0, 1, &all);
  Value *p = MUL(value_take(E, C, flat, NULL, left), value_take(E, d, flat, NULL, right));
  Value *z = value_reduce_rows(E, IR_SUM, p, K, d);
  return ADD(SUB(linear_log_diagonal(E, C), NUM(0.5 * LOG_2PI * K)),
             MUL(NUM(-0.5), sum_each(E, &f, M(SQUARE, z))));
}

/* lgamma((nu + K)/2) - lgamma(nu/2) - K/2 log(nu pi) - sum log L_kk - (nu + K)/2 log(1 + q/nu) */
LPDF(multi_student_t_cholesky) {
  Family f = family(E, (Value *[]){a[0], a[2]}, 2);
  need_order(E, a[3], f.size);
  if (!f.size) return value_vector(E, 0);
  Value *half = MUL(NUM(0.5), a[1]), *more = ADD(half, NUM(0.5 * f.size));
  Value *k = SUB(SUB(M(LGAMMA, more), M(LGAMMA, half)),
                 MUL(NUM(0.5 * f.size), ADD(M(LOG, a[1]), NUM(LOG_PI))));
  Value *q = squared_norms(E, &f, a[0], a[2], a[3]);
  return SUB(SUB(k, linear_log_diagonal(E, a[3])), MUL(more, M(LOG1P, DIV(q, a[1]))));
}

LPDF(multi_student_t) {
  Value *L = factor(E, a[3], "multi_student_t");
  return lpdf_multi_student_t_cholesky(E, (Value *[]){a[0], a[1], a[2], L}, 4);
}

/* Row i of y is normal with mean 0 and covariance L L' / w_i: one observation a row. */
LPDF(multi_gp_cholesky) {
  int32_t K = a[0]->dims[0], N = a[0]->dims[1];
  need_order(E, a[1], N);
  if (a[2]->n != K) ctx_fail(E->ctx, PVI_PROGRAM, E->density, "%d weights for %d rows", a[2]->n, K);
  if (!a[0]->n) return value_vector(E, 0);
  Value *z = linear_solve(E, LOWER, a[1], (Items){a[0], K, N}).v;
  Value *q = value_reduce_rows(E, IR_SUM, M(SQUARE, z), N, value_shape(E, TY_VECTOR, 0, 1, &K));
  Value *k = ADD(NUM(0.5 * LOG_2PI * N), linear_log_diagonal(E, a[1]));
  return SUB(MUL(NUM(0.5), SUB(MUL(NUM(N), M(LOG, a[2])), MUL(a[2], q))), k);
}
LPDF(multi_gp) {
  return lpdf_multi_gp_cholesky(E, (Value *[]){a[0], factor(E, a[1], "multi_gp"), a[2]}, 3);
}

/* ---- dynamic linear models ------------------------------------------------------------------- */

static Value *times(Eval *E, Value *A, Value *B) {
  return eval_binary(E, OP_MUL, A, B, E->density);
}

/* A variance given as a vector is that of independent errors. */
static Value *as_variance(Eval *E, Value *v) {
  return v->kind == TY_MATRIX ? v : eval_function(E, FUN_diag_matrix, (Value *[]){v}, 1, NULL);
}

/* Columns of y are F' theta_t + N(0, V), theta_t is G theta_(t-1) + N(0, W), theta_0 is N(m, C):
 * Kalman's filter, with R = G C G' + W and Q = F' R F + V = L L'; one observation */
LPDF(gaussian_dlm_obs) {
  Value *F = a[1], *G = a[2], *V = as_variance(E, a[3]), *m = a[5], *C = a[6], *lp = NUM(0);
  int32_t rows = a[0]->dims[0], states = G->dims[0];
  bool fits = F->dims[0] == states && F->dims[1] == rows && m->n == states;
  if (!fits)
    ctx_fail(E->ctx, PVI_PROGRAM, E->density, "%d variables, %d states and a %d x %d matrix", rows,
             states, F->dims[0], F->dims[1]);
  need_order(E, G, states), need_order(E, V, rows), need_order(E, a[4], states),
      need_order(E, C, states);
  Value *Y = value_transpose(E, a[0]), *Ft = value_transpose(E, F), *Gt = value_transpose(E, G);
  for (int32_t t = 0; t < a[0]->dims[1]; t++) {
    Value *mean = times(E, G, m), *R = ADD(times(E, times(E, G, C), Gt), a[4]),
          *RF = times(E, R, F);
    Value *L = factor(E, ADD(times(E, Ft, RF), V), "gaussian_dlm_obs");
    Value *e = SUB(value_slice(E, Y, t * rows, rows), times(E, Ft, mean));
    Value *z = linear_solve(E, LOWER, L, (Items){e, 1, rows}).v;
    Items gain = linear_solve(E, LOWER, L, (Items){RF, states, rows}); /* rows of R F L^-T */
    Value *K = value_reshape(E, gain.v, TY_MATRIX, 0, 2, (int32_t[]){states, rows});
    lp = SUB(lp, ADD(linear_log_diagonal(E, L), MUL(NUM(0.5), value_sum(E, M(SQUARE, z)))));
    m = ADD(mean, times(E, K, z));
    C = SUB(R, times(E, K, value_transpose(E, K)));
  }
  return SUB(lp, NUM(0.5 * LOG_2PI * a[0]->n));
}

/* ---- correlation matrices -------------------------------------------------------------------- */

/* x + first, x + first + step, ...: n numbers */
static Value *ladder(Eval *E, Value *x, double first, double step, int32_t n) {
  Value *r = value_vector(E, n);
  for (int32_t k = 0; k < n; k++) r->v[k] = first + step * k;
  return ADD(x, r);
}

/* (K - 1) lgamma(eta + (K - 1)/2) - sum_{k < K} (k/2 log pi + lgamma(eta + (K - 1 - k)/2))
 * (Lewandowski, Kurowicka and Joe 2009, theorem 5) */
static Value *lkj_constant(Eval *E, Value *eta, int32_t K) {
  if (K < 2) return NUM(0);
  Value *sum = value_sum(E, M(LGAMMA, ladder(E, eta, 0, 0.5, K - 1)));
  Value *top = MUL(NUM(K - 1), M(LGAMMA, ADD(eta, NUM(0.5 * (K - 1)))));
  return SUB(top, ADD(sum, NUM(0.25 * LOG_PI * K * (K - 1))));
}

static void need_square(Eval *E, const Value *A) {
  if (A->dims[0] != A->dims[1])
    ctx_fail(E->ctx, PVI_PROGRAM, E->density, "a %d x %d matrix is not square", A->dims[0],
             A->dims[1]);
}

/* constant + sum_{k > 1} (K - k + 2 eta - 2) log L_kk */
LPDF(lkj_corr_cholesky) {
  need_square(E, a[0]);
  int32_t K = a[0]->dims[0];
  if (K < 2) return NUM(0);
  Value *log_diagonal = M(LOG, value_slice(E, linear_diagonal(E, a[0]), 1, K - 1));
  Value *by = ladder(E, MUL(NUM(2), SUB(a[1], NUM(1))), K - 2, -1, K - 1);
  return ADD(lkj_constant(E, a[1], K), value_sum(E, MUL(by, log_diagonal)));
}

/* constant + (eta - 1) log det y */
LPDF(lkj_corr) {
  Value *L = factor(E, a[0], "lkj_corr");
  Value *log_det = MUL(NUM(2), linear_log_diagonal(E, L));
  return ADD(lkj_constant(E, a[1], a[0]->dims[0]), MUL(SUB(a[1], NUM(1)), log_det));
}

/* lkj_corr of the correlations, lognormal of every scale */
LPDF(lkj_cov) {
  need_square(E, a[0]);
  int32_t K = a[0]->dims[0], *row = NEW_ARRAY(E->arena, int32_t, a[0]->n),
          *column = NEW_ARRAY(E->arena, int32_t, a[0]->n);
  Value *sd = M(SQRT, linear_diagonal(E, a[0]));
  for (int32_t e = 0; e < a[0]->n; e++) row[e] = e / K, column[e] = e % K;
  Value *R =
      DIV(a[0], MUL(value_take(E, sd, a[0], NULL, row), value_take(E, sd, a[0], NULL, column)));
  Value *scales = value_sum(E, lpdf_lognormal(E, (Value *[]){sd, a[1], a[2]}, 3));
  return ADD(scales, lpdf_lkj_corr(E, (Value *[]){R, a[3]}, 2));
}

/* ---- covariance matrices --------------------------------------------------------------------- */

/* log of the multivariate gamma function at x */
static Value *log_mgamma(Eval *E, int32_t K, Value *x) {
  return ADD(NUM(0.25 * LOG_PI * K * (K - 1)), value_sum(E, M(LGAMMA, ladder(E, x, 0, -0.5, K))));
}

/* -nu K/2 log 2 - lmgamma(K, nu/2) */
static Value *wishart_constant(Eval *E, Value *nu, int32_t K) {
  Value *half = MUL(NUM(0.5), nu);
  return M(NEG, ADD(MUL(NUM(K * log(2)), half), log_mgamma(E, K, half)));
}

/* |L^-1 B|^2, B by columns: tr((L L')^-1 B B') */
static Value *trace_of(Eval *E, Value *L, Value *B) {
  return value_sum(E, M(SQUARE, linear_solve(E, LOWER, L, linear_columns(E, B)).v));
}

/* With factors C of y and L of S: ... - nu sum log L_kk + (nu - K - 1) sum log C_kk - |L^-1 C|^2 /
 * 2 */
static Value *wishart(Eval *E, Value *C, Value *nu, Value *L) {
  int32_t K = C->dims[0];
  need_order(E, L, K);
  Value *dets =
      SUB(MUL(SUB(nu, NUM(K + 1)), linear_log_diagonal(E, C)), MUL(nu, linear_log_diagonal(E, L)));
  return ADD(wishart_constant(E, nu, K), SUB(dets, MUL(NUM(0.5), trace_of(E, L, C))));
}
/* ... + nu sum log L_kk - (nu + K + 1) sum log C_kk - |C^-1 L|^2 / 2 */
static Value *inv_wishart(Eval *E, Value *C, Value *nu, Value *L) {
  int32_t K = C->dims[0];
  need_order(E, L, K);
  Value *dets =
      SUB(MUL(nu, linear_log_diagonal(E, L)), MUL(ADD(nu, NUM(K + 1)), linear_log_diagonal(E, C)));
  return ADD(wishart_constant(E, nu, K), SUB(dets, MUL(NUM(0.5), trace_of(E, C, L))));
}
LPDF(wishart) { return wishart(E, factor(E, a[0], "wishart"), a[1], factor(E, a[2], "wishart")); }
LPDF(inv_wishart) {
  return inv_wishart(E, factor(E, a[0], "inv_wishart"), a[1], factor(E, a[2], "inv_wishart"));
}

/* The derivative of C C' by C: 2^K prod C_kk^(K - k + 1) */
static Value *factor_jacobian(Eval *E, Value *C) {
  int32_t K = C->dims[0];
  Value *by = ladder(E, NUM(0), K, -1, K);
  return ADD(NUM(K * log(2)), value_sum(E, MUL(by, M(LOG, linear_diagonal(E, C)))));
}
LPDF(wishart_cholesky) { return ADD(wishart(E, a[0], a[1], a[2]), factor_jacobian(E, a[0])); }
LPDF(inv_wishart_cholesky) {
  return ADD(inv_wishart(E, a[0], a[1], a[2]), factor_jacobian(E, a[0]));
}
