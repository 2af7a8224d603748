/* options.c: values of options as text -> fields, checked against the rows of options.def. */
#include "run/options.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The words of choices that are tables elsewhere: "|elbo|log|...", their first character skipped.
 */
#define SCORE(id, name, ...) "|" name
#define FAMILY(id, name, ...) "|" name
#define OPTIMIZER(id, name, ...) "|" name
#define SAMPLER(id, name, ...) "|" name
static const char score_words[] = ""
#include "score/scores.def"
    ;
static const char family_words[] = ""
#include "family/families.def"
    ;
static const char optimizer_words[] = ""
#include "infer/optimizers.def"
    ;
static const char sampler_words[] = "auto"
#include "infer/samplers.def"
    ;
#undef SCORE
#undef FAMILY
#undef OPTIMIZER
#undef SAMPLER

#define SCORE_WORDS (score_words + 1)
#define FAMILY_WORDS (family_words + 1)
#define OPTIMIZER_WORDS (optimizer_words + 1)
#define SAMPLER_WORDS sampler_words
#define SCHEDULE_WORDS "constant|step|warmup-cosine"
#define ABOVE(x) above_##x
#define BELOW(x) below_##x
#define above_0 5e-324 /* the least positive number */
#define below_1 0.99999999999999988898

static const OptionRow rows[OPTION_COUNT] = {
#define OPT(id, name, kind, value, byself, least, most, group, commands, help)                     \
  {name, OPT_##kind, value, byself, least, most, group, commands, help},
#include "run/options.def"
#undef OPT
};

/* Where the fields are, and how a message names each option. */
static const struct {
  size_t offset;
  const char *shown;
} fields[OPTION_COUNT] = {
#define OPT(id, name, ...) {offsetof(Options, id), OPTION(name)},
#include "run/options.def"
#undef OPT
};

static void *field(Options *o, size_t k) { return (char *)o + fields[k].offset; }

const OptionRow *option_row(size_t k) { return k < OPTION_COUNT ? &rows[k] : NULL; }

/* Is the word one of those in the list, which separates them by the character `between`? */
static bool has_word(const char *list, char between, const char *word, size_t n, int *at) {
  for (int k = 0;; k++) {
    const char *end = strchr(list, between);
    size_t length = end ? (size_t)(end - list) : strlen(list);
    if (length == n && !memcmp(list, word, n)) return *at = k, true;
    if (!end) return false;
    list = end + 1;
  }
}

bool option_of_command(const OptionRow *row, const char *command) {
  int at;
  return has_word(row->commands, ' ', command, strlen(command), &at);
}

size_t option_words(Arena *a, const OptionRow *row, const char ***words) {
  size_t n = 0, cap = 0;
  *words = NULL;
  for (const char *p = row->value;; p++) {
    size_t length = strcspn(p, "|");
    const char *word = arena_text(a, p, length);
    PUSH(a, *words, n, cap, word);
    p += length;
    if (!*p) return n;
  }
}

const char *option_range(Arena *a, const OptionRow *row) {
  bool number = row->kind == OPT_WHOLE || row->kind == OPT_REAL;
  if (!number) return "";
  const char *least =
      row->least == above_0 ? "above 0" : arena_format(a, "at least %.15g", row->least);
  if (isinf(row->most)) return least;
  return row->most == below_1 ? arena_format(a, "%s, below 1", least)
                              : arena_format(a, "%s, at most %.15g", least, row->most);
}

/* ---- values ---------------------------------------------------------------------------------- */

static int choice(Ctx *c, size_t k, const char *value) {
  int at;
  if (has_word(rows[k].value, '|', value, strlen(value), &at)) return at;
  const char **words;
  size_t n = option_words(&c->arena, &rows[k], &words);
  ctx_unknown(c, PVI_USAGE, NOWHERE,
              &(UnknownWord){.what = arena_format(&c->arena, "value of %s", fields[k].shown),
                             .word = value,
                             .names = words,
                             .count = n});
}

/* The words of a MIX, apart from each other: word:weight,word:weight. */
static OptionParts read_parts(Ctx *c, const Options *o, size_t k, const char *value) {
  OptionParts parts = {0};
  for (const char *p = value; *p;) {
    size_t n = strcspn(p, ","), name = strcspn(p, ":,");
    const char *word = arena_text(&c->arena, p, name), *weight = p + name + (p[name] == ':');
    char *end;
    OptionPart one = {choice(c, k, word), strtod(weight, &end)};
    bool read = p[name] == ':' && end == p + n && end != weight;
    if (!read || !(one.weight >= rows[k].least && one.weight <= DBL_MAX))
      ctx_fail(c, PVI_USAGE, NOWHERE,
               "%s of several takes a weight of each, %s: a:0.5,b:0.5; \"%.*s\" is no such part",
               fields[k].shown, rows[k].least > 0 ? "above 0" : "0 or more", (int)n, p);
    for (size_t i = 0; i < parts.count; i++)
      if (parts.items[i].word == one.word)
        ctx_fail(c, PVI_USAGE, NOWHERE, "%s names %s twice", fields[k].shown, word);
    PUSH(o->arena, parts.items, parts.count, parts.cap, one);
    p += n + (p[n] == ',');
  }
  if (parts.count < 2)
    ctx_fail(c, PVI_USAGE, NOWHERE, "%s: a single one takes no weight; give its name alone",
             fields[k].shown);
  return parts;
}

static int mix(Ctx *c, Options *o, size_t k, const char *value) {
  const char **words;
  o->parts[k] = (OptionParts){0};
  if (!strpbrk(value, ":,")) return choice(c, k, value);
  o->parts[k] = read_parts(c, o, k, value);
  return (int)option_words(&c->arena, &rows[k], &words);
}

/* A REAL whose row names it takes the word `auto` too; the field is then NaN. */
static bool is_auto(size_t k, const char *value) {
  return rows[k].kind == OPT_REAL && strstr(rows[k].value, "|auto") && !strcmp(value, "auto");
}

static double number(Ctx *c, size_t k, const char *value) {
  const OptionRow *row = &rows[k];
  if (is_auto(k, value)) return NAN;
  bool whole = row->kind == OPT_WHOLE;
  char *end;
  errno = 0;
  double x = strtod(value, &end);
  if (end == value || *end || isnan(x))
    ctx_fail(c, PVI_USAGE, NOWHERE, "%s is %s, not \"%s\"", fields[k].shown,
             whole ? "a whole number" : "a number", value);
  if (whole && x != trunc(x))
    ctx_fail(c, PVI_USAGE, NOWHERE, "%s is a whole number; \"%s\" is not an integer",
             fields[k].shown, value);
  if (!(x >= row->least && x <= row->most) || isinf(x))
    ctx_fail(c, PVI_USAGE, NOWHERE, "%s must be %s, not %s", fields[k].shown,
             isinf(x) && isinf(row->most) ? "finite" : option_range(&c->arena, row), value);
  return x;
}

static bool truth(Ctx *c, size_t k, const char *value) {
  if (!*value || !strcmp(value, "true") || !strcmp(value, "1")) return true;
  if (!strcmp(value, "false") || !strcmp(value, "0")) return false;
  ctx_fail(c, PVI_USAGE, NOWHERE, "%s takes no value; \"%s\" was given", fields[k].shown, value);
}

static void add_item(Arena *a, OptionList *l, const char *s, size_t n) {
  const char *copy = arena_text(a, s, n);
  PUSH(a, l->items, l->count, l->cap, copy);
}

/* a,b and c become a, b and c; the first value given replaces the default. */
static void add_names(Arena *a, OptionList *l, const char *value) {
  for (size_t n; *value; value += n + (value[n] == ',')) {
    n = strcspn(value, ",");
    if (n) add_item(a, l, value, n);
  }
}

static void put(Ctx *c, Options *o, size_t k, const char *value) {
  void *to = field(o, k);
  switch (rows[k].kind) {
  case OPT_FLAG: *(bool *)to = truth(c, k, value); break;
  case OPT_TEXT:
    *(const char **)to = *value ? arena_text(o->arena, value, strlen(value)) : NULL;
    break;
  case OPT_WHOLE: *(long *)to = (long)number(c, k, value); break;
  case OPT_REAL: *(double *)to = number(c, k, value); break;
  case OPT_CHOICE: *(int *)to = choice(c, k, value); break;
  case OPT_MIX: *(int *)to = mix(c, o, k, value); break;
  case OPT_NAMES:
    if (!o->given[k].count) *(OptionList *)to = (OptionList){0};
    add_names(o->arena, to, value);
    break;
  case OPT_LIST: add_item(o->arena, to, value, strlen(value)); break;
  }
}

/* The default: zero or nothing where the row has none. */
static void reset(Ctx *c, Options *o, size_t k) {
  static const size_t sizes[] = {
      [OPT_FLAG] = sizeof(bool),        [OPT_TEXT] = sizeof(const char *),
      [OPT_WHOLE] = sizeof(long),       [OPT_REAL] = sizeof(double),
      [OPT_CHOICE] = sizeof(int),       [OPT_MIX] = sizeof(int),
      [OPT_NAMES] = sizeof(OptionList), [OPT_LIST] = sizeof(OptionList)};
  memset(field(o, k), 0, sizes[rows[k].kind]);
  o->given[k] = (OptionList){0};
  if (rows[k].kind == OPT_CHOICE) *(int *)field(o, k) = -1;
  if (rows[k].byself[0]) put(c, o, k, rows[k].byself);
}

/* ---- options --------------------------------------------------------------------------------- */

Options *options_make(Arena *a) {
  Options *o = NEW(a, Options);
  o->arena = a;
  for (size_t k = 0; k < OPTION_COUNT; k++) reset(a->ctx, o, k);
  return o;
}

static const struct {
  const char *word, *write;
} other_words[] = {
#define WORD(word, write) {word, write},
#include "run/other_words.def"
#undef WORD
};

/* Names of options, dashes and underscores being the same. */
static bool is_same(const char *a, const char *b) {
  for (; *a && *b; a++, b++)
    if (*a != *b && !(*a == '_' && *b == '-')) return false;
  return *a == *b;
}

void options_unknown(Ctx *c, const char *name, const char *const *names, size_t count) {
  for (size_t k = 0; k < sizeof other_words / sizeof *other_words; k++)
    if (is_same(name, other_words[k].word))
      ctx_fail(c, PVI_USAGE, NOWHERE, "unknown option \"" OPTION("%s") "\"; here it is %s", name,
               other_words[k].write);
  ctx_unknown(c, PVI_USAGE, NOWHERE, &(UnknownWord){"option", name, OPTION(""), names, count});
}

static size_t find(Ctx *c, const char *name) {
  const char *names[OPTION_COUNT];
  for (size_t k = 0; k < OPTION_COUNT; k++) {
    if (!strcmp(rows[k].name, name)) return k;
    names[k] = rows[k].name;
  }
  options_unknown(c, name, names, OPTION_COUNT);
}

void options_set(Ctx *c, Options *o, const char *name, const char *value) {
  size_t k = find(c, name);
  if (!value) {
    reset(c, o, k);
    return;
  }
  put(c, o, k, value);
  bool many = rows[k].kind == OPT_NAMES || rows[k].kind == OPT_LIST;
  if (!many) o->given[k].count = 0;
  add_item(o->arena, &o->given[k], value, strlen(value));
}

Options *options_copy(Arena *a, const Options *o) {
  Options *copy = options_make(a);
  for (size_t k = 0; k < OPTION_COUNT; k++)
    for (size_t i = 0; i < o->given[k].count; i++)
      options_set(a->ctx, copy, rows[k].name, o->given[k].items[i]);
  return copy;
}

bool options_is_given(const Options *o, enum OptionId id) { return o->given[id].count > 0; }
