/* fun_complex_spectrum.c: eigenvalues, Schur forms and singular values that are complex, of known
 * matrices: in transformed data, or of one draw. */
#include "model/complex.h"
#include "model/fun.h"
#include "num/spectrum.h"

typedef double complex Z;

/* ---- numbers in and out ---------------------------------------------------------------------- */

typedef struct {
  Z *x;
  int32_t m, n;
} Matrix;

static Matrix matrix_of(Eval *E, Value *v, const Expr *call) {
  fun_need_known(E, v, call);
  Parts p = complex_parts(E, v);
  Matrix A = {NEW_ARRAY(E->arena, Z, p.re->n + 1), p.re->dims[0], p.re->dims[1]};
  for (int32_t k = 0; k < p.re->n; k++) A.x[k] = spectrum_number(p.re->v[k], p.im->v[k]);
  return A;
}

static Value *value_from(Eval *E, const Z *x, const Value *shape) {
  Value *re = value_known(E, shape, NULL), *im = value_known(E, shape, NULL);
  for (int32_t k = 0; k < shape->n; k++) re->v[k] = creal(x[k]), im->v[k] = cimag(x[k]);
  return complex_from(E, re, im);
}

static Value *matrix_shape(Eval *E, int32_t m, int32_t n) {
  return value_shape(E, TY_MATRIX, 0, 2, (int32_t[]){m, n});
}

/* ---- Schur's form and eigenvalues ------------------------------------------------------------ */

typedef struct {
  int32_t n;
  Z *T, *U; /* A = U T U* */
} Schur;

static Schur schur_of(Eval *E, Value *v, const Expr *call) {
  Matrix A = matrix_of(E, v, call);
  if (A.m != A.n)
    ctx_fail(E->ctx, PVI_PROGRAM, fun_place(call), "%s: the matrix is %d x %d, not square",
             call->name, A.m, A.n);
  Schur s = {A.n, A.x, NEW_ARRAY(E->arena, Z, A.n * A.n + 1)};
  if (!spectrum_schur(s.T, s.U, (size_t)s.n) && !eval_is_draw(E))
    ctx_fail(E->ctx, PVI_DATA, fun_place(call), "%s: the matrix has no eigenvalues", call->name);
  return s;
}

static Value *values_of(Eval *E, const Schur *s) {
  Z *w = NEW_ARRAY(E->arena, Z, s->n + 1);
  for (int32_t k = 0; k < s->n; k++) w[k] = s->T[k * s->n + k];
  return value_from(E, w, value_shape(E, TY_VECTOR, 0, 1, &s->n));
}

static Value *vectors_of(Eval *E, const Schur *s) {
  Z *V = NEW_ARRAY(E->arena, Z, s->n * s->n + 1), *x = NEW_ARRAY(E->arena, Z, s->n + 1);
  spectrum_vectors(s->T, s->U, V, x, (size_t)s->n);
  return value_from(E, V, matrix_shape(E, s->n, s->n));
}

static Value *square_of(Eval *E, const Schur *s, const Z *x) {
  return value_from(E, x, matrix_shape(E, s->n, s->n));
}

FN(eigenvalues) {
  Schur s = schur_of(E, a[0], call);
  return values_of(E, &s);
}
FN(eigenvectors) {
  Schur s = schur_of(E, a[0], call);
  return vectors_of(E, &s);
}
FN(eigendecompose) {
  Schur s = schur_of(E, a[0], call);
  return value_tuple(E, (Value *[]){vectors_of(E, &s), values_of(E, &s)}, 2);
}
FN(complex_schur_decompose_t) {
  Schur s = schur_of(E, a[0], call);
  return square_of(E, &s, s.T);
}
FN(complex_schur_decompose_u) {
  Schur s = schur_of(E, a[0], call);
  return square_of(E, &s, s.U);
}
FN(complex_schur_decompose) {
  Schur s = schur_of(E, a[0], call);
  return value_tuple(E, (Value *[]){square_of(E, &s, s.U), square_of(E, &s, s.T)}, 2);
}

/* ---- Hermitian matrices ---------------------------------------------------------------------- */

/* Their Schur form is diagonal; the eigenvalues, real, ascend. */
static Schur hermitian_of(Eval *E, Value *v, const Expr *call) {
  Schur s = schur_of(E, v, call);
  int32_t n = s.n;
  for (int32_t j = 0; j < n; j++)
    for (int32_t k = j + 1; k < n; k++) {
      Z *a = &s.T[j * n + j], *b = &s.T[k * n + k], swap = *a;
      if (creal(*b) >= creal(*a)) continue;
      *a = *b, *b = swap;
      for (int32_t i = 0; i < n; i++) {
        swap = s.U[i * n + j];
        s.U[i * n + j] = s.U[i * n + k];
        s.U[i * n + k] = swap;
      }
    }
  for (int32_t k = 0; k < n; k++) s.T[k * n + k] = creal(s.T[k * n + k]);
  return s;
}

FN(z_eigenvalues_sym) {
  Schur s = hermitian_of(E, a[0], call);
  return values_of(E, &s);
}
FN(z_eigenvectors_sym) {
  Schur s = hermitian_of(E, a[0], call);
  return square_of(E, &s, s.U);
}
FN(z_eigendecompose_sym) {
  Schur s = hermitian_of(E, a[0], call);
  return value_tuple(E, (Value *[]){square_of(E, &s, s.U), values_of(E, &s)}, 2);
}

/* ---- singular values ------------------------------------------------------------------------- */

typedef struct {
  Value *U, *d, *V;
} Singular;

/* A wide matrix is the adjoint of a tall one, whose U is its V. */
static Singular singular(Eval *E, Value *v, const Expr *call) {
  Matrix A = matrix_of(E, v, call);
  bool wide = A.m < A.n;
  int32_t m = wide ? A.n : A.m, n = wide ? A.m : A.n;
  Z *x = NEW_ARRAY(E->arena, Z, m * n + 1), *V = NEW_ARRAY(E->arena, Z, n * n + 1);
  for (int32_t k = 0; k < m * n; k++) x[k] = wide ? conj(A.x[k % n * m + k / n]) : A.x[k];
  Value *d = value_vector(E, n);
  spectrum_singular(x, d->v, V, (size_t)m, (size_t)n);
  Value *tall = value_from(E, x, matrix_shape(E, m, n)),
        *square = value_from(E, V, matrix_shape(E, n, n));
  return wide ? (Singular){square, d, tall} : (Singular){tall, d, square};
}

FN(z_singular_values) { return singular(E, a[0], call).d; }
FN(z_svd_U) { return singular(E, a[0], call).U; }
FN(z_svd_V) { return singular(E, a[0], call).V; }
FN(z_svd) {
  Singular s = singular(E, a[0], call);
  return value_tuple(E, (Value *[]){s.U, s.d, s.V}, 3);
}
