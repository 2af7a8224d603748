/* linalg.c: small dense linear algebra, written for clarity and a fixed order of summation. */
#include "num/linalg.h"

#include <math.h>
#include <string.h>

/* Four partial sums in a fixed order: independent of alignment and of threads. */
double la_dot(const double *x, const double *y, size_t n) {
  double s[4] = {0};
  size_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (size_t k = 0; k < 4; k++) s[k] += x[i + k] * y[i + k];
  for (; i < n; i++) s[0] += x[i] * y[i];
  return (s[0] + s[2]) + (s[1] + s[3]);
}

double la_norm(const double *x, size_t n) {
  double s = sqrt(la_dot(x, x, n)), max = 0, sum = 0;
  if ((s > 1e-140 && s < 1e140) || isnan(s)) return s;
  for (size_t i = 0; i < n; i++) max = fmax(max, fabs(x[i]));
  if (max == 0 || isinf(max)) return max;
  for (size_t i = 0; i < n; i++) sum += (x[i] / max) * (x[i] / max);
  return max * sqrt(sum);
}

void la_axpy(double a, const double *x, double *y, size_t n) {
  for (size_t i = 0; i < n; i++) y[i] += a * x[i];
}

void la_matvec(const double *A, const double *x, double *y, size_t rows, size_t cols) {
  for (size_t i = 0; i < rows; i++) y[i] = la_dot(A + i * cols, x, cols);
}

void la_matvec_t(const double *A, const double *x, double *y, size_t rows, size_t cols) {
  memset(y, 0, cols * sizeof *y);
  for (size_t i = 0; i < rows; i++) la_axpy(x[i], A + i * cols, y, cols);
}

/* L_ij = (A_ij - sum_k<j L_ik L_jk) / L_jj, row by row. */
bool la_cholesky(const double *A, double *L, size_t n) {
  for (size_t i = 0; i < n; i++) {
    double *Li = L + i * n;
    for (size_t j = 0; j < i; j++) Li[j] = (A[i * n + j] - la_dot(Li, L + j * n, j)) / L[j * n + j];
    double d = A[i * n + i] - la_dot(Li, Li, i);
    if (!(d > 0)) return false;
    Li[i] = sqrt(d);
    for (size_t j = i + 1; j < n; j++) Li[j] = 0;
  }
  return true;
}

/* dA = L^-T Phi(L' dL) L^-1, symmetrised, where Phi takes the lower triangle and halves the
 * diagonal (Murray 2016). The off-diagonal element of dA stands for both of A's, so it is twice the
 * symmetric one. */
void la_cholesky_adjoint(const double *L, const double *dL, double *dA, double *work, size_t n) {
  double *P = work;
  for (size_t i = 0; i < n; i++) /* P = Phi(L' dL), made symmetric */
    for (size_t j = 0; j <= i; j++) {
      double s = 0;
      for (size_t k = i; k < n; k++) s += L[k * n + i] * dL[k * n + j];
      P[i * n + j] = P[j * n + i] = 0.5 * s;
    }
  for (size_t i = 0; i < n; i++) la_solve_lower_t(L, P + i * n, P + i * n, n); /* rows: P L^-1 */
  for (size_t j = 0; j < n; j++) /* columns: L^-T (P L^-1) */
    for (size_t i = n; i-- > 0;) {
      double s = P[i * n + j];
      for (size_t k = i + 1; k < n; k++) s -= L[k * n + i] * P[k * n + j];
      P[i * n + j] = s / L[i * n + i];
    }
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j <= i; j++)
      dA[i * n + j] += i == j ? P[i * n + i] : P[i * n + j] + P[j * n + i];
}

void la_solve_lower(const double *L, const double *b, double *x, size_t n) {
  for (size_t i = 0; i < n; i++) x[i] = (b[i] - la_dot(L + i * n, x, i)) / L[i * n + i];
}

void la_solve_lower_t(const double *L, const double *b, double *x, size_t n) {
  if (x != b) memcpy(x, b, n * sizeof *x);
  for (size_t i = n; i-- > 0;) {
    x[i] /= L[i * n + i];
    la_axpy(-x[i], L + i * n, x, i);
  }
}

void la_cholesky_solve(const double *L, const double *b, double *x, size_t n) {
  la_solve_lower(L, b, x, n);
  la_solve_lower_t(L, x, x, n);
}

void la_inverse_lower(const double *L, double *X, size_t n) {
  for (size_t i = 0; i < n; i++) {
    double *Xi = X + i * n, d = 1 / L[i * n + i];
    memset(Xi, 0, n * sizeof *Xi);
    for (size_t k = 0; k < i; k++) la_axpy(-L[i * n + k] * d, X + k * n, Xi, k + 1);
    Xi[i] = d;
  }
}

/* X' X with X = L^-1 */
void la_cholesky_inverse(const double *L, double *X, double *work, size_t n) {
  la_inverse_lower(L, work, n);
  memset(X, 0, n * n * sizeof *X);
  for (size_t k = 0; k < n; k++)
    for (size_t i = 0; i <= k; i++) la_axpy(work[k * n + i], work + k * n, X + i * n, k + 1);
}

double la_log_det_cholesky(const double *L, size_t n) {
  double s = 0;
  for (size_t i = 0; i < n; i++) s += log(L[i * n + i]);
  return 2 * s;
}

/* Householder's reflection of column j takes in R_jj and B's column: I - tau v v', v = (1, b). */
void la_qr_append(double *R, double *B, double *room, size_t n, size_t p) {
  for (size_t j = 0; j < p; j++) {
    double *Rj = R + j * p, square = 0, alpha = Rj[j];
    for (size_t r = 0; r < n; r++) square += B[r * p + j] * B[r * p + j];
    if (square == 0) continue;
    double beta = alpha > 0 ? -sqrt(alpha * alpha + square) : sqrt(alpha * alpha + square);
    double tau = (beta - alpha) / beta;
    size_t left = p - j - 1;
    memcpy(room, Rj + j + 1, left * sizeof *room);
    for (size_t r = 0; r < n; r++) {
      B[r * p + j] /= alpha - beta;
      la_axpy(B[r * p + j], B + r * p + j + 1, room, left);
    }
    la_axpy(-tau, room, Rj + j + 1, left);
    for (size_t r = 0; r < n; r++) la_axpy(-tau * B[r * p + j], room, B + r * p + j + 1, left);
    Rj[j] = beta;
  }
}

/* Doolittle with partial pivoting. */
bool la_lu(double *A, size_t *pivot, int *sign, size_t n) {
  *sign = 1;
  for (size_t k = 0; k < n; k++) {
    size_t p = k;
    for (size_t i = k + 1; i < n; i++)
      if (fabs(A[i * n + k]) > fabs(A[p * n + k])) p = i;
    pivot[k] = p;
    if (!(fabs(A[p * n + k]) > 0)) return false;
    if (p != k) {
      *sign = -*sign;
      for (size_t j = 0; j < n; j++) {
        double t = A[k * n + j];
        A[k * n + j] = A[p * n + j];
        A[p * n + j] = t;
      }
    }
    for (size_t i = k + 1; i < n; i++) {
      double f = A[i * n + k] /= A[k * n + k];
      la_axpy(-f, A + k * n + k + 1, A + i * n + k + 1, n - k - 1);
    }
  }
  return true;
}

void la_lu_solve(const double *LU, const size_t *pivot, const double *b, double *x, size_t n) {
  memcpy(x, b, n * sizeof *x);
  for (size_t k = 0; k < n; k++) {
    double t = x[pivot[k]];
    x[pivot[k]] = x[k];
    x[k] = t;
  }
  for (size_t i = 0; i < n; i++) x[i] -= la_dot(LU + i * n, x, i);
  for (size_t i = n; i-- > 0;)
    x[i] = (x[i] - la_dot(LU + i * n + i + 1, x + i + 1, n - i - 1)) / LU[i * n + i];
}

/* ---- symmetric eigenvalues ------------------------------------------------------------------- */

static void set_identity(double *V, size_t n) {
  memset(V, 0, n * n * sizeof *V);
  for (size_t i = 0; i < n; i++) V[i * n + i] = 1;
}

/* Columns p and q of A, m x n. */
static void turn_columns(double *A, size_t p, size_t q, size_t m, size_t n, double c, double s) {
  for (size_t i = 0; i < m; i++) {
    double x = A[i * n + p], y = A[i * n + q];
    A[i * n + p] = c * x - s * y;
    A[i * n + q] = s * x + c * y;
  }
}

static void swap_columns(double *A, size_t p, size_t q, size_t m, size_t n) {
  for (size_t i = 0; i < m; i++) {
    double t = A[i * n + p];
    A[i * n + p] = A[i * n + q];
    A[i * n + q] = t;
  }
}

static void swap_rows(double *x, double *y, size_t n) {
  for (size_t k = 0; k < n; k++) {
    double t = x[k];
    x[k] = y[k];
    y[k] = t;
  }
}

/* The block of A behind row k, reflected from both sides by 1 - beta v v'. */
static void reflect_block(double *A, const double *v, double beta, size_t k, size_t n, double *p) {
  size_t m = n - k - 1;
  for (size_t i = 0; i < m; i++) p[i] = beta * la_dot(A + (k + 1 + i) * n + k + 1, v, m);
  double half = 0.5 * beta * la_dot(p, v, m);
  for (size_t i = 0; i < m; i++) p[i] -= half * v[i];
  for (size_t i = 0; i < m; i++)
    for (size_t j = 0; j < m; j++) A[(k + 1 + i) * n + k + 1 + j] -= v[i] * p[j] + p[i] * v[j];
}

/* Reflections of A to a tridiagonal matrix with diagonal d and e beside it. The vectors of the
 * reflections stay in the rows of A, right of the diagonal; beta in what is below it. */
static void tridiagonalise(double *A, double *d, double *e, double *p, size_t n) {
  for (size_t k = 0; k + 1 < n; k++) {
    size_t m = n - k - 1;
    double *v = A + k * n + k + 1, beta = 0;
    for (size_t i = 0; i < m; i++) v[i] = A[(k + 1 + i) * n + k];
    double tail = la_dot(v + 1, v + 1, m - 1), norm = sqrt(v[0] * v[0] + tail);
    d[k] = A[k * n + k];
    e[k] = v[0];
    if (tail > 0) {
      e[k] = v[0] > 0 ? -norm : norm;
      v[0] -= e[k];
      beta = 2 / (v[0] * v[0] + tail);
      reflect_block(A, v, beta, k, n, p);
    }
    A[(k + 1) * n + k] = beta;
  }
  d[n - 1] = A[n * n - 1];
  e[n - 1] = 0;
}

/* Z = the transpose of the reflections' product: rows of Z are columns of it. */
static void gather_reflections(const double *A, double *Z, size_t n) {
  set_identity(Z, n);
  for (size_t k = n - 1; k-- > 0;) {
    size_t m = n - k - 1;
    const double *v = A + k * n + k + 1;
    for (size_t r = k + 1; r < n; r++) {
      double *z = Z + r * n + k + 1, s = A[(k + 1) * n + k] * la_dot(z, v, m);
      for (size_t j = 0; j < m; j++) z[j] -= s * v[j];
    }
  }
}

/* One implicit QL step on the block l .. m (Wilkinson's shift); rows of Z are turned with it. */
static void ql_step(double *d, double *e, double *Z, size_t l, size_t m, size_t n) {
  double g = (d[l + 1] - d[l]) / (2 * e[l]), s = 1, c = 1, p = 0;
  g = d[m] - d[l] + e[l] / (g + copysign(hypot(g, 1), g));
  for (size_t i = m; i-- > l;) {
    double f = s * e[i], b = c * e[i], r = hypot(f, g);
    e[i + 1] = r;
    if (r == 0) { /* the block has come apart by itself */
      d[i + 1] -= p;
      e[m] = 0;
      return;
    }
    s = f / r, c = g / r;
    g = d[i + 1] - p;
    r = (d[i] - g) * s + 2 * c * b;
    p = s * r;
    d[i + 1] = g + p;
    g = c * r - b;
    double *x = Z + i * n, *y = x + n;
    for (size_t k = 0; k < n; k++) {
      double t = y[k];
      y[k] = s * x[k] + c * t;
      x[k] = c * x[k] - s * t;
    }
  }
  d[l] -= p;
  e[l] = g;
  e[m] = 0;
}

/* The last index of the block that begins at l: what is beside its diagonal is not zero. */
static size_t block_end(const double *d, const double *e, size_t l, size_t n) {
  size_t m = l;
  while (m + 1 < n && !(fabs(e[m]) <= 1.1e-16 * (fabs(d[m]) + fabs(d[m + 1])))) m++;
  return m;
}

/* z becomes column i of V; its largest number is positive. */
static void set_vector(double *V, const double *z, size_t i, size_t n) {
  size_t top = 0;
  for (size_t k = 1; k < n; k++)
    if (fabs(z[k]) > fabs(z[top])) top = k;
  for (size_t k = 0; k < n; k++) V[k * n + i] = z[top] < 0 ? -z[k] : z[k];
}

bool la_is_symmetric(const double *A, size_t n) {
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < i; j++)
      if (fabs(A[i * n + j] - A[j * n + i]) > 1e-8) return false;
  return true;
}

bool la_eigen_symmetric(double *A, double *w, double *V, double *room, size_t n) {
  double *Z = room, *e = Z + n * n, *rest = e + n;
  double sum = 0;
  for (size_t k = 0; k < n * n; k++) sum += fabs(A[k]);
  if (!isfinite(sum) || n == 0) return n == 0;
  tridiagonalise(A, w, e, rest, n);
  gather_reflections(A, Z, n);
  for (size_t l = 0, steps = 0; l < n;) {
    size_t m = block_end(w, e, l, n);
    if (m == l) {
      l++;
    } else if (steps++ > 60 * n) {
      return false;
    } else {
      ql_step(w, e, Z, l, m, n);
    }
  }
  for (size_t i = 0; i < n; i++) {
    size_t least = i;
    for (size_t j = i + 1; j < n; j++)
      if (w[j] < w[least]) least = j;
    double t = w[i];
    w[i] = w[least], w[least] = t;
    swap_rows(Z + i * n, Z + least * n, n);
    set_vector(V, Z + i * n, i, n);
  }
  return true;
}

/* ---- singular values ------------------------------------------------------------------------- */

static double column_dot(const double *A, size_t p, size_t q, size_t m, size_t n) {
  double s = 0;
  for (size_t i = 0; i < m; i++) s += A[i * n + p] * A[i * n + q];
  return s;
}

/* Columns p and q become orthogonal; true when they were. */
static bool orthogonalise(double *A, double *V, size_t p, size_t q, size_t m, size_t n) {
  double a = column_dot(A, p, p, m, n), b = column_dot(A, q, q, m, n),
         g = column_dot(A, p, q, m, n);
  if (!(fabs(g) > 1e-16 * sqrt(a * b)) || g == 0) return true;
  double z = (b - a) / (2 * g), t = (z < 0 ? -1 : 1) / (fabs(z) + sqrt(1 + z * z)),
         c = 1 / sqrt(1 + t * t);
  turn_columns(A, p, q, m, n, c, c * t);
  turn_columns(V, p, q, n, n, c, c * t);
  return false;
}

void la_singular(double *A, double *d, double *V, size_t m, size_t n) {
  bool done = false;
  set_identity(V, n);
  for (int sweep = 0; sweep < 60 && !done; sweep++) {
    done = true;
    for (size_t p = 0; p < n; p++)
      for (size_t q = p + 1; q < n; q++) done &= orthogonalise(A, V, p, q, m, n);
  }
  for (size_t j = 0; j < n; j++) {
    size_t top = j;
    double most = -1;
    for (size_t k = j; k < n; k++) {
      double norm = sqrt(column_dot(A, k, k, m, n));
      if (norm > most) top = k, most = norm;
    }
    d[j] = most;
    if (top != j) {
      swap_columns(A, j, top, m, n);
      swap_columns(V, j, top, n, n);
    }
    for (size_t i = 0; most > 0 && i < m; i++) A[i * n + j] /= most;
  }
}
