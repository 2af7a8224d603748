/* density.c: pvi density: the log density and its gradient at given unconstrained points, all
 * points together. */
#include "cli/cli.h"

#include "model/density.h"

static const Command command = {
    "density", "MODEL DATA --at POINTS.json [options]",
    "Log density (all constants and Jacobians), gradient, prior, likelihood and pointwise log "
    "likelihood at\n"
    "unconstrained points: POINTS.json is an array of vectors in the program's parameter order.",
    "  pvi density examples/golf/logistic.stan examples/golf/golf.csv --at points.json\n"
    "  pvi density model.stan data.json --at points.json --json\n"};

static ModelPoints read_points(Ctx *c, const char *path, size_t dim) {
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
  return (ModelPoints){j->values, one ? 1 : (size_t)j->dims[0], dim, 1};
}

/* The prior as it is printed has the Jacobian in it. */
static double printed_prior(const DensityOut *d, size_t i) { return d->prior[i] + d->jacobian[i]; }

static void print_json(Ctx *c, const Model *m, size_t npoints, const DensityOut *d) {
  Text out = text_make(&c->arena);
  JsonWriter j = json_writer(&out, false);
  json_object(&j);
  json_key(&j, "dim"), json_integer(&j, (long long)m->dim);
  json_key(&j, "n_obs"), json_integer(&j, (long long)m->n_obs);
  json_key(&j, "points"), json_array(&j);
  for (size_t i = 0; i < npoints; i++) {
    json_object(&j);
    json_key(&j, "lp"), json_number(&j, d->log_density[i]);
    json_key(&j, "jacobian"), json_number(&j, d->jacobian[i]);
    json_key(&j, "prior"), json_number(&j, printed_prior(d, i));
    json_key(&j, "likelihood"), json_number(&j, d->likelihood[i]);
    json_key(&j, "grad"), json_array(&j);
    for (size_t k = 0; k < m->dim; k++) json_number(&j, d->gradient[i * m->dim + k]);
    json_array_end(&j);
    json_key(&j, "pointwise"), json_numbers(&j, d->pointwise + i * m->n_obs, m->n_obs);
    json_object_end(&j);
  }
  json_array_end(&j);
  json_object_end(&j);
  puts(out.s);
}

static void print_text(Ctx *c, const Model *m, size_t npoints, const DensityOut *d) {
  for (size_t i = 0; i < npoints; i++) {
    printf("point %zu: lp %.10g = prior %.10g (Jacobian %.10g) + likelihood %.10g of %zu "
           "observations\n",
           i + 1, d->log_density[i], printed_prior(d, i), d->jacobian[i], d->likelihood[i],
           m->n_obs);
    for (size_t k = 0; k < m->dim; k++)
      printf("  d/d %-20s %.10g\n", model_unconstrained_name(m, &c->arena, k),
             d->gradient[i * m->dim + k]);
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
  const Program *program = cli_program(c, place[0], &include);
  Data *data = cli_data(c, place[1], &sets);
  const Model *m = cli_model(c, program, data, (ModelOptions){.nobserve = 0}, &observe);
  Arena *a = &c->arena;
  ModelPoints points = read_points(c, at, m->dim);
  size_t n = points.n;
  DensityOut d = {.log_density = NEW_ARRAY(a, double, n),
                  .prior = NEW_ARRAY(a, double, n),
                  .jacobian = NEW_ARRAY(a, double, n),
                  .likelihood = NEW_ARRAY(a, double, n),
                  .gradient = NEW_ARRAY(a, double, n * m->dim),
                  .pointwise = NEW_ARRAY(a, double, n * m->n_obs)};
  density_eval(density_make(a, m, NULL, 0, n), &points, &d);
  (json ? print_json : print_text)(c, m, n, &d);
  return PVI_OK;
}
