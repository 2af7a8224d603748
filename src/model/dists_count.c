/* dists_count.c: distributions of counts; dist.h tells how to read them. */
#include "model/dist.h"

#include <math.h>

static Value *next(Eval *E, Value *y) { return ADD(y, NUM(1)); }

static Value *log_choose(Eval *E, Value *n, Value *k) {
  return SUB(dist_log_factorial(E, n),
             ADD(dist_log_factorial(E, k), dist_log_factorial(E, SUB(n, k))));
}

/* ---- successes in trials --------------------------------------------------------------------- */

LPDF(bernoulli) { return map2(E, IR_BERNOULLI, a[0], a[1]); }
/* 1 - theta below 1, else 1 */
COUNT_CDF(bernoulli) {
  Value *v = complement ? M(LOG, a[1]) : M(LOG1M, a[1]);
  return CHOOSE(LESS(a[0], NUM(1)), v, NUM(complement ? -INFINITY : 0));
}
RNG(bernoulli) { return (double)rngs_bernoulli(r, a[0]); }
OUTCOME(bernoulli) { return AS(bernoulli, a[1]); }

LPDF(bernoulli_logit) { return map2(E, IR_BERNOULLI_LOGIT, a[0], a[1]); }
RNG(bernoulli_logit) { return (double)rngs_bernoulli(r, 1 / (1 + exp(-a[0]))); }
OUTCOME(bernoulli_logit) { return AS(bernoulli, M(INV_LOGIT, a[1])); }

LPDF(binomial) { return map4(E, IR_BINOMIAL, a[0], a[1], a[2], log_choose(E, a[1], a[0])); }
/* I_(1 - theta)(N - y, y + 1) below N, else 1 */
COUNT_CDF(binomial) {
  Value *up = next(E, a[0]), *left = SUB(a[1], a[0]);
  Value *v = dist_inc_beta(E, up, map2(E, IR_FMAX, left, NUM(1)), a[2], !complement);
  return CHOOSE(LESS(NUM(0), left), v, NUM(complement ? -INFINITY : 0));
}
RNG(binomial) { return (double)rngs_binomial(r, (int64_t)a[0], a[1]); }
OUTCOME(binomial) { return outcome_of_trials(a[1], AS(binomial, a[2])); }

LPDF(binomial_logit) {
  return map4(E, IR_BINOMIAL_LOGIT, a[0], a[1], a[2], log_choose(E, a[1], a[0]));
}
OUTCOME(binomial_logit) { return outcome_of_trials(a[1], AS(binomial, M(INV_LOGIT, a[2]))); }

/* (a over y) (b over N - y) / (a + b over N) */
LPDF(hypergeometric) {
  Value *v = ADD(log_choose(E, a[2], a[0]), log_choose(E, a[3], SUB(a[1], a[0])));
  return SUB(v, log_choose(E, ADD(a[2], a[3]), a[1]));
}
RNG(hypergeometric) {
  return (double)rngs_hypergeometric(r, (int64_t)a[0], (int64_t)a[1], (int64_t)a[2]);
}

/* ---- counts without a bound ------------------------------------------------------------------ */

LPDF(poisson) { return map4(E, IR_POISSON, a[0], a[1], dist_log_factorial(E, a[0]), M(LOG, a[1])); }
/* 1 - P(y + 1, lambda) */
COUNT_CDF(poisson) { return dist_gamma_p(E, next(E, a[0]), a[1], !complement); }
RNG(poisson) { return (double)rngs_poisson(r, a[0]); }
OUTCOME(poisson) { return AS(poisson, a[1]); }

LPDF(poisson_log) { return map3(E, IR_POISSON_LOG, a[0], a[1], dist_log_factorial(E, a[0])); }
RNG(poisson_log) { return (double)rngs_poisson(r, exp(a[0])); }
OUTCOME(poisson_log) { return AS(poisson, M(EXP, a[1])); }

/* lchoose(y + alpha - 1, y) - alpha log(1 + 1 / beta) - y log(beta + 1) */
LPDF(neg_binomial) {
  Value *k = SUB(dist_log_rising(E, a[1], a[0]), dist_log_factorial(E, a[0]));
  return SUB(k, ADD(MUL(a[1], M(LOG1P, M(INV, a[2]))), MUL(a[0], M(LOG1P, a[2]))));
}
/* I_p(alpha, y + 1), p = beta / (1 + beta) */
COUNT_CDF(neg_binomial) {
  Value *up = next(E, a[0]);
  return dist_inc_beta(E, a[1], up, DIV(a[2], ADD(NUM(1), a[2])), complement);
}
RNG(neg_binomial) { return (double)rngs_neg_binomial(r, a[0], a[1]); }

/* lchoose(y + phi - 1, y) + y (ratio - l) - phi l, ratio = log(mu / phi), l = log(1 + mu / phi):
 * nothing in it is large and cancels where phi is, and next to a Poisson */
Value *dist_neg_binomial_2(Eval *E, Value *y, Value *eta, Value *phi) {
  Value *ratio = SUB(eta, M(LOG, phi)), *l = M(LOG1P_EXP, ratio);
  Value *k = SUB(dist_log_rising(E, phi, y), dist_log_factorial(E, y));
  return ADD(k, SUB(MUL(y, SUB(ratio, l)), MUL(phi, l)));
}

LPDF(neg_binomial_2) { return dist_neg_binomial_2(E, a[0], M(LOG, a[1]), a[2]); }
/* I_p(phi, y + 1), p = phi / (mu + phi) */
COUNT_CDF(neg_binomial_2) {
  Value *up = next(E, a[0]);
  return dist_inc_beta(E, a[2], up, DIV(a[2], ADD(a[1], a[2])), complement);
}
RNG(neg_binomial_2) { return (double)rngs_neg_binomial_2(r, a[0], a[1]); }
OUTCOME(neg_binomial_2) { return AS(neg_binomial_2, a[1], a[2]); }

LPDF(neg_binomial_2_log) { return dist_neg_binomial_2(E, a[0], a[1], a[2]); }
RNG(neg_binomial_2_log) { return (double)rngs_neg_binomial_2(r, exp(a[0]), a[1]); }
OUTCOME(neg_binomial_2_log) { return AS(neg_binomial_2, M(EXP, a[1]), a[2]); }

/* ---- mixtures by beta distributions ---------------------------------------------------------- */

/* lbeta(a + x, b + y) - lbeta(a, b) */
static Value *log_beta_ratio(Eval *E, Value *a, Value *x, Value *b, Value *y) {
  Value *both = dist_log_rising(E, ADD(a, b), ADD(x, y));
  return SUB(ADD(dist_log_rising(E, a, x), dist_log_rising(E, b, y)), both);
}

/* Without a closed form a cumulative function is a sum of probabilities, for counts that are data.
 * Each outcome has a range of terms, from .. from + count - 1: those up to the outcome, whose sum
 * is F, or, where there are at most N and these are fewer, those above it, whose sum is 1 - F. */
enum { MOST_TERMS = 1000000 }; /* of all outcomes together */

typedef struct {
  const Value *like;    /* what there is a result for every element of */
  double *from, *count; /* per element */
  Value *upper;         /* per element: is it the sum of those above? */
  double width;         /* the greatest count */
} Ranges;

static double element(const Value *v, int32_t e) { return v->v[v->n == 1 ? 0 : e]; }

static Ranges ranges(Eval *E, Value **a, int n, const Value *most) {
  Ranges r = {.like = a[0]};
  for (int k = 1; k < n; k++)
    if (a[k]->ndims) r.like = a[k]; /* all containers are of one size */
  Value shape = *r.like;
  if (shape.kind == TY_INT) shape.kind = TY_REAL;
  r.upper = value_known(E, &shape, NULL);
  r.from = NEW_ARRAY(E->arena, double, r.like->n);
  r.count = NEW_ARRAY(E->arena, double, r.like->n);
  for (int32_t e = 0; e < r.like->n; e++) {
    double y = element(a[0], e), above = most ? fmax(element(most, e) - y, 0) : INFINITY;
    bool upper = above < y + 1;
    r.upper->v[e] = upper;
    r.from[e] = upper ? y + 1 : 0;
    r.count[e] = upper ? above : y + 1;
    r.width = fmax(r.width, r.count[e]);
  }
  return r;
}

/* most: N, or NULL. All terms of all outcomes are evaluated together, `width` of them an outcome.
 * NULL: it cannot be computed so. */
static Value *summed(Eval *E, DistLpdf *lpdf, Value **a, int n, Value *most, bool complement) {
  bool bounded = most && most->known && !most->axis;
  if (!a[0]->known || a[0]->axis) return NULL;
  Ranges r = ranges(E, a, n, bounded ? most : NULL);
  if (r.width * r.like->n > MOST_TERMS)
    ctx_fail(E->ctx, PVI_PROGRAM, E->density,
             "a cumulative distribution function that is a sum of %.0f probabilities is not "
             "supported: at most %d",
             r.width * r.like->n, MOST_TERMS);
  int32_t width = r.width < 1 ? 1 : (int32_t)r.width, total = width * r.like->n;
  if (!total) return value_known(E, r.upper, NULL);
  Value **each = NEW_ARRAY(E->arena, Value *, n), *shape = value_shape(E, TY_VECTOR, 0, 1, &total),
        *terms = value_known(E, shape, NULL), *beyond = value_known(E, shape, NULL);
  int32_t *index = NEW_ARRAY(E->arena, int32_t, total);
  for (int32_t e = 0; e < total; e++) {
    bool is_beyond = e % width >= r.count[e / width];
    beyond->v[e] = is_beyond;
    terms->v[e] = is_beyond ? 0 : r.from[e / width] + e % width;
  }
  each[0] = terms;
  for (int k = 1; k < n; k++) {
    for (int32_t e = 0; e < total; e++) index[e] = a[k]->n == 1 ? 0 : e / width;
    each[k] = value_take(E, a[k], shape, NULL, index);
  }
  Value *l = CHOOSE(beyond, NUM(-INFINITY), lpdf(E, each, n));
  Value *sum = value_reduce_rows(E, IR_LSE, l, width, r.upper);
  Value *wanted = complement ? r.upper : M(NOT, r.upper); /* is the sum itself what is asked for? */
  Value *other = M(LOG1M_EXP, CHOOSE(wanted, NUM(-1), sum)); /* which may be 0 where it is */
  return CHOOSE(wanted, sum, other);
}

/* lchoose(N, y) + lbeta(y + alpha, N - y + beta) - lbeta(alpha, beta) */
LPDF(beta_binomial) {
  Value *v = log_beta_ratio(E, a[2], a[0], a[3], SUB(a[1], a[0]));
  return ADD(log_choose(E, a[1], a[0]), v);
}
COUNT_CDF(beta_binomial) { return summed(E, lpdf_beta_binomial, a, n, a[1], complement); }
RNG(beta_binomial) { return (double)rngs_beta_binomial(r, (int64_t)a[0], a[1], a[2]); }

/* lgamma(y + r) - lgamma(r) - log y! + lbeta(y + beta, r + alpha) - lbeta(beta, alpha) */
LPDF(beta_neg_binomial) {
  Value *k = SUB(dist_log_rising(E, a[1], a[0]), dist_log_factorial(E, a[0]));
  return ADD(k, log_beta_ratio(E, a[3], a[0], a[2], a[1]));
}
COUNT_CDF(beta_neg_binomial) { return summed(E, lpdf_beta_neg_binomial, a, n, NULL, complement); }
RNG(beta_neg_binomial) {
  double p = rngs_beta(r, a[1], a[2]);
  return (double)rngs_neg_binomial(r, a[0], p / (1 - p));
}

/* log alpha + lbeta(y, alpha + 1) */
LPDF(yule_simon) {
  Value *next = ADD(a[1], NUM(1));
  return ADD(M(LOG, a[1]), SUB(M(LGAMMA, a[0]), dist_log_rising(E, next, a[0])));
}
/* 1 - F = y B(y, alpha + 1), y >= 1 */
COUNT_CDF(yule_simon) {
  Value *y = map2(E, IR_FMAX, a[0], NUM(1));
  Value *upper = ADD(M(LOG, y), map2(E, IR_LBETA, y, ADD(a[1], NUM(1))));
  Value *v = dist_from_upper(E, upper, complement);
  return CHOOSE(LESS(a[0], NUM(1)), NUM(complement ? 0 : -INFINITY), v);
}
/* Geometric, from 1 on, with the probability e^-w, w exponential with rate alpha. */
RNG(yule_simon) {
  double p = exp(-rngs_exponential(r) / a[0]);
  return 1 + floor(-rngs_exponential(r) / log1p(-p));
}

/* ---- a range --------------------------------------------------------------------------------- */

LPDF(discrete_range) {
  Value *outside = map2(E, IR_FMAX, LESS(a[0], a[1]), LESS(a[2], a[0]));
  return CHOOSE(outside, NUM(-INFINITY), M(NEG, M(LOG, next(E, SUB(a[2], a[1])))));
}
/* (y - lower + 1) / (upper - lower + 1): that of uniform(lower, upper + 1) at y + 1 */
CDF(discrete_range) {
  return cdf_uniform(E, (Value *[]){next(E, a[0]), a[1], next(E, a[2])}, n, complement);
}
RNG(discrete_range) { return a[0] + floor((a[1] - a[0] + 1) * rngs_uniform(r)); }
