/* export.c: `pvi export`: a run folder as the tree of groups that ArviZ and xarray know.
 *
 *   posterior             draws of every variable of the program: [chain, draw, ...]
 *   sample_stats          lp and, of a fit, log_q; of chains what goes with a draw
 *   observed_data         the outcomes
 *   log_likelihood        of every draw and observation; of a fit it is called
 *                         pointwise_log_density, because loo() must not be run on it
 *   posterior_predictive  outcomes simulated from its predictions: of chains one a draw, of the
 *                         theta of that draw
 */
#include "infer/describe.h"
#include "model/density.h"
#include "num/rng.h"
#include "report/data_tree.h"
#include "run/reports.h"
#include "report/table.h"
#include "run/sampling.h"

#include <math.h>
#include <string.h>

enum { MOST_SIMULATED = 1000, BATCH = 1024, SEED_OUTCOMES = 81 };
static const double MOST_POINTWISE = 5e7; /* numbers */

/* Draws of a run, chain after chain. */
typedef struct {
  Ctx *c;
  const Problem *problem;
  const Model *model;
  const Run *run;
  size_t chains, draws, ncols;
  const char *const *names;    /* ncols */
  double *values;              /* [chains draws x ncols] */
  const double *theta;         /* [chains draws x dim] */
  const double *log_p, *log_q; /* of a fit */
  DataTree tree;
  Text left_out; /* what is missing, and why */
} Export;

/* ---- draws ----------------------------------------------------------------------------------- */

static void take_fit(Export *x) {
  Ctx *c = x->c;
  const Run *r = x->run;
  const bool *kept = run_kept(c, x->model, &r->o->save);
  RunDraws *d = run_draw(c, r, x->problem, (size_t)r->o->save_draws, (uint64_t)r->o->seed, kept);
  x->chains = 1;
  x->draws = d->draws.ndraws;
  x->ncols = d->draws.ncols;
  x->names = d->draws.names;
  x->values = (double *)d->draws.values;
  x->theta = d->theta;
  x->log_p = d->draws.log_p;
  x->log_q = d->draws.log_g;
}

static void add_coordinates(Export *x, TreeGroup *g) {
  tree_coordinate(&x->tree, g, "chain", x->chains);
  tree_coordinate(&x->tree, g, "draw", x->draws);
}

/* The method's columns come first, the program's follow. */
static void take_chains(Export *x) {
  static const char *const names[] = {"lp",      "acceptance_rate", "step_size", "tree_depth",
                                      "n_steps", "diverging",       "energy"};
  const SampledDraws *d = sample_draws(x->c, x->run->folder);
  size_t n = d->chains * d->draws, width = d->ncols - d->own;
  double *values = NEW_ARRAY(&x->c->arena, double, n *width + 1);
  x->chains = d->chains;
  x->draws = d->draws;
  x->ncols = width;
  x->names = d->names + d->own;
  x->values = values;
  x->theta = sample_theta(x->c, d, x->model);
  for (size_t i = 0; i < n; i++)
    memcpy(values + i * width, d->values + i * d->ncols + d->own, width * sizeof *values);
  TreeGroup *g = tree_group(&x->tree, "sample_stats");
  add_coordinates(x, g);
  for (size_t k = 0; k < d->own && k < sizeof names / sizeof *names; k++) {
    double *column = NEW_ARRAY(&x->c->arena, double, n + 1);
    for (size_t i = 0; i < n; i++) column[i] = d->values[i * d->ncols + k];
    TreeArray *a = tree_array(&x->tree, g, names[k], column);
    tree_dim(a, "chain", x->chains);
    tree_dim(a, "draw", x->draws);
    a->whole = k >= 3 && k <= 5;
  }
}

/* ---- groups ---------------------------------------------------------------------------------- */

static size_t column_of(const Export *x, const char *name) {
  size_t k = 0;
  while (k < x->ncols && strcmp(x->names[k], name) != 0) k++;
  return k;
}

/* One variable, from its columns (the first index fastest) to row-major. False: the draws lack it.
 */
static bool add_variable(Export *x, TreeGroup *g, const Output *o, size_t first) {
  Arena *a = &x->c->arena;
  size_t column = column_of(x, model_output_name(x->model, a, first, true)),
         total = x->chains * x->draws, n = (size_t)o->n;
  if (!n || column == x->ncols) return false;
  double *values = NEW_ARRAY(a, double, total *n + 1);
  for (size_t i = 0; i < total; i++)
    for (size_t k = 0; k < n; k++)
      values[i * n + (size_t)model_column_place(o, (int32_t)k)] =
          x->values[i * x->ncols + column + k];
  /* log_lik under a q that is no posterior would mislead loo() */
  bool rename =
      !x->run->sampled && strcmp(x->run->summary->score, "elbo") && !strcmp(o->name, "log_lik");
  TreeArray *v = tree_array(&x->tree, g, rename ? "log_lik_q" : o->name, values);
  tree_dim(v, "chain", x->chains);
  tree_dim(v, "draw", x->draws);
  for (int d = 0; d < o->ndims && v->ndims < TREE_DIMS; d++)
    tree_dim(v, arena_format(a, "%s_dim_%d", v->name, d), (size_t)o->dims[d]);
  if (tree_count(v) != total * n) { /* tuples, complex numbers: one row of elements */
    v->ndims = 2;
    tree_dim(v, arena_format(a, "%s_dim_0", v->name), n);
  }
  return true;
}

static void add_posterior(Export *x) {
  TreeGroup *g = tree_group(&x->tree, "posterior");
  size_t first = 0;
  add_coordinates(x, g);
  for (int v = 0; v < x->model->noutputs; first += (size_t)x->model->outputs[v++].n)
    if (!add_variable(x, g, &x->model->outputs[v], first) && x->model->outputs[v].n)
      text_printf(&x->left_out, "%s is not among the draws of the run; ",
                  x->model->outputs[v].name);
}

/* The variable that was observed, where there is only one; else the distribution and its line. */
static const char *observed_name(const Export *x, const ObsBlock *b) {
  const Stmt *data = x->problem->program->blocks[BLOCK_DATA];
  const char *name = NULL;
  size_t found = 0;
  for (int k = 0; data && k < data->nbody; k++)
    for (int j = 0; j < data->body[k]->ndecls; j++)
      if (stan_is_outcome(x->problem->program, data->body[k]->decls[j]))
        name = data->body[k]->decls[j]->name, found++;
  if (found == 1 && x->model->nblocks == 1) return name;
  return arena_format(&x->c->arena, "%s_line%u", b->name, b->loc.line);
}

static void add_observed(Export *x) {
  TreeGroup *g = tree_group(&x->tree, "observed_data");
  for (int b = 0; b < x->model->nblocks; b++) {
    const ObsBlock *k = &x->model->blocks[b];
    if (k->dist < 0 || !k->y) continue;
    const char *name = observed_name(x, k);
    TreeArray *a = tree_array(&x->tree, g, name, k->y);
    tree_dim(a, arena_format(&x->c->arena, "%s_dim_0", name), (size_t)k->rows);
  }
}

/* Values of draws and observations as [chain, draw, rows of a block]: number i of observation k is
 * from[i by_draw + k by_obs]. */
typedef struct {
  const double *from;
  size_t chains, draws, by_draw, by_obs;
} ByObservation;

static void add_by_observation(Export *x, TreeGroup *g, const ByObservation *v, const ObsBlock *k) {
  size_t rows = (size_t)k->rows, n = v->chains * v->draws;
  double *values = NEW_ARRAY(&x->c->arena, double, n *rows + 1);
  for (size_t i = 0; i < n; i++)
    for (size_t r = 0; r < rows; r++)
      values[i * rows + r] = v->from[i * v->by_draw + (size_t)k->obs[r] * v->by_obs];
  const char *name = observed_name(x, k);
  TreeArray *a = tree_array(&x->tree, g, name, values);
  tree_dim(a, "chain", v->chains);
  tree_dim(a, "draw", v->draws);
  tree_dim(a, arena_format(&x->c->arena, "%s_dim_0", name), rows);
}

static void add_pointwise(Export *x) {
  const Model *m = x->model;
  size_t n = x->chains * x->draws;
  if (!m->n_obs || !model_has_densities(m)) return;
  if ((double)n * (double)m->n_obs > MOST_POINTWISE) {
    text_printf(&x->left_out, "%zu draws of %zu log likelihoods are too many; ", n, m->n_obs);
    return;
  }
  double *values = NEW_ARRAY(&x->c->arena, double, n * m->n_obs + 1);
  density_once(x->c, m, NULL, m->n_obs, &(ModelPoints){x->theta, n, m->dim, 1},
               &(DensityOut){.pointwise = values});
  TreeGroup *g = tree_group(&x->tree, x->run->sampled ? "log_likelihood" : "pointwise_log_density");
  add_coordinates(x, g);
  for (int b = 0; b < m->nblocks; b++)
    add_by_observation(x, g, &(ByObservation){values, x->chains, x->draws, m->n_obs, 1},
                       &m->blocks[b]);
}

/* Of a fit: [observations x n]. */
static const double *outcomes_of_fit(Export *x, size_t n) {
  Options *o = options_copy(&x->c->arena, x->run->o);
  options_set(x->c, o, "outcomes", arena_format(&x->c->arena, "%zu", n));
  return run_predict(x->c, x->run, x->problem, o)->outcomes;
}

/* Of the draws [first, first + n): an outcome of every observation in turn, at by_draw numbers from
 * each other. */
static void simulate(Export *x, const Observed *o, size_t first, size_t n, double *out) {
  TempArena *temp = temp_open(x->c);
  Arena *a = &temp->arena;
  size_t dim = x->model->dim, rows = o->n;
  bool *points = NEW_ARRAY(a, bool, dim + 1);
  double *theta = NEW_ARRAY(a, double, dim *n + 1), *drawn = NEW_ARRAY(a, double, rows *n + 1);
  int32_t *obs = NEW_ARRAY(a, int32_t, rows + 1);
  for (size_t k = 0; k < dim; k++) points[k] = true;
  for (size_t j = 0; j < n; j++)
    for (size_t k = 0; k < dim; k++) theta[k * n + j] = x->theta[(first + j) * dim + k];
  Q q = q_make(a, FAMILY_meanfield, (Shape){0}, dim, points);
  Description d = {.noutcomes = n,
                   .seed = rng_mix((uint64_t)x->run->o->seed + SEED_OUTCOMES + (first << 8)),
                   .together = true,
                   .mean = NEW_ARRAY(a, double, rows + 1),
                   .sd = NEW_ARRAY(a, double, rows + 1),
                   .quantiles = drawn,
                   .outcomes = drawn};
  Pool *pool = pool_make(x->c, (int)x->run->o->threads);
  predictive_describe(
      x->c, &(Scoring){.o = o, .q = &q, .noise = {n, 0}, .pool = pool, .theta = theta}, &d);
  pool_free(pool);
  model_numbers(x->model, &o->rows, obs);
  for (size_t r = 0; r < rows; r++)
    for (size_t j = 0; j < n; j++) out[(first + j) * rows + (size_t)obs[r]] = drawn[r * n + j];
  temp_close(temp);
}

/* Of chains: [draws x observations]. */
static const double *outcomes_of_chains(Export *x) {
  const Model *m = x->model;
  size_t total = x->chains * x->draws;
  double *out = NEW_ARRAY(&x->c->arena, double, total * m->n_obs + 1);
  TempArena *temp = temp_open(x->c);
  const Observed *o = observed_make(&temp->arena, m, NULL, 0, WANT_LL | WANT_PARAMETERS);
  for (size_t first = 0; first < total; first += BATCH)
    simulate(x, o, first, total - first < BATCH ? total - first : BATCH, out);
  temp_close(temp);
  return out;
}

/* Can outcomes of the block be drawn? One that could not be is not a number. */
static bool are_drawn(const ByObservation *v, const ObsBlock *k) {
  for (int32_t r = 0; r < k->rows; r++)
    if (!isnan(v->from[(size_t)k->obs[r] * v->by_obs])) return true;
  return false;
}

static void add_predictive(Export *x) {
  const Model *m = x->model;
  bool chains = x->run->sampled;
  size_t n = chains || x->draws < MOST_SIMULATED ? x->draws : MOST_SIMULATED;
  if (!m->n_obs) return;
  if (chains && (double)(x->chains * n) * (double)m->n_obs > MOST_POINTWISE) {
    text_printf(&x->left_out, "%zu draws of %zu simulated outcomes are too many; ", x->chains * n,
                m->n_obs);
    return;
  }
  ByObservation v = chains ? (ByObservation){outcomes_of_chains(x), x->chains, n, m->n_obs, 1}
                           : (ByObservation){outcomes_of_fit(x, n), 1, n, 1, n};
  TreeGroup *g = NULL;
  for (int b = 0; b < m->nblocks; b++) {
    if (!are_drawn(&v, &m->blocks[b])) {
      text_printf(&x->left_out,
                  "outcomes of line %u (%s) cannot be simulated, because the distribution of a "
                  "single one is not known; ",
                  m->blocks[b].loc.line, m->blocks[b].name);
      continue;
    }
    if (!g) {
      g = tree_group(&x->tree, "posterior_predictive");
      tree_coordinate(&x->tree, g, "chain", v.chains);
      tree_coordinate(&x->tree, g, "draw", v.draws);
    }
    add_by_observation(x, g, &v, &m->blocks[b]);
  }
}

/* ---- the command ----------------------------------------------------------------------------- */

static void add_fit_stats(Export *x) {
  const char *const names[] = {"lp", "log_q"};
  const double *const values[] = {x->log_p, x->log_q};
  TreeGroup *g = tree_group(&x->tree, "sample_stats");
  add_coordinates(x, g);
  for (size_t k = 0; k < 2; k++) {
    TreeArray *a = tree_array(&x->tree, g, names[k], values[k]);
    tree_dim(a, "chain", 1);
    tree_dim(a, "draw", x->draws);
  }
}

static void take_run(Export *x, const char *folder) {
  x->run = run_read(x->c, folder);
  x->problem = run_problem(x->c, x->run);
  x->model = x->problem->model;
  if (x->run->sampled) {
    take_chains(x);
  } else {
    take_fit(x);
    add_fit_stats(x);
  }
}

void report_export(Ctx *c, const char *folder, const Options *o, Text *out) {
  Export x = {.c = c, .tree = {.arena = &c->arena}, .left_out = text_make(&c->arena)};
  bool zarr = o->to == 0;
  const char *path =
      o->out ? o->out : arena_format(&c->arena, "%s/export.%s", folder, zarr ? "zarr" : "nc");
  take_run(&x, folder);
  const ReportKey keys[] = {
      {"inference_library", "pvi"},
      {"inference_library_version", PVI_VERSION},
      {"pvi_score", x.run->sampled ? "bayes" : x.run->summary->score},
      {"pvi_note",
       x.run->sampled ? "" : "draws of q, not of the posterior: do not run loo() on them"}};
  x.tree.keys = keys;
  x.tree.nkeys = sizeof keys / sizeof *keys;
  add_posterior(&x);
  add_observed(&x);
  add_pointwise(&x);
  add_predictive(&x);
  (zarr ? zarr_write : netcdf_write)(c, &x.tree, path);
  Text said = text_make(&c->arena);
  text_printf(&said, "%s: ", path);
  for (size_t g = 0; g < x.tree.n; g++)
    text_printf(&said, "%s%s", g ? ", " : "", x.tree.groups[g].name);
  text_wrap(out, report_width(o), 2, said.s);
  if (x.left_out.n)
    text_wrap(out, report_width(o), 2, arena_format(&c->arena, "left out: %s", x.left_out.s));
}
