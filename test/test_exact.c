/* test_exact.c: exact integration: which observations reduce, values against many draws, gradients
 * against finite differences, the regularizer against its closed form, the exact optima of the
 * paper's models, the same bytes for any number of threads. */
#include "objective.h"

#include "infer/exact.h"
#include "infer/fit.h"
#include "num/sobol.h"
#include "num/hermite.h"
#include "num/logistic.h"

/* ---- programs: one of every shape ------------------------------------------------------------ */

#define DATA                                                                                       \
  "data { int N; int J; vector[N] x; vector[N] y; array[N] int<lower=0> z; array[N] int<lower=0> " \
  "k; array[N] int n; array[N] "                                                                   \
  "int w;"                                                                                         \
  " array[N] int<lower=1> g; array[N] int<lower=1> h; matrix[N, 3] X; vector<lower=0>[N] t; }"
static const char data[] = "{\"N\": 7, \"J\": 3, \"x\": [-1, 0.5, 2, 1, -0.3, 0, 1.5], \"y\": "
                           "[0.1, 1, 3, -1, 0.4, 0.2, 2],"
                           " \"z\": [0, 1, 1, 0, 0, 1, 1], \"k\": [3, 0, 25, 7, 1, 2, 900], \"n\": "
                           "[10, 3, 30, 100, 2, 5, 1500],"
                           " \"w\": [3, 0, 5, 2, 1, 2, 4], \"g\": [1, 2, 3, 1, 2, 3, 3], \"h\": "
                           "[1, 1, 2, 3, 2, 1, 2], \"t\": [0.3, 2, 5, 0.1, 1, "
                           "1.2, 0.8],"
                           " \"X\": [[1, 0.2, -1], [1, 0.5, 0.3], [1, -0.7, 0], [1, 1.1, 2], [1, "
                           "0, -0.4], [1, -1, 1], [1, 0.3, 0.9]]}";

typedef struct {
  const char *name, *program, *form;
} Shown;

#define TWO "parameters { real a; real b; } model { a ~ normal(0, 2); b ~ normal(0.5, 2); "
#define SCALE                                                                                      \
  "parameters { real a; real b; real<lower=0> s; } model { a ~ normal(0, 2); b ~ student_t(4, 0, " \
  "2); s ~ normal(0, 1); "
#define GROUPS                                                                                     \
  "parameters { real mu; vector[J] a; real<lower=0> tau; vector[3] b; }"                           \
  " model { mu ~ normal(0, 2); tau ~ normal(0, 1); a ~ normal(mu, tau); b ~ cauchy(0, 1); "

static const Shown normal = {"normal", DATA SCALE "y ~ normal(a + b * x, s); }",
                             "analytic in the location, quadrature"};
static const Shown fixed = {"normal, known sigma", DATA TWO "y ~ normal(a + b * x, 0.7); }",
                            "analytic in the location"};
static const Shown lognormal = {"lognormal", DATA SCALE "t ~ lognormal(a + b * x, s); }",
                                "analytic in the location, quadrature"};
static const Shown skewed = {"lognormal, known sigma", DATA TWO "t ~ lognormal(a + b * x, 0.5); }",
                             "analytic in the location"};
static const Shown logistic = {"logistic", DATA TWO "z ~ bernoulli_logit(a + b * x); }",
                               "quadrature over one"};
static const Shown probit = {"probit",
                             DATA TWO "for (i in 1:N) z[i] ~ bernoulli(Phi(a + b * x[i])); }",
                             "quadrature over one"};
static const Shown binomial = {"binomial", DATA TWO "k ~ binomial_logit(n, a + b * x); }",
                               "quadrature over one"};
static const Shown poisson = {"poisson", DATA TWO "w ~ poisson_log(a + b * x); }",
                              "quadrature over one"};
static const Shown student = {"student-t", DATA SCALE "y ~ student_t(4, a + b * x, s); }",
                              "quadrature over two"};
static const Shown negative = {"negative binomial",
                               DATA SCALE "w ~ neg_binomial_2_log(a + b * x, s); }",
                               "quadrature over two"};
static const Shown groups = {"groups, normal",
                             DATA GROUPS "for (i in 1:N) y[i] ~ normal(X[i] * b + a[g[i]], 1.3); }",
                             "analytic in the location"};
static const Shown counts = {"groups, poisson", DATA GROUPS "w ~ poisson_log(X * b + a[g]); }",
                             "quadrature over one"};
static const Shown pairs = {"pairs", DATA GROUPS "z ~ bernoulli_logit(a[g] - a[h] + b[1] * x); }",
                            "quadrature over one"};
static const Shown scales = {
    "a scale for each group",
    DATA "parameters { real a; vector[J] s; } model { a ~ normal(0, 2); s ~ normal(0, 1);"
         " y ~ normal(a * x, exp(s[g])); }",
    "analytic in the location, quadrature"};
static const Shown mixture = {
    "mixture",
    DATA TWO
    "for (i in 1:N) target += log_mix(0.3, normal_lpdf(y[i] | a, 1), normal_lpdf(y[i] | b, 2)); }",
    "quadrature over two"};
static const Shown curve = {"a curve of one parameter",
                            DATA
                            "parameters { real s; } model { s ~ normal(-1, 1);"
                            " for (i in 1:N) k[i] ~ binomial(n[i], inv_logit(x[i] / exp(s))); }",
                            "quadrature over one"};
/* Given their scales: non-centred effects, items, a product of parameters. */
#define GIVEN "analytic in the location, quadrature over the scales"
#define GIVEN_LINE "quadrature over one function of the parameters and over the scales"
#define APART                                                                                      \
  "parameters { real mu; vector[J] a; real<lower=0> tau; real<lower=0> s; vector[2] b; }"          \
  " model { mu ~ normal(0, 2); tau ~ normal(0, 1); a ~ normal(0, 1); s ~ normal(0, 1); b ~ "       \
  "normal(0, 1); "
static const Shown three = {"a slope that is positive",
                            DATA SCALE "y ~ normal(a + exp(b) * x, s); }", GIVEN};
static const Shown apart = {"non-centred, normal",
                            DATA APART "y ~ normal(mu + tau * a[g] + b[1] * x, s); }", GIVEN};
static const Shown twice = {
    "non-centred, a parameter twice",
    DATA APART "y ~ normal(mu + tau * a[g] - s * a[h] + X[, 2:3] * b, 1); }", GIVEN};
static const Shown factor = {
    "correlated effects",
    DATA "parameters { matrix[2, J] u; vector<lower=0>[2] sd; real r; real mu; }"
         " transformed parameters { matrix[J, 2] e = (diag_pre_multiply(sd, [[1, 0], [tanh(r), "
         "sqrt(1 - tanh(r)^2)]]) * u)'; }"
         " model { to_vector(u) ~ normal(0, 1); sd ~ normal(0, 1); r ~ normal(0, 0.5); mu ~ "
         "normal(0, 1); for (i in 1:N) y[i] ~ normal(mu + e[g[i], 1] + e[g[i], 2] * x[i], 0.8); }",
    GIVEN};
/* With more scales than a grid is for. */
#define POINTS "analytic in the location, quasi-random points of the scales"
static const Shown many_scales = {
    "correlated effects and a scale",
    DATA "parameters { matrix[2, J] u; vector<lower=0>[2] sd; real r; real mu; real<lower=0> s; }"
         " transformed parameters { matrix[J, 2] e = (diag_pre_multiply(sd, [[1, 0], [tanh(r), "
         "sqrt(1 - tanh(r)^2)]]) * u)'; }"
         " model { to_vector(u) ~ normal(0, 1); sd ~ normal(0, 1); r ~ normal(0, 0.5); mu ~ "
         "normal(0, 1); s ~ normal(0, 1);"
         " for (i in 1:N) y[i] ~ normal(mu + e[g[i], 1] + e[g[i], 2] * x[i], s); }",
    POINTS};
/* Of a t distribution the density is integrated, too, with its tail on the same points. */
static const Shown heavy_tails = {
    "a t distribution of three scales",
    DATA "parameters { vector[J] u; real<lower=0> sd; real mu; real<lower=0> s; real<lower=1> nu; }"
         " model { u ~ normal(0, 1); sd ~ normal(0, 1); mu ~ normal(0, 1); s ~ normal(0, 1); nu ~ "
         "gamma(2, 0.1); y ~ student_t(nu, mu + sd * u[g], s); }",
    POINTS " and tails"};
static const Shown apart_logit = {"non-centred, logistic",
                                  DATA APART "z ~ bernoulli_logit(mu + tau * a[g] + b[2] * x); }",
                                  GIVEN_LINE};
static const Shown apart_count = {"non-centred, poisson",
                                  DATA APART "w ~ poisson_log(mu + tau * a[g] + s * b[1] * x); }",
                                  GIVEN_LINE};
static const Shown items = {
    "items",
    DATA "parameters { real mu; vector<lower=0>[J] d; vector[J] a; vector[J] b; } model { mu ~ "
         "normal(0, 1); d ~ lognormal(0, 1); a ~ normal(0, 1); b ~ normal(0, 1); z ~ "
         "bernoulli_logit(mu + d[g] .* (a[h] - b[g])); }",
    GIVEN_LINE};
/* Binary outcomes whose logit is a line in one of two functions: the second, the first, minus it.
 */
static const Shown two_items = {
    "items of two functions",
    DATA "parameters { vector<lower=0>[J] d; vector[J] a; vector[J] b; } model { d ~ "
         "lognormal(0, 1); a ~ normal(0, 1); b ~ normal(0, 1); z ~ bernoulli_logit(d[g] .* "
         "(a[h] - b[g])); }",
    "quadrature over two"};
static const Shown one_slope = {
    "one discrimination",
    DATA GROUPS "z ~ bernoulli_logit((1 - a[g] - 0.5 * b[1] * x) / exp(0.3 * tau)); }",
    "quadrature over two"};
/* Several elements of a predictor, each in a density of its own: the density is integrated, but not
 * its logarithm. */
static const Shown two_normals = {
    "a mixture of normals",
    DATA APART "for (i in 1:N) target += log_mix(inv_logit(mu), normal_lpdf(y[i] | b[1], s), "
               "normal_lpdf(y[i] | b[2], 2 * s)); }",
    "analytic in the locations of a mixture"};
static const Shown two_lines = {
    "a mixture of regressions",
    DATA APART "for (i in 1:N) target += log_mix(inv_logit(mu), normal_lpdf(y[i] | b[1] + a[1] * "
               "x[i], s), normal_lpdf(y[i] | b[2] + tau * a[g[i]], 2)); }",
    "analytic in the locations of a mixture"};
static const Shown three_normals = {
    "a mixture of three normals, each with its scale",
    DATA "parameters { simplex[3] p; vector[3] b; vector<lower=0>[3] s; } model { b ~ normal(0, 1);"
         " s ~ lognormal(0, 1); for (i in 1:N) { vector[3] l = log(p); for (j in 1:3) l[j] += "
         "normal_lpdf(y[i] | b[j], s[j]); target += log_sum_exp(l); } }",
    "analytic in the locations of a mixture"};
/* More scales than a grid is for. What all normals see, the simplex, comes last. */
static const Shown four_normals = {
    "a mixture of four normals, each with its scale",
    DATA "parameters { vector<lower=0>[4] s; vector[4] b; simplex[4] p; } model { b ~ "
         "normal(0, 1); s ~ lognormal(0, 1); for (i in 1:N) { vector[4] l = log(p); for (j in "
         "1:4) l[j] += normal_lpdf(y[i] | b[j], s[j]); target += log_sum_exp(l); } }",
    "analytic in the locations of a mixture, quasi-random points"};
/* A prior given its scales. */
static const Shown pairs_of_effects = {
    "correlated effects with a prior of their own",
    DATA
    "parameters { array[J] vector[2] e; vector[2] mu; real<lower=0> sd; real r; } model { for "
    "(j in 1:J) e[j] ~ multi_normal_cholesky(mu, [[sd, 0], [sd * r, 1]]); mu ~ normal(0, 1); "
    "sd ~ normal(0, 1); r ~ normal(0, 0.5); for (i in 1:N) z[i] ~ bernoulli_logit(e[g[i], 1] + "
    "e[g[i], 2] * x[i]); }",
    "quadrature over one"};
/* Densities with a kink in the location: over it they have a form. */
static const Shown laplace = {"double exponential",
                              DATA SCALE "y ~ double_exponential(a + b * x, s); }",
                              "analytic in the location, quadrature over the scales"};
static const Shown known_laplace = {"double exponential, known scale",
                                    DATA TWO "y ~ double_exponential(a + b * x, 0.7); }",
                                    "analytic in the location"};
static const Shown quantile = {
    "quantile regression",
    "functions { real al_lpdf(real y, real mu, real s, real p) { if (y < mu) return log(p * (1 - "
    "p)) - log(s) - (1 - p) * (mu - y) / s; else return log(p * (1 - p)) - log(s) - p * (y - mu) / "
    "s; } } " DATA SCALE "for (i in 1:N) target += al_lpdf(y[i] | a + b * x[i], s, 0.25); }",
    "analytic in the location, quadrature over the scales"};
static const Shown bent = {
    "a line and its absolute value",
    "functions { real bent_lpdf(real y, real m, real s) { return -log(s) - abs((y - m) / s) - 0.3 "
    "* (y - m) / s; } } " DATA GROUPS "for (i in 1:N) target += bent_lpdf(y[i] | mu + a[g[i]], "
    "tau); }",
    "analytic in the location, quadrature over the scales"};

static const Shown *const shown[] = {
    &normal,      &laplace,   &known_laplace, &quantile,         &bent,
    &fixed,       &lognormal, &skewed,        &logistic,         &probit,
    &binomial,    &poisson,   &student,       &negative,         &groups,
    &counts,      &pairs,     &scales,        &mixture,          &curve,
    &three,       &apart,     &twice,         &factor,           &apart_logit,
    &apart_count, &items,     &many_scales,   &two_items,        &one_slope,
    &two_normals, &two_lines, &four_normals,  &pairs_of_effects, &heavy_tails};

TEST(reduces) {
  const Shown *p = row;
  const char *why = "";
  const Model *m = model_of(c, p->program, data);
  ModelRows all = model_rows(&c->arena, m, NULL, 0);
  const Reduction *r = reduce_observations(&c->arena, m, &all, true, &why),
                  *prior = reduce_prior(&c->arena, m, &why);
  if (!r || !prior) fail_msg("%s", why);
  if (strncmp(reduced_text(&r->blocks[0]), p->form, strlen(p->form)) != 0)
    fail_msg("%s", reduced_text(&r->blocks[0]));
}

static const Shown not_reduced[] = {
    {"many scales", DATA GROUPS "z ~ bernoulli_logit(a[1] + X * exp(b)); }",
     "a product or sum of transformed parameters"},
    {"two elements of one predictor",
     DATA APART "vector[J] f = tau * a; for (i in 1:N) w[i] ~ poisson_log(log_sum_exp(f[g[i]], "
                "f[h[i]])); }",
     "more than two affine functions"},
    {"a mixture of many scales",
     DATA
     "parameters { simplex[7] p; vector[7] b; vector<lower=0>[7] s; } model { b ~ normal(0, 1);"
     " for (i in 1:N) { vector[7] l = log(p); for (j in 1:7) l[j] += normal_lpdf(y[i] | b[j], "
     "s[j]); target += log_sum_exp(l); } }",
     "more than two affine functions"},
    {"a mixture of other densities",
     DATA APART
     "for (i in 1:N) target += log_mix(inv_logit(mu), student_t_lpdf(y[i] | 4, b[1], s), "
     "student_t_lpdf(y[i] | 4, b[2], s)); }",
     "more than two affine functions"},
    {"two products", DATA GROUPS "z ~ bernoulli_logit(mu * b[1] + tau * a[g] + b[2] * b[3] * x); }",
     "more than two affine functions"},
};

TEST(refuses) {
  const Shown *p = row;
  const char *why = "";
  const Model *m = model_of(c, p->program, data);
  ModelRows all = model_rows(&c->arena, m, NULL, 0);
  assert_null(reduce_observations(&c->arena, m, &all, true, &why));
  if (!strstr(why, p->form)) fail_msg("%s", why);
  if (!strstr(why, "line ")) fail_msg("%s", why);
}

/* ---- values: against draws ------------------------------------------------------------------- */

static double sum(const double *x, size_t n) {
  double s = 0;
  for (size_t k = 0; k < n; k++) s += x[k];
  return s;
}

enum {
#ifdef PVI_TORTURE
  MANY = 256,
#else
  MANY = 1 << 16,
#endif
};

typedef struct {
  double of[3][16]; /* by three sets of draws */
} ByDraws;

/* So many times what sets of draws differ by, a number, and a part of the score. */
typedef struct {
  double times, absolute, relative;
} Slack;

/* Exact scores are among those by draws, where these are enough to tell. */
static void assert_among(const char *what, const double *exact, const ByDraws *s, size_t n,
                         Slack slack) {
  if (!accurate) return;
  for (size_t i = 0; i < n; i++) {
    double mean = (s->of[0][i] + s->of[1][i] + s->of[2][i]) / 3, spread = 0;
    for (int k = 0; k < 3; k++) spread += fabs(s->of[k][i] - mean);
    double allowed = slack.times * spread + slack.absolute + slack.relative * fabs(mean);
    if (!(fabs(exact[i] - mean) <= allowed))
      fail_msg("%s\nobservation %zu: %.8g, by draws %.8g", what, i, exact[i], mean);
  }
}

static ByDraws logs_by_draws(Ctx *c, const Observed *o, const Q *q, const double *phi, size_t M) {
  ByDraws s;
  for (uint64_t k = 0; k < 3; k++)
    predictive_log_scores(c, &(Scoring){.o = o, .q = q, .phi = phi, .noise = {M, 7 + k}},
                          INTEGRATE_DRAWS, s.of[k]);
  return s;
}

/* Log scores with 65,536 Sobol draws. */
TEST(agrees_with_draws) {
  const Shown *p = row;
  const char *why;
  static const char *const families[] = {"meanfield", "fullrank", "lowrank", "mixture"};
  Model *m = model_of(c, p->program, data);
  Observed *o = observed_make(&c->arena, m, NULL, 0, WANT_LL);
  observed_reduce(o);
  for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
    Q q = q_make(&c->arena, family_named(families[f]), (Shape){0}, m->dim, NULL);
    double *phi = some_phi(c, &q), exact[16];
    bool applies = exact_applies(o, &(Target){.score = SCORE_log, .score_weight = 1}, &q, &why);
    if (p == &items && (q.family == FAMILY_fullrank || q.family == FAMILY_lowrank)) {
      assert_false(applies); /* every discrimination would be an axis of its own */
      continue;
    }
    assert_true(applies);
    predictive_log_scores(c, &(Scoring){.o = o, .q = &q, .phi = phi, .noise = {0, 1}},
                          INTEGRATE_EXACT, exact);
    ByDraws s = logs_by_draws(c, o, &q, phi, MANY);
    double points = strstr(p->form, "tails") ? 2e-3 : 2e-4; /* quasi-random ones see fewer tails */
    assert_among(families[f], exact, &s, o->n, (Slack){3, points, 0});
  }
}

/* ---- random programs ------------------------------------------------------------------------- */

/* An observation's function of the parameters. */
static const char *random_function(Ctx *c, RngStream *r, int depth) {
  static const char *const leaves[] = {
      "mu",      "a[g[i]]", "a[h[i]]",     "b[1]",      "x[i] * b[2]",   "tau * a[g[i]]",
      "f[g[i]]", "f[h[i]]", "s * a[h[i]]", "exp(b[1])", "X[i, 2:3] * b", "f[1]",
  };
  static const char *const forms[] = {"(%s + %s)", "(%s - %s)", "log_sum_exp(%s, %s)",
                                      "(%s + tanh(%s))", "(%s + tau * %s)"};
  size_t nleaves = sizeof leaves / sizeof *leaves, nforms = sizeof forms / sizeof *forms;
  if (depth == 0 || rngs_uniform(r) < 0.3)
    return leaves[(size_t)(rngs_uniform(r) * (double)nleaves)];
  const char *form = forms[(size_t)(rngs_uniform(r) * (double)nforms)];
  const char *one = random_function(c, r, depth - 1), *two = random_function(c, r, depth - 1);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  return arena_format(&c->arena, form, one, two);
#pragma GCC diagnostic pop
}

static const char *random_program(Ctx *c, RngStream *r) {
  static const char *const outcomes[] = {
      "y[i] ~ normal(%s, s)",
      "y[i] ~ normal(%s, 0.8)",
      "z[i] ~ bernoulli_logit(%s)",
      "w[i] ~ poisson_log(0.5 * %s)",
  };
  const char *e = random_function(c, r, 2);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  const char *outcome = arena_format(&c->arena, outcomes[(size_t)(rngs_uniform(r) * 4)], e);
#pragma GCC diagnostic pop
  return arena_format(&c->arena, "%s vector[J] f = tau * a; for (i in 1:N) %s; }", DATA APART,
                      outcome);
}

/* Whatever is integrated exactly agrees with draws. */
static bool agrees_if_exact(Ctx *c, const char *program, FamilyId family) {
  const char *why;
  Model *m = model_of(c, program, data);
  Observed *o = observed_make(&c->arena, m, NULL, 0, WANT_LL);
  Q q = q_make(&c->arena, family, (Shape){0}, m->dim, NULL);
  Target t = {.score = SCORE_log, .score_weight = 1};
  double *phi = some_phi(c, &q), exact[16];
  observed_reduce(o);
  if (!exact_applies(o, &t, &q, &why)) return false;
  predictive_log_scores(c,
                        &(Scoring){.o = o, .q = &q, .phi = phi, .noise = {0, 1}, .tolerance = 1e-6},
                        INTEGRATE_EXACT, exact);
  ByDraws s = logs_by_draws(c, o, &q, phi, MANY / 4);
  bool few = exact_is_sampled(o); /* quasi-random points of scales are */
  assert_among(program, exact, &s, o->n, (Slack){4, few ? 0.1 : 2e-3, 0});
  return true;
}

enum { RANDOM_PROGRAMS = 150 };

TEST(random_programs) {
  RngStream r = rngs_make(11, 1);
  int exact = 0;
  (void)row;
  for (int k = 0; k < RANDOM_PROGRAMS; k++) {
    const char *program = random_program(c, &r);
    exact += agrees_if_exact(c, program, FAMILY_meanfield);
    exact += agrees_if_exact(c, program, FAMILY_fullrank);
  }
  print_message("  %d of %d fits of random programs are exact\n", exact, 2 * RANDOM_PROGRAMS);
  assert_true(exact > RANDOM_PROGRAMS / 2);
}

/* ---- reported scores: as many nodes as it takes ---------------------------------------------- */

/* Every score that the outcome has, of a narrow and of a wide q, against very many nodes. The
 * tolerance is that of two numbers of nodes; what is left to the integral may be a little more. */
static void settles(Ctx *c, const Model *m, const Q *q, const double *phi, ScoreId id) {
  const char *why;
  double got[16], want[16];
  size_t unsettled = 0;
  Target t = {.score = id, .score_weight = 1, .integrate = INTEGRATE_EXACT};
  Observed *o = observed_make(&c->arena, m, NULL, 0, target_wants(&t));
  observed_reduce(o);
  if (!exact_applies(o, &t, q, &why)) return;
  predictive_scores(
      c,
      &(Scoring){
          .o = o, .q = q, .phi = phi, .noise = {64, 1}, .tolerance = 1e-6, .unsettled = &unsettled},
      &t, got);
  t.nodes = exact_has_plane(o) ? (id == SCORE_log ? 400 : 140) : id == SCORE_log ? 16384 : 1500;
  t.reach = id == SCORE_log ? 16 : 0;
  predictive_scores(c, &(Scoring){.o = o, .q = q, .phi = phi, .noise = {64, 1}}, &t, want);
  assert_int_equal(unsettled, 0);
  for (size_t i = 0; i < o->n; i++)
    if (got[i] != want[i] && !(fabs(got[i] - want[i]) <= 2e-6 * (1 + fabs(want[i]))))
      fail_msg("%s, observation %zu: %.12g, with many nodes %.12g", score_name(id), i, got[i],
               want[i]);
}

/* And against draws, three sets of them, within what they differ by. */
static void agrees(Ctx *c, const Model *m, const Q *q, const double *phi, ScoreId id) {
  double exact[16];
  ByDraws s;
  Target t = {.score = id, .score_weight = 1};
  Observed *o = observed_make(&c->arena, m, NULL, 0, target_wants(&t));
  observed_reduce(o);
  predictive_scores(
      c, &(Scoring){.o = o, .q = q, .phi = phi, .noise = {MANY / 32, 1}, .tolerance = 1e-6}, &t,
      exact);
  t.integrate = INTEGRATE_DRAWS;
  for (uint64_t k = 0; k < 3; k++)
    predictive_scores(c, &(Scoring){.o = o, .q = q, .phi = phi, .noise = {MANY / 32, 7 + k}}, &t,
                      s.of[k]);
  if (MANY >= 1000) assert_among(score_name(id), exact, &s, o->n, (Slack){3, 2e-3, 2e-3});
}

TEST(scores_settle) {
  const Shown *p = row;
  const char *why;
  Model *m = model_of(c, p->program, data);
  Q q = q_make(&c->arena, FAMILY_meanfield, (Shape){0}, m->dim, NULL);
  static const ScoreId reported[] = {SCORE_log, SCORE_quadratic, SCORE_crps, SCORE_interval};
  bool plane = strstr(p->form, "over two") || strstr(p->form, "the scales");
  for (double width = 0.5; width <= (plane ? 1 : 2); width *= 4) {
    double *phi = some_phi(c, &q);
    for (size_t k = 0; k < m->dim; k++) phi[m->dim + k] += log(width);
    for (size_t k = 0; k < sizeof reported / sizeof *reported; k++)
      if (observed_allows(c, m, reported[k], &why)) {
        bool points = strstr(p->form, "quasi-random") != NULL;
        if (!points) settles(c, m, &q, phi, reported[k]);
        if (width < 1 && (points || reported[k] != SCORE_log)) agrees(c, m, &q, phi, reported[k]);
      }
  }
}

/* ---- gradients ------------------------------------------------------------------------------- */

typedef struct {
  const Shown *program;
  const char *score, *family;
  Regularizer regularizer;
  double lambda, weight;
  bool point;
} GradientRow;

static const GradientRow gradients[] = {
    {&normal, "elbo", "meanfield", REG_PRIOR, 1, 1, false},
    {&normal, "log", "meanfield", REG_POSTERIOR, 0.3, 1, false},
    {&normal, "log", "fullrank", REG_PRIOR, 0.5, 1, false},
    {&normal, "log", "lowrank", REG_POSTERIOR, 0.5, 1, false},
    {&normal, "log", "mixture", REG_POSTERIOR, 0.5, 1, false},
    {&normal, "log", "meanfield", REG_POSTERIOR, 0.3, 0.7, false},
    {&normal, "log", "fullrank", REG_POSTERIOR, 0.2, 1, true},
    {&normal, "log", "mixture", REG_POSTERIOR, 0.2, 1, true},
    {&normal, "crps", "fullrank", REG_POSTERIOR, 0.1, 1, false},
    {&normal, "crps", "mixture", REG_PRIOR, 0.1, 1, false},
    {&normal, "interval", "fullrank", REG_PRIOR, 0.1, 1, false},
    {&normal, "dawid_sebastiani", "meanfield", REG_PRIOR, 0.1, 1, false},
    {&fixed, "log", "fullrank", REG_POSTERIOR, 0.1, 1, false},
    {&lognormal, "log", "fullrank", REG_POSTERIOR, 0.1, 1, false},
    {&skewed, "crps", "meanfield", REG_PRIOR, 0.1, 1, false},
    {&logistic, "log", "fullrank", REG_POSTERIOR, 0.1, 1, false},
    {&logistic, "quadratic", "mixture", REG_PRIOR, 0.1, 1, false},
    {&probit, "quadratic", "fullrank", REG_POSTERIOR, 0.1, 1, false},
    {&binomial, "log", "fullrank", REG_POSTERIOR, 0.1, 1, false},
    {&binomial, "log", "meanfield", REG_PRIOR, 0.1, 1, true},
    {&binomial, "log", "mixture", REG_PRIOR, 0.1, 1, false},
    {&poisson, "log", "lowrank", REG_POSTERIOR, 0.1, 1, false},
    {&poisson, "elbo", "fullrank", REG_PRIOR, 1, 1, false},
    {&student, "log", "fullrank", REG_POSTERIOR, 0.1, 1, false},
    {&student, "log", "meanfield", REG_PRIOR, 0.1, 1, true},
    {&negative, "log", "fullrank", REG_PRIOR, 0.1, 1, false},
    {&groups, "log", "fullrank", REG_POSTERIOR, 0.1, 1, false},
    {&counts, "log", "meanfield", REG_POSTERIOR, 0.1, 1, false},
    {&pairs, "log", "meanfield", REG_POSTERIOR, 0.1, 1, false},
    {&pairs, "log", "fullrank", REG_POSTERIOR, 0.1, 1, false},
    {&scales, "log", "fullrank", REG_POSTERIOR, 0.1, 1, false},
    {&scales, "crps", "mixture", REG_POSTERIOR, 0.1, 1, false},
    {&mixture, "log", "fullrank", REG_POSTERIOR, 0.1, 1, false},
    {&curve, "log", "meanfield", REG_POSTERIOR, 0.1, 1, false},
    {&three, "log", "fullrank", REG_POSTERIOR, 0.1, 1, false},
    {&apart, "elbo", "meanfield", REG_PRIOR, 1, 1, false},
    {&apart, "log", "meanfield", REG_POSTERIOR, 0.1, 1, false},
    {&apart, "log", "fullrank", REG_POSTERIOR, 0.1, 1, false},
    {&apart, "log", "fullrank", REG_PRIOR, 0.1, 1, true},
    {&apart, "log", "mixture", REG_PRIOR, 0.1, 1, false},
    {&apart, "crps", "lowrank", REG_PRIOR, 0.1, 1, false},
    {&twice, "log", "meanfield", REG_PRIOR, 0.1, 1, false},
    {&twice, "log", "fullrank", REG_PRIOR, 0.1, 1, false},
    {&factor, "log", "meanfield", REG_PRIOR, 0.1, 1, false},
    {&factor, "elbo", "fullrank", REG_PRIOR, 1, 1, false},
    {&many_scales, "log", "meanfield", REG_POSTERIOR, 0.1, 1, true},
    {&many_scales, "log", "fullrank", REG_PRIOR, 0.1, 1, false},
    {&heavy_tails, "log", "meanfield", REG_POSTERIOR, 0.1, 1, true},
    {&heavy_tails, "log", "fullrank", REG_POSTERIOR, 0.1, 1, false},
    {&heavy_tails, "elbo", "meanfield", REG_PRIOR, 1, 1, false},
    {&heavy_tails, "log", "meanfield", REG_POSTERIOR, 0.01, 1, true}, /* the mean apart */
    {&heavy_tails, "log", "fullrank", REG_POSTERIOR, 0.01, 1, false},
    {&many_scales, "crps", "meanfield", REG_PRIOR, 0.1, 1, false},
    {&apart_logit, "log", "meanfield", REG_POSTERIOR, 0.1, 1, true},
    {&apart_logit, "quadratic", "fullrank", REG_PRIOR, 0.1, 1, false},
    {&apart_count, "log", "fullrank", REG_PRIOR, 0.1, 1, false},
    {&items, "log", "meanfield", REG_POSTERIOR, 0.1, 1, false},
    {&two_items, "log", "meanfield", REG_POSTERIOR, 0.1, 1, false},
    {&pairs_of_effects, "log", "meanfield", REG_POSTERIOR, 0.1, 1, false},
    {&pairs_of_effects, "log", "meanfield", REG_PRIOR, 0.5, 1, true},
    {&laplace, "log", "meanfield", REG_POSTERIOR, 0.1, 1, false},
    {&laplace, "log", "fullrank", REG_POSTERIOR, 0.1, 1, false},
    {&known_laplace, "elbo", "fullrank", REG_PRIOR, 1, 1, false},
    {&quantile, "log", "fullrank", REG_POSTERIOR, 0.1, 1, false},
    {&quantile, "elbo", "meanfield", REG_PRIOR, 1, 1, true},
    {&bent, "log", "meanfield", REG_POSTERIOR, 0.1, 1, false},
    {&two_normals, "log", "meanfield", REG_PRIOR, 0.1, 1, false},
    {&two_normals, "log", "fullrank", REG_PRIOR, 0.1, 1, true},
};

static Predictive *exact_objective(Ctx *c, const Model *m, const Target *t, const Q *q,
                                   Pool *pool) {
  Observed *o = observed_make(&c->arena, m, NULL, 0, target_wants(t));
  observed_reduce(o);
  const char *why = "";
  if (!exact_applies(o, t, q, &why)) fail_msg("%s", why);
  Predictive *p = predictive_make(&c->arena, o, t, q, (NoiseSet){0, 5}, pool);
  assert_true(predictive_is_exact(p));
  return p;
}

static Target gradient_target(const GradientRow *g) {
  Target t = {.regularizer = g->regularizer,
              .lambda = g->lambda,
              .score_weight = g->weight,
              .score_options = {.alpha = 0.1, .smooth = 0.2},
              .nodes = 48};
  assert_true(score_find(g->score, &t.score));
  return t;
}

TEST(gradient) {
  const GradientRow *g = row;
  Model *m = model_of(c, g->program->program, data);
  Target t = gradient_target(g);
  bool point[16] = {false, g->point};
  Q q = q_make(&c->arena, family_named(g->family), (Shape){0}, m->dim, point);
  Predictive *p = exact_objective(c, m, &t, &q, NULL);
  size_t n = q_size(&q);
  double *phi = some_phi(c, &q), *grad = NEW_ARRAY(&c->arena, double, n);
  PredictiveValue v;
  for (int k = 0; k < 2; k++)
    assert_true(predictive_eval(p, phi, &v, grad)); /* centred nodes are placed */
  check_gradient(p, phi, grad, n, 3e-6);
}

/* ---- tails on points ------------------------------------------------------------------------- */

static Target heavy_target(double lambda, size_t nodes) {
  return (Target){.score = SCORE_log,
                  .regularizer = REG_POSTERIOR,
                  .lambda = lambda,
                  .score_weight = 1,
                  .nodes = nodes};
}

/* Observations that lie 60 of their scales away have a density by the tail alone: the points that
 * fits begin with know it nearly as well as very many. */
TEST(outliers_have_tails) {
  enum { FEW = 32, MANY_NODES = 4096 };
  Model *m = model_of(c, heavy_tails.program, data);
  Q q = q_make(&c->arena, FAMILY_meanfield, (Shape){0}, m->dim, NULL);
  double *phi = some_phi(c, &q), score[2];
  (void)row;
  phi[m->dim - 2] = log(0.05);
  for (size_t k = 0; k < m->dim; k++) phi[m->dim + k] = log(0.1);
  for (int k = 0; k < 2; k++) {
    Target t = heavy_target(0, k ? MANY_NODES : FEW);
    score[k] = value_at(exact_objective(c, m, &t, &q, NULL), phi);
  }
  assert_close(score[0], score[1], 2e-3);
}

/* Outcomes of groups, their effects non-centred; a t distribution of 4 degrees of freedom. */
static const char *grouped_data(Ctx *c, int J, int each) {
  Text t = text_make(&c->arena);
  RngStream r = rngs_make(21, 0);
  double *u = NEW_ARRAY(&c->arena, double, J);
  for (int k = 0; k < J; k++) u[k] = rngs_normal(&r);
  text_printf(&t, "{\"N\": %d, \"J\": %d, \"g\": [", J * each, J);
  for (int i = 0; i < J * each; i++) text_printf(&t, "%s%d", i ? ", " : "", i % J + 1);
  text_printf(&t, "], \"y\": [");
  for (int i = 0; i < J * each; i++)
    text_printf(&t, "%s%.17g", i ? ", " : "", 1 + u[i % J] + 0.7 * rngs_student_t(&r, 4));
  text_printf(&t, "]}");
  return t.s;
}
#define GROUPED                                                                                    \
  "data { int N; int J; array[N] int g; vector[N] y; } parameters { vector[J] u; real<lower=0> "   \
  "sd; real mu; real<lower=0> s; real<lower=1> nu; } model { u ~ normal(0, 1); sd ~ normal(0, 1);" \
  " mu ~ normal(0, 1); s ~ normal(0, 1); nu ~ gamma(2, 0.1); y ~ student_t(nu, mu + sd * u[g], "   \
  "s);"                                                                                            \
  " }"

/* Of a dense covariance only what observations read is computed: here three numbers of a group. */
TEST(covariances_that_are_read) {
  static const int many[] = {10, 40};
  size_t elements[2];
  (void)row;
  for (int k = 0; k < 2; k++) {
    Model *m = model_of(c, GROUPED, grouped_data(c, many[k], 3));
    Q q = q_make(&c->arena, FAMILY_fullrank, (Shape){0}, m->dim, NULL);
    Target t = heavy_target(0.01, 32);
    Predictive *p = exact_objective(c, m, &t, &q, NULL);
    elements[k] = vm_shape(vm_tape(predictive_work(p))).global_elements;
  }
  assert_true(elements[1] < 4 * elements[0]);
}

static const double *here(void *self, const Q *q) {
  (void)q;
  return self;
}

/* One of many neighbouring fits does not go on where it exploits its quasi-random points, nor by
 * draws, which are no better. */
TEST(points_of_neighbours) {
  Model *m = model_of(c, GROUPED, grouped_data(c, 12, 12));
  const Split *all = split_all(c, m->n_obs);
  FitOptions o = {
      .target = {.score = SCORE_elbo, .regularizer = REG_PRIOR, .lambda = 1, .score_weight = 1},
      .family = FAMILY_fullrank,
      .optimizer = OPTIM_LBFGS,
      .seed = 1};
  (void)row;
  const Fit *vi = fit_run(c, m, all, &o, NULL);
  o.target = heavy_target(0.01, 0);
  o.start = here;
  o.start_self = vi->phi;
  o.warm = o.rough = true;
  const Fit *f = fit_run(c, m, all, &o, NULL);
  if (!accurate) return;
  assert_true(f->exact);
  for (size_t k = 0; k < f->nstages; k++)
    if (f->stages[k].draws > EXACT_NODES) fail_msg("%zu nodes", f->stages[k].draws);
  if (f->evaluations > 500) fail_msg("%ld evaluations", (long)f->evaluations);
}

/* Where the posterior counts little its mean log density is on points of its own: it is the same
 * regularizer. */
TEST(mean_apart) {
  Model *m = model_of(c, heavy_tails.program, data);
  static const FamilyId families[] = {FAMILY_meanfield, FAMILY_fullrank};
  (void)row;
  for (int k = 0; k < 2; k++) {
    Q q = q_make(&c->arena, families[k], (Shape){0}, m->dim, NULL);
    double *phi = some_phi(c, &q);
    PredictiveValue v[2];
    for (int own = 0; own < 2; own++) {
      Target t = heavy_target(own ? 0.01 : 0.1, 256);
      assert_true(predictive_eval(exact_objective(c, m, &t, &q, NULL), phi, &v[own], NULL));
    }
    assert_true(v[0].score == v[1].score);
    assert_true(v[0].regularizer != v[1].regularizer);
    assert_close(v[0].regularizer, v[1].regularizer, 0.02);
  }
}

/* ---- priors: against draws ------------------------------------------------------------------- */

/* Sums of every kind: of elements of vectors, up to an element, of what loops leave one by one, of
 * differences and products with numbers; the same elements in several of them. */
static const Shown priors[] = {
    {"a simplex",
     "parameters { simplex[6] p; real b; } model { p ~ dirichlet([1, 2, 3, 0.5, 1.5, "
     "4]'); y ~ normal(b, 1); }",
     ""},
    {"many simplexes",
     "parameters { array[20] simplex[4] p; real b; } model { for (j in 1:20) p[j] ~ "
     "dirichlet([1, 2, 0.7, 3]'); y ~ normal(b, 1); }",
     ""},
    {"pieces of vectors",
     "parameters { vector[5] a; vector<lower=0>[5] s; real b; } model { target += -0.5 * "
     "dot_self(a[2:4]) - 2 * sum(cumulative_sum(exp(a))) + sum(s[1:2] .* [3, -4]') / 7 - sum(s); "
     "a ~ normal(0, 1.5); s[3] ~ gamma(2, 3); s[{1, 5, 5}] ~ lognormal(0, 1); y ~ normal(b, 1); }",
     ""},
    {"one by one",
     "parameters { vector[70] a; real b; } model { for (j in 2:70) target += normal_lpdf(a[j] | 0, "
     "1 + 0.1 * (j % 3)) - exp(a[j - 1]) * j / 70; y ~ normal(b, 1); }",
     ""},
};

TEST(prior_by_draws) {
  enum { M = 1 << 17 };
  const Shown *p = row;
  Model *m = model_of(c, arena_format(&c->arena, "%s%s", DATA, p->program), data);
  Target t = {.score = SCORE_log, .regularizer = REG_PRIOR, .lambda = 1, .score_weight = 1};
  Q q = q_make(&c->arena, FAMILY_meanfield, (Shape){0}, m->dim, NULL);
  double *phi = some_phi(c, &q), *grad = NEW_ARRAY(&c->arena, double, q_size(&q));
  double *theta = NEW_ARRAY(&c->arena, double, m->dim *M),
         *mean = NEW_ARRAY(&c->arena, double, m->dim), *sd = NEW_ARRAY(&c->arena, double, m->dim);
  PredictiveValue exact, draws;
  Predictive *e = exact_objective(c, m, &t, &q, NULL);
  assert_true(predictive_eval(e, phi, &exact, grad));
  check_gradient(e, phi, grad, q_size(&q), 3e-6);
  q_moments(&q, phi, mean, sd);
  sobol_normal(theta, m->dim, M, M, 12, false);
  for (size_t k = 0; k < m->dim * M; k++) theta[k] = mean[k / M] + sd[k / M] * theta[k];
  Observed *o = observed_make(&c->arena, m, NULL, 0, target_wants(&t));
  ModelPoints points = {theta, M, 1, M};
  Predictive *d = predictive_of_draws(&c->arena, o, &t, &q, &points, NULL);
  assert_true(predictive_eval(d, phi, &draws, NULL));
  if (!(fabs(exact.regularizer - draws.regularizer) <= 2e-4 * (1 + fabs(draws.regularizer))))
    fail_msg("%.8g, by draws %.8g", exact.regularizer, draws.regularizer);
}

/* A mixture's score without draws and its regularizer with them: the gradient is that of the
 * value, and the value that of many draws. */
TEST(split_objective) {
  const Shown *shape = row;
  Model *m = model_of(c, shape->program, data);
  for (int f = 0; f < 2; f++) {
    Target t = {.score = SCORE_log,
                .regularizer = REG_POSTERIOR,
                .lambda = 0.3,
                .score_weight = 1,
                .nodes = 48};
    Q q = q_make(&c->arena, f ? FAMILY_fullrank : FAMILY_meanfield, (Shape){0}, m->dim, NULL);
    Observed *o = observed_make(&c->arena, m, NULL, 0, target_wants(&t));
    observed_reduce(o);
    Predictive *p = predictive_make(&c->arena, o, &t, &q, (NoiseSet){64, 5}, NULL);
    assert_true(predictive_is_split(p) && !predictive_is_exact(p));
    double *phi = some_phi(c, &q), *grad = NEW_ARRAY(&c->arena, double, q_size(&q));
    PredictiveValue v, many;
    assert_true(predictive_eval(p, phi, &v, grad));
    check_gradient(p, phi, grad, q_size(&q), 3e-6);
    Target by_draws = t;
    by_draws.integrate = INTEGRATE_DRAWS;
    NoiseSet noise = {1 << 16, 7};
    Predictive *d = predictive_make(&c->arena, o, &by_draws, &q, noise, NULL);
    p = predictive_make(&c->arena, o, &t, &q, noise, NULL);
    assert_true(predictive_eval(p, phi, &v, NULL) && predictive_eval(d, phi, &many, NULL));
    assert_true(fabs(v.score - many.score) <= 2e-3);
    assert_true(fabs(v.regularizer - many.regularizer) <= 1e-9 * fabs(many.regularizer));
    assert_true(fabs(v.value - (v.score - 0.3 * v.regularizer)) <= 1e-9 * fabs(v.value));
  }
}

/* Minus the Hessian is what differences of the gradient say. Families without it say so. */
TEST(curvature) {
  const GradientRow *g = row;
  Model *m = model_of(c, g->program->program, data);
  Target t = gradient_target(g);
  bool point[16] = {false, g->point};
  Q q = q_make(&c->arena, family_named(g->family), (Shape){0}, m->dim, point);
  Predictive *p = exact_objective(c, m, &t, &q, NULL);
  size_t n = q_size(&q);
  double *phi = some_phi(c, &q), *A = NEW_ARRAY(&c->arena, double, n *n), most = 0;
  double *up = NEW_ARRAY(&c->arena, double, n), *down = NEW_ARRAY(&c->arena, double, n);
  PredictiveValue v;
  predictive_use_curvature(&c->arena, p);
  Objective f = predictive_objective(p);
  Observed *o = observed_make(&c->arena, m, NULL, 0, target_wants(&t));
  observed_reduce(o);
  bool known = (q.family == FAMILY_meanfield || q.family == FAMILY_fullrank) &&
               o->reduction->blocks[0].form != FORM_GIVEN;
  assert_true((f.curvature != NULL) == known);
  if (!known || !strcmp(g->score, "interval")) return; /* that one has kinks */
  for (int k = 0; k < 2; k++) assert_true(predictive_eval(p, phi, &v, up));
  assert_true(f.curvature(p, phi, A) > 0);
  for (size_t k = 0; k < n * n; k++) most = fmax(most, fabs(A[k]));
  for (size_t k = 0; k < n; k++) {
    double h = 1e-4, x = phi[k];
    phi[k] = x + h;
    assert_true(predictive_eval(p, phi, &v, up));
    phi[k] = x - h;
    assert_true(predictive_eval(p, phi, &v, down));
    phi[k] = x;
    for (size_t i = 0; i < n; i++) {
      double d = (down[i] - up[i]) / (2 * h), a = A[k * n + i];
      if (!(fabs(d - a) <= 1e-3 * most))
        fail_msg("entry %zu, %zu: %.6g, by differences %.6g", k, i, a, d);
    }
  }
}

/* ---- laws ------------------------------------------------------------------------------------ */

/* KL(q || prior) of normals, in closed form. */
TEST(regularizer_is_closed_form) {
  Model *m = model_of(c, fixed.program, data);
  Target t = {.score = SCORE_log, .regularizer = REG_PRIOR, .lambda = 1, .score_weight = 1};
  Q q = q_make(&c->arena, FAMILY_meanfield, (Shape){0}, m->dim, NULL);
  PredictiveValue v;
  double phi[4] = {0.3, -0.7, log(0.5), log(1.5)}, kl = 0;
  assert_true(predictive_eval(exact_objective(c, m, &t, &q, NULL), phi, &v, NULL));
  static const double mean[2] = {0, 0.5}, sd = 2;
  for (int k = 0; k < 2; k++) {
    double s = exp(phi[2 + k]), d = phi[k] - mean[k];
    kl += log(sd / s) + (s * s + d * d) / (2 * sd * sd) - 0.5;
  }
  assert_close(v.regularizer, kl, 1e-13);
}

/* The same for very many parameters, whose terms are folded in groups; with observations by draws,
 * too. */
TEST(many_parameters) {
  enum { D = 9001 };
  Model *m = model_of(c,
                      "data { int D; } parameters { vector[D] a; } model { a ~ normal(0.5, 2); for "
                      "(i in 1:3) 0.3 ~ normal(a[i], 1); }",
                      "{\"D\": 9001}");
  Q q = q_make(&c->arena, FAMILY_meanfield, (Shape){0}, D, NULL);
  double *phi = NEW_ARRAY(&c->arena, double, 2 * D), *grad = NEW_ARRAY(&c->arena, double, 2 * D),
         kl = 0;
  for (int k = 0; k < D; k++) {
    double mean = phi[k] = 0.1 * (k % 7), s = exp(phi[D + k] = -0.1 * (k % 5)), d = mean - 0.5;
    kl += log(2 / s) + (s * s + d * d) / 8 - 0.5;
  }
  Observed *o = observed_make(&c->arena, m, NULL, 0, WANT_LL);
  observed_reduce(o);
  for (int draws = 0; draws < 2; draws++) {
    Target t = {.score = SCORE_log,
                .regularizer = REG_PRIOR,
                .lambda = 1,
                .score_weight = 1,
                .integrate = draws ? INTEGRATE_DRAWS : INTEGRATE_EXACT};
    PredictiveValue v;
    assert_true(predictive_eval(predictive_make(&c->arena, o, &t, &q, (NoiseSet){16, 1}, NULL), phi,
                                &v, grad));
    assert_close(v.regularizer, kl, 1e-12);
    for (int k = 3; k < D; k++) {
      double s = exp(phi[D + k]);
      assert_true(fabs(grad[k] + (phi[k] - 0.5) / 4) < 1e-12 &&
                  fabs(grad[D + k] - 1 + s * s / 4) < 1e-12);
    }
  }
}

/* normal(y | m + b x, sqrt(sigma^2 + x'Vx)): the log score in closed form. */
TEST(normal_is_closed_form) {
  Model *m = model_of(c, fixed.program, data);
  Target t = {.score = SCORE_log, .regularizer = REG_PRIOR, .score_weight = 1};
  Q q = q_make(&c->arena, FAMILY_fullrank, (Shape){0}, m->dim, NULL);
  PredictiveValue v;
  static const double x[] = {-1, 0.5, 2, 1, -0.3, 0, 1.5}, y[] = {0.1, 1, 3, -1, 0.4, 0.2, 2};
  double phi[5] = {0.3, -0.7, log(0.5), 0.4, log(0.8)}, s = 0;
  assert_true(predictive_eval(exact_objective(c, m, &t, &q, NULL), phi, &v, NULL));
  for (int i = 0; i < 7; i++) {
    double a = 0.5 + 0.4 * x[i], b = 0.8 * x[i], var = 0.49 + a * a + b * b,
           d = y[i] - 0.3 + 0.7 * x[i];
    s -= 0.5 * log(2 * M_PI * var) + 0.5 * d * d / var;
  }
  assert_close(v.score, s, 1e-13);
}

/* An outcome of a million trials is narrower than any rule's nodes are dense. */
TEST(peaked_counts) {
  Model *m = model_of(c,
                      "data { array[1] int k; array[1] int n; } parameters { real a; } model { k ~ "
                      "binomial_logit(n, a); }",
                      "{\"k\": [300000], \"n\": [1000000]}");
  Target t = {.score = SCORE_log, .regularizer = REG_PRIOR, .score_weight = 1};
  Q q = q_make(&c->arena, FAMILY_meanfield, (Shape){0}, 1, NULL);
  PredictiveValue v;
  double phi[2] = {0, log(2)}, g[2];
  assert_true(predictive_eval(exact_objective(c, m, &t, &q, NULL), phi, &v, g));
  /* by Laplace's method, whose error is of order 1 / n: int Binomial(k | n, p) dp = 1 / (n + 1),
   * times the density of p */
  double a = log(0.3 / 0.7),
         expected = -log(1000001) - 0.5 * a * a / 4 - log(2) - 0.5 * log(2 * M_PI) - log(0.21);
  assert_true(fabs(v.value - expected) < 1e-5);
  assert_true(fabs(g[0] - a / 4) < 1e-5 && fabs(g[1] - (a * a / 4 - 1)) < 1e-5);
}

static void same_for_threads(Ctx *c, const char *program, const char *json) {
  Model *m = model_of(c, program, json);
  Target t = {.score = SCORE_log, .regularizer = REG_POSTERIOR, .lambda = 0.1, .score_weight = 1};
  Q q = q_make(&c->arena, FAMILY_fullrank, (Shape){0}, m->dim, NULL);
  double *phi = some_phi(c, &q), first[9], again[9];
  assert_int_equal(q_size(&q), 9);
  PredictiveValue v, w;
  assert_true(predictive_eval(exact_objective(c, m, &t, &q, NULL), phi, &v, first));
  for (int threads = 2; threads <= 7; threads += 5) {
    Pool *pool = pool_make(c, threads);
    assert_true(predictive_eval(exact_objective(c, m, &t, &q, pool), phi, &w, again));
    pool_free(pool);
    assert_true(v.value == w.value);
    assert_memory_equal(first, again, sizeof first);
  }
}

/* Of functions with laws of their own, and of one given its scales. */
TEST(threads_do_not_matter) {
  enum { N = 20000 };
  Text json = text_make(&c->arena);
  text_printf(&json, "{\"N\": %d, \"y\": [", N);
  for (int k = 0; k < N; k++) text_printf(&json, k ? ", %d" : "%d", k * 7919 % 13);
  text_puts(&json, "], \"x\": [");
  for (int k = 0; k < N; k++)
    text_printf(&json, k ? ", %.3f" : "%.3f", k * 104729 % 1000 / 500.0 - 1);
  text_puts(&json, "]}");
#define LINE(slope)                                                                                \
  "data { int N; vector[N] y; vector[N] x; } parameters { real a; real b; real s; } model { a ~ "  \
  "normal(0, 9); b ~ normal(0, 9); s ~ normal(0, 1); y ~ normal(a + " slope " * x, exp(s)); }"
  same_for_threads(c, LINE("b"), json.s);
  same_for_threads(c, LINE("exp(b)"), json.s);
}

/* Where tau is a point, tau * a of a normal a is normal(tau m, tau s): the centred program has the
 * same scores at those. */
typedef struct {
  const char *name, *outcome;
} Outcome;
static const Outcome outcomes[] = {{"normal", "y ~ normal(f, s)"},
                                   {"lognormal", "t ~ lognormal(f, s)"},
                                   {"logistic", "z ~ bernoulli_logit(f)"},
                                   {"poisson", "w ~ poisson_log(f)"}};

static double score_at(Ctx *c, const char *predictor, const char *outcome, double times) {
  static const double mean[] = {0.3, -0.4, 0.9}, sd[] = {0.5, 0.2, 0.7}, tau = 1.7;
  Text program = text_make(&c->arena);
  text_printf(&program,
              DATA
              "parameters { real<lower=0> tau; vector[J] a; real<lower=0> s; real b; } model { tau "
              "~ normal(0, 1); a ~ normal(0, 1); s ~ normal(0, 1); b ~ normal(0, 1); vector[N] f "
              "= b + %s; %s; }",
              predictor, outcome);
  Model *m = model_of(c, program.s, data);
  bool point[6] = {true};
  Q q = q_make(&c->arena, FAMILY_meanfield, (Shape){0}, m->dim, point);
  double phi[11] = {[3] = -0.2, [4] = 0.1, [8] = log(0.3), [9] = log(0.4), [10] = log(tau)};
  for (int j = 0; j < 3; j++) {
    phi[j] = times * mean[j];
    phi[5 + j] = log(times * sd[j]);
  }
  assert_int_equal(q_size(&q), 11);
  Target t = {.score = SCORE_log, .regularizer = REG_PRIOR, .score_weight = 1, .nodes = 200};
  PredictiveValue v;
  Predictive *p = exact_objective(c, m, &t, &q, NULL);
  for (int k = 0; k < 4; k++)
    assert_true(predictive_eval(p, phi, &v, NULL)); /* centred nodes are placed */
  return v.score;
}

TEST(centred_or_not) {
  const Outcome *o = row;
  double apart_score = score_at(c, "tau * a[g]", o->outcome, 1),
         centred = score_at(c, "a[g]", o->outcome, 1.7);
  assert_close(apart_score, centred, 1e-7);
}

/* ---- the rule -------------------------------------------------------------------------------- */

/* E X^p = (p - 1)!! for even p, and E exp(X) = exp(1/2). */
TEST(rules) {
  for (size_t n = 1; n <= 256; n += n < 24 ? 1 : 29) {
    double x[256], w[256], moment = 1;
    normal_rule(n, 0, x, w);
    for (size_t p = 0; p <= (n > 64 ? 8 : 20) && p < 2 * n; p++) {
      double s = 0;
      for (size_t k = 0; k < n; k++) s += w[k] * pow(x[k], (double)p);
      if (p % 2) assert_true(fabs(s) < 1e-10 * moment);
      if (p && p % 2 == 0) moment *= (double)(p - 1);
      if (p % 2 == 0) assert_close(s, moment, 1e-11);
    }
    for (size_t k = 1; k < n; k++) assert_true(x[k] > x[k - 1] && x[k] == -x[n - 1 - k]);
  }
}

/* inv_logit is the mixture it is said to be, to as many digits as its normals give, in its tail,
 * too; and symmetric. */
TEST(logistic_is_a_mixture) {
  static const struct {
    size_t n;
    double middle, tail; /* errors: absolute, and relative where it is exp(-15) */
  } of[] = {{12, 1e-5, 0.1}, {24, 1e-11, 1e-6}, {48, 1e-12, 1e-11}, {96, 1e-12, 1e-11}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    double v[96], w[96];
    logistic_mixture(of[i].n, v, w);
    for (double f = -40; f <= 40; f += 0.07) {
      double sum = 0, truth = 1 / (1 + exp(-f));
      for (size_t k = 0; k < of[i].n; k++) sum += w[k] * 0.5 * erfc(-f / sqrt(2 * v[k]));
      assert_true(fabs(sum - truth) <= of[i].middle);
      if (f > -15) assert_true(fabs(sum / truth - 1) <= of[i].tail);
    }
  }
}

/* E g(a) for a ~ normal(m, s), by brute force where g bends and where a is. */
static double brute(double (*g)(double), double m, double s) {
  enum { STEPS = 4000 };
  double sum = 0, ends[] = {fmax(-60, m - 9 * s), fmin(60, m + 9 * s)};
  double cuts[] = {m - 9 * s, fmax(m - 9 * s, fmin(ends[0], m + 9 * s)),
                   fmin(m + 9 * s, fmax(ends[1], m - 9 * s)), m + 9 * s};
  for (int part = 0; part < 3; part++) {
    double lo = cuts[part], hi = cuts[part + 1], h = (hi - lo) / STEPS;
    for (int k = 0; k <= STEPS; k++) { /* Simpson's rule */
      double x = lo + k * h, z = (x - m) / s, weight = k == 0 || k == STEPS ? 1 : k % 2 ? 4 : 2;
      sum += weight * h / 3 * g(x) * exp(-0.5 * z * z) / (s * sqrt(2 * M_PI));
    }
  }
  return sum;
}

static double probability(double f) { return f < 0 ? exp(f) / (1 + exp(f)) : 1 / (1 + exp(-f)); }
static double log_of_it(double f) { return f < 0 ? f - log1p(exp(f)) : -log1p(exp(-f)); }

/* Binary outcomes under any law of their logit, from a point to one that knows nothing. */
TEST(wide_logits) {
  Model *m = model_of(c,
                      "data { int<lower=0, upper=1> z; } parameters { real a; } model { a ~ "
                      "normal(0, 1); z ~ bernoulli_logit(a); }",
                      "{\"z\": 1}");
  Q q = q_make(&c->arena, FAMILY_meanfield, (Shape){0}, 1, NULL);
  static const ScoreId ids[] = {SCORE_log, SCORE_quadratic, SCORE_elbo};
  for (int id = 0; id < 3; id++) {
    Target t = {.score = ids[id], .score_weight = 1, .nodes = 2 * EXACT_NODES};
    Predictive *p = exact_objective(c, m, &t, &q, NULL);
    for (double s = 0.01; s < 1e5; s *= 3.3)
      for (double z = -3; z <= 3; z += 0.37) {
        double mean = z * fmax(s, 1), phi[] = {mean, log(s)}, P = brute(probability, mean, s);
        double truth = id == 0   ? log(P)
                       : id == 1 ? 2 * P - P * P - (1 - P) * (1 - P)
                                 : brute(log_of_it, mean, s);
        PredictiveValue v;
        assert_true(predictive_eval(p, phi, &v, NULL));
        if (!(fabs(v.score - truth) <= 1e-7 * (1 + fabs(truth))))
          fail_msg("%s at %g, %g: %.12g, not %.12g", score_name(ids[id]), mean, s, v.score, truth);
      }
  }
}

/* The same of a logit d (a - b) that is normal only given d: d's nodes are many here, so what is
 * left is the error of what is integrated given them. */
TEST(wide_items) {
  Model *m =
      model_of(c,
               "data { int<lower=0, upper=1> z; } parameters { real d; real a; } model { d ~ "
               "normal(0, 1); a ~ normal(0, 1); z ~ bernoulli_logit(exp(d) * a); }",
               "{\"z\": 1}");
  Q q = q_make(&c->arena, FAMILY_meanfield, (Shape){0}, 2, NULL);
  Target t = {.score = SCORE_log, .score_weight = 1, .nodes = 4 * EXACT_NODES};
  Predictive *p = exact_objective(c, m, &t, &q, NULL);
  enum { STEPS = 200 };
  for (double s = 0.01; s < 1e5; s *= 7)
    for (double z = -2; z <= 2; z += 0.5) {
      double mean = z * fmax(s, 1), sd = 0.4, phi[] = {0.2, mean, log(sd), log(s)}, P = 0;
      for (int k = 0; k <= STEPS; k++) { /* over d, by the trapezoidal rule */
        double u = -8 + 16.0 * k / STEPS, scale = exp(0.2 + sd * u);
        P += 16.0 / STEPS * exp(-0.5 * u * u) / sqrt(2 * M_PI) *
             brute(probability, scale * mean, scale * s);
      }
      PredictiveValue v;
      assert_true(predictive_eval(p, phi, &v, NULL));
      if (!(fabs(v.score - log(P)) <= 1e-7 * (1 + fabs(log(P)))))
        fail_msg("at %g, %g: %.12g, not %.12g", mean, s, v.score, log(P));
    }
}

/* ---- exact optima ---------------------------------------------------------------------------- */

typedef struct {
  const char *program, *data, *split, *score, *family;
  Regularizer regularizer;
  double lambda;
  const char *metric;
  double anchor, tolerance; /* on the test part (golf: training part) */
  double train;             /* of the metric, at least; 0: any */
} AnchorRow;

#define EARNINGS "paper/earnings", "earnings", "earnings"
#define KIDSCORE "paper/kidscore", "kidiq", "kidscore"
#define NES "paper/nes", "nes2000", "nes"
#define WELLS "paper/wells", "wells_data", "wells"
static const AnchorRow anchors[] = {
    {"golf/logistic", NULL, NULL, "log", "meanfield", REG_PRIOR, 0, "log", -84.113, 0.01, 0},
    {"golf/logistic", NULL, NULL, "log", "fullrank", REG_PRIOR, 0, "log", -79.260, 0.01, 0},
    {"golf/geometric", NULL, NULL, "log", "meanfield", REG_PRIOR, 0, "log", -72.082, 0.01, 0},
    {EARNINGS, "elbo", "meanfield", REG_PRIOR, 1, "log", -298.086, 0.01, 0},
    {EARNINGS, "elbo", "fullrank", REG_PRIOR, 1, "log", -298.029, 0.01, 0},
    {EARNINGS, "log", "meanfield", REG_PRIOR, 0.01, "log", -288.952, 0.01, 0},
    {EARNINGS, "log", "fullrank", REG_PRIOR, 1, "log", -283.112, 0.01, 0},
    {KIDSCORE, "elbo", "meanfield", REG_PRIOR, 1, "log", -591.139, 0.01, 0},
    {KIDSCORE, "log", "meanfield", REG_POSTERIOR, 0.01, "log", -369.869, 0.01, 0},
    {KIDSCORE, "log", "fullrank", REG_POSTERIOR, 0.01, "log", -369.266, 0.01, 0},
    {NES, "elbo", "meanfield", REG_PRIOR, 1, "log", -185.689, 0.01, 0},
    {NES, "elbo", "fullrank", REG_PRIOR, 1, "log", -185.680, 0.01, 0},
    {NES, "log", "meanfield", REG_POSTERIOR, 0.01, "log", -186.890, 0.01, 0},
    {NES, "log", "fullrank", REG_POSTERIOR, 0.1, "log", -184.727, 0.01, 0},
    {WELLS, "elbo", "meanfield", REG_PRIOR, 1, "log", -393.784, 0.01, 0},
    {WELLS, "elbo", "fullrank", REG_PRIOR, 1, "log", -393.770, 0.01, 0},
    {WELLS, "log", "meanfield", REG_POSTERIOR, 0.01, "log", -391.721, 0.01, 0},
    {WELLS, "quadratic", "meanfield", REG_PRIOR, 0, "quadratic", 604 * 0.5440, 604 * 0.0005, 0},
    {EARNINGS, "crps", "meanfield", REG_POSTERIOR, 0.01, "crps", -109.127, 0.01, 0},
    {EARNINGS, "crps", "fullrank", REG_PRIOR, 0.1, "crps", -108.497, 0.01, 0},
    {KIDSCORE, "crps", "meanfield", REG_POSTERIOR, 0.1, "crps", -861.930, 0.01, 0},
    {KIDSCORE, "crps", "fullrank", REG_POSTERIOR, 0.1, "crps", -858.483, 0.02, 0},
    {KIDSCORE, "interval", "meanfield", REG_POSTERIOR, 1, "interval", -6521.4, 10, -18820.7},
    {EARNINGS, "interval", "meanfield", REG_PRIOR, 0.01, "interval", -878.47, 5, -2788.4},
};

static double metric(Ctx *c, const Model *m, const Fit *f, const char *name, const size_t *rows,
                     size_t n) {
  Target t = {.score_weight = 1, .score_options = {.alpha = 0.1}};
  assert_true(score_find(name, &t.score));
  Observed *o = observed_make(&c->arena, m, rows, n, target_wants(&t));
  observed_reduce(o);
  double *s = NEW_ARRAY(&c->arena, double, n);
  predictive_scores(c, &(Scoring){.o = o, .q = &f->q, .phi = f->phi, .noise = {1024, 99}}, &t, s);
  return sum(s, n);
}

TEST(exact_optimum) {
  const AnchorRow *a = row;
  if (a->data) NEED_SHARED(c, "data/paper/splits");
  const char *file =
      a->data ? shared_path(&c->arena, arena_format(&c->arena, "data/posteriordb/%s.json", a->data))
              : "examples/golf/golf.csv";
  Model *m = model_of_files(c, arena_format(&c->arena, "examples/%s.stan", a->program), file);
  Split *s =
      a->split
          ? split_read(c,
                       shared_path(&c->arena,
                                   arena_format(&c->arena, "data/paper/splits/%s.json", a->split)),
                       m->n_obs)
          : split_all(c, m->n_obs);
  FitOptions o = {.target = {.regularizer = a->regularizer,
                             .lambda = a->lambda,
                             .score_weight = 1,
                             .score_options = {.alpha = 0.1},
                             .integrate = INTEGRATE_EXACT},
                  .family = family_named(a->family),
                  .optimizer = OPTIM_LBFGS,
                  .seed = 1};
  assert_true(score_find(a->score, &o.target.score));
  Fit *f = fit_run(c, m, s, &o, NULL);
  int part = a->split ? PART_TEST : PART_TRAIN;
  assert_true(f->exact && f->converged);
  double test = metric(c, m, f, a->metric, s->rows[part], s->count[part]);
  if (!(fabs(test - a->anchor) <= a->tolerance))
    fail_msg("%s %.4f, exact %.4f", a->metric, test, a->anchor);
  double train = metric(c, m, f, a->metric, s->rows[PART_TRAIN], s->count[PART_TRAIN]);
  if (a->train != 0 && train < a->train)
    fail_msg("training %s %.4f, best known %.4f", a->metric, train, a->train);
}

int main(void) {
  static Suite s;
  for (size_t k = 0; k < sizeof shown / sizeof *shown; k++)
    suite_add(&s, shown[k]->name, reduces, shown[k]);
  for (size_t k = 0; k < sizeof not_reduced / sizeof *not_reduced; k++)
    suite_add(&s, not_reduced[k].name, refuses, &not_reduced[k]);
  for (size_t k = 0; k < sizeof shown / sizeof *shown; k++)
    suite_add(&s, shown[k]->name, agrees_with_draws, shown[k]);
  SUITE_ADD(&s, random_programs);
  for (size_t k = 0; k < sizeof shown / sizeof *shown; k++)
    suite_add(&s, shown[k]->name, scores_settle, shown[k]);
  for (size_t k = 0; k < sizeof gradients / sizeof *gradients; k++)
    suite_add(&s, gradients[k].program->name, gradient, &gradients[k]);
  for (size_t k = 0; k < sizeof gradients / sizeof *gradients; k++)
    suite_add(&s, gradients[k].program->name, curvature, &gradients[k]);
  SUITE_ADD(&s, outliers_have_tails), SUITE_ADD(&s, mean_apart);
  SUITE_ADD(&s, covariances_that_are_read), SUITE_ADD(&s, points_of_neighbours);
  SUITE_ADD(&s, regularizer_is_closed_form);
  SUITE_ADD(&s, many_parameters);
  SUITE_ADD(&s, normal_is_closed_form);
  SUITE_ADD(&s, peaked_counts);
  SUITE_ADD(&s, threads_do_not_matter);
  static const Shown *const mixtures[] = {&two_normals, &two_lines, &three_normals, &four_normals};
  for (int k = 0; k < 4; k++) suite_add(&s, mixtures[k]->name, split_objective, mixtures[k]);
  for (size_t k = 0; k < sizeof priors / sizeof *priors; k++)
    suite_add(&s, priors[k].name, prior_by_draws, &priors[k]);
  for (size_t k = 0; k < sizeof outcomes / sizeof *outcomes; k++)
    suite_add(&s, outcomes[k].name, centred_or_not, &outcomes[k]);
  SUITE_ADD(&s, rules);
  SUITE_ADD(&s, logistic_is_a_mixture);
  SUITE_ADD(&s, wide_logits);
  SUITE_ADD(&s, wide_items);
  for (size_t k = 0; k < sizeof anchors / sizeof *anchors; k++)
    suite_add(&s, anchors[k].program, exact_optimum, &anchors[k]);
  return suite_run("exact", &s);
}
