/* simulator.h: PVI for a simulator given as functions: outcomes for a batch of draws, and their
 * vector-Jacobian product. No program, no density: scores by simulation only. The prior is
 * independent normals. */
#ifndef PVI_SIMULATOR_H
#define PVI_SIMULATOR_H

#include "infer/predictive.h"

typedef struct {
  size_t dim;                          /* parameters */
  size_t n, width;                     /* observations, numbers in each */
  const double *y;                     /* [n x width] */
  const double *prior_mean, *prior_sd; /* dim */
  void *self;
  /* out[(i width + k) ld + j]: number k of observation i under draw j < M; theta[d ld + j]. The
   * same seed, the same noise. */
  bool (*simulate)(void *self, const double *theta, size_t M, size_t ld, uint64_t seed,
                   double *out);
  /* adj_theta += adj_out d out / d theta, at the same theta and seed; both laid out as above */
  bool (*pullback)(void *self, const double *theta, size_t M, size_t ld, uint64_t seed,
                   const double *adj_out, double *adj_theta);
} Simulator;

typedef struct {
  ScoreId score; /* one by simulation */
  ScoreOptions score_options;
  FamilyId family;
  Shape shape;
  double lambda; /* of KL(q || prior) */
  size_t M;      /* 0: 256 */
  uint64_t seed;
  /* Asked before every evaluation; true interrupts the fit. May be NULL. */
  bool (*cancelled)(void *self);
  void *cancelled_self;
} SimulatorOptions;

typedef struct {
  Q q;
  double *phi;
  double objective; /* on draws the optimizer has not seen; where it was interrupted, on its own */
  long evaluations;
  bool converged;
  bool interrupted; /* phi is the best so far */
  const char *reason;
} SimulatorFit;

SimulatorFit simulator_fit(Ctx *c, const Simulator *s, const SimulatorOptions *o);

#endif
