/* arith.h: arithmetic on Values in few letters; an Eval E must be in sight. */
#ifndef PVI_ARITH_H
#define PVI_ARITH_H

#include "model/eval.h"

#define M(op, x) map1(E, IR_##op, x)
#define ADD(x, y) map2(E, IR_ADD, x, y)
#define SUB(x, y) map2(E, IR_SUB, x, y)
#define MUL(x, y) map2(E, IR_MUL, x, y)
#define DIV(x, y) map2(E, IR_DIV, x, y)
#define NUM(x) value_real(E, x)

#endif
