/* dists.c: the code behind dists.def: log densities as graph nodes, one element per observation; cdfs; random numbers.
 *
 * a[0] is the outcome, a[1..] the parameters. Quantities that do not depend on the outcome (1/sigma, log sigma, log y!) are
 * values of their own: where they are data they are computed now, where they are shared by all observations, once per draw.
 */
#include "model/eval.h"

#include "num/special.h"

#include <math.h>

typedef Value *Density(Eval *E, Value **a, int n);

#define M(op, x) map1(E, IR_##op, x)
#define ADD(x, y) map2(E, IR_ADD, x, y)
#define SUB(x, y) map2(E, IR_SUB, x, y)
#define MUL(x, y) map2(E, IR_MUL, x, y)
#define DIV(x, y) map2(E, IR_DIV, x, y)
#define NUM(x) value_real(E, x)
#define LPDF(id) static Value *lpdf_##id(Eval *E, Value **a, __attribute__((unused)) int n)

static const double LOG_PI = 1.1447298858494002;

/* ---- location and scale ------------------------------------------------------------------------------------------- */

static Value *location_scale(Eval *E, unsigned op, Value **a) { return map4(E, op, a[0], a[1], M(INV, a[2]), M(LOG, a[2])); }

LPDF(normal) { return location_scale(E, IR_NORMAL, a); }
LPDF(std_normal) { return map4(E, IR_NORMAL, a[0], NUM(0), NUM(1), NUM(0)); }
LPDF(cauchy) { return location_scale(E, IR_CAUCHY, a); }
LPDF(double_exponential) { return location_scale(E, IR_DOUBLE_EXP, a); }
LPDF(logistic) { return location_scale(E, IR_LOGISTIC, a); }

/* lgamma((nu+1)/2) - lgamma(nu/2) - log(nu pi)/2 - log sigma - (nu+1)/2 log(1 + ((y-mu)/sigma)^2/nu) */
LPDF(student_t) {
  Value *half = MUL(a[1], NUM(0.5));
  Value *k = SUB(SUB(M(LGAMMA, ADD(half, NUM(0.5))), M(LGAMMA, half)), MUL(NUM(0.5), ADD(M(LOG, a[1]), NUM(LOG_PI))));
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

/* ---- positive outcomes -------------------------------------------------------------------------------------------- */

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
LPDF(inv_chi_square) { return lpdf_inv_gamma(E, (Value *[]){a[0], MUL(a[1], NUM(0.5)), NUM(0.5)}, 3); }
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

/* ---- bounded outcomes --------------------------------------------------------------------------------------------- */

/* (alpha - 1) log y + (beta - 1) log(1 - y) - lbeta(alpha, beta) */
LPDF(beta) {
  Value *lbeta = SUB(ADD(M(LGAMMA, a[1]), M(LGAMMA, a[2])), M(LGAMMA, ADD(a[1], a[2])));
  Value *v = ADD(MUL(SUB(a[1], NUM(1)), M(LOG, a[0])), MUL(SUB(a[2], NUM(1)), M(LOG1M, a[0])));
  return SUB(v, lbeta);
}

LPDF(beta_proportion) { return lpdf_beta(E, (Value *[]){a[0], MUL(a[1], a[2]), MUL(SUB(NUM(1), a[1]), a[2])}, 3); }

/* -log(b - a) inside, -inf outside */
LPDF(uniform) {
  Value *outside = map2(E, IR_FMAX, map2(E, IR_LT, a[0], a[1]), map2(E, IR_LT, a[2], a[0]));
  return map3(E, IR_SELECT, outside, NUM(-INFINITY), M(NEG, M(LOG, SUB(a[2], a[1]))));
}

/* ---- counts ------------------------------------------------------------------------------------------------------- */

static Value *log_factorial(Eval *E, Value *y) { return M(LGAMMA, ADD(y, NUM(1))); }
static Value *log_choose(Eval *E, Value *n, Value *k) {
  return SUB(log_factorial(E, n), ADD(log_factorial(E, k), log_factorial(E, SUB(n, k))));
}

LPDF(bernoulli) { return map2(E, IR_BERNOULLI, a[0], a[1]); }
LPDF(bernoulli_logit) { return map2(E, IR_BERNOULLI_LOGIT, a[0], a[1]); }
LPDF(binomial) { return map4(E, IR_BINOMIAL, a[0], a[1], a[2], log_choose(E, a[1], a[0])); }
LPDF(binomial_logit) { return map4(E, IR_BINOMIAL_LOGIT, a[0], a[1], a[2], log_choose(E, a[1], a[0])); }
LPDF(poisson) { return map4(E, IR_POISSON, a[0], a[1], log_factorial(E, a[0]), M(LOG, a[1])); }
LPDF(poisson_log) { return map3(E, IR_POISSON_LOG, a[0], a[1], log_factorial(E, a[0])); }

/* lchoose(y + alpha - 1, y) + alpha log(beta / (beta + 1)) - y log(beta + 1) */
LPDF(neg_binomial) {
  Value *k = SUB(M(LGAMMA, ADD(a[0], a[1])), ADD(M(LGAMMA, a[1]), log_factorial(E, a[0])));
  Value *lp1 = M(LOG1P, a[2]);
  return ADD(k, SUB(MUL(a[1], SUB(M(LOG, a[2]), lp1)), MUL(a[0], lp1)));
}

/* lchoose(y + phi - 1, y) + y (eta - log(mu + phi)) + phi (log phi - log(mu + phi)), eta = log mu */
static Value *neg_binomial_2(Eval *E, Value *y, Value *eta, Value *phi) {
  Value *lphi = M(LOG, phi);
  Value *total = map2(E, IR_LOG_SUM_EXP2, eta, lphi);
  Value *k = SUB(M(LGAMMA, ADD(y, phi)), ADD(M(LGAMMA, phi), log_factorial(E, y)));
  return ADD(k, ADD(MUL(y, SUB(eta, total)), MUL(phi, SUB(lphi, total))));
}
LPDF(neg_binomial_2) { return neg_binomial_2(E, a[0], M(LOG, a[1]), a[2]); }
LPDF(neg_binomial_2_log) { return neg_binomial_2(E, a[0], a[1], a[2]); }

/* lchoose(N, y) + lbeta(y + alpha, N - y + beta) - lbeta(alpha, beta) */
static Value *log_beta(Eval *E, Value *x, Value *y) { return SUB(ADD(M(LGAMMA, x), M(LGAMMA, y)), M(LGAMMA, ADD(x, y))); }
LPDF(beta_binomial) {
  Value *v = SUB(log_beta(E, ADD(a[0], a[2]), ADD(SUB(a[1], a[0]), a[3])), log_beta(E, a[2], a[3]));
  return ADD(log_choose(E, a[1], a[0]), v);
}

LPDF(discrete_range) {
  Value *outside = map2(E, IR_FMAX, map2(E, IR_LT, a[0], a[1]), map2(E, IR_LT, a[2], a[0]));
  return map3(E, IR_SELECT, outside, NUM(-INFINITY), M(NEG, M(LOG, ADD(SUB(a[2], a[1]), NUM(1)))));
}

/* ---- categories --------------------------------------------------------------------------------------------------- */

/* Element y + shift of the vector v, for every y: of one y per row in a lifted loop. */
static Value *pick_category(Eval *E, Value *v, Value *y, int shift) {
  if (!y->known) ctx_fail(E->ctx, PVI_PROGRAM, NOWHERE, "the outcome of a categorical distribution must be data");
  y = value_on_axis(E, y, E->axis);
  int32_t *index = NEW_ARRAY(E->arena, int32_t, value_total(y));
  for (int32_t k = 0; k < value_total(y); k++) {
    double at = y->v[k] + shift;
    if (!(at >= 0 && at < v->n)) ctx_fail(E->ctx, PVI_DATA, NOWHERE, "category %g is out of range", y->v[k]);
    index[k] = (int32_t)at;
  }
  Value shape = *y;
  shape.kind = TY_REAL;
  return value_take(E, value_on_axis(E, v, E->axis), &shape, y->axis, index);
}

LPDF(categorical) { return pick_category(E, M(LOG, a[1]), a[0], -1); }
LPDF(categorical_logit) { return SUB(pick_category(E, a[1], a[0], -1), value_reduce(E, IR_LSE, a[1])); }

/* Cutpoints with -inf before and +inf after them. */
static Value *padded_cutpoints(Eval *E, Value *c) {
  int32_t n = c->n + 2;
  return value_join(E, (Value *[]){NUM(-INFINITY), c, NUM(INFINITY)}, 3, value_shape(E, TY_VECTOR, 0, 1, &n));
}

/* log(F(eta - c[y-1]) - F(eta - c[y])) */
static Value *ordered(Eval *E, Value **a, unsigned log_cdf) {
  Value *c = padded_cutpoints(E, a[2]);
  Value *above = map1(E, log_cdf, SUB(a[1], pick_category(E, c, a[0], -1)));
  Value *below = map1(E, log_cdf, SUB(a[1], pick_category(E, c, a[0], 0)));
  return map2(E, IR_LOG_DIFF_EXP, above, below);
}
LPDF(ordered_logistic) { return ordered(E, a, IR_LOG_INV_LOGIT); }
LPDF(ordered_probit) { return ordered(E, a, IR_LOG_PHI); }

/* lgamma(N + 1) + sum(y log theta - lgamma(y + 1)): one observation */
LPDF(multinomial) {
  Value *t = SUB(MUL(a[0], M(LOG, a[1])), log_factorial(E, a[0]));
  return ADD(log_factorial(E, value_sum(E, a[0])), value_sum(E, t));
}

/* lgamma(sum alpha) - sum lgamma(alpha) + sum (alpha - 1) log theta: one observation */
LPDF(dirichlet) {
  Value *k = SUB(M(LGAMMA, value_sum(E, a[1])), value_sum(E, M(LGAMMA, a[1])));
  return ADD(k, value_sum(E, MUL(SUB(a[1], NUM(1)), M(LOG, a[0]))));
}

/* ---- generalised linear models: y | x, alpha, beta ---------------------------------------------------------------- */

static Value *linear_predictor(Eval *E, Value *x, Value *alpha, Value *beta) {
  return ADD(eval_binary(E, OP_MUL, x, beta, NOWHERE), alpha);
}
LPDF(normal_id_glm) { return lpdf_normal(E, (Value *[]){a[0], linear_predictor(E, a[1], a[2], a[3]), a[4]}, 3); }
LPDF(bernoulli_logit_glm) { return lpdf_bernoulli_logit(E, (Value *[]){a[0], linear_predictor(E, a[1], a[2], a[3])}, 2); }
LPDF(poisson_log_glm) { return lpdf_poisson_log(E, (Value *[]){a[0], linear_predictor(E, a[1], a[2], a[3])}, 2); }

/* ---- cumulative distribution functions ---------------------------------------------------------------------------- */

static Value *standardise(Eval *E, Value **a) { return DIV(SUB(a[0], a[1]), a[2]); }

/* log F and log(1 - F); NULL where there is no code for it. */
static Value *log_cdf(Eval *E, DistId id, Value **a, bool complement) {
  Value *z;
  switch (id) {
  case DIST_normal: z = standardise(E, a); return M(LOG_PHI, complement ? M(NEG, z) : z);
  case DIST_std_normal: return M(LOG_PHI, complement ? M(NEG, a[0]) : a[0]);
  case DIST_lognormal: z = DIV(SUB(M(LOG, a[0]), a[1]), a[2]); return M(LOG_PHI, complement ? M(NEG, z) : z);
  case DIST_logistic: z = standardise(E, a); return M(LOG_INV_LOGIT, complement ? M(NEG, z) : z);
  case DIST_exponential: z = M(NEG, MUL(a[0], a[1])); return complement ? z : M(LOG1M_EXP, z);
  case DIST_cauchy: z = standardise(E, a); return M(LOG, ADD(NUM(0.5), DIV(M(ATAN, complement ? M(NEG, z) : z), NUM(M_PI))));
  case DIST_uniform: z = DIV(SUB(a[0], a[1]), SUB(a[2], a[1])); return M(LOG, complement ? SUB(NUM(1), z) : z);
  case DIST_weibull: z = M(NEG, M(EXP, MUL(a[1], SUB(M(LOG, a[0]), M(LOG, a[2]))))); return complement ? z : M(LOG1M_EXP, z);
  default: return NULL;
  }
}

/* Of numbers only, element by element. */
static double number_cdf(DistId id, const double *a) {
  switch (id) {
  case DIST_student_t: return num_student_t_cdf((a[0] - a[2]) / a[3], a[1]);
  case DIST_gamma: return num_gamma_p(a[1], a[2] * a[0]);
  case DIST_beta: return num_inc_beta(a[1], a[2], a[0]);
  default: return NAN;
  }
}

static Value *known_cdf(Eval *E, DistId id, Value **a, int n, bool complement) {
  Value *shape = a[0];
  for (int k = 0; k < n; k++) {
    if (!a[k]->known || a[k]->axis || n > 4) return NULL;
    if (a[k]->n > shape->n) shape = a[k];
  }
  Value *r = value_known(E, shape, NULL);
  r->kind = shape->kind == TY_INT ? TY_REAL : shape->kind;
  for (int32_t e = 0; e < r->n; e++) {
    double x[4] = {0};
    for (int k = 0; k < n; k++) x[k] = a[k]->v[a[k]->n == 1 ? 0 : e];
    double p = number_cdf(id, x);
    if (isnan(p)) return NULL;
    if (complement && id == DIST_student_t) {
      x[0] = 2 * x[2] - x[0]; /* symmetric about mu */
      p = 1 - number_cdf(id, x);
    }
    r->v[e] = complement ? log1p(-p) : log(p);
  }
  return r;
}

static Value *need_log_cdf(Eval *E, DistId id, Value **a, int n, bool complement, Loc loc) {
  Value *v = log_cdf(E, id, a, complement);
  if (!v) v = known_cdf(E, id, a, n, complement);
  if (!v)
    ctx_fail(E->ctx, PVI_PROGRAM, loc, "the cumulative distribution of %s is not supported yet where it depends on parameters",
             stan_dist_names[id]);
  return v;
}

static bool is_zero(const Value *v) {
  for (int32_t k = 0; v->known && k < value_total(v); k++)
    if (v->v[k] != 0) return false;
  return v->known;
}

/* log P(lower <= Y <= upper); infinite where the outcome is outside, so that its density is zero */
Value *dist_truncation(Eval *E, DistId id, Value **args, int n, Value *lower, Value *upper, Loc loc) {
  Value **a = NEW_ARRAY(E->arena, Value *, n);
  for (int k = 1; k < n; k++) a[k] = args[k];
  Value *above = NULL, *below = NULL;
  if (upper) {
    a[0] = upper;
    above = need_log_cdf(E, id, a, n, false, loc);
  }
  if (lower) {
    a[0] = lower;
    below = need_log_cdf(E, id, a, n, !upper, loc);
  }
  Value *one = above && below ? map2(E, IR_LOG_DIFF_EXP, above, below) : above ? above : below;
  Value *outside = NUM(0);
  if (upper) outside = map2(E, IR_LT, upper, args[0]);
  if (lower) outside = map2(E, IR_FMAX, outside, map2(E, IR_LT, args[0], lower));
  if (!is_zero(outside)) return map3(E, IR_SELECT, outside, NUM(INFINITY), one);
  if (one->n == args[0]->n || args[0]->n == 1) return one;
  return ADD(one, value_known(E, args[0], NULL)); /* once for every outcome */
}

/* ---- dispatch ----------------------------------------------------------------------------------------------------- */

#define CODE(id) lpdf_##id
#define MISSING NULL
static Density *const densities[DIST_COUNT] = {
#define DIST(id, signature, flags, code) [DIST_##id] = code,
#include "stan/dists.def"
#undef DIST
};

static bool univariate(DistId id) {
  return id != DIST_categorical && id != DIST_categorical_logit && id != DIST_ordered_logistic && id != DIST_ordered_probit &&
         id != DIST_normal_id_glm && id != DIST_bernoulli_logit_glm && id != DIST_poisson_log_glm;
}

static void check_sizes(Eval *E, DistId id, Value **a, int n, Loc loc) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < i; j++)
      if (a[i]->ndims && a[j]->ndims && a[i]->n != a[j]->n)
        ctx_fail(E->ctx, PVI_PROGRAM, loc, "%s: arguments of different sizes, %d and %d", stan_dist_names[id], a[j]->n,
                 a[i]->n);
}

/* A density of data is a likelihood: the mark stays with everything made of it. */
static Value *mark(Eval *E, Value *v) {
  if (v->known) {
    v->likelihood = true;
    return v;
  }
  return value_of_node(E, v, v->axis, ir_mark_likelihood(E->graph, value_node(E, v)));
}

Value *dist_lpdf(Eval *E, DistId id, Value **a, int n, Loc loc) {
  if (!densities[id]) ctx_fail(E->ctx, PVI_PROGRAM, loc, "the distribution %s is not supported yet", stan_dist_names[id]);
  if (univariate(id)) check_sizes(E, id, a, n, loc);
  dist_check_support(E, id, a, n, loc);
  Value *v = densities[id](E, a, n);
  return a[0]->known ? mark(E, v) : v;
}

Value *dist_call(Eval *E, DistId id, DistFun fun, Value **args, int n, Loc loc) {
  switch (fun) {
  case DF_LPDF: return value_sum(E, dist_lpdf(E, id, args, n, loc));
  case DF_LCDF: return value_sum(E, need_log_cdf(E, id, args, n, false, loc));
  case DF_LCCDF: return value_sum(E, need_log_cdf(E, id, args, n, true, loc));
  case DF_CDF: return M(EXP, value_sum(E, need_log_cdf(E, id, args, n, false, loc)));
  default: return dist_rng(E, id, args, n, loc);
  }
}
