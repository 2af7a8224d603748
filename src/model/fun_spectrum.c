/* fun_spectrum.c: eigenvalues of symmetric matrices, of numbers and of parameters; singular values,
 * of numbers. */
#include "model/fun.h"
#include "num/linalg.h"

#include <math.h>

/* ---- of numbers ------------------------------------------------------------------------------ */

typedef struct {
  Value *w, *V; /* eigenvalues ascending, eigenvectors in columns */
} Spectrum;

static Spectrum spectrum_of_numbers(Eval *E, const Value *A, const Expr *call) {
  int32_t K = A->dims[0];
  double *work = NEW_ARRAY(E->arena, double, A->n),
         *room = NEW_ARRAY(E->arena, double, A->n + 2 * K);
  Spectrum s = {value_vector(E, K), value_known(E, A, NULL)};
  for (int32_t k = 0; k < A->n; k++) work[k] = A->v[k];
  if (!eval_is_draw(E) && !la_is_symmetric(work, (size_t)K))
    ctx_fail(E->ctx, PVI_DATA, fun_place(call), "%s: the matrix is not symmetric", call->name);
  bool done = la_eigen_symmetric(work, s.w->v, s.V->v, room, (size_t)K);
  if (!done && !eval_is_draw(E))
    ctx_fail(E->ctx, PVI_DATA, fun_place(call), "%s: the matrix has no eigenvalues", call->name);
  return s;
}

/* ---- of parameters --------------------------------------------------------------------------- */

/* One node has both: eigenvalues, and behind them the vectors. Where eigenvalues are equal,
 * eigenvectors have no derivatives. */
static Spectrum spectrum_of_parameters(Eval *E, Value *A) {
  int32_t K = A->dims[0], all = K + A->n, *index = NEW_ARRAY(E->arena, int32_t, all);
  const Value *shape = value_shape(E, TY_VECTOR, 0, 1, &all),
              *vector = value_shape(E, TY_VECTOR, 0, 1, &K);
  Value *both = value_of_node(E, shape, A->axis, ir_eigen(E->graph, value_node(E, A), K));
  for (int32_t k = 0; k < all; k++) index[k] = k;
  return (Spectrum){value_take(E, both, vector, NULL, index),
                    value_take(E, both, A, NULL, index + K)};
}

static Spectrum spectrum(Eval *E, Value *A, const Expr *call) {
  if (A->known && !A->axis) return spectrum_of_numbers(E, A, call);
  if (!A->n) return (Spectrum){value_vector(E, 0), A};
  return spectrum_of_parameters(E, A);
}

FN(eigenvalues_sym) { return spectrum(E, a[0], call).w; }
FN(eigenvectors_sym) { return spectrum(E, a[0], call).V; }
FN(eigendecompose_sym) {
  Spectrum s = spectrum(E, a[0], call);
  return value_tuple(E, (Value *[]){s.V, s.w}, 2);
}

/* ---- singular values: of numbers ------------------------------------------------------------- */

/* A = U diag(d) V', of min(rows, columns) singular values, descending */
typedef struct {
  Value *U, *d, *V;
} Singular;

static Singular singular(Eval *E, Value *A, const Expr *call) {
  fun_need_known(E, A, call);
  bool wide = A->dims[0] < A->dims[1];
  Value *T = wide ? value_transpose(E, A) : A;
  int32_t m = T->dims[0], k = T->dims[1];
  Value *U = value_known(E, T, NULL),
        *V = value_known(E, value_shape(E, TY_MATRIX, 0, 2, (int32_t[]){k, k}), NULL);
  Singular s = {wide ? V : U, value_vector(E, k), wide ? U : V};
  for (int32_t e = 0; e < T->n; e++) U->v[e] = T->v[e];
  la_singular(U->v, s.d->v, V->v, (size_t)m, (size_t)k);
  return s;
}
FN(singular_values) { return singular(E, a[0], call).d; }
FN(svd_U) { return singular(E, a[0], call).U; }
FN(svd_V) { return singular(E, a[0], call).V; }
FN(svd) {
  Singular s = singular(E, a[0], call);
  return value_tuple(E, (Value *[]){s.U, s.d, s.V}, 3);
}
