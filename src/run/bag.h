/* bag.h: BayesBag (Bühlmann 2014; Huggins and Miller 2023): the mean of the posteriors that data
 * sets drawn from the observations with replacement would have. Where the program is right its
 * variance is about twice the posterior's; what it is beyond that is misfit,
 *
 *   index = 1 - 2 (Bayes sd / bagged sd)^2:
 *
 * 0 where the program is right, towards 1 the more Bayes is too sure. The posteriors are those of
 * VI in a family of q.
 */
#ifndef PVI_BAG_H
#define PVI_BAG_H

#include "run/run.h"

typedef struct {
  size_t bags, ncols;
  const SummaryParameter *bayes, *bagged; /* ncols parameters each */
  const double *index;                    /* ncols; NAN: the bagged posterior is the narrower one */
  size_t unconverged;                     /* bags whose fit did not converge */
  const char *family;
} Bag;

const Bag *bag_fit(Ctx *c, const Problem *p, const Options *o, const RunHooks *h);

#endif
