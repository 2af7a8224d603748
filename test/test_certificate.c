/* test_certificate.c: the largest gain that other distributions could have, where the best of all
 * distributions is known: a location model of normal outcomes. */
#include "evaluate.h"

#include "infer/certificate.h"

static const char location[] = "data { int N; vector[N] y; } parameters { real theta; } "
                               "model { theta ~ normal(0, 10); y ~ normal(theta, 1); }";
static const char scale[] = "data { int N; vector[N] y; } parameters { real theta; real s; } "
                            "model { theta ~ normal(0, 10); y ~ normal(theta, exp(s)); }";

enum { N = 40, DRAWS = 200 };

/* q = normal(mean, sd): p_q(y) = normal(y | mean, sqrt(1 + sd^2)). Draws of q at quantiles. */
static const Certificate *certify(Ctx *c, const char *program, const double *y, double mean,
                                  double sd, int steps) {
  Text data = text_make(&c->arena);
  size_t rows[N];
  double scores[N], v = 1 + sd * sd;
  text_printf(&data, "{\"N\": %d, \"y\": [", N);
  for (int i = 0; i < N; i++) text_printf(&data, "%s%.17g", i ? "," : "", y[i]);
  text_puts(&data, "]}");
  const Model *m = model_of(c, program, data.s);
  double *draws = NEW_ARRAY(&c->arena, double, DRAWS * m->dim);
  for (size_t i = 0; i < N; i++) {
    rows[i] = i;
    scores[i] = -0.5 * log(2 * M_PI * v) - 0.5 * (y[i] - mean) * (y[i] - mean) / v;
  }
  for (size_t j = 0; j < DRAWS; j++)
    draws[j * m->dim] = mean + sd * 2.5 * (2.0 * ((double)j + 0.5) / DRAWS - 1);
  Pool *pool = pool_make(c, 2);
  const Certificate *r =
      certificate_find(c, &(CertificateProblem){m, rows, N, scores, draws, DRAWS, steps}, pool);
  pool_free(pool);
  return r;
}

/* Outcomes nearer to each other than the noise: one point is the best of all distributions. */
TEST(nothing_to_gain) {
  double y[N], mean = 0;
  for (int i = 0; i < N; i++) mean += (y[i] = 1 + 0.8 * sin(3.0 * i)) / N;
  const Certificate *r = certify(c, location, y, mean, 1e-6, CERTIFICATE_STEPS);
  assert_true(r->bounded && r->slope >= 0 && r->slope < 1e-6 && r->at_most < 1e-6);
}

/* Half of the outcomes are -a, half a: two points, each with all the density it can give its half,
 * against the best normal q, whose predictive distribution has variance a^2: n (log a + 1/2 - log
 * 2) nats. */
TEST(two_points_are_best) {
  double y[N], a = 4, gain = N * (log(a) + 0.5 - log(2));
  for (int i = 0; i < N; i++) y[i] = i % 2 ? a : -a;
  const Certificate *r = certify(c, location, y, 0, sqrt(a * a - 1), CERTIFICATE_STEPS);
  assert_true(r->bounded);
  assert_true(r->gain <= gain + 1e-9 && r->gain > 0.99 * gain - 0.01);
  assert_true(r->at_most >= gain - 1e-9 && r->at_most < 1.01 * gain + 0.02);
  assert_true(r->bound >= r->at_most && r->slope >= r->bound);
  assert_true(fabs(fabs(r->theta[0]) - a) < 0.05);
}

/* The bound alone, in closed form: D(theta) has its largest value at +-a but for the other half's
 * tail, mean ratio 1/2 normal(0) / p_q(a). */
TEST(the_bound_at_q) {
  double y[N], a = 4, sup = 0.5 * exp(0.5) * a;
  for (int i = 0; i < N; i++) y[i] = i % 2 ? a : -a;
  const Certificate *r = certify(c, location, y, 0, sqrt(a * a - 1), 0);
  assert_true(fabs(r->bound - N * log(sup)) < 1e-6 && fabs(r->slope - N * (sup - 1)) < 1e-5);
  assert_true(r->gain == 0 && r->points == 0);
}

/* With a free scale a single outcome can have any density. */
TEST(without_limit) {
  double y[N];
  for (int i = 0; i < N; i++) y[i] = sin(5.0 * i);
  assert_false(certify(c, scale, y, 0, 1, CERTIFICATE_STEPS)->bounded);
}

int main(void) {
  static Suite s;
  SUITE_ADD(&s, nothing_to_gain);
  SUITE_ADD(&s, two_points_are_best);
  SUITE_ADD(&s, the_bound_at_q);
  SUITE_ADD(&s, without_limit);
  return suite_run("certificate", &s);
}
