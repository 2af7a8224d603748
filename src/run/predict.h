/* predict.h: Predictions, what q says about the observations of a Problem: new ones, or those of
 * the fit. */
#ifndef PVI_PREDICT_H
#define PVI_PREDICT_H

#include "run/run.h"

typedef struct {
  size_t n;
  size_t nlevels;
  const double *levels;
  const double *mean,
      *sd; /* n; NaN where there is none, or the outcome's distribution is not known */
  const double *quantiles; /* [n x nlevels] */
  bool scored;             /* the outcomes were given */
  const Scores *scores;    /* pointwise, all observations in the test part; NULL: not scored */
  size_t noutcomes;
  const double *outcomes; /* [n x noutcomes]: simulated */
  const char *note;       /* why something is not available; NULL: all is */
} Predictions;

/* The Problem has the program of the run and data of any kind that leave its parameters as they
 * are. */
Predictions *run_predict(Ctx *c, const Run *r, const Problem *p, const Options *o);

#endif
