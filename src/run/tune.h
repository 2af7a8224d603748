/* tune.h: lambda, and which variables may leave their Bayes distribution, chosen by held-out score.
 */
#ifndef PVI_TUNE_H
#define PVI_TUNE_H

#include "run/folds.h"

/* One lambda of the path. The first is Bayes: VI in the same family, lambda infinite. */
typedef struct {
  Regularizer regularizer;
  double lambda;
  double sum;      /* of the score over the observations when they were held out */
  double gain, se; /* over Bayes, with the standard error of the paired difference */
} TuneStep;

/* What was let go: a variable of the program, an element, or common:NAME; and what the fit gained
 * over Bayes with it and those before it. */
typedef struct {
  const char *name;
  double gain, se;
} FreedVariable;

typedef struct TunePath {
  const TuneStep *steps; /* of lambda, with all parameters free */
  size_t n, best;
  const FreedVariable *freed; /* forward selection; none: NULL */
  size_t nfreed;
  const FreedVariable *tried; /* each alone, in the first round; gain -inf: given up on the way */
  size_t ntried;
  const Freedom *free;     /* where freeing some beats the best lambda: which; else NULL */
  Regularizer regularizer; /* what the final fit has, */
  double lambda;           /* and its weight; infinite: Bayes is enough */
  double gain, se;         /* of the choice, over Bayes */
  Q bayes;                 /* VI of all training data, */
  const double *bayes_phi;
  FitCentre vi;         /* the same, for the fit of the choice */
  const FitPart *parts; /* where only some are free: the observations as they learn from them */
  size_t nparts;
  const double *start;        /* and where the fit of the choice to them begins */
  const Scores *scores;       /* of every observation when it was held out, under the choice */
  const Scores *bayes_scores; /* and under VI: of the score that was maximised alone */
  bool bayes_stands;          /* VI converged, with all data and in every fold */
  const char *given_up;       /* the first choice, whose fit to all data did not converge */
  size_t retreats;            /* how many choices were given up so */
  struct Search *search;      /* for tune_retreat */
} TunePath;

typedef struct {
  const FitOptions *fit;
  const ScoreList *list;
  bool lambda, free; /* what is to be chosen */
  Pool *pool;
} TuneOptions;

/* Chooses by the gain over Bayes on held-out observations minus its standard error; Bayes has 0.
 * Leaves VI's q in the run. */
TunePath *tune(Ctx *c, Run *r, const Folds *f, const TuneOptions *t);
/* The fit of the choice to all data, which are more than a fold's, did not converge, for the reason
 * `why`: the best of what holds q back more takes its place, or Bayes. False: it was Bayes, or
 * Bayes does not converge either. */
bool tune_retreat(TunePath *p, const ScoreList *list, const char *why);
/* One fit from phi, without other starts; what it finds goes there. */
void tune_refit(Ctx *c, const Model *m, const Split *split, const FitOptions *o, Pool *pool,
                double *phi);
/* What each of n freedoms gains alone; returned are VI's scores. Its q is left in the run. */
const Scores *tune_each(Ctx *c, Run *r, const Folds *f, const TuneOptions *t, const Freedom *free,
                        size_t n, TuneStep *out);
/* What the option `free` names: variables, elements b[2], or common:b, the widths of b's elements
 * grown by one number. */
const Freedom *tune_freedom(Ctx *c, const Model *m, const OptionList *names);

#endif
