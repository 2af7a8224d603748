/* test_api.c: include/pvi.h as its users meet it: only the public header is used, besides the
 * testing helpers. */
#include "testing.h"

#include "pvi.h"

#include <malloc.h>
#include <pthread.h>

#define LOGISTIC "examples/golf/logistic.stan"
#define GOLF "examples/golf/golf.csv"

static const char normal_program[] =
    "data { int<lower=1> n; vector[n] y; }\n"
    "parameters { real theta; }\n"
    "model { theta ~ normal(0, 10); y ~ normal(theta, 1); }\n"
    "generated quantities { vector[n] y_sim; for (i in 1:n) y_sim[i] = normal_rng(theta, 1); }\n";
enum { N = 10 };
static const double ys[N] = {0.3, -1.2, 2.5, 0.8, -0.4, 1.9, -2.1, 0.6, 1.1, -0.7};
static const char normal_data[] =
    "{\"n\": 10, \"y\": [0.3, -1.2, 2.5, 0.8, -0.4, 1.9, -2.1, 0.6, 1.1, -0.7]}";

/* A context whose calls are expected to succeed. */
static pvi_context *open_context(void) {
  pvi_context *c = pvi_open();
  assert_non_null(c);
  assert_string_equal(pvi_error(c), "");
  return c;
}

static void succeeds(pvi_context *c, int status) {
  if (status) fail_msg("status %d: %s", status, pvi_error(c));
}

/* A fit whose result is whole, converged or not. */
static void fits(pvi_context *c, int status) {
  if (status != PVI_STATUS_NOT_CONVERGED) succeeds(c, status);
}

static pvi_model *normal_model(pvi_context *c) {
  pvi_model *m;
  succeeds(c, pvi_load_text(c, normal_program, normal_data, NULL, &m));
  return m;
}

/* "score=elbo draws=64" as options. */
static pvi_options *options(pvi_context *c, const char *text) {
  pvi_options *o = pvi_options_new(c);
  assert_non_null(o);
  char *copy = strdup(text), *rest = NULL;
  for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    char *value = strchr(word, '=');
    *value = 0;
    succeeds(c, pvi_set(o, word, value + 1));
  }
  free(copy);
  return o;
}

/* A fit whose result is whole. */
static pvi_run *run_of(pvi_context *c, const pvi_model *m, const char *text,
                       const pvi_split *split) {
  pvi_options *o = options(c, text);
  pvi_run *r = NULL;
  fits(c, pvi_fit(c, m, o, split, &r));
  assert_non_null(r);
  pvi_options_free(o);
  return r;
}

static double normal_lpdf(double y, double mu, double sigma) {
  double z = (y - mu) / sigma;
  return -0.5 * z * z - log(sigma) - 0.5 * log(2 * M_PI);
}

/* ---- models ---------------------------------------------------------------------------------- */

TEST(versions) { assert_true(strlen(pvi_version()) > 0); }

TEST(sizes_and_names) {
  pvi_context *p = open_context();
  pvi_model *m;
  succeeds(p, pvi_load(p, LOGISTIC, GOLF, NULL, &m));
  assert_int_equal(pvi_dim(m), 2);
  assert_int_equal(pvi_observations(m), 19);
  assert_string_equal(pvi_parameter(m, 0), "theta0");
  assert_string_equal(pvi_parameter(m, 1), "theta1");
  assert_null(pvi_parameter(m, 2));
  pvi_model_free(m);
  pvi_close(p);
}

TEST(text_equals_file) {
  pvi_context *p = open_context();
  pvi_model *file, *text;
  double point[2] = {-0.2, 2}, a, b;
  char *program = strdup(read_file(c, LOGISTIC)), *data = strdup(read_file(c, GOLF));
  succeeds(p, pvi_load(p, LOGISTIC, GOLF, NULL, &file));
  succeeds(p, pvi_load_text(p, program, data, NULL, &text));
  memset(program, 'x', strlen(program)); /* the library keeps no pointer into them */
  memset(data, 'x', strlen(data));
  free(program);
  free(data);
  succeeds(p, pvi_density(p, file, point, 1, &(pvi_densities){.lp = &a}));
  succeeds(p, pvi_density(p, text, point, 1, &(pvi_densities){.lp = &b}));
  assert_true(a == b);
  assert_string_equal(pvi_parameter(text, 1), "theta1");
  pvi_model_free(file);
  pvi_model_free(text);
  pvi_close(p);
}

/* ---- densities ------------------------------------------------------------------------------- */

/* In closed form, for more points than fit into one batch, and again for fewer. */
TEST(density_of_a_normal) {
  enum { POINTS = 150 };
  pvi_context *p = open_context();
  pvi_model *m = normal_model(p);
  double points[POINTS], lp[POINTS], gradient[POINTS], pointwise[POINTS * N];
  for (int k = 0; k < POINTS; k++) points[k] = -3 + 0.04 * k;
  for (size_t count = POINTS; count > 0; count /= 7) {
    succeeds(p,
             pvi_density(p, m, points, count,
                         &(pvi_densities){.lp = lp, .gradient = gradient, .pointwise = pointwise}));
    for (size_t k = 0; k < count; k++) {
      double want = normal_lpdf(points[k], 0, 10), slope = -points[k] / 100;
      for (int i = 0; i < N; i++) {
        assert_close(pointwise[k * N + (size_t)i], normal_lpdf(ys[i], points[k], 1), 1e-13);
        want += normal_lpdf(ys[i], points[k], 1);
        slope += ys[i] - points[k];
      }
      assert_close(lp[k], want, 1e-13);
      assert_close(gradient[k], slope, 1e-13);
    }
  }
  succeeds(p, pvi_density(p, m, points, 0, &(pvi_densities){.lp = lp}));
  pvi_model_free(m);
  pvi_close(p);
}

/* What `pvi density` prints for golf at (-0.25, 2.2), and binomial probabilities in closed form. */
TEST(density_of_golf) {
  static const double x[3] = {2, 3, 4}, tries[3] = {1443, 694, 455}, made[3] = {1346, 577, 337};
  pvi_context *p = open_context();
  pvi_model *m;
  double point[2] = {-0.25, 2.2}, lp, gradient[2], pointwise[19], sum = 0;
  succeeds(p, pvi_load(p, LOGISTIC, GOLF, NULL, &m));
  succeeds(p,
           pvi_density(p, m, point, 1,
                       &(pvi_densities){.lp = &lp, .gradient = gradient, .pointwise = pointwise}));
  for (int k = 0; k < 3; k++) {
    double eta = point[0] * x[k] + point[1],
           choose = lgamma(tries[k] + 1) - lgamma(made[k] + 1) - lgamma(tries[k] - made[k] + 1);
    assert_close(pointwise[k], choose + made[k] * eta - tries[k] * log1p(exp(eta)), 1e-11);
  }
  for (int k = 0; k < 19; k++) sum += pointwise[k];
  assert_close(lp, sum + normal_lpdf(point[0], 0, 1) + normal_lpdf(point[1], 0, 1), 1e-13);
  assert_close(lp, -185.6711364403887, 1e-10);
  assert_close(gradient[0], -206.2435406629653, 1e-9);
  assert_close(gradient[1], -12.735499747131655, 1e-9);
  pvi_model_free(m);
  pvi_close(p);
}

/* ---- fits ------------------------------------------------------------------------------------ */

#define exactness (accurate ? 1.0 : 50.0) /* a factor of tolerances */

/* The optimum by adaptive quadrature is -84.113, all width in the intercept: sd 0.4445. */
TEST(fit_of_golf) {
  pvi_context *p = open_context();
  pvi_model *m;
  succeeds(p, pvi_load(p, LOGISTIC, GOLF, NULL, &m));
  pvi_run *run = run_of(p, m, "family=meanfield lambda=0 threads=2", NULL);
  const pvi_result *r = pvi_result_of(run);
  assert_true(r->converged || exactness > 1);
  assert_true(fabs(r->objective + 84.113) < 0.1 * exactness);
  assert_true(r->score == r->objective);
  assert_true(r->sd[0] < 0.01 * exactness && fabs(r->sd[1] - 0.4445) < 0.03 * exactness);
  assert_string_equal(r->family, "meanfield");
  assert_true(r->evaluations > 0 && r->seconds > 0 && strlen(r->reason) > 0);
  assert_int_equal(pvi_score_of(run, "train", "log").n, 19);
  assert_int_equal(pvi_score_of(run, "test", "log").n, 0);
  assert_null(r->folder);
  pvi_run_free(run);
  pvi_model_free(m);
  pvi_close(p);
}

/* VI of a normal location is the posterior: normal(m, s); so the predictive distribution of what is
 * held out is known. */
TEST(heldout_scores) {
  static const size_t test[3] = {7, 2, 4}, sorted[3] = {2, 4, 7};
  pvi_context *p = open_context();
  pvi_model *m = normal_model(p);
  pvi_run *run =
      run_of(p, m, "score=elbo family=meanfield alpha=0.2", &(pvi_split){.test = test, .ntest = 3});
  const pvi_result *r = pvi_result_of(run);
  assert_true(r->converged || exactness > 1);
  double precision = 7 + 0.01, mean = 0;
  for (size_t k = 0; k < N; k++) mean += k == 7 || k == 2 || k == 4 ? 0 : ys[k] / precision;
  assert_true(fabs(r->mean[0] - mean) < 0.01 &&
              fabs(r->sd[0] - 1 / sqrt(precision)) < 0.01 * exactness);
  double scale = sqrt(1 + r->sd[0] * r->sd[0]), z = 1.2815515655446004, total = 0;
  for (size_t k = 0; k < 3; k++) {
    double y = ys[sorted[k]], d = (y - r->mean[0]) / scale, L = r->mean[0] - z * scale,
           U = r->mean[0] + z * scale;
    double pdf = exp(-0.5 * d * d) / sqrt(2 * M_PI);
    total += normal_lpdf(y, r->mean[0], scale);
    assert_int_equal(pvi_score_of(run, "test", "log").observations[k], sorted[k]);
    assert_close(pvi_score_of(run, "test", "log").rows[k], normal_lpdf(y, r->mean[0], scale), 1e-3);
    assert_close(pvi_score_of(run, "test", "log_at_mean").rows[k], normal_lpdf(y, r->mean[0], 1),
                 1e-12);
    assert_close(pvi_score_of(run, "test", "crps").rows[k],
                 -scale * (d * erf(d * M_SQRT1_2) + 2 * pdf - 1 / sqrt(M_PI)), 1e-3);
    assert_close(pvi_score_of(run, "test", "interval").rows[k],
                 L - U - 10 * (fmax(L - y, 0) + fmax(y - U, 0)), 1e-2);
  }
  assert_close(pvi_score_of(run, "test", "log").sum, total, 1e-3);
  assert_null(pvi_score_of(run, "test", "quadratic").rows);
  assert_true(isnan(pvi_score_of(run, "test", "quadratic").sum));
  assert_int_equal(pvi_scores(run), 8);
  pvi_run_free(run);
  pvi_model_free(m);
  pvi_close(p);
}

/* Giving the training rows is the same as giving the rest. */
TEST(train_rows) {
  static const size_t train[4] = {0, 1, 3, 9}, test[6] = {2, 4, 5, 6, 7, 8};
  static const char text[] = "score=elbo family=meanfield draws=64";
  pvi_context *p = open_context();
  pvi_model *m = normal_model(p);
  pvi_run *a = run_of(p, m, text, &(pvi_split){.train = train, .ntrain = 4});
  pvi_run *b = run_of(p, m, text, &(pvi_split){.test = test, .ntest = 6});
  double mean = pvi_result_of(a)->mean[0];
  assert_true(mean == pvi_result_of(b)->mean[0] &&
              pvi_result_of(a)->sd[0] == pvi_result_of(b)->sd[0]);
  assert_true(fabs(mean - (0.3 - 1.2 + 0.8 - 0.7) / 4.01) < 0.02);
  pvi_run_free(a);
  pvi_run_free(b);
  pvi_model_free(m);
  pvi_close(p);
}

/* A point has no width: PVI over nothing is maximum likelihood. */
TEST(points) {
  pvi_context *p = open_context();
  pvi_model *m = normal_model(p);
  double mean = 0;
  for (int k = 0; k < N; k++) mean += ys[k] / N;
  pvi_run *r = run_of(p, m, "family=meanfield point=theta draws=16 lambda=0", NULL);
  assert_true(fabs(pvi_result_of(r)->mean[0] - mean) < 1e-3 && pvi_result_of(r)->sd[0] == 0);
  pvi_run_free(r);
  pvi_model_free(m);
  pvi_close(p);
}

/* The same program without its density: the CRPS by simulation is close to that of the density. */
TEST(likelihood_free) {
  static const size_t test[2] = {0, 5};
  pvi_split split = {.test = test, .ntest = 2};
  pvi_context *p = open_context();
  pvi_model *m = normal_model(p), *free_of_density;
  pvi_options *o = options(p, "simulate=y_sim observed=y");
  succeeds(p, pvi_load_text(p, normal_program, normal_data, o, &free_of_density));
  assert_int_equal(pvi_observations(free_of_density), N);
  pvi_run *known = run_of(p, m, "score=crps family=meanfield draws=256 lambda=0", &split);
  pvi_run *simulated =
      run_of(p, free_of_density, "score=crps_sim family=meanfield draws=256 lambda=0", &split);
  double a = pvi_score_of(known, "test", "crps").sum,
         b = pvi_score_of(simulated, "test", "crps_sim").sum;
  if (exactness == 1 && !(fabs(a - b) < 0.15)) fail_msg("%g and %g", a, b);
  assert_null(pvi_score_of(simulated, "test", "log").rows);
  pvi_run_free(known);
  pvi_run_free(simulated);
  pvi_model_free(free_of_density);
  pvi_model_free(m);
  pvi_options_free(o);
  pvi_close(p);
}

/* A simulator in C whose outcome is theta itself: q becomes the distribution of the data. */
static int copy_theta(void *self, const double *theta, size_t M, size_t ld, uint64_t seed,
                      double *out) {
  (void)self, (void)seed;
  for (size_t i = 0; i < N; i++)
    for (size_t j = 0; j < M; j++) out[i * ld + j] = theta[j];
  return 1;
}
static int copy_back(void *self, const double *theta, size_t M, size_t ld, uint64_t seed,
                     const double *adj, double *adj_theta) {
  (void)self, (void)seed, (void)theta;
  for (size_t i = 0; i < N; i++)
    for (size_t j = 0; j < M; j++) adj_theta[j] += adj[i * ld + j];
  return 1;
}

TEST(simulators_in_C) {
  pvi_context *p = open_context();
  pvi_options *o = options(p, "draws=256 lambda=0");
  pvi_run *r;
  double zero = 0, ten = 10, mean = 0, ss = 0;
  for (int k = 0; k < N; k++) mean += ys[k] / N;
  for (int k = 0; k < N; k++) ss += (ys[k] - mean) * (ys[k] - mean) / N;
  pvi_simulator s = {.dim = 1,
                     .n = N,
                     .width = 1,
                     .y = ys,
                     .prior_mean = &zero,
                     .prior_sd = &ten,
                     .simulate = copy_theta,
                     .pullback = copy_back};
  fits(p, pvi_fit_simulator(p, &s, o, &r));
  assert_true(fabs(pvi_result_of(r)->mean[0] - mean) < 0.1 &&
              fabs(pvi_result_of(r)->sd[0] - sqrt(ss)) < 0.3);
  pvi_run_free(r);
  s.n = 0;
  assert_int_equal(pvi_fit_simulator(p, &s, o, &r), PVI_STATUS_USAGE);
  assert_null(r);
  s.n = N;
  s.pullback = NULL;
  assert_int_equal(pvi_fit_simulator(p, &s, o, &r), PVI_STATUS_USAGE);
  pvi_options_free(o);
  pvi_close(p);
}

/* The same through outcomes that serve all observations: 20 numbers around theta. With a folder an
 * interrupted fit goes on, and draws, log q, scores and reports of the run are there. */
enum { WIDE = 20 };
static int copy_one(void *self, const pvi_simulator_draw *d, double *out) {
  (void)self;
  for (int k = 0; k < WIDE; k++) out[k] = d->theta[0] + 0.1 * k;
  return 1;
}
static int copy_one_back(void *self, const pvi_simulator_draw *d, const double *adj,
                         double *adj_theta) {
  (void)self, (void)d;
  for (int k = 0; k < WIDE; k++) adj_theta[0] += adj[k];
  return 1;
}
static int stop_at_twenty(void *self, const pvi_progress *progress) {
  (void)self;
  return progress->done == 20;
}

TEST(shared_simulators_in_C) {
  pvi_context *p = open_context();
  char folder[] = "/tmp/pvi-test-XXXXXX";
  assert_non_null(mkdtemp(folder));
  pvi_options *o = options(p, "draws=32 lambda=0 iterations=300 learning-rate=0.05 checkpoint=0");
  pvi_run *r, *again;
  pvi_draws *d;
  const char *text;
  double zero = 0, ten = 10, mean = 0, ss = 0, *y = NEW_ARRAY(&c->arena, double, N *WIDE), lq;
  for (int k = 0; k < N; k++) mean += ys[k] / N;
  for (int k = 0; k < N; k++) ss += (ys[k] - mean) * (ys[k] - mean) / N;
  for (int k = 0; k < N * WIDE; k++) y[k] = ys[k / WIDE] + 0.1 * (k % WIDE);
  pvi_simulator s = {.dim = 1,
                     .n = N,
                     .width = WIDE,
                     .y = y,
                     .prior_mean = &zero,
                     .prior_sd = &ten,
                     .simulate_one = copy_one,
                     .pullback_one = copy_one_back};
  fits(p, pvi_fit_simulator(p, &s, o, &r));
  assert_true(fabs(pvi_result_of(r)->mean[0] - mean) < 0.1 &&
              fabs(pvi_result_of(r)->sd[0] - sqrt(ss)) < 0.3);
  assert_int_equal(pvi_score_of(r, "train", "energy").n, N);
  pvi_set(o, "out", folder);
  pvi_on_progress(p, stop_at_twenty, NULL);
  assert_int_equal(pvi_fit_simulator(p, &s, o, &again), PVI_STATUS_INTERRUPTED);
  assert_non_null(pvi_result_of(again)->folder);
  pvi_run_free(again);
  pvi_on_progress(p, NULL, NULL);
  fits(p, pvi_fit_simulator(p, &s, o, &again));
  assert_true(pvi_result_of(again)->mean[0] == pvi_result_of(r)->mean[0] &&
              pvi_result_of(again)->sd[0] == pvi_result_of(r)->sd[0] &&
              pvi_result_of(again)->objective == pvi_result_of(r)->objective);
  assert_int_equal(pvi_draw(p, again, 100, 1, &d), PVI_STATUS_OK);
  assert_int_equal(d->ncols, 1);
  assert_string_equal(d->names[0], "theta.1");
  assert_int_equal(pvi_log_q(p, again, d->theta, 1, &lq), PVI_STATUS_OK);
  assert_true(fabs(lq - d->log_q[0]) < 1e-9);
  assert_int_equal(pvi_fit_report(p, again, NULL, &text), PVI_STATUS_OK);
  assert_non_null(strstr(text, "energy"));
  assert_int_equal(pvi_summary_report(p, again, NULL, &text), PVI_STATUS_OK);
  assert_int_equal(pvi_draws_report(p, again, NULL, &text), PVI_STATUS_USAGE);
  pvi_draws_free(d);
  pvi_run_free(again);
  pvi_run_free(r);
  s.noise_sd = -1;
  assert_int_equal(pvi_fit_simulator(p, &s, o, &r), PVI_STATUS_USAGE);
  s.noise_sd = 0;
  y[3] = NAN;
  assert_int_equal(pvi_fit_simulator(p, &s, o, &r), PVI_STATUS_DATA);
  pvi_options_free(o);
  pvi_close(p);
  assert_int_equal(system(arena_format(&c->arena, "rm -r %s", folder)), 0);
}

TEST(times) {
  pvi_context *p = open_context();
  pvi_model *m = normal_model(p);
  pvi_options *o = options(p, "draws=16 threads=1");
  double seconds;
  succeeds(p, pvi_time(p, m, o, &seconds));
  assert_true(seconds > 0 && seconds < 1);
  pvi_options_free(o);
  pvi_model_free(m);
  pvi_close(p);
}

/* ---- options --------------------------------------------------------------------------------- */

TEST(options_by_name) {
  pvi_context *p = open_context();
  pvi_options *o = pvi_options_new(p);
  assert_string_equal(pvi_get(o, "lambda"), "auto");
  succeeds(p, pvi_set(o, "lambda", "0.5"));
  assert_string_equal(pvi_get(o, "lambda"), "0.5");
  succeeds(p, pvi_set(o, "lambda", NULL));
  assert_string_equal(pvi_get(o, "lambda"), "auto");
  succeeds(p, pvi_set(o, "point", "a,b"));
  succeeds(p, pvi_set(o, "point", "c"));
  assert_string_equal(pvi_get(o, "point"), "a,b,c");
  assert_null(pvi_get(o, "lamda"));
  assert_true(pvi_option_count() > 30);
  for (size_t k = 0; k < pvi_option_count(); k++) {
    pvi_option x = pvi_option_at(k);
    assert_true(strlen(x.name) > 0 && strlen(x.help) > 10 && strlen(x.commands) > 0);
    if (*x.byself) succeeds(p, pvi_set(o, x.name, x.byself)); /* a default is allowed */
  }
  assert_null(pvi_option_at(pvi_option_count()).name);
  pvi_options_free(o);
  pvi_close(p);
}

typedef struct {
  const char *name, *value, *fragment;
} WrongOption;

static const WrongOption wrong_options[] = {
    {"lamda", "1", "unknown option \"lamda\"; did you mean \"lambda\"?"},
    {"score", "crp", "unknown value of score \"crp\"; did you mean \"crps\"?"},
    {"family", "mean-field", "did you mean \"meanfield\"?"},
    {"score", "best", "elbo, log, quadratic"},
    {"lambda", "-1", "lambda must be at least 0, not -1"},
    {"lambda", "nan", "lambda is a number"},
    {"lambda", "inf", "lambda must be finite"},
    {"alpha", "1.5", "alpha must be above 0, below 1, not 1.5"},
    {"draws", "1.5", "\"1.5\" is not an integer"},
    {"draws", "many", "draws is a whole number, not \"many\""},
    {"draws", "0", "draws must be at least 1"},
    {"learning-rate", "-3", "learning-rate must be above 0"},
    {"json", "maybe", "json takes no value"},
};

TEST(options_that_are_wrong) {
  pvi_context *p = open_context();
  pvi_options *o = pvi_options_new(p);
  for (size_t k = 0; k < sizeof wrong_options / sizeof *wrong_options; k++) {
    const WrongOption *w = &wrong_options[k];
    assert_int_equal(pvi_set(o, w->name, w->value), PVI_STATUS_USAGE);
    if (!strstr(pvi_error(p), w->fragment)) fail_msg("no \"%s\" in: %s", w->fragment, pvi_error(p));
    assert_null(strstr(pvi_error(p), "--")); /* dashes are the command line's */
  }
  assert_string_equal(pvi_get(o, "lambda"), "auto");
  pvi_options_free(o);
  pvi_close(p);
}

/* ---- errors ---------------------------------------------------------------------------------- */

typedef struct {
  const char *name, *program, *data; /* texts */
  const char *options;
  pvi_split split;
  int status;
  const char *fragment;
} Wrong;

static const size_t far_row[1] = {10}, twice[2] = {3, 3},
                    all_rows[N] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, row3[1] = {3};
static const Wrong wrongs[] = {
    {"a syntax error", "parameters { real b }", NULL, "", {0}, PVI_STATUS_PROGRAM, "^"},
    {"a type error",
     "parameters { real b; } model { int k = b; }",
     NULL,
     "",
     {0},
     PVI_STATUS_PROGRAM,
     "program:1:"},
    {"missing data", normal_program, "{\"n\": 3}", "", {0}, PVI_STATUS_DATA, "y"},
    {"no data at all", normal_program, NULL, "", {0}, PVI_STATUS_DATA, "n"},
    {"broken data", normal_program, "{\"n\": 3,", "", {0}, PVI_STATUS_DATA, "data:1:"},
    {"no observation",
     "parameters { real b; } model { b ~ std_normal(); }",
     NULL,
     "",
     {0},
     PVI_STATUS_PROGRAM,
     "no observation"},
    {"a point that is no parameter",
     normal_program,
     normal_data,
     "point=phi",
     {0},
     PVI_STATUS_USAGE,
     "phi"},
    {"a row too far",
     normal_program,
     normal_data,
     "",
     {.test = far_row, .ntest = 1},
     PVI_STATUS_DATA,
     "observation 10"},
    {"a row twice",
     normal_program,
     normal_data,
     "",
     {.test = twice, .ntest = 2},
     PVI_STATUS_DATA,
     "given before"},
    {"a row in both",
     normal_program,
     normal_data,
     "",
     {.test = row3, .ntest = 1, .train = row3, .ntrain = 1},
     PVI_STATUS_DATA,
     "train"},
    {"nothing to train on",
     normal_program,
     normal_data,
     "",
     {.test = all_rows, .ntest = N},
     PVI_STATUS_DATA,
     "left to train on"},
    {"a score the outcome lacks",
     normal_program,
     normal_data,
     "score=quadratic",
     {0},
     PVI_STATUS_USAGE,
     "quadratic"},
    {"a mini-batch of lbfgs",
     normal_program,
     normal_data,
     "minibatch=3",
     {0},
     PVI_STATUS_USAGE,
     "minibatch needs a stochastic optimizer"},
};

/* The status and the message; afterwards the context works as if nothing had been. */
static void check_wrong(Ctx *unused, void *row) {
  (void)unused;
  const Wrong *w = row;
  pvi_context *p = open_context();
  pvi_model *m;
  pvi_run *r = NULL;
  pvi_options *o = options(p, w->options);
  int status = pvi_load_text(p, w->program, w->data, NULL, &m);
  if (status) assert_null(m);
  if (!status) status = pvi_fit(p, m, o, w->split.ntest ? &w->split : NULL, &r);
  assert_int_equal(status, w->status);
  assert_null(r);
  if (!strstr(pvi_error(p), w->fragment)) fail_msg("no \"%s\" in: %s", w->fragment, pvi_error(p));
  assert_int_equal(pvi_messages(p), 1);
  assert_string_equal(pvi_message_at(p, 0).kind, "error");
  pvi_model_free(m);
  m = normal_model(p);
  assert_string_equal(pvi_error(p), "");
  pvi_run_free(run_of(p, m, "score=elbo family=meanfield draws=16 threads=2", NULL));
  pvi_options_free(o);
  pvi_model_free(m);
  pvi_close(p);
}
static void wrong(void **state) { run_body(check_wrong, *state); }

/* Where an error is, as numbers. */
TEST(places_of_errors) {
  pvi_context *p = open_context();
  pvi_model *m;
  assert_int_equal(pvi_load_text(p, "parameters {\n  real b;\n}\nmodel {\n  b ~ norml(0, 1);\n}\n",
                                 NULL, NULL, &m),
                   PVI_STATUS_PROGRAM);
  pvi_message e = pvi_message_at(p, 0);
  assert_string_equal(e.file, "program");
  assert_int_equal(e.line, 5);
  assert_true(e.column > 2);
  assert_non_null(strstr(e.text, "norml"));
  assert_string_equal(pvi_message_at(p, 99).text, "");
  pvi_close(p);
}

TEST(files_that_are_not_there) {
  pvi_context *p = open_context();
  pvi_model *m;
  pvi_run *r;
  assert_int_equal(pvi_load(p, "absent.stan", NULL, NULL, &m), PVI_STATUS_PROGRAM);
  assert_non_null(strstr(pvi_error(p), "absent.stan"));
  assert_int_equal(pvi_load(p, LOGISTIC, "absent.csv", NULL, &m), PVI_STATUS_DATA);
  assert_non_null(strstr(pvi_error(p), "absent.csv"));
  assert_null(m);
  assert_int_equal(pvi_read(p, "absent", NULL, &r), PVI_STATUS_DATA);
  assert_int_equal(pvi_resume(p, "absent", NULL, &r), PVI_STATUS_DATA);
  assert_null(r);
  pvi_close(p);
  pvi_close(NULL);
}

TEST(wrong_simulators) {
  static const char *const texts[] = {"simulate=z_sim observed=y", "simulate=y_sim observed=z"};
  pvi_context *p = open_context();
  for (int k = 0; k < 2; k++) {
    pvi_options *o = options(p, texts[k]);
    pvi_model *m;
    assert_int_equal(pvi_load_text(p, normal_program, normal_data, o, &m), PVI_STATUS_USAGE);
    assert_non_null(strstr(pvi_error(p), "z"));
    assert_null(m);
    pvi_options_free(o);
  }
  pvi_close(p);
}

static void ignore_text(void *self, const char *text) {
  (void)self;
  (void)text;
}

/* NULL where something is needed is a mistake like any other, and never a crash. */
TEST(nothing_given) {
  pvi_context *p = open_context();
  pvi_model *m = normal_model(p), *none;
  pvi_run *r = NULL;
  pvi_draws *d;
  const char *text;
  double x[4] = {0};
  assert_int_equal(pvi_load(p, NULL, NULL, NULL, &none), PVI_STATUS_USAGE);
  assert_null(none);
  assert_int_equal(pvi_load(p, LOGISTIC, GOLF, NULL, NULL), PVI_STATUS_USAGE);
  assert_int_equal(pvi_load(NULL, LOGISTIC, GOLF, NULL, &none), PVI_STATUS_USAGE);
  assert_int_equal(pvi_fit(p, NULL, NULL, NULL, &r), PVI_STATUS_USAGE);
  assert_int_equal(pvi_fit(p, m, NULL, NULL, NULL), PVI_STATUS_USAGE);
  assert_int_equal(pvi_density(p, m, NULL, 1, &(pvi_densities){.lp = x}), PVI_STATUS_USAGE);
  assert_int_equal(pvi_density(p, m, x, SIZE_MAX, &(pvi_densities){.lp = x}), PVI_STATUS_USAGE);
  assert_int_equal(pvi_draw(p, NULL, 10, 1, &d), PVI_STATUS_USAGE);
  assert_int_equal(pvi_read(p, NULL, NULL, &r), PVI_STATUS_USAGE);
  assert_int_equal(pvi_check_report(p, NULL, NULL, NULL, &text), PVI_STATUS_USAGE);
  assert_int_equal(pvi_check_report(p, LOGISTIC, GOLF, NULL, NULL), PVI_STATUS_USAGE);
  assert_int_equal(pvi_export_report(p, NULL, NULL, &text), PVI_STATUS_USAGE);
  assert_int_equal(pvi_export_report(p, "absent", NULL, &text), PVI_STATUS_DATA);
  assert_int_equal(pvi_cmdstan_model(p, NULL, 0, NULL, ignore_text, NULL), PVI_STATUS_USAGE);
  assert_int_equal(pvi_cmdstan_model(p, "absent", 0, NULL, ignore_text, NULL), PVI_STATUS_DATA);
  assert_int_equal(pvi_cmdstan_model(p, LOGISTIC, 1, NULL, ignore_text, NULL), PVI_STATUS_USAGE);
  assert_int_equal(pvi_cmdstan_tool(p, "stanc", 0, NULL, NULL, NULL), PVI_STATUS_USAGE);
  assert_int_equal(pvi_cmdstan_tool(p, "stanc", 0, NULL, ignore_text, NULL), PVI_STATUS_USAGE);
  assert_int_equal(pvi_cmdstan_tool(p, "nothing", 0, NULL, ignore_text, NULL), PVI_STATUS_USAGE);
  assert_int_equal(pvi_set(NULL, "lambda", "1"), PVI_STATUS_USAGE);
  assert_int_equal(pvi_dim(NULL), 0);
  assert_null(pvi_parameter(NULL, 0));
  assert_null(pvi_result_of(NULL));
  assert_int_equal(pvi_score_of(NULL, "test", "log").n, 0);
  pvi_run_free(NULL);
  pvi_model_free(NULL);
  pvi_options_free(NULL);
  pvi_draws_free(NULL);
  pvi_predictions_free(NULL);
  r = run_of(p, m, "score=elbo family=meanfield draws=16", NULL);
  assert_int_equal(pvi_draw(p, r, 0, 1, &d), PVI_STATUS_USAGE);
  assert_int_equal(pvi_draw(p, r, SIZE_MAX, 1, &d), PVI_STATUS_USAGE);
  assert_null(d);
  pvi_run_free(r);
  pvi_model_free(m);
  pvi_close(p);
}

/* The same of every other function. */
TEST(nothing_given_anywhere) {
  pvi_context *p = open_context();
  pvi_options *o = pvi_options_new(p);
  pvi_model *m = normal_model(p);
  pvi_run *r = run_of(p, m, "score=elbo family=meanfield draws=16", NULL), *run = NULL;
  pvi_predictions *q = NULL;
  const char *text, *nameless[] = {NULL, NULL};
  double x[64] = {0};
  char line[8];
  assert_non_null(pvi_error(NULL));
  assert_int_equal(pvi_messages(NULL), 0);
  assert_string_equal(pvi_message_at(NULL, 0).text, "");
  assert_string_equal(pvi_message_at(p, SIZE_MAX).text, "");
  pvi_on_progress(NULL, NULL, NULL), pvi_cancel(NULL), pvi_close(NULL);
  pvi_option_prefix(NULL, "--"), pvi_option_prefix(p, NULL);
  assert_int_equal(pvi_progress_line(NULL, 0, 0, NULL, NULL), 0);
  assert_int_equal(pvi_progress_line(line, sizeof line, 80, "fit", NULL), 0);
  assert_int_equal(pvi_unknown(p, NULL, NULL, NULL, 3), PVI_STATUS_USAGE);
  assert_int_equal(pvi_unknown(p, "word", "x", nameless, 2), PVI_STATUS_USAGE);
  assert_null(pvi_options_new(NULL));
  assert_null(pvi_get(NULL, "lambda"));
  assert_null(pvi_get(o, NULL));
  assert_int_equal(pvi_set(o, NULL, "1"), PVI_STATUS_USAGE);
  assert_null(pvi_option_at(SIZE_MAX).name);
  assert_int_equal(pvi_observations(NULL) + pvi_columns(NULL) + pvi_parameter_columns(NULL), 0);
  assert_null(pvi_column(NULL, 0));
  assert_null(pvi_column(m, SIZE_MAX));
  assert_null(pvi_parameter(m, SIZE_MAX));
  assert_int_equal(pvi_constrain(p, m, NULL, 1, 1, x), PVI_STATUS_USAGE);
  assert_int_equal(pvi_constrain(p, m, x, SIZE_MAX, 1, x), PVI_STATUS_USAGE);
  assert_int_equal(pvi_constrain(p, NULL, x, 1, 1, x), PVI_STATUS_USAGE);
  assert_int_equal(pvi_unconstrain(p, m, NULL, x), PVI_STATUS_USAGE);
  assert_int_equal(pvi_unconstrain(p, m, x, NULL), PVI_STATUS_USAGE);
  assert_int_equal(pvi_density(p, m, x, 1, NULL), PVI_STATUS_USAGE);
  assert_int_equal(pvi_fit(p, m, o, &(pvi_split){.nvalid = 3}, &run), PVI_STATUS_USAGE);
  assert_int_equal(pvi_fit(p, m, o, &(pvi_split){.ntest = SIZE_MAX}, &run), PVI_STATUS_USAGE);
  assert_int_equal(pvi_fit(p, m, o, &(pvi_split){.test = all_rows, .ntest = SIZE_MAX}, &run),
                   PVI_STATUS_DATA);
  assert_null(run);
  assert_int_equal(pvi_resume(p, NULL, m, &run), PVI_STATUS_USAGE);
  assert_int_equal(pvi_scores(NULL), 0);
  assert_int_equal(pvi_score_at(r, SIZE_MAX).n, 0);
  assert_int_equal(pvi_score_at(NULL, 0).n, 0);
  assert_int_equal(pvi_score_of(r, NULL, "log").n + pvi_score_of(r, "train", NULL).n, 0);
  assert_int_equal(pvi_log_q(p, r, NULL, 1, x), PVI_STATUS_USAGE);
  assert_int_equal(pvi_log_q(p, r, x, SIZE_MAX, x), PVI_STATUS_USAGE);
  assert_int_equal(pvi_log_q(p, NULL, x, 1, x), PVI_STATUS_USAGE);
  assert_int_equal(pvi_covariance(p, NULL, x), PVI_STATUS_USAGE);
  assert_int_equal(pvi_covariance(p, r, NULL), PVI_STATUS_USAGE);
  assert_int_equal(pvi_predict(p, NULL, NULL, NULL, &q), PVI_STATUS_USAGE);
  assert_int_equal(pvi_predict(p, r, NULL, NULL, NULL), PVI_STATUS_USAGE);
  assert_int_equal(pvi_density_report(p, NULL, o, &text), PVI_STATUS_USAGE);
  assert_int_equal(pvi_fit_report(p, NULL, o, &text), PVI_STATUS_USAGE);
  assert_int_equal(pvi_summary_report(p, NULL, o, &text), PVI_STATUS_USAGE);
  assert_int_equal(pvi_draws_report(p, NULL, o, &text), PVI_STATUS_USAGE);
  assert_int_equal(pvi_predict_report(p, NULL, NULL, o, &text), PVI_STATUS_USAGE);
  assert_int_equal(pvi_compare_report(p, NULL, 2, o, &text), PVI_STATUS_USAGE);
  assert_int_equal(pvi_compare_report(p, nameless, 2, o, &text), PVI_STATUS_USAGE);
  assert_int_equal(pvi_bench_report(p, NULL, o, &text), PVI_STATUS_USAGE);
  assert_int_equal(pvi_summary_report(p, r, o, NULL), PVI_STATUS_USAGE);
  assert_int_equal(pvi_default_folder(p, NULL, o, &text), PVI_STATUS_USAGE);
  assert_int_equal(pvi_time(p, NULL, o, x), PVI_STATUS_USAGE);
  assert_int_equal(pvi_time(p, m, o, NULL), PVI_STATUS_USAGE);
  assert_int_equal(pvi_fit_simulator(p, NULL, o, &run), PVI_STATUS_USAGE);
  assert_int_equal(pvi_fit_simulator(p, &(pvi_simulator){.dim = 1}, o, &run), PVI_STATUS_USAGE);
  pvi_run_free(r);
  pvi_model_free(m);
  pvi_options_free(o);
  pvi_close(p);
}

/* ---- q --------------------------------------------------------------------------------------- */

static const char shapes_program[] =
    "data { int<lower=1> n; vector[n] y; }\n"
    "parameters { real<lower=0> s; simplex[3] w; ordered[2] c; real m; }\n"
    "transformed parameters { real t = m + s; }\n"
    "model { m ~ std_normal(); s ~ exponential(1); w ~ dirichlet(rep_vector(2, 3)); c ~ "
    "std_normal();\n"
    "  y ~ normal(m + c[1] * 0.1 + w[1], s); }\n"
    "generated quantities { real z = normal_rng(m, s); }\n";

/* Names and values on the constrained scale, there and back. */
TEST(constrained_and_back) {
  static const char *const names[] = {"s", "w.1", "w.2", "w.3", "c.1", "c.2", "m", "t", "z"};
  pvi_context *p = open_context();
  pvi_model *m;
  succeeds(p, pvi_load_text(p, shapes_program, normal_data, NULL, &m));
  assert_int_equal(pvi_dim(m), 6);
  assert_int_equal(pvi_columns(m), 9);
  assert_int_equal(pvi_parameter_columns(m), 7);
  for (size_t k = 0; k < 9; k++) assert_string_equal(pvi_column(m, k), names[k]);
  assert_null(pvi_column(m, 9));
  double theta[12] = {0.3, -0.4, 0.8, -1, 0.2, 0.7, -0.5, 1, 2, 0.1, -2, 0}, out[18], back[6];
  succeeds(p, pvi_constrain(p, m, theta, 2, 1, out));
  assert_close(out[0], exp(0.3), 1e-14);
  assert_close(out[1] + out[2] + out[3], 1, 1e-14);
  assert_close(out[5] - out[4], exp(0.2), 1e-13);
  assert_close(out[7], out[0] + out[6], 1e-14);
  for (int i = 0; i < 2; i++) {
    succeeds(p, pvi_unconstrain(p, m, out + 9 * i, back));
    for (int k = 0; k < 6; k++) assert_close(back[k], theta[6 * i + k], 1e-12);
  }
  out[0] = -1;
  assert_int_equal(pvi_unconstrain(p, m, out, back), PVI_STATUS_DATA);
  assert_non_null(strstr(pvi_error(p), "s"));
  pvi_model_free(m);
  pvi_close(p);
}

/* Draws have the moments of q, and log q at them is what the draws say. */
TEST(draws_of_q) {
  enum { MANY = 50000, SOME = 2000 }; /* moments by a formula; from draws of their own */
  static const char *const families[] = {"meanfield", "fullrank", "mixture", "lowrank",
                                         "spline",    "flow",     "realnvp"};
  pvi_context *p = open_context();
  pvi_model *m;
  succeeds(p, pvi_load(p, LOGISTIC, GOLF, NULL, &m));
  for (int f = 0; f < 7; f++) {
    char text[96];
    snprintf(text, sizeof text, "lambda=1 draws=32 iterations=20 family=%s", families[f]);
    pvi_run *r = run_of(p, m, text, NULL);
    pvi_draws *d;
    const int n = f < 4 ? MANY : SOME;
    double *log_q = calloc(n, sizeof *log_q), cov[4], mean[2] = {0}, var[2] = {0};
    succeeds(p, pvi_draw(p, r, n, 5, &d));
    assert_int_equal(d->dim, 2);
    succeeds(p, pvi_log_q(p, r, d->theta, n, log_q));
    succeeds(p, pvi_covariance(p, r, cov));
    for (int k = 0; k < n; k++) {
      assert_close(log_q[k], d->log_q[k], 1e-8);
      for (int i = 0; i < 2; i++) mean[i] += d->theta[2 * k + i] / n;
    }
    for (int k = 0; k < n; k++)
      for (int i = 0; i < 2; i++) var[i] += pow(d->theta[2 * k + i] - mean[i], 2) / n;
    for (int i = 0; i < 2; i++) {
      double sd = pvi_result_of(r)->sd[i];
      double error = sd * sqrt(1.0 / n + 1.0 / 1000); /* the summary's mean is from draws, too */
      assert_true(fabs(mean[i] - pvi_result_of(r)->mean[i]) < 6 * error + 1e-9);
      assert_close(sqrt(cov[3 * i]), sd, 0.02);
      if (f < 4) assert_true(fabs(var[i] / cov[3 * i] - 1) < 0.25);
    }
    free(log_q);
    pvi_draws_free(d);
    pvi_run_free(r);
  }
  pvi_model_free(m);
  pvi_close(p);
}

/* A run folder read again: the same q, the same draws. */
TEST(save_and_read) {
  char dir[] = "/tmp/pvi-api-XXXXXX", text[256];
  assert_non_null(mkdtemp(dir));
  pvi_context *p = open_context();
  pvi_model *m;
  pvi_run *back;
  pvi_draws *a, *b;
  succeeds(p, pvi_load(p, LOGISTIC, GOLF, NULL, &m));
  snprintf(text, sizeof text,
           "out=%s/run family=mixture components=3 draws=32 iterations=20 save-draws=50", dir);
  pvi_run *r = run_of(p, m, text, NULL);
  snprintf(text, sizeof text, "%s/run", dir);
  assert_string_equal(pvi_result_of(r)->folder, text);
  succeeds(p, pvi_read(p, text, NULL, &back));
  assert_true(pvi_result_of(back)->objective == pvi_result_of(r)->objective);
  assert_int_equal(pvi_result_of(back)->evaluations, pvi_result_of(r)->evaluations);
  for (int k = 0; k < 2; k++) {
    assert_true(pvi_result_of(back)->mean[k] == pvi_result_of(r)->mean[k]);
    assert_true(pvi_result_of(back)->sd[k] == pvi_result_of(r)->sd[k]);
  }
  succeeds(p, pvi_draw(p, r, 50, 1, &a));
  succeeds(p, pvi_draw(p, back, 50, 1, &b));
  assert_memory_equal(a->values, b->values, a->n * a->ncols * sizeof *a->values);
  assert_memory_equal(a->log_p, b->log_p, a->n * sizeof *a->log_p);
  for (size_t k = 0; k < pvi_scores(r); k++) {
    pvi_score x = pvi_score_at(r, k), y = pvi_score_of(back, x.part, x.name);
    assert_true(x.n == y.n && x.sum == y.sum);
    for (size_t i = 0; i < x.n; i++) assert_true(x.rows[i] == y.rows[i]);
  }
  pvi_draws_free(a);
  pvi_draws_free(b);
  pvi_run_free(back);
  pvi_run_free(r);
  pvi_model_free(m);
  pvi_close(p);
  snprintf(text, sizeof text, "rm -r %s", dir);
  assert_int_equal(system(text), 0);
}

/* ---- progress and cancelling ----------------------------------------------------------------- */

typedef struct {
  long calls, stop_at;
  long evaluations;
} Watch;

static int watch(void *self, const pvi_progress *p) {
  Watch *w = self;
  char line[128];
  w->evaluations = p->evaluations;
  size_t n = pvi_progress_line(line, sizeof line, 60, "golf", p);
  assert_true(n > 4 && n < sizeof line && !strncmp(line, "golf", 4));
  return ++w->calls == w->stop_at;
}

/* What is told while lambda is chosen on folds: fits that are done, of about so many. */
typedef struct {
  long told, done, most;
  bool ordered;
} Choosing;

static int watch_choosing(void *self, const pvi_progress *p) {
  Choosing *w = self;
  char text[128];
  if (!isnan(p->objective)) return 0;
  w->told++;
  w->ordered &= p->done > w->done && p->done <= p->total && p->done % 5 == 0;
  w->done = p->done;
  w->most = p->total > w->most ? p->total : w->most;
  pvi_progress_line(text, sizeof text, 100, "golf", p);
  w->ordered &= strstr(text, "folds") != NULL && !strstr(text, "nan");
  return 0;
}

TEST(progress_of_choosing) {
  pvi_context *p = open_context();
  pvi_model *m;
  Choosing w = {.ordered = true};
  succeeds(p, pvi_load(p, LOGISTIC, GOLF, NULL, &m));
  pvi_on_progress(p, watch_choosing, &w);
  pvi_run_free(run_of(p, m, "lambda=auto", NULL));
  assert_true(w.told > 5 && w.ordered && w.most < 500);
  pvi_model_free(m);
  pvi_close(p);
}

/* A cancelled fit has a whole result; with a folder it goes on where it stopped, to the same end.
 */
TEST(cancel_and_resume) {
  char dir[] = "/tmp/pvi-api-XXXXXX", text[256], folder[128];
  assert_non_null(mkdtemp(dir));
  pvi_context *p = open_context();
  pvi_model *m;
  succeeds(p, pvi_load(p, LOGISTIC, GOLF, NULL, &m));
  pvi_run *whole = run_of(p, m, "family=fullrank", NULL), *part, *rest;
  for (long stop = 1; stop < 60; stop += 9) {
    Watch w = {.stop_at = stop};
    snprintf(folder, sizeof folder, "%s/run%ld", dir, stop);
    snprintf(text, sizeof text, "family=fullrank out=%s", folder);
    pvi_options *o = options(p, text);
    pvi_on_progress(p, watch, &w);
    assert_int_equal(pvi_fit(p, m, o, NULL, &part), PVI_STATUS_INTERRUPTED);
    pvi_on_progress(p, NULL, NULL);
    assert_true(pvi_result_of(part)->interrupted && !pvi_result_of(part)->converged);
    assert_true(isfinite(pvi_result_of(part)->mean[0]) && pvi_result_of(part)->sd[0] >= 0);
    fits(p, pvi_resume(p, folder, m, &rest));
    assert_true(pvi_result_of(rest)->objective == pvi_result_of(whole)->objective);
    assert_int_equal(pvi_result_of(rest)->evaluations, pvi_result_of(whole)->evaluations);
    assert_memory_equal(pvi_result_of(rest)->mean, pvi_result_of(whole)->mean, 2 * sizeof(double));
    assert_memory_equal(pvi_result_of(rest)->sd, pvi_result_of(whole)->sd, 2 * sizeof(double));
    pvi_run_free(rest);
    pvi_run_free(part);
    pvi_options_free(o);
  }
  pvi_cancel(p); /* before it begins */
  assert_int_equal(pvi_fit(p, m, NULL, NULL, &part), PVI_STATUS_INTERRUPTED);
  pvi_run_free(part);
  pvi_run_free(run_of(p, m, "family=meanfield", NULL)); /* and the next goes through */
  pvi_run_free(whole);
  pvi_model_free(m);
  pvi_close(p);
  snprintf(text, sizeof text, "rm -r %s", dir);
  assert_int_equal(system(text), 0);
}

/* ---- contexts -------------------------------------------------------------------------------- */

enum { JOBS = 4 };
typedef struct {
  const char *options;
  const pvi_model *model; /* shared; NULL: one of its own */
  double objective, mean, sd, lp, draw;
  bool ok;
} Job;

/* cmocka's assertions belong to the main thread. */
static void *fit_job(void *arg) {
  Job *j = arg;
  pvi_context *p = pvi_open();
  pvi_model *own = NULL;
  pvi_options *o = pvi_options_new(p);
  pvi_run *r = NULL;
  pvi_draws *d = NULL;
  double point[2] = {-0.25, 2.2};
  char copy[128], *rest = NULL;
  snprintf(copy, sizeof copy, "%s", j->options);
  for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    *strchr(word, '=') = 0;
    pvi_set(o, word, word + strlen(word) + 1);
  }
  j->ok = j->model || !pvi_load(p, LOGISTIC, GOLF, NULL, &own);
  const pvi_model *m = j->model ? j->model : own;
  int status = j->ok ? pvi_fit(p, m, o, NULL, &r) : PVI_STATUS_FAILURE;
  j->ok = (status == PVI_STATUS_OK || status == PVI_STATUS_NOT_CONVERGED) &&
          !pvi_draw(p, r, 10, 3, &d) &&
          !pvi_density(p, m, point, 1, &(pvi_densities){.lp = &j->lp}) && pvi_parameter(m, 1) &&
          pvi_column(m, 0);
  if (j->ok) {
    j->objective = pvi_result_of(r)->objective;
    j->mean = pvi_result_of(r)->mean[1];
    j->sd = pvi_result_of(r)->sd[1];
    j->draw = d->values[5];
  }
  pvi_draws_free(d);
  pvi_run_free(r);
  pvi_model_free(own);
  pvi_options_free(o);
  pvi_close(p);
  return NULL;
}

static void run_jobs(const pvi_model *shared) {
  static const char *const texts[JOBS] = {"score=log family=meanfield draws=64 seed=3 threads=2",
                                          "score=elbo family=meanfield draws=64 seed=3 threads=2",
                                          "score=log family=fullrank threads=1",
                                          "score=quadratic family=meanfield threads=2"};
  Job alone[JOBS], together[JOBS];
  pthread_t threads[JOBS];
  for (int k = 0; k < JOBS; k++) {
    alone[k] = together[k] = (Job){.options = texts[k], .model = shared};
    fit_job(&alone[k]);
  }
  for (int k = 0; k < JOBS; k++)
    assert_int_equal(pthread_create(&threads[k], NULL, fit_job, &together[k]), 0);
  for (int k = 0; k < JOBS; k++) pthread_join(threads[k], NULL);
  for (int k = 0; k < JOBS; k++) {
    assert_true(alone[k].ok && together[k].ok);
    assert_true(alone[k].objective == together[k].objective);
    assert_true(alone[k].mean == together[k].mean && alone[k].sd == together[k].sd);
    assert_true(alone[k].lp == together[k].lp && alone[k].draw == together[k].draw);
  }
}

TEST(four_contexts_at_once) { run_jobs(NULL); }

/* One model serves several threads. */
TEST(one_model_for_four_threads) {
  pvi_context *p = open_context();
  pvi_model *m;
  succeeds(p, pvi_load(p, LOGISTIC, GOLF, NULL, &m));
  run_jobs(m);
  pvi_model_free(m);
  pvi_close(p);
}

static int threads_running(void) {
  FILE *f = fopen("/proc/self/status", "r");
  char line[256];
  int n = -1;
  while (f && fgets(line, sizeof line, f)) sscanf(line, "Threads: %d", &n);
  if (f) fclose(f);
  return n;
}

/* Fits that succeed, fail before and fail inside, with threads: nothing is left of them. */
static void use_all(pvi_context *p) {
  static const char *const texts[] = {"draws=16 threads=3", "score=quadratic threads=3",
                                      "score=elbo threads=3"};
  pvi_model *m;
  double lp, point = 0.5;
  pvi_load_text(p, "parameters {", NULL, NULL, &m);
  pvi_load_text(p, normal_program, normal_data, NULL, &m);
  pvi_density(p, m, &point, 1, &(pvi_densities){.lp = &lp});
  for (int k = 0; k < 3; k++) {
    pvi_options *o = options(p, texts[k]);
    pvi_run *r;
    pvi_fit(p, m, o, k == 2 ? &(pvi_split){.test = all_rows, .ntest = 2} : NULL, &r);
    pvi_run_free(r);
    pvi_options_free(o);
  }
  pvi_model_free(m);
}

/* The kernel counts a thread that has been joined for a moment longer. */
static bool threads_fall_to(int n) {
  for (int k = 0; k < 5000 && threads_running() > n; k++)
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  return threads_running() <= n;
}

TEST(nothing_is_left) {
  int threads = threads_running();
  pvi_context *p = open_context();
  use_all(p);
  size_t before = mallinfo2().uordblks;
  for (int k = 0; k < 5; k++) use_all(p);
  size_t after = mallinfo2().uordblks;
  assert_true(threads_fall_to(threads));
  if (after > before + 4096) fail_msg("%zu bytes are left", after - before);
  pvi_close(p);
}

static long resident_kilobytes(void) {
  FILE *f = fopen("/proc/self/status", "r");
  char line[256];
  long n = -1;
  while (f && fgets(line, sizeof line, f)) sscanf(line, "VmRSS: %ld", &n);
  if (f) fclose(f);
  return n;
}

/* A thousand fits in one context leave its memory as it was. */
TEST(a_thousand_fits) {
  enum { FITS = 1000 };
  pvi_context *p = open_context();
  pvi_model *m = normal_model(p);
  size_t before = 0;
  long resident = 0;
  for (int k = 0; k < (accurate ? FITS : 50); k++) {
    if (k == 20) {
      before = mallinfo2().uordblks;
      resident = resident_kilobytes();
    }
    pvi_run_free(
        run_of(p, m, "score=elbo family=meanfield threads=1 iterations=3 save-draws=8", NULL));
  }
  size_t after = mallinfo2().uordblks;
  if (after > before + 4096) fail_msg("%zu bytes are left of 1000 fits", after - before);
  if (accurate && resident_kilobytes() > resident + 2048)
    fail_msg("%ld kB more after 1000 fits", resident_kilobytes() - resident);
  pvi_model_free(m);
  pvi_close(p);
}

int main(void) {
  static Suite s;
  SUITE_ADD(&s, versions);
  SUITE_ADD(&s, sizes_and_names);
  SUITE_ADD(&s, text_equals_file);
  SUITE_ADD(&s, density_of_a_normal);
  SUITE_ADD(&s, density_of_golf);
  SUITE_ADD(&s, fit_of_golf);
  SUITE_ADD(&s, heldout_scores);
  SUITE_ADD(&s, train_rows);
  SUITE_ADD(&s, points);
  SUITE_ADD(&s, likelihood_free);
  SUITE_ADD(&s, simulators_in_C);
  SUITE_ADD(&s, shared_simulators_in_C);
  SUITE_ADD(&s, times);
  SUITE_ADD(&s, options_by_name);
  SUITE_ADD(&s, options_that_are_wrong);
  SUITE_ADD(&s, places_of_errors);
  SUITE_ADD(&s, files_that_are_not_there);
  SUITE_ADD(&s, wrong_simulators);
  SUITE_ADD(&s, nothing_given), SUITE_ADD(&s, nothing_given_anywhere);
  for (size_t k = 0; k < sizeof wrongs / sizeof *wrongs; k++)
    suite_add(&s, wrongs[k].name, wrong, &wrongs[k]);
  SUITE_ADD(&s, constrained_and_back);
  SUITE_ADD(&s, draws_of_q);
  SUITE_ADD(&s, save_and_read);
  SUITE_ADD(&s, progress_of_choosing);
  SUITE_ADD(&s, cancel_and_resume);
  SUITE_ADD(&s, four_contexts_at_once);
  SUITE_ADD(&s, one_model_for_four_threads);
  SUITE_ADD(&s, nothing_is_left);
  SUITE_ADD(&s, a_thousand_fits);
  return suite_run("api", &s);
}
