/* fuzz_mutate.c: fuzz_mutate SEED FILE writes FILE with a few mistakes in it, the same for the same
 * seed: bytes flipped, pieces cut out or doubled, the end missing, one word, number or sign in
 * place of another. tool/fuzz.sh feeds pvi with them. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 18 };

typedef struct {
  char s[MOST];
  size_t n;
} Bytes;

static uint64_t state;

/* splitmix64 */
static size_t below(size_t n) {
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return n ? (size_t)((z ^ z >> 31) % n) : 0;
}

/* Puts m bytes in place of `gone` bytes at `at`. */
static void splice(Bytes *b, size_t at, size_t gone, const char *with, size_t m) {
  if (at > b->n || gone > b->n - at || b->n - gone + m > MOST) return;
  memmove(b->s + at + m, b->s + at + gone, b->n - at - gone);
  memcpy(b->s + at, with, m);
  b->n += m - gone;
}

static void flip(Bytes *b) {
  if (b->n) b->s[below(b->n)] ^= (char)(1 << below(8));
}

static void cut(Bytes *b) {
  size_t at = below(b->n), left = b->n - at;
  splice(b, at, below(left < 40 ? left + 1 : 40), "", 0);
}

static void end(Bytes *b) { b->n = below(b->n + 1); }

static void copy(Bytes *b) {
  char piece[64];
  size_t at = below(b->n), left = b->n - at,
         m = below(left < sizeof piece ? left + 1 : sizeof piece);
  memcpy(piece, b->s + at, m);
  splice(b, below(b->n + 1), 0, piece, m);
}

static int kind_of(char c) {
  if (c >= '0' && c <= '9') return 1;
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ? 2 : 0;
}

/* The first word or number behind a place: its start and length. */
static size_t next_word(const Bytes *b, size_t at, size_t *length) {
  while (at < b->n && !kind_of(b->s[at])) at++;
  for (*length = 0; at + *length < b->n && kind_of(b->s[at + *length]); ++*length) {
  }
  return at;
}

/* A number or a sign, in place of a number or between two characters. */
static void sign(Bytes *b) {
  static const char *const signs[] = {
      "0",          "-1",      "1",          "2",    "1e308", "-1e-308", "2147483647",
      "9999999999", "\"NaN\"", "\"Inf\"",    "null", "[]",    "[[]]",    "{",
      "}",          "(",       ")",          "[",    "]",     ";",       ",",
      ":",          "|",       "'",          "\"",   "~",     "*",       "/",
      "%/%",        "^",       "<",          "?",    "!",     "//",      "/*",
      "while (0) ", "T[0, ]",  "simplex[0] "};
  const char *w = signs[below(sizeof signs / sizeof *signs)];
  size_t at = below(b->n + 1), gone = 0;
  if (below(4)) at = next_word(b, at, &gone);
  if (gone && kind_of(b->s[at]) != 1) gone = 0;
  splice(b, at, gone, w, strlen(w));
}

/* A word of the file in place of another: what often is still a program. */
static void swap(Bytes *b) {
  char piece[64];
  size_t m, gone, from = next_word(b, below(b->n + 1), &m),
                  to = next_word(b, below(b->n + 1), &gone);
  if (m > sizeof piece) return;
  memcpy(piece, b->s + from, m);
  splice(b, to, gone, piece, m);
}

/* A line or what is between two semicolons left out, or doubled. */
static void statement(Bytes *b) {
  size_t at = below(b->n + 1), m = 0;
  while (at > 0 && b->s[at - 1] != ';' && b->s[at - 1] != '\n') at--;
  while (at + m < b->n && b->s[at + m] != ';' && b->s[at + m] != '\n') m++;
  if (at + m < b->n) m++;
  char piece[512];
  if (m > sizeof piece) return;
  memcpy(piece, b->s + at, m);
  if (below(2))
    splice(b, at, m, "", 0);
  else
    splice(b, at, 0, piece, m);
}

int main(int argc, char **argv) {
  static void (*const mutations[])(Bytes *) = {swap, swap, swap, statement, sign, sign,
                                               swap, flip, cut,  copy,      end};
  static Bytes b;
  FILE *f = argc == 3 ? fopen(argv[2], "rb") : NULL;
  if (!f) {
    fputs("usage: fuzz_mutate SEED FILE\n", stderr);
    return 2;
  }
  state = strtoull(argv[1], NULL, 10) * 0xD1342543DE82EF95u;
  b.n = fread(b.s, 1, MOST, f);
  fclose(f);
  size_t gentle =
      below(2) ? 7
               : sizeof mutations / sizeof *mutations; /* half of them: words and statements only */
  for (size_t k = 1 + below(3); k > 0; k--) mutations[below(gentle)](&b);
  return fwrite(b.s, 1, b.n, stdout) == b.n ? 0 : 1;
}
