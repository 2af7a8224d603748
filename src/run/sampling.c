/* sampling.c: the course of `pvi sample`: a start from VI, chains, columns, diagnostics, the
 * folder. The stages in their order, each one call: see sample_problem at the end. */
#include "run/sampling.h"

#include "num/rng.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

enum { STREAM = 6, USUAL_DRAWS = 8000, LEAST_DRAWS = 250, MORE_DRAWS = 4 };
enum { START_DRAWS = 128, START_ITERATIONS = 200 }; /* of VI */

/* ---- what was asked -------------------------------------------------------------------------- */

/* The option `metric` names scores and, here, the metric of the dynamics. */
static MetricKind take_metric(Options *o) {
  static const char *const words[] = {"diag", "dense", "auto"};
  MetricKind kind = METRIC_AUTO;
  OptionList scores = {NEW_ARRAY(o->arena, const char *, o->metric.count + 1), 0, 0};
  for (size_t k = 0; k < o->metric.count; k++) {
    int found = -1;
    for (int w = 0; w < 3; w++)
      if (!strcmp(o->metric.items[k], words[w])) found = w;
    if (found >= 0)
      kind = (MetricKind)found;
    else
      scores.items[scores.count++] = o->metric.items[k];
  }
  o->metric = scores;
  return kind;
}

Run *sample_make(Ctx *c, const Problem *p, const Options *asked, const Split *split) {
  Options *o = options_copy(&c->arena, asked);
  options_set(c, o, "score", "elbo"); /* Bayes: whatever has a density will do */
  if (!model_has_densities(p->model))
    ctx_fail(c, PVI_PROGRAM, NOWHERE,
             "the program simulates its outcomes: without their density there is no posterior to "
             "sample");
  Run *r = run_make(c, p, o, split);
  r->sampling = true;
  return r;
}

/* Chains in step need many of them: the length of their trajectories is adapted across chains. */
static SamplerId method_of(const Options *o) {
  enum { MANY = 16 };
  return o->method ? (SamplerId)(o->method - 1) : o->chains >= MANY ? SAMPLER_chees : SAMPLER_nuts;
}

static SampleOptions options_of(const Options *o, const RunHooks *h) {
  SampleOptions s = {.method = method_of(o),
                     .chains = (size_t)o->chains,
                     .warmup = (size_t)o->warmup,
                     .draws = (size_t)o->draws,
                     .accept = o->accept,
                     .seed = (uint64_t)o->seed};
  size_t share = (USUAL_DRAWS + s.chains - 1) / s.chains;
  if (!s.draws) s.draws = share > LEAST_DRAWS ? share : LEAST_DRAWS;
  if (s.chains < 8 && !o->draws) s.draws = 1000;
  if (!o->draws) s.most = MORE_DRAWS * s.draws;
  if (!options_is_given(o, OPTION_warmup)) s.warmup = s.chains < 8 ? 1000 : 150;
  if (h) {
    s.progress = h->progress;
    s.cancelled = h->cancelled;
    s.self = h->self;
  }
  return s;
}

/* ---- where chains begin ---------------------------------------------------------------------- */

typedef struct {
  double *start, *centre; /* [chains x dim], dim */
  Metric metric;
  const char *words;
  bool interrupted;
} Start;

static Start new_start(Ctx *c, size_t chains, size_t dim) {
  return (Start){.start = NEW_ARRAY(&c->arena, double, chains *dim + 1),
                 .centre = NEW_ARRAY(&c->arena, double, dim + 1),
                 .metric = metric_make(&c->arena, dim)};
}

/* Chains of a superchain begin at one point, that of the first of them: nested R-hat then says
 * whether they have forgotten it. */
static size_t first_of(size_t chain, size_t chains) {
  size_t each = chains / SUPERCHAINS;
  bool some = chains >= 2 * SUPERCHAINS && chains % SUPERCHAINS == 0;
  return some ? chain / each * each : chain;
}

/* Uniform in (-2, 2) on the unconstrained scale, as Stan's. */
static Start start_random(Ctx *c, const Model *m, size_t chains, uint64_t seed) {
  Start s = new_start(c, chains, m->dim);
  Rng key = rng_make(seed, STREAM);
  for (size_t j = 0; j < chains; j++)
    for (size_t k = 0; k < m->dim; k++)
      s.start[j * m->dim + k] = 4 * rng_uniform(key, k, first_of(j, chains)) - 2;
  s.words = "random points";
  return s;
}

/* Draws of q, and its covariance as the first metric. */
static Start start_from(Ctx *c, const Q *q, const double *phi, size_t chains, uint64_t seed) {
  Start s = new_start(c, chains, q->dim);
  size_t ld = (chains + LANES - 1) / LANES * LANES, dim = q->dim;
  QDraws d = q_draws(&c->arena, q, chains, ld, kernels_best());
  double *theta = NEW_ARRAY(&c->arena, double, dim *ld + 1),
         *sd = NEW_ARRAY(&c->arena, double, dim + 1);
  for (size_t k = 0; k < q_noise(q); k++)
    rng_fill_normal(rng_make(seed, STREAM), 0, k, d.u + k * ld, chains);
  q_draw(q, phi, &d, theta);
  q_moments(q, phi, s.centre, sd);
  for (size_t j = 0; j < chains; j++)
    for (size_t k = 0; k < dim; k++) s.start[j * dim + k] = theta[k * ld + first_of(j, chains)];
  double *cov = NEW_ARRAY(&c->arena, double, (dim <= MOST_DENSE ? dim * dim : dim) + 1);
  bool dense = q_is_normal(q) && family_of(q->family)->dense && dim <= MOST_DENSE;
  if (dense) q_covariance(&c->arena, q, phi, cov);
  if (dense && metric_dense(&s.metric, cov)) return s;
  for (size_t k = 0; k < dim; k++) cov[k] = fmin(1e6, fmax(sd[k] * sd[k], 1e-12));
  metric_diagonal(&s.metric, cov);
  return s;
}

static bool names_run(const char *word) {
  struct stat st;
  return word && stat(word, &st) == 0 && S_ISDIR(st.st_mode);
}

static Start start_of_run(Ctx *c, const Model *m, const Options *o, const SampleOptions *s) {
  Run then = {0};
  qfile_read(c, o->init, &then);
  if (then.q.dim != m->dim)
    ctx_fail(c, PVI_DATA, NOWHERE,
             OPTION("init") " %s: that fit has %zu parameters, but this program has %zu", o->init,
             then.q.dim, m->dim);
  Start start = start_from(c, &then.q, then.phi, s->chains, s->seed);
  start.words = arena_format(&c->arena, "draws of the q in %s", o->init);
  return start;
}

/* VI, in the family that suits the number of parameters. */
static Start start_of_vi(Ctx *c, const Run *r, const SampleOptions *s, const RunHooks *h,
                         Pool *pool) {
  FitOptions f = run_fit_options(r->o, h);
  f.draws = START_DRAWS; /* a start need not be an optimum to many digits */
  f.iterations = START_ITERATIONS;
  f.choose_family = true;
  run_init(c, r->problem->model, r->o->init, &f);
  const Fit *fit = fit_run(c, r->problem->model, r->split, &f, pool);
  Start start = start_from(c, &fit->q, fit->phi, s->chains, s->seed);
  start.words = arena_format(&c->arena, "draws of VI's q (%s%s)", family_name(fit->q.family),
                             fit->converged ? "" : ", which did not converge");
  start.interrupted = fit->interrupted;
  return start;
}

static Start start_stage(Ctx *c, const Run *r, const SampleOptions *s, const RunHooks *h,
                         Pool *pool) {
  const char *init = options_is_given(r->o, OPTION_init) ? r->o->init : NULL;
  const Model *m = r->problem->model;
  if (init && !strcmp(init, "random")) return start_random(c, m, s->chains, s->seed);
  if (names_run(init)) return start_of_run(c, m, r->o, s);
  return start_of_vi(c, r, s, h, pool);
}

/* ---- columns --------------------------------------------------------------------------------- */

/* Draws are kept, and written, as far as that is reasonable: so many numbers, and of generated
 * quantities, which are run draw by draw, fewer; but 1000 draws at least. */
static const double MOST_NUMBERS = 4e6, MOST_GENERATED = 1e5;
enum { LEAST_KEPT = 1000 };

static size_t generated_columns(const Model *m, size_t ncols) {
  size_t n = ncols;
  while (n > 0 && !model_output_is_computed(m, n - 1)) n--;
  return ncols - n;
}

static size_t thin_of(const SampleRun *s, size_t ncols) {
  const Model *m = s->run->problem->model;
  double all = (double)(s->sample->chains * s->sample->draws),
         generated = (double)generated_columns(m, ncols);
  double most = MOST_NUMBERS / (double)(ncols + 1);
  if (generated > 0) most = fmin(most, MOST_GENERATED / generated);
  most = fmax(most, LEAST_KEPT);
  return most < all ? (size_t)ceil(all / most) : 1;
}

/* Every so many draws of a chain, chain after chain. */
static double *keep_theta(Ctx *c, const Sample *x, size_t thin) {
  size_t dim = x->dim, n = x->draws / thin;
  double *theta = NEW_ARRAY(&c->arena, double, x->chains *n *dim + 1);
  for (size_t k = 0; k < x->chains; k++)
    for (size_t i = 0; i < n; i++)
      memcpy(theta + (k * n + i) * dim, sample_draw(x, k, i * thin), dim * sizeof *theta);
  return theta;
}

/* CmdStan's columns of a draw, in their order behind lp__. */
static const char *const stat_names[] = {"accept_stat__", "stepsize__",  "treedepth__",
                                         "n_leapfrog__",  "divergent__", "energy__"};
enum { NSTATS = sizeof stat_names / sizeof *stat_names };

static const DrawsColumn *stat_columns(Ctx *c, const SampleRun *s, double **lp) {
  size_t n = s->draws, total = s->sample->chains * n;
  DrawsColumn *columns = NEW_ARRAY(&c->arena, DrawsColumn, NSTATS);
  double *values = NEW_ARRAY(&c->arena, double, (NSTATS + 1) * total + 1);
  for (size_t k = 0; k < total; k++) {
    const DrawStats *d = &s->sample->chain[k / n]->stats[k % n * s->thin];
    const double row[] = {d->lp,        d->accept,    d->step,  d->depth,
                          d->leapfrogs, d->divergent, d->energy};
    for (size_t j = 0; j <= NSTATS; j++) values[j * total + k] = row[j];
  }
  for (size_t j = 0; j < NSTATS; j++)
    columns[j] = (DrawsColumn){stat_names[j], values + (j + 1) * total};
  *lp = values;
  return columns;
}

static void column_stage(Ctx *c, SampleRun *s) {
  const Model *m = s->run->problem->model;
  size_t ncols = model_output_count(m);
  s->thin = thin_of(s, ncols);
  s->draws = s->sample->draws / s->thin;
  size_t total = s->sample->chains * s->draws;
  double *theta = keep_theta(c, s->sample, s->thin),
         *values = NEW_ARRAY(&c->arena, double, total *ncols + 1), *lp;
  const char **names = NEW_ARRAY(&c->arena, const char *, ncols + 1);
  for (size_t k = 0; k < ncols; k++) names[k] = model_output_name(m, &c->arena, k, true);
  model_outputs(c, m, &(ModelPoints){theta, total, m->dim, 1}, (uint64_t)s->run->o->seed, values);
  Draws *d = NEW(&c->arena, Draws);
  *d = (Draws){.ndraws = total, .ncols = ncols, .names = names, .values = values};
  d->columns = stat_columns(c, s, &lp);
  d->ncolumns = NSTATS;
  d->log_p = lp;
  s->theta = theta;
  s->kept = d;
}

/* ---- diagnostics ----------------------------------------------------------------------------- */

/* Values of draws, [chains n x ncols], and which columns they are asked for. */
typedef struct {
  const double *values;
  size_t chains, n, ncols, from, to;
  SampledVariable *out;
  EssWork **work; /* one a worker */
  double **x;
} Qualities;

static void quality_of(void *arg, size_t k, int worker) {
  Qualities *q = arg;
  size_t column = q->from + k, total = q->chains * q->n;
  double *x = q->x[worker];
  for (size_t i = 0; i < total; i++) x[i] = q->values[i * q->ncols + column];
  SampledVariable *v = &q->out[column];
  v->quality = ess_quality(q->work[worker], x);
  if (isfinite(v->quality.rhat)) { /* to sort what is sorted takes no time */
    const double *sorted = ess_sorted(q->work[worker], &total);
    memcpy(x, sorted, total * sizeof *x);
  }
  v->summary = summary_of(v->summary.name, x, total);
}

static void add_qualities(Ctx *c, Qualities *q, Pool *pool) {
  TempArena *temp = temp_open(c);
  size_t threads = (size_t)pool_threads(pool);
  q->work = NEW_ARRAY(&temp->arena, EssWork *, threads);
  q->x = NEW_ARRAY(&temp->arena, double *, threads);
  for (size_t k = 0; k < threads; k++) {
    q->work[k] = ess_work(&temp->arena, q->chains, q->n);
    q->x[k] = NEW_ARRAY(&temp->arena, double, q->chains * q->n + 1);
  }
  pool_run(pool, q->to - q->from, quality_of, q);
  temp_close(temp);
}

/* How many columns of all draws are looked at: parameters, and transformed parameters where these
 * are not too many; the others are judged by the draws that are kept. */
static size_t whole_columns(const SampleRun *s) {
  const Model *m = s->run->problem->model;
  size_t ncols = s->kept->ncols, computed = ncols - generated_columns(m, ncols), parameters = 0;
  while (parameters < ncols && model_output_is_parameter(m, parameters)) parameters++;
  double all = (double)(s->sample->chains * s->sample->draws);
  return s->thin == 1 ? 0 : all * (double)computed <= MOST_NUMBERS ? computed : parameters;
}

static void quality_stage(Ctx *c, SampleRun *s, Pool *pool) {
  const Sample *x = s->sample;
  size_t ncols = s->kept->ncols, whole = whole_columns(s);
  SampledVariable *out = NEW_ARRAY(&c->arena, SampledVariable, ncols + 1);
  for (size_t k = 0; k < ncols; k++)
    out[k].summary.name = draws_pretty_name(&c->arena, s->kept->names[k]);
  Qualities q = {s->kept->values, x->chains, s->draws, ncols, whole, ncols, out, NULL, NULL};
  add_qualities(c, &q, pool);
  s->variables = out;
  s->whole = whole ? whole : ncols;
  if (!whole) return;
  TempArena *temp = temp_open(c);
  size_t total = x->chains * x->draws;
  const Model *m = s->run->problem->model;
  bool *wanted = NEW_ARRAY(&temp->arena, bool, m->noutputs + 1);
  size_t first = 0;
  for (int k = 0; k < m->noutputs; first += (size_t)m->outputs[k++].n) wanted[k] = first < whole;
  double *values = NEW_ARRAY(&temp->arena, double, total *whole + 1);
  model_some_outputs(c, m, &(ModelPoints){keep_theta(c, x, 1), total, x->dim, 1}, 0, wanted,
                     values);
  q = (Qualities){values, x->chains, x->draws, whole, 0, whole, out, NULL, NULL};
  add_qualities(c, &q, pool);
  temp_close(temp);
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static void count_draws(const SampleRun *s, SampleVerdict *v) {
  const Sample *x = s->sample;
  for (size_t k = 0; k < x->chains; k++)
    for (size_t i = 0; i < x->draws; i++) {
      v->divergences += x->chain[k]->stats[i].divergent != 0;
      v->deepest += x->chain[k]->stats[i].depth >= SAMPLER_DEPTH;
    }
}

static double least_bfmi(Ctx *c, const Sample *x) {
  TempArena *temp = temp_open(c);
  double *energy = NEW_ARRAY(&temp->arena, double, x->draws + 1), least = NAN;
  for (size_t k = 0; k < x->chains; k++) {
    for (size_t i = 0; i < x->draws; i++) energy[i] = x->chain[k]->stats[i].energy;
    least = fmin(least, ess_bfmi(energy, x->draws));
  }
  temp_close(temp);
  return least;
}

static void worst_of(const SampleRun *s, SampleVerdict *v) {
  const Model *m = s->run->problem->model;
  v->rhat = v->ess_bulk = v->ess_tail = NAN;
  for (size_t k = 0; k < s->whole; k++) {
    const SampledVariable *x = &s->variables[k];
    if (!model_output_is_computed(m, k)) continue;
    if (x->quality.rhat > v->rhat || isnan(v->rhat))
      v->rhat = x->quality.rhat, v->rhat_of = x->summary.name;
    if (x->quality.ess_bulk < v->ess_bulk || isnan(v->ess_bulk))
      v->ess_bulk = x->quality.ess_bulk, v->bulk_of = x->summary.name;
    if (x->quality.ess_tail < v->ess_tail || isnan(v->ess_tail))
      v->ess_tail = x->quality.ess_tail, v->tail_of = x->summary.name;
  }
}

/* Adds a reason for doubt. */
static void doubt(Text *t, const char *text) { text_printf(t, "%s%s", t->n ? "; " : "", text); }

/* What stands against the draws, in words; "": nothing does. */
static const char *doubts(Ctx *c, const SampleRun *s, const SampleVerdict *v) {
  Text t = text_make(&c->arena);
  Arena *a = &c->arena;
  double total = (double)(s->sample->chains * s->sample->draws);
  text_puts(&t, "");
  if (v->rhat > RHAT_MOST)
    doubt(&t, arena_format(a,
                           "the chains do not agree (R-hat %.3f of %s): they have not seen the "
                           "whole posterior; run them longer, or look for several modes",
                           v->rhat, v->rhat_of));
  if (v->divergences)
    doubt(&t, arena_format(a,
                           "%zu of %.0f trajectories diverged (%.2g%%): there are regions too "
                           "narrow for the step, and means may be off; raise " OPTION(
                               "accept") " towards 1, or rewrite a hierarchy non-centred",
                           v->divergences, total, 100 * (double)v->divergences / total));
  if (v->ess_bulk < ESS_LEAST)
    doubt(&t,
          arena_format(a,
                       "there are few effective draws (%.0f of %s): run the chains longer (" OPTION(
                           "draws") ")",
                       v->ess_bulk, v->bulk_of));
  else if (v->ess_tail < ESS_LEAST)
    doubt(&t,
          arena_format(a, "the tails have few effective draws (%.0f of %s): quantiles are rough",
                       v->ess_tail, v->tail_of));
  if (v->bfmi < 0.3)
    doubt(&t, arena_format(a,
                           "energies move slowly (E-BFMI %.2f): heavy tails may not have been "
                           "explored",
                           v->bfmi));
  if ((double)v->deepest > 0.01 * total)
    doubt(&t, arena_format(a,
                           "%zu trajectories were cut off at %d steps: scales of parameters "
                           "differ widely, draws are slow but right",
                           v->deepest, 1 << SAMPLER_DEPTH));
  return t.s;
}

static void verdict_stage(Ctx *c, SampleRun *s) {
  SampleVerdict *v = &s->verdict;
  count_draws(s, v);
  v->bfmi = least_bfmi(c, s->sample);
  worst_of(s, v);
  const char *against = doubts(c, s, v);
  v->trusted = !(v->rhat > RHAT_MOST) && (!s->sample->dim || v->ess_bulk >= ESS_LEAST) &&
               !s->sample->interrupted &&
               (double)v->divergences <= 1e-3 * (double)(s->sample->chains * s->sample->draws);
  v->verdict = !*against ? "the draws can be trusted: chains agree, none diverged, and there are "
                           "enough effective draws"
                         : ctx_words(c, against, c->option_prefix);
}

/* ---- the run --------------------------------------------------------------------------------- */

/* Interrupted before there was a draw. */
_Noreturn static void nothing_to_keep(Ctx *c, const RunDir *dir, const char *when) {
  if (dir)
    ctx_fail(c, PVI_FAILURE, NOWHERE,
             "interrupted during %s: there are no draws yet; to go on: pvi sample " OPTION(
                 "resume") " %s",
             when, dir->path);
  ctx_fail(c, PVI_FAILURE, NOWHERE, "interrupted during %s: there are no draws to keep", when);
}

/* Where the chains begin, or how they stood when they were interrupted. */
static void begin_stage(Ctx *c, SampleRun *s, SampleOptions *so, RunDir *dir, const RunHooks *h,
                        Pool *pool) {
  so->resume = dir ? folder_state(c, dir, &so->nresume) : NULL;
  Metric *unit = NEW(&c->arena, Metric);
  *unit = metric_make(&c->arena, s->run->problem->model->dim);
  so->first = unit;
  s->start = "a checkpoint";
  if (!so->resume) {
    Start start = start_stage(c, s->run, so, h, pool);
    if (start.interrupted) nothing_to_keep(c, dir, "VI");
    so->start = start.start;
    so->centre = start.centre;
    s->start = start.words;
    *unit = start.metric;
  }
  if (!dir) return;
  so->save = folder_save_state;
  so->save_self = dir;
  so->save_every = s->run->o->checkpoint;
}

SampleRun *sample_problem(Ctx *c, const Problem *p, const Options *asked, const Split *split,
                          const RunHooks *h) {
  double began = base_seconds();
  Run *r = sample_make(c, p, asked, split);
  Options *o = (Options *)r->o;
  SampleRun *s = NEW(&c->arena, SampleRun);
  SampleOptions so = options_of(o, h);
  so.metric = take_metric(o);
  RunDir *dir = o->out ? folder_open(c, r) : NULL;
  Pool *pool = pool_make(c, (int)o->threads);
  s->run = r;
  begin_stage(c, s, &so, dir, h, pool);
  s->seconds_start = base_seconds() - began;
  TempArena *temp = temp_open(c);
  const Observed *observed = posterior_observed(&temp->arena, p->model, r->split->rows[PART_TRAIN],
                                                r->split->count[PART_TRAIN]);
  s->sample = sample_run(c, observed, &so, pool);
  temp_close(temp);
  if (s->sample->draws < 8) nothing_to_keep(c, dir, "warm-up");
  column_stage(c, s);
  quality_stage(c, s, pool);
  verdict_stage(c, s);
  sample_score(c, s, r, pool);
  pool_free(pool);
  s->seconds = base_seconds() - began;
  r->folder = dir ? dir->path : NULL;
  if (dir) sample_write(c, dir, s);
  if (dir && !s->sample->interrupted) folder_forget_state(dir);
  return s;
}
