/* exec_int.h: for the files that run instructions: where the rows behind an operand lie, and what
 * exec.c leaves to the others. */
#ifndef PVI_EXEC_INT_H
#define PVI_EXEC_INT_H

#include "vm/work_int.h"

/* Element of the operand that belongs to element e of the instruction (counted from the tile's
 * first observation). */
static inline size_t element_of(const Operand *o, size_t e, size_t first) {
  switch (o->access) {
  case AT_SAME: return o->place == IN_TILE ? e : first + e;
  case AT_ONE: return 0;
  case AT_INDEX: return (size_t)o->index[first + e];
  default:
    return e / (size_t)o->width * (size_t)o->source_width + (size_t)o->index[e % (size_t)o->width];
  }
}

/* The row of draws (or LANES copies of a number) behind operand o at element e. */
static inline const double *row_of(const Frame *f, const Operand *o, size_t e, size_t first,
                                   double *splat, size_t *step) {
  size_t at = element_of(o, e, first);
  *step = 1;
  if (o->place == IN_GLOBAL) return f->shared + (o->base + at) * f->ld;
  if (o->place == IN_TILE) return f->out + (o->base * f->T + at) * f->ld;
  *step = 0;
  if (o->access == AT_ONE) return o->data;
  for (int k = 0; k < LANES; k++) splat[k] = o->data[at];
  return splat;
}

static inline double *adjoint_of(const Frame *f, const Operand *o, size_t e, size_t first) {
  if (o->place == IN_DATA) return NULL;
  size_t at = element_of(o, e, first);
  if (o->place == IN_TILE) return f->out_adj + (o->base * f->T + at) * f->ld;
  if (f->tile) return f->boundary + (o->adjoint + at) * f->ld;
  return f->out_adj + (o->base + at) * f->ld;
}

static inline double *result_row(const Frame *f, const Instr *i, size_t e) {
  return f->out + (i->out * f->T + e) * f->ld;
}

static inline double *result_adjoint(const Frame *f, const Instr *i, size_t e) {
  return f->out_adj + (i->out * f->T + e) * f->ld;
}

static inline void copy_forward(const Frame *f, double *out, const Operand *o, size_t e,
                                size_t first) {
  size_t step;
  const double *a = row_of(f, o, e, first, f->s->splat, &step);
  for (size_t j = 0; j < f->n; j++) out[j] = a[step * j];
}

static inline void copy_backward(const Frame *f, const double *g, const Operand *o, size_t e,
                                 size_t first) {
  double *adj = adjoint_of(f, o, e, first);
  if (adj) f->w->k->add(adj, g, f->n);
}

/* ---- exec_sums.c ----------------------------------------------------------------------------- */

void exec_sum_forward(const Frame *f, const Instr *i, size_t n, size_t first);
void exec_sum_backward(const Frame *f, const Instr *i, size_t n, size_t first);
void exec_lse_forward(const Frame *f, const Instr *i, size_t n, size_t first);
void exec_lse_backward(const Frame *f, const Instr *i, size_t n, size_t first);
void exec_affine_forward(const Frame *f, const Instr *i);
void exec_affine_backward(const Frame *f, const Instr *i);
void exec_mixture_forward(const Frame *f, const Instr *i);
void exec_mixture_backward(const Frame *f, const Instr *i);
void exec_cumsum_forward(const Frame *f, const Instr *i, size_t n);
void exec_cumsum_backward(const Frame *f, const Instr *i, size_t n);

/* ---- exec_products.c ------------------------------------------------------------------------- */

void exec_matvec_forward(const Frame *f, const Instr *i, size_t n, size_t first);
void exec_matvec_backward(const Frame *f, const Instr *i, size_t n, size_t first);
void exec_matmul_forward(const Frame *f, const Instr *i);
void exec_matmul_backward(const Frame *f, const Instr *i);
void exec_spectra_forward(const Frame *f, const Instr *i);
void exec_spectra_backward(const Frame *f, const Instr *i);

#endif
