/* products.c: finding them.
 *
 * Downwards, what the observations need is marked, element by element, as far as elements are
 * functions of several parameters. Upwards, nodes become nodes of a graph above: a node whose
 * needed elements are all functions of one parameter is leaves; of all others it has to be known
 * that means go through them. Which parameters an element above is made of is kept as a set of
 * bits.
 */
#include "model/products.h"

#include "ir/ir.h"

#include <string.h>

enum { NONE = -1, SEVERAL = -2 };
enum { SET_BYTES = 256 << 20 }; /* of all sets */

typedef uint64_t Bits;

typedef struct {
  Arena *arena, *temp;
  const Graph *g;
  Products *made;
  int32_t **one; /* of every element of every node: its only parameter, or NONE, or SEVERAL */
  bool **need;   /* NULL: none of its elements */
  bool *leaf;
  bool *direct, *as_log; /* what is asked for is the mean of the value, or of its exponential */
  Node *above;
  bool
      *factor; /* some product has it as a factor, or a part of one: its parameters are asked for */
  Bits ***set; /* of each element; NULL: no parameter */
  size_t words, room;
} Finder;

static const IrNode *node(const Finder *f, Node id) { return ir_node(f->g, id); }

/* ---- elements that are functions of one parameter -------------------------------------------- */

static int32_t join(int32_t a, int32_t b) {
  return a == NONE || a == b ? b : b == NONE ? a : SEVERAL;
}

static int32_t operand_element(const Finder *f, Node operand, int32_t e) {
  return node(f, operand)->n == 1 ? 0 : e;
}

static int32_t one_of_map(const Finder *f, const IrNode *x, int32_t e) {
  int32_t one = NONE;
  for (int k = 0; k < x->nargs; k++)
    one = join(one, f->one[x->args[k]][operand_element(f, x->args[k], e)]);
  return one;
}

static int32_t one_of_row(const Finder *f, const IrNode *x, int32_t e) {
  int32_t one = NONE;
  for (int32_t w = 0; w < x->attr; w++) one = join(one, f->one[x->args[0]][e * x->attr + w]);
  return one;
}

/* Element e of node x. */
static int32_t one_of(const Finder *f, const IrNode *x, int32_t e) {
  if (ir_is_map(x->op)) return one_of_map(f, x, e);
  switch (x->op) {
  case IR_CONST: return NONE;
  case IR_INPUT: return x->attr + e;
  case IR_GATHER: return f->one[x->args[0]][x->u.index[e]];
  case IR_PACK: return f->one[x->u.picks[e].node][x->u.picks[e].elem];
  case IR_SUM:
  case IR_LSE: return one_of_row(f, x, e);
  case IR_CUMSUM: return e % x->attr ? join(f->one[x->args[0]][e], SEVERAL) : f->one[x->args[0]][e];
  default: return SEVERAL;
  }
}

static void find_ones(Finder *f, Node last) {
  for (Node id = 0; id <= last; id++) {
    const IrNode *x = node(f, id);
    f->one[id] = NEW_ARRAY(f->temp, int32_t, x->n);
    for (int32_t e = 0; e < x->n; e++) f->one[id][e] = one_of(f, x, e);
  }
}

/* ---- what is needed -------------------------------------------------------------------------- */

static bool *needed(Finder *f, Node id) {
  if (!f->need[id]) f->need[id] = NEW_ARRAY(f->temp, bool, node(f, id)->n);
  return f->need[id];
}

static void need_range(Finder *f, Node id, int32_t from, int32_t to) {
  memset(needed(f, id) + from, true, (size_t)(to - from) * sizeof(bool));
}

/* What element e of node x is made of. */
static void need_operands(Finder *f, const IrNode *x, int32_t e) {
  int32_t W = x->attr;
  switch (x->op) {
  case IR_GATHER: needed(f, x->args[0])[x->u.index[e]] = true; break;
  case IR_PACK: needed(f, x->u.picks[e].node)[x->u.picks[e].elem] = true; break;
  case IR_SUM:
  case IR_LSE: need_range(f, x->args[0], e * W, (e + 1) * W); break;
  case IR_CUMSUM: need_range(f, x->args[0], e / W * W, e + 1); break;
  default:
    for (int k = 0; k < x->nargs; k++)
      needed(f, x->args[k])[operand_element(f, x->args[k], e)] = true;
  }
}

static bool are_ones(const Finder *f, Node id) {
  for (int32_t e = 0; e < node(f, id)->n; e++)
    if (f->need[id][e] && f->one[id][e] == SEVERAL) return false;
  return true;
}

/* Ops through which means go. */
static bool passes(const Finder *f, const IrNode *x) {
  switch (x->op) {
  case IR_GATHER:
  case IR_PACK:
  case IR_SUM:
  case IR_LSE:
  case IR_CUMSUM:
  case IR_ADD:
  case IR_LOG_SUM_EXP2:
  case IR_LOG: return true;
  case IR_SUB: return node(f, x->args[1])->op == IR_CONST;
  default: return false;
  }
}

/* A value between a logarithm and an exponential. */
static bool passes_direct(const IrNode *x) {
  return x->op == IR_GATHER || x->op == IR_PACK || x->op == IR_EXP;
}

static void mark_direct(Finder *f, Node id, const IrNode *x) {
  bool direct = x->op == IR_LOG || (f->direct[id] && x->op != IR_EXP);
  bool *mark = direct ? f->direct : f->as_log;
  for (int k = 0; k < x->nargs; k++) mark[x->args[k]] = true;
  for (int32_t e = 0; x->op == IR_PACK && e < x->n; e++)
    if (f->need[id][e]) mark[x->u.picks[e].node] = true;
}

static bool is_product(const IrNode *x) {
  return x->op == IR_ADD || x->op == IR_SUB || x->op == IR_SUM || x->op == IR_CUMSUM;
}

static void mark_factors(Finder *f, Node id, const IrNode *x) {
  bool factor = f->factor[id] || is_product(x);
  for (int k = 0; factor && k < x->nargs; k++) f->factor[x->args[k]] = true;
  for (int32_t e = 0; factor && x->op == IR_PACK && e < x->n; e++)
    f->factor[x->u.picks[e].node] = true;
}

/* From the roots down; false: an op is none through which means go. */
static bool find_needed(Finder *f, Node last) {
  for (Node id = last; id >= 0; id--) {
    const IrNode *x = node(f, id);
    if (!f->need[id]) continue;
    bool direct = f->direct[id];
    if (direct && f->as_log[id] && x->op != IR_CONST) return false;
    f->leaf[id] =
        !direct && x->op != IR_PACK && x->op != IR_GATHER && x->op != IR_CONST && are_ones(f, id);
    if (f->leaf[id] || x->op == IR_CONST) continue;
    if (direct ? !passes_direct(x) : !passes(f, x)) return false;
    mark_direct(f, id, x);
    mark_factors(f, id, x);
    for (int32_t e = 0; e < x->n; e++)
      if (f->need[id][e]) need_operands(f, x, e);
  }
  return true;
}

/* ---- the graph above ------------------------------------------------------------------------- */

static Bits *new_set(Finder *f) {
  if (f->words > f->room) return NULL;
  f->room -= f->words;
  return NEW_ARRAY(f->temp, Bits, f->words);
}

static bool are_apart(const Finder *f, const Bits *a, const Bits *b) {
  for (size_t w = 0; a && b && w < f->words; w++)
    if (a[w] & b[w]) return false;
  return true;
}

/* The parameters of several operands of an element, one after the other. */
typedef struct {
  Bits *all; /* so far; NULL: none */
  bool own;  /* and it is nobody else's */
  bool apart, full;
} Union;

/* Without `asked` nobody wants to know more than whether they are apart, and the last one is not
 * added. */
static void unite(Finder *f, Union *u, Bits *b, bool asked) {
  u->apart &= are_apart(f, u->all, b);
  if (!b || (u->all && !asked)) return;
  if (!u->all) {
    u->all = b;
    return;
  }
  if (!u->own) {
    Bits *mine = new_set(f);
    u->full |= !mine;
    if (!mine) return;
    u->all = memcpy(mine, u->all, f->words * sizeof *mine);
    u->own = true;
  }
  for (size_t w = 0; w < f->words; w++) u->all[w] |= b[w];
}

static bool make_leaf_set(Finder *f, Node id, int32_t e) {
  int32_t one = f->one[id][e];
  if (one == NONE || !f->factor[id]) return true;
  Bits *s = f->set[id][e] = new_set(f);
  if (s) s[one / 64] |= (Bits)1 << one % 64;
  return s;
}

/* The leaves of a node, and where they are taken from above: inputs in their order. */
static bool make_leaves(Finder *f, Node id) {
  const IrNode *x = node(f, id);
  Products *p = f->made;
  ProductLeaves l = {.node = id, .first = p->leaves};
  int32_t *select = NEW_ARRAY(f->arena, int32_t, x->n), *index = NEW_ARRAY(f->temp, int32_t, x->n);
  for (int32_t e = 0; e < x->n; e++) {
    if (!f->need[id][e]) continue;
    if (!make_leaf_set(f, id, e)) return false;
    index[e] = l.n;
    select[l.n++] = e;
  }
  l.select = select;
  p->leaves += l.n;
  PUSH(f->arena, p->nodes, p->nnodes, p->cap_nodes, l);
  f->above[id] = ir_gather(p->above, ir_input(p->above, l.first, l.n), index, x->n);
  return true;
}

/* Element e of node id, which is no leaf; false: factors have a parameter in common, or there are
 * too many sets. */
static bool unite_operands(Finder *f, Node id, const IrNode *x, int32_t e) {
  Union u = {.apart = true};
  bool asked = f->factor[id];
  int32_t W = x->attr;
  switch (x->op) {
  case IR_CONST: break;
  case IR_GATHER: unite(f, &u, f->set[x->args[0]][x->u.index[e]], asked); break;
  case IR_PACK: unite(f, &u, f->set[x->u.picks[e].node][x->u.picks[e].elem], asked); break;
  case IR_SUM:
  case IR_LSE:
    for (int32_t w = 0; w < W; w++)
      unite(f, &u, f->set[x->args[0]][e * W + w], asked || x->op == IR_SUM);
    break;
  case IR_CUMSUM:
    if (e % W) unite(f, &u, f->set[id][e - 1], true);
    unite(f, &u, f->set[x->args[0]][e], true);
    break;
  default:
    for (int k = 0; k < x->nargs; k++)
      unite(f, &u, f->set[x->args[k]][operand_element(f, x->args[k], e)], asked);
  }
  f->set[id][e] = u.all;
  return !u.full && (u.apart || !is_product(x));
}

static Node pack_above(const Finder *f, const IrNode *x) {
  Pick *picks = NEW_ARRAY(f->temp, Pick, x->n);
  Node none = ir_number(f->made->above, 0);
  for (int32_t e = 0; e < x->n; e++) {
    Pick p = x->u.picks[e];
    picks[e] = f->above[p.node] == NO_NODE ? (Pick){none, 0} : (Pick){f->above[p.node], p.elem};
  }
  return ir_pack(f->made->above, picks, x->n);
}

static Node node_above(const Finder *f, const IrNode *x) {
  Graph *g = f->made->above;
  Node args[IR_MAX_ARGS];
  for (int k = 0; k < x->nargs; k++) args[k] = f->above[x->args[k]];
  switch (x->op) {
  case IR_CONST: return ir_const_kept(g, x->u.values, x->n);
  case IR_GATHER: return ir_gather(g, args[0], x->u.index, x->n);
  case IR_PACK: return pack_above(f, x);
  case IR_SUM:
  case IR_LSE: return ir_reduce(g, x->op, args[0], x->attr);
  case IR_CUMSUM: return ir_cumsum(g, args[0], x->attr);
  default: return ir_map(g, x->op, args);
  }
}

static bool build(Finder *f, Node last) {
  for (Node id = 0; id <= last; id++) {
    const IrNode *x = node(f, id);
    f->above[id] = NO_NODE;
    if (!f->need[id]) continue;
    f->set[id] = NEW_ARRAY(f->temp, Bits *, x->n);
    if (f->leaf[id]) {
      if (!make_leaves(f, id)) return false;
      continue;
    }
    for (int32_t e = 0; e < x->n; e++)
      if (f->need[id][e] && !unite_operands(f, id, x, e)) return false;
    f->above[id] = node_above(f, x);
  }
  return f->made->leaves > 0;
}

/* ---- all ------------------------------------------------------------------------------------- */

static Finder finder(Arena *a, Arena *temp, const Model *m, const Graph *g) {
  Finder f = {.arena = a, .temp = temp, .g = g};
  f.one = NEW_ARRAY(temp, int32_t *, g->count);
  f.need = NEW_ARRAY(temp, bool *, g->count);
  f.leaf = NEW_ARRAY(temp, bool, g->count);
  f.direct = NEW_ARRAY(temp, bool, g->count);
  f.as_log = NEW_ARRAY(temp, bool, g->count);
  f.factor = NEW_ARRAY(temp, bool, g->count);
  f.above = NEW_ARRAY(temp, Node, g->count);
  f.set = NEW_ARRAY(temp, Bits **, g->count);
  f.words = (m->dim + 63) / 64;
  f.room = SET_BYTES / sizeof(Bits);
  return f;
}

/* The last of the roots of blocks that have rows; NO_NODE where there is none, where a density is
 * not known, or there is too much to look through. */
static Node last_root(const Graph *g, const Node *roots, const ModelRows *rows, int nblocks) {
  const int64_t most = 1 << 24;
  Node last = NO_NODE;
  int64_t elements = 0;
  for (int b = 0; b < nblocks; b++) {
    if (rows->first[b + 1] == rows->first[b]) continue;
    if (roots[b] == NO_NODE) return NO_NODE;
    last = roots[b] > last ? roots[b] : last;
  }
  for (Node id = 0; id <= last; id++) elements += ir_size(g, id);
  return elements <= most ? last : NO_NODE;
}

/* Everything below the roots is such that it could be. */
static bool look(Finder *f, const Node *roots, const ModelRows *rows, int nblocks) {
  Node last = last_root(f->g, roots, rows, nblocks);
  if (last == NO_NODE) return false;
  for (int b = 0; b < nblocks; b++)
    for (size_t k = rows->first[b]; k < rows->first[b + 1]; k++)
      needed(f, roots[b])[rows->row[k]] = true;
  find_ones(f, last);
  return find_needed(f, last);
}

static const Products *make(Finder *f, Node *roots, const ModelRows *rows, int nblocks) {
  if (!look(f, roots, rows, nblocks)) return NULL;
  f->made = NEW(f->arena, Products);
  *f->made = (Products){.below = f->g, .above = ir_graph_in(f->arena), .roots = roots};
  if (!build(f, last_root(f->g, roots, rows, nblocks))) return NULL;
  for (int b = 0; b < nblocks; b++)
    if (roots[b] != NO_NODE) roots[b] = f->above[roots[b]];
  return f->made;
}

/* It is seen on the model's own graph whether it is worth while to join its small nodes. */
const Products *model_products(Arena *a, const Model *m, const ModelRows *rows) {
  enum { LEAST = 256 };
  TempArena *temp = temp_open(a->ctx);
  Node *roots = NEW_ARRAY(a, Node, m->nblocks + 1);
  for (int b = 0; b < m->nblocks; b++)
    roots[b] = rows->first[b + 1] > rows->first[b] ? m->blocks[b].root : NO_NODE;
  Finder f = finder(a, &temp->arena, m, m->graph);
  const Products *found = NULL;
  if (look(&f, roots, rows, m->nblocks)) {
    f = finder(a, &temp->arena, m, ir_reroll(a, m->graph, roots, m->nblocks, LEAST));
    found = make(&f, roots, rows, m->nblocks);
  }
  temp_close(temp);
  return found;
}
