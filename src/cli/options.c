/* options.c: command lines against rows of options; --help. */
#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void print_help(const Command *cmd, const Option *o, int n) {
  printf("usage: pvi %s %s\n\n%s\n\noptions:\n", cmd->name, cmd->usage, cmd->summary);
  for (int k = 0; k < n; k++) {
    char left[80];
    snprintf(left, sizeof left, "--%s%s%s", o[k].name, o[k].metavar ? " " : "",
             o[k].metavar ? o[k].metavar : "");
    if (strlen(left) > 26) {
      printf("  %s\n  %-26s %s\n", left, "", o[k].help);
    } else {
      printf("  %-26s %s\n", left, o[k].help);
    }
  }
  printf("  %-26s %s\n\nexamples:\n%s", "--help", "this text", cmd->examples);
}

static const Option *find_option(Ctx *c, const Command *cmd, const Option *o, int n,
                                 const char *name, size_t length) {
  for (int k = 0; k < n; k++)
    if (strlen(o[k].name) == length && !memcmp(o[k].name, name, length)) return &o[k];
  const char **names = NEW_ARRAY(&c->arena, const char *, n);
  for (int k = 0; k < n; k++) names[k] = o[k].name;
  const char *word = arena_text(&c->arena, name, length),
             *near = text_nearest(word, names, (size_t)n);
  if (near)
    ctx_fail(c, PVI_USAGE, NOWHERE,
             "unknown option --%s; did you mean --%s? (pvi %s --help lists all)", word, near,
             cmd->name);
  ctx_fail(c, PVI_USAGE, NOWHERE, "unknown option --%s (pvi %s --help lists all)", word, cmd->name);
}

static int find_choice(Ctx *c, const Option *o, const char *value) {
  const char *p = o->metavar;
  for (int k = 0;; k++) {
    size_t n = strcspn(p, "|");
    if (strlen(value) == n && !memcmp(p, value, n)) return k;
    if (!p[n]) break;
    p += n + 1;
  }
  ctx_fail(c, PVI_USAGE, NOWHERE, "--%s takes one of %s, not \"%s\"", o->name, o->metavar, value);
}

static double number(Ctx *c, const Option *o, const char *value) {
  char *end;
  errno = 0;
  double x = strtod(value, &end);
  bool whole = o->kind != OPT_INT || (x == trunc(x) && fabs(x) < 9e15);
  if (end == value || *end || !isfinite(x) || !whole)
    ctx_fail(c, PVI_USAGE, NOWHERE, "--%s takes %s, not \"%s\"", o->name,
             o->kind == OPT_INT ? "a whole number" : "a number", value);
  if (x < o->min)
    ctx_fail(c, PVI_USAGE, NOWHERE, "--%s must be at least %g, not %s", o->name, o->min, value);
  return x;
}

static void set_option(Ctx *c, const Option *o, const char *value) {
  switch (o->kind) {
  case OPT_FLAG: *(bool *)o->to = true; break;
  case OPT_TEXT: *(const char **)o->to = value; break;
  case OPT_INT: *(long *)o->to = (long)number(c, o, value); break;
  case OPT_REAL: *(double *)o->to = number(c, o, value); break;
  case OPT_CHOICE: *(int *)o->to = find_choice(c, o, value); break;
  case OPT_LIST: {
    OptionList *l = o->to;
    if (l->count == (int)(sizeof l->items / sizeof *l->items))
      ctx_fail(c, PVI_USAGE, NOWHERE, "too many --%s", o->name);
    l->items[l->count++] = value;
  }
  }
}

bool cli_options(Ctx *c, const Command *cmd, const Option *options, int noptions, int argc,
                 char **argv, const char **places, int min, int max) {
  int given = 0;
  bool only_places = false;
  for (int k = 0; k < max; k++) places[k] = NULL;
  for (int k = 0; k < argc; k++) {
    const char *a = argv[k];
    if (only_places || a[0] != '-' || !a[1]) {
      if (given == max)
        ctx_fail(c, PVI_USAGE, NOWHERE, "unexpected argument \"%s\" (usage: pvi %s %s)", a,
                 cmd->name, cmd->usage);
      places[given++] = a;
    } else if (!strcmp(a, "--")) {
      only_places = true;
    } else if (!strcmp(a, "--help") || !strcmp(a, "-h")) {
      print_help(cmd, options, noptions);
      return false;
    } else {
      if (a[1] != '-')
        ctx_fail(c, PVI_USAGE, NOWHERE, "unknown option %s (pvi %s --help lists all)", a,
                 cmd->name);
      size_t length = strcspn(a + 2, "=");
      const Option *o = find_option(c, cmd, options, noptions, a + 2, length);
      const char *value = a[2 + length] ? a + 3 + length : NULL;
      if (o->kind == OPT_FLAG && value)
        ctx_fail(c, PVI_USAGE, NOWHERE, "--%s takes no value", o->name);
      if (o->kind != OPT_FLAG && !value) {
        if (k + 1 == argc)
          ctx_fail(c, PVI_USAGE, NOWHERE, "--%s needs a value: %s", o->name, o->metavar);
        value = argv[++k];
      }
      set_option(c, o, value);
    }
  }
  if (given < min)
    ctx_fail(c, PVI_USAGE, NOWHERE, "missing argument (usage: pvi %s %s)", cmd->name, cmd->usage);
  return true;
}
