/* meetings.h: who meets whom: which second derivatives an objective has, seen by moving its numbers
 * and looking whose derivatives change. */
#ifndef PVI_MEETINGS_H
#define PVI_MEETINGS_H

#include "infer/sparse_hessian.h"

/* Of number k those of row[first[k]] to row[first[k + 1] - 1], ascending, itself among them. */
typedef struct {
  size_t *first; /* [n + 1] */
  int32_t *row;
} Meetings;

/* By FAR of their units. False: the probe is not finite, or more than `most` numbers meet more than
 * that. Where a change is lost in rounding, only one of the two may tell that they meet. */
bool meetings_find(Arena *a, const Gradient *probe, const double *phi, const double *unit,
                   size_t most, Meetings *m);

#endif
