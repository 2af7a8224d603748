/* meanfield.c: theta_k = m_k + s_k u_k, phi = (m, log s). */
#include "family/family_int.h"

#include <math.h>

static size_t size(const Shape *s) { return 2 * s->dim; }
static size_t noise(const Shape *s) { return s->dim; }

static void start(double *phi, const Shape *shape, const double *mean, const double *sd) {
  size_t dim = shape->dim;
  for (size_t k = 0; k < dim; k++) {
    phi[k] = mean[k];
    phi[dim + k] = log(sd[k]);
  }
}

static void stretch(double *phi, const Shape *shape, size_t k, double factor, double move) {
  phi[k] += move;
  phi[shape->dim + k] += log(factor);
}

static void moments(const double *phi, const Shape *shape, double *mean, double *sd) {
  size_t dim = shape->dim;
  for (size_t k = 0; k < dim; k++) {
    mean[k] = phi[k];
    sd[k] = family_sd(phi[dim + k]);
  }
}

static void draw_row(const double *phi, const Noise *n, size_t k, double *theta) {
  double m = phi[k], s = family_sd(phi[n->shape->dim + k]);
  const double *u = n->u + k * n->ld;
  for (size_t j = 0; j < n->ld; j++) theta[j] = m + s * u[j];
}

static void draw(const double *phi, const Noise *n, double *theta) {
  for (size_t k = 0; k < n->shape->dim; k++) draw_row(phi, n, k, theta + k * n->ld);
}

/* d theta / d m = 1, d theta / d log s = s u */
static void adjoint_row(const double *phi, const Noise *n, size_t k, const double *adj,
                        double *grad) {
  size_t log_s = n->shape->dim + k;
  grad[k] += n->k->sum(adj, n->M);
  grad[log_s] += family_sd_slope(phi[log_s]) * n->k->dot(adj, n->u + k * n->ld, n->M);
}

static void adjoint(const double *phi, const Noise *n, const double *adj, const double *adj_w,
                    double *grad) {
  (void)adj_w;
  for (size_t k = 0; k < n->shape->dim; k++) adjoint_row(phi, n, k, adj + k * n->ld, grad);
}

/* sum log s + d (1 + log 2 pi) / 2 */
static double entropy(const double *phi, const Noise *n, double weight, double *grad) {
  size_t dim = n->shape->dim;
  double h = (double)dim * (0.5 + HALF_LOG_2PI);
  for (size_t k = 0; k < dim; k++) {
    h += family_log_sd(phi[dim + k]);
    grad[dim + k] += weight * family_log_sd_slope(phi[dim + k]);
  }
  return h;
}

static void log_q(const double *phi, const Noise *n, double *out) {
  size_t dim = n->shape->dim;
  double c = -(double)dim * HALF_LOG_2PI;
  for (size_t k = 0; k < dim; k++) c -= family_log_sd(phi[dim + k]);
  for (size_t j = 0; j < n->M; j++) out[j] = c;
  for (size_t k = 0; k < dim; k++)
    for (size_t j = 0; j < n->M; j++) out[j] -= 0.5 * n->u[k * n->ld + j] * n->u[k * n->ld + j];
}

/* d log q / d m = u / s, d log q / d log s = u^2 - 1 */
static void score_function(const double *phi, const Noise *n, const double *c, double *grad) {
  size_t dim = n->shape->dim;
  for (size_t k = 0; k < dim; k++) {
    double s = family_sd(phi[dim + k]), slope = family_log_sd_slope(phi[dim + k]);
    const double *u = n->u + k * n->ld;
    for (size_t j = 0; j < n->M; j++) {
      grad[k] += c[j] * u[j] / s;
      grad[dim + k] += c[j] * (u[j] * u[j] - 1) * slope;
    }
  }
}

/* An ELBO's curvature at its optimum: 1 / s^2 in m, 2 in log s. */
static void scale(const double *phi, const Shape *shape, const double *unit, double *d) {
  size_t dim = shape->dim;
  for (size_t k = 0; k < dim; k++) {
    double s = family_wider(family_sd(phi[dim + k]), unit, k);
    d[k] = s * s;
    d[dim + k] = 0.5;
  }
}

static void reach(const double *phi, const Shape *shape, double *d) {
  size_t dim = shape->dim;
  for (size_t k = 0; k < dim; k++) {
    d[k] = family_reach_at(phi[k], family_sd(phi[dim + k]));
    d[dim + k] = REACH_LOG;
  }
}

static int parts(const Shape *s, FamilyPart *out) {
  out[0] = (FamilyPart){"mean", 0, s->dim, 1};
  out[1] = (FamilyPart){"log_sd", s->dim, s->dim, 1};
  return 2;
}

static void inverse(const double *phi, const Shape *shape, const double *theta, double *u,
                    double *log_det) {
  size_t dim = shape->dim;
  *log_det = 0;
  for (size_t k = 0; k < dim; k++) {
    u[k] = (theta[k] - phi[k]) / family_sd(phi[dim + k]);
    *log_det += family_log_sd(phi[dim + k]);
  }
}

static void laws(const double *phi, const Shape *shape, NormalLaw *out) {
  size_t dim = shape->dim;
  out->weight = 1;
  for (size_t k = 0; k < dim; k++) {
    double s = family_sd(phi[dim + k]);
    out->mean[k] = phi[k];
    out->var[k] = s * s;
  }
}

static void laws_adjoint(const double *phi, const Shape *shape, const NormalLaw *law,
                         const NormalLaw *adj, double *grad) {
  size_t dim = shape->dim;
  for (size_t k = 0; k < dim; k++) {
    grad[k] += adj->mean[k];
    grad[dim + k] += 2 * law->var[k] * adj->var[k] * family_log_sd_slope(phi[dim + k]);
  }
}

/* x' S w = sum x_k w_k s_k^2 */
static void pull(const double *phi, const Shape *shape, const double *x, const double *w,
                 double *grad) {
  size_t dim = shape->dim;
  for (size_t k = 0; k < dim; k++) {
    double s = family_sd(phi[dim + k]);
    if (w) {
      grad[dim + k] += 2 * x[k] * w[k] * s * s * family_log_sd_slope(phi[dim + k]);
    } else {
      grad[k] += x[k];
    }
  }
}

const Family family_meanfield = {.size = size,
                                 .noise = noise,
                                 .start = start,
                                 .stretch = stretch,
                                 .moments = moments,
                                 .draw = draw,
                                 .adjoint = adjoint,
                                 .draw_row = draw_row,
                                 .adjoint_row = adjoint_row,
                                 .entropy = entropy,
                                 .log_q = log_q,
                                 .score_function = score_function,
                                 .scale = scale,
                                 .reach = reach,
                                 .parts = parts,
                                 .inverse = inverse,
                                 .independent = true,
                                 .normals = family_one_normal,
                                 .laws = laws,
                                 .laws_adjoint = laws_adjoint,
                                 .pull = pull};
