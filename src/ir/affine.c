/* affine.c: the walk that takes an affine function apart (affine.h). Every step turns a slice of a
 * node into slices of its operands; `collect` is the switch between the steps. */
#include "ir/affine.h"

#include <string.h>

enum { MOST_SOURCES = 16 }; /* of any caller */

IrAffine ir_affine(Arena *temp, const Graph *g, int32_t rows, const IrAffineRules *rules,
                   void *self) {
  return (IrAffine){.rules = rules,
                    .self = self,
                    .temp = temp,
                    .g = g,
                    .rows = rows,
                    .constant = NEW_ARRAY(temp, double, rows),
                    .zeros = NEW_ARRAY(temp, int32_t, rows)};
}

static bool refuse(IrAffine *f, const char *why) {
  if (!f->why) f->why = why;
  return false;
}

/* ---- terms ----------------------------------------------------------------------------------- */

static bool all_same(const int32_t *index, int32_t n) {
  for (int32_t r = 1; r < n; r++)
    if (index[r] != index[0]) return false;
  return true;
}

static bool same_elements(const IrTerm *a, const IrTerm *b, int32_t rows) {
  if (a->leaf != b->leaf || a->same != b->same) return false;
  size_t n = a->same ? 1 : (size_t)rows;
  return memcmp(a->index, b->index, n * sizeof *a->index) == 0;
}

/* The array of coefficients may be other terms' as well: it is copied before it is added to. */
static void add_to_term(IrAffine *f, IrTerm *t, const double *coef) {
  if (!t->own)
    t->coef = t->own =
        memcpy(NEW_ARRAY(f->temp, double, f->rows), t->coef, (size_t)f->rows * sizeof *coef);
  for (int32_t r = 0; r < f->rows; r++) t->own[r] += coef[r];
}

/* A further term; added to an earlier one of the same elements. */
static bool add_term(IrAffine *f, const IrSlice *s, Node leaf, int32_t shift) {
  if (f->dry) return true;
  IrTerm t = {.leaf = leaf, .same = all_same(s->index, f->rows), .coef = s->coef};
  int32_t n = t.same ? 1 : f->rows, *index = NEW_ARRAY(f->temp, int32_t, n);
  for (int32_t r = 0; r < n; r++) index[r] = s->index[r] + shift;
  t.index = index;
  for (int k = 0; k < f->count; k++)
    if (same_elements(&f->terms[k], &t, f->rows)) {
      add_to_term(f, &f->terms[k], s->coef);
      return true;
    }
  if (f->count == f->rules->most_terms) return refuse(f, "a linear predictor has too many terms");
  PUSH(f->temp, f->terms, f->count, f->cap, t);
  return true;
}

/* ---- steps down ------------------------------------------------------------------------------ */

static bool collect(IrAffine *f, const IrSlice *s);

static double constant_at(const IrNode *x, const int32_t *index, int32_t r) {
  return x->u.values[x->n == 1 ? 0 : index[r]];
}

/* Rows without the constant (coefficient 0) do not read it: it may be infinite there. */
static bool add_constant(IrAffine *f, const IrNode *x, const IrSlice *s) {
  for (int32_t r = 0; !f->dry && r < f->rows; r++)
    if (s->coef[r] != 0) f->constant[r] += s->coef[r] * constant_at(x, s->index, r);
  return true;
}

/* Operand k of an elementwise op; an operand of one element is the same for all. */
static bool collect_operand(IrAffine *f, const IrNode *x, int k, const int32_t *index,
                            const double *coef) {
  bool whole = ir_size(f->g, x->args[k]) == x->n;
  return collect(f, &(IrSlice){x->args[k], whole ? index : f->zeros, coef});
}

typedef enum { TIMES, OVER } Scaling;

/* The coefficients times, or over, those elements of a constant. */
static double *scaled(IrAffine *f, const IrSlice *s, const IrNode *by, Scaling how) {
  double *out = NEW_ARRAY(f->temp, double, f->rows);
  for (int32_t r = 0; r < f->rows; r++) {
    double x = constant_at(by, s->index, r);
    out[r] = s->coef[r] == 0 ? 0 : how == OVER ? s->coef[r] / x : s->coef[r] * x;
  }
  return out;
}

static double *negated(IrAffine *f, const IrSlice *s) {
  static const double minus_one[1] = {-1};
  static const IrNode number = {.op = IR_CONST, .n = 1, .u.values = minus_one};
  return scaled(f, s, &number, TIMES);
}

static bool collect_product(IrAffine *f, const IrNode *x, const IrSlice *s) {
  const IrNode *a = ir_node(f->g, x->args[0]), *b = ir_node(f->g, x->args[1]);
  if (b->op == IR_CONST)
    return collect_operand(f, x, 0, s->index, scaled(f, s, b, x->op == IR_DIV ? OVER : TIMES));
  if (x->op == IR_DIV) return refuse(f, "a quotient is not a parameter over a number");
  if (a->op != IR_CONST) return refuse(f, "a product is not a number times a parameter");
  return collect_operand(f, x, 1, s->index, scaled(f, s, a, TIMES));
}

/* Row r of the product: sum_k X[index[r], k] b[k]. */
static bool collect_matvec(IrAffine *f, const IrNode *x, const IrSlice *s) {
  int32_t K = x->attr, *at = NEW_ARRAY(f->temp, int32_t, f->rows);
  const double *X = ir_node(f->g, x->args[0])->u.values;
  if (K > f->rules->widest_product) return refuse(f, "a matrix has too many columns");
  for (int32_t k = 0; k < K; k++) {
    double *column = NEW_ARRAY(f->temp, double, f->rows);
    for (int32_t r = 0; r < f->rows; r++) {
      at[r] = k;
      column[r] = s->coef[r] * X[(size_t)s->index[r] * (size_t)K + (size_t)k];
    }
    if (!collect(f, &(IrSlice){x->args[1], at, column})) return false;
  }
  return true;
}

static bool collect_sum(IrAffine *f, const IrNode *x, const IrSlice *s) {
  if (!f->rules->widest_sum) return refuse(f, "a sum");
  if (x->attr > f->rules->widest_sum) return refuse(f, "a linear predictor has too many terms");
  int32_t *at = NEW_ARRAY(f->temp, int32_t, f->rows);
  for (int32_t w = 0; w < x->attr; w++) {
    for (int32_t r = 0; r < f->rows; r++) at[r] = s->index[r] * x->attr + w;
    if (!collect(f, &(IrSlice){x->args[0], at, s->coef})) return false;
  }
  return true;
}

static bool collect_gather(IrAffine *f, const IrNode *x, const IrSlice *s) {
  int32_t *through = NEW_ARRAY(f->temp, int32_t, f->rows);
  for (int32_t r = 0; r < f->rows; r++) through[r] = x->u.index[x->n == 1 ? 0 : s->index[r]];
  return collect(f, &(IrSlice){x->args[0], through, s->coef});
}

/* Through gathers: the node whose elements these are. */
static Node source_of(const Graph *g, Node id) {
  while (ir_node(g, id)->op == IR_GATHER) id = ir_node(g, id)->args[0];
  return id;
}

/* y log b - b - log y! is affine in b and log b where these are leaves; log b is finite where b is
 * its exponential. */
static bool collect_poisson(IrAffine *f, const IrNode *x, const IrSlice *s) {
  const Graph *g = f->g;
  const IrNode *y = ir_node(g, x->args[0]), *b = ir_node(g, source_of(g, x->args[1]));
  if (y->op != IR_CONST || b->op != IR_EXP || source_of(g, b->args[0]) != source_of(g, x->args[3]))
    return refuse(f, "the rate of a Poisson density is not an exponential");
  const double *minus = negated(f, s);
  return collect_operand(f, x, 3, s->index, scaled(f, s, y, TIMES)) &&
         collect_operand(f, x, 1, s->index, minus) && collect_operand(f, x, 2, s->index, minus);
}

/* ---- packs ----------------------------------------------------------------------------------- */

/* The rows whose element is taken from one of a pack's nodes; the others get coefficient 0. */
static IrSlice rows_from(IrAffine *f, const IrNode *x, const IrSlice *s, Node source) {
  int32_t *elem = NEW_ARRAY(f->temp, int32_t, f->rows);
  double *part = NEW_ARRAY(f->temp, double, f->rows);
  for (int32_t r = 0; r < f->rows; r++) {
    Pick pick = x->u.picks[s->index[r]];
    if (pick.node != source) continue;
    part[r] = s->coef[r];
    elem[r] = pick.elem;
  }
  return (IrSlice){source, elem, part};
}

/* Elements of several nodes, as branches on data leave them: a sum over the nodes, each with its
 * rows' coefficients. */
static bool collect_sources(IrAffine *f, const IrNode *x, const IrSlice *s) {
  Node sources[MOST_SOURCES];
  int count = 0;
  for (int32_t r = 0; r < f->rows; r++) {
    Node node = x->u.picks[s->index[r]].node;
    int k = 0;
    while (k < count && sources[k] != node) k++;
    if (k == f->rules->most_sources)
      return refuse(f, "observations take a predictor from different places");
    sources[k] = node;
    count += k == count;
  }
  for (int k = 0; k < count; k++) {
    IrSlice from = rows_from(f, x, s, sources[k]);
    if (!collect(f, &from)) return false;
  }
  return true;
}

/* Taken apart where all of it can be, which a dry run tells, else a leaf if the rules say so. */
static bool collect_pack(IrAffine *f, const IrNode *x, const IrSlice *s) {
  if (f->rules->keeps_packs) {
    bool outer = f->dry;
    f->dry = true;
    bool can = collect_sources(f, x, s);
    f->dry = outer;
    if (!can) return add_term(f, s, s->node, 0);
    if (outer) return f->taken_apart = true;
  }
  f->taken_apart = true;
  return collect_sources(f, x, s);
}

/* ---- the walk -------------------------------------------------------------------------------- */

static bool collect_op(IrAffine *f, const IrNode *x, const IrSlice *s) {
  switch (x->op) {
  case IR_ADD:
    return collect_operand(f, x, 0, s->index, s->coef) &&
           collect_operand(f, x, 1, s->index, s->coef);
  case IR_SUB:
    return collect_operand(f, x, 0, s->index, s->coef) &&
           collect_operand(f, x, 1, s->index, negated(f, s));
  case IR_NEG: return collect_operand(f, x, 0, s->index, negated(f, s));
  case IR_MUL:
  case IR_DIV: return collect_product(f, x, s);
  case IR_MATVEC: return collect_matvec(f, x, s);
  case IR_SUM: return collect_sum(f, x, s);
  case IR_POISSON: return collect_poisson(f, x, s);
  default: return refuse(f, "an expression of a kind that is not known to be affine");
  }
}

/* The slice is added to what is collected. */
static bool take_apart(IrAffine *f, const IrSlice *s) {
  const IrNode *x = ir_node(f->g, s->node);
  Node leaf;
  int32_t shift;
  if (x->op == IR_CONST) return add_constant(f, x, s);
  if (x->op == IR_GATHER) return collect_gather(f, x, s);
  if (f->rules->is_leaf(f, s, &leaf, &shift)) return add_term(f, s, leaf, shift);
  if (x->op == IR_PACK) return collect_pack(f, x, s);
  f->taken_apart = true;
  return collect_op(f, x, s);
}

static bool collect(IrAffine *f, const IrSlice *s) {
  if (f->depth > f->rules->most_depth) return refuse(f, "an expression is too deep");
  f->depth++;
  bool ok = take_apart(f, s);
  f->depth--;
  return ok;
}

bool ir_affine_add(IrAffine *f, const IrSlice *s) { return collect(f, s); }
