/* lessons.c: draws of the prior, data for each, features, summaries, units. In order: see
 * lessons_make. */
#include "infer/lessons.h"

#include "infer/embedding.h"
#include "infer/ess.h"
#include "num/rng.h"
#include "num/stats.h"

#include <math.h>
#include <string.h>

enum { CHAINS = 32, WARMUP = 300, LEAST_DRAWS = 250, BATCH = 256, STREAM = 41 };
enum { LEAST = 256 }; /* lessons that something can be learned from */

void lessons_check(Ctx *c, const LessonHooks *h, const char *when) {
  if (h->cancelled && h->cancelled(h->self))
    ctx_fail(c, PVI_INTERRUPTED, NOWHERE, "interrupted while %s: nothing was learned yet", when);
}

static void tell(const LessonPlan *p, const char *stage, size_t done, size_t total) {
  FitProgress f = {stage, (long)done, (long)total, 0, NAN, 0};
  if (p->hooks.progress) p->hooks.progress(p->hooks.self, &f);
}

/* ---- the prior ------------------------------------------------------------------------------- */

/* Starts as Stan's: uniform in (-2, 2). */
static const double *random_starts(Arena *a, size_t dim, uint64_t seed) {
  double *x = NEW_ARRAY(a, double, CHAINS *dim + 1);
  Rng key = rng_make(seed, STREAM);
  for (size_t i = 0; i < CHAINS * dim; i++) x[i] = 4 * rng_uniform(key, i, 0) - 2;
  return x;
}

/* Chains that do not agree have not seen the whole prior. */
static void check_prior(Ctx *c, const Model *m, const Sample *s) {
  const double most = 1.05;
  TempArena *temp = temp_open(c);
  EssWork *w = ess_work(&temp->arena, s->chains, s->draws);
  double *x = NEW_ARRAY(&temp->arena, double, s->chains * s->draws + 1);
  for (size_t k = 0; k < s->dim; k++) {
    for (size_t j = 0; j < s->chains; j++)
      for (size_t i = 0; i < s->draws; i++) x[j * s->draws + i] = sample_draw(s, j, i)[k];
    double rhat = ess_quality(w, x).rhat;
    if (!(rhat <= most))
      ctx_fail(
          c, PVI_PROGRAM, NOWHERE,
          "the prior of this program cannot be drawn: chains do not agree about %s (R-hat "
          "%.2f). A prior with several modes or a very heavy tail needs another form, such as a "
          "hierarchy written non-centred",
          model_unconstrained_name(m, &c->arena, k), rhat);
  }
  temp_close(temp);
}

/* [pairs x dim]: a draw of every chain in turn, so that neighbours are independent. */
static double *draw_prior(Ctx *c, const LessonPlan *p, Pool *pool, long *evaluations) {
  static const size_t none = 0;
  const Model *m = p->model;
  double *theta = NEW_ARRAY(&c->arena, double, p->pairs * m->dim + 1);
  TempArena *temp = temp_open(c);
  Arena *a = &temp->arena;
  Metric unit = metric_make(a, m->dim);
  size_t wanted = (p->pairs + CHAINS - 1) / CHAINS, thin = (LEAST_DRAWS + wanted - 1) / wanted;
  SampleOptions o = {.method = SAMPLER_nuts,
                     .chains = CHAINS,
                     .warmup = WARMUP,
                     .draws = wanted * thin,
                     .metric = METRIC_AUTO,
                     .seed = rng_mix(p->seed + STREAM),
                     .start = random_starts(a, m->dim, p->seed),
                     .centre = NEW_ARRAY(a, double, m->dim + 1),
                     .first = &unit,
                     .cancelled = p->hooks.cancelled,
                     .self = p->hooks.self};
  const Sample *s = sample_run(c, posterior_observed(a, m, &none, 0), &o, pool);
  lessons_check(c, &p->hooks, "drawing from the prior");
  check_prior(c, m, s);
  for (size_t i = 0; i < p->pairs; i++)
    memcpy(theta + i * m->dim, sample_draw(s, i % CHAINS, i / CHAINS * thin),
           m->dim * sizeof *theta);
  *evaluations = s->evaluations;
  temp_close(temp);
  return theta;
}

/* ---- data and features ----------------------------------------------------------------------- */

/* Features of the data sets of a batch, a piece of work each. */
typedef struct {
  const Embedding *e;
  const double *y;
  double *features; /* [BATCH x room] */
} Batch;

static void feature_of(void *arg, size_t j, int worker) {
  Batch *b = arg;
  (void)worker;
  embedding_feature(b->e, b->y, BATCH, j, b->features + j * embedding_room(b->e));
}

typedef struct {
  Embedding *e;
  double *features; /* [pairs x features] */
  double *seen;     /* features */
} Features;

static Replicas *make_replicas(Ctx *c, const LessonPlan *p, Arena *a, Pool *pool) {
  const char *why;
  Replicas *r = replicas_make(a, &(ReplicasOf){p->model, p->rows, p->n, BATCH}, pool, &why);
  if (!r)
    ctx_fail(c, PVI_PROGRAM, NOWHERE,
             "the data of this program cannot be simulated, because %s; write the simulation in "
             "generated quantities and name it with " OPTION("simulate"),
             why);
  return r;
}

static void seen_features(Arena *a, const Embedding *e, const Replicas *r, double *out) {
  double *y = NEW_ARRAY(a, double, replicas_count(r) * replicas_width(r) + 1),
         *room = NEW_ARRAY(a, double, embedding_room(e));
  replicas_seen(r, y);
  embedding_feature(e, y, 1, 0, room);
  memcpy(out, room, embedding_features(e) * sizeof *out);
}

static Features simulate(Ctx *c, const LessonPlan *p, const double *theta, Pool *pool) {
  TempArena *temp = temp_open(c);
  Arena *a = &temp->arena;
  size_t dim = p->model->dim, F = 0;
  Replicas *r = make_replicas(c, p, a, pool);
  double *y = NEW_ARRAY(a, double, replicas_count(r) * replicas_width(r) * BATCH + 1),
         *points = NEW_ARRAY(a, double, BATCH *dim + 1);
  Features out = {NULL, NULL, NULL};
  Batch b = {NULL, y, NULL};
  for (size_t at = 0; at < p->pairs; at += BATCH) {
    size_t count = p->pairs - at < BATCH ? p->pairs - at : BATCH;
    tell(p, "simulations", at, p->pairs);
    lessons_check(c, &p->hooks, "simulating data");
    for (size_t j = 0; j < BATCH; j++)
      memcpy(points + j * dim, theta + (at + j % count) * dim, dim * sizeof *points);
    replicas_draw(r, points, rng_mix(p->seed + STREAM + at), y);
    if (!at) {
      out.e = embedding_make(&c->arena, p->model, r, y, BATCH);
      F = embedding_features(out.e);
      b.e = out.e;
      b.features = NEW_ARRAY(a, double, BATCH *embedding_room(out.e));
      out.features = NEW_ARRAY(&c->arena, double, p->pairs *F);
      out.seen = NEW_ARRAY(&c->arena, double, F);
      seen_features(a, out.e, r, out.seen);
    }
    pool_run(pool, count, feature_of, &b);
    for (size_t j = 0; j < count; j++)
      memcpy(out.features + (at + j) * F, b.features + j * embedding_room(out.e), F * sizeof *y);
  }
  temp_close(temp);
  return out;
}

static bool all_finite(const double *x, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!isfinite(x[i])) return false;
  return true;
}

/* Pairs whose data are not finite are left out; how many are left. */
static size_t keep_finite(double *theta, double *features, size_t n, size_t dim, size_t F) {
  size_t kept = 0;
  for (size_t i = 0; i < n; i++) {
    if (!all_finite(features + i * F, F)) continue;
    memmove(theta + kept * dim, theta + i * dim, dim * sizeof *theta);
    memmove(features + kept * F, features + i * F, F * sizeof *features);
    kept++;
  }
  return kept;
}

/* ---- units ----------------------------------------------------------------------------------- */

/* theta in units of its prior: the median, and the middle half. */
static void standardise_theta(Ctx *c, Lessons *l, size_t n) {
  double *x = NEW_ARRAY(&c->arena, double, n), *work = NEW_ARRAY(&c->arena, double, n);
  l->centre = NEW_ARRAY(&c->arena, double, l->dim + 1);
  l->scale = NEW_ARRAY(&c->arena, double, l->dim + 1);
  for (size_t k = 0; k < l->dim; k++) {
    for (size_t i = 0; i < n; i++) x[i] = l->t[i * l->dim + k];
    double spread = stat_quantile(x, n, 0.75, work) - stat_quantile(x, n, 0.25, work);
    l->centre[k] = stat_median(x, n, work);
    l->scale[k] = spread > 0 ? spread / 1.349 : 1;
    for (size_t i = 0; i < n; i++)
      l->t[i * l->dim + k] = (l->t[i * l->dim + k] - l->centre[k]) / l->scale[k];
  }
}

static void standardise_summaries(Ctx *c, Lessons *l) {
  double *x = NEW_ARRAY(&c->arena, double, l->n);
  for (size_t k = 0; k < l->size; k++) {
    for (size_t i = 0; i < l->n; i++) x[i] = l->s[i * l->size + k];
    double mean = stat_mean(x, l->n), sd = fmax(stat_sd(x, l->n), 1e-300);
    l->outside += l->seen[k] < stat_min(x, l->n) || l->seen[k] > stat_max(x, l->n);
    for (size_t i = 0; i < l->n; i++) l->s[i * l->size + k] = (x[i] - mean) / sd;
    l->seen[k] = (l->seen[k] - mean) / sd;
  }
}

Lessons *lessons_make(Ctx *c, const LessonPlan *p, Pool *pool) {
  Lessons *l = NEW(&c->arena, Lessons);
  l->dim = p->model->dim;
  double *theta = draw_prior(c, p, pool, &l->evaluations);
  Features f = simulate(c, p, theta, pool);
  size_t F = embedding_features(f.e), n = keep_finite(theta, f.features, p->pairs, l->dim, F);
  l->dropped = p->pairs - n;
  if (n < LEAST || n < p->pairs / 2)
    ctx_fail(c, PVI_PROGRAM, NOWHERE,
             "of %zu simulated data sets only %zu have finite numbers: the prior reaches where the "
             "program cannot simulate; give a narrower one",
             p->pairs, n);
  l->t = theta;
  standardise_theta(c, l, n);
  embedding_learn(&c->arena, f.e, &(EmbeddingPairs){n, l->dim, f.features, l->t}, kernels_best());
  l->n = n;
  l->size = embedding_size(f.e);
  l->s = NEW_ARRAY(&c->arena, double, l->n * l->size + 1);
  l->seen = NEW_ARRAY(&c->arena, double, l->size + 1);
  for (size_t i = 0; i < l->n; i++) embedding_summary(f.e, f.features + i * F, l->s + i * l->size);
  embedding_summary(f.e, f.seen, l->seen);
  standardise_summaries(c, l);
  return l;
}
