/* quantile.c: minus the pinball loss, averaged over levels p (default: the deciles):
 *   (y - Q_p) (p - 1{y < Q_p}),  Q_p the quantile of the mixture at p; d / d Q_p = 1{y < Q_p} - p.
 */
#include "score/predictive_mixture.h"

static const double deciles[] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9};

double score_quantile(const ScoreCase *c, const ScoreAdjoint *adj) {
  size_t n = c->o.nlevels ? c->o.nlevels : sizeof deciles / sizeof *deciles;
  const double *levels = c->o.nlevels ? c->o.levels : deciles;
  double loss = 0;
  score_clear(c, adj);
  mixture_prepare(c);
  for (size_t k = 0; k < n; k++) {
    double p = levels[k], Q = mixture_quantile(c, p, NULL), slope = (c->y < Q) - p;
    loss += (Q - c->y) * slope;
    mixture_quantile_adjoint(c, Q, -slope / (double)n, adj);
  }
  return -loss / (double)n;
}
