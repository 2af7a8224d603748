/* realnvp.c: theta = m + s x, x = affine coupling layers of u (coupling.h; Dinh, Sohl-Dickstein,
 * Bengio 2017, sec. 3); phi = (meanfield's, weights of the layers). At the start the layers are the
 * identity.
 */
#include "family/coupling.h"

/* ---- the map: y = x exp(s) + t, raw = (r, t), s = LIMIT tanh(r / LIMIT) ---------------------- */

#define LIMIT 3.0 /* one layer stretches by at most exp(3) */

static size_t outputs(const Shape *s) {
  (void)s;
  return 2;
}
static size_t work(const Shape *s) {
  (void)s;
  return 2;
}

static void map_row(const Maps *m, IrOp op, double *row) {
  m->k->forward[op](row, (const double *[]){row}, (size_t[]){1}, m->n);
}

/* tanh(r / LIMIT) and exp(s), of every lane */
static void bend(const Maps *m, double **bent, double **factor) {
  *bent = m->work;
  *factor = m->work + m->ld;
  for (size_t j = 0; j < m->n; j++) (*bent)[j] = m->raw[j] / LIMIT;
  map_row(m, IR_TANH, *bent);
  for (size_t j = 0; j < m->n; j++) (*factor)[j] = LIMIT * (*bent)[j];
  map_row(m, IR_EXP, *factor);
}

static void map_forward(const Maps *m, const double *x, double *y, double *log_det) {
  const double *t = m->raw + m->ld;
  double *bent, *factor;
  bend(m, &bent, &factor);
  for (size_t j = 0; j < m->n; j++) {
    y[j] = x[j] * factor[j] + t[j];
    log_det[j] += LIMIT * bent[j];
  }
}

/* dy/dx = exp(s), dy/dt = 1, dy/ds = x exp(s), d log det / ds = 1, ds/dr = 1 - tanh^2 */
static void map_adjoint(const Maps *m, const double *x, double *adj, double adj_log_det,
                        double *adj_raw) {
  double *bent, *factor;
  bend(m, &bent, &factor);
  for (size_t j = 0; j < m->n; j++) {
    adj_raw[m->ld + j] = adj[j];
    adj[j] *= factor[j];
    adj_raw[j] = (adj[j] * x[j] + adj_log_det) * (1 - bent[j] * bent[j]);
  }
}

static void map_inverse(const Maps *m, const double *y, double *x, double *log_det) {
  const double *t = m->raw + m->ld;
  double *bent, *factor;
  bend(m, &bent, &factor);
  for (size_t j = 0; j < m->n; j++) {
    x[j] = (y[j] - t[j]) / factor[j];
    log_det[j] += LIMIT * bent[j];
  }
}

static const Transform affine = {outputs, work, map_forward, map_adjoint, map_inverse};

/* ---- the family ------------------------------------------------------------------------------ */

/* adj_x = s adj_theta */
static void pull(const double *phi, const Noise *n, const double *adj, double *adj_x) {
  size_t dim = n->shape->dim;
  for (size_t k = 0; k < dim; k++) {
    double s = family_sd(phi[dim + k]);
    for (size_t j = 0; j < n->ld; j++) adj_x[k * n->ld + j] = s * adj[k * n->ld + j];
  }
}

FLOW_FAMILY(realnvp, meanfield, pull, &affine)
