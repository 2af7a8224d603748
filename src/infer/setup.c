/* setup.c: what has to be there before a fit begins: its q, its observations, and whether what was
 * asked for can be had at all; and small questions about the fit that its other files ask.
 */
#include "infer/fit_int.h"

#include "num/rng.h"

#include <math.h>
#include <string.h>

#ifdef PVI_TORTURE
enum { SAMPLE_ROWS = 64, SAMPLE_ROWS_EACH = 0 };
#else
enum { SAMPLE_ROWS = 16384, SAMPLE_ROWS_EACH = 16 }; /* in all, and more for every parameter */
#endif
enum { SAMPLED_FROM = 16, FULLRANK_MOST = 30 };

uint64_t fit_seed(const Fitter *f, uint64_t what) { return rng_mix(f->o->seed * 1000003u + what); }

void fit_note(Fitter *f, const char *text) {
  PUSH(&f->ctx->arena, f->fit->notes, f->fit->nnotes, f->fit->cap_notes, text);
}

/* ---- questions ------------------------------------------------------------------------------- */

bool fit_is_exact(const Fitter *f) {
  const char *why;
  return f->target.integrate != INTEGRATE_DRAWS && exact_applies(f->train, &f->target, &f->q, &why);
}

bool fit_is_split(const Fitter *f) {
  return f->target.integrate != INTEGRATE_DRAWS && !fit_is_exact(f) &&
         predictive_splits(f->train, &f->target, &f->q);
}

bool fit_is_rich(const Fitter *f) { return f->q.family != FAMILY_meanfield; }

bool fit_looks_around(const Fitter *f) {
  enum { MOST_NUMBERS = 1024 };
  return !fit_is_exact(f) && !fit_is_rich(f) && !fit_kinked(f) && q_size(&f->q) <= MOST_NUMBERS;
}

bool fit_is_continuous(const Fitter *f) {
  for (int b = 0; b < f->model->nblocks; b++)
    if (!kind_discrete(f->train->kinds[b])) return true;
  return false;
}

/* Scores of a continuous outcome's distribution integrate over it exactly, draw by draw: they are
 * smooth in theta and need fewer draws, and each draw costs more. Where draws are for the
 * regularizer alone, their errors are as small as its weight. */
size_t fit_draws(const Fitter *f, size_t draws) {
  bool fewer = target_needs(&f->target) & NEEDS_KIND && fit_is_continuous(f);
  size_t part = fit_is_split(f) ? 16 : fewer ? 4 : 1;
  return draws / part * (fit_is_rich(f) ? 2 : 1);
}

double fit_outcome_sd(const Fitter *f) {
  double mean = 0, ss = 0, n = (double)f->n;
  const ModelRows *rows = &f->train->rows;
  for (int b = 0; b < f->model->nblocks; b++)
    for (size_t k = rows->first[b]; k < rows->first[b + 1]; k++)
      mean += observed_count(f->train, k) * observed_y(f->train, b, k) / n;
  for (int b = 0; b < f->model->nblocks; b++)
    for (size_t k = rows->first[b]; k < rows->first[b + 1]; k++) {
      double d = observed_y(f->train, b, k) - mean;
      ss += observed_count(f->train, k) * d * d;
    }
  return sqrt(ss / n);
}

/* ---- q --------------------------------------------------------------------------------------- */

/* Marks the parameters of the program's variable with this name. */
static bool mark_points(const Model *m, const char *name, bool *flags) {
  bool found = false;
  for (int k = 0; k < m->noutputs; k++) {
    const Output *o = &m->outputs[k];
    if (o->block != BLOCK_PARAMETERS || strcmp(o->name, name) != 0) continue;
    for (int32_t i = 0; i < o->unconstrained; i++) flags[o->offset + i] = true;
    found = true;
  }
  return found;
}

static const bool *point_flags(const Fitter *f) {
  bool *flags = NEW_ARRAY(&f->ctx->arena, bool, f->model->dim + 1);
  for (int p = 0; p < f->o->npoints; p++)
    if (!mark_points(f->model, f->o->points[p], flags))
      ctx_fail(f->ctx, PVI_USAGE, NOWHERE, OPTION("point") " %s: the program has no such parameter",
               f->o->points[p]);
  return f->o->npoints ? flags : NULL;
}

/* A predictive score with little to hold it decides all numbers of q by the observations alone: two
 * for each of them are the least. VI's numbers are decided by the model. */
static bool too_few_observations(const Fitter *f) {
  bool held = f->target.score == SCORE_elbo || f->target.lambda >= 1;
  return !held && f->n < f->model->dim * (f->model->dim + 3);
}

static FamilyId chosen_family(Fitter *f) {
  Arena *a = &f->ctx->arena;
  size_t dim = f->model->dim;
  const char *full = family_name(FAMILY_fullrank), *mean = family_name(FAMILY_meanfield);
  if (dim <= FULLRANK_MOST && too_few_observations(f)) {
    fit_note(f, arena_format(a,
                             "family %s chosen: %s has %zu numbers to find, which is too many for "
                             "%zu observations and a lambda below 1",
                             mean, full, dim * (dim + 3) / 2, f->n));
    return FAMILY_meanfield;
  }
  bool few = dim <= FULLRANK_MOST;
  fit_note(f, arena_format(a, "family %s chosen: %zu parameters (%s up to %d)", few ? full : mean,
                           dim, full, FULLRANK_MOST));
  return few ? FAMILY_fullrank : FAMILY_meanfield;
}

static void choose_q(Fitter *f) {
  FamilyId family = f->o->choose_family ? chosen_family(f) : f->o->family;
  f->q = q_make(&f->ctx->arena, family, f->o->shape, f->model->dim, point_flags(f));
}

/* A predictive score is a sum over observations: it can say only so much. */
static void warn_of_many_parameters(Fitter *f) {
  if (f->target.score == SCORE_elbo || f->model->dim <= f->n) return;
  fit_note(f,
           arena_format(&f->ctx->arena,
                        "warning: more parameters (%zu) than observations (%zu): where the score "
                        "does not decide, the regularizer does (" OPTION(
                            "lambda") "), and scores of the training part flatter",
                        f->model->dim, f->n));
}

/* ---- how it is integrated -------------------------------------------------------------------- */

/* Exact integration is a function of phi, so it is not for optimizers that live on fresh draws. */
static void choose_integration(Fitter *f) {
  Integrate *how = &f->target.integrate;
  if (f->o->optimizer == OPTIM_LBFGS && !f->o->draws && model_has_densities(f->model)) return;
  if (*how == INTEGRATE_EXACT)
    ctx_fail(f->ctx, PVI_USAGE, NOWHERE, OPTION("integrate") " exact is not available, because %s",
             f->o->draws ? "it has no draws (" OPTION("draws") ")"
                         : "it is for the optimizer lbfgs and programs with a density");
  *how = INTEGRATE_DRAWS;
}

static void say_integration(Fitter *f) {
  const char *why;
  if (f->target.integrate == INTEGRATE_DRAWS || exact_applies(f->train, &f->target, &f->q, &why))
    return;
  if (f->target.integrate == INTEGRATE_EXACT)
    ctx_fail(f->ctx, PVI_USAGE, NOWHERE, OPTION("integrate") " exact is not available, because %s",
             why);
  fit_note(f, arena_format(&f->ctx->arena, "%s by draws, because %s",
                           fit_is_split(f) ? "the regularizer is integrated" : "integrated", why));
}

static void reduce(const Fitter *f, Observed *o) {
  if (f->target.integrate == INTEGRATE_DRAWS) {
    observed_reduce_prior(o); /* the regularizer can do without draws all the same */
  } else {
    observed_reduce(o);
  }
}

/* ---- the observations ------------------------------------------------------------------------ */

/* Mini-batches are consecutive rows: of a random order. */
static const size_t *training_order(Fitter *f, const Split *split) {
  size_t n = split->count[PART_TRAIN];
  if (!f->o->minibatch) return split->rows[PART_TRAIN];
  size_t *rows = NEW_ARRAY(f->arena, size_t, n);
  memcpy(rows, split->rows[PART_TRAIN], n * sizeof *rows);
  RngStream r = rngs_make(f->o->seed, SEED_STEP);
  rngs_shuffle(&r, rows, n);
  return rows;
}

/* Fewer rows that are the same to VI; NULL: there are none. */
static const Observed *condensed(const Fitter *f, const Observed *o) {
  Observed *c = f->o->minibatch ? NULL : observed_condensed(f->parts, o);
  if (!c) return NULL;
  reduce(f, c);
  if (!c->reduction) observed_sort(c);
  return c;
}

typedef struct {
  size_t n;
  unsigned wants;
  bool sums; /* nobody asks for single observations */
} Training;

/* The first n training observations. Those that are the same become one row that counts for all of
 * them; where the rows are still very many, *few is a sample of them, else it is all. Mini-batches
 * keep their rows apart: a share of the rows must be the same share of the observations. */
static const Observed *training_part(Fitter *f, Training t, const Observed **few) {
  Observed *o = observed_make(f->parts, f->model, f->order, t.n, t.wants), *s = o;
  size_t most = f->o->sample ? f->o->sample : SAMPLE_ROWS + SAMPLE_ROWS_EACH * f->model->dim;
  if (!f->o->minibatch) observed_collapse(o);
  *few = t.sums ? condensed(f, o) : NULL;
  if (*few) return *few;
  if (!f->o->minibatch && o->n > SAMPLED_FROM * most)
    s = observed_sample(f->parts, o, most, fit_seed(f, SEED_EXPLORE));
  reduce(f, o);
  if (!o->reduction && !f->o->minibatch) observed_sort(o);
  if (s != o) reduce(f, s);
  *few = s;
  return o;
}

/* The training observations as they are predicted, by q that have not seen them. */
static void take_apart(Fitter *f, unsigned wants) {
  if (!f->o->nparts) return;
  f->apart = NEW_ARRAY(f->parts, PredictivePart, f->o->nparts);
  for (size_t k = 0; k < f->o->nparts; k++) {
    const FitPart *part = &f->o->parts[k];
    Observed *o = observed_make(f->parts, f->model, part->rows, part->n, wants);
    observed_collapse(o);
    reduce(f, o);
    if (!o->reduction) observed_sort(o);
    f->apart[k] = (PredictivePart){o, part->offset};
  }
  fit_note(f, "what is free was fitted to predictions of observations that the rest had not seen");
}

/* VI's: with the log likelihood alone, and where that saves much, in fewer rows. */
static void make_vi_parts(Fitter *f, unsigned wants) {
  const Observed *fewer = NULL;
  if (wants != WANT_LL) {
    size_t n = model_has_densities(f->model) ? f->n : 0;
    f->train_ll = training_part(f, (Training){n, WANT_LL, true}, &f->few_ll);
    return;
  }
  if (f->target.score != SCORE_elbo) fewer = condensed(f, f->train);
  f->train_ll = fewer ? fewer : f->train;
  f->few_ll = fewer ? fewer : f->few;
}

static void make_parts(Fitter *f, const Split *split) {
  unsigned wants = target_wants(&f->target);
  bool vi = f->target.score == SCORE_elbo;
  f->order = training_order(f, split);
  f->train = training_part(f, (Training){f->n, wants, vi}, &f->few);
  make_vi_parts(f, wants);
  take_apart(f, wants);
  Observed *valid = observed_make(f->parts, f->model, split->rows[PART_VALID], f->nvalid, wants);
  if (f->target.integrate != INTEGRATE_DRAWS) observed_reduce(valid);
  f->valid = valid;
  f->valid_scores = NEW_ARRAY(f->arena, double, f->nvalid);
}

/* ---- all ------------------------------------------------------------------------------------- */

void fit_setup(Fitter *f, const Split *split) {
  Target *t = &f->target;
  const char *why;
  f->n = split->count[PART_TRAIN];
  f->nvalid = split->count[PART_VALID];
  f->paused = text_make(f->parts);
  f->one = text_make(f->parts);
  if (t->score == SCORE_elbo) {
    t->regularizer = REG_PRIOR;
    t->lambda = 1;
  }
  if (!target_allows(f->ctx, f->model, t, &why)) ctx_fail(f->ctx, PVI_USAGE, NOWHERE, "%s", why);
  if (!model_has_densities(f->model) && target_posterior(t) != 0)
    ctx_fail(f->ctx, PVI_USAGE, NOWHERE,
             "without a density there is no posterior: use " OPTION(
                 "regularize") " prior, or " OPTION("lambda") " 0");
  choose_q(f);
  warn_of_many_parameters(f);
  choose_integration(f);
  make_parts(f, split);
  say_integration(f);
}

/* ---- identity -------------------------------------------------------------------------------- */

static void mix(uint64_t *h, uint64_t x) { *h = rng_mix(*h ^ rng_mix(x + 1)); }

static void mix_double(uint64_t *h, double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  mix(h, bits);
}

static void mix_target(uint64_t *h, const Target *t) {
  const ScoreOptions *s = &t->score_options;
  const double numbers[] = {s->alpha,  s->smooth, s->bandwidth,
                            t->lambda, t->share,  t->score_weight};
  const uint64_t choices[] = {t->score, s->halves, t->regularizer, t->integrate, t->nodes};
  for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) mix_double(h, numbers[k]);
  for (size_t k = 0; k < sizeof choices / sizeof *choices; k++) mix(h, choices[k]);
  for (size_t k = 0; k < s->nlevels; k++) mix_double(h, s->levels[k]);
  for (size_t k = 0; k < s->nparts; k++) {
    mix(h, s->parts[k].id);
    mix_double(h, s->parts[k].weight);
  }
}

static void mix_options(uint64_t *h, const FitOptions *o) {
  const double numbers[] = {o->learning_rate, o->clip, o->init_radius};
  const uint64_t choices[] = {o->draws,    o->sample,        o->optimizer, (uint64_t)o->iterations,
                              o->schedule, o->minibatch,     o->rejection, o->select_validation,
                              o->seed,     o->start != NULL, o->nparts};
  for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) mix_double(h, numbers[k]);
  for (size_t k = 0; k < sizeof choices / sizeof *choices; k++) mix(h, choices[k]);
}

static void mix_q(uint64_t *h, const Q *q) {
  const Shape *s = &q->shape;
  const uint64_t numbers[] = {q->family, q->dim,   s->dim,    s->components,
                              s->rank,   s->knots, s->layers, s->hidden};
  for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) mix(h, numbers[k]);
  for (size_t k = 0; k < q->npoint; k++) mix(h, q->point[k]);
}

static void mix_observations(uint64_t *h, const Fitter *f, const Split *split) {
  mix(h, f->model->n_obs);
  for (int p = PART_TRAIN; p <= PART_VALID; p++)
    for (size_t k = 0; k < split->count[p]; k++) mix(h, split->rows[p] ? split->rows[p][k] : k);
  for (int b = 0; b < f->model->nblocks; b++) {
    const ObsBlock *block = &f->model->blocks[b];
    for (int32_t r = 0; block->dist >= 0 && r < block->rows; r++) mix_double(h, block->y[r]);
  }
}

/* All options, the split and the outcomes, but not the program and its other data. */
uint64_t fit_identity(const Fitter *f, const Split *split) {
  uint64_t h = 1;
  mix_target(&h, &f->target);
  mix_options(&h, f->o);
  for (size_t k = 0; f->o->init && k < f->model->dim; k++) mix_double(&h, f->o->init[k]);
  mix_q(&h, &f->q);
  mix_observations(&h, f, split);
  return h ? h : 1;
}
