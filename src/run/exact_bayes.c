/* exact_bayes.c: chains for every fold, scored on what was held out; and in words how far VI is
 * from them. */
#include "run/exact_bayes.h"

#include "num/stats.h"
#include "run/jobs.h"

#include <math.h>
#include <string.h>

/* ---- folds ----------------------------------------------------------------------------------- */

typedef struct {
  const ExactFolds *e;
  Scores *out;
  double *rhat; /* of every fold */
  bool *done;
} FoldChains;

/* The largest of all parameters. */
static double worst_rhat(Ctx *c, const Sample *x) {
  TempArena *temp = temp_open(c);
  EssWork *w = ess_work(&temp->arena, x->chains, x->draws);
  double *v = NEW_ARRAY(&temp->arena, double, x->chains * x->draws + 1), worst = NAN;
  for (size_t k = 0; k < x->dim; k++) {
    for (size_t i = 0; i < x->chains * x->draws; i++)
      v[i] = sample_draw(x, i / x->draws, i % x->draws)[k];
    worst = fmax(worst, ess_quality(w, v).rhat);
  }
  temp_close(temp);
  return worst;
}

static const Sample *fold_chains(Ctx *c, const ExactFolds *e, const Split *split, Pool *pool) {
  SampleOptions so = sample_options(e->o, NULL);
  so.metric = METRIC_AUTO;
  so.start = e->start->start;
  so.centre = e->start->centre;
  so.first = &e->start->metric;
  so.cancelled = e->hooks ? e->hooks->cancelled : NULL;
  so.self = e->hooks ? e->hooks->self : NULL;
  const Observed *o = posterior_observed(&c->arena, e->problem->model, split->rows[PART_TRAIN],
                                         split->count[PART_TRAIN]);
  return sample_run(c, o, &so, pool);
}

/* One fold, on one thread. False: it was interrupted. */
static bool chains_of_fold(Ctx *c, void *self, size_t k) {
  const FoldChains *j = self;
  const ExactFolds *e = j->e;
  Split test = *folds_split(&c->arena, e->folds, (int)k);
  j->done[k] = true;
  if (!test.count[PART_TRAIN] || !test.count[PART_TEST]) return true;
  Pool *pool = pool_make(c, 1);
  const Sample *x = fold_chains(c, e, &test, pool);
  j->done[k] = !x->interrupted;
  if (x->interrupted) return false;
  test.count[PART_TRAIN] = 0;
  const Scores *s =
      sample_parts(c, x, &(SampleParts){e->problem->model, e->list, &test, e->o, pool});
  size_t n = e->list->count;
  for (size_t i = 0; i < test.count[PART_TEST]; i++) {
    size_t row = test.rows[PART_TEST][i];
    memcpy(j->out->by_obs + row * n, s->by_obs + row * n, n * sizeof(double));
    j->out->part[row] = PART_TEST;
  }
  j->rhat[k] = worst_rhat(c, x);
  return true;
}

const Scores *exact_folds(Ctx *c, const ExactFolds *e, double *rhat) {
  size_t n = e->folds->count;
  FoldChains j = {e, evaluate_none(c, e->list, e->folds->n), NEW_ARRAY(&c->arena, double, n + 1),
                  NEW_ARRAY(&c->arena, bool, n + 1)};
  jobs_run(c, e->o->threads, &(Jobs){n, chains_of_fold, &j, "fold", NULL});
  *rhat = NAN;
  for (size_t k = 0; k < n; k++) {
    if (!j.done[k]) return NULL;
    if (j.rhat[k] > 0) *rhat = fmax(*rhat, j.rhat[k]);
  }
  evaluate_sum(c, j.out, PART_TEST);
  return j.out;
}

/* ---- beside a fit ---------------------------------------------------------------------------- */

static size_t column_of(const ScoreList *l, const char *name) {
  size_t k = 0;
  while (k < l->count && strcmp(l->names[k], name) != 0) k++;
  return k;
}

/* The sum of b - a over observations that both have, with its paired standard error. */
static double difference(Ctx *c, const Scores *a, const Scores *b, const char *name, double *se) {
  size_t n = b->n_obs, i = a ? column_of(&a->list, name) : 0, j = column_of(&b->list, name);
  *se = NAN;
  if (!a || i == a->list.count || j == b->list.count) return NAN;
  double *d = NEW_ARRAY(&c->arena, double, n + 1);
  for (size_t k = 0; k < n; k++)
    d[k] = b->by_obs[k * b->list.count + j] - a->by_obs[k * a->list.count + i];
  return stat_total(d, n, se);
}

const SummaryExact *exact_beside(Ctx *c, const ExactBeside *e) {
  Options *o = options_make(&c->arena);
  o->seed = e->o->seed;
  o->threads = e->o->threads;
  o->alpha = e->o->alpha;
  SampleStart start = sample_start(c, e->q, e->phi, (size_t)o->chains, (uint64_t)o->seed);
  SummaryExact *x = NEW(&c->arena, SummaryExact);
  ExactFolds f = {e->problem, o, e->folds, &start, e->list, e->hooks};
  const Scores *s = exact_folds(c, &f, &x->rhat);
  if (!s) return NULL;
  size_t k = column_of(e->list, e->score);
  x->score = e->score;
  x->sum = s->parts[PART_TEST].scores[k].sum;
  x->over_vi = difference(c, e->vi, s, e->score, &x->over_vi_se);
  double se, over = difference(c, s, e->fit ? e->fit : s, e->score, &se);
  x->fit = e->fit ? over : NAN;
  x->fit_se = e->fit ? se : NAN;
  return x;
}

/* ---- words ----------------------------------------------------------------------------------- */

/* VI against it. */
static const char *of_vi(Ctx *c, const SummaryExact *x) {
  bool small = fabs(x->over_vi) <= 0.5, apart = fabs(x->over_vi) > 2 * x->over_vi_se;
  if (isnan(x->over_vi)) return "";
  return arena_format(&c->arena, ", VI %.1f: %s (%+.1f for exact Bayes, standard error %.1f)",
                      x->sum - x->over_vi,
                      small            ? "they predict alike"
                      : !apart         ? "within two standard errors of each other"
                      : x->over_vi > 0 ? "VI predicts worse than the posterior that it stands for"
                                       : "VI predicts better than the posterior that it stands for",
                      x->over_vi, x->over_vi_se);
}

const char *exact_words(Ctx *c, const SummaryExact *x) {
  const double agree = 1.05; /* predictions are less sensitive than a single parameter */
  const char *fit =
      isnan(x->fit)
          ? ""
          : arena_format(&c->arena, "; over exact Bayes the fit gains %+.1f (standard error %.1f)",
                         x->fit, x->fit_se);
  const char *doubt =
      x->rhat > agree ? arena_format(&c->arena,
                                     "; but its chains do not agree in every fold (R-hat %.2f), so "
                                     "that these scores are rough",
                                     x->rhat)
                      : "";
  return arena_format(&c->arena,
                      "exact Bayes (draws of the posterior): held-out %s score %.1f%s%s%s",
                      x->score, x->sum, of_vi(c, x), fit, doubt);
}

void exact_check(Ctx *c, const Model *m, const Options *o, bool has_folds) {
  if (!o->bayes) return;
  if (!model_has_densities(m))
    ctx_fail(c, PVI_USAGE, NOWHERE,
             OPTION("bayes") " nuts: the program simulates its outcomes, and without their density "
                             "there is no posterior to sample");
  if (!has_folds)
    ctx_fail(c, PVI_USAGE, NOWHERE,
             OPTION("bayes") " nuts is scored on held-out observations: give " OPTION(
                 "folds") " 5, or let " OPTION("lambda") " be chosen on folds (auto)");
}
