/* stmt.c: what statements do. */
#include "model/complex.h"
#include "model/eval.h"

#include <math.h>
#include <string.h>

/* ---- declarations and assignment ------------------------------------------------------------- */

void eval_dims(Eval *E, const Decl *d, Value *shape) {
  int32_t dims[MAX_DIMS];
  bool pairs = complex_kind(d->type->kind);
  if (d->nsizes + pairs > MAX_DIMS)
    ctx_fail(E->ctx, PVI_PROGRAM, d->loc, "%s has more than %d dimensions", d->name, MAX_DIMS);
  int n = 0;
  for (int k = 0; k < d->nsizes; k++) {
    long size = value_int_of(E, eval_expr(E, d->sizes[k]), d->sizes[k]->loc, "a size");
    if (size < 0)
      ctx_fail(E->ctx, PVI_DATA, d->sizes[k]->loc, "size %ld of %s is negative", size, d->name);
    if (size > VALUE_MOST)
      ctx_fail(E->ctx, PVI_DATA, d->sizes[k]->loc, "size %ld of %s is too large: at most %d", size,
               d->name, VALUE_MOST);
    dims[n++] = (int32_t)size;
  }
  if (pairs) dims[n++] = 2;
  *shape = *value_shape(E, d->type->kind, d->type->array_dims, n, dims);
}

/* A declared variable without a value: NaN, or the least int. */
static Value *eval_default(Eval *E, const Decl *d) {
  if (d->type->kind == TY_TUPLE && d->type->array_dims == 0) {
    Value *t = value_shape(E, TY_TUPLE, 0, 0, NULL);
    t->nitems = d->nitems;
    t->items = NEW_ARRAY(E->arena, Value *, d->nitems);
    for (int k = 0; k < d->nitems; k++) t->items[k] = eval_default(E, d->items[k]);
    return t;
  }
  if (d->type->kind == TY_TUPLE)
    ctx_fail(E->ctx, PVI_PROGRAM, d->loc, "variable %s: arrays of tuples are not supported yet",
             d->name);
  Value shape;
  eval_dims(E, d, &shape);
  Value *v = value_known(E, &shape, NULL);
  for (int32_t k = 0; k < v->n; k++) v->v[k] = d->type->kind == TY_INT ? (double)INT32_MIN : NAN;
  return v;
}

static void check_fits(Eval *E, const Value *to, const Value *from, Loc loc) {
  if (to->kind == TY_TUPLE) return;
  bool same = to->ndims == from->ndims;
  for (int k = 0; same && k < to->ndims; k++) same = to->dims[k] == from->dims[k];
  if (!same)
    ctx_fail(E->ctx, PVI_PROGRAM, loc, "sizes do not match in assignment: %d elements into %d",
             from->n, to->n);
}

/* The whole variable; it keeps its declared kind. */
static void set_variable(Eval *E, Var *var, Value *v, Loc loc) {
  v = complex_promote(E, v, var->value->kind);
  check_fits(E, var->value, v, loc);
  lift_write(E, var, NULL, NULL, var->value->n);
  TypeKind kind = var->value->kind;
  if (E->axis && E->axis->parent && v->kind != TY_TUPLE) { /* in a branch: only its rows */
    int32_t *all = NEW_ARRAY(E->arena, int32_t, v->n);
    for (int32_t k = 0; k < v->n; k++) all[k] = k;
    value_put(E, &var->value, NULL, all, v->n, v);
    return;
  }
  v->shared = true;
  if (v->kind != kind) v = value_reshape(E, v, kind, v->array_dims, v->ndims, v->dims);
  var->value = v;
}

static void set_elements(Eval *E, Var *var, const Index *indexes, int n, Value *v, Loc loc) {
  Selection s = eval_selection(E, var->value, indexes, n, loc);
  v = complex_promote(E, v, s.shape.kind);
  check_fits(E, &s.shape, v, loc);
  lift_write(E, var, s.axis, s.index, s.shape.n);
  value_put(E, &var->value, s.axis, s.index, s.shape.n, v);
}

static void set_field(Eval *E, const Expr *lhs, Value *v) {
  if (lhs->args[0]->kind != EX_VAR)
    ctx_fail(E->ctx, PVI_PROGRAM, lhs->loc, "nested tuple assignment is not supported yet");
  if (E->lift) lift_bail(E, "a tuple is assigned");
  Var *var = &E->frame[lhs->args[0]->decl->slot];
  value_own(E, &var->value);
  var->value->items[lhs->field - 1] = v;
}

static void eval_assign(Eval *E, const Expr *lhs, Value *v) {
  if (lhs->kind == EX_PAREN) {
    eval_assign(E, lhs->args[0], v);
  } else if (lhs->kind == EX_VAR) {
    set_variable(E, &E->frame[lhs->decl->slot], v, lhs->loc);
  } else if (lhs->kind == EX_TUPLE) {
    for (int k = 0; k < lhs->nargs; k++) eval_assign(E, lhs->args[k], v->items[k]);
  } else if (lhs->kind == EX_FIELD) {
    set_field(E, lhs, v);
  } else if (lhs->args[0]->kind == EX_VAR) {
    set_elements(E, &E->frame[lhs->args[0]->decl->slot], lhs->indexes, lhs->nindexes, v, lhs->loc);
  } else { /* x[i][j] = v: change a copy of x[i], put it back */
    Value *inner = eval_expr(E, lhs->args[0]);
    inner->shared = true;
    Selection s = eval_selection(E, inner, lhs->indexes, lhs->nindexes, lhs->loc);
    v = complex_promote(E, v, s.shape.kind);
    check_fits(E, &s.shape, v, lhs->loc);
    value_put(E, &inner, s.axis, s.index, s.shape.n, v);
    eval_assign(E, lhs->args[0], inner);
  }
}

static void eval_assign_stmt(Eval *E, const Stmt *s) {
  Value *v = eval_expr(E, s->e);
  if (s->has_op) v = eval_binary(E, s->op, eval_expr(E, s->lhs), v, s->loc);
  eval_assign(E, s->lhs, v);
}

static void eval_decl(Eval *E, const Stmt *s) {
  for (int k = 0; k < s->ndecls; k++) {
    const Decl *d = s->decls[k];
    Value *v = eval_default(E, d);
    E->frame[d->slot] = (Var){v, d, E->lift};
    if (!d->init) continue;
    Value *x = eval_expr(E, d->init);
    set_variable(E, &E->frame[d->slot], x, d->loc);
  }
}

/* ---- the log density ------------------------------------------------------------------------- */

static void add_scalar(Eval *E, Value ***list, size_t *n, size_t *cap, Value *v) {
  Value *s = value_sum(E, v);
  if (E->axis) { /* once per iteration */
    Node node = value_node_total(E, s, E->axis, 1);
    if (ir_size(E->graph, node) == 1) {
      s = map2(E, IR_MUL, s, value_real(E, E->axis->rows));
      s->axis = NULL;
    } else {
      int32_t rows = E->axis->rows;
      s = value_sum(E, value_of_node(E, value_shape(E, TY_VECTOR, 0, 1, &rows), NULL, node));
    }
  }
  PUSH(E->arena, *list, *n, *cap, s);
}

void eval_add_jacobian(Eval *E, Value *v) {
  if (!E->quiet && v->n) add_scalar(E, &E->jacobian, &E->njacobian, &E->cap_jacobian, v);
}

/* One observation per iteration of a lifted loop that nothing encloses. */
static Node per_iteration(Eval *E, Value *v) {
  Value *s = value_sum(E, v);
  Node node = value_node_total(E, s, E->axis, 1);
  if (ir_size(E->graph, node) == E->axis->rows) return node;
  int32_t *zero = NEW_ARRAY(E->arena, int32_t, E->axis->rows);
  return ir_gather(E->graph, node, zero, E->axis->rows);
}

/* The user says that increments of this line are observations. */
static bool is_observed(const Eval *E, Loc loc) {
  bool any = false;
  for (int k = 0; k < E->nobserve; k++) {
    if (E->observe[k] != (long)loc.line || loc.source != E->program->source) continue;
    any = E->observe_found[k] = true;
  }
  return any;
}

void eval_add_target(Eval *E, Value *v, Loc loc, const char *name, const Outcome *outcome) {
  if (E->quiet || v->n == 0) return;
  if (is_observed(E, loc) && !v->likelihood) v = eval_as_likelihood(E, v);
  bool likelihood = v->likelihood;
  if (E->guard) v = map3(E, IR_SELECT, E->guard, v, value_real(E, 0));
  if (!likelihood) {
    add_scalar(E, &E->prior, &E->nprior, &E->cap_prior, v);
    return;
  }
  Site site = {.loop = E->loop,
               .iteration = E->iteration,
               .loc = loc,
               .name = name,
               .sim = NO_NODE,
               .dist = -1};
  if (E->guard) outcome = NULL;
  if (E->axis && E->iteration < 0) {
    site.axis = E->axis;
    site.node = per_iteration(E, v);
    outcome_place(E, &site, outcome, v->n);
  } else if (E->axis) { /* a lifted loop inside of an unrolled one: part of that one's iteration */
    int32_t rows = E->axis->rows;
    site.node = value_node(E, value_sum(E, value_of_node(E, value_shape(E, TY_VECTOR, 0, 1, &rows),
                                                         NULL, per_iteration(E, v))));
  } else {
    site.node = value_node(E, E->loop >= 0 ? value_sum(E, v) : v);
    if (E->loop < 0 || v->n == 1) outcome_place(E, &site, outcome, v->n);
  }
  PUSH(E->arena, E->sites, E->nsites, E->cap_sites, site);
}

Value *eval_as_likelihood(Eval *E, Value *v) {
  if (!v->known)
    return value_of_node(E, v, v->axis, ir_mark_likelihood(E->graph, value_node(E, v)));
  Value *r = value_reshape(E, v, v->kind, v->array_dims, v->ndims, v->dims);
  r->likelihood = true;
  return r;
}

/* A term of target += a + b - c. A density by name is of data or of parameters; other terms are
 * neither by themselves. */
typedef struct {
  Value *v; /* one element per observation, where it is a vectorized density */
  bool density;
  Outcome outcome;
  Loc loc;
  const char *name;
} Term;

static Term eval_term(Eval *E, const Expr *e) {
  Term t = {.loc = e->loc, .name = "target"};
  if (e->kind == EX_CALL && e->call == CALL_DIST && e->distfun == DF_LPDF) {
    Value **args = NEW_ARRAY(E->arena, Value *, e->nargs);
    for (int k = 0; k < e->nargs; k++) args[k] = eval_expr(E, e->args[k]);
    dist_check_sizes(E, (DistId)e->builtin, DF_LPDF, args, e->nargs, e->loc);
    if (args[0]->known) t.outcome = outcome_of(E, (DistId)e->builtin, args);
    t.v = dist_lpdf(E, (DistId)e->builtin, args, e->nargs, e->loc);
    t.density = true;
    t.name = stan_dist_names[e->builtin];
  } else if (e->kind == EX_CALL && e->call == CALL_FUNCTION && e->builtin == FUN_sum &&
             e->nargs == 1) {
    t.v = eval_expr(E, e->args[0]);
  } else {
    t.v = eval_expr(E, e);
    t.density = e->kind == EX_CALL && e->call == CALL_USER && eval_is_density_name(e->user->name);
  }
  return t;
}

static void collect_terms(Eval *E, const Expr *e, bool minus, Term **terms, int *n, int *cap) {
  while (e->kind == EX_PAREN) e = e->args[0];
  bool scalar = e->type->array_dims == 0 &&
                (e->type->kind == TY_REAL || e->type->kind == TY_INT); /* vector + 1 adds n ones */
  if (e->kind == EX_BINARY && scalar && (e->op == OP_ADD || e->op == OP_SUB)) {
    collect_terms(E, e->args[0], minus, terms, n, cap);
    collect_terms(E, e->args[1], minus != (e->op == OP_SUB), terms, n, cap);
    return;
  }
  if (!minus && eval_reduce_sum(E, e)) return;
  Term t = eval_term(E, e);
  if (minus) {
    t.v = map1(E, IR_NEG, t.v);
    t.outcome.known = false;
  }
  PUSH(E->arena, *terms, *n, *cap, t);
}

/* target += e. Densities of parameters are prior. What stands beside a density of data belongs to
 * it, shared evenly by its elements: log1m(theta) + poisson_lpmf(y | lambda). Where there is no
 * density at all, the loop decides (Site.bare). */
static void eval_increment(Eval *E, const Expr *e) {
  Term *terms = NULL, *data = NULL;
  int n = 0, cap = 0;
  collect_terms(E, e, false, &terms, &n, &cap);
  for (int k = n; k-- > 0;)
    if (terms[k].v->likelihood && terms[k].v->n) data = &terms[k];
  for (int k = 0; k < n; k++) {
    Term *t = &terms[k];
    if (!data || t->density || t->v->likelihood) continue;
    data->v =
        map2(E, IR_ADD, data->v, map2(E, IR_DIV, value_sum(E, t->v), value_real(E, data->v->n)));
    data->outcome.known = false;
    t->v = NULL;
  }
  for (int k = 0; k < n; k++) {
    Term *t = &terms[k];
    if (!t->v) continue;
    bool bare = !t->v->likelihood && !t->density && E->loop >= 0 && !is_observed(E, t->loc);
    size_t sites = E->nsites;
    eval_add_target(E, bare ? eval_as_likelihood(E, t->v) : t->v, t->loc, t->name, &t->outcome);
    if (bare && E->nsites > sites) E->sites[sites].bare = true;
  }
}

static void eval_tilde(Eval *E, const Stmt *s) {
  if (s->call == CALL_LAPLACE) {
    eval_add_target(E, eval_expr(E, s->e), s->loc, s->name, NULL);
    return;
  }
  Value **args = NEW_ARRAY(E->arena, Value *, s->nargs + 1);
  args[0] = eval_expr(E, s->lhs);
  for (int k = 0; k < s->nargs; k++) args[k + 1] = eval_expr(E, s->args[k]);
  Value *lower = s->truncated && s->lower ? eval_expr(E, s->lower) : NULL;
  Value *upper = s->truncated && s->upper ? eval_expr(E, s->upper) : NULL;
  if (s->call == CALL_USER) {
    if (s->truncated)
      ctx_fail(E->ctx, PVI_PROGRAM, s->loc, "truncation of a user's distribution is not supported");
    bool data = args[0]->known;
    Value *v = eval_user(E, s->user, args, s->loc, data);
    eval_add_target(E, data ? eval_as_likelihood(E, v) : v, s->loc, s->name, NULL);
    return;
  }
  Value *v = dist_lpdf(E, (DistId)s->builtin, args, s->nargs + 1, s->loc);
  if (lower || upper) {
    bool likelihood = v->likelihood;
    v = map2(E, IR_SUB, v,
             dist_truncation(E, (DistId)s->builtin, args, s->nargs + 1, (Value *[]){lower, upper},
                             s->loc));
    v->likelihood = likelihood;
  }
  Outcome o = args[0]->known && !s->truncated ? outcome_of(E, (DistId)s->builtin, args)
                                              : (Outcome){.known = false};
  eval_add_target(E, v, s->loc, s->name, &o);
}

/* ---- branches -------------------------------------------------------------------------------- */

/* The rows of the running axis where the condition is `wanted`. */
static Axis *sub_axis(Eval *E, const Value *c, bool wanted) {
  const Axis *p = c->axis;
  Axis *a = NEW(E->arena, Axis);
  int32_t *rows = NEW_ARRAY(E->arena, int32_t, p->rows),
          *iteration = NEW_ARRAY(E->arena, int32_t, p->rows);
  for (int32_t r = 0; r < p->rows; r++)
    if ((c->v[r] != 0) == wanted) {
      rows[a->rows] = r;
      iteration[a->rows++] = p->iteration[r];
    }
  a->parent = p;
  a->parent_rows = rows;
  a->iteration = iteration;
  return a;
}

/* A condition on data that differs between iterations: each branch for its own rows. */
static Flow eval_partition(Eval *E, const Stmt *s, const Value *c) {
  const Axis *outer = E->axis;
  for (int branch = 0; branch < s->nbody; branch++) {
    Axis *a = sub_axis(E, c, branch == 0);
    if (!a->rows || !s->body[branch]) continue;
    E->axis = a->rows == outer->rows ? outer : a;
    Flow f = eval_stmt(E, s->body[branch]);
    E->axis = outer;
    if (f != FLOW_NEXT) lift_bail(E, "it is left by break, continue or return in some iterations");
  }
  return FLOW_NEXT;
}

typedef struct {
  Var *var;
  Value *before, *then;
} Changed;

static void collect_changed(Eval *E, const Stmt *s, Changed **list, int *n, int *cap) {
  if (!s) return;
  if (s->kind == ST_ASSIGN) {
    const Expr *e = s->lhs;
    while (e->kind == EX_INDEX || e->kind == EX_FIELD || e->kind == EX_PAREN) e = e->args[0];
    if (e->kind == EX_TUPLE)
      ctx_fail(E->ctx, PVI_PROGRAM, s->loc, "tuple assignment under a condition on parameters");
    Var *var = &E->frame[e->decl->slot];
    bool seen = !var->value || var->decl != e->decl;
    for (int k = 0; k < *n; k++) seen |= (*list)[k].var == var;
    if (!seen) {
      Changed c = {.var = var, .before = var->value};
      var->value->shared = true;
      PUSH(E->arena, *list, *n, *cap, c);
    }
  }
  for (int k = 0; k < s->nbody; k++) collect_changed(E, s->body[k], list, n, cap);
}

static Value *both(Eval *E, Value *a, Value *b) { return a ? map2(E, IR_MUL, a, b) : b; }

/* A condition on parameters: both branches, and a choice per draw of every variable they change. */
static Flow eval_choice(Eval *E, const Stmt *s, Value *c) {
  Changed *list = NULL;
  int n = 0, cap = 0;
  for (int k = 0; k < s->nbody; k++) collect_changed(E, s->body[k], &list, &n, &cap);
  Value *guard = E->guard;
  Flow flow = FLOW_NEXT;
  E->guard = both(E, guard, c);
  if (s->body[0]) flow = eval_stmt(E, s->body[0]);
  for (int k = 0; k < n; k++) {
    list[k].then = list[k].var->value;
    list[k].then->shared = true;
    list[k].var->value = list[k].before;
  }
  E->guard = both(E, guard, map1(E, IR_NOT, c));
  if (s->nbody > 1 && s->body[1] && flow == FLOW_NEXT) flow = eval_stmt(E, s->body[1]);
  E->guard = guard;
  if (flow != FLOW_NEXT)
    ctx_fail(
        E->ctx, PVI_PROGRAM, s->loc,
        "a condition on parameters decides about break, continue or return; write it as a value");
  for (int k = 0; k < n; k++) {
    Value *otherwise = list[k].var->value;
    if (otherwise != list[k].then) {
      Value *v = map3(E, IR_SELECT, c, list[k].then, otherwise);
      v->kind = otherwise->kind;
      list[k].var->value = v;
    }
  }
  return FLOW_NEXT;
}

static Flow eval_if(Eval *E, const Stmt *s) {
  Value *c = value_on_axis(E, eval_expr(E, s->e), E->axis);
  if (!c->known) return eval_choice(E, s, c);
  if (c->axis) return eval_partition(E, s, c);
  const Stmt *branch = c->v[0] != 0 ? s->body[0] : s->nbody > 1 ? s->body[1] : NULL;
  return branch ? eval_stmt(E, branch) : FLOW_NEXT;
}

/* ---- loops ----------------------------------------------------------------------------------- */

static void note_loop(Eval *E, Loc loc, long iterations, bool lifted, const char *why) {
  if (E->quiet || E->lift) return;
  for (size_t k = 0; k < E->nloops; k++) {
    LoopInfo *l = &E->loops[k];
    if (l->loc.source != loc.source || l->loc.line != loc.line || l->loc.column != loc.column)
      continue;
    l->iterations += iterations;
    l->lifted &= lifted;
    if (!l->why) l->why = why;
    return;
  }
  LoopInfo l = {.loc = loc, .iterations = iterations, .lifted = lifted, .why = why};
  PUSH(E->arena, E->loops, E->nloops, E->cap_loops, l);
}

/* Iterations of an unrolled loop, one after the other; the outermost one's are observations. */
typedef struct {
  int loop;
  int32_t iteration;
} Outer;

static Outer enter_loop(Eval *E) {
  Outer o = {E->loop, E->iteration};
  if (E->loop < 0) {
    E->loop = E->loop_count++;
    E->iteration = -1;
  }
  return o;
}

static void leave_loop(Eval *E, Outer o) {
  E->loop = o.loop;
  E->iteration = o.iteration;
}

static Flow run_body(Eval *E, const Stmt *s, bool outermost, int32_t k) {
  if (outermost) E->iteration = k;
  Flow f = eval_stmt(E, s->body[0]);
  return f == FLOW_CONTINUE ? FLOW_NEXT : f;
}

static Flow eval_for(Eval *E, const Stmt *s) {
  long from = value_int_of(E, eval_expr(E, s->from), s->from->loc, "a loop bound");
  long to = value_int_of(E, eval_expr(E, s->to), s->to->loc, "a loop bound");
  if (to < from) return FLOW_NEXT;
  Outer o = enter_loop(E);
  bool outermost = o.loop < 0 && !E->lift;
  const char *why = E->guard ? "it stands under a condition on parameters" : "it is too long";
  bool lifted = !E->lift && !E->guard && to - from < INT32_MAX && lift_loop(E, s, from, to, &why);
  note_loop(E, s->loc, to - from + 1, lifted, lifted ? NULL : why);
  Flow f = FLOW_NEXT;
  for (long k = from; !lifted && k <= to && f == FLOW_NEXT; k++) {
    E->frame[s->decls[0]->slot] = (Var){value_int(E, k), s->decls[0], E->lift};
    f = run_body(E, s, outermost, (int32_t)(k - from));
  }
  leave_loop(E, o);
  return f == FLOW_RETURN ? f : FLOW_NEXT;
}

void eval_each(Eval *E, const Expr *e, int32_t n, LiftBody *lifted, LiftBody *one, void *self) {
  Outer o = enter_loop(E);
  const char *why = NULL;
  bool done = lift_body(E, n, NULL, lifted, self, &why);
  note_loop(E, e->loc, n, done, why);
  for (int32_t k = 0; !done && k < n; k++) {
    E->iteration = k;
    one(E, self);
  }
  leave_loop(E, o);
}

/* for (x in container): elements of arrays and vectors; matrices by element, column by column. */
static Flow eval_foreach(Eval *E, const Stmt *s) {
  Value *c = eval_expr(E, s->e);
  Outer o = enter_loop(E);
  bool outermost = o.loop < 0 && !E->lift;
  bool matrix = c->kind == TY_MATRIX && !c->array_dims;
  int32_t count = matrix ? c->n : c->dims[0];
  Flow f = FLOW_NEXT;
  note_loop(E, s->loc, count, false, "it runs over a container");
  for (int32_t k = 0; k < count && f == FLOW_NEXT; k++) {
    Value shape = {.kind = c->array_dims ? c->kind : TY_REAL, .n = 1, .node = NO_NODE};
    if (c->array_dims) {
      shape.array_dims = c->array_dims - 1;
      shape.ndims = c->ndims - 1;
      for (int d = 1; d < c->ndims; d++) shape.n *= shape.dims[d - 1] = c->dims[d];
    }
    int32_t *index = NEW_ARRAY(E->arena, int32_t, shape.n);
    for (int32_t e = 0; e < shape.n; e++)
      index[e] = matrix ? k % c->dims[0] * c->dims[1] + k / c->dims[0] : k * shape.n + e;
    E->frame[s->decls[0]->slot] =
        (Var){value_take(E, c, &shape, NULL, index), s->decls[0], E->lift};
    f = run_body(E, s, outermost, k);
  }
  leave_loop(E, o);
  return f == FLOW_RETURN ? f : FLOW_NEXT;
}

static bool condition(Eval *E, const Expr *e) {
  Value *c = value_on_axis(E, eval_expr(E, e), E->axis);
  if (!c->known)
    ctx_fail(E->ctx, PVI_PROGRAM, e->loc, "the condition of a while loop depends on parameters");
  for (int32_t r = 1; c->axis && r < c->axis->rows; r++)
    if ((c->v[r] != 0) != (c->v[0] != 0)) lift_bail(E, "a while loop ends at different times");
  return c->v[0] != 0;
}

enum { MOST_WHILE = 1000000 }; /* an endless loop must not fill the memory */

static Flow eval_while(Eval *E, const Stmt *s) {
  Outer o = enter_loop(E);
  bool outermost = o.loop < 0 && !E->lift;
  Flow f = FLOW_NEXT;
  int32_t k = 0;
  for (; f == FLOW_NEXT && condition(E, s->e); k++) {
    if (k == MOST_WHILE)
      ctx_fail(E->ctx, PVI_PROGRAM, s->loc, "a while loop has run %d times and goes on",
               MOST_WHILE);
    f = run_body(E, s, outermost, k);
  }
  note_loop(E, s->loc, k, false, "it is a while loop");
  leave_loop(E, o);
  return f == FLOW_RETURN ? f : FLOW_NEXT;
}

/* ---- rejecting ------------------------------------------------------------------------------- */

static void print_value(Eval *E, Text *t, const Expr *e) {
  if (e->kind == EX_STRING) {
    text_puts(t, e->name);
    return;
  }
  Value *v = eval_expr(E, e);
  if (!v->known || v->axis) {
    text_puts(t, "<parameter>");
    return;
  }
  if (v->ndims) text_puts(t, "[");
  for (int32_t k = 0; k < v->n; k++) text_printf(t, k ? ",%g" : "%g", v->v[k]);
  if (v->ndims) text_puts(t, "]");
}

static void eval_reject(Eval *E, const Stmt *s) {
  if (E->lift) lift_bail(E, "it rejects");
  Text t = text_make(E->arena);
  for (int k = 0; k < s->nargs; k++) print_value(E, &t, s->args[k]);
  if (E->guard)
    ctx_fail(E->ctx, PVI_PROGRAM, s->loc,
             "reject under a condition on parameters is not supported yet: %s", t.s ? t.s : "");
  ctx_fail(E->ctx, PVI_PROGRAM, s->loc, "the program rejects: %s", t.s ? t.s : "");
}

/* ---- all ------------------------------------------------------------------------------------- */

Flow eval_block(Eval *E, const Stmt *block) {
  for (int k = 0; block && k < block->nbody; k++) {
    Flow f = eval_stmt(E, block->body[k]);
    if (f != FLOW_NEXT) return f;
  }
  return FLOW_NEXT;
}

Flow eval_stmt(Eval *E, const Stmt *s) {
  switch (s->kind) {
  case ST_BLOCK:
  case ST_PROFILE: return eval_block(E, s);
  case ST_DECL: eval_decl(E, s); break;
  case ST_ASSIGN: eval_assign_stmt(E, s); break;
  case ST_TARGET: eval_increment(E, s->e); break;
  case ST_JACOBIAN: eval_add_jacobian(E, eval_expr(E, s->e)); break;
  case ST_TILDE: eval_tilde(E, s); break;
  case ST_IF: return eval_if(E, s);
  case ST_FOR: return eval_for(E, s);
  case ST_FOREACH: return eval_foreach(E, s);
  case ST_WHILE: return eval_while(E, s);
  case ST_BREAK: return FLOW_BREAK;
  case ST_CONTINUE: return FLOW_CONTINUE;
  case ST_RETURN: E->result = s->e ? eval_expr(E, s->e) : NULL; return FLOW_RETURN;
  case ST_CALL: eval_expr(E, s->e); break;
  case ST_PRINT: break; /* what a program prints is not shown */
  case ST_REJECT:
  case ST_FATAL: eval_reject(E, s); break;
  case ST_SKIP: break;
  }
  return FLOW_NEXT;
}
