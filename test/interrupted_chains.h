/* interrupted_chains.h: sampling that is told to stop at a look, and whose state is kept. */
#ifndef PVI_TEST_INTERRUPTED_CHAINS_H
#define PVI_TEST_INTERRUPTED_CHAINS_H

#include "infer/sampler.h"

typedef struct {
  long looks, most;
  Text state;
} Interrupted;

static bool looks_up(void *self) {
  Interrupted *x = self;
  return ++x->looks > x->most;
}

static void keeps_state(void *self, const Text *state) {
  Interrupted *x = self;
  x->state.n = 0;
  text_add(&x->state, state->s, state->n);
}

#endif
