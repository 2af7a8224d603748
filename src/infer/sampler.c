/* sampler.c: the course of sampling: starts, windows of warm-up, draws (sampler.h). */
#include "infer/sampler.h"

#include "infer/coordinates.h"
#include "infer/ess.h"
#include "num/linalg.h"
#include "num/stats.h"

#include <math.h>
#include <string.h>

static const char SAMPLING[] = "sampling"; /* the stage behind warm-up */
#define CHECKPOINT_MARK UINT64_C(0x3176697073616d34)
enum { GROUP = 16, SLICE = 64 }; /* chains of a group; evaluations between two looks around */

/* Chains that share evaluations. */
typedef struct {
  Posterior *posterior;
  Chain **chains;
  size_t n;
  PosteriorPoint points[GROUP];
  Chain *asking[GROUP];
  long evaluations;
} Group;

typedef struct {
  Ctx *ctx;
  const SampleOptions *o;
  Sample *s;
  const SamplerCode *code;
  Pool *pool;  /* over groups; NULL: one after the other */
  Pool *inner; /* within an evaluation; NULL: one thread */
  Group *groups;
  size_t ngroups;
  const char *stage;
  long total;
  double began, saved, saving, seconds; /* seconds: of those who worked on it before */
  Arena *window;                        /* of the draws of a window of warm-up */
  long window_number;
  long target;   /* draws of every chain, for now */
  long warmup;   /* transitions of it */
  Normal normal; /* of jumps */
  bool near;     /* it is the one that chains began at */
  struct {       /* chains in step: the window that is under way */
    StepAdaptation step;
    LengthAdaptation distance;
    double now;
    long transition;
  } together;
  const Observed *observed;
  Coordinates *coordinates; /* NULL: there are none but the program's */
  TempArena *space;         /* of posteriors in the present ones */
  long left;                /* draws of each chain that have left them */
  Archive reading;          /* what is resumed */
  bool resuming;
} Sampler;

/* ---- groups ---------------------------------------------------------------------------------- */

static void evaluate(const Sampler *s, const Group *g, size_t n) {
  if (s->o->density)
    s->o->density(s->o->density_self, g->points, n);
  else
    posterior_eval(g->posterior, g->points, n);
}

/* One evaluation for all chains that have a question. False: none has. */
static bool answer(const Sampler *s, Group *g) {
  size_t n = 0;
  for (size_t k = 0; k < g->n; k++) {
    Chain *c = g->chains[k];
    if (c->left <= 0) continue;
    g->asking[n] = c;
    g->points[n++] = (PosteriorPoint){c->at.theta, c->at_gradient, &c->at_lp};
  }
  if (!n) return false;
  evaluate(s, g, n);
  g->evaluations += (long)n;
  for (size_t k = 0; k < n; k++) {
    Chain *c = g->asking[k];
    if (!s->code->take(c)) continue;
    chain_keep(c);
    if (c->left > 0) s->code->begin(c);
  }
  return true;
}

static void slice(void *arg, size_t k, int worker) {
  const Sampler *s = arg;
  (void)worker;
  for (int i = 0; i < SLICE && answer(s, &s->groups[k]); i++) {
  }
}

static bool under_way(const Sampler *s) {
  for (size_t k = 0; k < s->s->chains; k++)
    if (s->s->chain[k]->left > 0) return true;
  return false;
}

static void tell(const Sampler *s) {
  long done = 0;
  double lp = 0;
  for (size_t k = 0; k < s->s->chains; k++) {
    done += s->s->chain[k]->transitions;
    lp += s->s->chain[k]->lp / (double)s->s->chains;
  }
  if (s->o->progress)
    s->o->progress(s->o->self, &(FitProgress){.stage = s->stage,
                                              .iterations = done,
                                              .total = s->total,
                                              .evaluations = s->s->evaluations,
                                              .objective = lp,
                                              .seconds = base_seconds() - s->began});
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static void metric_state(Metric *m, Archive *a) {
  archive_doubles(a, m->root, m->dense ? m->dim * m->dim : m->dim);
}

/* What belongs to the whole course, before the chains: where it is, and what was adapted. */
static void course_state(Sampler *s, Archive *a) {
  Sample *r = s->s;
  uint64_t mark = CHECKPOINT_MARK, dim = r->dim, chains = r->chains;
  archive_word(a, &mark);
  archive_word(a, &dim);
  archive_word(a, &chains);
  a->bad |= mark != CHECKPOINT_MARK || dim != r->dim || chains != r->chains;
  archive_long(a, &s->window_number);
  archive_long(a, &s->target);
  archive_long(a, &s->warmup);
  archive_long(a, &r->jumps);
  archive_long(a, &s->left);
  archive_doubles(a, s->normal.mean, r->dim);
  archive_bool(a, &s->normal.metric.dense);
  archive_bool(a, &s->near);
  archive_long(a, &s->together.transition);
  archive_bool(a, &r->metric.dense);
  if (!a->bad) metric_state(&r->metric, a);
  if (!a->bad) metric_state(&s->normal.metric, a);
  if (!a->bad && s->coordinates) coordinates_state(s->coordinates, a);
  double *numbers[] = {&r->step,
                       &r->trajectory,
                       &r->accept,
                       &s->together.now,
                       &s->together.step.mu,
                       &s->together.step.gap,
                       &s->together.step.log_mean,
                       &s->together.step.count,
                       &s->seconds};
  for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) archive_double(a, numbers[k]);
  length_state(&s->together.distance, a);
  for (size_t g = 0; g < s->ngroups; g++) archive_long(a, &s->groups[g].evaluations);
}

static void chains_state(Sampler *s, Archive *a) {
  for (size_t k = 0; k < s->s->chains; k++) chain_state(s->s->chain[k], a);
}

static void save(Sampler *s) {
  if (!s->o->save) return;
  TempArena *temp = temp_open(s->ctx);
  Text t = text_make(&temp->arena);
  Archive a = archive_writer(&t);
  double now = base_seconds(), before = s->seconds;
  s->seconds += now - s->began;
  course_state(s, &a);
  chains_state(s, &a);
  s->seconds = before;
  s->o->save(s->o->save_self, &t);
  temp_close(temp);
  s->saved = base_seconds();
  s->saving = s->saved - now;
}

_Noreturn static void damaged(const Sampler *s) {
  ctx_fail(
      s->ctx, PVI_DATA, NOWHERE,
      "the checkpoint is damaged or of another version of pvi; begin anew with " OPTION("force"));
}

static void resume_course(Sampler *s) {
  s->reading = archive_reader(s->o->resume, s->o->nresume);
  course_state(s, &s->reading);
  if (s->reading.bad) damaged(s);
  s->resuming = true;
}

static void resume_chains(Sampler *s) {
  chains_state(s, &s->reading);
  if (s->reading.bad) damaged(s);
  s->resuming = false;
}

/* ---- transitions ----------------------------------------------------------------------------- */

static void begin_chains(const Sampler *s, size_t transitions) {
  for (size_t k = 0; k < s->s->chains; k++) {
    s->s->chain[k]->left = (long)transitions;
    if (transitions) s->code->begin(s->s->chain[k]);
  }
}

/* Draws grow, and with them what a checkpoint takes: a twentieth of the time, at most. */
static bool is_due(const Sampler *s) {
  return base_seconds() - s->saved > fmax(s->o->save_every, 20 * s->saving);
}

/* So many transitions of every chain, or those that were left when it was interrupted. False:
 * interrupted. */
static bool advance(Sampler *s, size_t transitions) {
  if (s->resuming)
    resume_chains(s);
  else
    begin_chains(s, transitions);
  while (under_way(s)) {
    if (s->o->cancelled && s->o->cancelled(s->o->self)) {
      save(s);
      return false;
    }
    if (s->pool) {
      pool_run(s->pool, s->ngroups, slice, s);
    } else {
      for (size_t k = 0; k < s->ngroups; k++) slice(s, k, 0);
    }
    tell(s);
    if (is_due(s)) save(s);
  }
  return true;
}

/* ---- starts ---------------------------------------------------------------------------------- */

/* The present draws' densities. */
static void evaluate_draws(const Sampler *s) {
  for (size_t g = 0; g < s->ngroups; g++) {
    Group *x = &s->groups[g];
    for (size_t k = 0; k < x->n; k++) {
      Chain *c = x->chains[k];
      x->points[k] = (PosteriorPoint){c->theta, c->gradient, &c->lp};
    }
    evaluate(s, x, x->n);
    x->evaluations += (long)x->n;
  }
}

/* Starts without a density come closer to the centre, by halves and in the end all the way. */
static void start(const Sampler *s) {
  enum { TRIES = 8 };
  size_t dim = s->s->dim;
  for (size_t k = 0; k < s->s->chains; k++)
    memcpy(s->s->chain[k]->theta, s->o->start + k * dim, dim * sizeof(double));
  for (int i = 0; i <= TRIES; i++) {
    bool all = true;
    evaluate_draws(s);
    for (size_t k = 0; k < s->s->chains; k++) {
      Chain *c = s->s->chain[k];
      if (isfinite(c->lp)) continue;
      all = false;
      for (size_t j = 0; j < dim; j++)
        c->theta[j] = i + 1 == TRIES ? s->o->centre[j] : 0.5 * (c->theta[j] + s->o->centre[j]);
    }
    if (all) return;
  }
  ctx_fail(
      s->ctx, PVI_FAILURE, NOWHERE,
      "no point was found where the posterior has a density, on the unconstrained scale; check "
      "priors and data, or give a point where it has one with " OPTION("init"));
}

/* ---- coordinates ----------------------------------------------------------------------------- */

/* The posteriors of all groups in the present coordinates. */
static void make_posteriors(Sampler *s) {
  if (s->space) temp_close(s->space);
  s->space = temp_open(s->ctx);
  Arena *a = &s->space->arena;
  const Observed *o =
      s->coordinates ? coordinates_observed(a, s->coordinates, s->observed) : s->observed;
  observed_tape(o); /* before several threads ask for it */
  for (size_t g = 0; g < s->ngroups; g++)
    s->groups[g].posterior = posterior_make(a, o, s->groups[g].n, s->inner);
}

/* Where the chains are. */
static MovedPoint *positions(const Sampler *s, Arena *a) {
  MovedPoint *p = NEW_ARRAY(a, MovedPoint, s->s->chains);
  for (size_t k = 0; k < s->s->chains; k++)
    p[k] = (MovedPoint){s->s->chain[k]->theta, &s->s->chain[k]->lp};
  return p;
}

/* Their draws, from number `first` of each on. */
static MovedPoint *draws_from(const Sampler *s, Arena *a, size_t first, size_t *n) {
  size_t room = 0;
  *n = 0;
  for (size_t k = 0; k < s->s->chains; k++) room += s->s->chain[k]->ndraws;
  MovedPoint *p = NEW_ARRAY(a, MovedPoint, room + 1);
  for (size_t k = 0; k < s->s->chains; k++) {
    Chain *c = s->s->chain[k];
    for (size_t i = first; i < c->ndraws; i++)
      p[(*n)++] = (MovedPoint){c->draws + i * c->dim, &c->stats[i].lp};
  }
  return p;
}

/* The draws of a window, which are in the program's coordinates now, choose those in which chains
 * go on. A normal that is near the posterior is so in the program's, and not given up for little.
 */
static void choose_coordinates(Sampler *s, const MovedPoint *draws, size_t n) {
  enum { LEAST_DRAWS = 64 };
  double least = s->near ? 0.1 : 0.05; /* nats a draw and parameter */
  if (!s->coordinates || n < LEAST_DRAWS) return;
  MovedPoint *at = positions(s, s->window);
  coordinates_leave(s->coordinates, at, s->s->chains);
  bool changed = coordinates_choose(s->window, s->coordinates, draws, n, least);
  coordinates_enter(s->coordinates, at, s->s->chains);
  if (!changed) return;
  s->near = false;
  make_posteriors(s);
  evaluate_draws(s);
}

/* ---- warm-up --------------------------------------------------------------------------------- */

/* One step for all chains: the median of theirs. */
static double common_step(Sampler *s) {
  double *steps = NEW_ARRAY(s->window, double, s->s->chains),
         *room = NEW_ARRAY(s->window, double, s->s->chains);
  for (size_t k = 0; k < s->s->chains; k++) steps[k] = chain_adapted(s->s->chain[k]);
  return stat_median(steps, s->s->chains, room);
}

static void set_all(const Sampler *s, double step, double trajectory, bool adapting) {
  bool jumping = !strcmp(s->stage, SAMPLING);
  for (size_t k = 0; k < s->s->chains; k++) {
    Chain *c = s->s->chain[k];
    c->accept_target = s->s->accept;
    c->step = step;
    c->trajectory = trajectory;
    c->adapting = false;
    c->normal = &s->normal;
    c->jumps = jumping ? s->s->jumps : 0;
    if (adapting) chain_adapt_from(c, step);
  }
}

/* ---- jumps ---- */

enum { MOST_JUMPING = 64, JUMPS = 3, TRIAL = 8 }; /* parameters; between trajectories; of a chain */

/* All draws of a window, and their log densities. */
typedef struct {
  const double **theta;
  double *lp;
  size_t n;
} WindowDraws;

/* In few dimensions a normal can be near enough. */
static bool may_jump(const Sampler *s, size_t n) {
  size_t dim = s->s->dim;
  return s->s->method == SAMPLER_chees && !s->o->as_given && dim && dim <= MOST_JUMPING &&
         n >= 10 * dim;
}

static void begin_normal(Sampler *s, Arena *a) {
  size_t dim = s->s->dim;
  s->normal = (Normal){NEW_ARRAY(a, double, dim + 1), metric_make(a, dim)};
  s->near = s->o->near;
  if (!s->near || s->o->resume) return;
  memcpy(s->normal.mean, s->o->centre, dim * sizeof(double));
  metric_copy(&s->normal.metric, s->o->first);
}

static void fit_normal(Sampler *s, const WindowDraws *d) {
  size_t dim = s->s->dim;
  memset(s->normal.mean, 0, dim * sizeof(double));
  for (size_t i = 0; i < d->n; i++)
    for (size_t k = 0; k < dim; k++) s->normal.mean[k] += d->theta[i][k] / (double)d->n;
  metric_copy(&s->normal.metric, &s->s->metric);
  metric_estimate(s->window, &s->normal.metric, d->theta, d->n, METRIC_DENSE);
}

/* Of the draws, unless the one that chains began at is near the posterior: that has no noise of
 * draws. A little wider, because what is proposed too seldom holds a chain. */
static void choose_normal(Sampler *s, const WindowDraws *d) {
  const double wider = 1.02;
  Metric *m = &s->normal.metric;
  size_t dim = s->s->dim;
  if (!s->near) fit_normal(s, d);
  for (size_t k = 0; k < (m->dense ? dim * dim : dim); k++) m->root[k] *= wider;
}

/* log of posterior over normal of jumps that are only looked at: [chains x TRIAL]. */
static double *look_at_jumps(Sampler *s) {
  size_t chains = s->s->chains, dim = s->s->dim;
  double *ratio = NEW_ARRAY(s->window, double, chains *TRIAL);
  for (size_t i = 0; i < TRIAL; i++)
    for (size_t g = 0, at = 0; g < s->ngroups; at += s->groups[g++].n) {
      Group *x = &s->groups[g];
      double *squares = ratio + i * chains + at;
      for (size_t k = 0; k < x->n; k++) {
        Chain *c = x->chains[k];
        rng_fill_normal(c->key, 0, UINT64_MAX - i, c->at.r, dim);
        memcpy(c->at.theta, s->normal.mean, dim * sizeof(double));
        metric_move(&s->normal.metric, 1, c->at.r, c->at.theta);
        squares[k] = 0.5 * la_dot(c->at.r, c->at.r, dim);
        x->points[k] = (PosteriorPoint){c->at.theta, c->at_gradient, &c->at_lp};
      }
      posterior_eval(x->posterior, x->points, x->n);
      x->evaluations += (long)x->n;
      for (size_t k = 0; k < x->n; k++) squares[k] += x->chains[k]->at_lp;
    }
  return ratio;
}

/* What a draw by jumps is worth, in independent ones: 1 / mean of (2 - a) / a, a the share of jumps
 * that is accepted from each of the window's draws. The next trajectory ends every stay. */
static double worth_of_jumps(Sampler *s, const WindowDraws *d) {
  size_t dim = s->s->dim, n = s->s->chains * TRIAL;
  const double *ratio = look_at_jumps(s);
  double *z = NEW_ARRAY(s->window, double, dim), sum = 0;
  for (size_t i = 0; i < d->n; i++) {
    double accept = 0;
    for (size_t k = 0; k < dim; k++) z[k] = d->theta[i][k] - s->normal.mean[k];
    metric_whiten(&s->normal.metric, z, z);
    double here = d->lp[i] + 0.5 * la_dot(z, z, dim);
    for (size_t k = 0; k < n; k++)
      accept += (ratio[k] > here ? 1 : exp(ratio[k] - here)) / (double)n;
    accept = fmax(accept, 0.5 / (JUMPS + 1));
    sum += (2 - accept) / accept;
  }
  return (double)d->n / sum;
}

/* How many evaluations a trajectory takes, on average. */
static double mean_steps(const Sample *r) {
  enum { SHARES = 255 };
  double sum = 0;
  for (long k = 0; k < SHARES; k++) sum += chees_stride(k, r->trajectory, r->step).steps;
  return sum / SHARES;
}

/* Are jumps worth more than trajectories, by the evaluation? Draws of these are worth two thirds,
 * about. What is worth less than LEAST_WORTH is too far from normal, and every draw costs, too: it
 * is diagnosed and written. */
static const double LEAST_WORTH = 0.6;

static void choose_jumps(Sampler *s, const WindowDraws *d) {
  s->s->jumps = 0;
  if (!may_jump(s, d->n)) return;
  choose_normal(s, d);
  if (worth_of_jumps(s, d) > fmax(LEAST_WORTH, 2.0 / 3 / mean_steps(s->s))) s->s->jumps = JUMPS;
}

/* Coordinates and metric from all draws of the window. */
static WindowDraws learn(Sampler *s, const MovedPoint *draws, size_t n) {
  WindowDraws d = {NEW_ARRAY(s->window, const double *, n + 1), NEW_ARRAY(s->window, double, n + 1),
                   n};
  choose_coordinates(s, draws, n);
  coordinates_enter(s->coordinates, draws, n);
  for (size_t i = 0; i < n; i++) {
    d.theta[i] = draws[i].theta;
    d.lp[i] = *draws[i].lp;
  }
  metric_estimate(s->window, &s->s->metric, d.theta, d.n, s->o->metric);
  return d;
}

/* A window in which every chain adapts its own step. */
static bool window_alone(Sampler *s, size_t length) {
  set_all(s, s->s->step, 0, !s->o->as_given);
  if (!advance(s, length)) return false;
  if (!s->o->as_given) s->s->step = common_step(s);
  return true;
}

/* A window in which step and length of trajectories are adapted across chains, transition by
 * transition. */
static bool window_together(Sampler *s, size_t length) {
  Sample *r = s->s;
  if (!s->resuming) {
    s->together.step = (StepAdaptation){.mu = log(2 * r->step), .log_mean = log(r->step)};
    s->together.distance = length_begin(r->trajectory);
    s->together.now = r->step;
    s->together.transition = 0;
  }
  double *room = NEW_ARRAY(s->window, double, 3 * r->dim + 1);
  for (; s->together.transition < (long)length; s->together.transition++) {
    set_all(s, s->together.now, length_now(&s->together.distance), false);
    if (!advance(s, 1)) return false;
    length_adapt(&s->together.distance, r->chain, r->chains, &r->metric, room);
    if (r->chain[0]->pace == 1) /* the others say nothing of the step */
      s->together.now =
          step_adapt(&s->together.step, r->accept, acceptance_together(r->chain, r->chains));
  }
  r->step = exp(s->together.step.log_mean);
  r->trajectory = length_mean(&s->together.distance);
  return true;
}

/* The draws of a window go before those of the next. */
static void keep_window(const Sampler *s) {
  size_t dim = s->s->dim;
  for (size_t k = 0; s->o->keep_warmup && k < s->s->chains; k++) {
    const Chain *c = s->s->chain[k];
    size_t n = s->s->before[k].n;
    memcpy(s->s->before[k].draws + n * dim, c->draws, c->ndraws * dim * sizeof *c->draws);
    memcpy(s->s->before[k].stats + n, c->stats, c->ndraws * sizeof *c->stats);
    s->s->before[k].n += c->ndraws;
  }
}

/* Trajectories that diverge once the metric is known, more than one in FEW: the step, whose
 * acceptance is right on average, is too long for parts of the posterior. Unless an acceptance was
 * asked for, the step is then adapted to a higher one. The first half of a window, in which steps
 * are tried that are too long for anything, does not count. */
static const double CAREFUL = 0.95;

static void count_divergences(const Sampler *s, size_t transitions) {
  for (size_t k = 0; k < s->s->chains; k++) {
    s->s->chain[k]->diverged = 0;
    s->s->chain[k]->counted_from = s->s->chain[k]->transitions + (long)transitions / 2;
  }
}

static bool is_too_bold(const Sampler *s, size_t transitions) {
  enum { FEW = 400 };
  size_t diverged = 0;
  for (size_t k = 0; k < s->s->chains; k++) diverged += (size_t)s->s->chain[k]->diverged;
  bool may = !(s->o->accept > 0) && !s->o->as_given && !s->o->keep_warmup;
  return may && s->s->accept < CAREFUL && FEW * diverged > transitions / 2 * s->s->chains;
}

/* False: interrupted. */
static bool warm_up(Sampler *s) {
  WarmupWindow windows[WARMUP_MOST];
  size_t n = warmup_windows((size_t)s->warmup, s->s->chains, s->o->plan, windows);
  for (size_t w = (size_t)s->window_number; w < n; w = (size_t)s->window_number) {
    TempArena *temp = temp_open(s->ctx);
    s->window = &temp->arena;
    for (size_t k = 0; k < s->s->chains; k++)
      chain_room(s->window, s->s->chain[k],
                 windows[w].metric || s->o->keep_warmup ? windows[w].length : 0);
    if (!s->resuming) count_divergences(s, windows[w].length);
    bool whole =
        (s->s->method == SAMPLER_chees ? window_together : window_alone)(s, windows[w].length);
    size_t ndraws;
    const MovedPoint *draws = draws_from(s, s->window, 0, &ndraws);
    coordinates_leave(s->coordinates, draws, ndraws);
    keep_window(s);
    if (whole && windows[w].metric && !s->o->as_given) {
      WindowDraws d = learn(s, draws, ndraws);
      if (w + 2 >= n) choose_jumps(s, &d); /* the last but the one for the step */
    }
    temp_close(temp);
    if (!whole) return false;
    if (w + 1 == n && is_too_bold(s, windows[w].length))
      s->s->accept = CAREFUL; /* and the last window again */
    else
      s->window_number++;
  }
  return true;
}

/* ---- the course ------------------------------------------------------------------------------ */

static void make_groups(Sampler *s, Arena *a, Pool *pool) {
  size_t chains = s->s->chains;
  s->ngroups = (chains + GROUP - 1) / GROUP;
  s->groups = NEW_ARRAY(a, Group, s->ngroups);
  if (pool && s->ngroups >= (size_t)pool_threads(pool) && !s->observed->model->by_draw)
    s->pool = pool;
  else
    s->inner = pool;
  for (size_t g = 0; g < s->ngroups; g++) {
    size_t from = chains * g / s->ngroups, to = chains * (g + 1) / s->ngroups;
    s->groups[g].n = to - from;
    s->groups[g].chains = s->s->chain + from;
  }
}

static Sample *make_sample(Ctx *c, const Model *m, const SampleOptions *o) {
  Sample *s = NEW(&c->arena, Sample);
  *s = (Sample){.method = o->method,
                .chains = o->chains,
                .dim = m->dim,
                .warmup = o->warmup,
                .metric = metric_make(&c->arena, m->dim),
                .step = o->step > 0 ? o->step
                        : m->dim    ? pow((double)m->dim, -0.25)
                                    : 1,
                .trajectory = 2,
                .accept = o->accept > 0 ? o->accept : sampler_accept(o->method)};
  metric_copy(&s->metric, o->first);
  s->chain = NEW_ARRAY(&c->arena, Chain *, o->chains + 1);
  s->before = arena_array(&c->arena, o->chains + 1, sizeof *s->before);
  for (size_t k = 0; k < o->chains; k++) {
    s->chain[k] = chain_make(&c->arena, &s->metric, o->depth ? o->depth : SAMPLER_DEPTH, o->seed,
                             o->chain + k);
    size_t kept = o->keep_warmup ? o->warmup : 0;
    s->before[k].draws = NEW_ARRAY(&c->arena, double, kept * m->dim + 1);
    s->before[k].stats = NEW_ARRAY(&c->arena, DrawStats, kept + 1);
  }
  return s;
}

/* Do the chains agree in all parameters, and have they enough effective draws? */
static bool is_settled(const Sampler *s) {
  const Sample *r = s->s;
  size_t n = (size_t)s->target;
  bool settled = true;
  TempArena *temp = temp_open(s->ctx);
  EssWork *w = ess_work(&temp->arena, r->chains, n);
  double *x = NEW_ARRAY(&temp->arena, double, r->chains *n + 1);
  for (size_t k = 0; k < r->dim && settled; k++) {
    for (size_t j = 0; j < r->chains; j++)
      for (size_t i = 0; i < n; i++) x[j * n + i] = sample_draw(r, j, i)[k];
    DrawsQuality q = ess_quality(w, x);
    settled = !(q.rhat > RHAT_MOST || q.ess_bulk < ESS_LEAST);
  }
  temp_close(temp);
  return settled;
}

/* Twice as many draws, where so many may be made and these are not enough. */
static bool goes_on(Sampler *s, Arena *a) {
  if (2 * (size_t)s->target > s->o->most) return false;
  if (is_settled(s) &&
      (!s->o->settled || s->o->settled(s->o->settled_self, s->s, (size_t)s->target)))
    return false;
  s->total += (long)s->s->chains * s->target;
  s->target *= 2;
  for (size_t k = 0; k < s->s->chains; k++) chain_more_room(a, s->s->chain[k], (size_t)s->target);
  return true;
}

/* Draws that have come since the last time, to the program's coordinates. */
static void leave_coordinates(Sampler *s) {
  TempArena *temp = temp_open(s->ctx);
  size_t n;
  const MovedPoint *p = draws_from(s, &temp->arena, (size_t)s->left, &n);
  coordinates_leave(s->coordinates, p, n);
  s->left = s->target;
  temp_close(temp);
}

/* How far each parameter was moved; and the metric that draws have in the program's coordinates. */
static void tell_coordinates(Sampler *s, Arena *a) {
  const Coordinates *x = s->coordinates;
  if (!x || !x->moved) return;
  TempArena *temp = temp_open(s->ctx);
  size_t n;
  const MovedPoint *p = draws_from(s, &temp->arena, 0, &n);
  const double **theta = NEW_ARRAY(&temp->arena, const double *, n + 1);
  for (size_t i = 0; i < n; i++) theta[i] = p[i].theta;
  metric_estimate(&temp->arena, &s->s->metric, theta, n, s->o->metric);
  temp_close(temp);
  s->s->share = NEW_ARRAY(a, double, s->s->dim + 1);
  for (size_t k = 0; k < x->centring->n; k++) s->s->share[x->centring->parameter[k]] = x->share[k];
}

static void draw(Sampler *s, Arena *a) {
  Sample *r = s->s;
  s->stage = SAMPLING;
  if (!s->resuming) s->target = (long)s->o->draws;
  for (size_t k = 0; k < r->chains; k++) chain_room(a, r->chain[k], (size_t)s->target);
  set_all(s, r->step, r->trajectory, false);
  do {
    r->interrupted = !advance(s, (size_t)s->target - r->chain[0]->ndraws);
    leave_coordinates(s);
  } while (!r->interrupted && goes_on(s, a));
  r->draws = (size_t)s->target;
  for (size_t k = 0; k < r->chains; k++)
    if (r->chain[k]->ndraws < r->draws) r->draws = r->chain[k]->ndraws;
  tell_coordinates(s, a);
}

Sample *sample_run(Ctx *c, const Observed *o, const SampleOptions *so, Pool *pool) {
  TempArena *temp = temp_open(c);
  Sampler s = {.ctx = c,
               .o = so,
               .s = make_sample(c, o->model, so),
               .code = sampler_code(so->method),
               .stage = "warm-up",
               .warmup = (long)so->warmup,
               .observed = o,
               .began = base_seconds()};
  s.saved = s.began;
  if (so->recentre && !so->density && !so->as_given)
    s.coordinates = coordinates_make(&temp->arena, o->model);
  begin_normal(&s, &temp->arena);
  make_groups(&s, &temp->arena, pool);
  if (so->resume) resume_course(&s);
  make_posteriors(&s);
  if (!so->resume) start(&s);
  s.s->warmup = (size_t)s.warmup; /* of a run that is resumed it may have been shorter */
  s.total = (long)so->chains * (s.warmup + (long)so->draws);
  bool warm = warm_up(&s);
  double between = base_seconds();
  s.s->seconds_warmup = s.seconds + between - s.began;
  if (warm)
    draw(&s, &c->arena);
  else
    s.s->interrupted = true;
  s.s->seconds_sampling = base_seconds() - between;
  for (size_t g = 0; g < s.ngroups; g++) {
    s.s->evaluations += s.groups[g].evaluations;
    s.s->undefined += posterior_undefined(s.groups[g].posterior);
  }
  temp_close(s.space);
  temp_close(temp);
  return s.s;
}
