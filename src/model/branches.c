/* branches.c: what depends on a condition.
 *
 * Conditions on data are decided; where they differ between the iterations of a lifted loop, each
 * branch is run for its own rows. A condition on parameters is a number, 0 or 1, of every draw:
 * both branches are run, and every variable that they change becomes a choice between the two. What
 * is computed for draws that do not need it is thrown away, derivatives too (0 times infinity is 0
 * there), so it may be anything, but it must not fail: where it does the program is evaluated draw
 * by draw (follow.c).
 *
 * Three things say which draws a statement counts for; NULL is all of them:
 *
 *   guard  the conditions of the branches around it
 *   live   not the draws that have returned from the running function
 *   mask   not the draws that have left the running iteration by break or continue
 *
 * Draws that returned need nothing any more, so their variables may change. Those of draws that
 * left a loop must not: assignments under a mask choose between the new value and the old.
 */
#include "model/complex.h"
#include "model/eval.h"

#include <math.h>

/* ---- conditions ------------------------------------------------------------------------------ */

static Value *both(Eval *E, Value *a, Value *b) { return !a ? b : !b ? a : map2(E, IR_MUL, a, b); }

static Value *either(Eval *E, Value *a, Value *b) { return a ? map2(E, IR_FMAX, a, b) : b; }

static Value * not(Eval * E, Value *a) { return a ? map1(E, IR_NOT, a) : NULL; }

Value *eval_condition(Eval *E) { return both(E, both(E, E->guard, E->live), E->mask); }

Value *eval_choose(Eval *E, Value *c, Value *yes, Value *no) {
  if (!c || yes == no) return yes;
  if (yes->kind == TY_TUPLE) {
    Value **items = NEW_ARRAY(E->arena, Value *, yes->nitems);
    for (int k = 0; k < yes->nitems; k++) items[k] = eval_choose(E, c, yes->items[k], no->items[k]);
    return tuple_like(E, yes, items);
  }
  Value *v = map3(E, IR_SELECT, c, yes, no);
  v->kind = no->kind;
  return v;
}

/* ---- conditions on data ---------------------------------------------------------------------- */

/* The rows of p that are marked. */
Axis *eval_rows_marked(Eval *E, const Axis *p, const bool *marked) {
  Axis *a = NEW(E->arena, Axis);
  int32_t *rows = NEW_ARRAY(E->arena, int32_t, p->rows),
          *iteration = NEW_ARRAY(E->arena, int32_t, p->rows);
  for (int32_t r = 0; r < p->rows; r++)
    if (marked[r]) {
      rows[a->rows] = r;
      iteration[a->rows++] = p->iteration[r];
    }
  a->parent = p;
  a->parent_rows = rows;
  a->iteration = iteration;
  return a;
}

Axis *eval_rows_where(Eval *E, const Value *c, bool wanted) {
  bool *marked = NEW_ARRAY(E->arena, bool, c->axis->rows);
  for (int32_t r = 0; r < c->axis->rows; r++) marked[r] = (c->v[r] != 0) == wanted;
  return eval_rows_marked(E, c->axis, marked);
}

/* Marks the rows of `of` which are those of a, a part of it. */
static void mark_rows(const Axis *a, const Axis *of, bool *marked) {
  for (int32_t r = 0; r < a->rows; r++) {
    int32_t row = r;
    for (const Axis *at = a; at != of; at = at->parent) row = at->parent_rows[row];
    marked[row] = true;
  }
}

/* A branch for its own rows. What draws leave there they leave in these rows only, which guard,
 * live and mask cannot say. */
static Flow eval_rows(Eval *E, const Stmt *s, const Axis *a, const Axis *outer) {
  const Value *live = E->live, *mask = E->mask, *broken = E->scope.broken;
  E->axis = a;
  Flow f = s ? eval_stmt(E, s) : FLOW_NEXT;
  bool left = E->live != live || E->mask != mask || E->scope.broken != broken;
  if ((left && a != outer) || (f != FLOW_NEXT && f != FLOW_RETURN) ||
      (f == FLOW_RETURN && E->depth == E->lift_function))
    lift_bail(E, "it is left by break, continue or return in some iterations");
  return f;
}

/* Each branch for its own rows. Rows that return from the running function there need nothing any
 * more: E->axis is then those that go on. */
static Flow eval_partition(Eval *E, const Stmt *s, const Value *c) {
  const Axis *outer = E->axis;
  bool *going = NEW_ARRAY(E->arena, bool, outer->rows);
  for (int branch = 0; branch < 2; branch++) {
    const Axis *a = eval_rows_where(E, c, branch == 0);
    const Stmt *body = branch < s->nbody ? s->body[branch] : NULL;
    if (!a->rows) continue;
    if (a->rows == outer->rows) a = outer;
    if (eval_rows(E, body, a, outer) == FLOW_NEXT) mark_rows(E->axis, outer, going);
  }
  const Axis *rest = eval_rows_marked(E, outer, going);
  E->axis = rest->rows && rest->rows < outer->rows ? rest : outer;
  return rest->rows ? FLOW_NEXT : FLOW_RETURN;
}

/* ---- conditions on parameters ---------------------------------------------------------------- */

typedef struct {
  Var *var;
  Value *before, *then;
} Changed;

typedef struct {
  const Stmt *s;
  Changed *items;
  int n, cap;
} Changes;

static void add_changed(Eval *E, const Expr *lhs, Changes *list) {
  if (lhs->kind == EX_TUPLE) {
    for (int k = 0; k < lhs->nargs; k++) add_changed(E, lhs->args[k], list);
    return;
  }
  const Decl *d = stan_root(lhs);
  Var *var = d ? &E->frame[d->slot] : NULL;
  if (!var || !var->value || var->decl != d || stan_declares(list->s, d)) return;
  for (int k = 0; k < list->n; k++)
    if (list->items[k].var == var) return;
  Changed c = {.var = var, .before = var->value};
  var->value->shared = true;
  PUSH(E->arena, list->items, list->n, list->cap, c);
}

static void collect_changed(Eval *E, const Stmt *s, Changes *list) {
  if (!s) return;
  if (s->kind == ST_ASSIGN) add_changed(E, s->lhs, list);
  for (int k = 0; k < s->nbody; k++) collect_changed(E, s->body[k], list);
}

static Flow eval_branch(Eval *E, const Stmt *s, Value *guard, Value *c) {
  if (!s) return FLOW_NEXT;
  E->guard = both(E, guard, c);
  Flow f = eval_stmt(E, s);
  E->guard = guard;
  return f;
}

/* What one branch says of an outcome in some draws the other one says in the rest, statement by
 * statement: element by element that is one observation, not two of which every draw has one. In
 * loops iterations say what belongs together. */
static void join_branches(Eval *E, size_t yes, size_t no) {
  size_t count = no - yes;
  if (E->nsites - no != count) return;
  for (size_t k = count; k-- > 0;) sites_join(E, yes + k, no + k);
}

/* Both branches, and a choice per draw of every variable they change. */
static Flow eval_choice(Eval *E, const Stmt *s, Value *c) {
  E->shared->conditional = true;
  Changes list = {.s = s};
  for (int k = 0; k < s->nbody; k++) collect_changed(E, s->body[k], &list);
  Value *guard = E->guard;
  size_t sites = E->nsites;
  Flow yes = eval_branch(E, s->body[0], guard, c), no;
  size_t others = E->nsites;
  for (int k = 0; k < list.n; k++) {
    list.items[k].then = list.items[k].var->value;
    list.items[k].then->shared = true;
    list.items[k].var->value = list.items[k].before;
  }
  no = eval_branch(E, s->nbody > 1 ? s->body[1] : NULL, guard, not(E, c));
  join_branches(E, sites, others);
  for (int k = 0; k < list.n; k++) {
    Var *var = list.items[k].var;
    Value *then = list.items[k].then;
    var->value = eval_choose(E, lift_choice(E, var, c, then), then, var->value);
  }
  return yes == FLOW_LEFT && no == FLOW_LEFT ? FLOW_LEFT : FLOW_NEXT;
}

/* Both sides, and a choice between them per draw or per iteration. What the sides themselves add to
 * the log density counts only where they are taken. */
Value *eval_either(Eval *E, const Expr *e, Value *c) {
  Value *guard = E->guard;
  if (!c->known) E->guard = both(E, guard, c);
  Value *yes = complex_promote(E, eval_expr(E, e->args[1]), e->type->kind);
  if (!c->known) E->guard = both(E, guard, not(E, c));
  Value *no = complex_promote(E, eval_expr(E, e->args[2]), e->type->kind);
  E->guard = guard;
  E->shared->conditional |= !c->known;
  Value *v = eval_choose(E, c, yes, no);
  if (v->kind != TY_TUPLE) v->kind = e->type->kind;
  return v;
}

static Flow eval_taken(Eval *E, const Stmt *s, bool yes) {
  const Stmt *branch = yes ? s->body[0] : s->nbody > 1 ? s->body[1] : NULL;
  return branch ? eval_stmt(E, branch) : FLOW_NEXT;
}

Flow eval_if(Eval *E, const Stmt *s) {
  if (number_is(E, s->e)) return eval_taken(E, s, number_of(E, s->e) != 0);
  Value *c = value_on_axis(E, eval_decided(E, eval_expr(E, s->e)), E->axis);
  if (!c->known) return eval_choice(E, s, c);
  if (c->axis) return eval_partition(E, s, c);
  return eval_taken(E, s, c->v[0] != 0);
}

/* ---- leaving --------------------------------------------------------------------------------- */

/* Does the statement count for fewer draws than the loop's iteration, or the function, around it?
 */
static bool in_part_of_iteration(const Eval *E) {
  return E->guard != E->scope.loop_guard || E->mask != E->scope.loop_mask;
}

static bool in_part_of_function(const Eval *E) {
  return E->guard != E->scope.function_guard || E->mask || E->live;
}

/* In a lifted loop iterations run at once: none can end those behind it. Is the loop that would be
 * left, the innermost one or any of this function, the one that is lifted? */
static void need_order(Eval *E, bool innermost) {
  if (E->lift && E->depth == E->lift_function &&
      (!innermost || !E->nest || E->nest->depth == E->lift_depth))
    lift_bail(E, "it is left by break or return in some draws");
}

static void leave_iteration(Eval *E, bool loop) {
  Value *c = eval_condition(E);
  if (loop) E->scope.broken = either(E, E->scope.broken, c);
  E->mask = both(E, E->mask, not(E, c));
}

Flow eval_break(Eval *E) {
  if (!in_part_of_iteration(E)) return FLOW_BREAK;
  need_order(E, true);
  leave_iteration(E, true);
  return FLOW_LEFT;
}

Flow eval_continue(Eval *E) {
  if (!in_part_of_iteration(E)) return FLOW_CONTINUE;
  leave_iteration(E, false);
  return FLOW_LEFT;
}

/* In a lifted loop around the function: what the running rows return. */
static void return_rows(Eval *E, Value *v) {
  Value **all = &E->scope.of_rows;
  if (!v) return;
  if (v->kind == TY_TUPLE) lift_bail(E, "a tuple is returned in some iterations");
  int32_t *index = NEW_ARRAY(E->arena, int32_t, v->n);
  for (int32_t k = 0; k < v->n; k++) index[k] = k;
  if (!*all) {
    *all = value_known(E, v, NULL);
    for (int32_t k = 0; k < v->n; k++) (*all)->v[k] = NAN;
  }
  if ((*all)->n != v->n) lift_bail(E, "values of different sizes are returned");
  value_put(E, all, NULL, index, v->n, v);
}

/* Some rows, or some draws, return a value here, others later. */
Flow eval_return(Eval *E, Value *v) {
  bool some_rows = E->lift && E->depth != E->lift_function && E->axis != E->scope.axis;
  E->result = v;
  if (some_rows && in_part_of_function(E))
    lift_bail(E, "a function is left in some draws and in some iterations");
  if (some_rows) return_rows(E, v);
  if (!in_part_of_function(E)) return FLOW_RETURN;
  need_order(E, false);
  Return r = {eval_condition(E), v};
  PUSH(E->arena, E->scope.returns, E->scope.nreturns, E->scope.cap_returns, r);
  E->live = both(E, E->live, not(E, r.condition));
  return FLOW_LEFT;
}

/* The first of the returns whose condition holds is the one. The last needs none: whoever comes
 * that far returns there. */
static Value *returned(Eval *E) {
  const Scope *s = &E->scope;
  if (s->of_rows) return value_on_axis(E, s->of_rows, s->axis);
  Value *v = s->nreturns ? s->returns[s->nreturns - 1].value : E->result;
  for (int k = s->nreturns - 1; v && k-- > 0;)
    v = eval_choose(E, s->returns[k].condition, s->returns[k].value, v);
  return v;
}

/* A draw that is rejected has no density, whatever else is computed for it. */
Flow eval_reject(Eval *E, const Stmt *s, const char *text) {
  Value *c = eval_condition(E);
  if (!c && E->lift) lift_bail(E, "it rejects");
  if (!c || E->quiet) ctx_fail(E->ctx, PVI_PROGRAM, s->loc, "the program rejects: %s", text);
  eval_add_rejected(E, c);
  return FLOW_LEFT;
}

void eval_reject_where(Eval *E, Value *c) { eval_add_rejected(E, both(E, eval_condition(E), c)); }

void eval_needs_draw(Eval *E, Loc loc, const char *why) {
  E->shared->needs_draw = true;
  ctx_fail(E->ctx, PVI_PROGRAM, loc, "%s", why);
}

/* ---- scopes ---------------------------------------------------------------------------------- */

Value *scope_function(Eval *E, const Stmt *body) {
  Scope outer = E->scope;
  Value *guard = E->guard, *live = E->live, *mask = E->mask;
  E->guard = eval_condition(E);
  E->live = E->mask = NULL;
  E->scope = (Scope){.function_guard = E->guard, .axis = E->axis};
  E->result = NULL;
  eval_stmt(E, body);
  E->axis = E->scope.axis;
  Value *r = returned(E);
  E->scope = outer;
  E->guard = guard, E->live = live, E->mask = mask;
  E->result = NULL;
  return r;
}

void scope_enter_loop(Eval *E, LoopScope *l) {
  *l = (LoopScope){E->scope.loop_guard, E->scope.loop_mask, E->scope.broken, E->mask};
  E->scope.loop_guard = E->guard;
  E->scope.loop_mask = E->mask;
  E->scope.broken = NULL;
}

void scope_iterate(Eval *E, const LoopScope *l) {
  E->mask = both(E, l->mask, not(E, E->scope.broken));
  E->scope.loop_mask = E->mask;
}

void scope_leave_loop(Eval *E, const LoopScope *l) {
  E->scope.loop_guard = l->loop_guard;
  E->scope.loop_mask = l->loop_mask;
  E->scope.broken = l->broken;
  E->mask = l->mask;
}
