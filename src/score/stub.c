#include "score/score.h"
bool score_allows(ScoreId id, Kind kind) { (void)id; (void)kind; return false; }
size_t score_scratch(size_t M, size_t nsim) { return M + nsim; }
