/* flow.c: theta = m + L x, x = coupling layers of rational-quadratic splines of u (coupling.h,
 * rqs.h): a neural spline flow (Durkan et al. 2019), then fullrank; phi = (fullrank's, weights of
 * the layers). At the start the layers are the identity.
 */
#include "family/coupling.h"
#include "family/rqs.h"

#include <string.h>

/* ---- the map: a spline with `knots` bins ----------------------------------------------------- */

static size_t outputs(const Shape *s) { return rqs_raw(s->knots); }
static size_t work(const Shape *s) { return 2 * rqs_room(s->knots); } /* knots and their adjoints */

static Knots knots_of(const Maps *m) {
  Knots knots = rqs_place(m->shape->knots, m->ld, m->work);
  rqs_knots(&knots, m->raw, m->n, m->k);
  return knots;
}

static void map_forward(const Maps *m, const double *x, double *y, double *log_det) {
  Knots knots = knots_of(m);
  for (size_t j = 0; j < m->n; j++) {
    double slope;
    y[j] = rqs_value(&knots, j, x[j], &slope);
    log_det[j] += slope;
  }
}

static void map_adjoint(const Maps *m, const double *x, double *adj, double adj_log_det,
                        double *adj_raw) {
  size_t bins = m->shape->knots, room = rqs_room(bins) * m->ld;
  Knots knots = knots_of(m), back = rqs_place(bins, m->ld, m->work + room);
  memset(back.x, 0, room * sizeof *back.x);
  for (size_t j = 0; j < m->n; j++)
    adj[j] = rqs_adjoint(&knots, j, x[j], adj[j], adj_log_det, &back);
  rqs_knots_adjoint(&knots, &back, adj_raw, m->n, m->k);
}

static void map_inverse(const Maps *m, const double *y, double *x, double *log_det) {
  Knots knots = knots_of(m);
  for (size_t j = 0; j < m->n; j++) {
    double slope;
    x[j] = rqs_inverse(&knots, j, y[j], &slope);
    log_det[j] += slope;
  }
}

static const Transform spline = {outputs, work, map_forward, map_adjoint, map_inverse};

/* ---- the family ------------------------------------------------------------------------------ */

/* adj_x = L' adj_theta */
static void pull(const double *phi, const Noise *n, const double *adj, double *adj_x) {
  size_t dim = n->shape->dim, ld = n->ld;
  const double *L = phi + dim;
  memset(adj_x, 0, dim * ld * sizeof *adj_x);
  for (size_t i = 0; i < dim; L += ++i)
    for (size_t k = 0; k <= i; k++)
      n->k->axpy(adj_x + k * ld, k == i ? family_sd(L[k]) : L[k], adj + i * ld, ld);
}

FLOW_FAMILY(flow, fullrank, pull, &spline)

/* ---- the same with networks that see something else besides (conditional.h) ------------------ */

size_t conditional_shifts(const Shape *s) { return flow_shifts(&the_flow, s); }
size_t conditional_room(const Shape *s, size_t ld) { return flow_lanes_room(&the_flow, s, ld); }
void conditional_normalise(const FlowLanes *c, double *x, double *log_det) {
  flow_normalise(&the_flow, c, x, log_det);
}
void conditional_adjoint(const FlowLanes *c, double *adj, double *grad, double *adj_shift) {
  flow_normalise_adjoint(&the_flow, c, adj, grad, adj_shift);
}
void conditional_shift(const Shape *s, const double *shift, double *w) {
  flow_shift_weights(&the_flow, s, shift, w);
}
