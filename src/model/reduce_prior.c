/* reduce_prior.c: the log prior and the Jacobian as a sum of terms, each seen through one or two
 * affine functions of theta.
 *
 * The walk goes down through sums, differences and products with numbers, carries the factor of
 * what is below, and makes a block of every vector whose elements are summed.
 */
#include "model/reduce_int.h"

enum { MOST_BLOCKS = 256, MOST_DEPTH = 500 };

typedef struct {
  Reducible from;
  Reduction *out;
  int cap;
  const char *why; /* set: it cannot be done */
} PriorSplit;

/* A block: factor times the sum of the given elements. */
static void add_block(PriorSplit *s, const ReducedElements *e, double factor) {
  Reduced b;
  if (s->why) return;
  if (s->out->nblocks == MOST_BLOCKS) {
    s->why = "it has too many different terms";
  } else if (reduce_elements(&s->from, e, &b, &s->why)) {
    b.factor = factor;
    PUSH(s->out->graph->arena, s->out->blocks, s->out->nblocks, s->cap, b);
  }
}

static void split(PriorSplit *s, Node id, double factor, int depth);

/* A pack falls apart into the nodes it is made of: the elements it has of each. */
static void split_pack(PriorSplit *s, const IrNode *x, double factor, int depth) {
  Arena *a = s->from.temp;
  bool *done = NEW_ARRAY(a, bool, x->n);
  for (int32_t k = 0; k < x->n; k++) {
    if (done[k]) continue;
    Node from = x->u.picks[k].node;
    int32_t n = 0, *elements = NEW_ARRAY(a, int32_t, x->n);
    for (int32_t j = k; j < x->n; j++) {
      if (x->u.picks[j].node != from) continue;
      elements[n++] = x->u.picks[j].elem;
      done[j] = true;
    }
    if (ir_size(s->from.graph, from) == 1) {
      split(s, from, factor * n, depth + 1);
    } else {
      add_block(s, &(ReducedElements){from, elements, n}, factor);
    }
  }
}

/* factor times the sum of all elements of a vector. */
static void split_vector(PriorSplit *s, Node id, double factor, int depth) {
  const IrNode *x = ir_node(s->from.graph, id);
  if (x->op == IR_PACK) {
    split_pack(s, x, factor, depth);
    return;
  }
  int32_t *all = NEW_ARRAY(s->from.temp, int32_t, x->n);
  for (int32_t k = 0; k < x->n; k++) all[k] = k;
  add_block(s, &(ReducedElements){id, all, x->n}, factor);
}

/* factor times the one element of a node. */
static void split(PriorSplit *s, Node id, double factor, int depth) {
  const Graph *g = s->from.graph;
  const IrNode *x = ir_node(g, id);
  if (depth > MOST_DEPTH) s->why = "it has too many different terms";
  if (s->why) return;
  if (x->op == IR_CONST) {
    s->out->constant += factor * x->u.values[0];
  } else if (x->op == IR_ADD || x->op == IR_SUB) {
    split(s, x->args[0], factor, depth + 1);
    split(s, x->args[1], x->op == IR_ADD ? factor : -factor, depth + 1);
  } else if (x->op == IR_NEG) {
    split(s, x->args[0], -factor, depth + 1);
  } else if (x->op == IR_MUL && (ir_is_const(g, x->args[0]) || ir_is_const(g, x->args[1]))) {
    int k = ir_is_const(g, x->args[0]);
    split(s, x->args[k], factor * ir_node(g, x->args[!k])->u.values[0], depth + 1);
  } else if (x->op == IR_SUM && x->attr == ir_size(g, x->args[0])) {
    split_vector(s, x->args[0], factor, depth);
  } else {
    static const int32_t zero[1] = {0};
    add_block(s, &(ReducedElements){id, zero, 1}, factor);
  }
}

Reduction *reduce_prior(Arena *a, const Model *m, const char **why) {
  TempArena *task = temp_open(a->ctx);
  PriorSplit s = {.out = NEW(a, Reduction)};
  s.out->graph = ir_graph_in(a);
  s.from = reduce_begin(&task->arena, m->graph, s.out->graph);
  split(&s, m->prior, 1, 0);
  split(&s, m->jacobian, 1, 0);
  temp_close(task);
  if (!s.why) return s.out;
  *why = arena_format(a, "the prior: %s", s.why);
  return NULL;
}
