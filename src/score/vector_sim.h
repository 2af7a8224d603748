/* vector_sim.h: scores of vector outcomes from K simulated ones that are made of a function of two
 * points,
 *   S = mean_k D(Y_k, y) - 1/2 mean over pairs D(Y_j, Y_k):
 * minus the distance for the energy score, twice a kernel for the maximum mean discrepancy;
 * internal to score/. */
#ifndef PVI_SCORE_VECTOR_SIM_H
#define PVI_SCORE_VECTOR_SIM_H

#include "score/predictive_mixture.h"

/* D(a, b) as a function of r2 = |a - b|^2, and *slope with dD / da = *slope (a - b). */
typedef double PairFunction(double r2, const ScoreOptions *o, double *slope);

/* Unbiased: all pairs j < k, or with o.halves the pairs (k, k + K/2) only, which costs K instead of
 * K^2. Nan when K < 2. */
double vector_sim_score(const ScoreCase *c, PairFunction *D, const ScoreAdjoint *adj);

#endif
