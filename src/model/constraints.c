/* constraints.c: parameters from the unconstrained vector, with the log Jacobian of each transform,
 * as Stan 2.33 has them; and the way back.
 *
 * What stands in brackets (bounds, offset and multiplier) works on all elements together, for it
 * may be given per element, and is here; type words (simplex, cov_matrix, ...) work item by item of
 * an array and are in constraint_vectors.c and constraint_matrices.c, by the rows of
 * stan/constraints.def.
 */
#include "model/complex.h"
#include "model/constraint.h"
#include "model/model_int.h"

#include <math.h>
#include <string.h>

/* ---- the table of type words ----------------------------------------------------------------- */

/* Unconstrained numbers of an item of m rows and n columns; negative: there is no such item. */
#define TYPE_WORD(id, type, least, most, numbers)                                                  \
  static int32_t numbers_##id(MAYBE int32_t m, MAYBE int32_t n) { return numbers; }
#include "stan/constraints.def"

static const struct {
  int32_t (*numbers)(int32_t m, int32_t n);
  Transform *transform;
  Inverse *inverse;
} codes[CON_COUNT] = {
#define TYPE_WORD(id, type, least, most, numbers)                                                  \
  [CON_##id] = {numbers_##id, constrain_##id, unconstrain_##id},
#include "stan/constraints.def"
};

static bool is_type_word(ConstraintKind k) { return codes[k].numbers != NULL; }

/* ---- shapes ---------------------------------------------------------------------------------- */

ItemShape constrain_items(Eval *E, ConstraintKind kind, const Value *v) {
  const int32_t *dims = v->dims + v->array_dims;
  int all = v->ndims - v->array_dims, inner = all - complex_kind(v->kind);
  ItemShape i = {.count = 1,
                 .m = inner == 2 ? dims[0] : 1,
                 .n = inner ? dims[inner - 1] : 1,
                 .parts = complex_kind(v->kind) ? 2 : 1,
                 .shape = value_shape(E, v->kind, 0, all, dims)};
  for (int k = 0; k < v->array_dims; k++) i.count *= v->dims[k];
  i.numbers = is_type_word(kind) ? codes[kind].numbers(i.m, i.n) : i.m * i.n * i.parts;
  return i;
}

static ItemShape items_of(Eval *E, const Decl *d, const Value *v) {
  ItemShape i = constrain_items(E, d->con.kind, v);
  if (i.numbers < 0)
    ctx_fail(E->ctx, PVI_DATA, d->loc, "%s: there is no %s of size %s", d->name,
             stan_constraint_name(d->con.kind),
             v->kind == TY_MATRIX ? arena_format(E->arena, "%d x %d", i.m, i.n)
                                  : arena_format(E->arena, "%d", i.n));
  return i;
}

static bool is_matrix(const Value *v) {
  return v->kind == TY_MATRIX || v->kind == TY_COMPLEX_MATRIX;
}

/* Where element k (row-major) of an array of matrices is in Stan's order, which has matrices column
 * by column. */
static int32_t stan_place(const ItemShape *i, int32_t k) {
  int32_t part = k % i->parts, size = i->m * i->n, e = k / i->parts, at = e % size;
  return (e - at + at % i->n * i->m + at / i->n) * i->parts + part;
}

/* ---- brackets -------------------------------------------------------------------------------- */

/* An argument in brackets: one number for all elements of v, or one for each. It may be given for
 * the items of an array, all alike. */
static Value *argument(Eval *E, const Expr *e, const Value *v) {
  if (!e) return NULL;
  Value *x = eval_expr(E, e);
  if (x->n == 1 || x->n == v->n || !v->n) return x;
  if (!x->n || v->n % x->n || x->array_dims)
    ctx_fail(E->ctx, PVI_PROGRAM, e->loc, "%d bounds for %d elements", x->n, v->n);
  int32_t *index = NEW_ARRAY(E->arena, int32_t, v->n);
  for (int32_t k = 0; k < v->n; k++) index[k] = k % x->n;
  return value_take(E, x, v, NULL, index);
}

void constrain_jacobian(Eval *E, Value *v) {
  if (v->n == 0) return;
  Value *s = value_sum(E, v);
  PUSH(E->arena, E->jacobian, E->njacobian, E->cap_jacobian, s);
}

/* exp(u) + lower, Jacobian u */
static Value *lower_bound(Eval *E, Value *u, Value *lower) {
  constrain_jacobian(E, u);
  return ADD(M(EXP, u), lower);
}

/* upper - exp(u), Jacobian u */
static Value *upper_bound(Eval *E, Value *u, Value *upper) {
  constrain_jacobian(E, u);
  return SUB(upper, M(EXP, u));
}

/* lower + (upper - lower) inv_logit(u),
 * Jacobian log(upper - lower) + log inv_logit(u) + log inv_logit(-u) */
static Value *both_bounds(Eval *E, Value *u, Value *lower, Value *upper) {
  Value *width = SUB(upper, lower);
  Value *j = ADD(M(LOG_INV_LOGIT, u), M(LOG_INV_LOGIT, M(NEG, u)));
  constrain_jacobian(E, ADD(M(LOG, width), j));
  return ADD(lower, MUL(width, M(INV_LOGIT, u)));
}

static bool all_equal_to(const Value *v, double x) {
  for (int32_t k = 0; v && v->known && k < v->n; k++)
    if (v->v[k] != x) return false;
  return !v || v->known;
}

static bool any_infinite(const Value *v) {
  for (int32_t k = 0; v && v->known && k < v->n; k++)
    if (isinf(v->v[k])) return true;
  return false;
}

/* ... between -infinity and infinity */
static Value *inside(Eval *E, Value *u, Value *lower, Value *upper) {
  if (lower && upper) return both_bounds(E, u, lower, upper);
  if (lower) return lower_bound(E, u, lower);
  return upper ? upper_bound(E, u, upper) : u;
}

/* log((x - lower) / (upper - x)) is the logit of (x - lower) / (upper - lower) with all its digits.
 */
static Value *outside(Eval *E, Value *x, Value *lower, Value *upper) {
  if (lower && upper) return M(LOG, DIV(SUB(x, lower), SUB(upper, x)));
  if (lower) return M(LOG, SUB(x, lower));
  return upper ? M(LOG, SUB(upper, x)) : x;
}

typedef Value *Bounding(Eval *E, Value *x, Value *lower, Value *upper);

static Value *element_or_null(Eval *E, Value *v, int32_t k) {
  return v ? value_element(E, v, v->n == 1 ? 0 : k) : NULL;
}

/* Where some elements have a bound and some none, they are taken one by one. */
static Value *within(Eval *E, Bounding *f, Value *x, Value *lower, Value *upper) {
  if (all_equal_to(lower, -INFINITY)) lower = NULL;
  if (all_equal_to(upper, INFINITY)) upper = NULL;
  if (x->n == 1 || (!any_infinite(lower) && !any_infinite(upper))) return f(E, x, lower, upper);
  Value **parts = NEW_ARRAY(E->arena, Value *, x->n + 1);
  for (int32_t k = 0; k < x->n; k++)
    parts[k] = within(E, f, value_element(E, x, k), element_or_null(E, lower, k),
                      element_or_null(E, upper, k));
  return value_join(E, parts, x->n, x);
}

Value *constrain_bounds(Eval *E, Value *u, Value *lower, Value *upper) {
  return within(E, inside, u, lower, upper);
}

Value *unconstrain_bounds(Eval *E, Value *x, Value *lower, Value *upper) {
  return within(E, outside, x, lower, upper);
}

/* offset + multiplier u, Jacobian log multiplier per element */
Value *constrain_affine(Eval *E, Value *u, Value *offset, Value *multiplier) {
  if (multiplier) {
    Value *j = M(LOG, multiplier);
    constrain_jacobian(E, j->n == u->n ? j : MUL(j, NUM(u->n)));
    u = MUL(multiplier, u);
  }
  return offset ? ADD(offset, u) : u;
}

Value *unconstrain_affine(Eval *E, Value *x, Value *offset, Value *multiplier) {
  if (offset) x = SUB(x, offset);
  return multiplier ? DIV(x, multiplier) : x;
}

/* ---- from unconstrained numbers -------------------------------------------------------------- */

/* The unconstrained numbers of a scalar, vector or matrix, row-major. */
static Value *raw(Eval *E, const Value *shape, const ItemShape *items, int32_t offset) {
  if (!shape->n) return value_known(E, shape, NULL);
  Node u = ir_input(E->graph, offset, shape->n);
  if (is_matrix(shape)) {
    int32_t *index = NEW_ARRAY(E->arena, int32_t, shape->n);
    for (int32_t k = 0; k < shape->n; k++) index[k] = stan_place(items, k);
    u = ir_gather(E->graph, u, index, shape->n);
  }
  return value_of_node(E, shape, NULL, u);
}

Value *constrain_by_items(Eval *E, ConstraintKind kind, Value *u, const Value *shape) {
  ItemShape items = constrain_items(E, kind, shape);
  Value **parts = NEW_ARRAY(E->arena, Value *, items.count + 1);
  for (int32_t k = 0; k < items.count; k++)
    parts[k] =
        codes[kind].transform(E, value_slice(E, u, k * items.numbers, items.numbers), items.shape);
  return value_join(E, parts, items.count, shape);
}

Value *unconstrain_by_items(Eval *E, ConstraintKind kind, Value *x) {
  ItemShape items = constrain_items(E, kind, x);
  const Value *free = value_shape(E, TY_VECTOR, 0, 1, &items.numbers);
  int32_t size = items.m * items.n, all = items.count * items.numbers;
  Value **parts = NEW_ARRAY(E->arena, Value *, items.count + 1);
  for (int32_t k = 0; k < items.count; k++) {
    Value *item = value_slice(E, x, k * size, size);
    item = value_reshape(E, item, x->kind, 0, items.shape->ndims, items.shape->dims);
    parts[k] = codes[kind].inverse(E, item, free);
  }
  return value_join(E, parts, items.count, value_shape(E, TY_VECTOR, 0, 1, &all));
}

Value *constrain(Eval *E, const Decl *d, int32_t *offset) {
  Value shape;
  eval_dims(E, d, &shape);
  int32_t at = *offset;
  ItemShape items = items_of(E, d, &shape);
  *offset += items.count * items.numbers;
  if (is_type_word(d->con.kind)) {
    int32_t all = items.count * items.numbers;
    Value *u = value_shape(E, TY_VECTOR, 0, 1, &all);
    u = all ? value_of_node(E, u, NULL, ir_input(E->graph, at, all)) : value_known(E, u, NULL);
    return constrain_by_items(E, d->con.kind, u, &shape);
  }
  Value *u = raw(E, &shape, &items, at);
  if (d->con.kind == CON_NONE || !shape.n) return u;
  Value *first = argument(E, d->con.args[0], &shape), *second = argument(E, d->con.args[1], &shape);
  return d->con.kind == CON_bounds ? constrain_bounds(E, u, first, second)
                                   : constrain_affine(E, u, first, second);
}

/* ---- given values ---------------------------------------------------------------------------- */

static DataBound bound_of(Eval *E, const Expr *e, const Value *v) {
  Value *x = argument(E, e, v);
  return x ? (DataBound){x->v, (size_t)x->n} : (DataBound){0};
}

void constrain_check(Eval *E, const Decl *d, const Value *v, const char *whose) {
  long dims[MAX_DIMS];
  for (int k = 0; k < v->ndims; k++) dims[k] = v->dims[k];
  DataValues x = {whose, d->name, d, v->ndims, dims, v->v};
  if (d->con.kind == CON_bounds)
    data_check_bounds(E->ctx, &x, bound_of(E, d->con.args[0], v), bound_of(E, d->con.args[1], v));
  else
    data_check_structure(E->ctx, &x);
}

/* The unconstrained numbers of known values. */
static void unconstrain(Eval *E, const Decl *d, Value *v, double *u) {
  ItemShape items = items_of(E, d, v);
  if (is_type_word(d->con.kind)) {
    const Value *x = unconstrain_by_items(E, d->con.kind, v);
    for (int32_t k = 0; k < x->n; k++) u[k] = x->v[k];
    return;
  }
  Value *first = argument(E, d->con.args[0], v), *second = argument(E, d->con.args[1], v);
  const Value *x = !v->n || d->con.kind == CON_NONE ? v
                   : d->con.kind == CON_bounds      ? unconstrain_bounds(E, v, first, second)
                                                    : unconstrain_affine(E, v, first, second);
  for (int32_t k = 0; k < v->n; k++) u[is_matrix(v) ? stan_place(&items, k) : k] = x->v[k];
}

/* The evaluator as an interpreter: parameters become numbers one after the other, and the bounds of
 * each are evaluated with those before it. */
void model_unconstrain(Ctx *c, const Model *m, const double *values, double *theta) {
  TempArena *values_arena = temp_open(c), *nodes = temp_open(c);
  Eval E = model_interpreter(&values_arena->arena, &nodes->arena, m);
  size_t before = c->nerrors;
  tuples_prepare(&E);
  for (int k = 0; k < m->noutputs && m->outputs[k].block == BLOCK_PARAMETERS; k++) {
    const Output *o = &m->outputs[k];
    Value *v = value_known(&E, value_shape(&E, o->kind, o->array_dims, o->ndims, o->dims), NULL);
    for (int32_t i = 0; i < o->n; i++) v->v[model_column_place(o, i)] = *values++;
    output_set(&E, o, v);
    constrain_check(&E, o->decl, v, "the parameters");
    if (c->nerrors > before) ctx_jump(c, PVI_DATA);
    unconstrain(&E, o->decl, v, theta + o->offset);
  }
  temp_close(nodes);
  temp_close(values_arena);
}
