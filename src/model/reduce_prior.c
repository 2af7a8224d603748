/* reduce_prior.c: the log prior and the Jacobian as a sum of terms, each seen through one or two
 * affine functions of theta.
 *
 * Both are sums of elements of nodes, each times a number, its *share*. The walk goes from the last
 * node to the first: what is a sum, a difference, a product with numbers or a choice of elements
 * hands its shares on to its operands, so that every element of every node has its share when the
 * walk comes to it, however often and wherever it was used. What is none of these becomes a block.
 *
 * A function of a pack (the logarithms of a simplex, whose elements are nodes of their own) is a
 * pack of functions, and that has the shares in its place.
 */
#include "model/reduce_int.h"

#include <string.h>

enum { MOST_BLOCKS = 256, MANY_NODES = 64 };

typedef struct {
  Reducible from;
  Reduction *out;
  int cap;
  double **share;  /* of every node: its elements' shares; NULL: it has none, or none any more */
  Node *instead;   /* of every node: what has its shares; NO_NODE: itself */
  const char *why; /* set: it cannot be done */
} PriorSplit;

static double *shares_of(PriorSplit *s, Node id) {
  if (s->instead[id] != NO_NODE) id = s->instead[id];
  if (!s->share[id]) s->share[id] = NEW_ARRAY(s->from.temp, double, ir_size(s->from.graph, id));
  return s->share[id];
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* factor times the sum of the given elements, each times its share where there are any. */
static void add_block(PriorSplit *s, const ReducedElements *e, const double *share, double factor) {
  Reduced b;
  Graph *g = s->out->graph;
  if (s->out->nblocks == MOST_BLOCKS) {
    s->why = "it has too many different terms";
  } else if (reduce_elements(&s->from, e, &b, &s->why)) {
    b.factor = factor;
    if (share) b.mean = ir_map(g, IR_MUL, (Node[]){ir_const(g, share, e->n), b.mean});
    PUSH(g->arena, s->out->blocks, s->out->nblocks, s->cap, b);
  }
}

static bool is_given(const PriorSplit *s, const ReducedElements *e) {
  Reduced b;
  const char *why;
  return reduce_elements(&s->from, e, &b, &why) && b.form == FORM_GIVEN;
}

/* The elements that have a share, all with the same one in a block of their own, or all together.
 */
static void add_elements(PriorSplit *s, Node id, const double *share) {
  int32_t n = ir_size(s->from.graph, id), count = 0, *at = NEW_ARRAY(s->from.temp, int32_t, n);
  double *each = NEW_ARRAY(s->from.temp, double, n);
  bool alike = true;
  for (int32_t e = 0; e < n; e++) {
    if (share[e] == 0) continue;
    each[count] = share[e];
    at[count++] = e;
    alike = alike && share[e] == each[0];
  }
  ReducedElements all = {id, at, count};
  if (count && (alike || !is_given(s, &all))) {
    add_block(s, &all, alike ? NULL : each, alike ? each[0] : 1);
    return;
  }
  for (int32_t k = 0; k < count && !s->why; k++)
    add_block(s, &(ReducedElements){id, at + k, 1}, NULL, each[k]);
}

/* ---- what hands its shares on ---------------------------------------------------------------- */

/* Operand k gets factor[e], or 1, times the shares of the elements. */
static void hand_on(PriorSplit *s, const IrNode *x, int k, const IrNode *factor, double sign) {
  const double *share = s->share[x - s->from.graph->nodes];
  double *to = shares_of(s, x->args[k]);
  bool one = ir_size(s->from.graph, x->args[k]) == 1;
  for (int32_t e = 0; e < x->n; e++) {
    double times = factor ? factor->u.values[factor->n == 1 ? 0 : e] : 1;
    to[one ? 0 : e] += sign * share[e] * times;
  }
}

static void hand_on_quotient(PriorSplit *s, const IrNode *x, const IrNode *by) {
  const double *share = s->share[x - s->from.graph->nodes];
  double *to = shares_of(s, x->args[0]);
  bool one = ir_size(s->from.graph, x->args[0]) == 1;
  for (int32_t e = 0; e < x->n; e++) to[one ? 0 : e] += share[e] / by->u.values[by->n == 1 ? 0 : e];
}

/* out[r] or out[r W + w]: sums of the row's elements, or of those up to w. */
static void hand_on_rows(PriorSplit *s, const IrNode *x) {
  const double *share = s->share[x - s->from.graph->nodes];
  double *to = shares_of(s, x->args[0]);
  int32_t W = x->attr, n = ir_size(s->from.graph, x->args[0]);
  double behind = 0;
  for (int32_t e = n - 1; e >= 0; e--) {
    behind = (e % W == W - 1 ? 0 : behind) + (x->op == IR_CUMSUM ? share[e] : 0);
    to[e] += x->op == IR_CUMSUM ? behind : share[e / W];
  }
}

static void hand_on_picked(PriorSplit *s, const IrNode *x) {
  const double *share = s->share[x - s->from.graph->nodes];
  for (int32_t e = 0; e < x->n; e++) {
    bool pack = x->op == IR_PACK;
    Node from = pack ? x->u.picks[e].node : x->args[0];
    shares_of(s, from)[pack ? x->u.picks[e].elem : x->u.index[e]] += share[e];
  }
}

/* a * b, one of them numbers; false: neither is. */
static bool hand_on_product(PriorSplit *s, const IrNode *x, double sign) {
  const Graph *g = s->from.graph;
  for (int k = 0; k < 2; k++)
    if (ir_is_const(g, x->args[!k])) {
      hand_on(s, x, k, ir_node(g, x->args[!k]), sign);
      return true;
    }
  return false;
}

/* False: it is no sum. */
static bool take_apart(PriorSplit *s, const IrNode *x) {
  const Graph *g = s->from.graph;
  switch (x->op) {
  case IR_ADD:
  case IR_SUB:
    hand_on(s, x, 0, NULL, 1);
    hand_on(s, x, 1, NULL, x->op == IR_ADD ? 1 : -1);
    return true;
  case IR_NEG: hand_on(s, x, 0, NULL, -1); return true;
  case IR_MUL: return hand_on_product(s, x, 1);
  case IR_FMA:
  case IR_FNMA:
    if (!hand_on_product(s, x, x->op == IR_FMA ? 1 : -1)) return false;
    hand_on(s, x, 2, NULL, 1);
    return true;
  case IR_DIV:
    if (!ir_is_const(g, x->args[1])) return false;
    hand_on_quotient(s, x, ir_node(g, x->args[1]));
    return true;
  case IR_SUM:
  case IR_CUMSUM: hand_on_rows(s, x); return true;
  case IR_GATHER:
  case IR_PACK: hand_on_picked(s, x); return true;
  default: return false;
  }
}

static void add_constant(PriorSplit *s, const IrNode *x, const double *share) {
  for (int32_t e = 0; e < x->n; e++)
    if (share[e] != 0) s->out->constant += share[e] * x->u.values[e];
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Once from the last node to the first; false: no node had a share. */
static bool walk(PriorSplit *s) {
  const Graph *g = s->from.graph;
  bool any = false;
  for (Node k = g->count - 1; k >= 0 && !s->why; k--) {
    const IrNode *x = ir_node(g, k);
    if (!s->share[k]) continue;
    any = true;
    if (x->op == IR_CONST)
      add_constant(s, x, s->share[k]);
    else if (!take_apart(s, x))
      add_elements(s, k, s->share[k]);
    s->share[k] = NULL;
  }
  return any;
}

/* What stands in another node's place comes behind it, and has its turn in the next walk. */
static void split(PriorSplit *s, const Node *roots) {
  for (int k = 0; k < 2; k++) shares_of(s, roots[k])[0] += 1;
  while (walk(s) && !s->why) continue;
}

/* The functions of packs, as packs of functions. */
static Node *unpack(Arena *temp, Graph *g, int32_t count) {
  enum { MOST_NODES = 1 << 20 }; /* of them, all together */
  Node *instead = NEW_ARRAY(temp, Node, count + 1);
  for (Node k = 0; k < count; k++) {
    IrNode x = *ir_node(g, k), of = x.nargs == 1 ? *ir_node(g, x.args[0]) : x;
    instead[k] = NO_NODE;
    if (x.nargs != 1 || !ir_is_map(x.op) || of.op != IR_PACK || g->count > MOST_NODES) continue;
    Pick *picks = NEW_ARRAY(temp, Pick, of.n);
    for (int32_t e = 0; e < of.n; e++)
      picks[e] = (Pick){ir_map(g, x.op, &of.u.picks[e].node), of.u.picks[e].elem};
    instead[k] = ir_pack(g, picks, of.n);
  }
  return instead;
}

Reduction *reduce_prior(Arena *a, const Model *m, const char **why) {
  TempArena *task = temp_open(a->ctx);
  PriorSplit s = {.out = NEW(a, Reduction)};
  Node roots[] = {m->prior, m->jacobian};
  Graph *g = ir_copy(a, ir_reroll(a, m->graph, roots, 2, MANY_NODES));
  int32_t count = g->count;
  const Node *instead = unpack(&task->arena, g, count);
  s.out->graph = ir_graph_in(a);
  s.from = reduce_begin(&task->arena, g, s.out->graph);
  s.share = NEW_ARRAY(&task->arena, double *, g->count + 1);
  s.instead = NEW_ARRAY(&task->arena, Node, g->count + 1);
  for (Node k = 0; k < g->count; k++) s.instead[k] = k < count ? instead[k] : NO_NODE;
  split(&s, roots);
  temp_close(task);
  if (!s.why) return s.out;
  *why = arena_format(a, "the prior: %s", s.why);
  return NULL;
}
