/* test_q.c: q over all parameters, some of them points: made again from what a file holds of it,
 * its density at given points, its covariance; and the defaults of shapes. */
#include "objective.h"

#include "infer/q.h"
#include "num/rng.h"
#include "num/sobol.h"

enum { MOST = 12 };

typedef struct {
  const char *name;
  FamilyId family;
  size_t dim;
  Shape shape;
  bool points; /* parameters 1 and 4 */
} Row;

static const Row rows[] = {
    {"meanfield", FAMILY_meanfield, 5, {0}, false},
    {"meanfield, points", FAMILY_meanfield, 5, {0}, true},
    {"fullrank", FAMILY_fullrank, 12, {0}, false},
    {"fullrank, points", FAMILY_fullrank, 6, {0}, true},
    {"mixture", FAMILY_mixture, 3, {0}, false},
    {"mixture of 4, points", FAMILY_mixture, 7, {.components = 4}, true},
    {"lowrank", FAMILY_lowrank, 12, {0}, false},
    {"lowrank, few dimensions", FAMILY_lowrank, 2, {0}, false},
    {"lowrank of 2, points", FAMILY_lowrank, 8, {.rank = 2}, true},
    {"spline", FAMILY_spline, 3, {0}, false},
    {"spline, points", FAMILY_spline, 6, {.knots = 5}, true},
    {"flow", FAMILY_flow, 5, {0}, false},
    {"flow, one dimension", FAMILY_flow, 1, {0}, false},
    {"flow, points", FAMILY_flow, 6, {.layers = 3, .hidden = 5, .knots = 4}, true},
    {"realnvp", FAMILY_realnvp, 4, {0}, false},
    {"realnvp, points", FAMILY_realnvp, 6, {.hidden = 7}, true},
};
enum { ROWS = sizeof rows / sizeof *rows };

static const bool flags[MOST] = {[1] = true, [4] = true};

static Q q_of(Ctx *c, const Row *r) {
  return q_make(&c->arena, r->family, r->shape, r->dim, r->points ? flags : NULL);
}

/* Draws of q at some phi: theta[k ld + j] and their weights. */
typedef struct {
  Q *q;
  double *phi, *theta, *weight;
  size_t M;
  QDraws draws;
} Drawn;

static Drawn draw(Ctx *c, const Row *r, size_t M) {
  Drawn d = {.q = NEW(&c->arena, Q), .M = M};
  *d.q = q_of(c, r);
  d.phi = some_phi(c, d.q);
  d.theta = NEW_ARRAY(&c->arena, double, r->dim *M);
  d.draws = q_draws(&c->arena, d.q, M, M, kernels_best());
  sobol_normal(d.draws.u, q_noise(d.q), M, M, 3, false);
  q_draw(d.q, d.phi, &d.draws, d.theta);
  d.weight = NEW_ARRAY(&c->arena, double, M);
  for (size_t j = 0; j < M; j++)
    d.weight[j] = d.draws.weights ? d.draws.weights[j] : 1. / (double)M;
  return d;
}

/* Family, complete shape, dimension and flags are enough to make the same Q. */
TEST(made_again) {
  const Row *r = row;
  Q q = q_of(c, r), again = q_make(&c->arena, q.family, q.shape, q.dim, r->points ? flags : NULL);
  assert_memory_equal(&q.shape, &again.shape, sizeof q.shape);
  assert_int_equal(q.dim, again.dim);
  assert_int_equal(q.npoint, again.npoint);
  assert_int_equal(q_size(&q), q_size(&again));
  for (size_t k = 0; k < q.npoint; k++) assert_int_equal(q.point[k], again.point[k]);
  for (size_t k = 0; q.free && k < q.shape.dim; k++) assert_int_equal(q.free[k], again.free[k]);
  for (int k = 0; k < SHAPE_FIELDS; k++) { /* every number that the family has is there */
    bool has = family_default(r->family, shape_fields[k].name);
    assert_true(!has || *shape_number(&q.shape, k) > 0);
  }
}

/* At q's own draws, in the place of which the points may be anything. */
TEST(density_at_draws) {
  const Row *r = row;
  enum { M = 208 };
  Drawn d = draw(c, r, M);
  double *point_major = NEW_ARRAY(&c->arena, double, r->dim *M), known[M], got[M];
  q_log_q(d.q, d.phi, &d.draws, known);
  for (size_t j = 0; j < M; j++)
    for (size_t k = 0; k < r->dim; k++)
      point_major[j * r->dim + k] = r->points && flags[k] ? 77 : d.theta[k * M + j];
  q_log_density(d.q, d.phi, point_major, M, got);
  for (size_t j = 0; j < M; j++) assert_close(got[j], known[j], 1e-9);
  double one;
  q_log_density(d.q, d.phi, point_major + 5 * r->dim, 1, &one);
  assert_true(one == got[5]);
}

TEST(density_far_away) {
  const Row *r = row;
  Drawn d = draw(c, r, LANES);
  double theta[4 * MOST] = {0}, l[4];
  theta[0] = INFINITY;
  theta[r->dim] = -INFINITY;
  theta[2 * r->dim] = NAN;
  theta[3 * r->dim] = 1e6;
  if (r->points) theta[1] = theta[2 * r->dim + 1] = NAN; /* points are not looked at */
  q_log_density(d.q, d.phi, theta, 4, l);
  assert_true(l[0] == -INFINITY && l[1] == -INFINITY && isnan(l[2]));
  assert_true(l[3] < -1e6);
}

/* exp log q integrates to one: importance sampling from a wider normal. */
TEST(density_integrates_to_one) {
  const Row *r = row;
  enum { M = 1 << 15 };
  Drawn d = draw(c, r, LANES);
  size_t n = d.q->shape.dim;
  if (n > 4) return; /* too many dimensions for it */
  double mean[MOST], sd[MOST], sum = 0;
  double *u = NEW_ARRAY(&c->arena, double, n *M), *l = NEW_ARRAY(&c->arena, double, M);
  double *theta = NEW_ARRAY(&c->arena, double, r->dim *M), *base = NEW_ARRAY(&c->arena, double, M);
  q_moments(d.q, d.phi, mean, sd);
  sobol_normal(u, n, M, M, 9, false);
  for (size_t j = 0; j < M; j++)
    for (size_t k = 0; k < n; k++) {
      size_t at = d.q->free ? d.q->free[k] : k;
      double wide = 1.5 * sd[at], z = u[k * M + j];
      theta[j * r->dim + at] = mean[at] + wide * z;
      base[j] -= 0.5 * z * z + log(wide) + 0.91893853320467274178;
    }
  q_log_density(d.q, d.phi, theta, M, l);
  for (size_t j = 0; j < M; j++) sum += exp(l[j] - base[j]) / M;
  assert_close(sum, 1, 0.02);
}

TEST(covariance_of_draws) {
  const Row *r = row;
  enum { M = 1 << 14 };
  Drawn d = draw(c, r, M);
  size_t dim = r->dim;
  double *cov = NEW_ARRAY(&c->arena, double, dim *dim), mean[MOST], sd[MOST];
  q_moments(d.q, d.phi, mean, sd);
  q_covariance(&c->arena, d.q, d.phi, cov);
  for (size_t i = 0; i < dim; i++)
    for (size_t k = 0; k < dim; k++) {
      double sum = 0;
      for (size_t j = 0; j < M; j++)
        sum += d.weight[j] * (d.theta[i * M + j] - mean[i]) * (d.theta[k * M + j] - mean[k]);
      assert_true(cov[i * dim + k] == cov[k * dim + i]);
      if (i == k) assert_close(cov[i * dim + i], sd[i] * sd[i], 1e-12);
      if (sd[i] == 0 || sd[k] == 0) {
        assert_true(cov[i * dim + k] == 0);
      } else {
        assert_close((cov[i * dim + k] - sum) / (sd[i] * sd[k]), 0, 0.02);
      }
    }
}

/* What a table of options may say of the defaults is what q_make does, in many dimensions. */
TEST(defaults) {
  for (int id = 0; id < FAMILY_COUNT; id++) {
    Shape s = family_shape((FamilyId)id, (Shape){.dim = 40});
    for (int k = 0; k < SHAPE_FIELDS; k++)
      assert_int_equal(*shape_number(&s, k), family_default((FamilyId)id, shape_fields[k].name));
  }
  assert_int_equal(family_default(FAMILY_spline, "knots"), 32);
  assert_int_equal(family_default(FAMILY_flow, "knots"), 8);
  assert_int_equal(family_default(FAMILY_flow, "layers"), 2);
  assert_int_equal(family_default(FAMILY_realnvp, "layers"), 4);
  assert_int_equal(family_default(FAMILY_realnvp, "hidden"), 16);
  assert_int_equal(family_default(FAMILY_mixture, "components"), 2);
  assert_int_equal(family_default(FAMILY_meanfield, "knots"), 0);
  assert_int_equal(family_default(FAMILY_meanfield, "nothing"), 0);
  assert_int_equal(family_shape(FAMILY_lowrank, (Shape){.dim = 3}).rank, 3);
  assert_int_equal(family_shape(FAMILY_flow, (Shape){.dim = 1}).knots, 32);
  assert_int_equal(family_shape(FAMILY_flow, (Shape){.dim = 9, .knots = 5}).knots, 5);
}

int main(void) {
  static Suite s;
  for (size_t k = 0; k < ROWS; k++) {
    suite_add(&s, rows[k].name, made_again, &rows[k]);
    suite_add(&s, rows[k].name, density_at_draws, &rows[k]);
    suite_add(&s, rows[k].name, density_far_away, &rows[k]);
    suite_add(&s, rows[k].name, density_integrates_to_one, &rows[k]);
    suite_add(&s, rows[k].name, covariance_of_draws, &rows[k]);
  }
  SUITE_ADD(&s, defaults);
  return suite_run("q", &s);
}
