/* exec.c: running the instructions of a Tape, forward and backward, over rows of draws.
 *
 * Every instruction is a loop over its elements; `row_of` finds the row of draws behind an operand,
 * a kernel does the arithmetic. The same two functions (exec_forward, exec_backward) serve the
 * global part and the tiles; a Frame says where things lie. What is run when, and by whom, is
 * work.c's.
 */
#include "vm/work_int.h"

#include "num/rng.h"

#include <math.h>
#include <string.h>

/* ---- finding rows ---------------------------------------------------------------------------- */

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

/* ---- forward --------------------------------------------------------------------------------- */

/* Where an operand's rows lie for a run of elements: `stride` apart from the first; or each for
 * itself. Data are spread to LANES copies for the whole run before the first is read: a vector load
 * right behind narrower stores would wait for them. */
typedef struct {
  const double *row;
  double *adj;
  size_t step, stride, adj_stride;
  bool each;
} Walk;

static Walk walk(const Frame *f, const Operand *o, size_t e, size_t count, size_t first,
                 double *spread) {
  Walk w = {.stride = o->access == AT_ONE ? 0 : f->ld,
            .step = 1,
            .adj_stride = o->access == AT_ONE ? 0 : f->ld};
  if (o->place == IN_DATA && o->access == AT_ONE) {
    w = (Walk){.row = o->data};
  } else if (o->place == IN_DATA) {
    w = (Walk){.row = spread, .stride = LANES};
    for (size_t k = 0; k < count; k++) {
      double x = o->data[element_of(o, e + k, first)];
      for (int l = 0; l < LANES; l++) spread[k * LANES + (size_t)l] = x;
    }
  } else if (o->access == AT_ONE || (o->access == AT_SAME && (o->place == IN_TILE || !f->tile))) {
    size_t step;
    w.row = row_of(f, o, e, first, NULL, &step);
    w.adj = f->out_adj ? adjoint_of(f, o, e, first) : NULL;
  } else {
    w.each = true;
  }
  return w;
}

static void map_forward(const Frame *f, const Instr *i, size_t n, size_t first) {
  MapForward *kernel = f->w->k->forward[i->op];
  const double *in[IR_MAX_ARGS];
  size_t step[IR_MAX_ARGS];
  Walk w[IR_MAX_ARGS];
  if (n == 1) { /* recurrences, unrolled: thousands of them */
    for (int k = 0; k < i->nargs; k++)
      in[k] = row_of(f, &i->in[k], 0, first, f->s->splat + k * LANES, &step[k]);
    kernel(result_row(f, i, 0), in, step, f->n);
    return;
  }
  for (size_t e = 0; e < n; e++) {
    for (int k = 0; k < i->nargs; k++) {
      if (e % WALK == 0) {
        w[k] = walk(f, &i->in[k], e, min_size(WALK, n - e), first,
                    f->s->spread + (size_t)k * WALK * LANES);
        step[k] = w[k].step;
      }
      in[k] = w[k].each ? row_of(f, &i->in[k], e, first, NULL, &step[k])
                        : w[k].row + e % WALK * w[k].stride;
    }
    kernel(result_row(f, i, e), in, step, f->n);
  }
}

/* A density of all rows of the tile: where its operands lie, and their adjoints on the way back. */
static DensityRows density_rows(const Frame *f, const Instr *i, size_t n, size_t first,
                                bool adjoint) {
  Scratch *s = f->s;
  DensityRows x = {.y = i->in[0].data + element_of(&i->in[0], 0, first),
                   .y_step = i->in[0].access != AT_ONE,
                   .b = s->rows};
  size_t step;
  for (size_t e = 0; e < n; e++) s->rows[e] = row_of(f, &i->in[1], e, first, NULL, &step);
  for (int k = 0; k < 2; k++)
    x.shared[k] = row_of(f, &i->in[2 + k], 0, first, s->splat + k * LANES, &x.step[k]);
  if (!adjoint) return x;
  x.fresh = i->fresh;
  x.b_adj = s->row_adj;
  for (size_t e = 0; e < n; e++) s->row_adj[e] = adjoint_of(f, &i->in[1], e, first);
  for (int k = 0; k < 2; k++) x.shared_adj[k] = adjoint_of(f, &i->in[2 + k], 0, first);
  return x;
}

static void density_forward(const Frame *f, const Instr *i, size_t n, size_t first) {
  DensityRows x = density_rows(f, i, n, first, false);
  f->w->k->density[i->op](result_row(f, i, 0), f->ld, &x, n, f->n);
}

static void density_backward(const Frame *f, const Instr *i, size_t n, size_t first) {
  DensityRows x = density_rows(f, i, n, first, true);
  f->w->k->density_adjoint[i->op](result_adjoint(f, i, 0), f->ld, &x, n, f->n);
}

void exec_total(const Frame *f, const Instr *i, double *totals) {
  const Kernels *k = f->w->k;
  if (i->density) {
    DensityRows x = density_rows(f, i, f->rows, f->row, true);
    k->density_total[i->op](totals, f->w->linear, f->w->M, &x, f->rows, f->n);
    return;
  }
  const Operand *o = &i->in[k->saving_operand[i->op] - 1];
  const double *in[IR_MAX_ARGS];
  size_t step[IR_MAX_ARGS];
  for (size_t e = 0; e < f->rows; e++) {
    for (int a = 0; a < i->nargs; a++)
      in[a] = row_of(f, &i->in[a], e, f->row, f->s->splat + a * LANES, &step[a]);
    TotalRow t = {f->w->linear, f->w->M, f->n, adjoint_of(f, o, e, f->row), i->fresh};
    totals[e] = k->saving_total[i->op](&t, in, step);
  }
}

static inline double *slope_row(const Frame *f, const Instr *i, size_t e) {
  return f->out + (i->slope * f->T + e) * f->ld;
}

static void saving_forward(const Frame *f, const Instr *i, size_t n, size_t first) {
  const double *in[IR_MAX_ARGS];
  size_t step[IR_MAX_ARGS];
  for (size_t e = 0; e < n; e++) {
    for (int k = 0; k < i->nargs; k++)
      in[k] = row_of(f, &i->in[k], e, first, f->s->splat + k * LANES, &step[k]);
    f->w->k->saving[i->op](result_row(f, i, e), slope_row(f, i, e), in, step, f->n);
  }
}

static void saving_backward(const Frame *f, const Instr *i, size_t n, size_t first) {
  const Operand *o = &i->in[f->w->k->saving_operand[i->op] - 1];
  for (size_t e = 0; e < n; e++)
    f->w->k->chain(adjoint_of(f, o, e, first), result_adjoint(f, i, e), slope_row(f, i, e), f->n,
                   i->fresh);
}

/* The pointers behind the `width` operands of result e of a SUM or LSE. */
static void reduce_rows(const Frame *f, const Instr *i, size_t e, size_t first) {
  size_t width = (size_t)i->width;
  for (size_t w = 0; w < width; w++)
    f->s->in[w] =
        row_of(f, &i->in[0], e * width + w, first * width, f->s->splat + w * LANES, &f->s->step[w]);
}

/* Element e of an elementwise op, into out. */
static void map_element(const Frame *f, const Instr *i, size_t e, const double **in, size_t *step,
                        double *out) {
  for (int k = 0; k < i->nargs; k++)
    in[k] = row_of(f, &i->in[k], e, 0, f->s->splat + k * LANES, &step[k]);
  f->w->k->forward[i->op](out, in, step, f->n);
}

static void summand_forward(const Frame *f, const Instr *i) {
  const double *in[IR_MAX_ARGS];
  size_t step[IR_MAX_ARGS];
  double value[LANE_BLOCK];
  for (int32_t e = 0; e < i->summand->n; e++) {
    double *out = result_row(f, i, (size_t)(e / i->width));
    bool first = e % i->width == 0;
    map_element(f, i->summand, (size_t)e, in, step, first ? out : value);
    if (!first) f->w->k->add(out, value, f->n);
  }
}

/* The values are computed again: cheaper than to keep and fetch them. */
static void summand_backward(const Frame *f, const Instr *i) {
  const Instr *s = i->summand;
  const double *in[IR_MAX_ARGS];
  size_t step[IR_MAX_ARGS];
  double *adj[IR_MAX_ARGS], value[LANE_BLOCK];
  for (int32_t e = 0; e < s->n; e++) {
    map_element(f, s, (size_t)e, in, step, value);
    for (int k = 0; k < s->nargs; k++) adj[k] = adjoint_of(f, &s->in[k], (size_t)e, 0);
    f->w->k->backward[s->op](result_adjoint(f, i, (size_t)(e / i->width)), value, in, step, adj,
                             f->n);
  }
}

static void sum_forward(const Frame *f, const Instr *i, size_t n, size_t first) {
  if (i->summand) {
    summand_forward(f, i);
    return;
  }
  for (size_t e = 0; e < n; e++) {
    double *out = result_row(f, i, e);
    reduce_rows(f, i, e, first);
    for (size_t j = 0; j < f->n; j++)
      out[j] = f->s->in[0][f->s->step[0] * j % (f->s->step[0] ? f->n : LANES)];
    for (int32_t w = 1; w < i->width; w++) {
      if (f->s->step[w]) {
        f->w->k->add(out, f->s->in[w], f->n);
      } else {
        for (size_t j = 0; j < f->n; j++) out[j] += f->s->in[w][0];
      }
    }
  }
}

/* The rows behind both operands of the ADD whose sums a global LSE has: result e's. */
typedef struct {
  RowList a, b;
} RowPairs;

static RowPairs pair_rows(const Frame *f, const Instr *i, size_t e) {
  size_t width = (size_t)i->width;
  Scratch *s = f->s;
  for (size_t k = 0; k < 2 * width; k++)
    s->in[k] = row_of(f, &i->summand->in[k / width], e * width + k % width, 0, s->splat + k * LANES,
                      &s->step[k]);
  return (RowPairs){{s->in, s->step, width}, {s->in + width, s->step + width, width}};
}

/* The rows of a step of a chain: [a, b, exps], and adjoints of the first two. */
static ChainRows chain_rows(const Frame *f, const Instr *i) {
  Scratch *s = f->s;
  size_t width = (size_t)i->width, n = (size_t)i->n * width, step;
  const Operand *a = &i->summand->in[i->common - 1], *b = &i->summand->in[2 - i->common];
  const double **rows_b = s->in + width, **exps = rows_b + n;
  for (size_t w = 0; w < width; w++) {
    s->in[w] = row_of(f, a, w, 0, NULL, &step);
    s->adj[w] = f->out_adj ? adjoint_of(f, a, w, 0) : NULL;
  }
  for (size_t e = 0; e < n; e++) {
    rows_b[e] = row_of(f, b, e, 0, NULL, &step);
    exps[e] = f->shared + (i->exps + e) * f->ld;
    s->adj[width + e] = f->out_adj ? adjoint_of(f, b, e, 0) : NULL;
  }
  return (ChainRows){(size_t)i->n, width, s->in, rows_b, exps, s->adj, s->adj + width};
}

static void pairs_forward(const Frame *f, const Instr *i) {
  if (i->common) {
    ChainRows c = chain_rows(f, i);
    f->w->k->step(result_row(f, i, 0), f->ld, &c, f->n);
    return;
  }
  for (size_t e = 0; e < (size_t)i->n; e++) {
    RowPairs r = pair_rows(f, i, e);
    f->w->k->log_sum_exp_pairs(result_row(f, i, e), &r.a, &r.b, f->n);
  }
}

static void pairs_backward(const Frame *f, const Instr *i) {
  size_t width = (size_t)i->width;
  if (i->common) {
    ChainRows c = chain_rows(f, i);
    f->w->k->step_adjoint(result_adjoint(f, i, 0), result_row(f, i, 0), f->ld, &c, f->n);
    return;
  }
  for (size_t e = 0; e < (size_t)i->n; e++) {
    RowPairs r = pair_rows(f, i, e);
    for (size_t k = 0; k < 2 * width; k++)
      f->s->adj[k] = adjoint_of(f, &i->summand->in[k / width], e * width + k % width, 0);
    f->w->k->log_sum_exp_pairs_adjoint(result_adjoint(f, i, e), result_row(f, i, e), &r.a, &r.b,
                                       f->s->adj, f->n);
  }
}

static void lse_forward(const Frame *f, const Instr *i, size_t n, size_t first) {
  if (i->summand) {
    pairs_forward(f, i);
    return;
  }
  for (size_t e = 0; e < n; e++) {
    reduce_rows(f, i, e, first);
    RowList terms = {f->s->in, f->s->step, (size_t)i->width};
    f->w->k->log_sum_exp(result_row(f, i, e), &terms, f->n);
  }
}

static void copy_forward(const Frame *f, double *out, const Operand *o, size_t e, size_t first) {
  size_t step;
  const double *a = row_of(f, o, e, first, f->s->splat, &step);
  for (size_t j = 0; j < f->n; j++) out[j] = a[step * j];
}

/* The rows of a product with elements from here and there, and of their adjoints. */
static void gathered_rows(const Frame *f, const Instr *i) {
  const Operand *o = &i->in[1];
  for (size_t k = 0; k < (size_t)i->width; k++) {
    size_t at = (o->base + (size_t)o->index[k]) * f->ld;
    f->s->in[k] = f->shared + at;
    f->s->adj[k] = f->out_adj + at;
  }
}

static void matvec_forward(const Frame *f, const Instr *i, size_t n, size_t first) {
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

/* Numbers keyed by node, element and draw: the same in every plan. Those of tiles are kept, memory
 * permitting: while the seed stays they are the same in every evaluation. */
static void noise_forward(const Frame *f, const Instr *i, size_t n, size_t first) {
  const Work *w = f->w;
  Rng key = rng_make(w->noise_seed, (uint64_t)i->columns);
  for (size_t e = 0; e < n; e++) {
    uint64_t element = i->in[0].index ? (uint64_t)i->in[0].index[first + e] : e;
    size_t at = i->kept + first + e;
    bool keep = f->tile && w->kept;
    double *to = keep ? w->kept + at * w->lanes : result_row(f, i, e);
    if (!keep || w->kept_seed[at] != w->noise_seed + 1) {
      (i->width == NOISE_NORMAL ? rng_fill_normal : rng_fill_uniform)(key, f->lane, element, to,
                                                                      f->n);
      if (keep) w->kept_seed[at] = w->noise_seed + 1;
    }
    if (keep) memcpy(result_row(f, i, e), to, f->n * sizeof *to);
  }
}

/* Element of the leaf node behind element e of the instruction. */
static size_t leaf_element(const Instr *i, size_t e, size_t first) {
  return i->in[0].index ? (size_t)i->in[0].index[first + e] : first + e;
}

/* Rows of a leaf in its own order are one product. */
static size_t outer_together(const Instr *i, size_t n) { return i->in[0].index ? 1 : n; }

static void outer_forward(const Frame *f, const Instr *i, size_t n, size_t first) {
  const VmOuter *o = &f->w->outer[i->width];
  size_t step = outer_together(i, n);
  for (size_t e = 0; e < n; e += step) {
    const double *coef = o->coef + leaf_element(i, e, first) * o->terms;
    f->w->k->gemm(&(RowProduct){.out = result_row(f, i, e),
                                .ldo = f->ld,
                                .a = coef,
                                .a_row = o->terms,
                                .a_column = 1,
                                .b = o->basis + f->lane,
                                .ldb = f->w->lanes,
                                .rows = step,
                                .inner = o->terms,
                                .n = f->n});
  }
}

/* Lanes whose density is zero or underflows have no finite derivatives, and no weight either. */
static double finite_dot(const double *a, const double *b, size_t n) {
  double s = 0;
  for (size_t j = 0; j < n; j++)
    if (isfinite(a[j])) s += a[j] * b[j];
  return s;
}

/* d / d coef[e, b] = sum over lanes of adjoint times basis[b]. */
void exec_outer_backward(const Work *w, const Instr *i, const double *g, size_t n, size_t first) {
  const VmOuter *o = &w->outer[i->width];
  size_t step = outer_together(i, n), lanes = w->lanes;
  for (size_t e = 0; e < n; e += step) {
    double *adj = o->adj + leaf_element(i, e, first) * o->terms;
    OuterRows outer = {g + e * lanes, o->basis, lanes, lanes, o->terms, step, w->M};
    w->k->outer_adjoint(adj, &outer);
    for (size_t k = 0; k < step * o->terms; k++)
      if (!isfinite(adj[k]))
        adj[k] = finite_dot(g + (e + k / o->terms) * lanes, o->basis + k % o->terms * lanes, w->M);
  }
}

/* Pointers of an affine instruction for the rows of this tile. */
static AffineRows affine_rows(const Frame *f, const TapeAffine *t, bool adjoint) {
  Scratch *s = f->s;
  size_t D = t->ndense;
  AffineRows a = {.ndense = D,
                  .nsparse = t->nsparse,
                  .A = t->A + f->row * D,
                  .ld = f->ld,
                  .dense = s->in,
                  .base = s->in + D,
                  .dense_adj = s->adj,
                  .base_adj = s->adj + D,
                  .coef = s->coef,
                  .index = s->index};
  if (t->constant) a.constant = t->constant + f->row;
  for (size_t k = 0; k < D; k++) {
    s->in[k] = f->shared + t->dense[k] * f->ld;
    if (adjoint) s->adj[k] = f->boundary + t->dense_adj[k] * f->ld;
  }
  for (size_t k = 0; k < t->nsparse; k++) {
    s->in[D + k] = f->shared + t->base[k] * f->ld;
    if (adjoint) s->adj[D + k] = f->boundary + t->base_adj[k] * f->ld;
    s->coef[k] = t->coef[k] ? t->coef[k] + f->row : NULL;
    s->index[k] = t->index[k] + f->row;
  }
  return a;
}

static void affine_forward(const Frame *f, const Instr *i) {
  AffineRows a = affine_rows(f, i->affine, false);
  f->w->k->affine(result_row(f, i, 0), f->ld, &a, f->rows, f->n);
}

static void affine_backward(const Frame *f, const Instr *i) {
  AffineRows a = affine_rows(f, i->affine, true);
  f->w->k->affine_adjoint(result_adjoint(f, i, 0), f->ld, &a, f->rows, f->n);
}

/* Pointers of a mixture for observation e of this tile. */
static MixtureRows mixture_of(const Frame *f, const TapeMixture *t, size_t e, bool adjoint) {
  size_t count = t->width * t->terms;
  const double **log = f->s->in, **exps = f->s->in + count;
  for (size_t k = 0; k < count; k++) {
    size_t at = t->index[k] ? (size_t)t->index[k][f->row + e] : 0;
    log[k] = f->shared + (t->base[k] + at) * f->ld;
    exps[k] = f->shared + (t->exps[k] + at) * f->ld;
    if (adjoint) f->s->adj[k] = f->boundary + (t->base_adj[k] + at) * f->ld;
  }
  return (MixtureRows){t->width, t->terms, log, exps, f->s->adj};
}

static void mixture_forward(const Frame *f, const Instr *i) {
  for (size_t e = 0; e < f->rows; e++) {
    MixtureRows m = mixture_of(f, i->mixture, e, false);
    f->w->k->mixture(result_row(f, i, e), &m, f->n);
  }
}

static void mixture_backward(const Frame *f, const Instr *i) {
  for (size_t e = 0; e < f->rows; e++) {
    MixtureRows m = mixture_of(f, i->mixture, e, true);
    f->w->k->mixture_adjoint(result_adjoint(f, i, e), result_row(f, i, e), &m, f->n);
  }
}

static void cumsum_forward(const Frame *f, const Instr *i, size_t n) {
  for (size_t e = 0; e < n; e++) {
    double *out = result_row(f, i, e);
    copy_forward(f, out, &i->in[0], e, 0);
    if (e % (size_t)i->width) f->w->k->add(out, out - f->ld, f->n);
  }
}

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

static void matmul_forward(const Frame *f, const Instr *i) {
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

static void spectra_forward(const Frame *f, const Instr *i) {
  for (size_t k = 0; k < eigen_count(i); k++) {
    EigenRows r = eigen_rows(f, i, k);
    eigen_forward(&r, f->s->eigen);
  }
}

static size_t draws_of(const Frame *f) {
  return f->w->M > f->lane ? min_size(f->n, f->w->M - f->lane) : 0;
}

static OdePiece ode_piece(const Frame *f) {
  return (OdePiece){f->lane, f->n, draws_of(f), f->ld, (int)(f->s - f->w->scratch)};
}

static void solve_forward(const Frame *f, const Instr *i) {
  OdePiece piece = ode_piece(f);
  ode_forward(f->w->odes[i->columns], &piece, f->shared + i->in[0].base * f->ld,
              result_row(f, i, 0));
}

static IrPiece run_piece(const Frame *f) {
  return (IrPiece){f->lane, f->n, draws_of(f), f->ld, (int)(f->s - f->w->scratch)};
}

static void run_forward(const Frame *f, const Instr *i) {
  IrPiece piece = run_piece(f);
  i->run->forward(f->w->runs[i->columns], &piece, f->shared + i->in[0].base * f->ld,
                  result_row(f, i, 0));
}

static void run_backward(const Frame *f, const Instr *i) {
  IrPiece piece = run_piece(f);
  size_t at = i->in[0].base * f->ld;
  i->run->backward(f->w->runs[i->columns], &piece, f->shared + at, result_adjoint(f, i, 0),
                   f->out_adj + at);
}

void exec_forward(const Frame *f, const Instr *code, int count) {
  for (int c = 0; c < count; c++) {
    const Instr *i = &code[c];
    size_t n = (size_t)i->n * f->rows, first = (size_t)i->n * f->row;
    switch (i->op) {
    case IR_CONST:
    case IR_GATHER:
      for (size_t e = 0; e < n; e++) copy_forward(f, result_row(f, i, e), &i->in[0], e, 0);
      break;
    case IR_PACK: /* element e of an observation comes from operand e */
      for (size_t e = 0; e < n; e++)
        copy_forward(f, result_row(f, i, e), &i->picks[e % (size_t)i->n], e / (size_t)i->n, f->row);
      break;
    case IR_SUM: sum_forward(f, i, n, first); break;
    case IR_LSE: lse_forward(f, i, n, first); break;
    case IR_CUMSUM: cumsum_forward(f, i, n); break;
    case IR_EIGEN: spectra_forward(f, i); break;
    case IR_MATVEC: matvec_forward(f, i, n, first); break;
    case IR_MATMUL: matmul_forward(f, i); break;
    case IR_AFFINE: affine_forward(f, i); break;
    case IR_MIXTURE: mixture_forward(f, i); break;
    case IR_NOISE: noise_forward(f, i, n, first); break;
    case IR_OUTER: outer_forward(f, i, n, first); break;
    case IR_ODE: solve_forward(f, i); break;
    case IR_RUN: run_forward(f, i); break;
    default:
      if (i->density) {
        density_forward(f, i, n, first);
      } else if (i->saves && f->w->want_adjoint) {
        saving_forward(f, i, n, first);
      } else {
        map_forward(f, i, n, first);
      }
    }
  }
}

/* ---- backward -------------------------------------------------------------------------------- */

static void map_backward(const Frame *f, const Instr *i, size_t n, size_t first) {
  MapBackward *kernel = f->w->k->backward[i->op];
  const double *in[IR_MAX_ARGS];
  double *adj[IR_MAX_ARGS];
  size_t step[IR_MAX_ARGS];
  Walk w[IR_MAX_ARGS];
  if (n == 1) {
    for (int k = 0; k < i->nargs; k++) {
      in[k] = row_of(f, &i->in[k], 0, first, f->s->splat + k * LANES, &step[k]);
      adj[k] = adjoint_of(f, &i->in[k], 0, first);
    }
    kernel(result_adjoint(f, i, 0), result_row(f, i, 0), in, step, adj, f->n);
    return;
  }
  for (size_t e = 0; e < n; e++) {
    size_t at = e % WALK;
    for (int k = 0; k < i->nargs; k++) {
      if (at == 0) {
        w[k] = walk(f, &i->in[k], e, min_size(WALK, n - e), first,
                    f->s->spread + (size_t)k * WALK * LANES);
        step[k] = w[k].step;
      }
      in[k] =
          w[k].each ? row_of(f, &i->in[k], e, first, NULL, &step[k]) : w[k].row + at * w[k].stride;
      adj[k] = w[k].each  ? adjoint_of(f, &i->in[k], e, first)
               : w[k].adj ? w[k].adj + at * w[k].adj_stride
                          : NULL;
    }
    kernel(result_adjoint(f, i, e), result_row(f, i, e), in, step, adj, f->n);
  }
}

static void sum_backward(const Frame *f, const Instr *i, size_t n, size_t first) {
  if (i->summand) {
    summand_backward(f, i);
    return;
  }
  size_t width = (size_t)i->width;
  for (size_t e = 0; e < n; e++)
    for (size_t w = 0; w < width; w++) {
      double *adj = adjoint_of(f, &i->in[0], e * width + w, first * width);
      if (adj) f->w->k->add(adj, result_adjoint(f, i, e), f->n);
    }
}

static void lse_backward(const Frame *f, const Instr *i, size_t n, size_t first) {
  if (i->summand) {
    pairs_backward(f, i);
    return;
  }
  size_t width = (size_t)i->width;
  for (size_t e = 0; e < n; e++) {
    reduce_rows(f, i, e, first);
    for (size_t w = 0; w < width; w++)
      f->s->adj[w] = adjoint_of(f, &i->in[0], e * width + w, first * width);
    RowList terms = {f->s->in, f->s->step, width};
    f->w->k->log_sum_exp_adjoint(result_adjoint(f, i, e), result_row(f, i, e), &terms, f->s->adj,
                                 f->n);
  }
}

static void copy_backward(const Frame *f, const double *g, const Operand *o, size_t e,
                          size_t first) {
  double *adj = adjoint_of(f, o, e, first);
  if (adj) f->w->k->add(adj, g, f->n);
}

static void matvec_backward(const Frame *f, const Instr *i, size_t n, size_t first) {
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

static void cumsum_backward(const Frame *f, const Instr *i, size_t n) {
  for (size_t e = n; e-- > 0;) {
    double *g = result_adjoint(f, i, e);
    copy_backward(f, g, &i->in[0], e, 0);
    if (e % (size_t)i->width) f->w->k->add(g - f->ld, g, f->n);
  }
}

static void spectra_backward(const Frame *f, const Instr *i) {
  size_t K = (size_t)i->width;
  for (size_t k = 0; k < eigen_count(i); k++) {
    EigenRows r = eigen_rows(f, i, k);
    r.out_adj = result_adjoint(f, i, k * K * (K + 1));
    r.in_adj = f->out_adj + (i->in[0].base + k * K * K) * f->ld;
    eigen_backward(&r, f->s->eigen);
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

static void matmul_backward(const Frame *f, const Instr *i) {
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

static void solve_backward(const Frame *f, const Instr *i) {
  OdePiece piece = ode_piece(f);
  ode_backward(f->w->odes[i->columns], &piece, result_adjoint(f, i, 0),
               f->out_adj + i->in[0].base * f->ld);
}

void exec_backward(const Frame *f, const Instr *code, int count) {
  for (int c = count; c-- > 0;) {
    const Instr *i = &code[c];
    size_t n = (size_t)i->n * f->rows, first = (size_t)i->n * f->row;
    if (i->aside) continue;
    switch (i->op) {
    case IR_CONST:
    case IR_NOISE: break;
    case IR_OUTER:
      if (f->tile) exec_outer_backward(f->w, i, result_adjoint(f, i, 0), n, first);
      break; /* shared ones: when all lanes are there */
    case IR_GATHER:
      for (size_t e = 0; e < n; e++) copy_backward(f, result_adjoint(f, i, e), &i->in[0], e, 0);
      break;
    case IR_PACK:
      for (size_t e = 0; e < n; e++)
        copy_backward(f, result_adjoint(f, i, e), &i->picks[e % (size_t)i->n], e / (size_t)i->n,
                      f->row);
      break;
    case IR_SUM: sum_backward(f, i, n, first); break;
    case IR_LSE: lse_backward(f, i, n, first); break;
    case IR_CUMSUM: cumsum_backward(f, i, n); break;
    case IR_EIGEN: spectra_backward(f, i); break;
    case IR_MATVEC: matvec_backward(f, i, n, first); break;
    case IR_MATMUL: matmul_backward(f, i); break;
    case IR_AFFINE: affine_backward(f, i); break;
    case IR_MIXTURE: mixture_backward(f, i); break;
    case IR_ODE: solve_backward(f, i); break;
    case IR_RUN: run_backward(f, i); break;
    default:
      (i->density ? density_backward : i->saves ? saving_backward : map_backward)(f, i, n, first);
    }
  }
}
/* ---- constant folding ------------------------------------------------------------------------ */

void vm_fold(unsigned op, const double *const *args, const size_t *sizes, double *out, size_t n) {
  enum { BLOCK = 64 };
  const Kernels *k = kernels_best();
  int arity = ir_op_arity(op);
  double in[IR_MAX_ARGS][BLOCK], result[BLOCK];
  const double *rows[IR_MAX_ARGS] = {in[0], in[1], in[2], in[3]};
  static const size_t step[IR_MAX_ARGS] = {1, 1, 1, 1};
  for (size_t e = 0; e < n; e += BLOCK) {
    size_t m = min_size(BLOCK, n - e), padded = (m + LANES - 1) / LANES * LANES;
    for (int a = 0; a < arity; a++)
      for (size_t j = 0; j < padded; j++)
        in[a][j] = sizes[a] == 1 ? args[a][0] : args[a][e + (j < m ? j : m - 1)];
    k->forward[op](result, rows, step, padded);
    memcpy(out + e, result, m * sizeof *out);
  }
}
