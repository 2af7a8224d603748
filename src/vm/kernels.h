/* kernels.h: what runs over the draws, per instruction set: the ops of ir/ops.def, what tapes and
 * solvers of differential equations are made of, and the row kernels of num/.
 *
 * A row is n numbers, one per draw, n a multiple of LANES. An operand that does not vary over draws
 * is a row of LANES copies read with step 0. Kernels neither allocate nor know the graph; kernels.c
 * is compiled once per instruction set.
 */
#ifndef PVI_KERNELS_H
#define PVI_KERNELS_H

#include "ir/ir.h"
#include "num/row_kernels.h"

enum { ROWS_MOST = 64 };  /* observations of a tile */
enum { STAGES_MOST = 7 }; /* terms of a sum that runge_kutta and step_error take */

/* out = op(in) over n draws; step[k] is 0 for an operand of LANES copies, else 1. */
typedef void MapForward(double *out, const double *const *in, const size_t *step, size_t n);
/* adj[k] += g * d op / d in[k] for every k with adj[k]; r is the op's value. */
typedef void MapBackward(const double *g, const double *r, const double *const *in,
                         const size_t *step, double *const *adj, size_t n);

/* out[r, :] = constant[r] + sum_k A[r, k] dense[k][:] + sum_s coef[s][r] base[s][index[s][r] ld
 * ..]: the linear predictor of the rows of a tile. constant and coef[s] may be NULL: zeros, ones.
 */
typedef struct {
  size_t ndense, nsparse;
  const double *constant;
  const double *A;                            /* [rows x ndense] */
  const double *const *dense;                 /* ndense rows of draws */
  const double *const *coef;                  /* nsparse */
  const int32_t *const *index;                /* nsparse */
  const double *const *base;                  /* nsparse */
  size_t ld;                                  /* distance of rows behind base */
  double *const *dense_adj, *const *base_adj; /* the same places for adjoints */
} AffineRows;

/* log sum_k prod_t exp[k, t], of rows whose logarithms are log[k, t], for k < width, t < terms:
 * where the sum of products is out of range it is computed from the logarithms. */
typedef struct {
  size_t width, terms;
  const double *const *log, *const *exp; /* [width x terms] rows of draws */
  double *const *adj;                    /* of the logarithms */
} MixtureRows;

/* out[e] = log sum_w exp(a[w] + b[e, w]), e < rows, w < width; exps: of b. */
enum { CHAIN_MOST = 16 }; /* the largest width */
typedef struct {
  size_t rows, width;
  const double *const *a, *const *b, *const *exps; /* width; rows x width, twice */
  double *const *a_adj, *const *b_adj;
} ChainRows;

/* A row of global values, or LANES copies of a number. */
typedef struct {
  const double *data; /* NULL: */
  size_t element;
} RowPlace;

/* A loop that hands one number on: v[t] = a x[t - 1] + c[t], or c[t] - a x[t - 1]; and x[t] = v[t],
 * or y[t] - v[t]. Rows of values and of adjoints are ld apart. Those of v and x are read and
 * written where they are, but what flows back from x[t] to x[t - 1] and to a stays in registers. */
typedef struct {
  size_t steps;
  bool minus, apart; /* apart: x is y - v, else x is v */
  RowPlace a, first; /* first: x[-1] */
  const RowPlace *c, *y;
  const size_t *v, *x; /* elements */
} Recurrence;

/* A density d(y[r], b[r], c, d) of `rows` observations that share c and d: these, and their
 * adjoints, stay in registers. */
typedef struct {
  const double *y;
  size_t y_step;           /* 0: one number for all rows */
  const double *const *b;  /* rows of draws */
  double *const *b_adj;    /* NULL: b is data */
  bool fresh;              /* store b's adjoint, do not add */
  const double *shared[2]; /* c, d */
  size_t step[2];
  double *shared_adj[2]; /* NULL: data */
  const double *value;   /* on the way back: what it came to, row by row like its adjoint */
} DensityRows;

/* The same of an objective that is linear in the density, sum_j g[j] density[r, j]: totals and
 * adjoints in one visit. */
typedef void DensityTotal(double *total, const double *g, size_t m, const DensityRows *x,
                          size_t rows, size_t n);

/* out = op(in), slope = d op / d in[k], k = saving_operand[op] - 1, for the price of little more
 * than the value. */
typedef void MapSaving(double *out, double *slope, const double *const *in, const size_t *step,
                       size_t n);

/* An objective that is linear in one density, sum_j g[j] op(in)[j], j < m. */
typedef struct {
  const double *g;
  size_t m, n;
  double *adj; /* (+)= g slope, over n */
  bool fresh;  /* store, do not add */
} TotalRow;
typedef double MapTotal(const TotalRow *t, const double *const *in,
                        const size_t *step); /* the sum of op(in) */

/* Products of adjoints with basis functions: rows ldg and ldb apart, over m lanes. */
typedef struct {
  const double *g, *basis;
  size_t ldg, ldb, terms, rows, m;
} OuterRows;

/* ---- differential equations: `rows` rows of n draws, ld apart -------------------------------- */

typedef struct {
  size_t rows, ld, n;
} RowsShape;

/* sum_c coef[c] k[c][r, :], c < terms <= STAGES_MOST */
typedef struct {
  const double *const *k;
  const double *coef;
  size_t terms;
} StageSum;

/* What an error is measured by: absolute + relative (|z[r, :]| + |h slope[r, :]|), h the step of
 * each draw. */
typedef struct {
  const double *z, *slope, *h;
  double relative, absolute;
} StepScale;

/* own[r] + sum_t slope[t] of[t][r, :], t < terms; own[r] may be NULL: 0 */
typedef struct {
  const double *const *own, *const *slope, *const *of;
  size_t terms;
} TangentSum;

typedef struct Kernels {
  const char *name;
  MapForward *forward[IR_OP_COUNT];
  MapBackward *backward[IR_OP_COUNT];

  /* Faster ways of some densities, else NULL. */
  void (*density[IR_OP_COUNT])(double *out, size_t ldo, const DensityRows *x, size_t rows,
                               size_t n);
  void (*density_adjoint[IR_OP_COUNT])(const double *g, size_t ldg, const DensityRows *x,
                                       size_t rows, size_t n);
  DensityTotal *density_total[IR_OP_COUNT];
  MapSaving *saving[IR_OP_COUNT];
  MapTotal *saving_total[IR_OP_COUNT];
  uint8_t saving_operand[IR_OP_COUNT];
  void (*chain)(double *adj, const double *g, const double *slope, size_t n,
                bool fresh); /* adj (+)= g slope */

  void (*recurrence)(const Recurrence *r, double *values, size_t ld, size_t n);
  void (*recurrence_adjoint)(const Recurrence *r, const double *values, double *adj, size_t ld,
                             size_t n);

  void (*affine)(double *out, size_t ldo, const AffineRows *a, size_t rows, size_t n);
  void (*affine_adjoint)(const double *g, size_t ldg, const AffineRows *a, size_t rows, size_t n);
  void (*step)(double *out, size_t ldo, const ChainRows *c, size_t n);
  void (*step_adjoint)(const double *g, const double *r, size_t ld, const ChainRows *c, size_t n);
  void (*mixture)(double *out, const MixtureRows *m, size_t n);
  void (*mixture_adjoint)(const double *g, const double *r, const MixtureRows *m, size_t n);
  /* adj[r terms + b] = sum over the lanes of g[r ldg + j] basis[b ldb + j] */
  void (*outer_adjoint)(double *adj, const OuterRows *o);

  /* out = z + h sum */
  void (*runge_kutta)(double *out, const double *z, const double *h, const StageSum *sum,
                      RowsShape shape);
  /* out = max_r |h sum| / scale, nan counting as nothing */
  void (*step_error)(double *out, const StepScale *scale, const StageSum *sum, RowsShape shape);
  void (*tangent)(double *out, const TangentSum *sum, RowsShape shape);
  /* B = A^-1 B for every draw, A: [order x order] rows, which it destroys, row i of B: `columns`
   * rows from B[i] on */
  void (*solve)(double *A, double *const *B, size_t order, size_t columns, size_t ld, size_t n);

#define ROW_KERNEL(type, name, arguments) type(*name) arguments;
#include "num/row_kernels.def"
#undef ROW_KERNEL
} Kernels;

/* The widest this machine runs; PVI_ISA=base|avx2|avx512 overrides. */
const Kernels *kernels_best(void);
const Kernels *kernels_named(const char *isa); /* NULL when unknown or not runnable here */

#endif
