/* cmdstan_points.c: points of the parameter space as CmdStan's files have them, and the methods
 * that evaluate the program at given points: log_prob, generate_quantities, diagnose. */
#include "run/cmdstan_run.h"

#include "data/json.h"
#include "num/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STREAM = 6 }; /* of random starts: as `pvi sample --init random` has them */

/* ---- names and outputs ----------------------------------------------------------------------- */

/* theta[1,2] as theta.1.2 */
const char *const *cmdstan_names(const CmdstanCall *k, const char *prefix) {
  Arena *a = &k->c->arena;
  const char **names = NEW_ARRAY(a, const char *, k->model->dim + 1);
  for (size_t d = 0; d < k->model->dim; d++) {
    char *name = arena_format(a, "%s%s", prefix, model_unconstrained_name(k->model, a, d)), *to;
    for (char *p = to = name; *p; p++)
      if (*p != ']') *to++ = *p == '[' || *p == ',' ? '.' : *p == '.' ? ':' : *p;
    *to = 0;
    names[d] = name;
  }
  return names;
}

/* Warnings of the draws, as CmdStan says what went wrong in some of them: the run goes on. */
static void say_warnings(const CmdstanCall *k, size_t from) {
  Ctx *c = k->c;
  for (size_t i = from; i < c->nmessages; i++)
    console_say(k->out, c, "Exception: %s (in '%s', line %u, column %u)\n", c->messages[i].text,
                c->messages[i].loc.source ? c->messages[i].loc.source->name : k->name,
                c->messages[i].loc.line, c->messages[i].loc.column);
  c->nmessages = from;
}

Draws cmdstan_outputs(const CmdstanCall *k, const double *theta, size_t n, const bool *wanted) {
  const Model *m = k->model;
  Arena *a = &k->c->arena;
  const char **names = NEW_ARRAY(a, const char *, model_output_count(m) + 1);
  size_t column = 0, ncols = 0;
  for (int v = 0; v < m->noutputs; v++)
    for (int32_t i = 0; i < m->outputs[v].n; i++, column++)
      if (!wanted || wanted[v]) names[ncols++] = model_output_name(m, a, column, true);
  double *values = NEW_ARRAY(a, double, n *ncols + 1);
  /* chains of one seed, in processes of their own, must not share their random numbers */
  uint64_t seed = k->seed + (uint64_t)cmdstan_whole(k->args, ARG_id) * UINT64_C(0x9E3779B97F4A7C15);
  size_t before = k->c->nmessages;
  model_some_outputs(k->c, m, &(ModelPoints){theta, n, m->dim, 1}, seed, wanted, values);
  say_warnings(k, before);
  return (Draws){.ndraws = n, .ncols = ncols, .names = names, .values = values};
}

/* ---- the density ----------------------------------------------------------------------------- */

CmdstanDensity cmdstan_density(const CmdstanCall *k, bool jacobian) {
  const Split *all = split_all(k->c, k->model->n_obs);
  const Observed *o =
      posterior_observed(&k->c->arena, k->model, all->rows[PART_TRAIN], all->count[PART_TRAIN]);
  CmdstanDensity d = {posterior_make(&k->c->arena, o, 1, k->pool), k->model->dim};
  if (!jacobian) posterior_without_jacobian(d.posterior);
  return d;
}

double cmdstan_eval(const CmdstanDensity *d, const double *theta, double *gradient) {
  double value;
  posterior_eval(d->posterior, &(PosteriorPoint){theta, gradient, &value}, 1);
  return value;
}

/* ---- where it begins ------------------------------------------------------------------------- */

static size_t parameter_columns(const Model *m, bool *wanted) {
  size_t n = 0;
  for (int v = 0; v < m->noutputs; v++) {
    wanted[v] = m->outputs[v].block == BLOCK_PARAMETERS;
    if (wanted[v]) n += (size_t)m->outputs[v].n;
  }
  return n;
}

/* The values of a variable in the order of its columns; false: the file has none. */
static bool take_values(Ctx *c, const Json *file, const Output *o, double *out) {
  const Json *j = json_item(file, o->name), *bad;
  size_t n;
  if (!j) return false;
  const double *values = json_flatten(c, j, &n, &bad);
  if (!values) ctx_fail(c, PVI_DATA, bad->loc, "%s is not a number", json_kind_name(bad));
  if (n != (size_t)o->n)
    ctx_fail(c, PVI_DATA, j->loc,
             "mismatch in the number of values of %s: declared are %d, %zu are given", o->name,
             o->n, n);
  for (int32_t i = 0; i < o->n; i++) out[i] = values[model_column_place(o, i)];
  return true;
}

/* Values of parameters from a JSON file replace those of theta. Returns the name of a parameter
 * that the file does not have; NULL: it has all. */
static const char *replace_values(const CmdstanCall *k, const char *path, double *theta) {
  Ctx *c = k->c;
  const Model *m = k->model;
  const char *missing = NULL;
  const Json *file = json_read_file(c, path, JSON_STAN);
  if (file->kind != JSON_OBJECT)
    ctx_fail(c, PVI_DATA, file->loc, "values of parameters are an object, not %s",
             json_kind_name(file));
  bool *wanted = NEW_ARRAY(&c->arena, bool, m->noutputs + 1);
  double *values = NEW_ARRAY(&c->arena, double, parameter_columns(m, wanted) + 1), *at = values;
  model_some_outputs(c, m, &(ModelPoints){theta, 1, m->dim, 1}, 0, wanted, values);
  for (int v = 0; v < m->noutputs; v++) {
    if (!wanted[v]) continue;
    if (!take_values(c, file, &m->outputs[v], at)) missing = m->outputs[v].name;
    at += m->outputs[v].n;
  }
  model_unconstrain(c, m, values, theta);
  return missing;
}

/* init=a.json,b.json has a file for each chain; of a.json there may be an a_<id>.json for each. */
const char *cmdstan_init(const CmdstanCall *k, size_t id) {
  const char *word = k->args->value[ARG_init];
  size_t which = id - (size_t)cmdstan_whole(k->args, ARG_id), n = strlen(word);
  if (strchr(word, ',')) {
    for (; which && strchr(word, ','); which--) word = strchr(word, ',') + 1;
    return arena_text(&k->c->arena, word, strcspn(word, ","));
  }
  if (n < 5 || strcmp(word + n - 5, ".json") != 0) return word;
  const char *own = arena_format(&k->c->arena, "%.*s_%zu.json", (int)n - 5, word, id);
  bool several = cmdstan_whole(k->args, ARG_num_chains) > 1 || access(word, R_OK);
  return several && access(own, R_OK) == 0 ? own : word;
}

void cmdstan_start(const CmdstanCall *k, size_t id, double *theta) {
  const char *word = k->args->value[ARG_init];
  char *end;
  double radius = strtod(word, &end);
  bool number = end != word && !*end;
  if (number && !(radius >= 0 && isfinite(radius)))
    ctx_fail(k->c, PVI_USAGE, NOWHERE, "%s is not a valid value for \"init\"", word);
  if (!number) radius = 2;
  Rng key = rng_make(k->seed, STREAM);
  for (size_t d = 0; d < k->model->dim; d++)
    theta[d] = radius * (2 * rng_uniform(key, d, id ? id - 1 : 0) - 1);
  if (!number) replace_values(k, cmdstan_init(k, id), theta);
}

/* ---- CSV files of draws ---------------------------------------------------------------------- */

double *cmdstan_fitted(const CmdstanCall *k, const char *path, size_t *n) {
  Ctx *c = k->c;
  const Model *m = k->model;
  bool *wanted = NEW_ARRAY(&c->arena, bool, m->noutputs + 1);
  size_t parameters = parameter_columns(m, wanted),
         *from = NEW_ARRAY(&c->arena, size_t, parameters + 1);
  const CmdstanTable *t = cmdstan_table(c, path);
  for (size_t p = 0; p < parameters; p++) {
    const char *name = model_output_name(m, &c->arena, p, true);
    from[p] = cmdstan_column(t, name);
    if (from[p] == t->ncols)
      ctx_fail(c, PVI_DATA, NOWHERE,
               "Mismatch between model and fitted_parameters csv file '%s': it has no column %s",
               path, name);
  }
  double *theta = NEW_ARRAY(&c->arena, double, t->n * m->dim + 1),
         *values = NEW_ARRAY(&c->arena, double, parameters + 1);
  for (size_t i = 0; i < t->n; i++) {
    for (size_t p = 0; p < parameters; p++) values[p] = t->values[i * t->ncols + from[p]];
    model_unconstrain(c, m, values, theta + i * m->dim);
  }
  *n = t->n;
  return theta;
}

/* ---- log_prob -------------------------------------------------------------------------------- */

/* {"params_r": [...]}, one point or several. */
static double *unconstrained_points(const CmdstanCall *k, const char *path, size_t *n) {
  const Json *file = json_read_file(k->c, path, JSON_STAN), *j = json_get(file, "params_r"), *bad;
  size_t count = 0, dim = k->model->dim;
  double *values = j ? json_flatten(k->c, j, &count, &bad) : NULL;
  if (!values || !dim || !count || count % dim)
    ctx_fail(k->c, PVI_DATA, file->loc,
             "'%s' must have under \"params_r\" the %zu unconstrained parameters of each point",
             path, dim);
  *n = count / dim;
  return values;
}

static double *asked_points(const CmdstanCall *k, size_t *n) {
  const char *free = k->args->value[ARG_unconstrained_params],
             *fixed = k->args->value[ARG_constrained_params];
  size_t length = strlen(fixed);
  if (!*free && !*fixed)
    ctx_fail(k->c, PVI_USAGE, NOWHERE,
             "No input parameter files provided, cannot calculate log probability density.");
  if (*free && *fixed)
    ctx_fail(k->c, PVI_USAGE, NOWHERE,
             "Cannot specify both input files of both constrained and unconstrained parameter "
             "values.");
  if (*free) return unconstrained_points(k, free, n);
  if (length > 4 && !strcmp(fixed + length - 4, ".csv")) return cmdstan_fitted(k, fixed, n);
  double *theta = NEW_ARRAY(&k->c->arena, double, k->model->dim + 1);
  const char *missing = replace_values(k, fixed, theta);
  if (missing)
    ctx_fail(k->c, PVI_DATA, NOWHERE,
             "variable does not exist; processing stage=parameter initialization; variable "
             "name=%s ('%s' has no value of it)",
             missing, fixed);
  *n = 1;
  return theta;
}

bool cmdstan_log_prob(CmdstanCall *k) {
  size_t n, dim = k->model->dim;
  const double *theta = asked_points(k, &n);
  CmdstanDensity d = cmdstan_density(k, cmdstan_flag(k->args, ARG_lp_jacobian));
  double *lp = NEW_ARRAY(&k->c->arena, double, n),
         *grad = NEW_ARRAY(&k->c->arena, double, n *dim + 1);
  for (size_t i = 0; i < n; i++) lp[i] = cmdstan_eval(&d, theta + i * dim, grad + i * dim);
  Draws out = {.ndraws = n,
               .ncols = dim,
               .names = cmdstan_names(k, "g_"),
               .values = grad,
               .columns = &(DrawsColumn){"lp__", lp},
               .ncolumns = 1};
  cmdstan_write_table(k->dir, k->base, &k->run, &out);
  return true;
}

/* ---- generate_quantities --------------------------------------------------------------------- */

bool cmdstan_generate(CmdstanCall *k) {
  const char *path = k->args->value[ARG_fitted_params];
  const Model *m = k->model;
  size_t n;
  bool *wanted = NEW_ARRAY(&k->c->arena, bool, m->noutputs + 1), some = false;
  for (int v = 0; v < m->noutputs; v++) some |= wanted[v] = m->outputs[v].block == BLOCK_GENERATED;
  if (!*path) ctx_fail(k->c, PVI_USAGE, NOWHERE, "Argument fitted_params file - missing or empty.");
  if (!some) ctx_fail(k->c, PVI_PROGRAM, NOWHERE, "Model doesn't generate any quantities.");
  const double *theta = cmdstan_fitted(k, path, &n);
  Draws d = cmdstan_outputs(k, theta, n, wanted);
  cmdstan_write_table(k->dir, k->base, &k->run, &d);
  return true;
}

/* ---- diagnose -------------------------------------------------------------------------------- */

/* The gradient against finite differences at the start. */
bool cmdstan_diagnose(CmdstanCall *k) {
  size_t dim = k->model->dim, bad = 0;
  double epsilon = cmdstan_number(k->args, ARG_epsilon), error = cmdstan_number(k->args, ARG_error);
  double *theta = NEW_ARRAY(&k->c->arena, double, dim + 1),
         *grad = NEW_ARRAY(&k->c->arena, double, dim + 1),
         *room = NEW_ARRAY(&k->c->arena, double, dim + 1);
  cmdstan_start(k, (size_t)cmdstan_whole(k->args, ARG_id), theta);
  CmdstanDensity d = cmdstan_density(k, true);
  double lp = cmdstan_eval(&d, theta, grad);
  Text t = text_make(&k->c->arena);
  text_printf(&t, "# \n#  Log probability=%.10g\n# \n# %10s%16s%16s%16s%16s\n", lp, "param idx",
              "value", "model", "finite diff", "error");
  for (size_t i = 0; i < dim; i++) {
    double x = theta[i];
    theta[i] = x + epsilon;
    double up = cmdstan_eval(&d, theta, room);
    theta[i] = x - epsilon;
    double difference = (up - cmdstan_eval(&d, theta, room)) / (2 * epsilon);
    theta[i] = x;
    bad += !(fabs(grad[i] - difference) <= error);
    text_printf(&t, "# %10zu%16.8g%16.8g%16.8g%16.8g\n", i, x, grad[i], difference,
                grad[i] - difference);
  }
  cmdstan_write_table(k->dir, k->base, &k->run, &(Draws){.footer = t.s});
  console_say(k->out, k->c, "TEST GRADIENT MODE\n\n%s\n", t.s);
  console_say(k->out, k->c, "%zu of %zu derivatives differ by more than %g\n", bad, dim, error);
  return true;
}
