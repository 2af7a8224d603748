/* test_rightness.c: the outcomes' own distribution has the log score of a program without
 * covariates at its maximum, and nothing that such a program can say is above it. */
#include "evaluate.h"

#include "run/rightness.h"

typedef struct {
  const char *name, *program, *data;
  double at[2]; /* where the likelihood has its maximum, on the unconstrained scale */
} OutcomesRow;

#define Y "[1, 0, 4, 2, 2, 7, 1, 0, 4]"
static const OutcomesRow outcomes[] = {
    {"normal",
     "data { vector[4] y; } parameters { real m; real<lower=0> s; } model { y ~ normal(m, s); }",
     "{\"y\": [1001, 1003, 1004, 1008]}",
     {1004, 0.935901088450796}}, /* log of the root of (9 + 1 + 0 + 16) / 4 */
    {"lognormal",
     "data { vector[2] y; } parameters { real m; real<lower=0> s; } model { y ~ lognormal(m, s); }",
     "{\"y\": [1, 7.38905609893065]}",
     {1, 0}},
    {"poisson",
     "data { array[9] int y; } parameters { real m; } model { y ~ poisson_log(m); }",
     "{\"y\": " Y "}",
     {0.847297860387204}}, /* log(21 / 9) */
    {"bernoulli",
     "data { array[4] int y; } parameters { real m; } model { y ~ bernoulli_logit(m); }",
     "{\"y\": [0, 0, 1, 0]}",
     {-1.09861228866811}},
    {"binomial",
     "data { array[3] int n; array[3] int y; } parameters { real m; }"
     "model { y ~ binomial_logit(n, m); }",
     "{\"n\": [3, 8, 9], \"y\": [1, 2, 1]}",
     {-1.38629436111989}},
    {"binomial that never happens",
     "data { array[2] int n; array[2] int y; } parameters { real m; }"
     "model { y ~ binomial_logit(n, m); }",
     "{\"n\": [3, 8], \"y\": [0, 0]}",
     {-40}},
    {"categorical",
     "data { array[8] int y; } parameters { real a; real b; }"
     "model { y ~ categorical_logit([0, a, b]'); }",
     "{\"y\": [1, 1, 2, 1, 3, 3, 1, 2]}",
     {-0.693147180559945, -0.693147180559945}},
};

TEST(outcomes_alone) {
  const OutcomesRow *r = row;
  Model *m = model_of(c, r->program, r->data);
  double *counted = NEW_ARRAY(&c->arena, double, m->n_obs);
  double best = rightness_outcomes(m, counted);
  assert_close(density(c, m, r->at).likelihood, best, 1e-12);
  for (uint64_t seed = 1; seed < 20; seed++) {
    double *u = test_point(c, m->dim, seed, 0.5);
    for (size_t k = 0; k < m->dim; k++) u[k] += r->at[k];
    assert_true(density(c, m, u).likelihood <= best + 1e-9);
  }
}

/* Observations that no fold holds out do not count. */
TEST(rows_that_do_not_count) {
  static const char program[] = "data { int N; array[N] int y; } parameters { real m; }"
                                "model { y ~ poisson_log(m); }";
  Model *all = model_of(c, program, "{\"N\": 4, \"y\": [3, 1, 9, 4]}"),
        *some = model_of(c, program, "{\"N\": 2, \"y\": [3, 9]}");
  assert_close(rightness_outcomes(all, (double[]){0, NAN, 0, NAN}),
               rightness_outcomes(some, (double[]){0, 0}), 1e-14);
}

TEST(unknown_outcomes) {
  Model *m = model_of(c, "data { vector[2] y; } parameters { real m; } model { y ~ cauchy(m, 1); }",
                      "{\"y\": [1, 2]}");
  assert_true(isnan(rightness_outcomes(m, (double[]){0, 0})));
}

int main(void) {
  Suite s = {.n = 0};
  for (size_t k = 0; k < sizeof outcomes / sizeof *outcomes; k++)
    suite_add(&s, outcomes[k].name, outcomes_alone, &outcomes[k]);
  SUITE_ADD(&s, rows_that_do_not_count);
  SUITE_ADD(&s, unknown_outcomes);
  return suite_run("rightness", &s);
}
