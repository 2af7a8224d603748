/* fun_gp.c: covariances of Gaussian processes: K_ij = k(|x_i - x_j|), of one set of points or
 * between two.
 *
 * Only pairs that differ are computed, of one set each once; the points themselves mostly are data,
 * and then so are the distances. Where a distance is the square root of zero, which has no
 * derivative, the covariance is that of a point with itself. */
#include "model/fun.h"
#include "model/linear.h"

#include <math.h>

/* Arguments of all kernels: x [, x2], then sigma, then the rest. */
typedef struct {
  Value *x, *y;          /* the same for one set */
  int32_t rows, cols;    /* of the result */
  int32_t dim;           /* numbers of a point */
  Value **rest;          /* sigma, ... */
  int32_t pairs;         /* that are computed */
  int32_t *left, *right; /* their points */
  int32_t *at; /* of every element of the result: 1 + its pair, or 0: a point with itself */
} Points;

static bool is_points(const Value *v) { return v->array_dims == 1; }

/* x given with a scale per coordinate: the scale is an array, too. */
static bool two_sets(Value **a, int n, int rest) { return n > 1 + rest && is_points(a[1]); }

static bool same_point(const Points *p, int32_t i, int32_t j) {
  if (!p->x->known || !p->y->known || p->x->axis || p->y->axis) return false;
  for (int32_t d = 0; d < p->dim; d++)
    if (p->x->v[i * p->dim + d] != p->y->v[j * p->dim + d]) return false;
  return true;
}

static Points points(Eval *E, Value **a, int n, int rest) {
  bool two = two_sets(a, n, rest);
  Points p = {.x = a[0], .y = two ? a[1] : a[0], .rest = a + (two ? 2 : 1), .rows = a[0]->dims[0]};
  p.cols = p.y->dims[0];
  p.dim = p.x->ndims > 1 ? p.x->dims[1] : 1;
  int32_t all = p.rows * p.cols;
  p.left = NEW_ARRAY(E->arena, int32_t, all), p.right = NEW_ARRAY(E->arena, int32_t, all),
  p.at = NEW_ARRAY(E->arena, int32_t, all);
  for (int32_t i = 0; i < p.rows; i++)
    for (int32_t j = 0; j < p.cols; j++) {
      int32_t e = i * p.cols + j;
      if (!two && j > i) continue;
      if ((!two && i == j) || same_point(&p, i, j)) continue;
      p.left[p.pairs] = i, p.right[p.pairs] = j;
      p.at[e] = ++p.pairs;
    }
  for (int32_t i = 0; !two && i < p.rows; i++)
    for (int32_t j = i + 1; j < p.cols; j++) p.at[i * p.cols + j] = p.at[j * p.cols + i];
  return p;
}

/* x_i - x_j of every pair: pairs x dim. */
static Value *differences(Eval *E, const Points *p) {
  int32_t n = p->pairs * p->dim, *l = NEW_ARRAY(E->arena, int32_t, n),
          *r = NEW_ARRAY(E->arena, int32_t, n);
  for (int32_t e = 0; e < n; e++) {
    l[e] = p->left[e / p->dim] * p->dim + e % p->dim;
    r[e] = p->right[e / p->dim] * p->dim + e % p->dim;
  }
  const Value *shape = value_shape(E, TY_VECTOR, 0, 1, &n);
  return SUB(value_take(E, p->x, shape, NULL, l), value_take(E, p->y, shape, NULL, r));
}

static Value *pair_shape(Eval *E, const Points *p) {
  return value_shape(E, TY_VECTOR, 0, 1, &p->pairs);
}

static Value *squared_distances(Eval *E, const Points *p) {
  return value_reduce_rows(E, IR_SUM, M(SQUARE, differences(E, p)), p->dim, pair_shape(E, p));
}

/* sum_d ((x_id - x_jd) / length_d)^2; one length is for all coordinates */
static Value *scaled_squares(Eval *E, const Points *p, Value *length) {
  Value *weight = M(INV_SQUARE, length);
  if (!length->ndims) return MUL(squared_distances(E, p), weight);
  return value_matmul(E, M(SQUARE, differences(E, p)), weight, (MatrixProduct){p->pairs, p->dim, 1},
                      pair_shape(E, p));
}

/* sigma^2 where points meet, sigma^2 k elsewhere. */
static Value *covariance(Eval *E, const Points *p, Value *k) {
  Value *s2 = M(SQUARE, p->rest[0]), *parts[2] = {s2, k ? MUL(s2, k) : NULL};
  int32_t n = p->pairs + 1;
  Value *all = value_join(E, parts, k ? 2 : 1, value_shape(E, TY_VECTOR, 0, 1, &n));
  return value_take(E, all, value_shape(E, TY_MATRIX, 0, 2, (int32_t[]){p->rows, p->cols}), NULL,
                    p->at);
}

/* exp(-r^2 / 2) */
static Value *exp_quad(Eval *E, Value *r2) { return M(EXP, MUL(NUM(-0.5), r2)); }
/* sqrt(r2), whose derivative at 0, where points that are not known meet, counts as 0 */
static Value *root(Eval *E, Value *r2) {
  if (r2->known) return M(SQRT, r2);
  Value *none = map2(E, IR_EQ, r2, NUM(0));
  return map3(E, IR_SELECT, none, NUM(0), M(SQRT, map3(E, IR_SELECT, none, NUM(1), r2)));
}

/* exp(-r) */
static Value *exponential(Eval *E, Value *r2) { return M(EXP, M(NEG, root(E, r2))); }
/* (1 + s) e^-s, s = sqrt(3) r */
static Value *matern32(Eval *E, Value *r2) {
  Value *s = root(E, MUL(NUM(3), r2));
  return MUL(ADD(NUM(1), s), M(EXP, M(NEG, s)));
}
/* (1 + s + s^2 / 3) e^-s, s = sqrt(5) r */
static Value *matern52(Eval *E, Value *r2) {
  Value *s2 = MUL(NUM(5), r2), *s = root(E, s2);
  return MUL(ADD(NUM(1), ADD(s, DIV(s2, NUM(3)))), M(EXP, M(NEG, s)));
}

static Value *stationary(Eval *E, Value **a, int n, Value *(*kernel)(Eval *, Value *)) {
  Points p = points(E, a, n, 2);
  return covariance(E, &p, p.pairs ? kernel(E, scaled_squares(E, &p, p.rest[1])) : NULL);
}
FN(gp_exp_quad_cov) { return stationary(E, a, n, exp_quad); }
FN(gp_exponential_cov) { return stationary(E, a, n, exponential); }
FN(gp_matern32_cov) { return stationary(E, a, n, matern32); }
FN(gp_matern52_cov) { return stationary(E, a, n, matern52); }

/* exp(-2 (sin(pi |x - y| / period) / length)^2) */
FN(gp_periodic_cov) {
  Points p = points(E, a, n, 3);
  if (!p.pairs) return covariance(E, &p, NULL);
  Value *angle = DIV(MUL(NUM(M_PI), root(E, squared_distances(E, &p))), p.rest[2]);
  return covariance(E, &p, M(EXP, MUL(NUM(-2), M(SQUARE, DIV(M(SIN, angle), p.rest[1])))));
}

/* sigma^2 + x_i' x_j */
FN(gp_dot_prod_cov) {
  bool two = two_sets(a, n, 1);
  Value *x = a[0], *y = two ? a[1] : a[0];
  int32_t dim = x->ndims > 1 ? x->dims[1] : 1, rows = x->dims[0], cols = y->dims[0];
  Value *t = value_transpose(E, value_reshape(E, y, TY_MATRIX, 0, 2, (int32_t[]){cols, dim}));
  const Value *shape = value_shape(E, TY_MATRIX, 0, 2, (int32_t[]){rows, cols});
  return ADD(value_matmul(E, x, t, (MatrixProduct){rows, dim, cols}, shape),
             M(SQUARE, a[two ? 2 : 1]));
}
