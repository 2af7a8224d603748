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
  succeeds(c, pvi_load_text(c, normal_program, normal_data, &m));
  return m;
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
  succeeds(p, pvi_load(p, LOGISTIC, GOLF, &m));
  assert_int_equal(pvi_dim(m), 2);
  assert_int_equal(pvi_observations(m), 19);
  assert_string_equal(pvi_parameter(m, 0), "theta0");
  assert_string_equal(pvi_parameter(m, 1), "theta1");
  assert_null(pvi_parameter(m, 2));
  pvi_close(p);
}

TEST(text_equals_file) {
  pvi_context *p = open_context();
  pvi_model *file, *text;
  double point[2] = {-0.2, 2}, a, b;
  char *program = strdup(read_file(c, LOGISTIC)), *data = strdup(read_file(c, GOLF));
  succeeds(p, pvi_load(p, LOGISTIC, GOLF, &file));
  succeeds(p, pvi_load_text(p, program, data, &text));
  memset(program, 'x', strlen(program)); /* the library keeps no pointer into them */
  memset(data, 'x', strlen(data));
  free(program);
  free(data);
  succeeds(p, pvi_density(p, file, point, 1, &a, NULL, NULL));
  succeeds(p, pvi_density(p, text, point, 1, &b, NULL, NULL));
  assert_true(a == b);
  assert_string_equal(pvi_parameter(text, 1), "theta1");
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
    succeeds(p, pvi_density(p, m, points, count, lp, gradient, pointwise));
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
  succeeds(p, pvi_density(p, m, points, 0, lp, NULL, NULL));
  pvi_close(p);
}

/* What `pvi density` prints for golf at (-0.25, 2.2), and binomial probabilities in closed form. */
TEST(density_of_golf) {
  static const double x[3] = {2, 3, 4}, tries[3] = {1443, 694, 455}, made[3] = {1346, 577, 337};
  pvi_context *p = open_context();
  pvi_model *m;
  double point[2] = {-0.25, 2.2}, lp, gradient[2], pointwise[19], sum = 0;
  succeeds(p, pvi_load(p, LOGISTIC, GOLF, &m));
  succeeds(p, pvi_density(p, m, point, 1, &lp, gradient, pointwise));
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
  pvi_close(p);
}

/* ---- fits ------------------------------------------------------------------------------------ */

#define exactness (accurate ? 1.0 : 50.0) /* a factor of tolerances */

/* The optimum by adaptive quadrature is -84.113, all width in the intercept: sd 0.4445. */
TEST(fit_of_golf) {
  pvi_context *p = open_context();
  pvi_model *m;
  pvi_result r;
  succeeds(p, pvi_load(p, LOGISTIC, GOLF, &m));
  int status = pvi_fit(p, m, &(pvi_options){.family = "meanfield", .seed = 1, .threads = 2}, &r);
  assert_true(status == PVI_STATUS_OK || (exactness > 1 && status == PVI_STATUS_NOT_CONVERGED));
  assert_true(fabs(r.objective + 84.113) < 0.1 * exactness);
  assert_true(r.score == r.objective);
  assert_true(r.sd[0] < 0.01 * exactness && fabs(r.sd[1] - 0.4445) < 0.03 * exactness);
  assert_string_equal(r.family, "meanfield");
  assert_true(r.evaluations > 0 && r.seconds > 0 && strlen(r.reason) > 0);
  assert_int_equal(r.nscores, 0);
  pvi_close(p);
}

/* VI of a normal location is the posterior: normal(m, s); so the predictive distribution of what is
 * held out is known. */
TEST(heldout_scores) {
  static const size_t test[3] = {7, 2, 4};
  pvi_context *p = open_context();
  pvi_model *m = normal_model(p);
  pvi_result r;
  int status =
      pvi_fit(p, m,
              &(pvi_options){
                  .score = "elbo", .family = "meanfield", .test = test, .ntest = 3, .alpha = 0.2},
              &r);
  assert_true(status == PVI_STATUS_OK || (exactness > 1 && status == PVI_STATUS_NOT_CONVERGED));
  double precision = 7 + 0.01, mean = 0;
  for (size_t k = 0; k < N; k++) mean += k == 7 || k == 2 || k == 4 ? 0 : ys[k] / precision;
  assert_true(fabs(r.mean[0] - mean) < 0.01 &&
              fabs(r.sd[0] - 1 / sqrt(precision)) < 0.01 * exactness);
  double scale = sqrt(1 + r.sd[0] * r.sd[0]), z = 1.2815515655446004, total = 0;
  for (size_t k = 0; k < 3; k++) {
    double y = ys[test[k]], d = (y - r.mean[0]) / scale, L = r.mean[0] - z * scale,
           U = r.mean[0] + z * scale;
    double pdf = exp(-0.5 * d * d) / sqrt(2 * M_PI);
    total += normal_lpdf(y, r.mean[0], scale);
    assert_close(pvi_heldout(&r, "log").rows[k], normal_lpdf(y, r.mean[0], scale), 1e-3);
    assert_close(pvi_heldout(&r, "log_at_mean").rows[k], normal_lpdf(y, r.mean[0], 1), 1e-12);
    assert_close(pvi_heldout(&r, "crps").rows[k],
                 -scale * (d * erf(d * M_SQRT1_2) + 2 * pdf - 1 / sqrt(M_PI)), 1e-3);
    assert_close(pvi_heldout(&r, "interval").rows[k],
                 L - U - 10 * (fmax(L - y, 0) + fmax(y - U, 0)), 1e-2);
  }
  assert_close(pvi_heldout(&r, "log").sum, total, 1e-3);
  assert_null(pvi_heldout(&r, "quadratic").rows);
  assert_true(isnan(pvi_heldout(&r, "quadratic").sum));
  pvi_close(p);
}

/* Giving the training rows is the same as giving the rest. */
TEST(train_rows) {
  static const size_t train[4] = {0, 1, 3, 9}, test[6] = {2, 4, 5, 6, 7, 8};
  pvi_context *p = open_context();
  pvi_model *m = normal_model(p);
  pvi_result a, b;
  pvi_options o = {
      .score = "elbo", .family = "meanfield", .train = train, .ntrain = 4, .draws = 64};
  fits(p, pvi_fit(p, m, &o, &a));
  o.train = NULL;
  o.ntrain = 0;
  o.test = test;
  o.ntest = 6;
  fits(p, pvi_fit(p, m, &o, &b));
  assert_true(a.mean[0] == b.mean[0] && a.sd[0] == b.sd[0]);
  assert_true(fabs(a.mean[0] - (0.3 - 1.2 + 0.8 - 0.7) / 4.01) < 0.02);
  pvi_close(p);
}

/* A point has no width: PVI over nothing is maximum likelihood. */
TEST(points) {
  static const char *const names[1] = {"theta"};
  pvi_context *p = open_context();
  pvi_model *m = normal_model(p);
  pvi_result r;
  double mean = 0;
  for (int k = 0; k < N; k++) mean += ys[k] / N;
  fits(p, pvi_fit(p, m,
                  &(pvi_options){.family = "meanfield", .points = names, .npoints = 1, .draws = 16},
                  &r));
  assert_true(fabs(r.mean[0] - mean) < 1e-3 && r.sd[0] == 0);
  pvi_close(p);
}

/* The same program without its density: the CRPS by simulation is close to that of the density. */
TEST(likelihood_free) {
  static const size_t test[2] = {0, 5};
  pvi_context *p = open_context();
  pvi_model *m = normal_model(p);
  pvi_options o = {.score = "crps", .family = "meanfield", .test = test, .ntest = 2, .draws = 256};
  pvi_result known, simulated;
  fits(p, pvi_fit(p, m, &o, &known));
  succeeds(p, pvi_simulate(p, m, "y_sim", "y"));
  assert_int_equal(pvi_observations(m), N);
  o.score = "crps_sim";
  fits(p, pvi_fit(p, m, &o, &simulated));
  double a = pvi_heldout(&known, "crps").sum, b = pvi_heldout(&simulated, "crps_sim").sum;
  if (exactness == 1 && !(fabs(a - b) < 0.15)) fail_msg("%g and %g", a, b);
  assert_null(pvi_heldout(&simulated, "log").rows);
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
  pvi_result r;
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
  fits(p, pvi_fit_simulator(p, &s, &(pvi_options){.draws = 256}, &r));
  assert_true(fabs(r.mean[0] - mean) < 0.1 && fabs(r.sd[0] - sqrt(ss)) < 0.3);
  s.n = 0;
  assert_int_equal(pvi_fit_simulator(p, &s, &(pvi_options){.draws = 256}, &r), PVI_STATUS_USAGE);
  pvi_close(p);
}

TEST(times) {
  pvi_context *p = open_context();
  pvi_model *m = normal_model(p);
  double seconds;
  succeeds(p, pvi_time(p, m, &(pvi_options){.draws = 16, .threads = 1}, &seconds));
  assert_true(seconds > 0 && seconds < 1);
  pvi_close(p);
}

/* ---- errors ---------------------------------------------------------------------------------- */

typedef struct {
  const char *name, *program, *data; /* texts */
  pvi_options options;
  int status;
  const char *fragment;
} Wrong;

static const size_t far_row[1] = {10}, twice[2] = {3, 3},
                    all_rows[N] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, row3[1] = {3};
static const char *const no_name[1] = {"phi"};
static const Wrong wrongs[] = {
    {"a syntax error", "parameters { real b }", NULL, {0}, PVI_STATUS_PROGRAM, "^"},
    {"a type error",
     "parameters { real b; } model { int k = b; }",
     NULL,
     {0},
     PVI_STATUS_PROGRAM,
     "program:1:"},
    {"missing data", normal_program, "{\"n\": 3}", {0}, PVI_STATUS_DATA, "y"},
    {"no data at all", normal_program, NULL, {0}, PVI_STATUS_DATA, "n"},
    {"broken data", normal_program, "{\"n\": 3,", {0}, PVI_STATUS_DATA, "data:1:"},
    {"no observation",
     "parameters { real b; } model { b ~ std_normal(); }",
     NULL,
     {0},
     PVI_STATUS_PROGRAM,
     "no observation"},
    {"score",
     normal_program,
     normal_data,
     {.score = "best"},
     PVI_STATUS_USAGE,
     "unknown score best"},
    {"family",
     normal_program,
     normal_data,
     {.family = "big"},
     PVI_STATUS_USAGE,
     "unknown family big"},
    {"regularizer",
     normal_program,
     normal_data,
     {.regularizer = "none"},
     PVI_STATUS_USAGE,
     "prior or posterior"},
    {"optimizer",
     normal_program,
     normal_data,
     {.optimizer = "newton"},
     PVI_STATUS_USAGE,
     "unknown optimizer"},
    {"schedule",
     normal_program,
     normal_data,
     {.schedule = "later"},
     PVI_STATUS_USAGE,
     "unknown schedule"},
    {"alpha", normal_program, normal_data, {.alpha = 1.5}, PVI_STATUS_USAGE, "between 0 and 1"},
    {"lambda", normal_program, normal_data, {.lambda = -1}, PVI_STATUS_USAGE, "lambda"},
    {"a point that is no parameter",
     normal_program,
     normal_data,
     {.points = no_name, .npoints = 1},
     PVI_STATUS_USAGE,
     "phi"},
    {"a row too far",
     normal_program,
     normal_data,
     {.test = far_row, .ntest = 1},
     PVI_STATUS_DATA,
     "observation 10"},
    {"a row twice",
     normal_program,
     normal_data,
     {.test = twice, .ntest = 2},
     PVI_STATUS_DATA,
     "given before"},
    {"a row in both",
     normal_program,
     normal_data,
     {.test = row3, .ntest = 1, .train = row3, .ntrain = 1},
     PVI_STATUS_DATA,
     "train"},
    {"nothing to train on",
     normal_program,
     normal_data,
     {.test = all_rows, .ntest = N},
     PVI_STATUS_DATA,
     "left to train on"},
    {"a score the outcome lacks",
     normal_program,
     normal_data,
     {.score = "quadratic"},
     PVI_STATUS_USAGE,
     "quadratic"},
};

/* The status and the message; afterwards the context works as if nothing had been. */
static void check_wrong(Ctx *unused, void *row) {
  (void)unused;
  const Wrong *w = row;
  pvi_context *p = open_context();
  pvi_model *m;
  pvi_result r;
  int status = pvi_load_text(p, w->program, w->data, &m);
  if (status) assert_null(m);
  if (!status) status = pvi_fit(p, m, &w->options, &r);
  assert_int_equal(status, w->status);
  if (!strstr(pvi_error(p), w->fragment)) fail_msg("no \"%s\" in: %s", w->fragment, pvi_error(p));
  m = normal_model(p);
  assert_string_equal(pvi_error(p), "");
  status = pvi_fit(
      p, m, &(pvi_options){.score = "elbo", .family = "meanfield", .draws = 16, .threads = 2}, &r);
  assert_true(status == PVI_STATUS_OK || status == PVI_STATUS_NOT_CONVERGED);
  pvi_close(p);
}
static void wrong(void **state) { run_body(check_wrong, *state); }

TEST(files_that_are_not_there) {
  pvi_context *p = open_context();
  pvi_model *m;
  assert_int_equal(pvi_load(p, "absent.stan", NULL, &m), PVI_STATUS_PROGRAM);
  assert_non_null(strstr(pvi_error(p), "absent.stan"));
  assert_int_equal(pvi_load(p, LOGISTIC, "absent.csv", &m), PVI_STATUS_DATA);
  assert_non_null(strstr(pvi_error(p), "absent.csv"));
  assert_null(m);
  pvi_close(p);
  pvi_close(NULL);
}

TEST(wrong_simulators) {
  pvi_context *p = open_context();
  pvi_model *m = normal_model(p);
  double lp, point = 0;
  assert_int_equal(pvi_simulate(p, m, "z_sim", "y"), PVI_STATUS_USAGE);
  assert_int_equal(pvi_simulate(p, m, "y_sim", "z"), PVI_STATUS_USAGE);
  assert_non_null(strstr(pvi_error(p), "z"));
  succeeds(p, pvi_density(p, m, &point, 1, &lp, NULL, NULL)); /* the model is as it was */
  pvi_close(p);
}

/* ---- contexts -------------------------------------------------------------------------------- */

typedef struct {
  const char *score;
  double objective, mean, sd;
  bool ok;
} Job;

/* cmocka's assertions belong to the main thread. */
static void *fit_job(void *arg) {
  Job *j = arg;
  pvi_context *p = pvi_open();
  pvi_model *m;
  pvi_result r = {0};
  j->ok = !pvi_load(p, LOGISTIC, GOLF, &m);
  if (j->ok) {
    int status =
        pvi_fit(p, m,
                &(pvi_options){
                    .score = j->score, .family = "meanfield", .draws = 64, .seed = 3, .threads = 2},
                &r);
    j->ok = status == PVI_STATUS_OK || status == PVI_STATUS_NOT_CONVERGED;
  }
  if (j->ok) j->objective = r.objective, j->mean = r.mean[1], j->sd = r.sd[1];
  pvi_close(p);
  return NULL;
}

TEST(two_contexts_at_once) {
  Job alone[2] = {{.score = "log"}, {.score = "elbo"}},
      together[2] = {{.score = "log"}, {.score = "elbo"}};
  pthread_t threads[2];
  for (int k = 0; k < 2; k++) fit_job(&alone[k]);
  for (int k = 0; k < 2; k++)
    assert_int_equal(pthread_create(&threads[k], NULL, fit_job, &together[k]), 0);
  for (int k = 0; k < 2; k++) pthread_join(threads[k], NULL);
  for (int k = 0; k < 2; k++) {
    assert_true(alone[k].ok && together[k].ok);
    assert_true(alone[k].objective == together[k].objective);
    assert_true(alone[k].mean == together[k].mean && alone[k].sd == together[k].sd);
  }
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
static void use_all(void) {
  pvi_context *p = pvi_open();
  pvi_model *m;
  pvi_result r;
  double lp, point = 0.5;
  pvi_load_text(p, "parameters {", NULL, &m);
  pvi_load_text(p, normal_program, normal_data, &m);
  pvi_density(p, m, &point, 1, &lp, NULL, NULL);
  pvi_fit(p, m, &(pvi_options){.draws = 16, .threads = 3}, &r);
  pvi_fit(p, m, &(pvi_options){.score = "quadratic", .threads = 3}, &r);
  pvi_fit(p, m,
          &(pvi_options){
              .test = all_rows, .ntest = 2, .score = "elbo", .threads = 3, .scoring_draws = 64},
          &r);
  pvi_close(p);
}

TEST(nothing_is_left) {
  use_all();
  int threads = threads_running();
  size_t before = mallinfo2().uordblks;
  for (int k = 0; k < 5; k++) use_all();
  size_t after = mallinfo2().uordblks;
  assert_int_equal(threads_running(), threads);
  if (after > before + 4096) fail_msg("%zu bytes are left", after - before);
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
  SUITE_ADD(&s, times);
  SUITE_ADD(&s, files_that_are_not_there);
  SUITE_ADD(&s, wrong_simulators);
  for (size_t k = 0; k < sizeof wrongs / sizeof *wrongs; k++)
    suite_add(&s, wrongs[k].name, wrong, &wrongs[k]);
  SUITE_ADD(&s, two_contexts_at_once);
  SUITE_ADD(&s, nothing_is_left);
  return suite_run("api", &s);
}
