/* load.c: the first stages that all commands share: program, data, Model. */
#include "cli/cli.h"

#include "data/number.h"

Program *cli_program(Ctx *c, const char *path, const OptionList *include) {
  StanOptions o = {.include_dirs = include ? include->items : NULL,
                   .ninclude_dirs = include ? include->count : 0};
  Program *p = stan_parse(c, path, &o);
  if (!c->nerrors) stan_check(c, p);
  if (c->nerrors) ctx_jump(c, PVI_PROGRAM);
  return p;
}

Data *cli_data(Ctx *c, const char *path, const OptionList *sets) {
  DataOptions o = {.sets = sets->items, .nsets = sets->count};
  return path ? data_read(c, path, &o) : data_from_sets(c, &o);
}

static const long *read_lines(Ctx *c, const OptionList *lines) {
  long *observe = NEW_ARRAY(&c->arena, long, lines->count + 1);
  for (int k = 0; k < lines->count; k++) {
    Number x = number_read(lines->items[k], false);
    if (!x.is_int || *x.end || x.value < 1)
      ctx_fail(c, PVI_USAGE, NOWHERE, OPTION("observe") " %s: this is not the number of a line",
               lines->items[k]);
    observe[k] = (long)x.value;
  }
  return observe;
}

const Model *cli_model(Ctx *c, const Program *p, Data *d, ModelOptions o,
                       const OptionList *observe) {
  o.observe = read_lines(c, observe);
  o.nobserve = observe->count;
  const Model *m = model_make(c, p, d, &o);
  data_forget_text(d);
  return m;
}
