/* logistic.h: the logistic distribution as a mixture of normals. */
#ifndef PVI_NUM_LOGISTIC_H
#define PVI_NUM_LOGISTIC_H

#include <stddef.h>

/* inv_logit(f) = sum_k w[k] Phi(f / sqrt(v[k])), about, for n > 1 normals: with 24 of them to
 * 1e-13, and to five digits where it is 1e-9. */
void logistic_mixture(size_t n, double *v, double *w);

#endif
