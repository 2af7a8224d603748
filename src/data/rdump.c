/* rdump.c: what R's dump() writes, as Stan has read it for long, turned into Stan's JSON:
 *
 *     N <- 3L
 *     y <- c(1, 2.5, NaN)
 *     X <- structure(c(1, 2, 3, 4, 5, 6), .Dim = c(2L, 3L))
 *
 *     file      = {name "<-" value}
 *     value     = "structure" "(" vector {"," name "=" attribute} ")" | vector
 *     attribute = "list" "(" [[name "="] attribute {"," ...}] ")" | "NULL" | vector
 *     vector    = "c" "(" [item {"," item}] ")" | ("integer" | "double" | "numeric") "(" digits ")"
 *                 | item
 *     item      = number [":" number] | string
 *
 * Of the attributes only the sizes, .Dim, say anything: a factor is its codes. Strings are no data,
 * but may stand beside them.
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

/* As JSON has it; of an escape the character that follows. */
static Word string(Reader *r) {
  char quote = *r->at++;
  Text t = text_make(r->a);
  text_puts(&t, "\"");
  for (; *r->at && *r->at != quote; r->at++) {
    if (*r->at == '\\' && r->at[1]) r->at++;
    if ((unsigned char)*r->at < ' ') continue;
    if (*r->at == '"' || *r->at == '\\') text_puts(&t, "\\");
    text_add(&t, r->at, 1);
  }
  if (!*r->at) wrong(r, "a string has no end");
  r->at++;
  text_puts(&t, "\"");
  return (Word){t.s, (int)t.n};
}

static bool is_quote(char ch) { return ch == '"' || ch == '\''; }

static void item(Reader *r, Words *w) {
  skip(r);
  bool text = is_quote(*r->at);
  Word first = text ? string(r) : number(r);
  if (text || !take(r, ":")) {
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

/* "=" after a name of its own, as attributes and elements of lists have it; *name is empty where
 * there is none, and nothing was read. */
static void named(Reader *r, Word *name) {
  skip(r);
  const char *before = r->at;
  bool quoted = is_quote(*r->at) || *r->at == '`';
  const char end[] = {*r->at, 0};
  r->at += quoted;
  *name = (Word){r->at, (int)strcspn(r->at, quoted ? end : " \t\r\n=,()")};
  r->at += name->n;
  if (quoted && *r->at) r->at++;
  if (take(r, "=")) return;
  r->at = before;
  name->n = 0;
}

static bool is_named(const Word *name, const char *s) {
  return strlen(s) == (size_t)name->n && strncmp(name->s, s, (size_t)name->n) == 0;
}

/* What an attribute is besides a vector says nothing. */
static void ignore(Reader *r, int depth) {
  enum { DEEPEST = 100 };
  Word name;
  if (depth > DEEPEST) wrong(r, "lists are nested too deep");
  if (take(r, "NULL")) return;
  if (!take(r, "list(")) {
    vector(r);
    return;
  }
  if (take(r, ")")) return;
  do {
    named(r, &name);
    ignore(r, depth + 1);
  } while (take(r, ","));
  expect(r, ")");
}

static void sizes(Reader *r, RArray *x) {
  size_t count = 1;
  Words dims = vector(r);
  if (dims.n > JSON_MAX_DIMS) wrong(r, "an array has at most 8 dimensions");
  x->ndims = dims.n;
  for (size_t k = 0; k < dims.n; k++) {
    x->dims[k] = strtoul(dims.items[k].s, NULL, 10);
    count *= x->dims[k];
  }
  if (count != x->values->n)
    wrong(r, "the sizes in .Dim do not give as many elements as there are");
}

static void value(Reader *r) {
  bool structure = take(r, "structure(");
  Words w = vector(r);
  RArray x = {.values = &w, .dims = {w.n}, .ndims = w.single ? 0 : 1};
  while (structure && take(r, ",")) {
    Word name;
    named(r, &name);
    if (is_named(&name, ".Dim") || is_named(&name, "dim"))
      sizes(r, &x);
    else
      ignore(r, 0);
  }
  if (structure) expect(r, ")");
  nest(r, &x, 0, 0, 1);
}

const char *rdump_json(Ctx *c, Arena *a, const Source *source) {
  Reader r = {c, a, source, source->text, text_make(a)};
  text_puts(&r.out, "{");
  for (size_t n = 0; skip(&r), *r.at; n++) {
    char quote = strchr("\"`'", *r.at) ? *r.at++ : 0;
    size_t length = quote ? strcspn(r.at, "\"`'") : strcspn(r.at, " \t\r\n<=");
    text_printf(&r.out, "%s\"%.*s\": ", n ? ",\n" : "", (int)length, r.at);
    r.at += length;
    if (quote && !*r.at) wrong(&r, "a name has no end");
    if (quote) r.at++;
    if (!take(&r, "<-")) expect(&r, "=");
    value(&r);
  }
  text_puts(&r.out, "}\n");
  return r.out.s;
}
