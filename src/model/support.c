/* support.c: what the rows of functions.def and dists.def demand of arguments, looked at before any
 * code sees them: sizes that go together, and data inside of the supports. The values of what
 * depends on parameters are not looked at: there a density without support is numerical trouble of
 * a draw, not a user's mistake. */
#include "model/eval.h"

#include <float.h>
#include <math.h>

/* ---- sizes ----------------------------------------------------------------------------------- */

/* The arguments as stan/sizes.c wants them; false where all are single numbers, which always fit.
 */
static bool describe(Value *const *args, int n, SizedArg *out) {
  bool any = false;
  for (int k = 0; k < n && k < MOST_SIZED; k++) {
    const Value *v = args[k];
    if (!v) {
      out[k] = (SizedArg){.kind = TY_FUNCTION};
      continue;
    }
    bool number = v->kind == TY_INT && !v->ndims && v->known && !v->axis;
    out[k] = (SizedArg){v->kind, v->array_dims, v->ndims, v->dims, number ? v->v : NULL};
    any |= v->ndims != 0;
  }
  return any;
}

void fun_check_sizes(Eval *E, FunId id, Value *const *args, int n, Loc loc) {
  SizedArg sized[MOST_SIZED];
  if (!describe(args, n, sized)) return;
  const char *wrong = stan_function_sizes(E->program, id, sized, n, E->arena);
  if (wrong) ctx_fail(E->ctx, PVI_PROGRAM, loc, "%s: %s", stan_fun_names[id], wrong);
}

void dist_check_sizes(Eval *E, DistId id, DistFun fun, Value *const *args, int n, Loc loc) {
  static const char *const endings[] = {[DF_LPDF] = "",
                                        [DF_CDF] = "_cdf",
                                        [DF_LCDF] = "_lcdf",
                                        [DF_LCCDF] = "_lccdf",
                                        [DF_RNG] = "_rng"};
  SizedArg sized[MOST_SIZED];
  if (!describe(args, n, sized)) return;
  const char *wrong = stan_dist_sizes(E->program, id, fun, sized, n, E->arena);
  if (wrong)
    ctx_fail(E->ctx, PVI_PROGRAM, loc, "%s%s: %s", stan_dist_names[id], endings[fun], wrong);
}

/* ---- supports -------------------------------------------------------------------------------- */

/* The words of dists.def. Those from TRIALS on have an upper end that another argument tells. */
typedef enum {
  ANYTHING,
  NUMBER,
  FINITE,
  POSITIVE,
  NONNEGATIVE,
  NATURAL,
  UNIT,
  BINARY,
  TRIALS,
  CATEGORY,
  CUT
} Demand;

enum { MOST_ARGUMENTS = 5 };

#define SUPPORT(...)                                                                               \
  { __VA_ARGS__ }
static const Demand demands[DIST_COUNT][MOST_ARGUMENTS] = {
#define DIST(id, signature, flags, support, code) [DIST_##id] = support,
#include "stan/dists.def"
#undef DIST
};

/* Every demand is a closed interval; NaN: its upper end is said by another argument. */
static const struct {
  double lower, upper;
  const char *text;
} intervals[] = {
    [NUMBER] = {-INFINITY, INFINITY, "a number"},
    [FINITE] = {-DBL_MAX, DBL_MAX, "finite"},
    [POSITIVE] = {DBL_TRUE_MIN, INFINITY, "positive"},
    [NONNEGATIVE] = {0, INFINITY, "nonnegative"},
    [NATURAL] = {1, INFINITY, "1 or more"},
    [UNIT] = {0, 1, "between 0 and 1"},
    [BINARY] = {0, 1, "0 or 1"},
    [TRIALS] = {0, NAN, "between 0 and the number of trials"},
    [CATEGORY] = {1, NAN, "between 1 and the number of categories"},
    [CUT] = {1, NAN, "between 1 and the number of categories"},
};

static int32_t last_size(const Value *v) { return v->ndims ? v->dims[v->ndims - 1] : v->n; }

/* Element e of row r, broadcast. */
static double element(const Value *v, int32_t r, int32_t e) {
  return v->v[(v->axis ? r * v->n : 0) + (v->n == 1 ? 0 : e)];
}

static double upper_end(Demand d, Value **a, int n, int32_t r, int32_t e) {
  switch (d) {
  case TRIALS: return a[1]->known ? element(a[1], r, e) : INFINITY;
  case CATEGORY: return last_size(a[n - 1]);
  case CUT: return last_size(a[n - 1]) + 1;
  default: return intervals[d].upper;
  }
}

/* A number of an argument, and what is demanded of it. */
typedef struct {
  DistId dist;
  int argument; /* 0: the outcome */
  const Value *v;
  int32_t element;
  Demand demand;
  double x, upper;
} Item;

_Noreturn static void refuse(Eval *E, const Item *i, Loc loc) {
  Arena *a = E->arena;
  const char *what = i->argument ? arena_format(a, "parameter %d", i->argument) : "the outcome";
  const char *which = i->v->n > 1         ? arena_format(a, " at element %d", i->element + 1)
                      : E->iteration >= 0 ? arena_format(a, " in iteration %d", E->iteration + 1)
                                          : "";
  const char *end = i->demand >= TRIALS ? arena_format(a, ", %g", i->upper) : "";
  ctx_fail(E->ctx, PVI_DATA, loc, "%s: %s is %g%s; it must be %s%s", stan_dist_names[i->dist], what,
           i->x, which, intervals[i->demand].text, end);
}

bool dist_parameters_allowed(DistId id, const Value *v, int k) {
  Demand d = k + 1 < MOST_ARGUMENTS ? demands[id][k + 1] : ANYTHING;
  for (int32_t e = 0; d != ANYTHING && e < v->n; e++)
    if (!(v->v[e] >= intervals[d].lower && v->v[e] <= intervals[d].upper)) return false;
  return true;
}

void dist_check_support(Eval *E, DistId id, DistFun fun, Value **args, int n, Loc loc) {
  /* numbers of a draw; or what may never be reached */
  if (eval_is_draw(E) || eval_is_conditional(E)) return;
  Value *a[MOST_ARGUMENTS];
  if (n > MOST_ARGUMENTS) return;
  for (int k = 0; k < n; k++) a[k] = value_on_axis(E, args[k], E->axis);
  for (int k = fun == DF_LPDF ? 0 : 1; k < n; k++) {
    const Value *v = a[k];
    Demand d = demands[id][k];
    if (d == ANYTHING || !v->known) continue;
    const Axis *axis = v->axis ? v->axis : d == TRIALS ? a[1]->axis : NULL;
    int32_t rows = axis ? axis->rows : 1;
    for (int32_t r = 0; r < rows; r++)
      for (int32_t e = 0; e < v->n; e++) {
        double x = element(v, r, e), upper = upper_end(d, a, n, r, e);
        if (!(x >= intervals[d].lower && x <= upper))
          refuse(E, &(Item){id, k, v, e, d, x, upper}, loc);
      }
  }
}
