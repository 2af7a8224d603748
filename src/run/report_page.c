/* report_page.c: `pvi report`: what runs found as one HTML file that needs nothing else: verdict,
 * figures, tables, the program with its observations and prior marked, and how to do it again. */
#include "run/compare.h"
#include "run/figures.h"
#include "run/reports.h"

#include <math.h>
#include <string.h>

static const char style[] =
    ":root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --paper: #ffffff; --line: "
    "#d6dce2; "
    "--mark: #eaf2fb; --prior: #fbf3ea }\n"
    "@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #a5b0bb; --paper: "
    "#0f1419; --line: "
    "#39424c; --mark: #16283c; --prior: #33261a } }\n"
    "body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); "
    "max-width: 76rem; "
    "margin: 0 auto; padding: 1rem }\n"
    "h1 { font-size: 1.5rem; margin: 0.5rem 0 } h2 { font-size: 1.15rem; margin: 2rem 0 0.3rem; "
    "border-bottom: 1px "
    "solid var(--line) }\n"
    ".verdict { font-size: 1.1rem; border-left: 4px solid var(--line); padding: 0.2rem 0.8rem } "
    ".soft, figcaption "
    "{ color: var(--soft) }\n"
    ".figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), "
    "1fr)); gap: 1rem } "
    "figure { margin: 0 } figcaption { font-size: 0.9rem }\n"
    ".wide { overflow-x: auto } table { border-collapse: collapse; font-size: 0.92rem } th, td { "
    "padding: 0.2rem "
    "0.7rem; text-align: right; border-bottom: 1px solid var(--line) } th:first-child, "
    "td:first-child { text-align: "
    "left } caption { text-align: left; color: var(--soft); padding: 0.3rem 0 }\n"
    "pre { overflow-x: auto; font-size: 0.85rem; line-height: 1.45; border: 1px solid var(--line); "
    "padding: 0.6rem } "
    ".obs { background: var(--mark) } .prior { background: var(--prior) } .gutter { color: "
    "var(--soft); user-select: "
    "none }\n"
    "@media print { body { max-width: none } figure, tr { break-inside: avoid } }\n";

static void put_escaped(Text *out, const char *before, const char *text, const char *after) {
  text_puts(out, before);
  plot_escape(out, text);
  text_puts(out, after);
}

/* ---- verdict and facts ----------------------------------------------------------------------- */

static void put_verdict(Ctx *c, const Summary *s, Text *out) {
  const char *how = s->interrupted ? "INTERRUPTED: this is the best q so far"
                    : s->converged ? s->reason
                                   : arena_format(&c->arena, "NOT converged: %s", s->reason);
  if (s->verdict) put_escaped(out, "<p class=\"verdict\">", s->verdict, ".</p>\n");
  put_escaped(out, s->verdict ? "<p>" : "<p class=\"verdict\">", how, ".</p>\n");
  put_escaped(
      out, "<p class=\"soft\">",
      arena_format(&c->arena,
                   "%s score, family %s, %s regularizer with lambda %g; %zu observations, %zu "
                   "parameters; objective %.6g after %ld evaluations in %.2f s.",
                   s->score, s->family, s->regularizer ? s->regularizer : "no", s->lambda, s->n_obs,
                   s->dim, s->objective, s->evaluations, s->seconds),
      "</p>\n");
  for (size_t k = 0; k < s->nnotes; k++)
    if (!s->verdict || strcmp(s->notes[k], s->verdict) != 0)
      put_escaped(out, "<p class=\"soft\">note: ", s->notes[k], "</p>\n");
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void put_cells(Text *out, const char *kind, const char *const *words, size_t n) {
  text_puts(out, "<tr>");
  for (size_t k = 0; k < n; k++) {
    text_printf(out, "<%s>", kind);
    plot_escape(out, words[k]);
    text_printf(out, "</%s>", kind);
  }
  text_puts(out, "</tr>\n");
}

static const char *number(Ctx *c, double x, int digits) {
  return isnan(x) ? "" : arena_format(&c->arena, "%.*g", digits, x);
}

static void put_score_rows(Ctx *c, const SummaryPart *p, const char *name, Text *out) {
  for (size_t k = 0; k < p->count; k++) {
    const SummaryScore *x = &p->scores[k];
    const char *cells[] = {name,
                           x->name,
                           arena_format(&c->arena, "%zu", x->n),
                           number(c, x->sum, 6),
                           number(c, x->mean, 4),
                           number(c, x->se, 2)};
    put_cells(out, "td", cells, 6);
  }
}

static void put_scores(Ctx *c, const Summary *s, Text *out) {
  static const char *const heads[] = {"observations", "score", "n", "sum", "mean", "se(mean)"};
  text_puts(
      out, "<h2>Scores</h2>\n<div class=\"wide\"><table><caption>Sums over observations; larger is "
           "better for every score.</caption>\n");
  put_cells(out, "th", heads, 6);
  for (int p = 0; p < PART_COUNT; p++) put_score_rows(c, &s->parts[p], part_names[p], out);
  if (s->folds.count)
    put_score_rows(c, &s->folds, arena_format(&c->arena, "held out (folds %s)", s->folds_rule),
                   out);
  text_puts(out, "</table></div>\n");
}

static void put_freed(Ctx *c, const Summary *s, Text *out) {
  static const char *const heads[] = {"freed", "gain over Bayes, held out", "se"};
  if (!s->nfreed) return;
  text_puts(out, "<div class=\"wide\"><table><caption>Variables that were let go from their Bayes "
                 "distribution, one "
                 "after the other; the gain is with all those above.</caption>\n");
  put_cells(out, "th", heads, 3);
  for (size_t k = 0; k < s->nfreed; k++) {
    const char *cells[] = {s->freed[k].name, number(c, s->freed[k].gain, 4),
                           number(c, s->freed[k].se, 2)};
    put_cells(out, "td", cells, 3);
  }
  text_puts(out, "</table></div>\n");
}

static void put_parameters(Ctx *c, const Summary *s, Text *out) {
  enum { MOST = 200 };
  static const char *const heads[] = {"parameter", "mean",       "sd",       "5%",      "50%",
                                      "95%",       "Bayes mean", "Bayes sd", "sd ratio"};
  bool bayes = s->nparameters && !isnan(s->parameters[0].bayes_sd);
  size_t columns = bayes ? 9 : 6;
  text_puts(out, "<h2>All parameters</h2>\n<div class=\"wide\"><table>");
  if (bayes)
    text_puts(out, "<caption>q describes the population from which predictions are made, not what "
                   "is uncertain about it: that is Bayes.</caption>\n");
  put_cells(out, "th", heads, columns);
  for (size_t k = 0; k < s->nparameters && k < MOST; k++) {
    const SummaryParameter *p = &s->parameters[k];
    const char *cells[] = {p->name,
                           number(c, p->mean, 4),
                           number(c, p->sd, 3),
                           number(c, p->q5, 4),
                           number(c, p->q50, 4),
                           number(c, p->q95, 4),
                           number(c, p->bayes_mean, 4),
                           number(c, p->bayes_sd, 3),
                           number(c, p->sd / p->bayes_sd, 3)};
    put_cells(out, "td", cells, columns);
  }
  text_puts(out, "</table></div>\n");
  if (s->nparameters > MOST)
    text_printf(out, "<p class=\"soft\">and %zu more in summary.json</p>\n", s->nparameters - MOST);
}

static void put_coverage(Ctx *c, const Findings *f, Text *out) {
  static const double levels[] = {0.5, 0.8, 0.9, 0.95};
  static const char *const heads[] = {"central interval", "share of outcomes inside"};
  if (!f->pit || isnan(figures_coverage(f, 0.5))) return;
  text_puts(out, "<div class=\"wide\"><table><caption>Coverage of predictive intervals, by the "
                 "observations of "
                 "the fit.</caption>\n");
  put_cells(out, "th", heads, 2);
  for (size_t k = 0; k < sizeof levels / sizeof *levels; k++) {
    const char *cells[] = {arena_format(&c->arena, "%g%%", 100 * levels[k]),
                           arena_format(&c->arena, "%.1f%%", 100 * figures_coverage(f, levels[k]))};
    put_cells(out, "td", cells, 2);
  }
  text_puts(out, "</table></div>\n");
}

/* ---- the program ----------------------------------------------------------------------------- */

typedef enum { LINE_PLAIN, LINE_PRIOR, LINE_OBSERVATIONS } LineKind;

static void mark_increments(const Source *source, const Stmt *s, LineKind *kind, size_t lines) {
  if (!s) return;
  bool adds = s->kind == ST_TILDE || s->kind == ST_TARGET;
  if (adds && s->loc.source == source && s->loc.line <= lines) kind[s->loc.line] = LINE_PRIOR;
  for (int k = 0; k < s->nbody; k++) mark_increments(source, s->body[k], kind, lines);
}

static void put_program(Ctx *c, const Findings *f, Text *out) {
  static const char *const classes[] = {NULL, "prior", "obs"};
  static const char *const words[] = {"           ", "prior      ", "observation"};
  const Program *p = f->problem->program;
  const char *text = p->source->text;
  size_t lines = 1;
  for (const char *t = text; *t; t++) lines += *t == '\n';
  LineKind *kind = NEW_ARRAY(&c->arena, LineKind, lines + 2);
  mark_increments(p->source, p->blocks[BLOCK_MODEL], kind, lines);
  for (int b = 0; b < f->problem->model->nblocks; b++) {
    Loc loc = f->problem->model->blocks[b].loc;
    if (loc.source == p->source && loc.line <= lines) kind[loc.line] = LINE_OBSERVATIONS;
  }
  text_puts(out,
            "<h2>The program</h2>\n<p class=\"soft\">Marked: what makes observations, and what is "
            "prior.</p>\n<pre>");
  for (size_t line = 1; *text; line++) {
    size_t n = strcspn(text, "\n");
    text_printf(out, "<span class=\"gutter\">%4zu %s </span>", line, words[kind[line]]);
    if (classes[kind[line]]) text_printf(out, "<span class=\"%s\">", classes[kind[line]]);
    plot_escape(out, arena_text(&c->arena, text, n));
    text_puts(out, classes[kind[line]] ? "</span>\n" : "\n");
    text += n + (text[n] == '\n');
  }
  text_puts(out, "</pre>\n");
}

static void put_command(Ctx *c, const Run *r, Text *out) {
  Text t = text_make(&c->arena);
  text_printf(&t, "pvi fit %s %s", r->program_origin.shown,
              r->data_origin.shown ? r->data_origin.shown : "");
  for (size_t k = 0; k < OPTION_COUNT; k++)
    for (size_t i = 0; i < r->o->given[k].count; i++)
      text_printf(&t, " --%s %s", option_row(k)->name, r->o->given[k].items[i]);
  text_puts(out, "<h2>To do it again</h2>\n");
  put_escaped(out, "<pre>", t.s, "</pre>\n");
  put_escaped(out, "<p class=\"soft\">",
              arena_format(&c->arena, "pvi %s, seed %llu; run folder %s", r->summary->version,
                           (unsigned long long)r->summary->seed, r->folder),
              "</p>\n");
}

/* ---- a page ---------------------------------------------------------------------------------- */

static void put_figures(Ctx *c, const Findings *f, RunDir *plots, Text *out) {
  for (int k = 0; k < FIGURE_ROWS; k++) {
    FigureList l = {.n = 0};
    figure_rows[k].make(f, &l);
    if (!l.n) continue;
    put_escaped(out, "<h2>", figure_rows[k].heading, "</h2>\n");
    put_escaped(out, "<p class=\"soft\">", figure_rows[k].reading,
                "</p>\n<div class=\"figures\">\n");
    for (size_t i = 0; i < l.n; i++) {
      text_puts(out, "<figure>\n");
      plot_svg(l.items[i].plot, out);
      put_escaped(out, "<figcaption>", l.items[i].caption, "</figcaption>\n</figure>\n");
      if (!plots) continue;
      Text file = text_make(&c->arena);
      plot_file(l.items[i].plot, &file);
      run_write(plots, arena_format(&c->arena, "%s.svg", l.items[i].id), &file);
    }
    text_puts(out, "</div>\n");
    if (k == 1) put_freed(c, f->s, out);
    if (k == 2) put_coverage(c, f, out);
  }
}

static void put_run(Ctx *c, const Run *r, const Options *o, RunDir *plots, Text *out) {
  const Findings *f = findings_of(c, r, o);
  put_escaped(out, "<h1>", problem_base_name(&c->arena, r->summary->program), "</h1>\n");
  put_verdict(c, r->summary, out);
  if (f->no_problem)
    put_escaped(
        out,
        "<p class=\"soft\">Predictive checks are left out, because the program or the data of "
        "this run cannot be read: ",
        f->no_problem, ".</p>\n");
  put_figures(c, f, plots, out);
  put_scores(c, r->summary, out);
  put_parameters(c, r->summary, out);
  if (f->problem) put_program(c, f, out);
  put_command(c, r, out);
}

static void put_comparison(Ctx *c, const char *const *folders, size_t n, Text *out) {
  static const char *const heads[] = {"fit", "score", "sum", "difference to the best", "se"};
  const Comparison *r = compare_runs(c, folders, n);
  put_escaped(
      out,
      "<h1>Comparison</h1>\n<div class=\"wide\"><table><caption>Scores of the same observations, ",
      r->rows, "; larger is better.</caption>\n");
  put_cells(out, "th", heads, 5);
  for (size_t s = 0; s < r->nscores; s++)
    for (size_t k = 0; k < n; k++) {
      const ComparedScore *v = &r->values[s * n + k];
      const char *cells[] = {r->fits[k].label, r->scores[s], number(c, v->sum, 6),
                             k == r->best[s] ? "best"
                                             : arena_format(&c->arena, "%+.2f", v->difference),
                             k == r->best[s] ? "" : number(c, v->se, 3)};
      put_cells(out, "td", cells, 5);
    }
  text_puts(out, "</table></div>\n");
}

void report_page(Ctx *c, const char *const *folders, size_t n, const Options *o, Text *out) {
  Text page = text_make(&c->arena);
  text_puts(&page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
                   "name=\"viewport\" "
                   "content=\"width=device-width, initial-scale=1\">\n<title>pvi "
                   "report</title>\n<link rel=\"icon\" "
                   "href=\"data:,\">\n<style>\n");
  text_puts(&page, style);
  plot_style(&page);
  text_puts(&page, "</style>\n</head>\n<body>\n<main>\n");
  if (n > 1) put_comparison(c, folders, n, &page);
  for (size_t k = 0; k < n; k++) {
    const char *where =
        o->plots && n > 1 ? arena_format(&c->arena, "%s/%zu", o->plots, k + 1) : o->plots;
    put_run(c, run_read(c, folders[k]), o, where ? run_open(c, where) : NULL, &page);
  }
  text_puts(&page, "</main>\n</body>\n</html>\n");
  const char *path = o->page ? o->page : arena_format(&c->arena, "%s/report.html", folders[0]);
  OutFile *f = file_begin(c, path);
  file_put(f, page.s, page.n);
  file_commit(f);
  text_printf(out, "report: %s\n", path);
}
