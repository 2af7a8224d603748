/* learn.h: weights that make a loss over lessons small: Adam on batches, the weights kept that do
 * best on lessons that were set aside.
 *
 * A batch is PIECES pieces of PIECE lessons. Pieces are work for threads, each with a gradient of
 * its own, and gradients are added in their order: the weights do not depend on the threads.
 */
#ifndef PVI_LEARN_H
#define PVI_LEARN_H

#include "infer/lessons.h"

enum { PIECE = 32, PIECES = 4 };

/* PIECE lessons: which they are; the number of the piece in the whole course, for random numbers;
 * and the learner's working memory. */
typedef struct {
  const size_t *which;
  uint64_t number;
  double *room;
} LessonPiece;

typedef struct {
  size_t weights, room;
  /* The sum of the losses of a piece; grad += that of the weights. grad NULL: it is not wanted. */
  double (*loss)(const void *self, const double *w, const LessonPiece *p, double *grad);
  const void *self;
  const char *stage; /* what it is called while it goes on */
} Learner;

typedef struct {
  long epochs; /* passes through the lessons */
  double rate; /* at first; it falls to zero along a cosine */
  uint64_t seed;
  LessonHooks hooks;
} LearnOptions;

typedef struct {
  double loss; /* the best mean over the lessons that were set aside */
  long epochs, best, steps;
  bool interrupted; /* the weights are the best so far */
  FitTrace *trace;  /* one row an epoch */
  size_t ntrace, cap_trace;
} Learned;

/* w: where it begins, and the result. Ends with PVI_INTERRUPTED where it is cut short before the
 * first epoch ends, with PVI_FAILURE where no loss is finite. */
Learned learn(Ctx *c, const Learner *f, size_t lessons, const LearnOptions *o, Pool *pool,
              double *w);

#endif
