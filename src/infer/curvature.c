/* curvature.c: the posterior's covariance, by the curvature of the log density at VI's mean: a
 * start for families with correlations, which mean-field VI does not know.
 *
 * The curvature comes from differences of the gradient, half a standard deviation of VI to either
 * side. What is not positive definite is made so with VI's own precisions.
 */
#include "infer/fit_int.h"

#include "num/linalg.h"

#include <math.h>
#include <string.h>

enum { MOST_CURVATURE = 300 }; /* parameters, at most, for which it is computed */

/* The gradient with parameter k moved by a step; false: it is not finite. */
static bool gradient_at(Fitter *f, Predictive *log, double *theta, size_t k, double step,
                        double *g) {
  PredictiveValue v;
  double centre = theta[k];
  theta[k] = centre + step;
  bool ok = predictive_eval(log, theta, &v, g);
  theta[k] = centre;
  f->fit->evaluations++;
  return ok;
}

/* Minus the Hessian of the log density at VI's mean, symmetric; false: unknown. */
static bool curvature(Fitter *f, double *H) {
  size_t dim = f->model->dim;
  Predictive *log = fit_log_density(f, fit_point_q(f));
  double *theta = NEW_ARRAY(f->arena, double, dim), *up = NEW_ARRAY(f->arena, double, dim),
         *down = NEW_ARRAY(f->arena, double, dim);
  memcpy(theta, f->mean, dim * sizeof *theta);
  for (size_t k = 0; k < dim; k++) {
    double h = 0.5 * f->sd[k];
    if (!gradient_at(f, log, theta, k, h, up) || !gradient_at(f, log, theta, k, -h, down))
      return false;
    for (size_t i = 0; i < dim; i++) H[k * dim + i] = (down[i] - up[i]) / (2 * h);
  }
  for (size_t k = 0; k < dim; k++)
    for (size_t i = 0; i < k; i++)
      H[k * dim + i] = H[i * dim + k] = 0.5 * (H[k * dim + i] + H[i * dim + k]);
  return true;
}

/* (H + c D)^-1, D = diag(1 / sd^2), for c the least that makes the sum positive definite. */
static bool inverse(const Fitter *f, const double *H, double *cov) {
  size_t dim = f->model->dim;
  double *A = NEW_ARRAY(f->arena, double, dim *dim), *K = NEW_ARRAY(f->arena, double, dim *dim),
         *work = NEW_ARRAY(f->arena, double, dim *dim);
  for (double c = 1e-6; c < 1e3; c *= 10) {
    memcpy(A, H, dim * dim * sizeof *A);
    for (size_t k = 0; k < dim; k++) A[k * dim + k] += c / (f->sd[k] * f->sd[k]);
    if (!la_cholesky(A, K, dim)) continue;
    la_cholesky_inverse(K, cov, work, dim);
    return true;
  }
  return false;
}

/* The same for the parameters that have a distribution, decomposed. */
static bool root_of(const Fitter *f, const double *cov, double *root) {
  size_t dim = f->model->dim, n = f->q.shape.dim;
  double *part = NEW_ARRAY(f->arena, double, n *n);
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k <= i; k++)
      part[i * n + k] = cov[(f->q.free ? f->q.free[i] : i) * dim + (f->q.free ? f->q.free[k] : k)];
  return la_cholesky(part, root, n);
}

bool fit_posterior_root(Fitter *f, double *root) {
  size_t dim = f->model->dim;
  if (dim > MOST_CURVATURE) return false;
  FitMark mark = fit_mark(f);
  double *H = NEW_ARRAY(f->arena, double, dim *dim), *cov = NEW_ARRAY(f->arena, double, dim *dim);
  bool known = curvature(f, H) && inverse(f, H, cov) && root_of(f, cov, root);
  fit_release(f, mark);
  return known;
}
