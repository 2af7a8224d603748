/* test_ir.c: the graph's builder, affine functions, and every row of ops.def: its value, its
 * partial derivatives against finite differences, all instruction sets against each other. A new
 * row is tested by existing. */
#include "testing.h"

#include "ir/affine.h"
#include "vm/kernels.h"
#include "vm/vm.h"

/* ---- the builder: nodes are made once -------------------------------------------------------- */

static Node map1(Graph *g, unsigned op, Node a) { return ir_map(g, op, (Node[]){a}); }
static Node map2(Graph *g, unsigned op, Node a, Node b) { return ir_map(g, op, (Node[]){a, b}); }

TEST(equal_nodes_are_one) {
  Graph *g = ir_graph(c);
  const double v[] = {1, 2, 3}, w[] = {1, 2, 4};
  assert_int_equal(ir_const(g, v, 3), ir_const(g, v, 3));
  assert_int_not_equal(ir_const(g, v, 3), ir_const(g, w, 3));
  assert_int_not_equal(ir_const(g, v, 3), ir_const(g, v, 2));
  assert_int_not_equal(ir_number(g, 0.0), ir_number(g, -0.0));
  assert_int_equal(ir_number(g, NAN), ir_number(g, NAN));
  Node x = ir_input(g, 0, 3), y = ir_input(g, 3, 3);
  assert_int_equal(x, ir_input(g, 0, 3));
  assert_int_not_equal(x, y);
  assert_int_equal(map2(g, IR_ADD, x, y), map2(g, IR_ADD, x, y));
  assert_int_not_equal(map2(g, IR_SUB, x, y), map2(g, IR_SUB, y, x));
  assert_int_not_equal(map2(g, IR_SUB, x, y), map2(g, IR_ADD, x, y));
  const int32_t at[] = {2, 0};
  assert_int_equal(ir_gather(g, x, at, 2), ir_gather(g, x, at, 2));
  assert_int_equal(ir_reduce(g, IR_SUM, x, 3), ir_reduce(g, IR_SUM, x, 3));
  assert_int_not_equal(ir_reduce(g, IR_SUM, x, 3), ir_reduce(g, IR_LSE, x, 3));
}

TEST(the_builder_copies) {
  Graph *g = ir_graph(c);
  double v[] = {1, 2, 3};
  int32_t at[] = {2, 0};
  Node x = ir_input(g, 0, 3), k = ir_const(g, v, 3), p = ir_gather(g, x, at, 2);
  v[0] = at[0] = 0;
  assert_true(ir_node(g, k)->u.values[0] == 1);
  assert_int_equal(ir_node(g, p)->u.index[0], 2);
}

TEST(identities) {
  Graph *g = ir_graph(c);
  Node x = ir_input(g, 0, 3), zero = ir_number(g, 0), one = ir_number(g, 1);
  Node zeros = ir_const(g, (double[]){0, 0, 0}, 3), ones = ir_const(g, (double[]){1, 1, 1}, 3);
  assert_int_equal(map1(g, IR_NEG, map1(g, IR_NEG, x)), x);
  assert_int_equal(map1(g, IR_LOG, map1(g, IR_EXP, x)), x);
  assert_int_equal(map1(g, IR_INV, map1(g, IR_INV, x)), x);
  assert_int_equal(map2(g, IR_ADD, x, zero), x);
  assert_int_equal(map2(g, IR_ADD, zeros, x), x);
  assert_int_equal(map2(g, IR_SUB, x, zeros), x);
  assert_int_equal(map2(g, IR_MUL, x, one), x);
  assert_int_equal(map2(g, IR_MUL, ones, x), x);
  assert_int_equal(map2(g, IR_DIV, x, ones), x);
  /* what would not hold for every number, or would change the size, stays */
  assert_int_not_equal(map2(g, IR_SUB, zero, x), x);
  assert_int_not_equal(map2(g, IR_MUL, x, zero), zero);
  assert_int_not_equal(map2(g, IR_DIV, one, x), x);
  Node s = ir_input(g, 0, 1);
  assert_int_equal(ir_size(g, map2(g, IR_ADD, s, zeros)), 3);
  assert_int_equal(ir_size(g, map2(g, IR_MUL, ones, s)), 3);
}

/* sqrt(x)^2 is x where x is seen to be never below 0, as the variance of a GARCH model is. */
TEST(squares_of_roots) {
  Graph *g = ir_graph(c);
  Node x = ir_input(g, 0, 1), y = ir_input(g, 1, 1), e = map1(g, IR_EXP, x),
       half = ir_number(g, 0.5);
  Node above[] = {e, map1(g, IR_INV_LOGIT, y),
                  map2(g, IR_ADD, e, map2(g, IR_MUL, half, map1(g, IR_SQUARE, y))),
                  map1(g, IR_ABS, y)},
       other[] = {x, map2(g, IR_ADD, e, y), map2(g, IR_MUL, e, ir_number(g, -1)),
                  map2(g, IR_SUB, e, half), map2(g, IR_DIV, e, e)};
  for (size_t k = 0; k < sizeof above / sizeof *above; k++)
    assert_int_equal(map1(g, IR_SQUARE, map1(g, IR_SQRT, above[k])), above[k]);
  for (size_t k = 0; k < sizeof other / sizeof *other; k++)
    assert_int_not_equal(map1(g, IR_SQUARE, map1(g, IR_SQRT, other[k])), other[k]);
}

TEST(constants_of_equal_numbers_are_broadcast) {
  Graph *g = ir_graph(c);
  Node x = ir_input(g, 0, 3), sevens = ir_const(g, (double[]){7, 7, 7}, 3);
  Node sum = map2(g, IR_ADD, x, sevens);
  assert_int_equal(ir_size(g, ir_node(g, sum)->args[1]), 1);
  assert_int_equal(sum, map2(g, IR_ADD, x, ir_number(g, 7)));
  /* but one operand must carry the size */
  Node kept = map2(g, IR_ADD, sevens, ir_input(g, 0, 1));
  assert_int_equal(ir_size(g, kept), 3);
  assert_int_equal(ir_size(g, ir_node(g, kept)->args[0]), 3);
}

TEST(gathers) {
  Graph *g = ir_graph(c);
  Node x = ir_input(g, 0, 4);
  assert_int_equal(ir_gather(g, x, (int32_t[]){0, 1, 2, 3}, 4), x);
  Node a = ir_gather(g, x, (int32_t[]){3, 1, 0}, 3);
  Node b = ir_gather(g, a, (int32_t[]){2, 0, 0, 1}, 4); /* of a gather: one gather of x */
  assert_int_equal(b, ir_gather(g, x, (int32_t[]){0, 3, 3, 1}, 4));
  assert_int_equal(ir_node(g, b)->args[0], x);
  Node back = ir_gather(g, ir_gather(g, x, (int32_t[]){3, 2, 1, 0}, 4), (int32_t[]){3, 2, 1, 0}, 4);
  assert_int_equal(back, x);
  Node k = ir_gather(g, ir_const(g, (double[]){5, 6}, 2), (int32_t[]){1, 1, 0}, 3);
  assert_int_equal(k, ir_const(g, (double[]){6, 6, 5}, 3));
}

TEST(packs) {
  Graph *g = ir_graph(c);
  Node x = ir_input(g, 0, 2), y = ir_input(g, 2, 2), k = ir_const(g, (double[]){5, 6}, 2);
  assert_int_equal(ir_pack(g, (Pick[]){{x, 0}, {x, 1}}, 2), x);
  assert_int_equal(ir_pack(g, (Pick[]){{x, 1}, {x, 0}}, 2), ir_gather(g, x, (int32_t[]){1, 0}, 2));
  assert_int_equal(ir_pack(g, (Pick[]){{k, 1}, {k, 1}}, 2), ir_const(g, (double[]){6, 6}, 2));
  Node p = ir_pack(g, (Pick[]){{x, 1}, {y, 0}, {k, 0}}, 3);
  assert_int_equal(ir_node(g, p)->op, IR_PACK);
  /* an element of a pack or of a gather is an element of what it was taken from */
  assert_int_equal(ir_pack(g, (Pick[]){{p, 0}, {p, 0}}, 2), ir_gather(g, x, (int32_t[]){1, 1}, 2));
  assert_int_equal(ir_gather(g, p, (int32_t[]){2}, 1), ir_number(g, 5));
  Node swapped = ir_gather(g, y, (int32_t[]){1, 0}, 2);
  Node q = ir_pack(g, (Pick[]){{swapped, 0}, {p, 1}, {x, 0}}, 3);
  const Pick *picks = ir_node(g, q)->u.picks;
  assert_true(picks[0].node == y && picks[0].elem == 1 && picks[1].node == y && picks[1].elem == 0);
}

TEST(reductions_of_one) {
  Graph *g = ir_graph(c);
  Node x = ir_input(g, 0, 3);
  assert_int_equal(ir_reduce(g, IR_SUM, x, 1), x);
  assert_int_equal(ir_reduce(g, IR_LSE, x, 1), x);
  assert_int_equal(ir_cumsum(g, x, 1), x);
  assert_int_equal(ir_size(g, ir_reduce(g, IR_SUM, ir_input(g, 0, 6), 3)), 2);
  assert_int_equal(ir_size(g, ir_cumsum(g, ir_input(g, 0, 6), 3)), 6);
  assert_int_equal(ir_size(g, ir_matvec(g, ir_const(g, (double[]){1, 2, 3, 4, 5, 6}, 6), x)), 2);
  assert_int_equal(ir_size(g, ir_matmul(g, ir_input(g, 0, 6), ir_input(g, 0, 12), 3, 4)), 8);
}

TEST(likelihood_is_inherited) {
  Graph *g = ir_graph(c);
  Node x = ir_input(g, 0, 3), m = ir_mark_likelihood(g, x);
  assert_int_not_equal(x, m);
  assert_int_equal(ir_mark_likelihood(g, m), m);
  assert_false(ir_node(g, x)->likelihood);
  assert_true(ir_node(g, m)->likelihood);
  assert_true(ir_node(g, map2(g, IR_MUL, x, m))->likelihood);
  assert_true(ir_node(g, ir_reduce(g, IR_SUM, m, 3))->likelihood);
  assert_true(ir_node(g, ir_gather(g, m, (int32_t[]){1}, 1))->likelihood);
  assert_true(ir_node(g, ir_pack(g, (Pick[]){{x, 0}, {m, 0}}, 2))->likelihood);
  assert_false(ir_node(g, map2(g, IR_MUL, x, x))->likelihood);
}

TEST(forgetting) {
  Graph *g = ir_graph(c);
  Node x = ir_input(g, 0, 3), kept = map1(g, IR_EXP, x);
  int32_t count = g->count;
  for (int k = 0; k < 1000; k++) map2(g, IR_MUL, x, ir_number(g, k + 2));
  Node last = map1(g, IR_SIN, x);
  ir_truncate(g, count);
  assert_int_equal(g->count, count);
  assert_int_equal(map1(g, IR_EXP, x), kept);
  assert_int_equal(map1(g, IR_COS, x), count); /* the number is used again, for something else */
  assert_int_not_equal(map1(g, IR_SIN, x), last);
}

/* Many random nodes: operands come before their users, equal nodes are one, every node has a line
 * in print. */
TEST(random_graphs) {
  Graph *g = ir_graph(c);
  uint64_t seed = 1;
  ir_input(g, 0, 5);
  ir_number(g, 2);
  for (int k = 0; k < 3000; k++) {
    Node a = (Node)uniform(&seed, 0, g->count), b = (Node)uniform(&seed, 0, g->count);
    if (ir_size(g, a) != 5 && ir_size(g, a) != 1) continue;
    if (ir_size(g, b) != 5 && ir_size(g, b) != 1) continue;
    Node r = map2(g, k % 3 ? IR_ADD : IR_FMAX, a, b);
    assert_int_equal(map2(g, k % 3 ? IR_ADD : IR_FMAX, a, b), r);
    if (k % 7 == 0 && ir_size(g, r) == 5) ir_gather(g, r, (int32_t[]){4, 0, 1, 2, k % 5}, 5);
  }
  assert_true(g->count > 1000);
  int lines = 0;
  for (Node x = 0; x < g->count; x++)
    for (int k = 0; k < ir_node(g, x)->nargs; k++) assert_true(ir_node(g, x)->args[k] < x);
  Text out = text_make(&c->arena);
  ir_print(&out, g);
  for (const char *s = out.s; *s; s++) lines += *s == '\n';
  assert_int_equal(lines, g->count);
}

/* ---- every row of ops.def -------------------------------------------------------------------- */

enum { ROWS_MAX = 40, SETS = 3 };
static const char *const sets[SETS] = {"base", "avx2", "avx512"};
static const double STEP = 3e-4;

/* Operands of one op over n draws, from its domain; `fixed` operands do not vary over draws (step
 * 0). */
typedef struct {
  unsigned op;
  int arity;
  size_t n;
  double values[IR_MAX_ARGS][ROWS_MAX];
  const double *in[IR_MAX_ARGS];
  size_t step[IR_MAX_ARGS];
} Operands;

static void draw(Operands *o, unsigned op, size_t n, unsigned fixed, uint64_t *seed) {
  const double *domain = ir_op_domain(op, &o->arity);
  o->op = op;
  o->n = n;
  for (int k = 0; k < o->arity; k++) {
    o->in[k] = o->values[k];
    o->step[k] = fixed >> k & 1 ? 0 : 1;
    double first = uniform(seed, domain[2 * k], domain[2 * k + 1]);
    for (size_t j = 0; j < n; j++)
      o->values[k][j] = o->step[k] ? uniform(seed, domain[2 * k], domain[2 * k + 1]) : first;
  }
}

static bool varies(unsigned op, int k) {
  int arity;
  const double *domain = ir_op_domain(op, &arity);
  return domain[2 * k] < domain[2 * k + 1];
}

static void assert_agree(const Operands *o, const char *what, const char *set, size_t j, double got,
                         double want, double tolerance) {
  if (distance(got, want) <= tolerance) return;
  print_message("%s, %s, %s, draw %zu of %zu:", ir_op_name(o->op), set, what, j, o->n);
  for (int k = 0; k < o->arity; k++)
    print_message(" %.17g%s", o->in[k][o->step[k] * j], o->step[k] ? "" : " (fixed)");
  print_message("\n");
  fail_msg("%.17g, not %.17g", got, want);
}

/* Partial derivatives by differences of the values, operand by operand. */
static void check_partials(const Kernels *k, Operands *o, const double *value) {
  double g[ROWS_MAX], adj[IR_MAX_ARGS][ROWS_MAX], *to[IR_MAX_ARGS] = {0};
  for (size_t j = 0; j < o->n; j++) g[j] = 0.5 + 0.25 * (double)(j % 5);
  for (int a = 0; a < o->arity; a++) {
    to[a] = o->step[a] ? adj[a] : NULL; /* data have no adjoint */
    for (size_t j = 0; j < o->n; j++) adj[a][j] = 0.125;
  }
  k->backward[o->op](g, value, o->in, o->step, to, o->n);
  for (int a = 0; a < o->arity; a++) {
    if (!to[a] || !varies(o->op, a)) continue;
    double at[4][ROWS_MAX], moved[ROWS_MAX];
    const double *in[IR_MAX_ARGS] = {o->in[0], o->in[1], o->in[2], o->in[3]};
    in[a] = moved;
    for (int s = 0; s < 4; s++) {
      for (size_t j = 0; j < o->n; j++)
        moved[j] = o->values[a][j] + STEP * (double[]){-2, -1, 1, 2}[s];
      k->forward[o->op](at[s], in, o->step, o->n);
    }
    for (size_t j = 0; j < o->n; j++) {
      double want = difference((double[]){at[0][j], at[1][j], at[2][j], at[3][j]}, STEP);
      assert_agree(o, (const char *[]){"d/da", "d/db", "d/dc", "d/dd"}[a], k->name, j,
                   (adj[a][j] - 0.125) / g[j], want, 1e-8);
    }
  }
}

static void check_op(const Kernels *k, unsigned op, size_t n, unsigned fixed, uint64_t seed) {
  Operands o;
  double value[ROWS_MAX], plain[ROWS_MAX];
  draw(&o, op, n, fixed, &seed);
  k->forward[op](value, o.in, o.step, n);
  k->forward[op](plain, o.in, (size_t[]){1, 1, 1, 1},
                 n); /* fixed operands are full rows here, so this is the same */
  for (size_t j = 0; j < n; j++) {
    assert_agree(&o, "value is finite", k->name, j, isfinite(value[j]), 1, 0);
    assert_agree(&o, "fixed against full", k->name, j, value[j], plain[j], 0);
  }
  check_partials(k, &o, value);
}

static void check_set(const char *set) {
  const Kernels *k = kernels_named(set);
  if (!k) {
    print_message("# skip: this machine does not run %s\n", set);
    skip();
  }
  assert_string_equal(k->name, set);
  for (unsigned op = IR_FIRST_MAP; op < IR_OP_COUNT; op++)
    for (unsigned fixed = 0; fixed < 1u << ir_op_arity(op); fixed++)
      for (size_t n = LANES; n <= ROWS_MAX; n += 2 * LANES)
        check_op(k, op, n, fixed, op * 64 + fixed + n);
}

static void ops_base(void **state) { (void)state, check_set("base"); }
static void ops_avx2(void **state) { (void)state, check_set("avx2"); }
static void ops_avx512(void **state) { (void)state, check_set("avx512"); }

TEST(instruction_sets_agree) {
  for (unsigned op = IR_FIRST_MAP; op < IR_OP_COUNT; op++) {
    Operands o;
    uint64_t seed = op;
    draw(&o, op, ROWS_MAX, 0, &seed);
    double value[SETS][ROWS_MAX], adj[SETS][IR_MAX_ARGS][ROWS_MAX] = {0}, g[ROWS_MAX];
    for (size_t j = 0; j < ROWS_MAX; j++) g[j] = 1;
    for (int s = 0; s < SETS; s++) {
      const Kernels *k = kernels_named(sets[s]) ? kernels_named(sets[s]) : kernels_named("base");
      double *to[IR_MAX_ARGS] = {adj[s][0], adj[s][1], adj[s][2], adj[s][3]};
      k->forward[op](value[s], o.in, o.step, o.n);
      k->backward[op](g, value[s], o.in, o.step, to, o.n);
      for (size_t j = 0; j < ROWS_MAX; j++) {
        assert_agree(&o, "value against base", k->name, j, value[s][j], value[0][j], 1e-13);
        for (int a = 0; a < o.arity; a++)
          assert_agree(&o, "partial against base", k->name, j, adj[s][a][j], adj[0][a][j], 1e-13);
      }
    }
  }
}

TEST(folding_is_the_kernel) {
  for (unsigned op = IR_FIRST_MAP; op < IR_OP_COUNT; op++) {
    Operands o;
    uint64_t seed = op + 1;
    draw(&o, op, ROWS_MAX, op % 2, &seed);
    double value[ROWS_MAX], folded[ROWS_MAX];
    kernels_best()->forward[op](value, o.in, o.step, o.n);
    for (size_t n = 1; n <= ROWS_MAX; n += 13) {
      size_t sizes[IR_MAX_ARGS];
      for (int a = 0; a < o.arity; a++) sizes[a] = o.step[a] ? n : 1;
      vm_fold(op, o.in, sizes, folded, n);
      for (size_t j = 0; j < n; j++) assert_agree(&o, "folded", "best", j, folded[j], value[j], 0);
    }
  }
}

/* Points outside of the rows' domains: edges, ties, outcomes. ANY: not looked at. */
#define ANY 12345
static const struct {
  unsigned op;
  double in[4], value, partial[4];
} points[] = {
    {IR_POW, {0, 2}, 0, {0, 0}},
    {IR_POW, {0, 0}, 1, {ANY, 0}},
    {IR_POW, {-2, 3}, -8, {12, ANY}},
    {IR_FMAX, {2, 2}, 2, {1, 0}},
    {IR_FMAX, {3, 2}, 3, {1, 0}},
    {IR_FMIN, {3, 2}, 2, {0, 1}},
    {IR_FDIM, {1, 2}, 0, {0, 0}},
    {IR_FMOD, {-5.5, 2}, -1.5, {1, 2}},
    {IR_ABS, {-2}, 2, {-1}},
    {IR_ABS, {0}, 0, {0}},
    {IR_LT, {1, 1}, 0, {0, 0}},
    {IR_LE, {1, 1}, 1, {0, 0}},
    {IR_EQ, {1, 1}, 1, {0, 0}},
    {IR_NE, {1, 1}, 0, {0, 0}},
    {IR_LT, {2, 1}, 0, {0, 0}},
    {IR_STEP, {-1}, 0, {0}},
    {IR_STEP, {0}, 1, {0}},
    {IR_NOT, {0}, 1, {0}},
    {IR_SELECT, {0, 5, 6}, 6, {0, 0, 1}},
    {IR_SELECT, {1, 5, NAN}, 5, {0, 1, 0}},
    {IR_FLOOR, {-1.5}, -2, {0}},
    {IR_CEIL, {-1.5}, -1, {0}},
    {IR_TRUNC, {-1.5}, -1, {0}},
    {IR_ROUND, {-1.6}, -2, {0}},
    {IR_LMULTIPLY, {0, 0}, 0, {ANY, ANY}},
    {IR_LOG1P_EXP, {800}, 800, {1}},
    {IR_LOG1P_EXP, {-800}, 0, {0}},
    {IR_INV_LOGIT, {-800}, 0, {0}},
    {IR_LOG_SUM_EXP2, {-INFINITY, 3}, 3, {0, 1}},
    {IR_LOG_SUM_EXP2, {1000, 1000}, 1000.69314718055994531, {0.5, 0.5}},
    {IR_LOG_PHI, {-40}, -804.6084420137538, {40.024968847207269}},
    {IR_LOG_DIFF_EXP, {0, 0}, -INFINITY, {0, 0}},
    {IR_LOG_PHI_DIFF, {41, 40}, -804.60844201375379, {1.0313462302074796e-16, -40.024968847207264}},
    {IR_LOG_PHI_DIFF,
     {-40, -41},
     -804.60844201375379,
     {40.024968847207264, -1.0313462302074796e-16}},
    {IR_LOG_PHI_DIFF, {1e-9, -1e-9}, -20.949057189591139, {5e8, -5e8}},
    {IR_LOG_PHI_DIFF,
     {12.5, 12.25},
     -78.507724749504919,
     {0.58495884555722265, -12.903985489167732}},
    {IR_LOG_PHI_DIFF, {2, 2}, -INFINITY, {0, 0}},
    {IR_LOG_PHI_DIFF, {1e100, -1e100}, 0, {0, 0}},
    {IR_LOG_INV_LOGIT_DIFF,
     {801, 800},
     -800.45867514538708,
     {0.58197670686932642, -1.5819767068693264}},
    {IR_LOG_INV_LOGIT_DIFF, {1e-12, 0}, -29.017315477048439, {1e12, -1e12}},
    {IR_LOG_INV_LOGIT_DIFF, {0, 0}, -INFINITY, {0.5, -0.5}},
    {IR_LOG_STUDENT_T_DIFF,
     {30, 20, 4},
     -11.123242586815789,
     {0.033076766404459344, -0.2477369061324493, -1.8214834313415885}},
    {IR_LOG_STUDENT_T_DIFF,
     {-20, -30, 4},
     -11.123242586815789,
     {0.2477369061324493, -0.033076766404459344, -1.8214834313415885}},
    {IR_LOG_STUDENT_T_DIFF,
     {1e8, 1e7, 3},
     -48.257564014163979,
     {3.0030030030031094e-11, -3.003003003002931e-7, -15.206670769414702}},
    {IR_BERNOULLI, {0, 0.25}, -0.287682072451780927, {0, -1 / 0.75}},
    {IR_BERNOULLI, {1, 0.25}, -1.38629436111989062, {0, 4}},
    {IR_BERNOULLI, {0, 0}, 0, {0, -1}},
    {IR_BERNOULLI_LOGIT, {0, 800}, -800, {0, -1}},
    {IR_BERNOULLI_LOGIT, {1, 800}, 0, {0, 0}},
    {IR_BINOMIAL, {0, 5, 0, 0}, 0, {0, 0, -5, 1}},
    {IR_BINOMIAL, {5, 5, 1, 0}, 0, {0, 0, 5, 1}},
    {IR_BINOMIAL_LOGIT, {0, 5, 0, 0}, -3.46573590279972655, {0, 0, -2.5, 1}},
    {IR_BINOMIAL_LOGIT, {5, 5, 900, 0}, 0, {0, 0, 0, 1}},
    {IR_POISSON, {0, 0, 0, -INFINITY}, 0, {0, -1, -1, 0}},
    {IR_POISSON_LOG, {0, -INFINITY, 0}, 0, {0, 0, -1}},
    {IR_DOUBLE_EXP, {1, 3, 1, 0}, -2.69314718055994531, {1, -1, -2, -1}},
};

TEST(points_at_the_edge) {
  for (size_t p = 0; p < sizeof points / sizeof *points; p++)
    for (int s = 0; s < SETS; s++) {
      const Kernels *k = kernels_named(sets[s]);
      if (!k) continue;
      Operands o = {
          .op = points[p].op, .arity = ir_op_arity(points[p].op), .n = LANES, .step = {1, 1, 1, 1}};
      double value[LANES], g[LANES], adj[IR_MAX_ARGS][LANES] = {0},
                                     *to[IR_MAX_ARGS] = {adj[0], adj[1], adj[2], adj[3]};
      for (int a = 0; a < o.arity; a++) {
        o.in[a] = o.values[a];
        for (int j = 0; j < LANES; j++) o.values[a][j] = points[p].in[a];
      }
      for (int j = 0; j < LANES; j++) g[j] = 1;
      k->forward[o.op](value, o.in, o.step, o.n);
      k->backward[o.op](g, value, o.in, o.step, to, o.n);
      assert_agree(&o, "value", k->name, 0, value[0], points[p].value, 1e-13);
      for (int a = 0; a < o.arity; a++)
        if (points[p].partial[a] != ANY)
          assert_agree(&o, "partial", k->name, (size_t)a, adj[a][0], points[p].partial[a], 1e-13);
    }
}

/* Where nothing flows back nothing is added, however large the partial. */
TEST(zero_times_infinity_is_zero) {
  for (int s = 0; s < SETS; s++) {
    const Kernels *k = kernels_named(sets[s]);
    if (!k) continue;
    double x[LANES] = {0}, value[LANES], g[LANES] = {0}, adj[LANES] = {0}, *to[] = {adj};
    const double *in[] = {x};
    k->forward[IR_LOG](value, in, (size_t[]){1}, LANES);
    k->backward[IR_LOG](g, value, in, (size_t[]){1}, to, LANES);
    for (int j = 0; j < LANES; j++) assert_true(value[j] == -INFINITY && adj[j] == 0);
  }
}

/* ---- affine functions ------------------------------------------------------------------------ */

static bool is_input(const IrAffine *f, const IrSlice *s, Node *leaf, int32_t *shift) {
  const IrNode *x = ir_node(f->g, s->node);
  *leaf = NO_NODE;
  *shift = x->attr;
  return x->op == IR_INPUT;
}

static const IrAffineRules to_inputs = {.is_leaf = is_input,
                                        .most_terms = 8,
                                        .most_depth = 20,
                                        .most_sources = 2,
                                        .widest_product = 4,
                                        .widest_sum = 4};
enum { ROWS = 4, DIM = 12 };
static const int32_t each_row[ROWS] = {0, 1, 2, 3};
static const double ones[ROWS] = {1, 1, 1, 1};

/* The terms at theta are the node at theta. */
static void check_affine(Ctx *c, const Graph *g, Node node, int terms) {
  IrAffine f = ir_affine(&c->arena, g, ROWS, &to_inputs, NULL);
  assert_true(ir_affine_add(&f, &(IrSlice){node, each_row, ones}));
  assert_int_equal(f.count, terms);
  Work *w = vm_work(
      &c->arena, vm_plan(&c->arena, &(VmPlan){.graph = g, .dim = DIM, .roots = &node, .nroots = 1}),
      LANES, NULL);
  double theta[DIM * LANES];
  uint64_t seed = 3;
  for (int k = 0; k < DIM * LANES; k++) theta[k] = uniform(&seed, -2, 2);
  vm_forward(w, theta);
  for (int32_t r = 0; r < ROWS; r++) {
    double sum = f.constant[r];
    for (int k = 0; k < f.count; k++)
      sum += f.terms[k].coef[r] * theta[f.terms[k].index[f.terms[k].same ? 0 : r] * LANES];
    assert_close(sum, vm_value(w, 0, r)[0], 1e-14);
  }
}

TEST(affine_functions) {
  Graph *g = ir_graph(c);
  const double numbers[ROWS] = {1, -2, 0.5, 3},
               X[ROWS * 3] = {1, 0, 2, -1, 0.5, 3, 0, 1, 1, 2, 2, -2};
  Node x = ir_input(g, 0, ROWS), b = ir_input(g, 4, 3), more = ir_input(g, 4, 8);
  Node k = ir_const(g, numbers, ROWS), one = ir_input(g, 11, 1);
  Node product = ir_matvec(g, ir_const(g, X, ROWS * 3), b);
  check_affine(c, g, map2(g, IR_ADD, map2(g, IR_MUL, k, x), map2(g, IR_DIV, x, k)), 1);
  check_affine(c, g, map2(g, IR_SUB, product, map2(g, IR_MUL, k, one)), 4);
  check_affine(c, g,
               map2(g, IR_SUB, k, map1(g, IR_NEG, ir_gather(g, b, (int32_t[]){2, 0, 0, 1}, 4))), 1);
  check_affine(c, g, map2(g, IR_ADD, ir_reduce(g, IR_SUM, more, 2), product), 5);
  Node branches = ir_pack(g, (Pick[]){{x, 0}, {product, 1}, {product, 2}, {x, 3}}, ROWS);
  check_affine(c, g, map2(g, IR_MUL, branches, ir_number(g, 2)), 4);
}

TEST(not_affine) {
  Graph *g = ir_graph(c);
  Node x = ir_input(g, 0, ROWS), y = ir_input(g, 4, ROWS), k = ir_number(g, 2);
  Node three = ir_pack(g, (Pick[]){{x, 0}, {y, 1}, {map1(g, IR_NEG, x), 2}, {x, 3}}, ROWS);
  Node wide = ir_reduce(g, IR_SUM, ir_input(g, 0, 5 * ROWS), 5), deep = x;
  for (int d = 0; d < 30; d++) deep = map2(g, IR_ADD, map2(g, IR_MUL, deep, k), y);
  const Node nodes[] = {
      map2(g, IR_MUL, x, y), map2(g, IR_DIV, k, x), map1(g, IR_EXP, x), three, wide, deep};
  for (size_t n = 0; n < sizeof nodes / sizeof *nodes; n++) {
    IrAffine f = ir_affine(&c->arena, g, ROWS, &to_inputs, NULL);
    assert_false(ir_affine_add(&f, &(IrSlice){nodes[n], each_row, ones}));
    assert_non_null(f.why);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(affine_functions),
      cmocka_unit_test(not_affine),
      cmocka_unit_test(equal_nodes_are_one),
      cmocka_unit_test(the_builder_copies),
      cmocka_unit_test(identities),
      cmocka_unit_test(squares_of_roots),
      cmocka_unit_test(constants_of_equal_numbers_are_broadcast),
      cmocka_unit_test(gathers),
      cmocka_unit_test(packs),
      cmocka_unit_test(reductions_of_one),
      cmocka_unit_test(likelihood_is_inherited),
      cmocka_unit_test(forgetting),
      cmocka_unit_test(random_graphs),
      cmocka_unit_test(ops_base),
      cmocka_unit_test(ops_avx2),
      cmocka_unit_test(ops_avx512),
      cmocka_unit_test(instruction_sets_agree),
      cmocka_unit_test(folding_is_the_kernel),
      cmocka_unit_test(points_at_the_edge),
      cmocka_unit_test(zero_times_infinity_is_zero),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
