/* posterior_head.c: a network's outputs as a distribution of t, its density, and the way back:
 *
 *     t = m + L x, x = layers(u):  -log q(t) = |u|^2 / 2 + log det layers + sum log L_kk +
 * constant.
 */
#include "infer/amortized.h"

#include "family/conditional.h"

#include <math.h>
#include <string.h>

#define HALF_LOG_2PI 0.91893853320467274178

static size_t triangle(size_t n) { return n * (n + 1) / 2; }
static size_t affine_of(const Head *h) { return family_of(FAMILY_fullrank)->size(&h->shape); }

Head head_make(const Lessons *l, const AmortizedOptions *o) {
  Head h = {.l = l, .shape = o->shape};
  h.shape.dim = l->dim;
  if (!h.shape.knots)
    h.shape.knots = family_default(FAMILY_flow, "knots"); /* in one dimension, too */
  h.shape = family_shape(FAMILY_flow, h.shape);
  h.net = (NetworkShape){l->size, o->hidden, affine_of(&h) + conditional_shifts(&h.shape)};
  h.nnet = network_size(&h.net);
  h.nflow = family_of(FAMILY_flow)->size(&h.shape) - affine_of(&h);
  return h;
}

/* Normals of standard width about zero, and layers that change nothing. */
void head_start(Arena *a, const Head *h, uint64_t seed, double *w) {
  network_start(&h->net, seed, w);
  size_t affine = affine_of(h), dim = h->shape.dim;
  double *phi = NEW_ARRAY(a, double, affine + h->nflow), *zero = NEW_ARRAY(a, double, dim),
         *one = NEW_ARRAY(a, double, dim);
  for (size_t k = 0; k < dim; k++) one[k] = 1;
  family_of(FAMILY_flow)->start(phi, &h->shape, zero, one);
  memcpy(w + h->nnet, phi + affine, h->nflow * sizeof *w);
}

/* ---- lanes ----------------------------------------------------------------------------------- */

typedef struct {
  double *in, *out, *adj_out, *z, *adj, *log_det, *net, *flow;
} Room;

static size_t room_size(const Head *h) {
  return (h->net.in + 2 * h->net.out + 2 * h->shape.dim + 1) * PIECE +
         network_room(&h->net, PIECE) + conditional_room(&h->shape, PIECE);
}

static Room room_of(const Head *h, double *x) {
  Room r = {.in = x};
  r.out = r.in + h->net.in * PIECE;
  r.adj_out = r.out + h->net.out * PIECE;
  r.z = r.adj_out + h->net.out * PIECE;
  r.adj = r.z + h->shape.dim * PIECE;
  r.log_det = r.adj + h->shape.dim * PIECE;
  r.net = r.log_det + PIECE;
  r.flow = r.net + network_room(&h->net, PIECE);
  return r;
}

static Network network_of(const Head *h, const double *w, double *room) {
  return (Network){h->net, kernels_best(), w, PIECE, room};
}

static FlowLanes lanes_of(const Head *h, const double *w, const Room *r) {
  return (FlowLanes){&h->shape, kernels_best(), PIECE, w + h->nnet, r->out + affine_of(h) * PIECE,
                     r->flow};
}

/* z = L^-1 (t - m) and the sum of log L_kk, lane by lane. */
static double affine_inverse(const Head *h, const double *out, size_t j, double *z) {
  size_t dim = h->shape.dim, ld = PIECE;
  const double *L = out + dim * ld;
  double sum = 0;
  for (size_t k = 0; k < dim; k++) {
    double x = z[k * ld + j] - out[k * ld + j];
    for (size_t i = 0; i < k; i++, L += ld) x -= L[j] * z[i * ld + j];
    z[k * ld + j] = x * exp(-L[j]);
    sum += L[j];
    L += ld;
  }
  return sum;
}

/* From adj, of z: that of m and of L's rows. r = t - m has L^-T adj, and the factor -r z'. */
static void affine_adjoint(const Head *h, const Room *room, size_t j) {
  size_t dim = h->shape.dim;
  const double *L = room->out + dim * PIECE;
  double *adj_L = room->adj_out + dim * PIECE, *g = room->adj;
  for (size_t k = dim; k-- > 0;) {
    size_t row = triangle(k);
    double r = g[k * PIECE + j] * exp(-L[(row + k) * PIECE + j]);
    for (size_t i = 0; i < k; i++) {
      g[i * PIECE + j] -= L[(row + i) * PIECE + j] * r;
      adj_L[(row + i) * PIECE + j] = -r * room->z[i * PIECE + j];
    }
    adj_L[(row + k) * PIECE + j] = 1 - g[k * PIECE + j] * room->z[k * PIECE + j];
    room->adj_out[k * PIECE + j] = -r;
  }
}

/* Of PIECE lessons: z and u, and the sum of -log q. */
static double forward(const Head *h, const double *w, const size_t *which, const Room *r,
                      double *u) {
  size_t dim = h->shape.dim;
  Network f = network_of(h, w, r->net);
  FlowLanes c = lanes_of(h, w, r);
  double sum = 0;
  for (size_t j = 0; j < PIECE; j++) {
    const double *s = h->l->s + which[j] * h->l->size, *t = h->l->t + which[j] * dim;
    for (size_t k = 0; k < h->net.in; k++) r->in[k * PIECE + j] = s[k];
    for (size_t k = 0; k < dim; k++) r->z[k * PIECE + j] = t[k];
  }
  network_forward(&f, r->in, r->out);
  for (size_t j = 0; j < PIECE; j++) sum += affine_inverse(h, r->out, j, r->z);
  memcpy(u, r->z, dim * PIECE * sizeof *u);
  conditional_normalise(&c, u, r->log_det);
  for (size_t j = 0; j < PIECE; j++) sum += r->log_det[j];
  for (size_t i = 0; i < dim * PIECE; i++) sum += 0.5 * u[i] * u[i] + HALF_LOG_2PI;
  return sum;
}

static double loss(const void *self, const double *w, const LessonPiece *p, double *grad) {
  const Head *h = self;
  Room r = room_of(h, p->room);
  Network f = network_of(h, w, r.net);
  FlowLanes c = lanes_of(h, w, &r);
  double sum = forward(h, w, p->which, &r, r.adj); /* u is its own adjoint */
  if (!grad) return sum;
  conditional_adjoint(&c, r.adj, grad + h->nnet, r.adj_out + affine_of(h) * PIECE);
  for (size_t j = 0; j < PIECE; j++) affine_adjoint(h, &r, j);
  network_adjoint(&f, r.in, r.adj_out, grad, NULL);
  return sum;
}

Learner head_learner(const Head *h) {
  return (Learner){h->nnet + h->nflow, room_size(h), loss, h, "learning the posterior"};
}

/* ---- what was learned ------------------------------------------------------------------------ */

void head_noise(Ctx *c, const Head *h, const double *w, double *u) {
  TempArena *temp = temp_open(c);
  Room r = room_of(h, NEW_ARRAY(&temp->arena, double, room_size(h)));
  size_t dim = h->shape.dim, n = h->l->n, which[PIECE];
  for (size_t at = 0; at < n; at += PIECE) {
    for (size_t j = 0; j < PIECE; j++) which[j] = at + j < n ? at + j : n - 1;
    forward(h, w, which, &r, r.adj);
    for (size_t j = 0; j < PIECE && at + j < n; j++)
      for (size_t k = 0; k < dim; k++) u[(at + j) * dim + k] = r.adj[k * PIECE + j];
  }
  temp_close(temp);
}

/* theta = centre + scale t. */
double *head_phi(Ctx *c, const Head *h, const double *w) {
  const Lessons *l = h->l;
  size_t affine = affine_of(h);
  TempArena *temp = temp_open(c);
  Room r = room_of(h, NEW_ARRAY(&temp->arena, double, room_size(h)));
  Network f = network_of(h, w, r.net);
  double *phi = NEW_ARRAY(&c->arena, double, affine + h->nflow), *L = phi + l->dim,
         *shift = NEW_ARRAY(&temp->arena, double, h->net.out - affine);
  for (size_t i = 0; i < h->net.in * PIECE; i++) r.in[i] = l->seen[i / PIECE];
  network_forward(&f, r.in, r.out);
  for (size_t k = 0; k < h->net.out; k++)
    *(k < affine ? &phi[k] : &shift[k - affine]) = r.out[k * PIECE];
  for (size_t k = 0; k < l->dim; k++) {
    phi[k] = l->centre[k] + l->scale[k] * phi[k];
    for (size_t i = 0; i < k; i++) *L++ *= l->scale[k];
    *L++ += log(l->scale[k]);
  }
  memcpy(phi + affine, w + h->nnet, h->nflow * sizeof *phi);
  conditional_shift(&h->shape, shift, phi + affine);
  temp_close(temp);
  return phi;
}
