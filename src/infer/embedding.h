/* embedding.h: a data set of n observations as a few numbers that say what it tells of theta.
 *
 * Features of a data set are sums over its observations of g(y) x: g the outcome z in standard
 * units, its square, asinh z and the square of that (and products of the numbers of one outcome); x
 * one, every number that the data have of an observation besides, and the products of two of those.
 * So the order of observations has no influence. Where there are few numbers in all, each outcome
 * is a feature as well. The summary (Fearnhead and Prangle 2012, "semi-automatic") is what least
 * squares predict from the features of theta and of products of two of its elements, learned from
 * pairs.
 */
#ifndef PVI_EMBEDDING_H
#define PVI_EMBEDDING_H

#include "infer/replicas.h"

typedef struct Embedding Embedding;

/* Of the data sets of r, with standard units from some of them, [count x width x M]. */
Embedding *embedding_make(Arena *a, const Model *m, const Replicas *r, const double *y, size_t M);
size_t embedding_features(const Embedding *e);
/* Of data set j of M. room: embedding_room numbers. */
size_t embedding_room(const Embedding *e);
void embedding_feature(const Embedding *e, const double *y, size_t M, size_t j, double *out);

/* What is learned of n pairs: features [n x features] and theta [n x dim], both of about unit
 * scale. */
typedef struct {
  size_t n, dim;
  const double *features, *theta;
} EmbeddingPairs;
void embedding_learn(Arena *a, Embedding *e, const EmbeddingPairs *p, const Kernels *k);
size_t embedding_size(const Embedding *e); /* numbers of a summary */
void embedding_summary(const Embedding *e, const double *features, double *out);

#endif
