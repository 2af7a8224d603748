/* dataflow.c: which increments of a program depend on data, directly or by way of other variables.
 *
 * Asked only where no density of data stands in a program: what it has observed is then in the
 * increments that say something of data in another form, a density spelled out, a probability
 * looked up by the outcome (log(p[y[n]])), a residual that was computed before (err ~ normal).
 */
#include "stan/stan.h"

/* The variables that were followed so far; whoever asks for one again gets "no", so that the search
 * ends. */
typedef struct {
  const Program *p;
  Arena *a;
  const Decl **seen;
  int n, cap;
} Search;

static bool depends(Search *s, const Expr *e);

static bool any_depends(Search *s, Expr *const *list, int n) {
  for (int k = 0; k < n; k++)
    if (depends(s, list[k])) return true;
  return false;
}

static bool index_depends(Search *s, const Expr *e) {
  for (int k = 0; k < e->nindexes; k++)
    if (depends(s, e->indexes[k].a) || depends(s, e->indexes[k].b)) return true;
  return false;
}

static bool assigns(const Expr *lhs, const Decl *d) {
  if (lhs->kind != EX_TUPLE) return stan_root(lhs) == d;
  for (int k = 0; k < lhs->nargs; k++)
    if (assigns(lhs->args[k], d)) return true;
  return false;
}

/* Is the variable given, somewhere in the statement, a value that depends on data? Which of its
 * elements it is does not matter: x[k] = 1 is no data. */
static bool gets_data(Search *s, const Stmt *st, const Decl *d) {
  if (!st) return false;
  for (int k = 0; k < st->ndecls; k++)
    if (st->decls[k] == d && (depends(s, d->init) || (st->kind == ST_FOREACH && depends(s, st->e))))
      return true;
  if (st->kind == ST_ASSIGN && assigns(st->lhs, d) && depends(s, st->e)) return true;
  for (int k = 0; k < st->nbody; k++)
    if (gets_data(s, st->body[k], d)) return true;
  return false;
}

/* An int by itself is a size or a switch. */
static bool is_size(const Decl *d) { return d->type->kind == TY_INT && !d->type->array_dims; }

static bool variable_depends(Search *s, const Decl *d) {
  if (!d || d->is_arg || (d->is_top && d->block == BLOCK_PARAMETERS)) return false;
  if (d->is_top && d->block == BLOCK_DATA) return !is_size(d);
  for (int k = 0; k < s->n; k++)
    if (s->seen[k] == d) return false;
  PUSH(s->a, s->seen, s->n, s->cap, d);
  for (int b = BLOCK_TRANSFORMED_DATA; b <= BLOCK_MODEL; b++)
    if (gets_data(s, s->p->blocks[b], d)) return true;
  return false;
}

/* A density depends on what it is a density of: data for its parameters are a prior's. */
static bool depends(Search *s, const Expr *e) {
  if (!e) return false;
  if (e->kind == EX_VAR) return variable_depends(s, e->decl);
  if (e->kind == EX_CALL && e->bar) return e->nargs && depends(s, e->args[0]);
  return any_depends(s, e->args, e->nargs) || index_depends(s, e);
}

/* A density of parameters is a prior, whatever data it has for its own parameters. */
static bool has_density(const Expr *e) {
  if (e->kind == EX_CALL && e->bar) return true;
  for (int k = 0; k < e->nargs; k++)
    if (has_density(e->args[k])) return true;
  return false;
}

/* A density by name, of what was computed from data; or an increment without any. */
static bool may_observe(Search *s, const Stmt *st) {
  if (st->kind == ST_TILDE) return depends(s, st->lhs);
  if (st->kind != ST_TARGET) return false;
  const Expr *e = stan_inside(st->e);
  if (e->kind == EX_CALL && e->bar && e->nargs) return depends(s, e->args[0]);
  return !has_density(e) && depends(s, e);
}

typedef struct {
  Search s;
  const Stmt **found;
  int n, cap;
} Found;

static void collect(Found *f, const Stmt *st) {
  if (!st) return;
  f->s.n = 0;
  if (may_observe(&f->s, st)) PUSH(f->s.a, f->found, f->n, f->cap, st);
  for (int k = 0; k < st->nbody; k++) collect(f, st->body[k]);
}

const Stmt *const *stan_possible_observations(Arena *a, const Program *p, int *n) {
  Found f = {.s = {.p = p, .a = a}};
  collect(&f, p->blocks[BLOCK_MODEL]);
  *n = f.n;
  return f.found;
}
