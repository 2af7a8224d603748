/* load.c: the first stages that all commands share. */
#include "cli/cli.h"

#include "data/number.h"

Program *cli_program(Ctx *c, const char *path, const OptionList *include) {
  StanOptions o = {.include_dirs = include ? (const char **)include->items : NULL,
                   .ninclude_dirs = include ? include->count : 0};
  Program *p = stan_parse(c, path, &o);
  if (!c->nerrors) stan_check(c, p);
  if (c->nerrors) ctx_jump(c, PVI_PROGRAM);
  return p;
}

void cli_observe(Ctx *c, Program *p, const OptionList *lines) {
  p->observe = NEW_ARRAY(&c->arena, long, lines->count + 1);
  p->observe_found = NEW_ARRAY(&c->arena, bool, lines->count + 1);
  for (int k = 0; k < lines->count; k++) {
    Number x = number_read(lines->items[k], false);
    if (!x.is_int || *x.end || x.value < 1)
      ctx_fail(c, PVI_USAGE, NOWHERE, "--observe %s: it is the number of a line", lines->items[k]);
    p->observe[p->nobserve++] = (long)x.value;
  }
}

const Data *cli_data(Ctx *c, const char *path, const OptionList *sets) {
  DataOptions o = {.sets = sets->items, .nsets = sets->count};
  return path ? data_read(c, path, &o) : data_from_sets(c, &o);
}
