/* test_starts.c: fits that are right wherever they have to begin: units of any size, several modes,
 * densities that are zero at zero; objectives that have no optimum, and are said to have none;
 * starts that are never made worse; probabilities that are nearly 0 or 1. */
#include "objective.h"

#include "infer/fit.h"
#include "num/rng.h"

static FitOptions options_of(ScoreId score, FamilyId family, double lambda) {
  return (FitOptions){.target = {.score = score,
                                 .regularizer = score == SCORE_elbo ? REG_PRIOR : REG_POSTERIOR,
                                 .lambda = lambda,
                                 .score_weight = 1,
                                 .score_options = {.alpha = 0.1}},
                      .family = family,
                      .optimizer = OPTIM_LBFGS,
                      .seed = 1};
}

static const Fit *fit_of(Ctx *c, const char *program, const char *data, const FitOptions *o) {
  const Model *m = model_of(c, program, data);
  return fit_run(c, m, split_all(c, m->n_obs), o, NULL);
}

static void moments_of(Ctx *c, const Fit *f, double **mean, double **sd) {
  *mean = NEW_ARRAY(&c->arena, double, f->q.dim);
  *sd = NEW_ARRAY(&c->arena, double, f->q.dim);
  q_moments(&f->q, f->phi, *mean, *sd);
}

/* ---- units ----------------------------------------------------------------------------------- */

/* y = height + slope x + noise, in units of its own: what is measured is x * by + from. */
typedef struct {
  const char *name;
  double x_from, x_by, y_from, y_by;
} UnitsRow;

static const UnitsRow units[] = {
    {"units of one", 0, 1, 0, 1},
    {"calendar years", 2000, 8, 0, 1},
    {"an outcome of 2000", 0, 1, 2000, 1},
    {"dollars", 66, 4, 30000, 20000},
    {"millions by thousandths", 0.5, 0.001, 3e6, 1e6},
    {"a small outcome", -50, 10, 1e-3, 1e-4},
};

enum { ROWS = 40 };
#define LINE                                                                                       \
  "data { int N; vector[N] x; vector[N] y; } parameters { real a; real b; real<lower=0> s; }"      \
  "model { y ~ normal(a + b * x, s); }"

typedef struct {
  double x[ROWS], y[ROWS];
} Line;

static Line line_of(const UnitsRow *u) {
  Line l;
  RngStream r = rngs_make(8, 0);
  for (int i = 0; i < ROWS; i++) {
    double x = rngs_normal(&r), y = 0.7 - 0.4 * x + 0.5 * rngs_normal(&r);
    l.x[i] = u->x_from + u->x_by * x;
    l.y[i] = u->y_from + u->y_by * y;
  }
  return l;
}

static const char *line_data(Ctx *c, const Line *l) {
  Text t = text_make(&c->arena);
  text_printf(&t, "{\"N\": %d, \"x\": [", ROWS);
  for (int i = 0; i < ROWS; i++) text_printf(&t, "%s%.17g", i ? ", " : "", l->x[i]);
  text_printf(&t, "], \"y\": [");
  for (int i = 0; i < ROWS; i++) text_printf(&t, "%s%.17g", i ? ", " : "", l->y[i]);
  text_printf(&t, "]}");
  return t.s;
}

/* With flat priors VI of full rank is known: a and b have the means of least squares and the
 * covariance (K X'X)^-1, K = E exp(-2 log s) = (n - 3) / sum of squares, and log s, which is
 * independent of them, the variance v = 1 / (2 n - 2) and the mean v - log(K) / 2. */
TEST(any_units) {
  const UnitsRow *u = row;
  Line l = line_of(u);
  double mx = 0, my = 0, xx = 0, xy = 0, rr = 0;
  for (int i = 0; i < ROWS; i++) mx += l.x[i] / ROWS, my += l.y[i] / ROWS;
  for (int i = 0; i < ROWS; i++) {
    xx += (l.x[i] - mx) * (l.x[i] - mx);
    xy += (l.x[i] - mx) * (l.y[i] - my);
  }
  double b = xy / xx, a = my - b * mx, *mean, *sd;
  for (int i = 0; i < ROWS; i++) rr += pow(l.y[i] - a - b * l.x[i], 2);
  FitOptions o = options_of(SCORE_elbo, FAMILY_fullrank, 1);
  const Fit *f = fit_of(c, LINE, line_data(c, &l), &o);
  if (!accurate) return;
  double K = (ROWS - 3) / rr, v = 0.5 / (ROWS - 1), sb = 1 / sqrt(K * xx),
         sa = sqrt((1.0 / ROWS + mx * mx / xx) / K);
  moments_of(c, f, &mean, &sd);
  if (!f->converged) fail_msg("%s", f->reason);
  assert_true(fabs(mean[0] - a) < 1e-3 * sa && fabs(mean[1] - b) < 1e-3 * sb);
  assert_true(fabs(sd[0] / sa - 1) < 1e-3 && fabs(sd[1] / sb - 1) < 1e-3);
  assert_true(fabs(mean[2] - v + 0.5 * log(K)) < 1e-3 && fabs(sd[2] / sqrt(v) - 1) < 1e-3);
}

/* ---- no optimum ------------------------------------------------------------------------------ */

typedef struct {
  const char *name, *program, *data;
  ScoreId score;
  double lambda;
  const char *said; /* NULL: it has an optimum */
} BoundRow;

#define COIN                                                                                       \
  "data { int N; array[N] int<lower=0, upper=1> y; vector[N] x; } parameters { real a; real b; }"  \
  "model { y ~ bernoulli_logit(a + b * x); }"
#define SEPARABLE "{\"N\": 6, \"x\": [-2, -1, -0.5, 0.4, 1, 3], \"y\": [0, 0, 0, 1, 1, 1]}"

#define EVERY_MEAN(least)                                                                          \
  "data { int N; vector[N] y; } parameters { vector[N] z; real<lower=" least "> s; }"              \
  "model { z ~ std_normal(); s ~ std_normal(); y ~ normal(z, s); }"
#define OUTCOMES "{\"N\": 6, \"y\": [1.3, -0.4, 0.2, 0.9, -1.7, 0.1]}"

static const BoundRow bounds[] = {
    {"a parameter that is not used",
     "data { vector[4] y; } parameters { real m; real k; } model { m ~ std_normal(); y ~ normal(m, "
     "1); }",
     "{\"y\": [1, 2, 0, 3]}", SCORE_log, 0.01, "bounds k"},
    {"the same, VI",
     "data { vector[4] y; } parameters { real m; real k; } model { m ~ std_normal(); y ~ normal(m, "
     "1); }",
     "{\"y\": [1, 2, 0, 3]}", SCORE_elbo, 1, "bounds k"},
    {"two that only count together",
     "data { vector[4] y; } parameters { real m; real k; } model { y ~ normal(m + k, 1); }",
     "{\"y\": [1, 2, 0, 3]}", SCORE_elbo, 1, "unbounded"},
    {"separable outcomes", COIN, SEPARABLE, SCORE_log, 0.01, "unbounded"},
    {"separable outcomes, VI", COIN, SEPARABLE, SCORE_elbo, 1, "unbounded"},
    {"a binomial of zeros",
     "data { int N; array[N] int n; array[N] int y; } parameters { real a; }"
     "model { y ~ binomial_logit(n, a); }",
     "{\"N\": 3, \"n\": [10, 20, 5], \"y\": [0, 0, 0]}", SCORE_log, 0.01, "bounds a from below"},
    {"a constrained one",
     "data { vector[4] y; } parameters { real m; real<lower=0> k; } model { m ~ std_normal(); "
     "target += -log(k); y ~ normal(m, 1); }",
     "{\"y\": [1, 2, 0, 3]}", SCORE_elbo, 1, "bounds k (on its unconstrained scale)"},
    {"a mean for every outcome, and the noise", EVERY_MEAN("0"), OUTCOMES, SCORE_log, 0.01,
     "can reproduce the data"},
    {"the same, half regularized", EVERY_MEAN("0"), OUTCOMES, SCORE_log, 0.5,
     "can reproduce the data"},
    {"a mean for every outcome, and noise that is no less than so much", EVERY_MEAN("0.1"),
     OUTCOMES, SCORE_log, 0.01, NULL},
    {"far, but for good reasons",
     "data { vector[4] y; } parameters { real m; } model { y ~ normal(m, 1e5); }",
     "{\"y\": [1e7, 2e7, 0, 3e7]}", SCORE_elbo, 1, NULL},
    {"wide, but for good reasons",
     "data { vector[4] y; } parameters { real m; real k; } model { m ~ std_normal(); k ~ normal(0, "
     "1e6); y ~ normal(m, 1); }",
     "{\"y\": [1, 2, 0, 3]}", SCORE_elbo, 1, NULL},
};

TEST(bounded_or_not) {
  const BoundRow *b = row;
  FitOptions o = options_of(b->score, FAMILY_fullrank, b->lambda);
  const Fit *f = fit_of(c, b->program, b->data, &o);
  if (!accurate) return;
  if (f->converged != !b->said) fail_msg("%s", f->reason);
  if (!b->said) return;
  if (!strstr(f->reason, "unbounded") || !strstr(f->reason, b->said)) fail_msg("%s", f->reason);
}

/* q is normal, and the program has no density below 1: there is no objective to be had. */
TEST(edge_is_named) {
  FitOptions o = options_of(SCORE_elbo, FAMILY_meanfield, 1);
  const Fit *f = fit_of(c,
                        "data { vector[3] y; } parameters { real m; real k; }"
                        "model { m ~ std_normal(); k ~ uniform(1, 9); y ~ normal(m + k, 3); }",
                        "{\"y\": [1, 2, 0]}", &o);
  if (!accurate) return;
  assert_false(f->converged);
  if (!strstr(f->reason, "no density where k is below about 1;")) fail_msg("%s", f->reason);
}

/* ---- where it begins ------------------------------------------------------------------------- */

/* A small mode at zero, and one with almost all of the mass elsewhere: mean-field VI of a mode of
 * weight w is log w. */
TEST(better_mode) {
  FitOptions o = options_of(SCORE_elbo, FAMILY_meanfield, 1);
  double *mean, *sd;
  const Fit *f =
      fit_of(c,
             "parameters { vector[2] t; } model {"
             "target += log_mix(1e-4, normal_lpdf(t | 0, 0.2), normal_lpdf(t | 1.5, 0.2)); }",
             NULL, &o);
  if (!accurate) return;
  moments_of(c, f, &mean, &sd);
  if (!f->converged || !(fabs(f->value.value) <= 1e-2))
    fail_msg("%g: %s", f->value.value, f->reason);
  assert_true(fabs(mean[0] - 1.5) < 0.01 && fabs(sd[0] - 0.2) < 0.01);
}

#define FAR_FROM_ZERO                                                                              \
  "parameters { vector[2] t; } model { t[1] ~ normal(1.5, 0.1); target += sqrt(t[1] - 1); "        \
  "t[2] ~ normal(t[1], 0.1); }"

/* There is no density at zero: random points find one, unless told to stay away. */
TEST(random_points) {
  FitOptions o = options_of(SCORE_elbo, FAMILY_meanfield, 1);
  double *mean, *sd;
  const Fit *f = fit_of(c, FAR_FROM_ZERO, NULL, &o);
  moments_of(c, f, &mean, &sd);
  if (accurate) assert_true(f->converged && fabs(mean[1] - 1.5) < 0.05);
}

static void begin_at_zero(Ctx *c, void *unused) {
  (void)unused;
  FitOptions o = options_of(SCORE_elbo, FAMILY_meanfield, 1);
  o.init_radius = -1;
  fit_of(c, FAR_FROM_ZERO, NULL, &o);
}

TEST(nowhere_finite) {
  assert_int_equal(attempt(c, begin_at_zero, NULL), PVI_FAILURE);
  expect_message(c, "give a point where it is finite with init");
}

/* No bounds are declared, and every wider q has draws that the prior does not allow: a fit that did
 * not converge, and says why. */
TEST(no_start_for_an_edge) {
  FitOptions o = options_of(SCORE_log, FAMILY_meanfield, 0.01);
  const Fit *f = fit_of(c,
                        "data { array[6] int y; } parameters { real a; real b; }"
                        "model { a ~ normal(0, 10); b ~ uniform(0, 100); y ~ poisson_log(a - 5 * "
                        "b); }",
                        "{\"y\": [0, 0, 1, 0, 0, 0]}", &o);
  assert_false(f->converged || isfinite(f->value.value));
  if (!strstr(f->reason, "it has no density where b is below about 0")) fail_msg("%s", f->reason);
}

TEST(given_point) {
  FitOptions o = options_of(SCORE_elbo, FAMILY_meanfield, 1);
  double at[] = {1.4, 1.3}, *mean, *sd;
  o.init = at;
  const Fit *f = fit_of(c, FAR_FROM_ZERO, NULL, &o);
  moments_of(c, f, &mean, &sd);
  if (accurate) assert_true(f->converged && fabs(mean[1] - 1.5) < 0.05);
}

/* ---- starts are never made worse ------------------------------------------------------------- */

static const double *the_start(void *self, const Q *q) {
  (void)q;
  return self;
}

/* Whatever the few draws and nodes of the exploration make of a start, a good one is kept. */
TEST(given_start_is_kept) {
  Model *m = model_of_files(c, "examples/golf/logistic.stan", "examples/golf/golf.csv");
  const Split *all = split_all(c, m->n_obs);
  for (int draws = 0; draws < 2; draws++) {
    FitOptions o = options_of(SCORE_log, FAMILY_fullrank, 0);
    o.target.integrate = draws ? INTEGRATE_DRAWS : INTEGRATE_AUTO;
    const Fit *best = fit_run(c, m, all, &o, NULL);
    FitOptions again = o;
    again.start = the_start;
    again.start_self = best->phi;
    again.iterations = 1;
    again.seed = 5;
    const Fit *f = fit_run(c, m, all, &again, NULL);
    if (accurate) assert_true(f->value.value >= best->value.value - 0.1);
  }
}

/* Three groups and three components: whatever the seed, VI and a predictive fit find all of them.
 * From zero VI leaves two components to nothing, and so does many a climb. */
static const double three_groups[] = {
    5.323,  -4.165, 4.869,  -0.741, -0.517, -5.231, -0.629, 5.994,  3.957,  -4.446, -2.347, 0.096,
    0.475,  -0.384, -2.685, -3.801, 0.749,  -4.019, 5.472,  3.441,  0.115,  4.095,  5.887,  0.71,
    -0.57,  4.78,   0.229,  4.185,  3.744,  5.314,  -0.353, 0.03,   0.55,   -1.169, 4.082,  1.169,
    -0.721, -0.081, 0.157,  6.156,  0.825,  0.423,  5.595,  -1.687, -0.052, 5.709,  -6.913, -4.412,
    -2.849, -0.358, -4.598, 0.234,  -3.674, -0.032, -4.098, -1.253, -4.532, -5.382, 5.158,  0.111};
enum { THREE_GROUPS = sizeof three_groups / sizeof *three_groups };
#define THREE_COMPONENTS                                                                           \
  "data { int N; array[N] real y; }"                                                               \
  "parameters { simplex[3] theta; array[3] real mu; array[3] real<lower=0, upper=10> sigma; }"     \
  "model { array[3] real ps; mu ~ normal(0, 10); for (n in 1:N) { for (k in 1:3)"                  \
  " ps[k] = log(theta[k]) + normal_lpdf(y[n] | mu[k], sigma[k]); target += log_sum_exp(ps); } }"

TEST(three_components) {
  Text t = text_make(&c->arena);
  text_printf(&t, "{\"N\": %d, \"y\": [", THREE_GROUPS);
  for (int i = 0; i < THREE_GROUPS; i++) text_printf(&t, "%s%.17g", i ? ", " : "", three_groups[i]);
  text_printf(&t, "]}");
  for (uint64_t seed = 1; accurate && seed <= 12; seed++) {
    FitOptions vi = options_of(SCORE_elbo, FAMILY_meanfield, 1),
               log = options_of(SCORE_log, FAMILY_meanfield, 0.01);
    vi.seed = log.seed = seed;
    double elbo = fit_of(c, THREE_COMPONENTS, t.s, &vi)->value.value,
           objective = fit_of(c, THREE_COMPONENTS, t.s, &log)->value.value;
    assert_true(fabs(elbo + 152.46) < 1);      /* others are below -162, */
    assert_true(fabs(objective + 135.52) < 1); /* and below -150 */
  }
}

/* Counts that vary from place to place, smoothly and not, as an areal model has it: either part may
 * take what there is, and which one it is must not be decided by the draws of VI. */
#define TWO_WAYS                                                                                   \
  "data { int N; array[N] int y; } parameters { real b; real<lower=0> s; real<lower=0, upper=1> "  \
  "r; vector[N] u; vector[N] v; } model { b ~ normal(0, 10); s ~ normal(0, 1); r ~ beta(0.5, "     \
  "0.5); v ~ normal(0, 1); target += -0.5 * dot_self(u[2:N] - u[1:(N - 1)]); sum(u) ~ normal(0, "  \
  "0.001 * N); y ~ poisson_log(b + s * (sqrt(r) * u + sqrt(1 - r) * v)); }"

TEST(other_draws) {
  enum { PLACES = 150, SEEDS = 8 };
  (void)row;
  Text t = text_make(&c->arena);
  RngStream r = rngs_make(1, 0);
  double smooth = 0, value[SEEDS];
  text_printf(&t, "{\"N\": %d, \"y\": [", PLACES);
  for (int i = 0; i < PLACES; i++) {
    smooth += 0.06 * rngs_normal(&r);
    double rate = exp(5 + smooth + 0.8 * rngs_normal(&r));
    text_printf(&t, "%s%.0f", i ? ", " : "", fmax(rate + sqrt(rate) * rngs_normal(&r), 0));
  }
  text_printf(&t, "]}");
  FitOptions o = options_of(SCORE_elbo, FAMILY_meanfield, 1);
  for (int k = 0; accurate && k < SEEDS; k++) {
    o.seed = (uint64_t)k + 1;
    const Fit *f = fit_of(c, TWO_WAYS, t.s, &o);
    value[k] = f->value.value;
    if (!f->converged || fabs(value[k] - value[0]) > 0.5)
      fail_msg("seed %d: %g, with seed 1 %g: %s", k + 1, value[k], value[0], f->reason);
  }
}

/* A mean and a logarithm of the noise that both wind about have many optima under the log score.
 * Which one a fit comes to must not be left to its draws, or it has to be said. */
#define WINDING                                                                                    \
  "data { int N; int K; matrix[N, K] B; vector[N] y; } parameters { vector[K] a; vector[K] b; "    \
  "real<lower=0> s; real<lower=0> t; } model { s ~ student_t(3, 0, 2); t ~ student_t(3, 0, 2); "   \
  "a ~ normal(0, 1); b ~ normal(0, 1); y ~ normal(B * (a * s), exp(B * (b * t))); }"

static const char *winding_data(Ctx *c) {
  enum { N = 50, K = 16 };
  Text basis = text_make(&c->arena), y = text_make(&c->arena);
  RngStream r = rngs_make(8, 0);
  for (int i = 0; i < N; i++) {
    double x = i / (N - 1.0);
    text_printf(&basis, "%s[", i ? ", " : "");
    for (int k = 0; k < K; k++)
      text_printf(&basis, "%s%.6f", k ? ", " : "", fmax(0, 1 - fabs(x * (K - 1) - k)));
    text_printf(&basis, "]");
    text_printf(&y, "%s%.2f", i ? ", " : "", 3 * sin(6 * x) + exp(3 * x - 2) * rngs_normal(&r));
  }
  return arena_format(&c->arena, "{\"N\": %d, \"K\": %d, \"B\": [%s], \"y\": [%s]}", N, K, basis.s,
                      y.s);
}

static bool says_there_are_more(const Fit *f) {
  for (size_t k = 0; k < f->nnotes; k++)
    if (strstr(f->notes[k], "more than one optimum")) return true;
  return false;
}

TEST(other_optima) {
  enum { SEEDS = 6 };
  (void)row;
  FitOptions o = options_of(SCORE_log, FAMILY_meanfield, 0.01);
  const char *data = winding_data(c);
  double first = NAN;
  o.target.integrate = INTEGRATE_DRAWS;
  for (o.seed = 1; accurate && o.seed <= SEEDS; o.seed++) {
    const Fit *f = fit_of(c, WINDING, data, &o);
    if (!f->converged || says_there_are_more(f)) continue;
    if (isnan(first)) first = f->value.value;
    if (fabs(f->value.value - first) > 0.35) /* 0.05 sqrt(n) */
      fail_msg("seed %d: %g, others: %g", (int)o.seed, f->value.value, first);
  }
}

static bool same_value(const Fit *a, const Fit *b) {
  return fabs(a->value.value - b->value.value) < 1e-6 * (1 + fabs(a->value.value));
}

/* A fit that is told what VI found comes to the same optimum, for less. */
TEST(known_vi) {
  Line l = line_of(row);
  const char *data = line_data(c, &l);
  FitOptions vi = options_of(SCORE_elbo, FAMILY_fullrank, 1),
             log = options_of(SCORE_log, FAMILY_fullrank, 0.01);
  const Fit *bayes = fit_of(c, LINE, data, &vi), *alone = fit_of(c, LINE, data, &log);
  log.vi = bayes->vi;
  log.vi.phi = bayes->phi;
  const Fit *told = fit_of(c, LINE, data, &log);
  if (!accurate) return;
  assert_non_null(bayes->vi.mean);
  assert_true(same_value(told, alone) && told->evaluations < alone->evaluations);
}

/* No start is tried twice: where VI's own width is the best one, it is a start already. */
TEST(starts_are_several) {
  Line l = line_of(&units[0]);
  static const double lambdas[] = {0.01, 0.1, 1};
  (void)row;
  for (int k = 0; k < 3; k++) {
    FitOptions o = options_of(SCORE_log, FAMILY_meanfield, lambdas[k]);
    const Fit *f = fit_of(c, LINE, line_data(c, &l), &o);
    assert_true(f->nstarts >= 2);
    for (size_t i = 0; i < f->nstarts; i++)
      for (size_t j = 0; j < i; j++)
        if (f->starts[i].objective == f->starts[j].objective)
          fail_msg("%s, and %s", f->starts[i].name, f->starts[j].name);
  }
}

/* A guess is where a fit begins only if that is better: a good one saves the way, a wild one or one
 * that is no q at all changes nothing. */
TEST(guesses) {
  Line l = line_of(row);
  const char *data = line_data(c, &l);
  FitOptions vi = options_of(SCORE_elbo, FAMILY_fullrank, 1),
             log = options_of(SCORE_log, FAMILY_fullrank, 0.01);
  const Fit *bayes = fit_of(c, LINE, data, &vi);
  size_t size = q_size(&bayes->q);
  log.start = the_start;
  log.start_self = bayes->phi;
  log.warm = true;
  const Fit *plain = fit_of(c, LINE, data, &log);
  if (!accurate) return;
  log.guess = plain->phi;
  const Fit *good = fit_of(c, LINE, data, &log);
  assert_true(same_value(good, plain) && good->evaluations < plain->evaluations);
  for (int k = 0; k < 2; k++) {
    double *bad = NEW_ARRAY(&c->arena, double, size);
    for (size_t i = 0; i < size; i++) bad[i] = k ? NAN : bayes->phi[i] + 50;
    log.guess = bad;
    const Fit *f = fit_of(c, LINE, data, &log);
    assert_memory_equal(f->phi, plain->phi, size * sizeof *f->phi);
  }
}

/* Mixtures find groups of observations: with components at -2 and 3 the log score is that of the
 * mixture they come from, up to what its weights and places are uncertain by. */
TEST(mixture_of_two) {
  enum { N = 300 };
  Text t = text_make(&c->arena);
  RngStream r = rngs_make(3, 0);
  double truth = 0;
  text_printf(&t, "{\"y\": [");
  for (int i = 0; i < N; i++) {
    double y = (i % 3 ? -2 : 3) + rngs_normal(&r);
    truth += log((2 * exp(-0.5 * (y + 2) * (y + 2)) + exp(-0.5 * (y - 3) * (y - 3))) / 3) -
             0.5 * log(2 * M_PI);
    text_printf(&t, "%s%.17g", i ? ", " : "", y);
  }
  text_printf(&t, "]}");
  FitOptions o = options_of(SCORE_log, FAMILY_mixture, 0);
  const Fit *f =
      fit_of(c,
             "data { vector[300] y; } parameters { real m; } model { m ~ normal(0, 10); y "
             "~ normal(m, 1); }",
             t.s, &o);
  if (accurate) assert_true(f->converged && f->value.value > truth - 0.1);
}

/* Two overlapping components: VI comes to q in which both are the same, from most starts, and to
 * one in which they are apart, which is better by a few nats, though hardly denser. */
TEST(components_stay_apart) {
  enum { N = 1000, SEEDS = 6 };
  Text t = text_make(&c->arena);
  RngStream r = rngs_make(8, 0);
  double value[SEEDS];
  text_printf(&t, "{\"y\": [");
  for (int i = 0; i < N; i++) {
    double z = rngs_normal(&r), y = i % 5 < 2 ? -0.9 + 0.9 * z : 0.4 + 1.1 * z;
    text_printf(&t, "%s%.17g", i ? ", " : "", y);
  }
  text_printf(&t, "]}");
  FitOptions o = options_of(SCORE_elbo, FAMILY_meanfield, 1);
  for (int k = 0; k < SEEDS; k++) {
    o.seed = (uint64_t)k + 1;
    const Fit *f = fit_of(
        c,
        "data { vector[1000] y; } parameters { array[2] real m; vector<lower=0>[2] s; "
        "real<lower=0, upper=1> p; } model { m ~ normal(0, 2); s ~ normal(0, 2); p ~ beta(5, "
        "5); for (n in 1:1000) target += log_mix(p, normal_lpdf(y[n] | m[1], s[1]), "
        "normal_lpdf(y[n] | m[2], s[2])); }",
        t.s, &o);
    value[k] = f->value.value;
    if (accurate && (!f->converged || fabs(value[k] - value[0]) > 0.5))
      fail_msg("seed %d: %g, with seed 1 %g: %s", k + 1, value[k], value[0], f->reason);
  }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* The objective is a function of q: it does not matter which q was evaluated before. */
TEST(nodes_forget) {
  Model *m =
      model_of(c,
               "data { int N; array[N] int n; array[N] int y; vector[N] x; }"
               "parameters { real a; real b; } model { a ~ normal(0, 9); b ~ normal(0, 9);"
               "y ~ binomial_logit(n, a + b * x); }",
               "{\"N\": 3, \"n\": [40000, 300, 90000], \"y\": [39000, 290, 5], \"x\": [-1, 0.5, "
               "2]}");
  Target t = {
      .score = SCORE_log, .regularizer = REG_PRIOR, .lambda = 0.1, .score_weight = 1, .nodes = 32};
  Q q = q_make(&c->arena, FAMILY_meanfield, (Shape){0}, m->dim, NULL);
  Observed *o = observed_make(&c->arena, m, NULL, 0, WANT_LL);
  observed_reduce(o);
  Predictive *p = predictive_make(&c->arena, o, &t, &q, (NoiseSet){0, 5}, NULL);
  double phis[][4] = {{0, 0, -7, -7}, {1, -2, 0.5, 1}, {-9, 4, -5, -6}, {3, -5, 1, 0.3}};
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 4; k++) {
      Predictive *fresh = predictive_make(&c->arena, o, &t, &q, (NoiseSet){0, 5}, NULL);
      value_at(p, phis[i]);
      double now = value_at(p, phis[k]), want = value_at(fresh, phis[k]);
      if (!(fabs(now - want) <= 1e-6 * fabs(want)))
        fail_msg("q %d after q %d: %.10g, at first %.10g", k, i, now, want);
    }
}

/* ---- probabilities near 0 and 1 -------------------------------------------------------------- */

/* One expression, and the same in logarithms; y is 0 and 1, t the one parameter. */
typedef struct {
  const char *name, *program, *twin;
} TailRow;

static const TailRow tails[] = {
    {"bernoulli(Phi)", "y ~ bernoulli(Phi(t));",
     "target += std_normal_lcdf(t); target += std_normal_lcdf(-t);"},
    {"bernoulli(inv_logit)", "y ~ bernoulli(inv_logit(t));",
     "target += log_inv_logit(t) + log1m_inv_logit(t);"},
    {"bernoulli(inv_cloglog)", "y ~ bernoulli(inv_cloglog(t));",
     "target += log1m_exp(-exp(t)); target += -exp(t);"},
    {"bernoulli(1 - Phi)", "y ~ bernoulli(1 - Phi(t));",
     "target += std_normal_lcdf(t); target += std_normal_lcdf(-t);"},
    {"binomial(Phi)", "y ~ binomial(n, Phi(t));",
     "target += 8 * std_normal_lcdf(-t) + std_normal_lcdf(t) + log(5);"},
    {"binomial(inv_cloglog)", "y ~ binomial(n, inv_cloglog(t));",
     "target += -8 * exp(t) + log1m_exp(-exp(t)) + log(5);"},
    {"binomial(2 Phi - 1)", "y ~ binomial(n, 2 * Phi(abs(t)) - 1);",
     "target += 8 * (log(2) + std_normal_lcdf(-abs(t))) + log(2 * Phi(abs(t)) - 1) + log(5);"},
    {"log and log1m", "target += log(Phi(t)) + log1m(Phi(t)) + log(1 - Phi(t));",
     "target += std_normal_lcdf(t) + 2 * std_normal_lcdf(-t);"},
};

TEST(tails_of_links) {
  const TailRow *w = row;
  static const double at[] = {-5, -1.3, -0.2, 0.1, 0.9, 2, 5};
  static const char frame[] =
      "data { array[2] int n; array[2] int y; } parameters { real t; } model "
      "{ %s }";
  const char *data = "{\"n\": [4, 5], \"y\": [0, 1]}";
  const Model *m = model_of(c, arena_format(&c->arena, frame, w->program), data),
              *twin = model_of(c, arena_format(&c->arena, frame, w->twin), data);
  for (size_t k = 0; k < sizeof at / sizeof *at; k++)
    for (double far = 1; far <= 6; far += 5) {
      double t = at[k] * (strstr(w->name, "cloglog") && at[k] > 0 ? 1 : far);
      DensityAt a = density(c, m, &t), b = density(c, twin, &t);
      if (!isfinite(a.lp) || !isfinite(a.grad[0])) fail_msg("not finite at %g", t);
      assert_close(a.lp, b.lp, 1e-10);
      assert_close(a.grad[0], b.grad[0], 1e-8);
    }
}

/* ---- stochastic optimizers ------------------------------------------------------------------- */

/* They are judged by fresh noise: a rate at which nothing is gained is not convergence, and what is
 * handed back is no worse than the start. */
TEST(stochastic_verdicts) {
  Model *m = model_of_files(c, "examples/golf/logistic.stan", "examples/golf/golf.csv");
  const Split *all = split_all(c, m->n_obs);
  FitOptions o = options_of(SCORE_elbo, FAMILY_meanfield, 1);
  o.optimizer = OPTIM_SGD;
  o.iterations = 400;
  o.learning_rate = 100;
  const Fit *wild = fit_run(c, m, all, &o, NULL);
  o.optimizer = OPTIM_ADAM;
  o.learning_rate = 0.002;
  const Fit *good = fit_run(c, m, all, &o, NULL);
  if (!accurate) return;
  assert_false(wild->converged);
  assert_true(good->converged);
  assert_true(fabs(wild->value.value - good->value.value) < 1);
}

int main(void) {
  static Suite s;
  for (size_t k = 0; k < sizeof units / sizeof *units; k++)
    suite_add(&s, units[k].name, any_units, &units[k]);
  suite_add(&s, "known VI", known_vi, &units[0]);
  suite_add(&s, "known VI, dollars", known_vi, &units[3]);
  suite_add(&s, "guesses", guesses, &units[0]);
  for (size_t k = 0; k < sizeof bounds / sizeof *bounds; k++)
    suite_add(&s, bounds[k].name, bounded_or_not, &bounds[k]);
  SUITE_ADD(&s, edge_is_named);
  SUITE_ADD(&s, better_mode);
  SUITE_ADD(&s, random_points);
  SUITE_ADD(&s, nowhere_finite);
  SUITE_ADD(&s, no_start_for_an_edge);
  SUITE_ADD(&s, given_point);
  SUITE_ADD(&s, given_start_is_kept);
  SUITE_ADD(&s, starts_are_several);
  SUITE_ADD(&s, three_components);
  SUITE_ADD(&s, other_draws);
  SUITE_ADD(&s, other_optima);
  SUITE_ADD(&s, mixture_of_two);
  SUITE_ADD(&s, components_stay_apart);
  SUITE_ADD(&s, nodes_forget);
  for (size_t k = 0; k < sizeof tails / sizeof *tails; k++)
    suite_add(&s, tails[k].name, tails_of_links, &tails[k]);
  SUITE_ADD(&s, stochastic_verdicts);
  return suite_run("starts", &s);
}
