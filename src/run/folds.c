/* folds.c: cross-validation: folds, and the fits that predict them.
 *
 * Each fit is a job (jobs.h), on one thread; all of them read one Model.
 */
#include "run/folds.h"

#include "num/rng.h"
#include "num/stats.h"
#include "run/jobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- which observations go together ---------------------------------------------------------- */

typedef struct {
  double value, tie; /* order by value; equal ones at random */
  size_t obs;
} Ranked;

static int by_value(const void *a, const void *b) {
  const Ranked *x = a, *y = b;
  if (x->value != y->value) return x->value < y->value ? -1 : 1;
  return x->tie < y->tie ? -1 : x->tie > y->tie;
}

/* What is divided: the training observations, by the values of something. */
typedef struct {
  Ctx *c;
  const size_t *rows;
  size_t n;
  uint64_t seed;
} Divided;

static Ranked *ranked(const Divided *d, const double *value) {
  Ranked *r = NEW_ARRAY(&d->c->arena, Ranked, d->n + 1);
  RngStream s = rngs_make(d->seed, 11);
  for (size_t k = 0; k < d->n; k++)
    r[k] = (Ranked){value[d->rows[k]], rngs_uniform(&s), d->rows[k]};
  qsort(r, d->n, sizeof *r, by_value);
  return r;
}

/* The outcome of every observation, where the program tells it, else 0. */
static const double *outcomes(Ctx *c, const Model *m) {
  double *y = NEW_ARRAY(&c->arena, double, m->n_obs + 1);
  for (int b = 0; b < m->nblocks; b++) {
    const ObsBlock *o = &m->blocks[b];
    for (int32_t k = 0; (o->dist >= 0 || o->sim_y) && k < o->rows; k++)
      y[o->obs[k]] = o->dist >= 0 ? o->y[k] : o->sim_y[k * o->sim_width];
  }
  return y;
}

/* Of every K observations that follow each other in the order of their outcomes, each fold gets
 * one, by lot. */
static void stratify(const Divided *d, const Problem *p, Folds *f, int *fold) {
  const Ranked *r = ranked(d, outcomes(d->c, p->model));
  RngStream s = rngs_make(d->seed, 12);
  size_t *deal = NEW_ARRAY(&d->c->arena, size_t, f->count);
  for (size_t from = 0; from < d->n; from += f->count) {
    for (size_t k = 0; k < f->count; k++) deal[k] = k;
    rngs_shuffle(&s, deal, f->count);
    for (size_t k = 0; k < f->count && from + k < d->n; k++) fold[r[from + k].obs] = (int)deal[k];
  }
}

/* A data variable with one number per observation. */
static const double *column(Ctx *c, const Problem *p, const char *name) {
  const DataVar *v = data_find(p->data, name);
  if (!v) {
    const char **names = NEW_ARRAY(&c->arena, const char *, p->data->vars.count + 1);
    for (size_t k = 0; k < p->data->vars.count; k++) names[k] = p->data->vars.items[k].key;
    ctx_unknown(c, PVI_USAGE, NOWHERE,
                &(UnknownWord){"data variable in " OPTION("folds"), name, NULL, names,
                               p->data->vars.count});
  }
  if (v->n != p->model->n_obs)
    ctx_fail(
        c, PVI_USAGE, NOWHERE,
        OPTION("folds") ": %s has %zu values, but there are %zu observations; it needs one value "
                        "per observation",
        name, v->n, p->model->n_obs);
  return v->values;
}

static void by_group(const Divided *d, const double *value, Folds *f, int *fold) {
  const Ranked *r = ranked(d, value);
  f->count = 0;
  for (size_t k = 0; k < d->n; k++) {
    f->count += k == 0 || r[k].value != r[k - 1].value;
    fold[r[k].obs] = (int)f->count - 1;
  }
  if (f->count < 2)
    ctx_fail(d->c, PVI_USAGE, NOWHERE, OPTION("folds") ": there is only one group; two are needed");
}

/* The first stretch is only learned from. Equal values stay together. */
static void by_time(const Divided *d, const double *value, Folds *f, int *fold) {
  enum { STRETCHES = 5 };
  const Ranked *r = ranked(d, value);
  f->forward = true;
  f->count = STRETCHES - 1;
  int stretch = 0;
  for (size_t k = 0; k < d->n; k++) {
    bool next = k > 0 && r[k].value != r[k - 1].value;
    if (next) stretch = (int)(k * STRETCHES / d->n);
    fold[r[k].obs] = stretch - 1;
  }
}

Folds *folds_make(Ctx *c, const Problem *p, const Split *split, const char *rule, uint64_t seed) {
  Folds *f = NEW(&c->arena, Folds);
  int *fold = NEW_ARRAY(&c->arena, int, p->model->n_obs + 1);
  Divided d = {c, split->rows[PART_TRAIN], split->count[PART_TRAIN], rng_mix(seed + 101)};
  *f = (Folds){.n = p->model->n_obs, .fold = fold};
  for (size_t k = 0; k < f->n; k++) fold[k] = FOLD_OUTSIDE;
  char *end;
  long count = strtol(rule, &end, 10);
  if (!strncmp(rule, "group:", 6)) {
    by_group(&d, column(c, p, rule + 6), f, fold);
  } else if (!strncmp(rule, "future:", 7)) {
    by_time(&d, column(c, p, rule + 7), f, fold);
  } else if (end != rule && !*end && count >= 2 && (size_t)count <= d.n) {
    f->count = (size_t)count;
    f->random = true;
    stratify(&d, p, f, fold);
  } else {
    ctx_fail(c, PVI_USAGE, NOWHERE,
             OPTION("folds") " is a number from 2 to the %zu training observations, group:NAME or "
                             "future:NAME, not \"%s\"",
             d.n, rule);
  }
  return f;
}

Split *folds_split(Arena *a, const Folds *f, int k) {
  Split *s = NEW(a, Split);
  s->n = f->n;
  for (int p = 0; p < PART_COUNT; p++) s->rows[p] = NEW_ARRAY(a, size_t, f->n + 1);
  for (size_t i = 0; i < f->n; i++) {
    if (f->fold[i] == FOLD_OUTSIDE) continue;
    bool tests = f->fold[i] == k, trains = f->forward ? f->fold[i] < k : !tests;
    Part p = tests ? PART_TEST : PART_TRAIN;
    if (tests || trains) s->rows[p][s->count[p]++] = i;
  }
  return s;
}

/* ---- the fits -------------------------------------------------------------------------------- */

/* What all of them share. */
typedef struct {
  const Run *r;
  const Folds *f;
  const FitOptions *o; /* NULL: no fits */
  FoldStarts *starts;  /* NULL: none */
  bool ahead;          /* the first fold alone is fitted, */
  double *way;         /* or this is its way from its start to its q, and the others are */
  bool *failed;        /* folds whose fits did not converge */
  Scores *out;
} FoldFits;

static const double *given_phi(void *self, const Q *q) {
  (void)q; /* all folds have the q of the whole fit */
  return self;
}

static const double *whole_phi(void *self, const Q *q) {
  const Run *r = self;
  return r->q.family == q->family ? r->phi : NULL;
}

/* The folds have most of their data in common: what the first one's q did, the others' do too. */
static const double *guess(Ctx *c, const FoldFits *j, const double *start) {
  if (!start || !j->way) return NULL;
  double *there = NEW_ARRAY(&c->arena, double, j->starts->size);
  for (size_t i = 0; i < j->starts->size; i++) there[i] = start[i] + j->way[i];
  return there;
}

/* Are they few enough, and alike, so that what predicts some of them predicts the others? */
bool folds_apart(const Folds *f) {
  enum { MOST = 20 };
  return f->random && f->count <= MOST;
}

FitPart *folds_parts(Arena *a, const Folds *f, const FoldBayes *b, size_t *n) {
  FitPart *parts = NEW_ARRAY(a, FitPart, f->count);
  *n = 0;
  for (int k = 0; k < (int)f->count; k++) {
    if (k == b->without) continue;
    const Split *split = folds_split(a, f, k);
    double *offset = NEW_ARRAY(a, double, b->size);
    for (size_t i = 0; i < b->size; i++) offset[i] = b->phi[(size_t)k * b->size + i] - b->from[i];
    if (split->count[PART_TEST])
      parts[(*n)++] = (FitPart){split->rows[PART_TEST], split->count[PART_TEST], offset};
  }
  return parts;
}

/* Every other fold, as the Bayes fit without it predicts it. */
static void learn_apart(Ctx *c, const FoldFits *j, int k, FitOptions *o) {
  const FoldStarts *s = j->starts;
  if (!s || !s->bayes || !o->free) return;
  FoldBayes b = {s->bayes, s->size, s->bayes + (size_t)k * s->size, k};
  o->parts = folds_parts(&c->arena, j->f, &b, &o->nparts);
}

/* The fit of a fold, from its start where it has one, which then is where the fit came to. */
static const Fit *fit_fold(Ctx *c, const FoldFits *j, size_t k, const Split *split, Pool *pool) {
  double *start = j->starts ? j->starts->phi + k * j->starts->size : NULL;
  FitOptions o = *j->o;
  o.journal = NULL;
  o.progress = NULL;
  o.start = whole_phi;
  o.start_self = (void *)j->r;
  if (start) o.start = given_phi, o.start_self = start, o.warm = o.rough = true;
  o.guess = guess(c, j, start);
  o.nodes = start ? j->starts->nodes : 0;
  learn_apart(c, j, (int)k, &o);
  const Fit *fit = fit_run(c, j->r->problem->model, split, &o, pool);
  if (start) memcpy(start, fit->phi, j->starts->size * sizeof *start);
  if (j->ahead) j->starts->nodes = fit->exact ? fit->draws : 0;
  j->failed[k] = !fit->converged;
  return fit;
}

/* The scores of what a fold holds out; nan where nobody waits for them any more. */
static void score_fold(const FoldFits *j, const Scorer *s, const Split *split) {
  Split test = *split;
  size_t n = j->out->list.count;
  test.count[PART_TRAIN] = 0;
  const Scores *scores = evaluate_parts(s, &j->out->list, &test);
  for (size_t i = 0; i < split->count[PART_TEST]; i++) {
    size_t row = split->rows[PART_TEST][i];
    memcpy(j->out->by_obs + row * n, scores->by_obs + row * n, n * sizeof(double));
    j->out->part[row] = PART_TEST;
  }
}

/* One fold, on one thread. False: its fit was interrupted. */
static bool do_fold(Ctx *c, void *self, size_t k) {
  const FoldFits *j = self;
  if (j->way && k == 0) return true; /* it is done */
  const Split *split = folds_split(&c->arena, j->f, (int)k);
  double *start = j->starts ? j->starts->phi + k * j->starts->size : NULL;
  Pool *pool = pool_make(c, 1);
  if (!split->count[PART_TRAIN] || !split->count[PART_TEST]) return true;
  Scorer s = {.c = c,
              .model = j->r->problem->model,
              .q = &j->r->q,
              .phi = start,
              .how = &j->r->scoring,
              .pool = pool,
              .cancelled = j->o ? j->o->cancelled : j->starts->cancelled,
              .cancelled_self = j->o ? j->o->cancelled_self : j->starts->cancelled_self};
  const Fit *fit = j->o ? fit_fold(c, j, k, split, pool) : NULL;
  if (fit) s.q = &fit->q, s.phi = fit->phi;
  if (fit && fit->interrupted && j->starts) return false; /* nobody waits for what it predicts */
  score_fold(j, &s, split);
  return !(fit && fit->interrupted);
}

/* The first fold goes ahead, and shows the others the way. */
static void lead(Ctx *c, FoldFits *j) {
  size_t size = j->starts->size;
  double *way = NEW_ARRAY(&c->arena, double, size + 1);
  for (size_t i = 0; i < size; i++) way[i] = -j->starts->phi[i];
  j->ahead = true;
  jobs_run(c, 1, &(Jobs){1, do_fold, j, "fold", NULL});
  for (size_t i = 0; i < size; i++) way[i] += j->starts->phi[i];
  j->ahead = false;
  j->way = way;
}

/* Three standard errors above what the first fold has, all of them would have less than is needed.
 */
static bool is_hopeless(Ctx *c, const FoldFits *j) {
  FoldStarts *s = j->starts;
  if (!j->way || !s->than || !j->f->random) return false;
  TempArena *temp = temp_open(c);
  double *d = NEW_ARRAY(&temp->arena, double, j->f->n + 1), se = 0;
  size_t n = 0, all = 0, each = j->out->list.count;
  for (size_t i = 0; i < j->f->n; i++) {
    all += j->f->fold[i] >= 0;
    if (j->f->fold[i] == 0) d[n++] = j->out->by_obs[i * each] - s->than->by_obs[i * each];
  }
  double gain = stat_total(d, n, &se), times_over = (double)all / (double)n;
  temp_close(temp);
  s->most = times_over * (gain + 3 * se);
  return s->most < s->least;
}

static size_t count_true(const bool *x, size_t n) {
  size_t count = 0;
  for (size_t k = 0; k < n; k++) count += x[k];
  return count;
}

Scores *folds_score(Ctx *c, const Run *r, const Folds *f, const FitOptions *o,
                    const ScoreList *list, FoldStarts *starts) {
  Scores *out = evaluate_none(c, list, f->n);
  FoldFits j = {.r = r, .f = f, .o = o, .starts = starts, .out = out};
  j.failed = NEW_ARRAY(&c->arena, bool, f->count);
  if (o && starts && o->target.score != SCORE_elbo) lead(c, &j);
  if (is_hopeless(c, &j)) return NULL;
  jobs_run(c, r->o->threads, &(Jobs){f->count, do_fold, &j, "fold", NULL});
  if (o && starts) starts->unconverged = count_true(j.failed, f->count);
  evaluate_sum(c, out, PART_TEST);
  return out;
}
