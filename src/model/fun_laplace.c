/* fun_laplace.c: Laplace's approximation of the integral of a likelihood over a latent vector theta
 * ~ normal(m, K).
 *
 * At the mode, theta = m + K g with g the gradient of the log likelihood l, and W = -l'' in blocks
 * along its diagonal,
 *
 *   log integral = l(theta) - (theta - m)' g / 2 - log det(I + K W) / 2,
 *
 * and the latent vector is about normal(theta, (I + K W)^-1 K). Newton's steps are
 * (I + K W) (theta' - m) = K (W (theta - m) + g), shortened where they are long; all draws make as
 * many. Since they converge quadratically, derivatives by the parameters come out of the last ones.
 *
 * The three families have their derivatives in closed form. A likelihood of the user's is evaluated
 * at points around theta, and g and W are differences. */
#include "model/dist.h"
#include "model/fun.h"
#include "model/linear.h"

#include <math.h>

enum { STEPS = 20 };
static const double LONGEST = 4, STEP = 1e-3;

typedef struct {
  Value *l, *g, *W; /* W: K x K */
} Derivatives;

typedef struct Latent Latent;
struct Latent {
  const LaplaceCall *what;
  const Expr *call;
  Value **args;
  int32_t n, block;
  Value *K, *mean, *start;
  /* a family: outcomes, their number and what they sum to in every place */
  Value *y, *precision;
  int32_t *place; /* of each outcome in the latent vector */
  /* a likelihood of the user's */
  const FunDef *f;
};

/* ---- families -------------------------------------------------------------------------------- */

/* The sum of one number per outcome in every place. */
static Value *by_place(Eval *E, const Latent *s, Value *v) {
  int32_t rows = s->y->n, dims[2] = {s->n, rows};
  Value *A = value_known(E, value_shape(E, TY_MATRIX, 0, 2, dims), NULL);
  for (int32_t k = 0; k < rows; k++) A->v[s->place[k] * rows + k] = 1;
  return value_matmul(E, A, v, (MatrixProduct){s->n, rows, 1},
                      value_shape(E, TY_VECTOR, 0, 1, &s->n));
}

static Value *diagonal_matrix(Eval *E, Value *w) {
  return eval_function(E, FUN_diag_matrix, &w, 1, NULL);
}

/* l, and its first two derivatives by the predictor eta, of every outcome. */
static Derivatives family_at(Eval *E, const Latent *s, Value *theta) {
  const Value *shape = value_shape(E, TY_VECTOR, 0, 1, &s->y->n);
  Value *eta = value_take(E, theta, shape, NULL, s->place), *y = s->y, *l, *g, *w;
  if (s->what->family == LAPLACE_POISSON_LOG) {
    Value *rate = M(EXP, eta);
    l = SUB(SUB(MUL(y, eta), rate), M(LGAMMA, ADD(y, NUM(1))));
    g = SUB(y, rate);
    w = rate;
  } else if (s->what->family == LAPLACE_BERNOULLI_LOGIT) {
    Value *p = M(INV_LOGIT, eta);
    l = SUB(MUL(y, eta), M(LOG1P_EXP, eta));
    g = SUB(y, p);
    w = MUL(p, SUB(NUM(1), p));
  } else { /* mean mu = e^eta, precision phi: l' = (y - mu) phi / (mu + phi) */
    Value *phi = s->precision, *both = map2(E, IR_LOG_SUM_EXP2, eta, M(LOG, phi));
    Value *share = M(EXP, SUB(M(LOG, phi), both)), *rest = M(EXP, SUB(eta, both));
    Value *sum = ADD(y, phi);
    l = dist_neg_binomial_2(E, y, eta, phi);
    g = SUB(y, MUL(sum, rest));
    w = MUL(MUL(sum, share), rest);
  }
  return (Derivatives){value_sum(E, l), by_place(E, s, g), diagonal_matrix(E, by_place(E, s, w))};
}

/* ---- likelihoods of the user's --------------------------------------------------------------- */

static Value *likelihood(Eval *E, const Latent *s, Value *theta) {
  const Value *tuple = s->args[1];
  Value **a = NEW_ARRAY(E->arena, Value *, tuple->nitems + 1);
  a[0] = theta;
  for (int k = 0; k < tuple->nitems; k++) a[k + 1] = tuple->items[k];
  return eval_user(E, s->f, a, s->call->loc);
}

/* theta with STEP added to element i, and to element j, so many times each. */
static Value *moved(Eval *E, Value *theta, int32_t i, double a, int32_t j, double b) {
  Value *d = value_known(E, theta, NULL);
  d->v[i] += a * STEP;
  d->v[j] += b * STEP;
  return ADD(theta, d);
}

/* The mixed difference of l in i and j over their steps. */
static Value *mixed(Eval *E, const Latent *s, Value *theta, int32_t i, int32_t j) {
  Value *pp = likelihood(E, s, moved(E, theta, i, 1, j, 1)),
        *pm = likelihood(E, s, moved(E, theta, i, 1, j, -1)),
        *mp = likelihood(E, s, moved(E, theta, i, -1, j, 1)),
        *mm = likelihood(E, s, moved(E, theta, i, -1, j, -1));
  return MUL(NUM(0.25 / (STEP * STEP)), SUB(ADD(pp, mm), ADD(pm, mp)));
}

static Derivatives own_at(Eval *E, const Latent *s, Value *theta) {
  int32_t n = s->n;
  Value *l = likelihood(E, s, theta), **g = NEW_ARRAY(E->arena, Value *, n + 1),
        **W = NEW_ARRAY(E->arena, Value *, n * n + 1), *zero = NUM(0);
  for (int32_t e = 0; e < n * n; e++) W[e] = zero;
  for (int32_t i = 0; i < n; i++) {
    Value *up = likelihood(E, s, moved(E, theta, i, 1, i, 0)),
          *down = likelihood(E, s, moved(E, theta, i, -1, i, 0));
    g[i] = MUL(NUM(0.5 / STEP), SUB(up, down));
    W[i * n + i] = MUL(NUM(1 / (STEP * STEP)), SUB(MUL(NUM(2), l), ADD(up, down)));
    for (int32_t j = i - i % s->block; j < i; j++)
      W[i * n + j] = W[j * n + i] = M(NEG, mixed(E, s, theta, i, j));
  }
  return (Derivatives){l, value_join(E, g, n, value_shape(E, TY_VECTOR, 0, 1, &n)),
                       value_join(E, W, n * n, value_shape(E, TY_MATRIX, 0, 2, (int32_t[]){n, n}))};
}

/* ---- the mode -------------------------------------------------------------------------------- */

static Derivatives derivatives_at(Eval *E, const Latent *s, Value *theta) {
  return s->f ? own_at(E, s, theta) : family_at(E, s, theta);
}

static Value *times(Eval *E, const Latent *s, Value *A, Value *v) {
  return value_matmul(E, A, v, (MatrixProduct){s->n, s->n, 1}, v);
}

/* I + K W */
static Value *system_of(Eval *E, const Latent *s, Value *W) {
  Value *KW = value_matmul(E, s->K, W, (MatrixProduct){s->n, s->n, s->n}, s->K);
  return ADD(linear_identity(E, s->n), KW);
}

static Value *find_mode(Eval *E, const Latent *s) {
  Value *z = SUB(s->start, s->mean); /* theta - m */
  for (int k = 0; k < STEPS; k++) {
    Derivatives d = derivatives_at(E, s, ADD(s->mean, z));
    Value *rhs = times(E, s, s->K, ADD(times(E, s, d.W, z), d.g));
    Value *step = SUB(linear_divide(E, system_of(E, s, d.W), rhs), z);
    Value *size = M(SQRT, ADD(value_sum(E, M(SQUARE, step)), NUM(1e-300)));
    Value *most = NUM(LONGEST * sqrt((double)s->n));
    z = ADD(z, MUL(map2(E, IR_FMIN, NUM(1), DIV(most, size)), step));
  }
  return ADD(s->mean, z);
}

/* ---- what is asked for ----------------------------------------------------------------------- */

static Value *marginal(Eval *E, const Latent *s) {
  Value *theta = find_mode(E, s);
  Derivatives d = derivatives_at(E, s, theta);
  Value *A = system_of(E, s, d.W), *quadratic = value_sum(E, MUL(SUB(theta, s->mean), d.g));
  Value *log_det = eval_function(E, FUN_log_determinant, &A, 1, NULL);
  return eval_as_likelihood(E, SUB(d.l, MUL(NUM(0.5), ADD(quadratic, log_det))));
}

/* The mode, and the factor of its covariance (I + K W)^-1 K. */
static Value *solution(Eval *E, const Latent *s) {
  Value *theta = find_mode(E, s);
  Derivatives d = derivatives_at(E, s, theta);
  Value *V = linear_divide(E, system_of(E, s, d.W), s->K);
  V = MUL(NUM(0.5), ADD(V, value_transpose(E, V)));
  return value_tuple(E, (Value *[]){theta, linear_cholesky(E, V, s->call->name, s->call->loc)}, 2);
}

static Value *draw(Eval *E, const Latent *s) {
  if (!E->rng)
    ctx_fail(E->ctx, PVI_PROGRAM, s->call->loc,
             "%s draws random numbers, which is not possible here", s->call->name);
  Value *both = solution(E, s), *z = value_vector(E, s->n);
  for (int32_t k = 0; k < s->n; k++) z->v[k] = rngs_normal(E->rng);
  return ADD(both->items[0], times(E, s, both->items[1], z));
}

/* ---- arguments ------------------------------------------------------------------------------- */

static void take_outcomes(Eval *E, Latent *s) {
  const LaplaceFamily family = s->what->family;
  Value *index = s->args[1];
  fun_need_known(E, index, s->call);
  s->y = value_reshape(E, s->args[0], TY_VECTOR, 0, 1, &s->args[0]->n);
  s->precision = family == LAPLACE_NEG_BINOMIAL_2_LOG ? s->args[2] : NULL;
  s->mean = s->args[family == LAPLACE_NEG_BINOMIAL_2_LOG ? 3 : 2];
  s->place = NEW_ARRAY(E->arena, int32_t, index->n + 1);
  bool fits = index->n == s->y->n && s->mean->n == s->n &&
              (!s->precision || s->precision->n == 1 || s->precision->n == s->y->n);
  for (int32_t k = 0; fits && k < index->n; k++) {
    fits = index->v[k] >= 1 && index->v[k] <= s->n;
    s->place[k] = (int32_t)index->v[k] - 1;
  }
  if (!fits)
    ctx_fail(
        E->ctx, PVI_DATA, s->call->loc,
        "%s: every outcome needs an index from 1 to %d, the size of the latent vector, and the "
        "prior mean has that size",
        s->call->name, s->n);
}

static void take_covariance(Eval *E, Latent *s, int at) {
  const Value *tuple = s->args[at + 1];
  Value **a = NEW_ARRAY(E->arena, Value *, tuple->nitems + 1);
  for (int k = 0; k < tuple->nitems; k++) a[k] = tuple->items[k];
  s->K = eval_user(E, s->call->args[at]->user, a, s->call->loc);
  s->n = s->K->dims[0];
  if (s->K->dims[1] != s->n || !s->n)
    ctx_fail(E->ctx, PVI_DATA, s->call->loc, "%s: the covariance is %d x %d", s->call->name, s->n,
             s->K->dims[1]);
}

Value *eval_laplace(Eval *E, Value **args, const Expr *call) {
  LaplaceCall what;
  if (E->lift) lift_bail(E, "a Laplace approximation is made");
  laplace_named(call->name, &what);
  int block = laplace_block(what.family);
  Latent s = {.what = &what, .call = call, .args = args};
  take_covariance(E, &s, block + 1);
  s.block = fun_size(E, args[block], call);
  if (s.block < 1 || s.n % s.block)
    ctx_fail(E->ctx, PVI_DATA, call->loc, "%s: blocks of %d do not divide a latent vector of %d",
             call->name, s.block, s.n);
  s.mean = value_vector(E, s.n);
  if (what.family == LAPLACE_ANY)
    s.f = call->args[0]->user;
  else
    take_outcomes(E, &s);
  s.start = what.tol ? args[block + 3]->items[0] : s.mean;
  if (s.start->n != s.n)
    ctx_fail(E->ctx, PVI_DATA, call->loc, "%s: the start has %d elements, the latent vector %d",
             call->name, s.start->n, s.n);
  return what.what == LAPLACE_MARGINAL ? marginal(E, &s)
         : what.what == LAPLACE_SOLVE  ? solution(E, &s)
                                       : draw(E, &s);
}

/* (start, tolerance, steps, solver, steps of a line search, whether to try others) */
FN(generate_laplace_options) {
  bool given = a[0]->ndims > 0;
  Value *start = given ? a[0] : value_vector(E, fun_size(E, a[0], call));
  return value_tuple(E,
                     (Value *[]){start, NUM(1.5e-8), value_int(E, 500), value_int(E, 1),
                                 value_int(E, 500), value_int(E, 1)},
                     6);
}
