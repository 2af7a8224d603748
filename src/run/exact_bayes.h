/* exact_bayes.h: the posterior itself, by draws, on held-out observations: what VI and PVI are
 * judged by. */
#ifndef PVI_EXACT_BAYES_H
#define PVI_EXACT_BAYES_H

#include "run/folds.h"
#include "run/sampling.h"

/* Chains for every fold, all begun at the same place. */
typedef struct {
  const Problem *problem;
  const Options *o; /* of the sampler */
  const Folds *folds;
  const SampleStart *start;
  const ScoreList *list;
  const RunHooks *hooks; /* NULL: nobody asks */
} ExactFolds;

/* Scores of every observation when it was held out, in the part "test"; *rhat is the worst of all
 * folds. NULL: it was interrupted. */
const Scores *exact_folds(Ctx *c, const ExactFolds *e, double *rhat);

/* The same beside a fit: start is a q near the posterior. vi, fit: held-out scores of theirs, NULL:
 * there are none. */
typedef struct {
  const Problem *problem;
  const Options *o; /* of the fit */
  const Folds *folds;
  const Q *q;
  const double *phi;
  const ScoreList *list;
  const char *score; /* which of the list is compared */
  const Scores *vi, *fit;
  const RunHooks *hooks;
} ExactBeside;
const SummaryExact *exact_beside(Ctx *c, const ExactBeside *e);
/* What that says, a sentence. */
const char *exact_words(Ctx *c, const SummaryExact *x);
/* Is it to be had? Ends with PVI_USAGE where not. */
void exact_check(Ctx *c, const Model *m, const Options *o, bool has_folds);

#endif
