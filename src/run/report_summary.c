/* report_summary.c: `pvi fit` and `pvi summary`: what a run found, in words and tables. */
#include "run/reports.h"

#include "data/json.h"
#include "report/picture.h"
#include "report/table.h"

#include <string.h>
#include <unistd.h>

/* ---- the head: what was fitted, and the verdict ---------------------------------------------- */

static void put_head(Ctx *c, const Summary *s, size_t width, Text *out) {
  bool npe = !strcmp(s->score, "npe"), network = npe || !strcmp(s->score, "nre"),
       vi = !strcmp(s->score, score_name(SCORE_elbo));
  const char *what =
      network ? arena_format(&c->arena, "%s, %s: %s", s->score, s->family,
                             npe ? "log density" : "minus the loss")
      : vi    ? arena_format(&c->arena, "Bayes by VI, %s: ELBO", s->family)
              : arena_format(&c->arena, "PVI for the %s, %s, %s regularizer lambda %g: objective",
                             score_shown(s->score).title, s->family, s->regularizer, s->lambda);
  const char *after =
      network
          ? arena_format(&c->arena, "a pair on those set aside, after %ld passes", s->iterations)
          : arena_format(&c->arena, "after %ld evaluations", s->evaluations);
  text_wrap(out, width, 2,
            arena_format(&c->arena, "%s %.6g %s in %.2f s", what, s->objective, after, s->seconds));
  text_wrap(out, width, 2,
            s->interrupted ? "INTERRUPTED: this is the best q so far"
            : s->converged ? s->reason
                           : arena_format(&c->arena, "NOT converged: %s", s->reason));
  for (size_t k = 0; k < s->nnotes; k++)
    text_wrap(out, width, 2, arena_format(&c->arena, "note: %s", s->notes[k]));
  text_puts(out, "\n");
}

static const char *first_score(const Summary *s) {
  for (int p = 0; p < PART_COUNT; p++)
    if (s->parts[p].count) return s->parts[p].scores[0].name;
  return "no";
}

static const SummaryScore *score_in(const SummaryPart *p, const char *name) {
  for (size_t k = 0; k < p->count; k++)
    if (!strcmp(p->scores[k].name, name)) return &p->scores[k];
  return NULL;
}

static void put_score(Table *table, const char *name, const SummaryScore *x) {
  if (!x) return;
  double sign = score_shown(x->name).sign;
  table_word(table, name);
  table_integer(table, (long long)x->n);
  table_number(table, sign * x->sum, 6);
  table_number(table, sign * x->mean, 4);
  table_number(table, x->se, 2);
}

static void put_parts(Ctx *c, const Summary *s, const char *score, size_t width, Text *out) {
  ScoreShown shown = score_shown(score);
  const char *headers[] = {arena_format(&c->arena, "%s, %s", shown.title, shown.better), "n", "sum",
                           "mean", "se"};
  Table *table = table_make(&c->arena, 5, headers);
  for (int p = 0; p < PART_COUNT; p++)
    put_score(table, part_names[p], score_in(&s->parts[p], score));
  put_score(table, arena_format(&c->arena, "held out (folds %s)", s->folds_rule),
            score_in(&s->folds, score));
  table_print(table, width, out);
}

void report_scores(Ctx *c, const Summary *s, size_t width, Text *out) {
  const char *first = first_score(s);
  put_parts(c, s, first, width, out);
  bool other = false;
  for (int p = 0; s->score && strcmp(s->score, first) && p < PART_COUNT; p++)
    other |= score_in(&s->parts[p], s->score) != NULL;
  if (!other) return;
  text_puts(out, "\n");
  put_parts(c, s, s->score, width, out);
}

/* ---- which rows ------------------------------------------------------------------------------ */

bool report_wants(const OptionList *vars, const char *name) {
  size_t variable = strcspn(name, "[.");
  for (size_t k = 0; k < vars->count; k++) {
    const char *v = vars->items[k];
    if (!strcmp(v, name) || (strlen(v) == variable && !strncmp(v, name, variable))) return true;
  }
  return vars->count == 0;
}

/* Every name of the list must be of a row. */
static void check_vars(Ctx *c, const OptionList *vars, const char *const *rows, size_t nrows) {
  const char **names = NEW_ARRAY(&c->arena, const char *, nrows + 1);
  size_t n = 0;
  for (size_t k = 0; k < nrows; k++) {
    const char *variable = arena_text(&c->arena, rows[k], strcspn(rows[k], "[."));
    if (!n || strcmp(names[n - 1], variable) != 0) names[n++] = variable;
  }
  for (size_t v = 0; v < vars->count; v++) {
    bool found = false;
    OptionList one = {&vars->items[v], 1, 1};
    for (size_t k = 0; k < nrows && !found; k++) found = report_wants(&one, rows[k]);
    if (!found)
      ctx_unknown(c, PVI_USAGE, NOWHERE,
                  &(UnknownWord){"variable in " OPTION("vars"), vars->items[v], NULL, names, n});
  }
}

const size_t *report_choose(Ctx *c, const char *const *names, size_t n, const Options *o,
                            size_t *chosen) {
  size_t *rows = NEW_ARRAY(&c->arena, size_t, n + 1), wanted = 0;
  check_vars(c, &o->vars, names, n);
  for (size_t k = 0; k < n; k++) wanted += report_wants(&o->vars, names[k]);
  bool scalars_first = o->most && wanted > (size_t)o->most;
  *chosen = 0;
  for (int pass = 0; pass < (scalars_first ? 2 : 1); pass++)
    for (size_t k = 0; k < n; k++) {
      bool scalar = !strpbrk(names[k], "[."), now = !scalars_first || scalar == (pass == 0);
      if (now && report_wants(&o->vars, names[k])) rows[(*chosen)++] = k;
    }
  return rows;
}

/* The wanted rows. */
static SummaryParameter *choose_rows(Ctx *c, const Summary *s, const Options *o, size_t *n) {
  SummaryParameter *rows = NEW_ARRAY(&c->arena, SummaryParameter, s->nparameters + 1);
  const char **names = NEW_ARRAY(&c->arena, const char *, s->nparameters + 1);
  for (size_t k = 0; k < s->nparameters; k++) names[k] = s->parameters[k].name;
  const size_t *chosen = report_choose(c, names, s->nparameters, o, n);
  for (size_t k = 0; k < *n; k++) rows[k] = s->parameters[chosen[k]];
  return rows;
}

/* ---- the reports ----------------------------------------------------------------------------- */

/* What the run says of Bayes, for rows that were made anew from its draws. */
static void keep_bayes(const Summary *of, SummaryParameter *rows, size_t n) {
  for (size_t k = 0, j = 0; k < n && j < of->nparameters; k++)
    if (!strcmp(rows[k].name, of->parameters[j].name)) {
      rows[k].bayes_mean = of->parameters[j].bayes_mean;
      rows[k].bayes_sd = of->parameters[j++].bayes_sd;
    }
}

/* The summary as it is reported: of a run that was read, every output column, from its draws. */
static const Summary *whole_summary(Ctx *c, const Run *r, const Options *o) {
  Summary *s = NEW(&c->arena, Summary);
  *s = *r->summary;
  const Draws *d =
      r->draws ? r->draws : draws_read(c, arena_format(&c->arena, "%s/draws.csv", r->folder));
  SummaryParameter *rows = summary_parameters(c, d, d->ncols);
  keep_bayes(r->summary, rows, d->ncols);
  s->parameters = rows;
  s->nparameters = d->ncols;
  size_t n;
  s->parameters = choose_rows(c, s, o, &n);
  s->nparameters = n;
  return s;
}

/* The objective by iteration, of the fit itself or from its folder; a fit without either has none.
 */
static void put_course(Ctx *c, const Run *r, size_t width, Text *out) {
  const char *path = r->folder ? arena_format(&c->arena, "%s/trace.csv", r->folder) : NULL;
  if (r->fit) {
    double *y = NEW_ARRAY(&c->arena, double, r->fit->ntrace + 1);
    for (size_t k = 0; k < r->fit->ntrace; k++) y[k] = r->fit->trace[k].objective;
    picture_course(out, y, r->fit->ntrace, width);
  } else if (path && !access(path, R_OK)) {
    const DataVar *y = data_find(data_read(c, path, NULL), "objective");
    if (y) picture_course(out, y->values, y->n, width);
  }
}

void report_fit(Ctx *c, const Run *r, const Options *o, Text *out) {
  if (r->sampled) {
    report_sample(c, r->sampled, r->folder, o, out);
    return;
  }
  if (o->json) {
    summary_json(out, r->summary);
    return;
  }
  put_head(c, r->summary, report_width(o), out);
  Summary s = *r->summary;
  Options all = *o;
  all.vars = (OptionList){0};
  s.parameters = choose_rows(c, r->summary, &all, &s.nparameters);
  summary_table(out, &s, (size_t)o->most, report_width(o));
  picture_moved(out, &s, report_width(o));
  put_course(c, r, report_width(o), out);
  text_puts(out, "\n");
  report_scores(c, r->summary, report_width(o), out);
  if (r->folder) text_printf(out, "\nrun folder: %s\n", r->folder);
}

void report_summary(Ctx *c, const Run *r, const Options *o, Text *out) {
  if (r->sampled) {
    report_fit(c, r, o, out);
    return;
  }
  const Summary *s = whole_summary(c, r, o);
  if (o->json) {
    summary_json(out, s);
    return;
  }
  put_head(c, s, report_width(o), out);
  summary_table(out, s, (size_t)o->most, report_width(o));
  picture_moved(out, s, report_width(o));
  put_course(c, r, report_width(o), out);
  text_puts(out, "\n");
  report_scores(c, s, report_width(o), out);
}

/* ---- draws ----------------------------------------------------------------------------------- */

/* Columns of the wanted variables, in their order. */
static const size_t *choose_columns(Ctx *c, const Draws *d, const Options *o, size_t *n) {
  const char **names = NEW_ARRAY(&c->arena, const char *, d->ncols + 1);
  for (size_t k = 0; k < d->ncols; k++) names[k] = draws_pretty_name(&c->arena, d->names[k]);
  Options all = *o;
  all.most = 0;
  return report_choose(c, names, d->ncols, &all, n);
}

static void csv_draws(const Draws *d, const size_t *columns, size_t n, Text *out) {
  text_puts(out, "log_p__,log_g__");
  for (size_t k = 0; k < n; k++) text_printf(out, ",%s", d->names[columns[k]]);
  text_puts(out, "\n");
  for (size_t i = 0; i < d->ndraws; i++) {
    text_number(out, d->log_p[i]), text_puts(out, ",");
    text_number(out, d->log_g[i]);
    for (size_t k = 0; k < n; k++)
      text_puts(out, ","), text_number(out, d->values[i * d->ncols + columns[k]]);
    text_puts(out, "\n");
  }
}

static void json_draws(Ctx *c, const Draws *d, const size_t *columns, size_t n, Text *out) {
  JsonWriter j = json_writer(out, false);
  double *row = NEW_ARRAY(&c->arena, double, n + 1);
  json_object(&j);
  json_key(&j, "names"), json_flat_array(&j);
  for (size_t k = 0; k < n; k++)
    json_string(&j, draws_pretty_name(&c->arena, d->names[columns[k]]));
  json_array_end(&j);
  json_key(&j, "draws"), json_array(&j);
  for (size_t i = 0; i < d->ndraws; i++) {
    for (size_t k = 0; k < n; k++) row[k] = d->values[i * d->ncols + columns[k]];
    json_numbers(&j, row, n);
  }
  json_array_end(&j);
  json_key(&j, "log_p"), json_numbers(&j, d->log_p, d->ndraws);
  json_key(&j, "log_q"), json_numbers(&j, d->log_g, d->ndraws);
  json_object_end(&j);
  text_puts(out, "\n");
}

void report_draws(Ctx *c, const Run *r, const Problem *p, const Options *o, Text *out) {
  size_t n = (size_t)(o->n ? o->n : r->o->save_draws), ncolumns;
  uint64_t seed = (uint64_t)(options_is_given(o, OPTION_seed) ? o->seed : r->o->seed);
  const Draws *d = &run_draw(c, r, p, n, seed, NULL)->draws;
  const size_t *columns = choose_columns(c, d, o, &ncolumns);
  if (o->json)
    json_draws(c, d, columns, ncolumns, out);
  else
    csv_draws(d, columns, ncolumns, out);
}
