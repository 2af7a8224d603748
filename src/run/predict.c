/* predict.c: predictions for the observations of a Problem, under the q of a run, or its draws of
 * the posterior. */
#include "run/predict.h"

#include "infer/describe.h"
#include "num/rng.h"
#include "run/sampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_DRAWS = 4096, SEED_PREDICT = 79, SEED_OUTCOMES = 80 };

/* ---- does q fit the program with these data? ------------------------------------------------- */

/* The data decide how many parameters there are: a group that the fit has not seen adds one of
 * which q knows nothing. */
static void check_parameters(Ctx *c, const Run *r, const Model *m) {
  size_t n = m->dim < r->q.dim ? m->dim : r->q.dim, k = 0;
  while (k < n && !strcmp(r->parameters[k], model_unconstrained_name(m, &c->arena, k))) k++;
  if (k == m->dim && k == r->q.dim) return;
  const char *now = k < m->dim ? model_unconstrained_name(m, &c->arena, k) : NULL;
  const char *then = k < r->q.dim ? r->parameters[k] : NULL;
  if (m->dim > r->q.dim || (m->dim == r->q.dim && now))
    ctx_fail(
        c, PVI_DATA, NOWHERE,
        "the new data make a parameter %s that the fit did not have: it has learned nothing about "
        "that level. Predict for levels that were in the fit, or fit again with the new ones",
        now);
  ctx_fail(c, PVI_DATA, NOWHERE,
           "with the new data the program has %zu parameters, but the fit has %zu: %s is missing. "
           "Give the "
           "sizes that the fit had, also where not all of its levels occur in the new data",
           m->dim, r->q.dim, then ? then : "one");
}

/* ---- levels ---------------------------------------------------------------------------------- */

static const double *read_levels(Ctx *c, const OptionList *l) {
  double *levels = NEW_ARRAY(&c->arena, double, l->count + 1);
  for (size_t k = 0; k < l->count; k++) {
    char *end;
    levels[k] = strtod(l->items[k], &end);
    if (*end || !(levels[k] > 0 && levels[k] < 1))
      ctx_fail(c, PVI_USAGE, NOWHERE, OPTION("levels") " are numbers between 0 and 1, not \"%s\"",
               l->items[k]);
  }
  return levels;
}

/* ---- the predictive distributions ------------------------------------------------------------ */

/* By observation what is by row of the selection. */
static double *by_observation(Ctx *c, const double *rows, const int32_t *obs, size_t n,
                              size_t each) {
  double *out = NEW_ARRAY(&c->arena, double, n *each + 1);
  for (size_t k = 0; k < n; k++)
    memcpy(out + (size_t)obs[k] * each, rows + k * each, each * sizeof *out);
  return out;
}

/* n of the draws that are given, evenly spread. */
static const double *spread(Arena *a, const GivenDraws *g, size_t dim, size_t n) {
  double *theta = NEW_ARRAY(a, double, dim *n + 1);
  for (size_t k = 0; k < dim; k++)
    for (size_t j = 0; j < n; j++) theta[k * n + j] = g->all[k * g->nall + j * g->nall / n];
  return theta;
}

static void describe(Ctx *c, const Run *r, const Model *m, const Options *o, Pool *pool,
                     Predictions *p) {
  TempArena *temp = temp_open(c);
  Arena *a = &temp->arena;
  size_t n = m->n_obs, draws = (size_t)(o->n ? o->n : USUAL_DRAWS);
  if (r->given && r->given->nall < draws) draws = r->given->nall;
  Description d = {.levels = p->levels,
                   .nlevels = p->nlevels,
                   .noutcomes = p->noutcomes,
                   .seed =
                       rng_mix((uint64_t)(options_is_given(o, OPTION_seed) ? o->seed : r->o->seed) +
                               SEED_OUTCOMES),
                   .mean = NEW_ARRAY(a, double, n + 1),
                   .sd = NEW_ARRAY(a, double, n + 1),
                   .quantiles = NEW_ARRAY(a, double, n * p->nlevels + 1),
                   .outcomes = NEW_ARRAY(a, double, n * p->noutcomes + 1)};
  unsigned wants = model_has_densities(m) ? WANT_LL | WANT_PARAMETERS : WANT_SIM;
  Observed *observed = observed_make(a, m, NULL, 0, wants);
  int32_t *obs = NEW_ARRAY(a, int32_t, n + 1);
  NoiseSet noise = {draws, rng_mix(r->scoring.seed + SEED_PREDICT)};
  model_numbers(m, &observed->rows, obs);
  const double *theta = r->given ? spread(a, r->given, m->dim, draws) : NULL;
  predictive_describe(
      c,
      &(Scoring){
          .o = observed, .q = &r->q, .phi = r->phi, .noise = noise, .pool = pool, .theta = theta},
      &d);
  p->mean = by_observation(c, d.mean, obs, n, 1);
  p->sd = by_observation(c, d.sd, obs, n, 1);
  p->quantiles = by_observation(c, d.quantiles, obs, n, p->nlevels);
  p->outcomes = by_observation(c, d.outcomes, obs, n, p->noutcomes);
  for (int b = 0; b < m->nblocks && !p->note; b++)
    if (observed->kinds[b] == KIND_NONE && m->blocks[b].sim == NO_NODE)
      p->note = arena_format(
          &c->arena,
          "means and quantiles are not available for the observations of line %u (%s): pvi has the "
          "density of such an outcome, not its distribution. Outcomes that generated quantities "
          "draw are in the draws of the run",
          m->blocks[b].loc.line, m->blocks[b].name);
  temp_close(temp);
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* As the fit computed them: the same draws or nodes. */
static const Scores *score(Ctx *c, const Run *r, const Model *m, const Options *o, Pool *pool) {
  ScoringPlan how = r->scoring;
  if (options_is_given(o, OPTION_alpha)) how.alpha = o->alpha;
  OptionList metrics = o->metric.count ? o->metric : r->o->metric;
  ScoreList list = evaluate_list(c, m, &metrics, r->o);
  size_t *rows = NEW_ARRAY(&c->arena, size_t, m->n_obs + 1);
  for (size_t k = 0; k < m->n_obs; k++) rows[k] = k;
  Split all = {.n = m->n_obs, .count = {0, 0, m->n_obs}, .rows = {rows, rows, rows}};
  Scorer s = {
      .c = c, .model = m, .q = &r->q, .phi = r->phi, .how = &how, .pool = pool, .given = r->given};
  return evaluate_parts(&s, &list, &all);
}

Predictions *run_predict(Ctx *c, const Run *run, const Problem *problem, const Options *o) {
  const Run *r = run->sampled && !run->given ? sample_predictor(c, run) : run;
  const Model *m = problem->model;
  Predictions *p = NEW(&c->arena, Predictions);
  check_parameters(c, r, m);
  if (!m->n_obs) ctx_fail(c, PVI_DATA, NOWHERE, "the new data have no observations to predict");
  p->n = m->n_obs;
  p->levels = read_levels(c, &o->levels);
  p->nlevels = o->levels.count;
  p->noutcomes = (size_t)o->outcomes;
  Pool *pool = pool_make(c, (int)o->threads);
  describe(c, r, m, o, pool, p);
  p->scored = !m->outcomes_missing;
  if (p->scored) p->scores = score(c, r, m, o, pool);
  pool_free(pool);
  return p;
}
