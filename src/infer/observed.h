/* observed.h: the observations of one part, ready to be scored: their tape and what was seen. */
#ifndef PVI_OBSERVED_H
#define PVI_OBSERVED_H

#include "model/model.h"
#include "model/products.h"
#include "model/reduce.h"
#include "score/score.h"

typedef struct {
  const Model *model;
  Arena *arena; /* of all that is made of it */
  size_t n;
  ModelRows rows;
  const double *count; /* of each row: so many observations like it; NULL: one */
  Kind *kinds;         /* of each block; KIND_NONE: unknown */
  unsigned wants;      /* heads of the tape: WANT_LL, WANT_PARAMETERS */
  Tape **tape;         /* made when it is asked for: exact integration does without */
  /* for exact integration, where asked for by observed_reduce: NULL, and the reason, where it
   * cannot be */
  const Reduction *reduction, *prior;
  const char *not_reduced, *prior_not_reduced;
  const Products *products; /* what else they may be, likewise */
} Observed;

/* The given observations (0-based; NULL: all). Whatever is made of them, now or later, lives in the
 * arena. */
Observed *observed_make(Arena *a, const Model *m, const size_t *rows, size_t nrows, unsigned wants);
Observed *observed_of(Arena *a, const Model *m, const ModelRows *rows,
                      unsigned wants); /* rows->row outlives it */
/* Observations that the wanted heads cannot tell apart become one row with a count; where that does
 * not save much they stay. To be called before anything is made of them. */
void observed_collapse(Observed *o);
/* Rows that read the same parameters come together: what they add to is then in cache, and chunks
 * hardly overlap. Where there are few parameters to pick from, rows stay where they are. To be
 * called before anything is made of them. */
void observed_sort(Observed *o);
/* For VI, which asks for nothing but the sum of the log densities: fewer rows that have the same
 * (model_condense). NULL: there are none. */
Observed *observed_condensed(Arena *a, const Observed *o);
/* m of its rows: the rows are divided into m stretches, and a row taken at random from each counts
 * for the whole stretch. */
Observed *observed_sample(Arena *a, const Observed *o, size_t m, uint64_t seed);
static inline double observed_count(const Observed *o, size_t k) {
  return o->count ? o->count[k] : 1;
}
double observed_sum(const Observed *o,
                    const double *rows); /* of a number a row, over the observations */
const Tape *observed_tape(const Observed *o);
void observed_reduce(Observed *o);
void observed_reduce_prior(Observed *o); /* only that */

/* What was seen in row k of all, which is one of the given block. */
static inline double observed_y(const Observed *o, int block, size_t k) {
  const ObsBlock *b = &o->model->blocks[block];
  return b->dist < 0 ? 0 : b->y[o->rows.row[k]];
}
static inline size_t observed_size(const Observed *o, int block,
                                   size_t k) { /* trials, categories */
  const ObsBlock *b = &o->model->blocks[block];
  return b->dist < 0 ? 0 : b->size ? (size_t)b->size[o->rows.row[k]] : (size_t)b->width;
}
/* What a simulated outcome is compared with. */
static inline const double *observed_sim_y(const Observed *o, int block, size_t k) {
  const ObsBlock *b = &o->model->blocks[block];
  return b->sim_y ? b->sim_y + (size_t)o->rows.row[k] * (size_t)b->sim_width : NULL;
}

Kind observed_kind(const ObsBlock *b);
/* Can the score be computed for every observation? If not, *why is the reason. */
bool observed_allows(Ctx *c, const Model *m, ScoreId score, const char **why);
/* The same for held-out observations, where no derivatives are needed. */
bool observed_evaluates(Ctx *c, const Model *m, ScoreId score, const char **why);

#endif
