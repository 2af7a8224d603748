/* network.c: a layer forward and backward, and the three of a network. */
#include "infer/network.h"

#include "num/rng.h"

#include <math.h>
#include <string.h>

enum { STREAM = 31 };

/* Where the matrices begin in w; a bias follows its matrix. W3 has none: a is there for it. */
typedef struct {
  size_t W1, W2, W3, A, end;
} Places;

static Places places(const NetworkShape *s) {
  Places p = {.W1 = 0};
  p.W2 = p.W1 + (s->in + 1) * s->hidden;
  p.W3 = p.W2 + (s->hidden + 1) * s->hidden;
  p.A = p.W3 + s->hidden * s->out;
  p.end = p.A + (s->in + 1) * s->out;
  return p;
}

size_t network_size(const NetworkShape *s) { return places(s).end; }

size_t network_past(const NetworkShape *s, size_t out, size_t in) {
  size_t A = places(s).A;
  return in < s->in ? A + out * s->in + in : A + s->in * s->out + out;
}

static void fill_normal(Rng key, uint64_t what, double sd, double *w, size_t n) {
  for (size_t i = 0; i < n; i++) w[i] = sd * rng_normal(key, i, what);
}

void network_start(const NetworkShape *s, uint64_t seed, double *w) {
  const double small = 0.1;
  Places p = places(s);
  Rng key = rng_make(seed, STREAM);
  double hidden = sqrt((double)s->hidden);
  memset(w, 0, p.end * sizeof *w);
  fill_normal(key, 1, 1 / sqrt((double)s->in + 1), w + p.W1, s->in * s->hidden);
  fill_normal(key, 2, 1 / hidden, w + p.W2, s->hidden * s->hidden);
  fill_normal(key, 3, small / hidden, w + p.W3, s->hidden * s->out);
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* out [rows x ld] = c + A in, A [rows x inner]; c NULL: added to what is in out. */
typedef struct {
  const double *A, *c;
  size_t rows, inner;
} Affine;

static void affine_forward(const Network *f, const Affine *y, const double *in, double *out) {
  for (size_t i = 0; y->c && i < y->rows; i++) f->k->fill(out + i * f->ld, y->c[i], f->ld);
  f->k->gemm(&(RowProduct){.out = out,
                           .ldo = f->ld,
                           .a = y->A,
                           .a_row = y->inner,
                           .a_column = 1,
                           .b = in,
                           .ldb = f->ld,
                           .rows = y->rows,
                           .inner = y->inner,
                           .n = f->ld,
                           .add = true});
}

/* grad += those of A and c; adj_in += A' adj_out. Either may be NULL. */
static void affine_adjoint(const Network *f, const Affine *y, const double *in, const double *adj,
                           double *grad, double *adj_in) {
  size_t ld = f->ld;
  for (size_t i = 0; grad && i < y->rows; i++) {
    double *row = grad + (y->A - f->w) + i * y->inner;
    for (size_t p = 0; p < y->inner; p++) row[p] += f->k->dot(adj + i * ld, in + p * ld, ld);
    if (y->c) grad[y->c - f->w + (ptrdiff_t)i] += f->k->sum(adj + i * ld, ld);
  }
  if (adj_in)
    f->k->gemm(&(RowProduct){.out = adj_in,
                             .ldo = ld,
                             .a = y->A,
                             .a_row = 1,
                             .a_column = y->inner,
                             .b = adj,
                             .ldb = ld,
                             .rows = y->inner,
                             .inner = y->rows,
                             .n = ld,
                             .add = true});
}

static void squash(const Network *f, double *h) {
  size_t n = f->shape.hidden * f->ld;
  f->k->forward[IR_TANH](h, (const double *[]){h}, (size_t[]){1}, n);
}

static void squash_adjoint(const Network *f, const double *h, double *adj) {
  for (size_t i = 0; i < f->shape.hidden * f->ld; i++) adj[i] *= 1 - h[i] * h[i];
}

/* ---- the network ----------------------------------------------------------------------------- */

typedef struct {
  Affine first, second, third, past;
  double *h1, *h2, *adj1, *adj2;
} Layers;

static Layers layers_of(const Network *f) {
  const NetworkShape *s = &f->shape;
  Places p = places(s);
  size_t H = s->hidden, rows = H * f->ld;
  return (Layers){{f->w + p.W1, f->w + p.W1 + s->in * H, H, s->in},
                  {f->w + p.W2, f->w + p.W2 + H * H, H, H},
                  {f->w + p.W3, NULL, s->out, H},
                  {f->w + p.A, f->w + p.A + s->in * s->out, s->out, s->in},
                  f->room,
                  f->room + rows,
                  f->room + 2 * rows,
                  f->room + 3 * rows};
}

size_t network_room(const NetworkShape *s, size_t ld) { return 4 * s->hidden * ld; }

void network_forward(const Network *f, const double *in, double *out) {
  Layers y = layers_of(f);
  affine_forward(f, &y.first, in, y.h1);
  squash(f, y.h1);
  affine_forward(f, &y.second, y.h1, y.h2);
  squash(f, y.h2);
  affine_forward(f, &y.past, in, out);
  affine_forward(f, &y.third, y.h2, out);
}

void network_adjoint(const Network *f, const double *in, const double *adj_out, double *grad,
                     double *adj_in) {
  Layers y = layers_of(f);
  size_t rows = f->shape.hidden * f->ld;
  memset(y.adj1, 0, 2 * rows * sizeof *y.adj1); /* and adj2, which follows it */
  if (adj_in) memset(adj_in, 0, f->shape.in * f->ld * sizeof *adj_in);
  affine_adjoint(f, &y.third, y.h2, adj_out, grad, y.adj2);
  squash_adjoint(f, y.h2, y.adj2);
  affine_adjoint(f, &y.second, y.h1, y.adj2, grad, y.adj1);
  squash_adjoint(f, y.h1, y.adj1);
  affine_adjoint(f, &y.first, in, y.adj1, grad, adj_in);
  affine_adjoint(f, &y.past, in, adj_out, grad, adj_in);
}
