/* check_stmt.c: statements. */
#include "stan/stan_int.h"

/* ---- assignment ------------------------------------------------------------------------------ */

static bool has_many(const Expr *e) {
  for (int i = 0; i < e->nindexes; i++)
    if (e->indexes[i].kind != IX_ONE || e->indexes[i].a->type->array_dims) return true;
  return false;
}

static void check_root(Checker *k, const Expr *e) {
  const Decl *d = e->decl;
  if (!d) {
    if (!type_is_error(e->type))
      check_error(k, e->loc, "`%s` is a function and cannot be assigned to", e->name);
  } else if (d->is_loop)
    check_error(k, e->loc, "`%s` is a loop's variable and cannot be assigned to", e->name);
  else if (d->is_arg)
    check_error(k, e->loc,
                "`%s` is an argument and cannot be assigned to; copy it into a variable first",
                e->name);
  else if (d->block != k->block)
    check_error(k, e->loc, "`%s` is declared in the %s block and cannot be changed in the %s block",
                e->name, stan_block_name(d->block), stan_block_name(k->block));
}

/* The place an assignment writes to. */
static void check_lvalue(Checker *k, const Expr *e) {
  switch (e->kind) {
  case EX_INDEX:
    if (e->args[0]->kind == EX_INDEX && has_many(e->args[0]))
      check_error(k, e->loc,
                  "cannot assign to a part of a slice; write all indexes in one pair of brackets");
    check_lvalue(k, e->args[0]);
    break;
  case EX_FIELD: check_lvalue(k, e->args[0]); break;
  case EX_TUPLE:
    for (int i = 0; i < e->nargs; i++) check_lvalue(k, e->args[i]);
    break;
  default: check_root(k, e); break;
  }
}

/* The places that a left side writes to, those inside tuples each by itself. */
typedef struct {
  const Expr **at;
  int n, cap;
} Places;

static void collect_places(Arena *a, const Expr *e, Places *out) {
  if (e->kind != EX_TUPLE)
    PUSH(a, out->at, out->n, out->cap, e);
  else
    for (int i = 0; i < e->nargs; i++) collect_places(a, e->args[i], out);
}

static const Expr *root_of(const Expr *e) {
  while (e->kind == EX_INDEX || e->kind == EX_FIELD) e = e->args[0];
  return e;
}

static int steps_of(const Expr *e) {
  int n = 0;
  for (; e->kind == EX_INDEX || e->kind == EX_FIELD; e = e->args[0]) n++;
  return n;
}

/* Can the two be the same memory? Not when they are different items of the same tuple on the way.
 */
static bool overlap(const Expr *x, const Expr *y) {
  if (root_of(x)->decl != root_of(y)->decl) return false;
  int nx = steps_of(x), ny = steps_of(y);
  for (; nx > ny; nx--) x = x->args[0];
  for (; ny > nx; ny--) y = y->args[0];
  for (; nx; nx--, x = x->args[0], y = y->args[0])
    if (x->kind == EX_FIELD && y->kind == EX_FIELD && x->field != y->field) return false;
  return true;
}

static bool mentions(const Expr *e, const Decl *d) {
  bool found = e && e->kind == EX_VAR && e->decl == d;
  for (int i = 0; e && !found && i < e->nargs; i++) found = mentions(e->args[i], d);
  for (int i = 0; e && !found && i < e->nindexes; i++)
    found = mentions(e->indexes[i].a, d) || mentions(e->indexes[i].b, d);
  return found;
}

/* Does an index on the way to the place read d? */
static bool reads(const Expr *place, const Decl *d) {
  for (; place->kind == EX_INDEX || place->kind == EX_FIELD; place = place->args[0])
    for (int i = 0; i < place->nindexes; i++)
      if (mentions(place->indexes[i].a, d) || mentions(place->indexes[i].b, d)) return true;
  return false;
}

/* No place is written twice, and no index reads what is being written. */
static void check_places(Checker *k, const Expr *lhs) {
  Places p = {0};
  collect_places(&k->c->arena, lhs, &p);
  for (int i = 0; i < p.n; i++) {
    const Expr *root = root_of(p.at[i]);
    for (int j = 0; root->decl && j < p.n; j++) {
      if (j < i && overlap(p.at[i], p.at[j]))
        check_error(k, p.at[i]->loc, "`%s` is assigned to twice", root->name);
      if (reads(p.at[j], root->decl))
        check_error(k, p.at[j]->loc, "this reads `%s` on the left side while it is assigned to",
                    root->name);
    }
  }
}

static void check_assign(Checker *k, Stmt *s) {
  check_expr(k, s->lhs);
  check_expr(k, s->e);
  check_lvalue(k, s->lhs);
  check_places(k, s->lhs);
  const Type *to = s->lhs->type, *value = s->e->type;
  if (s->has_op) {
    const Type *both[] = {to, value};
    if ((s->op == OP_ELT_MUL || s->op == OP_ELT_DIV) && type_is_scalar(to)) {
      check_error(k, s->lhs->loc, "`%s=` is for containers, but this is %s", stan_op_name(s->op),
                  type_show(k, to));
      return;
    }
    if (!check_operands(k, s->op, both, 2, s->loc, &value)) return;
  }
  if (type_promotions(value, to) < 0)
    check_error(k, s->e->loc, "cannot assign %s to %s", type_show(k, value), type_show(k, to));
}

/* ---- increments ------------------------------------------------------------------------------ */

bool check_may_change_target(const Checker *k) {
  Suffix s = k->fun ? suffix_of(k->fun->name, &(size_t){0}) : SUFFIX_NONE;
  return k->fun ? s == SUFFIX_LP : k->block == BLOCK_MODEL;
}

bool check_may_change_jacobian(const Checker *k) {
  Suffix s = k->fun ? suffix_of(k->fun->name, &(size_t){0}) : SUFFIX_NONE;
  return k->fun ? s == SUFFIX_JACOBIAN : k->block == BLOCK_TRANSFORMED_PARAMETERS;
}

static void check_increment(Checker *k, Stmt *s) {
  check_expr(k, s->e);
  if (s->kind == ST_TARGET && !check_may_change_target(k))
    check_error(
        k, s->loc,
        "`target +=` can stand only in the model block and in functions whose names end in _lp");
  if (s->kind == ST_JACOBIAN && !check_may_change_jacobian(k))
    check_error(k, s->loc,
                "`jacobian +=` can stand only in transformed parameters and in functions whose "
                "names end in _jacobian");
  if (type_is_error(s->e->type)) return;
  TypeKind scalar = type_scalar_kind(s->e->type->kind);
  if (scalar != TY_INT && scalar != TY_REAL)
    check_error(k, s->e->loc, "cannot add %s to the target", type_show(k, s->e->type));
}

/* ---- control --------------------------------------------------------------------------------- */

static void check_condition(Checker *k, Expr *e) {
  check_expr(k, e);
  if (!type_is_error(e->type) && !type_is_scalar(e->type))
    check_error(k, e->loc, "a condition must be int or real, but is %s", type_show(k, e->type));
}

static void check_scoped(Checker *k, Stmt *s) {
  int mark = scope_enter(k);
  check_stmt(k, s);
  scope_leave(k, mark);
}

static void check_loop_body(Checker *k, Stmt *s) {
  k->loops++;
  check_scoped(k, s->body[0]);
  k->loops--;
}

static void check_for(Checker *k, Stmt *s) {
  int mark = scope_enter(k);
  Decl *var = s->decls[0];
  check_int(k, s->from, "a loop's bound");
  check_int(k, s->to, "a loop's bound");
  var->data_only = k->block != BLOCK_GENERATED || (s->from->data_only && s->to->data_only);
  scope_declare(k, var);
  check_loop_body(k, s);
  scope_leave(k, mark);
}

/* What a loop over the container takes out of it, or NULL. */
static const Type *loop_element(Checker *k, const Type *t) {
  if (type_is_error(t)) return t;
  if (t->array_dims) return type_element(&k->c->arena, t);
  return type_own_dims(t->kind) ? type_basic(type_scalar_kind(t->kind)) : NULL;
}

static void check_foreach(Checker *k, Stmt *s) {
  int mark = scope_enter(k);
  Decl *var = s->decls[0];
  check_expr(k, s->e);
  var->type = loop_element(k, s->e->type);
  if (!var->type) {
    check_error(k, s->e->loc, "a loop runs over a range or a container, but this is %s",
                type_show(k, s->e->type));
    var->type = type_basic(TY_ERROR);
  }
  var->data_only = s->e->data_only;
  scope_declare(k, var);
  check_loop_body(k, s);
  scope_leave(k, mark);
}

static void check_return(Checker *k, Stmt *s) {
  if (s->e) check_expr(k, s->e);
  if (!k->fun) {
    check_error(k, s->loc, "`return` can stand only in a function");
    return;
  }
  const Type *want = k->fun->type->result;
  bool is_void = want->kind == TY_VOID;
  if (is_void && s->e)
    check_error(k, s->e->loc, "`%s` is void and cannot return a value", k->fun->name);
  else if (!is_void && !s->e)
    check_error(k, s->loc, "`%s` must return %s", k->fun->name, type_show(k, want));
  else if (s->e && type_promotions(s->e->type, want) < 0)
    check_error(k, s->e->loc, "`%s` returns %s, but this is %s", k->fun->name, type_show(k, want),
                type_show(k, s->e->type));
}

static void check_jump(Checker *k, const Stmt *s) {
  if (!k->loops)
    check_error(k, s->loc, "`%s` can stand only in a loop",
                s->kind == ST_BREAK ? "break" : "continue");
}

static void check_print(Checker *k, Stmt *s) {
  for (int i = 0; i < s->nargs; i++) {
    check_expr(k, s->args[i]);
    if (s->args[i]->type->kind == TY_FUNCTION)
      check_error(k, s->args[i]->loc, "a function cannot be printed");
  }
}

/* ---- all ------------------------------------------------------------------------------------- */

static void check_all(Checker *k, Stmt *s) {
  int mark = scope_enter(k);
  for (int i = 0; i < s->nbody; i++) check_stmt(k, s->body[i]);
  scope_leave(k, mark);
}

void check_stmt(Checker *k, Stmt *s) {
  switch (s->kind) {
  case ST_BLOCK:
  case ST_PROFILE: check_all(k, s); break;
  case ST_DECL: check_decls(k, s, false); break;
  case ST_ASSIGN: check_assign(k, s); break;
  case ST_TARGET:
  case ST_JACOBIAN: check_increment(k, s); break;
  case ST_TILDE: check_tilde(k, s); break;
  case ST_IF:
    check_condition(k, s->e);
    check_scoped(k, s->body[0]);
    if (s->body[1]) check_scoped(k, s->body[1]);
    break;
  case ST_FOR: check_for(k, s); break;
  case ST_FOREACH: check_foreach(k, s); break;
  case ST_WHILE:
    check_condition(k, s->e);
    check_loop_body(k, s);
    break;
  case ST_BREAK:
  case ST_CONTINUE: check_jump(k, s); break;
  case ST_RETURN: check_return(k, s); break;
  case ST_CALL: check_call(k, s->e, true); break;
  case ST_PRINT:
  case ST_REJECT:
  case ST_FATAL: check_print(k, s); break;
  case ST_SKIP: break;
  }
}
