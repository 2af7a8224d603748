/* check_laplace.c: the functions of the Laplace approximation, which integrate a latent normal
 * vector out of a likelihood. Their arguments are not those of a signature: functions come with a
 * tuple of their further arguments, so they are checked here.
 *
 *   laplace_marginal[_tol](likelihood, (...), block, covariance, (...) [, (options)])
 *   laplace_latent[_tol]_rng(the same), laplace_latent_solve[_tol](the same)
 *   laplace_marginal[_tol]_<family>_lpmf(y | index, [eta,] mean, block, covariance, (...) [,
 * (options)]) laplace_latent[_tol]_<family>_rng(the same with y in front)
 *
 * The options are (start, tolerance, steps, solver, steps of a line search, whether to try others).
 */
#include "stan/stan_int.h"

#include <string.h>

/* ---- names ----------------------------------------------------------------------------------- */

static bool skip(const char **at, const char *word) {
  size_t n = strlen(word);
  if (strncmp(*at, word, n) != 0) return false;
  *at += n;
  return true;
}

bool laplace_named(const char *name, LaplaceCall *out) {
  static const char *const families[] = {
      [LAPLACE_ANY] = "",
      [LAPLACE_POISSON_LOG] = "_poisson_log",
      [LAPLACE_BERNOULLI_LOGIT] = "_bernoulli_logit",
      [LAPLACE_NEG_BINOMIAL_2_LOG] = "_neg_binomial_2_log",
  };
  LaplaceCall c = {.family = LAPLACE_ANY};
  const char *at = name;
  if (!skip(&at, "laplace_")) return false;
  bool marginal = skip(&at, "marginal");
  if (!marginal && !skip(&at, "latent")) return false;
  c.what = marginal ? LAPLACE_MARGINAL : skip(&at, "_solve") ? LAPLACE_SOLVE : LAPLACE_DRAW;
  c.tol = skip(&at, "_tol");
  for (int f = LAPLACE_POISSON_LOG; c.what != LAPLACE_SOLVE && f <= LAPLACE_NEG_BINOMIAL_2_LOG; f++)
    if (skip(&at, families[f])) c.family = (LaplaceFamily)f;
  *out = c;
  if (c.what == LAPLACE_DRAW) return !strcmp(at, "_rng");
  if (c.family == LAPLACE_ANY) return !*at;
  return !strcmp(at, "_lpmf") || !strcmp(at, "_lupmf");
}

/* ---- what a likelihood may not call ---------------------------------------------------------- */

/* Its second derivatives are needed, which solvers do not have. */
static bool has_no_second_derivatives(const char *name) {
  static const char *const begins[] = {
      "algebra_solver", "solve_newton", "solve_powell", "ode_",    "integrate_ode", "dae",
      "map_rect",       "reduce_sum",   "hmm_",         "laplace_"};
  for (size_t k = 0; k < sizeof begins / sizeof *begins; k++)
    if (!strncmp(name, begins[k], strlen(begins[k]))) return true;
  return false;
}

/* The functions that were looked at. */
typedef struct {
  Checker *k;
  const FunDef **seen;
  int n, cap;
} Walk;

static const char *offender_in_function(Walk *w, const FunDef *f);

static const char *offender(Walk *w, const Expr *e) {
  const char *found = NULL;
  if (!e) return NULL;
  for (int i = 0; i < e->nargs && !found; i++) found = offender(w, e->args[i]);
  for (int i = 0; i < e->nindexes && !found; i++) {
    found = offender(w, e->indexes[i].a);
    if (!found) found = offender(w, e->indexes[i].b);
  }
  if (found) return found;
  if (e->user) return offender_in_function(w, e->user);
  return e->kind == EX_CALL && has_no_second_derivatives(e->name) ? e->name : NULL;
}

static const char *offender_in(Walk *w, const Stmt *s) {
  const char *found = NULL;
  if (!s) return NULL;
  const Expr *const exprs[] = {s->lhs, s->e, s->from, s->to, s->lower, s->upper};
  for (size_t i = 0; i < sizeof exprs / sizeof *exprs && !found; i++) found = offender(w, exprs[i]);
  for (int i = 0; i < s->nargs && !found; i++) found = offender(w, s->args[i]);
  for (int i = 0; i < s->ndecls && !found; i++) found = offender(w, s->decls[i]->init);
  for (int i = 0; i < s->nbody && !found; i++) found = offender_in(w, s->body[i]);
  return found;
}

static const char *offender_in_function(Walk *w, const FunDef *f) {
  for (int i = 0; i < w->n; i++)
    if (w->seen[i] == f) return NULL;
  PUSH(&w->k->c->arena, w->seen, w->n, w->cap, f);
  return offender_in(w, f->body);
}

/* ---- functions with a tuple of arguments ----------------------------------------------------- */

/* Item i of a tuple, as an expression where it is written out, else NULL. */
static const Expr *item_of(const Expr *tuple, int i) {
  while (tuple->kind == EX_PAREN) tuple = tuple->args[0];
  return tuple->kind == EX_TUPLE ? tuple->args[i] : NULL;
}

static bool item_is_data(Checker *k, const Expr *tuple, int i) {
  const Expr *e = item_of(tuple, i);
  return check_is_data(k, e ? e : tuple);
}

/* The cost of calling f with `latent` vectors and then the tuple's items; -1: it cannot be. */
static int cost_of(Checker *k, const FunDef *f, TypeKind result, int latent, const Expr *tuple) {
  const Type *t = tuple->type;
  int sum = 0;
  if (f->nargs != latent + t->nitems || f->type->result->kind != result ||
      f->type->result->array_dims)
    return -1;
  if (latent &&
      (f->args[0]->type->kind != TY_VECTOR || f->args[0]->type->array_dims || f->args[0]->arg_data))
    return -1;
  for (int i = 0; i < t->nitems; i++) {
    const Decl *d = f->args[latent + i];
    int cost = type_promotions(t->items[i], d->type);
    if (cost < 0 || (d->arg_data && !item_is_data(k, tuple, i))) return -1;
    sum += cost;
  }
  return sum;
}

static bool is_tuple(Checker *k, const Expr *e, const char *what) {
  if (e->type->kind == TY_TUPLE && !e->type->array_dims) return true;
  check_error(k, e->loc, "%s must be a tuple, but is %s", what, type_show(k, e->type));
  return false;
}

/* The definition of a function argument that fits the tuple behind it. */
static bool pick(Checker *k, Expr *name, TypeKind result, int latent, const Expr *tuple) {
  Overloads *o = name->kind == EX_VAR && !name->decl ? scope_functions(k, name->name) : NULL;
  Suffix s = name->kind == EX_VAR ? suffix_of(name->name, &(size_t){0}) : SUFFIX_NONE;
  if (!o || s == SUFFIX_LP || s == SUFFIX_RNG || s == SUFFIX_JACOBIAN) {
    check_error(k, name->loc,
                "this must be the name of a function that you define, and which changes "
                "neither target nor Jacobian and draws no random numbers");
    return false;
  }
  int best = -1, ties = 0;
  for (int i = 0; i < o->n; i++) {
    int cost = cost_of(k, o->defs[i], result, latent, tuple);
    if (cost < 0 || (best >= 0 && cost > best)) continue;
    ties = cost == best;
    best = cost;
    name->user = o->defs[i];
    name->type = o->defs[i]->type;
  }
  if (best >= 0 && !ties) return true;
  check_error(k, name->loc, "`%s` must be a function of %s%s that returns %s", name->name,
              latent ? "a vector and then " : "",
              arena_format(&k->c->arena, "the items of %s", type_show(k, tuple->type)),
              result == TY_REAL ? "real" : "matrix");
  return false;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static bool is(Checker *k, const Expr *e, const Type *want, const char *what) {
  if (type_promotions(e->type, want) >= 0) return true;
  check_error(k, e->loc, "%s must be %s, but is %s", what, type_show(k, want),
              type_show(k, e->type));
  return false;
}

/* (vector, real, int, int, int, int), all data. */
static bool are_options(Checker *k, const Expr *e) {
  static const TypeKind kinds[] = {TY_VECTOR, TY_REAL, TY_INT, TY_INT, TY_INT, TY_INT};
  enum { COUNT = sizeof kinds / sizeof *kinds };
  if (!is_tuple(k, e, "the options of the approximation")) return false;
  bool fine = e->type->nitems == COUNT;
  for (int i = 0; fine && i < COUNT; i++)
    fine = type_promotions(e->type->items[i], type_basic(kinds[i])) >= 0 &&
           (i == 0 || item_is_data(k, e, i));
  if (!fine)
    check_error(
        k, e->loc,
        "the options of the approximation are (vector, real, int, int, int, int), all of them "
        "data but the first, not %s",
        type_show(k, e->type));
  return fine;
}

/* What a family is given in front of the block size: outcomes, their places in the latent vector, a
 * precision, the prior mean. */
static bool family_args(Checker *k, Expr **a, LaplaceFamily family) {
  const Type *ints = type_array(&k->c->arena, type_basic(TY_INT), 1);
  bool fine = is(k, a[0], ints, "the outcome");
  fine &= is(k, a[1], ints, "the index of the outcomes");
  int mean = 2;
  if (family == LAPLACE_NEG_BINOMIAL_2_LOG) {
    mean = 3;
    if (!type_is_scalar(a[2]->type)) fine &= is(k, a[2], type_basic(TY_VECTOR), "the precision");
  }
  fine &= is(k, a[mean], type_basic(TY_VECTOR), "the prior mean");
  return fine;
}

int laplace_block(LaplaceFamily f) {
  return f == LAPLACE_ANY ? 2 : f == LAPLACE_NEG_BINOMIAL_2_LOG ? 4 : 3;
}

static bool likelihood_fits(Checker *k, Expr **a) {
  if (!is_tuple(k, a[1], "the likelihood's arguments") || !pick(k, a[0], TY_REAL, 1, a[1]))
    return false;
  const char *bad = offender_in_function(&(Walk){.k = k}, a[0]->user);
  if (bad)
    check_error(k, a[0]->loc, "the likelihood calls `%s`, whose second derivatives are not known",
                bad);
  return !bad;
}

static const Type *result_of(Checker *k, const LaplaceCall *c) {
  if (c->what == LAPLACE_MARGINAL) return type_basic(TY_REAL);
  if (c->what == LAPLACE_DRAW) return type_basic(TY_VECTOR);
  const Type **items = NEW_ARRAY(&k->c->arena, const Type *, 2);
  items[0] = type_basic(TY_VECTOR), items[1] = type_basic(TY_MATRIX);
  return type_tuple(&k->c->arena, items, 2);
}

static bool is_generated(const Checker *k) { return !k->fun && k->block == BLOCK_GENERATED; }

void check_laplace(Checker *k, Expr *e, const LaplaceCall *c) {
  int block = laplace_block(c->family), want = block + 3 + c->tol;
  e->type = type_basic(TY_ERROR);
  if (e->nargs != want) {
    check_error(k, e->loc, "`%s` takes %d arguments, but is given %d", e->name, want, e->nargs);
    return;
  }
  for (int i = 0; i < e->nargs; i++)
    if (type_is_error(e->args[i]->type)) return;
  Expr **a = e->args;
  bool fine = c->family == LAPLACE_ANY ? likelihood_fits(k, a) : family_args(k, a, c->family);
  fine = fine && is(k, a[block], type_basic(TY_INT), "the block size") &&
         is_tuple(k, a[block + 2], "the covariance's arguments") &&
         pick(k, a[block + 1], TY_MATRIX, 0, a[block + 2]) &&
         (!c->tol || are_options(k, a[block + 3]));
  if (!fine) return;
  if (c->what == LAPLACE_SOLVE && !is_generated(k) && !(a[1]->data_only && a[block + 2]->data_only))
    check_error(
        k, e->loc,
        "outside of generated quantities `%s` can be called only with arguments that are data",
        e->name);
  e->call = CALL_LAPLACE;
  e->type = result_of(k, c);
}
