/* pedantic.c: which parameters have no prior, as stanc's pedantic mode asks.
 *
 * Statements of the model block that add to the log density are factors; a factor knows the
 * parameters that are in it, directly or by way of other variables, and whether data are. A
 * parameter has a prior if one of its factors leads to no data other than by the parameter itself:
 * in theta ~ normal(mu, tau); y ~ normal(theta, 1), mu has none, for its factor leads to y by
 * theta. Sets of parameters are rows of bools, whose last one stands for data.
 */
#include "stan/stan.h"

#include <string.h>

typedef struct {
  const Decl *variable; /* NULL: a factor */
  bool *in;             /* [parameters + 1] */
} Row;

typedef struct {
  Arena *a;
  const Program *p;
  const Decl **parameters;
  int n, cap; /* of the parameters; DATA is n */
  Row *variables, *factors;
  int nvariables, cap_variables, nfactors, cap_factors;
  bool changed;
} Pedantic;

static bool *new_set(const Pedantic *x) { return NEW_ARRAY(x->a, bool, x->n + 1); }

static Row *row_of(Pedantic *x, const Decl *d) {
  for (int k = 0; k < x->nvariables; k++)
    if (x->variables[k].variable == d) return &x->variables[k];
  Row row = {d, new_set(x)};
  PUSH(x->a, x->variables, x->nvariables, x->cap_variables, row);
  return &x->variables[x->nvariables - 1];
}

static void add_variable(Pedantic *x, const Decl *d, bool *in) {
  bool given = d->is_top && d->block == BLOCK_DATA;
  for (int k = 0; k < x->n; k++)
    if (x->parameters[k] == d) {
      in[k] = true;
      return;
    }
  if (given) {
    in[x->n] |= d->type->kind != TY_INT || d->type->array_dims; /* an int is a size or a switch */
    return;
  }
  const Row *row = row_of(x, d);
  for (int k = 0; k <= x->n; k++) in[k] |= row->in[k];
}

/* What an expression depends on, into `in`. */
static void add_expr(Pedantic *x, const Expr *e, bool *in) {
  if (!e) return;
  if (e->kind == EX_VAR && e->decl) add_variable(x, e->decl, in);
  for (int k = 0; k < e->nargs; k++) add_expr(x, e->args[k], in);
  for (int k = 0; k < e->nindexes; k++) {
    add_expr(x, e->indexes[k].a, in);
    add_expr(x, e->indexes[k].b, in);
  }
}

static void assign(Pedantic *x, const Decl *d, const Expr *e) {
  if (!d || !e) return;
  bool *in = new_set(x);
  add_expr(x, e, in);
  Row *row = row_of(x, d);
  for (int k = 0; k <= x->n; k++) {
    x->changed |= in[k] && !row->in[k];
    row->in[k] |= in[k];
  }
}

static void assign_all(Pedantic *x, const Expr *lhs, const Expr *e) {
  if (lhs->kind != EX_TUPLE) assign(x, stan_root(lhs), e);
  for (int k = 0; lhs->kind == EX_TUPLE && k < lhs->nargs; k++) assign_all(x, lhs->args[k], e);
}

/* Once more through all assignments; variables may depend on later ones in a loop. */
static void follow(Pedantic *x, const Stmt *s) {
  if (!s) return;
  for (int k = 0; k < s->ndecls; k++)
    assign(x, s->decls[k], s->kind == ST_FOREACH ? s->e : s->decls[k]->init);
  if (s->kind == ST_ASSIGN) assign_all(x, s->lhs, s->e);
  for (int k = 0; k < s->nbody; k++) follow(x, s->body[k]);
}

static void find_factors(Pedantic *x, const Stmt *s) {
  if (!s) return;
  if (s->kind == ST_TILDE || s->kind == ST_TARGET) {
    Row f = {NULL, new_set(x)};
    add_expr(x, s->lhs, f.in);
    add_expr(x, s->e, f.in);
    for (int k = 0; k < s->nargs; k++) add_expr(x, s->args[k], f.in);
    PUSH(x->a, x->factors, x->nfactors, x->cap_factors, f);
  }
  for (int k = 0; k < s->nbody; k++) find_factors(x, s->body[k]);
}

static bool share(const Pedantic *x, const bool *a, const bool *b, int but) {
  for (int k = 0; k < x->n; k++)
    if (k != but && a[k] && b[k]) return true;
  return false;
}

/* Does factor f lead to data without passing by the parameter? */
static bool leads_to_data(const Pedantic *x, int f, int but, bool *seen) {
  if (x->factors[f].in[x->n]) return true;
  seen[f] = true;
  for (int g = 0; g < x->nfactors; g++)
    if (!seen[g] && share(x, x->factors[f].in, x->factors[g].in, but) &&
        leads_to_data(x, g, but, seen))
      return true;
  return false;
}

static void judge(const Pedantic *x, Ctx *c, int k) {
  const Decl *d = x->parameters[k];
  bool used = false;
  for (int f = 0; f < x->nfactors; f++) {
    if (!x->factors[f].in[k]) continue;
    used = true;
    if (!leads_to_data(x, f, k, NEW_ARRAY(x->a, bool, x->nfactors + 1))) return;
  }
  if (!used)
    ctx_warn(c, d->loc,
             "The parameter %s was declared but was not used in the density calculation.", d->name);
  else
    ctx_warn(c, d->loc,
             "The parameter %s has no priors. This means either no prior is provided, or the "
             "prior(s) depend on data variables. In the later case, this may be a false positive.",
             d->name);
}

void stan_pedantic(Ctx *c, const Program *p) {
  TempArena *temp = temp_open(c);
  Pedantic x = {.a = &temp->arena, .p = p};
  const Stmt *block = p->blocks[BLOCK_PARAMETERS];
  for (int k = 0; block && k < block->nbody; k++)
    for (int j = 0; j < block->body[k]->ndecls; j++)
      PUSH(x.a, x.parameters, x.n, x.cap, block->body[k]->decls[j]);
  do {
    x.changed = false;
    for (BlockId b = BLOCK_TRANSFORMED_DATA; b <= BLOCK_MODEL; b++) follow(&x, p->blocks[b]);
  } while (x.changed);
  find_factors(&x, p->blocks[BLOCK_MODEL]);
  for (int k = 0; k < x.n; k++) judge(&x, c, k);
  temp_close(temp);
}
