/* dist_rng.c: the _rng functions: random numbers of known parameters, element by element. a[0..] are the parameters. */
#include "model/eval.h"

#include <math.h>

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
  case DIST_beta: return rngs_beta(r, a[0], a[1]);
  case DIST_beta_proportion: return rngs_beta(r, a[0] * a[1], (1 - a[0]) * a[1]);
  case DIST_uniform: return a[0] + (a[1] - a[0]) * rngs_uniform(r);
  case DIST_bernoulli: return (double)rngs_bernoulli(r, a[0]);
  case DIST_bernoulli_logit: return (double)rngs_bernoulli(r, 1 / (1 + exp(-a[0])));
  case DIST_binomial: return (double)rngs_binomial(r, (int64_t)a[0], a[1]);
  case DIST_beta_binomial: return (double)rngs_beta_binomial(r, (int64_t)a[0], a[1], a[2]);
  case DIST_hypergeometric: return (double)rngs_hypergeometric(r, (int64_t)a[0], (int64_t)a[1], (int64_t)a[2]);
  case DIST_discrete_range: return a[0] + floor((a[1] - a[0] + 1) * rngs_uniform(r));
  case DIST_poisson: return (double)rngs_poisson(r, a[0]);
  case DIST_poisson_log: return (double)rngs_poisson(r, exp(a[0]));
  case DIST_neg_binomial: return (double)rngs_neg_binomial(r, a[0], a[1]);
  case DIST_neg_binomial_2: return (double)rngs_neg_binomial_2(r, a[0], a[1]);
  case DIST_neg_binomial_2_log: return (double)rngs_neg_binomial_2(r, exp(a[0]), a[1]);
  default: return NAN;
  }
}

static bool is_scalar_dist(DistId id) {
  switch (id) {
  case DIST_categorical:
  case DIST_categorical_logit:
  case DIST_ordered_logistic:
  case DIST_dirichlet:
  case DIST_multinomial: return false;
  default: return true;
  }
}

static Value *vector_dist(Eval *E, DistId id, Value **a, Loc loc) {
  size_t n = (size_t)a[0]->n;
  Value *r;
  switch (id) {
  case DIST_categorical: return value_int(E, (long)rngs_categorical(E->rng, a[0]->v, n) + 1);
  case DIST_categorical_logit: return value_int(E, (long)rngs_categorical_logit(E->rng, a[0]->v, n) + 1);
  case DIST_ordered_logistic: {
    double y = a[0]->v[0] + rngs_logistic(E->rng);
    long k = 1;
    while (k <= a[1]->n && y > a[1]->v[k - 1]) k++;
    return value_int(E, k);
  }
  case DIST_dirichlet:
    r = value_known(E, a[0], NULL);
    rngs_dirichlet(E->rng, a[0]->v, n, r->v);
    return r;
  case DIST_multinomial: {
    int64_t *counts = NEW_ARRAY(E->arena, int64_t, n);
    int32_t size = a[0]->n;
    rngs_multinomial(E->rng, (int64_t)a[1]->v[0], a[0]->v, n, counts);
    r = value_known(E, value_shape(E, TY_INT, 1, 1, &size), NULL);
    for (size_t k = 0; k < n; k++) r->v[k] = (double)counts[k];
    return r;
  }
  default: ctx_fail(E->ctx, PVI_PROGRAM, loc, "%s_rng is not supported yet", stan_dist_names[id]);
  }
}

static bool is_discrete(DistId id) { return id >= DIST_bernoulli && id <= DIST_neg_binomial_2_log; }

Value *dist_rng(Eval *E, DistId id, Value **a, int n, Loc loc) {
  if (E->simulate) {
    Value *v = dist_simulate(E, id, a, n);
    if (!v)
      ctx_fail(E->ctx, PVI_PROGRAM, loc, "%s_rng cannot be simulated as a function of the parameters", stan_dist_names[id]);
    return v;
  }
  if (E->lift) lift_bail(E, "it draws random numbers");
  if (!E->rng) ctx_fail(E->ctx, PVI_PROGRAM, loc, "random numbers are drawn only in transformed data and generated quantities");
  Value *shape = n ? a[0] : value_real(E, 0);
  for (int k = 0; k < n; k++) {
    if (!a[k]->known) ctx_fail(E->ctx, PVI_PROGRAM, loc, "%s_rng of parameters", stan_dist_names[id]);
    if (a[k]->ndims && !shape->ndims) shape = a[k];
  }
  if (!is_scalar_dist(id)) return vector_dist(E, id, a, loc);
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
      ctx_fail(E->ctx, PVI_PROGRAM, loc, "%s_rng is not supported yet, or its parameters are out of range",
               stan_dist_names[id]);
  }
  return r;
}
