/* cdf.c: cumulative distribution functions, always as log F or log(1 - F), each by itself, so that
 * neither tail is lost; and truncations, which are made of them. */
#include "model/dist.h"

#include <math.h>

#define COMPLEMENT(z) (complement ? M(NEG, z) : (z))

/* log F where a log(1 - F), given as x <= 0, is simple; and the other way around */
static Value *from_upper(Eval *E, Value *x, bool complement) {
  return complement ? x : M(LOG1M_EXP, x);
}
static Value *from_lower(Eval *E, Value *x, bool complement) {
  return complement ? M(LOG1M_EXP, x) : x;
}

static Value *choose(Eval *E, Value *condition, Value *yes, Value *no) {
  return map3(E, IR_SELECT, condition, yes, no);
}

/* ---- continuous ------------------------------------------------------------------------------ */

static Value *standardise(Eval *E, Value **a) { return DIV(SUB(a[0], a[1]), a[2]); }

/* F = atan2(1, -z) / pi */
static Value *cauchy(Eval *E, Value **a, bool complement) {
  Value *z = standardise(E, a);
  return M(LOG, DIV(map2(E, IR_ATAN2, NUM(1), complement ? z : M(NEG, z)), NUM(M_PI)));
}

/* e^z / 2 below 0, 1 - e^-z / 2 above */
static Value *laplace(Eval *E, Value **a, bool complement) {
  Value *z = COMPLEMENT(standardise(E, a)), *down = M(NEG, M(ABS, z));
  Value *below = SUB(down, NUM(M_LN2));
  return choose(E, map2(E, IR_LT, z, NUM(0)), below, M(LOG1M_EXP, below));
}

/* tau e^(-2 (1 - tau) |z|) below 0, 1 - (1 - tau) e^(-2 tau z) above */
static Value *skew_laplace(Eval *E, Value **a, bool complement) {
  Value *z = COMPLEMENT(standardise(E, a)), *tau = complement ? SUB(NUM(1), a[3]) : a[3],
        *size = M(ABS, z);
  Value *below = SUB(M(LOG, tau), MUL(NUM(2), MUL(SUB(NUM(1), tau), size)));
  Value *above = SUB(M(LOG1M, tau), MUL(NUM(2), MUL(tau, size)));
  return choose(E, map2(E, IR_LT, z, NUM(0)), below, M(LOG1M_EXP, above));
}

/* Phi(z) - 2 T(z, alpha) */
static Value *skew_normal(Eval *E, Value **a, bool complement) {
  Value *z = standardise(E, a), *t = MUL(NUM(2), map2(E, IR_OWENS_T, z, a[3]));
  return M(LOG, complement ? ADD(M(PHI, M(NEG, z)), t) : SUB(M(PHI, z), t));
}

/* Phi(z) - exp(v^2/2 - v z) Phi(z - v), v = lambda sigma */
static Value *exp_mod_normal(Eval *E, Value **a, bool complement) {
  Value *z = standardise(E, a), *v = MUL(a[3], a[2]);
  Value *tail = ADD(MUL(v, SUB(MUL(NUM(0.5), v), z)), M(LOG_PHI, SUB(z, v)));
  return complement ? map2(E, IR_LOG_SUM_EXP2, M(LOG_PHI, M(NEG, z)), tail)
                    : map2(E, IR_LOG_DIFF_EXP, M(LOG_PHI, z), tail);
}

/* (y - a) / (b - a), kept in [0, 1] */
static Value *uniform(Eval *E, Value **a, bool complement) {
  Value *z = DIV(SUB(a[0], a[1]), SUB(a[2], a[1]));
  z = map2(E, IR_FMIN, map2(E, IR_FMAX, z, NUM(0)), NUM(1));
  return M(LOG, complement ? SUB(NUM(1), z) : z);
}

/* 1 - (y_min / y)^alpha, y >= y_min */
static Value *pareto(Eval *E, Value **a, bool complement) {
  Value *upper = MUL(a[2], SUB(M(LOG, a[1]), M(LOG, a[0])));
  return choose(E, map2(E, IR_LT, a[0], a[1]), NUM(complement ? 0 : -INFINITY),
                from_upper(E, upper, complement));
}

static Value *gamma_p(Eval *E, Value *shape, Value *x, bool complement) {
  return map2(E, complement ? IR_LOG_GAMMA_Q : IR_LOG_GAMMA_P, shape, x);
}

/* I_x(a, b) = 1 - I_(1 - x)(b, a) */
static Value *inc_beta(Eval *E, Value *a, Value *b, Value *x, bool complement) {
  return complement ? map3(E, IR_LOG_INC_BETA, b, a, SUB(NUM(1), x))
                    : map3(E, IR_LOG_INC_BETA, a, b, x);
}

static Value *half(Eval *E, Value *x) { return MUL(NUM(0.5), x); }

/* (y / sigma)^alpha */
static Value *power(Eval *E, Value **a, double sign) {
  return M(EXP, MUL(MUL(NUM(sign), a[1]), SUB(M(LOG, a[0]), M(LOG, a[2]))));
}

static Value *continuous(Eval *E, DistId id, Value **a, bool complement) {
  switch (id) {
  case DIST_normal: return M(LOG_PHI, COMPLEMENT(standardise(E, a)));
  case DIST_std_normal: return M(LOG_PHI, COMPLEMENT(a[0]));
  case DIST_lognormal: return M(LOG_PHI, COMPLEMENT(DIV(SUB(M(LOG, a[0]), a[1]), a[2])));
  case DIST_student_t:
    return map2(E, IR_LOG_STUDENT_T_CDF, COMPLEMENT(DIV(SUB(a[0], a[2]), a[3])), a[1]);
  case DIST_logistic: return M(LOG_INV_LOGIT, COMPLEMENT(standardise(E, a)));
  case DIST_loglogistic:
    return M(LOG_INV_LOGIT, COMPLEMENT(MUL(a[2], SUB(M(LOG, a[0]), M(LOG, a[1])))));
  case DIST_cauchy: return cauchy(E, a, complement);
  case DIST_double_exponential: return laplace(E, a, complement);
  case DIST_skew_double_exponential: return skew_laplace(E, a, complement);
  case DIST_skew_normal: return skew_normal(E, a, complement);
  case DIST_exp_mod_normal: return exp_mod_normal(E, a, complement);
  case DIST_gumbel: return from_lower(E, M(NEG, M(EXP, M(NEG, standardise(E, a)))), complement);
  case DIST_uniform: return uniform(E, a, complement);
  case DIST_pareto: return pareto(E, a, complement);
  case DIST_pareto_type_2:
    return from_upper(E, M(NEG, MUL(a[3], M(LOG1P, standardise(E, a)))), complement);
  case DIST_exponential: return from_upper(E, M(NEG, MUL(a[0], a[1])), complement);
  case DIST_weibull: return from_upper(E, M(NEG, power(E, a, 1)), complement);
  case DIST_frechet: return from_lower(E, M(NEG, power(E, a, -1)), complement);
  case DIST_rayleigh: return from_upper(E, MUL(NUM(-0.5), M(SQUARE, DIV(a[0], a[1]))), complement);
  case DIST_gamma: return gamma_p(E, a[1], MUL(a[2], a[0]), complement);
  case DIST_inv_gamma: return gamma_p(E, a[1], DIV(a[2], a[0]), !complement);
  case DIST_chi_square: return gamma_p(E, half(E, a[1]), half(E, a[0]), complement);
  case DIST_inv_chi_square: return gamma_p(E, half(E, a[1]), DIV(NUM(0.5), a[0]), !complement);
  case DIST_scaled_inv_chi_square:
    return gamma_p(E, half(E, a[1]), DIV(MUL(half(E, a[1]), M(SQUARE, a[2])), a[0]), !complement);
  case DIST_beta: return inc_beta(E, a[1], a[2], a[0], complement);
  case DIST_beta_proportion:
    return inc_beta(E, MUL(a[1], a[2]), MUL(SUB(NUM(1), a[1]), a[2]), a[0], complement);
  default: return NULL;
  }
}

/* ---- counts ---------------------------------------------------------------------------------- */

/* The largest of known numbers. */
static double largest(const Value *v) {
  double most = -INFINITY;
  for (int32_t k = 0; k < value_total(v); k++)
    if (v->v[k] > most) most = v->v[k];
  return most;
}

/* Without a closed form: the log of sum p(k), k = from..y, for counts that are data. */
static Value *summed(Eval *E, DistId id, Value **a, int n, int from) {
  if (!a[0]->known || a[0]->axis) return NULL;
  const Value *like = a[0];
  for (int k = 1; k < n; k++)
    if (a[k]->n > like->n) like = a[k];
  double most = largest(a[0]);
  int32_t width = most < from ? 1 : (int32_t)most - from + 1, total = width * like->n;
  Value *each[5], *shape = value_shape(E, TY_VECTOR, 0, 1, &total),
                  *terms = value_known(E, shape, NULL);
  int32_t *index = NEW_ARRAY(E->arena, int32_t, total);
  for (int32_t e = 0; e < total; e++) terms->v[e] = from + e % width;
  for (int k = 0; k < n; k++) {
    for (int32_t e = 0; e < total; e++) index[e] = a[k]->n == 1 ? 0 : e / width;
    each[k] = value_take(E, a[k], shape, NULL, index);
  }
  Value *beyond = map2(E, IR_LT, each[0], terms);
  each[0] = terms;
  Value *l = choose(E, beyond, NUM(-INFINITY), dist_density(E, id, each, n));
  Value *out = value_like(E, like);
  if (out->kind == TY_INT) out->kind = TY_REAL;
  return value_reduce_rows(E, IR_LSE, l, width, out);
}

/* Of 0 <= y. */
static Value *counting(Eval *E, DistId id, Value **a, int n, bool complement) {
  Value *next = ADD(a[0], NUM(1)), *left, *v;
  switch (id) {
  case DIST_bernoulli:
    v = complement ? M(LOG, a[1]) : M(LOG1M, a[1]);
    return choose(E, map2(E, IR_LT, a[0], NUM(1)), v, NUM(complement ? -INFINITY : 0));
  case DIST_binomial: /* I_(1 - theta)(N - y, y + 1) */
    left = SUB(a[1], a[0]);
    v = inc_beta(E, next, map2(E, IR_FMAX, left, NUM(1)), a[2], !complement);
    return choose(E, map2(E, IR_LT, NUM(0), left), v, NUM(complement ? -INFINITY : 0));
  case DIST_poisson: return gamma_p(E, next, a[1], !complement);
  case DIST_neg_binomial: return inc_beta(E, a[1], next, DIV(a[2], ADD(NUM(1), a[2])), complement);
  case DIST_neg_binomial_2: return inc_beta(E, a[2], next, DIV(a[2], ADD(a[1], a[2])), complement);
  case DIST_beta_binomial:
  case DIST_beta_neg_binomial:
    v = summed(E, id, a, n, 0);
    return v ? from_lower(E, v, complement) : NULL;
  case DIST_yule_simon: /* 1 - F = y B(y, alpha + 1) */
    left = map2(E, IR_FMAX, a[0], NUM(1));
    v = from_upper(E, ADD(M(LOG, left), map2(E, IR_LBETA, left, ADD(a[1], NUM(1)))), complement);
    return choose(E, map2(E, IR_LT, a[0], NUM(1)), NUM(complement ? 0 : -INFINITY), v);
  default: return NULL;
  }
}

static bool any_negative(const Value *v) {
  for (int32_t k = 0; k < value_total(v); k++)
    if (v->v[k] < 0) return true;
  return false;
}

/* Counts below 0 have F = 0. */
static Value *discrete(Eval *E, DistId id, Value **args, int n, bool complement) {
  Value *a[5], *y = args[0];
  if (n > 5 || !(stan_dist_flags(id) & PMF)) return NULL;
  if (id == DIST_discrete_range) { /* (y - lower + 1) / (upper - lower + 1) */
    Value *one = NUM(1);
    return uniform(E, (Value *[]){ADD(y, one), args[1], ADD(args[2], one)}, complement);
  }
  for (int k = 0; k < n; k++) a[k] = args[k];
  if (y->known && !any_negative(y)) return counting(E, id, a, n, complement);
  a[0] = map2(E, IR_FMAX, y, NUM(0));
  Value *v = counting(E, id, a, n, complement);
  return v ? choose(E, map2(E, IR_LT, y, NUM(0)), NUM(complement ? 0 : -INFINITY), v) : NULL;
}

/* ---- all ------------------------------------------------------------------------------------- */

Value *dist_log_cdf(Eval *E, DistId id, Value **a, int n, bool complement, Loc loc) {
  E->density = loc;
  Value *v = continuous(E, id, a, complement);
  if (!v) v = discrete(E, id, a, n, complement);
  if (!v)
    ctx_fail(E->ctx, PVI_PROGRAM, loc,
             "the cumulative distribution function of %s is not supported yet",
             stan_dist_names[id]);
  return v;
}

static bool is_zero(const Value *v) {
  for (int32_t k = 0; v->known && k < value_total(v); k++)
    if (v->v[k] != 0) return false;
  return v->known;
}

/* log P(lower <= Y <= upper), of counts log P(lower - 1 < Y <= upper); infinite where the outcome
 * is outside, so that its density is zero */
Value *dist_truncation(Eval *E, DistId id, Value **args, int n, Value *lower, Value *upper,
                       Loc loc) {
  Value **a = NEW_ARRAY(E->arena, Value *, n);
  for (int k = 1; k < n; k++) a[k] = args[k];
  Value *above = NULL, *below = NULL;
  if (upper) {
    a[0] = upper;
    above = dist_log_cdf(E, id, a, n, false, loc);
  }
  if (lower) {
    a[0] = stan_dist_flags(id) & PMF ? SUB(lower, NUM(1)) : lower;
    below = dist_log_cdf(E, id, a, n, !upper, loc);
  }
  Value *one = above && below ? map2(E, IR_LOG_DIFF_EXP, above, below) : above ? above : below;
  Value *outside = NUM(0);
  if (upper) outside = map2(E, IR_LT, upper, args[0]);
  if (lower) outside = map2(E, IR_FMAX, outside, map2(E, IR_LT, args[0], lower));
  if (!is_zero(outside)) return map3(E, IR_SELECT, outside, NUM(INFINITY), one);
  if (one->n == args[0]->n || args[0]->n == 1) return one;
  return ADD(one, value_known(E, args[0], NULL)); /* once for every outcome */
}
