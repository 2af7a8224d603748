/* graph.c: making nodes: size rules, simplification, hash-consing.
 *
 * Every maker first looks for something simpler that is the same for every number, then for an
 * equal node (intern), and adds a node only when there is neither. So equal expressions are one
 * node, and to compare expressions is to compare numbers of nodes.
 */
#include "ir/ir.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const op_names[IR_OP_COUNT] = {
    "const",  "input", "gather", "pack",  "sum",    "log_sum_exp", "cumsum", "matvec",
    "matmul", "eigen", "noise",  "outer", "affine", "mixture",     "ode",    "run",
#define OP(NAME, arity, value, shared, partials, domain) #NAME,
#include "ir/ops.def"
#undef OP
};

static const uint8_t op_arities[IR_OP_COUNT] = {
#define OP(NAME, arity, value, shared, partials, domain) [IR_##NAME] = arity,
#include "ir/ops.def"
#undef OP
};

#define UNPACK(...) __VA_ARGS__
static const double op_domains[IR_OP_COUNT][2 * IR_MAX_ARGS] = {
#define OP(NAME, arity, value, shared, partials, domain) [IR_##NAME] = {UNPACK domain},
#include "ir/ops.def"
#undef OP
};

const char *ir_op_name(unsigned op) { return op_names[op]; }
int ir_op_arity(unsigned op) { return op_arities[op]; }
const double *ir_op_domain(unsigned op, int *count) {
  *count = op_arities[op];
  return op_domains[op];
}

Graph *ir_graph_in(Arena *a) {
  Graph *g = NEW(a, Graph);
  g->arena = a;
  return g;
}

Graph *ir_copy(Arena *a, const Graph *g) {
  Graph *k = ir_graph_in(a);
  k->count = k->cap = g->count;
  k->ntable = g->ntable;
  k->nodes = memcpy(NEW_ARRAY(a, IrNode, g->count), g->nodes, (size_t)g->count * sizeof *g->nodes);
  k->table = memcpy(NEW_ARRAY(a, int32_t, g->ntable), g->table, g->ntable * sizeof *g->table);
  return k;
}

Graph *ir_graph(Ctx *c) { return ir_graph_in(&c->arena); }

/* ---- hash-consing ---------------------------------------------------------------------------- */

static size_t payload_bytes(const IrNode *x) {
  switch (x->op) {
  case IR_CONST: return (size_t)x->n * sizeof(double);
  case IR_GATHER: return (size_t)x->n * sizeof(int32_t);
  case IR_PACK: return (size_t)x->n * sizeof(Pick);
  default: return 0;
  }
}

static uint64_t mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0x9E3779B97F4A7C15u;
  return h ^ h >> 29;
}

static uint64_t hash_node(const IrNode *x) {
  uint64_t h = mix(x->op + ((uint64_t)x->likelihood << 20), (uint64_t)x->n);
  h = mix(h, (uint64_t)(uint32_t)x->attr << 32 | (uint32_t)x->attr2);
  for (int k = 0; k < x->nargs; k++) h = mix(h, (uint64_t)x->args[k]);
  size_t bytes = payload_bytes(x);
  const char *p = (const char *)x->u.values;
  for (size_t i = 0; i + 8 <= bytes; i += 8) {
    uint64_t w;
    memcpy(&w, p + i, 8);
    h = mix(h, w);
  }
  if (bytes % 8) {
    uint32_t w;
    memcpy(&w, p + bytes - 4, 4);
    h = mix(h, w);
  }
  /* numbers differ in their high bits first, tables look at the low ones */
  h = (h ^ h >> 32) * 0xD6E8FEB86659FD93u;
  return h ^ h >> 32;
}

static bool same_node(const IrNode *x, const IrNode *y) {
  if (x->op != y->op || x->n != y->n || x->attr != y->attr || x->attr2 != y->attr2 ||
      x->nargs != y->nargs || x->likelihood != y->likelihood)
    return false;
  if (x->nargs && memcmp(x->args, y->args, (size_t)x->nargs * sizeof(Node)) != 0) return false;
  if (x->op == IR_ODE && x->u.ode != y->u.ode) return false;
  if (x->op == IR_RUN && x->u.run != y->u.run) return false;
  size_t bytes = payload_bytes(x);
  return !bytes || memcmp(x->u.values, y->u.values, bytes) == 0;
}

static void insert(Graph *g, Node id) {
  size_t i = hash_node(&g->nodes[id]) & (g->ntable - 1);
  while (g->table[i]) i = (i + 1) & (g->ntable - 1);
  g->table[i] = id + 1;
}

static void grow_table(Graph *g) {
  g->ntable = g->ntable ? g->ntable * 2 : 256;
  g->table = NEW_ARRAY(g->arena, int32_t, g->ntable);
  for (Node k = 0; k < g->count; k++) insert(g, k);
}

typedef enum { COPY, KEEP } Payload;

static bool all_above(const Graph *g, const IrNode *x) {
  for (int k = 0; k < x->nargs; k++)
    if (!ir_node(g, x->args[k])->above) return false;
  return true;
}

/* Is x never below 0? Long constants are not looked at. */
static bool is_above(const Graph *g, const IrNode *x) {
  enum { FEW = 64 };
  switch (x->op) {
  case IR_EXP:
  case IR_SQUARE:
  case IR_SQRT:
  case IR_SQUARED_SQRT:
  case IR_ABS:
  case IR_PHI:
  case IR_INV_LOGIT: return true;
  case IR_ADD:
  case IR_MUL:
  case IR_GATHER:
  case IR_SUM: return all_above(g, x);
  case IR_CONST:
    for (int32_t e = 0; e < x->n && x->n <= FEW; e++)
      if (!(x->u.values[e] >= 0)) return false;
    return x->n <= FEW;
  default: return false;
  }
}

/* The node equal to x, or x itself as a new node; its payload is copied, if at all, only then. */
static Node intern_with(Graph *g, IrNode x, Payload how) {
  if (2 * ((size_t)g->count + 1) > g->ntable) grow_table(g);
  size_t i = hash_node(&x) & (g->ntable - 1);
  for (; g->table[i]; i = (i + 1) & (g->ntable - 1))
    if (same_node(&g->nodes[g->table[i] - 1], &x)) return g->table[i] - 1;
  size_t bytes = payload_bytes(&x);
  if (bytes && how == COPY) x.u.values = memcpy(arena_alloc(g->arena, bytes), x.u.values, bytes);
  x.above = is_above(g, &x);
  PUSH(g->arena, g->nodes, g->count, g->cap, x);
  g->table[i] = g->count;
  return g->count - 1;
}

static Node intern(Graph *g, IrNode x) { return intern_with(g, x, COPY); }

void ir_truncate(Graph *g, int32_t count) {
  if (count >= g->count) return;
  g->count = count;
  if (!g->ntable) return;
  memset(g->table, 0, g->ntable * sizeof *g->table);
  for (Node k = 0; k < count; k++) insert(g, k);
}

/* ---- extracts -------------------------------------------------------------------------------- */

static void mark_sources(const IrNode *x, bool *needed) {
  for (int k = 0; k < x->nargs; k++) needed[x->args[k]] = true;
  for (int32_t e = 0; x->op == IR_PACK && e < x->n; e++) needed[x->u.picks[e].node] = true;
}

static Node copy_node(Graph *g, IrNode x, const Node *made, Arena *temp) {
  for (int k = 0; k < x.nargs; k++) x.args[k] = made[x.args[k]];
  if (x.op == IR_PACK) {
    Pick *picks = NEW_ARRAY(temp, Pick, x.n);
    for (int32_t e = 0; e < x.n; e++) picks[e] = (Pick){made[x.u.picks[e].node], x.u.picks[e].elem};
    x.u.picks = picks;
  }
  return intern(g, x);
}

Graph *ir_extract(Arena *a, Arena *temp, const Graph *g, Node *wanted, int n) {
  bool *needed = NEW_ARRAY(temp, bool, g->count);
  Node *made = NEW_ARRAY(temp, Node, g->count);
  Graph *to = ir_graph_in(a);
  for (int k = 0; k < n; k++) needed[wanted[k]] = true;
  for (Node k = g->count; k-- > 0;) {
    if (!needed[k]) continue;
    if (ir_node(g, k)->op == IR_ODE || ir_node(g, k)->op == IR_RUN) return NULL;
    mark_sources(ir_node(g, k), needed);
  }
  for (Node k = 0; k < g->count; k++)
    if (needed[k]) made[k] = copy_node(to, *ir_node(g, k), made, temp);
  for (int k = 0; k < n; k++) wanted[k] = made[wanted[k]];
  return to;
}

/* ---- leaves ---------------------------------------------------------------------------------- */

static bool all_equal(const double *v, int32_t n) {
  for (int32_t k = 1; k < n; k++)
    if (memcmp(&v[k], &v[0], sizeof v[0]) != 0) return false;
  return true;
}

Node ir_const(Graph *g, const double *values, int32_t n) {
  return intern(g, (IrNode){.op = IR_CONST, .n = n, .u.values = values});
}

Node ir_const_kept(Graph *g, const double *values, int32_t n) {
  return intern_with(g, (IrNode){.op = IR_CONST, .n = n, .u.values = values}, KEEP);
}

Node ir_number(Graph *g, double value) { return ir_const(g, &value, 1); }

Node ir_input(Graph *g, int32_t offset, int32_t n) {
  return intern(g, (IrNode){.op = IR_INPUT, .n = n, .attr = offset});
}

Node ir_noise(Graph *g, NoiseKind kind, int32_t stream, int32_t n) {
  return intern(g, (IrNode){.op = IR_NOISE, .n = n, .attr = (int32_t)kind, .attr2 = stream});
}

Node ir_outer(Graph *g, int32_t leaf, int32_t n) {
  return intern(g, (IrNode){.op = IR_OUTER, .n = n, .attr = leaf});
}

static bool is_number(const Graph *g, Node x, double value) {
  const IrNode *k = ir_node(g, x);
  return k->op == IR_CONST && k->n > 0 && k->u.values[0] == value && all_equal(k->u.values, k->n);
}

/* ---- elementwise ----------------------------------------------------------------------------- */

/* Algebraic identities that hold for every number, inf and nan included; NO_NODE when none applies.
 */
static Node simplify(const Graph *g, unsigned op, const Node *a, int32_t n) {
  const IrNode *x = ir_node(g, a[0]);
  Node keep = NO_NODE;
  switch (op) {
  case IR_NEG: keep = x->op == IR_NEG ? x->args[0] : NO_NODE; break;
  case IR_LOG: keep = x->op == IR_EXP ? x->args[0] : NO_NODE; break;
  case IR_INV: keep = x->op == IR_INV ? x->args[0] : NO_NODE; break;
  case IR_ADD: keep = is_number(g, a[0], 0) ? a[1] : is_number(g, a[1], 0) ? a[0] : NO_NODE; break;
  case IR_SUB: keep = is_number(g, a[1], 0) ? a[0] : NO_NODE; break;
  case IR_MUL: keep = is_number(g, a[0], 1) ? a[1] : is_number(g, a[1], 1) ? a[0] : NO_NODE; break;
  case IR_DIV: keep = is_number(g, a[1], 1) ? a[0] : NO_NODE; break;
  default: break;
  }
  return keep != NO_NODE && ir_size(g, keep) == n ? keep : NO_NODE;
}

/* A constant whose numbers are all equal counts as one number. */
static Node shrink(Graph *g, Node x, int32_t n) {
  const IrNode *k = ir_node(g, x);
  return k->op == IR_CONST && k->n == n && n > 1 && all_equal(k->u.values, n)
             ? ir_number(g, k->u.values[0])
             : x;
}

/* Elements that are read several times each. */
static bool repeats(const Graph *g, Node x) {
  const IrNode *k = ir_node(g, x);
  return k->op == IR_GATHER && ir_size(g, k->args[0]) < k->n;
}

static Node map1(Graph *g, unsigned op, Node a) { return ir_map(g, op, &a); }

/* The argument of x, where that is the given function of one. */
static Node argument_of(const Graph *g, unsigned op, Node x) {
  return ir_node(g, x)->op == op ? ir_node(g, x)->args[0] : NO_NODE;
}

/* ---- probabilities --------------------------------------------------------------------------- */

/* Logarithms of probabilities are computed from what the probabilities are made of, an unbounded
 * number x: a probability rounds to 0 or 1 where its logarithm, or that of its complement, is still
 * -40, and a q that is wide goes there. */
typedef enum { LINK_NONE, LINK_LOGIT, LINK_PROBIT, LINK_CLOGLOG, LINK_TWICE } Link;

/* The x of 2 Phi(x) - 1, how likely a standard normal number is in (-x, x). */
static Node twice_probit(const Graph *g, Node p) {
  const IrNode *k = ir_node(g, p);
  if (k->op != IR_SUB || !is_number(g, k->args[1], 1)) return NO_NODE;
  const IrNode *product = ir_node(g, k->args[0]);
  if (product->op != IR_MUL) return NO_NODE;
  for (int a = 0; a < 2; a++)
    if (is_number(g, product->args[a], 2)) return argument_of(g, IR_PHI, product->args[1 - a]);
  return NO_NODE;
}

static Link link_of(const Graph *g, Node p, Node *x) {
  if ((*x = argument_of(g, IR_INV_LOGIT, p)) != NO_NODE) return LINK_LOGIT;
  if ((*x = argument_of(g, IR_PHI, p)) != NO_NODE) return LINK_PROBIT;
  if ((*x = argument_of(g, IR_INV_CLOGLOG, p)) != NO_NODE) return LINK_CLOGLOG;
  return (*x = twice_probit(g, p)) != NO_NODE ? LINK_TWICE : LINK_NONE;
}

static Node log_probability(Graph *g, Link link, Node x) {
  switch (link) {
  case LINK_LOGIT: return map1(g, IR_LOG_INV_LOGIT, x);
  case LINK_PROBIT: return map1(g, IR_LOG_PHI, x);
  case LINK_CLOGLOG: return map1(g, IR_LOG_INV_CLOGLOG, x);
  default: return NO_NODE; /* 2 Phi(x) - 1 is as good as any */
  }
}

static Node log_complement(Graph *g, Link link, Node x) {
  bool normal = link == LINK_PROBIT || link == LINK_TWICE;
  Node minus = normal ? map1(g, IR_NEG, x) : NO_NODE;
  switch (link) {
  case LINK_LOGIT: return map1(g, IR_LOG1M_INV_LOGIT, x);
  case LINK_PROBIT: return map1(g, IR_LOG_PHI, minus);
  case LINK_CLOGLOG: return map1(g, IR_NEG, map1(g, IR_EXP, x));
  default: /* log (2 Phi(-x)) */
    return ir_map(g, IR_ADD, (Node[]){ir_number(g, log(2)), map1(g, IR_LOG_PHI, minus)});
  }
}

static Node complement(Graph *g, Link link, Node x) {
  if (link == LINK_CLOGLOG) return map1(g, IR_EXP, log_complement(g, link, x));
  Node other = map1(g, link == LINK_LOGIT ? IR_INV_LOGIT : IR_PHI, map1(g, IR_NEG, x));
  return link == LINK_TWICE ? ir_map(g, IR_MUL, (Node[]){ir_number(g, 2), other}) : other;
}

static Node map2(Graph *g, unsigned op, Node a, Node b) { return ir_map(g, op, (Node[]){a, b}); }

/* binomial(a | b, c), d = log choose(b, a), from log c, where c itself would not do, and log (1 -
 * c). */
static Node binomial_by_logs(Graph *g, const Node *a, Node log_yes, Node log_no) {
  Node yes =
           log_yes == NO_NODE ? map2(g, IR_LMULTIPLY, a[0], a[2]) : map2(g, IR_MUL, a[0], log_yes),
       no = map2(g, IR_MUL, map2(g, IR_SUB, a[1], a[0]), log_no);
  return map2(g, IR_ADD, map2(g, IR_ADD, yes, no), a[3]);
}

static Node bernoulli_by_logs(Graph *g, const Node *a, Node log_yes, Node log_no) {
  Node yes = log_yes == NO_NODE ? map1(g, IR_LOG, a[1]) : log_yes;
  return ir_map(g, IR_SELECT, (Node[]){a[0], yes, log_no});
}

/* The r of p = c + (1 - c) r; NO_NODE: p is not made so. */
static Node above_guess(Graph *g, Node p, Node *c) {
  for (int k = 0; ir_node(g, p)->op == IR_ADD && k < 2; k++) {
    Node product = ir_node(g, p)->args[1 - k];
    *c = ir_node(g, p)->args[k];
    if (ir_node(g, product)->op != IR_MUL) continue;
    Node rest = map2(g, IR_SUB, ir_number(g, 1), *c);
    for (int j = 0; j < 2; j++)
      if (ir_node(g, product)->args[j] == rest) return ir_node(g, product)->args[1 - j];
  }
  return NO_NODE;
}

/* Successes that come by guessing, too (item responses): the complement of c + (1 - c) r is that of
 * c times that of r, which does not round to 0 where r is nearly 1. */
static Node guessed(Graph *g, unsigned op, const Node *a, Node p) {
  Node c, x, r = above_guess(g, p, &c);
  if (r == NO_NODE || link_of(g, r, &x) == LINK_NONE) return NO_NODE;
  Node one = ir_number(g, 1), no = map2(g, IR_ADD, map1(g, IR_LOG1M, c), map1(g, IR_LOG1M, r));
  switch (op) {
  case IR_SUB:
    return is_number(g, a[0], 1) ? map2(g, IR_MUL, map2(g, IR_SUB, one, c), map2(g, IR_SUB, one, r))
                                 : NO_NODE;
  case IR_LOG1M: return no;
  case IR_BINOMIAL: return binomial_by_logs(g, a, NO_NODE, no);
  case IR_BERNOULLI: return bernoulli_by_logs(g, a, NO_NODE, no);
  default: return NO_NODE;
  }
}

/* NO_NODE: op is no function of a probability, or that is made otherwise. */
static Node log_of_probability(Graph *g, unsigned op, const Node *a) {
  Node x, p = op == IR_BERNOULLI ? a[1] : op == IR_BINOMIAL ? a[2] : op == IR_SUB ? a[1] : a[0];
  Link link = link_of(g, p, &x);
  if (link == LINK_NONE) return guessed(g, op, a, p);
  switch (op) {
  case IR_SUB: return is_number(g, a[0], 1) ? complement(g, link, x) : NO_NODE;
  case IR_LOG: return log_probability(g, link, x);
  case IR_LOG1M: return log_complement(g, link, x);
  case IR_BINOMIAL:
    return link == LINK_LOGIT
               ? ir_map(g, IR_BINOMIAL_LOGIT, (Node[]){a[0], a[1], x, a[3]})
               : binomial_by_logs(g, a, log_probability(g, link, x), log_complement(g, link, x));
  case IR_BERNOULLI:
    return link == LINK_LOGIT ? ir_map(g, IR_BERNOULLI_LOGIT, (Node[]){a[0], x})
           : link == LINK_PROBIT
               ? ir_map(g, IR_BERNOULLI_PROBIT, (Node[]){a[0], x})
               : bernoulli_by_logs(g, a, log_probability(g, link, x), log_complement(g, link, x));
  default: return NO_NODE;
  }
}

/* ---- probabilities of intervals -------------------------------------------------------------- */

/* log(F(x) - F(y)), given F at both or its logarithm: what truncation, intervals and ordered
 * categories are made of. Above the centre both F are nearly 1, and their difference is lost; these
 * ops take it from the tail in which both are small. */
static Node interval(Graph *g, const IrNode *x, const IrNode *y) {
  if (x->op != y->op) return NO_NODE;
  Node a = x->args[0], b = y->args[0], nu = x->args[1];
  switch (x->op) {
  case IR_PHI:
  case IR_LOG_PHI: return map2(g, IR_LOG_PHI_DIFF, a, b);
  case IR_INV_LOGIT:
  case IR_LOG_INV_LOGIT: return map2(g, IR_LOG_INV_LOGIT_DIFF, a, b);
  case IR_LOG_STUDENT_T_CDF:
    return nu == y->args[1] ? ir_map(g, IR_LOG_STUDENT_T_DIFF, (Node[]){a, b, nu}) : NO_NODE;
  case IR_LOG1M_EXP: return map2(g, IR_LOG_DIFF_EXP, b, a); /* 1 - F is the simple one */
  default: return NO_NODE;
  }
}

/* NO_NODE: op is no logarithm of such a difference. */
static Node log_of_interval(Graph *g, unsigned op, const Node *a) {
  const IrNode *x = ir_node(g, a[0]);
  if (op == IR_LOG_DIFF_EXP && x->op != IR_PHI && x->op != IR_INV_LOGIT)
    return interval(g, x, ir_node(g, a[1]));
  if (op != IR_LOG || x->op != IR_SUB) return NO_NODE;
  const IrNode *above = ir_node(g, x->args[0]);
  return above->op == IR_PHI || above->op == IR_INV_LOGIT
             ? interval(g, above, ir_node(g, x->args[1]))
             : NO_NODE;
}

/* ---- rewriting ------------------------------------------------------------------------------- */

/* The same from cheaper or better nodes; NO_NODE when there are none. f(x[i]) = f(x)[i]; a Poisson
 * density by its rate needs the rate's logarithm, by the logarithm the rate: the form is taken in
 * which neither is computed per observation, or only one. */
static Node rewrite(Graph *g, unsigned op, const Node *a) {
  if (op_arities[op] == 1 && repeats(g, a[0])) {
    const IrNode *x = ir_node(g, a[0]);
    Node source = x->args[0];
    const int32_t *index = x->u.index;
    int32_t n = x->n;
    return ir_gather(g, ir_map(g, op, &source), index, n);
  }
  if (op == IR_SQUARE && ir_node(g, a[0])->op == IR_SQRT) {
    Node under = ir_node(g, a[0])->args[0];
    return ir_node(g, under)->above ? under : map1(g, IR_SQUARED_SQRT, under);
  }
  if (op == IR_POISSON_LOG && repeats(g, a[1]))
    return ir_map(g, IR_POISSON, (Node[]){a[0], ir_map(g, IR_EXP, &a[1]), a[2], a[1]});
  if (op == IR_POISSON && ir_node(g, a[1])->op == IR_EXP && ir_node(g, a[1])->args[0] == a[3])
    return ir_map(g, IR_POISSON_LOG, (Node[]){a[0], a[3], a[2]});
  Node log_difference = log_of_interval(g, op, a);
  return log_difference != NO_NODE ? log_difference : log_of_probability(g, op, a);
}

Node ir_map(Graph *g, unsigned op, const Node *args) {
  int arity = op_arities[op];
  IrNode x = {.op = (uint16_t)op, .nargs = (uint8_t)arity, .n = 1};
  for (int k = 0; k < arity; k++)
    if (ir_size(g, args[k]) != 1) x.n = ir_size(g, args[k]);
  Node same = simplify(g, op, args, x.n);
  if (same == NO_NODE) same = rewrite(g, op, args);
  for (int k = 0; same != NO_NODE && k < arity; k++) /* what is simpler is a density all the same */
    if (ir_node(g, args[k])->likelihood) same = ir_mark_likelihood(g, same);
  if (same != NO_NODE) return same;
  bool full = false;
  for (int k = 0; k < arity; k++) {
    assert(ir_size(g, args[k]) == x.n || ir_size(g, args[k]) == 1);
    x.args[k] = shrink(g, args[k], x.n);
    full |= ir_size(g, x.args[k]) == x.n;
    x.likelihood |= ir_node(g, args[k])->likelihood;
  }
  if (!full) x.args[0] = args[0]; /* one operand must carry the size */
  for (int k = 0; !full && k < arity; k++)
    if (ir_size(g, args[k]) == x.n) {
      x.args[k] = args[k];
      full = true;
    }
  return intern(g, x);
}

/* ---- moving elements ------------------------------------------------------------------------- */

static bool is_identity(const int32_t *index, int32_t n) {
  for (int32_t k = 0; k < n; k++)
    if (index[k] != k) return false;
  return true;
}

static bool from_one_node(const Pick *picks, const int32_t *index, int32_t n) {
  for (int32_t k = 1; k < n; k++)
    if (picks[index[k]].node != picks[index[0]].node) return false;
  return true;
}

/* Of a pack, as many elements as it has or fewer are picked where it picked them; more of them are
 * read through it, for a gather costs nothing where it is an operand. */
static Node gather(Graph *g, Node a, const int32_t *index, int32_t n, Payload how) {
  const IrNode *x = ir_node(g, a);
  if (n == x->n && is_identity(index, n)) return a;
  Arena *arena = g->arena;
  if (x->op == IR_CONST) {
    double *v = NEW_ARRAY(arena, double, n);
    for (int32_t k = 0; k < n; k++) v[k] = x->u.values[index[k]];
    return ir_const_kept(g, v, n);
  }
  if (x->op == IR_GATHER) { /* a gather of a gather is one gather */
    int32_t *through = NEW_ARRAY(arena, int32_t, n);
    for (int32_t k = 0; k < n; k++) through[k] = x->u.index[index[k]];
    return gather(g, x->args[0], through, n, KEEP);
  }
  if (x->op == IR_PACK && (n <= x->n || from_one_node(x->u.picks, index, n))) {
    Pick *picks = NEW_ARRAY(arena, Pick, n);
    for (int32_t k = 0; k < n; k++) picks[k] = x->u.picks[index[k]];
    return ir_pack(g, picks, n);
  }
  return intern_with(g,
                     (IrNode){.op = IR_GATHER,
                              .nargs = 1,
                              .n = n,
                              .args = {a},
                              .u.index = index,
                              .likelihood = x->likelihood},
                     how);
}

Node ir_gather(Graph *g, Node a, const int32_t *index, int32_t n) {
  return gather(g, a, index, n, COPY);
}
Node ir_gather_kept(Graph *g, Node a, const int32_t *index, int32_t n) {
  return gather(g, a, index, n, KEEP);
}

/* An element of a gather or a pack is an element of what it was taken from. */
static Pick resolve(const Graph *g, Pick p) {
  for (;;) {
    const IrNode *x = ir_node(g, p.node);
    if (x->op == IR_GATHER) {
      p = (Pick){x->args[0], x->u.index[p.elem]};
    } else if (x->op == IR_PACK) {
      p = x->u.picks[p.elem];
    } else {
      return p;
    }
  }
}

Node ir_pack(Graph *g, const Pick *given, int32_t n) {
  Arena *arena = g->arena;
  Pick *picks = NEW_ARRAY(arena, Pick, n);
  bool one = true, constant = true, likelihood = false;
  for (int32_t k = 0; k < n; k++) {
    picks[k] = resolve(g, given[k]);
    one &= picks[k].node == picks[0].node;
    constant &= ir_is_const(g, picks[k].node);
    likelihood |= ir_node(g, picks[k].node)->likelihood;
  }
  if (constant) {
    double *v = NEW_ARRAY(arena, double, n);
    for (int32_t k = 0; k < n; k++) v[k] = ir_node(g, picks[k].node)->u.values[picks[k].elem];
    return ir_const_kept(g, v, n);
  }
  if (one) {
    int32_t *index = NEW_ARRAY(arena, int32_t, n);
    for (int32_t k = 0; k < n; k++) index[k] = picks[k].elem;
    return ir_gather_kept(g, picks[0].node, index, n);
  }
  return intern_with(g, (IrNode){.op = IR_PACK, .n = n, .u.picks = picks, .likelihood = likelihood},
                     KEEP);
}

/* ---- combining elements ---------------------------------------------------------------------- */

Node ir_reduce(Graph *g, unsigned op, Node a, int32_t width) {
  const IrNode *x = ir_node(g, a);
  assert(width > 0 && x->n % width == 0);
  if (width == 1) return a;
  return intern(g, (IrNode){.op = (uint16_t)op,
                            .nargs = 1,
                            .n = x->n / width,
                            .attr = width,
                            .args = {a},
                            .likelihood = x->likelihood});
}

Node ir_cumsum(Graph *g, Node a, int32_t width) {
  const IrNode *x = ir_node(g, a);
  assert(width > 0 && x->n % width == 0);
  if (width == 1) return a;
  return intern(g, (IrNode){.op = IR_CUMSUM,
                            .nargs = 1,
                            .n = x->n,
                            .attr = width,
                            .args = {a},
                            .likelihood = x->likelihood});
}

Node ir_matvec(Graph *g, Node matrix, Node b) {
  const IrNode *m = ir_node(g, matrix), *x = ir_node(g, b);
  assert(m->op == IR_CONST && x->n > 0 && m->n % x->n == 0);
  return intern(g, (IrNode){.op = IR_MATVEC,
                            .nargs = 2,
                            .n = m->n / x->n,
                            .attr = x->n,
                            .args = {matrix, b},
                            .likelihood = x->likelihood});
}

Node ir_matmul(Graph *g, Node a, Node b, int32_t inner, int32_t columns) {
  const IrNode *x = ir_node(g, a), *y = ir_node(g, b);
  assert(x->n % inner == 0 && y->n == inner * columns);
  return intern(g, (IrNode){.op = IR_MATMUL,
                            .nargs = 2,
                            .n = x->n / inner * columns,
                            .attr = inner,
                            .attr2 = columns,
                            .args = {a, b},
                            .likelihood = x->likelihood || y->likelihood});
}

Node ir_eigen(Graph *g, Node a, int32_t rows) {
  const IrNode *x = ir_node(g, a);
  assert(rows > 0 && x->n % (rows * rows) == 0);
  return intern(g, (IrNode){.op = IR_EIGEN,
                            .nargs = 1,
                            .n = x->n / rows * (rows + 1),
                            .attr = rows,
                            .args = {a},
                            .likelihood = x->likelihood});
}

Node ir_ode(Graph *g, const IrOde *ode, Node a) {
  const IrNode *x = ir_node(g, a);
  assert(x->n == ir_ode_operands(ode) && ode->states > 0 && ode->ntimes > 0);
  return intern(g, (IrNode){.op = IR_ODE,
                            .nargs = 1,
                            .n = ode->ntimes * ode->states,
                            .args = {a},
                            .likelihood = x->likelihood,
                            .u.ode = ode});
}

Node ir_run(Graph *g, const IrRun *run, Node a) {
  assert(ir_size(g, a) == run->inputs && run->outputs > 0);
  return intern(g, (IrNode){.op = IR_RUN,
                            .nargs = 1,
                            .n = run->outputs,
                            .args = {a},
                            .likelihood = run->likelihood || ir_node(g, a)->likelihood,
                            .u.run = run});
}

Node ir_mark_likelihood(Graph *g, Node a) {
  IrNode x = *ir_node(g, a);
  if (x.likelihood) return a;
  x.likelihood = true;
  return intern(g, x);
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_numbers(Text *out, const double *v, int32_t n) {
  for (int32_t k = 0; k < n && k < 4; k++) text_printf(out, " %g", v[k]);
  if (n > 4) text_puts(out, " ...");
}

static void print_node(Text *out, const Graph *g, Node id) {
  const IrNode *x = ir_node(g, id);
  text_printf(out, "%%%d = %s[%d]", id, op_names[x->op], x->n);
  if (x->op == IR_CONST) print_numbers(out, x->u.values, x->n);
  if (x->op == IR_INPUT) text_printf(out, " theta %d..%d", x->attr, x->attr + x->n - 1);
  for (int k = 0; k < x->nargs; k++) text_printf(out, " %%%d", x->args[k]);
  if (x->op == IR_SUM || x->op == IR_LSE || x->op == IR_CUMSUM)
    text_printf(out, " width %d", x->attr);
  if (x->op == IR_EIGEN) text_printf(out, " rows %d", x->attr);
  if (x->op == IR_MATVEC || x->op == IR_MATMUL) text_printf(out, " inner %d", x->attr);
  if (x->op == IR_ODE)
    text_printf(out, " %d states, %d parameters", x->u.ode->states, x->u.ode->params);
  for (int32_t k = 0; x->op == IR_GATHER && k < x->n && k < 4; k++)
    text_printf(out, k ? ",%d" : " at %d", x->u.index[k]);
  for (int32_t k = 0; x->op == IR_PACK && k < x->n && k < 4; k++)
    text_printf(out, " %%%d[%d]", x->u.picks[k].node, x->u.picks[k].elem);
  if ((x->op == IR_GATHER || x->op == IR_PACK) && x->n > 4) text_puts(out, " ...");
  text_puts(out, x->likelihood ? "  ; likelihood\n" : "\n");
}

void ir_print(Text *out, const Graph *g) {
  for (Node k = 0; k < g->count; k++) print_node(out, g, k);
}
