/* run_draws.c: draws of q as output columns of the program, and the log densities that go with
 * them. */
#include "run/run.h"

#include "model/density.h"
#include "num/rng.h"

#include <string.h>

enum { STREAM = 4 }; /* of the random numbers behind draws.csv */

/* Draws with weights become draws without, by stratified resampling. Systematic resampling, at
 * (i + 1/2) / n, will not do: a mixture's components take turns, and one whose draws weigh little
 * would be passed over every time. theta is [dim x ld]. */
static void resample(Arena *a, const Q *q, QDraws *d, uint64_t seed, double *theta, double *log_q) {
  Rng key = rng_make(seed, STREAM + 1);
  size_t n = d->noise.M, ld = d->noise.ld, k = 0;
  size_t *from = NEW_ARRAY(a, size_t, n);
  double sum = d->weights[0];
  for (size_t i = 0; i < n; i++) {
    double at = ((double)i + rng_uniform(key, i, 0)) / (double)n;
    while (k + 1 < n && sum < at) sum += d->weights[++k];
    from[i] = k;
  }
  double *row = NEW_ARRAY(a, double, ld);
  for (size_t p = 0; p <= q->dim; p++) {
    double *x = p < q->dim ? theta + p * ld : log_q;
    memcpy(row, x, ld * sizeof *row);
    for (size_t i = 0; i < n; i++) x[i] = row[from[i]];
  }
}

/* theta [dim x ld] and log q of n draws. */
static double *draw(Ctx *c, const Run *r, size_t n, size_t ld, uint64_t seed, double *log_q) {
  QDraws d = q_draws(&c->arena, &r->q, n, ld, kernels_best());
  double *theta = NEW_ARRAY(&c->arena, double, r->q.dim *ld);
  for (size_t k = 0; k < q_noise(&r->q); k++)
    rng_fill_normal(rng_make(seed, STREAM), 0, k, d.u + k * ld, n);
  q_draw(&r->q, r->phi, &d, theta);
  q_log_q(&r->q, r->phi, &d, log_q);
  if (d.weights) resample(&c->arena, &r->q, &d, seed, theta, log_q);
  return theta;
}

/* The output columns at the mean of q: the first row of CmdStan's file. */
static const double *at_mean(Ctx *c, const Run *r, const Model *m, uint64_t seed) {
  double *centre = NEW_ARRAY(&c->arena, double, m->dim + 1);
  double *sd = NEW_ARRAY(&c->arena, double, m->dim + 1);
  double *mean = NEW_ARRAY(&c->arena, double, model_output_count(m));
  q_moments(&r->q, r->phi, centre, sd);
  model_outputs(c, m, &(ModelPoints){centre, 1, m->dim, 1}, seed + 1, mean);
  return mean;
}

static const char *const *column_names(Ctx *c, const Model *m, size_t n) {
  const char **names = NEW_ARRAY(&c->arena, const char *, n);
  for (size_t k = 0; k < n; k++) names[k] = model_output_name(m, &c->arena, k, true);
  return names;
}

static double *point_major(Ctx *c, const double *theta, size_t dim, size_t n, size_t ld) {
  double *points = NEW_ARRAY(&c->arena, double, n *dim + 1);
  for (size_t j = 0; j < n; j++)
    for (size_t k = 0; k < dim; k++) points[j * dim + k] = theta[k * ld + j];
  return points;
}

/* log p(theta, y) of the training part, on the unconstrained scale with Jacobian. */
static double *log_joint(Ctx *c, const Model *m, const Split *s, const ModelPoints *draws) {
  double *joint = NEW_ARRAY(&c->arena, double, draws->n);
  density_once(c, m, s->rows[PART_TRAIN], s->count[PART_TRAIN], draws,
               &(DensityOut){.log_density = joint});
  return joint;
}

RunDraws *run_draw(Ctx *c, const Run *r, const Problem *p, size_t n, uint64_t seed) {
  const Model *m = p->model;
  size_t ld = (n + LANES - 1) / LANES * LANES, ncols = model_output_count(m);
  double *log_q = NEW_ARRAY(&c->arena, double, ld);
  double *theta = draw(c, r, n, ld, seed, log_q);
  double *values = NEW_ARRAY(&c->arena, double, n *ncols);
  ModelPoints points = {theta, n, 1, ld};
  model_outputs(c, m, &points, seed, values);
  RunDraws *d = NEW(&c->arena, RunDraws);
  d->theta = point_major(c, theta, m->dim, n, ld);
  d->draws = (Draws){.ndraws = n,
                     .ncols = ncols,
                     .names = column_names(c, m, ncols),
                     .values = values,
                     .log_p = log_joint(c, m, run_split(c, r, p), &points),
                     .log_g = log_q,
                     .mean = at_mean(c, r, m, seed)};
  return d;
}
