/* score.h: S(predictive, y_i) from the log densities of one observation under every draw (lane), and its derivative.
 *
 * Lanes carry weights that sum to one; NULL means 1 / M each.
 */
#ifndef PVI_SCORE_H
#define PVI_SCORE_H

#include "vm/kernels.h"

typedef struct {
  size_t M;
  const double *weights;
  const Kernels *k;
} Lanes;

/* The score of the row l of M log densities; with adj, adj[j] = d score / d l[j] (and 0 in the padding). */
typedef double ScoreRow(const Lanes *lanes, const double *l, double *adj);

typedef enum {
#define SCORE(id, name, formula) SCORE_##id,
#include "score/scores.def"
#undef SCORE
  SCORE_COUNT,
} ScoreId;

#define SCORE(id, name, formula) extern ScoreRow score_##id;
#include "score/scores.def"
#undef SCORE

ScoreRow *score_of(ScoreId id);
const char *score_name(ScoreId id);

#endif
