/* expr.c: what expressions are worth. */
#include "model/complex.h"
#include "model/eval.h"

#include <math.h>
#include <string.h>

/* ---- indexing -------------------------------------------------------------------------------- */

/* Positions picked along one dimension, 0-based: [rows x] count. */
typedef struct {
  int32_t count;
  bool dropped; /* a single index: the dimension goes */
  const Axis *axis;
  int32_t *at;
} Along;

int32_t eval_position(Eval *E, double i, int32_t dim, Loc loc) {
  if (!(i >= 1 && i <= dim)) {
    if (dim)
      ctx_fail(E->ctx, PVI_PROGRAM, loc,
               "index %g is out of range: the dimension has elements 1 to %d", i, dim);
    ctx_fail(E->ctx, PVI_PROGRAM, loc, "index %g is out of range: the dimension is empty", i);
  }
  return (int32_t)i - 1;
}

static Along along_range(Eval *E, long from, long to, int32_t dim, Loc loc) {
  Along a = {.count = to >= from ? (int32_t)(to - from + 1) : 0};
  a.at = NEW_ARRAY(E->arena, int32_t, a.count);
  if (a.count) { /* an empty range may lie anywhere */
    eval_position(E, (double)from, dim, loc);
    eval_position(E, (double)to, dim, loc);
  }
  for (int32_t k = 0; k < a.count; k++) a.at[k] = (int32_t)from - 1 + k;
  return a;
}

static Along along_values(Eval *E, Value *v, int32_t dim, Loc loc) {
  v = eval_decided(E, v);
  if (!v->known) eval_needs_draw(E, loc, "an index depends on parameters");
  v = value_on_axis(E, v, E->axis);
  Along a = {.count = v->n, .dropped = v->ndims == 0, .axis = v->axis};
  int32_t total = value_total(v);
  a.at = NEW_ARRAY(E->arena, int32_t, total);
  for (int32_t k = 0; k < total; k++) a.at[k] = eval_position(E, v->v[k], dim, loc);
  return a;
}

static double at_row(const Value *v, int32_t r) { return v->v[v->axis ? r : 0]; }

/* A range that moves with the iterations of a lifted loop, as wide in all of them. */
static Along along_moving(Eval *E, const Value *from, const Value *to, int32_t dim, Loc loc) {
  Along a = {.axis = E->axis};
  double *counts = NEW_ARRAY(E->arena, double, E->axis->rows), count;
  for (int32_t r = 0; r < E->axis->rows; r++) {
    count = at_row(to, r) - at_row(from, r) + 1;
    counts[r] = count > 0 ? count : 0;
  }
  a.count = (int32_t)counts[0];
  a.at = NEW_ARRAY(E->arena, int32_t, a.count * E->axis->rows);
  for (int32_t r = 0; r < E->axis->rows; r++) {
    if (counts[r] != counts[0]) lift_differs(E, E->axis, counts);
    for (int32_t k = 0; k < a.count; k++)
      a.at[r * a.count + k] = eval_position(E, at_row(from, r) + k, dim, loc);
  }
  return a;
}

static Along along_bounds(Eval *E, const Index *i, int32_t dim) {
  Value *from = value_on_axis(E, eval_decided(E, eval_expr(E, i->a)), E->axis),
        *to = value_on_axis(E, eval_decided(E, eval_expr(E, i->b)), E->axis);
  if (from->known && to->known && (from->axis || to->axis))
    return along_moving(E, from, to, dim, i->loc);
  return along_range(E, value_int_of(E, from, i->loc, "an index"),
                     value_int_of(E, to, i->loc, "an index"), dim, i->loc);
}

static Along along(Eval *E, const Index *i, int32_t dim) {
  long from = 1, to = dim;
  switch (i->kind) {
  case IX_ONE: return along_values(E, eval_expr(E, i->a), dim, i->loc);
  case IX_FROM: from = value_int_of(E, eval_expr(E, i->a), i->loc, "an index"); break;
  case IX_TO: to = value_int_of(E, eval_expr(E, i->a), i->loc, "an index"); break;
  case IX_RANGE: return along_bounds(E, i, dim);
  case IX_ALL: break;
  }
  return along_range(E, from, to, dim, i->loc);
}

TypeKind eval_remaining_kind(TypeKind kind, bool first_dropped, bool second_dropped) {
  bool z = complex_kind(kind);
  TypeKind scalar = z ? TY_COMPLEX : TY_REAL, row = z ? TY_COMPLEX_ROW_VECTOR : TY_ROW_VECTOR,
           column = z ? TY_COMPLEX_VECTOR : TY_VECTOR, matrix = z ? TY_COMPLEX_MATRIX : TY_MATRIX;
  if (kind == column || kind == row) return first_dropped ? scalar : kind;
  if (kind != matrix) return kind;
  if (first_dropped && second_dropped) return scalar;
  return first_dropped ? row : second_dropped ? column : matrix;
}

Selection eval_selection(Eval *E, const Value *base, const Index *indexes, int nindexes, Loc loc) {
  Along by[MAX_DIMS];
  Selection s = {.shape = {.kind = base->kind, .n = 1, .node = NO_NODE}};
  bool dropped[MAX_DIMS] = {false};
  if (nindexes > base->ndims)
    ctx_fail(E->ctx, PVI_PROGRAM, loc, "%d indexes for %d dimensions", nindexes, base->ndims);
  for (int d = 0; d < base->ndims; d++) {
    by[d] = d < nindexes ? along(E, &indexes[d], base->dims[d])
                         : along_range(E, 1, base->dims[d], base->dims[d], loc);
    if (by[d].axis) s.axis = by[d].axis;
    dropped[d] = by[d].dropped;
    if (dropped[d]) continue;
    s.shape.dims[s.shape.ndims++] = by[d].count;
    s.shape.n *= by[d].count;
    if (d < base->array_dims) s.shape.array_dims++;
  }
  int inner = base->array_dims;
  s.shape.kind = eval_remaining_kind(base->kind, dropped[inner < MAX_DIMS ? inner : 0],
                                     inner + 1 < MAX_DIMS && dropped[inner + 1]);
  int32_t rows = s.axis ? s.axis->rows : 1, n = s.shape.n;
  if (base->ndims == 1) {
    s.index = by[0].at;
    return s;
  }
  s.index = NEW_ARRAY(E->arena, int32_t, value_count(E, s.axis, n));
  for (int32_t r = 0; r < rows; r++) {
    int32_t *out = s.index + r * n;
    int32_t repeat = 1; /* elements filled so far: the product of the inner counts, from the last
                           dimension outwards */
    int32_t stride = 1;
    if (n) out[0] = 0;
    for (int d = base->ndims; n && d-- > 0;) {
      const int32_t *at = by[d].at + (by[d].axis ? r * by[d].count : 0);
      for (int32_t k = by[d].count; k-- > 0;)
        for (int32_t e = 0; e < repeat; e++) out[k * repeat + e] = out[e] + at[k] * stride;
      repeat *= by[d].count;
      stride *= base->dims[d];
    }
  }
  return s;
}

static bool all_single(const Expr *e) {
  for (int k = 0; k < e->nindexes; k++)
    if (e->indexes[k].kind != IX_ONE || !e->indexes[k].a->type || e->indexes[k].a->type->array_dims)
      return false;
  return true;
}

/* x[i][j] with single indexes is x[i, j]. */
static const Expr *flatten_indexes(Eval *E, const Expr *e, Index **indexes, int *n) {
  const Expr *base = e->args[0];
  if (base->kind == EX_INDEX && all_single(base)) {
    const Expr *root = flatten_indexes(E, base, indexes, n);
    Index *joined = NEW_ARRAY(E->arena, Index, *n + e->nindexes);
    memcpy(joined, *indexes, (size_t)*n * sizeof *joined);
    memcpy(joined + *n, e->indexes, (size_t)e->nindexes * sizeof *joined);
    *indexes = joined;
    *n += e->nindexes;
    return root;
  }
  *indexes = e->indexes;
  *n = e->nindexes;
  return base;
}

static Value *eval_index(Eval *E, const Expr *e) {
  Index *indexes;
  int n;
  if (number_is_block(E, e)) return number_block(E, e);
  const Expr *root = flatten_indexes(E, e, &indexes, &n);
  if (root->kind != EX_VAR) {
    Value *v = eval_expr(E, root);
    Selection s = eval_selection(E, v, indexes, n, e->loc);
    if (v->kind == TY_TUPLE) return tuple_select(E, v, &s);
    return value_take(E, v, &s.shape, s.axis, s.index);
  }
  Var *var = &E->frame[root->decl->slot];
  Selection s = eval_selection(E, var->value, indexes, n, e->loc);
  lift_read(E, var, s.axis, s.index, s.shape.n);
  if (var->value->kind == TY_TUPLE) return tuple_select(E, var->value, &s);
  return value_take(E, value_on_axis(E, var->value, E->axis), &s.shape, s.axis, s.index);
}

/* ---- operators ------------------------------------------------------------------------------- */

double eval_int_operator(Eval *E, Operator op, double a, double b, Loc loc) {
  if ((op == OP_DIV || op == OP_ELT_DIV || op == OP_IDIV || op == OP_MOD) && b == 0)
    ctx_fail(E->ctx, PVI_PROGRAM, loc, "integer division by zero");
  switch (op) {
  case OP_ADD: return a + b;
  case OP_SUB: return a - b;
  case OP_MUL:
  case OP_ELT_MUL: return a * b;
  case OP_DIV:
  case OP_ELT_DIV:
  case OP_IDIV: return trunc(a / b);
  case OP_MOD: return a - b * trunc(a / b);
  case OP_EQ: return a == b;
  case OP_NE: return a != b;
  case OP_LT: return a < b;
  case OP_LE: return a <= b;
  case OP_GT: return a > b;
  case OP_GE: return a >= b;
  case OP_AND: return a != 0 && b != 0;
  case OP_OR: return a != 0 || b != 0;
  default: return NAN;
  }
}

static Value *known_int_binary(Eval *E, Operator op, Value *a, Value *b, Loc loc) {
  a = value_on_axis(E, a, E->axis);
  b = value_on_axis(E, b, E->axis);
  static const Value shape = {.kind = TY_INT, .n = 1};
  Value *r = value_known(E, &shape, a->axis ? a->axis : b->axis);
  for (int32_t k = 0; k < value_total(r); k++)
    r->v[k] = eval_int_operator(E, op, a->v[a->axis ? k : 0], b->v[b->axis ? k : 0], loc);
  return r;
}

static bool is_comparison(Operator op) { return op >= OP_OR && op <= OP_GE; }

static Value *as_int(Value *v) {
  v->kind = TY_INT;
  return v;
}

/* Conditions on parameters are 0 or 1 per draw. */
static Value *unknown_comparison(Eval *E, Operator op, Value *a, Value *b) {
  Value *zero = value_real(E, 0);
  switch (op) {
  case OP_LT: return as_int(map2(E, IR_LT, a, b));
  case OP_LE: return as_int(map2(E, IR_LE, a, b));
  case OP_GT: return as_int(map2(E, IR_LT, b, a));
  case OP_GE: return as_int(map2(E, IR_LE, b, a));
  case OP_EQ: return as_int(map2(E, IR_EQ, a, b));
  case OP_NE: return as_int(map2(E, IR_NE, a, b));
  case OP_AND: return as_int(map2(E, IR_MUL, map2(E, IR_NE, a, zero), map2(E, IR_NE, b, zero)));
  default: return as_int(map2(E, IR_FMAX, map2(E, IR_NE, a, zero), map2(E, IR_NE, b, zero)));
  }
}

static void check_same_size(Eval *E, const Value *a, const Value *b, Loc loc) {
  if (a->ndims && b->ndims &&
      (a->n != b->n || (a->ndims == 2 && b->ndims == 2 && a->dims[0] != b->dims[0])))
    ctx_fail(E->ctx, PVI_PROGRAM, loc, "sizes do not match: %d and %d elements", a->n, b->n);
}

/* Rows and columns as a matrix product sees them. */
static void as_matrix(const Value *v, int32_t *rows, int32_t *cols) {
  *rows = v->kind == TY_MATRIX ? v->dims[0] : v->kind == TY_VECTOR ? v->dims[0] : 1;
  *cols = v->kind == TY_MATRIX ? v->dims[1] : v->kind == TY_ROW_VECTOR ? v->dims[0] : 1;
}

static Value *product(Eval *E, Value *a, Value *b, Loc loc) {
  if (!a->ndims || !b->ndims) return map2(E, IR_MUL, a, b);
  int32_t ra, ca, rb, cb;
  as_matrix(a, &ra, &ca);
  as_matrix(b, &rb, &cb);
  if (ca != rb)
    ctx_fail(E->ctx, PVI_PROGRAM, loc, "sizes do not match: %d x %d times %d x %d", ra, ca, rb, cb);
  int32_t dims[2] = {ra, cb};
  Value *shape;
  if (a->kind == TY_ROW_VECTOR && b->kind == TY_VECTOR) {
    shape = value_shape(E, TY_REAL, 0, 0, NULL);
  } else if (b->kind == TY_VECTOR) {
    shape = value_shape(E, TY_VECTOR, 0, 1, &ra);
  } else if (a->kind == TY_ROW_VECTOR) {
    shape = value_shape(E, TY_ROW_VECTOR, 0, 1, &cb);
  } else {
    shape = value_shape(E, TY_MATRIX, 0, 2, dims);
  }
  return value_matmul(E, a, b, (MatrixProduct){ra, ca, cb}, shape);
}

static Value *power(Eval *E, Value *a, Value *b) {
  if (b->known && !b->ndims && !b->axis && b->v[0] == 2) return map1(E, IR_SQUARE, a);
  if (b->known && !b->ndims && !b->axis && b->v[0] == 0.5) return map1(E, IR_SQRT, a);
  if (b->known && !b->ndims && !b->axis && b->v[0] == -1) return map1(E, IR_INV, a);
  return map2(E, IR_POW, a, b);
}

/* A \ B, or A / B with a matrix B */
static Value *division(Eval *E, FunId id, Value *a, Value *b, Loc loc) {
  const Expr call = {.kind = EX_CALL, .loc = loc, .name = stan_fun_names[id]};
  return eval_function(E, id, (Value *[]){a, b}, 2, &call);
}

Value *eval_binary(Eval *E, Operator op, Value *a, Value *b, Loc loc) {
  if (complex_kind(a->kind) || complex_kind(b->kind)) return complex_binary(E, op, a, b, loc);
  bool scalars = !a->ndims && !b->ndims;
  bool ints = a->kind == TY_INT && b->kind == TY_INT && scalars;
  if (scalars && a->known && b->known &&
      ((ints && op != OP_POW && op != OP_ELT_POW) || is_comparison(op)))
    return known_int_binary(E, op, a, b, loc);
  if (is_comparison(op)) return unknown_comparison(E, op, a, b);
  bool equation = op == OP_LDIV || (op == OP_DIV && a->ndims && b->ndims && b->kind == TY_MATRIX);
  if (op != OP_MUL && !equation) check_same_size(E, a, b, loc);
  switch (op) {
  case OP_ADD: return map2(E, IR_ADD, a, b);
  case OP_SUB: return map2(E, IR_SUB, a, b);
  case OP_MUL: return product(E, a, b, loc);
  case OP_ELT_MUL: return map2(E, IR_MUL, a, b);
  case OP_DIV:
    if (equation) return division(E, FUN_mdivide_right, a, b, loc);
    return map2(E, IR_DIV, a, b);
  case OP_ELT_DIV: return map2(E, IR_DIV, a, b);
  case OP_POW:
  case OP_ELT_POW: return power(E, a, b);
  case OP_LDIV: return division(E, FUN_mdivide_left, a, b, loc);
  default:
    ctx_fail(E->ctx, PVI_PROGRAM, loc,
             "this operator cannot be applied to values that depend on parameters");
  }
}

static Value *negate(Eval *E, Value *a) {
  Value *r = map1(E, IR_NEG, a);
  if (a->kind == TY_INT) r->kind = TY_INT;
  return r;
}

/* The operand of a minus, or of a division. */
static Value *eval_negative(Eval *E, const Expr *e) {
  E->negative = !E->negative;
  Value *v = eval_expr(E, e);
  E->negative = !E->negative;
  return v;
}

static Value *eval_arithmetic(Eval *E, const Expr *e) {
  bool off = e->op == OP_SUB || e->op == OP_DIV || e->op == OP_ELT_DIV;
  Value *a = eval_expr(E, e->args[0]);
  Value *b = off ? eval_negative(E, e->args[1]) : eval_expr(E, e->args[1]);
  return eval_binary(E, e->op, a, b, e->loc);
}

static Value *eval_unary(Eval *E, const Expr *e) {
  Value *a = e->op == OP_NEG ? eval_negative(E, e->args[0]) : eval_expr(E, e->args[0]);
  switch (e->op) {
  case OP_NEG: return negate(E, a);
  case OP_NOT: return as_int(map1(E, IR_NOT, a));
  case OP_TRANSPOSE:
    if (complex_kind(a->kind)) return eval_function(E, FUN_transpose, &a, 1, NULL);
    return value_transpose(E, a);
  default: return a;
  }
}

/* && and || do not look at the right side when the left one decides. */
static Value *eval_logical(Eval *E, const Expr *e) {
  Value *a = eval_decided(E, eval_expr(E, e->args[0]));
  if (a->known && !a->axis) {
    bool left = a->v[0] != 0;
    if (left == (e->op == OP_OR)) return value_int(E, left);
  }
  return eval_binary(E, e->op, a, eval_expr(E, e->args[1]), e->loc);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static Value *eval_ternary(Eval *E, const Expr *e) {
  Value *c = value_on_axis(E, eval_decided(E, eval_expr(E, e->args[0])), E->axis);
  if (!c->known) return eval_either(E, e, c);
  int32_t yes = 0, rows = c->axis ? c->axis->rows : 1;
  for (int32_t r = 0; r < rows; r++) yes += c->v[r] != 0;
  if (yes != 0 && yes != rows) return eval_either(E, e, c);
  return complex_promote(E, eval_expr(E, e->args[yes ? 1 : 2]), e->type->kind);
}

/* Parts are tuples, or arrays of them. */
static Value *array_of_tuples(Eval *E, Value *const *parts, const Value *shape) {
  if (shape->ndims == 1) return tuple_array(E, shape, parts);
  Value **items = NEW_ARRAY(E->arena, Value *, shape->n + 1);
  for (int32_t k = 0, n = shape->n / shape->dims[0]; k < shape->n; k++)
    items[k] = parts[k / n]->items[k % n];
  return tuple_array(E, shape, items);
}

static Value *eval_literal(Eval *E, const Expr *e) {
  Value **parts = NEW_ARRAY(E->arena, Value *, e->nargs + 1);
  for (int k = 0; k < e->nargs; k++)
    parts[k] = complex_promote(E, eval_expr(E, e->args[k]), e->type->kind);
  Value shape = {.kind = e->type->kind, .node = NO_NODE, .dims = {e->nargs}};
  const Value *first = e->nargs ? parts[0] : NULL;
  shape.ndims = 1 + (first ? first->ndims : 0);
  shape.n = e->nargs * (first ? first->n : 0);
  shape.array_dims = e->type->array_dims;
  for (int d = 0; first && d < first->ndims; d++) shape.dims[d + 1] = first->dims[d];
  for (int k = 1; k < e->nargs; k++)
    if (parts[k]->n != first->n)
      ctx_fail(E->ctx, PVI_PROGRAM, e->args[k]->loc, "rows of different sizes in one expression");
  if (e->type->kind == TY_TUPLE) return array_of_tuples(E, parts, &shape);
  return value_join(E, parts, e->nargs, &shape);
}

static Value *eval_tuple(Eval *E, const Expr *e) {
  Value **items = NEW_ARRAY(E->arena, Value *, e->nargs);
  for (int k = 0; k < e->nargs; k++) items[k] = eval_expr(E, e->args[k]);
  return value_tuple(E, items, e->nargs);
}

Value *eval_body(Eval *E, const FunDef *f, Value **args, Loc loc) {
  Var *frame = NEW_ARRAY(E->arena, Var, f->nslots + 1), *caller = E->frame;
  for (int k = 0; k < f->nargs; k++) {
    args[k]->shared = true;
    frame[f->args[k]->slot] = (Var){args[k], f->args[k], E->lift, NULL};
  }
  bool of_parameters = E->of_parameters;
  E->of_parameters |= eval_is_density_name(f->name) && f->nargs && !args[0]->known;
  E->frame = frame;
  E->depth++;
  Value *r = scope_function(E, f->body);
  E->depth--;
  E->frame = caller;
  E->of_parameters = of_parameters;
  if (!r && f->type->result && f->type->result->kind != TY_VOID)
    ctx_fail(E->ctx, PVI_PROGRAM, loc, "function %s ended without returning a value", f->name);
  return r && f->type->result ? complex_promote(E, r, f->type->result->kind) : r;
}

Value *eval_user(Eval *E, const FunDef *f, Value **args, Loc loc) {
  if (!f->body)
    ctx_fail(E->ctx, PVI_PROGRAM, loc, "function %s is declared but never defined", f->name);
  for (int k = 0; k < f->nargs; k++) args[k] = complex_promote(E, args[k], f->args[k]->type->kind);
  return run_call(E, f, args, loc);
}

static bool ends_with(const char *s, const char *tail) {
  size_t n = strlen(s), m = strlen(tail);
  return n >= m && !strcmp(s + n - m, tail);
}

bool eval_is_density_name(const char *name) {
  return ends_with(name, "_lpdf") || ends_with(name, "_lpmf") || ends_with(name, "_lupdf") ||
         ends_with(name, "_lupmf");
}

bool eval_is_cdf_name(const char *name) {
  return ends_with(name, "_cdf") || ends_with(name, "_lcdf") || ends_with(name, "_lccdf");
}

bool eval_observes(const Eval *E, DistFun fun, const Value *y) {
  bool cumulative = fun == DF_LCDF || fun == DF_LCCDF || (fun == DF_CDF && E->increment);
  return cumulative && y->known && !(E->integral && y->axis) && !E->negative && !E->of_parameters;
}

static DistFun cumulative_named(const char *name) {
  return ends_with(name, "_lccdf") ? DF_LCCDF : ends_with(name, "_lcdf") ? DF_LCDF : DF_CDF;
}

/* A user's density of data is a likelihood, whatever it is made of; so is, where it is added, his
 * cumulative function. */
Value *eval_user_call(Eval *E, const Expr *e, Value **args) {
  const char *name = e->user->name;
  bool density = eval_is_density_name(name) && e->nargs > 0 && args[0]->known;
  Value *r = eval_user(E, e->user, args, e->loc);
  if (!r || r->kind != TY_REAL) return r;
  if (density && r->known) {
    r = value_on_axis(E, r, E->axis);
    r->likelihood = true;
  }
  bool observed =
      eval_is_cdf_name(name) && e->nargs > 0 && eval_observes(E, cumulative_named(name), args[0]);
  return (density || observed) && !r->known ? eval_as_likelihood(E, r) : r;
}

static Value *eval_dist_call(Eval *E, const Expr *e, Value **args) {
  Value *r = dist_call(E, (DistId)e->builtin, e->distfun, args, e->nargs, e->loc);
  return !r->known && e->distfun != DF_RNG && e->distfun != DF_LPDF &&
                 eval_observes(E, e->distfun, args[0])
             ? eval_as_likelihood(E, r)
             : r;
}

/* What a density or a function is given is not itself an increment. */
void eval_args(Eval *E, const Expr *e, Value **args) {
  bool increment = E->increment;
  if (e->call != CALL_FUNCTION) E->increment = false;
  for (int k = 0; k < e->nargs; k++) {
    const Type *t = e->args[k]->type;
    args[k] = t && t->kind == TY_FUNCTION ? NULL : eval_expr(E, e->args[k]);
  }
  E->increment = increment;
}

static Value *eval_call(Eval *E, const Expr *e) {
  Value **args = NEW_ARRAY(E->arena, Value *, e->nargs + 1);
  eval_args(E, e, args);
  switch (e->call) {
  case CALL_USER: return eval_user_call(E, e, args);
  case CALL_FUNCTION:
    E->density = e->loc;
    return eval_function(E, (FunId)e->builtin, args, e->nargs, e);
  case CALL_LAPLACE: return eval_laplace(E, args, e);
  case CALL_DIST: return eval_dist_call(E, e, args);
  default: ctx_fail(E->ctx, PVI_PROGRAM, e->loc, "%s cannot be called here", e->name);
  }
}

void eval_deeper(Eval *E, Loc loc) {
  if (base_stack_left() >= STACK_RESERVE) return;
  if (E->depth > 1)
    ctx_fail(E->ctx, PVI_PROGRAM, loc,
             "functions call each other %d levels deep, and there is no room for more", E->depth);
  ctx_fail(E->ctx, PVI_PROGRAM, loc, "this is nested too deep; simplify the program");
}

Value *eval_expr(Eval *E, const Expr *e) {
  eval_deeper(E, e->loc);
  return number_is(E, e) ? number_value(E, e->type->kind, number_of(E, e)) : eval_general(E, e);
}

Value *eval_general(Eval *E, const Expr *e) {
  switch (e->kind) {
  case EX_INT: return value_int(E, e->ivalue);
  case EX_REAL: return value_real(E, e->rvalue);
  case EX_VAR: {
    Var *var = &E->frame[e->decl->slot];
    lift_read(E, var, NULL, NULL, var->value->n);
    var->value->shared = true;
    return value_on_axis(E, var->value, E->axis);
  }
  case EX_UNARY: return eval_unary(E, e);
  case EX_BINARY:
    if (e->op == OP_AND || e->op == OP_OR) return eval_logical(E, e);
    return eval_arithmetic(E, e);
  case EX_TERNARY: return eval_ternary(E, e);
  case EX_CALL: return eval_call(E, e);
  case EX_INDEX: return eval_index(E, e);
  case EX_FIELD: return value_on_axis(E, eval_expr(E, e->args[0])->items[e->field - 1], E->axis);
  case EX_ARRAY:
  case EX_ROW: return eval_literal(E, e);
  case EX_TUPLE: return eval_tuple(E, e);
  case EX_PAREN: return eval_expr(E, e->args[0]);
  case EX_TARGET:
    ctx_fail(E->ctx, PVI_PROGRAM, e->loc,
             "target() cannot be read: the log density is split into observations");
  default: return complex_from(E, value_real(E, 0), value_real(E, e->rvalue)); /* EX_IMAG */
  }
}
