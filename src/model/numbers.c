/* numbers.c: what is a single number of a draw, without Values.
 *
 * Generated quantities are run draw by draw with a number for every parameter (outputs.c), and much
 * of what they do is arithmetic on single numbers: an element of an array, a comparison, a count. A
 * Value for each would cost many times the arithmetic. So where E->numbers says that nothing
 * depends on parameters, and no loop is lifted, an expression whose type is int or real is a
 * double, elements of variables are read and written where they are, and what has no shorter way
 * takes the general one (eval_general) and gives its number. The numbers are the same: operators do
 * what their kernels do, functions are the kernels themselves.
 */
#include "model/eval.h"

#include "vm/vm.h"

#include <math.h>
#include <string.h>

static double number_below(Eval *E, const Expr *e);

/* Of an expression that number_typed says is one. Most are leaves. */
static inline double number(Eval *E, const Expr *e) {
  return e->kind == EX_VAR   ? E->frame[e->decl->slot].value->v[0]
         : e->kind == EX_INT ? (double)e->ivalue
                             : number_below(E, e);
}

/* ---- elements of variables ------------------------------------------------------------------- */

/* The place of e in its variable: so many dimensions are indexed so far, and that is where. */
typedef struct {
  Var *var;
  int dims;
  int32_t at;
} Place;

static Place place(Eval *E, const Expr *e) {
  if (e->kind == EX_VAR) return (Place){.var = &E->frame[e->decl->slot]};
  const Expr *of = e->args[0];
  Place p = of->kind == EX_VAR ? (Place){.var = &E->frame[of->decl->slot]} : place(E, of);
  for (int k = 0; k < e->nindexes; k++, p.dims++) {
    double i = number(E, e->indexes[k].a);
    int32_t dim = p.var->value->dims[p.dims];
    bool inside = i >= 1 && i <= dim;
    p.at = p.at * dim + (inside ? (int32_t)i - 1 : eval_position(E, i, dim, e->indexes[k].loc));
  }
  return p;
}

/* Kind and sizes of what the indexes leave, whose elements follow each other. */
static Value shape_at(const Place *p) {
  const Value *v = p->var->value;
  int inner = p->dims - v->array_dims;
  Value s = {.kind = eval_remaining_kind(v->kind, inner > 0, inner > 1),
             .array_dims = inner < 0 ? -inner : 0,
             .ndims = v->ndims - p->dims,
             .n = 1,
             .node = NO_NODE};
  for (int k = 0; k < s.ndims; k++) s.n *= s.dims[k] = v->dims[p->dims + k];
  return s;
}

bool number_is_block(const Eval *E, const Expr *e) {
  return E->numbers && !E->axis && e->kind == EX_INDEX && e->place;
}

Value *number_block(Eval *E, const Expr *e) {
  Place p = place(E, e);
  Value shape = shape_at(&p), *r = value_known(E, &shape, NULL);
  const double *from = p.var->value->v + (size_t)p.at * (size_t)shape.n;
  if (shape.n) memcpy(r->v, from, (size_t)shape.n * sizeof *r->v);
  return r;
}

NumberBlock number_block_to(Eval *E, const Expr *e) {
  Place p = place(E, e);
  NumberBlock b = {.shape = shape_at(&p)};
  value_own(E, &p.var->value);
  b.to = p.var->value->v + (size_t)p.at * (size_t)b.shape.n;
  return b;
}

/* ---- operators ------------------------------------------------------------------------------- */

static inline uint64_t bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

_Static_assert(IR_MAX_ARGS == 4, "all arguments are looked at");

static bool is_of(const Result *r, unsigned op, const double *x) {
  return r->op == op && bits_of(r->x[0]) == bits_of(x[0]) && bits_of(r->x[1]) == bits_of(x[1]) &&
         bits_of(r->x[2]) == bits_of(x[2]) && bits_of(r->x[3]) == bits_of(x[3]);
}

/* Where the result of op is remembered; *known: it is. NULL: nothing is remembered. Number by
 * number: they were just written, and to read them in pairs would have to wait. */
static Result *result_of(Eval *E, unsigned op, const double *x, bool *known) {
  if (!E->results) return NULL;
  uint64_t hash = op + (bits_of(x[0]) * 0x9E3779B97F4A7C15u ^ bits_of(x[1]) * 0xBF58476D1CE4E5B9u) +
                  (bits_of(x[2]) * 0x94D049BB133111EBu ^ bits_of(x[3]) * 0xD6E8FEB86659FD93u);
  Result *r = &E->results[(hash ^ hash >> 32) * 0x9E3779B97F4A7C15u >> (64 - RESULT_BITS)];
  *known = is_of(r, op, x);
  return r;
}

static double remember(Result *r, unsigned op, const double *x, double value) {
  if (!r) return value;
  *r = (Result){.op = op, .value = value};
  memcpy(r->x, x, sizeof r->x);
  return value;
}

double number_fold(Eval *E, unsigned op, const double *x) {
  bool known = false;
  Result *r = result_of(E, op, x, &known);
  return known ? r->value : remember(r, op, x, vm_fold_number(op, x));
}

static double power(Eval *E, double a, double b) {
  double x[IR_MAX_ARGS] = {a, b == 0.5 ? 0 : b};
  return b == 2 ? a * a : b == -1 ? 1 / a : number_fold(E, b == 0.5 ? IR_SQRT : IR_POW, x);
}

/* Numbers are also the product of a row and a column, and whether complex numbers are equal. */
static bool of_numbers_only(Operator op) { return op != OP_MUL && op != OP_EQ && op != OP_NE; }

static bool has_short_way(Operator op) { return op <= OP_GE && op != OP_LDIV; }

static double binary(Eval *E, Operator op, double a, double b, bool ints, Loc loc) {
  switch (op) {
  case OP_POW:
  case OP_ELT_POW: return power(E, a, b);
  case OP_ELT_MUL: return a * b;
  case OP_ELT_DIV:
  case OP_DIV: return ints ? eval_int_operator(E, op, a, b, loc) : a / b;
  default: return eval_int_operator(E, op, a, b, loc); /* of reals the same */
  }
}

static bool is_int(const Expr *e) { return e->type->kind == TY_INT; }

static double operation(Eval *E, const Expr *e) {
  double a = number(E, e->args[0]);
  if (e->op == OP_AND && a == 0) return 0;
  if (e->op == OP_OR && a != 0) return 1;
  return binary(E, e->op, a, number(E, e->args[1]), is_int(e->args[0]) && is_int(e->args[1]),
                e->loc);
}

static double unary(Operator op, double a) { return op == OP_NEG ? -a : op == OP_NOT ? a == 0 : a; }

/* ---- calls ----------------------------------------------------------------------------------- */

enum { MOST_ARGUMENTS = 8 };

static bool has_functions(const Expr *call) {
  for (int k = 0; k < call->nargs; k++)
    if (!call->args[k]->type || call->args[k]->type->kind == TY_FUNCTION) return true;
  return false;
}

static double elementwise(Eval *E, const Expr *call, unsigned op) {
  double x[IR_MAX_ARGS] = {0};
  for (int k = 0; k < call->nargs; k++) x[k] = number(E, call->args[k]);
  E->density = call->loc;
  return number_fold(E, op, x);
}

/* A number as a Value, for the time of a call. */
static Value number_in(double *x, TypeKind kind) {
  return (Value){.kind = kind, .n = 1, .known = true, .shared = true, .v = x, .node = NO_NODE};
}

static Value *boxed(Eval *E, const Expr *e, Value *own, double *x) {
  *x = number(E, e);
  *own = number_in(x, e->type->kind);
  return own;
}

/* A builtin whose result is a number: once it is there nobody holds the arguments any more, so a
 * variable among them is as little shared as it was before. */
static double builtin(Eval *E, const Expr *call) {
  Value *args[MOST_ARGUMENTS], own[MOST_ARGUMENTS], *r;
  double x[MOST_ARGUMENTS], result;
  bool shared[MOST_ARGUMENTS];
  for (int k = 0; k < call->nargs; k++) {
    const Expr *e = call->args[k];
    args[k] = number_typed(e)     ? boxed(E, e, &own[k], &x[k])
              : e->kind == EX_VAR ? E->frame[e->decl->slot].value
                                  : eval_expr(E, e);
    shared[k] = args[k]->shared;
    args[k]->shared = true;
  }
  if (call->call == CALL_DIST) {
    r = dist_call(E, (DistId)call->builtin, call->distfun, args, call->nargs, call->loc);
  } else {
    E->density = call->loc;
    r = eval_function(E, (FunId)call->builtin, args, call->nargs, call);
  }
  result = r->v[0];
  for (int k = call->nargs; k-- > 0;) args[k]->shared = shared[k];
  return result;
}

/* The log density of a number, given numbers: remembered, as the results of ops are. */
static double density(Eval *E, const Expr *call) {
  enum { DENSITIES = 1 << 16 }; /* above all ops */
  unsigned op = DENSITIES + (unsigned)call->builtin;
  double x[IR_MAX_ARGS] = {0};
  Value value[IR_MAX_ARGS], *args[IR_MAX_ARGS];
  bool known = false;
  for (int k = 0; k < call->nargs; k++) {
    x[k] = number(E, call->args[k]);
    value[k] = number_in(&x[k], call->args[k]->type->kind);
    args[k] = &value[k];
  }
  Result *r = result_of(E, op, x, &known);
  if (known) return r->value;
  return remember(r, op, x,
                  dist_call(E, (DistId)call->builtin, DF_LPDF, args, call->nargs, call->loc)->v[0]);
}

static bool is_density(const Expr *call) {
  return call->call == CALL_DIST && call->distfun == DF_LPDF && call->numbers &&
         call->nargs <= IR_MAX_ARGS;
}

static double general(Eval *E, const Expr *e) { return eval_general(E, e)->v[0]; }

static double called(Eval *E, const Expr *e) {
  unsigned op;
  if ((e->call != CALL_FUNCTION && e->call != CALL_DIST) || e->nargs > MOST_ARGUMENTS ||
      has_functions(e))
    return general(E, e);
  if (e->call == CALL_FUNCTION && (op = fun_op((FunId)e->builtin)) && e->numbers)
    return elementwise(E, e, op);
  return is_density(e) ? density(E, e) : builtin(E, e);
}

/* ---- all ------------------------------------------------------------------------------------- */

static double element(Eval *E, const Expr *e) {
  Place p = place(E, e);
  return p.var->value->v[p.at];
}

static double number_below(Eval *E, const Expr *e) {
  switch (e->kind) {
  case EX_REAL: return e->rvalue;
  case EX_PAREN: return number(E, e->args[0]);
  case EX_INDEX: return e->place ? element(E, e) : general(E, e);
  case EX_UNARY: return e->numbers ? unary(e->op, number(E, e->args[0])) : general(E, e);
  case EX_BINARY:
    return has_short_way(e->op) && (of_numbers_only(e->op) || e->numbers) ? operation(E, e)
                                                                          : general(E, e);
  case EX_TERNARY:
    return e->numbers ? number(E, e->args[number(E, e->args[0]) != 0 ? 1 : 2]) : general(E, e);
  case EX_CALL: return called(E, e);
  default: return general(E, e);
  }
}

/* What was made on the way to a number is of no use any more. Where it has filled a block it stays:
 * to free one, and to ask for it again, would cost more. */
static void forget(Arena *a, ArenaMark before) {
  if (a->used != before.used && a->block == before.block) arena_reset(a, before);
}

/* The parser bounds the height of a tree. Where the stack has no room for it, the general way looks
 * at every step. */
double number_of(Eval *E, const Expr *e) {
  enum { STEP = 2048 }; /* bytes */
  if (base_stack_left() < STACK_RESERVE + (size_t)e->height * STEP) return general(E, e);
  ArenaMark before = arena_mark(E->arena);
  double x = number(E, e);
  forget(E->arena, before);
  return x;
}

/* ---- variables ------------------------------------------------------------------------------- */

Value *number_value(Eval *E, TypeKind kind, double x) {
  return kind == TY_INT ? value_int(E, (long)x) : value_real(E, x);
}

void number_set(Eval *E, Var *var, TypeKind kind, double x) {
  Value *v = var->value;
  if (v && v->known && !v->shared && !v->ndims && !v->axis && v->kind == kind)
    v->v[0] = x;
  else
    var->value = number_value(E, kind, x);
}

bool number_assign(Eval *E, const Stmt *s) {
  const Expr *lhs = s->lhs;
  bool possible = number_is(E, lhs) && number_is(E, s->e) && lhs->place;
  if (!possible || (s->has_op && !has_short_way(s->op))) return false;
  double x = number_of(E, s->e);
  if (s->has_op) x = binary(E, s->op, number_of(E, lhs), x, is_int(lhs) && is_int(s->e), s->loc);
  Place p = place(E, lhs);
  if (p.dims) {
    value_own(E, &p.var->value);
    p.var->value->v[p.at] = x;
  } else {
    number_set(E, p.var, lhs->type->kind, x);
  }
  return true;
}
