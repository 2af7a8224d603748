/* rdump.c: what R's dump() writes, as Stan has read it for long, turned into Stan's JSON:
 *
 *     N <- 3L
 *     y <- c(1, 2.5, NaN)
 *     X <- structure(c(1, 2, 3, 4, 5, 6), .Dim = c(2L, 3L))
 *
 *     file   = {name "<-" value}
 *     value  = "structure" "(" vector "," ".Dim" "=" vector ")" | vector
 *     vector = "c" "(" [item {"," item}] ")" | ("integer" | "double" | "numeric") "(" digits ")" |
 * item item   = number [":" number]
 *
 * R counts the first index fastest, JSON nests the last one innermost.
 */
#include "data/data_int.h"

#include <stdlib.h>
#include <string.h>

/* A number as it is written. */
typedef struct {
  const char *s;
  int n;
} Word;

typedef struct {
  Ctx *c;
  Arena *a;
  const Source *source;
  const char *at;
  Text out;
} Reader;

typedef struct {
  Word *items;
  size_t n, cap;
  bool single; /* not written as c(...) */
} Words;

_Noreturn static void wrong(const Reader *r, const char *what) {
  uint32_t line = 1, column = 1;
  for (const char *p = r->source->text; p < r->at; p++)
    line += *p == '\n', column = *p == '\n' ? 1 : column + 1;
  ctx_fail(r->c, PVI_DATA, (Loc){r->source, line, column, 1}, "%s", what);
}

static void skip(Reader *r) {
  for (;;) {
    r->at += strspn(r->at, " \t\r\n;");
    if (*r->at != '#') return;
    r->at += strcspn(r->at, "\n");
  }
}

static bool take(Reader *r, const char *token) {
  skip(r);
  size_t n = strlen(token);
  if (strncmp(r->at, token, n) != 0) return false;
  r->at += n;
  return true;
}

static void expect(Reader *r, const char *token) {
  if (!take(r, token))
    wrong(r, arena_format(r->a, "expected `%s` here, as R's dump() writes it", token));
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* 12, 12L, -1.5e3, NaN, Inf, TRUE: as JSON has it. */
static Word number(Reader *r) {
  static const char *const words[][2] = {{"NaN", "NaN"}, {"NA", "NaN"}, {"-Inf", "-Inf"},
                                         {"Inf", "Inf"}, {"TRUE", "1"}, {"FALSE", "0"}};
  skip(r);
  for (size_t k = 0; k < sizeof words / sizeof *words; k++)
    if (take(r, words[k][0])) return (Word){words[k][1], (int)strlen(words[k][1])};
  char *end;
  const char *from = r->at + (*r->at == '+');
  strtod(from, &end);
  if (end == from) wrong(r, "expected a number here, as R's dump() writes it");
  r->at = end + (*end == 'L');
  int n = (int)(end - from);
  bool dot = n > 0 && from[n - 1] == '.'; /* R may write 1., JSON may not */
  const char *text = dot || *from == '.' ? arena_format(r->a, "%.17g", strtod(from, NULL)) : from;
  return (Word){text, text == from ? n : (int)strlen(text)};
}

static void item(Reader *r, Words *w) {
  Word first = number(r);
  if (!take(r, ":")) {
    PUSH(r->a, w->items, w->n, w->cap, first);
    return;
  }
  enum { MOST = 100000000 };
  Word last = number(r);
  long from = strtol(first.s, NULL, 10), to = strtol(last.s, NULL, 10), step = from <= to ? 1 : -1;
  if (labs(to - from) > MOST) wrong(r, "so long a range cannot be");
  w->single = false;
  for (long k = from; k != to + step; k += step) {
    const char *s = arena_format(r->a, "%ld", k);
    PUSH(r->a, w->items, w->n, w->cap, ((Word){s, (int)strlen(s)}));
  }
}

static Words vector(Reader *r) {
  Words w = {.single = true};
  static const char *const zeros[] = {"integer(", "double(", "numeric("};
  for (size_t k = 0; k < 3; k++)
    if (take(r, zeros[k])) {
      for (long n = strtol(number(r).s, NULL, 10); n > 0; n--)
        PUSH(r->a, w.items, w.n, w.cap, ((Word){"0", 1}));
      expect(r, ")");
      w.single = false;
      return w;
    }
  if (!take(r, "c(")) {
    item(r, &w);
    return w;
  }
  w.single = false;
  if (take(r, ")")) return w;
  do item(r, &w);
  while (take(r, ","));
  expect(r, ")");
  return w;
}

/* ---- values ---------------------------------------------------------------------------------- */

typedef struct {
  const Words *values;
  size_t dims[JSON_MAX_DIMS], ndims;
} RArray;

/* The elements whose first indexes are fixed: `offset` is what these come to, `stride` the distance
 * of neighbours in dimension d. */
static void nest(Reader *r, const RArray *x, size_t d, size_t offset, size_t stride) {
  if (d == x->ndims) {
    text_add(&r->out, x->values->items[offset].s, (size_t)x->values->items[offset].n);
    return;
  }
  text_puts(&r->out, "[");
  for (size_t k = 0; k < x->dims[d]; k++) {
    if (k) text_puts(&r->out, ", ");
    nest(r, x, d + 1, offset + k * stride, stride * x->dims[d]);
  }
  text_puts(&r->out, "]");
}

static void value(Reader *r) {
  bool structure = take(r, "structure(");
  Words w = vector(r);
  RArray x = {.values = &w, .dims = {w.n}, .ndims = w.single ? 0 : 1};
  if (structure) {
    size_t count = 1;
    expect(r, ",");
    expect(r, ".Dim");
    expect(r, "=");
    Words dims = vector(r);
    expect(r, ")");
    if (dims.n > JSON_MAX_DIMS) wrong(r, "an array has at most 8 dimensions");
    x.ndims = dims.n;
    for (size_t k = 0; k < dims.n; k++) {
      x.dims[k] = strtoul(dims.items[k].s, NULL, 10);
      count *= x.dims[k];
    }
    if (count != w.n) wrong(r, "the sizes in .Dim do not give as many elements as there are");
  }
  nest(r, &x, 0, 0, 1);
}

const char *rdump_json(Ctx *c, Arena *a, const Source *source) {
  Reader r = {c, a, source, source->text, text_make(a)};
  text_puts(&r.out, "{");
  for (size_t n = 0; skip(&r), *r.at; n++) {
    char quote = strchr("\"`'", *r.at) ? *r.at++ : 0;
    size_t length = quote ? strcspn(r.at, "\"`'") : strcspn(r.at, " \t\r\n<=");
    text_printf(&r.out, "%s\"%.*s\": ", n ? ",\n" : "", (int)length, r.at);
    r.at += length + (quote != 0);
    if (!take(&r, "<-")) expect(&r, "=");
    value(&r);
  }
  text_puts(&r.out, "}\n");
  return r.out.s;
}
