/* dists_positive.c: continuous distributions of positive outcomes; dist.h tells how to read them.
 */
#include "model/dist.h"

#include <math.h>

static Value *half(Eval *E, Value *x) { return MUL(NUM(0.5), x); }

LPDF(lognormal) {
  Value *ly = M(LOG, a[0]);
  return SUB(map4(E, IR_NORMAL, ly, a[1], M(INV, a[2]), M(LOG, a[2])), ly);
}
CDF(lognormal) { return M(LOG_PHI, COMPLEMENT(DIV(SUB(M(LOG, a[0]), a[1]), a[2]))); }
RNG(lognormal) { return exp(a[0] + a[1] * rngs_normal(r)); }
SIMULATE(lognormal) { return M(EXP, ADD(a[0], MUL(a[1], NORMAL_NOISE))); }
OUTCOME(lognormal) { return AS(lognormal, a[1], a[2]); }

LPDF(exponential) { return SUB(M(LOG, a[1]), MUL(a[1], a[0])); }
CDF(exponential) { return dist_from_upper(E, M(NEG, MUL(a[0], a[1])), complement); }
RNG(exponential) { return rngs_exponential(r) / a[0]; }
SIMULATE(exponential) { return DIV(M(NEG, M(LOG, UNIFORM_NOISE)), a[0]); }
OUTCOME(exponential) { return AS(exponential, a[1]); }

/* ---- gamma and its relatives ----------------------------------------------------------------- */

/* alpha log beta - lgamma(alpha) + (alpha - 1) log y - beta y */
LPDF(gamma) {
  Value *k = SUB(MUL(a[1], M(LOG, a[2])), M(LGAMMA, a[1]));
  return ADD(k, SUB(MUL(SUB(a[1], NUM(1)), M(LOG, a[0])), MUL(a[2], a[0])));
}
CDF(gamma) { return dist_gamma_p(E, a[1], MUL(a[2], a[0]), complement); }
RNG(gamma) { return rngs_gamma(r, a[0]) / a[1]; }
OUTCOME(gamma) { return AS(gamma, a[1], a[2]); }

/* alpha log beta - lgamma(alpha) - (alpha + 1) log y - beta / y */
LPDF(inv_gamma) {
  Value *k = SUB(MUL(a[1], M(LOG, a[2])), M(LGAMMA, a[1]));
  return SUB(k, ADD(MUL(ADD(a[1], NUM(1)), M(LOG, a[0])), DIV(a[2], a[0])));
}
CDF(inv_gamma) { return dist_gamma_p(E, a[1], DIV(a[2], a[0]), !complement); }
RNG(inv_gamma) { return a[1] / rngs_gamma(r, a[0]); }

/* gamma(nu / 2, 1 / 2) */
LPDF(chi_square) { return lpdf_gamma(E, (Value *[]){a[0], MUL(a[1], NUM(0.5)), NUM(0.5)}, 3); }
CDF(chi_square) { return dist_gamma_p(E, half(E, a[1]), half(E, a[0]), complement); }
RNG(chi_square) { return rngs_chi_square(r, a[0]); }

/* inv_gamma(nu / 2, 1 / 2) */
LPDF(inv_chi_square) {
  return lpdf_inv_gamma(E, (Value *[]){a[0], MUL(a[1], NUM(0.5)), NUM(0.5)}, 3);
}
CDF(inv_chi_square) { return dist_gamma_p(E, half(E, a[1]), DIV(NUM(0.5), a[0]), !complement); }
RNG(inv_chi_square) { return 1 / rngs_chi_square(r, a[0]); }

/* inv_gamma(nu / 2, nu sigma^2 / 2) */
LPDF(scaled_inv_chi_square) {
  Value *h = MUL(a[1], NUM(0.5));
  return lpdf_inv_gamma(E, (Value *[]){a[0], h, MUL(h, M(SQUARE, a[2]))}, 3);
}
CDF(scaled_inv_chi_square) {
  return dist_gamma_p(E, half(E, a[1]), DIV(MUL(half(E, a[1]), M(SQUARE, a[2])), a[0]),
                      !complement);
}
RNG(scaled_inv_chi_square) { return a[0] * a[1] * a[1] / rngs_chi_square(r, a[0]); }

/* ---- powers ---------------------------------------------------------------------------------- */

/* (y / sigma)^(sign alpha) */
static Value *power(Eval *E, Value **a, double sign) {
  return M(EXP, MUL(MUL(NUM(sign), a[1]), SUB(M(LOG, a[0]), M(LOG, a[2]))));
}

/* log(alpha / sigma) + (alpha - 1) log(y / sigma) - (y / sigma)^alpha */
LPDF(weibull) {
  Value *z = SUB(M(LOG, a[0]), M(LOG, a[2]));
  Value *k = SUB(M(LOG, a[1]), M(LOG, a[2]));
  return SUB(ADD(k, MUL(SUB(a[1], NUM(1)), z)), M(EXP, MUL(a[1], z)));
}
CDF(weibull) { return dist_from_upper(E, M(NEG, power(E, a, 1)), complement); }
RNG(weibull) { return a[1] * rngs_weibull(r, a[0]); }
SIMULATE(weibull) { return MUL(a[1], M(EXP, DIV(M(LOG, M(NEG, M(LOG, UNIFORM_NOISE))), a[0]))); }

/* log(alpha / sigma) - (alpha + 1) log(y / sigma) - (y / sigma)^-alpha */
LPDF(frechet) {
  Value *z = SUB(M(LOG, a[0]), M(LOG, a[2]));
  Value *k = SUB(M(LOG, a[1]), M(LOG, a[2]));
  return SUB(SUB(k, MUL(ADD(a[1], NUM(1)), z)), M(EXP, M(NEG, MUL(a[1], z))));
}
CDF(frechet) { return dist_from_lower(E, M(NEG, power(E, a, -1)), complement); }
RNG(frechet) { return a[1] / rngs_weibull(r, a[0]); }

/* log y - 2 log sigma - y^2 / (2 sigma^2) */
LPDF(rayleigh) {
  Value *z = DIV(a[0], a[1]);
  return SUB(SUB(M(LOG, a[0]), MUL(NUM(2), M(LOG, a[1]))), MUL(NUM(0.5), M(SQUARE, z)));
}
CDF(rayleigh) { return dist_from_upper(E, MUL(NUM(-0.5), M(SQUARE, DIV(a[0], a[1]))), complement); }
RNG(rayleigh) { return a[0] * sqrt(2 * rngs_exponential(r)); }
SIMULATE(rayleigh) { return MUL(a[0], M(SQRT, MUL(NUM(-2), M(LOG, UNIFORM_NOISE)))); }

/* log alpha + alpha log y_min - (alpha + 1) log y, y >= y_min */
LPDF(pareto) {
  Value *v = SUB(ADD(M(LOG, a[2]), MUL(a[2], M(LOG, a[1]))), MUL(ADD(a[2], NUM(1)), M(LOG, a[0])));
  return CHOOSE(LESS(a[0], a[1]), NUM(-INFINITY), v);
}
/* 1 - (y_min / y)^alpha, y >= y_min */
CDF(pareto) {
  Value *upper = MUL(a[2], SUB(M(LOG, a[1]), M(LOG, a[0])));
  return CHOOSE(LESS(a[0], a[1]), NUM(complement ? 0 : -INFINITY),
                dist_from_upper(E, upper, complement));
}
RNG(pareto) { return a[0] * exp(rngs_exponential(r) / a[1]); }

/* log alpha - log lambda - (alpha + 1) log(1 + (y - mu) / lambda) */
LPDF(pareto_type_2) {
  Value *z = dist_standardise(E, a);
  return SUB(SUB(M(LOG, a[3]), M(LOG, a[2])), MUL(ADD(a[3], NUM(1)), M(LOG1P, z)));
}
CDF(pareto_type_2) {
  return dist_from_upper(E, M(NEG, MUL(a[3], M(LOG1P, dist_standardise(E, a)))), complement);
}
RNG(pareto_type_2) { return a[0] + a[1] * expm1(rngs_exponential(r) / a[2]); }

/* log(beta / alpha) + (beta - 1) z - 2 log(1 + e^(beta z)), z = log(y / alpha) */
LPDF(loglogistic) {
  Value *la = M(LOG, a[1]), *z = SUB(M(LOG, a[0]), la), *k = SUB(M(LOG, a[2]), la);
  return SUB(ADD(k, MUL(SUB(a[2], NUM(1)), z)), MUL(NUM(2), M(LOG1P_EXP, MUL(a[2], z))));
}
CDF(loglogistic) {
  return M(LOG_INV_LOGIT, COMPLEMENT(MUL(a[2], SUB(M(LOG, a[0]), M(LOG, a[1])))));
}
RNG(loglogistic) { return a[0] * exp(rngs_logistic(r) / a[1]); }
