/* spread.h: half the mean distance of two independent outcomes, E|Y - Y'| / 2 = int F (1 - F) dt,
 * of a continuous mixture: the part of the CRPS that does not depend on y; internal to score/. */
#ifndef PVI_SCORE_SPREAD_H
#define PVI_SCORE_SPREAD_H

#include "score/predictive_mixture.h"

enum {
  SPREAD_ROWS = 4,
  SPREAD_NODES = 4096,
  SPREAD_SPACE = 2 * (SPREAD_NODES + 1)
}; /* of mixture_space: rows, numbers */

typedef enum { SPREAD_CHEAPEST, SPREAD_PAIRS, SPREAD_NODES_ONLY } SpreadMethod;

/* The value; g times its derivatives is added to adj. */
double mixture_spread(const ScoreCase *c, SpreadMethod how, double g, const ScoreAdjoint *adj);

#endif
