/* vm_int.h: the tape's own structure, for this folder. */
#ifndef PVI_VM_INT_H
#define PVI_VM_INT_H

#include "vm/vm.h"

/* Where an operand lives, and which of its elements belongs to element e of the instruction. */
typedef enum { IN_DATA, IN_GLOBAL, IN_TILE } Place;
typedef enum {
  AT_SAME,  /* base + e */
  AT_ONE,   /* base */
  AT_INDEX, /* base + index[e] */
  AT_ROW,   /* base + (e / width) source_width + index[e % width]: another element of the same
               observation (tile values only) */
} Access;

typedef struct {
  uint8_t place, access;
  int32_t width, source_width; /* AT_ROW */
  const double *data;          /* IN_DATA; AT_ONE: LANES copies */
  size_t base; /* IN_GLOBAL: element, of a tile's operand among the kept rows; IN_TILE: elements per
                  observation before it */
  size_t adjoint; /* IN_GLOBAL, used by a tile: element in the boundary */
  const int32_t *index;
} Operand;

/* IR_AFFINE: one row an observation of the block. */
typedef struct {
  size_t ndense, nsparse;
  const double *constant, *A;
  size_t *dense, *dense_adj; /* elements: kept rows, in the boundary */
  const double **coef;
  const int32_t **index;
  size_t *base, *base_adj;
} TapeAffine;

/* IR_MIXTURE: log sum_k exp(sum_t log[k, t]), k < width, t < terms, one row an observation of the
 * block. Element (k, t) is that of row base + index[r] of the kept rows, its exponential that of
 * row exps + index[r]. Exponentials of shared values are taken once for all observations. */
typedef struct {
  size_t width, terms;
  size_t *base, *base_adj, *exps; /* [width x terms] */
  const int32_t **index;
} TapeMixture;

typedef struct Instr {
  uint16_t op;
  uint8_t nargs;
  int32_t n;     /* elements: of the whole (global), per observation (tile) */
  int32_t width; /* SUM, LSE, CUMSUM: operands per result; MATVEC, MATMUL: inner */
  int32_t columns;
  size_t out; /* global: element; tile: elements per observation before it */
  Operand in[IR_MAX_ARGS];
  const Operand *picks; /* PACK: one operand an element */
  const TapeAffine *affine;
  const TapeMixture *mixture;
  const IrOde *ode;            /* ODE: number `columns` of the tape's */
  const IrRun *run;            /* RUN: likewise */
  const struct Instr *summand; /* global SUM: of an elementwise op nobody else needs, whose values
                                  are not kept; LSE: of an ADD */
  uint8_t
      common;   /* LSE whose rows differ in the other operand of its ADD only: which operand, + 1 */
  size_t exps;  /* and where the exponentials of that other one are */
  bool aside;   /* global: nothing flows back to its operand */
  bool density; /* tile: by Kernels.density, all rows at once */
  bool saves;   /* tile: by Kernels.saving; its slopes are tile values too */
  bool fresh;   /* density, saves: the first to add to its operand's adjoint, so it stores */
  size_t kept;  /* NOISE of tiles: rows of kept noise before it */
  size_t slope; /* saves: elements per observation before the slopes */
  size_t leaf;  /* global OUTER: rows of adjoints of shared leaves before it */
  const Recurrence *recurrence; /* global: the first and the last of so many instructions that are
                                   taken together */
  int together;
} Instr;

typedef struct {
  size_t first, count; /* elements per observation */
} Range;

typedef struct {
  Instr *code;
  int count, cap;
  size_t width;         /* elements per observation of all tile values */
  int32_t rows;         /* observations selected */
  size_t first;         /* number of its first row in the plan */
  size_t out[VM_HEADS]; /* the heads' places among the tile values */
  bool has[VM_HEADS];
  Range *clear; /* tile values, without head 0, whose adjoints are added to: they begin at zero */
  int nclear, cap_clear;
  bool linear; /* head 0 is the only one and the last instruction, a density or one that saves:
                  vm_set_linear is worth while */
} TapeBlock;

/* A global value that tiles read: its adjoint is gathered per chunk in the boundary. */
typedef struct {
  size_t element, n;
  size_t at;   /* in the boundary */
  size_t kept; /* among the kept rows */
} Boundary;

/* Global values are computed in pieces of draws; those that others read are copied to rows of all
 * draws, behind theta, which is there already. */
typedef struct {
  size_t element, n, at;
} Kept;

struct Tape {
  size_t dim;
  Instr *code; /* global */
  int count, cap;
  int shared;      /* the first so many serve the tiles, the others only the roots */
  size_t elements; /* global elements; the first dim are theta */
  size_t shared_elements;
  Kept *kept;
  size_t nkept, cap_kept, shared_kept; /* the first shared_kept serve the tiles */
  size_t rows_kept;                    /* rows of all draws: theta, then kept values */
  size_t leaf_rows;                    /* elements of all shared leaves */
  TapeBlock *blocks;
  int nblocks;
  Boundary *boundary;
  size_t nboundary, cap_boundary, boundary_elements;
  size_t *border_first, *border; /* of global element e: places in the boundary [border_first[e],
                                    border_first[e + 1]) */
  size_t *owner;                 /* of a place in the boundary: its global element */
  int *reader; /* of parameter k: the first instruction that reads it; count: a root is it; above:
                  none */
  size_t rows;
  size_t *roots;      /* element of each root; data roots become global copies */
  size_t *roots_kept; /* its place among the kept rows */
  int nroots;
  int odes, runs;    /* ODE and RUN instructions */
  size_t eigen_rows; /* the most of EIGEN instructions */
  size_t noise;      /* rows of noise of all tiles */
  size_t max_width;  /* widest SUM, LSE or affine: size of pointer scratch */
};

#endif
