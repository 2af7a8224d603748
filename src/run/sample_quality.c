/* sample_quality.c: draws of chains as columns of the program, what each of them is worth, and the
 * verdict in words. */
#include "run/sampling.h"

#include <math.h>
#include <string.h>

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

/* Every so many draws of a chain, n of each, chain after chain. */
static double *keep_theta(Arena *a, const Sample *x, size_t n, size_t thin) {
  size_t dim = x->dim;
  double *theta = NEW_ARRAY(a, double, x->chains *n *dim + 1);
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

void sample_columns(Ctx *c, SampleRun *s) {
  const Model *m = s->run->problem->model;
  size_t ncols = model_output_count(m);
  s->thin = thin_of(s, ncols);
  s->draws = s->sample->draws / s->thin;
  size_t total = s->sample->chains * s->draws;
  double *theta = keep_theta(&c->arena, s->sample, s->draws, s->thin),
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

static size_t parameter_columns(const Model *m) {
  size_t n = 0, ncols = model_output_count(m);
  while (n < ncols && model_output_is_parameter(m, n)) n++;
  return n;
}

/* How many columns of all draws are looked at: parameters, and transformed parameters where these
 * are not too many; the others are judged by the draws that are kept. */
static size_t whole_columns(const Model *m, double draws) {
  size_t ncols = model_output_count(m), computed = ncols - generated_columns(m, ncols);
  return draws * (double)computed <= MOST_NUMBERS ? computed : parameter_columns(m);
}

/* Which columns, and of how many draws of every chain: whether they are kept or not. */
typedef struct {
  size_t from, to, draws;
} WholeColumns;

static void whole_qualities(Ctx *c, const Model *m, const Sample *x, WholeColumns w,
                            SampledVariable *out, Pool *pool) {
  TempArena *temp = temp_open(c);
  size_t n = w.draws, ncols = w.to - w.from, total = x->chains * n, first = 0;
  bool *wanted = NEW_ARRAY(&temp->arena, bool, m->noutputs + 1);
  for (int k = 0; k < m->noutputs; first += (size_t)m->outputs[k++].n)
    wanted[k] = first >= w.from && first < w.to;
  double *values = NEW_ARRAY(&temp->arena, double, total *ncols + 1),
         *theta = keep_theta(&temp->arena, x, n, 1);
  model_some_outputs(c, m, &(ModelPoints){theta, total, x->dim, 1}, 0, wanted, values);
  Qualities q = {values, x->chains, n, ncols, 0, ncols, out + w.from, NULL, NULL};
  add_qualities(c, &q, pool);
  temp_close(temp);
}

void sample_quality(Ctx *c, SampleRun *s, Pool *pool) {
  const Sample *x = s->sample;
  const Model *m = s->run->problem->model;
  size_t ncols = s->kept->ncols,
         whole = s->thin == 1 ? 0 : whole_columns(m, (double)(x->chains * x->draws));
  SampledVariable *out = NEW_ARRAY(&c->arena, SampledVariable, ncols + 1);
  for (size_t k = 0; k < ncols; k++)
    out[k].summary.name = draws_pretty_name(&c->arena, s->kept->names[k]);
  Qualities q = {s->kept->values, x->chains, s->draws, ncols, whole, ncols, out, NULL, NULL};
  add_qualities(c, &q, pool);
  s->summary.variables = out;
  s->summary.nvariables = ncols;
  s->whole = whole ? whole : ncols;
  if (whole) whole_qualities(c, m, x, (WholeColumns){0, whole, x->draws}, out, pool);
}

/* Parameters alone, which have been looked at, may agree where what is computed from them does not,
 * yet. */
bool sample_is_settled(void *self, const Sample *x, size_t draws) {
  const SampleJudge *judge = self;
  size_t whole = whole_columns(judge->model, (double)(x->chains * draws)),
         from = parameter_columns(judge->model);
  if (from == whole) return true;
  TempArena *temp = temp_open(judge->ctx);
  SampledVariable *out = NEW_ARRAY(&temp->arena, SampledVariable, whole + 1);
  bool settled = true;
  whole_qualities(judge->ctx, judge->model, x, (WholeColumns){from, whole, draws}, out,
                  judge->pool);
  for (size_t k = from; k < whole; k++)
    settled &= !(out[k].quality.rhat > RHAT_MOST || out[k].quality.ess_bulk < ESS_LEAST);
  temp_close(temp);
  return settled;
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static void count_draws(const Sample *x, SampleSummary *v) {
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

/* Whose the worst values are. */
typedef struct {
  const char *rhat, *bulk, *tail;
} WorstNames;

static WorstNames worst_of(const SampleRun *s, SampleSummary *v) {
  const Model *m = s->run->problem->model;
  WorstNames w = {0};
  v->rhat = v->ess_bulk = v->ess_tail = NAN;
  for (size_t k = 0; k < s->whole; k++) {
    const SampledVariable *x = &v->variables[k];
    if (!model_output_is_computed(m, k)) continue;
    if (x->quality.rhat > v->rhat || isnan(v->rhat))
      v->rhat = x->quality.rhat, w.rhat = x->summary.name;
    if (x->quality.ess_bulk < v->ess_bulk || isnan(v->ess_bulk))
      v->ess_bulk = x->quality.ess_bulk, w.bulk = x->summary.name;
    if (x->quality.ess_tail < v->ess_tail || isnan(v->ess_tail))
      v->ess_tail = x->quality.ess_tail, w.tail = x->summary.name;
  }
  return w;
}

/* Adds a reason for doubt. */
static void doubt(Text *t, const char *text) { text_printf(t, "%s%s", t->n ? "; " : "", text); }

/* Of trajectories that diverged: more than one in SOME say that the draws miss a part of the
 * posterior; of fewer the reader is told, and what would make sure. */
enum { SOME = 200 };

static bool few_diverged(const SampleRun *s) {
  return SOME * s->summary.divergences <= s->sample->chains * s->sample->draws;
}

static const char *divergence_words(Arena *a, const SampleRun *s, double total) {
  const SampleSummary *v = &s->summary;
  const char *count = arena_format(a, "%zu of %.0f trajectories diverged (%.2g%%)", v->divergences,
                                   total, 100 * (double)v->divergences / total),
             *more = s->sample->accept < 0.9 ? "0.95" : "0.99";
  if (few_diverged(s))
    return arena_format(a,
                        "%s: the posterior has a corner too narrow for the step, of which the "
                        "draws may have too little; see that " OPTION("accept") " %s comes to the "
                                                                                "same",
                        count, more);
  return arena_format(
      a,
      "%s: there are regions too narrow for the step, and means may be off; " OPTION(
          "accept") " %s makes it shorter; better, %s",
      count, more,
      s->run->o->centring ? "leave " OPTION("centring") " to warm-up (auto)"
                          : "rewrite a hierarchy non-centred");
}

/* What stands against the draws, in words; "": nothing does. */
static const char *doubts(Ctx *c, const SampleRun *s, const WorstNames *w) {
  const SampleSummary *v = &s->summary;
  Text t = text_make(&c->arena);
  Arena *a = &c->arena;
  double total = (double)(s->sample->chains * s->sample->draws);
  text_puts(&t, "");
  if (v->rhat > RHAT_MOST)
    doubt(&t, arena_format(a,
                           "the chains do not agree (R-hat %.3f of %s): they have not seen the "
                           "whole posterior; run them longer, or look for several modes",
                           v->rhat, w->rhat));
  if (v->divergences) doubt(&t, divergence_words(a, s, total));
  if (v->ess_bulk < ESS_LEAST)
    doubt(&t,
          arena_format(a,
                       "there are few effective draws (%.0f of %s): run the chains longer (" OPTION(
                           "draws") ")",
                       v->ess_bulk, w->bulk));
  else if (v->ess_tail < ESS_LEAST)
    doubt(&t,
          arena_format(a, "the tails have few effective draws (%.0f of %s): quantiles are rough",
                       v->ess_tail, w->tail));
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

void sample_verdict(Ctx *c, SampleRun *s) {
  SampleSummary *v = &s->summary;
  count_draws(s->sample, v);
  v->bfmi = least_bfmi(c, s->sample);
  WorstNames worst = worst_of(s, v);
  const char *against = doubts(c, s, &worst);
  v->trusted = !(v->rhat > RHAT_MOST) && (!s->sample->dim || v->ess_bulk >= ESS_LEAST) &&
               !s->sample->interrupted && few_diverged(s);
  v->verdict = !*against ? "the draws can be trusted: chains agree, none diverged, and there are "
                           "enough effective draws"
                         : ctx_words(c, against, c->option_prefix);
}
