/* replicas.c: points into lanes, tiles of observations, an outcome from each lane. */
#include "infer/replicas.h"

#include "num/rng.h"

#include <string.h>

enum { MOST_CATEGORIES = 1000 };

struct Replicas {
  const Observed *o;
  Work *work;
  size_t M, width;
  uint64_t seed;
  double *out;
};

/* Numbers of an outcome of the block; 0: it cannot be simulated. */
static size_t block_width(const ObsBlock *b, bool densities) {
  if (!densities) return b->sim == NO_NODE ? 0 : (size_t)b->sim_width;
  Kind kind = observed_kind(b);
  return kind == KIND_NONE || b->width > MOST_CATEGORIES ? 0 : 1;
}

static size_t common_width(const Model *m, const char **why) {
  size_t width = 0;
  for (int b = 0; b < m->nblocks; b++) {
    size_t w = block_width(&m->blocks[b], model_has_densities(m));
    *why = !w ? "outcomes of this kind cannot be simulated"
              : "some outcomes are one number and others several";
    if (!w || (width && w != width)) return 0;
    width = w;
  }
  *why = "there are no observations";
  return width;
}

Replicas *replicas_make(Arena *a, const ReplicasOf *of, Pool *pool, const char **why) {
  size_t width = common_width(of->model, why);
  if (!width) return NULL;
  Replicas *r = NEW(a, Replicas);
  unsigned wants = model_has_densities(of->model) ? WANT_LL | WANT_PARAMETERS : WANT_SIM;
  r->o = observed_make(a, of->model, of->rows, of->n, wants);
  r->work = vm_work_forward(a, observed_tape(r->o), of->M, pool);
  r->M = of->M;
  r->width = width;
  return r;
}

size_t replicas_width(const Replicas *r) { return r->width; }
size_t replicas_count(const Replicas *r) { return r->o->n; }
void replicas_numbers(const Replicas *r, int32_t *which) {
  model_numbers(r->o->model, &r->o->rows, which);
}

/* ---- outcomes -------------------------------------------------------------------------------- */

/* The random numbers of an observation are its own, whatever the threads. */
static void draw_known(const Replicas *r, const TileView *t, size_t i, Kind kind) {
  size_t row = t->row + i, ld = t->ld, size = observed_size(r->o, t->block, row);
  bool categories = kind == KIND_CATEGORICAL;
  size_t width = categories ? (size_t)r->o->model->blocks[t->block].width : 1;
  double par[MOST_CATEGORIES];
  RngStream s = rngs_make(r->seed, row);
  for (size_t j = 0; j < r->M; j++) {
    for (size_t e = 0; categories && e < width; e++)
      par[e] = t->heads[HEAD_PAR][(i * width + e) * ld + j];
    for (int e = 0; !categories && e < kind_parameters(kind); e++)
      par[e] = t->heads[HEAD_PAR + e][i * ld + j];
    r->out[row * r->M + j] = kind_sample(kind, par, size, &s);
  }
}

static void copy_simulated(const Replicas *r, const TileView *t, size_t i) {
  for (size_t e = 0; e < r->width; e++)
    memcpy(r->out + ((t->row + i) * r->width + e) * r->M,
           t->heads[HEAD_SIM] + (i * r->width + e) * t->ld, r->M * sizeof *r->out);
}

static void draw_tile(void *self, const TileView *t) {
  const Replicas *r = self;
  for (size_t i = 0; i < t->rows; i++) {
    if (r->o->wants & WANT_SIM)
      copy_simulated(r, t, i);
    else
      draw_known(r, t, i, r->o->kinds[t->block]);
  }
}

void replicas_draw(Replicas *r, const double *theta, uint64_t seed, double *out) {
  size_t ld = vm_ld(r->work), dim = r->o->model->dim;
  double *lanes = vm_theta(r->work);
  for (size_t j = 0; j < ld; j++)
    for (size_t k = 0; k < dim; k++) lanes[k * ld + j] = theta[(j < r->M ? j : 0) * dim + k];
  r->seed = seed;
  r->out = out;
  vm_set_noise(r->work, seed);
  vm_forward(r->work, lanes);
  vm_tiles(r->work, draw_tile, r, false);
}

void replicas_seen(const Replicas *r, double *out) {
  const Observed *o = r->o;
  for (int b = 0; b < o->model->nblocks; b++)
    for (size_t k = o->rows.first[b]; k < o->rows.first[b + 1]; k++) {
      const double *sim = observed_sim_y(o, b, k);
      if (o->wants & WANT_SIM)
        memcpy(out + k * r->width, sim, r->width * sizeof *out);
      else
        out[k] = observed_y(o, b, k);
    }
}
