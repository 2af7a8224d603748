/* bag.c: VI of all observations, then of as many data sets as there are bags, side by side; the
 * draws of all together are those of the bagged posterior. */
#include "run/bag.h"

#include "num/rng.h"
#include "run/jobs.h"

#include <math.h>
#include <string.h>

enum { DRAWS = 400 /* of each bag */, STREAM = 21 };

typedef struct {
  const Problem *p;
  const Run *whole; /* of all observations: its q is where the others begin */
  const FitOptions *f;
  const bool *kept;
  double *values; /* [bags x DRAWS x ncols] */
  size_t ncols;
  bool *converged; /* by bag */
} Bagging;

/* As many observations as there are to train on, with replacement, in increasing order. */
static const Split *resampled(Ctx *c, const Split *all, uint64_t seed, size_t bag) {
  size_t n = all->count[PART_TRAIN], *times = NEW_ARRAY(&c->arena, size_t, n), at = 0;
  Split *s = NEW(&c->arena, Split);
  RngStream r = rngs_make(seed, STREAM + bag);
  *s = *all;
  s->rows[PART_TRAIN] = NEW_ARRAY(&c->arena, size_t, n);
  for (size_t i = 0; i < n; i++) times[(size_t)(rngs_uniform(&r) * (double)n)]++;
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < times[i]; k++) s->rows[PART_TRAIN][at++] = all->rows[PART_TRAIN][i];
  return s;
}

static const double *start_of(void *self, const Q *q) {
  (void)q;
  return ((const Bagging *)self)->whole->phi;
}

static bool fit_bag(Ctx *c, void *self, size_t k) {
  Bagging *b = self;
  uint64_t seed = (uint64_t)b->whole->o->seed;
  Run r = *b->whole;
  FitOptions f = *b->f;
  r.split = resampled(c, b->whole->split, seed, k);
  f.choose_family = false;
  f.family = b->whole->q.family;
  f.warm = true;
  f.start = start_of;
  f.start_self = b;
  f.progress = NULL;
  const Fit *fit = fit_run(c, b->p->model, r.split, &f, NULL);
  if (fit->interrupted) ctx_fail(c, PVI_INTERRUPTED, NOWHERE, "interrupted");
  r.fit = fit;
  r.phi = fit->phi;
  b->converged[k] = fit->converged;
  const Draws *d = &run_draw(c, &r, b->p, DRAWS, rng_mix(seed + k), b->kept)->draws;
  memcpy(b->values + k * DRAWS * b->ncols, d->values, DRAWS * b->ncols * sizeof *d->values);
  return true;
}

/* The parameters alone. */
static const bool *parameters_of(Ctx *c, const Model *m) {
  bool *kept = NEW_ARRAY(&c->arena, bool, m->noutputs + 1);
  for (int k = 0; k < m->noutputs; k++) kept[k] = m->outputs[k].block == BLOCK_PARAMETERS;
  return kept;
}

static const Run *fit_whole(Ctx *c, const Problem *p, const Options *asked, const RunHooks *h,
                            FitOptions *f) {
  Options *o = options_copy(&c->arena, asked);
  options_set(c, o, "score", score_name(SCORE_elbo));
  Run *r = run_make(c, p, o, NULL);
  *f = run_fit_options(r->o, h);
  Pool *pool = pool_make(c, (int)o->threads);
  const Fit *fit = fit_run(c, p->model, r->split, f, pool);
  pool_free(pool);
  if (fit->interrupted) ctx_fail(c, PVI_INTERRUPTED, NOWHERE, "interrupted");
  r->fit = fit;
  r->q = fit->q;
  r->phi = fit->phi;
  r->score = SCORE_elbo;
  return r;
}

static const double *indices(Ctx *c, const SummaryParameter *bayes, const SummaryParameter *bagged,
                             size_t n) {
  double *x = NEW_ARRAY(&c->arena, double, n + 1);
  for (size_t k = 0; k < n; k++) {
    double ratio = bayes[k].sd / bagged[k].sd;
    x[k] = ratio < 1 ? 1 - 2 * ratio * ratio : NAN;
  }
  return x;
}

const Bag *bag_fit(Ctx *c, const Problem *p, const Options *o, const RunHooks *h) {
  FitOptions f;
  Bag *out = NEW(&c->arena, Bag);
  const Run *whole = fit_whole(c, p, o, h, &f);
  size_t bags = (size_t)o->bags, n = bags * DRAWS;
  const bool *kept = parameters_of(c, p->model);
  const Draws *bayes = &run_draw(c, whole, p, n, (uint64_t)o->seed, kept)->draws;
  Bagging b = {.p = p, .whole = whole, .f = &f, .kept = kept, .ncols = bayes->ncols};
  b.values = NEW_ARRAY(&c->arena, double, n * bayes->ncols + 1);
  b.converged = NEW_ARRAY(&c->arena, bool, bags);
  jobs_run(c, o->threads, &(Jobs){bags, fit_bag, &b, "bag", NULL});
  Draws all = *bayes;
  all.values = b.values;
  *out = (Bag){.bags = bags,
               .ncols = bayes->ncols,
               .bayes = summary_parameters(c, bayes, bayes->ncols),
               .bagged = summary_parameters(c, &all, bayes->ncols),
               .family = family_name(whole->q.family)};
  out->index = indices(c, out->bayes, out->bagged, out->ncols);
  for (size_t k = 0; k < bags; k++) out->unconverged += !b.converged[k];
  return out;
}
