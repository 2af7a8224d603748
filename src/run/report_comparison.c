/* report_comparison.c: `pvi compare`: several fits side by side: their scores, paired differences,
 * the gain over VI, means and standard deviations; for people, as CSV and as JSON. */
#include "run/pages.h"
#include "run/stacking.h"
#include "run/reports.h"

#include "data/json.h"
#include "report/table.h"

#include <math.h>
#include <string.h>

static bool is_vi(const Compared *r) { return !strcmp(r->score, "elbo"); }

/* The sum of a score over a part; NaN where there is none. */
static double sum_of_score(const Compared *r, int part, const char *score) {
  const SummaryPart *p = &r->s->parts[part];
  for (size_t k = 0; k < p->count; k++)
    if (!strcmp(p->scores[k].name, score)) return p->scores[k].sum;
  return NAN;
}

/* The first VI fit of the same program. */
static const Compared *baseline(const Compared *runs, size_t n, const Compared *r) {
  for (size_t k = 0; k < n; k++)
    if (!strcmp(runs[k].s->program, r->s->program) && is_vi(&runs[k])) return &runs[k];
  return NULL;
}

/* What a fit gains over the Bayes fit as a point, its mean: with more data Bayes collapses to it.
 */
static double gain(const Compared *base, const Compared *r, int part) {
  return base ? sum_of_score(r, part, "log") - sum_of_score(base, part, "log_at_mean") : NAN;
}

static bool has_part(const Compared *runs, size_t n, int part) {
  for (size_t k = 0; k < n; k++)
    if (!isnan(sum_of_score(&runs[k], part, "log"))) return true;
  return false;
}

const char *report_signed(Arena *a, double x) {
  if (isnan(x)) return "";
  return fabs(x) < 0.005 ? "0.00" : arena_format(a, "%+.2f", x);
}

static void put_scores(Ctx *c, const Comparison *r, const Options *o, Text *t) {
  const Compared *runs = r->fits;
  for (int p = 0; p < PART_COUNT; p++) {
    if (!has_part(runs, r->n, p)) continue;
    const char *headers[] = {"fit", arena_format(&c->arena, "log score, %s", part_names[p]),
                             "at the mean of q", "gain over VI's mean"};
    Table *table = table_make(&c->arena, 4, headers);
    for (size_t k = 0; k < r->n; k++) {
      table_word(table, runs[k].label);
      table_written(table, arena_format(&c->arena, "%.2f", sum_of_score(&runs[k], p, "log")));
      table_written(table,
                    arena_format(&c->arena, "%.2f", sum_of_score(&runs[k], p, "log_at_mean")));
      table_written(table,
                    report_signed(&c->arena, gain(baseline(runs, r->n, &runs[k]), &runs[k], p)));
    }
    table_print(table, report_width(o), t);
    text_puts(t, "\n");
  }
}

/* Every score on the same rows, with paired differences. */
static void put_differences(Ctx *c, const Comparison *r, const Options *o, Text *t) {
  for (size_t s = 0; s < r->nscores; s++) {
    const ComparedScore *v = r->values + s * r->n;
    ScoreShown shown = score_shown(r->scores[s]);
    const char *headers[] = {
        "fit", arena_format(&c->arena, "%s, %s; %s", shown.title, shown.better, r->rows),
        "difference to the best", "se"};
    Table *table = table_make(&c->arena, 4, headers);
    for (size_t k = 0; k < r->n; k++) {
      bool best = k == r->best[s];
      table_word(table, r->fits[k].label);
      table_written(table, arena_format(&c->arena, "%.2f", shown.sign * v[k].sum));
      table_written(table, best ? "" : report_signed(&c->arena, shown.sign * v[k].difference));
      table_written(table, best ? "" : arena_format(&c->arena, "%.2f", v[k].se));
    }
    table_print(table, report_width(o), t);
    text_puts(t, "\n");
  }
}

static void put_verdict(Ctx *c, const Comparison *r, size_t width, Text *t) {
  const char *verdict = compare_verdict(c, r);
  if (!verdict) return;
  text_wrap(t, width, 0,
            arena_format(&c->arena, "%s. Scores are sums over observations.", verdict));
  text_puts(t, "\n");
}

/* ---- parameters ------------------------------------------------------------------------------ */

static const SummaryParameter *parameter(const Compared *r, const char *name) {
  for (size_t k = 0; k < r->s->nparameters; k++)
    if (!strcmp(r->s->parameters[k].name, name)) return &r->s->parameters[k];
  return NULL;
}

/* Without the program, which stands at the head of the table. */
static const char *short_label(const Compared *r) {
  return r->label + strlen(r->program) + strlen(", ");
}

/* Parameters of one program, one column of mean and one of sd per run of it. */
static void put_parameters(Ctx *c, const Compared **of, size_t count, const Options *o, Text *t) {
  const char **headers = NEW_ARRAY(&c->arena, const char *, 1 + 2 * count);
  headers[0] = of[0]->program;
  for (size_t r = 0; r < count; r++) {
    headers[1 + 2 * r] = arena_format(&c->arena, "%s mean", short_label(of[r]));
    headers[2 + 2 * r] = "sd";
  }
  Table *table = table_make(&c->arena, 1 + 2 * count, headers);
  size_t shown = 0, left = 0;
  for (size_t k = 0; k < of[0]->s->nparameters; k++) {
    const char *name = of[0]->s->parameters[k].name;
    if (!report_wants(&o->vars, name)) continue;
    if (shown == (size_t)o->parameters) {
      left++;
      continue;
    }
    shown++;
    table_word(table, name);
    for (size_t r = 0; r < count; r++) {
      const SummaryParameter *p = parameter(of[r], name);
      table_number(table, p ? p->mean : NAN, 4);
      table_number(table, p ? p->sd : NAN, 3);
    }
  }
  table_print(table, report_width(o), t);
  if (left) text_printf(t, "(%zu more)\n", left);
  text_puts(t, "\n");
}

static void put_programs(Ctx *c, const Compared *runs, size_t n, const Options *o, Text *t) {
  const Compared **of = NEW_ARRAY(&c->arena, const Compared *, n);
  for (size_t k = 0; o->parameters && k < n; k++) {
    size_t count = 0;
    bool first = true;
    for (size_t j = 0; j < n; j++) {
      if (strcmp(runs[j].s->program, runs[k].s->program)) continue;
      first &= j >= k;
      of[count++] = &runs[j];
    }
    if (first) put_parameters(c, of, count, o, t);
  }
}

/* ---- stacking -------------------------------------------------------------------------------- */

static const Stack *stack_of(Ctx *c, const Comparison *r, const Options *o) {
  if (!o->stack) return NULL;
  if (!r->logs || r->n < 2)
    ctx_fail(c, PVI_USAGE, NOWHERE,
             OPTION("stack") " mixes two or more fits whose log scores are known");
  return stack_make(c, r->logs, r->nrows, r->n);
}

static void put_stack(Ctx *c, const Comparison *r, const Stack *s, size_t width, Text *out) {
  static const char *const headers[] = {"stacked", "weight"};
  Table *table = table_make(&c->arena, 2, headers);
  for (size_t k = 0; k < r->n; k++) {
    table_word(table, r->fits[k].label);
    table_number(table, s->weight[k] < 5e-4 ? 0 : s->weight[k], 3);
  }
  table_print(table, width, out);
  text_wrap(out, width, 0,
            arena_format(&c->arena,
                         "Their mixture has log score %.6g (%s), %+.2f (standard error %.2f) over "
                         "%s alone.%s",
                         s->score, r->rows, s->gain, s->se, r->fits[s->best].label,
                         strncmp(r->rows, part_names[PART_TRAIN], 5)
                             ? ""
                             : " These rows were trained on: weights mean something only for "
                               "observations that were held out (" OPTION("folds") ")."));
  text_puts(out, "\n");
}

static void json_stack(JsonWriter *j, const Comparison *r, const Stack *s) {
  json_key(j, "stack"), json_object(j);
  json_key(j, "weights"), json_object(j);
  for (size_t k = 0; k < r->n; k++) json_key(j, r->fits[k].label), json_number(j, s->weight[k]);
  json_object_end(j);
  json_key(j, "score"), json_number(j, s->score);
  json_key(j, "best"), json_string(j, r->fits[s->best].label);
  json_key(j, "gain"), json_number(j, s->gain);
  json_key(j, "se"), json_number(j, s->se);
  json_object_end(j);
}

/* ---- for machines ---------------------------------------------------------------------------- */

static void json_fit(JsonWriter *j, const Comparison *r, size_t k) {
  const Compared *runs = r->fits;
  const Summary *s = runs[k].s;
  json_object(j);
  if (runs[k].folder) json_key(j, "folder"), json_string(j, runs[k].folder);
  json_key(j, "label"), json_string(j, runs[k].label);
  json_key(j, "program"), json_string(j, s->program);
  json_key(j, "score"), json_string(j, s->score);
  json_key(j, "family"), json_string(j, s->family);
  json_key(j, "lambda"), json_number(j, s->lambda);
  json_key(j, "converged"), json_bool(j, s->converged);
  json_key(j, "parts"), json_object(j);
  for (int p = 0; p < PART_COUNT; p++) {
    if (!s->parts[p].count) continue;
    json_key(j, part_names[p]), json_object(j);
    for (size_t i = 0; i < s->parts[p].count; i++)
      json_key(j, s->parts[p].scores[i].name), json_number(j, s->parts[p].scores[i].sum);
    json_key(j, "gain"), json_number(j, gain(baseline(runs, r->n, &runs[k]), &runs[k], p));
    json_object_end(j);
  }
  json_object_end(j);
  if (s->folds.count) {
    json_key(j, "heldout"), json_object(j);
    for (size_t i = 0; i < s->folds.count; i++)
      json_key(j, s->folds.scores[i].name), json_number(j, s->folds.scores[i].sum);
    json_object_end(j);
  }
  json_object_end(j);
}

static void json_score(JsonWriter *j, const Comparison *r, size_t s) {
  json_object(j);
  json_key(j, "score"), json_string(j, r->scores[s]);
  json_key(j, "best"), json_string(j, r->fits[r->best[s]].label);
  json_key(j, "fits"), json_array(j);
  for (size_t k = 0; k < r->n; k++) {
    const ComparedScore *v = &r->values[s * r->n + k];
    json_object(j);
    json_key(j, "label"), json_string(j, r->fits[k].label);
    json_key(j, "sum"), json_number(j, v->sum);
    json_key(j, "difference"), json_number(j, v->difference);
    json_key(j, "se"), json_number(j, v->se);
    json_object_end(j);
  }
  json_array_end(j);
  json_object_end(j);
}

static void json_form(const Comparison *r, const Stack *stack, Text *out) {
  JsonWriter j = json_writer(out, true);
  json_object(&j);
  json_key(&j, "runs"), json_array(&j);
  for (size_t k = 0; k < r->n; k++) json_fit(&j, r, k);
  json_array_end(&j);
  json_key(&j, "rows"), json_string(&j, r->rows);
  json_key(&j, "comparison"), json_array(&j);
  for (size_t s = 0; s < r->nscores; s++) json_score(&j, r, s);
  json_array_end(&j);
  if (stack) json_stack(&j, r, stack);
  json_object_end(&j);
  text_puts(out, "\n");
}

static void csv_form(const Comparison *r, Text *out) {
  text_puts(out, "fit,score,rows,sum,difference,se\n");
  for (size_t s = 0; s < r->nscores; s++)
    for (size_t k = 0; k < r->n; k++) {
      const ComparedScore *v = &r->values[s * r->n + k];
      text_printf(out, "\"%s\",%s,\"%s\",%.17g,%.17g,%.17g\n", r->fits[k].label, r->scores[s],
                  r->rows, v->sum, v->difference, v->se);
    }
}

/* Run folders, or programs and then their data? */
static const Comparison *compare_places(Ctx *c, const char *const *places, size_t n,
                                        const Options *o, const RunHooks *h) {
  if (problem_is_program(places[0])) return compare_models(c, places, n, o, h);
  for (size_t k = 1; k < n; k++)
    if (problem_is_program(places[k]))
      ctx_fail(c, PVI_USAGE, NOWHERE,
               "%s is a program, %s is none: programs come first, their data last", places[k],
               places[0]);
  compare_check_runs(c, o);
  return compare_runs(c, places, n);
}

/* The page, and its name. */
static const char *write_page(Ctx *c, const char *const *places, size_t n, const Comparison *r,
                              const Stack *stack, const Options *o) {
  const char *path = o->page ? o->page : "comparison.html";
  Text command = text_make(&c->arena);
  text_puts(&command, "pvi compare");
  for (size_t k = 0; k < n; k++) text_printf(&command, " %s", places[k]);
  Page *page = page_begin(c, "pvi compare", o->plots);
  page_comparison(page, r, stack, o);
  page_command(page, command.s, o);
  page_end(page, path);
  return path;
}

void report_comparison(Ctx *c, const char *const *places, size_t n, const Options *o,
                       const RunHooks *h, Text *out) {
  if (o->csv && (o->json || o->stack))
    ctx_fail(c, PVI_USAGE, NOWHERE,
             OPTION("csv") " has scores and their differences alone: it goes "
                           "without " OPTION("%s"),
             o->json ? "json" : "stack");
  const Comparison *r = compare_places(c, places, n, o, h);
  const Stack *stack = stack_of(c, r, o);
  const char *page =
      o->report || o->page || o->plots ? write_page(c, places, n, r, stack, o) : NULL;
  if (o->json) {
    json_form(r, stack, out);
  } else if (o->csv) {
    csv_form(r, out);
  } else {
    put_scores(c, r, o, out);
    put_differences(c, r, o, out);
    put_verdict(c, r, report_width(o), out);
    if (stack) put_stack(c, r, stack, report_width(o), out);
    put_programs(c, r->fits, r->n, o, out);
    if (page) text_printf(out, "report: %s\n", page);
  }
}
