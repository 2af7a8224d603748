/* test_laplace.c: Laplace approximations: exact where the likelihood is normal, the same for a
 * family and for a likelihood written out, right for one latent number worked out here; the latent
 * vector. */
#include "evaluate.h"

#define HEAD                                                                                       \
  "functions { matrix K(array[] real x, real a, real r) { return add_diag(gp_exp_quad_cov(x, a, "  \
  "r), 1e-3); }\n"                                                                                 \
  "real normal_ll(vector t, vector y, real s) { return normal_lpdf(y | t, s); }\n"                 \
  "real pairs_ll(vector t, vector y, real s) { real l = 0; for (i in 1:2) l += "                   \
  "multi_normal_lpdf(y[2 * i - 1:2 * i] | t[2 * i - 1:2 * i], [[s, 0.3 * s], [0.3 * s, s]]); "     \
  "return l; }\n"                                                                                  \
  "real poisson_ll(vector t, array[] int k, array[] int g) { return poisson_log_lpmf(k | t[g]); "  \
  "}\n"                                                                                            \
  "real binary_ll(vector t, array[] int z, array[] int g) { return bernoulli_logit_lpmf(z | "      \
  "t[g]); }\n"                                                                                     \
  "real counts_ll(vector t, array[] int k, array[] int g, real s) { return "                       \
  "neg_binomial_2_log_lpmf(k | t[g], s); } }\n"                                                    \
  "data { vector[4] y; array[4] real x; array[6] int k; array[6] int z; array[6] int g; "          \
  "vector[4] m; }\n"                                                                               \
  "parameters { real<lower=0> s; real<lower=0> a; real<lower=0> r; }\n"
#define DATA                                                                                       \
  "{\"y\": [1.2, 0.3, -0.7, 2.1], \"x\": [0.5, -1, 2, 0.1], \"k\": [3, 0, 7, 1, 2, 4], \"z\": "    \
  "[0, 1, 1, 0, 1, 1], \"g\": [1, 2, 3, 4, 4, 1], \"m\": [0, 0, 0, 0]}"

static double gradient_error(Ctx *c, const Model *m, const double *u) {
  DensityAt d = density(c, m, u);
  double most = 0;
  for (size_t k = 0; k < m->dim; k++) {
    double h = 1e-3, v[3] = {u[0], u[1], u[2]};
    v[k] = u[k] + h;
    double up = density(c, m, v).lp;
    v[k] = u[k] - h;
    most = fmax(most, fabs(d.grad[k] - (up - density(c, m, v).lp) / (2 * h)));
  }
  return most;
}

static const struct Same {
  const char *what, *one, *other;
  double value, gradient; /* how near they are */
} pairs[] = {
    {"a normal likelihood", "laplace_marginal(normal_ll, (y, s), 1, K, (x, a, r))",
     "multi_normal_lpdf(y | rep_vector(0, 4), add_diag(K(x, a, r), s^2))", 1e-7, 1e-5},
    {"blocks of two", "laplace_marginal(pairs_ll, (y, s), 2, K, (x, a, r))",
     "multi_normal_lpdf(y | rep_vector(0, 4), K(x, a, r) + s * [[1, 0.3, 0, 0], [0.3, 1, 0, 0], "
     "[0, 0, "
     "1, 0.3], [0, 0, 0.3, 1]])",
     1e-7, 1e-5},
    {"Poisson counts", "laplace_marginal_poisson_log_lpmf(k | g, m, 1, K, (x, a, r))",
     "laplace_marginal(poisson_ll, (k, g), 1, K, (x, a, r))", 1e-6, 1e-4},
    {"yes and no", "laplace_marginal_bernoulli_logit_lpmf(z | g, m, 1, K, (x, a, r))",
     "laplace_marginal(binary_ll, (z, g), 1, K, (x, a, r))", 1e-6, 1e-4},
    {"counts with a precision",
     "laplace_marginal_neg_binomial_2_log_lpmf(k | g, s, m, 1, K, (x, a, r))",
     "laplace_marginal(counts_ll, (k, g, s), 1, K, (x, a, r))", 1e-6, 1e-4},
    {"options do not matter",
     "laplace_marginal_tol_poisson_log_lpmf(k | g, m, 1, K, (x, a, r), "
     "generate_laplace_options([1, "
     "0, 2, -1]'))",
     "laplace_marginal_poisson_log_lpmf(k | g, m, 1, K, (x, a, r))", 1e-12, 1e-10},
};

TEST(same) {
  const struct Same *p = row;
  const Model *one = model_of(c, arena_format(&c->arena, HEAD "model { target += %s; }", p->one),
                              DATA),
              *other = model_of(
                  c, arena_format(&c->arena, HEAD "model { target += %s; }", p->other), DATA);
  assert_int_equal(one->n_obs, 1);
  for (uint64_t seed = 1; seed <= 3; seed++) {
    const double *u = test_point(c, one->dim, seed, 0.7);
    DensityAt a = density(c, one, u), b = density(c, other, u);
    assert_true(isfinite(a.lp));
    assert_close(a.lp, b.lp, p->value);
    for (size_t k = 0; k < one->dim; k++) assert_close(a.grad[k], b.grad[k], p->gradient);
    assert_true(gradient_error(c, one, u) < 1e-5);
  }
}

/* y ~ is the same as its _lpmf. */
TEST(tilde) {
  const Model *a = model_of(
                  c, HEAD "model { k ~ laplace_marginal_poisson_log(g, m, 1, K, (x, a, r)); }",
                  DATA),
              *b = model_of(c,
                            HEAD
                            "model { target += laplace_marginal_poisson_log_lpmf(k | g, m, 1, K, "
                            "(x, a, r)); }",
                            DATA);
  const double *u = test_point(c, a->dim, 5, 0.7);
  assert_int_equal(a->n_obs, 1);
  assert_close(density(c, a, u).lp, density(c, b, u).lp, 1e-14);
}

/* One count y with theta ~ normal(m, v): l(t) - (t - m)^2 / (2 v) - log(1 + v e^t) / 2 at its mode.
 */
TEST(one_count) {
  const Model *model = model_of(c,
                                "functions { matrix K(real v, int n) { return "
                                "diag_matrix(rep_vector(v, n)); } } parameters { "
                                "real m; real<lower=0> v; } model { target += "
                                "laplace_marginal_poisson_log_lpmf({4} | {1}, [m]', "
                                "1, K, (v, 1)); }",
                                NULL);
  for (uint64_t seed = 1; seed <= 3; seed++) {
    const double *u = test_point(c, 2, seed, 2);
    double m = u[0], v = exp(u[1]), t = m;
    for (int k = 0; k < 200; k++)
      t -= 0.5 * (t - m - v * (4 - exp(t))) / (1 + v * exp(t)); /* half of Newton's steps */
    double want =
        4 * t - exp(t) - lgamma(5) - (t - m) * (t - m) / (2 * v) - 0.5 * log1p(v * exp(t));
    DensityAt d = density(c, model, u);
    assert_close(d.likelihood, want, 1e-12);
    double h = 1e-4, up = density(c, model, (double[]){m + h, u[1]}).lp,
           down = density(c, model, (double[]){m - h, u[1]}).lp;
    assert_close(d.grad[0], (up - down) / (2 * h), 1e-6);
  }
}

/* Where the likelihood is normal, so is the latent vector: mean K (K + s^2)^-1 y. */
TEST(latent) {
  const Model *m = model_of(
      c,
      HEAD
      "model { } generated quantities { vector[4] zero; matrix[4, 4] nothing; vector[4] t = "
      "laplace_latent_rng(normal_ll, (y, s), 1, K, (x, a, r)); { tuple(vector[4], matrix[4, 4]) p "
      "= "
      "laplace_latent_solve(normal_ll, (y, s), 1, K, (x, a, r)); matrix[4, 4] C = K(x, a, r), S = "
      "add_diag(C, s^2); zero = p.1 - C * (S \\ y); nothing = p.2 * p.2' - (C - C * (S \\ C)); t = "
      "(t - p.1) / sqrt((p.2 * p.2')[1, 1]); } }",
      DATA);
  enum { POINTS = 4000 };
  size_t ncols = model_output_count(m);
  double *u = NEW_ARRAY(&c->arena, double, POINTS * 3),
         *out = NEW_ARRAY(&c->arena, double, POINTS *ncols), mean = 0, square = 0;
  const double *at = test_point(c, 3, 9, 0.7);
  for (size_t i = 0; i < POINTS * 3; i++) u[i] = at[i % 3];
  model_outputs(c, m, &(ModelPoints){u, POINTS, 3, 1}, 1, out);
  for (size_t k = 3; k < 23; k++) assert_close(out[k], 0, 1e-7);
  for (size_t i = 0; i < POINTS; i++) {
    double t = out[i * ncols + 23];
    mean += t / POINTS;
    square += t * t / POINTS;
  }
  assert_true(fabs(mean) < 0.07 && fabs(square - 1) < 0.1);
}

static const struct Refused {
  const char *call, *message;
} refused[] = {
    {"laplace_marginal(normal_ll, (y, s), 3, K, (x, a, r))", "blocks of 3 do not divide"},
    {"laplace_marginal_poisson_log_lpmf(k | {1, 2, 3, 4, 5, 1}, m, 1, K, (x, a, r))",
     "every outcome needs an index from 1 to 4"},
    {"laplace_marginal_tol(normal_ll, (y, s), 1, K, (x, a, r), generate_laplace_options(3))",
     "the start has 3 elements"},
    {"laplace_marginal(normal_ll, (y, s, s), 1, K, (x, a, r))", "must be a function of a vector"},
    {"laplace_marginal(normal_ll, (y, s), 1, K, (x, a))", "must be a function of the items"},
};

static void make_refused(Ctx *c, void *call) {
  model_of(c, arena_format(&c->arena, HEAD "model { target += %s; }", (const char *)call), DATA);
}

TEST(refusals) {
  for (size_t k = 0; k < sizeof refused / sizeof *refused; k++) {
    assert_true(attempt(c, make_refused, (void *)refused[k].call) != PVI_OK);
    expect_message(c, refused[k].message);
    c->nerrors = 0;
  }
}

int main(void) {
  static Suite suite;
  for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++)
    suite_add(&suite, pairs[k].what, same, &pairs[k]);
  SUITE_ADD(&suite, tilde);
  SUITE_ADD(&suite, one_count);
  SUITE_ADD(&suite, latent);
  SUITE_ADD(&suite, refusals);
  return suite_run("laplace", &suite);
}
