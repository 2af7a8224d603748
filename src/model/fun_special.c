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
FN(log_rising_factorial) { return SUB(M(LGAMMA, ADD(a[0], a[1])), M(LGAMMA, a[0])); }
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

/* (1 - z)^-a */
FN(hypergeometric_1F0) { return M(EXP, M(NEG, MUL(a[0], M(LOG1M, a[1])))); }

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
