/* cli.h: the command line: argv -> pvi.h -> printing. It uses nothing of the library but pvi.h. */
#ifndef PVI_CLI_H
#define PVI_CLI_H

#include "pvi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { MOST_PLACES = 64 };

/* One call of the program: a context, the options, and the arguments that are no options. */
typedef struct {
  pvi_context *c;
  pvi_options *o;
  const char *place[MOST_PLACES];
  size_t nplaces;
  bool json, quiet, resume, report;
  const char *setting; /* an option that says what is computed, not what is printed; or NULL */
} Cli;

typedef struct {
  const char *name, *usage;
  size_t least, most;
  const char *summary, *description, *examples;
  int (*run)(Cli *cli); /* returns the exit code */
} Command;

extern const Command commands[];
extern const size_t ncommands;

#define COMMAND(id, ...) int cmd_##id(Cli *cli);
#include "cli/commands.def"
#undef COMMAND

/* args.c: reads argv behind the command's name. False: *status is the exit code (--help, a
 * mistake). */
bool args_read(Cli *cli, const Command *command, int argc, char **argv, int *status);
/* Is it an option of the command? */
bool args_takes(const pvi_option *o, const Command *command);

/* hints.c: what to write instead of a command or "--option" of another program, or NULL. */
const char *hint_of(const char *word);

/* help.c */
void help_commands(FILE *to);
void help_command(FILE *to, const Command *c);
size_t help_width(void); /* columns of the terminal; 100 where there is none */
/* A text broken at words; lines after the first are indented by `indent`, and the first begins at
 * column `at`. */
void help_wrap(FILE *to, const char *text, size_t at, size_t indent, size_t width);

/* manual.c */
void manual_page(FILE *to);
void manual_markdown(FILE *to);
void completion_bash(FILE *to);
void completion_zsh(FILE *to);

/* watch.c: while a fit runs: a line of progress, and what Ctrl-C does. */
void watch_begin(Cli *cli, const char *label);
int watch_end(Cli *cli); /* 128 + the signal that came, or 0 */

/* cmdstan_home.c: `pvi cmdstan WORD ...` with CmdStan's own arguments. */
int cmdstan_executable(int argc, char **argv);

/* Messages of the last call go to stderr; returns the status. */
int cli_said(Cli *cli, int status);

#endif
