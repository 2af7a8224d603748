/* stats.c: summaries of an array. */
#include "num/stats.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define LEAF 64 /* below this a plain loop */

double stat_sum(const double *x, size_t n) {
  if (n > LEAF) {
    size_t half = n / 2;
    return stat_sum(x, half) + stat_sum(x + half, n - half);
  }
  double s = 0;
  for (size_t i = 0; i < n; i++) s += x[i];
  return s;
}

double stat_dot(const double *x, const double *y, size_t n) {
  if (n > LEAF) {
    size_t half = n / 2;
    return stat_dot(x, y, half) + stat_dot(x + half, y + half, n - half);
  }
  double s = 0;
  for (size_t i = 0; i < n; i++) s += x[i] * y[i];
  return s;
}

double stat_mean(const double *x, size_t n) { return n ? stat_sum(x, n) / (double)n : (double)NAN; }

/* sum of (x - mx)(y - my), with the fixed shape of stat_sum */
static double cross(const double *x, double mx, const double *y, double my, size_t n) {
  if (n > LEAF) {
    size_t half = n / 2;
    return cross(x, mx, y, my, half) + cross(x + half, mx, y + half, my, n - half);
  }
  double s = 0;
  for (size_t i = 0; i < n; i++) s += (x[i] - mx) * (y[i] - my);
  return s;
}

double stat_covariance(const double *x, const double *y, size_t n) {
  if (n < 2) return (double)NAN;
  return cross(x, stat_mean(x, n), y, stat_mean(y, n), n) / (double)(n - 1);
}

double stat_variance(const double *x, size_t n) { return stat_covariance(x, x, n); }
double stat_sd(const double *x, size_t n) { return sqrt(stat_variance(x, n)); }

double stat_correlation(const double *x, const double *y, size_t n) {
  return stat_covariance(x, y, n) / (stat_sd(x, n) * stat_sd(y, n));
}

double stat_min(const double *x, size_t n) {
  double m = (double)INFINITY;
  for (size_t i = 0; i < n; i++) m = x[i] < m || isnan(x[i]) ? x[i] : m;
  return m;
}

double stat_max(const double *x, size_t n) {
  double m = -(double)INFINITY;
  for (size_t i = 0; i < n; i++) m = x[i] > m || isnan(x[i]) ? x[i] : m;
  return m;
}

/* ---- sorting: in place, nothing allocated ---------------------------------------------------- */

static void swap(double *a, double *b) {
  double t = *a;
  *a = *b;
  *b = t;
}

static void insertion_sort(double *x, size_t n) {
  for (size_t i = 1; i < n; i++) {
    double t = x[i];
    size_t j = i;
    for (; j > 0 && x[j - 1] > t; j--) x[j] = x[j - 1];
    x[j] = t;
  }
}

static void sift(double *x, size_t i, size_t n) {
  for (size_t c; (c = 2 * i + 1) < n; i = c) {
    if (c + 1 < n && x[c + 1] > x[c]) c++;
    if (x[i] >= x[c]) return;
    swap(x + i, x + c);
  }
}

static void heap_sort(double *x, size_t n) {
  for (size_t i = n / 2; i-- > 0;) sift(x, i, n);
  for (size_t i = n; i-- > 1;) {
    swap(x, x + i);
    sift(x, 0, i);
  }
}

/* Hoare's, around the median of three: nothing up to j, which is returned, is larger than what
 * follows. */
static size_t partition(double *x, size_t n) {
  size_t mid = n / 2, i = 0, j = n - 1;
  if (x[mid] < x[0]) swap(x + mid, x);
  if (x[n - 1] < x[0]) swap(x + n - 1, x);
  if (x[n - 1] < x[mid]) swap(x + n - 1, x + mid);
  for (double pivot = x[mid];; i++, j--) {
    while (x[i] < pivot) i++;
    while (x[j] > pivot) j--;
    if (i >= j) return j;
    swap(x + i, x + j);
  }
}

/* Heap sort when it goes too deep (Musser 1997). */
static void quick_sort(double *x, size_t n, int depth) {
  while (n > 24) {
    if (depth-- == 0) {
      heap_sort(x, n);
      return;
    }
    size_t j = partition(x, n);
    quick_sort(x + j + 1, n - j - 1, depth);
    n = j + 1;
  }
  insertion_sort(x, n);
}

void stat_sort(double *x, size_t n) {
  size_t m = 0; /* the numbers first, nan after them */
  for (size_t i = 0; i < n; i++)
    if (!isnan(x[i])) swap(x + m++, x + i);
  quick_sort(x, m, 64);
}

double stat_quantile_sorted(const double *x, size_t n, double p) {
  if (n == 0 || !(p >= 0 && p <= 1)) return (double)NAN;
  double h = (double)(n - 1) * p, lo = floor(h);
  size_t i = (size_t)lo, j = i + 1 < n ? i + 1 : i;
  return x[i] == x[j] ? x[i] : x[i] + (h - lo) * (x[j] - x[i]);
}

/* Afterwards x[k] is where sorting would put it, with nothing larger before and nothing smaller
 * behind (Hoare's selection; what goes on too long is sorted). */
static void select_place(double *x, size_t n, size_t k) {
  for (int depth = 64; n > 24 && depth; depth--) {
    size_t j = partition(x, n);
    if (k <= j) {
      n = j + 1;
    } else {
      x += j + 1, n -= j + 1, k -= j + 1;
    }
  }
  quick_sort(x, n, 64);
}

void stat_quantiles(double *x, size_t n, const double *levels, size_t nlevels, double *out) {
  bool bad = n == 0;
  size_t from = 0; /* all before it is in place, and nothing there is larger than what follows */
  for (size_t i = 0; i < n; i++) bad |= isnan(x[i]);
  for (size_t k = 0; k < nlevels; k++) {
    out[k] = (double)NAN;
    if (bad) continue;
    double h = (double)(n - 1) * levels[k], lo = floor(h);
    size_t i = (size_t)lo, j = i + 1 < n ? i + 1 : i;
    if (i >= from) select_place(x + from, n - from, i - from);
    for (size_t l = j + 1; j > i && j >= from && l < n; l++)
      if (x[l] < x[j]) swap(x + l, x + j);
    from = j > from ? j : from;
    out[k] = x[i] == x[j] ? x[i] : x[i] + (h - lo) * (x[j] - x[i]);
  }
}

double stat_quantile(const double *x, size_t n, double p, double *work) {
  memcpy(work, x, n * sizeof *x);
  stat_sort(work, n);
  return stat_quantile_sorted(work, n, p);
}

double stat_median(const double *x, size_t n, double *work) {
  return stat_quantile(x, n, 0.5, work);
}

double stat_total(const double *x, size_t n, double *error) {
  double sum = 0, squares = 0, m = 0;
  for (size_t k = 0; k < n; k++) {
    if (isnan(x[k])) continue;
    m++;
    sum += x[k];
    squares += x[k] * x[k];
  }
  *error = m > 1 ? sqrt(fmax(squares - sum * sum / m, 0) / (m - 1) * m) : (double)NAN;
  return sum;
}
