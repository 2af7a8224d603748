/* exec.c: running a Tape: forward and backward over rows of draws, globally in blocks of draws and tile by tile.
 *
 * Every instruction is a loop over its elements; `rows_at` finds the row of draws behind an operand, a kernel does the
 * arithmetic. The same two functions (run_forward, run_backward) serve the global part and the tiles; a Frame says where things
 * lie.
 */
#include "vm/vm_int.h"

#include "num/rng.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#ifdef PVI_TORTURE
enum { TILE_BYTES = 1, TILE_LEAST = 4, TILE_MAX = 4, LANE_BLOCK = 8 };
#else
enum { TILE_BYTES = 64 * 1024, TILE_LEAST = 4, TILE_MAX = ROWS_MOST, LANE_BLOCK = 64 };
#endif
enum { CHUNKS_MIN = 2, CHUNKS_MAX = 32, KEPT_BYTES = 64 << 20 };

typedef struct {
  double *tile, *tile_adj; /* [width x T x lanes] */
  const double **in;       /* pointers of one SUM or LSE */
  double **adj;
  size_t *step;
  double *splat;       /* LANES copies of each data operand */
  double *spread;      /* the same for a run of elements */
  const double **rows; /* of one density: the rows of its location */
  double **row_adj;
  const double **coef; /* of one affine instruction */
  const int32_t **index;
} Scratch;

struct Work {
  const Tape *tape;
  const Kernels *k;
  Pool *pool;
  size_t M, lanes;
  uint64_t noise_seed;
  VmOuter outer[VM_LEAVES];
  double *kept;             /* noise of tiles [tape->noise x lanes]; NULL: too much of it */
  uint64_t *kept_seed;      /* of each row of it: seed + 1; 0: nothing yet */
  size_t T;                 /* observations per tile, at most */
  double *global, *adjoint; /* [elements x lanes] */
  double *chunk_adj;        /* [chunks x boundary x lanes] */
  bool *touched;            /* [chunks x boundary]: rows of it that the chunk's tiles add to; the others are never read */
  size_t chunks;
  Scratch *scratch;   /* per worker */
  int32_t *from, *to; /* per block: rows in use */
  size_t *tile_first; /* per block: number of its first tile; [nblocks]: all */
  VmTile *call;
  void *self;
  bool want_adjoint, tiles_ran, overwrites;
  double *adj_theta;
  const double *linear; /* weights of vm_set_linear */
  VmTimes *times;       /* per worker; NULL: nobody asks */
};

/* Where an instruction's rows lie: n draws from `lane` on; for tiles, from observation `row` on. */
typedef struct {
  const Work *w;
  Scratch *s;
  size_t lane, n;
  size_t T, row, rows;   /* tile; rows = 1 and T = 1 for the global part */
  double *out, *out_adj; /* values and adjoints of the instruction's own place */
  double *boundary;      /* tile: adjoints of shared values */
  bool tile;
} Frame;

static size_t max_size(size_t a, size_t b) { return a > b ? a : b; }
static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

/* ---- finding rows ------------------------------------------------------------------------------------------------- */

/* Element of the operand that belongs to element e of the instruction (counted from the tile's first observation). */
static inline size_t element_of(const Operand *o, size_t e, size_t first) {
  switch (o->access) {
  case AT_SAME: return o->place == IN_TILE ? e : first + e;
  case AT_ONE: return 0;
  case AT_INDEX: return (size_t)o->index[first + e];
  default: return e / (size_t)o->width * (size_t)o->source_width + (size_t)o->index[e % (size_t)o->width];
  }
}

/* The row of draws (or LANES copies of a number) behind operand o at element e. */
static inline const double *row_of(const Frame *f, const Operand *o, size_t e, size_t first, double *splat, size_t *step) {
  size_t at = element_of(o, e, first);
  *step = 1;
  if (o->place == IN_GLOBAL) return f->w->global + (o->base + at) * f->w->lanes + f->lane;
  if (o->place == IN_TILE) return f->out + (o->base * f->T + at) * f->w->lanes;
  for (int k = 0; k < LANES; k++) splat[k] = o->data[at];
  *step = 0;
  return splat;
}

static inline double *adjoint_of(const Frame *f, const Operand *o, size_t e, size_t first) {
  if (o->place == IN_DATA) return NULL;
  size_t at = element_of(o, e, first);
  if (o->place == IN_TILE) return f->out_adj + (o->base * f->T + at) * f->w->lanes;
  if (f->tile) return f->boundary + (o->adjoint + at) * f->w->lanes;
  return f->out_adj + (o->base + at) * f->w->lanes + f->lane;
}

static inline double *result_row(const Frame *f, const Instr *i, size_t e) {
  return f->out + (i->out * f->T + e) * f->w->lanes + f->lane;
}
static inline double *result_adjoint(const Frame *f, const Instr *i, size_t e) {
  return f->out_adj + (i->out * f->T + e) * f->w->lanes + f->lane;
}

/* ---- forward ------------------------------------------------------------------------------------------------------ */

enum { WALK = 64 }; /* elements whose operands are found together */

/* Where an operand's rows lie for a run of elements: `stride` apart from the first; or each for itself. Data are spread to
 * LANES copies for the whole run before the first is read: a vector load right behind narrower stores would wait for them. */
typedef struct {
  const double *row;
  double *adj;
  size_t step, stride, adj_stride;
  bool each;
} Walk;

static Walk walk(const Frame *f, const Operand *o, size_t e, size_t count, size_t first, double *spread) {
  Walk w = {.stride = o->access == AT_ONE ? 0 : f->w->lanes, .step = 1, .adj_stride = o->access == AT_ONE ? 0 : f->w->lanes};
  if (o->place == IN_DATA) {
    w = (Walk){.row = spread, .stride = o->access == AT_ONE ? 0 : LANES};
    for (size_t k = 0; k < (o->access == AT_ONE ? 1 : count); k++) {
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
  for (size_t e = 0; e < n; e++) {
    for (int k = 0; k < i->nargs; k++) {
      if (e % WALK == 0) {
        w[k] = walk(f, &i->in[k], e, min_size(WALK, n - e), first, f->s->spread + (size_t)k * WALK * LANES);
        step[k] = w[k].step;
      }
      in[k] = w[k].each ? row_of(f, &i->in[k], e, first, NULL, &step[k]) : w[k].row + e % WALK * w[k].stride;
    }
    kernel(result_row(f, i, e), in, step, f->n);
  }
}

/* A density of all rows of the tile: where its operands lie, and their adjoints on the way back. */
static DensityRows density_rows(const Frame *f, const Instr *i, size_t n, size_t first, bool adjoint) {
  Scratch *s = f->s;
  DensityRows x = {.y = i->in[0].data + element_of(&i->in[0], 0, first), .y_step = i->in[0].access != AT_ONE, .b = s->rows};
  size_t step;
  for (size_t e = 0; e < n; e++) s->rows[e] = row_of(f, &i->in[1], e, first, NULL, &step);
  for (int k = 0; k < 2; k++) x.shared[k] = row_of(f, &i->in[2 + k], 0, first, s->splat + k * LANES, &x.step[k]);
  if (!adjoint) return x;
  x.fresh = i->fresh;
  x.b_adj = s->row_adj;
  for (size_t e = 0; e < n; e++) s->row_adj[e] = adjoint_of(f, &i->in[1], e, first);
  for (int k = 0; k < 2; k++) x.shared_adj[k] = adjoint_of(f, &i->in[2 + k], 0, first);
  return x;
}

static void density_forward(const Frame *f, const Instr *i, size_t n, size_t first) {
  DensityRows x = density_rows(f, i, n, first, false);
  f->w->k->density[i->op](result_row(f, i, 0), f->w->lanes, &x, n, f->n);
}

static void density_backward(const Frame *f, const Instr *i, size_t n, size_t first) {
  DensityRows x = density_rows(f, i, n, first, true);
  f->w->k->density_adjoint[i->op](result_adjoint(f, i, 0), f->w->lanes, &x, n, f->n);
}

/* The last instruction of a block, forward and backward at once. */
static void run_total(const Frame *f, const Instr *i, double *totals) {
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
    for (int a = 0; a < i->nargs; a++) in[a] = row_of(f, &i->in[a], e, f->row, f->s->splat + a * LANES, &step[a]);
    totals[e] = k->saving_total[i->op](f->w->linear, f->w->M, in, step, adjoint_of(f, o, e, f->row), i->fresh, f->n);
  }
}

static inline double *slope_row(const Frame *f, const Instr *i, size_t e) {
  return f->out + (i->slope * f->T + e) * f->w->lanes;
}

static void saving_forward(const Frame *f, const Instr *i, size_t n, size_t first) {
  const double *in[IR_MAX_ARGS];
  size_t step[IR_MAX_ARGS];
  for (size_t e = 0; e < n; e++) {
    for (int k = 0; k < i->nargs; k++) in[k] = row_of(f, &i->in[k], e, first, f->s->splat + k * LANES, &step[k]);
    f->w->k->saving[i->op](result_row(f, i, e), slope_row(f, i, e), in, step, f->n);
  }
}

static void saving_backward(const Frame *f, const Instr *i, size_t n, size_t first) {
  const Operand *o = &i->in[f->w->k->saving_operand[i->op] - 1];
  for (size_t e = 0; e < n; e++)
    f->w->k->chain(adjoint_of(f, o, e, first), result_adjoint(f, i, e), slope_row(f, i, e), f->n, i->fresh);
}

/* The pointers behind the `width` operands of result e of a SUM or LSE. */
static void reduce_rows(const Frame *f, const Instr *i, size_t e, size_t first) {
  size_t width = (size_t)i->width;
  for (size_t w = 0; w < width; w++)
    f->s->in[w] = row_of(f, &i->in[0], e * width + w, first * width, f->s->splat + w * LANES, &f->s->step[w]);
}

/* Element e of an elementwise op, into out. */
static void map_element(const Frame *f, const Instr *i, size_t e, const double **in, size_t *step, double *out) {
  for (int k = 0; k < i->nargs; k++) in[k] = row_of(f, &i->in[k], e, 0, f->s->splat + k * LANES, &step[k]);
  f->w->k->forward[i->op](out, in, step, f->n);
}

static void summand_forward(const Frame *f, const Instr *i) {
  const double *in[IR_MAX_ARGS];
  size_t step[IR_MAX_ARGS];
  double *out = result_row(f, i, 0), value[LANE_BLOCK];
  for (int32_t e = 0; e < i->summand->n; e++) {
    map_element(f, i->summand, (size_t)e, in, step, e ? value : out);
    if (e) f->w->k->add(out, value, f->n);
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
    f->w->k->backward[s->op](result_adjoint(f, i, 0), value, in, step, adj, f->n);
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
    for (size_t j = 0; j < f->n; j++) out[j] = f->s->in[0][f->s->step[0] * j % (f->s->step[0] ? f->n : LANES)];
    for (int32_t w = 1; w < i->width; w++) {
      if (f->s->step[w]) {
        f->w->k->add(out, f->s->in[w], f->n);
      } else {
        for (size_t j = 0; j < f->n; j++) out[j] += f->s->in[w][0];
      }
    }
  }
}

static void lse_forward(const Frame *f, const Instr *i, size_t n, size_t first) {
  for (size_t e = 0; e < n; e++) {
    reduce_rows(f, i, e, first);
    f->w->k->log_sum_exp(result_row(f, i, e), f->s->in, f->s->step, (size_t)i->width, f->n);
  }
}

static void copy_forward(const Frame *f, double *out, const Operand *o, size_t e, size_t first) {
  size_t step;
  const double *a = row_of(f, o, e, first, f->s->splat, &step);
  for (size_t j = 0; j < f->n; j++) out[j] = a[step * j];
}

static void matvec_forward(const Frame *f, const Instr *i, size_t n, size_t first) {
  const Work *w = f->w;
  size_t inner = (size_t)i->width;
  w->k->gemm(result_row(f, i, 0), w->lanes, i->in[0].data + first * inner, inner, 1,
             w->global + i->in[1].base * w->lanes + f->lane, w->lanes, n, inner, f->n, false);
}

/* Numbers keyed by node, element and draw: the same in every plan. Those of tiles are kept, memory permitting: while the seed
 * stays they are the same in every evaluation. */
static void noise_forward(const Frame *f, const Instr *i, size_t n, size_t first) {
  const Work *w = f->w;
  Rng key = rng_make(w->noise_seed, (uint64_t)i->columns);
  for (size_t e = 0; e < n; e++) {
    uint64_t element = i->in[0].index ? (uint64_t)i->in[0].index[first + e] : e;
    size_t at = i->kept + first + e;
    bool keep = f->tile && w->kept;
    double *to = keep ? w->kept + at * w->lanes : result_row(f, i, e);
    if (!keep || w->kept_seed[at] != w->noise_seed + 1) {
      (i->width == NOISE_NORMAL ? rng_fill_normal : rng_fill_uniform)(key, f->lane, element, to, f->n);
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
    f->w->k->gemm(result_row(f, i, e), f->w->lanes, coef, o->terms, 1, o->basis + f->lane, f->w->lanes, step, o->terms, f->n,
                  false);
  }
}

/* Lanes whose density is zero or underflows have no finite derivatives, and no weight either. */
static double finite_dot(const double *a, const double *b, size_t n) {
  double s = 0;
  for (size_t j = 0; j < n; j++)
    if (isfinite(a[j])) s += a[j] * b[j];
  return s;
}

/* d / d coef[e, b] = sum over lanes of adjoint times basis[b]; rows of all lanes. */
static void outer_backward(const Frame *f, const Instr *i, size_t n, size_t first) {
  const VmOuter *o = &f->w->outer[i->width];
  size_t step = outer_together(i, n), lanes = f->w->lanes;
  for (size_t e = 0; e < n; e += step) {
    double *adj = o->adj + leaf_element(i, e, first) * o->terms;
    f->w->k->outer_adjoint(adj, result_adjoint(f, i, e), lanes, o->basis, lanes, o->terms, step, f->w->M);
    for (size_t k = 0; k < step * o->terms; k++)
      if (!isfinite(adj[k]))
        adj[k] = finite_dot(result_adjoint(f, i, e + k / o->terms), o->basis + k % o->terms * lanes, f->w->M);
  }
}

/* Pointers of an affine instruction for the rows of this tile. */
static AffineRows affine_rows(const Frame *f, const TapeAffine *t, bool adjoint) {
  const Work *w = f->w;
  Scratch *s = f->s;
  size_t D = t->ndense;
  AffineRows a = {.ndense = D,
                  .nsparse = t->nsparse,
                  .A = t->A + f->row * D,
                  .ld = w->lanes,
                  .dense = s->in,
                  .base = s->in + D,
                  .dense_adj = s->adj,
                  .base_adj = s->adj + D,
                  .coef = s->coef,
                  .index = s->index};
  if (t->constant) a.constant = t->constant + f->row;
  for (size_t k = 0; k < D; k++) {
    s->in[k] = w->global + t->dense[k] * w->lanes;
    if (adjoint) s->adj[k] = f->boundary + t->dense_adj[k] * w->lanes;
  }
  for (size_t k = 0; k < t->nsparse; k++) {
    s->in[D + k] = w->global + t->base[k] * w->lanes;
    if (adjoint) s->adj[D + k] = f->boundary + t->base_adj[k] * w->lanes;
    s->coef[k] = t->coef[k] ? t->coef[k] + f->row : NULL;
    s->index[k] = t->index[k] + f->row;
  }
  return a;
}

static void affine_forward(const Frame *f, const Instr *i) {
  AffineRows a = affine_rows(f, i->affine, false);
  f->w->k->affine(result_row(f, i, 0), f->w->lanes, &a, f->rows, f->n);
}

static void affine_backward(const Frame *f, const Instr *i) {
  AffineRows a = affine_rows(f, i->affine, true);
  f->w->k->affine_adjoint(result_adjoint(f, i, 0), f->w->lanes, &a, f->rows, f->n);
}

static void cumsum_forward(const Frame *f, const Instr *i, size_t n) {
  for (size_t e = 0; e < n; e++) {
    double *out = result_row(f, i, e);
    copy_forward(f, out, &i->in[0], e, 0);
    if (e % (size_t)i->width) f->w->k->add(out, out - f->w->lanes, f->n);
  }
}

static void matmul_forward(const Frame *f, const Instr *i) {
  const Work *w = f->w;
  size_t inner = (size_t)i->width, cols = (size_t)i->columns, rows = (size_t)i->n / cols;
  const double *a = w->global + i->in[0].base * w->lanes + f->lane, *b = w->global + i->in[1].base * w->lanes + f->lane;
  for (size_t r = 0; r < rows; r++)
    for (size_t c = 0; c < cols; c++) {
      double *out = result_row(f, i, r * cols + c);
      memset(out, 0, f->n * sizeof *out);
      for (size_t k = 0; k < inner; k++)
        w->k->multiply_add(out, a + (r * inner + k) * w->lanes, b + (k * cols + c) * w->lanes, f->n);
    }
}

static void run_forward(const Frame *f, const Instr *code, int count) {
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
    case IR_MATVEC: matvec_forward(f, i, n, first); break;
    case IR_MATMUL: matmul_forward(f, i); break;
    case IR_AFFINE: affine_forward(f, i); break;
    case IR_NOISE: noise_forward(f, i, n, first); break;
    case IR_OUTER: outer_forward(f, i, n, first); break;
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

/* ---- backward ----------------------------------------------------------------------------------------------------- */

static void map_backward(const Frame *f, const Instr *i, size_t n, size_t first) {
  MapBackward *kernel = f->w->k->backward[i->op];
  const double *in[IR_MAX_ARGS];
  double *adj[IR_MAX_ARGS];
  size_t step[IR_MAX_ARGS];
  Walk w[IR_MAX_ARGS];
  for (size_t e = 0; e < n; e++) {
    size_t at = e % WALK;
    for (int k = 0; k < i->nargs; k++) {
      if (at == 0) {
        w[k] = walk(f, &i->in[k], e, min_size(WALK, n - e), first, f->s->spread + (size_t)k * WALK * LANES);
        step[k] = w[k].step;
      }
      in[k] = w[k].each ? row_of(f, &i->in[k], e, first, NULL, &step[k]) : w[k].row + at * w[k].stride;
      adj[k] = w[k].each ? adjoint_of(f, &i->in[k], e, first) : w[k].adj ? w[k].adj + at * w[k].adj_stride : NULL;
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
  size_t width = (size_t)i->width;
  for (size_t e = 0; e < n; e++) {
    reduce_rows(f, i, e, first);
    for (size_t w = 0; w < width; w++) f->s->adj[w] = adjoint_of(f, &i->in[0], e * width + w, first * width);
    f->w->k->log_sum_exp_adjoint(result_adjoint(f, i, e), result_row(f, i, e), f->s->in, f->s->step, f->s->adj, width, f->n);
  }
}

static void copy_backward(const Frame *f, const double *g, const Operand *o, size_t e, size_t first) {
  double *adj = adjoint_of(f, o, e, first);
  if (adj) f->w->k->add(adj, g, f->n);
}

static void matvec_backward(const Frame *f, const Instr *i, size_t n, size_t first) {
  const Work *w = f->w;
  size_t inner = (size_t)i->width;
  double *adj = f->tile ? f->boundary + i->in[1].adjoint * w->lanes : f->out_adj + i->in[1].base * w->lanes + f->lane;
  w->k->gemm(adj, w->lanes, i->in[0].data + first * inner, 1, inner, result_adjoint(f, i, 0), w->lanes, inner, n, f->n, true);
}

static void cumsum_backward(const Frame *f, const Instr *i, size_t n) {
  for (size_t e = n; e-- > 0;) {
    double *g = result_adjoint(f, i, e);
    copy_backward(f, g, &i->in[0], e, 0);
    if (e % (size_t)i->width) f->w->k->add(g - f->w->lanes, g, f->n);
  }
}

static void matmul_backward(const Frame *f, const Instr *i) {
  const Work *w = f->w;
  size_t inner = (size_t)i->width, cols = (size_t)i->columns, rows = (size_t)i->n / cols;
  size_t ao = i->in[0].base * w->lanes + f->lane, bo = i->in[1].base * w->lanes + f->lane;
  for (size_t r = 0; r < rows; r++)
    for (size_t c = 0; c < cols; c++) {
      const double *g = result_adjoint(f, i, r * cols + c);
      for (size_t k = 0; k < inner; k++) {
        size_t x = ao + (r * inner + k) * w->lanes, y = bo + (k * cols + c) * w->lanes;
        w->k->multiply_add(f->out_adj + x, w->global + y, g, f->n);
        w->k->multiply_add(f->out_adj + y, w->global + x, g, f->n);
      }
    }
}

static void run_backward(const Frame *f, const Instr *code, int count) {
  for (int c = count; c-- > 0;) {
    const Instr *i = &code[c];
    size_t n = (size_t)i->n * f->rows, first = (size_t)i->n * f->row;
    switch (i->op) {
    case IR_CONST:
    case IR_NOISE: break;
    case IR_OUTER:
      if (f->tile) outer_backward(f, i, n, first);
      break; /* shared ones: when all lanes are there */
    case IR_GATHER:
      for (size_t e = 0; e < n; e++) copy_backward(f, result_adjoint(f, i, e), &i->in[0], e, 0);
      break;
    case IR_PACK:
      for (size_t e = 0; e < n; e++)
        copy_backward(f, result_adjoint(f, i, e), &i->picks[e % (size_t)i->n], e / (size_t)i->n, f->row);
      break;
    case IR_SUM: sum_backward(f, i, n, first); break;
    case IR_LSE: lse_backward(f, i, n, first); break;
    case IR_CUMSUM: cumsum_backward(f, i, n); break;
    case IR_MATVEC: matvec_backward(f, i, n, first); break;
    case IR_MATMUL: matmul_backward(f, i); break;
    case IR_AFFINE: affine_backward(f, i); break;
    default: (i->density ? density_backward : i->saves ? saving_backward : map_backward)(f, i, n, first);
    }
  }
}

/* ---- work --------------------------------------------------------------------------------------------------------- */

/* Observations per tile: as many as keep the widest block's values and adjoints near the first-level cache; with very many
 * draws a few all the same, so that shared values are read once for them. */
static size_t tile_height(const Tape *t, size_t lanes) {
  size_t row = 2 * max_size(vm_shape(t).tile_width, 1) * lanes * sizeof(double);
  size_t height = TILE_BYTES / row;
  if (height >= 8) height -= height % 8; /* as the kernels take rows */
  return height < TILE_LEAST ? TILE_LEAST : min_size(height, TILE_MAX);
}

/* Pieces into which the tiles are divided, each with its own copy of the boundary's adjoints: decided by the problem alone, a
 * power of two that leaves each copy four observations per element. */
static size_t chunk_count(const Tape *t) {
  size_t n = CHUNKS_MIN;
  while (n < CHUNKS_MAX && 2 * n * 4 * (t->boundary_elements + 1) <= t->rows) n *= 2;
  return n;
}

static void make_scratch(Arena *a, Scratch *s, const Work *w) {
  size_t tile = max_size(vm_shape(w->tape).tile_width, 1) * w->T * w->lanes;
  s->tile = NEW_ARRAY(a, double, tile);
  s->tile_adj = NEW_ARRAY(a, double, tile);
  s->in = NEW_ARRAY(a, const double *, w->tape->max_width);
  s->adj = NEW_ARRAY(a, double *, w->tape->max_width);
  s->step = NEW_ARRAY(a, size_t, w->tape->max_width);
  s->coef = NEW_ARRAY(a, const double *, w->tape->max_width);
  s->index = NEW_ARRAY(a, const int32_t *, w->tape->max_width);
  s->rows = NEW_ARRAY(a, const double *, w->T *max_size(vm_shape(w->tape).tile_width, 1));
  s->row_adj = NEW_ARRAY(a, double *, w->T *max_size(vm_shape(w->tape).tile_width, 1));
  s->spread = NEW_ARRAY(a, double, IR_MAX_ARGS *WALK *LANES);
  s->splat = NEW_ARRAY(a, double, max_size(w->tape->max_width, IR_MAX_ARGS) * LANES);
}

Work *vm_work(Arena *a, const Tape *t, size_t M, Pool *pool) {
  Work *w = NEW(a, Work);
  w->tape = t;
  w->k = kernels_best();
  w->pool = pool;
  w->M = M;
  w->lanes = (M + LANES - 1) / LANES * LANES;
  w->T = tile_height(t, w->lanes);
  w->chunks = chunk_count(t);
  w->global = NEW_ARRAY(a, double, t->elements * w->lanes);
  w->adjoint = NEW_ARRAY(a, double, t->elements * w->lanes);
  w->chunk_adj = NEW_ARRAY(a, double, w->chunks * t->boundary_elements * w->lanes);
  w->touched = NEW_ARRAY(a, bool, w->chunks * t->boundary_elements + 1);
  int workers = pool ? pool_threads(pool) : 1;
  w->scratch = NEW_ARRAY(a, Scratch, workers);
  for (int k = 0; k < workers; k++) make_scratch(a, &w->scratch[k], w);
  if (t->noise && t->noise * w->lanes * sizeof(double) <= KEPT_BYTES) {
    w->kept = NEW_ARRAY(a, double, t->noise * w->lanes);
    w->kept_seed = NEW_ARRAY(a, uint64_t, t->noise);
  }
  w->from = NEW_ARRAY(a, int32_t, t->nblocks + 1);
  w->to = NEW_ARRAY(a, int32_t, t->nblocks + 1);
  w->tile_first = NEW_ARRAY(a, size_t, t->nblocks + 1);
  vm_set_range(w, 0, 1);
  return w;
}

double *vm_theta(Work *w) { return w->global; }
double *vm_theta_adjoint(Work *w) { return w->adjoint; }
void vm_set_times(Work *w, VmTimes *times) { w->times = times; }
size_t vm_tile_rows(const Work *w) { return w->T; }
void vm_set_linear(Work *w, const double *weights) { w->linear = weights; }
void vm_overwrites(Work *w) { w->overwrites = true; }
void vm_set_noise(Work *w, uint64_t seed) { w->noise_seed = seed; }
void vm_set_outer(Work *w, int leaf, VmOuter o) { w->outer[leaf] = o; }
const Tape *vm_tape(const Work *w) { return w->tape; }
size_t vm_lanes(const Work *w) { return w->lanes; }
const Kernels *vm_kernels(const Work *w) { return w->k; }

void vm_set_draws(Work *w, size_t M) {
  assert(M <= w->lanes);
  w->M = M;
}

/* ---- which shared values a chunk's tiles read --------------------------------------------------------------------- */

/* Those behind an operand, `each` elements an observation, of rows [row, row + rows) of the block. */
static void touch_operand(const Operand *o, size_t each, size_t row, size_t rows, bool *touched) {
  if (o->place != IN_GLOBAL) return;
  if (o->access != AT_INDEX) {
    touched[o->adjoint] = true;
    return;
  }
  for (size_t e = row * each; e < (row + rows) * each; e++) touched[o->adjoint + (size_t)o->index[e]] = true;
}

static void touch_affine(const TapeAffine *t, size_t row, size_t rows, bool *touched) {
  for (size_t k = 0; k < t->ndense; k++) touched[t->dense_adj[k]] = true;
  for (size_t s = 0; s < t->nsparse; s++)
    for (size_t r = row; r < row + rows; r++) touched[t->base_adj[s] + (size_t)t->index[s][r]] = true;
}

static void touch_rows(const TapeBlock *b, size_t row, size_t rows, bool *touched) {
  for (int c = 0; c < b->count; c++) {
    const Instr *i = &b->code[c];
    size_t each = (size_t)i->n * (i->op == IR_SUM || i->op == IR_LSE ? (size_t)i->width : 1);
    if (i->op == IR_AFFINE) {
      touch_affine(i->affine, row, rows, touched);
    } else if (i->op == IR_MATVEC) {
      for (int32_t k = 0; k < i->width; k++) touched[i->in[1].adjoint + (size_t)k] = true;
    } else if (i->op == IR_PACK) {
      for (int32_t k = 0; k < i->n; k++) touch_operand(&i->picks[k], 1, row, rows, touched);
    } else if (i->op != IR_NOISE && i->op != IR_OUTER) {
      for (int k = 0; k < i->nargs; k++) touch_operand(&i->in[k], each, row, rows, touched);
    }
  }
}

/* Of mini-batches, which come one after the other: all. */
static void find_touched(Work *w, bool whole) {
  size_t n = w->tape->boundary_elements, tiles = w->tile_first[w->tape->nblocks];
  memset(w->touched, !whole, w->chunks * n);
  for (size_t c = 0; whole && n && c < w->chunks; c++)
    for (size_t tile = tiles * c / w->chunks; tile < tiles * (c + 1) / w->chunks; tile++) {
      int b = 0;
      while (tile >= w->tile_first[b + 1]) b++;
      size_t row = (size_t)w->from[b] + (tile - w->tile_first[b]) * w->T;
      touch_rows(&w->tape->blocks[b], row, min_size(w->T, (size_t)w->to[b] - row), w->touched + c * n);
    }
}

size_t vm_set_range(Work *w, double lo, double hi) {
  size_t tiles = 0, rows = 0;
  for (int b = 0; b < w->tape->nblocks; b++) {
    double n = w->tape->blocks[b].rows;
    w->from[b] = (int32_t)(lo * n + 0.5);
    w->to[b] = (int32_t)(hi * n + 0.5);
    size_t count = (size_t)(w->to[b] - w->from[b]);
    w->tile_first[b] = tiles;
    tiles += (count + w->T - 1) / w->T;
    rows += count;
  }
  w->tile_first[w->tape->nblocks] = tiles;
  find_touched(w, lo == 0 && hi == 1);
  return rows;
}

static void run_pieces(const Work *w, size_t count, void (*work)(void *, size_t, int), void *arg) {
  if (w->pool) {
    pool_run(w->pool, count, work, arg);
  } else {
    for (size_t k = 0; k < count; k++) work(arg, k, 0);
  }
}

/* ---- the three steps of an evaluation ----------------------------------------------------------------------------- */

/* Draws in pieces of at most LANE_BLOCK, as even as they can be. */
static size_t lane_pieces(const Work *w) { return (w->lanes + LANE_BLOCK - 1) / LANE_BLOCK; }
static size_t lane_block(const Work *w) { return (w->lanes / LANES + lane_pieces(w) - 1) / lane_pieces(w) * LANES; }

static Frame global_frame(const Work *w, size_t piece, int worker) {
  size_t lane = min_size(piece * lane_block(w), w->lanes);
  return (Frame){.w = w,
                 .s = &w->scratch[worker],
                 .lane = lane,
                 .n = min_size(lane_block(w), w->lanes - lane),
                 .T = 1,
                 .rows = 1,
                 .out = w->global,
                 .out_adj = w->adjoint};
}

static void forward_piece(void *arg, size_t piece, int worker) {
  const Work *w = arg;
  Frame f = global_frame(w, piece, worker);
  run_forward(&f, w->tape->code, w->tape->count);
}

void vm_forward(Work *w, const double *theta) {
  if (theta != w->global) memcpy(w->global, theta, w->tape->dim * w->lanes * sizeof *theta);
  run_pieces(w, lane_pieces(w), forward_piece, w);
  w->tiles_ran = false;
}

const double *vm_value(const Work *w, int root, int32_t element) {
  return w->global + (w->tape->roots[root] + (size_t)element) * w->lanes;
}

static double start_clock(const Work *w) { return w->times ? base_seconds() : 0; }

static void stop_clock(double *clock, double *sum) {
  double now = base_seconds();
  *sum += now - *clock;
  *clock = now;
}

static void clear_tile(const Work *w, Scratch *s, const TapeBlock *block, size_t rows) {
  size_t element = w->T * w->lanes;
  for (int k = 0; k < block->nclear; k++)
    memset(s->tile_adj + block->clear[k].first * element, 0, block->clear[k].count * element * sizeof(double));
  if (block->has[0] && !w->overwrites) memset(s->tile_adj + block->out[0] * element, 0, rows * w->lanes * sizeof(double));
}

/* One tile: forward, score, backward into the chunk's boundary. */
static void run_tile(Work *w, size_t tile, size_t chunk, double *boundary, int worker) {
  int b = 0;
  while (tile >= w->tile_first[b + 1]) b++;
  const TapeBlock *block = &w->tape->blocks[b];
  size_t row = (size_t)w->from[b] + (tile - w->tile_first[b]) * w->T;
  size_t rows = min_size(w->T, (size_t)w->to[b] - row);
  Scratch *s = &w->scratch[worker];
  Frame f = {.w = w,
             .s = s,
             .n = w->lanes,
             .T = w->T,
             .row = row,
             .rows = rows,
             .out = s->tile,
             .out_adj = s->tile_adj,
             .boundary = boundary,
             .tile = true};
  bool linear = w->linear && block->linear && w->want_adjoint;
  int count = block->count - linear;
  double totals[ROWS_MOST], clock = start_clock(w);
  run_forward(&f, block->code, count);
  if (w->want_adjoint) clear_tile(w, s, block, rows);
  if (linear) run_total(&f, &block->code[count], totals);
  if (w->times) stop_clock(&clock, &w->times[worker].forward);
  TileView view = {.block = b, .worker = worker, .chunk = chunk, .row = block->first + row, .rows = rows, .lanes = w->lanes};
  if (linear) view.totals = totals;
  for (int h = 0; h < VM_HEADS && !linear; h++) {
    if (!block->has[h]) continue;
    view.heads[h] = s->tile + block->out[h] * w->T * w->lanes;
    if (w->want_adjoint) view.adj[h] = s->tile_adj + block->out[h] * w->T * w->lanes;
  }
  w->call(w->self, &view);
  if (w->times) stop_clock(&clock, &w->times[worker].score);
  if (w->want_adjoint) run_backward(&f, block->code, count);
  if (w->times) stop_clock(&clock, &w->times[worker].backward);
}

static void chunk_piece(void *arg, size_t chunk, int worker) {
  Work *w = arg;
  size_t tiles = w->tile_first[w->tape->nblocks];
  size_t n = w->tape->boundary_elements;
  double *boundary = w->chunk_adj + chunk * n * w->lanes;
  for (size_t e = 0; w->want_adjoint && e < n; e++)
    if (w->touched[chunk * n + e]) memset(boundary + e * w->lanes, 0, w->lanes * sizeof *boundary);
  for (size_t t = tiles * chunk / w->chunks; t < tiles * (chunk + 1) / w->chunks; t++) run_tile(w, t, chunk, boundary, worker);
}

void vm_tiles(Work *w, VmTile *tile, void *self, bool adjoint) {
  w->call = tile;
  w->self = self;
  w->want_adjoint = adjoint;
  w->tiles_ran = adjoint;
  run_pieces(w, w->chunks, chunk_piece, w);
}

size_t vm_chunks(const Work *w) { return w->chunks; }
int vm_workers(const Work *w) { return w->pool ? pool_threads(w->pool) : 1; }

/* Adjoints of the boundary, all chunks added in order, for one block of draws; over what is there where that is nothing yet. */
static void gather_boundary(const Work *w, const Frame *f) {
  size_t size = w->tape->boundary_elements * w->lanes;
  for (size_t b = 0; b < w->tape->nboundary; b++) {
    const Boundary *k = &w->tape->boundary[b];
    for (size_t e = 0; e < k->n; e++) {
      double *to = w->adjoint + (k->element + e) * w->lanes + f->lane;
      const double *from = w->chunk_adj + (k->at + e) * w->lanes + f->lane;
      bool fresh = w->tape->bordering; /* nothing is there yet */
      for (size_t c = 0; c < w->chunks; c++) {
        if (!w->touched[c * w->tape->boundary_elements + k->at + e]) continue;
        if (fresh) memcpy(to, from + size * c, f->n * sizeof *to);
        if (!fresh) w->k->add(to, from + size * c, f->n);
        fresh = false;
      }
      if (fresh) memset(to, 0, f->n * sizeof *to);
    }
  }
}

static void clear_lanes(const Work *w, const Frame *f) {
  const bool *gathered = w->tiles_ran ? w->tape->bordering : NULL;
  for (size_t e = 0; e < w->tape->elements; e++)
    if (!gathered || !gathered[e]) memset(w->adjoint + e * w->lanes + f->lane, 0, f->n * sizeof(double));
}

typedef struct {
  Work *w;
  const double *seeds, *lane;
} BackwardJob;

static void backward_piece(void *arg, size_t piece, int worker) {
  const BackwardJob *job = arg;
  const Work *w = job->w;
  const Tape *t = w->tape;
  Frame f = global_frame(w, piece, worker);
  clear_lanes(w, &f);
  if (w->tiles_ran) gather_boundary(w, &f);
  for (int r = 0; r < t->nroots; r++) {
    double *adj = w->adjoint + t->roots[r] * w->lanes + f.lane;
    for (size_t j = 0; job->seeds[r] != 0 && j < f.n; j++) adj[j] += job->seeds[r] * (job->lane ? job->lane[f.lane + j] : 1);
  }
  run_backward(&f, t->code, t->count);
}

void vm_backward(Work *w, const double *seeds, const double *lane, double *adj_theta) {
  BackwardJob job = {w, seeds, lane};
  run_pieces(w, lane_pieces(w), backward_piece, &job);
  Frame all = global_frame(w, 0, 0);
  for (int k = 0; k < w->tape->count; k++)
    if (w->tape->code[k].op == IR_OUTER) outer_backward(&all, &w->tape->code[k], (size_t)w->tape->code[k].n, 0);
  if (adj_theta != w->adjoint) memcpy(adj_theta, w->adjoint, w->tape->dim * w->lanes * sizeof *adj_theta);
}

/* ---- constant folding --------------------------------------------------------------------------------------------- */

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
      for (size_t j = 0; j < padded; j++) in[a][j] = sizes[a] == 1 ? args[a][0] : args[a][e + (j < m ? j : m - 1)];
    k->forward[op](result, rows, step, padded);
    memcpy(out + e, result, m * sizeof *out);
  }
}
