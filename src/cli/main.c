/* main.c: pvi COMMAND ...: finds the command, runs it under one trap, prints what it had to say. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  const char *name;
  Status (*run)(Ctx *c, int argc, char **argv);
  const char *summary;
} CommandRow;

static const CommandRow commands[] = {
    {"check", cmd_check,
     "errors of a program; its parameters, observations and loops; any stage as text"},
    {"density", cmd_density,
     "log density, gradient, prior, likelihood and pointwise terms at given points"},
    {"fit", cmd_fit, "the distribution of parameters whose predictions score best; a run folder"},
    {"compare", cmd_compare,
     "several fits side by side: scores, gains over VI, means and standard deviations"},
    {"bench", cmd_bench, "what one evaluation of the objective costs"},
};
enum { NCOMMANDS = sizeof commands / sizeof *commands };

static void print_usage(FILE *to) {
  fputs("usage: pvi COMMAND ...\n\nPredictive variational inference for Stan "
        "programs.\n\ncommands:\n",
        to);
  for (int k = 0; k < NCOMMANDS; k++)
    fprintf(to, "  %-10s %s\n", commands[k].name, commands[k].summary);
  fputs("\n`pvi COMMAND --help` tells a command's options. `pvi --version` prints the version.\n"
        "exit codes: 0 ok, 1 failure, 2 usage, 3 data, 4 program, 5 did not converge\n",
        to);
}

static Status dispatch(Ctx *c, int argc, char **argv) {
  if (argc < 2) {
    print_usage(stderr);
    return PVI_USAGE;
  }
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
    print_usage(stdout);
    return PVI_OK;
  }
  if (!strcmp(argv[1], "--version")) {
    puts("pvi " PVI_VERSION);
    return PVI_OK;
  }
  const char *names[NCOMMANDS];
  for (int k = 0; k < NCOMMANDS; k++) {
    if (!strcmp(argv[1], commands[k].name)) return commands[k].run(c, argc - 2, argv + 2);
    names[k] = commands[k].name;
  }
  const char *near = text_nearest(argv[1], names, NCOMMANDS);
  ctx_fail(c, PVI_USAGE, NOWHERE, "unknown command \"%s\"%s%s (pvi --help lists all)", argv[1],
           near ? "; did you mean " : "", near ? near : "");
}

/* For the torture build: PVI_FAIL_ALLOC=k lets the k-th allocation of memory fail. */
static long allowed_allocations(void) {
  const char *s = getenv("PVI_FAIL_ALLOC");
  return s && *s ? strtol(s, NULL, 10) : -1;
}

int main(int argc, char **argv) {
  Ctx c;
  ctx_init(&c);
  c.alloc_left = allowed_allocations();
  c.option_prefix = "--";
  jmp_buf here;
  volatile Status status = PVI_FAILURE;
  if (setjmp(here)) {
    status = c.status;
  } else {
    c.trap = &here;
    status = dispatch(&c, argc, argv);
  }
  c.trap = NULL;
  ctx_print(&c, stderr);
  ctx_free(&c);
  if (fflush(stdout) || ferror(stdout)) {
    fputs("pvi: error: cannot write to standard output\n", stderr);
    if (status == PVI_OK) status = PVI_FAILURE;
  }
  return (int)status;
}
