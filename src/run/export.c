/* export.c: `pvi export`: a run folder as the tree of groups that ArviZ and xarray know.
 *
 *   posterior             draws of every variable of the program: [chain, draw, ...]
 *   sample_stats          lp and, of a fit, log_q; of chains what goes with a draw
 *   observed_data         the outcomes
 *   log_likelihood        of every draw and observation; of a fit it is called
 *                         pointwise_log_density, because loo() must not be run on it
 *   posterior_predictive  of a fit: outcomes simulated from its predictions
 */
#include "model/density.h"
#include "report/data_tree.h"
#include "run/reports.h"
#include "report/table.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { MOST_SIMULATED = 1000 };
static const double MOST_POINTWISE = 5e7; /* numbers */

/* Draws of a run, chain after chain. */
typedef struct {
  Ctx *c;
  const Problem *problem;
  const Model *model;
  const Asked *asked;
  const Run *run; /* of a fit; NULL: of chains */
  size_t chains, draws, ncols;
  const char *const *names;    /* ncols */
  double *values;              /* [chains draws x ncols] */
  const double *theta;         /* [chains draws x dim] */
  const double *log_p, *log_q; /* of a fit */
  DataTree tree;
  Text left_out; /* what is missing, and why */
} Export;

/* ---- draws ----------------------------------------------------------------------------------- */

static void take_fit(Export *x, const char *folder) {
  Ctx *c = x->c;
  const Run *r = run_read(c, folder);
  x->run = r;
  x->problem = run_problem(c, r);
  x->model = x->problem->model;
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

/* The columns of theta are found again from those of the parameters. */
static void take_theta(Export *x) {
  size_t n = x->chains * x->draws, dim = x->model->dim;
  double *theta = NEW_ARRAY(&x->c->arena, double, n *dim + 1);
  for (size_t i = 0; i < n; i++)
    model_unconstrain(x->c, x->model, x->values + i * x->ncols, theta + i * dim);
  x->theta = theta;
}

/* Files of draws hold one chain or several, one behind the other. The method's columns come first.
 */
static void take_chains(Export *x, const char *folder) {
  Ctx *c = x->c;
  CmdstanTable *files[SAMPLE_FILES] = {0};
  size_t n = 0;
  for (size_t k = 0; k < SAMPLE_FILES; k++) {
    const char *path = arena_format(&c->arena, "%s/draws_%zu.csv", folder, k + 1);
    if (access(path, R_OK)) break;
    files[n++] = cmdstan_table(c, path);
    x->chains += (size_t)files[k]->chains;
  }
  if (!n) ctx_fail(c, PVI_DATA, NOWHERE, "%s has no draws_1.csv: there are no draws", folder);
  x->draws = files[0]->n / (size_t)files[0]->chains;
  x->ncols = files[0]->ncols;
  x->names = files[0]->names;
  x->values = NEW_ARRAY(&c->arena, double, x->chains * x->draws * x->ncols + 1);
  size_t at = 0;
  for (size_t k = 0; k < n; at += files[k++]->n)
    memcpy(x->values + at * x->ncols, files[k]->values, files[k]->n * x->ncols * sizeof *x->values);
}

static void add_coordinates(Export *x, TreeGroup *g) {
  tree_coordinate(&x->tree, g, "chain", x->chains);
  tree_coordinate(&x->tree, g, "draw", x->draws);
}

/* The program's columns stand behind the method's. */
static void part_columns(Export *x) {
  size_t own = 0;
  while (own < x->ncols &&
         strcmp(x->names[own], model_output_name(x->model, &x->c->arena, 0, true)))
    own++;
  size_t n = x->chains * x->draws, width = x->ncols - own;
  static const char *const names[] = {"lp",      "acceptance_rate", "step_size", "tree_depth",
                                      "n_steps", "diverging",       "energy"};
  TreeGroup *g = tree_group(&x->tree, "sample_stats");
  add_coordinates(x, g);
  for (size_t k = 0; k < own && k < sizeof names / sizeof *names; k++) {
    double *values = NEW_ARRAY(&x->c->arena, double, n + 1);
    for (size_t i = 0; i < n; i++) values[i] = x->values[i * x->ncols + k];
    TreeArray *a = tree_array(&x->tree, g, names[k], values);
    tree_dim(a, "chain", x->chains);
    tree_dim(a, "draw", x->draws);
    a->whole = k >= 3 && k <= 5;
  }
  double *values = NEW_ARRAY(&x->c->arena, double, n *width + 1);
  for (size_t i = 0; i < n; i++)
    memcpy(values + i * width, x->values + i * x->ncols + own, width * sizeof *values);
  x->values = values;
  x->ncols = width;
  x->names += own;
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
  bool rename = x->run && strcmp(x->run->summary->score, "elbo") && !strcmp(o->name, "log_lik");
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

/* Values of draws and observations as [chain, draw, rows of a block]: `from` has a row a draw, or
 * (by_draw false) a row an observation. */
static void add_by_observation(Export *x, TreeGroup *g, const double *from, size_t draws,
                               bool by_draw) {
  size_t n = x->model->n_obs, chains = by_draw ? x->chains : 1;
  for (int b = 0; b < x->model->nblocks; b++) {
    const ObsBlock *k = &x->model->blocks[b];
    size_t rows = (size_t)k->rows;
    if (!by_draw && k->dist < 0) continue;
    double *values = NEW_ARRAY(&x->c->arena, double, chains *draws *rows + 1);
    for (size_t i = 0; i < chains * draws; i++)
      for (size_t r = 0; r < rows; r++) {
        size_t obs = (size_t)k->obs[r];
        values[i * rows + r] = by_draw ? from[i * n + obs] : from[obs * draws + i];
      }
    const char *name = observed_name(x, k);
    TreeArray *a = tree_array(&x->tree, g, name, values);
    tree_dim(a, "chain", chains);
    tree_dim(a, "draw", draws);
    tree_dim(a, arena_format(&x->c->arena, "%s_dim_0", name), rows);
  }
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
  TreeGroup *g = tree_group(&x->tree, x->run ? "pointwise_log_density" : "log_likelihood");
  add_coordinates(x, g);
  add_by_observation(x, g, values, x->draws, true);
}

static void add_predictive(Export *x) {
  if (!x->run || !x->model->n_obs) return;
  size_t n = x->draws < MOST_SIMULATED ? x->draws : MOST_SIMULATED;
  Options *o = options_copy(&x->c->arena, x->run->o);
  options_set(x->c, o, "outcomes", arena_format(&x->c->arena, "%zu", n));
  const Predictions *p = run_predict(x->c, x->run, x->problem, o);
  TreeGroup *g = tree_group(&x->tree, "posterior_predictive");
  tree_coordinate(&x->tree, g, "chain", 1);
  tree_coordinate(&x->tree, g, "draw", n);
  add_by_observation(x, g, p->outcomes, n, false);
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
  Ctx *c = x->c;
  x->asked = folder_asked(c, folder);
  if (!x->asked->sampling) {
    take_fit(x, folder);
    add_fit_stats(x);
    return;
  }
  Run r = {.o = x->asked->options,
           .program_origin = x->asked->program,
           .data_origin = x->asked->data,
           .folder = folder};
  x->problem = run_problem(c, &r);
  x->model = x->problem->model;
  take_chains(x, folder);
  part_columns(x);
  take_theta(x);
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
      {"pvi_score", x.run ? x.run->summary->score : "bayes"},
      {"pvi_note", x.run ? "draws of q, not of the posterior: do not run loo() on them" : ""}};
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
