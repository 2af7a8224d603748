/* help.c: --help, from the tables of commands and options, wrapped to the terminal. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { NARROWEST = 50, WITHOUT_TERMINAL = 100 };

/* What the environment says, then the terminal; less than NARROWEST cannot be kept. */
size_t help_width(void) {
  struct winsize w;
  const char *said = getenv("COLUMNS");
  long columns = said ? strtol(said, NULL, 10) : 0;
  if (columns < 1 && isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0)
    columns = w.ws_col;
  if (columns < 1 || columns > 1000) return WITHOUT_TERMINAL;
  return columns < NARROWEST ? NARROWEST : (size_t)columns;
}

void help_wrap(FILE *to, const char *text, size_t at, size_t indent, size_t width) {
  bool first = true;
  for (const char *word = text; *word;) {
    size_t n = strcspn(word, " ");
    if (!first && at + 1 + n > width) {
      fprintf(to, "\n%*s", (int)indent, "");
      at = indent;
      first = true;
    }
    fprintf(to, "%s%.*s", first ? "" : " ", (int)n, word);
    at += n + !first;
    first = false;
    word += n + strspn(word + n, " ");
  }
  fputc('\n', to);
}

/* The words of a choice may take several lines: they break behind a bar. */
static void put_choices(FILE *to, const char *name, const char *words, size_t width) {
  size_t at = (size_t)fprintf(to, "  --%s ", name), indent = at;
  for (const char *p = words; *p;) {
    size_t n = strcspn(p, "|");
    n += p[n] == '|';
    if (at + n > width && at > indent) {
      fprintf(to, "\n%*s", (int)indent, "");
      at = indent;
    }
    fprintf(to, "%.*s", (int)n, p);
    at += n;
    p += n;
  }
  fputc('\n', to);
}

/* Where there is little room, what an option does stands below its name. */
static void put_option(FILE *to, const pvi_option *o, size_t width) {
  const size_t LEFT = width < 80 ? 6 : 28;
  char text[640];
  bool choice = !strcmp(o->kind, "choice");
  size_t at = 0;
  if (choice)
    put_choices(to, o->name, o->value, width);
  else
    at = (size_t)fprintf(to, "  --%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
  if (at + 2 > LEFT) fputc('\n', to), at = 0;
  fprintf(to, "%*s", (int)(LEFT - at), "");
  bool many = !strcmp(o->kind, "names") || !strcmp(o->kind, "list");
  snprintf(text, sizeof text, "%s%s%s%s%s", o->help, many ? "; may be repeated" : "",
           *o->byself ? " (default " : "", o->byself, *o->byself ? ")" : "");
  help_wrap(to, text, LEFT, LEFT, width);
}

/* A command of the shell, which goes on behind a backslash. */
static void put_command(FILE *to, const char *line, size_t width) {
  size_t at = (size_t)fprintf(to, " ");
  for (size_t n; *line && *line != '\n'; line += n + (line[n] == ' ')) {
    n = strcspn(line, " \n");
    size_t behind = line[n] == ' ' ? 2 : 0;
    if (at > 6 && at + 1 + n + behind > width) at = (size_t)fprintf(to, " \\\n     ") - 3;
    at += (size_t)fprintf(to, " %.*s", (int)n, line);
  }
  fputc('\n', to);
}

void help_command(FILE *to, const Command *c) {
  size_t width = help_width();
  const char *group = NULL;
  size_t at = (size_t)fprintf(to, "usage: pvi %s ", c->name);
  help_wrap(to, c->usage, at, at, width);
  fputc('\n', to);
  help_wrap(to, c->description, 0, 0, width);
  for (size_t k = 0; k < pvi_option_count(); k++) {
    pvi_option o = pvi_option_at(k);
    if (!args_takes(&o, c)) continue;
    if (!group || strcmp(group, o.group)) fprintf(to, "\n%s:\n", o.group);
    group = o.group;
    put_option(to, &o, width);
  }
  fputs("\nexamples:\n", to);
  for (const char *line = c->examples; *line; line += strcspn(line, "\n") + 1)
    put_command(to, line, width);
}

void help_commands(FILE *to) {
  enum { LEFT = 14 };
  size_t width = help_width();
  fputs("usage: pvi COMMAND ...\n\nPredictive variational inference for Stan.\n\n"
        "to begin (data are JSON, CSV or a dump of R):\n"
        "  pvi check model.stan data.json  # read as meant?\n"
        "  pvi fit model.stan data.json\n"
        "  pvi report pvi-runs/model-log   # an HTML page\n"
        "\ncommands:\n",
        to);
  for (size_t k = 0; k < ncommands; k++) {
    fprintf(to, "  %-*s", LEFT - 2, commands[k].name);
    help_wrap(to, commands[k].summary, LEFT, LEFT, width);
  }
  fputc('\n', to);
  help_wrap(to,
            "`pvi COMMAND --help` tells a command's options. `pvi --version` prints the version.",
            0, 0, width);
  help_wrap(
      to,
      "exit codes: 0 ok, 1 failure, 2 usage, 3 data, 4 program, 5 did not converge, 130 and 143 "
      "interrupted by Ctrl-C and SIGTERM",
      0, 12, width);
}
