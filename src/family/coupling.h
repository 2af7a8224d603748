/* coupling.h: normalizing flows: theta = affine(layers(u)), each layer a coupling (Dinh,
 * Sohl-Dickstein, Bengio 2017).
 *
 * A coupling layer keeps one half of the coordinates and sends every coordinate of the other half
 * through a monotone map of one
 * variable, whose parameters (`raw`) are a function of the kept half: a network with one hidden
 * layer,
 *   raw = W2 tanh(W1 kept + b1) + b2.
 * Layers take the halves in turn. Its Jacobian is triangular: log det is the sum of the maps' log
 * slopes; and it is inverted by
 * the inverse of those maps. In one dimension there is nothing to keep: raw = b2, one layer.
 *
 * A family of this kind is a Flow: which map (Transform), and which family is the affine layer,
 * whose phi comes first. What
 * follows in phi are, layer by layer, W1 [hidden x kept], b1 [hidden], W2 [moved * outputs x
 * hidden], b2 [moved * outputs].
 */
#ifndef PVI_FAMILY_COUPLING_H
#define PVI_FAMILY_COUPLING_H

#include "family/conditional.h"
#include "family/family_int.h"

/* n lanes of raw parameters: number i of lane j at [i ld + j]; n is a multiple of LANES. */
typedef struct {
  const Shape *shape;
  const Kernels *k;
  size_t ld, n;
  double *raw;
  double *work; /* [work x ld] */
} Maps;

/* A monotone map y of one variable x, the identity at raw = 0. Functions work on rows of lanes. */
typedef struct {
  size_t (*outputs)(const Shape *s); /* how many raw parameters */
  size_t (*work)(const Shape *s);    /* rows of working memory */
  /* y, and log_det += log dy/dx */
  void (*forward)(const Maps *m, const double *x, double *y, double *log_det);
  /* adj: of y, then of x; every lane's log dy/dx has adjoint adj_log_det. adj_raw [outputs x ld] is
   * written. */
  void (*adjoint)(const Maps *m, const double *x, double *adj, double adj_log_det, double *adj_raw);
  /* x, and log_det += log dy/dx */
  void (*inverse)(const Maps *m, const double *y, double *x, double *log_det);
} Transform;

typedef struct {
  const Family *affine;
  /* adj_x = adj_theta d theta / d x of the affine layer; all lanes */
  void (*pull)(const double *phi, const Noise *n, const double *adj_theta, double *adj_x);
  const Transform *transform;
} Flow;

/* The functions of a Family. */
size_t flow_size(const Flow *f, const Shape *s);
size_t flow_scratch(const Flow *f, const Shape *s, size_t ld);
void flow_start(const Flow *f, double *phi, const Shape *s, const double *mean, const double *sd);
void flow_draw(const Flow *f, const double *phi, const Noise *n, double *theta);
void flow_adjoint(const Flow *f, const double *phi, const Noise *n, const double *adj,
                  double *grad);
double flow_entropy(const Flow *f, const double *phi, const Noise *n, double weight, double *grad);
void flow_log_q(const Flow *f, const double *phi, const Noise *n, double *out);
void flow_scale(const Flow *f, const double *phi, const Shape *s, const double *unit, double *d);
size_t flow_precondition(const Flow *f, const double *phi, const double *at, const Shape *s,
                         double *room, double *x);
void flow_reach(const Flow *f, const double *phi, const Shape *s, double *d);
int flow_parts(const Flow *f, const Shape *s, FamilyPart *out);
void flow_inverse(const Flow *f, const double *phi, const Shape *s, const double *theta, double *u,
                  double *log_det);

/* ---- conditional flows (conditional.h), of any Flow ----------------------------------------- */

size_t flow_shifts(const Flow *f, const Shape *s);
size_t flow_lanes_room(const Flow *f, const Shape *s, size_t ld);
void flow_normalise(const Flow *f, const FlowLanes *c, double *x, double *log_det);
void flow_normalise_adjoint(const Flow *f, const FlowLanes *c, double *adj, double *grad,
                            double *adj_shift);
void flow_shift_weights(const Flow *f, const Shape *s, const double *shift, double *w);

/* The Family `name` of a Flow whose affine layer is the family `base`, made of these. */
#define FLOW_FAMILY(name, base, ...)                                                               \
  static const Flow the_flow = {&family_##base, __VA_ARGS__};                                      \
  static size_t size(const Shape *s) { return flow_size(&the_flow, s); }                           \
  static size_t noise(const Shape *s) { return s->dim; }                                           \
  static size_t scratch(const Shape *s, size_t ld) { return flow_scratch(&the_flow, s, ld); }      \
  static void start(double *phi, const Shape *s, const double *mean, const double *sd) {           \
    flow_start(&the_flow, phi, s, mean, sd);                                                       \
  }                                                                                                \
  static void stretch(double *phi, const Shape *s, size_t k, double factor, double move) {         \
    the_flow.affine->stretch(phi, s, k, factor, move);                                             \
  }                                                                                                \
  static void moments(const double *phi, const Shape *s, double *mean, double *sd) {               \
    family_sampled_moments(&family_##name, phi, s, mean, sd);                                      \
  }                                                                                                \
  static void draw(const double *phi, const Noise *n, double *theta) {                             \
    flow_draw(&the_flow, phi, n, theta);                                                           \
  }                                                                                                \
  static void adjoint(const double *phi, const Noise *n, const double *adj, const double *adj_w,   \
                      double *grad) {                                                              \
    (void)adj_w;                                                                                   \
    flow_adjoint(&the_flow, phi, n, adj, grad);                                                    \
  }                                                                                                \
  static double entropy(const double *phi, const Noise *n, double weight, double *grad) {          \
    return flow_entropy(&the_flow, phi, n, weight, grad);                                          \
  }                                                                                                \
  static void log_q(const double *phi, const Noise *n, double *out) {                              \
    flow_log_q(&the_flow, phi, n, out);                                                            \
  }                                                                                                \
  static void scale(const double *phi, const Shape *s, const double *unit, double *d) {            \
    flow_scale(&the_flow, phi, s, unit, d);                                                        \
  }                                                                                                \
  static size_t precondition(const double *phi, const double *at, const Shape *s, double *room,    \
                             double *x) {                                                          \
    return flow_precondition(&the_flow, phi, at, s, room, x);                                      \
  }                                                                                                \
  static void reach(const double *phi, const Shape *s, double *d) {                                \
    flow_reach(&the_flow, phi, s, d);                                                              \
  }                                                                                                \
  static int parts(const Shape *s, FamilyPart *out) { return flow_parts(&the_flow, s, out); }      \
  static void inverse(const double *phi, const Shape *s, const double *theta, double *u,           \
                      double *log_det) {                                                           \
    flow_inverse(&the_flow, phi, s, theta, u, log_det);                                            \
  }                                                                                                \
  const Family family_##name = {.size = size,                                                      \
                                .noise = noise,                                                    \
                                .scratch = scratch,                                                \
                                .start = start,                                                    \
                                .stretch = stretch,                                                \
                                .moments = moments,                                                \
                                .draw = draw,                                                      \
                                .adjoint = adjoint,                                                \
                                .entropy = entropy,                                                \
                                .log_q = log_q,                                                    \
                                .scale = scale,                                                    \
                                .precondition = precondition,                                      \
                                .reach = reach,                                                    \
                                .parts = parts,                                                    \
                                .inverse = inverse,                                                \
                                .affine = &family_##base};

#endif
