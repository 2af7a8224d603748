/* ir.h: Graph, a program as arithmetic: nodes with static sizes, no control flow, draws implicit.
 *
 * A node has n elements; every element holds one number per draw (constants: one number).
 * Elementwise ops (ops.def) take operands of n elements or of one, which is then broadcast. The
 * structural ops below move and combine elements. Nodes are made once: the builder simplifies, and
 * returns an existing node where it can (hash-consing), so node numbers rise from operand to user.
 */
#ifndef PVI_IR_H
#define PVI_IR_H

#include "base/base.h"

typedef int32_t Node; /* index into Graph.nodes; NO_NODE: none */
enum { NO_NODE = -1, IR_MAX_ARGS = 4 };

typedef enum {
  IR_CONST,  /* n numbers, the same for all draws */
  IR_INPUT,  /* elements [attr, attr + n) of the unconstrained vector theta */
  IR_GATHER, /* out[e] = a[index[e]] */
  IR_PACK,   /* out[e] = element pick[e].elem of node pick[e].node */
  IR_SUM,    /* out[r] = sum of a[r W .. r W + W), W = attr */
  IR_LSE,    /* out[r] = log sum exp a[r W .. r W + W), W = attr */
  IR_CUMSUM, /* out[r W + w] = sum of a[r W .. r W + w], W = attr */
  IR_MATVEC, /* out[r] = sum_k A[r, k] b[k], A = a constant of n K numbers, row-major, K = attr */
  IR_MATMUL, /* out[i, j] = sum_k a[i, k] b[k, j], K = attr, columns of b = attr2 */
  IR_EIGEN,  /* symmetric matrices of K = attr rows one after the other: of each its eigenvalues,
                ascending, and then its eigenvectors, columns of a matrix */
  IR_NOISE,  /* fresh numbers, one per element and draw: standard normal (attr 0) or uniform (attr
                1); attr2 numbers the node */
  IR_OUTER, /* a leaf that the evaluator sets: out[e] of lane j = sum_b coef[e, b] basis[b, j]; attr
             * numbers it (vm_set_outer)
             */
  IR_AFFINE,  /* only on tapes: an affine function of shared values, one per observation */
  IR_MIXTURE, /* only on tapes: a log sum exp of sums of shared values, one per observation */
  IR_ODE, /* out[k N + i] = state i at time k of the solution of u.ode, a = its N initial states,
             parameters, times */
  IR_RUN, /* out = u.run of a, draw by draw: a program whose course depends on its parameters */
#define OP(NAME, arity, value, shared, partials, domain) IR_##NAME,
#include "ir/ops.def"
#undef OP
  IR_OP_COUNT,
} IrOp;

enum { IR_FIRST_MAP = IR_NEG }; /* ops from here on are elementwise */

typedef struct {
  Node node;
  int32_t elem;
} Pick;

/* y' = f(t, y, p), y(t0) given: what an ODE node solves. f is a graph of its own, whose input is t,
 * y and p one after the other. Sensitivities are those to p, and to the initial state where
 * from_state holds. The times are the same for all draws, or where `timed` holds operands behind p:
 * the initial time, then the others; from_time: the initial one is no constant. */
typedef enum { ODE_RK45, ODE_CKRK, ODE_ADAMS, ODE_BDF } OdeMethod;
typedef struct {
  OdeMethod method;
  int32_t states, params;
  int32_t algebraic; /* for the last so many states, 0 = f takes the place of y' = f (ODE_BDF) */
  bool from_state, timed, from_time; /* from_time: from_state too */
  const struct Graph *graph;
  const Pick *slopes; /* states: y' */
  double t0;
  const double *times; /* ascending, above t0; timed: NULL */
  int32_t ntimes;
  double relative, absolute; /* tolerances */
  double most_steps;         /* from one time to the next */
} IrOde;

/* Draws [lane, lane + n) of an instruction's rows, which are `lanes` apart; `count` of them are in
 * use, the others repeat one of those. */
typedef struct {
  size_t lane, n, count, lanes;
  int worker;
} IrPiece;

/* What a RUN node computes: outputs of inputs, each draw for itself. Whoever makes the node gives
 * the functions; they are called by several threads at a time. `work` makes what one tape's buffers
 * need for all draws; forward and backward get rows of the piece's draws. */
typedef struct IrRun {
  int32_t inputs, outputs;
  bool likelihood; /* a density of data is in them */
  void *self;
  void *(*work)(const struct IrRun *run, Arena *a, size_t lanes);
  void (*forward)(void *work, const IrPiece *p, const double *in, double *out);
  void (*backward)(void *work, const IrPiece *p, const double *in, const double *out_adj,
                   double *in_adj);
} IrRun;

typedef struct {
  uint16_t op;
  uint8_t nargs;
  bool likelihood : 1; /* contains a density of data: an increment with it is an observation's, not
                          the prior's */
  bool above : 1;      /* seen from what it is made of to be never below 0 (it may be nan) */
  int32_t n;
  int32_t attr, attr2;
  Node args[IR_MAX_ARGS];
  union {
    const double *values; /* CONST */
    const int32_t *index; /* GATHER */
    const Pick *picks;    /* PACK */
    const IrOde *ode;     /* ODE */
    const IrRun *run;     /* RUN */
  } u;
} IrNode;

typedef struct Graph {
  Arena *arena; /* of nodes and payloads */
  IrNode *nodes;
  int32_t count, cap;
  int32_t *table; /* hash-consing: node + 1 */
  size_t ntable;
} Graph;

Graph *ir_graph(Ctx *c); /* lives as long as the run */
Graph *ir_graph_in(Arena *a);
Graph *ir_copy(Arena *a, const Graph *g); /* to add to; it reads g's payloads */
/* What wanted[k], k < n, are made of, as a graph that does not read g; they become the nodes there.
 * NULL: something in it has a payload that cannot be copied. */
Graph *ir_extract(Arena *a, Arena *temp, const Graph *g, Node *wanted, int n);
static inline int32_t ir_ode_operands(const IrOde *o) {
  return o->states + o->params + (o->timed ? 1 + o->ntimes : 0);
}
static inline const IrNode *ir_node(const Graph *g, Node x) { return &g->nodes[x]; }
static inline int32_t ir_size(const Graph *g, Node x) { return g->nodes[x].n; }
static inline bool ir_is_const(const Graph *g, Node x) { return g->nodes[x].op == IR_CONST; }
static inline bool ir_is_map(unsigned op) { return op >= IR_FIRST_MAP; }

const char *ir_op_name(unsigned op);
int ir_op_arity(unsigned op);                        /* elementwise ops */
const double *ir_op_domain(unsigned op, int *count); /* elementwise ops: lo0, hi0, lo1, hi1, ... */

Node ir_const(Graph *g, const double *values, int32_t n); /* copies */
Node ir_const_kept(Graph *g, const double *values,
                   int32_t n); /* does not: they outlive the graph and do not change */
Node ir_number(Graph *g, double value);
Node ir_input(Graph *g, int32_t offset, int32_t n);
typedef enum { NOISE_NORMAL, NOISE_UNIFORM } NoiseKind;
Node ir_noise(Graph *g, NoiseKind kind, int32_t stream, int32_t n);
Node ir_outer(Graph *g, int32_t leaf, int32_t n);
Node ir_map(Graph *g, unsigned op, const Node *args);              /* elementwise: sizes n or 1 */
Node ir_gather(Graph *g, Node a, const int32_t *index, int32_t n); /* copies the index */
Node ir_gather_kept(Graph *g, Node a, const int32_t *index, int32_t n); /* does not */
Node ir_pack(Graph *g, const Pick *picks,
             int32_t n); /* becomes a gather, or the node itself, where it can */
Node ir_reduce(Graph *g, unsigned op /* SUM, LSE */, Node a, int32_t width);
Node ir_cumsum(Graph *g, Node a, int32_t width);
Node ir_matvec(Graph *g, Node matrix, Node b);
Node ir_eigen(Graph *g, Node a, int32_t rows);
Node ir_matmul(Graph *g, Node a, Node b, int32_t inner, int32_t columns);
Node ir_ode(Graph *g, const IrOde *ode, Node a); /* keeps *ode */
Node ir_run(Graph *g, const IrRun *run, Node a); /* keeps *run */
Node ir_mark_likelihood(Graph *g, Node x); /* a copy of x that is marked as a density of data */

/* Forget all nodes from `count` on (a lifted loop that is rolled back). */
void ir_truncate(Graph *g, int32_t count);

void ir_print(Text *out, const Graph *g);

/* A graph in which small nodes that do the same, side by side, are one (reroll.c), and in which
 * wanted[k], k < n, is what it was in g (NO_NODE: nothing is); g itself where there are fewer than
 * `least` of them. It reads g's payloads. */
const Graph *ir_reroll(Arena *a, const Graph *g, Node *wanted, int n, int32_t least);

/* ---- equal rows: row_keys.c ------------------------------------------------------------------ */

/* Rows with equal a and b are the same. width, place: of the widest shared value that the row reads
 * an element of, how many elements there are, and which it is. */
typedef struct {
  uint64_t a, b;
  int32_t width, place;
} RowKey;
void ir_key_mix_number(RowKey *k, double x);
/* The rows select[k], k < n, of a node of `rows` rows. */
typedef struct {
  const Graph *graph;
  Node node;
  int32_t rows;
  const int32_t *select;
  size_t n;
} IrRows;
/* keys[k] is mixed with all that row select[k] is made of: equal keys, the same function of the
 * inputs. */
void ir_row_keys(Ctx *c, const IrRows *r, RowKey *keys);

#endif
