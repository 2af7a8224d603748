/* dists.c: the code behind dists.def: log densities as graph nodes, one element per observation.
 *
 * a[0] is the outcome, a[1..] the parameters. Quantities that do not depend on the outcome
 * (1/sigma, log sigma, log y!) are values of their own: where they are data they are computed now,
 * where they are shared by all observations, once per draw.
 */
#include "model/dist.h"

#include <math.h>

/* ---- location and scale ---------------------------------------------------------------------- */

static Value *location_scale(Eval *E, unsigned op, Value **a) {
  return map4(E, op, a[0], a[1], M(INV, a[2]), M(LOG, a[2]));
}

LPDF(normal) { return location_scale(E, IR_NORMAL, a); }
LPDF(std_normal) { return map4(E, IR_NORMAL, a[0], NUM(0), NUM(1), NUM(0)); }
LPDF(cauchy) { return location_scale(E, IR_CAUCHY, a); }
LPDF(double_exponential) { return location_scale(E, IR_DOUBLE_EXP, a); }
LPDF(logistic) { return location_scale(E, IR_LOGISTIC, a); }

/* lgamma((nu+1)/2) - lgamma(nu/2) - log(nu pi)/2 - log sigma - (nu+1)/2 log(1 +
 * ((y-mu)/sigma)^2/nu) */
LPDF(student_t) {
  Value *half = MUL(a[1], NUM(0.5));
  Value *k = SUB(SUB(M(LGAMMA, ADD(half, NUM(0.5))), M(LGAMMA, half)),
                 MUL(NUM(0.5), ADD(M(LOG, a[1]), NUM(LOG_PI))));
  return ADD(map4(E, IR_STUDENT_T, a[0], a[2], M(INV, a[3]), a[1]), SUB(k, M(LOG, a[3])));
}

/* -z - e^-z - log beta */
LPDF(gumbel) {
  Value *z = DIV(SUB(a[0], a[1]), a[2]);
  return SUB(SUB(M(NEG, z), M(EXP, M(NEG, z))), M(LOG, a[2]));
}

LPDF(lognormal) {
  Value *ly = M(LOG, a[0]);
  return SUB(map4(E, IR_NORMAL, ly, a[1], M(INV, a[2]), M(LOG, a[2])), ly);
}

/* log 2 + log phi(z) + log Phi(alpha z) - log omega */
LPDF(skew_normal) {
  Value *z = DIV(SUB(a[0], a[1]), a[2]);
  return ADD(ADD(location_scale(E, IR_NORMAL, a), NUM(log(2))), M(LOG_PHI, MUL(a[3], z)));
}

/* log lambda + lambda (mu + lambda sigma^2 / 2 - y) + log Phi((y - mu) / sigma - lambda sigma) */
LPDF(exp_mod_normal) {
  Value *d = SUB(a[0], a[1]), *v = MUL(a[3], a[2]);
  Value *e = SUB(MUL(NUM(0.5), M(SQUARE, v)), MUL(a[3], d));
  return ADD(ADD(M(LOG, a[3]), e), M(LOG_PHI, SUB(DIV(d, a[2]), v)));
}

/* log(2 tau (1 - tau) / sigma) - 2 |z| times (1 - tau) below mu, tau above */
LPDF(skew_double_exponential) {
  Value *z = DIV(SUB(a[0], a[1]), a[2]), *rest = SUB(NUM(1), a[3]);
  Value *slope = map3(E, IR_SELECT, map2(E, IR_LT, z, NUM(0)), rest, a[3]);
  Value *k = SUB(ADD(M(LOG, a[3]), ADD(M(LOG, rest), NUM(log(2)))), M(LOG, a[2]));
  return SUB(k, MUL(NUM(2), MUL(slope, M(ABS, z))));
}

/* kappa cos(y - mu) - log(2 pi) - log I_0(kappa) */
LPDF(von_mises) {
  return SUB(MUL(a[2], M(COS, SUB(a[0], a[1]))), ADD(NUM(LOG_2PI), M(LOG_BESSEL_I0, a[2])));
}

/* ---- positive outcomes ----------------------------------------------------------------------- */

LPDF(exponential) { return SUB(M(LOG, a[1]), MUL(a[1], a[0])); }

/* alpha log beta - lgamma(alpha) + (alpha - 1) log y - beta y */
LPDF(gamma) {
  Value *k = SUB(MUL(a[1], M(LOG, a[2])), M(LGAMMA, a[1]));
  return ADD(k, SUB(MUL(SUB(a[1], NUM(1)), M(LOG, a[0])), MUL(a[2], a[0])));
}

/* alpha log beta - lgamma(alpha) - (alpha + 1) log y - beta / y */
LPDF(inv_gamma) {
  Value *k = SUB(MUL(a[1], M(LOG, a[2])), M(LGAMMA, a[1]));
  return SUB(k, ADD(MUL(ADD(a[1], NUM(1)), M(LOG, a[0])), DIV(a[2], a[0])));
}

LPDF(chi_square) { return lpdf_gamma(E, (Value *[]){a[0], MUL(a[1], NUM(0.5)), NUM(0.5)}, 3); }
LPDF(inv_chi_square) {
  return lpdf_inv_gamma(E, (Value *[]){a[0], MUL(a[1], NUM(0.5)), NUM(0.5)}, 3);
}
LPDF(scaled_inv_chi_square) {
  Value *h = MUL(a[1], NUM(0.5));
  return lpdf_inv_gamma(E, (Value *[]){a[0], h, MUL(h, M(SQUARE, a[2]))}, 3);
}

/* log(alpha / sigma) + (alpha - 1) log(y / sigma) - (y / sigma)^alpha */
LPDF(weibull) {
  Value *r = SUB(M(LOG, a[0]), M(LOG, a[2]));
  Value *k = SUB(M(LOG, a[1]), M(LOG, a[2]));
  return SUB(ADD(k, MUL(SUB(a[1], NUM(1)), r)), M(EXP, MUL(a[1], r)));
}

/* log(alpha / sigma) - (alpha + 1) log(y / sigma) - (y / sigma)^-alpha */
LPDF(frechet) {
  Value *r = SUB(M(LOG, a[0]), M(LOG, a[2]));
  Value *k = SUB(M(LOG, a[1]), M(LOG, a[2]));
  return SUB(SUB(k, MUL(ADD(a[1], NUM(1)), r)), M(EXP, M(NEG, MUL(a[1], r))));
}

/* log y - 2 log sigma - y^2 / (2 sigma^2) */
LPDF(rayleigh) {
  Value *z = DIV(a[0], a[1]);
  return SUB(SUB(M(LOG, a[0]), MUL(NUM(2), M(LOG, a[1]))), MUL(NUM(0.5), M(SQUARE, z)));
}

/* log alpha + alpha log y_min - (alpha + 1) log y, y >= y_min */
LPDF(pareto) {
  Value *v = SUB(ADD(M(LOG, a[2]), MUL(a[2], M(LOG, a[1]))), MUL(ADD(a[2], NUM(1)), M(LOG, a[0])));
  return map3(E, IR_SELECT, map2(E, IR_LT, a[0], a[1]), NUM(-INFINITY), v);
}

/* log alpha - log lambda - (alpha + 1) log(1 + (y - mu) / lambda) */
LPDF(pareto_type_2) {
  Value *z = DIV(SUB(a[0], a[1]), a[2]);
  return SUB(SUB(M(LOG, a[3]), M(LOG, a[2])), MUL(ADD(a[3], NUM(1)), M(LOG1P, z)));
}

/* log(beta / alpha) + (beta - 1) r - 2 log(1 + e^(beta r)), r = log(y / alpha) */
LPDF(loglogistic) {
  Value *la = M(LOG, a[1]), *r = SUB(M(LOG, a[0]), la), *k = SUB(M(LOG, a[2]), la);
  return SUB(ADD(k, MUL(SUB(a[2], NUM(1)), r)), MUL(NUM(2), M(LOG1P_EXP, MUL(a[2], r))));
}

/* To the upper one of two bounds alpha apart, from alpha beta, with drift delta, tau late: t = (y -
 * tau) / alpha^2, w = 1 - beta, log passage(t, w) - 2 log alpha + delta alpha w - delta^2 (y - tau)
 * / 2 */
LPDF(wiener) {
  if (n > 5)
    ctx_fail(E->ctx, PVI_PROGRAM, E->density,
             "wiener with variable drift, start or delay is not supported yet");
  Value *t = SUB(a[0], a[2]), *w = SUB(NUM(1), a[3]);
  Value *drift = MUL(a[4], SUB(MUL(a[1], w), MUL(NUM(0.5), MUL(a[4], t))));
  return ADD(SUB(map2(E, IR_LOG_PASSAGE, DIV(t, M(SQUARE, a[1])), w), MUL(NUM(2), M(LOG, a[1]))),
             drift);
}

/* ---- bounded outcomes ------------------------------------------------------------------------ */

/* (alpha - 1) log y + (beta - 1) log(1 - y) - lbeta(alpha, beta) */
LPDF(beta) {
  Value *lbeta = SUB(ADD(M(LGAMMA, a[1]), M(LGAMMA, a[2])), M(LGAMMA, ADD(a[1], a[2])));
  Value *v = ADD(MUL(SUB(a[1], NUM(1)), M(LOG, a[0])), MUL(SUB(a[2], NUM(1)), M(LOG1M, a[0])));
  return SUB(v, lbeta);
}

LPDF(beta_proportion) {
  return lpdf_beta(E, (Value *[]){a[0], MUL(a[1], a[2]), MUL(SUB(NUM(1), a[1]), a[2])}, 3);
}

/* -log(b - a) inside, -inf outside */
LPDF(uniform) {
  Value *outside = map2(E, IR_FMAX, map2(E, IR_LT, a[0], a[1]), map2(E, IR_LT, a[2], a[0]));
  return map3(E, IR_SELECT, outside, NUM(-INFINITY), M(NEG, M(LOG, SUB(a[2], a[1]))));
}

/* ---- counts ---------------------------------------------------------------------------------- */

Value *dist_log_factorial(Eval *E, Value *y) { return M(LGAMMA, ADD(y, NUM(1))); }
static Value *log_choose(Eval *E, Value *n, Value *k) {
  return SUB(dist_log_factorial(E, n),
             ADD(dist_log_factorial(E, k), dist_log_factorial(E, SUB(n, k))));
}

LPDF(bernoulli) { return map2(E, IR_BERNOULLI, a[0], a[1]); }
LPDF(bernoulli_logit) { return map2(E, IR_BERNOULLI_LOGIT, a[0], a[1]); }
LPDF(binomial) { return map4(E, IR_BINOMIAL, a[0], a[1], a[2], log_choose(E, a[1], a[0])); }
LPDF(binomial_logit) {
  return map4(E, IR_BINOMIAL_LOGIT, a[0], a[1], a[2], log_choose(E, a[1], a[0]));
}
LPDF(poisson) { return map4(E, IR_POISSON, a[0], a[1], dist_log_factorial(E, a[0]), M(LOG, a[1])); }
LPDF(poisson_log) { return map3(E, IR_POISSON_LOG, a[0], a[1], dist_log_factorial(E, a[0])); }

/* lchoose(y + alpha - 1, y) + alpha log(beta / (beta + 1)) - y log(beta + 1) */
LPDF(neg_binomial) {
  Value *k = SUB(M(LGAMMA, ADD(a[0], a[1])), ADD(M(LGAMMA, a[1]), dist_log_factorial(E, a[0])));
  Value *lp1 = M(LOG1P, a[2]);
  return ADD(k, SUB(MUL(a[1], SUB(M(LOG, a[2]), lp1)), MUL(a[0], lp1)));
}

/* lchoose(y + phi - 1, y) + y (eta - log(mu + phi)) + phi (log phi - log(mu + phi)), eta = log mu
 */
static Value *neg_binomial_2(Eval *E, Value *y, Value *eta, Value *phi) {
  Value *lphi = M(LOG, phi);
  Value *total = map2(E, IR_LOG_SUM_EXP2, eta, lphi);
  Value *k = SUB(M(LGAMMA, ADD(y, phi)), ADD(M(LGAMMA, phi), dist_log_factorial(E, y)));
  return ADD(k, ADD(MUL(y, SUB(eta, total)), MUL(phi, SUB(lphi, total))));
}
LPDF(neg_binomial_2) { return neg_binomial_2(E, a[0], M(LOG, a[1]), a[2]); }
LPDF(neg_binomial_2_log) { return neg_binomial_2(E, a[0], a[1], a[2]); }

/* lchoose(N, y) + lbeta(y + alpha, N - y + beta) - lbeta(alpha, beta) */
static Value *log_beta(Eval *E, Value *x, Value *y) {
  return SUB(ADD(M(LGAMMA, x), M(LGAMMA, y)), M(LGAMMA, ADD(x, y)));
}
LPDF(beta_binomial) {
  Value *v = SUB(log_beta(E, ADD(a[0], a[2]), ADD(SUB(a[1], a[0]), a[3])), log_beta(E, a[2], a[3]));
  return ADD(log_choose(E, a[1], a[0]), v);
}

/* lgamma(y + r) - lgamma(r) - log y! + lbeta(y + beta, r + alpha) - lbeta(beta, alpha) */
LPDF(beta_neg_binomial) {
  Value *k = SUB(SUB(M(LGAMMA, ADD(a[0], a[1])), M(LGAMMA, a[1])), dist_log_factorial(E, a[0]));
  return ADD(k, SUB(log_beta(E, ADD(a[0], a[3]), ADD(a[1], a[2])), log_beta(E, a[3], a[2])));
}

/* log alpha + lbeta(y, alpha + 1) */
LPDF(yule_simon) { return ADD(M(LOG, a[1]), log_beta(E, a[0], ADD(a[1], NUM(1)))); }

/* (a over y) (b over N - y) / (a + b over N) */
LPDF(hypergeometric) {
  Value *v = ADD(log_choose(E, a[2], a[0]), log_choose(E, a[3], SUB(a[1], a[0])));
  return SUB(v, log_choose(E, ADD(a[2], a[3]), a[1]));
}

LPDF(discrete_range) {
  Value *outside = map2(E, IR_FMAX, map2(E, IR_LT, a[0], a[1]), map2(E, IR_LT, a[2], a[0]));
  return map3(E, IR_SELECT, outside, NUM(-INFINITY), M(NEG, M(LOG, ADD(SUB(a[2], a[1]), NUM(1)))));
}

/* ---- categories ------------------------------------------------------------------------------ */

/* Element y of the vector v, for every y: of one y per row in a lifted loop. */
static Value *pick_category(Eval *E, Value *v, Value *y) {
  if (!y->known)
    ctx_fail(E->ctx, PVI_PROGRAM, E->density,
             "the outcome of a categorical distribution must be data");
  y = value_on_axis(E, y, E->axis);
  int32_t *index = NEW_ARRAY(E->arena, int32_t, value_total(y));
  for (int32_t k = 0; k < value_total(y); k++) {
    double at = y->v[k] - 1;
    if (!(at >= 0 && at < v->n))
      ctx_fail(E->ctx, PVI_DATA, E->density, "category %g is out of range", y->v[k]);
    index[k] = (int32_t)at;
  }
  Value shape = *y;
  shape.kind = TY_REAL;
  return value_take(E, value_on_axis(E, v, E->axis), &shape, y->axis, index);
}

LPDF(categorical) { return pick_category(E, M(LOG, a[1]), a[0]); }
LPDF(categorical_logit) { return SUB(pick_category(E, a[1], a[0]), value_reduce(E, IR_LSE, a[1])); }

/* Cutpoint y + shift of every outcome y; an array has them for each outcome. The one before the
 * first and the one behind the last are so far away that nothing is beyond them, yet finite: affine
 * functions multiply constants by zeros. */
static Value *cutpoint(Eval *E, Value *c, Value *y, int shift) {
  int32_t K = c->dims[c->ndims - 1], last = c->n + 1, all = c->n + 2;
  Value *padded = value_join(E, (Value *[]){NUM(-1e100), c, NUM(1e100)}, 3,
                             value_shape(E, TY_VECTOR, 0, 1, &all));
  if (!y->known)
    ctx_fail(E->ctx, PVI_PROGRAM, E->density,
             "the outcome of an ordered distribution must be data");
  y = value_on_axis(E, y, E->axis);
  if (c->array_dims && c->dims[0] != y->n)
    ctx_fail(E->ctx, PVI_PROGRAM, E->density, "%d vectors of cutpoints for %d outcomes", c->dims[0],
             y->n);
  int32_t *index = NEW_ARRAY(E->arena, int32_t, value_total(y));
  for (int32_t k = 0; k < value_total(y); k++) {
    double at = y->v[k] + shift;
    if (!(at >= 0 && at <= K + 1))
      ctx_fail(E->ctx, PVI_DATA, E->density, "category %g is out of range", y->v[k]);
    int32_t first = c->array_dims ? k % y->n * K : 0;
    index[k] = at == 0 ? 0 : at == K + 1 ? last : first + (int32_t)at;
  }
  Value shape = *y;
  shape.kind = TY_REAL;
  return value_take(E, value_on_axis(E, padded, E->axis), &shape, y->axis, index);
}

/* log(F(eta - c[y-1]) - F(eta - c[y])) */
static Value *ordered(Eval *E, Value **a, unsigned log_cdf) {
  Value *above = map1(E, log_cdf, SUB(a[1], cutpoint(E, a[2], a[0], -1)));
  Value *below = map1(E, log_cdf, SUB(a[1], cutpoint(E, a[2], a[0], 0)));
  return map2(E, IR_LOG_DIFF_EXP, above, below);
}
LPDF(ordered_logistic) { return ordered(E, a, IR_LOG_INV_LOGIT); }
LPDF(ordered_probit) { return ordered(E, a, IR_LOG_PHI); }

/* ---- generalised linear models: y | x, alpha, beta ------------------------------------------- */

Value *dist_linear_predictor(Eval *E, Value *x, Value *alpha, Value *beta) {
  Value *eta = eval_binary(E, OP_MUL, x, beta, E->density);
  if (eta->ndims && alpha->ndims && eta->n != alpha->n)
    ctx_fail(E->ctx, PVI_PROGRAM, E->density, "%d intercepts for %d rows", alpha->n, eta->n);
  return ADD(eta, alpha);
}
LPDF(normal_id_glm) {
  return lpdf_normal(E, (Value *[]){a[0], dist_linear_predictor(E, a[1], a[2], a[3]), a[4]}, 3);
}
LPDF(binomial_logit_glm) {
  return lpdf_binomial_logit(E, (Value *[]){a[0], a[1], dist_linear_predictor(E, a[2], a[3], a[4])},
                             3);
}
LPDF(neg_binomial_2_log_glm) {
  return lpdf_neg_binomial_2_log(
      E, (Value *[]){a[0], dist_linear_predictor(E, a[1], a[2], a[3]), a[4]}, 3);
}
LPDF(ordered_logistic_glm) {
  return lpdf_ordered_logistic(
      E, (Value *[]){a[0], eval_binary(E, OP_MUL, a[1], a[2], E->density), a[3]}, 3);
}

/* Column by column, so that a predictor of data and parameters is a product per observation:
 * element (n, k) of the result is x_n beta_k + alpha_k. */
Value *dist_logits(Eval *E, Value *x, Value *alpha, Value *beta) {
  int32_t K = beta->dims[1], N = x->kind == TY_MATRIX ? x->dims[0] : 1,
          *index = NEW_ARRAY(E->arena, int32_t, N * K);
  if (alpha->n != K)
    ctx_fail(E->ctx, PVI_PROGRAM, E->density, "%d intercepts for %d categories", alpha->n, K);
  Value **columns = NEW_ARRAY(E->arena, Value *, K), *by_column = value_transpose(E, beta);
  for (int32_t k = 0; k < K; k++)
    columns[k] = dist_linear_predictor(E, x, value_element(E, alpha, k),
                                       value_slice(E, by_column, k * beta->dims[0], beta->dims[0]));
  for (int32_t e = 0; e < N * K; e++) index[e] = e % K * N + e / K;
  const Value *shape = value_shape(E, TY_MATRIX, 0, 2, (int32_t[]){N, K});
  return value_take(E, value_join(E, columns, K, shape), shape, NULL, index);
}

/* logit_y - log sum exp of the row */
LPDF(categorical_logit_glm) {
  Value *logits = dist_logits(E, a[1], a[2], a[3]), *y = value_on_axis(E, a[0], E->axis);
  int32_t N = logits->dims[0], K = logits->dims[1], rows = y->axis ? y->axis->rows : 1;
  if (!y->known)
    ctx_fail(E->ctx, PVI_PROGRAM, E->density,
             "the outcome of a categorical distribution must be data");
  if (y->ndims && N > 1 && y->n != N)
    ctx_fail(E->ctx, PVI_PROGRAM, E->density, "%d outcomes for %d rows", y->n, N);
  Value *shape = y->n > N ? value_like(E, y)
                          : value_shape(E, TY_REAL, y->ndims || N > 1, y->ndims || N > 1, &N);
  shape->kind = TY_REAL;
  int32_t *index = NEW_ARRAY(E->arena, int32_t, rows * shape->n);
  for (int32_t e = 0; e < rows * shape->n; e++) {
    int32_t n_ = e % shape->n;
    index[e] =
        (N == 1 ? 0 : n_ * K) + (int32_t)y->v[e / shape->n * y->n + (y->n == 1 ? 0 : n_)] - 1;
  }
  Value *total = value_reduce_rows(E, IR_LSE, logits, K, value_shape(E, TY_REAL, N > 1, N > 1, &N));
  return SUB(value_take(E, value_on_axis(E, logits, E->axis), shape, y->axis, index), total);
}
LPDF(bernoulli_logit_glm) {
  return lpdf_bernoulli_logit(E, (Value *[]){a[0], dist_linear_predictor(E, a[1], a[2], a[3])}, 2);
}
LPDF(poisson_log_glm) {
  return lpdf_poisson_log(E, (Value *[]){a[0], dist_linear_predictor(E, a[1], a[2], a[3])}, 2);
}

/* ---- dispatch -------------------------------------------------------------------------------- */

#define CODE(id) lpdf_##id
#define MISSING NULL
static Density *const densities[DIST_COUNT] = {
#define DIST(id, signature, flags, code) [DIST_##id] = code,
#include "stan/dists.def"
#undef DIST
};

static void check_sizes(Eval *E, DistId id, Value **a, int n, Loc loc) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < i; j++)
      if (a[i]->ndims && a[j]->ndims && a[i]->n != a[j]->n)
        ctx_fail(E->ctx, PVI_PROGRAM, loc, "%s: arguments of different sizes, %d and %d",
                 stan_dist_names[id], a[j]->n, a[i]->n);
}

/* A density of data is a likelihood: the mark stays with everything made of it. */
static Value *mark(Eval *E, Value *v) {
  if (v->known) {
    v->likelihood = true;
    return v;
  }
  return value_of_node(E, v, v->axis, ir_mark_likelihood(E->graph, value_node(E, v)));
}

Value *dist_density(Eval *E, DistId id, Value **a, int n) { return densities[id](E, a, n); }

Value *dist_lpdf(Eval *E, DistId id, Value **a, int n, Loc loc) {
  if (!densities[id])
    ctx_fail(E->ctx, PVI_PROGRAM, loc, "the distribution %s is not supported yet",
             stan_dist_names[id]);
  if (!(stan_dist_flags(id) & JOINT)) check_sizes(E, id, a, n, loc);
  dist_check_support(E, id, a, n, loc);
  E->density = loc;
  Value *v = densities[id](E, a, n);
  return a[0]->known && !(E->integral && a[0]->axis) ? mark(E, v) : v;
}

Value *dist_call(Eval *E, DistId id, DistFun fun, Value **args, int n, Loc loc) {
  switch (fun) {
  case DF_LPDF: return value_sum(E, dist_lpdf(E, id, args, n, loc));
  case DF_LCDF: return value_sum(E, dist_log_cdf(E, id, args, n, false, loc));
  case DF_LCCDF: return value_sum(E, dist_log_cdf(E, id, args, n, true, loc));
  case DF_CDF: return M(EXP, value_sum(E, dist_log_cdf(E, id, args, n, false, loc)));
  default: return dist_rng(E, id, args, n, loc);
  }
}
