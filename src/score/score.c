/* score.c: the tables of scores and kinds. */
#include "score/score.h"

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
