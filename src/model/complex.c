/* complex.c: complex numbers as pairs of real ones, and their arithmetic; complex.h tells how they
 * lie. */
#include "model/complex.h"

bool complex_kind(TypeKind k) {
  return k == TY_COMPLEX || (k >= TY_COMPLEX_VECTOR && k <= TY_COMPLEX_MATRIX);
}

static TypeKind real_kind(TypeKind k) {
  return k == TY_COMPLEX ? TY_REAL : (TypeKind)(k - TY_COMPLEX_VECTOR + TY_VECTOR);
}

static TypeKind kind_of_complex(TypeKind k) {
  if (k == TY_INT || k == TY_REAL) return TY_COMPLEX;
  return (TypeKind)(k - TY_VECTOR + TY_COMPLEX_VECTOR);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Every second element, from `first` on. */
static Value *part(Eval *E, Value *v, int32_t first) {
  const Value *shape = value_shape(E, real_kind(v->kind), v->array_dims, v->ndims - 1, v->dims);
  int32_t *index = NEW_ARRAY(E->arena, int32_t, shape->n + 1);
  for (int32_t k = 0; k < shape->n; k++) index[k] = 2 * k + first;
  return value_take(E, v, shape, NULL, index);
}

Parts complex_parts(Eval *E, Value *v) {
  if (!complex_kind(v->kind)) return (Parts){v, value_known(E, v, NULL)};
  return (Parts){part(E, v, 0), part(E, v, 1)};
}

/* One number, as often as the shape has elements. */
static Value *repeated(Eval *E, Value *v, const Value *shape) {
  if (v->ndims == shape->ndims) return v;
  int32_t *zeros = NEW_ARRAY(E->arena, int32_t, shape->n + 1);
  return value_take(E, v, shape, NULL, zeros);
}

Value *complex_from(Eval *E, Value *re, Value *im) {
  const Value *shape = re->ndims >= im->ndims ? re : im;
  int32_t n = shape->n, all = 2 * n, *index = NEW_ARRAY(E->arena, int32_t, all + 1);
  int32_t dims[MAX_DIMS + 1];
  if (shape->ndims >= MAX_DIMS)
    ctx_fail(E->ctx, PVI_PROGRAM, NOWHERE, "complex numbers with more than %d dimensions",
             MAX_DIMS - 1);
  for (int k = 0; k < shape->ndims; k++) dims[k] = shape->dims[k];
  dims[shape->ndims] = 2;
  for (int32_t k = 0; k < n; k++) index[2 * k] = k, index[2 * k + 1] = n + k;
  Value *both = value_join(E, (Value *[]){repeated(E, re, shape), repeated(E, im, shape)}, 2,
                           value_shape(E, TY_VECTOR, 0, 1, &all));
  return value_take(
      E, both,
      value_shape(E, kind_of_complex(shape->kind), shape->array_dims, shape->ndims + 1, dims), NULL,
      index);
}

Value *complex_promote(Eval *E, Value *v, TypeKind kind) {
  if (kind == TY_REAL && v->kind == TY_INT)
    return value_reshape(E, v, kind, v->array_dims, v->ndims, v->dims);
  if (!complex_kind(kind) || complex_kind(v->kind)) return v;
  Parts p = complex_parts(E, v);
  return complex_from(E, p.re, p.im);
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

Parts complex_add(Eval *E, Parts a, Parts b) { return (Parts){ADD(a.re, b.re), ADD(a.im, b.im)}; }

Parts complex_multiply(Eval *E, Parts a, Parts b) {
  return (Parts){SUB(MUL(a.re, b.re), MUL(a.im, b.im)), ADD(MUL(a.re, b.im), MUL(a.im, b.re))};
}

Parts complex_divide(Eval *E, Parts a, Parts b) {
  Value *size = ADD(M(SQUARE, b.re), M(SQUARE, b.im));
  Parts z = complex_multiply(E, a, (Parts){b.re, M(NEG, b.im)});
  return (Parts){DIV(z.re, size), DIV(z.im, size)};
}

Parts complex_scale(Eval *E, Parts a, double x) {
  return (Parts){MUL(a.re, NUM(x)), MUL(a.im, NUM(x))};
}
