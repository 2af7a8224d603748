/* work_int.h: the buffers of a run, and where an instruction finds its rows in them; for work.c and
 * exec.c. */
#ifndef PVI_WORK_INT_H
#define PVI_WORK_INT_H

#include "vm/ode_int.h"
#include "vm/vm_int.h"

#ifdef PVI_TORTURE
enum { LANE_BLOCK = 16 };
#else
enum { LANE_BLOCK = 128 }; /* draws that global instructions take together, at most */
#endif
enum { WALK = 64 }; /* elements whose operands are found together */

typedef struct {
  double *tile, *tile_adj; /* [width x T x ld] */
  const double **in;       /* pointers of one SUM or LSE */
  double **adj;
  size_t *step;
  double *splat;       /* LANES copies of each data operand */
  double *spread;      /* the same for a run of elements */
  const double **rows; /* of one density: the rows of its location */
  double **row_adj;
  const double **coef; /* of one affine instruction */
  const int32_t **index;
  double *eigen; /* room for one matrix */
} Scratch;

/* One symmetric matrix of K rows in every lane, its eigenvalues and behind them its eigenvectors;
 * rows are ld apart (eigen.c). */
typedef struct {
  size_t K, ld, lanes;
  const double *in, *out_adj;
  double *out, *in_adj;
} EigenRows;

size_t eigen_room(size_t K);
void eigen_forward(const EigenRows *r, double *room);
void eigen_backward(const EigenRows *r, double *room);

struct Work {
  const Tape *tape;
  const Kernels *k;
  Pool *pool;
  size_t M, lanes, ld; /* draws; padded; the distance of their rows */
  uint64_t noise_seed;
  VmOuter outer[VM_LEAVES];
  double *kept;        /* noise of tiles [tape->noise x ld]; NULL: too much of it */
  uint64_t *kept_seed; /* of each row of it: seed + 1; 0: nothing yet */
  size_t T;            /* observations per tile, at most */
  int count, readers;  /* global instructions to run; readers of theta among them and the roots:
                          Tape.reader below it */
  size_t elements;     /* global elements in use */
  size_t pieces;       /* of global work: */
  size_t block;        /* draws of one, at most: distance of its rows */
  double *rows;        /* [rows_kept x ld]: theta, and the values that tiles and callers read */
  double *adjoint;     /* [dim + leaf_rows x ld]: of theta, and of shared leaves */
  double *values;      /* [pieces, or workers][elements x block] */
  double *value_adj;   /* [workers][elements x block] */
  bool back;           /* there is a way back: adjoints may be asked for */
  bool again;          /* values are not kept for the way back, but computed again */
  double *chunk_adj;   /* [chunks x boundary x ld] */
  uint32_t *touched;   /* [boundary]: bit c: chunk c adds to this row of its own copy; of the others
                          nothing is read */
  size_t chunks;
  OdeWork **odes;     /* per ODE instruction */
  void **runs;        /* per RUN instruction */
  Scratch *scratch;   /* per worker */
  int32_t *from, *to; /* per block: rows in use */
  size_t *tile_first; /* per block: number of its first tile; [nblocks]: all */
  VmTile *call;
  void *self;
  bool want_adjoint, tiles_ran, overwrites;
  VmGive *give;
  VmTake *take;
  void *rows_self;      /* of both */
  const double *linear; /* weights of vm_set_linear */
  VmTimes *times;       /* per worker; NULL: nobody asks */
};

/* Where an instruction's rows lie, ld apart: n draws from `lane` on; for tiles, from observation
 * `row` on. */
typedef struct {
  const Work *w;
  Scratch *s;
  size_t lane, n, ld;
  const double *shared;  /* global values; tile: the kept rows */
  size_t T, row, rows;   /* tile; rows = 1 and T = 1 for the global part */
  double *out, *out_adj; /* values and adjoints of the instruction's own place */
  double *boundary;      /* tile: adjoints of shared values */
  bool tile;
} Frame;

static inline size_t max_size(size_t a, size_t b) { return a > b ? a : b; }
static inline size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

void exec_forward(const Frame *f, const Instr *code, int count);
void exec_backward(const Frame *f, const Instr *code, int count);
/* The last instruction of a block, forward and backward at once. */
void exec_total(const Frame *f, const Instr *i, double *totals);
/* Elements [first, first + n) of a leaf; g: their adjoints, rows of all lanes. */
void exec_outer_backward(const Work *w, const Instr *i, const double *g, size_t n, size_t first);

#endif
