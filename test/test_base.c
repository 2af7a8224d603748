/* test_base.c: memory, text, maps, messages with carets, threads. */
#include "testing.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- arena ----------------------------------------------------------------------------------- */

TEST(memory_is_aligned_and_zero) {
  for (size_t n = 0; n < 700; n++) {
    unsigned char *p = arena_alloc(&c->arena, n);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % (n >= 64 ? 64 : 16), 0);
    for (size_t k = 0; k < n; k++) assert_int_equal(p[k], 0);
    memset(p, 0xAB, n); /* must not be seen by what comes later */
  }
}

TEST(memory_does_not_overlap) {
  enum { COUNT = 500 };
  unsigned char *at[COUNT];
  size_t size[COUNT];
  uint64_t seed = 1;
  for (int k = 0; k < COUNT; k++) {
    size[k] = (size_t)uniform(&seed, 0, 3000);
    at[k] = arena_alloc(&c->arena, size[k]);
    memset(at[k], k % 251, size[k]);
  }
  for (int k = 0; k < COUNT; k++)
    for (size_t j = 0; j < size[k]; j++) assert_int_equal(at[k][j], k % 251);
}

TEST(large_blocks) {
  double *p = NEW_ARRAY(&c->arena, double, 300000);
  p[299999] = 1;
  char *q = arena_alloc(&c->arena, 10);
  memset(q, 1, 10);
  assert_true(p[299999] == 1 && p[0] == 0);
}

/* What is not zeroed is one's own all the same, and what comes next is zero again. */
TEST(scratch_is_ones_own) {
  Arena a = arena_make(c);
  for (int turn = 0; turn < 3; turn++) {
    double *s = NEW_SCRATCH(&a, double, 100000), *z = NEW_ARRAY(&a, double, 100000);
    assert_int_equal((uintptr_t)s % 64, 0);
    for (int k = 0; k < 100000; k++) s[k] = k;
    for (int k = 0; k < 100000; k++) assert_true(z[k] == 0);
    for (int k = 0; k < 100000; k++) z[k] = -1;
    for (int k = 0; k < 100000; k++) assert_true(s[k] == k);
    arena_free(&a);
  }
}

TEST(reset_gives_memory_back) {
  Arena a = arena_make(c);
  char *kept = arena_text(&a, "kept", 4);
  ArenaMark m = arena_mark(&a);
  void *first = arena_alloc(&a, 16);
  memset(first, 0xFF, 16);
  for (int k = 0; k < 100; k++) arena_alloc(&a, 5000);
  arena_reset(&a, m);
  assert_string_equal(kept, "kept");
  unsigned char *again = arena_alloc(&a, 16);
  for (int k = 0; k < 16; k++) assert_int_equal(again[k], 0); /* used memory is zeroed again */
  arena_reset(&a, m);
  arena_reset(&a, m);
  arena_free(&a);
  assert_null(a.block);
  arena_free(&a);
}

/* Blocks are kept for the arenas that come next, of whichever thread. Each finds its own memory
 * zeroed, and nobody else's. */
static void *fill_arenas(void *wrong) {
  enum { ARENAS = 120, PIECES = 12 };
  Ctx own;
  ctx_init(&own);
  for (size_t k = 0; k < ARENAS; k++) {
    Arena a = arena_make(&own);
    unsigned char *at[PIECES], mine = (unsigned char)(1 + k);
    size_t size[PIECES];
    for (size_t i = 0; i < PIECES; i++) {
      size[i] = i % 4 ? 6000 : 250000 + 17000 * ((k + i) % 13); /* ordinary and mapped */
      at[i] = arena_alloc(&a, size[i]);
      for (size_t j = 0; j < size[i]; j++) *(bool *)wrong |= at[i][j];
      memset(at[i], mine, size[i]);
    }
    for (size_t i = 0; i < PIECES; i++)
      for (size_t j = 0; j < size[i]; j++) *(bool *)wrong |= at[i][j] != mine;
    arena_free(&a);
  }
  ctx_free(&own);
  return NULL;
}

TEST(kept_blocks_are_zero_and_ones_own) {
  enum { THREADS = 4 };
  pthread_t handle[THREADS];
  bool wrong[THREADS] = {false};
  for (int k = 0; k < THREADS; k++)
    assert_int_equal(pthread_create(&handle[k], NULL, fill_arenas, &wrong[k]), 0);
  for (int k = 0; k < THREADS; k++) {
    pthread_join(handle[k], NULL);
    assert_false(wrong[k]);
  }
}

TEST(growing) {
  int *items = NULL;
  size_t count = 0;
  size_t cap = 0;
  for (int k = 0; k < 10000; k++) PUSH(&c->arena, items, count, cap, k * 3);
  assert_true(count == 10000 && cap >= count);
  for (int k = 0; k < 10000; k++) assert_int_equal(items[k], k * 3);
}

static void allocate_much(Ctx *c, void *arg) {
  (void)arg;
  for (int k = 0; k < 1000; k++) arena_alloc(&c->arena, 100000);
}

static void allocate_too_much(Ctx *c, void *arg) {
  arena_array(&c->arena, SIZE_MAX / 4, *(size_t *)arg);
}
static void allocate_all(Ctx *c, void *arg) { arena_alloc(&c->arena, *(size_t *)arg); }

TEST(failing_allocations_jump) {
  for (long allowed = 0; allowed < 20; allowed++) {
    Ctx own;
    ctx_init(&own);
    own.alloc_left = allowed;
    assert_int_equal(attempt(&own, allocate_much, NULL), PVI_FAILURE);
    assert_int_equal(own.nerrors, 1);
    expect_message(&own, "out of memory");
    ctx_free(&own);
  }
  size_t size = 16, all = SIZE_MAX - 10;
  assert_int_equal(attempt(c, allocate_too_much, &size), PVI_FAILURE);
  expect_message(c, "out of memory");
  assert_int_equal(attempt(c, allocate_all, &all), PVI_FAILURE);
}

TEST(formatting) {
  assert_string_equal(arena_format(&c->arena, "%d-%s", 7, "x"), "7-x");
  assert_string_equal(arena_format(&c->arena, "%s", ""), "");
  char *long_one = arena_format(&c->arena, "%5000d", 1);
  assert_int_equal(strlen(long_one), 5000);
  assert_string_equal(arena_text(&c->arena, "abcdef", 3), "abc");
}

/* ---- text ------------------------------------------------------------------------------------ */

TEST(texts_grow) {
  Text t = text_make(&c->arena);
  for (int k = 0; k < 3000; k++) {
    text_printf(&t, "%d,", k % 10);
    text_puts(&t, "ab");
    text_add(&t, "cdX", 2);
  }
  assert_int_equal(t.n, 3000 * 6);
  assert_int_equal(strlen(t.s), t.n);
  assert_memory_equal(t.s + 6 * 1234, "4,abcd", 6);
}

TEST(nearest_words) {
  static const char *const names[] = {"normal", "lognormal", "poisson", "beta", "exponential"};
  static const struct {
    const char *word, *nearest;
  } rows[] = {
      {"norml", "normal"},  {"normall", "normal"},
      {"nromal", "normal"}, {"poison", "poisson"},
      {"bta", "beta"},      {"exponentail", "exponential"},
      {"normal", "normal"}, {"zzzzzz", NULL},
      {"cauchy", NULL},     {"", NULL},
      {"BETA", "beta"},     {"Normla", "normal"},
      {"b", NULL},          {"x", NULL},
  };
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    const char *n = text_nearest(rows[k].word, names, 5);
    if (!rows[k].nearest) {
      if (n) fail_msg("%s is near %s", rows[k].word, n);
    } else if (!n || strcmp(n, rows[k].nearest) != 0) {
      fail_msg("%s: %s, not %s", rows[k].word, n ? n : "nothing", rows[k].nearest);
    }
  }
  assert_null(text_nearest("x", NULL, 0));
  static const char *const letters[] = {"N", "x"}; /* another letter is another word */
  assert_string_equal(text_nearest("X", letters, 2), "x");
  assert_null(text_nearest("J", letters, 2));
  char *monster = arena_format(&c->arena, "%5000d", 1);
  assert_null(text_nearest(monster, names, 5));
}

TEST(files) {
  char path[] = "/tmp/pvi_test_XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  FILE *f = fdopen(fd, "w");
  for (int k = 0; k < 40000; k++) fputs("line\n", f);
  fclose(f);
  size_t n;
  const char *why = NULL;
  char *s = text_read_file(&c->arena, path, &n, &why);
  unlink(path);
  assert_non_null(s);
  assert_int_equal(n, 200000);
  assert_int_equal(strlen(s), n);
  assert_null(text_read_file(&c->arena, path, &n, &why));
  assert_non_null(why);
  assert_null(text_read_file(&c->arena, "/", &n, &why)); /* a folder */
  assert_non_null(why);
}

/* ---- map ------------------------------------------------------------------------------------- */

TEST(maps) {
  enum { COUNT = 5000 };
  Map m = map_make(&c->arena);
  assert_null(map_get(&m, "absent"));
  int values[COUNT];
  for (int k = 0; k < COUNT; k++) map_set(&m, arena_format(&c->arena, "name%d", k * 7), &values[k]);
  assert_int_equal(m.count, COUNT);
  for (int k = 0; k < COUNT; k++) {
    assert_ptr_equal(map_get(&m, arena_format(&c->arena, "name%d", k * 7)), &values[k]);
    assert_string_equal(m.items[k].key,
                        arena_format(&c->arena, "name%d", k * 7)); /* in order of insertion */
  }
  assert_null(map_get(&m, "name1"));
  map_set(&m, "name14", &values[0]); /* again: replaced, in its old place */
  assert_int_equal(m.count, COUNT);
  assert_ptr_equal(map_get(&m, "name14"), &values[0]);
  assert_string_equal(m.items[2].key, "name14");
  map_set(&m, "", &values[1]);
  assert_ptr_equal(map_get(&m, ""), &values[1]);
}

/* ---- messages -------------------------------------------------------------------------------- */

static const char *printed(Ctx *c) {
  char *s = NULL;
  size_t n;
  FILE *f = open_memstream(&s, &n);
  ctx_print(c, f);
  fclose(f);
  const char *copy = arena_text(&c->arena, s, n);
  free(s);
  return copy;
}

TEST(messages_with_carets) {
  static const char text[] = "data {\n  int N;\n\ty ~ norml(mu);\r\n  caf\xC3\xA9 = 1;\nlast";
  Source source = {.name = "m.stan", .text = text, .length = sizeof text - 1};
  ctx_error(c, (Loc){&source, 3, 6, 5}, "unknown distribution %s", "norml");
  ctx_warn(c, (Loc){&source, 4, 9, 0}, "odd");
  ctx_note(c, NOWHERE, "just so");
  ctx_error(c, (Loc){&source, 5, 3, 99}, "too long");
  assert_int_equal(c->nerrors, 2);
  assert_int_equal(c->nmessages, 4);
  assert_string_equal(printed(c), "m.stan:3:6: error: unknown distribution norml\n"
                                  "    3 | \ty ~ norml(mu);\n"
                                  "      | \t    ^~~~~\n"
                                  "m.stan:4:9: warning: odd\n"
                                  "    4 |   caf\xC3\xA9 = 1;\n"
                                  "      |        ^\n"
                                  "pvi: note: just so\n"
                                  "m.stan:5:3: error: too long\n"
                                  "    5 | last\n"
                                  "      |   ^~\n");
}

TEST(messages_of_included_files) {
  Source outer = {.name = "outer.stan", .text = "#include x\n", .length = 11};
  Source inner = {
      .name = "inner.stan", .text = "bad\n", .length = 4, .from = &outer, .from_line = 1};
  ctx_error(c, (Loc){&inner, 1, 1, 3}, "no");
  assert_string_equal(
      printed(c),
      "inner.stan:1:1: error: no\n    1 | bad\n      | ^~~\n      included from outer.stan:1\n");
}

TEST(places_beyond_the_end) {
  Source source = {.name = "m.stan", .text = "a\n", .length = 2},
         empty = {.name = "e", .text = "", .length = 0};
  ctx_error(c, (Loc){&source, 2, 1, 1}, "end");
  ctx_error(c, (Loc){&source, 99, 7, 1}, "far");
  ctx_error(c, (Loc){&empty, 1, 1, 1}, "nothing");
  ctx_error(c, (Loc){&empty, 0, 0, 0}, "no line");
  assert_non_null(strstr(printed(c), "e:1:1: error: nothing"));
}

static void fail_twice(Ctx *c, void *arg) {
  (void)arg;
  ctx_error(c, NOWHERE, "first");
  ctx_fail(c, PVI_DATA, NOWHERE, "second %d", 2);
}

TEST(failing_jumps_to_the_innermost_trap) {
  assert_int_equal(attempt(c, fail_twice, NULL), PVI_DATA);
  assert_int_equal(c->nerrors, 2);
  expect_message(c, "second 2");
  assert_int_equal(attempt(c, fail_twice, NULL), PVI_DATA); /* and again */
  assert_int_equal(c->nerrors, 4);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { PIECES = 1000 };
typedef struct {
  atomic_int times[PIECES];
  atomic_int bad_workers;
  int threads;
} Job;

static void take(void *arg, size_t k, int worker) {
  Job *j = arg;
  atomic_fetch_add(&j->times[k], 1);
  if (worker < 0 || worker >= j->threads) atomic_fetch_add(&j->bad_workers, 1);
}

TEST(every_piece_once) {
  static const int threads[] = {1, 2, 7};
  static const size_t counts[] = {0, 1, 2, 6, 7, 8, 999, PIECES};
  for (int t = 0; t < 3; t++) {
    Pool *p = pool_make(c, threads[t]);
    assert_int_equal(pool_threads(p), threads[t]);
    for (int round = 0; round < 50; round++)
      for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        Job *j = NEW(&c->arena, Job);
        j->threads = threads[t];
        pool_run(p, counts[n], take, j);
        for (size_t k = 0; k < PIECES; k++) assert_int_equal(j->times[k], k < counts[n]);
        assert_int_equal(j->bad_workers, 0);
      }
    pool_free(p);
  }
}

TEST(pools_without_work) {
  for (int k = 0; k < 20; k++) pool_free(pool_make(c, 1 + k % 7));
  Pool *p = pool_make(c, 0); /* one per core */
  assert_true(pool_threads(p) >= 1);
  pool_free(p);
  pool_free(NULL);
}

/* A jump out of the work leaves pools behind, whose threads wait in memory that is about to go. */
static void leave_pools(Ctx *c, UNUSED void *arg) {
  Pool *first = pool_make(c, 3), *second = pool_make(c, 7);
  pool_make(c, 2);
  Job *j = NEW(&c->arena, Job);
  j->threads = 7;
  pool_run(second, PIECES, take, j);
  pool_free(first); /* one of the middle of the list, in the usual way */
  ctx_fail(c, PVI_FAILURE, NOWHERE, "enough");
}

TEST(pools_left_open) {
  Ctx inner;
  for (int k = 0; k < 5; k++) {
    ctx_init(&inner);
    assert_int_equal(attempt(&inner, leave_pools, NULL), PVI_FAILURE);
    if (k % 2) ctx_close(&inner);
    ctx_free(&inner);
    assert_null(inner.open);
  }
}

TEST(clock_does_not_go_back) {
  double t = base_seconds();
  for (int k = 0; k < 1000; k++) {
    double u = base_seconds();
    assert_true(u >= t);
    t = u;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_is_aligned_and_zero),
      cmocka_unit_test(memory_does_not_overlap),
      cmocka_unit_test(large_blocks),
      cmocka_unit_test(scratch_is_ones_own),
      cmocka_unit_test(reset_gives_memory_back),
      cmocka_unit_test(kept_blocks_are_zero_and_ones_own),
      cmocka_unit_test(growing),
      cmocka_unit_test(failing_allocations_jump),
      cmocka_unit_test(formatting),
      cmocka_unit_test(texts_grow),
      cmocka_unit_test(nearest_words),
      cmocka_unit_test(files),
      cmocka_unit_test(maps),
      cmocka_unit_test(messages_with_carets),
      cmocka_unit_test(messages_of_included_files),
      cmocka_unit_test(places_beyond_the_end),
      cmocka_unit_test(failing_jumps_to_the_innermost_trap),
      cmocka_unit_test(every_piece_once),
      cmocka_unit_test(pools_without_work),
      cmocka_unit_test(pools_left_open),
      cmocka_unit_test(clock_does_not_go_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
