/* interval_sim.c: minus the interval score from simulated outcomes, as the paper estimates it: L
 * and U are sample quantiles with linear interpolation between order statistics at (K - 1) p
 * (NumPy's default). Biased by O(1/K): notes to the paper measure -2.5% at K = 100; `interval` has
 * no such bias. */
#include "score/predictive_mixture.h"

#include "num/stats.h"

#include <math.h>
#include <string.h>

/* adj of the i-th smallest (from 0) += g; equal outcomes count in their order in sim. */
static void order_statistic_adjoint(const ScoreCase *c, const double *sorted, size_t i, double g,
                                    double *adj) {
  size_t before = 0;
  while (before < i && sorted[i - before - 1] == sorted[i]) before++;
  for (size_t k = 0; k < c->nsim; k++)
    if (c->sim[k] == sorted[i] && before-- == 0) {
      adj[k] += g;
      return;
    }
}

static void quantile_adjoint(const ScoreCase *c, const double *sorted, double p, double g,
                             double *adj) {
  double h = (double)(c->nsim - 1) * p, part = h - floor(h);
  size_t i = (size_t)h;
  order_statistic_adjoint(c, sorted, i, g * (1 - part), adj);
  if (part > 0 && i + 1 < c->nsim) order_statistic_adjoint(c, sorted, i + 1, g * part, adj);
}

double score_interval_sim(const ScoreCase *c, const ScoreAdjoint *adj) {
  double alpha = c->o.alpha > 0 ? c->o.alpha : 0.1, *x = mixture_space(c), y = c->y;
  score_clear(c, adj);
  if (c->nsim == 0) return (double)NAN;
  memcpy(x, c->sim, c->nsim * sizeof *x);
  stat_sort(x, c->nsim);
  double L = stat_quantile_sorted(x, c->nsim, 0.5 * alpha),
         U = stat_quantile_sorted(x, c->nsim, 1 - 0.5 * alpha);
  if (adj->sim) {
    quantile_adjoint(c, x, 0.5 * alpha, 1 - (y < L) * 2 / alpha, adj->sim);
    quantile_adjoint(c, x, 1 - 0.5 * alpha, (y > U) * 2 / alpha - 1, adj->sim);
  }
  return -(U - L + 2 / alpha * (fmax(L - y, 0) + fmax(y - U, 0)));
}
