/* varies.c: does a variable vary? A test by what letting it go gains in sample, and by what it
 * gains in data simulated from a fit in which it does not vary.
 *
 * The gain is that of the fit in which the variable is free over VI, all else keeping its Bayes
 * distribution in both. (Letting the others' centres follow was tried, a likelihood ratio: no more
 * is found.)
 *
 * What was found first may be the reason for other gains: an outlier is far less of one for a slope
 * once the noise has heavy tails. So of several variables that gain more than chance the one that
 * gains most is taken to vary, in the fits and in the program that simulates, and the others have
 * to gain more than chance beside it; then the next. None is taken that predicts held-out
 * observations clearly worse.
 */
#include "run/diagnose_int.h"

#include "infer/describe.h"
#include "infer/observed.h"
#include "num/rng.h"
#include "run/jobs.h"
#include "run/sandwich.h"

#include <math.h>
#include <string.h>

enum {
  SEED_REPLICAS = 83,
  APART = 4096, /* draws, of which every outcome takes one */
  SOME = 20,    /* simulated data sets between two looks at what they say */
};
static const double LEVEL = 0.04, SURE = 0.005,
                    COLLAPSED = 0.1; /* of Bayes' sd: such a width has no error */

/* ---- fits ------------------------------------------------------------------------------------ */

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

/* ---- widths ---------------------------------------------------------------------------------- */

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
static double width_error(const Study *s, const Candidate *x, double *phi, double sd) {
  size_t dim = s->problem->model->dim, k = (size_t)x->first;
  ScoredStudy self = {s->c, s};
  if (x->count != 1 || s->q.family != FAMILY_meanfield) return NAN;
  return sd * sandwich_error(&s->c->arena, &(ScoredAt){s->problem->model->n_obs, scores_at, &self},
                             phi, (size_t[]){k, dim + k}, (double[]){0.05 * sd, 0.05});
}

/* Sds of a candidate's elements, as one. */
static double width_of(const double *sd, const Candidate *x) {
  double square = 0;
  for (int32_t i = 0; i < x->count; i++) square += sd[x->first + i] * sd[x->first + i];
  return sqrt(square / x->count);
}

void widths_alone(const Study *s, Diagnosed *v) {
  Ctx *c = s->c;
  size_t size = q_size(&s->q), dim = s->problem->model->dim;
  double *phi = NEW_ARRAY(&c->arena, double, size), *mean = NEW_ARRAY(&c->arena, double, dim + 1),
         *sd = NEW_ARRAY(&c->arena, double, dim + 1);
  for (size_t k = 0; k < s->n; k++) {
    const Candidate *x = &s->candidates[k];
    memcpy(phi, s->phi, size * sizeof *phi);
    q_moments(&s->q, phi, mean, sd);
    v[k].bayes_sd = width_of(sd, x);
    let_go(c, s, s->problem, &x->free, phi);
    q_moments(&s->q, phi, mean, sd);
    v[k].sd = width_of(sd, x);
    v[k].sd_se = v[k].sd > COLLAPSED * v[k].bayes_sd ? width_error(s, x, phi, v[k].sd) : NAN;
  }
}

/* ---- gains in sample ------------------------------------------------------------------------- */

/* One look at some candidates, beside those that are known to vary. */
typedef struct {
  const Study *s;
  const bool *given, *asked; /* by candidate */
  bool any;                  /* is one given? */
  double *gains;             /* of those that are asked, in the data */
  double *phi;               /* the fit in which the given ones alone are free */
} Look;

/* The given candidates and one more; x NULL: these alone. */
static Freedom freedom_of(Arena *a, const Look *l, const Candidate *x) {
  size_t dim = l->s->problem->model->dim;
  bool *fixed = memset(NEW_ARRAY(a, bool, dim + 1), true, dim);
  for (size_t k = 0; k < l->s->n; k++) {
    const Candidate *g = &l->s->candidates[k];
    if (l->given[k] || g == x) memset(fixed + g->first, false, (size_t)g->count);
  }
  return (Freedom){.fixed = fixed};
}

/* Over the fit of what is given, which goes to base; VI is made anew where the data are others. */
static void gains_of(Ctx *c, const Look *l, const Problem *p, double *base, double *gains) {
  const Study *s = l->s;
  size_t size = q_size(&s->q);
  double *phi = NEW_ARRAY(&c->arena, double, size);
  FitOptions vi = s->fit;
  vi.target.score = SCORE_elbo;
  vi.target.lambda = 1;
  memcpy(base, s->phi, size * sizeof *phi);
  if (p != s->problem) refit(c, s, p, &vi, base);
  Freedom free = freedom_of(&c->arena, l, NULL);
  if (l->any) let_go(c, s, p, &free, base);
  double least = total(c, s, p, base);
  for (size_t k = 0; k < s->n; k++) {
    gains[k] = 0;
    if (!l->asked[k]) continue;
    free = freedom_of(&c->arena, l, &s->candidates[k]);
    memcpy(phi, base, size * sizeof *phi);
    let_go(c, s, p, &free, phi);
    gains[k] = fmax(0, total(c, s, p, phi) - least);
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

/* Outcomes of every observation, [n_obs x count]. Where nothing is given, replica k is made by the
 * k-th draw of VI's q; else every outcome by a draw of its own: what varies does so between them.
 */
static double *replicas(const Look *l, size_t count, bool apart) {
  const Study *s = l->s;
  const Model *m = s->rows->model;
  TempArena *temp = temp_open(s->c);
  Arena *a = &temp->arena;
  size_t n = m->n_obs;
  double *out = NEW_ARRAY(&s->c->arena, double, n *count + 1);
  Description d = {.noutcomes = count,
                   .together = !apart,
                   .seed = replicas_seed(s),
                   .mean = NEW_ARRAY(a, double, n + 1),
                   .sd = NEW_ARRAY(a, double, n + 1),
                   .quantiles = NEW_ARRAY(a, double, 1),
                   .outcomes = NEW_ARRAY(a, double, n *count + 1)};
  Observed *o = observed_make(a, m, NULL, 0, WANT_LL | WANT_PARAMETERS);
  int32_t *obs = NEW_ARRAY(a, int32_t, n + 1);
  Pool *pool = pool_make(s->c, (int)s->r->o->threads);
  model_numbers(m, &o->rows, obs);
  predictive_describe(s->c,
                      &(Scoring){.o = o,
                                 .q = &s->q,
                                 .phi = apart ? l->phi : s->phi,
                                 .noise = {apart ? APART : count, d.seed},
                                 .pool = pool},
                      &d);
  for (size_t i = 0; i < n; i++)
    memcpy(out + (size_t)obs[i] * count, d.outcomes + i * count, count * sizeof *out);
  pool_free(pool);
  temp_close(temp);
  return out;
}

typedef struct {
  const Look *look;
  const Decl *variable;
  const double *outcomes; /* [n_obs x most] */
  size_t most, count;     /* replicas, and of how many the gains are known */
  double *gains;          /* [most x candidates] */
} Null;

static Null null_make(const Look *l, const Decl *variable, size_t most, bool apart) {
  return (Null){l,    variable, replicas(l, most, apart),
                most, 0,        NEW_ARRAY(&l->s->c->arena, double, most * l->s->n + 1)};
}

static void tell_simulated(void *self, size_t begun, size_t count) {
  const Null *t = self;
  (void)count;
  study_tell(t->look->s, "simulated data", t->count + begun, t->most);
}

static bool simulate_one(Ctx *c, void *self, size_t k) {
  const Null *t = self;
  const Study *s = t->look->s;
  size_t n = s->rows->model->n_obs, at = t->count + k;
  double *y = NEW_ARRAY(&c->arena, double, n + 1);
  for (size_t i = 0; i < n; i++) y[i] = t->outcomes[i * t->most + at];
  const Problem *p = problem_with(c, s->problem, s->r->o, t->variable, y);
  gains_of(c, t->look, p, NEW_ARRAY(&c->arena, double, q_size(&s->q)), t->gains + at * s->n);
  return true;
}

static void simulate_more(Null *t, size_t count) {
  const Study *s = t->look->s;
  jobs_run(s->c, s->r->o->threads,
           &(Jobs){count, simulate_one, t, "simulated data", tell_simulated});
  t->count += count;
}

/* ---- the test -------------------------------------------------------------------------------- */

/* The usual size of a gain where nothing varies, to compare variables by. The data's own gain is
 * one of those it is the mean of: if nothing varies, the data are like any of the simulated ones,
 * and a measure that left them alone out would make them look larger. */
static double usual_gain(const Null *t, size_t k) {
  const double least = 0.05;
  double sum = t->look->gains[k];
  for (size_t b = 0; b < t->count; b++) sum += t->gains[b * t->look->s->n + k];
  return fmax(sum / (double)(t->count + 1), least);
}

/* What a candidate's gain in the data says. */
typedef struct {
  double excess, conspicuous; /* gain: over the usual one, and in usual ones */
  double alone, any;          /* how often the simulated data reach it: by the same variable, and by
                                 whichever is the most conspicuous in each of them (Westfall and Young's
                                 adjustment: so often would anything be flagged though nothing varies) */
} Judged;

static Judged *judge(const Null *t) {
  const Look *l = t->look;
  size_t n = l->s->n;
  double *usual = NEW_ARRAY(&l->s->c->arena, double, n + 1);
  Judged *j = NEW_ARRAY(&l->s->c->arena, Judged, n + 1);
  for (size_t k = 0; k < n; k++) {
    usual[k] = usual_gain(t, k);
    j[k] = (Judged){.excess = l->gains[k] - usual[k],
                    .conspicuous = l->gains[k] / usual[k],
                    .alone = 1,
                    .any = 1};
  }
  for (size_t b = 0; b < t->count; b++) {
    const double *gains = t->gains + b * n;
    double most = 0;
    for (size_t k = 0; k < n; k++) most = fmax(most, gains[k] / usual[k]);
    for (size_t k = 0; k < n; k++) {
      j[k].alone += gains[k] >= l->gains[k];
      j[k].any += most >= j[k].conspicuous;
    }
  }
  for (size_t k = 0; k < n; k++) {
    j[k].alone /= (double)t->count + 1;
    j[k].any /= (double)t->count + 1;
  }
  return j;
}

/* The chance of at most k of n, each with chance p. */
static double at_most(size_t k, size_t n, double p) {
  double sum = 0, each = pow(1 - p, (double)n);
  for (size_t i = 0; i <= k && i <= n; i++) {
    sum += each;
    each *= (double)(n - i) / (double)(i + 1) * p / (1 - p);
  }
  return fmin(sum, 1);
}

/* Is it clear on which side of the level a candidate is that was reached by so many of the
 * simulated data sets? */
static bool is_clear(const Null *t, size_t reached) {
  return (double)reached + 1 >= LEVEL * (double)(t->most + 1) ||
         at_most(reached, t->count, LEVEL) < SURE ||
         (reached && 1 - at_most(reached - 1, t->count, LEVEL) < SURE);
}

static bool is_decided(const Null *t, const Judged *j) {
  const Look *l = t->look;
  for (size_t k = 0; k < l->s->n; k++)
    if (l->asked[k] && !is_clear(t, (size_t)(j[k].any * (double)(t->count + 1) - 0.5)))
      return false;
  return true;
}

/* By as many simulated data sets as it takes, some at a time. */
static Judged *judge_all(Null *t) {
  for (;;) {
    simulate_more(t, t->most - t->count < 3 * SOME / 2 ? t->most - t->count : SOME);
    Judged *j = judge(t);
    if (t->count == t->most || is_decided(t, j)) return j;
  }
}

static Look look_make(const Study *s, const bool *given, const bool *asked, bool any) {
  Look l = {s,
            given,
            asked,
            any,
            NEW_ARRAY(&s->c->arena, double, s->n + 1),
            NEW_ARRAY(&s->c->arena, double, q_size(&s->q))};
  gains_of(s->c, &l, s->problem, l.phi, l.gains);
  return l;
}

/* What follows a few observations gains in sample, more than chance; but if others are clearly
 * predicted worse for it, it does not vary in the population. */
static bool predicts_worse(const Diagnosed *v) { return v->gain < -2 * v->se; }

/* Of those that may vary the one that gains most beyond the usual is taken to; asked are the
 * others. False: none is. */
static bool take(const Study *s, const Judged *j, const Diagnosed *v, bool *given, bool *asked) {
  size_t best = s->n, more = 0;
  for (size_t k = 0; k < s->n; k++) {
    asked[k] = asked[k] && v[k].adjusted < LEVEL && !predicts_worse(&v[k]);
    if (asked[k] && (best == s->n || j[k].excess > j[best].excess)) best = k;
    more += asked[k];
  }
  if (best == s->n) return false;
  given[best] = true;
  asked[best] = false;
  return more > 1;
}

void test_varies(Study *s, Diagnosed *v, Diagnosis *d) {
  Arena *a = &s->c->arena;
  size_t count = (size_t)s->r->o->simulations;
  bool *given = NEW_ARRAY(a, bool, s->n + 1),
       *asked = memset(NEW_ARRAY(a, bool, s->n + 1), true, s->n);
  Look l = look_make(s, given, asked, false);
  for (size_t k = 0; k < s->n; k++) {
    v[k].inside = l.gains[k];
    v[k].p = v[k].adjusted = NAN;
  }
  const Decl *variable = count ? outcome_variable(s, &d->no_test) : NULL;
  if (!variable) return;
  s->began = base_seconds();
  for (bool first = true;; first = false) {
    Null t = null_make(&l, variable, count, !first);
    const Judged *j = judge_all(&t);
    if (first) d->simulations = t.count;
    for (size_t k = 0; k < s->n; k++) {
      if (!asked[k]) continue;
      if (first) v[k].p = j[k].alone;
      v[k].adjusted = first ? j[k].any : fmax(v[k].adjusted, j[k].any);
    }
    if (!take(s, j, v, given, asked)) break;
    l = look_make(s, given, asked, true);
  }
  for (size_t k = 0; k < s->n; k++) v[k].varies = given[k];
}
