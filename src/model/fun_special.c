/* fun_special.c: special functions made of ops, and comparisons under the names they have as
 * functions. */
#include "model/fun.h"

#include <math.h>

/* ---- factorials and the like ----------------------------------------------------------------- */

static double largest(Eval *E, Value *v, const Expr *call) {
  double most = 0;
  if (!v->known) fun_need_known(E, v, call);
  for (int32_t k = 0; k < value_total(v); k++) {
    if (!(v->v[k] >= 0))
      ctx_fail(E->ctx, PVI_PROGRAM, fun_place(call), "%s: the number %g is negative", call->name,
               v->v[k]);
    if (v->v[k] > most) most = v->v[k];
  }
  if (most > 10000)
    ctx_fail(E->ctx, PVI_PROGRAM, fun_place(call), "%s: %g factors are too many", call->name, most);
  return most;
}

/* x (x + step) (x + 2 step) ...: n factors, n per element */
static Value *factors(Eval *E, Value *x, Value *n, double step, const Expr *call) {
  double most = largest(E, n, call);
  Value *r = ADD(MUL(x, NUM(0)), ADD(MUL(n, NUM(0)), NUM(1)));
  for (int k = 0; k < most; k++)
    r = map3(E, IR_SELECT, map2(E, IR_LT, NUM(k), n), MUL(r, ADD(x, NUM(step * k))), r);
  return x->kind == TY_INT ? fun_int_if(r, x) : r;
}
FN(falling_factorial) { return factors(E, a[0], a[1], -1, call); }
FN(rising_factorial) { return factors(E, a[0], a[1], 1, call); }
FN(log_falling_factorial) {
  Value *next = ADD(a[0], NUM(1));
  return SUB(M(LGAMMA, next), M(LGAMMA, SUB(next, a[1])));
}
FN(log_rising_factorial) { return map3(E, IR_LOG_RISING, a[0], a[1], M(LGAMMA, a[0])); }
FN(beta) { return M(EXP, map2(E, IR_LBETA, a[0], a[1])); }

/* x over y: exactly, factor by factor */
static double binomial_coefficient(double n, double k) {
  double r = 1;
  if (k > n - k) k = n - k;
  for (double i = 1; i <= k; i++) r = round(r * (n - k + i) / i);
  return k < 0 ? 0 : r;
}
FN(choose) {
  Value *r = map2(E, IR_LCHOOSE, a[0], a[1]), *x = value_on_axis(E, a[0], r->axis),
        *y = value_on_axis(E, a[1], r->axis);
  if (!r->known) fun_need_known(E, r, call);
  for (int32_t k = 0; k < value_total(r); k++) {
    int32_t row = r->n ? k / r->n : 0, e = r->n ? k % r->n : 0;
    r->v[k] = binomial_coefficient(x->v[(x->axis ? row * x->n : 0) + (x->n == 1 ? 0 : e)],
                                   y->v[(y->axis ? row * y->n : 0) + (y->n == 1 ? 0 : e)]);
  }
  r->kind = TY_INT;
  return r;
}

/* n (n - 1)/4 log pi + sum_{j < n} lgamma(x - j/2) */
FN(lmgamma) {
  double most = largest(E, a[0], call);
  Value *r = ADD(MUL(NUM(0.25 * log(M_PI)), MUL(a[0], SUB(a[0], NUM(1)))), MUL(a[1], NUM(0)));
  for (int j = 0; j < most; j++) {
    Value *more = ADD(r, M(LGAMMA, SUB(a[1], NUM(0.5 * j))));
    r = map3(E, IR_SELECT, map2(E, IR_LT, NUM(j), a[0]), more, r);
  }
  return r;
}

/* ---- logarithms ------------------------------------------------------------------------------ */

/* inv_logit(x) - inv_logit(y) = (e^x - e^y) / ((1 + e^x) (1 + e^y)) */
FN(log_inv_logit_diff) {
  Value *d = map2(E, IR_LOG_DIFF_EXP, a[0], a[1]);
  return ADD(d, ADD(M(LOG1M_INV_LOGIT, a[0]), M(LOG1M_INV_LOGIT, a[1])));
}
FN(log2) { return n ? M(LOG2, a[0]) : NUM(M_LN2); }
FN(log10) { return n ? M(LOG10, a[0]) : NUM(M_LN10); }
FN(binary_log_loss) { return M(NEG, map2(E, IR_BERNOULLI, a[0], a[1])); }
FN(ldexp) { return MUL(a[0], M(EXP2, a[1])); }

/* Derivatives by the order are not at hand. */
FN(log_modified_bessel_first_kind) {
  if (!a[0]->known)
    ctx_fail(E->ctx, PVI_PROGRAM, fun_place(call),
             "%s of an order that depends on parameters is not supported yet", call->name);
  return map2(E, IR_LOG_BESSEL_I, a[0], a[1]);
}

/* ---- hypergeometric functions ---------------------------------------------------------------- */

/* (1 - z)^-a */
FN(hypergeometric_1F0) { return M(EXP, M(NEG, MUL(a[0], M(LOG1M, a[1])))); }

/* Of a series sum_k t_k with t_0 = 1 the ratios t_k / t_(k-1), k = 1.., are given; its terms are
 * exp(cumulative sum of log |ratio|) with the sign of the ratios' product. Where the last one still
 * counts the sum is unknown: nan. A ratio of zero ends the series: it becomes tiny, so that its
 * logarithm has a derivative. */
enum { TERMS = 2000 };
static const double STILL_COUNTS = 1e-13, TINY = 1e-300;

static Value *series(Eval *E, Value *ratio) {
  int32_t K = ratio->n;
  Value *size = map2(E, IR_FMAX, M(ABS, ratio), NUM(TINY));
  Value *odd = map2(E, IR_LT, ratio, NUM(0)), *logs = M(LOG, size);
  Value *turns = eval_function(E, FUN_cumulative_sum, &odd, 1, NULL),
        *exponent = eval_function(E, FUN_cumulative_sum, &logs, 1, NULL);
  Value *half = MUL(NUM(0.5), turns);
  Value *even = map2(E, IR_EQ, M(FLOOR, half), half);
  Value *terms = MUL(map3(E, IR_SELECT, even, NUM(1), NUM(-1)), M(EXP, exponent));
  Value *sum = ADD(NUM(1), value_sum(E, terms));
  Value *last = M(ABS, value_element(E, terms, K - 1));
  Value *done = map2(E, IR_LE, last, MUL(NUM(STILL_COUNTS), M(ABS, sum)));
  return map3(E, IR_SELECT, done, sum, NUM(NAN));
}

/* prod_i (a_i + k) / prod_j (b_j + k) z / (k + 1), k = 0.. */
static Value *ratios(Eval *E, Value *const *above, int p, Value *const *below, int q, Value *z) {
  Value *k = value_vector(E, TERMS), *next = value_vector(E, TERMS);
  for (int32_t i = 0; i < TERMS; i++) k->v[i] = i, next->v[i] = i + 1;
  Value *r = DIV(z, next);
  for (int i = 0; i < p; i++) r = MUL(r, ADD(above[i], k));
  for (int j = 0; j < q; j++) r = DIV(r, ADD(below[j], k));
  return r;
}

static Value **elements_of(Eval *E, Value *v) {
  Value **e = NEW_ARRAY(E->arena, Value *, v->n + 1);
  for (int32_t k = 0; k < v->n; k++) e[k] = value_element(E, v, k);
  return e;
}

/* It converges everywhere where it has at least as many parameters below as above, and for |z| < 1
 * where it has one less. */
FN(hypergeometric_pFq) {
  return series(E, ratios(E, elements_of(E, a[0]), a[0]->n, elements_of(E, a[1]), a[1]->n, a[2]));
}
FN(hypergeometric_3F2) {
  if (a[0]->n != 3 || a[1]->n != 2)
    ctx_fail(E->ctx, PVI_PROGRAM, fun_place(call),
             "%s: %d and %d parameters are given; it has 3 and 2", call->name, a[0]->n, a[1]->n);
  return fn_hypergeometric_pFq(E, a, n, call);
}
/* Below zero by Pfaff's transformation: (1 - z)^-a1 2F1(a1, b - a2; b; z / (z - 1)). */
FN(hypergeometric_2F1) {
  Value *low = map2(E, IR_LT, a[3], NUM(0));
  Value *turned = DIV(a[3], SUB(a[3], NUM(1)));
  Value *above[2] = {a[0], map3(E, IR_SELECT, low, SUB(a[2], a[1]), a[1])};
  Value *sum = series(E, ratios(E, above, 2, &a[2], 1, map3(E, IR_SELECT, low, turned, a[3])));
  Value *log_factor = MUL(a[0], M(LOG1M, map3(E, IR_SELECT, low, a[3], NUM(0))));
  return MUL(M(EXP, M(NEG, log_factor)), sum);
}

/* ---- quantiles ------------------------------------------------------------------------------- */

/* t^2 / (nu + t^2) is a beta variable of (1/2, nu/2) and nu / (nu + t^2) one of (nu/2, 1/2): the
 * first serves in the middle, the second in the tails, |2 p - 1| being the probability of a smaller
 * |t|. At the very middle t is (p - 1/2) over the density at 0. */
FN(student_t_qf) {
  Value *p = a[0], *nu = a[1], *half_nu = MUL(NUM(0.5), nu), *half = NUM(0.5);
  Value *off = SUB(MUL(NUM(2), p), NUM(1)), *inside = M(ABS, off);
  Value *outside = MUL(NUM(2), map2(E, IR_FMIN, p, SUB(NUM(1), p)));
  Value *centre = map2(E, IR_LT, inside, NUM(1e-7)), *tail = map2(E, IR_LT, outside, half);
#define WHERE(c, yes, no) map3(E, IR_SELECT, c, yes, no)
  Value *near = WHERE(centre, half, WHERE(tail, half, inside)), *far = WHERE(tail, outside, half);
  Value *y = map3(E, IR_INV_INC_BETA, half, half_nu, near);
  Value *x = map3(E, IR_INV_INC_BETA, half_nu, half, far);
  Value *odds = WHERE(tail, DIV(SUB(NUM(1), x), x), DIV(y, SUB(NUM(1), y)));
  Value *t = M(SQRT, MUL(nu, odds));
  Value *log_density = SUB(SUB(M(LGAMMA, ADD(half, half_nu)), M(LGAMMA, half_nu)),
                           MUL(half, M(LOG, MUL(NUM(M_PI), nu))));
  Value *straight = MUL(MUL(half, off), M(EXP, M(NEG, log_density)));
  Value *sign = WHERE(map2(E, IR_LT, off, NUM(0)), NUM(-1), NUM(1));
  Value *z = WHERE(centre, straight, MUL(sign, t));
#undef WHERE
  return ADD(a[2], MUL(a[3], z));
}

/* ---- comparisons and signs ------------------------------------------------------------------- */

FN(logical_and) { return eval_binary(E, OP_AND, a[0], a[1], fun_place(call)); }
FN(logical_or) { return eval_binary(E, OP_OR, a[0], a[1], fun_place(call)); }
FN(logical_eq) { return eval_binary(E, OP_EQ, a[0], a[1], fun_place(call)); }
FN(logical_neq) { return eval_binary(E, OP_NE, a[0], a[1], fun_place(call)); }
FN(logical_lt) { return eval_binary(E, OP_LT, a[0], a[1], fun_place(call)); }
FN(logical_lte) { return eval_binary(E, OP_LE, a[0], a[1], fun_place(call)); }
FN(logical_gt) { return eval_binary(E, OP_GT, a[0], a[1], fun_place(call)); }
FN(logical_gte) { return eval_binary(E, OP_GE, a[0], a[1], fun_place(call)); }
FN(logical_negation) {
  Value *r = M(NOT, a[0]);
  r->kind = TY_INT;
  return r;
}
FN(minus) { return fun_int_if(M(NEG, a[0]), a[0]); }
FN(plus) { return a[0]; }
