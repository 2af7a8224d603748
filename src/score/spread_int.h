/* spread_int.h: what spread.c and cells.c share: the cdf at the nodes of a grid. */
#ifndef PVI_SCORE_SPREAD_INT_H
#define PVI_SCORE_SPREAD_INT_H

#include "score/spread.h"

/* At the nodes of a grid a row holds F, or from the middle on -(1 - F): the side that keeps its
 * digits. */
static inline double node_cdf(double at) { return at < 0 ? 1 + at : at; }

/* cells.c, for kinds whose cdf is slow: F at all nodes from densities alone, and the adjoint of
 * those: v[i] = d S / d F at node i (overwritten); for the weights, d S / d (F, or -(1 - F)). */
void cells_fill(const ScoreCase *c, const Grid *g, double *F);
void cells_adjoint(const ScoreCase *c, const Grid *g, const double *F, double *v,
                   const ScoreAdjoint *adj);

#endif
