/* count_sums.h: scores of mixtures of counts that are sums over all outcomes; internal to score/.
 * They add to adj, as scores do after score_clear. */
#ifndef PVI_SCORE_COUNT_SUMS_H
#define PVI_SCORE_COUNT_SUMS_H

#include "score/predictive_mixture.h"

enum {
  COUNT_FAR = 32768,
  COUNT_SPACE = 4 * (COUNT_FAR + 8)
}; /* points; numbers of mixture_space */

double count_crps(const ScoreCase *c, const ScoreAdjoint *adj);
double count_quadratic(const ScoreCase *c, const ScoreAdjoint *adj);

#endif
