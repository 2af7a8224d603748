/* stack.c: how much of the running thread's stack is left, so that recursion over what a user wrote
 * (expressions in expressions, functions that call themselves) ends with a message and not with a
 * crash, whatever the size of the stack. */
#include "base/base.h"

#include <pthread.h>

/* The lower end of this thread's stack. It never moves, so it is asked for once per thread. */
static char *lower_end(void) {
  static _Thread_local char *end;
  pthread_attr_t attributes;
  void *address = NULL;
  size_t size = 0;
  if (end) return end;
  if (pthread_getattr_np(pthread_self(), &attributes)) return NULL;
  if (!pthread_attr_getstack(&attributes, &address, &size)) end = address;
  pthread_attr_destroy(&attributes);
  return end;
}

size_t base_stack_left(void) {
  enum { ASSUMED = 128 * 1024 }; /* where the system does not tell */
  char *end = lower_end(), *here = __builtin_frame_address(0);
  return !end ? ASSUMED : here > end ? (size_t)(here - end) : 0;
}
