/* pvi.h: predictive variational inference for Stan programs, as a library.
 *
 * Handles are opaque. Every function that can fail returns a status (0: ok; the numbers are pvi's exit codes) and leaves the
 * messages, as the command line would print them, in pvi_error(). A context serves one thread at a time; all that was made with
 * it goes with pvi_close.
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

enum { PVI_STATUS_OK, PVI_STATUS_FAILURE, PVI_STATUS_USAGE, PVI_STATUS_DATA, PVI_STATUS_PROGRAM, PVI_STATUS_NOT_CONVERGED };

typedef struct pvi_context pvi_context;
typedef struct pvi_model pvi_model;

const char *pvi_version(void);
pvi_context *pvi_open(void); /* NULL: no memory */
void pvi_close(pvi_context *c);
const char *pvi_error(pvi_context *c); /* messages of the last call; "" when there are none */

/* A program and its data (Stan JSON or CSV; NULL when the program needs none). */
int pvi_load(pvi_context *c, const char *program, const char *data, pvi_model **out);
size_t pvi_dim(const pvi_model *m);          /* unconstrained parameters */
size_t pvi_observations(const pvi_model *m);
const char *pvi_parameter(const pvi_model *m, size_t k); /* name of unconstrained parameter k */

/* At npoints unconstrained points (point-major, dim numbers each): the log density with all constants and Jacobians; where not NULL,
 * its gradient [npoints x dim] and the log likelihood of every observation [npoints x observations]. */
int pvi_density(pvi_context *c, pvi_model *m, const double *points, size_t npoints, double *lp, double *gradient,
                double *pointwise);

typedef struct {
  const char *score;       /* NULL: "log" */
  const char *family;      /* NULL: chosen by size */
  const char *regularizer; /* NULL: "posterior" */
  double lambda;
  uint64_t seed;
  int threads; /* 0: one per core */
} pvi_options;

typedef struct {
  int converged;
  double objective, score, regularizer; /* on draws the optimizer has not seen */
  long evaluations;
  const double *mean, *sd;   /* dim: of q on the unconstrained scale; owned by the context */
  const char *family, *reason;
} pvi_result;

int pvi_fit(pvi_context *c, pvi_model *m, const pvi_options *o, pvi_result *out);

#ifdef __cplusplus
}
#endif

#endif
