/* fun_solve.c: systems of equations f(x, ...) = 0, by Newton's method with differences for its
 * matrix.
 *
 * All draws make the same number of steps: first ones that may be shortened, as the residual says,
 * then whole ones. The matrix need not be exact: at the solution every further step multiplies the
 * error of x, and of its derivatives by the parameters, by the matrix's relative error. Where the
 * residual does not vanish, x is nan: trouble of that draw. */
#include "model/fun.h"
#include "model/linear.h"

#include <math.h>

enum { CAREFUL = 24, WHOLE = 5, LENGTHS = 3 };
static const double STEP = 1e-6, SHORTER = 0.2, RESIDUAL = 1e-6;

typedef struct {
  const FunDef *f;
  Value **rest;
  int nrest;
  int32_t K, rows; /* unknowns, points */
  Value *points;   /* rows x K */
  Value *out;      /* f at each, rows x K */
  Loc loc;
} System;

static Value *residual(Eval *E, const System *s, Value *x) {
  Value **args = NEW_ARRAY(E->arena, Value *, s->nrest + 1);
  args[0] = x;
  for (int k = 0; k < s->nrest; k++) args[k + 1] = s->rest[k];
  Value *v = eval_user(E, s->f, args, s->loc);
  if (v->n != s->K)
    ctx_fail(E->ctx, PVI_PROGRAM, s->loc, "%d equations for %d unknowns", v->n, s->K);
  return v;
}

static void all_points(Eval *E, void *self) {
  System *s = self;
  int32_t n = s->rows * s->K, *index = NEW_ARRAY(E->arena, int32_t, n);
  for (int32_t e = 0; e < n; e++) index[e] = e;
  Value *x = value_take(E, s->points, value_shape(E, TY_VECTOR, 0, 1, &s->K), E->axis, index);
  Node each = value_node_total(E, value_on_axis(E, residual(E, s, x), E->axis), E->axis, s->K);
  const Value *shape = ir_size(E->graph, each) == 1 ? NUM(0) : s->points;
  s->out = ADD(value_of_node(E, shape, NULL, each), value_vector(E, n));
}

static Value *residuals(Eval *E, System *s, Value *points, int32_t rows) {
  s->points = points, s->rows = rows;
  const char *why;
  if (!E->lift && !eval_is_conditional(E) && lift_body(E, rows, NULL, all_points, s, &why))
    return s->out;
  Value **parts = NEW_ARRAY(E->arena, Value *, rows);
  for (int32_t r = 0; r < rows; r++)
    parts[r] = residual(E, s, value_slice(E, points, r * s->K, s->K));
  return value_join(E, parts, rows, points);
}

/* x, and x with each of its elements moved by h: (K + 1) x K */
static Value *around(Eval *E, Value *x, Value *h) {
  int32_t K = x->n, n = K * (K + 1), *index = NEW_ARRAY(E->arena, int32_t, n);
  const Value *shape = value_shape(E, TY_VECTOR, 0, 1, &n);
  Value *moved = value_known(E, shape, NULL);
  for (int32_t e = 0; e < n; e++) {
    index[e] = e % K;
    moved->v[e] = e / K == e % K + 1;
  }
  return map3(E, IR_FMA, moved, value_take(E, h, shape, NULL, index),
              value_take(E, x, shape, NULL, index));
}

/* J^-1 f at x: J_ik = (f_i(x + h_k e_k) - f_i(x)) / h_k */
static Value *newton_step(Eval *E, System *s, Value *x) {
  int32_t K = s->K, *moved = NEW_ARRAY(E->arena, int32_t, K * K),
          *own = NEW_ARRAY(E->arena, int32_t, K * K), *by = NEW_ARRAY(E->arena, int32_t, K * K);
  Value *h = MUL(NUM(STEP), ADD(NUM(1), M(ABS, x))), *F = residuals(E, s, around(E, x, h), K + 1);
  const Value *square = value_shape(E, TY_MATRIX, 0, 2, (int32_t[]){K, K});
  for (int32_t e = 0; e < K * K; e++) {
    moved[e] = (e % K + 1) * K + e / K;
    own[e] = e / K;
    by[e] = e % K;
  }
  Value *rise = SUB(value_take(E, F, square, NULL, moved), value_take(E, F, square, NULL, own));
  return linear_divide(E, DIV(rise, value_take(E, h, square, NULL, by)), value_slice(E, F, 0, K));
}

static Value *size_of(Eval *E, Value *f) {
  Value *size = value_sum(E, M(SQUARE, f));
  return map3(E, IR_SELECT, map2(E, IR_EQ, size, size), size, NUM(INFINITY));
}

/* x - dx, or a shorter step where that leaves a smaller residual */
static Value *careful_step(Eval *E, System *s, Value *x, Value *dx) {
  int32_t K = s->K, n = LENGTHS * K, *index = NEW_ARRAY(E->arena, int32_t, n);
  const Value *shape = value_shape(E, TY_VECTOR, 0, 1, &n);
  Value *length = value_known(E, shape, NULL);
  for (int32_t e = 0; e < n; e++) {
    index[e] = e % K;
    length->v[e] = pow(SHORTER, e / K);
  }
  Value *points = map3(E, IR_FNMA, length, value_take(E, dx, shape, NULL, index),
                       value_take(E, x, shape, NULL, index));
  Value *F = residuals(E, s, points, LENGTHS), *best = value_slice(E, points, 0, K),
        *least = size_of(E, value_slice(E, F, 0, K));
  for (int32_t r = 1; r < LENGTHS; r++) {
    Value *size = size_of(E, value_slice(E, F, r * K, K)), *better = map2(E, IR_LT, size, least);
    best = map3(E, IR_SELECT, better, value_slice(E, points, r * K, K), best);
    least = map2(E, IR_FMIN, size, least);
  }
  return best;
}

static Value *solve(Eval *E, const Expr *call, Value *x, Value **rest, int nrest,
                    double tolerance) {
  System s = {
      .f = fun_function(E, call), .rest = rest, .nrest = nrest, .K = x->n, .loc = call->loc};
  if (!x->n) return x;
  for (int k = 0; k < CAREFUL; k++) x = careful_step(E, &s, x, newton_step(E, &s, x));
  for (int k = 0; k < WHOLE; k++) x = SUB(x, newton_step(E, &s, x));
  Value *left = M(SQRT, size_of(E, residuals(E, &s, x, 1)));
  return map3(E, IR_SELECT, map2(E, IR_LE, left, NUM(tolerance)), x, NUM(NAN));
}

/* (f, x, theta, x_r, x_i [, relative tolerance, function tolerance, steps]) */
FN(algebra_solver) {
  if (n > 5) fun_need_known(E, a[6], call);
  return solve(E, call, a[1], a + 2, 3, n > 5 ? a[6]->v[0] : RESIDUAL);
}
/* (f, x, ...) */
FN(solve_newton) { return solve(E, call, a[1], a + 2, n - 2, RESIDUAL); }
/* (f, x, scaling step, function tolerance, steps, ...) */
FN(solve_newton_tol) {
  fun_need_known(E, a[3], call);
  return solve(E, call, a[1], a + 5, n - 5, a[3]->v[0]);
}
