/* dist_rng.c: the _rng functions: random numbers of known parameters, element by element, or
 * vectors and matrices of them. a[0..] are the parameters. */
#include "model/dist.h"
#include "model/linear.h"
#include "num/linalg.h"
#include "num/special.h"

#include <math.h>

/* The quantile at u of the standard asymmetric double exponential distribution. */
static double skew_laplace(double u, double tau) {
  return u < tau ? log(u / tau) / (2 * (1 - tau)) : -log((1 - u) / (1 - tau)) / (2 * tau);
}

static double beta_neg_binomial(RngStream *r, double size, double alpha, double beta) {
  double p = rngs_beta(r, alpha, beta);
  return (double)rngs_neg_binomial(r, size, p / (1 - p));
}

/* Geometric, from 1 on, with the probability e^-w, w exponential with rate alpha. */
static double yule_simon(RngStream *r, double alpha) {
  double p = exp(-rngs_exponential(r) / alpha);
  return 1 + floor(-rngs_exponential(r) / log1p(-p));
}

/* One number of a distribution with scalar parameters; NaN where there is no code for it. */
static double draw_one(RngStream *r, DistId id, const double *a) {
  switch (id) {
  case DIST_normal: return a[0] + a[1] * rngs_normal(r);
  case DIST_std_normal: return rngs_normal(r);
  case DIST_student_t: return a[1] + a[2] * rngs_student_t(r, a[0]);
  case DIST_cauchy: return a[0] + a[1] * rngs_cauchy(r);
  case DIST_double_exponential: return a[0] + a[1] * rngs_double_exponential(r);
  case DIST_logistic: return a[0] + a[1] * rngs_logistic(r);
  case DIST_gumbel: return a[0] + a[1] * rngs_gumbel(r);
  case DIST_skew_normal: return a[0] + a[1] * rngs_skew_normal(r, a[2]);
  case DIST_von_mises: return rngs_von_mises(r, a[0], a[1]);
  case DIST_exp_mod_normal: return a[0] + a[1] * rngs_normal(r) + rngs_exponential(r) / a[2];
  case DIST_skew_double_exponential: return a[0] + a[1] * skew_laplace(rngs_uniform(r), a[2]);
  case DIST_lognormal: return exp(a[0] + a[1] * rngs_normal(r));
  case DIST_chi_square: return rngs_chi_square(r, a[0]);
  case DIST_inv_chi_square: return 1 / rngs_chi_square(r, a[0]);
  case DIST_scaled_inv_chi_square: return a[0] * a[1] * a[1] / rngs_chi_square(r, a[0]);
  case DIST_exponential: return rngs_exponential(r) / a[0];
  case DIST_gamma: return rngs_gamma(r, a[0]) / a[1];
  case DIST_inv_gamma: return a[1] / rngs_gamma(r, a[0]);
  case DIST_weibull: return a[1] * rngs_weibull(r, a[0]);
  case DIST_frechet: return a[1] / rngs_weibull(r, a[0]);
  case DIST_rayleigh: return a[0] * sqrt(2 * rngs_exponential(r));
  case DIST_pareto: return a[0] * exp(rngs_exponential(r) / a[1]);
  case DIST_pareto_type_2: return a[0] + a[1] * expm1(rngs_exponential(r) / a[2]);
  case DIST_loglogistic: return a[0] * exp(rngs_logistic(r) / a[1]);
  case DIST_beta: return rngs_beta(r, a[0], a[1]);
  case DIST_beta_proportion: return rngs_beta(r, a[0] * a[1], (1 - a[0]) * a[1]);
  case DIST_uniform: return a[0] + (a[1] - a[0]) * rngs_uniform(r);
  case DIST_bernoulli: return (double)rngs_bernoulli(r, a[0]);
  case DIST_bernoulli_logit: return (double)rngs_bernoulli(r, 1 / (1 + exp(-a[0])));
  case DIST_binomial: return (double)rngs_binomial(r, (int64_t)a[0], a[1]);
  case DIST_beta_binomial: return (double)rngs_beta_binomial(r, (int64_t)a[0], a[1], a[2]);
  case DIST_hypergeometric:
    return (double)rngs_hypergeometric(r, (int64_t)a[0], (int64_t)a[1], (int64_t)a[2]);
  case DIST_discrete_range: return a[0] + floor((a[1] - a[0] + 1) * rngs_uniform(r));
  case DIST_poisson: return (double)rngs_poisson(r, a[0]);
  case DIST_poisson_log: return (double)rngs_poisson(r, exp(a[0]));
  case DIST_neg_binomial: return (double)rngs_neg_binomial(r, a[0], a[1]);
  case DIST_neg_binomial_2: return (double)rngs_neg_binomial_2(r, a[0], a[1]);
  case DIST_neg_binomial_2_log: return (double)rngs_neg_binomial_2(r, exp(a[0]), a[1]);
  case DIST_beta_neg_binomial: return beta_neg_binomial(r, a[0], a[1], a[2]);
  case DIST_yule_simon: return yule_simon(r, a[0]);
  default: return NAN;
  }
}

/* ---- vectors and matrices -------------------------------------------------------------------- */

static Value *counts(Eval *E, const double *p, int32_t n, Value *total) {
  int64_t *drawn = NEW_ARRAY(E->arena, int64_t, n);
  rngs_multinomial(E->rng, (int64_t)total->v[0], p, (size_t)n, drawn);
  Value *r = value_known(E, value_shape(E, TY_INT, 1, 1, &n), NULL);
  for (int32_t k = 0; k < n; k++) r->v[k] = (double)drawn[k];
  return r;
}

static Value *softmax(Eval *E, Value *v) {
  return eval_function(E, FUN_softmax, (Value *[]){v}, 1, NULL);
}

static Value *dirichlet(Eval *E, Value *alpha) {
  Value *r = value_known(E, alpha, NULL);
  rngs_dirichlet(E->rng, alpha->v, (size_t)alpha->n, r->v);
  return r;
}

/* The category of eta plus noise among ordered cutpoints. */
static Value *ordered(Eval *E, Value *eta, const Value *c, double noise) {
  long k = 1;
  while (k <= c->n && eta->v[0] + noise > c->v[k - 1]) k++;
  return value_int(E, k);
}

static Value *bernoulli_glm(Eval *E, Value **a) {
  Value *eta = dist_linear_predictor(E, a[0], a[1], a[2]);
  Value *r = value_known(E, value_shape(E, TY_INT, 1, 1, &eta->n), NULL);
  for (int32_t k = 0; k < r->n; k++)
    r->v[k] = (double)rngs_bernoulli(E->rng, num_inv_logit(eta->v[k]));
  return r;
}

static Value *factor_of(Eval *E, DistId id, Value *S, Loc loc) {
  return linear_cholesky(E, S, stan_dist_names[id], loc);
}

/* mu + s L z, for every vector of an array; s = sqrt(nu / chi_square(nu)), or 1 when nu is 0 */
static Value *normal_vectors(Eval *E, Value *mu, Value *L, double nu, Loc loc) {
  int32_t K = L->dims[0];
  if (!mu->ndims || mu->dims[mu->ndims - 1] != K)
    ctx_fail(E->ctx, PVI_PROGRAM, loc, "a %d x %d matrix for vectors of another size", K, K);
  Value *r = value_known(E, mu, NULL);
  r->kind = TY_VECTOR;
  double *z = NEW_ARRAY(E->arena, double, K);
  for (int32_t at = 0; at < r->n; at += K) {
    double s = nu > 0 ? sqrt(nu / rngs_chi_square(E->rng, nu)) : 1;
    for (int32_t k = 0; k < K; k++) z[k] = s * rngs_normal(E->rng);
    la_matvec(L->v, z, r->v + at, (size_t)K, (size_t)K);
    la_axpy(1, mu->v + at, r->v + at, (size_t)K);
  }
  return r;
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

static Value *with_transpose(Eval *E, Value *A) {
  return eval_binary(E, OP_MUL, A, value_transpose(E, A), NOWHERE);
}
static Value *inverse_of(Eval *E, Value *A) {
  return eval_function(E, FUN_inverse_spd, (Value *[]){A}, 1, NULL);
}

/* The inverse of a wishart(nu, S^-1). */
static Value *inv_wishart(Eval *E, double nu, Value *S, Loc loc) {
  Value *L = factor_of(E, DIST_inv_wishart, inverse_of(E, S), loc);
  return inverse_of(E, with_transpose(E, wishart_factor(E, nu, L)));
}

static Value *joint(Eval *E, DistId id, Value **a, Loc loc) {
  int32_t n = a[0]->n;
  double x = n ? a[0]->v[0] : NAN;
  switch (id) {
  case DIST_categorical:
    return value_int(E, (long)rngs_categorical(E->rng, a[0]->v, (size_t)n) + 1);
  case DIST_categorical_logit:
    return value_int(E, (long)rngs_categorical_logit(E->rng, a[0]->v, (size_t)n) + 1);
  case DIST_ordered_logistic: return ordered(E, a[0], a[1], rngs_logistic(E->rng));
  case DIST_ordered_probit: return ordered(E, a[0], a[1], rngs_normal(E->rng));
  case DIST_bernoulli_logit_glm: return bernoulli_glm(E, a);
  case DIST_dirichlet: return dirichlet(E, a[0]);
  case DIST_multinomial: return counts(E, a[0]->v, n, a[1]);
  case DIST_multinomial_logit: return counts(E, softmax(E, a[0])->v, n, a[1]);
  case DIST_dirichlet_multinomial: return counts(E, dirichlet(E, a[0])->v, n, a[1]);
  case DIST_multi_normal: return normal_vectors(E, a[0], factor_of(E, id, a[1], loc), 0, loc);
  case DIST_multi_normal_cholesky: return normal_vectors(E, a[0], a[1], 0, loc);
  case DIST_multi_student_t: return normal_vectors(E, a[1], factor_of(E, id, a[2], loc), x, loc);
  case DIST_multi_student_t_cholesky: return normal_vectors(E, a[1], a[2], x, loc);
  case DIST_lkj_corr_cholesky: return lkj_factor(E, a, loc);
  case DIST_lkj_corr: return with_transpose(E, lkj_factor(E, a, loc));
  case DIST_wishart: return with_transpose(E, wishart_factor(E, x, factor_of(E, id, a[1], loc)));
  case DIST_wishart_cholesky: return wishart_factor(E, x, a[1]);
  case DIST_inv_wishart: return inv_wishart(E, x, a[1], loc);
  case DIST_inv_wishart_cholesky:
    return factor_of(E, id, inv_wishart(E, x, with_transpose(E, a[1]), loc), loc);
  default: ctx_fail(E->ctx, PVI_PROGRAM, loc, "%s_rng is not supported yet", stan_dist_names[id]);
  }
}

/* ---- all ------------------------------------------------------------------------------------- */

static bool is_discrete(DistId id) { return stan_dist_flags(id) & PMF; }

Value *dist_rng(Eval *E, DistId id, Value **a, int n, Loc loc) {
  if (E->simulate) {
    Value *v = dist_simulate(E, id, a, n);
    if (!v)
      ctx_fail(E->ctx, PVI_PROGRAM, loc,
               "%s_rng cannot be simulated as a function of the parameters", stan_dist_names[id]);
    return v;
  }
  if (E->lift) lift_bail(E, "it draws random numbers");
  if (!E->rng)
    ctx_fail(E->ctx, PVI_PROGRAM, loc,
             "random numbers are drawn only in transformed data and generated quantities");
  Value *shape = n ? a[0] : value_real(E, 0);
  for (int k = 0; k < n; k++) {
    if (!a[k]->known)
      ctx_fail(E->ctx, PVI_PROGRAM, loc, "%s_rng of parameters", stan_dist_names[id]);
    if (a[k]->ndims && !shape->ndims) shape = a[k];
  }
  if (stan_dist_flags(id) & JOINT) return joint(E, id, a, loc);
  Value *r = value_known(E, shape, NULL);
  r->kind = is_discrete(id) ? TY_INT : TY_REAL; /* containers come back as arrays */
  r->array_dims = r->ndims;
  for (int32_t e = 0; e < r->n; e++) {
    double x[4] = {0};
    bool nan = false;
    for (int k = 0; k < n && k < 4; k++) {
      x[k] = a[k]->v[a[k]->n == 1 ? 0 : e];
      nan |= isnan(x[k]);
    }
    r->v[e] = nan ? (is_discrete(id) ? INT32_MIN : NAN) : draw_one(E->rng, id, x);
    if (!nan && isnan(r->v[e]))
      ctx_fail(E->ctx, PVI_PROGRAM, loc,
               "%s_rng is not supported yet, or its parameters are out of range",
               stan_dist_names[id]);
  }
  return r;
}
