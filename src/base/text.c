/* text.c: growing strings, files into memory, nearest words. */
#include "base/base.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

Text text_make(Arena *a) { return (Text){.arena = a}; }

static void reserve(Text *t, size_t more) {
  if (t->n + more + 1 <= t->cap) return;
  size_t cap = t->cap ? t->cap * 2 : 64;
  while (cap < t->n + more + 1) cap *= 2;
  t->s = arena_grow(t->arena, t->s, t->n, cap);
  t->cap = cap;
}

void text_add(Text *t, const char *s, size_t n) {
  reserve(t, n);
  if (n) memcpy(t->s + t->n, s, n);
  t->n += n;
  t->s[t->n] = 0;
}

void text_puts(Text *t, const char *s) { text_add(t, s, strlen(s)); }

void text_vprintf(Text *t, const char *fmt, va_list ap) {
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  if (n > 0) {
    reserve(t, (size_t)n);
    vsnprintf(t->s + t->n, (size_t)n + 1, fmt, again);
    t->n += (size_t)n;
  } else {
    reserve(t, 0);
    t->s[t->n] = 0;
  }
  va_end(again);
}

void text_printf(Text *t, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  text_vprintf(t, fmt, ap);
  va_end(ap);
}

enum { LONGEST_WORD = 48 };

/* Levenshtein distance of two words of at most LONGEST_WORD bytes; capitals are no difference. */
static size_t edit_distance(const char *a, size_t na, const char *b, size_t nb) {
  size_t row[LONGEST_WORD + 1];
  for (size_t j = 0; j <= nb; j++) row[j] = j;
  for (size_t i = 1; i <= na; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= nb; j++) {
      size_t best =
          diagonal + (tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]));
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      diagonal = row[j];
      row[j] = best;
    }
  }
  return row[nb];
}

const char *text_nearest(const char *word, const char *const *names, size_t count) {
  size_t n = strlen(word);
  if (n > LONGEST_WORD) return NULL;
  size_t best = n / 3 + 1;
  const char *found = NULL;
  for (size_t k = 0; k < count; k++) {
    size_t m = strlen(names[k]);
    if (m > LONGEST_WORD || m > n + best || n > m + best) continue;
    size_t d = edit_distance(word, n, names[k], m);
    if (d && d >= n) continue; /* nothing of the word is left: J is not X */
    if (d < best || (d == best && !found)) {
      best = d;
      found = names[k];
    }
  }
  return found;
}

char *text_read_file(Arena *a, const char *path, size_t *length, const char **why) {
  FILE *f = fopen(path, "rb");
  if (!f) {
    *why = strerror(errno);
    return NULL;
  }
  struct stat st;
  size_t cap = 1 << 16, n = 0;
  if (fstat(fileno(f), &st) == 0) {
    if (S_ISDIR(st.st_mode)) {
      *why = strerror(EISDIR);
      fclose(f);
      return NULL;
    }
    if (S_ISREG(st.st_mode) && st.st_size > 0)
      cap = (size_t)st.st_size + 1; /* one more, to see that it ends */
  }
  jmp_buf *outer = a->ctx->trap; /* the file is to be closed even when memory runs out */
  jmp_buf here;
  char *volatile s = NULL;
  if (setjmp(here)) {
    fclose(f);
    a->ctx->trap = outer;
    ctx_jump(a->ctx, a->ctx->status);
  }
  a->ctx->trap = &here;
  s = arena_alloc(a, cap + 2);
  for (;;) {
    if (n == cap) {
      s = arena_grow(a, s, n, cap * 2 + 2);
      cap *= 2;
    }
    size_t got = fread(s + n, 1, cap - n, f);
    if (!got) break;
    n += got;
  }
  a->ctx->trap = outer;
  bool bad = ferror(f) != 0;
  if (bad) *why = strerror(errno);
  fclose(f);
  s[n] = 0;
  *length = n;
  return bad ? NULL : s;
}
