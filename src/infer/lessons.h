/* lessons.h: Lessons, pairs (theta, summary of data) that a program makes: theta drawn from its
 * prior, data simulated with it.
 *
 * The prior is sampled as posteriors are (sampler.h), with no observations: whatever a program says
 * of its parameters counts, as long as it can be normalised. The pairs also teach how data
 * are summarised (embedding.h).
 */
#ifndef PVI_LESSONS_H
#define PVI_LESSONS_H

#include "infer/fit.h"
#include "infer/sampler.h"

/* What goes on is told, and may be cut short. */
typedef struct {
  void (*progress)(void *self, const FitProgress *p);
  bool (*cancelled)(void *self);
  void *self;
} LessonHooks;

typedef struct {
  size_t n, dim, size; /* pairs; parameters; numbers of a summary */
  double *t;           /* [n x dim]: theta = centre + scale t */
  double *s;           /* [n x size], each number with mean 0 and sd 1 */
  double *centre, *scale;
  double *seen; /* size: the summary of the data that were observed */
  /* Numbers of `seen` that lie beyond all simulated ones, and how many data sets were dropped
   * because they had numbers that are not finite. */
  size_t outside, dropped;
  long evaluations; /* of the prior */
} Lessons;

/* Of the observations in `rows`, n of them, about `pairs` lessons. Ends with PVI_PROGRAM where
 * prior or outcomes cannot be drawn. */
typedef struct {
  const Model *model;
  const size_t *rows;
  size_t n, pairs;
  uint64_t seed;
  LessonHooks hooks;
} LessonPlan;
Lessons *lessons_make(Ctx *c, const LessonPlan *plan, Pool *pool);

/* PVI_INTERRUPTED where the hooks say so. */
void lessons_check(Ctx *c, const LessonHooks *h, const char *when);

#endif
