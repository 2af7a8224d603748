/* fullrank.c: theta = m + L u, L lower triangular; phi = (m, rows of L with log of the diagonal).
 */
#include "family/family_int.h"

#include "num/linalg.h"

#include <math.h>
#include <string.h>

static size_t size(const Shape *s) { return s->dim + s->dim * (s->dim + 1) / 2; }
static size_t noise(const Shape *s) { return s->dim; }
/* Where row i of L begins in phi. */
static size_t row_of(size_t dim, size_t i) { return dim + i * (i + 1) / 2; }

static void start(double *phi, const Shape *shape, const double *mean, const double *sd) {
  size_t dim = shape->dim;
  memset(phi, 0, size(shape) * sizeof *phi);
  for (size_t k = 0; k < dim; k++) {
    phi[k] = mean[k];
    phi[row_of(dim, k) + k] = log(sd[k]);
  }
}

static double entry(const double *row, size_t i, size_t j) {
  return i == j ? family_sd(row[j]) : row[j];
}

static void stretch(double *phi, const Shape *shape, size_t k, double factor, double move) {
  double *row = phi + row_of(shape->dim, k);
  phi[k] += move;
  for (size_t j = 0; j < k; j++) row[j] *= factor;
  row[k] += log(factor);
}

static void moments(const double *phi, const Shape *shape, double *mean, double *sd) {
  size_t dim = shape->dim;
  for (size_t i = 0; i < dim; i++) {
    const double *row = phi + row_of(dim, i);
    double v = 0;
    for (size_t j = 0; j <= i; j++) v += entry(row, i, j) * entry(row, i, j);
    mean[i] = phi[i];
    sd[i] = sqrt(v);
  }
}

/* Row by row: the triangle is small, and the rows of draws are long. */
static void draw(const double *phi, const Noise *n, double *theta) {
  size_t dim = n->shape->dim;
  for (size_t i = 0; i < dim; i++) {
    const double *row = phi + row_of(dim, i);
    double *out = theta + i * n->ld;
    double s = family_sd(row[i]);
    for (size_t j = 0; j < n->ld; j++) out[j] = phi[i] + s * n->u[i * n->ld + j];
    if (i)
      n->k->gemm(&(RowProduct){.out = out,
                               .ldo = n->ld,
                               .a = row,
                               .a_column = 1,
                               .b = n->u,
                               .ldb = n->ld,
                               .rows = 1,
                               .inner = i,
                               .n = n->ld,
                               .add = true});
  }
}

/* d theta_i / d L_ij = u_j, times L_ii for the logarithm of the diagonal */
static void adjoint(const double *phi, const Noise *n, const double *adj, const double *adj_w,
                    double *grad) {
  size_t dim = n->shape->dim;
  (void)adj_w;
  for (size_t i = 0; i < dim; i++) {
    const double *a = adj + i * n->ld;
    size_t row = row_of(dim, i);
    grad[i] += n->k->sum(a, n->M);
    for (size_t j = 0; j <= i; j++) {
      double d = n->k->dot(a, n->u + j * n->ld, n->M);
      grad[row + j] += j == i ? d * family_sd_slope(phi[row + i]) : d;
    }
  }
}

/* sum log L_ii + d (1 + log 2 pi) / 2 */
static double entropy(const double *phi, const Noise *n, double weight, double *grad) {
  size_t dim = n->shape->dim;
  double h = (double)dim * (0.5 + HALF_LOG_2PI);
  for (size_t i = 0; i < dim; i++) {
    size_t at = row_of(dim, i) + i;
    h += family_log_sd(phi[at]);
    grad[at] += weight * family_log_sd_slope(phi[at]);
  }
  return h;
}

static void log_q(const double *phi, const Noise *n, double *out) {
  size_t dim = n->shape->dim;
  double c = -(double)dim * HALF_LOG_2PI;
  for (size_t i = 0; i < dim; i++) c -= family_log_sd(phi[row_of(dim, i) + i]);
  for (size_t j = 0; j < n->M; j++) out[j] = c;
  for (size_t i = 0; i < dim; i++)
    for (size_t j = 0; j < n->M; j++) out[j] -= 0.5 * n->u[i * n->ld + j] * n->u[i * n->ld + j];
}

/* With v = L^-T u: d log q / d m = v, d log q / d L_ij = v_i u_j, and -1 more for log L_ii. */
static void score_function(const double *phi, const Noise *n, const double *c, double *grad) {
  size_t dim = n->shape->dim;
  double v[dim + 1];
  for (size_t j = 0; j < n->M; j++) {
    if (c[j] == 0) continue;
    for (size_t i = dim; i-- > 0;) {
      double s = n->u[i * n->ld + j];
      for (size_t k = i + 1; k < dim; k++) s -= phi[row_of(dim, k) + i] * v[k];
      v[i] = s / family_sd(phi[row_of(dim, i) + i]);
    }
    for (size_t i = 0; i < dim; i++) {
      size_t row = row_of(dim, i);
      double ui = n->u[i * n->ld + j], l = family_sd(phi[row + i]);
      grad[i] += c[j] * v[i];
      for (size_t k = 0; k < i; k++) grad[row + k] += c[j] * v[i] * n->u[k * n->ld + j];
      grad[row + i] += c[j] * (v[i] * ui * l - 1) * family_log_sd_slope(phi[row + i]);
    }
  }
}

/* In row i a step of L_ii: the conditional sd is the natural unit of theta_i. */
static void scale(const double *phi, const Shape *shape, const double *unit, double *d) {
  size_t dim = shape->dim;
  for (size_t i = 0; i < dim; i++) {
    size_t row = row_of(dim, i);
    double s = family_wider(family_sd(phi[row + i]), unit, i);
    d[i] = s * s;
    for (size_t j = 0; j < i; j++) d[row + j] = s * s;
    d[row + i] = 0.5;
  }
}

/* In the coordinates z of theta = m + L z, in which q is standard normal, q is again a full-rank
 * normal, and there a step is as long as the gradient, half of it in logarithms of the diagonal. So
 * H0 = J S J' with J the derivative of phi in those coordinates' (m~, L~, log L~_jj) and S =
 * diag(1, 1, 1/2): the natural gradient of an ELBO. At L~ = I
 *
 *   dm = L dm~,  dL_ij = sum_k L_ik dL~_kj + L_ij d log L~_jj (j < k <= i),  d log L_jj = d log
 * L~_jj.
 *
 * Column j of L depends on column j of L~ alone, so columns are done one by one; w is one of them.
 */
static void precondition_column(const double *phi, size_t dim, size_t j, double *x) {
  double w[dim + 1];
  size_t diagonal = row_of(dim, j) + j;
  for (size_t k = j; k < dim; k++) w[k] = 0;
  for (size_t i = j + 1; i < dim; i++) {
    size_t row = row_of(dim, i);
    for (size_t k = j; k <= i; k++) w[k] += x[row + j] * entry(phi + row, i, k);
  }
  x[diagonal] = w[j] = 0.5 * (x[diagonal] + w[j]);
  for (size_t i = j + 1; i < dim; i++) {
    size_t row = row_of(dim, i);
    x[row + j] = 0;
    for (size_t k = j; k <= i; k++) x[row + j] += w[k] * entry(phi + row, i, k);
  }
}

static size_t precondition(const double *phi, const Shape *shape, double *x) {
  size_t dim = shape->dim;
  double w[dim + 1];
  for (size_t k = 0; k < dim; k++) w[k] = 0;
  for (size_t i = 0; i < dim; i++)
    for (size_t k = 0; k <= i; k++) w[k] += x[i] * entry(phi + row_of(dim, i), i, k);
  for (size_t i = 0; i < dim; i++) {
    x[i] = 0;
    for (size_t k = 0; k <= i; k++) x[i] += w[k] * entry(phi + row_of(dim, i), i, k);
  }
  for (size_t j = 0; j < dim; j++) precondition_column(phi, dim, j, x);
  return size(shape);
}

static void reach(const double *phi, const Shape *shape, double *d) {
  size_t dim = shape->dim;
  for (size_t i = 0; i < dim; i++) {
    size_t row = row_of(dim, i);
    double s = family_sd(phi[row + i]);
    d[i] = family_reach_at(phi[i], s);
    for (size_t j = 0; j < i; j++) d[row + j] = family_reach_at(phi[row + j], s);
    d[row + i] = REACH_LOG;
  }
}

static int parts(const Shape *s, FamilyPart *out) {
  out[0] = (FamilyPart){"mean", 0, s->dim, 1};
  out[1] = (FamilyPart){"cholesky_rows", s->dim, s->dim * (s->dim + 1) / 2, 1};
  return 2;
}

/* forward substitution */
static void inverse(const double *phi, const Shape *shape, const double *theta, double *u,
                    double *log_det) {
  size_t dim = shape->dim;
  *log_det = 0;
  for (size_t i = 0; i < dim; i++) {
    const double *row = phi + row_of(dim, i);
    double rest = theta[i] - phi[i];
    for (size_t j = 0; j < i; j++) rest -= row[j] * u[j];
    u[i] = rest / family_sd(row[i]);
    *log_det += family_log_sd(row[i]);
  }
}

/* L L', row by row */
static void laws(const double *phi, const Shape *shape, NormalLaw *out) {
  size_t dim = shape->dim;
  out->weight = 1;
  for (size_t i = 0; i < dim; i++) {
    const double *a = phi + row_of(dim, i);
    out->mean[i] = phi[i];
    for (size_t k = 0; k <= i; k++) {
      const double *b = phi + row_of(dim, k);
      double s = la_dot(a, b, k) + entry(a, i, k) * family_sd(b[k]);
      out->cov[i * dim + k] = out->cov[k * dim + i] = s;
    }
  }
}

/* d L = (G + G') L */
static void laws_adjoint(const double *phi, const Shape *shape, const NormalLaw *law,
                         const NormalLaw *adj, double *grad) {
  size_t dim = shape->dim;
  const double *G = adj->cov;
  double h[dim + 1];
  (void)law;
  for (size_t i = 0; i < dim; i++) {
    size_t row = row_of(dim, i);
    grad[i] += adj->mean[i];
    for (size_t j = 0; j <= i; j++) h[j] = 0;
    for (size_t k = 0; k < dim; k++) {
      double g = G[i * dim + k] + G[k * dim + i];
      const double *L = phi + row_of(dim, k);
      if (g == 0) continue;
      la_axpy(g, L, h, k < i + 1 ? k : i + 1);
      if (k <= i) h[k] += g * family_sd(L[k]);
    }
    for (size_t j = 0; j < i; j++) grad[row + j] += h[j];
    grad[row + i] += h[i] * family_sd_slope(phi[row + i]);
  }
}

const Family family_fullrank = {.size = size,
                                .noise = noise,
                                .start = start,
                                .stretch = stretch,
                                .moments = moments,
                                .draw = draw,
                                .adjoint = adjoint,
                                .entropy = entropy,
                                .log_q = log_q,
                                .score_function = score_function,
                                .scale = scale,
                                .precondition = precondition,
                                .reach = reach,
                                .parts = parts,
                                .inverse = inverse,
                                .normals = family_one_normal,
                                .dense = true,
                                .laws = laws,
                                .laws_adjoint = laws_adjoint};
