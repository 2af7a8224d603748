/* netcdf.c: the groups of a DataTree as files in the classic format of netCDF with 64-bit offsets
 * (data_tree.h), which any reader of netCDF opens without libraries for HDF5.
 *
 * A file is a header and the arrays behind it, all numbers big endian:
 *     "CDF\2" records  dimensions  attributes  variables
 * where a list is its tag, its length and its items (or two zeros where it is empty), a name is its
 * length and its letters, padded to four bytes, and a variable ends with the place of its values.
 */
#include "report/data_tree.h"

#include <string.h>

enum { DIMENSION = 10, VARIABLE = 11, ATTRIBUTE = 12, CHAR = 2, INT = 4, DOUBLE = 6 };
static const double MOST_BYTES = 4294967292.0; /* of an array: its size is a number of 32 bits */

static void put_word(Text *t, uint64_t x, int bytes) {
  for (int k = bytes; k-- > 0;) text_add(t, (char[]){(char)(x >> (8 * k))}, 1);
}

static void put_name(Text *t, const char *name) {
  size_t n = strlen(name);
  put_word(t, n, 4);
  text_add(t, name, n);
  text_add(t, "\0\0\0", (4 - n % 4) % 4);
}

static void put_list(Text *t, int tag, size_t n) {
  put_word(t, n ? (uint64_t)tag : 0, 4);
  put_word(t, n, 4);
}

/* ---- the header ------------------------------------------------------------------------------ */

/* The dimensions of all arrays of a group, each once. */
typedef struct {
  const char **names;
  size_t *lengths, n;
} Dimensions;

static size_t dimension(const Dimensions *d, const char *name) {
  size_t k = 0;
  while (k < d->n && strcmp(d->names[k], name) != 0) k++;
  return k;
}

static Dimensions dimensions_of(Arena *a, const TreeGroup *g) {
  size_t most = 0;
  for (size_t k = 0; k < g->n; k++) most += g->arrays[k].ndims;
  Dimensions d = {NEW_ARRAY(a, const char *, most + 1), NEW_ARRAY(a, size_t, most + 1), 0};
  for (size_t k = 0; k < g->n; k++)
    for (size_t j = 0; j < g->arrays[k].ndims; j++)
      if (dimension(&d, g->arrays[k].dims[j]) == d.n) {
        d.names[d.n] = g->arrays[k].dims[j];
        d.lengths[d.n++] = g->arrays[k].shape[j];
      }
  return d;
}

static size_t bytes_of(const TreeArray *a) { return tree_count(a) * (a->whole ? 4 : 8); }

/* `at` is where the values of the first array begin. */
static Text header(Arena *a, const DataTree *tree, const TreeGroup *g, size_t at) {
  Dimensions d = dimensions_of(a, g);
  Text t = text_make(a);
  text_add(&t, "CDF\2\0\0\0\0", 8);
  put_list(&t, DIMENSION, d.n);
  for (size_t k = 0; k < d.n; k++) {
    put_name(&t, d.names[k]);
    put_word(&t, d.lengths[k], 4);
  }
  put_list(&t, ATTRIBUTE, tree->nkeys);
  for (size_t k = 0; k < tree->nkeys; k++) {
    put_name(&t, tree->keys[k].key);
    put_word(&t, CHAR, 4);
    put_name(&t, tree->keys[k].value);
  }
  put_list(&t, VARIABLE, g->n);
  for (size_t k = 0; k < g->n; k++) {
    const TreeArray *x = &g->arrays[k];
    put_name(&t, x->name);
    put_word(&t, x->ndims, 4);
    for (size_t j = 0; j < x->ndims; j++) put_word(&t, dimension(&d, x->dims[j]), 4);
    put_list(&t, ATTRIBUTE, 0);
    put_word(&t, x->whole ? INT : DOUBLE, 4);
    put_word(&t, bytes_of(x), 4);
    put_word(&t, at, 8);
    at += bytes_of(x);
  }
  return t;
}

/* ---- the file -------------------------------------------------------------------------------- */

static void put_values(OutFile *f, const TreeArray *a) {
  for (size_t k = 0, n = tree_count(a); k < n; k++) {
    uint64_t bits;
    char bytes[8];
    int size = a->whole ? 4 : 8;
    memcpy(&bits, &a->values[k], sizeof bits);
    if (a->whole) bits = (uint64_t)(int64_t)a->values[k];
    for (int j = 0; j < size; j++) bytes[j] = (char)(bits >> (8 * (size - 1 - j)));
    file_put(f, bytes, (size_t)size);
  }
}

static void write_group(Ctx *c, const RunDir *dir, const DataTree *tree, const TreeGroup *g) {
  TempArena *temp = temp_open(c);
  for (size_t k = 0; k < g->n; k++)
    if ((double)bytes_of(&g->arrays[k]) > MOST_BYTES)
      ctx_fail(c, PVI_USAGE, NOWHERE,
               "%s is too large for netCDF's classic format: use " OPTION("to") " zarr",
               g->arrays[k].name);
  size_t length = header(&temp->arena, tree, g, 0).n;
  Text t = header(&temp->arena, tree, g, length);
  OutFile *f = file_begin(c, run_path(dir, arena_format(&c->arena, "%s.nc", g->name)));
  file_put(f, t.s, t.n);
  for (size_t k = 0; k < g->n; k++) put_values(f, &g->arrays[k]);
  file_commit(f);
  temp_close(temp);
}

void netcdf_write(Ctx *c, const DataTree *t, const char *path) {
  const RunDir *dir = run_open(c, path);
  for (size_t g = 0; g < t->n; g++) write_group(c, dir, t, &t->groups[g]);
}
