/* arena.c: memory with a lifetime. A chain of blocks, bump allocation, everything zeroed.
 *
 * Large blocks are mapped: the system gives them zeroed, page by page as they are written (what is
 * never written takes no room). Some blocks are kept when they are freed, for all threads: to give
 * them back to the system and to ask for them again costs more, in every one of many small fits,
 * than all that is computed in them. The largest it has back the moment they are freed. The torture
 * build makes blocks tiny (PVI_ARENA_BLOCK) and lets the k-th block allocation fail
 * (Ctx.alloc_left).
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
  HUGE = 1 << 24,   /* and from which in huge pages, where the system has them */
};

_Static_assert(sizeof(ArenaBlock) <= HEADER, "the block header must fit");

Arena arena_make(Ctx *ctx) { return (Arena){.ctx = ctx}; }

static void *block_payload(ArenaBlock *b) { return (char *)b + HEADER; }

/* ---- blocks that are kept -------------------------------------------------------------------- */

/* Each size has a shelf: ordinary blocks have one, mapped ones four between a power of two and the
 * next. */
enum { LEAST_SHELF = 18, LAST_SHELF = 24, SHELVES = 4 * (LAST_SHELF - LEAST_SHELF) + 1 };
static const size_t MOST_KEPT = (size_t)96 << 20; /* bytes */

static struct {
  pthread_mutex_t lock;
  ArenaBlock *first[SHELVES];
  size_t bytes;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Where blocks of that size are kept; SHELVES: nowhere. */
static size_t shelf_of(size_t size) {
  if (size == PVI_ARENA_BLOCK) return 0;
  if (size < MAPPED || size >> LAST_SHELF) return SHELVES;
  size_t power = 63 - (size_t)__builtin_clzll(size);
  return 1 + 4 * (power - LEAST_SHELF) + ((size >> (power - 2)) & 3);
}

/* Under the sanitizer nothing is kept: memory that was freed is not to be used. */
static bool keep_block(ArenaBlock *b) {
  size_t shelf = RED_ZONE ? SHELVES : shelf_of(b->size);
  if (shelf == SHELVES) return false;
  pthread_mutex_lock(&kept.lock);
  bool room = kept.bytes + b->size <= MOST_KEPT;
  if (room) {
    b->older = kept.first[shelf];
    kept.first[shelf] = b;
    kept.bytes += b->size;
  }
  pthread_mutex_unlock(&kept.lock);
  return room;
}

/* One of at least that size, and at most half as large again. */
static ArenaBlock *kept_block(size_t size) {
  size_t shelf = shelf_of(size), last = shelf == 0 ? 0 : shelf + 1;
  ArenaBlock *b = NULL;
  pthread_mutex_lock(&kept.lock);
  for (; !b && shelf <= last && shelf < SHELVES; shelf++) {
    ArenaBlock **at = &kept.first[shelf];
    while (*at && (*at)->size < size) at = &(*at)->older;
    if (!(b = *at)) continue;
    *at = b->older;
    kept.bytes -= b->size;
  }
  pthread_mutex_unlock(&kept.lock);
  return b;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void give_back(ArenaBlock *b) {
  if (b->size < MAPPED) {
    free(b);
  } else {
    munmap(b, HEADER + b->size);
  }
}

/* Where the system has no more, it has all back that is kept; false: nothing was. */
static bool give_back_kept(void) {
  bool any = false;
  pthread_mutex_lock(&kept.lock);
  for (size_t k = 0; k < SHELVES; k++)
    for (ArenaBlock *b; (b = kept.first[k]); any = true) {
      kept.first[k] = b->older;
      give_back(b);
    }
  kept.bytes = 0;
  pthread_mutex_unlock(&kept.lock);
  return any;
}

static void *map_block(size_t bytes) {
  void *b = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (b == MAP_FAILED) return NULL;
#ifdef MADV_HUGEPAGE
  /* A wish: rows of draws are many, translations of pages few. */
  if (bytes >= HUGE) madvise(b, bytes, MADV_HUGEPAGE);
#endif
  return b;
}

static ArenaBlock *new_block(size_t size) {
  size_t bytes = HEADER + size;
  ArenaBlock *b = size < MAPPED ? aligned_alloc(64, (bytes + 63) / 64 * 64) : map_block(bytes);
  if (b) b->size = size;
  return b;
}

static ArenaBlock *get_block(size_t size, bool *zeroed) {
  ArenaBlock *b = kept_block(size);
  *zeroed = !b && size >= MAPPED;
  if (!b) b = new_block(size);
  if (!b && give_back_kept()) b = new_block(size);
  return b;
}

static void free_block(ArenaBlock *b) {
  UNPOISON(block_payload(b), b->size);
  if (!keep_block(b)) give_back(b);
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
  bool zeroed = false;
  size_t size = need > PVI_ARENA_BLOCK ? need : PVI_ARENA_BLOCK;
  ArenaBlock *b = take_spare(a, size);
  if (b) {
    use_block(a, b);
    return false;
  }
  if (a->ctx->alloc_left != 0 && size <= SIZE_MAX - HEADER - 63) {
    if (a->ctx->alloc_left > 0) a->ctx->alloc_left--;
    b = get_block(size, &zeroed);
  }
  if (!b) ctx_fail(a->ctx, PVI_FAILURE, NOWHERE, "out of memory (%zu bytes wanted)", need);
  use_block(a, b);
  return zeroed;
}

/* Unless it is to be zero it is what it happens to be. */
static void *allocate(Arena *a, size_t bytes, bool zero) {
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
#ifdef PVI_TORTURE
  if (!zero) return memset(p, 0xFF, bytes); /* of doubles: NaN, which tells on whoever reads it */
#endif
  return zeroed || !zero ? p : memset(p, 0, bytes);
}

void *arena_alloc(Arena *a, size_t bytes) { return allocate(a, bytes, true); }

static size_t bytes_of(Arena *a, size_t count, size_t size) {
  if (size && count > SIZE_MAX / 2 / size)
    ctx_fail(a->ctx, PVI_FAILURE, NOWHERE, "out of memory (%zu items wanted)", count);
  return count * size;
}

void *arena_array(Arena *a, size_t count, size_t size) {
  return allocate(a, bytes_of(a, count, size), true);
}

void *arena_scratch(Arena *a, size_t count, size_t size) {
  return allocate(a, bytes_of(a, count, size), false);
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
