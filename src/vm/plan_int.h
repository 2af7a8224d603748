/* plan_int.h: the planner's state, for plan.c, plan_global.c, plan_recurrences.c and predictor.c.
 */
#ifndef PVI_PLAN_INT_H
#define PVI_PLAN_INT_H

#include "vm/vm_int.h"

typedef struct {
  Node node;
  const int32_t *index; /* element of the node for every element of the tile rows */
  int32_t width;        /* elements per observation */
  size_t slot;
} TileValue;

typedef struct {
  Arena *arena; /* of the tape */
  Arena *temp;  /* of what planning needs and the tape does not: indexes are kept where an operand
                   keeps them */
  Tape *tape;
  const Graph *g;
  size_t *global_at;   /* node -> element + 1, 0: not planned */
  size_t *boundary_at; /* node -> boundary entry + 1 */
  size_t *exps_at;     /* node -> kept row of its exponentials + 1 */
  size_t *exps_of;     /* node -> element of its exponentials + 1 */
  uint8_t *uses;       /* node -> how often it is an operand, up to 2 */
  /* the block being planned */
  TapeBlock *block;
  const int32_t *select;
  int32_t rows, full_rows;
  TileValue *values;
  size_t nvalues, cap_values;
} Planner;

void plan_note_width(Planner *p, const IrNode *x); /* that of a row, for scratch */
bool plan_all_same(const int32_t *index, size_t n);
/* Numbers; a single one as LANES copies, ready to be read as a vector. */
Operand plan_data_operand(Planner *p, const double *values, int32_t n);
/* The element at which the exponentials of a node begin, whose operands are planned. */
size_t plan_exps_of(Planner *p, Node id);
void plan_recurrences(Planner *p);       /* when all global instructions are there */
size_t plan_global(Planner *p, Node id); /* the element at which node id begins, planned whole */
/* What tiles read: where it is among the kept rows, and where they add to its adjoint. */
const Boundary *plan_boundary(Planner *p, Node id);
bool plan_tileable(unsigned op);
bool plan_distinct(Planner *p, const int32_t *index, size_t n, int32_t size);
/* The given element of node id, per observation, as an affine function of shared values; NULL when
 * it is none, or trivial. */
const TapeAffine *plan_affine(Planner *p, Node id, const int32_t *index);
/* Rows index[r] of a log sum exp of rows of `width` elements of node id, each a sum of values that
 * observations share; NULL when it is none. */
const TapeMixture *plan_mixture(Planner *p, Node id, const int32_t *index, int32_t width);
size_t plan_exps(Planner *p,
                 Node id); /* where the exponentials of a node are among the kept rows */

#endif
