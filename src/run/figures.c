/* figures.c: see figures.h. To add a figure, write its function and a row at the end. */
#include "run/figures.h"

#include "num/rng.h"
#include "num/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STAYED 0.05 /* moved less: the curves lie on each other */

enum { GRID = 161, MOST_MARGINALS = 6, SEED_PIT = 97 };
enum { MOST_POINTS = 1500 }; /* in a figure: more cannot be told apart */

/* ---- what figures are made of ---------------------------------------------------------------- */

/* Among simulated outcomes; ties are broken by lot, so that counts are uniform, too. */
static const double *pit_of(Ctx *c, const Predictions *p, const double *y) {
  double *pit = NEW_ARRAY(&c->arena, double, p->n + 1);
  RngStream s = rngs_make(SEED_PIT, 0);
  for (size_t i = 0; i < p->n; i++) {
    double below = 0, same = 1, u = rngs_uniform(&s);
    for (size_t k = 0; k < p->noutcomes; k++) {
      double x = p->outcomes[i * p->noutcomes + k];
      below += x < y[i];
      same += x == y[i];
    }
    pit[i] =
        isnan(y[i]) || isnan(p->mean[i]) ? NAN : (below + u * same) / ((double)p->noutcomes + 1);
  }
  return pit;
}

/* So many of each observation, or fewer where there are many observations: at most `all` together,
 * but `least` of each. Ranks among simulated outcomes are uniform whatever their number, and a
 * figure shows no more of a mean than hundreds of draws tell. */
static size_t of_each(const Model *m, size_t usual, size_t least, size_t all) {
  size_t most = all / (m->n_obs + 1);
  return most > usual ? usual : most < least ? least : most;
}

static void add_predictions(Findings *f, const Options *o) {
  Options *asked = options_copy(&f->c->arena, o);
  const Model *m = f->problem->model;
  size_t outcomes = of_each(m, 999, 49, 20000000), draws = of_each(m, 4096, 400, 100000000);
  options_set(f->c, asked, "outcomes", arena_format(&f->c->arena, "%zu", outcomes));
  if (!o->n) options_set(f->c, asked, "n", arena_format(&f->c->arena, "%zu", draws));
  if (!model_has_densities(m)) return;
  f->predictions = run_predict(f->c, f->run, f->problem, asked);
  f->y = pointwise_outcomes(f->c, f->problem->model);
  f->trials = pointwise_trials(f->c, f->problem->model);
  f->pit = pit_of(f->c, f->predictions, f->y);
}

typedef struct {
  Findings *f;
  const Options *o;
} Asking;

static void load_problem(Ctx *c, void *arg) {
  const Asking *a = arg;
  a->f->problem = run_problem(c, a->f->run);
  add_predictions(a->f, a->o);
}

/* Program and data may be gone, or changed: a report then tells what the folder knows. */
static void add_problem(Findings *f, const Options *o) {
  Message why;
  if (ctx_try(f->c, load_problem, &(Asking){f, o}, &why)) return;
  f->no_problem = why.text;
  f->problem = NULL;
  f->predictions = NULL;
}

/* Draws of the posterior: the program's columns, and what is known of every observation. */
static void add_chains(Findings *f) {
  Arena *a = &f->c->arena;
  const SampledDraws *d = f->chains = sample_draws(f->c, f->run->folder);
  size_t n = d->chains * d->draws, width = d->ncols - d->own;
  double *values = NEW_ARRAY(a, double, n *width + 1);
  Draws *draws = NEW(a, Draws);
  for (size_t i = 0; i < n; i++)
    memcpy(values + i * width, d->values + i * d->ncols + d->own, width * sizeof *values);
  *draws = (Draws){.ndraws = n, .ncols = width, .names = d->names + d->own, .values = values};
  f->draws = draws;
}

Findings *findings_of(Ctx *c, const Run *run, const Options *o) {
  Findings *f = NEW(&c->arena, Findings);
  const char *trace = arena_format(&c->arena, "%s/trace.csv", run->folder);
  *f = (Findings){.c = c, .run = run, .s = run->summary};
  if (run->sampled)
    add_chains(f);
  else
    f->draws = draws_read(c, arena_format(&c->arena, "%s/draws.csv", run->folder));
  if (!access(trace, R_OK)) f->trace = data_read(c, trace, NULL);
  const char *scores = arena_format(&c->arena, "%s/scores.csv", run->folder);
  if (!access(scores, R_OK)) f->scores = scores_read(c, scores);
  add_problem(f, o);
  return f;
}

static void add(const Findings *f, FigureList *l, const char *id, const char *caption,
                const Plot *p) {
  Figure x = {id, caption, p};
  PUSH(&f->c->arena, l->items, l->n, l->cap, x);
}

static double *numbers(const Findings *f, size_t n) {
  return NEW_ARRAY(&f->c->arena, double, n + 1);
}

/* ---- marginals ------------------------------------------------------------------------------- */

/* The ones that moved most come first; without Bayes, scalars before elements of containers. */
static double rank_of(const SummaryParameter *p) {
  double moved = summary_moved(p);
  return moved < 0 && strpbrk(p->name, "[.") ? moved - 1 : moved;
}

static size_t column_of(const Findings *f, const char *name) {
  size_t k = 0;
  while (k < f->draws->ncols &&
         strcmp(draws_pretty_name(&f->c->arena, f->draws->names[k]), name) != 0)
    k++;
  return k;
}

/* A kernel estimate of the density of draws, Silverman's bandwidth. */
static void density(const Findings *f, const double *draws, size_t n, const double *x,
                    double *out) {
  double *sorted = numbers(f, n), sd = stat_sd(draws, n);
  memcpy(sorted, draws, n * sizeof *draws);
  stat_sort(sorted, n);
  double iqr =
      (stat_quantile_sorted(sorted, n, 0.75) - stat_quantile_sorted(sorted, n, 0.25)) / 1.34;
  double h = 0.9 * fmin(sd, iqr > 0 ? iqr : sd) * pow((double)n, -0.2);
  if (!(h > 0)) h = 1e-3;
  for (int g = 0; g < GRID; g++) {
    out[g] = 0;
    for (size_t k = 0; k < n; k++) {
      double z = (x[g] - draws[k]) / h;
      out[g] += fabs(z) < 6 ? exp(-z * z / 2) : 0;
    }
    out[g] /= (double)n * h * 2.50662827463100050;
  }
}

static void normal_curve(double mean, double sd, double *x, double *out) {
  for (int g = 0; g < GRID; g++) {
    double z = 8.0 * g / (GRID - 1) - 4;
    x[g] = mean + z * sd;
    out[g] = exp(-z * z / 2) / (sd * 2.50662827463100050);
  }
}

static double highest(const double *y) {
  double top = 0;
  for (int g = 0; g < GRID; g++) top = fmax(top, y[g]);
  return top;
}

/* Of two curves the narrow one is so much higher that the wide one could not be seen beside it. */
static void to_height_one(double *y) {
  double top = highest(y);
  for (int g = 0; top > 0 && g < GRID; g++) y[g] /= top;
}

static const char *moments(const Findings *f, const SummaryParameter *p) {
  Arena *a = &f->c->arena;
  if (summary_moved(p) < 0)
    return arena_format(a, "%s: mean %.4g, sd %.3g", p->name, p->mean, p->sd);
  return arena_format(a, "%s: mean %.4g, sd %.3g; Bayes: mean %.4g, sd %.3g", p->name, p->mean,
                      p->sd, p->bayes_mean, p->bayes_sd);
}

/* What people call a fit for this score. */
static const char *method_name(const char *score) {
  return !strcmp(score, "elbo")  ? "VI"
         : !strcmp(score, "npe") ? "NPE"
         : !strcmp(score, "nre") ? "NRE"
                                 : "PVI";
}

static const Plot *marginal(const Findings *f, const SummaryParameter *p) {
  size_t col = column_of(f, p->name), n = f->draws->ndraws;
  if (col == f->draws->ncols || n < 2) return NULL;
  double *draws = numbers(f, n), *x = numbers(f, GRID), *y = numbers(f, GRID),
         *bx = numbers(f, GRID), *by = numbers(f, GRID); /* Bayes may be far narrower than q */
  for (size_t k = 0; k < n; k++) draws[k] = f->draws->values[k * f->draws->ncols + col];
  bool bayes = summary_moved(p) >= 0;
  double low = p->mean - 3.5 * p->sd, high = p->mean + 3.5 * p->sd;
  if (bayes) {
    low = fmin(low, p->bayes_mean - 4 * p->bayes_sd);
    high = fmax(high, p->bayes_mean + 4 * p->bayes_sd);
  }
  for (int g = 0; g < GRID; g++) x[g] = low + (high - low) * g / (GRID - 1);
  density(f, draws, n, x, y);
  Plot *plot =
      plot_make(&f->c->arena,
                &(PlotText){p->name, p->name, bayes ? "density, each at its own height" : "density",
                            moments(f, p)});
  if (bayes) {
    normal_curve(p->bayes_mean, p->bayes_sd, bx, by);
    to_height_one(y);
    to_height_one(by);
  }
  plot_y_range(plot, 0, 1.05 * highest(bayes ? by : y));
  plot_line(plot, PLOT_FIRST, &(PlotPoints){x, y, GRID});
  plot_label(plot, PLOT_FIRST, f->run->sampled ? "posterior" : method_name(f->s->score));
  if (bayes) {
    plot_line(plot, PLOT_SECOND, &(PlotPoints){bx, by, GRID});
    plot_label(plot, PLOT_SECOND, "Bayes (its mean and sd)");
  }
  return plot;
}

/* The ones that moved most, and none that stayed where others moved; without Bayes beside them, the
 * first. */
void figures_marginals(const Findings *f, FigureList *out) {
  double most = 0;
  bool *taken = NEW_ARRAY(&f->c->arena, bool, f->s->nparameters + 1);
  for (int k = 0; k < MOST_MARGINALS; k++) {
    const SummaryParameter *best = NULL;
    for (size_t i = 0; i < f->s->nparameters; i++)
      if (!taken[i] && (!best || rank_of(&f->s->parameters[i]) > rank_of(best)))
        best = &f->s->parameters[i];
    if (!best || (most > STAYED && rank_of(best) >= 0 && rank_of(best) < STAYED)) return;
    most = fmax(most, rank_of(best));
    taken[best - f->s->parameters] = true;
    const Plot *p = marginal(f, best);
    if (p) add(f, out, arena_format(&f->c->arena, "marginal-%d", k + 1), moments(f, best), p);
  }
}

/* ---- the path over lambda -------------------------------------------------------------------- */

void figures_lambda_path(const Findings *f, FigureList *out) {
  const Summary *s = f->s;
  size_t n = s->npath;
  if (n < 2) return;
  double *x = numbers(f, n), *y = numbers(f, n), *low = numbers(f, n), *high = numbers(f, n);
  const char **names = NEW_ARRAY(&f->c->arena, const char *, n);
  size_t first = 0;
  for (size_t k = 0; k < n; k++) {
    const SummaryLambda *l = &s->path[k];
    x[k] = (double)k, y[k] = l->gain, low[k] = l->gain - l->se, high[k] = l->gain + l->se;
    names[k] = isinf(l->lambda) ? "Bayes" : arena_format(&f->c->arena, "%g", l->lambda);
    if (!l->prior) first = k + 1; /* behind these, the path with the prior */
  }
  const char *choice =
      s->best < n ? arena_format(&f->c->arena, "chosen: %s%s%s",
                                 isinf(s->path[s->best].lambda) ? "" : "lambda ", names[s->best],
                                 s->path[s->best].prior ? ", from the prior" : "")
                  : "chosen: no lambda for all parameters, because letting go of some of "
                    "them alone is better";
  Plot *p = plot_make(
      &f->c->arena,
      &(PlotText){"Held-out gain by lambda", "lambda, from Bayes to prediction alone",
                  "gain over Bayes, held out",
                  arena_format(&f->c->arena,
                               "held-out gain over Bayes along the path of lambda; %s", choice)});
  plot_x_names(p, names, n);
  plot_line(p, PLOT_QUIET, &(PlotPoints){(double[]){-0.5, (double)n - 0.5}, (double[]){0, 0}, 2});
  plot_whiskers(p, PLOT_FIRST, x, low, high, first);
  plot_line(p, PLOT_FIRST, &(PlotPoints){x, y, first});
  plot_dots(p, PLOT_FIRST, &(PlotPoints){x, y, first});
  plot_label(p, PLOT_FIRST, "from the posterior");
  if (first < n) {
    plot_whiskers(p, PLOT_QUIET, x + first, low + first, high + first, n - first);
    plot_dots(p, PLOT_QUIET, &(PlotPoints){x + first, y + first, n - first});
    plot_label(p, PLOT_QUIET, "from the prior");
  }
  if (s->best < n) {
    plot_dots(p, PLOT_SECOND, &(PlotPoints){&x[s->best], &y[s->best], 1});
    plot_label(p, PLOT_SECOND, "chosen");
  }
  add(f, out, "lambda-path", choice, p);
}

/* ---- where outcomes fall --------------------------------------------------------------------- */

static size_t sorted_pit(const Findings *f, double *out) {
  size_t n = 0;
  for (size_t k = 0; f->pit && k < f->predictions->n; k++)
    if (!isnan(f->pit[k])) out[n++] = f->pit[k];
  stat_sort(out, n);
  return n;
}

double figures_coverage(const Findings *f, double level) {
  double inside = 0, n = 0;
  for (size_t k = 0; f->pit && k < f->predictions->n; k++) {
    if (isnan(f->pit[k])) continue;
    n++;
    inside += fabs(f->pit[k] - 0.5) <= level / 2;
  }
  return inside / n;
}

void figures_pit(const Findings *f, FigureList *out) {
  if (!f->pit) return;
  double *u = numbers(f, f->predictions->n), *d = numbers(f, f->predictions->n), worst = 0;
  size_t n = sorted_pit(f, u);
  if (n < 5) return;
  const double band = 1.358 / sqrt((double)n); /* Kolmogorov's, 95% for all points together */
  for (size_t k = 0; k < n; k++) {
    d[k] = (double)(k + 1) / (double)n - u[k];
    worst = fmax(worst, fmax(fabs(d[k]), fabs((double)k / (double)n - u[k])));
  }
  const char *words = worst > band
                          ? "The curve leaves the band: the predictions are not calibrated."
                          : "The curve stays inside of the band: the predictions are calibrated.";
  Plot *p = plot_make(&f->c->arena, &(PlotText){"Where outcomes fall in their predictions",
                                                "probability", "ECDF - probability", words});
  plot_x_range(p, 0, 1);
  plot_band(p, PLOT_BAND, (double[]){0, 1}, (double[]){-band, -band}, (double[]){band, band}, 2);
  plot_label(p, PLOT_BAND, "95% band, all points together");
  size_t every = 1 + (n - 1) / MOST_POINTS, shown = 0;
  for (size_t k = 0; k < n; k += every, shown++) u[shown] = u[k], d[shown] = d[k];
  plot_steps(p, PLOT_FIRST, &(PlotPoints){u, d, shown});
  add(f, out, "pit", words, p);
}

/* ---- binary outcomes and counts -------------------------------------------------------------- */

static bool all_whole(const Findings *f, double *most) {
  *most = 0;
  for (size_t k = 0; f->y && k < f->predictions->n; k++) {
    if (isnan(f->y[k]) || f->y[k] != floor(f->y[k]) || f->y[k] < 0) return false;
    *most = fmax(*most, f->y[k]);
  }
  return f->y && f->predictions->n > 0;
}

typedef struct {
  double p, y;
} Pair;

static int by_p(const void *a, const void *b) {
  const Pair *x = a, *y = b;
  return x->p < y->p ? -1 : x->p > y->p;
}

static void reliability(const Findings *f, FigureList *out) {
  enum { BINS = 10 };
  double most, mean[BINS], share[BINS], low[BINS], high[BINS];
  if (!all_whole(f, &most) || most != 1 || f->predictions->n < 2 * BINS) return;
  size_t n = f->predictions->n;
  Pair *all = NEW_ARRAY(&f->c->arena, Pair, n);
  for (size_t k = 0; k < n; k++) all[k] = (Pair){f->predictions->mean[k], f->y[k]};
  qsort(all, n, sizeof *all, by_p);
  for (size_t b = 0; b < BINS; b++) {
    size_t from = b * n / BINS, to = (b + 1) * n / BINS;
    mean[b] = share[b] = 0;
    for (size_t k = from; k < to; k++) mean[b] += all[k].p, share[b] += all[k].y;
    double size = (double)(to - from);
    mean[b] /= size, share[b] /= size;
    double se = sqrt(fmax(share[b] * (1 - share[b]), 0.25 / size) / size);
    low[b] = fmax(0, share[b] - 2 * se), high[b] = fmin(1, share[b] + 2 * se);
  }
  Plot *p =
      plot_make(&f->c->arena,
                &(PlotText){"Reliability", "predicted probability", "observed share",
                            "observed share of ones against predicted probability, in ten groups"});
  plot_x_range(p, 0, 1), plot_y_range(p, 0, 1);
  plot_line(p, PLOT_QUIET, &(PlotPoints){(double[]){0, 1}, (double[]){0, 1}, 2});
  plot_whiskers(p, PLOT_FIRST, mean, low, high, BINS);
  plot_dots(p, PLOT_FIRST, &(PlotPoints){mean, share, BINS});
  add(f, out, "reliability", "ten groups of equal size; whiskers are two standard errors", p);
}

static void rootogram(const Findings *f, FigureList *out) {
  enum { MOST = 80 };
  double most;
  const Predictions *q = f->predictions;
  if (!all_whole(f, &most) || most < 2 || most > MOST) return;
  size_t n = (size_t)most + 1;
  double *x = numbers(f, n), *seen = numbers(f, n), *expected = numbers(f, n);
  for (size_t k = 0; k < q->n; k++) seen[(size_t)f->y[k]]++;
  for (size_t k = 0; k < q->n * q->noutcomes; k++)
    if (q->outcomes[k] <= most && q->outcomes[k] >= 0)
      expected[(size_t)q->outcomes[k]] += 1 / (double)q->noutcomes;
  for (size_t k = 0; k < n; k++)
    x[k] = (double)k, seen[k] = sqrt(seen[k]), expected[k] = sqrt(expected[k]);
  Plot *p = plot_make(&f->c->arena,
                      &(PlotText){"Rootogram", "count", "square root of how often",
                                  "how often every count was seen, and how often it is predicted"});
  plot_bars(p, PLOT_BAND, &(PlotPoints){x, seen, n}, 0.8);
  plot_label(p, PLOT_BAND, "seen");
  plot_line(p, PLOT_FIRST, &(PlotPoints){x, expected, n});
  plot_dots(p, PLOT_FIRST, &(PlotPoints){x, expected, n});
  plot_label(p, PLOT_FIRST, "predicted");
  add(f, out, "rootogram", "the root makes rare and common counts comparable", p);
}

/* ---- predictions against a covariate --------------------------------------------------------- */

/* Does the program use it, and has it more than a few values? */
static bool may_be_axis(const Findings *f, const DataVar *v) {
  enum { FEW = 5 };
  double seen[FEW];
  int n = 0;
  bool declared = stan_find_decl(f->problem->program, BLOCK_DATA, v->name) != NULL;
  for (size_t k = 0; declared && k < v->n && n < FEW; k++) {
    int j = 0;
    while (j < n && seen[j] != v->values[k]) j++;
    if (j == n) seen[n++] = v->values[k];
  }
  return n == FEW;
}

/* An observation as it is shown: a binomial one by its rate. */
typedef struct {
  double x, y, mean, low, high;
} Along;

static double scale_of(const Findings *f, size_t k) {
  return f->trials && f->trials[k] > 0 ? 1 / f->trials[k] : 1;
}

static double *shown_means(const Findings *f) {
  double *means = numbers(f, f->predictions->n);
  for (size_t k = 0; k < f->predictions->n; k++)
    means[k] = scale_of(f, k) * f->predictions->mean[k];
  return means;
}

static bool is_same(const DataVar *v, const double *x) {
  return x && !memcmp(v->values, x, v->n * sizeof *x);
}

/* The column of the data that predictions follow most; NULL: none has a value an observation. */
static const DataVar *covariate(const Findings *f) {
  const DataVar *best = NULL;
  const double *means = shown_means(f);
  double most = 0.05;
  for (size_t k = 0; k < f->problem->data->vars.count; k++) {
    const DataVar *v = f->problem->data->vars.items[k].value;
    if (v->n != f->predictions->n || is_same(v, f->y) || is_same(v, f->trials) ||
        !may_be_axis(f, v))
      continue;
    double r = fabs(stat_correlation(v->values, means, v->n));
    if (r > most) most = r, best = v;
  }
  return best;
}

static int by_x(const void *a, const void *b) {
  const Along *x = a, *y = b;
  return x->x < y->x ? -1 : x->x > y->x;
}

/* Observations in the order of v, one in `every`; what a plot takes. */
typedef struct {
  double *x, *y, *mean, *low, *high;
  size_t n, every;
} Shown;

static Shown shown_along(const Findings *f, const DataVar *v) {
  const Predictions *q = f->predictions;
  size_t n = q->n, every = 1 + (n - 1) / MOST_POINTS;
  Along *all = NEW_ARRAY(&f->c->arena, Along, n);
  for (size_t k = 0; k < n; k++) {
    const double *quantiles = q->quantiles + k * q->nlevels;
    double one = scale_of(f, k);
    all[k] = (Along){v->values[k], one * f->y[k], one * q->mean[k], one * quantiles[0],
                     one * quantiles[q->nlevels - 1]};
  }
  qsort(all, n, sizeof *all, by_x);
  Shown s = {numbers(f, n), numbers(f, n), numbers(f, n), numbers(f, n), numbers(f, n), 0, every};
  for (size_t k = 0; k < n; k += every, s.n++) {
    s.x[s.n] = all[k].x, s.y[s.n] = all[k].y, s.mean[s.n] = all[k].mean;
    s.low[s.n] = all[k].low, s.high[s.n] = all[k].high;
  }
  return s;
}

static void against_covariate(const Findings *f, FigureList *out) {
  double most;
  if (!f->predictions || f->predictions->n < 3 || isnan(f->predictions->mean[0])) return;
  if (all_whole(f, &most) && most <= 1) return; /* ones and zeros say nothing there */
  Arena *a = &f->c->arena;
  const DataVar *v = covariate(f);
  if (!v) return;
  Shown s = shown_along(f, v);
  const char *words =
      arena_format(a, "outcomes and their predictive means and intervals against %s", v->name);
  Plot *p = plot_make(a, &(PlotText){"Predictions and outcomes", v->name,
                                     f->trials ? "rate of the outcome" : "outcome", words});
  if (pointwise_is_skewed(s.x, s.n)) plot_x_log(p);
  plot_whiskers(p, PLOT_BAND, s.x, s.low, s.high, s.n);
  plot_label(p, PLOT_BAND, "5% to 95%");
  plot_dots(p, PLOT_QUIET, &(PlotPoints){s.x, s.y, s.n});
  plot_label(p, PLOT_QUIET, "seen");
  plot_dots(p, PLOT_FIRST, &(PlotPoints){s.x, s.mean, s.n});
  plot_label(p, PLOT_FIRST, "predicted mean");
  const char *caption = arena_format(a, "against %s, which the predictions follow most", v->name);
  if (s.every > 1) caption = arena_format(a, "%s; one observation in %zu", caption, s.every);
  add(f, out, "covariate", caption, p);
}

/* ---- what is gained where ----------------------------------------------------------------------
 */

static size_t score_column(const ScoreTable *t, const char *name) {
  size_t k = 0;
  while (k < t->nscores && strcmp(t->names[k], name) != 0) k++;
  return k;
}

/* The score that was maximised, of every observation when it was held out, less Bayes'. */
static void gain_by_observation(const Findings *f, FigureList *out) {
  Arena *a = &f->c->arena;
  const ScoreTable *t = f->scores;
  size_t own = 0, bayes = 0;
  ScoreId id = SCORE_COUNT;
  for (int k = 0; t && k < SCORE_COUNT && id == SCORE_COUNT; k++) {
    const char *name = score_name((ScoreId)k);
    own = score_column(t, arena_format(a, "%s_heldout", name));
    bayes = score_column(t, arena_format(a, "%s_bayes_heldout", name));
    if (own < t->nscores && bayes < t->nscores) id = (ScoreId)k;
  }
  if (id == SCORE_COUNT) return;
  double *d = numbers(f, t->n);
  for (size_t k = 0; k < t->n; k++)
    d[k] = t->values[k * t->nscores + own] - t->values[k * t->nscores + bayes];
  ScoreShown shown = score_shown(score_name(id));
  const char *score =
      shown.sign < 0 ? arena_format(a, "%s, turned round", shown.title) : shown.title;
  Figure figure = pointwise_figure(f->c, f->problem, &(Pointwise){d, "PVI", "Bayes", score}, t->n);
  if (figure.plot) add(f, out, figure.id, figure.caption, figure.plot);
}

/* ---- the optimizer --------------------------------------------------------------------------- */

static void trace(const Findings *f, FigureList *out) {
  const DataVar *y = f->trace ? data_find(f->trace, "objective") : NULL;
  size_t from = y ? trace_last_run(&f->c->arena, y->values, y->n) : 0;
  if (!y || y->n < from + 2) return;
  double *x = numbers(f, y->n);
  for (size_t k = from; k < y->n; k++) x[k] = (double)k;
  Plot *p = plot_make(&f->c->arena, &(PlotText){"Course of the fit", "iteration", "objective",
                                                "the objective by iteration of the optimizer"});
  plot_x_range(p, (double)from, (double)(y->n - 1));
  plot_line(p, PLOT_FIRST, &(PlotPoints){x + from, y->values + from, y->n - from});
  const char *caption = arena_format(
      &f->c->arena, "its last run; iterations before belong to other starts and stages");
  add(f, out, "trace", from ? caption : "all iterations", p);
}

const FigureRow figure_rows[FIGURE_ROWS] = {
    {"Parameters",
     "The distribution of each parameter under q and, where it was fitted too, under Bayes; those "
     "that "
     "moved most come first. Where q is wider, the parameter varies in the population beyond "
     "what the data leave uncertain about it.",
     figures_marginals},
    {"How this fit was chosen",
     "Each point is the sum of the scores of held-out observations, less that of Bayes, with one "
     "standard error. Above zero is better than Bayes.",
     figures_lambda_path},
    {"Calibration",
     "If predictions are right, outcomes fall evenly over their predictive distributions, and the "
     "curve "
     "stays near zero. A curve that rises in the middle means predictions that are too wide, one "
     "that falls too narrow.",
     figures_pit},
    {"Reliability", "Where predicted probabilities are right, the points lie on the line.",
     reliability},
    {"Counts", "Bars are what was seen, the line is what is predicted.", rootogram},
    {"Predictions", "Every observation with its predictive mean and its interval from 5% to 95%.",
     against_covariate},
    {"Where the gain comes from",
     "Every point is an observation when it was held out: its score by PVI less that by Bayes. A "
     "few far points mean that a few observations decide; a line that bends away from zero says "
     "where the program is wrong.",
     gain_by_observation},
    {"The course of the fit", "A fit that has converged ends flat.", trace},
};
