/* tune.c: the path over lambda, and forward selection of variables, warm-started, scored on folds.
 *
 * With the posterior as the regularizer, lambda infinite is VI in the same family, and with lambda
 * falling q goes over into the one that only predicts. Every step begins where the one before
 * ended, in every fold, so it costs a few evaluations; all data are fitted for the choice alone.
 */
#include "run/tune.h"

#include "infer/observed.h"
#include "num/stats.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double path[] = {10, 3, 1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001},
                    prior_path[] = {1, 0.3, 0.1, 0.03, 0.01};
enum {
  STEPS = sizeof path / sizeof *path,
  PRIOR_STEPS = sizeof prior_path / sizeof *prior_path,
};
static const double FREE_LAMBDA = 0.01, HALF_WAY = 0.1; /* of fits with few variables free */

/* Sum, and paired difference to Bayes. */
static TuneStep step_of(Ctx *c, const Scores *bayes, const Scores *now, double lambda) {
  TempArena *temp = temp_open(c);
  size_t n = now->n_obs;
  double *d = NEW_ARRAY(&temp->arena, double, n + 1), sum = 0;
  for (size_t i = 0; i < n; i++) {
    d[i] = now->by_obs[i] - bayes->by_obs[i];
    if (!isnan(d[i])) sum += now->by_obs[i];
  }
  TuneStep t = {.regularizer = REG_POSTERIOR, .lambda = lambda, .sum = sum};
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

/* The q of every fold. */
typedef struct {
  FoldStarts folds;
  size_t count;
} Place;

static Place place_make(Arena *a, size_t folds, size_t size) {
  return (Place){{.phi = NEW_ARRAY(a, double, folds *size), .size = size}, folds};
}

static void place_copy(Place *to, const Place *from) {
  size_t size = from->folds.size;
  memcpy(to->folds.phi, from->folds.phi, from->count * size * sizeof(double));
  to->folds.nodes = from->folds.nodes;
}

/* Everything that the search needs at hand. */
typedef struct Search {
  Ctx *c;
  Run *r;
  const Folds *f;
  Pool *pool;
  FitOptions o;        /* of the score, in VI's family */
  ScoreList list;      /* the score alone */
  const Scores *bayes; /* held out, by VI, */
  bool bayes_stands;   /* which converged, with all data and in every fold */
  Place start, best;   /* at Bayes; at the choice */
  Place loose;         /* with all parameters free, at the lambda of fits with few; */
  TuneStep loosest;    /* what that gains. Lambda 0: not known */
  size_t done, left;   /* steps that all folds took, and about how many are to come */
  FitCentre vi;        /* of all data */
  double began;        /* seconds */
  bool *tried;         /* steps of the path over lambda that were fitted to all data */
} Search;

/* One more step is done: the line of progress counts fits. */
static void tell(Search *s, const char *format, double number) {
  char stage[64];
  size_t folds = s->f->count;
  s->done++;
  s->left -= s->left > 0;
  if (!s->o.progress) return;
  snprintf(stage, sizeof stage, format, number);
  s->o.progress(s->o.progress_self, &(FitProgress){.stage = stage,
                                                   .iterations = (long)(folds * s->done),
                                                   .total = (long)(folds * (s->done + s->left)),
                                                   .objective = NAN,
                                                   .seconds = base_seconds() - s->began});
}

static FitOptions options_at(const Search *s, double lambda, const Freedom *free) {
  FitOptions o = s->o;
  o.target.lambda = lambda;
  o.free = free;
  return o;
}

static bool is_cancelled(const Search *s) {
  return s->o.cancelled && s->o.cancelled(s->o.cancelled_self);
}

/* All folds on to lambda, and what they score there. free NULL: all parameters are. Where the first
 * fold says that this comes to less than is needed, or nobody waits for it any more, the gain is
 * minus infinity. */
static TuneStep advance(Search *s, Place *at, double lambda, const Freedom *free) {
  if (is_cancelled(s)) return (TuneStep){.gain = -INFINITY};
  FitOptions o = options_at(s, lambda, free);
  const Scores *scores = folds_score(s->c, s->r, s->f, &o, &s->list, &at->folds);
  TuneStep t = scores && !is_cancelled(s) ? step_of(s->c, s->bayes, scores, lambda)
                                          : (TuneStep){.gain = -INFINITY};
  tell(s,
       !scores ? "folds, given up after the first"
       : free  ? "folds, what is free: gain %+.3g"
               : "folds, lambda: gain %+.3g",
       t.gain);
  return t;
}

/* From here on the folds have to gain so much over Bayes. */
static void expect(const Search *s, Place *at, double least) {
  at->folds.than = s->bayes;
  at->folds.least = least;
}

static double worth(const TuneStep *t) { return t->gain - t->se; }

static double free_lambda(const Search *s) {
  return isnan(s->o.target.lambda) ? FREE_LAMBDA : s->o.target.lambda;
}

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

/* The path comes past what the selection of free variables ends with if it frees them all. */
static void keep_loose(Search *s, const Place *at, const TuneStep *t) {
  if (t->regularizer != REG_POSTERIOR || t->lambda != free_lambda(s)) return;
  place_copy(&s->loose, at);
  s->loosest = *t;
}

/* Down one path, until it has turned down; the best of all paths is kept. */
static void go_down(Search *s, const LambdaPath *l, TunePath *p, TuneStep *steps) {
  Place at = place_make(&s->c->arena, s->f->count, s->start.folds.size);
  double highest = 0;
  int down = 0;
  place_copy(&at, &s->start);
  s->o.target.regularizer = l->regularizer;
  int k = 0;
  for (; k < l->count && down < l->down; k++, p->n++) {
    if (l->down == 1) expect(s, &at, highest);
    TuneStep t = advance(s, &at, l->lambdas[k], NULL);
    if (isinf(t.gain)) break;
    t.regularizer = l->regularizer;
    steps[p->n] = t;
    keep_loose(s, &at, &t);
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
  s->left -= (size_t)(l->count - k);
  s->o.target.regularizer = REG_POSTERIOR;
}

/* From VI towards prediction alone, held back by the posterior or, where it is a distribution, by
 * the prior, which lets q go farther from Bayes. */
static void search_lambda(Search *s, TunePath *p) {
  TuneStep *steps = NEW_ARRAY(&s->c->arena, TuneStep, STEPS + PRIOR_STEPS + 1);
  steps[0] = step_of(s->c, s->bayes, s->bayes, INFINITY);
  p->steps = steps;
  p->n = 1;
  go_down(s, &paths[0], p, steps);
  if (run_improper(s->c, s->r->problem->model)) return;
  s->left += PRIOR_STEPS;
  go_down(s, &paths[1], p, steps);
}

/* ---- which variables are free ---------------------------------------------------------------- */

enum { SHORT = 10 }; /* elements of a vector that may be let go one by one */

/* Parameters that are let go together: all elements of a variable, one element, or the common part
 * of their widths. */
typedef struct {
  const char *name; /* as the option `free` takes it */
  int32_t first, count;
  bool common;
} Candidate;

static bool is_variable(const Output *o) {
  return o->block == BLOCK_PARAMETERS && o->unconstrained > 0;
}

/* Has it elements that are unconstrained numbers by themselves? */
static bool has_elements(const Output *o) {
  return o->n == o->unconstrained && o->ndims && o->n > 1;
}

/* All that could be let go of a variable; n: room for them. */
static size_t add_candidates(Arena *a, const Model *m, const Output *o, int32_t most,
                             Candidate *out) {
  size_t n = 0;
  if (o->unconstrained > 1)
    out[n++] =
        (Candidate){arena_format(a, "common:%s", o->name), o->offset, o->unconstrained, true};
  for (int32_t i = 0; has_elements(o) && o->n <= most && i < o->n; i++)
    out[n++] = (Candidate){model_unconstrained_name(m, a, (size_t)(o->offset + i)), o->offset + i,
                           1, false};
  out[n++] = (Candidate){o->name, o->offset, o->unconstrained, false};
  return n;
}

/* Of all variables; elements of those that have at most so many. */
static Candidate *candidates_of(Arena *a, const Model *m, int32_t most, size_t *n) {
  Candidate *all = NEW_ARRAY(a, Candidate, m->dim + 2 * (size_t)m->noutputs + 1);
  *n = 0;
  for (int k = 0; k < m->noutputs; k++)
    if (is_variable(&m->outputs[k])) *n += add_candidates(a, m, &m->outputs[k], most, all + *n);
  return all;
}

/* ---- what is free ---- */

/* Let go is x, and what was before (NULL: nothing). What is free altogether needs no common width
 * any more. */
static const Freedom *freedom_with(Arena *a, size_t dim, const Freedom *from, const Candidate *x) {
  Freedom *f = NEW(a, Freedom); /* a move keeps it */
  bool *fixed = NEW_ARRAY(a, bool, dim + 1);
  int *group = NEW_ARRAY(a, int, dim + 1), most = 0;
  for (size_t k = 0; k < dim; k++) {
    fixed[k] = from ? from->fixed[k] : true;
    group[k] = from ? from->group[k] : 0;
    most = group[k] > most ? group[k] : most;
  }
  for (int32_t k = x->first; k < x->first + x->count; k++) {
    if (x->common && fixed[k] && !group[k]) group[k] = most + 1;
    if (!x->common) fixed[k] = false, group[k] = 0;
  }
  *f = (Freedom){.fixed = fixed, .group = group};
  return f;
}

/* Would it change anything? */
static bool is_free(const Freedom *f, const Candidate *x) {
  for (int32_t k = x->first; f && k < x->first + x->count; k++)
    if (f->fixed[k] && !(x->common && f->group[k])) return false;
  return f != NULL;
}

const Freedom *tune_freedom(Ctx *c, const Model *m, const OptionList *names) {
  size_t n;
  Candidate *all = candidates_of(&c->arena, m, INT32_MAX, &n);
  const char **known = NEW_ARRAY(&c->arena, const char *, n + 1);
  const Freedom *f = NULL;
  for (size_t k = 0; k < n; k++) known[k] = all[k].name;
  for (size_t v = 0; v < names->count; v++) {
    size_t k = 0;
    while (k < n && strcmp(known[k], names->items[v]) != 0) k++;
    if (k == n)
      ctx_unknown(c, PVI_USAGE, NOWHERE,
                  &(UnknownWord){"parameter in " OPTION("free"), names->items[v], NULL, known, n});
    f = freedom_with(&c->arena, m->dim, f, &all[k]);
  }
  return f;
}

/* ---- forward selection ---- */

static size_t count_free(const Search *s, const Freedom *free) {
  size_t many = 0;
  for (size_t k = 0; k < s->r->problem->model->dim; k++) many += !free->fixed[k];
  return many;
}

/* A narrow q is close to a saddle: with many parameters free, they are let go in two steps. */
static bool in_two_steps(const Search *s, const Freedom *free) {
  return count_free(s, free) > SHORT && 3 * free_lambda(s) < HALF_WAY;
}

static bool frees_all(const Search *s, const Freedom *free) {
  return count_free(s, free) == s->r->problem->model->dim;
}

/* What keeps its Bayes distribution has seen the observations that the rest is fitted to, so these
 * look easier than new ones: p fitted numbers make the logarithm of a noise p / 2n too small, which
 * costs p^2 / 4n nats. Where that may be one or more, what is free learns from new ones. Where it
 * is less, the noise of what the folds' own fits predict would cost more. */
static bool learns_apart(const Search *s, const Freedom *free) {
  double p = (double)s->r->problem->model->dim, n = (double)s->r->split->count[PART_TRAIN];
  return p * p > 4 * n && !frees_all(s, free) && folds_apart(s->f);
}

/* Was the path over lambda there already? */
static bool is_known(const Search *s, const Freedom *free) {
  return s->loosest.lambda != 0 && frees_all(s, free);
}

/* From where it stands to little regularization. What is clearly behind Bayes half way falls
 * farther behind, and there the fits are the dearest. */
static TuneStep loosen(Search *s, Place *at, const Freedom *free) {
  double least = at->folds.least;
  at->folds.bayes = learns_apart(s, free) ? s->start.folds.phi : NULL;
  if (is_known(s, free)) {
    place_copy(at, &s->loose);
    s->left -= s->left > 0;
    return s->loosest;
  }
  if (in_two_steps(s, free)) {
    at->folds.least = 0;
    TuneStep half = advance(s, at, HALF_WAY, free);
    if (half.gain + half.se < 0) return half;
    s->left++; /* this step was not foreseen */
  }
  at->folds.least = least;
  return advance(s, at, free_lambda(s), free);
}

/* One or two numbers of q can hardly overfit: half a standard error is safety enough for them. */
static double worth_of(const Candidate *x, const TuneStep *t) {
  return t->gain - (x->common || x->count == 1 ? 0.5 : 1) * t->se;
}

/* The state of a forward selection. */
typedef struct {
  Candidate *left; /* those that may still add something */
  size_t n;
  const Freedom *free;  /* what was taken so far; NULL: nothing */
  double top;           /* what it is worth */
  FreedVariable *alone; /* what each gains alone: the first round */
  size_t nalone;
  Place at, tried, found;
} Selection;

/* What a candidate has to add, in nats. The best of several elements of a vector adds something by
 * chance, so where something is free already it takes more. */
static double has_to_add(const Selection *l, const Candidate *x) {
  return l->free && strchr(x->name, '[') ? 2 : 0.5;
}

/* One round: of the candidates, the one whose freedom is worth most. What adds nothing to what was
 * taken, not even with a standard error more than it has, is not tried again. */
static const Candidate *best_candidate(Search *s, Selection *l, TuneStep *step) {
  Arena *a = &s->c->arena;
  size_t dim = s->r->problem->model->dim, kept = 0;
  Candidate *best = NEW(a, Candidate);
  bool any = false;
  double most = 0;
  s->left += l->free ? l->n : 0; /* those of the first round were foreseen */
  for (size_t k = 0; k < l->n; k++) {
    Candidate x = l->left[k];
    if (is_free(l->free, &x)) {
      s->left--;
      continue;
    }
    place_copy(&l->tried, &l->at);
    expect(s, &l->tried, l->top + has_to_add(l, &x));
    TuneStep t = loosen(s, &l->tried, freedom_with(a, dim, l->free, &x));
    double value = worth_of(&x, &t);
    if (!l->free) l->alone[l->nalone++] = (FreedVariable){x.name, t.gain, t.se};
    if ((isinf(t.gain) ? l->tried.folds.most : t.gain + t.se) > l->top) l->left[kept++] = x;
    if (any && !(value > most)) continue;
    any = true;
    most = value;
    *best = x;
    *step = t;
    place_copy(&l->found, &l->tried);
  }
  l->n = kept;
  return any ? best : NULL;
}

static Selection selection_make(const Search *s) {
  Arena *a = &s->c->arena;
  size_t folds = s->f->count, size = s->start.folds.size;
  Selection l = {.at = place_make(a, folds, size),
                 .tried = place_make(a, folds, size),
                 .found = place_make(a, folds, size)};
  l.left = candidates_of(a, s->r->problem->model, SHORT, &l.n);
  l.alone = NEW_ARRAY(a, FreedVariable, l.n + 1);
  place_copy(&l.at, &s->start);
  return l;
}

/* Forward selection, as long as it pays. */
static void search_free(Search *s, TunePath *p) {
  const Model *m = s->r->problem->model;
  Selection l = selection_make(s);
  FreedVariable *freed = NEW_ARRAY(&s->c->arena, FreedVariable, l.n + 1);
  for (TuneStep t = {0};;) {
    const Candidate *x = best_candidate(s, &l, &t);
    if (!x || !(worth_of(x, &t) > l.top + has_to_add(&l, x))) break;
    l.top = worth_of(x, &t);
    l.free = freedom_with(&s->c->arena, m->dim, l.free, x);
    place_copy(&l.at, &l.found);
    freed[p->nfreed++] = (FreedVariable){x->name, t.gain, t.se};
  }
  p->freed = freed;
  p->tried = l.alone;
  p->ntried = l.nalone;
  const FreedVariable *last = p->nfreed ? &freed[p->nfreed - 1] : NULL;
  if (!last || (!isinf(p->lambda) && !(last->gain - last->se > p->gain - p->se))) return;
  p->free = l.free;
  p->regularizer = REG_POSTERIOR;
  p->lambda = free_lambda(s);
  p->gain = last->gain;
  p->se = last->se;
  place_copy(&s->best, &l.at);
}

/* ---- both ------------------------------------------------------------------------------------ */

/* Scores of folds are compared with each other, and their common draws cancel: fewer will do. */
enum { COARSER = 4 };

/* VI, with all data and in every fold. */
static void begin(Search *s, const FitOptions *o) {
  FitOptions vi = *o;
  vi.target.score = SCORE_elbo;
  vi.target.lambda = 1;
  const Fit *bayes = bayes_fit(s->c, s->r, vi, s->pool);
  size_t size = q_size(&bayes->q);
  s->r->q = bayes->q;
  s->r->phi = bayes->phi;
  s->vi = bayes->vi;
  s->vi.phi = s->vi.mean ? bayes->phi : NULL;
  s->r->scoring = evaluate_scoring(s->r->o, s->r->problem->model->n_obs);
  s->r->scoring.draws /= COARSER;
  s->r->scoring.coarse = true;
  s->start = place_make(&s->c->arena, s->f->count, size);
  s->best = place_make(&s->c->arena, s->f->count, size);
  s->loose = place_make(&s->c->arena, s->f->count, size);
  for (size_t k = 0; k < s->f->count; k++)
    memcpy(s->start.folds.phi + k * size, bayes->phi, size * sizeof(double));
  s->o.choose_family = vi.choose_family = false;
  s->o.family = vi.family = bayes->q.family;
  s->bayes = folds_score(s->c, s->r, s->f, &vi, &s->list, &s->start.folds);
  s->bayes_stands = bayes->converged && !s->start.folds.unconverged;
  place_copy(&s->best, &s->start);
}

/* Where the fit to all data begins: at Bayes, if that stays as it is in some parameters; else where
 * the last fold has come to, which is the one with most data where folds go forward. */
static const double *start_of(const Search *s, const TunePath *p) {
  size_t size = s->start.folds.size;
  const double *last = s->best.folds.phi + (s->f->count - 1) * size;
  if (!p->free) return isinf(p->lambda) ? s->r->phi : last;
  double *phi = NEW_ARRAY(&s->c->arena, double, size);
  memcpy(phi, s->r->phi, size * sizeof *phi);
  FitOptions o = options_at(s, HALF_WAY, p->free);
  o.parts = p->parts;
  o.nparts = p->nparts;
  if (in_two_steps(s, p->free))
    tune_refit(s->c, s->r->problem->model, s->r->split, &o, s->pool, phi);
  return phi;
}

/* Where all data are fitted, too, what is free learns from all folds. */
static void learn_apart(const Search *s, TunePath *p) {
  if (!p->free || !learns_apart(s, p->free)) return;
  FoldBayes b = {s->start.folds.phi, s->start.folds.size, s->r->phi, -1};
  p->parts = folds_parts(&s->c->arena, s->f, &b, &p->nparts);
}

static Search *search_make(Ctx *c, Run *r, const Folds *f, const TuneOptions *t) {
  const Model *m = r->problem->model;
  const char *why;
  if (!target_allows(c, m, &t->fit->target, &why)) ctx_fail(c, PVI_USAGE, NOWHERE, "%s", why);
  Search *s = NEW(&c->arena, Search);
  *s = (Search){.c = c, .r = r, .f = f, .pool = t->pool, .o = *t->fit};
  s->list = evaluate_one(c, m, &s->o.target);
  s->o.journal = NULL;
  s->began = base_seconds();
  s->tried = NEW_ARRAY(&c->arena, bool, STEPS + PRIOR_STEPS + 1);
  begin(s, t->fit);
  return s;
}

/* The choice is made: what it predicts of held-out observations, and where its fit begins. An
 * interrupted search has made none. */
static void settle(Search *s, TunePath *p, const ScoreList *list) {
  FoldStarts *best = &s->best.folds;
  best->cancelled = s->o.cancelled;
  best->cancelled_self = s->o.cancelled_self;
  p->scores = is_cancelled(s) ? NULL : folds_score(s->c, s->r, s->f, NULL, list, best);
  if (is_cancelled(s)) p->scores = NULL;
  learn_apart(s, p);
  p->start = start_of(s, p);
}

TunePath *tune(Ctx *c, Run *r, const Folds *f, const TuneOptions *t) {
  Search *s = search_make(c, r, f, t);
  TunePath *p = NEW(&c->arena, TunePath);
  p->search = s;
  p->lambda = INFINITY;
  p->regularizer = REG_POSTERIOR;
  size_t candidates;
  candidates_of(&c->arena, r->problem->model, SHORT, &candidates);
  s->left = (t->lambda ? STEPS : 0) + (t->free ? candidates : 0);
  if (t->lambda) search_lambda(s, p);
  if (t->free && q_is_normal(&r->q)) search_free(s, p);
  p->bayes = r->q;
  p->bayes_phi = r->phi;
  p->vi = s->vi;
  p->bayes_scores = s->bayes;
  p->bayes_stands = s->bayes_stands;
  settle(s, p, t->list);
  return p;
}

/* ---- choices that come to nothing ------------------------------------------------------------ */

/* Less held back than the choice that failed? By another regularizer that cannot be said. */
static bool is_looser(const TunePath *p, const TuneStep *t) {
  return !p->free && t->regularizer == p->regularizer && !(t->lambda > p->lambda);
}

/* The best of the lambdas that are left; 0: Bayes. */
static size_t best_left(const Search *s, const TunePath *p) {
  size_t best = 0;
  double most = 0;
  for (size_t k = 1; k < p->n; k++) {
    if (s->tried[k] || is_looser(p, &p->steps[k]) || !(worth(&p->steps[k]) > most)) continue;
    best = k;
    most = worth(&p->steps[k]);
  }
  return best;
}

static const char *given_up(Ctx *c, const TunePath *p, const char *why) {
  const char *what = p->free ? "what may leave the Bayes distribution (--free auto)"
                             : arena_format(&c->arena, "lambda %g", p->lambda);
  return arena_format(&c->arena,
                      "%s predicted held-out observations better (%+.1f, standard error "
                      "%.1f), but its fit to all of them did not converge: %.*s",
                      what, p->gain, p->se, (int)strcspn(why, ";"), why);
}

bool tune_retreat(TunePath *p, const ScoreList *list, const char *why) {
  Search *s = p->search;
  if (isinf(p->lambda) || !p->bayes_stands) return false;
  if (!p->given_up) p->given_up = given_up(s->c, p, why);
  if (!p->free && p->n) s->tried[p->best] = true;
  size_t best = best_left(s, p);
  p->free = NULL;
  p->parts = NULL;
  p->nparts = p->nfreed = 0;
  p->best = best;
  p->lambda = best ? p->steps[best].lambda : INFINITY;
  p->regularizer = best ? p->steps[best].regularizer : REG_POSTERIOR;
  place_copy(&s->best, &s->start);
  s->o.target.regularizer = p->regularizer;
  TuneStep t = best ? advance(s, &s->best, p->lambda, NULL) : (TuneStep){0};
  p->gain = t.gain;
  p->se = t.se;
  settle(s, p, list);
  p->retreats++;
  return true;
}

const Scores *tune_each(Ctx *c, Run *r, const Folds *f, const TuneOptions *t, const Freedom *free,
                        size_t n, TuneStep *out) {
  Search *s = search_make(c, r, f, t);
  Place at = place_make(&c->arena, f->count, s->start.folds.size);
  s->left = n;
  for (size_t k = 0; k < n; k++) {
    place_copy(&at, &s->start);
    out[k] = loosen(s, &at, &free[k]);
  }
  return s->bayes;
}
