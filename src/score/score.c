/* score.c: the table of scores, and which of them are for which kinds. */
#include "score/count_sums.h"
#include "score/spread.h"

#include <string.h>

static const struct {
  const char *name;
  unsigned flags;
  ScoreFunction *code;
  ScoreRowsFunction *rows;
} scores[SCORE_COUNT] = {
#define SCORE(id, name, flags, rows, formula) [SCORE_##id] = {name, flags, score_##id, rows},
#include "score/scores.def"
#undef SCORE
};

ScoreFunction *score_of(ScoreId id) { return scores[id].code; }
ScoreRowsFunction *score_rows_of(ScoreId id) { return scores[id].rows; }
const char *score_name(ScoreId id) { return scores[id].name; }
unsigned score_needs(ScoreId id) { return scores[id].flags; }
bool score_is_kinked(ScoreId id) { return scores[id].flags & KINKED; }
bool score_keeps_hints(ScoreId id) { return scores[id].flags & KEEPS_HINTS; }

bool score_find(const char *name, ScoreId *id) {
  for (int k = 0; k < SCORE_COUNT; k++)
    if (!strcmp(scores[k].name, name)) {
      *id = (ScoreId)k;
      return true;
    }
  return false;
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
