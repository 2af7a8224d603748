/* test_products.c: mean densities by means over one parameter each: which observations are such,
 * values against many draws, gradients against finite differences, and a fit. */
#include "objective.h"

#include "infer/fit.h"
#include "infer/product_means.h"

/* ---- programs -------------------------------------------------------------------------------- */

#define TOPICS                                                                                     \
  "data { int V; int M; int N; array[N] int<lower=1> w; array[N] int<lower=1> doc; }"              \
  " parameters { array[M] simplex[3] theta; array[3] simplex[V] phi; }"                            \
  " model { for (m in 1:M) theta[m] ~ dirichlet(rep_vector(0.7, 3));"                              \
  " for (k in 1:3) phi[k] ~ dirichlet(rep_vector(0.4, V));"
static const char data[] = "{\"V\": 4, \"M\": 3, \"N\": 9, \"w\": [1, 2, 3, 4, 1, 1, 2, 4, 4],"
                           " \"doc\": [1, 1, 1, 2, 2, 2, 3, 3, 3]}";

typedef struct {
  const char *name, *program;
} Shown;

static const Shown topics = {
    "topics", TOPICS "for (n in 1:N) { vector[3] l; for (k in 1:3) l[k] = log(theta[doc[n], k]) + "
                     "log(phi[k, w[n]]); target += poisson_lpmf(w[n] | 2.0) + log_sum_exp(l); } }"};
static const Shown one = {
    "one product", "data { int N; array[N] int<lower=1> w; int V; int M; array[N] int doc; }"
                   " parameters { vector[M] a; vector<lower=0>[V] b; } model { a ~ normal(0, 1); b "
                   "~ lognormal(0, 1); for (n in 1:N) target += poisson_lpmf(w[n] | 2.0) + "
                   "log_inv_logit(a[doc[n]]) - b[w[n]]; }"};
static const Shown sums = {
    "sums within products",
    "data { int N; array[N] int<lower=1> w; int V; int M; array[N] int doc; }"
    " parameters { vector[M] a; vector[V] b; real c; } model { a ~ normal(0, 1); b ~ normal(0, 1); "
    "c ~ normal(0, 1); for (n in 1:N) target += poisson_lpmf(w[n] | 2.0) + log_sum_exp("
    "log_inv_logit(a[doc[n]]), log1m_inv_logit(b[w[n]])) + log_inv_logit(2 * c); }"};
static const Shown *const shown[] = {&topics, &one, &sums};

/* A factor that two terms of a product see, or a function of two parameters. */
static const Shown others[] = {
    {"twice the same", TOPICS
     "for (n in 1:N) { vector[3] l; for (k in 1:3) l[k] = log(theta[doc[n], k]) + log(phi[k, "
     "w[n]]) + log(phi[k, 1]); target += poisson_lpmf(w[n] | 2.0) + log_sum_exp(l); } }"},
    {"a function of two",
     "data { int N; array[N] int<lower=1> w; int V; int M; array[N] int doc; } parameters { "
     "vector[M] a; vector[V] b; } model { a ~ normal(0, 1); b ~ normal(0, 1); for (n in 1:N) "
     "target "
     "+= poisson_lpmf(w[n] | 2.0) + log_inv_logit(a[doc[n]] * b[w[n]] + square(a[1])); }"},
};

/* Small programs have few parameters, and other exact integrals that would come first. */
static Observed *observed(Ctx *c, const char *program) {
  Observed *o = observed_make(&c->arena, model_of(c, program, data), NULL, 0, WANT_LL);
  o->products = model_products(&c->arena, o->model, &o->rows);
  return o;
}

TEST(refuses) {
  const Shown *p = row;
  assert_null(observed(c, p->program)->products);
}

/* ---- values and gradients -------------------------------------------------------------------- */

#ifdef PVI_TORTURE
enum { MANY = 1 << 10 };
#else
enum { MANY = 1 << 17 };
#endif

/* Parameter after parameter wider, up to what is no more than a step. */
static void widen(const Q *q, double *phi, double most) {
  for (size_t k = 0; k < q->dim; k++) q_stretch(q, phi, k, 1 + most * (double)(k % 4), 0);
}

static void check_values(Ctx *c, const Observed *o, const Q *q, const double *phi) {
  double got[16], draws[16];
  Scoring s = {.o = o, .q = q, .phi = phi, .noise = {MANY, 5}};
  predictive_log_scores(c, &s, INTEGRATE_AUTO, got);
  predictive_log_scores(c, &s, INTEGRATE_DRAWS, draws);
  for (size_t k = 0; k < o->n; k++)
    if (!(fabs(got[k] - draws[k]) <= (MANY < 10000 ? 0.3 : 4e-3)))
      fail_msg("observation %zu: %.8g, by draws %.8g", k, got[k], draws[k]);
}

TEST(agrees_with_draws) {
  const Shown *p = row;
  static const char *const families[] = {"meanfield", "spline"};
  Observed *o = observed(c, p->program);
  assert_non_null(o->products);
  for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
    Q q = q_make(&c->arena, family_named(families[f]), (Shape){0}, o->model->dim, NULL);
    double *phi = some_phi(c, &q);
    assert_true(product_means_known(o, &q));
    check_values(c, o, &q, phi);
    if (q.family != FAMILY_meanfield) continue;
    widen(&q, phi, 0.8);
    check_values(c, o, &q, phi);
  }
}

/* Where parameters depend on each other means of products are no products of means. */
TEST(wants_independence) {
  const Shown *p = row;
  Observed *o = observed(c, p->program);
  Q q = q_make(&c->arena, FAMILY_fullrank, (Shape){0}, o->model->dim, NULL);
  assert_false(product_means_known(o, &q));
}

TEST(gradient) {
  const Shown *p = row;
  Observed *o = observed(c, p->program);
  Target t = {.score = SCORE_log, .score_weight = 0.7, .regularizer = REG_POSTERIOR, .lambda = 0.1};
  Q q = q_make(&c->arena, FAMILY_meanfield, (Shape){0}, o->model->dim, NULL);
  double *phi = some_phi(c, &q), *grad = NEW_ARRAY(&c->arena, double, q_size(&q));
  Predictive *objective = predictive_make(&c->arena, o, &t, &q, (NoiseSet){64, 3}, NULL);
  PredictiveValue v;
  assert_true(predictive_is_split(objective));
  assert_true(predictive_eval(objective, phi, &v, grad));
  check_gradient(objective, phi, grad, q_size(&q), 1e-6);
  Pool *pool = pool_make(c, 3);
  Predictive *again = predictive_make(&c->arena, o, &t, &q, (NoiseSet){64, 3}, pool);
  double *other = NEW_ARRAY(&c->arena, double, q_size(&q));
  PredictiveValue w;
  assert_true(predictive_eval(again, phi, &w, other));
  pool_free(pool);
  assert_true(v.value == w.value && !memcmp(grad, other, q_size(&q) * sizeof *grad));
}

int main(void) {
  static Suite s;
  for (size_t k = 0; k < sizeof shown / sizeof *shown; k++) {
    suite_add(&s, shown[k]->name, agrees_with_draws, shown[k]);
    suite_add(&s, shown[k]->name, wants_independence, shown[k]);
    suite_add(&s, shown[k]->name, gradient, shown[k]);
  }
  for (size_t k = 0; k < sizeof others / sizeof *others; k++)
    suite_add(&s, others[k].name, refuses, &others[k]);
  return suite_run("products", &s);
}
