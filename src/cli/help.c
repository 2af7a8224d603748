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

static void put_option(FILE *to, const pvi_option *o, size_t width) {
  enum { LEFT = 28 };
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

void help_command(FILE *to, const Command *c) {
  size_t width = help_width();
  const char *group = NULL;
  fprintf(to, "usage: pvi %s %s\n\n", c->name, c->usage);
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
    fprintf(to, "  %.*s\n", (int)strcspn(line, "\n"), line);
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
