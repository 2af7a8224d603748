/* crps_pairs.c: minus the CRPS as the paper estimates it: 2 M independent simulated outcomes, of
 * which (m, m + M) are pairs,
 *
 *   -1/(2 M) sum_{m <= 2 M} |y_m - y| + 1/(2 M) sum_{m <= M} |y_m - y_{m + M}|,
 *
 * unbiased, and so is its gradient (paper, "Unbiasedness of the CRPS gradient"). An odd last
 * outcome is left out; nan without a pair. crps_sim uses all pairs of the same outcomes. */
#include "score/predictive_mixture.h"

#include <math.h>

static double sign(double x) { return (x > 0) - (x < 0); }

double score_crps_pairs(const ScoreCase *c, const ScoreAdjoint *adj) {
  size_t M = c->nsim / 2;
  const double *a = c->sim, *b = c->sim + M;
  double sum = 0, each = 0.5 / (double)M;
  score_clear(c, adj);
  if (M == 0) return (double)NAN;
  for (size_t m = 0; m < M; m++) {
    double apart = a[m] - b[m];
    sum += fabs(apart) - fabs(a[m] - c->y) - fabs(b[m] - c->y);
    if (!adj->sim) continue;
    adj->sim[m] = each * (sign(apart) - sign(a[m] - c->y));
    adj->sim[m + M] = each * (-sign(apart) - sign(b[m] - c->y));
  }
  return each * sum;
}
