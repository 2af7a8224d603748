/* load.c: the first stages that all commands share. */
#include "cli/cli.h"

Program *cli_program(Ctx *c, const char *path, const OptionList *include) {
  StanOptions o = {.include_dirs = include ? (const char **)include->items : NULL,
                   .ninclude_dirs = include ? include->count : 0};
  Program *p = stan_parse(c, path, &o);
  if (!c->nerrors) stan_check(c, p);
  if (c->nerrors) ctx_jump(c, PVI_PROGRAM);
  return p;
}

const Data *cli_data(Ctx *c, const char *path, const OptionList *sets) {
  DataOptions o = {.sets = sets->items, .nsets = sets->count};
  return path ? data_read(c, path, &o) : data_from_sets(c, &o);
}
