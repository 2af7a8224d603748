/* family_int.h: what the files of this folder share. */
#ifndef PVI_FAMILY_INT_H
#define PVI_FAMILY_INT_H

#include "family/family.h"

#define HALF_LOG_2PI 0.91893853320467274178

static inline size_t family_padded(size_t n) { return (n + LANES - 1) / LANES * LANES; }

/* An sd, but no less than a tenth of the k-th unit, where there are units. */
static inline double family_wider(double sd, const double *unit, size_t k) {
  return unit && 0.1 * unit[k] > sd ? 0.1 * unit[k] : sd;
}

/* ---- whitened.c ------------------------------------------------------------------------------ */

size_t fullrank_precondition(const double *phi, const double *at, const Shape *shape, double *room,
                             double *x);
bool fullrank_leap(const double *phi, const Shape *shape, double lambda, const double *grad,
                   double *room, double *to);

size_t family_one_normal(const Shape *s); /* Family.normals of those that are one: 1 */

/* Moments from a fixed set of 4096 draws, for families without a formula: their draws have equal
 * weights. */
void family_sampled_moments(const Family *f, const double *phi, const Shape *s, double *mean,
                            double *sd);

#endif
