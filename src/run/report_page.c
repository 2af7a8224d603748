/* report_page.c: `pvi report`: what runs found as one HTML file that needs nothing else: verdict,
 * figures, tables, the program with its observations and prior marked, and how to do it again. */
#include "run/compare.h"
#include "run/figures.h"
#include "run/pages.h"
#include "run/reports.h"

#include <math.h>
#include <string.h>

/* ---- verdict and facts ----------------------------------------------------------------------- */

static void put_verdict(Page *p, const Summary *s) {
  Arena *a = &p->c->arena;
  const char *how = s->interrupted ? "INTERRUPTED: this is the best q so far"
                    : s->converged ? s->reason
                                   : arena_format(a, "NOT converged: %s", s->reason);
  const char *what = strcmp(s->score, score_name(SCORE_elbo))
                         ? arena_format(a, "PVI for the %s", score_shown(s->score).title)
                         : "Bayes by VI";
  if (s->verdict) page_put(p, "<p class=\"verdict\">", s->verdict, ".</p>\n");
  page_put(p, s->verdict ? "<p>" : "<p class=\"verdict\">", how, ".</p>\n");
  page_put(p, "<p class=\"soft\">",
           arena_format(a,
                        "%s, family %s, %s regularizer with lambda %g; %zu observations, %zu "
                        "parameters; objective %.6g after %ld evaluations in %.2f s.",
                        what, s->family, s->regularizer ? s->regularizer : "no", s->lambda,
                        s->n_obs, s->dim, s->objective, s->evaluations, s->seconds),
           "</p>\n");
  for (size_t k = 0; k < s->nnotes; k++)
    if (!s->verdict || strcmp(s->notes[k], s->verdict) != 0)
      page_put(p, "<p class=\"soft\">note: ", s->notes[k], "</p>\n");
}

/* What draws of the posterior come to. */
static void put_sample_verdict(Page *p, const SampleSummary *s) {
  Arena *a = &p->c->arena;
  const char *how = s->interrupted ? "INTERRUPTED, these are the draws so far: "
                    : s->trusted   ? ""
                                   : "CAUTION: ";
  page_put(p, "<p class=\"verdict\">", arena_format(a, "%s%s", how, s->verdict), ".</p>\n");
  page_put(p, "<p class=\"soft\">", sample_course(p->c, s), ".</p>\n");
  page_put(p, "<p class=\"soft\">",
           arena_format(a,
                        "%zu observations, %zu parameters; %zu trajectories diverged, %zu were cut "
                        "off; E-BFMI %.2f; largest R-hat %.4f, fewest effective draws %.0f, in the "
                        "tails %.0f.",
                        s->n_obs, s->dim, s->divergences, s->deepest, s->bfmi, s->rhat, s->ess_bulk,
                        s->ess_tail),
           "</p>\n");
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void put_score_rows(Page *p, const SummaryPart *part, const char *name) {
  for (size_t k = 0; k < part->count; k++) {
    const SummaryScore *x = &part->scores[k];
    ScoreShown shown = score_shown(x->name);
    const char *cells[] = {name,
                           shown.title,
                           shown.better,
                           arena_format(&p->c->arena, "%zu", x->n),
                           page_number(p, shown.sign * x->sum, 6),
                           page_number(p, shown.sign * x->mean, 4),
                           page_number(p, x->se, 2)};
    page_row(p, cells, 7);
  }
}

static void put_scores(Page *p, const Summary *s) {
  static const char *const heads[] = {"observations", "score", "which way",     "n",
                                      "sum",          "mean",  "se of the mean"};
  page_raw(p, "<h2>Scores</h2>\n");
  page_table(p, "Sums and means over observations.", heads, 7);
  for (int k = 0; k < PART_COUNT; k++) put_score_rows(p, &s->parts[k], part_names[k]);
  if (s->folds.count)
    put_score_rows(p, &s->folds, arena_format(&p->c->arena, "held out (folds %s)", s->folds_rule));
  page_table_end(p);
}

/* Short, for a table: common:NAME is one number more for all of its elements. */
static const char *freed_words(Page *p, const char *name) {
  bool common = !strncmp(name, "common:", 7);
  return common ? arena_format(&p->c->arena, "%s, common width", name + 7) : name;
}

static void put_gains(Page *p, const char *caption, const SummaryFreed *v, size_t n) {
  static const char *const heads[] = {"freed", "gain over Bayes, held out", "se"};
  if (!n) return;
  page_table(p, caption, heads, 3);
  for (size_t k = 0; k < n; k++) {
    bool known = isfinite(v[k].gain);
    const char *cells[] = {freed_words(p, v[k].name), known ? page_number(p, v[k].gain, 4) : "none",
                           known ? page_number(p, v[k].se, 2) : ""};
    page_row(p, cells, 3);
  }
  page_table_end(p);
}

static void put_freed(Page *p, const Summary *s) {
  put_gains(p,
            s->freeing ? "Chosen: variables that were let go from their Bayes distribution, one "
                         "after the other; the gain is with all those above."
                       : "Also tried, and not chosen: some variables let go from their Bayes "
                         "distribution, one after the other; the gain is with all those above.",
            s->freed, s->nfreed);
  put_gains(
      p,
      "What each variable gains when it alone is let go; none: not in the first fold, and the "
      "others were not asked.",
      s->tried, s->ntried);
}

static void put_parameters(Page *p, const Summary *s) {
  enum { MOST = 200 };
  static const char *const heads[] = {"parameter", "mean",       "sd",       "5%",      "50%",
                                      "95%",       "Bayes mean", "Bayes sd", "sd ratio"};
  bool bayes = s->nparameters && !isnan(s->parameters[0].bayes_sd);
  size_t columns = bayes ? 9 : 6;
  page_raw(p, "<h2>All parameters</h2>\n");
  page_table(p,
             bayes ? "q describes the population from which predictions are made, not what is "
                     "uncertain about it: that is Bayes."
                   : "Means, standard deviations and quantiles under q.",
             heads, columns);
  for (size_t k = 0; k < s->nparameters && k < MOST; k++) {
    const SummaryParameter *x = &s->parameters[k];
    const char *cells[] = {
        x->name,
        page_number(p, x->mean, summary_digits(x->mean, x->sd)),
        page_number(p, x->sd, 3),
        page_number(p, x->q5, summary_digits(x->q5, x->sd)),
        page_number(p, x->q50, summary_digits(x->q50, x->sd)),
        page_number(p, x->q95, summary_digits(x->q95, x->sd)),
        page_number(p, x->bayes_mean, summary_digits(x->bayes_mean, x->bayes_sd)),
        page_number(p, x->bayes_sd, 3),
        page_number(p, x->sd / x->bayes_sd, 3)};
    page_row(p, cells, columns);
  }
  page_table_end(p);
  if (s->nparameters > MOST)
    text_printf(&p->text, "<p class=\"soft\">and %zu more in summary.json</p>\n",
                s->nparameters - MOST);
}

static void put_variables(Page *p, const SampleSummary *s) {
  enum { MOST = 200 };
  static const char *const heads[] = {"variable", "mean", "mcse", "sd",       "5%",
                                      "50%",      "95%",  "ESS",  "ESS tail", "R-hat"};
  page_raw(p, "<h2>All variables</h2>\n");
  page_table(p, "Of the posterior's draws; mcse: the error of the mean.", heads, 10);
  for (size_t k = 0; k < s->nvariables && k < MOST; k++) {
    const SummaryParameter *x = &s->variables[k].summary;
    const DrawsQuality *q = &s->variables[k].quality;
    const char *cells[] = {x->name,
                           page_number(p, x->mean, summary_digits(x->mean, x->sd)),
                           page_number(p, q->mcse, 2),
                           page_number(p, x->sd, 3),
                           page_number(p, x->q5, summary_digits(x->q5, x->sd)),
                           page_number(p, x->q50, summary_digits(x->q50, x->sd)),
                           page_number(p, x->q95, summary_digits(x->q95, x->sd)),
                           page_number(p, round(q->ess_bulk), 6),
                           page_number(p, round(q->ess_tail), 6),
                           page_number(p, q->rhat, 5)};
    page_row(p, cells, 10);
  }
  page_table_end(p);
  if (s->nvariables > MOST)
    text_printf(&p->text, "<p class=\"soft\">and %zu more in summary.json</p>\n",
                s->nvariables - MOST);
}

static void put_coverage(Page *p, const Findings *f) {
  static const double levels[] = {0.5, 0.8, 0.9, 0.95};
  static const char *const heads[] = {"central interval", "share of outcomes inside"};
  if (!f->pit || isnan(figures_coverage(f, 0.5))) return;
  page_table(p, "Coverage of predictive intervals, by the observations of the fit.", heads, 2);
  for (size_t k = 0; k < sizeof levels / sizeof *levels; k++) {
    const char *cells[] = {
        arena_format(&p->c->arena, "%g%%", 100 * levels[k]),
        arena_format(&p->c->arena, "%.1f%%", 100 * figures_coverage(f, levels[k]))};
    page_row(p, cells, 2);
  }
  page_table_end(p);
}

/* ---- the program ----------------------------------------------------------------------------- */

typedef enum { LINE_PLAIN, LINE_PRIOR, LINE_OBSERVATIONS } LineKind;

static void mark_increments(const Source *source, const Stmt *s, LineKind *kind, size_t lines) {
  if (!s) return;
  bool adds = s->kind == ST_TILDE || s->kind == ST_TARGET;
  if (adds && s->loc.source == source && s->loc.line <= lines) kind[s->loc.line] = LINE_PRIOR;
  for (int k = 0; k < s->nbody; k++) mark_increments(source, s->body[k], kind, lines);
}

void page_program(Page *out, const Problem *problem) {
  static const char *const classes[] = {NULL, "prior", "obs"};
  static const char *const words[] = {"           ", "prior      ", "observation"};
  const Program *p = problem->program;
  const char *text = p->source->text;
  size_t lines = 1;
  for (const char *t = text; *t; t++) lines += *t == '\n';
  LineKind *kind = NEW_ARRAY(&out->c->arena, LineKind, lines + 2);
  mark_increments(p->source, p->blocks[BLOCK_MODEL], kind, lines);
  for (int b = 0; b < problem->model->nblocks; b++) {
    Loc loc = problem->model->blocks[b].loc;
    if (loc.source == p->source && loc.line <= lines) kind[loc.line] = LINE_OBSERVATIONS;
  }
  page_raw(out, "<h2>The program</h2>\n<p class=\"soft\">Marked: what makes observations, and what "
                "is prior.</p>\n<pre class=\"program\" tabindex=\"0\">");
  for (size_t line = 1; text[strspn(text, " \t\r\n")]; line++) {
    size_t n = strcspn(text, "\n");
    text_printf(&out->text, "<span class=\"gutter\">%3zu %s </span>", line, words[kind[line]]);
    if (classes[kind[line]]) text_printf(&out->text, "<span class=\"%s\">", classes[kind[line]]);
    plot_escape(&out->text, arena_text(&out->c->arena, text, n));
    page_raw(out, classes[kind[line]] ? "</span>\n" : "\n");
    text += n + (text[n] == '\n');
  }
  page_raw(out, "</pre>\n");
}

/* Does it say only how a result is shown? */
static bool is_form(size_t k) {
  return k == OPTION_width || k == OPTION_json || k == OPTION_quiet || k == OPTION_report ||
         k == OPTION_page || k == OPTION_plots;
}

void page_command(Page *p, const char *command, const Options *o) {
  Text t = text_make(&p->c->arena);
  text_puts(&t, command);
  for (size_t k = 0; k < OPTION_COUNT; k++)
    for (size_t i = 0; !is_form(k) && i < o->given[k].count; i++)
      if (option_row(k)->kind == OPT_FLAG)
        text_printf(&t, " --%s", option_row(k)->name);
      else
        text_printf(&t, " --%s %s", option_row(k)->name, o->given[k].items[i]);
  page_raw(p, "<h2>To do it again</h2>\n");
  page_put(p, "<pre class=\"command\" tabindex=\"0\">", t.s, "</pre>\n");
}

static void put_command(Page *p, const Run *r) {
  Arena *a = &p->c->arena;
  page_command(p,
               arena_format(a, "pvi %s %s %s",
                            r->sampled     ? "sample"
                            : r->amortized ? r->amortized
                                           : "fit",
                            r->program_origin.shown,
                            r->data_origin.shown ? r->data_origin.shown : ""),
               r->o);
  page_put(p, "<p class=\"soft\">",
           arena_format(a, "pvi %s, seed %llu; run folder %s", r->summary->version,
                        (unsigned long long)r->summary->seed, r->folder),
           "</p>\n");
}

/* ---- a page ---------------------------------------------------------------------------------- */

static void put_figure_row(Page *p, const Findings *f, const FigureRow *row) {
  FigureList l = {.n = 0};
  row->make(f, &l);
  page_figures_begin(p, row->heading, row->reading, &l);
  if (l.n && row->make == figures_lambda_path) put_freed(p, f->s);
  if (l.n && row->make == figures_pit) put_coverage(p, f);
  page_figures_end(p, &l);
}

static void put_figures(Page *p, const Findings *f) {
  for (int k = 0; f->run->sampled && k < SAMPLE_FIGURE_ROWS; k++)
    put_figure_row(p, f, &sample_figure_rows[k]);
  for (int k = f->run->sampled ? 1 : 0; k < FIGURE_ROWS; k++) put_figure_row(p, f, &figure_rows[k]);
}

static void put_run(Page *p, const Run *r, const Options *o) {
  const Findings *f = findings_of(p->c, r, o);
  page_put(p, "<h1>", problem_base_name(&p->c->arena, r->summary->program), "</h1>\n");
  if (r->sampled)
    put_sample_verdict(p, r->sampled);
  else
    put_verdict(p, r->summary);
  if (f->no_problem)
    page_put(p,
             "<p class=\"soft\">Predictive checks are left out, because the program or the data of "
             "this run cannot be read: ",
             f->no_problem, ".</p>\n");
  put_figures(p, f);
  if (f->predictions && f->predictions->note)
    page_put(p, "<p class=\"soft\">note: ", f->predictions->note, ".</p>\n");
  put_scores(p, r->summary);
  if (r->sampled && r->sampled->loo)
    page_put(p, "<p>", sample_loo_words(p->c, r->sampled->loo), ".</p>\n");
  if (r->sampled)
    put_variables(p, r->sampled);
  else
    put_parameters(p, r->summary);
  if (f->problem) page_program(p, f->problem);
  put_command(p, r);
}

void report_page(Ctx *c, const char *const *folders, size_t n, const Options *o, Text *out) {
  Page *p = page_begin(c, "pvi report", n > 1 ? NULL : o->plots);
  if (n > 1) page_comparison(p, compare_runs(c, folders, n), NULL, o);
  for (size_t k = 0; k < n; k++) {
    if (o->plots && n > 1)
      p->plots = run_open(c, arena_format(&c->arena, "%s/%zu", o->plots, k + 1));
    put_run(p, run_read(c, folders[k]), o);
  }
  const char *path = o->page ? o->page : arena_format(&c->arena, "%s/report.html", folders[0]);
  page_end(p, path);
  text_printf(out, "report: %s\n", path);
}
