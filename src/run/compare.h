/* compare.h: several fits of the same observations, and what one predicts better than another.
 *
 * Fits come from run folders, or are made here: programs by methods, on the same folds. Differences
 * are taken observation by observation, so they mean something only where all fits have the same
 * data, the same observations and the same rows held out: anything else is refused.
 */
#ifndef PVI_COMPARE_H
#define PVI_COMPARE_H

#include "run/run.h"

/* One fit among them. */
typedef struct {
  const char *label;           /* tells it from the others */
  const char *program, *score; /* as asked for: elbo is VI */
  const char *folder;          /* NULL: it was made here */
  const Summary *s;
  const ScoreTable *scores;
  const char *data_hash;
  long seed;
} Compared;

/* One score of one fit: its sum over the rows, and the difference to the best fit. */
typedef struct {
  double sum, difference, se;
} ComparedScore;

typedef struct {
  const Compared *fits;
  size_t n;
  const char *rows; /* what is compared: "held out (folds 5)", or the part of the data */
  const char *const *scores;
  size_t nscores;
  const ComparedScore *values; /* [nscores x n] */
  const size_t *best;          /* nscores: a fit each */
  const double *logs;          /* [nrows x n]: log score of every row that counts; NULL: some fit
                                  has none */
  size_t nrows;
  const size_t *observations; /* nrows: which they are */
  const Problem *problem;     /* of the first fit that was made here; NULL: all are from folders */
} Comparison;

/* Refuses an option that would have no effect on runs, which are fitted already. */
void compare_check_runs(Ctx *c, const Options *o);
Comparison *compare_runs(Ctx *c, const char *const *folders, size_t n);
/* places: programs, then their data; every method of the option `methods`. */
Comparison *compare_models(Ctx *c, const char *const *places, size_t n, const Options *o,
                           const RunHooks *h);
/* What the log score says, a sentence without its point; NULL: there is none to say it. */
const char *compare_verdict(Ctx *c, const Comparison *r);

#endif
