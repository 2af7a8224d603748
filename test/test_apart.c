/* test_apart.c: observations that are predicted in parts, each by a q that has not seen it.
 *
 * With no way between the q of the parts and q itself the objective is the one of all observations,
 * whatever its parts; with ways, its gradient is that of differences. And what it is for: the noise
 * that is left when many numbers were fitted to the same observations is too small, and that of new
 * observations is not. */
#include "objective.h"

#include "infer/fit.h"
#include "num/rng.h"

/* ---- laws ------------------------------------------------------------------------------------ */

static const char program[] = "data { int N; vector[N] x; vector[N] y; }"
                              "parameters { real a; real b; real s; }"
                              "model { a ~ normal(0, 2); b ~ normal(0, 2); s ~ normal(0, 1); y ~ "
                              "normal(a + b * x, exp(s)); }";
static const char values[] =
    "{\"N\": 8, \"x\": [-1, 0.5, 2, 1, -0.3, 0, 1.5, 0.7], \"y\": [0.1, 1, 3, -1, 0.4, 0.2, 2, 1]}";
enum { N = 8, PARTS = 3 };

typedef struct {
  const char *name, *family;
  Target target;
  size_t draws;
} ApartRow;

static const ApartRow rows_apart[] = {
    {"posterior", "meanfield", {SCORE_log, .regularizer = REG_POSTERIOR, .lambda = 0.3}, 0},
    {"prior", "fullrank", {SCORE_log, .regularizer = REG_PRIOR, .lambda = 0.7}, 0},
    {"both", "meanfield", {SCORE_log, .regularizer = REG_BOTH, .share = 0.4, .lambda = 0.5}, 0},
    {"none", "fullrank", {SCORE_log, .regularizer = REG_POSTERIOR, .lambda = 0}, 0},
    {"crps", "meanfield", {SCORE_crps, .regularizer = REG_POSTERIOR, .lambda = 0.3}, 0},
    {"draws",
     "fullrank",
     {SCORE_log, .regularizer = REG_POSTERIOR, .lambda = 0.3, .integrate = INTEGRATE_DRAWS},
     64},
};

typedef struct {
  Q *q;
  Predictive *whole, *parts;
  double *phi, *offset[PARTS];
} Place;

static Observed *observed_rows(Ctx *c, const Model *m, const Target *t, size_t first, size_t step) {
  size_t *rows = NEW_ARRAY(&c->arena, size_t, N), n = 0;
  for (size_t k = first; k < N; k += step) rows[n++] = k;
  Observed *o = observed_make(&c->arena, m, rows, n, target_wants(t));
  if (t->integrate != INTEGRATE_DRAWS) observed_reduce(o);
  return o;
}

/* The parts' q are `way` times some numbers from q. */
static Place place_of(Ctx *c, const ApartRow *r, double way) {
  Model *m = model_of(c, program, values);
  Target t = r->target;
  Place at = {.q = NEW(&c->arena, Q)};
  PredictivePart part[PARTS];
  uint64_t state = 11;
  t.score_weight = 1;
  *at.q = q_make(&c->arena, family_named(r->family), (Shape){0}, m->dim, NULL);
  at.phi = some_phi(c, at.q);
  for (size_t k = 0; k < PARTS; k++) {
    at.offset[k] = NEW_ARRAY(&c->arena, double, q_size(at.q));
    for (size_t i = 0; i < q_size(at.q); i++) at.offset[k][i] = way * uniform(&state, -0.2, 0.2);
    part[k] = (PredictivePart){observed_rows(c, m, &t, k, PARTS), at.offset[k]};
  }
  NoiseSet noise = {r->draws, 5};
  at.whole = predictive_make(&c->arena, observed_rows(c, m, &t, 0, 1), &t, at.q, noise, NULL);
  at.parts = predictive_of_parts(&c->arena, part, PARTS, &t, at.q, noise, NULL);
  return at;
}

TEST(parts_of_one_q) {
  const ApartRow *r = row;
  Place at = place_of(c, r, 0);
  size_t size = q_size(at.q);
  PredictiveValue whole, parts;
  double *g = NEW_ARRAY(&c->arena, double, size), *h = NEW_ARRAY(&c->arena, double, size);
  assert_true(predictive_eval(at.whole, at.phi, &whole, g));
  assert_true(predictive_eval(at.parts, at.phi, &parts, h));
  assert_close(parts.value, whole.value, 1e-10);
  assert_close(parts.score, whole.score, 1e-10);
  if (r->target.lambda > 0) assert_close(parts.regularizer, whole.regularizer, 1e-9);
  for (size_t k = 0; k < size; k++) assert_close(h[k], g[k], 1e-9);
  assert_int_equal(predictive_is_exact(at.parts), predictive_is_exact(at.whole));
}

TEST(gradient_of_parts) {
  Place at = place_of(c, row, 1);
  size_t size = q_size(at.q);
  PredictiveValue v;
  double *g = NEW_ARRAY(&c->arena, double, size);
  assert_true(predictive_eval(at.parts, at.phi, &v, g));
  check_gradient(at.parts, at.phi, g, size, 1e-6);
}

/* The second derivatives, where formulas tell them, against differences of gradients. */
TEST(curvature_of_parts) {
  Place at = place_of(c, row, 1);
  size_t n = q_size(at.q);
  predictive_use_curvature(&c->arena, at.parts);
  if (!predictive_is_curved(at.parts)) {
    assert_false(predictive_is_exact(at.parts));
    return;
  }
  Objective f = predictive_objective(at.parts);
  double *A = NEW_ARRAY(&c->arena, double, n *n), *g[2], value, h = 1e-5;
  for (int i = 0; i < 2; i++) g[i] = NEW_ARRAY(&c->arena, double, n);
  assert_true(f.curvature(f.self, at.phi, A) > 0);
  for (size_t k = 0; k < n; k++) {
    double x = at.phi[k];
    for (int i = 0; i < 2; i++) {
      at.phi[k] = x + (i ? h : -h);
      assert_true(f.eval(f.self, at.phi, &value, g[i]));
    }
    at.phi[k] = x;
    for (size_t i = 0; i < n; i++) {
      double d = (g[0][i] - g[1][i]) / (2 * h); /* A is minus the Hessian */
      if (!(fabs(d - A[k * n + i]) <= 2e-3 * fmax(1, fabs(d))))
        fail_msg("%zu, %zu: %.8g, by differences %.8g", k, i, A[k * n + i], d);
    }
  }
}

/* ---- what it is for -------------------------------------------------------------------------- */

static const char groups_program[] =
    "data { int N; int J; array[N] int g; vector[N] y; }"
    "parameters { vector[J] a; real s; }"
    "model { a ~ normal(0, 5); s ~ normal(0, 1); y ~ normal(a[g], exp(s)); }";
enum { GROUPS = 80, EACH = 3, ROWS = GROUPS * EACH };

/* Three observations of each of many groups: the means take a third of the noise with them. */
static Model *many_groups(Ctx *c) {
  Text t = text_make(&c->arena);
  RngStream r = rngs_make(7, 1);
  double mean[GROUPS];
  text_printf(&t, "{\"N\": %d, \"J\": %d, \"g\": [", ROWS, GROUPS);
  for (int k = 0; k < ROWS; k++) text_printf(&t, "%s%d", k ? "," : "", k / EACH + 1);
  text_printf(&t, "], \"y\": [");
  for (int j = 0; j < GROUPS; j++) mean[j] = 2 * rngs_normal(&r);
  for (int k = 0; k < ROWS; k++)
    text_printf(&t, "%s%.17g", k ? "," : "", mean[k / EACH] + rngs_normal(&r));
  text_printf(&t, "]}");
  return model_of(c, groups_program, t.s);
}

/* Fold k is the k-th observation of every group. */
static Split *without_fold(Ctx *c, int k) {
  Split *s = split_all(c, ROWS);
  size_t *train = NEW_ARRAY(&c->arena, size_t, ROWS), *test = NEW_ARRAY(&c->arena, size_t, ROWS);
  s->count[PART_TRAIN] = s->count[PART_TEST] = 0;
  for (size_t i = 0; i < ROWS; i++)
    if ((int)(i % EACH) == k)
      test[s->count[PART_TEST]++] = i;
    else
      train[s->count[PART_TRAIN]++] = i;
  s->rows[PART_TRAIN] = train;
  s->rows[PART_TEST] = test;
  return s;
}

static const double *begin_there(void *self, const Q *q) {
  (void)q;
  return self;
}

/* log of the noise where it alone is free. */
static double log_noise(const Fit *fit) { return fit->phi[GROUPS]; }

TEST(noise_of_new_observations) {
  (void)row;
  Model *m = many_groups(c);
  FitOptions vi = {.target = {.score = SCORE_elbo, .lambda = 1, .score_weight = 1},
                   .family = FAMILY_meanfield,
                   .seed = 1},
             o = vi;
  const Fit *bayes = fit_run(c, m, split_all(c, ROWS), &vi, NULL);
  size_t size = q_size(&bayes->q);
  FitPart parts[EACH];
  for (int k = 0; k < EACH; k++) {
    Split *s = without_fold(c, k);
    const Fit *fold = fit_run(c, m, s, &vi, NULL);
    double *offset = NEW_ARRAY(&c->arena, double, size);
    for (size_t i = 0; i < size; i++) offset[i] = fold->phi[i] - bayes->phi[i];
    parts[k] = (FitPart){s->rows[PART_TEST], s->count[PART_TEST], offset};
  }
  bool fixed[GROUPS + 1];
  for (int k = 0; k <= GROUPS; k++) fixed[k] = k < GROUPS;
  Freedom free = {.fixed = fixed};
  o.target =
      (Target){.score = SCORE_log, .regularizer = REG_POSTERIOR, .lambda = 0.01, .score_weight = 1};
  o.free = &free;
  o.warm = true;
  o.start = begin_there;
  o.start_self = bayes->phi;
  const Fit *seen = fit_run(c, m, split_all(c, ROWS), &o, NULL);
  o.parts = parts;
  o.nparts = EACH;
  const Fit *new = fit_run(c, m, split_all(c, ROWS), &o, NULL);
  assert_true(seen->converged && new->converged);
  assert_true(log_noise(seen) < -0.12); /* the truth is 0 */
  assert_true(fabs(log_noise(new)) < 0.07);
  for (int k = 0; k < GROUPS; k++) assert_true(new->phi[k] == bayes->phi[k]);
}

int main(void) {
  static Suite s;
  Ctx c;
  ctx_init(&c);
  for (size_t k = 0; k < sizeof rows_apart / sizeof *rows_apart; k++) {
    const ApartRow *r = &rows_apart[k];
    suite_add(&s, arena_format(&c.arena, "parts_of_one_q: %s", r->name), parts_of_one_q, r);
    suite_add(&s, arena_format(&c.arena, "gradient_of_parts: %s", r->name), gradient_of_parts, r);
    suite_add(&s, arena_format(&c.arena, "curvature_of_parts: %s", r->name), curvature_of_parts, r);
  }
  SUITE_ADD(&s, noise_of_new_observations);
  int failed = suite_run("apart", &s);
  ctx_free(&c);
  return failed;
}
