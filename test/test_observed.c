/* test_observed.c: observations that are the same are computed once: which are the same, and that
 * objectives do not change. */
#include "objective.h"

#include "infer/exact.h"

/* Twelve observations; as pairs (x, z) six different ones, (x, k) four, (x, s) three, (x, y) all.
 */
static const char data[] =
    "{\"N\": 12, \"x\": [0, 1, 1, 0, 2, 2, 1, 0, 0, 1, 2, 0], \"z\": [1, 0, 0, 1, 1, 0, 1, 0, 1, "
    "0, 1, 1],"
    " \"g\": [1, 2, 2, 1, 3, 3, 2, 1, 1, 2, 3, 1], \"k\": [2, 3, 3, 2, 1, 0, 3, 2, 2, 3, 1, 2],"
    " \"y\": [0.1, 1, 1.5, -0.1, 2, 2.5, 1.1, 0.2, -0.3, 0.7, 1.9, 0.4],"
    " \"s\": [0.5, 1, 1, 0.5, 2, 2, 1, 0.5, 0.5, 1, 2, 0.5]}";
#define DATA                                                                                       \
  "data { int N; vector[N] x; array[N] int z; array[N] int<lower=1> g; array[N] int k; vector[N] " \
  "y; vector<lower=0>[N] s; } "                                                                    \
  "transformed data { matrix[N, 2] X; for (i in 1:N) X[i] = [1, x[i]]; } "
#define PARAMETERS                                                                                 \
  "parameters { vector[2] b; vector[3] a; real<lower=0> tau; } model { b ~ normal(0, 2); a ~ "     \
  "normal(0, tau); tau ~ normal(0, "                                                               \
  "1); "

typedef struct {
  const char *name, *program;
  size_t distinct; /* 12: nothing is collapsed */
  bool exact;      /* integrates exactly too */
  const char *scores[4];
} Row;

static const Row rows[] = {
    {"logistic",
     DATA PARAMETERS "z ~ bernoulli_logit(X * b + a[g]); }",
     6,
     true,
     {"log", "elbo", "quadratic", "crps"}},
    {"a loop",
     DATA PARAMETERS "for (i in 1:N) z[i] ~ bernoulli_logit(b[1] + b[2] * x[i] + a[g[i]]); }",
     6,
     true,
     {"log"}},
    {"binomial",
     DATA PARAMETERS "z ~ binomial_logit(3, b[1] + b[2] * x); }",
     6,
     true,
     {"log", "crps"}},
    {"trials",
     DATA PARAMETERS "z ~ binomial_logit(g, b[1] + b[2] * x); }",
     6,
     true,
     {"log", "quadratic"}},
    {"poisson", DATA PARAMETERS "k ~ poisson_log(b[1] + b[2] * x); }", 4, true, {"log", "elbo"}},
    {"outcomes all different",
     DATA PARAMETERS "y ~ normal(b[1] + b[2] * x, tau); }",
     12,
     true,
     {"log", "crps"}},
    {"outcomes alike",
     DATA PARAMETERS "s ~ normal(b[1] + b[2] * x, tau); }",
     3,
     true,
     {"log", "crps", "interval", "elbo"}},
    {"categorical",
     DATA PARAMETERS "for (i in 1:N) g[i] ~ categorical_logit(a * (1 + x[i])); }",
     3,
     false,
     {"log", "quadratic"}},
    {"categorical, vectorized",
     DATA PARAMETERS "g ~ categorical_logit(append_row(a, b)); }",
     3,
     false,
     {"log", "quadratic"}},
    {"two blocks",
     DATA PARAMETERS
     "z ~ bernoulli_logit(b[1] + b[2] * x); for (i in 1:N) s[i] ~ normal(a[g[i]], 1); }",
     9,
     true,
     {"log"}},
    {"one or two statements",
     DATA PARAMETERS "for (i in 1:N) { if (s[i] > 1.5) z[i] ~ bernoulli_logit(b[2]); y[i] ~ "
                     "normal(b[1], tau); } }",
     12,
     false,
     {"log", "elbo"}},
    {"simulated", DATA PARAMETERS "s ~ normal(b[1] + b[2] * x, tau); }", 12, false, {"crps_sim"}},
};

static Observed *all_of(Ctx *c, const Model *m, const Target *t, bool collapse) {
  Observed *o = observed_make(&c->arena, m, NULL, 0, target_wants(t));
  if (collapse) observed_collapse(o);
  observed_reduce(o);
  return o;
}

static double number_of(const Observed *o) {
  double n = 0;
  for (size_t k = 0; k < o->n; k++) n += observed_count(o, k);
  return n;
}

/* What is observed has as many rows as the observations, or is not known. */
static void check_outcomes(const Model *m) {
  for (int b = 0; b < m->nblocks; b++) {
    const ObsBlock *o = &m->blocks[b];
    if (o->dist < 0) assert_null(o->size);
    if (o->dist < 0 && o->sim == NO_NODE) assert_true(!o->y && !o->sim_y);
  }
}

/* Value and gradient of the collapsed are those of all. */
static void check_objective(Ctx *c, const Row *p, const Model *m, const Target *t,
                            const char *family) {
  Q q = q_make(&c->arena, family_named(family), (Shape){0}, m->dim, NULL);
  size_t n = q_size(&q);
  double *phi = some_phi(c, &q), *grad[2];
  PredictiveValue v[2];
  for (int k = 0; k < 2; k++) {
    Observed *o = all_of(c, m, t, k);
    size_t all = (size_t)number_of(o);
    assert_int_equal(all, m->n_obs);
    if (k && o->n != (p->distinct == 12 ? m->n_obs : p->distinct))
      fail_msg("%zu different ones", o->n);
    assert_true((o->count != NULL) == (o->n != m->n_obs));
    grad[k] = NEW_ARRAY(&c->arena, double, n);
    assert_true(predictive_eval(predictive_make(&c->arena, o, t, &q, (NoiseSet){40, 5}, NULL), phi,
                                &v[k], grad[k]));
  }
  assert_close(v[1].value, v[0].value, 1e-12);
  assert_close(v[1].score, v[0].score, 1e-12);
  for (size_t k = 0; k < n; k++) assert_close(grad[1][k], grad[0][k], 1e-10);
}

TEST(objective_is_the_same) {
  const Row *p = row;
  static const char *const families[] = {"meanfield", "fullrank", "mixture"};
  Model *m = model_of(c, p->program, data);
  check_outcomes(m);
  for (int s = 0; s < 4 && p->scores[s]; s++)
    for (int f = 0; f < 3; f++)
      for (int how = 0; how < 1 + p->exact; how++)
        for (int posterior = 0; posterior < 2; posterior++) {
          Target t = {.regularizer = posterior ? REG_POSTERIOR : REG_PRIOR,
                      .lambda = 0.3,
                      .score_weight = 1.5,
                      .score_options = {.alpha = 0.1, .smooth = 0.2},
                      .integrate = how ? INTEGRATE_EXACT : INTEGRATE_DRAWS};
          assert_true(score_find(p->scores[s], &t.score));
          check_objective(c, p, m, &t, families[f]);
        }
}

/* Rows stand for those they were taken from: all of them give the objective itself, fewer the same
 * number of observations. */
TEST(samples) {
  const Row *p = row;
  Model *m = model_of(c, p->program, data);
  Target t = {.score = SCORE_log, .regularizer = REG_POSTERIOR, .lambda = 0.3, .score_weight = 1};
  Q q = q_make(&c->arena, FAMILY_meanfield, (Shape){0}, m->dim, NULL);
  double *phi = some_phi(c, &q);
  Observed *all = all_of(c, m, &t, true);
  double value = value_at(predictive_make(&c->arena, all, &t, &q, (NoiseSet){40, 5}, NULL), phi);
  for (size_t n = 1; n <= all->n; n++) {
    Observed *s = observed_sample(&c->arena, all, n, 3);
    observed_reduce(s);
    assert_int_equal(s->n, n);
    assert_int_equal(s->rows.first[m->nblocks], n);
    double sampled = value_at(predictive_make(&c->arena, s, &t, &q, (NoiseSet){40, 5}, NULL), phi);
    if (n == all->n) assert_true(number_of(s) == (double)m->n_obs && sampled == value);
    for (int b = 0; b < m->nblocks; b++)
      for (size_t k = s->rows.first[b]; k < s->rows.first[b + 1]; k++)
        assert_true(s->rows.row[k] < m->blocks[b].rows);
  }
}

/* Rows that read the same parameter come together, with their counts; what is computed does not
 * change. */
TEST(sorting) {
  static const char program[] =
      "data { int N; array[N] int z; array[N] int h; }"
      " parameters { vector[100] a; } model { a ~ normal(0, 1); z ~ bernoulli_logit(a[h]); }";
  static const char unsorted[] =
      "{\"N\": 9, \"z\": [1, 0, 0, 1, 1, 0, 1, 0, 1], \"h\": [90, 3, 55, 3, 90, 55, 1, 3, 55]}";
  Model *m = model_of(c, program, unsorted);
  Target t = {.score = SCORE_log,
              .regularizer = REG_PRIOR,
              .lambda = 0.3,
              .score_weight = 1,
              .integrate = INTEGRATE_DRAWS};
  Q q = q_make(&c->arena, FAMILY_meanfield, (Shape){0}, m->dim, NULL);
  double *phi = some_phi(c, &q), *grad[2];
  PredictiveValue v[2];
  for (int k = 0; k < 2; k++) {
    Observed *o = observed_make(&c->arena, m, NULL, 0, WANT_LL);
    observed_collapse(o);
    if (k) observed_sort(o);
    assert_int_equal(o->n, 6);
    assert_true(number_of(o) == 9);
    for (size_t r = 0; k && r < o->n; r++) {
      static const int32_t expected[] = {6, 1, 3, 2, 8, 0}; /* h = 1, 3, 3, 55, 55, 90 */
      static const double count[] = {1, 2, 1, 2, 1, 2};
      assert_true(o->rows.row[r] == expected[r] && observed_count(o, r) == count[r]);
    }
    grad[k] = NEW_ARRAY(&c->arena, double, q_size(&q));
    assert_true(predictive_eval(predictive_make(&c->arena, o, &t, &q, (NoiseSet){40, 5}, NULL), phi,
                                &v[k], grad[k]));
  }
  assert_close(v[1].value, v[0].value, 1e-13);
  for (size_t k = 0; k < q_size(&q); k++) assert_close(grad[1][k], grad[0][k], 1e-12);
}

/* ---- condensed observations --------------------------------------------------------------------
 */

typedef struct {
  const char *name, *program;
  size_t rows; /* of all blocks; 12 a block: nothing is condensed */
} Condensed;

static const Condensed condensed[] = {
    {"a line", DATA PARAMETERS "y ~ normal(b[1] + b[2] * x, tau); }", 3},
    {"a design matrix", DATA PARAMETERS "y ~ normal_id_glm(X, 0.5, b, tau); }", 3},
    {"one number", DATA PARAMETERS "y ~ normal(b[1], 2); }", 2},
    {"outcomes alike, counted", DATA PARAMETERS "s ~ normal(b[1], tau); }", 2},
    {"a loop", DATA PARAMETERS "for (i in 1:N) y[i] ~ normal(b[1] + x[i] * b[2] - 1, tau); }", 3},
    {"lognormal", DATA PARAMETERS "s ~ lognormal(b[1] + b[2] * x, tau); }", 3},
    {"location and outcome exchanged",
     DATA PARAMETERS "target += normal_lpdf(b[1] + b[2] * x | y, tau); }", 3},
    {"two statements", DATA PARAMETERS "y ~ normal(b[1], tau); k ~ poisson_log(b[2] * x); }", 14},
    {"a scale for each", DATA PARAMETERS "y ~ normal(b[1], tau * s); }", 12},
    {"a predictor that is not linear", DATA PARAMETERS "y ~ normal(b[1] * b[2] * x, tau); }", 12},
    {"too many parameters", DATA PARAMETERS "y ~ normal(X * b + a[g] + a[1] * x, tau); }", 12},
    {"another density", DATA PARAMETERS "y ~ cauchy(b[1], tau); }", 12},
};

/* VI of fewer rows is the same function of phi, by draws and by nodes. */
TEST(condensed_rows_have_the_same_sum) {
  const Condensed *p = row;
  static const char *const families[] = {"meanfield", "fullrank"};
  Model *m = model_of(c, p->program, data);
  for (int k = 0; k < 8; k++) {
    Target t = {.score = SCORE_elbo,
                .regularizer = REG_PRIOR,
                .lambda = 1,
                .score_weight = 1,
                .integrate = k & 1 ? INTEGRATE_EXACT : INTEGRATE_DRAWS};
    Q q = q_make(&c->arena, family_named(families[k / 2 % 2]), (Shape){0}, m->dim, NULL);
    Observed *all = observed_make(&c->arena, m, NULL, 0, WANT_LL);
    if (k & 4) observed_collapse(all);
    Observed *fewer = observed_condensed(&c->arena, all), *each[] = {all, fewer ? fewer : all};
    if (!all->count) assert_int_equal(fewer ? fewer->n : 12, p->rows);
    assert_close(number_of(each[1]), (double)m->n_obs, 1e-13);
    double *phi = some_phi(c, &q), *grad[2];
    PredictiveValue v[2];
    for (int i = 0; i < 2; i++) {
      grad[i] = NEW_ARRAY(&c->arena, double, q_size(&q));
      observed_reduce(each[i]);
      Predictive *of = predictive_make(&c->arena, each[i], &t, &q, (NoiseSet){40, 5}, NULL);
      assert_true(predictive_eval(of, phi, &v[i], grad[i]));
      if (i)
        assert_true(predictive_is_exact(of) ==
                    (t.integrate == INTEGRATE_EXACT && !each[0]->not_reduced));
    }
    assert_close(v[1].score, v[0].score, 1e-12);
    for (size_t i = 0; i < q_size(&q); i++) assert_close(grad[1][i], grad[0][i], 1e-10);
  }
}

int main(void) {
  static Suite s;
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
    suite_add(&s, rows[k].name, objective_is_the_same, &rows[k]);
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
    if (strcmp(rows[k].name, "simulated") != 0) suite_add(&s, rows[k].name, samples, &rows[k]);
  SUITE_ADD(&s, sorting);
  for (size_t k = 0; k < sizeof condensed / sizeof *condensed; k++)
    suite_add(&s, condensed[k].name, condensed_rows_have_the_same_sum, &condensed[k]);
  return suite_run("observed", &s);
}
