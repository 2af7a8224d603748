/* test_runs.c: programs whose course depends on their parameters: loops that end by them, positions
 * that they choose. Functions with such a course are evaluated draw by draw where they are called
 * (Model.calls), and what is around them for all draws at once; the whole program draw by draw says
 * the same. Of each: both ways, loops as vectors and one by one, at points together and alone; the
 * gradient by finite differences; observations; that courses which are forgotten are found again.
 */
#include "evaluate.h"

#define DATA                                                                                       \
  "{\"N\": 5, \"x\": [0.5, -1, 2, 0.1, -0.3], \"y\": [1.2, 0.3, 0.7, 2.1, 0.4], "                  \
  "\"k\": [3, 0, 2, 5, 2], \"w\": [0.1, 0.7, 0.4, 0.2, 0.9, 0.3]}"
#define HEAD                                                                                       \
  "data { int N; vector[N] x; vector<lower=0>[N] y; array[N] int k; vector[6] w; }"                \
  "parameters { real a; real b; real<lower=0> s; }"
#define PRIOR "a ~ normal(0, 1); b ~ normal(0, 1); s ~ gamma(4, 4);"
/* sum of exp(m)^i / i! while terms matter */
#define SERIES                                                                                     \
  "real series(real m, real nu) { int i = 0; real z = 0; real term = 1;"                           \
  " while (term > 1e-14) { z += term; i += 1; term = exp(nu * (i * m - lgamma(i + 1))); }"         \
  " return z; } "

static const struct Row {
  const char *what, *functions, *model;
  size_t n_obs;
  int ncalls;   /* functions that are evaluated draw by draw; -1: the whole program is */
  bool rejects; /* in some draws */
  bool smooth;  /* derivatives may be compared with differences */
} rows[] = {
    {"a series in every iteration", SERIES,
     "for (n in 1:N) target += normal_lpdf(y[n] | series(a + b * x[n], s), 2);", 5, 1, false, true},
    {"a series of all", SERIES, "y ~ normal(series(a, s), 2);", 5, 1, false, true},
    {"a density with a series in it",
     SERIES "real own_lpdf(real v, real m, real nu) { return normal_lpdf(v | series(m, nu), 1); } ",
     "for (n in 1:N) y[n] ~ own(a + b * x[n], s);", 5, 1, false, true},
    {"a density that is one",
     "real own_lpmf(int v, real m, real nu) { int i = v / 2; real z = 0;"
     " while (z < 1 + abs(m)) { i += 1; z += nu + 0.3; } return -nu * v - i - z * m; } ",
     "for (n in 1:N) target += own_lpmf(k[n] | a + b * x[n], s);", 5, 1, false, false},
    {"arguments of data",
     "real at(real t, vector u, real m) { int i = 1; while (i < 6 && t + i < m) i += 1;"
     " return u[i] + m * t; } ",
     "for (n in 1:N) y[n] ~ normal(at(x[n], w, a) + at(x[n], w, b), s);", 5, 1, false, false},
    {"arguments that differ in size",
     "real at(vector u, real m) { int i = 1; while (i < rows(u) && 0.5 * i < m) i += 1;"
     " return u[i] * m; } ",
     "for (n in 1:N) y[n] ~ normal(at(w[1:n], a) + at(x, b), s);", 5, 1, false, false},
    {"vectors of parameters",
     "real at(vector u) { int i = 1; while (i < rows(u) && u[i] > 0) i += 1; return u[i] * i; } ",
     "for (n in 1:N) y[n] ~ normal(at([a * x[n], b, s]'), 1);", 5, 1, false, false},
    {"recursion", "real deep(real m) { if (m > 0.5) return 1 + 0.5 * deep(m - 0.7); return m; } ",
     "for (n in 1:N) y[n] ~ normal(deep(a + b * x[n]), s);", 5, 1, false, false},
    {"a call of a call",
     SERIES "real twice(real m, real nu) { int i = 0; real z = series(m, nu);"
            " while (z > 1) { i += 1; z *= 0.6; } return z + i * m; } ",
     "for (n in 1:N) y[n] ~ normal(twice(a + b * x[n], s), 2);", 5, 2, false, false},
    {"rejected draws",
     SERIES "real safe(real m, real nu) { int i = 0; if (m > 1) reject(\"large\");"
            " while (i < exp(m)) i += 1; return i * nu + m; } ",
     "for (n in 1:N) y[n] ~ normal(safe(a + b * x[n], s), 2);", 5, 1, true, false},
    {"rejected where it does not count",
     "real safe(real m, real nu) { int i = 0; if (m > 0.2) reject(\"large\");"
     " while (i < exp(m)) i += 1; return i * nu + m; } ",
     "for (n in 1:N) { real f = 1; if (a + b * x[n] < 0.1) f = safe(a + b * x[n], s);"
     " y[n] ~ normal(f, 2); }",
     5, 1, false, false},
    {"an index that ends it",
     "real at(vector u, real m) { int i = 1; while (i < exp(m)) i += 1;"
     " return u[i] * m; } ",
     "for (n in 1:N) y[n] ~ normal(at(x, a + 2), s);", 5, 1, true, false},
    {"a result that is no real",
     "int position(real m) { int i = 1; while (i < 5 && i < exp(m)) i += 1; return i; } ",
     "for (n in 1:N) y[n] ~ normal(x[position(a)] * b, s);", 5, -1, false, false},
    {"in a prior", SERIES, "y ~ normal(a, s); target += -series(b, s);", 5, 1, false, true},
};

static const Model *model_with(Ctx *c, const struct Row *r, ModelOptions o) {
  const char *text = arena_format(&c->arena, "functions { %s } " HEAD "model { " PRIOR " %s }",
                                  r->functions, r->model);
  Program *p = stan_parse_text(c, "runs.stan", text, strlen(text), NULL);
  if (!c->nerrors) stan_check(c, p);
  if (c->nerrors) ctx_jump(c, PVI_PROGRAM);
  return model_make(c, p, data_read_text(c, "runs.json", DATA, NULL), &o);
}

static void same_density(const DensityAt *d, const DensityAt *e) {
  if (!isfinite(d->lp) || !isfinite(e->lp)) {
    assert_true(d->lp == e->lp);
    return;
  }
  assert_close(d->prior, e->prior, 1e-11);
  assert_close(d->likelihood, e->likelihood, 1e-11);
  for (size_t k = 0; k < d->dim; k++) assert_close(d->grad[k], e->grad[k], 1e-10);
  for (size_t k = 0; k < d->n_obs; k++) assert_close(d->pointwise[k], e->pointwise[k], 1e-11);
}

enum { POINTS = 40 };

TEST(all_ways_agree) {
  const struct Row *r = row;
  const Model *m = model_with(c, r, (ModelOptions){.nobserve = 0}),
              *one_by_one = model_with(c, r, (ModelOptions){.unroll = true}),
              *by_draw = model_with(c, r, (ModelOptions){.by_draw = true});
  assert_true((m->by_draw != NULL) == (r->ncalls < 0));
  assert_int_equal(m->ncalls, r->ncalls < 0 ? 0 : r->ncalls);
  assert_int_equal(m->n_obs, r->n_obs);
  assert_int_equal(one_by_one->n_obs, r->n_obs);
  assert_int_equal(by_draw->n_obs, r->n_obs);
  double *u = test_point(c, POINTS * m->dim, 7, 1.2);
  DensityAt *d = densities(c, m, u, POINTS), *e = densities(c, one_by_one, u, POINTS),
            *f = densities(c, by_draw, u, POINTS);
  size_t finite = 0;
  for (size_t i = 0; i < POINTS; i++) {
    DensityAt alone = density(c, m, u + i * m->dim);
    same_density(&d[i], &alone);
    same_density(&d[i], &e[i]);
    same_density(&d[i], &f[i]);
    finite += isfinite(d[i].lp) != 0;
    if (isfinite(d[i].lp) && r->smooth && i % 8 == 0)
      expect_gradient(c, m, u + i * m->dim, &d[i], 1e-6);
  }
  assert_true(finite > POINTS / 4);
  assert_true((finite < POINTS) == r->rejects);
}

/* The same again after so many other courses that none of the first ones is left. */
TEST(forgotten_courses_are_found_again) {
  enum { MANY = 600 };
  const Model *m = model_with(c, &rows[0], (ModelOptions){.nobserve = 0});
  double *u = test_point(c, POINTS * m->dim, 7, 1.2), *far = test_point(c, MANY * m->dim, 9, 3);
  DensityAt *before = densities(c, m, u, POINTS);
  densities(c, m, far, MANY);
  DensityAt *after = densities(c, m, u, POINTS);
  for (size_t i = 0; i < POINTS; i++) same_density(&before[i], &after[i]);
}

int main(void) {
  static Suite suite;
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
    suite_add(&suite, rows[k].what, all_ways_agree, &rows[k]);
  SUITE_ADD(&suite, forgotten_courses_are_found_again);
  return suite_run("runs", &suite);
}
