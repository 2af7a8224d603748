/* ess.c: R-hat and effective sample sizes (ess.h). */
#include "infer/ess.h"

#include "num/special.h"
#include "num/stats.h"

#include <math.h>
#include <string.h>

struct EssWork {
  size_t chains, n, half; /* half: draws of half a chain */
  size_t total;           /* of all halves: an odd draw in the middle of a chain is left out */
  double *split, *z, *folded, *sorted;
  double *normal; /* total: the normal quantile of rank k + 1 */
  uint64_t *keys, *room;
  uint32_t *order, *order_room;
};

/* Of average rank r, counted from 1 (Blom). */
static double normal_score(double r, size_t n) {
  return num_inv_Phi((r - 0.375) / ((double)n + 0.25));
}

EssWork *ess_work(Arena *a, size_t chains, size_t n) {
  EssWork *w = NEW(a, EssWork);
  *w = (EssWork){.chains = chains, .n = n, .half = n / 2, .total = 2 * chains * (n / 2)};
  double **rows[] = {&w->split, &w->z, &w->folded, &w->sorted, &w->normal};
  for (size_t k = 0; k < 5; k++) *rows[k] = NEW_ARRAY(a, double, w->total + 1);
  w->keys = NEW_ARRAY(a, uint64_t, w->total + 1);
  w->room = NEW_ARRAY(a, uint64_t, w->total + 1);
  w->order = NEW_ARRAY(a, uint32_t, w->total + 1);
  w->order_room = NEW_ARRAY(a, uint32_t, w->total + 1);
  for (size_t k = 0; k < w->total; k++) w->normal[k] = normal_score((double)k + 1, w->total);
  return w;
}

/* ---- chains as they are ---------------------------------------------------------------------- */

/* The mean over chains of the autocovariance at a lag, divided by n. */
static double autocovariance(const double *x, const double *means, size_t chains, size_t n,
                             size_t lag) {
  double sum = 0;
  for (size_t k = 0; k < chains; k++) {
    const double *c = x + k * n;
    double s[4] = {0}, m = means[k];
    size_t i = 0;
    for (; i + lag + 4 <= n; i += 4)
      for (size_t j = 0; j < 4; j++) s[j] += (c[i + j] - m) * (c[i + j + lag] - m);
    for (; i + lag < n; i++) s[0] += (c[i] - m) * (c[i + lag] - m);
    sum += (s[0] + s[1] + s[2] + s[3]) / (double)n;
  }
  return sum / (double)chains;
}

enum { MOST_CHAINS = 4096 }; /* halves of them */

/* W, the mean variance of the chains, and B / n, the variance of their means, which are given. */
typedef struct {
  double within, between;
} Spread;

static Spread spread_with(const double *x, const double *means, size_t chains, size_t n) {
  double within = autocovariance(x, means, chains, n, 0) * (double)n / (double)(n - 1);
  return (Spread){within, chains > 1 ? stat_variance(means, chains) : 0};
}

static void means_of(const double *x, size_t chains, size_t n, double *means) {
  means[0] = 0;
  for (size_t k = 0; k < chains; k++) means[k] = stat_mean(x + k * n, n);
}

static Spread spread(const double *x, size_t chains, size_t n) {
  double means[MOST_CHAINS];
  if (chains > MOST_CHAINS) chains = MOST_CHAINS;
  means_of(x, chains, n, means);
  return spread_with(x, means, chains, n);
}

double ess_rhat(const double *x, size_t chains, size_t n) {
  Spread s = spread(x, chains, n);
  return s.within > 0 ? sqrt((double)(n - 1) / (double)n + s.between / s.within) : NAN;
}

double ess_nested(const double *x, size_t chains, size_t n, size_t super) {
  size_t each = chains / super;
  double within = 0, between = 0, mean = 0;
  for (size_t k = 0; k < super; k++) mean += stat_mean(x + k * each * n, each * n) / (double)super;
  for (size_t k = 0; k < super; k++) {
    const double *at = x + k * each * n;
    double d = stat_mean(at, each * n) - mean;
    Spread s = spread(at, each, n);
    between += d * d / (double)(super - 1);
    within += (s.within + s.between) / (double)super;
  }
  return within > 0 ? sqrt(1 + between / within) : NAN;
}

/* Geyer's initial monotone sequence: autocorrelations in pairs, as long as they are positive, none
 * larger than the one before. */
static double ess_with(const double *x, const double *means, size_t chains, size_t n) {
  double total = (double)(chains * n);
  if (n < 4) return NAN;
  Spread s = spread_with(x, means, chains, n);
  double all = s.within * (double)(n - 1) / (double)n + s.between, sum = 0, last = HUGE_VAL;
  if (!(all > 0)) return NAN;
  for (size_t lag = 0; lag + 3 < n; lag += 2) {
    double even = lag ? 1 - (s.within - autocovariance(x, means, chains, n, lag)) / all : 1;
    double odd = 1 - (s.within - autocovariance(x, means, chains, n, lag + 1)) / all;
    double pair = fmin(even + odd, last);
    if (!(pair > 0)) {
      if (even > 0) sum += even; /* a last one that is positive counts, once */
      break;
    }
    sum += 2 * pair;
    last = pair;
  }
  double tau = fmax(sum - 1, 1 / log10(total));
  return total / tau;
}

double ess_plain(const double *x, size_t chains, size_t n) {
  double means[MOST_CHAINS];
  if (chains > MOST_CHAINS) chains = MOST_CHAINS;
  means_of(x, chains, n, means);
  return ess_with(x, means, chains, n);
}

double ess_bfmi(const double *energy, size_t n) {
  double sum = 0;
  for (size_t i = 1; i < n; i++) sum += (energy[i] - energy[i - 1]) * (energy[i] - energy[i - 1]);
  return n > 2 ? sum / (double)n / (stat_variance(energy, n) * (double)(n - 1) / (double)n) : NAN;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* The bits of a number in an order that is that of the numbers. */
static uint64_t key_of(double x) {
  uint64_t b;
  memcpy(&b, &x, sizeof b);
  return b >> 63 ? ~b : b | UINT64_C(1) << 63;
}

/* w->order: which numbers in ascending order; by digits of 11 bits, the lowest first. */
static void sort(EssWork *w, const double *x) {
  enum { BITS = 11, SIZE = 1 << BITS };
  size_t n = w->total;
  uint64_t *from = w->keys, *to = w->room;
  uint32_t *at = w->order, *next = w->order_room;
  for (size_t i = 0; i < n; i++) from[i] = key_of(x[i] == 0 ? 0 : x[i]), at[i] = (uint32_t)i;
  for (int shift = 0; shift < 64; shift += BITS) {
    size_t first[SIZE + 1] = {0};
    for (size_t i = 0; i < n; i++) first[(from[i] >> shift & (SIZE - 1)) + 1]++;
    for (size_t d = 0; d < SIZE; d++) first[d + 1] += first[d];
    for (size_t i = 0; i < n; i++) {
      size_t place = first[from[i] >> shift & (SIZE - 1)]++;
      to[place] = from[i];
      next[place] = at[i];
    }
    uint64_t *k = from;
    uint32_t *o = at;
    from = to, to = k, at = next, next = o;
  }
  if (at != w->order) memcpy(w->order, at, n * sizeof *at);
}

/* w->order of |x - centre|, from that of x: the numbers below and above are merged. */
static void fold_order(EssWork *w, const double *x, double centre) {
  size_t n = w->total, up = 0;
  while (up < n && x[w->order[up]] < centre) up++;
  size_t down = up;
  for (size_t k = 0; k < n; k++) {
    bool below = up == n || (down > 0 && centre - x[w->order[down - 1]] < x[w->order[up]] - centre);
    w->order_room[k] = below ? w->order[--down] : w->order[up++];
  }
  memcpy(w->order, w->order_room, n * sizeof *w->order);
}

/* Normal scores of average ranks, x being in w->order. */
static void rank_normalise(const EssWork *w, const double *x, double *z) {
  size_t n = w->total;
  for (size_t i = 0; i < n;) {
    size_t j = i + 1;
    while (j < n && x[w->order[j]] == x[w->order[i]]) j++;
    double score = j == i + 1 ? w->normal[i] : normal_score(0.5 * (double)(i + j + 1), n);
    for (; i < j; i++) z[w->order[i]] = score;
  }
}

/* ---- all ------------------------------------------------------------------------------------- */

/* The effective number of draws below a quantile. */
static double ess_below(EssWork *w, double p) {
  double q = stat_quantile_sorted(w->sorted, w->total, p);
  for (size_t i = 0; i < w->total; i++) w->folded[i] = w->split[i] <= q;
  return ess_plain(w->folded, 2 * w->chains, w->half);
}

/* The halves of every chain one after the other; false: a draw is not finite, or all are the same.
 */
static bool split(EssWork *w, const double *x) {
  bool varies = false;
  for (size_t k = 0; k < w->chains; k++) {
    memcpy(w->split + 2 * k * w->half, x + k * w->n, w->half * sizeof *x);
    memcpy(w->split + (2 * k + 1) * w->half, x + (k + 1) * w->n - w->half, w->half * sizeof *x);
  }
  for (size_t i = 0; i < w->total; i++) {
    if (!isfinite(w->split[i])) return false;
    varies |= w->split[i] != w->split[0];
  }
  return varies && w->half >= 4;
}

static double nested(const EssWork *w) {
  bool some = w->chains >= 2 * SUPERCHAINS && w->chains % SUPERCHAINS == 0;
  return some ? ess_nested(w->z, 2 * w->chains, w->half, SUPERCHAINS) : NAN;
}

DrawsQuality ess_quality(EssWork *w, const double *x) {
  DrawsQuality q = {NAN, NAN, NAN, NAN, NAN};
  size_t chains = 2 * w->chains;
  if (!split(w, x)) return q;
  sort(w, w->split);
  rank_normalise(w, w->split, w->z);
  for (size_t i = 0; i < w->total; i++) w->sorted[i] = w->split[w->order[i]];
  q.rhat = ess_rhat(w->z, chains, w->half);
  q.ess_bulk = ess_plain(w->z, chains, w->half);
  q.rhat_nested = nested(w);
  double median = stat_quantile_sorted(w->sorted, w->total, 0.5);
  fold_order(w, w->split, median);
  for (size_t i = 0; i < w->total; i++) w->folded[i] = fabs(w->split[i] - median);
  rank_normalise(w, w->folded, w->z);
  q.rhat = fmax(q.rhat, ess_rhat(w->z, chains, w->half));
  q.ess_tail = fmin(ess_below(w, 0.05), ess_below(w, 0.95));
  q.mcse = stat_sd(w->split, w->total) / sqrt(ess_plain(w->split, chains, w->half));
  return q;
}

const double *ess_sorted(const EssWork *w, size_t *n) {
  *n = w->total;
  return w->sorted;
}
