/* arena.c: memory with a lifetime. A chain of blocks, bump allocation, everything zeroed.
 *
 * Large blocks are mapped: the system gives them zeroed, page by page as they are written (what is
 * never written takes no room), and has them back the moment they are freed. Some of the ordinary
 * ones are kept when they are freed, for all threads: the C library would give them back to the
 * system and ask for them again, in every one of many small fits. The torture build
 * makes blocks tiny (PVI_ARENA_BLOCK) and lets the k-th block allocation fail (Ctx.alloc_left).
 * Under the address sanitizer whatever is not allocated is poisoned: the red zone behind every
 * allocation, what is left of a block, and what was reset. */
#include "base/base.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef PVI_ARENA_BLOCK
#define PVI_ARENA_BLOCK (64 * 1024)
#endif

#if defined(__SANITIZE_ADDRESS__)
#define PVI_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PVI_ASAN 1
#endif
#endif
#ifdef PVI_ASAN
#include <sanitizer/asan_interface.h>
enum { RED_ZONE = 32 };
#define POISON(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
enum { RED_ZONE = 0 };
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

struct ArenaBlock {
  ArenaBlock *older;
  size_t size; /* usable bytes behind the header */
};

enum {
  HEADER = 64,      /* keeps the payload aligned to a cache line */
  MAPPED = 1 << 18, /* bytes from which blocks are mapped, */
  HUGE = 1 << 22,   /* and from which in huge pages, where the system has them */
  KEPT = 512,       /* ordinary blocks at most: 32 MB */
};

_Static_assert(sizeof(ArenaBlock) <= HEADER, "the block header must fit");

Arena arena_make(Ctx *ctx) { return (Arena){.ctx = ctx}; }

static void *block_payload(ArenaBlock *b) { return (char *)b + HEADER; }

/* ---- ordinary blocks that are kept ----------------------------------------------------------- */

static struct {
  pthread_mutex_t lock;
  ArenaBlock *first;
  size_t count;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Under the sanitizer nothing is kept: memory that was freed is not to be used. */
static bool keep_block(ArenaBlock *b) {
  if (RED_ZONE || b->size != PVI_ARENA_BLOCK) return false;
  pthread_mutex_lock(&kept.lock);
  bool room = kept.count < KEPT;
  if (room) {
    b->older = kept.first;
    kept.first = b;
    kept.count++;
  }
  pthread_mutex_unlock(&kept.lock);
  return room;
}

static ArenaBlock *kept_block(size_t size) {
  if (size != PVI_ARENA_BLOCK) return NULL;
  pthread_mutex_lock(&kept.lock);
  ArenaBlock *b = kept.first;
  if (b) {
    kept.first = b->older;
    kept.count--;
  }
  pthread_mutex_unlock(&kept.lock);
  return b;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static ArenaBlock *get_block(size_t size) {
  ArenaBlock *old = kept_block(size);
  if (old) return old;
  if (size < MAPPED) return aligned_alloc(64, (HEADER + size + 63) / 64 * 64);
  void *b = mmap(NULL, HEADER + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (b == MAP_FAILED) return NULL;
#ifdef MADV_HUGEPAGE
  if (size >= HUGE)
    madvise(b, HEADER + size,
            MADV_HUGEPAGE); /* a wish: rows of draws are many, translations of pages few */
#endif
  return b;
}

static void free_block(ArenaBlock *b) {
  UNPOISON(block_payload(b), b->size);
  if (keep_block(b)) return;
  if (b->size < MAPPED) {
    free(b);
  } else {
    munmap(b, HEADER + b->size);
  }
}

static ArenaBlock *take_spare(Arena *a, size_t size) {
  for (ArenaBlock **at = &a->spare; *at; at = &(*at)->older)
    if ((*at)->size >= size) {
      ArenaBlock *b = *at;
      *at = b->older;
      return b;
    }
  return NULL;
}

static void use_block(Arena *a, ArenaBlock *b) {
  b->older = a->block;
  POISON(block_payload(b), b->size);
  a->block = b;
  a->used = 0;
}

/* True: the new block is zeroed. */
static bool add_block(Arena *a, size_t need) {
  size_t size = need > PVI_ARENA_BLOCK ? need : PVI_ARENA_BLOCK;
  ArenaBlock *b = take_spare(a, size);
  if (b) {
    use_block(a, b);
    return false;
  }
  if (a->ctx->alloc_left != 0 && size <= SIZE_MAX - HEADER - 63) {
    if (a->ctx->alloc_left > 0) a->ctx->alloc_left--;
    b = get_block(size);
  }
  if (!b) ctx_fail(a->ctx, PVI_FAILURE, NOWHERE, "out of memory (%zu bytes wanted)", need);
  b->size = size;
  use_block(a, b);
  return size >= MAPPED;
}

void *arena_alloc(Arena *a, size_t bytes) {
  size_t align = bytes >= 64 ? 64 : 16;
  size_t at = (a->used + align - 1) / align * align;
  if (bytes > SIZE_MAX - 256)
    ctx_fail(a->ctx, PVI_FAILURE, NOWHERE, "out of memory (%zu bytes wanted)", bytes);
  bool fresh = !a->block || at > a->block->size || a->block->size - at < bytes + RED_ZONE;
  bool zeroed = false;
  if (fresh) {
    zeroed = add_block(a, bytes + RED_ZONE ? bytes + RED_ZONE : 1);
    at = 0;
  }
  a->used = at + bytes + RED_ZONE;
  char *p = (char *)block_payload(a->block) + at;
  UNPOISON(p, bytes);
  return zeroed ? p : memset(p, 0, bytes);
}

void *arena_array(Arena *a, size_t count, size_t size) {
  if (size && count > SIZE_MAX / 2 / size)
    ctx_fail(a->ctx, PVI_FAILURE, NOWHERE, "out of memory (%zu items wanted)", count);
  return arena_alloc(a, count * size);
}

void *arena_grow(Arena *a, void *old, size_t old_bytes, size_t new_bytes) {
  void *p = arena_alloc(a, new_bytes);
  if (old_bytes) memcpy(p, old, old_bytes);
  return p;
}

char *arena_text(Arena *a, const char *s, size_t n) {
  char *p = arena_alloc(a, n + 1);
  if (n) memcpy(p, s, n);
  return p;
}

char *arena_format(Arena *a, const char *fmt, ...) {
  Text t = text_make(a);
  va_list ap;
  va_start(ap, fmt);
  text_vprintf(&t, fmt, ap);
  va_end(ap);
  return t.s;
}

ArenaMark arena_mark(const Arena *a) { return (ArenaMark){a->block, a->used}; }

void arena_reset(Arena *a, ArenaMark m) {
  while (a->block != m.block) {
    ArenaBlock *b = a->block;
    a->block = b->older;
    free_block(b);
  }
  a->used = m.used;
  if (a->block) POISON((char *)block_payload(a->block) + m.used, a->block->size - m.used);
}

size_t arena_bytes(const Arena *a) {
  size_t n = 0;
  for (const ArenaBlock *b = a->block; b; b = b->older) n += b->size;
  return n;
}

void arena_recycle(Arena *a) {
  while (a->block) {
    ArenaBlock *b = a->block;
    a->block = b->older;
    b->older = a->spare;
    a->spare = b;
  }
  a->used = 0;
}

void arena_free(Arena *a) {
  arena_recycle(a);
  for (ArenaBlock *b = a->spare, *older; b; b = older) {
    older = b->older;
    free_block(b);
  }
  a->spare = NULL;
}
