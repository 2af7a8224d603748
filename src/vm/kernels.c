/* kernels.c: ops.def and what tapes are made of besides, as loops over vectors of draws. Compiled
 * once per instruction set with -DISA=base|avx2|avx512; exports one table, kernels_<ISA>, with the
 * row kernels of num/ in it. */
#include "vm/kernels.h"

#include "num/row_blocks.h"
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
        slopes_##NAME(v_splat(x->y[r * x->y_step]), v_load(x->b[r] + j), c, d,                     \
                      v_load(x->value + r * ldg + j), by);                                         \
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
        vd y = v_splat(x->y[r * x->y_step]), b = v_load(x->b[r] + j),                              \
           v = value_##NAME(y, b, c, d);                                                           \
        sum[r] += SEL(idle, ZERO, v);                                                              \
        slopes_##NAME(y, b, c, d, v, by);                                                          \
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
  static double saving_total_##NAME(const TotalRow *row, const double *const *in,                  \
                                    const size_t *step) {                                          \
    TotalRow t = *row;                                                                             \
    vd sum = ZERO;                                                                                 \
    for (size_t j = 0; j < t.n; j += VL) {                                                         \
      ALL_##arity vd s, v = both_##NAME(a, b, c, d, &s);                                           \
      vm idle = v_not(v_lt(v_iota() + (double)j, v_splat((double)t.m)));                           \
      vd pulled = SEL(idle, ZERO, v_load(t.g + j) * s);                                            \
      sum += SEL(idle, ZERO, v);                                                                   \
      v_store(t.adj + j, t.fresh ? pulled : v_load(t.adj + j) + pulled);                           \
    }                                                                                              \
    return v_sum(sum);                                                                             \
  }
SAVING_TOTAL(POISSON_LOG, 3)
SAVING_TOTAL(BINOMIAL_LOGIT, 4)

/* -sum_j log(1 + exp(x_j)), x = -b for a success, else b, = -sum_j max(x_j, 0) - log prod_j (1 +
 * exp(-|x_j|)). */
static double saving_total_BERNOULLI_LOGIT(const TotalRow *row, const double *const *in,
                                           const size_t *step) {
  enum { MOST_FACTORS = 1000 }; /* each is at most 2 */
  (void)step;
  TotalRow t = *row;
  vd sign = SEL(v_not(v_eq(v_load(in[0]), ZERO)), K(-1.0), ONE), sum = ZERO;
  for (size_t j = 0; j < t.n;) {
    vd product = ONE;
    for (size_t end = t.n - j < MOST_FACTORS * VL ? t.n : j + MOST_FACTORS * VL; j < end; j += VL) {
      vm idle = v_not(v_lt(v_iota() + (double)j, v_splat((double)t.m)));
      vd x = v_load(in[1] + j) * sign, e = v_exp_unit(x), factor = ONE + e;
      vd slope = SEL(v_lt(x, ZERO), e, ONE) / factor;
      vd pulled = SEL(idle, ZERO, v_load(t.g + j) * (-sign * slope));
      product *= SEL(idle, ONE, factor);
      sum += SEL(idle, ZERO, v_max(ZERO, x));
      v_store(t.adj + j, t.fresh ? pulled : v_load(t.adj + j) + pulled);
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

/* ---- recurrences: blocks of C vectors of draws go through all steps -------------------------- */

VFN vd place_load(const RowPlace *p, const double *rows, size_t ld, size_t j) {
  return v_load(p->data ? p->data : rows + p->element * ld + j);
}

VFN void place_add(const RowPlace *p, double *adj, size_t ld, size_t j, vd x) {
  double *to = adj + p->element * ld + j;
  if (!p->data) v_store(to, v_load(to) + x);
}

VFN void recurrence_block(const Recurrence *r, double *rows, size_t ld, size_t j, int C) {
  vd a[4], x[4];
  V_UNROLL for (int i = 0; i < C; i++) {
    a[i] = place_load(&r->a, rows, ld, j + (size_t)i * VL);
    x[i] = place_load(&r->first, rows, ld, j + (size_t)i * VL);
  }
  for (size_t t = 0; t < r->steps; t++) V_UNROLL for (int i = 0; i < C; i++) {
      size_t at = j + (size_t)i * VL;
      vd c = place_load(&r->c[t], rows, ld, at);
      x[i] = r->minus ? c - a[i] * x[i] : a[i] * x[i] + c;
      v_store(rows + r->v[t] * ld + at, x[i]);
      if (!r->apart) continue;
      x[i] = place_load(&r->y[t], rows, ld, at) - x[i];
      v_store(rows + r->x[t] * ld + at, x[i]);
    }
}

static void recurrence(const Recurrence *r, double *rows, size_t ld, size_t n) {
  size_t j = 0;
  for (; j + 4 * VL <= n; j += 4 * VL) recurrence_block(r, rows, ld, j, 4);
  for (; j < n; j += VL) recurrence_block(r, rows, ld, j, 1);
}

/* Nothing flows back from where nothing came, as elsewhere. */
VFN vd pull(vd g, vd slope) { return SEL(v_eq(g, ZERO), ZERO, g * slope); }

VFN void recurrence_block_adjoint(const Recurrence *r, const double *rows, double *adj, size_t ld,
                                  size_t j, int C) {
  vd a[4], to_a[4], to_x[4];
  V_UNROLL for (int i = 0; i < C; i++) {
    a[i] = place_load(&r->a, rows, ld, j + (size_t)i * VL);
    to_a[i] = to_x[i] = ZERO;
  }
  for (size_t t = r->steps; t-- > 0;) V_UNROLL for (int i = 0; i < C; i++) {
      size_t at = j + (size_t)i * VL;
      RowPlace before = t ? (RowPlace){NULL, r->x[t - 1]} : r->first;
      vd g = v_load(adj + r->x[t] * ld + at) + to_x[i];
      if (r->apart) {
        place_add(&r->y[t], adj, ld, at, g);
        g = v_load(adj + r->v[t] * ld + at) - g;
      }
      place_add(&r->c[t], adj, ld, at, g);
      if (r->minus) g = -g;
      to_a[i] += pull(g, place_load(&before, rows, ld, at));
      to_x[i] = pull(g, a[i]);
    }
  V_UNROLL for (int i = 0; i < C; i++) {
    place_add(&r->a, adj, ld, j + (size_t)i * VL, to_a[i]);
    place_add(&r->first, adj, ld, j + (size_t)i * VL, to_x[i]);
  }
}

static void recurrence_adjoint(const Recurrence *r, const double *rows, double *adj, size_t ld,
                               size_t n) {
  size_t j = 0;
  for (; j + 4 * VL <= n; j += 4 * VL) recurrence_block_adjoint(r, rows, adj, ld, j, 4);
  for (; j < n; j += VL) recurrence_block_adjoint(r, rows, adj, ld, j, 1);
}

/* ---- linear predictors: blocks of R rows by C vectors of draws, held in registers ------------ */

typedef struct {
  double *at;
  size_t ld;
} RowsTo;
typedef struct {
  const double *at;
  size_t ld, rows;
} RowsFrom;

/* Linear predictors of the rows r .. r + R. */
VFN void affine_block(RowsTo out, const AffineRows *a, size_t r, size_t j, int R, int C) {
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
  BLOCK(i, v) v_store(out.at + (r + (size_t)i) * out.ld + j + (size_t)v * VL, acc[i][v]);
}

static void affine(double *out, size_t ldo, const AffineRows *a, size_t rows, size_t n) {
  RowsTo to = {out, ldo};
#define STEP(R, C) affine_block(to, a, i, j, R, C)
  IN_BLOCKS(rows, n, i, j, STEP)
#undef STEP
}

/* dense_adj[k .. k + R) += A' g */
VFN void dense_adjoint(RowsFrom g, const AffineRows *a, size_t k, size_t j, int R, int C) {
  vd acc[ROWS_AT_ONCE][2];
  size_t D = a->ndense;
  double *const *adj = a->dense_adj + k;
  const double *A = a->A + k;
  BLOCK(i, v) acc[i][v] = v_load(adj[i] + j + (size_t)v * VL);
  for (size_t r = 0; r < g.rows; r++) {
    vd x[2];
    V_UNROLL for (int v = 0; v < C; v++) x[v] = v_load(g.at + r * g.ld + j + (size_t)v * VL);
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
  RowsFrom from = {g, ldg, rows};
#define STEP(R, C) dense_adjoint(from, a, i, j, R, C)
  IN_BLOCKS(a->ndense, n, i, j, STEP)
#undef STEP
  for (size_t r = 0; r < rows; r++) {
    size_t s = 0;
    for (; s + 4 <= a->nsparse; s += 4) sparse_adjoint(g + r * ldg, a, s, r, n, 4);
    for (; s + 2 <= a->nsparse; s += 2) sparse_adjoint(g + r * ldg, a, s, r, n, 2);
    for (; s < a->nsparse; s++) sparse_adjoint(g + r * ldg, a, s, r, n, 1);
  }
}

/* ---- mixtures: sums of products of what is the same for many observations ---------------------
 */

VFN vd mixture_product(const MixtureRows *m, size_t k, size_t j, int terms) {
  vd p = v_load(m->exp[k * (size_t)terms] + j);
  V_UNROLL for (int t = 1; t < terms; t++) p =
      p * v_load(m->exp[k * (size_t)terms + (size_t)t] + j);
  return p;
}

VFN vd mixture_log(const MixtureRows *m, size_t k, size_t j, int terms) {
  vd s = v_load(m->log[k * (size_t)terms] + j);
  V_UNROLL for (int t = 1; t < terms; t++) s += v_load(m->log[k * (size_t)terms + (size_t)t] + j);
  return s;
}

/* Sums of products of two vectors of lanes, or one. */
typedef struct {
  vd at[2];
} MixtureSums;

VFN MixtureSums mixture_sums(const MixtureRows *m, size_t j, int terms, int C) {
  MixtureSums s = {{ZERO, ZERO}};
  for (size_t k = 0; k < m->width; k++)
    V_UNROLL for (int v = 0; v < C; v++) s.at[v] +=
        mixture_product(m, k, j + (size_t)v * VL, terms);
  return s;
}

/* Where products that underflowed, or overflowed, may count; nan is out of range, too. */
VFN vm out_of_range(vd s) { return v_not(v_and(v_lt(K(1e-250), s), v_lt(s, K(1e250)))); }

VFN vd mixture_from_logs(const MixtureRows *m, size_t j, int terms) {
  vd top = mixture_log(m, 0, j, terms), s = ZERO;
  for (size_t k = 1; k < m->width; k++) top = v_max(top, mixture_log(m, k, j, terms));
  for (size_t k = 0; k < m->width; k++) s += v_exp(mixture_log(m, k, j, terms) - top);
  return SEL(v_eq(v_abs(top), K(INFINITY)), top, top + v_log(s));
}

VFN void mixture_lanes(double *out, const MixtureRows *m, size_t j, int terms, int C) {
  MixtureSums s = mixture_sums(m, j, terms, C);
  V_UNROLL for (int v = 0; v < C; v++) {
    vd value = v_log(s.at[v]);
    vm off = out_of_range(s.at[v]);
    if (v_any(off)) value = SEL(off, mixture_from_logs(m, j + (size_t)v * VL, terms), value);
    v_store(out + j + (size_t)v * VL, value);
  }
}

VFN void mixture_rows(double *out, const MixtureRows *m, size_t n, int terms) {
  size_t j = 0;
  for (; j + 2 * VL <= n; j += 2 * VL) mixture_lanes(out, m, j, terms, 2);
  for (; j < n; j += VL) mixture_lanes(out, m, j, terms, 1);
}

VFN void mixture_pull(const MixtureRows *m, size_t k, size_t j, int terms, vd pulled) {
  V_UNROLL for (int t = 0; t < terms; t++) {
    double *to = m->adj[k * (size_t)terms + (size_t)t] + j;
    v_store(to, v_load(to) + pulled);
  }
}

/* One vector of lanes of which some are out of range. */
static void mixture_adjoint_off(const double *g, const double *r, const MixtureRows *m, size_t j,
                                int terms) {
  vd gj = v_load(g + j);
  for (size_t k = 0; k < m->width; k++) {
    vd log = mixture_log(m, k, j, terms), share = v_exp(log - v_load(r + j));
    vm none = v_or(v_eq(gj, ZERO), v_eq(log, K(-INFINITY)));
    mixture_pull(m, k, j, terms, SEL(none, ZERO, gj * share));
  }
}

/* d / d log[k, t] = product k over the sum, for every t. */
VFN void mixture_adjoint_rows(const double *g, const double *r, const MixtureRows *m, size_t n,
                              int terms) {
  for (size_t j = 0; j < n; j += VL) {
    vd gj = v_load(g + j), s = mixture_sums(m, j, terms, 1).at[0];
    if (v_any(out_of_range(s))) {
      mixture_adjoint_off(g, r, m, j, terms);
      continue;
    }
    vd by = gj / s;
    for (size_t k = 0; k < m->width; k++)
      mixture_pull(m, k, j, terms, by * mixture_product(m, k, j, terms));
  }
}

static void mixture(double *out, const MixtureRows *rows, size_t n) {
  MixtureRows m = *rows;
  switch (m.terms) {
  case 1: mixture_rows(out, &m, n, 1); break;
  case 2: mixture_rows(out, &m, n, 2); break;
  default: mixture_rows(out, &m, n, 3);
  }
}

static void mixture_adjoint(const double *g, const double *r, const MixtureRows *rows, size_t n) {
  MixtureRows m = *rows;
  switch (m.terms) {
  case 1: mixture_adjoint_rows(g, r, &m, n, 1); break;
  case 2: mixture_adjoint_rows(g, r, &m, n, 2); break;
  default: mixture_adjoint_rows(g, r, &m, n, 3);
  }
}

/* ---- a step of a chain of hidden states ------------------------------------------------------ */

/* exp(a[w] - most), most the largest of them. */
VFN vd step_weights(const ChainRows *c, size_t j, vd *weights) {
  vd most = v_load(c->a[0] + j);
  for (size_t w = 1; w < c->width; w++) most = v_max(most, v_load(c->a[w] + j));
  for (size_t w = 0; w < c->width; w++) weights[w] = v_exp(v_load(c->a[w] + j) - most);
  return most;
}

VFN vd step_sum(const ChainRows *c, size_t e, size_t j, const vd *weights) {
  vd s = ZERO;
  for (size_t w = 0; w < c->width; w++)
    s = v_fma(weights[w], v_load(c->exps[e * c->width + w] + j), s);
  return s;
}

VFN vd step_log(const ChainRows *c, size_t e, size_t w, size_t j) {
  return v_load(c->a[w] + j) + v_load(c->b[e * c->width + w] + j);
}

static vd step_from_logs(const ChainRows *c, size_t e, size_t j) {
  vd most = step_log(c, e, 0, j), s = ZERO;
  for (size_t w = 1; w < c->width; w++) most = v_max(most, step_log(c, e, w, j));
  for (size_t w = 0; w < c->width; w++) s += v_exp(step_log(c, e, w, j) - most);
  return SEL(v_eq(v_abs(most), K(INFINITY)), most, most + v_log(s));
}

static void step(double *out, size_t ldo, const ChainRows *chain, size_t n) {
  ChainRows c = *chain;
  for (size_t j = 0; j < n; j += VL) {
    vd weights[CHAIN_MOST], most = step_weights(&c, j, weights);
    for (size_t e = 0; e < c.rows; e++) {
      vd s = step_sum(&c, e, j, weights), value = most + v_log(s);
      vm off = out_of_range(s);
      if (v_any(off)) value = SEL(off, step_from_logs(&c, e, j), value);
      v_store(out + e * ldo + j, value);
    }
  }
}

/* What flows to term (e, w) where some lanes are out of range. */
static vd step_pulled(const ChainRows *c, size_t e, size_t w, size_t j, vd g, vd r) {
  vd x = step_log(c, e, w, j);
  return SEL(v_or(v_eq(g, ZERO), v_eq(x, K(-INFINITY))), ZERO, g * v_exp(x - r));
}

static void step_adjoint(const double *g, const double *r, size_t ld, const ChainRows *chain,
                         size_t n) {
  ChainRows c = *chain;
  for (size_t j = 0; j < n; j += VL) {
    vd weights[CHAIN_MOST], to_a[CHAIN_MOST];
    step_weights(&c, j, weights);
    for (size_t w = 0; w < c.width; w++) to_a[w] = ZERO;
    for (size_t e = 0; e < c.rows; e++) {
      vd gj = v_load(g + e * ld + j), rj = v_load(r + e * ld + j), s = step_sum(&c, e, j, weights);
      bool off = v_any(out_of_range(s));
      vd by = gj / s;
      for (size_t w = 0; w < c.width; w++) {
        size_t at = e * c.width + w;
        vd pulled =
            off ? step_pulled(&c, e, w, j, gj, rj) : by * weights[w] * v_load(c.exps[at] + j);
        to_a[w] += pulled;
        v_store(c.b_adj[at] + j, v_load(c.b_adj[at] + j) + pulled);
      }
    }
    for (size_t w = 0; w < c.width; w++) v_store(c.a_adj[w] + j, v_load(c.a_adj[w] + j) + to_a[w]);
  }
}

/* ---- differential equations ------------------------------------------------------------------ */

/* The sum at one place of all rows. */
VFN vd stage_sum(StageSum s, size_t at, int terms) {
  vd sum = v_splat(s.coef[0]) * v_load(s.k[0] + at);
  V_UNROLL for (int c = 1; c < terms; c++) sum =
      v_fma(v_splat(s.coef[c]), v_load(s.k[c] + at), sum);
  return sum;
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

VFN void runge_kutta_rows(double *out, const double *z, const double *h, StageSum s,
                          RowsShape shape, int terms) {
  for (size_t j = 0; j < shape.n; j += VL) {
    vd hj = v_load(h + j);
    for (size_t at = j; at < shape.rows * shape.ld; at += shape.ld)
      v_store(out + at, v_fma(hj, stage_sum(s, at, terms), v_load(z + at)));
  }
}

static void runge_kutta(double *out, const double *z, const double *h, const StageSum *s,
                        RowsShape shape){
#define STEP(T) runge_kutta_rows(out, z, h, *s, shape, T)
    BY_TERMS(s->terms, STEP)
#undef STEP
}

VFN void step_error_rows(double *out, StepScale e, StageSum s, RowsShape shape, int terms) {
  for (size_t j = 0; j < shape.n; j += VL) {
    vd hj = v_load(e.h + j), most = ZERO, rel = v_splat(e.relative), abs = v_splat(e.absolute);
    for (size_t at = j; at < shape.rows * shape.ld; at += shape.ld) {
      vd scale = v_fma(rel, v_abs(v_load(e.z + at)) + v_abs(hj * v_load(e.slope + at)), abs);
      vd error = v_abs(hj * stage_sum(s, at, terms)) / scale;
      most = SEL(v_lt(most, error), error, most);
    }
    v_store(out + j, most);
  }
}

static void step_error(double *out, const StepScale *e, const StageSum *s, RowsShape shape){
#define STEP(T) step_error_rows(out, *e, *s, shape, T)
    BY_TERMS(s->terms, STEP)
#undef STEP
}

VFN void tangent_rows(double *out, TangentSum s, RowsShape shape, int terms) {
  for (size_t j = 0; j < shape.n; j += VL) {
    vd by[STAGES_MOST];
    V_UNROLL for (int t = 0; t < terms; t++) by[t] = v_load(s.slope[t] + j);
    for (size_t r = 0; r < shape.rows; r++) {
      vd sum = s.own[r] ? v_load(s.own[r] + j) : ZERO;
      V_UNROLL for (int t = 0; t < terms; t++) sum =
          v_fma(by[t], v_load(s.of[t] + r * shape.ld + j), sum);
      v_store(out + r * shape.ld + j, sum);
    }
  }
}

/* More terms than registers. */
static void tangent_many(double *out, TangentSum s, RowsShape shape) {
  for (size_t j = 0; j < shape.n; j += VL)
    for (size_t r = 0; r < shape.rows; r++) {
      vd sum = s.own[r] ? v_load(s.own[r] + j) : ZERO;
      for (size_t t = 0; t < s.terms; t++)
        sum = v_fma(v_load(s.slope[t] + j), v_load(s.of[t] + r * shape.ld + j), sum);
      v_store(out + r * shape.ld + j, sum);
    }
}

static void tangent(double *out, const TangentSum *s, RowsShape shape) {
  if (s->terms > STAGES_MOST) {
    tangent_many(out, *s, shape);
    return;
  }
#define STEP(T) tangent_rows(out, *s, shape, T)
  BY_TERMS(s->terms, STEP)
#undef STEP
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

/* ---- over the draws of a row ------------------------------------------------------------------
 */

static void outer_adjoint(double *adj, const OuterRows *outer) {
  OuterRows o = *outer;
  size_t full = o.m / VL * VL;
  for (size_t r = 0; r < o.rows; r++)
    for (size_t b = 0; b < o.terms; b += 2) {
      const double *x = o.g + r * o.ldg, *one = o.basis + b * o.ldb,
                   *two = b + 1 < o.terms ? one + o.ldb : one;
      vd s = ZERO, t = ZERO;
      for (size_t j = 0; j < full; j += VL) {
        s = v_fma(v_load(x + j), v_load(one + j), s);
        t = v_fma(v_load(x + j), v_load(two + j), t);
      }
      double u = v_sum(s), v = v_sum(t);
      for (size_t j = full; j < o.m; j++) u += x[j] * one[j], v += x[j] * two[j];
      adj[r * o.terms + b] = u;
      if (b + 1 < o.terms) adj[r * o.terms + b + 1] = v;
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

#define ROW(name) JOIN(JOIN(row_, name), JOIN(_, ISA))
#define ROW_KERNEL(type, name, arguments) type ROW(name) arguments;
#include "num/row_kernels.def"
#undef ROW_KERNEL

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
    .recurrence = recurrence,
    .recurrence_adjoint = recurrence_adjoint,
    .affine = affine,
    .affine_adjoint = affine_adjoint,
    .step = step,
    .step_adjoint = step_adjoint,
    .mixture = mixture,
    .mixture_adjoint = mixture_adjoint,
    .runge_kutta = runge_kutta,
    .step_error = step_error,
    .tangent = tangent,
    .solve = solve,
#define ROW_KERNEL(type, name, arguments) .name = ROW(name),
#include "num/row_kernels.def"
#undef ROW_KERNEL
    .outer_adjoint = outer_adjoint,
};
