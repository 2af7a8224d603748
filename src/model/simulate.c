/* simulate.c: draws of a distribution as differentiable functions of its parameters and of noise:
 * location-scale and inverse-cdf forms. Simulation-based scores and likelihood-free programs are
 * made of these. */
#include "model/arith.h"

#include <math.h>

/* Noise of the shape of the largest parameter, one number per iteration in a lifted loop. */
static Value *noise(Eval *E, Value **a, int n, NoiseKind kind) {
  Value shape = {.kind = TY_REAL, .n = 1, .node = NO_NODE};
  for (int k = 0; k < n; k++)
    if (a[k]->ndims && !shape.ndims) shape = *a[k];
  if (shape.kind == TY_INT) shape.kind = TY_REAL;
  int32_t rows = E->axis ? E->axis->rows : 1;
  return value_of_node(E, &shape, E->axis, ir_noise(E->graph, kind, E->streams++, rows * shape.n));
}

#define NORMAL_NOISE noise(E, a, n, NOISE_NORMAL)
#define UNIFORM_NOISE noise(E, a, n, NOISE_UNIFORM)

/* -sign(u - 1/2) log(1 - 2 |u - 1/2|) */
static Value *laplace(Eval *E, Value *u) {
  Value *v = SUB(u, NUM(0.5));
  Value *size = M(NEG, M(LOG1M, MUL(NUM(2), M(ABS, v))));
  return map3(E, IR_SELECT, map2(E, IR_LT, v, NUM(0)), M(NEG, size), size);
}

Value *dist_simulate(Eval *E, DistId id, Value **a, int n) {
  switch (id) {
  case DIST_normal: return ADD(a[0], MUL(a[1], NORMAL_NOISE));
  case DIST_std_normal: return NORMAL_NOISE;
  case DIST_lognormal: return M(EXP, ADD(a[0], MUL(a[1], NORMAL_NOISE)));
  case DIST_cauchy:
    return ADD(a[0], MUL(a[1], M(TAN, MUL(NUM(M_PI), SUB(UNIFORM_NOISE, NUM(0.5))))));
  case DIST_logistic: return ADD(a[0], MUL(a[1], M(LOGIT, UNIFORM_NOISE)));
  case DIST_double_exponential: return ADD(a[0], MUL(a[1], laplace(E, UNIFORM_NOISE)));
  case DIST_gumbel: return SUB(a[0], MUL(a[1], M(LOG, M(NEG, M(LOG, UNIFORM_NOISE)))));
  case DIST_uniform: return ADD(a[0], MUL(SUB(a[1], a[0]), UNIFORM_NOISE));
  case DIST_exponential: return DIV(M(NEG, M(LOG, UNIFORM_NOISE)), a[0]);
  case DIST_weibull: return MUL(a[1], M(EXP, DIV(M(LOG, M(NEG, M(LOG, UNIFORM_NOISE))), a[0])));
  case DIST_rayleigh: return MUL(a[0], M(SQRT, MUL(NUM(-2), M(LOG, UNIFORM_NOISE))));
  default: return NULL;
  }
}
