/* inlining.c: a user's density of data as if its body stood where it is called.
 *
 * y ~ f(theta) with a vector y adds what f returns: one number. What it is the sum of can be seen
 * inside: a vectorized density, or a loop that adds up one density after the other. So the body is
 * run as statements that add to the target: `return e` is `target += e`, and `lp += e` is so too
 * where lp is nothing but the sum that is returned. Then the rules for increments and loops find
 * the observations. What is left, numbers that belong to no element (-N log sigma), is shared
 * evenly by all of them.
 */
#include "model/eval.h"

/* ---- the sum that is returned ---------------------------------------------------------------- */

/* Is d one of the terms that are added up in e, exactly once, and nowhere else in it? */
static bool is_term(const Expr *e, const Decl *d) {
  e = stan_inside(e);
  if (e->kind == EX_VAR) return e->decl == d;
  if (e->kind != EX_BINARY || (e->op != OP_ADD && e->op != OP_SUB)) return false;
  bool left = is_term(e->args[0], d) && !stan_mentions(e->args[1], d);
  bool right = e->op == OP_ADD && is_term(e->args[1], d) && !stan_mentions(e->args[0], d);
  return left || right;
}

static const Decl *sum_in(const Expr *e) {
  e = stan_inside(e);
  if (e->kind == EX_BINARY && (e->op == OP_ADD || e->op == OP_SUB)) {
    const Decl *d = sum_in(e->args[0]);
    return d || e->op == OP_SUB ? d : sum_in(e->args[1]);
  }
  return e->kind == EX_VAR && e->decl && !e->decl->is_arg && !e->decl->is_loop &&
                 e->type->kind == TY_REAL && !e->type->array_dims
             ? e->decl
             : NULL;
}

/* The variable that the first return statement adds. */
static const Decl *returned_sum(const Stmt *s) {
  if (!s) return NULL;
  if (s->kind == ST_RETURN && s->e) return sum_in(s->e);
  const Decl *d = NULL;
  for (int k = 0; k < s->nbody && !d; k++) d = returned_sum(s->body[k]);
  return d;
}

static bool mentioned(const Stmt *s, const Decl *d) {
  const Expr *all[] = {s->lhs, s->e, s->from, s->to, s->lower, s->upper};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++)
    if (all[k] && stan_mentions(all[k], d)) return true;
  for (int k = 0; k < s->nargs; k++)
    if (stan_mentions(s->args[k], d)) return true;
  for (int k = 0; k < s->ndecls; k++) {
    for (int j = 0; j < s->decls[k]->nsizes; j++)
      if (stan_mentions(s->decls[k]->sizes[j], d)) return true;
    if (s->decls[k]->init && stan_mentions(s->decls[k]->init, d)) return true;
  }
  return false;
}

/* lp += e, lp -= e, lp = lp + e; or lp = e at the top of the body, before anything is added. */
static bool adds_to_sum(const Stmt *s, const Decl *d, bool fresh) {
  if (s->lhs->kind != EX_VAR || s->lhs->decl != d) return false;
  if (s->has_op) return (s->op == OP_ADD || s->op == OP_SUB) && !stan_mentions(s->e, d);
  return is_term(s->e, d) || (fresh && !stan_mentions(s->e, d));
}

/* Is the variable a sum and nothing else? `fresh`: nothing has been added so far. */
static bool only_sums(const Stmt *s, const Decl *d, bool top, bool *fresh) {
  if (!s) return true;
  if (s->kind == ST_RETURN) return !s->e || is_term(s->e, d);
  if (s->kind == ST_ASSIGN && stan_root(s->lhs) == d) {
    bool fine = adds_to_sum(s, d, top && *fresh);
    *fresh = false;
    return fine;
  }
  for (int k = 0; k < s->ndecls; k++)
    if (s->decls[k] == d && s->decls[k]->init) *fresh = false;
  if (mentioned(s, d)) return false;
  for (int k = 0; k < s->nbody; k++)
    if (!only_sums(s->body[k], d, top && s->kind == ST_BLOCK, fresh)) return false;
  return true;
}

/* ---- elements -------------------------------------------------------------------------------- */

static bool is_elementwise_call(const Expr *e) {
  return e->kind == EX_CALL && e->call == CALL_FUNCTION && fun_is_elementwise((FunId)e->builtin);
}

static bool is_elementwise_operator(const Expr *e) {
  if (e->kind == EX_PAREN) return true;
  if (e->kind == EX_UNARY) return e->op == OP_NEG || e->op == OP_PLUS;
  if (e->kind != EX_BINARY) return false;
  bool scalar = e->args[0]->type->kind == TY_REAL || e->args[0]->type->kind == TY_INT ||
                e->args[1]->type->kind == TY_REAL || e->args[1]->type->kind == TY_INT;
  return e->op == OP_ADD || e->op == OP_SUB || e->op == OP_ELT_MUL || e->op == OP_ELT_DIV ||
         e->op == OP_ELT_POW || ((e->op == OP_MUL || e->op == OP_DIV || e->op == OP_POW) && scalar);
}

/* What a local variable was set to as a whole, when that happened once; NULL: by element. */
static const Expr *definition(const Stmt *s, const Decl *d) {
  if (!s) return NULL;
  for (int k = 0; k < s->ndecls; k++)
    if (s->decls[k] == d && s->decls[k]->init) return s->decls[k]->init;
  if (s->kind == ST_ASSIGN && s->lhs->kind == EX_VAR && s->lhs->decl == d) return s->e;
  const Expr *found = NULL;
  for (int k = 0; k < s->nbody && !found; k++) found = definition(s->body[k], d);
  return found;
}

/* Is element k of e made of element k of the outcome and of no other? Variables are followed to
 * what they were set to; `left` ends what would not. */
static bool is_elementwise(const FunDef *f, const Expr *e, int left) {
  const Decl *outcome = f->args[0];
  if (left == 0) return false;
  if (e->kind == EX_VAR && e->decl != outcome && !e->decl->is_arg) {
    const Expr *set = definition(f->body, e->decl);
    return !set || is_elementwise(f, set, left - 1);
  }
  if (e->kind == EX_VAR || !stan_mentions(e, outcome)) {
    for (int k = 0; e->kind != EX_VAR && k < e->nargs; k++)
      if (!is_elementwise(f, e->args[k], left - 1)) return false;
    return true;
  }
  if (!is_elementwise_operator(e) && !is_elementwise_call(e)) return false;
  for (int k = 0; k < e->nargs; k++)
    if (!is_elementwise(f, e->args[k], left)) return false;
  return true;
}

bool inline_elementwise_sum(const Eval *E, const Expr *sum) {
  enum { FAR = 20 };
  if (!E->inlined || E->depth != E->inlined->depth) return true;
  for (int k = 0; k < sum->nargs; k++)
    if (!is_elementwise(E->inlined->f, sum->args[k], FAR)) return false;
  return true;
}

/* The same of any variable, in an expression that is looked at by itself. */
static bool is_elementwise_in(const Expr *e, const Decl *d) {
  if (e->kind == EX_VAR || e->kind == EX_INDEX || !stan_mentions(e, d)) return true;
  if (!is_elementwise_operator(e) && !is_elementwise_call(e)) return false;
  for (int k = 0; k < e->nargs; k++)
    if (!is_elementwise_in(e->args[k], d)) return false;
  return true;
}

static bool is_own_outcome(const Expr *sum, const Decl *d) {
  for (int k = 0; k < sum->nargs; k++)
    if (!is_elementwise_in(sum->args[k], d)) return false;
  return true;
}

/* A variable that was computed before may be made of anything: alone, it is taken as it is. */
static bool has_outcome(const Eval *E, const Expr *sum, const Expr *e) {
  const Var *var = e->kind == EX_VAR && e->decl ? &E->frame[e->decl->slot] : NULL;
  if (var)
    return var->decl == e->decl && var->value && var->value->n > 1 &&
           (var->value->known || sum->args[0] == e) && is_own_outcome(sum, e->decl);
  for (int k = 0; k < e->nargs; k++)
    if (has_outcome(E, sum, e->args[k])) return true;
  return false;
}

bool inline_has_outcome(const Eval *E, const Expr *sum) {
  for (int k = 0; k < sum->nargs; k++)
    if (has_outcome(E, sum, sum->args[k])) return true;
  return false;
}

/* ---- running it ------------------------------------------------------------------------------ */

bool inline_declares_sum(const Eval *E, const Decl *d) {
  return E->inlined && E->depth == E->inlined->depth && d && d == E->inlined->sum;
}

bool inline_is_sum(const Eval *E, const Expr *e) {
  return e->kind == EX_VAR && inline_declares_sum(E, e->decl);
}

/* lp = e or lp += e of the sum; lp -= e by a minus in front. */
bool inline_assign(Eval *E, const Stmt *s) {
  if (!inline_is_sum(E, s->lhs)) return false;
  if (s->has_op && s->op == OP_SUB) {
    Expr *less = NEW(E->arena, Expr);
    *less =
        (Expr){.kind = EX_UNARY, .op = OP_NEG, .nargs = 1, .loc = s->e->loc, .type = s->e->type};
    less->args = NEW(E->arena, Expr *);
    less->args[0] = s->e;
    eval_increment(E, less);
  } else {
    eval_increment(E, s->e);
  }
  return true;
}

bool inline_return(Eval *E, const Stmt *s) {
  if (!E->inlined || E->depth != E->inlined->depth) return false;
  eval_increment(E, s->e);
  E->result = value_real(E, 0);
  return true;
}

void inline_loose(Eval *E, Value *v) {
  Value *sum = eval_guarded(E, value_sum(E, v)), **all = &E->inlined->loose;
  *all = *all ? map2(E, IR_ADD, *all, sum) : sum;
}

/* Every observation that was made gets its share of what belongs to none. */
static void share_loose(Eval *E, const Inlined *in, size_t first, Loc loc, const char *name) {
  int32_t cells = 0;
  for (size_t k = first; k < E->nsites; k++) cells += ir_size(E->graph, E->sites[k].node);
  if (!in->loose) return;
  if (!cells) {
    eval_add_target(E, eval_as_likelihood(E, in->loose), loc, name, NULL);
    return;
  }
  Value *each = map2(E, IR_DIV, in->loose, value_real(E, cells));
  for (size_t k = first; k < E->nsites; k++) {
    Site *s = &E->sites[k];
    s->node = ir_map(E->graph, IR_ADD, (Node[]){s->node, value_node(E, each)});
    s->dist = -1;
    s->sim = NO_NODE;
  }
}

/* What the function returns in some draws and what it returns in the others are of the same
 * outcome: one observation of every element. */
static void join_returns(Eval *E, size_t first) {
  for (size_t k = E->nsites; k-- > first;)
    for (size_t j = first; j < k; j++)
      if (sites_join(E, j, k)) break;
}

/* A density of a vector outside of loops has elements; one in a lifted loop branches, which are for
 * rows of their own. */
static bool may_inline(const Eval *E, const FunDef *f, Value **args) {
  bool vector = E->loop < 0 && !E->axis && args[0]->n > 1;
  bool rows = E->lift && E->depth == E->lift_function && !E->inlined;
  return (vector || rows) && !E->quiet && f->body && args[0]->known;
}

static void run(Eval *E, Inlined *in, Value **args) {
  size_t first = E->nsites;
  E->inlined = in;
  eval_user(E, in->f, args, in->loc);
  E->inlined = in->outer;
  join_returns(E, first);
  share_loose(E, in, first, in->loc, in->name);
}

/* In a lifted loop the call alone may be evaluated draw by draw (run_calls.c), which needs its
 * value. */
static bool run_unless_by_draw(Eval *E, Inlined *in, Value **args) {
  const EvalNotes before = *E->shared;
  Attempt *a = NEW(E->arena, Attempt);
  E->shared->needs_draw = false;
  if (!setjmp(*attempt_begin(E, a))) {
    run(E, in, args);
    attempt_end(E, a);
    E->shared->needs_draw |= before.needs_draw;
    return true;
  }
  if (!E->shared->needs_draw) {
    E->ctx->trap = a->outer;
    E->shared->needs_draw = before.needs_draw;
    ctx_jump(E->ctx, E->ctx->status);
  }
  attempt_undo(E, a);
  *E->shared = before;
  return false;
}

bool inline_density(Eval *E, const FunDef *f, Value **args, Loc loc, const char *name) {
  bool fresh = true;
  if (!may_inline(E, f, args)) return false;
  const Decl *sum = returned_sum(f->body);
  if (sum && !only_sums(f->body, sum, true, &fresh)) return false;
  Inlined in = {.f = f,
                .sum = sum,
                .depth = E->depth + 1,
                .n = args[0]->n,
                .loc = loc,
                .name = name,
                .outer = E->inlined};
  if (E->lift && E->calls && args[0]->n == 1) return run_unless_by_draw(E, &in, args);
  run(E, &in, args);
  return true;
}
