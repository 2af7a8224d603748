/* exec.c: running the instructions of a Tape, forward and backward, over rows of draws.
 *
 * Every instruction is a loop over its elements; `row_of` finds the row of draws behind an operand,
 * a kernel does the arithmetic. The same two functions (exec_forward, exec_backward) serve the
 * global part and the tiles; a Frame says where things lie. What is run when, and by whom, is
 * work.c's.
 */
#include "vm/exec_int.h"

#include "num/rng.h"

#include <math.h>
#include <string.h>

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
  x.value = result_row(f, i, 0);
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

/* Numbers keyed by node, element and draw: the same in every plan. Those of tiles are kept, memory
 * permitting: while the seed stays they are the same in every evaluation. */
static void noise_forward(const Frame *f, const Instr *i, size_t n, size_t first) {
  const Work *w = f->w;
  Rng key = rng_make(w->noise_seed, (uint64_t)i->columns);
  for (size_t e = 0; e < n; e++) {
    uint64_t element = i->in[0].index ? (uint64_t)i->in[0].index[first + e] : e;
    size_t at = i->kept + first + e;
    bool keep = f->tile && w->kept;
    double *to = keep ? w->kept + at * w->ld : result_row(f, i, e);
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
                                .ldb = f->w->ld,
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
  size_t step = outer_together(i, n), ld = w->ld;
  for (size_t e = 0; e < n; e += step) {
    double *adj = o->adj + leaf_element(i, e, first) * o->terms;
    OuterRows outer = {g + e * ld, o->basis, ld, ld, o->terms, step, w->M};
    w->k->outer_adjoint(adj, &outer);
    for (size_t k = 0; k < step * o->terms; k++)
      if (!isfinite(adj[k]))
        adj[k] = finite_dot(g + (e + k / o->terms) * ld, o->basis + k % o->terms * ld, w->M);
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
    if (i->recurrence) {
      f->w->k->recurrence(i->recurrence, f->out, f->ld, f->n);
      c += i->together - 1;
      continue;
    }
    switch (i->op) {
    case IR_CONST:
    case IR_GATHER:
      for (size_t e = 0; e < n; e++) copy_forward(f, result_row(f, i, e), &i->in[0], e, 0);
      break;
    case IR_PACK: /* element e of an observation comes from operand e */
      for (size_t e = 0; e < n; e++)
        copy_forward(f, result_row(f, i, e), &i->picks[e % (size_t)i->n], e / (size_t)i->n, f->row);
      break;
    case IR_SUM: exec_sum_forward(f, i, n, first); break;
    case IR_LSE: exec_lse_forward(f, i, n, first); break;
    case IR_CUMSUM: exec_cumsum_forward(f, i, n); break;
    case IR_EIGEN: exec_spectra_forward(f, i); break;
    case IR_MATVEC: exec_matvec_forward(f, i, n, first); break;
    case IR_MATMUL: exec_matmul_forward(f, i); break;
    case IR_AFFINE: exec_affine_forward(f, i); break;
    case IR_MIXTURE: exec_mixture_forward(f, i); break;
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
    if (i->recurrence) {
      f->w->k->recurrence_adjoint(i->recurrence, f->out, f->out_adj, f->ld, f->n);
      c -= i->together - 1;
      continue;
    }
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
    case IR_SUM: exec_sum_backward(f, i, n, first); break;
    case IR_LSE: exec_lse_backward(f, i, n, first); break;
    case IR_CUMSUM: exec_cumsum_backward(f, i, n); break;
    case IR_EIGEN: exec_spectra_backward(f, i); break;
    case IR_MATVEC: exec_matvec_backward(f, i, n, first); break;
    case IR_MATMUL: exec_matmul_backward(f, i); break;
    case IR_AFFINE: exec_affine_backward(f, i); break;
    case IR_MIXTURE: exec_mixture_backward(f, i); break;
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

double vm_fold_number(unsigned op, const double *args) {
  double in[IR_MAX_ARGS][LANES], result[LANES];
  const double *rows[IR_MAX_ARGS] = {in[0], in[1], in[2], in[3]};
  static const size_t step[IR_MAX_ARGS] = {1, 1, 1, 1};
  for (int a = 0; a < ir_op_arity(op); a++)
    for (size_t j = 0; j < LANES; j++) in[a][j] = args[a];
  kernels_best()->forward[op](result, rows, step, LANES);
  return result[0];
}
