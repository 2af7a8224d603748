/* density.c: pvi density: the log density and its gradient at given unconstrained points, all
 * points together. */
#include "cli/cli.h"

#include <string.h>

static const Command command = {
    "density", "MODEL DATA --at POINTS.json [options]",
    "Log density (all constants and Jacobians), gradient, prior, likelihood and pointwise log "
    "likelihood at\n"
    "unconstrained points: POINTS.json is an array of vectors in the program's parameter order.",
    "  pvi density examples/golf/logistic.stan examples/golf/golf.csv --at points.json\n"
    "  pvi density model.stan data.json --at points.json --json\n"};

typedef struct {
  size_t npoints, n_obs, lanes;
  const int32_t *obs; /* of each row */
  double *pointwise;  /* [points x n_obs] */
} Pointwise;

/* d likelihood / d ll = 1: every point for itself. */
static void keep_rows(void *self, const TileView *t) {
  Pointwise *p = self;
  for (size_t r = 0; r < t->rows; r++)
    for (size_t j = 0; j < p->lanes; j++) {
      if (j < p->npoints)
        p->pointwise[j * p->n_obs + (size_t)p->obs[t->row + r]] = t->heads[0][r * p->lanes + j];
      t->adj[0][r * p->lanes + j] = 1;
    }
}

/* The points as rows of draws, dimension by dimension; padding repeats the first. */
static double *read_points(Ctx *c, const char *path, size_t dim, size_t *npoints, size_t *lanes) {
  Json *j = json_read_file(c, path, JSON_PLAIN);
  bool one = j->kind == JSON_NUMBERS && j->ndims == 1,
       many = j->kind == JSON_NUMBERS && j->ndims == 2;
  if (one && j->n == 0 && dim)
    ctx_fail(c, PVI_DATA, j->loc, "no points: an array of vectors of %zu numbers is expected", dim);
  if (!one && !many)
    ctx_fail(c, PVI_DATA, j->loc, "an array of vectors of %zu numbers is expected", dim);
  size_t length = one ? j->n : (size_t)j->dims[1];
  if (length != dim)
    ctx_fail(c, PVI_DATA, j->loc,
             "points have %zu numbers; the program has %zu unconstrained parameters", length, dim);
  *npoints = one ? 1 : (size_t)j->dims[0];
  *lanes = (*npoints + LANES - 1) / LANES * LANES;
  double *theta = NEW_ARRAY(&c->arena, double, dim **lanes);
  for (size_t k = 0; k < dim; k++)
    for (size_t i = 0; i < *lanes; i++)
      theta[k * *lanes + i] = j->values[(i < *npoints ? i : 0) * dim + k];
  return theta;
}

typedef struct {
  double lp, jacobian, prior, likelihood;
} Densities;

static Densities densities_of(const Work *w, const Pointwise *p, size_t i) {
  Densities d = {.jacobian = vm_value(w, ROOT_JACOBIAN, 0)[i]};
  d.prior = vm_value(w, ROOT_PRIOR, 0)[i] + d.jacobian;
  for (size_t k = 0; k < p->n_obs; k++) d.likelihood += p->pointwise[i * p->n_obs + k];
  d.lp = d.prior + d.likelihood;
  return d;
}

static void print_json(Ctx *c, const Model *m, const Work *w, const Pointwise *p,
                       const double *grad) {
  Text out = text_make(&c->arena);
  JsonWriter j = json_writer(&out, false);
  json_object(&j);
  json_key(&j, "dim"), json_integer(&j, (long long)m->dim);
  json_key(&j, "n_obs"), json_integer(&j, (long long)m->n_obs);
  json_key(&j, "points"), json_array(&j);
  for (size_t i = 0; i < p->npoints; i++) {
    Densities d = densities_of(w, p, i);
    json_object(&j);
    json_key(&j, "lp"), json_number(&j, d.lp);
    json_key(&j, "jacobian"), json_number(&j, d.jacobian);
    json_key(&j, "prior"), json_number(&j, d.prior);
    json_key(&j, "likelihood"), json_number(&j, d.likelihood);
    json_key(&j, "grad"), json_array(&j);
    for (size_t k = 0; k < m->dim; k++) json_number(&j, grad[k * p->lanes + i]);
    json_array_end(&j);
    json_key(&j, "pointwise"), json_numbers(&j, p->pointwise + i * p->n_obs, p->n_obs);
    json_object_end(&j);
  }
  json_array_end(&j);
  json_object_end(&j);
  puts(out.s);
}

static void print_text(Ctx *c, const Model *m, const Work *w, const Pointwise *p,
                       const double *grad) {
  for (size_t i = 0; i < p->npoints; i++) {
    Densities d = densities_of(w, p, i);
    printf("point %zu: lp %.10g = prior %.10g (Jacobian %.10g) + likelihood %.10g of %zu "
           "observations\n",
           i + 1, d.lp, d.prior, d.jacobian, d.likelihood, m->n_obs);
    for (size_t k = 0; k < m->dim; k++)
      printf("  d/d %-20s %.10g\n", model_unconstrained_name(m, &c->arena, k),
             grad[k * p->lanes + i]);
  }
}

Status cmd_density(Ctx *c, int argc, char **argv) {
  const char *at = NULL, *place[2];
  bool json = false;
  OptionList sets = {.count = 0}, include = {.count = 0}, observe = {.count = 0};
  const Option options[] = {
      {"at", OPT_TEXT, "POINTS.json", &at, 0, "array of unconstrained vectors (required)"},
      {"observe", OPT_LIST, "LINE", &observe, 0,
       "what this line adds to the log density are observations; may be repeated"},
      {"set", OPT_LIST, "NAME=VALUE", &sets, 0, "a data variable given here; may be repeated"},
      {"include", OPT_LIST, "DIR", &include, 0,
       "where #include looks besides the program's own folder"},
      {"json", OPT_FLAG, NULL, &json, 0, "machine-readable output"},
  };
  if (!cli_options(c, &command, options, sizeof options / sizeof *options, argc, argv, place, 1, 2))
    return PVI_OK;
  if (!at) ctx_fail(c, PVI_USAGE, NOWHERE, "--at POINTS.json is missing (pvi density --help)");
  Program *program = cli_program(c, place[0], &include);
  cli_observe(c, program, &observe);
  Model *model = model_make(c, program, cli_data(c, place[1], &sets));
  Pointwise p = {.n_obs = model->n_obs};
  double *theta = read_points(c, at, model->dim, &p.npoints, &p.lanes);
  int32_t *obs = NEW_ARRAY(&c->arena, int32_t, model->n_obs);
  ModelRows all = model_rows(&c->arena, model, NULL, 0);
  model_numbers(model, &all, obs);
  Tape *tape = model_tape(&c->arena, model, &all, WANT_LL);
  Work *work = vm_work(&c->arena, tape, p.lanes, NULL);
  p.obs = obs;
  p.pointwise = NEW_ARRAY(&c->arena, double, p.npoints *p.n_obs);
  double *grad = NEW_ARRAY(&c->arena, double, model->dim *p.lanes);
  vm_forward(work, theta);
  vm_tiles(work, keep_rows, &p, true);
  vm_backward(work, (double[]){1, 1}, NULL, grad);
  (json ? print_json : print_text)(c, model, work, &p, grad);
  return PVI_OK;
}
