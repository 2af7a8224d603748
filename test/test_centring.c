/* test_centring.c: hierarchies in coordinates of their own: for random programs the density there
 * is the program's times the Jacobian, and its gradient that of finite differences; which
 * parameters can be moved; funnels that chains get through; the same bytes for any number of
 * threads and after interruptions. */
#include "evaluate.h"

#include "interrupted_chains.h"
#include "infer/coordinates.h"
#include "infer/ess.h"
#include "infer/posterior.h"
#include "infer/sampler.h"
#include "num/stats.h"

/* ---- random hierarchies ---------------------------------------------------------------------- */

static const char *pick(const char *const *words, size_t n, uint64_t *state) {
  return words[(size_t)uniform(state, 0, (double)n)];
}
#define PICK(words, state) pick(words, sizeof words / sizeof *words, state)

/* b around a around m, in any distribution with a location and a scale; vectorized, in a loop,
 * element by element, as an increment. The scales depend on parameters of their own, on those of
 * the level above, or on both. */
static const char *random_program(Ctx *c, uint64_t *state) {
  static const char *const dists[] = {"normal(", "student_t(4, ", "cauchy(", "logistic(",
                                      "double_exponential("};
  static const char *const means[] = {"m", "0", "m + 0.2 * l", "-2 * m"};
  static const char *const scales[] = {"s", "exp(0.3 * l)", "s * 0.7", "sqrt(s + t)", "1 / s"};
  static const char *const inner[] = {"t", "t * s", "exp(0.2 * a[1])", "v[g]"};
  const char *mean = PICK(means, state), *scale = PICK(scales, state), *below = PICK(inner, state),
             *upper = PICK(dists, state), *lower = PICK(dists, state);
  const char *groups[] = {
      arena_format(&c->arena, "a ~ %s%s, %s);", upper, mean, scale),
      arena_format(&c->arena, "for (j in 1 : 3) a[j] ~ %s%s, %s);", upper, mean, scale),
      arena_format(&c->arena, "target += normal_lpdf(a | %s, %s);", mean, scale),
      arena_format(&c->arena, "a[2] ~ %s%s, %s);", upper, mean, scale)};
  const char *units[] = {
      arena_format(&c->arena, "b ~ %sa[g], %s);", lower, below),
      arena_format(&c->arena, "for (i in 1 : N) b[i] ~ %sa[g[i]], t);", lower),
      arena_format(&c->arena, "b[1 : 2] ~ %sa[1], s); b[3] ~ %sm, t);", lower, upper),
      arena_format(&c->arena, "b ~ %sm + 0.5 * a[g], %s);", lower, below)};
  return arena_format(
      &c->arena,
      "data { int N; array[N] int g; vector[N] y; }"
      "parameters { vector[N] b; real m; vector[3] a; real<lower=0> s; real l; real<lower=0> t;"
      " vector<lower=0>[3] v; }"
      "model { m ~ normal(0, 2); s ~ normal(0, 1); l ~ normal(0, 1); t ~ normal(0, 1);"
      " v ~ normal(0, 1); %s %s y ~ normal(b, 0.5); }",
      PICK(groups, state), PICK(units, state));
}

/* log |det A|, A [n x n], by elimination; A is used up. */
static double log_determinant(double *A, size_t n) {
  double sum = 0;
  for (size_t k = 0; k < n; k++) {
    size_t best = k;
    for (size_t i = k; i < n; i++)
      if (fabs(A[i * n + k]) > fabs(A[best * n + k])) best = i;
    for (size_t j = 0; j < n; j++) {
      double x = A[k * n + j];
      A[k * n + j] = A[best * n + j];
      A[best * n + j] = x;
    }
    sum += log(fabs(A[k * n + k]));
    for (size_t i = k + 1; i < n; i++)
      for (size_t j = n; j-- > k;) A[i * n + j] -= A[i * n + k] / A[k * n + k] * A[k * n + j];
  }
  return sum;
}

/* log |dx / dw| by differences of the way out. */
static double log_jacobian(Ctx *c, const Coordinates *x, const double *w) {
  const double h = 1e-3;
  size_t dim = x->dim;
  double *A = NEW_ARRAY(&c->arena, double, dim *dim), *at = NEW_ARRAY(&c->arena, double, 4 * dim);
  for (size_t k = 0; k < dim; k++) {
    MovedPoint p[4];
    for (size_t s = 0; s < 4; s++) {
      p[s] = (MovedPoint){memcpy(at + s * dim, w, dim * sizeof *w), NULL};
      p[s].theta[k] += h * (double[]){-2, -1, 1, 2}[s];
    }
    coordinates_leave(x, p, 4);
    for (size_t i = 0; i < dim; i++)
      A[i * dim + k] =
          difference((double[]){at[i], at[dim + i], at[2 * dim + i], at[3 * dim + i]}, h);
  }
  return log_determinant(A, dim);
}

static const char data[] = "{\"N\": 3, \"g\": [1, 3, 1], \"y\": [0.4, -1, 2]}";

/* In and out again is where it was; the density is that of the program and the Jacobian; and the
 * gradient is the density's. */
static void expect_law(Ctx *c, const Model *m, Coordinates *x, uint64_t *state) {
  static const double shares[] = {0, 0.25, 0.5, 1};
  for (size_t k = 0; k < x->centring->n; k++) x->share[k] = shares[(int)uniform(state, 0, 4)];
  x->share[0] = 0.75;
  x->moved = true;
  const Observed *o = coordinates_observed(&c->arena, x, posterior_observed(&c->arena, m, NULL, 0));
  double *theta = test_point(c, m->dim, (uint64_t)uniform(state, 0, 1e9), 1),
         *w = memcpy(NEW_ARRAY(&c->arena, double, m->dim), theta, m->dim * sizeof *theta);
  const DensityAt before = density(c, m, theta);
  double lp = before.lp;
  coordinates_enter(x, &(MovedPoint){w, &lp}, 1);
  const DensityAt after = density(c, o->model, w);
  assert_close(after.lp, lp, 1e-12);
  assert_close(after.lp - before.lp, log_jacobian(c, x, w), 1e-7);
  expect_gradient(c, o->model, w, &after, 1e-7);
  coordinates_leave(x, &(MovedPoint){w, &lp}, 1);
  assert_close(lp, before.lp, 1e-12);
  for (size_t k = 0; k < m->dim; k++) assert_close(w[k], theta[k], 1e-12);
}

TEST(density_in_other_coordinates) {
  uint64_t state = 8;
  size_t deep = 0, moved = 0;
  for (int k = 0; k < 200; k++) {
    const char *program = random_program(c, &state);
    Model *m = model_of(c, program, data);
    Coordinates *x = coordinates_make(&c->arena, m);
    if (!x) fail_msg("nothing can be moved: %s", program);
    deep += x->centring->depth > 1;
    moved += x->centring->n;
    expect_law(c, m, x, &state);
  }
  assert_true(deep > 50 && moved > 200 * 3);
}

/* ---- what can be moved ----------------------------------------------------------------------- */

typedef struct {
  const char *name, *body;
  const char *moved; /* the numbers of theta */
} MovedRow;

static const MovedRow movable[] = {
    {"a hierarchy", "vector[2] x; real m; real<lower=0> s; } model { x ~ normal(m, s);", "0 1"},
    {"only a location", "vector[2] x; real m; } model { x ~ normal(m, 1);", "0 1"},
    {"no hierarchy", "vector[2] x; } model { x ~ normal(0, 1);", ""},
    {"written non-centred",
     "real<lower=0> s; vector<multiplier=s>[2] x; } model { x ~ normal(0, s);", ""},
    {"a constraint", "real<lower=0> x; real<lower=0> s; } model { x ~ normal(0, s);", ""},
    {"a walk",
     "vector[3] x; real<lower=0> s; } model { x[1] ~ normal(0, s); x[2 : 3] ~ normal(x[1 : 2], s);",
     "0"},
    {"a circle: the first is moved",
     "real x; real y; } model { x ~ normal(y, 1); y ~ normal(x, 1);", "0"},
    {"a scale of its own", "real x; } model { x ~ normal(0, exp(x));", ""},
    {"two statements: the first counts",
     "real x; real m; real<lower=0> s; } model { x ~ normal(m, 2); x ~ normal(0, s);", "0"},
    {"in a branch of a mixture",
     "real x; real<lower=0> s; } model { target += log_mix(0.3, normal_lpdf(x | 0, s),"
     " normal_lpdf(x | 0, 1));",
     "0"},
    {"one after the other",
     "real x; real y; real<lower=0> s; } model { x ~ normal(y, s); y ~ normal(0, s);", "0 1"},
};

TEST(what_can_be_moved) {
  const MovedRow *r = row;
  Model *m = model_of(c, arena_format(&c->arena, "parameters { %s }", r->body), NULL);
  const Centring *x = centring_find(&c->arena, m);
  Text t = text_make(&c->arena);
  text_puts(&t, "");
  for (size_t k = 0; x && k < x->n; k++) text_printf(&t, k ? " %d" : "%d", (int)x->parameter[k]);
  assert_string_equal(t.s, r->moved);
}

/* ---- funnels --------------------------------------------------------------------------------- */

static Sample *sample_of(Ctx *c, const Model *m, SampleOptions o, int threads) {
  uint64_t state = 3;
  double *start = NEW_ARRAY(&c->arena, double, o.chains * m->dim),
         *centre = NEW_ARRAY(&c->arena, double, m->dim);
  Metric first = metric_make(&c->arena, m->dim);
  for (size_t k = 0; k < o.chains * m->dim; k++) start[k] = uniform(&state, -2, 2);
  o.start = start;
  o.centre = centre;
  o.first = &first;
  o.recentre = true;
  Pool *pool = pool_make(c, threads);
  Sample *s = sample_run(c, posterior_observed(&c->arena, m, NULL, 0), &o, pool);
  pool_free(pool);
  return s;
}

static size_t divergences(const Sample *s) {
  size_t n = 0;
  for (size_t k = 0; k < s->chains; k++)
    for (size_t t = 0; t < s->draws; t++) n += s->chain[k]->stats[t].divergent != 0;
  return n;
}

/* The mean of parameter i, or of its square, and that it is known well. */
static void is_mean(Ctx *c, const Sample *s, size_t i, int power, double expected) {
  double *x = NEW_ARRAY(&c->arena, double, s->chains * s->draws);
  for (size_t k = 0; k < s->chains * s->draws; k++)
    x[k] = pow(sample_draw(s, k / s->draws, k % s->draws)[i], power);
  DrawsQuality q = ess_quality(ess_work(&c->arena, s->chains, s->draws), x);
  double mean = stat_mean(x, s->chains * s->draws);
  if (!(fabs(mean - expected) < 5 * q.mcse))
    fail_msg("%g instead of %g, with an error of %g", mean, expected, q.mcse);
  assert_true(q.rhat < 1.05 && q.ess_bulk > 400);
}

/* Neal's funnel, centred: y is normal(0, 3), and x given y normal with variance exp(y), so that the
 * mean of x is 0 and that of log x^2 known through y. */
static const char funnel[] =
    "parameters { real y; vector[9] x; } model { y ~ normal(0, 3); x ~ normal(0, exp(y / 2)); }";

TEST(funnel_is_gone_through) {
  Model *m = model_of(c, funnel, NULL);
  for (SamplerId method = 0; method < SAMPLER_COUNT; method++) {
    SampleOptions o = {.method = method,
                       .chains = 32,
                       .warmup = 300,
                       .draws = 400,
                       .metric = METRIC_AUTO,
                       .seed = 1};
    const Sample *s = sample_of(c, m, o, 1);
    assert_int_equal(divergences(s), 0);
    assert_true(s->share != NULL && s->share[0] == 0);
    for (size_t k = 1; k < 10; k++) assert_true(s->share[k] == 1);
    is_mean(c, s, 0, 1, 0);
    is_mean(c, s, 0, 2, 9);
  }
}

/* lp of the draws is the program's, and so is the metric: in the end nothing is left of the
 * coordinates but what they have brought. */
TEST(draws_are_of_the_program) {
  Model *m = model_of(c, funnel, NULL);
  SampleOptions o = {.chains = 20, .warmup = 200, .draws = 40, .metric = METRIC_DIAG, .seed = 1};
  const Sample *s = sample_of(c, m, o, 1);
  assert_true(s->share != NULL);
  for (size_t k = 0; k < s->chains; k++)
    for (size_t t = 0; t < s->draws; t++)
      assert_close(s->chain[k]->stats[t].lp, density(c, m, sample_draw(s, k, t)).lp, 1e-10);
  double mean = 0, square = 0, n = (double)(s->chains * s->draws);
  for (size_t k = 0; k < s->chains * s->draws; k++) {
    double x = sample_draw(s, k / s->draws, k % s->draws)[3];
    mean += x / n;
    square += x * x / (n - 1);
  }
  assert_close(s->metric.root[3] * s->metric.root[3], square - mean * mean * n / (n - 1), 0.01);
}

/* Eight schools, centred, as everybody has it: with next to no divergences, and to the means of its
 * non-centred twin. */
static const char schools_data[] = "{\"y\": [28, 8, -3, 7, -1, 1, 18, 12],"
                                   " \"sigma\": [15, 10, 16, 11, 9, 11, 10, 18]}";
#define SCHOOLS(declared)                                                                          \
  "data { vector[8] y; vector[8] sigma; } parameters { real mu; real<lower=0> tau; " declared      \
  " theta; } model { mu ~ normal(0, 5); tau ~ cauchy(0, 5); theta ~ normal(mu, tau);"              \
  " y ~ normal(theta, sigma); }"

TEST(eight_schools) {
  Model *centred = model_of(c, SCHOOLS("vector[8]"), schools_data),
        *other = model_of(c, SCHOOLS("vector<offset=mu, multiplier=tau>[8]"), schools_data);
  SampleOptions o = {.method = SAMPLER_chees,
                     .chains = 32,
                     .warmup = 150,
                     .draws = 500,
                     .metric = METRIC_AUTO,
                     .seed = 1};
  const Sample *s = sample_of(c, centred, o, 1), *t = sample_of(c, other, o, 1);
  assert_true(1000 * divergences(s) <= s->chains * s->draws);
  assert_true(s->share != NULL && t->share == NULL);
  for (size_t k = 0; k < 2; k++) {
    double *x = NEW_ARRAY(&c->arena, double, t->chains * t->draws);
    for (size_t i = 0; i < t->chains * t->draws; i++)
      x[i] = sample_draw(t, i / t->draws, i % t->draws)[k];
    is_mean(c, s, k, 1, stat_mean(x, t->chains * t->draws));
  }
}

/* Where a program has no funnel, chains stay in its coordinates. */
TEST(much_data_stay_centred) {
  Model *m =
      model_of(c,
               "data { int J; vector[J] y; } parameters { real m; real<lower=0> s; vector[J] "
               "x; } model { s ~ normal(0, 1); x ~ normal(m, s); y ~ normal(x, 0.05); }",
               "{\"J\": 8, \"y\": [1.2, -0.4, 0.3, 2, -1.1, 0.1, 0.8, -0.2]}");
  SampleOptions o = {.method = SAMPLER_chees,
                     .chains = 32,
                     .warmup = 150,
                     .draws = 100,
                     .metric = METRIC_AUTO,
                     .seed = 1};
  assert_true(sample_of(c, m, o, 1)->share == NULL);
}

/* ---- threads and interruptions --------------------------------------------------------------- */

static void same_draws(const Sample *a, const Sample *b) {
  assert_int_equal(a->draws, b->draws);
  for (size_t k = 0; k < a->chains; k++)
    assert_memory_equal(a->chain[k]->draws, b->chain[k]->draws, a->draws * a->dim * sizeof(double));
}

TEST(threads_do_not_matter) {
  Model *m = model_of(c, SCHOOLS("vector[8]"), schools_data);
  for (SamplerId method = 0; method < SAMPLER_COUNT; method++) {
    SampleOptions o = {.method = method, .chains = 40, .warmup = 60, .draws = 20, .seed = 2};
    const Sample *one = sample_of(c, m, o, 1);
    assert_true(one->share != NULL);
    for (int threads = 2; threads <= 5; threads += 3) same_draws(one, sample_of(c, m, o, threads));
  }
}

/* With more draws where the chains do not agree, so that some have left their coordinates when it
 * is interrupted, and others have not. */
TEST(resumed_is_the_same) {
  Model *m = model_of(c, SCHOOLS("vector[8]"), schools_data);
  for (SamplerId method = 0; method < SAMPLER_COUNT; method++) {
    Interrupted x = {.most = method == SAMPLER_chees ? 12 : 2, .state = text_make(&c->arena)};
    SampleOptions o = {
        .method = method, .chains = 20, .warmup = 120, .draws = 10, .most = 40, .seed = 2};
    const Sample *whole = sample_of(c, m, o, 1), *s = NULL;
    assert_true(whole->share != NULL && whole->draws > 10);
    o.cancelled = looks_up;
    o.self = o.save_self = &x;
    o.save = keeps_state;
    o.save_every = HUGE_VAL;
    int times = 0;
    do {
      o.resume =
          x.state.n ? memcpy(NEW_ARRAY(&c->arena, char, x.state.n), x.state.s, x.state.n) : NULL;
      o.nresume = x.state.n;
      x.looks = 0;
      s = sample_of(c, m, o, 1);
    } while (s->interrupted && ++times < 1000);
    assert_true(!s->interrupted && times > 1);
    assert_int_equal(s->evaluations, whole->evaluations);
    same_draws(whole, s);
    assert_memory_equal(whole->share, s->share, m->dim * sizeof(double));
  }
}

int main(void) {
  Suite s = {.n = 0};
  SUITE_ADD(&s, density_in_other_coordinates);
  for (size_t k = 0; k < sizeof movable / sizeof *movable; k++)
    suite_add(&s, movable[k].name, what_can_be_moved, &movable[k]);
  SUITE_ADD(&s, funnel_is_gone_through);
  SUITE_ADD(&s, draws_are_of_the_program);
  SUITE_ADD(&s, eight_schools);
  SUITE_ADD(&s, much_data_stay_centred);
  SUITE_ADD(&s, threads_do_not_matter);
  SUITE_ADD(&s, resumed_is_the_same);
  return suite_run("centring", &s);
}
