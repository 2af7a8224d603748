/* jobs.h: independent pieces of work side by side on threads, each with a Ctx of its own. Which
 * thread does which has no influence on any of them. */
#ifndef PVI_JOBS_H
#define PVI_JOBS_H

#include "base/base.h"

/* Job k; what it allocates in c is gone when it returns. False: no further ones need begin. */
typedef bool Job(Ctx *c, void *self, size_t k);

typedef struct {
  size_t count;
  Job *job;
  void *self;
  const char *what; /* "fold": what a message calls one of them */
  /* Told by the waiting thread, now and then, how many were begun. May be NULL. */
  void (*tell)(void *self, size_t begun, size_t count);
} Jobs;

/* All of them, on so many threads (0: one per core). Where one fails, c fails with its message,
 * behind what it is and its number. */
void jobs_run(Ctx *c, long threads, const Jobs *jobs);

#endif
