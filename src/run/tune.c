/* tune.c: the path over lambda, warm-started, scored on folds.
 *
 * With the posterior as the regularizer, lambda infinite is VI in the same family, and with lambda
 * falling q goes over into the one that only predicts. Every step begins where the one before
 * ended, in every fold and with all data, so it costs a few evaluations.
 */
#include "run/tune.h"

#include <math.h>
#include <string.h>

static const double path[] = {10, 3, 1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001};
enum { STEPS = sizeof path / sizeof *path, DOWN = 2 /* so many steps down in a row are the end */ };

/* The column of the score that is maximised among those that are reported. */
static size_t column_of(Ctx *c, const ScoreList *l, ScoreId id) {
  for (size_t k = 0; k < l->count; k++)
    if (!strcmp(l->names[k], score_name(id))) return k;
  ctx_fail(
      c, PVI_USAGE, NOWHERE,
      OPTION("lambda") " auto is not available for the score %s, because it cannot be computed for "
                       "held-out observations",
      score_name(id));
}

/* Sum, and paired difference to Bayes. */
static TuneStep step_of(const Scores *bayes, const Scores *now, size_t column, double lambda) {
  size_t each = now->list.count;
  double sum = 0, gain = 0, squares = 0, n = 0;
  for (size_t i = 0; i < now->n_obs; i++) {
    double x = now->by_obs[i * each + column], d = x - bayes->by_obs[i * each + column];
    if (isnan(d)) continue;
    n++;
    sum += x;
    gain += d;
    squares += d * d;
  }
  double variance = n > 1 ? fmax(squares - gain * gain / n, 0) / (n - 1) : 0;
  return (TuneStep){lambda, sum, gain, sqrt(variance * n)};
}

static const double *same_phi(void *self, const Q *q) {
  (void)q;
  return self;
}

/* One fit of all training data, from phi to phi. */
static void move(Ctx *c, const Run *r, const FitOptions *o, Pool *pool, double *phi, size_t size) {
  TempArena *temp = temp_open(c);
  FitOptions warm = *o;
  double *start = memcpy(NEW_ARRAY(&temp->arena, double, size), phi, size * sizeof *phi);
  warm.start = same_phi;
  warm.start_self = start;
  warm.warm = true;
  warm.journal = NULL;
  const Fit *fit = fit_run(c, r->problem->model, r->split, &warm, pool);
  memcpy(phi, fit->phi, size * sizeof *phi);
  temp_close(temp);
}

/* VI with all training data: its q is where every fold begins. */
static const Fit *bayes_fit(Ctx *c, const Run *r, FitOptions vi, Pool *pool) {
  vi.journal = NULL;
  return fit_run(c, r->problem->model, r->split, &vi, pool);
}

/* Where the path stands: the q of every fold and of all data, and the best so far. */
typedef struct {
  FoldStarts folds;
  double *whole, *best;
  double top, highest; /* largest gain minus standard error, and largest gain */
  int down;            /* steps in a row that lost */
} Walk;

static Walk walk_from(Arena *a, const Fit *bayes, size_t folds) {
  size_t size = q_size(&bayes->q);
  Walk w = {.folds = {NEW_ARRAY(a, double, folds *size), size},
            .whole = NEW_ARRAY(a, double, size),
            .best = NEW_ARRAY(a, double, size)};
  for (size_t k = 0; k < folds; k++)
    memcpy(w.folds.phi + k * size, bayes->phi, size * sizeof(double));
  memcpy(w.whole, bayes->phi, size * sizeof(double));
  memcpy(w.best, bayes->phi, size * sizeof(double));
  return w;
}

static void judge(TunePath *p, Walk *w, const TuneStep *s, const Scores *scores) {
  if (s->gain - s->se > w->top) {
    w->top = s->gain - s->se;
    p->best = p->n;
    p->scores = scores;
    memcpy(w->best, w->whole, w->folds.size * sizeof *w->best);
  }
  w->down = s->gain < w->highest ? w->down + 1 : 0;
  w->highest = fmax(w->highest, s->gain);
}

TunePath *tune_lambda(Ctx *c, Run *r, const Folds *f, const TuneOptions *t) {
  TunePath *p = NEW(&c->arena, TunePath);
  TuneStep *steps = NEW_ARRAY(&c->arena, TuneStep, STEPS + 1);
  size_t column = column_of(c, t->list, t->fit->target.score);
  FitOptions o = *t->fit;
  o.target.score = SCORE_elbo;
  o.target.lambda = 1;
  const Fit *bayes = bayes_fit(c, r, o, t->pool);
  r->q = bayes->q;
  r->phi = bayes->phi;
  r->scoring = evaluate_scoring(r->o, r->problem->model->n_obs);
  Walk w = walk_from(&c->arena, bayes, f->count);
  o.choose_family = false;
  o.family = bayes->q.family;
  const Scores *held = folds_score(c, r, f, &o, t->list, &w.folds);
  steps[0] = step_of(held, held, column, INFINITY);
  *p = (TunePath){.steps = steps, .n = 1, .start = w.best, .scores = held};
  o.target = t->fit->target;
  for (int k = 0; k < STEPS && w.down < DOWN; k++, p->n++) {
    o.target.lambda = path[k];
    const Scores *scores = folds_score(c, r, f, &o, t->list, &w.folds);
    move(c, r, &o, t->pool, w.whole, w.folds.size);
    steps[p->n] = step_of(held, scores, column, path[k]);
    judge(p, &w, &steps[p->n], scores);
  }
  return p;
}
