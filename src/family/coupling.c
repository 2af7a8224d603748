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
  size_t number;
} Layer;

static Layer layer_at(const Flow *f, const Shape *s, size_t l, size_t begin) {
  size_t half = s->dim / 2, H = hidden_of(s), outputs = f->transform->outputs(s);
  Layer y = l % 2 ? (Layer){.from = half, .kept = s->dim - half, .to = 0, .moved = half}
                  : (Layer){.from = 0, .kept = half, .to = half, .moved = s->dim - half};
  y.number = l;
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

/* Hidden units look in different directions, but the weights of what they say are zero at first, so
 * every map is the identity. */
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
  const double *w;     /* weights of all layers */
  const double *shift; /* of every lane, added to b1 (in one dimension to b2); NULL: none */
  Maps maps;           /* ld, n, kernels, raw and work */
  size_t draws;        /* of the n lanes, those that are draws and not padding */
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

/* One layer of a network: out [rows x ld] = c + A in, A [rows x inner] */
typedef struct {
  const double *A, *c; /* among the weights */
  size_t rows, inner;
  const double *shift; /* [rows x ld], added; NULL: none */
} Dense;

/* h before tanh: W1 kept + b1 */
static Dense hidden_layer(const Block *b, const Layer *y) {
  size_t H = hidden_of(b->s);
  return (Dense){b->w + y->W1, b->w + y->b1, H, y->kept,
                 b->shift ? b->shift + y->number * H * b->maps.ld : NULL};
}

/* The raw parameters of moved coordinate i: W2 h + b2 */
static Dense output_layer(const Block *b, const Layer *y, size_t i) {
  size_t H = hidden_of(b->s), outputs = b->f->transform->outputs(b->s);
  return (Dense){b->w + y->W2 + i * outputs * H, b->w + y->b2 + i * outputs, outputs, H,
                 H ? NULL : b->shift};
}

static void dense_forward(const Block *b, const Dense *d, const double *in, double *out) {
  size_t ld = b->maps.ld, n = b->maps.n;
  for (size_t i = 0; i < d->rows; i++)
    for (size_t j = 0; j < n; j++)
      out[i * ld + j] = d->c[i] + (d->shift ? d->shift[i * ld + j] : 0);
  if (d->inner)
    b->maps.k->gemm(&(RowProduct){.out = out,
                                  .ldo = ld,
                                  .a = d->A,
                                  .a_row = d->inner,
                                  .a_column = 1,
                                  .b = in,
                                  .ldb = ld,
                                  .rows = d->rows,
                                  .inner = d->inner,
                                  .n = n,
                                  .add = true});
}

static void hidden_units(const Block *b, const Layer *y, const double *x, double *h) {
  Dense d = hidden_layer(b, y);
  size_t ld = b->maps.ld;
  dense_forward(b, &d, x + y->from * ld, h);
  for (size_t i = 0; i < d.rows; i++)
    b->maps.k->forward[IR_TANH](h + i * ld, (const double *[]){h + i * ld}, (size_t[]){1},
                                b->maps.n);
}

static void raw_parameters(const Block *b, const Layer *y, const double *h, size_t i) {
  Dense d = output_layer(b, y, i);
  dense_forward(b, &d, h, b->maps.raw);
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

/* Backwards, over the draws: adjoints of A and c to their places in grad, and adj_in += A' adj_out
 */
static void dense_adjoint(const Block *b, const Dense *d, const double *in, const double *adj_out,
                          double *adj_in, double *grad) {
  const Kernels *k = b->maps.k;
  size_t ld = b->maps.ld, rows = d->rows, inner = d->inner;
  double *adj_A = grad + (d->A - b->w), *adj_c = grad + (d->c - b->w);
  for (size_t i = 0; i < rows; i++) {
    adj_c[i] += k->sum(adj_out + i * ld, b->draws);
    for (size_t p = 0; p < inner; p++)
      adj_A[i * inner + p] += k->dot(adj_out + i * ld, in + p * ld, b->draws);
  }
  if (inner)
    k->gemm(&(RowProduct){.out = adj_in,
                          .ldo = ld,
                          .a = d->A,
                          .a_row = 1,
                          .a_column = inner,
                          .b = adj_out,
                          .ldb = ld,
                          .rows = inner,
                          .inner = rows,
                          .n = b->maps.n,
                          .add = true});
}

/* adj_x of state l + 1 becomes that of state l. */
static void layer_adjoint(const Block *b, size_t l, double adj_log_det, double *grad) {
  Layer y = layer_of(b->f, b->s, l);
  size_t H = hidden_of(b->s), ld = b->maps.ld;
  double *x = state(b, l), *h = hidden(b, l);
  memset(b->adj_h, 0, H * ld * sizeof *b->adj_h);
  for (size_t i = 0; i < y.moved; i++) {
    Dense d = output_layer(b, &y, i);
    raw_parameters(b, &y, h, i);
    b->f->transform->adjoint(&b->maps, x + (y.to + i) * ld, b->adj_x + (y.to + i) * ld, adj_log_det,
                             b->adj_raw);
    dense_adjoint(b, &d, h, b->adj_raw, b->adj_h, grad);
  }
  for (size_t i = 0; i < H; i++)
    for (size_t j = 0; j < b->maps.n; j++)
      b->adj_h[i * ld + j] *= 1 - h[i * ld + j] * h[i * ld + j];
  Dense d = hidden_layer(b, &y);
  dense_adjoint(b, &d, x + y.from * ld, b->adj_h, b->adj_x + y.from * ld, grad);
}

/* ---- all draws, block by block --------------------------------------------------------------- */

/* A block for draws of this noise, with the flow's weights, which follow those of its affine layer
 * in phi. */
static Block block_of(const Flow *f, const double *phi, const Noise *n, double *room) {
  return block_make(f, n->shape, phi + f->affine->size(n->shape), n->k, block_lanes(n->ld), room);
}

/* The block's lanes become `lanes` columns of the noise, from column j on. */
static void load_noise(Block *b, const Noise *n, size_t j, size_t lanes) {
  b->maps.n = lanes;
  for (size_t i = 0; i < n->shape->dim; i++)
    memcpy(b->x + i * b->maps.ld, n->u + i * n->ld + j, lanes * sizeof *b->x);
}

/* Rows of the block to columns j and on of rows that are ld apart. */
static void store(const Block *b, const double *from, double *to, size_t ld, size_t j,
                  size_t count) {
  for (size_t i = 0; i < count; i++)
    memcpy(to + i * ld + j, from + i * b->maps.ld, b->maps.n * sizeof *to);
}

/* x [dim x ld] = layers(u) and log_det [ld], both where asked for; of the lanes below `end`. */
static void forward(Block *b, const Noise *n, size_t end, double *x, double *log_det) {
  size_t ld = b->maps.ld;
  for (size_t j = 0; j < end; j += ld) {
    load_noise(b, n, j, n->ld - j < ld ? n->ld - j : ld);
    block_forward(b);
    if (x) store(b, state(b, layers_of(n->shape)), x, n->ld, j, n->shape->dim);
    if (log_det) store(b, b->log_det, log_det, n->ld, j, 1);
  }
}

/* The adjoints of the block's last state; NULL: zero. */
static void load_adjoint(Block *b, const Noise *n, const double *adj_x, size_t j) {
  size_t dim = n->shape->dim, ld = b->maps.ld;
  if (!adj_x) memset(b->adj_x, 0, dim * ld * sizeof *b->adj_x);
  for (size_t i = 0; adj_x && i < dim; i++)
    memcpy(b->adj_x + i * ld, adj_x + i * n->ld + j, b->maps.n * sizeof *adj_x);
}

/* grad += adj_x d x / d weights + adj_log_det d log det / d weights, sums over the M draws; adj_x
 * NULL: zero. Returns the sum of log det over the draws, and x where asked for. */
static double backward(Block *b, const Noise *n, const double *adj_x, double adj_log_det, double *x,
                       double *grad) {
  size_t ld = b->maps.ld, layers = layers_of(n->shape);
  double sum = 0;
  for (size_t j = 0; j < n->M; j += ld) {
    b->draws = n->M - j < ld ? n->M - j : ld;
    load_noise(b, n, j, family_padded(b->draws));
    block_forward(b);
    sum += n->k->sum(b->log_det, b->draws);
    if (x) store(b, state(b, layers), x, n->ld, j, n->shape->dim);
    load_adjoint(b, n, adj_x, j);
    for (size_t l = layers; l-- > 0;) layer_adjoint(b, l, adj_log_det, grad);
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
  Block b = block_of(f, phi, n, r.block);
  forward(&b, n, n->ld, r.x, NULL);
  f->affine->draw(phi, &x, theta);
}

void flow_adjoint(const Flow *f, const double *phi, const Noise *n, const double *adj,
                  double *grad) {
  Room r = room_of(n);
  Noise x = moved(n, r.x);
  Block b = block_of(f, phi, n, r.block);
  f->pull(phi, n, adj, r.adj_x);
  backward(&b, n, r.adj_x, 0, r.x, grad + f->affine->size(n->shape));
  f->affine->adjoint(phi, &x, adj, NULL, grad);
}

/* That of the affine layer's normal, plus the mean over the draws of the layers' log det */
double flow_entropy(const Flow *f, const double *phi, const Noise *n, double weight, double *grad) {
  Room r = room_of(n);
  Block b = block_of(f, phi, n, r.block);
  size_t at = f->affine->size(n->shape);
  double h = f->affine->entropy(phi, n, weight, grad), M = (double)n->M;
  if (weight != 0) return h + backward(&b, n, NULL, weight / M, NULL, grad + at) / M;
  forward(&b, n, n->M, NULL, r.log_det);
  double sum = 0; /* block by block, as on the way back */
  for (size_t j = 0; j < n->M; j += BLOCK)
    sum += n->k->sum(r.log_det + j, n->M - j < BLOCK ? n->M - j : BLOCK);
  return h + sum / M;
}

void flow_log_q(const Flow *f, const double *phi, const Noise *n, double *out) {
  Room r = room_of(n);
  Block b = block_of(f, phi, n, r.block);
  f->affine->log_q(phi, n, out);
  forward(&b, n, n->M, NULL, r.log_det);
  for (size_t j = 0; j < n->M; j++) out[j] -= r.log_det[j];
}

void flow_scale(const Flow *f, const double *phi, const Shape *s, const double *unit, double *d) {
  f->affine->scale(phi, s, unit, d);
  for (size_t i = f->affine->size(s); i < flow_size(f, s); i++) d[i] = 1;
}

size_t flow_precondition(const Flow *f, const double *phi, const double *at, const Shape *s,
                         double *room, double *x) {
  return f->affine->precondition ? f->affine->precondition(phi, at, s, room, x) : 0;
}

void flow_reach(const Flow *f, const double *phi, const Shape *s, double *d) {
  f->affine->reach(phi, s, d);
  for (size_t i = f->affine->size(s); i < flow_size(f, s); i++) d[i] = REACH_LOG;
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

/* ---- conditional flows, in the direction of density: theta to u ------------------------------ */

size_t flow_shifts(const Flow *f, const Shape *s) {
  return s->dim > 1 ? layers_of(s) * hidden_of(s) : f->transform->outputs(s);
}

/* A block, and the log slope of every map: [layers x dim x ld] */
size_t flow_lanes_room(const Flow *f, const Shape *s, size_t ld) {
  return (block_rows(f, s) + layers_of(s) * s->dim) * ld;
}

static Block lanes_block(const Flow *f, const FlowLanes *c, double **slopes) {
  Block b = block_make(f, c->shape, c->w, c->k, c->ld, c->room);
  b.shift = c->shift;
  b.draws = c->ld;
  *slopes = c->room + block_rows(f, c->shape) * c->ld;
  return b;
}

/* State l + 1 to state l; the kept half, and so the network, is the same in both. */
static void layer_inverse(const Block *b, size_t l, double *slopes) {
  Layer y = layer_of(b->f, b->s, l);
  size_t ld = b->maps.ld, dim = b->s->dim;
  double *x = state(b, l), *next = state(b, l + 1), *h = hidden(b, l);
  memcpy(x, next, dim * ld * sizeof *x);
  hidden_units(b, &y, next, h);
  for (size_t i = y.to; i < y.to + y.moved; i++) {
    double *slope = slopes + (l * dim + i) * ld;
    memset(slope, 0, ld * sizeof *slope);
    raw_parameters(b, &y, h, i - y.to);
    b->f->transform->inverse(&b->maps, next + i * ld, x + i * ld, slope);
    b->maps.k->add(b->log_det, slope, ld);
  }
}

void flow_normalise(const Flow *f, const FlowLanes *c, double *x, double *log_det) {
  size_t n = c->shape->dim * c->ld, layers = layers_of(c->shape);
  double *slopes;
  Block b = lanes_block(f, c, &slopes);
  memcpy(state(&b, layers), x, n * sizeof *x);
  memset(b.log_det, 0, c->ld * sizeof *b.log_det);
  for (size_t l = layers; l-- > 0;) layer_inverse(&b, l, slopes);
  memcpy(x, state(&b, 0), n * sizeof *x);
  memcpy(log_det, b.log_det, c->ld * sizeof *log_det);
}

/* One map y = f(x; raw) that was inverted. A change of y or of raw moves x by (dy - f_raw draw) /
 * f_x, and all that depends on x, log f_x as well, moves with it: with c the derivative in x, that
 * of y is c / f_x, and that of raw is what the map itself has for the adjoint -c / f_x of y. adj:
 * of x, then of y. */
static void map_inverse_adjoint(const Block *b, const double *x, const double *slope, double *adj,
                                double *work) {
  const Maps *m = &b->maps;
  memset(work, 0, m->ld * sizeof *work);
  b->f->transform->adjoint(m, x, work, 1, b->adj_raw);
  for (size_t j = 0; j < m->ld; j++) {
    adj[j] = (adj[j] + work[j]) * exp(-slope[j]);
    work[j] = -adj[j];
  }
  b->f->transform->adjoint(m, x, work, 1, b->adj_raw);
}

/* adj_x of state l becomes that of state l + 1. */
static void layer_inverse_adjoint(const Block *b, size_t l, const double *slopes, double *grad,
                                  double *adj_shift) {
  Layer y = layer_of(b->f, b->s, l);
  size_t H = hidden_of(b->s), ld = b->maps.ld, outputs = b->f->transform->outputs(b->s);
  double *x = state(b, l), *h = hidden(b, l);
  memset(b->adj_h, 0, H * ld * sizeof *b->adj_h);
  for (size_t i = y.to; i < y.to + y.moved; i++) {
    Dense d = output_layer(b, &y, i - y.to);
    raw_parameters(b, &y, h, i - y.to);
    map_inverse_adjoint(b, x + i * ld, slopes + (l * b->s->dim + i) * ld, b->adj_x + i * ld,
                        b->log_det);
    dense_adjoint(b, &d, h, b->adj_raw, b->adj_h, grad);
  }
  if (!H) memcpy(adj_shift, b->adj_raw, outputs * ld * sizeof *adj_shift);
  for (size_t i = 0; i < H * ld; i++) b->adj_h[i] *= 1 - h[i] * h[i];
  Dense d = hidden_layer(b, &y);
  dense_adjoint(b, &d, x + y.from * ld, b->adj_h, b->adj_x + y.from * ld, grad);
  if (H) memcpy(adj_shift + l * H * ld, b->adj_h, H * ld * sizeof *adj_shift);
}

void flow_normalise_adjoint(const Flow *f, const FlowLanes *c, double *adj, double *grad,
                            double *adj_shift) {
  size_t n = c->shape->dim * c->ld;
  double *slopes;
  Block b = lanes_block(f, c, &slopes);
  memcpy(b.adj_x, adj, n * sizeof *adj);
  for (size_t l = 0; l < layers_of(c->shape); l++)
    layer_inverse_adjoint(&b, l, slopes, grad, adj_shift);
  memcpy(adj, b.adj_x, n * sizeof *adj);
}

void flow_shift_weights(const Flow *f, const Shape *s, const double *shift, double *w) {
  size_t H = hidden_of(s);
  for (size_t l = 0; l < layers_of(s); l++) {
    Layer y = layer_of(f, s, l);
    for (size_t i = 0; i < H; i++) w[y.b1 + i] += shift[l * H + i];
    for (size_t i = 0; !H && i < f->transform->outputs(s); i++) w[y.b2 + i] += shift[i];
  }
}
