/* number_steps.c: statements on single numbers that are run again and again: bodies of loops in
 * generated quantities. Each is looked at once; what it becomes, a Step, is kept for all draws
 * (E->codes), as expressions are (numbers.c). What has no shorter way is run as any statement, so
 * there is a Step for all of them.
 */
#include "model/eval.h"

typedef Flow StepRun(Eval *E, const Step *p);

struct Step {
  StepRun *run;
  const Stmt *s;
  const Num *to, *from; /* an assignment; the bounds of a loop; from: a condition */
  const Num **init;     /* of each declaration, or NULL */
  const Step **body;
  int height; /* of the steps and expressions in it: what they take of the stack */
};

static int larger(int a, int b) { return a > b ? a : b; }

static int height_of(const Expr *e) { return e ? e->height : 0; }

/* ---- running them ---------------------------------------------------------------------------- */

Flow step_run(Eval *E, const Step *p) { return p->run(E, p); }

static Flow run_any(Eval *E, const Step *p) { return eval_stmt(E, p->s); }

static Flow run_block(Eval *E, const Step *p) {
  Flow f = FLOW_NEXT;
  for (int k = 0; k < p->s->nbody && f == FLOW_NEXT; k++) f = step_run(E, p->body[k]);
  return f;
}

static Flow run_assign(Eval *E, const Step *p) {
  number_assign(E, p->s, p->to, p->from);
  return FLOW_NEXT;
}

static Flow run_decl(Eval *E, const Step *p) {
  for (int k = 0; k < p->s->ndecls; k++) {
    const Decl *d = p->s->decls[k];
    eval_declare_number(E, d);
    if (p->init[k]) number_set(E, &E->frame[d->slot], d->type->kind, number_get(E, p->init[k]));
  }
  return FLOW_NEXT;
}

static Flow run_if(Eval *E, const Step *p) {
  const Step *taken = p->body[number_get(E, p->from) != 0 ? 0 : 1];
  return taken ? step_run(E, taken) : FLOW_NEXT;
}

static Flow run_for(Eval *E, const Step *p) {
  long from = (long)number_get(E, p->from), to = (long)number_get(E, p->to);
  return eval_loop(E, p->s, from, to, p->body[0]);
}

/* ---- making them ----------------------------------------------------------------------------- */

static bool declares_numbers(const Stmt *s) {
  for (int k = 0; k < s->ndecls; k++) {
    const Type *t = s->decls[k]->type;
    bool number = !t->array_dims && (t->kind == TY_INT || t->kind == TY_REAL);
    if (!number || (s->decls[k]->init && !number_typed(s->decls[k]->init))) return false;
  }
  return true;
}

static StepRun *way_of(const Stmt *s) {
  switch (s->kind) {
  case ST_BLOCK:
  case ST_PROFILE: return run_block;
  case ST_DECL: return declares_numbers(s) ? run_decl : run_any;
  case ST_ASSIGN: return number_assigns(s) ? run_assign : run_any;
  case ST_IF: return number_typed(s->e) ? run_if : run_any;
  case ST_FOR: return number_typed(s->from) && number_typed(s->to) ? run_for : run_any;
  default: return run_any;
  }
}

static const Step *make(Eval *E, const Stmt *s);

static void make_body(Eval *E, Step *p) {
  const Stmt *s = p->s;
  p->body = NEW_ARRAY(E->codes->arena, const Step *, s->nbody + 2); /* an if has two */
  for (int k = 0; k < s->nbody; k++) {
    if (s->body[k]) p->body[k] = make(E, s->body[k]);
    if (s->body[k]) p->height = larger(p->height, p->body[k]->height + 1);
  }
}

static void make_numbers(Eval *E, Step *p) {
  const Stmt *s = p->s;
  const Expr *to = s->kind == ST_FOR ? s->to : s->lhs, *from = s->kind == ST_FOR ? s->from : s->e;
  if (to) p->to = number_code(E, to);
  if (from) p->from = number_code(E, from);
  p->height = larger(p->height, larger(height_of(to), height_of(from)) + 1);
  p->init = NEW_ARRAY(E->codes->arena, const Num *, s->ndecls + 1);
  for (int k = 0; s->kind == ST_DECL && k < s->ndecls; k++) {
    const Expr *init = s->decls[k]->init;
    if (init) p->init[k] = number_code(E, init);
    p->height = larger(p->height, height_of(init) + 1);
  }
}

static const Step *make(Eval *E, const Stmt *s) {
  Step *p = NEW(E->codes->arena, Step);
  *p = (Step){.run = way_of(s), .s = s, .height = 1};
  if (p->run == run_any) return p;
  make_numbers(E, p);
  make_body(E, p);
  return p;
}

/* Where the stack has no room for it, statements look at every step themselves. */
const Step *step_of(Eval *E, const Stmt *s) {
  if (!E->numbers || E->axis || E->lift || E->inlined || !E->quiet) return NULL;
  Code *c = code_of(E->codes, s);
  if (!c->step) c->step = make(E, s);
  size_t height = (size_t)c->step->height;
  return base_stack_left() < STACK_RESERVE + height * NUMBER_STACK ? NULL : c->step;
}
