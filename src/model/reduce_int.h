/* reduce_int.h: cutting nodes at their affine functions, for reduce.c and reduce_prior.c. */
#ifndef PVI_REDUCE_INT_H
#define PVI_REDUCE_INT_H

#include "model/reduce.h"

/* A graph whose nodes can be cut, and the graph into which they are rebuilt. */
typedef struct {
  Arena *temp; /* of all that is forgotten in the end */
  const Graph *graph;
  const uint8_t *degree; /* of each node: constant, affine in theta, or neither */
  Graph *out;
  struct Conditions **given; /* what conditioning on scales needs of the graph, once it is needed */
} Reducible;
Reducible reduce_begin(Arena *temp, const Graph *g, Graph *out);

/* The elements map[k], k < n, of a node: a row each. */
typedef struct {
  Node node;
  const int32_t *map;
  int32_t n;
} ReducedElements;
/* Fills b; false where the elements see too much of theta, and *why. */
bool reduce_elements(const Reducible *t, const ReducedElements *e, Reduced *b, const char **why);

#endif
