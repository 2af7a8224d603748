/* score.c: the table of scores, and which of them are for which kinds. */
#include "score/count_sums.h"
#include "score/spread.h"

#include <string.h>

static const struct {
  const char *name, *title;
  unsigned flags;
  ScoreFunction *code;
  ScoreRowsFunction *rows;
} scores[SCORE_COUNT + 1] = {
#define SCORE(id, name, title, flags, rows, formula)                                               \
  [SCORE_##id] = {name, title, flags, score_##id, rows},
#include "score/scores.def"
#undef SCORE
    [SCORE_sum] = {"sum", "sum", 0, score_sum, NULL},
};

ScoreFunction *score_of(ScoreId id) { return scores[id].code; }
ScoreRowsFunction *score_rows_of(ScoreId id) { return scores[id].rows; }
const char *score_name(ScoreId id) { return scores[id].name; }
unsigned score_needs(ScoreId id) { return scores[id].flags; }

unsigned score_flags(ScoreId id, const ScoreOptions *o) {
  unsigned flags = scores[id].flags;
  for (size_t k = 0; id == SCORE_sum && k < o->nparts; k++) flags |= scores[o->parts[k].id].flags;
  return flags;
}

/* 0.5 log + 0.5 interval: without commas, for it is the name of a column, too. */
const char *score_title(Arena *a, ScoreId id, const ScoreOptions *o) {
  if (id != SCORE_sum) return scores[id].name;
  Text t = text_make(a);
  for (size_t k = 0; k < o->nparts; k++)
    text_printf(&t, "%s%.6g %s", k ? " + " : "", o->parts[k].weight, scores[o->parts[k].id].name);
  return t.s;
}

bool score_find(const char *name, ScoreId *id) {
  for (int k = 0; k < SCORE_COUNT; k++)
    if (!strcmp(scores[k].name, name)) {
      *id = (ScoreId)k;
      return true;
    }
  return false;
}

ScoreShown score_shown(const char *name) {
  ScoreId id;
  if (!score_find(name, &id)) {
    const char *title = strcmp(name, "log_at_mean") ? name : "log score at the mean of q";
    return (ScoreShown){title, "larger is better", 1};
  }
  bool loss = scores[id].flags & LOSS;
  return (ScoreShown){scores[id].title, loss ? "smaller is better" : "larger is better",
                      loss ? -1 : 1};
}

/* ---- which score for which kind -------------------------------------------------------------- */

bool score_evaluates(ScoreId id, Kind kind) {
  unsigned flags = scores[id].flags;
  if (!(flags & NEEDS_KIND)) return true;
  if (kind == KIND_NONE) return false;
  return !(flags & OF_DISCRETE && !kind_discrete(kind)) &&
         !(flags & OF_MOMENTS && !kind_has_moments(kind));
}

/* Quantiles of discrete outcomes are steps: their derivative is zero almost everywhere; and
 * simulated discrete outcomes have none at all. */
bool score_allows(ScoreId id, Kind kind) {
  if (!score_evaluates(id, kind)) return false;
  bool steps = scores[id].flags & (BY_QUANTILE | NEEDS_SIM | NEEDS_VECTOR_SIM);
  return !(steps && kind != KIND_NONE && kind_discrete(kind));
}

/* Rows of predictive_mixture.c and of the score, nodes of spread.c, a sorted copy of the simulated
 * outcomes. */
size_t score_scratch(size_t M, size_t nsim, bool counts) {
  size_t space = counts ? COUNT_SPACE : SPREAD_SPACE;
  return (MIXTURE_ROWS + SPREAD_ROWS) * score_padded(M) + space + nsim + LANES;
}
