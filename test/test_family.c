/* test_family.c: laws that every variational family obeys, for several shapes of each; then what single families promise. */
#include "testing.h"

#include "family/family.h"
#include "num/linalg.h"
#include "num/rng.h"
#include "num/sobol.h"

static const double HALF_LOG_2PI = 0.91893853320467274178;

/* ---- a family at some phi, with noise ----------------------------------------------------------------------------- */

typedef struct {
  const char *name;
  FamilyId id;
  Shape shape;
  bool exact; /* entropy and moments are formulas, not averages over draws */
} Case;

#define GAUSS(id) {#id " 1", FAMILY_##id, {.dim = 1}, true}, {#id " 2", FAMILY_##id, {.dim = 2}, true}, \
                  {#id " 5", FAMILY_##id, {.dim = 5}, true}, {#id " 12", FAMILY_##id, {.dim = 12}, true}
static const Case cases[] = {
    GAUSS(meanfield),
    GAUSS(fullrank),
    GAUSS(lowrank),
    {"lowrank 12, rank 1", FAMILY_lowrank, {.dim = 12, .rank = 1}, true},
    {"lowrank 2, rank 3", FAMILY_lowrank, {.dim = 2, .rank = 3}, true},
    {"mixture 1", FAMILY_mixture, {.dim = 1}, false},
    {"mixture 2", FAMILY_mixture, {.dim = 2}, false},
    {"mixture 5 of 3", FAMILY_mixture, {.dim = 5, .components = 3}, false},
    {"mixture 12 of 5", FAMILY_mixture, {.dim = 12, .components = 5}, false},
    {"mixture 2 of 1", FAMILY_mixture, {.dim = 2, .components = 1}, false},
    {"mixture 1 of 40, more than draws", FAMILY_mixture, {.dim = 1, .components = 40}, false},
};
enum { CASES = sizeof cases / sizeof *cases };

typedef struct {
  const Family *f;
  Shape s;
  size_t size;
  double *phi, *theta, *grad, *row;
  double *u;
  Noise n;
} Rig;

enum { PADDING = 2 * LANES }; /* lanes beyond the draws, at least */

/* phi at start with means and sds of all magnitudes, then every number moved by up to `jitter`. */
static Rig rig_make(Ctx *c, const Case *at, size_t M, double jitter, bool random) {
  Rig r = {.f = family_of(at->id), .s = family_shape(at->id, at->shape)};
  size_t ld = (M + PADDING + LANES - 1) / LANES * LANES, rows = r.f->noise(&r.s), dim = r.s.dim;
  uint64_t state = 17;
  double mean[dim], sd[dim];
  for (size_t k = 0; k < dim; k++) mean[k] = uniform(&state, -2, 2), sd[k] = exp(uniform(&state, -1, 1));
  r.size = r.f->size(&r.s);
  r.phi = NEW_ARRAY(&c->arena, double, r.size);
  r.grad = NEW_ARRAY(&c->arena, double, r.size);
  r.theta = NEW_ARRAY(&c->arena, double, dim * ld);
  r.row = NEW_ARRAY(&c->arena, double, ld);
  r.u = NEW_ARRAY(&c->arena, double, rows * ld);
  r.f->start(r.phi, &r.s, mean, sd);
  for (size_t i = 0; i < r.size; i++) r.phi[i] += uniform(&state, -jitter, jitter);
  for (size_t k = 0; random && k < rows; k++) rng_fill_normal(rng_make(3, 0), 0, k, r.u + k * ld, ld);
  if (!random) sobol_normal(r.u, rows, M, ld, 3, false);
  r.n = (Noise){.M = M, .ld = ld, .u = r.u, .k = kernels_best()};
  if (r.f->scratch) {
    size_t room = r.f->scratch(&r.s, ld);
    r.n.scratch = NEW_ARRAY(&c->arena, double, room);
    for (size_t i = 0; i < room; i++) r.n.scratch[i] = NAN; /* nothing may rely on what was there */
  }
  return r;
}

/* Noise points to the shape, which moved with the Rig. */
#define RIG(r, c, at, M, jitter, random)                                                                                       \
  Rig r = rig_make(c, at, M, jitter, random);                                                                                  \
  r.n.shape = &r.s

static void weights_of(const Rig *r, double *w) {
  for (size_t j = 0; j < r->n.M; j++) w[j] = 1 / (double)r->n.M;
  if (r->f->weights) r->f->weights(r->phi, &r->n, w);
}

/* ---- gradients against differences -------------------------------------------------------------------------------- */

typedef double Value(Rig *r, const double *coefficients);

static double along(Rig *r, const double *phi, const double *direction, double t, Value *value, const double *coefficients) {
  for (size_t i = 0; i < r->size; i++) r->phi[i] = phi[i] + t * direction[i];
  return value(r, coefficients);
}

/* The derivative of value along single numbers of phi, at most `LONE` of them, and along directions of all. */
static void check_gradient(Ctx *c, Rig *r, Value *value, const double *coefficients, const double *grad, double tolerance) {
  enum { LONE = 80, ALL = 5 };
  size_t step = r->size / LONE + 1;
  double *phi = NEW_ARRAY(&c->arena, double, r->size), *direction = NEW_ARRAY(&c->arena, double, r->size), h = 1e-4;
  uint64_t state = 23;
  memcpy(phi, r->phi, r->size * sizeof *phi);
  for (size_t i = 0; i < r->size + ALL * step; i += step) {
    double expected = 0, f[4];
    for (size_t k = 0; k < r->size; k++)
      direction[k] = i < r->size ? (double)(k == i) : uniform(&state, -1, 1) / sqrt((double)r->size);
    for (size_t k = 0; k < r->size; k++) expected += direction[k] * grad[k];
    for (int p = 0; p < 4; p++) f[p] = along(r, phi, direction, (double[]){-2 * h, -h, h, 2 * h}[p], value, coefficients);
    assert_close(difference(f, h), expected, tolerance);
  }
  memcpy(r->phi, phi, r->size * sizeof *phi);
}

static double sum_theta(Rig *r, const double *coefficients) {
  double sum = 0;
  r->f->draw(r->phi, &r->n, r->theta);
  for (size_t k = 0; k < r->s.dim; k++)
    for (size_t j = 0; j < r->n.M; j++) sum += coefficients[k * r->n.ld + j] * r->theta[k * r->n.ld + j];
  return sum;
}
static double sum_weights(Rig *r, const double *coefficients) {
  double sum = 0;
  r->f->weights(r->phi, &r->n, r->row);
  for (size_t j = 0; j < r->n.M; j++) sum += coefficients[j] * r->row[j];
  return sum;
}
static double entropy_value(Rig *r, const double *coefficients) {
  (void)coefficients;
  return r->f->entropy(r->phi, &r->n, 0, r->grad);
}

/* Random numbers for the draws; nan in the padding, which no sum may touch. */
static double *coefficients_of(Ctx *c, const Rig *r, size_t rows) {
  double *a = NEW_ARRAY(&c->arena, double, rows * r->n.ld);
  uint64_t state = 29;
  for (size_t i = 0; i < rows * r->n.ld; i++) a[i] = i % r->n.ld < r->n.M ? uniform(&state, -1, 1) : NAN;
  return a;
}

enum { FEW = 21 }; /* draws */

TEST(adjoint_is_the_derivative_of_draws) {
  RIG(r, c, row, FEW, 0.3, true);
  double *a = coefficients_of(c, &r, r.s.dim);
  for (size_t i = 0; i < r.size; i++) r.grad[i] = 7; /* it adds */
  r.f->adjoint(r.phi, &r.n, a, NULL, r.grad);
  for (size_t i = 0; i < r.size; i++) r.grad[i] -= 7;
  double *grad = memcpy(NEW_ARRAY(&c->arena, double, r.size), r.grad, r.size * sizeof *grad);
  check_gradient(c, &r, sum_theta, a, grad, 1e-7);
}

TEST(adjoint_is_the_derivative_of_weights) {
  RIG(r, c, row, FEW, 0.3, true);
  double *a = coefficients_of(c, &r, 1), *none = NEW_ARRAY(&c->arena, double, r.s.dim * r.n.ld), total = 0;
  if (!r.f->weights) return;
  r.f->weights(r.phi, &r.n, r.row);
  for (size_t j = 0; j < r.n.M; j++) total += r.row[j];
  assert_close(total, 1, 1e-13);
  r.f->adjoint(r.phi, &r.n, none, a, r.grad);
  check_gradient(c, &r, sum_weights, a, r.grad, 1e-8);
}

TEST(entropy_has_its_gradient) {
  RIG(r, c, row, FEW, 0.3, true);
  double h = r.f->entropy(r.phi, &r.n, 0, r.grad);
  for (size_t i = 0; i < r.size; i++) assert_true(r.grad[i] == 0);
  double *grad = NEW_ARRAY(&c->arena, double, r.size);
  for (size_t i = 0; i < r.size; i++) grad[i] = 7;
  assert_true(h == r.f->entropy(r.phi, &r.n, 3, grad));
  for (size_t i = 0; i < r.size; i++) grad[i] = (grad[i] - 7) / 3;
  check_gradient(c, &r, entropy_value, NULL, grad, 1e-7);
}

/* ---- densities ---------------------------------------------------------------------------------------------------- */

/* The weighted mean of -log q over the draws: the entropy, up to the error of |u|^2 / 2 over them. */
TEST(entropy_is_minus_mean_log_q) {
  RIG(r, c, row, 4096, 0.3, false);
  double *w = NEW_ARRAY(&c->arena, double, r.n.ld), mean = 0;
  r.f->log_q(r.phi, &r.n, r.row);
  weights_of(&r, w);
  for (size_t j = 0; j < r.n.M; j++) mean -= w[j] * r.row[j];
  assert_close(mean, r.f->entropy(r.phi, &r.n, 0, r.grad), r.f->weights ? 1e-12 : 2e-3);
}

/* log |det d theta / d u| of draw j, by differences of the map. */
static double numerical_log_det(Rig *r, size_t j) {
  size_t dim = r->s.dim, ld = r->n.ld, pivot[dim];
  double J[dim * dim], f[dim][4], h = 1e-4, log_det = 0;
  int sign;
  for (size_t i = 0; i < dim; i++) {
    double u = r->u[i * ld + j];
    for (int p = 0; p < 4; p++) {
      r->u[i * ld + j] = u + (double[]){-2 * h, -h, h, 2 * h}[p];
      r->f->draw(r->phi, &r->n, r->theta);
      for (size_t k = 0; k < dim; k++) f[k][p] = r->theta[k * ld + j];
    }
    r->u[i * ld + j] = u;
    for (size_t k = 0; k < dim; k++) J[k * dim + i] = difference(f[k], h);
  }
  assert_true(la_lu(J, pivot, &sign, dim));
  for (size_t k = 0; k < dim; k++) log_det += log(fabs(J[k * dim + k]));
  return log_det;
}

static double log_normal(const double *u, size_t dim) {
  double l = -(double)dim * HALF_LOG_2PI;
  for (size_t k = 0; k < dim; k++) l -= 0.5 * u[k] * u[k];
  return l;
}

/* Families that are one map of as many numbers: its inverse gives u back, and log q is the change of variables. */
TEST(inverse_and_jacobian) {
  const Case *at = row;
  RIG(r, c, at, FEW, 0.3, true);
  size_t dim = r.s.dim, ld = r.n.ld;
  double theta[dim], u[dim], base[dim], log_det;
  if (!r.f->inverse) {
    assert_false(family_inverse(at->id, r.phi, &r.s, theta, u, &log_det));
    return;
  }
  r.f->log_q(r.phi, &r.n, r.row);
  for (size_t j = 0; j < r.n.M; j++) {
    r.f->draw(r.phi, &r.n, r.theta);
    for (size_t k = 0; k < dim; k++) theta[k] = r.theta[k * ld + j], base[k] = r.u[k * ld + j];
    assert_true(family_inverse(at->id, r.phi, &r.s, theta, u, &log_det));
    for (size_t k = 0; k < dim; k++) assert_close(u[k], base[k], 1e-9);
    assert_close(r.row[j], log_normal(u, dim) - log_det, 1e-9);
    if (dim <= 5) assert_close(log_det, numerical_log_det(&r, j), 1e-6);
  }
}

/* ---- moments ------------------------------------------------------------------------------------------------------ */

static void draw_moments(const Rig *r, double *mean, double *sd) {
  double w[r->n.ld];
  weights_of(r, w);
  r->f->draw(r->phi, &r->n, r->theta);
  for (size_t k = 0; k < r->s.dim; k++) {
    const double *x = r->theta + k * r->n.ld;
    double v = 0;
    mean[k] = 0;
    for (size_t j = 0; j < r->n.M; j++) mean[k] += w[j] * x[j];
    for (size_t j = 0; j < r->n.M; j++) v += w[j] * (x[j] - mean[k]) * (x[j] - mean[k]);
    sd[k] = sqrt(v);
  }
}

TEST(start_has_the_moments_asked_for) {
  const Case *at = row;
  RIG(r, c, at, 4096, 0, false);
  size_t dim = r.s.dim;
  double mean[dim], sd[dim], m[dim], s[dim];
  for (size_t k = 0; k < dim; k++) mean[k] = (double)k - 1, sd[k] = 0.1 + (double)k;
  r.f->start(r.phi, &r.s, mean, sd);
  r.f->moments(r.phi, &r.s, m, s);
  double tolerance = at->exact || r.f->weights ? 1e-12 : 3e-3;
  for (size_t k = 0; k < dim; k++) {
    assert_close(m[k], mean[k], tolerance);
    assert_close(s[k] / sd[k], 1, tolerance);
  }
  draw_moments(&r, m, s);
  for (size_t k = 0; k < dim; k++) {
    assert_close((m[k] - mean[k]) / sd[k], 0, 1e-2);
    assert_close(s[k] / sd[k], 1, 1e-2);
  }
}

TEST(moments_are_those_of_draws) {
  RIG(r, c, row, 16384, 0.3, false);
  size_t dim = r.s.dim;
  double mean[dim], sd[dim], m[dim], s[dim];
  r.f->moments(r.phi, &r.s, mean, sd);
  draw_moments(&r, m, s);
  for (size_t k = 0; k < dim; k++) {
    assert_close((m[k] - mean[k]) / sd[k], 0, 1e-2);
    assert_close(s[k] / sd[k], 1, 1e-2);
  }
}

/* ---- form --------------------------------------------------------------------------------------------------------- */

TEST(parts_cover_phi_in_order) {
  const Case *at = row;
  const Family *f = family_of(at->id);
  Shape s = family_shape(at->id, at->shape);
  FamilyPart part[FAMILY_PARTS];
  size_t next = 0;
  int n = f->parts(&s, part);
  assert_in_range(n, 1, FAMILY_PARTS);
  for (int k = 0; k < n; k++) {
    assert_int_equal(part[k].offset, next);
    next += part[k].rows * part[k].cols;
  }
  assert_int_equal(next, f->size(&s));
}

/* All lanes are drawn, and the numbers are the same in every instruction set up to rounding, and in every call to the bit. */
TEST(draws_fill_all_lanes_and_repeat) {
  RIG(r, c, row, FEW, 0.3, true);
  size_t count = r.s.dim * r.n.ld;
  for (size_t i = 0; i < count; i++) r.theta[i] = NAN;
  r.f->draw(r.phi, &r.n, r.theta);
  double *first = memcpy(NEW_ARRAY(&c->arena, double, count), r.theta, count * sizeof *first);
  for (size_t i = 0; i < count; i++) assert_true(isfinite(first[i]));
  r.f->draw(r.phi, &r.n, r.theta);
  assert_memory_equal(first, r.theta, count * sizeof *first);
  r.n.k = kernels_named("base");
  r.f->draw(r.phi, &r.n, r.theta);
  for (size_t i = 0; i < count; i++) assert_close(first[i], r.theta[i], 1e-12);
}

TEST(scales_are_positive) {
  RIG(r, c, row, FEW, 0.3, true);
  if (!r.f->scale) return;
  r.f->scale(r.phi, &r.s, r.grad);
  for (size_t i = 0; i < r.size; i++) assert_true(r.grad[i] > 0 && isfinite(r.grad[i]));
}

/* ---- lowrank: against the dense covariance ------------------------------------------------------------------------ */

static void check_lowrank(Ctx *c, double wide) {
  enum { DIM = 12, RANK = 3 };
  RIG(r, c, (&(Case){"", FAMILY_lowrank, {.dim = DIM, .rank = RANK}, true}), FEW, 0.3, true);
  double S[DIM * DIM], L[DIM * DIM], x[DIM], *B = r.phi + 2 * DIM;
  for (size_t i = 0; i < DIM * RANK; i++) B[i] *= wide;
  for (size_t i = 0; i < DIM; i++)
    for (size_t j = 0; j < DIM; j++)
      S[i * DIM + j] = (i == j ? exp(2 * r.phi[DIM + i]) : 0) + la_dot(B + i * RANK, B + j * RANK, RANK);
  assert_true(la_cholesky(S, L, DIM));
  double log_det = la_log_det_cholesky(L, DIM);
  assert_close(r.f->entropy(r.phi, &r.n, 0, r.grad), DIM * (0.5 + HALF_LOG_2PI) + 0.5 * log_det, 1e-12);
  r.f->draw(r.phi, &r.n, r.theta);
  r.f->log_q(r.phi, &r.n, r.row);
  for (size_t j = 0; j < r.n.M; j++) {
    for (size_t i = 0; i < DIM; i++) x[i] = r.theta[i * r.n.ld + j] - r.phi[i];
    la_solve_lower(L, x, x, DIM);
    assert_close(r.row[j], log_normal(x, DIM) - 0.5 * log_det, wide > 10 ? 1e-6 : 1e-11);
  }
}
TEST(lowrank_is_the_dense_normal) {
  check_lowrank(c, 1);
  check_lowrank(c, 1e4); /* nearly singular */
}

/* ---- mixture ------------------------------------------------------------------------------------------------------ */

TEST(mixture_density_by_hand) {
  RIG(r, c, (&(Case){"", FAMILY_mixture, {.dim = 2, .components = 3}, false}), FEW, 0.5, true);
  r.f->draw(r.phi, &r.n, r.theta);
  r.f->log_q(r.phi, &r.n, r.row);
  double total = exp(r.phi[0]) + exp(r.phi[1]) + exp(r.phi[2]);
  for (size_t j = 0; j < r.n.M; j++) {
    double q = 0;
    for (size_t k = 0; k < 3; k++) {
      double p = exp(r.phi[k]) / total;
      for (size_t d = 0; d < 2; d++) {
        double s = exp(r.phi[9 + 2 * k + d]), z = (r.theta[d * r.n.ld + j] - r.phi[3 + 2 * k + d]) / s;
        p *= exp(-0.5 * z * z - HALF_LOG_2PI) / s;
      }
      q += p;
    }
    assert_close(r.row[j], log(q), 1e-12);
  }
}

/* Every component's own draws are as well spread as a Sobol set of their number. */
TEST(mixture_strata_are_well_spread) {
  for (size_t C = 2; C <= 4; C++) {
    RIG(r, c, (&(Case){"", FAMILY_mixture, {.dim = 2, .components = C}, false}), 1024, 0, false);
    memset(r.phi, 0, r.size * sizeof *r.phi); /* all standard */
    r.f->draw(r.phi, &r.n, r.theta);
    for (size_t k = 0; k < 2 * C; k++) {
      double sum = 0, squares = 0, count = 0;
      for (size_t j = k % C; j < r.n.M; j += C, count++) {
        double x = r.theta[k / C * r.n.ld + j];
        sum += x;
        squares += x * x;
      }
      assert_close(sum / count, 0, 0.02);
      assert_close(squares / count, 1, 0.05);
    }
  }
}

/* ---- all ---------------------------------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  CMUnitTestFunction run;
} laws[] = {
#define LAW(f) {#f, f}
    LAW(adjoint_is_the_derivative_of_draws), LAW(adjoint_is_the_derivative_of_weights), LAW(entropy_has_its_gradient),
    LAW(entropy_is_minus_mean_log_q), LAW(inverse_and_jacobian), LAW(start_has_the_moments_asked_for),
    LAW(moments_are_those_of_draws), LAW(parts_cover_phi_in_order), LAW(draws_fill_all_lanes_and_repeat),
    LAW(scales_are_positive),
};

int main(void) {
  static Suite s;
  static char names[sizeof laws / sizeof *laws][CASES][100];
  for (size_t l = 0; l < sizeof laws / sizeof *laws; l++)
    for (size_t k = 0; k < CASES; k++) {
      snprintf(names[l][k], sizeof names[l][k], "%s: %s", cases[k].name, laws[l].name);
      suite_add(&s, names[l][k], laws[l].run, &cases[k]);
    }
  SUITE_ADD(&s, lowrank_is_the_dense_normal);
  SUITE_ADD(&s, mixture_density_by_hand);
  SUITE_ADD(&s, mixture_strata_are_well_spread);
  return suite_run("family", &s);
}
