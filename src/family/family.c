/* family.c: the table of families, and what they share. */
#include "family/family_int.h"

#include "num/sobol.h"

#include <math.h>
#include <string.h>

/* What a row of families.def says of itself, by the family's number. */
static const struct {
  const char *name, *about;
  const Family *family;
} rows[FAMILY_COUNT] = {
#define FAMILY(id, name, about) [FAMILY_##id] = {name, about, &family_##id},
#include "family/families.def"
#undef FAMILY
};

const Family *family_of(FamilyId id) { return rows[id].family; }
const char *family_name(FamilyId id) { return rows[id].name; }
const char *family_about(FamilyId id) { return rows[id].about; }

bool family_find(const char *name, FamilyId *id) {
  for (int k = 0; k < FAMILY_COUNT; k++)
    if (!strcmp(rows[k].name, name)) {
      *id = (FamilyId)k;
      return true;
    }
  return false;
}

static size_t or_else(size_t given, size_t otherwise) { return given ? given : otherwise; }

Shape family_shape(FamilyId id, Shape s) {
  bool network = s.dim > 1 && id != FAMILY_spline; /* a knot costs three outputs of a network */
  s.components = or_else(s.components, 2);
  s.rank = or_else(s.rank, s.dim < 5 ? s.dim : 5);
  s.knots = or_else(s.knots, network ? 8 : 32);
  s.layers = or_else(s.layers, id == FAMILY_realnvp ? 4 : 2);
  s.hidden = or_else(s.hidden, 16);
  return s;
}

bool family_inverse(FamilyId id, const double *phi, const Shape *s, const double *theta, double *u,
                    double *log_det) {
  if (!rows[id].family->inverse) return false;
  rows[id].family->inverse(phi, s, theta, u, log_det);
  return true;
}

double family_sd(double x) {
  return exp(x < -LOG_SD_LIMIT ? -LOG_SD_LIMIT : x > LOG_SD_LIMIT ? LOG_SD_LIMIT : x);
}

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

/* sum over the draws of (theta - about)^power, in chunks of n draws, a scrambled Sobol set each */
static void add_powers(const Family *f, const double *phi, const Shape *s, const double *about,
                       int power, size_t n, double *sum) {
  double room[moment_room(f, s, n)], *u = room, *theta = u + f->noise(s) * n;
  Noise noise = {
      .shape = s, .M = n, .ld = n, .u = u, .k = kernels_best(), .scratch = theta + s->dim * n};
  for (size_t chunk = 0; chunk < MOMENT_DRAWS / n; chunk++) {
    sobol_normal(u, f->noise(s), n, n, chunk, false);
    f->draw(phi, &noise, theta);
    for (size_t k = 0; k < s->dim; k++)
      for (size_t j = 0; j < n; j++) {
        double d = theta[k * n + j] - (about ? about[k] : 0);
        sum[k] += power == 1 ? d : d * d;
      }
  }
}

void family_sampled_moments(const Family *f, const double *phi, const Shape *s, double *mean,
                            double *sd) {
  size_t n = MOMENT_DRAWS;
  while (n > LANES && moment_room(f, s, n) > MOMENT_ROOM) n /= 2;
  for (size_t k = 0; k < s->dim; k++) mean[k] = sd[k] = 0;
  add_powers(f, phi, s, NULL, 1, n, mean);
  for (size_t k = 0; k < s->dim; k++) mean[k] /= MOMENT_DRAWS;
  add_powers(f, phi, s, mean, 2, n, sd);
  for (size_t k = 0; k < s->dim; k++) sd[k] = sqrt(sd[k] / MOMENT_DRAWS);
}
