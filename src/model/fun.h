/* fun.h: what the files behind functions.def share, for this folder. FN(x) { ... } is the code of
 * function x: E the evaluator, a its n arguments (NULL in the place of a function), call the
 * expression, or NULL when the evaluator itself asks. */
#ifndef PVI_FUN_H
#define PVI_FUN_H

#include "model/arith.h"

#define FN(id)                                                                                     \
  Value *fn_##id(__attribute__((unused)) Eval *E, __attribute__((unused)) Value **a,               \
                 __attribute__((unused)) int n, __attribute__((unused)) const Expr *call)

#define MAP(OP)
#define CODE(id) FunCode fn_##id;
#define FUN(id, signatures, code) code
#include "stan/functions.def"
#undef FUN
#undef CODE
#undef MAP

/* ---- arguments (functions.c) ----------------------------------------------------------------- */

Loc fun_place(const Expr *call);
long fun_int(Eval *E, Value *v, const Expr *call);     /* a known int */
int32_t fun_size(Eval *E, Value *v, const Expr *call); /* one that is a size */
const FunDef *fun_function(Eval *E,
                           const Expr *call); /* the first argument, a function of the program */
void fun_need_known(Eval *E, const Value *v, const Expr *call);
Value *fun_int_if(Value *r, const Value *like); /* an int where `like` is one */

#endif
