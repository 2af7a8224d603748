/* kind.h: the kinds of outcome (kinds.def): distributions of one number, given by numbers.
 *
 * par: the parameters in the order of kinds.def, of a categorical outcome `size` probabilities;
 * size: the trials of a binomial, the number of categories, else not looked at.
 */
#ifndef PVI_SCORE_KIND_H
#define PVI_SCORE_KIND_H

#include "num/rng.h"
#include "stan/stan.h"

typedef enum {
  KIND_NONE,
#define KIND(ID, dist, parameters, discrete) KIND_##ID,
#include "score/kinds.def"
#undef KIND
  KIND_COUNT,
} Kind;

enum { KIND_PARAMETERS = 3 }; /* at most */

Kind kind_of_dist(DistId dist); /* KIND_NONE: there is none */
int kind_parameters(Kind k);    /* how many it has */
bool kind_discrete(Kind k);     /* whole numbers */
bool kind_is_count(Kind k);     /* 0, 1, 2, ... */
/* Has it no cumulative function that is fast? Its CRPS and quantiles then cost tens of microseconds
 * a lane. */
bool kind_is_costly(Kind k);
bool kind_has_moments(Kind k);         /* false: whatever its parameters, as a cauchy */
size_t kind_rows(Kind k, size_t size); /* rows of par[0]: one per category, else one */

double kind_mean(Kind k, const double *par, size_t size);     /* nan where there is none */
double kind_variance(Kind k, const double *par, size_t size); /* inf where there is none */
double kind_sample(Kind k, const double *par, size_t size, RngStream *r);

#endif
