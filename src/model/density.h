/* density.h: the log density of a Model at many points: its value, its gradient, its parts, and the
 * log likelihood of every observation.
 *
 *     log density = likelihood + (prior + Jacobian of the constraints)
 *
 * Points are the lanes of tapes, and go in batches.
 */
#ifndef PVI_DENSITY_H
#define PVI_DENSITY_H

#include "model/model.h"

/* Where results go, point by point; NULL: not wanted. */
typedef struct {
  double *log_density, *prior, *jacobian, *likelihood; /* [n] each; prior: without the Jacobian */
  double *gradient;                                    /* [n x dim], of the log density */
  double *pointwise; /* [n x rows]: log likelihoods, in the order of the rows given */
} DensityOut;

/* The density with the given observations (0-based numbers; NULL: all) in its likelihood, planned
 * for many evaluations; npoints: of one evaluation, about. Nothing is allocated in an evaluation,
 * and one is made at a time. A Model whose observations have no density has none here. */
typedef struct Density Density;
Density *density_make(Arena *a, const Model *m, const size_t *rows, size_t nrows, size_t npoints);
void density_eval(Density *d, const ModelPoints *p, const DensityOut *out);

/* The same for one evaluation: rows go in batches, too, and memory is that of a batch. */
void density_once(Ctx *c, const Model *m, const size_t *rows, size_t nrows, const ModelPoints *p,
                  const DensityOut *out);

#endif
