/* family.c: the table of families, and what they share. */
#include "family/family_int.h"

#include "num/sobol.h"

#include <math.h>
#include <string.h>

/* What a row of families.def says of itself, by the family's number. */
static const struct {
  const char *name;
  const Family *family;
  Shape defaults;
} rows[FAMILY_COUNT] = {
#define FAMILY(id, name, ...) [FAMILY_##id] = {name, &family_##id, {__VA_ARGS__}},
#include "family/families.def"
#undef FAMILY
};

const Family *family_of(FamilyId id) { return rows[id].family; }
const char *family_name(FamilyId id) { return rows[id].name; }

bool family_find(const char *name, FamilyId *id) {
  for (int k = 0; k < FAMILY_COUNT; k++)
    if (!strcmp(rows[k].name, name)) {
      *id = (FamilyId)k;
      return true;
    }
  return false;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

const ShapeField shape_fields[SHAPE_FIELDS] = {
    {"components", "normal components of a mixture, or particles", offsetof(Shape, components)},
    {"rank", "columns of the low-rank factor", offsetof(Shape, rank)},
    {"knots", "bins of a spline", offsetof(Shape, knots)},
    {"layers", "coupling layers of a flow", offsetof(Shape, layers)},
    {"hidden", "hidden units of a flow's networks", offsetof(Shape, hidden)},
};

size_t *shape_number(Shape *s, int field) {
  return (size_t *)((char *)s + shape_fields[field].offset);
}

size_t family_default(FamilyId id, const char *field) {
  Shape s = rows[id].defaults;
  for (int k = 0; k < SHAPE_FIELDS; k++)
    if (!strcmp(shape_fields[k].name, field)) return *shape_number(&s, k);
  return 0;
}

Shape family_shape(FamilyId id, Shape s) {
  Shape d = rows[id].defaults;
  if (d.rank > s.dim) d.rank = s.dim;
  if (d.layers && d.knots && s.dim == 1) d.knots = family_default(FAMILY_spline, "knots");
  for (int k = 0; k < SHAPE_FIELDS; k++)
    if (!*shape_number(&s, k)) *shape_number(&s, k) = *shape_number(&d, k);
  return s;
}

/* ---- the density at given points ------------------------------------------------------------- */

/* log q(theta) = log N(u) - log |det dT/du| */
static void density_by_inverse(const Family *f, const double *phi, const Shape *s,
                               const double *theta, double *out) {
  double u[s->dim + 1], log_det;
  f->inverse(phi, s, theta, u, &log_det);
  *out = -(double)s->dim * HALF_LOG_2PI - log_det;
  for (size_t k = 0; k < s->dim; k++) *out -= 0.5 * u[k] * u[k];
}

void family_log_density(FamilyId id, const double *phi, const Shape *s, const double *theta,
                        size_t n, double *out) {
  const Family *f = rows[id].family;
  if (f->log_density) {
    f->log_density(phi, s, theta, n, out);
    return;
  }
  for (size_t i = 0; i < n; i++) density_by_inverse(f, phi, s, theta + i * s->dim, out + i);
}

/* ---- what families share --------------------------------------------------------------------- */

double family_log_sd(double x) {
  return x < -LOG_SD_LIMIT ? -LOG_SD_LIMIT : x > LOG_SD_LIMIT ? LOG_SD_LIMIT : x;
}

double family_sd(double x) { return exp(family_log_sd(x)); }
double family_log_sd_slope(double x) { return family_log_sd(x) == x; }
double family_sd_slope(double x) { return family_log_sd_slope(x) * family_sd(x); }

double family_reach_at(double x, double s) { return 10 * fmax(1 + fabs(x), s); }

size_t family_one_normal(const Shape *s) {
  (void)s;
  return 1;
}

/* ---- moments from draws ---------------------------------------------------------------------- */

enum {
  MOMENT_DRAWS = 4096,
  MOMENT_ROOM = 1 << 15, /* numbers on the stack, about */
};

static size_t moment_room(const Family *f, const Shape *s, size_t n) {
  return (f->noise(s) + s->dim) * n + (f->scratch ? f->scratch(s, n) : 0);
}

typedef void TakeDraws(void *self, const double *theta, size_t n); /* theta[k n + j], j < n */

/* All draws, in chunks of n, a scrambled Sobol set each. */
static void over_chunks(const Family *f, const double *phi, const Shape *s, size_t n,
                        TakeDraws *take, void *self) {
  double room[moment_room(f, s, n)], *u = room, *theta = u + f->noise(s) * n;
  Noise noise = {
      .shape = s, .M = n, .ld = n, .u = u, .k = kernels_best(), .scratch = theta + s->dim * n};
  for (size_t chunk = 0; chunk < MOMENT_DRAWS / n; chunk++) {
    sobol_normal(u, f->noise(s), n, n, chunk, false);
    f->draw(phi, &noise, theta);
    take(self, theta, n);
  }
}

static void over_draws(const Family *f, const double *phi, const Shape *s, TakeDraws *take,
                       void *self) {
  size_t n = MOMENT_DRAWS;
  while (n > LANES && moment_room(f, s, n) > MOMENT_ROOM) n /= 2;
  over_chunks(f, phi, s, n, take, self);
}

/* sum over the draws of theta - about, of its square, or of its products */
typedef struct {
  size_t dim;
  const double *about;
  double *sum;
} Sums;

static void add_values(void *self, const double *theta, size_t n) {
  const Sums *t = self;
  for (size_t k = 0; k < t->dim; k++)
    for (size_t j = 0; j < n; j++) t->sum[k] += theta[k * n + j];
}

static void add_squares(void *self, const double *theta, size_t n) {
  const Sums *t = self;
  for (size_t k = 0; k < t->dim; k++)
    for (size_t j = 0; j < n; j++) {
      double d = theta[k * n + j] - t->about[k];
      t->sum[k] += d * d;
    }
}

static void add_products(void *self, const double *theta, size_t n) {
  const Sums *t = self;
  for (size_t k = 0; k < t->dim; k++)
    for (size_t i = 0; i <= k; i++) {
      const double *x = theta + k * n, *y = theta + i * n;
      double sum = 0;
      for (size_t j = 0; j < n; j++) sum += (x[j] - t->about[k]) * (y[j] - t->about[i]);
      t->sum[k * t->dim + i] += sum;
    }
}

void family_sampled_moments(const Family *f, const double *phi, const Shape *s, double *mean,
                            double *sd) {
  for (size_t k = 0; k < s->dim; k++) mean[k] = sd[k] = 0;
  over_draws(f, phi, s, add_values, &(Sums){s->dim, NULL, mean});
  for (size_t k = 0; k < s->dim; k++) mean[k] /= MOMENT_DRAWS;
  over_draws(f, phi, s, add_squares, &(Sums){s->dim, mean, sd});
  for (size_t k = 0; k < s->dim; k++) sd[k] = sqrt(sd[k] / MOMENT_DRAWS);
}

void family_covariance(FamilyId id, const double *phi, const Shape *s, double *cov) {
  const Family *f = rows[id].family;
  size_t dim = s->dim;
  double mean[dim + 1], sd[dim + 1];
  f->moments(phi, s, mean, sd);
  memset(cov, 0, dim * dim * sizeof *cov);
  if (!f->independent) over_draws(f, phi, s, add_products, &(Sums){dim, mean, cov});
  for (size_t k = 0; k < dim; k++) {
    for (size_t i = 0; i < k; i++)
      cov[i * dim + k] = cov[k * dim + i] = cov[k * dim + i] / MOMENT_DRAWS;
    cov[k * dim + k] = sd[k] * sd[k];
  }
}
