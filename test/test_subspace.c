/* test_subspace.c: an objective on a part of q: gradients and curvature against differences, what
 * stays, and the law of widths that grow together: their variances keep their differences. */
#include "objective.h"

#include "infer/exact.h"
#include "infer/subspace.h"
#include "num/linalg.h"

static const char program[] =
    "data { int N; vector[N] x; vector[N] y; array[N] int g; }"
    "parameters { vector[4] a; real b; real s; }"
    "model { a ~ normal(0, 2); b ~ normal(0, 2); s ~ normal(0, 1); y ~ normal(a[g] + b * x, "
    "exp(s)); }";
static const char values[] =
    "{\"N\": 8, \"x\": [-1, 0.5, 2, 1, -0.3, 0, 1.5, 0.7], \"y\": [0.1, 1, 3, -1, 0.4, 0.2, 2, 1],"
    " \"g\": [1, 2, 3, 4, 1, 2, 3, 4]}";
enum { DIM = 6 };

/* What is free, by parameter a[1..4], b, s. */
typedef struct {
  const char *name, *family;
  bool fixed[DIM];
  int group[DIM];
  size_t coordinates;
} FreeRow;

static const FreeRow rows_of_freedom[] = {
    {"one number", "meanfield", {1, 1, 1, 1, 1, 0}, {0}, 2},
    {"a common width", "meanfield", {1, 1, 1, 1, 1, 1}, {1, 1, 1, 1}, 1},
    {"a common width and an element", "meanfield", {1, 0, 1, 1, 1, 1}, {1, 0, 1, 1}, 3},
    {"two groups", "meanfield", {1, 1, 1, 1, 1, 1}, {1, 1, 2, 2}, 2},
    {"full rank", "fullrank", {1, 1, 1, 1, 0, 1}, {1, 1, 1, 1}, 7},
    {"full rank, many", "fullrank", {1, 1, 0, 0, 0, 0}, {1, 1}, 23},
    {"low rank", "lowrank", {1, 1, 1, 1, 1, 0}, {1, 1, 1, 1}, 8},
};

typedef struct {
  Q q;
  Predictive *p;
  Subspace *s;
  Objective f;
  double *phi, *x;
} Place;

static Place place_of(Ctx *c, const FreeRow *r) {
  Place at;
  Model *m = model_of(c, program, values);
  Target t = {.score = SCORE_log, .regularizer = REG_POSTERIOR, .lambda = 0.1, .score_weight = 1};
  Observed *o = observed_make(&c->arena, m, NULL, 0, target_wants(&t));
  observed_reduce(o);
  Q *q = NEW(&c->arena, Q);
  *q = q_make(&c->arena, family_named(r->family), (Shape){0}, m->dim, NULL);
  at.q = *q;
  at.phi = some_phi(c, q);
  at.p = predictive_make(&c->arena, o, &t, q, (NoiseSet){0, 5}, NULL);
  predictive_use_curvature(&c->arena, at.p);
  Objective inner = predictive_objective(at.p);
  at.s = subspace_make(&c->arena, q, &(Freedom){r->fixed, r->group}, &inner, at.phi);
  at.f = subspace_objective(at.s);
  at.x = NEW_ARRAY(&c->arena, double, at.f.dim + 1);
  subspace_start(at.s, at.x);
  return at;
}

static double value_of(const Place *at, const double *x) {
  double v;
  assert_true(at->f.eval(at->f.self, x, &v, NULL));
  return v;
}

/* Coordinates of the start are the start, and so is the objective there. */
TEST(start) {
  const FreeRow *r = row;
  Place at = place_of(c, r);
  assert_int_equal(at.f.dim, r->coordinates);
  const double *phi = subspace_phi(at.s, at.x);
  for (size_t e = 0; e < q_size(&at.q); e++) assert_close(phi[e], at.phi[e], 1e-13);
  assert_close(value_of(&at, at.x), value_at(at.p, at.phi), 1e-12);
}

TEST(gradient) {
  Place at = place_of(c, row);
  double v, *grad = NEW_ARRAY(&c->arena, double, at.f.dim);
  assert_true(at.f.eval(at.f.self, at.x, &v, grad));
  for (size_t k = 0; k < at.f.dim; k++) {
    double f[4], h = 1e-5, x = at.x[k];
    static const double step[4] = {-2, -1, 1, 2};
    for (int i = 0; i < 4; i++) {
      at.x[k] = x + step[i] * h;
      f[i] = value_of(&at, at.x);
    }
    at.x[k] = x;
    assert_true(fabs(difference(f, h) - grad[k]) < 3e-6 * fmax(1, fabs(grad[k])));
  }
}

/* Minus the second derivatives; of a width that is pulled through its logarithm, about. */
TEST(curvature) {
  Place at = place_of(c, row);
  size_t n = at.f.dim;
  if (!at.f.curvature) return;
  double v, *A = NEW_ARRAY(&c->arena, double, n *n), *up = NEW_ARRAY(&c->arena, double, n),
            *down = NEW_ARRAY(&c->arena, double, n), most = 0;
  assert_true(at.f.curvature(at.f.self, at.x, A) > 0);
  for (size_t k = 0; k < n * n; k++) most = fmax(most, fabs(A[k]));
  bool about = n > 8; /* then the second derivative of the logarithm itself is left out */
  for (size_t k = 0; k < n; k++) {
    double h = 1e-4, x = at.x[k];
    at.x[k] = x + h;
    assert_true(at.f.eval(at.f.self, at.x, &v, up));
    at.x[k] = x - h;
    assert_true(at.f.eval(at.f.self, at.x, &v, down));
    at.x[k] = x;
    for (size_t i = 0; i < n; i++) {
      if (about && i == k && i + 1 == n) continue;
      double d = (down[i] - up[i]) / (2 * h);
      if (!(fabs(d - A[k * n + i]) <= 1e-3 * most))
        fail_msg("%zu, %zu: %g, by differences %g", k, i, A[k * n + i], d);
    }
  }
}

/* Whatever the coordinates: what is fixed and in no group has the same mean, sd and correlations
 * with its like, and the own variances of a group grow by the same number. */
TEST(what_stays) {
  const FreeRow *r = row;
  Place at = place_of(c, r);
  uint64_t seed = 9;
  for (size_t k = 0; k < at.f.dim; k++) at.x[k] += uniform(&seed, 0, 0.5);
  const double *phi = subspace_phi(at.s, at.x);
  double mean[2][DIM], sd[2][DIM], grown[3] = {NAN, NAN, NAN};
  q_moments(&at.q, at.phi, mean[0], sd[0]);
  q_moments(&at.q, phi, mean[1], sd[1]);
  for (int k = 0; k < DIM; k++) {
    if (!r->fixed[k]) continue;
    assert_close(mean[0][k], mean[1][k], 1e-13);
    long e = q_spread_entry(&at.q, (size_t)k);
    double more = exp(2 * phi[e]) - exp(2 * at.phi[e]), *first = &grown[r->group[k]];
    if (!r->group[k]) assert_close(sd[0][k], sd[1][k], 1e-13);
    if (r->group[k] && isnan(*first)) *first = more;
    if (r->group[k]) assert_close(more, *first, 1e-12);
  }
}

int main(void) {
  static Suite s;
  for (size_t k = 0; k < sizeof rows_of_freedom / sizeof *rows_of_freedom; k++) {
    const FreeRow *r = &rows_of_freedom[k];
    suite_add(&s, r->name, start, r);
    suite_add(&s, r->name, gradient, r);
    suite_add(&s, r->name, curvature, r);
    suite_add(&s, r->name, what_stays, r);
  }
  return suite_run("subspace", &s);
}
