/* sampling.c: the course of `pvi sample`: a start from VI, chains, columns, diagnostics
 * (sample_quality.c), scores (sample_scores.c), the folder (report_sample.c). The stages in their
 * order, each one call: see sample_problem at the end. */
#include "run/sampling.h"

#include "infer/psis.h"
#include "model/density.h"
#include "num/rng.h"
#include "num/stats.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

enum { STREAM = 6, USUAL_DRAWS = 8000, LEAST_DRAWS = 250, MORE_DRAWS = 4 };
enum { START_DRAWS = 128, START_ITERATIONS = 200 }; /* of VI */

/* ---- what was asked -------------------------------------------------------------------------- */

/* diag, dense or auto, also as CmdStan writes them; -1: another word. */
static int metric_kind(const char *word) {
  static const char *const words[] = {"diag", "dense", "auto"};
  for (int w = 0; w < 3; w++) {
    size_t n = strlen(words[w]);
    if (!strncmp(word, words[w], n) && (!word[n] || !strcmp(word + n, "_e"))) return w;
  }
  return -1;
}

/* The option `mass-matrix`, for which CmdStan's word is `metric`: that one names scores, too, and
 * keeps those. */
static MetricKind take_metric(Options *o) {
  int kind = metric_kind(o->mass_matrix);
  OptionList scores = {NEW_ARRAY(o->arena, const char *, o->metric.count + 1), 0, 0};
  for (size_t k = 0; k < o->metric.count; k++) {
    int found = metric_kind(o->metric.items[k]);
    if (found >= 0)
      kind = found;
    else
      scores.items[scores.count++] = o->metric.items[k];
  }
  o->metric = scores;
  return kind < 0 ? METRIC_AUTO : (MetricKind)kind;
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

SampleOptions sample_options(const Options *o, const RunHooks *h) {
  SampleOptions s = {.method = method_of(o),
                     .chains = (size_t)o->chains,
                     .warmup = (size_t)o->warmup,
                     .draws = (size_t)o->draws,
                     .accept = o->accept,
                     .recentre = o->centring == 0,
                     .seed = (uint64_t)o->seed};
  size_t share = (USUAL_DRAWS + s.chains - 1) / s.chains;
  if (!s.draws) s.draws = share > LEAST_DRAWS ? share : LEAST_DRAWS;
  if (s.chains < 8 && !o->draws) s.draws = 1000;
  if (!o->draws) s.most = MORE_DRAWS * s.draws;
  if (!options_is_given(o, OPTION_warmup)) {
    s.warmup = s.chains < 8 ? 1000 : 150;
    if (s.method == SAMPLER_chees) s.shorter = 30;
  }
  if (h) {
    s.progress = h->progress;
    s.cancelled = h->cancelled;
    s.self = h->self;
  }
  return s;
}

/* ---- where chains begin ---------------------------------------------------------------------- */

static SampleStart new_start(Ctx *c, size_t chains, size_t dim) {
  return (SampleStart){.start = NEW_ARRAY(&c->arena, double, chains *dim + 1),
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
static SampleStart start_random(Ctx *c, const Model *m, size_t chains, uint64_t seed) {
  SampleStart s = new_start(c, chains, m->dim);
  Rng key = rng_make(seed, STREAM);
  for (size_t j = 0; j < chains; j++)
    for (size_t k = 0; k < m->dim; k++)
      s.start[j * m->dim + k] = 4 * rng_uniform(key, k, first_of(j, chains)) - 2;
  s.words = "random points";
  return s;
}

SampleStart sample_start(Ctx *c, const Q *q, const double *phi, size_t chains, uint64_t seed) {
  SampleStart s = new_start(c, chains, q->dim);
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

SampleStart sample_start_again(Ctx *c, const Sample *x) {
  SampleStart s = new_start(c, x->chains, x->dim);
  size_t n = x->chains * x->draws;
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < x->dim; k++)
      s.centre[k] += sample_draw(x, i / x->draws, i % x->draws)[k] / (double)n;
  for (size_t j = 0; j < x->chains; j++)
    memcpy(s.start + j * x->dim, sample_draw(x, first_of(j, x->chains), x->draws - 1),
           x->dim * sizeof(double));
  s.metric = x->metric;
  return s;
}

static bool names_run(const char *word) {
  struct stat st;
  return word && stat(word, &st) == 0 && S_ISDIR(st.st_mode);
}

static SampleStart start_of_run(Ctx *c, const Model *m, const Options *o, const SampleOptions *s) {
  Run then = {0};
  qfile_read(c, o->init, &then);
  if (then.q.dim != m->dim)
    ctx_fail(c, PVI_DATA, NOWHERE,
             OPTION("init") " %s: that fit has %zu parameters, but this program has %zu", o->init,
             then.q.dim, m->dim);
  SampleStart start = sample_start(c, &then.q, then.phi, s->chains, s->seed);
  start.words = arena_format(&c->arena, "draws of the q in %s", o->init);
  return start;
}

/* The metric of a file in the place of VI's. */
static void take_metric_file(Ctx *c, const MetricFile *f, const char *path, SampleStart *s) {
  if (!f) return;
  if (!f->dense)
    metric_diagonal(&s->metric, f->values);
  else if (!metric_dense(&s->metric, f->values))
    ctx_fail(c, PVI_DATA, f->loc, "\"inv_metric\" is no covariance: it is not positive definite");
  s->step = f->step;
  s->near = false; /* as a normal distribution it is another one */
  s->words = arena_format(&c->arena, "%s, with the metric of %s", s->words, path);
}

/* Is q near the posterior? By Pareto k of the weights posterior / q of some of its draws. */
static bool is_near(Ctx *c, const Run *r, const Q *q, const double *phi) {
  enum { TRIED = 256, NEAR_STREAM = 7 };
  const double near = 0.5;
  TempArena *temp = temp_open(c);
  Arena *a = &temp->arena;
  QDraws d = q_draws(a, q, TRIED, TRIED, kernels_best());
  double *theta = NEW_ARRAY(a, double, q->dim *TRIED + 1), *w = NEW_ARRAY(a, double, TRIED),
         *log_q = NEW_ARRAY(a, double, TRIED);
  for (size_t k = 0; k < q_noise(q); k++)
    rng_fill_normal(rng_make((uint64_t)r->o->seed, NEAR_STREAM), 0, k, d.u + k * TRIED, TRIED);
  q_draw(q, phi, &d, theta);
  q_log_q(q, phi, &d, log_q);
  density_once(c, r->problem->model, r->split->rows[PART_TRAIN], r->split->count[PART_TRAIN],
               &(ModelPoints){theta, TRIED, 1, TRIED}, &(DensityOut){.log_density = w});
  for (size_t k = 0; k < TRIED; k++) w[k] -= log_q[k];
  bool is = !d.weights && psis_smooth(psis_work(a, TRIED), w) < near;
  temp_close(temp);
  return is;
}

/* VI, in the family that suits the number of parameters. */
static SampleStart start_of_vi(Ctx *c, const Run *r, const SampleOptions *s, const RunHooks *h,
                               Pool *pool) {
  FitOptions f = run_fit_options(r->o, h);
  f.draws = START_DRAWS; /* a start need not be an optimum to many digits */
  f.iterations = START_ITERATIONS;
  f.choose_family = true;
  const MetricFile *metric = run_metric(c, r->problem->model, r->o->init);
  if (!metric || !metric->alone) run_init(c, r->problem->model, r->o->init, &f);
  const Fit *fit = fit_run(c, r->problem->model, r->split, &f, pool);
  SampleStart start = sample_start(c, &fit->q, fit->phi, s->chains, s->seed);
  start.words = arena_format(&c->arena, "draws of VI's q (%s%s)", family_name(fit->q.family),
                             fit->converged ? "" : ", which did not converge");
  start.interrupted = fit->interrupted;
  start.near = !fit->interrupted && is_near(c, r, &fit->q, fit->phi);
  take_metric_file(c, metric, r->o->init, &start);
  return start;
}

static SampleStart start_points(Ctx *c, const Run *r, const SampleOptions *s, const RunHooks *h,
                                Pool *pool) {
  const char *init = options_is_given(r->o, OPTION_init) ? r->o->init : NULL;
  const Model *m = r->problem->model;
  if (init && !strcmp(init, "random")) return start_random(c, m, s->chains, s->seed);
  if (names_run(init)) return start_of_run(c, m, r->o, s);
  return start_of_vi(c, r, s, h, pool);
}

/* The file that `mass-matrix` names, or NULL. */
static const MetricFile *mass_matrix_file(Ctx *c, const Run *r) {
  const char *word = r->o->mass_matrix;
  struct stat st;
  if (metric_kind(word) >= 0) return NULL;
  const MetricFile *f = stat(word, &st) ? NULL : run_metric(c, r->problem->model, word);
  if (!f)
    ctx_fail(c, PVI_USAGE, NOWHERE,
             OPTION("mass-matrix") " is auto, diag, dense or a JSON file with \"inv_metric\", as "
                                   "CmdStan writes it; \"%s\" is none of them",
             word);
  return f;
}

static SampleStart start_stage(Ctx *c, const Run *r, const SampleOptions *s, const RunHooks *h,
                               Pool *pool) {
  const MetricFile *f = mass_matrix_file(c, r);
  SampleStart start = start_points(c, r, s, h, pool);
  take_metric_file(c, f, r->o->mass_matrix, &start);
  return start;
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
  s->summary.start = "a checkpoint";
  if (!so->resume) {
    SampleStart start = start_stage(c, s->run, so, h, pool);
    if (start.interrupted) nothing_to_keep(c, dir, "VI");
    so->start = start.start;
    so->centre = start.centre;
    so->step = start.step;
    so->near = start.near;
    size_t least = so->shorter + 6 * s->run->problem->model->dim; /* a metric takes draws */
    if (start.near && so->shorter && least < so->warmup) so->warmup = least;
    s->summary.start = start.words;
    *unit = start.metric;
  }
  if (!dir) return;
  so->save = folder_save_state;
  so->save_self = dir;
  so->save_every = s->run->o->checkpoint;
}

/* The variables of which some elements were sampled non-centred, with the mean share of all. */
static void tell_centring(Ctx *c, SampleRun *s) {
  const Model *m = s->run->problem->model;
  NoncentredVariable *v = NEW_ARRAY(&c->arena, NoncentredVariable, m->noutputs + 1);
  const double *share = s->sample->share;
  s->summary.noncentred = v;
  for (int j = 0; share && j < m->noutputs; j++) {
    const Output *o = &m->outputs[j];
    if (o->block != BLOCK_PARAMETERS || !o->unconstrained) continue;
    double mean = stat_mean(share + o->offset, (size_t)o->unconstrained);
    if (mean > 0) v[s->summary.nnoncentred++] = (NoncentredVariable){o->name, mean};
  }
}

/* What was run, and how long it took. */
static void tell_course(Ctx *c, SampleRun *s) {
  SampleSummary *out = &s->summary;
  const Sample *x = s->sample;
  const Run *r = s->run;
  out->version = PVI_VERSION;
  out->program = r->program_origin.shown;
  out->data = r->data_origin.shown;
  out->seed = (size_t)r->o->seed;
  out->method = sampler_name(x->method);
  out->chains = x->chains;
  out->warmup = x->warmup;
  out->draws = x->draws;
  out->thin = s->thin;
  out->metric = x->metric.dense ? "dense" : "diag";
  out->step = x->step;
  out->trajectory = x->method == SAMPLER_chees ? x->trajectory : NAN;
  out->jumps = x->jumps > 0 ? (double)x->jumps : NAN;
  tell_centring(c, s);
  out->evaluations = (size_t)x->evaluations;
  out->seconds_warmup = x->seconds_warmup;
  out->seconds_sampling = x->seconds_sampling;
  out->interrupted = x->interrupted;
  out->n_obs = r->problem->model->n_obs;
  out->dim = x->dim;
  out->loo = s->loo ? &s->loo->sum : NULL;
  memcpy(out->parts, r->scores->parts, sizeof out->parts);
}

SampleRun *sample_problem(Ctx *c, const Problem *p, const Options *asked, const Split *split,
                          const RunHooks *h) {
  double began = base_seconds();
  Run *r = sample_make(c, p, asked, split);
  Options *o = (Options *)r->o;
  SampleRun *s = NEW(&c->arena, SampleRun);
  SampleOptions so = sample_options(o, h);
  so.metric = take_metric(o);
  RunDir *dir = o->out ? folder_open(c, r) : NULL;
  Pool *pool = pool_make(c, (int)o->threads);
  s->run = r;
  begin_stage(c, s, &so, dir, h, pool);
  s->summary.seconds_start = base_seconds() - began;
  TempArena *temp = temp_open(c);
  const Observed *observed = posterior_observed(&temp->arena, p->model, r->split->rows[PART_TRAIN],
                                                r->split->count[PART_TRAIN]);
  so.settled = sample_is_settled;
  so.settled_self = &(SampleJudge){c, p->model, pool};
  s->sample = sample_run(c, observed, &so, pool);
  temp_close(temp);
  if (s->sample->draws < 8) nothing_to_keep(c, dir, "warm-up");
  sample_columns(c, s);
  sample_quality(c, s, pool);
  sample_verdict(c, s);
  sample_score(c, s, r, pool);
  pool_free(pool);
  s->summary.seconds = base_seconds() - began;
  tell_course(c, s);
  r->folder = dir ? dir->path : NULL;
  if (dir) sample_write(c, dir, s);
  if (dir && !s->sample->interrupted) folder_forget_state(dir);
  return s;
}
