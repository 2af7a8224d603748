/* base.h: what every other folder stands on.
 *
 *   Ctx     one run: its memory, its messages, and the place to jump to when it cannot go on
 *   Arena   memory with a lifetime: allocate, never free singly, reset or free as a whole
 *   Text    a growing string
 *   Map     string -> pointer
 *   Source  a text the user wrote, with its lines; Loc, a place in it
 *
 * Errors. A user's mistake that can be collected (several per run) is `ctx_error`; one that ends
 * the work is `ctx_fail`, which records the message and jumps to the innermost trap. Running out of
 * memory does the same. So callers need not test for NULL, and nothing leaks: all memory hangs on
 * arenas that the holder of the trap frees. Worker threads never allocate and never jump.
 */
#ifndef PVI_BASE_H
#define PVI_BASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit codes of the program and status codes of the library (the same numbers). */
typedef enum {
  PVI_OK = 0,
  PVI_FAILURE = 1,       /* the machine or the run failed: memory, files, numbers */
  PVI_USAGE = 2,         /* the command line is wrong */
  PVI_DATA = 3,          /* a data, split or points file is wrong */
  PVI_PROGRAM = 4,       /* the Stan program is wrong */
  PVI_NOT_CONVERGED = 5, /* the fit ended without converging */
  PVI_INTERRUPTED = 6,   /* the user stopped it before there was a result */
} Status;

typedef struct Ctx Ctx;

/* ---- memory ---------------------------------------------------------------------------------- */

typedef struct ArenaBlock ArenaBlock;
typedef struct Arena {
  Ctx *ctx;          /* where running out of memory jumps to */
  ArenaBlock *block; /* newest block; older ones behind it */
  size_t used;       /* bytes used in the newest block */
  ArenaBlock *spare; /* blocks that are used again: arena_recycle */
} Arena;

typedef struct {
  ArenaBlock *block;
  size_t used;
} ArenaMark;

Arena arena_make(Ctx *ctx);
void *arena_alloc(Arena *a, size_t bytes); /* zeroed, aligned to 64 bytes when >= 64, else 16 */
void *arena_array(Arena *a, size_t count, size_t size); /* zeroed; checks for overflow */
/* Not zeroed: for large arrays of which nothing is read before it is written. */
void *arena_scratch(Arena *a, size_t count, size_t size);
void *arena_grow(Arena *a, void *old, size_t old_bytes,
                 size_t new_bytes);                  /* copies; the old block stays until reset */
char *arena_text(Arena *a, const char *s, size_t n); /* a NUL-terminated copy */
char *arena_format(Arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
ArenaMark arena_mark(const Arena *a);
void arena_reset(Arena *a, ArenaMark m); /* frees all that was allocated since the mark */
void arena_free(Arena *a);
size_t arena_bytes(const Arena *a); /* of its blocks in use */
void arena_recycle(Arena *a);       /* forgets all, but keeps the blocks for what comes next */

#define NEW(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define NEW_ARRAY(a, T, n) ((T *)arena_array((a), (size_t)(n), sizeof(T)))
#define NEW_SCRATCH(a, T, n) ((T *)arena_scratch((a), (size_t)(n), sizeof(T)))

/* Append to a growing array held as (ptr, count, capacity). */
#define PUSH(a, ptr, count, cap, item)                                                             \
  do {                                                                                             \
    if ((count) == (cap)) {                                                                        \
      size_t n_ = (cap) ? (size_t)(cap)*2 : 8;                                                     \
      (ptr) = arena_grow((a), (ptr), (size_t)(cap) * sizeof *(ptr), n_ * sizeof *(ptr));           \
      (cap) = (__typeof__(cap))n_;                                                                 \
    }                                                                                              \
    (ptr)[(count)++] = (item);                                                                     \
  } while (0)

/* ---- text ------------------------------------------------------------------------------------ */

typedef struct Text {
  Arena *arena;
  char *s; /* always NUL-terminated once something was added */
  size_t n, cap;
} Text;

Text text_make(Arena *a);
void text_add(Text *t, const char *s, size_t n);
void text_puts(Text *t, const char *s);
void text_printf(Text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void text_vprintf(Text *t, const char *fmt, va_list ap);

/* Edit distance for "did you mean"; returns the nearest of names within a third of the length, or
 * NULL. */
const char *text_nearest(const char *word, const char *const *names, size_t count);

/* Whole file into the arena (NUL-terminated); NULL with *why set (strerror text) when it cannot be
 * read. */
char *text_read_file(Arena *a, const char *path, size_t *length, const char **why);

/* ---- map: string -> pointer, insertion order kept -------------------------------------------- */

typedef struct {
  const char *key;
  void *value;
} MapItem;

typedef struct Map {
  Arena *arena;
  MapItem *items; /* in order of insertion: iterate i < count */
  size_t count, cap;
  uint32_t *slots; /* open addressing, index + 1 */
  size_t nslots;
} Map;

Map map_make(Arena *a);
void *map_get(const Map *m, const char *key); /* NULL when absent */
void map_set(Map *m, const char *key, void *value);

/* ---- places and messages --------------------------------------------------------------------- */

typedef struct Source {
  const char *name; /* as the user gave it */
  const char *text; /* NUL-terminated; NULL: let go, as a large data file is once it is bound */
  size_t length;
  const struct Source *from; /* the text that included this one, or NULL */
  uint32_t from_line;
} Source;

typedef struct {
  const Source *source;  /* NULL: no place */
  uint32_t line, column; /* 1-based; column in bytes */
  uint32_t length;       /* how far the caret's underline reaches; 0 counts as 1 */
} Loc;

typedef enum { MSG_ERROR, MSG_WARNING, MSG_NOTE } MsgKind;

typedef struct {
  MsgKind kind;
  Loc loc;
  const char *text; /* one line: what, and how to mend it */
} Message;

/* What holds more than memory (threads, a file half written) has a Closer as its first member: a
 * jump may leave it open. */
typedef struct Closer {
  void (*close)(struct Closer *self);
  struct Closer *next, **at; /* in the list of open ones */
} Closer;

struct Ctx {
  Arena arena;  /* lives as long as the run */
  Closer *open; /* newest first */
  Message *messages;
  size_t nmessages, cap_messages;
  size_t nerrors;
  jmp_buf *trap;   /* innermost trap, or NULL (then failing is fatal) */
  Status status;   /* what the jump carries */
  long alloc_left; /* torture: the number of block allocations still allowed; < 0: no limit */
  const char *option_prefix; /* how messages write the name of an option; see OPTION. NULL: "" */
};

/* The name of an option in a message: OPTION("point") reads --point on the command line, whose
 * contexts have the prefix "--", and point for the users of the library. */
#define OPTION(name) "\x1f" name
/* The text with a prefix before such names (NULL: none): for what is no message. */
const char *ctx_words(Ctx *c, const char *text, const char *prefix);

void ctx_init(Ctx *c);
void ctx_free(Ctx *c);    /* closes all that is open first */
void ctx_recycle(Ctx *c); /* as new, with the memory it had */
void ctx_close(Ctx *c);   /* all that is open: what a jump has left behind */
void ctx_opened(Ctx *c, Closer *x, void (*close)(Closer *self));
void ctx_closed(Closer *x); /* by its owner, in the usual way */

/* Memory for the length of one task: an arena of its own that a jump does not leak. */
typedef struct {
  Closer closer;
  Arena arena;
} TempArena;
TempArena *temp_open(Ctx *c);
void temp_close(TempArena *t);

void ctx_error(Ctx *c, Loc loc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void ctx_warn(Ctx *c, Loc loc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void ctx_note(Ctx *c, Loc loc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
_Noreturn void ctx_fail(Ctx *c, Status s, Loc loc, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
_Noreturn void ctx_jump(Ctx *c, Status s); /* the messages are recorded already */
/* A step that may fail without ending the work: false, and *why says why; its messages are
 * forgotten. */
bool ctx_try(Ctx *c, void (*step)(Ctx *c, void *arg), void *arg, Message *why);
/* A word that is none of those allowed, in one wording everywhere: what it should have been, the
 * nearest of the names, and all of them where they are few. */
typedef struct {
  const char *what; /* "option", "value of lambda" */
  const char *word;
  const char *mark; /* before the word and its nearest: OPTION(""), or NULL */
  const char *const *names;
  size_t count;
} UnknownWord;
_Noreturn void ctx_unknown(Ctx *c, Status s, Loc loc, const UnknownWord *w);
void ctx_print(const Ctx *c, FILE *to); /* every message, with source line and caret */

#define NOWHERE ((Loc){0})

/* ---- threads: one pool, static division of work ---------------------------------------------- */

typedef struct Pool Pool;
Pool *pool_make(Ctx *c, int threads); /* threads <= 0: one per core */
int pool_threads(const Pool *p);
/* Runs work(arg, k) for k in [0, count), each k exactly once, in any order over the threads. The
 * work must write only what belongs to k; so results do not depend on the number of threads. */
void pool_run(Pool *p, size_t count, void (*work)(void *arg, size_t k, int worker), void *arg);
void pool_free(Pool *p);

double base_seconds(void);        /* monotonic clock */
double base_thread_seconds(void); /* of the processor, that the calling thread had */

/* Bytes of the running thread's stack that are free. Recursion over what a user wrote stops when
 * fewer than STACK_RESERVE are: what is called at its ends needs no more. */
enum { STACK_RESERVE = 48 * 1024 };
size_t base_stack_left(void);

#endif
