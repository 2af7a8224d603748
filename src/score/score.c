/* score.c: the tables of scores and kinds. */
#include "score/spread.h"

#include <string.h>

static const struct {
  const char *name;
  unsigned needs;
  ScoreFunction *code;
} rows[SCORE_COUNT] = {
#define SCORE(id, name, needs, formula) [SCORE_##id] = {name, needs, score_##id},
#include "score/scores.def"
#undef SCORE
};

ScoreFunction *score_of(ScoreId id) { return rows[id].code; }
ScoreRowsFunction *score_rows_of(ScoreId id) {
  return id == SCORE_log ? score_log_rows : id == SCORE_elbo ? score_elbo_rows : NULL;
}
const char *score_name(ScoreId id) { return rows[id].name; }
unsigned score_needs(ScoreId id) { return rows[id].needs; }

bool score_find(const char *name, ScoreId *id) {
  for (int k = 0; k < SCORE_COUNT; k++)
    if (!strcmp(rows[k].name, name)) {
      *id = (ScoreId)k;
      return true;
    }
  return false;
}

static const struct {
  int parameters;
  bool discrete;
} kinds[KIND_COUNT] = {
#define KIND(id, npar, discrete, parameters) [KIND_##id] = {npar, discrete},
#include "score/kinds.def"
#undef KIND
};

int kind_parameters(Kind k) { return kinds[k].parameters; }
bool kind_discrete(Kind k) { return kinds[k].discrete; }

/* ---- which score for which kind -------------------------------------------------------------- */

bool score_evaluates(ScoreId id, Kind kind) {
  if (!(rows[id].needs & NEEDS_KIND)) return true;
  if (kind == KIND_NONE) return false;
  if (id == SCORE_quadratic) return kind_discrete(kind);
  return kind != KIND_CAUCHY || (id != SCORE_crps && id != SCORE_dawid_sebastiani); /* no moments */
}

/* Quantiles of discrete outcomes are steps: their derivative is zero almost everywhere; and
 * simulated discrete outcomes have none at all. */
bool score_allows(ScoreId id, Kind kind) {
  static const bool by_quantile[SCORE_COUNT] = {
      [SCORE_interval] = true, [SCORE_quantile] = true, [SCORE_weighted_interval] = true};
  if (!score_evaluates(id, kind)) return false;
  bool simulates = rows[id].needs & (NEEDS_SIM | NEEDS_VECTOR_SIM);
  return !((by_quantile[id] || simulates) && kind != KIND_NONE && kind_discrete(kind));
}

/* Rows of mixture.c and of the score, nodes of spread.c, a sorted copy of the simulated outcomes.
 */
size_t score_scratch(size_t M, size_t nsim) {
  return (MIXTURE_ROWS + SPREAD_ROWS) * score_padded(M) + SPREAD_SPACE + nsim + LANES;
}
