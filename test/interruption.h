/* interruption.h: an optimizer's run that is told to stop, and whose state is kept. */
#ifndef PVI_TEST_INTERRUPTION_H
#define PVI_TEST_INTERRUPTION_H

#include "infer/optim.h"

/* Stops when it is asked for the (stop + 1)-th time; < 0: never. */
typedef struct {
  long asked, stop;
  Text state;
} Interruption;

static bool asked_to_stop(void *self) {
  Interruption *k = self;
  return k->asked++ == k->stop;
}

static void keep_state(void *self, OptimRun *r, bool interrupted) {
  Interruption *k = self;
  if (!interrupted) return;
  Archive a = archive_writer(&k->state);
  optim_state(r, &a);
}

#endif
