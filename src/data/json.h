/* json.h: JSON in and out.
 *
 * Reading gives a tree of Json. A rectangular nest of numbers, however deep, is one node: its
 * values flat and row-major, its dimensions beside them, so that a file of a million numbers is a
 * few nodes. Stan's additions to JSON are understood: NaN, Inf, Infinity, -Inf, -Infinity, bare or
 * as strings. What is no JSON ends the work with PVI_DATA and the place.
 *
 * Writing goes to a Text through a JsonWriter, which puts the commas and the indentation.
 */
#ifndef PVI_JSON_H
#define PVI_JSON_H

#include "base/base.h"

enum {
  JSON_MAX_DIMS = 8,   /* of one rectangular nest of numbers */
  JSON_MAX_DEPTH = 64, /* of objects and arrays in each other */
};

typedef enum {
  JSON_NULL,
  JSON_FALSE,
  JSON_TRUE,
  JSON_STRING,
  JSON_NUMBERS,
  JSON_ARRAY,
  JSON_OBJECT
} JsonKind;

typedef struct Json {
  JsonKind kind;
  Loc loc;

  const char *text; /* STRING */

  int ndims; /* NUMBERS: 0 for a single one */
  long dims[JSON_MAX_DIMS];
  size_t n;
  double *values; /* row-major */
  bool is_int;    /* every one has no dot, no exponent and fits 32 bits */
  Loc real_at;    /* the first that does not */
  Loc nan_at;     /* the first that is NaN; without a source: none is */

  size_t count; /* ARRAY, OBJECT */
  struct Json **items;
  const char **keys; /* OBJECT: key of items[k] */
  Loc *key_locs;
  const char *uneven; /* ARRAY: why its items are no rectangle of numbers, when the first items
                         were; else NULL */
  Loc uneven_at;
} Json;

typedef enum {
  JSON_STAN,  /* "NaN" "Inf" "Infinity" "-Inf" "-Infinity" are numbers wherever they stand */
  JSON_PLAIN, /* "nan" "inf" "-inf" are numbers among numbers, as JsonWriter puts them */
} JsonStyle;

/* One value and nothing behind it; ctx_fail(PVI_DATA) with the place otherwise. */
Json *json_read(Ctx *c, const Source *source, JsonStyle style);
Json *json_read_file(Ctx *c, const char *path,
                     JsonStyle style); /* ctx_fail(PVI_DATA) too when it cannot be opened */

/* A file as a Source in the Ctx's arena; ctx_fail(PVI_DATA) saying why when it cannot be read.
 * `what` names it: "data file". */
const Source *source_read(Ctx *c, const char *path, const char *what);
Source *source_read_into(Arena *text, Ctx *c, const char *path,
                         const char *what); /* its text in another arena */

const Json *json_get(const Json *object, const char *key); /* NULL when absent or no object */
/* An item of a tuple, or an element of an array, as CmdStan names it: "p:1", "p.2:1". */
const Json *json_item(const Json *object, const char *name);
const char *json_kind_name(const Json *j); /* "an array of numbers", "null", ... */

/* All numbers below j in file order, also of uneven arrays and with "nan" "inf" "-inf"; NULL with
 * *bad set where one is not. */
double *json_flatten(Ctx *c, const Json *j, size_t *n, const Json **bad);

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct {
  Text *out;
  bool pretty; /* two spaces a level; arrays of numbers and strings stay on one line */
  int depth;
  bool flat[JSON_MAX_DEPTH]; /* the array at this depth stays on one line */
  bool some[JSON_MAX_DEPTH]; /* the container at this depth has an item */
  bool after_key;
} JsonWriter;

JsonWriter json_writer(Text *out, bool pretty);
void json_object(JsonWriter *w);
void json_object_end(JsonWriter *w);
void json_array(JsonWriter *w);
void json_flat_array(JsonWriter *w); /* on one line also when pretty */
void json_array_end(JsonWriter *w);
void json_key(JsonWriter *w, const char *key);
void json_string(JsonWriter *w, const char *s); /* NULL: null */
void json_number(JsonWriter *w, double x);      /* non-finite as "nan" "inf" "-inf" */
void json_integer(JsonWriter *w, long long k);
void json_unsigned(JsonWriter *w, unsigned long long k);
void json_bool(JsonWriter *w, bool b);
void json_null(JsonWriter *w);
void json_numbers(JsonWriter *w, const double *x, size_t n); /* a flat array */

#endif
