/* psis.c: importance weights with a smoothed tail (psis.h). */
#include "infer/psis.h"

#include "num/stats.h"
#include "vm/kernels.h"

#include <math.h>
#include <string.h>

/* A ratio, and which it is. */
typedef struct {
  double x;
  size_t at;
} Ratio;

struct PsisWork {
  size_t n, tail;
  Ratio *heap; /* tail + 1: the largest, the least of them first */
  double *x;
  const Kernels *kernels;
  double *room; /* [n], and what kernels read beyond */
};

PsisWork *psis_work(Arena *a, size_t n) {
  PsisWork *w = NEW(a, PsisWork);
  double tail = fmin(0.2 * (double)n, 3 * sqrt((double)n));
  *w = (PsisWork){.n = n, .tail = (size_t)ceil(tail), .kernels = kernels_best()};
  w->heap = NEW_ARRAY(a, Ratio, w->tail + 2);
  w->x = NEW_ARRAY(a, double, w->tail + 2);
  w->room = NEW_ARRAY(a, double, n + LANES);
  return w;
}

/* ---- the distribution of the tail ------------------------------------------------------------ */

/* mean log(1 - b x): of products of a few, for a logarithm costs more than they do. */
static double mean_log(const double *x, size_t n, double b) {
  enum { FEW = 8 };
  double s = 0;
  size_t i = 0;
  for (; i + FEW <= n; i += FEW) {
    double p = 1;
    for (size_t k = 0; k < FEW; k++) p *= 1 - b * x[i + k];
    s += log(p);
  }
  for (; i < n; i++) s += log1p(-b * x[i]);
  return s / (double)n;
}

/* log likelihood of b = -k / sigma, k being the best for it. */
static double profile(const double *x, size_t n, double b) {
  double k = mean_log(x, n, b);
  return (double)n * (log(-b / k) - k - 1);
}

Pareto psis_pareto(const double *x, size_t n) {
  enum { MOST = 512 };
  double b[MOST] = {0}, l[MOST] = {0}, quartile = x[n / 4], mean = 0;
  size_t m = 30 + (size_t)sqrt((double)n);
  if (m > MOST) m = MOST;
  for (size_t j = 0; j < m; j++) {
    b[j] = 1 / x[n - 1] + (1 - sqrt((double)m / ((double)j + 0.5))) / 3 / quartile;
    l[j] = profile(x, n, b[j]);
  }
  double top = stat_max(l, m), sum = 0;
  for (size_t j = 0; j < m; j++) {
    double w = exp(l[j] - top);
    if (!(w > 0)) continue;
    sum += w;
    mean += w * b[j];
  }
  mean /= sum;
  double k = mean_log(x, n, mean), sigma = -k / mean, count = (double)n;
  return (Pareto){(k * count + 0.5 * 10) / (count + 10), sigma};
}

/* ---- the largest ratios ---------------------------------------------------------------------- */

static void sink(Ratio *h, size_t n, size_t k) {
  for (size_t child; (child = 2 * k + 1) < n; k = child) {
    if (child + 1 < n && h[child + 1].x < h[child].x) child++;
    if (!(h[child].x < h[k].x)) return;
    Ratio t = h[k];
    h[k] = h[child], h[child] = t;
  }
}

/* The largest `count` of them, descending. */
static void largest(Ratio *h, size_t count, const double *x, size_t n) {
  for (size_t i = 0; i < count; i++) h[i] = (Ratio){x[i], i};
  for (size_t k = count / 2; k-- > 0;) sink(h, count, k);
  for (size_t i = count; i < n; i++)
    if (x[i] > h[0].x) h[0] = (Ratio){x[i], i}, sink(h, count, 0);
  for (size_t left = count; left-- > 1;) {
    Ratio t = h[0];
    h[0] = h[left], h[left] = t;
    sink(h, left, 0);
  }
}

/* ---- weights --------------------------------------------------------------------------------- */

static void normalise(const PsisWork *w, double *l) {
  memcpy(w->room, l, w->n * sizeof *l);
  double shift = w->kernels->softmax(NULL, w->room, w->n);
  for (size_t i = 0; i < w->n; i++) l[i] -= shift;
}

/* Place j of the tail, ascending, gets the quantile at (j + 1/2) / tail, and no more than the
 * largest ratio there was, which is 1. */
static double smooth_tail(PsisWork *w, double *l) {
  size_t n = w->tail;
  double cut = exp(w->heap[n].x);
  for (size_t j = 0; j < n; j++) w->x[j] = exp(w->heap[n - 1 - j].x) - cut;
  if (!(w->x[n / 4] > 0)) return w->x[n - 1] > 0 ? INFINITY : -INFINITY; /* draws that repeat */
  Pareto p = psis_pareto(w->x, n);
  if (!isfinite(p.k)) return INFINITY;
  for (size_t j = 0; j < n; j++) {
    double u = ((double)j + 0.5) / (double)n, tail = log1p(-u);
    double q = fabs(p.k) < 1e-12 ? -p.sigma * tail : p.sigma * expm1(-p.k * tail) / p.k;
    l[w->heap[n - 1 - j].at] = fmin(0, log(q + cut));
  }
  return p.k;
}

double psis_smooth(PsisWork *w, double *l) {
  enum { LEAST = 5 };
  for (size_t i = 0; i < w->n; i++) l[i] = isnan(l[i]) ? -INFINITY : l[i]; /* no weight */
  double top = stat_max(l, w->n), k = INFINITY;
  bool told = isfinite(top); /* else no ratio says anything, and all weights are alike */
  for (size_t i = 0; i < w->n; i++) l[i] = told ? l[i] - top : 0;
  if (told && w->tail >= LEAST && w->tail < w->n) {
    largest(w->heap, w->tail + 1, l, w->n);
    k = smooth_tail(w, l);
  }
  normalise(w, l);
  return k;
}
