/* sample_scores.c: scores of observations under the posterior's draws: of every part as a fit has
 * them, and of the training part with each observation left out (PSIS-LOO). */
#include "run/sampling.h"

#include "infer/loo.h"
#include "infer/psis.h"

#include <math.h>
#include <string.h>

enum { FEW_DRAWS = 1024, LEAST_LOO = 1000, LEAST_SCORED = 2000 };
static const double LOO_WORK = 4e6, SCORE_WORK = 1e7; /* draws times observations, about */

/* n of all draws, evenly spread: draw by draw, or as rows of draws. */
static double *spread_draws(Arena *a, const Sample *s, size_t n, bool rows) {
  size_t total = s->chains * s->draws, dim = s->dim;
  double *theta = NEW_ARRAY(a, double, n *dim + 1);
  for (size_t j = 0; j < n; j++) {
    size_t i = j * total / n;
    const double *from = sample_draw(s, i / s->draws, i % s->draws);
    for (size_t k = 0; k < dim; k++) theta[rows ? k * n + j : j * dim + k] = from[k];
  }
  return theta;
}

/* q stands for the mean of the draws: all of its parameters are points. */
static Q mean_q(Arena *a, const Sample *s, double *mean) {
  bool *points = NEW_ARRAY(a, bool, s->dim + 1);
  double n = (double)(s->chains * s->draws);
  for (size_t k = 0; k < s->dim; k++) points[k] = true;
  for (size_t j = 0; j < s->chains; j++)
    for (size_t i = 0; i < s->draws; i++)
      for (size_t k = 0; k < s->dim; k++) mean[k] += sample_draw(s, j, i)[k] / n;
  return q_make(a, FAMILY_meanfield, (Shape){0}, s->dim, points);
}

/* So many of all draws as the work for n observations allows. */
static size_t draws_for(size_t total, double least, double work, size_t n) {
  double most = fmax(least, work / (double)(n + 1));
  return most < (double)total ? (size_t)most : total;
}

size_t sample_scored(size_t total, size_t n) {
  return draws_for(total, LEAST_SCORED, SCORE_WORK, n);
}

static LooSummary sum_up(const SampleRun *s, const double *score, const double *k, size_t n) {
  SummaryScore sum = summary_score("loo", score, n);
  LooSummary out = {.elpd = sum.sum,
                    .mean = sum.mean,
                    .se = sum.se * (double)n,
                    .n = n,
                    .p_loo = s->run->scores->parts[PART_TRAIN].scores[0].sum - sum.sum,
                    .worst = -INFINITY};
  for (size_t i = 0; i < n; i++) {
    out.worst = fmax(out.worst, k[i]);
    out.bad += !(k[i] <= PSIS_GOOD);
  }
  return out;
}

/* Every training observation from all the others. */
static const SampleLoo *leave_one_out(Ctx *c, const SampleRun *s, Pool *pool) {
  const Model *m = s->run->problem->model;
  const Split *split = s->run->split;
  size_t n = split->count[PART_TRAIN];
  if (n < 2 || m->joint) return NULL;
  SampleLoo *l = NEW(&c->arena, SampleLoo);
  TempArena *temp = temp_open(c);
  Arena *a = &temp->arena;
  size_t draws = draws_for(s->sample->chains * s->sample->draws, LEAST_LOO, LOO_WORK, n);
  const Observed *o = observed_make(a, m, split->rows[PART_TRAIN], n, WANT_LL);
  double *score = NEW_ARRAY(a, double, o->n + 1), *k = NEW_ARRAY(a, double, o->n + 1);
  int32_t *obs = NEW_ARRAY(a, int32_t, o->n + 1);
  loo_scores(c, o, &(LooDraws){spread_draws(a, s->sample, draws, false), draws, pool}, score, k);
  model_numbers(m, &o->rows, obs);
  l->score = NEW_ARRAY(&c->arena, double, m->n_obs + 1);
  l->k = NEW_ARRAY(&c->arena, double, m->n_obs + 1);
  for (size_t i = 0; i < m->n_obs; i++) l->score[i] = l->k[i] = NAN;
  for (size_t i = 0; i < o->n; i++) {
    l->score[obs[i]] = score[i];
    l->k[obs[i]] = k[i];
  }
  l->sum = sum_up(s, score, k, o->n);
  l->sum.draws = draws;
  temp_close(temp);
  return l;
}

const Scores *sample_parts(Ctx *c, const Sample *x, const SampleParts *p) {
  TempArena *temp = temp_open(c);
  Arena *a = &temp->arena;
  size_t total = x->chains * x->draws, few = total < FEW_DRAWS ? total : FEW_DRAWS;
  double *mean = NEW_ARRAY(a, double, x->dim + 1);
  Q q = mean_q(a, x, mean);
  size_t scored = sample_scored(total, p->model->n_obs);
  GivenDraws given = {spread_draws(a, x, scored, true), spread_draws(a, x, few, true), scored, few};
  ScoringPlan how = evaluate_scoring(p->o, p->model->n_obs);
  how.integrate = INTEGRATE_DRAWS;
  Scorer scorer = {.c = c,
                   .model = p->model,
                   .q = &q,
                   .phi = mean,
                   .how = &how,
                   .pool = p->pool,
                   .given = &given};
  const Scores *s = evaluate_parts(&scorer, p->list, p->split);
  temp_close(temp);
  return s;
}

void sample_score(Ctx *c, SampleRun *s, Run *r, Pool *pool) {
  const Model *m = r->problem->model;
  ScoreList list = r->o->metric.count ? evaluate_list(c, m, &r->o->metric, r->o) : evaluate_logs();
  r->scores = sample_parts(c, s->sample, &(SampleParts){m, &list, r->split, r->o, pool});
  s->loo = leave_one_out(c, s, pool);
}
