/* affine.c: finding linear predictors: beta[1] + beta[2] * x + alpha[county] and the like are one
 * instruction.
 *
 * A value of an observation is taken apart through sums, differences, products with data, matrix
 * products and gathers, down to values that observations share. Terms of one shared element are
 * added up: `dense` terms are the same element in every row, `sparse` ones are picked by an index.
 */
#include "vm/plan_int.h"

#include <string.h>

typedef struct {
  Node node;
  int32_t *index; /* rows */
  double *coef;   /* rows */
  bool same;      /* the same element in all rows */
} Term;

typedef struct {
  Planner *p;
  double *constant;
  Term *terms;
  int count, cap;
  bool moved; /* something was taken apart */
  bool dry;   /* only asking whether it can be done */
} Collector;

enum { MOST_TERMS = 256, MOST_DEPTH = 400, MOST_SOURCES = 16 };

static bool all_same(const int32_t *index, int32_t n) {
  for (int32_t r = 1; r < n; r++)
    if (index[r] != index[0]) return false;
  return true;
}

/* A further term; added to an earlier one of the same elements. */
static bool add_term(Collector *c, Node node, const int32_t *index, const double *coef) {
  int32_t rows = c->p->rows;
  if (c->dry) return true;
  for (int k = 0; k < c->count; k++) {
    Term *t = &c->terms[k];
    if (t->node != node || memcmp(t->index, index, (size_t)rows * sizeof *index) != 0) continue;
    for (int32_t r = 0; r < rows; r++) t->coef[r] += coef[r];
    return true;
  }
  if (c->count == MOST_TERMS) return false;
  Arena *a = c->p->temp;
  Term t = {node, NEW_ARRAY(a, int32_t, rows), NEW_ARRAY(a, double, rows), all_same(index, rows)};
  memcpy(t.index, index, (size_t)rows * sizeof *index);
  memcpy(t.coef, coef, (size_t)rows * sizeof *coef);
  PUSH(a, c->terms, c->count, c->cap, t);
  return true;
}

static bool collect(Collector *c, Node id, const int32_t *index, const double *coef, int depth);

static double constant_at(const IrNode *x, const int32_t *index, int32_t r) {
  return x->u.values[x->n == 1 ? 0 : index[r]];
}

/* An operand of an elementwise op: of one element, it is the same for all. */
static bool collect_arg(Collector *c, const IrNode *x, int k, const int32_t *index,
                        const double *coef, int depth) {
  const IrNode *a = ir_node(c->p->g, x->args[k]);
  if (a->n == x->n) return collect(c, x->args[k], index, coef, depth);
  return collect(c, x->args[k], NEW_ARRAY(c->p->temp, int32_t, c->p->rows), coef, depth);
}

static double *scaled(Collector *c, const double *coef, const IrNode *by, const int32_t *index,
                      bool divide) {
  double *out = NEW_ARRAY(c->p->temp, double, c->p->rows);
  for (int32_t r = 0; r < c->p->rows; r++) {
    double x = by ? constant_at(by, index, r) : -1;
    out[r] = coef[r] == 0 ? 0 : divide ? coef[r] / x : coef[r] * x;
  }
  return out;
}

static bool collect_product(Collector *c, const IrNode *x, const int32_t *index, const double *coef,
                            int depth) {
  const IrNode *a = ir_node(c->p->g, x->args[0]), *b = ir_node(c->p->g, x->args[1]);
  if (b->op == IR_CONST)
    return collect_arg(c, x, 0, index, scaled(c, coef, b, index, x->op == IR_DIV), depth);
  if (a->op == IR_CONST && x->op == IR_MUL)
    return collect_arg(c, x, 1, index, scaled(c, coef, a, index, false), depth);
  return false;
}

static bool collect_matvec(Collector *c, const IrNode *x, const int32_t *index, const double *coef,
                           int depth) {
  int32_t rows = c->p->rows, K = x->attr;
  const double *X = ir_node(c->p->g, x->args[0])->u.values;
  if (K > MOST_TERMS / 2) return false;
  for (int32_t k = 0; k < K; k++) {
    int32_t *at = NEW_ARRAY(c->p->temp, int32_t, rows);
    double *column = NEW_ARRAY(c->p->temp, double, rows);
    for (int32_t r = 0; r < rows; r++) {
      at[r] = k;
      column[r] = coef[r] * X[(size_t)index[r] * (size_t)K + (size_t)k];
    }
    if (!collect(c, x->args[1], at, column, depth)) return false;
  }
  return true;
}

/* Through gathers: the node whose elements these are. */
static Node source_of(const Graph *g, Node id) {
  while (ir_node(g, id)->op == IR_GATHER) id = ir_node(g, id)->args[0];
  return id;
}

/* y log b - b - log y! is affine in b and log b where these are shared; log b is finite where b is
 * its exponential. */
static bool collect_poisson(Collector *c, const IrNode *x, const int32_t *index, const double *coef,
                            int depth) {
  const Graph *g = c->p->g;
  const IrNode *y = ir_node(g, x->args[0]), *b = ir_node(g, source_of(g, x->args[1]));
  if (y->op != IR_CONST || b->op != IR_EXP || source_of(g, b->args[0]) != source_of(g, x->args[3]))
    return false;
  const double *minus = scaled(c, coef, NULL, index, false);
  return collect_arg(c, x, 3, index, scaled(c, coef, y, index, false), depth) &&
         collect_arg(c, x, 1, index, minus, depth) && collect_arg(c, x, 2, index, minus, depth);
}

/* Is the node a value that several of the observations share (those with a coefficient), so that it
 * is evaluated once? */
static bool is_shared(Collector *c, const IrNode *x, const int32_t *index, const double *coef) {
  if (x->n == 1 || !plan_tileable(x->op)) return true;
  size_t used = 0;
  int32_t *of_used = NEW_ARRAY(c->p->temp, int32_t, c->p->rows);
  for (int32_t r = 0; r < c->p->rows; r++)
    if (coef[r] != 0) of_used[used++] = index[r];
  return !plan_distinct(c->p, of_used, used, x->n);
}

/* Elements of several nodes, as branches on data leave them: a sum over the nodes, each with its
 * rows' coefficients. */
static bool collect_sources(Collector *c, const IrNode *x, const int32_t *index, const double *coef,
                            int depth) {
  int32_t rows = c->p->rows;
  Arena *a = c->p->temp;
  Node sources[MOST_SOURCES];
  int count = 0;
  for (int32_t r = 0; r < rows; r++) {
    Node node = x->u.picks[index[r]].node;
    int k = 0;
    while (k < count && sources[k] != node) k++;
    if (k == MOST_SOURCES) return false;
    sources[k] = node;
    count += k == count;
  }
  for (int k = 0; k < count; k++) {
    int32_t *elem = NEW_ARRAY(a, int32_t, rows);
    double *part = NEW_ARRAY(a, double, rows);
    for (int32_t r = 0; r < rows; r++) {
      Pick pick = x->u.picks[index[r]];
      part[r] = pick.node == sources[k] ? coef[r] : 0;
      elem[r] = pick.node == sources[k] ? pick.elem : 0;
    }
    if (!collect(c, sources[k], elem, part, depth)) return false;
  }
  return true;
}

/* Taken apart where all of it can be, else a shared value. */
static bool collect_pack(Collector *c, Node id, const int32_t *index, const double *coef,
                         int depth) {
  const IrNode *x = ir_node(c->p->g, id);
  bool outer = c->dry;
  c->dry = true;
  bool can = collect_sources(c, x, index, coef, depth);
  c->dry = outer;
  if (!can) return add_term(c, id, index, coef);
  c->moved = true;
  return outer || collect_sources(c, x, index, coef, depth);
}

/* coef times the given elements of node id, added to what is collected. */
static bool collect(Collector *c, Node id, const int32_t *index, const double *coef, int depth) {
  const IrNode *x = ir_node(c->p->g, id);
  int32_t rows = c->p->rows;
  if (depth > MOST_DEPTH) return false;
  if (x->op == IR_CONST) {
    for (int32_t r = 0; !c->dry && r < rows; r++)
      if (coef[r] != 0)
        c->constant[r] +=
            coef[r] *
            constant_at(x, index, r); /* rows that do not have the term: it may be infinite */
    return true;
  }
  if (x->op == IR_GATHER) {
    int32_t *through = NEW_ARRAY(c->p->temp, int32_t, rows);
    for (int32_t r = 0; r < rows; r++) through[r] = x->u.index[x->n == 1 ? 0 : index[r]];
    return collect(c, x->args[0], through, coef, depth + 1);
  }
  if (x->op == IR_PACK && x->n > 1) return collect_pack(c, id, index, coef, depth + 1);
  if (is_shared(c, x, index, coef)) return add_term(c, id, index, coef);
  c->moved = true;
  switch (x->op) {
  case IR_ADD:
    return collect_arg(c, x, 0, index, coef, depth + 1) &&
           collect_arg(c, x, 1, index, coef, depth + 1);
  case IR_SUB:
    return collect_arg(c, x, 0, index, coef, depth + 1) &&
           collect_arg(c, x, 1, index, scaled(c, coef, NULL, index, false), depth + 1);
  case IR_NEG: return collect_arg(c, x, 0, index, scaled(c, coef, NULL, index, false), depth + 1);
  case IR_MUL:
  case IR_DIV: return collect_product(c, x, index, coef, depth + 1);
  case IR_MATVEC: return collect_matvec(c, x, index, coef, depth + 1);
  case IR_POISSON: return collect_poisson(c, x, index, coef, depth + 1);
  default: return false;
  }
}

static bool all_are(const double *v, int32_t n, double x) {
  for (int32_t r = 0; r < n; r++)
    if (v[r] != x) return false;
  return true;
}

static double *kept_numbers(Arena *a, const double *x, int32_t n) {
  return memcpy(NEW_ARRAY(a, double, n), x, (size_t)n * sizeof *x);
}

static const TapeAffine *assemble(Collector *c) {
  Planner *p = c->p;
  Arena *a = p->arena;
  int32_t rows = p->rows;
  TapeAffine *t = NEW(a, TapeAffine);
  for (int k = 0; k < c->count; k++) *(c->terms[k].same ? &t->ndense : &t->nsparse) += 1;
  double *A = NEW_ARRAY(a, double, (size_t)rows * t->ndense);
  t->A = A;
  t->constant = all_are(c->constant, rows, 0) ? NULL : kept_numbers(a, c->constant, rows);
  t->dense = NEW_ARRAY(a, size_t, t->ndense + 1);
  t->dense_adj = NEW_ARRAY(a, size_t, t->ndense + 1);
  t->base = NEW_ARRAY(a, size_t, t->nsparse + 1);
  t->base_adj = NEW_ARRAY(a, size_t, t->nsparse + 1);
  t->coef = NEW_ARRAY(a, const double *, t->nsparse + 1);
  t->index = NEW_ARRAY(a, const int32_t *, t->nsparse + 1);
  size_t d = 0, s = 0;
  for (int k = 0; k < c->count; k++) {
    const Term *m = &c->terms[k];
    size_t at = plan_global(p, m->node), adj = plan_boundary(p, m->node);
    if (m->same) {
      t->dense[d] = at + (size_t)m->index[0];
      t->dense_adj[d] = adj + (size_t)m->index[0];
      for (int32_t r = 0; r < rows; r++) A[(size_t)r * t->ndense + d] = m->coef[r];
      d++;
    } else {
      t->base[s] = at;
      t->base_adj[s] = adj;
      t->coef[s] = all_are(m->coef, rows, 1) ? NULL : kept_numbers(a, m->coef, rows);
      t->index[s++] =
          memcpy(NEW_ARRAY(a, int32_t, rows), m->index, (size_t)rows * sizeof *m->index);
    }
  }
  size_t width = t->ndense + t->nsparse;
  if (width > p->tape->max_width) p->tape->max_width = width;
  return t;
}

const TapeAffine *plan_affine(Planner *p, Node id, const int32_t *index) {
  static const bool may[IR_OP_COUNT] = {
      [IR_ADD] = true, [IR_SUB] = true,    [IR_NEG] = true,    [IR_MUL] = true,
      [IR_DIV] = true, [IR_MATVEC] = true, [IR_POISSON] = true};
  if (!may[ir_node(p->g, id)->op]) return NULL;
  ArenaMark mark = arena_mark(p->temp);
  double *ones = NEW_ARRAY(p->temp, double, p->rows);
  for (int32_t r = 0; r < p->rows; r++) ones[r] = 1;
  Collector c = {.p = p, .constant = NEW_ARRAY(p->temp, double, p->rows)};
  const TapeAffine *t = collect(&c, id, index, ones, 0) && c.moved && c.count ? assemble(&c) : NULL;
  arena_reset(p->temp, mark);
  return t;
}
