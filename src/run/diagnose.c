/* diagnose.c: see diagnose.h for the two questions. In order: the candidates; their gain in sample;
 * the same with simulated data; held-out gains; what goes with a variation; words. */
#include "run/diagnose.h"

#include "run/expand.h"

#include "infer/describe.h"
#include "infer/observed.h"
#include "model/density.h"
#include "num/rng.h"
#include "num/stats.h"
#include "run/exact_bayes.h"
#include "run/jobs.h"
#include "run/rightness.h"
#include "run/sandwich.h"
#include "run/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT = 10 /* elements of a vector that are looked at one by one */, SEED_REPLICAS = 83 };
static const double LEVEL = 0.05, COLLAPSED = 0.1; /* of Bayes' sd: such a width has no error */

/* Parameters that are let go together. */
typedef struct {
  const char *name;
  int32_t first, count; /* unconstrained */
  Freedom free;
} Candidate;

typedef struct {
  Ctx *c;
  Run *r;
  const Problem *problem;
  const Problem *rows; /* the same, every outcome an observation by itself: simulated one by one */
  FitOptions fit;      /* of the score, in VI's family */
  ScoreList list;      /* the score alone */
  Candidate *candidates;
  size_t n;
  Q q; /* VI's */
  const double *phi;
  double began; /* the stage under way, in seconds */
} Study;

/* How far a stage is, on the line of progress. */
static void tell(const Study *s, const char *stage, size_t done, size_t total) {
  if (!s->fit.progress) return;
  s->fit.progress(s->fit.progress_self, &(FitProgress){.stage = stage,
                                                       .iterations = (long)done,
                                                       .total = (long)total,
                                                       .objective = NAN,
                                                       .seconds = base_seconds() - s->began});
}

/* ---- candidates ------------------------------------------------------------------------------ */

static void add_candidate(Study *s, const char *name, int32_t first, int32_t count) {
  size_t dim = s->problem->model->dim;
  bool *fixed = NEW_ARRAY(&s->c->arena, bool, dim + 1);
  memset(fixed, true, dim);
  for (int32_t k = 0; k < count; k++) fixed[first + k] = false;
  s->candidates[s->n++] = (Candidate){name, first, count, {.fixed = fixed}};
}

/* Every variable, or every element of a short vector of numbers by itself. */
static void find_candidates(Study *s) {
  const Model *m = s->problem->model;
  s->candidates = NEW_ARRAY(&s->c->arena, Candidate, m->dim + 1);
  for (int k = 0; k < m->noutputs; k++) {
    const Output *o = &m->outputs[k];
    if (o->block != BLOCK_PARAMETERS || !o->unconstrained) continue;
    bool apart = o->n == o->unconstrained && o->n > 1 && o->n <= SHORT;
    for (int32_t i = 0; apart && i < o->n; i++)
      add_candidate(s, model_unconstrained_name(m, &s->c->arena, (size_t)(o->offset + i)),
                    o->offset + i, 1);
    if (!apart) add_candidate(s, o->name, o->offset, o->unconstrained);
  }
}

/* ---- gains in sample ------------------------------------------------------------------------- */

/* One fit from phi, on one thread. */
static void refit(Ctx *c, const Study *s, const Problem *p, const FitOptions *o, double *phi) {
  Pool *pool = pool_make(c, 1);
  FitOptions silent = *o; /* several run at a time */
  silent.progress = NULL;
  tune_refit(c, p->model, s->r->split, &silent, pool, phi);
  pool_free(pool);
}

static const Scores *training_scores(Ctx *c, const Study *s, const Problem *p, const double *phi) {
  Pool *pool = pool_make(c, 1);
  Split train = *s->r->split;
  train.count[PART_VALID] = train.count[PART_TEST] = 0;
  Scorer scorer = {
      .c = c, .model = p->model, .q = &s->q, .phi = phi, .how = &s->r->scoring, .pool = pool};
  const Scores *scores = evaluate_parts(&scorer, &s->list, &train);
  pool_free(pool);
  return scores;
}

/* The sum of the score over the training observations. */
static double total(Ctx *c, const Study *s, const Problem *p, const double *phi) {
  return training_scores(c, s, p, phi)->parts[PART_TRAIN].scores[0].sum;
}

/* In two steps to no regularization at all: where q is narrow, its width is a saddle. */
static void let_go(Ctx *c, const Study *s, const Problem *p, const Freedom *free, double *phi) {
  static const double lambdas[] = {0.1, 0};
  FitOptions o = s->fit;
  o.free = free;
  for (size_t k = 0; k < sizeof lambdas / sizeof *lambdas; k++) {
    o.target.lambda = lambdas[k];
    refit(c, s, p, &o, phi);
  }
}

/* Sds of a candidate's elements, as one. */
static double width_of(const double *sd, const Candidate *x) {
  double square = 0;
  for (int32_t i = 0; i < x->count; i++) square += sd[x->first + i] * sd[x->first + i];
  return sqrt(square / x->count);
}

typedef struct {
  Ctx *c;
  const Study *s;
} ScoredStudy;

static void scores_at(void *self, const double *phi, double *out) {
  const ScoredStudy *x = self;
  const Study *s = x->s;
  TempArena *temp = temp_open(x->c);
  const Scores *scores = training_scores(x->c, s, s->problem, phi);
  memcpy(out, scores->by_obs, scores->n_obs * sizeof *out);
  temp_close(temp);
}

/* The standard error of a single number's width, which is exp(phi[dim + k]) in the mean field. */
static double width_error(Ctx *c, const Study *s, const Candidate *x, double *phi, double sd) {
  size_t dim = s->problem->model->dim, k = (size_t)x->first;
  ScoredStudy self = {c, s};
  if (x->count != 1 || s->q.family != FAMILY_meanfield) return NAN;
  return sd * sandwich_error(&c->arena, &(ScoredAt){s->problem->model->n_obs, scores_at, &self},
                             phi, (size_t[]){k, dim + k}, (double[]){0.05 * sd, 0.05});
}

/* What is wanted of a candidate besides its gain. */
typedef struct {
  double width, error;
} Width;

/* The gain of every candidate over VI with the same data. widths, where wanted: its sds. */
static void gains_inside(Ctx *c, const Study *s, const Problem *p, double *gains, Width *widths) {
  size_t size = q_size(&s->q), dim = s->problem->model->dim;
  double *bayes = NEW_ARRAY(&c->arena, double, size), *phi = NEW_ARRAY(&c->arena, double, size),
         *mean = NEW_ARRAY(&c->arena, double, dim + 1), *sd = NEW_ARRAY(&c->arena, double, dim + 1);
  FitOptions vi = s->fit;
  vi.target.score = SCORE_elbo;
  vi.target.lambda = 1;
  memcpy(bayes, s->phi, size * sizeof *phi);
  if (p != s->problem) refit(c, s, p, &vi, bayes);
  double base = total(c, s, p, bayes);
  for (size_t k = 0; k < s->n; k++) {
    const Candidate *x = &s->candidates[k];
    memcpy(phi, bayes, size * sizeof *phi);
    let_go(c, s, p, &x->free, phi);
    gains[k] = fmax(0, total(c, s, p, phi) - base);
    if (!widths) continue;
    q_moments(&s->q, phi, mean, sd);
    widths[k].width = width_of(sd, x);
    widths[k].error = width_error(c, s, x, phi, widths[k].width);
  }
}

/* ---- simulated data -------------------------------------------------------------------------- */

/* The outcome of every observation; false: some are of a kind that cannot be simulated. */
static bool find_outcomes(const Model *m, double *y) {
  for (int b = 0; b < m->nblocks; b++) {
    if (observed_kind(&m->blocks[b]) == KIND_NONE) return false;
    for (int32_t k = 0; k < m->blocks[b].rows; k++) y[m->blocks[b].obs[k]] = m->blocks[b].y[k];
  }
  return true;
}

/* The variable of data or transformed data that has the outcomes, one per observation in their
 * order, and serves for nothing else; NULL, and why. */
static const Decl *outcome_variable(const Study *s, const char **why) {
  const Model *m = s->rows->model;
  double *y = NEW_ARRAY(&s->c->arena, double, m->n_obs + 1),
         *values = NEW_ARRAY(&s->c->arena, double, m->n_obs + 1);
  *why = "outcomes of this kind cannot be simulated";
  if (!find_outcomes(m, y)) return NULL;
  for (int k = 0; k < m->nknown; k++) {
    const Decl *d = m->known[k].decl;
    if (!model_known(m, k, values, m->n_obs)) continue;
    if (!memcmp(values, y, m->n_obs * sizeof *y) && stan_is_only_outcome(s->problem->program, d))
      return d;
  }
  *why = "no single variable of the data holds the outcomes and nothing else";
  return NULL;
}

/* The simulated data sets are a sample, and the gain that few of them reach is known only roughly.
 * A seed that is the same for all data would be unlucky for all of them alike: with the outcomes in
 * it the test has its level over data sets. */
static uint64_t replicas_seed(const Study *s) {
  const Model *m = s->rows->model;
  uint64_t seed = rng_mix((uint64_t)s->r->o->seed + SEED_REPLICAS), bits;
  TempArena *temp = temp_open(s->c);
  double *y = NEW_ARRAY(&temp->arena, double, m->n_obs + 1);
  find_outcomes(m, y);
  for (size_t k = 0; k < m->n_obs; k++) {
    memcpy(&bits, &y[k], sizeof bits);
    seed = rng_mix(seed ^ bits);
  }
  temp_close(temp);
  return seed;
}

/* Outcomes of every observation, [n_obs x count]: replica k is made by the k-th draw of VI's q. */
static double *replicas(const Study *s, size_t count) {
  const Model *m = s->rows->model;
  TempArena *temp = temp_open(s->c);
  Arena *a = &temp->arena;
  size_t n = m->n_obs;
  double *out = NEW_ARRAY(&s->c->arena, double, n *count + 1);
  Description d = {.noutcomes = count,
                   .together = true,
                   .seed = replicas_seed(s),
                   .mean = NEW_ARRAY(a, double, n + 1),
                   .sd = NEW_ARRAY(a, double, n + 1),
                   .quantiles = NEW_ARRAY(a, double, 1),
                   .outcomes = NEW_ARRAY(a, double, n *count + 1)};
  Observed *o = observed_make(a, m, NULL, 0, WANT_LL | WANT_PARAMETERS);
  int32_t *obs = NEW_ARRAY(a, int32_t, n + 1);
  Pool *pool = pool_make(s->c, (int)s->r->o->threads);
  model_numbers(m, &o->rows, obs);
  predictive_describe(
      s->c, &(Scoring){.o = o, .q = &s->q, .phi = s->phi, .noise = {count, d.seed}, .pool = pool},
      &d);
  for (size_t i = 0; i < n; i++)
    memcpy(out + (size_t)obs[i] * count, d.outcomes + i * count, count * sizeof *out);
  pool_free(pool);
  temp_close(temp);
  return out;
}

typedef struct {
  const Study *s;
  const Decl *variable;
  const double *outcomes; /* [n_obs x count] */
  size_t count;
  double *gains; /* [count x candidates] */
} Null;

static void tell_simulated(void *self, size_t begun, size_t count) {
  const Null *t = self;
  tell(t->s, "simulated data", begun, count);
}

static bool simulate_one(Ctx *c, void *self, size_t k) {
  const Null *t = self;
  size_t n = t->s->rows->model->n_obs;
  double *y = NEW_ARRAY(&c->arena, double, n + 1);
  for (size_t i = 0; i < n; i++) y[i] = t->outcomes[i * t->count + k];
  const Problem *p = problem_with(c, t->s->problem, t->s->r->o, t->variable, y);
  gains_inside(c, t->s, p, t->gains + k * t->s->n, NULL);
  return true;
}

/* The usual size of a gain where nothing varies, to compare variables by. The data's own gain is
 * one of those it is the mean of: if nothing varies, the data are like any of the simulated ones,
 * and a measure that left them alone out would make them look larger. */
static double usual_gain(const Null *t, size_t variable, double own) {
  const double least = 0.05;
  double sum = own;
  for (size_t k = 0; k < t->count; k++) sum += t->gains[k * t->s->n + variable];
  return fmax(sum / (double)(t->count + 1), least);
}

/* How often the simulated data reach a gain: that of the variable itself, and of whichever variable
 * is the most conspicuous in each data set (Westfall and Young's adjustment: so often would
 * anything be flagged though nothing varies). */
static void judge(const Null *t, Diagnosed *v) {
  size_t n = t->s->n;
  double *usual = NEW_ARRAY(&t->s->c->arena, double, n + 1);
  for (size_t k = 0; k < n; k++) usual[k] = usual_gain(t, k, v[k].inside);
  for (size_t k = 0; k < n; k++) {
    double alone = 1, any = 1;
    for (size_t b = 0; b < t->count; b++) {
      const double *gains = t->gains + b * n;
      double most = 0;
      for (size_t j = 0; j < n; j++) most = fmax(most, gains[j] / usual[j]);
      alone += gains[k] >= v[k].inside;
      any += most >= v[k].inside / usual[k];
    }
    v[k].p = alone / ((double)t->count + 1);
    v[k].adjusted = any / ((double)t->count + 1);
    v[k].varies = v[k].adjusted < LEVEL;
  }
}

static void test_all(Study *s, const Options *o, Diagnosed *v, Diagnosis *d) {
  size_t count = (size_t)o->simulations;
  for (size_t k = 0; k < s->n; k++) v[k].p = v[k].adjusted = NAN;
  if (!count) return;
  const Decl *variable = outcome_variable(s, &d->no_test);
  if (!variable) return;
  Null t = {s, variable, replicas(s, count), count,
            NEW_ARRAY(&s->c->arena, double, count * s->n + 1)};
  s->began = base_seconds();
  jobs_run(s->c, o->threads, &(Jobs){count, simulate_one, &t, "simulated data", tell_simulated});
  judge(&t, v);
  d->simulations = count;
}

/* ---- what goes with a variation -------------------------------------------------------------- */

/* How much each observation pulls at a candidate: the derivative of its log likelihood at VI's
 * mean, summed over the candidate's elements. */
static double *pulls(const Study *s, const Candidate *x) {
  const Model *m = s->problem->model;
  size_t n = m->n_obs, dim = m->dim;
  double *theta = NEW_ARRAY(&s->c->arena, double, 2 * dim + 1),
         *each = NEW_ARRAY(&s->c->arena, double, 2 * n + 1),
         *mean = NEW_ARRAY(&s->c->arena, double, dim + 1),
         *sd = NEW_ARRAY(&s->c->arena, double, dim + 1),
         *pull = NEW_ARRAY(&s->c->arena, double, n + 1);
  q_moments(&s->q, s->phi, mean, sd);
  for (int side = 0; side < 2; side++) {
    memcpy(theta + (size_t)side * dim, mean, dim * sizeof *theta);
    for (int32_t i = 0; i < x->count; i++)
      theta[(size_t)side * dim + (size_t)(x->first + i)] +=
          (side ? -1 : 1) * 0.1 * sd[x->first + i];
  }
  density_once(s->c, m, NULL, 0, &(ModelPoints){theta, 2, dim, 1},
               &(DensityOut){.pointwise = each});
  for (size_t i = 0; i < n; i++) pull[i] = each[i] - each[n + i];
  return pull;
}

/* The share of the variance of x that the values of a column account for: as groups, where they are
 * few whole numbers, less what chance would; else along a line. */
static double accounted(Ctx *c, const double *x, const DataVar *v, Diagnosed *how) {
  size_t n = v->n;
  double mean = 0, square = 0, xy = 0, yy = 0, y_mean = 0, least = v->values[0], most = least;
  for (size_t i = 0; i < n; i++) {
    mean += x[i] / (double)n;
    y_mean += v->values[i] / (double)n;
    least = fmin(least, v->values[i]);
    most = fmax(most, v->values[i]);
  }
  for (size_t i = 0; i < n; i++) {
    double d = x[i] - mean, e = v->values[i] - y_mean;
    square += d * d, xy += d * e, yy += e * e;
  }
  if (!(square > 0) || !(yy > 0)) return 0;
  double groups = most - least + 1;
  how->column_sd = sqrt(yy / (double)n);
  how->groups = v->is_int && groups <= (double)n / 3 && groups <= 10000;
  if (!how->groups) return xy * xy / (square * yy) - 1 / (double)n;
  size_t G = (size_t)groups;
  double *sum = NEW_ARRAY(&c->arena, double, 2 * G), *size = sum + G, between = 0;
  for (size_t i = 0; i < n; i++) {
    size_t g = (size_t)(v->values[i] - least);
    sum[g] += x[i] - mean;
    size[g]++;
  }
  for (size_t g = 0; g < G; g++) between += size[g] > 0 ? sum[g] * sum[g] / size[g] : 0;
  return between / square - (groups - 1) / (double)n;
}

/* Are these the trials of binomial outcomes? */
static bool is_trials(const Model *m, const DataVar *column) {
  bool any = false;
  for (int b = 0; b < m->nblocks; b++) {
    const ObsBlock *k = &m->blocks[b];
    for (int32_t i = 0; k->size && i < k->rows; i++) {
      if (column->values[k->obs[i]] != (double)k->size[i]) return false;
      any = true;
    }
  }
  return any;
}

/* May the column explain something? The outcome itself does not, nor do its trials, and of what the
 * program does not declare only groups are taken: other columns may be forms of the outcome. */
static bool may_explain(const Study *s, const DataVar *column) {
  const Decl *d = stan_find_decl(s->problem->program, BLOCK_DATA, column->name);
  if (column->n != s->problem->model->n_obs || is_trials(s->problem->model, column)) return false;
  return d ? !stan_is_only_outcome(s->problem->program, d) : column->is_int;
}

/* The column of the data that accounts for most of the pulls. */
static void explain(const Study *s, const Candidate *x, Diagnosed *v) {
  const double least = 0.02;
  const Data *d = s->problem->data;
  const double *pull = pulls(s, x);
  for (size_t k = 0; k < d->vars.count; k++) {
    const DataVar *column = d->vars.items[k].value;
    if (!may_explain(s, column)) continue;
    Diagnosed how = *v;
    how.share = accounted(s->c, pull, column, &how);
    how.explained = column->name;
    if (how.share > v->share && how.share > least) *v = how;
  }
}

/* ---- larger programs ------------------------------------------------------------------------- */

/* Programs that are fitted by VI on the same folds: the one as it is, then larger ones. */
typedef struct {
  const Study *s;
  const Options *o;
  const char *const *texts; /* NULL: as it is */
  double *log; /* [programs x n_obs]: held-out log scores; NaN: it could not be fitted */
} Trials;

static void tell_larger(void *self, size_t begun, size_t count) {
  const Trials *t = self;
  tell(t->s, "larger programs", begun, count);
}

/* An error of a larger program is no error of the user's: then it is not suggested. */
static bool try_program(Ctx *c, void *self, size_t k) {
  const Trials *t = self;
  const Problem *p = t->s->problem;
  size_t n = p->model->n_obs;
  jmp_buf here, *outer = c->trap;
  for (size_t i = 0; i < n; i++) t->log[k * n + i] = NAN;
  if (!setjmp(here)) {
    c->trap = &here;
    const Problem *larger = t->texts[k] ? problem_of_text(c, p, t->o, t->texts[k]) : p;
    if (larger->model->n_obs == n) {
      const Run *r = run_fit(c, larger, t->o, NULL, NULL);
      for (size_t i = 0; i < n; i++) t->log[k * n + i] = r->folds->by_obs[i * r->folds->list.count];
    }
  }
  c->trap = outer;
  return true;
}

/* Elements of vectors are b[2]; others have no index. */
static Varying varying_of(const Study *s, const Candidate *x, const Diagnosed *v) {
  const Model *m = s->problem->model;
  Varying w = {.name = x->name,
               .column = v->explained,
               .groups = v->groups,
               .width = v->sd,
               .column_sd = v->column_sd};
  for (int k = 0; k < m->noutputs; k++) {
    const Output *o = &m->outputs[k];
    if (o->block != BLOCK_PARAMETERS || x->first < o->offset ||
        x->first >= o->offset + o->unconstrained || x->count != 1)
      continue;
    w.variable = o->decl;
    w.element = o->ndims ? x->first - o->offset + 1 : 0;
  }
  return w;
}

/* Groups of a program are numbered from 1. */
static bool numbered_from_one(const Data *d, const char *name) {
  const DataVar *v = data_find(d, name);
  for (size_t k = 0; v && k < v->n; k++)
    if (v->values[k] < 1) return false;
  return v != NULL;
}

static size_t suggestions(const Study *s, const Diagnosed *v, Expanded *out, const char **texts) {
  size_t n = 0;
  for (size_t k = 0; k < s->n; k++) {
    Expansion found[MOST_EXPANSIONS];
    Varying w = varying_of(s, &s->candidates[k], &v[k]);
    if (!v[k].varies || !w.variable) continue;
    w.groups &= w.column && numbered_from_one(s->problem->data, w.column);
    int count = expand(s->c, s->problem, &w, found);
    for (int j = 0; j < count; j++) {
      out[n] = (Expanded){.variable = v[k].name, .what = found[j].what, .text = found[j].text};
      texts[1 + n++] = found[j].text;
    }
  }
  return n;
}

static Options *options_of_trials(const Study *s, const char *folds) {
  Options *o = options_copy(&s->c->arena, s->r->o);
  options_set(s->c, o, "score", score_name(SCORE_elbo));
  options_set(s->c, o, "lambda", NULL);
  options_set(s->c, o, "free", NULL);
  options_set(s->c, o, "folds", NULL);
  options_set(s->c, o, "folds", folds);
  options_set(s->c, o, "threads", NULL);
  options_set(s->c, o, "threads", "1");
  return o;
}

static int by_gain(const void *a, const void *b) {
  const Expanded *x = a, *y = b;
  if (x->gain != y->gain) return x->gain > y->gain ? -1 : 1;
  return strcmp(x->what, y->what);
}

/* Those that could be fitted, with their gains, the best first. */
static void try_larger(Study *s, const char *folds, const Diagnosed *v, Diagnosis *d) {
  Arena *a = &s->c->arena;
  size_t n = s->problem->model->n_obs, most = MOST_EXPANSIONS * s->n + 1;
  Expanded *e = NEW_ARRAY(a, Expanded, most);
  const char **texts = NEW_ARRAY(a, const char *, most + 1);
  size_t count = suggestions(s, v, e, texts);
  d->expanded = e;
  if (!count) return;
  s->began = base_seconds();
  Trials t = {s, options_of_trials(s, folds), texts, NEW_ARRAY(a, double, (count + 1) * n)};
  jobs_run(s->c, s->r->o->threads,
           &(Jobs){count + 1, try_program, &t, "larger program", tell_larger});
  for (size_t k = 0; k < count; k++) {
    double *larger = t.log + (k + 1) * n;
    for (size_t i = 0; i < n; i++) larger[i] -= t.log[i];
    e[k].gain = stat_total(larger, n, &e[k].se);
    if (isnan(e[k].se)) continue; /* it could not be fitted */
    e[k].changes = expand_changes(s->c, s->problem->program, e[k].text);
    e[d->nexpanded++] = e[k];
  }
  qsort(e, d->nexpanded, sizeof *e, by_gain);
}

/* ---- words ----------------------------------------------------------------------------------- */

static const char *names_of(Ctx *c, const Diagnosed *v, size_t n, size_t *count) {
  Text t = text_make(&c->arena);
  size_t total_count = 0, k = 0;
  for (size_t i = 0; i < n; i++) total_count += v[i].varies;
  for (size_t i = 0; i < n; i++)
    if (v[i].varies) {
      text_printf(&t, "%s%s", k == 0 ? "" : k + 1 == total_count ? " and " : ", ", v[i].name);
      k++;
    }
  *count = total_count;
  return t.s;
}

static const char *verdict_of(Ctx *c, const Diagnosis *d, const Rightness *right) {
  size_t count = 0;
  const char *names = names_of(c, d->variables, d->n, &count);
  if (!d->simulations)
    return arena_format(&c->arena,
                        "no test could be made, because %s; the held-out gains say what predicts "
                        "better",
                        d->no_test ? d->no_test : "no simulations were asked for");
  if (!count)
    return "nothing varies beyond what Bayes says: no variable gains more than it would if the "
           "program were right. Bayes is enough here";
  const char *vary = arena_format(&c->arena, "%s var%s in the population beyond what Bayes says",
                                  names, count == 1 ? "ies" : "y"),
             *left = isnan(right->share) ? NULL : rightness_words(&c->arena, right);
  if (left && rightness_is_near(right))
    return arena_format(&c->arena, "%s, but the program is nearly right: %s", vary, left);
  return arena_format(&c->arena, "%s: the program does not describe how the data differ in %s%s%s",
                      vary, count == 1 ? "it" : "them", left ? "; " : "", left ? left : "");
}

/* Of the variable that gains most among those that vary. */
static Rightness rightness(const Study *s, const Scores *vi, const Diagnosed *v) {
  double gain = 0;
  for (size_t k = 0; k < s->n; k++)
    if (v[k].varies) gain = fmax(gain, v[k].gain);
  return rightness_of(s->c, s->problem->model, vi, gain);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static const Problem *by_rows(Ctx *c, const Problem *p, const Options *o) {
  Options *rows = options_copy(&c->arena, o);
  options_set(c, rows, "unit", NULL);
  return p->model->unit ? problem_with(c, p, rows, NULL, NULL) : p;
}

static Study study_make(Ctx *c, Run *r, const RunHooks *h) {
  Study s = {.c = c,
             .r = r,
             .problem = r->problem,
             .rows = by_rows(c, r->problem, r->o),
             .fit = run_fit_options(r->o, h)};
  s.fit.choose_family =
      false; /* mean field, unless it is given: the test is calibrated either way */
  s.fit.target.regularizer = REG_POSTERIOR;
  s.fit.target.lambda = NAN;
  find_candidates(&s);
  return s;
}

static const Scores *held_out(Study *s, const Folds *folds, Diagnosed *v) {
  Freedom *free = NEW_ARRAY(&s->c->arena, Freedom, s->n + 1);
  TuneStep *steps = NEW_ARRAY(&s->c->arena, TuneStep, s->n + 1);
  for (size_t k = 0; k < s->n; k++) free[k] = s->candidates[k].free;
  Pool *pool = pool_make(s->c, (int)s->r->o->threads);
  const Scores *vi = tune_each(
      s->c, s->r, folds, &(TuneOptions){&s->fit, &s->list, true, true, pool}, free, s->n, steps);
  pool_free(pool);
  for (size_t k = 0; k < s->n; k++) v[k].gain = steps[k].gain, v[k].se = steps[k].se;
  s->q = s->r->q;
  s->phi = s->r->phi;
  s->fit.choose_family = false;
  s->fit.family = s->q.family;
  return vi;
}

/* The posterior itself on the same folds, where it was asked for. */
static const SummaryExact *exact_bayes(const Study *s, const Folds *folds, const Scores *vi,
                                       const RunHooks *h) {
  if (!s->r->o->bayes) return NULL;
  return exact_beside(s->c, &(ExactBeside){.problem = s->problem,
                                           .o = s->r->o,
                                           .folds = folds,
                                           .q = &s->q,
                                           .phi = s->phi,
                                           .list = &s->list,
                                           .score = s->list.names[0],
                                           .vi = vi,
                                           .hooks = h});
}

/* Those that were asked for, or five, or one for every observation. */
static const char *folds_rule(Ctx *c, const Run *r) {
  size_t n = r->split->count[PART_TRAIN];
  return r->o->folds ? r->o->folds : arena_format(&c->arena, "%zu", n < 5 ? n : 5);
}

/* What was found so far means nothing. */
static void stop_if_asked(Ctx *c, const RunHooks *h) {
  if (h && h->cancelled && h->cancelled(h->self))
    ctx_fail(c, PVI_INTERRUPTED, NOWHERE, "the diagnosis was interrupted before it was done");
}

const Diagnosis *diagnose(Ctx *c, const Problem *p, const Options *o, const RunHooks *h) {
  Diagnosis *d = NEW(&c->arena, Diagnosis);
  Run *r = run_make(c, p, o, NULL);
  Study s = study_make(c, r, h);
  Diagnosed *v = NEW_ARRAY(&c->arena, Diagnosed, s.n + 1);
  double *gains = NEW_ARRAY(&c->arena, double, s.n + 1);
  Width *widths = NEW_ARRAY(&c->arena, Width, s.n + 1);
  s.list = evaluate_one(c, p->model, &s.fit.target);
  const char *rule = folds_rule(c, r);
  const Folds *folds = folds_make(c, p, r->split, rule, (uint64_t)r->o->seed);
  exact_check(c, p->model, r->o, true);
  const Scores *vi = held_out(&s, folds, v);
  d->exact = exact_bayes(&s, folds, vi, h);
  stop_if_asked(c, h);
  if (!q_is_normal(&s.q))
    ctx_fail(c, PVI_USAGE, NOWHERE, "diagnose needs a family of normals: meanfield or fullrank");
  gains_inside(c, &s, p, gains, widths);
  double *mean = NEW_ARRAY(&c->arena, double, p->model->dim + 1),
         *sd = NEW_ARRAY(&c->arena, double, p->model->dim + 1);
  q_moments(&s.q, s.phi, mean, sd);
  for (size_t k = 0; k < s.n; k++) {
    v[k].name = s.candidates[k].name;
    v[k].inside = gains[k];
    v[k].sd = widths[k].width;
    v[k].bayes_sd = width_of(sd, &s.candidates[k]);
    v[k].sd_se = v[k].sd > COLLAPSED * v[k].bayes_sd ? widths[k].error : NAN;
  }
  test_all(&s, o, v, d);
  stop_if_asked(c, h);
  for (size_t k = 0; k < s.n; k++)
    if (v[k].varies) explain(&s, &s.candidates[k], &v[k]);
  try_larger(&s, rule, v, d);
  d->variables = v;
  d->n = s.n;
  const Rightness right = rightness(&s, vi, v);
  d->verdict = verdict_of(c, d, &right);
  return d;
}

/* ---- in words -------------------------------------------------------------------------------- */

const char *diagnosed_words(Arena *a, const Diagnosed *v) {
  if (!v->explained) return NULL;
  return arena_format(
      a, "%s: %s goes with %.0f%% of how the observations pull at it; let it depend on %s.",
      v->name, v->explained, 100 * v->share, v->explained);
}

const char *expanded_words(Arena *a, const Expanded *e) {
  return arena_format(a,
                      "With it Bayes predicts held-out observations %s: log score %+.1f (standard "
                      "error %.1f).",
                      e->gain > 2 * e->se    ? "better"
                      : e->gain > e->se      ? "better, though within two standard errors"
                      : e->gain < -2 * e->se ? "worse"
                                             : "about as well",
                      e->gain, e->se);
}
