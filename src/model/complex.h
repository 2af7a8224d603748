/* complex.h: complex numbers as Values, for this folder. A complex Value has the kind that Stan
 * gives it and one dimension more than that kind has, the last one, of size 2: real and imaginary
 * part. So elements are picked, put, joined and chosen as of any other Value; only arithmetic has
 * to know. */
#ifndef PVI_COMPLEX_H
#define PVI_COMPLEX_H

#include "model/arith.h"

/* Two real Values of one shape. */
typedef struct {
  Value *re, *im;
} Parts;

bool complex_kind(TypeKind k);
Parts complex_parts(Eval *E, Value *v);             /* of a real Value: itself and zeros */
Value *complex_from(Eval *E, Value *re, Value *im); /* scalars are repeated */
/* v as an expression of the kind has it: complex where the kind is, and real where it is, though
 * the numbers are ints. */
Value *complex_promote(Eval *E, Value *v, TypeKind kind);

Parts complex_add(Eval *E, Parts a, Parts b);
Parts complex_multiply(Eval *E, Parts a, Parts b); /* elementwise, scalars are repeated */
Parts complex_divide(Eval *E, Parts a, Parts b);
Parts complex_scale(Eval *E, Parts a, double x);

/* Operators, and builtins with a complex argument that are the same for real ones
 * (fun_complex.c). */
Value *complex_binary(Eval *E, Operator op, Value *a, Value *b, Loc loc);
Value *complex_function(Eval *E, FunId id, Value **args, int nargs, const Expr *call);

/* Decompositions of complex matrices (fun_complex_spectrum.c). */
FunCode fn_z_eigenvalues_sym, fn_z_eigenvectors_sym, fn_z_eigendecompose_sym;
FunCode fn_z_singular_values, fn_z_svd, fn_z_svd_U, fn_z_svd_V;

#endif
