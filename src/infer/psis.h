/* psis.h: Pareto smoothed importance sampling (Vehtari, Simpson, Gelman, Yao, Gabry 2024): the
 * largest importance ratios are replaced by the expected order statistics of a generalised Pareto
 * distribution that is fitted to them; its shape k says how far the weights can be trusted. Below
 * 0.7 they can.
 */
#ifndef PVI_PSIS_H
#define PVI_PSIS_H

#include "base/base.h"

#define PSIS_GOOD 0.7

/* Working memory for n ratios. */
typedef struct PsisWork PsisWork;
PsisWork *psis_work(Arena *a, size_t n);
/* log_ratios become log weights, which sum to one. Returns k; infinite where too few ratios differ
 * for a fit, -inf where all are the same. */
double psis_smooth(PsisWork *w, double *log_ratios);

/* Shape and scale of a generalised Pareto distribution, from n exceedances in ascending order
 * (Zhang and Stephens 2009); k with a weak prior at 1/2. */
typedef struct {
  double k, sigma;
} Pareto;
Pareto psis_pareto(const double *x, size_t n);

#endif
