/* sample_read.c: the folder of `pvi sample` again: its draws, and predictions from them. */
#include "run/sampling.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

/* ---- draws ----------------------------------------------------------------------------------- */

static bool is_methods(const char *name) {
  size_t n = strlen(name);
  return n > 2 && !strcmp(name + n - 2, "__"); /* no variable of a program ends so */
}

/* Files hold one chain or several, one behind the other. */
const SampledDraws *sample_draws(Ctx *c, const char *folder) {
  SampledDraws *d = NEW(&c->arena, SampledDraws);
  CmdstanTable *files[SAMPLE_FILES] = {0};
  size_t n = 0, rows = 0;
  for (size_t k = 0; k < SAMPLE_FILES; k++) {
    const char *path = arena_format(&c->arena, "%s/draws_%zu.csv", folder, k + 1);
    if (access(path, R_OK)) break;
    CmdstanTable *t = files[n++] = cmdstan_table(c, path);
    if (t->ncols != files[0]->ncols || !(t->chains >= 1) || t->n % (size_t)t->chains ||
        t->n / (size_t)t->chains != files[0]->n / (size_t)files[0]->chains)
      ctx_fail(c, PVI_DATA, NOWHERE, "%s: its rows are not as those of draws_1.csv beside it",
               path);
    d->chains += (size_t)t->chains;
    rows += t->n;
  }
  if (!n) ctx_fail(c, PVI_DATA, NOWHERE, "%s has no draws_1.csv: there are no draws", folder);
  double *values = NEW_ARRAY(&c->arena, double, rows *files[0]->ncols + 1);
  d->draws = rows / d->chains;
  d->ncols = files[0]->ncols;
  d->names = files[0]->names;
  while (d->own < d->ncols && is_methods(d->names[d->own])) d->own++;
  d->values = values;
  for (size_t k = 0; k < n; values += files[k]->n * d->ncols, k++)
    memcpy(values, files[k]->values, files[k]->n * d->ncols * sizeof *values);
  return d;
}

const double *sample_theta(Ctx *c, const SampledDraws *d, const Model *m) {
  size_t n = d->chains * d->draws;
  double *theta = NEW_ARRAY(&c->arena, double, n * m->dim + 1);
  for (size_t i = 0; i < n; i++)
    model_unconstrain(c, m, d->values + i * d->ncols + d->own, theta + i * m->dim);
  return theta;
}

/* ---- predictions ----------------------------------------------------------------------------- */

enum { FEW_DRAWS = 1024 };

/* n of all draws, evenly spread, as rows of draws. */
static double *rows_of(Arena *a, const double *theta, size_t total, size_t n, size_t dim) {
  double *rows = NEW_ARRAY(a, double, n *dim + 1);
  for (size_t j = 0; j < n; j++)
    for (size_t k = 0; k < dim; k++) rows[k * n + j] = theta[j * total / n * dim + k];
  return rows;
}

static const double *mean_of(Arena *a, const double *theta, size_t n, size_t dim) {
  double *mean = NEW_ARRAY(a, double, dim + 1);
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < dim; k++) mean[k] += theta[i * dim + k] / (double)n;
  return mean;
}

/* The program that was sampled, with its own data, says what the draws are on the unconstrained
 * scale; new data may have other bounds. */
const Run *sample_predictor(Ctx *c, const Run *r) {
  const Model *m = run_problem(c, r)->model;
  const SampledDraws *d = sample_draws(c, r->folder);
  Arena *a = &c->arena;
  size_t n = d->chains * d->draws, few = n < FEW_DRAWS ? n : FEW_DRAWS,
         scored = sample_scored(n, m->n_obs);
  const double *theta = sample_theta(c, d, m);
  const char **names = NEW_ARRAY(a, const char *, m->dim + 1);
  bool *points = NEW_ARRAY(a, bool, m->dim + 1);
  GivenDraws *given = NEW(a, GivenDraws);
  for (size_t k = 0; k < m->dim; k++) {
    names[k] = model_unconstrained_name(m, a, k);
    points[k] = true;
  }
  *given = (GivenDraws){rows_of(a, theta, n, scored, m->dim), rows_of(a, theta, n, few, m->dim),
                        scored, few};
  Run *out = NEW(a, Run);
  *out = *r;
  out->q = q_make(a, FAMILY_meanfield, (Shape){0}, m->dim, points);
  out->phi = mean_of(a, theta, n, m->dim);
  out->given = given;
  out->parameters = names;
  out->scoring = evaluate_scoring(r->o, m->n_obs);
  out->scoring.integrate = INTEGRATE_DRAWS;
  return out;
}
