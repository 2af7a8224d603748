/* run.c: the course of a run. The stages in their order, each one call: see run_fit at the end. */
#include "run/exact_bayes.h"
#include "run/tune.h"

#include <math.h>
#include <string.h>

enum { USUAL_FOLDS = 5 }; /* where tuning needs some */

/* Is the option one of its words, rather than names? */
static bool free_is(const Options *o, const char *word) {
  return o->free.count == 1 && !strcmp(o->free.items[0], word);
}

/* ---- what was asked -------------------------------------------------------------------------- */

static Split *split_of(Ctx *c, const Options *o, const Model *m) {
  if (o->split && o->holdout > 0)
    ctx_fail(c, PVI_USAGE, NOWHERE,
             OPTION("split") " and " OPTION("holdout") " exclude each other; give one of them");
  return o->split         ? split_read(c, o->split, m->n_obs)
         : o->holdout > 0 ? split_holdout(c, m->n_obs, o->holdout, (uint64_t)o->seed)
                          : split_all(c, m->n_obs);
}

/* Bayes can do without observations: all of the log density is its prior then. */
static bool needs_observations(const Options *o) { return o->score != SCORE_elbo; }

static void check_split(Ctx *c, const Options *o, const Split *s) {
  if (!s->count[PART_TRAIN] && (s->n || needs_observations(o)))
    ctx_fail(c, PVI_DATA, NOWHERE, "no observation is left to train on");
  if (o->select && !s->count[PART_VALID])
    ctx_fail(c, PVI_USAGE, NOWHERE,
             OPTION("select") " validation needs a " OPTION("split") " with a \"valid\" part");
}

/* Predictions are of observations. Of one joint density of all data a predictive score is the log
 * of one average over q, which is best where q is a point: the fit would say nothing of the model.
 */
static void check_observations(Ctx *c, const Problem *p, const Options *o) {
  if (o->score == SCORE_elbo) return;
  if (!p->model->n_obs) problem_no_observations(c, p);
  if (p->model->joint && !o->force)
    ctx_fail(c, PVI_PROGRAM, p->model->blocks[0].loc,
             "the likelihood is one joint density of all the data: it does not factorise into "
             "observations, so there is nothing to average predictions over; fit by VI (" OPTION(
                 "score") " elbo), or write the density as a product of those of single outcomes "
                          "given the others, or give " OPTION("force"));
}

void options_check_fit(Ctx *c, const Options *o) {
  bool lbfgs = o->optimizer == OPTIM_LBFGS;
  if (isnan(o->lambda) && (o->interpolate || o->regularize != REG_POSTERIOR || o->start))
    ctx_fail(
        c, PVI_USAGE, NOWHERE,
        OPTION(
            "lambda") " auto is the path from Bayes: it goes with the posterior regularizer, and "
                      "without " OPTION("interpolate") " and " OPTION("start"));
  if (o->regularize == REG_BOTH && options_is_given(o, OPTION_lambda))
    ctx_fail(
        c, PVI_USAGE, NOWHERE,
        OPTION("regularize") " of both says how much of each; it goes without " OPTION("lambda"));
  if (o->interpolate && (o->lambda > 1 || o->regularize != REG_POSTERIOR))
    ctx_fail(c, PVI_USAGE, NOWHERE,
             OPTION("interpolate") " takes " OPTION(
                 "lambda") " from 0 to 1 and the posterior regularizer");
  if (o->estimator && (lbfgs || o->score != SCORE_log || o->minibatch))
    ctx_fail(c, PVI_USAGE, NOWHERE,
             OPTION("estimator") " rejection goes with " OPTION(
                 "score") " log, a stochastic " OPTION("optimizer") " and no " OPTION("minibatch"));
  if (o->minibatch && lbfgs)
    ctx_fail(c, PVI_USAGE, NOWHERE,
             OPTION("minibatch") " needs a stochastic optimizer: " OPTION(
                 "optimizer") " adam, rmsprop, sgd or nesterov");
}

const char *run_score_title(Ctx *c, const Options *o, ScoreId score) {
  ScoreOptions s = evaluate_score_options(o);
  return score_title(&c->arena, score, &s);
}

/* Both regularizers have a weight each: lambda is their sum. */
static double lambda_of_both(const Options *o) {
  double sum = 0;
  for (size_t k = 0; k < o->parts[OPTION_regularize].count; k++)
    sum += o->parts[OPTION_regularize].items[k].weight;
  return sum;
}

static double posterior_share(const Options *o) {
  const OptionParts *p = &o->parts[OPTION_regularize];
  double sum = lambda_of_both(o);
  for (size_t k = 0; k < p->count; k++)
    if (p->items[k].word == REG_POSTERIOR && sum > 0) return p->items[k].weight / sum;
  return 0;
}

static Target target_of(const Options *o) {
  return (Target){.score = (ScoreId)o->score,
                  .score_options = evaluate_score_options(o),
                  .regularizer = (Regularizer)o->regularize,
                  .lambda = o->lambda,
                  .share = posterior_share(o),
                  .score_weight = o->interpolate ? 1 - o->lambda : 1,
                  .integrate = (Integrate)o->integrate};
}

static Shape shape_of(const Options *o) {
  return (Shape){.components = (size_t)o->components,
                 .rank = (size_t)o->rank,
                 .knots = (size_t)o->knots,
                 .layers = (size_t)o->layers,
                 .hidden = (size_t)o->hidden};
}

/* The q.json that the option start names, when the fit asks for it. */
typedef struct {
  Ctx *c;
  const char *path;
} StartFile;

static const double *read_start(void *self, const Q *q) {
  const StartFile *f = self;
  return qfile_start(f->c, f->path, q);
}

FitOptions run_fit_options(const Options *o, const RunHooks *h) {
  FitOptions f = {.target = target_of(o),
                  .family = o->family < 0 ? FAMILY_meanfield : (FamilyId)o->family,
                  .shape = shape_of(o),
                  .choose_family = o->family < 0,
                  .points = o->point.items,
                  .npoints = (int)o->point.count,
                  .draws = (size_t)o->draws,
                  .optimizer = (OptimKind)o->optimizer,
                  .iterations = o->iterations,
                  .learning_rate = o->learning_rate,
                  .schedule = (OptimSchedule)o->schedule,
                  .clip = o->clip,
                  .minibatch = (size_t)o->minibatch,
                  .rejection = o->estimator == 1,
                  .select_validation = o->select == 1,
                  .seed = (uint64_t)o->seed};
  if (h) {
    f.progress = h->progress;
    f.progress_self = h->self;
    f.cancelled = h->cancelled;
    f.cancelled_self = h->self;
  }
  return f;
}

/* The q from which a chosen fit goes on. */
static const double *path_start(void *self, const Q *q) {
  (void)q;
  return ((const TunePath *)self)->start;
}

/* ---- the stages ------------------------------------------------------------------------------ */

/* The journal of the fit, from the folder or new. Interrupted while it was chosen what to fit, the
 * fit is none to go on with: the folder then has what it had, or that nothing is done yet. */
static void open_journal(Ctx *c, const Run *r, FitOptions *f, RunDir *dir, Arena *a) {
  bool cut = f->cancelled && f->cancelled(f->cancelled_self);
  Journal *known = folder_checkpoint(c, dir, a), *j = known;
  size_t turn = r->tuned ? r->tuned->retreats : 0;
  f->journal = NULL;
  if (known && journal_turn(known) > turn) return; /* it is of a fit that is still to come */
  if (!known || journal_turn(known) < turn) j = journal_make(a);
  journal_set_turn(j, turn);
  if (cut && !known) folder_save_checkpoint(dir, j);
  if (cut) return;
  f->journal = j;
  journal_on_save(j, r->o->checkpoint, folder_save_checkpoint, dir);
}

/* The fit, with checkpoints where there is a folder for them. */
static const Fit *fit_stage(Ctx *c, Run *r, FitOptions *f, RunDir *dir, Pool *pool) {
  TempArena *temp = temp_open(c);
  StartFile start = {c, r->o->start};
  if (r->o->start && !f->start) f->start = read_start, f->start_self = &start;
  if (dir) open_journal(c, r, f, dir, &temp->arena);
  const Fit *fit = fit_run(c, r->problem->model, r->split, f, pool);
  temp_close(temp);
  return fit;
}

static const char *const *parameter_names(Ctx *c, const Model *m) {
  const char **names = NEW_ARRAY(&c->arena, const char *, m->dim + 1);
  for (size_t k = 0; k < m->dim; k++) names[k] = model_unconstrained_name(m, &c->arena, k);
  return names;
}

static const Scores *evaluate_stage(Ctx *c, Run *r, const ScoreList *list, Pool *pool) {
  Scorer s = {.c = c,
              .model = r->problem->model,
              .q = &r->q,
              .phi = r->phi,
              .how = &r->scoring,
              .pool = pool};
  const Scores *scores = evaluate_parts(&s, list, r->split);
  if (scores->unsettled)
    ctx_warn(
        c, NOWHERE,
        "%zu scores of observations are approximate, because q is so wide there that no number "
        "of nodes settled them to six digits",
        scores->unsettled);
  return scores;
}

/* With a parameter for every observation a q can be made that predicts each of them. */
static void warn_flexible(Ctx *c, const Model *m, const Options *o, const Split *s) {
  size_t n = s->count[PART_TRAIN];
  if ((ScoreId)o->score == SCORE_elbo || isnan(o->lambda) || m->dim <= n) return;
  ctx_warn(
      c, NOWHERE,
      "there are more parameters (%zu) than observations to train on (%zu), so that the scores "
      "of these say little; hold some out (" OPTION("holdout") " 0.2) or choose lambda on "
                                                               "folds (" OPTION("lambda") " auto)",
      m->dim, n);
}

/* What the user left open. Lambda and what is free are chosen on folds, unless something was asked
 * that goes with a single fit alone. */
static void settle_defaults(Options *o, const Model *m) {
  static const char *all = "all", *chosen = "auto";
  bool single = o->interpolate || o->regularize != REG_POSTERIOR || o->start || o->select ||
                o->optimizer != OPTIM_LBFGS || !model_has_densities(m) || m->n_obs < 2;
  bool lambda = options_is_given(o, OPTION_lambda), free = options_is_given(o, OPTION_free);
  bool named = free && !free_is(o, chosen);
  if (!lambda && (single || named)) o->lambda = USUAL_LAMBDA;
  if (!lambda && o->regularize == REG_BOTH) o->lambda = lambda_of_both(o);
  if (!free) o->free = (OptionList){isnan(o->lambda) ? &chosen : &all, 1, 1};
}

/* The prior as the only regularizer must be one. */
static void check_prior(Ctx *c, const Options *o, const Model *m) {
  bool alone = o->regularize == REG_PRIOR || (o->regularize == REG_BOTH && posterior_share(o) == 0);
  if (!alone || o->score == SCORE_elbo || !(o->lambda > 0)) return;
  const char *name = run_improper(c, m);
  if (name)
    ctx_fail(c, PVI_USAGE, NOWHERE,
             "%s has no proper prior in the program, so that there is nothing to measure from: "
             "with " OPTION("regularize") " prior its q would widen without end; give it a prior, "
                                          "or use " OPTION("regularize") " posterior",
             name);
}

/* Refused before a folder is made. */
static void check_score(Ctx *c, const Options *o, const Model *m) {
  Target t = target_of(o);
  const char *why;
  if (!target_allows(c, m, &t, &why)) ctx_fail(c, PVI_USAGE, NOWHERE, "%s", why);
}

Run *run_make(Ctx *c, const Problem *p, const Options *asked, const Split *split) {
  Run *r = NEW(&c->arena, Run);
  Options *o = options_copy(&c->arena, asked);
  settle_defaults(o, p->model);
  r->o = o;
  r->problem = p;
  r->program_origin = p->program_origin;
  r->data_origin = p->data_origin;
  r->parameters = parameter_names(c, p->model);
  check_observations(c, p, o);
  options_check_fit(c, o);
  check_score(c, o, p->model);
  check_prior(c, o, p->model);
  r->split = split ? split : split_of(c, o, p->model);
  check_split(c, o, r->split);
  warn_flexible(c, p->model, o, r->split);
  return r;
}

/* What was chosen becomes what is fitted, from where the search came. */
static void take_choice(Run *r, FitOptions *f) {
  const TunePath *t = r->tuned;
  bool bayes = isinf(t->lambda);
  r->score = bayes ? SCORE_elbo : f->target.score;
  r->lambda = bayes ? 1 : t->lambda;
  r->folds = t->scores;
  f->target.score = r->score;
  f->target.lambda = r->lambda;
  f->target.regularizer = r->regularizer = t->regularizer;
  f->free = t->free;
  f->parts = t->parts;
  f->nparts = t->nparts;
  f->warm = bayes || t->free; /* VI ends where it ended before */
  f->choose_family = false;   /* a q of another family could not begin there */
  f->family = t->bayes.family;
  f->start = path_start;
  f->start_self = (void *)t;
  f->vi = t->vi;
}

/* The variables named are free: VI first, and the fit goes on from there. */
static void free_stage(Ctx *c, Run *r, FitOptions *f, Pool *pool) {
  TunePath *t = NEW(&c->arena, TunePath);
  FitOptions vi = *f;
  vi.target.score = SCORE_elbo;
  vi.target.lambda = 1;
  const Fit *bayes = fit_run(c, r->problem->model, r->split, &vi, pool);
  if (!q_is_normal(&bayes->q))
    ctx_fail(
        c, PVI_USAGE, NOWHERE,
        OPTION("free") " is not available for the family %s, because its parameters cannot be told "
                       "apart",
        family_name(bayes->q.family));
  t->free = tune_freedom(c, r->problem->model, &r->o->free);
  t->start = bayes->phi;
  f->free = t->free;
  f->warm = true;
  f->choose_family = false;
  f->family = bayes->q.family;
  f->start = path_start;
  f->start_self = t;
}

/* The fit that is asked for, or chosen. Chosen was what predicts best where folds are held out;
 * where the fit to all data does not converge, the next best choice that holds q back more has its
 * turn.
 */
static const Fit *fits_stage(Ctx *c, Run *r, const ScoreList *list, FitOptions *f, RunDir *dir,
                             Pool *pool) {
  const Fit *fit = fit_stage(c, r, f, dir, pool);
  while (r->tuned && !fit->converged && !fit->interrupted &&
         tune_retreat(r->tuned, list, fit->reason)) {
    take_choice(r, f);
    fit = fit_stage(c, r, f, dir, pool);
  }
  return fit;
}

/* Lambda, what is free, or both, by held-out score; or as the user says. */
static void choose_stage(Ctx *c, Run *r, const Folds *folds, const ScoreList *list, FitOptions *f,
                         Pool *pool) {
  bool lambda = isnan(r->o->lambda), free = free_is(r->o, "auto");
  if (lambda || free) {
    r->tuned = tune(c, r, folds, &(TuneOptions){f, list, lambda, free, pool});
    take_choice(r, f);
  } else if (free_is(r->o, "none")) {
    r->score = f->target.score = SCORE_elbo;
    r->lambda = f->target.lambda = 1;
  } else if (!free_is(r->o, "all")) {
    free_stage(c, r, f, pool);
  }
}

static bool is_tuned(const Options *o) {
  return o->score != SCORE_elbo && (isnan(o->lambda) || free_is(o, "auto"));
}

/* The folds that were asked for, or that a choice needs. */
static const Folds *folds_stage(Ctx *c, Run *r) {
  size_t n = r->split->count[PART_TRAIN], usual = n < USUAL_FOLDS ? n : USUAL_FOLDS;
  if (r->o->folds)
    r->folds_rule = r->o->folds;
  else if (is_tuned(r->o))
    r->folds_rule = arena_format(&c->arena, "%zu", usual);
  else
    return NULL;
  return folds_make(c, r->problem, r->split, r->folds_rule, (uint64_t)r->o->seed);
}

/* The largest gain in log score that is left for other families. For the log score without a
 * regularizer it belongs to the fit, and is found as well as a second or so allows; else, and in
 * full, where it is asked for. */
static const Certificate *certificate_stage(Ctx *c, const Run *r, const RunDraws *drawn,
                                            Pool *pool) {
  const double visits = 2e8; /* of an observation by LANES points */
  const Model *m = r->problem->model;
  const Split *split = r->split;
  size_t n = split->count[PART_TRAIN], width = r->scores->list.count;
  bool own = r->score == SCORE_log && r->lambda == 0;
  if (!(own || r->o->certificate) || r->fit->interrupted || !model_has_densities(m) || !n ||
      !m->dim)
    return NULL;
  int steps = CERTIFICATE_STEPS;
  double each = (double)n * LANES;
  while (!r->o->certificate && steps > 0 && each * certificate_cost(steps) > visits) steps--;
  if (!r->o->certificate && each * certificate_cost(steps) > visits) return NULL;
  double *scores = NEW_ARRAY(&c->arena, double, n);
  for (size_t k = 0; k < n; k++) scores[k] = r->scores->by_obs[split->rows[PART_TRAIN][k] * width];
  CertificateProblem p = {.model = m,
                          .rows = split->rows[PART_TRAIN],
                          .n = n,
                          .log_scores = scores,
                          .draws = drawn->theta,
                          .ndraws = drawn->draws.ndraws,
                          .steps = steps};
  return certificate_find(c, &p, pool);
}

const RunDraws *run_take(Ctx *c, Run *r, const ScoreList *list, Pool *pool) {
  const Problem *p = r->problem;
  const bool *kept = run_kept(c, p->model, &r->o->save);
  r->left_out = run_left_out(c, p->model, kept);
  r->q = r->fit->q;
  r->phi = r->fit->phi;
  r->scoring = evaluate_scoring(r->o, p->model->n_obs);
  r->scores = evaluate_stage(c, r, list, pool);
  const RunDraws *drawn = run_draw(c, r, p, (size_t)r->o->save_draws, (uint64_t)r->o->seed, kept);
  r->draws = &drawn->draws;
  return drawn;
}

/* Exact Bayes on the folds, from VI's q where there is one. Which score is compared: the one that
 * was maximised, where held-out observations have it; VI has the log score. */
static const SummaryExact *exact_stage(Ctx *c, const Run *r, const Folds *folds,
                                       const ScoreList *list, const RunHooks *h) {
  const TunePath *t = r->tuned;
  bool vi = !t && r->score == SCORE_elbo;
  ScoreId score = r->o->score == SCORE_elbo ? SCORE_log : (ScoreId)r->o->score;
  const char *name = run_score_title(c, r->o, score);
  size_t k = 0;
  while (k < list->count && strcmp(list->names[k], name) != 0) k++;
  Target target = {.score = score, .score_options = evaluate_score_options(r->o)};
  ScoreList one = k < list->count ? *list : evaluate_one(c, r->problem->model, &target);
  return exact_beside(c, &(ExactBeside){.problem = r->problem,
                                        .o = r->o,
                                        .folds = folds,
                                        .q = t ? &t->bayes : &r->q,
                                        .phi = t ? t->bayes_phi : r->phi,
                                        .list = &one,
                                        .score = name,
                                        .vi = t    ? t->bayes_scores
                                              : vi ? r->folds
                                                   : NULL,
                                        .fit = vi || (t && isinf(t->lambda)) ? NULL : r->folds,
                                        .hooks = h});
}

Run *run_fit(Ctx *c, const Problem *p, const Options *asked, const Split *split,
             const RunHooks *h) {
  Run *r = run_make(c, p, asked, split);
  const Options *o = r->o;
  bool tuned = is_tuned(o);
  ScoreList list = evaluate_list(c, p->model, &r->o->metric, r->o);
  const Folds *folds = folds_stage(c, r);
  run_kept(c, p->model, &o->save); /* a name that is none is told before the fit */
  exact_check(c, p->model, o, folds != NULL);
  FitOptions f = run_fit_options(r->o, h);
  run_init(c, p->model, r->o->init, &f);
  RunDir *dir = o->out ? folder_open(c, r) : NULL;
  Pool *pool = pool_make(c, (int)o->threads);
  r->score = f.target.score;
  r->lambda = f.target.lambda;
  r->regularizer = f.target.regularizer;
  if (o->score != SCORE_elbo) choose_stage(c, r, folds, &list, &f, pool);
  r->fit = fits_stage(c, r, &list, &f, dir, pool);
  const RunDraws *drawn = run_take(c, r, &list, pool);
  f.choose_family = false;
  f.family = r->q.family;
  if (folds && !tuned && !r->fit->interrupted) r->folds = folds_score(c, r, folds, &f, &list, NULL);
  if (o->bayes && !r->fit->interrupted) r->exact = exact_stage(c, r, folds, &list, h);
  r->certificate = certificate_stage(c, r, drawn, pool);
  pool_free(pool);
  r->summary = run_summarise(c, r);
  if (dir) folder_write(c, dir, r);
  r->folder = dir ? dir->path : NULL;
  return r;
}
