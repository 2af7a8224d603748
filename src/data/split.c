/* split.c: which rows train, which validate, which test. */
#include "data/data.h"

#include <string.h>

const char *const part_names[PART_COUNT] = {"train", "valid", "test"};

static Split *new_split(Ctx *c, size_t n) {
  Split *s = NEW(&c->arena, Split);
  s->n = n;
  for (int k = 0; k < PART_COUNT; k++) s->rows[k] = NEW_ARRAY(&c->arena, size_t, 1);
  return s;
}

/* ---- from a file ----------------------------------------------------------------------------- */

static int part_named(const char *name) {
  for (int k = 0; k < PART_COUNT; k++)
    if (strcmp(name, part_names[k]) == 0) return k;
  return -1;
}

/* owner[row]: 1 + the part that has it. */
static void add_rows(Ctx *c, Split *s, int part, const Json *j, uint8_t *owner) {
  const char *name = part_names[part];
  if (j->kind != JSON_NUMBERS || j->ndims != 1 || !j->is_int)
    ctx_fail(c, PVI_DATA, j->kind == JSON_NUMBERS && !j->is_int ? j->real_at : j->loc,
             "'%s' is a flat array of row numbers, counted from 1", name);
  size_t *rows = NEW_ARRAY(&c->arena, size_t, j->n ? j->n : 1);
  for (size_t k = 0; k < j->n; k++) {
    double x = j->values[k];
    if (!(x >= 1 && x <= (double)s->n))
      ctx_fail(
          c, PVI_DATA, j->loc,
          "'%s' has the row %.0f (its element %zu), but there are %zu observations, counted from 1",
          name, x, k + 1, s->n);
    size_t row = (size_t)x - 1;
    if (owner[row] == part + 1)
      ctx_fail(c, PVI_DATA, j->loc, "'%s' has the row %.0f twice", name, x);
    if (owner[row])
      ctx_fail(c, PVI_DATA, j->loc, "the row %.0f is both in '%s' and in '%s'", x,
               part_names[owner[row] - 1], name);
    owner[row] = (uint8_t)(part + 1);
    rows[k] = row;
  }
  s->rows[part] = rows;
  s->count[part] = j->n;
}

static void check_n(Ctx *c, const Json *j, size_t n) {
  if (j->kind == JSON_NUMBERS && j->ndims == 0 && j->values[0] != (double)n)
    ctx_fail(c, PVI_DATA, j->loc, "this split is for %.0f observations, but the model has %zu",
             j->values[0], n);
}

static Split *split_from(Ctx *c, const Source *source, size_t n) {
  const Json *j = json_read(c, source, JSON_STAN);
  if (j->kind != JSON_OBJECT)
    ctx_fail(c, PVI_DATA, j->loc,
             "a split file is one object {\"train\": [rows], \"valid\": [rows], \"test\": [rows]}");
  Split *s = new_split(c, n);
  uint8_t *owner = NEW_ARRAY(&c->arena, uint8_t, n + 1);
  if (json_get(j, "n")) check_n(c, json_get(j, "n"), n);
  for (size_t k = 0; k < j->count; k++) {
    int part = part_named(j->keys[k]);
    const Json *item = j->items[k];
    bool list = item->kind == JSON_ARRAY || (item->kind == JSON_NUMBERS && item->ndims > 0);
    if (part >= 0) {
      add_rows(c, s, part, item, owner);
    } else if (list) {
      ctx_fail(c, PVI_DATA, j->key_locs[k],
               "'%s' is not a part of a split; the parts are train, valid and test", j->keys[k]);
    }
  }
  return s;
}

Split *split_read(Ctx *c, const char *path, size_t n) {
  return split_from(c, source_read(c, path, "split file"), n);
}

Split *split_read_text(Ctx *c, const char *name, const char *text, size_t n) {
  Source *source = NEW(&c->arena, Source);
  *source = (Source){.name = name, .text = text, .length = strlen(text)};
  return split_from(c, source, n);
}

/* ---- at random ------------------------------------------------------------------------------- */

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = (*state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/* Uniform on [0, n), without bias: what lies above the last whole multiple of n is drawn again. */
static size_t random_below(uint64_t *state, size_t n) {
  uint64_t limit = UINT64_MAX - UINT64_MAX % n, x;
  do x = next_random(state);
  while (x >= limit);
  return (size_t)(x % n);
}

/* Fisher and Yates. */
static size_t *permutation(Ctx *c, size_t n, uint64_t seed) {
  size_t *p = NEW_ARRAY(&c->arena, size_t, n ? n : 1);
  uint64_t state = seed;
  for (size_t k = 0; k < n; k++) p[k] = k;
  for (size_t k = n; k > 1; k--) {
    size_t j = random_below(&state, k), t = p[k - 1];
    p[k - 1] = p[j];
    p[j] = t;
  }
  return p;
}

/* Rows [from, to) of a permutation test, the others train; both in increasing order. */
static Split *split_range(Ctx *c, size_t n, const size_t *order, size_t from, size_t to) {
  Split *s = new_split(c, n);
  uint8_t *tests = NEW_ARRAY(&c->arena, uint8_t, n + 1);
  for (size_t k = from; k < to; k++) tests[order[k]] = 1;
  s->rows[PART_TRAIN] = NEW_ARRAY(&c->arena, size_t, n + 1);
  s->rows[PART_TEST] = NEW_ARRAY(&c->arena, size_t, to - from + 1);
  for (size_t row = 0; row < n; row++) {
    Part part = tests[row] ? PART_TEST : PART_TRAIN;
    s->rows[part][s->count[part]++] = row;
  }
  return s;
}

Split *split_all(Ctx *c, size_t n) { return split_range(c, n, NULL, 0, 0); }

Split *split_holdout(Ctx *c, size_t n, double fraction, uint64_t seed) {
  if (!(fraction >= 0 && fraction < 1))
    ctx_fail(c, PVI_USAGE, NOWHERE, "the fraction to hold out must be in [0, 1), not %g", fraction);
  size_t ntest = (size_t)((double)n * fraction + 0.5);
  if (n > 0 && ntest >= n) ntest = n - 1;
  return split_range(c, n, permutation(c, n, seed), 0, ntest);
}

Split *split_fold(Ctx *c, size_t n, size_t folds, size_t k, uint64_t seed) {
  if (folds < 2 || folds > n)
    ctx_fail(c, PVI_USAGE, NOWHERE,
             "the number of folds must be between 2 and the %zu observations, not %zu", n, folds);
  if (k >= folds) ctx_fail(c, PVI_USAGE, NOWHERE, "there is no fold %zu of %zu", k + 1, folds);
  return split_range(c, n, permutation(c, n, seed), n * k / folds, n * (k + 1) / folds);
}
