/* increments.c: target += e and y ~ dist(...): what they add to the log density, and which part of
 * it is of data.
 *
 * An expression is taken apart into the terms of its sum. A term is a density by name, of data or
 * of parameters, or something else, which belongs to the density of data beside it, if there is
 * one. Of outcomes that are data in some elements and parameters in others (a vector in which
 * missing values are parameters) the elements go their own ways.
 */
#include "model/eval.h"

#include <math.h>
#include <string.h>

/* A term of target += a + b - c. */
typedef struct {
  Value *v;         /* one element per observation, where it is a vectorized density */
  const Expr *sum;  /* of which v is the elements, or NULL: something else */
  const Axis *axis; /* the rows in which it is added: those that are running, or some of them */
  bool density;
  Outcome outcome;
  Loc loc;
  const char *name;
} Term;

typedef struct {
  Term *items;
  int n, cap;
  bool single; /* the increment is one density and nothing else */
} Terms;

static void add_term(Eval *E, Terms *list, Term t) {
  t.axis = E->axis;
  PUSH(E->arena, list->items, list->n, list->cap, t);
}

static bool is_log_probability(const Expr *e) {
  return e->kind == EX_CALL && e->call == CALL_DIST &&
         (e->distfun == DF_LPDF || e->distfun == DF_LCDF || e->distfun == DF_LCCDF);
}

static bool is_scalar(const Expr *e) {
  return e->type->array_dims == 0 && (e->type->kind == TY_REAL || e->type->kind == TY_INT);
}

/* A function that adds up elements of its arguments. Products are taken apart only where it
 * matters: a prior is computed faster as a whole. */
static bool is_sum(const Eval *E, const Expr *e) {
  if (e->kind != EX_CALL || e->call != CALL_FUNCTION) return false;
  bool product = e->builtin == FUN_dot_self || e->builtin == FUN_dot_product;
  return e->builtin == FUN_sum || (product && (E->inlined || eval_is_observed(E, e->loc)));
}

/* The elements that it adds up. */
static Value *summands(Eval *E, const Expr *e) {
  Value *a = eval_expr(E, e->args[0]);
  if (e->builtin == FUN_dot_self) return map1(E, IR_SQUARE, a);
  if (e->builtin == FUN_sum) return a;
  Value **args = (Value *[]){a, eval_expr(E, e->args[1])};
  fun_check_sizes(E, (FunId)e->builtin, args, 2, e->loc);
  return map2(E, IR_MUL, args[0], args[1]);
}

/* A term whose elements can be told apart: a density, a sum, or a multiple of one. */
static bool has_elements(const Eval *E, const Expr *e) {
  e = stan_inside(e);
  if (is_log_probability(e)) return true;
  if (e->kind == EX_CALL) return is_sum(E, e);
  if (e->kind != EX_BINARY || !is_scalar(e->args[0]) || !is_scalar(e->args[1])) return false;
  if (e->op == OP_DIV) return has_elements(E, e->args[0]);
  return e->op == OP_MUL && has_elements(E, e->args[0]) != has_elements(E, e->args[1]);
}

/* ---- outcomes of data and parameters --------------------------------------------------------- */

/* Does every draw need as many numbers for it as there are data? Counts the unconstrained
 * parameters on which a node depends, all elements of one of which any matters. */
static double parameters_behind(Eval *E, Node node) {
  TempArena *temp = temp_open(E->ctx);
  bool *seen = NEW_ARRAY(&temp->arena, bool, node + 1);
  double count = 0;
  seen[node] = true;
  for (Node k = node; k >= 0; k--) { /* operands have smaller numbers than their users */
    const IrNode *x = ir_node(E->graph, k);
    if (!seen[k]) continue;
    if (x->op == IR_INPUT) count += x->n;
    for (int j = 0; j < x->nargs; j++) seen[x->args[j]] = true;
    for (int32_t j = 0; x->op == IR_PACK && j < x->n; j++) seen[x->u.picks[j].node] = true;
  }
  temp_close(temp);
  return count;
}

/* The most elements of a data variable in the expression, indexes and conditions aside; 0: there is
 * none. */
static int32_t most_data(const Eval *E, const Expr *e) {
  int32_t most = 0;
  if (e->kind == EX_VAR && e->decl && !e->decl->is_loop) {
    const Var *var = &E->frame[e->decl->slot];
    if (var->decl == e->decl && var->value && var->value->known) most = var->value->n;
  }
  for (int k = e->kind == EX_TERNARY; k < e->nargs; k++) { /* a condition is no part of it */
    int32_t n = most_data(E, e->args[k]);
    most = n > most ? n : most;
  }
  return most;
}

/* y - shift ~ normal(0, 1): the outcome is an expression of data and parameters. It is an
 * observation when the data in it are more than the parameters; otherwise, (beta - b0) ./ s0, it
 * may as well be a prior of the parameters. A variable that was computed before says nothing. What
 * is found the first time holds, so that a loop does not count again and again. */
static bool is_shifted_data(Eval *E, const Expr *e, Value *y) {
  e = stan_inside(e);
  if (y->known || e->kind == EX_VAR || e->kind == EX_INDEX || E->of_parameters) return false;
  for (size_t k = 0; k < E->nshifted; k++)
    if (E->shifted[k].e == e) return E->shifted[k].data;
  int32_t data = most_data(E, e);
  Shifted s = {e, data > 1 && data > parameters_behind(E, value_node(E, y))};
  PUSH(E->arena, E->shifted, E->nshifted, E->cap_shifted, s);
  return s.data;
}

/* Of a Value of numbers and parameters: are the numbers data? A coefficient that is fixed to zero
 * is none; data differ from each other. */
static bool holds_data(Eval *E, const Value *v) {
  double first = NAN;
  if (v->known) return true;
  for (int32_t k = 0; v->kind != TY_TUPLE && k < value_total(v); k++) {
    double x;
    if (!value_number_at(E, v, v->axis ? k / v->n : 0, k % v->n, &x)) continue;
    if (isnan(first)) first = x;
    if (x != first) return true;
  }
  return false;
}

/* The variable of which the outcome is a part, as it is now; NULL: the outcome is something else.
 */
static const Var *outcome_variable(const Eval *E, const Expr *e) {
  const Decl *d = stan_root(e);
  const Var *var = d ? &E->frame[d->slot] : NULL;
  return var && var->decl == d && var->value ? var : NULL;
}

/* Are the numbers in a variable of numbers and parameters data? */
static bool variable_holds_data(Eval *E, const Expr *e) {
  const Var *var = outcome_variable(E, e);
  if (!var || var->value->known) return var != NULL;
  for (size_t k = 0; k < E->nshifted; k++)
    if (E->shifted[k].e == e) return E->shifted[k].data;
  Shifted s = {e, holds_data(E, var->value)};
  PUSH(E->arena, E->shifted, E->nshifted, E->cap_shifted, s);
  return s.data;
}

static bool has_parameters(Eval *E, const Expr *e) {
  if (e->kind == EX_VAR) return !variable_holds_data(E, e);
  for (int k = e->kind == EX_TERNARY; k < e->nargs; k++)
    if (has_parameters(E, e->args[k])) return true;
  return false;
}

/* A known element of a variable whose numbers are no data: beta[1], fixed to zero, is a parameter
 * in the eyes of the density that all beta[k] have. */
static bool is_fixed(Eval *E, const Expr *e, const Value *y) {
  return y->known && has_parameters(E, e);
}

/* The same numbers as nodes of the graph. */
static Value *as_parameters(Eval *E, Value *y) {
  Value *v = value_like(E, y);
  v->axis = y->axis;
  v->node = value_node(E, y);
  return v;
}

/* Elements of the outcome, and of every parameter that has as many. */
static Value **subset(Eval *E, Value **args, int n, const int32_t *index, int32_t count) {
  Value **part = NEW_ARRAY(E->arena, Value *, n);
  int32_t all = args[0]->n;
  for (int k = 0; k < n; k++) {
    Value shape = *args[k];
    shape.ndims = shape.array_dims = 1;
    shape.dims[0] = shape.n = count;
    if (shape.kind != TY_INT) shape.kind = TY_REAL;
    part[k] = args[k]->ndims && args[k]->n == all
                  ? value_take(E, value_on_axis(E, args[k], E->axis), &shape, NULL, index)
                  : args[k];
  }
  return part;
}

/* A density by name with its arguments. */
typedef struct {
  DistId id;
  Value **args;
  int n;
  const Expr *outcome;
  Loc loc;
  const char *name;
} Density;

/* Is it the outcome of the program, and not part of how its density is written: bernoulli_lpmf(1 |
 * p)?
 */
static bool is_outcome(const Eval *E, const Expr *e) {
  const Inlined *in = E->inlined;
  if (in && E->depth == in->depth) return stan_mentions(e, in->f->args[0]);
  e = stan_inside(e);
  return e->kind != EX_INT && e->kind != EX_REAL;
}

static Term term_of(Eval *E, const Density *d, Value **args) {
  Term t = {.loc = d->loc, .density = true, .name = d->name};
  dist_check_sizes(E, d->id, DF_LPDF, args, d->n, d->loc);
  if (args[0]->known && is_outcome(E, d->outcome)) t.outcome = outcome_of(E, d->id, args);
  t.v = dist_lpdf(E, d->id, args, d->n, d->loc);
  if (is_shifted_data(E, d->outcome, args[0])) t.v = eval_as_likelihood(E, t.v);
  return t;
}

/* Some elements are data, others parameters. */
static bool is_mixed(Eval *E, const Density *d) {
  const Value *y = d->args[0];
  return !y->known && stan_dist_is_elementwise(d->id) && outcome_variable(E, d->outcome) &&
         value_has_data(E, y) && variable_holds_data(E, d->outcome);
}

/* Are the same elements data in all rows? Else iterations differ, and go one by one. */
static bool is_alike(Eval *E, const Value *y) {
  for (int32_t r = 1; y->axis && r < y->axis->rows; r++)
    for (int32_t k = 0; k < y->n; k++)
      if (value_number_at(E, y, r, k, &(double){0}) != value_number_at(E, y, 0, k, &(double){0}))
        return false;
  return true;
}

/* Vectors: the elements that are data, then the others. */
static void add_mixed_elements(Eval *E, Terms *list, const Density *d) {
  int32_t n = d->args[0]->n, *index = NEW_ARRAY(E->arena, int32_t, n);
  for (int data = 1; data >= 0; data--) {
    int32_t count = 0;
    for (int32_t k = 0; k < n; k++)
      if (value_number_at(E, d->args[0], 0, k, &(double){0}) == data) index[count++] = k;
    if (count) add_term(E, list, term_of(E, d, subset(E, d->args, d->n, index, count)));
  }
}

/* Scalars of a lifted loop: the rows whose outcome is known, then the others. */
static void add_mixed_rows(Eval *E, Terms *list, const Density *d) {
  const Axis *all = E->axis;
  Value *known = value_known(E, d->args[0], all);
  for (int32_t r = 0; r < all->rows; r++)
    known->v[r] = value_number_at(E, d->args[0], r, 0, &(double){0});
  for (int data = 1; data >= 0; data--) {
    const Axis *rows = eval_rows_where(E, known, data);
    if (!rows->rows) continue;
    E->axis = rows;
    Value **args = NEW_ARRAY(E->arena, Value *, d->n);
    for (int k = 0; k < d->n; k++) args[k] = value_on_axis(E, d->args[k], rows);
    add_term(E, list, term_of(E, d, args));
    E->axis = all;
  }
}

static void add_density(Eval *E, Terms *list, const Density *d) {
  if (is_fixed(E, d->outcome, d->args[0])) d->args[0] = as_parameters(E, d->args[0]);
  if (!is_mixed(E, d)) {
    add_term(E, list, term_of(E, d, d->args));
  } else if (d->args[0]->n == 1 && list->single) {
    add_mixed_rows(E, list, d);
  } else if (d->args[0]->n > 1 && is_alike(E, d->args[0])) {
    add_mixed_elements(E, list, d);
  } else {
    lift_bail(E, "outcomes are data in some iterations, parameters in others");
  }
}

/* ---- terms ----------------------------------------------------------------------------------- */

static void collect_term(Eval *E, const Expr *e, Terms *list);

/* A density, or a cumulative function: censored, what is known of the outcome is that it is above,
 * or below. */
static void collect_density(Eval *E, const Expr *e, Terms *list) {
  Density d = {.id = (DistId)e->builtin,
               .args = NEW_ARRAY(E->arena, Value *, e->nargs),
               .n = e->nargs,
               .outcome = e->args[0],
               .loc = e->loc,
               .name = stan_dist_names[e->builtin]};
  for (int k = 0; k < e->nargs; k++) d.args[k] = eval_expr(E, e->args[k]);
  if (e->distfun == DF_LPDF) {
    add_density(E, list, &d);
    return;
  }
  Term t = {.loc = d.loc, .name = d.name};
  t.v = dist_log_cdf(E, d.id, e->distfun, d.args, d.n, d.loc);
  if (!t.v->known && eval_observes(E, e->distfun, d.args[0])) t.v = eval_as_likelihood(E, t.v);
  t.density = !d.args[0]->known || t.v->likelihood;
  add_term(E, list, t);
}

/* A whole number of times the same: as many observations. */
static bool repeats(const Eval *E, const Value *times, const Value *v) {
  enum { MOST = 1 << 24 };
  return E->loop < 0 && times->known && times->kind == TY_INT && times->ndims == 0 && v->n == 1 &&
         v->likelihood && times->v[0] >= 0 && times->v[0] <= MOST;
}

/* A term, times a factor or divided by it: of a sum every element takes its share. */
static void scale_term(Eval *E, Term *t, Value *times, bool divided) {
  if (!divided && repeats(E, times, t->v)) {
    int32_t n = (int32_t)times->v[0];
    t->v = value_take(E, t->v, value_shape(E, TY_VECTOR, 0, 1, &n), NULL,
                      NEW_ARRAY(E->arena, int32_t, n + 1));
    return;
  }
  t->outcome.known = false;
  t->v = map2(E, divided ? IR_DIV : IR_MUL, t->v, times);
}

static void collect_product(Eval *E, const Expr *e, Terms *list) {
  bool first = e->op == OP_DIV || has_elements(E, e->args[0]);
  int before = list->n;
  collect_term(E, e->args[first ? 0 : 1], list);
  Value *times = eval_expr(E, e->args[first ? 1 : 0]);
  for (int k = before; k < list->n; k++) scale_term(E, &list->items[k], times, e->op == OP_DIV);
}

static void collect_term(Eval *E, const Expr *e, Terms *list) {
  e = stan_inside(e);
  Term t = {.loc = e->loc, .name = "target"};
  if (!has_elements(E, e)) {
    E->increment = true;
    t.v = eval_expr(E, e);
    E->increment = false;
    t.density = e->kind == EX_CALL && e->call == CALL_USER && eval_is_density_name(e->user->name);
    add_term(E, list, t);
  } else if (is_log_probability(e)) {
    collect_density(E, e, list);
  } else if (e->kind == EX_CALL) {
    t.sum = e;
    t.v = summands(E, e);
    if (!inline_elementwise_sum(E, e)) t.v = value_sum(E, t.v);
    add_term(E, list, t);
  } else {
    collect_product(E, e, list);
  }
}

static void collect_terms(Eval *E, const Expr *e, bool minus, Terms *list) {
  e = stan_inside(e);
  if (e->kind == EX_BINARY && is_scalar(e) && (e->op == OP_ADD || e->op == OP_SUB)) {
    collect_terms(E, e->args[0], minus, list); /* vector + 1 adds n ones */
    collect_terms(E, e->args[1], minus != (e->op == OP_SUB), list);
    return;
  }
  if (e->kind == EX_UNARY && e->op == OP_NEG && is_scalar(e)) {
    collect_terms(E, e->args[0], !minus, list);
    return;
  }
  if (inline_is_sum(E, e) || (!minus && eval_reduce_sum(E, e))) return;
  int before = list->n;
  E->negative = minus;
  collect_term(E, e, list);
  E->negative = false;
  for (int k = before; minus && k < list->n; k++) {
    list->items[k].v = map1(E, IR_NEG, list->items[k].v);
    list->items[k].outcome.known = false;
  }
}

/* What a term beside a density of data adds to each of its elements: its own where it has as many,
 * else an even share. */
static Value *share(Eval *E, Value *v, int32_t n) {
  if (v->n == n && n > 1) return v;
  return map2(E, IR_DIV, value_sum(E, v), value_real(E, n));
}

/* In a user's density of data everything is likelihood: the terms of a loop its iterations', a
 * vector as long as the outcome the elements', and what is left belongs to no one in particular;
 * false: it was of that kind. */
static bool add_inlined(Eval *E, Term *t) {
  bool apart = E->loop >= 0 || t->v->n == E->inlined->n;
  if (apart)
    t->v = eval_as_likelihood(E, t->v);
  else
    inline_loose(E, t->v);
  return apart;
}

/* Where there is no density at all, the loop decides (Site.bare). */
static void add_to_target(Eval *E, Term *t) {
  const Axis *axis = E->axis;
  size_t sites = E->nsites;
  if (E->inlined && !t->v->likelihood && !add_inlined(E, t)) return;
  bool bare = !t->v->likelihood && !t->density && E->loop >= 0 && !eval_is_observed(E, t->loc);
  E->axis = t->axis;
  eval_add_target(E, bare ? eval_as_likelihood(E, t->v) : t->v, t->loc, t->name, &t->outcome);
  E->axis = axis;
  if (bare && E->nsites > sites) E->sites[sites].bare = true;
}

/* Where the user says that the increment is observations: the term with the most elements, which
 * are told apart where data are; NULL: he does not, or densities by name say what they are. */
static Term *observed_term(Eval *E, Terms *list) {
  Term *most = NULL;
  for (int k = 0; k < list->n; k++) {
    Term *t = &list->items[k];
    if (t->density || !eval_is_observed(E, t->loc)) return NULL;
    if (t->v->n && (!most || t->v->n > most->v->n)) most = t;
  }
  if (most && most->sum && !inline_has_outcome(E, most->sum)) most->v = value_sum(E, most->v);
  if (most) most->v = eval_as_likelihood(E, most->v);
  return most;
}

/* What a user's density of one outcome returns is of that outcome, all of it. */
static void add_up(Eval *E, Terms *list) {
  for (int k = 1; k < list->n; k++) {
    Term *t = &list->items[0];
    t->v = map2(E, IR_ADD, value_sum(E, t->v), value_sum(E, list->items[k].v));
    t->outcome.known = false;
    t->name = "target";
  }
  if (list->n) list->n = 1;
}

/* Densities of parameters are prior. What stands beside a density of data belongs to it:
 * log1m(theta) + poisson_lpmf(y | lambda). */
static void add_terms(Eval *E, Terms *list) {
  Term *data = NULL;
  if (E->inlined && E->lift) add_up(E, list);
  for (int k = list->n; k-- > 0;)
    if (list->items[k].v->likelihood && list->items[k].v->n) data = &list->items[k];
  if (!data) data = observed_term(E, list);
  for (int k = 0; k < list->n; k++) {
    Term *t = &list->items[k];
    if (!data || t->density || t->v->likelihood) continue;
    data->v = map2(E, IR_ADD, data->v, share(E, t->v, data->v->n));
    data->outcome.known = false;
    t->v = NULL;
  }
  for (int k = 0; k < list->n; k++)
    if (list->items[k].v) add_to_target(E, &list->items[k]);
}

/* target += f_lpdf(y | ...) and nothing else. */
static bool increment_inlined(Eval *E, const Expr *e) {
  if (e->kind != EX_CALL || e->call != CALL_USER || !eval_is_density_name(e->user->name))
    return false;
  Value **args = NEW_ARRAY(E->arena, Value *, e->nargs + 1);
  eval_args(E, e, args);
  if (inline_density(E, e->user, args, e->loc, "target")) return true;
  Terms list = {.n = 0};
  Term t = {.loc = e->loc, .name = "target", .density = true, .v = eval_user_call(E, e, args)};
  add_term(E, &list, t);
  add_terms(E, &list);
  return true;
}

void eval_increment(Eval *E, const Expr *e) {
  if (increment_inlined(E, stan_inside(e))) return;
  Terms list = {.single = is_log_probability(stan_inside(e))};
  collect_terms(E, e, false, &list);
  add_terms(E, &list);
}

/* ---- y ~ dist(...) --------------------------------------------------------------------------- */

static void tilde_user(Eval *E, const Stmt *s, Value **args) {
  if (s->truncated)
    ctx_fail(E->ctx, PVI_PROGRAM, s->loc, "truncation of a user's distribution is not supported");
  bool data = args[0]->known || is_shifted_data(E, s->lhs, args[0]);
  if (inline_density(E, s->user, args, s->loc, s->name)) return;
  Value *v = eval_user(E, s->user, args, s->loc);
  eval_add_target(E, data ? eval_as_likelihood(E, v) : v, s->loc, s->name, NULL);
}

static void tilde_truncated(Eval *E, const Stmt *s, Value **args) {
  Value *lower = s->lower ? eval_expr(E, s->lower) : NULL;
  Value *upper = s->upper ? eval_expr(E, s->upper) : NULL;
  DistId id = (DistId)s->builtin;
  Value *v = dist_lpdf(E, id, args, s->nargs + 1, s->loc);
  bool likelihood = v->likelihood || is_shifted_data(E, s->lhs, args[0]) ||
                    (stan_dist_is_elementwise(id) && outcome_variable(E, s->lhs) &&
                     variable_holds_data(E, s->lhs) && value_has_data(E, args[0]));
  if (lower || upper)
    v = map2(E, IR_SUB, v,
             dist_truncation(E, id, args, s->nargs + 1, (Value *[]){lower, upper}, s->loc));
  if (likelihood && !v->likelihood) v = eval_as_likelihood(E, v);
  eval_add_target(E, v, s->loc, s->name, NULL);
}

void eval_tilde(Eval *E, const Stmt *s) {
  if (s->call == CALL_LAPLACE) {
    eval_add_target(E, eval_expr(E, s->e), s->loc, s->name, NULL);
    return;
  }
  Value **args = NEW_ARRAY(E->arena, Value *, s->nargs + 1);
  args[0] = eval_expr(E, s->lhs);
  for (int k = 0; k < s->nargs; k++) args[k + 1] = eval_expr(E, s->args[k]);
  if (s->call == CALL_USER) {
    tilde_user(E, s, args);
  } else if (s->truncated) {
    tilde_truncated(E, s, args);
  } else {
    Terms list = {.single = true};
    Density d = {(DistId)s->builtin, args, s->nargs + 1, s->lhs, s->loc, s->name};
    add_density(E, &list, &d);
    add_terms(E, &list);
  }
}
