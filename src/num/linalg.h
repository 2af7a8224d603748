/* linalg.h: small dense linear algebra. Matrices are row-major, n x n with leading dimension n
 * unless said otherwise.
 *
 * Functions that can fail return false and leave their output unspecified; nothing allocates.
 */
#ifndef PVI_NUM_LINALG_H
#define PVI_NUM_LINALG_H

#include <stdbool.h>
#include <stddef.h>

double la_dot(const double *x, const double *y, size_t n);
double la_norm(const double *x, size_t n);                    /* Euclidean, without overflow */
void la_axpy(double a, const double *x, double *y, size_t n); /* y += a x */
void la_matvec(const double *A, const double *x, double *y, size_t rows, size_t cols); /* y = A x */
void la_matvec_t(const double *A, const double *x, double *y, size_t rows,
                 size_t cols); /* y = A' x */

/* A = L L'. Reads the lower triangle of A, writes L with zeros above; in place when L == A. False
 * when A is not positive definite. */
bool la_cholesky(const double *A, double *L, size_t n);
/* The adjoint: given dL (lower triangle), adds to dA (its lower triangle, A understood as
 * symmetric) what the value depends on.
 */
void la_cholesky_adjoint(const double *L, const double *dL, double *dA, double *work /* n x n */,
                         size_t n);

void la_solve_lower(const double *L, const double *b, double *x,
                    size_t n); /* L x = b; in place when x == b */
void la_solve_lower_t(const double *L, const double *b, double *x,
                      size_t n); /* L' x = b; in place when x == b */
void la_cholesky_solve(const double *L, const double *b, double *x, size_t n); /* L L' x = b */
void la_inverse_lower(const double *L, double *X, size_t n);                   /* X = L^-1 */
void la_cholesky_inverse(const double *L, double *X, double *work /* n x n */,
                         size_t n);                    /* X = (L L')^-1 */
double la_log_det_cholesky(const double *L, size_t n); /* log det(L L') = 2 sum log L_ii */

/* R, p x p and upper triangular, becomes that of the QR decomposition of R with the n rows of B
 * beneath, which is destroyed: R'R grows by B'B. room: p numbers. */
void la_qr_append(double *R, double *B, double *room, size_t n, size_t p);

/* General square systems: P A = L U in place with row pivots. False when singular. */
bool la_lu(double *A, size_t *pivot, int *sign, size_t n);
void la_lu_solve(const double *LU, const size_t *pivot, const double *b, double *x,
                 size_t n); /* x and b apart */

bool la_is_symmetric(const double *A, size_t n); /* to 1e-8, as Stan has it */
/* A = V diag(w) V', A symmetric (destroyed), by Householder's reflections and the QL method:
 * eigenvalues ascending, V's columns the eigenvectors, each with its largest number positive.
 * Errors are those of the largest eigenvalue's last digits. room: n^2 + 2 n numbers. False where A
 * is not finite, or nothing converges. */
bool la_eigen_symmetric(double *A, double *w, double *V, double *room, size_t n);

/* A = U diag(d) V', A m x n with m >= n, by rotations of columns (Hestenes): A becomes U, d
 * descends. */
void la_singular(double *A, double *d, double *V, size_t m, size_t n);

#endif
