/* dists_matrix.c: distributions of correlation and covariance matrices and of their Cholesky
 * factors; dist.h tells how to read them. */
#include "model/dist.h"
#include "model/linear.h"

#include <math.h>

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

/* The factor of a correlation matrix: partial correlations from beta distributions, column by
 * column, each row a stick that is broken (Lewandowski, Kurowicka and Joe 2009, section 2.4). */
static Value *lkj_factor(Eval *E, Value **a, Loc loc) {
  long size = value_int_of(E, a[0], loc, "the size");
  if (size < 1 || size > INT16_MAX)
    ctx_fail(E->ctx, PVI_PROGRAM, loc, "a correlation matrix of size %ld", size);
  int32_t K = (int32_t)size;
  double eta = a[1]->v[0];
  Value *L = value_known(E, value_shape(E, TY_MATRIX, 0, 2, (int32_t[]){K, K}), NULL);
  for (int32_t i = 0; i < K; i++) {
    double left = 1;
    for (int32_t j = 0; j < i; j++) {
      double b = eta + 0.5 * (K - 2 - j), z = 2 * rngs_beta(E->rng, b, b) - 1;
      L->v[i * K + j] = z * sqrt(left);
      left *= 1 - z * z;
    }
    L->v[i * K + i] = sqrt(left);
  }
  return L;
}

static Value *with_transpose(Eval *E, Value *A) {
  return eval_binary(E, OP_MUL, A, value_transpose(E, A), NOWHERE);
}

/* constant + sum_{k > 1} (K - k + 2 eta - 2) log L_kk */
LPDF(lkj_corr_cholesky) {
  int32_t K = a[0]->dims[0];
  if (K < 2) return NUM(0);
  Value *log_diagonal = M(LOG, value_slice(E, linear_diagonal(E, a[0]), 1, K - 1));
  Value *by = ladder(E, MUL(NUM(2), SUB(a[1], NUM(1))), K - 2, -1, K - 1);
  return ADD(lkj_constant(E, a[1], K), value_sum(E, MUL(by, log_diagonal)));
}
RNG_JOINT(lkj_corr_cholesky) { return lkj_factor(E, a, loc); }

/* constant + (eta - 1) log det y */
LPDF(lkj_corr) {
  Value *L = dist_factor(E, a[0], "lkj_corr");
  Value *log_det = MUL(NUM(2), linear_log_diagonal(E, L));
  return ADD(lkj_constant(E, a[1], a[0]->dims[0]), MUL(SUB(a[1], NUM(1)), log_det));
}
RNG_JOINT(lkj_corr) { return with_transpose(E, lkj_factor(E, a, loc)); }

/* lkj_corr of the correlations, lognormal of every scale */
LPDF(lkj_cov) {
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

/* With factors C of y and L of S:
 * ... - nu sum log L_kk + (nu - K - 1) sum log C_kk - |L^-1 C|^2 / 2 */
static Value *log_wishart(Eval *E, Value *C, Value *nu, Value *L) {
  int32_t K = C->dims[0];
  Value *dets =
      SUB(MUL(SUB(nu, NUM(K + 1)), linear_log_diagonal(E, C)), MUL(nu, linear_log_diagonal(E, L)));
  return ADD(wishart_constant(E, nu, K), SUB(dets, MUL(NUM(0.5), trace_of(E, L, C))));
}

/* ... + nu sum log L_kk - (nu + K + 1) sum log C_kk - |C^-1 L|^2 / 2 */
static Value *log_inv_wishart(Eval *E, Value *C, Value *nu, Value *L) {
  int32_t K = C->dims[0];
  Value *dets =
      SUB(MUL(nu, linear_log_diagonal(E, L)), MUL(ADD(nu, NUM(K + 1)), linear_log_diagonal(E, C)));
  return ADD(wishart_constant(E, nu, K), SUB(dets, MUL(NUM(0.5), trace_of(E, C, L))));
}

/* L A: A has the roots of chi_square(nu - i) on the diagonal and normal numbers below (Bartlett);
 * (L A)(L A)' is a draw. */
static Value *wishart_factor(Eval *E, double nu, Value *L) {
  int32_t K = L->dims[0];
  Value *A = value_known(E, L, NULL);
  for (int32_t i = 0; i < K; i++) {
    for (int32_t j = 0; j < i; j++) A->v[i * K + j] = rngs_normal(E->rng);
    A->v[i * K + i] = nu > i ? sqrt(rngs_chi_square(E->rng, nu - i)) : NAN;
  }
  return eval_binary(E, OP_MUL, L, A, NOWHERE);
}

static Value *inverse_of(Eval *E, Value *A, Loc loc) {
  const Expr call = {.kind = EX_CALL, .loc = loc, .name = "inv_wishart"};
  return eval_function(E, FUN_inverse_spd, (Value *[]){A}, 1, &call);
}

/* The derivative of C C' by C: 2^K prod C_kk^(K - k + 1) */
static Value *factor_jacobian(Eval *E, Value *C) {
  int32_t K = C->dims[0];
  Value *by = ladder(E, NUM(0), K, -1, K);
  return ADD(NUM(K * log(2)), value_sum(E, MUL(by, M(LOG, linear_diagonal(E, C)))));
}

LPDF(wishart) {
  return log_wishart(E, dist_factor(E, a[0], "wishart"), a[1], dist_factor(E, a[2], "wishart"));
}
RNG_JOINT(wishart) {
  Value *L = linear_cholesky(E, a[1], "wishart", loc);
  return with_transpose(E, wishart_factor(E, a[0]->v[0], L));
}

LPDF(wishart_cholesky) { return ADD(log_wishart(E, a[0], a[1], a[2]), factor_jacobian(E, a[0])); }
RNG_JOINT(wishart_cholesky) { return wishart_factor(E, a[0]->v[0], a[1]); }

LPDF(inv_wishart) {
  return log_inv_wishart(E, dist_factor(E, a[0], "inv_wishart"), a[1],
                         dist_factor(E, a[2], "inv_wishart"));
}
/* The inverse of a wishart(nu, S^-1). */
RNG_JOINT(inv_wishart) {
  Value *L = linear_cholesky(E, inverse_of(E, a[1], loc), "inv_wishart", loc);
  return inverse_of(E, with_transpose(E, wishart_factor(E, a[0]->v[0], L)), loc);
}

LPDF(inv_wishart_cholesky) {
  return ADD(log_inv_wishart(E, a[0], a[1], a[2]), factor_jacobian(E, a[0]));
}
RNG_JOINT(inv_wishart_cholesky) {
  Value *y = draw_inv_wishart(E, (Value *[]){a[0], with_transpose(E, a[1])}, loc);
  return linear_cholesky(E, y, "inv_wishart_cholesky", loc);
}
