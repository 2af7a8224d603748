/* stacking.c: the weights by EM: each becomes the mean share that its fit has in the mixture's
 * densities. The problem is concave, and the largest mean ratio of a fit's densities to the
 * mixture's, minus one, bounds what is left to gain: that ends it. */
#include "run/stacking.h"

#include "num/stats.h"

#include <math.h>

/* Densities in units of the best fit's of each row; rows with a nan are left out. */
static size_t densities(const double *logs, size_t rows, size_t n, double *p, double *top) {
  size_t kept = 0;
  for (size_t i = 0; i < rows; i++) {
    const double *l = logs + i * n;
    double most = -INFINITY;
    bool known = true;
    for (size_t k = 0; k < n; k++) known &= !isnan(l[k]), most = fmax(most, l[k]);
    if (!known || !isfinite(most)) continue;
    for (size_t k = 0; k < n; k++) p[kept * n + k] = exp(l[k] - most);
    top[kept++] = most;
  }
  return kept;
}

/* One round: new weights, and how much the log score could still gain. */
static double round_of_em(const double *p, size_t rows, size_t n, double *w) {
  double share[n], most = 0;
  for (size_t k = 0; k < n; k++) share[k] = 0;
  for (size_t i = 0; i < rows; i++) {
    double total = 0;
    for (size_t k = 0; k < n; k++) total += w[k] * p[i * n + k];
    for (size_t k = 0; k < n; k++) share[k] += p[i * n + k] / total / (double)rows;
  }
  for (size_t k = 0; k < n; k++) {
    most = fmax(most, share[k]);
    w[k] *= share[k];
  }
  return (double)rows * log(fmax(most, 1));
}

/* The mixture's log score, and the gain over fit `best`. */
static void judge(Ctx *c, const double *p, const double *top, size_t rows, Stack *s) {
  double *gain = NEW_ARRAY(&c->arena, double, rows + 1);
  for (size_t i = 0; i < rows; i++) {
    double total = 0;
    for (size_t k = 0; k < s->n; k++) total += s->weight[k] * p[i * s->n + k];
    s->score += top[i] + log(total);
    gain[i] = log(total) - log(p[i * s->n + s->best]);
  }
  s->gain = stat_total(gain, rows, &s->se);
}

static size_t best_alone(const double *p, size_t rows, size_t n) {
  double sum[n];
  size_t best = 0;
  for (size_t k = 0; k < n; k++) {
    sum[k] = 0;
    for (size_t i = 0; i < rows; i++) sum[k] += log(p[i * n + k]);
    if (sum[k] > sum[best]) best = k;
  }
  return best;
}

const Stack *stack_make(Ctx *c, const double *logs, size_t rows, size_t n) {
  const double enough = 1e-6, work = 4e9;
  Stack *s = NEW(&c->arena, Stack);
  double *p = NEW_ARRAY(&c->arena, double, rows *n + 1), *top = NEW_ARRAY(&c->arena, double, rows);
  size_t kept = densities(logs, rows, n, p, top);
  double rounds = fmin(1e6, 100 + work / (double)(rows * n + 1));
  *s = (Stack){.n = n, .weight = NEW_ARRAY(&c->arena, double, n), .gap = INFINITY};
  for (size_t k = 0; k < n; k++) s->weight[k] = 1 / (double)n;
  for (double r = 0; r < rounds && s->gap > enough; r++)
    s->gap = round_of_em(p, kept, n, s->weight);
  s->best = best_alone(p, kept, n);
  judge(c, p, top, kept, s);
  return s;
}
