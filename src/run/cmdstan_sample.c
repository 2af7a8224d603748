/* cmdstan_sample.c: method=sample: chains as Stan runs them, from random points, with its windows
 * of warm-up, and a CSV file for each chain (cmdstan_run.h). */
#include "run/cmdstan_run.h"

#include "data/json.h"
#include "infer/sampler.h"

#include <math.h>
#include <string.h>

typedef struct {
  CmdstanCall *k;
  long warmup, total, refresh, told; /* told: the last iteration that was */
  size_t chains;
} Telling;

/* ---- progress -------------------------------------------------------------------------------- */

static int digits_of(long n) {
  int d = 1;
  while (n >= 10) n /= 10, d++;
  return d;
}

/* In front of what is said of one of several chains. */
static const char *chain_words(const Telling *t, size_t j) {
  long id = cmdstan_whole(t->k->args, ARG_id) + (long)j;
  return t->chains > 1 ? arena_format(&t->k->c->arena, "Chain [%ld] ", id) : "";
}

static void tell_iteration(const Telling *t, long i) {
  for (size_t j = 0; j < t->chains; j++)
    console_say(t->k->out, t->k->c, "%sIteration: %*ld / %ld [%3ld%%]  (%s)\n", chain_words(t, j),
                digits_of(t->total), i, t->total, 100 * i / t->total,
                i <= t->warmup ? "Warmup" : "Sampling");
}

/* The first iteration, every refresh-th, the first that counts, and the last. */
static bool is_told(const Telling *t, long i) {
  return i == 1 || i % t->refresh == 0 || i == t->warmup + 1 || i == t->total;
}

static void tell_until(Telling *t, long done) {
  if (t->refresh <= 0) return;
  while (t->told < done && t->told < t->total)
    if (is_told(t, ++t->told)) tell_iteration(t, t->told);
}

/* Chains go nearly in step: what they have done on average is told of all. */
static void on_progress(void *self, const FitProgress *p) {
  Telling *t = self;
  tell_until(t, p->iterations / (long)t->chains);
}

static bool is_cancelled(void *self) {
  const RunHooks *h = &((Telling *)self)->k->hooks;
  return h->cancelled && h->cancelled(h->self);
}

static void say_elapsed(const Telling *t, double warmup, double sampling) {
  for (size_t j = 0; j < t->chains; j++) {
    const char *chain = chain_words(t, j);
    console_say(t->k->out, t->k->c,
                "\n%s Elapsed Time: %.3f seconds (Warm-up)\n%s               %.3f seconds "
                "(Sampling)\n%s               %.3f seconds (Total)\n\n",
                chain, warmup, chain, sampling, chain, warmup + sampling);
  }
}

/* ---- what was asked -------------------------------------------------------------------------- */

/* {"inv_metric": [...]}; of several files the first, for all chains share their metric. */
static void read_metric(const CmdstanCall *k, bool dense, Metric *m) {
  const char *word = k->args->value[ARG_metric_file];
  size_t n, dim = k->model->dim;
  if (!*word) return;
  const char *path = arena_text(&k->c->arena, word, strcspn(word, ","));
  const Json *file = json_read_file(k->c, path, JSON_STAN), *j = json_get(file, "inv_metric"), *bad;
  const double *values = j ? json_flatten(k->c, j, &n, &bad) : NULL;
  if (!values || n != (dense ? dim * dim : dim))
    ctx_fail(k->c, PVI_DATA, file->loc,
             "Cannot get inverse metric from input file: \"inv_metric\" must have %zu%s numbers",
             dim, dense ? " times as many" : "");
  for (size_t d = 0; !dense && d < dim; d++)
    if (!(values[d] > 0))
      ctx_fail(k->c, PVI_DATA, j->loc, "Inverse Euclidean metric not positive definite.");
  if (!dense) metric_diagonal(m, values);
  if (dense && !metric_dense(m, values))
    ctx_fail(k->c, PVI_DATA, j->loc, "Inverse Euclidean metric not positive definite.");
}

static MetricKind metric_of(const CmdstanCall *k, Metric *m) {
  bool unit = cmdstan_is(k->args, ARG_metric, "unit_e"),
       dense = cmdstan_is(k->args, ARG_metric, "dense_e");
  if (dense && k->model->dim > MOST_DENSE)
    ctx_fail(k->c, PVI_USAGE, NOWHERE,
             "metric=dense_e is for at most %d parameters, and this program has %zu: use "
             "metric=diag_e",
             MOST_DENSE, k->model->dim);
  if (!unit) read_metric(k, dense, m);
  return unit ? METRIC_AS_GIVEN : dense ? METRIC_DENSE : METRIC_DIAG;
}

static SampleOptions options_of(const CmdstanCall *k, WarmupPlan *plan, Telling *t) {
  const CmdstanArgs *a = k->args;
  *plan =
      (WarmupPlan){(size_t)cmdstan_whole(a, ARG_init_buffer), (size_t)cmdstan_whole(a, ARG_window),
                   (size_t)cmdstan_whole(a, ARG_term_buffer)};
  bool as_given = !cmdstan_flag(a, ARG_engaged) || !cmdstan_whole(a, ARG_num_warmup);
  double step = cmdstan_number(a, ARG_stepsize);
  return (SampleOptions){.method = SAMPLER_nuts,
                         .chains = t->chains,
                         .warmup = (size_t)cmdstan_whole(a, ARG_num_warmup),
                         .draws = (size_t)cmdstan_whole(a, ARG_num_samples),
                         .accept = cmdstan_number(a, ARG_delta),
                         .seed = k->seed,
                         .chain =
                             (uint64_t)cmdstan_whole(a, ARG_id) - (cmdstan_whole(a, ARG_id) > 0),
                         .depth = cmdstan_whole(a, ARG_max_depth),
                         .step = as_given || !cmdstan_is(a, ARG_stepsize, "1") ? step : 0,
                         .as_given = as_given,
                         .plan = plan,
                         .keep_warmup = cmdstan_flag(a, ARG_save_warmup),
                         .progress = on_progress,
                         .cancelled = is_cancelled,
                         .self = t};
}

/* ---- files ----------------------------------------------------------------------------------- */

static const char *const stat_names[] = {"lp__",        "accept_stat__", "stepsize__",
                                         "treedepth__", "n_leapfrog__",  "divergent__",
                                         "energy__"};
enum { NSTATS = sizeof stat_names / sizeof *stat_names };

/* Every thin-th draw of one chain: points, and what goes with them. */
typedef struct {
  size_t n, warm; /* the first `warm` are of warm-up */
  double *theta;
  DrawsColumn columns[NSTATS];
} Kept;

/* One draw and its stats become row i. */
static void keep(Kept *x, size_t i, const double *theta, size_t dim, const DrawStats *s) {
  const double row[] = {s->lp, s->accept, s->step, s->depth, s->leapfrogs, s->divergent, s->energy};
  memcpy(x->theta + i * dim, theta, dim * sizeof *theta);
  for (size_t c = 0; c < NSTATS; c++) ((double *)x->columns[c].values)[i] = row[c];
}

static Kept keep_chain(const CmdstanCall *k, const Sample *s, size_t j) {
  size_t thin = (size_t)cmdstan_whole(k->args, ARG_thin), dim = s->dim, warm = s->before[j].n;
  Kept x = {.warm = (warm + thin - 1) / thin};
  x.n = x.warm + (s->draws + thin - 1) / thin;
  x.theta = NEW_ARRAY(&k->c->arena, double, x.n *dim + 1);
  for (size_t c = 0; c < NSTATS; c++)
    x.columns[c] = (DrawsColumn){stat_names[c], NEW_ARRAY(&k->c->arena, double, x.n + 1)};
  for (size_t i = 0; i < x.warm; i++)
    keep(&x, i, s->before[j].draws + i * thin * dim, dim, &s->before[j].stats[i * thin]);
  for (size_t i = x.warm; i < x.n; i++) {
    size_t draw = (i - x.warm) * thin;
    keep(&x, i, sample_draw(s, j, draw), dim, &s->chain[j]->stats[draw]);
  }
  return x;
}

/* base.csv of one chain, base_<id>.csv of several. */
static const char *base_of(const CmdstanCall *k, const char *base, size_t chains, long id) {
  return chains > 1 ? arena_format(&k->c->arena, "%s_%ld", base, id) : base;
}

static CmdstanArgs *args_of_chain(const CmdstanCall *k, long id) {
  CmdstanArgs *args = NEW(&k->c->arena, CmdstanArgs);
  *args = *k->args;
  cmdstan_set(args, ARG_id, "%ld", id);
  return args;
}

/* Where the dynamics of a chain go: folder and name without .csv; false: nobody asked. */
static bool dynamics_place(const CmdstanCall *k, size_t chains, long id, RunDir *dir,
                           const char **base) {
  const char *path = k->args->value[ARG_diagnostic_file], *slash;
  size_t n = strlen(path);
  if (!*path) return false;
  if (n > 4 && !strcmp(path + n - 4, ".csv")) path = arena_text(&k->c->arena, path, n - 4);
  slash = strrchr(path, '/');
  *dir = (RunDir){k->c, slash ? arena_text(&k->c->arena, path, (size_t)(slash - path)) : "."};
  *base = base_of(k, slash ? slash + 1 : path, chains, id);
  return true;
}

void cmdstan_sample_begin(const CmdstanCall *k) {
  size_t chains = (size_t)cmdstan_whole(k->args, ARG_num_chains);
  for (size_t j = 0; j < chains; j++) {
    long id = cmdstan_whole(k->args, ARG_id) + (long)j;
    RunDir dir;
    const char *base;
    cmdstan_write_table(k->dir, base_of(k, k->base, chains, id), &k->run, &(Draws){.ndraws = 0});
    if (dynamics_place(k, chains, id, &dir, &base))
      cmdstan_write_table(&dir, base, &k->run, &(Draws){.ndraws = 0});
  }
}

/* The dynamics: draws on the unconstrained scale with their gradients. */
static void write_diagnostics(const CmdstanCall *k, const Kept *x, size_t chains, long id) {
  size_t dim = k->model->dim;
  RunDir dir;
  const char *base;
  if (!dynamics_place(k, chains, id, &dir, &base)) return;
  CmdstanDensity density = cmdstan_density(k, true);
  double *values = NEW_ARRAY(&k->c->arena, double, 2 * x->n * dim + 1);
  const char **names = NEW_ARRAY(&k->c->arena, const char *, 2 * dim + 1);
  memcpy(names, cmdstan_names(k, ""), dim * sizeof *names);
  memcpy(names + dim, cmdstan_names(k, "g_"), dim * sizeof *names);
  for (size_t i = 0; i < x->n; i++) {
    memcpy(values + 2 * i * dim, x->theta + i * dim, dim * sizeof *values);
    cmdstan_eval(&density, x->theta + i * dim, values + (2 * i + 1) * dim);
  }
  Draws d = {.ndraws = x->n,
             .ncols = 2 * dim,
             .names = names,
             .values = values,
             .columns = x->columns,
             .ncolumns = NSTATS};
  cmdstan_write_table(&dir, base, &k->run, &d);
}

static void write_chain(CmdstanCall *k, const Sample *s, size_t j) {
  long first = cmdstan_whole(k->args, ARG_id), id = first + (long)j;
  size_t dim = s->dim;
  bool unit = cmdstan_is(k->args, ARG_metric, "unit_e");
  Kept x = keep_chain(k, s, j);
  double *cov = NEW_ARRAY(&k->c->arena, double, (s->metric.dense ? dim * dim : dim) + 1);
  metric_covariance(&s->metric, cov);
  CmdstanArgs *args = args_of_chain(k, id);
  if (!unit) cmdstan_set(args, ARG_metric, "%s", s->metric.dense ? "dense_e" : "diag_e");
  CmdstanCall own = *k;
  own.args = args;
  Draws d = cmdstan_outputs(&own, x.theta, x.n, NULL);
  d.log_p = x.columns[0].values;
  d.columns = x.columns + 1;
  d.ncolumns = NSTATS - 1;
  CmdstanRun run = k->run;
  run.args = args;
  run.metric_type = args->value[ARG_metric];
  run.inv_metric = unit ? NULL : cov;
  run.ninv_metric = dim;
  CmdstanSample n = {.num_warmup = x.warm,
                     .save_warmup = true,
                     .stepsize = s->step,
                     .seconds_warmup = s->seconds_warmup,
                     .seconds_sampling = s->seconds_sampling};
  cmdstan_write_sample(k->dir, base_of(k, k->base, s->chains, id), &d, &run, &n);
  write_diagnostics(k, &x, s->chains, id);
}

/* ---- without parameters ---------------------------------------------------------------------- */

/* Every draw is the start; what the program draws at random differs. */
static void fixed_chain(CmdstanCall *k, size_t j, size_t chains) {
  long id = cmdstan_whole(k->args, ARG_id) + (long)j;
  size_t thin = (size_t)cmdstan_whole(k->args, ARG_thin), dim = k->model->dim,
         n = ((size_t)cmdstan_whole(k->args, ARG_num_samples) + thin - 1) / thin;
  double *theta = NEW_ARRAY(&k->c->arena, double, (n + 1) * dim + 1);
  cmdstan_start(k, (size_t)id, theta);
  for (size_t i = 1; i < n; i++) memcpy(theta + i * dim, theta, dim * sizeof *theta);
  CmdstanCall own = *k;
  own.run.args = own.args = args_of_chain(k, id);
  double began = base_seconds();
  Draws d = cmdstan_outputs(&own, theta, n, NULL);
  d.columns = &(DrawsColumn){"accept_stat__", NEW_ARRAY(&k->c->arena, double, n + 1)};
  d.ncolumns = 1;
  cmdstan_write_sample(k->dir, base_of(k, k->base, chains, id), &d, &own.run,
                       &(CmdstanSample){.seconds_sampling = base_seconds() - began});
}

static bool sample_fixed(CmdstanCall *k, Telling *t) {
  double began = base_seconds();
  cmdstan_set(k->args, ARG_algorithm, "fixed_param");
  if (!k->model->dim)
    console_say(k->out, k->c,
                "Model contains no parameters, running fixed_param sampler, no updates to Markov "
                "chain\n\n");
  t->warmup = 0;
  t->total = cmdstan_whole(k->args, ARG_num_samples);
  for (size_t j = 0; j < t->chains; j++) fixed_chain(k, j, t->chains);
  tell_until(t, t->total);
  say_elapsed(t, 0, base_seconds() - began);
  return true;
}

/* What CmdStan says before it begins. */
static void say_gradient(const CmdstanCall *k, const double *start) {
  CmdstanDensity d = cmdstan_density(k, true);
  double *gradient = NEW_ARRAY(&k->c->arena, double, d.dim + 1), began = base_seconds();
  double value = cmdstan_eval(&d, start, gradient), seconds = base_seconds() - began;
  if (!isfinite(value))
    console_say(k->out, k->c,
                "Rejecting initial value:\n  Log probability evaluates to %s.\n  Stan can't start "
                "sampling from this initial value.\n",
                isnan(value) ? "nan, no number" : "log(0), i.e. negative infinity");
  console_say(k->out, k->c,
              "\nGradient evaluation took %.3g seconds\n1000 transitions using 10 leapfrog steps "
              "per transition would take %.3g seconds.\nAdjust your expectations "
              "accordingly!\n\n\n",
              seconds, 10000 * seconds);
}

/* As CmdStan says it, but once for all proposals. While chains look for their step a few too far
 * ones mean nothing. */
static void say_undefined(const CmdstanCall *k, long n, size_t chains) {
  if (n > 20 * (long)chains)
    console_say(
        k->out, k->c,
        "Informational Message: The current Metropolis proposal is about to be rejected "
        "because of the following issue:\nException: the density is no number, as where a "
        "scale has become 0, at %ld of the points that the chains tried\nIf this warning "
        "occurs sporadically, such as for highly constrained variable types like covariance "
        "matrices, then the sampler is fine,\nbut if this warning occurs often then your "
        "model may be either severely ill-conditioned or misspecified.\n\n",
        n);
}

/* ---- the method ------------------------------------------------------------------------------ */

bool cmdstan_sample(CmdstanCall *k) {
  Telling t = {.k = k,
               .warmup = cmdstan_whole(k->args, ARG_num_warmup),
               .refresh = cmdstan_whole(k->args, ARG_refresh),
               .chains = (size_t)cmdstan_whole(k->args, ARG_num_chains)};
  WarmupPlan plan;
  t.total = t.warmup + cmdstan_whole(k->args, ARG_num_samples);
  if (!k->model->dim || cmdstan_is(k->args, ARG_algorithm, "fixed_param"))
    return sample_fixed(k, &t);
  if (!model_has_densities(k->model))
    ctx_fail(k->c, PVI_PROGRAM, NOWHERE,
             "the program simulates its outcomes: without their density there is no posterior");
  size_t dim = k->model->dim;
  SampleOptions so = options_of(k, &plan, &t);
  Metric first = metric_make(&k->c->arena, dim);
  double *start = NEW_ARRAY(&k->c->arena, double, t.chains *dim + 1);
  for (size_t j = 0; j < t.chains; j++)
    cmdstan_start(k, (size_t)cmdstan_whole(k->args, ARG_id) + j, start + j * dim);
  so.metric = metric_of(k, &first);
  so.first = &first;
  so.start = start;
  so.centre = NEW_ARRAY(&k->c->arena, double, dim + 1);
  const Split *all = split_all(k->c, k->model->n_obs);
  const Observed *o =
      posterior_observed(&k->c->arena, k->model, all->rows[PART_TRAIN], all->count[PART_TRAIN]);
  say_gradient(k, start);
  const Sample *s = sample_run(k->c, o, &so, k->pool);
  for (size_t j = 0; j < t.chains; j++) write_chain(k, s, j);
  if (s->interrupted) return false;
  tell_until(&t, t.total);
  say_undefined(k, s->undefined, t.chains);
  say_elapsed(&t, s->seconds_warmup, s->seconds_sampling);
  return true;
}
