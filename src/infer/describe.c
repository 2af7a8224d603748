/* describe.c: mean, standard deviation, quantiles and simulated outcomes of every observation's
 * predictive distribution, the mixture over draws of q. */
#include "infer/describe.h"

#include "num/rng.h"
#include "num/sobol.h"
#include "num/stats.h"

#include <math.h>
#include <string.h>

typedef struct {
  const Observed *o;
  const Description *d;
  const QDraws *draws;
  const double *until; /* M: running sums of the weights; NULL: equal weights */
  double *scratch;     /* of each worker */
  size_t each;         /* numbers in it */
} Describer;

/* The lane that belongs to a uniform number. */
static size_t lane_at(const Describer *s, double u) {
  size_t M = s->draws->noise.M, lo = 0, hi = M - 1;
  if (!s->until) return u * (double)M < (double)M - 1 ? (size_t)(u * (double)M) : M - 1;
  while (lo < hi) {
    size_t mid = (lo + hi) / 2;
    if (s->until[mid] < u)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

/* Outcomes of one observation: a lane, then an outcome of what that lane predicts. The random
 * numbers are the observation's own, whatever the threads. */
static void simulate(const Describer *s, const ScoreCase *c, size_t row) {
  size_t n = s->d->noutcomes, size = c->q.kind == KIND_CATEGORICAL ? c->q.size : 1;
  double par[KIND_PARAMETERS], *all = c->scratch;
  RngStream r = rngs_make(s->d->seed, row);
  for (size_t k = 0; k < n; k++) {
    double u = rngs_uniform(&r);
    size_t j = s->d->together ? k % s->draws->noise.M : lane_at(s, u);
    const double *p = par;
    if (size > 1) {
      for (size_t i = 0; i < size; i++) all[i] = c->q.par[0][i * c->q.ld + j];
      p = all;
    } else {
      for (int i = 0; i < kind_parameters(c->q.kind); i++) par[i] = c->q.par[i][j];
    }
    s->d->outcomes[row * n + k] = kind_sample(c->q.kind, p, c->q.size, &r);
  }
}

static void describe_known(const Describer *s, const TileView *t, size_t r, Kind kind) {
  size_t row = t->row + r, ld = t->ld,
         width = kind == KIND_CATEGORICAL ? (size_t)s->o->model->blocks[t->block].width : 1;
  ScoreCase c = {
      .q = {.kind = kind, .M = s->draws->noise.M, .ld = ld, .weights = s->draws->weights},
      .k = s->draws->noise.k,
      .scratch = s->scratch + (size_t)t->worker * s->each};
  c.q.size = observed_size(s->o, t->block, row);
  for (int k = 0; k < kind_parameters(kind); k++)
    c.q.par[k] = t->heads[HEAD_PAR + k] + r * width * ld;
  ScoreSummary out = {.quantiles = s->d->quantiles + row * s->d->nlevels};
  score_describe(&c, s->d->levels, s->d->nlevels, &out);
  s->d->mean[row] = out.mean;
  s->d->sd[row] = out.sd;
  simulate(s, &c, row);
}

/* Outcomes that the program simulates, one per draw: they speak for themselves. */
static void describe_simulated(const Describer *s, const TileView *t, size_t r) {
  size_t row = t->row + r, M = s->draws->noise.M, n = s->d->noutcomes;
  const double *sim = t->heads[HEAD_SIM] + r * t->ld;
  double *sorted = s->scratch + (size_t)t->worker * s->each;
  memcpy(sorted, sim, M * sizeof *sorted);
  s->d->mean[row] = stat_mean(sorted, M);
  s->d->sd[row] = stat_sd(sorted, M);
  stat_sort(sorted, M);
  for (size_t k = 0; k < s->d->nlevels; k++)
    s->d->quantiles[row * s->d->nlevels + k] = stat_quantile_sorted(sorted, M, s->d->levels[k]);
  for (size_t k = 0; k < n; k++) s->d->outcomes[row * n + k] = sim[k % M];
}

static void describe_tile(void *self, const TileView *t) {
  const Describer *s = self;
  Kind kind = s->o->wants & WANT_PARAMETERS ? s->o->kinds[t->block] : KIND_NONE;
  bool simulated = t->heads[HEAD_SIM] && s->o->model->blocks[t->block].sim_width == 1;
  for (size_t r = 0; r < t->rows; r++) {
    if (kind != KIND_NONE)
      describe_known(s, t, r, kind);
    else if (simulated)
      describe_simulated(s, t, r);
  }
}

static const double *running_sums(Arena *a, const double *w, size_t M) {
  if (!w) return NULL;
  double *until = NEW_ARRAY(a, double, M), sum = 0;
  for (size_t j = 0; j < M; j++) until[j] = sum += w[j];
  return until;
}

static void forget(const Description *d, size_t n) {
  for (size_t k = 0; k < n; k++) d->mean[k] = d->sd[k] = NAN;
  for (size_t k = 0; k < n * d->nlevels; k++) d->quantiles[k] = NAN;
  for (size_t k = 0; k < n * d->noutcomes; k++) d->outcomes[k] = NAN;
}

void predictive_describe(Ctx *c, const Scoring *s, const Description *d) {
  TempArena *temp = temp_open(c);
  Arena *a = &temp->arena;
  size_t M = s->noise.M, rows = q_noise(s->q), widest = 1;
  Work *w = vm_work_forward(a, observed_tape(s->o), M, s->pool);
  size_t ld = vm_ld(w);
  QDraws draws = q_draws(a, s->q, M, ld, vm_kernels(w));
  double *theta = NEW_ARRAY(a, double, s->q->dim *ld);
  if (s->theta) {
    for (size_t k = 0; k < s->q->dim; k++)
      memcpy(theta + k * ld, s->theta + k * M, M * sizeof *theta);
  } else {
    sobol_normal(draws.u, rows, M, ld, s->noise.seed, false);
    q_draw(s->q, s->phi, &draws, theta);
  }
  for (int b = 0; b < s->o->model->nblocks; b++)
    widest = s->o->model->blocks[b].width > (int32_t)widest ? (size_t)s->o->model->blocks[b].width
                                                            : widest;
  Describer self = {.o = s->o, .d = d, .draws = &draws, .until = running_sums(a, draws.weights, M)};
  self.each = (score_scratch(M, 0, false) + widest + ld + LANES) / LANES * LANES;
  self.scratch = NEW_ARRAY(a, double, self.each *(size_t)pool_threads(s->pool));
  forget(d, s->o->n);
  vm_forward(w, theta);
  vm_tiles(w, describe_tile, &self, false);
  temp_close(temp);
}
