/* test_oracle.c: log densities, gradients and constrained values of test/models against real Stan
 * (../shared/oracle), and the example programs against numbers computed independently. */
#include "evaluate.h"

/* ---- test/models against Stan ---------------------------------------------------------------- */

static double number_at(Ctx *c, const Json *object, const char *key) {
  const Json *j = json_get(object, key);
  size_t n;
  const Json *bad;
  double *v = j ? json_flatten(c, j, &n, &bad) : NULL;
  if (!v) fail_msg("no number %s", key);
  return v[0];
}

static double norm(const double *a, const double *b, size_t n) {
  double s = 0;
  for (size_t k = 0; k < n; k++) s += (a[k] - (b ? b[k] : 0)) * (a[k] - (b ? b[k] : 0));
  return sqrt(s);
}

static double relative(double got, double want) {
  return fabs(got - want) / fmax(fabs(want), 1e-300);
}

/* Points that Stan itself can evaluate: their number, their places, and all their coordinates. */
static size_t finite_points(Ctx *c, const Json *points, const Json **at, double *u, size_t dim) {
  size_t count = 0;
  for (size_t k = 0; k < points->count; k++) {
    if (!json_get(points->items[k], "lp_jac") ||
        !isfinite(number_at(c, points->items[k], "lp_jac")))
      continue;
    const Json *v = json_get(points->items[k], "u");
    assert_int_equal(v->n, dim);
    memcpy(u + count * dim, v->values, dim * sizeof *u);
    at[count++] = points->items[k];
  }
  return count;
}

static void compare_point(Ctx *c, const Json *want, const DensityAt *got) {
  double lp = number_at(c, want, "lp_jac");
  const double *grad = json_get(want, "grad")->values;
  if (!(relative(got->lp, lp) < 1e-9)) fail_msg("lp %.17g, not %.17g", got->lp, lp);
  double off = norm(got->grad, grad, got->dim) / norm(grad, NULL, got->dim);
  if (!(off < 1e-9)) fail_msg("gradient off by %.2g", off);
  double nojac = number_at(c, want, "lp_nojac");
  if (!(relative(got->lp - got->jacobian, nojac) < 1e-9))
    fail_msg("without Jacobian %.17g, not %.17g", got->lp - got->jacobian, nojac);
  double sum = 0, most = 0;
  for (size_t i = 0; i < got->n_obs; i++) sum += got->pointwise[i], most += fabs(got->pointwise[i]);
  if (!(fabs(sum - (lp - got->prior - got->jacobian)) <= 1e-10 * fmax(most, fabs(lp))))
    fail_msg("observations sum to %.17g, not %.17g", sum, lp - got->prior - got->jacobian);
}

/* Parameters on the scale of the program, by the names and in the order of CmdStan. */
static void compare_constrained(Ctx *c, const Model *m, const Json *want, const double *u) {
  double *out = NEW_ARRAY(&c->arena, double, model_output_count(m));
  model_outputs(c, m, &(ModelPoints){u, 1, m->dim, 1}, 1, out);
  for (size_t k = 0; k < model_output_count(m); k++) {
    if (!model_output_is_parameter(m, k)) continue;
    const char *name = model_output_name(m, &c->arena, k, true);
    double x = number_at(c, want, name);
    if (!(distance(out[k], x) < 1e-12)) fail_msg("%s is %.17g, not %.17g", name, out[k], x);
  }
}

/* `inner`: of every point, the results under this name; NULL: the point's own. */
static const Model *compare_with(Ctx *c, const char *data, const char *model, size_t n_obs,
                                 const char *inner) {
  NEED_SHARED(c, "oracle");
  Arena *a = &c->arena;
  const char *oracle = shared_path(a, arena_format(a, "oracle/%s-%s.json", data, model));
  Json *j = json_read_file(c, oracle, JSON_PLAIN);
  const Json *points = json_get(j, "points");
  Model *m = model_of_files(c, arena_format(a, "test/models/%s.stan", model),
                            shared_path(a, arena_format(a, "data/posteriordb/%s.json", data)));
  assert_int_equal(m->dim, number_at(c, j, "n_unc"));
  assert_int_equal(m->n_obs, n_obs);
  double *u = NEW_ARRAY(a, double, points->count * m->dim);
  const Json **at = NEW_ARRAY(a, const Json *, points->count);
  size_t count = finite_points(c, points, at, u, m->dim);
  assert_true(count >= 2);
  DensityAt *d = densities(c, m, u, count);
  for (size_t k = 0; k < count; k++)
    compare_point(c, inner ? json_get(at[k], inner) : at[k], &d[k]);
  const Json *constrained = json_get(points->items[0], "constrained");
  if (constrained) compare_constrained(c, m, constrained, json_get(points->items[0], "u")->values);
  return m;
}

static const Model *compare(Ctx *c, const char *data, const char *model, size_t n_obs) {
  return compare_with(c, data, model, n_obs, NULL);
}

/* Loops as long as the data must have become vectors. */
static void all_long_loops_lifted(const Model *m) {
  size_t found = 0;
  for (size_t k = 0; k < m->nloops; k++) {
    if (m->loops[k].iterations < (long)m->n_obs) continue;
    found++;
    if (!m->loops[k].lifted)
      fail_msg("line %u is not lifted: %s", m->loops[k].loc.line, m->loops[k].why);
  }
  assert_true(found > 0);
}

TEST(logearn_interaction) {
  all_long_loops_lifted(compare(c, "earnings", "logearn_interaction", 1192));
}
TEST(kidscore_interaction) { compare(c, "kidiq", "kidscore_interaction", 434); }
TEST(nes) { all_long_loops_lifted(compare(c, "nes2000", "nes", 476)); }
TEST(wells_dae_inter) {
  all_long_loops_lifted(compare(c, "wells_data", "wells_dae_inter_model", 3020));
}
TEST(radon_variable_intercept_slope) {
  all_long_loops_lifted(compare(c, "radon_all", "radon_variable_intercept_slope_centered", 12573));
}
TEST(election88_full) { all_long_loops_lifted(compare(c, "election88", "election88_full", 11566)); }
TEST(GLMM1) { compare(c, "GLMM_data", "GLMM1_model", 2072); }
TEST(GLMM_Poisson) { compare(c, "GLMM_Poisson_data", "GLMM_Poisson_model", 40); }
TEST(eight_schools_centered) { compare(c, "eight_schools", "eight_schools_centered", 8); }
TEST(eight_schools_noncentered) { compare(c, "eight_schools", "eight_schools_noncentered", 8); }
TEST(diamonds) { compare(c, "diamonds", "diamonds", 5000); }
TEST(low_dim_gauss_mix) {
  all_long_loops_lifted(compare(c, "low_dim_gauss_mix", "low_dim_gauss_mix", 1000));
}
TEST(garch11) { compare(c, "garch", "garch11", 200); }
TEST(hmm_example) { compare(c, "hmm_example", "hmm_example", 1); }
TEST(lotka_volterra) { compare(c, "hudson_lynx_hare", "lotka_volterra", 42); }
TEST(sir) { compare(c, "sir", "sir", 20); }
/* Our method for stiff equations is not Stan's: compared with Stan at tolerances of 1e-12, from
 * which its own result differs by 2e-9, and 1e-8 in the gradient. */
TEST(one_comp_mm_elim_abs) {
  compare_with(c, "one_comp_mm_elim_abs", "one_comp_mm_elim_abs", 20, "ode_tight");
}
TEST(gp_regr) { compare(c, "gp_pois_regr", "gp_regr", 1); }
TEST(hierarchical_gp) {
  all_long_loops_lifted(compare(c, "state_wide_presidential_votes", "hierarchical_gp", 550));
}
TEST(dogs_nonhierarchical) { compare(c, "dogs", "dogs_nonhierarchical", 30); }

/* ---- the examples ---------------------------------------------------------------------------- */

/* At the point of seed 1 and radius 1: log prior (with whatever Jacobian the program adds), sum
 * over the observations, and the seventh of them; computed once, in another language, from the
 * formulas. */
static const struct {
  const char *model, *data;
  size_t dim, n_obs;
  double prior, likelihood, seventh;
} papers[] = {
    {"earnings", "earnings", 5, 1192, -5.1804627253824096, -65104.079185549264,
     -73.295501146261429},
    {"kidscore", "kidiq", 5, 434, -4.9978597356038206, -1307750.493589215, -1795.8686504989837},
    {"nes", "nes2000", 10, 476, -9.7709644430411373, -1064.1250176504839, -1.9626843823680391},
    {"wells", "wells_data", 7, 3020, -7.4413507771943559, -2302.1152753080028,
     -0.24875079835116373},
    {"radon", "radon_all", 777, 12573, -1295.3060732484498, -24117.012990377159,
     -1.3527601188353229},
    {"election", "election88", 90, 11566, -133.99103552880609, -11387.759224541145,
     -0.15421655085129451},
    {"glmm", "GLMM_data", 247, 2072, -223.11241768339889, -72337.660027093429, -2.4727554034865591},
};

TEST(examples_of_the_paper) {
  NEED_SHARED(c, "data/posteriordb");
  for (size_t k = 0; k < sizeof papers / sizeof *papers; k++) {
    Model *m =
        model_of_files(c, arena_format(&c->arena, "examples/paper/%s.stan", papers[k].model),
                       shared_path(&c->arena, arena_format(&c->arena, "data/posteriordb/%s.json",
                                                           papers[k].data)));
    assert_int_equal(m->dim, papers[k].dim);
    assert_int_equal(m->n_obs, papers[k].n_obs);
    DensityAt d = density(c, m, test_point(c, m->dim, 1, 1));
    assert_close(d.prior + d.jacobian, papers[k].prior, 1e-12);
    assert_close(d.likelihood, papers[k].likelihood, 1e-12);
    assert_close(d.pointwise[6], papers[k].seventh, 1e-12);
    for (size_t i = 0; i < m->nloops; i++) assert_true(m->loops[i].lifted);
  }
}

/* Golf at the maximum likelihood: the values of the literature, and a gradient of zero. */
TEST(golf_logistic) {
  Model *m = model_of_files(c, "examples/golf/logistic.stan", "examples/golf/golf.csv");
  assert_int_equal(m->n_obs, 19);
  double u[2] = {-0.2557, 2.2312};
  DensityAt d = density(c, m, u);
  assert_true(fabs(d.likelihood + 180.96) < 0.01);
  assert_close(d.prior, -0.5 * (u[0] * u[0] + u[1] * u[1]) - log(2 * M_PI), 1e-14);
}

TEST(golf_geometric) {
  Model *m = model_of_files(c, "examples/golf/geometric.stan", "examples/golf/golf.csv");
  assert_int_equal(m->n_obs, 19);
  double u[1] = {log(0.02665)};
  DensityAt d = density(c, m, u);
  assert_true(fabs(d.likelihood + 83.45) < 0.01);
  assert_true(fabs(d.grad[0] + u[0]) <
              1); /* of the likelihood alone: small beside its curvature of several thousand */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(logearn_interaction),
      cmocka_unit_test(kidscore_interaction),
      cmocka_unit_test(nes),
      cmocka_unit_test(wells_dae_inter),
      cmocka_unit_test(radon_variable_intercept_slope),
      cmocka_unit_test(election88_full),
      cmocka_unit_test(GLMM1),
      cmocka_unit_test(GLMM_Poisson),
      cmocka_unit_test(eight_schools_centered),
      cmocka_unit_test(eight_schools_noncentered),
      cmocka_unit_test(diamonds),
      cmocka_unit_test(low_dim_gauss_mix),
      cmocka_unit_test(garch11),
      cmocka_unit_test(hmm_example),
      cmocka_unit_test(lotka_volterra),
      cmocka_unit_test(sir),
      cmocka_unit_test(one_comp_mm_elim_abs),
      cmocka_unit_test(gp_regr),
      cmocka_unit_test(hierarchical_gp),
      cmocka_unit_test(dogs_nonhierarchical),
      cmocka_unit_test(examples_of_the_paper),
      cmocka_unit_test(golf_logistic),
      cmocka_unit_test(golf_geometric),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
