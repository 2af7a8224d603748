/* sparse_hessian.h: the Hessian of an objective by few differences of its gradient, or a known one
 * of few numbers, for Newton's method.
 *
 * Numbers of phi that no observation and no term of the prior sees together have no second
 * derivative in common, so they can be moved at once. With many groups, items or persons, a dozen
 * moves stand for hundreds. */
#ifndef PVI_SPARSE_HESSIAN_H
#define PVI_SPARSE_HESSIAN_H

#include "infer/archive.h"

typedef struct SparseHessian SparseHessian;

/* A gradient at phi; false: it is not finite, or nobody waits for it any more. */
typedef struct {
  size_t dim;
  void *self;
  bool (*at)(void *self, const double *phi, double *grad);
} Gradient;

/* Which second derivatives there are is found at phi, by moving one number after the other in
 * `probe`: as cheap a gradient as there is with the same zeros. unit: that of every number, of
 * which a difference is a small part. NULL: they are too many to pay, or the probe is not finite.
 */
SparseHessian *sparse_hessian_make(Arena *a, const Gradient *probe, const double *phi,
                                   const double *unit);
/* How many gradients one Hessian takes, besides that at phi itself. */
size_t sparse_hessian_moves(const SparseHessian *h);
/* A second derivative that is smaller than `least` is none, and `instead` takes its place on the
 * diagonal; one of each for every number. */
typedef struct {
  double *least, *instead;
} Straight;

/* Minus the Hessian at phi, made positive definite, is factored. base: the gradient there. False:
 * a gradient near phi is not finite. */
bool sparse_hessian_renew(SparseHessian *h, const Gradient *g, const double *phi,
                          const double *base, const double *unit, const Straight *straight);
/* Was it positive definite as it was? */
bool sparse_hessian_is_definite(const SparseHessian *h);
void sparse_hessian_matrix(const SparseHessian *h, double *A);           /* all of it, n x n */
void sparse_hessian_solve(SparseHessian *h, const double *b, double *x); /* x may be b */
/* The factor, for runs that are interrupted. */
void sparse_hessian_state(SparseHessian *h, Archive *a);

/* For a Hessian that is known as a matrix A, n x n, most of whose numbers are zero: where they are
 * not is seen in A. NULL: the factor would have too many numbers. */
SparseHessian *sparse_hessian_of(Arena *a, const double *A, size_t n);
bool sparse_hessian_set(SparseHessian *h, const double *A); /* A is factored, likewise */
/* Where its numbers are and the factor, for runs that are interrupted; *h is made where the archive
 * reads. */
void sparse_hessian_whole_state(Arena *room, SparseHessian **h, size_t n, Archive *a);

#endif
