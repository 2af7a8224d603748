/* legendre.h: Gauss-Legendre quadrature on (0, 1): the integral of f is sum_k w[k] f(x[k]), exact
 * for polynomials of degree 2 n - 1. */
#ifndef PVI_NUM_LEGENDRE_H
#define PVI_NUM_LEGENDRE_H

#include <stddef.h>

/* Nodes ascending and symmetric, weights summing to one. */
void legendre_rule(size_t n, double *x, double *w);

#endif
