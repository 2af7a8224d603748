/* crps_sim.c: minus the CRPS from K simulated outcomes, in its unbiased ("fair", Ferro 2014) form
 *   1/K sum_k |y_k - y| - 1/(2 K (K-1)) sum_{j != k} |y_j - y_k|,
 * by sorting: sum_{j != k} |y_j - y_k| = 2 sum_k (2 k - K - 1) y_(k). Needs K >= 2 (nan otherwise).
 *
 * d / d y_k of the second sum is (number below - number above y_k) / (K (K-1)); ties count on
 * neither side. */
#include "score/predictive_mixture.h"

#include "num/stats.h"

#include <math.h>
#include <string.h>

enum { MOST_RANKED = 512 }; /* up to here counting beats sorting */

/* How many of the sorted x are < v (or <= v). */
static size_t count_below(const double *x, size_t n, double v, bool or_equal) {
  size_t lo = 0, hi = n;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (x[mid] < v || (or_equal && x[mid] == v))
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

/* Without sorting: sum_{j < k} |y_j - y_k| = sum_k (number below - number above) y_k. False when
 * some are equal. */
static bool by_ranks(const ScoreCase *c, const ScoreAdjoint *adj, double *below, double *score) {
  size_t K = c->nsim;
  double n = (double)K, each = 1 / n, pair = 1 / (n * (n - 1)), gap = 0, spread = 0;
  if (c->k->ranks(below, c->sim, K) != 0.5 * n * (n - 1)) return false;
  for (size_t k = 0; k < K; k++) {
    double v = c->sim[k] - c->y, more = 2 * below[k] + 1 - n;
    gap += fabs(v);
    spread += more * v;
    if (adj->sim) adj->sim[k] = more * pair - (v > 0 ? each : v < 0 ? -each : 0);
  }
  *score = spread * pair - gap * each;
  return true;
}

double score_crps_sim(const ScoreCase *c, const ScoreAdjoint *adj) {
  size_t K = c->nsim;
  double *x = mixture_space(c), gap = 0, spread = 0, n = (double)K, pairs = n * (n - 1);
  score_clear(c, adj);
  if (K < 2) return (double)NAN;
  double score;
  if (K <= MOST_RANKED && by_ranks(c, adj, x, &score)) return score;
  memcpy(x, c->sim, K * sizeof *x);
  stat_sort(x, K);
  for (size_t k = 0; k < K; k++) {
    gap += fabs(x[k] - c->y);
    spread += (2 * (double)k + 1 - n) * (x[k] - c->y);
  }
  for (size_t k = 0; adj->sim && k < K; k++) {
    double v = c->sim[k], below = (double)count_below(x, K, v, false),
           above = n - (double)count_below(x, K, v, true);
    adj->sim[k] = (below - above) / pairs - ((v > c->y) - (v < c->y)) / n;
  }
  return spread / pairs - gap / n;
}
