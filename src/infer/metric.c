/* metric.c: roots of covariances, and covariances from draws (metric.h). */
#include "infer/metric.h"

#include "num/linalg.h"

#include <math.h>
#include <string.h>

Metric metric_make(Arena *a, size_t dim) {
  Metric m = {.dim = dim};
  m.root = NEW_ARRAY(a, double, (dim <= MOST_DENSE ? dim * dim : dim) + 1);
  for (size_t k = 0; k < dim; k++) m.root[k] = 1;
  return m;
}

void metric_copy(Metric *to, const Metric *from) {
  to->dense = from->dense;
  memcpy(to->root, from->root,
         (from->dense ? from->dim * from->dim : from->dim) * sizeof *to->root);
}

/* theta += step S r, row by row of S. */
void metric_move(const Metric *m, double step, const double *r, double *theta) {
  if (!m->dense) {
    for (size_t k = 0; k < m->dim; k++) theta[k] += step * m->root[k] * r[k];
    return;
  }
  for (size_t k = 0; k < m->dim; k++) theta[k] += step * la_dot(m->root + k * m->dim, r, k + 1);
}

void metric_whiten(const Metric *m, const double *x, double *z) {
  if (m->dense)
    la_solve_lower(m->root, x, z, m->dim);
  else
    for (size_t k = 0; k < m->dim; k++) z[k] = x[k] / m->root[k];
}

/* force = S' gradient, adding up the rows of S. */
void metric_force(const Metric *m, const double *gradient, double *force) {
  if (!m->dense) {
    for (size_t k = 0; k < m->dim; k++) force[k] = m->root[k] * gradient[k];
    return;
  }
  memset(force, 0, m->dim * sizeof *force);
  for (size_t k = 0; k < m->dim; k++) la_axpy(gradient[k], m->root + k * m->dim, force, k + 1);
}

void metric_covariance(const Metric *m, double *cov) {
  size_t dim = m->dim;
  if (!m->dense) {
    for (size_t k = 0; k < dim; k++) cov[k] = m->root[k] * m->root[k];
    return;
  }
  for (size_t i = 0; i < dim; i++)
    for (size_t k = 0; k <= i; k++)
      cov[i * dim + k] = cov[k * dim + i] = la_dot(m->root + i * dim, m->root + k * dim, k + 1);
}

void metric_diagonal(Metric *m, const double *variance) {
  m->dense = false;
  for (size_t k = 0; k < m->dim; k++) m->root[k] = sqrt(variance[k]);
}

bool metric_dense(Metric *m, const double *cov) {
  if (m->dim > MOST_DENSE || !la_cholesky(cov, m->root, m->dim)) return false;
  m->dense = true;
  return true;
}

/* ---- from draws ------------------------------------------------------------------------------ */

static void mean_of(const double *const *draws, size_t n, size_t dim, double *mean) {
  memset(mean, 0, dim * sizeof *mean);
  for (size_t i = 0; i < n; i++) la_axpy(1 / (double)n, draws[i], mean, dim);
}

/* Variances, with a trace of what they were: where all draws are the same, something is left. */
static void variances(const Metric *m, const double *const *draws, size_t n, const double *mean,
                      double *var) {
  size_t dim = m->dim;
  for (size_t k = 0; k < dim; k++) {
    double s = 0, was = m->dense ? la_dot(m->root + k * dim, m->root + k * dim, k + 1)
                                 : m->root[k] * m->root[k];
    for (size_t i = 0; i < n; i++) s += (draws[i][k] - mean[k]) * (draws[i][k] - mean[k]);
    var[k] = s / (double)(n - 1) + 1e-3 * was / (double)n;
  }
}

/* Draws with their means and variances. */
typedef struct {
  const double *const *draws;
  size_t n, dim;
  double *mean, *var;
} DrawSet;

/* Correlations, shrunk where there are not many more draws than parameters: the least eigenvalues
 * are then too small by chance. */
static void correlations(const DrawSet *d, double *x, double *R) {
  size_t dim = d->dim;
  double ratio = (double)dim / (double)d->n,
         shrink = 1 / (1 + 0.1 * ratio * ratio) / (double)(d->n - 1);
  memset(R, 0, dim * dim * sizeof *R);
  for (size_t i = 0; i < d->n; i++) {
    for (size_t k = 0; k < dim; k++) x[k] = (d->draws[i][k] - d->mean[k]) / sqrt(d->var[k]);
    for (size_t k = 0; k < dim; k++) la_axpy(x[k], x, R + k * dim, k);
  }
  for (size_t k = 0; k < dim; k++) {
    R[k * dim + k] = 1;
    for (size_t j = 0; j < k; j++) R[j * dim + k] = R[k * dim + j] *= shrink;
  }
}

/* What a dense metric is worth: trajectories get shorter by the root of the condition of the
 * correlations. It costs dim^2 a step. */
static bool is_worth_it(Arena *work, const double *R, size_t dim) {
  double *A = memcpy(NEW_ARRAY(work, double, dim *dim), R, dim * dim * sizeof *A),
         *w = NEW_ARRAY(work, double, dim), *V = NEW_ARRAY(work, double, dim *dim),
         *room = NEW_ARRAY(work, double, dim *(dim + 2));
  if (!la_eigen_symmetric(A, w, V, room, dim)) return false;
  return w[dim - 1] > 4 * fmax(w[0], 1e-12);
}

void metric_estimate(Arena *work, Metric *m, const double *const *draws, size_t n,
                     MetricKind kind) {
  enum { MOST_AUTO = 128 };
  size_t dim = m->dim;
  if (n < 4 || kind == METRIC_AS_GIVEN) return;
  double *mean = NEW_ARRAY(work, double, dim + 1), *var = NEW_ARRAY(work, double, dim + 1);
  mean_of(draws, n, dim, mean);
  variances(m, draws, n, mean, var);
  bool enough = n >= 5 * dim && dim > 1;
  if (kind == METRIC_DIAG || dim > MOST_DENSE ||
      (kind == METRIC_AUTO && (!enough || dim > MOST_AUTO))) {
    metric_diagonal(m, var);
    return;
  }
  double *R = NEW_ARRAY(work, double, dim *dim), *x = NEW_ARRAY(work, double, dim);
  correlations(&(DrawSet){draws, n, dim, mean, var}, x, R);
  bool dense = kind == METRIC_DENSE || is_worth_it(work, R, dim);
  for (size_t i = 0; i < dim; i++)
    for (size_t k = 0; k < dim; k++) R[i * dim + k] *= sqrt(var[i] * var[k]);
  if (!dense || !metric_dense(m, R)) metric_diagonal(m, var);
}
