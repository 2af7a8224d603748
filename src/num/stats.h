/* stats.h: summaries of an array, with sums of a fixed shape (the result does not depend on threads
 * or alignment). */
#ifndef PVI_NUM_STATS_H
#define PVI_NUM_STATS_H

#include <stddef.h>

double stat_sum(const double *x, size_t n);                  /* pairwise: error grows with log n */
double stat_dot(const double *x, const double *y, size_t n); /* likewise */
/* The sum of those that are numbers, and its standard error: sqrt(n) times the sd of a single one.
 */
double stat_total(const double *x, size_t n, double *error);
double stat_mean(const double *x, size_t n);     /* nan when n = 0 */
double stat_variance(const double *x, size_t n); /* divided by n - 1; nan when n < 2 */
double stat_sd(const double *x, size_t n);
double stat_covariance(const double *x, const double *y, size_t n);
double stat_correlation(const double *x, const double *y, size_t n);
double stat_min(const double *x, size_t n);
double stat_max(const double *x, size_t n);
void stat_sort(double *x, size_t n); /* ascending, nan last */

/* The quantile at p of sorted x, Hyndman & Fan's type 7 (R's and NumPy's default): linear between
 * order statistics at (n-1) p.
 */
/* The same at several ascending levels, by selection: x is reordered. One nan among the numbers,
 * and all of them are nan. */
void stat_quantiles(double *x, size_t n, const double *levels, size_t nlevels, double *out);
double stat_quantile_sorted(const double *x, size_t n, double p);
double stat_quantile(const double *x, size_t n, double p, double *work /* n */);
double stat_median(const double *x, size_t n, double *work /* n */);

#endif
