/* meanfield.c: theta_k = m_k + s_k u_k, phi = (m, log s). */
#include "family/family.h"

#include <math.h>

static const double HALF_LOG_2PI = 0.91893853320467274178;

static size_t size(size_t dim) { return 2 * dim; }
static size_t noise(size_t dim) { return dim; }

static void start(double *phi, size_t dim, const double *mean, const double *sd) {
  for (size_t k = 0; k < dim; k++) {
    phi[k] = mean[k];
    phi[dim + k] = log(sd[k]);
  }
}

static void moments(const double *phi, size_t dim, double *mean, double *sd) {
  for (size_t k = 0; k < dim; k++) {
    mean[k] = phi[k];
    sd[k] = family_sd(phi[dim + k]);
  }
}

static void draw(const double *phi, const Noise *n, double *theta) {
  for (size_t k = 0; k < n->dim; k++) {
    double m = phi[k], s = family_sd(phi[n->dim + k]);
    for (size_t j = 0; j < n->ld; j++) theta[k * n->ld + j] = m + s * n->u[k * n->ld + j];
  }
}

/* d theta / d m = 1, d theta / d log s = s u */
static void adjoint(const double *phi, const Noise *n, const double *adj, double *grad) {
  for (size_t k = 0; k < n->dim; k++) {
    const double *a = adj + k * n->ld;
    grad[k] += n->k->sum(a, n->M);
    grad[n->dim + k] += family_sd(phi[n->dim + k]) * n->k->dot(a, n->u + k * n->ld, n->M);
  }
}

/* sum log s + d (1 + log 2 pi) / 2 */
static double entropy(const double *phi, const Noise *n, double weight, double *grad) {
  double h = (double)n->dim * (0.5 + HALF_LOG_2PI);
  for (size_t k = 0; k < n->dim; k++) {
    h += phi[n->dim + k];
    grad[n->dim + k] += weight;
  }
  return h;
}

static void log_q(const double *phi, const Noise *n, double *out) {
  double c = -(double)n->dim * HALF_LOG_2PI;
  for (size_t k = 0; k < n->dim; k++) c -= phi[n->dim + k];
  for (size_t j = 0; j < n->M; j++) out[j] = c;
  for (size_t k = 0; k < n->dim; k++)
    for (size_t j = 0; j < n->M; j++) out[j] -= 0.5 * n->u[k * n->ld + j] * n->u[k * n->ld + j];
}

/* An ELBO's curvature at its optimum: 1 / s^2 in m, 2 in log s. */
static void scale(const double *phi, size_t dim, double *d) {
  for (size_t k = 0; k < dim; k++) {
    double s = family_sd(phi[dim + k]);
    d[k] = s * s;
    d[dim + k] = 0.5;
  }
}

const Family family_meanfield = {.size = size, .noise = noise, .start = start, .moments = moments, .draw = draw,
                                 .adjoint = adjoint, .entropy = entropy, .log_q = log_q, .scale = scale};
