/* compare.c: see compare.h. In order: fits from folders; fits made here; names for them; are they
 * of the same rows; differences; what they say. */
#include "run/compare.h"

#include "num/stats.h"
#include "run/exact_bayes.h"

#include <math.h>
#include <string.h>

static bool same(const char *a, const char *b) { return !a == !b && (!a || !strcmp(a, b)); }

/* ---- where fits come from -------------------------------------------------------------------- */

static Compared from_folder(Ctx *c, const char *folder) {
  const Run *r = run_read(c, folder);
  return (Compared){.folder = folder,
                    .s = r->summary,
                    .scores = scores_read(c, arena_format(&c->arena, "%s/scores.csv", folder)),
                    .data_hash =
                        arena_text(&c->arena, r->data_origin.hash, strlen(r->data_origin.hash)),
                    .score = r->sampled     ? SCORE_POSTERIOR
                             : r->amortized ? r->amortized
                                            : run_score_title(c, r->o, (ScoreId)r->o->score),
                    .seed = r->o->seed};
}

/* ---- exact Bayes ----------------------------------------------------------------------------- */

/* Its parameters alone, and how it did on folds. */
static const Summary *summary_of_sample(Ctx *c, const SampleRun *s, const Scores *folds,
                                        const char *rule) {
  Summary *out = sample_summary_plain(c, &s->summary);
  const Model *m = s->run->problem->model;
  size_t n = 0;
  while (n < out->nparameters && model_output_is_parameter(m, n)) n++;
  out->nparameters = n;
  if (folds) out->folds = folds->parts[PART_TEST], out->folds_rule = rule;
  return out;
}

/* By its sampler, on the same folds. */
static Compared sampled(Ctx *c, const Problem *p, const Options *asked, const RunHooks *h) {
  Options *o = options_copy(&c->arena, asked);
  const char *rule = o->folds;
  options_set(c, o, "folds", NULL);
  options_set(c, o, "metric", score_name(SCORE_log)); /* with all that a fit reports */
  const SampleRun *s = sample_problem(c, p, o, NULL, h);
  Run whole = *s->run;
  if (rule) {
    double rhat;
    SampleStart start = sample_start_again(c, s->sample);
    const Folds *folds = folds_make(c, p, s->run->split, rule, (uint64_t)o->seed);
    whole.folds = exact_folds(c, &(ExactFolds){p, o, folds, &start, &whole.scores->list, h}, &rhat);
    if (!whole.folds)
      ctx_fail(c, PVI_INTERRUPTED, NOWHERE, "interrupted while the posterior was sampled on folds");
  }
  return (Compared){.s = summary_of_sample(c, s, whole.folds, rule),
                    .scores = folder_scores(c, &whole),
                    .data_hash = p->data_origin.hash,
                    .score = SCORE_POSTERIOR,
                    .seed = o->seed};
}

/* ---- fits ------------------------------------------------------------------------------------ */

/* What a method asks of a fit: vi, pvi (of the score that was asked for), or the name of the score
 * that PVI maximises. The parts of a sum are reported by all, so that all are compared by it. */
static Options *options_of(Ctx *c, const Options *o, const char *method) {
  const char *names[SCORE_COUNT + 3] = {"vi", "pvi", "nuts"}, *score = NULL;
  const OptionParts *sum = &o->parts[OPTION_score];
  Options *m = options_copy(&c->arena, o);
  for (int k = 0; k < SCORE_COUNT; k++) {
    names[k + 3] = score_name((ScoreId)k);
    if (!strcmp(method, names[k + 3])) score = names[k + 3];
  }
  if (!strcmp(method, "vi")) score = score_name(SCORE_elbo);
  if (!strcmp(method, "pvi"))
    score =
        options_is_given(o, OPTION_score) ? o->given[OPTION_score].items[0] : score_name(SCORE_log);
  if (!score)
    ctx_unknown(
        c, PVI_USAGE, NOWHERE,
        &(UnknownWord){"value of " OPTION("methods"), method, NULL, names, SCORE_COUNT + 3});
  options_set(c, m, "score", score);
  for (size_t k = 0; k < sum->count; k++)
    options_set(c, m, "metric", score_name((ScoreId)sum->items[k].word));
  if (!m->folds && !m->split && !(m->holdout > 0)) options_set(c, m, "folds", "5");
  return m;
}

static Compared fitted(Ctx *c, const Problem *p, const Options *o, const RunHooks *h) {
  const Run *r = run_fit(c, p, o, NULL, h);
  if (r->fit->interrupted) ctx_fail(c, PVI_INTERRUPTED, NOWHERE, "the comparison was interrupted");
  return (Compared){.s = r->summary,
                    .scores = folder_scores(c, r),
                    .data_hash = p->data_origin.hash,
                    .score = run_score_title(c, o, (ScoreId)o->score),
                    .seed = o->seed};
}

/* ---- names that tell fits apart -------------------------------------------------------------- */

typedef const char *Trait(Ctx *c, const Compared *f);

static bool is_tuned(const Compared *f) { return f->s->verdict != NULL; }
static bool is_vi(const Compared *f) { return same(f->score, score_name(SCORE_elbo)); }

static bool is_sampled(const Compared *f) { return same(f->score, SCORE_POSTERIOR); }

/* What is an approximation of the posterior has neither score nor lambda of its own. */
static const char *trait_method(Ctx *c, const Compared *f) {
  (void)c;
  return is_vi(f)                ? "VI"
         : is_sampled(f)         ? "Bayes"
         : same(f->score, "npe") ? "NPE"
         : same(f->score, "nre") ? "NRE"
                                 : "PVI";
}
static bool is_bayes(Ctx *c, const Compared *f) { return strcmp(trait_method(c, f), "PVI") != 0; }
static const char *trait_score(Ctx *c, const Compared *f) {
  return is_bayes(c, f) ? "" : arena_format(&c->arena, "%s score", f->score);
}
static const char *trait_lambda(Ctx *c, const Compared *f) {
  if (is_bayes(c, f)) return "";
  return is_tuned(f) ? "tuned"
                     : arena_format(&c->arena, "%s lambda %g", f->s->regularizer, f->s->lambda);
}
static const char *trait_family(Ctx *c, const Compared *f) {
  (void)c;
  return f->s->family;
}
static const char *trait_seed(Ctx *c, const Compared *f) {
  return arena_format(&c->arena, "seed %ld", f->seed);
}
static const char *trait_folder(Ctx *c, const Compared *f) {
  (void)c;
  return f->folder ? f->folder : "";
}

static bool trait_differs(Ctx *c, const Compared *f, size_t n, Trait *trait) {
  for (size_t k = 1; k < n; k++)
    if (strcmp(trait(c, &f[k]), trait(c, &f[0])) != 0) return true;
  return false;
}

static bool labels_repeat(const Compared *f, size_t n) {
  for (size_t k = 0; k < n; k++)
    for (size_t j = 0; j < k; j++)
      if (!strcmp(f[k].label, f[j].label)) return true;
  return false;
}

/* Without folder and ending, unless two programs have the same name. */
static void name_programs(Ctx *c, Compared *f, size_t n) {
  bool clash = false;
  for (size_t k = 0; k < n; k++) f[k].program = problem_base_name(&c->arena, f[k].s->program);
  for (size_t k = 0; k < n; k++)
    for (size_t j = 0; j < k; j++)
      clash |= same(f[k].program, f[j].program) && !same(f[k].s->program, f[j].s->program);
  for (size_t k = 0; clash && k < n; k++) f[k].program = f[k].s->program;
}

/* The program and the method always; then whatever else differs, as long as names repeat. */
static void name_fits(Ctx *c, Compared *f, size_t n) {
  static Trait *const traits[] = {trait_score, trait_lambda, trait_family, trait_seed,
                                  trait_folder};
  for (size_t k = 0; k < n; k++)
    f[k].label = arena_format(&c->arena, "%s, %s", f[k].program, trait_method(c, &f[k]));
  for (size_t t = 0; t < sizeof traits / sizeof *traits && labels_repeat(f, n); t++) {
    if (!trait_differs(c, f, n, traits[t])) continue;
    for (size_t k = 0; k < n; k++) {
      const char *more = traits[t](c, &f[k]);
      if (*more) f[k].label = arena_format(&c->arena, "%s, %s", f[k].label, more);
    }
  }
}

/* ---- the same rows --------------------------------------------------------------------------- */

static void check_data(Ctx *c, const Compared *a, const Compared *b) {
  bool rows = a->scores->n == b->scores->n;
  if (rows && same(a->data_hash, b->data_hash)) return;
  ctx_fail(c, PVI_DATA, NOWHERE,
           "%s and %s are fits of different data (%zu and %zu observations%s); their scores cannot "
           "be compared",
           a->folder ? a->folder : a->label, b->folder ? b->folder : b->label, a->scores->n,
           b->scores->n, rows ? ", but not the same file" : "");
}

static void check_parts(Ctx *c, const Compared *a, const Compared *b) {
  for (size_t k = 0; k < a->scores->n; k++)
    if (a->scores->part && b->scores->part && a->scores->part[k] != b->scores->part[k])
      ctx_fail(c, PVI_DATA, NOWHERE,
               "%s and %s were trained on different observations (the first is number %zu); their "
               "scores cannot be compared",
               a->folder ? a->folder : a->label, b->folder ? b->folder : b->label, k + 1);
}

static void check_folds(Ctx *c, const Compared *a, const Compared *b) {
  if (same(a->s->folds_rule, b->s->folds_rule) && a->seed == b->seed) return;
  ctx_fail(c, PVI_DATA, NOWHERE,
           "%s and %s have different folds (%s with seed %ld, %s with seed %ld); fit one of them "
           "again",
           a->folder ? a->folder : a->label, b->folder ? b->folder : b->label, a->s->folds_rule,
           a->seed, b->s->folds_rule, b->seed);
}

static bool all_have_folds(const Compared *f, size_t n) {
  for (size_t k = 0; k < n; k++)
    if (!f[k].s->folds.count) return false;
  return true;
}

/* ---- differences ----------------------------------------------------------------------------- */

/* Which rows count, and what follows the names of their columns. */
typedef struct {
  bool folds;
  Part part;
} Counted;

static size_t column_of(Ctx *c, const ScoreTable *t, const char *score, const Counted *w) {
  const char *name = w->folds ? arena_format(&c->arena, "%s_heldout", score) : score;
  for (size_t k = 0; k < t->nscores; k++)
    if (!strcmp(t->names[k], name)) return k;
  return t->nscores;
}

static bool counts(const ScoreTable *t, size_t i, const Counted *w) {
  return w->folds || (t->part ? t->part[i] == (int)w->part : w->part == PART_TRAIN);
}

static double sum_of(const ScoreTable *t, size_t column, const Counted *w) {
  double sum = 0;
  for (size_t i = 0; i < t->n; i++) {
    double x = t->values[i * t->nscores + column];
    if (counts(t, i, w) && !isnan(x)) sum += x;
  }
  return sum;
}

/* Sum of the differences a - b with its standard error. */
static ComparedScore difference(Ctx *c, const ScoreTable *a, size_t x, const ScoreTable *b,
                                size_t y, const Counted *w) {
  TempArena *temp = temp_open(c);
  double *d = NEW_ARRAY(&temp->arena, double, a->n + 1);
  for (size_t i = 0; i < a->n; i++)
    d[i] = counts(a, i, w) ? a->values[i * a->nscores + x] - b->values[i * b->nscores + y] : NAN;
  ComparedScore s = {0};
  s.difference = stat_total(d, a->n, &s.se);
  temp_close(temp);
  return s;
}

/* Proper scores that every fit has, and the sum of some that one of them maximises. */
static size_t scores_of_all(Ctx *c, const Compared *f, size_t n, const Counted *w,
                            const char **names) {
  size_t count = 0;
  ScoreId row;
  const char *sum = f[0].score;
  for (size_t j = 0; j < n; j++)
    if (!score_find(f[j].score, &row) && !same(f[j].score, SCORE_POSTERIOR)) sum = f[j].score;
  for (int k = 0; k <= SCORE_COUNT; k++) {
    const char *name = k < SCORE_COUNT ? score_name((ScoreId)k) : sum;
    bool all = k < SCORE_COUNT || !score_find(name, &row);
    for (size_t j = 0; j < n && all; j++)
      all = column_of(c, f[j].scores, name, w) < f[j].scores->nscores;
    if (all) names[count++] = name;
  }
  return count;
}

static void compare_score(Ctx *c, const Comparison *r, const Counted *w, size_t s,
                          ComparedScore *values, size_t *best) {
  const Compared *f = r->fits;
  for (size_t k = 0; k < r->n; k++) {
    values[k].sum = sum_of(f[k].scores, column_of(c, f[k].scores, r->scores[s], w), w);
    if (values[k].sum > values[*best].sum || isnan(values[*best].sum)) *best = k;
  }
  const ScoreTable *b = f[*best].scores;
  for (size_t k = 0; k < r->n; k++) {
    double sum = values[k].sum;
    values[k] = difference(c, f[k].scores, column_of(c, f[k].scores, r->scores[s], w), b,
                           column_of(c, b, r->scores[s], w), w);
    values[k].sum = sum;
  }
}

/* The log scores of the rows that count, side by side. */
static void collect_logs(Ctx *c, Comparison *r, const Counted *w) {
  const ScoreTable *first = r->fits[0].scores;
  double *logs = NEW_ARRAY(&c->arena, double, first->n * r->n + 1);
  size_t *observations = NEW_ARRAY(&c->arena, size_t, first->n + 1);
  for (size_t k = 0; k < r->n; k++) {
    const ScoreTable *t = r->fits[k].scores;
    size_t column = column_of(c, t, score_name(SCORE_log), w), n = 0;
    if (column == t->nscores) return;
    for (size_t i = 0; i < t->n; i++)
      if (counts(t, i, w)) {
        observations[n] = i;
        logs[n++ * r->n + k] = t->values[i * t->nscores + column];
      }
    r->nrows = n;
  }
  r->logs = logs;
  r->observations = observations;
}

/* The sum's column of rows of one kind, from its parts' where the fit has them and not the sum. */
static void add_sum(Ctx *c, Compared *f, const char *title, const OptionParts *sum, bool folds) {
  const ScoreTable *t = f->scores;
  Counted w = {.folds = folds};
  if (column_of(c, t, title, &w) < t->nscores) return;
  ScoreTable *more = NEW(&c->arena, ScoreTable);
  size_t n = t->nscores;
  const char **names = NEW_ARRAY(&c->arena, const char *, n + 1);
  double *values = NEW_ARRAY(&c->arena, double, t->n *(n + 1) + 1);
  memcpy(names, t->names, n * sizeof *names);
  names[n] = folds ? arena_format(&c->arena, "%s_heldout", title) : title;
  for (size_t i = 0; i < t->n; i++)
    memcpy(values + i * (n + 1), t->values + i * n, n * sizeof *values);
  for (size_t k = 0; k < sum->count; k++) {
    size_t column = column_of(c, t, score_name((ScoreId)sum->items[k].word), &w);
    if (column == n) return;
    for (size_t i = 0; i < t->n; i++)
      values[i * (n + 1) + n] += sum->items[k].weight * t->values[i * n + column];
  }
  *more = *t;
  more->names = names;
  more->values = values;
  more->nscores = n + 1;
  f->scores = more;
}

static void add_sums(Ctx *c, Compared *f, const Options *o) {
  const OptionParts *sum = &o->parts[OPTION_score];
  if (!sum->count) return;
  const char *title = run_score_title(c, o, SCORE_sum);
  add_sum(c, f, title, sum, false);
  add_sum(c, f, title, sum, true);
}

/* Held-out rows where all fits have them, else a part that was not trained on, else training. */
static Counted rows_of(const Compared *f, size_t n) {
  Counted w = {all_have_folds(f, n), PART_TRAIN};
  for (int p = PART_COUNT; p-- > 0;)
    if (f[0].s->parts[p].count) {
      w.part = (Part)p;
      break;
    }
  return w;
}

static Comparison *compare(Ctx *c, Compared *f, size_t n) {
  Comparison *r = NEW(&c->arena, Comparison);
  name_programs(c, f, n);
  name_fits(c, f, n);
  Counted w = rows_of(f, n);
  for (size_t k = 1; k < n; k++) {
    check_data(c, &f[0], &f[k]);
    check_parts(c, &f[0], &f[k]);
    if (w.folds) check_folds(c, &f[0], &f[k]);
  }
  const char **names = NEW_ARRAY(&c->arena, const char *, SCORE_COUNT + 1);
  *r = (Comparison){.fits = f, .n = n, .scores = names};
  r->rows = w.folds ? arena_format(&c->arena, "held out (folds %s)", f[0].s->folds_rule)
                    : part_names[w.part];
  r->nscores = scores_of_all(c, f, n, &w, names);
  ComparedScore *values = NEW_ARRAY(&c->arena, ComparedScore, r->nscores * n + 1);
  size_t *best = NEW_ARRAY(&c->arena, size_t, r->nscores + 1);
  for (size_t s = 0; s < r->nscores; s++) compare_score(c, r, &w, s, values + s * n, &best[s]);
  r->values = values;
  r->best = best;
  collect_logs(c, r, &w);
  return r;
}

/* ---- options that would be without effect ---------------------------------------------------- */

/* What one may say of fits that are there: how they are shown, and how they are mixed. */
void compare_check_runs(Ctx *c, const Options *o) {
  for (size_t k = 0; k < OPTION_COUNT; k++) {
    const OptionRow *row = option_row(k);
    bool taken = !strcmp(row->group, "output") || k == OPTION_stack || k == OPTION_threads;
    if (taken || !options_is_given(o, (enum OptionId)k)) continue;
    ctx_fail(c, PVI_USAGE, NOWHERE,
             OPTION("%s") " says how programs are fitted, and runs are fitted already: give "
                          "programs and their data instead, or fit again",
             row->name);
  }
}

static bool has_method(const Options *o, const char *name) {
  for (size_t k = 0; k < o->methods.count; k++)
    if (!strcmp(o->methods.items[k], name)) return true;
  return false;
}

/* Some method, besides those of Bayes, that has a regularizer. */
static bool has_predictive(const Options *o) {
  for (size_t k = 0; k < o->methods.count; k++)
    if (strcmp(o->methods.items[k], "vi") != 0 && strcmp(o->methods.items[k], "nuts") != 0 &&
        strcmp(o->methods.items[k], score_name(SCORE_elbo)) != 0)
      return true;
  return false;
}

static void check_options_of_models(Ctx *c, const Options *o) {
  static const enum OptionId predictive[] = {OPTION_lambda, OPTION_regularize, OPTION_free};
  for (size_t k = 0; k < 3; k++)
    if (options_is_given(o, predictive[k]) && !has_predictive(o))
      ctx_fail(c, PVI_USAGE, NOWHERE,
               OPTION("%s") " is of predictive fits, and " OPTION(
                   "methods") " names none: add pvi, or a score",
               option_row(predictive[k])->name);
  if (options_is_given(o, OPTION_score) && !has_method(o, "pvi"))
    ctx_fail(c, PVI_USAGE, NOWHERE,
             OPTION("score") " is what the method pvi maximises, and " OPTION(
                 "methods") " does not name it");
  if (o->score == SCORE_elbo)
    ctx_fail(
        c, PVI_USAGE, NOWHERE,
        OPTION("score") " elbo is VI: that is the method vi; the method pvi takes another score");
}

Comparison *compare_runs(Ctx *c, const char *const *folders, size_t n) {
  Compared *f = NEW_ARRAY(&c->arena, Compared, n + 1);
  for (size_t k = 0; k < n; k++) f[k] = from_folder(c, folders[k]);
  return compare(c, f, n);
}

Comparison *compare_models(Ctx *c, const char *const *places, size_t n, const Options *o,
                           const RunHooks *h) {
  bool data = n > 1;
  size_t models = data ? n - 1 : n, methods = o->methods.count, count = 0;
  Compared *f = NEW_ARRAY(&c->arena, Compared, models * methods + 1);
  const Problem *first = NULL;
  check_options_of_models(c, o);
  for (size_t k = 0; k < models; k++) {
    ProblemSource source = {.program = places[k], .data = data ? places[n - 1] : NULL};
    const Problem *p = problem_load(c, &source, o);
    if (!first) first = p;
    for (size_t m = 0; m < methods; m++) {
      const char *method = o->methods.items[m];
      bool bayes = !strcmp(method, "nuts");
      const Options *asked = options_of(c, o, bayes ? "vi" : method);
      f[count] = (bayes ? sampled : fitted)(c, p, asked, h);
      add_sums(c, &f[count++], o);
      if (k) check_data(c, &f[0], &f[count - 1]);
    }
  }
  Comparison *r = compare(c, f, count);
  r->problem = first;
  return r;
}

/* ---- in words -------------------------------------------------------------------------------- */

static bool predicts_the_same(const ComparedScore *v) {
  return fabs(v->difference) < 0.005 && v->se < 0.005;
}

const char *compare_verdict(Ctx *c, const Comparison *r) {
  if (!r->nscores || r->n < 2 || strcmp(r->scores[0], "log") != 0) return NULL;
  size_t best = r->best[0], rivals = 0, rival = best, twins = 0;
  for (size_t k = 0; k < r->n; k++) {
    const ComparedScore *v = &r->values[k];
    if (k == best || v->difference < -2 * v->se) continue;
    rivals++;
    twins += predicts_the_same(v);
    rival = k;
  }
  const char *name = r->fits[best].label, *other = r->fits[rival].label;
  if (!rivals)
    return arena_format(&c->arena,
                        "%s predicts best: every other fit is behind it by more than two standard "
                        "errors of the log score",
                        name);
  if (rivals == 1 && twins)
    return arena_format(&c->arena, "%s and %s predict the same", name, other);
  if (rivals == 1)
    return arena_format(&c->arena,
                        "%s has the best log score, but %s is within two standard errors of it",
                        name, other);
  return arena_format(&c->arena,
                      "%s has the best log score, but %zu others are within two standard errors of "
                      "it",
                      name, rivals);
}
