/* fit.c: pvi fit: program, data -> q, a run folder, a summary. */
#include "cli/cli.h"

#include "infer/fit.h"
#include "num/rng.h"
#include "report/report.h"
#include "report/table.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static const Command command = {
    "fit", "MODEL DATA [options]",
    "Finds the distribution q of the parameters whose predictions score best, sum_i S(predictive, y_i) - lambda r(q);\n"
    "--score elbo is ordinary variational inference. Writes a run folder and prints a summary.",
    "  pvi fit examples/golf/logistic.stan examples/golf/golf.csv --lambda 0\n"
    "  pvi fit model.stan data.json --score elbo --family fullrank --out vi\n"
    "  pvi fit model.stan data.json --split split.json --regularize prior --lambda 0.01 --json\n"
    "  pvi fit model.stan data.json --optimizer rmsprop --iterations 20000 --learning-rate 1e-4 --schedule step\n"};

enum { SCORING_DRAWS = 16384 };

typedef struct {
  const char *place[2];
  OptionList sets, include;
  int score, family, regularizer, optimizer, schedule, select;
  double lambda, learning_rate, clip, holdout;
  long draws, iterations, minibatch, seed, threads, save_draws;
  const char *split, *out;
  bool json, quiet;
} Args;

/* ---- the split ---------------------------------------------------------------------------------------------------- */

static Split *make_split(Ctx *c, const Args *a, const Model *m) {
  if (a->split && a->holdout > 0) ctx_fail(c, PVI_USAGE, NOWHERE, "--split and --holdout exclude each other");
  if (a->holdout >= 1) ctx_fail(c, PVI_USAGE, NOWHERE, "--holdout is a fraction below 1, not %g", a->holdout);
  Split *s = a->split         ? split_read(c, a->split, m->n_obs)
             : a->holdout > 0 ? split_holdout(c, m->n_obs, a->holdout, (uint64_t)a->seed)
                              : split_all(c, m->n_obs);
  if (!s->count[PART_TRAIN]) ctx_fail(c, PVI_DATA, NOWHERE, "no observation is left to train on");
  if (a->select && !s->count[PART_VALID])
    ctx_fail(c, PVI_USAGE, NOWHERE, "--select validation needs a split with a \"valid\" part");
  return s;
}

/* ---- scores of every part ----------------------------------------------------------------------------------------- */

enum { SCORE_PREDICTIVE, SCORE_AT_MEAN, NSCORES };
static const char *const score_names[NSCORES] = {"log", "log_at_mean"};

typedef struct {
  double *by_obs; /* [n_obs x NSCORES]; NaN where in no part */
  int *part;      /* n_obs */
  SummaryPart parts[PART_COUNT];
} Scores;

/* The predictive log score, and the log density at the mean of q: the difference is what the width of q is worth. */
static Scores score_parts(Ctx *c, const Model *m, const Split *s, const Fit *fit, uint64_t seed, Pool *pool) {
  Arena *a = &c->arena;
  Scores r = {.by_obs = NEW_ARRAY(a, double, m->n_obs * NSCORES), .part = NEW_ARRAY(a, int, m->n_obs)};
  for (size_t k = 0; k < m->n_obs * NSCORES; k++) r.by_obs[k] = NAN;
  for (size_t k = 0; k < m->n_obs; k++) r.part[k] = -1;
  double *mean = NEW_ARRAY(a, double, m->dim + 1), *sd = NEW_ARRAY(a, double, m->dim + 1);
  family_of(fit->family)->moments(fit->phi, &fit->shape, mean, sd);
  for (int p = 0; p < PART_COUNT; p++) {
    size_t n = s->count[p];
    if (!n) continue;
    int32_t *obs = NEW_ARRAY(a, int32_t, n);
    Tape *tape = model_tape(m, s->rows[p], n, obs, WANT_LL);
    double *v[NSCORES] = {NEW_ARRAY(a, double, n), NEW_ARRAY(a, double, n)};
    predictive_scores(c, m, tape, fit->family, &fit->shape, fit->phi, SCORING_DRAWS, rng_mix(seed + 77), pool, v[SCORE_PREDICTIVE]);
    predictive_point(c, m, tape, mean, v[SCORE_AT_MEAN]);
    SummaryScore *scores = NEW_ARRAY(a, SummaryScore, NSCORES);
    for (int j = 0; j < NSCORES; j++) {
      scores[j] = summary_score(score_names[j], v[j], n);
      for (size_t k = 0; k < n; k++) r.by_obs[(size_t)obs[k] * NSCORES + (size_t)j] = v[j][k];
    }
    for (size_t k = 0; k < n; k++) r.part[obs[k]] = p;
    r.parts[p] = (SummaryPart){scores, NSCORES};
  }
  return r;
}

/* ---- draws -------------------------------------------------------------------------------------------------------- */

typedef struct {
  size_t lanes;
  double *sum; /* per draw: log likelihood of the training observations */
} Totals;

static void add_rows(void *self, const TileView *v) {
  Totals *t = self;
  for (size_t r = 0; r < v->rows; r++)
    for (size_t j = 0; j < t->lanes; j++) t->sum[j] += v->heads[0][r * t->lanes + j];
}

static double *log_joint(Ctx *c, const Model *m, const Split *s, const double *theta, size_t lanes) {
  Work *w = vm_work(&c->arena, model_tape(m, s->rows[PART_TRAIN], s->count[PART_TRAIN], NULL, WANT_LL), lanes, NULL);
  Totals t = {lanes, NEW_ARRAY(&c->arena, double, lanes)};
  vm_forward(w, theta);
  vm_tiles(w, add_rows, &t, false);
  const double *prior = vm_value(w, ROOT_PRIOR, 0), *jacobian = vm_value(w, ROOT_JACOBIAN, 0);
  for (size_t j = 0; j < lanes; j++) t.sum[j] += prior[j] + jacobian[j];
  return t.sum;
}

static Draws *make_draws(Ctx *c, const Model *m, const Split *s, const Fit *fit, const Args *a) {
  const Family *family = family_of(fit->family);
  size_t n = (size_t)a->save_draws, ld = (n + LANES - 1) / LANES * LANES, ncols = model_output_count(m);
  size_t rows = family->noise(&fit->shape);
  double *u = NEW_ARRAY(&c->arena, double, rows * ld), *theta = NEW_ARRAY(&c->arena, double, m->dim * ld);
  for (size_t k = 0; k < rows; k++) rng_fill_normal(rng_make((uint64_t)a->seed, 4), 0, k, u + k * ld, n);
  Noise noise = {.shape = &fit->shape, .M = n, .ld = ld, .u = u, .k = kernels_best()};
  if (family->scratch) noise.scratch = NEW_ARRAY(&c->arena, double, family->scratch(&fit->shape, ld));
  family->draw(fit->phi, &noise, theta);
  Draws *d = NEW(&c->arena, Draws);
  const char **names = NEW_ARRAY(&c->arena, const char *, ncols);
  for (size_t k = 0; k < ncols; k++) names[k] = model_output_name(m, &c->arena, k, true);
  double *values = NEW_ARRAY(&c->arena, double, n * ncols), *mean = NEW_ARRAY(&c->arena, double, ncols);
  double *log_q = NEW_ARRAY(&c->arena, double, ld), *centre = NEW_ARRAY(&c->arena, double, m->dim + 1);
  double *sd = NEW_ARRAY(&c->arena, double, m->dim + 1);
  model_outputs(m, theta, ld, n, (uint64_t)a->seed, values);
  family->log_q(fit->phi, &noise, log_q);
  family->moments(fit->phi, &fit->shape, centre, sd);
  model_outputs(m, centre, 1, 1, (uint64_t)a->seed + 1, mean);
  *d = (Draws){.ndraws = n, .ncols = ncols, .names = names, .values = values, .log_p = log_joint(c, m, s, theta, ld),
               .log_g = log_q, .mean = mean};
  return d;
}

/* ---- the run folder ----------------------------------------------------------------------------------------------- */

static void write_q(Ctx *c, RunDir *dir, const Model *m, const Fit *fit, const ReportKey *keys, size_t nkeys) {
  const char **names = NEW_ARRAY(&c->arena, const char *, m->dim);
  for (size_t k = 0; k < m->dim; k++) names[k] = model_unconstrained_name(m, &c->arena, k);
  const Family *family = family_of(fit->family);
  double *mean = NEW_ARRAY(&c->arena, double, m->dim), *sd = NEW_ARRAY(&c->arena, double, m->dim);
  family->moments(fit->phi, &fit->shape, mean, sd);
  QArray arrays[3] = {{"mean", Q_VECTOR, m->dim, 1, mean}, {"sd", Q_VECTOR, m->dim, 1, sd}};
  size_t narrays = 2;
  if (fit->family == FAMILY_fullrank) {
    double *L = NEW_ARRAY(&c->arena, double, m->dim * (m->dim + 1) / 2);
    for (size_t i = 0, k = 0; i < m->dim; i++)
      for (size_t j = 0; j <= i; j++, k++) L[k] = i == j ? family_sd(fit->phi[m->dim + k]) : fit->phi[m->dim + k];
    arrays[narrays++] = (QArray){"cholesky", Q_LOWER, m->dim, m->dim, L};
  }
  q_write(dir, &(QFile){.family = family_name(fit->family), .dim = m->dim, .names = names, .keys = keys, .nkeys = nkeys,
                        .arrays = arrays, .narrays = narrays});
}

static void write_scores(Ctx *c, RunDir *dir, const Model *m, const Scores *s) {
  ScoreSite *sites = NEW_ARRAY(&c->arena, ScoreSite, m->nblocks + 1);
  uint32_t *site = NEW_ARRAY(&c->arena, uint32_t, m->n_obs);
  for (int b = 0; b < m->nblocks; b++) {
    sites[b] = (ScoreSite){m->blocks[b].name, m->blocks[b].loc.line};
    for (int32_t r = 0; r < m->blocks[b].rows; r++) site[m->blocks[b].obs[r]] = (uint32_t)b;
  }
  scores_write(dir, &(ScoreTable){.n = m->n_obs, .sites = sites, .site = site, .part = s->part, .nscores = NSCORES,
                                  .names = score_names, .values = s->by_obs});
}

static void write_trace(Ctx *c, RunDir *dir, const Fit *fit) {
  TraceRow *rows = NEW_ARRAY(&c->arena, TraceRow, fit->ntrace + 1);
  for (size_t k = 0; k < fit->ntrace; k++) {
    const FitTrace *t = &fit->trace[k];
    rows[k] = (TraceRow){t->iteration, t->seconds, t->objective, t->score, t->regularizer, t->gradient_norm, t->step};
  }
  trace_write(dir, rows, fit->ntrace);
}

static const char *base_name(Ctx *c, const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
  return arena_text(&c->arena, name, dot ? (size_t)(dot - name) : strlen(name));
}

/* ---- the summary -------------------------------------------------------------------------------------------------- */

static const char *regularizer_name(const Target *t) { return t->regularizer == REG_PRIOR ? "prior" : "posterior"; }

static Summary *make_summary(Ctx *c, const Args *a, const Model *m, const FitOptions *o, const Fit *fit, const Scores *scores,
                             const Draws *draws) {
  Summary *s = NEW(&c->arena, Summary);
  SummaryStart *starts = NEW_ARRAY(&c->arena, SummaryStart, fit->nstarts + 1);
  SummaryStage *stages = NEW_ARRAY(&c->arena, SummaryStage, fit->nstages + 1);
  SummaryCounter *counters = NEW_ARRAY(&c->arena, SummaryCounter, 1);
  for (size_t k = 0; k < fit->nstarts; k++) starts[k] = (SummaryStart){fit->starts[k].name, fit->starts[k].objective};
  for (size_t k = 0; k < fit->nstages; k++)
    stages[k] = (SummaryStage){(long)fit->stages[k].draws, fit->stages[k].objective, fit->stages[k].fresh, fit->stages[k].gap};
  counters[0] = (SummaryCounter){"skipped_steps", fit->skipped};
  bool vi = o->target.score == SCORE_elbo;
  size_t nparameters = 0;
  while (nparameters < draws->ncols && model_output_is_parameter(m, nparameters)) nparameters++;
  *s = (Summary){.version = PVI_VERSION, .program = a->place[0], .data = a->place[1], .seed = (uint64_t)a->seed,
                 .score = score_name(o->target.score), .family = family_name(fit->family),
                 .regularizer = vi ? "prior" : regularizer_name(&o->target), .lambda = vi ? 1 : o->target.lambda,
                 .draws = (long)fit->draws, .optimizer = optim_name(o->optimizer), .converged = fit->converged,
                 .reason = fit->reason, .objective = fit->value.value, .evaluations = fit->evaluations,
                 .iterations = fit->iterations, .seconds = fit->seconds, .n_obs = m->n_obs, .dim = m->dim,
                 .parameters = summary_parameters(c, draws), .nparameters = nparameters, .notes = fit->notes,
                 .nnotes = fit->nnotes, .counters = counters, .ncounters = 1, .starts = starts, .nstarts = fit->nstarts,
                 .stages = stages, .nstages = fit->nstages};
  memcpy(s->parts, scores->parts, sizeof s->parts);
  return s;
}

static void print_summary(Ctx *c, const Summary *s, const char *dir) {
  Text t = text_make(&c->arena);
  static const char *const parts[PART_COUNT] = {"train", "valid", "test"};
  text_printf(&t, "%s score, %s, %s %s lambda %g: objective %.6g after %ld evaluations in %.2f s\n", s->score, s->family,
              s->regularizer, "regularizer", s->lambda, s->objective, s->evaluations, s->seconds);
  text_printf(&t, "%s: %s\n", s->converged ? "converged" : "NOT converged", s->reason);
  for (size_t k = 0; k < s->nnotes; k++) text_printf(&t, "note: %s\n", s->notes[k]);
  text_puts(&t, "\n");
  summary_table(&t, s, 30);
  text_puts(&t, "\n");
  Table *table = table_make(&c->arena, 5, (const char *[]){"log score", "n", "sum", "mean", "se(mean)"});
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

/* ---- the command -------------------------------------------------------------------------------------------------- */

static void show_progress(void *self, long evaluations, double objective, const char *stage) {
  progress_update(self, (size_t)evaluations, "%s, objective %.6g", stage, objective);
}

static bool read_args(Ctx *c, Args *a, int argc, char **argv) {
  *a = (Args){.score = SCORE_log, .family = -1, .regularizer = REG_POSTERIOR, .lambda = 0.01, .seed = 1, .save_draws = 1000,
              .optimizer = OPTIM_LBFGS};
  const Option options[] = {
      {"score", OPT_CHOICE, "elbo|log", &a->score, 0, "what to maximise: elbo is ordinary VI (default log)"},
      {"family", OPT_CHOICE, "meanfield|fullrank", &a->family, 0, "of q (default: full rank up to 30 parameters)"},
      {"regularize", OPT_CHOICE, "prior|posterior", &a->regularizer, 0, "towards what (default posterior)"},
      {"lambda", OPT_REAL, "X", &a->lambda, 0, "weight of the regularizer (default 0.01)"},
      {"draws", OPT_INT, "M", &a->draws, 1, "draws of q per evaluation (default: grow until fresh draws agree)"},
      {"optimizer", OPT_CHOICE, "lbfgs|adam|rmsprop|sgd|nesterov", &a->optimizer, 0, "default lbfgs on fixed draws"},
      {"iterations", OPT_INT, "N", &a->iterations, 1, "at most so many iterations"},
      {"learning-rate", OPT_REAL, "X", &a->learning_rate, 0, "of the stochastic optimizers"},
      {"schedule", OPT_CHOICE, "constant|step|warmup-cosine", &a->schedule, 0, "of the learning rate (default constant)"},
      {"clip", OPT_REAL, "X", &a->clip, 0, "largest norm of a gradient; 0 does not clip (default)"},
      {"minibatch", OPT_INT, "N", &a->minibatch, 1, "observations per iteration (stochastic optimizers)"},
      {"select", OPT_CHOICE, "final|validation", &a->select, 0, "which iterate to keep (default final)"},
      {"split", OPT_TEXT, "FILE", &a->split, 0, "JSON with 1-based row numbers under train, valid, test"},
      {"holdout", OPT_REAL, "F", &a->holdout, 0, "a random fraction of the observations as test part"},
      {"set", OPT_LIST, "NAME=VALUE", &a->sets, 0, "a data variable given here; may be repeated"},
      {"include", OPT_LIST, "DIR", &a->include, 0, "where #include looks besides the program's own folder"},
      {"save-draws", OPT_INT, "N", &a->save_draws, 1, "draws of q in the run folder (default 1000)"},
      {"seed", OPT_INT, "N", &a->seed, 0, "of all random numbers (default 1)"},
      {"threads", OPT_INT, "N", &a->threads, 0, "default: one per core; results do not depend on it"},
      {"out", OPT_TEXT, "DIR", &a->out, 0, "run folder (default pvi-runs/MODEL-SCORE)"},
      {"json", OPT_FLAG, NULL, &a->json, 0, "print summary.json instead of tables"},
      {"quiet", OPT_FLAG, NULL, &a->quiet, 0, "print nothing but errors"},
  };
  if (!cli_options(c, &command, options, sizeof options / sizeof *options, argc, argv, a->place, 1, 2)) return false;
  if (a->minibatch && a->optimizer == OPTIM_LBFGS)
    ctx_fail(c, PVI_USAGE, NOWHERE, "--minibatch needs a stochastic optimizer: --optimizer adam, rmsprop, sgd or nesterov");
  return true;
}

static FitOptions fit_options(const Args *a, Progress *progress) {
  return (FitOptions){.target = {(ScoreId)a->score, a->family < 0 ? FAMILY_meanfield : (FamilyId)a->family, {0},
                                 (Regularizer)a->regularizer, a->lambda},
                      .choose_family = a->family < 0, .draws = (size_t)a->draws, .optimizer = (OptimKind)a->optimizer,
                      .iterations = a->iterations, .learning_rate = a->learning_rate, .schedule = (OptimSchedule)a->schedule,
                      .clip = a->clip, .minibatch = (size_t)a->minibatch, .select_validation = a->select == 1,
                      .seed = (uint64_t)a->seed, .progress = a->quiet ? NULL : show_progress, .progress_self = progress};
}

Status cmd_fit(Ctx *c, int argc, char **argv) {
  Args a;
  if (!read_args(c, &a, argc, argv)) return PVI_OK;
  Program *program = cli_program(c, a.place[0], &a.include);
  Model *model = model_make(c, program, cli_data(c, a.place[1], &a.sets));
  if (!model->n_obs) ctx_fail(c, PVI_PROGRAM, NOWHERE, "the program makes no observation: no density of data is in its log density");
  Split *split = make_split(c, &a, model);
  const char *name = base_name(c, a.place[0]);
  RunDir *dir = run_open(c, a.out ? a.out : arena_format(&c->arena, "pvi-runs/%s-%s", name, score_name((ScoreId)a.score)));
  Pool *pool = pool_make(c, (int)a.threads);
  Progress progress = progress_make(name, 0);
  FitOptions options = fit_options(&a, &progress);
  Fit *fit = fit_run(c, model, split, &options, pool);
  progress_end(&progress);
  Scores scores = score_parts(c, model, split, fit, (uint64_t)a.seed, pool);
  pool_free(pool);
  Draws *draws = make_draws(c, model, split, fit, &a);
  Summary *summary = make_summary(c, &a, model, &options, fit, &scores, draws);

  ReportKey keys[] = {{"score", summary->score},
                      {"family", summary->family},
                      {"regularizer", summary->regularizer},
                      {"lambda", arena_format(&c->arena, "%g", summary->lambda)},
                      {"objective", arena_format(&c->arena, "%.10g", summary->objective)}};
  CmdstanRun run = {.model = arena_format(&c->arena, "%s_model", name), .data_file = a.place[1], .seed = (uint64_t)a.seed,
                    .predictive = options.target.score != SCORE_elbo, .keys = keys, .nkeys = 5};
  cmdstan_write_variational(dir, "draws", draws, &run,
                            &(CmdstanVariational){.algorithm = family_name(fit->family), .grad_samples = (long)fit->draws});
  write_q(c, dir, model, fit, keys, 4);
  write_trace(c, dir, fit);
  write_scores(c, dir, model, &scores);
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
