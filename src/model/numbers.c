/* numbers.c: what is a single number of a draw, without Values.
 *
 * Generated quantities are run draw by draw with a number for every parameter (outputs.c), and much
 * of what they do is arithmetic on single numbers: an element of an array, a comparison, a count. A
 * Value for each would cost many times the arithmetic. So where E->numbers says that nothing
 * depends on parameters, and no loop is lifted, an expression whose type is int or real is a
 * double, elements of variables are read and written where they are, and what has no shorter way
 * takes the general one (eval_general) and gives its number. The numbers are the same: operators do
 * what their kernels do, functions are the kernels themselves.
 *
 * An expression is looked at once, when it is first evaluated: what becomes of it is a Num, a
 * function and what it works on, which is kept for all draws (E->codes). number_steps.c does the
 * same with statements.
 */
#include "model/eval.h"

#include "vm/vm.h"

#include <math.h>
#include <string.h>

typedef double NumGet(Eval *E, const Num *n);

struct Num {
  NumGet *get;
  const Expr *e;
  double x;            /* a literal */
  int slot;            /* of a variable */
  int nargs;           /* operands, arguments, or indexes */
  unsigned op;         /* Operator; of a function what it is in the graph; of a density: is_short */
  bool ints;           /* both operands are */
  const Num **args;    /* those that are numbers */
  const Index **index; /* a place: its indexes */
};

static double get_variable(Eval *E, const Num *n) { return E->frame[n->slot].value->v[0]; }

/* Most are variables. */
static inline double get(Eval *E, const Num *n) {
  return n->get == get_variable ? E->frame[n->slot].value->v[0] : n->get(E, n);
}

/* ---- what expressions and statements have become --------------------------------------------- */

Codes *codes_make(Arena *a) {
  Codes *c = NEW(a, Codes);
  c->arena = a;
  return c;
}

Code *code_of(Codes *c, const void *of) {
  Code **first = &c->first[(uint64_t)(uintptr_t)of * 0x9E3779B97F4A7C15u >> (64 - CODE_BITS)];
  for (Code *k = *first; k; k = k->next)
    if (k->of == of) return k;
  Code *k = NEW(c->arena, Code);
  *k = (Code){.of = of, .next = *first};
  return *first = k;
}

/* ---- elements of variables ------------------------------------------------------------------- */

static inline Var *variable_of(const Eval *E, const Num *n) { return &E->frame[n->slot]; }

/* Index k, from 0, of a place. */
static inline int32_t index_at(Eval *E, const Num *n, int k) {
  double i = get(E, n->args[k]);
  int32_t dim = variable_of(E, n)->value->dims[k];
  return i >= 1 && i <= dim ? (int32_t)i - 1 : eval_position(E, i, dim, n->index[k]->loc);
}

static int32_t place_of_many(Eval *E, const Num *n) {
  int32_t at = 0;
  for (int k = 0; k < n->nargs; k++) {
    int32_t i = index_at(E, n, k);
    at = at * variable_of(E, n)->value->dims[k] + i;
  }
  return at;
}

/* Where, among what so many indexes leave, a place is in its variable. */
static inline int32_t place(Eval *E, const Num *n) {
  if (n->nargs == 1) return index_at(E, n, 0);
  if (n->nargs != 2) return place_of_many(E, n);
  int32_t i = index_at(E, n, 0), j = index_at(E, n, 1);
  return i * variable_of(E, n)->value->dims[1] + j;
}

static double get_element(Eval *E, const Num *n) {
  int32_t at = place(E, n);
  return variable_of(E, n)->value->v[at];
}

/* x[i][j] is x[i, j]. */
static int count_indexes(const Expr *e) {
  return e->kind == EX_VAR ? 0 : count_indexes(e->args[0]) + e->nindexes;
}

static void collect_indexes(Eval *E, const Expr *e, Num *n, int count) {
  if (e->kind == EX_VAR) {
    n->slot = e->decl->slot;
    return;
  }
  count -= e->nindexes;
  collect_indexes(E, e->args[0], n, count);
  for (int k = 0; k < e->nindexes; k++) {
    n->index[count + k] = &e->indexes[k];
    n->args[count + k] = number_code(E, e->indexes[k].a);
  }
}

/* Of an expression that is a place, of whatever type. */
static void make_place(Eval *E, const Expr *e, Num *n) {
  Arena *a = E->codes->arena;
  n->nargs = count_indexes(e);
  n->args = NEW_ARRAY(a, const Num *, n->nargs + 1);
  n->index = NEW_ARRAY(a, const Index *, n->nargs + 1);
  collect_indexes(E, e, n, n->nargs);
  n->get = n->nargs ? get_element : get_variable;
}

/* Kind and sizes of what the indexes leave, whose elements follow each other. */
static Value shape_at(const Eval *E, const Num *n) {
  const Value *v = variable_of(E, n)->value;
  int inner = n->nargs - v->array_dims;
  Value s = {.kind = eval_remaining_kind(v->kind, inner > 0, inner > 1),
             .array_dims = inner < 0 ? -inner : 0,
             .ndims = v->ndims - n->nargs,
             .n = 1,
             .node = NO_NODE};
  for (int k = 0; k < s.ndims; k++) s.n *= s.dims[k] = v->dims[n->nargs + k];
  return s;
}

bool number_is_block(const Eval *E, const Expr *e) {
  return E->numbers && !E->axis && e->kind == EX_INDEX && e->place;
}

Value *number_block(Eval *E, const Expr *e) {
  const Num *n = number_code(E, e);
  int32_t at = place(E, n);
  Value shape = shape_at(E, n), *r = value_known(E, &shape, NULL);
  const double *from = variable_of(E, n)->value->v + (size_t)at * (size_t)shape.n;
  if (shape.n) memcpy(r->v, from, (size_t)shape.n * sizeof *r->v);
  return r;
}

NumberBlock number_block_to(Eval *E, const Expr *e) {
  const Num *n = number_code(E, e);
  int32_t at = place(E, n);
  NumberBlock b = {.shape = shape_at(E, n)};
  value_own(E, &variable_of(E, n)->value);
  b.to = variable_of(E, n)->value->v + (size_t)at * (size_t)b.shape.n;
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

bool number_has_operator(Operator op) { return op <= OP_GE && op != OP_LDIV; }

double number_binary(Eval *E, Operator op, double a, double b, bool ints, Loc loc) {
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

#define BINARY(name, result)                                                                       \
  static double name(Eval *E, const Num *n) {                                                      \
    double a = get(E, n->args[0]), b = get(E, n->args[1]);                                         \
    return result;                                                                                 \
  }
BINARY(get_sum, a + b)
BINARY(get_difference, a - b)
BINARY(get_product, a *b)
BINARY(get_ratio, a / b)
BINARY(get_eq, a == b)
BINARY(get_ne, a != b)
BINARY(get_lt, a < b)
BINARY(get_le, a <= b)
BINARY(get_gt, a > b)
BINARY(get_ge, a >= b)
BINARY(get_binary, number_binary(E, (Operator)n->op, a, b, n->ints, n->e->loc))
#undef BINARY

static double get_and(Eval *E, const Num *n) {
  return get(E, n->args[0]) != 0 && get(E, n->args[1]) != 0;
}
static double get_or(Eval *E, const Num *n) {
  return get(E, n->args[0]) != 0 || get(E, n->args[1]) != 0;
}

static NumGet *binary_get(Operator op, bool ints) {
  switch (op) {
  case OP_ADD: return get_sum;
  case OP_SUB: return get_difference;
  case OP_MUL:
  case OP_ELT_MUL: return get_product;
  case OP_DIV:
  case OP_ELT_DIV: return ints ? get_binary : get_ratio;
  case OP_EQ: return get_eq;
  case OP_NE: return get_ne;
  case OP_LT: return get_lt;
  case OP_LE: return get_le;
  case OP_GT: return get_gt;
  case OP_GE: return get_ge;
  case OP_AND: return get_and;
  case OP_OR: return get_or;
  default: return get_binary;
  }
}

static double get_negative(Eval *E, const Num *n) { return -get(E, n->args[0]); }
static double get_not(Eval *E, const Num *n) { return get(E, n->args[0]) == 0; }
static double get_same(Eval *E, const Num *n) { return get(E, n->args[0]); }

static double get_choice(Eval *E, const Num *n) {
  return get(E, n->args[get(E, n->args[0]) != 0 ? 1 : 2]);
}

/* ---- calls ----------------------------------------------------------------------------------- */

enum { MOST_ARGUMENTS = 8 };

/* What was made on the way to a number is of no use any more. Where it has filled a block it stays:
 * to free one, and to ask for it again, would cost more. */
static inline void forget(Arena *a, ArenaMark before) {
  if (a->used != before.used && a->block == before.block) arena_reset(a, before);
}

static bool has_functions(const Expr *call) {
  for (int k = 0; k < call->nargs; k++)
    if (!call->args[k]->type || call->args[k]->type->kind == TY_FUNCTION) return true;
  return false;
}

static double get_elementwise(Eval *E, const Num *n) {
  double x[IR_MAX_ARGS] = {0};
  for (int k = 0; k < n->nargs; k++) x[k] = get(E, n->args[k]);
  E->density = n->e->loc;
  return number_fold(E, n->op, x);
}

/* A number as a Value, for the time of a call. */
static Value number_in(double *x, TypeKind kind) {
  return (Value){.kind = kind, .n = 1, .known = true, .shared = true, .v = x, .node = NO_NODE};
}

static Value *boxed(Eval *E, const Num *n, Value *own, double *x) {
  *x = get(E, n);
  *own = number_in(x, n->e->type->kind);
  return own;
}

/* A builtin whose result is a number: once it is there nobody holds the arguments any more, so a
 * variable among them is as little shared as it was before. */
static double get_builtin(Eval *E, const Num *n) {
  Value *args[MOST_ARGUMENTS], own[MOST_ARGUMENTS], *r;
  double x[MOST_ARGUMENTS], result;
  bool shared[MOST_ARGUMENTS];
  const Expr *call = n->e;
  ArenaMark before = arena_mark(E->arena);
  for (int k = 0; k < call->nargs; k++) {
    const Expr *e = call->args[k];
    args[k] = n->args[k]          ? boxed(E, n->args[k], &own[k], &x[k])
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
  forget(E->arena, before);
  return result;
}

static double density_of(Eval *E, const Expr *call, double *x) {
  Value value[IR_MAX_ARGS], *args[IR_MAX_ARGS];
  for (int k = 0; k < call->nargs; k++) {
    value[k] = number_in(&x[k], call->args[k]->type->kind);
    args[k] = &value[k];
  }
  ArenaMark before = arena_mark(E->arena);
  double result = dist_call(E, (DistId)call->builtin, DF_LPDF, args, call->nargs, call->loc)->v[0];
  forget(E->arena, before);
  return result;
}

static double fold_one(Eval *E, unsigned op, double x) {
  return number_fold(E, op, (const double[IR_MAX_ARGS]){x});
}

static double location_scale(Eval *E, unsigned op, const double *x) {
  double terms[IR_MAX_ARGS] = {x[0], x[1], fold_one(E, IR_INV, x[2]), fold_one(E, IR_LOG, x[2])};
  return vm_fold_number(op, terms);
}

static double poisson(Eval *E, unsigned op, const double *x) {
  double terms[IR_MAX_ARGS] = {x[0], x[1], fold_one(E, IR_LGAMMA, x[0] + 1)};
  if (op == IR_POISSON) terms[3] = fold_one(E, IR_LOG, x[1]);
  return vm_fold_number(op, terms);
}

/* Densities that loops ask for most, as their LPDFs have them. */
static bool is_short(DistId id) {
  return id == DIST_normal || id == DIST_cauchy || id == DIST_double_exponential ||
         id == DIST_logistic || id == DIST_exponential || id == DIST_bernoulli ||
         id == DIST_bernoulli_logit || id == DIST_poisson || id == DIST_poisson_log;
}

static double short_density(Eval *E, DistId id, const double *x) {
  switch (id) {
  case DIST_normal: return location_scale(E, IR_NORMAL, x);
  case DIST_cauchy: return location_scale(E, IR_CAUCHY, x);
  case DIST_double_exponential: return location_scale(E, IR_DOUBLE_EXP, x);
  case DIST_logistic: return location_scale(E, IR_LOGISTIC, x);
  case DIST_exponential: return fold_one(E, IR_LOG, x[1]) - x[1] * x[0];
  case DIST_bernoulli: return vm_fold_number(IR_BERNOULLI, x);
  case DIST_bernoulli_logit: return vm_fold_number(IR_BERNOULLI_LOGIT, x);
  case DIST_poisson: return poisson(E, IR_POISSON, x);
  default: return poisson(E, IR_POISSON_LOG, x);
  }
}

/* The log density of a number, given numbers: remembered, as the results of ops are. */
static double get_density(Eval *E, const Num *n) {
  enum { DENSITIES = 1 << 16 }; /* above all ops */
  unsigned op = DENSITIES + (unsigned)n->e->builtin;
  double x[IR_MAX_ARGS] = {0};
  bool known = false;
  for (int k = 0; k < n->nargs; k++) x[k] = get(E, n->args[k]);
  Result *r = result_of(E, op, x, &known);
  if (known) return r->value;
  return remember(r, op, x,
                  n->op ? short_density(E, (DistId)n->e->builtin, x) : density_of(E, n->e, x));
}

static bool is_density(const Expr *call) {
  return call->call == CALL_DIST && call->distfun == DF_LPDF && call->numbers &&
         call->nargs <= IR_MAX_ARGS;
}

static double get_general(Eval *E, const Num *n) {
  ArenaMark before = arena_mark(E->arena);
  double x = eval_general(E, n->e)->v[0];
  forget(E->arena, before);
  return x;
}

/* ---- making them ----------------------------------------------------------------------------- */

/* All arguments; those that are no numbers remain NULL. */
static void make_args(Eval *E, Num *n) {
  n->nargs = n->e->nargs;
  n->args = NEW_ARRAY(E->codes->arena, const Num *, n->nargs + 1);
  for (int k = 0; k < n->nargs; k++)
    if (number_typed(n->e->args[k])) n->args[k] = number_code(E, n->e->args[k]);
}

static NumGet *call_get(Num *n) {
  const Expr *e = n->e;
  if ((e->call != CALL_FUNCTION && e->call != CALL_DIST) || e->nargs > MOST_ARGUMENTS ||
      has_functions(e))
    return get_general;
  if (e->call == CALL_FUNCTION && e->numbers && (n->op = fun_op((FunId)e->builtin)))
    return get_elementwise;
  if (!is_density(e)) return get_builtin;
  n->op = is_short((DistId)e->builtin);
  return get_density;
}

static NumGet *unary_get(Operator op) {
  return op == OP_NEG ? get_negative : op == OP_NOT ? get_not : get_same;
}

/* The shorter way, or the general one. */
static NumGet *way_of(Num *n) {
  const Expr *e = n->e;
  switch (e->kind) {
  case EX_PAREN: return get_same;
  case EX_UNARY: return e->numbers ? unary_get(e->op) : get_general;
  case EX_BINARY:
    if (!number_has_operator(e->op) || !(of_numbers_only(e->op) || e->numbers)) return get_general;
    n->op = e->op;
    n->ints = is_int(e->args[0]) && is_int(e->args[1]);
    return binary_get(e->op, n->ints);
  case EX_TERNARY: return e->numbers ? get_choice : get_general;
  case EX_CALL: return call_get(n);
  default: return get_general;
  }
}

static double get_literal(Eval *E, const Num *n) {
  (void)E;
  return n->x;
}

/* pi(), negative_infinity() and the like. */
static bool is_constant(const Expr *e) {
  return e->kind == EX_CALL && e->call == CALL_FUNCTION && e->nargs == 0;
}

static const Num *make(Eval *E, const Expr *e) {
  Num *n = NEW(E->codes->arena, Num);
  n->e = e;
  if (e->kind == EX_INT || e->kind == EX_REAL) {
    n->x = e->kind == EX_INT ? (double)e->ivalue : e->rvalue;
    n->get = get_literal;
  } else if (e->kind == EX_VAR || (e->kind == EX_INDEX && e->place)) {
    make_place(E, e, n);
  } else {
    n->get = way_of(n);
    if (n->get != get_general) make_args(E, n);
  }
  if (is_constant(e)) {
    n->x = get(E, n);
    n->get = get_literal;
  }
  return n;
}

const Num *number_code(Eval *E, const Expr *e) {
  Code *c = code_of(E->codes, e);
  if (!c->number) {
    const Num *n = make(E, e);
    c->number = n;
  }
  return c->number;
}

double number_get(Eval *E, const Num *n) { return get(E, n); }

/* The parser bounds the height of a tree. Where the stack has no room for it, the general way looks
 * at every step. */
double number_of(Eval *E, const Expr *e) {
  if (base_stack_left() >= STACK_RESERVE + (size_t)e->height * NUMBER_STACK)
    return get(E, number_code(E, e));
  ArenaMark before = arena_mark(E->arena);
  double x = eval_general(E, e)->v[0];
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

static void put(Eval *E, const Num *to, double x) {
  Var *var = variable_of(E, to);
  if (!to->nargs) {
    number_set(E, var, to->e->type->kind, x);
    return;
  }
  int32_t at = place(E, to);
  if (var->value->shared) value_own(E, &var->value);
  var->value->v[at] = x;
}

bool number_assigns(const Stmt *s) {
  return number_typed(s->lhs) && number_typed(s->e) && s->lhs->place &&
         (!s->has_op || number_has_operator(s->op));
}

void number_assign(Eval *E, const Stmt *s, const Num *to, const Num *from) {
  double x = get(E, from);
  if (s->has_op) {
    bool ints = is_int(s->lhs) && is_int(s->e);
    x = number_binary(E, s->op, get(E, to), x, ints, s->loc);
  }
  put(E, to, x);
}
