/* exec_products.c: instructions on whole matrices: products, and eigenvalues. */
#include "vm/exec_int.h"

#include <string.h>

/* ---- a matrix of data times a vector --------------------------------------------------------- */

/* The rows of a product with elements from here and there, and of their adjoints. */
static void gathered_rows(const Frame *f, const Instr *i) {
  const Operand *o = &i->in[1];
  for (size_t k = 0; k < (size_t)i->width; k++) {
    size_t at = (o->base + (size_t)o->index[k]) * f->ld;
    f->s->in[k] = f->shared + at;
    f->s->adj[k] = f->out_adj + at;
  }
}

void exec_matvec_forward(const Frame *f, const Instr *i, size_t n, size_t first) {
  const Work *w = f->w;
  size_t inner = (size_t)i->width;
  if (i->in[1].access == AT_INDEX) {
    gathered_rows(f, i);
    for (size_t r = 0; r < n; r++)
      w->k->combine(result_row(f, i, r), i->in[0].data + r * inner, f->s->in, inner, f->n);
    return;
  }
  w->k->gemm(&(RowProduct){.out = result_row(f, i, 0),
                           .ldo = f->ld,
                           .a = i->in[0].data + first * inner,
                           .a_row = inner,
                           .a_column = 1,
                           .b = f->shared + i->in[1].base * f->ld,
                           .ldb = f->ld,
                           .rows = n,
                           .inner = inner,
                           .n = f->n});
}

void exec_matvec_backward(const Frame *f, const Instr *i, size_t n, size_t first) {
  const Work *w = f->w;
  size_t inner = (size_t)i->width;
  if (i->in[1].access == AT_INDEX) {
    gathered_rows(f, i);
    for (size_t r = 0; r < n; r++)
      w->k->combine_adjoint(result_adjoint(f, i, r), i->in[0].data + r * inner, f->s->adj, inner,
                            f->n);
    return;
  }
  double *adj =
      f->tile ? f->boundary + i->in[1].adjoint * f->ld : f->out_adj + i->in[1].base * f->ld;
  w->k->gemm(&(RowProduct){.out = adj,
                           .ldo = f->ld,
                           .a = i->in[0].data + first * inner,
                           .a_row = 1,
                           .a_column = inner,
                           .b = result_adjoint(f, i, 0),
                           .ldb = f->ld,
                           .rows = inner,
                           .inner = n,
                           .n = f->n,
                           .add = true});
}

/* ---- two matrices ---------------------------------------------------------------------------- */

/* Matrices of a product: [rows x inner] times [inner x columns]. */
typedef struct {
  size_t rows, inner, columns;
} Sizes;

static Sizes sizes_of(const Instr *i) {
  return (Sizes){(size_t)i->n / (size_t)i->columns, (size_t)i->width, (size_t)i->columns};
}

/* Numbers times rows, all columns of the second matrix at once: they follow each other in memory.
 */
static RowProduct constant_times(const Frame *f, const Instr *i, Sizes s, bool back) {
  size_t ld = s.columns * f->ld;
  return (RowProduct){.a = i->in[0].data,
                      .a_row = back ? 1 : s.inner,
                      .a_column = back ? s.inner : 1,
                      .ldo = ld,
                      .ldb = ld,
                      .rows = back ? s.inner : s.rows,
                      .inner = back ? s.rows : s.inner,
                      .n = ld,
                      .add = back};
}

/* Rows times numbers: one row of the first matrix, transposed. */
static RowProduct times_constant(const Frame *f, const Instr *i, Sizes s, bool back) {
  return (RowProduct){.a = i->in[1].data,
                      .a_row = back ? s.columns : 1,
                      .a_column = back ? 1 : s.columns,
                      .ldo = f->ld,
                      .ldb = f->ld,
                      .rows = back ? s.inner : s.columns,
                      .inner = back ? s.columns : s.inner,
                      .n = f->n,
                      .add = back};
}

void exec_matmul_forward(const Frame *f, const Instr *i) {
  const Kernels *k = f->w->k;
  Sizes s = sizes_of(i);
  const double *a = f->shared + i->in[0].base * f->ld, *b = f->shared + i->in[1].base * f->ld;
  double *out = result_row(f, i, 0);
  if (i->in[0].place == IN_DATA) {
    RowProduct p = constant_times(f, i, s, false);
    p.out = out, p.b = b;
    k->gemm(&p);
  } else if (i->in[1].place == IN_DATA) {
    RowProduct p = times_constant(f, i, s, false);
    for (size_t r = 0; r < s.rows; r++) {
      p.out = out + r * s.columns * f->ld, p.b = a + r * s.inner * f->ld;
      k->gemm(&p);
    }
  } else {
    size_t ld = f->ld;
    k->lane_product(&(LaneProduct){.out = {out, s.columns * ld, ld},
                                   .x = {a, s.inner * ld, ld},
                                   .y = {b, s.columns * ld, ld},
                                   .rows = s.rows,
                                   .inner = s.inner,
                                   .columns = s.columns,
                                   .n = f->n});
  }
}

/* Of out = a b: a's adjoint gets g b', and b's the transposed of g' a. */
static void lanes_backward(const Frame *f, const Instr *i, Sizes s) {
  size_t ld = f->ld, ao = i->in[0].base * ld, bo = i->in[1].base * ld;
  const double *g = result_adjoint(f, i, 0);
  f->w->k->lane_product(&(LaneProduct){.out = {f->out_adj + ao, s.inner * ld, ld},
                                       .x = {g, s.columns * ld, ld},
                                       .y = {f->shared + bo, ld, s.columns * ld},
                                       .rows = s.rows,
                                       .inner = s.columns,
                                       .columns = s.inner,
                                       .n = f->n,
                                       .back = true});
  f->w->k->lane_product(&(LaneProduct){.out = {f->out_adj + bo, ld, s.columns * ld},
                                       .x = {g, ld, s.columns * ld},
                                       .y = {f->shared + ao, s.inner * ld, ld},
                                       .rows = s.columns,
                                       .inner = s.rows,
                                       .columns = s.inner,
                                       .n = f->n,
                                       .back = true});
}

void exec_matmul_backward(const Frame *f, const Instr *i) {
  const Kernels *k = f->w->k;
  Sizes s = sizes_of(i);
  const double *g = result_adjoint(f, i, 0);
  if (i->in[0].place == IN_DATA) {
    RowProduct p = constant_times(f, i, s, true);
    p.out = f->out_adj + i->in[1].base * f->ld, p.b = g;
    k->gemm(&p);
  } else if (i->in[1].place == IN_DATA) {
    RowProduct p = times_constant(f, i, s, true);
    for (size_t r = 0; r < s.rows; r++) {
      p.out = f->out_adj + (i->in[0].base + r * s.inner) * f->ld, p.b = g + r * s.columns * f->ld;
      k->gemm(&p);
    }
  } else {
    lanes_backward(f, i, s);
  }
}

/* ---- spectra --------------------------------------------------------------------------------- */

/* The k-th matrix of the instruction. */
static EigenRows eigen_rows(const Frame *f, const Instr *i, size_t k) {
  size_t K = (size_t)i->width;
  return (EigenRows){.K = K,
                     .ld = f->ld,
                     .lanes = f->n,
                     .in = f->shared + (i->in[0].base + k * K * K) * f->ld,
                     .out = result_row(f, i, k * K * (K + 1))};
}

static size_t eigen_count(const Instr *i) {
  return (size_t)i->n / ((size_t)i->width * ((size_t)i->width + 1));
}

void exec_spectra_forward(const Frame *f, const Instr *i) {
  for (size_t k = 0; k < eigen_count(i); k++) {
    EigenRows r = eigen_rows(f, i, k);
    eigen_forward(&r, f->s->eigen);
  }
}

void exec_spectra_backward(const Frame *f, const Instr *i) {
  size_t K = (size_t)i->width;
  for (size_t k = 0; k < eigen_count(i); k++) {
    EigenRows r = eigen_rows(f, i, k);
    r.out_adj = result_adjoint(f, i, k * K * (K + 1));
    r.in_adj = f->out_adj + (i->in[0].base + k * K * K) * f->ld;
    eigen_backward(&r, f->s->eigen);
  }
}
