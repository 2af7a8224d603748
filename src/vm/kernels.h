/* kernels.h: what runs over the draws, per instruction set.
 *
 * A row is n numbers, one per draw, n a multiple of LANES. An operand that does not vary over draws
 * is a row of LANES copies read with step 0. Kernels neither allocate nor know the graph; kernels.c
 * is compiled once per instruction set.
 */
#ifndef PVI_KERNELS_H
#define PVI_KERNELS_H

#include "ir/ir.h"

enum { ROWS_MOST = 64 };  /* observations of a tile */
enum { STAGES_MOST = 7 }; /* terms of a sum that runge_kutta and step_error take */
enum {
  LANES = 8
}; /* rows are padded to this many draws: the widest vector of all instruction sets */

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
} DensityRows;

/* The same of an objective that is linear in the density, sum_j g[j] density[r, j]: totals and
 * adjoints in one visit. */
typedef void DensityTotal(double *total, const double *g, size_t m, const DensityRows *x,
                          size_t rows, size_t n);

/* out = op(in), slope = d op / d in[k], k = saving_operand[op] - 1, for the price of little more
 * than the value. */
typedef void MapSaving(double *out, double *slope, const double *const *in, const size_t *step,
                       size_t n);

/* Returns the sum over m draws of op(in); adj (+)= g slope, over n. */
typedef double MapTotal(const double *g, size_t m, const double *const *in, const size_t *step,
                        double *adj, bool fresh, size_t n);

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

  /* C[i, :] (+)= sum_k A[i ra + k ca] B[k, :] for i < rows, k < inner; ldb, ldc: distance of rows.
   */
  void (*gemm)(double *C, size_t ldc, const double *A, size_t ra, size_t ca, const double *B,
               size_t ldb, size_t rows, size_t inner, size_t n, bool add);
  void (*affine)(double *out, size_t ldo, const AffineRows *a, size_t rows, size_t n);
  void (*affine_adjoint)(const double *g, size_t ldg, const AffineRows *a, size_t rows, size_t n);
  void (*add)(double *out, const double *a, size_t n);                           /* out += a */
  void (*axpy)(double *out, double c, const double *a, size_t n);                /* out += c a */
  void (*multiply_add)(double *out, const double *a, const double *b, size_t n); /* out += a b */
  /* out = log sum_w exp a[w], w < width; operands with steps as in MapForward */
  void (*log_sum_exp)(double *out, const double *const *a, const size_t *step, size_t width,
                      size_t n);
  /* adj[w] += g exp(a[w] - r) for every w with adj[w] */
  void (*log_sum_exp_adjoint)(const double *g, const double *r, const double *const *a,
                              const size_t *step, double *const *adj, size_t width, size_t n);

  /* Differential equations: rows of draws ld apart, h a step per draw, terms <= STAGES_MOST.
   * out[r, :] = z[r, :] + h sum_c coef[c] k[c][r, :] */
  void (*runge_kutta)(double *out, const double *z, const double *h, const double *const *k,
                      const double *coef, size_t terms, size_t rows, size_t ld, size_t n);
  /* out = max_r |h sum_c coef[c] k[c][r, :]| / (absolute + relative (|z[r, :]| + |h slope[r, :]|)),
   * nan counting as nothing */
  void (*step_error)(double *out, const double *z, const double *slope, const double *h,
                     const double *const *k, const double *coef, size_t terms, double relative,
                     double absolute, size_t rows, size_t ld, size_t n);
  /* out[r, :] = own[r] + sum_t slope[t] of[t][r, :]; own[r] may be NULL: 0 */
  void (*tangent)(double *out, const double *const *own, const double *const *slope,
                  const double *const *of, size_t terms, size_t rows, size_t ld, size_t n);
  /* B = A^-1 B for every draw, A: [order x order] rows, which it destroys, row i of B: `columns`
   * rows from B[i] on */
  void (*solve)(double *A, double *const *B, size_t order, size_t columns, size_t ld, size_t n);

  /* A mixture of normals over the m draws of one row, inverse[j] = 1 / sd, weights NULL: 1 / m
   * each: its distribution function at u, *pdf the density, *slope the density's derivative; or the
   * density alone. */
  double (*normal_cdf)(double u, const double *mean, const double *inverse, const double *weights,
                       size_t m, double *pdf, double *slope);
  double (*normal_pdf)(double u, const double *mean, const double *inverse, const double *weights,
                       size_t m);
  /* g times its derivatives, added to adj_mean and adj_sd (m numbers each; either may be NULL) */
  void (*normal_cdf_adjoint)(double u, double g, const double *mean, const double *inverse,
                             const double *weights, size_t m, double *adj_mean, double *adj_sd);

  /* Over the m <= n draws of one row: returns log sum_j exp(l[j]); with w, w[j] = exp(l[j]) / sum
   * (0 in the padding). */
  double (*softmax)(double *w, const double *l, size_t m);
  /* The same of `rows` rows, ld apart, of l + plus where plus is not NULL; out[r]: what softmax
   * returns. w may be NULL. */
  void (*softmax_rows)(double *w, const double *l, const double *plus, size_t ld, size_t rows,
                       size_t m, double *out);
  /* adj[r terms + b] = sum over the m lanes of g[r ldg + j] basis[b ldb + j] */
  void (*outer_adjoint)(double *adj, const double *g, size_t ldg, const double *basis, size_t ldb,
                        size_t terms, size_t rows, size_t m);
  void (*rescale)(double *x, double times, double plus, size_t m); /* x = times x + plus */
  void (*fill)(double *out, double x, size_t m); /* m numbers x, then zeros in the padding */
  /* below[k] = how many of x[j] are < x[k], j, k < m; O(m^2), for small m. Returns the sum of all
   * below: m (m - 1) / 2 unless some are equal (or nan). */
  double (*ranks)(double *below, const double *x, size_t m);
  double (*sum)(const double *a, size_t m);                  /* fixed order */
  double (*dot)(const double *a, const double *b, size_t m); /* fixed order */
} Kernels;

const Kernels *
kernels_best(void); /* the widest this machine runs; PVI_ISA=base|avx2|avx512 overrides */
const Kernels *kernels_named(const char *isa); /* NULL when unknown or not runnable here */

#endif
