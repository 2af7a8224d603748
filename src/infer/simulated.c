/* simulated.c: draws, the simulator, the scores, and back through the simulator's pullback.
 *
 * Noise is scrambled Sobol points, over q's noise and the simulator's together, where these are few
 * numbers: then pairs of a point with itself belong to the score, because the points stand for a
 * whole distribution. Where they are many, points are independent and only pairs of different ones
 * count. A simulator with noise of its own, from a seed, is of the second kind.
 */
#include "infer/simulated.h"

#include "infer/shared_score.h"
#include "num/rng.h"
#include "num/sobol.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { FEW_NOISES = 8 };

struct Simulated {
  const Simulator *s;
  const SimulatorOptions *o;
  const Q *q;
  Pool *pool;
  QDraws draws;
  size_t M, ld;
  uint64_t seed;
  double *theta, *adj; /* [dim x ld] */
  double *scores;      /* n */
  /* shared: by draw [M x dim], [M x noises], [M x width] */
  SharedScore *shared;
  double *points, *adj_points, *noise_rows, *noise, *sim, *adj_sim, *adj_w;
  size_t *order, from, count; /* the mini-batch: count observations of the order */
  /* one outcome an observation: [n width x ld], and per worker one observation, simulation by
   * simulation, its adjoint, and scratch */
  double *out, *adj_out, *vectors, *scratch;
  size_t vector_size, scratch_size;
  atomic_bool failed; /* the simulator said so */
};

static bool few_noises(const Simulated *f) { return q_noise(f->q) + f->s->noises <= FEW_NOISES; }

/* ---- memory ---------------------------------------------------------------------------------- */

static void make_shared(Arena *a, Simulated *f) {
  const Simulator *s = f->s;
  SharedProblem p = {.n = s->n,
                     .width = s->width,
                     .y = s->y,
                     .score = f->o->score == SCORE_mmd ? SCORE_mmd : SCORE_energy,
                     .options = f->o->score_options,
                     .noise_sd = s->noise_sd,
                     .all_pairs = few_noises(f)};
  f->shared = shared_make(a, &p, f->M, f->pool);
  f->points = NEW_ARRAY(a, double, f->M * s->dim);
  f->adj_points = NEW_ARRAY(a, double, f->M * s->dim);
  f->noise_rows = NEW_ARRAY(a, double, (s->noises + 1) * f->ld);
  f->noise = NEW_ARRAY(a, double, f->M * s->noises + 1);
  f->sim = NEW_ARRAY(a, double, f->M * s->width);
  f->adj_sim = NEW_ARRAY(a, double, f->M * s->width);
  f->adj_w = NEW_ARRAY(a, double, f->ld);
  f->order = NEW_ARRAY(a, size_t, s->n);
  for (size_t i = 0; i < s->n; i++) f->order[i] = i;
  RngStream r = rngs_make(f->o->seed, 3);
  rngs_shuffle(&r, f->order, s->n);
}

static void make_single(Arena *a, Simulated *f) {
  const Simulator *s = f->s;
  size_t workers = (size_t)pool_threads(f->pool);
  f->out = NEW_ARRAY(a, double, s->n * s->width * f->ld);
  f->adj_out = NEW_ARRAY(a, double, s->n * s->width * f->ld);
  f->vector_size = 2 * s->width * f->ld;
  f->scratch_size = (score_scratch(f->M, f->M, false) + LANES) / LANES * LANES;
  f->vectors = NEW_ARRAY(a, double, workers * f->vector_size);
  f->scratch = NEW_ARRAY(a, double, workers * f->scratch_size);
}

Simulated *simulated_make(Arena *a, const Simulator *s, const SimulatorOptions *o, const Q *q,
                          size_t M, Pool *pool) {
  Simulated *f = NEW(a, Simulated);
  size_t ld = (M + LANES - 1) / LANES * LANES;
  *f = (Simulated){.s = s, .o = o, .q = q, .pool = pool, .M = M, .ld = ld, .count = s->n};
  f->draws = q_draws(a, q, M, ld, kernels_best());
  f->theta = NEW_ARRAY(a, double, s->dim *ld);
  f->adj = NEW_ARRAY(a, double, s->dim *ld);
  f->scores = NEW_ARRAY(a, double, s->n);
  (s->simulate_one ? make_shared : make_single)(a, f);
  return f;
}

/* ---- noise and batches ----------------------------------------------------------------------- */

static void renew_shared(Simulated *f, uint64_t seed) {
  size_t own = q_noise(f->q), more = f->s->noises;
  if (few_noises(f)) {
    sobol_normal_part(f->draws.u, 0, own, f->M, f->ld, seed, false);
    if (more) sobol_normal_part(f->noise_rows, own, more, f->M, f->ld, seed, true);
  } else {
    Rng key = rng_make(seed, 0);
    for (size_t k = 0; k < own; k++) rng_fill_normal(key, 0, k, f->draws.u + k * f->ld, f->M);
    for (size_t k = 0; k < more; k++)
      rng_fill_uniform(key, 0, own + k, f->noise_rows + k * f->ld, f->M);
  }
  for (size_t j = 0; j < f->M; j++)
    for (size_t k = 0; k < more; k++) f->noise[j * more + k] = f->noise_rows[k * f->ld + j];
}

void simulated_renew(Simulated *f, uint64_t seed) {
  f->seed = rng_mix(seed + 5);
  if (f->shared) {
    renew_shared(f, seed);
  } else {
    sobol_normal(f->draws.u, q_noise(f->q), f->M, f->ld, seed, false);
  }
}

void simulated_batch(Simulated *f, long t) {
  size_t each = f->o->minibatch, n = f->s->n;
  f->from = 0;
  f->count = n;
  if (t < 0 || !each || each >= n) return;
  size_t batches = (n + each - 1) / each, k = (size_t)t % batches;
  f->from = n * k / batches;
  f->count = n * (k + 1) / batches - f->from;
}

const double *simulated_scores(const Simulated *f) { return f->scores; }

/* ---- one outcome serves all ------------------------------------------------------------------ */

static SimulatorDraw draw_of(const Simulated *f, size_t j) {
  return (SimulatorDraw){j, f->points + j * f->s->dim, f->noise + j * f->s->noises};
}

static void simulate_draw(void *self, size_t j, int worker) {
  Simulated *f = self;
  SimulatorDraw d = draw_of(f, j);
  (void)worker;
  if (!f->s->simulate_one(f->s->self, &d, f->sim + j * f->s->width)) f->failed = true;
}

static void pull_draw(void *self, size_t j, int worker) {
  Simulated *f = self;
  SimulatorDraw d = draw_of(f, j);
  (void)worker;
  if (!f->s->pullback_one(f->s->self, &d, f->adj_sim + j * f->s->width,
                          f->adj_points + j * f->s->dim))
    f->failed = true;
}

static double scale_of(const Simulated *f) { return (double)f->s->n / (double)f->count; }

/* The sum of scores, scaled up from the mini-batch; with back, adj and adj_w. */
static double score_shared(Simulated *f, bool back) {
  size_t dim = f->s->dim;
  bool all = f->count == f->s->n;
  double scale = scale_of(f);
  for (size_t j = 0; j < f->M; j++)
    for (size_t d = 0; d < dim; d++) f->points[j * dim + d] = f->theta[d * f->ld + j];
  pool_run(f->pool, f->M, simulate_draw, f);
  if (f->failed) return NAN;
  SharedCase c = {.rows = all ? NULL : f->order + f->from,
                  .count = f->count,
                  .sim = f->sim,
                  .weights = f->draws.weights};
  double sum = shared_eval(f->shared, &c, all ? f->scores : NULL, back ? f->adj_sim : NULL,
                           back ? f->adj_w : NULL);
  if (!back || !isfinite(sum)) return scale * sum;
  memset(f->adj_points, 0, f->M * dim * sizeof *f->adj_points);
  pool_run(f->pool, f->M, pull_draw, f);
  for (size_t j = 0; j < f->M; j++) {
    f->adj_w[j] *= scale;
    for (size_t d = 0; d < dim; d++) f->adj[d * f->ld + j] = scale * f->adj_points[j * dim + d];
  }
  return scale * sum;
}

/* ---- every observation has outcomes of its own ----------------------------------------------- */

static void score_observation(void *self, size_t i, int worker) {
  Simulated *f = self;
  size_t width = f->s->width, ld = f->ld;
  const double *out = f->out + i * width * ld;
  double *v = f->vectors + (size_t)worker * f->vector_size, *g = v + width * ld;
  for (size_t j = 0; j < f->M; j++)
    for (size_t k = 0; k < width; k++) v[j * width + k] = out[k * ld + j];
  ScoreCase c = {.q = {.M = f->M, .ld = ld},
                 .y = f->s->y[i * width],
                 .yvec = f->s->y + i * width,
                 .dim = width,
                 .sim = v,
                 .nsim = f->M,
                 .o = f->o->score_options,
                 .k = f->draws.noise.k,
                 .scratch = f->scratch + (size_t)worker * f->scratch_size};
  f->scores[i] = score_of(f->o->score)(&c, &(ScoreAdjoint){.sim = g});
  for (size_t j = 0; j < f->M; j++)
    for (size_t k = 0; k < width; k++) f->adj_out[(i * width + k) * ld + j] = g[j * width + k];
}

static double score_single(Simulated *f, bool back) {
  const Simulator *s = f->s;
  double sum = 0;
  if (!s->simulate(s->self, f->theta, f->M, f->ld, f->seed, f->out)) return NAN;
  pool_run(f->pool, s->n, score_observation, f);
  for (size_t i = 0; i < s->n; i++) sum += f->scores[i];
  if (!back || !isfinite(sum)) return sum;
  bool ok = s->pullback(s->self, f->theta, f->M, f->ld, f->seed, f->adj_out, f->adj);
  return ok ? sum : NAN;
}

/* ---- the objective --------------------------------------------------------------------------- */

/* E log prior + entropy = -KL(q || prior); lambda times its derivatives into adj, adj_w and grad.
 */
static double minus_divergence(Simulated *f, const double *phi, double *grad) {
  const Simulator *s = f->s;
  double lambda = f->o->lambda, sum = 0;
  for (size_t j = 0; j < f->M; j++) {
    double w = f->draws.weights ? f->draws.weights[j] : 1 / (double)f->M, prior = 0;
    for (size_t d = 0; d < s->dim; d++) {
      double z = (f->theta[d * f->ld + j] - s->prior_mean[d]) / s->prior_sd[d];
      prior -= 0.5 * z * z + log(s->prior_sd[d]) + 0.91893853320467274178;
      f->adj[d * f->ld + j] -= lambda * w * z / s->prior_sd[d];
    }
    if (f->adj_w) f->adj_w[j] += lambda * prior;
    sum += w * prior;
  }
  return sum + q_entropy(f->q, phi, &f->draws, lambda, grad);
}

bool simulated_eval(Simulated *f, const double *phi, PredictiveValue *v, double *grad) {
  size_t size = q_size(f->q);
  double room[size + 1], *g = grad ? grad : room;
  memset(g, 0, size * sizeof *g);
  memset(f->adj, 0, f->s->dim * f->ld * sizeof *f->adj);
  f->failed = false;
  q_draw(f->q, phi, &f->draws, f->theta);
  v->score = (f->shared ? score_shared : score_single)(f, grad != NULL);
  if (f->failed || !isfinite(v->score)) return false;
  v->regularizer = f->o->lambda != 0 ? -minus_divergence(f, phi, g) : 0;
  v->value = v->score - f->o->lambda * v->regularizer;
  if (!grad) return isfinite(v->value);
  q_adjoint(f->q, phi, &f->draws, f->adj, f->draws.weights ? f->adj_w : NULL, grad);
  for (size_t k = 0; k < size; k++)
    if (!isfinite(grad[k])) return false;
  return isfinite(v->value);
}
