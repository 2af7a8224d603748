/* component.h: the distribution one lane predicts, kind by kind; internal to score/. mixture.h puts
 * the lanes together.
 *
 * par: the lane's parameters in the order of kinds.def; d: derivatives in the same order.
 */
#ifndef PVI_SCORE_COMPONENT_H
#define PVI_SCORE_COMPONENT_H

#include "score/score.h"

/* ---- continuous kinds ------------------------------------------------------------------------ */

typedef struct {
  double (*cdf)(const double *par, double t); /* F(t) */
  double (*pdf)(const double *par, double t); /* f(t) */
  /* d[k] = d F(t) / d par[k] for the k whose bit is in `want`; others may be set too */
  void (*cdf_d)(const double *par, double t, unsigned want, double *d);
  double (*gap)(const double *par, double y,
                double *d); /* E|Y - y| and, with d, its derivatives; inf without a mean */
  double (*standard_quantile)(
      double p); /* of location-scale kinds, at (0, 1); NULL for the others */
} Component;

const Component *component_of(Kind kind); /* NULL for discrete kinds */

/* ---- counts: binomial, poisson, neg_binomial_2
 * --------------------------------------------------------------------- Panjer's class: p(k + 1) /
 * p(k) = (a + b k) / (k + 1), which has one mode; and d log p(k) / d par[0] = (k - mean) slope. */
typedef struct {
  Kind kind;
  double n; /* trials; inf: no bound */
  double a, b;
  double mean, slope;
  double size; /* neg_binomial_2: par[1] */
} Count;

Count count_make(Kind kind, size_t trials, const double *par);
double count_pmf(const Count *c, double k);
double count_cdf(const Count *c, double k);
double count_mode(const Count *c);
double count_log_pmf_dsize(const Count *c, double k); /* neg_binomial_2: d log p(k) / d par[1] */
void count_range(const Count *c, double nats, double *lo,
                 double *hi); /* mass below lo and above hi: <= exp(-nats) each */

/* ---- all kinds but categorical --------------------------------------------------------------- */

typedef struct {
  double mean, variance; /* inf where they do not exist */
  double dmean[KIND_PARAMETERS], dvariance[KIND_PARAMETERS];
} Moments;
Moments component_moments(Kind kind, size_t trials, const double *par);

#endif
