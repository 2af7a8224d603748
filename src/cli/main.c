/* main.c: pvi COMMAND ...: finds the command, reads its command line, runs it. */
#include "cli/cli.h"

#include <string.h>
#include <unistd.h>

const Command commands[] = {
#define COMMAND(id, usage, least, most, summary, description, examples)                            \
  {#id, usage, least, most, summary, description, examples, cmd_##id},
#include "cli/commands.def"
#undef COMMAND
};
const size_t ncommands = sizeof commands / sizeof *commands;

int cli_said(Cli *cli, int status) {
  fputs(pvi_error(cli->c), stderr);
  return status;
}

static const Command *find(const char *name) {
  for (size_t k = 0; k < ncommands; k++)
    if (!strcmp(commands[k].name, name)) return &commands[k];
  return NULL;
}

static int run_command(const Command *command, int argc, char **argv) {
  int status = PVI_STATUS_FAILURE;
  Cli cli = {.c = pvi_open()};
  pvi_option_prefix(cli.c, "--");
  cli.o = pvi_options_new(cli.c);
  if (!cli.o)
    fputs(cli.c && *pvi_error(cli.c) ? pvi_error(cli.c) : "pvi: error: out of memory\n", stderr);
  else if (args_read(&cli, command, argc, argv, &status))
    status = command->run(&cli);
  pvi_options_free(cli.o);
  pvi_close(cli.c);
  return status;
}

/* A program's or a run's file where the command belongs. */
static int forgotten_command(const char *file) {
  size_t n = strlen(file);
  bool program = n > 5 && !strcmp(file + n - 5, ".stan");
  fprintf(stderr, "pvi: error: %s is no command: write pvi %s (pvi --help lists the commands)\n",
          file, program ? "check, pvi fit or pvi sample before it" : "and a command before it");
  return PVI_STATUS_USAGE;
}

/* Unknown commands are answered as unknown options are: by the library's one wording. */
static int unknown_command(const char *name) {
  const char *names[64], *hint = hint_of(name);
  if (hint) {
    fprintf(stderr, "pvi: error: there is no command \"%s\"; here it is %s\n", name, hint);
    return PVI_STATUS_USAGE;
  }
  if (!access(name, F_OK)) return forgotten_command(name);
  for (size_t k = 0; k < ncommands; k++) names[k] = commands[k].name;
  pvi_context *c = pvi_open();
  int status = pvi_unknown(c, "command", name, names, ncommands);
  if (c) fputs(pvi_error(c), stderr);
  pvi_close(c);
  return status;
}

static int dispatch(int argc, char **argv) {
  if (argc < 2) {
    help_commands(stderr);
    return PVI_STATUS_USAGE;
  }
  const char *first = argv[1];
  if (!strcmp(first, "--help") || !strcmp(first, "-h") || !strcmp(first, "help")) {
    const Command *of = argc > 2 ? find(argv[2]) : NULL;
    if (of)
      help_command(stdout, of);
    else
      help_commands(stdout);
    return PVI_STATUS_OK;
  }
  if (!strcmp(first, "--version")) {
    printf("pvi %s\n", pvi_version());
    return PVI_STATUS_OK;
  }
  if (!strcmp(first, "cmdstan") && argc > 2 && argv[2][0] != '-')
    return cmdstan_executable(argc - 2, argv + 2);
  const Command *command = find(first);
  return command ? run_command(command, argc - 2, argv + 2) : unknown_command(first);
}

int main(int argc, char **argv) {
  int status = dispatch(argc, argv);
  if (fflush(stdout) || ferror(stdout)) {
    fputs("pvi: error: cannot write to standard output\n", stderr);
    if (status == PVI_STATUS_OK) status = PVI_STATUS_FAILURE;
  }
  return status;
}
