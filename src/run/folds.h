/* folds.h: Folds: every observation is held out once, and predicted by a fit to the others. */
#ifndef PVI_FOLDS_H
#define PVI_FOLDS_H

#include "run/run.h"

/* Which observations are predicted together. */
typedef struct {
  size_t n, count; /* observations, folds */
  const int
      *fold; /* n: 0-based; FOLD_EARLIEST: never held out; FOLD_OUTSIDE: no training observation */
  bool forward; /* a fold is predicted from earlier folds alone, not from all others */
  bool random;  /* what one of them says holds for all */
} Folds;

enum { FOLD_EARLIEST = -1, FOLD_OUTSIDE = -2 };

/* Of the training observations, by a rule: a number K (random, stratified by the outcome),
 * group:NAME (every value of the data variable is a fold) or future:NAME (five stretches in the
 * order of the variable, each predicted from those before it). The seed fixes what is random. */
Folds *folds_make(Ctx *c, const Problem *p, const Split *split, const char *rule, uint64_t seed);
/* Fold k as the test part, what it is predicted from as the training part. */
Split *folds_split(Arena *a, const Folds *f, int k);
/* The q of every fold, one after the other: where its fit begins, and then what it found. */
typedef struct {
  double *phi; /* [folds x size] */
  size_t size;
  /* Bayes without each fold, likewise: what is free learns from what these predict of the fold that
   * they have not seen. NULL: it learns from the observations that a fold's fit has. */
  const double *bayes;
  size_t nodes;       /* of exact integration that the first of them needed; 0: not known */
  size_t unconverged; /* of the fits that were made last */
  /* Where the first fold alone says that the sum of the first score cannot come to `least` above
   * that of `than`, the others are not fitted. than NULL: they are. */
  const Scores *than;
  double least, most;            /* most: what it would say, then */
  bool (*cancelled)(void *self); /* where they are scored as they are: as in Scoring */
  void *cancelled_self;
} FoldStarts;

/* Are they few enough, and alike, so that what predicts some of them predicts the others? */
bool folds_apart(const Folds *f);
/* Bayes without each fold. */
typedef struct {
  const double *phi; /* [folds x size] */
  size_t size;
  const double *from; /* the q to which these are ways */
  int without;        /* a fold; negative: none */
} FoldBayes;
/* The folds as parts of a fit (FitOptions.parts), but for one. */
FitPart *folds_parts(Arena *a, const Folds *f, const FoldBayes *b, size_t *n);

/* The fits, side by side on threads; the scores of every observation when it was held out, in the
 * part "test". starts NULL: each begins from the q of the whole fit and from its own starts. o
 * NULL: no fits, the starts are scored as they are. NULL: the first fold was enough to know. */
Scores *folds_score(Ctx *c, const Run *r, const Folds *f, const FitOptions *o,
                    const ScoreList *list, FoldStarts *starts);

#endif
