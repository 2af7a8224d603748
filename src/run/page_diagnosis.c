/* page_diagnosis.c: `pvi diagnose --report`: verdict, what every variable gains when it may vary,
 * how wide it becomes, and larger programs with their new lines marked. */
#include "run/pages.h"

#include <math.h>
#include <string.h>

static void put_table(Page *p, const Diagnosis *d) {
  static const char *const heads[] = {
      "freed alone", "gain held out", "se",       "gain in sample", "p",
      "sd",          "se of sd",      "Bayes sd", "varies"};
  Arena *a = &p->c->arena;
  const char *test =
      d->simulations
          ? arena_format(a,
                         "Gains are of the log score, larger is better. p: how often the most "
                         "conspicuous gain in sample is as large where nothing varies, by %zu data "
                         "sets that were simulated from the Bayes fit. sds are on the "
                         "unconstrained scale.",
                         d->simulations)
          : "Gains are of the log score, larger is better. sds are on the unconstrained scale.";
  page_table(p, test, heads, 9);
  for (size_t k = 0; k < d->n; k++) {
    const Diagnosed *v = &d->variables[k];
    const char *cells[] = {v->name,
                           page_number(p, v->gain, 3),
                           page_number(p, v->se, 2),
                           page_number(p, v->inside, 3),
                           isnan(v->adjusted) ? "" : arena_format(a, "%.3f", v->adjusted),
                           page_number(p, v->sd, 3),
                           page_number(p, v->sd_se, 2),
                           page_number(p, v->bayes_sd, 3),
                           v->varies ? "yes" : ""};
    page_row(p, cells, 9);
  }
  page_table_end(p);
}

/* ---- figures --------------------------------------------------------------------------------- */

/* One number of every variable, with an interval. */
typedef struct {
  const char **names;
  double *at, *x, *low, *high;
} Rows;

static Rows rows_of(Page *p, const Diagnosis *d) {
  Arena *a = &p->c->arena;
  Rows r = {NEW_ARRAY(a, const char *, d->n + 1), NEW_ARRAY(a, double, d->n + 1),
            NEW_ARRAY(a, double, d->n + 1), NEW_ARRAY(a, double, d->n + 1),
            NEW_ARRAY(a, double, d->n + 1)};
  for (size_t k = 0; k < d->n; k++) r.names[k] = d->variables[k].name, r.at[k] = (double)k;
  return r;
}

static Figure gains(Page *p, const Diagnosis *d) {
  Rows r = rows_of(p, d);
  static const char words[] =
      "held-out gain of the log score over Bayes when one variable may vary";
  for (size_t k = 0; k < d->n; k++) {
    const Diagnosed *v = &d->variables[k];
    r.x[k] = v->gain, r.low[k] = v->gain - 2 * v->se, r.high[k] = v->gain + 2 * v->se;
  }
  Plot *plot = plot_make(&p->c->arena,
                         &(PlotText){"Gain of freeing a variable", "gain held out", "", words});
  plot_y_names(plot, r.names, d->n);
  plot_line(plot, PLOT_QUIET,
            &(PlotPoints){(double[]){0, 0}, (double[]){-0.5, (double)d->n - 0.5}, 2});
  plot_spans(plot, PLOT_FIRST, r.at, r.low, r.high, d->n);
  plot_dots(plot, PLOT_FIRST, &(PlotPoints){r.x, r.at, d->n});
  return (Figure){"gains", "held-out gain, with two standard errors to both sides", plot};
}

static Figure widths(Page *p, const Diagnosis *d) {
  Rows r = rows_of(p, d);
  double *bayes = NEW_ARRAY(&p->c->arena, double, d->n + 1);
  static const char words[] = "the sd of every variable when it may vary, and its sd under Bayes";
  for (size_t k = 0; k < d->n; k++) {
    const Diagnosed *v = &d->variables[k];
    double se = isnan(v->sd_se) ? 0 : v->sd_se;
    r.x[k] = v->sd, r.low[k] = fmax(0, v->sd - 2 * se), r.high[k] = v->sd + 2 * se;
    bayes[k] = v->bayes_sd;
  }
  Plot *plot =
      plot_make(&p->c->arena, &(PlotText){"Widths", "sd on the unconstrained scale", "", words});
  plot_y_names(plot, r.names, d->n);
  plot_spans(plot, PLOT_FIRST, r.at, r.low, r.high, d->n);
  plot_dots(plot, PLOT_FIRST, &(PlotPoints){r.x, r.at, d->n});
  plot_label(plot, PLOT_FIRST, "freed");
  plot_dots(plot, PLOT_SECOND, &(PlotPoints){bayes, r.at, d->n});
  plot_label(plot, PLOT_SECOND, "Bayes");
  return (Figure){"widths", "how wide each becomes, with two standard errors, beside Bayes", plot};
}

/* ---- larger programs ------------------------------------------------------------------------- */

/* Is the line, without what is before it, among the changes? */
static bool is_new(const char *changes, const char *line, size_t n) {
  while (n && (*line == ' ' || *line == '\t')) line++, n--;
  for (const char *at = changes; n && *at;) {
    size_t lead = strspn(at, " \t"), m = strcspn(at, "\n");
    if (m - lead == n && !strncmp(at + lead, line, n)) return true;
    at += m + (at[m] == '\n');
  }
  return false;
}

static void put_lines(Page *p, const Expanded *e) {
  page_raw(p, "<pre tabindex=\"0\">");
  for (const char *line = e->text; *line;) {
    size_t n = strcspn(line, "\n");
    bool new = is_new(e->changes, line, n);
    page_raw(p, new ? "<span class=\"gutter\">new </span><span class=\"obs\">"
                    : "<span class=\"gutter\">    </span>");
    plot_escape(&p->text, arena_text(&p->c->arena, line, n));
    page_raw(p, new ? "</span>\n" : "\n");
    line += n + (line[n] == '\n');
  }
  page_raw(p, "</pre>\n");
}

static void put_expansions(Page *p, const Diagnosis *d) {
  Arena *a = &p->c->arena;
  if (d->nexpanded) page_raw(p, "<h2>Larger programs</h2>\n");
  for (size_t k = 0; k < d->nexpanded; k++) {
    const Expanded *e = &d->expanded[k];
    page_put(p, "<h3>", arena_format(a, "%s: %s", e->variable, e->what), "</h3>\n");
    page_put(p, "<p>", expanded_words(a, e), "</p>\n");
    put_lines(p, e);
  }
}

void page_diagnosis(Page *p, const Diagnosis *d, const Problem *problem) {
  FigureList l = {.n = 0};
  Arena *a = &p->c->arena;
  page_put(p, "<h1>What varies: ", problem->name, "</h1>\n");
  page_put(p, "<p class=\"verdict\">", d->verdict, ".</p>\n");
  if (!d->simulations && d->no_test)
    page_put(p, "<p class=\"soft\">No test by simulation: ", d->no_test, ".</p>\n");
  for (size_t k = 0; k < d->n; k++) {
    const char *words = diagnosed_words(a, &d->variables[k]);
    if (words) page_put(p, "<p>", words, "</p>\n");
  }
  page_raw(p, "<h2>Variable by variable</h2>\n");
  put_table(p, d);
  if (d->n) page_add_figure(p, &l, gains(p, d)), page_add_figure(p, &l, widths(p, d));
  page_figures(p, "What freeing gains, and how wide it makes",
               "A variable that varies gains on observations that were held out, and is wider than "
               "Bayes, which only knows what is uncertain about one value.",
               &l);
  put_expansions(p, d);
  page_program(p, problem);
}
