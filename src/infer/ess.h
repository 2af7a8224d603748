/* ess.h: how much draws of Markov chains are worth: rank-normalised split R-hat, bulk and tail
 * effective sample size, Monte Carlo error (Vehtari, Gelman, Simpson, Carpenter, Burkner 2021), and
 * nested R-hat for many short chains (Margossian et al. 2024).
 */
#ifndef PVI_ESS_H
#define PVI_ESS_H

#include "base/base.h"

typedef struct {
  double rhat, rhat_nested; /* rhat_nested: NAN with fewer than 16 chains */
  double ess_bulk, ess_tail;
  double mcse; /* of the mean */
} DrawsQuality;

/* What draws are to be trusted at. */
#define RHAT_MOST 1.01
#define ESS_LEAST 400

/* Working memory for quantities of `chains` chains with n draws each. */
typedef struct EssWork EssWork;
EssWork *ess_work(Arena *a, size_t chains, size_t n);
/* Draw i of chain k is x[k n + i]. NAN where a draw is not finite, or where all are the same. */
DrawsQuality ess_quality(EssWork *w, const double *x);
/* The draws of the last call in ascending order, where its results were finite; an odd draw in the
 * middle of a chain is left out. */
const double *ess_sorted(const EssWork *w, size_t *n);

/* The effective number of draws of chains as they are, neither split nor ranked. */
double ess_plain(const double *x, size_t chains, size_t n);
/* sqrt((n - 1) / n + B / W) of the chains as they are. */
double ess_rhat(const double *x, size_t chains, size_t n);
/* Chains that follow each other, chains / SUPERCHAINS of them, are to begin at one point. */
enum { SUPERCHAINS = 8 };
/* The chains are `super` times equally many that follow each other. */
double ess_nested(const double *x, size_t chains, size_t n, size_t super);
/* Does the energy move as far in one transition as it varies? (E-BFMI, Betancourt 2016: below 0.3
 * it does not.) */
double ess_bfmi(const double *energy, size_t n);

#endif
