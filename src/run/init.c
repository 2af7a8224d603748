/* init.c: where a fit begins, as the option `init` says it: a radius, or a JSON file with values of
 * the parameters as Stan reads them ({"mu": 3, "beta": [1, 2], "L": [[1, 0], [0.5, 1]]}); for
 * chains also a metric as CmdStan's metric_file has it ({"inv_metric": [1, 0.5]}, or rows of a
 * matrix).
 */
#include "run/run.h"

#include "data/json.h"
#include "infer/metric.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The values of one parameter, in the order of its columns; a file has them row by row. */
static void read_values(Ctx *c, const Json *file, const Output *o, const char *path, double *out) {
  const Json *j = json_item(file, o->name), *bad;
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

/* Is the word a file, and neither a radius nor a word? */
static bool names_file(const char *word) {
  char *end;
  if (!word || !strcmp(word, "random")) return false;
  strtod(word, &end);
  return end == word || *end;
}

static bool is_parameter(const Model *m, const char *name) {
  for (int k = 0; k < m->noutputs && m->outputs[k].block == BLOCK_PARAMETERS; k++)
    if (!strcmp(m->outputs[k].name, name)) return true;
  return false;
}

/* Has the file values of parameters, too? */
static bool has_values(const Json *file, const Model *m) {
  for (size_t k = 0; k < file->count; k++)
    if (is_parameter(m, file->keys[k])) return true;
  return false;
}

static void check_metric(Ctx *c, const Model *m, const Json *j, const MetricFile *f, size_t n) {
  if (f->dense && m->dim > MOST_DENSE)
    ctx_fail(c, PVI_DATA, j->loc,
             "a matrix as metric is for at most %d parameters, and this program has %zu: give "
             "\"inv_metric\" as the numbers of its diagonal",
             MOST_DENSE, m->dim);
  if (!f->values || n != (f->dense ? m->dim * m->dim : m->dim))
    ctx_fail(c, PVI_DATA, j->loc,
             "\"inv_metric\" is %zu numbers, or as many rows of as many: variances, or the "
             "covariance, of the unconstrained parameters",
             m->dim);
  for (size_t k = 0; k < n; k++)
    if (!isfinite(f->values[k]) || (!f->dense && !(f->values[k] > 0)))
      ctx_fail(c, PVI_DATA, j->loc, "\"inv_metric\" has %g, which is no variance", f->values[k]);
}

const MetricFile *run_metric(Ctx *c, const Model *m, const char *word) {
  if (!names_file(word) || is_parameter(m, "inv_metric")) return NULL;
  const Json *file = json_read_file(c, word, JSON_STAN), *j = json_get(file, "inv_metric"),
             *step = json_get(file, "stepsize"), *bad;
  if (!j) return NULL;
  MetricFile *f = NEW(&c->arena, MetricFile);
  size_t n = 0;
  f->dense = j->kind == JSON_NUMBERS ? j->ndims == 2 : true;
  f->values = json_flatten(c, j, &n, &bad);
  f->alone = !has_values(file, m);
  if (step && step->kind == JSON_NUMBERS && step->n == 1 && step->values[0] > 0)
    f->step = step->values[0];
  check_metric(c, m, j, f, n);
  f->loc = j->loc;
  return f;
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
