/* product_means.h: the log score of observations whose mean densities are made of means over one
 * parameter each (model/products.h). */
#ifndef PVI_PRODUCT_MEANS_H
#define PVI_PRODUCT_MEANS_H

#include "infer/predictive.h"

typedef struct ProductMeans ProductMeans;

/* Can log scores be had in this way? */
bool product_means_known(const Observed *o, const Q *q);
/* Those of every observation, with as many nodes as it takes. False: there are not as many. */
bool product_means_scores(Ctx *c, const Scoring *s, double *scores);
/* Can the score of a fit, without the regularizer, be had in this way? */
bool product_means_apply(const Observed *o, const Target *t, const Q *q);
ProductMeans *product_means_make(Arena *a, const Observed *o, const Target *t, const Q *q,
                                 Pool *pool);
/* v: value and score; grad: overwritten, or NULL. False: it is not finite. */
bool product_means_eval(ProductMeans *p, const double *phi, PredictiveValue *v, double *grad);
const double *product_means_rows(const ProductMeans *p); /* the score of every row */

#endif
