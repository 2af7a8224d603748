/* test_compare.c: no option of `pvi compare` is without effect: each either changes what is said,
 * or is refused in words, for programs and for runs. And the sum of scores is the sum of its parts.
 */
#include "testing.h"

#include "run/compare.h"
#include "run/options.h"
#include "run/reports.h"
#include "run/run.h"

/* The folder of the tests, where everything is written. */
static char folder[] = "/tmp/pvi-compare-XXXXXX";

#define PROGRAM(include, y)                                                                        \
  "data { int N; vector[N] x; " y " array[N] int g; }\n"                                           \
  "parameters { real a; real b; real<lower=0> s; }\n"                                              \
  "model {\n" include "  b ~ normal(0, 5);\n  s ~ normal(0, 2);\n  y ~ normal(a + b * x, s);\n}\n"

static void write_text(const char *name, const char *text) {
  FILE *f = fopen(name, "w");
  if (!f) fail_msg("cannot write %s", name);
  fputs(text, f);
  fclose(f);
}

static int make_files(void **state) {
  (void)state;
  if (!mkdtemp(folder) || chdir(folder) != 0) return -1;
  uint64_t seed = 4;
  FILE *f = fopen("data.json", "w");
  if (!f) return -1;
  fputs("{\"N\": 40, \"x\": [", f);
  for (int k = 0; k < 40; k++) fprintf(f, "%s%.3f", k ? ", " : "", uniform(&seed, -2, 2));
  fputs("], \"y\": [", f);
  for (int k = 0; k < 40; k++)
    fprintf(f, "%s%.3f", k ? ", " : "", k % 4 ? uniform(&seed, -1, 1) : uniform(&seed, -9, 9));
  fputs("], \"g\": [", f);
  for (int k = 0; k < 40; k++) fprintf(f, "%s%d", k ? ", " : "", k % 5 + 1);
  fputs("]}", f);
  fclose(f);
  write_text("plain.stan", PROGRAM("  a ~ normal(0, 5);\n", "vector[N] y;"));
  write_text("old.stan", PROGRAM("  a ~ normal(0, 5);\n", "real y[N];"));
  write_text("parts.stan", PROGRAM("#include more.stan\n", "vector[N] y;"));
  if (system("mkdir inside") != 0) return -1;
  write_text("inside/more.stan", "  a ~ normal(0, 5);\n");
  write_text("split.json", "{\"train\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], \"test\": [11, 12, 13]}");
  return 0;
}

static int remove_files(void **state) {
  (void)state;
  if (chdir("/") != 0) return -1;
  char command[sizeof folder + 16];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

/* ---- one comparison -------------------------------------------------------------------------- */

typedef struct {
  const char *const *places;
  size_t n;
  const char *option, *value; /* NULL: none */
  bool models;
  Text out;
} Question;

static void compare_asked(Ctx *c, void *arg) {
  Question *a = arg;
  Options *o = options_make(&c->arena);
  options_set(c, o, "threads", "1");
  if (a->models) options_set(c, o, "lambda", "0.1"); /* one fit, not a path of them */
  if (a->option) options_set(c, o, a->option, a->value);
  RunHooks h = {0};
  report_comparison(c, a->places, a->n, o, &h, &a->out);
}

/* What is said, or why it is refused. */
static const char *said(Ctx *c, const char *const *places, size_t n, const char *option,
                        const char *value) {
  Ctx own;
  ctx_init(&own);
  Question a = {
      places, n, option, value, strstr(places[0], ".stan") != NULL, text_make(&own.arena)};
  Status s = attempt(&own, compare_asked, &a);
  const char *text = s != PVI_OK && own.nmessages ? own.messages[own.nmessages - 1].text
                     : a.out.n                    ? a.out.s
                                                  : "";
  const char *kept = arena_format(&c->arena, "%s", text);
  ctx_free(&own);
  return kept;
}

/* ---- every option ---------------------------------------------------------------------------- */

/* A value that must not go unnoticed, and the program that notices it. */
typedef struct {
  const char *option, *value, *program;
} OptionUse;

static const OptionUse uses[] = {
    {"score", "crps", "plain.stan"},
    {"regularize", "prior", "plain.stan"},
    {"lambda", "0.5", "plain.stan"},
    {"free", "s", "plain.stan"},
    {"methods", "pvi,vi", "plain.stan"},
    {"stack", "true", "plain.stan"},
    {"alpha", "0.3", "plain.stan"},
    {"metric", "pinball", "plain.stan"},
    {"family", "meanfield", "plain.stan"},
    {"integrate", "draws", "plain.stan"},
    {"draws", "40", "plain.stan"},
    {"seed", "3", "plain.stan"},
    {"set", "N=39", "plain.stan"},
    {"include", "inside", "parts.stan"},
    {"old-syntax", "true", "old.stan"},
    {"observe", "4", "plain.stan"},
    {"unit", "group:g", "plain.stan"},
    {"split", "split.json", "plain.stan"},
    {"holdout", "0.3", "plain.stan"},
    {"folds", "3", "plain.stan"},
    {"vars", "s", "plain.stan"},
    {"parameters", "1", "plain.stan"},
    {"json", "true", "plain.stan"},
    {"report", "true", "plain.stan"},
    {"page", "page.html", "plain.stan"},
    {"plots", "figures", "plain.stan"},
    {"csv", "true", "plain.stan"},
    {"width", "60", "plain.stan"},
    {"threads", "3", NULL}, /* results do not depend on it */
};

static const OptionUse *use_of(const OptionRow *row) {
  for (size_t k = 0; k < sizeof uses / sizeof *uses; k++)
    if (!strcmp(uses[k].option, row->name)) return &uses[k];
  fail_msg("say in this test what " OPTION("%s") " does in pvi compare", row->name);
  return NULL;
}

TEST(options_of_programs) {
  const char *plain = said(c, (const char *const[]){"plain.stan", "data.json"}, 2, NULL, NULL);
  for (size_t k = 0; k < OPTION_COUNT; k++) {
    const OptionRow *row_ = option_row(k);
    if (!option_of_command(row_, "compare")) continue;
    const OptionUse *u = use_of(row_);
    const char *const places[] = {u->program ? u->program : "plain.stan", "data.json"};
    bool other = u->program && strcmp(u->program, "plain.stan") != 0;
    const char *base = other ? said(c, places, 2, NULL, NULL) : plain,
               *now = said(c, places, 2, u->option, u->value);
    if ((strcmp(base, now) == 0) != (u->program == NULL))
      fail_msg(OPTION("%s") " %s: %s", u->option, u->value, now);
  }
}

static void fit_run_of(Ctx *c, void *arg) {
  const char *name = arg;
  Options *o = options_make(&c->arena);
  options_set(c, o, "score", name);
  options_set(c, o, "lambda", "0.1");
  options_set(c, o, "out", name);
  const Problem *p =
      problem_load(c, &(ProblemSource){.program = "plain.stan", .data = "data.json"}, o);
  run_fit(c, p, o, NULL, &(RunHooks){0});
}

/* Runs are fitted: what is not about showing them is refused by its name. */
TEST(options_of_runs) {
  const char *const places[] = {"elbo", "log"};
  for (size_t k = 0; k < 2; k++) {
    Ctx own;
    ctx_init(&own);
    assert_int_equal(attempt(&own, fit_run_of, (void *)places[k]), PVI_OK);
    ctx_free(&own);
  }
  const char *base = said(c, places, 2, NULL, NULL);
  for (size_t k = 0; k < OPTION_COUNT; k++) {
    const OptionRow *row_ = option_row(k);
    if (!option_of_command(row_, "compare")) continue;
    const OptionUse *u = use_of(row_);
    const char *now = said(c, places, 2, u->option, u->value);
    bool shows = !strcmp(row_->group, "output") || k == OPTION_stack, same = !strcmp(base, now),
         refused = strstr(now, arena_format(&c->arena, "%s says how programs", u->option));
    if (k == OPTION_threads ? !same : shows ? same || refused : !refused)
      fail_msg(OPTION("%s") " %s: %s", u->option, u->value, now);
  }
}

/* ---- sums of scores -------------------------------------------------------------------------- */

/* sum,difference,se of a fit in the CSV form. */
static double sum_in(const char *csv, const char *fit, const char *score) {
  char begin[128];
  snprintf(begin, sizeof begin, "\"%s\",%s,", fit, score);
  const char *line = strstr(csv, begin);
  if (!line) fail_msg("no line of %s in %s", begin, csv);
  line = strchr(line + strlen(begin) + 1, '"');
  return strtod(line + 2, NULL);
}

static void compare_sum(Ctx *c, void *arg) {
  Question *a = arg;
  Options *o = options_make(&c->arena);
  options_set(c, o, "score", "log:0.5,interval:2");
  options_set(c, o, "methods", "vi,pvi,nuts");
  options_set(c, o, "lambda", "0.1");
  options_set(c, o, "csv", "true");
  report_comparison(c, (const char *const[]){"plain.stan", "data.json"}, 2, o, &(RunHooks){0},
                    &a->out);
}

/* Every fit is compared by the sum, whoever maximises it. */
TEST(sums_are_of_all_fits) {
  static const char *const fits[] = {"plain, VI", "plain, PVI", "plain, Bayes"};
  Question a = {.out = text_make(&c->arena)};
  compare_sum(c, &a);
  for (size_t k = 0; k < 3; k++)
    assert_close(sum_in(a.out.s, fits[k], "0.5 log + 2 interval"),
                 0.5 * sum_in(a.out.s, fits[k], "log") + 2 * sum_in(a.out.s, fits[k], "interval"),
                 1e-9);
}

/* ---- contradictions -------------------------------------------------------------------------- */

typedef struct {
  const char *name, *options[2][2], *words;
} Contradiction;
static const Contradiction contradictions[] = {
    {"lambda without a predictive method",
     {{"methods", "vi,nuts"}, {"lambda", "0.1"}},
     "is of predictive fits"},
    {"a score without the method pvi",
     {{"methods", "vi,log"}, {"score", "crps"}},
     "what the method pvi maximises"},
    {"VI twice", {{"methods", "vi,pvi"}, {"score", "elbo"}}, "that is the method vi"},
    {"weights in CSV", {{"csv", "true"}, {"stack", "true"}}, "goes without"},
};

static void compare_contradiction(Ctx *c, void *arg) {
  const Contradiction *x = arg;
  Options *o = options_make(&c->arena);
  for (int k = 0; k < 2; k++) options_set(c, o, x->options[k][0], x->options[k][1]);
  Text out = text_make(&c->arena);
  report_comparison(c, (const char *const[]){"plain.stan", "data.json"}, 2, o, &(RunHooks){0},
                    &out);
}

TEST(contradictions_are_refused) {
  Ctx own;
  ctx_init(&own);
  const Contradiction *x = row;
  assert_int_equal(attempt(&own, compare_contradiction, (void *)x), PVI_USAGE);
  expect_message(&own, x->words);
  ctx_free(&own);
}

int main(void) {
  Suite s = {.n = 0};
  SUITE_ADD(&s, options_of_programs);
  SUITE_ADD(&s, options_of_runs);
  SUITE_ADD(&s, sums_are_of_all_fits);
  for (size_t k = 0; k < sizeof contradictions / sizeof *contradictions; k++)
    suite_add(&s, contradictions[k].name, contradictions_are_refused, &contradictions[k]);
  return _cmocka_run_group_tests("compare", s.items, s.n, make_files, remove_files);
}
