/* pointwise.c: see pointwise.h. In order: the columns that may go with differences, how much each
 * of them does, the figure. */
#include "run/pointwise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS = 10, MOST_COLUMNS = 64, MOST_POINTS = 1500 };

#define LEAST_SHARE 0.02 /* less is not worth a word */

const double *pointwise_outcomes(Ctx *c, const Model *m) {
  double *y = NEW_ARRAY(&c->arena, double, m->n_obs + 1);
  for (size_t k = 0; k < m->n_obs; k++) y[k] = NAN;
  for (int b = 0; b < m->nblocks; b++)
    for (int32_t k = 0; m->blocks[b].dist >= 0 && k < m->blocks[b].rows; k++)
      y[m->blocks[b].obs[k]] = m->blocks[b].y[k];
  return y;
}

const double *pointwise_trials(Ctx *c, const Model *m) {
  double *trials = NEW_ARRAY(&c->arena, double, m->n_obs + 1);
  size_t known = 0;
  for (int b = 0; b < m->nblocks; b++)
    for (int32_t k = 0; m->blocks[b].size && k < m->blocks[b].rows; k++, known++)
      trials[m->blocks[b].obs[k]] = m->blocks[b].size[k];
  return known == m->n_obs && known ? trials : NULL;
}

bool pointwise_is_skewed(const double *x, size_t n) {
  const double far = 8;
  return n > 0 && x[0] > 0 && x[n - 1] > far * x[n / 2];
}

/* ---- columns --------------------------------------------------------------------------------- */

/* A column of the data with a value for every observation: of a vector, or of a matrix. */
typedef struct {
  const char *name;
  const double *values; /* n of them */
} ColumnOf;

typedef struct {
  double x, d;
} Point;

static int by_x(const void *a, const void *b) {
  const Point *p = a, *q = b;
  return p->x < q->x ? -1 : p->x > q->x;
}

/* Neighbours along x, five or more, equal ones together: their number and means. */
typedef struct {
  double x[GROUPS], d[GROUPS], size[GROUPS];
  size_t n;
} Grouped;

static Grouped group(const Point *p, size_t n) {
  Grouped g = {.n = 0};
  size_t most = n < 10 ? 2 : n / 5 < GROUPS ? n / 5 : GROUPS, each = (n + most - 1) / most;
  for (size_t k = 0; k < n && g.n < most; g.n++) {
    size_t to = k + each > n || g.n == most - 1 ? n : k + each;
    while (to < n && p[to].x == p[to - 1].x) to++;
    double size = (double)(to - k);
    for (; k < to; k++) g.x[g.n] += p[k].x / size, g.d[g.n] += p[k].d / size;
    g.size[g.n] = size;
  }
  return g;
}

/* The share of the differences' variance between groups, less what chance would make of so many. */
static double share_of(const Point *p, size_t n, const Grouped *g) {
  double mean = 0, total = 0, between = 0;
  for (size_t k = 0; k < n; k++) mean += p[k].d / (double)n;
  for (size_t k = 0; k < n; k++) total += (p[k].d - mean) * (p[k].d - mean);
  for (size_t k = 0; k < g->n; k++) between += g->size[k] * (g->d[k] - mean) * (g->d[k] - mean);
  if (g->n < 2 || n <= g->n || !(total > 0)) return 0;
  return 1 - (1 - between / total) * (double)(n - 1) / (double)(n - g->n);
}

static size_t points_of(const ColumnOf *x, const double *d, size_t n, Point *out) {
  size_t count = 0;
  for (size_t k = 0; k < n; k++)
    if (isfinite(x->values[k]) && isfinite(d[k])) out[count++] = (Point){x->values[k], d[k]};
  qsort(out, count, sizeof *out, by_x);
  return count;
}

/* Everything that may be chosen: what is known of the problem's data besides outcomes and trials.
 */
static size_t columns_of(Ctx *c, const Problem *p, size_t n, ColumnOf *out) {
  const double *y = pointwise_outcomes(c, p->model), *trials = pointwise_trials(c, p->model);
  size_t count = 0;
  for (size_t i = 0; i < p->data->vars.count; i++) {
    const DataVar *v = p->data->vars.items[i].value;
    if (v->is_tuple || v->problem || v->ndims < 1 || v->ndims > 2 || v->dims[0] != (long)n)
      continue;
    size_t wide = v->n / n;
    for (size_t j = 0; j < wide && count < MOST_COLUMNS; j++) {
      double *x = NEW_ARRAY(&c->arena, double, n);
      for (size_t k = 0; k < n; k++) x[k] = v->values[k * wide + j];
      if (!memcmp(x, y, n * sizeof *x) || (trials && !memcmp(x, trials, n * sizeof *x))) continue;
      out[count++] = (ColumnOf){
          v->ndims == 1 ? v->name : arena_format(&c->arena, "%s[,%zu]", v->name, j + 1), x};
    }
  }
  return count;
}

/* The one that goes with the differences most; its name is NULL where none does. */
static ColumnOf best_column(Ctx *c, const Problem *p, const double *d, size_t n, double *share) {
  ColumnOf columns[MOST_COLUMNS], best = {NULL, NULL};
  Point *points = NEW_ARRAY(&c->arena, Point, n + 1);
  size_t count = p && p->model->n_obs == n ? columns_of(c, p, n, columns) : 0;
  *share = LEAST_SHARE;
  for (size_t k = 0; k < count; k++) {
    size_t used = points_of(&columns[k], d, n, points);
    Grouped g = group(points, used);
    double s = share_of(points, used, &g);
    if (s > *share) *share = s, best = columns[k];
  }
  return best;
}

/* ---- the figure ------------------------------------------------------------------------------ */

static ColumnOf numbers_of(Ctx *c, size_t n) {
  double *x = NEW_ARRAY(&c->arena, double, n + 1);
  for (size_t k = 0; k < n; k++) x[k] = (double)(k + 1);
  return (ColumnOf){"number of the observation", x};
}

static bool differs(const double *d, size_t n) {
  for (size_t k = 0; k < n; k++)
    if (fabs(d[k]) > 1e-9) return true;
  return false;
}

static Plot *plot_of(Ctx *c, const PlotText *text, const Point *points, size_t n) {
  size_t every = 1 + (n - 1) / MOST_POINTS, shown = 0;
  double *x = NEW_ARRAY(&c->arena, double, n), *d = NEW_ARRAY(&c->arena, double, n);
  Grouped g = group(points, n);
  for (size_t k = 0; k < n; k += every, shown++) x[shown] = points[k].x, d[shown] = points[k].d;
  Plot *plot = plot_make(&c->arena, text);
  if (pointwise_is_skewed(x, shown)) plot_x_log(plot);
  plot_line(plot, PLOT_QUIET,
            &(PlotPoints){(double[]){points[0].x, points[n - 1].x}, (double[]){0, 0}, 2});
  plot_dots(plot, PLOT_QUIET, &(PlotPoints){x, d, shown});
  plot_label(plot, PLOT_QUIET, "observations");
  if (g.n > 1) {
    plot_line(plot, PLOT_FIRST, &(PlotPoints){g.x, g.d, g.n});
    plot_dots(plot, PLOT_FIRST, &(PlotPoints){g.x, g.d, g.n});
    plot_label(plot, PLOT_FIRST, "means of neighbours");
  }
  return plot;
}

Figure pointwise_figure(Ctx *c, const Problem *p, const Pointwise *w, size_t n_obs) {
  Arena *a = &c->arena;
  double share;
  if (n_obs < 3 || !differs(w->d, n_obs)) return (Figure){NULL, NULL, NULL};
  ColumnOf x = best_column(c, p, w->d, n_obs, &share);
  const char *goes =
      x.name ? arena_format(a, "%s goes with %.0f%% of the differences, more than any other column",
                            x.name, 100 * share)
             : "no column of the data goes with the differences";
  if (!x.name) x = numbers_of(c, n_obs);
  Point *points = NEW_ARRAY(a, Point, n_obs + 1);
  size_t n = points_of(&x, w->d, n_obs, points);
  if (n < 3) return (Figure){NULL, NULL, NULL};
  PlotText text = {arena_format(a, "%s against %s, by observation", w->better, w->worse), x.name,
                   arena_format(a, "difference of the %s", w->score),
                   arena_format(a,
                                "%s of %s less that of %s, observation by observation, against %s; "
                                "above zero %s is better",
                                w->score, w->better, w->worse, x.name, w->better)};
  return (Figure){"pointwise", arena_format(a, "%s over %s: %s", w->better, w->worse, goes),
                  plot_of(c, &text, points, n)};
}
