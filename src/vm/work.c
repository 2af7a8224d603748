/* work.c: the buffers of a run, and the three steps of an evaluation: global values in pieces of
 * draws, tiles in chunks, and the way back.
 *
 * A chunk is a piece of the tiles with its own copy of the boundary's adjoints, so that tiles add
 * without asking anybody. It uses only the rows that its tiles read: where observations come sorted
 * by what they index, chunks hardly overlap, and a parameter's adjoint is a row of one chunk's
 * copy.
 */
#include "vm/work_int.h"

#include <string.h>

#ifdef PVI_TORTURE
enum { TILE_BYTES = 1, TILE_LEAST = 4, TILE_MAX = 4 };
#else
enum { TILE_BYTES = 128 * 1024, TILE_LEAST = 4, TILE_MAX = ROWS_MOST };
#endif
#ifdef PVI_TORTURE
enum { VALUE_BYTES = 4096 };
#else
enum { VALUE_BYTES = 256 << 20 }; /* of the global values of all pieces */
#endif
enum {
  CHUNKS_MIN = 2,
  CHUNKS_MAX = 32, /* bits of Work.touched */
  CHUNK_BYTES = 512 << 20,
  KEPT_BYTES = 64 << 20,
  FEW_VALUES = 2048, /* of a piece, a draw */
  THETA_PIECE = 32,  /* parameters whose adjoints are taken together */
};

/* ---- buffers --------------------------------------------------------------------------------- */

/* Observations per tile: as many as keep the widest block's values and adjoints well within the
 * second-level cache; with very many draws some all the same, so that shared values are read once
 * for them, and more the more of these a predictor reads. The cost is flat from 32 to 160 KB: so
 * the size is one that suits every machine, and results do not depend on its caches. Where only
 * values are asked for there may be lanes by the hundred thousand, on a grid: there they are not to
 * fill the memory. */
static size_t tile_height(const Tape *t, size_t ld, bool back) {
  enum { NARROW = 8, WIDE = 16, FORWARD_BYTES = 4 << 20 };
  VmShape shape = vm_shape(t);
  size_t width = max_size(shape.tile_width, 1),
         height = TILE_BYTES / (2 * width * ld * sizeof(double)),
         least =
             shape.predictor_width >= WIDE ? max_size(16, shape.predictor_width / 32) : TILE_LEAST;
  if (width <= NARROW) least = max_size(least, 2 * TILE_LEAST);
  if (!back) least = min_size(least, max_size(FORWARD_BYTES / (width * ld * sizeof(double)), 1));
  if (height >= 8) height -= height % 8; /* as the kernels take rows */
  return min_size(max_size(height, least), TILE_MAX);
}

/* Rows a large power of two apart share a few places of the caches: a tile that reads dozens of
 * them waits for memory half of the time. */
static size_t row_distance(size_t lanes) {
  enum { MANY_LANES = 256, ALIKE = 128 };
  return lanes >= MANY_LANES && lanes % ALIKE == 0 ? lanes + LANES : lanes;
}

static void make_scratch(Arena *a, Scratch *s, const Work *w) {
  size_t tile = max_size(vm_shape(w->tape).tile_width, 1) * w->T * w->ld;
  s->tile = NEW_SCRATCH(a, double, tile);
  s->tile_adj = NEW_SCRATCH(a, double, w->back ? tile : 0);
  size_t widest = 3 * w->tape->max_width; /* of sums of two, and their exponentials */
  s->in = NEW_ARRAY(a, const double *, widest);
  s->adj = NEW_ARRAY(a, double *, widest);
  s->step = NEW_ARRAY(a, size_t, widest);
  s->coef = NEW_ARRAY(a, const double *, w->tape->max_width);
  s->index = NEW_ARRAY(a, const int32_t *, w->tape->max_width);
  s->rows = NEW_ARRAY(a, const double *, w->T *max_size(vm_shape(w->tape).tile_width, 1));
  s->row_adj = NEW_ARRAY(a, double *, w->T *max_size(vm_shape(w->tape).tile_width, 1));
  s->spread = NEW_ARRAY(a, double, IR_MAX_ARGS *WALK *LANES);
  s->splat = NEW_ARRAY(a, double, max_size(widest, IR_MAX_ARGS) * LANES);
  s->eigen = NEW_ARRAY(a, double, eigen_room(w->tape->eigen_rows));
}

/* Two neighbouring chunks become one. */
static uint32_t merged(uint32_t touched) {
  uint32_t pairs = 0;
  for (int c = 0; c < CHUNKS_MAX / 2; c++) pairs |= (uint32_t)((touched >> 2 * c & 3) != 0) << c;
  return pairs;
}

/* Are so many chunks worth their copies? Rows of shared values beyond the first copy are few beside
 * the observations. */
static bool chunks_pay(const Work *w) {
  size_t n = w->tape->boundary_elements, rows = 0, copies = 0;
  for (size_t e = 0; e < n; e++) {
    rows += w->touched[e] != 0;
    copies += (size_t)__builtin_popcount(w->touched[e]);
  }
  return w->chunks <= w->tile_first[w->tape->nblocks] && copies <= rows + w->tape->rows / 8 &&
         w->chunks * n * w->ld <= CHUNK_BYTES / sizeof(double);
}

/* As many chunks as pay, a power of two: decided by the problem alone. */
static void choose_chunks(Work *w) {
  w->chunks = CHUNKS_MAX;
  vm_set_range(w, 0, 1);
  for (; w->chunks > CHUNKS_MIN && !chunks_pay(w); w->chunks /= 2)
    for (size_t e = 0; e < w->tape->boundary_elements; e++) w->touched[e] = merged(w->touched[e]);
}

static size_t pieces_of(const Work *w, size_t draws) { return (w->lanes + draws - 1) / draws; }

/* Draws in pieces, as even as they can be. What is done once for all draws of a piece is less for
 * large ones; but its values are to stay in the second-level cache, every worker is to have a
 * piece, and where there is no way back one piece is all the memory there is, which is touched once
 * and soon given back. What is computed is the same. */
static size_t lane_pieces(const Work *w, size_t workers) {
  const Tape *t = w->tape;
  bool half = !w->back || t->odes || t->runs || t->elements > FEW_VALUES ||
              pieces_of(w, LANE_BLOCK) < workers;
  return pieces_of(w, half ? LANE_BLOCK / 2 : LANE_BLOCK);
}

/* Rows of all draws for what others read, and blocks of a piece's draws for the global values: a
 * piece walks through memory in order, whatever the number of draws. Where the values of all pieces
 * would be too many, each worker has those of one, and the way back computes them again; so it has
 * where there is no way back. */
static void make_rows(Arena *a, Work *w, size_t workers) {
  const Tape *t = w->tape;
  size_t pieces = lane_pieces(w, workers);
  w->pieces = pieces;
  w->block = pieces ? (w->lanes / LANES + pieces - 1) / pieces * LANES : 0;
  size_t piece = t->elements * w->block;
  w->again = !t->odes && !t->runs && pieces > workers &&
             (!w->back || pieces * piece > VALUE_BYTES / sizeof *w->values);
  w->rows = NEW_ARRAY(a, double, t->rows_kept * w->ld);
  w->adjoint = NEW_ARRAY(a, double, w->back ? (t->dim + t->leaf_rows) * w->ld : 0);
  w->values = NEW_SCRATCH(a, double, (w->again ? workers : pieces) * piece);
  w->value_adj = NEW_SCRATCH(a, double, w->back ? workers *piece : 0);
}

static Work *make_work(Arena *a, const Tape *t, size_t M, Pool *pool, bool back) {
  Work *w = NEW(a, Work);
  w->tape = t;
  w->back = back;
  w->k = kernels_best();
  w->pool = pool;
  w->M = M;
  w->lanes = (M + LANES - 1) / LANES * LANES;
  w->ld = row_distance(w->lanes);
  w->count = t->count;
  w->elements = t->elements;
  w->readers = t->count + 1;
  w->T = tile_height(t, w->ld, back);
  w->touched = NEW_ARRAY(a, uint32_t, t->boundary_elements + 1);
  int workers = pool ? pool_threads(pool) : 1;
  make_rows(a, w, (size_t)workers);
  w->scratch = NEW_ARRAY(a, Scratch, workers);
  for (int k = 0; k < workers; k++) make_scratch(a, &w->scratch[k], w);
  w->odes = NEW_ARRAY(a, OdeWork *, t->odes + 1);
  for (int k = 0; k < t->count; k++)
    if (t->code[k].op == IR_ODE)
      w->odes[t->code[k].columns] = ode_work(a, t->code[k].ode, w->pieces * w->block, workers);
  w->runs = NEW_ARRAY(a, void *, t->runs + 1);
  for (int k = 0; k < t->count; k++)
    if (t->code[k].op == IR_RUN)
      w->runs[t->code[k].columns] = t->code[k].run->work(t->code[k].run, a, w->lanes);
  if (t->noise && t->noise * w->ld * sizeof(double) <= KEPT_BYTES) {
    w->kept = NEW_ARRAY(a, double, t->noise * w->ld);
    w->kept_seed = NEW_ARRAY(a, uint64_t, t->noise);
  }
  w->from = NEW_ARRAY(a, int32_t, t->nblocks + 1);
  w->to = NEW_ARRAY(a, int32_t, t->nblocks + 1);
  w->tile_first = NEW_ARRAY(a, size_t, t->nblocks + 1);
  choose_chunks(w);
  w->chunk_adj = NEW_SCRATCH(a, double, back ? w->chunks * t->boundary_elements * w->ld : 0);
  return w;
}

Work *vm_work(Arena *a, const Tape *t, size_t M, Pool *pool) {
  return make_work(a, t, M, pool, true);
}

Work *vm_work_forward(Arena *a, const Tape *t, size_t M, Pool *pool) {
  return make_work(a, t, M, pool, false);
}

double *vm_theta(Work *w) { return w->rows; }
double *vm_theta_adjoint(Work *w) { return w->adjoint; }
void vm_set_times(Work *w, VmTimes *times) { w->times = times; }
size_t vm_tile_rows(const Work *w) { return w->T; }
void vm_set_linear(Work *w, const double *weights) { w->linear = weights; }
void vm_overwrites(Work *w) { w->overwrites = true; }
void vm_set_noise(Work *w, uint64_t seed) { w->noise_seed = seed; }
void vm_set_outer(Work *w, int leaf, VmOuter o) { w->outer[leaf] = o; }
const Tape *vm_tape(const Work *w) { return w->tape; }
size_t vm_ld(const Work *w) { return w->ld; }
const Kernels *vm_kernels(const Work *w) { return w->k; }

void vm_by_rows(Work *w, VmGive *give, VmTake *take, void *self) {
  w->give = give;
  w->take = take;
  w->rows_self = self;
}

void vm_skip_roots(Work *w) {
  w->count = w->readers = w->tape->shared;
  w->elements = w->tape->shared_elements;
}

/* ---- which shared values a chunk's tiles read ------------------------------------------------ */

/* Those behind an operand, `each` elements an observation, of rows [row, row + rows) of the block.
 */
static void touch_operand(const Operand *o, size_t each, size_t row, size_t rows, uint32_t *touched,
                          uint32_t chunk) {
  if (o->place != IN_GLOBAL) return;
  if (o->access != AT_INDEX) {
    touched[o->adjoint] |= chunk;
    return;
  }
  for (size_t e = row * each; e < (row + rows) * each; e++)
    touched[o->adjoint + (size_t)o->index[e]] |= chunk;
}

static void touch_affine(const TapeAffine *t, size_t row, size_t rows, uint32_t *touched,
                         uint32_t chunk) {
  for (size_t k = 0; k < t->ndense; k++) touched[t->dense_adj[k]] |= chunk;
  for (size_t s = 0; s < t->nsparse; s++)
    for (size_t r = row; r < row + rows; r++)
      touched[t->base_adj[s] + (size_t)t->index[s][r]] |= chunk;
}

static void touch_mixture(const TapeMixture *t, size_t row, size_t rows, uint32_t *touched,
                          uint32_t chunk) {
  for (size_t k = 0; k < t->width * t->terms; k++) {
    if (!t->index[k]) touched[t->base_adj[k]] |= chunk;
    for (size_t r = row; t->index[k] && r < row + rows; r++)
      touched[t->base_adj[k] + (size_t)t->index[k][r]] |= chunk;
  }
}

static void touch_rows(const TapeBlock *b, size_t row, size_t rows, uint32_t *touched,
                       uint32_t chunk) {
  for (int c = 0; c < b->count; c++) {
    const Instr *i = &b->code[c];
    size_t each = (size_t)i->n * (i->op == IR_SUM || i->op == IR_LSE ? (size_t)i->width : 1);
    if (i->op == IR_AFFINE) {
      touch_affine(i->affine, row, rows, touched, chunk);
    } else if (i->op == IR_MIXTURE) {
      touch_mixture(i->mixture, row, rows, touched, chunk);
    } else if (i->op == IR_MATVEC) {
      for (int32_t k = 0; k < i->width; k++) touched[i->in[1].adjoint + (size_t)k] |= chunk;
    } else if (i->op == IR_PACK) {
      for (int32_t k = 0; k < i->n; k++) touch_operand(&i->picks[k], 1, row, rows, touched, chunk);
    } else if (i->op != IR_NOISE && i->op != IR_OUTER) {
      for (int k = 0; k < i->nargs; k++) touch_operand(&i->in[k], each, row, rows, touched, chunk);
    }
  }
}

/* Tile number -> its block and rows. */
typedef struct {
  int block;
  size_t row, rows;
} TileRows;

static TileRows tile_rows(const Work *w, size_t tile) {
  TileRows t = {0};
  while (tile >= w->tile_first[t.block + 1]) t.block++;
  t.row = (size_t)w->from[t.block] + (tile - w->tile_first[t.block]) * w->T;
  t.rows = min_size(w->T, (size_t)w->to[t.block] - t.row);
  return t;
}

static size_t chunk_begin(const Work *w, size_t chunk) {
  return w->tile_first[w->tape->nblocks] * chunk / w->chunks;
}

static void find_touched(Work *w) {
  memset(w->touched, 0, w->tape->boundary_elements * sizeof *w->touched);
  for (size_t c = 0; w->tape->boundary_elements && c < w->chunks; c++)
    for (size_t tile = chunk_begin(w, c); tile < chunk_begin(w, c + 1); tile++) {
      TileRows t = tile_rows(w, tile);
      touch_rows(&w->tape->blocks[t.block], t.row, t.rows, w->touched, 1u << c);
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
  find_touched(w);
  return rows;
}

static void run_pieces(const Work *w, size_t count, void (*work)(void *, size_t, int), void *arg) {
  if (w->pool) {
    pool_run(w->pool, count, work, arg);
  } else {
    for (size_t k = 0; k < count; k++) work(arg, k, 0);
  }
}

static double start_clock(const Work *w) { return w->times ? base_seconds() : 0; }

static void stop_clock(double *clock, double *sum) {
  double now = base_seconds();
  *sum += now - *clock;
  *clock = now;
}

/* ---- parameters that one chunk has to itself ------------------------------------------------- */

/* Do global instructions, or seeds, add to the adjoint of parameter k? */
static bool is_read(const Work *w, size_t k) { return w->tape->reader[k] < w->readers; }

/* Has one chunk alone to do with parameter k, and in one place? */
static bool has_owner(const Work *w, size_t k) {
  const Tape *t = w->tape;
  if (t->border_first[k + 1] != t->border_first[k] + 1 || is_read(w, k)) return false;
  uint32_t touched = w->touched[t->border[t->border_first[k]]];
  return touched && !(touched & (touched - 1));
}

/* Places of the boundary that are parameters: the first so many of tape->border. */
static size_t parameter_places(const Work *w) { return w->tape->border_first[w->tape->dim]; }

/* Is place e, a parameter, the chunk's alone? */
static bool is_own(const Work *w, size_t e, size_t chunk) {
  return w->touched[e] == 1u << chunk && has_owner(w, w->tape->owner[e]);
}

/* Draws of the chunk's own parameters, when it begins. */
static void give_own(const Work *w, size_t chunk, int worker) {
  const Tape *t = w->tape;
  double clock = start_clock(w);
  for (size_t b = 0; b < parameter_places(w); b++) {
    size_t e = t->border[b], k = t->owner[e];
    if (is_own(w, e, chunk)) w->give(w->rows_self, k, w->rows + k * w->ld);
  }
  if (w->times) stop_clock(&clock, &w->times[worker].draws);
}

static void give_piece(void *arg, size_t piece, int worker) {
  const Work *w = arg;
  (void)worker;
  for (size_t k = piece * THETA_PIECE; k < min_size((piece + 1) * THETA_PIECE, w->tape->dim); k++)
    if (!has_owner(w, k)) w->give(w->rows_self, k, w->rows + k * w->ld);
}

static size_t theta_pieces(const Work *w) { return (w->tape->dim + THETA_PIECE - 1) / THETA_PIECE; }

/* ---- the three steps of an evaluation -------------------------------------------------------- */

static Frame global_frame(const Work *w, size_t piece, int worker) {
  size_t lane = min_size(piece * w->block, w->lanes), size = w->tape->elements * w->block;
  double *values = w->values + (w->again ? (size_t)worker : piece) * size;
  return (Frame){.w = w,
                 .s = &w->scratch[worker],
                 .lane = lane,
                 .n = min_size(w->block, w->lanes - lane),
                 .ld = w->block,
                 .T = 1,
                 .rows = 1,
                 .shared = values,
                 .out = values,
                 .out_adj = w->value_adj + (size_t)worker * size};
}

/* Global instructions, all pieces of draws; few of them are done before the others are called. */
static void run_lanes(const Work *w, void (*work)(void *, size_t, int), void *arg) {
  enum { FEW = 64 };
  if (w->elements - w->tape->dim < FEW) {
    for (size_t k = 0; k < w->pieces; k++) work(arg, k, 0);
  } else {
    run_pieces(w, w->pieces, work, arg);
  }
}

/* Rows of a piece, and the same draws of rows of all. */
static void copy_rows(double *to, size_t ldt, const double *from, size_t ldf, size_t rows,
                      size_t n) {
  for (size_t r = 0; r < rows; r++) memcpy(to + r * ldt, from + r * ldf, n * sizeof *to);
}

static void compute_piece(const Frame *f) {
  const Work *w = f->w;
  for (size_t k = 0; k < w->tape->dim; k++)
    if (is_read(w, k))
      copy_rows(f->out + k * f->ld, f->ld, w->rows + k * w->ld + f->lane, w->ld, 1, f->n);
  exec_forward(f, w->tape->code, w->count);
}

static void forward_piece(void *arg, size_t piece, int worker) {
  const Work *w = arg;
  const Tape *t = w->tape;
  Frame f = global_frame(w, piece, worker);
  compute_piece(&f);
  size_t count = w->readers > t->count ? t->nkept : t->shared_kept;
  for (size_t k = 0; k < count; k++)
    copy_rows(w->rows + t->kept[k].at * w->ld + f.lane, w->ld, f.out + t->kept[k].element * f.ld,
              f.ld, t->kept[k].n, f.n);
}

void vm_draw(Work *w) { run_pieces(w, theta_pieces(w), give_piece, w); }

void vm_forward(Work *w, const double *theta) {
  if (theta != w->rows) memcpy(w->rows, theta, w->tape->dim * w->ld * sizeof *theta);
  if (w->count) run_lanes(w, forward_piece, w);
  w->tiles_ran = false;
}

const double *vm_value(const Work *w, int root, int32_t element) {
  return w->rows + (w->tape->roots_kept[root] + (size_t)element) * w->ld;
}

static void clear_tile(const Work *w, Scratch *s, const TapeBlock *block, size_t rows) {
  size_t element = w->T * w->ld;
  for (int k = 0; k < block->nclear; k++)
    memset(s->tile_adj + block->clear[k].first * element, 0,
           block->clear[k].count * element * sizeof(double));
  if (block->has[0] && !w->overwrites)
    memset(s->tile_adj + block->out[0] * element, 0, rows * w->ld * sizeof(double));
}

/* One tile: forward, score, backward into the chunk's boundary. */
static void run_tile(Work *w, size_t tile, size_t chunk, double *boundary, int worker) {
  TileRows t = tile_rows(w, tile);
  const TapeBlock *block = &w->tape->blocks[t.block];
  Scratch *s = &w->scratch[worker];
  Frame f = {.w = w,
             .s = s,
             .n = w->lanes,
             .ld = w->ld,
             .shared = w->rows,
             .T = w->T,
             .row = t.row,
             .rows = t.rows,
             .out = s->tile,
             .out_adj = s->tile_adj,
             .boundary = boundary,
             .tile = true};
  bool linear = w->linear && block->linear && w->want_adjoint;
  int count = block->count - linear;
  double totals[ROWS_MOST], clock = start_clock(w);
  exec_forward(&f, block->code, count);
  if (w->want_adjoint) clear_tile(w, s, block, t.rows);
  if (linear) exec_total(&f, &block->code[count], totals);
  if (w->times) stop_clock(&clock, &w->times[worker].forward);
  TileView view = {.block = t.block,
                   .worker = worker,
                   .chunk = chunk,
                   .row = block->first + t.row,
                   .rows = t.rows,
                   .ld = w->ld};
  if (linear) view.totals = totals;
  for (int h = 0; h < VM_HEADS && !linear; h++) {
    if (!block->has[h]) continue;
    view.heads[h] = s->tile + block->out[h] * w->T * w->ld;
    if (w->want_adjoint) view.adj[h] = s->tile_adj + block->out[h] * w->T * w->ld;
  }
  w->call(w->self, &view);
  if (w->times) stop_clock(&clock, &w->times[worker].score);
  if (w->want_adjoint) exec_backward(&f, block->code, count);
  if (w->times) stop_clock(&clock, &w->times[worker].backward);
}

static void take_own(const Work *w, size_t chunk, const double *boundary) {
  const Tape *t = w->tape;
  for (size_t b = 0; b < parameter_places(w); b++) {
    size_t e = t->border[b];
    if (is_own(w, e, chunk)) w->take(w->rows_self, t->owner[e], boundary + e * w->ld);
  }
}

static void chunk_piece(void *arg, size_t chunk, int worker) {
  Work *w = arg;
  size_t n = w->tape->boundary_elements;
  double *boundary = w->chunk_adj + chunk * n * w->ld;
  if (w->give) give_own(w, chunk, worker);
  for (size_t e = 0; w->want_adjoint && e < n; e++)
    if (w->touched[e] >> chunk & 1) memset(boundary + e * w->ld, 0, w->lanes * sizeof *boundary);
  for (size_t t = chunk_begin(w, chunk); t < chunk_begin(w, chunk + 1); t++)
    run_tile(w, t, chunk, boundary, worker);
  if (w->want_adjoint && w->take) take_own(w, chunk, boundary);
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

/* ---- the way back ---------------------------------------------------------------------------- */

/* Adjoint of a global element in draws [lane, lane + n): all chunks added in order, to what is
 * there or over it. */
typedef struct {
  double *to;
  size_t lane, n;
  bool over;
} Gathering;

static void gather(const Work *w, size_t element, Gathering g) {
  const Tape *t = w->tape;
  for (size_t b = t->border_first[element]; w->tiles_ran && b < t->border_first[element + 1]; b++)
    for (uint32_t left = w->touched[t->border[b]]; left; left &= left - 1) {
      size_t copy = (size_t)__builtin_ctz(left) * t->boundary_elements + t->border[b];
      const double *from = w->chunk_adj + copy * w->ld + g.lane;
      if (g.over) memcpy(g.to, from, g.n * sizeof *g.to);
      if (!g.over) w->k->add(g.to, from, g.n);
      g.over = false;
    }
  if (g.over) memset(g.to, 0, g.n * sizeof *g.to);
}

typedef struct {
  Work *w;
  const double *seeds, *lane;
} BackwardJob;

/* Of a shared leaf, all draws. */
static double *leaf_adjoint(const Work *w, const Instr *i) {
  return w->adjoint + (w->tape->dim + i->leaf) * w->ld;
}

/* The first element from e on that tiles read. */
static size_t unread_until(const Work *w, size_t e) {
  const size_t *first = w->tape->border_first;
  while (e < w->elements && (!w->tiles_ran || first[e + 1] == first[e])) e++;
  return e;
}

/* What flows into the global values of a piece: from the tiles, and from the roots' seeds. */
static void seed_piece(const BackwardJob *job, const Frame *f) {
  const Work *w = job->w;
  const Tape *t = w->tape;
  for (size_t k = 0; k < t->dim; k++)
    if (is_read(w, k)) memset(f->out_adj + k * f->ld, 0, f->n * sizeof *f->out_adj);
  for (size_t e = t->dim, end; e < w->elements; e = end) {
    end = unread_until(w, e);
    memset(f->out_adj + e * f->ld, 0, (end - e) * f->ld * sizeof *f->out_adj);
    if (end > e) continue;
    gather(w, e, (Gathering){f->out_adj + e * f->ld, f->lane, f->n, true});
    end++;
  }
  for (int r = 0; w->readers > t->count && r < t->nroots; r++) {
    double *adj = f->out_adj + t->roots[r] * f->ld;
    for (size_t j = 0; job->seeds[r] != 0 && j < f->n; j++)
      adj[j] += job->seeds[r] * (job->lane ? job->lane[f->lane + j] : 1);
  }
}

static void backward_piece(void *arg, size_t piece, int worker) {
  const BackwardJob *job = arg;
  const Work *w = job->w;
  const Tape *t = w->tape;
  Frame f = global_frame(w, piece, worker);
  if (w->again) compute_piece(&f);
  seed_piece(job, &f);
  exec_backward(&f, t->code, w->count);
  for (size_t k = 0; k < t->dim; k++)
    if (is_read(w, k))
      copy_rows(w->adjoint + k * w->ld + f.lane, w->ld, f.out_adj + k * f.ld, f.ld, 1, f.n);
  for (int c = 0; t->leaf_rows && c < w->count; c++)
    if (t->code[c].op == IR_OUTER)
      copy_rows(leaf_adjoint(w, &t->code[c]) + f.lane, w->ld, f.out_adj + t->code[c].out * f.ld,
                f.ld, (size_t)t->code[c].n, f.n);
}

static void theta_piece(void *arg, size_t piece, int worker) {
  const BackwardJob *job = arg;
  const Work *w = job->w;
  (void)worker;
  for (size_t k = piece * THETA_PIECE; k < min_size((piece + 1) * THETA_PIECE, w->tape->dim); k++) {
    if (w->take && w->tiles_ran && has_owner(w, k)) continue;
    gather(w, k, (Gathering){w->adjoint + k * w->ld, 0, w->lanes, !is_read(w, k)});
    if (w->take) w->take(w->rows_self, k, w->adjoint + k * w->ld);
  }
}

void vm_backward(Work *w, const double *seeds, const double *lane, double *adj_theta) {
  BackwardJob job = {w, seeds, lane};
  const Tape *t = w->tape;
  if (w->count || (w->readers > t->count && t->nroots)) run_lanes(w, backward_piece, &job);
  run_pieces(w, theta_pieces(w), theta_piece, &job);
  for (int k = 0; t->leaf_rows && k < w->count; k++)
    if (t->code[k].op == IR_OUTER)
      exec_outer_backward(w, &t->code[k], leaf_adjoint(w, &t->code[k]), (size_t)t->code[k].n, 0);
  if (!w->take && adj_theta != w->adjoint)
    memcpy(adj_theta, w->adjoint, t->dim * w->ld * sizeof *adj_theta);
}
