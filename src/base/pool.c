/* pool.c: threads that take pieces of work by number. The piece, never the thread, decides what is
 * written where.
 *
 * An evaluation is a few jobs with little between them, so whoever waits looks for a moment before
 * he sleeps: being woken takes longer than many a job. Where threads outnumber processors he sleeps
 * at once.
 */
#include "base/base.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { LOOKS = 2000 }; /* about a hundred microseconds */

typedef struct {
  Pool *pool;
  int id;
} Worker;

struct Pool {
  Closer closer;
  int threads; /* the caller is one of them */
  pthread_t *handles;
  Worker *workers;
  pthread_mutex_t lock;
  pthread_cond_t start, done;
  void (*work)(void *arg, size_t k, int worker);
  void *arg;
  size_t count;
  atomic_size_t next;
  atomic_long round;  /* number of the current job */
  atomic_int running; /* workers that have not finished it */
  int looks;
  bool quit;
};

static void pause_looking(void) {
#if defined __x86_64__ || defined __i386__
  __builtin_ia32_pause();
#endif
}

static void take_pieces(Pool *p, int id) {
  for (size_t k; (k = atomic_fetch_add(&p->next, 1)) < p->count;) p->work(p->arg, k, id);
}

static void *worker_main(void *arg) {
  Worker *w = arg;
  Pool *p = w->pool;
  long seen = 0;
  for (;;) {
    for (int k = 0; k < p->looks && atomic_load(&p->round) == seen; k++) pause_looking();
    pthread_mutex_lock(&p->lock);
    while (atomic_load(&p->round) == seen && !p->quit) pthread_cond_wait(&p->start, &p->lock);
    bool quit = p->quit;
    seen = atomic_load(&p->round);
    pthread_mutex_unlock(&p->lock);
    if (quit) return NULL;
    take_pieces(p, w->id);
    if (atomic_fetch_sub(&p->running, 1) > 1) continue;
    pthread_mutex_lock(&p->lock); /* the caller is either before his last look or asleep */
    pthread_cond_signal(&p->done);
    pthread_mutex_unlock(&p->lock);
  }
}

static void close_pool(Closer *self) { pool_free((Pool *)self); }

Pool *pool_make(Ctx *c, int threads) {
  if (threads <= 0) threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
  if (threads < 1) threads = 1;
  if (threads > 256) threads = 256;
  Pool *p = NEW(&c->arena, Pool);
  p->handles = NEW_ARRAY(&c->arena, pthread_t, threads);
  p->workers = NEW_ARRAY(&c->arena, Worker, threads);
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->start, NULL);
  pthread_cond_init(&p->done, NULL);
  p->threads = 1;
  p->looks = threads <= sysconf(_SC_NPROCESSORS_ONLN) ? LOOKS : 0;
  ctx_opened(c, &p->closer, close_pool);
  for (int k = 1; k < threads; k++) {
    p->workers[k] = (Worker){p, k};
    if (pthread_create(&p->handles[k], NULL, worker_main, &p->workers[k]))
      break; /* fewer threads, same results */
    p->threads++;
  }
  return p;
}

int pool_threads(const Pool *p) { return p->threads; }

void pool_run(Pool *p, size_t count, void (*work)(void *arg, size_t k, int worker), void *arg) {
  if (p->threads == 1 || count < 2) {
    for (size_t k = 0; k < count; k++) work(arg, k, 0);
    return;
  }
  pthread_mutex_lock(&p->lock);
  p->work = work;
  p->arg = arg;
  p->count = count;
  atomic_store(&p->next, 0);
  atomic_store(&p->running, p->threads - 1);
  atomic_fetch_add(&p->round, 1);
  pthread_cond_broadcast(&p->start);
  pthread_mutex_unlock(&p->lock);
  take_pieces(p, 0);
  for (int k = 0; k < p->looks && atomic_load(&p->running); k++) pause_looking();
  if (!atomic_load(&p->running)) return;
  pthread_mutex_lock(&p->lock);
  while (atomic_load(&p->running)) pthread_cond_wait(&p->done, &p->lock);
  pthread_mutex_unlock(&p->lock);
}

void pool_free(Pool *p) {
  if (!p) return;
  ctx_closed(&p->closer);
  pthread_mutex_lock(&p->lock);
  p->quit = true;
  pthread_cond_broadcast(&p->start);
  pthread_mutex_unlock(&p->lock);
  for (int k = 1; k < p->threads; k++) pthread_join(p->handles[k], NULL);
  pthread_cond_destroy(&p->start);
  pthread_cond_destroy(&p->done);
  pthread_mutex_destroy(&p->lock);
}
