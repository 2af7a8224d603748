/* report_density.c: `pvi density`: the log density and its gradient at given unconstrained points.
 */
#include "run/reports.h"

#include "data/json.h"
#include "model/density.h"
#include "report/table.h"

/* The points of a file, point-major. */
static const double *read_points(Ctx *c, const char *path, size_t dim, size_t *npoints) {
  const Json *j = json_read_file(c, path, JSON_PLAIN);
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
  return j->values;
}

static void json_form(const Model *m, const DensityOut *d, size_t npoints, Text *out) {
  JsonWriter j = json_writer(out, false);
  json_object(&j);
  json_key(&j, "dim"), json_integer(&j, (long long)m->dim);
  json_key(&j, "n_obs"), json_integer(&j, (long long)m->n_obs);
  json_key(&j, "points"), json_array(&j);
  for (size_t i = 0; i < npoints; i++) {
    json_object(&j);
    json_key(&j, "lp"), json_number(&j, d->log_density[i]);
    json_key(&j, "jacobian"), json_number(&j, d->jacobian[i]);
    json_key(&j, "prior"), json_number(&j, d->prior[i]);
    json_key(&j, "likelihood"), json_number(&j, d->likelihood[i]);
    json_key(&j, "grad"), json_numbers(&j, d->gradient + i * m->dim, m->dim);
    json_key(&j, "pointwise"), json_numbers(&j, d->pointwise + i * m->n_obs, m->n_obs);
    json_object_end(&j);
  }
  json_array_end(&j);
  json_object_end(&j);
  text_puts(out, "\n");
}

static void text_form(Ctx *c, const Model *m, const DensityOut *d, size_t npoints, size_t width,
                      Text *out) {
  for (size_t i = 0; i < npoints; i++) {
    text_wrap(
        out, width, 4,
        arena_format(&c->arena,
                     "point %zu: lp %.10g = prior %.10g (Jacobian %.10g) + likelihood %.10g of %zu "
                     "observations",
                     i + 1, d->log_density[i], d->prior[i], d->jacobian[i], d->likelihood[i],
                     m->n_obs));
    for (size_t k = 0; k < m->dim; k++)
      text_printf(out, "  d/d %-20s %.10g\n", model_unconstrained_name(m, &c->arena, k),
                  d->gradient[i * m->dim + k]);
  }
}

void report_density(Ctx *c, const Model *m, const Options *o, Text *out) {
  if (!o->at)
    ctx_fail(c, PVI_USAGE, NOWHERE,
             OPTION("at") " POINTS.json is missing: the points to evaluate at");
  size_t n;
  const double *points = read_points(c, o->at, m->dim, &n);
  Arena *a = &c->arena;
  DensityOut d = {.log_density = NEW_ARRAY(a, double, n + 1),
                  .prior = NEW_ARRAY(a, double, n + 1),
                  .jacobian = NEW_ARRAY(a, double, n + 1),
                  .likelihood = NEW_ARRAY(a, double, n + 1),
                  .gradient = NEW_ARRAY(a, double, n * m->dim + 1),
                  .pointwise = NEW_ARRAY(a, double, n * m->n_obs + 1)};
  density_once(c, m, NULL, 0, &(ModelPoints){points, n, m->dim, 1}, &d);
  for (size_t k = 0; k < n; k++) d.prior[k] += d.jacobian[k];
  if (o->json)
    json_form(m, &d, n, out);
  else
    text_form(c, m, &d, n, report_width(o), out);
}
