/* figures_sample.c: what draws of the posterior look like, as figures: how chains that agree least
 * do so, where they went, and which observations carry the posterior. To add a figure, write its
 * function and a row at the end. */
#include "run/figures.h"

#include "infer/psis.h"
#include "num/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORST = 4, RANK_POINTS = 101, TRACE_POINTS = 250, MOST_CURVES = 64 };

static double *numbers(const Findings *f, size_t n) {
  return NEW_ARRAY(&f->c->arena, double, n + 1);
}

static void add(const Findings *f, FigureList *l, const char *id, const char *caption,
                const Plot *p) {
  Figure x = {id, caption, p};
  PUSH(&f->c->arena, l->items, l->n, l->cap, x);
}

/* ---- which variables, which draws ------------------------------------------------------------ */

/* Parameters; without the program, all that the verdict may have looked at: beyond its worst are
 * quantities that are computed of the draws in the files alone, which are fewer. */
static bool is_judged(const Findings *f, size_t k) {
  double rhat = f->run->sampled->variables[k].quality.rhat;
  return isfinite(rhat) && rhat <= f->run->sampled->rhat + 1e-9 &&
         (!f->problem || model_output_is_parameter(f->problem->model, k));
}

/* The worst first: the larger R-hat. n of them at most; those that never change are none. */
static size_t worst_of(const Findings *f, size_t *rows, size_t n) {
  const SampleSummary *s = f->run->sampled;
  size_t count = 0;
  for (size_t k = 0; k < s->nvariables; k++) {
    double rhat = s->variables[k].quality.rhat;
    if (!is_judged(f, k)) continue;
    size_t at = count < n ? count++ : n;
    while (at > 0 && s->variables[rows[at - 1]].quality.rhat < rhat) {
      if (at < n) rows[at] = rows[at - 1];
      at--;
    }
    if (at < n) rows[at] = k;
  }
  return count;
}

/* The draws of a variable, chain after chain. */
static double *draws_of(const Findings *f, size_t variable) {
  const SampledDraws *d = f->chains;
  size_t n = d->chains * d->draws;
  double *x = numbers(f, n);
  for (size_t i = 0; i < n; i++) x[i] = d->values[i * d->ncols + d->own + variable];
  return x;
}

static const char *quality_words(const Findings *f, const SampledVariable *v) {
  return arena_format(&f->c->arena, "%s: R-hat %.4f, %.0f effective draws, %.0f in the tails",
                      v->summary.name, v->quality.rhat, v->quality.ess_bulk, v->quality.ess_tail);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The share of a chain's draws below the quantiles of all draws, less the quantiles' own: near zero
 * where the chain is as the others. Returns how far it goes. */
static double rank_curve(const double *all, size_t total, double *chain, size_t n, const double *u,
                         double *out) {
  double most = 0;
  size_t below = 0;
  qsort(chain, n, sizeof *chain, by_value);
  for (size_t g = 0; g < RANK_POINTS; g++) {
    double limit = stat_quantile_sorted(all, total, u[g]);
    while (below < n && chain[below] <= limit) below++;
    out[g] = u[g] >= 1 ? 0 : (double)below / (double)n - u[g];
    most = fmax(most, fabs(out[g]));
  }
  return most;
}

static const Plot *rank_plot(const Findings *f, const SampledVariable *v, size_t variable) {
  const SampledDraws *d = f->chains;
  size_t n = d->draws, total = d->chains * n,
         shown = d->chains < MOST_CURVES ? d->chains : MOST_CURVES;
  double *x = draws_of(f, variable), *all = numbers(f, total), *u = numbers(f, RANK_POINTS);
  double *curves = numbers(f, shown * RANK_POINTS), most = -1;
  size_t farthest = 0;
  memcpy(all, x, total * sizeof *all);
  stat_sort(all, total);
  for (size_t g = 0; g < RANK_POINTS; g++) u[g] = (double)g / (RANK_POINTS - 1);
  Plot *p = plot_make(&f->c->arena,
                      &(PlotText){v->summary.name, "rank among the draws of all chains, 0 to 1",
                                  "share of a chain below, less expected", quality_words(f, v)});
  for (size_t k = 0; k < shown; k++) {
    double *curve = curves + k * RANK_POINTS, far = rank_curve(all, total, x + k * n, n, u, curve);
    plot_line(p, PLOT_BAND, &(PlotPoints){u, curve, RANK_POINTS});
    if (far > most) most = far, farthest = k;
  }
  plot_line(p, PLOT_FIRST, &(PlotPoints){u, curves + farthest * RANK_POINTS, RANK_POINTS});
  plot_label(p, PLOT_BAND, "every chain");
  plot_label(p, PLOT_FIRST, arena_format(&f->c->arena, "chain %zu, the farthest", farthest + 1));
  return p;
}

static void ranks(const Findings *f, FigureList *out) {
  size_t rows[WORST], n = f->chains && f->chains->chains > 1 ? worst_of(f, rows, WORST) : 0;
  for (size_t k = 0; k < n; k++) {
    const SampledVariable *v = &f->run->sampled->variables[rows[k]];
    add(f, out, arena_format(&f->c->arena, "ranks_%zu", k + 1), quality_words(f, v),
        rank_plot(f, v, rows[k]));
  }
}

/* ---- traces ---------------------------------------------------------------------------------- */

static PlotPoints trace_of(const Findings *f, const double *x, size_t n) {
  size_t every = (n + TRACE_POINTS - 1) / TRACE_POINTS, m = n / every;
  double *at = numbers(f, m), *y = numbers(f, m);
  for (size_t i = 0; i < m; i++) {
    at[i] = (double)(i * every + 1);
    y[i] = x[i * every];
  }
  return (PlotPoints){at, y, m};
}

/* Of the chains with the lowest and the highest mean. */
static const Plot *trace_plot(const Findings *f, const SampledVariable *v, size_t variable) {
  const SampledDraws *d = f->chains;
  const double *x = draws_of(f, variable);
  size_t n = d->draws, low = 0, high = 0;
  for (size_t k = 0; k < d->chains; k++) {
    if (stat_mean(x + k * n, n) < stat_mean(x + low * n, n)) low = k;
    if (stat_mean(x + k * n, n) > stat_mean(x + high * n, n)) high = k;
  }
  Plot *p = plot_make(&f->c->arena,
                      &(PlotText){v->summary.name, "draw", v->summary.name, quality_words(f, v)});
  PlotPoints first = trace_of(f, x + high * n, n), second = trace_of(f, x + low * n, n);
  plot_line(p, PLOT_FIRST, &first);
  plot_label(p, PLOT_FIRST, arena_format(&f->c->arena, "chain %zu, the highest", high + 1));
  if (low == high) return p;
  plot_line(p, PLOT_SECOND, &second);
  plot_label(p, PLOT_SECOND, arena_format(&f->c->arena, "chain %zu, the lowest", low + 1));
  return p;
}

static void traces(const Findings *f, FigureList *out) {
  size_t rows[WORST], n = f->chains ? worst_of(f, rows, WORST / 2) : 0;
  for (size_t k = 0; k < n; k++) {
    const SampledVariable *v = &f->run->sampled->variables[rows[k]];
    add(f, out, arena_format(&f->c->arena, "chains_%zu", k + 1), quality_words(f, v),
        trace_plot(f, v, rows[k]));
  }
}

/* ---- Pareto k -------------------------------------------------------------------------------- */

/* Observations by Pareto k: all that are too large and, of the others, as many as can be seen. */
typedef struct {
  double *x, *k;
  size_t n;
} Dots;

static Dots dots_of(const Findings *f, const double *k, size_t n, bool bad) {
  enum { MOST_DOTS = 2000 };
  size_t every = bad ? 1 : n / MOST_DOTS + 1;
  Dots d = {numbers(f, n), numbers(f, n), 0};
  for (size_t i = 0; i < n; i++) {
    if (isnan(k[i]) || (k[i] > PSIS_GOOD) != bad || i % every) continue;
    d.x[d.n] = (double)i + 1;
    d.k[d.n++] = k[i];
  }
  return d;
}

static void put_limit(const Findings *f, Plot *p, size_t n) {
  double *x = numbers(f, 2), *y = numbers(f, 2);
  x[0] = 1, x[1] = (double)n;
  y[0] = y[1] = PSIS_GOOD;
  plot_line(p, PLOT_QUIET, &(PlotPoints){x, y, 2});
  plot_label(p, PLOT_QUIET, arena_format(&f->c->arena, "%g", PSIS_GOOD));
}

static void pareto(const Findings *f, FigureList *out) {
  const ScoreTable *t = f->scores;
  size_t column = 0;
  while (t && column < t->nscores && strcmp(t->names[column], "pareto_k") != 0) column++;
  if (!t || column == t->nscores || !t->n || !f->run->sampled->loo) return;
  double *k = numbers(f, t->n);
  for (size_t i = 0; i < t->n; i++) k[i] = t->values[i * t->nscores + column];
  Dots good = dots_of(f, k, t->n, false), bad = dots_of(f, k, t->n, true);
  const char *words = arena_format(
      &f->c->arena, "Pareto k of %zu observations, %zu of them above %g; the largest is %.2f",
      f->run->sampled->loo->n, bad.n, PSIS_GOOD, f->run->sampled->loo->worst);
  Plot *p = plot_make(&f->c->arena, &(PlotText){"Pareto k", "observation", "Pareto k", words});
  plot_dots(p, PLOT_FIRST, &(PlotPoints){good.x, good.k, good.n});
  plot_dots(p, PLOT_SECOND, &(PlotPoints){bad.x, bad.k, bad.n});
  put_limit(f, p, t->n);
  if (bad.n) plot_label(p, PLOT_SECOND, "not to be trusted");
  add(f, out, "pareto_k", words, p);
}

const FigureRow sample_figure_rows[SAMPLE_FIGURE_ROWS] = {
    {"Do the chains agree?",
     "The variables with the largest R-hat. A chain's curve stays near zero where its draws are as "
     "those of all chains; one that leaves it has been elsewhere.",
     ranks},
    {"Where chains went",
     "The two chains that are farthest apart, draw by draw. Right ones look alike and cross all of "
     "the range many times.",
     traces},
    {"Leaving observations out",
     "Pareto k says how far the posterior rests on a single observation. Above 0.7 its "
     "leave-one-out score is not to be trusted, and the observation deserves a look: it surprises "
     "the model.",
     pareto},
    {"Parameters", "The posterior of each parameter, scalars first.", figures_marginals},
};
