/* test_sample.c: the posterior by draws: its density against the one that `pvi density` reports,
 * samplers against posteriors that are known, diagnostics and PSIS against closed forms, the same
 * bytes for any number of threads, the files. */
#include "evaluate.h"

#include "interrupted_chains.h"
#include "infer/ess.h"
#include "infer/loo.h"
#include "infer/psis.h"
#include "infer/sampler.h"
#include "infer/warmup.h"
#include "num/stats.h"
#include "pvi.h"

/* ---- the density of many points -------------------------------------------------------------- */

static const char poisson[] =
    "data { int N; int J; array[N] int y; array[N] int g; vector[N] x; }"
    "parameters { real a; real<lower=0> s; vector[J] u; real b; }"
    "model { a ~ normal(0, 2); s ~ normal(0, 1); u ~ normal(0, s); y ~ poisson_log(a + b * x + "
    "u[g]); }";
static const char counts[] =
    "{\"N\": 9, \"J\": 3, \"y\": [1, 0, 4, 2, 2, 7, 1, 0, 4], \"g\": [1, 2, 3, 1, 1, 3, 2, 2, 3],"
    " \"x\": [0.1, -1, 0.7, 0.3, 0.3, 1.2, -0.5, -1, 0.7]}";

TEST(posterior_is_the_density) {
  enum { MOST = 40 };
  Model *m = model_of(c, poisson, counts);
  const Observed *o = posterior_observed(&c->arena, m, NULL, 0);
  Posterior *p = posterior_make(&c->arena, o, MOST, NULL);
  uint64_t state = 1;
  size_t dim = m->dim;
  double *theta = NEW_ARRAY(&c->arena, double, MOST *dim), value[MOST],
         *gradient = NEW_ARRAY(&c->arena, double, MOST *dim);
  for (size_t k = 0; k < MOST * dim; k++) theta[k] = uniform(&state, -2, 2);
  PosteriorPoint x[MOST];
  for (size_t j = 0; j < MOST; j++)
    x[j] = (PosteriorPoint){theta + j * dim, gradient + j * dim, &value[j]};
  static const size_t sizes[] = {1, 7, 8, 13, 40};
  for (size_t s = 0; s < 5; s++) {
    memset(gradient, 0, MOST * dim * sizeof *gradient);
    posterior_eval(p, x, sizes[s]);
    const DensityAt *d = densities(c, m, theta, sizes[s]);
    for (size_t j = 0; j < sizes[s]; j++) {
      assert_close(value[j], d[j].lp, 1e-12);
      for (size_t k = 0; k < dim; k++) assert_close(gradient[j * dim + k], d[j].grad[k], 1e-11);
    }
  }
}

TEST(gradient_is_that_of_the_value) {
  Model *m = model_of(c, poisson, counts);
  Posterior *p = posterior_make(&c->arena, posterior_observed(&c->arena, m, NULL, 0), 8, NULL);
  double theta[6] = {0.3, -0.4, 0.2, -0.1, 0.5, 0.7}, at, up, down, gradient[6], other[6];
  assert_int_equal(m->dim, 6);
  posterior_eval(p, &(PosteriorPoint){theta, gradient, &at}, 1);
  for (size_t k = 0; k < 6; k++) {
    const double h = 1e-5, was = theta[k];
    theta[k] = was + h;
    posterior_eval(p, &(PosteriorPoint){theta, other, &up}, 1);
    theta[k] = was - h;
    posterior_eval(p, &(PosteriorPoint){theta, other, &down}, 1);
    theta[k] = was;
    assert_close(gradient[k], (up - down) / (2 * h), 1e-7);
  }
}

/* ---- posteriors that are known --------------------------------------------------------------- */

/* A normal with strong correlations and scales from 0.01 to 100. */
static const char normal[] =
    "data { int K; vector[K] m; cov_matrix[K] S; } parameters { vector[K] x; }"
    "model { x ~ multi_normal(m, S); }";
static const double means[3] = {1, -2, 300},
                    covariance[3][3] = {{1, 0.0095, 20}, {0.0095, 1e-4, 0.3}, {20, 0.3, 10000}};
static const char normal_data[] = "{\"K\": 3, \"m\": [1, -2, 300], \"S\": [[1, 0.0095, 20], "
                                  "[0.0095, 1e-4, 0.3], [20, 0.3, 10000]]}";

static Sample *sample_of(Ctx *c, const Model *m, SampleOptions o, int threads) {
  uint64_t state = 3;
  double *start = NEW_ARRAY(&c->arena, double, o.chains * m->dim),
         *centre = NEW_ARRAY(&c->arena, double, m->dim);
  Metric first = metric_make(&c->arena, m->dim);
  for (size_t k = 0; k < o.chains * m->dim; k++) start[k] = uniform(&state, -2, 2);
  o.start = start;
  o.centre = centre;
  o.first = &first;
  Pool *pool = pool_make(c, threads);
  Sample *s = sample_run(c, posterior_observed(&c->arena, m, NULL, 0), &o, pool);
  pool_free(pool);
  return s;
}

/* x[k n + i] of a function of the draws. */
static double *values_of(Ctx *c, const Sample *s, size_t i, size_t j) {
  double *x = NEW_ARRAY(&c->arena, double, s->chains * s->draws);
  for (size_t k = 0; k < s->chains; k++)
    for (size_t t = 0; t < s->draws; t++) {
      const double *d = sample_draw(s, k, t);
      x[k * s->draws + t] = j == SIZE_MAX ? d[i] : (d[i] - means[i]) * (d[j] - means[j]);
    }
  return x;
}

static void is_mean(Ctx *c, const Sample *s, const double *x, double expected) {
  DrawsQuality q = ess_quality(ess_work(&c->arena, s->chains, s->draws), x);
  double mean = stat_mean(x, s->chains * s->draws);
  if (!(fabs(mean - expected) < 5 * q.mcse))
    fail_msg("%g instead of %g, with an error of %g", mean, expected, q.mcse);
  assert_true(q.rhat < 1.05 && q.ess_bulk > 200);
}

typedef struct {
  const char *name;
  SamplerId method;
  MetricKind metric;
  size_t chains, warmup, draws;
} KnownRow;
static const KnownRow known[] = {
    {"nuts, dense", SAMPLER_nuts, METRIC_DENSE, 32, 300, 250},
    {"nuts, auto", SAMPLER_nuts, METRIC_AUTO, 20, 300, 300},
    {"nuts, diagonal", SAMPLER_nuts, METRIC_DIAG, 16, 400, 400},
    {"nuts, four chains and Stan's windows", SAMPLER_nuts, METRIC_AUTO, 4, 1000, 1000},
    {"lanes, dense", SAMPLER_chees, METRIC_DENSE, 32, 300, 300},
    {"lanes, auto", SAMPLER_chees, METRIC_AUTO, 64, 300, 200},
};

TEST(moments_are_right) {
  const KnownRow *r = row;
  SampleOptions o = {.method = r->method,
                     .chains = r->chains,
                     .warmup = r->warmup,
                     .draws = r->draws,
                     .metric = r->metric,
                     .seed = 5};
  const Sample *s = sample_of(c, model_of(c, normal, normal_data), o, 2);
  assert_int_equal(s->draws, r->draws);
  for (size_t i = 0; i < 3; i++) {
    is_mean(c, s, values_of(c, s, i, SIZE_MAX), means[i]);
    for (size_t j = 0; j <= i; j++) is_mean(c, s, values_of(c, s, i, j), covariance[i][j]);
  }
}

/* The energy error of leapfrog steps is the same there and back: a chain of one parameter with a
 * known density visits every place as often as that says. Bins of equal probability, chi-square. */
TEST(ranks_are_uniform) {
  enum { BINS = 16 };
  for (SamplerId method = 0; method < SAMPLER_COUNT; method++) {
    SampleOptions o = {.method = method, .chains = 32, .warmup = 100, .draws = 500, .seed = 9};
    const Sample *s = sample_of(
        c, model_of(c, "parameters { real x; } model { x ~ logistic(0, 1); }", NULL), o, 1);
    double bins[BINS] = {0}, chi = 0, n = 0;
    for (size_t k = 0; k < s->chains; k++)
      for (size_t t = 0; t < s->draws; t += 10, n++)
        bins[(size_t)(BINS / (1 + exp(-*sample_draw(s, k, t))))]++;
    for (size_t b = 0; b < BINS; b++)
      chi += (bins[b] - n / BINS) * (bins[b] - n / BINS) / (n / BINS);
    assert_true(chi < 44.3); /* the quantile at 1 - 1e-4 of 15 degrees of freedom */
  }
}

/* Jumps leave the posterior as it is whatever the normal is that they are drawn from: here one that
 * is off its place and of another shape. Where it is far too bad, or the posterior is, there are
 * none. */
TEST(jumps_of_any_normal) {
  Model *m = model_of(c,
                      "parameters { real<lower=0> x; real y; }"
                      "model { x ~ gamma(9, 3); y ~ student_t(9, x, 1); }",
                      NULL);
  static const double places[] = {1.04, 1.1, 9}; /* the posterior's is 1.04, its sd 0.34 */
  for (size_t k = 0; k < 3; k++) {
    uint64_t state = 3;
    double start[64], centre[2] = {places[k], 3};
    Metric first = metric_make(&c->arena, 2);
    metric_dense(&first, (const double[]){0.12, 0.3, 0.3, 2.2});
    for (size_t j = 0; j < 64; j++) start[j] = uniform(&state, 0.5, 1.5);
    SampleOptions o = {.method = SAMPLER_chees,
                       .chains = 32,
                       .warmup = 100,
                       .draws = 1000,
                       .seed = 4 + k,
                       .metric = METRIC_AUTO,
                       .start = start,
                       .centre = centre,
                       .first = &first,
                       .near = true};
    const Sample *s = sample_run(c, posterior_observed(&c->arena, m, NULL, 0), &o, NULL);
    assert_true((s->jumps > 0) == (k < 2));
    double *x = NEW_ARRAY(&c->arena, double, s->chains * s->draws),
           *y = NEW_ARRAY(&c->arena, double, s->chains * s->draws);
    for (size_t i = 0; i < s->chains * s->draws; i++) {
      const double *d = sample_draw(s, i / s->draws, i % s->draws);
      x[i] = exp(d[0]);
      y[i] = d[1] * d[1];
    }
    is_mean(c, s, x, 3);
    is_mean(c, s, y, 9 + 1 + 9.0 / 7); /* E x^2 + variance of t */
  }
}

/* Neal's funnel, centred: its neck is too narrow for any one step. */
static const char funnel[] =
    "parameters { real y; vector[9] x; } model { y ~ normal(0, 3); x ~ normal(0, exp(y / 2)); }";

TEST(funnel_diverges) {
  Model *m = model_of(c, funnel, NULL);
  SampleOptions o = {.chains = 16, .warmup = 200, .draws = 250, .metric = METRIC_AUTO, .seed = 1};
  const Sample *s = sample_of(c, m, o, 1);
  size_t divergences = 0;
  SampleOptions lanes = o;
  lanes.method = SAMPLER_chees;
  lanes.chains = 32;
  assert_int_equal(sample_of(c, m, lanes, 1)->jumps, 0);
  for (size_t k = 0; k < s->chains; k++)
    for (size_t t = 0; t < s->draws; t++) divergences += s->chain[k]->stats[t].divergent != 0;
  assert_true(divergences > 0);
}

/* Where trajectories diverge in warm-up the step becomes shorter, unless an acceptance was asked
 * for. */
TEST(a_step_too_bold) {
  static const struct {
    const char *program;
    double asked, comes;
  } rows[] = {{funnel, 0, 0.95}, {funnel, 0.8, 0.8}, {normal, 0, 0}};
  for (SamplerId method = 0; method < SAMPLER_COUNT; method++)
    for (size_t k = 0; k < 3; k++) {
      SampleOptions o = {.method = method,
                         .chains = 32,
                         .warmup = 150,
                         .draws = 20,
                         .accept = rows[k].asked,
                         .metric = METRIC_AUTO,
                         .seed = 1};
      const Sample *s =
          sample_of(c, model_of(c, rows[k].program, k == 2 ? normal_data : NULL), o, 1);
      double usual = sampler_accept(method);
      if (s->accept != (rows[k].comes > 0 ? rows[k].comes : usual))
        fail_msg("%s, row %zu: %g", sampler_name(method), k, s->accept);
    }
}

/* Transitions of chains in step: one in 32 is of short steps, these are no longer than half of the
 * others, and all together they do not cost much. */
TEST(strides) {
  enum { ALL = 1023 };
  double trajectory = 5, step = 0.04, total = 0, plain = 0, lengths = 0;
  size_t fine = 0;
  for (long t = 0; t < ALL; t++) {
    Stride x = chees_stride(t, trajectory, step);
    double length = x.steps * x.pace * step;
    assert_true(x.steps >= 1 && length <= trajectory + step);
    if (x.pace < 1) assert_true(length <= 0.5 * trajectory + x.pace * step);
    fine += x.pace < 1;
    total += x.steps;
    plain += x.pace < 1 ? 0 : x.steps;
    lengths += x.pace < 1 ? 0 : length / trajectory;
  }
  assert_int_equal(fine, ALL / 32);
  assert_true(total < 1.1 * plain);
  assert_true(fabs(lengths / (double)(ALL - fine) - 33. / 64) < 0.01); /* even in (1/32, 1) */
  assert_true(chees_stride(3, 0, 1).steps == 1 && chees_stride(3, NAN, 1).steps == 1);
}

/* The left half of the line is 30 times as narrow as the step suits: chains that are put there come
 * out, and stay away in the end as much as the posterior says. */
TEST(narrow_places_are_left) {
  static const char corner[] = "parameters { real x; real z; } model { x ~ normal(0, 1);"
                               " z ~ normal(0, 0.03 + 0.97 * inv_logit(20 * (x + 1.2))); }";
  enum { CHAINS = 32, DRAWS = 1000 };
  double start[2 * CHAINS], centre[2] = {0};
  for (size_t k = 0; k < CHAINS; k++) start[2 * k] = -2, start[2 * k + 1] = 0;
  Metric first = metric_make(&c->arena, 2);
  SampleOptions o = {.method = SAMPLER_chees,
                     .chains = CHAINS,
                     .draws = DRAWS,
                     .seed = 1,
                     .step = 0.3,
                     .as_given = true,
                     .metric = METRIC_AS_GIVEN,
                     .start = start,
                     .centre = centre,
                     .first = &first};
  Model *m = model_of(c, corner, NULL);
  const Sample *s = sample_run(c, posterior_observed(&c->arena, m, NULL, 0), &o, NULL);
  size_t out = 0, inside = 0;
  for (size_t k = 0; k < CHAINS; k++) {
    bool been = false;
    for (size_t t = 0; t < DRAWS; t++) {
      double x = sample_draw(s, k, t)[0];
      been |= x > 0;
      inside += t >= DRAWS / 2 && x < -1.2;
    }
    out += been;
  }
  assert_int_equal(out, CHAINS);
  double part = (double)inside / (CHAINS * DRAWS / 2); /* Phi(-1.2) = 0.115 */
  assert_true(part > 0.05 && part < 0.2);
}

TEST(threads_do_not_matter) {
  Model *m = model_of(c, poisson, counts);
  for (SamplerId method = 0; method < SAMPLER_COUNT; method++) {
    SampleOptions o = {.method = method, .chains = 40, .warmup = 60, .draws = 20, .seed = 2};
    const Sample *one = sample_of(c, m, o, 1), *some = NULL;
    for (int threads = 2; threads <= 5; threads += 3) {
      some = sample_of(c, m, o, threads);
      for (size_t k = 0; k < one->chains; k++)
        assert_memory_equal(one->chain[k]->draws, some->chain[k]->draws,
                            one->draws * one->dim * sizeof(double));
    }
  }
}

/* Interrupted again and again, at every so many looks, sampling comes to the same draws. Of a
 * program with trajectories alone, of one that is nearly normal, with jumps, and of one whose step
 * is adapted anew. */
TEST(resumed_is_the_same) {
  int anew = 0;
  for (int k = 0; k < 3 * SAMPLER_COUNT; k++) {
    SamplerId method = k / 3;
    bool jumps = k % 3 == 1;
    Model *m = jumps ? model_of(c, "parameters { vector[2] x; } model { x ~ std_normal(); }", NULL)
               : k % 3 ? model_of(c, funnel, NULL)
                       : model_of(c, poisson, counts);
    Interrupted x = {.most = method == SAMPLER_chees ? 12 : 2, .state = text_make(&c->arena)};
    SampleOptions o = {.method = method, .chains = 20, .warmup = 120, .draws = 30, .seed = 2};
    const Sample *whole = sample_of(c, m, o, 1), *s = NULL;
    assert_int_equal(whole->jumps > 0, jumps && method == SAMPLER_chees);
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
    assert_true(s->accept == whole->accept);
    anew += whole->accept == 0.95;
    for (size_t j = 0; j < whole->chains; j++)
      assert_memory_equal(whole->chain[j]->draws, s->chain[j]->draws,
                          whole->draws * whole->dim * sizeof(double));
  }
  assert_true(anew > 0);
}

static void sample_damaged(Ctx *c, void *m) {
  SampleOptions o = {.chains = 4, .draws = 5, .resume = "0123456789", .nresume = 10};
  sample_of(c, m, o, 1);
}

TEST(damaged_state_is_refused) {
  Model *m = model_of(c, poisson, counts);
  Ctx other;
  ctx_init(&other);
  assert_int_equal(attempt(&other, sample_damaged, m), PVI_DATA);
  expect_message(&other, "damaged");
  ctx_free(&other);
}

TEST(windows_fill_the_warmup) {
  WarmupWindow w[WARMUP_MOST];
  for (size_t warmup = 0; warmup < 3000; warmup += 37)
    for (size_t chains = 1; chains < 40; chains += 13) {
      size_t sum = 0, n = warmup_windows(warmup, chains, NULL, w);
      for (size_t k = 0; k < n; k++) sum += w[k].length;
      assert_int_equal(sum, warmup);
    }
}

TEST(windows_of_any_plan_fill_the_warmup) {
  WarmupWindow w[WARMUP_MOST];
  for (size_t warmup = 0; warmup < 2000; warmup += 7)
    for (size_t k = 0; k < 64; k++) {
      WarmupPlan plan = {k % 4 * 60, k / 4 % 4 * 25, k / 16 * 40};
      size_t sum = 0, n = warmup_windows(warmup, 1, &plan, w);
      for (size_t j = 0; j < n; j++) sum += w[j].length;
      assert_int_equal(sum, warmup);
      if (warmup >= 20 && plan.first + plan.window + plan.last <= warmup && plan.first)
        assert_int_equal(w[0].length, plan.first);
    }
}

/* ---- diagnostics ----------------------------------------------------------------------------- */

/* x_t = rho x_{t-1} + sqrt(1 - rho^2) e_t: n (1 - rho) / (1 + rho) effective draws. */
static double *autoregression(Ctx *c, size_t chains, size_t n, double rho) {
  double *x = NEW_ARRAY(&c->arena, double, chains *n);
  for (size_t k = 0; k < chains; k++) {
    RngStream r = rngs_make(11, k);
    double at = rngs_normal(&r);
    for (size_t i = 0; i < n; i++) {
      x[k * n + i] = at;
      at = rho * at + sqrt(1 - rho * rho) * rngs_normal(&r);
    }
  }
  return x;
}

TEST(ess_of_autoregression) {
  enum { CHAINS = 8, LENGTH = 4000 };
  static const double rhos[] = {-0.5, 0, 0.3, 0.9};
  EssWork *w = ess_work(&c->arena, CHAINS, LENGTH);
  for (size_t k = 0; k < 4; k++) {
    double expected = CHAINS * LENGTH * (1 - rhos[k]) / (1 + rhos[k]);
    const double *x = autoregression(c, CHAINS, LENGTH, rhos[k]);
    DrawsQuality q = ess_quality(w, x);
    assert_true(fabs(ess_plain(x, CHAINS, LENGTH) / expected - 1) < 0.12);
    assert_true(fabs(q.ess_bulk / expected - 1) < 0.12);
    assert_true(fabs(q.mcse * sqrt(expected) - 1) < 0.12);
    assert_true(q.rhat < 1.01);
  }
}

TEST(rhat_of_shifted_chains) {
  enum { CHAINS = 8, LENGTH = 1000 };
  double *x = autoregression(c, CHAINS, LENGTH, 0), d = 1;
  for (size_t i = 0; i < LENGTH * CHAINS; i++) x[i] += i < LENGTH * CHAINS / 2 ? -d : d;
  /* between: chains at -d and d have variance d^2 CHAINS / (CHAINS - 1); within: 1 */
  assert_close(ess_rhat(x, CHAINS, LENGTH), sqrt(1 + d * d * CHAINS / (CHAINS - 1)), 0.03);
  DrawsQuality q = ess_quality(ess_work(&c->arena, CHAINS, LENGTH), x);
  assert_true(q.rhat > 1.2 && q.ess_bulk < 100);
  /* chains of different widths have the same mean, which folding sees */
  x = autoregression(c, CHAINS, LENGTH, 0);
  for (size_t i = 0; i < LENGTH * CHAINS / 2; i++) x[i] *= 3;
  assert_true(ess_quality(ess_work(&c->arena, CHAINS, LENGTH), x).rhat > 1.1);
}

/* Superchains at -d and d: their means have variance d^2 8 / 7, of chains within them 1. */
TEST(nested_rhat_of_shifted_superchains) {
  enum { CHAINS = 32, LENGTH = 40 };
  double *x = autoregression(c, CHAINS, LENGTH, 0), d = 1;
  EssWork *w = ess_work(&c->arena, CHAINS, LENGTH);
  assert_true(ess_quality(w, x).rhat_nested < 1.01);
  for (size_t i = 0; i < LENGTH * CHAINS; i++) x[i] += i < LENGTH * CHAINS / 2 ? -d : d;
  assert_close(ess_nested(x, CHAINS, LENGTH, SUPERCHAINS), sqrt(1 + d * d * 8 / 7), 0.05);
  assert_true(ess_quality(w, x).rhat_nested > 1.2);
}

TEST(ties_and_constants) {
  double x[64];
  EssWork *w = ess_work(&c->arena, 4, 16);
  for (size_t i = 0; i < 64; i++) x[i] = 2;
  assert_true(isnan(ess_quality(w, x).rhat));
  for (size_t i = 0; i < 64; i++) x[i] = (double)(i % 2);
  assert_true(isfinite(ess_quality(w, x).rhat));
  x[3] = INFINITY;
  assert_true(isnan(ess_quality(w, x).ess_bulk));
}

/* ---- PSIS ------------------------------------------------------------------------------------ */

/* Quantiles of a generalised Pareto distribution are fitted by its own parameters, but for the
 * prior on k. */
TEST(pareto_of_known_tails) {
  enum { N = 400 };
  static const double ks[] = {-0.3, 0.2, 0.7, 1.2};
  double x[N];
  for (size_t j = 0; j < 4; j++) {
    double k = ks[j], sigma = 2;
    for (size_t i = 0; i < N; i++) x[i] = sigma * expm1(-k * log1p(-((double)i + 0.5) / N)) / k;
    Pareto p = psis_pareto(x, N);
    assert_close(p.k, (k * N + 5) / (N + 10), 0.03);
    assert_close(p.sigma, sigma, 0.05);
  }
}

/* Ratios u^-k have a tail of shape k; weights sum to one, and k says whether they can be trusted.
 */
TEST(psis_of_known_ratios) {
  enum { N = 20000 };
  static const double ks[] = {0.2, 0.5, 0.9};
  double *l = NEW_ARRAY(&c->arena, double, N);
  PsisWork *w = psis_work(&c->arena, N);
  for (size_t j = 0; j < 3; j++) {
    RngStream r = rngs_make(3, j);
    for (size_t i = 0; i < N; i++) l[i] = -ks[j] * log(rngs_uniform(&r));
    double k = psis_smooth(w, l), sum = 0;
    for (size_t i = 0; i < N; i++) sum += exp(l[i]);
    assert_close(sum, 1, 1e-12);
    assert_true(fabs(k - ks[j]) < 0.12);
  }
  for (size_t i = 0; i < N; i++) l[i] = 3;
  assert_true(psis_smooth(w, l) == -INFINITY);
  assert_close(l[7], -log(N), 1e-12);
}

/* Ratios of any number are read and written where they are, and nothing behind them is. */
TEST(psis_of_any_number) {
  for (size_t n = 1; n < 40; n++) {
    TempArena *temp = temp_open(c);
    double *l = NEW_ARRAY(&temp->arena, double, n + 8), sum = 0;
    RngStream r = rngs_make(4, n);
    for (size_t i = 0; i < n + 8; i++) l[i] = i < n ? -0.3 * log(rngs_uniform(&r)) : 99;
    double *exact = memcpy(NEW_ARRAY(&temp->arena, double, n), l, n * sizeof *l),
           k = psis_smooth(psis_work(&temp->arena, n), l);
    assert_true(psis_smooth(psis_work(&temp->arena, n), exact) == k);
    assert_memory_equal(l, exact, n * sizeof *l);
    for (size_t i = 0; i < n; i++) sum += exp(l[i]);
    for (size_t i = n; i < n + 8; i++) assert_true(l[i] == 99);
    assert_close(sum, 1, 1e-12);
    temp_close(temp);
  }
}

/* A ratio that is no number has no weight; where none is one, nothing can be trusted. */
TEST(psis_without_numbers) {
  enum { N = 20000 };
  static const double nothing[] = {(double)NAN, -(double)INFINITY, (double)INFINITY};
  double *l = NEW_ARRAY(&c->arena, double, N), *clean = NEW_ARRAY(&c->arena, double, N);
  PsisWork *w = psis_work(&c->arena, N);
  RngStream r = rngs_make(3, 9);
  for (size_t i = 0; i < N; i++) l[i] = clean[i] = -0.5 * log(rngs_uniform(&r));
  l[5] = (double)NAN;
  clean[5] = -(double)INFINITY;
  assert_true(psis_smooth(w, l) == psis_smooth(w, clean));
  assert_memory_equal(l, clean, N * sizeof *l);
  for (size_t k = 0; k < 3; k++) {
    for (size_t i = 0; i < N; i++) l[i] = nothing[k];
    assert_true(psis_smooth(w, l) == (double)INFINITY);
    assert_close(l[7], -log(N), 1e-12);
  }
}

/* y_i ~ normal(theta, 1) under a flat prior: without y_i, theta is normal(mean of the others,
 * 1 / (n - 1)), and y_i is predicted with variance 1 + 1 / (n - 1). */
TEST(loo_of_a_normal) {
  enum { N = 10, DRAWS = 8000 };
  static const double y[N] = {0.3, -1.2, 2.5, 0.8, -0.4, 1.9, -2.1, 0.6, 1.1, -0.7};
  Model *m = model_of(c,
                      "data { int n; vector[n] y; } parameters { real t; } model { y ~ normal(t, "
                      "1); }",
                      "{\"n\": 10, \"y\": [0.3, -1.2, 2.5, 0.8, -0.4, 1.9, -2.1, 0.6, 1.1, -0.7]}");
  double mean = stat_mean(y, N), *theta = NEW_ARRAY(&c->arena, double, DRAWS), score[N], k[N];
  RngStream r = rngs_make(1, 0);
  for (size_t i = 0; i < DRAWS; i++) theta[i] = mean + rngs_normal(&r) / sqrt(N);
  const Observed *o = observed_make(&c->arena, m, NULL, 0, WANT_LL);
  loo_scores(c, o, &(LooDraws){theta, DRAWS, NULL}, score, k);
  for (size_t i = 0; i < N; i++) {
    double others = (N * mean - y[i]) / (N - 1), var = 1 + 1.0 / (N - 1), d = y[i] - others;
    assert_close(score[i], -0.5 * log(2 * M_PI * var) - 0.5 * d * d / var, 0.02);
    assert_true(k[i] < PSIS_GOOD);
  }
}

/* log mean exp of the densities that are reported for every observation. */
TEST(scores_of_draws) {
  enum { DRAWS = 1500 };
  Model *m = model_of(c, poisson, counts);
  size_t dim = m->dim;
  uint64_t state = 4;
  double *theta = NEW_ARRAY(&c->arena, double, DRAWS *dim),
         *rows = NEW_ARRAY(&c->arena, double, DRAWS *dim), *phi = NEW_ARRAY(&c->arena, double, dim),
         scores[9];
  bool points[6] = {true, true, true, true, true, true};
  for (size_t i = 0; i < DRAWS; i++)
    for (size_t k = 0; k < dim; k++)
      rows[k * DRAWS + i] = theta[i * dim + k] = uniform(&state, -1, 1);
  Q q = q_make(&c->arena, FAMILY_meanfield, (Shape){0}, dim, points);
  const Observed *o = observed_make(&c->arena, m, NULL, 0, WANT_LL);
  predictive_log_scores(c,
                        &(Scoring){.o = o, .q = &q, .phi = phi, .noise = {DRAWS, 1}, .theta = rows},
                        INTEGRATE_DRAWS, scores);
  const DensityAt *d = densities(c, m, theta, DRAWS);
  for (size_t n = 0; n < 9; n++) {
    double sum = 0;
    for (size_t i = 0; i < DRAWS; i++) sum += exp(d[i].pointwise[n]) / DRAWS;
    assert_close(scores[n], log(sum), 1e-12);
  }
}

/* ---- the whole command ----------------------------------------------------------------------- */

static const char golf[] = "examples/golf/logistic.stan", putts[] = "examples/golf/golf.csv";

static pvi_posterior *sample_golf(pvi_context *p, const char *out, const char *chains,
                                  const char *threads) {
  pvi_model *m = NULL;
  pvi_posterior *s = NULL;
  pvi_options *o = pvi_options_new(p);
  pvi_set(o, "chains", chains);
  pvi_set(o, "draws", "100");
  pvi_set(o, "warmup", "100");
  pvi_set(o, "threads", threads);
  if (out) pvi_set(o, "out", out);
  int status = pvi_load(p, golf, putts, o, &m);
  if (!status) status = pvi_sample(p, m, o, NULL, &s);
  if (!s) fail_msg("status %d: %s", status, pvi_error(p));
  pvi_model_free(m);
  pvi_options_free(o);
  return s;
}

/* What readers of CmdStan's files look for: so many rows of so many columns, and the comments. */
static void reads_as_cmdstan(const char *csv, size_t rows, size_t columns) {
  static const char *const needed[] = {
      "# method = sample",        "num_samples = ",   "num_warmup = ",
      "algorithm = hmc",          "engine = nuts",    "# Adaptation terminated\n# Step size = ",
      "inverse mass matrix:\n# ", "seconds (Warm-up)"};
  for (size_t k = 0; k < sizeof needed / sizeof *needed; k++)
    if (!strstr(csv, needed[k])) fail_msg("no \"%s\"", needed[k]);
  assert_non_null(strstr(csv, "\nlp__,accept_stat__,stepsize__,treedepth__,n_leapfrog__,"
                              "divergent__,energy__,"));
  size_t found = 0;
  for (const char *line = csv; *line; line = strchr(line, '\n') + 1) {
    if (*line == '#') continue;
    size_t commas = 0;
    for (const char *x = line; *x != '\n'; x++) commas += *x == ',';
    assert_int_equal(commas + 1, columns);
    found++;
  }
  assert_int_equal(found, rows + 1);
}

TEST(files_are_cmdstans) {
  char dir[] = "/tmp/pvi-test-XXXXXX";
  assert_non_null(mkdtemp(dir));
  static const struct {
    const char *chains;
    size_t files, rows;
  } cases[] = {{"3", 3, 100}, {"16", 4, 400}};
  for (size_t k = 0; k < 2; k++) {
    pvi_context *p = pvi_open();
    const char *out = arena_format(&c->arena, "%s/%zu", dir, k);
    pvi_posterior *s = sample_golf(p, out, cases[k].chains, "1");
    assert_int_equal(s->draws, 100);
    for (size_t f = 1; f <= cases[k].files; f++)
      reads_as_cmdstan(read_file(c, arena_format(&c->arena, "%s/draws_%zu.csv", out, f)),
                       cases[k].rows, 7 + s->ncols);
    const char *summary = read_file(c, arena_format(&c->arena, "%s/summary.json", out));
    static const char *const keys[] = {"\"ess_bulk\"", "\"ess_tail\"", "\"rhat\"",   "\"mcse\"",
                                       "\"loo\"",      "\"scores\"",   "\"verdict\""};
    for (size_t j = 0; j < sizeof keys / sizeof *keys; j++)
      assert_non_null(strstr(summary, keys[j]));
    pvi_posterior_free(s);
    pvi_close(p);
  }
  assert_int_equal(system(arena_format(&c->arena, "rm -r %s", dir)), 0);
}

TEST(the_same_for_any_threads) {
  pvi_context *p = pvi_open();
  pvi_posterior *one = sample_golf(p, NULL, "32", "1"), *three = sample_golf(p, NULL, "32", "3");
  size_t n = one->chains * one->draws;
  assert_memory_equal(one->values, three->values, n * one->ncols * sizeof(double));
  assert_memory_equal(one->rhat, three->rhat, one->ncols * sizeof(double));
  pvi_posterior_free(one);
  pvi_posterior_free(three);
  pvi_close(p);
}

int main(void) {
  static Suite s;
  SUITE_ADD(&s, posterior_is_the_density);
  SUITE_ADD(&s, gradient_is_that_of_the_value);
  for (size_t k = 0; k < sizeof known / sizeof *known; k++)
    suite_add(&s, known[k].name, moments_are_right, &known[k]);
  SUITE_ADD(&s, ranks_are_uniform);
  SUITE_ADD(&s, jumps_of_any_normal);
  SUITE_ADD(&s, funnel_diverges);
  SUITE_ADD(&s, a_step_too_bold);
  SUITE_ADD(&s, strides);
  SUITE_ADD(&s, narrow_places_are_left);
  SUITE_ADD(&s, threads_do_not_matter);
  SUITE_ADD(&s, resumed_is_the_same);
  SUITE_ADD(&s, damaged_state_is_refused);
  SUITE_ADD(&s, windows_fill_the_warmup);
  SUITE_ADD(&s, windows_of_any_plan_fill_the_warmup);
  SUITE_ADD(&s, ess_of_autoregression);
  SUITE_ADD(&s, rhat_of_shifted_chains);
  SUITE_ADD(&s, nested_rhat_of_shifted_superchains);
  SUITE_ADD(&s, ties_and_constants);
  SUITE_ADD(&s, pareto_of_known_tails);
  SUITE_ADD(&s, psis_of_known_ratios);
  SUITE_ADD(&s, psis_of_any_number);
  SUITE_ADD(&s, psis_without_numbers);
  SUITE_ADD(&s, loo_of_a_normal);
  SUITE_ADD(&s, scores_of_draws);
  SUITE_ADD(&s, files_are_cmdstans);
  SUITE_ADD(&s, the_same_for_any_threads);
  return suite_run("sample", &s);
}
