/* args.c: a command line against the rows of options. */
#include "cli/cli.h"

#include <string.h>
#include <unistd.h>

bool args_takes(const pvi_option *o, const Command *command) {
  size_t n = strlen(command->name);
  for (const char *p = o->commands; *p; p += strcspn(p, " "), p += strspn(p, " "))
    if (strcspn(p, " ") == n && !strncmp(p, command->name, n)) return true;
  return false;
}

static bool find(const char *name, size_t n, pvi_option *out) {
  for (size_t k = 0; k < pvi_option_count(); k++) {
    *out = pvi_option_at(k);
    if (strlen(out->name) == n && !strncmp(out->name, name, n)) return true;
  }
  return false;
}

/* An option that other commands have: which ones? */
static int option_of_others(const Command *command, const pvi_option *o) {
  fprintf(stderr, "pvi: error: --%s is not an option of pvi %s (pvi %s --help lists all), but of",
          o->name, command->name, command->name);
  for (size_t k = 0, n = 0; k < ncommands; k++)
    if (args_takes(o, &commands[k])) fprintf(stderr, "%s pvi %s", n++ ? "," : "", commands[k].name);
  fputs("\n", stderr);
  return PVI_STATUS_USAGE;
}

static int known_elsewhere(const char *word, const char *hint) {
  fprintf(stderr, "pvi: error: unknown option \"%.*s\"; here it is %s\n", (int)strcspn(word, "="),
          word, hint);
  return PVI_STATUS_USAGE;
}

/* "data file=x.json": CmdStan's way of writing arguments, unless there is such a file. */
static bool is_cmdstan(const char *word) { return strchr(word, '=') && access(word, F_OK); }

static int not_cmdstan(const Command *command, const char *word) {
  fprintf(
      stderr,
      "pvi: error: \"%s\" is written as for CmdStan; here it is pvi %s MODEL DATA --option value "
      "(pvi cmdstan --install DIR makes models that take CmdStan's arguments)\n",
      word, command->name);
  return PVI_STATUS_USAGE;
}

static int misused(const Command *command, const char *what, const char *word) {
  fprintf(stderr, "pvi: error: %s%s%s%s (pvi %s --help lists all)\n", what, *word ? " \"" : "",
          word, *word ? "\"" : "", command->name);
  return PVI_STATUS_USAGE;
}

/* Options that do not change what a run computes. */
static bool is_printing(const char *name) {
  static const char *const names[] = {"resume", "json", "quiet", "width",
                                      "report", "page", "plots"};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if (!strcmp(names[k], name)) return true;
  return false;
}

/* --name=value, --name value or --name. *k moves on where the value is the next argument. */
static int read_option(Cli *cli, const Command *command, int argc, char **argv, int *k) {
  char name[64];
  const char *given = argv[*k] + 2;
  size_t n = strcspn(given, "=");
  pvi_option o;
  snprintf(name, sizeof name, "%.*s", (int)n, given);
  if (!find(given, n, &o)) {
    const char *hint = hint_of(argv[*k]);
    return hint ? known_elsewhere(argv[*k], hint) : cli_said(cli, pvi_set(cli->o, name, ""));
  }
  if (!args_takes(&o, command)) return option_of_others(command, &o);
  bool flag = !strcmp(o.kind, "flag");
  const char *value = given[n] ? given + n + 1 : NULL;
  if (flag && value) {
    fprintf(stderr, "pvi: error: --%s takes no value\n", o.name);
    return PVI_STATUS_USAGE;
  }
  if (!flag && !value) {
    if (*k + 1 == argc) {
      fprintf(stderr, "pvi: error: --%s needs a value: %s\n", o.name, o.value);
      return PVI_STATUS_USAGE;
    }
    value = argv[++*k];
  }
  cli->json |= !strcmp(o.name, "json");
  cli->quiet |= !strcmp(o.name, "quiet");
  cli->resume |= !strcmp(o.name, "resume");
  cli->report |= !strcmp(o.name, "report");
  if (!is_printing(o.name)) cli->setting = o.name;
  return cli_said(cli, pvi_set(cli->o, o.name, flag ? "true" : value));
}

/* One argument, and the next where it is the value of this one. */
static int read_argument(Cli *cli, const Command *command, int argc, char **argv, int *k) {
  const char *a = argv[*k];
  if (a[0] == '-' && a[1] == '-' && a[2]) return read_option(cli, command, argc, argv, k);
  if (a[0] == '-' && a[1] && a[1] != '-')
    return hint_of(a) ? known_elsewhere(a, hint_of(a)) : misused(command, "unknown option", a);
  if (is_cmdstan(a)) return not_cmdstan(command, a);
  if (cli->nplaces == command->most) return misused(command, "unexpected argument", a);
  cli->place[cli->nplaces++] = a;
  return PVI_STATUS_OK;
}

bool args_read(Cli *cli, const Command *command, int argc, char **argv, int *status) {
  bool only_places = false;
  *status = PVI_STATUS_OK;
  for (int k = 0; k < argc && !*status; k++) {
    if (!only_places && (!strcmp(argv[k], "--help") || !strcmp(argv[k], "-h"))) {
      help_command(stdout, command);
      return false;
    }
    if (!only_places && !strcmp(argv[k], "--")) {
      only_places = true;
    } else if (only_places && cli->nplaces < command->most) {
      cli->place[cli->nplaces++] = argv[k];
    } else {
      *status = read_argument(cli, command, argc, argv, &k);
    }
  }
  if (*status) return false;
  if (cli->nplaces < command->least) {
    fprintf(stderr, "pvi: error: missing argument (usage: pvi %s %s)\n", command->name,
            command->usage);
    *status = PVI_STATUS_USAGE;
    return false;
  }
  char width[32];
  snprintf(width, sizeof width, "%zu", help_width());
  if (!strcmp(pvi_get(cli->o, "width"), "0"))
    *status = cli_said(cli, pvi_set(cli->o, "width", width));
  return *status == PVI_STATUS_OK;
}
