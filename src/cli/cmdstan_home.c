/* cmdstan_home.c: `pvi cmdstan`: makes a folder that CmdStanPy and CmdStanR take for an
 * installation of CmdStan, and stands behind its executables.
 *
 *   pvi cmdstan --install DIR          writes DIR
 *   pvi cmdstan stanc ARGUMENTS        what DIR/bin/stanc calls; stansummary and diagnose likewise
 *   pvi cmdstan model FILE ARGUMENTS   what a compiled model calls
 */
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the folder ------------------------------------------------------------------------------ */

static const char makefile[] =
    "# A home of CmdStan made by pvi: `make path/to/model` makes model.stan an executable, in no "
    "time.\n"
    "CMDSTAN_VERSION := 2.35.0\n"
    "MAKEFLAGS += -r\n"
    ".SUFFIXES:\n"
    "-include make/local\n"
    "STANCFLAGS ?=\n"
    "THREADS := src/cmdstan/main_threads.o\n"
    "ifdef USER_HEADER\n"
    "$(error pvi does not run C++: a USER_HEADER cannot be used)\n"
    "endif\n"
    "build:\n"
    "\t@echo 'nothing to build: programs are run by pvi'\n"
    "\t@echo '--- CmdStan v$(CMDSTAN_VERSION) built ---'\n"
    "clean clean-all clean-deps:\n"
    "print-%: ; @echo '$* = $($*)'\n"
    "compile_info: ; @echo 'pvi'\n"
    "bin/stansummary bin/diagnose: bin/stanc\n"
    "\t@cp $< $@\n"
    "%: %.stan\n"
    "\t$(if $(findstring s,$(firstword -$(MAKEFLAGS))),,@echo '--- Translating Stan model: pvi "
    "runs "
    "it as it is, there is no C++ ---')\n"
    "\t$(if $(findstring s,$(firstword -$(MAKEFLAGS))),,$(info bin/stanc $(STANCFLAGS) --o=$@ "
    "$<))\n"
    "\t@$(if $(STAN_THREADS),[ -e $(THREADS) ] || touch $(THREADS) || true)\n"
    "\t@bin/stanc $(STANCFLAGS) $(if $(STAN_THREADS),--threads) "
    "$(if $(STAN_NO_RANGE_CHECKS),--no-range-checks) --executable=$@ $<\n"
    "make/local makefile: ;\n"
    ".PHONY: build clean clean-all clean-deps compile_info\n";

static const char tool[] =
    "#!/bin/sh\nexec \"$(dirname \"$0\")/pvi\" cmdstan \"$(basename \"$0\")\" \"$@\"\n";

static const char bernoulli[] = "data {\n"
                                "  int<lower=0> N;\n"
                                "  array[N] int<lower=0, upper=1> y;\n"
                                "}\n"
                                "parameters {\n"
                                "  real<lower=0, upper=1> theta;\n"
                                "}\n"
                                "model {\n"
                                "  theta ~ beta(1, 1);\n"
                                "  y ~ bernoulli(theta);\n"
                                "}\n";
static const char bernoulli_data[] = "{\"N\": 10, \"y\": [0, 1, 0, 0, 0, 0, 0, 0, 0, 1]}\n";

static const struct {
  const char *path, *text; /* text NULL: a folder */
  mode_t mode;
} files[] = {
    {"", NULL, 0},
    {"bin", NULL, 0},
    {"make", NULL, 0},
    {"examples", NULL, 0},
    {"examples/bernoulli", NULL, 0},
    {"src", NULL, 0},
    {"src/cmdstan", NULL, 0},
    {"src/cmdstan/main.o", "", 0644}, /* CmdStanR looks whether it is there, and when it was made */
    {"makefile", makefile, 0644},
    {"make/local", "", 0644},
    {"bin/stanc", tool, 0755},
    {"bin/stansummary", tool, 0755},
    {"bin/diagnose", tool, 0755},
    {"examples/bernoulli/bernoulli.stan", bernoulli, 0644},
    {"examples/bernoulli/bernoulli.data.json", bernoulli_data, 0644},
};

static bool write_text(const char *path, const char *text, mode_t mode) {
  FILE *f = fopen(path, "w");
  if (!f) return false;
  bool written = fputs(text, f) >= 0;
  return !fclose(f) && written && !chmod(path, mode);
}

static int refused(const char *path) {
  fprintf(stderr, "pvi: error: cannot write '%s': %s\n", path, strerror(errno));
  return PVI_STATUS_FAILURE;
}

/* make/local is the user's: it stays as it is. */
static int write_home(const char *dir) {
  char path[PATH_MAX], self[PATH_MAX];
  if (!realpath("/proc/self/exe", self)) return refused("/proc/self/exe");
  for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
    snprintf(path, sizeof path, "%s/%s", dir, files[k].path);
    bool theirs = !strcmp(files[k].path, "make/local") && !access(path, F_OK);
    bool made = files[k].text ? theirs || write_text(path, files[k].text, files[k].mode)
                              : !mkdir(path, 0777) || errno == EEXIST;
    if (!made) return refused(path);
  }
  snprintf(path, sizeof path, "%s/bin/pvi", dir);
  unlink(path);
  return symlink(self, path) ? refused(path) : PVI_STATUS_OK;
}

int cmd_cmdstan(Cli *cli) {
  char full[PATH_MAX];
  const char *dir = pvi_get(cli->o, "install");
  if (!*dir) {
    fputs("pvi: error: missing argument (usage: pvi cmdstan --install DIR)\n", stderr);
    return PVI_STATUS_USAGE;
  }
  int status = write_home(dir);
  if (status) return status;
  const char *shown = realpath(dir, full) ? full : dir;
  printf("%s is a home of CmdStan in which pvi runs the programs.\n\n"
         "Python:  cmdstanpy.set_cmdstan_path(\"%s\")\n"
         "R:       cmdstanr::set_cmdstan_path(\"%s\")\n"
         "shell:   make -C %s /path/to/model && /path/to/model sample data file=data.json\n",
         shown, shown, shown, shown);
  return PVI_STATUS_OK;
}

/* ---- its executables ------------------------------------------------------------------------- */

static void print_now(void *self, const char *text) {
  (void)self;
  fputs(text, stdout);
  fflush(stdout);
}

/* Readers of CmdStan look for lines that begin so. What is wrong with the command line itself has
 * CmdStan's own words. */
static void say_errors(const pvi_context *c, int status) {
  for (size_t k = 0; k < pvi_messages(c); k++) {
    pvi_message m = pvi_message_at(c, k);
    bool error = !strcmp(m.kind, "error");
    bool missing = !strncmp(m.text, "the data variable '", 19);
    bool ended = !strncmp(m.text, "Optimization terminated", 23);
    if (error && status != PVI_STATUS_USAGE)
      fputs(missing ? "Exception: variable does not exist: " : "Exception: ", stderr);
    if (!error && !ended) fputs("Informational Message: ", stderr);
    fputs(m.text, stderr);
    if (m.file) fprintf(stderr, " (in '%s', line %u, column %u)", m.file, m.line, m.column);
    fputc('\n', stderr);
  }
}

static int call_model(Cli *cli, int argc, char **argv) {
  if (argc < 1) {
    fputs("pvi: error: missing argument (usage: pvi cmdstan model FILE ARGUMENTS)\n", stderr);
    return PVI_STATUS_USAGE;
  }
  watch_begin(cli, argv[0]);
  int status =
      pvi_cmdstan_model(cli->c, argv[0], argc - 1, (const char *const *)argv + 1, print_now, NULL);
  int interrupted = watch_end(cli);
  say_errors(cli->c, status);
  return interrupted ? interrupted : status ? 1 : 0;
}

/* Callers of stanc look for lines that begin so. */
static void say_warnings(const pvi_context *c) {
  for (size_t k = 0; k < pvi_messages(c); k++) {
    pvi_message m = pvi_message_at(c, k);
    fputs("Warning", stderr);
    if (m.file) fprintf(stderr, " in '%s', line %u, column %u", m.file, m.line, m.column);
    fprintf(stderr, ": %s\n", m.text);
  }
}

static int call_tool(Cli *cli, const char *name, int argc, char **argv) {
  char self[PATH_MAX], pvi[PATH_MAX + 8];
  const char **all = calloc((size_t)argc + 2, sizeof *all);
  if (!all) return PVI_STATUS_FAILURE;
  int n = 0;
  if (!strcmp(name, "stanc") && realpath("/proc/self/exe", self)) {
    snprintf(pvi, sizeof pvi, "--pvi=%s", self);
    all[n++] = pvi;
  }
  for (int k = 0; k < argc; k++) all[n++] = argv[k];
  int status = pvi_cmdstan_tool(cli->c, name, n, all, print_now, NULL);
  free(all);
  if (status)
    fputs(pvi_error(cli->c), stderr);
  else
    say_warnings(cli->c);
  return status ? 1 : 0;
}

int cmdstan_executable(int argc, char **argv) {
  Cli cli = {.c = pvi_open(), .quiet = true};
  if (!cli.c) return PVI_STATUS_FAILURE;
  bool model = !strcmp(argv[0], "model");
  int status =
      model ? call_model(&cli, argc - 1, argv + 1) : call_tool(&cli, argv[0], argc - 1, argv + 1);
  pvi_close(cli.c);
  return status;
}
