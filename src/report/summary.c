/* summary.c: statistics of scores and draws, and the Summary as JSON and as a table. */
#include "report/summary.h"

#include "num/stats.h"
#include "report/report.h"
#include "report/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- statistics ------------------------------------------------------------------------------ */

SummaryScore summary_score(const char *name, const double *values, size_t n) {
  double sum = 0, squares = 0;
  for (size_t k = 0; k < n; k++) sum += values[k];
  double mean = n ? sum / (double)n : NAN;
  for (size_t k = 0; k < n; k++) squares += (values[k] - mean) * (values[k] - mean);
  double se = n > 1 ? sqrt(squares / (double)(n - 1) / (double)n) : NAN;
  return (SummaryScore){name, sum, mean, se, n};
}

SummaryParameter summary_of(const char *name, double *x, size_t n) {
  static const double levels[] = {0.05, 0.5, 0.95};
  double q[3];
  SummaryScore s = summary_score(name, x, n);
  stat_quantiles(x, n, levels, 3, q);
  return (SummaryParameter){
      .name = name,
      .mean = s.mean,
      .sd = s.se * sqrt((double)n),
      .q5 = q[0],
      .q50 = q[1],
      .q95 = q[2],
      .bayes_mean = NAN,
      .bayes_sd = NAN,
      .corrected = NAN,
  };
}

SummaryParameter *summary_parameters(Ctx *c, const Draws *d, size_t n) {
  SummaryParameter *rows = NEW_ARRAY(&c->arena, SummaryParameter, n + 1);
  double *column = NEW_ARRAY(&c->arena, double, d->ndraws + 1);
  for (size_t k = 0; k < n; k++) {
    for (size_t m = 0; m < d->ndraws; m++) column[m] = d->values[m * d->ncols + k];
    rows[k] = summary_of(draws_pretty_name(&c->arena, d->names[k]), column, d->ndraws);
  }
  return rows;
}

const char *draws_pretty_name(Arena *a, const char *dotted) {
  Text t = text_make(a);
  bool open = false;
  for (const char *p = dotted; *p; p++) {
    if (*p == '.' && (p[1] == 'r' || p[1] == 'i')) { /* real and imaginary part */
      text_puts(&t, open ? "]." : ".");
      open = false;
    } else if (*p == '.') {
      text_puts(&t, open ? "," : "[");
      open = true;
    } else if (*p == ':') {
      text_puts(&t, open ? "]." : ".");
      open = false;
    } else {
      text_add(&t, p, 1);
    }
  }
  text_puts(&t, open ? "]" : "");
  return t.s;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_text(JsonWriter *w, const char *key, const char *value) {
  json_key(w, key);
  json_string(w, value);
}

static void put_real(JsonWriter *w, const char *key, double value) {
  json_key(w, key);
  json_number(w, value);
}

static void put_int(JsonWriter *w, const char *key, long long value) {
  json_key(w, key);
  json_integer(w, value);
}

static void put_part(JsonWriter *w, const char *name, const SummaryPart *part) {
  json_key(w, name);
  json_object(w);
  for (size_t k = 0; k < part->count; k++) {
    const SummaryScore *s = &part->scores[k];
    json_key(w, s->name);
    json_object(w);
    put_real(w, "sum", s->sum);
    put_real(w, "mean", s->mean);
    put_real(w, "se", s->se);
    put_int(w, "n", (long long)s->n);
    json_object_end(w);
  }
  json_object_end(w);
}

/* Cross-validated scores, and how the folds were made. */
static void put_folds(JsonWriter *w, const Summary *s) {
  if (!s->folds.count) return;
  json_key(w, "folds");
  json_object(w);
  put_text(w, "rule", s->folds_rule);
  put_part(w, "scores", &s->folds);
  json_object_end(w);
}

static void put_path(JsonWriter *w, const Summary *s) {
  if (!s->npath) return;
  json_key(w, "lambda_path");
  json_array(w);
  for (size_t k = 0; k < s->npath; k++) {
    json_object(w);
    put_text(w, "regularizer", s->path[k].prior ? "prior" : "posterior");
    put_real(w, "lambda", s->path[k].lambda);
    put_real(w, "heldout", s->path[k].sum);
    put_real(w, "gain", s->path[k].gain);
    put_real(w, "se", s->path[k].se);
    json_key(w, "chosen");
    json_bool(w, k == s->best);
    json_object_end(w);
  }
  json_array_end(w);
}

static void put_exact(JsonWriter *w, const SummaryExact *x) {
  if (!x) return;
  json_key(w, "exact_bayes");
  json_object(w);
  put_text(w, "score", x->score);
  put_real(w, "heldout", x->sum);
  put_real(w, "over_vi", x->over_vi);
  put_real(w, "over_vi_se", x->over_vi_se);
  put_real(w, "fit_over_it", x->fit);
  put_real(w, "fit_over_it_se", x->fit_se);
  put_real(w, "rhat", x->rhat);
  json_object_end(w);
}

static void put_variables(JsonWriter *w, const char *key, const SummaryFreed *v, size_t n) {
  json_key(w, key);
  json_array(w);
  for (size_t k = 0; k < n; k++) {
    json_object(w);
    put_text(w, "name", v[k].name);
    put_real(w, "gain", v[k].gain);
    put_real(w, "se", v[k].se);
    json_object_end(w);
  }
  json_array_end(w);
}

static void put_freed(JsonWriter *w, const Summary *s) {
  if (!s->verdict) return;
  put_text(w, "verdict", s->verdict);
  put_variables(w, "freed", s->freed, s->nfreed);
  put_variables(w, "tried", s->tried, s->ntried);
  json_key(w, "freeing");
  json_bool(w, s->freeing);
}

void summary_scores(JsonWriter *w, const SummaryPart *parts) {
  json_key(w, "scores");
  json_object(w);
  for (int k = 0; k < PART_COUNT; k++)
    if (parts[k].count) put_part(w, part_names[k], &parts[k]);
  json_object_end(w);
}

static void put_parameters(JsonWriter *w, const Summary *s) {
  json_key(w, "parameters");
  json_array(w);
  for (size_t k = 0; k < s->nparameters; k++) {
    const SummaryParameter *p = &s->parameters[k];
    json_object(w);
    put_text(w, "name", p->name);
    put_real(w, "mean", p->mean);
    put_real(w, "sd", p->sd);
    put_real(w, "q5", p->q5);
    put_real(w, "q50", p->q50);
    put_real(w, "q95", p->q95);
    if (!isnan(p->bayes_sd)) {
      put_real(w, "bayes_mean", p->bayes_mean);
      put_real(w, "bayes_sd", p->bayes_sd);
    }
    if (s->has_khat) put_real(w, "corrected_mean", p->corrected);
    json_object_end(w);
  }
  json_array_end(w);
}

static void put_lists(JsonWriter *w, const Summary *s) {
  json_key(w, "notes");
  json_array(w);
  for (size_t k = 0; k < s->nnotes; k++) json_string(w, s->notes[k]);
  json_array_end(w);
  json_key(w, "counters");
  json_object(w);
  for (size_t k = 0; k < s->ncounters; k++) put_int(w, s->counters[k].name, s->counters[k].value);
  json_object_end(w);
  json_key(w, "starts");
  json_array(w);
  for (size_t k = 0; k < s->nstarts; k++) {
    json_object(w);
    put_text(w, "name", s->starts[k].name);
    put_real(w, "objective", s->starts[k].objective);
    json_object_end(w);
  }
  json_array_end(w);
  json_key(w, "stages");
  json_array(w);
  for (size_t k = 0; k < s->nstages; k++) {
    json_object(w);
    put_int(w, s->exact ? "nodes" : "draws", (long long)s->stages[k].draws);
    put_real(w, "objective", s->stages[k].objective);
    put_real(w, "fresh_objective", s->stages[k].fresh);
    put_real(w, "gap", s->stages[k].gap);
    json_object_end(w);
  }
  json_array_end(w);
}

static void put_certificate(JsonWriter *w, const Summary *s) {
  json_key(w, "certificate");
  json_object(w);
  json_key(w, "limited");
  json_bool(w, s->limited);
  put_real(w, "slope_bound", s->bound_slope);
  put_real(w, "bound", s->bound_at_q);
  put_real(w, "gain_found", s->gain_found);
  put_real(w, "gain_at_most", s->gain_at_most);
  json_object_end(w);
}

void summary_json(Text *out, const Summary *s) {
  JsonWriter writer = json_writer(out, true), *w = &writer;
  json_object(w);
  put_text(w, "version", s->version);
  put_text(w, "program", s->program);
  put_text(w, "data", s->data);
  json_key(w, "seed");
  json_unsigned(w, s->seed);
  put_text(w, "score", s->score);
  put_text(w, "family", s->family);
  put_text(w, "regularizer", s->regularizer);
  put_real(w, "lambda", s->lambda);
  put_text(w, "integration", s->exact ? "exact" : "draws");
  put_int(w, "draws", s->exact ? 0 : s->draws);
  put_int(w, "nodes", s->exact ? s->draws : 0);
  put_text(w, "optimizer", s->optimizer);
  json_key(w, "converged");
  json_bool(w, s->converged);
  json_key(w, "interrupted");
  json_bool(w, s->interrupted);
  put_text(w, "reason", s->reason);
  put_real(w, "objective", s->objective);
  put_int(w, "evaluations", s->evaluations);
  put_int(w, "iterations", s->iterations);
  put_real(w, "seconds", s->seconds);
  put_int(w, "n_obs", (long long)s->n_obs);
  put_int(w, "dim", (long long)s->dim);
  summary_scores(w, s->parts);
  put_folds(w, s);
  put_path(w, s);
  put_exact(w, s->exact_bayes);
  put_freed(w, s);
  if (s->has_certificate) put_certificate(w, s);
  if (s->has_khat) put_real(w, "khat", s->khat);
  put_parameters(w, s);
  put_lists(w, s);
  json_object_end(w);
  text_puts(out, "\n");
}

void summary_write(RunDir *r, const Summary *s) {
  Text t = text_make(&r->c->arena);
  summary_json(&t, s);
  run_write(r, "summary.json", &t);
}

/* ---- q against Bayes --------------------------------------------------------------------------
 */

double summary_moved(const SummaryParameter *p) {
  if (isnan(p->bayes_mean) || !(p->bayes_sd > 0) || !(p->sd > 0)) return -1;
  return fabs(p->mean - p->bayes_mean) / p->bayes_sd + fabs(log(p->sd / p->bayes_sd));
}

const char *summary_freed_name(Arena *a, const char *name) {
  static const char common[] = "common:";
  size_t n = sizeof common - 1;
  return strncmp(name, common, n)
             ? name
             : arena_format(a, "the elements of %s by one common width", name + n);
}

/* ---- table ----------------------------------------------------------------------------------- */

/* Three digits, or as many as show two digits of the spread. */
int summary_digits(double x, double sd) {
  if (!(fabs(x) > 0 && sd > 0) || !isfinite(x) || !isfinite(sd)) return 3;
  double digits = floor(log10(fabs(x))) - floor(log10(sd)) + 2;
  return digits < 3 ? 3 : digits > 12 ? 12 : (int)digits;
}

static void plain_table(Text *out, const Summary *s, size_t n, size_t width) {
  static const char *const headers[] = {"", "mean", "sd", "5%", "50%", "95%"};
  Table *t = table_make(out->arena, 6, headers);
  for (size_t k = 0; k < n; k++) {
    const SummaryParameter *p = &s->parameters[k];
    const double columns[] = {p->mean, p->sd, p->q5, p->q50, p->q95};
    table_word(t, p->name);
    for (size_t j = 0; j < 5; j++)
      table_number(t, columns[j], j == 1 ? 3 : summary_digits(columns[j], p->sd));
  }
  table_print(t, width, out);
}

/* q beside Bayes. */
static void table_with_bayes(Text *out, const Summary *s, size_t n, size_t width) {
  static const char *const headers[] = {"", "mean", "sd", "Bayes mean", "Bayes sd", "sd ratio"};
  Table *t = table_make(out->arena, 6, headers);
  for (size_t k = 0; k < n; k++) {
    const SummaryParameter *p = &s->parameters[k];
    table_word(t, p->name);
    table_number(t, p->mean, summary_digits(p->mean, p->sd));
    table_number(t, p->sd, 3);
    table_number(t, p->bayes_mean, summary_digits(p->bayes_mean, p->bayes_sd));
    table_number(t, p->bayes_sd, 3);
    table_number(t, p->sd / p->bayes_sd, 3);
  }
  table_print(t, width, out);
}

void summary_table(Text *out, const Summary *s, size_t most, size_t width) {
  size_t n = most && most < s->nparameters ? most : s->nparameters;
  bool bayes = n && !isnan(s->parameters[0].bayes_sd);
  (bayes ? table_with_bayes : plain_table)(out, s, n, width);
  if (n < s->nparameters)
    text_printf(out, "... and %zu more (summary.json has all)\n", s->nparameters - n);
  if (bayes)
    text_wrap(out, width, 0,
              "q describes the population from which predictions are made, not what is uncertain "
              "about it: that is Bayes.");
}
