/* pvi.h: predictive variational inference for Stan programs, as a library.
 *
 * Handles are opaque. Every function that can fail returns a status (0: ok; the numbers are pvi's
 * exit codes) and leaves the messages, as the command line would print them, in pvi_error(). A
 * context serves one thread at a time, different contexts know nothing of each other; all that was
 * made with a context, results too, goes with pvi_close.
 *
 *     pvi_context *c = pvi_open();
 *     pvi_model *m;
 *     if (pvi_load(c, "golf.stan", "golf.csv", &m)) puts(pvi_error(c));
 *     pvi_result r;
 *     pvi_fit(c, m, &(pvi_options){.score = "log", .family = "meanfield"}, &r);
 *     pvi_close(c);
 */
#ifndef PVI_H
#define PVI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  PVI_STATUS_OK,
  PVI_STATUS_FAILURE,
  PVI_STATUS_USAGE,
  PVI_STATUS_DATA,
  PVI_STATUS_PROGRAM,
  PVI_STATUS_NOT_CONVERGED
};

typedef struct pvi_context pvi_context;
typedef struct pvi_model pvi_model;

const char *pvi_version(void);
pvi_context *pvi_open(void); /* NULL: no memory */
void pvi_close(pvi_context *c);
const char *pvi_error(pvi_context *c); /* messages of the last call; "" when there are none */

/* ---- models ---------------------------------------------------------------------------------- */

/* A program and its data (Stan JSON or CSV; NULL when the program needs none): files, or their
 * texts. */
int pvi_load(pvi_context *c, const char *program, const char *data, pvi_model **out);
int pvi_load_text(pvi_context *c, const char *program, const char *data, pvi_model **out);
/* Likelihood-free: from now on the observations are those of the data variable `observed`, and what
 * predicts them is the variable `simulate` of generated quantities. For scores by simulation
 * (crps_sim, energy, ...). */
int pvi_simulate(pvi_context *c, pvi_model *m, const char *simulate, const char *observed);

size_t pvi_dim(const pvi_model *m); /* unconstrained parameters */
size_t pvi_observations(const pvi_model *m);
const char *pvi_parameter(const pvi_model *m,
                          size_t k); /* name of unconstrained parameter k; NULL: there is none */

/* At npoints unconstrained points (point-major, dim numbers each): the log density with all
 * constants and Jacobians; where not NULL, its gradient [npoints x dim] and the log likelihood of
 * every observation [npoints x observations]. */
int pvi_density(pvi_context *c, pvi_model *m, const double *points, size_t npoints, double *lp,
                double *gradient, double *pointwise);

/* ---- fits ------------------------------------------------------------------------------------ */

/* Zero or NULL is the default everywhere; what the words mean is in `pvi fit --help`. */
typedef struct {
  const char *score;         /* log */
  const char *family;        /* chosen by size */
  const char *regularizer;   /* posterior */
  double lambda;             /* 0: nothing but prediction */
  double alpha;              /* 0.1: the interval score is of the interval of level 1 - alpha */
  const char *const *points; /* names of parameters to be estimated as points, npoints of them */
  size_t npoints;
  size_t knots, layers, hidden; /* of splines and flows: 32, 2, 16 */
  const char
      *integrate; /* auto: exact (quadrature over the predictors) where it can be; exact; draws */
  size_t draws;   /* per evaluation, and no exact integration: as many as it takes until fresh ones
                     agree */
  const char *optimizer;      /* lbfgs */
  long iterations;            /* at most; the optimizer's own default */
  double learning_rate;       /* of the stochastic optimizers; their own default */
  const char *schedule;       /* of the learning rate: constant */
  double clip;                /* largest norm of a stochastic gradient: any */
  const size_t *train, *test; /* observations (0-based) to train on and to hold out; train NULL: all
                                 that are not in test */
  size_t ntrain, ntest;
  size_t scoring_draws; /* for the scores of the held-out observations: exact where it can be, else
                           16384, where expensive 1024 */
  uint64_t seed;
  int threads; /* one per core; results do not depend on it */
} pvi_options;

/* One score of the held-out observations; larger is better for all of them. */
typedef struct {
  const char *name;
  double sum;
  const double *rows; /* ntest, in the order of pvi_options.test */
} pvi_score;

typedef struct {
  int converged;
  double objective, score,
      regularizer; /* of the training part, on draws the optimizer has not seen */
  long evaluations;
  double seconds;
  const double *mean, *sd; /* dim: of q on the unconstrained scale */
  const char *family, *reason;
  const pvi_score *scores; /* held out: log, log_at_mean (the density at the mean of q) and, where
                              the outcomes allow, */
  size_t nscores; /* quadratic, crps, interval; likelihood-free: crps_sim or energy. None when ntest
                     is 0 */
} pvi_result;

/* PVI_STATUS_NOT_CONVERGED comes with a whole result. */
int pvi_fit(pvi_context *c, pvi_model *m, const pvi_options *o, pvi_result *out);
/* The held-out score of that name; its rows are NULL when there is none. */
pvi_score pvi_heldout(const pvi_result *r, const char *name);

/* What one value with gradient of the objective costs: seconds, the best of several runs, at q with
 * means 0 and standard deviations 0.1 and o->draws draws (0: 100), or with o->integrate = "exact"
 * by quadrature. */
int pvi_time(pvi_context *c, pvi_model *m, const pvi_options *o, double *seconds);

/* ---- simulators ------------------------------------------------------------------------------ */

/* A simulator of your own in the place of a program: no density is needed. Arrays over draws hold a
 * row of M numbers, ld apart: parameter d of draw j is theta[d ld + j], number k of observation i
 * is out[(i width + k) ld + j]. The same theta and seed must give the same outcomes. Both functions
 * return 0 where they fail (the step is then taken back). */
typedef struct {
  size_t dim;                          /* parameters */
  size_t n, width;                     /* observations, numbers in each */
  const double *y;                     /* [n x width]: what was observed */
  const double *prior_mean, *prior_sd; /* dim: independent normal prior */
  void *self;
  int (*simulate)(void *self, const double *theta, size_t M, size_t ld, uint64_t seed, double *out);
  /* the vector-Jacobian product: adj_theta += adj_out d out / d theta */
  int (*pullback)(void *self, const double *theta, size_t M, size_t ld, uint64_t seed,
                  const double *adj_out, double *adj_theta);
} pvi_simulator;

/* o: score (crps_sim; energy where width > 1), family (meanfield), alpha, knots, layers, hidden,
 * lambda (of the prior), draws, seed. */
int pvi_fit_simulator(pvi_context *c, const pvi_simulator *s, const pvi_options *o,
                      pvi_result *out);

#ifdef __cplusplus
}
#endif

#endif
