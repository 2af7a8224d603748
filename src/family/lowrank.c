/* lowrank.c: theta = m + D z + B v, D = diag(s) and B of `rank` columns; phi = (m, log s, rows of
 * B), u = (z, v).
 *
 * The covariance is D^2 + B B' = D (I + W W') D with W = D^-1 B. All is done with the small matrix
 * C = I + W'W = K K':
 *   log det(I + W W') = log det C              (matrix determinant lemma)
 *   (I + W W')^-1 = I - W C^-1 W'              (Woodbury)
 */
#include "family/family_int.h"

#include "num/linalg.h"

#include <math.h>
#include <string.h>

static size_t size(const Shape *s) { return s->dim * (2 + s->rank); }
static size_t noise(const Shape *s) { return s->dim + s->rank; }
/* Where row i of B begins in phi. */
static size_t factor_at(const Shape *s, size_t i) { return 2 * s->dim + i * s->rank; }

/* W; C, K, C^-1 and room to compute it; 2 rank rows of draws */
static size_t scratch(const Shape *s, size_t ld) {
  return s->rank * (s->dim + 4 * s->rank + 2 * ld);
}

/* B's columns are cosines of different frequencies, orthogonal and of hundredths of an sd: small,
 * but no two alike. */
static void start(double *phi, const Shape *shape, const double *mean, const double *sd) {
  size_t dim = shape->dim, rank = shape->rank;
  for (size_t i = 0; i < dim; i++) {
    double *b = phi + factor_at(shape, i), share = 0; /* of the variance */
    for (size_t r = 0; r < rank; r++) {
      double w = 0.01 * cos(M_PI * ((double)i + 0.5) * (double)(r % dim) / (double)dim);
      b[r] = sd[i] * w;
      share += w * w;
    }
    phi[i] = mean[i];
    phi[dim + i] = log(sd[i]) + 0.5 * log1p(-fmin(share, 0.5));
  }
}

static void stretch(double *phi, const Shape *shape, size_t k, double factor, double move) {
  double *b = phi + factor_at(shape, k);
  phi[k] += move;
  phi[shape->dim + k] += log(factor);
  for (size_t r = 0; r < shape->rank; r++) b[r] *= factor;
}

static void moments(const double *phi, const Shape *shape, double *mean, double *sd) {
  size_t dim = shape->dim, rank = shape->rank;
  for (size_t i = 0; i < dim; i++) {
    const double *b = phi + factor_at(shape, i);
    double s = family_sd(phi[dim + i]);
    mean[i] = phi[i];
    sd[i] = sqrt(s * s + la_dot(b, b, rank));
  }
}

static void draw(const double *phi, const Noise *n, double *theta) {
  size_t dim = n->shape->dim, rank = n->shape->rank, ld = n->ld;
  for (size_t i = 0; i < dim; i++) {
    double m = phi[i], s = family_sd(phi[dim + i]);
    for (size_t j = 0; j < ld; j++) theta[i * ld + j] = m + s * n->u[i * ld + j];
  }
  n->k->gemm(&(RowProduct){.out = theta,
                           .ldo = ld,
                           .a = phi + factor_at(n->shape, 0),
                           .a_row = rank,
                           .a_column = 1,
                           .b = n->u + dim * ld,
                           .ldb = ld,
                           .rows = dim,
                           .inner = rank,
                           .n = ld,
                           .add = true});
}

/* d theta_i / d log s_i = s_i z_i, d theta_i / d B_ir = v_r */
static void adjoint(const double *phi, const Noise *n, const double *adj, const double *adj_w,
                    double *grad) {
  size_t dim = n->shape->dim, rank = n->shape->rank, ld = n->ld;
  (void)adj_w;
  for (size_t i = 0; i < dim; i++) {
    const double *a = adj + i * ld;
    grad[i] += n->k->sum(a, n->M);
    grad[dim + i] += family_sd_slope(phi[dim + i]) * n->k->dot(a, n->u + i * ld, n->M);
    for (size_t r = 0; r < rank; r++)
      grad[factor_at(n->shape, i) + r] += n->k->dot(a, n->u + (dim + r) * ld, n->M);
  }
}

/* ---- the capacitance matrix ------------------------------------------------------------------ */

typedef struct {
  double *W;       /* [dim x rank] */
  double *inverse; /* [rank x rank]: C^-1 */
  double *rows;    /* [2 rank x ld] */
  double log_det;  /* of C */
} Capacity;

/* C >= I, so its Cholesky factor exists unless B is not finite: then everything is nan, and the
 * evaluation is not used. */
static Capacity capacity(const double *phi, const Noise *n) {
  size_t dim = n->shape->dim, rank = n->shape->rank, square = rank * rank;
  double *W = n->scratch, *C = W + dim * rank, *K = C + square, *inverse = K + square,
         *work = inverse + square;
  for (size_t i = 0; i < dim; i++)
    for (size_t r = 0; r < rank; r++)
      W[i * rank + r] = phi[factor_at(n->shape, i) + r] / family_sd(phi[dim + i]);
  for (size_t p = 0; p < rank; p++)
    for (size_t q = 0; q <= p; q++) {
      double sum = p == q;
      for (size_t i = 0; i < dim; i++) sum += W[i * rank + p] * W[i * rank + q];
      C[p * rank + q] = sum;
    }
  if (!la_cholesky(C, K, rank)) {
    for (size_t p = 0; p < square; p++) inverse[p] = NAN;
    return (Capacity){W, inverse, work + square, NAN};
  }
  la_cholesky_inverse(K, inverse, work, rank);
  return (Capacity){W, inverse, work + square, la_log_det_cholesky(K, rank)};
}

/* sum log s + log det C / 2 + d (1 + log 2 pi) / 2. With G = W C^-1 its derivatives are G_i / s_i
 * in B_i and 1 - W_i . G_i in log s_i. */
static double entropy(const double *phi, const Noise *n, double weight, double *grad) {
  size_t dim = n->shape->dim, rank = n->shape->rank;
  Capacity c = capacity(phi, n);
  double h = (double)dim * (0.5 + HALF_LOG_2PI) + 0.5 * c.log_det;
  for (size_t i = 0; i < dim; i++) {
    const double *w = c.W + i * rank;
    double per_sd = weight / family_sd(phi[dim + i]), explained = 0;
    for (size_t r = 0; r < rank; r++) {
      double g = la_dot(w, c.inverse + r * rank, rank);
      grad[factor_at(n->shape, i) + r] += per_sd * g;
      explained += w[r] * g;
    }
    h += family_log_sd(phi[dim + i]);
    grad[dim + i] += weight * (1 - explained) * family_log_sd_slope(phi[dim + i]);
  }
  return h;
}

/* C^-1 (v - W'z), [rank x ld] */
static double *residual(const Capacity *c, const Noise *n, const double *v, size_t lanes) {
  size_t dim = n->shape->dim, rank = n->shape->rank, ld = n->ld;
  double *t = c->rows, *e = t + rank * ld;
  n->k->gemm(&(RowProduct){.out = t,
                           .ldo = ld,
                           .a = c->W,
                           .a_row = 1,
                           .a_column = rank,
                           .b = n->u,
                           .ldb = ld,
                           .rows = rank,
                           .inner = dim,
                           .n = lanes});
  for (size_t r = 0; r < rank; r++)
    for (size_t j = 0; j < lanes; j++) t[r * ld + j] = v[r * ld + j] - t[r * ld + j];
  n->k->gemm(&(RowProduct){.out = e,
                           .ldo = ld,
                           .a = c->inverse,
                           .a_row = rank,
                           .a_column = 1,
                           .b = t,
                           .ldb = ld,
                           .rows = rank,
                           .inner = rank,
                           .n = lanes});
  return e;
}

/* The quadratic form x' (I + W W')^-1 x at x = z + W v is min over e of |z + W e|^2 + |v - e|^2,
 * taken at e = C^-1 (v - W'z): two sums of squares, where Woodbury's difference would cancel. */
static void log_q(const double *phi, const Noise *n, double *out) {
  size_t dim = n->shape->dim, rank = n->shape->rank, ld = n->ld, lanes = family_padded(n->M);
  const double *v = n->u + dim * ld;
  Capacity c = capacity(phi, n);
  double *e = residual(&c, n, v, lanes), *row = c.rows,
         constant = -(double)dim * HALF_LOG_2PI - 0.5 * c.log_det;
  for (size_t i = 0; i < dim; i++) constant -= family_log_sd(phi[dim + i]);
  for (size_t j = 0; j < n->M; j++) out[j] = constant;
  for (size_t r = 0; r < rank; r++)
    for (size_t j = 0; j < n->M; j++)
      out[j] -= 0.5 * (v[r * ld + j] - e[r * ld + j]) * (v[r * ld + j] - e[r * ld + j]);
  for (size_t i = 0; i < dim; i++) {
    memcpy(row, n->u + i * ld, lanes * sizeof *row);
    n->k->gemm(&(RowProduct){.out = row,
                             .ldo = ld,
                             .a = c.W + i * rank,
                             .a_column = 1,
                             .b = e,
                             .ldb = ld,
                             .rows = 1,
                             .inner = rank,
                             .n = lanes,
                             .add = true});
    for (size_t j = 0; j < n->M; j++) out[j] -= 0.5 * row[j] * row[j];
  }
}

/* C = I + W'W, its lower triangle; W = D^-1 B need not be kept. */
static void capacitance(const double *phi, const Shape *shape, double *C) {
  size_t dim = shape->dim, rank = shape->rank;
  for (size_t p = 0; p < rank; p++)
    for (size_t q = 0; q <= p; q++) {
      double sum = p == q;
      for (size_t i = 0; i < dim; i++) {
        const double *b = phi + factor_at(shape, i);
        double s = family_sd(phi[dim + i]);
        sum += b[p] / s * (b[q] / s);
      }
      C[p * rank + q] = sum;
    }
}

/* The same sums of squares as in log_q, for x = D^-1 (theta - m): the minimum over e of
 * |x - W e|^2 + |e|^2 is taken at e = C^-1 W'x. */
static void log_density(const double *phi, const Shape *shape, const double *theta, size_t n,
                        double *out) {
  size_t dim = shape->dim, rank = shape->rank;
  double C[rank * rank + 1], K[rank * rank + 1], e[rank + 1];
  double constant = -(double)dim * HALF_LOG_2PI;
  capacitance(phi, shape, C);
  constant -= la_cholesky(C, K, rank) ? 0.5 * la_log_det_cholesky(K, rank) : NAN;
  for (size_t i = 0; i < dim; i++) constant -= family_log_sd(phi[dim + i]);
  for (size_t j = 0; j < n; j++, theta += dim) {
    double squares = 0;
    for (size_t r = 0; r < rank; r++) e[r] = 0;
    for (size_t i = 0; i < dim; i++) {
      double s = family_sd(phi[dim + i]);
      la_axpy((theta[i] - phi[i]) / (s * s), phi + factor_at(shape, i), e, rank);
    }
    la_cholesky_solve(K, e, e, rank);
    for (size_t i = 0; i < dim; i++) {
      double x = (theta[i] - phi[i] - la_dot(phi + factor_at(shape, i), e, rank)) /
                 family_sd(phi[dim + i]);
      squares += x * x;
    }
    out[j] = constant - 0.5 * (squares + la_dot(e, e, rank));
  }
}

/* As in meanfield, B in the unit of its row. */
static void scale(const double *phi, const Shape *shape, const double *unit, double *d) {
  size_t dim = shape->dim, rank = shape->rank;
  for (size_t i = 0; i < dim; i++) {
    double s = family_wider(family_sd(phi[dim + i]), unit, i);
    d[i] = s * s;
    d[dim + i] = 0.5;
    for (size_t r = 0; r < rank; r++) d[factor_at(shape, i) + r] = s * s;
  }
}

static void reach(const double *phi, const Shape *shape, double *d) {
  size_t dim = shape->dim, rank = shape->rank;
  for (size_t i = 0; i < dim; i++) {
    size_t b = factor_at(shape, i);
    double s = family_sd(phi[dim + i]);
    d[i] = family_reach_at(phi[i], s);
    d[dim + i] = REACH_LOG;
    for (size_t r = 0; r < rank; r++) d[b + r] = family_reach_at(phi[b + r], s);
  }
}

static int parts(const Shape *s, FamilyPart *out) {
  out[0] = (FamilyPart){"mean", 0, s->dim, 1};
  out[1] = (FamilyPart){"log_sd", s->dim, s->dim, 1};
  out[2] = (FamilyPart){"factor", factor_at(s, 0), s->dim, s->rank};
  return 3;
}

static void laws(const double *phi, const Shape *shape, NormalLaw *out) {
  size_t dim = shape->dim, rank = shape->rank;
  out->weight = 1;
  for (size_t i = 0; i < dim; i++) {
    double s = family_sd(phi[dim + i]);
    out->mean[i] = phi[i];
    for (size_t k = 0; k <= i; k++)
      out->cov[i * dim + k] = out->cov[k * dim + i] =
          la_dot(phi + factor_at(shape, i), phi + factor_at(shape, k), rank);
    out->cov[i * dim + i] += s * s;
  }
}

/* d B = (G + G') B, d log s_i = 2 s_i^2 G_ii */
static void laws_adjoint(const double *phi, const Shape *shape, const NormalLaw *law,
                         const NormalLaw *adj, double *grad) {
  size_t dim = shape->dim, rank = shape->rank;
  const double *G = adj->cov;
  (void)law;
  for (size_t i = 0; i < dim; i++) {
    double s = family_sd(phi[dim + i]);
    grad[i] += adj->mean[i];
    grad[dim + i] += 2 * s * family_sd_slope(phi[dim + i]) * G[i * dim + i];
    for (size_t k = 0; k < dim; k++) {
      double g = G[i * dim + k] + G[k * dim + i];
      if (g != 0) la_axpy(g, phi + factor_at(shape, k), grad + factor_at(shape, i), rank);
    }
  }
}

const Family family_lowrank = {.size = size,
                               .noise = noise,
                               .scratch = scratch,
                               .start = start,
                               .stretch = stretch,
                               .moments = moments,
                               .draw = draw,
                               .adjoint = adjoint,
                               .entropy = entropy,
                               .log_q = log_q,
                               .log_density = log_density,
                               .scale = scale,
                               .reach = reach,
                               .parts = parts,
                               .normals = family_one_normal,
                               .dense = true,
                               .laws = laws,
                               .laws_adjoint = laws_adjoint};
