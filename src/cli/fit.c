/* fit.c: pvi fit: program, data -> q, a run folder, a summary. */
#include "cli/cli.h"

#include "infer/fit.h"
#include "model/density.h"
#include "num/rng.h"
#include "report/report.h"
#include "report/table.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static const Command command = {
    "fit", "MODEL DATA [options]",
    "Finds the distribution q of the parameters whose predictions score best, sum_i S(predictive, "
    "y_i) - lambda r(q);\n"
    "--score elbo is ordinary variational inference. Writes a run folder and prints a summary.",
    "  pvi fit examples/golf/logistic.stan examples/golf/golf.csv --lambda 0\n"
    "  pvi fit model.stan data.json --score elbo --family fullrank --out vi\n"
    "  pvi fit model.stan data.json --split split.json --regularize prior --lambda 0.01 --json\n"
    "  pvi fit model.stan data.json --optimizer rmsprop --iterations 20000 --learning-rate 1e-4 "
    "--schedule step\n"};

enum { SCORING_DRAWS = 16384, METRIC_DRAWS = 1024, LEAST_DRAWS = 128, BATCH_ROWS = 1 << 16 };

/* Draws for scoring n observations: fewer of them where there are very many observations, whose sum
 * has less noise. */
static size_t scoring_draws(size_t usual, double work, size_t n) {
  double most = work / (double)(n + 1);
  return most > (double)usual ? usual : most < LEAST_DRAWS ? LEAST_DRAWS : (size_t)most;
}

typedef struct {
  const char *place[2];
  OptionList sets, include, observe;
  int score, family, regularizer, integrate, optimizer, schedule, select, estimator;
  double lambda, learning_rate, clip, holdout, alpha;
  long draws, iterations, minibatch, seed, threads, save_draws;
  long components, rank, knots, layers, hidden;
  Shape shape;
  OptionList points, metrics;
  const char *split, *out, *simulate, *observed, *start;
  bool json, quiet, interpolate;
} Args;

/* ---- the split ------------------------------------------------------------------------------- */

static Split *make_split(Ctx *c, const Args *a, const Model *m) {
  if (a->split && a->holdout > 0)
    ctx_fail(c, PVI_USAGE, NOWHERE, "--split and --holdout exclude each other");
  if (a->holdout >= 1)
    ctx_fail(c, PVI_USAGE, NOWHERE, "--holdout is a fraction below 1, not %g", a->holdout);
  Split *s = a->split         ? split_read(c, a->split, m->n_obs)
             : a->holdout > 0 ? split_holdout(c, m->n_obs, a->holdout, (uint64_t)a->seed)
                              : split_all(c, m->n_obs);
  if (!s->count[PART_TRAIN]) ctx_fail(c, PVI_DATA, NOWHERE, "no observation is left to train on");
  if (a->select && !s->count[PART_VALID])
    ctx_fail(c, PVI_USAGE, NOWHERE, "--select validation needs a split with a \"valid\" part");
  return s;
}

/* ---- scores of every part -------------------------------------------------------------------- */

/* Besides the log score: the log density at the mean of q (the difference is what the width of q is
 * worth), and the scores that the outcomes allow. */
enum { MOST_SCORES = SCORE_COUNT + 2 };

typedef struct {
  const char *names[MOST_SCORES];
  size_t nscores;
  size_t
      first; /* number of the first of `extra` among them: 2 where the log score is known, else 0 */
  ScoreId extra[SCORE_COUNT];
  int nextra;
  double *by_obs; /* [n_obs x nscores]; NaN where in no part */
  int *part;      /* n_obs */
  SummaryPart parts[PART_COUNT];
} Scores;

typedef struct {
  Ctx *c;
  const Model *m;
  const Fit *fit;
  const FitOptions *o;
  uint64_t seed;
  Pool *pool;
} Scorer;

static void add_metric(Scores *r, ScoreId id) {
  for (int k = 0; k < r->nextra; k++)
    if (r->extra[k] == id) return;
  r->extra[r->nextra++] = id;
  r->names[r->nscores++] = score_name(id);
}

/* The scores beyond the log score that can be had of every observation; those asked for by --metric
 * must be. */
static Scores *choose_scores(Ctx *c, const Model *m, const OptionList *asked) {
  Scores *r = NEW(&c->arena, Scores);
  static const ScoreId known[] = {SCORE_quadratic, SCORE_crps, SCORE_interval},
                       simulated[] = {SCORE_crps_sim, SCORE_energy};
  bool densities = model_has_densities(m);
  const char *why;
  if (densities) {
    r->names[r->nscores++] = "log";
    r->names[r->nscores++] = "log_at_mean";
  }
  r->first = r->nscores;
  for (int k = 0; k < (densities ? 3 : 2); k++) {
    ScoreId id = densities ? known[k] : simulated[k];
    if (observed_evaluates(c, m, id, &why)) add_metric(r, id);
  }
  for (int k = 0; k < asked->count; k++) {
    bool all = !strcmp(asked->items[k], "all");
    for (int id = 0; id < SCORE_COUNT; id++) {
      if (id == SCORE_log || !(all || !strcmp(asked->items[k], score_name((ScoreId)id)))) continue;
      if (observed_evaluates(c, m, (ScoreId)id, &why)) {
        add_metric(r, (ScoreId)id);
      } else if (!all) {
        ctx_fail(c, PVI_USAGE, NOWHERE, "--metric %s: %s", asked->items[k], why);
      }
    }
  }
  return r;
}

static void keep_scores(Scores *r, size_t score, const int32_t *obs, const double *v, size_t n) {
  for (size_t k = 0; k < n; k++) r->by_obs[(size_t)obs[k] * r->nscores + score] = v[k];
}

/* All scores of a batch of rows: memory is that of a batch. */
static void score_rows(const Scorer *s, const ModelRows *rows, Scores *r) {
  Ctx *c = s->c;
  TempArena *temp = temp_open(c);
  Arena *a = &temp->arena;
  const Q *q = &s->fit->q;
  Integrate how = s->o->target.integrate;
  double *v = NEW_ARRAY(a, double, rows->n), *mean = NEW_ARRAY(a, double, s->m->dim + 1);
  double *sd = NEW_ARRAY(a, double, s->m->dim + 1);
  int32_t *obs = NEW_ARRAY(a, int32_t, rows->n);
  model_numbers(s->m, rows, obs);
  q_moments(q, s->fit->phi, mean, sd);
  Observed *o = observed_of(a, s->m, rows, WANT_LL);
  bool reduce = how != INTEGRATE_DRAWS && r->first;
  if (reduce) observed_reduce(o);
  if (r->first) {
    predictive_log_scores(c, o, how, q, s->fit->phi, scoring_draws(SCORING_DRAWS, 2e9, s->m->n_obs),
                          rng_mix(s->seed + 77), s->pool, v);
    keep_scores(r, 0, obs, v, rows->n);
    predictive_point(c, o, mean, v);
    keep_scores(r, 1, obs, v, rows->n);
  }
  for (int k = 0; k < r->nextra; k++) {
    Target t = {.score = r->extra[k],
                .score_options = s->o->target.score_options,
                .regularizer = REG_PRIOR,
                .score_weight = 1,
                .integrate = how,
                .nodes = s->fit->exact ? s->fit->draws : 0};
    if (o->wants != target_wants(&t)) {
      o = observed_of(a, s->m, rows, target_wants(&t));
      if (reduce) observed_reduce(o);
    }
    predictive_scores(c, o, &t, q, s->fit->phi, scoring_draws(METRIC_DRAWS, 1e8, s->m->n_obs),
                      rng_mix(s->seed + 78), s->pool, v);
    keep_scores(r, r->first + (size_t)k, obs, v, rows->n);
  }
  temp_close(temp);
}

static void score_part(const Scorer *s, const size_t *rows, size_t n, int part, Scores *r) {
  SummaryScore *scores = NEW_ARRAY(&s->c->arena, SummaryScore, r->nscores);
  TempArena *temp = temp_open(s->c);
  Arena *a = &temp->arena;
  ModelRows all = model_rows(a, s->m, rows, n);
  for (size_t from = 0; from < n; from += BATCH_ROWS) {
    ModelRows batch = model_slice(a, s->m, &all, from, from + BATCH_ROWS);
    score_rows(s, &batch, r);
  }
  int32_t *obs = NEW_ARRAY(a, int32_t, n);
  double *v = NEW_ARRAY(a, double, n);
  model_numbers(s->m, &all, obs);
  for (size_t j = 0; j < r->nscores; j++) {
    for (size_t k = 0; k < n; k++) v[k] = r->by_obs[(size_t)obs[k] * r->nscores + j];
    scores[j] = summary_score(r->names[j], v, n);
  }
  for (size_t k = 0; k < n; k++) r->part[obs[k]] = part;
  r->parts[part] = (SummaryPart){scores, r->nscores};
  temp_close(temp);
}

static void score_parts(Ctx *c, const Model *m, const Split *split, const Fit *fit,
                        const FitOptions *o, Pool *pool, Scores *r) {
  Scorer s = {.c = c, .m = m, .fit = fit, .o = o, .seed = o->seed, .pool = pool};
  r->by_obs = NEW_ARRAY(&c->arena, double, m->n_obs * r->nscores);
  r->part = NEW_ARRAY(&c->arena, int, m->n_obs);
  for (size_t k = 0; k < m->n_obs * r->nscores; k++) r->by_obs[k] = NAN;
  for (size_t k = 0; k < m->n_obs; k++) r->part[k] = -1;
  for (int p = 0; p < PART_COUNT; p++)
    if (split->count[p]) score_part(&s, split->rows[p], split->count[p], p, r);
}

/* ---- draws ----------------------------------------------------------------------------------- */

/* Of the training observations, prior and Jacobian. */
static double *log_joint(Ctx *c, const Model *m, const Split *s, const ModelPoints *draws) {
  double *joint = NEW_ARRAY(&c->arena, double, draws->n);
  density_once(c, m, s->rows[PART_TRAIN], s->count[PART_TRAIN], draws,
               &(DensityOut){.log_density = joint});
  return joint;
}

/* Draws with weights become draws without: systematic resampling. */
static void resample(Ctx *c, size_t dim, double *theta, double *log_q, const double *w, size_t n,
                     size_t ld) {
  size_t *from = NEW_ARRAY(&c->arena, size_t, n), k = 0;
  double sum = w[0];
  for (size_t i = 0; i < n; i++) {
    while (k + 1 < n && sum < ((double)i + 0.5) / (double)n) sum += w[++k];
    from[i] = k;
  }
  double *row = NEW_ARRAY(&c->arena, double, ld);
  for (size_t d = 0; d <= dim; d++) {
    double *x = d < dim ? theta + d * ld : log_q;
    memcpy(row, x, ld * sizeof *row);
    for (size_t i = 0; i < n; i++) x[i] = row[from[i]];
  }
}

static Draws *make_draws(Ctx *c, const Model *m, const Split *s, const Fit *fit, const Args *a) {
  size_t n = (size_t)a->save_draws, ld = (n + LANES - 1) / LANES * LANES,
         ncols = model_output_count(m);
  double *log_q = NEW_ARRAY(&c->arena, double, ld);
  QDraws q = q_draws(&c->arena, &fit->q, n, ld, kernels_best());
  double *theta = NEW_ARRAY(&c->arena, double, m->dim *ld);
  for (size_t k = 0; k < q_noise(&fit->q); k++)
    rng_fill_normal(rng_make((uint64_t)a->seed, 4), 0, k, q.u + k * ld, n);
  q_draw(&fit->q, fit->phi, &q, theta);
  q_log_q(&fit->q, fit->phi, &q, log_q);
  if (q.weights) resample(c, m->dim, theta, log_q, q.weights, n, ld);
  const char **names = NEW_ARRAY(&c->arena, const char *, ncols);
  for (size_t k = 0; k < ncols; k++) names[k] = model_output_name(m, &c->arena, k, true);
  double *values = NEW_ARRAY(&c->arena, double, n *ncols),
         *mean = NEW_ARRAY(&c->arena, double, ncols);
  double *centre = NEW_ARRAY(&c->arena, double, m->dim + 1);
  double *sd = NEW_ARRAY(&c->arena, double, m->dim + 1);
  ModelPoints points = {theta, n, 1, ld};
  model_outputs(c, m, &points, (uint64_t)a->seed, values);
  q_moments(&fit->q, fit->phi, centre, sd);
  model_outputs(c, m, &(ModelPoints){centre, 1, 1, 1}, (uint64_t)a->seed + 1, mean);
  Draws *d = NEW(&c->arena, Draws);
  *d = (Draws){.ndraws = n,
               .ncols = ncols,
               .names = names,
               .values = values,
               .log_p = log_joint(c, m, s, &points),
               .log_g = log_q,
               .mean = mean};
  return d;
}

/* ---- the run folder -------------------------------------------------------------------------- */

/* Means and standard deviations for readers, and the slices of phi from which q can be made again.
 */
static void write_q(Ctx *c, RunDir *dir, const Model *m, const Fit *fit, const ReportKey *keys,
                    size_t nkeys) {
  const char **names = NEW_ARRAY(&c->arena, const char *, m->dim);
  for (size_t k = 0; k < m->dim; k++) names[k] = model_unconstrained_name(m, &c->arena, k);
  const Q *q = &fit->q;
  double *mean = NEW_ARRAY(&c->arena, double, m->dim), *sd = NEW_ARRAY(&c->arena, double, m->dim);
  q_moments(q, fit->phi, mean, sd);
  QArray arrays[FAMILY_PARTS + 4] = {{"means", Q_VECTOR, m->dim, 1, mean},
                                     {"sds", Q_VECTOR, m->dim, 1, sd}};
  size_t n = 2;
  FamilyPart parts[FAMILY_PARTS];
  int nparts = family_of(q->family)->parts(&q->shape, parts);
  for (int k = 0; k < nparts; k++)
    arrays[n++] = (QArray){parts[k].name, parts[k].cols == 1 ? Q_VECTOR : Q_MATRIX, parts[k].rows,
                           parts[k].cols, fit->phi + parts[k].offset};
  if (q->npoint)
    arrays[n++] = (QArray){"points", Q_VECTOR, q->npoint, 1, fit->phi + q_size(q) - q->npoint};
  q_write(dir, &(QFile){.family = family_name(q->family),
                        .dim = m->dim,
                        .names = names,
                        .keys = keys,
                        .nkeys = nkeys,
                        .arrays = arrays,
                        .narrays = n});
}

static void write_scores(Ctx *c, RunDir *dir, const Model *m, const Scores *s) {
  ScoreSite *sites = NEW_ARRAY(&c->arena, ScoreSite, m->nblocks + 1);
  uint32_t *site = NEW_ARRAY(&c->arena, uint32_t, m->n_obs);
  for (int b = 0; b < m->nblocks; b++) {
    sites[b] = (ScoreSite){m->blocks[b].name, m->blocks[b].loc.line};
    for (int32_t r = 0; r < m->blocks[b].rows; r++) site[m->blocks[b].obs[r]] = (uint32_t)b;
  }
  scores_write(dir, &(ScoreTable){.n = m->n_obs,
                                  .sites = sites,
                                  .site = site,
                                  .part = s->part,
                                  .nscores = s->nscores,
                                  .names = s->names,
                                  .values = s->by_obs});
}

static void write_trace(Ctx *c, RunDir *dir, const Fit *fit) {
  TraceRow *rows = NEW_ARRAY(&c->arena, TraceRow, fit->ntrace + 1);
  for (size_t k = 0; k < fit->ntrace; k++) {
    const FitTrace *t = &fit->trace[k];
    rows[k] = (TraceRow){t->iteration,   t->seconds,       t->objective, t->score,
                         t->regularizer, t->gradient_norm, t->step};
  }
  trace_write(dir, rows, fit->ntrace);
}

static const char *base_name(Ctx *c, const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path,
             *dot = strrchr(name, '.');
  return arena_text(&c->arena, name, dot ? (size_t)(dot - name) : strlen(name));
}

/* ---- the summary ----------------------------------------------------------------------------- */

static const char *regularizer_name(const Target *t) {
  return t->regularizer == REG_PRIOR ? "prior" : "posterior";
}

static Summary *make_summary(Ctx *c, const Args *a, const Model *m, const FitOptions *o,
                             const Fit *fit, const Scores *scores, const Draws *draws) {
  Summary *s = NEW(&c->arena, Summary);
  SummaryStart *starts = NEW_ARRAY(&c->arena, SummaryStart, fit->nstarts + 1);
  SummaryStage *stages = NEW_ARRAY(&c->arena, SummaryStage, fit->nstages + 1);
  SummaryCounter *counters = NEW_ARRAY(&c->arena, SummaryCounter, 1);
  for (size_t k = 0; k < fit->nstarts; k++)
    starts[k] = (SummaryStart){fit->starts[k].name, fit->starts[k].objective};
  for (size_t k = 0; k < fit->nstages; k++)
    stages[k] = (SummaryStage){(long)fit->stages[k].draws, fit->stages[k].objective,
                               fit->stages[k].fresh, fit->stages[k].gap};
  counters[0] = (SummaryCounter){"skipped_steps", fit->skipped};
  bool vi = o->target.score == SCORE_elbo;
  size_t nparameters = 0;
  while (nparameters < draws->ncols && model_output_is_parameter(m, nparameters)) nparameters++;
  *s = (Summary){.version = PVI_VERSION,
                 .program = a->place[0],
                 .data = a->place[1],
                 .seed = (uint64_t)a->seed,
                 .score = score_name(o->target.score),
                 .family = family_name(fit->q.family),
                 .regularizer = vi ? "prior" : regularizer_name(&o->target),
                 .lambda = vi ? 1 : o->target.lambda,
                 .exact = fit->exact,
                 .draws = (long)fit->draws,
                 .optimizer = optim_name(o->optimizer),
                 .converged = fit->converged,
                 .reason = fit->reason,
                 .objective = fit->value.value,
                 .evaluations = fit->evaluations,
                 .iterations = fit->iterations,
                 .seconds = fit->seconds,
                 .n_obs = m->n_obs,
                 .dim = m->dim,
                 .parameters = summary_parameters(c, draws),
                 .nparameters = nparameters,
                 .notes = fit->notes,
                 .nnotes = fit->nnotes,
                 .counters = counters,
                 .ncounters = 1,
                 .starts = starts,
                 .nstarts = fit->nstarts,
                 .stages = stages,
                 .nstages = fit->nstages};
  memcpy(s->parts, scores->parts, sizeof s->parts);
  return s;
}

static const char *first_score(const Summary *s) {
  for (int p = 0; p < PART_COUNT; p++)
    if (s->parts[p].count) return s->parts[p].scores[0].name;
  return "no";
}

static void print_summary(Ctx *c, const Summary *s, const char *dir) {
  Text t = text_make(&c->arena);
  static const char *const parts[PART_COUNT] = {"train", "valid", "test"};
  text_printf(&t, "%s score, %s, %s %s lambda %g: objective %.6g after %ld evaluations in %.2f s\n",
              s->score, s->family, s->regularizer, "regularizer", s->lambda, s->objective,
              s->evaluations, s->seconds);
  text_printf(&t, "%s: %s\n", s->converged ? "converged" : "NOT converged", s->reason);
  for (size_t k = 0; k < s->nnotes; k++) text_printf(&t, "note: %s\n", s->notes[k]);
  text_puts(&t, "\n");
  summary_table(&t, s, 30);
  text_puts(&t, "\n");
  Table *table = table_make(&c->arena, 5,
                            (const char *[]){arena_format(&c->arena, "%s score", first_score(s)),
                                             "n", "sum", "mean", "se(mean)"});
  for (int p = 0; p < PART_COUNT; p++) {
    if (!s->parts[p].count) continue;
    const SummaryScore *x = &s->parts[p].scores[0];
    table_word(table, parts[p]);
    table_integer(table, (long long)x->n);
    table_number(table, x->sum, 6);
    table_number(table, x->mean, 4);
    table_number(table, x->se, 2);
  }
  table_print(table, &t);
  if (dir) text_printf(&t, "\nrun folder: %s\n", dir);
  fputs(t.s, stdout);
}

/* ---- the command ----------------------------------------------------------------------------- */

static void show_progress(void *self, long evaluations, double objective, const char *stage) {
  progress_update(self, (size_t)evaluations, "%s, objective %.6g", stage, objective);
}

/* The names of a table's rows as the words of a choice. */
static const char *words(Ctx *c, int count, const char *(*name)(int)) {
  Text t = text_make(&c->arena);
  for (int k = 0; k < count; k++) text_printf(&t, k ? "|%s" : "%s", name(k));
  return t.s;
}
static const char *score_word(int k) { return score_name((ScoreId)k); }
static const char *family_word(int k) { return family_name((FamilyId)k); }
static const char *optim_word(int k) { return optim_name((OptimKind)k); }
static const char *schedule_word(int k) { return optim_schedule_name((OptimSchedule)k); }

static bool read_args(Ctx *c, Args *a, int argc, char **argv) {
  *a = (Args){.alpha = 0.1,
              .score = SCORE_log,
              .family = -1,
              .regularizer = REG_POSTERIOR,
              .lambda = 0.01,
              .seed = 1,
              .save_draws = 1000,
              .optimizer = OPTIM_LBFGS};
  const Option options[] = {
      {"score", OPT_CHOICE, words(c, SCORE_COUNT, score_word), &a->score, 0,
       "what to maximise: elbo is ordinary VI (default log)"},
      {"family", OPT_CHOICE, words(c, FAMILY_COUNT, family_word), &a->family, 0,
       "of q (default: full rank up to 30 parameters)"},
      {"regularize", OPT_CHOICE, "prior|posterior", &a->regularizer, 0,
       "towards what (default posterior)"},
      {"lambda", OPT_REAL, "X", &a->lambda, 0, "weight of the regularizer (default 0.01)"},
      {"interpolate", OPT_FLAG, NULL, &a->interpolate, 0,
       "lambda VI + (1 - lambda) PVI, lambda in [0, 1]"},
      {"alpha", OPT_REAL, "X", &a->alpha, 0,
       "interval score: of the interval of level 1 - X (default 0.1)"},
      {"point", OPT_LIST, "NAME", &a->points, 0,
       "estimate this parameter as a point; may be repeated"},
      {"metric", OPT_LIST, "NAME", &a->metrics, 0,
       "one more held-out score of --score's; all: every one; may be repeated"},
      {"components", OPT_INT, "N", &a->components, 1, "of a mixture (default 2)"},
      {"rank", OPT_INT, "N", &a->rank, 1, "of a low-rank covariance (default 5)"},
      {"knots", OPT_INT, "N", &a->knots, 2, "of splines (default 32)"},
      {"layers", OPT_INT, "N", &a->layers, 1, "of flows (default 2)"},
      {"hidden", OPT_INT, "N", &a->hidden, 1, "units in the networks of flows (default 16)"},
      {"integrate", OPT_CHOICE, "auto|exact|draws", &a->integrate, 0,
       "over q: exact is quadrature over the observations' predictors (default auto: exact where "
       "it can be)"},
      {"draws", OPT_INT, "M", &a->draws, 1,
       "draws of q per evaluation, and no exact integration (default: grow until fresh draws "
       "agree)"},
      {"optimizer", OPT_CHOICE, words(c, OPTIM_COUNT, optim_word), &a->optimizer, 0,
       "default lbfgs: on quadrature nodes or fixed draws"},
      {"estimator", OPT_CHOICE, "reparameterized|rejection", &a->estimator, 0,
       "of the log score's gradient; rejection: stochastic optimizers only"},
      {"iterations", OPT_INT, "N", &a->iterations, 1, "at most so many iterations"},
      {"learning-rate", OPT_REAL, "X", &a->learning_rate, 0, "of the stochastic optimizers"},
      {"schedule", OPT_CHOICE, words(c, SCHEDULE_COUNT, schedule_word), &a->schedule, 0,
       "of the learning rate (default constant)"},
      {"clip", OPT_REAL, "X", &a->clip, 0, "largest norm of a gradient; 0 does not clip (default)"},
      {"minibatch", OPT_INT, "N", &a->minibatch, 1,
       "observations per iteration (stochastic optimizers)"},
      {"select", OPT_CHOICE, "final|validation", &a->select, 0,
       "which iterate to keep (default final)"},
      {"split", OPT_TEXT, "FILE", &a->split, 0,
       "JSON with 1-based row numbers under train, valid, test"},
      {"holdout", OPT_REAL, "F", &a->holdout, 0,
       "a random fraction of the observations as test part"},
      {"start", OPT_TEXT, "Q.json", &a->start, 0,
       "q.json of an earlier fit of the same family: one more start"},
      {"simulate", OPT_TEXT, "NAME", &a->simulate, 0,
       "likelihood-free: the simulated outcome in generated quantities"},
      {"observed", OPT_TEXT, "NAME", &a->observed, 0,
       "the data variable that --simulate is compared with (default y)"},
      {"observe", OPT_LIST, "LINE", &a->observe, 0,
       "what this line adds to the log density are observations; may be repeated"},
      {"set", OPT_LIST, "NAME=VALUE", &a->sets, 0, "a data variable given here; may be repeated"},
      {"include", OPT_LIST, "DIR", &a->include, 0,
       "where #include looks besides the program's own folder"},
      {"save-draws", OPT_INT, "N", &a->save_draws, 1,
       "draws of q in the run folder (default 1000)"},
      {"seed", OPT_INT, "N", &a->seed, 0, "of all random numbers (default 1)"},
      {"threads", OPT_INT, "N", &a->threads, 0,
       "default: one per core; results do not depend on it"},
      {"out", OPT_TEXT, "DIR", &a->out, 0, "run folder (default pvi-runs/MODEL-SCORE)"},
      {"json", OPT_FLAG, NULL, &a->json, 0, "print summary.json instead of tables"},
      {"quiet", OPT_FLAG, NULL, &a->quiet, 0, "print nothing but errors"},
  };
  if (!cli_options(c, &command, options, sizeof options / sizeof *options, argc, argv, a->place, 1,
                   2))
    return false;
  a->shape = (Shape){.components = (size_t)a->components,
                     .rank = (size_t)a->rank,
                     .knots = (size_t)a->knots,
                     .layers = (size_t)a->layers,
                     .hidden = (size_t)a->hidden};
  if (a->components > 1000 || a->knots > 1000 || a->layers > 1000 || a->hidden > 10000 ||
      a->rank > 10000)
    ctx_fail(c, PVI_USAGE, NOWHERE,
             "at most 1000 components, knots and layers, 10000 hidden units and ranks");
  if (!(a->alpha > 0 && a->alpha < 1))
    ctx_fail(c, PVI_USAGE, NOWHERE, "--alpha lies between 0 and 1, not at %g", a->alpha);
  if (a->interpolate && (a->lambda > 1 || a->regularizer != REG_POSTERIOR))
    ctx_fail(c, PVI_USAGE, NOWHERE,
             "--interpolate takes --lambda in [0, 1] and the posterior regularizer");
  if (a->estimator && (a->optimizer == OPTIM_LBFGS || a->score != SCORE_log || a->minibatch))
    ctx_fail(
        c, PVI_USAGE, NOWHERE,
        "--estimator rejection goes with --score log, a stochastic optimizer and no --minibatch");
  for (int k = 0; k < a->metrics.count; k++) {
    ScoreId id;
    if (strcmp(a->metrics.items[k], "all") != 0 && !score_find(a->metrics.items[k], &id))
      ctx_fail(c, PVI_USAGE, NOWHERE, "--metric %s: no such score; --help lists them under --score",
               a->metrics.items[k]);
  }
  if (a->minibatch && a->optimizer == OPTIM_LBFGS)
    ctx_fail(
        c, PVI_USAGE, NOWHERE,
        "--minibatch needs a stochastic optimizer: --optimizer adam, rmsprop, sgd or nesterov");
  return true;
}

/* phi from a q.json: its slices, by name. */
typedef struct {
  Ctx *c;
  const char *path;
} StartFile;

static const double *read_start(void *self, const Q *q) {
  const StartFile *f = self;
  QFile *file = q_read(f->c, f->path);
  FamilyPart parts[FAMILY_PARTS];
  int n = family_of(q->family)->parts(&q->shape, parts);
  if (strcmp(file->family, family_name(q->family)) != 0)
    ctx_fail(f->c, PVI_DATA, NOWHERE, "%s holds a %s, this fit is of a %s", f->path, file->family,
             family_name(q->family));
  double *phi = NEW_ARRAY(&f->c->arena, double, q_size(q));
  for (int k = 0; k < n + (q->npoint != 0); k++) {
    FamilyPart p = k < n ? parts[k] : (FamilyPart){"points", q_size(q) - q->npoint, q->npoint, 1};
    const QArray *a = q_array(file, p.name);
    if (!a || q_array_count(a) != p.rows * p.cols)
      ctx_fail(f->c, PVI_DATA, NOWHERE, "%s: \"%s\" must have %zu numbers", f->path, p.name,
               p.rows * p.cols);
    memcpy(phi + p.offset, a->values, p.rows * p.cols * sizeof *phi);
  }
  return phi;
}

static FitOptions fit_options(const Args *a, Progress *progress) {
  return (FitOptions){.target = {.score = (ScoreId)a->score,
                                 .score_options = {.alpha = a->alpha},
                                 .regularizer = (Regularizer)a->regularizer,
                                 .lambda = a->lambda,
                                 .score_weight = a->interpolate ? 1 - a->lambda : 1,
                                 .integrate = (Integrate)a->integrate},
                      .family = a->family < 0 ? FAMILY_meanfield : (FamilyId)a->family,
                      .shape = a->shape,
                      .choose_family = a->family < 0,
                      .points = a->points.items,
                      .npoints = a->points.count,
                      .draws = (size_t)a->draws,
                      .optimizer = (OptimKind)a->optimizer,
                      .iterations = a->iterations,
                      .learning_rate = a->learning_rate,
                      .schedule = (OptimSchedule)a->schedule,
                      .clip = a->clip,
                      .minibatch = (size_t)a->minibatch,
                      .rejection = a->estimator == 1,
                      .select_validation = a->select == 1,
                      .seed = (uint64_t)a->seed,
                      .progress = a->quiet ? NULL : show_progress,
                      .progress_self = progress};
}

_Noreturn static void no_observations(Ctx *c, const Data *d) {
  for (size_t k = 0; k < d->vars.count; k++) {
    const DataVar *v = d->vars.items[k].value;
    if (v->ndims && !v->n)
      ctx_fail(c, PVI_DATA, v->loc, "nothing was observed: %s is empty", v->name);
  }
  ctx_fail(c, PVI_PROGRAM, NOWHERE,
           "the program makes no observation: no density of data is in its log density; --observe "
           "LINE names a statement that makes "
           "some");
}

Status cmd_fit(Ctx *c, int argc, char **argv) {
  Args a;
  if (!read_args(c, &a, argc, argv)) return PVI_OK;
  const Program *program = cli_program(c, a.place[0], &a.include);
  Data *data = cli_data(c, a.place[1], &a.sets);
  ModelOptions asked = {.simulate = a.simulate, .observed = a.observed};
  const Model *model = cli_model(c, program, data, asked, &a.observe);
  if (!model->n_obs) no_observations(c, data);
  Split *split = make_split(c, &a, model);
  const char *name = base_name(c, a.place[0]);
  RunDir *dir = run_open(
      c, a.out ? a.out
               : arena_format(&c->arena, "pvi-runs/%s-%s", name, score_name((ScoreId)a.score)));
  Pool *pool = pool_make(c, (int)a.threads);
  long steps = a.optimizer == OPTIM_LBFGS ? 0
               : a.iterations             ? a.iterations
                                          : optim_defaults((OptimKind)a.optimizer).max_iterations;
  Progress progress = progress_make(name, (size_t)steps); /* L-BFGS: no telling how long */
  FitOptions options = fit_options(&a, &progress);
  StartFile start = {c, a.start};
  if (a.start) options.start = read_start, options.start_self = &start;
  Scores *scores = choose_scores(c, model, &a.metrics);
  Fit *fit = fit_run(c, model, split, &options, pool);
  progress_end(&progress);
  score_parts(c, model, split, fit, &options, pool, scores);
  pool_free(pool);
  Draws *draws = make_draws(c, model, split, fit, &a);
  Summary *summary = make_summary(c, &a, model, &options, fit, scores, draws);

  ReportKey keys[] = {{"score", summary->score},
                      {"family", summary->family},
                      {"regularizer", summary->regularizer},
                      {"lambda", arena_format(&c->arena, "%g", summary->lambda)},
                      {"objective", arena_format(&c->arena, "%.10g", summary->objective)}};
  CmdstanRun run = {.model = arena_format(&c->arena, "%s_model", name),
                    .data_file = a.place[1],
                    .seed = (uint64_t)a.seed,
                    .predictive = options.target.score != SCORE_elbo,
                    .keys = keys,
                    .nkeys = 5};
  cmdstan_write_variational(
      dir, "draws", draws, &run,
      &(CmdstanVariational){.algorithm = family_name(fit->q.family),
                            .grad_samples = fit->exact ? 0 : (long)fit->draws});
  write_q(c, dir, model, fit, keys, 4);
  write_trace(c, dir, fit);
  write_scores(c, dir, model, scores);
  summary_write(dir, summary);
  Text json = text_make(&c->arena);
  summary_json(&json, summary);
  if (a.json) {
    fputs(json.s, stdout);
  } else if (!a.quiet) {
    print_summary(c, summary, dir->path);
  }
  return fit->converged ? PVI_OK : PVI_NOT_CONVERGED;
}
