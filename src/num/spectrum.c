/* spectrum.c: complex matrices: Schur's form by the shifted QR method on a Hessenberg matrix, and
 * singular values by Jacobi rotations of columns. */
#include "num/spectrum.h"

#include <float.h>
#include <math.h>

typedef double complex Z;

static double size1(Z z) { return fabs(creal(z)) + fabs(cimag(z)); }

/* ---- rotations ------------------------------------------------------------------------------- */

/* [c s; -conj(s) c], c real, c^2 + |s|^2 = 1. */
typedef struct {
  double c;
  Z s;
} Turn;

/* The one that makes (f, g) to (r, 0). */
static Turn turn_to_zero(Z f, Z g) {
  double a = cabs(f), b = cabs(g), r = hypot(a, b);
  if (b == 0) return (Turn){1, 0};
  if (a == 0) return (Turn){0, conj(g) / b};
  return (Turn){a / r, f / a * conj(g) / r};
}

/* Rows i and j of A, from column `from` on. */
static void turn_rows(Z *A, size_t n, size_t i, size_t from, Turn t) {
  for (size_t k = from; k < n; k++) {
    Z x = A[i * n + k], y = A[(i + 1) * n + k];
    A[i * n + k] = t.c * x + t.s * y;
    A[(i + 1) * n + k] = t.c * y - conj(t.s) * x;
  }
}

/* Columns j and j + 1 of the first `rows` rows, by the adjoint. */
static void turn_columns(Z *A, size_t n, size_t j, size_t rows, Turn t) {
  for (size_t i = 0; i < rows; i++) {
    Z x = A[i * n + j], y = A[i * n + j + 1];
    A[i * n + j] = t.c * x + conj(t.s) * y;
    A[i * n + j + 1] = t.c * y - t.s * x;
  }
}

/* ---- Schur's form ---------------------------------------------------------------------------- */

static void identity(Z *U, size_t n) {
  for (size_t k = 0; k < n * n; k++) U[k] = k % (n + 1) == 0 ? 1 : 0;
}

/* Zeros below the first subdiagonal, from the bottom of each column up. */
static void hessenberg(Z *A, Z *U, size_t n) {
  for (size_t j = 0; j + 2 < n; j++)
    for (size_t i = n - 1; i > j + 1; i--) {
      Turn t = turn_to_zero(A[(i - 1) * n + j], A[i * n + j]);
      turn_rows(A, n, i - 1, j, t);
      A[i * n + j] = 0;
      turn_columns(A, n, i - 1, n, t);
      turn_columns(U, n, i - 1, n, t);
    }
}

/* The eigenvalue of the last 2 x 2 block of rows lo..hi that is nearer to its corner. */
static Z wilkinson(const Z *A, size_t n, size_t hi) {
  Z a = A[(hi - 1) * n + hi - 1], b = A[(hi - 1) * n + hi], c = A[hi * n + hi - 1],
    d = A[hi * n + hi];
  Z half = (a - d) / 2, root = csqrt(half * half + b * c);
  Z more = half + root, less = half - root, larger = cabs(more) > cabs(less) ? more : less;
  return larger == 0 ? d : d - b * c / larger;
}

/* One QR step on rows and columns lo..hi, whose rows above and columns behind follow. */
static void qr_step(Z *A, Z *U, size_t n, size_t lo, size_t hi, Z shift) {
  Z f = A[lo * n + lo] - shift, g = A[(lo + 1) * n + lo];
  for (size_t k = lo; k < hi; k++) {
    Turn t = turn_to_zero(f, g);
    size_t from = k > lo ? k - 1 : lo, below = k + 3 < hi + 1 ? k + 3 : hi + 1;
    turn_rows(A, n, k, from, t);
    if (k > lo) A[(k + 1) * n + k - 1] = 0;
    turn_columns(A, n, k, below, t);
    turn_columns(U, n, k, n, t);
    if (k + 1 < hi) f = A[(k + 1) * n + k], g = A[(k + 2) * n + k];
  }
}

static bool small(const Z *A, size_t n, size_t k, double norm) {
  double near = size1(A[k * n + k]) + size1(A[(k - 1) * n + k - 1]);
  return size1(A[k * n + k - 1]) <= DBL_EPSILON * (near > 0 ? near : norm);
}

bool spectrum_schur(double complex *A, double complex *U, size_t n) {
  enum { MOST = 60, UNUSUAL = 10 };
  double norm = 0;
  for (size_t k = 0; k < n * n; k++) norm += size1(A[k]);
  if (!isfinite(norm)) return false;
  identity(U, n);
  hessenberg(A, U, n);
  for (size_t hi = n ? n - 1 : 0, steps = 0; hi > 0;) {
    size_t lo = hi;
    while (lo > 0 && !small(A, n, lo, norm)) lo--;
    if (lo > 0) A[lo * n + lo - 1] = 0;
    if (lo == hi) {
      hi--, steps = 0;
      continue;
    }
    if (++steps > MOST) return false;
    Z shift = steps % UNUSUAL ? wilkinson(A, n, hi)
                              : A[hi * n + hi] + size1(A[hi * n + hi - 1]); /* breaks a cycle */
    qr_step(A, U, n, lo, hi, shift);
  }
  for (size_t k = 0; k < n * n; k++)
    if (k / n > k % n) A[k] = 0;
  return true;
}

/* x of (T - t_kk) x = 0 with x_k = 1, and nothing behind it. Equal eigenvalues are told apart by a
 * tiny gap. */
static void triangular_vector(const Z *T, size_t n, size_t k, double tiny, Z *x) {
  x[k] = 1;
  for (size_t i = k; i-- > 0;) {
    Z sum = 0, gap = T[i * n + i] - T[k * n + k];
    for (size_t j = i + 1; j <= k; j++) sum += T[i * n + j] * x[j];
    x[i] = -sum / (size1(gap) > tiny ? gap : (Z)tiny);
  }
}

void spectrum_vectors(const double complex *T, const double complex *U, double complex *V,
                      double complex *x, size_t n) {
  double norm = DBL_MIN;
  for (size_t k = 0; k < n * n; k++) norm = fmax(norm, size1(T[k]));
  for (size_t k = 0; k < n; k++) {
    triangular_vector(T, n, k, DBL_EPSILON * norm, x);
    double length = 0;
    for (size_t i = 0; i <= k; i++) length = hypot(length, cabs(x[i]));
    for (size_t i = 0; i < n; i++) {
      Z sum = 0;
      for (size_t j = 0; j <= k; j++) sum += U[i * n + j] * x[j];
      V[i * n + k] = sum / length;
    }
  }
}

/* ---- singular values ------------------------------------------------------------------------- */

/* x* y of columns j and k. */
static Z columns_product(const Z *A, size_t m, size_t n, size_t j, size_t k) {
  Z sum = 0;
  for (size_t i = 0; i < m; i++) sum += conj(A[i * n + j]) * A[i * n + k];
  return sum;
}

/* x' = c x - s p y, y' = s conj(p) x + c y, |p| = 1 */
static void mix_columns(Z *A, size_t m, size_t n, size_t j, size_t k, Turn t) {
  for (size_t i = 0; i < m; i++) {
    Z x = A[i * n + j], y = A[i * n + k];
    A[i * n + j] = t.c * x - conj(t.s) * y;
    A[i * n + k] = t.s * x + t.c * y;
  }
}

/* Makes two columns orthogonal; false: they are. */
static bool separate(Z *A, Z *V, size_t m, size_t n, size_t j, size_t k) {
  double a = creal(columns_product(A, m, n, j, j)), b = creal(columns_product(A, m, n, k, k));
  Z g = columns_product(A, m, n, j, k);
  double size = cabs(g);
  if (!(size > DBL_EPSILON * sqrt(a * b))) return false;
  double zeta = (b - a) / (2 * size);
  double tangent = (zeta < 0 ? -1 : 1) / (fabs(zeta) + sqrt(1 + zeta * zeta));
  double c = 1 / sqrt(1 + tangent * tangent);
  Turn t = {c, c * tangent * g / size};
  mix_columns(A, m, n, j, k, t);
  mix_columns(V, n, n, j, k, t);
  return true;
}

static void swap_columns(Z *A, size_t m, size_t n, size_t j, size_t k) {
  for (size_t i = 0; i < m; i++) {
    Z x = A[i * n + j];
    A[i * n + j] = A[i * n + k];
    A[i * n + k] = x;
  }
}

void spectrum_singular(double complex *A, double *d, double complex *V, size_t m, size_t n) {
  enum { SWEEPS = 60 };
  identity(V, n);
  bool any = true;
  for (int sweep = 0; any && sweep < SWEEPS; sweep++) {
    any = false;
    for (size_t j = 0; j + 1 < n; j++)
      for (size_t k = j + 1; k < n; k++) any |= separate(A, V, m, n, j, k);
  }
  for (size_t j = 0; j < n; j++) d[j] = sqrt(creal(columns_product(A, m, n, j, j)));
  for (size_t j = 0; j < n; j++) {
    size_t best = j;
    for (size_t k = j + 1; k < n; k++)
      if (d[k] > d[best]) best = k;
    double x = d[j];
    d[j] = d[best], d[best] = x;
    swap_columns(A, m, n, j, best);
    swap_columns(V, n, n, j, best);
    for (size_t i = 0; i < m; i++) A[i * n + j] = d[j] > 0 ? A[i * n + j] / d[j] : 0;
  }
}
