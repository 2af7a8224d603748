/* test_stan.c: the front end. Rows of snippets with what they become, laws (printing and reading
 * again gives the same tree, no text and no failing allocation makes a crash), and the programs in
 * test/stan, which carry their expectation as comments:
 *
 *   // ok                      no messages
 *   // error: 3:10 text        an error there that contains the text; all errors must be listed
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "stan/stan_int.h"

/* ---- helpers --------------------------------------------------------------------------------- */

static Program *parse(Ctx *c, const char *text) {
  return stan_parse_text(c, "test", text, strlen(text), NULL);
}

static const char *first_error(const Ctx *c) {
  return c->nmessages ? c->messages[0].text : "nothing";
}

static bool contains(const char *s, const char *part) { return strstr(s, part) != NULL; }

/* ---- tokens ---------------------------------------------------------------------------------- */

static const struct {
  const char *text, *kinds;
} token_rows[] = {
    {"x x1 a_b_ T", "a name x;a name x1;a name a_b_;a name T;"},
    {"1 1_000 0012", "an integer 1;an integer 1000;an integer 12;"},
    {"1. .5 1e3 1.5e-3 1_0.2_5",
     "a real number 1;a number 0.5;a real number 1000;a real number 0.0015;a real number 10.25;"},
    {"3i 2.5i 1e2i", "an imaginary number 3;an imaginary number 2.5;an imaginary number 100;"},
    {"t.1.2", "a name t;a number 0.1;a number 0.2;"},
    {"a.*=b ./= .* ./ .^ %/% %", "a name a;`.*=`;a name b;`./=`;`.*`;`./`;`.^`;`%/%`;`%`;"},
    {"1.*x", "a real number 1;`*`;a name x;"},
    {"<= < == = != ! ~ += || |", "`<=`;`<`;`==`;`=`;`!=`;`!`;`~`;`+=`;`||`;`|`;"},
    {"real matrix lower // real\n/* * / */ in", "`real`;`matrix`;a name lower;`in`;"},
    {"\"a # // b\"", "a string a # // b;"},
    {"A' \\ B", "a name A;`'`;`\\`;a name B;"},
};

static void test_tokens(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof token_rows / sizeof *token_rows; k++) {
    Ctx c;
    ctx_init(&c);
    Text dump = text_make(&c.arena), kinds = text_make(&c.arena);
    stan_print_tokens(&c, &dump, "test", token_rows[k].text, strlen(token_rows[k].text));
    for (char *line = strtok(dump.s, "\n"); line; line = strtok(NULL, "\n"))
      if (!contains(line, "the end")) text_printf(&kinds, "%s;", strchr(line, ' ') + 1);
    assert_string_equal(kinds.s, token_rows[k].kinds);
    ctx_free(&c);
  }
}

/* ---- expressions ----------------------------------------------------------------------------- */

static const struct {
  const char *text, *tree;
} expr_rows[] = {
    {"a + b * c", "(+ a (* b c))"},
    {"a - b - c", "(- (- a b) c)"},
    {"a ^ b ^ c", "(^ a (^ b c))"},
    {"-a ^ b", "(- (^ a b))"},
    {"a ^ -b * c", "(* (^ a (- b)) c)"},
    {"-a * b", "(* (- a) b)"},
    {"!a == b", "(== (! a) b)"},
    {"a || b && c == d < e + f", "(|| a (&& b (== c (< d (+ e f)))))"},
    {"a ? b : c ? d : e", "(? a b (? c d e))"},
    {"a * b %/% c \\ d", "(* a (%/% b (\\ c d)))"},
    {"a .* b ./ c % d", "(% (./ (.* a b) c) d)"},
    {"a' * b'", "(* (' a) (' b))"},
    {"a'[1].2", "(field 2 (index (' a) 1))"},
    {"x[1:, 2, :3, :, , i:j]", "(index x (from 1) 2 (to 3) (all) (all) (range i j))"},
    {"f(a, g())[1]", "(index (call f a (call g)) 1)"},
    {"f(y | a, b) + g(y | )", "(+ (call f y a b) (call g y))"},
    {"{1, {2}, [3, 4], (5, 6), (7,)}", "(array 1 (array 2) (row 3 4) (tuple 5 6) (tuple 7))"},
    {"(a + b) * c", "(* (+ a b) c)"},
    {"x.1.2 + .5", "(+ (field 2 (field 1 x)) 0.5)"},
    {"target() + 1e-300", "(+ target() 1e-300)"},
};

static void test_expressions(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof expr_rows / sizeof *expr_rows; k++) {
    Ctx c;
    ctx_init(&c);
    Program *p = parse(&c, arena_format(&c.arena, "model { real q = %s; }", expr_rows[k].text));
    if (c.nerrors) fail_msg("%s: %s", expr_rows[k].text, first_error(&c));
    Text tree = text_make(&c.arena);
    stan_print_tree(&tree, p, false);
    assert_string_equal(tree.s, arena_format(&c.arena, "(model\n  (declare (q real (init %s))))\n",
                                             expr_rows[k].tree));
    ctx_free(&c);
  }
}

/* Printing an expression as source and reading it again gives the same tree. */
static void test_print_again(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof expr_rows / sizeof *expr_rows; k++) {
    Ctx c;
    ctx_init(&c);
    Program *p = parse(&c, arena_format(&c.arena, "model { real q = %s; }", expr_rows[k].text));
    Text source = text_make(&c.arena), one = text_make(&c.arena), two = text_make(&c.arena);
    stan_print_expr(&source, p->blocks[BLOCK_MODEL]->body[0]->decls[0]->init);
    Program *again = parse(&c, arena_format(&c.arena, "model { real q = %s; }", source.s));
    stan_print_tree(&one, p, false);
    stan_print_tree(&two, again, false);
    assert_int_equal(c.nerrors, 0);
    assert_string_equal(one.s, two.s);
    ctx_free(&c);
  }
}

/* ---- types ----------------------------------------------------------------------------------- */

/* What the rows below are written with: capitals depend on parameters. */
static const char *const environment =
    "data { int i; real r; complex z; vector[2] v; row_vector[2] w; matrix[2, 2] m; "
    "complex_vector[2] cv; complex_matrix[2, 2] "
    "cm;"
    " array[2] int is; array[2] real rs; array[2, 2] real rss; array[2] vector[2] vs; tuple(int, "
    "vector[2]) t; }\n"
    "parameters { real R; vector[2] V; }\n"
    "model { print(%s); }";

static const struct {
  const char *text, *type; /* with a ! when parameters reach it; NULL: an error */
} type_rows[] = {
    /* clang-format off */
    {"i + i", "int"}, {"i / i", "int"}, {"i + r", "real"}, {"r + z", "complex"}, {"i + z",
    "complex"}, {"v + v", "vector"},
    {"v + r", "vector"}, {"i - w", "row_vector"}, {"v + w", NULL}, {"v + m", NULL}, {"m * v",
    "vector"},
    {"w * m", "row_vector"}, {"w * v", "real"}, {"v * w", "matrix"}, {"v * v", NULL}, {"m * m",
    "matrix"}, {"2 * m", "matrix"},
    {"m / 2", "matrix"}, {"w / m", "row_vector"}, {"m \\ v", "vector"}, {"cm * cv",
    "complex_vector"},
    {"v + cv", "complex_vector"}, {"v .* v", "vector"}, {"v .* 2", "vector"}, {"v ./ w", NULL},
    {"2 ./ v", "vector"},
    {"i ^ i", "real"}, {"r ^ 2", "real"}, {"z ^ 2", "complex"}, {"v .^ 2", "vector"}, {"2 .^ v",
    "vector"},
    {"rs .^ 2", "array[] real"}, {"i % i", "int"}, {"i %/% i", "int"}, {"r % i", NULL}, {"r %/% i",
    NULL}, {"i < r", "int"},
    {"z == r", "int"}, {"z < r", NULL}, {"i && i", "int"}, {"v == v", NULL}, {"!i", "int"}, {"-v",
    "vector"},
    {"-rs", "array[] real"}, {"v'", "row_vector"}, {"m'", "matrix"}, {"r'", NULL}, {"is + is",
    NULL}, {"i ? i : r", "real"},
    {"i ? v : w", NULL}, {"r ? 1 : 2", NULL}, {"i ? is : rs", "array[] real"}, {"{i, r}",
    "array[] real"},
    {"{is, rs}", "array[,] real"}, {"[i, r]", "row_vector"}, {"[w, w]", "matrix"}, {"[z, 1]",
    "complex_row_vector"},
    {"[v]", NULL}, {"{v, w}", NULL}, {"(i, v)", "tuple(int, vector)"}, {"t.1", "int"}, {"t.2[1]",
    "real"},
    {"{t, (2, v)}", "array[] tuple(int, vector)"}, {"v[1]", "real"}, {"v[is]", "vector"}, {"m[1]",
    "row_vector"},
    {"m[, 1]", "vector"}, {"m[is, 1:2]", "matrix"}, {"m[1, 1]", "real"}, {"rss[1]", "array[] real"},
    {"rss[:, 1]", "array[] real"}, {"vs[1, 2]", "real"}, {"vs[is, 2]", "array[] real"},
    {"vs[1][2]", "real"},
    {"vs[:, 1:2]", "array[] vector"}, {"cm[1]", "complex_row_vector"}, {"cv[1]", "complex"},
    {"exp(i)", "real"},
    {"exp(v)", "vector"}, {"exp(vs)", "array[] vector"}, {"exp(is)", "array[] real"}, {"exp(z)",
    "complex"}, {"abs(i)", "int"},
    {"abs(z)", "real"}, {"abs(cv)", "vector"}, {"pow(v, 2)", "vector"}, {"pow(v, w)", NULL},
    {"fmax(2, rs)", "array[] real"},
    {"min(is)", "int"}, {"min(1, 2)", "int"}, {"max(v)", "real"}, {"sum(is)", "int"}, {"sum(rs)",
    "real"},
    {"rep_array(v, 2, 3)", "array[,] vector"}, {"append_array(is, rs)", "array[] real"},
    {"append_row(v, v)", "vector"},
    {"append_row(w, w)", "matrix"}, {"head(vs, 1)", "array[] vector"}, {"to_array_1d(rss)",
    "array[] real"}, {"size(t)", "int"},
    {"dims(m)", "array[] int"}, {"ldexp(v, is)", "vector"}, {"ldexp(r, is)", "array[] real"},
    {"normal_lpdf(v | 0, rs)", "real"}, {"normal_lcdf(r | 0, 1)", "real"}, {"poisson_lpmf(is | v)",
    "real"},
    {"poisson_lpmf(v | 1)", NULL}, {"multi_normal_lpdf(vs | v, m)", "real"},
    {"normal_lpmf(i | 0, 1)", NULL},
    {"binomial_logit_lcdf(1 | 2, 3)", NULL}, {"R", "real!"}, {"R + 1", "real!"}, {"V[1]", "real!"},
    {"size(V)", "int!"},
    {"R > 0", "int!"}, {"target()", "real!"},
    /* clang-format on */
};

static void test_types(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof type_rows / sizeof *type_rows; k++) {
    Ctx c;
    ctx_init(&c);
    Text source = text_make(&c.arena);
    text_printf(&source, environment, type_rows[k].text);
    Program *p = parse(&c, source.s);
    stan_check(&c, p);
    const Expr *e = p->blocks[BLOCK_MODEL]->body[0]->args[0];
    const char *found = c.nerrors ? NULL
                                  : arena_format(&c.arena, "%s%s", type_text(&c.arena, e->type),
                                                 e->data_only ? "" : "!");
    if (!type_rows[k].type && !found)
      assert_int_equal(c.nerrors, 1);
    else if (!type_rows[k].type || !found || strcmp(found, type_rows[k].type) != 0)
      fail_msg("%s is %s, not %s", type_rows[k].text, found ? found : first_error(&c),
               type_rows[k].type ? type_rows[k].type : "an error");
    ctx_free(&c);
  }
}

/* What random number generators return follows their arguments. */
static void test_rng_types(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {"normal_rng(0, 1)", "real"},
      {"normal_rng(v, 1)", "array[] real"},
      {"poisson_rng(rs)", "array[] int"},
      {"bernoulli_rng(r)", "int"},
      {"categorical_rng(v)", "int"},
      {"multi_normal_rng(v, m)", "vector"},
      {"multi_normal_rng(vs, m)", "array[] vector"},
      {"dirichlet_rng(v)", "vector"},
      {"multinomial_rng(v, 3)", "array[] int"},
      {"lkj_corr_rng(3, 2)", "matrix"},
      {"std_normal_rng()", "real"},
  };
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    Ctx c;
    ctx_init(&c);
    Program *p = parse(
        &c,
        arena_format(
            &c.arena,
            "data { real r; vector[2] v; matrix[2, 2] m; array[2] real rs; array[2] vector[2] vs; }"
            " transformed data { print(%s); }",
            rows[k][0]));
    stan_check(&c, p);
    if (c.nerrors) fail_msg("%s: %s", rows[k][0], first_error(&c));
    assert_string_equal(
        type_text(&c.arena, p->blocks[BLOCK_TRANSFORMED_DATA]->body[0]->args[0]->type), rows[k][1]);
    ctx_free(&c);
  }
}

/* Every row of the tables can be read, and has a name of its own. */
static void test_tables(void **state) {
  (void)state;
  Ctx c;
  ctx_init(&c);
  Checker *k = NEW(&c.arena, Checker);
  Map names = map_make(&c.arena);
  k->c = &c;
  for (int f = 0; f < FUN_COUNT; f++) {
    assert_non_null(sig_function(k, (FunId)f));
    assert_null(map_get(&names, stan_fun_names[f]));
    map_set(&names, stan_fun_names[f], k);
  }
  names = map_make(&c.arena);
  for (int d = 0; d < DIST_COUNT; d++) {
    unsigned flags = stan_dist_flags((DistId)d);
    assert_non_null(sig_density(k, (DistId)d));
    assert_true(((flags & PDF) != 0) != ((flags & PMF) != 0));
    assert_null(map_get(&names, stan_dist_names[d]));
    map_set(&names, stan_dist_names[d], k);
  }
  for (int op = 0; op <= OP_TRANSPOSE; op++) assert_non_null(sig_operator(k, (Operator)op));
  ctx_free(&c);
}

/* ---- what the checker leaves behind ---------------------------------------------------------- */

static void test_resolution(void **state) {
  (void)state;
  Ctx c;
  ctx_init(&c);
  Program *p = parse(
      &c,
      "functions { real f(real a, int b) { real s = a; for (i in 1:b) s += i; return s; }\n"
      "            real g_lpdf(real y, real m) { return f(y - m, 2); } }\n"
      "data { int N; } parameters { real x; corr_matrix[N] O; }\n"
      "model { x ~ normal(0, 1); x ~ g(2); real y = f(x, N) + exp(x) + normal_lcdf(x | 0, 1); }");
  stan_check(&c, p);
  assert_int_equal(c.nerrors, 0);
  Stmt *const *body = p->blocks[BLOCK_MODEL]->body;
  assert_int_equal(body[0]->call, CALL_DIST);
  assert_int_equal(body[0]->builtin, DIST_normal);
  assert_int_equal(body[1]->call, CALL_USER);
  assert_ptr_equal(body[1]->user, p->functions[1]);
  const Expr *sum = body[2]->decls[0]->init, *lcdf = sum->args[1], *f = sum->args[0]->args[0],
             *e = sum->args[0]->args[1];
  assert_int_equal(lcdf->call, CALL_DIST);
  assert_int_equal(lcdf->distfun, DF_LCDF);
  assert_ptr_equal(f->user, p->functions[0]);
  assert_int_equal(e->builtin, FUN_exp);
  assert_int_equal(p->functions[0]->nslots, 4); /* a b s i */
  assert_int_equal(p->nslots, 4);               /* N x O y */
  const Decl *omega = p->blocks[BLOCK_PARAMETERS]->body[1]->decls[0];
  assert_int_equal(omega->nsizes, 2);
  assert_ptr_equal(omega->sizes[0], omega->sizes[1]);
  ctx_free(&c);
}

/* A declaration and its definition are one function afterwards. */
static void test_forward_declaration(void **state) {
  (void)state;
  Ctx c;
  ctx_init(&c);
  Program *p =
      parse(&c, "functions { int odd(int n); int even(int n) { return n == 0 ? 1 : odd(n - 1); }\n"
                "            int odd(int n) { return n == 0 ? 0 : even(n - 1); } }");
  stan_check(&c, p);
  assert_int_equal(c.nerrors, 0);
  assert_int_equal(p->nfunctions, 2);
  assert_non_null(p->functions[0]->body);
  ctx_free(&c);
}

/* ---- hostile input --------------------------------------------------------------------------- */

static const char *const sample =
    "functions { real f_lpdf(vector y, data real s) { return -sum(y) / s; } }\n"
    "data { int<lower=0> N; array[N, 2] real x; tuple(int, real) t; }\n"
    "parameters { vector<lower=0, upper=t.2>[N] a; cholesky_factor_corr[3] L; }\n"
    "model { a ~ f(2.5e-3); for (n in 1:N) { x[n, 1] ~ normal(a[n]', 1) T[0, ]; } /* note */\n"
    "  if (N > 2 && !N) target += a[1] ? {1, 2}[1] : -3; else print(\"text\", x[:, 1]); }\n"
    "generated quantities { array[N] real y = normal_rng(to_vector(x[, 2]), a[{1, 2}]); }\n";

static void run_all(Ctx *c, const char *text, size_t n) {
  Program *p = stan_parse_text(c, "test", text, n, NULL);
  stan_check(c, p);
  Text t = text_make(&c->arena);
  stan_print_tree(&t, p, true);
}

/* Cut anywhere, and with any byte in the place of another: messages, no crash. */
static void test_mutations(void **state) {
  (void)state;
  static const char odd[] = "(){}[]<>=~|;,:.'\"/*#\\_9aT\n\xff\x01";
  size_t n = strlen(sample);
  for (size_t cut = 0; cut <= n; cut++) {
    Ctx c;
    ctx_init(&c);
    run_all(&c, arena_text(&c.arena, sample, cut), cut);
    ctx_free(&c);
  }
  for (size_t at = 0; at < n; at++)
    for (size_t k = 0; k < sizeof odd; k++) {
      Ctx c;
      ctx_init(&c);
      char *text = arena_text(&c.arena, sample, n);
      text[at] = odd[k];
      run_all(&c, text, n);
      ctx_free(&c);
    }
}

static void test_deep(void **state) {
  (void)state;
  static const struct {
    const char *before, *repeated, *after;
  } rows[] = {
      {"model { real x = ", "(", "1; }"},
      {"model { real x = ", "-", "1; }"},
      {"model { real x = 1", "+1", "; }"},
      {"model { real x = 1", "^1", "; }"},
      {"model { real x = ", "{", "1; }"},
      {"model { real x = x", "[1]", "; }"},
      {"model { real x = ", "f(", "1; }"},
      {"model { real x = ", "1 ? ", "1; }"},
      {"model { ", "{", "}"},
      {"model { ", "if (1) ", "; }"},
      {"model { ", "if (1) ; else ", "; }"},
      {"model { ", "while (1) ", "; }"},
      {"model { ", "tuple(", "; }"},
      {"data { real", "<lower=(", "; }"},
      {"model { real x = y", "'", "; }"},
  };
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    Ctx c;
    ctx_init(&c);
    Text t = text_make(&c.arena);
    text_puts(&t, rows[k].before);
    for (int i = 0; i < 100000; i++) text_puts(&t, rows[k].repeated);
    text_puts(&t, rows[k].after);
    run_all(&c, t.s, t.n);
    assert_true(c.nerrors > 0);
    ctx_free(&c);
  }
}

/* A chain that is just not too deep goes through every stage. */
static void test_deep_enough(void **state) {
  (void)state;
  Ctx c;
  ctx_init(&c);
  Text t = text_make(&c.arena);
  text_puts(&t, "model { real x = 1");
  for (int i = 0; i < MAX_HEIGHT - 2; i++) text_puts(&t, " + 1");
  text_puts(&t, "; }");
  run_all(&c, t.s, t.n);
  assert_int_equal(c.nerrors, 0);
  ctx_free(&c);
}

static void test_many_errors(void **state) {
  (void)state;
  Ctx c;
  ctx_init(&c);
  Text t = text_make(&c.arena);
  text_puts(&t, "model {");
  for (int i = 0; i < 1000; i++) text_puts(&t, " x = ;\n");
  run_all(&c, t.s, t.n);
  assert_int_equal(c.nerrors, MAX_ERRORS + 1);
  ctx_free(&c);
}

/* Running out of memory at any allocation jumps to the trap. */
static void test_memory(void **state) {
  (void)state;
  volatile bool finished = false;
  for (volatile long left = 0; !finished; left++) {
    Ctx c;
    jmp_buf trap;
    ctx_init(&c);
    c.alloc_left = left;
    c.trap = &trap;
    if (setjmp(trap) == 0) {
      run_all(&c, sample, strlen(sample));
      finished = true;
    } else
      assert_int_equal(c.status, PVI_FAILURE);
    ctx_free(&c);
    assert_true(left < 100000);
  }
}

/* ---- the programs in test/stan --------------------------------------------------------------- */

static bool is_expected(const Ctx *c, unsigned line, unsigned column, const char *text) {
  for (size_t k = 0; k < c->nmessages; k++) {
    const Message *m = &c->messages[k];
    if (m->loc.line == line && m->loc.column == column && contains(m->text, text)) return true;
  }
  return false;
}

static void check_file(const char *path) {
  Ctx c;
  jmp_buf trap;
  ctx_init(&c);
  c.trap = &trap;
  if (setjmp(trap)) fail_msg("%s: %s", path, first_error(&c));
  Program *p = stan_parse(&c, path, NULL);
  stan_check(&c, p);
  size_t expected = 0;
  bool ok = false;
  for (const char *line = p->source->text; line && *line;
       line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
    unsigned at_line, at_column;
    int text = 0;
    if (strncmp(line, "// ok", 5) == 0) ok = true;
    if (sscanf(line, "// error: %u:%u %n", &at_line, &at_column, &text) != 2 || !text) continue;
    const char *want = arena_text(&c.arena, line + text, strcspn(line + text, "\n"));
    if (!is_expected(&c, at_line, at_column, want)) {
      ctx_print(&c, stderr);
      fail_msg("%s: no error %u:%u %s", path, at_line, at_column, want);
    }
    expected++;
  }
  if (c.nerrors != expected) ctx_print(&c, stderr);
  if (c.nerrors != expected || ok != (expected == 0))
    fail_msg("%s: %zu errors, %zu expected", path, c.nerrors, expected);
  ctx_free(&c);
}

static void test_programs(void **state) {
  (void)state;
  int n = 0;
  DIR *dir = opendir("test/stan");
  if (!dir) fail_msg("run the tests in the repository's own directory");
  for (struct dirent *entry; (entry = readdir(dir));) {
    char path[512];
    if (!contains(entry->d_name, ".stan")) continue;
    snprintf(path, sizeof path, "test/stan/%s", entry->d_name);
    check_file(path);
    n++;
  }
  closedir(dir);
  assert_true(n > 30);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tokens),      cmocka_unit_test(test_expressions),
      cmocka_unit_test(test_print_again), cmocka_unit_test(test_types),
      cmocka_unit_test(test_rng_types),   cmocka_unit_test(test_tables),
      cmocka_unit_test(test_resolution),  cmocka_unit_test(test_forward_declaration),
      cmocka_unit_test(test_mutations),   cmocka_unit_test(test_deep),
      cmocka_unit_test(test_deep_enough), cmocka_unit_test(test_many_errors),
      cmocka_unit_test(test_memory),      cmocka_unit_test(test_programs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
