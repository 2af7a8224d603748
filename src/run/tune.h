/* tune.h: lambda chosen by held-out score: the path from Bayes towards nothing but prediction. */
#ifndef PVI_TUNE_H
#define PVI_TUNE_H

#include "run/folds.h"

/* One lambda of the path. The first is Bayes: VI in the same family, lambda infinite. */
typedef struct {
  double lambda;
  double sum;      /* of the score over the observations when they were held out */
  double gain, se; /* over Bayes, with the standard error of the paired difference */
} TuneStep;

typedef struct TunePath {
  const TuneStep *steps;
  size_t n, best;
  const double *start;  /* of the final fit: the q of all training data at the best lambda */
  const Scores *scores; /* of every observation when it was held out, at the best lambda */
} TunePath;

typedef struct {
  const FitOptions *fit;
  const ScoreList *list;
  Pool *pool;
} TuneOptions;

/* Goes down the path with the training data of the run until it has turned down, and chooses the
 * step whose gain minus its standard error is largest: Bayes has 0. Leaves VI's q in the run. */
TunePath *tune_lambda(Ctx *c, Run *r, const Folds *f, const TuneOptions *t);

#endif
