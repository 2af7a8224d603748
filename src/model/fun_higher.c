/* fun_higher.c: functions of functions: sums and maps over slices; chains of hidden states. */
#include "model/fun.h"
#include "num/special.h"

#include <math.h>
#include <string.h>

/* ---- reduce_sum ------------------------------------------------------------------------------ */

/* A call reduce_sum(f, x, grainsize, ...): a[1] is x, what follows the grain size goes to f. */
typedef struct {
  const Expr *call;
  const FunDef *f;
  Value **a;
} Slices;

/* f(slice, start, end, ...) */
static Value *partial_sum(Eval *E, const Slices *s, Value *slice, Value *start, Value *end) {
  int nrest = s->call->nargs - 3;
  Value **args = NEW_ARRAY(E->arena, Value *, nrest + 3);
  args[0] = slice, args[1] = start, args[2] = end;
  for (int k = 0; k < nrest; k++) args[k + 3] = s->a[k + 3];
  return eval_user(E, s->f, args, s->call->loc);
}

/* As a value: one slice. */
FN(reduce_sum) {
  if (!a[1]->dims[0]) return NUM(0);
  Slices all = {call, fun_function(E, call), a};
  return partial_sum(E, &all, a[1], value_int(E, 1), value_int(E, a[1]->dims[0]));
}

/* As an increment of the log density, where slices are independent by contract, every element is a
 * slice, and an observation. */
static void add_slice(Eval *E, const Slices *s, Value *at, const Axis *axis, const int32_t *index) {
  Value *x = s->a[1], shape = *x;
  int32_t each = x->n / x->dims[0], rows = axis ? axis->rows : 1,
          *elements = NEW_ARRAY(E->arena, int32_t, rows * each);
  shape.dims[0] = 1;
  shape.n = each;
  for (int32_t e = 0; e < rows * each; e++) elements[e] = index[e / each] * each + e % each;
  Value *slice = value_take(E, x, &shape, axis, elements);
  Value *v = partial_sum(E, s, slice, at, at);
  if (eval_is_density_name(s->f->name) && x->known) v = eval_as_likelihood(E, v);
  eval_add_target(E, v, s->call->loc, "reduce_sum", NULL);
}

static void all_slices(Eval *E, void *self) {
  int32_t *index = NEW_ARRAY(E->arena, int32_t, E->axis->rows);
  for (int32_t r = 0; r < E->axis->rows; r++) index[r] = r;
  add_slice(E, self, lift_index(E, 1), E->axis, index);
}

static void one_slice(Eval *E, void *self) {
  add_slice(E, self, value_int(E, E->iteration + 1), NULL, &E->iteration);
}

bool eval_reduce_sum(Eval *E, const Expr *e) {
  bool named = e->kind == EX_CALL && e->call == CALL_FUNCTION &&
               (e->builtin == FUN_reduce_sum || e->builtin == FUN_reduce_sum_static);
  if (!named || E->quiet || eval_is_conditional(E) || E->lift || E->loop >= 0) return false;
  Slices s = {e, fun_function(E, e), NEW_ARRAY(E->arena, Value *, e->nargs)};
  for (int k = 1; k < e->nargs; k++) s.a[k] = eval_expr(E, e->args[k]);
  if (s.a[1]->kind == TY_TUPLE) return false;
  if (s.a[1]->n) eval_each(E, e, s.a[1]->dims[0], all_slices, one_slice, &s);
  return true;
}

/* ---- map_rect -------------------------------------------------------------------------------- */

/* Item k of an array. */
static Value *item(Eval *E, Value *v, int32_t k) {
  Value shape = *v;
  shape.array_dims--, shape.ndims--;
  shape.n = v->dims[0] ? v->n / v->dims[0] : 0;
  memmove(shape.dims, v->dims + 1, (size_t)shape.ndims * sizeof *shape.dims);
  int32_t *index = NEW_ARRAY(E->arena, int32_t, shape.n);
  for (int32_t e = 0; e < shape.n; e++) index[e] = k * shape.n + e;
  return value_take(E, v, &shape, NULL, index);
}

/* f(phi, theta_k, x_r[k], x_i[k]) for each k, one after the other */
FN(map_rect) {
  int32_t shards = a[2]->dims[0], total = 0;
  Value **parts = NEW_ARRAY(E->arena, Value *, shards + 1);
  for (int32_t k = 0; k < shards; k++) {
    Value *args[4] = {a[1], item(E, a[2], k), item(E, a[3], k), item(E, a[4], k)};
    parts[k] = eval_user(E, fun_function(E, call), args, call->loc);
    total += parts[k]->n;
  }
  return value_join(E, parts, shards, value_shape(E, TY_VECTOR, 0, 1, &total));
}

/* ---- integrate_1d ---------------------------------------------------------------------------- */

/* Double exponential quadrature (Takahasi and Mori 1974): x(t), u = pi/2 sinh t, at equidistant t.
 * The integrand is evaluated at all nodes at once. */
enum { NODES = 161 };
static const double FARTHEST = 3.6; /* |t| */

typedef struct {
  const FunDef *f;
  Value *x, *xc, *weight; /* NODES numbers each */
  Value **rest;           /* further arguments of the integrand */
  int nrest;
  Loc loc;
  Value *sum;
} Integral;

static Value *integrand(Eval *E, const Integral *q, Value *x, Value *xc) {
  Value **args = NEW_ARRAY(E->arena, Value *, q->nrest + 2);
  args[0] = x, args[1] = xc;
  for (int k = 0; k < q->nrest; k++) args[k + 2] = q->rest[k];
  return eval_user(E, q->f, args, q->loc);
}

/* One number of a vector per iteration. */
static Value *spread(Eval *E, Value *v) {
  static const Value number = {.kind = TY_REAL, .n = 1};
  int32_t *index = NEW_ARRAY(E->arena, int32_t, E->axis->rows);
  for (int32_t r = 0; r < E->axis->rows; r++) index[r] = r;
  return value_take(E, v, &number, E->axis, index);
}

static void all_nodes(Eval *E, void *self) {
  Integral *q = self;
  E->integral = true;
  Value *v = integrand(E, q, spread(E, q->x), spread(E, q->xc));
  Node each = value_node_total(E, value_on_axis(E, v, E->axis), E->axis, 1);
  const Value *shape = ir_size(E->graph, each) == 1 ? NUM(0) : q->x;
  E->integral = false;
  q->sum = value_sum(E, MUL(q->weight, value_of_node(E, shape, NULL, each)));
}

static Value *node_by_node(Eval *E, const Integral *q) {
  Value *parts[NODES];
  for (int32_t k = 0; k < NODES; k++)
    parts[k] = MUL(value_element(E, q->weight, k),
                   integrand(E, q, value_element(E, q->x, k), value_element(E, q->xc, k)));
  return value_sum(E, value_join(E, parts, NODES, q->x));
}

static bool is_infinite(const Value *v, double sign) {
  return v->known && v->v[0] == sign * INFINITY;
}

/* Where the nodes lie: between finite limits x = a + (b - a) p or b - (b - a) (1 - p), whichever is
 * nearer, p = 1 / (1 + e^-2u), xc the limit less x; from a on x = a + e^u; everywhere x = sinh u.
 */
static void place_nodes(Eval *E, Integral *q, Value *lower, Value *upper) {
  bool from = !is_infinite(lower, -1), to = !is_infinite(upper, 1);
  Value *base = value_vector(E, NODES), *s = value_vector(E, NODES), *w = value_vector(E, NODES),
        *none = value_vector(E, NODES);
  double h = 2 * FARTHEST / (NODES - 1);
  for (int32_t k = 0; k < NODES; k++) {
    double t = -FARTHEST + h * k, u = 0.5 * M_PI * sinh(t), du = h * 0.5 * M_PI * cosh(t);
    double p = num_inv_logit(2 * u), r = num_inv_logit(-2 * u);
    base->v[k] = t < 0;
    s->v[k] = from && to ? (t < 0 ? p : -r) : from || to ? exp(u) : sinh(u);
    w->v[k] = du * (from && to ? 2 * p * r : from || to ? exp(u) : cosh(u));
    none->v[k] = NAN;
  }
  Value *width = SUB(upper, lower);
  q->weight = from && to ? MUL(width, w) : w;
  q->xc = from && to ? M(NEG, MUL(width, s)) : none;
  if (from && to)
    q->x = ADD(ADD(MUL(base, lower), MUL(SUB(NUM(1), base), upper)), MUL(width, s));
  else
    q->x = from ? ADD(lower, s) : to ? SUB(upper, s) : s;
}

static Value *integrate(Eval *E, const Expr *call, Value **a, Value **rest, int nrest) {
  Integral q = {.f = fun_function(E, call), .rest = rest, .nrest = nrest, .loc = call->loc};
  place_nodes(E, &q, a[1], a[2]);
  const char *why;
  if (!E->lift && !eval_is_conditional(E) && lift_body(E, NODES, NULL, all_nodes, &q, &why))
    return q.sum;
  return node_by_node(E, &q);
}

/* (f, a, b, theta, x_r, x_i [, tolerance]), and (f, a, b [, tolerances and depth], ...). The nodes
 * are many enough for every tolerance. */
FN(integrate_1d) { return integrate(E, call, a, a + 3, 3); }
FN(integrate_1d_free) { return integrate(E, call, a, a + 3, n - 3); }
FN(integrate_1d_free_tol) { return integrate(E, call, a, a + 6, n - 6); }

/* ---- hidden Markov models: of log omega (states x times), Gamma, rho ------------------------- */

/* l_1 = log rho + log omega_1; l_t[j] = log omega_t[j] + log sum_i exp(l_{t-1}[i] + log Gamma[i,
 * j]); log sum exp l_T */
FN(hmm_marginal) {
  int32_t K = a[0]->dims[0], T = a[0]->dims[1], *from = NEW_ARRAY(E->arena, int32_t, K * K);
  if (!T) return NUM(0);
  for (int32_t e = 0; e < K * K; e++) from[e] = e % K;
  Value *steps = M(LOG, value_transpose(E, a[1])), *omega = value_transpose(E, a[0]);
  const Value *state = value_shape(E, TY_VECTOR, 0, 1, &K);
  Value *l = ADD(M(LOG, a[2]), value_slice(E, omega, 0, K));
  for (int32_t t = 1; t < T; t++) {
    Value *paths = ADD(value_take(E, l, steps, NULL, from), steps);
    l = ADD(value_reduce_rows(E, IR_LSE, paths, K, state), value_slice(E, omega, t * K, K));
  }
  return value_reduce(E, IR_LSE, l);
}

/* Row t of f, T x K: the probabilities of the states given all before, proportional to omega_t .*
 * (Gamma' f_{t-1}). */
static double *filtered(Eval *E, Value **a) {
  int32_t K = a[0]->dims[0], T = a[0]->dims[1];
  double *f = NEW_ARRAY(E->arena, double, T *K);
  for (int32_t t = 0; t < T; t++) {
    double total = 0, top = -INFINITY;
    for (int32_t j = 0; j < K; j++) top = fmax(top, a[0]->v[j * T + t]);
    for (int32_t j = 0; j < K; j++) {
      double p = t ? 0 : a[2]->v[j];
      for (int32_t i = 0; t && i < K; i++) p += f[(t - 1) * K + i] * a[1]->v[i * K + j];
      total += f[t * K + j] = p * exp(a[0]->v[j * T + t] - top);
    }
    for (int32_t j = 0; j < K; j++) f[t * K + j] /= total;
  }
  return f;
}

/* s_T = f_T; s_t[i] = f_t[i] sum_j Gamma[i, j] s_{t+1}[j] / sum_k f_t[k] Gamma[k, j] */
FN(hmm_hidden_state_prob) {
  for (int k = 0; k < 3; k++) fun_need_known(E, a[k], call);
  int32_t K = a[0]->dims[0], T = a[0]->dims[1];
  double *f = filtered(E, a);
  Value *r = value_known(E, a[0], NULL);
  for (int32_t t = T; t-- > 0;)
    for (int32_t i = 0; i < K; i++) {
      double s = t == T - 1;
      for (int32_t j = 0; t < T - 1 && j < K; j++) {
        double ahead = 0;
        for (int32_t k = 0; k < K; k++) ahead += f[t * K + k] * a[1]->v[k * K + j];
        if (ahead > 0) s += a[1]->v[i * K + j] * r->v[j * T + t + 1] / ahead;
      }
      r->v[i * T + t] = f[t * K + i] * s;
    }
  return r;
}

/* Backwards: the last state from f_T, each one before from f_t[i] Gamma[i, next]. */
FN(hmm_latent_rng) {
  if (!E->rng)
    ctx_fail(E->ctx, PVI_PROGRAM, call->loc,
             "random numbers are drawn only in transformed data and generated quantities");
  for (int k = 0; k < 3; k++) fun_need_known(E, a[k], call);
  int32_t K = a[0]->dims[0], T = a[0]->dims[1];
  double *f = filtered(E, a);
  Value *r = value_known(E, value_shape(E, TY_INT, 1, 1, &T), NULL);
  for (int32_t t = T; t-- > 0;) {
    for (int32_t i = 0; t < T - 1 && i < K; i++)
      f[t * K + i] *= a[1]->v[i * K + (int32_t)r->v[t + 1] - 1];
    r->v[t] = (double)rngs_categorical(E->rng, f + t * K, (size_t)K) + 1;
  }
  return r;
}
