/* q_json.c: the variational distribution as a file, and back.
 *
 *   {"format": "pvi-q", "version": 2, "family": "fullrank", "dim": 2, "names": ["mu", "sigma"],
 *    "columns": ["mu", "sigma"], "keys": {"score": "log"}, "shape": {"components": 2, ...},
 *    "scoring": {"draws": 16384, ...}, "parameters": {"mean": [..], "cholesky": [[..], [.., ..]]}}
 *
 * A number is a scalar, a flat array a vector, an array of rows a matrix, rows of length 1, 2, .. n
 * a lower triangle.
 */
#include "data/json.h"
#include "report/report.h"

#include <string.h>

enum { VERSION = 2 };

/* ---- writing --------------------------------------------------------------------------------- */

static void put_array(JsonWriter *w, const QArray *a) {
  const double *x = a->values;
  json_key(w, a->name);
  if (a->shape == Q_SCALAR) {
    json_number(w, x[0]);
  } else if (a->shape == Q_VECTOR) {
    json_numbers(w, x, a->rows);
  } else {
    json_array(w);
    for (size_t i = 0; i < a->rows; i++) {
      size_t n = a->shape == Q_LOWER ? i + 1 : a->cols;
      json_numbers(w, x, n);
      x += n;
    }
    json_array_end(w);
  }
}

static void put_names(JsonWriter *w, const char *key, const char *const *names, size_t n) {
  if (!names) return;
  json_key(w, key);
  json_flat_array(w);
  for (size_t k = 0; k < n; k++) json_string(w, names[k]);
  json_array_end(w);
}

static void put_arrays(JsonWriter *w, const char *key, const QArrays *g) {
  json_key(w, key);
  json_object(w);
  for (size_t k = 0; k < g->count; k++) put_array(w, &g->items[k]);
  json_object_end(w);
}

static void put_keys(JsonWriter *w, const QFile *q) {
  json_key(w, "keys");
  json_object(w);
  for (size_t k = 0; k < q->nkeys; k++) {
    json_key(w, q->keys[k].key);
    json_string(w, q->keys[k].value);
  }
  json_object_end(w);
}

static void put_q(JsonWriter *w, const QFile *q) {
  json_object(w);
  json_key(w, "format");
  json_string(w, "pvi-q");
  json_key(w, "version");
  json_integer(w, VERSION);
  json_key(w, "family");
  json_string(w, q->family);
  json_key(w, "dim");
  json_integer(w, (long long)q->dim);
  put_names(w, "names", q->names, q->dim);
  put_names(w, "columns", q->columns, q->ncolumns);
  put_keys(w, q);
  put_arrays(w, "shape", &q->shape);
  put_arrays(w, "scoring", &q->scoring);
  put_arrays(w, "parameters", &q->parameters);
  json_object_end(w);
}

void q_write(RunDir *r, const QFile *q) {
  Text t = text_make(&r->c->arena);
  JsonWriter w = json_writer(&t, true);
  put_q(&w, q);
  text_puts(&t, "\n");
  run_write(r, "q.json", &t);
}

/* ---- reading --------------------------------------------------------------------------------- */

static const Json *need(Ctx *c, const Json *object, const char *key, JsonKind kind) {
  const Json *j = json_get(object, key);
  if (!j) ctx_fail(c, PVI_DATA, object->loc, "this is no q.json: '%s' is missing", key);
  if (j->kind != kind)
    ctx_fail(c, PVI_DATA, j->loc, "this is no q.json: '%s' is %s", key, json_kind_name(j));
  return j;
}

static size_t row_length(const Json *row) {
  return row->kind == JSON_NUMBERS && row->ndims == 1 ? (size_t)row->dims[0] : row->count;
}

/* Rows of an array that is no rectangle of plain numbers: a lower triangle, or a matrix with words
 * such as "nan" for a whole row. */
static void shape_of_rows(Ctx *c, const Json *j, QArray *a) {
  bool lower = true, even = true;
  bool vector = j->count > 0 && j->items[0]->kind == JSON_STRING;
  for (size_t i = 0; i < j->count && !vector; i++) {
    lower &= row_length(j->items[i]) == i + 1;
    even &= row_length(j->items[i]) == row_length(j->items[0]);
  }
  if (!vector && !lower && !even)
    ctx_fail(c, PVI_DATA, j->loc, "'%s' is neither a vector, a matrix nor a lower triangle",
             a->name);
  a->shape = vector ? Q_VECTOR : even ? Q_MATRIX : Q_LOWER;
  a->rows = j->count;
  a->cols = vector ? 1 : lower ? j->count : row_length(j->items[0]);
}

static void shape_of_numbers(Ctx *c, const Json *j, QArray *a) {
  if (j->ndims > 2) ctx_fail(c, PVI_DATA, j->loc, "'%s' has more than two dimensions", a->name);
  a->shape = j->ndims == 0 ? Q_SCALAR : j->ndims == 1 ? Q_VECTOR : Q_MATRIX;
  a->rows = j->ndims ? (size_t)j->dims[0] : 1;
  a->cols = j->ndims == 2 ? (size_t)j->dims[1] : 1;
}

static QArray read_array(Ctx *c, const char *name, const Json *j) {
  QArray a = {.name = name, .rows = 1, .cols = 1};
  const Json *bad = NULL;
  size_t n;
  a.values = json_flatten(c, j, &n, &bad);
  if (bad)
    ctx_fail(c, PVI_DATA, bad->loc, "'%s' has %s among its numbers", name, json_kind_name(bad));
  if (j->kind == JSON_NUMBERS)
    shape_of_numbers(c, j, &a);
  else if (j->kind == JSON_ARRAY)
    shape_of_rows(c, j, &a);
  if (n != q_array_count(&a))
    ctx_fail(c, PVI_DATA, j->loc, "'%s' is neither a vector, a matrix nor a lower triangle", name);
  return a;
}

/* An array of strings; *n of them. NULL when there is none. */
static const char *const *read_names(Ctx *c, const Json *object, const char *key, size_t *n) {
  const Json *j = json_get(object, key);
  if (!j) return NULL;
  bool empty = j->kind == JSON_NUMBERS && j->n == 0;
  if (!empty && j->kind != JSON_ARRAY)
    ctx_fail(c, PVI_DATA, j->loc, "'%s' is an array of strings", key);
  const char **names = NEW_ARRAY(&c->arena, const char *, j->count + 1);
  for (size_t k = 0; k < j->count; k++) {
    if (j->items[k]->kind != JSON_STRING)
      ctx_fail(c, PVI_DATA, j->items[k]->loc, "a name is a string");
    names[k] = j->items[k]->text;
  }
  *n = j->count;
  return names;
}

static void read_keys(Ctx *c, const Json *j, QFile *q) {
  if (!j || j->kind != JSON_OBJECT) return;
  ReportKey *keys = NEW_ARRAY(&c->arena, ReportKey, j->count + 1);
  for (size_t k = 0; k < j->count; k++) {
    if (j->items[k]->kind != JSON_STRING)
      ctx_fail(c, PVI_DATA, j->items[k]->loc, "'%s' is a string", j->keys[k]);
    keys[k] = (ReportKey){j->keys[k], j->items[k]->text};
  }
  q->keys = keys;
  q->nkeys = j->count;
}

static QArrays read_arrays(Ctx *c, const Json *j) {
  QArray *items = NEW_ARRAY(&c->arena, QArray, j->count + 1);
  for (size_t k = 0; k < j->count; k++) items[k] = read_array(c, j->keys[k], j->items[k]);
  return (QArrays){items, j->count};
}

/* Is it a q.json, and one that this version understands? */
static void check_format(Ctx *c, const Json *j) {
  const Json *format = json_get(j, "format");
  if (!format || !format->text || strcmp(format->text, "pvi-q"))
    ctx_fail(c, PVI_DATA, j->loc, "this is no q.json: \"format\": \"pvi-q\" is missing");
  const Json *version = need(c, j, "version", JSON_NUMBERS);
  if (version->n != 1 || version->values[0] != VERSION)
    ctx_fail(c, PVI_DATA, version->loc,
             "this q.json is of another version of pvi (format %g, not %d): fit again",
             version->n ? version->values[0] : 0, VERSION);
}

QFile *q_read_source(Ctx *c, const Source *source) {
  const Json *j = json_read(c, source, JSON_PLAIN);
  check_format(c, j);
  const Json *dim = need(c, j, "dim", JSON_NUMBERS);
  if (dim->n != 1 || !dim->is_int || dim->values[0] < 0)
    ctx_fail(c, PVI_DATA, dim->loc, "'dim' is a number of dimensions");
  QFile *q = NEW(&c->arena, QFile);
  q->family = need(c, j, "family", JSON_STRING)->text;
  size_t n = q->dim = (size_t)dim->values[0];
  q->names = read_names(c, j, "names", &n);
  if (n != q->dim)
    ctx_fail(c, PVI_DATA, j->loc, "there are %zu names for %zu dimensions", n, q->dim);
  q->columns = read_names(c, j, "columns", &q->ncolumns);
  read_keys(c, json_get(j, "keys"), q);
  q->shape = read_arrays(c, need(c, j, "shape", JSON_OBJECT));
  q->scoring = read_arrays(c, need(c, j, "scoring", JSON_OBJECT));
  q->parameters = read_arrays(c, need(c, j, "parameters", JSON_OBJECT));
  return q;
}

QFile *q_read(Ctx *c, const char *path) { return q_read_source(c, source_read(c, path, "file")); }

const QArray *q_array(const QArrays *g, const char *name) {
  for (size_t k = 0; k < g->count; k++)
    if (strcmp(g->items[k].name, name) == 0) return &g->items[k];
  return NULL;
}

double q_number(const QArrays *g, const char *name, double otherwise) {
  const QArray *a = q_array(g, name);
  return a && a->shape == Q_SCALAR ? a->values[0] : otherwise;
}

size_t q_array_count(const QArray *a) {
  if (a->shape == Q_LOWER) return a->rows * (a->rows + 1) / 2;
  return a->shape == Q_MATRIX ? a->rows * a->cols : a->shape == Q_VECTOR ? a->rows : 1;
}

const char *q_key(const QFile *q, const char *key) {
  for (size_t k = 0; k < q->nkeys; k++)
    if (strcmp(q->keys[k].key, key) == 0) return q->keys[k].value;
  return NULL;
}
