/* larger.c: what goes with a variable that varies (explain), and the larger programs that a
 * statistician would try next, each fitted (try_larger). */
#include "run/diagnose_int.h"

#include "run/expand.h"

#include "model/density.h"
#include "num/stats.h"
#include "run/jobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what goes with a variation -------------------------------------------------------------- */

/* How much each observation pulls at a candidate: the derivative of its log likelihood at VI's
 * mean, summed over the candidate's elements. */
static double *pulls(const Study *s, const Candidate *x) {
  const Model *m = s->problem->model;
  size_t n = m->n_obs, dim = m->dim;
  double *theta = NEW_ARRAY(&s->c->arena, double, 2 * dim + 1),
         *each = NEW_ARRAY(&s->c->arena, double, 2 * n + 1),
         *mean = NEW_ARRAY(&s->c->arena, double, dim + 1),
         *sd = NEW_ARRAY(&s->c->arena, double, dim + 1),
         *pull = NEW_ARRAY(&s->c->arena, double, n + 1);
  q_moments(&s->q, s->phi, mean, sd);
  for (int side = 0; side < 2; side++) {
    memcpy(theta + (size_t)side * dim, mean, dim * sizeof *theta);
    for (int32_t i = 0; i < x->count; i++)
      theta[(size_t)side * dim + (size_t)(x->first + i)] +=
          (side ? -1 : 1) * 0.1 * sd[x->first + i];
  }
  density_once(s->c, m, NULL, 0, &(ModelPoints){theta, 2, dim, 1},
               &(DensityOut){.pointwise = each});
  for (size_t i = 0; i < n; i++) pull[i] = each[i] - each[n + i];
  return pull;
}

/* The share of the variance of x that the values of a column account for: as groups, where they are
 * few whole numbers, less what chance would; else along a line. */
static double accounted(Ctx *c, const double *x, const DataVar *v, Diagnosed *how) {
  size_t n = v->n;
  double mean = 0, square = 0, xy = 0, yy = 0, y_mean = 0, least = v->values[0], most = least;
  for (size_t i = 0; i < n; i++) {
    mean += x[i] / (double)n;
    y_mean += v->values[i] / (double)n;
    least = fmin(least, v->values[i]);
    most = fmax(most, v->values[i]);
  }
  for (size_t i = 0; i < n; i++) {
    double d = x[i] - mean, e = v->values[i] - y_mean;
    square += d * d, xy += d * e, yy += e * e;
  }
  if (!(square > 0) || !(yy > 0)) return 0;
  double groups = most - least + 1;
  how->column_sd = sqrt(yy / (double)n);
  how->groups = v->is_int && groups <= (double)n / 3 && groups <= 10000;
  if (!how->groups) return xy * xy / (square * yy) - 1 / (double)n;
  size_t G = (size_t)groups;
  double *sum = NEW_ARRAY(&c->arena, double, 2 * G), *size = sum + G, between = 0;
  for (size_t i = 0; i < n; i++) {
    size_t g = (size_t)(v->values[i] - least);
    sum[g] += x[i] - mean;
    size[g]++;
  }
  for (size_t g = 0; g < G; g++) between += size[g] > 0 ? sum[g] * sum[g] / size[g] : 0;
  return between / square - (groups - 1) / (double)n;
}

/* Are these the trials of binomial outcomes? */
static bool is_trials(const Model *m, const DataVar *column) {
  bool any = false;
  for (int b = 0; b < m->nblocks; b++) {
    const ObsBlock *k = &m->blocks[b];
    for (int32_t i = 0; k->size && i < k->rows; i++) {
      if (column->values[k->obs[i]] != (double)k->size[i]) return false;
      any = true;
    }
  }
  return any;
}

/* May the column explain something? The outcome itself does not, nor do its trials, and of what the
 * program does not declare only groups are taken: other columns may be forms of the outcome. */
static bool may_explain(const Study *s, const DataVar *column) {
  const Decl *d = stan_find_decl(s->problem->program, BLOCK_DATA, column->name);
  if (column->n != s->problem->model->n_obs || is_trials(s->problem->model, column)) return false;
  return d ? !stan_is_only_outcome(s->problem->program, d) : column->is_int;
}

void explain(const Study *s, const Candidate *x, Diagnosed *v) {
  const double least = 0.02;
  const Data *d = s->problem->data;
  const double *pull = pulls(s, x);
  for (size_t k = 0; k < d->vars.count; k++) {
    const DataVar *column = d->vars.items[k].value;
    if (!may_explain(s, column)) continue;
    Diagnosed how = *v;
    how.share = accounted(s->c, pull, column, &how);
    how.explained = column->name;
    if (how.share > v->share && how.share > least) *v = how;
  }
}

/* ---- larger programs ------------------------------------------------------------------------- */

/* Programs that are fitted by VI on the same folds: the one as it is, then larger ones. */
typedef struct {
  const Study *s;
  const Options *o;
  const char *const *texts; /* NULL: as it is */
  double *log; /* [programs x n_obs]: held-out log scores; NaN: it could not be fitted */
} Trials;

static void tell_larger(void *self, size_t begun, size_t count) {
  const Trials *t = self;
  study_tell(t->s, "larger programs", begun, count);
}

/* An error of a larger program is no error of the user's: then it is not suggested. */
static bool try_program(Ctx *c, void *self, size_t k) {
  const Trials *t = self;
  const Problem *p = t->s->problem;
  size_t n = p->model->n_obs;
  jmp_buf here, *outer = c->trap;
  for (size_t i = 0; i < n; i++) t->log[k * n + i] = NAN;
  if (!setjmp(here)) {
    c->trap = &here;
    const Problem *larger = t->texts[k] ? problem_of_text(c, p, t->o, t->texts[k]) : p;
    if (larger->model->n_obs == n) {
      const Run *r = run_fit(c, larger, t->o, NULL, NULL);
      for (size_t i = 0; i < n; i++) t->log[k * n + i] = r->folds->by_obs[i * r->folds->list.count];
    }
  }
  c->trap = outer;
  return true;
}

/* Elements of vectors are b[2]; others have no index. */
static Varying varying_of(const Study *s, const Candidate *x, const Diagnosed *v) {
  const Model *m = s->problem->model;
  Varying w = {.name = x->name,
               .column = v->explained,
               .groups = v->groups,
               .width = v->sd,
               .column_sd = v->column_sd};
  for (int k = 0; k < m->noutputs; k++) {
    const Output *o = &m->outputs[k];
    if (o->block != BLOCK_PARAMETERS || x->first < o->offset ||
        x->first >= o->offset + o->unconstrained || x->count != 1)
      continue;
    w.variable = o->decl;
    w.element = o->ndims ? x->first - o->offset + 1 : 0;
  }
  return w;
}

/* Groups of a program are numbered from 1. */
static bool numbered_from_one(const Data *d, const char *name) {
  const DataVar *v = data_find(d, name);
  for (size_t k = 0; v && k < v->n; k++)
    if (v->values[k] < 1) return false;
  return v != NULL;
}

static size_t suggestions(const Study *s, const Diagnosed *v, Expanded *out, const char **texts) {
  size_t n = 0;
  for (size_t k = 0; k < s->n; k++) {
    Expansion found[MOST_EXPANSIONS];
    Varying w = varying_of(s, &s->candidates[k], &v[k]);
    if (!v[k].varies || !w.variable) continue;
    w.groups &= w.column && numbered_from_one(s->problem->data, w.column);
    int count = expand(s->c, s->problem, &w, found);
    for (int j = 0; j < count; j++) {
      out[n] = (Expanded){.variable = v[k].name, .what = found[j].what, .text = found[j].text};
      texts[1 + n++] = found[j].text;
    }
  }
  return n;
}

static Options *options_of_trials(const Study *s, const char *folds) {
  Options *o = options_copy(&s->c->arena, s->r->o);
  options_set(s->c, o, "score", score_name(SCORE_elbo));
  options_set(s->c, o, "lambda", NULL);
  options_set(s->c, o, "free", NULL);
  options_set(s->c, o, "folds", NULL);
  options_set(s->c, o, "folds", folds);
  options_set(s->c, o, "threads", NULL);
  options_set(s->c, o, "threads", "1");
  return o;
}

static int by_gain(const void *a, const void *b) {
  const Expanded *x = a, *y = b;
  if (x->gain != y->gain) return x->gain > y->gain ? -1 : 1;
  return strcmp(x->what, y->what);
}

void try_larger(Study *s, const char *folds, const Diagnosed *v, Diagnosis *d) {
  Arena *a = &s->c->arena;
  size_t n = s->problem->model->n_obs, most = MOST_EXPANSIONS * s->n + 1;
  Expanded *e = NEW_ARRAY(a, Expanded, most);
  const char **texts = NEW_ARRAY(a, const char *, most + 1);
  size_t count = suggestions(s, v, e, texts);
  d->expanded = e;
  if (!count) return;
  s->began = base_seconds();
  Trials t = {s, options_of_trials(s, folds), texts, NEW_ARRAY(a, double, (count + 1) * n)};
  jobs_run(s->c, s->r->o->threads,
           &(Jobs){count + 1, try_program, &t, "larger program", tell_larger});
  for (size_t k = 0; k < count; k++) {
    double *larger = t.log + (k + 1) * n;
    for (size_t i = 0; i < n; i++) larger[i] -= t.log[i];
    e[k].gain = stat_total(larger, n, &e[k].se);
    if (isnan(e[k].se)) continue; /* it could not be fitted */
    e[k].changes = expand_changes(s->c, s->problem->program, e[k].text);
    e[d->nexpanded++] = e[k];
  }
  qsort(e, d->nexpanded, sizeof *e, by_gain);
}
