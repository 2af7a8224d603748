/* condition_int.h: for the files of this folder that condition on scales. */
#ifndef PVI_CONDITION_INT_H
#define PVI_CONDITION_INT_H

#include "model/condition.h"
#include "model/reduce_int.h"

/* What has a row for each of the elements `select`: its log density and, where they are known, the
 * parameters of its outcome, `normal` where that is normal or lognormal. */
typedef struct {
  Node root, par[3];
  int npar;
  bool normal, needs_mean; /* needs_mean: a density without a mean log density will not do */
  bool kinked;             /* only a density that has a kink in its location will do */
  const int32_t *select;
  int32_t n;
} ConditionRoot;

/* Fills b, of FORM_GIVEN; false where the rows see too much all the same, and *why. */
bool condition_elements(const Reducible *t, const ConditionRoot *root, Reduced *b,
                        const char **why);

/* ---- wide.c ---------------------------------------------------------------------------------- */

/* A binary outcome y whose logit is normal, with the variance of a lane added to its own. */
typedef struct {
  Node y, mean, variance;
} WideLogit;
/* Given the lane: its log density, the mean log density, and the outcome's probability. */
void wide_nodes(Graph *g, const WideLogit *w, Node *heads);
/* Is a logit a line in a leaf of a reduced graph, all else given? Then its slope. */
bool wide_slope(Graph *g, Node logit, int32_t leaf, Node *slope);

/* ---- given_terms.c ------------------------------------------------------------------------ */

/* data[e] scale[e] theta[index[e]]; scale is a node of one element or as many as there are, which
 * sees scales only; NO_NODE: 1. */
typedef struct {
  double *data;
  int32_t *index;
  Node scale;
} GivenTerm;

typedef struct {
  int32_t n;
  GivenTerm *term;
  int count;
} GivenTerms;

typedef struct {
  Arena *temp;
  Graph *g;
  const uint64_t *mask; /* of each node of the model: the inputs that it depends on */
  uint64_t scales;      /* the inputs that are given */
  GivenTerms **memo;    /* of each node */
  const char *why;      /* set: it cannot be done */
} GivenReader;

/* The terms of node id, which is affine given the scales; NULL: too many of them. */
const GivenTerms *given_terms(GivenReader *r, Node id);
/* 1 or -1: b is a, or minus it, but for what does not depend on the others; 0: it is another. */
int given_compare(const GivenTerms *a, const GivenTerms *b);

/* ---- kinks.c ------------------------------------------------------------------------------ */

/* May it have one? constant[k] == is: node k does not depend on theta. */
bool kinks_any(const Graph *g, Arena *temp, const uint8_t *constant, uint8_t is, Node root);
/* Of what is below the root, the function of the parameters that a kink is in; NO_NODE: none is. */
Node kinks_location(const GivenReader *r, const bool *reached, Node root);
typedef struct {
  Node location, variance; /* its mean given the scales, and its variance, which is not 0 */
} KinkedLaw;
/* Over the location the log of the mean density, and the mean log density; false: it is not a line
 * on both sides of one kink. */
bool kinks_heads(const GivenReader *r, Node root, const KinkedLaw *f, Node *density, Node *mean);

#endif
