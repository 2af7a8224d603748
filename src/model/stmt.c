/* stmt.c: what statements do. */
#include "model/complex.h"
#include "model/eval.h"

#include <math.h>
#include <string.h>

/* ---- declarations and assignment ------------------------------------------------------------- */

/* Data may be as large as the file that holds them; what the program makes up itself may not. */
static void check_total(Eval *E, const Decl *d, int ndims, const int32_t *dims) {
  int32_t most = d->is_top && d->block == BLOCK_DATA ? INT32_MAX : MOST_DECLARED;
  double n = 1;
  for (int k = 0; k < ndims; k++) n *= dims[k];
  if (n > most)
    ctx_fail(E->ctx, PVI_DATA, d->loc, "%s has %.0f elements, which is too large", d->name, n);
}

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
    if (size > MOST_DECLARED)
      ctx_fail(E->ctx, PVI_DATA, d->sizes[k]->loc, "size %ld of %s is too large: at most %d", size,
               d->name, MOST_DECLARED);
    dims[n++] = (int32_t)size;
  }
  if (pairs) dims[n++] = 2;
  check_total(E, d, n, dims);
  *shape = *value_shape(E, d->type->kind, d->type->array_dims, n, dims);
}

/* A declared variable without a value: NaN, or the least int. */
double eval_not_set(TypeKind kind) { return kind == TY_INT ? (double)INT32_MIN : (double)NAN; }

Value *eval_default(Eval *E, const Decl *d) {
  if (d->type->kind == TY_TUPLE) return tuple_default(E, d);
  Value shape;
  eval_dims(E, d, &shape);
  Value *v = value_known(E, &shape, NULL);
  for (int32_t k = 0; k < v->n; k++) v->v[k] = eval_not_set(d->type->kind);
  return v;
}

static void check_fits(Eval *E, const Value *to, const Value *from, Loc loc) {
  bool same = to->ndims == from->ndims;
  for (int k = 0; same && k < to->ndims; k++) same = to->dims[k] == from->dims[k];
  if (!same)
    ctx_fail(E->ctx, PVI_PROGRAM, loc, "sizes do not match in assignment: %d elements into %d",
             from->n, to->n);
}

/* v as what stood there before: of its kind, where a narrower one is given, and of its sizes. */
static Value *fitted(Eval *E, const Value *to, Value *v, Loc loc) {
  v = complex_promote(E, v, to->kind);
  check_fits(E, to, v, loc);
  if (to->kind == TY_TUPLE) {
    Value **items = NEW_ARRAY(E->arena, Value *, to->nitems + 1);
    for (int k = 0; k < to->nitems; k++) items[k] = fitted(E, to->items[k], v->items[k], loc);
    return tuple_like(E, to, items);
  }
  return v->kind == to->kind ? v : value_reshape(E, v, to->kind, v->array_dims, v->ndims, v->dims);
}

/* Loops are lifted by elements, which tuples have none of. */
static void need_own_tuple(Eval *E, const Var *var) {
  if (E->lift && (var->lift != E->lift || E->axis->parent)) lift_bail(E, "a tuple is assigned");
}

/* The whole variable; it keeps its declared kind. */
static void set_variable(Eval *E, Var *var, Value *v, Loc loc) {
  v = fitted(E, var->value, v, loc);
  if (v->kind == TY_TUPLE) need_own_tuple(E, var);
  if (E->mask != var->mask) {
    lift_read(E, var, NULL, NULL, var->value->n);
    v = eval_choose(E, E->mask, v, value_on_axis(E, var->value, E->axis));
  }
  lift_write(E, var, NULL, NULL, var->value->n);
  if (E->axis && E->axis->parent && v->kind != TY_TUPLE) { /* in a branch: only its rows */
    int32_t *all = NEW_ARRAY(E->arena, int32_t, v->n);
    for (int32_t k = 0; k < v->n; k++) all[k] = k;
    value_put(E, &var->value, NULL, all, v->n, v);
    return;
  }
  v->shared = true;
  var->value = v;
}

static void set_elements(Eval *E, Var *var, const Index *indexes, int n, Value *v, Loc loc) {
  Selection s = eval_selection(E, var->value, indexes, n, loc);
  v = complex_promote(E, v, s.shape.kind);
  check_fits(E, &s.shape, v, loc);
  if (E->mask != var->mask) {
    lift_read(E, var, s.axis, s.index, s.shape.n);
    Value *old = value_on_axis(E, var->value, E->axis);
    v = eval_choose(E, E->mask, v, value_take(E, old, &s.shape, s.axis, s.index));
  }
  lift_write(E, var, s.axis, s.index, s.shape.n);
  /* every iteration has its own variable, of which it changes its own element */
  if (s.axis && E->lift && var->lift == E->lift) value_spread(E, &var->value);
  value_put(E, &var->value, s.axis, s.index, s.shape.n, v);
}

static void eval_assign(Eval *E, const Expr *lhs, Value *v);

/* An item of a tuple, or elements of an array of tuples: the whole is assigned, with the rest as it
 * was. */
static void set_item(Eval *E, const Expr *lhs, const Value *tuple, Value *v) {
  if (lhs->kind == EX_FIELD) {
    tuple = tuple_with(E, tuple, lhs->field - 1, v);
  } else {
    Selection s = eval_selection(E, tuple, lhs->indexes, lhs->nindexes, lhs->loc);
    check_fits(E, &s.shape, v, lhs->loc);
    tuple = tuple_replace(E, tuple, &s, v);
  }
  eval_assign(E, lhs->args[0], (Value *)tuple);
}

static void eval_assign(Eval *E, const Expr *lhs, Value *v) {
  if (lhs->kind == EX_PAREN) {
    eval_assign(E, lhs->args[0], v);
  } else if (lhs->kind == EX_VAR) {
    set_variable(E, &E->frame[lhs->decl->slot], v, lhs->loc);
  } else if (lhs->kind == EX_TUPLE) {
    for (int k = 0; k < lhs->nargs; k++) eval_assign(E, lhs->args[k], v->items[k]);
  } else if (lhs->kind == EX_FIELD || lhs->args[0]->type->kind == TY_TUPLE) {
    set_item(E, lhs, eval_expr(E, lhs->args[0]), v);
  } else if (number_is_block(E, lhs) && !complex_kind(lhs->type->kind)) {
    NumberBlock b = number_block_to(E, lhs);
    check_fits(E, &b.shape, v, lhs->loc);
    if (v->n) memcpy(b.to, v->v, (size_t)v->n * sizeof *b.to);
  } else if (lhs->args[0]->kind == EX_VAR) {
    set_elements(E, &E->frame[lhs->args[0]->decl->slot], lhs->indexes, lhs->nindexes, v, lhs->loc);
  } else { /* x[i][j] = v: change a copy of x[i], put it back */
    Value *inner = eval_expr(E, lhs->args[0]);
    inner->shared = true;
    Selection s = eval_selection(E, inner, lhs->indexes, lhs->nindexes, lhs->loc);
    v = complex_promote(E, v, s.shape.kind);
    check_fits(E, &s.shape, v, lhs->loc);
    if (s.axis && E->lift) value_spread(E, &inner);
    value_put(E, &inner, s.axis, s.index, s.shape.n, v);
    eval_assign(E, lhs->args[0], inner);
  }
}

static bool assign_number(Eval *E, const Stmt *s) {
  if (!E->numbers || E->axis || !number_assigns(s)) return false;
  size_t height = (size_t)(s->e->height > s->lhs->height ? s->e->height : s->lhs->height);
  if (base_stack_left() < STACK_RESERVE + height * NUMBER_STACK) return false;
  number_assign(E, s, number_code(E, s->lhs), number_code(E, s->e));
  return true;
}

static void eval_assign_stmt(Eval *E, const Stmt *s) {
  if (assign_number(E, s)) return;
  Value *v = eval_expr(E, s->e);
  if (s->has_op) v = eval_binary(E, s->op, eval_expr(E, s->lhs), v, s->loc);
  eval_assign(E, s->lhs, v);
}

/* A variable that is a number; false: it is none. */
static bool declare_number(Eval *E, const Decl *d) {
  TypeKind kind = d->type->kind;
  if (!E->numbers || E->axis || d->type->array_dims || (kind != TY_INT && kind != TY_REAL))
    return false;
  if (d->init && !number_typed(d->init)) return false;
  eval_declare_number(E, d);
  if (d->init) number_set(E, &E->frame[d->slot], kind, number_of(E, d->init));
  return true;
}

void eval_declare_number(Eval *E, const Decl *d) {
  Var *var = &E->frame[d->slot];
  *var = (Var){var->value, d, NULL, NULL};
  number_set(E, var, d->type->kind, eval_not_set(d->type->kind));
}

static void eval_decl(Eval *E, const Stmt *s) {
  for (int k = 0; k < s->ndecls; k++) {
    const Decl *d = s->decls[k];
    if (declare_number(E, d)) continue;
    Value *v = eval_default(E, d);
    E->frame[d->slot] = (Var){v, d, E->lift, E->mask};
    if (!d->init) continue;
    if (inline_declares_sum(E, d)) {
      eval_increment(E, d->init);
      continue;
    }
    Value *x = eval_expr(E, d->init);
    set_variable(E, &E->frame[d->slot], x, d->loc);
  }
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

/* A loop that is running, and what was around it before. */
typedef struct {
  Nest nest;
  LoopScope scope;
  bool outermost;
  int loop;
  int32_t iteration;
  const Factors *factors;
  const Stmt *statement;
} Running;

/* s: the loop, or NULL where there is none in the program. r must stay where it is until the loop
 * is left. */
static void enter_loop(Eval *E, const Stmt *s, Running *r) {
  *r = (Running){.nest = {E->nest, E->nest ? E->nest->depth + 1 : 1, E->ticks++},
                 .outermost = E->loop < 0,
                 .loop = E->loop,
                 .iteration = E->iteration,
                 .factors = E->factors,
                 .statement = E->statement};
  E->nest = &r->nest;
  scope_enter_loop(E, &r->scope);
  if (!r->outermost) return;
  E->loop = E->loop_count++;
  E->iteration = -1;
  E->loop_depth = E->depth;
  E->factors = s && !E->quiet ? factors_of(E, s) : NULL;
}

static void leave_loop(Eval *E, const Running *r) {
  scope_leave_loop(E, &r->scope);
  E->nest = r->nest.outer;
  E->loop = r->loop;
  E->iteration = r->iteration;
  E->factors = r->factors;
  E->statement = r->statement;
}

/* Iteration k of a loop that is not lifted; body: what its statement has become, or NULL. */
static Flow run_body(Eval *E, const Stmt *s, const Step *body, Running *r, int32_t k) {
  if (r->outermost && !E->lift) E->iteration = k;
  r->nest.tick = E->ticks++;
  scope_iterate(E, &r->scope);
  Flow f = body ? step_run(E, body) : eval_stmt(E, s->body[0]);
  return f == FLOW_CONTINUE || f == FLOW_LEFT ? FLOW_NEXT : f;
}

static long loop_bound(Eval *E, const Expr *e) {
  if (number_is(E, e)) return (long)number_of(E, e);
  return value_int_of(E, eval_expr(E, e), e->loc, "a loop bound");
}

static void set_loop_variable(Eval *E, const Decl *d, long k) {
  Var *var = &E->frame[d->slot];
  *var = (Var){E->numbers && !E->axis ? var->value : NULL, d, E->lift, NULL};
  number_set(E, var, TY_INT, (double)k);
}

static Flow eval_for(Eval *E, const Stmt *s) {
  long from = loop_bound(E, s->from), to = loop_bound(E, s->to);
  return eval_loop(E, s, from, to, NULL);
}

Flow eval_loop(Eval *E, const Stmt *s, long from, long to, const Step *body) {
  if (to < from) return FLOW_NEXT;
  Running r;
  enter_loop(E, s, &r);
  const char *why = "it is too long";
  bool lifted = !E->lift && to - from < INT32_MAX && lift_loop(E, s, from, to, &why);
  note_loop(E, s->loc, to - from + 1, lifted, lifted ? NULL : why);
  Flow f = FLOW_NEXT;
  if (!lifted && !body) body = step_of(E, s->body[0]);
  for (long k = from; !lifted && k <= to && f == FLOW_NEXT; k++) {
    set_loop_variable(E, s->decls[0], k);
    f = run_body(E, s, body, &r, (int32_t)(k - from));
  }
  leave_loop(E, &r);
  return f == FLOW_RETURN ? f : FLOW_NEXT;
}

void eval_each(Eval *E, const Expr *e, int32_t n, LiftBody *lifted, LiftBody *one, void *self) {
  Running r;
  enter_loop(E, NULL, &r);
  const char *why = NULL;
  bool done = lift_body(E, n, NULL, lifted, self, &why);
  note_loop(E, e->loc, n, done, why);
  for (int32_t k = 0; !done && k < n; k++) {
    E->iteration = k;
    one(E, self);
  }
  leave_loop(E, &r);
}

/* for (x in container): elements of arrays and vectors; matrices by element, column by column. */
static Flow eval_foreach(Eval *E, const Stmt *s) {
  Value *c = eval_expr(E, s->e);
  Running r;
  enter_loop(E, s, &r);
  bool matrix = c->kind == TY_MATRIX && !c->array_dims;
  int32_t count = matrix ? c->n : c->dims[0];
  Flow f = FLOW_NEXT;
  const Step *body = step_of(E, s->body[0]);
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
        (Var){value_take(E, c, &shape, NULL, index), s->decls[0], E->lift, NULL};
    f = run_body(E, s, body, &r, k);
  }
  leave_loop(E, &r);
  return f == FLOW_RETURN ? f : FLOW_NEXT;
}

static bool condition(Eval *E, const Expr *e) {
  if (number_is(E, e)) return number_of(E, e) != 0;
  Value *c = value_on_axis(E, eval_decided(E, eval_expr(E, e)), E->axis);
  if (!c->known) eval_needs_draw(E, e->loc, "the condition of a while loop depends on parameters");
  for (int32_t r = 1; c->axis && r < c->axis->rows; r++)
    if ((c->v[r] != 0) != (c->v[0] != 0)) lift_bail(E, "a while loop ends at different times");
  return c->v[0] != 0;
}

enum { MOST_WHILE = 1000000 }; /* an endless loop must not fill the memory */

static Flow eval_while(Eval *E, const Stmt *s) {
  Running r;
  enter_loop(E, s, &r);
  Flow f = FLOW_NEXT;
  const Step *body = step_of(E, s->body[0]);
  int32_t k = 0;
  for (; f == FLOW_NEXT && condition(E, s->e); k++) {
    if (k == MOST_WHILE)
      ctx_fail(E->ctx, PVI_PROGRAM, s->loc, "a while loop has run %d times and goes on",
               MOST_WHILE);
    f = run_body(E, s, body, &r, k);
  }
  note_loop(E, s->loc, k, false, "it is a while loop");
  leave_loop(E, &r);
  return f == FLOW_RETURN ? f : FLOW_NEXT;
}

/* ---- rejecting ------------------------------------------------------------------------------- */

/* Dimension d of an array, from element `at` on: [[1,2],[3,4]]. */
static void put_elements(Text *t, const Value *v, int d, int32_t at, int32_t n) {
  if (d == v->ndims) {
    text_printf(t, "%g", v->v[at]);
    return;
  }
  text_puts(t, "[");
  for (int32_t k = 0, each = v->dims[d] ? n / v->dims[d] : 0; k < v->dims[d]; k++) {
    if (k) text_puts(t, ",");
    put_elements(t, v, d + 1, at + k * each, each);
  }
  text_puts(t, "]");
}

static void put_value(Text *t, const Value *v) {
  if (v->kind == TY_TUPLE) {
    text_puts(t, v->array_dims ? "[" : "(");
    for (int k = 0; k < v->nitems; k++) {
      if (k) text_puts(t, ",");
      put_value(t, v->items[k]);
    }
    text_puts(t, v->array_dims ? "]" : ")");
  } else if (!v->known || v->axis) {
    text_puts(t, "<parameter>");
  } else {
    put_elements(t, v, 0, 0, v->n);
  }
}

static void print_value(Eval *E, Text *t, const Expr *e) {
  if (e->kind == EX_STRING) {
    text_puts(t, e->name);
    return;
  }
  put_value(t, eval_expr(E, e));
}

static bool reads_target(const Expr *e) {
  bool reads = e && e->kind == EX_TARGET;
  for (int k = 0; e && k < e->nargs; k++) reads |= reads_target(e->args[k]);
  for (int k = 0; e && k < e->nindexes; k++)
    reads |= reads_target(e->indexes[k].a) || reads_target(e->indexes[k].b);
  return reads;
}

/* An index out of range ends a program here as well. What is known only of a draw, or of an
 * iteration, is let be. */
static void check_printed(Eval *E, const Expr *e) {
  Attempt *a = NEW(E->arena, Attempt);
  EvalNotes before = *E->shared;
  if (setjmp(*attempt_begin(E, a))) {
    bool said = E->ctx->nmessages > a->messages && E->shared->needs_draw == before.needs_draw;
    Message why = said ? E->ctx->messages[E->ctx->nmessages - 1] : (Message){.text = ""};
    Status status = E->ctx->status;
    *E->shared = before;
    attempt_undo(E, a);
    if (said) ctx_fail(E->ctx, status, why.loc, "%s", why.text);
    return;
  }
  eval_expr(E, e);
  attempt_end(E, a);
}

/* Transformed data, which are made once, tell what they print; of draws nothing is shown. */
static void print(Eval *E, const Stmt *s) {
  for (int k = 0; k < s->nargs; k++)
    if (s->args[k]->kind != EX_STRING && !reads_target(s->args[k])) check_printed(E, s->args[k]);
  if (!E->prints || E->attempts) return;
  Text t = text_make(E->arena);
  for (int k = 0; k < s->nargs; k++) print_value(E, &t, s->args[k]);
  ctx_note(E->ctx, NOWHERE, "%s", t.s ? t.s : "");
}

static Flow reject(Eval *E, const Stmt *s) {
  Text t = text_make(E->arena);
  for (int k = 0; k < s->nargs; k++) print_value(E, &t, s->args[k]);
  return eval_reject(E, s, t.s ? t.s : "");
}

/* ---- all ------------------------------------------------------------------------------------- */

Flow eval_block(Eval *E, const Stmt *block) {
  for (int k = 0; block && k < block->nbody; k++) {
    Flow f = eval_stmt(E, block->body[k]);
    if (f != FLOW_NEXT) return f;
  }
  return FLOW_NEXT;
}

static Value *return_value(Eval *E, const Stmt *s) {
  if (inline_return(E, s)) return value_real(E, 0);
  return s->e ? eval_expr(E, s->e) : NULL;
}

static void eval_adding(Eval *E, const Stmt *s) {
  const Stmt *outer = E->adding;
  E->adding = s;
  if (s->kind == ST_TILDE)
    eval_tilde(E, s);
  else
    eval_increment(E, s->e);
  E->adding = outer;
}

Flow eval_stmt(Eval *E, const Stmt *s) {
  eval_deeper(E, s->loc);
  if (E->loop >= 0 && E->depth == E->loop_depth) E->statement = s;
  switch (s->kind) {
  case ST_BLOCK:
  case ST_PROFILE: return eval_block(E, s);
  case ST_DECL: eval_decl(E, s); break;
  case ST_ASSIGN:
    if (!inline_assign(E, s)) eval_assign_stmt(E, s);
    break;
  case ST_TARGET:
  case ST_TILDE: eval_adding(E, s); break;
  case ST_JACOBIAN: eval_add_jacobian(E, eval_expr(E, s->e)); break;
  case ST_IF: return eval_if(E, s);
  case ST_FOR: return eval_for(E, s);
  case ST_FOREACH: return eval_foreach(E, s);
  case ST_WHILE: return eval_while(E, s);
  case ST_BREAK: return eval_break(E);
  case ST_CONTINUE: return eval_continue(E);
  case ST_RETURN: return eval_return(E, return_value(E, s));
  case ST_CALL: eval_expr(E, s->e); break;
  case ST_PRINT: print(E, s); break;
  case ST_REJECT:
  case ST_FATAL: return reject(E, s);
  case ST_SKIP: break;
  }
  return FLOW_NEXT;
}
