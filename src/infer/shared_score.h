/* shared_score.h: the energy score and the maximum mean discrepancy of n observed vectors under one
 * set of M simulated ones that serves them all,
 *
 *   S_i = sum_j w_j D(x_j, y_i) - 1/2 sum_jl w_j w_l D(x_j, x_l),
 *
 * D minus the distance, or twice a kernel: n M + M^2 / 2 functions of two vectors, in tiles, from
 * the inner products |a|^2 + |b|^2 - 2 a'b. Nothing of the size n x width x M is ever in memory.
 *
 * Independent normal noise in every number of an outcome need not be simulated: given its sd, D is
 * replaced by its mean over the noise.
 */
#ifndef PVI_SHARED_SCORE_H
#define PVI_SHARED_SCORE_H

#include "score/score.h"

typedef struct {
  size_t n, width;
  const double *y; /* [n x width] */
  ScoreId score;   /* energy or mmd */
  ScoreOptions options;
  double noise_sd; /* of what x lacks and y has; 0: nothing */
  bool all_pairs;  /* j = l counts, too: for points that are spread evenly. Else the sum over pairs
                      is unbiased for independent ones */
} SharedProblem;

typedef struct SharedScore SharedScore;

/* For sets of M simulations. All memory is taken here. */
SharedScore *shared_make(Arena *a, const SharedProblem *p, size_t M, Pool *pool);

typedef struct {
  const size_t *rows; /* `count` observations; NULL: the first `count` */
  size_t count;
  const double *sim;     /* [M x width] */
  const double *weights; /* M, summing to one; NULL: equal */
} SharedCase;

/* The sum over the observations; scores (may be NULL) gets each one's own; adj_sim [M x width] and
 * adj_w (both may be NULL) its derivatives, overwritten. */
double shared_eval(SharedScore *s, const SharedCase *c, double *scores, double *adj_sim,
                   double *adj_w);

/* E |a + tau e| for |a|^2 = r2 and e standard normal in `width` dimensions, and its derivative in
 * r2: by the cumulants of |a + tau e|^2, to a relative error of the order width^-4. */
double shared_mean_distance(double r2, double tau, size_t width, double *slope);
enum { SHARED_LEAST_WIDTH = 16 }; /* from which on that is good enough */

#endif
