/* rejection.c: see rejection.h. One evaluation is a few rounds of draws, until every observation
 * has an accepted one. */
#include "infer/rejection.h"

#include "num/rng.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { MOST_ROUNDS = 200 };

struct Rejection {
  const Observed *o;
  Target target;
  const Q *q;
  Work *work;
  QDraws draws;
  Predictive *regularizer; /* the same target without its score; NULL: lambda 0 */
  size_t M, ld;
  bool *pending; /* per observation: nothing accepted yet */
  double *score; /* per observation: log mean density of the first round */
  double *theta, *adj, *chunk, *uniform, *weights, *part;
  uint64_t seed;
  bool first;
  atomic_bool refused;
  long unmatched;
};

static bool has_bound(Kind k) { return kind_discrete(k) || k == KIND_NORMAL; }

const char *rejection_cannot(Arena *a, const Observed *o, const Q *q) {
  if (!family_of(q->family)->score_function)
    return "the rejection estimator needs a family with a score function: meanfield or fullrank";
  for (int b = 0; b < o->model->nblocks; b++)
    if (!has_bound(o->kinds[b]))
      return arena_format(a, "the rejection estimator knows no bound of the density of line %u",
                          o->model->blocks[b].loc.line);
  return NULL;
}

Rejection *rejection_make(Arena *a, const Observed *o, const Target *t, const Q *q, size_t M,
                          Pool *pool) {
  Rejection *r = NEW(a, Rejection);
  r->o = o;
  r->target = *t;
  r->q = q;
  r->work = vm_work(a, observed_tape(o), M, pool);
  r->M = M;
  r->ld = vm_ld(r->work);
  r->draws = q_draws(a, q, M, r->ld, vm_kernels(r->work));
  size_t workers = (size_t)vm_workers(r->work);
  r->pending = NEW_ARRAY(a, bool, o->n);
  r->score = NEW_ARRAY(a, double, o->n);
  r->theta = NEW_ARRAY(a, double, q->dim * r->ld);
  r->adj = NEW_ARRAY(a, double, q->dim * r->ld);
  r->chunk = NEW_ARRAY(a, double, (vm_chunks(r->work) + 1) * r->ld);
  r->uniform = NEW_ARRAY(a, double, workers * r->ld);
  r->weights = NEW_ARRAY(a, double, workers * r->ld);
  r->part = NEW_ARRAY(a, double, q_size(q));
  Target reg = *t;
  reg.score_weight = 0;
  if (t->lambda != 0) r->regularizer = predictive_make(a, o, &reg, q, (NoiseSet){M, 1}, pool);
  return r;
}

/* log C of an observation; refuses a scale that is not the same in all draws. */
static double log_bound(Rejection *r, const TileView *t, size_t row) {
  if (r->o->kinds[t->block] != KIND_NORMAL) return 0;
  const double *sigma = t->heads[HEAD_PAR + 1] + row * r->ld;
  for (size_t j = 1; j < r->M; j++)
    if (sigma[j] != sigma[0]) atomic_store(&r->refused, true);
  return -0.91893853320467274178 - log(sigma[0]);
}

static void accept_tile(void *self, const TileView *t) {
  Rejection *r = self;
  double *u = r->uniform + (size_t)t->worker * r->ld, *w = r->weights + (size_t)t->worker * r->ld;
  const Kernels *k = r->draws.noise.k;
  for (size_t i = 0; i < t->rows; i++) {
    size_t row = t->row + i;
    if (!r->pending[row]) continue;
    const double *ll = t->heads[HEAD_LL] + i * r->ld;
    if (r->first) r->score[row] = k->softmax(NULL, ll, r->M) - log((double)r->M);
    rng_fill_uniform(rng_make(r->seed, 2), 0, row, u, r->M);
    if (!score_log_rejection(ll, u, r->M, log_bound(r, t, i), w)) continue;
    r->pending[row] = false;
    for (size_t j = 0; j < r->M; j++) {
      r->chunk[t->chunk * r->ld + j] += w[j];
      t->adj[HEAD_LL][i * r->ld + j] = w[j]; /* for parameters that are points */
    }
  }
}

/* One round: draws, acceptance, and what follows for phi. */
static void round_of_draws(Rejection *r, const double *phi, double *grad) {
  const Family *f = family_of(r->q->family);
  size_t chunks = vm_chunks(r->work), points = q_size(r->q) - r->q->npoint;
  double *c = r->chunk + chunks * r->ld;
  memset(r->chunk, 0, (chunks + 1) * r->ld * sizeof *c);
  for (size_t k = 0; k < q_noise(r->q); k++)
    rng_fill_normal(rng_make(r->seed, 1), 0, k, r->draws.u + k * r->ld, r->M);
  q_draw(r->q, phi, &r->draws, r->theta);
  vm_forward(r->work, r->theta);
  vm_tiles(r->work, accept_tile, r, true);
  for (size_t k = 0; k < chunks; k++) r->draws.noise.k->add(c, r->chunk + k * r->ld, r->ld);
  f->score_function(phi, &r->draws.noise, c, grad);
  if (!r->q->npoint) return;
  vm_backward(r->work, (double[]){0, 0}, NULL, r->adj);
  for (size_t k = 0; k < r->q->npoint; k++)
    grad[points + k] += r->draws.noise.k->sum(r->adj + r->q->point[k] * r->ld, r->M);
}

static size_t count_pending(const Rejection *r) {
  size_t n = 0;
  for (size_t k = 0; k < r->o->n; k++) n += r->pending[k];
  return n;
}

bool rejection_eval(Rejection *r, const double *phi, uint64_t seed, double *value, double *grad) {
  size_t size = q_size(r->q);
  memset(grad, 0, size * sizeof *grad);
  for (size_t k = 0; k < r->o->n; k++) r->pending[k] = true;
  for (int round = 0; round < MOST_ROUNDS && count_pending(r) && !r->refused; round++) {
    r->first = round == 0;
    r->seed = rng_mix(seed + (uint64_t)round * 7919);
    round_of_draws(r, phi, grad);
  }
  r->unmatched += (long)count_pending(r);
  *value = 0;
  for (size_t k = 0; k < r->o->n; k++) *value += r->score[k];
  if (r->regularizer) {
    PredictiveValue v;
    predictive_renew(r->regularizer, rng_mix(seed + 3), true);
    if (!predictive_eval(r->regularizer, phi, &v, r->part)) return false;
    for (size_t k = 0; k < size; k++) grad[k] += r->part[k];
    *value += v.value;
  }
  for (size_t k = 0; k < size; k++)
    if (!isfinite(grad[k])) return false;
  return isfinite(*value);
}

void rejection_state(Rejection *r, Archive *a) {
  bool refused = r->refused;
  archive_bool(a, &refused);
  archive_long(a, &r->unmatched);
  r->refused = refused;
}

bool rejection_refused(const Rejection *r) { return r->refused; }
long rejection_unmatched(const Rejection *r) { return r->unmatched; }
