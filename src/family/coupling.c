/* coupling.c: flows of coupling layers, forward, backward and inverse.
 *
 * Draws go through all layers in blocks of BLOCK lanes, so that what a block leaves behind for the
 * way back (its state before every layer, and the hidden units) stays in cache; raw parameters, the
 * bulk, are computed again instead of kept.
 */
#include "family/coupling.h"

#include "num/rng.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 64 };

/* ---- layers ---------------------------------------------------------------------------------- */

static size_t layers_of(const Shape *s) { return s->dim > 1 ? s->layers : 1; }
static size_t hidden_of(const Shape *s) { return s->dim > 1 ? s->hidden : 0; }

typedef struct {
  size_t from, kept;          /* the coordinates the network sees */
  size_t to, moved;           /* those it moves */
  size_t W1, b1, W2, b2, end; /* places among the weights */
} Layer;

static Layer layer_at(const Flow *f, const Shape *s, size_t l, size_t begin) {
  size_t half = s->dim / 2, H = hidden_of(s), outputs = f->transform->outputs(s);
  Layer y = l % 2 ? (Layer){.from = half, .kept = s->dim - half, .to = 0, .moved = half}
                  : (Layer){.from = 0, .kept = half, .to = half, .moved = s->dim - half};
  y.W1 = begin;
  y.b1 = y.W1 + H * y.kept;
  y.W2 = y.b1 + H;
  y.b2 = y.W2 + y.moved * outputs * H;
  y.end = y.b2 + y.moved * outputs;
  return y;
}

static Layer layer_of(const Flow *f, const Shape *s, size_t l) {
  size_t two = layer_at(f, s, 1, layer_at(f, s, 0, 0).end).end;
  return layer_at(f, s, l, l / 2 * two + (l % 2 ? layer_at(f, s, 0, 0).end : 0));
}

static size_t weights_size(const Flow *f, const Shape *s) {
  return layer_of(f, s, layers_of(s) - 1).end;
}

/* Hidden units look in different directions; what they say counts nothing yet, so every map is the
 * identity. */
static void start_weights(const Flow *f, double *w, const Shape *s) {
  size_t H = hidden_of(s);
  memset(w, 0, weights_size(f, s) * sizeof *w);
  for (size_t l = 0; l < layers_of(s); l++) {
    Layer y = layer_of(f, s, l);
    Rng key = rng_make(1, l);
    for (size_t i = 0; i < H * y.kept; i++)
      w[y.W1 + i] = rng_normal(key, i, 0) / sqrt((double)y.kept);
    for (size_t i = 0; i < H; i++) w[y.b1 + i] = rng_normal(key, i, 1);
  }
}

/* ---- a block of lanes ------------------------------------------------------------------------ */

typedef struct {
  const Flow *f;
  const Shape *s;
  const double *w; /* weights of all layers */
  Maps maps;       /* ld, n, kernels, raw and work */
  double *x;       /* [(layers + 1) x dim x ld]: the state before every layer and after the last */
  double *h;       /* [layers x hidden x ld]: hidden units */
  double *adj_x;   /* [dim x ld] */
  double *adj_h;   /* [hidden x ld] */
  double *adj_raw; /* [outputs x ld] */
  double *log_det; /* [ld] */
} Block;

static size_t block_lanes(size_t ld) { return ld < BLOCK ? ld : BLOCK; }

static size_t block_rows(const Flow *f, const Shape *s) {
  size_t layers = layers_of(s), H = hidden_of(s), outputs = f->transform->outputs(s);
  return (layers + 2) * s->dim + (layers + 1) * H + 2 * outputs + f->transform->work(s) + 1;
}

static Block block_make(const Flow *f, const Shape *s, const double *w, const Kernels *k, size_t ld,
                        double *room) {
  size_t layers = layers_of(s), H = hidden_of(s), outputs = f->transform->outputs(s);
  Block b = {.f = f, .s = s, .w = w, .maps = {.shape = s, .k = k, .ld = ld, .n = ld}};
  b.x = room;
  b.h = b.x + (layers + 1) * s->dim * ld;
  b.adj_x = b.h + layers * H * ld;
  b.adj_h = b.adj_x + s->dim * ld;
  b.adj_raw = b.adj_h + H * ld;
  b.maps.raw = b.adj_raw + outputs * ld;
  b.maps.work = b.maps.raw + outputs * ld;
  b.log_det = b.maps.work + f->transform->work(s) * ld;
  return b;
}

static double *state(const Block *b, size_t l) { return b->x + l * b->s->dim * b->maps.ld; }
static double *hidden(const Block *b, size_t l) { return b->h + l * hidden_of(b->s) * b->maps.ld; }

/* out [rows x ld] = c + A in, A [rows x inner] */
static void affine_rows(const Block *b, const double *A, const double *c, const double *in,
                        size_t rows, size_t inner, double *out) {
  size_t ld = b->maps.ld, n = b->maps.n;
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < n; j++) out[i * ld + j] = c[i];
  if (inner) b->maps.k->gemm(out, ld, A, inner, 1, in, ld, rows, inner, n, true);
}

/* h = tanh(W1 kept + b1) */
static void hidden_units(const Block *b, const Layer *y, const double *x, double *h) {
  size_t H = hidden_of(b->s), ld = b->maps.ld;
  affine_rows(b, b->w + y->W1, b->w + y->b1, x + y->from * ld, H, y->kept, h);
  for (size_t i = 0; i < H; i++)
    b->maps.k->forward[IR_TANH](h + i * ld, (const double *[]){h + i * ld}, (size_t[]){1},
                                b->maps.n);
}

/* The raw parameters of moved coordinate i: W2 h + b2. */
static void raw_parameters(const Block *b, const Layer *y, const double *h, size_t i) {
  size_t H = hidden_of(b->s), outputs = b->f->transform->outputs(b->s);
  affine_rows(b, b->w + y->W2 + i * outputs * H, b->w + y->b2 + i * outputs, h, outputs, H,
              b->maps.raw);
}

/* State l to state l + 1. */
static void layer_forward(const Block *b, size_t l) {
  Layer y = layer_of(b->f, b->s, l);
  size_t ld = b->maps.ld;
  double *x = state(b, l), *next = state(b, l + 1), *h = hidden(b, l);
  memcpy(next, x, b->s->dim * ld * sizeof *x);
  hidden_units(b, &y, x, h);
  for (size_t i = 0; i < y.moved; i++) {
    raw_parameters(b, &y, h, i);
    b->f->transform->forward(&b->maps, x + (y.to + i) * ld, next + (y.to + i) * ld, b->log_det);
  }
}

static void block_forward(const Block *b) {
  memset(b->log_det, 0, b->maps.n * sizeof *b->log_det);
  for (size_t l = 0; l < layers_of(b->s); l++) layer_forward(b, l);
}

/* out = c + A in backwards, over the first m lanes: adjoints of A and c, and adj_in += A' adj_out
 */
static void affine_rows_adjoint(const Block *b, const double *A, const double *in,
                                const double *adj_out, size_t rows, size_t inner, size_t m,
                                double *adj_A, double *adj_c, double *adj_in) {
  const Kernels *k = b->maps.k;
  size_t ld = b->maps.ld;
  for (size_t i = 0; i < rows; i++) {
    adj_c[i] += k->sum(adj_out + i * ld, m);
    for (size_t p = 0; p < inner; p++)
      adj_A[i * inner + p] += k->dot(adj_out + i * ld, in + p * ld, m);
  }
  if (inner) k->gemm(adj_in, ld, A, 1, inner, adj_out, ld, inner, rows, b->maps.n, true);
}

/* adj_x of state l + 1 becomes that of state l. */
static void layer_adjoint(const Block *b, size_t l, size_t m, double adj_log_det, double *grad) {
  Layer y = layer_of(b->f, b->s, l);
  size_t H = hidden_of(b->s), ld = b->maps.ld, outputs = b->f->transform->outputs(b->s);
  double *x = state(b, l), *h = hidden(b, l);
  memset(b->adj_h, 0, H * ld * sizeof *b->adj_h);
  for (size_t i = 0; i < y.moved; i++) {
    size_t W2 = y.W2 + i * outputs * H, b2 = y.b2 + i * outputs;
    raw_parameters(b, &y, h, i);
    b->f->transform->adjoint(&b->maps, x + (y.to + i) * ld, b->adj_x + (y.to + i) * ld, adj_log_det,
                             b->adj_raw);
    affine_rows_adjoint(b, b->w + W2, h, b->adj_raw, outputs, H, m, grad + W2, grad + b2, b->adj_h);
  }
  for (size_t i = 0; i < H; i++)
    for (size_t j = 0; j < b->maps.n; j++)
      b->adj_h[i * ld + j] *= 1 - h[i * ld + j] * h[i * ld + j];
  affine_rows_adjoint(b, b->w + y.W1, x + y.from * ld, b->adj_h, H, y.kept, m, grad + y.W1,
                      grad + y.b1, b->adj_x + y.from * ld);
}

/* ---- all draws, block by block --------------------------------------------------------------- */

/* Lanes [j, j + n) of rows `row_ld` apart into a block, or back. */
static void load(double *block, size_t ld, const double *rows, size_t row_ld, size_t j,
                 size_t count, size_t n) {
  for (size_t i = 0; i < count; i++)
    memcpy(block + i * ld, rows + i * row_ld + j, n * sizeof *block);
}
static void store(const double *block, size_t ld, double *rows, size_t row_ld, size_t j,
                  size_t count, size_t n) {
  for (size_t i = 0; i < count; i++)
    memcpy(rows + i * row_ld + j, block + i * ld, n * sizeof *block);
}

/* x [dim x ld] = layers(u) and log_det [ld], both where asked for; of the lanes below `end`. */
static void forward(const Flow *f, const double *w, const Noise *n, double *room, size_t end,
                    double *x, double *log_det) {
  size_t dim = n->shape->dim, ld = block_lanes(n->ld);
  Block b = block_make(f, n->shape, w, n->k, ld, room);
  for (size_t j = 0; j < end; j += ld) {
    b.maps.n = n->ld - j < ld ? n->ld - j : ld;
    load(b.x, ld, n->u, n->ld, j, dim, b.maps.n);
    block_forward(&b);
    if (x) store(state(&b, layers_of(n->shape)), ld, x, n->ld, j, dim, b.maps.n);
    if (log_det) store(b.log_det, ld, log_det, n->ld, j, 1, b.maps.n);
  }
}

/* grad += adj_x d x / d weights + adj_log_det d log det / d weights, sums over the M draws; adj_x
 * NULL: zero. Returns the sum of log det over the draws, and x where asked for. */
static double backward(const Flow *f, const double *w, const Noise *n, double *room,
                       const double *adj_x, double adj_log_det, double *x, double *grad) {
  size_t dim = n->shape->dim, ld = block_lanes(n->ld), layers = layers_of(n->shape);
  Block b = block_make(f, n->shape, w, n->k, ld, room);
  double sum = 0;
  for (size_t j = 0; j < n->M; j += ld) {
    size_t m = n->M - j < ld ? n->M - j : ld;
    b.maps.n = family_padded(m);
    load(b.x, ld, n->u, n->ld, j, dim, b.maps.n);
    block_forward(&b);
    sum += n->k->sum(b.log_det, m);
    if (x) store(state(&b, layers), ld, x, n->ld, j, dim, b.maps.n);
    if (adj_x)
      load(b.adj_x, ld, adj_x, n->ld, j, dim, b.maps.n);
    else
      memset(b.adj_x, 0, dim * ld * sizeof *b.adj_x);
    for (size_t l = layers; l-- > 0;) layer_adjoint(&b, l, m, adj_log_det, grad);
  }
  return sum;
}

/* ---- the functions of a family --------------------------------------------------------------- */

size_t flow_size(const Flow *f, const Shape *s) { return f->affine->size(s) + weights_size(f, s); }

/* x and its adjoint, [dim x ld] each, log det, and a block */
size_t flow_scratch(const Flow *f, const Shape *s, size_t ld) {
  return (2 * s->dim + 1) * ld + block_rows(f, s) * block_lanes(ld);
}

typedef struct {
  double *x, *adj_x, *log_det, *block;
} Room;

static Room room_of(const Noise *n) {
  size_t rows = n->shape->dim * n->ld;
  return (Room){n->scratch, n->scratch + rows, n->scratch + 2 * rows,
                n->scratch + 2 * rows + n->ld};
}

void flow_start(const Flow *f, double *phi, const Shape *s, const double *mean, const double *sd) {
  f->affine->start(phi, s, mean, sd);
  start_weights(f, phi + f->affine->size(s), s);
}

/* The noise as the affine layer gets it. */
static Noise moved(const Noise *n, const double *x) {
  return (Noise){.shape = n->shape, .M = n->M, .ld = n->ld, .u = x, .k = n->k};
}

void flow_draw(const Flow *f, const double *phi, const Noise *n, double *theta) {
  Room r = room_of(n);
  Noise x = moved(n, r.x);
  forward(f, phi + f->affine->size(n->shape), n, r.block, n->ld, r.x, NULL);
  f->affine->draw(phi, &x, theta);
}

void flow_adjoint(const Flow *f, const double *phi, const Noise *n, const double *adj,
                  double *grad) {
  Room r = room_of(n);
  Noise x = moved(n, r.x);
  size_t at = f->affine->size(n->shape);
  f->pull(phi, n, adj, r.adj_x);
  backward(f, phi + at, n, r.block, r.adj_x, 0, r.x, grad + at);
  f->affine->adjoint(phi, &x, adj, NULL, grad);
}

/* That of the affine layer's normal, plus the mean over the draws of the layers' log det */
double flow_entropy(const Flow *f, const double *phi, const Noise *n, double weight, double *grad) {
  Room r = room_of(n);
  size_t at = f->affine->size(n->shape);
  double h = f->affine->entropy(phi, n, weight, grad), M = (double)n->M;
  if (weight != 0)
    return h + backward(f, phi + at, n, r.block, NULL, weight / M, NULL, grad + at) / M;
  forward(f, phi + at, n, r.block, n->M, NULL, r.log_det);
  double sum = 0; /* block by block, as on the way back */
  for (size_t j = 0; j < n->M; j += BLOCK)
    sum += n->k->sum(r.log_det + j, n->M - j < BLOCK ? n->M - j : BLOCK);
  return h + sum / M;
}

void flow_log_q(const Flow *f, const double *phi, const Noise *n, double *out) {
  Room r = room_of(n);
  f->affine->log_q(phi, n, out);
  forward(f, phi + f->affine->size(n->shape), n, r.block, n->M, NULL, r.log_det);
  for (size_t j = 0; j < n->M; j++) out[j] -= r.log_det[j];
}

void flow_scale(const Flow *f, const double *phi, const Shape *s, double *d) {
  f->affine->scale(phi, s, d);
  for (size_t i = f->affine->size(s); i < flow_size(f, s); i++) d[i] = 1;
}

int flow_parts(const Flow *f, const Shape *s, FamilyPart *out) {
  int n = f->affine->parts(s, out);
  out[n] = (FamilyPart){"couplings", f->affine->size(s), weights_size(f, s), 1};
  return n + 1;
}

/* The last layer first. The kept half is the same before and after, so its network gives the same
 * maps. All lanes hold the one point. */
void flow_inverse(const Flow *f, const double *phi, const Shape *s, const double *theta, double *u,
                  double *log_det) {
  double room[block_rows(f, s) * LANES], affine_log_det;
  Block b = block_make(f, s, phi + f->affine->size(s), kernels_best(), LANES, room);
  f->affine->inverse(phi, s, theta, u, &affine_log_det);
  for (size_t i = 0; i < s->dim * LANES; i++) b.x[i] = u[i / LANES];
  memset(b.log_det, 0, LANES * sizeof *b.log_det);
  for (size_t l = layers_of(s); l-- > 0;) {
    Layer y = layer_of(f, s, l);
    hidden_units(&b, &y, b.x, b.h);
    for (size_t i = 0; i < y.moved; i++) {
      double *x = b.x + (y.to + i) * LANES;
      raw_parameters(&b, &y, b.h, i);
      f->transform->inverse(&b.maps, x, x, b.log_det);
    }
  }
  for (size_t i = 0; i < s->dim; i++) u[i] = b.x[i * LANES];
  *log_det = affine_log_det + b.log_det[0];
}
