/* cmdstan_args.c: CmdStan's command line, read and written (cmdstan_args.h).
 *
 * CmdStan tells a run's settings twice: as nested lines, and as nested objects in base_config.json.
 * Both are one walk over the rows. Own settings come last and at the top level; readers keep them
 * as metadata.
 */
#include "report/cmdstan_args.h"

#include "data/json.h"
#include "data/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum { GROUP, CHOICE, WORD, WHOLE, REAL, BOOL, TEXT } ArgKind;

typedef struct {
  int depth;
  const char *name;
  ArgKind kind;
  const char *standard;
  double least, most;
} Row;

static const Row rows[ARG_COUNT] = {
#define ARG(id, depth, name, kind, standard, least, most)                                          \
  {depth, name, kind, standard, least, most},
#include "report/cmdstan_args.def"
#undef ARG
};

enum { ROOT = -1 };

/* ---- the tree -------------------------------------------------------------------------------- */

static int depth_of(int k) { return k == ROOT ? -1 : rows[k].depth; }

/* The row behind k and all that is below it. */
static int end_of(int k) {
  int e = k + 1;
  while (e < ARG_COUNT && rows[e].depth > depth_of(k)) e++;
  return e;
}

static int parent_of(int k) {
  int p = k;
  while (p >= 0 && rows[p].depth >= rows[k].depth) p--;
  return p;
}

static int child_of(int k, const char *name, size_t n) {
  for (int j = k + 1; j < end_of(k); j = end_of(j))
    if (strlen(rows[j].name) == n && !strncmp(rows[j].name, name, n)) return j;
  return ROOT;
}

/* ---- values ---------------------------------------------------------------------------------- */

CmdstanArgs *cmdstan_args(Arena *a) {
  CmdstanArgs *args = NEW(a, CmdstanArgs);
  args->arena = a;
  for (int k = 0; k < ARG_COUNT; k++) args->value[k] = rows[k].standard;
  return args;
}

void cmdstan_set(CmdstanArgs *args, CmdstanArg k, const char *fmt, ...) {
  Text t = text_make(args->arena);
  va_list ap;
  va_start(ap, fmt);
  text_vprintf(&t, fmt, ap);
  va_end(ap);
  args->value[k] = t.s ? t.s : "";
}

bool cmdstan_is(const CmdstanArgs *args, CmdstanArg k, const char *word) {
  return !strcmp(args->value[k], word);
}
double cmdstan_number(const CmdstanArgs *args, CmdstanArg k) {
  return strtod(args->value[k], NULL);
}
long cmdstan_whole(const CmdstanArgs *args, CmdstanArg k) {
  return strtol(args->value[k], NULL, 10);
}
bool cmdstan_flag(const CmdstanArgs *args, CmdstanArg k) { return cmdstan_is(args, k, "1"); }

/* ---- reading --------------------------------------------------------------------------------- */

/* What a row takes, for people. */
static const char *allowed(Arena *a, int k) {
  Text t = text_make(a);
  if (rows[k].kind == BOOL) return "0, 1, false or true";
  if (rows[k].kind == WHOLE || rows[k].kind == REAL) {
    text_printf(&t, "a %snumber of at least %.15g", rows[k].kind == WHOLE ? "whole " : "",
                rows[k].least);
    if (rows[k].most < 2147483647) text_printf(&t, " and at most %.15g", rows[k].most);
    return t.s;
  }
  for (int j = k + 1; j < end_of(k); j = end_of(j))
    text_printf(&t, "%s%s", t.n ? ", " : "", rows[j].name);
  return t.s ? t.s : "any text";
}

_Noreturn static void not_valid(Ctx *c, int k, const char *value) {
  ctx_fail(c, PVI_USAGE, NOWHERE,
           "%s is not a valid value for \"%s\"\n  Valid values: %s\nFailed to parse arguments, "
           "terminating",
           value, rows[k].name, allowed(&c->arena, k));
}

static bool is_number(int k, const char *value) {
  char *end;
  double x = strtod(value, &end);
  bool whole = rows[k].kind == WHOLE;
  if (end == value || *end || !(x >= rows[k].least && x <= rows[k].most)) return false;
  return !whole || value[strspn(value, "+-0123456789")] == 0;
}

static const char *checked(Ctx *c, int k, const char *value) {
  switch (rows[k].kind) {
  case BOOL:
    if (!strcmp(value, "true")) return "1";
    if (!strcmp(value, "false")) return "0";
    if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0) not_valid(c, k, value);
    break;
  case CHOICE:
    if (child_of(k, value, strlen(value)) == ROOT) not_valid(c, k, value);
    break;
  case WHOLE:
  case REAL:
    if (!is_number(k, value)) not_valid(c, k, value);
    break;
  default: break;
  }
  return arena_text(&c->arena, value, strlen(value));
}

_Noreturn static void misplaced(Ctx *c, const char *word) {
  const char *names[ARG_COUNT];
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
  for (int k = 0; k < ARG_COUNT; k++) names[k] = rows[k].name;
  const char *near = text_nearest(name, names, ARG_COUNT);
  Text t = text_make(&c->arena);
  for (int k = 0; near && k < ARG_COUNT; k++)
    if (!strcmp(rows[k].name, near)) {
      const char *path = near;
      for (int p = parent_of(k); p != ROOT; p = parent_of(p))
        path =
            arena_format(&c->arena, rows[p].kind == CHOICE ? "%s=%s" : "%s %s", rows[p].name, path);
      text_printf(&t, "\n  %s", path);
    }
  ctx_fail(c, PVI_USAGE, NOWHERE, "%s is either mistyped or misplaced.%s%s", word,
           t.n ? "\nPerhaps you meant one of the following valid configurations?" : "",
           t.n ? t.s : "");
}

/* A word belongs to the innermost group that has such a child; the group it opens is returned. A
 * method is also chosen by its name alone. */
static int read_word(Ctx *c, CmdstanArgs *args, int open, const char *word) {
  size_t n = strcspn(word, "=");
  const char *value = word[n] ? word + n + 1 : NULL;
  for (int group = open;; group = parent_of(group)) {
    int k = child_of(group, word, n);
    if (k == ROOT && group == ROOT && !value) {
      k = child_of(ARG_method, word, n);
      if (k == ROOT) misplaced(c, word);
      args->value[ARG_method] = rows[k].name;
      return k;
    }
    if (k != ROOT && (rows[k].kind == GROUP) == !value) {
      if (!value) return k;
      args->value[k] = checked(c, k, value);
      return rows[k].kind == CHOICE ? child_of(k, value, strlen(value)) : group;
    }
    if (group == ROOT) misplaced(c, word);
  }
}

void cmdstan_read(Ctx *c, CmdstanArgs *args, int argc, const char *const *argv) {
  int open = ROOT;
  for (int k = 0; k < argc; k++) open = read_word(c, args, open, argv[k]);
  if (!*args->value[ARG_method])
    ctx_fail(c, PVI_USAGE, NOWHERE,
             "A method must be specified!\nFailed to parse arguments, "
             "terminating");
}

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct {
  Text *out;
  const char *mark;
} Lines;

static void put_line(const Lines *l, int depth, const char *key, const char *value,
                     bool is_default) {
  text_printf(l->out, "%s%*s%s", l->mark, 2 * depth, "", key);
  if (value) {
    text_puts(l->out, " = ");
    for (; *value; value++) /* one setting, one line */
      text_add(l->out, *value == '\n' || *value == '\r' ? " " : value, 1);
    text_puts(l->out, is_default ? " (Default)" : "");
  }
  text_puts(l->out, "\n");
}

/* Of a choice the chosen branch is shown. */
static void put_lines(const Lines *l, const CmdstanArgs *args, int group) {
  for (int k = group + 1; k < end_of(group); k = end_of(k)) {
    const char *value = rows[k].kind == GROUP ? NULL : args->value[k];
    const char *standard = k == ARG_method ? "sample" : rows[k].standard;
    put_line(l, rows[k].depth, rows[k].name, value, value && !strcmp(value, standard));
    if (rows[k].kind == GROUP) put_lines(l, args, k);
    if (rows[k].kind != CHOICE) continue;
    int chosen = child_of(k, value, strlen(value));
    if (rows[chosen].kind == WORD) continue;
    put_line(l, rows[chosen].depth, rows[chosen].name, NULL, false);
    put_lines(l, args, chosen);
  }
}

/* Major, minor and patch, as comments and as JSON call them. */
static const struct {
  const char *line, *json, *value;
} version[] = {
    {"stan_version_major", "stan_major_version", CMDSTAN_MAJOR},
    {"stan_version_minor", "stan_minor_version", CMDSTAN_MINOR},
    {"stan_version_patch", "stan_patch_version", CMDSTAN_PATCH},
};

void cmdstan_print(Text *out, const CmdstanArgs *args, const CmdstanTitle *title,
                   const char *mark) {
  Lines l = {out, mark};
  for (size_t k = 0; title && k < sizeof version / sizeof *version; k++)
    put_line(&l, 0, version[k].line, version[k].value, false);
  if (title) put_line(&l, 0, "model", title->model, false);
  if (title && title->start) put_line(&l, 0, "start_datetime", title->start, false);
  put_lines(&l, args, ROOT);
  for (size_t k = 0; title && k < title->nkeys; k++)
    put_line(&l, 0, title->keys[k].key, title->keys[k].value, false);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_value(JsonWriter *w, int k, const char *value) {
  switch (rows[k].kind) {
  case BOOL: json_bool(w, !strcmp(value, "1")); break;
  case REAL: json_number(w, strtod(value, NULL)); break;
  case WHOLE:
    if (*value == '-')
      json_integer(w, strtoll(value, NULL, 10));
    else
      json_unsigned(w, strtoull(value, NULL, 10));
    break;
  default: json_string(w, value); break;
  }
}

/* A choice is {"value": word, word: {...}}. */
static void json_rows(JsonWriter *w, const CmdstanArgs *args, int group) {
  for (int k = group + 1; k < end_of(group); k = end_of(k)) {
    json_key(w, rows[k].name);
    if (rows[k].kind != GROUP && rows[k].kind != CHOICE) {
      json_value(w, k, args->value[k]);
      continue;
    }
    json_object(w);
    if (rows[k].kind == GROUP) json_rows(w, args, k);
    if (rows[k].kind == CHOICE) {
      int chosen = child_of(k, args->value[k], strlen(args->value[k]));
      json_key(w, "value");
      json_string(w, args->value[k]);
      if (rows[chosen].kind == GROUP) {
        json_key(w, rows[chosen].name);
        json_object(w);
        json_rows(w, args, chosen);
        json_object_end(w);
      }
    }
    json_object_end(w);
  }
}

void cmdstan_json(Text *out, const CmdstanArgs *args, const CmdstanTitle *title) {
  JsonWriter w = json_writer(out, true);
  json_object(&w);
  for (size_t k = 0; k < sizeof version / sizeof *version; k++) {
    json_key(&w, version[k].json);
    json_string(&w, version[k].value);
  }
  json_key(&w, "model_name");
  json_string(&w, title->model);
  if (title->start) {
    json_key(&w, "start_datetime");
    json_string(&w, title->start);
  }
  json_rows(&w, args, ROOT);
  for (size_t k = 0; k < title->nkeys; k++) {
    json_key(&w, title->keys[k].key);
    json_string(&w, title->keys[k].value);
  }
  json_object_end(&w);
  text_puts(out, "\n");
}

/* ---- help ------------------------------------------------------------------------------------ */

static const char *const kind_words[] = {[CHOICE] = "list_element",
                                         [WHOLE] = "int",
                                         [REAL] = "double",
                                         [BOOL] = "boolean",
                                         [TEXT] = "string"};

/* CmdStanR takes 10000000 for a whole number, and 1e+07, as CmdStan's help has it, for a real one.
 */
static const char *standard_words(Arena *a, const Row *row) {
  if (row->kind == BOOL) return *row->standard == '1' ? "true" : "false";
  bool large = row->kind == REAL && strtod(row->standard, NULL) >= 1e6;
  return large ? arena_format(a, "%g", strtod(row->standard, NULL)) : row->standard;
}

void cmdstan_help(Text *out) {
  text_puts(out, "usage: MODEL method=METHOD [settings of the method] [data file=FILE] [init=...] "
                 "[random seed=N] [output file=FILE]\n\nsettings, with their defaults:\n");
  for (int k = 0; k < ARG_COUNT; k++) {
    int indent = 4 * rows[k].depth + 2;
    if (rows[k].kind == GROUP || rows[k].kind == WORD)
      text_printf(out, "%*s%s\n", indent, "", rows[k].name);
    else
      text_printf(out, "%*s%s=<%s>\n%*sDefaults to %s\n", indent, "", rows[k].name,
                  kind_words[rows[k].kind], indent + 2, "", standard_words(out->arena, &rows[k]));
  }
}
