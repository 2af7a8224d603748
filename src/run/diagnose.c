/* diagnose.c: see diagnose.h for the two questions. The candidates, the course, held-out gains and
 * the words; the test is varies.c, larger programs are larger.c. */
#include "run/diagnose_int.h"

#include "run/exact_bayes.h"
#include "run/rightness.h"

#include <math.h>
#include <string.h>

enum { SHORT = 10 /* elements of a vector that are looked at one by one */ };

/* How far a stage is, on the line of progress. */
void study_tell(const Study *s, const char *stage, size_t done, size_t total) {
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
  for (size_t k = 0; k < s.n; k++) v[k].name = s.candidates[k].name;
  s.list = evaluate_one(c, p->model, &s.fit.target);
  const char *rule = folds_rule(c, r);
  const Folds *folds = folds_make(c, p, r->split, rule, (uint64_t)r->o->seed);
  exact_check(c, p->model, r->o, true);
  const Scores *vi = held_out(&s, folds, v);
  d->exact = exact_bayes(&s, folds, vi, h);
  stop_if_asked(c, h);
  if (!q_is_normal(&s.q))
    ctx_fail(c, PVI_USAGE, NOWHERE, "diagnose needs a family of normals: meanfield or fullrank");
  widths_alone(&s, v);
  test_varies(&s, v, d);
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
