/* metric.h: the metric of Hamiltonian dynamics: about the posterior's covariance, as a root S with
 * S S' = covariance, diagonal or lower triangular.
 *
 * Momenta are kept in the metric's own units: r is standard normal, the energy is r'r / 2, theta
 * moves by S r and r by S' gradient. So trajectories, turns and energies are those of a space in
 * which the posterior is about round, and nothing but these two products knows the metric.
 */
#ifndef PVI_METRIC_H
#define PVI_METRIC_H

#include "base/base.h"

typedef struct {
  size_t dim;
  bool dense;
  double *root; /* diagonal: dim; dense: [dim x dim], lower triangular */
} Metric;

Metric metric_make(Arena *a, size_t dim); /* room for either kind up to MOST_DENSE; units of 1 */
enum { MOST_DENSE = 256 };                /* parameters */
void metric_copy(Metric *to, const Metric *from);
/* theta += step S r */
void metric_move(const Metric *m, double step, const double *r, double *theta);
/* z = S^-1 x; they may be the same */
void metric_whiten(const Metric *m, const double *x, double *z);
/* force = S' gradient */
void metric_force(const Metric *m, const double *gradient, double *force);

/* The inverse mass matrix S S', dim or dim x dim numbers, as Stan's files have it, and from there.
 */
void metric_covariance(const Metric *m, double *cov);
void metric_diagonal(Metric *m, const double *variance);
bool metric_dense(Metric *m, const double *cov); /* false: it is not positive definite */

/* From n draws of the posterior, draw i at draws + i dim. Few draws say little: variances shrink to
 * `unit` squared, covariances to nothing. METRIC_AUTO is dense where that is worth its cost. */
typedef enum {
  METRIC_DIAG,
  METRIC_DENSE,
  METRIC_AUTO,
  METRIC_AS_GIVEN /* draws do not change it */
} MetricKind;
void metric_estimate(Arena *work, Metric *m, const double *const *draws, size_t n, MetricKind kind);

#endif
