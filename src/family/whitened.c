/* whitened.c: full rank in the coordinates z of theta = m + L z, in which q is standard normal.
 *
 * There q is again a full-rank normal, (m~, L~) = (0, I), and a step is as long as the gradient,
 * half of it in logarithms of the diagonal; so H0 = J S J' with J the derivative of phi in those
 * coordinates and S = diag(1, 1, 1/2): the natural gradient of an ELBO. At L~ = I
 *
 *   dm = L dm~,  dL_ij = sum_k L_ik dL~_kj + L_ij d log L~_jj (j < k <= i),  d log L_jj = d log
 * L~_jj.
 *
 * Of an expectation F = E f(theta) the gradient in L is the lower triangle of H L, H = E f''
 * (Bonnet, Price), and the lower triangle of L'H L follows from that alone. So a gradient tells f's
 * mean curvature, and where F + lambda entropy would be highest if f were quadratic: `leap`.
 *
 * Lower triangles are squares here, rows ld apart, and all products are matrix products of blocks
 * of rows.
 */
#include "family/family_int.h"

#include "num/linalg.h"

#include <math.h>
#include <string.h>

enum { SIDE = 32, STRIP = 256 }; /* rows of a block; columns that are multiplied together */

typedef struct {
  double *at;
  size_t dim, ld;
  double *some, *more; /* room for a block of rows each */
} Square;

size_t family_square_room(const Shape *s) { return (s->dim + 2 * SIDE) * family_padded(s->dim); }

static size_t upto(size_t from, size_t step, size_t end) {
  return end - from < step ? end - from : step;
}
static double *row_at(Square x, size_t i) { return x.at + i * x.ld; }

/* Where row i of L begins in phi, and its last entry, a logarithm there. */
static const double *row_of(const double *phi, size_t dim, size_t i) {
  return phi + dim + i * (i + 1) / 2;
}
static double last_of(const double *phi, size_t dim, size_t i) {
  return family_sd(row_of(phi, dim, i)[i]);
}

/* Row i of L, entries [from, to), with zeros behind the diagonal. */
static void copy_row(const double *phi, size_t dim, size_t i, size_t from, size_t to, double *out) {
  size_t end = i + 1 < to ? i + 1 : to, n = end > from ? end - from : 0;
  memcpy(out, row_of(phi, dim, i) + from, n * sizeof *out);
  memset(out + n, 0, (to - from - n) * sizeof *out);
  if (i >= from && i < to) out[i - from] = last_of(phi, dim, i);
}

/* ---- products -------------------------------------------------------------------------------- */

/* out = a b, b's rows being a square's from (k, j) on */
static void multiply(Square b, size_t k, size_t j, RowProduct p) {
  p.b = row_at(b, k) + j;
  p.ldb = b.ld;
  if (p.inner) kernels_best()->gemm(&p);
}

/* The lower triangle of L'x, in place: rows that come later do not need those before. */
static void times_transposed(const double *phi, Square x) {
  double *L = x.some, *out = x.more;
  for (size_t k = 0; k < x.dim; k += SIDE) {
    size_t rows = upto(k, SIDE, x.dim);
    for (size_t i = k; i < x.dim; i++) copy_row(phi, x.dim, i, k, k + rows, L + (i - k) * SIDE);
    multiply(x, k, 0,
             (RowProduct){.out = out,
                          .ldo = x.ld,
                          .a = L,
                          .a_row = 1,
                          .a_column = SIDE,
                          .rows = rows,
                          .inner = x.dim - k,
                          .n = family_padded(k + rows)});
    for (size_t r = 0; r < rows; r++)
      memcpy(row_at(x, k + r), out + r * x.ld, (k + r + 1) * sizeof *out);
  }
}

/* out = a x, rows x.ld apart, of a block of rows with `inner` columns of which x's rows are zero
 * above the diagonal. */
static void times_lower(const double *a, size_t rows, size_t inner, Square x, double *out) {
  size_t n = family_padded(inner);
  for (size_t j = 0; j < inner; j += STRIP)
    multiply(x, j, j,
             (RowProduct){.out = out + j,
                          .ldo = x.ld,
                          .a = a + j,
                          .a_row = x.ld,
                          .a_column = 1,
                          .rows = rows,
                          .inner = inner - j,
                          .n = upto(j, STRIP, n)});
}

/* The entries of L x below the diagonal, into phi's order. */
static void times_root(const double *phi, Square x, double *to) {
  double *L = x.some, *out = x.more;
  for (size_t k = 0; k < x.dim; k += SIDE) {
    size_t rows = upto(k, SIDE, x.dim);
    for (size_t r = 0; r < rows; r++) copy_row(phi, x.dim, k + r, 0, k + rows, L + r * x.ld);
    times_lower(L, rows, k + rows, x, out);
    for (size_t i = k; i < k + rows; i++)
      memcpy(to + (row_of(phi, x.dim, i) - phi), out + (i - k) * x.ld, i * sizeof *out);
  }
}

/* L'x and L x, of one vector */
static void transposed_vector(const double *phi, size_t dim, const double *x, double *out) {
  memset(out, 0, dim * sizeof *out);
  for (size_t i = 0; i < dim; i++) {
    la_axpy(x[i], row_of(phi, dim, i), out, i);
    out[i] += x[i] * last_of(phi, dim, i);
  }
}
static void root_vector(const double *phi, size_t dim, const double *x, double *out) {
  for (size_t i = 0; i < dim; i++)
    out[i] = la_dot(row_of(phi, dim, i), x, i) + x[i] * last_of(phi, dim, i);
}

/* A triangle in phi's order as a square with zeros above the diagonal. */
static Square square_of(const double *triangle, size_t dim, double *room) {
  size_t ld = family_padded(dim);
  double *rest = room + dim * ld;
  Square x = {room, dim, ld, rest, rest + SIDE * ld};
  for (size_t i = 0; i < dim; i++) {
    const double *row = row_of(triangle, dim, i);
    memcpy(row_at(x, i), row, (i + 1) * sizeof *row);
    memset(row_at(x, i) + i + 1, 0, (x.ld - i - 1) * sizeof *row);
  }
  return x;
}

/* Logarithms of the diagonal at phi are as many there as at `at`, times the ratio of what they are
 * logarithms of. */
static void times_ratio(const double *phi, const double *at, size_t dim, double *x) {
  for (size_t i = 0; at != phi && i < dim; i++) {
    size_t diagonal = (size_t)(row_of(phi, dim, i) - phi) + i;
    x[diagonal] *= last_of(at, dim, i) / last_of(phi, dim, i);
  }
}

static void precondition_at(const double *phi, size_t dim, double *room, double *x) {
  double z[dim + 1];
  transposed_vector(phi, dim, x, z);
  root_vector(phi, dim, z, x);
  Square w = square_of(x, dim, room);
  for (size_t i = 0; i < dim; i++) row_at(w, i)[i] = 0;
  times_transposed(phi, w);
  for (size_t i = 0; i < dim; i++) {
    double *diagonal = x + (row_of(phi, dim, i) - phi) + i;
    *diagonal = row_at(w, i)[i] = 0.5 * (*diagonal + row_at(w, i)[i]);
  }
  times_root(phi, w, x);
}

size_t fullrank_precondition(const double *phi, const double *at, const Shape *shape, double *room,
                             double *x) {
  size_t dim = shape->dim;
  times_ratio(phi, at, dim, x);
  precondition_at(at, dim, room, x);
  times_ratio(phi, at, dim, x);
  return dim + dim * (dim + 1) / 2;
}

/* ---- x = V'V, and V's inverse: the root of x's inverse --------------------------------------- */

/* The rows [k, k + rows) of V, from what is left of x there; those behind are done. */
static bool factor_rows(Square x, size_t k, size_t rows) {
  const Kernels *kernels = kernels_best();
  for (size_t i = k + rows; i-- > k;) {
    double *row = row_at(x, i), d;
    for (size_t r = i + 1; r < k + rows; r++) {
      const double *done = row_at(x, r);
      double times = -done[i];
      kernels->axpy(row, times, done, k);
      for (size_t j = k; j <= i; j++) row[j] += times * done[j];
    }
    d = sqrt(row[i]);
    if (!(d > 0) || !isfinite(d)) return false;
    for (size_t j = 0; j < i; j++) row[j] /= d;
    row[i] = d;
  }
  return true;
}

/* V in the place of x's lower triangle, from the last rows on; false: x is not positive definite.
 */
static bool factor(Square x) {
  double *out = x.more;
  for (size_t k = (x.dim - 1) / SIDE * SIDE + SIDE; k > 0;) {
    k -= SIDE;
    size_t rows = upto(k, SIDE, x.dim), end = k + rows;
    multiply(x, end, 0,
             (RowProduct){.out = out,
                          .ldo = x.ld,
                          .a = row_at(x, end) + k,
                          .a_row = 1,
                          .a_column = x.ld,
                          .rows = rows,
                          .inner = x.dim - end,
                          .n = family_padded(end)});
    for (size_t i = k; end < x.dim && i < end; i++)
      la_axpy(-1, out + (i - k) * x.ld, row_at(x, i), i + 1);
    if (!factor_rows(x, k, rows)) return false;
  }
  return true;
}

/* V's inverse in its place, with zeros above the diagonal, from the first rows on. */
static void invert(Square x) {
  const Kernels *kernels = kernels_best();
  double *V = x.some, *out = x.more;
  for (size_t k = 0; k < x.dim; k += SIDE) {
    size_t rows = upto(k, SIDE, x.dim);
    memcpy(V, row_at(x, k), rows * x.ld * sizeof *V);
    if (k) times_lower(V, rows, k, x, out);
    for (size_t i = k; i < k + rows; i++) {
      const double *v = V + (i - k) * x.ld;
      double *row = row_at(x, i), *sum = out + (i - k) * x.ld;
      memset(sum + k, 0, (x.ld - k) * sizeof *sum);
      sum[i] = -1;
      for (size_t j = k; j < i; j++) {
        kernels->axpy(sum, v[j], row_at(x, j), k);
        for (size_t c = k; c <= j; c++) sum[c] += v[j] * row_at(x, j)[c];
      }
      for (size_t c = 0; c < x.ld; c++) row[c] = -sum[c] / v[i];
    }
  }
}

/* ---- the leap -------------------------------------------------------------------------------- */

/* Minus L'H L / lambda, the precision where F + lambda entropy would be highest: its lower
 * triangle; false: the gradient does not tell it. */
static bool precision(const double *phi, double lambda, Square x) {
  for (size_t i = 0; i < x.dim; i++) {
    if (family_sd_slope(row_of(phi, x.dim, i)[i]) == 0) return false;
    row_at(x, i)[i] = (row_at(x, i)[i] - lambda) / last_of(phi, x.dim, i);
  }
  times_transposed(phi, x);
  for (size_t i = 0; i < x.dim; i++)
    for (size_t j = 0; j <= i; j++) row_at(x, i)[j] /= -lambda;
  return true;
}

/* part x + (1 - part) I, of a lower triangle that is kept above the diagonal and in `diagonal`. */
static void mix(Square x, const double *diagonal, double part) {
  for (size_t i = 0; i < x.dim; i++) {
    for (size_t j = 0; j < i; j++) row_at(x, i)[j] = part * row_at(x, j)[i];
    row_at(x, i)[i] = part * diagonal[i] + 1 - part;
  }
}

/* Where the curvature is not that of a maximum, the part of the way to it that is; 0: none. */
static double factor_mixed(Square x) {
  double diagonal[x.dim + 1];
  for (size_t i = 0; i < x.dim; i++) {
    for (size_t j = 0; j < i; j++) row_at(x, j)[i] = row_at(x, i)[j];
    diagonal[i] = row_at(x, i)[i];
  }
  for (double part = 1; part > 0.01; part *= 0.5) {
    mix(x, diagonal, part);
    if (factor(x)) return part;
  }
  return 0;
}

/* With m~ = x^-1 L'g / lambda where x is the mixed precision, and L~ the root of its inverse. */
bool fullrank_leap(const double *phi, const Shape *shape, double lambda, const double *grad,
                   double *room, double *to) {
  size_t dim = shape->dim;
  double g[dim + 1], z[dim + 1];
  Square x = square_of(grad, dim, room);
  if (!precision(phi, lambda, x)) return false;
  double part = factor_mixed(x);
  if (part == 0) return false;
  invert(x);
  transposed_vector(phi, dim, grad, g);
  memset(z, 0, dim * sizeof *z);
  for (size_t i = 0; i < dim; i++) la_axpy(g[i], row_at(x, i), z, i + 1);
  for (size_t i = 0; i < dim; i++) g[i] = part / lambda * la_dot(row_at(x, i), z, i + 1);
  root_vector(phi, dim, g, z);
  for (size_t i = 0; i < dim; i++) to[i] = phi[i] + z[i];
  times_root(phi, x, to);
  for (size_t i = 0; i < dim; i++) {
    size_t diagonal = (size_t)(row_of(phi, dim, i) - phi) + i;
    to[diagonal] = phi[diagonal] + log(row_at(x, i)[i]);
  }
  return true;
}
