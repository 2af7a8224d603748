/* test_sums.c: sums of scores, and both regularizers at once. An objective is linear in the weights
 * of its scores and of its regularizers, whatever it is integrated by; a sum of one score is that
 * score; and gradients are those of finite differences. */
#include "objective.h"

#include "infer/exact.h"
#include "infer/observed.h"

/* ---- models ---------------------------------------------------------------------------------- */

#define DATA                                                                                       \
  "data { int N; vector[N] x; vector[N] y; array[N] int<lower=0, upper=1> z; array[N] int w;"      \
  " array[N] int c; } "
#define TWO "parameters { real a; real b; } model { a ~ normal(0, 2); b ~ normal(0.5, 2); "
static const char values[] =
    "{\"N\": 7, \"x\": [-1, 0.5, 2, 1, -0.3, 0, 1.5], \"y\": [0.1, 1, 3, -1, 0.4, 0.2, 2],"
    " \"z\": [0, 1, 1, 0, 0, 1, 1], \"w\": [3, 0, 5, 2, 1, 2, 4], \"c\": [1, 3, 2, 2, 1, 3, 3]}";

#define NORMAL                                                                                     \
  DATA "parameters { real a; real b; real s; } model { a ~ normal(0, 2); b ~ normal(0, 2); "       \
       "s ~ normal(0, 1); y ~ normal(a + b * x, exp(s)); }"
#define LOGISTIC DATA TWO "z ~ bernoulli_logit(a + b * x); }"
#define POISSON DATA TWO "w ~ poisson_log(a + b * x); }"
#define CATEGORICAL DATA TWO "for (i in 1:N) c[i] ~ categorical_logit([0, a + b * x[i], b - a]'); }"

/* A model, a family, scores with weights, and how it is integrated. */
typedef struct {
  const char *name, *program, *family;
  ScorePart parts[3];
  size_t nparts;
  bool exact;
} SumRow;

static const SumRow sums[] = {
    {"normal: log, crps", NORMAL, "meanfield", {{SCORE_log, 0.5}, {SCORE_crps, 2}}, 2, true},
    {"normal: log, interval, crps",
     NORMAL,
     "fullrank",
     {{SCORE_interval, 0.3}, {SCORE_log, 0.2}, {SCORE_crps, 0.5}},
     3,
     true},
    {"normal, mixture: log, crps", NORMAL, "mixture", {{SCORE_log, 1}, {SCORE_crps, 0.7}}, 2, true},
    {"logistic: log, quadratic",
     LOGISTIC,
     "fullrank",
     {{SCORE_log, 0.5}, {SCORE_quadratic, 3}},
     2,
     true},
    {"poisson: crps, quadratic",
     POISSON,
     "meanfield",
     {{SCORE_crps, 0.5}, {SCORE_quadratic, 0.5}},
     2,
     true},
    {"normal by draws: log, interval, crps",
     NORMAL,
     "fullrank",
     {{SCORE_log, 0.2}, {SCORE_interval, 0.3}, {SCORE_crps, 0.5}},
     3,
     false},
    {"normal by weighted draws: log, crps",
     NORMAL,
     "mixture",
     {{SCORE_log, 0.2}, {SCORE_crps, 0.5}},
     2,
     false},
    {"normal by draws: log, simulated crps, energy",
     NORMAL,
     "meanfield",
     {{SCORE_log, 0.4}, {SCORE_crps_sim, 0.6}, {SCORE_energy, 0.1}},
     3,
     false},
    {"categorical by draws: quadratic, log",
     CATEGORICAL,
     "meanfield",
     {{SCORE_quadratic, 2}, {SCORE_log, 0.5}},
     2,
     false},
};

typedef struct {
  Model *m;
  Q q;
  double *phi, *grad;
} Place;

static Place place_of(Ctx *c, const SumRow *s) {
  Place p = {.m = model_of(c, s->program, values)};
  p.q = q_make(&c->arena, family_named(s->family), (Shape){0}, p.m->dim, NULL);
  p.phi = some_phi(c, &p.q);
  p.grad = NEW_ARRAY(&c->arena, double, q_size(&p.q));
  return p;
}

static Target target_of(const SumRow *s, const ScorePart *parts, size_t nparts) {
  return (Target){.score = SCORE_sum,
                  .score_options = {.alpha = 0.1,
                                    .smooth = 0.2,
                                    .bandwidth = 0.8,
                                    .parts = parts,
                                    .nparts = nparts},
                  .score_weight = 1,
                  .integrate = s->exact ? INTEGRATE_EXACT : INTEGRATE_DRAWS,
                  .nodes = 48};
}

/* Value and gradient at the place. */
static Predictive *evaluate(Ctx *c, const Place *at, const Target *t, PredictiveValue *v,
                            double *grad) {
  Observed *o = observed_make(&c->arena, at->m, NULL, 0, target_wants(t));
  if (t->integrate == INTEGRATE_EXACT) observed_reduce(o);
  Predictive *p = predictive_make(&c->arena, o, t, &at->q, (NoiseSet){37, 5}, NULL);
  assert_true(predictive_is_exact(p) == (t->integrate == INTEGRATE_EXACT));
  for (int k = 0; k < 2; k++) assert_true(predictive_eval(p, at->phi, v, grad));
  return p;
}

static double nearness(double a, double b) { return fabs(a - b) / fmax(1, fabs(b)); }

/* ---- scores ---------------------------------------------------------------------------------- */

TEST(gradient) {
  const SumRow *s = row;
  Place at = place_of(c, s);
  Target t = target_of(s, s->parts, s->nparts);
  PredictiveValue v;
  t.regularizer = REG_BOTH, t.lambda = 0.2, t.share = 0.3;
  Predictive *p = evaluate(c, &at, &t, &v, at.grad);
  check_gradient(p, at.phi, at.grad, q_size(&at.q), 5e-6);
}

/* The sum is that of its parts, each evaluated alone. */
TEST(linear) {
  const SumRow *s = row;
  Place at = place_of(c, s);
  Target t = target_of(s, s->parts, s->nparts);
  size_t n = q_size(&at.q);
  double *grad = NEW_ARRAY(&c->arena, double, n), *sum = NEW_ARRAY(&c->arena, double, n), value = 0;
  PredictiveValue v, all;
  evaluate(c, &at, &t, &all, at.grad);
  for (size_t k = 0; k < s->nparts; k++) {
    t.score = s->parts[k].id;
    evaluate(c, &at, &t, &v, grad);
    value += s->parts[k].weight * v.score;
    for (size_t i = 0; i < n; i++) sum[i] += s->parts[k].weight * grad[i];
  }
  assert_true(nearness(all.score, value) < 1e-12);
  for (size_t i = 0; i < n; i++) assert_true(nearness(at.grad[i], sum[i]) < 1e-11);
}

/* Weight one of a single score is that score. */
TEST(one) {
  const SumRow *s = row;
  Place at = place_of(c, s);
  size_t n = q_size(&at.q);
  double *grad = NEW_ARRAY(&c->arena, double, n);
  for (size_t k = 0; k < s->nparts; k++) {
    ScorePart part = {s->parts[k].id, 1};
    Target t = target_of(s, &part, 1);
    PredictiveValue v, alone;
    evaluate(c, &at, &t, &v, at.grad);
    t.score = part.id;
    evaluate(c, &at, &t, &alone, grad);
    assert_true(nearness(v.score, alone.score) < 1e-12);
    for (size_t i = 0; i < n; i++) assert_true(nearness(at.grad[i], grad[i]) < 1e-12);
  }
}

/* What a sum needs, and its name. A part that the outcomes do not allow is refused by its name. */
TEST(words) {
  ScorePart parts[] = {{SCORE_log, 0.5}, {SCORE_interval, 0.25}};
  Target t = {.score = SCORE_sum, .score_options = {.parts = parts, .nparts = 2}};
  const char *why = "";
  assert_string_equal(score_title(&c->arena, t.score, &t.score_options), "0.5 log + 0.25 interval");
  assert_int_equal(target_needs(&t), score_needs(SCORE_log) | score_needs(SCORE_interval));
  assert_true(target_allows(c, model_of(c, NORMAL, values), &t, &why));
  assert_false(target_allows(c, model_of(c, POISSON, values), &t, &why));
  assert_non_null(strstr(why, "the interval score"));
  parts[1].id = SCORE_elbo;
  assert_false(target_allows(c, model_of(c, NORMAL, values), &t, &why));
  assert_non_null(strstr(why, "ordinary VI"));
}

/* ---- regularizers ---------------------------------------------------------------------------- */

/* a KL(q || prior) + b KL(q || posterior), and each alone where the other has no weight. */
TEST(both_regularizers) {
  const SumRow *s = row;
  Place at = place_of(c, s);
  size_t n = q_size(&at.q);
  double *grad = NEW_ARRAY(&c->arena, double, n), *sum = NEW_ARRAY(&c->arena, double, n);
  static const double weights[][2] = {{0.01, 0.1}, {0.3, 0}, {0, 0.2}};
  for (int w = 0; w < 3; w++) {
    const double *k = weights[w];
    Target t = target_of(s, s->parts, s->nparts);
    PredictiveValue both, alone;
    t.lambda = k[0] + k[1], t.share = k[1] / t.lambda, t.regularizer = REG_BOTH;
    evaluate(c, &at, &t, &both, at.grad);
    double value = 0;
    memset(sum, 0, n * sizeof *sum);
    for (int r = 0; r < 3; r++) { /* the score alone, then minus each regularizer alone */
      t.lambda = r ? k[r - 1] : 0, t.regularizer = r == 2 ? REG_POSTERIOR : REG_PRIOR;
      t.score_weight = r ? 0 : 1;
      evaluate(c, &at, &t, &alone, grad);
      value += alone.value;
      for (size_t i = 0; i < n; i++) sum[i] += grad[i];
    }
    assert_true(nearness(both.value, value) < 1e-12);
    assert_true(nearness(both.score - (k[0] + k[1]) * both.regularizer, both.value) < 1e-12);
    for (size_t i = 0; i < n; i++) assert_true(nearness(at.grad[i], sum[i]) < 1e-11);
  }
}

int main(void) {
  static Suite s;
  for (size_t k = 0; k < sizeof sums / sizeof *sums; k++) {
    suite_add(&s, sums[k].name, gradient, &sums[k]);
    suite_add(&s, sums[k].name, linear, &sums[k]);
    suite_add(&s, sums[k].name, one, &sums[k]);
    suite_add(&s, sums[k].name, both_regularizers, &sums[k]);
  }
  SUITE_ADD(&s, words);
  return suite_run("sums", &s);
}
