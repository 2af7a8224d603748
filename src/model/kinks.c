/* kinks.c: densities with a kink in their location, integrated over it.
 *
 * The log of a double exponential density, of quantile regression's asymmetric one and of all that
 * a program spells out with abs() or a condition on its location is a line on either side of a
 * kink:
 *
 *   l(f) = a0 + b0 f  for f < t,   a1 + b1 f  for f > t
 *
 * Nodes see such a kink only by chance. But over a normal f of mean m and variance V = s^2 both
 * sides have a form, with z = (t - m) / s:
 *
 *   E[exp l]  = sum_k exp(ak + bk m + bk^2 V / 2) Phi(+-(z - bk s))
 *   E[l]      = (a0 + b0 m) Phi(z) + (a1 + b1 m) Phi(-z) + (b1 - b0) s phi(z)
 */
#include "model/condition_int.h"

#include <math.h>

static Node map1(Graph *g, unsigned op, Node a) { return ir_map(g, op, &a); }
static Node map2(Graph *g, unsigned op, Node a, Node b) { return ir_map(g, op, (Node[]){a, b}); }
static Node select_of(Graph *g, Node c, Node yes, Node no) {
  return ir_map(g, IR_SELECT, (Node[]){c, yes, no});
}

/* ---- is there one ---------------------------------------------------------------------------- */

/* Does the op compare its first operand with something, or its first two with each other? */
static bool has_kink(unsigned op) {
  switch (op) {
  case IR_ABS:
  case IR_LT:
  case IR_LE:
  case IR_STEP:
  case IR_FMAX:
  case IR_FMIN:
  case IR_DOUBLE_EXP: return true;
  default: return false;
  }
}

bool kinks_any(const Graph *g, Arena *temp, const uint8_t *constant, uint8_t is, Node root) {
  bool *reached = NEW_ARRAY(temp, bool, root + 1);
  reached[root] = true;
  for (Node k = root; k >= 0; k--) {
    const IrNode *x = ir_node(g, k);
    if (!reached[k] || constant[k] == is) continue;
    if (has_kink(x->op)) return true;
    for (int a = 0; a < x->nargs; a++) reached[x->args[a]] = true;
    for (int32_t e = 0; x->op == IR_PACK && e < x->n; e++) reached[x->u.picks[e].node] = true;
  }
  return false;
}

static bool open(const GivenReader *r, Node id) { return r->mask[id] & ~r->scales; }

/* The location in it: what is left of a line without what is given. */
static Node innermost(const GivenReader *r, Node id) {
  for (;;) {
    const IrNode *x = ir_node(r->g, id);
    Node inner = NO_NODE, outer = NO_NODE;
    for (int a = 0; a < x->nargs; a++) {
      if (!open(r, x->args[a]))
        outer = x->args[a];
      else if (inner == NO_NODE)
        inner = x->args[a];
      else
        return id;
    }
    bool sum = x->op == IR_NEG || x->op == IR_ADD || x->op == IR_SUB,
         product = (x->op == IR_MUL || x->op == IR_DIV) && outer != NO_NODE &&
                   (ir_size(r->g, outer) == 1 || r->mask[outer]);
    if (inner == NO_NODE || !(sum || product)) return id;
    id = inner;
  }
}

Node kinks_location(const GivenReader *r, const bool *reached, Node root) {
  for (Node k = 0; k <= root; k++) {
    const IrNode *x = ir_node(r->g, k);
    if (!reached[k] || !has_kink(x->op)) continue;
    for (int a = 0; a < x->nargs && a < 2; a++)
      if (open(r, x->args[a])) return innermost(r, x->args[a]);
  }
  return NO_NODE;
}

/* ---- both sides of it ------------------------------------------------------------------------ */

/* value + slope f on either side of f = at. No slope: NO_NODE; no kink: at is NO_NODE, and the
 * sides are the same. */
typedef struct {
  Node value[2], slope[2], at;
} Sides;

typedef struct {
  const GivenReader *r;
  Graph *g;
  Node location;
  Sides **memo; /* of each node that was read: one kink is one node, too */
} Reading;

static bool read_sides(const Reading *t, Node id, Sides *s);

static bool is_flat(const Sides *s) { return s->slope[0] == NO_NODE && s->slope[1] == NO_NODE; }
static Node zero_or(Graph *g, Node x) { return x == NO_NODE ? ir_number(g, 0) : x; }

/* There is one kink at most. */
static bool same_kink(const Sides *a, const Sides *b, Node *at) {
  *at = a->at == NO_NODE ? b->at : a->at;
  return a->at == NO_NODE || b->at == NO_NODE || a->at == b->at;
}

static bool add(Graph *g, unsigned op, const Sides *a, const Sides *b, Sides *s) {
  for (int k = 0; k < 2; k++) {
    Node p = a->slope[k], q = b->slope[k];
    s->value[k] = map2(g, op, a->value[k], b->value[k]);
    s->slope[k] = q == NO_NODE ? p : map2(g, op, zero_or(g, p), q);
  }
  return same_kink(a, b, &s->at);
}

/* b is no line. */
static bool scale(Graph *g, unsigned op, const Sides *a, const Sides *b, Sides *s) {
  if (!is_flat(b)) return false;
  for (int k = 0; k < 2; k++) {
    s->value[k] = map2(g, op, a->value[k], b->value[k]);
    s->slope[k] = a->slope[k] == NO_NODE ? NO_NODE : map2(g, op, a->slope[k], b->value[k]);
  }
  return same_kink(a, b, &s->at);
}

/* 1 where a < b: of two lines, on one side of where they meet. */
static bool less(Graph *g, const Sides *a, const Sides *b, Sides *s) {
  Sides d;
  if (a->at != NO_NODE || b->at != NO_NODE || !add(g, IR_SUB, a, b, &d) || is_flat(&d))
    return false;
  Node none = ir_number(g, 0), slope = d.slope[0];
  *s = (Sides){{map2(g, IR_LT, none, slope), map2(g, IR_LT, slope, none)},
               {NO_NODE, NO_NODE},
               map2(g, IR_DIV, map1(g, IR_NEG, d.value[0]), slope)};
  return true;
}

static bool choose(Graph *g, const Sides *c, const Sides *a, const Sides *b, Sides *s) {
  Node at;
  if (!is_flat(c) || !same_kink(a, b, &at)) return false;
  for (int k = 0; k < 2; k++) {
    Node p = a->slope[k], q = b->slope[k];
    bool flat = p == NO_NODE && q == NO_NODE;
    s->value[k] = select_of(g, c->value[k], a->value[k], b->value[k]);
    s->slope[k] = flat ? NO_NODE : select_of(g, c->value[k], zero_or(g, p), zero_or(g, q));
  }
  return same_kink(c, &(Sides){.at = at}, &s->at);
}

static Sides number(Graph *g, double x) {
  Node n = ir_number(g, x);
  return (Sides){{n, n}, {NO_NODE, NO_NODE}, NO_NODE};
}

static bool negate(Graph *g, const Sides *a, Sides *s) {
  Sides none = number(g, 0);
  return add(g, IR_SUB, &none, a, s);
}

static bool invert(Graph *g, const Sides *a, Sides *s) {
  *s = *a;
  for (int k = 0; k < 2; k++) s->value[k] = map1(g, IR_NOT, a->value[k]);
  return is_flat(a);
}

/* The greater of the two, or the lesser. */
static bool extreme(Graph *g, const Sides *a, const Sides *b, bool greater, Sides *s) {
  Sides c;
  return less(g, a, b, &c) && choose(g, &c, greater ? b : a, greater ? a : b, s);
}

static bool absolute(Graph *g, const Sides *a, Sides *s) {
  Sides minus;
  return negate(g, a, &minus) && extreme(g, a, &minus, true, s);
}

/* -|y - mu| c - d - log 2 */
static bool double_exponential(Graph *g, const Sides *a, Sides *s) {
  Sides z, size, all, two = number(g, log(2)), minus;
  return add(g, IR_SUB, &a[0], &a[1], &z) && absolute(g, &z, &size) &&
         scale(g, IR_MUL, &size, &a[2], &all) && add(g, IR_ADD, &all, &a[3], &z) &&
         add(g, IR_ADD, &z, &two, &minus) && negate(g, &minus, s);
}

static bool read_op(const Reading *t, const IrNode *x, Sides *s) {
  Graph *g = t->g;
  Sides a[IR_MAX_ARGS], none = number(g, 0), c;
  for (int k = 0; k < x->nargs; k++)
    if (!read_sides(t, x->args[k], &a[k])) return false;
  switch (x->op) {
  case IR_NEG: return negate(g, a, s);
  case IR_ADD:
  case IR_SUB: return add(g, x->op, a, a + 1, s);
  case IR_MUL: return is_flat(a) ? scale(g, IR_MUL, a + 1, a, s) : scale(g, IR_MUL, a, a + 1, s);
  case IR_DIV: return scale(g, IR_DIV, a, a + 1, s);
  case IR_LT:
  case IR_LE: return less(g, a, a + 1, s);
  case IR_STEP: return less(g, a, &none, &c) && invert(g, &c, s);
  case IR_NOT: return invert(g, a, s);
  case IR_SELECT: return choose(g, a, a + 1, a + 2, s);
  case IR_ABS: return absolute(g, a, s);
  case IR_FMAX: return extreme(g, a, a + 1, true, s);
  case IR_FMIN: return extreme(g, a, a + 1, false, s);
  case IR_DOUBLE_EXP: return double_exponential(g, a, s);
  default: return false;
  }
}

static bool read_sides(const Reading *t, Node id, Sides *s) {
  if (id == t->location) {
    Node one = ir_number(t->g, 1);
    *s = number(t->g, 0);
    s->slope[0] = s->slope[1] = one;
    return true;
  }
  if (!open(t->r, id)) {
    *s = (Sides){{id, id}, {NO_NODE, NO_NODE}, NO_NODE};
    return true;
  }
  if (t->memo[id]) {
    *s = *t->memo[id];
    return true;
  }
  IrNode x = *ir_node(t->g, id);
  if (!ir_is_map(x.op) || !read_op(t, &x, s)) return false;
  t->memo[id] = NEW(t->r->temp, Sides);
  *t->memo[id] = *s;
  return true;
}

/* ---- integrated ------------------------------------------------------------------------------ */

/* a + b m */
static Node at_mean(Graph *g, const Sides *l, int k, Node m) {
  if (l->slope[k] == NO_NODE) return l->value[k];
  return map2(g, IR_ADD, l->value[k], map2(g, IR_MUL, l->slope[k], m));
}

/* The log of E[exp(a + b f)] on one side. */
static Node side_density(Graph *g, const Sides *l, int k, const KinkedLaw *f, Node sd, Node z) {
  Node b = zero_or(g, l->slope[k]), half = map2(g, IR_MUL, ir_number(g, 0.5), f->variance),
       w = map2(g, IR_SUB, z, map2(g, IR_MUL, b, sd)),
       tail = map1(g, IR_LOG_PHI, k ? map1(g, IR_NEG, w) : w);
  Node grown =
      map2(g, IR_ADD, at_mean(g, l, k, f->location), map2(g, IR_MUL, map1(g, IR_SQUARE, b), half));
  return map2(g, IR_ADD, grown, tail);
}

bool kinks_heads(const GivenReader *r, Node root, const KinkedLaw *f, Node *density, Node *mean) {
  Graph *g = r->g;
  Sides l;
  Reading t = {r, g, f->location, NEW_ARRAY(r->temp, Sides *, root + 1)};
  if (!read_sides(&t, root, &l) || l.at == NO_NODE) return false;
  Node sd = map1(g, IR_SQRT, f->variance), m = f->location,
       z = map2(g, IR_DIV, map2(g, IR_SUB, l.at, m), sd);
  Node left = map1(g, IR_PHI, z), right = map1(g, IR_PHI, map1(g, IR_NEG, z)),
       dense = map2(g, IR_MUL, ir_number(g, 1 / sqrt(2 * acos(-1))),
                    map1(g, IR_EXP, map2(g, IR_MUL, ir_number(g, -0.5), map1(g, IR_SQUARE, z))));
  Node bend = map2(g, IR_SUB, zero_or(g, l.slope[1]), zero_or(g, l.slope[0]));
  *density =
      map2(g, IR_LOG_SUM_EXP2, side_density(g, &l, 0, f, sd, z), side_density(g, &l, 1, f, sd, z));
  Node sides = map2(g, IR_ADD, map2(g, IR_MUL, at_mean(g, &l, 0, m), left),
                    map2(g, IR_MUL, at_mean(g, &l, 1, m), right));
  *mean = map2(g, IR_ADD, sides, map2(g, IR_MUL, map2(g, IR_MUL, bend, sd), dense));
  return true;
}
