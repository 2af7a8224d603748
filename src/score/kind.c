/* kind.c: the table of kinds, and what is told of them by number. */
#include "score/kind_int.h"

#include <math.h>

static const struct {
  const KindCode *code;
  int parameters;
  bool discrete;
} kinds[KIND_COUNT] = {
#define KIND(ID, dist, parameters, discrete) [KIND_##ID] = {&kind_##dist, parameters, discrete},
#include "score/kinds.def"
#undef KIND
};

static const Kind of_dist[DIST_COUNT] = {
#define KIND(ID, dist, parameters, discrete) [DIST_##dist] = KIND_##ID,
#include "score/kinds.def"
#undef KIND
};

Kind kind_of_dist(DistId dist) { return of_dist[dist]; }
int kind_parameters(Kind k) { return kinds[k].parameters; }
bool kind_discrete(Kind k) { return kinds[k].discrete; }
const KindCode *kind_code(Kind k) { return kinds[k].code; }
bool kind_is_count(Kind k) { return k != KIND_NONE && kind_code(k)->count; }
bool kind_is_costly(Kind k) { return k != KIND_NONE && kind_code(k)->cells; }
bool kind_has_moments(Kind k) { return kinds[k].code->moments != NULL; }
size_t kind_rows(Kind k, size_t size) { return k != KIND_NONE && kinds[k].code->vector ? size : 1; }

double kind_mean(Kind k, const double *par, size_t size) {
  return kind_has_moments(k) ? kinds[k].code->moments(par, size).mean : (double)NAN;
}

double kind_variance(Kind k, const double *par, size_t size) {
  return kind_has_moments(k) ? kinds[k].code->moments(par, size).variance : (double)INFINITY;
}

double kind_sample(Kind k, const double *par, size_t size, RngStream *r) {
  return kinds[k].code->sample(par, size, r);
}
