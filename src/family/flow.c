/* flow.c: theta = m + L x, x = coupling layers of rational-quadratic splines of u (coupling.h, rqs.h): a neural spline flow
 * (Durkan et al. 2019), then fullrank; phi = (fullrank's, weights of the layers). At the start the layers are the identity.
 */
#include "family/coupling.h"
#include "family/rqs.h"

#include <string.h>

/* ---- the map: a spline with `knots` bins -------------------------------------------------------------------------- */

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

static void map_adjoint(const Maps *m, const double *x, double *adj, double adj_log_det, double *adj_raw) {
  size_t bins = m->shape->knots, room = rqs_room(bins) * m->ld;
  Knots knots = knots_of(m), back = rqs_place(bins, m->ld, m->work + room);
  memset(back.x, 0, room * sizeof *back.x);
  for (size_t j = 0; j < m->n; j++) adj[j] = rqs_adjoint(&knots, j, x[j], adj[j], adj_log_det, &back);
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

/* ---- the family --------------------------------------------------------------------------------------------------- */

/* adj_x = L' adj_theta */
static void pull(const double *phi, const Noise *n, const double *adj, double *adj_x) {
  size_t dim = n->shape->dim, ld = n->ld;
  const double *L = phi + dim;
  memset(adj_x, 0, dim * ld * sizeof *adj_x);
  for (size_t i = 0; i < dim; L += ++i)
    for (size_t k = 0; k <= i; k++) n->k->axpy(adj_x + k * ld, k == i ? family_sd(L[k]) : L[k], adj + i * ld, ld);
}

static const Flow flow = {&family_fullrank, pull, &spline};

static size_t size(const Shape *s) { return flow_size(&flow, s); }
static size_t noise(const Shape *s) { return s->dim; }
static size_t scratch(const Shape *s, size_t ld) { return flow_scratch(&flow, s, ld); }
static void start(double *phi, const Shape *s, const double *mean, const double *sd) { flow_start(&flow, phi, s, mean, sd); }
static void moments(const double *phi, const Shape *s, double *mean, double *sd) {
  family_sampled_moments(&family_flow, phi, s, mean, sd);
}
static void draw(const double *phi, const Noise *n, double *theta) { flow_draw(&flow, phi, n, theta); }
static void adjoint(const double *phi, const Noise *n, const double *adj, const double *adj_w, double *grad) {
  (void)adj_w;
  flow_adjoint(&flow, phi, n, adj, grad);
}
static double entropy(const double *phi, const Noise *n, double weight, double *grad) {
  return flow_entropy(&flow, phi, n, weight, grad);
}
static void log_q(const double *phi, const Noise *n, double *out) { flow_log_q(&flow, phi, n, out); }
static void scale(const double *phi, const Shape *s, double *d) { flow_scale(&flow, phi, s, d); }
static int parts(const Shape *s, FamilyPart *out) { return flow_parts(&flow, s, out); }
static void inverse(const double *phi, const Shape *s, const double *theta, double *u, double *log_det) {
  flow_inverse(&flow, phi, s, theta, u, log_det);
}

const Family family_flow = {.size = size,
                            .noise = noise,
                            .scratch = scratch,
                            .start = start,
                            .moments = moments,
                            .draw = draw,
                            .adjoint = adjoint,
                            .entropy = entropy,
                            .log_q = log_q,
                            .scale = scale,
                            .parts = parts,
                            .inverse = inverse};
