/* dists_category.c: distributions of one of K categories, numbered from 1; dist.h tells how to read
 * them. An outcome picks a place, so it must be data. */
#include "model/dist.h"

#include <math.h>

/* ---- probabilities --------------------------------------------------------------------------- */

/* Was every element put together from values of different kinds? */
static bool is_packed(const Graph *g, Node id) {
  const IrNode *x = ir_node(g, id);
  if (x->op == IR_GATHER) x = ir_node(g, x->args[0]);
  bool packed = x->op == IR_PACK;
  for (int k = 0; ir_is_map(x->op) && k < x->nargs; k++)
    packed |= ir_node(g, x->args[k])->op == IR_PACK && ir_size(g, x->args[k]) == x->n;
  return packed;
}

/* Is v what it returns less a number that all elements of a row have in common, *common? NULL: it
 * is not. A logarithm of softmax is. */
static Value *without_common(Eval *E, Value *v, Value **common) {
  const Graph *g = E->graph;
  Node id = value_node(E, v);
  const IrNode *x = ir_node(g, id), *m = x->op == IR_SUB ? ir_node(g, x->args[1]) : NULL;
  if (!m || m->op != IR_GATHER || m->n != x->n || ir_size(g, x->args[0]) != x->n) return NULL;
  int32_t rows = x->n / v->n, *first = NEW_ARRAY(E->arena, int32_t, rows);
  for (int32_t e = 0; e < x->n; e++)
    if (m->u.index[e] != m->u.index[e / v->n * v->n]) return NULL;
  for (int32_t r = 0; r < rows; r++) first[r] = m->u.index[r * v->n];
  Node most = x->args[0], own = ir_gather(E->graph, m->args[0], first, rows);
  *common = value_of_node(E, value_shape(E, TY_REAL, 0, 0, NULL), v->axis, own);
  return value_of_node(E, v, v->axis, most);
}

/* Element y of a short vector of which every row of a loop has its own: chosen row by row. */
static Value *choose_category(Eval *E, Value *v, const Value *y) {
  Value *common, *rest = without_common(E, v, &common);
  if (rest) return SUB(choose_category(E, rest, y), common);
  Value *chosen = value_element(E, v, 0);
  for (int32_t k = 1; k < v->n; k++) {
    Value *here = value_known(E, y, y->axis);
    for (int32_t i = 0; i < value_total(y); i++) here->v[i] = y->v[i] == k + 1;
    chosen = map3(E, IR_SELECT, here, value_element(E, v, k), chosen);
  }
  return chosen;
}

/* Element y of the vector v, for every y: of one y per row in a lifted loop. */
static Value *pick_category(Eval *E, Value *v, Value *y) {
  if (!y->known)
    ctx_fail(E->ctx, PVI_PROGRAM, E->density,
             "the outcome of a categorical distribution must be data");
  y = value_on_axis(E, y, E->axis);
  int32_t *index = NEW_ARRAY(E->arena, int32_t, value_total(y));
  for (int32_t k = 0; k < value_total(y); k++) {
    double at = y->v[k] - 1;
    if (!(at >= 0 && at < v->n))
      ctx_fail(E->ctx, PVI_DATA, E->density, "category %g is out of range", y->v[k]);
    index[k] = (int32_t)at;
  }
  enum { SHORT = 12 };
  Value shape = *y;
  shape.kind = TY_REAL;
  v = value_on_axis(E, v, E->axis);
  Value *taken = value_take(E, v, &shape, y->axis, index);
  bool each = v->axis && v->axis == y->axis && y->n == 1 && v->n <= SHORT && !taken->known;
  return each && is_packed(E->graph, value_node(E, taken)) ? choose_category(E, v, y) : taken;
}

LPDF(categorical) { return pick_category(E, M(LOG, a[1]), a[0]); }
RNG_JOINT(categorical) {
  return value_int(E, (long)rngs_categorical(E->rng, a[0]->v, (size_t)a[0]->n) + 1);
}
OUTCOME(categorical) { return outcome_of_categories(AS(categorical, a[1])); }

LPDF(categorical_logit) { return SUB(pick_category(E, a[1], a[0]), value_reduce(E, IR_LSE, a[1])); }
RNG_JOINT(categorical_logit) {
  return value_int(E, (long)rngs_categorical_logit(E->rng, a[0]->v, (size_t)a[0]->n) + 1);
}
OUTCOME(categorical_logit) {
  Value *log_p = SUB(a[1], value_reduce(E, IR_LSE, a[1]));
  return outcome_of_categories(AS(categorical, M(EXP, log_p)));
}

/* ---- ordered categories ---------------------------------------------------------------------- */

/* Cutpoint y + shift of every outcome y; an array has them for each outcome. The one before the
 * first and the one behind the last are so far away that nothing is beyond them, yet finite: affine
 * functions multiply constants by zeros. */
static Value *cutpoint(Eval *E, Value *c, Value *y, int shift) {
  int32_t K = c->dims[c->ndims - 1], last = c->n + 1, all = c->n + 2;
  Value *padded = value_join(E, (Value *[]){NUM(-1e100), c, NUM(1e100)}, 3,
                             value_shape(E, TY_VECTOR, 0, 1, &all));
  if (!y->known)
    ctx_fail(E->ctx, PVI_PROGRAM, E->density,
             "the outcome of an ordered distribution must be data");
  y = value_on_axis(E, y, E->axis);
  int32_t *index = NEW_ARRAY(E->arena, int32_t, value_total(y));
  for (int32_t k = 0; k < value_total(y); k++) {
    double at = y->v[k] + shift;
    if (!(at >= 0 && at <= K + 1))
      ctx_fail(E->ctx, PVI_DATA, E->density, "category %g is out of range", y->v[k]);
    int32_t first = c->array_dims ? k % y->n * K : 0;
    index[k] = at == 0 ? 0 : at == K + 1 ? last : first + (int32_t)at;
  }
  Value shape = *y;
  shape.kind = TY_REAL;
  return value_take(E, value_on_axis(E, padded, E->axis), &shape, y->axis, index);
}

/* log(F(eta - c[y-1]) - F(eta - c[y])) */
static Value *ordered(Eval *E, Value **a, unsigned log_cdf) {
  Value *above = map1(E, log_cdf, SUB(a[1], cutpoint(E, a[2], a[0], -1)));
  Value *below = map1(E, log_cdf, SUB(a[1], cutpoint(E, a[2], a[0], 0)));
  return map2(E, IR_LOG_DIFF_EXP, above, below);
}
/* The category of eta plus noise among ordered cutpoints. */
static Value *place_among(Eval *E, const Value *eta, const Value *c, double noise) {
  long k = 1;
  while (k <= c->n && eta->v[0] + noise > c->v[k - 1]) k++;
  return value_int(E, k);
}

LPDF(ordered_logistic) { return ordered(E, a, IR_LOG_INV_LOGIT); }
RNG_JOINT(ordered_logistic) { return place_among(E, a[0], a[1], rngs_logistic(E->rng)); }
/* P(y = k) = F(c[k] - eta) - F(c[k-1] - eta); only one observation at a time */
OUTCOME(ordered_logistic) {
  if (a[1]->ndims || a[0]->ndims) return (Outcome){.known = false};
  int32_t K = a[2]->n + 1;
  Value *upper = M(INV_LOGIT, SUB(a[2], a[1]));
  Value *low[2] = {NUM(0), upper}, *high[2] = {upper, NUM(1)};
  const Value *shape = value_shape(E, TY_VECTOR, 0, 1, &K);
  Value *p = SUB(value_join(E, high, 2, shape), value_join(E, low, 2, shape));
  return outcome_of_categories(AS(categorical, p));
}

LPDF(ordered_probit) { return ordered(E, a, IR_LOG_PHI); }
RNG_JOINT(ordered_probit) { return place_among(E, a[0], a[1], rngs_normal(E->rng)); }
