/* archive.c: numbers to bytes and back. */
#include "infer/archive.h"

#include <string.h>

enum { WORD = 8 };

Archive archive_writer(Text *out) { return (Archive){.out = out}; }
Archive archive_reader(const char *bytes, size_t n) { return (Archive){.in = bytes, .left = n}; }

static void put_word(char *bytes, uint64_t x) {
  for (int k = 0; k < WORD; k++) bytes[k] = (char)(unsigned char)(x >> 8 * k);
}

static uint64_t word_at(const char *bytes) {
  uint64_t x = 0;
  for (int k = 0; k < WORD; k++) x |= (uint64_t)(unsigned char)bytes[k] << 8 * k;
  return x;
}

/* The next n bytes of what is read; NULL: there are not so many. */
static const char *take(Archive *a, size_t n) {
  if (a->bad || a->left < n) {
    a->bad = true;
    return NULL;
  }
  const char *bytes = a->in;
  a->in += n;
  a->left -= n;
  return bytes;
}

void archive_word(Archive *a, uint64_t *x) {
  if (a->out) {
    char bytes[WORD];
    put_word(bytes, *x);
    text_add(a->out, bytes, WORD);
    return;
  }
  const char *bytes = take(a, WORD);
  if (bytes) *x = word_at(bytes);
}

/* Many at a time, because a state has millions of them. */
static void put_doubles(Text *out, const double *x, size_t n) {
  enum { AT_ONCE = 512 };
  char bytes[AT_ONCE * WORD];
  for (size_t from = 0; from < n; from += AT_ONCE) {
    size_t count = n - from < AT_ONCE ? n - from : AT_ONCE;
    for (size_t k = 0; k < count; k++) {
      uint64_t word;
      memcpy(&word, &x[from + k], WORD);
      put_word(bytes + k * WORD, word);
    }
    text_add(out, bytes, count * WORD);
  }
}

void archive_doubles(Archive *a, double *x, size_t n) {
  if (a->out) {
    put_doubles(a->out, x, n);
    return;
  }
  const char *bytes = n <= SIZE_MAX / WORD ? take(a, n * WORD) : NULL;
  a->bad |= !bytes;
  for (size_t k = 0; bytes && k < n; k++) {
    uint64_t word = word_at(bytes + k * WORD);
    memcpy(&x[k], &word, WORD);
  }
}

void archive_double(Archive *a, double *x) { archive_doubles(a, x, 1); }

void archive_long(Archive *a, long *x) {
  uint64_t word = (uint64_t)*x;
  archive_word(a, &word);
  *x = (long)(int64_t)word;
}

void archive_bool(Archive *a, bool *x) {
  uint64_t word = *x;
  archive_word(a, &word);
  *x = word != 0;
}

void archive_count(Archive *a, size_t *n, size_t most) {
  uint64_t word = *n;
  archive_word(a, &word);
  a->bad |= !a->out && word > most;
  *n = a->bad ? 0 : (size_t)word;
}

void archive_bytes(Archive *a, Text *t) {
  size_t n = t->n;
  archive_count(a, &n, a->left);
  if (a->out) {
    text_add(a->out, t->s, n);
    return;
  }
  const char *bytes = take(a, n);
  t->n = 0;
  if (bytes) text_add(t, bytes, n);
}
