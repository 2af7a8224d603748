/* dists_glm.c: generalised linear models in one function, y | x, alpha, beta; dist.h tells how to
 * read them. Each is another distribution at the linear predictor alpha + x beta. */
#include "model/dist.h"
#include "num/special.h"

/* x beta + alpha */
static Value *linear_predictor(Eval *E, Value *x, Value *alpha, Value *beta) {
  return ADD(eval_binary(E, OP_MUL, x, beta, E->density), alpha);
}

/* The one of the arguments x = a[k], alpha = a[k + 1], beta = a[k + 2]. */
#define PREDICTOR(k) linear_predictor(E, a[k], a[(k) + 1], a[(k) + 2])

LPDF(normal_id_glm) { return lpdf_normal(E, (Value *[]){a[0], PREDICTOR(1), a[4]}, 3); }
OUTCOME(normal_id_glm) { return AS(normal, PREDICTOR(1), a[4]); }

LPDF(bernoulli_logit_glm) { return lpdf_bernoulli_logit(E, (Value *[]){a[0], PREDICTOR(1)}, 2); }
RNG_JOINT(bernoulli_logit_glm) {
  Value *eta = PREDICTOR(0), *y = value_known(E, value_shape(E, TY_INT, 1, 1, &eta->n), NULL);
  for (int32_t k = 0; k < y->n; k++)
    y->v[k] = (double)rngs_bernoulli(E->rng, num_inv_logit(eta->v[k]));
  return y;
}
OUTCOME(bernoulli_logit_glm) { return AS(bernoulli, M(INV_LOGIT, PREDICTOR(1))); }

LPDF(binomial_logit_glm) {
  return lpdf_binomial_logit(E, (Value *[]){a[0], a[1], PREDICTOR(2)}, 3);
}
OUTCOME(binomial_logit_glm) {
  return outcome_of_trials(a[1], AS(binomial, M(INV_LOGIT, PREDICTOR(2))));
}

LPDF(poisson_log_glm) { return lpdf_poisson_log(E, (Value *[]){a[0], PREDICTOR(1)}, 2); }
OUTCOME(poisson_log_glm) { return AS(poisson, M(EXP, PREDICTOR(1))); }

LPDF(neg_binomial_2_log_glm) {
  return lpdf_neg_binomial_2_log(E, (Value *[]){a[0], PREDICTOR(1), a[4]}, 3);
}
OUTCOME(neg_binomial_2_log_glm) { return AS(neg_binomial_2, M(EXP, PREDICTOR(1)), a[4]); }

/* ---- categories ------------------------------------------------------------------------------ */

/* Column by column, so that a predictor of data and parameters is a product per observation:
 * element (n, k) of the result is x_n beta_k + alpha_k. */
static Value *logits_of(Eval *E, Value *x, Value *alpha, Value *beta) {
  int32_t K = beta->dims[1], N = x->kind == TY_MATRIX ? x->dims[0] : 1,
          *index = NEW_ARRAY(E->arena, int32_t, N * K);
  Value **columns = NEW_ARRAY(E->arena, Value *, K), *by_column = value_transpose(E, beta);
  for (int32_t k = 0; k < K; k++)
    columns[k] = linear_predictor(E, x, value_element(E, alpha, k),
                                  value_slice(E, by_column, k * beta->dims[0], beta->dims[0]));
  for (int32_t e = 0; e < N * K; e++) index[e] = e % K * N + e / K;
  const Value *shape = value_shape(E, TY_MATRIX, 0, 2, (int32_t[]){N, K});
  return value_take(E, value_join(E, columns, K, shape), shape, NULL, index);
}

/* logit_y - log sum exp of the row */
LPDF(categorical_logit_glm) {
  Value *logits = logits_of(E, a[1], a[2], a[3]), *y = value_on_axis(E, a[0], E->axis);
  int32_t N = logits->dims[0], K = logits->dims[1], rows = y->axis ? y->axis->rows : 1;
  if (!y->known)
    ctx_fail(E->ctx, PVI_PROGRAM, E->density,
             "the outcome of a categorical distribution must be data");
  Value *shape = y->n > N ? value_like(E, y)
                          : value_shape(E, TY_REAL, y->ndims || N > 1, y->ndims || N > 1, &N);
  shape->kind = TY_REAL;
  if (!N || !y->n) return value_vector(E, 0);
  int32_t *index = NEW_ARRAY(E->arena, int32_t, rows * shape->n);
  for (int32_t e = 0; e < rows * shape->n; e++) {
    int32_t n_ = e % shape->n;
    double at = y->v[e / shape->n * y->n + (y->n == 1 ? 0 : n_)];
    if (!(at >= 1 && at <= K))
      ctx_fail(E->ctx, PVI_DATA, E->density, "category %g is out of range", at);
    index[e] = (N == 1 ? 0 : n_ * K) + (int32_t)at - 1;
  }
  Value *total = value_reduce_rows(E, IR_LSE, logits, K, value_shape(E, TY_REAL, N > 1, N > 1, &N));
  return SUB(value_take(E, value_on_axis(E, logits, E->axis), shape, y->axis, index), total);
}

LPDF(ordered_logistic_glm) {
  return lpdf_ordered_logistic(
      E, (Value *[]){a[0], eval_binary(E, OP_MUL, a[1], a[2], E->density), a[3]}, 3);
}
