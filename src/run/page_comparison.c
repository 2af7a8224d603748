/* page_comparison.c: fits side by side on a page: verdict, every score with its paired differences,
 * where one fit predicts better than another, parameters. */
#include "run/pages.h"
#include "run/reports.h"

#include <math.h>
#include <string.h>

enum { MOST_RIVALS = 6, MOST_PARAMETERS = 100 };

/* ---- scores ---------------------------------------------------------------------------------- */

/* A table for each score: its direction is said at its head. */
static void put_score(Page *p, const Comparison *r, size_t s) {
  static const char *const heads[] = {"fit", "sum", "difference to the best", "se"};
  ScoreShown shown = score_shown(r->scores[s]);
  page_table(p, arena_format(&p->c->arena, "%s, %s; %s", shown.title, shown.better, r->rows), heads,
             4);
  for (size_t k = 0; k < r->n; k++) {
    const ComparedScore *v = &r->values[s * r->n + k];
    bool best = k == r->best[s];
    const char *cells[] = {r->fits[k].label, page_number(p, shown.sign * v->sum, 6),
                           best ? "best" : report_signed(&p->c->arena, shown.sign * v->difference),
                           best ? "" : page_number(p, v->se, 3)};
    page_row(p, cells, 4);
  }
  page_table_end(p);
}

/* Every fit's difference to the best one, with two standard errors to both sides. */
static Figure differences(Page *p, const Comparison *r, size_t s) {
  Arena *a = &p->c->arena;
  ScoreShown shown = score_shown(r->scores[s]);
  const char **names = NEW_ARRAY(a, const char *, r->n);
  double *at = NEW_ARRAY(a, double, r->n), *x = NEW_ARRAY(a, double, r->n),
         *low = NEW_ARRAY(a, double, r->n), *high = NEW_ARRAY(a, double, r->n);
  for (size_t k = 0; k < r->n; k++) {
    const ComparedScore *v = &r->values[s * r->n + k];
    names[k] = r->fits[k].label;
    at[k] = (double)k;
    x[k] = shown.sign * v->difference;
    low[k] = x[k] - 2 * v->se, high[k] = x[k] + 2 * v->se;
  }
  const char *words = arena_format(a, "%s, %s: difference to %s, with two standard errors",
                                   shown.title, shown.better, names[r->best[s]]);
  Plot *plot = plot_make(
      a, &(PlotText){words, arena_format(a, "difference of the %s", shown.title), "fit", words});
  plot_y_names(plot, names, r->n);
  plot_line(plot, PLOT_QUIET,
            &(PlotPoints){(double[]){0, 0}, (double[]){-0.5, (double)r->n - 0.5}, 2});
  plot_spans(plot, PLOT_FIRST, at, low, high, r->n);
  plot_dots(plot, PLOT_FIRST, &(PlotPoints){x, at, r->n});
  return (Figure){arena_format(a, "difference-%s", r->scores[s]), words, plot};
}

/* ---- observation by observation -------------------------------------------------------------- */

/* A run folder whose program and data may be gone. */
typedef struct {
  const char *folder;
  const Problem *problem;
} Place;

static void load(Ctx *c, void *arg) {
  Place *at = arg;
  at->problem = run_problem(c, run_read(c, at->folder));
}

static const Problem *problem_of(Ctx *c, const Comparison *r) {
  Place at = {r->fits[0].folder, r->problem};
  Message why;
  if (!at.problem && !ctx_try(c, load, &at, &why)) return NULL;
  return at.problem;
}

static Figure rival(Page *p, const Comparison *r, const Problem *problem, size_t k) {
  size_t n = r->fits[0].scores->n, best = r->best[0];
  double *d = NEW_ARRAY(&p->c->arena, double, n + 1);
  for (size_t i = 0; i < n; i++) d[i] = NAN;
  for (size_t i = 0; i < r->nrows; i++)
    d[r->observations[i]] = r->logs[i * r->n + best] - r->logs[i * r->n + k];
  Pointwise w = {d, r->fits[best].label, r->fits[k].label, "log score"};
  Figure f = pointwise_figure(p->c, problem, &w, n);
  if (f.plot) f.id = arena_format(&p->c->arena, "pointwise-%zu", k + 1);
  return f;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static const SummaryParameter *parameter(const Compared *f, const char *name) {
  for (size_t k = 0; k < f->s->nparameters; k++)
    if (!strcmp(f->s->parameters[k].name, name)) return &f->s->parameters[k];
  return NULL;
}

/* The fits of one program: a column of means with sds for each. */
static void put_program(Page *p, const Compared **of, size_t n) {
  Arena *a = &p->c->arena;
  const char **cells = NEW_ARRAY(a, const char *, n + 1);
  cells[0] = of[0]->program;
  for (size_t k = 0; k < n; k++) cells[k + 1] = of[k]->label;
  page_table(p, "Mean (sd) of every parameter.", cells, n + 1);
  for (size_t i = 0; i < of[0]->s->nparameters && i < MOST_PARAMETERS; i++) {
    cells[0] = of[0]->s->parameters[i].name;
    for (size_t k = 0; k < n; k++) {
      const SummaryParameter *x = parameter(of[k], cells[0]);
      cells[k + 1] = x ? arena_format(a, "%.4g (%.3g)", x->mean, x->sd) : "";
    }
    page_row(p, cells, n + 1);
  }
  page_table_end(p);
}

static void put_programs(Page *p, const Comparison *r) {
  const Compared **of = NEW_ARRAY(&p->c->arena, const Compared *, r->n);
  page_raw(p, "<h2>Parameters</h2>\n");
  for (size_t k = 0; k < r->n; k++) {
    size_t count = 0;
    bool first = true;
    for (size_t j = 0; j < r->n; j++) {
      if (strcmp(r->fits[j].s->program, r->fits[k].s->program)) continue;
      first &= j >= k;
      of[count++] = &r->fits[j];
    }
    if (first) put_program(p, of, count);
  }
}

static void put_stack(Page *p, const Comparison *r, const Stack *s) {
  static const char *const heads[] = {"stacked", "weight"};
  page_raw(p, "<h2>Stacking</h2>\n");
  page_table(p,
             arena_format(&p->c->arena,
                          "The mixture of the fits' predictions with the best log score, %+.2f "
                          "(standard error %.2f) over %s alone.",
                          s->gain, s->se, r->fits[s->best].label),
             heads, 2);
  for (size_t k = 0; k < r->n; k++) {
    const char *cells[] = {r->fits[k].label,
                           page_number(p, s->weight[k] < 5e-4 ? 0 : s->weight[k], 3)};
    page_row(p, cells, 2);
  }
  page_table_end(p);
}

void page_comparison(Page *p, const Comparison *r, const Stack *stack, const Options *o) {
  const char *verdict = compare_verdict(p->c, r);
  const Problem *problem = problem_of(p->c, r);
  FigureList sums = {.n = 0}, points = {.n = 0};
  page_raw(p, "<h1>Comparison</h1>\n");
  if (verdict) page_put(p, "<p class=\"verdict\">", verdict, ".</p>\n");
  page_raw(p, "<p class=\"soft\">Sums over the same observations.</p>\n");
  for (size_t s = 0; s < r->nscores; s++) put_score(p, r, s);
  for (size_t s = 0; s < r->nscores && r->n > 1; s++)
    page_add_figure(p, &sums, differences(p, r, s));
  page_figures(p, "Differences",
               "Every fit less the best one, with two standard errors of the paired differences to "
               "both sides: a bar that reaches zero may be chance.",
               &sums);
  for (size_t k = 0; r->logs && k < r->n && points.n < MOST_RIVALS; k++)
    if (k != r->best[0]) page_add_figure(p, &points, rival(p, r, problem, k));
  page_figures(p, "Where the best fit predicts better",
               "Every point is an observation: its log score by the best fit less that by another. "
               "A few far points mean that a few observations decide; a line that bends away from "
               "zero says where the other fit is wrong.",
               &points);
  if (stack) put_stack(p, r, stack);
  if (o->parameters) put_programs(p, r);
}
