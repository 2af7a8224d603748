/* run_calls.c: calls of a user's function, draw by draw (runs.c).
 *
 * Where a function cannot be run for all draws at once, because its course depends on parameters (a
 * series that ends when its terms are small), but what is around it can, the call itself is a RUN
 * node: one number of its arguments, in every draw and in every iteration of a loop that is lifted.
 * So the courses that are told apart are those of one call, not of all calls together, and
 * iterations share them as draws do; so do other calls of the function with arguments of these
 * sizes. Innermost calls come first: those around them then need no course of their own.
 *
 * Functions of Stan have no side effects but those that their names tell, so any that returns a
 * real can be run so. One that fails or rejects in a draw takes its density.
 */
#include "model/complex.h"
#include "model/model_int.h"

#include <math.h>
#include <string.h>

/* What a lane gives for an argument: its own numbers, from offset on, or, of data that are the same
 * in all lanes, the argument as it is. */
typedef struct {
  const Value *constant; /* NULL: numbers of the lane */
  Value shape;
  bool known;
  int32_t offset;
} Argument;

typedef struct Call {
  Course course;
  const FunDef *f;
  Loc loc;
  Argument *args;
  bool data_known; /* what is data in this call is known here, too: to see what it is marked as */
  Runs *runs;
  struct Call *next;
} Call;

enum { RESULT, REJECTED, CALL_OUTPUTS };
static const double none[CALL_OUTPUTS] = {[RESULT] = (double)NAN, [REJECTED] = 1};

/* ---- a lane ---------------------------------------------------------------------------------- */

/* Ints decide what is computed, so they are numbers. */
static Value *argument(const Call *r, Eval *E, const Argument *a) {
  if (a->constant) return outputs_view(E->arena, a->constant);
  Value *v = value_of_node(E, &a->shape, NULL, ir_input(E->graph, a->offset, a->shape.n));
  if (v->kind == TY_INT) return eval_decided(E, v);
  if (!a->known || !r->data_known) return v;
  Value *data = value_known(E, &a->shape, NULL);
  memcpy(data->v, E->draw->inputs + a->offset, (size_t)data->n * sizeof *data->v);
  return data;
}

static Node follow(Course *self, Eval *E) {
  Call *r = (Call *)self;
  Value **args = NEW_ARRAY(E->arena, Value *, r->f->nargs + 1);
  for (int k = 0; k < r->f->nargs; k++) args[k] = argument(r, E, &r->args[k]);
  Value *v = eval_user(E, r->f, args, r->loc);
  if (r->data_known) {
    self->likelihood = v->likelihood;
    return NO_NODE;
  }
  Pick picks[CALL_OUTPUTS] = {
      [RESULT] = {value_node(E, v), 0}, [REJECTED] = {ir_number(E->graph, 0), 0}};
  return ir_pack(E->graph, picks, CALL_OUTPUTS);
}

/* ---- which calls ----------------------------------------------------------------------------- */

static bool is_real(const Type *t) { return t && t->kind == TY_REAL && !t->array_dims; }

/* Of a function that calls itself the outermost call is the one. */
static bool is_attempted(const Calls *c, const FunDef *f) {
  const Attempted *a = c->attempted;
  while (a && a->f != f) a = a->outer;
  return a != NULL;
}

/* Not what is inlined, whose returns are increments. */
static bool may_run(const Eval *E, const FunDef *f, Value *const *args) {
  bool unknown = false, inlined = E->inlined && E->inlined->depth == E->depth + 1;
  if (!E->calls || inlined || !is_real(f->type->result) || stan_has_effects(f->name)) return false;
  if (is_attempted(E->calls, f)) return false;
  for (int k = 0; k < f->nargs; k++) {
    if (!args[k] || args[k]->kind == TY_TUPLE || complex_kind(args[k]->kind)) return false;
    unknown |= !args[k]->known;
  }
  return unknown;
}

static bool is_constant(const Value *v) { return v->known && !v->axis && v->n != 1; }

static bool same_shape(const Value *a, const Value *b) {
  return a->kind == b->kind && a->ndims == b->ndims &&
         !memcmp(a->dims, b->dims, (size_t)a->ndims * sizeof *a->dims);
}

static bool fits(const Argument *a, const Value *v) {
  if (!same_shape(&a->shape, v) || a->known != v->known || !a->constant == is_constant(v))
    return false;
  return !a->constant || !memcmp(a->constant->v, v->v, (size_t)v->n * sizeof *v->v);
}

static Call *find(const Calls *list, const FunDef *f, Value *const *args) {
  for (Call *r = list->first; r; r = r->next) {
    bool same = r->f == f;
    for (int k = 0; same && k < f->nargs; k++) same = fits(&r->args[k], args[k]);
    if (same) return r;
  }
  return NULL;
}

static Call *make(Eval *E, const FunDef *f, Value *const *args, Loc loc) {
  Call *r = NEW(E->arena, Call);
  *r = (Call){.course = {.program = E->program,
                         .options = E->calls->options,
                         .outputs = CALL_OUTPUTS,
                         .failed = none,
                         .follow = follow},
              .f = f,
              .loc = loc,
              .args = NEW_ARRAY(E->arena, Argument, f->nargs + 1)};
  for (int k = 0; k < f->nargs; k++) {
    Value *v = args[k];
    r->args[k] = (Argument){NULL, *value_like(E, v), v->known, r->course.inputs};
    v->shared = true;
    if (is_constant(v))
      r->args[k].constant = v;
    else
      r->course.inputs += v->n;
  }
  return r;
}

/* ---- the node -------------------------------------------------------------------------------- */

/* Rows x the numbers that lanes give. */
static Value *inputs_of(Eval *E, const Call *r, Value *const *args) {
  Value **parts = NEW_ARRAY(E->arena, Value *, r->f->nargs + 1);
  int n = 0;
  for (int k = 0; k < r->f->nargs; k++)
    if (!r->args[k].constant) parts[n++] = args[k];
  return value_join(E, parts, n, value_shape(E, TY_VECTOR, 0, 1, &r->course.inputs));
}

/* Can it be evaluated at all, with these inputs? Some points are tried, the first of which is zero.
 * Finds whether it is a density of data. */
static bool works(Eval *E, Call *r, Node inputs, int32_t rows) {
  enum { TRIES = 20 };
  TempArena *temp = temp_open(E->ctx);
  Arena *a = &temp->arena;
  double *theta = NEW_ARRAY(a, double, E->calls->dim + 1);
  RngStream rng = rngs_make(1, 1);
  Message why;
  bool fine = false;
  for (int32_t k = 0; k < TRIES && !fine; k++) {
    Draw d = {.arena = a, .inputs = theta};
    const double *in = draw_numbers(&d, E->graph, inputs) + k % rows * r->course.inputs;
    Call data = *r;
    data.data_known = true;
    fine =
        runs_try(r->runs, &data.course, a, in, &why) && runs_try(r->runs, &r->course, a, in, &why);
    r->course.likelihood = data.course.likelihood;
    for (size_t i = 0; i < E->calls->dim; i++) theta[i] = 4 * rngs_uniform(&rng) - 2;
  }
  temp_close(temp);
  return fine;
}

static Value *output(Eval *E, Node run, const Axis *axis, int32_t which) {
  int32_t rows = axis ? axis->rows : 1, *index = NEW_ARRAY(E->arena, int32_t, rows);
  for (int32_t r = 0; r < rows; r++) index[r] = r * CALL_OUTPUTS + which;
  return value_of_node(E, value_shape(E, TY_REAL, 0, 0, NULL), axis,
                       ir_gather(E->graph, run, index, rows));
}

static Value *evaluate(Eval *E, const Call *r, Value *in) {
  Node run = runs_node(r->runs, E->graph, value_node(E, in), in->axis ? in->axis->rows : 1);
  eval_reject_where(E, output(E, run, in->axis, REJECTED));
  return output(E, run, in->axis, RESULT);
}

static void note_call(Eval *E, const Call *r, Message why) {
  Calls *c = E->calls;
  for (size_t k = 0; k < c->ninfos; k++)
    if (!strcmp(c->infos[k].name, r->f->name)) return;
  CallInfo info = {r->f->name, r->loc, why.loc, why.text};
  PUSH(E->arena, c->infos, c->ninfos, c->cap_infos, info);
}

/* NULL: it cannot be evaluated so, either. */
static Value *first_call(Eval *E, const FunDef *f, Value **args, Loc loc, Message why) {
  Call *r = make(E, f, args, loc);
  Value *in = inputs_of(E, r, args);
  r->runs = runs_make(E, &r->course);
  if (!works(E, r, value_node(E, in), in->axis ? in->axis->rows : 1)) return NULL;
  r->next = E->calls->first;
  E->calls->first = r;
  note_call(E, r, why);
  return evaluate(E, r, in);
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Did it fail because a decision depends on parameters, or on a side that not all draws take? An
 * attempt to lift a loop that is given up says nothing. */
static bool failed_for_draws(const Eval *E, const Attempt *a) {
  return (E->shared->needs_draw || E->shared->conditional) && E->ctx->status == PVI_PROGRAM &&
         E->ctx->nmessages > a->messages;
}

static void add_notes(EvalNotes *to, EvalNotes n) {
  to->needs_draw |= n.needs_draw;
  to->conditional |= n.conditional;
}

Value *run_call(Eval *E, const FunDef *f, Value **args, Loc loc) {
  if (!may_run(E, f, args)) return eval_body(E, f, args, loc);
  const Call *again = find(E->calls, f, args);
  if (again) return evaluate(E, again, inputs_of(E, again, args));
  const EvalNotes before = *E->shared;
  Attempt *a = NEW(E->arena, Attempt);
  Attempted *this = NEW(E->arena, Attempted);
  *this = (Attempted){f, E->calls->attempted};
  E->calls->attempted = this;
  *E->shared = (EvalNotes){.needs_draw = false};
  if (!setjmp(*attempt_begin(E, a))) {
    Value *v = eval_body(E, f, args, loc);
    attempt_end(E, a);
    E->calls->attempted = this->outer;
    add_notes(E->shared, before);
    return v;
  }
  E->calls->attempted = this->outer;
  if (!failed_for_draws(E, a)) {
    E->ctx->trap = a->outer;
    add_notes(E->shared, before);
    ctx_jump(E->ctx, E->ctx->status);
  }
  Message why = E->ctx->messages[E->ctx->nmessages - 1];
  attempt_undo(E, a);
  Value *v = first_call(E, f, args, loc, why);
  if (!v) {
    add_notes(E->shared, before);
    ctx_fail(E->ctx, PVI_PROGRAM, why.loc, "%s", why.text);
  }
  *E->shared = before;
  return v;
}
