/* reduce.c: cutting observations at their affine functions of theta.
 *
 * Every node of the model's graph is constant, affine in theta, or neither. The walk goes down from
 * an observation's root with a map (which element of the node belongs to which row), rebuilds what
 * is not affine, and makes a leaf of what is. Functions that differ only by sign and constant share
 * a leaf.
 */
#include "model/condition_int.h"

#include "ir/affine.h"

#include <string.h>

enum { MOST_TERMS = 2048, MOST_WIDTH = 64, MOST_DEPTH = 500 };

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

Reducible reduce_begin(Arena *temp, const Graph *g, Graph *out) {
  uint8_t *degree = NEW_ARRAY(temp, uint8_t, g->count + 1);
  for (int32_t k = 0; k < g->count; k++) degree[k] = (uint8_t)degree_of(degree, &g->nodes[k]);
  return (Reducible){temp, g, degree, out, NEW(temp, struct Conditions *)};
}

/* ---- the reducer ----------------------------------------------------------------------------- */

typedef struct {
  Node node;
  const int32_t *map;
  Node made;
} Memo;

typedef struct {
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

/* ---- affine functions of theta --------------------------------------------------------------- */

static bool all_equal(const double *x, int32_t n) {
  for (int32_t k = 1; k < n; k++)
    if (x[k] != x[0]) return false;
  return true;
}

static double value_at(const IrNode *x, int32_t at) { return x->u.values[x->n == 1 ? 0 : at]; }

/* The leaves are elements of theta, whichever input they are read from. */
static bool is_theta(const IrAffine *f, const IrSlice *s, Node *leaf, int32_t *shift) {
  const IrNode *x = ir_node(f->g, s->node);
  *leaf = NO_NODE;
  *shift = x->attr;
  return x->op == IR_INPUT;
}

static const IrAffineRules down_to_theta = {.is_leaf = is_theta,
                                            .most_terms = MOST_TERMS,
                                            .most_depth = MOST_DEPTH,
                                            .most_sources = 1,
                                            .widest_product = INT32_MAX,
                                            .widest_sum = MOST_TERMS};

static bool may_share(const AffineTerm *a, const AffineTerm *b) {
  return a->low <= b->high && b->low <= a->high;
}

/* One term as it is kept: no ones, and the range of the inputs that occur. */
static AffineTerm kept_term(const IrTerm *t, int32_t rows) {
  bool ones = all_equal(t->coef, rows) && t->coef[0] == 1;
  AffineTerm k = {t->index[0], t->same ? NULL : t->index, ones ? NULL : t->coef, t->index[0],
                  t->index[0]};
  for (int32_t i = 0; !t->same && i < rows; i++) {
    k.low = t->index[i] < k.low ? t->index[i] : k.low;
    k.high = t->index[i] > k.high ? t->index[i] : k.high;
  }
  return k;
}

/* The function as it is kept: terms that are zero in every row are left out, and one row stands for
 * all where they are alike. */
static Affine assemble(const IrAffine *c) {
  int32_t rows = c->rows;
  bool shared = all_equal(c->constant, rows);
  Affine f = {.constant = c->constant, .terms = NEW_ARRAY(c->temp, AffineTerm, c->count + 1)};
  for (int k = 0; k < c->count; k++) {
    const IrTerm *t = &c->terms[k];
    bool same_coef = all_equal(t->coef, rows);
    if (same_coef && t->coef[0] == 0) continue;
    shared = shared && t->same && same_coef;
    AffineTerm *to = &f.terms[f.nterms];
    *to = kept_term(t, rows);
    for (int j = 0; j < f.nterms; j++) f.overlapping = f.overlapping || may_share(&f.terms[j], to);
    f.nterms++;
  }
  f.rows = shared ? 1 : rows;
  return f;
}

static const double *filled(Reducer *r, double x) {
  double *v = NEW_ARRAY(r->temp, double, r->rows);
  for (int32_t k = 0; k < r->rows; k++) v[k] = x;
  return v;
}

/* Elements of a node, one a row. */
typedef struct {
  Node node; /* NO_NODE: none */
  const int32_t *map;
} Elements;

static const Elements nothing = {NO_NODE, NULL};

static Elements operand(const Reducer *r, const IrNode *x, int k, const int32_t *map) {
  return (Elements){x->args[k], arg_map(r, x, k, map)};
}

/* The given elements, minus those of another node where there is one, as one function. */
static bool affine_of(Reducer *r, Elements e, Elements minus, Affine *out) {
  IrAffine c = ir_affine(r->temp, r->g, r->rows, &down_to_theta, NULL);
  if (!r->ones) r->ones = filled(r, 1);
  bool ok = ir_affine_add(&c, &(IrSlice){e.node, e.map, r->ones});
  if (ok && minus.node != NO_NODE)
    ok = ir_affine_add(&c, &(IrSlice){minus.node, minus.map, filled(r, -1)});
  if (ok) {
    *out = assemble(&c);
  } else {
    refuse(r, c.why);
  }
  return ok;
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
  if (!affine_of(r, operand(r, x, 0, map), operand(r, x, 1, map), &f)) return true;
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
  case IR_EIGEN: return refuse(r, "eigenvalues of a matrix of parameters");
  case IR_ODE: return refuse(r, "the solution of a differential equation");
  case IR_RUN: return refuse(r, "what is evaluated draw by draw");
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
    made = affine_of(r, (Elements){id, map}, nothing, &f) ? affine_node(r, &f) : NO_NODE;
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

/* The affine function f in it: mu where y is data, y where mu is data, else y - mu, which is then
 * compared with 0. other: what f is compared with. */
static bool normal_location(Reducer *r, const NormalRoot *n, Affine *f, Elements *other) {
  const IrNode *x = n->normal;
  Degree dy = r->degree[x->args[0]], dmu = r->degree[x->args[1]];
  if (dy == IS_OTHER || dmu == IS_OTHER || (dy == IS_CONST && dmu == IS_CONST)) return false;
  Elements y = operand(r, x, 0, n->map), mu = operand(r, x, 1, n->map);
  bool both = dy == IS_AFFINE && dmu == IS_AFFINE, turned = dmu == IS_CONST;
  *other = both ? nothing : turned ? mu : y;
  return affine_of(r, turned || both ? y : mu, both ? mu : nothing, f) && f->nterms;
}

/* The scale, rebuilt with a list of functions of its own: it must not see f. The second of them is
 * the g of FORM_NORMAL. */
typedef struct {
  Reducer r;
  Node precision, log_sigma;
} Scale;

static bool normal_scale(const Reducer *r, const NormalRoot *n, const Affine *f, Scale *s) {
  const IrNode *x = n->normal;
  s->r = *r;
  forget(&s->r);
  s->r.f[0] = (Affine){.rows = 1}; /* keeps the first leaf free */
  s->r.count = 1;
  s->precision = rebuild(&s->r, x->args[2], arg_map(r, x, 2, n->map));
  if (s->precision == NO_NODE) return false;
  s->log_sigma = rebuild(&s->r, x->args[3], arg_map(r, x, 3, n->map));
  if (s->log_sigma == NO_NODE) return false;
  const Affine *g = &s->r.f[1];
  return s->r.count == 1 || !(same_terms(g, f, 1, r->rows) || same_terms(g, f, -1, r->rows));
}

/* Fills b; false when the root is not of this form. With m and v the mean and the variance of f
 * given g, the predictive density is that of normal(m, sqrt(sigma^2 + v)), and the mean log density
 * log normal(y | m, sigma) - v / (2 sigma^2). */
static bool reduce_normal(Reducer *r, Node root, const int32_t *map, Reduced *b, Node *sigma) {
  NormalRoot n;
  Affine f;
  Elements other;
  Scale s;
  if (!normal_root(r, root, map, &n) || !normal_location(r, &n, &f, &other) ||
      !normal_scale(r, &n, &f, &s))
    return false;
  r->f[0] = f;
  r->f[1] = s.r.f[1];
  r->count = s.r.count;
  b->form = FORM_NORMAL;
  b->first_rows = f.rows == 1 && (r->count == 1 || r->f[1].rows == 1) ? 1 : r->rows;
  Graph *g = r->out;
  Node m = ir_outer(g, LEAF_FIRST, b->first_rows), v = ir_outer(g, LEAF_VARIANCE, b->first_rows);
  Node y = other.node == NO_NODE ? ir_number(g, 0) : rebuild(r, other.node, other.map);
  Node own = ir_map(g, IR_INV_SQUARE, &s.precision), variance = map2(g, IR_ADD, own, v);
  *sigma = ir_map(g, IR_SQRT, &variance);
  b->density = with_constant(r, &n, ir_map(g, IR_NORMAL_WIDE, (Node[]){y, m, own, v}));
  Node mean = ir_map(g, IR_NORMAL_MEAN, (Node[]){y, m, s.precision, v});
  b->mean = with_constant(r, &n, map2(g, IR_SUB, mean, s.log_sigma));
  return true;
}

/* ---- one block ------------------------------------------------------------------------------- */

/* Heads must have a row each. */
static Node by_rows(Reducer *r, Node x) {
  if (x == NO_NODE || ir_size(r->out, x) == r->rows) return x;
  return ir_gather(r->out, x, r->zeros, r->rows);
}

static Reducer reducer(const Reducible *t, int32_t rows) {
  return (Reducer){.arena = t->out->arena,
                   .temp = t->temp,
                   .g = t->graph,
                   .degree = t->degree,
                   .out = t->out,
                   .rows = rows,
                   .zeros = NEW_ARRAY(t->temp, int32_t, rows)};
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

/* A binary outcome: itself and its logit. */
typedef struct {
  Elements y, logit;
} Binary;

static bool binary_root(Reducer *r, Node root, const int32_t *map, Binary *out) {
  const IrNode *x = ir_node(r->g, root);
  for (; x->op == IR_GATHER; x = ir_node(r->g, x->args[0])) map = through(r, x->u.index, map);
  if (x->op != IR_BERNOULLI_LOGIT || r->degree[x->args[0]] != IS_CONST) return false;
  *out = (Binary){operand(r, x, 0, map), operand(r, x, 1, map)};
  return true;
}

/* The logit on the leaves, and its slope in one of them. */
static bool logit_slope(Reducer *r, const Binary *b, int32_t leaf, Node *logit, Node *slope) {
  int count = r->count;
  *logit = rebuild(r, b->logit.node, b->logit.map);
  return *logit != NO_NODE && r->count == count && wide_slope(r->out, *logit, leaf, slope);
}

/* Of two functions the first is the one that may have a row each and, where both do, the one in
 * which a logit is a line. */
static bool is_turned(Reducer *r, Node root, const int32_t *map) {
  Binary of;
  Node logit, slope;
  if (r->f[0].rows != r->f[1].rows) return r->f[0].rows < r->f[1].rows;
  return binary_root(r, root, map, &of) && !logit_slope(r, &of, LEAF_FIRST, &logit, &slope) &&
         logit_slope(r, &of, LEAF_SECOND, &logit, &slope);
}

/* The root of a block; its form and functions. */
static bool reduce_root(Reducer *r, Node root, const int32_t *map, Reduced *b, Node *sigma) {
  *b = (Reduced){.rows = r->rows,
                 .factor = 1,
                 .density = NO_NODE,
                 .centred = NO_NODE,
                 .wide = {NO_NODE, NO_NODE, NO_NODE},
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
    if (r->count == 2 && is_turned(r, root, map)) {
      Affine second = r->f[0];
      r->f[0] = r->f[1];
      r->f[1] = second;
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

/* A binary outcome whose logit is a line in the first function, given the second. */
static void reduce_wide(Reducer *r, Node root, const int32_t *map, Reduced *b) {
  Binary of;
  Node logit, slope;
  forget(r);
  if (b->form == FORM_NORMAL || !r->count || !binary_root(r, root, map, &of) ||
      !logit_slope(r, &of, LEAF_FIRST, &logit, &slope))
    return;
  Node y = rebuild(r, of.y.node, of.y.map);
  if (y == NO_NODE) return;
  Graph *g = r->out;
  Node own = ir_outer(g, LEAF_VARIANCE, b->first_rows), lane = ir_outer(g, LEAF_LANE, 1);
  Node variance = map2(g, IR_MUL, ir_map(g, IR_SQUARE, &slope), own);
  wide_nodes(g, &(WideLogit){y, logit, map2(g, IR_ADD, variance, lane)}, b->wide);
  for (int k = 0; k < 3; k++) b->wide[k] = by_rows(r, b->wide[k]);
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

bool reduce_elements(const Reducible *t, const ReducedElements *e, Reduced *b, const char **why) {
  Reducer r = reducer(t, e->n);
  Node sigma;
  bool ok = reduce_root(&r, e->node, e->map, b, &sigma);
  const char *no_scales;
  ConditionRoot root = {.root = e->node, .select = e->map, .n = e->n, .needs_mean = true};
  if (!ok && condition_elements(t, &root, b, &no_scales)) return true;
  if (!ok) *why = r.why ? r.why : "not reducible";
  return ok;
}

/* The same, given some scales. */
static const char *condition_block(const Reducible *t, const ObsBlock *o, const int32_t *map,
                                   bool kinked, Reduced *to) {
  ConditionRoot root = {.root = o->root, .select = map, .n = to->rows, .kinked = kinked};
  const char *why;
  if (o->dist >= 0 && o->width == 1) {
    root.npar = o->npar;
    root.normal = o->dist == DIST_normal || o->dist == DIST_lognormal;
    for (int k = 0; k < o->npar; k++) root.par[k] = o->par[k];
  }
  return condition_elements(t, &root, to, &why) ? NULL : why;
}

/* Where the log density is a line on both sides of a kink, nodes see that only by chance. */
static bool reduce_kinked(const Reducible *t, const ObsBlock *o, const int32_t *map, Reduced *to) {
  Reduced before = *to;
  if (!kinks_any(t->graph, t->temp, t->degree, IS_CONST, o->root)) return false;
  if (!condition_block(t, o, map, true, to)) return true;
  *to = before;
  return false;
}

/* The rows of one block of observations; NULL, or the reason why not. */
static const char *reduce_block(const Reducible *t, const ObsBlock *o, const int32_t *map,
                                bool by_density, Reduced *to) {
  Reducer r = reducer(t, to->rows);
  Node sigma;
  if (o->root == NO_NODE) return "their density is not known";
  if (reduce_kinked(t, o, map, to))
    return by_density ? NULL : "their density has a kink in the location, which no nodes resolve";
  if (!reduce_root(&r, o->root, map, to, &sigma)) {
    const char *why = r.why ? r.why : "not reducible";
    return condition_block(t, o, map, false, to) ? why : NULL;
  }
  reduce_parameters(&r, o, map, to, sigma);
  reduce_centred(&r, o->root, map, to);
  reduce_wide(&r, o->root, map, to);
  return NULL;
}

Reduction *reduce_observations(Arena *a, const Model *m, const ModelRows *rows, bool by_density,
                               const char **why) {
  Reduction *out = NEW(a, Reduction);
  TempArena *task = temp_open(a->ctx);
  out->graph = ir_graph_in(a);
  out->blocks = NEW_ARRAY(a, Reduced, m->nblocks + 1);
  Reducible t = reduce_begin(&task->arena, m->graph, out->graph);
  const char *refused = NULL;
  for (int b = 0; b < m->nblocks && !refused; b++) {
    const ObsBlock *o = &m->blocks[b];
    Reduced *to = &out->blocks[out->nblocks++];
    *to = (Reduced){.rows = (int32_t)(rows->first[b + 1] - rows->first[b])};
    if (to->rows) refused = reduce_block(&t, o, rows->row + rows->first[b], by_density, to);
    if (refused)
      *why = arena_format(a, "the observations of line %u (%s): %s", o->loc.line, o->name, refused);
  }
  temp_close(task);
  return refused ? NULL : out;
}

const char *reduced_text(const Reduced *r) {
  if (r->mean == NO_NODE && r->given[0]->sampled)
    return "analytic in the locations of a mixture, quasi-random points of the scales; VI, and the "
           "posterior as regularizer, by draws";
  if (r->mean == NO_NODE)
    return "analytic in the locations of a mixture, quadrature over the scales; VI, and the "
           "posterior as regularizer, by draws";
  if (r->form == FORM_GIVEN)
    return r->given[0]->tails
               ? "analytic in the location, quasi-random points of the scales and tails"
           : r->given[0]->line
               ? "quadrature over one function of the parameters and over the scales"
           : r->given[0]->sampled ? "analytic in the location, quasi-random points of the scales"
                                  : "analytic in the location, quadrature over the scales";
  if (!r->count) return "nothing to integrate";
  if (r->form == FORM_PLANE) return "quadrature over two affine functions of the parameters";
  if (r->form == FORM_LINE) return "quadrature over one affine function of the parameters";
  return r->count == 2 ? "analytic in the location, quadrature over the scale"
                       : "analytic in the location";
}
