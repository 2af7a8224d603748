/* test_score.c: laws of the scores.
 *
 *   derivatives   every score, for every kind of outcome it allows, against differences; with and
 *                 without weights
 *   properness    the expected score under a known truth is largest at the truth; the same test
 *                 finds the released code's
 *                 quadratic score improper
 *   closed forms  CRPS of every kind, energy of points
 *   invariance    permuting lanes, splitting a lane, moving everything
 *   estimators    simulated scores agree with exact ones; gradients said to be unbiased are
 *
 * A Rig is one ScoreCase with memory for it; rows (score, kind) come from scores.def and kinds.def,
 * so a new score or kind is
 * tested by existing.
 */
#include "testing.h"

#include "num/rng.h"
#include "num/special.h"
#include "num/stats.h"
#include "score/spread.h"

#include <stdio.h>

#define PI 3.14159265358979323846

/* ---- rigs ------------------------------------------------------------------------------------ */

/* Where tests draw the parameters and the outcome of each kind. */
static const struct {
  double lo[KIND_PARAMETERS], hi[KIND_PARAMETERS], ylo, yhi;
  size_t size;
} domains[KIND_COUNT] = {
    [KIND_NORMAL] = {{-1, 0.5}, {1, 2}, -2, 3, 0},
    [KIND_STUDENT_T] = {{2.5, -1, 0.5}, {9, 1, 2}, -2, 3, 0},
    [KIND_LOGNORMAL] = {{-0.5, 0.3}, {0.5, 0.8}, 0.2, 4, 0},
    [KIND_CAUCHY] = {{-1, 0.5}, {1, 2}, -2, 3, 0},
    [KIND_LOGISTIC] = {{-1, 0.5}, {1, 2}, -2, 3, 0},
    [KIND_DOUBLE_EXPONENTIAL] = {{-1, 0.5}, {1, 2}, -2, 3, 0},
    [KIND_GAMMA] = {{0.6, 0.5}, {4, 2}, 0.1, 5, 0},
    [KIND_EXPONENTIAL] = {{0.4}, {2}, 0.1, 4, 0},
    [KIND_BETA] = {{0.6, 0.7}, {4, 5}, 0.05, 0.95, 0},
    [KIND_BERNOULLI] = {{0.1}, {0.9}, 0, 1, 0},
    [KIND_BINOMIAL] = {{0.1}, {0.9}, 0, 12, 12},
    [KIND_POISSON] = {{0.5}, {9}, 0, 15, 0},
    [KIND_NEG_BINOMIAL_2] = {{0.5, 0.7}, {9, 5}, 0, 15, 0},
    [KIND_CATEGORICAL] = {{0.1}, {1}, 1, 4, 4},
};

static const char *const kind_names[KIND_COUNT] = {
#define KIND(ID, dist, parameters, discrete) [KIND_##ID] = #dist,
#include "score/kinds.def"
#undef KIND
};

#define CANARY 1234.5

typedef struct {
  ScoreCase c;
  ScoreAdjoint adj;
  double *par[KIND_PARAMETERS], *weights, *sim, *ll; /* the case's, writable */
  size_t rows;                                       /* of par[0] */
} Rig;

static double *row(Ctx *c, size_t n) { /* nan in the padding, which nothing may depend on */
  double *x = NEW_ARRAY(&c->arena, double, score_padded(n));
  for (size_t j = n; j < score_padded(n); j++) x[j] = (double)NAN;
  return x;
}

/* M lanes of a kind, parameters and weights not set. */
static Rig rig_make(Ctx *c, Kind kind, size_t M, size_t size) {
  size_t ld = score_padded(M), scratch = score_scratch(M, 0, true);
  Rig r = {.c = {.q = {.kind = kind, .M = M, .ld = ld, .size = size}, .k = kernels_best()}};
  r.rows = kind == KIND_CATEGORICAL ? size : 1;
  for (int k = 0; k < kind_parameters(kind); k++) {
    r.c.q.par[k] = r.par[k] = k ? row(c, M) : NEW_ARRAY(&c->arena, double, r.rows *ld);
    for (size_t i = 0; i < r.rows * ld; i++)
      if (i % ld >= M) r.par[k][i] = (double)NAN;
    r.adj.par[k] = NEW_ARRAY(&c->arena, double, r.rows *ld);
  }
  r.weights = row(c, M);
  r.c.ll = r.ll = row(c, M);
  r.adj.weights = NEW_ARRAY(&c->arena, double, ld);
  r.c.scratch = NEW_ARRAY(&c->arena, double, scratch + 1);
  r.c.scratch[scratch] = CANARY;
  return r;
}

static void rig_sims(Ctx *c, Rig *r, size_t nsim, size_t dim) {
  size_t scratch = score_scratch(r->c.q.M, nsim, true);
  r->c.nsim = nsim;
  r->c.dim = dim;
  r->c.sim = r->sim = NEW_ARRAY(&c->arena, double, nsim *dim);
  r->adj.sim = NEW_ARRAY(&c->arena, double, nsim *dim);
  r->c.scratch = NEW_ARRAY(&c->arena, double, scratch + 1);
  r->c.scratch[scratch] = CANARY;
}

static void use_weights(Rig *r, bool yes) { r->c.q.weights = yes ? r->weights : NULL; }

static double random_outcome(Kind kind, uint64_t *seed) {
  double y = uniform(seed, domains[kind].ylo, domains[kind].yhi);
  return kind_discrete(kind) ? floor(y + 0.5) : y;
}

static Rig rig_random(Ctx *c, Kind kind, size_t M, uint64_t *seed) {
  Rig r = rig_make(c, kind, M, domains[kind].size);
  double all = 0;
  for (int k = 0; k < kind_parameters(kind); k++)
    for (size_t i = 0; i < (k ? 1 : r.rows); i++)
      for (size_t j = 0; j < M; j++)
        r.par[k][i * r.c.q.ld + j] = uniform(seed, domains[kind].lo[k], domains[kind].hi[k]);
  for (size_t j = 0; kind == KIND_CATEGORICAL && j < M; j++) { /* probabilities */
    double sum = 0;
    for (size_t i = 0; i < r.rows; i++) sum += r.par[0][i * r.c.q.ld + j];
    for (size_t i = 0; i < r.rows; i++) r.par[0][i * r.c.q.ld + j] /= sum;
  }
  for (size_t j = 0; j < M; j++) all += r.weights[j] = uniform(seed, 0.2, 1);
  for (size_t j = 0; j < M; j++) r.weights[j] /= all;
  r.c.y = random_outcome(kind, seed);
  return r;
}

/* Density or probability of lane j at y: a mixture of it alone. */
static double lane_density(const Mixture *q, size_t j, double y) {
  double par[KIND_PARAMETERS], p;
  mixture_lane(q, j, par);
  if (!kind_discrete(q->kind)) return kind_code(q->kind)->pdf(par, y);
  ScoreCase one = {.q = *q, .k = kernels_best()};
  one.q.M = 1;
  one.q.weights = NULL;
  for (int k = 0; k < KIND_PARAMETERS; k++) one.q.par[k] = q->par[k] ? q->par[k] + j : NULL;
  mixture_pmf(&one, y, 1, &p);
  return p;
}

static void fill_ll(Rig *r) {
  for (size_t j = 0; j < r->c.q.M; j++) r->ll[j] = log(lane_density(&r->c.q, j, r->c.y));
}

static double value(const Rig *r, ScoreId id) { return score_of(id)(&r->c, &(ScoreAdjoint){0}); }

/* ---- rows: a score and a kind ---------------------------------------------------------------- */

typedef struct {
  ScoreId score;
  Kind kind;
  char name[64];
} Row;

typedef struct {
  Row rows[SCORE_COUNT * KIND_COUNT];
  size_t n;
} Rows;

static void rows_add(Rows *rows, Suite *s, const char *law, CMUnitTestFunction f, ScoreId score,
                     Kind kind) {
  Row *r = &rows->rows[rows->n++];
  *r = (Row){score, kind, ""};
  snprintf(r->name, sizeof r->name, "%s: %s, %s", law, score_name(score), kind_names[kind]);
  suite_add(s, r->name, f, r);
}

/* ---- derivatives ----------------------------------------------------------------------------- */

/* dS/dx against differences; x is a number of about this size the case reads, partner moves against
 * it (or is NULL). */
static void check_slope(const Rig *r, ScoreId id, double *x, double size, double *partner,
                        double got, const char *what) {
  bool kinks = score_needs(id) & BY_QUANTILE; /* where a quantile meets y */
  double h = (kinks ? 1e-5 : 1e-3) * size, f[4], x0 = *x, p0 = partner ? *partner : 0;
  for (int k = 0; k < 4; k++) {
    double by = h * (k < 2 ? k - 2 : k - 1);
    *x = x0 + by;
    if (partner) *partner = p0 - by;
    f[k] = value(r, id);
  }
  *x = x0;
  if (partner) *partner = p0;
  double want = difference(f, h);
  if (!(distance(got, want) <= 1e-6))
    fail_msg("%s, %s, y = %g: d/d %s = %.12g, differences give %.12g", score_name(id),
             kind_names[r->c.q.kind], r->c.y, what, got, want);
}

static void check_padding(const Rig *r, const double *x) {
  for (size_t j = r->c.q.M; j < r->c.q.ld; j++) assert_true(x[j] == 0);
}

static void check_derivatives(Rig *r, ScoreId id) {
  size_t M = r->c.q.M, ld = r->c.q.ld;
  double v = score_of(id)(&r->c, &r->adj);
  assert_true(isfinite(v));
  assert_true(v == value(r, id));
  for (int k = 0; k < kind_parameters(r->c.q.kind); k++)
    for (size_t i = 0; i < (k ? 1 : r->rows); i++) {
      for (size_t j = 0; j < M; j++) {
        double *x = &r->par[k][i * ld + j],
               size = domains[r->c.q.kind].lo[k] < 0 ? 0.5 * r->par[k + 1][j] : *x;
        check_slope(r, id, x, size, NULL, r->adj.par[k][i * ld + j], "parameter");
      }
      check_padding(r, r->adj.par[k] + i * ld);
    }
  check_padding(r, r->adj.weights);
  for (size_t j = 0; r->c.q.weights && j + 1 < M; j++)
    check_slope(r, id, &r->weights[j], 0.1, &r->weights[j + 1],
                r->adj.weights[j] - r->adj.weights[j + 1], "weights");
}

TEST(derivatives) {
  const Row *t = row;
  uint64_t seed = 100 * (uint64_t)t->score + (uint64_t)t->kind;
  for (int k = 0; k < 12; k++) {
    Rig r = rig_random(c, t->kind, (size_t[]){1, 3, 9}[k % 3], &seed);
    use_weights(&r, k % 2);
    check_derivatives(&r, t->score);
  }
}

/* The interval score with rounded hinges, which optimizers use on their way, tends to the score. */
TEST(interval_rounded) {
  uint64_t seed = 4;
  for (int k = 0; k < 6; k++) {
    Rig r = rig_random(c, KIND_NORMAL, 5, &seed);
    double sharp = value(&r, SCORE_interval);
    r.c.o.smooth = 0.2;
    check_derivatives(&r, SCORE_interval);
    r.c.o.smooth = 1e-4;
    assert_close(value(&r, SCORE_interval), sharp, 1e-3);
  }
}

/* Scores of simulated outcomes and of log densities. */
TEST(derivatives_sim) {
  uint64_t seed = 5;
  for (ScoreId id = 0; id < SCORE_COUNT; id++) {
    bool vector = score_needs(id) & NEEDS_VECTOR_SIM;
    if (!(score_needs(id) & (NEEDS_SIM | NEEDS_VECTOR_SIM))) continue;
    for (int halves = 0; halves < 2; halves++) {
      double y[3];
      Rig r = rig_make(c, KIND_NONE, 0, 0);
      rig_sims(c, &r, 12, vector ? 3 : 1);
      for (size_t k = 0; k < r.c.nsim * r.c.dim; k++) r.sim[k] = uniform(&seed, -2, 2);
      for (int k = 0; k < 3; k++) y[k] = uniform(&seed, -1, 1);
      r.c.y = y[0];
      r.c.yvec = y;
      r.c.o = (ScoreOptions){.alpha = 0.3, .bandwidth = 0.8, .halves = halves};
      assert_true(isfinite(score_of(id)(&r.c, &r.adj)));
      for (size_t k = 0; k < r.c.nsim * r.c.dim; k++)
        check_slope(&r, id, &r.sim[k], 0.3, NULL, r.adj.sim[k], "outcome");
    }
  }
}

TEST(derivatives_ll) {
  uint64_t seed = 6;
  const ScoreId ids[] = {SCORE_log, SCORE_elbo};
  for (int k = 0; k < 4; k++) {
    Rig r = rig_random(c, KIND_NORMAL, 9, &seed);
    ScoreAdjoint adj = {.ll = NEW_ARRAY(&c->arena, double, 16), .weights = r.adj.weights};
    use_weights(&r, k / 2);
    fill_ll(&r);
    score_of(ids[k % 2])(&r.c, &adj);
    for (size_t j = 0; j < 9; j++)
      check_slope(&r, ids[k % 2], &r.ll[j], 1, NULL, adj.ll[j], "log density");
    for (size_t j = 0; k / 2 && j < 8; j++)
      check_slope(&r, ids[k % 2], &r.weights[j], 0.1, &r.weights[j + 1],
                  adj.weights[j] - adj.weights[j + 1], "weights");
  }
}

/* A lane whose density is infinite or nan has none: nobody gains by it. */
TEST(lanes_without_density) {
  uint64_t seed = 11;
  const double bad[] = {(double)INFINITY, (double)NAN, -(double)INFINITY};
  for (int k = 0; k < 6; k++)
    for (size_t at = 0; at < 9; at += 8) {
      Rig r = rig_random(c, KIND_NORMAL, 9, &seed);
      ScoreAdjoint adj = {.ll = NEW_ARRAY(&c->arena, double, 16), .weights = r.adj.weights};
      use_weights(&r, k / 3);
      fill_ll(&r);
      double sum = 0, w = 1.0 / 9;
      for (size_t j = 0; j < 9; j++)
        if (j != at) sum += (k / 3 ? r.weights[j] : w) * exp(r.ll[j]);
      r.ll[at] = bad[k % 3];
      assert_close(score_log(&r.c, &adj), log(sum), 1e-13);
      assert_true(adj.ll[at] == 0 && isfinite(adj.ll[1]));
    }
}

/* ---- properness ------------------------------------------------------------------------------ */

/* The truth as outcomes with probabilities: exact for discrete kinds, its quantiles at 200
 * midpoints for continuous ones. */
typedef struct {
  double *y, *p;
  size_t n;
} Truth;

static Truth truth_of(Ctx *c, const Rig *r) {
  double lo, hi;
  Truth t = {.n = 200};
  mixture_prepare(&r->c);
  bool discrete = kind_discrete(r->c.q.kind);
  if (discrete) {
    mixture_support(&r->c, &lo, &hi);
    t.n = (size_t)(hi - lo) + 1;
  }
  t.y = NEW_ARRAY(&c->arena, double, t.n);
  t.p = NEW_ARRAY(&c->arena, double, t.n);
  for (size_t k = 0; k < t.n; k++) {
    t.p[k] = 1 / (double)t.n;
    t.y[k] =
        discrete ? lo + (double)k : mixture_quantile(&r->c, ((double)k + 0.5) / (double)t.n, NULL);
    if (discrete) mixture_pmf(&r->c, t.y[k], 1, &t.p[k]);
  }
  return t;
}

static double expected(Rig *forecast, ScoreFunction *score, bool needs_ll, const Truth *t) {
  double sum = 0;
  for (size_t k = 0; k < t->n; k++) {
    forecast->c.y = t->y[k];
    if (needs_ll) fill_ll(forecast);
    if (t->p[k] > 1e-14) sum += t->p[k] * score(&forecast->c, &(ScoreAdjoint){0});
  }
  return sum;
}

/* The truth with one parameter of its lanes moved; or (by lane) with the weights moved. */
static void move(Rig *r, int k, double by) {
  Kind kind = r->c.q.kind;
  size_t M = r->c.q.M, ld = r->c.q.ld;
  bool location = domains[kind].lo[k] < 0;
  for (size_t j = 0; j < M; j++) {
    if (kind == KIND_CATEGORICAL) {
      double d = 0.2 * by * r->par[0][j];
      r->par[0][j] -= d;
      r->par[0][ld + j] += d;
    } else if (location) {
      r->par[k][j] += by;
    } else {
      r->par[k][j] *= kind == KIND_BERNOULLI || kind == KIND_BINOMIAL
                          ? (by > 0 ? 1 + 0.2 * by : 1 / (1 - by))
                          : exp(by);
    }
  }
}

/* How much better than the truth the best wrong forecast is expected to score, and how much worse
 * the best strict one. */
static double regret(Ctx *c, Kind kind, ScoreFunction *score, bool needs_ll, uint64_t seed) {
  double worst = (double)-INFINITY;
  uint64_t start = seed;
  Rig truth = rig_random(c, kind, 2, &seed);
  use_weights(&truth, true);
  Truth t = truth_of(c, &truth);
  double best = expected(&truth, score, needs_ll, &t);
  for (int k = 0; k < kind_parameters(kind); k++)
    for (int by = 0; by < 4; by++) {
      uint64_t again = start;
      Rig wrong = rig_random(c, kind, 2, &again);
      use_weights(&wrong, true);
      move(&wrong, k, (double[]){-0.6, -0.25, 0.25, 0.6}[by]);
      worst = fmax(worst, expected(&wrong, score, needs_ll, &t) - best);
    }
  for (int by = 0; by < 2; by++) { /* all the mass on one lane */
    uint64_t again = start;
    Rig wrong = rig_random(c, kind, 2, &again);
    use_weights(&wrong, true);
    wrong.weights[by] = 0.95;
    wrong.weights[1 - by] = 0.05;
    worst = fmax(worst, expected(&wrong, score, needs_ll, &t) - best);
  }
  return worst;
}

/* Discrete truths are exact; the continuous ones are 200 points, whose own best forecast is theirs
 * and not the truth's. */
TEST(properness) {
  const Row *t = row;
  for (uint64_t seed = 1; seed <= (kind_discrete(t->kind) ? 5 : 2); seed++) {
    double worst = regret(c, t->kind, score_of(t->score), score_needs(t->score) & NEEDS_LL, seed);
    double allowed = kind_discrete(t->kind) ? 1e-12 : 3e-4;
    if (!(worst <= allowed)) fail_msg("a wrong forecast scores better by %g", worst);
    bool strict = t->score == SCORE_log || t->score == SCORE_crps || t->score == SCORE_quadratic;
    if (strict && kind_discrete(t->kind)) assert_true(worst < -1e-7);
  }
}

/* What the paper's released code maximises as the quadratic score: f^2 is counted twice. */
static double released_quadratic(const ScoreCase *c, const ScoreAdjoint *adj) {
  (void)adj;
  double f = mixture_mean(c, c->q.par[0]), y = c->y;
  return 2 * (f * y - f * f + (1 - f) * (1 - y)) - (1 - f) * (1 - f);
}

TEST(properness_has_teeth) {
  for (uint64_t seed = 1; seed < 6; seed++)
    assert_true(regret(c, KIND_BERNOULLI, released_quadratic, false, seed) > 1e-3);
}

/* Forecasts as 300 stratified outcomes: location m, scale s. */
static void stratified(Rig *r, double m, double s) {
  for (size_t k = 0; k < r->c.nsim; k++)
    r->sim[k] = m + s * num_inv_Phi(((double)k + 0.5) / (double)r->c.nsim);
}

TEST(properness_sim) {
  const ScoreId ids[] = {SCORE_crps_sim, SCORE_interval_sim, SCORE_energy, SCORE_mmd};
  static const double m[] = {0, 0.3, -0.3, 0, 0}, s[] = {1, 1, 1, 0.75, 1.35};
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
    double best = 0;
    Rig r = rig_make(c, KIND_NONE, 0, 0);
    rig_sims(c, &r, 300, 1);
    r.c.yvec = &r.c.y;
    for (int k = 0; k < 5; k++) {
      double sum = 0;
      stratified(&r, m[k], s[k]);
      for (int j = 0; j < 300; j++) {
        r.c.y = num_inv_Phi((j + 0.5) / 300);
        sum += value(&r, ids[i]) / 300;
      }
      if (k == 0) best = sum;
      if (k > 0 && !(sum < best - 1e-3))
        fail_msg("%s: %g at the truth, %g at (%g, %g)", score_name(ids[i]), best, sum, m[k], s[k]);
    }
  }
}

/* ---- closed forms ---------------------------------------------------------------------------- */

/* CRPS of one lane (Jordan, Krueger and Lerch 2019, appendix). */
static double crps_closed(Kind kind, const double *p, double y) {
  const KindCode *F = kind_code(kind);
  double a = p[0], b = p[1], z = (y - a) / b, nu = p[0];
  switch (kind) {
  case KIND_NORMAL:
    return b * (z * (2 * num_Phi(z) - 1) + 2 * exp(-0.5 * z * z) / sqrt(2 * PI) - 1 / sqrt(PI));
  case KIND_STUDENT_T:
    z = (y - p[1]) / p[2];
    return p[2] *
           (z * (2 * F->cdf(p, y) - 1) + 2 * p[2] * F->pdf(p, y) * (nu + z * z) / (nu - 1) -
            2 * sqrt(nu) / (nu - 1) * exp(num_lbeta(0.5, nu - 0.5) - 2 * num_lbeta(0.5, 0.5 * nu)));
  case KIND_LOGNORMAL:
    z = (log(y) - a) / b;
    return y * (2 * num_Phi(z) - 1) -
           2 * exp(a + 0.5 * b * b) * (num_Phi(z - b) + num_Phi(b / sqrt(2)) - 1);
  case KIND_LOGISTIC: return b * (z - 2 * num_log_inv_logit(z) - 1);
  case KIND_DOUBLE_EXPONENTIAL: return b * (fabs(z) + exp(-fabs(z)) - 0.75);
  case KIND_GAMMA:
    return y * (2 * F->cdf(p, y) - 1) - a / b * (2 * num_gamma_p(a + 1, b * y) - 1) -
           exp(-num_lbeta(0.5, a)) / b;
  case KIND_EXPONENTIAL: return y - 2 / a * F->cdf(p, y) + 0.5 / a;
  case KIND_BETA:
    return y * (2 * F->cdf(p, y) - 1) +
           a / (a + b) *
               (1 - 2 * num_inc_beta(a + 1, b, y) -
                2 / a * exp(num_lbeta(2 * a, 2 * b) - 2 * num_lbeta(a, b)));
  default: return (double)NAN;
  }
}

TEST(crps_of_one_lane) {
  for (Kind k = KIND_NORMAL; k <= KIND_BETA; k++) {
    if (k == KIND_CAUCHY) continue;
    for (uint64_t seed = 1; seed < 40; seed++) {
      Rig r = rig_random(c, k, 1, &seed);
      double par[KIND_PARAMETERS];
      mixture_lane(&r.c.q, 0, par);
      double got = -value(&r, SCORE_crps), want = crps_closed(k, par, r.c.y);
      if (!(fabs(got / want - 1) < 1e-10))
        fail_msg("%s(%g, %g), y = %g: %.15g, closed form %.15g", kind_names[k], par[0], par[1],
                 r.c.y, got, want);
    }
  }
}

/* Far from the middle of the domain. */
TEST(crps_of_hard_lanes) {
  static const struct {
    Kind kind;
    double par[KIND_PARAMETERS], y;
  } cases[] = {
      {KIND_NORMAL, {1e3, 1e-2}, 1e3 + 0.02},
      {KIND_NORMAL, {0, 1e-9}, 2e-9},
      {KIND_STUDENT_T, {1.1, 0.3, 2}, 4},
      {KIND_STUDENT_T, {1.6, 1e4, 2}, 1e4 - 3},
      {KIND_STUDENT_T, {200, 0, 1}, 0.3},
      {KIND_STUDENT_T, {1e5, 0, 1}, -3},
      {KIND_LOGNORMAL, {0, 3}, 2},
      {KIND_LOGNORMAL, {10, 0.01}, 22000},
      {KIND_GAMMA, {0.05, 1}, 1e-4},
      {KIND_GAMMA, {0.3, 100}, 0.2},
      {KIND_GAMMA, {500, 0.01}, 48000},
      {KIND_BETA, {0.1, 0.2}, 0.99},
      {KIND_BETA, {300, 2}, 0.99},
      {KIND_BETA, {4.3, 0.14}, 0.5},
      {KIND_BETA, {2000, 3000}, 0.41},
      {KIND_EXPONENTIAL, {1e-6}, 3e6},
      {KIND_LOGISTIC, {-1e3, 1e-2}, -1e3},
      {KIND_DOUBLE_EXPONENTIAL, {5, 1e3}, -2e3},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Rig r = rig_make(c, cases[i].kind, 1, 0);
    for (int k = 0; k < kind_parameters(cases[i].kind); k++) r.par[k][0] = cases[i].par[k];
    r.c.y = cases[i].y;
    double got = -score_crps(&r.c, &r.adj), want = crps_closed(cases[i].kind, cases[i].par, r.c.y);
    if (!(fabs(got / want - 1) < 1e-9))
      fail_msg("%s: %.15g, closed form %.15g", kind_names[cases[i].kind], got, want);
    check_derivatives(&r, SCORE_crps);
  }
}

/* F - up of a mixture at t, squared */
static double cdf_miss(const Rig *r, double t, int up) {
  double F = -up, par[KIND_PARAMETERS];
  for (size_t j = 0; j < r->c.q.M; j++) {
    mixture_lane(&r->c.q, j, par);
    F += mixture_weight(&r->c.q, j) * kind_code(r->c.q.kind)->cdf(par, t);
  }
  return F * F;
}

/* int (F(t) - 1{y <= t})^2 dt by Simpson's rule on either side of y in v = exp(x - exp(-x)) > 0: t
 * = y +- v, or where the outcome ends (at 0, or at 1), t = y exp(-v). */
static double crps_quadrature(const Rig *r) {
  double sum = 0, lo = -4, hi = 12, y = r->c.y;
  Kind kind = r->c.q.kind;
  size_t n = 60000;
  double h = (hi - lo) / (double)n;
  for (int up = 0; up < 2; up++)
    for (size_t i = 0; i <= n; i++) {
      bool ends = up ? kind == KIND_BETA : domains[kind].ylo > 0;
      double x = lo + h * (double)i, v = exp(x - exp(-x)), room = up ? 1 - y : y,
             far = ends ? -room * expm1(-v) : v;
      double dt = (ends ? room * exp(-v) : 1) * v * (1 + exp(-x));
      sum += (i == 0 || i == n ? 1
              : i % 2          ? 4
                               : 2) *
             h / 3 * cdf_miss(r, up ? y + far : y - far, up) * dt;
    }
  return sum;
}

TEST(crps_of_two_lanes) {
  for (Kind k = KIND_NORMAL; k <= KIND_BETA; k++) {
    if (k == KIND_CAUCHY) continue;
    uint64_t seed = (uint64_t)k;
    Rig r = rig_random(c, k, 2, &seed);
    use_weights(&r, true);
    double got = -value(&r, SCORE_crps), want = crps_quadrature(&r);
    if (!(fabs(got / want - 1) < 1e-10))
      fail_msg("%s: %.15g, quadrature %.15g", kind_names[k], got, want);
  }
}

/* With fewer digits, where nobody wants derivatives: of lanes that are sharp and wide. */
TEST(crps_of_few_digits) {
  for (uint64_t seed = 1; seed < 6; seed++) {
    Rig r = rig_random(c, KIND_STUDENT_T, 40, &seed);
    for (size_t j = 0; j < r.c.q.M; j++) r.par[2][j] *= pow(4, -(double)(j % 3));
    double want = value(&r, SCORE_crps);
    r.c.o.accuracy = 1e-4;
    double got = value(&r, SCORE_crps);
    assert_true(got != want);
    assert_close(got / want, 1, 1e-4);
    assert_true(score_crps(&r.c, &r.adj) == want);
  }
}

/* Normal mixtures with scales that differ by much: pairs and nodes are two ways to the same number.
 */
TEST(spread_two_ways) {
  static const double between[] = {0, 0.1, 1, 5, 0.3, 0.3, 3, 0, 40},
                      scales[] = {0, 0.05, 0.1, 0.1, 0.5, 1, 1, 1.5, 0.2};
  RngStream rng = rngs_make(3, 0);
  for (size_t M = 1; M <= 257; M *= 4)
    for (int k = 0; k < 9; k++) {
      Rig r = rig_make(c, KIND_NORMAL, M, 0), s = rig_make(c, KIND_NORMAL, M, 0);
      for (size_t j = 0; j < M; j++) {
        r.par[0][j] = s.par[0][j] = 1000 + between[k] * rngs_normal(&rng);
        r.par[1][j] = s.par[1][j] = exp(scales[k] * rngs_normal(&rng));
      }
      double a = mixture_spread(&r.c, SPREAD_PAIRS, 1, &r.adj),
             b = mixture_spread(&s.c, SPREAD_NODES_ONLY, 1, &s.adj);
      if (!(fabs(a / b - 1) < 2e-11))
        fail_msg("M %zu, case %d: %.15g by pairs, %.15g by nodes", M, k, a, b);
      for (size_t j = 0; j < M; j++)
        for (int i = 0; i < 2; i++)
          assert_true(fabs(r.adj.par[i][j] - s.adj.par[i][j]) < 1e-8 / (double)M);
    }
}

/* (y - lambda)(2 F(y) - 1) + 2 lambda p(y) - lambda exp(-2 lambda) (I0 + I1)(2 lambda) */
static double crps_poisson(double lambda, double y) {
  double F = num_gamma_q(y + 1, lambda), p = num_gamma_p_dx(y + 1, lambda);
  double bessel = exp(num_log_bessel_i0(2 * lambda) - 2 * lambda) +
                  exp(num_log_bessel_i1(2 * lambda) - 2 * lambda);
  return (y - lambda) * (2 * F - 1) + 2 * lambda * p - lambda * bessel;
}

TEST(crps_of_counts) {
  static const double rates[] = {1e-3, 0.3, 2, 17, 300, 2e4};
  for (int k = 0; k < 6; k++)
    for (int i = -3; i <= 3; i++) {
      Rig r = rig_make(c, KIND_POISSON, 1, 0);
      r.par[0][0] = rates[k];
      r.c.y = fmax(0, floor(rates[k] + 4 * i * sqrt(rates[k])));
      double got = -value(&r, SCORE_crps), want = crps_poisson(rates[k], r.c.y);
      if (!(fabs(got / want - 1) < 1e-10))
        fail_msg("poisson(%g), y = %g: %.15g, closed form %.15g", rates[k], r.c.y, got, want);
    }
  for (double y = 0; y <= 1; y++) {
    Rig r = rig_make(c, KIND_BERNOULLI, 1, 0);
    r.par[0][0] = 0.3;
    r.c.y = y;
    assert_close(value(&r, SCORE_crps), -(0.3 - y) * (0.3 - y), 1e-15);
    assert_close(value(&r, SCORE_quadratic), 2 * (y > 0 ? 0.3 : 0.7) - 0.09 - 0.49, 1e-15);
  }
}

/* Counts by the pmf written out, over a generous range. */
static double count_term(Kind kind, const double *p, double n, double k) {
  if (kind == KIND_BINOMIAL) return exp(num_lchoose(n, k) + k * log(p[0]) + (n - k) * log1p(-p[0]));
  double q = p[0] / (p[0] + p[1]);
  return exp(num_lgamma(k + p[1]) - num_lgamma(p[1]) - num_lgamma(k + 1) + k * log(q) +
             p[1] * log1p(-q));
}

TEST(counts_written_out) {
  for (uint64_t seed = 1; seed < 30; seed++) {
    Kind kind = seed % 2 ? KIND_BINOMIAL : KIND_NEG_BINOMIAL_2;
    Rig r = rig_random(c, kind, 3, &seed);
    use_weights(&r, true);
    double F = 0, crps = 0, squares = 0, py = 0;
    for (double k = 0; k <= (kind == KIND_BINOMIAL ? 12 : 2000); k++) {
      double p = 0, par[KIND_PARAMETERS];
      for (size_t j = 0; j < 3; j++)
        mixture_lane(&r.c.q, j, par), p += r.weights[j] * count_term(kind, par, 12, k);
      F += p;
      crps += (F - (r.c.y <= k)) * (F - (r.c.y <= k));
      squares += p * p;
      if (k == r.c.y) py = p;
    }
    assert_close(value(&r, SCORE_crps), -crps, 1e-12);
    assert_close(value(&r, SCORE_quadratic), 2 * py - squares, 1e-12);
  }
}

/* Wide mixtures, as a wide q makes them: rates from 1 to e^size, by brute force; and whether the
 * derivatives are those of the value. */
static Rig rig_wide(Ctx *c, Kind kind, size_t M, double size, uint64_t *seed) {
  Rig r = rig_make(c, kind, M, kind == KIND_BINOMIAL ? (size_t)exp(size) : 0);
  double all = 0;
  for (size_t j = 0; j < M; j++) {
    double x = uniform(seed, -1, 1), eta = 0.5 * size * (1 + x);
    r.par[0][j] = kind == KIND_BINOMIAL ? num_inv_logit(size * x) : exp(eta);
    if (kind == KIND_NEG_BINOMIAL_2) r.par[1][j] = exp(uniform(seed, -1, 6));
    all += r.weights[j] = exp(-8 * x * x);
  }
  for (size_t j = 0; j < M; j++) r.weights[j] /= all;
  r.c.y = floor(exp(uniform(seed, 0, fmin(size, 20))));
  use_weights(&r, true);
  return r;
}

static void brute_force(const Rig *r, double *crps, double *quadratic) {
  double lo, hi, F = 0, p[PMF_BLOCK];
  *crps = *quadratic = 0;
  mixture_support(&r->c, &lo, &hi);
  for (double k = 0; k <= fmax(hi, r->c.y); k += PMF_BLOCK) {
    mixture_pmf(&r->c, k, PMF_BLOCK, p);
    for (size_t i = 0; i < PMF_BLOCK; i++) {
      double at = k + (double)i, e = (F += p[i]) - (r->c.y <= at);
      *crps -= e * e;
      *quadratic += p[i] * (2 * (at == r->c.y) - p[i]);
    }
  }
}

/* Steps are small beside the standard deviation of a lane. */
static void check_wide_slopes(Rig *r, ScoreId id) {
  double v = score_of(id)(&r->c, &r->adj);
  assert_true(v == value(r, id));
  for (size_t j = 0; j < r->c.q.M; j++) {
    double mean = r->par[0][j], n = (double)r->c.q.size,
           sd = r->c.q.kind == KIND_BINOMIAL ? sqrt(mean * (1 - mean) / n) : sqrt(mean);
    check_slope(r, id, &r->par[0][j], sd, NULL, r->adj.par[0][j], "parameter");
    if (kind_parameters(r->c.q.kind) > 1)
      check_slope(r, id, &r->par[1][j], r->par[1][j], NULL, r->adj.par[1][j], "size");
    if (j)
      check_slope(r, id, &r->weights[j], r->weights[j], &r->weights[j - 1],
                  r->adj.weights[j] - r->adj.weights[j - 1], "weights");
  }
}

TEST(wide_counts) {
  const Kind kinds[] = {KIND_POISSON, KIND_NEG_BINOMIAL_2, KIND_BINOMIAL};
  for (uint64_t seed = 1; seed < 25; seed++) {
    Kind kind = kinds[seed % 3];
    Rig r = rig_wide(c, kind, 1 + seed, kind == KIND_NEG_BINOMIAL_2 ? 8 : 11, &seed);
    double crps, quadratic;
    brute_force(&r, &crps, &quadratic);
    assert_close(value(&r, SCORE_crps) / crps, 1, 1e-8);
    assert_close(value(&r, SCORE_quadratic), quadratic, 1e-10);
    check_wide_slopes(&r, SCORE_crps);
    check_wide_slopes(&r, SCORE_quadratic);
  }
}

/* However wide, a score takes a moment: F is looked at where there is mass. */
TEST(absurd_counts) {
  uint64_t seed = 3;
  for (double size = 20; size < 700; size *= 3) {
    Rig r = rig_wide(c, KIND_POISSON, 64, size, &seed);
    double v = score_crps(&r.c, &r.adj);
    assert_true(isfinite(v) && v < 0 && isfinite(r.adj.par[0][0]));
    assert_true(isfinite(score_quadratic(&r.c, &r.adj)));
  }
}

TEST(energy_of_points) {
  double y[2] = {0.5, -1};
  Rig r = rig_make(c, KIND_NONE, 0, 0);
  rig_sims(c, &r, 4, 2);
  r.c.yvec = y;
  for (int k = 0; k < 8; k++) r.sim[k] = k % 2 ? 3 : 3.5; /* one point four times */
  assert_close(value(&r, SCORE_energy), -5, 1e-14);
  memcpy(r.sim, (double[]){0.5, 0, 0.5, -3, 1.5, -1, 3.5, 3}, 8 * sizeof(double));
  double pairs = 3 + sqrt(2) + sqrt(18) + sqrt(5) + sqrt(45) + sqrt(20);
  assert_close(value(&r, SCORE_energy), pairs / 12 - (1 + 2 + 1 + 5) / 4.0, 1e-14);
  r.c.o.halves = true; /* pairs (0, 2), (1, 3) */
  assert_close(value(&r, SCORE_energy), (sqrt(2) + sqrt(45)) / 4 - (1 + 2 + 1 + 5) / 4.0, 1e-14);
}

/* In one dimension the energy score is the CRPS. */
TEST(energy_is_crps) {
  uint64_t seed = 9;
  Rig r = rig_make(c, KIND_NONE, 0, 0);
  rig_sims(c, &r, 50, 1);
  r.c.yvec = &r.c.y;
  for (int k = 0; k < 50; k++) r.sim[k] = floor(uniform(&seed, -3, 3) * 4) / 4; /* with ties */
  r.c.y = 0.3;
  assert_close(score_energy(&r.c, &r.adj), value(&r, SCORE_crps_sim), 1e-13);
  double by_energy[50];
  memcpy(by_energy, r.adj.sim, sizeof by_energy);
  score_crps_sim(&r.c, &r.adj);
  for (int k = 0; k < 50; k++) assert_close(r.adj.sim[k], by_energy[k], 1e-14);
}

/* Weighted intervals are twice the pinball loss averaged over their quantiles. */
TEST(intervals_are_quantiles) {
  uint64_t seed = 11;
  for (int k = 0; k < 20; k++) {
    Rig r = rig_random(c, KIND_NORMAL, 5, &seed);
    r.c.o = (ScoreOptions){.levels = (double[]){0.1, 0.5}, .nlevels = 2};
    double w = value(&r, SCORE_weighted_interval);
    r.c.o = (ScoreOptions){.levels = (double[]){0.05, 0.25, 0.5, 0.75, 0.95}, .nlevels = 5};
    assert_close(w, 2 * value(&r, SCORE_quantile), 1e-12);
    r.c.o = (ScoreOptions){.levels = (double[]){0.05, 0.95}, .nlevels = 2, .alpha = 0.1};
    assert_close(0.1 * value(&r, SCORE_interval), 4 * value(&r, SCORE_quantile), 1e-12);
  }
}

/* ---- quantiles ------------------------------------------------------------------------------- */

TEST(quantiles) {
  static const double levels[] = {1e-6, 0.01, 0.05, 0.3, 0.5, 0.9, 0.995, 1 - 1e-6};
  for (Kind k = KIND_NORMAL; k <= KIND_BETA; k++)
    for (uint64_t seed = 1; seed < 30; seed++) {
      Rig r = rig_random(c, k, (size_t[]){1, 2, 9}[seed % 3], &seed);
      mixture_prepare(&r.c);
      for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        double p = levels[i], F = mixture_cdf(&r.c, mixture_quantile(&r.c, p, NULL));
        if (!(fabs(F - p) < 1e-11 * fmin(p, 1 - p) + 2e-16))
          fail_msg("%s: F(Q(%g)) - p = %g", kind_names[k], p, F - p);
      }
    }
}

/* Far apart, very different, or certain lanes. */
TEST(quantiles_of_hard_mixtures) {
  static const double mu[][4] = {{0, 1e6, 0, 0}, {0, 0, 0, 0}, {-50, 50, 0, 1e-3}, {3, 3, 3, 3}};
  static const double s[][4] = {
      {1, 1, 1, 1}, {1e-8, 1, 1e8, 1}, {1e-3, 1e-3, 1e-3, 1e-3}, {1e-12, 1e-12, 1e-12, 1e-12}};
  for (int k = 0; k < 4; k++) {
    Rig r = rig_make(c, KIND_NORMAL, 4, 0);
    memcpy(r.par[0], mu[k], sizeof mu[k]);
    memcpy(r.par[1], s[k], sizeof s[k]);
    mixture_prepare(&r.c);
    for (double p = 0.05; p < 1; p += 0.15) {
      double F = mixture_cdf(&r.c, mixture_quantile(&r.c, p, NULL));
      assert_true(fabs(F - p) < 1e-3 * (k == 3) + 1e-9);
    }
    assert_true(isfinite(score_interval(&r.c, &r.adj)));
    assert_true(isfinite(score_crps(&r.c, &r.adj)));
  }
}

TEST(discrete_quantiles) {
  Rig r = rig_make(c, KIND_POISSON, 1, 0);
  r.par[0][0] = 100;
  for (double p = 0.01; p < 1; p += 0.07) {
    double k = mixture_quantile(&r.c, p, NULL);
    assert_true(num_gamma_q(k + 1, 100) >= p && num_gamma_q(k, 100) < p);
  }
}

/* ---- boundaries ------------------------------------------------------------------------------ */

TEST(infinite) {
  Rig r = rig_make(c, KIND_CAUCHY, 2, 0), t = rig_make(c, KIND_STUDENT_T, 2, 0);
  for (int j = 0; j < 2; j++) {
    r.par[0][j] = j;
    t.par[0][j] = j ? 0.9 : 5;
    r.par[1][j] = t.par[1][j] = t.par[2][j] = 1;
  }
  assert_true(value(&r, SCORE_crps) == (double)-INFINITY &&
              value(&t, SCORE_crps) == (double)-INFINITY);
  assert_true(value(&t, SCORE_dawid_sebastiani) == (double)-INFINITY);
  t.par[0][1] = 1.5; /* a mean, no variance */
  double v = score_crps(&t.c, &t.adj);
  assert_true(isfinite(v) && isfinite(t.adj.par[0][1]));
  assert_true(value(&t, SCORE_dawid_sebastiani) == (double)-INFINITY);
}

/* Certain lanes: nothing divides by zero, and derivatives are the one-sided limits. */
TEST(certainty) {
  const Kind kinds[] = {KIND_BERNOULLI, KIND_BINOMIAL, KIND_POISSON};
  for (size_t k = 0; k < 3; k++)
    for (int one = 0; one < (kinds[k] == KIND_POISSON ? 1 : 2); one++)
      for (double y = 0; y <= 1; y++) {
        Rig r = rig_make(c, kinds[k], 2, 1);
        r.par[0][0] = r.par[0][1] = one;
        r.c.y = y;
        assert_close(score_quadratic(&r.c, &r.adj), y == one ? 1 : -1, 1e-13);
        double want =
            (y == 1 ? 2 : -2) - (one ? 2 : -2); /* d/dp of 2 p_y - p^2 - (1-p)^2 at the boundary */
        assert_close(r.adj.par[0][0] + r.adj.par[0][1], want, 1e-12);
        assert_close(score_crps(&r.c, &r.adj), y == one ? 0 : -1, 1e-13);
        assert_close(r.adj.par[0][0] + r.adj.par[0][1], -2 * (one - y), 1e-12);
      }
}

/* Outcomes far outside what any lane expects. */
TEST(outliers) {
  Rig r = rig_make(c, KIND_POISSON, 2, 0);
  r.par[0][0] = 3, r.par[0][1] = 5;
  r.c.y = 100000;
  assert_close(score_crps(&r.c, &r.adj),
               0.5 * value(&r, SCORE_crps) + 0.5 * score_crps(&r.c, &r.adj), 1e-15);
  assert_close(-value(&r, SCORE_crps) / 99996, 1, 1e-4);
  assert_close(r.adj.par[0][0], 0.5, 0.2);
  Rig n = rig_make(c, KIND_NORMAL, 2, 0);
  n.par[0][0] = 0, n.par[0][1] = 1, n.par[1][0] = n.par[1][1] = 1;
  n.c.y = 1e8;
  double v = score_crps(&n.c, &n.adj);
  assert_close(v / -1e8, 1, 1e-7);
  assert_close(n.adj.par[0][0], 0.5, 0.5);
}

/* ---- invariance ------------------------------------------------------------------------------ */

static void copy_lane(Rig *to, size_t j, const Rig *from, size_t i, double weight) {
  for (int k = 0; k < kind_parameters(from->c.q.kind); k++)
    for (size_t row = 0; row < (k ? 1 : from->rows); row++)
      to->par[k][row * to->c.q.ld + j] = from->par[k][row * from->c.q.ld + i];
  to->weights[j] = weight;
}

static void same_score(const Rig *a, const Rig *b, ScoreId id) {
  double x = value(a, id), y = value(b, id);
  if (!(distance(x, y) <= 1e-11)) fail_msg("%.15g became %.15g", x, y);
}

TEST(invariance) {
  const Row *t = row;
  uint64_t seed = 77;
  for (int k = 0; k < 5; k++) {
    size_t M = 7;
    Rig r = rig_random(c, t->kind, M, &seed), turned = rig_make(c, t->kind, M, r.c.q.size);
    Rig split = rig_make(c, t->kind, M + 1, r.c.q.size);
    for (size_t j = 0; j < M; j++) copy_lane(&turned, (3 * j + 2) % M, &r, j, r.weights[j]);
    for (size_t j = 0; j <= M; j++)
      copy_lane(&split, j, &r, j % M, j % M ? r.weights[j % M] : 0.5 * r.weights[0]);
    use_weights(&r, true), use_weights(&turned, true), use_weights(&split, true);
    turned.c.y = split.c.y = r.c.y;
    same_score(&r, &turned, t->score);
    same_score(&r, &split, t->score);
    int location = t->kind == KIND_STUDENT_T ? 1 : 0;
    if (!(domains[t->kind].lo[location] < 0) || t->kind == KIND_LOGNORMAL) continue;
    for (size_t j = 0; j < M; j++) turned.par[location][j] += 4;
    turned.c.y += 4;
    same_score(&r, &turned, t->score);
  }
}

/* Weights that are all equal are no weights. */
TEST(equal_weights) {
  const Row *t = row;
  uint64_t seed = 78;
  Rig r = rig_random(c, t->kind, 6, &seed), s = rig_random(c, t->kind, 6, &seed);
  for (size_t j = 0; j < 6; j++) copy_lane(&s, j, &r, j, 1.0 / 6);
  s.c.y = r.c.y;
  use_weights(&s, true);
  same_score(&r, &s, t->score);
}

/* ---- estimators ------------------------------------------------------------------------------ */

typedef struct {
  double sum, squares, n;
} Mean;

static void mean_add(Mean *m, double x) { m->sum += x, m->squares += x * x, m->n++; }

#define assert_unbiased(m, want)                                                                   \
  do {                                                                                             \
    double at_ = (m).sum / (m).n, se_ = sqrt(((m).squares / (m).n - at_ * at_) / (m).n);           \
    if (!(fabs(at_ - (want)) <= 4 * se_))                                                          \
      fail_msg("%s: mean %g, se %g, expected %g", #m, at_, se_, (double)(want));                   \
  } while (0)

/* Outcomes simulated from a normal mixture against the scores of the mixture itself. */
TEST(simulated_agree) {
  uint64_t seed = 21;
  Rig r = rig_random(c, KIND_NORMAL, 8, &seed);
  double crps_exact = value(&r, SCORE_crps), interval_exact = value(&r, SCORE_interval), near = 0,
         apart = 0, h = 1.3;
  for (size_t j = 0; j < 8; j++) {
    double v = h * h + r.par[1][j] * r.par[1][j], d = r.c.y - r.par[0][j];
    near += h / sqrt(v) * exp(-0.5 * d * d / v) / 8;
    for (size_t i = 0; i < 8; i++) {
      double both = v + r.par[1][i] * r.par[1][i], e = r.par[0][i] - r.par[0][j];
      apart += h / sqrt(both) * exp(-0.5 * e * e / both) / 64;
    }
  }
  RngStream rng = rngs_make(8, 0);
  Mean crps = {0}, pairs = {0}, energy = {0}, halves = {0}, mmd = {0}, interval = {0};
  rig_sims(c, &r, 400, 1);
  r.c.yvec = &r.c.y;
  r.c.o.bandwidth = h;
  for (int rep = 0; rep < 400; rep++) {
    for (size_t k = 0; k < 400; k++) {
      size_t j = (size_t)(8 * rngs_uniform(&rng));
      r.sim[k] = r.par[0][j] + r.par[1][j] * rngs_normal(&rng);
    }
    mean_add(&crps, value(&r, SCORE_crps_sim));
    mean_add(&pairs, value(&r, SCORE_crps_pairs));
    mean_add(&interval, value(&r, SCORE_interval_sim));
    if (rep % 8) continue;
    mean_add(&energy, value(&r, SCORE_energy));
    mean_add(&mmd, value(&r, SCORE_mmd));
    r.c.o.halves = true;
    mean_add(&halves, value(&r, SCORE_energy));
    r.c.o.halves = false;
  }
  assert_unbiased(crps, crps_exact);
  assert_unbiased(pairs, crps_exact);
  assert_unbiased(energy, crps_exact);
  assert_unbiased(halves, crps_exact);
  assert_unbiased(mmd, 2 * near - apart - 1);
  assert_close(interval.sum / interval.n / interval_exact, 1, 0.01); /* biased by O(1/400) */
}

/* The toy model of the unbiasedness laws: y ~ normal(theta, 1), theta ~ q = normal(m, s);
 * predictive normal(m, v = 1 + s^2). */
enum { REPEATS = 40000 };
static const double toy_m = 0.4, toy_s = 0.7, toy_y = 1.3;

/* M = 1: accepted draws have the gradient of log q(theta). */
TEST(rejection_unbiased) {
  double v = 1 + toy_s * toy_s, d = toy_y - toy_m, log_bound = -0.5 * log(2 * PI), weight;
  Mean by_m = {0}, by_s = {0};
  RngStream rng = rngs_make(31, 0);
  for (int k = 0; k < REPEATS;) {
    double u = rngs_normal(&rng), e = toy_y - toy_m - toy_s * u, ll = log_bound - 0.5 * e * e,
           t = rngs_uniform(&rng);
    if (score_log_rejection(&ll, &t, 1, log_bound, &weight) == 0) continue;
    mean_add(&by_m, weight * u / toy_s);
    mean_add(&by_s, weight * (u * u - 1) / toy_s);
    k++;
  }
  assert_unbiased(by_m, d / v);
  assert_unbiased(by_s, toy_s * (d * d / v - 1) / v);
}

/* M = 3: several accepted share the weight. */
TEST(rejection_weights) {
  double w[4], ll[4] = {-1, -2, -1, -30}, t[4] = {0.3, 0.3, 0.36, 0.9};
  assert_int_equal(score_log_rejection(ll, t, 4, 0, w), 2);
  assert_true(w[0] == 0.5 && w[1] == 0 && w[2] == 0.5 && w[3] == 0);
  assert_int_equal(score_log_rejection(ll, (double[]){0.9, 0.9, 0.9, 0.9}, 4, 0, w), 0);
  assert_true(w[0] == 0 && w[1] == 0 && w[2] == 0 && w[3] == 0);
}

/* Simulated outcomes m + s u + e: the pathwise gradient of the paper's estimator. */
TEST(crps_pairs_unbiased) {
  double v = 1 + toy_s * toy_s, sd = sqrt(v), z = (toy_y - toy_m) / sd, u[6];
  Mean by_m = {0}, by_s = {0};
  RngStream rng = rngs_make(32, 0);
  Rig r = rig_make(c, KIND_NONE, 0, 0);
  rig_sims(c, &r, 6, 1);
  r.c.y = toy_y;
  for (int rep = 0; rep < REPEATS; rep++) {
    double gm = 0, gs = 0;
    for (int k = 0; k < 6; k++) {
      u[k] = rngs_normal(&rng);
      r.sim[k] = toy_m + toy_s * u[k] + rngs_normal(&rng);
    }
    score_crps_pairs(&r.c, &r.adj);
    for (int k = 0; k < 6; k++) gm += r.adj.sim[k], gs += r.adj.sim[k] * u[k];
    mean_add(&by_m, gm);
    mean_add(&by_s, gs);
  }
  assert_unbiased(by_m, 2 * num_Phi(z) - 1);
  assert_unbiased(by_s, -(2 * exp(-0.5 * z * z) / sqrt(2 * PI) - 1 / sqrt(PI)) * toy_s / sd);
}

/* One draw: the log score's reparameterised gradient is that of ordinary variational inference. */
TEST(one_draw_is_elbo) {
  double ll[LANES] = {-3.7}, a[LANES], b[LANES];
  ScoreCase one = {.q = {.M = 1, .ld = LANES}, .ll = ll, .k = kernels_best()};
  double x = score_log(&one, &(ScoreAdjoint){.ll = a}),
         y = score_elbo(&one, &(ScoreAdjoint){.ll = b});
  assert_true(x == y);
  for (int j = 0; j < LANES; j++) assert_true(a[j] == b[j]);
}

/* ---- tables ---------------------------------------------------------------------------------- */

TEST(names) {
  static const char *const all[] = {
      "elbo",     "log",        "quadratic",         "crps",
      "interval", "quantile",   "weighted_interval", "dawid_sebastiani",
      "crps_sim", "crps_pairs", "interval_sim",      "energy",
      "mmd"};
  ScoreId id;
  assert_int_equal(SCORE_COUNT, sizeof all / sizeof *all);
  for (size_t k = 0; k < sizeof all / sizeof *all; k++)
    assert_true(score_find(all[k], &id) && !strcmp(score_name(id), all[k]));
  assert_false(score_find("brier", &id));
}

TEST(allowed) {
  assert_true(score_allows(SCORE_log, KIND_NONE) && score_allows(SCORE_crps_sim, KIND_NONE));
  assert_false(score_allows(SCORE_crps, KIND_NONE));
  assert_false(score_allows(SCORE_crps, KIND_CAUCHY));
  assert_true(score_allows(SCORE_interval, KIND_CAUCHY));
  assert_false(score_allows(SCORE_interval, KIND_POISSON));
  assert_true(score_evaluates(SCORE_interval, KIND_POISSON));
  assert_false(score_allows(SCORE_quadratic, KIND_NORMAL));
  assert_false(score_allows(SCORE_energy, KIND_BINOMIAL));
}

/* ---- kinds ----------------------------------------------------------------------------------- */

/* The distribution function of a kind at one set of numbers, at the sorted draws x. */
static double cdf_of(Rig *r, double x) {
  double par[KIND_PARAMETERS], lo, hi, F = 0, p;
  mixture_lane(&r->c.q, 0, par);
  if (!kind_discrete(r->c.q.kind)) return kind_code(r->c.q.kind)->cdf(par, x);
  mixture_support(&r->c, &lo, &hi);
  for (double k = lo; k <= fmin(x, hi); k++) mixture_pmf(&r->c, k, 1, &p), F += p;
  return F;
}

/* The largest distance of the empirical distribution function of n sorted draws from F; at ties,
 * which discrete kinds have, only the last of equal draws counts, and F just below the first. */
static double kolmogorov(Rig *r, const double *x, size_t n) {
  bool discrete = kind_discrete(r->c.q.kind);
  double worst = 0;
  for (size_t i = 0; i < n; i++) {
    if (i + 1 < n && x[i + 1] == x[i]) continue;
    double F = cdf_of(r, x[i]);
    worst = fmax(worst, fabs(F - (double)(i + 1) / (double)n));
    if (!discrete) worst = fmax(worst, fabs(F - (double)i / (double)n));
  }
  return worst;
}

/* Draws have the kind's distribution function and its moments, where it has some. */
TEST(kind_draws) {
  enum { DRAWS = 20000 };
  double *x = NEW_ARRAY(&c->arena, double, DRAWS), *squares = NEW_ARRAY(&c->arena, double, DRAWS);
  uint64_t seed = 300;
  for (Kind k = KIND_NORMAL; k < KIND_COUNT; k++) {
    Rig r = rig_random(c, k, 1, &seed);
    if (k == KIND_STUDENT_T) r.par[0][0] = 6; /* so that the variance has a standard error */
    double par[16] = {0};
    for (size_t i = 0; i < kind_rows(k, r.c.q.size); i++) par[i] = r.par[0][i * r.c.q.ld];
    for (int i = 1; i < kind_parameters(k); i++) par[i] = r.par[i][0];
    RngStream stream = rngs_make(7, (uint64_t)k);
    for (size_t i = 0; i < DRAWS; i++) x[i] = kind_sample(k, par, r.c.q.size, &stream);
    double mean = kind_mean(k, par, r.c.q.size), variance = kind_variance(k, par, r.c.q.size);
    assert_true(kind_has_moments(k) ? isfinite(mean) && isfinite(variance)
                                    : isnan(mean) && isinf(variance));
    if (kind_has_moments(k)) {
      for (size_t i = 0; i < DRAWS; i++) squares[i] = (x[i] - mean) * (x[i] - mean);
      double se = sqrt(variance / DRAWS), spread = stat_sd(squares, DRAWS) / sqrt(DRAWS);
      if (!(fabs(stat_mean(x, DRAWS) - mean) <= 4.5 * se))
        fail_msg("%s: mean %g, of draws %g +- %g", kind_names[k], mean, stat_mean(x, DRAWS), se);
      if (!(fabs(stat_mean(squares, DRAWS) - variance) <= 5 * spread))
        fail_msg("%s: variance %g, of draws %g +- %g", kind_names[k], variance,
                 stat_mean(squares, DRAWS), spread);
    }
    stat_sort(x, DRAWS);
    double distance = kolmogorov(&r, x, DRAWS);
    if (distance * sqrt(DRAWS) > 1.95) /* one in a thousand */
      fail_msg("%s: draws are %g away from the distribution function", kind_names[k], distance);
  }
}

/* The moments are those of the mixture that has one lane. */
TEST(kind_moments) {
  uint64_t seed = 500;
  for (Kind k = KIND_NORMAL; k < KIND_COUNT; k++) {
    if (!kind_has_moments(k) || k == KIND_CATEGORICAL) continue;
    Rig r = rig_random(c, k, 1, &seed);
    double par[KIND_PARAMETERS], variance;
    mixture_lane(&r.c.q, 0, par);
    assert_close(mixture_moments(&r.c, &variance), kind_mean(k, par, r.c.q.size), 1e-15);
    assert_close(variance, kind_variance(k, par, r.c.q.size), 1e-15);
  }
  const double p[] = {0.2, 0.5, 0.3};
  assert_close(kind_mean(KIND_CATEGORICAL, p, 3), 2.1, 1e-15);
  assert_close(kind_variance(KIND_CATEGORICAL, p, 3), 0.49, 1e-15);
}

/* A kind is the distribution its row names. */
TEST(kinds_of_distributions) {
  assert_int_equal(kind_of_dist(DIST_normal), KIND_NORMAL);
  assert_int_equal(kind_of_dist(DIST_neg_binomial_2), KIND_NEG_BINOMIAL_2);
  assert_int_equal(kind_of_dist(DIST_weibull), KIND_NONE);
  for (Kind k = KIND_NORMAL; k < KIND_COUNT; k++) {
    const KindCode *code = kind_code(k);
    assert_true(kind_discrete(k) ? code->pmf && code->support && code->pmf_adjoint
                                 : code->cdf && code->pdf && code->cdf_d && code->gap);
    assert_non_null(code->sample);
    if (kind_discrete(k) || !kind_has_moments(k)) continue;
    assert_true(code->reach || code->pair); /* what the CRPS is computed by */
  }
}

/* Scores write where they may: the number behind the scratch stays. */
TEST(scratch) {
  uint64_t seed = 90;
  for (ScoreId id = 0; id < SCORE_COUNT; id++)
    for (Kind k = KIND_NORMAL; k < KIND_COUNT; k++)
      for (size_t M = 1; M < 600; M = 3 * M + 2) {
        if (!(score_needs(id) & NEEDS_KIND) || !score_evaluates(id, k) ||
            (M > 100 && k != KIND_NORMAL))
          continue;
        Rig r = rig_random(c, k, M, &seed);
        score_of(id)(&r.c, &r.adj);
        assert_true(r.c.scratch[score_scratch(M, 0, true)] == CANARY);
      }
}

/* What tables print of a loss is the loss: never negative, but of Dawid and Sebastiani's, a
 * logarithm; and a LOSS says that smaller is better. */
TEST(losses_as_known) {
  uint64_t seed = 11;
  for (ScoreId id = 0; id < SCORE_COUNT; id++) {
    ScoreShown shown = score_shown(score_name(id));
    bool loss = score_needs(id) & LOSS;
    assert_true(shown.sign == (loss ? -1 : 1));
    assert_string_equal(shown.better, loss ? "smaller is better" : "larger is better");
    for (Kind k = KIND_NORMAL; k < KIND_COUNT; k++)
      for (int i = 0; i < 20; i++) {
        if (!loss || id == SCORE_dawid_sebastiani || !(score_needs(id) & NEEDS_KIND) ||
            !score_evaluates(id, k))
          continue;
        Rig r = rig_random(c, k, 7, &seed);
        assert_true(shown.sign * score_of(id)(&r.c, &r.adj) >= -1e-12);
      }
  }
  assert_true(score_shown("log_at_mean").sign == 1);
  assert_string_equal(score_shown("0.5 log + 2 crps").title, "0.5 log + 2 crps");
}

int main(void) {
  static Suite s;
  static Rows rows[4];
  for (ScoreId id = 0; id < SCORE_COUNT; id++)
    for (Kind k = KIND_NORMAL; k < KIND_COUNT; k++) {
      bool known = score_needs(id) & NEEDS_KIND && score_evaluates(id, k);
      if (known && score_allows(id, k)) rows_add(&rows[0], &s, "derivatives", derivatives, id, k);
      if (known || id == SCORE_log) rows_add(&rows[1], &s, "properness", properness, id, k);
      if (known) rows_add(&rows[2], &s, "invariance", invariance, id, k);
      if (known) rows_add(&rows[3], &s, "equal weights", equal_weights, id, k);
    }
  SUITE_ADD(&s, derivatives_sim), SUITE_ADD(&s, derivatives_ll), SUITE_ADD(&s, interval_rounded);
  SUITE_ADD(&s, lanes_without_density);
  SUITE_ADD(&s, properness_has_teeth), SUITE_ADD(&s, properness_sim);
  SUITE_ADD(&s, crps_of_one_lane), SUITE_ADD(&s, crps_of_hard_lanes),
      SUITE_ADD(&s, crps_of_two_lanes), SUITE_ADD(&s, crps_of_few_digits),
      SUITE_ADD(&s, spread_two_ways);
  SUITE_ADD(&s, crps_of_counts), SUITE_ADD(&s, counts_written_out);
  SUITE_ADD(&s, wide_counts), SUITE_ADD(&s, absurd_counts);
  SUITE_ADD(&s, energy_of_points), SUITE_ADD(&s, energy_is_crps),
      SUITE_ADD(&s, intervals_are_quantiles);
  SUITE_ADD(&s, quantiles), SUITE_ADD(&s, quantiles_of_hard_mixtures),
      SUITE_ADD(&s, discrete_quantiles);
  SUITE_ADD(&s, infinite), SUITE_ADD(&s, certainty), SUITE_ADD(&s, outliers);
  SUITE_ADD(&s, simulated_agree), SUITE_ADD(&s, rejection_unbiased),
      SUITE_ADD(&s, rejection_weights);
  SUITE_ADD(&s, crps_pairs_unbiased), SUITE_ADD(&s, one_draw_is_elbo);
  SUITE_ADD(&s, kind_draws), SUITE_ADD(&s, kind_moments), SUITE_ADD(&s, kinds_of_distributions);
  SUITE_ADD(&s, names), SUITE_ADD(&s, allowed), SUITE_ADD(&s, scratch),
      SUITE_ADD(&s, losses_as_known);
  return suite_run("score", &s);
}
