/* picture.h: small pictures in plain characters, for terminals. */
#ifndef PVI_PICTURE_H
#define PVI_PICTURE_H

#include "report/summary.h"

/* The parameters that q moved most away from Bayes, a few of them: where both have 90% of their
 * probability, on one axis for each parameter. Nothing where the run has no Bayes, or where nothing
 * moved much. No line is longer than `width`. */
void picture_moved(Text *out, const Summary *s, size_t width);

#endif
