/* sandwich.h: how far what a predictive fit finds would differ with other data: H^-1 J H^-1, H the
 * second derivatives of the sum of the scores, J the sum over the observations of the squares of
 * their first. It holds whether the program is right or not. */
#ifndef PVI_SANDWICH_H
#define PVI_SANDWICH_H

#include "base/base.h"

typedef struct {
  size_t n; /* observations */
  /* Their scores at phi. */
  void (*scores)(void *self, const double *phi, double *out);
  void *self;
} ScoredAt;

/* The standard error of phi[at[1]], where phi[at[0]] and phi[at[1]] were free and are at their
 * optimum; step: how far each is moved for differences. NaN: it is no proper optimum, as where a
 * width is zero. phi is changed, and restored. */
double sandwich_error(Arena *a, const ScoredAt *s, double *phi, const size_t at[2],
                      const double step[2]);

#endif
