/* observed.h: the observations of one part, ready to be scored: their tape and what was seen. */
#ifndef PVI_OBSERVED_H
#define PVI_OBSERVED_H

#include "model/model.h"
#include "model/reduce.h"
#include "score/score.h"

typedef struct {
  const Model *model;
  Tape *tape;
  size_t n;
  int32_t *obs;         /* number of the observation of each row */
  double *y, *size;     /* of each row, where its block knows them */
  const double **sim_y; /* of each row: what a simulated outcome is compared with */
  Kind *kinds;          /* of each block; KIND_NONE: unknown */
  unsigned wants;       /* heads of the tape: WANT_LL, WANT_PARAMETERS */
  /* for exact integration, where asked for by observed_reduce: NULL, and the reason, where it cannot be */
  const Reduction *reduction, *prior;
  const char *not_reduced, *prior_not_reduced;
} Observed;

/* The given observations (0-based; NULL: all). */
Observed *observed_make(Ctx *c, const Model *m, const size_t *rows, size_t nrows, unsigned wants);
void observed_reduce(Observed *o);
void observed_reduce_prior(Observed *o); /* only that */
Kind observed_kind(const ObsBlock *b);
/* Can the score be computed for every observation? If not, *why is the reason. */
bool observed_allows(Ctx *c, const Model *m, ScoreId score, const char **why);
/* The same for held-out observations, where no derivatives are needed. */
bool observed_evaluates(Ctx *c, const Model *m, ScoreId score, const char **why);

#endif
