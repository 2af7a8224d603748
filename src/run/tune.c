/* tune.c: the path over lambda, and forward selection of variables, warm-started, scored on folds.
 *
 * With the posterior as the regularizer, lambda infinite is VI in the same family, and with lambda
 * falling q goes over into the one that only predicts. Every step begins where the one before
 * ended, in every fold and with all data, so it costs a few evaluations.
 */
#include "run/tune.h"

#include "infer/observed.h"
#include "num/stats.h"

#include <math.h>
#include <string.h>

static const double path[] = {10, 3, 1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001},
                    prior_path[] = {1, 0.3, 0.1, 0.03, 0.01};
enum {
  STEPS = sizeof path / sizeof *path,
  PRIOR_STEPS = sizeof prior_path / sizeof *prior_path,
};
static const double FREE_LAMBDA = 0.01; /* of fits with few variables free */

/* Sum, and paired difference to Bayes. */
static TuneStep step_of(Ctx *c, const Scores *bayes, const Scores *now, size_t column,
                        double lambda) {
  TempArena *temp = temp_open(c);
  size_t each = now->list.count, n = now->n_obs;
  double *d = NEW_ARRAY(&temp->arena, double, n + 1), sum = 0;
  for (size_t i = 0; i < n; i++) {
    double x = now->by_obs[i * each + column];
    d[i] = x - bayes->by_obs[i * each + column];
    if (!isnan(d[i])) sum += x;
  }
  TuneStep t = {REG_POSTERIOR, lambda, sum, 0, 0};
  t.gain = stat_total(d, n, &t.se);
  if (isnan(t.se)) t.se = 0;
  temp_close(temp);
  return t;
}

static const double *same_phi(void *self, const Q *q) {
  (void)q;
  return self;
}

void tune_refit(Ctx *c, const Model *m, const Split *split, const FitOptions *o, Pool *pool,
                double *phi) {
  FitOptions warm = *o;
  warm.start = same_phi;
  warm.start_self = phi;
  warm.warm = warm.rough = true;
  warm.journal = NULL;
  const Fit *fit = fit_run(c, m, split, &warm, pool);
  memcpy(phi, fit->phi, q_size(&fit->q) * sizeof *phi);
}

/* VI with all training data: its q is where every fold begins. */
static const Fit *bayes_fit(Ctx *c, const Run *r, FitOptions vi, Pool *pool) {
  vi.journal = NULL;
  return fit_run(c, r->problem->model, r->split, &vi, pool);
}

/* One step that all folds took; the fit to all data takes the steps of the choice alone, at the
 * end. */
typedef struct Move {
  const struct Move *before; /* NULL: at Bayes */
  Regularizer regularizer;
  double lambda;
  const bool *fixed;
} Move;

/* The q of every fold, and how it came there. */
typedef struct {
  FoldStarts folds;
  size_t count;
  const Move *last;
} Place;

static Place place_make(Arena *a, size_t folds, size_t size) {
  return (Place){{NEW_ARRAY(a, double, folds *size), size}, folds, NULL};
}

static void place_copy(Place *to, const Place *from) {
  size_t size = from->folds.size;
  memcpy(to->folds.phi, from->folds.phi, from->count * size * sizeof(double));
  to->last = from->last;
}

/* Everything that the search needs at hand. */
typedef struct {
  Ctx *c;
  Run *r;
  const Folds *f;
  Pool *pool;
  FitOptions o;        /* of the score, in VI's family */
  ScoreList list;      /* the score alone */
  size_t column;       /* of it */
  const Scores *bayes; /* held out, by VI */
  Place start, best;   /* at Bayes; at the choice */
} Search;

static FitOptions options_of(const Search *s, const Move *m) {
  FitOptions o = s->o;
  o.target.regularizer = m->regularizer;
  o.target.lambda = m->lambda;
  o.fixed = m->fixed;
  return o;
}

/* All folds moved on to lambda, some parameters fixed. */
static const Move *move(const Search *s, Place *at, double lambda, const bool *fixed) {
  Move *m = NEW(&s->c->arena, Move);
  *m = (Move){at->last, s->o.target.regularizer, lambda, fixed};
  at->last = m;
  return m;
}

/* Only on the way: nothing is scored. */
static void pass(const Search *s, Place *at, double lambda, const bool *fixed) {
  TempArena *temp = temp_open(s->c);
  FitOptions o = options_of(s, move(s, at, lambda, fixed));
  folds_score(s->c, s->r, s->f, &o, NULL, &at->folds);
  temp_close(temp);
}

/* What the folds score where they then are. */
static TuneStep advance(const Search *s, Place *at, double lambda, const bool *fixed) {
  TempArena *temp = temp_open(s->c);
  FitOptions o = options_of(s, move(s, at, lambda, fixed));
  const Scores *scores = folds_score(s->c, s->r, s->f, &o, &s->list, &at->folds);
  temp_close(temp);
  return step_of(s->c, s->bayes, scores, s->column, lambda);
}

/* phi, VI's q of all data, goes the way that the folds went. */
static void follow(const Search *s, const Move *m, double *phi) {
  if (!m) return;
  follow(s, m->before, phi);
  FitOptions o = options_of(s, m);
  tune_refit(s->c, s->r->problem->model, s->r->split, &o, s->pool, phi);
}

static double worth(const TuneStep *t) { return t->gain - t->se; }

/* ---- lambda ---------------------------------------------------------------------------------- */

/* A path from Bayes. The prior's begins far from it: where that is no gain, more of it is none. */
typedef struct {
  Regularizer regularizer;
  const double *lambdas;
  int count;
  int down; /* so many steps down in a row are the end */
} LambdaPath;
static const LambdaPath paths[] = {{REG_POSTERIOR, path, STEPS, 2},
                                   {REG_PRIOR, prior_path, PRIOR_STEPS, 1}};

/* Down one path, until it has turned down; the best of all paths is kept. */
static void go_down(Search *s, const LambdaPath *l, TunePath *p, TuneStep *steps) {
  Place at = place_make(&s->c->arena, s->f->count, s->start.folds.size);
  double highest = 0;
  int down = 0;
  place_copy(&at, &s->start);
  s->o.target.regularizer = l->regularizer;
  for (int k = 0; k < l->count && down < l->down; k++, p->n++) {
    TuneStep t = advance(s, &at, l->lambdas[k], NULL);
    t.regularizer = l->regularizer;
    steps[p->n] = t;
    down = t.gain < highest ? down + 1 : 0;
    highest = fmax(highest, t.gain);
    if (!(worth(&t) > p->gain - p->se)) continue;
    p->best = p->n;
    p->regularizer = l->regularizer;
    p->lambda = t.lambda;
    p->gain = t.gain;
    p->se = t.se;
    place_copy(&s->best, &at);
  }
  s->o.target.regularizer = REG_POSTERIOR;
}

/* From VI towards prediction alone, held back by the posterior or, where it is a distribution, by
 * the prior, which lets q go farther from Bayes. */
static void search_lambda(Search *s, TunePath *p) {
  TuneStep *steps = NEW_ARRAY(&s->c->arena, TuneStep, STEPS + PRIOR_STEPS + 1);
  steps[0] = step_of(s->c, s->bayes, s->bayes, s->column, INFINITY);
  p->steps = steps;
  p->n = 1;
  go_down(s, &paths[0], p, steps);
  if (!run_improper(s->c, s->r->problem->model)) go_down(s, &paths[1], p, steps);
}

/* ---- which variables are free ---------------------------------------------------------------- */

static bool is_variable(const Output *o) {
  return o->block == BLOCK_PARAMETERS && o->unconstrained > 0;
}

static void set_free(const Output *o, bool *fixed) {
  for (int32_t i = 0; i < o->unconstrained; i++) fixed[o->offset + i] = false;
}

const bool *tune_fixed(Ctx *c, const Model *m, const OptionList *free) {
  bool *fixed = NEW_ARRAY(&c->arena, bool, m->dim + 1);
  const char **names = NEW_ARRAY(&c->arena, const char *, m->noutputs + 1);
  size_t n = 0;
  memset(fixed, true, m->dim);
  for (int k = 0; k < m->noutputs; k++)
    if (is_variable(&m->outputs[k])) names[n++] = m->outputs[k].name;
  for (size_t v = 0; v < free->count; v++) {
    bool found = false;
    for (int k = 0; k < m->noutputs; k++) {
      if (!is_variable(&m->outputs[k]) || strcmp(m->outputs[k].name, free->items[v])) continue;
      set_free(&m->outputs[k], fixed);
      found = true;
    }
    if (!found)
      ctx_unknown(c, PVI_USAGE, NOWHERE,
                  &(UnknownWord){"parameter in " OPTION("free"), free->items[v], NULL, names, n});
  }
  return fixed;
}

/* From where it stands towards little regularization, in three steps: a narrow q is a saddle. */
static TuneStep loosen(const Search *s, Place *at, const bool *fixed) {
  const double to = isnan(s->o.target.lambda) ? FREE_LAMBDA : s->o.target.lambda;
  for (double lambda = 1; lambda > 3 * to && lambda > 0.003; lambda *= 0.1)
    pass(s, at, lambda, fixed);
  return advance(s, at, to, fixed);
}

/* One round: of the variables that are still fixed, the one whose freedom is worth most. */
static const Output *best_candidate(Search *s, const bool *fixed, Place *at, Place *found,
                                    TuneStep *step) {
  const Model *m = s->r->problem->model;
  Place tried = place_make(&s->c->arena, s->f->count, at->folds.size);
  const Output *best = NULL;
  for (int k = 0; k < m->noutputs; k++) {
    const Output *o = &m->outputs[k];
    if (!is_variable(o) || !fixed[o->offset]) continue;
    bool *trial = NEW_ARRAY(&s->c->arena, bool, m->dim + 1); /* a move keeps it */
    memcpy(trial, fixed, m->dim * sizeof *trial);
    set_free(o, trial);
    place_copy(&tried, at);
    TuneStep t = loosen(s, &tried, trial);
    if (best && !(worth(&t) > worth(step))) continue;
    best = o;
    *step = t;
    place_copy(found, &tried);
  }
  return best;
}

/* Forward selection, as long as it pays. */
static void search_free(Search *s, TunePath *p) {
  const double pays = 0.5; /* nats of gain minus standard error */
  Arena *a = &s->c->arena;
  const Model *m = s->r->problem->model;
  bool *fixed = NEW_ARRAY(a, bool, m->dim + 1);
  FreedVariable *freed = NEW_ARRAY(a, FreedVariable, m->noutputs + 1);
  Place at = place_make(a, s->f->count, s->start.folds.size),
        found = place_make(a, s->f->count, s->start.folds.size);
  place_copy(&at, &s->start);
  memset(fixed, true, m->dim);
  double top = 0;
  for (TuneStep t = {0};;) {
    const Output *o = best_candidate(s, fixed, &at, &found, &t);
    if (!o || !(worth(&t) > top + pays)) break;
    top = worth(&t);
    set_free(o, fixed);
    place_copy(&at, &found);
    freed[p->nfreed++] = (FreedVariable){o->name, t.gain, t.se};
  }
  p->freed = freed;
  if (!p->nfreed || !(top > p->gain - p->se)) return;
  p->fixed = fixed;
  p->regularizer = REG_POSTERIOR;
  p->lambda = isnan(s->o.target.lambda) ? FREE_LAMBDA : s->o.target.lambda;
  p->gain = freed[p->nfreed - 1].gain;
  p->se = freed[p->nfreed - 1].se;
  place_copy(&s->best, &at);
}

/* ---- both ------------------------------------------------------------------------------------ */

/* VI, with all data and in every fold. */
static void begin(Search *s, const FitOptions *o) {
  FitOptions vi = *o;
  vi.target.score = SCORE_elbo;
  vi.target.lambda = 1;
  const Fit *bayes = bayes_fit(s->c, s->r, vi, s->pool);
  size_t size = q_size(&bayes->q);
  s->r->q = bayes->q;
  s->r->phi = bayes->phi;
  s->r->scoring = evaluate_scoring(s->r->o, s->r->problem->model->n_obs);
  s->start = place_make(&s->c->arena, s->f->count, size);
  s->best = place_make(&s->c->arena, s->f->count, size);
  for (size_t k = 0; k < s->f->count; k++)
    memcpy(s->start.folds.phi + k * size, bayes->phi, size * sizeof(double));
  s->o.choose_family = vi.choose_family = false;
  s->o.family = vi.family = bayes->q.family;
  s->bayes = folds_score(s->c, s->r, s->f, &vi, &s->list, &s->start.folds);
  place_copy(&s->best, &s->start);
}

/* All scores of the choice. */
static const Scores *settle(Search *s, const TunePath *p, const ScoreList *list) {
  FitOptions o = s->o;
  bool bayes = isinf(p->lambda);
  o.target.score = bayes ? SCORE_elbo : o.target.score;
  o.target.lambda = bayes ? 1 : p->lambda;
  o.target.regularizer = p->regularizer;
  o.fixed = p->fixed;
  return folds_score(s->c, s->r, s->f, &o, list, &s->best.folds);
}

static Search search_make(Ctx *c, Run *r, const Folds *f, const TuneOptions *t) {
  const Model *m = r->problem->model;
  const char *why;
  if (!observed_allows(c, m, t->fit->target.score, &why))
    ctx_fail(c, PVI_USAGE, NOWHERE, "%s", why);
  Search s = {.c = c, .r = r, .f = f, .pool = t->pool, .o = *t->fit};
  s.list = evaluate_one(c, m, s.o.target.score, &s.column);
  s.o.journal = NULL;
  begin(&s, t->fit);
  return s;
}

TunePath *tune(Ctx *c, Run *r, const Folds *f, const TuneOptions *t) {
  Search s = search_make(c, r, f, t);
  TunePath *p = NEW(&c->arena, TunePath);
  p->lambda = INFINITY;
  p->regularizer = REG_POSTERIOR;
  if (t->lambda) search_lambda(&s, p);
  if (t->free && q_is_normal(&r->q)) search_free(&s, p);
  p->bayes = r->q;
  p->bayes_phi = r->phi;
  double *phi = NEW_ARRAY(&c->arena, double, s.start.folds.size);
  memcpy(phi, r->phi, s.start.folds.size * sizeof *phi);
  follow(&s, s.best.last, phi);
  p->start = phi;
  p->scores = settle(&s, p, t->list);
  return p;
}

void tune_each(Ctx *c, Run *r, const Folds *f, const TuneOptions *t, const bool *const *fixed,
               size_t n, TuneStep *out) {
  Search s = search_make(c, r, f, t);
  Place at = place_make(&c->arena, f->count, s.start.folds.size);
  for (size_t k = 0; k < n; k++) {
    place_copy(&at, &s.start);
    out[k] = loosen(&s, &at, fixed[k]);
  }
}
