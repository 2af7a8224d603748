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

/* All rows of the product, two vectors of lanes from j on, the rows of b copied side by side first:
 * where they are far apart most of them would be fetched from memory again for every block. */
enum { PANEL = 256 };
VFN void gemm_panels(const RowProduct *p, size_t j) {
  vd panel[PANEL][2];
  RowProduct q = *p;
  q.out = p->out + j;
  q.b = (const double *)panel;
  q.ldb = 2 * VL;
  for (size_t k0 = 0; k0 < p->inner; k0 += PANEL) {
    q.inner = p->inner - k0 < PANEL ? p->inner - k0 : PANEL;
    q.a = p->a + k0 * p->a_column;
    q.add = p->add || k0;
    for (size_t k = 0; k < q.inner; k++)
      for (size_t v = 0; v < 2; v++) panel[k][v] = v_load(p->b + (k0 + k) * p->ldb + j + v * VL);
    size_t i = 0;
    for (; i + ROWS_AT_ONCE <= q.rows; i += ROWS_AT_ONCE) gemm_block(&q, i, 0, ROWS_AT_ONCE, 2);
    for (; i < q.rows; i++) gemm_block(&q, i, 0, 1, 2);
  }
}

void ROW(gemm)(const RowProduct *product) {
  enum { LEAST_ROWS = 16, LEAST_INNER = 32 };
  RowProduct p = *product; /* its own, so that what is stored cannot change it */
  size_t done = 0;
  if (p.rows >= LEAST_ROWS && p.inner >= LEAST_INNER)
    for (; done + 2 * VL <= p.n; done += 2 * VL) gemm_panels(&p, done);
  p.out += done, p.b += done, p.n -= done;
#define STEP(R, C) gemm_block(&p, i, j, R, C)
  IN_BLOCKS(p.rows, p.n, i, j, STEP)
#undef STEP
}

enum { STRIP = 8 }; /* vectors of lanes that are summed together */

void ROW(combine)(double *out, const double *c, const double *const *a, size_t count, size_t n) {
  size_t j = 0;
  for (; j + STRIP * VL <= n; j += STRIP * VL) {
    vd s[STRIP];
    V_UNROLL for (int v = 0; v < STRIP; v++) s[v] = ZERO;
    for (size_t k = 0; k < count; k++) {
      const double *from = a[k] + j;
      vd x = v_splat(c[k]);
      V_UNROLL for (int v = 0; v < STRIP; v++) s[v] = v_fma(x, v_load(from + v * VL), s[v]);
    }
    V_UNROLL for (int v = 0; v < STRIP; v++) v_store(out + j + v * VL, s[v]);
  }
  for (; j < n; j += VL) {
    vd s = ZERO;
    for (size_t k = 0; k < count; k++) s = v_fma(v_splat(c[k]), v_load(a[k] + j), s);
    v_store(out + j, s);
  }
}

void ROW(combine_adjoint)(const double *g, const double *c, double *const *adj, size_t count,
                          size_t n) {
  size_t j = 0;
  for (; j + STRIP * VL <= n; j += STRIP * VL) {
    vd x[STRIP];
    V_UNROLL for (int v = 0; v < STRIP; v++) x[v] = v_load(g + j + v * VL);
    for (size_t k = 0; k < count; k++) {
      double *to = adj[k] + j;
      vd by = v_splat(c[k]);
      V_UNROLL for (int v = 0; v < STRIP; v++)
          v_store(to + v * VL, v_fma(by, x[v], v_load(to + v * VL)));
    }
  }
  for (; j < n; j += VL)
    for (size_t k = 0; k < count; k++)
      v_store(adj[k] + j, v_fma(v_splat(c[k]), v_load(g + j), v_load(adj[k] + j)));
}

enum { PRODUCT_ROWS = 4, PRODUCT_COLUMNS = 2 }; /* elements of a product held in registers */

/* Elements (i .. i + R, c .. c + C) of the product, lanes from j on. */
typedef struct {
  vd at[PRODUCT_ROWS][PRODUCT_COLUMNS];
} ProductBlock;

VFN ProductBlock product_sums(const LaneProduct *p, const double *x, const double *y, int R, int C,
                              bool careful) {
  RowsIn of_x = p->x, of_y = p->y;
  ProductBlock acc;
  BLOCK(i, c) acc.at[i][c] = ZERO;
  for (size_t k = 0; k < p->inner; k++) {
    vd a[PRODUCT_ROWS], b[PRODUCT_COLUMNS];
    V_UNROLL for (int i = 0; i < R; i++) a[i] = v_load(x + (size_t)i * of_x.down);
    V_UNROLL for (int c = 0; c < C; c++) b[c] = v_load(y + (size_t)c * of_y.across);
    BLOCK(i, c) {
      vd sum = v_fma(a[i], b[c], acc.at[i][c]);
      acc.at[i][c] = careful ? SEL(v_eq(a[i], ZERO), acc.at[i][c], sum) : sum;
    }
    x += of_x.across;
    y += of_y.down;
  }
  return acc;
}

VFN void product_block(const LaneProduct *p, size_t i0, size_t c0, size_t j, int R, int C) {
  const double *x = p->x.at + i0 * p->x.down + j, *y = p->y.at + c0 * p->y.across + j;
  ProductBlock acc = product_sums(p, x, y, R, C, false);
  vd left = ZERO;
  BLOCK(i, c) left += acc.at[i][c] - acc.at[i][c];
  if (p->back && v_any(v_not(v_eq(left, ZERO)))) /* some are infinite or nan */
    acc = product_sums(p, x, y, R, C, true);
  double *out = p->out.at + i0 * p->out.down + c0 * p->out.across + j;
  BLOCK(i, c) {
    double *to = out + (size_t)i * p->out.down + (size_t)c * p->out.across;
    v_store(to, p->back ? v_load(to) + acc.at[i][c] : acc.at[i][c]);
  }
}

VFN void product_columns(const LaneProduct *p, size_t i, size_t j, int R) {
  size_t c = 0;
  for (; c + PRODUCT_COLUMNS <= p->columns; c += PRODUCT_COLUMNS)
    product_block(p, i, c, j, R, PRODUCT_COLUMNS);
  for (; c < p->columns; c++) product_block(p, i, c, j, R, 1);
}

void ROW(lane_product)(const LaneProduct *product) {
  LaneProduct p = *product;
  for (size_t j = 0; j < p.n; j += VL) {
    size_t i = 0;
    for (; i + PRODUCT_ROWS <= p.rows; i += PRODUCT_ROWS) product_columns(&p, i, j, PRODUCT_ROWS);
    for (; i < p.rows; i++) product_columns(&p, i, j, 1);
  }
}

/* Term w, lanes from j on: of one list, or the sum of two. */
VFN vd term_at(const RowList *a, const RowList *b, size_t w, size_t j) {
  vd x = v_load(a->row[w] + a->step[w] * j);
  return b ? x + v_load(b->row[w] + b->step[w] * j) : x;
}

/* Where the maximum is infinite it is the answer, as Stan has it. */
VFN vd lse_of(vd most, vd sum) {
  return SEL(v_eq(v_abs(most), K(INFINITY)), most, most + v_log(sum));
}

/* Few terms stay in registers. */
enum { FEW_TERMS = 4 };
VFN void lse_few(double *out, const RowList *a, const RowList *b, size_t n, int count) {
  for (size_t j = 0; j < n; j += VL) {
    vd x[FEW_TERMS], m, s = ZERO;
    V_UNROLL for (int w = 0; w < count; w++) x[w] = term_at(a, b, (size_t)w, j);
    m = x[0];
    V_UNROLL for (int w = 1; w < count; w++) m = v_max(m, x[w]);
    V_UNROLL for (int w = 0; w < count; w++) s += v_exp(x[w] - m);
    v_store(out + j, lse_of(m, s));
  }
}

/* m + log(1 + exp(-|x - y|)): one exponential. */
VFN void lse_two(double *out, const RowList *a, const RowList *b, size_t n) {
  for (size_t j = 0; j < n; j += VL) {
    vd x = term_at(a, b, 0, j), y = term_at(a, b, 1, j);
    v_store(out + j, lse_of(v_max(x, y), ONE + v_exp(-v_abs(x - y))));
  }
}

VFN void lse_many(double *out, const RowList *a, const RowList *b, size_t n) {
  for (size_t j = 0; j < n; j += VL) {
    vd m = term_at(a, b, 0, j);
    for (size_t w = 1; w < a->count; w++) m = v_max(m, term_at(a, b, w, j));
    vd s = ZERO;
    for (size_t w = 0; w < a->count; w++) s += v_exp(term_at(a, b, w, j) - m);
    v_store(out + j, lse_of(m, s));
  }
}

VFN void lse_rows(double *out, const RowList *list, const RowList *other, size_t n) {
  RowList a = *list, copy = other ? *other : a;
  const RowList *b = other ? &copy : NULL;
  switch (a.count) {
  case 2: lse_two(out, &a, b, n); break;
  case 3: lse_few(out, &a, b, n, 3); break;
  case 4: lse_few(out, &a, b, n, 4); break;
  default: lse_many(out, &a, b, n);
  }
}

/* What flows back to a term x whose share of the sum is p. */
VFN vd pulled(vd x, vd g, vd p) {
  return SEL(v_or(v_eq(g, ZERO), v_eq(x, K(-INFINITY))), ZERO, g * p);
}

VFN void add_if(double *to, vd x) {
  if (to) v_store(to, v_load(to) + x);
}

/* Places of a term's adjoint, or of both its summands': NULL where there is none. */
VFN double *at(double *row, size_t j) { return row ? row + j : NULL; }

VFN void lse_two_adjoint(const double *g, const RowList *a, const RowList *b, double *const *adj,
                         size_t n) {
  for (size_t j = 0; j < n; j += VL) {
    vd x = term_at(a, b, 0, j), y = term_at(a, b, 1, j), gj = v_load(g + j);
    vd e = v_exp(-v_abs(x - y)), large = ONE / (ONE + e), small = e * large;
    vm first = v_ge(x, y);
    vd to_x = pulled(x, gj, SEL(first, large, small)),
       to_y = pulled(y, gj, SEL(first, small, large));
    add_if(at(adj[0], j), to_x);
    add_if(at(adj[1], j), to_y);
    if (b) add_if(at(adj[2], j), to_x);
    if (b) add_if(at(adj[3], j), to_y);
  }
}

VFN void lse_adjoint_rows(const double *g, const double *r, const RowList *list,
                          const RowList *other, double *const *adj, size_t n) {
  RowList a = *list, copy = other ? *other : a;
  const RowList *b = other ? &copy : NULL;
  if (a.count == 2) {
    lse_two_adjoint(g, &a, b, adj, n);
    return;
  }
  for (size_t j = 0; j < n; j += VL) {
    vd gj = v_load(g + j), rj = v_load(r + j);
    for (size_t w = 0; w < a.count; w++) {
      if (!adj[w] && !(b && adj[a.count + w])) continue;
      vd x = term_at(&a, b, w, j), to_x = pulled(x, gj, v_exp(x - rj));
      add_if(at(adj[w], j), to_x);
      if (b) add_if(at(adj[a.count + w], j), to_x);
    }
  }
}

void ROW(log_sum_exp)(double *out, const RowList *a, size_t n) { lse_rows(out, a, NULL, n); }
void ROW(log_sum_exp_adjoint)(const double *g, const double *r, const RowList *a,
                              double *const *adj, size_t n) {
  lse_adjoint_rows(g, r, a, NULL, adj, n);
}
void ROW(log_sum_exp_pairs)(double *out, const RowList *a, const RowList *b, size_t n) {
  lse_rows(out, a, b, n);
}
void ROW(log_sum_exp_pairs_adjoint)(const double *g, const double *r, const RowList *a,
                                    const RowList *b, double *const *adj, size_t n) {
  lse_adjoint_rows(g, r, a, b, adj, n);
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

/* A draw whose density is nan or infinite has none, and predicts nothing. */
#define PREDICTS(l) SEL(v_lt(l, K(INFINITY)), l, K(-INFINITY))

/* The lanes of a row l + plus from j on; plus: NULL, then the compiler sees it. */
VFN vd logit_at(const double *l, const double *plus, size_t j) {
  return plus ? v_load(l + j) + v_load(plus + j) : v_load(l + j);
}

/* The lanes in use of the last, partial vector of m. */
VFN vm lanes_left(size_t m) { return v_lt(v_iota(), v_splat((double)(m % VL))); }

/* The largest number of a row that predicts. */
VFN double row_peak(const double *l, const double *plus, size_t m, vm last) {
  size_t full = m / VL * VL;
  vd top = K(-INFINITY);
  if (full < m) top = v_max(SEL(last, logit_at(l, plus, full), top), top);
  for (size_t j = 0; j < full; j += VL) top = v_max(logit_at(l, plus, j), top); /* loses nans */
  if (v_hmax(top) < INFINITY) return v_hmax(top);
  top = K(-INFINITY);
  if (full < m) top = v_max(PREDICTS(SEL(last, logit_at(l, plus, full), top)), top);
  for (size_t j = 0; j < full; j += VL) top = v_max(PREDICTS(logit_at(l, plus, j)), top);
  return v_hmax(top);
}

/* exp(l + plus - peak) into w, where there is one, and their sum. */
VFN double row_exp(const double *l, const double *plus, size_t m, double peak, vm last, double *w) {
  size_t full = m / VL * VL;
  vd sum = ZERO, shift = v_splat(peak);
  for (size_t j = 0; j < full; j += VL) {
    vd e = v_exp_weight(logit_at(l, plus, j) - shift);
    sum += e;
    if (w) v_store(w + j, e);
  }
  if (full < m) {
    vd e = SEL(last, v_exp_weight(logit_at(l, plus, full) - shift), ZERO);
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
VFN void softmax_rows(const SoftmaxRows *s, const double *plus) {
  vm last = lanes_left(s->m);
  for (size_t r0 = 0; r0 < s->rows; r0 += LANES) {
    size_t count = s->rows - r0 < LANES ? s->rows - r0 : LANES;
    const double *l = s->l + r0 * s->ld;
    double peak[LANES], total[LANES], logs[LANES], *w = s->w ? s->w + r0 * s->ld : NULL;
    for (size_t r = 0; r < LANES; r++) total[r] = 1;
    for (size_t r = 0; r < count; r++) peak[r] = row_peak(l + r * s->ld, plus, s->m, last);
    for (size_t r = 0; r < count; r++)
      total[r] = row_exp(l + r * s->ld, plus, s->m, peak[r], last, w ? w + r * s->ld : NULL);
    for (size_t r = 0; r < LANES; r += VL) v_store(logs + r, v_log(v_load(total + r)));
    for (size_t r = 0; r < count; r++) {
      bool usual = peak[r] < INFINITY && peak[r] > -INFINITY;
      s->out[r0 + r] = usual ? peak[r] + logs[r] : peak[r];
      if (w) row_divide(w + r * s->ld, total[r], usual, s->m);
    }
  }
}

void ROW(softmax_rows)(const SoftmaxRows *rows) {
  SoftmaxRows s = *rows; /* its own, so that what is stored cannot change it */
  if (s.plus) {
    softmax_rows(&s, s.plus);
  } else {
    softmax_rows(&s, NULL);
  }
}

double ROW(softmax)(double *w, const double *l, size_t m) {
  double out;
  SoftmaxRows row = {w, l, NULL, 0, 1, m, &out};
  ROW(softmax_rows)(&row);
  return out;
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

static double cdf_alone(const NormalRow *q, double u) {
  vd at = v_splat(u), F = ZERO;
  for (size_t j = 0; j < q->m; j += VL) {
    vd inv = load_part(q->inverse, j, q->m, 0);
    F = v_fma(lane_weights(q, j), v_Phi(standardised(q, at, inv, j)), F);
  }
  return v_sum(F);
}

double ROW(normal_cdf)(const NormalRow *q, double u, double *pdf, double *slope) {
  if (!pdf) return cdf_alone(q, u);
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
