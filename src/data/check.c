/* check.c: do data keep what their declaration promises? Bounds element by element, structures by
 * the last one or two dims.
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

static double bound_at(const double *bound, size_t n, size_t i) {
  return n == 1 ? bound[0] : bound[i];
}

typedef struct {
  Ctx *c;
  const char *name;
  const Decl *decl;
  int ndims;
  const long *dims;
} Subject;

static void report_bound(const Subject *s, size_t i, double value, const char *side, double bound,
                         size_t more) {
  const char *rest =
      more ? arena_format(&s->c->arena, " (and %zu more values are outside)", more) : "";
  ctx_error(s->c, s->decl->loc, "the data violate their declaration: %s is %s, but must be %s %s%s",
            data_element_name(s->c, s->name, s->ndims, s->dims, i), number_text(s->c, value), side,
            number_text(s->c, bound), rest);
}

static void check_side(const Subject *s, const double *v, const double *bound, size_t nbound,
                       double sign, const char *side) {
  size_t n = product(s->ndims, s->dims), bad = 0, first = 0;
  for (size_t i = 0; bound && i < n; i++)
    if (!(sign * v[i] >= sign * bound_at(bound, nbound, i)) && bad++ == 0) first = i;
  if (bad) report_bound(s, first, v[first], side, bound_at(bound, nbound, first), bad - 1);
}

void data_check_bounds_as(Ctx *c, const char *name, const Decl *decl, int ndims, const long *dims,
                          const double *v, const double *lower, size_t nlower, const double *upper,
                          size_t nupper) {
  Subject s = {c, name, decl, ndims, dims};
  check_side(&s, v, lower, nlower, 1, "at least");
  check_side(&s, v, upper, nupper, -1, "at most");
}

void data_check_bounds(Ctx *c, const Decl *decl, int ndims, const long *dims, const double *v,
                       const double *lower, size_t nlower, const double *upper, size_t nupper) {
  data_check_bounds_as(c, decl->name, decl, ndims, dims, v, lower, nlower, upper, nupper);
}

/* ---- structures: each returns NULL or what is wrong with x, a vector of n or an m x n matrix,
 * row-major  */

typedef const char *Checker(Ctx *c, const double *x, size_t m, size_t n);

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

/* Non-negative and summing to one; `what` and `k` name a row or column, or nothing. */
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

static const char *check_stochastic_row(Ctx *c, const double *x, size_t m, size_t n) {
  const char *bad = NULL;
  for (size_t i = 0; i < m && !bad; i++)
    bad = simplex_problem(c, x + i * n, n, 1, arena_format(&c->arena, "in row %zu ", i + 1));
  return bad;
}

static const char *check_stochastic_column(Ctx *c, const double *x, size_t m, size_t n) {
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

static const char *check_sum_to_zero(Ctx *c, const double *x, size_t m, size_t n) {
  double s = sum_of(x, m * n, 1);
  return near(s, 0) ? NULL : arena_format(&c->arena, "the sum is %s, not 0", number_text(c, s));
}

static const char *check_cholesky_cov(Ctx *c, const double *x, size_t m, size_t n) {
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

static const char *check_cholesky_corr(Ctx *c, const double *x, size_t m, size_t n) {
  const char *bad = m == n ? check_cholesky_cov(c, x, m, n) : "it is not square";
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

static const char *check_cov(Ctx *c, const double *x, size_t m, size_t n) {
  const char *bad = m == n ? symmetry_problem(c, x, n) : "it is not square";
  return bad ? bad : definite_problem(c, x, n);
}

static const char *check_corr(Ctx *c, const double *x, size_t m, size_t n) {
  if (m != n) return "it is not square";
  for (size_t i = 0; i < n; i++)
    if (!near(x[i * n + i], 1))
      return arena_format(&c->arena, "the diagonal element [%zu,%zu] is %s, not 1", i + 1, i + 1,
                          number_text(c, x[i * n + i]));
  return check_cov(c, x, m, n);
}

/* A structure is a row: its name in Stan and its checker. */
typedef struct {
  const char *name;
  Checker *check;
} Structure;

static const Structure structures[] = {
    [CON_ORDERED] = {"ordered", check_ordered},
    [CON_POSITIVE_ORDERED] = {"positive_ordered", check_positive_ordered},
    [CON_SIMPLEX] = {"simplex", check_simplex},
    [CON_UNIT_VECTOR] = {"unit_vector", check_unit_vector},
    [CON_SUM_TO_ZERO] = {"sum_to_zero", check_sum_to_zero},
    [CON_CHOLESKY_CORR] = {"cholesky_factor_corr", check_cholesky_corr},
    [CON_CHOLESKY_COV] = {"cholesky_factor_cov", check_cholesky_cov},
    [CON_CORR] = {"corr_matrix", check_corr},
    [CON_COV] = {"cov_matrix", check_cov},
    [CON_STOCHASTIC_COLUMN] = {"column_stochastic_matrix", check_stochastic_column},
    [CON_STOCHASTIC_ROW] = {"row_stochastic_matrix", check_stochastic_row},
};

void data_check_structure_as(Ctx *c, const char *name, const Decl *decl, int ndims,
                             const long *dims, const double *v) {
  size_t kind = (size_t)decl->con.kind;
  if (kind >= sizeof structures / sizeof *structures || !structures[kind].check) return;
  int spans = decl->type->kind == TY_MATRIX ? 2 : 1;
  int outer = ndims - spans;
  if (outer < 0) return;
  size_t m = spans == 2 ? (size_t)dims[outer] : 1, n = (size_t)dims[ndims - 1];
  size_t count = product(outer, dims);
  if (m * n == 0 && kind != CON_SIMPLEX && kind != CON_UNIT_VECTOR) return;
  for (size_t k = 0; k < count; k++) {
    ArenaMark mark = arena_mark(&c->arena);
    const char *bad = structures[kind].check(c, v + k * m * n, m, n);
    if (bad) {
      ctx_error(c, decl->loc, "the data violate their declaration: %s is no %s: %s",
                data_element_name(c, name, outer, dims, k), structures[kind].name, bad);
      return;
    }
    arena_reset(&c->arena, mark);
  }
}

void data_check_structure(Ctx *c, const Decl *decl, int ndims, const long *dims, const double *v) {
  data_check_structure_as(c, decl->name, decl, ndims, dims, v);
}
