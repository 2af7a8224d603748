/* vm.h: Tape, a Graph made ready to run, and Work, the buffers of one run.
 *
 * The tape has two parts. *Global* instructions are evaluated once, for all draws: whatever the
 * observations share. *Tile* instructions belong to one observation each and are evaluated for a
 * tile of observations x draws that stays in cache: forward, the score of the tile, backward into
 * the adjoints of the global values, next tile. Memory is O(tile), not O(observations).
 *
 * A tape is planned for a selection of observations (a training part, say): what belongs to the
 * others is not in it. One evaluation has three steps:
 *
 *   - vm_forward(w, theta): the global values of all draws;
 *   - vm_tiles(w, score, self, true): every tile, its values, its score, its adjoints;
 *   - vm_backward(w, seeds, NULL, adj_theta): the global adjoints.
 *
 * A Tape is only read once it is planned: any number of Works, in any threads, may run it. Results
 * do not depend on the number of threads: work is divided by the problem, sums have a fixed order.
 */
#ifndef PVI_VM_H
#define PVI_VM_H

#include "ir/ir.h"
#include "vm/kernels.h"

typedef struct Tape Tape;
typedef struct Work Work;

/* A block of observations. Each head is a node of `rows` rows, one an observation, width elements
 * each: the log likelihood, or a parameter of the observation's distribution. A head that is
 * NO_NODE is not computed. */
enum { VM_HEADS = 5 };
typedef struct {
  Node heads[VM_HEADS];
  int32_t rows;
  const int32_t *select; /* rows to take, in this order */
  int32_t nselect;
} VmBlock;

/* Whether small nodes that do the same become one instruction. Where there are few of them a tape
 * is as quick without; tests compare both. */
typedef enum { VM_JOIN_MANY, VM_JOIN_NONE, VM_JOIN_ALL } VmJoin;

/* What a tape is to compute: some nodes whole (the roots), and blocks of observations. */
typedef struct {
  const Graph *graph; /* outlives the tape; roots and blocks need not */
  size_t dim;         /* of theta */
  const Node *roots;
  int nroots;
  const VmBlock *blocks;
  int nblocks;
  VmJoin join;
} VmPlan;
Tape *vm_plan(Arena *a, const VmPlan *wanted);
size_t vm_rows(const Tape *t); /* observations selected, all blocks together */
void vm_print(Text *out, const Tape *t);

typedef struct {
  size_t global_elements,
      tile_width; /* elements held per draw: globally, and per observation (the widest block) */
  size_t predictor_width; /* shared values in the widest linear predictor of an observation */
  size_t global_ops, tile_ops;
} VmShape;
VmShape vm_shape(const Tape *t);
void vm_print_tiles(Text *out, const Tape *t); /* without the global part */

/* What value and gradient of all observations ask for, per draw: floating-point operations (a
 * multiply-add is two, an elementary function CALL_FLOPS, as the rows of ops.def have them), and
 * bytes that instructions read and write, cached or not.
 */
enum { CALL_FLOPS = 20 };
typedef struct {
  double flops, bytes;
} VmCost;
VmCost vm_cost(const Tape *t);

/* Buffers for M draws. The pool is shared and may be NULL: one thread. */
Work *vm_work(Arena *a, const Tape *t, size_t M, Pool *pool);
/* The same for values alone: no adjoints are ever asked for, and there is no room for them. */
Work *vm_work_forward(Arena *a, const Tape *t, size_t M, Pool *pool);
const Tape *vm_tape(const Work *w);
size_t vm_ld(const Work *w); /* the distance of rows of draws: at least M padded */
const Kernels *vm_kernels(const Work *w);

/* Seed of the noise nodes: the number of (node, element, draw) is a function of it. */
void vm_set_noise(Work *w, uint64_t seed);

/* What the leaf nodes (IR_OUTER) of one number are: element e of lane j is sum_b coef[e terms + b]
 * basis[b ld + j]. adj receives d objective / d coef, overwritten by vm_tiles with adjoints
 * (leaves of observations) and vm_backward (shared ones).
 */
enum { VM_LEAVES = 8 };
typedef struct {
  size_t terms;
  const double *basis, *coef;
  double *adj;
} VmOuter;
void vm_set_outer(Work *w, int leaf, VmOuter o);

/* theta: [dim x ld], a row of draws per dimension. */
void vm_forward(Work *w, const double *theta);
/* Where theta and its adjoints lie; given to vm_forward and vm_backward, nothing is copied. */
double *vm_theta(Work *w);
double *vm_theta_adjoint(Work *w);
const double *vm_value(const Work *w, int root,
                       int32_t element); /* a row of draws of a root given to vm_plan */

/* A tile of a block: rows [row, row + rows) of the plan's observations. heads[h]: [rows x width x
 * ld], or NULL; adj[h], when asked for, likewise and zero on entry: the function writes d
 * objective / d head. It may write only what belongs to its rows.
 */
typedef struct {
  int block, worker;
  size_t chunk; /* the piece of work it belongs to: what is summed over observations may be summed
                   per chunk, in order */
  size_t row, rows, ld;
  const double *heads[VM_HEADS];
  double *adj[VM_HEADS];
  const double *totals; /* of every row, instead of heads and adj: see vm_set_linear */
} TileView;
typedef void VmTile(void *self, const TileView *t);
void vm_tiles(Work *w, VmTile *tile, void *self, bool adjoint);
void vm_overwrites(Work *w); /* a promise: the function writes all lanes of head 0's adjoint, which
                                then need not be zero */
/* The objective is the sum over rows and draws of weights[j] head 0 (0 in the padding), and nothing
 * is asked for but the sums of head 0 over the draws: blocks that can then compute values and
 * adjoints in one visit, and the function gets `totals`. NULL: no. */
void vm_set_linear(Work *w, const double *weights);
/* Seconds spent in the tiles, one entry a worker, added to. NULL: no clock is read. */
typedef struct {
  double draws, forward, score,
      backward; /* forward: with the adjoints of what is done in one visit */
} VmTimes;
void vm_set_times(Work *w, VmTimes *times);
size_t vm_tile_rows(const Work *w); /* observations per tile, at most */
size_t vm_chunks(const Work *w);
int vm_workers(const Work *w);
/* Only part of the observations: of every block the rows [lo, hi) of [0, 1). All: (0, 1). Returns
 * how many. */
size_t vm_set_range(Work *w, double lo, double hi);

/* seeds[r]: d objective / d root r, times lane[j] for draw j where lane is not NULL. adj_theta:
 * [dim x ld], overwritten. */
void vm_backward(Work *w, const double *seeds, const double *lane, double *adj_theta);
/* Parameters one at a time, instead of theta and its adjoint as whole matrices. `give` writes the
 * draws of a parameter when they are first needed: in vm_draw, which comes before vm_forward(w,
 * vm_theta(w)), or in vm_tiles where one chunk alone reads the parameter. `take` receives its
 * adjoint when that is complete: in vm_tiles or vm_backward. Both are called once per parameter and
 * evaluation, by several threads at a time, while the row is in cache. NULL: no. */
typedef void VmGive(void *self, size_t parameter, double *theta);
typedef void VmTake(void *self, size_t parameter, const double *adj);
void vm_by_rows(Work *w, VmGive *give, VmTake *take, void *self);
void vm_draw(Work *w);
/* From now on the roots are neither computed nor seeded: only what tiles read. */
void vm_skip_roots(Work *w);

/* Constant folding: out[e] = op(args[k][e] or args[k][0]) over n elements. */
void vm_fold(unsigned op, const double *const *args, const size_t *sizes, double *out, size_t n);
double vm_fold_number(unsigned op, const double *args); /* the same of one number an argument */

/* A differential equation in numbers, without sensitivities: in = initial states and parameters,
 * out: [times x states]; nan from the first time on that cannot be reached. */
void vm_solve(Arena *a, const IrOde *ode, const double *in, double *out);

#endif
