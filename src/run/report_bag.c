/* report_bag.c: `pvi bag`: the bagged posterior beside Bayes, as a table and in words. */
#include "run/bag.h"
#include "run/reports.h"

#include "data/json.h"
#include "report/table.h"

#include <math.h>

static void put_json(const Bag *b, Text *out) {
  JsonWriter j = json_writer(out, true);
  json_object(&j);
  json_key(&j, "family"), json_string(&j, b->family);
  json_key(&j, "bags"), json_integer(&j, (long long)b->bags);
  json_key(&j, "unconverged"), json_integer(&j, (long long)b->unconverged);
  json_key(&j, "parameters"), json_array(&j);
  for (size_t k = 0; k < b->ncols; k++) {
    json_object(&j);
    json_key(&j, "name"), json_string(&j, b->bayes[k].name);
    json_key(&j, "mean"), json_number(&j, b->bagged[k].mean);
    json_key(&j, "sd"), json_number(&j, b->bagged[k].sd);
    json_key(&j, "bayes_mean"), json_number(&j, b->bayes[k].mean);
    json_key(&j, "bayes_sd"), json_number(&j, b->bayes[k].sd);
    json_key(&j, "mismatch"), json_number(&j, b->index[k]);
    json_object_end(&j);
  }
  json_array_end(&j);
  json_object_end(&j);
  text_puts(out, "\n");
}

static void put_table(Ctx *c, const Bag *b, size_t width, Text *out) {
  static const char *const headers[] = {"",           "bagged mean", "sd",
                                        "Bayes mean", "Bayes sd",    "mismatch"};
  Table *t = table_make(&c->arena, 6, headers);
  for (size_t k = 0; k < b->ncols; k++) {
    table_word(t, b->bayes[k].name);
    table_number(t, b->bagged[k].mean, summary_digits(b->bagged[k].mean, b->bagged[k].sd));
    table_number(t, b->bagged[k].sd, 3);
    table_number(t, b->bayes[k].mean, summary_digits(b->bayes[k].mean, b->bayes[k].sd));
    table_number(t, b->bayes[k].sd, 3);
    table_number(t, b->index[k], 2);
  }
  table_print(t, width, out);
}

void report_bag(Ctx *c, const Problem *p, const Options *o, const RunHooks *h, Text *out) {
  const Bag *b = bag_fit(c, p, o, h);
  if (o->json) {
    put_json(b, out);
    return;
  }
  const char *failed =
      b->unconverged ? arena_format(&c->arena, "; %zu fits did not converge", b->unconverged) : "";
  text_wrap(out, report_width(o), 2,
            arena_format(&c->arena,
                         "BayesBag: %zu data sets drawn with replacement, VI (%s) of each%s",
                         b->bags, b->family, failed));
  text_puts(out, "\n");
  put_table(c, b, report_width(o), out);
  text_wrap(out, report_width(o), 0,
            "mismatch is 1 - 2 (Bayes sd / bagged sd)^2: about 0 where the program fits, towards 1 "
            "the more its posterior is too sure of the parameter.");
}
