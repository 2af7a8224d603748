/* report_diagnosis.c: `pvi diagnose`: which variables vary, as a table and in words. */
#include "run/pages.h"
#include "run/diagnose.h"
#include "run/exact_bayes.h"
#include "run/reports.h"

#include "data/json.h"
#include "report/table.h"

#include <math.h>
#include <string.h>

static void put_json(const Diagnosis *d, Text *out) {
  JsonWriter j = json_writer(out, false);
  json_object(&j);
  json_key(&j, "variables"), json_array(&j);
  for (size_t k = 0; k < d->n; k++) {
    const Diagnosed *v = &d->variables[k];
    json_object(&j);
    json_key(&j, "name"), json_string(&j, v->name);
    json_key(&j, "gain"), json_number(&j, v->gain);
    json_key(&j, "se"), json_number(&j, v->se);
    json_key(&j, "gain_in_sample"), json_number(&j, v->inside);
    json_key(&j, "p"), json_number(&j, v->p);
    json_key(&j, "p_adjusted"), json_number(&j, v->adjusted);
    json_key(&j, "varies"), json_bool(&j, v->varies);
    json_key(&j, "sd"), json_number(&j, v->sd);
    json_key(&j, "sd_se"), json_number(&j, v->sd_se);
    json_key(&j, "bayes_sd"), json_number(&j, v->bayes_sd);
    if (v->explained) {
      json_key(&j, "goes_with"), json_string(&j, v->explained);
      json_key(&j, "share"), json_number(&j, v->share);
    }
    json_object_end(&j);
  }
  json_array_end(&j);
  json_key(&j, "expansions"), json_array(&j);
  for (size_t k = 0; k < d->nexpanded; k++) {
    const Expanded *e = &d->expanded[k];
    json_object(&j);
    json_key(&j, "variable"), json_string(&j, e->variable);
    json_key(&j, "what"), json_string(&j, e->what);
    json_key(&j, "gain"), json_number(&j, e->gain);
    json_key(&j, "se"), json_number(&j, e->se);
    json_key(&j, "program"), json_string(&j, e->text);
    json_object_end(&j);
  }
  json_array_end(&j);
  if (d->exact) {
    json_key(&j, "exact_bayes"), json_object(&j);
    json_key(&j, "score"), json_string(&j, d->exact->score);
    json_key(&j, "heldout"), json_number(&j, d->exact->sum);
    json_key(&j, "over_vi"), json_number(&j, d->exact->over_vi);
    json_key(&j, "over_vi_se"), json_number(&j, d->exact->over_vi_se);
    json_key(&j, "rhat"), json_number(&j, d->exact->rhat);
    json_object_end(&j);
  }
  json_key(&j, "simulations"), json_integer(&j, (long long)d->simulations);
  json_key(&j, "verdict"), json_string(&j, d->verdict);
  json_object_end(&j);
  text_puts(out, "\n");
}

static void put_table(Ctx *c, const Diagnosis *d, size_t width, Text *out) {
  static const char *const headers[] = {
      "freed alone", "gain held out", "se",    "gain in sample", "p", "sd",
      "se",          "Bayes sd",      "varies"};
  Table *t = table_make(&c->arena, sizeof headers / sizeof *headers, headers);
  for (size_t k = 0; k < d->n; k++) {
    const Diagnosed *v = &d->variables[k];
    table_word(t, v->name);
    table_number(t, v->gain, 3);
    table_number(t, v->se, 2);
    table_number(t, v->inside, 3);
    table_word(t, isnan(v->adjusted) ? "-" : arena_format(&c->arena, "%.3f", v->adjusted));
    table_number(t, v->sd, 3);
    table_word(t, isnan(v->sd_se) ? "-" : arena_format(&c->arena, "%.2g", v->sd_se));
    table_number(t, v->bayes_sd, 3);
    table_word(t, v->varies ? "yes" : "");
  }
  table_print(t, width, out);
}

/* What to try next; every suggestion was fitted. */
static void put_expansions(Ctx *c, const Diagnosis *d, size_t width, Text *out) {
  for (size_t k = 0; k < d->nexpanded; k++) {
    const Expanded *e = &d->expanded[k];
    text_puts(out, "\n");
    text_wrap(out, width, 2,
              arena_format(&c->arena,
                           "larger program for %s: %s. %s Its new lines (%sjson has the whole "
                           "program):",
                           e->variable, e->what, expanded_words(&c->arena, e),
                           c->option_prefix ? c->option_prefix : ""));
    for (const char *line = e->changes; *line;) {
      const char *end = strchr(line, '\n');
      text_printf(out, "    %.*s\n", (int)(end - line), line);
      line = end + 1;
    }
  }
}

/* The page, and its name. */
static const char *write_page(Ctx *c, const Problem *p, const Diagnosis *d, const Options *o) {
  const char *path = o->page ? o->page : arena_format(&c->arena, "%s-diagnosis.html", p->name);
  Page *page = page_begin(c, "pvi diagnose", o->plots);
  page_diagnosis(page, d, p);
  page_command(page,
               arena_format(&c->arena, "pvi diagnose %s %s", p->program_origin.shown,
                            p->data_origin.shown ? p->data_origin.shown : ""),
               o);
  page_end(page, path);
  return path;
}

void report_diagnosis(Ctx *c, const Problem *p, const Options *o, const RunHooks *h, Text *out) {
  const Diagnosis *d = diagnose(c, p, o, h);
  size_t width = report_width(o);
  const char *page = o->report || o->page || o->plots ? write_page(c, p, d, o) : NULL;
  if (o->json) {
    put_json(d, out);
    return;
  }
  put_table(c, d, width, out);
  text_puts(out, "\n");
  if (d->simulations)
    text_wrap(
        out, width, 0,
        arena_format(&c->arena,
                     "p: how often the most conspicuous gain in sample is as large where nothing "
                     "varies, by %zu data sets "
                     "that were simulated from the Bayes fit. sds are on the unconstrained scale.",
                     d->simulations));
  text_wrap(out, width, 0, arena_format(&c->arena, "verdict: %s.", d->verdict));
  if (d->exact) text_wrap(out, width, 2, arena_format(&c->arena, "%s.", exact_words(c, d->exact)));
  for (size_t k = 0; k < d->n; k++) {
    const char *words = diagnosed_words(&c->arena, &d->variables[k]);
    if (words) text_wrap(out, width, 2, words);
  }
  put_expansions(c, d, width, out);
  if (page) text_printf(out, "\nreport: %s\n", page);
}
