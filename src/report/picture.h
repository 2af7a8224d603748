/* picture.h: small pictures of characters, for terminals. */
#ifndef PVI_PICTURE_H
#define PVI_PICTURE_H

#include "report/summary.h"

/* The parameters that q moved most away from Bayes, a few of them: where both have 90% of their
 * probability, on one axis for each parameter. Nothing where the run has no Bayes, or where nothing
 * moved much. No line is longer than `width`. */
void picture_moved(Text *out, const Summary *s, size_t width);

/* A sparkline of the objective by iteration, in the last run of the optimizer. Nothing where there
 * is no course to see. No line is longer than `width`. */
void picture_course(Text *out, const double *objective, size_t n, size_t width);

#endif
