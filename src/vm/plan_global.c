/* plan_global.c: the instructions of values that are shared by all observations, each planned whole
 * with what it needs before it.
 */
#include "vm/plan_int.h"

#include <stdlib.h>
#include <string.h>

/* Numbers; a single one as LANES copies, ready to be read as a vector. */
Operand plan_data_operand(Planner *p, const double *values, int32_t n) {
  Operand o = {.place = IN_DATA, .access = AT_SAME, .data = values};
  if (n != 1) return o;
  double *copies = NEW_ARRAY(p->arena, double, LANES);
  for (int k = 0; k < LANES; k++) copies[k] = values[0];
  return (Operand){.place = IN_DATA, .access = AT_ONE, .data = copies};
}

bool plan_all_same(const int32_t *index, size_t n) {
  for (size_t e = 1; e < n; e++)
    if (index[e] != index[0]) return false;
  return true;
}

static bool are_consecutive(const int32_t *index, size_t n) {
  for (size_t e = 1; e < n; e++)
    if (index[e] != index[0] + (int32_t)e) return false;
  return true;
}

/* Elements base + index[e] of the global values, n of them. */
static Operand indexed_operand(size_t base, const int32_t *index, size_t n) {
  Operand o = {.place = IN_GLOBAL, .access = AT_INDEX, .base = base, .index = index};
  if (!are_consecutive(index, n) && !plan_all_same(index, n)) return o;
  return (Operand){.place = IN_GLOBAL,
                   .access = are_consecutive(index, n) && n > 1 ? AT_SAME : AT_ONE,
                   .base = base + (size_t)index[0]};
}

/* A pack is read where its elements are: all global values are one array. Numbers among them are
 * rows of their own. */
static Operand packed_operand(Planner *p, const IrNode *x) {
  int32_t *index = NEW_ARRAY(p->arena, int32_t, x->n);
  for (int32_t e = 0; e < x->n; e++)
    index[e] = (int32_t)plan_global(p, x->u.picks[e].node) + x->u.picks[e].elem;
  return indexed_operand(0, index, (size_t)x->n);
}

/* How a global instruction reads node id: gathers and packs become an index, constants stay data.
 */
static Operand global_operand(Planner *p, Node id, int32_t n) {
  const IrNode *x = ir_node(p->g, id);
  if (x->op == IR_CONST) return plan_data_operand(p, x->u.values, x->n);
  if (x->op == IR_GATHER)
    return indexed_operand(plan_global(p, x->args[0]), x->u.index, (size_t)x->n);
  if (x->op == IR_PACK) return packed_operand(p, x);
  return (Operand){.place = IN_GLOBAL,
                   .access = x->n == 1 && n != 1 ? AT_ONE : AT_SAME,
                   .base = plan_global(p, id)};
}

static const Operand *pick_operands(Planner *p, const IrNode *x) {
  Operand *o = NEW_ARRAY(p->arena, Operand, x->n);
  for (int32_t e = 0; e < x->n; e++) {
    Pick k = x->u.picks[e];
    const IrNode *s = ir_node(p->g, k.node);
    o[e] = s->op == IR_CONST ? plan_data_operand(p, s->u.values + k.elem, 2) /* may be very many */
                             : (Operand){.place = IN_GLOBAL,
                                         .access = AT_ONE,
                                         .base = plan_global(p, k.node) + (size_t)k.elem};
  }
  return o;
}

void plan_note_width(Planner *p, const IrNode *x) {
  if ((x->op == IR_SUM || x->op == IR_LSE) && (size_t)x->attr > p->tape->max_width)
    p->tape->max_width = (size_t)x->attr;
}

/* The operand of a sum that is elementwise and needed nowhere else: summed as it is computed. So
 * are the exponentials of a sum of two. */
static Node summand_of(const Planner *p, const IrNode *x) {
  Node a = x->op == IR_SUM || x->op == IR_LSE ? x->args[0] : NO_NODE;
  if (a == NO_NODE || !ir_is_map(ir_node(p->g, a)->op) || p->uses[a] > 1 || p->global_at[a])
    return NO_NODE;
  return x->op == IR_SUM || ir_node(p->g, a)->op == IR_ADD ? a : NO_NODE;
}

static const Instr *summand(Planner *p, const IrNode *x) {
  Node of = summand_of(p, x);
  if (of == NO_NODE) return NULL;
  const IrNode *s = ir_node(p->g, of);
  Instr *each = NEW(p->arena, Instr);
  *each = (Instr){.op = s->op, .nargs = s->nargs, .n = s->n};
  for (int k = 0; k < s->nargs; k++) each->in[k] = global_operand(p, s->args[k], s->n);
  return each;
}

/* The element at which the exponentials of a node begin, whose operands are planned. */
size_t plan_exps_of(Planner *p, Node id) {
  Tape *t = p->tape;
  if (!p->exps_of[id]) {
    Instr i = {.op = IR_EXP, .nargs = 1, .n = ir_size(p->g, id), .aside = true};
    i.in[0] = global_operand(p, id, i.n);
    i.out = t->elements;
    t->elements += (size_t)i.n;
    PUSH(p->arena, t->code, t->count, t->cap, i);
    p->exps_of[id] = i.out + 1;
  }
  return p->exps_of[id] - 1;
}

/* Has every row of W elements the same ones? */
static bool rows_agree(const Operand *o, int32_t n, int32_t W) {
  if (o->place != IN_GLOBAL || o->access != AT_INDEX) return false;
  for (int32_t e = W; e < n; e++)
    if (o->index[e] != o->index[e % W]) return false;
  return true;
}

/* A step of a chain of hidden states: log sum exp over w of a[w] + b[e, w], for several e. Where b
 * is met in several steps its exponentials are taken once, and those of a once for all e. */
static void find_chain(Planner *p, const IrNode *x, Instr *i) {
  const IrNode *sum = ir_node(p->g, x->args[0]);
  if (x->op != IR_LSE || !i->summand || x->n < 2 || x->attr > CHAIN_MOST) return;
  for (int k = 0; k < 2; k++) {
    const Operand *other = &i->summand->in[1 - k];
    bool whole = other->place == IN_GLOBAL && ir_size(p->g, sum->args[1 - k]) == sum->n;
    if (!whole || p->uses[sum->args[1 - k]] < 2 || !rows_agree(&i->summand->in[k], sum->n, x->attr))
      continue;
    i->common = (uint8_t)(k + 1);
    i->exps = plan_exps_of(p, sum->args[1 - k]);
    if ((size_t)sum->n > p->tape->max_width) p->tape->max_width = (size_t)sum->n;
    return;
  }
}

/* All elements of a node, as consecutive rows. */
static Operand whole_operand(Planner *p, Node id) {
  return (Operand){.place = IN_GLOBAL, .access = AT_SAME, .base = plan_global(p, id)};
}

typedef struct {
  int32_t element, column;
} Column;

static int by_element(const void *a, const void *b) {
  const Column *x = a, *y = b;
  if (x->element != y->element) return x->element < y->element ? -1 : 1;
  return x->column < y->column ? -1 : x->column > y->column;
}

/* A matrix of numbers times a vector of elements from here and there: they are read where they are,
 * in the order of memory, each once: its columns are added up. */
static void gathered_product(Planner *p, const IrNode *x, Instr *i) {
  const double *given = ir_node(p->g, x->args[0])->u.values;
  Operand b = global_operand(p, x->args[1], x->attr);
  size_t inner = (size_t)x->attr, rows = (size_t)x->n, used = 0;
  Column *c = NEW_ARRAY(p->temp, Column, inner);
  for (size_t k = 0; k < inner; k++) {
    size_t at = b.access == AT_ONE ? 0 : b.access == AT_SAME ? k : (size_t)b.index[k];
    c[k] = (Column){(int32_t)(b.base + at), (int32_t)k};
  }
  qsort(c, inner, sizeof *c, by_element);
  int32_t *index = NEW_ARRAY(p->arena, int32_t, inner);
  double *A = NEW_ARRAY(p->arena, double, rows *inner);
  for (size_t k = 0; k < inner; k++)
    if (!k || c[k].element != c[k - 1].element) index[used++] = c[k].element;
  for (size_t r = 0; r < rows; r++)
    for (size_t k = 0, u = 0; k < inner; k++) {
      u += k && c[k].element != c[k - 1].element;
      A[r * used + u] += given[r * inner + (size_t)c[k].column];
    }
  i->in[0] = (Operand){.place = IN_DATA, .access = AT_SAME, .data = A};
  i->in[1] = indexed_operand(0, index, used);
  i->width = (int32_t)used;
  if (used > p->tape->max_width) p->tape->max_width = used;
}

static void product_operands(Planner *p, const IrNode *x, Instr *i) {
  unsigned op = ir_node(p->g, x->args[1])->op;
  if (op == IR_GATHER || op == IR_PACK) {
    gathered_product(p, x, i);
  } else {
    i->in[0] = plan_data_operand(p, ir_node(p->g, x->args[0])->u.values, 2);
    i->in[1] = whole_operand(p, x->args[1]);
  }
}

/* Of a product's two matrices one may stay numbers. */
static void matrix_operands(Planner *p, const IrNode *x, Instr *i) {
  int which = ir_is_const(p->g, x->args[0]) ? 0 : 1;
  for (int k = 0; k < 2; k++) {
    const IrNode *m = ir_node(p->g, x->args[k]);
    i->in[k] = k == which && m->op == IR_CONST
                   ? (Operand){.place = IN_DATA, .access = AT_SAME, .data = m->u.values}
                   : whole_operand(p, x->args[k]);
  }
}

/* Make the instruction of node id, whose operands are planned. Matrix products and the like want
 * their operand as consecutive rows, so a gather is an instruction for them; all others read
 * through it. */
static void emit_global(Planner *p, Node id) {
  Tape *t = p->tape;
  const IrNode *x = ir_node(p->g, id);
  if (x->op == IR_INPUT) {
    p->global_at[id] = (size_t)x->attr + 1;
    return;
  }
  Instr i = {.op = x->op, .nargs = x->nargs, .n = x->n, .width = x->attr, .columns = x->attr2};
  plan_note_width(p, x);
  switch (x->op) {
  case IR_NOISE: break;
  case IR_OUTER:
    i.leaf = t->leaf_rows;
    t->leaf_rows += (size_t)x->n;
    break;
  case IR_CONST:
    i.nargs = 1;
    i.in[0] = plan_data_operand(p, x->u.values, x->n);
    break;
  case IR_GATHER: i.in[0] = global_operand(p, id, x->n); break;
  case IR_PACK: i.picks = pick_operands(p, x); break;
  case IR_MATVEC: product_operands(p, x, &i); break;
  case IR_SUM:
  case IR_LSE:
    i.summand = summand(p, x);
    find_chain(p, x, &i);
    if (!i.summand) i.in[0] = global_operand(p, x->args[0], x->n);
    break;
  case IR_ODE:
    i.ode = x->u.ode;
    i.columns = t->odes++;
    i.in[0] = whole_operand(p, x->args[0]);
    break;
  case IR_RUN:
    i.run = x->u.run;
    i.columns = t->runs++;
    i.in[0] = whole_operand(p, x->args[0]);
    break;
  case IR_EIGEN:
    if (t->eigen_rows < (size_t)x->attr) t->eigen_rows = (size_t)x->attr;
    i.in[0] = whole_operand(p, x->args[0]);
    break;
  case IR_MATMUL: matrix_operands(p, x, &i); break;
  case IR_CUMSUM: i.in[0] = whole_operand(p, x->args[0]); break;
  default:
    for (int k = 0; k < x->nargs; k++) i.in[k] = global_operand(p, x->args[k], x->n);
  }
  i.out = t->elements;
  t->elements += (size_t)x->n;
  PUSH(p->arena, t->code, t->count, t->cap, i);
  p->global_at[id] = i.out + 1;
}

/* The walk's stack: chains can be long (unrolled recurrences). */
typedef struct {
  Node *nodes;
  size_t depth, cap;
} Stack;

static void push(Planner *p, Stack *s, Node id) {
  if (!p->global_at[id]) PUSH(p->temp, s->nodes, s->depth, s->cap, id);
}

static void push_picks(Planner *p, Stack *s, const IrNode *x, bool numbers) {
  for (int32_t e = 0; e < x->n; e++)
    if (numbers || !ir_is_const(p->g, x->u.picks[e].node)) push(p, s, x->u.picks[e].node);
}

/* What operand a of x is read from: through gathers and packs, but for instructions that want
 * consecutive rows. */
static void push_operand(Planner *p, Stack *s, const IrNode *x, Node a) {
  const IrNode *o = ir_node(p->g, a);
  bool rows = x->op == IR_MATMUL || x->op == IR_CUMSUM || x->op == IR_ODE || x->op == IR_RUN ||
              x->op == IR_EIGEN;
  if (o->op == IR_CONST) return;
  if (o->op == IR_GATHER && !rows) {
    push(p, s, o->args[0]);
  } else if (o->op == IR_PACK && !rows) {
    push_picks(p, s, o, true);
  } else {
    push(p, s, a);
  }
}

/* The element at which node id begins, planned whole. */
size_t plan_global(Planner *p, Node id) {
  if (p->global_at[id]) return p->global_at[id] - 1;
  Stack s = {0};
  push(p, &s, id);
  while (s.depth) {
    Node top = s.nodes[s.depth - 1];
    const IrNode *x = ir_node(p->g, top);
    if (summand_of(p, x) != NO_NODE) x = ir_node(p->g, x->args[0]); /* its operands */
    size_t before = s.depth;
    for (int k = 0; k < x->nargs && !p->global_at[top]; k++) push_operand(p, &s, x, x->args[k]);
    if (x->op == IR_PACK && !p->global_at[top]) push_picks(p, &s, x, false);
    if (s.depth > before) continue;
    if (!p->global_at[top]) emit_global(p, top);
    s.depth--;
  }
  return p->global_at[id] - 1;
}
