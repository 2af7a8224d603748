/* pointwise.h: what one fit predicts better than another, observation by observation, as a figure
 * against the column of the data that goes with it best. */
#ifndef PVI_POINTWISE_H
#define PVI_POINTWISE_H

#include "plot/plot.h"
#include "run/problem.h"

typedef struct {
  const char *id, *caption;
  const Plot *plot;
} Figure;

typedef struct {
  Figure *items;
  size_t n, cap;
} FigureList;

/* Differences of a score, larger being better for the first of two fits. */
typedef struct {
  const double *d; /* of every observation of the problem's model; NaN: it does not count */
  const char *better, *worse; /* what the two are called */
  const char *score;          /* and the score, as people read it */
} Pointwise;

/* The figure, or one without a plot where there is nothing to see. p may be NULL (program and data
 * are gone): then against the number of the observation. */
Figure pointwise_figure(Ctx *c, const Problem *p, const Pointwise *w, size_t n_obs);

/* The outcome of every observation of a model; NaN: not known. The trials where all are binomial;
 * else NULL. */
const double *pointwise_outcomes(Ctx *c, const Model *m);
const double *pointwise_trials(Ctx *c, const Model *m);
/* Positive numbers in ascending order, of which a few are far from all others: for an axis by
 * logarithms. */
bool pointwise_is_skewed(const double *x, size_t n);

#endif
