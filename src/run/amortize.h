/* amortize.h: the course of `pvi npe` and `pvi nre`: lessons, networks, and the run that follows
 * from what they say of the data. */
#ifndef PVI_AMORTIZE_H
#define PVI_AMORTIZE_H

#include "run/run.h"

typedef enum { AMORTIZED_npe, AMORTIZED_nre } AmortizedMethod;

Run *amortize_run(Ctx *c, const Problem *p, const Options *o, const Split *split,
                  AmortizedMethod method, const RunHooks *h);
/* What was asked, checked: for the name of its folder. */
Run *amortize_make(Ctx *c, const Problem *p, const Options *asked, const Split *split,
                   AmortizedMethod method);

#endif
