/* fun_ode.c: Stan's solvers of differential equations. The right-hand side is evaluated once, on a
 * graph of its own whose input is the time, the state and the parameters; data are numbers in it.
 * The call becomes one node.
 *
 *   integrate_ode_x(f, y0, t0, ts, theta, x_r, x_i [, relative, absolute, most steps])
 *   ode_x(f, y0, t0, ts, ...)
 *   ode_x_tol(f, y0, t0, ts, relative, absolute, most steps, ...)
 *   ode_adjoint_tol_ctl(f, y0, t0, ts, relative, absolute of each state, 7 settings of its backward
 * solution and others, ...)
 *   dae(f, y0, y0', t0, ts, ...), dae_tol(f, y0, y0', t0, ts, relative, absolute, most steps, ...)
 *
 * For f(t, y, y', ...) = 0 the derivatives v = y' are states as well, algebraic ones: y' = v, 0 =
 * f(t, y, v). */
#include "model/eval.h"

#include <math.h>
#include <string.h>

typedef struct {
  Eval *E;
  Eval sub; /* the evaluator of the right-hand side */
  IrOde *ode;
  const Expr *call;
  bool unknown; /* something depends on parameters: the solution becomes a node */
  Pick *operands;
  int32_t noperands, cap_operands;
  Value **args; /* of the right-hand side */
  int nargs;
} Problem;

/* Where a call has its arguments. */
typedef struct {
  bool arrays;         /* states are arrays, not vectors */
  int relative, steps; /* the relative tolerance, the absolute one behind it; the number of steps.
                          0: there are none */
  int first, last;     /* what is handed on to the right-hand side: [first, last) */
} Form;

/* ---- arguments ------------------------------------------------------------------------------- */

static bool ends_with(const char *s, const char *tail) {
  size_t n = strlen(s), m = strlen(tail);
  return n >= m && !strcmp(s + n - m, tail);
}

static Form form_of(const char *name, int n) {
  bool tolerances = n == 10;
  if (!strncmp(name, "integrate_", strlen("integrate_")))
    return (Form){.arrays = true,
                  .relative = tolerances ? 7 : 0,
                  .steps = tolerances ? 9 : 0,
                  .first = 4,
                  .last = 7};
  if (ends_with(name, "_ctl")) return (Form){.relative = 4, .steps = 10, .first = 15, .last = n};
  if (ends_with(name, "_tol")) return (Form){.relative = 4, .steps = 6, .first = 7, .last = n};
  return (Form){.first = 4, .last = n};
}

static bool has_unknown(const Value *v) {
  bool any = v->kind != TY_TUPLE && !v->known;
  for (int k = 0; v->kind == TY_TUPLE && k < v->nitems; k++) any |= has_unknown(v->items[k]);
  return any;
}

static void need_no_rows(Eval *E, const Value *v) {
  if (v->axis) lift_bail(E, "it solves a differential equation for every iteration");
  for (int k = 0; v->kind == TY_TUPLE && k < v->nitems; k++) need_no_rows(E, v->items[k]);
}

/* Sensitivities are computed, and have a say in the steps, where Stan does so: for what its types
 * say depends on parameters, constants among them included. Inside functions the types follow the
 * arguments, as known values do here. */
static bool is_parameter(const Problem *p, const Value *v, const Expr *e) {
  if (!p->unknown || v->kind == TY_INT) return false;
  return has_unknown(v) || (p->E->depth == 0 && !e->data_only);
}

/* The least of v's elements. */
static double positive(Problem *p, const Value *v, const char *what) {
  double least = v->n ? v->v[0] : NAN;
  for (int32_t k = 1; k < v->n; k++) least = v->v[k] < least ? v->v[k] : least;
  if (!(least > 0 && isfinite(least)))
    ctx_fail(p->E->ctx, PVI_PROGRAM, p->call->loc, "%s of %s must be positive, but is %g", what,
             p->call->name, least);
  return least;
}

/* Times that are data must be right; those of a draw that are not make its solution nan. */
static void check_times(Problem *p, double t0, const Value *ts) {
  Ctx *c = p->E->ctx;
  Loc loc = p->call->loc;
  const char *name = p->call->name;
  for (int32_t k = 0; k < ts->n; k++) {
    if (!isfinite(ts->v[k]) || !isfinite(t0))
      ctx_fail(c, PVI_PROGRAM, loc, "a time of %s is not finite", name);
    if (k == 0 && !(ts->v[0] > t0))
      ctx_fail(c, PVI_PROGRAM, loc,
               "the first time of %s is %g; it must be later than the initial time, %g", name,
               ts->v[0], t0);
    if (k && ts->v[k] < ts->v[k - 1])
      ctx_fail(c, PVI_PROGRAM, loc,
               "the times of %s must ascend, but time %d is %g and time %d is %g", name, k,
               ts->v[k - 1], k + 1, ts->v[k]);
  }
}

static void set_times(Problem *p, Value *t0, Value *ts) {
  IrOde *o = p->ode;
  o->ntimes = ts->n;
  o->from_time = is_parameter(p, t0, p->call->args[2]);
  o->timed = o->from_time || is_parameter(p, ts, p->call->args[3]);
  if (t0->known && ts->known) check_times(p, t0->v[0], ts);
  if (o->timed) return;
  o->t0 = t0->v[0];
  o->times = ts->v;
  ts->shared = true;
}

/* Stan's defaults are the method's. */
static void set_tolerances(Problem *p, Value *const *a, const Form *f) {
  IrOde *o = p->ode;
  bool multistep = o->method == ODE_BDF || o->method == ODE_ADAMS;
  o->relative = f->relative ? positive(p, a[f->relative], "the relative tolerance")
                : multistep ? 1e-10
                            : 1e-6;
  o->absolute = f->relative ? positive(p, a[f->relative + 1], "the absolute tolerance")
                : multistep ? 1e-10
                            : 1e-6;
  o->most_steps = f->steps    ? positive(p, a[f->steps], "the greatest number of steps")
                  : multistep ? 1e8
                              : 1e6;
}

/* ---- the right-hand side --------------------------------------------------------------------- */

static void add_operands(Problem *p, Value *v) {
  for (int32_t k = 0; k < v->n; k++) {
    Pick pick = value_pick(p->E, v, 0, k);
    PUSH(p->E->arena, p->operands, p->noperands, p->cap_operands, pick);
  }
}

static Value *leaf(Problem *p, const Value *like, int32_t first) {
  Value shape = *like;
  if (shape.kind == TY_INT) shape.kind = TY_REAL;
  if (!like->n) return value_known(&p->sub, &shape, NULL);
  return value_of_node(&p->sub, &shape, NULL, ir_input(p->sub.graph, first, like->n));
}

/* What the right-hand side sees of an argument: a parameter's elements are input, data are
 * themselves. */
static Value *seen(Problem *p, Value *v, const Expr *e) {
  if (v->kind == TY_TUPLE) {
    Value *t = NEW(p->E->arena, Value);
    *t = *v;
    t->items = NEW_ARRAY(p->E->arena, Value *, v->nitems);
    for (int k = 0; k < v->nitems; k++) t->items[k] = seen(p, v->items[k], e);
    return t;
  }
  if (!is_parameter(p, v, e)) return v;
  Value *x = leaf(p, v, 1 + p->noperands);
  add_operands(p, v);
  return x;
}

static void no_solver_inside(Problem *p) {
  const Graph *g = p->sub.graph;
  for (Node k = 0; k < g->count; k++) {
    unsigned op = ir_node(g, k)->op;
    if (op == IR_ODE || op == IR_EIGEN)
      ctx_fail(p->E->ctx, PVI_PROGRAM, p->call->loc, "the right-hand side of %s %s itself",
               p->call->name,
               op == IR_ODE ? "solves a differential equation" : "computes eigenvalues");
  }
}

static void evaluate_slopes(Problem *p, const FunDef *f) {
  IrOde *o = p->ode;
  int32_t n = o->states - o->algebraic;
  Value *r = eval_user(&p->sub, f, p->args, p->call->loc);
  if (r->n != n)
    ctx_fail(p->E->ctx, PVI_PROGRAM, p->call->loc, "%s returns %d %s of %d states", f->name, r->n,
             o->algebraic ? "residuals" : "derivatives", n);
  Pick *slopes = NEW_ARRAY(p->E->arena, Pick, o->states);
  for (int32_t i = 0; i < o->algebraic; i++) slopes[i] = value_pick(&p->sub, p->args[2], 0, i);
  for (int32_t i = 0; i < n; i++) slopes[o->algebraic + i] = value_pick(&p->sub, r, 0, i);
  o->slopes = slopes;
  o->graph = p->sub.graph;
  no_solver_inside(p);
}

/* ---- the call -------------------------------------------------------------------------------- */

static Value *solution(Problem *p, const Value *shape, Value *y0) {
  Eval *E = p->E;
  if (p->unknown)
    return value_of_node(E, shape, NULL,
                         ir_ode(E->graph, p->ode, ir_pack(E->graph, p->operands, p->noperands)));
  Value *r = value_known(E, shape, NULL);
  vm_solve(E->arena, p->ode, y0->v, r->v);
  return r;
}

/* The evaluator of the right-hand side makes nothing but its graph. */
static Problem make_problem(Eval *E, OdeMethod method, Value **a, int n, const Expr *call) {
  Problem p = {.E = E,
               .sub = *E,
               .ode = NEW(E->arena, IrOde),
               .call = call,
               .args = NEW_ARRAY(E->arena, Value *, n + 2)};
  p.ode->method = method;
  p.sub.graph = ir_graph_in(E->arena);
  p.sub.axis = NULL;
  p.sub.lift = NULL;
  p.sub.guard = p.sub.live = p.sub.mask = NULL;
  p.sub.scope = (Scope){.nreturns = 0};
  p.sub.inlined = NULL;
  p.sub.calls = NULL; /* solvers know no RUN nodes */
  p.sub.attempts = 0;
  p.sub.quiet = true;
  p.sub.numbers = false;
  for (int k = 1; k < n; k++) {
    need_no_rows(E, a[k]);
    p.unknown |= has_unknown(a[k]);
  }
  return p;
}

/* Operands are the initial state, parameters and, unless they are data, the times. */
static void give_arguments(Problem *p, Value **a, const Form *f) {
  IrOde *o = p->ode;
  Eval *E = p->E;
  o->states = a[1]->n;
  o->from_state = o->from_time || is_parameter(p, a[1], p->call->args[1]);
  p->args[p->nargs++] = leaf(p, value_shape(E, TY_REAL, 0, 0, NULL), 0);
  p->args[p->nargs++] = leaf(p, a[1], 1);
  if (p->unknown) add_operands(p, a[1]);
  for (int k = f->first; k < f->last; k++) p->args[p->nargs++] = seen(p, a[k], p->call->args[k]);
  o->params = p->unknown ? p->noperands - o->states : 0;
  for (int k = 2; o->timed && k < 4; k++) add_operands(p, a[k]);
}

Value *eval_ode(Eval *E, OdeMethod method, Value **a, int n, const Expr *call) {
  Problem p = make_problem(E, method, a, n, call);
  Form f = form_of(call->name, n);
  set_times(&p, a[2], a[3]);
  set_tolerances(&p, a, &f);
  give_arguments(&p, a, &f);
  evaluate_slopes(&p, call->args[0]->user);
  int32_t dims[2] = {p.ode->ntimes, p.ode->states};
  return solution(&p, value_shape(E, f.arrays ? TY_REAL : TY_VECTOR, f.arrays ? 2 : 1, 2, dims),
                  a[1]);
}

/* ---- equations that are not solved for the derivatives --------------------------------------- */

static void give_residual_arguments(Problem *p, Value **a, int first, int n) {
  IrOde *o = p->ode;
  int32_t states = a[1]->n;
  o->states = 2 * states;
  o->algebraic = states;
  o->from_state =
      is_parameter(p, a[1], p->call->args[1]) || is_parameter(p, a[2], p->call->args[2]);
  p->args[p->nargs++] = leaf(p, value_shape(p->E, TY_REAL, 0, 0, NULL), 0);
  p->args[p->nargs++] = leaf(p, a[1], 1);
  p->args[p->nargs++] = leaf(p, a[2], 1 + states);
  for (int k = 1; p->unknown && k < 3; k++) add_operands(p, a[k]);
  if (!p->unknown) p->noperands = o->states;
  for (int k = first; k < n; k++) p->args[p->nargs++] = seen(p, a[k], p->call->args[k]);
  o->params = p->unknown ? p->noperands - o->states : 0;
}

Value *eval_dae(Eval *E, Value **a, int n, const Expr *call) {
  Problem p = make_problem(E, ODE_BDF, a, n, call);
  bool tolerances = ends_with(call->name, "_tol");
  Form f = {.relative = tolerances ? 5 : 0, .steps = tolerances ? 7 : 0};
  if (a[1]->n != a[2]->n)
    ctx_fail(E->ctx, PVI_PROGRAM, call->loc, "%s: %d states, but %d derivatives", call->name,
             a[1]->n, a[2]->n);
  check_times(&p, a[3]->v[0], a[4]);
  p.ode->ntimes = a[4]->n;
  p.ode->t0 = a[3]->v[0];
  p.ode->times = a[4]->v;
  a[4]->shared = true;
  set_tolerances(&p, a, &f);
  give_residual_arguments(&p, a, tolerances ? 8 : 5, n);
  evaluate_slopes(&p, call->args[0]->user);
  int32_t K = a[1]->n, both[2] = {p.ode->ntimes, 2 * K}, own[2] = {p.ode->ntimes, K};
  int32_t *index = NEW_ARRAY(E->arena, int32_t, p.ode->ntimes * K + 1);
  for (int32_t e = 0; e < p.ode->ntimes * K; e++) index[e] = e / K * 2 * K + e % K;
  Value *start =
      value_join(E, (Value *[]){a[1], a[2]}, 2, value_shape(E, TY_VECTOR, 0, 1, &both[1]));
  Value *all = solution(&p, value_shape(E, TY_VECTOR, 1, 2, both), start);
  return value_take(E, all, value_shape(E, TY_VECTOR, 1, 2, own), NULL, index);
}
