/* simulator.h: PVI for a simulator given as functions: outcomes for draws, and their
 * vector-Jacobian product. No program, no density: scores by simulation only. The prior is
 * independent normals.
 *
 * A simulator has one of two forms. Where the distribution of an outcome differs from observation
 * to observation, `simulate` makes an outcome of each for all draws. Where it is the same for all
 * of them, `simulate_one` makes one outcome of a draw, and M outcomes serve all n observations
 * (shared_score.h): so images in their thousands can be fitted, a mini-batch at a time.
 */
#ifndef PVI_SIMULATOR_H
#define PVI_SIMULATOR_H

#include "infer/fit.h"

/* One draw of a shared simulator: its number, parameters and uniform noise. */
typedef struct {
  size_t j;
  const double *theta; /* dim */
  const double *u;     /* noises: in (0, 1) */
} SimulatorDraw;

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
  /* The shared form, NULL otherwise: out, width numbers, and adj_theta += adj_out d out / d theta,
   * which is asked for after the outcome of the same draw. Threads call them at once, for different
   * draws. */
  bool (*simulate_one)(void *self, const SimulatorDraw *d, double *out);
  bool (*pullback_one)(void *self, const SimulatorDraw *d, const double *adj_out,
                       double *adj_theta);
  size_t noises;   /* shared: uniform numbers that each simulated outcome takes */
  double noise_sd; /* shared: of the independent normal noise in every number of an outcome that
                      simulate_one leaves out, because it is integrated out; 0: none */
} Simulator;

typedef struct {
  ScoreId score; /* one by simulation */
  ScoreOptions score_options;
  FamilyId family;
  Shape shape;
  double lambda; /* of KL(q || prior) */
  size_t M;      /* 0: 64 of a stochastic optimizer; else 256, and more until fresh noise agrees */
  OptimKind optimizer;
  long iterations;      /* 0: 500 of L-BFGS, 2000 of the others */
  double learning_rate; /* 0: the optimizer's default */
  OptimSchedule schedule;
  double clip;
  size_t minibatch; /* 0: all observations */
  uint64_t seed;
  int threads;      /* 0: one per core */
  Journal *journal; /* a new one, or one that was read and is to be continued; NULL: none */
  /* Asked before every evaluation; true interrupts the fit. May be NULL. */
  bool (*cancelled)(void *self);
  void *cancelled_self;
  void (*progress)(void *self, const FitProgress *p); /* after every iteration; may be NULL */
  void *progress_self;
} SimulatorOptions;

typedef struct {
  Q q;
  double *phi;
  PredictiveValue value; /* on noise the optimizer has not seen; NAN where it was interrupted
                            before that */
  double *scores;        /* n: of every observation, likewise */
  long evaluations, iterations;
  size_t draws;
  bool converged;   /* and fresh noise agrees */
  bool interrupted; /* phi is the last one */
  const char *reason;
} SimulatorFit;

SimulatorFit *simulator_fit(Ctx *c, const Simulator *s, const SimulatorOptions *o);

#endif
