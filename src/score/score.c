/* score.c: the table of scores. */
#include "score/score.h"

static const struct {
  const char *name;
  ScoreRow *row;
} rows[SCORE_COUNT] = {
#define SCORE(id, name, formula) [SCORE_##id] = {name, score_##id},
#include "score/scores.def"
#undef SCORE
};

ScoreRow *score_of(ScoreId id) { return rows[id].row; }
const char *score_name(ScoreId id) { return rows[id].name; }
