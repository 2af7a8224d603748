/* network.h: a network with two hidden layers of tanh, and a linear way past them:
 *
 *     out = A in + a + W3 tanh(W2 tanh(W1 in + b1) + b2),
 *
 * over lanes: row k of `in` is number k of every lane. All weights are one vector, in the order W1,
 * b1, W2, b2, W3, A, a; matrices are row-major.
 */
#ifndef PVI_NETWORK_H
#define PVI_NETWORK_H

#include "vm/kernels.h"

typedef struct {
  size_t in, hidden, out;
} NetworkShape;

size_t network_size(const NetworkShape *s);
/* Hidden units look in random directions, W3 is small, A and a are zero. */
void network_start(const NetworkShape *s, uint64_t seed, double *w);

/* Where A[out, in] is among the weights; in = s->in: where a[out] is. */
size_t network_past(const NetworkShape *s, size_t out, size_t in);

/* A network at work on ld lanes. */
typedef struct {
  NetworkShape shape;
  const Kernels *k;
  const double *w;
  size_t ld;
  double *room; /* network_room numbers: hidden units and their adjoints */
} Network;

size_t network_room(const NetworkShape *s, size_t ld);
void network_forward(const Network *f, const double *in, double *out);
/* After it, with the same `in`: grad += that of the weights, adj_in = that of the inputs; both may
 * be NULL. */
void network_adjoint(const Network *f, const double *in, const double *adj_out, double *grad,
                     double *adj_in);

#endif
