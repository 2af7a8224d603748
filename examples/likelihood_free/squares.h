/* squares.h: the y^2 regression's data, as likelihood_free.c describes them, and how PVI fits them.
 */
#ifndef PVI_SQUARES_H
#define PVI_SQUARES_H

#include "../example.h"

enum { D = 5 };

typedef struct {
  size_t n, m, groups, iterations; /* n observations to train on and as many to test */
  double alpha;
  uint64_t seed;
  int threads;
} Setting;

/* X: [2 n x m x D], y2: [2 n] */
UNUSED static void simulate(const Setting *s, double *X, double *y2) {
  uint64_t seed = s->seed * 1001;
  double *B = numbers((s->groups + 1) * D);
  for (size_t k = 0; k < (s->groups + 1) * D; k++) B[k] = random_normal(&seed);
  for (size_t i = 0; i < 2 * s->n; i++) {
    const double *group = B + D * (1 + (size_t)(random_uniform(&seed) * (double)s->groups));
    y2[i] = 0;
    for (size_t j = 0; j < s->m; j++) {
      double *x = X + (i * s->m + j) * D, y = random_normal(&seed);
      for (int k = 0; k < D; k++) {
        x[k] = random_normal(&seed);
        y += x[k] * ((1 - s->alpha) * B[k] + s->alpha * group[k]);
      }
      y2[i] += y * y;
    }
  }
  free(B);
}

UNUSED static Json *make_data(const Setting *s) {
  size_t n = 2 * s->n;
  double *X = numbers(n * s->m * D), *y2 = numbers(n);
  simulate(s, X, y2);
  Json *j = json_begin();
  json_int(j, "n", n);
  json_int(j, "m", s->m);
  json_int(j, "d", D);
  json_name(j, "X"); /* an array of n matrices */
  for (size_t i = 0; i < n; i++) {
    fputc(i ? ',' : '[', j->f);
    json_rows(j, X + i * s->m * D, s->m, D);
  }
  fputc(']', j->f);
  json_array(j, "y2", y2, n, 0);
  free(X);
  free(y2);
  return j;
}

/* What all fits have in common. */
UNUSED static pvi_options *common_options(pvi_context *c, const Setting *s) {
  pvi_options *o = pvi_options_new(c);
  set(o, "simulate", "y2_sim");
  set(o, "observed", "y2");
  set(o, "score", "crps_sim");
  set(o, "lambda", "0");
  set(o, "seed", "%llu", (unsigned long long)s->seed);
  set(o, "threads", "%d", s->threads);
  return o;
}

UNUSED static void flow_options(pvi_options *o, const Setting *s) {
  set(o, "family", "flow");
  set(o, "knots", "8");
  set(o, "optimizer", "adam");
  set(o, "iterations", "%zu", s->iterations);
  set(o, "learning-rate", "0.005");
  set(o, "schedule", "warmup-cosine");
  set(o, "draws", "100");
}

#endif
