/* stacking.h: stacking of predictive distributions (Yao, Vehtari, Simpson and Gelman 2018): the
 * weights with which the mixture of several fits' predictives has the best log score of
 * observations that none of them was fitted to,
 *
 *   maximise  sum_i log sum_k w_k p_k(y_i),  w_k >= 0, sum_k w_k = 1.
 */
#ifndef PVI_STACKING_H
#define PVI_STACKING_H

#include "base/base.h"

typedef struct {
  size_t n; /* fits */
  double *weight;
  double score;    /* of the mixture */
  double gain, se; /* over the best of the fits alone, and its paired standard error */
  double gap;      /* no weights are better by more than this */
  size_t best;     /* that fit */
} Stack;

/* logs: [rows x n] log densities of what was held out. Rows with a nan do not count. */
const Stack *stack_make(Ctx *c, const double *logs, size_t rows, size_t n);

#endif
