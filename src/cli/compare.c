/* compare.c: pvi compare: several run folders side by side: their scores, the gain over VI, means
 * and standard deviations. */
#include "cli/cli.h"

#include "report/table.h"

#include <math.h>
#include <string.h>

static const Command command = {"compare", "RUN RUN ... [options]",
                                "Fits of one or several programs side by side, read from their run "
                                "folders: log scores of each part, what a\n"
                                "fit gains over the mean of the ordinary VI fit (--score elbo) of "
                                "the same program, means and standard deviations.",
                                "  pvi compare pvi-runs/golf-elbo pvi-runs/golf-log\n"};

enum { MOST_RUNS = 32 };

typedef struct {
  const char *dir;
  const Json *summary;
  const char *program, *score, *family;
} Run;

static const char *word(Ctx *c, const Run *r, const char *key) {
  const Json *j = json_get(r->summary, key);
  if (!j || j->kind != JSON_STRING)
    ctx_fail(c, PVI_DATA, NOWHERE, "%s/summary.json has no \"%s\"", r->dir, key);
  return j->text;
}

static Run read_run(Ctx *c, const char *dir) {
  Run r = {.dir = dir,
           .summary =
               json_read_file(c, arena_format(&c->arena, "%s/summary.json", dir), JSON_PLAIN)};
  r.program = word(c, &r, "program");
  r.score = word(c, &r, "score");
  r.family = word(c, &r, "family");
  return r;
}

/* summary.scores.<part>.<score>.sum, or NaN */
static double score_sum(const Run *r, const char *part, const char *score) {
  const Json *s = json_get(r->summary, "scores");
  s = s ? json_get(s, part) : NULL;
  s = s ? json_get(s, score) : NULL;
  s = s ? json_get(s, "sum") : NULL;
  return s && s->kind == JSON_NUMBERS && s->n == 1 ? s->values[0] : NAN;
}

/* The first VI fit of the same program. */
static const Run *baseline(const Run *runs, int n, const Run *r) {
  for (int k = 0; k < n; k++)
    if (!strcmp(runs[k].program, r->program) && !strcmp(runs[k].score, "elbo")) return &runs[k];
  return NULL;
}

/* What a fit gains over the Bayes fit as a point, its mean: with more data Bayes collapses to it.
 */
static const char *gain(Ctx *c, const Run *base, const Run *r, const char *part) {
  if (!base) return "";
  return arena_format(&c->arena, "%+.2f",
                      score_sum(r, part, "log") - score_sum(base, part, "log_at_mean"));
}

static void print_scores(Ctx *c, const Run *runs, int n, Text *t) {
  static const char *const parts[] = {"train", "valid", "test"};
  for (int p = 0; p < 3; p++) {
    bool any = false;
    for (int k = 0; k < n; k++) any |= !isnan(score_sum(&runs[k], parts[p], "log"));
    if (!any) continue;
    Table *table = table_make(&c->arena, 6,
                              (const char *[]){"program", "fitted by", "family",
                                               arena_format(&c->arena, "log score, %s", parts[p]),
                                               "at the mean of q", "gain over VI's mean"});
    for (int k = 0; k < n; k++) {
      table_word(table, runs[k].program);
      table_word(table, !strcmp(runs[k].score, "elbo")
                            ? "VI"
                            : arena_format(&c->arena, "PVI, %s score", runs[k].score));
      table_word(table, runs[k].family);
      table_word(table, arena_format(&c->arena, "%.2f", score_sum(&runs[k], parts[p], "log")));
      table_word(table,
                 arena_format(&c->arena, "%.2f", score_sum(&runs[k], parts[p], "log_at_mean")));
      table_word(table, gain(c, baseline(runs, n, &runs[k]), &runs[k], parts[p]));
    }
    table_print(table, t);
    text_puts(t, "\n");
  }
}

static const Json *parameter(const Run *r, const char *name) {
  const Json *ps = json_get(r->summary, "parameters");
  for (size_t k = 0; ps && ps->kind == JSON_ARRAY && k < ps->count; k++) {
    const Json *id = json_get(ps->items[k], "name");
    if (id && id->kind == JSON_STRING && !strcmp(id->text, name)) return ps->items[k];
  }
  return NULL;
}

static double field(const Json *p, const char *key) {
  const Json *x = p ? json_get(p, key) : NULL;
  return x && x->kind == JSON_NUMBERS && x->n == 1 ? x->values[0] : NAN;
}

/* Parameters of one program, one column of mean and one of sd per run of it. */
static void print_parameters(Ctx *c, const Run *runs, int n, const char *program, size_t most,
                             Text *t) {
  const Run *of[MOST_RUNS];
  const char *headers[1 + 2 * MOST_RUNS] = {program};
  size_t count = 0, ncols = 1;
  for (int k = 0; k < n; k++) {
    if (strcmp(runs[k].program, program)) continue;
    const char *how =
        !strcmp(runs[k].score, "elbo") ? "VI" : arena_format(&c->arena, "PVI %s", runs[k].score);
    headers[ncols++] = arena_format(&c->arena, "%s %s mean", how, runs[k].family);
    headers[ncols++] = "sd";
    of[count++] = &runs[k];
  }
  Table *table = table_make(&c->arena, ncols, headers);
  const Json *ps = json_get(of[0]->summary, "parameters");
  size_t total = ps && ps->kind == JSON_ARRAY ? ps->count : 0;
  for (size_t k = 0; k < total && k < most; k++) {
    const Json *id = json_get(ps->items[k], "name");
    if (!id || id->kind != JSON_STRING) continue;
    table_word(table, id->text);
    for (size_t r = 0; r < count; r++) {
      const Json *p = parameter(of[r], id->text);
      table_number(table, field(p, "mean"), 4);
      table_number(table, field(p, "sd"), 3);
    }
  }
  table_print(table, t);
  if (total > most) text_printf(t, "(%zu more)\n", total - most);
  text_puts(t, "\n");
}

Status cmd_compare(Ctx *c, int argc, char **argv) {
  const char *place[MOST_RUNS];
  long most = 20;
  const Option options[] = {{"parameters", OPT_INT, "N", &most, 0,
                             "at most so many parameters per program (default 20)"}};
  if (!cli_options(c, &command, options, 1, argc, argv, place, 1, MOST_RUNS)) return PVI_OK;
  Run runs[MOST_RUNS];
  int n = 0;
  for (; n < MOST_RUNS && place[n]; n++) runs[n] = read_run(c, place[n]);
  Text t = text_make(&c->arena);
  print_scores(c, runs, n, &t);
  for (int k = 0; most && k < n; k++) {
    bool first = true;
    for (int j = 0; j < k; j++) first &= strcmp(runs[j].program, runs[k].program) != 0;
    if (first) print_parameters(c, runs, n, runs[k].program, (size_t)most, &t);
  }
  fputs(t.s, stdout);
  return PVI_OK;
}
