/* report_predictions.c: `pvi predict`: predictions as a table or as JSON. */
#include "run/reports.h"

#include "data/json.h"
#include "report/table.h"

#include <math.h>

static void json_observation(Ctx *c, JsonWriter *j, const Predictions *p, size_t i) {
  json_object(j);
  json_key(j, "mean"), json_number(j, p->mean[i]);
  json_key(j, "sd"), json_number(j, p->sd[i]);
  json_key(j, "quantiles"), json_object(j);
  for (size_t k = 0; k < p->nlevels; k++) {
    json_key(j, arena_format(&c->arena, "%g", p->levels[k]));
    json_number(j, p->quantiles[i * p->nlevels + k]);
  }
  json_object_end(j);
  for (size_t k = 0; p->scored && k < p->scores->list.count; k++) {
    json_key(j, p->scores->list.names[k]);
    json_number(j, p->scores->by_obs[i * p->scores->list.count + k]);
  }
  if (p->noutcomes)
    json_key(j, "outcomes"), json_numbers(j, p->outcomes + i * p->noutcomes, p->noutcomes);
  json_object_end(j);
}

static void json_form(Ctx *c, const Predictions *p, Text *out) {
  JsonWriter j = json_writer(out, true);
  json_object(&j);
  json_key(&j, "observations"), json_array(&j);
  for (size_t i = 0; i < p->n; i++) json_observation(c, &j, p, i);
  json_array_end(&j);
  if (p->note) json_key(&j, "note"), json_string(&j, p->note);
  json_object_end(&j);
  text_puts(out, "\n");
}

/* Sums of the scores, once for all observations. */
static void put_totals(const Predictions *p, size_t width, Text *out) {
  const SummaryPart *part = &p->scores->parts[PART_TEST];
  text_puts(out, "\n");
  for (size_t k = 0; k < part->count; k++) {
    const SummaryScore *x = &part->scores[k];
    ScoreShown shown = score_shown(x->name);
    text_wrap(out, width, 2,
              arena_format(out->arena, "%s: sum %.6g, mean %.4g (se %.2g), %s", shown.title,
                           shown.sign * x->sum, shown.sign * x->mean, x->se, shown.better));
  }
}

/* Is any outcome of a kind whose distribution is known? */
static bool has_moments(const Predictions *p) {
  for (size_t i = 0; i < p->n; i++)
    if (!isnan(p->mean[i])) return true;
  return false;
}

/* Of counts and of zeros and ones quantiles are whole numbers. */
static bool all_whole(const Predictions *p) {
  for (size_t k = 0; k < p->n * p->nlevels; k++)
    if (!(p->quantiles[k] == rint(p->quantiles[k]) && fabs(p->quantiles[k]) < 1e15)) return false;
  return true;
}

static void put_quantile(Table *t, double x, bool whole) {
  if (whole)
    table_integer(t, (long long)x);
  else
    table_number(t, x, 4);
}

static void text_form(Ctx *c, const Predictions *p, const Options *o, Text *out) {
  bool moments = has_moments(p), whole = all_whole(p);
  size_t levels = moments ? p->nlevels : 0, n = 1;
  const char **headers = NEW_ARRAY(&c->arena, const char *, 4 + levels);
  headers[0] = "observation";
  if (moments) headers[n++] = "mean", headers[n++] = "sd";
  for (size_t k = 0; k < levels; k++)
    headers[n++] = arena_format(&c->arena, "%g%%", 100 * p->levels[k]);
  ScoreShown shown = score_shown(p->scored ? p->scores->list.names[0] : "");
  if (p->scored) headers[n++] = shown.title;
  Table *t = table_make(&c->arena, n, headers);
  for (size_t i = 0; i < p->n; i++) {
    table_integer(t, (long long)i + 1);
    if (moments) table_number(t, p->mean[i], 4), table_number(t, p->sd[i], 3);
    for (size_t k = 0; k < levels; k++) put_quantile(t, p->quantiles[i * p->nlevels + k], whole);
    if (p->scored) table_number(t, shown.sign * p->scores->by_obs[i * p->scores->list.count], 4);
  }
  table_print(t, report_width(o), out);
  if (p->scored) put_totals(p, report_width(o), out);
  if (p->note) text_wrap(out, report_width(o), 2, arena_format(&c->arena, "note: %s", p->note));
}

void report_predictions(Ctx *c, const Predictions *p, const Options *o, Text *out) {
  if (o->json)
    json_form(c, p, out);
  else
    text_form(c, p, o, out);
}
