/* evaluate.h: for tests of models: a program and data as texts become a Model, and its log density
 * is evaluated. */
#ifndef PVI_TEST_EVALUATE_H
#define PVI_TEST_EVALUATE_H

#include "testing.h"

#include "data/data.h"
#include "model/density.h"
#include "stan/stan.h"

/* Stops, as the commands do, where the program or the data are wrong. */
UNUSED static Model *model_of(Ctx *c, const char *stan, const char *json) {
  Program *p = stan_parse_text(c, "test.stan", stan, strlen(stan), NULL);
  if (!c->nerrors) stan_check(c, p);
  if (c->nerrors) ctx_jump(c, PVI_PROGRAM);
  return model_make(c, p, data_read_text(c, "test.json", json ? json : "{}", NULL), NULL);
}

UNUSED static Model *model_of_files(Ctx *c, const char *stan, const char *data) {
  Program *p = stan_parse(c, stan, NULL);
  if (!c->nerrors) stan_check(c, p);
  if (c->nerrors) ctx_jump(c, PVI_PROGRAM);
  return model_make(c, p, data_read(c, data, NULL), NULL);
}

/* The log density at one point. */
typedef struct {
  size_t dim, n_obs;
  double lp, prior, jacobian, likelihood; /* lp = prior + jacobian + likelihood */
  double *grad;                           /* of lp */
  double *pointwise;
} DensityAt;

/* At several points together, point i in u[i dim ..]. */
UNUSED static DensityAt *densities(Ctx *c, const Model *m, const double *u, size_t points) {
  Arena *a = &c->arena;
  DensityOut out = {.log_density = NEW_ARRAY(a, double, points),
                    .prior = NEW_ARRAY(a, double, points),
                    .jacobian = NEW_ARRAY(a, double, points),
                    .likelihood = NEW_ARRAY(a, double, points),
                    .gradient = NEW_ARRAY(a, double, points * m->dim),
                    .pointwise = NEW_ARRAY(a, double, points * m->n_obs)};
  density_eval(density_make(a, m, NULL, 0, points), &(ModelPoints){u, points, m->dim, 1}, &out);
  DensityAt *at = NEW_ARRAY(a, DensityAt, points);
  for (size_t i = 0; i < points; i++)
    at[i] = (DensityAt){.dim = m->dim,
                        .n_obs = m->n_obs,
                        .lp = out.log_density[i],
                        .prior = out.prior[i],
                        .jacobian = out.jacobian[i],
                        .likelihood = out.likelihood[i],
                        .grad = out.gradient + i * m->dim,
                        .pointwise = out.pointwise + i * m->n_obs};
  return at;
}

UNUSED static DensityAt density(Ctx *c, const Model *m, const double *u) {
  return *densities(c, m, u, 1);
}

/* The oracle's points: in (-radius, radius), from splitmix64. */
UNUSED static double *test_point(Ctx *c, size_t dim, uint64_t seed, double radius) {
  double *u = NEW_ARRAY(&c->arena, double, dim);
  for (size_t k = 0; k < dim; k++) u[k] = uniform(&seed, -radius, radius);
  return u;
}

/* The gradient by differences of the value, all points in one evaluation. */
UNUSED static void expect_gradient(Ctx *c, const Model *m, const double *u, const DensityAt *d,
                                   double tolerance) {
  const double h = 1e-3;
  size_t points = 4 * m->dim;
  double *all = NEW_ARRAY(&c->arena, double, points * m->dim);
  for (size_t p = 0; p < points; p++) {
    memcpy(all + p * m->dim, u, m->dim * sizeof *u);
    all[p * m->dim + p / 4] += h * (double[]){-2, -1, 1, 2}[p % 4];
  }
  DensityAt *at = densities(c, m, all, points);
  for (size_t k = 0; k < m->dim; k++) {
    double f[4] = {at[4 * k].lp, at[4 * k + 1].lp, at[4 * k + 2].lp, at[4 * k + 3].lp};
    if (!(distance(d->grad[k], difference(f, h)) < tolerance))
      fail_msg("derivative %zu is %.12g, by differences %.12g", k + 1, d->grad[k],
               difference(f, h));
  }
}

#endif
