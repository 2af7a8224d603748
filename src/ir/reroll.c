/* reroll.c: nodes that do the same, side by side, become one: a Graph for the planner of tapes.
 *
 * A loop that could not be evaluated as a vector (a recurrence) leaves thousands of nodes of a few
 * elements. Most of them do not depend on each other: all that a time step needs from data and
 * parameters, all that is done with its result, the states of one step. Two nodes are alike when
 * they have the same op, the same width and numbers in the same operands; those that are alike may
 * be one node where no path leads from one to the other. That is so
 *
 *   - for nodes on the same *level*, the longest way from the leaves: what steps need;
 *   - then, for groups of such nodes at the same *height*, the longest way to what is wanted: what
 *     is done with what steps made.
 *
 * Every edge goes to a higher level and to a lower height, so no cycle comes about. Gathers and
 * packs only move elements: they are no steps on a way, and are made again where an operand needs
 * them.
 *
 * On the way a product that is only added to something becomes one node with the sum, and what all
 * elements of a log sum exp have in common is taken out of it. Read find_groups first, then
 * make_graph.
 */
#include "ir/ir.h"

#include <string.h>

enum { MOST_ELEMENTS = 16 }; /* of a node that is joined with others */

typedef struct {
  Arena *temp;
  const Graph *old;
  Graph *g;
  bool *needed;
  int32_t *level, *height; /* of a node; heights are those of its group */
  int32_t *uses;           /* of a node, up to 2 */
  int32_t *group;          /* of a node: its first member, which stands for all */
  int32_t *next;           /* the members of a group, ascending; NO_NODE: the last */
  Node *made;              /* of a node: where its elements are now */
  int32_t *offset;         /* and from which element on */
} Roller;

/* ---- which nodes ----------------------------------------------------------------------------- */

static bool moves(unsigned op) { return op == IR_GATHER || op == IR_PACK; }
static bool is_leaf(const IrNode *x) { return !x->nargs && x->op != IR_PACK; }

typedef void Visit(Roller *r, Node source, int32_t value);

static void each_source(Roller *r, const IrNode *x, Visit *visit, int32_t value) {
  for (int k = 0; k < x->nargs; k++) visit(r, x->args[k], value);
  for (int32_t e = 0; x->op == IR_PACK && e < x->n; e++) visit(r, x->u.picks[e].node, value);
}

static void need(Roller *r, Node source, int32_t value) {
  (void)value;
  r->needed[source] = true;
}

static bool is_small(const Roller *r, const IrNode *x) {
  if (ir_is_map(x->op)) return x->n <= MOST_ELEMENTS;
  bool row = x->op == IR_SUM || x->op == IR_LSE || x->op == IR_CUMSUM;
  return row && ir_size(r->old, x->args[0]) <= MOST_ELEMENTS;
}

/* Marks what is wanted and all that it is made of; how many of them are small. */
static int32_t mark_needed(Roller *r, const Node *wanted, int n) {
  int32_t small = 0;
  for (int k = 0; k < n; k++)
    if (wanted[k] != NO_NODE) r->needed[wanted[k]] = true;
  for (Node k = r->old->count; k-- > 0;) {
    const IrNode *x = ir_node(r->old, k);
    if (!r->needed[k]) continue;
    each_source(r, x, need, 0);
    small += is_small(r, x);
  }
  return small;
}

/* ---- levels, heights, groups ----------------------------------------------------------------- */

static int32_t level_of(const Roller *r, const IrNode *x) {
  int32_t most = 0;
  for (int k = 0; k < x->nargs; k++)
    if (r->level[x->args[k]] > most) most = r->level[x->args[k]];
  for (int32_t e = 0; x->op == IR_PACK && e < x->n; e++)
    if (r->level[x->u.picks[e].node] > most) most = r->level[x->u.picks[e].node];
  return most + (!moves(x->op) && !is_leaf(x));
}

/* What nodes that are alike have in common, besides their place on the way. */
typedef struct {
  uint64_t kind;
  int32_t place, group;
} Slot;

static uint64_t kind_of(const Roller *r, const IrNode *x) {
  uint64_t kind = (uint64_t)x->op << 40 | (uint64_t)(ir_is_map(x->op) ? 0 : (uint32_t)x->attr) << 4;
  for (int k = 0; k < x->nargs; k++) kind |= (uint64_t)ir_is_const(r->old, x->args[k]) << k;
  return kind;
}

/* Joins groups of small nodes that are alike and at the same place: each then has the first node as
 * its group. */
static void join(Roller *r, const int32_t *place) {
  Arena *temp = r->temp;
  size_t size = 256;
  while (size < 2 * (size_t)r->old->count) size *= 2;
  ArenaMark mark = arena_mark(temp);
  Slot *table = NEW_ARRAY(temp, Slot, size);
  for (Node k = 0; k < r->old->count; k++) {
    const IrNode *x = ir_node(r->old, k);
    if (!r->needed[k] || !is_small(r, x)) continue;
    Slot s = {kind_of(r, x) + 1, place[k], r->group[k]};
    size_t at = (s.kind * 0x9E3779B97F4A7C15u + (uint64_t)s.place * 0xD6E8FEB86659FD93u) >> 20;
    for (at &= size - 1; table[at].kind; at = (at + 1) & (size - 1))
      if (table[at].kind == s.kind && table[at].place == s.place) break;
    if (!table[at].kind) table[at] = s;
    r->group[k] = table[at].group;
  }
  arena_reset(temp, mark);
}

static void raise(Roller *r, Node source, int32_t height) {
  if (r->height[source] < height) r->height[source] = height;
}

/* Nodes in the order of their levels, ascending numbers within each. first: [levels + 1]. */
static Node *by_level(Roller *r, int32_t levels, int32_t *first) {
  Node *order = NEW_ARRAY(r->temp, Node, r->old->count + 1);
  for (Node k = 0; k < r->old->count; k++)
    if (r->needed[k]) first[r->level[k] + 1]++;
  for (int32_t l = 0; l < levels; l++) first[l + 1] += first[l];
  int32_t *at = NEW_ARRAY(r->temp, int32_t, levels + 1);
  memcpy(at, first, (size_t)levels * sizeof *at);
  for (Node k = 0; k < r->old->count; k++)
    if (r->needed[k]) order[at[r->level[k]]++] = k;
  return order;
}

/* Of every node that of its group, the most of what its users ask for. Users that compute are on
 * higher levels, those that move elements on the same one or higher and have higher numbers. */
static void find_heights(Roller *r, int32_t levels) {
  int32_t *first = NEW_ARRAY(r->temp, int32_t, levels + 2);
  const Node *order = by_level(r, levels, first);
  for (int32_t l = levels; l-- > 0;) {
    for (int32_t k = first[l + 1]; k-- > first[l];) {
      const IrNode *x = ir_node(r->old, order[k]);
      if (moves(x->op)) each_source(r, x, raise, r->height[order[k]]);
    }
    for (int32_t k = first[l]; k < first[l + 1]; k++)
      raise(r, r->group[order[k]], r->height[order[k]]);
    for (int32_t k = first[l]; k < first[l + 1]; k++) {
      const IrNode *x = ir_node(r->old, order[k]);
      if (moves(x->op)) continue;
      r->height[order[k]] = r->height[r->group[order[k]]];
      each_source(r, x, raise, r->height[order[k]] + 1);
    }
  }
}

static int32_t find_groups(Roller *r) {
  int32_t levels = 1, tallest = 0;
  for (Node k = 0; k < r->old->count; k++) {
    r->group[k] = k;
    if (!r->needed[k]) continue;
    r->level[k] = level_of(r, ir_node(r->old, k));
    if (r->level[k] >= levels) levels = r->level[k] + 1;
  }
  join(r, r->level);
  find_heights(r, levels);
  join(r, r->height);
  int32_t *last = NEW_ARRAY(r->temp, int32_t, r->old->count + 1);
  for (Node k = 0; k < r->old->count; k++) {
    r->next[k] = NO_NODE;
    if (!r->needed[k]) continue;
    if (r->group[k] != k) r->next[last[r->group[k]]] = k;
    last[r->group[k]] = k;
    if (r->height[k] > tallest) tallest = r->height[k];
  }
  return tallest;
}

/* ---- making the new graph -------------------------------------------------------------------- */

static Node made_leaf(Roller *r, const IrNode *x) {
  switch (x->op) {
  case IR_CONST: return ir_const_kept(r->g, x->u.values, x->n);
  case IR_INPUT: return ir_input(r->g, x->attr, x->n);
  case IR_NOISE: return ir_noise(r->g, (NoiseKind)x->attr, x->attr2, x->n);
  default: return ir_outer(r->g, x->attr, x->n);
  }
}

/* Where an element of an old node is. */
static Pick now(const Roller *r, Node node, int32_t elem) {
  for (const IrNode *x; moves((x = ir_node(r->old, node))->op);) {
    Pick p = x->op == IR_PACK ? x->u.picks[elem] : (Pick){x->args[0], x->u.index[elem]};
    node = p.node, elem = p.elem;
  }
  return (Pick){r->made[node], r->offset[node] + elem};
}

/* All elements of an old node, as a node. */
static Node whole(Roller *r, Node id) {
  const IrNode *x = ir_node(r->old, id);
  if (x->op == IR_GATHER && !moves(ir_node(r->old, x->args[0])->op))
    return ir_gather_kept(r->g, whole(r, x->args[0]), x->u.index, x->n);
  if (!moves(x->op) && r->offset[id] == 0 && ir_size(r->g, r->made[id]) == x->n) return r->made[id];
  ArenaMark mark = arena_mark(r->temp);
  Pick *picks = NEW_ARRAY(r->temp, Pick, x->n);
  for (int32_t e = 0; e < x->n; e++) picks[e] = now(r, id, e);
  Node all = ir_pack(r->g, picks, x->n);
  arena_reset(r->temp, mark);
  return all;
}

/* ---- log sum exp ----------------------------------------------------------------------------- */

/* The addends of a sum, spelled out: elements index[e] of a node each. */
enum { MOST_ADDENDS = 6 };
typedef struct {
  Node node[MOST_ADDENDS];
  int count;
} Addends;

static Node gathered(Roller *r, Node x, const int32_t *index, int32_t n) {
  int32_t *zero = ir_size(r->g, x) == 1 ? NEW_ARRAY(r->temp, int32_t, n) : NULL;
  return ir_gather(r->g, x, zero ? zero : index, n);
}

/* Elements index[e] of x; false: there are too many addends. */
static bool take_apart(Roller *r, Node x, const int32_t *index, int32_t n, Addends *to) {
  const IrNode *k = ir_node(r->g, x);
  if (k->op == IR_GATHER && ir_size(r->g, k->args[0]) >= n) { /* sums that serve several are kept */
    int32_t *through = NEW_ARRAY(r->temp, int32_t, n);
    for (int32_t e = 0; e < n; e++) through[e] = k->u.index[index[e]];
    return take_apart(r, k->args[0], through, n, to);
  }
  if (k->op == IR_ADD) {
    Node args[2] = {k->args[0], k->args[1]};
    for (int a = 0; a < 2; a++) {
      bool one = ir_size(r->g, args[a]) == 1;
      if (one && to->count < MOST_ADDENDS) {
        to->node[to->count++] = gathered(r, args[a], NULL, n);
      } else if (one || !take_apart(r, args[a], index, n, to)) {
        return false;
      }
    }
    return true;
  }
  if (to->count == MOST_ADDENDS) return false;
  to->node[to->count++] = gathered(r, x, index, n);
  return true;
}

/* Element e of a node, as the place that it comes from. */
static Pick source(const Graph *g, Node x, int32_t e) {
  const IrNode *k = ir_node(g, x);
  return k->op == IR_PACK     ? k->u.picks[e]
         : k->op == IR_GATHER ? (Pick){k->args[0], k->u.index[e]}
                              : (Pick){x, e};
}

static bool same_source(const Graph *g, Node x, int32_t d, int32_t e) {
  Pick p = source(g, x, d), q = source(g, x, e);
  if (p.node != q.node) return false;
  const IrNode *k = ir_node(g, p.node);
  return p.elem == q.elem || (k->op == IR_CONST && k->u.values[p.elem] == k->u.values[q.elem]);
}

/* Is it the same within every row? And are all rows the same? */
static bool same_within(const Graph *g, Node x, int32_t rows, int32_t width) {
  for (int32_t e = 0; e < rows * width; e++)
    if (!same_source(g, x, e, e / width * width)) return false;
  return true;
}
static bool same_rows(const Graph *g, Node x, int32_t rows, int32_t width) {
  for (int32_t e = 0; e < rows * width; e++)
    if (!same_source(g, x, e, e % width)) return false;
  return true;
}

static Node strided(Roller *r, Node x, int32_t n, int32_t stride) {
  int32_t *index = NEW_ARRAY(r->temp, int32_t, n);
  for (int32_t e = 0; e < n; e++) index[e] = e * stride;
  return ir_gather(r->g, x, index, n);
}

static Node plus(Roller *r, Node sum, Node x) {
  return sum == NO_NODE ? x : ir_map(r->g, IR_ADD, (Node[]){sum, x});
}

/* log sum exp of rows of x. What all elements of a row have in common is added behind, and rows
 * that are then the same are one: a chain of hidden states adds the density of its state to every
 * way that leads there. */
static Node log_sum_exp(Roller *r, Node x, int32_t width) {
  Graph *g = r->g;
  int32_t n = ir_size(g, x), rows = n / width, *index = NEW_ARRAY(r->temp, int32_t, n);
  Addends all = {.count = 0};
  for (int32_t e = 0; e < n; e++) index[e] = e;
  if (width == 1 || !take_apart(r, x, index, n, &all)) return ir_reduce(g, IR_LSE, x, width);
  Node common = NO_NODE, own = NO_NODE;
  bool within[MOST_ADDENDS], one = true;
  for (int k = 0; k < all.count; k++) {
    within[k] = same_within(g, all.node[k], rows, width);
    one &= within[k] || same_rows(g, all.node[k], rows, width);
  }
  for (int k = 0; k < all.count; k++) {
    if (within[k])
      common = plus(r, common, strided(r, all.node[k], rows, width));
    else
      own = plus(r, own, one ? ir_gather(g, all.node[k], index, width) : all.node[k]);
  }
  if (own == NO_NODE) return ir_reduce(g, IR_LSE, x, width);
  Node lse = ir_reduce(g, IR_LSE, own, width);
  return plus(r, common, one ? strided(r, lse, rows, 0) : lse);
}

static Node made_alone(Roller *r, const IrNode *x) {
  Graph *g = r->g;
  Node args[IR_MAX_ARGS];
  for (int k = 0; k < x->nargs; k++) args[k] = whole(r, x->args[k]);
  switch (x->op) {
  case IR_SUM: return ir_reduce(g, x->op, args[0], x->attr);
  case IR_LSE: return log_sum_exp(r, args[0], x->attr);
  case IR_CUMSUM: return ir_cumsum(g, args[0], x->attr);
  case IR_MATVEC: return ir_matvec(g, args[0], args[1]);
  case IR_MATMUL: return ir_matmul(g, args[0], args[1], x->attr, x->attr2);
  case IR_EIGEN: return ir_eigen(g, args[0], x->attr);
  case IR_ODE: return ir_ode(g, x->u.ode, args[0]);
  case IR_RUN: return ir_run(g, x->u.run, args[0]);
  default: return ir_map(g, x->op, args);
  }
}

/* Operand k of all members, one after the other; `wide` elements of it for one of the result. */
static Node joined_operand(Roller *r, Node first, int k, int32_t total, int32_t wide) {
  Pick *picks = NEW_ARRAY(r->temp, Pick, total * wide), *to = picks;
  for (Node m = first; m != NO_NODE; m = r->next[m]) {
    const IrNode *x = ir_node(r->old, m);
    int32_t n = ir_size(r->old, x->args[k]);
    for (int32_t e = 0; e < x->n * wide; e++) *to++ = now(r, x->args[k], n == 1 ? 0 : e);
  }
  return ir_pack(r->g, picks, total * wide);
}

static Node made_together(Roller *r, Node first, int32_t total) {
  const IrNode *x = ir_node(r->old, first);
  ArenaMark mark = arena_mark(r->temp);
  bool reduces = x->op == IR_SUM || x->op == IR_LSE;
  Node args[IR_MAX_ARGS];
  for (int k = 0; k < x->nargs; k++)
    args[k] = joined_operand(r, first, k, total, reduces ? x->attr : 1);
  arena_reset(r->temp, mark);
  if (x->op == IR_LSE) return log_sum_exp(r, args[0], x->attr);
  if (reduces) return ir_reduce(r->g, x->op, args[0], x->attr);
  return x->op == IR_CUMSUM ? ir_cumsum(r->g, args[0], x->attr) : ir_map(r->g, x->op, args);
}

static void make_group(Roller *r, Node first) {
  const IrNode *x = ir_node(r->old, first);
  int32_t total = 0;
  for (Node m = first; m != NO_NODE; m = r->next[m]) {
    r->offset[m] = total;
    total += ir_size(r->old, m);
  }
  Node made = is_leaf(x)                  ? made_leaf(r, x)
              : r->next[first] == NO_NODE ? made_alone(r, x)
                                          : made_together(r, first, total);
  for (Node m = first; m != NO_NODE; m = r->next[m]) r->made[m] = made;
}

/* Groups from the tallest to those that are wanted. */
static void make_graph(Roller *r, int32_t tallest) {
  Node *head = NEW_ARRAY(r->temp, Node, tallest + 1),
       *after = NEW_ARRAY(r->temp, Node, r->old->count);
  for (int32_t h = 0; h <= tallest; h++) head[h] = NO_NODE;
  for (Node k = r->old->count; k-- > 0;) {
    if (!r->needed[k] || r->group[k] != k || moves(ir_node(r->old, k)->op)) continue;
    after[k] = head[r->height[k]];
    head[r->height[k]] = k;
  }
  for (int32_t h = tallest; h >= 0; h--)
    for (Node k = head[h]; k != NO_NODE; k = after[k]) make_group(r, k);
}

/* ---- products and sums ----------------------------------------------------------------------- */

static void count_use(Roller *r, Node source, int32_t value) {
  (void)value;
  if (r->uses[source] < 2) r->uses[source]++;
}

/* The product that operand k of x is, if it serves nothing else. */
static const IrNode *own_product(const Roller *r, const IrNode *x, int k) {
  const IrNode *m = ir_node(r->old, x->args[k]);
  return m->op == IR_MUL && m->n == x->n && r->uses[x->args[k]] == 1 ? m : NULL;
}

/* a b + c and c - a b, small, as one node: in nodes, a copy of the graph's. */
static void fuse_products(Roller *r, const Node *wanted, int n, IrNode *nodes) {
  for (Node k = 0; k < r->old->count; k++)
    if (r->needed[k]) each_source(r, ir_node(r->old, k), count_use, 0);
  for (int k = 0; k < n; k++)
    if (wanted[k] != NO_NODE) count_use(r, wanted[k], 0), count_use(r, wanted[k], 0);
  for (Node k = 0; k < r->old->count; k++) {
    const IrNode *x = ir_node(r->old, k);
    if (!r->needed[k] || x->n > MOST_ELEMENTS || (x->op != IR_ADD && x->op != IR_SUB)) continue;
    for (int a = 1; a >= (x->op == IR_SUB); a--) {
      const IrNode *m = own_product(r, x, a);
      if (!m) continue;
      nodes[k].op = x->op == IR_ADD ? IR_FMA : IR_FNMA;
      nodes[k].nargs = 3;
      nodes[k].args[0] = m->args[0];
      nodes[k].args[1] = m->args[1];
      nodes[k].args[2] = x->args[!a];
      break;
    }
  }
}

const Graph *ir_reroll(Arena *a, const Graph *g, Node *wanted, int n, int32_t least) {
  TempArena *task = temp_open(a->ctx);
  Arena *temp = &task->arena;
  size_t count = (size_t)g->count + 1;
  Roller r = {.temp = temp,
              .old = g,
              .needed = NEW_ARRAY(temp, bool, count),
              .level = NEW_ARRAY(temp, int32_t, count),
              .height = NEW_ARRAY(temp, int32_t, count),
              .uses = NEW_ARRAY(temp, int32_t, count),
              .group = NEW_ARRAY(temp, int32_t, count),
              .next = NEW_ARRAY(temp, int32_t, count),
              .made = NEW_ARRAY(temp, Node, count),
              .offset = NEW_ARRAY(temp, int32_t, count)};
  if (mark_needed(&r, wanted, n) >= least) {
    Graph fused = *g;
    fused.nodes =
        memcpy(NEW_ARRAY(temp, IrNode, count), g->nodes, (size_t)g->count * sizeof *g->nodes);
    fuse_products(&r, wanted, n, fused.nodes);
    r.old = &fused;
    memset(r.needed, 0, count * sizeof *r.needed);
    mark_needed(&r, wanted, n);
    r.g = ir_graph_in(a);
    make_graph(&r, find_groups(&r));
    for (int k = 0; k < n; k++)
      if (wanted[k] != NO_NODE) wanted[k] = whole(&r, wanted[k]);
    g = r.g;
  }
  temp_close(task);
  return g;
}
