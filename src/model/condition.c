/* condition.c: which parameters are the scales of a block, and its heads given them.
 *
 *   1. Of a product of two things that depend on parameters, the one that is not affine is given,
 *      else the one with fewer of them; so is a denominator (find_products).
 *      In a sum of a curve and a line it is the curve, where that sees no more (find_sums).
 *   2. What is affine now, and as large as it can be, is a predictor (find_predictors). Where an
 *      observation has several, the parameters of all but the one that sees most are given, too.
 *   3. The heads are rebuilt with the predictor f + sqrt(V) x in the place of f, or integrated over
 *      f where they are normal(f, sigma) (make_heads).
 *
 * Of a density with a kink in its location that is the predictor, and all else is given
 * (find_kinked).
 *
 * A mixture of normals sees several predictors, one in each of its densities. But the mean of a sum
 * is the sum of the means, so all that is not a location is given (find_mixture), every density is
 * integrated over its own location (mixture_head), and no two of them need different axes for
 * scales that each sees but one of (seen_in_terms, and where q has covariances find_owners).
 *
 * Sets of inputs (the parameters of the program, each a range of theta) are bits of a number.
 */
#include "model/condition_int.h"

#include <math.h>
#include <string.h>

enum { MOST_INPUTS = 64, MOST_WIDTH = 64, MOST_DENSE = 64, MOST_PREDICTORS = 16 };
/* Axes of a grid, one of them of the predictor. Beyond these, points pay only where the density is
 * integrated over the predictor, and while they are few. */
enum { GRID_AXES = 3, MOST_AXES = 16 };
/* Of a mixture, whose densities are narrow along the scales: 2,048 points of nine of these were
 * exploited by more than 15 nats, which draws can do as well. */
enum { MOST_MIXTURE_AXES = 6 };

struct Conditions {
  Graph *g;      /* a copy of the model's graph, to which nodes are added */
  int32_t count; /* nodes of the model */
  int32_t dim;
  Node input[MOST_INPUTS];
  int ninputs;
  uint64_t *mask; /* of each node: inputs that it depends on */
  const char *why;
};

/* One block. */
typedef struct {
  const struct Conditions *all;
  Graph *g;
  const ConditionRoot *root;
  Arena *arena, *temp;
  bool dense;
  GivenReader r;
  bool *reached; /* nodes below the root */
  Node predictor[MOST_PREDICTORS];
  int npredictors;
  Node *made;               /* of each node: on the new predictor, + 1; 0: not yet */
  Node variance, deviation; /* V; sqrt(V) x */
  const GivenTerms *terms;
  bool mixture;  /* of normals: every density has a predictor of its own */
  Node kinked;   /* the location of a density with a kink in it; NO_NODE: there is none */
  int32_t *pair; /* two of the parameters for every covariance that is read */
  size_t pairs, cap_pairs;
  const Condition *to; /* what is made */
} Block;

/* ---- the graph and its inputs ---------------------------------------------------------------- */

static bool overlap(const IrNode *a, const IrNode *b) {
  return a->attr < b->attr + b->n && b->attr < a->attr + a->n;
}

static uint64_t input_mask(struct Conditions *c, Node id) {
  const IrNode *x = ir_node(c->g, id);
  uint64_t mask = 0;
  if (c->ninputs == MOST_INPUTS) {
    c->why = "there are too many different parameters";
    return 0;
  }
  c->input[c->ninputs++] = id;
  for (int k = 0; k < c->ninputs; k++)
    if (overlap(x, ir_node(c->g, c->input[k]))) mask |= (uint64_t)1 << k;
  for (int k = 0; k + 1 < c->ninputs; k++)
    if (mask >> k & 1) c->why = "parameters are read in overlapping parts";
  return mask;
}

static uint64_t mask_of(struct Conditions *c, Node id) {
  const IrNode *x = ir_node(c->g, id);
  uint64_t mask = 0;
  if (x->op == IR_INPUT) return input_mask(c, id);
  for (int k = 0; k < x->nargs; k++) mask |= c->mask[x->args[k]];
  for (int32_t e = 0; x->op == IR_PACK && e < x->n; e++) mask |= c->mask[x->u.picks[e].node];
  return mask;
}

static const struct Conditions *conditions(const Reducible *t) {
  struct Conditions *c = *t->given;
  if (c) return c;
  *t->given = c = NEW(t->temp, struct Conditions);
  c->g = ir_copy(t->out->arena, t->graph);
  c->count = c->g->count;
  c->mask = NEW_ARRAY(t->temp, uint64_t, c->count + 1);
  for (Node k = 0; k < c->count; k++) {
    const IrNode *x = ir_node(c->g, k);
    c->mask[k] = mask_of(c, k);
    if (x->op == IR_INPUT && x->attr + x->n > c->dim) c->dim = x->attr + x->n;
  }
  return c;
}

static int32_t elements(const Block *b, uint64_t mask) {
  int32_t n = 0;
  for (int k = 0; k < b->all->ninputs; k++)
    if (mask >> k & 1) n += ir_size(b->g, b->all->input[k]);
  return n;
}

/* The inputs of a node that are not given. */
static uint64_t open_inputs(const Block *b, Node id) { return b->all->mask[id] & ~b->r.scales; }

/* ---- scales ---------------------------------------------------------------------------------- */

/* What is evaluated draw by draw costs too much for all points of a grid, each for all rows. */
static void reach(Block *b, Node root) {
  b->reached[root] = true;
  for (Node k = root; k >= 0; k--) {
    const IrNode *x = ir_node(b->g, k);
    if (!b->reached[k]) continue;
    if (x->op == IR_RUN && !b->r.why) b->r.why = "what is evaluated draw by draw";
    for (int a = 0; a < x->nargs; a++) b->reached[x->args[a]] = true;
    for (int32_t e = 0; x->op == IR_PACK && e < x->n; e++) b->reached[x->u.picks[e].node] = true;
  }
}

/* Affine in the others, given the scales; k has some of them. */
static bool is_affine(const Block *b, const bool *affine, Node k) {
  const IrNode *x = ir_node(b->g, k);
  bool all = true;
  for (int a = 0; a < x->nargs; a++)
    all = all && (!open_inputs(b, x->args[a]) || affine[x->args[a]]);
  for (int32_t e = 0; x->op == IR_PACK && e < x->n; e++)
    all = all && (!open_inputs(b, x->u.picks[e].node) || affine[x->u.picks[e].node]);
  switch (x->op) {
  case IR_INPUT: return true;
  case IR_GATHER:
  case IR_PACK:
  case IR_SUM:
  case IR_MATVEC:
  case IR_NEG:
  case IR_ADD:
  case IR_SUB: return all;
  case IR_MUL:
  case IR_MATMUL: return all && !(open_inputs(b, x->args[0]) && open_inputs(b, x->args[1]));
  case IR_DIV: return all && !open_inputs(b, x->args[1]);
  default: return false;
  }
}

/* Which of two factors is given. Where there is a kink, what both are made of is on which side of
 * it the location is. */
static uint64_t given_factor(const Block *b, const bool *affine, Node x, Node y) {
  uint64_t one = open_inputs(b, x), two = open_inputs(b, y);
  if (!one || !two || (b->root->kinked && one & two)) return 0;
  if (affine[x] != affine[y]) return affine[x] ? two : one;
  return elements(b, one) < elements(b, two) ? one : two;
}

static void find_products(Block *b) {
  bool *affine = NEW_ARRAY(b->temp, bool, b->all->count);
  for (Node k = 0; k <= b->root->root; k++) {
    const IrNode *x = ir_node(b->g, k);
    if (!b->reached[k]) continue;
    if (x->op == IR_DIV) b->r.scales |= open_inputs(b, x->args[1]);
    if (x->op == IR_MUL || x->op == IR_MATMUL)
      b->r.scales |= given_factor(b, affine, x->args[0], x->args[1]);
    affine[k] = open_inputs(b, k) && is_affine(b, affine, k);
  }
}

/* What is not affine in a sum with something that is, and sees no more than this: the curve in
 * alpha + exp(beta) x. */
static void find_sums(Block *b) {
  bool *affine = NEW_ARRAY(b->temp, bool, b->all->count);
  for (Node k = 0; k <= b->root->root; k++) {
    const IrNode *x = ir_node(b->g, k);
    if (!b->reached[k]) continue;
    for (int a = 0; (x->op == IR_ADD || x->op == IR_SUB) && a < 2; a++) {
      uint64_t curve = open_inputs(b, x->args[a]), line = open_inputs(b, x->args[!a]);
      if (curve && line && !affine[x->args[a]] && affine[x->args[!a]] && !(curve & line) &&
          elements(b, curve) <= elements(b, line))
        b->r.scales |= curve;
    }
    affine[k] = open_inputs(b, k) && is_affine(b, affine, k);
  }
}

static bool *find_affine(const Block *b) {
  bool *affine = NEW_ARRAY(b->temp, bool, b->all->count);
  for (Node k = 0; k <= b->root->root; k++)
    affine[k] = b->reached[k] && open_inputs(b, k) && is_affine(b, affine, k);
  return affine;
}

/* Elements of a predictor are read from it, however they are picked. */
static Node source_of(const Block *b, Node id) {
  while (ir_node(b->g, id)->op == IR_GATHER) id = ir_node(b->g, id)->args[0];
  return id;
}

static void note_predictor(Block *b, Node id) {
  id = source_of(b, id);
  for (int k = 0; k < b->npredictors; k++)
    if (b->predictor[k] == id) return;
  if (b->npredictors == MOST_PREDICTORS) {
    b->r.why = "an observation sees many affine functions of the parameters";
  } else {
    b->predictor[b->npredictors++] = id;
  }
}

/* The largest affine nodes below the root. */
static void find_predictors(Block *b, const bool *affine) {
  bool *open = NEW_ARRAY(b->temp, bool, b->all->count);
  b->npredictors = 0;
  open[b->root->root] = true;
  for (Node k = b->root->root; k >= 0 && !b->r.why; k--) {
    const IrNode *x = ir_node(b->g, k);
    if (!open[k] || !open_inputs(b, k)) continue;
    if (affine[k]) {
      note_predictor(b, k);
      continue;
    }
    for (int a = 0; a < x->nargs; a++) open[x->args[a]] = true;
    for (int32_t e = 0; x->op == IR_PACK && e < x->n; e++) open[x->u.picks[e].node] = true;
  }
}

static void begin_terms(Block *b) { b->r.memo = NEW_ARRAY(b->temp, GivenTerms *, b->all->count); }

/* The predictors become one function; what is not of it joins the scales. False: it did. */
static bool one_predictor(Block *b) {
  int most = 0;
  for (int k = 1; k < b->npredictors; k++)
    if (elements(b, open_inputs(b, b->predictor[k])) >
        elements(b, open_inputs(b, b->predictor[most])))
      most = k;
  if (!b->npredictors) return true;
  begin_terms(b);
  uint64_t others = 0;
  const GivenTerms *f = given_terms(&b->r, b->predictor[most]);
  for (int k = 0; f && k < b->npredictors; k++) {
    const GivenTerms *h = given_terms(&b->r, b->predictor[k]);
    if (h && !given_compare(f, h)) others |= open_inputs(b, b->predictor[k]);
  }
  b->terms = f;
  b->r.scales |= others;
  return b->r.why || !others;
}

static void find_scales(Block *b) {
  find_products(b);
  find_sums(b);
  do find_predictors(b, find_affine(b));
  while (!b->r.why && !one_predictor(b));
  if (!b->npredictors) b->terms = NULL;
}

/* ---- mixtures of normals --------------------------------------------------------------------- */

/* Which nodes are densities of a normal whose location is open, or made of such. */
static bool *find_densities(const Block *b) {
  bool *is = NEW_ARRAY(b->temp, bool, b->all->count);
  for (Node k = 0; k <= b->root->root; k++) {
    const IrNode *x = ir_node(b->g, k);
    if (!b->reached[k]) continue;
    bool any = false;
    for (int a = 0; a < x->nargs; a++) any = any || is[x->args[a]];
    for (int32_t e = 0; x->op == IR_PACK && e < x->n; e++) any = any || is[x->u.picks[e].node];
    is[k] = any || (x->op == IR_NORMAL && open_inputs(b, x->args[1]));
  }
  return is;
}

/* What a node that is made of densities sees besides their locations; false: it is no log sum of
 * densities with weights. */
static bool seen_besides(const Block *b, const bool *density, const IrNode *x, uint64_t *seen) {
  int densities = 0;
  for (int a = 0; a < x->nargs; a++) {
    bool location = x->op == IR_NORMAL && a == 1;
    densities += density[x->args[a]];
    if (!location && !density[x->args[a]]) *seen |= b->all->mask[x->args[a]];
  }
  for (int32_t e = 0; x->op == IR_PACK && e < x->n; e++)
    if (!density[x->u.picks[e].node]) *seen |= b->all->mask[x->u.picks[e].node];
  switch (x->op) {
  case IR_NORMAL: return !densities;
  case IR_ADD: return densities == 1;
  case IR_SUB: return densities == 1 && density[x->args[0]];
  case IR_LSE:
  case IR_LOG_SUM_EXP2:
  case IR_GATHER:
  case IR_PACK: return true;
  default: return false;
  }
}

/* All inputs that are not of locations are given; false: it is no mixture of normals. */
static bool find_mixture(Block *b) {
  const bool *density = find_densities(b);
  bool all = true, sum = false;
  if (b->root->needs_mean || !density[b->root->root]) return false;
  find_products(b);
  for (Node k = 0; all && k <= b->root->root; k++) {
    const IrNode *x = ir_node(b->g, k);
    if (!b->reached[k] || !density[k]) continue;
    sum = sum || x->op == IR_LSE || x->op == IR_LOG_SUM_EXP2;
    all = seen_besides(b, density, x, &b->r.scales);
  }
  all = all && sum;
  const bool *affine = all ? find_affine(b) : NULL;
  for (Node k = 0; all && k <= b->root->root; k++) {
    const IrNode *x = ir_node(b->g, k);
    if (!b->reached[k] || !density[k] || x->op != IR_NORMAL || !open_inputs(b, x->args[1]))
      continue;
    all = affine[x->args[1]] && given_terms(&b->r, source_of(b, x->args[1]));
  }
  if (all) return true;
  b->r.scales = 0;
  b->r.why = b->all->why;
  begin_terms(b);
  return false;
}

/* ---- densities with a kink ------------------------------------------------------------------- */

/* The inputs that the root sees besides a node. */
static uint64_t seen_past(const Block *b, Node past) {
  bool *seen = NEW_ARRAY(b->temp, bool, b->all->count);
  uint64_t mask = 0;
  seen[b->root->root] = true;
  for (Node k = b->root->root; k >= 0; k--) {
    const IrNode *x = ir_node(b->g, k);
    if (!seen[k] || k == past) continue;
    if (x->op == IR_INPUT) mask |= b->all->mask[k];
    for (int a = 0; a < x->nargs; a++) seen[x->args[a]] = true;
    for (int32_t e = 0; x->op == IR_PACK && e < x->n; e++) seen[x->u.picks[e].node] = true;
  }
  return mask;
}

/* All that is seen besides the location is given (kinks.c). */
static void find_kinked(Block *b) {
  find_products(b);
  b->kinked = kinks_location(&b->r, b->reached, b->root->root);
  if (b->kinked == NO_NODE) return;
  b->r.scales |= seen_past(b, b->kinked);
  if (!find_affine(b)[b->kinked]) return;
  begin_terms(b);
  b->terms = given_terms(&b->r, source_of(b, b->kinked));
}

/* ---- axes: which of the scales a row sees ---------------------------------------------------- */

typedef struct {
  const int32_t *map;
  uint64_t hash; /* of the map */
  size_t before; /* the node's visit before this one, + 1; 0: none */
} Visit;

/* What each row reads. Of the watched inputs, the one element of each; `many`: those of which a row
 * reads more. Or with `predictor`, not down to the inputs: the one element of the predictor. In a
 * map, rows with -1 read nothing. */
typedef struct {
  Block *b;
  int32_t n;
  uint64_t watched;
  int32_t *element[MOST_INPUTS], *predictor;
  uint64_t many;
  Visit *seen;
  size_t nseen, cap;
  size_t *last; /* of each node: its last visit, + 1; 0: none */
} Reads;

static void note_reads(Reads *s, Node id, const int32_t *map);

/* Rows read these elements; the inputs behind them are `mask`. */
static void note_elements(Reads *s, int32_t *element, const int32_t *map, uint64_t mask) {
  for (int32_t r = 0; r < s->n; r++) {
    if (map[r] < 0) continue;
    if (element[r] >= 0 && element[r] != map[r]) s->many |= mask;
    element[r] = map[r];
  }
}

static void note_input(Reads *s, Node id, const int32_t *map) {
  int k = 0;
  while (s->b->all->input[k] != id) k++;
  if (s->predictor)
    s->many |= (uint64_t)1 << k; /* past the predictor */
  else
    note_elements(s, s->element[k], map, (uint64_t)1 << k);
}

/* map[r] / over times `by` plus map[r] % over times `rest` plus shift */
typedef struct {
  int32_t over, by, rest, shift;
} Stride;

static void note_strided(Reads *s, Node id, const int32_t *map, Stride t) {
  int32_t *at = NEW_ARRAY(s->b->temp, int32_t, s->n);
  for (int32_t r = 0; r < s->n; r++)
    at[r] = map[r] < 0 ? -1 : map[r] / t.over * t.by + map[r] % t.over * t.rest + t.shift;
  note_reads(s, id, at);
}

/* The rows that pick from the same node as row `first`, which are taken from the map. */
static void note_picked(Reads *s, const IrNode *x, int32_t *map, int32_t first) {
  int32_t *at = NEW_ARRAY(s->b->temp, int32_t, s->n);
  Node from = x->u.picks[map[first]].node;
  for (int32_t r = 0; r < s->n; r++) {
    bool here = map[r] >= 0 && x->u.picks[map[r]].node == from;
    at[r] = here ? x->u.picks[map[r]].elem : -1;
    if (here) map[r] = -1;
  }
  note_reads(s, from, at);
}

static void note_pack(Reads *s, const IrNode *x, const int32_t *map) {
  enum { MOST_NODES = 64 };
  int32_t *left = memcpy(NEW_ARRAY(s->b->temp, int32_t, s->n), map, (size_t)s->n * sizeof *map);
  int nodes = 0;
  for (int32_t r = 0; r < s->n; r++) {
    if (left[r] < 0) continue;
    if (nodes++ < MOST_NODES)
      note_picked(s, x, left, r);
    else
      s->many |= s->b->all->mask[x->u.picks[left[r]].node];
  }
}

static void note_args(Reads *s, const IrNode *x, const int32_t *map) {
  for (int k = 0; k < x->nargs; k++) {
    bool one = ir_size(s->b->g, x->args[k]) == 1;
    note_strided(s, x->args[k], map, one ? (Stride){1, 0, 0, 0} : (Stride){1, 1, 0, 0});
  }
}

static void note_node(Reads *s, const IrNode *x, uint64_t mask, const int32_t *map) {
  if (x->op == IR_GATHER) {
    int32_t *at = NEW_ARRAY(s->b->temp, int32_t, s->n);
    for (int32_t r = 0; r < s->n; r++) at[r] = map[r] < 0 ? -1 : x->u.index[map[r]];
    note_reads(s, x->args[0], at);
  } else if (x->op == IR_PACK) {
    note_pack(s, x, map);
  } else if ((x->op == IR_SUM || x->op == IR_LSE) && x->attr <= MOST_WIDTH) {
    for (int32_t w = 0; w < x->attr; w++)
      note_strided(s, x->args[0], map, (Stride){1, x->attr, 0, w});
  } else if (x->op == IR_MATMUL && x->attr <= MOST_WIDTH) {
    for (int32_t k = 0; k < x->attr; k++) {
      note_strided(s, x->args[0], map, (Stride){x->attr2, x->attr, 0, k});
      note_strided(s, x->args[1], map, (Stride){x->attr2, 0, 1, k * x->attr2});
    }
  } else if (ir_is_map(x->op)) {
    note_args(s, x, map);
  } else {
    s->many |= mask;
  }
}

static bool is_predictor(const Block *b, Node id) {
  for (int k = 0; k < b->npredictors; k++)
    if (b->predictor[k] == id) return true;
  return false;
}

/* Was the node read by this map before? If not, it is now. A recurrence in time is read by as many
 * maps as it has steps. */
static bool was_seen(Reads *s, Node id, const int32_t *map) {
  uint64_t hash = 0;
  for (int32_t r = 0; r < s->n; r++) hash = hash * 0x9E3779B97F4A7C15u + (uint32_t)map[r];
  for (size_t k = s->last[id]; k; k = s->seen[k - 1].before)
    if (s->seen[k - 1].hash == hash && !memcmp(s->seen[k - 1].map, map, (size_t)s->n * sizeof *map))
      return true;
  PUSH(s->b->temp, s->seen, s->nseen, s->cap, ((Visit){map, hash, s->last[id]}));
  s->last[id] = s->nseen;
  return false;
}

static void note_reads(Reads *s, Node id, const int32_t *map) {
  uint64_t mask = s->b->all->mask[id] & s->watched;
  if (!(mask & ~s->many)) return;
  if (s->predictor && is_predictor(s->b, id)) {
    note_elements(s, s->predictor, map, mask);
    return;
  }
  if (was_seen(s, id, map)) return;
  if (ir_node(s->b->g, id)->op == IR_INPUT) {
    note_input(s, id, map);
  } else {
    note_node(s, ir_node(s->b->g, id), mask, map);
  }
}

/* Inputs of several elements: of a single one no row sees two. */
static uint64_t wide_inputs(const Block *b) {
  uint64_t wide = 0;
  for (int k = 0; k < b->all->ninputs; k++)
    if (ir_size(b->g, b->all->input[k]) > 1) wide |= (uint64_t)1 << k;
  return wide;
}

/* What the rows read of these inputs. */
static Reads *reads_make(Block *b, uint64_t watched) {
  Reads *s = NEW(b->temp, Reads);
  *s = (Reads){.b = b, .n = b->root->n, .watched = watched};
  s->last = NEW_ARRAY(b->temp, size_t, b->all->count);
  for (int k = 0; k < b->all->ninputs; k++) {
    s->element[k] = NEW_ARRAY(b->temp, int32_t, s->n);
    for (int32_t r = 0; r < s->n; r++) s->element[k][r] = -1;
  }
  return s;
}

/* Of the scales, those of which a row reads more than one element in this node. */
static uint64_t seen_often(Block *b, Node id, const int32_t *map) {
  Reads *s = reads_make(b, b->r.scales & wide_inputs(b));
  note_reads(s, id, map);
  return s->many;
}

/* The terms of the log sum in node id, of which row r has element map[r]: each is given to `term`
 * with the elements that are it. */
typedef void TermFn(Block *b, Node id, const int32_t *map, void *self);

static void each_term(Block *b, Node id, const int32_t *map, TermFn *term, void *self) {
  IrNode x = *ir_node(b->g, id);
  int32_t n = b->root->n;
  int terms = x.op == IR_LSE ? x.attr : x.op == IR_LOG_SUM_EXP2 ? 2 : x.op == IR_GATHER;
  if (!terms) term(b, id, map, self);
  for (int w = 0; w < terms; w++) {
    int32_t *at = NEW_ARRAY(b->temp, int32_t, n);
    Node of = x.args[x.op == IR_LOG_SUM_EXP2 ? w : 0];
    for (int32_t r = 0; r < n; r++)
      at[r] = x.op == IR_GATHER        ? x.u.index[map[r]]
              : x.op == IR_LSE         ? map[r] * x.attr + w
              : ir_size(b->g, of) == 1 ? 0
                                       : map[r];
    if (x.op == IR_LSE)
      term(b, of, at, self);
    else
      each_term(b, of, at, term, self);
  }
}

static void add_often(Block *b, Node id, const int32_t *map, void *self) {
  uint64_t *often = self;
  *often |= seen_often(b, id, map);
}

/* The same for each term of a log sum by itself. */
static uint64_t seen_in_terms(Block *b, Node id, const int32_t *map) {
  uint64_t often = 0;
  each_term(b, id, map, add_often, &often);
  return often;
}

/* Parameters that are independent under q can move along one axis, where no row, or no term of it,
 * sees two. */
static uint64_t seen_once(Block *b) {
  const ConditionRoot *r = b->root;
  if (b->dense) return 0;
  uint64_t often =
      b->mixture ? seen_in_terms(b, r->root, r->select) : seen_often(b, r->root, r->select);
  return b->r.scales & ~often;
}

/* ---- terms that see parameters of their own -------------------------------------------------- */

/* Which term alone sees a parameter. */
enum { TERM_NONE = -2, TERM_SEVERAL = -1 };

typedef struct {
  int32_t *term; /* of every parameter; or one of the above */
  int32_t terms;
} Owners;

static void own(Owners *o, int32_t k) {
  o->term[k] = o->term[k] == TERM_NONE || o->term[k] == o->terms ? o->terms : TERM_SEVERAL;
}

static void add_owner(Block *b, Node id, const int32_t *map, void *self) {
  Owners *o = self;
  Reads *s = reads_make(b, ~(uint64_t)0);
  note_reads(s, id, map);
  for (int k = 0; k < b->all->ninputs; k++) {
    const IrNode *x = ir_node(b->g, b->all->input[k]);
    for (int32_t e = 0; s->many >> k & 1 && e < x->n; e++) own(o, x->attr + e);
    for (int32_t r = 0; !(s->many >> k & 1) && r < s->n; r++)
      if (s->element[k][r] >= 0) own(o, x->attr + s->element[k][r]);
  }
  o->terms++;
}

/* The mean of a sum needs the law of each term's own parameters only, not how they go together with
 * those of other terms. So given what several terms see, every term's parameters are taken to be
 * independent of the others', and their scales move along the same axes. NULL: it is no mixture,
 * its parameters are independent anyway, or several terms see a location, which would have a law
 * for each of them. */
static const int32_t *find_owners(Block *b, const int32_t *scale) {
  Owners o = {NEW_ARRAY(b->arena, int32_t, b->all->dim + 1), 0};
  if (!b->dense || !b->mixture) return NULL;
  for (int32_t k = 0; k < b->all->dim; k++) o.term[k] = TERM_NONE;
  each_term(b, b->root->root, b->root->select, add_owner, &o);
  for (int32_t k = 0; k < b->all->dim; k++)
    if (o.term[k] == TERM_SEVERAL && scale[k] < 0) return NULL;
  return o.term;
}

/* Axes of the scales of all terms first; then each term's own. */
static void share_axes(Block *b, Condition *c, int32_t *axis) {
  c->term = find_owners(b, axis);
  if (!c->term) return;
  int32_t shared = 0, most = 0;
  for (int32_t k = 0; k < c->dim; k++)
    if (axis[k] >= 0 && c->term[k] < 0) axis[k] = shared++;
  for (int32_t k = 0; k < c->dim; k++) {
    int32_t before = 0;
    if (axis[k] < 0 || c->term[k] < 0) continue;
    for (int32_t j = 0; j < k; j++) before += axis[j] >= 0 && c->term[j] == c->term[k];
    axis[k] = shared + before;
    if (before + 1 > most) most = before + 1;
  }
  c->axes = shared + most;
}

/* All predictors have the same elements, and x is one number: so a row may see one of them. */
static bool one_element(Block *b) {
  bool single = true;
  for (int k = 0; k < b->npredictors; k++) single = single && ir_size(b->g, b->predictor[k]) == 1;
  if (single) return true;
  Reads s = {.b = b, .n = b->root->n, .watched = open_inputs(b, b->root->root)};
  s.predictor = NEW_ARRAY(b->temp, int32_t, s.n);
  s.last = NEW_ARRAY(b->temp, size_t, b->all->count);
  for (int32_t r = 0; r < s.n; r++) s.predictor[r] = -1;
  note_reads(&s, b->root->root, b->root->select);
  return !s.many;
}

static void make_axes(Block *b, Condition *c) {
  uint64_t once = seen_once(b), used = b->all->mask[b->root->root] & b->r.scales;
  int32_t *axis = NEW_ARRAY(b->arena, int32_t, c->dim);
  for (int32_t k = 0; k < c->dim; k++) axis[k] = -1;
  for (int k = 0; k < b->all->ninputs; k++) {
    const IrNode *x = ir_node(b->g, b->all->input[k]);
    if (!(used >> k & 1)) continue;
    bool shared = once >> k & 1;
    for (int32_t e = 0; e < x->n; e++) axis[x->attr + e] = c->axes + (shared ? 0 : e);
    c->axes += shared ? 1 : x->n;
  }
  share_axes(b, c, axis);
  c->axis = axis;
}

/* ---- the variance of the predictor ----------------------------------------------------------- */

static Node map1(Graph *g, unsigned op, Node a) { return ir_map(g, op, &a); }
static Node map2(Graph *g, unsigned op, Node a, Node b) { return ir_map(g, op, (Node[]){a, b}); }

/* Pairs of parameters by number, as in a triangle or on its diagonal. */
static int32_t pair_number(const Block *b, int32_t i, int32_t j) {
  int32_t high = i > j ? i : j;
  return b->dense ? high * (high + 1) / 2 + (i > j ? j : i) : i;
}

static int32_t most_pairs(const Block *b) {
  int32_t dim = b->to->dim;
  return b->dense ? dim * (dim + 1) / 2 : dim;
}

/* An input of the covariances that two terms read, each of them once; at: where in it, for every
 * element that counts (w). They are far fewer than there are pairs. */
static Node pair_input(Block *b, int32_t n, const GivenTerm *t, const GivenTerm *u, const double *w,
                       int32_t *at) {
  int32_t *place = NEW_ARRAY(b->temp, int32_t, most_pairs(b)), count = 0,
          first = b->to->dim + 1 + (int32_t)(b->pairs / 2);
  for (int32_t e = 0; e < n; e++) {
    int32_t i = t->index[e], j = u->index[e], *is = &place[pair_number(b, i, j)];
    if (w[e] == 0) continue; /* whatever it reads */
    if (!*is) {
      *is = ++count;
      PUSH(b->arena, b->pair, b->pairs, b->cap_pairs, i > j ? i : j);
      PUSH(b->arena, b->pair, b->pairs, b->cap_pairs, i > j ? j : i);
    }
    at[e] = *is - 1;
  }
  return ir_input(b->g, first, count);
}

/* What two terms of n elements add to V: data data scale scale cov(theta, theta). */
static Node pair_share(Block *b, int32_t n, const GivenTerm *t, const GivenTerm *u) {
  int32_t *at = NEW_ARRAY(b->temp, int32_t, n);
  double *w = NEW_ARRAY(b->temp, double, n);
  bool any = false;
  for (int32_t e = 0; e < n; e++) {
    bool related = b->dense || t->index[e] == u->index[e];
    w[e] = related ? t->data[e] * u->data[e] * (t == u ? 1 : 2) : 0;
    any = any || w[e] != 0;
  }
  if (!any) return NO_NODE;
  Node cov = pair_input(b, n, t, u, w, at), scale = t->scale;
  if (t == u && scale != NO_NODE) scale = map1(b->g, IR_SQUARE, scale);
  if (t != u && u->scale != NO_NODE)
    scale = scale == NO_NODE ? u->scale : map2(b->g, IR_MUL, scale, u->scale);
  bool shared = scale != NO_NODE && ir_size(b->g, scale) == 1; /* once for all rows */
  if (shared) cov = map2(b->g, IR_MUL, scale, cov);
  Node share = map2(b->g, IR_MUL, ir_const(b->g, w, n), ir_gather(b->g, cov, at, n));
  return scale == NO_NODE || shared ? share : map2(b->g, IR_MUL, scale, share);
}

/* sqrt(V) has no derivative at 0, where all parameters are points; V is kept above what matters. */
static const double LEAST_VARIANCE = 1e-200;

/* NO_NODE: there are no terms. */
static Node variance_from(Block *b, const GivenTerms *terms) {
  Node variance = NO_NODE;
  for (int t = 0; terms && t < terms->count; t++)
    for (int u = t; u < terms->count; u++) {
      Node share = pair_share(b, terms->n, &terms->term[t], &terms->term[u]);
      if (share == NO_NODE) continue;
      variance = variance == NO_NODE ? share : map2(b->g, IR_ADD, variance, share);
    }
  return variance;
}

static void make_variance(Block *b) {
  const Condition *c = b->to;
  b->variance = variance_from(b, b->terms);
  if (b->variance == NO_NODE) return;
  Node sd = map1(b->g, IR_SQRT, map2(b->g, IR_ADD, b->variance, ir_number(b->g, LEAST_VARIANCE)));
  b->deviation = map2(b->g, IR_MUL, sd, ir_input(b->g, c->dim, 1));
}

/* ---- heads ----------------------------------------------------------------------------------- */

static Node on_nodes(Block *b, Node id);

/* A function of the others that is affine: the predictor, or minus it, but for what is given. */
static Node moved(Block *b, Node id) {
  const GivenTerms *h = given_terms(&b->r, id);
  int sign = h && b->terms ? given_compare(b->terms, h) : 0;
  if (!sign || b->deviation == NO_NODE) return NO_NODE;
  return map2(b->g, sign > 0 ? IR_ADD : IR_SUB, id, b->deviation);
}

static Node rebuilt_pack(Block *b, const IrNode *x) {
  Pick *picks = NEW_ARRAY(b->temp, Pick, x->n);
  for (int32_t e = 0; e < x->n; e++) {
    picks[e] = (Pick){on_nodes(b, x->u.picks[e].node), x->u.picks[e].elem};
    if (picks[e].node == NO_NODE) return NO_NODE;
  }
  return ir_pack(b->g, picks, x->n);
}

static Node rebuilt(Block *b, const IrNode *x) {
  Node args[IR_MAX_ARGS];
  if (x->op == IR_PACK) return rebuilt_pack(b, x);
  for (int k = 0; k < x->nargs; k++)
    if ((args[k] = on_nodes(b, x->args[k])) == NO_NODE) return NO_NODE;
  if (ir_is_map(x->op)) return ir_map(b->g, x->op, args);
  if (x->op == IR_GATHER) return ir_gather_kept(b->g, args[0], x->u.index, x->n);
  if (x->op == IR_SUM || x->op == IR_LSE) return ir_reduce(b->g, x->op, args[0], x->attr);
  return NO_NODE;
}

/* The node with the predictor on its nodes; NO_NODE: it sees something else. */
static Node on_nodes(Block *b, Node id) {
  if (!open_inputs(b, id)) return id;
  if (b->made[id]) return b->made[id] - 1;
  IrNode x = *ir_node(b->g, id);
  Node made = NO_NODE;
  b->r.why = NULL;
  if (x.op != IR_GATHER) made = moved(b, id);
  if (made == NO_NODE) made = rebuilt(b, &x);
  b->made[id] = made + 1;
  return made;
}

/* normal(y | f, sigma), with what is given added to it: over f, the density is that of normal(y |
 * mean, sqrt(sigma^2 + V)), the mean log density log normal(y | mean, sigma) - V / (2 sigma^2). */
typedef struct {
  Node density, mean;
  Node minus; /* not yet taken from the density; NO_NODE: nothing */
  Node sigma; /* of the outcome, f integrated; NO_NODE: it is no normal */
} NormalHeads;

static bool normal_heads(Block *b, Node id, NormalHeads *h);

/* The variance of the predictor where f is that, element by element; NO_NODE: f is something else.
 * In a mixture every location is a predictor. */
static Node variance_of(Block *b, Node f) {
  Node source = source_of(b, f); /* where the predictor was found */
  const GivenTerms *terms = given_terms(&b->r, source);
  if (!terms) return NO_NODE;
  if (!b->mixture && (!b->terms || !given_compare(b->terms, terms))) return NO_NODE;
  Node v = b->mixture ? variance_from(b, terms) : b->variance;
  if (v == NO_NODE) return NO_NODE;
  for (Node at = f; at != source; at = ir_node(b->g, at)->args[0]) {
    IrNode g = *ir_node(b->g, at);
    if (g.args[0] != source) return NO_NODE; /* gathers of gathers are one */
    v = ir_gather_kept(b->g, v, g.u.index, g.n);
  }
  return v;
}

static bool normal_itself(Block *b, const IrNode *x, NormalHeads *h) {
  for (int k = 0; k < 4; k++)
    if (k != 1 && open_inputs(b, x->args[k])) return false;
  Node v = open_inputs(b, x->args[1]) ? variance_of(b, x->args[1]) : NO_NODE;
  if (v == NO_NODE) return false;
  Node own = map1(b->g, IR_INV_SQUARE, x->args[2]);
  Node wide[] = {x->args[0], x->args[1], own, v}, mean[] = {x->args[0], x->args[1], x->args[2], v};
  h->density = ir_map(b->g, IR_NORMAL_WIDE, wide);
  h->mean = map2(b->g, IR_SUB, ir_map(b->g, IR_NORMAL_MEAN, mean), x->args[3]);
  h->minus = NO_NODE;
  h->sigma = map1(b->g, IR_SQRT, map2(b->g, IR_ADD, own, v));
  return true;
}

/* What student_t adds to the op for its density: log Gamma((nu + 1) / 2) - log Gamma(nu / 2) -
 * log(nu pi) / 2 - log sigma. */
static Node student_constants(Graph *g, Node nu, Node precision) {
  Node half = map2(g, IR_MUL, nu, ir_number(g, 0.5)), own_gamma = map1(g, IR_LGAMMA, half),
       gammas = ir_map(g, IR_LOG_RISING, (Node[]){half, ir_number(g, 0.5), own_gamma}),
       area = map1(g, IR_LOG, map2(g, IR_MUL, nu, ir_number(g, acos(-1)))),
       own = map2(g, IR_SUB, map1(g, IR_LOG, precision), map2(g, IR_MUL, area, ir_number(g, 0.5)));
  return map2(g, IR_ADD, gammas, own);
}

/* student_t(y | f, sigma, nu) is normal(y | f, sigma sqrt(nu / (2 G))), with G of gamma(nu / 2, 1):
 * so over f the density is that of normal(y | mean, sqrt(sigma^2 nu / (2 G) + V)), which is smooth
 * however small sigma is. G is the quantile that belongs to the x of a point. */
static bool student_itself(Block *b, Node id, const IrNode *x, NormalHeads *h) {
  Graph *g = b->g;
  Node precision = x->args[2], nu = x->args[3];
  bool known = !open_inputs(b, x->args[0]) && !open_inputs(b, precision) && !open_inputs(b, nu);
  if (!known || ir_size(g, nu) != 1 || b->to->axes + 1 <= GRID_AXES) return false;
  Node v = open_inputs(b, x->args[1]) ? variance_of(b, x->args[1]) : NO_NODE;
  if (v == NO_NODE) return false;
  Node half = map2(g, IR_MUL, nu, ir_number(g, 0.5)),
       p = map1(g, IR_PHI, ir_input(g, b->to->dim, 1)),
       times = map2(g, IR_DIV, half, map2(g, IR_INV_GAMMA_P, half, p)),
       own = map2(g, IR_MUL, map1(g, IR_INV_SQUARE, precision), times);
  h->density = ir_map(g, IR_NORMAL_WIDE, (Node[]){x->args[0], x->args[1], own, v});
  h->minus = student_constants(g, nu, precision);
  h->mean = on_nodes(b, id);
  h->sigma = NO_NODE;
  return h->mean != NO_NODE;
}

/* What the program adds and what is to be taken are the same for all rows, or nearly so, and become
 * one. */
static void add_to_heads(Graph *g, IrOp op, Node what, NormalHeads *h) {
  IrOp other = op == IR_ADD ? IR_SUB : IR_ADD;
  h->mean = map2(g, op, h->mean, what);
  if (h->minus != NO_NODE) what = map2(g, other, what, h->minus);
  h->density = map2(g, op, h->density, what);
  h->minus = NO_NODE;
}

static bool normal_heads(Block *b, Node id, NormalHeads *h) {
  IrNode x = *ir_node(b->g, id);
  if (x.op == IR_NORMAL) return normal_itself(b, &x, h);
  if (x.op == IR_STUDENT_T) return student_itself(b, id, &x, h);
  if (x.op != IR_ADD && x.op != IR_SUB) return false;
  int k = open_inputs(b, x.args[0]) ? 0 : 1;
  if (open_inputs(b, x.args[!k]) || (x.op == IR_SUB && k) || !normal_heads(b, x.args[k], h))
    return false;
  add_to_heads(b->g, x.op, x.args[!k], h);
  return true;
}

/* A whole head. */
static bool whole_heads(Block *b, Node id, NormalHeads *h) {
  if (!normal_heads(b, id, h)) return false;
  if (h->minus != NO_NODE) h->density = map2(b->g, IR_SUB, h->density, h->minus);
  return true;
}

static void normal_parameters(Block *b, Condition *c, Node sigma) {
  Node location = b->root->par[0];
  if (!b->root->normal || b->root->npar != 2 || ir_size(b->g, sigma) != c->rows ||
      ir_size(b->g, location) != c->rows)
    return;
  c->par[0] = location;
  c->par[1] = sigma;
}

static void line_parameters(Block *b, Condition *c) {
  Node par[3] = {NO_NODE, NO_NODE, NO_NODE};
  for (int k = 0; k < b->root->npar; k++) {
    if (b->root->par[k] == NO_NODE) return;
    par[k] = on_nodes(b, b->root->par[k]);
    if (par[k] == NO_NODE || ir_size(b->g, par[k]) != c->rows) return;
  }
  memcpy(c->par, par, sizeof par);
}

/* A binary outcome whose logit is the predictor. */
static void wide_heads(Block *b, Condition *c) {
  IrNode x = *ir_node(b->g, b->root->root);
  if (x.op != IR_BERNOULLI_LOGIT || open_inputs(b, x.args[0]) || !open_inputs(b, x.args[1])) return;
  b->r.why = NULL; /* whatever kept another head from being the predictor */
  Node v = variance_of(b, x.args[1]);
  if (v == NO_NODE) return;
  Node u = ir_input(b->g, c->dim, 1);
  wide_nodes(b->g, &(WideLogit){x.args[0], x.args[1], map2(b->g, IR_ADD, v, u)}, c->wide);
  for (int k = 0; k < 3; k++)
    if (ir_size(b->g, c->wide[k]) != c->rows) c->wide[0] = NO_NODE;
}

/* ---- heads of mixtures ----------------------------------------------------------------------- */

static Node mixture_head(Block *b, Node id);

static Node mixture_pack(Block *b, const IrNode *x) {
  Pick *picks = NEW_ARRAY(b->temp, Pick, x->n);
  for (int32_t e = 0; e < x->n; e++) {
    picks[e] = (Pick){mixture_head(b, x->u.picks[e].node), x->u.picks[e].elem};
    if (picks[e].node == NO_NODE) return NO_NODE;
  }
  return ir_pack(b->g, picks, x->n);
}

static Node mixture_of(Block *b, Node id, const IrNode *x) {
  NormalHeads h;
  Node args[IR_MAX_ARGS];
  switch (x->op) {
  case IR_NORMAL:
  case IR_ADD:
  case IR_SUB: return whole_heads(b, id, &h) ? h.density : NO_NODE;
  case IR_PACK: return mixture_pack(b, x);
  case IR_GATHER:
  case IR_LSE:
  case IR_LOG_SUM_EXP2: break;
  default: return NO_NODE;
  }
  for (int k = 0; k < x->nargs; k++)
    if ((args[k] = mixture_head(b, x->args[k])) == NO_NODE) return NO_NODE;
  if (x->op == IR_GATHER) return ir_gather_kept(b->g, args[0], x->u.index, x->n);
  return x->op == IR_LSE ? ir_reduce(b->g, x->op, args[0], x->attr) : ir_map(b->g, x->op, args);
}

/* log E[exp(id)] given the scales, for a log sum of normal densities. Of such a sum the mean log
 * density is no sum. NO_NODE: it is something else. */
static Node mixture_head(Block *b, Node id) {
  if (!open_inputs(b, id)) return id;
  if (b->made[id]) return b->made[id] - 1;
  IrNode x = *ir_node(b->g, id);
  Node made = mixture_of(b, id, &x);
  b->made[id] = made + 1;
  return made;
}

/* Over its location, which may be a point: then V is next to nothing. */
static void kinked_heads(Block *b, Condition *c) {
  Node v = variance_of(b, b->kinked);
  c->density = c->mean = NO_NODE;
  if (v == NO_NODE) return;
  KinkedLaw f = {b->kinked, map2(b->g, IR_ADD, v, ir_number(b->g, LEAST_VARIANCE))};
  if (kinks_heads(&b->r, b->root->root, &f, &c->density, &c->mean) &&
      ir_size(b->g, c->density) != c->rows)
    c->density = NO_NODE;
}

static void make_heads(Block *b, Condition *c) {
  NormalHeads h;
  for (int k = 0; k < 3; k++) c->par[k] = c->wide[k] = NO_NODE;
  if (b->root->kinked) {
    kinked_heads(b, c);
    return;
  }
  b->made = NEW_ARRAY(b->temp, Node, b->all->count);
  if (b->mixture) {
    c->density = mixture_head(b, b->root->root);
    c->mean = NO_NODE;
    return;
  }
  if (b->variance != NO_NODE && whole_heads(b, b->root->root, &h)) {
    c->density = h.density;
    c->mean = h.mean;
    c->line = c->tails = h.sigma == NO_NODE;
    if (c->tails)
      line_parameters(b, c);
    else
      normal_parameters(b, c, h.sigma);
    return;
  }
  c->line = b->variance != NO_NODE;
  c->density = c->mean = on_nodes(b, b->root->root);
  line_parameters(b, c);
  if (c->line) wide_heads(b, c);
}

/* ---- one block ------------------------------------------------------------------------------- */

static const char *const too_many =
    "an observation sees more than two affine functions of the parameters";

static const Condition *condition(const Reducible *t, const ConditionRoot *root, bool dense,
                                  const char **why) {
  const struct Conditions *all = conditions(t);
  Arena *temp = t->temp;
  Block b = {.all = all,
             .g = all->g,
             .root = root,
             .arena = t->out->arena,
             .temp = temp,
             .dense = dense,
             .kinked = NO_NODE,
             .variance = NO_NODE,
             .deviation = NO_NODE,
             .reached = NEW_ARRAY(temp, bool, all->count)};
  b.r = (GivenReader){.temp = temp, .g = all->g, .mask = all->mask, .why = all->why};
  if (!b.r.why && dense && all->dim > MOST_DENSE)
    b.r.why = "q has too many covariances to condition on scales";
  begin_terms(&b);
  reach(&b, root->root);
  b.mixture = !b.r.why && !root->kinked && find_mixture(&b);
  if (!b.r.why && root->kinked) find_kinked(&b);
  if (!b.r.why && root->kinked && !b.terms) b.r.why = "there is no kink in a location";
  if (!b.r.why && !b.mixture && !root->kinked) find_scales(&b);
  if (!b.r.why && b.terms && !one_element(&b)) b.r.why = too_many;
  Condition *c = NEW(b.arena, Condition);
  *c = (Condition){.graph = all->g, .dim = all->dim, .rows = ir_size(b.g, root->root)};
  b.to = c;
  if (!b.r.why) make_axes(&b, c);
  *why = b.r.why;
  if (b.r.why) return NULL;
  make_variance(&b);
  make_heads(&b, c);
  c->pair = b.pair;
  c->npairs = (int32_t)(b.pairs / 2);
  c->sampled = c->axes + c->line > GRID_AXES;
  bool few = c->axes <= (b.mixture ? MOST_MIXTURE_AXES : MOST_AXES) && (!c->line || c->tails);
  if (c->sampled && !few) *why = "an observation sees too many scales";
  if (c->density == NO_NODE)
    *why = b.mixture ? too_many : "an observation sees more than its predictor and scales";
  c->select = memcpy(NEW_ARRAY(b.arena, int32_t, root->n), root->select,
                     (size_t)root->n * sizeof *root->select);
  return *why ? NULL : c;
}

bool condition_elements(const Reducible *t, const ConditionRoot *root, Reduced *b,
                        const char **why) {
  const char *no_dense;
  *b = (Reduced){.form = FORM_GIVEN,
                 .rows = root->n,
                 .factor = 1,
                 .first_rows = 1,
                 .centred = NO_NODE,
                 .wide = {NO_NODE, NO_NODE, NO_NODE},
                 .par = {NO_NODE, NO_NODE, NO_NODE}};
  b->given[0] = condition(t, root, false, why);
  if (!b->given[0]) return false;
  b->given[1] = condition(t, root, true, &no_dense);
  b->density = b->given[0]->density;
  b->mean = b->given[0]->mean;
  memcpy(b->par, b->given[0]->par, sizeof b->par);
  return true;
}
