/* jobs.c: a counter deals jobs out to threads; what goes wrong in one is told by the thread that
 * waits for all. */
#include "run/jobs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  const Jobs *all;
  atomic_size_t next;
  atomic_bool over;
  Status *status; /* of each */
  char **message; /* of one that failed: malloc'ed */
} Queue;

static void run_one(Queue *j, size_t k) {
  Ctx own;
  jmp_buf here;
  ctx_init(&own);
  if (setjmp(here)) {
    j->status[k] = own.status;
    if (own.nmessages) j->message[k] = strdup(own.messages[own.nmessages - 1].text);
    atomic_store(&j->over, true);
  } else {
    own.trap = &here;
    if (!j->all->job(&own, j->all->self, k)) atomic_store(&j->over, true);
  }
  own.trap = NULL;
  ctx_free(&own);
}

static bool next_job(Queue *j, size_t *k) {
  return (*k = atomic_fetch_add(&j->next, 1)) < j->all->count;
}

static void *work(void *arg) {
  Queue *j = arg;
  for (size_t k; next_job(j, &k);)
    if (!atomic_load(&j->over)) run_one(j, k);
  return NULL;
}

/* The same by the thread that waits for all. */
static void work_and_tell(Queue *j) {
  for (size_t k; next_job(j, &k);) {
    if (j->all->tell) j->all->tell(j->all->self, k, j->all->count);
    if (!atomic_load(&j->over)) run_one(j, k);
  }
}

static void on_threads(Queue *j, long threads) {
  enum { MOST = 64 };
  pthread_t handle[MOST];
  size_t n = 0, wanted = threads > 0 ? (size_t)threads : (size_t)sysconf(_SC_NPROCESSORS_ONLN);
  if (wanted > j->all->count) wanted = j->all->count;
  while (n + 1 < wanted && n < MOST && !pthread_create(&handle[n], NULL, work, j)) n++;
  work_and_tell(j);
  for (size_t k = 0; k < n; k++) pthread_join(handle[k], NULL);
}

static void tell_failure(Ctx *c, const Queue *j) {
  size_t count = j->all->count;
  for (size_t k = 0; k < count; k++)
    if (j->status[k] != PVI_OK) {
      const char *text = arena_format(&c->arena, "%s", j->message[k] ? j->message[k] : "");
      for (size_t i = 0; i < count; i++) free(j->message[i]);
      ctx_fail(c, j->status[k], NOWHERE, "%s %zu: %s", j->all->what, k + 1, text);
    }
}

void jobs_run(Ctx *c, long threads, const Jobs *jobs) {
  Queue j = {.all = jobs,
             .status = NEW_ARRAY(&c->arena, Status, jobs->count + 1),
             .message = NEW_ARRAY(&c->arena, char *, jobs->count + 1)};
  on_threads(&j, threads);
  tell_failure(c, &j);
}
