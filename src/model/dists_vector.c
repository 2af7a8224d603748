/* dists_vector.c: distributions of vectors; dist.h tells how to read them. An array of vectors is
 * one observation per vector; whatever does not depend on the vector (the factor of a covariance,
 * its determinant) is shared by all of them. */
#include "model/dist.h"
#include "model/linear.h"
#include "num/linalg.h"

#include <math.h>

/* ---- items ----------------------------------------------------------------------------------- */

static int32_t size_of(const Value *v) { return v->ndims ? v->dims[v->ndims - 1] : v->n; }

/* The arguments that are vectors, or arrays of them: how many observations, of which size. */
typedef struct {
  int32_t count, size;
  Value *shape; /* of one number per observation */
} Family;

static Family family(Eval *E, Value **vectors, int n) {
  Family f = {.count = 1, .size = size_of(vectors[0])};
  bool array = false;
  for (int k = 0; k < n; k++)
    if (vectors[k]->array_dims) {
      array = true;
      f.count = vectors[k]->dims[0];
    }
  f.shape = value_shape(E, TY_REAL, array, array, &f.count);
  return f;
}

/* v for every observation: count x size elements. */
static Value *for_each(Eval *E, const Family *f, Value *v) {
  int32_t n = f->count * f->size, *index = NEW_ARRAY(E->arena, int32_t, n);
  for (int32_t e = 0; e < n; e++) index[e] = v->n == n ? e : e % f->size;
  return value_take(E, v, value_shape(E, TY_VECTOR, 0, 1, &n), NULL, index);
}

static Value *sum_each(Eval *E, const Family *f, Value *v) {
  return value_reduce_rows(E, IR_SUM, v, f->size, f->shape);
}

Value *dist_factor(Eval *E, Value *S, const char *who) {
  return linear_cholesky(E, S, who, E->density);
}

/* ---- counts and proportions ------------------------------------------------------------------ */

/* lgamma(N + 1) - sum lgamma(y + 1), N = sum y: one observation */
static Value *log_multinomial(Eval *E, Value *y) {
  return SUB(dist_log_factorial(E, value_sum(E, y)), value_sum(E, dist_log_factorial(E, y)));
}

/* `total` draws from categories with the probabilities p. */
static Value *draw_from(Eval *E, const Value *p, const Value *total, Loc loc) {
  int32_t n = p->n;
  if (!(total->v[0] >= 0))
    ctx_fail(E->ctx, PVI_DATA, loc, "the number of draws is negative: %g", total->v[0]);
  int64_t *drawn = NEW_ARRAY(E->arena, int64_t, n);
  rngs_multinomial(E->rng, (int64_t)total->v[0], p->v, (size_t)n, drawn);
  Value *y = value_known(E, value_shape(E, TY_INT, 1, 1, &n), NULL);
  for (int32_t k = 0; k < n; k++) y->v[k] = (double)drawn[k];
  return y;
}

/* ... + sum y log theta */
LPDF(multinomial) {
  return ADD(log_multinomial(E, a[0]), value_sum(E, map2(E, IR_LMULTIPLY, a[0], a[1])));
}
RNG_JOINT(multinomial) { return draw_from(E, a[0], a[1], loc); }

/* ... + sum y (gamma - log sum exp gamma) */
LPDF(multinomial_logit) {
  return ADD(log_multinomial(E, a[0]),
             value_sum(E, MUL(a[0], SUB(a[1], value_reduce(E, IR_LSE, a[1])))));
}
RNG_JOINT(multinomial_logit) {
  return draw_from(E, eval_function(E, FUN_softmax, a, 1, NULL), a[1], loc);
}

/* ... + lgamma(A) - lgamma(N + A) + sum (lgamma(y + alpha) - lgamma(alpha)), A = sum alpha */
LPDF(dirichlet_multinomial) {
  Value *k = dist_log_rising(E, value_sum(E, a[1]), value_sum(E, a[0]));
  Value *t = dist_log_rising(E, a[1], a[0]);
  return ADD(log_multinomial(E, a[0]), SUB(value_sum(E, t), k));
}
RNG_JOINT(dirichlet_multinomial) { return draw_from(E, draw_dirichlet(E, a, loc), a[1], loc); }

/* lgamma(sum alpha) - sum lgamma(alpha) + sum (alpha - 1) log theta */
LPDF(dirichlet) {
  Family f = family(E, a, 2), shared = family(E, a + 1, 1);
  if (!f.size) return value_vector(E, 0);
  Value *k = SUB(M(LGAMMA, sum_each(E, &shared, a[1])), sum_each(E, &shared, M(LGAMMA, a[1])));
  return ADD(
      k, sum_each(E, &f, MUL(SUB(for_each(E, &f, a[1]), NUM(1)), M(LOG, for_each(E, &f, a[0])))));
}
RNG_JOINT(dirichlet) {
  Value *theta = value_known(E, a[0], NULL);
  rngs_dirichlet(E->rng, a[0]->v, (size_t)a[0]->n, theta->v);
  return theta;
}

/* ---- normal vectors -------------------------------------------------------------------------- */

/* |L^-1 (y - mu)|^2 of every observation */
static Value *squared_norms(Eval *E, const Family *f, Value *y, Value *mu, Value *L) {
  Items d = {SUB(for_each(E, f, y), for_each(E, f, mu)), f->count, f->size};
  return sum_each(E, f, M(SQUARE, linear_solve(E, LOWER, L, d).v));
}

/* mu + s L z, for every vector of an array; s = sqrt(nu / chi_square(nu)), or 1 when nu is 0 */
static Value *normal_vectors(Eval *E, Value *mu, Value *L, double nu) {
  int32_t K = L->dims[0];
  Value *r = value_known(E, mu, NULL);
  r->kind = TY_VECTOR;
  double *z = NEW_ARRAY(E->arena, double, K);
  for (int32_t at = 0; at < r->n; at += K) {
    double s = nu > 0 ? sqrt(nu / rngs_chi_square(E->rng, nu)) : 1;
    for (int32_t k = 0; k < K; k++) z[k] = s * rngs_normal(E->rng);
    la_matvec(L->v, z, r->v + at, (size_t)K, (size_t)K);
    la_axpy(1, mu->v + at, r->v + at, (size_t)K);
  }
  return r;
}

/* -K/2 log(2 pi) - sum log L_kk - q/2 */
LPDF(multi_normal_cholesky) {
  Family f = family(E, a, 2);
  if (!f.size) return value_vector(E, 0);
  Value *k = ADD(NUM(0.5 * LOG_2PI * f.size), linear_log_diagonal(E, a[2]));
  return SUB(MUL(NUM(-0.5), squared_norms(E, &f, a[0], a[1], a[2])), k);
}
RNG_JOINT(multi_normal_cholesky) { return normal_vectors(E, a[0], a[1], 0); }

LPDF(multi_normal) {
  Value *L = dist_factor(E, a[2], "multi_normal");
  return lpdf_multi_normal_cholesky(E, (Value *[]){a[0], a[1], L}, 3);
}
RNG_JOINT(multi_normal) {
  return normal_vectors(E, a[0], linear_cholesky(E, a[1], "multi_normal", loc), 0);
}

/* q = |C' d|^2 with C C' = Omega, and log det Omega = 2 sum log C_kk */
LPDF(multi_normal_prec) {
  Family f = family(E, a, 2);
  if (!f.size) return value_vector(E, 0);
  Value *C = dist_factor(E, a[2], "multi_normal_prec"),
        *d = SUB(for_each(E, &f, a[0]), for_each(E, &f, a[1]));
  int32_t K = f.size, all = f.count * K * K;
  int32_t *left = NEW_ARRAY(E->arena, int32_t, all), *right = NEW_ARRAY(E->arena, int32_t, all);
  for (int32_t e = 0; e < all; e++) { /* observation, row of C', column */
    left[e] = e % K * K + e / K % K;
    right[e] = e / (K * K) * K + e % K;
  }
  const Value *flat = value_shape(E, TY_VECTOR, 0, 1, &all);
  Value *p = MUL(value_take(E, C, flat, NULL, left), value_take(E, d, flat, NULL, right));
  Value *z = value_reduce_rows(E, IR_SUM, p, K, d);
  return ADD(SUB(linear_log_diagonal(E, C), NUM(0.5 * LOG_2PI * K)),
             MUL(NUM(-0.5), sum_each(E, &f, M(SQUARE, z))));
}

/* lgamma((nu + K)/2) - lgamma(nu/2) - K/2 log(nu pi) - sum log L_kk - (nu + K)/2 log(1 + q/nu) */
LPDF(multi_student_t_cholesky) {
  Family f = family(E, (Value *[]){a[0], a[2]}, 2);
  if (!f.size) return value_vector(E, 0);
  Value *half = MUL(NUM(0.5), a[1]), *more = ADD(half, NUM(0.5 * f.size));
  Value *k = SUB(dist_log_rising(E, half, NUM(0.5 * f.size)),
                 MUL(NUM(0.5 * f.size), ADD(M(LOG, a[1]), NUM(LOG_PI))));
  Value *q = squared_norms(E, &f, a[0], a[2], a[3]);
  return SUB(SUB(k, linear_log_diagonal(E, a[3])), MUL(more, M(LOG1P, DIV(q, a[1]))));
}
RNG_JOINT(multi_student_t_cholesky) { return normal_vectors(E, a[1], a[2], a[0]->v[0]); }

LPDF(multi_student_t) {
  Value *L = dist_factor(E, a[3], "multi_student_t");
  return lpdf_multi_student_t_cholesky(E, (Value *[]){a[0], a[1], a[2], L}, 4);
}
RNG_JOINT(multi_student_t) {
  Value *L = linear_cholesky(E, a[2], "multi_student_t", loc);
  return normal_vectors(E, a[1], L, a[0]->v[0]);
}

/* Row i of y is normal with mean 0 and covariance L L' / w_i: one observation a row. */
LPDF(multi_gp_cholesky) {
  int32_t K = a[0]->dims[0], N = a[0]->dims[1];
  if (!a[0]->n) return value_vector(E, 0);
  Value *z = linear_solve(E, LOWER, a[1], (Items){a[0], K, N}).v;
  Value *q = value_reduce_rows(E, IR_SUM, M(SQUARE, z), N, value_shape(E, TY_VECTOR, 0, 1, &K));
  Value *k = ADD(NUM(0.5 * LOG_2PI * N), linear_log_diagonal(E, a[1]));
  return SUB(MUL(NUM(0.5), SUB(MUL(NUM(N), M(LOG, a[2])), MUL(a[2], q))), k);
}
LPDF(multi_gp) {
  return lpdf_multi_gp_cholesky(E, (Value *[]){a[0], dist_factor(E, a[1], "multi_gp"), a[2]}, 3);
}

/* ---- dynamic linear models ------------------------------------------------------------------- */

static Value *times(Eval *E, Value *A, Value *B) {
  return eval_binary(E, OP_MUL, A, B, E->density);
}

/* A variance given as a vector is that of independent errors. */
static Value *as_variance(Eval *E, Value *v) {
  return v->kind == TY_MATRIX ? v : eval_function(E, FUN_diag_matrix, (Value *[]){v}, 1, NULL);
}

/* Columns of y are F' theta_t + N(0, V), theta_t is G theta_(t-1) + N(0, W), theta_0 is N(m, C):
 * Kalman's filter, with R = G C G' + W and Q = F' R F + V = L L'; one observation */
LPDF(gaussian_dlm_obs) {
  Value *F = a[1], *G = a[2], *V = as_variance(E, a[3]), *m = a[5], *C = a[6], *lp = NUM(0);
  int32_t rows = a[0]->dims[0], states = G->dims[0];
  Value *Y = value_transpose(E, a[0]), *Ft = value_transpose(E, F), *Gt = value_transpose(E, G);
  for (int32_t t = 0; t < a[0]->dims[1]; t++) {
    Value *mean = times(E, G, m), *R = ADD(times(E, times(E, G, C), Gt), a[4]),
          *RF = times(E, R, F);
    Value *L = dist_factor(E, ADD(times(E, Ft, RF), V), "gaussian_dlm_obs");
    Value *e = SUB(value_slice(E, Y, t * rows, rows), times(E, Ft, mean));
    Value *z = linear_solve(E, LOWER, L, (Items){e, 1, rows}).v;
    Items gain = linear_solve(E, LOWER, L, (Items){RF, states, rows}); /* rows of R F L^-T */
    Value *K = value_reshape(E, gain.v, TY_MATRIX, 0, 2, (int32_t[]){states, rows});
    lp = SUB(lp, ADD(linear_log_diagonal(E, L), MUL(NUM(0.5), value_sum(E, M(SQUARE, z)))));
    m = ADD(mean, times(E, K, z));
    C = SUB(R, times(E, K, value_transpose(E, K)));
  }
  return SUB(lp, NUM(0.5 * LOG_2PI * a[0]->n));
}
