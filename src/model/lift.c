/* lift.c: a loop as a vector: its body is evaluated once, with the index a column of all
 * iterations.
 *
 * That is right when no iteration sees what another one wrote. Every element of an outer variable
 * that the loop changes carries two stamps: the last iteration that read it before it was written,
 * and the iteration that wrote it. A read of what another iteration wrote, or a write to what a
 * later iteration has read, is a dependence: the attempt is given up (lift_bail), everything is put
 * back as it was, and the loop is unrolled. So are loops that fail in any other way; unrolled, they
 * report it in order.
 *
 * Where a size or a bound differs between iterations (lift_differs) the iterations are divided into
 * parts in which it does not, and the body is evaluated once for each part, as a branch on data is.
 */
#include "model/eval.h"

#include <string.h>

enum { NOBODY = -1, EVERYBODY = -2 };

typedef struct {
  Var *var;
  Value *before;
  int32_t *read;  /* last iteration that read the element before it was written, or NOBODY */
  int32_t *wrote; /* iteration that wrote it, EVERYBODY (each its own), or NOBODY */
} LiftVar;

struct Lift {
  Axis root;
  const Value *guard; /* E->guard where it begins */
  LiftVar *vars;
  int nvars, cap_vars;
  const char *why;
  const int32_t *part; /* of each iteration; NULL: there is one part */
  int parts;
  double *differs; /* of each iteration: the size that differs; NULL: none did */
};

enum {
  MOST_PARTS = 64,    /* of a loop, each with nodes of its own */
  LEAST_PART = 2,     /* iterations of a part, on average: fewer are not worth it */
  MOST_DIVISIONS = 6, /* sizes by which iterations are told apart */
};

/* ---- stamps ---------------------------------------------------------------------------------- */

static LiftVar *stamped(Eval *E, const Var *var) {
  if (!E->lift || var->lift == E->lift) return NULL;
  for (int k = 0; k < E->lift->nvars; k++)
    if (E->lift->vars[k].var == var) return &E->lift->vars[k];
  return NULL;
}

void lift_bail(Eval *E, const char *why) {
  if (!E->lift) ctx_fail(E->ctx, PVI_PROGRAM, NOWHERE, "%s", why);
  E->lift->why = why;
  ctx_jump(E->ctx, PVI_PROGRAM);
}

void lift_differs(Eval *E, const Axis *axis, const double *sizes) {
  Lift *l = E->lift;
  if (l) {
    l->differs = NEW_ARRAY(E->arena, double, l->root.rows);
    for (int32_t r = 0; r < axis->rows; r++) l->differs[axis->iteration[r]] = sizes[r];
  }
  lift_bail(E, "a size or bound differs between iterations");
}

static int32_t last_iteration(const Axis *a) { return a->iteration[a->rows - 1]; }

void lift_read(Eval *E, Var *var, const Axis *axis, const int32_t *index, int32_t n) {
  LiftVar *s = stamped(E, var);
  if (!s) return;
  const Axis *rows = axis ? axis : E->axis;
  for (int32_t r = 0; r < (axis ? axis->rows : 1); r++)
    for (int32_t k = 0; k < n; k++) {
      int32_t e = index ? index[(axis ? r * n : 0) + k] : k;
      int32_t who = axis ? axis->iteration[r] : last_iteration(rows);
      if (s->wrote[e] == EVERYBODY) continue;
      if (s->wrote[e] == NOBODY) {
        if (who > s->read[e]) s->read[e] = who;
      } else if (!axis || s->wrote[e] != who) {
        if (rows->rows > 1 || s->wrote[e] != who)
          lift_bail(E, "an iteration reads what another one wrote");
      }
    }
}

void lift_write(Eval *E, Var *var, const Axis *axis, const int32_t *index, int32_t n) {
  LiftVar *s = stamped(E, var);
  if (!s) return;
  if (E->guard != E->lift->guard) lift_read(E, var, axis, index, n); /* some draws keep the old */
  bool all_rows = E->axis && !E->axis->parent;
  for (int32_t r = 0; r < (axis ? axis->rows : 1); r++)
    for (int32_t k = 0; k < n; k++) {
      int32_t e = index ? index[(axis ? r * n : 0) + k] : k;
      if (axis) {
        if (s->wrote[e] == EVERYBODY || s->read[e] > axis->iteration[r])
          lift_bail(E, "an iteration reads what another one writes");
        if (s->wrote[e] > axis->iteration[r])
          lift_bail(E, "two statements write the same element, the earlier one last");
        s->wrote[e] = axis->iteration[r];
      } else {
        if (s->wrote[e] != EVERYBODY &&
            (s->read[e] != NOBODY || s->wrote[e] != NOBODY || !all_rows))
          lift_bail(E, "a value is carried from one iteration to the next");
        s->wrote[e] = EVERYBODY;
      }
    }
}

/* A condition that differs between iterations, for a choice between two values of a variable that
 * all of them share: every element is chosen by the iteration that wrote it. */
static Value *by_writer(Eval *E, const LiftVar *s, const Value *shape, Value *c) {
  int32_t *row = NEW_ARRAY(E->arena, int32_t, E->lift->root.rows),
          *index = NEW_ARRAY(E->arena, int32_t, shape->n);
  for (int32_t r = 0; r < c->axis->rows; r++) row[c->axis->iteration[r]] = r;
  for (int32_t e = 0; e < shape->n; e++) index[e] = s->wrote[e] >= 0 ? row[s->wrote[e]] : 0;
  return value_of_node(E, shape, NULL, ir_gather(E->graph, value_node(E, c), index, shape->n));
}

Value *lift_choice(Eval *E, Var *var, Value *c, const Value *then) {
  const LiftVar *s = stamped(E, var);
  if (!s || !c->axis || then == var->value) return c;
  if (then->kind == TY_TUPLE || !then->axis != !var->value->axis)
    lift_bail(E, "a branch in some draws changes what other iterations share");
  return then->axis ? c : by_writer(E, s, then, c);
}

/* ---- which variables a loop changes ---------------------------------------------------------- */

static void add_var(Eval *E, Lift *l, const Stmt *body, const Expr *lhs) {
  if (lhs->kind == EX_TUPLE) {
    for (int k = 0; k < lhs->nargs; k++) add_var(E, l, body, lhs->args[k]);
    return;
  }
  const Decl *d = stan_root(lhs);
  Var *var = d ? &E->frame[d->slot] : NULL;
  if (!var || !var->value || var->decl != d || stan_declares(body, d)) return;
  for (int k = 0; k < l->nvars; k++)
    if (l->vars[k].var == var) return;
  Value *v = var->value;
  LiftVar s = {var, v, NEW_ARRAY(E->arena, int32_t, v->n), NEW_ARRAY(E->arena, int32_t, v->n)};
  for (int32_t e = 0; e < v->n; e++) s.read[e] = s.wrote[e] = NOBODY;
  v->shared = true;
  PUSH(E->arena, l->vars, l->nvars, l->cap_vars, s);
}

static void collect(Eval *E, Lift *l, const Stmt *body, const Stmt *s) {
  if (!s) return;
  if (s->kind == ST_ASSIGN) add_var(E, l, body, s->lhs);
  for (int k = 0; k < s->nbody; k++) collect(E, l, body, s->body[k]);
}

/* ---- attempts -------------------------------------------------------------------------------- */

jmp_buf *attempt_begin(Eval *E, Attempt *a) {
  a->before = *E;
  a->nodes = E->graph->count;
  a->decisions = E->draw ? E->draw->ndecisions : 0;
  a->messages = E->ctx->nmessages;
  a->errors = E->ctx->nerrors;
  a->outer = E->ctx->trap;
  E->ctx->trap = &a->here;
  E->attempts++;
  return &a->here;
}

void attempt_end(Eval *E, Attempt *a) {
  E->ctx->trap = a->outer;
  E->attempts--;
}

/* Running out of memory is not the attempt's fault: no other way would help, so it goes on to the
 * caller's trap. */
void attempt_undo(Eval *E, Attempt *a) {
  E->ctx->trap = a->outer;
  if (E->ctx->status == PVI_FAILURE) ctx_jump(E->ctx, PVI_FAILURE);
  E->ctx->nmessages = a->messages;
  E->ctx->nerrors = a->errors;
  for (size_t k = a->before.npacked; k < E->npacked; k++) E->packed[k]->node = NO_NODE;
  Eval grown = *E; /* arrays may have moved; their first items are as before */
  *E = a->before;
  E->sites = grown.sites, E->cap_sites = grown.cap_sites;
  E->prior = grown.prior, E->cap_prior = grown.cap_prior;
  E->jacobian = grown.jacobian, E->cap_jacobian = grown.cap_jacobian;
  E->rejected = grown.rejected, E->cap_rejected = grown.cap_rejected;
  E->loops = grown.loops, E->cap_loops = grown.cap_loops;
  E->packed = grown.packed, E->cap_packed = grown.cap_packed;
  E->shifted = grown.shifted, E->cap_shifted = grown.cap_shifted;
  if (E->draw && E->draw->known > a->nodes) E->draw->known = a->nodes;
  if (E->draw) E->draw->ndecisions = a->decisions;
  ir_truncate(E->graph, a->nodes);
}

/* ---- lifting --------------------------------------------------------------------------------- */

static void make_axis(Eval *E, Axis *a, int32_t rows) {
  int32_t *id = NEW_ARRAY(E->arena, int32_t, rows);
  for (int32_t r = 0; r < rows; r++) id[r] = r;
  *a = (Axis){.rows = rows, .iteration = id};
}

/* After the loop a variable has the value of the last iteration. */
static void keep_last(Eval *E, const Lift *l) {
  for (int k = 0; k < l->nvars; k++) {
    Value *v = l->vars[k].var->value;
    if (v->axis != &l->root) continue;
    Value *r;
    if (v->known) {
      r = value_known(E, v, NULL);
      memcpy(r->v, v->v + (l->root.rows - 1) * v->n, (size_t)v->n * sizeof *r->v);
    } else {
      Pick *picks = NEW_ARRAY(E->arena, Pick, v->n);
      for (int32_t e = 0; e < v->n; e++) picks[e] = value_pick(E, v, l->root.rows - 1, e);
      r = value_of_node(E, v, NULL, ir_pack(E->graph, picks, v->n));
    }
    l->vars[k].var->value = r;
  }
}

Value *lift_index(Eval *E, long from) {
  static const Value shape = {.kind = TY_INT, .n = 1};
  Value *v = value_known(E, &shape, E->axis);
  for (int32_t r = 0; r < E->axis->rows; r++) v->v[r] = (double)(from + E->axis->iteration[r]);
  return v;
}

static const char *reason(Eval *E, const Lift *l, size_t messages) {
  if (l->why) return l->why;
  return E->ctx->nmessages > messages ? E->ctx->messages[E->ctx->nmessages - 1].text : "it failed";
}

/* The body with the iterations of l->root as E->axis. */
static bool try_body(Eval *E, Lift *l, const Stmt *changes, LiftBody *body, void *self,
                     const char **why) {
  Attempt *a = NEW(E->arena, Attempt);
  collect(E, l, changes, changes);
  if (setjmp(*attempt_begin(E, a))) {
    *why = reason(E, l, a->messages);
    attempt_undo(E, a);
    for (int k = 0; k < l->nvars; k++) l->vars[k].var->value = l->vars[k].before;
    return false;
  }
  E->lift = l;
  l->guard = E->guard;
  E->lift_depth = E->nest ? E->nest->depth : 1;
  E->lift_function = E->depth;
  E->axis = &l->root;
  body(E, self);
  attempt_end(E, a);
  E->lift = NULL;
  E->axis = NULL;
  keep_last(E, l);
  return true;
}

static Lift *new_lift(Eval *E, int32_t rows) {
  Lift *l = NEW(E->arena, Lift);
  make_axis(E, &l->root, rows);
  return l;
}

static bool may_lift(const Eval *E, const char **why) {
  if (E->unroll) *why = "loops are asked to run one by one";
  return !E->unroll;
}

bool lift_body(Eval *E, int32_t rows, const Stmt *changes, LiftBody *body, void *self,
               const char **why) {
  return may_lift(E, why) && try_body(E, new_lift(E, rows), changes, body, self, why);
}

/* ---- loops ----------------------------------------------------------------------------------- */

typedef struct {
  const Stmt *s;
  long from;
} Loop;

static void loop_rows(Eval *E, const Loop *loop, const Axis *rows) {
  const Decl *d = loop->s->decls[0];
  E->axis = rows;
  E->frame[d->slot] = (Var){lift_index(E, loop->from), d, E->lift, NULL};
  if (eval_stmt(E, loop->s->body[0]) != FLOW_NEXT)
    lift_bail(E, "it is left by break, continue or return");
}

static void loop_body(Eval *E, void *self) {
  const Lift *l = E->lift;
  if (l->parts <= 1) {
    loop_rows(E, self, &l->root);
    return;
  }
  for (int part = 0; part < l->parts; part++) {
    bool *marked = NEW_ARRAY(E->arena, bool, l->root.rows);
    for (int32_t r = 0; r < l->root.rows; r++) marked[r] = l->part[r] == part;
    const Axis *rows = eval_rows_marked(E, &l->root, marked);
    loop_rows(E, self, rows);
    if (E->axis != rows) lift_bail(E, "it is left by return in some iterations");
  }
  E->axis = &l->root;
}

/* The parts of l, divided by the size that differs between its iterations; numbered as iterations
 * meet them. False: nothing differs, or they would be too small. */
static bool divide(Eval *E, const Lift *l, Lift *next) {
  int32_t rows = l->root.rows, most = (rows + 1) / LEAST_PART;
  if (most > MOST_PARTS) most = MOST_PARTS;
  if (!l->differs || most < 2) return false;
  int32_t *part = NEW_ARRAY(E->arena, int32_t, rows);
  struct {
    int32_t old;
    double size;
  } seen[MOST_PARTS];
  for (int32_t r = 0; r < rows; r++) {
    int32_t old = l->part ? l->part[r] : 0, k = 0;
    while (k < next->parts && (seen[k].old != old || seen[k].size != l->differs[r])) k++;
    if (k == most) return false;
    seen[k].old = old, seen[k].size = l->differs[r];
    if (k == next->parts) next->parts++;
    part[r] = k;
  }
  next->part = part;
  return next->parts > l->parts;
}

/* Draw after draw a loop takes the same course: one that could not be lifted is not tried for ever.
 * What it computes is the same either way. */
static Habit *habit_of(Eval *E, const Stmt *s) {
  Habit *h = E->habits ? &E->habits[(uintptr_t)s / sizeof(Stmt) % HABITS] : NULL;
  if (h && h->loop != s) *h = (Habit){.loop = s};
  return h;
}

static bool lift_all(Eval *E, const Stmt *s, long from, long to, const char **why) {
  Loop loop = {s, from};
  Lift *l = new_lift(E, (int32_t)(to - from + 1));
  for (int k = 0; k <= MOST_DIVISIONS; k++) {
    if (try_body(E, l, s->body[0], loop_body, &loop, why)) return true;
    Lift *next = new_lift(E, l->root.rows);
    if (!divide(E, l, next)) return false;
    l = next;
  }
  return false;
}

bool lift_loop(Eval *E, const Stmt *s, long from, long to, const char **why) {
  enum { FEW = 8 }; /* iterations: one number after the other they cost less */
  Habit *h = habit_of(E, s);
  if (!may_lift(E, why) || (h && (to - from < FEW || h->failed > h->lifted))) return false;
  bool lifted = lift_all(E, s, from, to, why);
  if (h) ++*(lifted ? &h->lifted : &h->failed);
  return lifted;
}
