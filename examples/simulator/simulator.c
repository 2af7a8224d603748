/* simulator.c: a C simulator through pvi.h. y_i = (theta + noise)^2 is simulated, never written as a density; theta varies in
 * the population as normal(2, 0.5). PVI finds that distribution from 400 outcomes. */
#include "pvi.h"

#include <math.h>
#include <stdio.h>

enum { N = 400 };

/* Uniform numbers in (0, 1) by a hash of (seed, i, j), and normal ones from pairs of them. */
static double uniform(uint64_t seed, uint64_t i, uint64_t j) {
  uint64_t x = seed + 0x9E3779B97F4A7C15u * (i * 2654435761u + j + 1);
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return ((double)((x ^ x >> 31) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t seed, uint64_t i, uint64_t j) {
  return sqrt(-2 * log(uniform(seed, i, 2 * j))) * cos(6.283185307179586 * uniform(seed, i, 2 * j + 1));
}

static const double noise_sd = 0.3;

static int simulate(void *self, const double *theta, size_t M, size_t ld, uint64_t seed, double *out) {
  (void)self;
  for (size_t i = 0; i < N; i++)
    for (size_t j = 0; j < M; j++) {
      double x = theta[j] + noise_sd * normal(seed, i, j);
      out[i * ld + j] = x * x;
    }
  return 1;
}

/* d y / d theta = 2 (theta + noise) */
static int pullback(void *self, const double *theta, size_t M, size_t ld, uint64_t seed, const double *adj_out,
                    double *adj_theta) {
  (void)self;
  for (size_t i = 0; i < N; i++)
    for (size_t j = 0; j < M; j++) adj_theta[j] += adj_out[i * ld + j] * 2 * (theta[j] + noise_sd * normal(seed, i, j));
  return 1;
}

int main(void) {
  double y[N], mean = 1, sd = 1;
  for (uint64_t i = 0; i < N; i++) {
    double x = 2 + 0.5 * normal(1, i, 0) + noise_sd * normal(2, i, 0);
    y[i] = x * x;
  }
  pvi_context *c = pvi_open();
  pvi_simulator s = {
      .dim = 1, .n = N, .width = 1, .y = y, .prior_mean = &mean, .prior_sd = &sd, .simulate = simulate, .pullback = pullback};
  pvi_result r;
  int status = pvi_fit_simulator(c, &s, &(pvi_options){.score = "crps_sim", .lambda = 0.01, .draws = 128, .seed = 1}, &r);
  if (!r.mean) {
    fputs(pvi_error(c), stderr);
    return status;
  }
  printf("theta varies as normal(2, 0.5); PVI: normal(%.3f, %.3f), %ld evaluations, %.2f s\n", r.mean[0], r.sd[0],
         r.evaluations, r.seconds);
  pvi_close(c);
  return 0;
}
