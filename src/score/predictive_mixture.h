/* predictive_mixture.h: the predictive distribution sum_j w_j P_j of a ScoreCase as scores see it:
 * cdf, density, quantiles, probabilities, each with its adjoint; internal to score/.
 *
 * An adjoint function takes g = d S / d (what it belongs to) and ADDS to the rows of `adj` that are
 * not NULL. A score therefore begins with score_clear (and for continuous kinds mixture_prepare)
 * and then adds. Every function here uses the first MIXTURE_ROWS rows of c->scratch; mixture_space
 * is what is left for the score.
 *
 * d S / d w_j is determined up to a constant common to all lanes, since the weights sum to one.
 */
#ifndef PVI_SCORE_PREDICTIVE_MIXTURE_H
#define PVI_SCORE_PREDICTIVE_MIXTURE_H

#include "score/kind_int.h"

enum { MIXTURE_ROWS = 5, PMF_BLOCK = 256 };

double *mixture_space(const ScoreCase *c);

/* Zeros in everything asked for. */
void score_clear(const ScoreCase *c, const ScoreAdjoint *adj);

static inline double mixture_weight(const Mixture *q, size_t j) {
  return q->weights ? q->weights[j] : 1.0 / (double)q->M;
}
double mixture_mean(const ScoreCase *c, const double *row); /* sum_j w_j row[j] */
/* The parameters of lane j into par. */
void mixture_lane(const Mixture *q, size_t j, double par[KIND_PARAMETERS]);

/* ---- continuous kinds ------------------------------------------------------------------------ */

void mixture_prepare(const ScoreCase *c); /* before the first of the following; what it leaves in
                                             the scratch they share */
double mixture_cdf(const ScoreCase *c, double t);
double mixture_cdf_pdf(const ScoreCase *c, double t, double *pdf);
double mixture_tail(const ScoreCase *c, double t); /* 1 - F(t); normal kinds: with all its digits */
/* g[k] = d S / d F(t[k]), k < n: several points at once share work. */
void mixture_cdf_adjoint(const ScoreCase *c, size_t n, const double *t, const double *g,
                         const ScoreAdjoint *adj);

/* Q with F(Q) = p, to about 1e-14 of the spread; d Q = -d F(Q) / f(Q). Discrete kinds: the smallest
 * k with F(k) >= p, whose derivative is zero. */
double mixture_quantile(const ScoreCase *c, double p,
                        double *hint /* where to begin, and to leave the place; or NULL */);
void mixture_quantile_adjoint(const ScoreCase *c, double Q, double g, const ScoreAdjoint *adj);

/* Mean and variance of the mixture; inf or nan where they do not exist. */
double mixture_moments(const ScoreCase *c, double *variance);

/* ---- discrete kinds -------------------------------------------------------------------------- */

/* Outcomes lo .. hi: the mass outside is below 1e-15 on either side. */
void mixture_support(const ScoreCase *c, double *lo, double *hi);
/* p[i] = P(Y = k + i), i < n <= PMF_BLOCK; the adjoint takes g[i] = d S / d p[i]. */
void mixture_pmf(const ScoreCase *c, double k, size_t n, double *p);
void mixture_pmf_adjoint(const ScoreCase *c, double k, size_t n, const double *g,
                         const ScoreAdjoint *adj);

#endif
