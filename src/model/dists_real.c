/* dists_real.c: continuous distributions on the real line; dist.h tells how to read them. Most have
 * a location and a scale: with z = (y - location) / scale, the log density is that of z less log
 * scale, F is F(z), and a draw is location + scale z. */
#include "model/dist.h"

#include <math.h>

static Value *location_scale(Eval *E, unsigned op, Value **a) {
  return map4(E, op, a[0], a[1], M(INV, a[2]), M(LOG, a[2]));
}

LPDF(normal) { return location_scale(E, IR_NORMAL, a); }
CDF(normal) { return M(LOG_PHI, COMPLEMENT(dist_standardise(E, a))); }
RNG(normal) { return a[0] + a[1] * rngs_normal(r); }
SIMULATE(normal) { return ADD(a[0], MUL(a[1], NORMAL_NOISE)); }
OUTCOME(normal) { return AS(normal, a[1], a[2]); }

LPDF(std_normal) { return map4(E, IR_NORMAL, a[0], NUM(0), NUM(1), NUM(0)); }
CDF(std_normal) { return M(LOG_PHI, COMPLEMENT(a[0])); }
RNG(std_normal) { return rngs_normal(r); }
SIMULATE(std_normal) { return NORMAL_NOISE; }
OUTCOME(std_normal) { return AS(normal, NUM(0), NUM(1)); }

/* lgamma((nu+1)/2) - lgamma(nu/2) - log(nu pi)/2 - log sigma
 *   - (nu+1)/2 log(1 + ((y-mu)/sigma)^2/nu) */
LPDF(student_t) {
  Value *half = MUL(a[1], NUM(0.5));
  Value *k = SUB(dist_log_rising(E, half, NUM(0.5)), MUL(NUM(0.5), ADD(M(LOG, a[1]), NUM(LOG_PI))));
  return ADD(map4(E, IR_STUDENT_T, a[0], a[2], M(INV, a[3]), a[1]), SUB(k, M(LOG, a[3])));
}
CDF(student_t) {
  return map2(E, IR_LOG_STUDENT_T_CDF, COMPLEMENT(DIV(SUB(a[0], a[2]), a[3])), a[1]);
}
RNG(student_t) { return a[1] + a[2] * rngs_student_t(r, a[0]); }
OUTCOME(student_t) { return AS(student_t, a[1], a[2], a[3]); }

LPDF(cauchy) { return location_scale(E, IR_CAUCHY, a); }
/* F = atan2(1, -z) / pi */
CDF(cauchy) {
  Value *z = dist_standardise(E, a);
  return M(LOG, DIV(map2(E, IR_ATAN2, NUM(1), complement ? z : M(NEG, z)), NUM(M_PI)));
}
RNG(cauchy) { return a[0] + a[1] * rngs_cauchy(r); }
SIMULATE(cauchy) {
  return ADD(a[0], MUL(a[1], M(TAN, MUL(NUM(M_PI), SUB(UNIFORM_NOISE, NUM(0.5))))));
}
OUTCOME(cauchy) { return AS(cauchy, a[1], a[2]); }

LPDF(double_exponential) { return location_scale(E, IR_DOUBLE_EXP, a); }
/* e^z / 2 below 0, 1 - e^-z / 2 above */
CDF(double_exponential) {
  Value *z = COMPLEMENT(dist_standardise(E, a)), *down = M(NEG, M(ABS, z));
  Value *below = SUB(down, NUM(M_LN2));
  return CHOOSE(LESS(z, NUM(0)), below, M(LOG1M_EXP, below));
}
RNG(double_exponential) { return a[0] + a[1] * rngs_double_exponential(r); }
/* z = -sign(u - 1/2) log(1 - 2 |u - 1/2|) */
SIMULATE(double_exponential) {
  Value *v = SUB(UNIFORM_NOISE, NUM(0.5));
  Value *size = M(NEG, M(LOG1M, MUL(NUM(2), M(ABS, v))));
  return ADD(a[0], MUL(a[1], CHOOSE(LESS(v, NUM(0)), M(NEG, size), size)));
}
OUTCOME(double_exponential) { return AS(double_exponential, a[1], a[2]); }

LPDF(logistic) { return location_scale(E, IR_LOGISTIC, a); }
CDF(logistic) { return M(LOG_INV_LOGIT, COMPLEMENT(dist_standardise(E, a))); }
RNG(logistic) { return a[0] + a[1] * rngs_logistic(r); }
SIMULATE(logistic) { return ADD(a[0], MUL(a[1], M(LOGIT, UNIFORM_NOISE))); }
OUTCOME(logistic) { return AS(logistic, a[1], a[2]); }

/* -z - e^-z - log beta */
LPDF(gumbel) {
  Value *z = dist_standardise(E, a);
  return SUB(SUB(M(NEG, z), M(EXP, M(NEG, z))), M(LOG, a[2]));
}
/* F = exp(-e^-z) */
CDF(gumbel) {
  return dist_from_lower(E, M(NEG, M(EXP, M(NEG, dist_standardise(E, a)))), complement);
}
RNG(gumbel) { return a[0] + a[1] * rngs_gumbel(r); }
SIMULATE(gumbel) { return SUB(a[0], MUL(a[1], M(LOG, M(NEG, M(LOG, UNIFORM_NOISE))))); }

/* log 2 + log phi(z) + log Phi(alpha z) - log omega */
LPDF(skew_normal) {
  Value *z = dist_standardise(E, a);
  return ADD(ADD(location_scale(E, IR_NORMAL, a), NUM(log(2))), M(LOG_PHI, MUL(a[3], z)));
}
/* Phi(z) - 2 T(z, alpha), T Owen's function */
CDF(skew_normal) {
  Value *z = dist_standardise(E, a), *t = MUL(NUM(2), map2(E, IR_OWENS_T, z, a[3]));
  return M(LOG, complement ? ADD(M(PHI, M(NEG, z)), t) : SUB(M(PHI, z), t));
}
RNG(skew_normal) { return a[0] + a[1] * rngs_skew_normal(r, a[2]); }

/* log lambda + lambda (mu + lambda sigma^2 / 2 - y) + log Phi((y - mu) / sigma - lambda sigma) */
LPDF(exp_mod_normal) {
  Value *d = SUB(a[0], a[1]), *v = MUL(a[3], a[2]);
  Value *e = SUB(MUL(NUM(0.5), M(SQUARE, v)), MUL(a[3], d));
  return ADD(ADD(M(LOG, a[3]), e), M(LOG_PHI, SUB(DIV(d, a[2]), v)));
}
/* Phi(z) - exp(v^2/2 - v z) Phi(z - v), v = lambda sigma */
CDF(exp_mod_normal) {
  Value *z = dist_standardise(E, a), *v = MUL(a[3], a[2]);
  Value *tail = ADD(MUL(v, SUB(MUL(NUM(0.5), v), z)), M(LOG_PHI, SUB(z, v)));
  return complement ? map2(E, IR_LOG_SUM_EXP2, M(LOG_PHI, M(NEG, z)), tail)
                    : map2(E, IR_LOG_DIFF_EXP, M(LOG_PHI, z), tail);
}
RNG(exp_mod_normal) { return a[0] + a[1] * rngs_normal(r) + rngs_exponential(r) / a[2]; }

/* log(2 tau (1 - tau) / sigma) - 2 |z| times (1 - tau) below mu, tau above */
LPDF(skew_double_exponential) {
  Value *z = dist_standardise(E, a), *rest = SUB(NUM(1), a[3]);
  Value *slope = CHOOSE(LESS(z, NUM(0)), rest, a[3]);
  Value *k = SUB(ADD(M(LOG, a[3]), ADD(M(LOG, rest), NUM(log(2)))), M(LOG, a[2]));
  return SUB(k, MUL(NUM(2), MUL(slope, M(ABS, z))));
}
/* tau e^(-2 (1 - tau) |z|) below 0, 1 - (1 - tau) e^(-2 tau z) above */
CDF(skew_double_exponential) {
  Value *z = COMPLEMENT(dist_standardise(E, a)), *tau = complement ? SUB(NUM(1), a[3]) : a[3],
        *size = M(ABS, z);
  Value *below = SUB(M(LOG, tau), MUL(NUM(2), MUL(SUB(NUM(1), tau), size)));
  Value *above = SUB(M(LOG1M, tau), MUL(NUM(2), MUL(tau, size)));
  return CHOOSE(LESS(z, NUM(0)), below, M(LOG1M_EXP, above));
}
/* The quantile at a uniform number: F solved for z. */
RNG(skew_double_exponential) {
  double u = rngs_uniform(r), tau = a[2];
  double z = u < tau ? log(u / tau) / (2 * (1 - tau)) : -log((1 - u) / (1 - tau)) / (2 * tau);
  return a[0] + a[1] * z;
}

/* kappa cos(y - mu) - log(2 pi) - log I_0(kappa) */
LPDF(von_mises) {
  return SUB(MUL(a[2], M(COS, SUB(a[0], a[1]))), ADD(NUM(LOG_2PI), M(LOG_BESSEL_I0, a[2])));
}
RNG(von_mises) { return rngs_von_mises(r, a[0], a[1]); }
