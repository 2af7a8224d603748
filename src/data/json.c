/* json.c: the JSON reader: recursive descent, one function per production.
 *
 * Numbers go on one stack while their arrays are open. An array whose elements are all numbers, or
 * all arrays of numbers of one shape, leaves its numbers there and tells its enclosing array only
 * the shape; so a matrix is never a node per row. An array that turns out uneven takes its numbers
 * off the stack, a node per element (`take_apart`), and goes on as a list of nodes.
 */
#include "data/json.h"

#include "data/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  Ctx *c;
  const Source *source;
  const char *p, *end;
  const char *line_start;
  uint32_t line;
  JsonStyle style;
  int depth;
  const char *variable; /* the key of the outermost object that we are in, or NULL */
  Arena *temp;          /* of the stack, where it is not */
  double *room;         /* this, reserved for the numbers of a long text, */
  size_t nroom;         /* of which so many are left; 0: there is none */
  double *stack;
  size_t nstack, cap_stack;
} Reader;

/* ---- places and errors ----------------------------------------------------------------------- */

static Loc place(const Reader *r, const char *p, size_t length) {
  return (Loc){r->source, r->line, (uint32_t)(p - r->line_start) + 1, (uint32_t)length};
}

static Loc here(const Reader *r) { return place(r, r->p, 1); }

/* What stands at p, for messages: a word, a number, a character, or the end of the file. */
static const char *found(const Reader *r) {
  const unsigned char *p = (const unsigned char *)r->p;
  if (r->p >= r->end) return "the end of the file";
  if (*p < 32 || *p == 127) return arena_format(&r->c->arena, "the byte 0x%02x", *p);
  size_t n = 1;
  if (p[0] >= 128 || strchr("{}[]:,\"", p[0]) == NULL)
    while (n < 24 && r->p + n < r->end && p[n] > 32 && strchr("{}[]:,\"", p[n]) == NULL) n++;
  return arena_format(&r->c->arena, "'%.*s'", (int)n, r->p);
}

static _Noreturn void fail(const Reader *r, Loc at, const char *what) {
  if (r->variable) ctx_fail(r->c, PVI_DATA, at, "in '%s': %s", r->variable, what);
  ctx_fail(r->c, PVI_DATA, at, "%s", what);
}

static _Noreturn void expected(const Reader *r, const char *what) {
  fail(r, here(r), arena_format(&r->c->arena, "expected %s, found %s", what, found(r)));
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static void skip_space(Reader *r) {
  for (;; r->p++) {
    if (*r->p == '\n') {
      r->line++;
      r->line_start = r->p + 1;
    } else if (*r->p != ' ' && *r->p != '\t' && *r->p != '\r') {
      return;
    }
  }
}

static bool accept(Reader *r, char ch) {
  skip_space(r);
  if (*r->p != ch) return false;
  r->p++;
  return true;
}

static bool is_word(char ch) {
  return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
         ch == '_';
}

static bool accept_word(Reader *r, const char *word) {
  size_t n = strlen(word);
  if (strncmp(r->p, word, n) != 0 || is_word(r->p[n])) return false;
  r->p += n;
  return true;
}

typedef struct {
  const char *word;
  double value;
} Special;

static const Special stan_specials[] = {
    {"NaN", NAN},        {"Inf", INFINITY},        {"Infinity", INFINITY},
    {"-Inf", -INFINITY}, {"-Infinity", -INFINITY}, {NULL, 0},
};
static const Special plain_specials[] = {
    {"nan", NAN}, {"inf", INFINITY}, {"-inf", -INFINITY}, {NULL, 0}};

static const Special *special_named(const Special *list, const char *word) {
  for (; list->word; list++)
    if (strcmp(list->word, word) == 0) return list;
  return NULL;
}

static const Special *special_string(JsonStyle style, const char *word) {
  return special_named(style == JSON_STAN ? stan_specials : plain_specials, word);
}

/* number = '-'? digits ('.' digits)? (e digits)? | NaN | Inf | Infinity | -Inf | -Infinity ; the
 * caller saw its first byte */
static double read_number(Reader *r, bool *is_int) {
  Number x = number_read(r->p, true);
  if (x.end > r->p && !is_word(*x.end) && *x.end != '.') {
    if (isinf(x.value))
      fail(r, place(r, r->p, (size_t)(x.end - r->p)),
           "number too large for double precision; write Inf if that is meant");
    r->p = x.end;
    *is_int = x.is_int;
    return x.value;
  }
  *is_int = false;
  for (const Special *s = stan_specials; s->word; s++)
    if (accept_word(r, s->word)) return s->value;
  fail(r, here(r),
       arena_format(&r->c->arena,
                    "%s is not a number (numbers are like -1, 0.5, 2e-3, NaN, Inf, -Inf)",
                    found(r)));
}

static unsigned read_hex4(Reader *r) {
  unsigned code = 0;
  for (int k = 0; k < 4; k++, r->p++) {
    char ch = *r->p;
    unsigned digit = ch >= '0' && ch <= '9'   ? (unsigned)(ch - '0')
                     : ch >= 'a' && ch <= 'f' ? (unsigned)(ch - 'a') + 10
                     : ch >= 'A' && ch <= 'F' ? (unsigned)(ch - 'A') + 10
                                              : 16u;
    if (digit > 15) fail(r, here(r), "\\u needs four hexadecimal digits");
    code = code * 16 + digit;
  }
  return code;
}

static void add_utf8(Text *t, unsigned code) {
  char b[4];
  size_t n;
  if (code < 0x80) {
    b[0] = (char)code, n = 1;
  } else if (code < 0x800) {
    b[0] = (char)(0xC0 | code >> 6), b[1] = (char)(0x80 | (code & 63)), n = 2;
  } else if (code < 0x10000) {
    b[0] = (char)(0xE0 | code >> 12), b[1] = (char)(0x80 | (code >> 6 & 63)),
    b[2] = (char)(0x80 | (code & 63)), n = 3;
  } else {
    b[0] = (char)(0xF0 | code >> 18), b[1] = (char)(0x80 | (code >> 12 & 63)),
    b[2] = (char)(0x80 | (code >> 6 & 63));
    b[3] = (char)(0x80 | (code & 63)), n = 4;
  }
  text_add(t, b, n);
}

static void read_unicode(Reader *r, Text *t) {
  unsigned code = read_hex4(r);
  if (code >= 0xD800 && code < 0xDC00 && r->p[0] == '\\' && r->p[1] == 'u') {
    r->p += 2;
    unsigned low = read_hex4(r);
    if (low < 0xDC00 || low > 0xDFFF) fail(r, here(r), "a \\u surrogate without its second half");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  } else if (code == 0 || (code >= 0xD800 && code <= 0xDFFF)) {
    fail(r, here(r),
         code ? "a \\u surrogate without its other half" : "\\u0000 is not allowed in a string");
  }
  add_utf8(t, code);
}

static void read_escape(Reader *r, Text *t) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  r->p++; /* the backslash */
  if (*r->p == 'u') {
    r->p++;
    read_unicode(r, t);
    return;
  }
  const char *k = *r->p ? strchr(from, *r->p) : NULL;
  if (!k) expected(r, "one of \" \\ / b f n r t u after \\");
  text_add(t, &to[k - from], 1);
  r->p++;
}

/* string = '"' (char | escape)* '"' */
static const char *read_string(Reader *r) {
  Loc start = here(r);
  r->p++;
  Text t = {0};
  for (const char *run = r->p;;) {
    unsigned char ch = (unsigned char)*r->p;
    if (r->p >= r->end) fail(r, start, "this string is never closed: the file ends first");
    if (ch == '"') {
      if (!t.arena) return arena_text(&r->c->arena, run, (size_t)(r->p++ - run));
      text_add(&t, run, (size_t)(r->p++ - run));
      return t.s;
    }
    if (ch < 32)
      fail(r, here(r),
           "a control character inside a string; close the string or write it as \\u00XX");
    if (ch != '\\') {
      r->p++;
      continue;
    }
    if (!t.arena) t = text_make(&r->c->arena);
    text_add(&t, run, (size_t)(r->p - run));
    read_escape(r, &t);
    run = r->p;
  }
}

/* ---- values ---------------------------------------------------------------------------------- */

static Json read_value(Reader *r);

static void push(Reader *r, double x) { PUSH(r->temp, r->stack, r->nstack, r->cap_stack, x); }

static Json *keep(Reader *r, const Json *v) {
  Json *j = NEW(&r->c->arena, Json);
  *j = *v;
  return j;
}

/* A long text has its numbers in one piece of memory, which is as large as they can be if they take
 * four bytes each on average, commas included: pages that are never written cost nothing, and the
 * numbers stay where they were read. */
static void reserve(Reader *r) {
  enum { LONG = 1 << 20, BYTES = 4 };
  const size_t most = (size_t)1 << 30; /* numbers: no system refuses that much */
  size_t room = (size_t)(r->end - r->p) / BYTES;
  if (room * BYTES < LONG || room > most) return;
  r->stack = r->room = NEW_ARRAY(&r->c->arena, double, room);
  r->cap_stack = r->nroom = room;
}

/* The numbers at the bottom of the stack, all of it, stay; the stack begins behind them. */
static Json *leave_numbers(Reader *r, const Json *v) {
  enum { ALIGNED = 8 };
  Json *j = keep(r, v);
  size_t n = (j->n + ALIGNED - 1) / ALIGNED * ALIGNED;
  n = n < r->nroom ? n : r->nroom;
  j->values = r->stack;
  r->stack = r->room += n;
  r->cap_stack = r->nroom -= n;
  return j;
}

/* Numbers [from, from + n) of the stack into memory of their own. */
static Json *keep_numbers(Reader *r, const Json *v, size_t from) {
  Json *j = keep(r, v);
  j->values = NEW_ARRAY(&r->c->arena, double, j->n ? j->n : 1);
  if (j->n) memcpy(j->values, r->stack + from, j->n * sizeof(double));
  return j;
}

/* A finished value as a node; its numbers, if any, are the top of the stack and leave it. */
static Json *settle(Reader *r, const Json *v) {
  if (v->kind != JSON_NUMBERS) return keep(r, v);
  r->nstack -= v->n;
  if (r->nstack == 0 && v->n && r->stack == r->room) return leave_numbers(r, v);
  return keep_numbers(r, v, r->nstack);
}

static void enter(Reader *r) {
  if (++r->depth > JSON_MAX_DEPTH)
    fail(r, here(r),
         arena_format(&r->c->arena, "arrays and objects nested deeper than %d", JSON_MAX_DEPTH));
}

/* An array being read. Until it is `apart` its `count` elements, all of shape `inner`, are on the
 * stack from `base` on. */
typedef struct {
  Json self;
  Json inner; /* shape of the elements: ndims, dims, n */
  size_t base;
  size_t nwords; /* how many of the numbers were strings */
  size_t cap;
  bool apart;
} Open;

static bool same_shape(const Json *a, const Json *b) {
  return a->ndims == b->ndims &&
         memcmp(a->dims, b->dims, (size_t)a->ndims * sizeof a->dims[0]) == 0;
}

static Json word_node(Loc loc, double x) {
  return (Json){.kind = JSON_STRING, .loc = loc, .text = isnan(x) ? "nan" : x > 0 ? "inf" : "-inf"};
}

static void take_apart(Reader *r, Open *a) {
  if (a->apart) return;
  Json *self = &a->self;
  bool words = r->style == JSON_PLAIN && a->nwords == self->count;
  a->apart = true;
  a->cap = self->count ? self->count : 1;
  self->items = NEW_ARRAY(&r->c->arena, Json *, a->cap);
  for (size_t k = 0; k < self->count; k++) {
    size_t from = a->base + k * a->inner.n;
    Json word = words ? word_node(self->loc, r->stack[from]) : (Json){0};
    self->items[k] = words ? keep(r, &word) : keep_numbers(r, &a->inner, from);
    self->items[k]->is_int = self->is_int;
  }
  r->nstack = a->base;
  self->kind = JSON_ARRAY;
}

static const char *shape_text(Reader *r, const Json *v) {
  if (v->ndims == 0) return "a number";
  if (v->ndims == 1)
    return arena_format(&r->c->arena, "%ld element%s", v->dims[0], v->dims[0] == 1 ? "" : "s");
  Text t = text_make(&r->c->arena);
  for (int k = 0; k < v->ndims; k++) text_printf(&t, "%s%ld", k ? " x " : "", v->dims[k]);
  text_puts(&t, " elements");
  return t.s;
}

static void note_uneven(Reader *r, Open *a, const Json *v) {
  if (a->self.uneven || a->self.count == 0 || a->apart) return;
  a->self.uneven_at = v->loc;
  a->self.uneven =
      v->kind == JSON_NUMBERS
          ? arena_format(&r->c->arena, "element %zu is %s%s but those before are %s%s",
                         a->self.count + 1, v->ndims ? "an array of " : "", shape_text(r, v),
                         a->inner.ndims ? "arrays of " : "",
                         a->inner.ndims ? shape_text(r, &a->inner) : "numbers")
          : arena_format(&r->c->arena, "element %zu is %s but those before are numbers",
                         a->self.count + 1, json_kind_name(v));
}

static void merge_places(Json *self, const Json *v) {
  if (!self->nan_at.source) self->nan_at = v->nan_at;
  if (v->is_int || !self->is_int) return;
  self->is_int = false;
  self->real_at = v->real_at;
}

/* One more element; numbers of `v` are on top of the stack. */
static void add_element(Reader *r, Open *a, const Json *v) {
  bool first = a->self.count == 0 && !a->apart;
  bool fits = v->kind == JSON_NUMBERS && !a->apart && (first || same_shape(&a->inner, v));
  if (fits) {
    if (first) a->inner = *v;
    merge_places(&a->self, v);
    a->self.count++;
    return;
  }
  note_uneven(r, a, v);
  Json *node = settle(r, v);
  take_apart(r, a);
  PUSH(&r->c->arena, a->self.items, a->self.count, a->cap, node);
}

static bool starts_number(char ch) {
  return (ch >= '0' && ch <= '9') || ch == '-' || ch == 'N' || ch == 'I' || ch == '.' || ch == '+';
}

/* The fast path of long arrays: a bare number among bare numbers makes no node. */
static bool read_plain_element(Reader *r, Open *a) {
  if (a->apart || (a->self.count && a->inner.ndims) || !starts_number(*r->p)) return false;
  const char *start = r->p;
  bool is_int;
  double x = read_number(r, &is_int);
  push(r, x);
  if (!is_int) {
    Loc at = place(r, start, (size_t)(r->p - start));
    merge_places(&a->self, &(Json){.real_at = at, .nan_at = isnan(x) ? at : NOWHERE});
  }
  if (a->self.count++ == 0)
    a->inner = (Json){.kind = JSON_NUMBERS, .loc = a->self.loc, .n = 1, .is_int = is_int};
  return true;
}

static void read_element(Reader *r, Open *a) {
  skip_space(r);
  if (read_plain_element(r, a)) return;
  bool quoted = *r->p == '"';
  Json v = read_value(r);
  const Special *s = quoted && v.kind == JSON_STRING ? special_string(r->style, v.text) : NULL;
  bool among_numbers = s && !a->apart && (a->self.count == 0 || a->inner.ndims == 0);
  if (among_numbers) { /* JSON_PLAIN: undecided until a number or another string follows */
    push(r, s->value);
    Loc nan_at = isnan(s->value) ? v.loc : NOWHERE;
    v = (Json){.kind = JSON_NUMBERS, .loc = v.loc, .n = 1, .real_at = v.loc, .nan_at = nan_at};
    a->nwords++;
  }
  add_element(r, a, &v);
}

static void close_rectangle(Reader *r, Open *a) {
  Json *self = &a->self;
  if (a->inner.ndims + 1 > JSON_MAX_DIMS)
    fail(r, self->loc, arena_format(&r->c->arena, "more than %d dimensions", JSON_MAX_DIMS));
  self->ndims = a->inner.ndims + 1;
  self->dims[0] = (long)self->count;
  memcpy(self->dims + 1, a->inner.dims, (size_t)a->inner.ndims * sizeof self->dims[0]);
  self->n = r->nstack - a->base;
}

/* array = '[' (value (',' value)*)? ']' */
static Json read_array(Reader *r) {
  Open a = {.self = {.kind = JSON_NUMBERS, .loc = here(r), .is_int = true}, .base = r->nstack};
  enter(r);
  r->p++;
  if (!accept(r, ']')) {
    do read_element(r, &a);
    while (accept(r, ','));
    if (!accept(r, ']')) expected(r, "',' or ']' after an array element");
  }
  r->depth--;
  if (r->style == JSON_PLAIN && a.nwords && a.nwords == a.self.count) take_apart(r, &a);
  if (!a.apart) close_rectangle(r, &a);
  return a.self;
}

static const char *read_key(Reader *r, const Map *seen, Loc *loc) {
  skip_space(r);
  if (*r->p != '"') expected(r, "a name in double quotes");
  const char *start = r->p;
  const char *key = read_string(r);
  *loc = place(r, start, (size_t)(r->p - start));
  const Loc *before = map_get(seen, key);
  if (before) {
    const char *what = arena_format(
        &r->c->arena, "the name '%s' is given twice; it was given before at line %u, column %u",
        key, before->line, before->column);
    fail(r, *loc, what);
  }
  return key;
}

static void add_member(Reader *r, Json *self, size_t *cap, const char *key, Loc loc, Json *item) {
  Arena *arena = &r->c->arena;
  size_t n = self->count;
  if (n == *cap) {
    *cap = n ? 2 * n : 8;
    self->keys = arena_grow(arena, self->keys, n * sizeof *self->keys, *cap * sizeof *self->keys);
    self->key_locs = arena_grow(arena, self->key_locs, n * sizeof *self->key_locs,
                                *cap * sizeof *self->key_locs);
    self->items =
        arena_grow(arena, self->items, n * sizeof *self->items, *cap * sizeof *self->items);
  }
  self->keys[n] = key;
  self->key_locs[n] = loc;
  self->items[n] = item;
  self->count++;
}

/* member = string ':' value */
static void read_member(Reader *r, Json *self, size_t *cap, Map *seen) {
  if (r->depth == 1) r->variable = NULL;
  Loc *loc = NEW(&r->c->arena, Loc);
  const char *key = read_key(r, seen, loc);
  if (r->depth == 1) r->variable = key;
  if (!accept(r, ':')) expected(r, "':' after a name");
  Json v = read_value(r);
  add_member(r, self, cap, key, *loc, settle(r, &v));
  map_set(seen, key, loc);
}

/* object = '{' (member (',' member)*)? '}' */
static Json read_object(Reader *r) {
  Json self = {.kind = JSON_OBJECT, .loc = here(r)};
  size_t cap = 0;
  Map seen = map_make(&r->c->arena);
  enter(r);
  r->p++;
  if (!accept(r, '}')) {
    do read_member(r, &self, &cap, &seen);
    while (accept(r, ','));
    if (!accept(r, '}')) expected(r, "',' or '}' after a value");
  }
  if (r->depth == 1) r->variable = NULL;
  r->depth--;
  return self;
}

static Json read_word(Reader *r) {
  Json v = {.loc = here(r)};
  if (accept_word(r, "null")) return v.kind = JSON_NULL, v;
  if (accept_word(r, "true")) return v.kind = JSON_TRUE, v;
  if (accept_word(r, "false")) return v.kind = JSON_FALSE, v;
  expected(r, "a value");
}

static Json number_node(Reader *r, Loc loc, double x, bool is_int) {
  push(r, x);
  return (Json){.kind = JSON_NUMBERS,
                .loc = loc,
                .n = 1,
                .is_int = is_int,
                .real_at = is_int ? NOWHERE : loc,
                .nan_at = isnan(x) ? loc : NOWHERE};
}

static Json read_string_value(Reader *r) {
  const char *start = r->p;
  const char *text = read_string(r);
  Loc loc = place(r, start, (size_t)(r->p - start));
  const Special *s = r->style == JSON_STAN ? special_string(JSON_STAN, text) : NULL;
  if (s) return number_node(r, loc, s->value, false);
  return (Json){.kind = JSON_STRING, .loc = loc, .text = text};
}

/* value = object | array | string | number | true | false | null */
static Json read_value(Reader *r) {
  skip_space(r);
  char ch = *r->p;
  if (ch == '{') return read_object(r);
  if (ch == '[') return read_array(r);
  if (ch == '"') return read_string_value(r);
  if (!starts_number(ch)) return read_word(r);
  const char *start = r->p;
  bool is_int;
  double x = read_number(r, &is_int);
  return number_node(r, place(r, start, (size_t)(r->p - start)), x, is_int);
}

Json *json_read(Ctx *c, const Source *source, JsonStyle style) {
  TempArena *temp = temp_open(c);
  Reader r = {.c = c,
              .source = source,
              .p = source->text,
              .end = source->text + source->length,
              .line = 1,
              .style = style,
              .temp = &temp->arena};
  r.line_start = r.p;
  reserve(&r);
  if (strncmp(r.p, "\xEF\xBB\xBF", 3) == 0) r.p += 3; /* a byte order mark */
  Json v = read_value(&r);
  skip_space(&r);
  if (r.p < r.end) expected(&r, "nothing more after the value");
  Json *j = settle(&r, &v);
  temp_close(temp);
  return j;
}

/* ---- files and access ------------------------------------------------------------------------ */

Source *source_read_into(Arena *text, Ctx *c, const char *path, const char *what) {
  const char *why = NULL;
  Source *s = NEW(&c->arena, Source);
  s->name = arena_text(&c->arena, path, strlen(path));
  s->text = text_read_file(text, path, &s->length, &why);
  if (!s->text)
    ctx_fail(c, PVI_DATA, NOWHERE, "cannot read the %s '%s': %s", what, path,
             why ? why : "unknown reason");
  return s;
}

const Source *source_read(Ctx *c, const char *path, const char *what) {
  return source_read_into(&c->arena, c, path, what);
}

Json *json_read_file(Ctx *c, const char *path, JsonStyle style) {
  return json_read(c, source_read(c, path, "file"), style);
}

static const Json *member(const Json *object, const char *key, size_t n) {
  if (!object || object->kind != JSON_OBJECT) return NULL;
  for (size_t k = 0; k < object->count; k++)
    if (!strncmp(object->keys[k], key, n) && !object->keys[k][n]) return object->items[k];
  return NULL;
}

const Json *json_get(const Json *object, const char *key) {
  return member(object, key, strlen(key));
}

const Json *json_item(const Json *object, const char *name) {
  size_t n = strcspn(name, ".:");
  const Json *j = member(object, name, n);
  for (name += n; j && *name; name += n) {
    bool of_tuple = *name++ == ':';
    n = strcspn(name, ".:");
    size_t k = strtoul(name, NULL, 10);
    if (of_tuple)
      j = member(j, name, n);
    else
      j = j->kind == JSON_ARRAY && k >= 1 && k <= j->count ? j->items[k - 1] : NULL;
  }
  return j;
}

const char *json_kind_name(const Json *j) {
  switch (j->kind) {
  case JSON_NULL: return "null";
  case JSON_FALSE: return "false";
  case JSON_TRUE: return "true";
  case JSON_STRING: return "a string";
  case JSON_NUMBERS: return j->ndims == 0 ? "a number" : "an array of numbers";
  case JSON_ARRAY: return "an array";
  case JSON_OBJECT: return "an object";
  }
  return "nothing";
}

typedef struct {
  double *values;
  size_t n, cap;
  const Json *bad;
} Flat;

static void flatten(Ctx *c, const Json *j, Flat *f) {
  const Special *s = j->kind == JSON_STRING ? special_named(plain_specials, j->text) : NULL;
  if (s) {
    PUSH(&c->arena, f->values, f->n, f->cap, s->value);
  } else if (j->kind == JSON_NUMBERS) {
    for (size_t k = 0; k < j->n; k++) PUSH(&c->arena, f->values, f->n, f->cap, j->values[k]);
  } else if (j->kind == JSON_ARRAY) {
    for (size_t k = 0; k < j->count && !f->bad; k++) flatten(c, j->items[k], f);
  } else if (!f->bad) {
    f->bad = j;
  }
}

double *json_flatten(Ctx *c, const Json *j, size_t *n, const Json **bad) {
  Flat f = {0};
  flatten(c, j, &f);
  if (bad) *bad = f.bad;
  *n = f.bad ? 0 : f.n;
  if (f.bad) return NULL;
  return f.values ? f.values : NEW_ARRAY(&c->arena, double, 1);
}
