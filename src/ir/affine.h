/* affine.h: affine functions of a graph's values, taken apart into terms.
 *
 * Given a node and one of its elements per row, the walk finds
 *     f_r = constant[r] + sum over terms of coef[r] leaf[index[r]],   r < rows.
 * It goes down through sums, differences, products with constants, matrix products, gathers and
 * packs, and ends at what its caller calls a leaf: the planner of tapes stops at values that
 * observations share (vm/predictor.c), exact integration at elements of theta (model/reduce.c).
 */
#ifndef PVI_AFFINE_H
#define PVI_AFFINE_H

#include "ir/ir.h"

/* Elements of one leaf, each times its coefficient. Two terms never have the same elements in all
 * rows: such terms are added up as they are met. */
typedef struct {
  Node leaf;            /* as the leaf test names it */
  bool same;            /* all rows have the same element */
  const int32_t *index; /* the element of each row; a single one where `same` holds */
  const double *coef;   /* of each row */
  double *own;          /* coef, once something was added to it; until then it is the walk's */
} IrTerm;

/* coef[r] times element index[r] of a node, r < rows. */
typedef struct {
  Node node;
  const int32_t *index;
  const double *coef;
} IrSlice;

typedef struct IrAffine IrAffine;

/* Does the walk end here? If so, the term has the elements index[r] + *shift of *leaf. */
typedef bool IrIsLeaf(const IrAffine *f, const IrSlice *s, Node *leaf, int32_t *shift);

/* What a caller wants taken apart, and how far. */
typedef struct {
  IrIsLeaf *is_leaf;
  int most_terms, most_depth;
  int most_sources;       /* nodes that the rows of a pack may come from */
  bool keeps_packs;       /* a pack that cannot be taken apart is a leaf */
  int32_t widest_product; /* columns of a matrix */
  int32_t widest_sum;     /* elements of a sum; 0: sums are not taken apart */
} IrAffineRules;

struct IrAffine {
  const IrAffineRules *rules;
  void *self; /* for the leaf test */
  Arena *temp;
  const Graph *g;
  int32_t rows;
  double *constant; /* of each row */
  IrTerm *terms;
  int count, cap;
  bool taken_apart; /* something else than a leaf or a constant was met */
  const char *why;  /* set where it could not be done: the reason */
  /* the walk's own */
  int depth;
  bool dry; /* it only asks whether it can be done */
  const int32_t *zeros;
};

/* The function that is zero everywhere; all of it lives in temp. */
IrAffine ir_affine(Arena *temp, const Graph *g, int32_t rows, const IrAffineRules *rules,
                   void *self);
/* Adds a slice to it. It keeps s->coef, so that must not change; s->index may. False: it is not
 * affine in leaves, or too large; then f is of no more use. */
bool ir_affine_add(IrAffine *f, const IrSlice *s);

#endif
