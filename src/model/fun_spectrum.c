/* fun_spectrum.c: eigenvalues of symmetric matrices, singular values. Of numbers at once; symmetric
 * matrices of parameters by rotations that every draw makes alike. */
#include "model/fun.h"
#include "model/linear.h"
#include "num/linalg.h"

#include <math.h>

/* ---- of numbers ------------------------------------------------------------------------------ */

typedef struct {
  Value *w, *V; /* eigenvalues ascending, eigenvectors in columns */
} Spectrum;

static Spectrum spectrum_of_numbers(Eval *E, const Value *A, const Expr *call) {
  int32_t K = A->dims[0];
  double *work = NEW_ARRAY(E->arena, double, A->n);
  Spectrum s = {value_vector(E, K), value_known(E, A, NULL)};
  for (int32_t k = 0; k < A->n; k++) work[k] = A->v[k];
  bool done = la_eigen_symmetric(work, s.w->v, s.V->v, (size_t)K);
  if (!done && !eval_is_draw(E))
    ctx_fail(E->ctx, PVI_DATA, fun_place(call), "%s: the matrix has no eigenvalues", call->name);
  return s;
}

/* ---- of parameters --------------------------------------------------------------------------- */

/* Jacobi's method with the pairs of a round-robin tournament: n/2 rotations at a time, which touch
 * different rows, each sweep meeting every pair once. The number of sweeps is fixed, for
 * convergence is quadratic. Where eigenvalues are equal to rounding, derivatives of eigenvectors
 * are lost in it, as in every method. */
enum { LARGEST = 32 };
static int sweeps(int32_t n) { return n < 2 ? 0 : 6 + n / 4; }

/* Partner of every player in the given round; of an odd number of players one rests, its own
 * partner. */
static void pair_up(int32_t *partner, int32_t n, int32_t round) {
  int32_t even = n + n % 2, last = even - 1;
  for (int32_t k = 0; k < n; k++) partner[k] = k;
  for (int32_t k = 0; k < even / 2; k++) {
    int32_t p = k == 0 ? last : (round + k) % last, q = (round + last - k) % last;
    if (k == 0) q = round % last;
    if (p < n && q < n) partner[p] = q, partner[q] = p;
  }
}

typedef struct {
  Value *c, *s; /* per row: row' = c row + s row of the partner */
} Rotation;

/* tan = sign(d) a / (|d| + sqrt(d^2 + a^2)), d = A_qq - A_pp, a = 2 A_pq: the smaller angle; none
 * where both are 0 */
static Rotation rotation(Eval *E, Value *A, const int32_t *partner, int32_t n) {
  int32_t *own = NEW_ARRAY(E->arena, int32_t, n), *other = NEW_ARRAY(E->arena, int32_t, n),
          *off = NEW_ARRAY(E->arena, int32_t, n);
  const Value *shape = value_shape(E, TY_VECTOR, 0, 1, &n);
  Value *twice = value_known(E, shape, NULL), *first = value_known(E, shape, NULL), *zero = NUM(0),
        *one = NUM(1);
  for (int32_t k = 0; k < n; k++) {
    own[k] = k * n + k, other[k] = partner[k] * n + partner[k];
    off[k] = k < partner[k] ? k * n + partner[k] : partner[k] * n + k;
    twice->v[k] = k != partner[k] ? 2 : 0;
    first->v[k] =
        k < partner[k] ? 1 : -1; /* where d is 0 the two of a pair still turn opposite ways */
  }
  Value *d = SUB(value_take(E, A, shape, NULL, other), value_take(E, A, shape, NULL, own));
  Value *off2 = MUL(twice, value_take(E, A, shape, NULL, off));
  Value *still = map2(E, IR_EQ, ADD(M(ABS, d), M(ABS, off2)), zero);
  Value *hyp = M(SQRT, map3(E, IR_SELECT, still, one, ADD(M(SQUARE, d), M(SQUARE, off2))));
  Value *down = map2(E, IR_LT, d, zero), *level = map2(E, IR_EQ, d, zero);
  Value *sign = map3(E, IR_SELECT, level, first, map3(E, IR_SELECT, down, NUM(-1), one));
  Value *t = MUL(sign, DIV(off2, ADD(M(ABS, d), hyp)));
  Value *c = M(INV_SQRT, ADD(one, M(SQUARE, t)));
  return (Rotation){c, M(NEG, MUL(t, c))};
}

/* Columns (or rows) of M turned: M'_ij = c_j M_ij + s_j M_i,partner(j) */
static Value *turned(Eval *E, Value *A, Rotation r, const int32_t *partner, int32_t n, bool rows) {
  int32_t *by = NEW_ARRAY(E->arena, int32_t, n * n), *other = NEW_ARRAY(E->arena, int32_t, n * n);
  for (int32_t e = 0; e < n * n; e++) {
    int32_t i = e / n, j = e % n;
    by[e] = rows ? i : j;
    other[e] = rows ? partner[i] * n + j : i * n + partner[j];
  }
  Value *rest = MUL(value_take(E, r.s, A, NULL, by), value_take(E, A, A, NULL, other));
  return map3(E, IR_FMA, value_take(E, r.c, A, NULL, by), A, rest);
}

/* P_ji = 1 where eigenvalue j has i smaller ones before it: what sorts them, ascending. */
static Value *sorting(Eval *E, Value *w, int32_t n) {
  int32_t *own = NEW_ARRAY(E->arena, int32_t, n * n), *other = NEW_ARRAY(E->arena, int32_t, n * n);
  const Value *square = value_shape(E, TY_MATRIX, 0, 2, (int32_t[]){n, n});
  Value *earlier = value_known(E, square, NULL), *place = value_known(E, square, NULL);
  for (int32_t e = 0; e < n * n; e++) {
    own[e] = e / n, other[e] = e % n;
    earlier->v[e] = e % n < e / n;
    place->v[e] = e % n;
  }
  Value *x = value_take(E, w, square, NULL, own), *y = value_take(E, w, square, NULL, other);
  Value *before = ADD(map2(E, IR_LT, y, x), MUL(earlier, map2(E, IR_EQ, y, x)));
  Value *rank = value_reduce_rows(E, IR_SUM, before, n, value_shape(E, TY_VECTOR, 0, 1, &n));
  return map2(E, IR_EQ, value_take(E, rank, square, NULL, own), place);
}

static Spectrum spectrum_by_rotations(Eval *E, Value *A, const Expr *call) {
  int32_t n = A->dims[0], rounds = n + n % 2 - 1, *partner = NEW_ARRAY(E->arena, int32_t, n);
  if (n > LARGEST)
    ctx_fail(E->ctx, PVI_PROGRAM, fun_place(call),
             "%s of more than %d rows that depend on parameters is not supported", call->name,
             LARGEST);
  Value *V = linear_identity(E, n);
  for (int sweep = 0; sweep < sweeps(n); sweep++)
    for (int32_t r = 0; r < rounds; r++) {
      pair_up(partner, n, r);
      Rotation turn = rotation(E, A, partner, n);
      A = turned(E, turned(E, A, turn, partner, n, false), turn, partner, n, true);
      V = turned(E, V, turn, partner, n, false);
    }
  Value *w = linear_diagonal(E, A), *P = sorting(E, w, n);
  Value *sorted =
      eval_binary(E, OP_MUL, value_reshape(E, w, TY_ROW_VECTOR, 0, 1, &n), P, fun_place(call));
  return (Spectrum){value_transpose(E, sorted), eval_binary(E, OP_MUL, V, P, fun_place(call))};
}

static Spectrum spectrum(Eval *E, Value *A, const Expr *call) {
  return A->known && !A->axis ? spectrum_of_numbers(E, A, call) : spectrum_by_rotations(E, A, call);
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
