/* subspace.h: an objective on a part of q: what may move of phi, while the rest stays where it is.
 *
 * Coordinates are entries of phi, those of the parameters that are free, and one number for every
 * group of parameters whose widths grow together: the variances of all of them, as far as they are
 * their own, are
 *     s_k^2 = b_k + exp(2 t),    b_k = s_k^2 at the start - c,   c just below the least of these:
 * what differs between them stays, and t says how much all vary in common. So the start is a point
 * of the subspace that is no saddle, and where t ends a later fit can begin, and go back.
 */
#ifndef PVI_SUBSPACE_H
#define PVI_SUBSPACE_H

#include "infer/objective.h"
#include "infer/q.h"

/* What may leave a given q. */
typedef struct {
  const bool *fixed; /* by parameter: its distribution stays, but for what its group says */
  const int *group;  /* by parameter: 0, or the number, from 1, of a group of fixed parameters whose
                        widths grow together; NULL: there are none */
} Freedom;

typedef struct Subspace Subspace;

/* About phi, a q of a family of normals; inner is its objective. */
Subspace *subspace_make(Arena *a, const Q *q, const Freedom *f, const Objective *inner,
                        const double *phi);
Objective subspace_objective(Subspace *s);
/* The coordinates of phi itself. */
void subspace_start(const Subspace *s, double *x);
/* phi at given coordinates; lives until the next call. */
const double *subspace_phi(Subspace *s, const double *x);

#endif
