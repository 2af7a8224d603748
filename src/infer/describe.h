/* describe.h: predictive distributions in a few numbers: mean, standard deviation, quantiles, and
 * simulated outcomes. */
#ifndef PVI_DESCRIBE_H
#define PVI_DESCRIBE_H

#include "infer/predictive.h"

/* What is wanted, and where it goes: a row per observation, in the order of the Observed. What an
 * observation does not have (its distribution is not known, or it is a vector) is NaN. */
typedef struct {
  const double *levels; /* nlevels, in (0, 1) */
  size_t nlevels, noutcomes;
  uint64_t seed;     /* of the simulated outcomes */
  bool together;     /* outcome k of every observation is of the same draw of q, the k-th */
  double *mean, *sd; /* n */
  double *quantiles; /* [n x nlevels] */
  double *outcomes;  /* [n x noutcomes] */
} Description;

/* By draws of q, or those that are given. The Observed has the heads WANT_PARAMETERS, or WANT_SIM
 * where outcomes are simulated. */
void predictive_describe(Ctx *c, const Scoring *s, const Description *d);

#endif
