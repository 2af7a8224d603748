/* jobs.c: a counter deals jobs out to threads; what goes wrong in one is told by the thread that
 * waits for all. */
#include "run/jobs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  Job *job;
  void *self;
  size_t count;
  atomic_size_t next;
  atomic_bool over;
  Status *status; /* of each */
  char **message; /* of one that failed: malloc'ed */
} Jobs;

static void run_one(Jobs *j, size_t k) {
  Ctx own;
  jmp_buf here;
  ctx_init(&own);
  if (setjmp(here)) {
    j->status[k] = own.status;
    if (own.nmessages) j->message[k] = strdup(own.messages[own.nmessages - 1].text);
    atomic_store(&j->over, true);
  } else {
    own.trap = &here;
    if (!j->job(&own, j->self, k)) atomic_store(&j->over, true);
  }
  own.trap = NULL;
  ctx_free(&own);
}

static void *work(void *arg) {
  Jobs *j = arg;
  for (size_t k; (k = atomic_fetch_add(&j->next, 1)) < j->count;)
    if (!atomic_load(&j->over)) run_one(j, k);
  return NULL;
}

static void on_threads(Jobs *j, long threads) {
  enum { MOST = 64 };
  pthread_t handle[MOST];
  size_t n = 0, wanted = threads > 0 ? (size_t)threads : (size_t)sysconf(_SC_NPROCESSORS_ONLN);
  if (wanted > j->count) wanted = j->count;
  while (n + 1 < wanted && n < MOST && !pthread_create(&handle[n], NULL, work, j)) n++;
  work(j);
  for (size_t k = 0; k < n; k++) pthread_join(handle[k], NULL);
}

static void tell(Ctx *c, const Jobs *j, const char *what) {
  for (size_t k = 0; k < j->count; k++)
    if (j->status[k] != PVI_OK) {
      const char *text = arena_format(&c->arena, "%s", j->message[k] ? j->message[k] : "");
      for (size_t i = 0; i < j->count; i++) free(j->message[i]);
      ctx_fail(c, j->status[k], NOWHERE, "%s %zu: %s", what, k + 1, text);
    }
}

void jobs_run(Ctx *c, long threads, size_t count, Job *job, void *self, const char *what) {
  Jobs j = {.job = job,
            .self = self,
            .count = count,
            .status = NEW_ARRAY(&c->arena, Status, count + 1),
            .message = NEW_ARRAY(&c->arena, char *, count + 1)};
  on_threads(&j, threads);
  tell(c, &j, what);
}
