/* observed.c: which heads and outcomes the observations of a part have. */
#include "infer/observed.h"

#include "num/rng.h"
#include "num/stats.h"

#include <string.h>

Kind observed_kind(const ObsBlock *b) {
  return b->dist < 0 ? KIND_NONE : kind_of_dist((DistId)b->dist);
}

Observed *observed_make(Arena *a, const Model *m, const size_t *rows, size_t nrows,
                        unsigned wants) {
  ModelRows r = model_rows(a, m, rows, nrows);
  return observed_of(a, m, &r, wants);
}

Observed *observed_of(Arena *a, const Model *m, const ModelRows *rows, unsigned wants) {
  Observed *o = NEW(a, Observed);
  *o = (Observed){.model = m, .arena = a, .n = rows->n, .rows = *rows, .wants = wants};
  o->tape = NEW(a, Tape *);
  o->kinds = NEW_ARRAY(a, Kind, m->nblocks + 1);
  for (int b = 0; b < m->nblocks; b++) o->kinds[b] = observed_kind(&m->blocks[b]);
  return o;
}

enum { SAMPLE = 4096 }; /* rows that show what all are like */

static void keep_distinct(Observed *o, const ModelRows *d, const double *count) {
  ModelRows kept = {.n = d->n, .first = NEW_ARRAY(o->arena, size_t, o->model->nblocks + 1)};
  memcpy(kept.first, d->first, ((size_t)o->model->nblocks + 1) * sizeof *d->first);
  kept.row = memcpy(NEW_ARRAY(o->arena, int32_t, d->n), d->row, d->n * sizeof *d->row);
  o->count = memcpy(NEW_ARRAY(o->arena, double, d->n), count, d->n * sizeof *count);
  o->rows = kept;
  o->n = d->n;
}

/* Looked for among all only when there are some among a few thousand. */
void observed_collapse(Observed *o) {
  TempArena *temp = temp_open(o->arena->ctx);
  double *count;
  ModelRows sample = model_slice(&temp->arena, o->model, &o->rows, 0, SAMPLE);
  ModelRows d = model_distinct(&temp->arena, o->model, &sample, o->wants, &count);
  bool some = d.n < sample.n;
  if (some && o->n > sample.n)
    d = model_distinct(&temp->arena, o->model, &o->rows, o->wants, &count);
  if (some && 10 * d.n <= 9 * o->n) keep_distinct(o, &d, count);
  temp_close(temp);
}

void observed_sort(Observed *o) {
  enum { FEW = 64 };
  TempArena *temp = temp_open(o->arena->ctx);
  ModelRows sample = model_slice(&temp->arena, o->model, &o->rows, 0, SAMPLE);
  if (model_widest(o->arena->ctx, o->model, &sample, o->wants) <= FEW) {
    temp_close(temp);
    return;
  }
  size_t *from = NEW_ARRAY(&temp->arena, size_t, o->n);
  o->rows = model_sorted(o->arena, o->model, &o->rows, o->wants, from);
  if (o->count) {
    double *count = NEW_ARRAY(o->arena, double, o->n);
    for (size_t k = 0; k < o->n; k++) count[k] = o->count[from[k]];
    o->count = count;
  }
  temp_close(temp);
}

Observed *observed_sample(Arena *a, const Observed *o, size_t m, uint64_t seed) {
  int nblocks = o->model->nblocks, b = 0;
  ModelRows s = {.n = m, .first = NEW_ARRAY(a, size_t, nblocks + 1)};
  int32_t *row = NEW_ARRAY(a, int32_t, m);
  double *count = NEW_ARRAY(a, double, m);
  Rng rng = rng_make(seed, 0);
  for (size_t k = 0; k < m; k++) {
    size_t from = o->n * k / m, to = o->n * (k + 1) / m;
    size_t at = from + (size_t)(rng_uniform(rng, k, 0) * (double)(to - from));
    for (; at >= o->rows.first[b + 1]; b++) s.first[b + 1] = k;
    row[k] = o->rows.row[at];
    count[k] = observed_count(o, at) * (double)(to - from);
  }
  for (; b < nblocks; b++) s.first[b + 1] = m;
  s.row = row;
  Observed *sample = observed_of(a, o->model, &s, o->wants);
  sample->count = count;
  return sample;
}

Observed *observed_condensed(Arena *a, const Observed *o) {
  ModelRows rows = o->rows;
  const double *count = o->count;
  const Model *m = model_condense(a, o->model, &rows, &count);
  if (m == o->model) return NULL;
  Observed *c = observed_of(a, m, &rows, o->wants);
  c->count = count;
  return c;
}

double observed_sum(const Observed *o, const double *rows) {
  return o->count ? stat_dot(rows, o->count, o->n) : stat_sum(rows, o->n);
}

const Tape *observed_tape(const Observed *o) {
  if (!*o->tape) *o->tape = model_tape(o->arena, o->model, &o->rows, o->wants);
  return *o->tape;
}

void observed_reduce(Observed *o) {
  o->reduction =
      reduce_observations(o->arena, o->model, &o->rows, o->wants == WANT_LL, &o->not_reduced);
  if (!o->reduction && o->wants & WANT_LL)
    o->products = model_products(o->arena, o->model, &o->rows);
  observed_reduce_prior(o);
}

void observed_reduce_prior(Observed *o) {
  o->prior = reduce_prior(o->arena, o->model, &o->prior_not_reduced);
}

/* Scores by densities and by simulation: every block must have what they need. */
static bool block_allows(Ctx *c, const ObsBlock *b, ScoreId score, const char **why) {
  unsigned needs = score_needs(score);
  const char *what = NULL;
  if (needs & NEEDS_LL && b->root == NO_NODE)
    what = "their density is not known: use a score by simulation";
  if (needs & (NEEDS_SIM | NEEDS_VECTOR_SIM) && b->sim == NO_NODE)
    what = "they cannot be simulated as functions of the parameters";
  if (needs & NEEDS_SIM && b->sim != NO_NODE && b->sim_width != 1)
    what = "they are vectors: use the energy score";
  if (what)
    *why = arena_format(&c->arena, "the %s score of the observations of line %u (%s): %s",
                        score_name(score), b->loc.line, b->name, what);
  return !what;
}

static bool all_allow(Ctx *c, const Model *m, ScoreId score, bool (*allows)(ScoreId, Kind),
                      const char **why) {
  for (int b = 0; b < m->nblocks; b++)
    if (!block_allows(c, &m->blocks[b], score, why)) return false;
  if (!(score_needs(score) & NEEDS_KIND)) return true;
  for (int b = 0; b < m->nblocks; b++) {
    const ObsBlock *k = &m->blocks[b];
    Kind kind = observed_kind(k);
    if (kind != KIND_NONE && allows(score, kind)) continue;
    *why = arena_format(
        &c->arena, "the %s score is not defined for the observations of line %u (%s)%s",
        score_name(score), k->loc.line, k->name,
        kind == KIND_NONE ? ": the distribution of the outcome is not known there" : "");
    return false;
  }
  return true;
}

bool observed_allows(Ctx *c, const Model *m, ScoreId score, const char **why) {
  return all_allow(c, m, score, score_allows, why);
}

bool observed_evaluates(Ctx *c, const Model *m, ScoreId score, const char **why) {
  return all_allow(c, m, score, score_evaluates, why);
}
