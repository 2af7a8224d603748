/* hermite.h: Gauss-Hermite quadrature for the standard normal law: E f(X) = sum_k w[k] f(x[k]),
 * exact for polynomials of degree 2 n - 1. */
#ifndef PVI_NUM_HERMITE_H
#define PVI_NUM_HERMITE_H

#include <stddef.h>

/* Nodes ascending and symmetric, weights summing to one. */
void hermite_rule(size_t n, double *x, double *w);

/* The rule to use with n nodes: Gauss-Hermite's up to 64; from there on the trapezoidal rule on
 * [-reach, reach]. 0 is 8.5, beyond which lies less than a double's last digit of the law. For a
 * function with a pole at distance d of the real line its error goes as exp(-2 pi d / spacing), and
 * Gauss-Hermite spends nodes on the far tails: with 256 nodes its spacing is twice as wide. */
void normal_rule(size_t n, double reach, double *x, double *w);

#endif
