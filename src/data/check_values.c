/* check_values.c: do given values keep what their declaration promises? Bounds element by element,
 * type words of constraints.def (check_<id>) by the last one or two dims.
 *
 * Rules and tolerance are those of Stan's math library (stan/math/prim/err): 1e-8, NaN never
 * passes.
 */
#include "data/data_int.h"
#include "data/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double tolerance = 1e-8; /* CONSTRAINT_TOLERANCE */

static const char *number_text(Ctx *c, double x) {
  char s[NUMBER_CHARS];
  return arena_text(&c->arena, s, number_write(s, x));
}

static size_t product(int ndims, const long *dims) {
  size_t n = 1;
  for (int k = 0; k < ndims; k++) n *= (size_t)dims[k];
  return n;
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static double bound_at(const DataBound *b, size_t i) { return b->v[i % b->n]; }

static void report_bound(Ctx *c, const DataValues *x, size_t i, const char *side, double bound,
                         size_t more) {
  const char *rest =
      more ? arena_format(&c->arena, " (and %zu more values are outside)", more) : "";
  ctx_error(c, x->decl->loc, "%s violate their declaration: %s is %s, but must be %s %s%s",
            x->whose, data_element_name(c, x->name, x->ndims, x->dims, i), number_text(c, x->v[i]),
            side, number_text(c, bound), rest);
}

/* sign 1: at least the bound; -1: at most. NaN is neither. */
static void check_side(Ctx *c, const DataValues *x, const DataBound *b, double sign) {
  size_t n = product(x->ndims, x->dims), bad = 0, first = 0;
  for (size_t i = 0; b->n && i < n; i++)
    if (!(sign * x->v[i] >= sign * bound_at(b, i)) && bad++ == 0) first = i;
  if (bad)
    report_bound(c, x, first, sign > 0 ? "at least" : "at most", bound_at(b, first), bad - 1);
}

void data_check_bounds(Ctx *c, const DataValues *x, DataBound lower, DataBound upper) {
  check_side(c, x, &lower, 1);
  check_side(c, x, &upper, -1);
}

/* ---- type words of constraints.def ----------------------------------------------------------- */

/* What is wrong with x, a vector of n or an m x n matrix, row-major; NULL: nothing. */
typedef const char *Check(Ctx *c, const double *x, size_t m, size_t n);

static double sum_of(const double *x, size_t n, size_t step) {
  double s = 0;
  for (size_t k = 0; k < n; k++) s += x[k * step];
  return s;
}

static double norm2_of(const double *x, size_t n) {
  double s = 0;
  for (size_t k = 0; k < n; k++) s += x[k] * x[k];
  return s;
}

static bool near(double x, double target) { return fabs(x - target) <= tolerance; }

/* Non-negative and summing to one; `what` names a row or column, or nothing. */
static const char *simplex_problem(Ctx *c, const double *x, size_t n, size_t step,
                                   const char *what) {
  double sum = sum_of(x, n, step);
  for (size_t k = 0; k < n; k++)
    if (!(x[k * step] >= 0))
      return arena_format(&c->arena, "%selement %zu is %s, not at least 0", what, k + 1,
                          number_text(c, x[k * step]));
  if (!near(sum, 1))
    return arena_format(&c->arena, "%sthe sum is %s, not 1", what, number_text(c, sum));
  return NULL;
}

static const char *check_simplex(Ctx *c, const double *x, size_t m, size_t n) {
  (void)m;
  return simplex_problem(c, x, n, 1, "");
}

static const char *check_row_stochastic_matrix(Ctx *c, const double *x, size_t m, size_t n) {
  const char *bad = NULL;
  for (size_t i = 0; i < m && !bad; i++)
    bad = simplex_problem(c, x + i * n, n, 1, arena_format(&c->arena, "in row %zu ", i + 1));
  return bad;
}

static const char *check_column_stochastic_matrix(Ctx *c, const double *x, size_t m, size_t n) {
  const char *bad = NULL;
  for (size_t j = 0; j < n && !bad; j++)
    bad = simplex_problem(c, x + j, m, n, arena_format(&c->arena, "in column %zu ", j + 1));
  return bad;
}

static const char *check_ordered(Ctx *c, const double *x, size_t m, size_t n) {
  (void)m;
  for (size_t k = 1; k < n; k++)
    if (!(x[k] > x[k - 1]))
      return arena_format(&c->arena, "element %zu is %s, not above the %s before it", k + 1,
                          number_text(c, x[k]), number_text(c, x[k - 1]));
  return NULL;
}

static const char *check_positive_ordered(Ctx *c, const double *x, size_t m, size_t n) {
  if (n && !(x[0] >= 0))
    return arena_format(&c->arena, "element 1 is %s, not at least 0", number_text(c, x[0]));
  return check_ordered(c, x, m, n);
}

static const char *check_unit_vector(Ctx *c, const double *x, size_t m, size_t n) {
  double s = norm2_of(x, n);
  (void)m;
  return near(s, 1) ? NULL
                    : arena_format(&c->arena, "the sum of squares is %s, not 1", number_text(c, s));
}

/* `what` names a row or column, or nothing. */
static const char *zero_problem(Ctx *c, const double *x, size_t n, size_t step, const char *what) {
  double sum = sum_of(x, n, step);
  if (near(sum, 0)) return NULL;
  return arena_format(&c->arena, "%sthe sum is %s, not 0", what, number_text(c, sum));
}

static const char *check_sum_to_zero_vector(Ctx *c, const double *x, size_t m, size_t n) {
  (void)m;
  return zero_problem(c, x, n, 1, "");
}

static const char *check_sum_to_zero_matrix(Ctx *c, const double *x, size_t m, size_t n) {
  const char *bad = NULL;
  for (size_t i = 0; i < m && !bad; i++)
    bad = zero_problem(c, x + i * n, n, 1, arena_format(&c->arena, "in row %zu ", i + 1));
  for (size_t j = 0; j < n && !bad; j++)
    bad = zero_problem(c, x + j, m, n, arena_format(&c->arena, "in column %zu ", j + 1));
  return bad;
}

static const char *check_cholesky_factor_cov(Ctx *c, const double *x, size_t m, size_t n) {
  if (m < n) return arena_format(&c->arena, "there are %zu rows, fewer than the %zu columns", m, n);
  for (size_t i = 0; i < m; i++)
    for (size_t j = i + 1; j < n; j++)
      if (x[i * n + j] != 0)
        return arena_format(&c->arena, "element [%zu,%zu] above the diagonal is %s, not 0", i + 1,
                            j + 1, number_text(c, x[i * n + j]));
  for (size_t i = 0; i < n; i++)
    if (!(x[i * n + i] > 0))
      return arena_format(&c->arena, "the diagonal element [%zu,%zu] is %s, not above 0", i + 1,
                          i + 1, number_text(c, x[i * n + i]));
  return NULL;
}

static const char *check_cholesky_factor_corr(Ctx *c, const double *x, size_t m, size_t n) {
  const char *bad = m == n ? check_cholesky_factor_cov(c, x, m, n) : "it is not square";
  for (size_t i = 0; i < m && !bad; i++) {
    double s = norm2_of(x + i * n, n);
    if (!near(s, 1))
      bad = arena_format(&c->arena, "the squares of row %zu sum to %s, not 1", i + 1,
                         number_text(c, s));
  }
  return bad;
}

static const char *symmetry_problem(Ctx *c, const double *x, size_t n) {
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < i; j++)
      if (!near(x[i * n + j], x[j * n + i]))
        return arena_format(&c->arena, "it is not symmetric: [%zu,%zu] is %s but [%zu,%zu] is %s",
                            i + 1, j + 1, number_text(c, x[i * n + j]), j + 1, i + 1,
                            number_text(c, x[j * n + i]));
  return NULL;
}

/* A = L L'; fails at the first pivot that is not positive. */
static const char *definite_problem(Ctx *c, const double *a, size_t n) {
  double *l = NEW_ARRAY(&c->arena, double, n *n + 1);
  for (size_t j = 0; j < n; j++) {
    double d = a[j * n + j] - norm2_of(l + j * n, j);
    if (!(d > 0))
      return arena_format(&c->arena, "it is not positive definite (pivot %zu is %s)", j + 1,
                          number_text(c, d));
    l[j * n + j] = sqrt(d);
    for (size_t i = j + 1; i < n; i++) {
      double s = a[i * n + j];
      for (size_t k = 0; k < j; k++) s -= l[i * n + k] * l[j * n + k];
      l[i * n + j] = s / l[j * n + j];
    }
  }
  return NULL;
}

static const char *check_cov_matrix(Ctx *c, const double *x, size_t m, size_t n) {
  const char *bad = m == n ? symmetry_problem(c, x, n) : "it is not square";
  return bad ? bad : definite_problem(c, x, n);
}

static const char *check_corr_matrix(Ctx *c, const double *x, size_t m, size_t n) {
  if (m != n) return "it is not square";
  for (size_t i = 0; i < n; i++)
    if (!near(x[i * n + i], 1))
      return arena_format(&c->arena, "the diagonal element [%zu,%zu] is %s, not 1", i + 1, i + 1,
                          number_text(c, x[i * n + i]));
  return check_cov_matrix(c, x, m, n);
}

static Check *const checks[CON_COUNT] = {
#define TYPE_WORD(id, type, least, most, numbers) [CON_##id] = check_##id,
#include "stan/constraints.def"
};

void data_check_structure(Ctx *c, const DataValues *x) {
  ConstraintKind kind = x->decl->con.kind;
  int spans = x->decl->type->kind == TY_MATRIX ? 2 : 1, outer = x->ndims - spans;
  if (!checks[kind] || outer < 0) return;
  size_t m = spans == 2 ? (size_t)x->dims[outer] : 1, n = (size_t)x->dims[x->ndims - 1];
  size_t count = product(outer, x->dims);
  for (size_t k = 0; k < count; k++) {
    ArenaMark mark = arena_mark(&c->arena);
    const char *bad = checks[kind](c, x->v + k * m * n, m, n);
    if (bad) {
      ctx_error(c, x->decl->loc, "%s violate their declaration: %s is no %s: %s", x->whose,
                data_element_name(c, x->name, outer, x->dims, k), stan_constraint_name(kind), bad);
      return;
    }
    arena_reset(&c->arena, mark);
  }
}
