/* zarr.c: a DataTree as a Zarr store, version 2 (data_tree.h): folders are groups and arrays,
 * .zgroup, .zarray and .zattrs say what they are, and an array is one chunk of bytes, little
 * endian. All that is said is also in .zmetadata, so that readers open one file. */
#include "data/json.h"
#include "report/data_tree.h"

#include <string.h>

typedef struct {
  Ctx *c;
  const char *path;
  Text all; /* .zmetadata: key and text of every other file */
  size_t n;
} Store;

/* A file of metadata, and its copy in .zmetadata. place: "" or "group/" or "group/array/" */
static void put_metadata(Store *s, const char *place, const char *name, const Text *t) {
  RunDir *dir = run_open(s->c, arena_format(&s->c->arena, "%s/%s", s->path, place));
  run_write(dir, name, t);
  text_printf(&s->all, "%s\"%s%s\": ", s->n++ ? ", " : "", place, name);
  text_add(&s->all, t->s, t->n);
}

static void put_group(Store *s, const char *place, const DataTree *keys) {
  Text t = text_make(&s->c->arena), attributes = text_make(&s->c->arena);
  text_puts(&t, "{\"zarr_format\": 2}");
  put_metadata(s, place, ".zgroup", &t);
  JsonWriter w = json_writer(&attributes, false);
  json_object(&w);
  for (size_t k = 0; keys && k < keys->nkeys; k++) {
    json_key(&w, keys->keys[k].key);
    json_string(&w, keys->keys[k].value);
  }
  json_object_end(&w);
  put_metadata(s, place, ".zattrs", &attributes);
}

static void put_shape(JsonWriter *w, const char *key, const TreeArray *a, size_t least) {
  json_key(w, key);
  json_flat_array(w);
  for (size_t d = 0; d < a->ndims; d++) json_unsigned(w, a->shape[d] > least ? a->shape[d] : least);
  json_array_end(w);
}

static void describe_array(Store *s, const char *place, const TreeArray *a) {
  Text t = text_make(&s->c->arena), attributes = text_make(&s->c->arena);
  JsonWriter w = json_writer(&t, false);
  json_object(&w);
  put_shape(&w, "chunks", a, 1);
  json_key(&w, "compressor");
  json_null(&w);
  json_key(&w, "dtype");
  json_string(&w, a->whole ? "<i8" : "<f8");
  json_key(&w, "fill_value");
  json_null(&w);
  json_key(&w, "filters");
  json_null(&w);
  json_key(&w, "order");
  json_string(&w, "C");
  put_shape(&w, "shape", a, 0);
  json_key(&w, "zarr_format");
  json_integer(&w, 2);
  json_object_end(&w);
  put_metadata(s, place, ".zarray", &t);
  w = json_writer(&attributes, false);
  json_object(&w);
  json_key(&w, "_ARRAY_DIMENSIONS");
  json_flat_array(&w);
  for (size_t d = 0; d < a->ndims; d++) json_string(&w, a->dims[d]);
  json_array_end(&w);
  json_object_end(&w);
  put_metadata(s, place, ".zattrs", &attributes);
}

static void put_bytes(OutFile *f, uint64_t bits) {
  char bytes[8];
  for (int k = 0; k < 8; k++) bytes[k] = (char)(bits >> (8 * k));
  file_put(f, bytes, 8);
}

/* The chunk is called by its place among the chunks: 0.0.0, or 0 of a single number. */
static void put_chunk(Store *s, const char *place, const TreeArray *a) {
  Text name = text_make(&s->c->arena);
  text_printf(&name, "%s/%s0", s->path, place);
  for (size_t d = 1; d < a->ndims; d++) text_puts(&name, ".0");
  OutFile *f = file_begin(s->c, name.s);
  for (size_t k = 0, n = tree_count(a); k < n; k++) {
    uint64_t bits;
    memcpy(&bits, &a->values[k], sizeof bits);
    put_bytes(f, a->whole ? (uint64_t)(int64_t)a->values[k] : bits);
  }
  file_commit(f);
}

void zarr_write(Ctx *c, const DataTree *t, const char *path) {
  Store s = {.c = c, .path = path, .all = text_make(&c->arena)};
  put_group(&s, "", t);
  for (size_t g = 0; g < t->n; g++) {
    const TreeGroup *group = &t->groups[g];
    put_group(&s, arena_format(&c->arena, "%s/", group->name), t);
    for (size_t k = 0; k < group->n; k++) {
      const TreeArray *a = &group->arrays[k];
      const char *place = arena_format(&c->arena, "%s/%s/", group->name, a->name);
      describe_array(&s, place, a);
      if (tree_count(a)) put_chunk(&s, place, a);
    }
  }
  Text whole = text_make(&c->arena);
  text_puts(&whole, "{\"zarr_consolidated_format\": 1, \"metadata\": {");
  text_add(&whole, s.all.s, s.all.n);
  text_puts(&whole, "}}\n");
  run_write(run_open(c, path), ".zmetadata", &whole);
}
