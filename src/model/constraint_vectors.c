/* constraint_vectors.c: vectors from unconstrained numbers, and back; constraint.h tells how to
 * read them. */
#include "model/constraint.h"

#include <math.h>

/* ---- ordered --------------------------------------------------------------------------------- */

static Value *cumulative(Eval *E, Value *v) {
  return eval_function(E, FUN_cumulative_sum, &v, 1, NULL);
}

/* x[k] - x[k-1] for k > 1 */
static Value *steps(Eval *E, Value *x) {
  return SUB(value_slice(E, x, 1, x->n - 1), value_slice(E, x, 0, x->n - 1));
}

/* x[1] = u[1], x[k] = x[k-1] + exp(u[k]) */
TRANSFORM(ordered) {
  if (u->n < 2) return u;
  Value *rest = value_slice(E, u, 1, u->n - 1);
  constrain_jacobian(E, rest);
  return cumulative(E, value_join(E, (Value *[]){value_slice(E, u, 0, 1), M(EXP, rest)}, 2, u));
}
INVERSE(ordered) {
  if (x->n < 2) return x;
  return value_join(E, (Value *[]){value_slice(E, x, 0, 1), M(LOG, steps(E, x))}, 2, free);
}

/* The same, and x[1] = exp(u[1]). */
TRANSFORM(positive_ordered) {
  constrain_jacobian(E, u);
  return cumulative(E, M(EXP, u));
}
INVERSE(positive_ordered) {
  if (!x->n) return x;
  return M(LOG, value_join(E, (Value *[]){value_slice(E, x, 0, 1), steps(E, x)}, 2, free));
}

/* ---- simplex --------------------------------------------------------------------------------- */

/* Stick breaking, centred: z[k] = inv_logit(u[k] - log(K - k)),
 * x[k] = z[k] (1 - x[1] - ... - x[k-1]). Elements of a short one are values of their own, which
 * exact integration can tell apart. */
static Value *short_simplex(Eval *E, Value *u, const Value *item) {
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

TRANSFORM(simplex) {
  enum { SHORT = 8 };
  int32_t n = u->n, K = n + 1;
  if (n <= SHORT) return short_simplex(E, u, item);
  const Value *shape = value_shape(E, TY_VECTOR, 0, 1, &K);
  Value *centre = value_vector(E, n), *zero = NUM(0);
  for (int32_t k = 0; k < n; k++) centre->v[k] = log(n - k);
  Value *a = SUB(u, centre), *log_z = M(LOG_INV_LOGIT, a), *log_1mz = M(LOG_INV_LOGIT, M(NEG, a));
  Value *log_sticks = value_join(E, (Value *[]){zero, cumulative(E, log_1mz)}, 2, shape);
  Value *log_x = ADD(log_sticks, value_join(E, (Value *[]){log_z, zero}, 2, shape));
  constrain_jacobian(E, ADD(value_slice(E, log_x, 0, n), log_1mz));
  return value_reshape(E, M(EXP, log_x), item->kind, 0, 1, &K);
}
/* logit z[k] = log x[k] - log(x[k+1] + ... + x[K]): no digits are lost where x[k] is nearly all */
INVERSE(simplex) {
  int32_t K = x->n;
  Value **u = NEW_ARRAY(E->arena, Value *, K), *rest = K ? value_element(E, x, K - 1) : NULL;
  for (int32_t k = K - 2; k >= 0; k--) {
    Value *at = value_element(E, x, k);
    u[k] = ADD(M(LOG, DIV(at, rest)), NUM(log(K - k - 1)));
    rest = ADD(rest, at);
  }
  return value_join(E, u, free->n, free);
}

/* ---- length one, sum zero -------------------------------------------------------------------- */

/* x = u / |u|, Jacobian -|u|^2 / 2: a normal distribution takes care of the length */
TRANSFORM(unit_vector) {
  Value *ss = value_sum(E, M(SQUARE, u));
  constrain_jacobian(E, MUL(ss, NUM(-0.5)));
  return DIV(u, M(SQRT, ss));
}
/* Of all u that lead to x, the one of length one. */
INVERSE(unit_vector) { return x; }

/* x = B u with orthonormal columns that sum to zero, so there is no Jacobian and u = B' x. Column i
 * (from 1) of B is w in the rows before i and -i w in row i, w = 1 / sqrt(i (i + 1)). */
static Value *zero_sum_basis(Eval *E, int32_t N) {
  Value *B = value_known(E, value_shape(E, TY_MATRIX, 0, 2, (int32_t[]){N + 1, N}), NULL);
  for (int32_t i = N; i > 0; i--) {
    double w = 1 / sqrt((double)i * (i + 1));
    for (int32_t k = 0; k < i; k++) B->v[k * N + i - 1] += w;
    B->v[i * N + i - 1] -= w * i;
  }
  return B;
}
TRANSFORM(sum_to_zero_vector) {
  int32_t N = u->n;
  return value_matmul(E, zero_sum_basis(E, N), u, (MatrixProduct){N + 1, N, 1}, item);
}
INVERSE(sum_to_zero_vector) {
  int32_t N = free->n;
  if (!N) return value_known(E, free, NULL);
  Value *B = value_transpose(E, zero_sum_basis(E, N));
  return value_matmul(E, B, x, (MatrixProduct){N, N + 1, 1}, free);
}
