/* simulator.c: a simulator in C through pvi.h: y_i = (theta + noise)^2 is simulated, never written
 * as a density; theta varies in the population as normal(2, 0.5). PVI finds that distribution from
 * 400 outcomes. What it takes:
 *
 *   simulate       outcomes of all observations for M values of theta at a time; noise is a
 * function of the seed, so that the same theta and seed give the same outcomes pullback       the
 * chain rule through it: from derivatives with respect to outcomes to those with respect to theta
 *   pvi_simulator  names both, the outcomes that were observed and a normal prior;
 *                  pvi_fit_simulator does the rest
 *
 * It takes no options and prints one line. */
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
  return sqrt(-2 * log(uniform(seed, i, 2 * j))) *
         cos(6.283185307179586 * uniform(seed, i, 2 * j + 1));
}

static const double noise_sd = 0.3;

/* One parameter: its draws are theta[0 ... M - 1]. One number an observation: those of i begin at
 * out + i ld. */
static int simulate(void *self, const double *theta, size_t M, size_t ld, uint64_t seed,
                    double *out) {
  (void)self;
  for (size_t i = 0; i < N; i++)
    for (size_t j = 0; j < M; j++) {
      double x = theta[j] + noise_sd * normal(seed, i, j);
      out[i * ld + j] = x * x;
    }
  return 1;
}

/* d y / d theta = 2 (theta + noise) */
static int pullback(void *self, const double *theta, size_t M, size_t ld, uint64_t seed,
                    const double *adj_out, double *adj_theta) {
  (void)self;
  for (size_t i = 0; i < N; i++)
    for (size_t j = 0; j < M; j++)
      adj_theta[j] += adj_out[i * ld + j] * 2 * (theta[j] + noise_sd * normal(seed, i, j));
  return 1;
}

int main(int argc, char **argv) {
  (void)argv;
  if (argc > 1) {
    fputs("simulator takes no options\n", stderr);
    return 2;
  }
  double y[N], mean = 1, sd = 1;
  for (uint64_t i = 0; i < N; i++) {
    double x = 2 + 0.5 * normal(1, i, 0) + noise_sd * normal(2, i, 0);
    y[i] = x * x;
  }
  pvi_context *c = pvi_open();
  if (!c) return 1;
  pvi_simulator s = {.dim = 1,
                     .n = N,
                     .width = 1,
                     .y = y,
                     .prior_mean = &mean,
                     .prior_sd = &sd,
                     .simulate = simulate,
                     .pullback = pullback};
  pvi_options *o = pvi_options_new(c);
  pvi_run *run = NULL;
  int status = pvi_set(o, "lambda", "0.01") || pvi_set(o, "draws", "128")
                   ? PVI_STATUS_USAGE
                   : pvi_fit_simulator(c, &s, o, &run);
  if (status) fputs(pvi_error(c), stderr); /* not converged: the result is whole */
  if (run) {
    const pvi_result *r = pvi_result_of(run);
    printf("theta varies as normal(2, 0.5); PVI: normal(%.3f, %.3f), %ld evaluations, %.2f s\n",
           r->mean[0], r->sd[0], r->evaluations, r->seconds);
  }
  pvi_run_free(run);
  pvi_options_free(o);
  pvi_close(c);
  return status;
}
