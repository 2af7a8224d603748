/* sample_summary.c: the SampleSummary as JSON and back. A number of it is a row of a table, which
 * says under which key it stands, what it is, and where in the struct: writing and reading follow.
 */
#include "report/sample_summary.h"

#include "report/read_json.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* ---- the rows -------------------------------------------------------------------------------- */

/* MAYBE is a REAL that is left out where it is NAN. */
typedef enum { TEXT, REAL, MAYBE, COUNT, TRUTH } FieldKind;

typedef struct {
  const char *key;
  FieldKind kind;
  size_t at;
} Field;

#define AT(member) offsetof(SampleSummary, member)
static const Field head[] = {
    {"version", TEXT, AT(version)},
    {"program", TEXT, AT(program)},
    {"data", TEXT, AT(data)},
    {"seed", COUNT, AT(seed)},
    {"method", TEXT, AT(method)},
    {"chains", COUNT, AT(chains)},
    {"warmup", COUNT, AT(warmup)},
    {"draws", COUNT, AT(draws)},
    {"thin", COUNT, AT(thin)},
    {"metric", TEXT, AT(metric)},
    {"stepsize", REAL, AT(step)},
    {"trajectory", MAYBE, AT(trajectory)},
    {"jumps", MAYBE, AT(jumps)},
    {"start", TEXT, AT(start)},
    {"evaluations", COUNT, AT(evaluations)},
    {"seconds", REAL, AT(seconds)},
    {"seconds_start", REAL, AT(seconds_start)},
    {"seconds_warmup", REAL, AT(seconds_warmup)},
    {"seconds_sampling", REAL, AT(seconds_sampling)},
    {"converged", TRUTH, AT(trusted)},
    {"interrupted", TRUTH, AT(interrupted)},
    {"verdict", TEXT, AT(verdict)},
    {"n_obs", COUNT, AT(n_obs)},
    {"dim", COUNT, AT(dim)},
};
static const Field diagnostics[] = {
    {"divergences", COUNT, AT(divergences)},
    {"max_treedepth", COUNT, AT(deepest)},
    {"ebfmi", REAL, AT(bfmi)},
    {"rhat", REAL, AT(rhat)},
    {"ess_bulk", REAL, AT(ess_bulk)},
    {"ess_tail", REAL, AT(ess_tail)},
};
#undef AT
#define AT(member) offsetof(LooSummary, member)
static const Field loo[] = {
    {"elpd", REAL, AT(elpd)}, {"mean", REAL, AT(mean)},   {"se", REAL, AT(se)},
    {"n", COUNT, AT(n)},      {"p_loo", REAL, AT(p_loo)}, {"draws", COUNT, AT(draws)},
};
static const Field pareto[] = {{"max", REAL, AT(worst)}, {"above_0.7", COUNT, AT(bad)}};
#undef AT
#define OF(member) offsetof(SampledVariable, summary) + offsetof(SummaryParameter, member)
#define QUALITY(member) offsetof(SampledVariable, quality) + offsetof(DrawsQuality, member)
static const Field variable[] = {
    {"name", TEXT, OF(name)},
    {"mean", REAL, OF(mean)},
    {"sd", REAL, OF(sd)},
    {"q5", REAL, OF(q5)},
    {"q50", REAL, OF(q50)},
    {"q95", REAL, OF(q95)},
    {"ess_bulk", REAL, QUALITY(ess_bulk)},
    {"ess_tail", REAL, QUALITY(ess_tail)},
    {"rhat", REAL, QUALITY(rhat)},
    {"mcse", REAL, QUALITY(mcse)},
    {"rhat_nested", MAYBE, QUALITY(rhat_nested)},
};
#undef OF
#undef QUALITY
static const Field noncentred[] = {{"name", TEXT, offsetof(NoncentredVariable, name)},
                                   {"share", REAL, offsetof(NoncentredVariable, share)}};
#define ROWS(table) table, sizeof table / sizeof *table

/* ---- writing --------------------------------------------------------------------------------- */

static void put_field(JsonWriter *w, const Field *f, const void *of) {
  const char *x = (const char *)of + f->at;
  if (f->kind == MAYBE && isnan(*(const double *)x)) return;
  json_key(w, f->key);
  switch (f->kind) {
  case TEXT: json_string(w, *(const char *const *)x); break;
  case REAL:
  case MAYBE: json_number(w, *(const double *)x); break;
  case COUNT: json_unsigned(w, *(const size_t *)x); break;
  case TRUTH: json_bool(w, *(const bool *)x); break;
  }
}

static void put_fields(JsonWriter *w, const Field *f, size_t n, const void *of) {
  for (size_t k = 0; k < n; k++) put_field(w, &f[k], of);
}

static void put_loo(JsonWriter *w, const LooSummary *l) {
  if (!l) return;
  json_key(w, "loo"), json_object(w);
  put_fields(w, ROWS(loo), l);
  json_key(w, "pareto_k"), json_object(w);
  put_fields(w, ROWS(pareto), l);
  json_object_end(w);
  json_object_end(w);
}

static void put_noncentred(JsonWriter *w, const SampleSummary *s) {
  if (!s->nnoncentred) return;
  json_key(w, "noncentred"), json_array(w);
  for (size_t k = 0; k < s->nnoncentred; k++) {
    json_object(w);
    put_fields(w, ROWS(noncentred), &s->noncentred[k]);
    json_object_end(w);
  }
  json_array_end(w);
}

void sample_summary_json(Text *out, const SampleSummary *s) {
  JsonWriter writer = json_writer(out, true), *w = &writer;
  json_object(w);
  put_fields(w, ROWS(head), s);
  put_noncentred(w, s);
  json_key(w, "diagnostics"), json_object(w);
  put_fields(w, ROWS(diagnostics), s);
  json_object_end(w);
  summary_scores(w, s->parts);
  put_loo(w, s->loo);
  json_key(w, "parameters"), json_array(w);
  for (size_t k = 0; k < s->nvariables; k++) {
    json_object(w);
    put_fields(w, ROWS(variable), &s->variables[k]);
    json_object_end(w);
  }
  json_array_end(w);
  json_object_end(w);
  text_puts(out, "\n");
}

/* ---- reading --------------------------------------------------------------------------------- */

static void take_field(Ctx *c, const Json *j, const Field *f, void *of) {
  char *x = (char *)of + f->at;
  switch (f->kind) {
  case TEXT: *(const char **)x = read_text(c, j, f->key); break;
  case REAL: *(double *)x = read_number(c, j, f->key); break;
  case MAYBE: *(double *)x = read_maybe(c, j, f->key); break;
  case COUNT: *(size_t *)x = read_count(c, j, f->key); break;
  case TRUTH: *(bool *)x = read_truth(j, f->key); break;
  }
}

static void take_fields(Ctx *c, const Json *j, const Field *f, size_t n, void *of) {
  for (size_t k = 0; k < n; k++) take_field(c, j, &f[k], of);
}

static const LooSummary *take_loo(Ctx *c, const Json *j) {
  if (!j) return NULL;
  LooSummary *l = NEW(&c->arena, LooSummary);
  take_fields(c, j, ROWS(loo), l);
  take_fields(c, read_member(c, j, "pareto_k", JSON_OBJECT), ROWS(pareto), l);
  return l;
}

static void take_noncentred(Ctx *c, const Json *j, SampleSummary *s) {
  if (!j || j->kind != JSON_ARRAY) return;
  NoncentredVariable *v = NEW_ARRAY(&c->arena, NoncentredVariable, j->count + 1);
  for (size_t k = 0; k < j->count; k++) take_fields(c, j->items[k], ROWS(noncentred), &v[k]);
  s->noncentred = v;
  s->nnoncentred = j->count;
}

SampleSummary *sample_summary_read(Ctx *c, const char *path) {
  const Json *j = json_read_file(c, path, JSON_PLAIN);
  SampleSummary *s = NEW(&c->arena, SampleSummary);
  take_fields(c, j, ROWS(head), s);
  take_noncentred(c, json_get(j, "noncentred"), s);
  take_fields(c, read_member(c, j, "diagnostics", JSON_OBJECT), ROWS(diagnostics), s);
  read_scores(c, read_member(c, j, "scores", JSON_OBJECT), s->parts);
  s->loo = take_loo(c, json_get(j, "loo"));
  const Json *list = read_member(c, j, "parameters", JSON_ARRAY);
  SampledVariable *v = NEW_ARRAY(&c->arena, SampledVariable, list->count + 1);
  for (size_t k = 0; k < list->count; k++) {
    v[k].summary.bayes_mean = v[k].summary.bayes_sd = v[k].summary.corrected = NAN;
    take_fields(c, list->items[k], ROWS(variable), &v[k]);
  }
  s->variables = v;
  s->nvariables = list->count;
  return s;
}

/* ---- as a fit -------------------------------------------------------------------------------- */

Summary *sample_summary_plain(Ctx *c, const SampleSummary *s) {
  Summary *out = NEW(&c->arena, Summary);
  SummaryParameter *rows = NEW_ARRAY(&c->arena, SummaryParameter, s->nvariables + 1);
  for (size_t k = 0; k < s->nvariables; k++) rows[k] = s->variables[k].summary;
  *out = (Summary){.version = s->version,
                   .program = s->program,
                   .data = s->data,
                   .seed = s->seed,
                   .score = SCORE_POSTERIOR,
                   .family = "draws",
                   .lambda = NAN,
                   .optimizer = s->method,
                   .converged = s->trusted,
                   .interrupted = s->interrupted,
                   .reason = s->verdict,
                   .objective = NAN,
                   .evaluations = (long)s->evaluations,
                   .iterations = (long)(s->chains * (s->warmup + s->draws)),
                   .seconds = s->seconds,
                   .n_obs = s->n_obs,
                   .dim = s->dim,
                   .parameters = rows,
                   .nparameters = s->nvariables};
  memcpy(out->parts, s->parts, sizeof out->parts);
  return out;
}
