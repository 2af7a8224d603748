/* check_expr.c: expressions: every one gets its type, and whether parameters can reach it. What
 * does not check gets TY_ERROR, which fits everywhere, so that one mistake makes one message. */
#include "stan/stan_int.h"

static void set_error(Expr *e) { e->type = type_basic(TY_ERROR); }

/* ---- leaves ---------------------------------------------------------------------------------- */

static void check_variable(Checker *k, Expr *e) {
  Overloads *o = scope_functions(k, suffix_defined_name(k, e->name));
  e->decl = scope_variable(k, e->name);
  if (e->decl) {
    e->type = e->decl->type;
    e->data_only = e->decl->data_only;
  } else if (o) { /* a function as an argument; which overload is settled by the call */
    e->user = o->defs[0];
    e->type = e->user->type;
    e->data_only = true;
    check_where(k, e->name, e->loc);
  } else {
    const char *near = scope_nearest_variable(k, e->name);
    if (near)
      check_error(k, e->loc, "`%s` is not declared; did you mean `%s`?", e->name, near);
    else
      check_error(k, e->loc, "`%s` is not declared", e->name);
    set_error(e);
  }
}

static void check_target_value(Checker *k, Expr *e) {
  e->type = type_basic(TY_REAL);
  if (!check_may_change_target(k) && (k->fun || k->block != BLOCK_TRANSFORMED_PARAMETERS))
    check_error(k, e->loc,
                "`target()` can be read only in transformed parameters, in the model block and in "
                "functions whose "
                "names end in _lp");
}

/* ---- operators ------------------------------------------------------------------------------- */

bool check_operands(Checker *k, Operator op, const Type **types, int n, Loc loc,
                    const Type **result) {
  int cost;
  Args args = {.n = n, .types = types};
  *result = type_basic(TY_ERROR);
  for (int i = 0; i < n; i++)
    if (type_is_error(types[i])) return false;
  const Type *t = sig_match(k, sig_operator(k, op), &args, &cost);
  if (t) {
    *result = t;
    return true;
  }
  if (n == 1)
    check_error(k, loc, "`%s` cannot be applied to %s", stan_op_name(op), type_show(k, types[0]));
  else
    check_error(k, loc, "`%s` cannot join %s and %s", stan_op_name(op), type_show(k, types[0]),
                type_show(k, types[1]));
  return false;
}

static void check_operator(Checker *k, Expr *e) {
  const Type *types[2];
  for (int i = 0; i < e->nargs; i++) types[i] = e->args[i]->type;
  check_operands(k, e->op, types, e->nargs, e->loc, &e->type);
}

static void check_ternary(Checker *k, Expr *e) {
  const Type *cond = e->args[0]->type, *yes = e->args[1]->type, *no = e->args[2]->type;
  if (!type_is_error(cond) && !type_is(cond, TY_INT))
    check_error(k, e->args[0]->loc, "the condition of `? :` must be int, but is %s",
                type_show(k, cond));
  e->type = type_common(&k->c->arena, yes, no);
  bool values = e->type && e->type->kind != TY_VOID && e->type->kind != TY_FUNCTION;
  if (values) return;
  check_error(k, e->loc, "the two values of `? :` must be of one type, but are %s and %s",
              type_show(k, yes), type_show(k, no));
  set_error(e);
}

/* ---- indexing -------------------------------------------------------------------------------- */

static bool is_many(const Index *ix) { return ix->kind != IX_ONE || ix->a->type->array_dims; }

static bool check_index(Checker *k, Index *ix) {
  Expr *ends[] = {ix->a, ix->b};
  bool fine = true;
  for (int i = 0; i < 2; i++) {
    Expr *e = ends[i];
    if (!e) continue;
    check_expr(k, e);
    bool list = ix->kind == IX_ONE && e->type->array_dims == 1;
    if (type_is_error(e->type))
      fine = false;
    else if (e->type->kind != TY_INT || (e->type->array_dims && !list)) {
      check_error(k, e->loc, "an index must be int%s, but is %s",
                  ix->kind == IX_ONE ? ", array[] int or a range" : "", type_show(k, e->type));
      fine = false;
    }
  }
  return fine;
}

/* What is left of an element type (vector, matrix, ...) when indexed by one or two indexes; NULL:
 * too many. */
static const Type *index_element(TypeKind k, const Index *ix, int n) {
  if (n > type_own_dims(k)) return NULL;
  if (n == 0) return type_basic(k);
  bool many = is_many(&ix[0]);
  if (type_own_dims(k) == 1) return type_basic(many ? k : type_scalar_kind(k));
  bool columns = n == 1 || is_many(&ix[1]);
  if (many && columns) return type_basic(k);
  if (many || columns) return type_basic(type_row_kind(k, many));
  return type_basic(type_scalar_kind(k));
}

static const Type *index_type(Arena *a, const Type *t, const Index *ix, int n) {
  int outer = n < t->array_dims ? n : t->array_dims, dims = t->array_dims;
  for (int i = 0; i < outer; i++)
    if (!is_many(&ix[i])) dims--;
  if (n <= t->array_dims) return type_array(a, t, dims - t->array_dims);
  const Type *element = index_element(t->kind, ix + outer, n - outer);
  return element ? type_array(a, element, dims) : NULL;
}

static void check_indexed(Checker *k, Expr *e) {
  const Type *t = e->args[0]->type;
  bool fine = !type_is_error(t);
  for (int i = 0; i < e->nindexes; i++) {
    fine &= check_index(k, &e->indexes[i]);
    if (e->indexes[i].a) e->data_only &= e->indexes[i].a->data_only;
    if (e->indexes[i].b) e->data_only &= e->indexes[i].b->data_only;
  }
  set_error(e);
  if (!fine) return;
  const Type *result = index_type(&k->c->arena, t, e->indexes, e->nindexes);
  if (result)
    e->type = result;
  else
    check_error(k, e->loc, "%d index%s: too many for %s", e->nindexes, e->nindexes == 1 ? "" : "es",
                type_show(k, t));
}

static void check_field(Checker *k, Expr *e) {
  const Type *t = e->args[0]->type;
  set_error(e);
  if (type_is_error(t)) return;
  if (!type_is(t, TY_TUPLE))
    check_error(k, e->loc, "`.%d` takes an item out of a tuple, but this is %s", e->field,
                type_show(k, t));
  else if (e->field < 1 || e->field > t->nitems)
    check_error(k, e->loc, "this tuple has items .1 to .%d", t->nitems);
  else
    e->type = t->items[e->field - 1];
}

/* ---- literals -------------------------------------------------------------------------------- */

/* The type all elements promote to, or NULL after a message. */
static const Type *common_type(Checker *k, const Expr *e) {
  const Type *t = e->args[0]->type;
  for (int i = 1; i < e->nargs; i++) {
    const Type *next = type_common(&k->c->arena, t, e->args[i]->type);
    if (!next) {
      check_error(k, e->args[i]->loc, "the elements must be of one type, but this is %s behind %s",
                  type_show(k, e->args[i]->type), type_show(k, t));
      return NULL;
    }
    t = next;
  }
  return type_is_error(t) ? NULL : t;
}

static void check_array(Checker *k, Expr *e) {
  set_error(e);
  if (e->nargs == 0) {
    check_error(k, e->loc, "an array needs at least one element; its type would be unknown");
    return;
  }
  const Type *t = common_type(k, e);
  if (!t) return;
  if (t->kind == TY_VOID || t->kind == TY_FUNCTION)
    check_error(k, e->loc, "an array cannot hold %s", type_show(k, t));
  else
    e->type = type_array(&k->c->arena, t, 1);
}

static void check_row(Checker *k, Expr *e) {
  e->type = type_basic(TY_ROW_VECTOR);
  if (e->nargs == 0) return;
  const Type *t = common_type(k, e);
  set_error(e);
  if (!t) return;
  if (type_is_scalar(t))
    e->type = type_basic(TY_ROW_VECTOR);
  else if (type_is(t, TY_COMPLEX))
    e->type = type_basic(TY_COMPLEX_ROW_VECTOR);
  else if (type_is(t, TY_ROW_VECTOR))
    e->type = type_basic(TY_MATRIX);
  else if (type_is(t, TY_COMPLEX_ROW_VECTOR))
    e->type = type_basic(TY_COMPLEX_MATRIX);
  else
    check_error(k, e->loc, "between brackets there can be numbers or row vectors, but these are %s",
                type_show(k, t));
}

static void check_tuple(Checker *k, Expr *e) {
  const Type **items = NEW_ARRAY(&k->c->arena, const Type *, e->nargs);
  for (int i = 0; i < e->nargs; i++) {
    items[i] = e->args[i]->type;
    if (items[i]->kind == TY_FUNCTION)
      check_error(k, e->args[i]->loc, "a tuple cannot hold a function");
  }
  e->type = type_tuple(&k->c->arena, items, e->nargs);
}

/* ---- all ------------------------------------------------------------------------------------- */

static void check_args(Checker *k, Expr *e) {
  e->data_only = true;
  for (int i = 0; i < e->nargs; i++) {
    check_expr(k, e->args[i]);
    e->data_only &= e->args[i]->data_only;
  }
}

static bool has_numbers(const Expr *e) {
  for (int i = 0; i < e->nargs; i++)
    if (!e->args[i]->type || !type_is_scalar(e->args[i]->type)) return false;
  return true;
}

static bool is_place(const Expr *e) {
  if (e->kind != EX_INDEX) return e->kind == EX_VAR && e->decl && e->type->kind != TY_TUPLE;
  for (int i = 0; i < e->nindexes; i++)
    if (e->indexes[i].kind != IX_ONE || !type_is_scalar(e->indexes[i].a->type)) return false;
  return e->args[0]->place;
}

static void check_kind(Checker *k, Expr *e) {
  switch (e->kind) {
  case EX_INT: e->type = type_basic(TY_INT); break;
  case EX_REAL: e->type = type_basic(TY_REAL); break;
  case EX_IMAG: e->type = type_basic(TY_COMPLEX); break;
  case EX_STRING: e->type = type_basic(TY_STRING); break;
  case EX_VAR: check_variable(k, e); break;
  case EX_UNARY:
  case EX_BINARY: check_operator(k, e); break;
  case EX_TERNARY: check_ternary(k, e); break;
  case EX_INDEX: check_indexed(k, e); break;
  case EX_FIELD: check_field(k, e); break;
  case EX_ARRAY: check_array(k, e); break;
  case EX_ROW: check_row(k, e); break;
  case EX_TUPLE: check_tuple(k, e); break;
  case EX_PAREN: e->type = e->args[0]->type; break;
  case EX_TARGET:
    check_target_value(k, e);
    e->data_only = false;
    break;
  case EX_CALL: check_call(k, e, false); break;
  }
}

void check_expr(Checker *k, Expr *e) {
  if (e->kind != EX_CALL) check_args(k, e);
  check_kind(k, e);
  e->numbers = has_numbers(e);
  e->place = is_place(e);
}

void check_int(Checker *k, Expr *e, const char *what) {
  check_expr(k, e);
  if (!type_is_error(e->type) && !type_is(e->type, TY_INT))
    check_error(k, e->loc, "%s must be int, but is %s", what, type_show(k, e->type));
}
