/* testing.h: what tests share.
 *
 *   TEST(name) { ... }   a test with a Ctx `c` of its own under a trap: a message that ends the
 *                        work fails the test
 *   Suite                tests that are rows of a table
 *   attempt              runs something that may stop, and says how it ended
 *   NEED_SHARED(path)    skips, visibly, where the folder of shared files (../shared, or
 *                        PVI_SHARED) lacks it
 *   assert_close         two numbers agree, relatively or absolutely
 * Tests run from the root of the repository. Lines that begin with "# skip" are shown by the
 * runner.
 */
#ifndef PVI_TESTING_H
#define PVI_TESTING_H

#include "base/base.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants the ones above before it */
#include <cmocka.h>

#define UNUSED __attribute__((unused))

/* ---- traps ----------------------------------------------------------------------------------- */

typedef void Action(Ctx *c, void *arg);

/* Runs the action under a trap in an initialized Ctx, which the caller frees. */
UNUSED static Status attempt(Ctx *c, Action *action, void *arg) {
  jmp_buf here, *outer = c->trap;
  Status status = PVI_OK;
  if (setjmp(here)) {
    status = c->status;
  } else {
    c->trap = &here;
    action(c, arg);
  }
  c->trap = outer;
  return status;
}

/* Runs body(c, row) in a Ctx of its own; being stopped is a failure. */
UNUSED static void run_body(Action *body, void *row) {
  Ctx c;
  ctx_init(&c);
  Status s = attempt(&c, body, row);
  if (s != PVI_OK) ctx_print(&c, stdout);
  ctx_free(&c);
  if (s != PVI_OK) fail_msg("stopped with status %d", (int)s);
}

#define TEST(name)                                                                                 \
  static void name##_body(Ctx *c, void *row);                                                      \
  static void name(void **state) { run_body(name##_body, *state); }                                \
  static void name##_body(UNUSED Ctx *c, UNUSED void *row)

/* Tests that are rows: one cmocka test each, named by the row. */
typedef struct {
  struct CMUnitTest items[512];
  size_t n;
} Suite;

UNUSED static void suite_add(Suite *s, const char *name, CMUnitTestFunction f, const void *row) {
  assert_true(s->n < sizeof s->items / sizeof *s->items);
  s->items[s->n++] =
      (struct CMUnitTest){.name = name, .test_func = f, .initial_state = (void *)row};
}

UNUSED static int suite_run(const char *name, const Suite *s) {
  return _cmocka_run_group_tests(name, s->items, s->n, NULL, NULL);
}

#define SUITE_ADD(s, function) suite_add((s), #function, (function), NULL)

/* The last message holds the fragment. */
UNUSED static void expect_message(const Ctx *c, const char *fragment) {
  const char *said = c->nmessages ? c->messages[c->nmessages - 1].text : "(nothing)";
  if (!strstr(said, fragment)) fail_msg("wanted a message with \"%s\", got \"%s\"", fragment, said);
}

/* ---- files ----------------------------------------------------------------------------------- */

UNUSED static const char *shared_path(Arena *a, const char *path) {
  const char *dir = getenv("PVI_SHARED");
  return arena_format(a, "%s/%s", dir && *dir ? dir : "../shared", path);
}

#define NEED_SHARED(c, path)                                                                       \
  if (access(shared_path(&(c)->arena, (path)), R_OK) != 0) {                                       \
    print_message("# skip: %s is absent\n", shared_path(&(c)->arena, (path)));                     \
    ctx_free(c);                                                                                   \
    skip();                                                                                        \
  }

UNUSED static char *read_file(Ctx *c, const char *path) {
  const char *why = NULL;
  size_t n;
  char *s = text_read_file(&c->arena, path, &n, &why);
  if (!s) fail_msg("%s: %s", path, why);
  return s;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* |a - b| relative to the larger of the two and 1; 0 for equal infinities and for two NaN. */
UNUSED static double distance(double a, double b) {
  if (a == b || (isnan(a) && isnan(b))) return 0;
  if (!isfinite(a) || !isfinite(b)) return INFINITY;
  return fabs(a - b) / fmax(1, fmax(fabs(a), fabs(b)));
}

#define assert_close(a, b, tolerance)                                                              \
  do {                                                                                             \
    double a_ = (a), b_ = (b);                                                                     \
    if (!(distance(a_, b_) <= (tolerance)))                                                        \
      fail_msg("%s = %.17g, %s = %.17g: they differ by %.2g", #a, a_, #b, b_, distance(a_, b_));   \
  } while (0)

/* The torture build fits with few draws: there a fit has to run, not to be near its optimum. */
#ifdef PVI_TORTURE
UNUSED static const bool accurate = false;
#else
UNUSED static const bool accurate = true;
#endif

/* Numbers that look random and are the same in every run. */
UNUSED static double uniform(uint64_t *state, double lo, double hi) {
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return lo + (hi - lo) * (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* d f / d x by central differences of fourth order, f given at x - 2h, x - h, x + h, x + 2h. */
UNUSED static double difference(const double f[4], double h) {
  return (8 * (f[2] - f[1]) - (f[3] - f[0])) / (12 * h);
}

#endif
