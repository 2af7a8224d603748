/* test_relatives.c: methods that are near to PVI, against what is known in closed form: stacking,
 * BayesBag, PAC^m-Bayes, particles and neural empirical Bayes, the last four on a normal location
 * model with outcomes twice as wide as it thinks. */
#include "testing.h"

#include "run/stacking.h"

#include <pvi.h>
#include <stdio.h>

/* ---- stacking -------------------------------------------------------------------------------- */

/* a rows favour the first fit by a factor r, b rows the second: the weight of the first is (a r -
 * b) / ((a + b)(r - 1)) where that is between 0 and 1. */
TEST(stacking_two) {
  static const struct {
    int a, b;
    double r;
  } rows[] = {{30, 20, 4}, {50, 50, 2}, {90, 10, 20}, {10, 90, 3}};
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    int a = rows[k].a, b = rows[k].b, n = a + b;
    double logs[200], r = rows[k].r, w = (a * r - b) / (n * (r - 1)), expected;
    for (int i = 0; i < n; i++) {
      logs[2 * i] = -1 + (i < a ? log(r) : 0);
      logs[2 * i + 1] = -1 + (i < a ? 0 : log(r));
    }
    w = fmin(fmax(w, 0), 1);
    expected = a * log(w * r + 1 - w) + b * log(w + (1 - w) * r) - n;
    const Stack *s = stack_make(c, logs, (size_t)n, 2);
    assert_true(fabs(s->weight[0] - w) < 1e-3 && fabs(s->weight[0] + s->weight[1] - 1) < 1e-9);
    assert_true(fabs(s->score - expected) < 1e-5 && s->gap < 1e-5);
    assert_true(fabs(s->gain - (expected - fmax(a, b) * log(r) + n)) < 1e-5);
    assert_int_equal(s->best, a >= b ? 0 : 1);
  }
}

/* Fits that are the same share their weight; one that is worse everywhere has none; rows that some
 * fit does not know do not count. */
TEST(stacking_edges) {
  double logs[4 * 10];
  for (int i = 0; i < 10; i++) {
    logs[4 * i] = logs[4 * i + 1] = -0.1 * i;
    logs[4 * i + 2] = -0.1 * i - 1;
    logs[4 * i + 3] = -0.1 * i - 700;
  }
  logs[4 * 9 + 2] = NAN;
  const Stack *s = stack_make(c, logs, 10, 4);
  assert_true(fabs(s->weight[0] - 0.5) < 1e-6 && s->weight[2] < 1e-6 && s->weight[3] < 1e-6);
  assert_true(fabs(s->score + 3.6) < 1e-5 && fabs(s->gain) < 1e-5);
}

/* ---- the normal example ---------------------------------------------------------------------- */

enum { N = 100 };
static const char location[] = "data { int N; vector[N] y; } parameters { real theta; } "
                               "model { theta ~ normal(0, 10); y ~ normal(theta, 1); }";

/* Normal quantiles, scaled so that the outcomes have mean 1 and variance 4 (divided by N). */
static const char *outcomes(Ctx *c) {
  double y[N], ss = 0;
  Text t = text_make(&c->arena);
  for (int i = 0; i < N; i++) {
    double p = (i + 0.5) / N, z = 0;
    for (int k = 0; k < 60; k++) /* Newton's method for the quantile */
      z -= (0.5 * erfc(-z / sqrt(2)) - p) / (exp(-0.5 * z * z) / sqrt(2 * M_PI)) * 0.5;
    ss += z * z;
    y[i] = z;
  }
  text_printf(&t, "{\"N\": %d, \"y\": [", N);
  for (int i = 0; i < N; i++) text_printf(&t, "%s%.12g", i ? "," : "", 1 + 2 * y[i] * sqrt(N / ss));
  text_puts(&t, "]}");
  return t.s;
}

typedef struct {
  pvi_context *p;
  pvi_model *m;
  pvi_options *o;
} Example;

/* words: "name=value name=value" */
static Example example(Ctx *c, const char *words) {
  Example e = {.p = pvi_open()};
  assert_int_equal(pvi_load_text(e.p, location, outcomes(c), NULL, &e.m), PVI_STATUS_OK);
  e.o = pvi_options_new(e.p);
  char text[256], *rest = text;
  snprintf(text, sizeof text, "%s", words);
  for (char *w; (w = strsep(&rest, " "));) {
    char *value = strchr(w, '=');
    *value++ = 0;
    assert_int_equal(pvi_set(e.o, w, value), PVI_STATUS_OK);
  }
  return e;
}

static void finish(Example *e) {
  pvi_options_free(e->o);
  pvi_model_free(e->m);
  pvi_close(e->p);
}

/* The posterior has variance 1 / n, those of resampled data have means of variance s^2 / n:
 * together 5 / n, and the index is 1 - 2 / 5. */
TEST(bayesbag) {
  Example e = example(c, "bags=2000 json=true");
  const char *text;
  assert_int_equal(pvi_bag_report(e.p, e.m, e.o, &text), PVI_STATUS_OK);
  double sd = 0, bayes = 0, index = 0, mean = 0;
  const char *at = strstr(text, "\"mean\"");
  assert_int_equal(sscanf(at, "\"mean\": %lf, \"sd\": %lf", &mean, &sd) +
                       sscanf(strstr(text, "\"bayes_sd\""), "\"bayes_sd\": %lf", &bayes) +
                       sscanf(strstr(text, "\"mismatch\""), "\"mismatch\": %lf", &index),
                   4);
  assert_true(fabs(mean - 1) < 0.02 && fabs(bayes - 0.1) < 0.001);
  assert_true(fabs(sd - sqrt(5.0 / N)) < 0.04 * sqrt(5.0 / N));
  assert_true(fabs(index - 0.6) < 0.04);
  finish(&e);
}

typedef struct {
  const char *name, *options;
  double sd, tolerance; /* of q, relatively */
} FitRow;

/* PVI's q has variance s^2 - 1 = 3 in any family that holds a normal; with M = 1 PAC^m-Bayes is VI,
 * whose q is the posterior. */
static const FitRow fit_rows[] = {
    {"neural empirical Bayes", "score=log family=flow lambda=0", 1.7320508, 0.03},
    {"particles, log score", "score=log family=particles lambda=0", 1.7320508, 0.03},
    {"particles, CRPS", "score=crps family=particles components=12 lambda=0", 1.7320508, 0.04},
    {"PAC^m-Bayes, m = 1",
     "score=log regularize=prior lambda=1 integrate=draws draws=1 optimizer=adam iterations=6000 "
     "learning-rate=0.02 schedule=warmup-cosine",
     0.1, 0.1},
    {"PAC^m-Bayes, m = 2000",
     "score=log regularize=prior lambda=1 integrate=draws draws=2000 optimizer=adam iterations=600 "
     "learning-rate=0.03 schedule=warmup-cosine",
     1.7320508, 0.03},
};

TEST(fits_of_relatives) {
  const FitRow *r = row;
  Example e = example(c, r->options);
  pvi_run *run = NULL;
  int status = pvi_fit(e.p, e.m, e.o, NULL, &run);
  assert_true(status == PVI_STATUS_OK || status == PVI_STATUS_NOT_CONVERGED);
  const pvi_result *x = pvi_result_of(run);
  if (!(fabs(x->mean[0] - 1) < 0.06 && fabs(x->sd[0] - r->sd) < r->tolerance * r->sd))
    fail_msg("mean %g, sd %g: %s", x->mean[0], x->sd[0], x->reason);
  pvi_run_free(run);
  finish(&e);
}

int main(void) {
  static Suite s;
  SUITE_ADD(&s, stacking_two);
  SUITE_ADD(&s, stacking_edges);
  SUITE_ADD(&s, bayesbag);
  for (size_t k = 0; k < sizeof fit_rows / sizeof *fit_rows; k++)
    suite_add(&s, fit_rows[k].name, fits_of_relatives, &fit_rows[k]);
  return suite_run("relatives", &s);
}
