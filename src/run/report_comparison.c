/* report_comparison.c: `pvi compare`: several run folders side by side: their scores, the gain over
 * VI, means and standard deviations. */
#include "run/reports.h"

#include "data/json.h"
#include "report/table.h"

#include <math.h>
#include <string.h>

typedef struct {
  const char *folder;
  const Summary *s;
} Compared;

static bool is_vi(const Compared *r) { return !strcmp(r->s->score, "elbo"); }

static const char *method(Ctx *c, const Compared *r) {
  return is_vi(r) ? "VI" : arena_format(&c->arena, "PVI, %s score", r->s->score);
}

/* The sum of a score over a part; NaN where there is none. */
static double score_sum(const Compared *r, int part, const char *score) {
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
  return base ? score_sum(r, part, "log") - score_sum(base, part, "log_at_mean") : NAN;
}

static bool has_part(const Compared *runs, size_t n, int part) {
  for (size_t k = 0; k < n; k++)
    if (!isnan(score_sum(&runs[k], part, "log"))) return true;
  return false;
}

static const char *two_decimals(Ctx *c, const char *format, double x) {
  return isnan(x) ? "" : arena_format(&c->arena, format, x);
}

static void put_scores(Ctx *c, const Compared *runs, size_t n, Text *t) {
  for (int p = 0; p < PART_COUNT; p++) {
    if (!has_part(runs, n, p)) continue;
    const char *headers[] = {
        "program",          "fitted by",
        "family",           arena_format(&c->arena, "log score, %s", part_names[p]),
        "at the mean of q", "gain over VI's mean"};
    Table *table = table_make(&c->arena, 6, headers);
    for (size_t k = 0; k < n; k++) {
      const Compared *r = &runs[k];
      table_word(table, r->s->program);
      table_word(table, method(c, r));
      table_word(table, r->s->family);
      table_word(table, arena_format(&c->arena, "%.2f", score_sum(r, p, "log")));
      table_word(table, arena_format(&c->arena, "%.2f", score_sum(r, p, "log_at_mean")));
      table_word(table, two_decimals(c, "%+.2f", gain(baseline(runs, n, r), r, p)));
    }
    table_print(table, t);
    text_puts(t, "\n");
  }
}

/* ---- folds: paired differences --------------------------------------------------------------- */

/* The log scores of a run's observations when they were held out; NaN: never. */
typedef struct {
  const Compared *run;
  const double *log;
  size_t n;
} HeldOut;

static HeldOut held_out(Ctx *c, const Compared *r) {
  const ScoreTable *t = scores_read(c, arena_format(&c->arena, "%s/scores.csv", r->folder));
  for (size_t k = 0; k < t->nscores; k++) {
    if (strcmp(t->names[k], "log_heldout") != 0) continue;
    double *log = NEW_ARRAY(&c->arena, double, t->n + 1);
    for (size_t i = 0; i < t->n; i++) log[i] = t->values[i * t->nscores + k];
    return (HeldOut){r, log, t->n};
  }
  return (HeldOut){r, NULL, 0};
}

/* Differences of single observations mean something only where the same ones were predicted from
 * the same others. */
static void check_same_folds(Ctx *c, const Compared *a, const Compared *b) {
  const Asked *x = folder_asked(c, a->folder), *y = folder_asked(c, b->folder);
  bool same_data = !strcmp(x->data.hash, y->data.hash) && a->s->n_obs == b->s->n_obs;
  if (!same_data)
    ctx_fail(
        c, PVI_DATA, NOWHERE,
        "%s and %s are fits of different data (%zu and %zu observations); their scores cannot be "
        "compared",
        a->folder, b->folder, a->s->n_obs, b->s->n_obs);
  if (strcmp(a->s->folds_rule, b->s->folds_rule) != 0 || x->options->seed != y->options->seed)
    ctx_fail(c, PVI_DATA, NOWHERE,
             "%s and %s have different folds (%s with seed %ld, %s with seed %ld); fit one of them "
             "again",
             a->folder, b->folder, a->s->folds_rule, x->options->seed, b->s->folds_rule,
             y->options->seed);
}

/* Sum of the differences a - b and its standard error, sqrt(n) times the sd of a single one. */
static double difference(const HeldOut *a, const HeldOut *b, double *se) {
  double sum = 0, squares = 0, n = 0;
  for (size_t k = 0; k < a->n; k++) {
    double d = a->log[k] - b->log[k];
    if (isnan(d)) continue;
    n++;
    sum += d;
    squares += d * d;
  }
  double variance = n > 1 ? (squares - sum * sum / n) / (n - 1) : NAN;
  *se = sqrt(fmax(variance, 0) * n);
  return sum;
}

static void put_folds(Ctx *c, const Compared *runs, size_t n, Text *t) {
  HeldOut *h = NEW_ARRAY(&c->arena, HeldOut, n);
  size_t count = 0, best = 0;
  for (size_t k = 0; k < n; k++) {
    if (!runs[k].s->folds.count) continue;
    h[count] = held_out(c, &runs[k]);
    if (!h[count].log) continue;
    if (count) check_same_folds(c, h[0].run, h[count].run);
    if (h[count].run->s->folds.scores[0].sum > h[best].run->s->folds.scores[0].sum) best = count;
    count++;
  }
  if (!count) return;
  const char *headers[] = {"program", "fitted by",           "family",
                           "lambda",  "log score, held out", "difference to the best",
                           "se"};
  Table *table = table_make(&c->arena, 7, headers);
  for (size_t k = 0; k < count; k++) {
    const Compared *r = h[k].run;
    double se, d = difference(&h[k], &h[best], &se);
    table_word(table, r->s->program);
    table_word(table, method(c, r));
    table_word(table, r->s->family);
    table_number(table, r->s->lambda, 3);
    table_word(table, arena_format(&c->arena, "%.2f", r->s->folds.scores[0].sum));
    table_word(table, k == best ? "" : arena_format(&c->arena, "%+.2f", d));
    table_word(table, k == best ? "" : arena_format(&c->arena, "%.2f", se));
  }
  table_print(table, t);
  text_puts(t, "\n");
}

/* ---- parameters ------------------------------------------------------------------------------ */

static const SummaryParameter *parameter(const Compared *r, const char *name) {
  for (size_t k = 0; k < r->s->nparameters; k++)
    if (!strcmp(r->s->parameters[k].name, name)) return &r->s->parameters[k];
  return NULL;
}

/* Parameters of one program, one column of mean and one of sd per run of it. */
static void put_parameters(Ctx *c, const Compared **of, size_t count, const Options *o, Text *t) {
  const char **headers = NEW_ARRAY(&c->arena, const char *, 1 + 2 * count);
  headers[0] = of[0]->s->program;
  for (size_t r = 0; r < count; r++) {
    headers[1 + 2 * r] = arena_format(&c->arena, "%s%s %s mean", is_vi(of[r]) ? "VI" : "PVI ",
                                      is_vi(of[r]) ? "" : of[r]->s->score, of[r]->s->family);
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
  table_print(table, t);
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

static void json_form(const Compared *runs, size_t n, Text *out) {
  JsonWriter j = json_writer(out, true);
  json_object(&j);
  json_key(&j, "runs"), json_array(&j);
  for (size_t k = 0; k < n; k++) {
    const Summary *s = runs[k].s;
    json_object(&j);
    json_key(&j, "folder"), json_string(&j, runs[k].folder);
    json_key(&j, "program"), json_string(&j, s->program);
    json_key(&j, "score"), json_string(&j, s->score);
    json_key(&j, "family"), json_string(&j, s->family);
    json_key(&j, "lambda"), json_number(&j, s->lambda);
    json_key(&j, "parts"), json_object(&j);
    for (int p = 0; p < PART_COUNT; p++) {
      if (!s->parts[p].count) continue;
      json_key(&j, part_names[p]), json_object(&j);
      for (size_t i = 0; i < s->parts[p].count; i++)
        json_key(&j, s->parts[p].scores[i].name), json_number(&j, s->parts[p].scores[i].sum);
      json_key(&j, "gain"), json_number(&j, gain(baseline(runs, n, &runs[k]), &runs[k], p));
      json_object_end(&j);
    }
    json_object_end(&j);
    if (s->folds.count) {
      json_key(&j, "heldout"), json_object(&j);
      for (size_t i = 0; i < s->folds.count; i++)
        json_key(&j, s->folds.scores[i].name), json_number(&j, s->folds.scores[i].sum);
      json_object_end(&j);
    }
    json_object_end(&j);
  }
  json_array_end(&j);
  json_object_end(&j);
  text_puts(out, "\n");
}

void report_comparison(Ctx *c, const char *const *folders, size_t n, const Options *o, Text *out) {
  Compared *runs = NEW_ARRAY(&c->arena, Compared, n + 1);
  for (size_t k = 0; k < n; k++)
    runs[k] = (Compared){folders[k],
                         summary_read(c, arena_format(&c->arena, "%s/summary.json", folders[k]))};
  if (o->json) {
    json_form(runs, n, out);
    return;
  }
  put_scores(c, runs, n, out);
  put_folds(c, runs, n, out);
  put_programs(c, runs, n, o, out);
}
