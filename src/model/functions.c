/* functions.c: the code behind functions.def. fn_x evaluates function x on Values; what is known is
 * computed, the rest becomes nodes. Elementwise functions need no code here: MAP(OP) in their row
 * names the op. */
#include "model/complex.h"
#include "model/fun.h"

#include <float.h>
#include <math.h>

Loc fun_place(const Expr *call) { return call ? call->loc : NOWHERE; }

long fun_int(Eval *E, Value *v, const Expr *call) {
  return value_int_of(E, v, fun_place(call), "an argument");
}

int32_t fun_size(Eval *E, Value *v, const Expr *call) {
  long k = fun_int(E, v, call);
  if (k < 0) ctx_fail(E->ctx, PVI_PROGRAM, fun_place(call), "size %ld is negative", k);
  if (k > MOST_DECLARED)
    ctx_fail(E->ctx, PVI_PROGRAM, fun_place(call), "size %ld is too large: at most %d", k,
             MOST_DECLARED);
  return (int32_t)k;
}

const FunDef *fun_function(Eval *E, const Expr *call) {
  const FunDef *f = call->args[0]->user;
  if (!f)
    ctx_fail(E->ctx, PVI_PROGRAM, call->loc,
             "%s of a function that is itself an argument is not supported yet", call->name);
  return f;
}

void fun_need_known(Eval *E, const Value *v, const Expr *call) {
  if (!v->known)
    ctx_fail(E->ctx, PVI_PROGRAM, fun_place(call),
             "%s of values that depend on parameters is not supported yet",
             call && call->name ? call->name : "this function");
  if (v->axis) lift_bail(E, "a function that works on whole columns of data is called");
}

Value *fun_int_if(Value *r, const Value *like) {
  if (like->kind == TY_INT && r->known) r->kind = TY_INT;
  return r;
}

/* ---- constants ------------------------------------------------------------------------------- */

FN(pi) { return value_real(E, M_PI); }
FN(e) { return value_real(E, M_E); }
FN(sqrt2) { return value_real(E, M_SQRT2); }
FN(not_a_number) { return value_real(E, NAN); }
FN(positive_infinity) { return value_real(E, INFINITY); }
FN(negative_infinity) { return value_real(E, -INFINITY); }
FN(machine_precision) { return value_real(E, DBL_EPSILON); }

/* ---- operators by name ----------------------------------------------------------------------- */

FN(add) { return eval_binary(E, OP_ADD, a[0], a[1], fun_place(call)); }
FN(subtract) { return eval_binary(E, OP_SUB, a[0], a[1], fun_place(call)); }
FN(multiply) { return eval_binary(E, OP_MUL, a[0], a[1], fun_place(call)); }
FN(divide) { return eval_binary(E, OP_DIV, a[0], a[1], fun_place(call)); }
FN(elt_multiply) { return eval_binary(E, OP_ELT_MUL, a[0], a[1], fun_place(call)); }
FN(elt_divide) { return eval_binary(E, OP_ELT_DIV, a[0], a[1], fun_place(call)); }
FN(transpose) { return value_transpose(E, a[0]); }
FN(idivide) { return eval_binary(E, OP_IDIV, a[0], a[1], fun_place(call)); }
FN(modulus) { return eval_binary(E, OP_MOD, a[0], a[1], fun_place(call)); }

/* ---- tests ----------------------------------------------------------------------------------- */

static Value *as_int(Value *v) {
  v->kind = TY_INT;
  return v;
}
FN(is_nan) { return as_int(map2(E, IR_NE, a[0], a[0])); }
FN(is_inf) { return as_int(map2(E, IR_EQ, M(ABS, a[0]), NUM(INFINITY))); }
FN(int_step) { return as_int(map2(E, IR_LT, NUM(0), a[0])); }
FN(to_int) { return as_int(M(TRUNC, a[0])); }

/* ---- differential equations ------------------------------------------------------------------ */

FN(ode_rk45) { return eval_ode(E, ODE_RK45, a, n, call); }
FN(ode_ckrk) { return eval_ode(E, ODE_CKRK, a, n, call); }
FN(ode_adams) { return eval_ode(E, ODE_ADAMS, a, n, call); }
FN(ode_bdf) { return eval_ode(E, ODE_BDF, a, n, call); }
FN(dae) { return eval_dae(E, a, n, call); }

/* ---- dispatch -------------------------------------------------------------------------------- */

typedef struct {
  FunCode *code;
  unsigned op; /* when there is no code: the elementwise op */
} FunRow;

#define MAP(OP)                                                                                    \
  { NULL, IR_##OP }
#define CODE(id)                                                                                   \
  { fn_##id, 0 }
static const FunRow rows[FUN_COUNT] = {
#define FUN(id, signatures, code) [FUN_##id] = code,
#include "stan/functions.def"
#undef FUN
};

unsigned fun_op(FunId id) { return rows[id].code ? 0 : rows[id].op; }

bool fun_is_elementwise(FunId id) { return fun_op(id) != 0; }

Value *eval_function(Eval *E, FunId id, Value **args, int nargs, const Expr *call) {
  const FunRow *row = &rows[id];
  for (int k = 0; k < nargs; k++)
    if (args[k] && complex_kind(args[k]->kind)) return complex_function(E, id, args, nargs, call);
  fun_check_sizes(E, id, args, nargs, fun_place(call));
  if (row->code) return row->code(E, args, nargs, call);
  Value *r = value_map(E, row->op, args);
  if (call && call->type && call->type->kind == TY_INT) r->kind = TY_INT; /* abs of an int */
  return r;
}
