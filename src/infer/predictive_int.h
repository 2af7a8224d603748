/* predictive_int.h: what the two ways of evaluating the objective share: predictive.c (draws) and
 * exact.c (quadrature). */
#ifndef PVI_PREDICTIVE_INT_H
#define PVI_PREDICTIVE_INT_H

#include "infer/predictive.h"

#include <math.h>

/* Scores of the observations at the last evaluation, row by row. */
const double *predictive_rows(const Predictive *p);

static inline void times(double *x, double c, size_t n) {
  for (size_t j = 0; x && c != 1 && j < n; j++) x[j] *= c;
}

static inline bool all_finite(const double *x, size_t n) {
  for (size_t k = 0; k < n; k++)
    if (!isfinite(x[k])) return false;
  return true;
}

/* Time since *clock to *sum; the clock goes on. */
static inline void pass(double *clock, double *sum) {
  double now = base_seconds();
  *sum += now - *clock;
  *clock = now;
}

/* The workers' times in tiles, to the stages they belong to. */
static inline void pass_tiles(Stages *s, VmTimes *times_of, int workers, double *clock) {
  for (int k = 0; k < workers; k++) {
    s->draws += times_of[k].draws;
    s->observations += times_of[k].forward;
    s->score += times_of[k].score;
    s->adjoints += times_of[k].backward;
    times_of[k] = (VmTimes){0};
  }
  *clock = base_seconds();
}

#endif
