/* components.c: starts for mixtures: one component for every part into which the observations fall.
 *
 * Every observation by itself wants other parameters than all together. Seen from VI's mean m, with
 * the unit h of one observation (sqrt(n) times VI's sd) and g and c the slope and the curvature of
 * its log likelihood in every parameter, one step of Newton's method takes it to
 *
 *     m + h^2 g / (1 + sum_j h_j^2 c_j):
 *
 * for observations that see theta through one predictor that is the mode of their likelihood times
 * a normal about m. Where these points fall into groups, found by k-means, are the components.
 */
#include "infer/fit_int.h"

#include "model/density.h"
#include "num/rng.h"

#include <math.h>
#include <string.h>

enum { MOST_OBSERVATIONS = 2000, MOST_PARAMETERS = 100, ROUNDS = 30 };

typedef struct {
  Fitter *f;
  size_t n, dim, C;
  double *unit;  /* of one observation, dim */
  double *z;     /* [n x dim]: the observations' points, from m, in units */
  double *mean;  /* [C x dim]: of the groups */
  size_t *group; /* n */
} Grouping;

/* ---- the observations' points ---------------------------------------------------------------- */

/* m, and for every parameter m with a unit less and more. */
static ModelPoints points_around(const Grouping *g) {
  size_t dim = g->dim;
  double *theta = NEW_ARRAY(g->f->arena, double, (2 * dim + 1) * dim);
  for (size_t i = 0; i < 2 * dim + 1; i++) {
    memcpy(theta + i * dim, g->f->mean, dim * sizeof *theta);
    if (i) theta[i * dim + (i - 1) / 2] += (i % 2 ? -1 : 1) * g->unit[(i - 1) / 2];
  }
  return (ModelPoints){theta, 2 * dim + 1, dim, 1};
}

/* l: log likelihoods of the observations, point by point. Slopes and curvatures in units. */
static void place(const Grouping *g, const double *l) {
  for (size_t i = 0; i < g->n; i++) {
    double total = 1, *z = g->z + i * g->dim;
    for (size_t k = 0; k < g->dim; k++) {
      double less = l[(2 * k + 1) * g->n + i], more = l[(2 * k + 2) * g->n + i],
             slope = 0.5 * (more - less), curvature = 2 * l[i] - less - more;
      z[k] = isfinite(slope) ? slope : 0;
      if (isfinite(curvature)) total += fmax(curvature, 0);
    }
    for (size_t k = 0; k < g->dim; k++) z[k] = fmax(-10, fmin(10, z[k] / total));
  }
}

static void place_observations(const Grouping *g) {
  Fitter *f = g->f;
  size_t *rows = NEW_ARRAY(f->arena, size_t, g->n);
  for (size_t i = 0; i < g->n; i++) {
    size_t at = i * f->n / g->n;
    rows[i] = f->order ? f->order[at] : at;
  }
  ModelPoints p = points_around(g);
  double *l = NEW_ARRAY(f->arena, double, p.n * g->n);
  density_once(f->ctx, f->model, rows, g->n, &p, &(DensityOut){.pointwise = l});
  place(g, l);
}

/* ---- k-means --------------------------------------------------------------------------------- */

static double distance(const double *a, const double *b, size_t n) {
  double s = 0;
  for (size_t k = 0; k < n; k++) s += (a[k] - b[k]) * (a[k] - b[k]);
  return s;
}

/* The nearest of the first `count` means, and how far it is. */
static size_t nearest(const Grouping *g, const double *z, size_t count, double *far) {
  size_t best = 0;
  *far = INFINITY;
  for (size_t c = 0; c < count; c++) {
    double d = distance(z, g->mean + c * g->dim, g->dim);
    if (d < *far) *far = d, best = c;
  }
  return best;
}

/* Arthur & Vassilvitskii 2007: the next mean is a point, chosen by the square of its distance. */
static void seed_means(const Grouping *g, uint64_t seed) {
  RngStream r = rngs_make(seed, 0);
  size_t first = (size_t)(rngs_uniform(&r) * (double)g->n);
  memcpy(g->mean, g->z + first * g->dim, g->dim * sizeof *g->mean);
  for (size_t c = 1; c < g->C; c++) {
    double total = 0, far;
    for (size_t i = 0; i < g->n; i++) nearest(g, g->z + i * g->dim, c, &far), total += far;
    double left = rngs_uniform(&r) * total;
    size_t at = 0;
    for (; at + 1 < g->n; at++) {
      nearest(g, g->z + at * g->dim, c, &far);
      if ((left -= far) <= 0) break;
    }
    memcpy(g->mean + c * g->dim, g->z + at * g->dim, g->dim * sizeof *g->mean);
  }
}

static void find_groups(const Grouping *g, double *count) {
  for (int round = 0; round < ROUNDS; round++) {
    double far;
    for (size_t i = 0; i < g->n; i++) g->group[i] = nearest(g, g->z + i * g->dim, g->C, &far);
    memset(g->mean, 0, g->C * g->dim * sizeof *g->mean);
    memset(count, 0, g->C * sizeof *count);
    for (size_t i = 0; i < g->n; i++) {
      count[g->group[i]]++;
      for (size_t k = 0; k < g->dim; k++) g->mean[g->group[i] * g->dim + k] += g->z[i * g->dim + k];
    }
    for (size_t k = 0; k < g->C * g->dim; k++) g->mean[k] /= fmax(count[k / g->dim], 1);
  }
}

/* ---- the mixture ----------------------------------------------------------------------------- */

/* Weights, means and sds of the groups, those of parameters that have a distribution. */
static void make_mixture(const Grouping *g, const double *count, double *phi) {
  const Q *q = &g->f->q;
  Arena *a = g->f->arena;
  size_t n = q->shape.dim;
  double *weight = NEW_ARRAY(a, double, g->C), *mean = NEW_ARRAY(a, double, g->C *n),
         *sd = NEW_ARRAY(a, double, g->C *n);
  for (size_t c = 0; c < g->C; c++) weight[c] = (count[c] + 1) / (double)(g->n + g->C);
  for (size_t i = 0; i < g->n; i++)
    for (size_t j = 0; j < n; j++) {
      size_t k = q->free ? q->free[j] : j, c = g->group[i];
      double d = g->z[i * g->dim + k] - g->mean[c * g->dim + k];
      sd[c * n + j] += d * d / fmax(count[c], 1);
    }
  for (size_t c = 0; c < g->C; c++)
    for (size_t j = 0; j < n; j++) {
      size_t k = q->free ? q->free[j] : j;
      mean[c * n + j] = g->f->mean[k] + g->unit[k] * g->mean[c * g->dim + k];
      sd[c * n + j] = fmax(g->unit[k] * sqrt(sd[c * n + j]), g->f->sd[k]);
    }
  q_start(q, phi, g->f->mean, g->f->sd); /* for the points */
  family_mixture_of(phi, &q->shape, weight, mean, sd);
}

bool fit_components(Fitter *f, uint64_t seed, double *phi) {
  Grouping g = {.f = f,
                .n = f->n < MOST_OBSERVATIONS ? f->n : MOST_OBSERVATIONS,
                .dim = f->model->dim,
                .C = f->q.shape.components};
  if (g.dim > MOST_PARAMETERS || g.n < 2 * g.C || g.C < 2 || !model_has_densities(f->model))
    return false;
  ArenaMark mark = arena_mark(f->arena);
  double *count = NEW_ARRAY(f->arena, double, g.C);
  g.unit = NEW_ARRAY(f->arena, double, g.dim);
  g.z = NEW_ARRAY(f->arena, double, g.n *g.dim);
  g.mean = NEW_ARRAY(f->arena, double, g.C *g.dim);
  g.group = NEW_ARRAY(f->arena, size_t, g.n);
  for (size_t k = 0; k < g.dim; k++) g.unit[k] = f->sd[k] * sqrt((double)f->n);
  place_observations(&g);
  seed_means(&g, seed);
  find_groups(&g, count);
  make_mixture(&g, count, phi);
  arena_reset(f->arena, mark);
  return true;
}
