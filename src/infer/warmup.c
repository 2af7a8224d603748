/* warmup.c: windows of warm-up, and the length of trajectories of chains in step (warmup.h). */
#include "infer/warmup.h"

#include "num/linalg.h"

#include <math.h>
#include <string.h>

/* ---- windows --------------------------------------------------------------------------------- */

static void add(WarmupWindow *windows, size_t *n, size_t length, bool metric) {
  if (length && *n < WARMUP_MOST) windows[(*n)++] = (WarmupWindow){length, metric};
}

/* Windows for the metric of 25, 50, 100, ..., the last as long as it takes. A warm-up that is too
 * short for the plan is divided 15 : 75 : 10, and one of fewer than 20 transitions adapts the step
 * alone. */
static size_t windows_of_stan(size_t warmup, WarmupPlan p, WarmupWindow *windows) {
  size_t n = 0;
  if (warmup < 20) p = (WarmupPlan){.first = warmup};
  if (p.first + p.last + (warmup < 20 ? 0 : p.window) > warmup)
    p = (WarmupPlan){warmup * 15 / 100, warmup - warmup * 15 / 100 - warmup / 10, warmup / 10};
  size_t left = warmup - p.first - p.last;
  add(windows, &n, p.first, false);
  for (size_t length = p.window ? p.window : 1; left; length *= 2) {
    if (left < 3 * length) length = left;
    add(windows, &n, length, true);
    left -= length;
  }
  add(windows, &n, p.last, false);
  return n;
}

/* Many chains make as many draws in a short window as one chain in a long one: they arrive in a
 * tenth, estimate the metric three times, and settle their step in the last fifth. */
static size_t windows_of_many(size_t warmup, WarmupWindow *windows) {
  size_t n = 0, first = warmup / 10, one = warmup * 15 / 100, two = warmup / 5, last = warmup / 5;
  add(windows, &n, first, false);
  add(windows, &n, one, true);
  add(windows, &n, two, true);
  add(windows, &n, warmup - first - one - two - last, true);
  add(windows, &n, last, false);
  return n;
}

size_t warmup_windows(size_t warmup, size_t chains, const WarmupPlan *plan, WarmupWindow *windows) {
  static const WarmupPlan stan = {75, 25, 50};
  bool few = chains < 8 && warmup >= 150;
  if (plan || few) return windows_of_stan(warmup, plan ? *plan : stan, windows);
  return windows_of_many(warmup, windows);
}

/* ---- the length of trajectories -------------------------------------------------------------- */

LengthAdaptation length_begin(double length) {
  return (LengthAdaptation){.log_length = log(length)};
}

void length_state(LengthAdaptation *l, Archive *a) {
  double *numbers[] = {&l->log_length, &l->sum, &l->count, &l->m, &l->v, &l->t};
  for (size_t k = 0; k < 6; k++) archive_double(a, numbers[k]);
}

double length_now(const LengthAdaptation *l) { return exp(l->log_length); }

double length_mean(const LengthAdaptation *l) {
  return l->count > 0 ? exp(l->sum / l->count) : length_now(l);
}

/* z = S^-1 (theta - mean) */
static void whiten(const Metric *m, const double *theta, const double *mean, double *z) {
  for (size_t k = 0; k < m->dim; k++) z[k] = theta[k] - mean[k];
  metric_whiten(m, z, z);
}

static double accept_of(const Chain *c) {
  return c->leapfrogs ? c->accept_sum / (double)c->leapfrogs : 0;
}

/* Means over the chains, and room for one vector. */
typedef struct {
  double *mean, *was, *z;
} Centres;

/* What a trajectory costs, in the logarithm of what it is worth: they are as long as makes
 * E d^2 / T^COST largest, d the change of |z|^2 / 2. Without it they become longer and longer where
 * tails are heavy, for little; with 1, too short for the chains to agree soon. */
static const double COST = 0.3;

/* d/d log T of d^2, t (|z'|^2 - |z|^2) z' r', t the time that was gone, less COST d^2. A trajectory
 * that is not accepted does not count. */
static double slope(const Centres *x, Chain *const *chains, size_t n, const Metric *metric) {
  double sum = 0, weights = 1e-12;
  for (size_t k = 0; k < n; k++) {
    const Chain *c = chains[k];
    double accept = accept_of(c);
    if (c->divergent || !(accept > 0)) continue;
    whiten(metric, c->from, x->was, x->z);
    double before = la_dot(x->z, x->z, c->dim);
    whiten(metric, c->at.theta, x->mean, x->z);
    double after = la_dot(x->z, x->z, c->dim), along = la_dot(x->z, c->at.r, c->dim);
    double change = 0.5 * (after - before),
           g = 2 * (double)c->leapfrogs * c->pace * c->step * change * along -
               COST * change * change;
    if (!isfinite(g)) continue;
    sum += accept * g;
    weights += accept;
  }
  return sum / weights;
}

static void means(const Centres *x, Chain *const *chains, size_t n) {
  size_t dim = chains[0]->dim, count = 0;
  memset(x->mean, 0, dim * sizeof *x->mean);
  memset(x->was, 0, dim * sizeof *x->was);
  for (size_t k = 0; k < n; k++) count += !chains[k]->divergent;
  for (size_t k = 0; k < n; k++) {
    la_axpy(1 / (double)n, chains[k]->from, x->was, dim);
    if (!chains[k]->divergent) la_axpy(1 / (double)count, chains[k]->at.theta, x->mean, dim);
  }
}

void length_adapt(LengthAdaptation *l, Chain *const *chains, size_t n, const Metric *metric,
                  double *room) {
  const double rate = 0.05, b1 = 0.8, b2 = 0.95;
  size_t dim = chains[0]->dim;
  Centres x = {room, room + dim, room + 2 * dim};
  means(&x, chains, n);
  double g = slope(&x, chains, n, metric);
  l->t++;
  l->m = b1 * l->m + (1 - b1) * g;
  l->v = b2 * l->v + (1 - b2) * g * g;
  double m = l->m / (1 - pow(b1, l->t)), v = l->v / (1 - pow(b2, l->t));
  double most = log(chains[0]->step) + log(1 << SAMPLER_DEPTH), least = log(chains[0]->step);
  l->log_length = fmin(most, fmax(least, l->log_length + rate * m / (sqrt(v) + 1e-12)));
  l->sum += l->t * l->log_length;
  l->count += l->t;
}

/* A chain that is stuck counts, but one alone does not bring all of them to a halt. */
static const double LEAST_ACCEPT = 0.1;

double acceptance_together(Chain *const *chains, size_t n) {
  double sum = 0;
  for (size_t k = 0; k < n; k++) sum += 1 / fmax(accept_of(chains[k]), LEAST_ACCEPT);
  return (double)n / sum;
}
