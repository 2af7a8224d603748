/* init.c: where a fit begins, as the option `init` says it: a radius, or a JSON file with values of
 * the parameters as Stan reads them ({"mu": 3, "beta": [1, 2], "L": [[1, 0], [0.5, 1]]}).
 */
#include "run/run.h"

#include "data/json.h"

#include <math.h>
#include <stdlib.h>

/* The values of one parameter, in the order of its columns; a file has them row by row. */
static void read_values(Ctx *c, const Json *file, const Output *o, const char *path, double *out) {
  const Json *j = json_get(file, o->name), *bad;
  size_t n;
  if (!j)
    ctx_fail(c, PVI_DATA, NOWHERE, OPTION("init") " %s: the parameter %s has no value there", path,
             o->name);
  const double *values = json_flatten(c, j, &n, &bad);
  if (!values) ctx_fail(c, PVI_DATA, bad->loc, "%s is not a number", json_kind_name(bad));
  if (n != (size_t)o->n)
    ctx_fail(c, PVI_DATA, j->loc, "the parameter %s has %d value%s, but %zu are given", o->name,
             o->n, o->n == 1 ? "" : "s", n);
  for (int32_t k = 0; k < o->n; k++) out[k] = values[model_column_place(o, k)];
}

static const double *read_point(Ctx *c, const Model *m, const char *path) {
  const Json *file = json_read_file(c, path, JSON_STAN);
  size_t n = 0, at = 0;
  if (file->kind != JSON_OBJECT)
    ctx_fail(c, PVI_DATA, file->loc, "values of parameters are an object, not %s",
             json_kind_name(file));
  for (int k = 0; k < m->noutputs && m->outputs[k].block == BLOCK_PARAMETERS; k++)
    n += (size_t)m->outputs[k].n;
  double *values = NEW_ARRAY(&c->arena, double, n + 1),
         *theta = NEW_ARRAY(&c->arena, double, m->dim + 1);
  for (int k = 0; k < m->noutputs && m->outputs[k].block == BLOCK_PARAMETERS; k++) {
    read_values(c, file, &m->outputs[k], path, values + at);
    at += (size_t)m->outputs[k].n;
  }
  model_unconstrain(c, m, values, theta);
  return theta;
}

void run_init(Ctx *c, const Model *m, const char *word, FitOptions *f) {
  char *end;
  if (!word) return;
  double radius = strtod(word, &end);
  if (end == word || *end) {
    f->init = read_point(c, m, word);
    return;
  }
  if (!(radius >= 0) || isinf(radius))
    ctx_fail(c, PVI_USAGE, NOWHERE,
             OPTION("init") " %s: a radius is 0 or more; 0 is the point zero alone", word);
  f->init_radius = radius > 0 ? radius : -1;
}
