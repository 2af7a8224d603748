/* certificate.h: how much more log score any distribution of the parameters could have, whatever
 * its family.
 *
 * For q' in the place of q the log score of n observations changes by
 *
 *   sum_i log(p_q'(y_i) / p_q(y_i)) <= n log mean_i p_q'(y_i) / p_q(y_i) <= n log sup_theta
 * D(theta), D(theta) = mean_i p(y_i | theta) / p_q(y_i),
 *
 * because p_q' is a mean of p(. | theta) (Kiefer and Wolfowitz 1956, Lindsay 1983): the directional
 * derivative towards a point mass at theta is n (D(theta) - 1). The supremum is sought from many
 * starts, so the bound is as good as the search.
 *
 * At a q that is far from the best the bound is loose. So q is also mixed with points where D is
 * large, their weights chosen by EM, and the bound taken again from there: what the mixture gains
 * is gained by some distribution, and no distribution gains more than the last bound.
 */
#ifndef PVI_CERTIFICATE_H
#define PVI_CERTIFICATE_H

#include "base/base.h"
#include "model/model.h"

typedef struct {
  const Model *model;
  const size_t *rows; /* observations, 0-based */
  size_t n;
  const double *log_scores; /* n: log p_q(y_i), in the order of rows */
  const double *draws;      /* [ndraws x dim]: where the search begins */
  size_t ndraws;
  int steps; /* points that are mixed in, at most; 0: only the bound at q */
} CertificateProblem;

typedef struct {
  double slope;    /* n (sup D - 1) at q */
  double bound;    /* n log sup D at q */
  double gain;     /* of the mixture with points */
  double at_most;  /* the least bound on any gain that was seen */
  size_t points;   /* in the mixture */
  double *theta;   /* dim: where D was largest at q */
  bool bounded;    /* false: densities grow without limit, and so would the gain */
  size_t searches; /* climbs that were made */
} Certificate;

/* Visits of the observations that it takes, about, with so many steps. */
double certificate_cost(int steps);
enum { CERTIFICATE_STEPS = 20 }; /* the most */
const Certificate *certificate_find(Ctx *c, const CertificateProblem *p, Pool *pool);

#endif
