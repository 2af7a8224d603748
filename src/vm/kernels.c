/* kernels.c: ops.def and the few row operations, as loops over vectors of draws. Compiled once per instruction set with
 * -DISA=base|avx2|avx512; exports one table, kernels_<ISA>. */
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

LIFT(v_trigamma, num_trigamma)

static inline vd v_atan2(vd a, vd b) {
  for (int i = 0; i < VL; i++) a[i] = atan2(a[i], b[i]);
  return a;
}

/* ---- elementwise: value and adjoint of every row of ops.def ------------------------------------------------------- */

#define LOAD(k, j) v_load(in[k] + step[k] * (j))
#define LOAD_1 vd a = LOAD(0, j);
#define LOAD_2 LOAD_1 vd b = LOAD(1, j);
#define LOAD_3 LOAD_2 vd c = LOAD(2, j);
#define LOAD_4 LOAD_3 vd d = LOAD(3, j);

#define OP(NAME, arity, value, shared, partials, domain)                                                                       \
  static void forward_##NAME(double *out, const double *const *in, const size_t *step, size_t n) {                             \
    for (size_t j = 0; j < n; j += VL) {                                                                                       \
      LOAD_##arity v_store(out + j, value);                                                                                    \
    }                                                                                                                          \
  }
#include "ir/ops.def"
#undef OP

/* Where nothing flows back, nothing is added: 0 times an infinite partial derivative is 0. */
#define BUMP(k, partial)                                                                                                       \
  if (adj[k]) v_store(adj[k] + j, v_load(adj[k] + j) + SEL(idle, ZERO, g_ * (partial)));
#define BUMP_1(d0, d1, d2, d3) BUMP(0, d0)
#define BUMP_2(d0, d1, d2, d3) BUMP(0, d0) BUMP(1, d1)
#define BUMP_3(d0, d1, d2, d3) BUMP(0, d0) BUMP(1, d1) BUMP(2, d2)
#define BUMP_4(d0, d1, d2, d3) BUMP(0, d0) BUMP(1, d1) BUMP(2, d2) BUMP(3, d3)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-variable" /* not every partial needs every operand */
#define OP(NAME, arity, value, shared, partials, domain)                                                                       \
  static void backward_##NAME(const double *g, const double *r_, const double *const *in, const size_t *step,                  \
                              double *const *adj, size_t n) {                                                                  \
    for (size_t j = 0; j < n; j += VL) {                                                                                       \
      LOAD_##arity vd r = v_load(r_ + j);                                                                                      \
      vd g_ = v_load(g + j);                                                                                                   \
      vm idle = v_eq(g_, ZERO);                                                                                                \
      shared BUMP_##arity partials                                                                                             \
    }                                                                                                                          \
  }
#include "ir/ops.def"
#undef OP
#pragma GCC diagnostic pop

/* ---- matrix product with a constant: rows of B are rows of draws -------------------------------------------------- */

enum { GEMM_COLS = 2 }; /* vectors of draws held in registers per row */

/* R rows of C times GEMM_COLS (or fewer, last) vectors. */
#define GEMM_BLOCK(R, COLS)                                                                                                    \
  static inline void gemm_##R##_##COLS(double *C, size_t ldc, const double *A, size_t ra, size_t ca, const double *B,          \
                                       size_t ldb, size_t inner, bool add) {                                                   \
    vd acc[R][COLS];                                                                                                           \
    for (int i = 0; i < R; i++)                                                                                                \
      for (int v = 0; v < COLS; v++) acc[i][v] = add ? v_load(C + (size_t)i * ldc + (size_t)v * VL) : ZERO;                    \
    for (size_t k = 0; k < inner; k++) {                                                                                       \
      const double *b = B + k * ldb;                                                                                           \
      for (int i = 0; i < R; i++) {                                                                                            \
        vd x = v_splat(A[(size_t)i * ra + k * ca]);                                                                            \
        for (int v = 0; v < COLS; v++) acc[i][v] = v_fma(x, v_load(b + (size_t)v * VL), acc[i][v]);                            \
      }                                                                                                                        \
    }                                                                                                                          \
    for (int i = 0; i < R; i++)                                                                                                \
      for (int v = 0; v < COLS; v++) v_store(C + (size_t)i * ldc + (size_t)v * VL, acc[i][v]);                                 \
  }
GEMM_BLOCK(4, 2)
GEMM_BLOCK(4, 1)
GEMM_BLOCK(1, 2)
GEMM_BLOCK(1, 1)

static void gemm(double *C, size_t ldc, const double *A, size_t ra, size_t ca, const double *B, size_t ldb, size_t rows,
                 size_t inner, size_t n, bool add) {
  for (size_t j = 0; j < n;) {
    bool wide = n - j >= 2 * VL;
    size_t i = 0;
    for (; i + 4 <= rows; i += 4)
      (wide ? gemm_4_2 : gemm_4_1)(C + i * ldc + j, ldc, A + i * ra, ra, ca, B + j, ldb, inner, add);
    for (; i < rows; i++) (wide ? gemm_1_2 : gemm_1_1)(C + i * ldc + j, ldc, A + i * ra, ra, ca, B + j, ldb, inner, add);
    j += wide ? 2 * VL : VL;
  }
}

/* ---- affine functions: linear predictors ------------------------------------------------------------------------------ */

/* R rows by COLS vectors of draws, all in registers. */
#define AFFINE_BLOCK(R, COLS)                                                                                                  \
  static inline void affine_##R##_##COLS(double *out, size_t ldo, const AffineRows *a, size_t r0, size_t j) {                  \
    vd acc[R][COLS];                                                                                                           \
    for (int i = 0; i < R; i++)                                                                                                \
      for (int v = 0; v < COLS; v++) acc[i][v] = v_splat(a->constant ? a->constant[r0 + (size_t)i] : 0.0);                     \
    for (size_t k = 0; k < a->ndense; k++) {                                                                                   \
      const double *b = a->dense[k] + j;                                                                                       \
      for (int i = 0; i < R; i++) {                                                                                            \
        vd x = v_splat(a->A[(r0 + (size_t)i) * a->ndense + k]);                                                                \
        for (int v = 0; v < COLS; v++) acc[i][v] = v_fma(x, v_load(b + v * VL), acc[i][v]);                                    \
      }                                                                                                                        \
    }                                                                                                                          \
    for (size_t s = 0; s < a->nsparse; s++)                                                                                    \
      for (int i = 0; i < R; i++) {                                                                                            \
        const double *b = a->base[s] + (size_t)a->index[s][r0 + (size_t)i] * a->ld + j;                                        \
        vd x = v_splat(a->coef[s] ? a->coef[s][r0 + (size_t)i] : 1.0);                                                         \
        for (int v = 0; v < COLS; v++) acc[i][v] = v_fma(x, v_load(b + v * VL), acc[i][v]);                                    \
      }                                                                                                                        \
    for (int i = 0; i < R; i++)                                                                                                \
      for (int v = 0; v < COLS; v++) v_store(out + (r0 + (size_t)i) * ldo + j + (size_t)v * VL, acc[i][v]);                    \
  }
AFFINE_BLOCK(4, 2)
AFFINE_BLOCK(4, 1)
AFFINE_BLOCK(1, 2)
AFFINE_BLOCK(1, 1)

static void affine(double *out, size_t ldo, const AffineRows *a, size_t rows, size_t n) {
  for (size_t j = 0; j < n;) {
    bool wide = n - j >= 2 * VL;
    size_t r = 0;
    for (; r + 4 <= rows; r += 4) (wide ? affine_4_2 : affine_4_1)(out, ldo, a, r, j);
    for (; r < rows; r++) (wide ? affine_1_2 : affine_1_1)(out, ldo, a, r, j);
    j += wide ? 2 * VL : VL;
  }
}

/* dense_adj[k .. k + R) += A' g */
#define AFFINE_ADJOINT(R)                                                                                                      \
  static inline void affine_adjoint_##R(const double *g, size_t ldg, const AffineRows *a, size_t k0, size_t rows, size_t j) {  \
    vd acc[R];                                                                                                                 \
    for (int i = 0; i < R; i++) acc[i] = v_load(a->dense_adj[k0 + (size_t)i] + j);                                             \
    for (size_t r = 0; r < rows; r++) {                                                                                        \
      vd x = v_load(g + r * ldg + j);                                                                                          \
      for (int i = 0; i < R; i++) acc[i] = v_fma(v_splat(a->A[r * a->ndense + k0 + (size_t)i]), x, acc[i]);                    \
    }                                                                                                                          \
    for (int i = 0; i < R; i++) v_store(a->dense_adj[k0 + (size_t)i] + j, acc[i]);                                             \
  }
AFFINE_ADJOINT(8)
AFFINE_ADJOINT(4)
AFFINE_ADJOINT(1)

static void affine_adjoint(const double *g, size_t ldg, const AffineRows *a, size_t rows, size_t n) {
  for (size_t j = 0; j < n; j += VL) {
    size_t k = 0;
    for (; k + 8 <= a->ndense; k += 8) affine_adjoint_8(g, ldg, a, k, rows, j);
    for (; k + 4 <= a->ndense; k += 4) affine_adjoint_4(g, ldg, a, k, rows, j);
    for (; k < a->ndense; k++) affine_adjoint_1(g, ldg, a, k, rows, j);
  }
  for (size_t r = 0; r < rows; r++)
    for (size_t s = 0; s < a->nsparse; s++) {
      double *to = a->base_adj[s] + (size_t)a->index[s][r] * a->ld;
      vd x = v_splat(a->coef[s] ? a->coef[s][r] : 1.0);
      for (size_t j = 0; j < n; j += VL) v_store(to + j, v_fma(x, v_load(g + r * ldg + j), v_load(to + j)));
    }
}

/* ---- rows --------------------------------------------------------------------------------------------------------- */

static void add_row(double *out, const double *a, size_t n) {
  for (size_t j = 0; j < n; j += VL) v_store(out + j, v_load(out + j) + v_load(a + j));
}

static void axpy_row(double *out, double c, const double *a, size_t n) {
  for (size_t j = 0; j < n; j += VL) v_store(out + j, v_fma(v_splat(c), v_load(a + j), v_load(out + j)));
}

static void multiply_add(double *out, const double *a, const double *b, size_t n) {
  for (size_t j = 0; j < n; j += VL) v_store(out + j, v_fma(v_load(a + j), v_load(b + j), v_load(out + j)));
}

/* Where the maximum is infinite it is the answer, as Stan has it. */
static void log_sum_exp(double *out, const double *const *in, const size_t *step, size_t width, size_t n) {
  for (size_t j = 0; j < n; j += VL) {
    vd m = LOAD(0, j);
    for (size_t w = 1; w < width; w++) m = v_max(m, LOAD(w, j));
    vd s = ZERO;
    for (size_t w = 0; w < width; w++) s += v_exp(LOAD(w, j) - m);
    v_store(out + j, SEL(v_eq(v_abs(m), K(INFINITY)), m, m + v_log(s)));
  }
}

static void log_sum_exp_adjoint(const double *g, const double *r, const double *const *in, const size_t *step,
                                double *const *adj, size_t width, size_t n) {
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

/* ---- over the draws of a row -------------------------------------------------------------------------------------- */

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
    vd e = v_max(v_exp(v_load(l + j) - shift), ZERO); /* a draw whose density is nan predicts nothing */
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

/* ---- mixtures of normals ------------------------------------------------------------------------------------------ */

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

static double normal_cdf(double u, const double *mean, const double *inverse, const double *weights, size_t m, double *pdf) {
  vd at = v_splat(u), F = ZERO, f = ZERO, each = v_splat(1.0 / (double)m);
  for (size_t j = 0; j < m; j += VL) {
    vd inv = load_part(inverse, j, m, 0), z = standardised(at, mean, inv, j, m);
    vd w = weights ? load_part(weights, j, m, 0) : each;
    if (!weights && j + VL > m) w *= first_of(m - j);
    F = v_fma(w, v_Phi(z), F);
    f = v_fma(w * inv, v_exp(v_splat(-0.5) * z * z), f);
  }
  *pdf = v_sum(f) * 0.398942280401432678;
  return v_sum(F);
}

static void normal_cdf_adjoint(double u, double g, const double *mean, const double *inverse, const double *weights, size_t m,
                               double *adj_mean, double *adj_sd) {
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

/* ---- the table ---------------------------------------------------------------------------------------------------- */

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
    .gemm = gemm,
    .affine = affine,
    .affine_adjoint = affine_adjoint,
    .add = add_row,
    .axpy = axpy_row,
    .multiply_add = multiply_add,
    .log_sum_exp = log_sum_exp,
    .log_sum_exp_adjoint = log_sum_exp_adjoint,
    .softmax = softmax,
    .sum = sum_row,
    .dot = dot_row,
    .normal_cdf = normal_cdf,
    .normal_cdf_adjoint = normal_cdf_adjoint,
};
