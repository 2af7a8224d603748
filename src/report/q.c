/* q.c: the variational distribution as a file, and back.
 *
 *   {"format": "pvi-q", "version": 1, "family": "fullrank", "dim": 2, "names": ["mu", "sigma"],
 * "keys": {"score": "log"}, "parameters": {"mean": [..], "cholesky": [[..], [.., ..]]}}
 *
 * A number is a scalar, a flat array a vector, an array of rows a matrix, rows of length 1, 2, .. n
 * a lower triangle.
 */
#include "data/json.h"
#include "report/report.h"

#include <string.h>

enum { VERSION = 1 };

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

static void put_names(JsonWriter *w, const QFile *q) {
  if (!q->names) return;
  json_key(w, "names");
  json_flat_array(w);
  for (size_t k = 0; k < q->dim; k++) json_string(w, q->names[k]);
  json_array_end(w);
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
  put_names(w, q);
  json_key(w, "keys");
  json_object(w);
  for (size_t k = 0; k < q->nkeys; k++) {
    json_key(w, q->keys[k].key);
    json_string(w, q->keys[k].value);
  }
  json_object_end(w);
  json_key(w, "parameters");
  json_object(w);
  for (size_t k = 0; k < q->narrays; k++) put_array(w, &q->arrays[k]);
  json_object_end(w);
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

static const char *const *read_names(Ctx *c, const Json *j, size_t dim) {
  if (!j) return NULL;
  bool empty = j->kind == JSON_NUMBERS && j->n == 0;
  if (!empty && j->kind != JSON_ARRAY)
    ctx_fail(c, PVI_DATA, j->loc, "'names' is an array of strings");
  if (j->count != dim)
    ctx_fail(c, PVI_DATA, j->loc, "there are %zu names for %zu dimensions", j->count, dim);
  const char **names = NEW_ARRAY(&c->arena, const char *, dim + 1);
  for (size_t k = 0; k < j->count; k++) {
    if (j->items[k]->kind != JSON_STRING)
      ctx_fail(c, PVI_DATA, j->items[k]->loc, "a name is a string");
    names[k] = j->items[k]->text;
  }
  return names;
}

static void read_keys(Ctx *c, const Json *j, QFile *q) {
  ReportKey *keys = NEW_ARRAY(&c->arena, ReportKey, j->count + 1);
  for (size_t k = 0; k < j->count; k++) keys[k] = (ReportKey){j->keys[k], j->items[k]->text};
  q->keys = keys;
  q->nkeys = j->count;
}

QFile *q_read_source(Ctx *c, const Source *source) {
  const Json *j = json_read(c, source, JSON_PLAIN);
  const Json *format = json_get(j, "format"), *keys = json_get(j, "keys");
  if (!format || !format->text || strcmp(format->text, "pvi-q"))
    ctx_fail(c, PVI_DATA, j->loc, "this is no q.json: \"format\": \"pvi-q\" is missing");
  const Json *version = need(c, j, "version", JSON_NUMBERS), *dim = need(c, j, "dim", JSON_NUMBERS);
  if (version->n != 1 || version->values[0] != VERSION)
    ctx_fail(c, PVI_DATA, version->loc, "this q.json is of another version of pvi (%g, not %d)",
             version->n ? version->values[0] : 0, VERSION);
  if (dim->n != 1 || !dim->is_int || dim->values[0] < 0)
    ctx_fail(c, PVI_DATA, dim->loc, "'dim' is a number of dimensions");
  QFile *q = NEW(&c->arena, QFile);
  q->family = need(c, j, "family", JSON_STRING)->text;
  q->dim = (size_t)dim->values[0];
  q->names = read_names(c, json_get(j, "names"), q->dim);
  if (keys && keys->kind == JSON_OBJECT) read_keys(c, keys, q);
  const Json *parameters = need(c, j, "parameters", JSON_OBJECT);
  QArray *arrays = NEW_ARRAY(&c->arena, QArray, parameters->count + 1);
  for (size_t k = 0; k < parameters->count; k++)
    arrays[k] = read_array(c, parameters->keys[k], parameters->items[k]);
  q->arrays = arrays;
  q->narrays = parameters->count;
  return q;
}

QFile *q_read(Ctx *c, const char *path) { return q_read_source(c, source_read(c, path, "file")); }

const QArray *q_array(const QFile *q, const char *name) {
  for (size_t k = 0; k < q->narrays; k++)
    if (strcmp(q->arrays[k].name, name) == 0) return &q->arrays[k];
  return NULL;
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
