/* dists.c: the functions of a distribution as programs call them: density, cumulative functions,
 * truncation, random numbers, simulation. Each looks up what the row of dists.def names and adds
 * what all distributions have in common; the distributions themselves are in dists_*.c. */
#include "model/dist.h"

#include <math.h>

/* ---- the table ------------------------------------------------------------------------------- */

#undef LPDF
#undef CDF
#undef COUNT_CDF
#undef RNG
#undef RNG_JOINT
#undef SIMULATE
#undef OUTCOME
#define LPDF(id) .lpdf = lpdf_##id,
#define CDF(id) .cdf = cdf_##id,
#define COUNT_CDF(id) .count_cdf = cdf_##id,
#define RNG(id) .rng = draw_##id,
#define RNG_JOINT(id) .rng_joint = draw_##id,
#define SIMULATE(id) .simulate = simulate_##id,
#define OUTCOME(id) .outcome = outcome_##id,
static const DistCode codes[DIST_COUNT] = {
#define DIST(id, signature, flags, support, code) [DIST_##id] = {code},
#include "stan/dists.def"
#undef DIST
};

const DistCode *dist_code(DistId id) { return &codes[id]; }

/* ---- what several are made of ---------------------------------------------------------------- */

Value *dist_standardise(Eval *E, Value **a) { return DIV(SUB(a[0], a[1]), a[2]); }

Value *dist_log_factorial(Eval *E, Value *y) { return M(LGAMMA, ADD(y, NUM(1))); }

Value *dist_log_rising(Eval *E, Value *a, Value *b) {
  return map3(E, IR_LOG_RISING, a, b, M(LGAMMA, a));
}

Value *dist_from_upper(Eval *E, Value *x, bool complement) {
  return complement ? x : M(LOG1M_EXP, x);
}

Value *dist_from_lower(Eval *E, Value *x, bool complement) {
  return complement ? M(LOG1M_EXP, x) : x;
}

Value *dist_gamma_p(Eval *E, Value *shape, Value *x, bool complement) {
  return map2(E, complement ? IR_LOG_GAMMA_Q : IR_LOG_GAMMA_P, shape, x);
}

/* I_x(a, b) = 1 - I_(1 - x)(b, a) */
Value *dist_inc_beta(Eval *E, Value *a, Value *b, Value *x, bool complement) {
  return complement ? map3(E, IR_LOG_INC_BETA, b, a, SUB(NUM(1), x))
                    : map3(E, IR_LOG_INC_BETA, a, b, x);
}

/* ---- densities ------------------------------------------------------------------------------- */

/* A density of data is a likelihood: the mark stays with everything made of it. */
static Value *mark(Eval *E, Value *v) {
  if (v->known) {
    v->likelihood = true;
    return v;
  }
  return value_of_node(E, v, v->axis, ir_mark_likelihood(E->graph, value_node(E, v)));
}

Value *dist_lpdf(Eval *E, DistId id, Value **a, int n, Loc loc) {
  if (!codes[id].lpdf)
    ctx_fail(E->ctx, PVI_PROGRAM, loc, "the distribution %s is not supported yet",
             stan_dist_names[id]);
  dist_check_sizes(E, id, DF_LPDF, a, n, loc);
  dist_check_support(E, id, DF_LPDF, a, n, loc);
  E->density = loc;
  Value *v = codes[id].lpdf(E, a, n);
  return a[0]->known && !(E->integral && a[0]->axis) ? mark(E, v) : v;
}

/* ---- cumulative functions -------------------------------------------------------------------- */

static bool any_negative(const Value *v) {
  for (int32_t k = 0; k < value_total(v); k++)
    if (v->v[k] < 0) return true;
  return false;
}

/* Counts below 0 have F = 0; the row's function sees 0 in their place. */
static Value *count_log_cdf(Eval *E, DistCdf *cdf, Value **args, int n, bool complement) {
  Value **a = NEW_ARRAY(E->arena, Value *, n), *y = args[0];
  if (y->known && !any_negative(y)) return cdf(E, args, n, complement);
  for (int k = 1; k < n; k++) a[k] = args[k];
  a[0] = map2(E, IR_FMAX, y, NUM(0));
  Value *v = cdf(E, a, n, complement);
  return v ? CHOOSE(LESS(y, NUM(0)), NUM(complement ? 0 : -INFINITY), v) : NULL;
}

/* Of valid arguments. */
static Value *log_cdf(Eval *E, DistId id, Value **a, int n, bool complement, Loc loc) {
  const DistCode *code = &codes[id];
  E->density = loc;
  Value *v = code->cdf         ? code->cdf(E, a, n, complement)
             : code->count_cdf ? count_log_cdf(E, code->count_cdf, a, n, complement)
                               : NULL;
  if (!v)
    ctx_fail(E->ctx, PVI_PROGRAM, loc,
             "the cumulative distribution function of %s is not supported yet",
             stan_dist_names[id]);
  return v;
}

Value *dist_log_cdf(Eval *E, DistId id, DistFun fun, Value **a, int n, Loc loc) {
  dist_check_sizes(E, id, fun, a, n, loc);
  dist_check_support(E, id, fun, a, n, loc);
  return log_cdf(E, id, a, n, fun == DF_LCCDF, loc);
}

static bool is_zero(const Value *v) {
  for (int32_t k = 0; v->known && k < value_total(v); k++)
    if (v->v[k] != 0) return false;
  return v->known;
}

/* log P(lower <= Y <= upper), of counts log P(lower - 1 < Y <= upper); infinite where the outcome
 * is outside, so that its density is zero */
Value *dist_truncation(Eval *E, DistId id, Value **args, int n, Value *const ends[2], Loc loc) {
  Value *lower = ends[0], *upper = ends[1], *above = NULL, *below = NULL;
  Value **a = NEW_ARRAY(E->arena, Value *, n);
  for (int k = 1; k < n; k++) a[k] = args[k];
  if (upper) {
    a[0] = upper;
    above = log_cdf(E, id, a, n, false, loc);
  }
  if (lower) {
    a[0] = stan_dist_flags(id) & PMF ? SUB(lower, NUM(1)) : lower;
    below = log_cdf(E, id, a, n, !upper, loc);
  }
  Value *one = above && below ? map2(E, IR_LOG_DIFF_EXP, above, below) : above ? above : below;
  Value *outside = NUM(0);
  if (upper) outside = LESS(upper, args[0]);
  if (lower) outside = map2(E, IR_FMAX, outside, LESS(args[0], lower));
  if (!is_zero(outside)) return CHOOSE(outside, NUM(INFINITY), one);
  if (one->n == args[0]->n || args[0]->n == 1) return one;
  return ADD(one, value_known(E, args[0], NULL)); /* once for every outcome */
}

/* ---- simulation ------------------------------------------------------------------------------ */

Value *dist_noise(Eval *E, Value **a, int n, NoiseKind kind) {
  Value shape = {.kind = TY_REAL, .n = 1, .node = NO_NODE};
  for (int k = 0; k < n; k++)
    if (a[k]->ndims && !shape.ndims) shape = *a[k];
  if (shape.kind == TY_INT) shape.kind = TY_REAL;
  int32_t rows = E->axis ? E->axis->rows : 1;
  return value_of_node(E, &shape, E->axis, ir_noise(E->graph, kind, E->streams++, rows * shape.n));
}

Value *dist_simulate(Eval *E, DistId id, Value **a, int n) {
  return codes[id].simulate ? codes[id].simulate(E, a, n) : NULL;
}

/* ---- random numbers -------------------------------------------------------------------------- */

static bool is_discrete(DistId id) { return stan_dist_flags(id) & PMF; }

/* Of parameters that are not allowed there are no random numbers: a mistake in transformed data,
 * and trouble of a draw in generated quantities. */
static double no_number(DistId id) { return is_discrete(id) ? INT32_MIN : (double)NAN; }

_Noreturn static void refuse_parameters(Eval *E, DistId id, Loc loc) {
  ctx_fail(E->ctx, PVI_DATA, loc, "%s_rng: its parameters are out of range", stan_dist_names[id]);
}

/* Element e of a container of random numbers. */
static double draw_element(Eval *E, DistId id, Value **a, int n, int32_t e, Loc loc) {
  double x[4] = {0};
  bool allowed = true;
  for (int k = 0; k < n && k < 4; k++) {
    x[k] = a[k]->v[a[k]->n == 1 ? 0 : e];
    Value one = {.kind = TY_REAL, .n = 1, .known = true, .v = &x[k]};
    allowed &= !isnan(x[k]) && dist_parameters_allowed(id, &one, k);
  }
  double y = allowed ? codes[id].rng(E->rng, x) : (double)NAN;
  if (is_discrete(id) && fabs(y) > INT32_MAX) y = (double)NAN; /* no int can hold it */
  if (isnan(y) && !eval_is_draw(E)) refuse_parameters(E, id, loc);
  return isnan(y) ? no_number(id) : y;
}

/* A vector, matrix or category. */
static Value *draw_joint(Eval *E, DistId id, Value **a, int n, Loc loc) {
  bool allowed = true;
  for (int k = 0; k < n; k++) allowed &= dist_parameters_allowed(id, a[k], k);
  if (!allowed && !eval_is_draw(E)) refuse_parameters(E, id, loc);
  Value *y = codes[id].rng_joint(E, a, loc);
  for (int32_t e = 0; !allowed && e < y->n; e++) y->v[e] = no_number(id);
  return y;
}

/* Numbers where all parameters are, an array where one is a container. */
static Value *draw_elements(Eval *E, DistId id, Value **a, int n, Loc loc) {
  Value *shape = n ? a[0] : value_real(E, 0);
  for (int k = 0; k < n; k++)
    if (a[k]->ndims && !shape->ndims) shape = a[k];
  Value *y = value_known(E, shape, NULL);
  y->kind = is_discrete(id) ? TY_INT : TY_REAL;
  y->array_dims = y->ndims;
  for (int32_t e = 0; e < y->n; e++) y->v[e] = draw_element(E, id, a, n, e, loc);
  return y;
}

Value *dist_rng(Eval *E, DistId id, Value **a, int n, Loc loc) {
  const DistCode *code = &codes[id];
  if (E->simulate) {
    Value *v = dist_simulate(E, id, a, n);
    if (!v)
      ctx_fail(E->ctx, PVI_PROGRAM, loc,
               "%s_rng cannot be simulated as a function of the parameters", stan_dist_names[id]);
    return v;
  }
  if (E->lift) lift_bail(E, "it draws random numbers");
  if (!E->rng)
    ctx_fail(E->ctx, PVI_PROGRAM, loc,
             "random numbers are drawn only in transformed data and generated quantities");
  for (int k = 0; k < n; k++)
    if (!a[k]->known)
      ctx_fail(E->ctx, PVI_PROGRAM, loc, "%s_rng of parameters", stan_dist_names[id]);
  if (code->rng_joint) return draw_joint(E, id, a, n, loc);
  if (!code->rng)
    ctx_fail(E->ctx, PVI_PROGRAM, loc, "%s_rng is not supported yet", stan_dist_names[id]);
  return draw_elements(E, id, a, n, loc);
}

/* ---- all ------------------------------------------------------------------------------------- */

Value *dist_call(Eval *E, DistId id, DistFun fun, Value **args, int n, Loc loc) {
  switch (fun) {
  case DF_LPDF: return value_sum(E, dist_lpdf(E, id, args, n, loc));
  case DF_LCDF:
  case DF_LCCDF: return value_sum(E, dist_log_cdf(E, id, fun, args, n, loc));
  case DF_CDF: return M(EXP, value_sum(E, dist_log_cdf(E, id, fun, args, n, loc)));
  default: dist_check_sizes(E, id, fun, args, n, loc); return dist_rng(E, id, args, n, loc);
  }
}
