/* reduce.c: cutting observations at their affine functions of theta.
 *
 * Every node of the model's graph is constant, affine in theta, or neither. The walk goes down from
 * an observation's root with a map (which element of the node belongs to which row), rebuilds what
 * is not affine, and makes a leaf of what is. Functions that differ only by sign and constant share
 * a leaf.
 */
#include "model/reduce.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { MOST_TERMS = 2048, MOST_WIDTH = 64, MOST_DEPTH = 500, MOST_PRIOR_BLOCKS = 256 };

/* ---- which nodes are affine ------------------------------------------------------------------ */

typedef enum { IS_CONST, IS_AFFINE, IS_OTHER } Degree;

static Degree largest(const Degree *d, int n) {
  Degree most = IS_CONST;
  for (int k = 0; k < n; k++) most = d[k] > most ? d[k] : most;
  return most;
}

static Degree degree_of(const uint8_t *degree, const IrNode *x) {
  Degree d[IR_MAX_ARGS], most;
  if (x->op == IR_CONST) return IS_CONST;
  if (x->op == IR_INPUT) return IS_AFFINE;
  if (x->op == IR_PACK) {
    most = IS_CONST;
    for (int32_t e = 0; e < x->n; e++)
      most = degree[x->u.picks[e].node] > most ? degree[x->u.picks[e].node] : most;
    return most;
  }
  for (int k = 0; k < x->nargs; k++) d[k] = degree[x->args[k]];
  most = largest(d, x->nargs);
  switch (x->op) {
  case IR_GATHER:
  case IR_SUM:
  case IR_MATVEC:
  case IR_NEG:
  case IR_ADD:
  case IR_SUB: return most;
  case IR_MUL: return d[0] == IS_CONST || d[1] == IS_CONST ? most : IS_OTHER;
  case IR_DIV: return d[1] == IS_CONST ? most : IS_OTHER;
  default: return most == IS_CONST && x->nargs ? IS_CONST : IS_OTHER;
  }
}

static uint8_t *degrees(Arena *a, const Graph *g) {
  uint8_t *degree = NEW_ARRAY(a, uint8_t, g->count + 1);
  for (int32_t k = 0; k < g->count; k++) degree[k] = (uint8_t)degree_of(degree, &g->nodes[k]);
  return degree;
}

/* ---- the reducer ----------------------------------------------------------------------------- */

typedef struct {
  Node node;
  const int32_t *map;
  Node made;
} Memo;

typedef struct {
  const Model *m;
  Arena *arena; /* of what stays */
  Arena *temp;  /* of what is forgotten when the block is done */
  const Graph *g;
  const uint8_t *degree;
  Graph *out;
  int32_t rows;
  const int32_t *zeros; /* rows of them */
  const double *ones;   /* likewise, when first needed */
  Affine f[2];
  int count;
  bool centred; /* leaves on centred nodes, one row an observation */
  int depth;
  Memo *memo;
  size_t nmemo, cap_memo;
  const char *why; /* set: it cannot be done */
} Reducer;

static Node refuse(Reducer *r, const char *why) {
  if (!r->why) r->why = why;
  return NO_NODE;
}

static const int32_t *through(Reducer *r, const int32_t *index, const int32_t *map) {
  int32_t *at = NEW_ARRAY(r->temp, int32_t, r->rows);
  for (int32_t k = 0; k < r->rows; k++) at[k] = index[map[k]];
  return at;
}

/* Element w of each row of a node with W elements a row. */
static const int32_t *column_map(Reducer *r, const int32_t *map, int32_t W, int32_t w) {
  int32_t *at = NEW_ARRAY(r->temp, int32_t, r->rows);
  for (int32_t k = 0; k < r->rows; k++) at[k] = map[k] * W + w;
  return at;
}

/* The node behind a pack when it is the same in every row, and its elements; NO_NODE otherwise. */
static Node one_pick(Reducer *r, const IrNode *x, const int32_t *map, const int32_t **elements) {
  int32_t *at = NEW_ARRAY(r->temp, int32_t, r->rows);
  for (int32_t k = 0; k < r->rows; k++) {
    if (x->u.picks[map[k]].node != x->u.picks[map[0]].node) return NO_NODE;
    at[k] = x->u.picks[map[k]].elem;
  }
  *elements = at;
  return x->u.picks[map[0]].node;
}

static const int32_t *arg_map(const Reducer *r, const IrNode *x, int k, const int32_t *map) {
  return ir_node(r->g, x->args[k])->n == x->n ? map : r->zeros;
}

/* ---- collecting an affine function down to theta --------------------------------------------- */

typedef struct {
  int32_t *index;     /* one, or one a row */
  const double *coef; /* as given, until something is added */
  double *sum;        /* the same, once it is our own */
  bool same;
} Term;

typedef struct {
  Reducer *r;
  double *constant;
  Term *terms;
  int count, cap;
} Collector;

static bool all_equal_int(const int32_t *x, int32_t n) {
  for (int32_t k = 1; k < n; k++)
    if (x[k] != x[0]) return false;
  return true;
}

static bool all_equal(const double *x, int32_t n) {
  for (int32_t k = 1; k < n; k++)
    if (x[k] != x[0]) return false;
  return true;
}

static bool same_index(const Term *t, const int32_t *index, bool same, int32_t rows) {
  if (t->same != same) return false;
  return same ? t->index[0] == index[0]
              : memcmp(t->index, index, (size_t)rows * sizeof *index) == 0;
}

/* One more term; coef stays as it is. */
static bool add_term(Collector *c, int32_t first, const int32_t *map, const double *coef) {
  int32_t rows = c->r->rows;
  bool same = all_equal_int(map, rows);
  int32_t *index = NEW_ARRAY(c->r->temp, int32_t, same ? 1 : rows);
  for (int32_t k = 0; k < (same ? 1 : rows); k++) index[k] = first + map[k];
  for (int k = 0; k < c->count; k++) {
    Term *t = &c->terms[k];
    if (!same_index(t, index, same, rows)) continue;
    if (!t->sum)
      t->coef = t->sum =
          memcpy(NEW_ARRAY(c->r->temp, double, rows), t->coef, (size_t)rows * sizeof *coef);
    for (int32_t i = 0; i < rows; i++) t->sum[i] += coef[i];
    return true;
  }
  if (c->count == MOST_TERMS) return refuse(c->r, "a linear predictor has too many terms"), false;
  Term t = {index, coef, NULL, same};
  PUSH(c->r->temp, c->terms, c->count, c->cap, t);
  return true;
}

static bool collect(Collector *c, Node id, const int32_t *map, const double *coef, int depth);

static double value_at(const IrNode *x, int32_t at) { return x->u.values[x->n == 1 ? 0 : at]; }

static double *scaled(Collector *c, const double *coef, Node by, const int32_t *map, bool divide) {
  double *out = NEW_ARRAY(c->r->temp, double, c->r->rows);
  for (int32_t k = 0; k < c->r->rows; k++) {
    double x = by == NO_NODE ? -1 : value_at(ir_node(c->r->g, by), map[k]);
    out[k] = divide ? coef[k] / x : coef[k] * x;
  }
  return out;
}

static bool collect_arg(Collector *c, const IrNode *x, int k, const int32_t *map,
                        const double *coef, int depth) {
  return collect(c, x->args[k], arg_map(c->r, x, k, map), coef, depth + 1);
}

static bool collect_matvec(Collector *c, const IrNode *x, const int32_t *map, const double *coef,
                           int depth) {
  int32_t rows = c->r->rows, K = x->attr;
  const double *X = ir_node(c->r->g, x->args[0])->u.values;
  int32_t *at = NEW_ARRAY(c->r->temp, int32_t, rows);
  for (int32_t k = 0; k < K; k++) {
    double *column = NEW_ARRAY(c->r->temp, double, rows);
    for (int32_t i = 0; i < rows; i++) {
      at[i] = k;
      column[i] = coef[i] * X[(size_t)map[i] * (size_t)K + (size_t)k];
    }
    if (!collect(c, x->args[1], at, column, depth + 1)) return false;
  }
  return true;
}

static bool collect_sum(Collector *c, const IrNode *x, const int32_t *map, const double *coef,
                        int depth) {
  if (x->attr > MOST_TERMS) return refuse(c->r, "a linear predictor has too many terms"), false;
  for (int32_t w = 0; w < x->attr; w++)
    if (!collect(c, x->args[0], column_map(c->r, map, x->attr, w), coef, depth + 1)) return false;
  return true;
}

/* coef times the given elements of an affine node, added to what is collected. */
static bool collect(Collector *c, Node id, const int32_t *map, const double *coef, int depth) {
  const IrNode *x = ir_node(c->r->g, id);
  if (depth > MOST_DEPTH) return refuse(c->r, "an expression is too deep"), false;
  const int32_t *elements;
  Node from;
  bool left_const;
  switch (x->op) {
  case IR_CONST:
    for (int32_t k = 0; k < c->r->rows; k++)
      if (coef[k] != 0) c->constant[k] += coef[k] * value_at(x, map[k]);
    return true;
  case IR_INPUT: return add_term(c, x->attr, map, coef);
  case IR_GATHER: return collect(c, x->args[0], through(c->r, x->u.index, map), coef, depth + 1);
  case IR_PACK:
    from = one_pick(c->r, x, map, &elements);
    if (from == NO_NODE)
      return refuse(c->r, "observations take a predictor from different places"), false;
    return collect(c, from, elements, coef, depth + 1);
  case IR_ADD:
    return collect_arg(c, x, 0, map, coef, depth) && collect_arg(c, x, 1, map, coef, depth);
  case IR_SUB:
    return collect_arg(c, x, 0, map, coef, depth) &&
           collect_arg(c, x, 1, map, scaled(c, coef, NO_NODE, map, false), depth);
  case IR_NEG: return collect_arg(c, x, 0, map, scaled(c, coef, NO_NODE, map, false), depth);
  case IR_MUL:
    left_const = ir_is_const(c->r->g, x->args[0]);
    if (!left_const && !ir_is_const(c->r->g, x->args[1]))
      return refuse(c->r, "a product is not a number times a parameter"), false;
    return collect_arg(
        c, x, left_const, map,
        scaled(c, coef, x->args[!left_const], arg_map(c->r, x, !left_const, map), false), depth);
  case IR_DIV:
    if (!ir_is_const(c->r->g, x->args[1]))
      return refuse(c->r, "a quotient is not a parameter over a number"), false;
    return collect_arg(c, x, 0, map, scaled(c, coef, x->args[1], arg_map(c->r, x, 1, map), true),
                       depth);
  case IR_MATVEC: return collect_matvec(c, x, map, coef, depth);
  case IR_SUM: return collect_sum(c, x, map, coef, depth);
  default: return refuse(c->r, "an affine expression of a kind that is not known"), false;
  }
}

static bool may_share(const AffineTerm *a, const AffineTerm *b) {
  return a->low <= b->high && b->low <= a->high;
}

/* Terms as they are kept: no zeros, no ones, one row where all rows are alike. */
static Affine assemble(Collector *c) {
  Arena *a = c->r->temp;
  int32_t rows = c->r->rows;
  bool shared = all_equal(c->constant, rows);
  int n = 0;
  for (int k = 0; k < c->count; k++) {
    bool same_coef = all_equal(c->terms[k].coef, rows);
    if (same_coef && c->terms[k].coef[0] == 0) continue;
    shared = shared && c->terms[k].same && same_coef;
    c->terms[n++] = c->terms[k];
  }
  Affine f = {.rows = shared ? 1 : rows,
              .constant = c->constant,
              .terms = NEW_ARRAY(a, AffineTerm, n + 1),
              .nterms = n};
  for (int k = 0; k < n; k++) {
    const Term *t = &c->terms[k];
    bool ones = all_equal(t->coef, rows) && t->coef[0] == 1;
    AffineTerm *to = &f.terms[k];
    *to = (AffineTerm){t->index[0], t->same ? NULL : t->index, ones ? NULL : t->coef, t->index[0],
                       t->index[0]};
    for (int32_t i = 0; !t->same && i < rows; i++) {
      to->low = t->index[i] < to->low ? t->index[i] : to->low;
      to->high = t->index[i] > to->high ? t->index[i] : to->high;
    }
    for (int j = 0; j < k; j++) f.overlapping = f.overlapping || may_share(&f.terms[j], to);
  }
  return f;
}

static const double *filled(Reducer *r, double x) {
  double *v = NEW_ARRAY(r->temp, double, r->rows);
  for (int32_t k = 0; k < r->rows; k++) v[k] = x;
  return v;
}

/* The given elements of node, minus those of another where there is one, as one function. */
static bool affine_of(Reducer *r, Node node, const int32_t *map, Node minus,
                      const int32_t *minus_map, Affine *out) {
  Collector c = {.r = r, .constant = NEW_ARRAY(r->temp, double, r->rows)};
  if (!r->ones) r->ones = filled(r, 1);
  if (!collect(&c, node, map, r->ones, 0)) return false;
  if (minus != NO_NODE && !collect(&c, minus, minus_map, filled(r, -1), 0)) return false;
  *out = assemble(&c);
  return true;
}

static double coef_at(const AffineTerm *t, int32_t r) { return t->coef ? t->coef[r] : 1; }

static bool same_term(const AffineTerm *a, const AffineTerm *b, double sign, int32_t rows) {
  if (!a->index != !b->index) return false;
  if (a->index ? memcmp(a->index, b->index, (size_t)rows * sizeof *a->index) != 0
               : a->input != b->input)
    return false;
  for (int32_t k = 0; k < rows; k++)
    if (coef_at(a, k) != sign * coef_at(b, k)) return false;
  return true;
}

/* Is a = sign b + constants? */
static bool same_terms(const Affine *a, const Affine *b, double sign, int32_t rows) {
  if (a->nterms != b->nterms) return false;
  for (int k = 0; k < a->nterms; k++) {
    bool found = false;
    for (int j = 0; j < b->nterms && !found; j++)
      found = same_term(&a->terms[k], &b->terms[j], sign, rows);
    if (!found) return false;
  }
  return true;
}

static Node map2(Graph *g, unsigned op, Node a, Node b) { return ir_map(g, op, (Node[]){a, b}); }

static Node constant_node(Reducer *r, const double *values) {
  return all_equal(values, r->rows) ? ir_number(r->out, values[0])
                                    : ir_const(r->out, values, r->rows);
}

static Node leaf(Reducer *r, int k) {
  if (r->centred) return ir_outer(r->out, LEAF_CENTRED, r->rows);
  return ir_outer(r->out, k == 0 ? LEAF_FIRST : LEAF_SECOND, r->f[k].rows);
}

/* The node of an affine function: a leaf, or one turned and moved. */
static Node affine_node(Reducer *r, const Affine *f) {
  if (!f->nterms) return constant_node(r, f->constant);
  for (int k = 0; k < r->count; k++)
    for (int s = 1; s >= -1; s -= 2) {
      if (!same_terms(f, &r->f[k], s, r->rows)) continue;
      double *shift = NEW_ARRAY(r->temp, double, r->rows);
      for (int32_t i = 0; i < r->rows; i++) shift[i] = f->constant[i] - s * r->f[k].constant[i];
      Node at = leaf(r, k);
      if (s < 0) at = ir_map(r->out, IR_NEG, &at);
      return all_equal(shift, r->rows) && shift[0] == 0
                 ? at
                 : map2(r->out, IR_ADD, at, constant_node(r, shift));
    }
  if (r->count == 2)
    return refuse(r, "an observation sees more than two affine functions of the parameters");
  r->f[r->count++] = *f;
  return leaf(r, r->count - 1);
}

/* ---- rebuilding ------------------------------------------------------------------------------ */

static Node rebuild(Reducer *r, Node id, const int32_t *map);

static Node rebuild_reduction(Reducer *r, const IrNode *x, const int32_t *map) {
  if (x->attr > MOST_WIDTH) return refuse(r, "an observation is a long sum");
  Node all = NO_NODE;
  for (int32_t w = 0; w < x->attr; w++) {
    Node one = rebuild(r, x->args[0], column_map(r, map, x->attr, w));
    if (one == NO_NODE) return NO_NODE;
    all = w ? map2(r->out, x->op == IR_SUM ? IR_ADD : IR_LOG_SUM_EXP2, all, one) : one;
  }
  return all;
}

static bool location_family(unsigned op) {
  return op == IR_NORMAL || op == IR_CAUCHY || op == IR_DOUBLE_EXP || op == IR_LOGISTIC ||
         op == IR_STUDENT_T;
}

/* p(a - b): two affine arguments are one. */
static bool difference(Reducer *r, const IrNode *x, const int32_t *map, Node *args) {
  if (!location_family(x->op) || r->degree[x->args[0]] != IS_AFFINE ||
      r->degree[x->args[1]] != IS_AFFINE)
    return false;
  Affine f;
  if (!affine_of(r, x->args[0], arg_map(r, x, 0, map), x->args[1], arg_map(r, x, 1, map), &f))
    return true;
  args[0] = affine_node(r, &f);
  args[1] = ir_number(r->out, 0);
  return true;
}

static Node rebuild_map(Reducer *r, const IrNode *x, const int32_t *map) {
  Node args[IR_MAX_ARGS];
  int first = difference(r, x, map, args) ? 2 : 0;
  if (r->why) return NO_NODE;
  for (int k = first; k < x->nargs; k++) {
    args[k] = rebuild(r, x->args[k], arg_map(r, x, k, map));
    if (args[k] == NO_NODE) return NO_NODE;
  }
  return ir_map(r->out, x->op, args);
}

static Node rebuild_other(Reducer *r, const IrNode *x, const int32_t *map) {
  const int32_t *elements;
  Node from;
  switch (x->op) {
  case IR_GATHER: return rebuild(r, x->args[0], through(r, x->u.index, map));
  case IR_PACK:
    from = one_pick(r, x, map, &elements);
    return from == NO_NODE ? refuse(r, "observations take a value from different places")
                           : rebuild(r, from, elements);
  case IR_SUM:
  case IR_LSE: return rebuild_reduction(r, x, map);
  case IR_MATVEC:
  case IR_MATMUL:
  case IR_CUMSUM: return refuse(r, "a product or sum of transformed parameters");
  case IR_ODE: return refuse(r, "the solution of a differential equation");
  default:
    if (!ir_is_map(x->op)) return refuse(r, "a value that is not made element by element");
    return rebuild_map(r, x, map);
  }
}

static bool is_iota(const int32_t *map, int32_t n) {
  for (int32_t k = 0; k < n; k++)
    if (map[k] != k) return false;
  return true;
}

/* All of it in order is the model's own array. */
static Node rebuild_constant(Reducer *r, const IrNode *x, const int32_t *map) {
  if (x->n == 1) return ir_number(r->out, x->u.values[0]);
  if (x->n == r->rows && is_iota(map, r->rows))
    return all_equal(x->u.values, r->rows) ? ir_number(r->out, x->u.values[0])
                                           : ir_const_kept(r->out, x->u.values, r->rows);
  double *v = NEW_ARRAY(r->temp, double, r->rows);
  for (int32_t k = 0; k < r->rows; k++) v[k] = value_at(x, map[k]);
  return constant_node(r, v);
}

/* The given elements of node id, one a row, on leaves. NO_NODE: it cannot be done. */
static Node rebuild(Reducer *r, Node id, const int32_t *map) {
  const IrNode *x = ir_node(r->g, id);
  if (x->op == IR_CONST) return rebuild_constant(r, x, map);
  for (size_t k = 0; k < r->nmemo; k++)
    if (r->memo[k].node == id && r->memo[k].map == map) return r->memo[k].made;
  if (++r->depth > MOST_DEPTH) return refuse(r, "an expression is too deep");
  Node made;
  if (r->degree[id] == IS_AFFINE) {
    Affine f;
    made = affine_of(r, id, map, NO_NODE, NULL, &f) ? affine_node(r, &f) : NO_NODE;
  } else {
    made = rebuild_other(r, x, map);
  }
  r->depth--;
  Memo m = {id, map, made};
  PUSH(r->temp, r->memo, r->nmemo, r->cap_memo, m);
  return made;
}

static void forget(Reducer *r) {
  r->memo = NULL;
  r->nmemo = r->cap_memo = 0;
  r->depth = 0;
}

/* ---- the normal form ------------------------------------------------------------------------- */

/* root = normal(y | mu, 1 / precision) plus a constant? Then the normal node, and where its
 * elements and the constant's are. */
typedef struct {
  const IrNode *normal;
  const int32_t *map;
  Node constant; /* rebuilt; NO_NODE: none */
  bool minus;
} NormalRoot;

static bool normal_root(Reducer *r, Node root, const int32_t *map, NormalRoot *out) {
  const IrNode *x = ir_node(r->g, root);
  while (x->op == IR_GATHER) {
    map = through(r, x->u.index, map);
    x = ir_node(r->g, x->args[0]);
  }
  *out = (NormalRoot){x, map, NO_NODE, false};
  if (x->op == IR_NORMAL) return true;
  if (x->op != IR_ADD && x->op != IR_SUB) return false;
  for (int k = 0; k < (x->op == IR_ADD ? 2 : 1); k++) {
    const IrNode *n = ir_node(r->g, x->args[k]);
    if (n->op != IR_NORMAL || r->degree[x->args[!k]] != IS_CONST) continue;
    out->normal = n;
    out->map = arg_map(r, x, k, map);
    out->constant = rebuild(r, x->args[!k], arg_map(r, x, !k, map));
    out->minus = x->op == IR_SUB;
    return true;
  }
  return false;
}

static Node with_constant(Reducer *r, const NormalRoot *n, Node x) {
  return n->constant == NO_NODE ? x : map2(r->out, n->minus ? IR_SUB : IR_ADD, x, n->constant);
}

/* Fills b; false when the root is not of this form. */
static bool reduce_normal(Reducer *r, Node root, const int32_t *map, Reduced *b, Node *sigma) {
  NormalRoot n;
  if (!normal_root(r, root, map, &n)) return false;
  const IrNode *x = n.normal;
  Degree dy = r->degree[x->args[0]], dmu = r->degree[x->args[1]];
  if (dy == IS_OTHER || dmu == IS_OTHER || (dy == IS_CONST && dmu == IS_CONST)) return false;
  Affine f;
  bool turned = dmu == IS_CONST, both = dy == IS_AFFINE && dmu == IS_AFFINE;
  int at = turned || both ? 0 : 1;
  if (!affine_of(r, x->args[at], arg_map(r, x, at, n.map), both ? x->args[1] : NO_NODE,
                 arg_map(r, x, 1, n.map), &f))
    return false;
  if (!f.nterms) return false;
  /* the scale must not see f: reduce it with a list of its own */
  Reducer scale = *r;
  scale.count = 0;
  forget(&scale);
  Affine none = {.rows = 1};
  scale.f[scale.count++] = none; /* keeps the first leaf free */
  Node precision = rebuild(&scale, x->args[2], arg_map(r, x, 2, n.map));
  Node log_sigma =
      precision == NO_NODE ? NO_NODE : rebuild(&scale, x->args[3], arg_map(r, x, 3, n.map));
  if (log_sigma == NO_NODE) return false;
  if (scale.count == 2 &&
      (same_terms(&scale.f[1], &f, 1, r->rows) || same_terms(&scale.f[1], &f, -1, r->rows)))
    return false;
  r->f[0] = f;
  r->f[1] = scale.f[1];
  r->count = scale.count;
  b->form = FORM_NORMAL;
  b->first_rows = f.rows == 1 && (r->count == 1 || r->f[1].rows == 1) ? 1 : r->rows;
  Graph *g = r->out;
  Node mu = ir_outer(g, LEAF_FIRST, b->first_rows),
       extra = ir_outer(g, LEAF_VARIANCE, b->first_rows);
  Node y = both ? ir_number(g, 0) : rebuild(r, x->args[!at], arg_map(r, x, !at, n.map));
  Node own = ir_map(g, IR_INV_SQUARE, &precision), variance = map2(g, IR_ADD, own, extra);
  *sigma = ir_map(g, IR_SQRT, &variance);
  b->density = with_constant(r, &n, ir_map(g, IR_NORMAL_WIDE, (Node[]){y, mu, own, extra}));
  Node mean =
      map2(g, IR_SUB, ir_map(g, IR_NORMAL_MEAN, (Node[]){y, mu, precision, extra}), log_sigma);
  b->mean = with_constant(r, &n, mean);
  return true;
}

/* ---- one block ------------------------------------------------------------------------------- */

/* Heads must have a row each. */
static Node by_rows(Reducer *r, Node x) {
  if (x == NO_NODE || ir_size(r->out, x) == r->rows) return x;
  return ir_gather(r->out, x, r->zeros, r->rows);
}

static Reducer reducer(const Model *m, Arena *temp, const uint8_t *degree, Graph *out,
                       int32_t rows) {
  return (Reducer){.m = m,
                   .arena = out->arena,
                   .temp = temp,
                   .g = m->graph,
                   .degree = degree,
                   .out = out,
                   .rows = rows,
                   .zeros = NEW_ARRAY(temp, int32_t, rows)};
}

static void *kept(Arena *a, const void *x, size_t bytes) {
  return x ? memcpy(arena_alloc(a, bytes), x, bytes) : NULL;
}

/* A function as it stays; one row where all are alike. */
static Affine keep(Reducer *r, Affine f) {
  size_t n = (size_t)f.rows;
  bool zeros = f.constant && f.constant[0] == 0 && all_equal(f.constant, f.rows);
  f.constant = kept(r->arena, zeros ? NULL : f.constant, n * sizeof *f.constant);
  f.terms = kept(r->arena, f.terms, ((size_t)f.nterms + 1) * sizeof *f.terms);
  for (int k = 0; k < f.nterms; k++) {
    f.terms[k].coef = kept(r->arena, f.terms[k].coef, n * sizeof *f.terms[k].coef);
    f.terms[k].index = kept(r->arena, f.terms[k].index, n * sizeof *f.terms[k].index);
  }
  return f;
}

/* The root of a block; its form and functions. */
static bool reduce_root(Reducer *r, Node root, const int32_t *map, Reduced *b, Node *sigma) {
  *b = (Reduced){.rows = r->rows,
                 .factor = 1,
                 .density = NO_NODE,
                 .centred = NO_NODE,
                 .par = {NO_NODE, NO_NODE, NO_NODE}};
  *sigma = NO_NODE;
  if (reduce_normal(r, root, map, b, sigma)) {
    r->why = NULL;
  } else {
    r->why = NULL;
    r->count = 0;
    forget(r);
    b->density = b->mean = rebuild(r, root, map);
    if (b->density == NO_NODE) return false;
    b->form = r->count == 2 ? FORM_PLANE : FORM_LINE;
    if (r->count == 2 &&
        r->f[0].rows < r->f[1].rows) { /* the first is the one that may have a row each */
      Affine shared = r->f[0];
      r->f[0] = r->f[1];
      r->f[1] = shared;
      forget(r);
      b->density = b->mean = rebuild(r, root, map);
    }
    b->first_rows = r->count ? r->f[0].rows : 1;
  }
  b->count = r->count;
  for (int k = 0; k < b->count; k++) b->f[k] = keep(r, r->f[k]);
  b->density = by_rows(r, b->density);
  b->mean = by_rows(r, b->mean);
  return true;
}

/* The parameters of the outcome, on the same leaves. */
static void reduce_parameters(Reducer *r, const ObsBlock *o, const int32_t *map, Reduced *b,
                              Node sigma) {
  if (o->dist < 0 || o->width != 1) return;
  Node par[3] = {NO_NODE, NO_NODE, NO_NODE};
  int count = r->count;
  forget(r);
  for (int k = 0; k < o->npar; k++) {
    bool scale = b->form == FORM_NORMAL && k == 1;
    par[k] = scale ? sigma : rebuild(r, o->par[k], map);
    if (par[k] == NO_NODE || r->count != count) {
      r->count = count;
      r->why = NULL;
      return;
    }
  }
  if (b->form == FORM_NORMAL && o->dist != DIST_normal && o->dist != DIST_lognormal) return;
  for (int k = 0; k < o->npar; k++) b->par[k] = by_rows(r, par[k]);
}

static void reduce_centred(Reducer *r, Node root, const int32_t *map, Reduced *b) {
  if (b->form != FORM_LINE || !r->count) return;
  forget(r);
  r->centred = true;
  Node density = rebuild(r, root, map);
  r->centred = false;
  if (density == NO_NODE) {
    r->why = NULL;
    return;
  }
  b->centred = by_rows(r, map2(r->out, IR_ADD, density, ir_outer(r->out, LEAF_WEIGHT, r->rows)));
}

Reduction *reduce_observations(Arena *a, const Model *m, const ModelRows *rows, const char **why) {
  Reduction *out = NEW(a, Reduction);
  TempArena *task = temp_open(m->ctx);
  uint8_t *degree = degrees(&task->arena, m->graph);
  out->graph = ir_graph_in(a);
  out->blocks = NEW_ARRAY(a, Reduced, m->nblocks + 1);
  for (int b = 0; b < m->nblocks; b++) {
    const ObsBlock *o = &m->blocks[b];
    const int32_t *map = rows->row + rows->first[b];
    Reduced *to = &out->blocks[out->nblocks++];
    *to = (Reduced){.rows = (int32_t)(rows->first[b + 1] - rows->first[b])};
    if (!to->rows) continue;
    Reducer r = reducer(m, &task->arena, degree, out->graph, to->rows);
    Node sigma;
    if (o->root == NO_NODE) refuse(&r, "their density is not known");
    if (r.why || !reduce_root(&r, o->root, map, to, &sigma)) {
      *why = arena_format(a, "the observations of line %u (%s): %s", o->loc.line, o->name,
                          r.why ? r.why : "not reducible");
      temp_close(task);
      return NULL;
    }
    reduce_parameters(&r, o, map, to, sigma);
    reduce_centred(&r, o->root, map, to);
  }
  temp_close(task);
  return out;
}

/* ---- the prior: a sum of terms --------------------------------------------------------------- */

typedef struct {
  const Model *m;
  Arena *temp;
  const uint8_t *degree;
  Reduction *out;
  int cap;
  const char *why;
} PriorSplit;

static void add_prior(PriorSplit *s, Node node, const int32_t *map, int32_t rows, double factor) {
  if (s->why) return;
  if (s->out->nblocks == MOST_PRIOR_BLOCKS) {
    s->why = "it has too many different terms";
    return;
  }
  Reducer r = reducer(s->m, s->temp, s->degree, s->out->graph, rows);
  Reduced b;
  Node sigma;
  if (!reduce_root(&r, node, map, &b, &sigma)) {
    s->why = r.why;
    return;
  }
  b.factor = factor;
  PUSH(s->out->graph->arena, s->out->blocks, s->out->nblocks, s->cap, b);
}

static void split_prior(PriorSplit *s, Node id, double factor, int depth);

/* factor times the sum of all elements of a vector: a block; packs fall apart into the nodes they
 * are made of. */
static void split_vector(PriorSplit *s, Node id, double factor, int depth) {
  const IrNode *x = ir_node(s->m->graph, id);
  Arena *a = s->temp;
  int32_t *map = NEW_ARRAY(a, int32_t, x->n);
  if (x->op != IR_PACK) {
    for (int32_t k = 0; k < x->n; k++) map[k] = k;
    add_prior(s, id, map, x->n, factor);
    return;
  }
  bool *done = NEW_ARRAY(a, bool, x->n);
  for (int32_t k = 0; k < x->n; k++) {
    if (done[k]) continue;
    int32_t n = 0;
    int32_t *elements = NEW_ARRAY(a, int32_t, x->n);
    for (int32_t j = k; j < x->n; j++) {
      if (x->u.picks[j].node != x->u.picks[k].node) continue;
      elements[n++] = x->u.picks[j].elem;
      done[j] = true;
    }
    Node from = x->u.picks[k].node;
    if (ir_size(s->m->graph, from) == 1) {
      split_prior(s, from, factor * n, depth + 1);
    } else {
      add_prior(s, from, elements, n, factor);
    }
  }
}

static void split_prior(PriorSplit *s, Node id, double factor, int depth) {
  const Graph *g = s->m->graph;
  const IrNode *x = ir_node(g, id);
  if (depth > MOST_DEPTH) s->why = "it has too many different terms";
  if (s->why) return;
  if (x->op == IR_CONST) {
    s->out->constant += factor * x->u.values[0];
  } else if (x->op == IR_ADD || x->op == IR_SUB) {
    split_prior(s, x->args[0], factor, depth + 1);
    split_prior(s, x->args[1], x->op == IR_ADD ? factor : -factor, depth + 1);
  } else if (x->op == IR_NEG) {
    split_prior(s, x->args[0], -factor, depth + 1);
  } else if (x->op == IR_MUL && (ir_is_const(g, x->args[0]) || ir_is_const(g, x->args[1]))) {
    int k = ir_is_const(g, x->args[0]);
    split_prior(s, x->args[k], factor * ir_node(g, x->args[!k])->u.values[0], depth + 1);
  } else if (x->op == IR_SUM && x->attr == ir_size(g, x->args[0])) {
    split_vector(s, x->args[0], factor, depth);
  } else {
    static const int32_t zero[1] = {0};
    add_prior(s, id, zero, 1, factor);
  }
}

Reduction *reduce_prior(Arena *a, const Model *m, const char **why) {
  TempArena *task = temp_open(m->ctx);
  PriorSplit s = {.m = m,
                  .temp = &task->arena,
                  .degree = degrees(&task->arena, m->graph),
                  .out = NEW(a, Reduction)};
  s.out->graph = ir_graph_in(a);
  split_prior(&s, m->prior, 1, 0);
  split_prior(&s, m->jacobian, 1, 0);
  temp_close(task);
  if (!s.why) return s.out;
  *why = arena_format(a, "the prior: %s", s.why);
  return NULL;
}

const char *reduced_text(const Reduced *r) {
  if (!r->count) return "nothing to integrate";
  if (r->form == FORM_PLANE) return "quadrature over two affine functions of the parameters";
  if (r->form == FORM_LINE) return "quadrature over one affine function of the parameters";
  return r->count == 2 ? "analytic in the location, quadrature over the scale"
                       : "analytic in the location";
}
