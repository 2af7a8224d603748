/* products.h: Products: observations whose mean density is made of means over one parameter each.
 *
 * The density of a word of a document is sum_k theta[doc, k] phi[k, word], and theta[doc, k] is a
 * product of functions of one unconstrained parameter each (a stick, and what was left of it), and
 * so is phi[k, word]. Under a q with independent parameters the mean of a product of functions of
 * different parameters is the product of their means, and the mean of a sum is the sum of means. So
 * the graph of the log densities is cut where the values are functions of one parameter: with the
 * logarithm of the mean of exp(value) there, everything above gives the logarithm of the mean
 * density. Above there may be sums of what has no parameter in common (products of densities), log
 * sum exp (sums of them), and what picks elements.
 */
#ifndef PVI_PRODUCTS_H
#define PVI_PRODUCTS_H

#include "model/model.h"

/* A node of `below` whose elements that are leaves are functions of one parameter or of none. */
typedef struct {
  Node node;
  int32_t n;             /* leaves of it, */
  const int32_t *select; /* which elements they are */
  int32_t first;         /* and the number of the first */
} ProductLeaves;

typedef struct {
  const Graph *below; /* of the parameters */
  ProductLeaves *nodes;
  size_t nnodes, cap_nodes;
  Graph *above;      /* of the logarithms of the leaves' means, one input a leaf */
  int32_t leaves;    /* all of them */
  const Node *roots; /* of each block, all rows; NO_NODE: none of its rows was asked for */
} Products;

/* Of the given observations; NULL: they are none. */
const Products *model_products(Arena *a, const Model *m, const ModelRows *rows);

#endif
