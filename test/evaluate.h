/* evaluate.h: for tests of models: a program and data as texts become a Model, and its log density
 * is evaluated. */
#ifndef PVI_TEST_EVALUATE_H
#define PVI_TEST_EVALUATE_H

#include "testing.h"

#include "data/data.h"
#include "model/model.h"
#include "stan/stan.h"
#include "vm/vm.h"

/* Stops, as the commands do, where the program or the data are wrong. */
UNUSED static Model *model_of(Ctx *c, const char *stan, const char *json) {
  Program *p = stan_parse_text(c, "test.stan", stan, strlen(stan), NULL);
  if (!c->nerrors) stan_check(c, p);
  if (c->nerrors) ctx_jump(c, PVI_PROGRAM);
  return model_make(c, p, data_read_text(c, "test.json", json ? json : "{}", NULL));
}

UNUSED static Model *model_of_files(Ctx *c, const char *stan, const char *data) {
  Program *p = stan_parse(c, stan, NULL);
  if (!c->nerrors) stan_check(c, p);
  if (c->nerrors) ctx_jump(c, PVI_PROGRAM);
  return model_make(c, p, data_read(c, data, NULL));
}

/* The log density at one point. */
typedef struct {
  size_t dim, n_obs;
  double lp, prior, jacobian, likelihood; /* lp = prior + jacobian + likelihood */
  double *grad;                           /* of lp */
  double *pointwise;
} Density;

typedef struct {
  Density *at; /* [points] */
  size_t points, lanes;
  const int32_t *obs;
} Collect;

static void collect_tile(void *self, const TileView *t) {
  Collect *k = self;
  for (size_t r = 0; r < t->rows; r++)
    for (size_t j = 0; j < k->lanes; j++) {
      if (j < k->points) k->at[j].pointwise[k->obs[t->row + r]] = t->heads[0][r * k->lanes + j];
      t->adj[0][r * k->lanes + j] = 1;
    }
}

/* At several points together, point i in u[i dim ..]. */
UNUSED static Density *densities(Ctx *c, const Model *m, const double *u, size_t points) {
  int32_t *obs = NEW_ARRAY(&c->arena, int32_t, m->n_obs + 1);
  ModelRows all = model_rows(&c->arena, m, NULL, 0);
  model_numbers(m, &all, obs);
  Tape *tape = model_tape(&c->arena, m, &all, WANT_LL);
  Work *w = vm_work(&c->arena, tape, points, NULL);
  Collect k = {NEW_ARRAY(&c->arena, Density, points), points, vm_lanes(w), obs};
  double *theta = NEW_ARRAY(&c->arena, double, m->dim *k.lanes),
         *grad = NEW_ARRAY(&c->arena, double, m->dim *k.lanes);
  for (size_t d = 0; d < m->dim; d++)
    for (size_t j = 0; j < k.lanes; j++)
      theta[d * k.lanes + j] = u[(j < points ? j : 0) * m->dim + d];
  for (size_t j = 0; j < points; j++)
    k.at[j] = (Density){.dim = m->dim,
                        .n_obs = m->n_obs,
                        .grad = NEW_ARRAY(&c->arena, double, m->dim),
                        .pointwise = NEW_ARRAY(&c->arena, double, m->n_obs)};
  vm_forward(w, theta);
  vm_tiles(w, collect_tile, &k, true);
  vm_backward(w, (double[]){1, 1}, NULL, grad);
  for (size_t j = 0; j < points; j++) {
    Density *d = &k.at[j];
    d->prior = vm_value(w, ROOT_PRIOR, 0)[j];
    d->jacobian = vm_value(w, ROOT_JACOBIAN, 0)[j];
    for (size_t i = 0; i < m->n_obs; i++) d->likelihood += d->pointwise[i];
    d->lp = d->prior + d->jacobian + d->likelihood;
    for (size_t i = 0; i < m->dim; i++) d->grad[i] = grad[i * k.lanes + j];
  }
  return k.at;
}

UNUSED static Density density(Ctx *c, const Model *m, const double *u) {
  return *densities(c, m, u, 1);
}

/* The oracle's points: in (-radius, radius), from splitmix64. */
UNUSED static double *test_point(Ctx *c, size_t dim, uint64_t seed, double radius) {
  double *u = NEW_ARRAY(&c->arena, double, dim);
  for (size_t k = 0; k < dim; k++) u[k] = uniform(&seed, -radius, radius);
  return u;
}

#endif
