/* cmdstan_run.c: one call of a model executable: the program in the file that was called, the
 * arguments, the data, and then the method (cmdstan_run.h). */
#include "run/cmdstan_run.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void console_say(const Console *o, Ctx *c, const char *fmt, ...) {
  TempArena *temp = temp_open(c);
  Text t = text_make(&temp->arena);
  va_list ap;
  va_start(ap, fmt);
  text_vprintf(&t, fmt, ap);
  va_end(ap);
  o->print(o->self, t.s ? t.s : "");
  temp_close(temp);
}

static const struct {
  const char *name;
  CmdstanMethod *run;
} methods[] = {
    {"sample", cmdstan_sample},         {"optimize", cmdstan_optimize},
    {"laplace", cmdstan_laplace},       {"variational", cmdstan_variational},
    {"pathfinder", cmdstan_pathfinder}, {"generate_quantities", cmdstan_generate},
    {"log_prob", cmdstan_log_prob},     {"diagnose", cmdstan_diagnose},
};

/* ---- the executable -------------------------------------------------------------------------- */

/* The program stands in the file behind a line that begins so, and names the model; the word
 * "threads" follows where it was compiled with STAN_THREADS, "unchecked" with STAN_NO_RANGE_CHECKS
 * (which changes nothing: indices are always checked). */
static const char mark[] = "#pvi model ";

typedef struct {
  const char *name, *program;
  bool threads, unchecked;
} Executable;

static Executable read_executable(Ctx *c, const char *path) {
  const char *why;
  size_t n;
  const char *text = text_read_file(&c->arena, path, &n, &why);
  if (!text) ctx_fail(c, PVI_DATA, NOWHERE, "cannot read '%s': %s", path, why);
  const char *at = strstr(text, mark);
  if (!at || (at > text && at[-1] != '\n'))
    ctx_fail(c, PVI_DATA, NOWHERE,
             "'%s' is no model executable of pvi: compile the program again (make)", path);
  at += strlen(mark);
  size_t length = strcspn(at, " \n"), line = strcspn(at, "\n");
  const char *words = arena_text(&c->arena, at + length, line - length);
  return (Executable){.name = arena_text(&c->arena, at, length),
                      .program = at + line + (at[line] == '\n'),
                      .threads = strstr(words, " threads") != NULL,
                      .unchecked = strstr(words, " unchecked") != NULL};
}

/* Messages call the program by the file it came from. */
static const char *program_name(Ctx *c, const char *model) {
  size_t n = strlen(model), tail = strlen("_model");
  bool usual = n > tail && !strcmp(model + n - tail, "_model");
  return arena_format(&c->arena, "%.*s.stan", (int)(usual ? n - tail : n), model);
}

/* ---- what needs no method -------------------------------------------------------------------- */

static void say_info(Ctx *c, const Console *out, const Executable *e) {
  console_say(out, c,
              "stan_version_major = " CMDSTAN_MAJOR "\nstan_version_minor = " CMDSTAN_MINOR
              "\nstan_version_patch = " CMDSTAN_PATCH "\nSTAN_THREADS=%s\nSTAN_MPI=false\n"
              "STAN_OPENCL=false\nSTAN_NO_RANGE_CHECKS=%s\nSTAN_CPP_OPTIMS=false\n"
              "pvi_version = " PVI_VERSION "\n",
              e->threads ? "true" : "false", e->unchecked ? "true" : "false");
}

static bool say_help(Ctx *c, const Console *out) {
  Text t = text_make(&c->arena);
  cmdstan_help(&t);
  out->print(out->self, t.s);
  return true;
}

/* ---- the call -------------------------------------------------------------------------------- */

static uint64_t seed_of(CmdstanArgs *args) {
  if (!*args->value[ARG_seed])
    cmdstan_set(args, ARG_seed, "%llu",
                ((unsigned long long)time(NULL) * 2654435761u ^ (unsigned long long)getpid()) %
                    4294967295u);
  return strtoull(args->value[ARG_seed], NULL, 10);
}

/* output file=dir/base.csv; without an ending, .csv is added. */
static void place_output(CmdstanCall *k) {
  const char *path = k->args->value[ARG_output_file], *slash = strrchr(path, '/'),
             *name = slash ? slash + 1 : path;
  size_t n = strlen(name);
  bool csv = n > 4 && !strcmp(name + n - 4, ".csv");
  k->base = arena_text(&k->c->arena, name, csv ? n - 4 : n);
  k->dir = NEW(&k->c->arena, RunDir);
  *k->dir = (RunDir){
      k->c, slash ? arena_text(&k->c->arena, path, (size_t)(slash - path) + (slash == path)) : "."};
}

static const char *now(Ctx *c) {
  char text[64];
  time_t t = time(NULL);
  struct tm utc;
  gmtime_r(&t, &utc);
  strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc);
  return arena_text(&c->arena, text, strlen(text));
}

/* The program is a text, the data are a file. */
static const Problem *load(CmdstanCall *k, const char *program) {
  const char *data = k->args->value[ARG_data_file];
  Options *o = options_make(&k->c->arena);
  options_set(k->c, o, "old-syntax", "true"); /* as older brms writes programs */
  return problem_load(k->c,
                      &(ProblemSource){.program = program,
                                       .data = *data ? data : NULL,
                                       .text = true,
                                       .data_is_file = true,
                                       .seed = k->seed,
                                       .name = program_name(k->c, k->name)},
                      o);
}

static void say_settings(const CmdstanCall *k) {
  Text t = text_make(&k->c->arena);
  cmdstan_print(&t, k->args, NULL, "");
  text_puts(&t, "\n");
  k->out->print(k->out->self, t.s);
}

/* Of a program that has profiles; nothing is measured here, so the file has its header alone. */
static void write_profile(const CmdstanCall *k) {
  const char *path = k->args->value[ARG_profile_file];
  bool any = false;
  for (int b = 0; b < BLOCK_COUNT; b++) any |= stan_has(k->model->program->blocks[b], ST_PROFILE);
  if (!any) return;
  OutFile *f = file_begin(k->c, path);
  file_puts(f, "name,thread_id,total_time,forward_time,reverse_time,chain_stack,no_chain_stack,"
               "autodiff_calls,no_autodiff_calls\n");
  file_commit(f);
}

static bool run_method(CmdstanCall *k) {
  for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
    if (cmdstan_is(k->args, ARG_method, methods[m].name)) return methods[m].run(k);
  return false;
}

/* The environment may say how many. */
static void set_threads(const CmdstanCall *k) {
  const char *threads = getenv("STAN_NUM_THREADS");
  if (threads && *threads && cmdstan_is(k->args, ARG_num_threads, "1"))
    cmdstan_set(k->args, ARG_num_threads, "%ld", strtol(threads, NULL, 10));
}

/* What transformed data printed. */
static void say_printed(const CmdstanCall *k) {
  size_t kept = 0;
  for (size_t i = 0; i < k->c->nmessages; i++) {
    if (k->c->messages[i].kind == MSG_NOTE)
      console_say(k->out, k->c, "%s\n", k->c->messages[i].text);
    else
      k->c->messages[kept++] = k->c->messages[i];
  }
  k->c->nmessages = kept;
}

bool cmdstan_call(Ctx *c, const Console *out, const char *program, int argc,
                  const char *const *argv, const RunHooks *h) {
  CmdstanCall k = {.c = c, .out = out, .args = cmdstan_args(&c->arena), .hooks = *h};
  Executable e = read_executable(c, program);
  k.name = e.name;
  if (argc == 1 && !strcmp(argv[0], "info")) {
    say_info(c, out, &e);
    return true;
  }
  if (argc > 0 && (!strcmp(argv[argc - 1], "help") || !strcmp(argv[argc - 1], "help-all")))
    return say_help(c, out);
  cmdstan_read(c, k.args, argc, argv);
  k.seed = seed_of(k.args);
  set_threads(&k);
  place_output(&k);
  say_settings(&k);
  k.run = (CmdstanRun){.args = k.args, .model = k.name, .start = now(c), .seed = k.seed};
  if (cmdstan_is(k.args, ARG_method, "sample")) cmdstan_sample_begin(&k);
  k.problem = load(&k, e.program);
  k.model = k.problem->model;
  say_printed(&k);
  long asked = cmdstan_whole(k.args, ARG_num_threads);
  k.pool = pool_make(c, asked > 0 ? (int)asked : 0);
  bool done = run_method(&k);
  pool_free(k.pool);
  write_profile(&k);
  if (cmdstan_flag(k.args, ARG_save_cmdstan_config))
    cmdstan_write_config(k.dir, k.base, &k.run, k.args);
  return done;
}
