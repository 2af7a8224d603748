/* constraint_vectors.c: vectors from unconstrained numbers, and back; constraint.h tells how to
 * read them. */
#include "model/constraint.h"

#include <math.h>
#include <string.h>

/* ---- ordered --------------------------------------------------------------------------------- */

static Value *cumulative(Eval *E, Value *v) {
  return v->n ? value_of_node(E, v, v->axis, ir_cumsum(E->graph, value_node(E, v), v->n)) : v;
}

/* x[1] = u[1], x[k] = x[k-1] + exp(u[k]) */
TRANSFORM(ordered) {
  if (u->n < 2) return u;
  Value *rest = value_slice(E, u, 1, u->n - 1);
  constrain_jacobian(E, rest);
  return cumulative(E, value_join(E, (Value *[]){value_slice(E, u, 0, 1), M(EXP, rest)}, 2, u));
}
INVERSE(ordered) {
  for (int32_t k = 0; k < n; k++) u[k] = k ? log(x[k] - x[k - 1]) : x[0];
}

/* The same, and x[1] = exp(u[1]). */
TRANSFORM(positive_ordered) {
  constrain_jacobian(E, u);
  return cumulative(E, M(EXP, u));
}
INVERSE(positive_ordered) {
  for (int32_t k = 0; k < n; k++) u[k] = log(k ? x[k] - x[k - 1] : x[0]);
}

/* ---- simplex --------------------------------------------------------------------------------- */

/* Stick breaking, centred: z[k] = inv_logit(u[k] - log(K - k)),
 * x[k] = z[k] (1 - x[1] - ... - x[k-1]) */
TRANSFORM(simplex) {
  int32_t K = u->n + 1;
  Value **x = NEW_ARRAY(E->arena, Value *, K), *log_stick = NUM(0);
  for (int32_t k = 0; k < K - 1; k++) {
    Value *a = SUB(value_element(E, u, k), NUM(log(K - k - 1)));
    Value *log_z = M(LOG_INV_LOGIT, a), *log_1mz = M(LOG_INV_LOGIT, M(NEG, a));
    Value *log_x = ADD(log_stick, log_z);
    constrain_jacobian(E, ADD(log_x, log_1mz));
    x[k] = M(EXP, log_x);
    log_stick = ADD(log_stick, log_1mz);
  }
  x[K - 1] = M(EXP, log_stick);
  return value_join(E, x, K, item);
}
/* logit z[k] = log x[k] - log(x[k+1] + ... + x[K]): no digits are lost where x[k] is nearly all */
INVERSE(simplex) {
  double rest = n ? x[n - 1] : 0;
  for (int32_t k = n - 2; k >= 0; rest += x[k--]) u[k] = log(x[k] / rest) + log(n - k - 1);
}

/* ---- length one, sum zero -------------------------------------------------------------------- */

/* x = u / |u|, Jacobian -|u|^2 / 2: a normal distribution takes care of the length */
TRANSFORM(unit_vector) {
  Value *ss = value_sum(E, M(SQUARE, u));
  constrain_jacobian(E, MUL(ss, NUM(-0.5)));
  return DIV(u, M(SQRT, ss));
}
/* Of all u that lead to x, the one of length one. */
INVERSE(unit_vector) { memcpy(u, x, (size_t)n * sizeof *u); }

/* x = B u with orthonormal columns that sum to zero, so there is no Jacobian and u = B' x. Column i
 * (from 1) of B is w in the rows before i and -i w in row i, w = 1 / sqrt(i (i + 1)). */
TRANSFORM(sum_to_zero_vector) {
  int32_t N = u->n, dims[2] = {N + 1, N};
  Value *B = value_known(E, value_shape(E, TY_MATRIX, 0, 2, dims), NULL);
  for (int32_t i = N; i > 0; i--) {
    double w = 1 / sqrt((double)i * (i + 1));
    for (int32_t k = 0; k < i; k++) B->v[k * N + i - 1] += w;
    B->v[i * N + i - 1] -= w * i;
  }
  return value_matmul(E, B, u, (MatrixProduct){N + 1, N, 1}, item);
}
INVERSE(sum_to_zero_vector) {
  double before = n ? x[0] : 0;
  for (int32_t i = 1; i < n; before += x[i++])
    u[i - 1] = (before - i * x[i]) / sqrt((double)i * (i + 1));
}
