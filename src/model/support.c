/* support.c: are the data inside of the supports that dists.def states? What depends on parameters
 * is not looked at: there a density without support is numerical trouble of a draw, not a user's
 * mistake. */
#include "model/eval.h"

#include <float.h>
#include <math.h>

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

void dist_check_support(Eval *E, DistId id, Value **args, int n, Loc loc) {
  if (E->quiet || E->guard) return; /* numbers of a draw; or what may never be reached */
  Value *a[MOST_ARGUMENTS];
  if (n > MOST_ARGUMENTS) return;
  for (int k = 0; k < n; k++) a[k] = value_on_axis(E, args[k], E->axis);
  for (int k = 0; k < n; k++) {
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
