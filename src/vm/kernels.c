/* kernels.c: ops.def and the few row operations, as loops over vectors of draws. Compiled once per
 * instruction set with -DISA=base|avx2|avx512; exports one table, kernels_<ISA>. */
#include "vm/kernels.h"

#include "num/simd.h"
#include "num/special.h"
#include "num/vmath.h"

#include <math.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

#define K(x) v_splat(x)
#define ONE v_splat(1.0)
#define ZERO v_splat(0.0)
#define HALF v_splat(0.5)
#define SEL(m, x, y) v_select((m), (x), (y))
#define UNUSED __attribute__((unused))

LIFT(v_trigamma, num_trigamma)

static inline vd v_atan2(vd a, vd b) {
  for (int i = 0; i < VL; i++) a[i] = atan2(a[i], b[i]);
  return a;
}

/* ---- elementwise: value and adjoint of every row of ops.def ---------------------------------- */

#define LOAD(k, j) v_load(in[k] + step[k] * (j))
#define LOAD_1 vd a = LOAD(0, j);
#define LOAD_2 LOAD_1 vd b = LOAD(1, j);
#define LOAD_3 LOAD_2 vd c = LOAD(2, j);
#define LOAD_4 LOAD_3 vd d = LOAD(3, j);

#define OP(NAME, arity, value, shared, partials, domain)                                           \
  static void forward_##NAME(double *out, const double *const *in, const size_t *step, size_t n) { \
    for (size_t j = 0; j < n; j += VL) {                                                           \
      LOAD_##arity v_store(out + j, value);                                                        \
    }                                                                                              \
  }
#include "ir/ops.def"
#undef OP

/* Where nothing flows back, nothing is added: 0 times an infinite partial derivative is 0. */
#define BUMP(k, partial)                                                                           \
  if (adj[k]) v_store(adj[k] + j, v_load(adj[k] + j) + SEL(idle, ZERO, g_ * (partial)));
#define BUMP_1(d0, d1, d2, d3) BUMP(0, d0)
#define BUMP_2(d0, d1, d2, d3) BUMP(0, d0) BUMP(1, d1)
#define BUMP_3(d0, d1, d2, d3) BUMP(0, d0) BUMP(1, d1) BUMP(2, d2)
#define BUMP_4(d0, d1, d2, d3) BUMP(0, d0) BUMP(1, d1) BUMP(2, d2) BUMP(3, d3)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-variable" /* not every partial needs every operand */
#define OP(NAME, arity, value, shared, partials, domain)                                           \
  static void backward_##NAME(const double *g, const double *r_, const double *const *in,          \
                              const size_t *step, double *const *adj, size_t n) {                  \
    for (size_t j = 0; j < n; j += VL) {                                                           \
      LOAD_##arity vd r = v_load(r_ + j);                                                          \
      vd g_ = v_load(g + j);                                                                       \
      vm idle = v_eq(g_, ZERO);                                                                    \
      shared BUMP_##arity partials                                                                 \
    }                                                                                              \
  }
#include "ir/ops.def"
#undef OP
#pragma GCC diagnostic pop

/* ---- densities of observations --------------------------------------------------------------- */

/* The rows of ops.def once more, as functions. */
#define SLOPES(d0, d1, d2, d3) (by[0] = (d0), by[1] = (d1), by[2] = (d2), by[3] = (d3))
#define OP(NAME, arity, value, shared, partials, domain)                                           \
  UNUSED VFN vd value_##NAME(vd a, vd b, vd c, vd d) {                                             \
    (void)a, (void)b, (void)c, (void)d;                                                            \
    return value;                                                                                  \
  }                                                                                                \
  UNUSED VFN void slopes_##NAME(vd a, vd b, vd c, vd d, vd r, vd by[4]) {                          \
    (void)a, (void)b, (void)c, (void)d, (void)r;                                                   \
    shared SLOPES partials;                                                                        \
  }
#include "ir/ops.def"
#undef OP

/* Those of an outcome, a location per observation and two parameters that all observations share.
 */
#define DENSITIES(X) X(NORMAL) X(CAUCHY) X(DOUBLE_EXP) X(LOGISTIC) X(STUDENT_T)

#define SHARED(k, j) v_load(x->shared[k] + x->step[k] * (j))
#define PULLED(slope) SEL(idle, ZERO, gj *(slope))
#define DENSITY(NAME)                                                                              \
  static void density_##NAME(double *out, size_t ldo, const DensityRows *x, size_t rows,           \
                             size_t n) {                                                           \
    for (size_t j = 0; j < n; j += VL) {                                                           \
      vd c = SHARED(0, j), d = SHARED(1, j);                                                       \
      for (size_t r = 0; r < rows; r++)                                                            \
        v_store(out + r * ldo + j,                                                                 \
                value_##NAME(v_splat(x->y[r * x->y_step]), v_load(x->b[r] + j), c, d));            \
    }                                                                                              \
  }                                                                                                \
  static void density_adjoint_##NAME(const double *g, size_t ldg, const DensityRows *x,            \
                                     size_t rows, size_t n) {                                      \
    for (size_t j = 0; j < n; j += VL) {                                                           \
      vd c = SHARED(0, j), d = SHARED(1, j), to_c = ZERO, to_d = ZERO, by[4];                      \
      for (size_t r = 0; r < rows; r++) {                                                          \
        vd gj = v_load(g + r * ldg + j);                                                           \
        vm idle = v_eq(gj, ZERO);                                                                  \
        slopes_##NAME(v_splat(x->y[r * x->y_step]), v_load(x->b[r] + j), c, d, ZERO, by);          \
        if (x->b_adj)                                                                              \
          v_store(x->b_adj[r] + j, PULLED(by[1]) + (x->fresh ? ZERO : v_load(x->b_adj[r] + j)));   \
        if (x->shared_adj[0]) to_c += PULLED(by[2]);                                               \
        if (x->shared_adj[1]) to_d += PULLED(by[3]);                                               \
      }                                                                                            \
      if (x->shared_adj[0]) v_store(x->shared_adj[0] + j, v_load(x->shared_adj[0] + j) + to_c);    \
      if (x->shared_adj[1]) v_store(x->shared_adj[1] + j, v_load(x->shared_adj[1] + j) + to_d);    \
    }                                                                                              \
  }
DENSITIES(DENSITY)

#define TOTAL(NAME)                                                                                \
  static void total_##NAME(double *total, const double *g, size_t m, const DensityRows *x,         \
                           size_t rows, size_t n) {                                                \
    vd sum[ROWS_MOST];                                                                             \
    for (size_t r = 0; r < rows; r++) sum[r] = ZERO;                                               \
    for (size_t j = 0; j < n; j += VL) {                                                           \
      vd gj = v_load(g + j), c = SHARED(0, j), d = SHARED(1, j), to_c = ZERO, to_d = ZERO, by[4];  \
      vm idle = v_not(v_lt(v_iota() + (double)j, v_splat((double)m)));                             \
      for (size_t r = 0; r < rows; r++) {                                                          \
        vd y = v_splat(x->y[r * x->y_step]), b = v_load(x->b[r] + j);                              \
        sum[r] += SEL(idle, ZERO, value_##NAME(y, b, c, d));                                       \
        slopes_##NAME(y, b, c, d, ZERO, by);                                                       \
        v_store(x->b_adj[r] + j, PULLED(by[1]) + (x->fresh ? ZERO : v_load(x->b_adj[r] + j)));     \
        if (x->shared_adj[0]) to_c += PULLED(by[2]);                                               \
        if (x->shared_adj[1]) to_d += PULLED(by[3]);                                               \
      }                                                                                            \
      if (x->shared_adj[0]) v_store(x->shared_adj[0] + j, v_load(x->shared_adj[0] + j) + to_c);    \
      if (x->shared_adj[1]) v_store(x->shared_adj[1] + j, v_load(x->shared_adj[1] + j) + to_d);    \
    }                                                                                              \
    for (size_t r = 0; r < rows; r++) total[r] = v_sum(sum[r]);                                    \
  }
DENSITIES(TOTAL)

/* Those whose value and slope in one operand (number k) have most of the work in common; the
 * compiler finds it, but for the one division that does for both. */
#define SAVINGS(X) X(BERNOULLI_LOGIT, 2, 1) X(POISSON_LOG, 3, 1) X(BINOMIAL_LOGIT, 4, 2)

VFN vd both_POISSON_LOG(vd a, vd b, vd c, vd d, vd *slope) {
  vd by[4], v = value_POISSON_LOG(a, b, c, d);
  slopes_POISSON_LOG(a, b, c, d, v, by);
  *slope = by[1];
  return v;
}

VFN vd both_BINOMIAL_LOGIT(vd a, vd b, vd c, vd d, vd *slope) {
  vd by[4], v = value_BINOMIAL_LOGIT(a, b, c, d);
  slopes_BINOMIAL_LOGIT(a, b, c, d, v, by);
  *slope = by[2];
  return v;
}

VFN vd both_BERNOULLI_LOGIT(vd a, vd b, vd c, vd d, vd *slope) {
  (void)c, (void)d;
  vm one = v_not(v_eq(a, ZERO));
  vd p, v = -v_log1p_exp_d(SEL(one, -b, b), &p);
  *slope = SEL(one, p, -p);
  return v;
}

#define ALL_2 LOAD_2 vd c = ZERO, d = ZERO;
#define ALL_3 LOAD_3 vd d = ZERO;
#define ALL_4 LOAD_4
#define SAVING(NAME, arity, k)                                                                     \
  static void saving_##NAME(double *out, double *slope, const double *const *in,                   \
                            const size_t *step, size_t n) {                                        \
    for (size_t j = 0; j < n; j += VL) {                                                           \
      ALL_##arity vd s, v = both_##NAME(a, b, c, d, &s);                                           \
      v_store(out + j, v);                                                                         \
      v_store(slope + j, s);                                                                       \
    }                                                                                              \
  }
SAVINGS(SAVING)

#define SAVING_TOTAL(NAME, arity)                                                                  \
  static double saving_total_##NAME(const double *g, size_t m, const double *const *in,            \
                                    const size_t *step, double *adj, bool fresh, size_t n) {       \
    vd sum = ZERO;                                                                                 \
    for (size_t j = 0; j < n; j += VL) {                                                           \
      ALL_##arity vd s, v = both_##NAME(a, b, c, d, &s);                                           \
      vm idle = v_not(v_lt(v_iota() + (double)j, v_splat((double)m)));                             \
      vd pulled = SEL(idle, ZERO, v_load(g + j) * s);                                              \
      sum += SEL(idle, ZERO, v);                                                                   \
      v_store(adj + j, fresh ? pulled : v_load(adj + j) + pulled);                                 \
    }                                                                                              \
    return v_sum(sum);                                                                             \
  }
SAVING_TOTAL(POISSON_LOG, 3)
SAVING_TOTAL(BINOMIAL_LOGIT, 4)

/* -sum_j log(1 + exp(x_j)), x = -b for a success, else b, = -sum_j max(x_j, 0) - log prod_j (1 +
 * exp(-|x_j|)). */
static double saving_total_BERNOULLI_LOGIT(const double *g, size_t m, const double *const *in,
                                           const size_t *step, double *adj, bool fresh, size_t n) {
  enum { MOST_FACTORS = 1000 }; /* each is at most 2 */
  (void)step;
  vd sign = SEL(v_not(v_eq(v_load(in[0]), ZERO)), K(-1.0), ONE), sum = ZERO;
  for (size_t j = 0; j < n;) {
    vd product = ONE;
    for (size_t end = n - j < MOST_FACTORS * VL ? n : j + MOST_FACTORS * VL; j < end; j += VL) {
      vm idle = v_not(v_lt(v_iota() + (double)j, v_splat((double)m)));
      vd x = v_load(in[1] + j) * sign, e = v_exp_unit(x), t = ONE + e;
      vd slope = SEL(v_lt(x, ZERO), e, ONE) / t;
      vd pulled = SEL(idle, ZERO, v_load(g + j) * (-sign * slope));
      product *= SEL(idle, ONE, t);
      sum += SEL(idle, ZERO, v_max(ZERO, x));
      v_store(adj + j, fresh ? pulled : v_load(adj + j) + pulled);
    }
    sum += v_log(product);
  }
  return -v_sum(sum);
}

static void chain(double *adj, const double *g, const double *slope, size_t n, bool fresh) {
  for (size_t j = 0; j < n; j += VL) {
    vd gj = v_load(g + j);
    vd pulled = SEL(v_eq(gj, ZERO), ZERO, gj * v_load(slope + j));
    v_store(adj + j, fresh ? pulled : v_load(adj + j) + pulled);
  }
}

/* ---- products with constants: blocks of R rows by C vectors of draws, held in registers ------ */

enum {
  ROWS_AT_ONCE = VL == 8 ? 8 : 4
}; /* with two vectors of draws each they fill the registers */

#define BLOCK(i, v) V_UNROLL for (int i = 0; i < R; i++) V_UNROLL for (int v = 0; v < C; v++)

/* Runs step(R, C) over all rows and draws: as many rows at once as fit, then four, then one. */
#define IN_BLOCKS(rows, n, i, j, step)                                                             \
  for (size_t j = 0; j < (n);) {                                                                   \
    size_t i = 0;                                                                                  \
    if ((n)-j >= 2 * VL) {                                                                         \
      for (; i + ROWS_AT_ONCE <= (rows); i += ROWS_AT_ONCE) step(ROWS_AT_ONCE, 2);                 \
      for (; i + 4 <= (rows); i += 4) step(4, 2);                                                  \
      for (; i < (rows); i++) step(1, 2);                                                          \
      j += 2 * VL;                                                                                 \
    } else {                                                                                       \
      for (; i + ROWS_AT_ONCE <= (rows); i += ROWS_AT_ONCE) step(ROWS_AT_ONCE, 1);                 \
      for (; i + 4 <= (rows); i += 4) step(4, 1);                                                  \
      for (; i < (rows); i++) step(1, 1);                                                          \
      j += VL;                                                                                     \
    }                                                                                              \
  }

VFN void gemm_block(double *out, size_t ldc, const double *A, size_t ra, size_t ca, const double *B,
                    size_t ldb, size_t inner, bool add, int R, int C) {
  vd acc[ROWS_AT_ONCE][2];
  BLOCK(i, v) acc[i][v] = add ? v_load(out + (size_t)i * ldc + (size_t)v * VL) : ZERO;
  for (size_t k = 0; k < inner; k++) {
    vd b[2];
    V_UNROLL for (int v = 0; v < C; v++) b[v] = v_load(B + k * ldb + (size_t)v * VL);
    V_UNROLL for (int i = 0; i < R; i++) {
      vd x = v_splat(A[(size_t)i * ra + k * ca]);
      V_UNROLL for (int v = 0; v < C; v++) acc[i][v] = v_fma(x, b[v], acc[i][v]);
    }
  }
  BLOCK(i, v) v_store(out + (size_t)i * ldc + (size_t)v * VL, acc[i][v]);
}

static void gemm(double *out, size_t ldc, const double *A, size_t ra, size_t ca, const double *B,
                 size_t ldb, size_t rows, size_t inner, size_t n, bool add){
#define STEP(R, C)                                                                                 \
  gemm_block(out + i * ldc + j, ldc, A + i * ra, ra, ca, B + j, ldb, inner, add, R, C)
    IN_BLOCKS(rows, n, i, j, STEP)
#undef STEP
}

/* Linear predictors of the rows r .. r + R. */
VFN void affine_block(double *out, size_t ldo, const AffineRows *a, size_t r, size_t j, int R,
                      int C) {
  vd acc[ROWS_AT_ONCE][2];
  size_t D = a->ndense;
  BLOCK(i, v) acc[i][v] = v_splat(a->constant ? a->constant[r + (size_t)i] : 0.0);
  const double *A = a->A + r * D, *const *dense = a->dense;
  for (size_t k = 0; k < D; k++) {
    vd b[2];
    V_UNROLL for (int v = 0; v < C; v++) b[v] = v_load(dense[k] + j + (size_t)v * VL);
    V_UNROLL for (int i = 0; i < R; i++) {
      vd x = v_splat(A[(size_t)i * D + k]);
      V_UNROLL for (int v = 0; v < C; v++) acc[i][v] = v_fma(x, b[v], acc[i][v]);
    }
  }
  for (size_t s = 0; s < a->nsparse; s++) {
    const double *base = a->base[s] + j, *coef = a->coef[s] ? a->coef[s] + r : NULL;
    const int32_t *index = a->index[s] + r;
    V_UNROLL for (int i = 0; i < R; i++) {
      const double *b = base + (size_t)index[i] * a->ld;
      vd x = v_splat(coef ? coef[i] : 1.0);
      V_UNROLL for (int v = 0; v < C; v++) acc[i][v] = v_fma(x, v_load(b + v * VL), acc[i][v]);
    }
  }
  BLOCK(i, v) v_store(out + (r + (size_t)i) * ldo + j + (size_t)v * VL, acc[i][v]);
}

static void affine(double *out, size_t ldo, const AffineRows *a, size_t rows, size_t n){
#define STEP(R, C) affine_block(out, ldo, a, i, j, R, C)
    IN_BLOCKS(rows, n, i, j, STEP)
#undef STEP
}

/* dense_adj[k .. k + R) += A' g */
VFN void dense_adjoint(const double *g, size_t ldg, const AffineRows *a, size_t k, size_t rows,
                       size_t j, int R, int C) {
  vd acc[ROWS_AT_ONCE][2];
  size_t D = a->ndense;
  double *const *adj = a->dense_adj + k;
  const double *A = a->A + k;
  BLOCK(i, v) acc[i][v] = v_load(adj[i] + j + (size_t)v * VL);
  for (size_t r = 0; r < rows; r++) {
    vd x[2];
    V_UNROLL for (int v = 0; v < C; v++) x[v] = v_load(g + r * ldg + j + (size_t)v * VL);
    V_UNROLL for (int i = 0; i < R; i++) {
      vd b = v_splat(A[r * D + (size_t)i]);
      V_UNROLL for (int v = 0; v < C; v++) acc[i][v] = v_fma(b, x[v], acc[i][v]);
    }
  }
  BLOCK(i, v) v_store(adj[i] + j + (size_t)v * VL, acc[i][v]);
}

/* base_adj[s][index[s][r]] += coef[s][r] g[r], for the terms s0 .. s0 + R of one row; terms may
 * meet in one place. */
VFN void sparse_adjoint(const double *g, const AffineRows *a, size_t s0, size_t r, size_t n,
                        int R) {
  double *to[4];
  vd x[4];
  V_UNROLL for (int s = 0; s < R; s++) {
    size_t t = s0 + (size_t)s;
    to[s] = a->base_adj[t] + (size_t)a->index[t][r] * a->ld;
    x[s] = v_splat(a->coef[t] ? a->coef[t][r] : 1.0);
  }
  for (size_t j = 0; j < n; j += VL) {
    vd gj = v_load(g + j);
    V_UNROLL for (int s = 0; s < R; s++) v_store(to[s] + j, v_fma(x[s], gj, v_load(to[s] + j)));
  }
}

static void affine_adjoint(const double *g, size_t ldg, const AffineRows *a, size_t rows,
                           size_t n) {
#define STEP(R, C) dense_adjoint(g, ldg, a, i, rows, j, R, C)
  IN_BLOCKS(a->ndense, n, i, j, STEP)
#undef STEP
  for (size_t r = 0; r < rows; r++) {
    size_t s = 0;
    for (; s + 4 <= a->nsparse; s += 4) sparse_adjoint(g + r * ldg, a, s, r, n, 4);
    for (; s + 2 <= a->nsparse; s += 2) sparse_adjoint(g + r * ldg, a, s, r, n, 2);
    for (; s < a->nsparse; s++) sparse_adjoint(g + r * ldg, a, s, r, n, 1);
  }
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void add_row(double *out, const double *a, size_t n) {
  for (size_t j = 0; j < n; j += VL) v_store(out + j, v_load(out + j) + v_load(a + j));
}

static void axpy_row(double *out, double c, const double *a, size_t n) {
  for (size_t j = 0; j < n; j += VL)
    v_store(out + j, v_fma(v_splat(c), v_load(a + j), v_load(out + j)));
}

static void multiply_add(double *out, const double *a, const double *b, size_t n) {
  for (size_t j = 0; j < n; j += VL)
    v_store(out + j, v_fma(v_load(a + j), v_load(b + j), v_load(out + j)));
}

/* Where the maximum is infinite it is the answer, as Stan has it. */
static void log_sum_exp(double *out, const double *const *in, const size_t *step, size_t width,
                        size_t n) {
  for (size_t j = 0; j < n; j += VL) {
    vd m = LOAD(0, j);
    for (size_t w = 1; w < width; w++) m = v_max(m, LOAD(w, j));
    vd s = ZERO;
    for (size_t w = 0; w < width; w++) s += v_exp(LOAD(w, j) - m);
    v_store(out + j, SEL(v_eq(v_abs(m), K(INFINITY)), m, m + v_log(s)));
  }
}

static void log_sum_exp_adjoint(const double *g, const double *r, const double *const *in,
                                const size_t *step, double *const *adj, size_t width, size_t n) {
  for (size_t j = 0; j < n; j += VL) {
    vd gj = v_load(g + j), rj = v_load(r + j);
    for (size_t w = 0; w < width; w++) {
      if (!adj[w]) continue;
      vd aw = LOAD(w, j);
      vd p = SEL(v_eq(aw, K(-INFINITY)), ZERO, v_exp(aw - rj));
      v_store(adj[w] + j, v_fma(gj, p, v_load(adj[w] + j)));
    }
  }
}

/* ---- differential equations ------------------------------------------------------------------ */

/* sum_c coef[c] k[c][at ..] */
VFN vd stage_sum(const double *const *k, const double *coef, size_t at, int terms) {
  vd s = v_splat(coef[0]) * v_load(k[0] + at);
  V_UNROLL for (int c = 1; c < terms; c++) s = v_fma(v_splat(coef[c]), v_load(k[c] + at), s);
  return s;
}

/* Runs step(T) with T = terms as a number that the compiler knows. */
#define BY_TERMS(terms, step)                                                                      \
  switch (terms) {                                                                                 \
  case 0: step(0); break;                                                                          \
  case 1: step(1); break;                                                                          \
  case 2: step(2); break;                                                                          \
  case 3: step(3); break;                                                                          \
  case 4: step(4); break;                                                                          \
  case 5: step(5); break;                                                                          \
  case 6: step(6); break;                                                                          \
  default: step(STAGES_MOST);                                                                      \
  }

VFN void runge_kutta_rows(double *out, const double *z, const double *h, const double *const *k,
                          const double *coef, size_t rows, size_t ld, size_t n, int terms) {
  for (size_t j = 0; j < n; j += VL) {
    vd hj = v_load(h + j);
    for (size_t at = j; at < rows * ld; at += ld)
      v_store(out + at, v_fma(hj, stage_sum(k, coef, at, terms), v_load(z + at)));
  }
}

static void runge_kutta(double *out, const double *z, const double *h, const double *const *k,
                        const double *coef, size_t terms, size_t rows, size_t ld, size_t n){
#define STEP(T) runge_kutta_rows(out, z, h, k, coef, rows, ld, n, T)
    BY_TERMS(terms, STEP)
#undef STEP
}

VFN void step_error_rows(double *out, const double *z, const double *slope, const double *h,
                         const double *const *k, const double *coef, double relative,
                         double absolute, size_t rows, size_t ld, size_t n, int terms) {
  for (size_t j = 0; j < n; j += VL) {
    vd hj = v_load(h + j), most = ZERO, rel = v_splat(relative), abs = v_splat(absolute);
    for (size_t at = j; at < rows * ld; at += ld) {
      vd scale = v_fma(rel, v_abs(v_load(z + at)) + v_abs(hj * v_load(slope + at)), abs);
      vd error = v_abs(hj * stage_sum(k, coef, at, terms)) / scale;
      most = SEL(v_lt(most, error), error, most);
    }
    v_store(out + j, most);
  }
}

static void step_error(double *out, const double *z, const double *slope, const double *h,
                       const double *const *k, const double *coef, size_t terms, double relative,
                       double absolute, size_t rows, size_t ld, size_t n){
#define STEP(T) step_error_rows(out, z, slope, h, k, coef, relative, absolute, rows, ld, n, T)
    BY_TERMS(terms, STEP)
#undef STEP
}

VFN void tangent_rows(double *out, const double *const *own, const double *const *slope,
                      const double *const *of, size_t rows, size_t ld, size_t n, int terms) {
  for (size_t j = 0; j < n; j += VL) {
    vd by[STAGES_MOST];
    V_UNROLL for (int t = 0; t < terms; t++) by[t] = v_load(slope[t] + j);
    for (size_t r = 0; r < rows; r++) {
      vd s = own[r] ? v_load(own[r] + j) : ZERO;
      V_UNROLL for (int t = 0; t < terms; t++) s = v_fma(by[t], v_load(of[t] + r * ld + j), s);
      v_store(out + r * ld + j, s);
    }
  }
}

static void tangent(double *out, const double *const *own, const double *const *slope,
                    const double *const *of, size_t terms, size_t rows, size_t ld, size_t n) {
#define STEP(T) tangent_rows(out, own, slope, of, rows, ld, n, T)
  if (terms <= STAGES_MOST) {
    BY_TERMS(terms, STEP)
    return;
  }
#undef STEP
  for (size_t j = 0; j < n; j += VL)
    for (size_t r = 0; r < rows; r++) {
      vd s = own[r] ? v_load(own[r] + j) : ZERO;
      for (size_t t = 0; t < terms; t++)
        s = v_fma(v_load(slope[t] + j), v_load(of[t] + r * ld + j), s);
      v_store(out + r * ld + j, s);
    }
}

static inline void exchange(vm where, double *a, double *b) {
  vd x = v_load(a), y = v_load(b);
  v_store(a, SEL(where, y, x));
  v_store(b, SEL(where, x, y));
}

/* row -= f top, over elements [from, to) */
static inline void eliminate(double *row, const double *top, vd f, size_t from, size_t to,
                             size_t ld) {
  for (size_t c = from; c < to; c++)
    v_store(row + c * ld, v_load(row + c * ld) - f * v_load(top + c * ld));
}

/* Gauss, with the largest pivot of each draw: every row below that has a larger one changes places
 * with the top one. */
static void solve(double *A, double *const *B, size_t order, size_t columns, size_t ld, size_t n) {
  for (size_t j = 0; j < n; j += VL) {
    for (size_t k = 0; k < order; k++) {
      double *top = A + k * order * ld + j;
      for (size_t r = k + 1; r < order; r++) {
        double *row = A + r * order * ld + j;
        vm larger = v_lt(v_abs(v_load(top + k * ld)), v_abs(v_load(row + k * ld)));
        if (!v_any(larger)) continue;
        for (size_t c = k; c < order; c++) exchange(larger, top + c * ld, row + c * ld);
        for (size_t c = 0; c < columns; c++) exchange(larger, B[k] + c * ld + j, B[r] + c * ld + j);
      }
      vd inverse = ONE / v_load(top + k * ld);
      for (size_t r = k + 1; r < order; r++) {
        double *row = A + r * order * ld + j;
        vd f = v_load(row + k * ld) * inverse;
        eliminate(row, top, f, k + 1, order, ld);
        eliminate(B[r] + j, B[k] + j, f, 0, columns, ld);
      }
    }
    for (size_t k = order; k-- > 0;) {
      vd inverse = ONE / v_load(A + (k * order + k) * ld + j);
      for (size_t c = 0; c < columns; c++)
        v_store(B[k] + c * ld + j, v_load(B[k] + c * ld + j) * inverse);
      for (size_t r = 0; r < k; r++)
        eliminate(B[r] + j, B[k] + j, v_load(A + (r * order + k) * ld + j), 0, columns, ld);
    }
  }
}

/* ---- over the draws of a row ----------------------------------------------------------------- */

static double softmax(double *w, const double *l, size_t m) {
  size_t full = m / VL * VL, tail = m - full;
  vd top = K(-INFINITY);
  for (size_t j = 0; j < full; j += VL) top = v_max(v_load(l + j), top);
  double peak = v_hmax(top);
  for (size_t j = full; j < m; j++) peak = l[j] > peak ? l[j] : peak;
  if (!(peak < INFINITY && peak > -INFINITY)) {
    for (size_t j = 0; w && j < (m + LANES - 1) / LANES * LANES; j++) w[j] = 0;
    return peak;
  }
  vd sum = ZERO, shift = v_splat(peak);
  double last[VL] = {0};
  for (size_t j = 0; j < full; j += VL) {
    vd e = v_max(v_exp(v_load(l + j) - shift),
                 ZERO); /* a draw whose density is nan predicts nothing */
    sum += e;
    if (w) v_store(w + j, e);
  }
  if (tail) {
    for (size_t t = 0; t < VL; t++) last[t] = t < tail ? l[full + t] : -INFINITY;
    vd e = v_max(v_exp(v_load(last) - shift), ZERO);
    sum += e;
    if (w) v_store(w + full, e);
  }
  double total = v_sum(sum);
  if (w) {
    size_t padded = (m + LANES - 1) / LANES * LANES, done = tail ? full + VL : full;
    vd scale = v_splat(1.0 / total);
    for (size_t j = 0; j < done; j += VL) v_store(w + j, v_load(w + j) * scale);
    for (size_t j = done; j < padded; j++) w[j] = 0;
  }
  return peak + log(total);
}

/* All steps for all rows in turn: rows then overlap, and their logarithms are taken together. */
static void softmax_rows(double *w, const double *l, const double *plus, size_t ld, size_t rows,
                         size_t m, double *out) {
  size_t padded = (m + LANES - 1) / LANES * LANES, full = m / VL * VL,
         done = full < m ? full + VL : full;
  vm last =
      v_lt(v_iota(), v_splat((double)(m - full))); /* lanes in use of the last, partial vector */
  for (size_t r0 = 0; r0 < rows; r0 += LANES) {
    size_t count = rows - r0 < LANES ? rows - r0 : LANES;
    double peak[LANES], total[LANES], logs[LANES];
    for (size_t r = 0; r < LANES; r++) total[r] = 1;
    for (size_t r = 0; r < count; r++) {
      const double *a = l + (r0 + r) * ld;
      vd top = full < m
                   ? SEL(last, v_load(a + full) + (plus ? v_load(plus + full) : ZERO), K(-INFINITY))
                   : K(-INFINITY);
      top = v_max(top, K(-INFINITY));
      for (size_t j = 0; j < full; j += VL)
        top = v_max(v_load(a + j) + (plus ? v_load(plus + j) : ZERO), top);
      peak[r] = v_hmax(top);
    }
    for (size_t r = 0; r < count; r++) {
      const double *a = l + (r0 + r) * ld;
      double *to = w ? w + (r0 + r) * ld : NULL;
      vd sum = ZERO, shift = v_splat(peak[r]);
      for (size_t j = 0; j < full; j += VL) {
        vd x = v_load(a + j) + (plus ? v_load(plus + j) : ZERO);
        vd e = v_max(v_exp(x - shift), ZERO); /* a draw whose density is nan predicts nothing */
        sum += e;
        if (w) v_store(to + j, e);
      }
      if (full < m) {
        vd x = v_load(a + full) + (plus ? v_load(plus + full) : ZERO);
        vd e = SEL(last, v_max(v_exp(x - shift), ZERO), ZERO);
        sum += e;
        if (w) v_store(to + full, e);
      }
      total[r] = v_sum(sum);
    }
    for (size_t r = 0; r < LANES; r += VL) v_store(logs + r, v_log(v_load(total + r)));
    for (size_t r = 0; r < count; r++) {
      bool usual = peak[r] < INFINITY && peak[r] > -INFINITY;
      out[r0 + r] = usual ? peak[r] + logs[r] : peak[r];
      if (!w) continue;
      double *to = w + (r0 + r) * ld;
      vd scale = v_splat(1.0 / total[r]);
      for (size_t j = 0; usual && j < done; j += VL) v_store(to + j, v_load(to + j) * scale);
      for (size_t j = usual ? done : 0; j < padded; j++) to[j] = 0;
    }
  }
}

static void outer_adjoint(double *adj, const double *g, size_t ldg, const double *basis, size_t ldb,
                          size_t terms, size_t rows, size_t m) {
  size_t full = m / VL * VL;
  for (size_t r = 0; r < rows; r++)
    for (size_t b = 0; b < terms; b += 2) {
      const double *x = g + r * ldg, *one = basis + b * ldb, *two = b + 1 < terms ? one + ldb : one;
      vd s = ZERO, t = ZERO;
      for (size_t j = 0; j < full; j += VL) {
        s = v_fma(v_load(x + j), v_load(one + j), s);
        t = v_fma(v_load(x + j), v_load(two + j), t);
      }
      double u = v_sum(s), v = v_sum(t);
      for (size_t j = full; j < m; j++) u += x[j] * one[j], v += x[j] * two[j];
      adj[r * terms + b] = u;
      if (b + 1 < terms) adj[r * terms + b + 1] = v;
    }
}

static void rescale(double *x, double times, double plus, size_t m) {
  size_t j = 0;
  vd a = v_splat(times), b = v_splat(plus);
  for (; j + VL <= m; j += VL) v_store(x + j, v_fma(a, v_load(x + j), b));
  for (; j < m; j++) x[j] = times * x[j] + plus;
}

static void fill_row(double *out, double x, size_t m) {
  size_t j = 0;
  for (; j + VL <= m; j += VL) v_store(out + j, v_splat(x));
  for (; j < m; j++) out[j] = x;
  for (; j % LANES; j++) out[j] = 0;
}

static double ranks(double *below, const double *x, size_t m) {
  enum { AT_ONCE = 4 };
  double all = 0;
  for (size_t k = 0; k < m; k += AT_ONCE * VL) {
    vd a[AT_ONCE], count[AT_ONCE];
    V_UNROLL for (int v = 0; v < AT_ONCE; v++) {
      size_t at = k + (size_t)v * VL;
      a[v] = at >= m ? K(-INFINITY) : m - at >= VL ? v_load(x + at) : v_load_n(x + at, m - at);
      count[v] = ZERO;
    }
    for (size_t j = 0; j < m; j++) {
      vd b = v_splat(x[j]);
      V_UNROLL for (int v = 0; v < AT_ONCE; v++) count[v] += SEL(v_lt(b, a[v]), ONE, ZERO);
    }
    for (size_t v = 0; v < AT_ONCE && k + v * VL < m; v++) {
      size_t at = k + v * VL;
      v_store_n(below + at, count[v], m - at < VL ? m - at : VL);
    }
  }
  for (size_t k = 0; k < m; k++) all += below[k];
  return all;
}

static double sum_row(const double *a, size_t m) {
  vd s = ZERO;
  size_t j = 0;
  for (; j + VL <= m; j += VL) s += v_load(a + j);
  double t = v_sum(s);
  for (; j < m; j++) t += a[j];
  return t;
}

static double dot_row(const double *a, const double *b, size_t m) {
  vd s = ZERO;
  size_t j = 0;
  for (; j + VL <= m; j += VL) s = v_fma(v_load(a + j), v_load(b + j), s);
  double t = v_sum(s);
  for (; j < m; j++) t += a[j] * b[j];
  return t;
}

/* ---- mixtures of normals --------------------------------------------------------------------- */

/* VL lanes of a row from j on; past its m numbers, `rest`. */
static inline vd load_part(const double *a, size_t j, size_t m, double rest) {
  double part[VL];
  if (j + VL <= m) return v_load(a + j);
  for (size_t t = 0; t < VL; t++) part[t] = j + t < m ? a[j + t] : rest;
  return v_load(part);
}

/* ones in the first n lanes */
static inline vd first_of(size_t n) {
  double part[VL];
  for (size_t t = 0; t < VL; t++) part[t] = t < n;
  return v_load(part);
}

/* z within +-30, away from subnormal numbers, which are slow */
static inline vd standardised(vd u, const double *mean, vd inverse, size_t j, size_t m) {
  vd z = (u - load_part(mean, j, m, 0)) * inverse;
  return v_min(v_max(z, v_splat(-30)), v_splat(30));
}

/* the weights of VL lanes; 0 past the m draws */
static inline vd lane_weights(const double *weights, size_t j, size_t m) {
  if (weights) return load_part(weights, j, m, 0);
  vd each = v_splat(1.0 / (double)m);
  return j + VL <= m ? each : each * first_of(m - j);
}

static double normal_cdf(double u, const double *mean, const double *inverse, const double *weights,
                         size_t m, double *pdf, double *slope) {
  vd at = v_splat(u), F = ZERO, f = ZERO, d = ZERO;
  for (size_t j = 0; j < m; j += VL) {
    vd inv = load_part(inverse, j, m, 0), z = standardised(at, mean, inv, j, m),
       w = lane_weights(weights, j, m);
    vd e = w * inv * v_exp(v_splat(-0.5) * z * z);
    F = v_fma(w, v_Phi(z), F);
    f += e;
    d = v_fma(e * inv, z, d);
  }
  *pdf = v_sum(f) * 0.398942280401432678;
  *slope = v_sum(d) * -0.398942280401432678;
  return v_sum(F);
}

static double normal_pdf(double u, const double *mean, const double *inverse, const double *weights,
                         size_t m) {
  vd at = v_splat(u), f = ZERO;
  for (size_t j = 0; j < m; j += VL) {
    vd inv = load_part(inverse, j, m, 0), z = standardised(at, mean, inv, j, m);
    f = v_fma(lane_weights(weights, j, m) * inv, v_exp(v_splat(-0.5) * z * z), f);
  }
  return v_sum(f) * 0.398942280401432678;
}

static void normal_cdf_adjoint(double u, double g, const double *mean, const double *inverse,
                               const double *weights, size_t m, double *adj_mean, double *adj_sd) {
  vd at = v_splat(u), c = v_splat(-0.398942280401432678 * g / (weights ? 1 : (double)m));
  for (size_t j = 0; j < m; j += VL) {
    vd inv = load_part(inverse, j, m, 0), z = standardised(at, mean, inv, j, m);
    vd d = c * inv * v_exp(v_splat(-0.5) * z * z);
    if (weights) d *= load_part(weights, j, m, 0);
    vd s = d * z;
    for (size_t t = 0; t < VL && j + t < m; t++) {
      if (adj_mean) adj_mean[j + t] += d[t];
      if (adj_sd) adj_sd[j + t] += s[t];
    }
  }
}

/* ---- the table ------------------------------------------------------------------------------- */

extern const Kernels JOIN(kernels_, ISA);
const Kernels JOIN(kernels_, ISA) = {
    .name = TEXT(ISA),
    .forward =
        {
#define OP(NAME, arity, value, shared, partials, domain) [IR_##NAME] = forward_##NAME,
#include "ir/ops.def"
#undef OP
        },
    .backward =
        {
#define OP(NAME, arity, value, shared, partials, domain) [IR_##NAME] = backward_##NAME,
#include "ir/ops.def"
#undef OP
        },
#define ENTRY(NAME) [IR_##NAME] = density_##NAME,
    .density = {DENSITIES(ENTRY)},
#undef ENTRY
#define ENTRY(NAME) [IR_##NAME] = density_adjoint_##NAME,
    .density_adjoint = {DENSITIES(ENTRY)},
#undef ENTRY
#define ENTRY(NAME) [IR_##NAME] = total_##NAME,
    .density_total = {DENSITIES(ENTRY)},
#undef ENTRY
#define ENTRY(NAME, arity, k) [IR_##NAME] = saving_total_##NAME,
    .saving_total = {SAVINGS(ENTRY)},
#undef ENTRY
#define ENTRY(NAME, arity, k) [IR_##NAME] = saving_##NAME,
    .saving = {SAVINGS(ENTRY)},
#undef ENTRY
#define ENTRY(NAME, arity, k) [IR_##NAME] = (k) + 1,
    .saving_operand = {SAVINGS(ENTRY)},
#undef ENTRY
    .chain = chain,
    .gemm = gemm,
    .affine = affine,
    .affine_adjoint = affine_adjoint,
    .add = add_row,
    .axpy = axpy_row,
    .multiply_add = multiply_add,
    .log_sum_exp = log_sum_exp,
    .log_sum_exp_adjoint = log_sum_exp_adjoint,
    .runge_kutta = runge_kutta,
    .step_error = step_error,
    .tangent = tangent,
    .solve = solve,
    .softmax = softmax,
    .softmax_rows = softmax_rows,
    .outer_adjoint = outer_adjoint,
    .fill = fill_row,
    .rescale = rescale,
    .ranks = ranks,
    .sum = sum_row,
    .dot = dot_row,
    .normal_cdf = normal_cdf,
    .normal_pdf = normal_pdf,
    .normal_cdf_adjoint = normal_cdf_adjoint,
};
