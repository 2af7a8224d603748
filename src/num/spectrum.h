/* spectrum.h: eigenvalues, eigenvectors and singular values of complex matrices, row-major. Nothing
 * allocates; what cannot be done returns false. */
#ifndef PVI_NUM_SPECTRUM_H
#define PVI_NUM_SPECTRUM_H

#include <complex.h>
#include <stdbool.h>
#include <stddef.h>

/* re + i im, whatever they are: a product with i would make nan of infinities. (CMPLX of C11 is not
 * to be had with every compiler.) */
static inline double complex spectrum_number(double re, double im) {
  union {
    double parts[2];
    double complex z;
  } u = {{re, im}};
  return u.z;
}

/* A = U T U*, T upper triangular and U unitary; A becomes T. False: no convergence (not finite). */
bool spectrum_schur(double complex *A, double complex *U, size_t n);
/* From T and U: V's columns, of length one, are the eigenvectors of U T U*. */
void spectrum_vectors(const double complex *T, const double complex *U, double complex *V,
                      double complex *x /* n, to work in */, size_t n);
/* A = U diag(d) V*, A m x n with m >= n, by rotations of columns (Hestenes): A becomes U, d
 * descends. */
void spectrum_singular(double complex *A, double *d, double complex *V, size_t m, size_t n);

#endif
