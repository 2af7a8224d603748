/* test_fit.c: the objective on draws, and whole fits with it: gradients against finite differences
 * for every score and family, the exact optima of the paper's models, the same bytes for any number
 * of threads, points, mini-batches, simulators and the rejection estimator. */
#include "objective.h"

#include "infer/fit.h"
#include "infer/rejection.h"
#include "infer/simulator.h"
#include "infer/predictive_int.h"
#include "num/rng.h"
#include "num/sobol.h"

/* ---- gradients of the objective -------------------------------------------------------------- */

static const char regression[] =
    "data { int N; vector[N] x; vector[N] y; array[N] int<lower=0, upper=1> z; }"
    "parameters { real a; real b; real s; }"
    "model { a ~ normal(0, 2); b ~ normal(0, 2); s ~ normal(0, 1); y ~ normal(a + b * x, exp(s)); "
    "}";
static const char binary[] =
    "data { int N; vector[N] x; vector[N] y; array[N] int<lower=0, upper=1> z; }"
    "parameters { real a; real b; }"
    "model { a ~ normal(0, 2); b ~ normal(0, 2); z ~ bernoulli_logit(a + b * x); }";
static const char few[] =
    "{\"N\": 7, \"x\": [-1, 0.5, 2, 1, -0.3, 0, 1.5], \"y\": [0.1, 1, 3, -1, 0.4, 0.2, 2],"
    " \"z\": [0, 1, 1, 0, 0, 1, 1]}";

typedef struct {
  const char *name, *program, *score, *family;
  Regularizer regularizer;
  double lambda, weight;
  bool point;
} GradientRow;

static const GradientRow gradients[] = {
    {"elbo, mean field", regression, "elbo", "meanfield", REG_PRIOR, 1, 1, false},
    {"log, mean field, posterior", regression, "log", "meanfield", REG_POSTERIOR, 0.3, 1, false},
    {"log, full rank, prior", regression, "log", "fullrank", REG_PRIOR, 0.5, 1, false},
    {"log, low rank", regression, "log", "lowrank", REG_POSTERIOR, 0.5, 1, false},
    {"log, mixture: weighted draws", regression, "log", "mixture", REG_POSTERIOR, 0.5, 1, false},
    {"crps, mixture", regression, "crps", "mixture", REG_PRIOR, 0.1, 1, false},
    {"log, spline", regression, "log", "spline", REG_PRIOR, 0.1, 1, false},
    {"log, interpolated with VI", regression, "log", "meanfield", REG_POSTERIOR, 0.3, 0.7, false},
    {"log, a point", regression, "log", "meanfield", REG_POSTERIOR, 0.2, 1, true},
    {"crps", regression, "crps", "meanfield", REG_PRIOR, 0.1, 1, false},
    {"crps, posterior, full rank", regression, "crps", "fullrank", REG_POSTERIOR, 0.1, 1, false},
    {"crps, by simulation", regression, "crps_sim", "meanfield", REG_PRIOR, 0.1, 1, false},
    {"dawid-sebastiani", regression, "dawid_sebastiani", "meanfield", REG_PRIOR, 0.1, 1, false},
    {"quadratic", binary, "quadratic", "fullrank", REG_POSTERIOR, 0.1, 1, false},
    {"quadratic, mixture", binary, "quadratic", "mixture", REG_PRIOR, 0.1, 1, false},
};

TEST(gradient) {
  const GradientRow *g = row;
  Model *m = model_of(c, g->program, few);
  Target t = {.regularizer = g->regularizer,
              .lambda = g->lambda,
              .score_weight = g->weight,
              .score_options = {.alpha = 0.1}};
  FamilyId family = FAMILY_meanfield;
  assert_true(score_find(g->score, &t.score) && family_find(g->family, &family));
  bool point[3] = {false, g->point, false};
  Q q = q_make(&c->arena, family, (Shape){.knots = 5}, m->dim, point);
  Observed *o = observed_make(&c->arena, m, NULL, 0, target_wants(&t));
  Predictive *p = predictive_make(&c->arena, o, &t, &q, (NoiseSet){37, 5}, NULL);
  size_t n = q_size(&q);
  double *phi = NEW_ARRAY(&c->arena, double, n), *grad = NEW_ARRAY(&c->arena, double, n);
  q_start(&q, phi, (double[]){0.3, 0.7, -0.2}, (double[]){0.5, 0.4, 0.3});
  uint64_t state = 3;
  for (size_t k = 0; k < n; k++) phi[k] += uniform(&state, -0.1, 0.1);
  PredictiveValue v;
  assert_true(predictive_eval(p, phi, &v, grad));
  check_gradient(p, phi, grad, n, 2e-6);
}

/* ---- exact optima ---------------------------------------------------------------------------- */

typedef struct {
  const char *program, *data, *split, *score, *family;
  Regularizer regularizer;
  double lambda;
  double anchor, tolerance; /* of the log score, on the test part (golf: training part) */
  double least;             /* of the exact objective; 0: any */
} AnchorRow;

/* The last: the exact optimum is -909.53; a fit by draws promises that 0.02 sqrt(n) = 0.54 separate
 * its draws from others, within their error: twice that is allowed. */
static const AnchorRow anchors[] = {
    {"golf/logistic", NULL, NULL, "log", "meanfield", REG_PRIOR, 0, -84.113, 0.05, 0},
    {"golf/logistic", NULL, NULL, "log", "fullrank", REG_PRIOR, 0, -79.260, 0.05, 0},
    {"golf/geometric", NULL, NULL, "log", "meanfield", REG_PRIOR, 0, -72.082, 0.05, 0},
    {"paper/earnings", "earnings", "earnings", "elbo", "meanfield", REG_PRIOR, 1, -298.086, 0.02,
     0},
    {"paper/kidscore", "kidiq", "kidscore", "elbo", "meanfield", REG_PRIOR, 1, -591.139, 0.02, 0},
    {"paper/nes", "nes2000", "nes", "elbo", "meanfield", REG_PRIOR, 1, -185.689, 0.02, 0},
    {"paper/wells", "wells_data", "wells", "elbo", "meanfield", REG_PRIOR, 1, -393.784, 0.02, 0},
    {"paper/earnings", "earnings", "earnings", "log", "meanfield", REG_PRIOR, 0.01, -288.952, 0.1,
     0},
    {"paper/kidscore", "kidiq", "kidscore", "log", "meanfield", REG_POSTERIOR, 0.01, -369.869, 0.1,
     0},
    {"paper/nes", "nes2000", "nes", "log", "meanfield", REG_POSTERIOR, 0.01, -186.890, 0.2, 0},
    {"paper/wells", "wells_data", "wells", "log", "meanfield", REG_POSTERIOR, 0.01, -391.721, 0.1,
     0},
    {"paper/earnings", "earnings", "earnings", "log", "fullrank", REG_PRIOR, 1, -283.112, 0.5,
     -910.60},
};

static FitOptions options_of(const char *score, const char *family, Regularizer r, double lambda) {
  FitOptions o = {.target = {.regularizer = r,
                             .lambda = lambda,
                             .score_weight = 1,
                             .score_options = {.alpha = 0.1},
                             .integrate = INTEGRATE_DRAWS},
                  .optimizer = OPTIM_LBFGS,
                  .seed = 1};
  assert_true(score_find(score, &o.target.score) && family_find(family, &o.family));
  return o;
}

static double log_score(Ctx *c, const Model *m, const Fit *f, const size_t *rows, size_t n) {
  Observed *o = observed_make(&c->arena, m, rows, n, WANT_LL);
  double *s = NEW_ARRAY(&c->arena, double, n), sum = 0;
  predictive_log_scores(c, &(Scoring){.o = o, .q = &f->q, .phi = f->phi, .noise = {16384, 99}},
                        INTEGRATE_DRAWS, s);
  for (size_t k = 0; k < n; k++) sum += s[k];
  return sum;
}

TEST(exact_optimum) {
  const AnchorRow *a = row;
  if (a->data) NEED_SHARED(c, "data/paper/splits");
  const char *data =
      a->data ? shared_path(&c->arena, arena_format(&c->arena, "data/posteriordb/%s.json", a->data))
              : "examples/golf/golf.csv";
  Model *m = model_of_files(c, arena_format(&c->arena, "examples/%s.stan", a->program), data);
  Split *s =
      a->split
          ? split_read(c,
                       shared_path(&c->arena,
                                   arena_format(&c->arena, "data/paper/splits/%s.json", a->split)),
                       m->n_obs)
          : split_all(c, m->n_obs);
  FitOptions o = options_of(a->score, a->family, a->regularizer, a->lambda);
  Fit *f = fit_run(c, m, s, &o, NULL);
  int part = a->split ? PART_TEST : PART_TRAIN;
  double score = log_score(c, m, f, s->rows[part], s->count[part]);
  if (!accurate) return;
  assert_true(f->converged);
  /* some 150 of them look for denser places: points, at an eighth of the price; and some 250 for
   * other optima, at a quarter of it */
  if (!strcmp(a->family, "meanfield") && f->evaluations > 700)
    fail_msg("%ld evaluations", f->evaluations);
  if (!(fabs(score - a->anchor) <= a->tolerance))
    fail_msg("log score %.4f, exact %.4f", score, a->anchor);
  if (a->least == 0) return;
  Observed *train = observed_make(&c->arena, m, s->rows[PART_TRAIN], s->count[PART_TRAIN], WANT_LL);
  observed_reduce(train);
  Target exact = o.target; /* without the noise of draws */
  exact.integrate = INTEGRATE_EXACT;
  exact.nodes = 64;
  double value =
      value_at(predictive_make(&c->arena, train, &exact, &f->q, (NoiseSet){0, 1}, NULL), f->phi);
  if (value < a->least) fail_msg("objective %.4f is below %.4f", value, a->least);
}

/* ---- laws ------------------------------------------------------------------------------------ */

/* One seed, the same bytes. */
TEST(threads_do_not_matter) {
  Model *m = model_of_files(c, "examples/golf/logistic.stan", "examples/golf/golf.csv");
  FitOptions o = options_of("log", "fullrank", REG_POSTERIOR, 0.01);
  const Fit *alone = fit_run(c, m, split_all(c, m->n_obs), &o, NULL);
  for (int threads = 2; threads <= 7; threads += 5) {
    Pool *pool = pool_make(c, threads);
    const Fit *f = fit_run(c, m, split_all(c, m->n_obs), &o, pool);
    pool_free(pool);
    assert_memory_equal(alone->phi, f->phi, q_size(&f->q) * sizeof *f->phi);
    assert_int_equal(alone->evaluations, f->evaluations);
  }
}

/* Of a scale that may be negative q keeps the fixed draws away, but not fresh ones: where one of
 * those has no density, the objective has no value and the draws cannot agree. */
TEST(fresh_draws_without_density) {
  Model *m = model_of(c,
                      "data { vector[2] y; } parameters { real t; }"
                      "model { t ~ normal(0, 5); y ~ normal(0, sqrt(2 + t)); }",
                      "{\"y\": [1, -1.5]}");
  FitOptions o = options_of("elbo", "meanfield", REG_PRIOR, 1);
  o.draws = 4;
  const Fit *f = fit_run(c, m, split_all(c, 2), &o, NULL);
  assert_false(f->converged);
  assert_true(f->value.value == -INFINITY && f->stages[0].fresh == -INFINITY);
  assert_non_null(strstr(f->reason, "not finite on fresh ones"));
}

#ifndef PVI_TORTURE /* draws are too few to tell there */
/* A rich q of few numbers is looked for on few draws, and comes to the exact optimum all the same,
 * by an exact measure. */
TEST(draws_come_close) {
  Model *m = model_of_files(c, "examples/golf/logistic.stan", "examples/golf/golf.csv");
  FitOptions o = options_of("log", "fullrank", REG_POSTERIOR, 0.01);
  o.target.integrate = INTEGRATE_EXACT;
  const Fit *exact = fit_run(c, m, split_all(c, m->n_obs), &o, NULL);
  o.target.integrate = INTEGRATE_DRAWS;
  const Fit *draws = fit_run(c, m, split_all(c, m->n_obs), &o, NULL);
  assert_true(exact->exact && exact->converged && !draws->exact && draws->converged);
  Observed *train = observed_make(&c->arena, m, NULL, 0, WANT_LL);
  observed_reduce(train);
  Target t = o.target;
  t.integrate = INTEGRATE_EXACT;
  t.nodes = 64;
  Predictive *p = predictive_make(&c->arena, train, &t, &exact->q, (NoiseSet){0, 1}, NULL);
  double best = value_at(p, exact->phi), found = value_at(p, draws->phi);
  if (!(found > best - 0.01 * sqrt((double)m->n_obs)))
    fail_msg("draws come to %.5f, the optimum is %.5f", found, best);
}

/* Outcomes far narrower than q lie between its draws, and draws can be put on them. A stage that
 * does so ends long before its optimum, and the next has more draws. */
TEST(exploited_draws) {
  enum { N = 100, D = 10 };
  Text json = text_make(&c->arena);
  text_printf(&json, "{\"N\": %d, \"D\": %d, \"X\": [", N, D);
  for (uint64_t k = 0; k < N; k++) {
    text_printf(&json, "%s[", k ? ", " : "");
    for (uint64_t d = 0; d < D; d++)
      text_printf(&json, "%s%.6g", d ? ", " : "", rng_normal(rng_make(5, 0), k, d));
    text_printf(&json, "]");
  }
  text_printf(&json, "], \"y\": [");
  for (uint64_t k = 0; k < N; k++)
    text_printf(&json, "%s%.6g", k ? ", " : "", rng_normal(rng_make(6, 0), k, 0));
  text_printf(&json, "]}");
  Model *m = model_of(c,
                      "data { int N; int D; matrix[N, D] X; vector[N] y; } parameters { vector[D] "
                      "b; } model { b ~ normal(0, 1); y ~ normal(X * b, 0.01); }",
                      json.s);
  FitOptions o = options_of("log", "fullrank", REG_POSTERIOR, 0.001);
  o.target.integrate = INTEGRATE_DRAWS;
  const Fit *grown = fit_run(c, m, split_all(c, N), &o, NULL);
  assert_true(grown->nstages > 1);
  o.draws = grown->stages[0].draws;
  const Fit *fixed = fit_run(c, m, split_all(c, N), &o, NULL);
  const FitStage *left = &grown->stages[0], *ended = &fixed->stages[0];
  assert_false(fixed->converged);
  assert_true(left->objective < ended->objective - 1 && left->gap > 0.06 * sqrt(N));
  o.draws = 0;
  o.rough = true; /* one fold of many, which gets no more draws, ends there, too */
  const Fit *rough = fit_run(c, m, split_all(c, N), &o, NULL);
  assert_true(rough->iterations < fixed->iterations);
  assert_non_null(strstr(rough->reason, "stopped"));
}
#endif

/* Mini-batches: the mean over all batches of the scaled objective is the objective. */
TEST(minibatches_scale) {
  Model *m = model_of(c, regression, few);
  Target t = {.score = SCORE_log, .regularizer = REG_POSTERIOR, .lambda = 0.3, .score_weight = 1};
  Q q = q_make(&c->arena, FAMILY_meanfield, (Shape){0}, m->dim, NULL);
  Predictive *p = predictive_make(&c->arena, observed_make(&c->arena, m, NULL, 0, WANT_LL), &t, &q,
                                  (NoiseSet){16, 1}, NULL);
  double phi[6] = {0.1, 0.2, 0.3, -1, -1, -1}, whole = value_at(p, phi), mean = 0;
  for (int k = 0; k < 7; k++) {
    predictive_range(p, k / 7.0, (k + 1) / 7.0);
    mean += value_at(p, phi) / 7;
  }
  assert_close(mean, whole, 1e-12);
}

/* Of so many parameters the ELBO is taken in slices of the draws: it is the mean over all of them,
 * which are the Sobol points of the whole set, and its gradient is that. */
TEST(slices_are_all_draws) {
  enum { D = 3000, M = 1024, SEED = 5 };
  Model *m = model_of(c,
                      "data { real y; } parameters { vector[3000] x; } model { x ~ normal(0, 1); y "
                      "~ normal(x[1] + x[3000], 2); }",
                      "{\"y\": 1.5}");
  Target t = {.score = SCORE_elbo,
              .regularizer = REG_PRIOR,
              .lambda = 1,
              .score_weight = 1,
              .integrate = INTEGRATE_DRAWS};
  Q q = q_make(&c->arena, FAMILY_meanfield, (Shape){0}, m->dim, NULL);
  const Observed *o = observed_make(&c->arena, m, NULL, 0, WANT_LL);
  Predictive *p = predictive_make(&c->arena, o, &t, &q, (NoiseSet){M, SEED}, NULL);
  double *phi = some_phi(c, &q), *grad = NEW_ARRAY(&c->arena, double, 2 * D), score = 0, first = 0,
         *u = NEW_ARRAY(&c->arena, double, D *M);
  PredictiveValue v;
  assert_int_equal(predictive_lanes(p), M);
  assert_true(predictive_eval(p, phi, &v, grad));
  sobol_normal(u, D, M, M, SEED, false);
  for (size_t j = 0; j < M; j++) {
    double a = phi[0] + exp(phi[D]) * u[j],
           b = phi[D - 1] + exp(phi[2 * D - 1]) * u[(D - 1) * M + j], z = (1.5 - a - b) / 2;
    score += (-0.5 * z * z - log(2) - 0.91893853320467274) / M;
    first += (z / 2 - a) / M;
  }
  assert_close(v.score, score, 1e-12);
  assert_close(grad[0], first, 1e-11);
  assert_close(predictive_rows(p)[0], score, 1e-12);
}

/* normal(theta, 1) with outcomes of variance 4: q has variance 3; VI's goes to 0. */
TEST(normal_example) {
  enum { N = 2000 };
  Text json = text_make(&c->arena);
  text_printf(&json, "{\"N\": %d, \"y\": [", N);
  double ss = 0, mean = 0, y[N];
  for (int k = 0; k < N; k++) {
    y[k] = 2 * rng_normal(rng_make(11, 0), (uint64_t)k, 0);
    mean += y[k] / N;
    text_printf(&json, k ? ", %.17g" : "%.17g", y[k]);
  }
  for (int k = 0; k < N; k++) ss += (y[k] - mean) * (y[k] - mean);
  text_puts(&json, "]}");
  Model *m = model_of(
      c, "data { int N; vector[N] y; } parameters { real theta; } model { y ~ normal(theta, 1); }",
      json.s);
  FitOptions o = options_of("log", "meanfield", REG_PRIOR, 0);
  double m1[1], sd[1];
  const Fit *f = fit_run(c, m, split_all(c, N), &o, NULL);
  q_moments(&f->q, f->phi, m1, sd);
  double tolerance = accurate ? 0.005 : 0.5;
  assert_true(fabs(sd[0] - sqrt(ss / N - 1)) < tolerance); /* the exact optimum */
  assert_true(fabs(m1[0] - mean) < tolerance);
  o = options_of("elbo", "meanfield", REG_PRIOR, 1);
  f = fit_run(c, m, split_all(c, N), &o, NULL);
  q_moments(&f->q, f->phi, m1, sd);
  assert_close(sd[0], 1 / sqrt(N), accurate ? 1e-4 : 1e-2);
}

/* A program without a density of its outcome finds the same as one with, by the same score. */
TEST(likelihood_free) {
  static const char simulator[] =
      "data { int N; vector[N] x; vector[N] y; array[N] int z; } parameters { real a; real b; }"
      "model { a ~ normal(0, 2); b ~ normal(0, 2); }"
      "generated quantities { vector[N] y_sim; for (n in 1:N) y_sim[n] = normal_rng(a + b * x[n], "
      "0.5); }";
  static const char density_of_it[] =
      "data { int N; vector[N] x; vector[N] y; array[N] int z; } parameters { real a; real b; }"
      "model { a ~ normal(0, 2); b ~ normal(0, 2); y ~ normal(a + b * x, 0.5); }";
  Program *p = stan_parse_text(c, "s.stan", simulator, strlen(simulator), NULL);
  stan_check(c, p);
  assert_int_equal(c->nerrors, 0);
  Model *m = model_make(c, p, data_read_text(c, "d.json", few, NULL),
                        &(ModelOptions){.simulate = "y_sim"});
  Model *d = model_of(c, density_of_it, few);
  assert_int_equal(m->n_obs, 7);
  FitOptions o = options_of("crps_sim", "meanfield", REG_PRIOR, 0.05);
  o.draws = 1024;
  const Fit *f = fit_run(c, m, split_all(c, 7), &o, NULL);
  o = options_of("crps", "meanfield", REG_PRIOR, 0.05);
  o.draws = 1024;
  const Fit *g = fit_run(c, d, split_all(c, 7), &o, NULL);
  double fm[2], fs[2], gm[2], gs[2];
  q_moments(&f->q, f->phi, fm, fs);
  q_moments(&g->q, g->phi, gm, gs);
  for (int k = 0; k < 2; k++) assert_true(fabs(fm[k] - gm[k]) < 0.1 && fabs(fs[k] - gs[k]) < 0.15);
}

/* The rejection estimator's mean gradient, at one draw, is the exact one: y ~ normal(theta, 1), q
 * normal(m, s), log score = log normal(y | m, sqrt(1 + s^2)). */
TEST(rejection_is_unbiased) {
  Model *m = model_of(
      c, "data { vector[2] y; } parameters { real theta; } model { y ~ normal(theta, 1); }",
      "{\"y\": [0.5, 2]}");
  Target t = {.score = SCORE_log, .regularizer = REG_PRIOR, .score_weight = 1};
  Q q = q_make(&c->arena, FAMILY_meanfield, (Shape){0}, 1, NULL);
  const Observed *o = observed_make(&c->arena, m, NULL, 0, WANT_LL | WANT_PARAMETERS);
  assert_null(rejection_cannot(&c->arena, o, &q));
  Rejection *r = rejection_make(&c->arena, o, &t, &q, 1, NULL);
  double phi[2] = {0.2, log(0.8)}, s2 = 0.64, v = 1 + s2, exact[2] = {0, 0}, mean[2] = {0, 0},
         ss[2] = {0, 0};
  static const double y[2] = {0.5, 2};
  for (int i = 0; i < 2; i++) {
    exact[0] += (y[i] - phi[0]) / v;
    exact[1] += s2 / v * ((y[i] - phi[0]) * (y[i] - phi[0]) / v - 1);
  }
  enum { TIMES = 40000 };
  for (uint64_t k = 0; k < TIMES; k++) {
    double value, g[2];
    assert_true(rejection_eval(r, phi, rng_mix(k + 1), &value, g));
    for (int j = 0; j < 2; j++) mean[j] += g[j] / TIMES, ss[j] += g[j] * g[j] / TIMES;
  }
  for (int j = 0; j < 2; j++) {
    double se = sqrt((ss[j] - mean[j] * mean[j]) / TIMES);
    if (!(fabs(mean[j] - exact[j]) <= 4 * se))
      fail_msg("entry %d: mean %.5f, exact %.5f, standard error %.5f", j, mean[j], exact[j], se);
  }
}

/* With one draw the log score is the mean log likelihood of VI. */
TEST(one_draw_is_vi) {
  Model *m = model_of(c, regression, few);
  Q q = q_make(&c->arena, FAMILY_meanfield, (Shape){0}, m->dim, NULL);
  double phi[6] = {0.1, 0.2, 0.3, -1, -1, -1}, g[2][6];
  for (int k = 0; k < 2; k++) {
    Target t = {.score = k ? SCORE_elbo : SCORE_log,
                .regularizer = REG_PRIOR,
                .lambda = 0,
                .score_weight = 1};
    PredictiveValue v;
    Predictive *p = predictive_make(&c->arena, observed_make(&c->arena, m, NULL, 0, WANT_LL), &t,
                                    &q, (NoiseSet){1, 4}, NULL);
    assert_true(predictive_eval(p, phi, &v, g[k]));
  }
  for (int k = 0; k < 6; k++) assert_close(g[0][k], g[1][k], 1e-14);
}

int main(void) {
  static Suite s;
  for (size_t k = 0; k < sizeof gradients / sizeof *gradients; k++)
    suite_add(&s, gradients[k].name, gradient, &gradients[k]);
  for (size_t k = 0; k < sizeof anchors / sizeof *anchors; k++)
    suite_add(&s, anchors[k].program, exact_optimum, &anchors[k]);
  SUITE_ADD(&s, threads_do_not_matter);
  SUITE_ADD(&s, fresh_draws_without_density);
#ifndef PVI_TORTURE
  SUITE_ADD(&s, draws_come_close);
  SUITE_ADD(&s, exploited_draws);
#endif
  SUITE_ADD(&s, minibatches_scale);
  SUITE_ADD(&s, slices_are_all_draws);
  SUITE_ADD(&s, normal_example);
  SUITE_ADD(&s, likelihood_free);
  SUITE_ADD(&s, rejection_is_unbiased);
  SUITE_ADD(&s, one_draw_is_vi);
  return suite_run("fit", &s);
}
