/* check_call.c: which function a call or a `~` means. The user's functions, the built-in ones and
 * the distributions are all candidates; the one that needs the fewest promotions is taken. The
 * ending of a name says where it may be called. */
#include "stan/stan_int.h"

#include <string.h>

typedef struct {
  CallKind call;
  FunDef *user;
  int builtin;
  DistFun distfun;
  const Type *result;
  int cost;
  bool tie; /* another of the user's functions fits as well */
} Callee;

/* ---- arguments ------------------------------------------------------------------------------- */

/* Types and data-ness of the arguments, after they have been checked; false when one of them is
 * erroneous. */
static bool args_of(Checker *k, Expr **exprs, int n, Args *args) {
  bool fine = true;
  const Type **types = NEW_ARRAY(&k->c->arena, const Type *, n);
  bool *data = NEW_ARRAY(&k->c->arena, bool, n);
  for (int i = 0; i < n; i++) {
    types[i] = exprs[i]->type;
    data[i] = check_is_data(k, exprs[i]);
    fine &= !type_is_error(types[i]);
  }
  *args = (Args){.n = n, .types = types, .data = data, .exprs = exprs};
  return fine;
}

static const char *show_args(Checker *k, const Args *args) {
  Text t = text_make(&k->c->arena);
  for (int i = 0; i < args->n; i++) {
    if (i) text_puts(&t, ", ");
    stan_print_type(&t, args->types[i]);
  }
  return args->n ? t.s : "nothing";
}

/* ---- candidates ------------------------------------------------------------------------------ */

static int match_user(const FunDef *f, const Args *args) {
  int sum = 0;
  if (args->n != f->nargs) return -1;
  for (int i = 0; i < args->n; i++) {
    int cost = type_promotions(args->types[i], f->args[i]->type);
    if (cost < 0 || (f->args[i]->arg_data && !args->data[i])) return -1;
    sum += cost;
  }
  return sum;
}

static void try_users(Checker *k, const char *name, const Args *args, Callee *best) {
  Overloads *o = scope_functions(k, name);
  for (int i = 0; o && i < o->n; i++) {
    int cost = match_user(o->defs[i], args);
    if (cost < 0 || (best->result && cost > best->cost)) continue;
    bool tie = best->result && cost == best->cost;
    *best = (Callee){.call = CALL_USER,
                     .user = o->defs[i],
                     .result = o->defs[i]->type->result,
                     .cost = cost,
                     .tie = tie};
  }
}

static void consider(Callee *best, Callee c) {
  if (c.result && (!best->result || c.cost < best->cost)) *best = c;
}

static int builtin_named(const Map *m, const char *name) {
  return (int)(intptr_t)map_get(m, name) - 1;
}

static void try_function(Checker *k, const char *name, const Args *args, Callee *best) {
  int f = builtin_named(&k->builtins, name);
  if (f < 0) return;
  Callee c = {.call = CALL_FUNCTION, .builtin = f};
  c.result = sig_match(k, sig_function(k, (FunId)f), args, &c.cost);
  consider(best, c);
}

/* The distribution and its function that a name like normal_lcdf means; false when there is none.
 */
static bool dist_named(Checker *k, const char *name, DistId *d, DistFun *fun) {
  static const struct {
    DistFun fun;
    unsigned flag;
  } of[] = {
      [SUFFIX_LPDF] = {DF_LPDF, PDF},     [SUFFIX_LUPDF] = {DF_LPDF, PDF},
      [SUFFIX_LPMF] = {DF_LPDF, PMF},     [SUFFIX_LUPMF] = {DF_LPDF, PMF},
      [SUFFIX_CDF] = {DF_CDF, CDF},       [SUFFIX_LCDF] = {DF_LCDF, LCDF},
      [SUFFIX_LCCDF] = {DF_LCCDF, LCCDF}, [SUFFIX_RNG] = {DF_RNG, RNG},
  };
  size_t stem;
  Suffix s = suffix_of(name, &stem);
  if (s == SUFFIX_NONE || s >= SUFFIX_LP) return false;
  int found = builtin_named(&k->dists, arena_text(&k->c->arena, name, stem));
  if (found < 0 || !(stan_dist_flags((DistId)found) & of[s].flag)) return false;
  *d = (DistId)found;
  *fun = of[s].fun;
  return true;
}

static const Type *match_dist(Checker *k, DistId d, DistFun fun, const Args *args, int *cost) {
  return fun == DF_RNG ? sig_match_rng(k, d, args, cost)
                       : sig_match(k, sig_density(k, d), args, cost);
}

static void try_dist(Checker *k, const char *name, const Args *args, Callee *best) {
  DistId d;
  Callee c = {.call = CALL_DIST};
  if (!dist_named(k, name, &d, &c.distfun)) return;
  c.builtin = (int)d;
  c.result = match_dist(k, d, c.distfun, args, &c.cost);
  consider(best, c);
}

/* foo_lupdf calls what is defined as foo_lpdf. */
const char *suffix_defined_name(Checker *k, const char *name) {
  size_t stem;
  Suffix s = suffix_of(name, &stem);
  if (s != SUFFIX_LUPDF && s != SUFFIX_LUPMF) return name;
  return arena_format(&k->c->arena, "%.*s%s", (int)stem, name,
                      s == SUFFIX_LUPDF ? "_lpdf" : "_lpmf");
}

bool check_may_overload(Checker *k, const FunDef *f) {
  if (laplace_named(f->name, &(LaplaceCall){0})) return false;
  int id = builtin_named(&k->builtins, f->name);
  if (id >= 0 && strstr(sig_text((FunId)id), "...")) return false;
  Callee best = {0};
  Args args = {.n = f->nargs, .types = (const Type **)f->type->items};
  try_function(k, f->name, &args, &best);
  try_dist(k, f->name, &args, &best);
  return !best.result || best.cost > 0;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Names that were functions once. */
static const char *removed(const char *name) {
  static const char *const rows[][2] = {
      {"increment_log_prob", "write `target += ...`"},
      {"get_lp", "write `target()`"},
      {"if_else", "write `c ? a : b`"},
      {"fabs", "write `abs`"},
      {"multiply_log", "write `lmultiply`"},
      {"binomial_coefficient_log", "write `lchoose`"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i][0], name) == 0) return rows[i][1];
  return NULL;
}

/* The distribution a name begins with, when the name is it, or it with an ending that it does not
 * have. */
static int dist_meant(Checker *k, const char *name) {
  size_t stem, n = strlen(name);
  suffix_of(name, &stem);
  if (stem == n && n > 4 && strcmp(name + n - 4, "_log") == 0) stem = n - 4;
  return builtin_named(&k->dists, arena_text(&k->c->arena, name, stem));
}

static const char *dist_functions(Checker *k, DistId d) {
  static const struct {
    unsigned flag;
    const char *end;
  } rows[] = {{PDF, "_lpdf"},  {PMF, "_lpmf"},    {CDF, "_cdf"},
              {LCDF, "_lcdf"}, {LCCDF, "_lccdf"}, {RNG, "_rng"}};
  Text t = text_make(&k->c->arena);
  for (int i = 0; i < 6; i++)
    if (stan_dist_flags(d) & rows[i].flag)
      text_printf(&t, "%s%s%s", t.n ? ", " : "", stan_dist_names[d], rows[i].end);
  return t.s;
}

static void unknown_function(Checker *k, const char *name, Loc loc) {
  int d = dist_meant(k, name);
  const char *near = scope_nearest_function(k, name);
  if (scope_variable(k, name))
    check_error(k, loc, "`%s` is a variable, not a function", name);
  else if (removed(name))
    check_error(k, loc, "`%s` is no longer a function: %s", name, removed(name));
  else if (d >= 0)
    check_error(k, loc, "there is no function `%s`; the distribution %s has %s", name,
                stan_dist_names[d], dist_functions(k, (DistId)d));
  else if (near)
    check_error(k, loc, "there is no function `%s`; did you mean `%s`?", name, near);
  else
    check_error(k, loc, "there is no function `%s`", name);
}

/* Why the only function of its name cannot take these arguments. */
static void explain_user(Checker *k, const FunDef *f, const Args *args, Loc loc) {
  if (args->n != f->nargs) {
    check_error(k, loc, "`%s` takes %d argument%s, but is given %d", f->name, f->nargs,
                f->nargs == 1 ? "" : "s", args->n);
    return;
  }
  for (int i = 0; i < args->n; i++) {
    const Decl *d = f->args[i];
    if (type_promotions(args->types[i], d->type) < 0)
      check_error(k, args->exprs[i]->loc, "argument `%s` of `%s` must be %s, but is %s", d->name,
                  f->name, type_show(k, d->type), type_show(k, args->types[i]));
    else if (d->arg_data && !args->data[i])
      check_error(k, args->exprs[i]->loc,
                  "argument `%s` of `%s` must be data, but depends on parameters", d->name,
                  f->name);
  }
}

static void describe_users(Text *t, const Overloads *o) {
  for (int i = 0; o && i < o->n && i < 4; i++) {
    if (t->n) text_puts(t, "; ");
    stan_print_type(t, o->defs[i]->type->result);
    text_printf(t, " %s(", o->defs[i]->name);
    for (int j = 0; j < o->defs[i]->nargs; j++) {
      if (j) text_puts(t, ", ");
      if (o->defs[i]->args[j]->arg_data) text_puts(t, "data ");
      stan_print_type(t, o->defs[i]->args[j]->type);
    }
    text_puts(t, ")");
  }
}

/* The name is known, but no candidate takes these arguments. */
static void no_match(Checker *k, const char *name, const Args *args, Loc loc) {
  Overloads *o = scope_functions(k, name);
  int f = builtin_named(&k->builtins, name);
  DistId d;
  DistFun fun;
  bool dist = dist_named(k, name, &d, &fun);
  if (o && o->n == 1 && f < 0 && !dist) {
    explain_user(k, o->defs[0], args, loc);
    return;
  }
  Text t = text_make(&k->c->arena);
  describe_users(&t, o);
  if (f >= 0) sig_describe(&t, name, sig_text((FunId)f), false);
  if (dist) sig_describe_dist(&t, name, d, fun);
  check_error(k, loc, "`%s` cannot take (%s); there is: %s", name, show_args(k, args), t.s);
}

/* ---- where a function may be called ---------------------------------------------------------- */

static Suffix suffix_here(const Checker *k) {
  return k->fun ? suffix_of(k->fun->name, &(size_t){0}) : SUFFIX_NONE;
}

void check_where(Checker *k, const char *name, Loc loc) {
  Suffix s = suffix_of(name, &(size_t){0});
  Suffix here = suffix_here(k);
  BlockId b = k->fun ? BLOCK_COUNT : k->block;
  bool fine = true;
  const char *where = "";
  switch (s) {
  case SUFFIX_RNG:
    fine = here == SUFFIX_RNG || b == BLOCK_TRANSFORMED_DATA || b == BLOCK_GENERATED;
    where = "in transformed data, in generated quantities and in functions whose names end in _rng";
    break;
  case SUFFIX_LP:
    fine = here == SUFFIX_LP || b == BLOCK_MODEL || b == BLOCK_TRANSFORMED_PARAMETERS;
    where = "in transformed parameters, in the model block and in functions whose names end in _lp";
    break;
  case SUFFIX_JACOBIAN:
    fine = check_may_change_jacobian(k);
    where = "in transformed parameters and in functions whose names end in _jacobian";
    break;
  case SUFFIX_LUPDF:
  case SUFFIX_LUPMF:
    fine = here == SUFFIX_LPDF || here == SUFFIX_LPMF || b == BLOCK_MODEL;
    where = "in the model block and in functions whose names end in _lpdf or _lpmf";
    break;
  default: break;
  }
  if (!fine) check_error(k, loc, "`%s` can be called only %s", name, where);
}

/* Densities have `|` behind their outcome, and nothing else has it. */
static void check_bar(Checker *k, const Expr *e, Suffix s) {
  bool density = s >= SUFFIX_LPDF && s <= SUFFIX_LCCDF;
  if (density && !e->bar && e->nargs > 1)
    check_error(k, e->loc, "write `|` behind the first argument of `%s`", e->name);
  if (!density && e->bar)
    check_error(k, e->loc,
                "`|` belongs to functions whose names end in _lpdf, _lpmf, _cdf, _lcdf or _lccdf; "
                "write `,`");
}

/* ---- calls ----------------------------------------------------------------------------------- */

static bool is_known(Checker *k, const char *name) {
  return scope_functions(k, name) || builtin_named(&k->builtins, name) >= 0 ||
         dist_named(k, name, &(DistId){0}, &(DistFun){0});
}

static void resolve(Checker *k, Expr *e, const Args *args) {
  const char *name = suffix_defined_name(k, e->name);
  Callee best = {0};
  try_users(k, name, args, &best);
  bool tie = best.tie;
  try_function(k, name, args, &best);
  try_dist(k, name, args, &best);
  if (!best.result) {
    no_match(k, name, args, e->loc);
    return;
  }
  if (tie && best.call == CALL_USER)
    check_error(k, e->loc,
                "`%s` with (%s) is ambiguous: several of its definitions fit equally well", e->name,
                show_args(k, args));
  e->call = best.call;
  e->user = best.user;
  e->builtin = best.builtin;
  e->distfun = best.distfun;
  e->type = best.result;
}

/* Is the value the same whenever the arguments are? Not when it draws random numbers or reads the
 * target. */
static bool is_pure(const Checker *k, Suffix s) {
  return s != SUFFIX_LP && (s != SUFFIX_RNG || (!k->fun && k->block == BLOCK_TRANSFORMED_DATA));
}

/* reduce_sum takes apart arrays of numbers, vectors and matrices only. */
static void check_slices(Checker *k, const Expr *e) {
  if (e->call != CALL_FUNCTION ||
      (e->builtin != FUN_reduce_sum && e->builtin != FUN_reduce_sum_static))
    return;
  const Type *t = e->args[1]->type;
  if (t->kind != TY_TUPLE && t->kind != TY_COMPLEX && t->kind <= TY_MATRIX) return;
  check_error(
      k, e->args[1]->loc,
      "`%s` takes apart an array of int, real, vector, row_vector or matrix, but this is %s",
      e->name, type_show(k, t));
}

void check_call(Checker *k, Expr *e, bool as_statement) {
  Suffix s = suffix_of(e->name, &(size_t){0});
  Args args;
  e->data_only = is_pure(k, s);
  for (int i = 0; i < e->nargs; i++) {
    check_expr(k, e->args[i]);
    e->data_only &= e->args[i]->data_only;
  }
  LaplaceCall laplace;
  if (laplace_named(e->name, &laplace)) {
    check_where(k, e->name, e->loc);
    check_bar(k, e, s);
    check_laplace(k, e, &laplace);
    return;
  }
  e->type = type_basic(TY_ERROR);
  if (!is_known(k, suffix_defined_name(k, e->name))) {
    unknown_function(k, e->name, e->loc);
    return;
  }
  if (scope_variable(k, e->name) && scope_functions(k, e->name)) {
    check_error(k, e->loc, "`%s` is a variable here, which hides the function of that name",
                e->name);
    return;
  }
  check_where(k, e->name, e->loc);
  check_bar(k, e, s);
  if (!args_of(k, e->args, e->nargs, &args)) return;
  resolve(k, e, &args);
  if (type_is_error(e->type)) return;
  check_slices(k, e);
  bool is_void = e->type->kind == TY_VOID;
  if (is_void && !as_statement) {
    check_error(k, e->loc, "`%s` is void: it has no value", e->name);
    e->type = type_basic(TY_ERROR);
  }
  if (!is_void && as_statement)
    check_error(k, e->loc, "the value of `%s` is not used; assign it, or drop the call", e->name);
}

/* ---- tilde ----------------------------------------------------------------------------------- */

/* Truncation needs the distribution function at its point: _lccdf at a lower one, _lcdf at an upper
 * one. */
static void check_truncation(Checker *k, const Stmt *s, Expr *point, const char *end) {
  if (!point) return;
  check_expr(k, point);
  if (type_is_error(point->type) || s->call == CALL_NONE) return;
  if (!type_is_scalar(point->type)) {
    check_error(k, point->loc, "a truncation point must be int or real, but is %s",
                type_show(k, point->type));
    return;
  }
  Args args;
  Callee best = {0};
  Expr **exprs = NEW_ARRAY(&k->c->arena, Expr *, s->nargs + 1);
  const char *name = arena_format(&k->c->arena, "%s%s", s->name, end);
  exprs[0] = point;
  for (int i = 0; i < s->nargs; i++) exprs[i + 1] = s->args[i];
  args_of(k, exprs, s->nargs + 1, &args);
  try_users(k, name, &args, &best);
  try_dist(k, name, &args, &best);
  if (!best.result)
    check_error(k, point->loc, "cannot truncate `%s` here: no %s takes (%s)", s->name, name,
                show_args(k, &args));
}

static bool is_distribution(Checker *k, const char *name, const char *pdf, const char *pmf) {
  return builtin_named(&k->dists, name) >= 0 || scope_functions(k, pdf) || scope_functions(k, pmf);
}

static void unknown_distribution(Checker *k, const Stmt *s) {
  size_t stem;
  const char *near = text_nearest(s->name, stan_dist_names, DIST_COUNT);
  if (suffix_of(s->name, &stem) != SUFFIX_NONE) {
    check_error(k, s->loc, "behind `~` stands the distribution without its ending: `%.*s`",
                (int)stem, s->name);
  } else if (near)
    check_error(k, s->loc, "there is no distribution `%s`; did you mean `%s`?", s->name, near);
  else
    check_error(k, s->loc, "there is no distribution `%s`, and no function %s_lpdf or %s_lpmf",
                s->name, s->name, s->name);
}

static void resolve_tilde(Checker *k, Stmt *s, const Args *args) {
  Arena *a = &k->c->arena;
  const char *pdf = arena_format(a, "%s_lpdf", s->name), *pmf = arena_format(a, "%s_lpmf", s->name);
  if (!is_distribution(k, s->name, pdf, pmf)) {
    unknown_distribution(k, s);
    return;
  }
  Callee best = {0}, mass = {0};
  try_users(k, pdf, args, &best);
  try_dist(k, pdf, args, &best);
  try_users(k, pmf, args, &mass);
  try_dist(k, pmf, args, &mass);
  if (mass.result && (!best.result || mass.cost <= best.cost)) best = mass;
  if (!best.result) {
    no_match(k,
             scope_functions(k, pmf) || dist_named(k, pmf, &(DistId){0}, &(DistFun){0}) ? pmf : pdf,
             args, s->loc);
    return;
  }
  if (best.tie && best.call == CALL_USER)
    check_error(k, s->loc, "`%s` is ambiguous here: several of its definitions fit equally well",
                s->name);
  s->call = best.call;
  s->user = best.user;
  s->builtin = best.builtin;
}

/* y ~ laplace_marginal_poisson_log(...) is the call of its _lpmf. */
static bool tilde_is_laplace(Checker *k, Stmt *s, Expr **exprs, int n) {
  LaplaceCall c;
  const char *name = arena_format(&k->c->arena, "%s_lpmf", s->name);
  if (!laplace_named(name, &c)) return false;
  s->e = NEW(&k->c->arena, Expr);
  *s->e =
      (Expr){.kind = EX_CALL, .loc = s->loc, .name = name, .args = exprs, .nargs = n, .bar = true};
  check_laplace(k, s->e, &c);
  s->call = CALL_LAPLACE;
  return true;
}

void check_tilde(Checker *k, Stmt *s) {
  int n = s->nargs + 1;
  Expr **exprs = NEW_ARRAY(&k->c->arena, Expr *, n);
  exprs[0] = s->lhs;
  for (int i = 1; i < n; i++) exprs[i] = s->args[i - 1];
  for (int i = 0; i < n; i++) check_expr(k, exprs[i]);
  Args args;
  if (tilde_is_laplace(k, s, exprs, n)) return;
  if (!check_may_change_target(k))
    check_error(k, s->loc,
                "`~` can stand only in the model block and in functions whose names end in _lp");
  if (args_of(k, exprs, n, &args)) resolve_tilde(k, s, &args);
  check_truncation(k, s, s->lower, "_lccdf");
  check_truncation(k, s, s->upper, "_lcdf");
}
