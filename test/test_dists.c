/* test_dists.c: laws of dists.def as a table: what the language has is implemented, but for what is
 * named here; the outcome of a statement has a canonical form that scores know. (The functions
 * themselves are tested in test_model.c and test_functions.c.) */
#include "evaluate.h"

#include "model/dist.h"
#include "score/kind.h"

/* Cumulative functions that are not supported yet. */
static bool without_cdf(DistId id) { return id == DIST_von_mises; }

TEST(code_as_flags_say) {
  for (DistId id = 0; id < DIST_COUNT; id++) {
    const DistCode *code = dist_code(id);
    unsigned flags = stan_dist_flags(id);
    bool cdf = code->cdf || code->count_cdf, rng = code->rng || code->rng_joint;
    if (!code->lpdf) fail_msg("%s has no density", stan_dist_names[id]);
    if (cdf != ((flags & CDFS) && !without_cdf(id)))
      fail_msg("%s: cumulative functions", stan_dist_names[id]);
    if (rng != ((flags & RNG) != 0)) fail_msg("%s_rng", stan_dist_names[id]);
    if (code->rng && code->rng_joint) fail_msg("%s has two rngs", stan_dist_names[id]);
    if (code->cdf && code->count_cdf) fail_msg("%s has two cdfs", stan_dist_names[id]);
    if (code->count_cdf && !(flags & PMF)) fail_msg("%s is no count", stan_dist_names[id]);
    if (code->simulate && !rng) fail_msg("%s is simulated only", stan_dist_names[id]);
  }
}

/* Every distribution with an OUTCOME, the kind it is and how a statement looks. */
static const struct {
  DistId id;
  Kind kind;
  const char *statement;
} outcomes[] = {
    {DIST_normal, KIND_NORMAL, "y ~ normal(a, s)"},
    {DIST_std_normal, KIND_NORMAL, "y ~ std_normal()"},
    {DIST_student_t, KIND_STUDENT_T, "y ~ student_t(4, a, s)"},
    {DIST_cauchy, KIND_CAUCHY, "y ~ cauchy(a, s)"},
    {DIST_double_exponential, KIND_DOUBLE_EXPONENTIAL, "y ~ double_exponential(a, s)"},
    {DIST_logistic, KIND_LOGISTIC, "y ~ logistic(a, s)"},
    {DIST_lognormal, KIND_LOGNORMAL, "y ~ lognormal(a, s)"},
    {DIST_exponential, KIND_EXPONENTIAL, "y ~ exponential(s)"},
    {DIST_gamma, KIND_GAMMA, "y ~ gamma(s, 2)"},
    {DIST_beta, KIND_BETA, "y ~ beta(s, 2)"},
    {DIST_bernoulli, KIND_BERNOULLI, "k ~ bernoulli(inv_logit(a))"},
    {DIST_bernoulli_logit, KIND_BERNOULLI, "k ~ bernoulli_logit(a)"},
    {DIST_binomial, KIND_BINOMIAL, "k ~ binomial(3, inv_logit(a))"},
    {DIST_binomial_logit, KIND_BINOMIAL, "k ~ binomial_logit(3, a)"},
    {DIST_poisson, KIND_POISSON, "k ~ poisson(s)"},
    {DIST_poisson_log, KIND_POISSON, "k ~ poisson_log(a)"},
    {DIST_neg_binomial_2, KIND_NEG_BINOMIAL_2, "k ~ neg_binomial_2(s, 2)"},
    {DIST_neg_binomial_2_log, KIND_NEG_BINOMIAL_2, "k ~ neg_binomial_2_log(a, s)"},
    {DIST_categorical, KIND_CATEGORICAL, "g ~ categorical(softmax(b))"},
    {DIST_categorical_logit, KIND_CATEGORICAL, "g ~ categorical_logit(b)"},
    {DIST_ordered_logistic, KIND_CATEGORICAL, "for (n in 1:3) g[n] ~ ordered_logistic(a, [0, s]')"},
    {DIST_normal_id_glm, KIND_NORMAL, "y ~ normal_id_glm(X, a, b, s)"},
    {DIST_bernoulli_logit_glm, KIND_BERNOULLI, "k ~ bernoulli_logit_glm(X, a, b)"},
    {DIST_binomial_logit_glm, KIND_BINOMIAL, "k ~ binomial_logit_glm(3, X, a, b)"},
    {DIST_poisson_log_glm, KIND_POISSON, "k ~ poisson_log_glm(X, a, b)"},
    {DIST_neg_binomial_2_log_glm, KIND_NEG_BINOMIAL_2, "k ~ neg_binomial_2_log_glm(X, a, b, s)"},
};

TEST(outcomes_are_kinds) {
  size_t rows = sizeof outcomes / sizeof *outcomes, known = 0;
  for (DistId id = 0; id < DIST_COUNT; id++) known += dist_code(id)->outcome != NULL;
  assert_int_equal(known, rows);
  for (size_t i = 0; i < rows; i++) {
    const Model *m =
        model_of(c,
                 arena_format(&c->arena,
                              "data { vector[3] y; array[3] int k, g; matrix[3, 2] X; } "
                              "parameters { real a; real<lower=0> s; vector[2] b; } model { %s; }",
                              outcomes[i].statement),
                 "{\"y\": [0.2, 0.5, 0.9], \"k\": [0, 1, 1], \"g\": [1, 2, 2], "
                 "\"X\": [[1, 2], [3, 4], [5, 6]]}");
    assert_int_equal(m->nblocks, 1);
    const ObsBlock *b = &m->blocks[0];
    if (b->dist < 0) fail_msg("%s: no canonical form", outcomes[i].statement);
    assert_non_null(dist_code(outcomes[i].id)->outcome);
    assert_int_equal(kind_of_dist((DistId)b->dist), outcomes[i].kind);
    assert_int_equal(b->npar, kind_parameters(outcomes[i].kind));
    assert_int_equal(b->width, outcomes[i].kind == KIND_CATEGORICAL ? b->width : 1);
    assert_true((b->size != NULL) == (outcomes[i].kind == KIND_BINOMIAL));
  }
}

int main(void) {
  static Suite suite;
  SUITE_ADD(&suite, code_as_flags_say);
  SUITE_ADD(&suite, outcomes_are_kinds);
  return suite_run("dists", &suite);
}
