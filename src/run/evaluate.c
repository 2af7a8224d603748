/* evaluate.c: scores of observations under a fitted q. Rows go through in batches, so that memory
 * is that of a batch, whatever the number of observations. */
#include "run/evaluate.h"

#include "num/rng.h"

#include <math.h>
#include <string.h>

enum { LOG_DRAWS = 16384, METRIC_DRAWS = 1024, LEAST_DRAWS = 128, BATCH_ROWS = 1 << 16 };
enum { SEED_LOG = 77, SEED_METRIC = 78 };
static const double TOLERANCE = 1e-6, COARSE_TOLERANCE = 1e-4;

/* ---- which scores ---------------------------------------------------------------------------- */

ScoreOptions evaluate_score_options(const Options *o) {
  const OptionParts *p = &o->parts[OPTION_score];
  ScorePart *parts = NEW_ARRAY(o->arena, ScorePart, p->count + 1);
  for (size_t k = 0; k < p->count; k++)
    parts[k] = (ScorePart){(ScoreId)p->items[k].word, p->items[k].weight};
  return (ScoreOptions){.alpha = o->alpha, .parts = parts, .nparts = p->count};
}

static void add_score(ScoreList *l, ScoreId id) {
  for (int k = 0; k < l->nids; k++)
    if (l->ids[k] == id) return;
  l->ids[l->nids++] = id;
  l->names[l->count++] = score_name(id);
}

static void add_sum(Ctx *c, ScoreList *l, const ScoreOptions *o) {
  l->ids[l->nids++] = SCORE_sum;
  l->names[l->count++] = score_title(&c->arena, SCORE_sum, o);
  l->parts = o->parts;
  l->nparts = o->nparts;
}

static void add_asked(Ctx *c, const Model *m, const char *asked, ScoreList *l) {
  bool all = !strcmp(asked, "all"), known = all;
  const char *names[SCORE_COUNT], *why;
  for (int k = 0; k < SCORE_COUNT; k++) {
    ScoreId id = (ScoreId)k;
    names[k] = score_name(id);
    if (!all && strcmp(asked, names[k]) != 0) continue;
    known = true;
    if (id == SCORE_log) continue;
    if (observed_evaluates(c, m, id, &why)) {
      add_score(l, id);
    } else if (!all) {
      ctx_fail(c, PVI_USAGE, NOWHERE, OPTION("metric") " %s is not available, because %s", asked,
               why);
    }
  }
  if (!known)
    ctx_unknown(c, PVI_USAGE, NOWHERE,
                &(UnknownWord){"value of " OPTION("metric"), asked, NULL, names, SCORE_COUNT});
}

/* What every fit of the model reports. */
static ScoreList usual_list(Ctx *c, const Model *m) {
  static const ScoreId known[] = {SCORE_quadratic, SCORE_crps, SCORE_interval},
                       simulated[] = {SCORE_crps_sim, SCORE_energy};
  ScoreList l = {.count = 0};
  bool densities = model_has_densities(m);
  const char *why;
  if (densities) {
    l.names[l.count++] = "log";
    l.names[l.count++] = "log_at_mean";
  }
  l.first = l.count;
  for (int k = 0; k < (densities ? 3 : 2); k++) {
    ScoreId id = densities ? known[k] : simulated[k];
    if (observed_allows(c, m, id, &why)) add_score(&l, id);
  }
  return l;
}

ScoreList evaluate_list(Ctx *c, const Model *m, const OptionList *asked, const Options *fitted) {
  ScoreList l = usual_list(c, m);
  for (size_t k = 0; k < asked->count; k++) add_asked(c, m, asked->items[k], &l);
  ScoreOptions sum = evaluate_score_options(fitted);
  Target t = {.score = SCORE_sum, .score_options = sum};
  const char *why;
  if (sum.nparts && target_allows(c, m, &t, &why)) add_sum(c, &l, &sum);
  return l;
}

static size_t draws_for(size_t usual, double work, size_t n) {
  double most = work / (double)(n + 1);
  return most > (double)usual ? usual : most < LEAST_DRAWS ? LEAST_DRAWS : (size_t)most;
}

ScoreList evaluate_one(Ctx *c, const Model *m, const Target *t) {
  ScoreList l = {.count = 0};
  if (t->score == SCORE_log && model_has_densities(m))
    l = (ScoreList){.names = {"log"}, .count = 1, .first = 1};
  else if (t->score == SCORE_sum)
    add_sum(c, &l, &t->score_options);
  else
    add_score(&l, t->score);
  return l;
}

ScoreList evaluate_logs(void) {
  return (ScoreList){.names = {"log", "log_at_mean"}, .count = 2, .first = 2};
}

ScoringPlan evaluate_scoring(const Options *o, size_t n_obs) {
  return (ScoringPlan){.integrate = (Integrate)o->integrate,
                       .draws = draws_for(LOG_DRAWS, 2e9, n_obs),
                       .metric_draws = draws_for(METRIC_DRAWS, 1e8, n_obs),
                       .seed = (uint64_t)o->seed,
                       .alpha = o->alpha};
}

static double tolerance_of(const ScoringPlan *how) {
  return how->coarse ? COARSE_TOLERANCE : TOLERANCE;
}

/* ---- scores of rows -------------------------------------------------------------------------- */

/* One batch of rows: which observations they are, and room for one score of each. */
typedef struct {
  const Scorer *s;
  Scores *out;
  Arena *arena;
  const ModelRows *rows;
  int32_t *obs;
  double *v;
} Batch;

static void keep(const Batch *b, size_t score) {
  for (size_t k = 0; k < b->rows->n; k++)
    b->out->by_obs[(size_t)b->obs[k] * b->out->list.count + score] = b->v[k];
}

static Scoring scoring_of(const Scorer *s, const Observed *o, NoiseSet noise, Scores *out) {
  return (Scoring){.o = o,
                   .q = s->q,
                   .phi = s->phi,
                   .noise = noise,
                   .pool = s->pool,
                   .tolerance = tolerance_of(s->how),
                   .unsettled = &out->unsettled,
                   .cancelled = s->cancelled,
                   .cancelled_self = s->cancelled_self};
}

static void log_scores(const Batch *b, const Observed *o) {
  const Scorer *s = b->s;
  NoiseSet noise = {s->how->draws, rng_mix(s->how->seed + SEED_LOG)};
  if (s->given) noise.M = s->given->nall;
  Scoring j = scoring_of(s, o, noise, b->out);
  if (s->given) j.theta = s->given->all;
  predictive_log_scores(s->c, &j, s->how->integrate, b->v);
  keep(b, 0);
}

static void log_at_mean(const Batch *b, const Observed *o) {
  const Scorer *s = b->s;
  double *mean = NEW_ARRAY(b->arena, double, s->model->dim + 1);
  double *sd = NEW_ARRAY(b->arena, double, s->model->dim + 1);
  q_moments(s->q, s->phi, mean, sd);
  predictive_point(s->c, o, mean, b->v);
  keep(b, 1);
}

static void score_batch(const Scorer *s, const ModelRows *rows, Scores *out) {
  TempArena *temp = temp_open(s->c);
  Arena *a = &temp->arena;
  Batch b = {s, out, a, rows, NEW_ARRAY(a, int32_t, rows->n), NEW_ARRAY(a, double, rows->n)};
  const ScoreList *l = &out->list;
  bool reduce = s->how->integrate != INTEGRATE_DRAWS && model_has_densities(s->model);
  model_numbers(s->model, rows, b.obs);
  Observed *o = observed_of(a, s->model, rows, WANT_LL);
  if (reduce) observed_reduce(o);
  if (l->first) log_scores(&b, o);
  if (l->first > 1) log_at_mean(&b, o);
  for (int k = 0; k < l->nids; k++) {
    Target t = {.score = l->ids[k],
                .score_options = {.alpha = s->how->alpha, .parts = l->parts, .nparts = l->nparts},
                .regularizer = REG_PRIOR,
                .score_weight = 1,
                .integrate = s->how->integrate};
    if (o->wants != target_wants(&t)) {
      o = observed_of(a, s->model, rows, target_wants(&t));
      if (reduce) observed_reduce(o);
    }
    NoiseSet noise = {s->how->metric_draws, rng_mix(s->how->seed + SEED_METRIC)};
    if (s->given) noise.M = s->given->nfew;
    Scoring j = scoring_of(s, o, noise, out);
    if (s->given) j.theta = s->given->few;
    predictive_scores(s->c, &j, &t, b.v);
    keep(&b, l->first + (size_t)k);
  }
  temp_close(temp);
}

/* ---- parts ----------------------------------------------------------------------------------- */

void evaluate_sum(Ctx *c, Scores *r, Part part) {
  SummaryScore *scores = NEW_ARRAY(&c->arena, SummaryScore, r->list.count);
  TempArena *temp = temp_open(c);
  double *v = NEW_ARRAY(&temp->arena, double, r->n_obs + 1);
  for (size_t j = 0; j < r->list.count; j++) {
    size_t n = 0;
    for (size_t k = 0; k < r->n_obs; k++)
      if (r->part[k] == (int)part) v[n++] = r->by_obs[k * r->list.count + j];
    scores[j] = summary_score(r->list.names[j], v, n);
  }
  r->parts[part] = (SummaryPart){scores, r->list.count};
  temp_close(temp);
}

static void score_part(const Scorer *s, const size_t *rows, size_t n, int part, Scores *r) {
  SummaryScore *scores = NEW_ARRAY(&s->c->arena, SummaryScore, r->list.count);
  TempArena *temp = temp_open(s->c);
  Arena *a = &temp->arena;
  ModelRows all = model_rows(a, s->model, rows, n);
  for (size_t from = 0; from < n; from += BATCH_ROWS) {
    ModelRows batch = model_slice(a, s->model, &all, from, from + BATCH_ROWS);
    score_batch(s, &batch, r);
  }
  int32_t *obs = NEW_ARRAY(a, int32_t, n);
  double *v = NEW_ARRAY(a, double, n);
  model_numbers(s->model, &all, obs);
  for (size_t j = 0; j < r->list.count; j++) {
    for (size_t k = 0; k < n; k++) v[k] = r->by_obs[(size_t)obs[k] * r->list.count + j];
    scores[j] = summary_score(r->list.names[j], v, n);
  }
  for (size_t k = 0; k < n; k++) r->part[obs[k]] = part;
  r->parts[part] = (SummaryPart){scores, r->list.count};
  temp_close(temp);
}

Scores *evaluate_none(Ctx *c, const ScoreList *list, size_t n) {
  Scores *r = NEW(&c->arena, Scores);
  *r = (Scores){.list = *list,
                .n_obs = n,
                .by_obs = NEW_ARRAY(&c->arena, double, n * list->count + 1),
                .part = NEW_ARRAY(&c->arena, int, n + 1)};
  for (size_t k = 0; k < n * list->count; k++) r->by_obs[k] = NAN;
  for (size_t k = 0; k < n; k++) r->part[k] = -1;
  return r;
}

Scores *evaluate_parts(const Scorer *s, const ScoreList *list, const Split *split) {
  Scores *r = evaluate_none(s->c, list, s->model->n_obs);
  for (int p = 0; p < PART_COUNT; p++)
    if (split->count[p]) score_part(s, split->rows[p], split->count[p], p, r);
  return r;
}
