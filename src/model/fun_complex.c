/* fun_complex.c: builtins of complex numbers.
 *
 * Most functions with complex arguments are real functions of their parts. `codes` says which: what
 * moves or adds elements works on each part alone (and needs no row); products of two arguments are
 * made of four real ones; elementary functions have formulas of their own. What only complex
 * numbers have is FN(...), as everywhere. */
#include "model/complex.h"
#include "model/fun.h"

#include <math.h>

/* ---- elementary functions -------------------------------------------------------------------- */

typedef Parts Elementary(Eval *E, Parts z);

static const double LN10 = 2.302585092994045684;

static Value *modulus(Eval *E, Parts z) { return map2(E, IR_HYPOT, z.re, z.im); }
static Value *phase(Eval *E, Parts z) { return map2(E, IR_ATAN2, z.im, z.re); }
static Parts times_i(Eval *E, Parts z) { return (Parts){M(NEG, z.im), z.re}; }
static Parts times_minus_i(Eval *E, Parts z) { return (Parts){z.im, M(NEG, z.re)}; }
static Parts minus(Eval *E, Parts z) { return (Parts){M(NEG, z.re), M(NEG, z.im)}; }
static Parts plus_one(Eval *E, Parts z) { return (Parts){ADD(NUM(1), z.re), z.im}; }
static Parts one_minus(Eval *E, Parts z) { return plus_one(E, minus(E, z)); }
static Parts squared(Eval *E, Parts z) { return complex_multiply(E, z, z); }
static Parts polar(Eval *E, Value *r, Value *angle) {
  return (Parts){MUL(r, M(COS, angle)), MUL(r, M(SIN, angle))};
}

static Parts z_exp(Eval *E, Parts z) { return polar(E, M(EXP, z.re), z.im); }
static Parts z_log(Eval *E, Parts z) { return (Parts){M(LOG, modulus(E, z)), phase(E, z)}; }
static Parts z_log10(Eval *E, Parts z) { return complex_scale(E, z_log(E, z), 1 / LN10); }
static Parts z_sqrt(Eval *E, Parts z) {
  return polar(E, M(SQRT, modulus(E, z)), MUL(NUM(0.5), phase(E, z)));
}
static Parts z_sin(Eval *E, Parts z) {
  return (Parts){MUL(M(SIN, z.re), M(COSH, z.im)), MUL(M(COS, z.re), M(SINH, z.im))};
}
static Parts z_cos(Eval *E, Parts z) {
  return (Parts){MUL(M(COS, z.re), M(COSH, z.im)), M(NEG, MUL(M(SIN, z.re), M(SINH, z.im)))};
}
/* (sin 2x + i sinh 2y) / (cos 2x + cosh 2y) = (sin 2x sech 2y + i tanh 2y) / (1 + cos 2x sech 2y),
 * which does not overflow */
static Parts z_tan(Eval *E, Parts z) {
  Value *x = MUL(NUM(2), z.re), *y = MUL(NUM(2), z.im), *sech = DIV(NUM(1), M(COSH, y));
  Value *below = ADD(NUM(1), MUL(M(COS, x), sech));
  return (Parts){DIV(MUL(M(SIN, x), sech), below), DIV(M(TANH, y), below)};
}
static Parts z_sinh(Eval *E, Parts z) { return times_minus_i(E, z_sin(E, times_i(E, z))); }
static Parts z_cosh(Eval *E, Parts z) { return z_cos(E, times_i(E, z)); }
static Parts z_tanh(Eval *E, Parts z) { return times_minus_i(E, z_tan(E, times_i(E, z))); }
/* log(z + sqrt(z^2 + 1)) */
static Parts z_asinh(Eval *E, Parts z) {
  return z_log(E, complex_add(E, z, z_sqrt(E, plus_one(E, squared(E, z)))));
}
/* log(z + sqrt(z + 1) sqrt(z - 1)) */
static Parts z_acosh(Eval *E, Parts z) {
  Parts below = {SUB(z.re, NUM(1)), z.im};
  Parts root = complex_multiply(E, z_sqrt(E, plus_one(E, z)), z_sqrt(E, below));
  return z_log(E, complex_add(E, z, root));
}
/* (log(1 + z) - log(1 - z)) / 2 */
static Parts z_atanh(Eval *E, Parts z) {
  Parts up = z_log(E, plus_one(E, z)), down = z_log(E, one_minus(E, z));
  return complex_scale(E, complex_add(E, up, minus(E, down)), 0.5);
}
static Parts z_asin(Eval *E, Parts z) { return times_minus_i(E, z_asinh(E, times_i(E, z))); }
static Parts z_acos(Eval *E, Parts z) {
  Parts s = z_asin(E, z);
  return (Parts){SUB(NUM(M_PI_2), s.re), M(NEG, s.im)};
}
static Parts z_atan(Eval *E, Parts z) { return times_minus_i(E, z_atanh(E, times_i(E, z))); }

/* a^b = exp(b log a), and 0 where a is */
static Parts z_pow(Eval *E, Parts a, Parts b) {
  Value *zero = map2(E, IR_EQ, modulus(E, a), NUM(0));
  Parts safe = {map3(E, IR_SELECT, zero, NUM(1), a.re), a.im};
  Parts p = z_exp(E, complex_multiply(E, b, z_log(E, safe)));
  return (Parts){map3(E, IR_SELECT, zero, NUM(0), p.re), map3(E, IR_SELECT, zero, NUM(0), p.im)};
}

static bool is_number(const Value *v, double x) {
  return v->known && !v->ndims && !v->axis && v->v[0] == x;
}

static Value *power(Eval *E, Parts a, Parts b) {
  bool two = is_number(b.re, 2) && is_number(b.im, 0);
  Parts p = two ? squared(E, a) : z_pow(E, a, b);
  return complex_from(E, p.re, p.im);
}

/* ---- operators ------------------------------------------------------------------------------- */

/* re re - im im, re im + im re by the real operator */
static Value *bilinear(Eval *E, Operator op, Parts a, Parts b, Loc loc) {
  Value *re = SUB(eval_binary(E, op, a.re, b.re, loc), eval_binary(E, op, a.im, b.im, loc));
  Value *im = ADD(eval_binary(E, op, a.re, b.im, loc), eval_binary(E, op, a.im, b.re, loc));
  return complex_from(E, re, im);
}

static Value *as_condition(Value *v) {
  v->kind = TY_INT;
  return v;
}

static Value *equal(Eval *E, Parts a, Parts b) {
  return as_condition(MUL(map2(E, IR_EQ, a.re, b.re), map2(E, IR_EQ, a.im, b.im)));
}

/* X A = B: (Xr, Xi) (Ar Ai; -Ai Ar) = (Br, Bi), which is real. */
static Value *right_division(Eval *E, Parts b, Parts a, Loc loc) {
  const Expr call = {.kind = EX_CALL, .loc = loc, .name = "mdivide_right"};
#define APPEND(how, x, y) eval_function(E, FUN_append_##how, (Value *[]){x, y}, 2, &call)
  Value *A = APPEND(row, APPEND(col, a.re, a.im), APPEND(col, M(NEG, a.im), a.re));
  Value *X = eval_function(E, FUN_mdivide_right, (Value *[]){APPEND(col, b.re, b.im), A}, 2, &call);
#undef APPEND
  int32_t n = a.re->dims[0], size = b.re->n, *left = NEW_ARRAY(E->arena, int32_t, size + 1),
          *right = NEW_ARRAY(E->arena, int32_t, size + 1);
  for (int32_t k = 0; k < size; k++) {
    left[k] = k / n * 2 * n + k % n;
    right[k] = left[k] + n;
  }
  return complex_from(E, value_take(E, X, b.re, NULL, left), value_take(E, X, b.re, NULL, right));
}

Value *complex_binary(Eval *E, Operator op, Value *x, Value *y, Loc loc) {
  Parts a = complex_parts(E, x), b = complex_parts(E, y), z;
  switch (op) {
  case OP_ADD:
  case OP_SUB:
    return complex_from(E, eval_binary(E, op, a.re, b.re, loc),
                        eval_binary(E, op, a.im, b.im, loc));
  case OP_MUL:
  case OP_ELT_MUL: return bilinear(E, op, a, b, loc);
  case OP_DIV:
    if (a.re->ndims && b.re->ndims) return right_division(E, a, b, loc);
    __attribute__((fallthrough));
  case OP_ELT_DIV:
    eval_binary(E, OP_ELT_DIV, a.re, b.re, loc); /* for its check of sizes */
    z = complex_divide(E, a, b);
    return complex_from(E, z.re, z.im);
  case OP_POW:
  case OP_ELT_POW: return power(E, a, b);
  case OP_EQ: return equal(E, a, b);
  case OP_NE: return as_condition(M(NOT, equal(E, a, b)));
  default: ctx_fail(E->ctx, PVI_PROGRAM, loc, "this operator cannot be applied to complex numbers");
  }
}

/* ---- builtins that real numbers have too ----------------------------------------------------- */

typedef enum { BY_PARTS, ELEMENTARY, BILINEAR, OWN } Way;

typedef struct {
  Way way;
  Elementary *f;
  FunCode *own;
} Row;

/* The first of the real calls decides whether sizes fit. */
static Value *real_call(Eval *E, FunId id, Value *const *args, int n, const Expr *call) {
  Value **copy = NEW_ARRAY(E->arena, Value *, n + 1);
  for (int k = 0; k < n; k++) copy[k] = args[k];
  const Expr real = {.kind = EX_CALL, .loc = fun_place(call), .name = stan_fun_names[id]};
  return eval_function(E, id, copy, n, &real);
}

static Value *real_call2(Eval *E, FunId id, Value *a, Value *b, const Expr *call) {
  return real_call(E, id, (Value *[]){a, b}, 2, call);
}

/* Whole numbers are sizes and places, but for these functions. */
static bool ints_are_values(FunId id) {
  return id == FUN_append_row || id == FUN_append_col || id == FUN_add_diag;
}

static Value *by_parts(Eval *E, FunId id, Value **a, int n, const Expr *call) {
  Value **re = NEW_ARRAY(E->arena, Value *, n + 1), **im = NEW_ARRAY(E->arena, Value *, n + 1);
  for (int k = 0; k < n; k++) {
    bool whole = a[k]->kind == TY_INT && !ints_are_values(id);
    Parts p = whole ? (Parts){a[k], a[k]} : complex_parts(E, a[k]);
    re[k] = p.re, im[k] = p.im;
  }
  Value *x = real_call(E, id, re, n, call);
  if (call && call->type && call->type->kind == TY_INT) return x; /* a size */
  return complex_from(E, x, real_call(E, id, im, n, call));
}

/* f(a, b), or f(conj a, b) */
static Value *products(Eval *E, FunId id, Parts a, Parts b, const Expr *call, bool conjugate) {
  if (conjugate) a.im = M(NEG, a.im);
  Value *re = SUB(real_call2(E, id, a.re, b.re, call), real_call2(E, id, a.im, b.im, call));
  Value *im = ADD(real_call2(E, id, a.re, b.im, call), real_call2(E, id, a.im, b.re, call));
  return complex_from(E, re, im);
}

static FN(z_abs) { return modulus(E, complex_parts(E, a[0])); }
static FN(z_pow) { return power(E, complex_parts(E, a[0]), complex_parts(E, a[1])); }
static FN(z_multiply) { return complex_binary(E, OP_MUL, a[0], a[1], fun_place(call)); }
static FN(z_divide) { return complex_binary(E, OP_DIV, a[0], a[1], fun_place(call)); }
static FN(z_elt_multiply) { return complex_binary(E, OP_ELT_MUL, a[0], a[1], fun_place(call)); }
static FN(z_elt_divide) { return complex_binary(E, OP_ELT_DIV, a[0], a[1], fun_place(call)); }
static FN(z_logical_eq) { return complex_binary(E, OP_EQ, a[0], a[1], fun_place(call)); }
static FN(z_logical_neq) { return complex_binary(E, OP_NE, a[0], a[1], fun_place(call)); }
static FN(z_mdivide_right) {
  return right_division(E, complex_parts(E, a[0]), complex_parts(E, a[1]), fun_place(call));
}

/* A vector's conjugate is taken, an array's is not. */
static FN(z_dot_product) {
  return products(E, FUN_dot_product, complex_parts(E, a[0]), complex_parts(E, a[1]), call,
                  a[0]->array_dims == 0);
}

/* |z|^2 summed, with no imaginary part. */
static Value *sizes(Eval *E, FunId id, Value *v, const Expr *call) {
  Parts z = complex_parts(E, v);
  Value *re = ADD(real_call(E, id, &z.re, 1, call), real_call(E, id, &z.im, 1, call));
  return complex_from(E, re, value_known(E, re, NULL));
}
static FN(z_dot_self) { return sizes(E, FUN_dot_self, a[0], call); }
static FN(z_rows_dot_self) { return sizes(E, FUN_rows_dot_self, a[0], call); }
static FN(z_columns_dot_self) { return sizes(E, FUN_columns_dot_self, a[0], call); }

static FN(z_prod) {
  Parts z = complex_parts(E, a[0]), p = {NUM(1), NUM(0)};
  for (int32_t k = 0; k < z.re->n; k++)
    p = complex_multiply(E, p, (Parts){value_element(E, z.re, k), value_element(E, z.im, k)});
  return complex_from(E, p.re, p.im);
}

/* Above the diagonal is the conjugate of what is below. */
static FN(z_symmetrize_from_lower_tri) {
  Parts z = complex_parts(E, a[0]);
  Value *re = real_call(E, FUN_symmetrize_from_lower_tri, &z.re, 1, call);
  int32_t K = z.im->dims[0];
  Value *sign = value_known(E, z.im, NULL),
        *im = real_call(E, FUN_symmetrize_from_lower_tri, &z.im, 1, call);
  for (int32_t k = 0; k < z.im->n; k++) sign->v[k] = k / K == k % K ? 0 : k / K > k % K ? 1 : -1;
  return complex_from(E, re, MUL(sign, im));
}

/* clang-format off */
static const Row codes[FUN_COUNT] = {
#define FORMULA(id) [FUN_##id] = {ELEMENTARY, z_##id, NULL},
    FORMULA(exp) FORMULA(log) FORMULA(log10) FORMULA(sqrt) FORMULA(sin) FORMULA(cos) FORMULA(tan)
    FORMULA(asin) FORMULA(acos) FORMULA(atan) FORMULA(sinh) FORMULA(cosh) FORMULA(tanh)
    FORMULA(asinh) FORMULA(acosh) FORMULA(atanh)
#define PRODUCT(id) [FUN_##id] = {BILINEAR, NULL, NULL},
    PRODUCT(rows_dot_product) PRODUCT(columns_dot_product)
    PRODUCT(diag_pre_multiply) PRODUCT(diag_post_multiply)
#define OTHERWISE(id) [FUN_##id] = {OWN, NULL, fn_z_##id},
    OTHERWISE(abs) OTHERWISE(pow) OTHERWISE(multiply) OTHERWISE(divide) OTHERWISE(elt_multiply)
    OTHERWISE(elt_divide) OTHERWISE(logical_eq) OTHERWISE(logical_neq) OTHERWISE(mdivide_right)
    OTHERWISE(dot_product) OTHERWISE(dot_self) OTHERWISE(rows_dot_self) OTHERWISE(columns_dot_self)
    OTHERWISE(prod) OTHERWISE(symmetrize_from_lower_tri) OTHERWISE(singular_values) OTHERWISE(svd)
    OTHERWISE(svd_U) OTHERWISE(svd_V) OTHERWISE(eigenvalues_sym) OTHERWISE(eigenvectors_sym)
    OTHERWISE(eigendecompose_sym)
#define ONLY(id) [FUN_##id] = {OWN, NULL, fn_##id},
    ONLY(arg) ONLY(norm) ONLY(conj) ONLY(proj) ONLY(get_real) ONLY(get_imag) ONLY(to_complex)
    ONLY(fft) ONLY(inv_fft) ONLY(fft2) ONLY(inv_fft2) ONLY(eigenvalues) ONLY(eigenvectors)
    ONLY(eigendecompose) ONLY(complex_schur_decompose) ONLY(complex_schur_decompose_t)
    ONLY(complex_schur_decompose_u)
};
/* clang-format on */

Value *complex_function(Eval *E, FunId id, Value **a, int n, const Expr *call) {
  const Row *row = &codes[id];
  if (row->way == BY_PARTS) return by_parts(E, id, a, n, call);
  if (row->way == OWN) return row->own(E, a, n, call);
  Parts x = complex_parts(E, a[0]), z;
  if (row->way == BILINEAR) {
    Parts y = complex_parts(E, a[1]);
    return products(E, id, x, y, call, false);
  }
  z = row->f(E, x);
  return complex_from(E, z.re, z.im);
}

/* ---- what only complex numbers have ---------------------------------------------------------- */

FN(arg) { return phase(E, complex_parts(E, a[0])); }
FN(norm) {
  Parts z = complex_parts(E, a[0]);
  return ADD(M(SQUARE, z.re), M(SQUARE, z.im));
}
FN(conj) {
  Parts z = complex_parts(E, a[0]);
  return complex_from(E, z.re, M(NEG, z.im));
}
FN(get_real) { return complex_parts(E, a[0]).re; }
FN(get_imag) { return complex_parts(E, a[0]).im; }
FN(to_complex) { return complex_from(E, n > 0 ? a[0] : NUM(0), n > 1 ? a[1] : NUM(0)); }
FN(polar) {
  Parts z = polar(E, a[0], a[1]);
  return complex_from(E, z.re, z.im);
}
/* All infinities are one: inf + 0i. */
FN(proj) {
  Parts z = complex_parts(E, a[0]);
  Value *infinite = map2(E, IR_EQ, modulus(E, z), NUM(INFINITY));
  Value *re = map3(E, IR_SELECT, infinite, NUM(INFINITY), z.re);
  return complex_from(E, re, map3(E, IR_SELECT, infinite, NUM(0), z.im));
}
