/* count_int.h: one lane of a mixture of counts, for kind_count.c and count_sums.c. */
#ifndef PVI_SCORE_COUNT_INT_H
#define PVI_SCORE_COUNT_INT_H

#include "score/predictive_mixture.h"

/* One lane: p(k + 1) / p(k) = (a + b k) / (k + 1), d log p(k) / d par[0] = (k - mean) slope. */
typedef struct {
  const struct CountKind *kind;
  double n; /* trials; inf: no bound */
  double a, b;
  double mean, slope;
  double size; /* neg_binomial_2: par[1] */
} Count;

typedef struct {
  double lo, hi;
} Range;

struct CountKind {
  Count (*make)(const double *par, size_t trials);
  double (*pmf)(const Count *c, double k);     /* 0 <= k <= n, whole or not */
  Range (*range)(const Count *c, double nats); /* mass below lo and above hi: <= exp(-nats) each */
  bool bounded;
};

Count count_lane(const Mixture *q, size_t j);
Range count_range(const Count *c); /* where its mass is, but for 1e-15 on either side */
/* The probabilities at k .. k + n - 1, all of them inside the range of the lane or next to it. */
void count_block(const Count *c, double k, size_t n, double *p);
/* neg_binomial_2: d log p(k) / d par[1] */
double count_by_size(const Count *c, double k);

/* The sums of p = sum_j w_j p_j with g = d S / d p: what lane j gets. */
typedef struct {
  double p, moment, by_size; /* sum g p_j, sum g p_j (k - mean), sum g d p_j / d par[1] */
} CountSums;
void count_add_sums(const Mixture *q, size_t j, const Count *c, const CountSums *s,
                    const ScoreAdjoint *adj);

#endif
