/* rightness.h: how much of what can be said about the outcomes a program leaves unsaid.
 *
 * A gain over Bayes in nats has no size of its own: with many observations the smallest fault gains
 * much. It is measured by what there is to say at all: how far the freed fit is ahead of the
 * outcomes' own distribution, of the same form and with the same parameters for all observations,
 * which knows nothing of the program. The program leaves the share gain / (ahead of that) unsaid.
 */
#ifndef PVI_RIGHTNESS_H
#define PVI_RIGHTNESS_H

#include "run/run.h"

/* Shares below this are those of a program that is nearly right. */
#define NEARLY_RIGHT 0.05

/* The log score of the outcomes' own distribution, summed over the observations whose number in
 * `counted` is no NaN. NAN: it is not known for these outcomes. */
double rightness_outcomes(const Model *m, const double *counted);
typedef struct {
  double share; /* NAN: it is not known */
  double total; /* what there is to say, in nats */
  size_t n;     /* observations that count */
} Rightness;
/* Where Bayes has these held-out log scores, their first column, and q gains so much over them in
 * sum. */
Rightness rightness_of(Ctx *c, const Model *m, const Scores *bayes, double gain);
/* "of the 1186 nats by which 19 observations can be predicted better than by one distribution for
 * all of them Bayes misses 1.1%" */
const char *rightness_words(Arena *a, const Rightness *r);
static inline bool rightness_is_near(const Rightness *r) { return r->share < NEARLY_RIGHT; }

#endif
