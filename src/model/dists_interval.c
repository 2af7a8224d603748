/* dists_interval.c: continuous distributions on an interval; dist.h tells how to read them. */
#include "model/dist.h"

#include <math.h>

/* (alpha - 1) log y + (beta - 1) log(1 - y) - lbeta(alpha, beta) */
LPDF(beta) {
  Value *lbeta = SUB(ADD(M(LGAMMA, a[1]), M(LGAMMA, a[2])), M(LGAMMA, ADD(a[1], a[2])));
  Value *v = ADD(MUL(SUB(a[1], NUM(1)), M(LOG, a[0])), MUL(SUB(a[2], NUM(1)), M(LOG1M, a[0])));
  return SUB(v, lbeta);
}
CDF(beta) { return dist_inc_beta(E, a[1], a[2], a[0], complement); }
RNG(beta) { return rngs_beta(r, a[0], a[1]); }
OUTCOME(beta) { return AS(beta, a[1], a[2]); }

/* beta(mu kappa, (1 - mu) kappa) */
LPDF(beta_proportion) {
  return lpdf_beta(E, (Value *[]){a[0], MUL(a[1], a[2]), MUL(SUB(NUM(1), a[1]), a[2])}, 3);
}
CDF(beta_proportion) {
  return dist_inc_beta(E, MUL(a[1], a[2]), MUL(SUB(NUM(1), a[1]), a[2]), a[0], complement);
}
RNG(beta_proportion) { return rngs_beta(r, a[0] * a[1], (1 - a[0]) * a[1]); }

/* -log(b - a) inside, -inf outside */
LPDF(uniform) {
  Value *outside = map2(E, IR_FMAX, LESS(a[0], a[1]), LESS(a[2], a[0]));
  return CHOOSE(outside, NUM(-INFINITY), M(NEG, M(LOG, SUB(a[2], a[1]))));
}
/* (y - a) / (b - a), kept in [0, 1] */
CDF(uniform) {
  Value *z = DIV(SUB(a[0], a[1]), SUB(a[2], a[1]));
  z = map2(E, IR_FMIN, map2(E, IR_FMAX, z, NUM(0)), NUM(1));
  return M(LOG, complement ? SUB(NUM(1), z) : z);
}
RNG(uniform) { return a[0] + (a[1] - a[0]) * rngs_uniform(r); }
SIMULATE(uniform) { return ADD(a[0], MUL(SUB(a[1], a[0]), UNIFORM_NOISE)); }
