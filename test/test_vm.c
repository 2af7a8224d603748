/* test_vm.c: tapes against a straightforward evaluation of the graph, node by node and draw by
 * draw: values, gradients by finite differences, selections of rows, numbers of threads and draws;
 * first on graphs made by hand, then on many random ones. Last the row kernels that are not in
 * ops.def. */
#include "testing.h"

#include "vm/vm.h"

/* ---- the reference: one draw, every node ----------------------------------------------------- */

static void evaluate_map(const Graph *g, const IrNode *x, double *const *v, double *out) {
  const double *in[IR_MAX_ARGS];
  size_t sizes[IR_MAX_ARGS];
  for (int k = 0; k < x->nargs; k++) {
    in[k] = v[x->args[k]];
    sizes[k] = (size_t)ir_size(g, x->args[k]);
  }
  vm_fold(x->op, in, sizes, out, (size_t)x->n);
}

static void evaluate_node(const Graph *g, const IrNode *x, double *const *v, const double *theta,
                          double *out) {
  const double *a = x->nargs ? v[x->args[0]] : NULL, *b = x->nargs > 1 ? v[x->args[1]] : NULL;
  int columns = x->op == IR_MATMUL ? x->attr2 : 1, W = x->attr;
  if (ir_is_map(x->op)) {
    evaluate_map(g, x, v, out);
    return;
  }
  for (int e = 0; e < x->n; e++) {
    double s = 0;
    switch (x->op) {
    case IR_CONST: s = x->u.values[e]; break;
    case IR_INPUT: s = theta[x->attr + e]; break;
    case IR_GATHER: s = a[x->u.index[e]]; break;
    case IR_PACK: s = v[x->u.picks[e].node][x->u.picks[e].elem]; break;
    case IR_SUM:
      for (int w = 0; w < W; w++) s += a[e * W + w];
      break;
    case IR_LSE:
      for (int w = 0; w < W; w++) s += exp(a[e * W + w]);
      s = log(s);
      break;
    case IR_CUMSUM: s = a[e] + (e % W ? out[e - 1] : 0); break;
    default:
      for (int k = 0; k < W; k++) s += a[e / columns * W + k] * b[k * columns + e % columns];
    }
    out[e] = s;
  }
}

static double **evaluate(Ctx *c, const Graph *g, const double *theta) {
  double **v = NEW_ARRAY(&c->arena, double *, g->count);
  for (Node k = 0; k < g->count; k++) {
    v[k] = NEW_ARRAY(&c->arena, double, ir_size(g, k));
    evaluate_node(g, ir_node(g, k), v, theta, v[k]);
  }
  return v;
}

/* ---- a case: a graph, its roots, its blocks -------------------------------------------------- */

enum { MAX_ROOTS = 4, MAX_BLOCKS = 3 };

typedef struct {
  Graph *g;
  size_t dim;
  Node roots[MAX_ROOTS];
  int nroots;
  VmBlock blocks[MAX_BLOCKS];
  int nblocks;
  VmJoin join;
} Case;

/* The objective: sum of the roots (with seeds) and of every element of every head, weighted by its
 * place. */
static const double seeds[MAX_ROOTS] = {1, -0.5, 2, 0.25};
static double weight(int block, int head, int32_t row, int32_t w) {
  return 0.5 + 0.1 * (block + head + w) + 0.03 * (row % 7);
}

static int32_t head_width(const Case *k, int b, int h) {
  return ir_size(k->g, k->blocks[b].heads[h]) / k->blocks[b].rows;
}

static double objective(Ctx *c, const Case *k, const double *theta) {
  ArenaMark mark = arena_mark(&c->arena);
  double **v = evaluate(c, k->g, theta), s = 0;
  for (int r = 0; r < k->nroots; r++) s += seeds[r] * v[k->roots[r]][0];
  for (int b = 0; b < k->nblocks; b++)
    for (int h = 0; h < VM_HEADS; h++)
      for (int32_t i = 0; k->blocks[b].heads[h] != NO_NODE && i < k->blocks[b].nselect; i++)
        for (int32_t w = 0, W = head_width(k, b, h); w < W; w++) {
          int32_t row = k->blocks[b].select[i];
          s += weight(b, h, row, w) * v[k->blocks[b].heads[h]][row * W + w];
        }
  arena_reset(&c->arena, mark);
  return s;
}

/* What a run of the tape gives: every head's values by block, head, selected row, element and lane.
 */
typedef struct {
  const Case *k;
  size_t lanes;
  double *heads[MAX_BLOCKS][VM_HEADS];
  size_t first[MAX_BLOCKS]; /* number of the block's first row in the plan */
  int *visits;              /* of each row of the plan */
} Seen;

static void look(void *self, const TileView *t) {
  Seen *s = self;
  const Case *k = s->k;
  for (size_t r = 0; r < t->rows; r++) {
    s->visits[t->row + r]++;
    size_t i = t->row + r - s->first[t->block];
    for (int h = 0; h < VM_HEADS; h++) {
      assert_true((k->blocks[t->block].heads[h] != NO_NODE) == (t->heads[h] != NULL));
      if (!t->heads[h]) continue;
      size_t W = (size_t)head_width(k, t->block, h);
      for (size_t w = 0; w < W; w++)
        for (size_t j = 0; j < t->ld; j++) {
          s->heads[t->block][h][(i * W + w) * t->ld + j] = t->heads[h][(r * W + w) * t->ld + j];
          if (t->adj[h]) /* not where values alone are asked for */
            t->adj[h][(r * W + w) * t->ld + j] +=
                weight(t->block, h, k->blocks[t->block].select[i], (int32_t)w);
        }
    }
  }
}

typedef struct {
  Seen seen;
  double *roots[MAX_ROOTS], *grad;
} Run;

typedef struct {
  size_t lanes;
  double *grad;
  int *times; /* each parameter was handed over */
  const double *theta;
  int *given; /* and asked for */
} Taken;

static void give(void *self, size_t parameter, double *theta) {
  Taken *t = self;
  memcpy(theta, t->theta + parameter * t->lanes, t->lanes * sizeof *theta);
  t->given[parameter]++;
}

static void take(void *self, size_t parameter, const double *adj) {
  Taken *t = self;
  memcpy(t->grad + parameter * t->lanes, adj, t->lanes * sizeof *adj);
  t->times[parameter]++;
}

static void run_by_rows(Work *w, Taken *t, size_t dim, Seen *seen) {
  vm_by_rows(w, give, take, t);
  memset(vm_theta(w), 0, dim * t->lanes * sizeof(double));
  vm_draw(w);
  vm_forward(w, vm_theta(w));
  vm_tiles(w, look, seen, true);
  vm_backward(w, seeds, NULL, NULL);
}

/* Adjoints handed over one by one are those of vm_backward; without roots, those of seeds that are
 * zero. */
static void check_taking(Ctx *c, Work *w, const Case *k, const double *theta, Seen *seen,
                         const double *grad) {
  static const double none[MAX_ROOTS];
  size_t lanes = vm_ld(w), n = k->dim * lanes;
  Taken t = {lanes, NEW_ARRAY(&c->arena, double, n), NEW_ARRAY(&c->arena, int, k->dim), theta,
             NEW_ARRAY(&c->arena, int, k->dim)};
  double *unseeded = NEW_ARRAY(&c->arena, double, n);
  run_by_rows(w, &t, k->dim, seen);
  assert_memory_equal(t.grad, grad, n * sizeof *grad);
  for (size_t e = 0; e < k->dim; e++) assert_int_equal(t.times[e], 1);
  for (size_t e = 0; e < k->dim; e++) assert_int_equal(t.given[e], 1);
  vm_by_rows(w, NULL, NULL, NULL);
  vm_backward(w, none, NULL, unseeded);
  vm_skip_roots(w);
  run_by_rows(w, &t, k->dim, seen);
  for (size_t e = 0; e < n; e++) assert_close(t.grad[e], unseeded[e], 1e-13);
  for (size_t e = 0; e < k->dim; e++) assert_true(t.times[e] == 2 && t.given[e] == 2);
}

static Seen nothing_seen(Ctx *c, const Case *k, const Tape *tape, size_t lanes) {
  Seen s = {.k = k, .lanes = lanes, .visits = NEW_ARRAY(&c->arena, int, vm_rows(tape) + 1)};
  size_t rows = 0;
  for (int b = 0; b < k->nblocks; b++) {
    s.first[b] = rows;
    rows += (size_t)k->blocks[b].nselect;
    for (int h = 0; h < VM_HEADS; h++)
      if (k->blocks[b].heads[h] != NO_NODE)
        s.heads[b][h] = NEW_ARRAY(
            &c->arena, double, (size_t)k->blocks[b].nselect *(size_t)head_width(k, b, h) * lanes);
  }
  assert_int_equal(rows, vm_rows(tape));
  return s;
}

static void check_heads(const Case *k, const Seen *a, const Seen *b) {
  for (int i = 0; i < k->nblocks; i++)
    for (int h = 0; h < VM_HEADS; h++)
      if (a->heads[i][h] && k->blocks[i].nselect)
        assert_memory_equal(a->heads[i][h], b->heads[i][h],
                            (size_t)(k->blocks[i].nselect * head_width(k, i, h)) * a->lanes *
                                sizeof(double));
}

/* Where there is no way back values are the same, though their room is smaller. */
static void check_forward(Ctx *c, const Run *r, const Tape *tape, size_t M, const double *theta,
                          Pool *pool) {
  const Case *k = r->seen.k;
  Work *w = vm_work_forward(&c->arena, tape, M, pool);
  Seen seen = nothing_seen(c, k, tape, vm_ld(w));
  assert_int_equal(vm_ld(w), r->seen.lanes);
  vm_forward(w, theta);
  vm_tiles(w, look, &seen, false);
  check_heads(k, &seen, &r->seen);
  for (int i = 0; i < k->nroots; i++)
    assert_memory_equal(vm_value(w, i, 0), r->roots[i], vm_ld(w) * sizeof(double));
}

static Run run(Ctx *c, const Case *k, size_t M, const double *theta, int threads) {
  Tape *tape = vm_plan(
      &c->arena, &(VmPlan){k->g, k->dim, k->roots, k->nroots, k->blocks, k->nblocks, k->join});
  Pool *pool = threads ? pool_make(c, threads) : NULL;
  Work *w = vm_work(&c->arena, tape, M, pool);
  size_t lanes = vm_ld(w), rows = vm_rows(tape);
  Run r = {.seen = nothing_seen(c, k, tape, lanes)};
  r.grad = NEW_ARRAY(&c->arena, double, k->dim *lanes);
  vm_forward(w, theta);
  vm_tiles(w, look, &r.seen, true);
  vm_backward(w, seeds, NULL, r.grad);
  for (size_t i = 0; i < rows; i++) assert_int_equal(r.seen.visits[i], 1);
  for (int i = 0; i < k->nroots; i++) {
    r.roots[i] = NEW_ARRAY(&c->arena, double, lanes);
    memcpy(r.roots[i], vm_value(w, i, 0), lanes * sizeof(double));
  }
  check_taking(c, w, k, theta, &r.seen, r.grad);
  check_forward(c, &r, tape, M, theta, pool);
  pool_free(pool);
  return r;
}

static double *draws(Ctx *c, size_t dim, size_t M, uint64_t seed) {
  size_t lanes = (M + LANES - 1) / LANES * LANES;
  double *theta = NEW_ARRAY(&c->arena, double, dim *lanes);
  for (size_t k = 0; k < dim * lanes; k++) theta[k] = uniform(&seed, -1, 1);
  return theta;
}

static void check_values(Ctx *c, const Case *k, const Run *r, size_t j, const double *theta) {
  double **v = evaluate(c, k->g, theta);
  for (int i = 0; i < k->nroots; i++) assert_close(r->roots[i][j], v[k->roots[i]][0], 1e-12);
  for (int b = 0; b < k->nblocks; b++)
    for (int h = 0; h < VM_HEADS; h++)
      for (int32_t i = 0; k->blocks[b].heads[h] != NO_NODE && i < k->blocks[b].nselect; i++)
        for (int32_t w = 0, W = head_width(k, b, h); w < W; w++)
          assert_close(r->seen.heads[b][h][(size_t)(i * W + w) * r->seen.lanes + j],
                       v[k->blocks[b].heads[h]][k->blocks[b].select[i] * W + w], 1e-12);
}

static void check_gradient(Ctx *c, const Case *k, const Run *r, size_t j, double *theta) {
  const double h = 3e-4;
  for (size_t d = 0; d < k->dim; d++) {
    double f[4], x = theta[d];
    for (int s = 0; s < 4; s++) {
      theta[d] = x + h * (double[]){-2, -1, 1, 2}[s];
      f[s] = objective(c, k, theta);
    }
    theta[d] = x;
    assert_close(r->grad[d * r->seen.lanes + j], difference(f, h), 1e-6);
  }
}

/* Values and gradient of draw j. */
static void check_draw(Ctx *c, const Case *k, const Run *r, const double *all, size_t j) {
  double *theta = NEW_ARRAY(&c->arena, double, k->dim);
  for (size_t d = 0; d < k->dim; d++) theta[d] = all[d * r->seen.lanes + j];
  check_values(c, k, r, j, theta);
  check_gradient(c, k, r, j, theta);
}

static void check_same(const Case *k, const Run *r, const Run *o) {
  assert_memory_equal(r->grad, o->grad, k->dim * r->seen.lanes * sizeof(double));
  check_heads(k, &r->seen, &o->seen);
}

/* The whole programme for a case: one draw and many, without a pool and with 1, 2, 3, 7 threads. */
static void check_case(Ctx *c, const Case *k) {
  static const size_t counts[] = {1, 5, 100};
  for (size_t m = 0; m < 3; m++) {
    double *theta = draws(c, k->dim, counts[m], 7 + m);
    Run r = run(c, k, counts[m], theta, 0);
    check_draw(c, k, &r, theta, 0);
    check_draw(c, k, &r, theta, counts[m] - 1);
    for (int t = 0; t < 4; t++) {
      Run o = run(c, k, counts[m], theta, (int[]){1, 2, 3, 7}[t]);
      check_same(k, &r, &o);
    }
  }
}

/* ---- graphs by hand -------------------------------------------------------------------------- */

static Node map1(Graph *g, unsigned op, Node a) { return ir_map(g, op, (Node[]){a}); }
static Node map2(Graph *g, unsigned op, Node a, Node b) { return ir_map(g, op, (Node[]){a, b}); }

static const int32_t *iota(Ctx *c, int32_t n) {
  int32_t *v = NEW_ARRAY(&c->arena, int32_t, n);
  for (int32_t k = 0; k < n; k++) v[k] = k;
  return v;
}

static double *numbers(Ctx *c, int32_t n, uint64_t seed) {
  double *v = NEW_ARRAY(&c->arena, double, n);
  for (int32_t k = 0; k < n; k++) v[k] = uniform(&seed, -1, 1);
  return v;
}

static const int32_t *indexes(Ctx *c, int32_t n, int32_t of, uint64_t seed) {
  int32_t *v = NEW_ARRAY(&c->arena, int32_t, n);
  for (int32_t k = 0; k < n; k++) v[k] = (int32_t)uniform(&seed, 0, of);
  return v;
}

/* A block with up to three heads; the rest are none. */
static VmBlock block(Node h0, Node h1, Node h2, int32_t rows, const int32_t *select,
                     int32_t nselect) {
  VmBlock b = {.rows = rows, .select = select, .nselect = nselect};
  for (int h = 0; h < VM_HEADS; h++) b.heads[h] = NO_NODE;
  b.heads[0] = h0;
  b.heads[1] = h1;
  b.heads[2] = h2;
  return b;
}

static Case one_block(Ctx *c, Graph *g, size_t dim, Node root, Node head, int32_t rows) {
  return (Case){.g = g,
                .dim = dim,
                .roots = {root},
                .nroots = 1,
                .nblocks = 1,
                .blocks = {block(head, NO_NODE, NO_NODE, rows, iota(c, rows), rows)}};
}

/* normal(y | alpha[group] + X beta, sigma) */
static Node regression(Ctx *c, Graph *g, int32_t rows, Node theta) {
  Node beta = ir_gather(g, theta, (int32_t[]){0, 1, 2}, 3),
       group = ir_gather(g, theta, indexes(c, rows, 3, 5), rows);
  Node mu =
      map2(g, IR_ADD, group, ir_matvec(g, ir_const(g, numbers(c, 3 * rows, 1), 3 * rows), beta));
  Node log_sigma = ir_gather(g, theta, (int32_t[]){4}, 1);
  return ir_map(g, IR_NORMAL,
                (Node[]){ir_const(g, numbers(c, rows, 2), rows), mu,
                         map1(g, IR_EXP, map1(g, IR_NEG, log_sigma)), log_sigma});
}

TEST(gather_and_matvec) {
  Graph *g = ir_graph(c);
  Node theta = ir_input(g, 0, 5);
  Case k = one_block(c, g, 5, ir_reduce(g, IR_SUM, map1(g, IR_SQUARE, theta), 5),
                     regression(c, g, 131, theta), 131);
  check_case(c, &k);
}

/* Sorted by group, so that chunks hardly overlap: most adjoints belong to one chunk, the root reads
 * some of them too. */
TEST(sorted_groups) {
  Graph *g = ir_graph(c);
  enum { R = 700, GROUPS = 90 };
  Node theta = ir_input(g, 0, GROUPS + 2);
  int32_t group[R], pair[R];
  for (int r = 0; r < R; r++)
    group[r] = r * GROUPS / R, pair[r] = group[r] + 1; /* parts of theta that overlap */
  Node mu =
      map2(g, IR_MUL, ir_gather(g, theta, group, R), map1(g, IR_EXP, ir_gather(g, theta, pair, R)));
  Node head = map1(g, IR_SIN, map2(g, IR_ADD, mu, ir_gather(g, theta, (int32_t[]){GROUPS + 1}, 1)));
  Node some = ir_gather(g, theta, (int32_t[]){3, 50}, 2);
  Case k = one_block(c, g, GROUPS + 2, ir_reduce(g, IR_SUM, map1(g, IR_SQUARE, some), 2), head, R);
  check_case(c, &k);
}

TEST(rows_of_several_elements) {
  Graph *g = ir_graph(c);
  enum { R = 37, W = 3 };
  Node theta = ir_input(g, 0, 6);
  Node wide = map1(g, IR_SIN,
                   map2(g, IR_MUL, ir_gather(g, theta, indexes(c, R * W, 6, 3), R * W),
                        ir_const(g, numbers(c, R * W, 4), R * W)));
  Node lse = ir_reduce(g, IR_LSE, wide, W);
  int32_t spread[R * W]; /* back to every element of the row */
  for (int e = 0; e < R * W; e++) spread[e] = e / W;
  Node centred = map2(g, IR_SUB, wide, ir_gather(g, lse, spread, R * W));
  int32_t middle[R], turned[R * W];
  for (int r = 0; r < R; r++) middle[r] = r * W + 1;
  for (int e = 0; e < R * W; e++) turned[e] = e / W * W + (W - 1 - e % W);
  Node head =
      map2(g, IR_ADD, map2(g, IR_MUL, ir_gather(g, centred, middle, R), lse),
           ir_reduce(g, IR_SUM, map2(g, IR_MUL, centred, ir_gather(g, wide, turned, R * W)), W));
  Case k = one_block(c, g, 6, ir_gather(g, theta, (int32_t[]){2}, 1), head, R);
  k.blocks[0].heads[2] = centred; /* a head of width 3 */
  check_case(c, &k);
}

TEST(everything_global) {
  Graph *g = ir_graph(c);
  Node theta = ir_input(g, 0, 12);
  Node a = ir_gather(g, theta, iota(c, 6), 6),
       product = ir_matmul(g, a, theta, 2, 6); /* 3 x 2 times 2 x 6 */
  Node sums = ir_cumsum(g, product, 6);
  Node packed = ir_pack(
      g, (Pick[]){{sums, 5}, {theta, 3}, {ir_number(g, 2), 0}, {product, 17}, {sums, 5}}, 5);
  Node head = map1(
      g, IR_TANH,
      ir_gather(g, sums, indexes(c, 40, 18, 9), 40)); /* rows share elements of a global value */
  Case k = one_block(c, g, 12, ir_reduce(g, IR_LSE, packed, 5), head, 40);
  k.roots[1] = ir_number(g, 3); /* data as a root */
  k.roots[2] = ir_gather(g, theta, (int32_t[]){11}, 1);
  k.nroots = 3;
  check_case(c, &k);
}

TEST(packs_of_rows) {
  Graph *g = ir_graph(c);
  enum { R = 20 };
  Node theta = ir_input(g, 0, 4), zero = ir_number(g, 0);
  Node u = map1(g, IR_SIN, ir_gather(g, theta, indexes(c, R, 4, 1), R)),
       v = map1(g, IR_COS, ir_gather(g, theta, indexes(c, R, 4, 2), R));
  Pick some[R], both[2 * R]; /* every third row has none; and two columns side by side */
  for (int r = 0; r < R; r++) {
    some[r] = r % 3 ? (Pick){v, r} : (Pick){zero, 0};
    both[2 * r] = (Pick){u, r};
    both[2 * r + 1] = (Pick){v, r};
  }
  Node head = map2(g, IR_ADD, map2(g, IR_MUL, u, ir_pack(g, some, R)),
                   ir_reduce(g, IR_LSE, ir_pack(g, both, 2 * R), 2));
  Case k = one_block(c, g, 4, ir_gather(g, theta, (int32_t[]){0}, 1), head, R);
  check_case(c, &k);
}

TEST(heads_that_are_no_tile_values) {
  Graph *g = ir_graph(c);
  Node theta = ir_input(g, 0, 5);
  Case k =
      one_block(c, g, 5, ir_gather(g, theta, (int32_t[]){0}, 1), theta, 5); /* the input itself */
  k.blocks[1] =
      block(ir_const(g, numbers(c, 9, 3), 9), NO_NODE, NO_NODE, 9, iota(c, 9), 9); /* data */
  int32_t zero[6] = {0};
  Node one = map1(g, IR_EXP, ir_gather(g, theta, (int32_t[]){1}, 1));
  k.blocks[2] = block(NO_NODE, ir_gather(g, one, zero, 6), NO_NODE, 6, iota(c, 6),
                      6); /* one value for all rows */
  k.nblocks = 3;
  check_case(c, &k);
}

TEST(blocks_that_share) {
  Graph *g = ir_graph(c);
  Node theta = ir_input(g, 0, 5), head = regression(c, g, 50, theta);
  Case k = one_block(c, g, 5, ir_gather(g, theta, (int32_t[]){4}, 1), head, 50);
  k.blocks[1] = block(map1(g, IR_EXP, head), head, NO_NODE, 50, iota(c, 7), 7);
  k.blocks[2] = block(head, NO_NODE, NO_NODE, 50, NULL, 0); /* nothing of it */
  k.nblocks = 3;
  check_case(c, &k);
}

/* Rows of a selection are, bit for bit, those rows of the whole. */
TEST(selections) {
  Graph *g = ir_graph(c);
  Node theta = ir_input(g, 0, 5);
  Case all = one_block(c, g, 5, ir_gather(g, theta, (int32_t[]){4}, 1),
                       regression(c, g, 131, theta), 131),
       some = all;
  int32_t select[] = {130, 0, 64, 65, 66, 12, 99, 3};
  some.blocks[0].select = select;
  some.blocks[0].nselect = 8;
  double *u = draws(c, 5, 20, 3);
  Run whole = run(c, &all, 20, u, 0), part = run(c, &some, 20, u, 2);
  size_t lanes = whole.seen.lanes;
  for (int i = 0; i < 8; i++)
    assert_memory_equal(part.seen.heads[0][0] + (size_t)i * lanes,
                        whole.seen.heads[0][0] + (size_t)select[i] * lanes, lanes * sizeof(double));
  check_case(c, &some);
}

/* ---- parts of a run -------------------------------------------------------------------------- */

static void count_rows(void *self, const TileView *t) { *(size_t *)self += t->rows; }

TEST(ranges) {
  Graph *g = ir_graph(c);
  Node theta = ir_input(g, 0, 5);
  Case k =
      one_block(c, g, 5, ir_gather(g, theta, (int32_t[]){4}, 1), regression(c, g, 131, theta), 131);
  k.blocks[1] = k.blocks[0];
  k.blocks[1].nselect = 10;
  k.nblocks = 2;
  Work *w =
      vm_work(&c->arena, vm_plan(&c->arena, &(VmPlan){g, 5, k.roots, 1, k.blocks, 2, VM_JOIN_MANY}),
              8, NULL);
  vm_forward(w, draws(c, 5, 8, 1));
  size_t total = 0;
  for (int part = 0; part < 5; part++) {
    size_t rows = 0, said = vm_set_range(w, part / 5.0, (part + 1) / 5.0);
    vm_tiles(w, count_rows, &rows, false);
    assert_int_equal(rows, said);
    total += rows;
  }
  assert_int_equal(total, 141);
  assert_int_equal(vm_set_range(w, 0, 1), 141);
}

TEST(adjoints_of_roots_alone) {
  Graph *g = ir_graph(c);
  Node theta = ir_input(g, 0, 5);
  Case k = one_block(c, g, 5, ir_reduce(g, IR_SUM, map1(g, IR_SQUARE, theta), 5),
                     regression(c, g, 30, theta), 30);
  double *u = draws(c, 5, 8, 1), *grad = NEW_ARRAY(&c->arena, double, 5 * LANES);
  Seen s = {.k = &k, .lanes = LANES, .visits = NEW_ARRAY(&c->arena, int, 30)};
  s.heads[0][0] = NEW_ARRAY(&c->arena, double, 30 * LANES);
  Work *w =
      vm_work(&c->arena, vm_plan(&c->arena, &(VmPlan){g, 5, k.roots, 1, k.blocks, 1, VM_JOIN_MANY}),
              8, NULL);
  vm_forward(w, u);
  vm_tiles(w, look, &s, true);
  vm_forward(w, u); /* a forward pass forgets the adjoints of tiles */
  vm_backward(w, (double[]){3}, NULL, grad);
  for (int e = 0; e < 5 * LANES; e++) assert_close(grad[e], 6 * u[e], 1e-15);
  double lane[LANES] = {1, 0, -2, 0.5, 3, 1, 1, 7}; /* a weight for every draw */
  vm_backward(w, (double[]){3}, lane, grad);
  for (int e = 0; e < 5 * LANES; e++) assert_close(grad[e], 6 * u[e] * lane[e % LANES], 1e-15);
}

TEST(shapes_and_printing) {
  Graph *g = ir_graph(c);
  Node theta = ir_input(g, 0, 5);
  Case k =
      one_block(c, g, 5, ir_gather(g, theta, (int32_t[]){4}, 1), regression(c, g, 30, theta), 30);
  Tape *t = vm_plan(&c->arena, &(VmPlan){g, 5, k.roots, 1, k.blocks, 1, VM_JOIN_MANY});
  assert_int_equal(vm_rows(t), 30);
  assert_true(vm_shape(t).tile_ops >= 2 && vm_shape(t).global_elements >= 5 &&
              vm_shape(t).tile_width < 10);
  Text out = text_make(&c->arena);
  vm_print(&out, t);
  assert_non_null(strstr(out.s, "NORMAL"));
  assert_non_null(strstr(out.s, "30 observations"));
}

/* ---- random graphs --------------------------------------------------------------------------- */

/* Nodes of three sizes: one element, one a row, W a row. */
enum { SCALAR, COLUMN, WIDE, SIZES, LIST = 64 };
typedef struct {
  Ctx *c;
  Graph *g;
  uint64_t seed;
  int32_t rows, width, dim;
  Node nodes[SIZES][LIST];
  int count[SIZES];
} Random;

static int32_t size_of(const Random *r, int s) {
  return s == SCALAR ? 1 : s == COLUMN ? r->rows : r->rows * r->width;
}
static int pick(Random *r, int n) { return (int)uniform(&r->seed, 0, n); }
static Node any(Random *r, int s) { return r->nodes[s][pick(r, r->count[s])]; }
static void add(Random *r, int s, Node x) {
  assert_int_equal(ir_size(r->g, x), size_of(r, s));
  if (r->count[s] < LIST) r->nodes[s][r->count[s]++] = x;
}

static const int32_t *some_indexes(Random *r, int32_t n, int32_t of) {
  return indexes(r->c, n, of, r->seed++ * 77);
}

/* Element w of every row of a wide node; a column spread over the elements; a wide node's elements
 * turned within the row. */
static const int32_t *row_indexes(Random *r, int32_t n, int kind) {
  int32_t *v = NEW_ARRAY(&r->c->arena, int32_t, n), W = r->width, w = pick(r, W);
  for (int32_t e = 0; e < n; e++)
    v[e] = kind == 0 ? e * W + w : kind == 1 ? e / W : e / W * W + (e + w) % W;
  return v;
}

static Node random_pack(Random *r, int s) {
  int32_t n = size_of(r, s);
  Pick *p = NEW_ARRAY(&r->c->arena, Pick, n);
  Node a = any(r, s), b = any(r, s), scalar = any(r, SCALAR);
  int every = 1 + pick(r, 3);
  for (int32_t e = 0; e < n; e++)
    p[e] = e % (every + 1) == every ? (Pick){scalar, 0} : (Pick){e % every ? a : b, e};
  return ir_pack(r->g, p, n);
}

static void grow(Random *r) {
  Graph *g = r->g;
  int s = 1 + pick(r, 2);
  int32_t n = size_of(r, s), wide = size_of(r, WIDE);
  switch (pick(r, 16)) {
  case 0: add(r, s, map1(g, IR_SIN, any(r, s))); break;
  case 1: add(r, s, map1(g, IR_TANH, map2(g, IR_MUL, any(r, s), any(r, s)))); break;
  case 2: add(r, s, map2(g, IR_ADD, any(r, s), any(r, SCALAR))); break;
  case 3: add(r, s, map2(g, IR_MUL, any(r, SCALAR), any(r, s))); break;
  case 4: add(r, s, map1(g, IR_TANH, map2(g, IR_SUB, any(r, s), any(r, s)))); break;
  case 5: add(r, COLUMN, ir_reduce(g, IR_LSE, any(r, WIDE), r->width)); break;
  case 6: add(r, COLUMN, map1(g, IR_SIN, ir_reduce(g, IR_SUM, any(r, WIDE), r->width))); break;
  case 7: add(r, SCALAR, map1(g, IR_TANH, ir_reduce(g, IR_SUM, any(r, s), n))); break;
  case 8: add(r, COLUMN, ir_gather(g, any(r, WIDE), row_indexes(r, r->rows, 0), r->rows)); break;
  case 9: add(r, WIDE, ir_gather(g, any(r, COLUMN), row_indexes(r, wide, 1), wide)); break;
  case 10: add(r, WIDE, ir_gather(g, any(r, WIDE), row_indexes(r, wide, 2), wide)); break;
  case 11: add(r, s, ir_gather(g, any(r, s), some_indexes(r, n, n), n)); break;
  case 12:
    add(r, s, map1(g, IR_TANH, ir_cumsum(g, any(r, s), pick(r, 2) ? n : n / r->rows)));
    break;
  case 13: {
    Node b = ir_gather(g, any(r, s), some_indexes(r, 3, n), 3);
    add(r, COLUMN,
        ir_matvec(g, ir_const(g, numbers(r->c, 3 * r->rows, r->seed++), 3 * r->rows), b));
    break;
  }
  case 14: {
    Node a = ir_gather(g, any(r, COLUMN), some_indexes(r, 2 * r->rows, r->rows), 2 * r->rows);
    Node b = ir_gather(g, any(r, s), some_indexes(r, 2 * r->width, n), 2 * r->width);
    add(r, WIDE, map1(g, IR_TANH, ir_matmul(g, a, b, 2, r->width)));
    break;
  }
  default: add(r, s, random_pack(r, s));
  }
}

static Case random_case(Ctx *c, uint64_t seed) {
  Random r = {.c = c, .g = ir_graph(c), .seed = seed * 1000};
  r.rows = 1 + pick(&r, 40), r.width = 2 + pick(&r, 3), r.dim = 3 + pick(&r, 5);
  Node theta = ir_input(r.g, 0, r.dim);
  for (int32_t k = 0; k < r.dim; k++) add(&r, SCALAR, ir_gather(r.g, theta, &k, 1));
  for (int s = COLUMN; s <= WIDE; s++) {
    int32_t n = size_of(&r, s);
    add(&r, s, ir_const(r.g, numbers(c, n, r.seed++), n));
    add(&r, s, ir_gather(r.g, theta, some_indexes(&r, n, r.dim), n));
  }
  for (int k = 0; k < 25; k++) grow(&r);
  Case k = {.g = r.g,
            .dim = (size_t)r.dim,
            .roots = {any(&r, SCALAR), any(&r, SCALAR)},
            .nroots = 2,
            .nblocks = 2};
  for (int b = 0; b < 2; b++) {
    int32_t *select = NEW_ARRAY(&c->arena, int32_t, r.rows), n = 0;
    for (int32_t i = 0; i < r.rows; i++)
      if (b == 0 || pick(&r, 2))
        select[n++] = b ? r.rows - 1 - i : i; /* all in order; some, backwards */
    Node last = r.nodes[COLUMN][r.count[COLUMN] - 1], wide = r.nodes[WIDE][r.count[WIDE] - 1];
    k.blocks[b] = block(b ? any(&r, COLUMN) : last, b ? NO_NODE : any(&r, COLUMN),
                        b ? any(&r, WIDE) : wide, r.rows, select, n);
  }
  return k;
}

static void check_close(const Case *k, const Run *r, const Run *o) {
  size_t lanes = r->seen.lanes;
  for (size_t e = 0; e < k->dim * lanes; e++) assert_close(r->grad[e], o->grad[e], 1e-12);
  for (int i = 0; i < k->nroots; i++)
    for (size_t j = 0; j < lanes; j++) assert_close(r->roots[i][j], o->roots[i][j], 1e-12);
  for (int b = 0; b < k->nblocks; b++)
    for (int h = 0; h < VM_HEADS; h++)
      for (size_t e = 0; r->seen.heads[b][h] &&
                         e < (size_t)(k->blocks[b].nselect * head_width(k, b, h)) * r->seen.lanes;
           e++)
        assert_close(r->seen.heads[b][h][e], o->seen.heads[b][h][e], 1e-12);
}

/* A case with its small nodes joined and not, with threads and without. */
static void check_joined(Ctx *c, Case *k, uint64_t seed) {
  double *theta = draws(c, k->dim, 19, seed);
  k->join = VM_JOIN_NONE;
  Run apart = run(c, k, 19, theta, 0), threads = run(c, k, 19, theta, 3);
  check_same(k, &apart, &threads);
  check_draw(c, k, &apart, theta, 18);
  k->join = VM_JOIN_ALL;
  Run joined = run(c, k, 19, theta, 0);
  threads = run(c, k, 19, theta, 3);
  check_same(k, &joined, &threads);
  check_close(k, &apart, &joined);
}

TEST(random_tapes) {
  for (uint64_t seed = 1; seed <= 400; seed++) {
    ArenaMark mark = arena_mark(&c->arena);
    Case k = random_case(c, seed);
    check_joined(c, &k, seed);
    arena_reset(&c->arena, mark);
  }
}

/* ---- random recurrences ---------------------------------------------------------------------- */

/* States that change from step to step, as an unrolled loop leaves them: nodes of one element or a
 * few. `past` is all that was made so far. */
enum { STEPS = 9, MOST_STATES = 4, MOST_PAST = 512, MOST_SHAPE = 6 };
typedef struct {
  Ctx *c;
  Graph *g;
  uint64_t seed;
  Node theta, past[MOST_PAST], state[MOST_STATES], data;
  int npast, states;
} Steps;

static int choose(Steps *s, int n) { return (int)uniform(&s->seed, 0, n); }
static Node element(Steps *s, Node x, int32_t e) { return ir_gather(s->g, x, &e, 1); }
static Node remembered(Steps *s, Node x) {
  assert_int_equal(ir_size(s->g, x), 1);
  if (s->npast < MOST_PAST) s->past[s->npast++] = x;
  return x;
}

/* Some of the past, the latest most often, now and then twice; now and then a number. */
static Node some_of_past(Steps *s, int32_t n) {
  Pick p[8];
  for (int32_t k = 0; k < n; k++) {
    int back = choose(s, 2) ? choose(s, s->states + 1) : choose(s, s->npast);
    p[k] = choose(s, 12) ? (Pick){s->past[s->npast - 1 - back % s->npast], 0}
                         : (Pick){s->data, choose(s, 20)};
  }
  return ir_pack(s->g, p, n);
}

static Node next_state(Steps *s, int how, int k, int t) {
  Graph *g = s->g;
  Node x = s->state[k], y = s->state[(k + 1) % s->states], p = element(s, s->theta, k);
  switch (how) {
  case 0: return map1(g, IR_TANH, map2(g, IR_ADD, map2(g, IR_MUL, p, x), element(s, s->data, t)));
  case 1: return ir_reduce(g, IR_LSE, some_of_past(s, 3), 3);
  case 2: {
    Node w = ir_const(g, numbers(s->c, 5, s->seed++), 5);
    return map1(g, IR_SIN, ir_matvec(g, w, some_of_past(s, 5)));
  }
  case 3: return element(s, map1(g, IR_TANH, ir_cumsum(g, some_of_past(s, 4), 2)), choose(s, 4));
  case 4: return map1(g, IR_SQRT, map2(g, IR_ADD, map1(g, IR_SQUARE, y), map1(g, IR_EXP, p)));
  default: return map2(g, IR_SUB, map1(g, IR_SIN, x), ir_reduce(g, IR_SUM, some_of_past(s, 2), 2));
  }
}

static Case recurrence(Ctx *c, uint64_t seed) {
  Steps s = {.c = c, .g = ir_graph(c), .seed = seed * 131};
  int32_t dim = MOST_STATES + 2;
  s.states = 1 + choose(&s, MOST_STATES);
  s.theta = ir_input(s.g, 0, dim);
  s.data = ir_const(s.g, numbers(c, 20, seed), 20);
  int how[MOST_STATES];
  Pick first[STEPS], last[STEPS];
  for (int k = 0; k < s.states; k++) {
    s.state[k] = remembered(&s, element(&s, s.theta, k));
    how[k] = choose(&s, MOST_SHAPE);
  }
  for (int t = 0; t < STEPS; t++) {
    Node next[MOST_STATES];
    for (int k = 0; k < s.states; k++)
      next[k] = next_state(&s, choose(&s, 10) ? how[k] : choose(&s, MOST_SHAPE), k, t);
    for (int k = 0; k < s.states; k++) s.state[k] = remembered(&s, next[k]);
    Node density = ir_map(s.g, IR_NORMAL,
                          (Node[]){element(&s, s.data, t), s.state[0],
                                   element(&s, s.theta, dim - 1), element(&s, s.theta, dim - 2)});
    first[t] = (Pick){density, 0};
    last[t] = (Pick){s.state[s.states - 1], 0};
  }
  Node head = ir_pack(s.g, first, STEPS), other = ir_pack(s.g, last, STEPS);
  Case k = one_block(c, s.g, (size_t)dim, ir_reduce(s.g, IR_SUM, other, STEPS), head, STEPS);
  k.blocks[0].heads[1] = other;
  return k;
}

TEST(random_recurrences) {
  for (uint64_t seed = 1; seed <= 300; seed++) {
    ArenaMark mark = arena_mark(&c->arena);
    Case k = recurrence(c, seed);
    check_joined(c, &k, seed);
    arena_reset(&c->arena, mark);
  }
}

/* All steps of a recurrence want the same of data and parameters, and the same is done with what
 * they make: joined, a tape has a few instructions a step. */
TEST(joined_steps) {
  enum { T = 200 };
  Graph *g = ir_graph(c);
  Node theta = ir_input(g, 0, 3), state = ir_number(g, 0.5);
  const double *y = numbers(c, T, 3);
  Pick picks[T];
  for (int t = 0; t < T; t++) { /* s = tanh(a s + (y - b)^2); a density of y given s */
    Node a = ir_gather(g, theta, (int32_t[]){0}, 1), b = ir_gather(g, theta, (int32_t[]){1}, 1);
    Node away = map1(g, IR_SQUARE, map2(g, IR_SUB, ir_number(g, y[t]), b));
    state = map1(g, IR_TANH, map2(g, IR_ADD, map2(g, IR_MUL, a, state), away));
    picks[t] = (Pick){map2(g, IR_MUL, ir_number(g, y[t]), map1(g, IR_EXP, state)), 0};
  }
  Case k = one_block(c, g, 3, ir_number(g, 0), ir_pack(g, picks, T), T);
  VmPlan plan = {g, 3, k.roots, 1, k.blocks, 1, VM_JOIN_MANY};
  assert_true(vm_shape(vm_plan(&c->arena, &plan)).global_ops <= 3 * T + 10);
  plan.join = VM_JOIN_NONE;
  assert_true(vm_shape(vm_plan(&c->arena, &plan)).global_ops >= 7 * (T - 1));
  check_joined(c, &k, 1);
}

/* x = a x + c, c - a x, or y minus these, where the first x, c and y come from anywhere: numbers,
 * parameters, a itself, states before. Joined, it is a loop whose state stays in registers; not
 * joined, products and sums. */
typedef struct {
  Ctx *c;
  Graph *g;
  Node theta, x[32], a;
  const double *numbers;
} Linear;

enum { FROM_NUMBERS, FROM_PARAMETERS, FROM_FACTOR, FROM_BEFORE, FROM_LONG_BEFORE, SOURCES };

static Node linear_source(const Linear *l, int from, int t) {
  switch (from) {
  case FROM_NUMBERS: return ir_number(l->g, l->numbers[t]);
  case FROM_PARAMETERS: return ir_gather(l->g, l->theta, (int32_t[]){1 + t % 3}, 1);
  case FROM_FACTOR: return l->a;
  case FROM_BEFORE: return t ? l->x[t - 1] : l->a;
  default: return t > 2 ? l->x[t - 3] : ir_gather(l->g, l->theta, (int32_t[]){2}, 1);
  }
}

static Case linear_recurrence(Ctx *c, int first, int added, int apart, bool minus) {
  enum { T = 20 };
  Linear l = {.c = c, .g = ir_graph(c), .numbers = numbers(c, 2 * T, 3)};
  Graph *g = l.g;
  l.theta = ir_input(g, 0, 4);
  l.a = map1(g, IR_TANH, ir_gather(g, l.theta, (int32_t[]){0}, 1));
  Node state = linear_source(&l, first, 0);
  Pick picks[T];
  for (int t = 0; t < T; t++) {
    Node product = map2(g, IR_MUL, t % 2 ? state : l.a, t % 2 ? l.a : state);
    Node other = linear_source(&l, added, t);
    state = minus ? map2(g, IR_SUB, other, product) : map2(g, IR_ADD, other, product);
    if (apart < SOURCES) state = map2(g, IR_SUB, linear_source(&l, apart, t ? t : T), state);
    picks[t] = (Pick){l.x[t] = state, 0};
  }
  Node all = ir_pack(g, picks, T);
  Case k = one_block(c, g, 4, ir_reduce(g, IR_SUM, map1(g, IR_TANH, all), T), all, T);
  return k;
}

TEST(linear_recurrences) {
  int loops = 0, cases = 0;
  for (int first = 0; first < FROM_BEFORE; first++)
    for (int added = 0; added < SOURCES; added++)
      for (int apart = 0; apart <= SOURCES; apart++)
        for (int minus = 0; minus < 2; minus++) {
          ArenaMark mark = arena_mark(&c->arena);
          Case k = linear_recurrence(c, first, added, apart, minus);
          check_joined(c, &k, 1);
          VmPlan plan = {k.g, k.dim, k.roots, 1, k.blocks, 1, VM_JOIN_ALL};
          Text t = text_make(&c->arena);
          vm_print(&t, vm_plan(&c->arena, &plan));
          loops += strstr(t.s, "a loop of ") != NULL;
          cases++;
          arena_reset(&c->arena, mark);
        }
  assert_true(2 * loops > cases);
}

/* A chain of hidden states: log alpha[t, j] = log sum_i exp(log alpha[t - 1, i] + A[i, j]) +
 * emission of j; parameters are so large now and then that products of exponentials underflow. */
TEST(hidden_states) {
  for (int32_t K = 2; K <= 4; K++)
    for (int far = 0; far < 2; far++) {
      enum { T = 12 };
      Graph *g = ir_graph(c);
      int32_t dim = K * K + K;
      Node theta = ir_input(g, 0, dim),
           scaled = map2(g, IR_MUL, theta, ir_number(g, far ? 900 : 1));
      Node A = map1(g, IR_SIN, scaled), mean = ir_gather(g, theta, iota(c, K), K), state[4];
      if (far) A = map2(g, IR_MUL, A, ir_number(g, 700));
      const double *y = numbers(c, T, 5);
      for (int32_t j = 0; j < K; j++) state[j] = ir_gather(g, mean, &j, 1);
      for (int t = 0; t < T; t++) {
        Node next[4];
        for (int32_t j = 0; j < K; j++) {
          Pick ways[4];
          Node emission = map2(g, IR_MUL, ir_number(g, y[t]), ir_gather(g, mean, &j, 1));
          for (int32_t i = 0; i < K; i++) {
            int32_t at = i * K + j;
            Node way = map2(g, IR_ADD, state[i], ir_gather(g, A, &at, 1));
            ways[i] = (Pick){map2(g, IR_ADD, way, emission), 0};
          }
          next[j] = ir_reduce(g, IR_LSE, ir_pack(g, ways, K), K);
        }
        memcpy(state, next, sizeof state);
      }
      Pick last[4];
      for (int32_t j = 0; j < K; j++) last[j] = (Pick){state[j], 0};
      Node end = ir_pack(g, last, K);
      Case k = one_block(c, g, (size_t)dim, ir_reduce(g, IR_LSE, end, K), end, K);
      k.join = VM_JOIN_ALL;
      double *draw = draws(c, k.dim, 19, (uint64_t)K);
      Run joined = run(c, &k, 19, draw, 0);
      k.join = VM_JOIN_NONE;
      Run apart = run(c, &k, 19, draw, 0);
      if (!far) check_joined(c, &k, 3);
      for (size_t j = 0; j < 19; j++) /* values of thousands, derivatives of as many */
        assert_close(joined.roots[0][j], apart.roots[0][j], 1e-12);
      for (size_t e = 0; e < k.dim * joined.seen.lanes; e++)
        assert_close(joined.grad[e], apart.grad[e], far ? 1e-9 : 1e-12);
    }
}

/* Products of matrices of which one is numbers, or none. */
TEST(products) {
  for (int which = 0; which < 3; which++)
    for (int32_t rows = 1; rows <= 9; rows += 4)
      for (int32_t columns = 1; columns <= 5; columns += 2) {
        Graph *g = ir_graph(c);
        int32_t inner = 3, na = rows * inner, nb = inner * columns, n = rows * columns;
        Node theta = ir_input(g, 0, 6);
        Node a = which == 0 ? ir_const(g, numbers(c, na, 1), na)
                            : ir_gather(g, theta, indexes(c, na, 6, 2), na);
        Node b = which == 1 ? ir_const(g, numbers(c, nb, 3), nb)
                            : map1(g, IR_SIN, ir_gather(g, theta, indexes(c, nb, 6, 4), nb));
        Node out = map1(g, IR_TANH, ir_matmul(g, a, b, inner, columns));
        Case k = one_block(c, g, 6, ir_reduce(g, IR_SUM, out, n), out, n);
        check_case(c, &k);
      }
}

/* ---- row kernels ----------------------------------------------------------------------------- */

static void check_gemm(Ctx *c, const Kernels *k, size_t rows, size_t inner, size_t n,
                       bool transposed, bool add_to) {
  double *A = numbers(c, (int32_t)(rows * inner), 1), *B = numbers(c, (int32_t)(inner * n), 2),
         *C = numbers(c, (int32_t)(rows * n), 3);
  double *want = NEW_ARRAY(&c->arena, double, rows *n);
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < n; j++) {
      double s = add_to ? C[i * n + j] : 0;
      for (size_t m = 0; m < inner; m++)
        s += A[transposed ? m * rows + i : i * inner + m] * B[m * n + j];
      want[i * n + j] = s;
    }
  k->gemm(&(RowProduct){C, n, A, transposed ? 1 : inner, transposed ? rows : 1, B, n, rows, inner,
                        n, add_to});
  for (size_t e = 0; e < rows * n; e++) assert_close(C[e], want[e], 1e-14);
}

static void check_rows(Ctx *c, const Kernels *k, size_t m) {
  size_t n = (m + LANES - 1) / LANES * LANES;
  double *a = numbers(c, (int32_t)n, 1), *b = numbers(c, (int32_t)n, 2),
         *out = numbers(c, (int32_t)n, 3);
  double *w = NEW_ARRAY(&c->arena, double, n), *before = NEW_ARRAY(&c->arena, double, n), sum = 0,
         dot = 0, total = 0;
  for (size_t j = 0; j < m; j++) sum += a[j], dot += a[j] * b[j], total += exp(a[j]);
  assert_close(k->sum(a, m), sum, 1e-14);
  assert_close(k->dot(a, b, m), dot, 1e-14);
  assert_close(k->softmax(w, a, m), log(total), 1e-14);
  assert_close(k->softmax(NULL, a, m), log(total), 1e-14);
  for (size_t j = 0; j < n; j++) assert_close(w[j], j < m ? exp(a[j]) / total : 0, 1e-14);
  memcpy(before, out, n * sizeof *out);
  k->add(out, a, n);
  k->axpy(out, -2, b, n);
  k->multiply_add(out, a, b, n);
  for (size_t j = 0; j < n; j++)
    assert_close(out[j], before[j] + a[j] - 2 * b[j] + a[j] * b[j], 1e-14);
}

static void check_lse(Ctx *c, const Kernels *k, size_t width, size_t n) {
  const double *in[5];
  double *adj[5], copies[LANES], *out = NEW_ARRAY(&c->arena, double, n),
                                 *g = numbers(c, (int32_t)n, 9);
  size_t step[5];
  for (int j = 0; j < LANES; j++) copies[j] = 0.7;
  for (size_t w = 0; w < width; w++) {
    step[w] = w != 1; /* the second is data */
    in[w] = step[w] ? numbers(c, (int32_t)n, w + 1) : copies;
    adj[w] = step[w] ? NEW_ARRAY(&c->arena, double, n) : NULL;
  }
  const RowList terms = {in, step, width};
  k->log_sum_exp(out, &terms, n);
  k->log_sum_exp_adjoint(g, out, &terms, adj, n);
  for (size_t j = 0; j < n; j++) {
    double s = 0;
    for (size_t w = 0; w < width; w++) s += exp(in[w][step[w] * j]);
    assert_close(out[j], log(s), 1e-14);
    for (size_t w = 0; w < width; w++)
      if (adj[w]) assert_close(adj[w][j], g[j] * exp(in[w][j]) / s, 1e-14);
  }
}

/* A mixture is the log_sum_exp of sums, value and derivatives, also where products of exponentials
 * underflow, overflow or are zero. */
static void check_mixture(Ctx *c, const Kernels *k, size_t width, size_t terms, double scale) {
  enum { MOST = 12, N = 2 * LANES };
  const double *log[MOST], *exps[MOST], *sums[MOST];
  double *adj[MOST], *sum_adj[MOST], out[N], want[N], *g = numbers(c, N, 9);
  size_t step[MOST];
  for (size_t e = 0; e < width * terms; e++) {
    double *l = numbers(c, N, 20 + e), *x = NEW_ARRAY(&c->arena, double, N);
    for (int j = 0; j < N; j++) {
      l[j] *= j % 3 ? 1 : scale;
      if (j == 5 && e == 0) l[j] = -INFINITY;
      if (j == 6) l[j] = -INFINITY;
      x[j] = exp(l[j]);
    }
    log[e] = l, exps[e] = x;
    adj[e] = NEW_ARRAY(&c->arena, double, N);
  }
  g[7] = 0;
  for (size_t w = 0; w < width; w++) {
    double *s = NEW_ARRAY(&c->arena, double, N);
    for (size_t t = 0; t < terms; t++) k->add(s, log[w * terms + t], N);
    sums[w] = s, step[w] = 1;
    sum_adj[w] = NEW_ARRAY(&c->arena, double, N);
  }
  const RowList list = {sums, step, width};
  const MixtureRows m = {width, terms, log, exps, adj};
  k->log_sum_exp(want, &list, N);
  k->log_sum_exp_adjoint(g, want, &list, sum_adj, N);
  k->mixture(out, &m, N);
  k->mixture_adjoint(g, out, &m, N);
  for (int j = 0; j < N; j++) {
    assert_true(out[j] == want[j] || fabs(out[j] - want[j]) <= 1e-14 * (1 + fabs(want[j])));
    for (size_t e = 0; e < width * terms; e++) /* the logarithms' own rounding: 1e-16 times them */
      assert_true(fabs(adj[e][j] - sum_adj[e / terms][j]) <= 1e-15 * (4 + fabs(want[j])) ||
                  isnan(sum_adj[e / terms][j]));
  }
}

/* Words of documents: few values that many rows share. */
TEST(mixtures_of_shared_values) {
  for (int32_t K = 1; K <= 4; K++) {
    Graph *g = ir_graph(c);
    enum { ROWS = 90, DOCS = 4, WORDS = 7 };
    int32_t dim = K * (DOCS + WORDS);
    Node theta = ir_input(g, 0, dim), values = map1(g, IR_SIN, theta);
    Pick *picks = NEW_ARRAY(&c->arena, Pick, ROWS * K);
    for (int32_t k = 0; k < K; k++) {
      const int32_t *doc = indexes(c, ROWS, DOCS, 1), *word = indexes(c, ROWS, WORDS, 2);
      int32_t *a = NEW_ARRAY(&c->arena, int32_t, ROWS), *b = NEW_ARRAY(&c->arena, int32_t, ROWS);
      for (int r = 0; r < ROWS; r++) a[r] = doc[r] * K + k, b[r] = K * DOCS + k * WORDS + word[r];
      Node sum = map2(g, IR_ADD, ir_gather(g, values, a, ROWS), ir_gather(g, theta, b, ROWS));
      for (int32_t r = 0; r < ROWS; r++) picks[r * K + k] = (Pick){sum, r};
    }
    Node head = ir_reduce(g, IR_LSE, ir_pack(g, picks, ROWS * K), K);
    Case k = one_block(c, g, (size_t)dim, ir_gather(g, theta, (int32_t[]){0}, 1), head, ROWS);
    check_case(c, &k);
    Text out = text_make(&c->arena);
    vm_print(&out,
             vm_plan(&c->arena, &(VmPlan){g, (size_t)dim, k.roots, 1, k.blocks, 1, VM_JOIN_MANY}));
    assert_true(K == 1 || strstr(out.s, "mixture") != NULL);
  }
}

TEST(row_kernels) {
  static const char *const sets[] = {"base", "avx2", "avx512"};
  for (int s = 0; s < 3; s++) {
    const Kernels *k = kernels_named(sets[s]);
    if (!k) continue;
    for (size_t rows = 1; rows <= 9; rows += 2)
      for (size_t n = LANES; n <= 5 * LANES; n += LANES)
        for (int way = 0; way < 4; way++) check_gemm(c, k, rows, 1 + rows % 4, n, way & 1, way & 2);
    for (size_t m = 1; m <= 35; m++) check_rows(c, k, m);
    for (size_t width = 1; width <= 5; width++) check_lse(c, k, width, 3 * LANES);
    for (size_t width = 1; width <= 4; width++)
      for (size_t terms = 1; terms <= 3; terms++) {
        check_mixture(c, k, width, terms, 1);
        check_mixture(c, k, width, terms, 1200);
      }
  }
}

/* Rows with what a density may be: far below the others, nan, infinite. */
static void check_softmax_rows(Ctx *c, const Kernels *k, size_t m, const double *plus) {
  enum { ROWS = 11 };
  static const double odd[] = {NAN, INFINITY, -INFINITY, -1e308, -690, -710, 5, 1e5};
  size_t ld = (m + LANES - 1) / LANES * LANES, nodd = sizeof odd / sizeof *odd;
  double *l = numbers(c, (int32_t)(ROWS * ld), m), *w = numbers(c, (int32_t)(ROWS * ld), 5),
         out[ROWS];
  for (size_t r = 1; r < ROWS; r++) /* the padding, too */
    for (size_t j = 0; j < ld; j++)
      if ((j * 7 + m) % r == 0) l[r * ld + j] = odd[(r + j) % (r == 10 ? 2 : nodd)];
  k->softmax_rows(&(SoftmaxRows){w, l, plus, ld, ROWS, m, out});
  for (size_t r = 0; r < ROWS; r++) {
    double peak = -INFINITY, total = 0;
    for (size_t j = 0; j < ld; j++) {
      double x = l[r * ld + j] + (plus ? plus[j] : 0);
      l[r * ld + j] = j < m && x < INFINITY ? x : -INFINITY;
      peak = fmax(peak, l[r * ld + j]);
    }
    for (size_t j = 0; j < m && peak > -INFINITY; j++) total += exp(l[r * ld + j] - peak);
    if (peak > -INFINITY)
      assert_true(fabs(out[r] - peak - log(total)) <= 1e-14 * (1 + fabs(peak)));
    else
      assert_true(out[r] == -INFINITY);
    for (size_t j = 0; j < ld; j++)
      assert_close(w[r * ld + j], peak > -INFINITY ? exp(l[r * ld + j] - peak) / total : 0, 1e-14);
  }
}

TEST(softmax_of_extremes) {
  static const char *const sets[] = {"base", "avx2", "avx512"};
  for (int s = 0; s < 3; s++) {
    const Kernels *k = kernels_named(sets[s]);
    if (!k) continue;
    double w[LANES], far[LANES] = {-2000, -2001, -INFINITY},
                     none[LANES] = {-INFINITY, -INFINITY, -INFINITY};
    assert_close(k->softmax(w, far, 3), -2000 + log1p(exp(-1)), 1e-14);
    assert_close(w[0], 1 / (1 + exp(-1)), 1e-14);
    assert_true(w[2] == 0 && w[3] == 0);
    assert_true(k->softmax(NULL, none, 3) == -INFINITY);
    for (size_t m = 1; m <= 35; m++) {
      check_softmax_rows(c, k, m, NULL);
      check_softmax_rows(c, k, m, numbers(c, 40, 3));
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gather_and_matvec),
      cmocka_unit_test(sorted_groups),
      cmocka_unit_test(rows_of_several_elements),
      cmocka_unit_test(everything_global),
      cmocka_unit_test(packs_of_rows),
      cmocka_unit_test(heads_that_are_no_tile_values),
      cmocka_unit_test(blocks_that_share),
      cmocka_unit_test(selections),
      cmocka_unit_test(ranges),
      cmocka_unit_test(adjoints_of_roots_alone),
      cmocka_unit_test(shapes_and_printing),
      cmocka_unit_test(random_tapes),
      cmocka_unit_test(random_recurrences),
      cmocka_unit_test(linear_recurrences),
      cmocka_unit_test(joined_steps),
      cmocka_unit_test(hidden_states),
      cmocka_unit_test(products),
      cmocka_unit_test(mixtures_of_shared_values),
      cmocka_unit_test(row_kernels),
      cmocka_unit_test(softmax_of_extremes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
