/* test_family.c: laws that every variational family obeys, for several shapes of each; then what
 * single families promise. */
#include "testing.h"

#include "family/family.h"
#include "family/rqs.h"
#include "infer/optim.h"
#include "num/linalg.h"
#include "num/rng.h"
#include "num/sobol.h"
#include "num/stats.h"

static const double HALF_LOG_2PI = 0.91893853320467274178;

/* ---- a family at some phi, with noise -------------------------------------------------------- */

typedef struct {
  const char *name;
  FamilyId id;
  Shape shape;
  bool exact; /* entropy and moments are formulas, not averages over draws */
} Case;

static const Case cases[] = {
    {"meanfield 1", FAMILY_meanfield, {.dim = 1}, true},
    {"meanfield 2", FAMILY_meanfield, {.dim = 2}, true},
    {"meanfield 5", FAMILY_meanfield, {.dim = 5}, true},
    {"meanfield 12", FAMILY_meanfield, {.dim = 12}, true},
    {"fullrank 1", FAMILY_fullrank, {.dim = 1}, true},
    {"fullrank 2", FAMILY_fullrank, {.dim = 2}, true},
    {"fullrank 5", FAMILY_fullrank, {.dim = 5}, true},
    {"fullrank 12", FAMILY_fullrank, {.dim = 12}, true},
    {"lowrank 1", FAMILY_lowrank, {.dim = 1}, true},
    {"lowrank 2", FAMILY_lowrank, {.dim = 2}, true},
    {"lowrank 5", FAMILY_lowrank, {.dim = 5}, true},
    {"lowrank 12", FAMILY_lowrank, {.dim = 12}, true},
    {"lowrank 12, rank 1", FAMILY_lowrank, {.dim = 12, .rank = 1}, true},
    {"lowrank 2, rank 3", FAMILY_lowrank, {.dim = 2, .rank = 3}, true},
    {"mixture 1", FAMILY_mixture, {.dim = 1}, false},
    {"mixture 2", FAMILY_mixture, {.dim = 2}, false},
    {"mixture 5 of 3", FAMILY_mixture, {.dim = 5, .components = 3}, false},
    {"mixture 12 of 5", FAMILY_mixture, {.dim = 12, .components = 5}, false},
    {"mixture 2 of 1", FAMILY_mixture, {.dim = 2, .components = 1}, false},
    {"mixture 1 of 40, more than draws", FAMILY_mixture, {.dim = 1, .components = 40}, false},
    {"spline 1", FAMILY_spline, {.dim = 1}, false},
    {"spline 2", FAMILY_spline, {.dim = 2}, false},
    {"spline 5, 9 knots", FAMILY_spline, {.dim = 5, .knots = 9}, false},
    {"spline 12, 3 knots", FAMILY_spline, {.dim = 12, .knots = 3}, false},
    {"spline 1, 1 knot", FAMILY_spline, {.dim = 1, .knots = 1}, false},
    {"flow 1", FAMILY_flow, {.dim = 1}, false},
    {"flow 2", FAMILY_flow, {.dim = 2}, false},
    {"flow 5, 3 layers", FAMILY_flow, {.dim = 5, .layers = 3, .hidden = 7, .knots = 5}, false},
    {"flow 12", FAMILY_flow, {.dim = 12, .layers = 2, .hidden = 4, .knots = 4}, false},
    {"realnvp 1", FAMILY_realnvp, {.dim = 1}, false},
    {"realnvp 2", FAMILY_realnvp, {.dim = 2}, false},
    {"realnvp 5", FAMILY_realnvp, {.dim = 5, .hidden = 7, .layers = 3}, false},
    {"realnvp 12", FAMILY_realnvp, {.dim = 12}, false},
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
  for (size_t k = 0; k < dim; k++)
    mean[k] = uniform(&state, -2, 2), sd[k] = exp(uniform(&state, -1, 1));
  r.size = r.f->size(&r.s);
  r.phi = NEW_ARRAY(&c->arena, double, r.size);
  r.grad = NEW_ARRAY(&c->arena, double, r.size);
  r.theta = NEW_ARRAY(&c->arena, double, dim *ld);
  r.row = NEW_ARRAY(&c->arena, double, ld);
  r.u = NEW_ARRAY(&c->arena, double, rows *ld);
  r.f->start(r.phi, &r.s, mean, sd);
  for (size_t i = 0; i < r.size; i++) r.phi[i] += uniform(&state, -jitter, jitter);
  for (size_t k = 0; random && k < rows; k++)
    rng_fill_normal(rng_make(3, 0), 0, k, r.u + k * ld, ld);
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
#define RIG(r, c, at, M, jitter, random)                                                           \
  Rig r = rig_make(c, at, M, jitter, random);                                                      \
  r.n.shape = &r.s

static void weights_of(const Rig *r, double *w) {
  for (size_t j = 0; j < r->n.M; j++) w[j] = 1 / (double)r->n.M;
  if (r->f->weights) r->f->weights(r->phi, &r->n, w);
}

/* ---- gradients against differences ----------------------------------------------------------- */

typedef double Value(Rig *r, const double *coefficients);

static double along(Rig *r, const double *phi, const double *direction, double t, Value *value,
                    const double *coefficients) {
  for (size_t i = 0; i < r->size; i++) r->phi[i] = phi[i] + t * direction[i];
  return value(r, coefficients);
}

/* The derivative of value along single numbers of phi, at most `LONE` of them, and along directions
 * of all. */
static void check_gradient(Ctx *c, Rig *r, Value *value, const double *coefficients,
                           const double *grad, double tolerance) {
  enum { LONE = 80, ALL = 5 };
  size_t step = r->size / LONE + 1;
  double *phi = NEW_ARRAY(&c->arena, double, r->size),
         *direction = NEW_ARRAY(&c->arena, double, r->size), h = 1e-4;
  uint64_t state = 23;
  memcpy(phi, r->phi, r->size * sizeof *phi);
  for (size_t i = 0; i < r->size + ALL * step; i += step) {
    double expected = 0, f[4];
    for (size_t k = 0; k < r->size; k++)
      direction[k] =
          i < r->size ? (double)(k == i) : uniform(&state, -1, 1) / sqrt((double)r->size);
    for (size_t k = 0; k < r->size; k++) expected += direction[k] * grad[k];
    for (int p = 0; p < 4; p++)
      f[p] = along(r, phi, direction, (double[]){-2 * h, -h, h, 2 * h}[p], value, coefficients);
    assert_close(difference(f, h), expected, tolerance);
  }
  memcpy(r->phi, phi, r->size * sizeof *phi);
}

static double sum_theta(Rig *r, const double *coefficients) {
  double sum = 0;
  r->f->draw(r->phi, &r->n, r->theta);
  for (size_t k = 0; k < r->s.dim; k++)
    for (size_t j = 0; j < r->n.M; j++)
      sum += coefficients[k * r->n.ld + j] * r->theta[k * r->n.ld + j];
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
  for (size_t i = 0; i < rows * r->n.ld; i++)
    a[i] = i % r->n.ld < r->n.M ? uniform(&state, -1, 1) : NAN;
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

/* The sum over all draws is the sum over parts of them, wherever a family cuts them into blocks. */
TEST(adjoint_adds_over_draws) {
  const Case *at = row;
  enum { ALL = 150, EACH = 50 };
  RIG(r, c, at, ALL, 0.3, true);
  RIG(part, c, at, EACH, 0.3, true);
  if (r.f->weights) return; /* there a draw's component depends on how many there are */
  double *a = coefficients_of(c, &r, r.s.dim),
         *b = NEW_ARRAY(&c->arena, double, r.s.dim *part.n.ld);
  r.f->adjoint(r.phi, &r.n, a, NULL, r.grad);
  for (size_t from = 0; from < ALL; from += EACH) {
    for (size_t k = 0; k < r.f->noise(&r.s); k++)
      memcpy(part.u + k * part.n.ld, r.u + k * r.n.ld + from, EACH * sizeof *part.u);
    for (size_t k = 0; k < r.s.dim; k++)
      memcpy(b + k * part.n.ld, a + k * r.n.ld + from, EACH * sizeof *b);
    r.f->adjoint(r.phi, &part.n, b, NULL, part.grad);
  }
  for (size_t i = 0; i < r.size; i++) assert_close(r.grad[i], part.grad[i], 1e-11);
}

TEST(adjoint_is_the_derivative_of_weights) {
  RIG(r, c, row, FEW, 0.3, true);
  double *a = coefficients_of(c, &r, 1), *none = NEW_ARRAY(&c->arena, double, r.s.dim *r.n.ld),
         total = 0;
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

/* ---- densities ------------------------------------------------------------------------------- */

/* The weighted mean of -log q over the draws: the entropy, up to the error of |u|^2 / 2 over them.
 */
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

/* Families that are one map of as many numbers: its inverse gives u back, and log q is the change
 * of variables. */
TEST(inverse_and_jacobian) {
  const Case *at = row;
  RIG(r, c, at, FEW, 0.3, true);
  size_t dim = r.s.dim, ld = r.n.ld;
  double theta[dim], u[dim], base[dim], log_det;
  if (!r.f->inverse) return;
  r.f->log_q(r.phi, &r.n, r.row);
  for (size_t j = 0; j < r.n.M; j++) {
    r.f->draw(r.phi, &r.n, r.theta);
    for (size_t k = 0; k < dim; k++) theta[k] = r.theta[k * ld + j], base[k] = r.u[k * ld + j];
    r.f->inverse(r.phi, &r.s, theta, u, &log_det);
    for (size_t k = 0; k < dim; k++) assert_close(u[k], base[k], 1e-9);
    assert_close(r.row[j], log_normal(u, dim) - log_det, 1e-9);
    if (dim <= 5) assert_close(log_det, numerical_log_det(&r, j), 1e-6);
  }
}

/* ---- moments --------------------------------------------------------------------------------- */

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
  const Case *at = row;
  RIG(r, c, at, 16384, 0.3, false);
  size_t dim = r.s.dim;
  double tolerance = at->exact ? 1e-2 : 3e-2;
  double mean[dim], sd[dim], m[dim], s[dim];
  r.f->moments(r.phi, &r.s, mean, sd);
  draw_moments(&r, m, s);
  for (size_t k = 0; k < dim; k++) {
    assert_close((m[k] - mean[k]) / sd[k], 0, tolerance);
    assert_close(s[k] / sd[k], 1, tolerance);
  }
}

/* ---- form ------------------------------------------------------------------------------------ */

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

/* All lanes are drawn, and the numbers are the same in every instruction set up to rounding, and in
 * every call to the bit. */
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
  r.f->scale(r.phi, &r.s, NULL, r.grad);
  for (size_t i = 0; i < r.size; i++) assert_true(r.grad[i] > 0 && isfinite(r.grad[i]));
}

/* Where a predictive q is a point, the posterior's sds say how far a step goes. */
TEST(scales_know_units) {
  RIG(r, c, row, FEW, 0.3, true);
  double unit[16], *wider = NEW_ARRAY(&c->arena, double, r.size);
  for (size_t k = 0; k < r.s.dim; k++) unit[k] = 1e3;
  if (!r.f->scale) return;
  r.f->scale(r.phi, &r.s, NULL, r.grad);
  r.f->scale(r.phi, &r.s, unit, wider);
  double most = 0;
  for (size_t i = 0; i < r.size; i++) {
    assert_true(wider[i] >= r.grad[i] && isfinite(wider[i]));
    most = fmax(most, wider[i]);
  }
  assert_true(most >= 1e4); /* a tenth of the unit, squared */
}

TEST(reaches_are_positive) {
  RIG(r, c, row, FEW, 0.3, true);
  r.f->reach(r.phi, &r.s, r.grad);
  for (size_t i = 0; i < r.size; i++) assert_true(r.grad[i] > 0 && isfinite(r.grad[i]));
}

/* One parameter is twice as wide, and moved; the others are as they were. */
TEST(stretch_changes_one_parameter) {
  const Case *at = row;
  RIG(r, c, at, FEW, 0.3, true);
  size_t dim = r.s.dim, k = dim / 2;
  double mean[dim], sd[dim], m[dim], s[dim];
  r.f->moments(r.phi, &r.s, mean, sd);
  r.f->stretch(r.phi, &r.s, k, 2, 0.7);
  r.f->moments(r.phi, &r.s, m, s);
  for (size_t i = 0; at->exact && i < dim; i++) {
    assert_close(m[i], mean[i] + (i == k ? 0.7 : 0), 1e-10);
    assert_close(s[i], sd[i] * (i == k ? 2 : 1), 1e-10);
  }
}

/* Beyond the limits of log sds nothing changes any more, neither draws nor entropy nor log q. */
TEST(log_sds_have_limits) {
  const Case *at = row;
  RIG(r, c, at, FEW, 0, true);
  size_t dim = r.s.dim, M = r.n.M;
  double mean[dim], sd[dim], entropy[2], *log_q = NEW_ARRAY(&c->arena, double, 2 * r.n.ld);
  for (int sign = -1; at->exact && sign <= 1; sign += 2) {
    for (int far = 0; far < 2; far++) {
      for (size_t k = 0; k < dim; k++)
        mean[k] = 0, sd[k] = exp(sign * (LOG_SD_LIMIT + 9 + 9 * far));
      r.f->start(r.phi, &r.s, mean, sd);
      if (at->id == FAMILY_lowrank) /* its other numbers are no logarithms */
        for (size_t i = 2 * dim; i < r.size; i++) r.phi[i] = 0;
      entropy[far] = r.f->entropy(r.phi, &r.n, 1, r.grad);
      r.f->log_q(r.phi, &r.n, log_q + (size_t)far * r.n.ld);
    }
    assert_close(entropy[0], entropy[1], 1e-12);
    for (size_t j = 0; j < M; j++) assert_close(log_q[j], log_q[r.n.ld + j], 1e-12);
  }
}

/* ---- lowrank: against the dense covariance --------------------------------------------------- */

static void check_lowrank(Ctx *c, double wide) {
  enum { DIM = 12, RANK = 3 };
  RIG(r, c, (&(Case){"", FAMILY_lowrank, {.dim = DIM, .rank = RANK}, true}), FEW, 0.3, true);
  double S[DIM * DIM], L[DIM * DIM], x[DIM], *B = r.phi + 2 * DIM;
  for (size_t i = 0; i < DIM * RANK; i++) B[i] *= wide;
  for (size_t i = 0; i < DIM; i++)
    for (size_t j = 0; j < DIM; j++)
      S[i * DIM + j] =
          (i == j ? exp(2 * r.phi[DIM + i]) : 0) + la_dot(B + i * RANK, B + j * RANK, RANK);
  assert_true(la_cholesky(S, L, DIM));
  double log_det = la_log_det_cholesky(L, DIM);
  assert_close(r.f->entropy(r.phi, &r.n, 0, r.grad), DIM * (0.5 + HALF_LOG_2PI) + 0.5 * log_det,
               wide > 10 ? 1e-9 : 1e-12);
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
  check_lowrank(c, 1e4); /* nearly singular: the dense matrix loses half the digits */
}

/* ---- mixture --------------------------------------------------------------------------------- */

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
        double s = exp(r.phi[9 + 2 * k + d]),
               z = (r.theta[d * r.n.ld + j] - r.phi[3 + 2 * k + d]) / s;
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

/* ---- splines --------------------------------------------------------------------------------- */

enum { BINS = 7 };

/* A spline in lane 0, from wild raw parameters. */
static Knots wild_spline(Ctx *c, double wildness) {
  double *raw = NEW_ARRAY(&c->arena, double, rqs_raw(BINS) * LANES);
  Knots knots = rqs_place(BINS, LANES, NEW_ARRAY(&c->arena, double, rqs_room(BINS) * LANES));
  uint64_t state = 31;
  for (size_t i = 0; i < rqs_raw(BINS) * LANES; i++) raw[i] = uniform(&state, -wildness, wildness);
  rqs_knots(&knots, raw, LANES, kernels_best());
  return knots;
}

TEST(spline_is_monotone_and_inverts) {
  for (double wildness = 0; wildness < 9; wildness += 4) {
    Knots knots = wild_spline(c, wildness);
    double last = -INFINITY, there, back;
    for (double x = -4.5; x < 4.5; x += 1e-3) {
      double y = rqs_value(&knots, 0, x, &there);
      assert_true(y > last);
      assert_close(rqs_inverse(&knots, 0, y, &back), x, 1e-9);
      assert_close(there, back, 1e-7);
      if (wildness == 0) assert_close(y, x, 1e-14);
      last = y;
    }
  }
}

/* Value and slope from both sides of every knot; the ends are where the tails begin. */
TEST(spline_is_smooth_at_knots) {
  Knots knots = wild_spline(c, 3);
  for (size_t i = 0; i <= BINS; i++) {
    double x = knots.x[i * LANES], below, above, h = 1e-9;
    double y0 = rqs_value(&knots, 0, x - h, &below), y1 = rqs_value(&knots, 0, x + h, &above);
    assert_close(y0, knots.y[i * LANES], 1e-6);
    assert_close(y1, knots.y[i * LANES], 1e-6);
    assert_close(exp(below), knots.d[i * LANES], 1e-5);
    assert_close(exp(above), knots.d[i * LANES], 1e-5);
  }
  assert_true(knots.x[0] == -RQS_BOUND && knots.y[BINS * LANES] == RQS_BOUND);
  assert_true(knots.d[0] == 1 && knots.d[BINS * LANES] == 1);
}

/* In one dimension the two are the same function of the same phi. */
TEST(flow_in_one_dimension_is_spline) {
  RIG(s, c, (&(Case){"", FAMILY_spline, {.dim = 1}, false}), FEW, 0.7, true);
  RIG(f, c, (&(Case){"", FAMILY_flow, {.dim = 1}, false}), FEW, 0.7, true);
  assert_int_equal(s.size, f.size);
  s.f->draw(s.phi, &s.n, s.theta);
  f.f->draw(s.phi, &f.n, f.theta);
  for (size_t j = 0; j < s.n.ld; j++) assert_close(s.theta[j], f.theta[j], 1e-13);
  assert_close(s.f->entropy(s.phi, &s.n, 1, s.grad), f.f->entropy(s.phi, &f.n, 1, f.grad), 1e-13);
  for (size_t i = 0; i < s.size; i++) assert_close(s.grad[i], f.grad[i], 1e-13);
}

/* ---- flows recover distributions ------------------------------------------------------------- */

static OptimResult
maximise(Ctx *c, Rig *r, bool (*eval)(void *self, const double *phi, double *value, double *grad),
         void *self, long iterations) {
  OptimOptions o = optim_defaults(OPTIM_LBFGS);
  o.max_iterations = iterations;
  return optim_run(&c->arena, &(Objective){.dim = r->size, .self = self, .eval = eval}, r->phi, &o);
}

/* y_i ~ normal(theta_i, NOISE), theta_i from two normals. */
#define NOISE_SD 0.3
typedef struct {
  Rig *r;
  const double *y;
  size_t n;
  double *adj, *l, *w;
} Deconvolution;

static double bimodal(RngStream *rng) {
  return rngs_uniform(rng) < 0.4 ? -2 + 0.5 * rngs_normal(rng) : 1.5 + 0.7 * rngs_normal(rng);
}

/* sum_i log mean_j p(y_i | theta_j) */
static bool deconvolution(void *self, const double *phi, double *value, double *grad) {
  Deconvolution *d = self;
  Rig *r = d->r;
  size_t M = r->n.M;
  r->f->draw(phi, &r->n, r->theta);
  memset(d->adj, 0, r->n.ld * sizeof *d->adj);
  memset(grad, 0, r->size * sizeof *grad);
  *value = -(double)d->n * log((double)M);
  for (size_t i = 0; i < d->n; i++) {
    for (size_t j = 0; j < M; j++) d->l[j] = (d->y[i] - r->theta[j]) / NOISE_SD;
    for (size_t j = 0; j < M; j++) d->l[j] *= -0.5 * d->l[j];
    *value += r->n.k->softmax(d->w, d->l, M);
    for (size_t j = 0; j < M; j++)
      d->adj[j] += d->w[j] * (d->y[i] - r->theta[j]) / (NOISE_SD * NOISE_SD);
  }
  r->f->adjoint(phi, &r->n, d->adj, NULL, grad);
  return isfinite(*value);
}

/* The largest difference of two empirical distribution functions; sorts both. */
static double ks_distance(double *a, double *b, size_t n) {
  double most = 0;
  stat_sort(a, n);
  stat_sort(b, n);
  for (size_t i = 0, j = 0; i < n && j < n;) {
    if (a[i] <= b[j])
      i++;
    else
      j++;
    most = fmax(most, fabs((double)i - (double)j) / (double)n);
  }
  return most;
}

static void check_bimodal(Ctx *c, FamilyId id, size_t draws, long iterations) {
  enum { N = 10000 };
  const Case at = {"", id, {.dim = 1}, false};
  RIG(r, c, &at, draws, 0, false);
  RIG(many, c, &at, N, 0, true);
  RngStream rng = rngs_make(5, 0);
  double *y = NEW_ARRAY(&c->arena, double, N), *truth = NEW_ARRAY(&c->arena, double, N);
  for (size_t i = 0; i < N; i++) y[i] = bimodal(&rng) + NOISE_SD * rngs_normal(&rng);
  for (size_t i = 0; i < N; i++) truth[i] = bimodal(&rng);
  Deconvolution d = {.r = &r, .y = y, .n = N, .adj = NEW_ARRAY(&c->arena, double, r.n.ld)};
  d.l = NEW_ARRAY(&c->arena, double, r.n.ld);
  d.w = NEW_ARRAY(&c->arena, double, r.n.ld);
  r.f->start(r.phi, &r.s, (double[]){stat_mean(y, N)}, (double[]){stat_sd(y, N)});
  OptimResult fit = maximise(c, &r, deconvolution, &d, iterations);
  r.f->draw(fit.phi, &many.n, many.theta);
  double ks = ks_distance(many.theta, truth, N);
  print_message("# %s: KS distance %.4f, %ld evaluations, objective %.2f\n", family_name(id), ks,
                fit.evaluations, fit.value);
  assert_true(ks < 0.05);
}
TEST(spline_recovers_two_modes) { check_bimodal(c, FAMILY_spline, 256, 100); }
TEST(flow_recovers_two_modes) { check_bimodal(c, FAMILY_flow, 256, 100); }

/* log density of x ~ N(0, 1), y | x ~ N(x^2, 1/2): its entropy is not a normal's. ELBO = -KL(q ||
 * it). */
static bool banana(void *self, const double *phi, double *value, double *grad) {
  Rig *r = self;
  size_t M = r->n.M, ld = r->n.ld;
  double adj[2 * ld], sd = 0.5;
  memset(grad, 0, r->size * sizeof *grad);
  *value = r->f->entropy(phi, &r->n, 1, grad);
  r->f->draw(phi, &r->n, r->theta);
  for (size_t j = 0; j < M; j++) {
    double x = r->theta[j], z = (r->theta[ld + j] - x * x) / sd;
    *value += (-2 * HALF_LOG_2PI - log(sd) - 0.5 * x * x - 0.5 * z * z) / (double)M;
    adj[j] = (-x + 2 * x * z / sd) / (double)M;
    adj[ld + j] = -z / sd / (double)M;
  }
  r->f->adjoint(phi, &r->n, adj, NULL, grad);
  return isfinite(*value);
}

/* -KL on draws not seen in the fit. */
static double banana_fit(Ctx *c, FamilyId id) {
  const Case at = {"", id, {.dim = 2}, false};
  RIG(r, c, &at, 2048, 0, false);
  RIG(fresh, c, &at, 4096, 0, true);
  double value;
  r.f->start(r.phi, &r.s, (double[]){0, 1}, (double[]){0.5, 0.5});
  OptimResult fit = maximise(c, &r, banana, &r, 120);
  assert_true(banana(&fresh, fit.phi, &value, fresh.grad));
  print_message("# %s: KL %.4f (fit %.4f), %ld evaluations\n", family_name(id), -value, -fit.value,
                fit.evaluations);
  return value;
}
TEST(flows_bend) {
  assert_true(banana_fit(c, FAMILY_fullrank) < -0.5);
  assert_true(banana_fit(c, FAMILY_flow) > -0.06);
  assert_true(banana_fit(c, FAMILY_realnvp) > -0.06);
}

/* ---- full rank in q's own coordinates ---------------------------------------------------------
 */

/* A normal density with mean 1, 2, ... and precision P; lambda times the entropy of q is added. */
typedef struct {
  Shape s;
  double *P, lambda;
  NormalLaw law, adj;
} Quadratic;

static Quadratic quadratic_of(Ctx *c, size_t dim, double lambda) {
  Quadratic f = {.s = {.dim = dim}, .P = NEW_ARRAY(&c->arena, double, dim *dim), .lambda = lambda};
  for (size_t i = 0; i < dim; i++)
    for (size_t k = 0; k < dim; k++)
      f.P[i * dim + k] =
          (i == k) * (1 + 3.0 * (double)i) + sin((double)(i + 1)) * sin((double)(k + 1));
  for (NormalLaw *l = &f.law; l; l = l == &f.law ? &f.adj : NULL) {
    l->mean = NEW_ARRAY(&c->arena, double, dim);
    l->cov = NEW_ARRAY(&c->arena, double, dim *dim);
  }
  return f;
}

static void quadratic_slope(Ctx *c, Quadratic *f, const double *phi, double *grad) {
  size_t dim = f->s.dim;
  const Family *q = family_of(FAMILY_fullrank);
  double *away = NEW_ARRAY(&c->arena, double, dim);
  memset(grad, 0, q->size(&f->s) * sizeof *grad);
  q->laws(phi, &f->s, &f->law);
  for (size_t i = 0; i < dim; i++) away[i] = (double)(i + 1) - f->law.mean[i];
  la_matvec(f->P, away, f->adj.mean, dim, dim);
  for (size_t i = 0; i < dim * dim; i++) f->adj.cov[i] = -0.5 * f->P[i];
  q->laws_adjoint(phi, &f->s, &f->law, &f->adj, grad);
  q->entropy(phi, &(Noise){.shape = &f->s}, f->lambda, grad);
}

static double *start_of(Ctx *c, const Shape *s, double spread) {
  size_t size = family_of(FAMILY_fullrank)->size(s);
  double *phi = NEW_ARRAY(&c->arena, double, size);
  for (size_t i = 0; i < size; i++) phi[i] = spread * sin(2.0 * (double)i);
  return phi;
}

/* A leap ends in the optimum from anywhere, and there minus the Hessian times H0 is the identity,
 * which is symmetric elsewhere too. Dimensions are those with one block of rows, and several. */
TEST(whitened_steps_are_newtons) {
  static const size_t dims[] = {1, 2, 7, 31, 32, 33, 70, 290};
  const Family *q = family_of(FAMILY_fullrank);
  for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
    Quadratic f = quadratic_of(c, dims[d], d % 2 ? 1 : 0.3);
    size_t size = q->size(&f.s);
    double *phi = start_of(c, &f.s, 0.3),
           *room = NEW_ARRAY(&c->arena, double, family_square_room(&f.s)),
           *grad = NEW_ARRAY(&c->arena, double, size), *to = NEW_ARRAY(&c->arena, double, size),
           *x = NEW_ARRAY(&c->arena, double, size), *y = NEW_ARRAY(&c->arena, double, size);
    const double *other = start_of(c, &f.s, 0.4);
    for (size_t i = 0; i < size; i++) x[i] = sin((double)i), y[i] = cos(3.0 * (double)i);
    double *hx = memcpy(NEW_ARRAY(&c->arena, double, size), x, size * sizeof *x),
           *hy = memcpy(NEW_ARRAY(&c->arena, double, size), y, size * sizeof *y);
    assert_int_equal(q->precondition(phi, other, &f.s, room, hx), size);
    q->precondition(phi, other, &f.s, room, hy);
    assert_close(la_dot(x, hy, size), la_dot(y, hx, size), 1e-11);
    quadratic_slope(c, &f, phi, grad);
    assert_true(q->leap(phi, &f.s, f.lambda, grad, room, to));
    double before = la_norm(grad, size);
    quadratic_slope(c, &f, to, grad);
    assert_true(la_norm(grad, size) < 1e-11 * before);
    const double h = 1e-6;
    for (size_t i = 0; i < size; i++) y[i] = to[i] + h * x[i], to[i] -= h * x[i];
    quadratic_slope(c, &f, y, hy);
    quadratic_slope(c, &f, to, hx);
    for (size_t i = 0; i < size; i++) hx[i] = (hx[i] - hy[i]) / (2 * h), to[i] += h * x[i];
    q->precondition(to, to, &f.s, room, hx);
    for (size_t i = 0; i < size; i++) assert_close(hx[i] / f.lambda, x[i], 1e-5);
  }
}

/* Where the curvature is not that of a maximum, a leap goes a part of the way, and is no worse. */
TEST(leaps_stay_where_there_is_a_maximum) {
  Quadratic f = quadratic_of(c, 40, 1);
  const Family *q = family_of(FAMILY_fullrank);
  size_t size = q->size(&f.s);
  double *phi = start_of(c, &f.s, 0.3),
         *room = NEW_ARRAY(&c->arena, double, family_square_room(&f.s)),
         *grad = NEW_ARRAY(&c->arena, double, size), *to = NEW_ARRAY(&c->arena, double, size);
  f.P[5 * 40 + 5] = -0.2;
  quadratic_slope(c, &f, phi, grad);
  assert_true(q->leap(phi, &f.s, 1, grad, room, to));
  for (size_t i = 0; i < size; i++) to[i] -= phi[i];
  assert_true(la_dot(grad, to, size) > 0);
}

/* ---- all ------------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  CMUnitTestFunction run;
} laws[] = {
#define LAW(f)                                                                                     \
  { #f, f }
    LAW(adjoint_is_the_derivative_of_draws),
    LAW(adjoint_is_the_derivative_of_weights),
    LAW(adjoint_adds_over_draws),
    LAW(entropy_has_its_gradient),
    LAW(entropy_is_minus_mean_log_q),
    LAW(inverse_and_jacobian),
    LAW(start_has_the_moments_asked_for),
    LAW(moments_are_those_of_draws),
    LAW(parts_cover_phi_in_order),
    LAW(draws_fill_all_lanes_and_repeat),
    LAW(scales_are_positive),
    LAW(scales_know_units),
    LAW(reaches_are_positive),
    LAW(stretch_changes_one_parameter),
    LAW(log_sds_have_limits),
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
  SUITE_ADD(&s, spline_is_monotone_and_inverts);
  SUITE_ADD(&s, spline_is_smooth_at_knots);
  SUITE_ADD(&s, flow_in_one_dimension_is_spline);
  SUITE_ADD(&s, spline_recovers_two_modes);
  SUITE_ADD(&s, flow_recovers_two_modes);
  SUITE_ADD(&s, flows_bend);
  SUITE_ADD(&s, whitened_steps_are_newtons);
  SUITE_ADD(&s, leaps_stay_where_there_is_a_maximum);
  return suite_run("family", &s);
}
