/* check_decl.c: declarations: sizes, constraints, initial values, and what may be declared where.
 */
#include "stan/stan_int.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

/* The first variable in e that is declared behind transformed data, or NULL. */
static const Expr *late_variable(const Expr *e) {
  const Expr *found =
      e && e->kind == EX_VAR && e->decl && e->decl->block > BLOCK_TRANSFORMED_DATA ? e : NULL;
  for (int i = 0; e && !found && i < e->nargs; i++) found = late_variable(e->args[i]);
  for (int i = 0; e && !found && i < e->nindexes; i++) {
    found = late_variable(e->indexes[i].a);
    if (!found) found = late_variable(e->indexes[i].b);
  }
  return found;
}

static void check_sizes(Checker *k, Decl *d, bool top) {
  for (int i = 0; i < d->nsizes; i++) {
    if (i && d->sizes[i] == d->sizes[i - 1]) continue; /* corr_matrix[K] has K twice */
    check_int(k, d->sizes[i], "a size");
    const Expr *late = top ? late_variable(d->sizes[i]) : NULL;
    if (late)
      check_error(k, late->loc,
                  "a size here must be known from the data, but `%s` is declared in the %s block",
                  late->name, stan_block_name(late->decl->block));
  }
}

/* ---- constraints ----------------------------------------------------------------------------- */

/* A bound is a scalar, or has the shape of the variable or of one element of its array. */
static void check_bound(Checker *k, const Decl *d, Expr *e, const char *name) {
  if (!e) return;
  check_expr(k, e);
  const Type *scalar = type_basic(type_scalar_kind(d->type->kind));
  const Type *element = type_array(&k->c->arena, d->type, -d->type->array_dims);
  if (type_promotions(e->type, scalar) >= 0 || type_promotions(e->type, element) >= 0 ||
      type_promotions(e->type, d->type) >= 0)
    return;
  check_error(k, e->loc, "`%s` must be %s%s%s, but is %s", name, type_show(k, scalar),
              type_equal(scalar, d->type) ? "" : " or ",
              type_equal(scalar, d->type) ? "" : type_show(k, d->type), type_show(k, e->type));
}

static void check_constraint(Checker *k, Decl *d, bool top) {
  Constraint *con = &d->con;
  TypeKind scalar = type_scalar_kind(d->type->kind);
  if (con->kind != CON_NONE && !top)
    check_error(k, d->loc, "a local variable cannot be constrained; write `%s`",
                type_show(k, d->type));
  if (con->kind != CON_NONE && scalar == TY_COMPLEX)
    check_error(k, d->loc, "a complex variable cannot be constrained");
  if (scalar == TY_INT && !con_allows_int(con->kind))
    check_error(k, d->loc, "an int variable cannot have `%s` or `%s`", con_argument(con->kind, 0),
                con_argument(con->kind, 1));
  for (int i = 0; i < 2; i++) check_bound(k, d, con->args[i], con_argument(con->kind, i));
}

/* The sizes and constraints of a type, and of its items when it is a tuple. */
static void check_type(Checker *k, Decl *d, bool top) {
  check_sizes(k, d, top);
  check_constraint(k, d, top);
  for (int i = 0; i < d->nitems; i++) check_type(k, d->items[i], top);
}

/* ---- declarations ---------------------------------------------------------------------------- */

/* Can parameters not reach it? As in Stan, integers count as data wherever parameters are not yet
 * numbers. */
static bool decl_is_data(const Checker *k, const Decl *d) {
  switch (k->block) {
  case BLOCK_DATA:
  case BLOCK_TRANSFORMED_DATA: return true;
  case BLOCK_GENERATED: return false;
  default: return type_is_int(d->type);
  }
}

static void check_init(Checker *k, Decl *d) {
  if (!d->init) return;
  check_expr(k, d->init);
  if (k->block == BLOCK_DATA || k->block == BLOCK_PARAMETERS)
    check_error(k, d->init->loc, "`%s` is %s and cannot be given a value here", d->name,
                k->block == BLOCK_DATA ? "read from the data" : "a parameter");
  else if (type_promotions(d->init->type, d->type) < 0)
    check_error(k, d->init->loc, "`%s` is %s and cannot be set to %s", d->name,
                type_show(k, d->type), type_show(k, d->init->type));
}

void check_decls(Checker *k, Stmt *s, bool top) {
  for (int i = 0; i < s->ndecls; i++) {
    Decl *d = s->decls[i];
    if (i == 0) check_type(k, d, top);
    bool parameter = k->block == BLOCK_PARAMETERS || k->block == BLOCK_TRANSFORMED_PARAMETERS;
    if (top && parameter && type_has_int(d->type))
      check_error(k, d->loc, "`%s`: %s cannot be int", d->name,
                  k->block == BLOCK_PARAMETERS ? "parameters" : "transformed parameters");
    d->is_top = top;
    d->data_only = decl_is_data(k, d);
    scope_declare(k, d);
    check_init(k, d);
  }
}
