/* test_report.c: files that are whole or absent, golden texts of what other programs read, round
 * trips of what we read ourselves. */
#include "data/data.h"
#include "plot/plot.h"
#include "report/picture.h"
#include "report/report.h"
#include "report/sample_summary.h"
#include "report/table.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <signal.h>
#include <unistd.h>
/* cmocka wants these before it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* ---- a folder of one's own ------------------------------------------------------------------- */

typedef struct {
  Ctx c;
  jmp_buf trap;
  char dir[64];
  RunDir *run;
} Case;

static void remove_tree(const char *path) {
  DIR *dir = opendir(path);
  if (!dir) {
    unlink(path);
    return;
  }
  for (struct dirent *e; (e = readdir(dir));) {
    char inner[4096];
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
    remove_tree(inner);
  }
  closedir(dir);
  rmdir(path);
}

static int setup(void **state) {
  Case *t = calloc(1, sizeof *t);
  const char *base = getenv("TMPDIR");
  ctx_init(&t->c);
  snprintf(t->dir, sizeof t->dir, "%s/pvi_test_XXXXXX", base && strlen(base) < 40 ? base : "/tmp");
  if (!mkdtemp(t->dir)) return -1;
  *state = t;
  return 0;
}

static int teardown(void **state) {
  Case *t = *state;
  remove_tree(t->dir);
  ctx_free(&t->c);
  free(t);
  return 0;
}

#define TRAP(t)                                                                                    \
  do {                                                                                             \
    (t)->c.trap = &(t)->trap;                                                                      \
    if (setjmp((t)->trap)) {                                                                       \
      ctx_print(&(t)->c, stderr);                                                                  \
      fail();                                                                                      \
    }                                                                                              \
  } while (0)

typedef void Action(Case *t);

static Status attempt(Case *t, Action *action) {
  t->c.trap = &t->trap;
  if (setjmp(t->trap)) return t->c.status;
  action(t);
  return PVI_OK;
}

static const char *file_text(Case *t, const char *name) {
  const char *why = NULL;
  size_t n;
  const char *s =
      text_read_file(&t->c.arena, arena_format(&t->c.arena, "%s/%s", t->dir, name), &n, &why);
  if (!s) fail_msg("%s: %s", name, why);
  return s;
}

static int file_count(const char *path) {
  DIR *dir = opendir(path);
  int n = 0;
  for (struct dirent *e; (e = readdir(dir));)
    n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
  closedir(dir);
  return n;
}

static void expect_message(const Case *t, const char *fragment) {
  const char *text = t->c.nmessages ? t->c.messages[t->c.nmessages - 1].text : "(no message)";
  if (!strstr(text, fragment)) fail_msg("wanted: %s\ngot: %s", fragment, text);
}

/* ---- folders and files ----------------------------------------------------------------------- */

static void test_run_open(void **state) {
  Case *t = *state;
  TRAP(t);
  const char *path = arena_format(&t->c.arena, "%s/a/b//c/", t->dir);
  RunDir *r = run_open(&t->c, path);
  run_open(&t->c, path); /* again: fine */
  Text text = text_make(&t->c.arena);
  text_puts(&text, "hello\n");
  run_write(r, "x.txt", &text);
  assert_string_equal(file_text(t, "a/b/c/x.txt"), "hello\n");
  assert_int_equal(file_count(r->path), 1);
  struct stat st;
  assert_int_equal(stat(run_path(r, "x.txt"), &st), 0);
  mode_t mask = umask(0);
  umask(mask);
  assert_int_equal(st.st_mode & 0777, 0666 & ~mask);
}

static void write_old(Case *t) {
  t->run = run_open(&t->c, t->dir);
  Text text = text_make(&t->c.arena);
  text_puts(&text, "old\n");
  run_write(t->run, "f.txt", &text);
}

static void open_below_file(Case *t) {
  run_open(&t->c, arena_format(&t->c.arena, "%s/f.txt/run", t->dir));
}
static void open_file(Case *t) { run_open(&t->c, arena_format(&t->c.arena, "%s/f.txt", t->dir)); }
static void open_empty(Case *t) { run_open(&t->c, ""); }

static void test_run_open_fails(void **state) {
  Case *t = *state;
  assert_int_equal(attempt(t, write_old), PVI_OK);
  assert_int_equal(attempt(t, open_below_file), PVI_FAILURE);
  expect_message(t, "cannot make the folder '");
  expect_message(t, "f.txt/run': Not a directory");
  assert_int_equal(attempt(t, open_file), PVI_FAILURE);
  expect_message(t, "f.txt': Not a directory");
  assert_int_equal(attempt(t, open_empty), PVI_FAILURE);
  expect_message(t, "is empty");
}

static void open_unwritable(Case *t) {
  run_open(&t->c, arena_format(&t->c.arena, "%s/locked", t->dir));
}
static void open_in_unwritable(Case *t) {
  run_open(&t->c, arena_format(&t->c.arena, "%s/locked/run", t->dir));
}

static void test_unwritable(void **state) {
  Case *t = *state;
  bool root = geteuid() == 0; /* may write anywhere, so becomes somebody else meanwhile */
  assert_int_equal(mkdir(arena_format(&t->c.arena, "%s/locked", t->dir), 0500), 0);
  assert_int_equal(chmod(t->dir, 0755), 0);
  if (root && seteuid(65534)) {
    print_message("skipped: root may write anywhere\n");
    skip();
  }
  Status existing = attempt(t, open_unwritable), inside = attempt(t, open_in_unwritable);
  if (root) assert_int_equal(seteuid(0), 0);
  assert_int_equal(existing, PVI_FAILURE);
  assert_int_equal(inside, PVI_FAILURE);
  expect_message(t, "locked/run': Permission denied");
  assert_non_null(strstr(t->c.messages[0].text, "cannot write into the folder"));
  assert_non_null(strstr(t->c.messages[1].text, "cannot make the folder"));
}

/* A disk that is full, by a limit on the size of files. */
static void write_too_much(Case *t) {
  OutFile *f = file_begin(&t->c, run_path(t->run, "f.txt"));
  for (int k = 0; k < 100000; k++) file_puts(f, "0123456789");
  file_commit(f);
}

static void test_full_disk(void **state) {
  Case *t = *state;
  assert_int_equal(attempt(t, write_old), PVI_OK);
  struct rlimit before, small;
  getrlimit(RLIMIT_FSIZE, &before);
  small = before;
  small.rlim_cur = 100000;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  Status s = attempt(t, write_too_much);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_DFL);
  assert_int_equal(s, PVI_FAILURE);
  expect_message(t, "f.txt': File too large");
  assert_string_equal(file_text(t, "f.txt"), "old\n");
  assert_int_equal(file_count(t->dir), 1); /* no temporary left */
}

/* Before the commit nothing of the new file is to be seen under its name. */
static void test_half_written(void **state) {
  Case *t = *state;
  assert_int_equal(attempt(t, write_old), PVI_OK);
  TRAP(t);
  OutFile *f = file_begin(&t->c, run_path(t->run, "f.txt"));
  for (int k = 0; k < 100000; k++) file_puts(f, "new");
  assert_string_equal(file_text(t, "f.txt"), "old\n");
  file_abandon(f);
  assert_string_equal(file_text(t, "f.txt"), "old\n");
  assert_int_equal(file_count(t->dir), 1);
}

static void stop_half_way(Case *t) {
  file_puts(file_begin(&t->c, run_path(t->run, "f.txt")), "new");
  ctx_fail(&t->c, PVI_FAILURE, NOWHERE, "enough");
}

static void test_stopped_half_way(void **state) {
  Case *t = *state;
  assert_int_equal(attempt(t, write_old), PVI_OK);
  assert_int_equal(attempt(t, stop_half_way), PVI_FAILURE);
  ctx_close(&t->c);
  assert_string_equal(file_text(t, "f.txt"), "old\n");
  assert_int_equal(file_count(t->dir), 1); /* no temporary left */
}

static void write_over_folder(Case *t) {
  mkdir(run_path(t->run, "taken"), 0777);
  file_commit(file_begin(&t->c, run_path(t->run, "taken")));
}

static void test_name_taken_by_folder(void **state) {
  Case *t = *state;
  assert_int_equal(attempt(t, write_old), PVI_OK);
  assert_int_equal(attempt(t, write_over_folder), PVI_FAILURE);
  expect_message(t, "taken': Is a directory");
  assert_int_equal(file_count(t->dir), 2);
}

/* ---- CmdStan's files ------------------------------------------------------------------------- */

static const char *const draw_names[] = {"mu", "theta.1.1", "log_lik.1", "t:1.2"};
static const double draw_values[] = {0.1, 2, -3.5, NAN, 1.0 / 3, -2e-7, INFINITY, -INFINITY};
static const double log_p[] = {-1.25, -2}, log_g[] = {0.5, -0.125}, mean[] = {0.25, 1, 2, 3},
                    inv_metric[] = {1, 0.5};
static const Draws draws = {.ndraws = 2,
                            .ncols = 4,
                            .names = draw_names,
                            .values = draw_values,
                            .log_p = log_p,
                            .log_g = log_g,
                            .mean = mean};
static const ReportKey keys[] = {{"objective", "predictive"},
                                 {"score", "log"},
                                 {"family", "flow_spline"},
                                 {"lambda", "1"},
                                 {"note", "two\nlines"}};
static const CmdstanRun cmdstan_run = {.model = "golf_model",
                                       .data_file = "golf.json",
                                       .seed = 18446744073709551615u,
                                       .predictive = true,
                                       .keys = keys,
                                       .nkeys = 5,
                                       .inv_metric = inv_metric,
                                       .ninv_metric = 2};

static const char golden_variational[] = "# stan_version_major = 2\n"
                                         "# stan_version_minor = 35\n"
                                         "# stan_version_patch = 0\n"
                                         "# model = golf_model\n"
                                         "# method = variational\n"
                                         "#   variational\n"
                                         "#     algorithm = meanfield (Default)\n"
                                         "#       meanfield\n"
                                         "#     iter = 500\n"
                                         "#     grad_samples = 1 (Default)\n"
                                         "#     elbo_samples = 100 (Default)\n"
                                         "#     eta = 1 (Default)\n"
                                         "#     adapt\n"
                                         "#       engaged = 1 (Default)\n"
                                         "#       iter = 50 (Default)\n"
                                         "#     tol_rel_obj = 0.001\n"
                                         "#     eval_elbo = 100 (Default)\n"
                                         "#     output_samples = 2\n"
                                         "# id = 1 (Default)\n"
                                         "# data\n"
                                         "#   file = golf.json\n"
                                         "# init = 2 (Default)\n"
                                         "# random\n"
                                         "#   seed = 18446744073709551615\n"
                                         "# output\n"
                                         "#   file = draws.csv\n"
                                         "#   diagnostic_file =  (Default)\n"
                                         "#   refresh = 100 (Default)\n"
                                         "#   sig_figs = -1 (Default)\n"
                                         "#   profile_file = profile.csv (Default)\n"
                                         "#   save_cmdstan_config = 0 (Default)\n"
                                         "# num_threads = 1 (Default)\n"
                                         "# objective = predictive\n"
                                         "# score = log\n"
                                         "# family = flow_spline\n"
                                         "# lambda = 1\n"
                                         "# note = two lines\n"
                                         "lp__,log_p__,log_g__,mu,theta.1.1,log_lik_q.1,t:1.2\n"
                                         "# Stepsize adaptation complete.\n"
                                         "# eta = 1\n"
                                         "0,0,0,0.25,1,2,3\n"
                                         "0,-1.25,0.5,0.1,2,-3.5,nan\n"
                                         "0,-2,-0.125,0.3333333333333333,-2e-07,inf,-inf\n";

static const char golden_config[] = "{\n"
                                    "  \"stan_major_version\": \"2\",\n"
                                    "  \"stan_minor_version\": \"35\",\n"
                                    "  \"stan_patch_version\": \"0\",\n"
                                    "  \"model_name\": \"golf_model\",\n"
                                    "  \"method\": {\n"
                                    "    \"value\": \"variational\",\n"
                                    "    \"variational\": {\n"
                                    "      \"algorithm\": {\n"
                                    "        \"value\": \"meanfield\",\n"
                                    "        \"meanfield\": {}\n"
                                    "      },\n"
                                    "      \"iter\": 500,\n"
                                    "      \"grad_samples\": 1,\n"
                                    "      \"elbo_samples\": 100,\n"
                                    "      \"eta\": 1,\n"
                                    "      \"adapt\": {\n"
                                    "        \"engaged\": true,\n"
                                    "        \"iter\": 50\n"
                                    "      },\n"
                                    "      \"tol_rel_obj\": 0.001,\n"
                                    "      \"eval_elbo\": 100,\n"
                                    "      \"output_samples\": 2\n"
                                    "    }\n"
                                    "  },\n"
                                    "  \"id\": 1,\n"
                                    "  \"data\": {\n"
                                    "    \"file\": \"golf.json\"\n"
                                    "  },\n"
                                    "  \"init\": \"2\",\n"
                                    "  \"random\": {\n"
                                    "    \"seed\": 18446744073709551615\n"
                                    "  },\n"
                                    "  \"output\": {\n"
                                    "    \"file\": \"draws.csv\",\n"
                                    "    \"diagnostic_file\": \"\",\n"
                                    "    \"refresh\": 100,\n"
                                    "    \"sig_figs\": -1,\n"
                                    "    \"profile_file\": \"profile.csv\",\n"
                                    "    \"save_cmdstan_config\": false\n"
                                    "  },\n"
                                    "  \"num_threads\": 1,\n"
                                    "  \"objective\": \"predictive\",\n"
                                    "  \"score\": \"log\",\n"
                                    "  \"family\": \"flow_spline\",\n"
                                    "  \"lambda\": \"1\",\n"
                                    "  \"note\": \"two\\nlines\"\n"
                                    "}\n";

static void test_variational(void **state) {
  Case *t = *state;
  TRAP(t);
  RunDir *r = run_open(&t->c, t->dir);
  CmdstanVariational v = {.algorithm = "meanfield", .iter = 500, .tol_rel_obj = 0.001};
  cmdstan_write_variational(r, "draws", &draws, &cmdstan_run, &v);
  assert_string_equal(file_text(t, "draws.csv"), golden_variational);
  assert_string_equal(file_text(t, "draws_config.json"), golden_config);
  assert_string_equal(
      file_text(t, "draws_metric.json"),
      "{\n  \"stepsize\": 1,\n  \"metric_type\": \"diag_e\",\n  \"inv_metric\": [1, 0.5]\n}\n");
  assert_int_equal(file_count(t->dir), 3);
}

static void test_variational_plain(void **state) {
  Case *t = *state;
  TRAP(t);
  RunDir *r = run_open(&t->c, t->dir);
  Draws d = draws;
  d.mean = d.log_p = d.log_g = NULL;
  CmdstanRun run = {.model = "m_model", .start = "2024-01-02 03:04:05 UTC", .seed = 1, .id = 3};
  cmdstan_write_variational(r, "vi", &d, &run, &(CmdstanVariational){.algorithm = "fullrank"});
  const char *s = file_text(t, "vi.csv");
  assert_non_null(strstr(
      s,
      "# start_datetime = 2024-01-02 03:04:05 UTC\n# method = variational\n#   variational\n#     "
      "algorithm = fullrank\n#       fullrank\n"));
  assert_non_null(strstr(s, "# id = 3\n# data\n#   file =  (Default)\n"));
  assert_non_null(strstr(s, ",log_lik.1,")); /* ordinary VI keeps the name */
  assert_non_null(strstr(s, "# eta = 1\n0,0,0,0.2166666666666666"));
  assert_non_null(strstr(s, ",inf,nan\n0,0,0,0.1,2,-3.5,nan\n"));
  assert_int_equal(file_count(t->dir), 2); /* no metric */
}

static const char golden_sample[] = "# method = sample (Default)\n"
                                    "#   sample\n"
                                    "#     num_samples = 1\n"
                                    "#     num_warmup = 1\n"
                                    "#     save_warmup = 1\n"
                                    "#     thin = 1 (Default)\n"
                                    "#     adapt\n"
                                    "#       engaged = 1 (Default)\n"
                                    "#       gamma = 0.05 (Default)\n"
                                    "#       delta = 0.9\n"
                                    "#       kappa = 0.75 (Default)\n"
                                    "#       t0 = 10 (Default)\n"
                                    "#       init_buffer = 75 (Default)\n"
                                    "#       term_buffer = 50 (Default)\n"
                                    "#       window = 25 (Default)\n"
                                    "#       save_metric = 0 (Default)\n"
                                    "#     algorithm = hmc (Default)\n"
                                    "#       hmc\n"
                                    "#         engine = nuts (Default)\n"
                                    "#           nuts\n"
                                    "#             max_depth = 10 (Default)\n"
                                    "#         metric = diag_e (Default)\n"
                                    "#         metric_file =  (Default)\n"
                                    "#         stepsize = 1 (Default)\n"
                                    "#         stepsize_jitter = 0 (Default)\n"
                                    "#     num_chains = 1 (Default)\n"
                                    "# id = 1 (Default)\n";

static const char golden_sample_rows[] =
    "lp__,accept_stat__,stepsize__,mu,theta.1.1,log_lik.1,t:1.2\n"
    "-1.25,0.5,2,0.1,2,-3.5,nan\n"
    "# Adaptation terminated\n"
    "# Step size = 0.93\n"
    "# Diagonal elements of inverse mass matrix:\n"
    "# 1, 0.5\n"
    "-2,0.75,3,0.3333333333333333,-2e-07,inf,-inf\n"
    "# \n"
    "#  Elapsed Time: 0.007 seconds (Warm-up)\n"
    "#                0.017 seconds (Sampling)\n"
    "#                0.024 seconds (Total)\n"
    "# \n";

static void test_sample(void **state) {
  Case *t = *state;
  TRAP(t);
  RunDir *r = run_open(&t->c, t->dir);
  static const double accept[] = {0.5, 0.75}, step[] = {2, 3};
  const DrawsColumn columns[] = {{"accept_stat__", accept}, {"stepsize__", step}};
  Draws d = draws;
  d.columns = columns;
  d.ncolumns = 2;
  CmdstanRun run = cmdstan_run;
  run.predictive = false;
  run.nkeys = 0;
  CmdstanSample n = {.num_warmup = 1,
                     .num_samples = 1,
                     .save_warmup = true,
                     .delta = 0.9,
                     .stepsize = 0.93,
                     .seconds_warmup = 0.007,
                     .seconds_sampling = 0.017};
  cmdstan_write_sample(r, "nuts-1", &d, &run, &n);
  const char *s = file_text(t, "nuts-1.csv");
  assert_non_null(strstr(s, golden_sample));
  assert_string_equal(strstr(s, "lp__"), golden_sample_rows);
  const char *config = file_text(t, "nuts-1_config.json");
  assert_non_null(strstr(config, "\"engine\": {\n            \"value\": \"nuts\",\n            "
                                 "\"nuts\": {\n              \"max_depth\": 10\n"));
  assert_non_null(strstr(config, "\"metric\": {\n            \"value\": \"diag_e\"\n          },"));
  run.metric_type = "dense_e";
  run.inv_metric = (const double[]){1, 2, 3, 4};
  cmdstan_write_sample(r, "dense", &d, &run, &n);
  assert_non_null(
      strstr(file_text(t, "dense.csv"), "# Elements of inverse mass matrix:\n# 1, 2\n# 3, 4\n"));
  assert_non_null(
      strstr(file_text(t, "dense_metric.json"), "\"inv_metric\": [\n    [1, 2],\n    [3, 4]\n  ]"));
}

/* ---- our tables ------------------------------------------------------------------------------ */

static void test_trace(void **state) {
  Case *t = *state;
  TRAP(t);
  RunDir *r = run_open(&t->c, t->dir);
  FitTrace rows[] = {{0, 0.5, -10, -9, 1, 3.25, 1, NAN},
                     {1, 0.75, NAN, -INFINITY, 0, 1e-9, 0.1, NAN}};
  trace_write(r, rows, 2);
  assert_string_equal(file_text(t, "trace.csv"),
                      "iteration,seconds,objective,score,regularizer,gradient_norm,step\n"
                      "0,0.5,-10,-9,1,3.25,1\n1,0.75,nan,-inf,0,1e-09,0.1\n");
  rows[1].validation = -7;
  trace_write(r, rows, 2);
  assert_string_equal(
      file_text(t, "trace.csv"),
      "iteration,seconds,objective,score,regularizer,gradient_norm,step,validation\n"
      "0,0.5,-10,-9,1,3.25,1,nan\n1,0.75,nan,-inf,0,1e-09,0.1,-7\n");
}

static void test_scores(void **state) {
  Case *t = *state;
  TRAP(t);
  RunDir *r = run_open(&t->c, t->dir);
  const ScoreSite sites[] = {{"y", 12}, {"a,\"b\"", 13}};
  const uint32_t site[] = {0, 1, 0};
  const int part[] = {PART_TEST, PART_TRAIN, -1};
  const char *const names[] = {"log", "crps"};
  const double values[] = {-1, 0.5, -2, 0.25, NAN, INFINITY};
  ScoreTable table = {3, sites, site, part, 2, names, values};
  scores_write(r, &table);
  assert_string_equal(file_text(t, "scores.csv"),
                      "observation,site,line,part,log,crps\n1,y,12,test,-1,0.5\n2,\"a,\"\"b\"\"\","
                      "13,train,-2,0.25\n3,y,12,none,nan,inf\n");
  const Data *d = data_read(&t->c, run_path(r, "scores.csv"), NULL); /* our own reader takes it */
  assert_int_equal(data_rows(d), 3);
}

/* ---- q.json ---------------------------------------------------------------------------------- */

static uint64_t random_bits(uint64_t *s) {
  uint64_t z = (*s += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

static double *random_doubles(Arena *a, size_t n, uint64_t seed) {
  double *x = NEW_ARRAY(a, double, n + 1);
  for (size_t k = 0; k < n; k++) {
    uint64_t bits = random_bits(&seed);
    memcpy(&x[k], &bits, sizeof bits);
    if (isnan(x[k])) x[k] = NAN;
  }
  return x;
}

static void expect_same_array(const QFile *q, const QArray *want) {
  const QArray *a = q_array(&q->parameters, want->name);
  assert_non_null(a);
  assert_int_equal(q_array_count(a), q_array_count(want));
  if (want->rows > 1) {
    assert_int_equal(a->shape, want->shape);
    assert_int_equal(a->rows, want->rows);
  }
  for (size_t k = 0; k < q_array_count(want); k++)
    assert_true(memcmp(&a->values[k], &want->values[k], sizeof(double)) == 0 ||
                (isnan(a->values[k]) && isnan(want->values[k])));
}

static void round_trip(Case *t, size_t d, uint64_t seed) {
  Arena *a = &t->c.arena;
  const char **names = NEW_ARRAY(a, const char *, d + 1);
  for (size_t k = 0; k < d; k++)
    names[k] = k ? arena_format(a, "theta.%zu", k) : "inf"; /* a name like a number */
  double nans[] = {NAN, NAN, INFINITY, 1};
  const QArray arrays[] = {
      {"mean", Q_VECTOR, d, 1, random_doubles(a, d, seed)},
      {"cholesky", Q_LOWER, d, d, random_doubles(a, d * (d + 1) / 2, seed + 1)},
      {"knots", Q_MATRIX, 3, d, random_doubles(a, 3 * d, seed + 2)},
      {"df", Q_SCALAR, 1, 1, random_doubles(a, 1, seed + 3)},
      {"odd", Q_SCALAR, 1, 1, nans},
      {"rows", Q_MATRIX, 2, 2, nans},
      {"words", Q_VECTOR, 3, 1, nans},
  };
  const ReportKey words[] = {{"score", "log"}, {"note", "a \"quoted\"\nword"}};
  const QArray shape[] = {{"components", Q_SCALAR, 1, 1, (const double[]){2}}};
  QFile q = {.family = "fullrank",
             .dim = d,
             .names = names,
             .columns = names,
             .ncolumns = d,
             .keys = words,
             .nkeys = 2,
             .shape = {shape, 1},
             .parameters = {arrays, sizeof arrays / sizeof *arrays}};
  RunDir *r = run_open(&t->c, t->dir);
  q_write(r, &q);
  const QFile *back = q_read(&t->c, run_path(r, "q.json"));
  assert_string_equal(back->family, "fullrank");
  assert_int_equal(back->dim, d);
  for (size_t k = 0; k < d; k++) assert_string_equal(back->names[k], names[k]);
  assert_int_equal(back->ncolumns, d);
  for (size_t k = 0; k < d; k++) assert_string_equal(back->columns[k], names[k]);
  assert_true(q_number(&back->shape, "components", 0) == 2 &&
              q_number(&back->shape, "rank", 7) == 7);
  for (size_t k = 0; k < q.parameters.count; k++) expect_same_array(back, &arrays[k]);
  assert_string_equal(q_key(back, "note"), "a \"quoted\"\nword");
  assert_null(q_key(back, "absent"));
  assert_null(q_array(&back->parameters, "absent"));
}

static void test_q_round_trip(void **state) {
  Case *t = *state;
  TRAP(t);
  static const size_t dims[] = {1, 2, 5, 40};
  for (size_t k = 0; k < sizeof dims / sizeof *dims; k++) round_trip(t, dims[k], 100 * k);
}

static void test_q_text(void **state) {
  Case *t = *state;
  TRAP(t);
  RunDir *r = run_open(&t->c, t->dir);
  const char *const names[] = {"mu", "tau"};
  const QArray arrays[] = {{"mean", Q_VECTOR, 2, 1, (const double[]){1, 2.5}},
                           {"cholesky", Q_LOWER, 2, 2, (const double[]){1, 0.5, 2}}};
  QFile q = {.family = "fullrank", .dim = 2, .names = names, .parameters = {arrays, 2}};
  q_write(r, &q);
  assert_string_equal(
      file_text(t, "q.json"),
      "{\n  \"format\": \"pvi-q\",\n  \"version\": 2,\n  \"family\": \"fullrank\",\n  \"dim\": 2,\n"
      "  \"names\": [\"mu\", \"tau\"],\n  \"keys\": {},\n  \"shape\": {},\n  \"scoring\": {},\n"
      "  \"parameters\": {\n    \"mean\": [1, "
      "2.5],\n"
      "    \"cholesky\": [\n      [1],\n      [0.5, 2]\n    ]\n  }\n}\n");
}

static const char *bad_q_text;
static void read_bad_q(Case *t) {
  const Source source = {.name = "q.json", .text = bad_q_text, .length = strlen(bad_q_text)};
  q_read_source(&t->c, &source);
}

static void test_bad_q(void **state) {
  Case *t = *state;
  static const char *const rows[][2] = {
      {"[1]", "\"format\": \"pvi-q\" is missing"},
      {"{\"family\":\"x\"}", "\"format\": \"pvi-q\" is missing"},
      {"{\"format\":\"pvi-q\"}", "'version' is missing"},
      {"{\"format\":\"pvi-q\",\"version\":1,\"dim\":1}",
       "of another version of pvi (format 1, not 2)"},
      {"{\"format\":\"pvi-q\",\"version\":2,\"dim\":1.5}", "'dim' is a number of dimensions"},
      {"{\"format\":\"pvi-q\",\"version\":2,\"dim\":1}", "'family' is missing"},
      {"{\"format\":\"pvi-q\",\"version\":2,\"dim\":1,\"family\":3}", "'family' is a number"},
      {"{\"format\":\"pvi-q\",\"version\":2,\"dim\":1,\"family\":\"f\",\"names\":[\"a\",\"b\"]}",
       "there are 2 names for 1 dimensions"},
      {"{\"format\":\"pvi-q\",\"version\":2,\"dim\":1,\"family\":\"f\"}", "'shape' is missing"},
      {"{\"format\":\"pvi-q\",\"version\":2,\"dim\":1,\"family\":\"f\",\"shape\":{},\"scoring\":{},"
       "\"parameters\":{\"m\":\"x\"}"
       "}",
       "'m' has a string among its numbers"},
      {"{\"format\":\"pvi-q\",\"version\":2,\"dim\":1,\"family\":\"f\",\"shape\":{},\"scoring\":{},"
       "\"parameters\":{\"m\":[[1],["
       "2,3],[4]]}}",
       "neither a vector, a matrix nor a lower triangle"},
      {"{\"format\":\"pvi-q\",\"version\":2,\"dim\":1,\"family\":\"f\",\"shape\":{},\"scoring\":{},"
       "\"parameters\":{\"m\":[[[1]]"
       "]}}",
       "more than two dimensions"},
      {"{\"format\":\"pvi-q\",\"version\":2,\"dim\":1,\"family\":\"f\",\"shape\":{},\"scoring\":{},"
       "\"parameters\":{\"m\":[1,[2]"
       "]}}",
       "neither a vector"},
      {"{\"format\":\"pvi-q\",\"version\":2,\"dim\":1", "found the end of the file"},
  };
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    bad_q_text = rows[k][0];
    assert_int_equal(attempt(t, read_bad_q), PVI_DATA);
    expect_message(t, rows[k][1]);
  }
}

static void test_truncated_q(void **state) {
  Case *t = *state;
  static const char text[] =
      "{\"format\":\"pvi-q\",\"version\":2,\"dim\":2,\"family\":\"f\",\"names\":[\"a\",\"inf\"],"
      "\"keys\":{\"k\":\"v\"},\"shape\":{},\"scoring\":{},\"parameters\":{\"m\":[[1],[2,\"nan\"]]}"
      "}";
  for (size_t k = 0; k <= strlen(text); k++) {
    char *cut = malloc(k + 1);
    memcpy(cut, text, k);
    cut[k] = 0;
    bad_q_text = cut;
    assert_int_equal(attempt(t, read_bad_q), k == strlen(text) ? PVI_OK : PVI_DATA);
    free(cut);
  }
}

/* ---- summary --------------------------------------------------------------------------------- */

static const char golden_summary[] = "{\n"
                                     "  \"version\": \"0.1.0\",\n"
                                     "  \"program\": \"golf.stan\",\n"
                                     "  \"data\": null,\n"
                                     "  \"seed\": 18446744073709551615,\n"
                                     "  \"score\": \"log\",\n"
                                     "  \"family\": \"meanfield\",\n"
                                     "  \"regularizer\": \"prior\",\n"
                                     "  \"lambda\": 1,\n"
                                     "  \"integration\": \"draws\",\n"
                                     "  \"draws\": 100,\n"
                                     "  \"nodes\": 0,\n"
                                     "  \"optimizer\": \"lbfgs\",\n"
                                     "  \"converged\": true,\n"
                                     "  \"interrupted\": false,\n"
                                     "  \"reason\": \"gradient\",\n"
                                     "  \"objective\": -12.5,\n"
                                     "  \"evaluations\": 40,\n"
                                     "  \"iterations\": 30,\n"
                                     "  \"seconds\": 0.25,\n"
                                     "  \"n_obs\": 19,\n"
                                     "  \"dim\": 2,\n"
                                     "  \"scores\": {\n"
                                     "    \"train\": {\n"
                                     "      \"log\": {\n"
                                     "        \"sum\": -6,\n"
                                     "        \"mean\": -2,\n"
                                     "        \"se\": 0.5773502691896257,\n"
                                     "        \"n\": 3\n"
                                     "      }\n"
                                     "    },\n"
                                     "    \"test\": {\n"
                                     "      \"log\": {\n"
                                     "        \"sum\": -1,\n"
                                     "        \"mean\": -1,\n"
                                     "        \"se\": \"nan\",\n"
                                     "        \"n\": 1\n"
                                     "      }\n"
                                     "    }\n"
                                     "  },\n"
                                     "  \"parameters\": [\n"
                                     "    {\n"
                                     "      \"name\": \"theta[2,1]\",\n"
                                     "      \"mean\": 1,\n"
                                     "      \"sd\": 0.5,\n"
                                     "      \"q5\": 0.1,\n"
                                     "      \"q50\": 1,\n"
                                     "      \"q95\": \"inf\"\n"
                                     "    }\n"
                                     "  ],\n"
                                     "  \"notes\": [\n"
                                     "    \"a note\"\n"
                                     "  ],\n"
                                     "  \"counters\": {\n"
                                     "    \"nonfinite\": 3\n"
                                     "  },\n"
                                     "  \"starts\": [\n"
                                     "    {\n"
                                     "      \"name\": \"vi\",\n"
                                     "      \"objective\": -13\n"
                                     "    }\n"
                                     "  ],\n"
                                     "  \"stages\": [\n"
                                     "    {\n"
                                     "      \"draws\": 100,\n"
                                     "      \"objective\": -12,\n"
                                     "      \"fresh_objective\": -12.5,\n"
                                     "      \"gap\": 0.5\n"
                                     "    }\n"
                                     "  ]\n"
                                     "}\n";

static void test_summary(void **state) {
  Case *t = *state;
  TRAP(t);
  const SummaryScore train = summary_score("log", (const double[]){-1, -2, -3}, 3),
                     test = summary_score("log", (const double[]){-1}, 1);
  const SummaryParameter parameter = {"theta[2,1]", 1, 0.5, 0.1, 1, INFINITY, NAN, NAN, NAN};
  const char *const notes[] = {"a note"};
  const SummaryCounter counter = {"nonfinite", 3};
  const FitStart start = {"vi", -13};
  const FitStage stage = {100, -12, -12.5, 0.5};
  Summary s = {.version = "0.1.0",
               .program = "golf.stan",
               .seed = 18446744073709551615u,
               .score = "log",
               .family = "meanfield",
               .regularizer = "prior",
               .lambda = 1,
               .draws = 100,
               .optimizer = "lbfgs",
               .converged = true,
               .reason = "gradient",
               .objective = -12.5,
               .evaluations = 40,
               .iterations = 30,
               .seconds = 0.25,
               .n_obs = 19,
               .dim = 2,
               .parts = {{&train, 1}, {NULL, 0}, {&test, 1}},
               .parameters = &parameter,
               .nparameters = 1,
               .notes = notes,
               .nnotes = 1,
               .counters = &counter,
               .ncounters = 1,
               .starts = &start,
               .nstarts = 1,
               .stages = &stage,
               .nstages = 1};
  summary_write(run_open(&t->c, t->dir), &s);
  assert_string_equal(file_text(t, "summary.json"), golden_summary);
  Text empty = text_make(&t->c.arena);
  summary_json(&empty, &(Summary){0});
  assert_non_null(strstr(
      empty.s, "\"scores\": {},\n  \"parameters\": [],\n  \"notes\": [],\n  \"counters\": {},\n"));
}

/* ---- the summary of chains ------------------------------------------------------------------- */

static SampleSummary some_sample(void) {
  static SummaryScore train, test;
  static const LooSummary loo = {-6.5, -2.25, 0.5, 3, 0.5, 1000, 0.75, 1};
  static const SampledVariable variables[] = {
      {{"mu", 1, 0.5, 0.1, 1, 2, NAN, NAN, NAN}, {1.001, 1.002, 4000, 3000, 0.01}},
      {{"theta[2,1]", 7, 0, 7, 7, 7, NAN, NAN, NAN}, {NAN, NAN, NAN, NAN, NAN}}};
  train = summary_score("log", (const double[]){-1, -2, -3}, 3);
  test = summary_score("log", (const double[]){-1}, 1);
  return (SampleSummary){.version = "0.1.0",
                         .program = "golf.stan",
                         .seed = 9007199254740992u,
                         .method = "lanes",
                         .chains = 32,
                         .warmup = 150,
                         .draws = 250,
                         .thin = 2,
                         .metric = "dense",
                         .step = 0.75,
                         .trajectory = 1.5,
                         .jumps = 3,
                         .start = "random points",
                         .evaluations = 123456,
                         .seconds = 1.5,
                         .seconds_start = 0.25,
                         .seconds_warmup = 0.5,
                         .seconds_sampling = 0.75,
                         .trusted = true,
                         .interrupted = true,
                         .verdict = "\"words\"",
                         .divergences = 3,
                         .deepest = 4,
                         .bfmi = 0.875,
                         .rhat = 1.001,
                         .ess_bulk = 4000,
                         .ess_tail = INFINITY,
                         .n_obs = 4,
                         .dim = 2,
                         .parts = {{&train, 1}, {NULL, 0}, {&test, 1}},
                         .loo = &loo,
                         .variables = variables,
                         .nvariables = 2};
}

static const char *sample_text(Case *t, const SampleSummary *s) {
  Text out = text_make(&t->c.arena);
  sample_summary_json(&out, s);
  return out.s;
}

static void write_text(Case *t, const char *text) {
  Text out = text_make(&t->c.arena);
  text_puts(&out, text);
  run_write(run_open(&t->c, t->dir), "summary.json", &out);
}

static const SampleSummary *read_again(Case *t) {
  return sample_summary_read(&t->c, arena_format(&t->c.arena, "%s/summary.json", t->dir));
}

/* What is written is read to the same struct: written again, it is the same text. */
static void test_sample_summary(void **state) {
  Case *t = *state;
  TRAP(t);
  SampleSummary whole = some_sample(),
                bare = {.version = "0.1.0", .bfmi = NAN, .trajectory = NAN, .jumps = NAN};
  const SampleSummary *const rows[] = {&whole, &bare};
  for (int k = 0; k < 2; k++) {
    const char *text = sample_text(t, rows[k]);
    write_text(t, text);
    assert_string_equal(sample_text(t, read_again(t)), text);
  }
  const SampleSummary *r = (write_text(t, sample_text(t, &whole)), read_again(t));
  assert_true(r->seed == 9007199254740992u && r->trusted && r->interrupted && !r->data);
  assert_true(r->deepest == 4 && isinf(r->ess_tail) && r->loo->bad == 1 && r->loo->worst == 0.75);
  assert_true(isnan(r->variables[1].quality.rhat) && r->variables[0].quality.mcse == 0.01);
  assert_string_equal(r->verdict, "\"words\"");
  const Summary *plain = sample_summary_plain(&t->c, r);
  assert_true(plain->nparameters == 2 && plain->parts[PART_TEST].scores[0].sum == -1);
}

static void read_sample(Case *t) { read_again(t); }

/* A key that is not there is missed, and named; but those that may be absent, and truths, which
 * are then not so. */
static void test_sample_summary_lacks(void **state) {
  Case *t = *state;
  static const char *const may[] = {"trajectory", "jumps",       "rhat_nested",
                                    "converged",  "interrupted", "loo",
                                    "train",      "test",        "log"};
  SampleSummary whole = some_sample();
  const char *text = sample_text(t, &whole);
  size_t found = 0;
  for (const char *at = strchr(text, '"'); at; at = strchr(at, '"')) {
    const char *end = strchr(at + 1, '"');
    bool key = end[1] == ':', optional = false;
    char *damaged = (char *)arena_text(&t->c.arena, text, strlen(text)), name[64] = "";
    if (key) snprintf(name, sizeof name, "%.*s", (int)(end - at - 1), at + 1);
    for (size_t k = 0; k < sizeof may / sizeof *may; k++) optional |= !strcmp(name, may[k]);
    damaged[at - text + 1] = '#';
    at = end + 1;
    if (!key) continue;
    found++;
    write_text(t, damaged);
    if (optional) continue;
    t->c.nmessages = t->c.nerrors = 0;
    assert_int_equal(attempt(t, read_sample), PVI_DATA);
    assert_non_null(strstr(t->c.messages[t->c.nmessages - 1].text, name));
  }
  assert_true(found > 60);
}

static void test_summary_parameters(void **state) {
  Case *t = *state;
  TRAP(t);
  double values[11 * 3];
  for (int m = 0; m < 11; m++) {
    values[3 * m] = 10 - m;
    values[3 * m + 1] = m == 5 ? (double)NAN : m;
    values[3 * m + 2] = 7;
  }
  const char *const names[] = {"a", "b.1.2", "x.1:2.3"};
  const Draws d = {.ndraws = 11, .ncols = 3, .names = names, .values = values};
  const SummaryParameter *p = summary_parameters(&t->c, &d, d.ncols);
  assert_string_equal(p[0].name, "a");
  assert_string_equal(p[1].name, "b[1,2]");
  assert_string_equal(p[2].name, "x[1].2[3]");
  assert_true(p[0].mean == 5 && fabs(p[0].sd - sqrt(11)) < 1e-12 && p[0].q5 == 0.5 &&
              p[0].q50 == 5 && p[0].q95 == 9.5);
  assert_true(isnan(p[1].mean) && isnan(p[1].q5) && isnan(p[1].q95));
  assert_true(p[2].sd == 0 && p[2].q5 == 7 && p[2].q95 == 7);
}

/* ---- terminals ------------------------------------------------------------------------------- */

static void test_table_format(void **state) {
  (void)state;
  static const struct {
    double x;
    int digits;
    const char *text;
  } rows[] = {{0, 3, "0"},
              {1, 3, "1.00"},
              {-1.2345, 3, "-1.23"},
              {123.456, 3, "123"},
              {12345.6, 3, "12346"},
              {0.001234, 3, "0.00123"},
              {0.00001234, 3, "1.23e-05"},
              {1.234e9, 2, "1.2e+09"},
              {NAN, 3, "nan"},
              {INFINITY, 3, "inf"},
              {-INFINITY, 3, "-inf"},
              {1234.5678, 6, "1234.57"}};
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    char s[64];
    table_format(s, sizeof s, rows[k].x, rows[k].digits);
    assert_string_equal(s, rows[k].text);
  }
}

static void test_table(void **state) {
  Case *t = *state;
  static const char *const headers[] = {"model", "score", "n"};
  Text out = text_make(&t->c.arena);
  Table *table = table_make(&t->c.arena, 3, headers);
  table_word(table, "h\xC3\xA9llo");
  table_number(table, -1234.5, 3);
  table_integer(table, 7);
  table_word(table, "x");
  table_number(table, 0.0123, 3);
  table_integer(table, 12345);
  table_word(table, "longer name");
  table_number(table, NAN, 3);
  table_word(table, "-");
  table_print(table, 100, &out);
  assert_string_equal(out.s, "model             score      n\n"
                             "h\xC3\xA9llo        -1234           7\n"
                             "x                0.0123  12345\n"
                             "longer name    nan           -\n");
}

static void test_summary_table(void **state) {
  Case *t = *state;
  Text out = text_make(&t->c.arena);
  SummaryParameter rows[] = {{"alpha", 1.23456, 0.1, 1.1, 1.2, 1.4, NAN, NAN, NAN},
                             {"beta[1]", -1000.126, 0.02, -1000.2, -1000.1, -1000, NAN, NAN, NAN},
                             {"z", 0, 1, -1, 0, 1, NAN, NAN, NAN}};
  Summary s = {.parameters = rows, .nparameters = 3};
  summary_table(&out, &s, 2, 100);
  assert_string_equal(out.s, "              mean      sd         5%        50%        95%\n"
                             "alpha        1.23   0.100       1.10       1.20       1.40\n"
                             "beta[1]  -1000.126  0.0200  -1000.200  -1000.100  -1000.000\n"
                             "... and 1 more (summary.json has all)\n");
  rows[0].bayes_mean = 1.2, rows[0].bayes_sd = 0.01;
  s.nparameters = 1;
  out = text_make(&t->c.arena);
  summary_table(&out, &s, 0, 120);
  assert_string_equal(out.s, "       mean     sd  Bayes mean  Bayes sd  sd ratio\n"
                             "alpha  1.23  0.100       1.200    0.0100      10.0\n"
                             "q describes the population from which predictions are made, not what "
                             "is uncertain about it: that is Bayes.\n");
}

static void test_progress_line(void **state) {
  (void)state;
  char s[200];
  progress_line(s, sizeof s, 79, &(ProgressState){"fit", "objective -12.5", 25, 100, 10});
  assert_string_equal(s, "fit   25%  objective -12.5  0:30 left");
  progress_line(s, sizeof s, 79, &(ProgressState){"fit", "", 10, 3610, 1});
  assert_string_equal(s, "fit    0%  6:00 left");
  progress_line(s, sizeof s, 79, &(ProgressState){"fit", "", 1, 4000, 1});
  assert_string_equal(s, "fit    0%  1:06:39 left");
  progress_line(s, sizeof s, 79, &(ProgressState){"fit", "done", 100, 100, 65});
  assert_string_equal(s, "fit  100%  done  1:05");
  progress_line(s, sizeof s, 79, &(ProgressState){"fit", "x", 7, 0, 5});
  assert_string_equal(s, "fit  x  0:05");
  assert_int_equal(
      progress_line(s, sizeof s, 5, &(ProgressState){"h\xC3\xA9llo world", "x", 7, 0, 5}), 6);
  assert_string_equal(s, "h\xC3\xA9llo");
}

/* Two parameters moved, one did not: a picture of the two, the one that moved more first. */
static void test_picture(void **state) {
  Case *t = *state;
  Text out = text_make(&t->c.arena);
  SummaryParameter rows[] = {{"a", 1, 0.1, 0.8, 1, 1.2, 1, 0.1, 0},
                             {"b", 1, 2, -2, 1, 4, 1, 1, 0},
                             {"sigma", 2, 1, 0, 2, 4, 2, 0.25, 0}};
  Summary s = {.parameters = rows, .nparameters = 3};
  picture_moved(&out, &s, 31);
  assert_string_equal(out.s, "\nwhat moved most: 5% to 95% under Bayes and under q\n"
                             "sigma\n"
                             "  Bayes           |=o=|\n"
                             "  q       |---------o---------|\n"
                             "          0                4.00\n"
                             "b\n"
                             "  Bayes        |====o====|\n"
                             "  q       |---------o---------|\n"
                             "          -2.00            4.00\n");
  for (size_t k = 0; k < 3; k++) rows[k].bayes_sd = rows[k].bayes_mean = NAN;
  out = text_make(&t->c.arena);
  picture_moved(&out, &s, 31);
  assert_int_equal(out.n, 0);
}

/* A table that is too wide: headers are broken at words, then columns go below, the first one with
 * them; a name that leaves no room takes lines of its own. No line is longer than what is asked,
 * whatever that is, and no cell is lost. */
static void test_narrow_table(void **state) {
  Case *t = *state;
  static const char *const headers[] = {"fit", "gain held out", "se", "difference to the best"};
  for (size_t width = 22; width < 70; width++) {
    Table *table = table_make(&t->c.arena, 4, headers);
    table_word(table, "linear, PVI with a long name");
    table_number(table, -12.25, 4);
    table_number(table, 0.5, 2);
    table_written(table, "+1234.50");
    table_word(table, "b");
    table_number(table, 3, 4);
    table_word(table, "");
    table_written(table, "");
    Text out = text_make(&t->c.arena);
    table_print(table, width, &out);
    for (const char *line = out.s; *line; line += strcspn(line, "\n") + 1) {
      size_t n = strcspn(line, "\n");
      assert_true(n <= width);
      assert_true(!n || line[n - 1] != ' ');
    }
    static const char *const words[] = {"-12.25", "0.50", "+1234.50", "3.00", "name", "held"};
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
      assert_non_null(strstr(out.s, words[k]));
  }
}

/* What rises from one start and falls to another is two runs; noise is none. */
static void test_last_run(void **state) {
  Case *t = *state;
  const double y[] = {-9, -5, -3, -2.9, -8, -4, -3, -2.5, -2.4, -2.39};
  assert_int_equal(trace_last_run(&t->c.arena, y, 10), 4);
  assert_int_equal(trace_last_run(&t->c.arena, y, 4), 0);
  double noisy[200];
  for (size_t k = 0; k < 200; k++) noisy[k] = -5 / (1.0 + (double)k) + 0.1 * sin(37.0 * (double)k);
  assert_int_equal(trace_last_run(&t->c.arena, noisy, 200), 0);
}

/* Of 11 values one is left below the range, -7 to 0: eighths of it are blocks. */
static void test_course(void **state) {
  Case *t = *state;
  const double y[] = {-100, -7, -6, -5, -4, -3, -2, -1, 0, 0, 0};
  Text out = text_make(&t->c.arena);
  picture_course(&out, y, 11, 60);
  assert_string_equal(out.s, "\nobjective of the last 11 iterations, up to 0:\n  ▁▁▂▃▄▅▆▇███\n");
  out = text_make(&t->c.arena);
  picture_course(&out, (double[]){1, 1, 1, 1, 1}, 5, 60);
  picture_course(&out, y, 3, 60);
  assert_int_equal(out.n, 0);
}

/* Rows with names, the first at the top; a name that has no room is cut. Numbers on the axis keep
 * clear of its name, however long they are. */
static void test_plot_rows(void **state) {
  Case *t = *state;
  const char *names[] = {"a",
                         "a name <that> is & far too long to stand beside a figure of this width"};
  Plot *p = plot_make(&t->c.arena, &(PlotText){"rows", "gain", "", "two rows"});
  plot_y_names(p, names, 2);
  plot_spans(p, PLOT_FIRST, (double[]){0, 1}, (double[]){-1, -2}, (double[]){1, 2}, 2);
  plot_dots(p, PLOT_FIRST, &(PlotPoints){(double[]){0, 0.5}, (double[]){0, 1}, 2});
  Text out = text_make(&t->c.arena);
  plot_svg(p, &out);
  const char *first = strstr(out.s, ">a</text>"), *second = strstr(out.s, "a name &lt;that&gt;");
  assert_true(first && second && first < second);
  assert_non_null(strstr(second, "...</text>"));
  double top, bottom, x;
  const char *dot = strstr(out.s, "<circle");
  assert_int_equal(sscanf(dot, "<circle cx=\"%lf\" cy=\"%lf\"", &x, &top), 2);
  assert_int_equal(sscanf(strstr(dot + 1, "<circle"), "<circle cx=\"%lf\" cy=\"%lf\"", &x, &bottom),
                   2);
  assert_true(top < bottom && x < 480);
  p = plot_make(&t->c.arena, &(PlotText){"numbers", "x", "y", "long numbers"});
  plot_line(p, PLOT_FIRST, &(PlotPoints){(double[]){0, 1}, (double[]){-352.958, -352.95}, 2});
  out = text_make(&t->c.arena);
  plot_svg(p, &out);
  const char *axis = strstr(out.s, "<path d=\"M");
  assert_int_equal(sscanf(axis, "<path d=\"M%lf", &x), 1);
  assert_true(x > 26 + 6 * 8); /* -352.958 has eight characters */
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_run_open),
      TEST(test_run_open_fails),
      TEST(test_unwritable),
      TEST(test_full_disk),
      TEST(test_half_written),
      TEST(test_stopped_half_way),
      TEST(test_name_taken_by_folder),
      TEST(test_variational),
      TEST(test_variational_plain),
      TEST(test_sample),
      TEST(test_trace),
      TEST(test_scores),
      TEST(test_q_round_trip),
      TEST(test_q_text),
      TEST(test_bad_q),
      TEST(test_truncated_q),
      TEST(test_summary),
      TEST(test_sample_summary),
      TEST(test_sample_summary_lacks),
      TEST(test_summary_parameters),
      TEST(test_table_format),
      TEST(test_table),
      TEST(test_summary_table),
      TEST(test_picture),
      TEST(test_narrow_table),
      TEST(test_last_run),
      TEST(test_course),
      TEST(test_plot_rows),
      TEST(test_progress_line),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
