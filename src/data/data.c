/* data.c: Data from files and --set values.
 *
 * JSON values become DataVars as they are. A tuple {"1": .., "2": ..} called x becomes x.1, x.2; an
 * array of tuples becomes the same with every item an array, so that whatever a declaration's item
 * is bound to is one flat array.
 */
#include "data/data_int.h"

#include <string.h>

Data *data_new(Ctx *c, const Source *source) {
  Data *d = NEW(&c->arena, Data);
  *d = (Data){.source = source, .vars = map_make(&c->arena), .rows = -1};
  return d;
}

void data_add(Ctx *c, Data *d, const DataVar *v) {
  DataVar *kept = NEW(&c->arena, DataVar);
  *kept = *v;
  map_set(&d->vars, v->name, kept);
}

Data *data_empty(Ctx *c) { return data_new(c, NULL); }
const DataVar *data_find(const Data *d, const char *name) { return map_get(&d->vars, name); }
long data_rows(const Data *d) { return d->rows; }

/* ---- JSON values ----------------------------------------------------------------------------- */

static void add_numbers(Ctx *c, Data *d, const char *name, Loc loc, const Json *j) {
  DataVar v = {.name = name,
               .loc = loc,
               .is_int = j->is_int,
               .real_at = j->real_at,
               .nan_at = j->nan_at,
               .ndims = j->ndims,
               .n = j->n,
               .values = j->values};
  memcpy(v.dims, j->dims, sizeof v.dims);
  data_add(c, d, &v);
}

static bool is_tuple(const Json *j) {
  if (j->kind != JSON_OBJECT) return false;
  for (size_t k = 0; k < j->count; k++)
    if (!j->keys[k][0] || strspn(j->keys[k], "0123456789") != strlen(j->keys[k])) return false;
  return j->count > 0;
}

/* The tuples of an array of tuples (of arrays of tuples ...), in row-major order, with the dims of
 * the array. */
typedef struct {
  const Json **tuples;
  size_t n, cap;
  int ndims;
  long dims[JSON_MAX_DIMS];
  const Json *bad;
} Tuples;

static void collect_tuples(Ctx *c, const Json *j, int level, Tuples *t) {
  if (t->bad) return;
  if (is_tuple(j) && (t->n == 0 || level == t->ndims)) {
    t->ndims = level;
    PUSH(&c->arena, t->tuples, t->n, t->cap, j);
    return;
  }
  bool uneven = t->n > 0 && level < t->ndims && t->dims[level] != (long)j->count;
  if (j->kind != JSON_ARRAY || level == JSON_MAX_DIMS || uneven ||
      (t->n > 0 && level >= t->ndims)) {
    t->bad = j;
    return;
  }
  t->dims[level] = (long)j->count;
  for (size_t k = 0; k < j->count; k++) collect_tuples(c, j->items[k], level + 1, t);
}

static bool joins(const Json *first, const Json *item) {
  return item && item->kind == JSON_NUMBERS && first->kind == JSON_NUMBERS &&
         first->ndims == item->ndims &&
         memcmp(first->dims, item->dims, (size_t)item->ndims * sizeof item->dims[0]) == 0;
}

/* Item `key` of all tuples, one behind the other, as a single value with the array's dims in front;
 * NULL when they do not fit.
 */
static Json *join_items(Ctx *c, const Tuples *t, const char *key) {
  const Json *first = json_get(t->tuples[0], key);
  if (first->kind != JSON_NUMBERS) {
    Json *array = NEW(
        &c->arena,
        Json); /* tuples inside tuples: as an array of the inner ones; the shape is found again */
    *array = (Json){.kind = JSON_ARRAY, .loc = first->loc, .count = t->n};
    array->items = NEW_ARRAY(&c->arena, Json *, t->n);
    for (size_t k = 0; k < t->n; k++)
      if (!(array->items[k] = (Json *)json_get(t->tuples[k], key))) return NULL;
    return array;
  }
  if (first->ndims + t->ndims > JSON_MAX_DIMS) return NULL;
  Json *all = NEW(&c->arena, Json);
  *all = *first;
  all->ndims = t->ndims + first->ndims;
  memcpy(all->dims, t->dims, (size_t)t->ndims * sizeof all->dims[0]);
  memcpy(all->dims + t->ndims, first->dims, (size_t)first->ndims * sizeof all->dims[0]);
  all->n = first->n * t->n;
  all->values = NEW_ARRAY(&c->arena, double, all->n ? all->n : 1);
  for (size_t k = 0; k < t->n; k++) {
    const Json *item = json_get(t->tuples[k], key);
    if (!joins(first, item)) return NULL;
    if (item->n) memcpy(all->values + k * first->n, item->values, item->n * sizeof(double));
    if (!item->is_int && all->is_int) all->is_int = false, all->real_at = item->real_at;
  }
  return all;
}

/* Values of inner tuples keep the outer array's dims, flattened to one: put the outer ones back. */
static void restore_dims(Data *d, const char *name, const Tuples *t) {
  size_t n = strlen(name);
  for (size_t k = 0; k < d->vars.count; k++) {
    DataVar *v = d->vars.items[k].value;
    if (strncmp(v->name, name, n) || v->name[n] != '.' || v->is_tuple ||
        v->ndims + t->ndims - 1 > JSON_MAX_DIMS)
      continue;
    memmove(v->dims + t->ndims, v->dims + 1, (size_t)(v->ndims - 1) * sizeof v->dims[0]);
    memcpy(v->dims, t->dims, (size_t)t->ndims * sizeof v->dims[0]);
    v->ndims += t->ndims - 1;
  }
}

static void add_tuples(Ctx *c, Data *d, const char *name, Loc loc, const Tuples *t) {
  data_add(c, d, &(DataVar){.name = name, .loc = loc, .is_tuple = true, .ndims = t->ndims});
  const Json *first = t->tuples[0];
  for (size_t k = 0; k < first->count; k++) {
    const char *item_name = arena_format(&c->arena, "%s.%s", name, first->keys[k]);
    Json *item = join_items(c, t, first->keys[k]);
    if (!item) {
      ctx_error(c, loc, "'%s': item %s is missing or of another shape in some tuples of the array",
                name, first->keys[k]);
      continue;
    }
    data_add_value(c, d, item_name, loc, item);
    if (item->kind == JSON_ARRAY && t->ndims > 1) restore_dims(d, item_name, t);
  }
}

static void add_tuple(Ctx *c, Data *d, const char *name, Loc loc, const Json *j) {
  data_add(c, d, &(DataVar){.name = name, .loc = loc, .is_tuple = true});
  data_add_json(c, d, arena_format(&c->arena, "%s.", name), j);
}

static const Json *first_odd(const Json *j) {
  if (j->kind == JSON_NUMBERS) return NULL;
  if (j->kind != JSON_ARRAY) return j;
  for (size_t k = 0; k < j->count; k++) {
    const Json *odd = first_odd(j->items[k]);
    if (odd) return odd;
  }
  return NULL;
}

static const Json *first_uneven(const Json *j) {
  if (j->kind != JSON_ARRAY) return NULL;
  for (size_t k = 0; k < j->count; k++) {
    const Json *inner = first_uneven(j->items[k]);
    if (inner) return inner;
  }
  return j->uneven ? j : NULL;
}

/* R writes NA so, Python's json None. */
static bool is_missing(const Json *j) {
  return j->kind == JSON_NULL || (j->kind == JSON_STRING && !strcmp(j->text, "NA"));
}

/* Which element of the variable is missing, and how many more. */
static void report_missing(Ctx *c, const char *name, const Json *j, const Json *odd) {
  size_t at = 0, more = 0;
  for (size_t k = 0; j->kind == JSON_ARRAY && k < j->count; k++) {
    if (j->items[k] == odd) at = k + 1;
    more += j->items[k] != odd && is_missing(j->items[k]);
  }
  const char *place = at ? arena_format(&c->arena, "%s[%zu]", name, at) : name,
             *rest = more ? arena_format(&c->arena, " (and %zu more)", more) : "";
  ctx_error(c, odd->loc,
            "%s is missing%s; Stan has no missing values: leave such rows out, or make the missing "
            "values parameters of the program",
            place, rest);
}

static void report_odd(Ctx *c, const char *name, const Json *j) {
  const Json *odd = first_odd(j), *uneven = first_uneven(j);
  if (odd && is_missing(odd)) {
    report_missing(c, name, j, odd);
    return;
  }
  if (!odd && uneven) {
    ctx_error(c, uneven->uneven_at, "'%s' is a ragged array: %s; Stan's arrays are rectangular",
              name, uneven->uneven);
  } else if (odd && odd->kind == JSON_STRING) {
    ctx_error(c, odd->loc, "'%s' has the string \"%s\"; data are numbers (or NaN, Inf, -Inf)", name,
              odd->text);
  } else if (odd && odd->kind == JSON_OBJECT) {
    ctx_error(c, odd->loc,
              "'%s' has an object that is not a tuple; a tuple has the keys \"1\", \"2\", ...",
              name);
  } else if (odd) {
    ctx_error(c, odd->loc, "'%s' has %s; data are numbers: write 1 for true and 0 for false", name,
              json_kind_name(odd));
  } else {
    ctx_error(c, j->loc, "'%s' mixes numbers and arrays", name);
  }
}

/* Does the program want it, or an item of it? Whoever does not say what the program wants, wants
 * all.
 */
static bool is_wanted(const Data *d, const char *name) {
  size_t n = strcspn(name, ".");
  for (size_t k = 0; k < d->ndeclared; k++)
    if (strlen(d->declared[k]) == n && !strncmp(d->declared[k], name, n)) return true;
  return !d->declared;
}

void data_add_value(Ctx *c, Data *d, const char *name, Loc loc, const Json *j) {
  Tuples t = {0};
  if (j->kind == JSON_NUMBERS) {
    add_numbers(c, d, name, loc, j);
  } else if (is_tuple(j)) {
    add_tuple(c, d, name, loc, j);
  } else if (j->kind == JSON_ARRAY && (collect_tuples(c, j, 0, &t), !t.bad && t.n)) {
    add_tuples(c, d, name, loc, &t);
  } else if (is_wanted(d, name)) { /* a note beside the data may be of any kind */
    report_odd(c, name, j);
  }
}

void data_add_json(Ctx *c, Data *d, const char *prefix, const Json *object) {
  for (size_t k = 0; k < object->count; k++) {
    const char *name =
        prefix[0] ? arena_format(&c->arena, "%s%s", prefix, object->keys[k]) : object->keys[k];
    data_add_value(c, d, name, object->key_locs[k], object->items[k]);
  }
}

static void add_json_file(Ctx *c, Data *d, const Source *source) {
  Json *j = json_read(c, source, JSON_STAN);
  if (j->kind != JSON_OBJECT)
    ctx_fail(c, PVI_DATA, j->loc,
             "a data file is one object {\"name\": value, ...}; this one is %s", json_kind_name(j));
  data_add_json(c, d, "", j);
}

/* ---- --set name=value ------------------------------------------------------------------------ */

static Source *text_source(Ctx *c, Arena *into, const char *name, const char *text) {
  Source *s = NEW(&c->arena, Source);
  *s = (Source){.name = name, .text = arena_text(into, text, strlen(text)), .length = strlen(text)};
  return s;
}

/* Items of tuples are x.1, x.2, ... */
static void check_declared(Ctx *c, const Data *d, const char *name) {
  if (is_wanted(d, name)) return;
  const char *x = arena_text(&c->arena, name, strcspn(name, "."));
  ctx_unknown(
      c, PVI_USAGE, NOWHERE,
      &(UnknownWord){"data variable in " OPTION("set"), x, NULL, d->declared, d->ndeclared});
}

static void add_set(Ctx *c, Data *d, const char *set) {
  const char *equal = strchr(set, '=');
  if (!equal || equal == set)
    ctx_fail(c, PVI_USAGE, NOWHERE,
             OPTION("set") " takes name=value, as in " OPTION("set") " N=19; got '%s'", set);
  const char *name = arena_text(&c->arena, set, (size_t)(equal - set));
  check_declared(c, d, name);
  const Source *source =
      text_source(c, &c->arena, arena_format(&c->arena, "--set %s", name), equal + 1);
  Json *j = json_read(c, source, JSON_STAN);
  data_add_value(c, d, name, j->loc, j);
}

static void know_declared(Data *d, const DataOptions *o) {
  if (o) d->declared = o->declared, d->ndeclared = o->ndeclared;
}

static void add_sets(Ctx *c, Data *d, const DataOptions *o) {
  for (int k = 0; o && k < o->nsets; k++) add_set(c, d, o->sets[k]);
}

/* ---- files ----------------------------------------------------------------------------------- */

struct DataText {
  TempArena *memory; /* NULL: let go */
  Source *source;
  const char *bytes; /* as they were read; the source may be another form of them */
  size_t nbytes;
};

const char *data_bytes(const Data *d, size_t *n) {
  *n = d->text ? d->text->nbytes : 0;
  return d->text ? d->text->bytes : NULL;
}

static DataText *open_text(Ctx *c) {
  DataText *t = NEW(&c->arena, DataText);
  t->memory = temp_open(c);
  return t;
}

void data_forget_text(Data *d) {
  DataText *t = d->text;
  if (!t || !t->memory) return;
  temp_close(t->memory);
  t->memory = NULL;
  t->source->text = t->bytes = NULL;
}

static bool has_extension(const char *name, const char *extension) {
  size_t n = strlen(name), m = strlen(extension);
  return n >= m && strcmp(name + n - m, extension) == 0;
}

static bool looks_like_csv(const Source *s) {
  if (has_extension(s->name, ".csv") || has_extension(s->name, ".CSV")) return true;
  if (has_extension(s->name, ".json") || has_extension(s->name, ".JSON")) return false;
  const char *p = s->text;
  if (strncmp(p, "\xEF\xBB\xBF", 3) == 0) p += 3;
  p += strspn(p, " \t\r\n");
  return *p && *p != '{' && *p != '[';
}

/* What R's dump() writes: name <- value. */
static bool looks_like_r(const Source *s) {
  const char *p = s->text + strspn(s->text, " \t\r\n\"");
  p += strcspn(p, " \t\r\n\"<={[,");
  p += strspn(p, " \t\r\n\"");
  return has_extension(s->name, ".R") || has_extension(s->name, ".Rdump") ||
         strncmp(p, "<-", 2) == 0;
}

/* Lines that end with a carriage return alone, as old spreadsheets write them, end as others do. */
static void end_lines(Arena *a, Source *s) {
  if (memchr(s->text, '\n', s->length) || !memchr(s->text, '\r', s->length)) return;
  char *text = arena_text(a, s->text, s->length);
  for (size_t k = 0; k < s->length; k++)
    if (text[k] == '\r') text[k] = '\n';
  s->text = text;
}

static Data *read_source(Ctx *c, DataText *text, const DataOptions *o) {
  size_t errors = c->nerrors;
  text->bytes = text->source->text;
  text->nbytes = text->source->length;
  end_lines(&text->memory->arena, text->source);
  bool dump = looks_like_r(text->source);
  if (dump) {
    text->source->text = rdump_json(c, &text->memory->arena, text->source);
    text->source->length = strlen(text->source->text);
  }
  Data *d = data_new(c, text->source);
  d->text = text;
  know_declared(d, o);
  if (!dump && looks_like_csv(text->source)) {
    data_add_csv(c, d, text->source);
  } else {
    add_json_file(c, d, text->source);
  }
  add_sets(c, d, o);
  if (c->nerrors > errors) ctx_jump(c, PVI_DATA);
  return d;
}

/* A byte that no text has: of an .rds of R, a spreadsheet, a pickle. */
static bool is_binary(const char *text) {
  for (size_t k = 0; text[k] && k < 512; k++) {
    unsigned char b = (unsigned char)text[k];
    if (b < 32 && b != '\t' && b != '\n' && b != '\r' && b != '\f') return true;
  }
  return false;
}

Data *data_read(Ctx *c, const char *path, const DataOptions *o) {
  DataText *t = open_text(c);
  t->source = source_read_into(&t->memory->arena, c, path, "data file");
  if (is_binary(t->source->text))
    ctx_fail(c, PVI_DATA, NOWHERE,
             "'%s' is a binary file (of R, a spreadsheet, a statistics package); data are text: "
             "JSON, CSV or a dump of R. In R, cmdstanr::write_stan_json(data, \"data.json\") or "
             "write.csv(data, \"data.csv\", row.names = FALSE) write them",
             path);
  return read_source(c, t, o);
}

Data *data_read_text(Ctx *c, const char *name, const char *text, const DataOptions *o) {
  DataText *t = open_text(c);
  t->source = text_source(c, &t->memory->arena, name, text);
  return read_source(c, t, o);
}

Data *data_from_sets(Ctx *c, const DataOptions *o) {
  size_t errors = c->nerrors;
  Data *d = data_empty(c);
  know_declared(d, o);
  add_sets(c, d, o);
  if (c->nerrors > errors) ctx_jump(c, PVI_DATA);
  return d;
}
