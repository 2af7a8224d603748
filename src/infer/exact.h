/* exact.h: the objective without draws: for observations that see theta through one or two affine
 * functions (model/reduce.h) and a normal q, or a mixture of normals, the predictive is integrated
 * by Gauss-Hermite quadrature over those functions, one observation at a time. Deterministic, and
 * with enough nodes exact.
 */
#ifndef PVI_EXACT_H
#define PVI_EXACT_H

#include "infer/predictive.h"

typedef struct Exact Exact;

/* Does it apply? If not, *why is the reason. */
bool exact_applies(const Observed *o, const Target *t, const Q *q, const char **why);
/* Does an observation need a plane of nodes? */
bool exact_has_plane(const Observed *o);
/* Does one need a grid of three dimensions or more, so that nodes are dear? */
bool exact_has_grid(const Observed *o);
/* Does one need scales on a grid at all? Where q is wide in them, draws may do better. */
bool exact_has_scales(const Observed *o);
/* Are the scales of some block so many that they are on quasi-random points? */
bool exact_is_sampled(const Observed *o);
/* Are there binary outcomes, for which more than EXACT_NODES nodes are normals (leaves.c)? */
bool exact_has_wide(const Observed *o);

/* Nodes per dimension beyond which it is not worth while: 256 on a line, 64 where some block needs
 * a plane of them. */
size_t exact_most_nodes(const Observed *o);
/* t->nodes per dimension. The seed is of the draws for a mixture's entropy. */
Exact *exact_make(Arena *a, const Observed *o, const Target *t, const Q *q, uint64_t seed,
                  Pool *pool);
/* Only the regularizer, -lambda KL(q || prior), for an objective that integrates its observations
 * by draws. It needs a normal q and a reduced prior. */
bool exact_prior_applies(const Observed *o, const Target *t, const Q *q);
Exact *exact_prior(Arena *a, const Observed *o, const Target *t, const Q *q, uint64_t seed,
                   Pool *pool);
/* Only the sum of scores, where these are integrated but the mean log density, which the
 * regularizer needs, is not: for an objective that has that by draws. */
bool exact_score_applies(const Observed *o, const Target *t, const Q *q);
Exact *exact_score(Arena *a, const Observed *o, const Target *t, const Q *q, uint64_t seed,
                   Pool *pool);
bool exact_eval(Exact *e, const double *phi, PredictiveValue *v, double *grad);
/* H becomes the Hessian of the objective at phi, size x size; returns how many evaluations that
 * cost, 0: it is not finite. To be prepared first; false: it is not to be had. */
bool exact_prepare_hessian(Arena *a, Exact *e);
long exact_hessian(Exact *e, const double *phi, double *H);
void exact_state(Exact *e, Archive *a);   /* what the next evaluation takes from the last */
const double *exact_rows(const Exact *e); /* score of every observation at the last evaluation */
/* As predictive_time; the time of `draws` is that of the predictors' laws and nodes. */
void exact_time(Arena *a, Exact *e, Stages *stages);
const Work *exact_work(const Exact *e); /* of the first block */
size_t exact_lanes(const Exact *e);     /* nodes of an observation, at most */
/* Are values on a grid of so many nodes per dimension, instead of its own, worth their room and,
 * for so many rows, their time? */
bool exact_grid_fits(const Exact *e, size_t nodes, size_t rows);

#endif
