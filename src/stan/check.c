/* check.c: tree -> typed tree; here the scopes, the functions and the blocks. Names are resolved in
 * the order of the text: a name is known from behind its declaration to the end of its block, and
 * no variable hides another. A variable may be named like a function, which it
 * hides. */
#include "stan/stan_int.h"

#include <string.h>

/* ---- messages -------------------------------------------------------------------------------- */

void check_error(Checker *k, Loc loc, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  stan_verror(k->c, loc, fmt, ap);
  va_end(ap);
}

const char *type_show(Checker *k, const Type *t) { return type_text(&k->c->arena, t); }

/* In generated quantities everything is a number already, so what depends on parameters passes for
 * data there. So does, as in Stan, what a function returns as int: size(theta). */
bool check_is_data(const Checker *k, const Expr *e) {
  if (e->data_only || k->block == BLOCK_GENERATED) return true;
  if (e->kind == EX_CALL) return type_is_int(e->type);
  for (int i = 0; i < e->nargs; i++)
    if (!check_is_data(k, e->args[i])) return false;
  for (int i = 0; i < e->nindexes; i++)
    if ((e->indexes[i].a && !check_is_data(k, e->indexes[i].a)) ||
        (e->indexes[i].b && !check_is_data(k, e->indexes[i].b)))
      return false;
  return e->kind != EX_VAR && e->kind != EX_TARGET;
}

/* ---- scopes ---------------------------------------------------------------------------------- */

int scope_enter(const Checker *k) { return k->nscope; }

void scope_leave(Checker *k, int mark) {
  while (k->nscope > mark) map_set(&k->names, k->scope[--k->nscope]->name, NULL);
}

Decl *scope_variable(const Checker *k, const char *name) { return map_get(&k->names, name); }

Overloads *scope_functions(const Checker *k, const char *name) {
  return map_get(&k->functions, name);
}

static bool ends_in(const char *s, const char *end) {
  size_t n = strlen(s), m = strlen(end);
  return n >= m && strcmp(s + n - m, end) == 0;
}

static bool check_name(Checker *k, const char *name, Loc loc) {
  Suffix s = suffix_of(name, &(size_t){0});
  if (ends_in(name, "__"))
    check_error(k, loc, "`%s`: a name cannot end in two underscores", name);
  else if (s == SUFFIX_LUPDF || s == SUFFIX_LUPMF)
    check_error(k, loc, "`%s`: a name cannot end in _lupdf or _lupmf", name);
  else
    return true;
  return false;
}

void scope_declare(Checker *k, Decl *d) {
  const Decl *old = scope_variable(k, d->name);
  d->block = k->block;
  d->slot = k->nslots++;
  check_name(k, d->name, d->loc);
  if (old) {
    check_error(k, d->loc, "`%s` is declared already, in line %u", d->name, old->loc.line);
    return;
  }
  map_set(&k->names, d->name, d);
  PUSH(&k->c->arena, k->scope, k->nscope, k->cap_scope, d);
}

const char *scope_nearest_variable(Checker *k, const char *name) {
  if (strlen(name) < 3) return NULL; /* all short names are near each other */
  const char **names = NEW_ARRAY(&k->c->arena, const char *, k->nscope + 1);
  for (int i = 0; i < k->nscope; i++) names[i] = k->scope[i]->name;
  return text_nearest(name, names, (size_t)k->nscope);
}

/* The nearest of the user's functions, the built-in ones, and the distributions with the same
 * ending. */
const char *scope_nearest_function(Checker *k, const char *name) {
  if (strlen(name) < 3) return NULL;
  Arena *a = &k->c->arena;
  size_t stem, n = 0;
  Suffix suffix = suffix_of(name, &stem);
  const char **names = NEW_ARRAY(a, const char *, k->functions.count + FUN_COUNT + DIST_COUNT);
  for (size_t i = 0; i < k->functions.count; i++) names[n++] = k->functions.items[i].key;
  for (int i = 0; i < FUN_COUNT; i++) names[n++] = stan_fun_names[i];
  for (int i = 0; suffix != SUFFIX_NONE && i < DIST_COUNT; i++)
    names[n++] = arena_format(a, "%s%s", stan_dist_names[i], name + stem);
  return text_nearest(name, names, n);
}

/* ---- functions ------------------------------------------------------------------------------- */

Suffix suffix_of(const char *name, size_t *stem) {
  static const char *const ends[] = {
      [SUFFIX_LPDF] = "_lpdf",         [SUFFIX_LPMF] = "_lpmf", [SUFFIX_LUPDF] = "_lupdf",
      [SUFFIX_LUPMF] = "_lupmf",       [SUFFIX_CDF] = "_cdf",   [SUFFIX_LCDF] = "_lcdf",
      [SUFFIX_LCCDF] = "_lccdf",       [SUFFIX_RNG] = "_rng",   [SUFFIX_LP] = "_lp",
      [SUFFIX_JACOBIAN] = "_jacobian",
  };
  for (int s = SUFFIX_LPDF; s <= SUFFIX_JACOBIAN; s++)
    if (ends_in(name, ends[s])) {
      *stem = strlen(name) - strlen(ends[s]);
      return (Suffix)s;
    }
  *stem = strlen(name);
  return SUFFIX_NONE;
}

bool stan_has_effects(const char *name) { return suffix_of(name, &(size_t){0}) >= SUFFIX_RNG; }

/* What the ending of its name asks of a function: densities return real and have an outcome of the
 * right kind. */
static void check_suffix(Checker *k, const FunDef *f) {
  Suffix s = suffix_of(f->name, &(size_t){0});
  bool density = s == SUFFIX_LPDF || s == SUFFIX_LPMF,
       cdf = s == SUFFIX_CDF || s == SUFFIX_LCDF || s == SUFFIX_LCCDF;
  if (!density && !cdf) {
    if (s == SUFFIX_RNG && f->type->result->kind == TY_VOID)
      check_error(k, f->loc, "`%s`: a function whose name ends in _rng must return something",
                  f->name);
    return;
  }
  if (!type_is(f->type->result, TY_REAL))
    check_error(k, f->loc, "`%s` must return real, as the ending of its name says, but returns %s",
                f->name, type_show(k, f->type->result));
  if (f->nargs == 0) {
    check_error(k, f->loc, "`%s` must have an outcome as its first argument", f->name);
    return;
  }
  const Type *outcome = f->args[0]->type;
  if (s == SUFFIX_LPDF && type_is_int(outcome))
    check_error(k, f->args[0]->loc, "the outcome of a density (_lpdf) must be real, but is %s",
                type_show(k, outcome));
  if (s == SUFFIX_LPMF && !type_is_int(outcome))
    check_error(k, f->args[0]->loc, "the outcome of a mass function (_lpmf) must be int, but is %s",
                type_show(k, outcome));
}

static bool same_arguments(const FunDef *a, const FunDef *b) {
  if (a->nargs != b->nargs) return false;
  for (int i = 0; i < a->nargs; i++)
    if (!type_equal(a->args[i]->type, b->args[i]->type)) return false;
  return true;
}

static bool same_data(const FunDef *a, const FunDef *b) {
  for (int i = 0; i < a->nargs; i++)
    if (a->args[i]->arg_data != b->args[i]->arg_data) return false;
  return true;
}

/* The definition of a function that was declared before completes the declaration; any other
 * repetition is an error. */
static void complete_declaration(Checker *k, FunDef *old, const FunDef *f) {
  if (!type_equal(old->type->result, f->type->result) || !same_data(old, f)) {
    check_error(k, f->loc,
                "`%s` takes the same arguments as in line %u, but is declared differently there",
                f->name, old->loc.line);
  } else if (old->body || !f->body) {
    check_error(k, f->loc, "`%s` with these arguments is %s already, in line %u", f->name,
                old->body ? "defined" : "declared", old->loc.line);
  } else {
    old->body = f->body;
    old->args = f->args;
    old->loc = f->loc;
  }
}

/* Adds f to the functions of its name; false when it was there already. */
static bool add_function(Checker *k, FunDef *f) {
  Overloads *o = scope_functions(k, f->name);
  if (!o) {
    o = NEW(&k->c->arena, Overloads);
    map_set(&k->functions, f->name, o);
  }
  for (int i = 0; i < o->n; i++)
    if (same_arguments(o->defs[i], f)) {
      complete_declaration(k, o->defs[i], f);
      return false;
    }
  if (!check_may_overload(k, f))
    check_error(k, f->loc, "`%s` is a built-in function that takes these arguments already",
                f->name);
  PUSH(&k->c->arena, o->defs, o->n, o->cap, f);
  return true;
}

/* ---- does every path return? ----------------------------------------------------------------- */

static bool has_break(const Stmt *s) {
  if (s->kind == ST_BREAK) return true;
  if (s->kind == ST_FOR || s->kind == ST_FOREACH || s->kind == ST_WHILE) return false;
  for (int i = 0; i < s->nbody; i++)
    if (s->body[i] && has_break(s->body[i])) return true;
  return false;
}

static bool always_returns(const Stmt *s) {
  switch (s->kind) {
  case ST_RETURN:
  case ST_REJECT:
  case ST_FATAL: return true;
  case ST_IF: return s->body[1] && always_returns(s->body[0]) && always_returns(s->body[1]);
  case ST_FOR:
  case ST_FOREACH: return always_returns(s->body[0]);
  case ST_WHILE: return s->e->kind == EX_INT && s->e->ivalue != 0 && !has_break(s->body[0]);
  case ST_BLOCK:
  case ST_PROFILE:
    for (int i = 0; i < s->nbody; i++)
      if (always_returns(s->body[i])) return true;
    return false;
  default: return false;
  }
}

static void check_body(Checker *k, FunDef *f) {
  int mark = scope_enter(k);
  k->fun = f;
  k->nslots = 0;
  for (int i = 0; i < f->nargs; i++) {
    Decl *d = f->args[i];
    scope_declare(k, d);
    d->data_only = d->arg_data || type_is_int(d->type);
  }
  check_stmt(k, f->body);
  if (f->type->result->kind != TY_VOID && !always_returns(f->body))
    check_error(k, f->loc, "`%s` must return %s on every path, but can end without", f->name,
                type_show(k, f->type->result));
  f->nslots = k->nslots;
  k->fun = NULL;
  scope_leave(k, mark);
}

/* All functions are known in all bodies, whatever their order. */
static void check_functions(Checker *k) {
  Program *p = k->p;
  int n = 0;
  for (int i = 0; i < p->nfunctions; i++) {
    FunDef *f = p->functions[i];
    if (!check_name(k, f->name, f->loc)) continue;
    check_suffix(k, f);
    if (add_function(k, f)) p->functions[n++] = f;
  }
  p->nfunctions = n;
  for (int i = 0; i < n; i++) {
    FunDef *f = p->functions[i];
    if (f->body)
      check_body(k, f);
    else if (!p->undefined)
      check_error(k, f->loc, "`%s` is declared, but its body is missing", f->name);
  }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void check_block(Checker *k, BlockId b) {
  const Stmt *body = k->p->blocks[b];
  int mark = scope_enter(k);
  k->block = b;
  for (int i = 0; i < body->nbody; i++) {
    Stmt *s = body->body[i];
    if (s->kind == ST_DECL)
      check_decls(k, s, b != BLOCK_MODEL);
    else if ((b == BLOCK_DATA || b == BLOCK_PARAMETERS) && s->kind != ST_SKIP)
      check_error(k, s->loc, "the %s block can only declare variables", stan_block_name(b));
    else
      check_stmt(k, s);
  }
  if (b == BLOCK_MODEL) scope_leave(k, mark);
}

void stan_check(Ctx *c, Program *p) {
  if (p->broken) return;
  Checker *k = NEW(&c->arena, Checker);
  k->c = c;
  k->p = p;
  k->names = map_make(&c->arena);
  k->functions = map_make(&c->arena);
  k->builtins = map_make(&c->arena);
  k->dists = map_make(&c->arena);
  for (int i = 0; i < FUN_COUNT; i++)
    map_set(&k->builtins, stan_fun_names[i], (void *)(intptr_t)(i + 1));
  for (int i = 0; i < DIST_COUNT; i++)
    map_set(&k->dists, stan_dist_names[i], (void *)(intptr_t)(i + 1));
  p->sigs = &k->sigs;
  check_functions(k);
  k->nslots = 0;
  for (int b = BLOCK_DATA; b < BLOCK_COUNT; b++)
    if (p->blocks[b]) check_block(k, (BlockId)b);
  p->nslots = k->nslots;
}
