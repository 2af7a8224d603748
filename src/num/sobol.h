/* sobol.h: scrambled Sobol points, as normals or uniforms. */
#ifndef PVI_NUM_SOBOL_H
#define PVI_NUM_SOBOL_H

#include <stddef.h>
#include <stdint.h>

/* The first M points of a Sobol sequence in `dim` dimensions under Owen's nested uniform scramble,
 * an independent one for every seed and dimension. u[d * ld + i] is coordinate d of point i (i < M
 * <= ld, M <= 2^32): a standard normal, or, when use_uniform, a uniform in (0, 1). In every
 * dimension each of the 2^m dyadic intervals of length 2^-m holds one point when M = 2^m. Needs no
 * memory beyond u; the work is M per dimension. */
void sobol_normal(double *u, size_t dim, size_t M, size_t ld, uint64_t seed, int use_uniform);

/* The same for the dimensions [first, first + dim) of the sequence only, u[0] being dimension
 * `first`; so threads can share. */
void sobol_normal_part(double *u, size_t first, size_t dim, size_t M, size_t ld, uint64_t seed,
                       int use_uniform);

/* Points [first, first + n) of a set of M. */
typedef struct {
  size_t first, n, M;
} SobolSlice;

/* These points alone, as normals, to the bit what they are in the whole set: for those who look at
 * many points but never at all of them at once. u[d * ld + i] belongs to point s.first + i. */
void sobol_normal_slice(double *u, size_t dim, SobolSlice s, size_t ld, uint64_t seed);

#endif
