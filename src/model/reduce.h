/* reduce.h: Reduction: observations that see theta only through one or two affine functions of it.
 *
 * A linear predictor, a log scale: whatever else an observation computes, it computes from these.
 * Under a normal q they are normal, and the predictive is an integral in one or two dimensions. So
 * the observation's graph is cut at its affine functions and rebuilt, in a graph of its own (the
 * Model's stays as it is), on leaves (IR_OUTER) that hold quadrature nodes of them:
 *
 *   - FORM_LINE: one function; its law is a line of nodes. Where it is the logit of a binary
 *     outcome, there is another way, for a law so wide that the outcome jumps between two nodes:
 *     inv_logit(f) is a mixture of Phi(f / sqrt(u)), and the mean of that is Phi(m / sqrt(v + u)).
 *   - FORM_PLANE: two; nodes on a product grid, the first function's nodes given the second's. The
 *     logit of a binary outcome that is a line in the first is integrated over that one in the same
 *     other way, always.
 *   - FORM_NORMAL: normal(f, sigma) with sigma seen through at most one other function g. Given g
 *     the predictive is normal(E[f | g], sqrt(sigma^2 + var[f | g])), so the nodes are g's alone.
 *   - FORM_GIVEN: one function once a few scales are given (condition.h); nodes on a grid of these.
 *
 * The terms of the prior are reduced in the same way (reduce_prior.c).
 */
#ifndef PVI_REDUCE_H
#define PVI_REDUCE_H

#include "model/condition.h"
#include "model/model.h"

/* One term an input: coef[r] theta[index[r]]; index NULL: theta[input] in every row; coef NULL: 1.
 */
typedef struct {
  int32_t input;
  const int32_t *index;
  const double *coef;
  int32_t low, high; /* inputs that occur */
} AffineTerm;

/* f_r(theta) = constant[r] + sum of terms, r < rows. */
typedef struct {
  int32_t rows;           /* 1: the same for all observations */
  const double *constant; /* NULL: zeros */
  AffineTerm *terms;
  int nterms;
  bool overlapping; /* two terms of a row may have the same input */
} Affine;

typedef enum { FORM_LINE, FORM_PLANE, FORM_NORMAL, FORM_GIVEN } ReducedForm;

/* Leaves of a reduced graph. First: nodes of f[0] (FORM_NORMAL: its mean given f[1]); second: nodes
 * of f[1]; variance: of f[0] given f[1]; centred: nodes of f[0] placed for each observation;
 * weight: log of what they must be weighted with; lane: the u of a lane of a wide integral. */
enum { LEAF_FIRST, LEAF_SECOND, LEAF_VARIANCE, LEAF_CENTRED, LEAF_WEIGHT, LEAF_LANE };

/* One block, row by row. */
typedef struct {
  ReducedForm form;
  int32_t rows;
  int count; /* functions: 0, 1 or 2 */
  Affine f[2];
  int32_t first_rows;        /* rows of the leaves of f[0]: 1 or rows */
  Node density;              /* its log-mean-exp over the nodes is the log predictive density */
  Node mean;                 /* its mean over the nodes is the mean log density; NO_NODE: that of a
                                mixture is not to be had */
  Node centred;              /* FORM_LINE: density on centred nodes, weighted; else NO_NODE */
  Node wide[3];              /* of a binary outcome, given u: density, mean and parameter, on the
                                leaves of FORM_NORMAL and on the lane's; [0] NO_NODE: it is none */
  Node par[3];               /* parameters of the outcome on the nodes; par[0] NO_NODE: not known */
  double factor;             /* terms of the prior: times this */
  const Condition *given[2]; /* FORM_GIVEN: under a q whose parameters are independent, and any;
                                NULL: too many covariances */
} Reduced;

typedef struct {
  Graph *graph;
  Reduced *blocks;
  int nblocks;
  double constant; /* prior: what does not depend on theta */
} Reduction;

/* The given observations; NULL where one of them sees more, and *why. It lives in the arena and
 * reads constants of the model. by_density: nobody asks for parameters of the outcomes, so
 * densities may be integrated over what these are functions of (those with a kink, for no nodes
 * resolve it).
 */
Reduction *reduce_observations(Arena *a, const Model *m, const ModelRows *rows, bool by_density,
                               const char **why);
/* log prior + Jacobian = constant + sum over blocks and rows of factor times log density. */
Reduction *reduce_prior(Arena *a, const Model *m, const char **why);

/* How the predictive of one of its observations is integrated, in words. */
const char *reduced_text(const Reduced *r);

#endif
