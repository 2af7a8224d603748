/* test_data.c: reading of JSON and CSV, binding to declarations, checks, splits. Most tests are
 * rows: a text and what must come of it. */
#include "data/data_int.h"
#include "data/number.h"

#include <dirent.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants these before it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* ---- one attempt: run something inside a trap, keep its messages ----------------------------- */

typedef void Action(Ctx *c, const void *arg);

static Status attempt(Ctx *c, Action *action, const void *arg) {
  jmp_buf trap;
  ctx_init(c);
  c->trap = &trap;
  if (setjmp(trap)) return c->status;
  action(c, arg);
  return c->nerrors ? PVI_DATA : PVI_OK;
}

static void show(const Ctx *c) { ctx_print(c, stderr); }

/* The first message holds `fragment` and stands at line:column (0:0: nowhere, or do not care). */
static void expect_message(const Ctx *c, const char *text, const char *fragment, unsigned line,
                           unsigned column) {
  bool ok = c->nmessages > 0 && strstr(c->messages[0].text, fragment) &&
            (!line || (c->messages[0].loc.line == line && c->messages[0].loc.column == column));
  if (ok) return;
  print_message("text: %s\nwanted %u:%u: %s\n", text, line, column, fragment);
  if (c->nmessages)
    print_message("got    %u:%u: %s\n", c->messages[0].loc.line, c->messages[0].loc.column,
                  c->messages[0].text);
  fail();
}

static void read_as_json(Ctx *c, const void *text) { data_read_text(c, "test.json", text, NULL); }
static void read_as_csv(Ctx *c, const void *text) { data_read_text(c, "test.csv", text, NULL); }
static void read_as_dump(Ctx *c, const void *text) { data_read_text(c, "test.R", text, NULL); }

/* ---- JSON that is wrong ---------------------------------------------------------------------- */

typedef struct {
  const char *text, *message;
  unsigned line, column;
} BadRow;

static const BadRow bad_json[] = {
    /* no JSON */
    {"", "expected a value, found the end of the file", 1, 1},
    {"  \n ", "expected a value, found the end of the file", 2, 2},
    {"[1,2]", "one object {\"name\": value, ...}; this one is an array of numbers", 1, 1},
    {"3", "this one is a number", 1, 1},
    {"{", "expected a name in double quotes, found the end of the file", 1, 2},
    {"{x:1}", "expected a name in double quotes, found 'x'", 1, 2},
    {"{\"x\" 1}", "in 'x': expected ':' after a name, found '1'", 1, 6},
    {"{\"x\":1", "in 'x': expected ',' or '}' after a value, found the end of the file", 1, 7},
    {"{\"x\":1,}", "expected a name in double quotes, found '}'", 1, 8},
    {"{\"x\":[1,2", "in 'x': expected ',' or ']' after an array element, found the end of the file",
     1, 10},
    {"{\"x\":[1,2,]}", "in 'x': expected a value, found ']'", 1, 11},
    {"{\"x\":[1 2]}", "expected ',' or ']' after an array element, found '2'", 1, 9},
    {"{\"x\":\n [1,\n  2 : 3]}", "found ':'", 3, 5},
    {"{\"x\":1} tail", "expected nothing more after the value, found 'tail'", 1, 9},
    {"{\"x\":1}}", "expected nothing more after the value, found '}'", 1, 8},
    {"{\"x\":1,\"y\":2,\n\"x\":3}",
     "the name 'x' is given twice; it was given before at line 1, column 2", 2, 1},
    {"{\"x", "this string is never closed", 1, 2},
    {"{\"x\n\":1}", "a control character inside a string", 1, 4},
    {"{\"\\q\":1}", "expected one of \" \\ / b f n r t u after \\, found 'q'", 1, 4},
    {"{\"\\u12G4\":1}", "\\u needs four hexadecimal digits", 1, 7},
    {"{\"\\ud800x\":1}", "surrogate", 0, 0},
    {"{\"\\u0000\":1}", "\\u0000 is not allowed", 0, 0},
    {"{\"x\":1.5.2}", "in 'x': '1.5.2' is not a number", 1, 6},
    /* numbers that JSON does not know */
    {"{\"x\":01}", "'01' is not a number", 1, 6},
    {"{\"x\":.5}", "'.5' is not a number", 1, 6},
    {"{\"x\":5.}", "'5.' is not a number", 1, 6},
    {"{\"x\":+5}", "'+5' is not a number", 1, 6},
    {"{\"x\":1e}", "'1e' is not a number", 1, 6},
    {"{\"x\":-}", "'-' is not a number", 1, 6},
    {"{\"x\":0x10}", "'0x10' is not a number", 1, 6},
    {"{\"x\":Nan}", "'Nan' is not a number", 1, 6},
    {"{\"x\":[1,NaNs]}", "'NaNs' is not a number", 1, 9},
    {"{\"x\":nan}", "in 'x': expected a value, found 'nan'", 1, 6},
    {"{\"x\":1e999}", "number too large for double precision", 1, 6},
    /* JSON, but no data */
    {"{\"N\":3,\"x\":null}", "x is missing; Stan has no missing values", 1, 12},
    {"{\"x\":[1,null,2]}", "x[2] is missing; Stan has no missing values", 1, 9},
    {"{\"x\":[1,null,2,\"NA\"]}", "x[2] is missing (and 1 more)", 1, 9},
    {"{\"x\":[[1,2],[null,2]]}", "x is missing; Stan has no missing values", 1, 14},
    {"{\"x\":true}", "'x' has true; data are numbers: write 1 for true and 0 for false", 1, 6},
    {"{\"x\":[0,false]}", "'x' has false", 1, 9},
    {"{\"x\":\"abc\"}", "'x' has the string \"abc\"; data are numbers", 1, 6},
    {"{\"x\":[1,\"NA\"]}", "x[2] is missing", 1, 9},
    {"{\"x\":[\"NA\",1]}", "x[1] is missing", 1, 7},
    {"{\"x\":\"nan\"}", "'x' has the string \"nan\"", 1, 6},
    {"{\"x\":[[1,2],[3]]}",
     "'x' is a ragged array: element 2 is an array of 1 element but those before are arrays of 2 "
     "elements",
     1, 13},
    {"{\"x\":[[1,2],\n[3,4],\n[5,6,7]]}", "element 3 is an array of 3 elements", 3, 1},
    {"{\"x\":[1,[2]]}", "element 2 is an array of 1 element but those before are numbers", 1, 9},
    {"{\"x\":[[1],2]}", "element 2 is a number but those before are arrays of 1 element", 1, 11},
    {"{\"x\":[[[1,2],[3,4]],[[1,2]]]}",
     "element 2 is an array of 1 x 2 elements but those before are arrays of 2 x 2 elements", 1,
     21},
    {"{\"x\":[[],[1]]}", "ragged", 1, 10},
    {"{\"x\":{\"a\":1}}", "'x' has an object that is not a tuple", 1, 6},
    {"{\"x\":{}}", "'x' has an object that is not a tuple", 1, 6},
    {"{\"x\":{\"1\":3,\"2\":\"b\"}}", "'x.2' has the string \"b\"", 0, 0},
    {"{\"x\":[{\"1\":3},{\"2\":4}]}", "item 1 is missing or of another shape", 0, 0},
    {"{\"x\":[{\"1\":[3]},{\"1\":[4,5]}]}", "item 1 is missing or of another shape", 0, 0},
    {"{\"x\":[[[[[[[[[1]]]]]]]]]}", "more than 8 dimensions", 1, 6},
};

static void check_bad(const BadRow *row, Action *action) {
  Ctx c;
  Status s = attempt(&c, action, row->text);
  expect_message(&c, row->text, row->message, row->line, row->column);
  assert_int_equal(s, PVI_DATA);
  ctx_free(&c);
}

static void test_bad_json(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof bad_json / sizeof *bad_json; k++)
    check_bad(&bad_json[k], read_as_json);
}

static void test_several_errors(void **state) {
  (void)state;
  Ctx c;
  assert_int_equal(attempt(&c, read_as_json, "{\"a\":null,\"b\":true,\"c\":1,\"d\":[[1],[]]}"),
                   PVI_DATA);
  assert_int_equal(c.nerrors, 3);
  ctx_free(&c);
}

static void test_deep_nesting(void **state) {
  (void)state;
  enum { DEEP = 200000 };
  char *text = malloc(DEEP + 8);
  memcpy(text, "{\"x\":", 5);
  memset(text + 5, '[', DEEP);
  text[DEEP + 5] = 0;
  BadRow row = {text, "nested deeper than 64", 1, 69};
  check_bad(&row, read_as_json);
  free(text);
}

/* ---- JSON that is right ---------------------------------------------------------------------- */

typedef struct {
  const char *text, *name;
  int ndims;
  long dims[4];
  bool is_int;
  size_t n;
  double values[8];
} GoodRow;

static const GoodRow good_json[] = {
    {"{\"x\":3}", "x", 0, {0}, true, 1, {3}},
    {"\xEF\xBB\xBF{\"x\":3}", "x", 0, {0}, true, 1, {3}},
    {"{\"x\":-2147483648}", "x", 0, {0}, true, 1, {-2147483648.0}},
    {"{\"x\":2147483647}", "x", 0, {0}, true, 1, {2147483647.0}},
    {"{\"x\":2147483648}", "x", 0, {0}, false, 1, {2147483648.0}},
    {"{\"x\":-2147483649}", "x", 0, {0}, false, 1, {-2147483649.0}},
    {"{\"x\":123456789012345678901234567890}",
     "x",
     0,
     {0},
     false,
     1,
     {123456789012345678901234567890.0}},
    {"{\"x\":1.0}", "x", 0, {0}, false, 1, {1}},
    {"{\"x\":1e0}", "x", 0, {0}, false, 1, {1}},
    {"{\"x\":-0}", "x", 0, {0}, true, 1, {0}},
    {"{\"x\":[]}", "x", 1, {0}, true, 0, {0}},
    {"{\"x\":[ ]}", "x", 1, {0}, true, 0, {0}},
    {"{\"x\":[[],[],[]]}", "x", 2, {3, 0}, true, 0, {0}},
    {"{\"x\":[1,2,3]}", "x", 1, {3}, true, 3, {1, 2, 3}},
    {"{\"x\":[1,2.5,3]}", "x", 1, {3}, false, 3, {1, 2.5, 3}},
    {"{\"x\":[[1,2,3],[4,5,6]]}", "x", 2, {2, 3}, true, 6, {1, 2, 3, 4, 5, 6}},
    {"{\"x\":[[[1],[2]],[[3],[4]]]}", "x", 3, {2, 2, 1}, true, 4, {1, 2, 3, 4}},
    {"{\"x\":[[1,2],[3,4.0]]}", "x", 2, {2, 2}, false, 4, {1, 2, 3, 4}},
    {"{\"y\":[1,2],\"x\":[7,8]}", "x", 1, {2}, true, 2, {7, 8}},
    {"{\"x\":[NaN,Inf,Infinity,-Inf,-Infinity]}",
     "x",
     1,
     {5},
     false,
     5,
     {NAN, INFINITY, INFINITY, -INFINITY, -INFINITY}},
    {"{\"x\":[\"NaN\",\"Inf\",\"Infinity\",\"-Inf\",\"-Infinity\"]}",
     "x",
     1,
     {5},
     false,
     5,
     {NAN, INFINITY, INFINITY, -INFINITY, -INFINITY}},
    {"{\"x\":[1,\"NaN\",3]}", "x", 1, {3}, false, 3, {1, NAN, 3}},
    {"{\"x\":[[1,2],[\"-Inf\",4]]}", "x", 2, {2, 2}, false, 4, {1, 2, -INFINITY, 4}},
    {"{\"x\":\"Inf\"}", "x", 0, {0}, false, 1, {INFINITY}},
    {"{\"\\u0078\":5}", "x", 0, {0}, true, 1, {5}},
    {"{\"caf\\u00e9\":5}", "caf\xC3\xA9", 0, {0}, true, 1, {5}},
    {"{\"\\ud83d\\ude00\":5}", "\xF0\x9F\x98\x80", 0, {0}, true, 1, {5}},
    {"{\"x\":{\"1\":5,\"2\":[1.5,2]}}", "x.1", 0, {0}, true, 1, {5}},
    {"{\"x\":{\"1\":5,\"2\":[1.5,2]}}", "x.2", 1, {2}, false, 2, {1.5, 2}},
    {"{\"x\":{\"1\":5,\"2\":{\"1\":7}}}", "x.2.1", 0, {0}, true, 1, {7}},
    {"{\"x\":[{\"1\":5,\"2\":[1,2]},{\"1\":6,\"2\":[3,4]}]}", "x.1", 1, {2}, true, 2, {5, 6}},
    {"{\"x\":[{\"1\":5,\"2\":[1,2]},{\"1\":6,\"2\":[3,4]}]}",
     "x.2",
     2,
     {2, 2},
     true,
     4,
     {1, 2, 3, 4}},
    {"{\"x\":[[{\"1\":5},{\"1\":6}],[{\"1\":7},{\"1\":8}]]}",
     "x.1",
     2,
     {2, 2},
     true,
     4,
     {5, 6, 7, 8}},
    {"{\"x\":[[{\"1\":{\"1\":[5]}},{\"1\":{\"1\":[6]}}],[{\"1\":{\"1\":[7]}},{\"1\":{\"1\":[8]}}]]"
     "}",
     "x.1.1",
     3,
     {2, 2, 1},
     true,
     4,
     {5, 6, 7, 8}},
};

static bool same_double(double a, double b) {
  return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void check_good(const GoodRow *row, const char *file) {
  Ctx c;
  jmp_buf trap;
  ctx_init(&c);
  c.trap = &trap;
  if (setjmp(trap)) {
    print_message("text: %s\n", row->text);
    show(&c);
    fail();
  }
  const DataOptions wanted = {.declared = &row->name, .ndeclared = 1};
  const Data *d = data_read_text(&c, file, row->text, &wanted);
  const DataVar *v = data_find(d, row->name);
  if (!v || v->n != row->n || v->ndims != row->ndims || v->is_int != row->is_int)
    fail_msg("wrong shape or kind: %s", row->text);
  for (int k = 0; k < row->ndims; k++) assert_int_equal(v->dims[k], row->dims[k]);
  for (size_t k = 0; k < row->n; k++)
    if (!same_double(v->values[k], row->values[k])) fail_msg("value %zu of %s", k, row->text);
  ctx_free(&c);
}

static void test_good_json(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof good_json / sizeof *good_json; k++)
    check_good(&good_json[k], "test.json");
}

/* What R's dump() writes: its first index is the fastest. */
static const GoodRow good_dump[] = {
    {"N <- 3L\n", "N", 0, {0}, true, 1, {3}},
    {"# a comment\n`x` <-\n-1.5e2\n", "x", 0, {0}, false, 1, {-150}},
    {"\"y\" <-\nc(1, 2.5, NaN, -Inf)", "y", 1, {4}, false, 4, {1, 2.5, NAN, -INFINITY}},
    {"a <- 1\nb <- 2:4\nd <- 3:1", "b", 1, {3}, true, 3, {2, 3, 4}},
    {"a <- 1; d <- c(3:1, 9L)", "d", 1, {4}, true, 4, {3, 2, 1, 9}},
    {"e <- integer(0)", "e", 1, {0}, true, 0, {0}},
    {"z <- double(2)", "z", 1, {2}, true, 2, {0, 0}},
    {"t <- c(TRUE, FALSE)", "t", 1, {2}, true, 2, {1, 0}},
    {"s <- c(\"A \\\"q\\\" \\\\ b\", 'it',\n\"C\nD\")\nv <- 1", "v", 0, {0}, true, 1, {1}},
    {"f <- structure(c(1L, 2L, 1L), .Label = c(\"a\", \"b\"), class = \"factor\")",
     "f",
     1,
     {3},
     true,
     3,
     {1, 2, 1}},
    {"M <- structure(1:4, dim = c(2L, 2L), dimnames = list(rows = NULL, c('=', \")\")))",
     "M",
     2,
     {2, 2},
     true,
     4,
     {1, 3, 2, 4}},
    {"X <- structure(c(1, 2, 3, 4, 5, 6), .Dim = c(2L, 3L))",
     "X",
     2,
     {2, 3},
     true,
     6,
     {1, 3, 5, 2, 4, 6}},
    {"X <- structure(1:8, .Dim = c(2, 2, 2))",
     "X",
     3,
     {2, 2, 2},
     true,
     8,
     {1, 5, 3, 7, 2, 6, 4, 8}},
};

static void test_good_dump(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof good_dump / sizeof *good_dump; k++)
    check_good(&good_dump[k], "test.data.R");
}

static void test_bad_dump(void **state) {
  (void)state;
  static const struct {
    const char *text, *says;
    unsigned line, column;
  } rows[] = {
      {"N <- \n", "expected a number", 2, 1},
      {"N 3", "expected `=`", 1, 3},
      {"x <- c(1, 2", "expected `)`", 1, 12},
      {"x <- structure(c(1, 2), .Dim = c(2, 2))", "do not give as many", 1, 39},
      {"x <- structure(c(1, 2)", "expected `)`", 1, 23},
      {"x <- 1:999999999", "so long a range", 1, 17},
      {"x <- \"a", "a string has no end", 1, 8},
      {"`x <- 1", "a name has no end", 1, 8},
      {"x <- a", "expected a number", 1, 6},
      {"x <- \"a\"", "has the string", 1, 7},
      {"x <- structure(c(1, 2), names = list(NULL, c(\"a\"))", "expected `)`", 1, 51},
  };
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    Ctx c;
    assert_int_equal(attempt(&c, read_as_dump, rows[k].text), PVI_DATA);
    expect_message(&c, rows[k].text, rows[k].says, rows[k].line, rows[k].column);
    ctx_free(&c);
  }
}

/* Arrays that grow over the number stack, after and inside others. */
static void test_long_array(void **state) {
  (void)state;
  enum { N = 70000 };
  Ctx c;
  jmp_buf trap;
  ctx_init(&c);
  c.trap = &trap;
  if (setjmp(trap)) fail();
  Text t = text_make(&c.arena);
  text_puts(&t, "{\"a\":[1,2],\"x\":[");
  for (int k = 0; k < N; k++) text_printf(&t, "%s[%d,%d.5]", k ? ",\n" : "", k, k);
  text_puts(&t, "],\"b\":7}");
  const Data *d = data_read_text(&c, "t.json", t.s, NULL);
  const DataVar *x = data_find(d, "x");
  assert_int_equal(x->dims[0], N);
  assert_int_equal(x->dims[1], 2);
  for (int k = 0; k < N; k++) assert_true(x->values[2 * k] == k && x->values[2 * k + 1] == k + 0.5);
  assert_true(data_find(d, "b")->values[0] == 7 && data_find(d, "a")->values[1] == 2);
  assert_int_equal(x->real_at.line, 1);
  ctx_free(&c);
}

/* ---- hostile texts --------------------------------------------------------------------------- */

static const char *const small_json =
    "{\"N\":2, \"x\":[[1,2.5],[\"NaN\",-Inf]], "
    "\"t\":[{\"1\":5,\"2\":[1]},{\"1\":6,\"2\":[3]}],\n \"s\\u00e9\\n\":1e-3, \"e\":[[],[]]}";

/* Without a copy, so that the sanitizer sees a step beyond the text. */
static void read_raw_json(Ctx *c, const void *text) {
  const Source source = {.name = "raw.json", .text = text, .length = strlen(text)};
  json_read(c, &source, JSON_STAN);
  json_read(c, &source, JSON_PLAIN);
}

static void read_raw_csv(Ctx *c, const void *text) {
  const Source source = {.name = "raw.csv", .text = text, .length = strlen(text)};
  data_add_csv(c, data_new(c, &source), &source);
}

static const char small_dump[] =
    "N <- 2L # rows\nx <- structure(c(1, 2.5, NA, 4), .Dim = c(2L, 2L), "
    "dimnames = list(a = NULL, c('b', \"d\")))\n`s` <- c(\"it's\")\nz <- c(3:1, integer(0))\n";
static const char small_csv[] = "N,x.1,x.2,\"a\"\"b\"\n1,2.5,NA,4\r\n5,-1e3,\"7\",\n";

static void test_truncated_csv(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof small_csv; k++) {
    char *text = malloc(k + 1);
    memcpy(text, small_csv, k);
    text[k] = 0;
    Ctx c;
    attempt(&c, read_raw_csv, text);
    ctx_free(&c);
    free(text);
  }
}

static void test_truncation(void **state) {
  (void)state;
  size_t n = strlen(small_json);
  Ctx c;
  assert_int_equal(attempt(&c, read_as_json, small_json), PVI_OK);
  ctx_free(&c);
  for (size_t k = 0; k < n; k++) {
    char *text = malloc(k + 1);
    memcpy(text, small_json, k);
    text[k] = 0;
    assert_int_equal(attempt(&c, read_raw_json, text), PVI_DATA);
    assert_true(c.nmessages > 0 && c.messages[0].loc.line > 0);
    ctx_free(&c);
    free(text);
  }
}

static uint64_t random_bits(uint64_t *s) {
  uint64_t z = (*s += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/* Bytes changed at random: never a crash, always a status. */
static void test_mutations(void **state) {
  (void)state;
  static const char bytes[] = "{}[]:,\"\\u0123.eE+-NaInf tru\n\r;\x80\x01()<=c'`#";
  uint64_t s = 1;
  for (int k = 0; k < 20000; k++) {
    const struct {
      const char *text;
      void (*read)(Ctx *c, const void *text);
    } forms[] = {{small_json, read_as_json}, {small_csv, read_as_csv}, {small_dump, read_as_dump}};
    char text[256];
    strcpy(text, forms[k % 3].text);
    size_t n = strlen(text);
    for (int m = 0; m < 1 + k % 4; m++)
      text[random_bits(&s) % n] = bytes[random_bits(&s) % (sizeof bytes - 1)];
    Ctx c;
    Status status = attempt(&c, forms[k % 3].read, text);
    assert_true(status == PVI_OK || (status == PVI_DATA && c.nerrors > 0));
    ctx_free(&c);
  }
}

/* Memory that runs out at any allocation ends in PVI_FAILURE, nothing else. */
static Status read_with_blocks(Ctx *c, long blocks) {
  jmp_buf trap;
  ctx_init(c);
  c->alloc_left = blocks;
  c->trap = &trap;
  if (setjmp(trap)) return c->status;
  data_read_text(c, "t.json", small_json, NULL);
  return PVI_OK;
}

static void test_out_of_memory(void **state) {
  (void)state;
  bool failed = false;
  for (long k = 0; k < 40; k++) {
    Ctx c;
    Status s = read_with_blocks(&c, k);
    assert_true(s == PVI_OK || s == PVI_FAILURE);
    failed |= s == PVI_FAILURE;
    ctx_free(&c);
  }
  assert_true(failed);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void check_number_text(const char *s) {
  Number x = number_read(s, false);
  double want = strtod(s, NULL);
  if (x.end != s + strlen(s) || !same_double(x.value, want))
    fail_msg("%s read as %a, not %a", s, x.value, want);
}

static void test_number_read(void **state) {
  (void)state;
  static const char *const rows[] = {
      "0.1",
      "1e22",
      "1e23",
      "9007199254740993",
      "9007199254740992e1",
      "1e-22",
      "1e-23",
      "123456789.123456789e-30",
      "4.9e-324",
      "2.5e-324",
      "2.4e-324",
      "1.7976931348623157e308",
      "0.000000000000000000000000000000000000001",
      "100000000000000000000000",
      "1.00000000000000000000000000001",
      "3.14159265358979323846264338327950288419716939937510",
      "8.5",
      "000.5",
      "1e-400",
      "1e000000000000000005",
      "179769313486231580793e289",
      ".5",
      "5.",
      "+7.25",
      "2.2250738585072011e-308",
      "6.631236846766476e-316",
      "9223372036854775807",
      "18446744073709551616",
      "72057594037927933",
      "0.3",
      "0e999999999999",
  };
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) check_number_text(rows[k]);
  uint64_t s = 7;
  for (int k = 0; k < 100000; k++) {
    char text[64];
    int digits = 1 + (int)(random_bits(&s) % 21), exponent = (int)(random_bits(&s) % 80) - 40;
    double x = (double)(int64_t)random_bits(&s);
    snprintf(text, sizeof text, "%.*ge%d", digits, x * 1e-18, exponent);
    if (!strchr(text, 'e') || strchr(text, 'e') == strrchr(text, 'e')) check_number_text(text);
  }
}

static void check_round_trip(double x) {
  char s[NUMBER_CHARS];
  size_t n = number_write(s, x);
  assert_int_equal(n, strlen(s));
  if (isfinite(x) && !same_double(strtod(s, NULL), x)) fail_msg("%a written as %s", x, s);
}

static void check_shortest(double x) {
  char s[NUMBER_CHARS], t[64];
  number_write(s, x);
  size_t digits = 0, least = 17;
  for (const char *p = s; *p && *p != 'e'; p++)
    digits += *p >= '0' && *p <= '9' && (digits || *p != '0');
  while (s[0] && least > 1 &&
         (snprintf(t, sizeof t, "%.*g", (int)least - 1, x), strtod(t, NULL) == x))
    least--;
  if (digits > least && fabs(x) < 1e15 && fabs(x) >= 1e-4 && x != floor(x))
    fail_msg("%s has %zu digits, %zu do", s, digits, least);
}

static void test_number_write(void **state) {
  (void)state;
  char text[NUMBER_CHARS];
  static const struct {
    double x;
    const char *text;
  } rows[] = {{0, "0"},
              {-0.0, "-0"},
              {1, "1"},
              {-42, "-42"},
              {0.1, "0.1"},
              {1.0 / 3, "0.3333333333333333"},
              {1e300, "1e+300"},
              {5e-324, "5e-324"},
              {NAN, "nan"},
              {-NAN, "nan"},
              {INFINITY, "inf"},
              {-INFINITY, "-inf"},
              {123456.789, "123456.789"},
              {1e15, "1e+15"},
              {2.5, "2.5"},
              {1e-5, "1e-05"}};
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    char s[NUMBER_CHARS];
    number_write(s, rows[k].x);
    assert_string_equal(s, rows[k].text);
  }
  for (int k = -1074; k < 1024; k++) { /* where the neighbours lie unevenly, and theirs */
    check_round_trip(ldexp(1, k));
    check_round_trip(nextafter(ldexp(1, k), 0));
    check_round_trip(nextafter(ldexp(1, k), INFINITY));
    check_round_trip(strtod((snprintf(text, sizeof text, "1e%d", k / 4), text), NULL));
    check_shortest(ldexp(1, k));
  }
  uint64_t s = 3;
  for (int k = 0; k < 200000; k++) {
    uint64_t bits = random_bits(&s);
    double x, y = (double)(int64_t)bits * 0x1p-60;
    memcpy(&x, &bits, sizeof x);
    check_round_trip(x);
    check_round_trip(y);
    check_round_trip(round(y * 1e4) / 1e4);
    if (k % 16 == 0) check_shortest(y), check_shortest(round(y * 1e4) / 1e4);
  }
}

static void test_locale(void **state) {
  (void)state;
  static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "nl_NL.UTF-8"};
  const char *got = NULL;
  for (size_t k = 0; k < sizeof names / sizeof *names && !got; k++)
    got = setlocale(LC_NUMERIC, names[k]);
  if (!got) {
    print_message("skipped: no locale with a decimal comma is installed\n");
    skip();
  }
  char s[NUMBER_CHARS];
  number_write(s, 0.12345678901234567);
  Number x = number_read("0.1234567890123456789012345", false);
  setlocale(LC_NUMERIC, "C");
  assert_non_null(strchr(s, '.'));
  assert_true(x.value == 0.1234567890123456789012345);
}

/* ---- JSON writer ----------------------------------------------------------------------------- */

static void write_sample(JsonWriter *w) {
  json_object(w);
  json_key(w, "a\"b\\c\n\x01");
  json_string(w, "t\t\xC3\xA9");
  json_key(w, "x");
  json_numbers(w, (double[]){1, 0.5, NAN, INFINITY, -INFINITY}, 5);
  json_key(w, "list");
  json_array(w);
  json_bool(w, true);
  json_null(w);
  json_object(w);
  json_object_end(w);
  json_array(w);
  json_array_end(w);
  json_integer(w, -7);
  json_array_end(w);
  json_object_end(w);
}

static void test_json_writer(void **state) {
  (void)state;
  Ctx c;
  ctx_init(&c);
  Text t = text_make(&c.arena), p = text_make(&c.arena);
  JsonWriter w = json_writer(&t, false);
  write_sample(&w);
  assert_string_equal(t.s, "{\"a\\\"b\\\\c\\n\\u0001\":\"t\\t\xC3\xA9\",\"x\":[1,0.5,\"nan\","
                           "\"inf\",\"-inf\"],\"list\":[true,null,{},[],-7]}");
  w = json_writer(&p, true);
  write_sample(&w);
  assert_string_equal(
      p.s, "{\n  \"a\\\"b\\\\c\\n\\u0001\": \"t\\t\xC3\xA9\",\n  \"x\": [1, 0.5, \"nan\", \"inf\", "
           "\"-inf\"],\n  \"list\": [\n    true,\n    null,\n"
           "    {},\n    [],\n    -7\n  ]\n}");
  ctx_free(&c);
}

/* What we write in plain style we read back: words among numbers are numbers, words among words are
 * words. */
static void test_json_plain(void **state) {
  (void)state;
  static const char text[] = "{\"v\":[\"nan\",1,\"inf\"],\"names\":[\"inf\",\"nan\"],\"mixed\":["
                             "\"inf\",\"b\"],\"tri\":[[1],[2,"
                             "\"-inf\"],[3,4,5]],\"all\":[[\"nan\",\"nan\"],[1,2]]}";
  Ctx c;
  jmp_buf trap;
  ctx_init(&c);
  c.trap = &trap;
  if (setjmp(trap)) {
    show(&c);
    fail();
  }
  const Source source = {.name = "q.json", .text = text, .length = strlen(text)};
  const Json *j = json_read(&c, &source, JSON_PLAIN);
  const Json *v = json_get(j, "v"), *names = json_get(j, "names"), *mixed = json_get(j, "mixed");
  assert_int_equal(v->kind, JSON_NUMBERS);
  assert_true(isnan(v->values[0]) && v->values[1] == 1 && v->values[2] > 1e308);
  assert_int_equal(names->kind, JSON_ARRAY);
  assert_string_equal(names->items[0]->text, "inf");
  assert_string_equal(mixed->items[0]->text, "inf");
  assert_string_equal(mixed->items[1]->text, "b");
  size_t n;
  const Json *bad;
  double *x = json_flatten(&c, json_get(j, "tri"), &n, &bad);
  assert_int_equal(n, 6);
  assert_true(x[0] == 1 && x[1] == 2 && x[2] < -1e308 && x[5] == 5 && !bad);
  x = json_flatten(&c, json_get(j, "all"), &n, &bad);
  assert_true(n == 4 && isnan(x[0]) && x[3] == 2);
  assert_null(json_flatten(&c, mixed, &n, &bad));
  assert_string_equal(bad->text, "b");
  ctx_free(&c);
}

static void test_writer_round_trip(void **state) {
  (void)state;
  enum { N = 20000 };
  Ctx c;
  jmp_buf trap;
  ctx_init(&c);
  c.trap = &trap;
  if (setjmp(trap)) fail();
  double *x = NEW_ARRAY(&c.arena, double, N);
  uint64_t s = 11;
  for (size_t k = 0; k < N; k++) {
    uint64_t bits = random_bits(&s);
    memcpy(&x[k], &bits, sizeof bits);
    if (isnan(x[k])) x[k] = NAN;
  }
  Text t = text_make(&c.arena);
  JsonWriter w = json_writer(&t, false);
  json_numbers(&w, x, N);
  const Source source = {.name = "x", .text = t.s, .length = t.n};
  const Json *j = json_read(&c, &source, JSON_PLAIN);
  assert_int_equal(j->n, N);
  for (size_t k = 0; k < N; k++) assert_true(same_double(j->values[k], x[k]));
  ctx_free(&c);
}

/* Values of a long text stay where they are read: they must be those of the same arrays read one at
 * a time, whatever their shapes, in whatever order, and also where digits without a point are more
 * than the memory that was reserved for the text. */
static const char *array_text(Ctx *c, uint64_t *s, int kind) {
  enum { ROWS = 300 };
  Text t = text_make(&c->arena);
  size_t width = kind == 2 ? 40 : 1, n = 1 + (random_bits(s) >> 33) % (kind == 0 ? 300000 : ROWS);
  text_puts(&t, "[");
  for (size_t k = 0; k < n; k++) {
    text_puts(&t, k ? "," : "");
    text_puts(&t, width > 1 ? "[" : "");
    size_t own = kind == 3 && k % 2 ? 2 : width; /* uneven: numbers and pairs of them */
    if (kind == 3 && k % 2) text_puts(&t, "[");
    for (size_t i = 0; i < own; i++)
      text_printf(&t, kind == 1 ? "%s%.17g" : "%s%.0f", i ? "," : "",
                  kind == 1 ? (double)random_bits(s) * 0x1p-60
                            : (double)((random_bits(s) >> 33) % 10));
    if (kind == 3 && k % 2) text_puts(&t, "]");
    text_puts(&t, width > 1 ? "]" : "");
  }
  text_puts(&t, "]");
  return t.s;
}

static const Json *read_text(Ctx *c, const char *text) {
  Source *source = NEW(&c->arena, Source);
  *source = (Source){.name = "x", .text = text, .length = strlen(text)};
  return json_read(c, source, JSON_STAN);
}

static void expect_same(Ctx *c, const Json *a, const Json *b) {
  size_t n, m;
  const Json *bad;
  const double *x = json_flatten(c, a, &n, &bad), *y = json_flatten(c, b, &m, &bad);
  assert_int_equal(a->kind, b->kind);
  assert_int_equal(n, m);
  assert_memory_equal(x, y, n * sizeof *x);
  for (int k = 0; k < a->ndims; k++) assert_int_equal(a->dims[k], b->dims[k]);
}

/* Returns the length of the text. */
static size_t read_long_text(uint64_t *seed) {
  enum { ARRAYS = 24 };
  Ctx c;
  jmp_buf trap;
  ctx_init(&c);
  c.trap = &trap;
  if (setjmp(trap)) fail();
  Text all = text_make(&c.arena);
  const char *one[ARRAYS];
  for (int k = 0; k < ARRAYS; k++) {
    one[k] = array_text(&c, seed, (int)((random_bits(seed) >> 33) % 4));
    text_printf(&all, "%s\"x%d\": %s", k ? ",\n" : "{", k, one[k]);
  }
  text_puts(&all, "}");
  const Json *j = read_text(&c, all.s);
  for (int k = 0; k < ARRAYS; k++) expect_same(&c, j->items[k], read_text(&c, one[k]));
  size_t n = all.n;
  ctx_free(&c);
  return n;
}

static void test_long_text(void **state) {
  (void)state;
  int is_long = 0;
  uint64_t seed = 5;
  for (int round = 0; round < 4; round++) is_long += read_long_text(&seed) > 1 << 20;
  assert_true(is_long > 1);
}

/* ---- CSV ------------------------------------------------------------------------------------- */

static const GoodRow good_csv[] = {
    {"x,y\n1,2\n3,4\n", "y", 1, {2}, true, 2, {2, 4}},
    {"x,y\r\n1,2\r\n3,4\r\n", "y", 1, {2}, true, 2, {2, 4}},
    {"x,y\n1,2\n3,4", "x", 1, {2}, true, 2, {1, 3}},
    {"x,y\n1,2\n3,4\n\n  \n", "x", 1, {2}, true, 2, {1, 3}},
    {"\xEF\xBB\xBFx,y\n1,2\n", "x", 1, {1}, true, 1, {1}},
    {" x , \"y\" \n 1 , \"2.5\" \n", "y", 1, {1}, false, 1, {2.5}},
    {"\"a\"\"b,c\",y\n1,2\n", "a\"b,c", 1, {1}, true, 1, {1}},
    {"x;y\n1;2\n", "y", 1, {1}, true, 1, {2}},
    {"x\ty\n1\t2\n", "y", 1, {1}, true, 1, {2}},
    {"x\n1\n.5\n+2.\n", "x", 1, {3}, false, 3, {1, 0.5, 2}},
    {"x\nnan\nInf\n-inf\n", "x", 1, {3}, false, 3, {NAN, INFINITY, -INFINITY}},
    {"\"\",\"x\"\n\"1\",3\n\"2\",4\n", "x", 1, {2}, true, 2, {3, 4}},
    {"state,x\nOhio,3\nIowa,4\n", "x", 1, {2}, true, 2, {3, 4}},
    {"x.1,x.2\n1,2\n3,4\n5,6\n", "x", 2, {3, 2}, true, 6, {1, 2, 3, 4, 5, 6}},
    {"x,y\n", "x", 1, {0}, true, 0, {0}},
};

static void test_good_csv(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof good_csv / sizeof *good_csv; k++)
    check_good(&good_csv[k], "test.csv");
}

static Decl declare(const char *name, TypeKind kind, int array_dims, Type *type,
                    const Source *program) {
  *type = (Type){.kind = kind, .array_dims = array_dims};
  return (Decl){.name = name, .type = type, .loc = {program, 3, 7, 1}};
}

static const Source program = {
    .name = "model.stan", .text = "data {\n  int N;\n  real x;\n}\n", .length = 26};

static void read_and_bind_x(Ctx *c, const void *text) {
  const Data *d = data_read_text(c, "test.csv", text, NULL);
  Type type;
  Decl decl = declare("x", TY_REAL, 1, &type, &program);
  data_bind(c, d, &decl, 1, (long[]){data_rows(d)});
}

static const BadRow bad_csv[] = {
    {"", "the data file 'test.csv' is empty", 0, 0},
    {"1,2\n3,4\n", "the first row has the names of the columns, but this is the number 1", 1, 1},
    {"x,y,x\n1,2,3\n", "two columns are called 'x'", 1, 5},
    {"x,y\n1,2\n3\n", "row 2 has 1 field, the header has 2", 3, 2},
    {"x,y\n1,2,3\n", "row 1 has more fields than the 2 names of the header", 2, 5},
    {"x,y\n1,2\n\n3,4\n", "row 2 has 1 field, the header has 2", 3, 1},
    {"y,x\n1,2\n3,NA\n",
     "'x' (declared at model.stan:3:7): row 2 is NA; Stan has no missing values", 3, 3},
    {"y,x\n1,2\n3,\n", "row 2 has no value here", 3, 3},
    {"y,x\n1,Ohio\n3,4\n", "row 1 is 'Ohio', which is not a number", 2, 3},
    {"y;x\n1;2,5\n", "row 1 is '2,5', which is not a number", 2, 3},
    {"x\n1\n\n2\n", "row 2 has no value here", 3, 1},
    {"y,x\n\"1,2\n", "this quote is never closed on its line", 2, 1},
    {"y,x\n\"1\"2,3\n", "expected ',' or the end of the line after a quoted field", 2, 4},
};

static void test_bad_csv(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof bad_csv / sizeof *bad_csv; k++)
    check_bad(&bad_csv[k], read_and_bind_x);
}

static void test_sets(void **state) {
  (void)state;
  Ctx c;
  jmp_buf trap;
  ctx_init(&c);
  c.trap = &trap;
  if (setjmp(trap)) {
    show(&c);
    fail();
  }
  static const char *const sets[] = {"N=19", "x=[1,2.5]"};
  DataOptions o = {.sets = sets, .nsets = 2};
  const Data *d = data_read_text(&c, "t.csv", "x,y\n1,2\n", &o);
  assert_true(data_find(d, "N")->is_int && data_find(d, "N")->values[0] == 19);
  assert_true(data_find(d, "x")->n == 2 && data_find(d, "y")->n == 1);
  assert_int_equal(data_rows(d), 1);
  assert_int_equal(data_rows(data_empty(&c)), -1);
  assert_true(data_find(data_from_sets(&c, &o), "x")->n == 2);
  ctx_free(&c);
}

static void bad_set(Ctx *c, const void *arg) {
  const char *const sets[] = {arg};
  data_from_sets(c, &(DataOptions){.sets = sets, .nsets = 1});
}

static void test_bad_sets(void **state) {
  (void)state;
  Ctx c;
  assert_int_equal(attempt(&c, bad_set, "N19"), PVI_USAGE);
  expect_message(&c, "N19", "set takes name=value, as in set N=19; got 'N19'", 0, 0);
  ctx_free(&c);
  assert_int_equal(attempt(&c, bad_set, "N=abc"), PVI_DATA);
  expect_message(&c, "N=abc", "expected a value, found 'abc'", 1, 1);
  ctx_free(&c);
}

static void read_absent(Ctx *c, const void *path) { data_read(c, path, NULL); }

static void test_absent_file(void **state) {
  (void)state;
  Ctx c;
  assert_int_equal(attempt(&c, read_absent, "no/such/file.json"), PVI_DATA);
  expect_message(&c, "", "cannot read the data file 'no/such/file.json': No such file or directory",
                 0, 0);
  ctx_free(&c);
}

/* ---- binding --------------------------------------------------------------------------------- */

typedef struct {
  const char *json, *name;
  TypeKind kind;
  int array_dims, ndims;
  long dims[4];
  const char *message; /* NULL: binds */
} BindRow;

static const BindRow bind_rows[] = {
    {"{\"N\":3}", "N", TY_INT, 0, 0, {0}, NULL},
    {"{\"N\":3}", "N", TY_REAL, 0, 0, {0}, NULL},
    {"{\"x\":[1,2]}", "x", TY_VECTOR, 0, 1, {2}, NULL},
    {"{\"x\":[[1,2],[3,4]]}", "x", TY_MATRIX, 0, 2, {2, 2}, NULL},
    {"{\"x\":[[1,2],[3,4]]}", "x", TY_VECTOR, 1, 2, {2, 2}, NULL},
    {"{\"x\":[]}", "x", TY_MATRIX, 0, 2, {0, 5}, NULL},
    {"{\"x\":[]}", "x", TY_MATRIX, 1, 3, {4, 0, 5}, NULL},
    {"{\"x\":[[],[]]}", "x", TY_MATRIX, 0, 2, {2, 0}, NULL},
    {"{}", "x", TY_REAL, 1, 1, {0}, NULL},
    {"{\"z\":[1,2.5]}", "z", TY_COMPLEX, 0, 0, {0}, NULL},
    {"{\"z\":[[1,2.5],[3,4]]}", "z", TY_COMPLEX_VECTOR, 0, 1, {2}, NULL},
    {"{\"x\":3000000000}", "x", TY_REAL, 0, 0, {0}, NULL},
    {"{\"NN\":3}",
     "N",
     TY_INT,
     0,
     0,
     {0},
     "the data variable 'N' (int) has no value in 'test.json'"},
    {"{\"weigth\":[3]}",
     "weight",
     TY_REAL,
     1,
     1,
     {1},
     "the data variable 'weight' (array[1] real) has no value in 'test.json'; did you mean its "
     "'weigth'?"},
    {"{\"N\":1.0}",
     "N",
     TY_INT,
     0,
     0,
     {0},
     "'N' is declared int (declared at model.stan:3:7), but this value is not an integer"},
    {"{\"N\":3000000000}", "N", TY_INT, 0, 0, {0}, "but this value is not an integer"},
    {"{\"N\":[1,2,2.5]}", "N", TY_INT, 1, 1, {3}, "'N' is declared array[3] int"},
    {"{\"N\":[3]}",
     "N",
     TY_INT,
     0,
     0,
     {0},
     "'N' is declared int (declared at model.stan:3:7), but the data have an array of 1 integer"},
    {"{\"x\":3}",
     "x",
     TY_VECTOR,
     0,
     1,
     {1},
     "'x' is declared vector[1] (declared at model.stan:3:7), but the data have an integer"},
    {"{\"x\":[1,2.5,3]}",
     "x",
     TY_VECTOR,
     0,
     1,
     {4},
     "'x' is declared vector[4] (declared at model.stan:3:7), but the data have an array of 3 "
     "numbers"},
    {"{\"x\":[[1,2],[3,4]]}",
     "x",
     TY_MATRIX,
     1,
     3,
     {1, 2, 2},
     "'x' is declared array[1] matrix[2,2] (declared at model.stan:3:7), but the data have an "
     "array of 2 x 2 integers"},
    {"{\"x\":[[1,2,3],[4,5,6]]}",
     "x",
     TY_MATRIX,
     0,
     2,
     {3, 2},
     "but the data have an array of 2 x 3 integers"},
    {"{\"x\":[1]}", "x", TY_MATRIX, 0, 2, {0, 5}, "but the data have an array of 1 integer"},
    {"{\"x\":[]}", "x", TY_REAL, 1, 1, {2}, "but the data have an array of 0 integers"},
    {"{\"z\":[1,2,3]}", "z", TY_COMPLEX, 0, 0, {0}, "'z' is declared complex"},
    {"{\"t\":{\"1\":2}}", "t", TY_REAL, 0, 0, {0}, "but the data have a tuple"},
};

static void bind_row(Ctx *c, const void *arg) {
  const BindRow *row = arg;
  const Data *d = data_read_text(c, "test.json", row->json, NULL);
  Type type;
  Decl decl = declare(row->name, row->kind, row->array_dims, &type, &program);
  const double *v = data_bind(c, d, &decl, row->ndims, row->dims);
  assert_true((v == NULL) == (row->message != NULL));
}

static void test_bind(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof bind_rows / sizeof *bind_rows; k++) {
    const BindRow *row = &bind_rows[k];
    Ctx c;
    Status s = attempt(&c, bind_row, row);
    if (row->message)
      expect_message(&c, row->json, row->message, 0, 0);
    else if (s != PVI_OK)
      show(&c), fail();
    ctx_free(&c);
  }
}

static void test_bind_places(void **state) {
  (void)state;
  Ctx c;
  attempt(&c, bind_row, &(BindRow){"{\n \"N\": [1,\n 2.5]}", "N", TY_INT, 1, 1, {2}, ""});
  expect_message(&c, "real", "not an integer", 3, 2); /* the value */
  ctx_free(&c);
  attempt(&c, bind_row, &(BindRow){"{\n \"N\": [1]}", "N", TY_INT, 1, 1, {2}, ""});
  expect_message(&c, "shape", "declared array[2] int", 2, 2); /* the name */
  ctx_free(&c);
  attempt(&c, bind_row, &(BindRow){"{}", "N", TY_INT, 1, 1, {2}, ""});
  expect_message(&c, "missing", "has no value", 3, 7); /* the declaration */
  ctx_free(&c);
}

static void test_bind_tuple(void **state) {
  (void)state;
  Ctx c;
  jmp_buf trap;
  ctx_init(&c);
  c.trap = &trap;
  if (setjmp(trap)) fail();
  const Data *d =
      data_read_text(&c, "t.json", "{\"t\":[{\"1\":5,\"2\":[1,2]},{\"1\":6,\"2\":[3,4]}]}", NULL);
  Type type;
  Decl item = declare(NULL, TY_VECTOR, 1, &type, &program);
  const double *v = data_bind_as(&c, d, "t.2", &item, 2, (long[]){2, 2});
  assert_true(v && v[0] == 1 && v[3] == 4);
  assert_true(data_find(d, "t")->is_tuple && data_find(d, "t")->ndims == 1);
  ctx_free(&c);
}

/* ---- bounds and structures ------------------------------------------------------------------- */

static void test_bounds(void **state) {
  (void)state;
  Ctx c;
  ctx_init(&c);
  Type type;
  Decl decl = declare("x", TY_MATRIX, 0, &type, &program);
  const double v[] = {0, 1, 2, -1, NAN, 5}, whole[] = {0, 1, 2, 3, 4, 5}, zero = 0, five = 5,
               each[] = {0, 0, 3, -2, 0, 0}, high[] = {9, 9, 9, 9, 9, 4}, row[] = {0, 1, 3};
  const long dims[] = {2, 3};
  const DataBound none = {0}, above0 = {&zero, 1}, below5 = {&five, 1};
  DataValues x = {"the data", "x", &decl, 2, dims, whole};
  data_check_bounds(&c, &x, above0, below5);
  assert_int_equal(c.nerrors, 0);
  x.v = v;
  data_check_bounds(&c, &x, above0, none);
  assert_int_equal(c.nerrors, 1);
  assert_string_equal(c.messages[0].text, "the data violate their declaration: x[2,1] is -1, but "
                                          "must be at least 0 (and 1 more values are outside)");
  assert_int_equal(c.messages[0].loc.line, 3);
  data_check_bounds(&c, &x, (DataBound){each, 6}, none);
  assert_non_null(strstr(c.messages[1].text, "x[1,3] is 2, but must be at least 3"));
  x.name = "t.1";
  x.v = whole;
  data_check_bounds(&c, &x, none, (DataBound){high, 6});
  assert_string_equal(c.messages[2].text,
                      "the data violate their declaration: t.1[2,3] is 5, but must be at most 4");
  data_check_bounds(&c, &x, (DataBound){row, 3}, none); /* the same for every item */
  assert_non_null(strstr(c.messages[3].text, "t.1[1,3] is 2, but must be at least 3"));
  DataValues scalar = {"the parameters", "x", &decl, 0, NULL, (double[]){7.5}};
  data_check_bounds(&c, &scalar, none, below5);
  assert_string_equal(c.messages[4].text,
                      "the parameters violate their declaration: x is 7.5, but must be at most 5");
  ctx_free(&c);
}

typedef struct {
  ConstraintKind con;
  TypeKind kind;
  int ndims;
  long dims[3];
  double v[9];
  const char *message; /* NULL: keeps its promise */
} StructureRow;

static const StructureRow structure_rows[] = {
    {CON_NONE, TY_VECTOR, 1, {2}, {NAN, 1}, NULL},
    {CON_simplex, TY_VECTOR, 1, {3}, {0.2, 0.3, 0.5}, NULL},
    {CON_simplex, TY_VECTOR, 1, {3}, {0.2, 0.3, 0.5 + 0.9e-8}, NULL},
    {CON_simplex,
     TY_VECTOR,
     1,
     {3},
     {0.2, 0.3, 0.5 + 1.1e-8},
     "x is no simplex: the sum is 1.000000011, not 1"},
    {CON_simplex,
     TY_VECTOR,
     1,
     {2},
     {1.5, -0.5},
     "x is no simplex: element 2 is -0.5, not at least 0"},
    {CON_simplex,
     TY_VECTOR,
     2,
     {2, 2},
     {0.5, 0.5, 0.5, NAN},
     "x[2] is no simplex: element 2 is nan, not at least 0"},
    {CON_simplex, TY_VECTOR, 1, {0}, {0}, "the sum is 0, not 1"},
    {CON_ordered, TY_VECTOR, 1, {3}, {-1, 0, 2}, NULL},
    {CON_ordered,
     TY_VECTOR,
     1,
     {3},
     {-1, 0, 0},
     "x is no ordered: element 3 is 0, not above the 0 before it"},
    {CON_positive_ordered, TY_VECTOR, 1, {3}, {0, 1, 2}, NULL},
    {CON_positive_ordered, TY_VECTOR, 1, {2}, {-1, 1}, "x is no positive_ordered: element 1 is -1"},
    {CON_unit_vector, TY_VECTOR, 1, {2}, {0.6, 0.8}, NULL},
    {CON_unit_vector,
     TY_VECTOR,
     1,
     {2},
     {1, 1},
     "x is no unit_vector: the sum of squares is 2, not 1"},
    {CON_sum_to_zero_vector, TY_VECTOR, 1, {3}, {1, -3, 2}, NULL},
    {CON_sum_to_zero_vector,
     TY_VECTOR,
     1,
     {2},
     {1, 2},
     "x is no sum_to_zero_vector: the sum is 3, not 0"},
    {CON_sum_to_zero_matrix, TY_MATRIX, 2, {2, 3}, {1, 2, -3, -1, -2, 3}, NULL},
    {CON_sum_to_zero_matrix,
     TY_MATRIX,
     2,
     {2, 2},
     {1, -1, 3, -3},
     "x is no sum_to_zero_matrix: in column 1 the sum is 4, not 0"},
    {CON_cholesky_factor_cov, TY_MATRIX, 2, {3, 2}, {1, 0, 2, 3, 4, 5}, NULL},
    {CON_cholesky_factor_cov,
     TY_MATRIX,
     2,
     {2, 3},
     {1, 0, 0, 2, 3, 0},
     "there are 2 rows, fewer than the 3 columns"},
    {CON_cholesky_factor_cov,
     TY_MATRIX,
     2,
     {2, 2},
     {1, 5, 2, 3},
     "element [1,2] above the diagonal is 5, not 0"},
    {CON_cholesky_factor_cov,
     TY_MATRIX,
     2,
     {2, 2},
     {1, 0, 2, 0},
     "the diagonal element [2,2] is 0, not above 0"},
    {CON_cholesky_factor_corr, TY_MATRIX, 2, {2, 2}, {1, 0, 0.6, 0.8}, NULL},
    {CON_cholesky_factor_corr,
     TY_MATRIX,
     2,
     {2, 2},
     {1, 0, 0.6, 0.9},
     "x is no cholesky_factor_corr: the squares of row 2 sum to"},
    {CON_corr_matrix, TY_MATRIX, 2, {2, 2}, {1, 0.5, 0.5, 1}, NULL},
    {CON_corr_matrix,
     TY_MATRIX,
     2,
     {2, 2},
     {1, 0.5, 0.5, 2},
     "x is no corr_matrix: the diagonal element [2,2] is 2, not 1"},
    {CON_corr_matrix,
     TY_MATRIX,
     2,
     {2, 2},
     {1, 2, 2, 1},
     "it is not positive definite (pivot 2 is -3)"},
    {CON_cov_matrix, TY_MATRIX, 2, {2, 2}, {2, 1, 1, 3}, NULL},
    {CON_cov_matrix,
     TY_MATRIX,
     2,
     {2, 2},
     {2, 1, 1.5, 3},
     "x is no cov_matrix: it is not symmetric: [2,1] is 1.5 but [1,2] is 1"},
    {CON_cov_matrix, TY_MATRIX, 2, {2, 2}, {NAN, 1, 1, 3}, "it is not positive definite"},
    {CON_column_stochastic_matrix, TY_MATRIX, 2, {2, 2}, {0.25, 0.5, 0.75, 0.5}, NULL},
    {CON_column_stochastic_matrix,
     TY_MATRIX,
     2,
     {2, 2},
     {0.25, 0.75, 0.5, 0.5},
     "x is no column_stochastic_matrix: in column 1 the sum is 0.75, not 1"},
    {CON_row_stochastic_matrix, TY_MATRIX, 2, {2, 2}, {0.25, 0.75, 0.5, 0.5}, NULL},
    {CON_row_stochastic_matrix,
     TY_MATRIX,
     2,
     {2, 2},
     {0.25, 0.5, 0.75, 0.5},
     "x is no row_stochastic_matrix: in row 1 the sum is 0.75, not 1"},
};

static void test_structures(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof structure_rows / sizeof *structure_rows; k++) {
    const StructureRow *row = &structure_rows[k];
    Ctx c;
    ctx_init(&c);
    Type type;
    Decl decl =
        declare("x", row->kind, row->ndims - (row->kind == TY_MATRIX ? 2 : 1), &type, &program);
    decl.con.kind = row->con;
    data_check_structure(&c, &(DataValues){"the data", "x", &decl, row->ndims, row->dims, row->v});
    if (row->message)
      expect_message(&c, "structure", row->message, 3, 7);
    else if (c.nerrors)
      show(&c), fail();
    ctx_free(&c);
  }
}

/* ---- splits ---------------------------------------------------------------------------------- */

static void read_split(Ctx *c, const void *text) { split_read_text(c, "split.json", text, 10); }

static const BadRow bad_splits[] = {
    {"[1,2]", "a split file is one object", 1, 1},
    {"{\"train\":3}", "'train' is a flat array of row numbers, counted from 1", 1, 10},
    {"{\"train\":[1,2.5]}", "'train' is a flat array of row numbers", 1, 13},
    {"{\"train\":[[1,2]]}", "'train' is a flat array of row numbers", 1, 10},
    {"{\"train\":[1,\"a\"]}", "'train' is a flat array of row numbers", 1, 10},
    {"{\"train\":[0,1]}", "'train' has the row 0 (its element 1), but there are 10 observations", 1,
     10},
    {"{\"train\":[1],\n\"test\":[11]}", "'test' has the row 11", 2, 8},
    {"{\"train\":[3,3]}", "'train' has the row 3 twice", 1, 10},
    {"{\"train\":[3],\"valid\":[3]}", "the row 3 is both in 'train' and in 'valid'", 1, 22},
    {"{\"train\":[3],\"validation\":[4]}",
     "'validation' is not a part of a split; the parts are train, valid and test", 1, 14},
    {"{\"n\":12,\"train\":[3]}", "this split is for 12 observations, but the model has 10", 1, 6},
};

static void test_bad_splits(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof bad_splits / sizeof *bad_splits; k++)
    check_bad(&bad_splits[k], read_split);
}

static void test_split_read(void **state) {
  (void)state;
  Ctx c;
  jmp_buf trap;
  ctx_init(&c);
  c.trap = &trap;
  if (setjmp(trap)) {
    show(&c);
    fail();
  }
  const Split *s =
      split_read_text(&c, "s.json", "{\"n\":10,\"seed\":5,\"test\":[10,1],\"train\":[3,2]}", 10);
  assert_int_equal(s->count[PART_TRAIN], 2);
  assert_int_equal(s->count[PART_VALID], 0);
  assert_int_equal(s->count[PART_TEST], 2);
  assert_true(s->rows[PART_TEST][0] == 9 && s->rows[PART_TEST][1] == 0 &&
              s->rows[PART_TRAIN][0] == 2);
  ctx_free(&c);
}

/* Every row in exactly one part. */
static void check_partition(const Split *s, size_t ntest) {
  char seen[1000] = {0};
  assert_int_equal(s->count[PART_TEST], ntest);
  assert_int_equal(s->count[PART_TRAIN] + ntest, s->n);
  for (int p = 0; p < PART_COUNT; p++)
    for (size_t k = 0; k < s->count[p]; k++) assert_int_equal(seen[s->rows[p][k]]++, 0);
}

static void test_random_splits(void **state) {
  (void)state;
  Ctx c;
  ctx_init(&c);
  check_partition(split_all(&c, 10), 0);
  check_partition(split_all(&c, 0), 0);
  check_partition(split_holdout(&c, 100, 0.25, 1), 25);
  check_partition(split_holdout(&c, 2, 0.9, 1), 1);
  check_partition(split_holdout(&c, 7, 0, 1), 0);
  const Split *a = split_holdout(&c, 1000, 0.5, 1), *b = split_holdout(&c, 1000, 0.5, 1),
              *d = split_holdout(&c, 1000, 0.5, 2);
  assert_memory_equal(a->rows[PART_TEST], b->rows[PART_TEST], 500 * sizeof(size_t));
  assert_memory_not_equal(a->rows[PART_TEST], d->rows[PART_TEST], 500 * sizeof(size_t));
  char seen[103] = {0};
  for (size_t k = 0; k < 5; k++) {
    const Split *f = split_fold(&c, 103, 5, k, 3);
    check_partition(f, 103 * (k + 1) / 5 - 103 * k / 5);
    for (size_t i = 0; i < f->count[PART_TEST]; i++)
      assert_int_equal(seen[f->rows[PART_TEST][i]]++, 0);
  }
  for (size_t i = 0; i < 103; i++) assert_int_equal(seen[i], 1);
  ctx_free(&c);
}

/* How often row 0 tests: fraction 0.3 of 4000 seeds, within 5 standard errors. */
static void test_holdout_is_fair(void **state) {
  (void)state;
  size_t hits = 0;
  for (uint64_t seed = 0; seed < 4000; seed++) {
    Ctx c;
    ctx_init(&c);
    const Split *s = split_holdout(&c, 10, 0.3, seed);
    hits += s->rows[PART_TEST][0] == 0;
    ctx_free(&c);
  }
  assert_true(fabs((double)hits - 1200) < 5 * sqrt(4000 * 0.3 * 0.7));
}

/* ---- the shared data sets -------------------------------------------------------------------- */

static const char *shared_dir(void) {
  const char *dir = getenv("PVI_SHARED");
  return dir ? dir : "../shared";
}

static DIR *open_shared(const char *folder, char *path, size_t size) {
  snprintf(path, size, "%s/%s", shared_dir(), folder);
  DIR *dir = opendir(path);
  if (!dir) {
    print_message("skipped: no %s\n", shared_dir());
    skip();
  }
  return dir;
}

static void read_file(Ctx *c, const void *path) { data_read(c, path, NULL); }
static void read_any_split(Ctx *c, const void *path) {
  const Json *j = json_read_file(c, path, JSON_STAN);
  split_read(c, path, (size_t)json_get(j, "n")->values[0]);
}

static int read_folder(const char *folder, Action *action) {
  char path[2048];
  DIR *dir = open_shared(folder, path, sizeof path);
  int count = 0;
  for (struct dirent *e; (e = readdir(dir));) {
    size_t n = strlen(e->d_name);
    if (n < 5 || strcmp(e->d_name + n - 5, ".json")) continue;
    char file[4096];
    snprintf(file, sizeof file, "%s/%s", path, e->d_name);
    Ctx c;
    if (attempt(&c, action, file) != PVI_OK) show(&c), fail();
    ctx_free(&c);
    count++;
  }
  closedir(dir);
  return count;
}

static void test_posteriordb(void **state) {
  (void)state;
  assert_true(read_folder("data/posteriordb", read_file) >= 80);
}

static void test_paper_splits(void **state) {
  (void)state;
  assert_int_equal(read_folder("data/paper/splits", read_any_split), 7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bad_json),      cmocka_unit_test(test_several_errors),
      cmocka_unit_test(test_deep_nesting),  cmocka_unit_test(test_good_json),
      cmocka_unit_test(test_long_array),    cmocka_unit_test(test_truncation),
      cmocka_unit_test(test_truncated_csv), cmocka_unit_test(test_mutations),
      cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_number_read),
      cmocka_unit_test(test_long_text),     cmocka_unit_test(test_number_write),
      cmocka_unit_test(test_locale),        cmocka_unit_test(test_json_writer),
      cmocka_unit_test(test_json_plain),    cmocka_unit_test(test_writer_round_trip),
      cmocka_unit_test(test_good_csv),      cmocka_unit_test(test_bad_csv),
      cmocka_unit_test(test_sets),          cmocka_unit_test(test_bad_sets),
      cmocka_unit_test(test_absent_file),   cmocka_unit_test(test_bind),
      cmocka_unit_test(test_bind_places),   cmocka_unit_test(test_bind_tuple),
      cmocka_unit_test(test_bounds),        cmocka_unit_test(test_structures),
      cmocka_unit_test(test_good_dump),     cmocka_unit_test(test_bad_dump),
      cmocka_unit_test(test_bad_splits),    cmocka_unit_test(test_split_read),
      cmocka_unit_test(test_random_splits), cmocka_unit_test(test_holdout_is_fair),
      cmocka_unit_test(test_posteriordb),   cmocka_unit_test(test_paper_splits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
