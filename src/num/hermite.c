/* hermite.c: nodes and weights from the three-term recurrence of the orthonormal Hermite
 * polynomials,
 *     sqrt(k + 1) p_{k+1}(x) = x p_k(x) - sqrt(k) p_{k-1}(x), p_0 = 1.
 * The nodes are the zeros of p_n, found by bisection on the number of zeros below x (Sturm) and
 * polished by Newton's method;
 * the weights are Christoffel's numbers 1 / sum_k p_k(x)^2. */
#include "num/hermite.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

/* Zeros of p_n below x: sign changes of the leading minors' ratios of the Jacobi matrix minus x. */
static size_t zeros_below(size_t n, double x) {
  size_t count = 0;
  double d = 1;
  for (size_t k = 0; k < n; k++) {
    d = -x - (k ? (double)k / d : 0);
    if (d == 0) d = 1e-300;
    count += d < 0;
  }
  return count;
}

/* p_n(x) and its derivative sqrt(n) p_{n-1}(x); *sum: of p_k^2, k < n. */
static void polynomial(size_t n, double x, double *p, double *dp, double *sum) {
  double before = 0, now = 1;
  *sum = 0;
  for (size_t k = 0; k < n; k++) {
    *sum += now * now;
    double next = (x * now - sqrt((double)k) * before) / sqrt((double)(k + 1));
    before = now;
    now = next;
  }
  *p = now;
  *dp = sqrt((double)n) * before;
}

static double zero(size_t n, size_t k) {
  double lo = -2 * sqrt((double)n) - 1, hi = -lo, p, dp, sum;
  for (int i = 0; i < 16; i++) {
    double mid = 0.5 * (lo + hi);
    *(zeros_below(n, mid) > k ? &hi : &lo) = mid;
  }
  double x = 0.5 * (lo + hi);
  for (int i = 0; i < 4; i++) {
    polynomial(n, x, &p, &dp, &sum);
    x -= p / dp;
  }
  return x;
}

static void compute(size_t n, double *x, double *w) {
  for (size_t k = 0; k < n; k++) {
    double p, dp;
    x[k] = 2 * k + 1 == n ? 0 : 2 * k < n ? zero(n, k) : -x[n - 1 - k];
    polynomial(n, x[k], &p, &dp, &w[k]);
    w[k] = 1 / w[k];
  }
}

/* A fit asks for the same few rules again and again, and in a small one that is a part of its time:
 * so rules that were computed are kept, for all threads. */
enum { MOST_KEPT = 64 };
static struct {
  pthread_mutex_t lock;
  bool known[MOST_KEPT + 1];
  double x[MOST_KEPT + 1][MOST_KEPT], w[MOST_KEPT + 1][MOST_KEPT];
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

void hermite_rule(size_t n, double *x, double *w) {
  if (n > MOST_KEPT) {
    compute(n, x, w);
    return;
  }
  pthread_mutex_lock(&kept.lock);
  if (!kept.known[n]) compute(n, kept.x[n], kept.w[n]);
  kept.known[n] = true;
  memcpy(x, kept.x[n], n * sizeof *x);
  memcpy(w, kept.w[n], n * sizeof *w);
  pthread_mutex_unlock(&kept.lock);
}

void normal_rule(size_t n, double reach, double *x, double *w) {
  if (n <= 64) {
    hermite_rule(n, x, w);
    return;
  }
  double step = 2 * (reach > 0 ? reach : 8.5) / (double)(n - 1), sum = 0;
  for (size_t k = 0; k < n; k++) {
    x[k] = step * ((double)k - 0.5 * (double)(n - 1));
    w[k] = exp(-0.5 * x[k] * x[k]);
  }
  for (size_t k = 0; k < n; k++) sum += w[k];
  for (size_t k = 0; k < n; k++) w[k] /= sum;
}
