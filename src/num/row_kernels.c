/* row_kernels.c: the code of row_kernels.def, as loops over vectors of lanes. Compiled once per
 * instruction set with -DISA=base|avx2|avx512; exports row_<name>_<ISA>. */
#include "num/row_kernels.h"

#include "num/row_blocks.h"
#include "num/simd.h"
#include "num/vmath.h"

#include <math.h>

#define JOIN_(a, b, c) a##b##_##c
#define JOIN(a, b, c) JOIN_(a, b, c)
#define ROW(name) JOIN(row_, name, ISA)

#define ROW_KERNEL(type, name, arguments) type ROW(name) arguments;
#include "num/row_kernels.def"
#undef ROW_KERNEL

#define K(x) v_splat(x)
#define ONE v_splat(1.0)
#define ZERO v_splat(0.0)
#define SEL(m, x, y) v_select((m), (x), (y))

/* ---- a row from others ----------------------------------------------------------------------- */

void ROW(add)(double *out, const double *a, size_t n) {
  for (size_t j = 0; j < n; j += VL) v_store(out + j, v_load(out + j) + v_load(a + j));
}

void ROW(axpy)(double *out, double c, const double *a, size_t n) {
  for (size_t j = 0; j < n; j += VL)
    v_store(out + j, v_fma(v_splat(c), v_load(a + j), v_load(out + j)));
}

void ROW(multiply_add)(double *out, const double *a, const double *b, size_t n) {
  for (size_t j = 0; j < n; j += VL)
    v_store(out + j, v_fma(v_load(a + j), v_load(b + j), v_load(out + j)));
}

void ROW(pull_back)(double *out, const double *a, const double *b, size_t n) {
  for (size_t j = 0; j < n; j += VL) {
    vd bj = v_load(b + j), old = v_load(out + j);
    v_store(out + j, SEL(v_eq(bj, ZERO), old, v_fma(v_load(a + j), bj, old)));
  }
}

void ROW(rescale)(double *x, double times, double plus, size_t m) {
  size_t j = 0;
  vd a = v_splat(times), b = v_splat(plus);
  for (; j + VL <= m; j += VL) v_store(x + j, v_fma(a, v_load(x + j), b));
  for (; j < m; j++) x[j] = times * x[j] + plus;
}

void ROW(fill)(double *out, double x, size_t m) {
  size_t j = 0;
  for (; j + VL <= m; j += VL) v_store(out + j, v_splat(x));
  for (; j < m; j++) out[j] = x;
  for (; j % LANES; j++) out[j] = 0;
}

/* Rows i .. i + R of the product, C vectors of lanes from j on. */
VFN void gemm_block(const RowProduct *p, size_t i0, size_t j, int R, int C) {
  vd acc[ROWS_AT_ONCE][2];
  double *out = p->out + i0 * p->ldo + j;
  const double *a = p->a + i0 * p->a_row, *b_row = p->b + j;
  size_t ldo = p->ldo, a_row = p->a_row, a_column = p->a_column, ldb = p->ldb, inner = p->inner;
  BLOCK(i, v) acc[i][v] = p->add ? v_load(out + (size_t)i * ldo + (size_t)v * VL) : ZERO;
  for (size_t k = 0; k < inner; k++) {
    vd b[2];
    V_UNROLL for (int v = 0; v < C; v++) b[v] = v_load(b_row + k * ldb + (size_t)v * VL);
    V_UNROLL for (int i = 0; i < R; i++) {
      vd x = v_splat(a[(size_t)i * a_row + k * a_column]);
      V_UNROLL for (int v = 0; v < C; v++) acc[i][v] = v_fma(x, b[v], acc[i][v]);
    }
  }
  BLOCK(i, v) v_store(out + (size_t)i * ldo + (size_t)v * VL, acc[i][v]);
}

void ROW(gemm)(const RowProduct *product) {
  RowProduct p = *product; /* its own, so that what is stored cannot change it */
#define STEP(R, C) gemm_block(&p, i, j, R, C)
  IN_BLOCKS(p.rows, p.n, i, j, STEP)
#undef STEP
}

#define LOAD(w, j) v_load(a->row[w] + a->step[w] * (j))

/* Where the maximum is infinite it is the answer, as Stan has it. */
void ROW(log_sum_exp)(double *out, const RowList *a, size_t n) {
  for (size_t j = 0; j < n; j += VL) {
    vd m = LOAD(0, j);
    for (size_t w = 1; w < a->count; w++) m = v_max(m, LOAD(w, j));
    vd s = ZERO;
    for (size_t w = 0; w < a->count; w++) s += v_exp(LOAD(w, j) - m);
    v_store(out + j, SEL(v_eq(v_abs(m), K(INFINITY)), m, m + v_log(s)));
  }
}

void ROW(log_sum_exp_adjoint)(const double *g, const double *r, const RowList *a,
                              double *const *adj, size_t n) {
  for (size_t j = 0; j < n; j += VL) {
    vd gj = v_load(g + j), rj = v_load(r + j);
    vm idle = v_eq(gj, ZERO);
    for (size_t w = 0; w < a->count; w++) {
      if (!adj[w]) continue;
      vd aw = LOAD(w, j), old = v_load(adj[w] + j);
      vd p = SEL(v_eq(aw, K(-INFINITY)), ZERO, v_exp(aw - rj));
      v_store(adj[w] + j, SEL(idle, old, v_fma(gj, p, old)));
    }
  }
}

/* ---- over the lanes of a row ----------------------------------------------------------------- */

double ROW(sum)(const double *a, size_t m) {
  vd s = ZERO;
  size_t j = 0;
  for (; j + VL <= m; j += VL) s += v_load(a + j);
  double t = v_sum(s);
  for (; j < m; j++) t += a[j];
  return t;
}

double ROW(dot)(const double *a, const double *b, size_t m) {
  vd s = ZERO;
  size_t j = 0;
  for (; j + VL <= m; j += VL) s = v_fma(v_load(a + j), v_load(b + j), s);
  double t = v_sum(s);
  for (; j < m; j++) t += a[j] * b[j];
  return t;
}

double ROW(softmax)(double *w, const double *l, size_t m) {
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

/* The lanes of row l + plus from j on. */
VFN vd logit_at(const double *l, const double *plus, size_t j) {
  return v_load(l + j) + (plus ? v_load(plus + j) : ZERO);
}

/* The largest number of a row; `last`: the lanes in use of the last, partial vector. */
VFN double row_peak(const SoftmaxRows *s, const double *l, vm last) {
  size_t full = s->m / VL * VL;
  vd top = full < s->m ? SEL(last, logit_at(l, s->plus, full), K(-INFINITY)) : K(-INFINITY);
  top = v_max(top, K(-INFINITY));
  for (size_t j = 0; j < full; j += VL) top = v_max(logit_at(l, s->plus, j), top);
  return v_hmax(top);
}

/* exp(l - peak) into w, where there is one, and their sum. A draw whose density is nan predicts
 * nothing. */
VFN double row_exp(const SoftmaxRows *s, const double *l, double peak, vm last, double *w) {
  size_t full = s->m / VL * VL;
  vd sum = ZERO, shift = v_splat(peak);
  for (size_t j = 0; j < full; j += VL) {
    vd e = v_max(v_exp(logit_at(l, s->plus, j) - shift), ZERO);
    sum += e;
    if (w) v_store(w + j, e);
  }
  if (full < s->m) {
    vd e = SEL(last, v_max(v_exp(logit_at(l, s->plus, full) - shift), ZERO), ZERO);
    sum += e;
    if (w) v_store(w + full, e);
  }
  return v_sum(sum);
}

/* w / total, 0 in the padding; all of it 0 where the peak is not finite. */
VFN void row_divide(double *w, double total, bool usual, size_t m) {
  size_t padded = (m + LANES - 1) / LANES * LANES, done = (m + VL - 1) / VL * VL;
  vd scale = v_splat(1.0 / total);
  for (size_t j = 0; usual && j < done; j += VL) v_store(w + j, v_load(w + j) * scale);
  for (size_t j = usual ? done : 0; j < padded; j++) w[j] = 0;
}

/* All steps for LANES rows in turn: rows then overlap, and their logarithms are taken together. */
void ROW(softmax_rows)(const SoftmaxRows *rows) {
  SoftmaxRows s = *rows; /* its own, so that what is stored cannot change it */
  vm last = v_lt(v_iota(), v_splat((double)(s.m - s.m / VL * VL)));
  for (size_t r0 = 0; r0 < s.rows; r0 += LANES) {
    size_t count = s.rows - r0 < LANES ? s.rows - r0 : LANES;
    const double *l = s.l + r0 * s.ld;
    double peak[LANES], total[LANES], logs[LANES], *w = s.w ? s.w + r0 * s.ld : NULL;
    for (size_t r = 0; r < LANES; r++) total[r] = 1;
    for (size_t r = 0; r < count; r++) peak[r] = row_peak(&s, l + r * s.ld, last);
    for (size_t r = 0; r < count; r++)
      total[r] = row_exp(&s, l + r * s.ld, peak[r], last, w ? w + r * s.ld : NULL);
    for (size_t r = 0; r < LANES; r += VL) v_store(logs + r, v_log(v_load(total + r)));
    for (size_t r = 0; r < count; r++) {
      bool usual = peak[r] < INFINITY && peak[r] > -INFINITY;
      s.out[r0 + r] = usual ? peak[r] + logs[r] : peak[r];
      if (w) row_divide(w + r * s.ld, total[r], usual, s.m);
    }
  }
}

double ROW(ranks)(double *below, const double *x, size_t m) {
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

/* (u - mean) / sd, within +-30, away from subnormal numbers, which are slow */
static inline vd standardised(const NormalRow *q, vd u, vd inverse, size_t j) {
  vd z = (u - load_part(q->mean, j, q->m, 0)) * inverse;
  return v_min(v_max(z, v_splat(-30)), v_splat(30));
}

/* the weights of VL lanes; 0 past the m draws */
static inline vd lane_weights(const NormalRow *q, size_t j) {
  if (q->weights) return load_part(q->weights, j, q->m, 0);
  vd each = v_splat(1.0 / (double)q->m);
  return j + VL <= q->m ? each : each * first_of(q->m - j);
}

#define ONE_OVER_SQRT_2PI 0.398942280401432678

double ROW(normal_cdf)(const NormalRow *q, double u, double *pdf, double *slope) {
  vd at = v_splat(u), F = ZERO, f = ZERO, d = ZERO;
  for (size_t j = 0; j < q->m; j += VL) {
    vd inv = load_part(q->inverse, j, q->m, 0), z = standardised(q, at, inv, j),
       w = lane_weights(q, j);
    vd e = w * inv * v_exp(v_splat(-0.5) * z * z);
    F = v_fma(w, v_Phi(z), F);
    f += e;
    d = v_fma(e * inv, z, d);
  }
  *pdf = v_sum(f) * ONE_OVER_SQRT_2PI;
  *slope = v_sum(d) * -ONE_OVER_SQRT_2PI;
  return v_sum(F);
}

double ROW(normal_pdf)(const NormalRow *q, double u) {
  vd at = v_splat(u), f = ZERO;
  for (size_t j = 0; j < q->m; j += VL) {
    vd inv = load_part(q->inverse, j, q->m, 0), z = standardised(q, at, inv, j);
    f = v_fma(lane_weights(q, j) * inv, v_exp(v_splat(-0.5) * z * z), f);
  }
  return v_sum(f) * ONE_OVER_SQRT_2PI;
}

void ROW(normal_cdf_adjoint)(const NormalRow *row, double u, double g, double *adj_mean,
                             double *adj_sd) {
  NormalRow q = *row; /* its own, so that what is stored cannot change it */
  vd at = v_splat(u), c = v_splat(-ONE_OVER_SQRT_2PI * g / (q.weights ? 1 : (double)q.m));
  for (size_t j = 0; j < q.m; j += VL) {
    vd inv = load_part(q.inverse, j, q.m, 0), z = standardised(&q, at, inv, j);
    vd d = c * inv * v_exp(v_splat(-0.5) * z * z);
    if (q.weights) d *= load_part(q.weights, j, q.m, 0);
    vd s = d * z;
    for (size_t t = 0; t < VL && j + t < q.m; t++) {
      if (adj_mean) adj_mean[j + t] += d[t];
      if (adj_sd) adj_sd[j + t] += s[t];
    }
  }
}
