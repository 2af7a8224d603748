/* run_draws.c: draws of q as output columns of the program, and the log densities that go with
 * them. */
#include "run/run.h"

#include "model/density.h"
#include "num/rng.h"

#include <math.h>
#include <string.h>

enum { STREAM = 4 /* of the random numbers behind draws.csv */, MOST_SAVED = 1000 };

/* Draws with weights become draws without, by stratified resampling. Systematic resampling, at
 * (i + 1/2) / n, will not do: a mixture's components take turns, and one whose draws weigh little
 * would be passed over every time. theta is [dim x ld]. */
static void resample(Arena *a, const Q *q, QDraws *d, uint64_t seed, double *theta, double *log_q) {
  Rng key = rng_make(seed, STREAM + 1);
  size_t n = d->noise.M, ld = d->noise.ld, k = 0;
  size_t *from = NEW_ARRAY(a, size_t, n);
  double sum = d->weights[0];
  for (size_t i = 0; i < n; i++) {
    double at = ((double)i + rng_uniform(key, i, 0)) / (double)n;
    while (k + 1 < n && sum < at) sum += d->weights[++k];
    from[i] = k;
  }
  double *row = NEW_ARRAY(a, double, ld);
  for (size_t p = 0; p <= q->dim; p++) {
    double *x = p < q->dim ? theta + p * ld : log_q;
    memcpy(row, x, ld * sizeof *row);
    for (size_t i = 0; i < n; i++) x[i] = row[from[i]];
  }
}

/* theta [dim x ld] and log q of n draws. */
static double *draw(Arena *a, const Run *r, size_t n, size_t ld, uint64_t seed, double *log_q) {
  double *theta = NEW_ARRAY(a, double, r->q.dim *ld);
  TempArena *temp = temp_open(a->ctx);
  QDraws d = q_draws(&temp->arena, &r->q, n, ld, kernels_best());
  for (size_t k = 0; k < q_noise(&r->q); k++)
    rng_fill_normal(rng_make(seed, STREAM), 0, k, d.u + k * ld, n);
  q_draw(&r->q, r->phi, &d, theta);
  q_log_q(&r->q, r->phi, &d, log_q);
  if (d.weights) resample(&temp->arena, &r->q, &d, seed, theta, log_q);
  temp_close(temp);
  return theta;
}

/* The output columns at the mean of q: the first row of CmdStan's file. */
static const double *at_mean(Ctx *c, const Run *r, const Model *m, uint64_t seed,
                             const bool *kept) {
  double *centre = NEW_ARRAY(&c->arena, double, m->dim + 1);
  double *sd = NEW_ARRAY(&c->arena, double, m->dim + 1);
  double *mean = NEW_ARRAY(&c->arena, double, model_output_count(m));
  q_moments(&r->q, r->phi, centre, sd);
  size_t before = c->nmessages;
  model_some_outputs(c, m, &(ModelPoints){centre, 1, m->dim, 1}, seed + 1, kept, mean);
  c->nmessages = before; /* the draws tell where generated quantities fail */
  return mean;
}

/* ---- which variables are kept ---------------------------------------------------------------- */

static bool is_named(const OptionList *l, const char *name) {
  for (size_t k = 0; k < l->count; k++)
    if (!strcmp(l->items[k], name)) return true;
  return false;
}

static void check_names(Ctx *c, const Model *m, const OptionList *l) {
  const char **names = NEW_ARRAY(&c->arena, const char *, m->noutputs + 1);
  for (int k = 0; k < m->noutputs; k++) names[k] = m->outputs[k].name;
  for (size_t v = 0; v < l->count; v++) {
    bool found = !strcmp(l->items[v], "all");
    for (int k = 0; k < m->noutputs; k++) found |= !strcmp(l->items[v], names[k]);
    if (!found)
      ctx_unknown(c, PVI_USAGE, NOWHERE,
                  &(UnknownWord){"variable in " OPTION("save"), l->items[v], NULL, names,
                                 (size_t)m->noutputs});
  }
}

const bool *run_kept(Ctx *c, const Model *m, const OptionList *save) {
  bool *kept = NEW_ARRAY(&c->arena, bool, m->noutputs + 1), all = is_named(save, "all");
  check_names(c, m, save);
  for (int k = 0; k < m->noutputs; k++) {
    const Output *o = &m->outputs[k];
    kept[k] = all || o->block == BLOCK_PARAMETERS || o->n <= MOST_SAVED || is_named(save, o->name);
  }
  return kept;
}

const char *run_left_out(Ctx *c, const Model *m, const bool *kept) {
  Text t = text_make(&c->arena);
  size_t n = 0;
  for (int k = 0; k < m->noutputs; k++)
    if (!kept[k])
      text_printf(&t, "%s%s (%d elements)", n++ ? ", " : "", m->outputs[k].name, m->outputs[k].n);
  if (!n) return NULL;
  return arena_format(&c->arena,
                      "draws.csv leaves out what has more than %d elements: %s; " OPTION(
                          "save") " with the name, or all, keeps it, and pvi draws gives it later",
                      MOST_SAVED, t.s);
}

/* ---- the draws ------------------------------------------------------------------------------- */

/* Names of the columns that are kept, and how many they are. */
static const char *const *column_names(Ctx *c, const Model *m, const bool *kept, size_t *n) {
  const char **names = NEW_ARRAY(&c->arena, const char *, model_output_count(m) + 1);
  size_t column = 0;
  *n = 0;
  for (int k = 0; k < m->noutputs; k++)
    for (int32_t i = 0; i < m->outputs[k].n; i++, column++)
      if (!kept || kept[k]) names[(*n)++] = model_output_name(m, &c->arena, column, true);
  return names;
}

static double *point_major(Ctx *c, const double *theta, size_t dim, size_t n, size_t ld) {
  double *points = NEW_ARRAY(&c->arena, double, n *dim + 1);
  for (size_t j = 0; j < n; j++)
    for (size_t k = 0; k < dim; k++) points[j * dim + k] = theta[k * ld + j];
  return points;
}

/* log p(theta, y) of the training part, on the unconstrained scale with Jacobian. */
static double *log_joint(Ctx *c, const Model *m, const Split *s, const ModelPoints *draws) {
  double *joint = NEW_ARRAY(&c->arena, double, draws->n);
  density_once(c, m, s->rows[PART_TRAIN], s->count[PART_TRAIN], draws,
               &(DensityOut){.log_density = joint});
  return joint;
}

RunDraws *run_draw(Ctx *c, const Run *r, const Problem *p, size_t n, uint64_t seed,
                   const bool *kept) {
  const Model *m = p->model;
  size_t ld = (n + LANES - 1) / LANES * LANES, ncols;
  const char *const *names = column_names(c, m, kept, &ncols);
  double *log_q = NEW_ARRAY(&c->arena, double, ld);
  TempArena *temp = temp_open(c);
  double *theta = draw(&temp->arena, r, n, ld, seed, log_q);
  double *values = NEW_ARRAY(&c->arena, double, n *ncols);
  ModelPoints points = {theta, n, 1, ld};
  model_some_outputs(c, m, &points, seed, kept, values);
  RunDraws *d = NEW(&c->arena, RunDraws);
  d->theta = point_major(c, theta, m->dim, n, ld);
  d->draws = (Draws){.ndraws = n,
                     .ncols = ncols,
                     .names = names,
                     .values = values,
                     .log_p = log_joint(c, m, run_split(c, r, p), &points),
                     .log_g = log_q,
                     .mean = at_mean(c, r, m, seed, kept)};
  temp_close(temp);
  return d;
}

RunDraws *run_draw_plain(Ctx *c, const Run *r, size_t n, uint64_t seed) {
  size_t ld = (n + LANES - 1) / LANES * LANES;
  double *log_q = NEW_ARRAY(&c->arena, double, ld), *log_p = NEW_ARRAY(&c->arena, double, n);
  TempArena *temp = temp_open(c);
  double *theta = draw(&temp->arena, r, n, ld, seed, log_q);
  RunDraws *d = NEW(&c->arena, RunDraws);
  d->theta = point_major(c, theta, r->q.dim, n, ld);
  temp_close(temp);
  for (size_t j = 0; j < n; j++) log_p[j] = NAN;
  d->draws = (Draws){.ndraws = n,
                     .ncols = r->q.dim,
                     .names = r->parameters,
                     .values = d->theta,
                     .log_p = log_p,
                     .log_g = log_q};
  return d;
}
