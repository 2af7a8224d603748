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

/* ---- products with L, tile by tile ----------------------------------------------------------- */

/* Rows and columns of tiles: what a product reads again and again stays in cache. */
enum { SHORT = 32, LONG = 256 };

static size_t upto(size_t from, size_t step, size_t end) {
  return end - from < step ? end - from : step;
}
static size_t padded(size_t n) { return (n + LANES - 1) / LANES * LANES; }

/* Rows i .. i + rows and columns j .. j + cols of L. */
typedef struct {
  size_t i, rows, j, cols;
} Window;

/* What is in the window, in rows of LONG; zeros above the diagonal and in the padding. */
static void tile_of(const double *phi, size_t dim, Window w, double *out) {
  for (size_t r = 0; r < w.rows; r++) {
    size_t i = w.i + r, n = i < w.j ? 0 : upto(w.j, w.cols, i + 1);
    const double *row = phi + row_of(dim, i);
    double *to = out + r * LONG;
    memcpy(to, row + w.j, n * sizeof *to);
    memset(to + n, 0, (padded(w.cols) - n) * sizeof *to);
    if (n && w.j + n == i + 1) to[n - 1] = family_sd(row[i]);
  }
}

/* theta = m + L u */
static void draw(const double *phi, const Noise *n, double *theta) {
  size_t dim = n->shape->dim;
  double L[SHORT * LONG];
  for (size_t i = 0; i < dim; i += SHORT) {
    size_t rows = upto(i, SHORT, dim);
    for (size_t r = 0; r < rows; r++) n->k->fill(theta + (i + r) * n->ld, phi[i + r], n->ld);
    for (size_t j = 0; j < i + rows; j += LONG) {
      size_t inner = upto(j, LONG, i + rows);
      tile_of(phi, dim, (Window){i, rows, j, inner}, L);
      n->k->gemm(&(RowProduct){.out = theta + i * n->ld,
                               .ldo = n->ld,
                               .a = L,
                               .a_row = LONG,
                               .a_column = 1,
                               .b = n->u + j * n->ld,
                               .ldb = n->ld,
                               .rows = rows,
                               .inner = inner,
                               .n = n->ld,
                               .add = true});
    }
  }
}

/* out[i SHORT + j] = sum over the draws of adj_i u_j, of a tile of parameters. */
static void moments_of_tile(const Noise *n, const double *adj, size_t i, size_t j, double *out) {
  size_t dim = n->shape->dim, cols = upto(j, SHORT, dim);
  double u[LONG * SHORT];
  for (size_t m = 0; m < n->M; m += LONG) {
    size_t inner = upto(m, LONG, n->M);
    for (size_t k = 0; k < inner; k++)
      for (size_t c = 0; c < padded(cols); c++)
        u[k * SHORT + c] = c < cols ? n->u[(j + c) * n->ld + m + k] : 0;
    n->k->gemm(&(RowProduct){.out = out,
                             .ldo = SHORT,
                             .a = adj + i * n->ld + m,
                             .a_row = n->ld,
                             .a_column = 1,
                             .b = u,
                             .ldb = SHORT,
                             .rows = upto(i, SHORT, dim),
                             .inner = inner,
                             .n = padded(cols),
                             .add = m > 0});
  }
}

/* Adds a tile, in rows of ld, to the gradient in L, up to the diagonal, which is a logarithm. */
static void add_tile(const double *phi, const Shape *shape, Window w, const double *tile, size_t ld,
                     double *grad) {
  for (size_t r = 0; r < w.rows; r++) {
    size_t i = w.i + r, row = row_of(shape->dim, i);
    for (size_t c = 0; c < w.cols && w.j + c <= i; c++) {
      double g = tile[r * ld + c];
      grad[row + w.j + c] += w.j + c == i ? g * family_sd_slope(phi[row + i]) : g;
    }
  }
}

/* d theta_i / d L_ij = u_j, times L_ii for the logarithm of the diagonal */
static void adjoint(const double *phi, const Noise *n, const double *adj, const double *adj_w,
                    double *grad) {
  size_t dim = n->shape->dim;
  double sum[SHORT * SHORT];
  (void)adj_w;
  for (size_t i = 0; i < dim; i++) grad[i] += n->k->sum(adj + i * n->ld, n->M);
  for (size_t i = 0; i < dim; i += SHORT)
    for (size_t j = 0; j <= i; j += SHORT) {
      moments_of_tile(n, adj, i, j, sum);
      add_tile(phi, n->shape, (Window){i, upto(i, SHORT, dim), j, upto(j, SHORT, dim)}, sum, SHORT,
               grad);
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

/* Rows i .. and columns k .. of L L', a tile. */
static void square_tile(const double *phi, size_t dim, size_t i, size_t k, double *out) {
  double A[SHORT * LONG], B[SHORT * LONG], row[SHORT * LONG];
  size_t rows = upto(i, SHORT, dim), cols = upto(k, LONG, i + rows), end = i + rows;
  for (size_t j = 0; j < end; j += SHORT) {
    size_t inner = upto(j, SHORT, end);
    tile_of(phi, dim, (Window){i, rows, j, inner}, A);
    for (size_t c = 0; c < cols; c += SHORT) {
      size_t some = upto(c, SHORT, cols);
      tile_of(phi, dim, (Window){k + c, some, j, inner}, row);
      for (size_t t = 0; t < inner; t++)
        for (size_t q = 0; q < some; q++) B[t * LONG + c + q] = row[q * LONG + t];
    }
    for (size_t t = 0; t < inner; t++)
      for (size_t q = cols; q < padded(cols); q++) B[t * LONG + q] = 0;
    kernels_best()->gemm(&(RowProduct){.out = out,
                                       .ldo = LONG,
                                       .a = A,
                                       .a_row = LONG,
                                       .a_column = 1,
                                       .b = B,
                                       .ldb = LONG,
                                       .rows = rows,
                                       .inner = inner,
                                       .n = padded(cols),
                                       .add = j > 0});
  }
}

/* A tile to its place in a symmetric matrix and the one across the diagonal, each row by row. */
static void put_tile(const double *tile, Window w, size_t dim, double *out) {
  for (size_t r = 0; r < w.rows; r++)
    for (size_t c = 0; c < w.cols && w.j + c <= w.i + r; c++)
      out[(w.i + r) * dim + w.j + c] = tile[r * LONG + c];
  for (size_t c = 0; c < w.cols && w.j + c < w.i + w.rows; c++)
    for (size_t r = w.j + c > w.i ? w.j + c - w.i : 0; r < w.rows; r++)
      out[(w.j + c) * dim + w.i + r] = tile[r * LONG + c];
}

/* L L', its lower triangle by tiles */
static void laws(const double *phi, const Shape *shape, NormalLaw *out) {
  size_t dim = shape->dim;
  double tile[SHORT * LONG];
  out->weight = 1;
  memcpy(out->mean, phi, dim * sizeof *phi);
  for (size_t i = 0; i < dim; i += SHORT)
    for (size_t k = 0; k < i + upto(i, SHORT, dim); k += LONG) {
      square_tile(phi, dim, i, k, tile);
      put_tile(tile, (Window){i, upto(i, SHORT, dim), k, LONG}, dim, out->cov);
    }
}

/* d L = (G + G') L, a tile of rows i .. and columns j .. */
static void laws_adjoint_tile(const double *phi, size_t dim, const double *G, size_t i, size_t j,
                              double *out) {
  double A[SHORT * SHORT], B[SHORT * LONG];
  size_t rows = upto(i, SHORT, dim), cols = upto(j, LONG, i + rows);
  for (size_t k = j / SHORT * SHORT; k < dim; k += SHORT) {
    size_t inner = upto(k, SHORT, dim);
    for (size_t r = 0; r < rows; r++)
      for (size_t t = 0; t < inner; t++)
        A[r * SHORT + t] = G[(i + r) * dim + k + t] + G[(k + t) * dim + i + r];
    tile_of(phi, dim, (Window){k, inner, j, cols}, B);
    kernels_best()->gemm(&(RowProduct){.out = out,
                                       .ldo = LONG,
                                       .a = A,
                                       .a_row = SHORT,
                                       .a_column = 1,
                                       .b = B,
                                       .ldb = LONG,
                                       .rows = rows,
                                       .inner = inner,
                                       .n = padded(cols),
                                       .add = k > j / SHORT * SHORT});
  }
}

static void laws_adjoint(const double *phi, const Shape *shape, const NormalLaw *law,
                         const NormalLaw *adj, double *grad) {
  size_t dim = shape->dim;
  double tile[SHORT * LONG];
  (void)law;
  for (size_t i = 0; i < dim; i++) grad[i] += adj->mean[i];
  for (size_t i = 0; i < dim; i += SHORT)
    for (size_t j = 0; j < i + upto(i, SHORT, dim); j += LONG) {
      laws_adjoint_tile(phi, dim, adj->cov, i, j, tile);
      add_tile(phi, shape, (Window){i, upto(i, SHORT, dim), j, LONG}, tile, LONG, grad);
    }
}

/* L' x */
static void transposed(const double *phi, size_t dim, const double *x, double *out) {
  for (size_t j = 0; j < dim; j++) out[j] = 0;
  for (size_t i = 0; i < dim; i++) {
    const double *row = phi + row_of(dim, i);
    if (x[i] == 0) continue;
    la_axpy(x[i], row, out, i);
    out[i] += x[i] * family_sd(row[i]);
  }
}

/* x' L L' w: its derivative in L is x (L'w)' + w (L'x)'. */
static void pull(const double *phi, const Shape *shape, const double *x, const double *w,
                 double *grad) {
  size_t dim = shape->dim;
  double a[dim + 1], b[dim + 1];
  for (size_t i = 0; !w && i < dim; i++) grad[i] += x[i];
  if (!w) return;
  transposed(phi, dim, x, a);
  transposed(phi, dim, w, b);
  for (size_t i = 0; i < dim; i++) {
    size_t row = row_of(dim, i);
    if (x[i] != 0) la_axpy(x[i], b, grad + row, i);
    if (w[i] != 0) la_axpy(w[i], a, grad + row, i);
    grad[row + i] += (x[i] * b[i] + w[i] * a[i]) * family_sd_slope(phi[row + i]);
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
                                .precondition = fullrank_precondition,
                                .leap = fullrank_leap,
                                .reach = reach,
                                .parts = parts,
                                .inverse = inverse,
                                .normals = family_one_normal,
                                .dense = true,
                                .laws = laws,
                                .laws_adjoint = laws_adjoint,
                                .pull = pull};
