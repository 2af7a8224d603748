/* wide.c: binary outcomes whose logit is normal: itself, or once a second function is given.
 *
 * inv_logit(f) is a mixture of Phi(f / sqrt(u)) over u (num/logistic.h), and the mean of that under
 * a normal f is Phi(m / sqrt(v + u)): exact however wide f is. In the two-parameter model of item
 * response the logit is a (theta - b): a line in theta - b once the discrimination a is given.
 */
#include "model/condition_int.h"

static Node map1(Graph *g, unsigned op, Node a) { return ir_map(g, op, &a); }
static Node map2(Graph *g, unsigned op, Node a, Node b) { return ir_map(g, op, (Node[]){a, b}); }

void wide_nodes(Graph *g, const WideLogit *w, Node *heads) {
  Node args[] = {w->y, w->mean, w->variance}, inverse = map1(g, IR_INV_SQRT, w->variance);
  heads[0] = ir_map(g, IR_BERNOULLI_WIDE, args);
  heads[1] = ir_map(g, IR_BERNOULLI_WIDE_MEAN, args);
  heads[2] = map1(g, IR_PHI, map2(g, IR_MUL, w->mean, inverse));
}

/* ---- the slope in a leaf --------------------------------------------------------------------- */

static bool slope_in(Graph *g, Node id, int32_t leaf, Node *slope);

/* Of a sum; of a difference the second slope is turned. */
static Node sum_of(Graph *g, unsigned op, Node a, Node b) {
  if (b == NO_NODE) return a;
  if (a == NO_NODE) return op == IR_SUB ? map1(g, IR_NEG, b) : b;
  return map2(g, op, a, b);
}

static bool slope_in_map(Graph *g, const IrNode *x, int32_t leaf, Node *slope) {
  Node s[IR_MAX_ARGS];
  bool none = true;
  for (int k = 0; k < x->nargs; k++) {
    if (!slope_in(g, x->args[k], leaf, &s[k])) return false;
    none = none && s[k] == NO_NODE;
  }
  *slope = NO_NODE;
  if (none) return true;
  switch (x->op) {
  case IR_NEG: *slope = map1(g, IR_NEG, s[0]); return true;
  case IR_ADD:
  case IR_SUB: *slope = sum_of(g, x->op, s[0], s[1]); return true;
  case IR_MUL:
    if (s[0] != NO_NODE && s[1] != NO_NODE) return false;
    *slope =
        s[0] == NO_NODE ? map2(g, IR_MUL, x->args[0], s[1]) : map2(g, IR_MUL, s[0], x->args[1]);
    return true;
  case IR_DIV:
    if (s[1] != NO_NODE) return false;
    *slope = map2(g, IR_DIV, s[0], x->args[1]);
    return true;
  default: return false;
  }
}

/* Is node id a line in the leaf, all else given? Then its slope; NO_NODE: it does not see it. */
static bool slope_in(Graph *g, Node id, int32_t leaf, Node *slope) {
  IrNode x = *ir_node(g, id);
  *slope = NO_NODE;
  if (x.op == IR_CONST) return true;
  if (x.op == IR_OUTER) {
    if (x.attr == leaf) *slope = ir_number(g, 1);
    return true;
  }
  if (x.op == IR_GATHER) {
    if (!slope_in(g, x.args[0], leaf, slope)) return false;
    if (*slope != NO_NODE && ir_size(g, *slope) > 1) *slope = ir_gather(g, *slope, x.u.index, x.n);
    return true;
  }
  return ir_is_map(x.op) && slope_in_map(g, &x, leaf, slope);
}

bool wide_slope(Graph *g, Node logit, int32_t leaf, Node *slope) {
  return slope_in(g, logit, leaf, slope) && *slope != NO_NODE;
}
