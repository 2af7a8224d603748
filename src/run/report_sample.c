/* report_sample.c: what `pvi sample` prints and writes: the summary as text and JSON, the draws as
 * CmdStan's files. */
#include "run/reports.h"
#include "run/sampling.h"

#include "data/json.h"
#include "report/table.h"

#include <math.h>
#include <string.h>

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_text(JsonWriter *w, const char *key, const char *x) {
  json_key(w, key), json_string(w, x);
}
static void put_real(JsonWriter *w, const char *key, double x) {
  json_key(w, key), json_number(w, x);
}
static void put_count(JsonWriter *w, const char *key, size_t x) {
  json_key(w, key), json_integer(w, (long long)x);
}
static void put_bool(JsonWriter *w, const char *key, bool x) { json_key(w, key), json_bool(w, x); }

static void put_variable(JsonWriter *w, const SampledVariable *v) {
  json_object(w);
  put_text(w, "name", v->summary.name);
  put_real(w, "mean", v->summary.mean);
  put_real(w, "sd", v->summary.sd);
  put_real(w, "q5", v->summary.q5);
  put_real(w, "q50", v->summary.q50);
  put_real(w, "q95", v->summary.q95);
  put_real(w, "ess_bulk", v->quality.ess_bulk);
  put_real(w, "ess_tail", v->quality.ess_tail);
  put_real(w, "rhat", v->quality.rhat);
  put_real(w, "mcse", v->quality.mcse);
  if (!isnan(v->quality.rhat_nested)) put_real(w, "rhat_nested", v->quality.rhat_nested);
  json_object_end(w);
}

static void put_diagnostics(JsonWriter *w, const SampleRun *s) {
  const SampleVerdict *v = &s->verdict;
  json_key(w, "diagnostics"), json_object(w);
  put_count(w, "divergences", v->divergences);
  put_count(w, "max_treedepth", v->deepest);
  put_real(w, "ebfmi", v->bfmi);
  put_real(w, "rhat", v->rhat);
  put_real(w, "ess_bulk", v->ess_bulk);
  put_real(w, "ess_tail", v->ess_tail);
  json_object_end(w);
}

static void put_course(JsonWriter *w, const SampleRun *s) {
  const Sample *x = s->sample;
  put_text(w, "method", sampler_name(x->method));
  put_count(w, "chains", x->chains);
  put_count(w, "warmup", x->warmup);
  put_count(w, "draws", x->draws);
  put_count(w, "thin", s->thin);
  put_text(w, "metric", x->metric.dense ? "dense" : "diag");
  put_real(w, "stepsize", x->step);
  if (x->method == SAMPLER_chees) put_real(w, "trajectory", x->trajectory);
  put_text(w, "start", s->start);
  put_count(w, "evaluations", (size_t)x->evaluations);
  put_real(w, "seconds", s->seconds);
  put_real(w, "seconds_start", s->seconds_start);
  put_real(w, "seconds_warmup", x->seconds_warmup);
  put_real(w, "seconds_sampling", x->seconds_sampling);
}

static void put_loo(JsonWriter *w, const SampleRun *s) {
  const SampleLoo *l = s->loo;
  if (!l) return;
  json_key(w, "loo"), json_object(w);
  put_real(w, "elpd", l->sum.sum);
  put_real(w, "mean", l->sum.mean);
  put_real(w, "se", l->sum.se * (double)l->sum.n);
  put_count(w, "n", l->sum.n);
  put_real(w, "p_loo", s->run->scores->parts[PART_TRAIN].scores[0].sum - l->sum.sum);
  put_count(w, "draws", l->draws);
  json_key(w, "pareto_k"), json_object(w);
  put_real(w, "max", l->worst);
  put_count(w, "above_0.7", l->bad);
  json_object_end(w);
  json_object_end(w);
}

static void sample_json(const SampleRun *s, Text *out) {
  const Run *r = s->run;
  JsonWriter writer = json_writer(out, true), *w = &writer;
  json_object(w);
  put_text(w, "version", PVI_VERSION);
  put_text(w, "program", r->program_origin.shown);
  put_text(w, "data", r->data_origin.shown);
  json_key(w, "seed"), json_unsigned(w, (uint64_t)r->o->seed);
  put_course(w, s);
  put_bool(w, "converged", s->verdict.trusted);
  put_bool(w, "interrupted", s->sample->interrupted);
  put_text(w, "verdict", s->verdict.verdict);
  put_diagnostics(w, s);
  put_count(w, "n_obs", r->problem->model->n_obs);
  put_count(w, "dim", s->sample->dim);
  summary_scores(w, r->scores->parts);
  put_loo(w, s);
  json_key(w, "parameters"), json_array(w);
  for (size_t k = 0; k < s->kept->ncols; k++) put_variable(w, &s->variables[k]);
  json_array_end(w);
  json_object_end(w);
  text_puts(out, "\n");
}

/* ---- text ------------------------------------------------------------------------------------ */

static void put_head(Ctx *c, const SampleRun *s, size_t width, Text *out) {
  const Sample *x = s->sample;
  text_wrap(out, width, 2,
            arena_format(
                &c->arena,
                "the posterior by %s: %zu chain%s of %zu draws after %zu of warm-up, begun at %s; "
                "%ld gradients in %.2f s",
                sampler_name(x->method), x->chains, x->chains == 1 ? "" : "s", x->draws, x->warmup,
                s->start, x->evaluations, s->seconds));
  if (x->interrupted) text_wrap(out, width, 2, "INTERRUPTED: these are the draws so far");
  text_wrap(
      out, width, 2,
      arena_format(&c->arena, "%s%s", s->verdict.trusted ? "" : "CAUTION: ", s->verdict.verdict));
  text_puts(out, "\n");
}

static void put_table(const SampleRun *s, size_t most, size_t width, Text *out) {
  static const char *const headers[] = {"",    "mean", "mcse", "sd",       "5%",
                                        "50%", "95%",  "ESS",  "ESS tail", "R-hat"};
  Table *t = table_make(out->arena, 10, headers);
  size_t n = s->kept->ncols, shown = most && most < n ? most : n;
  for (size_t k = 0; k < shown; k++) {
    const SummaryParameter *p = &s->variables[k].summary;
    const DrawsQuality *q = &s->variables[k].quality;
    table_word(t, p->name);
    table_number(t, p->mean, summary_digits(p->mean, p->sd));
    table_number(t, q->mcse, 2);
    table_number(t, p->sd, 3);
    table_number(t, p->q5, summary_digits(p->q5, p->sd));
    table_number(t, p->q50, summary_digits(p->q50, p->sd));
    table_number(t, p->q95, summary_digits(p->q95, p->sd));
    table_number(t, round(q->ess_bulk), 3);
    table_number(t, round(q->ess_tail), 3);
    table_number(t, q->rhat, 4);
  }
  table_print(t, width, out);
  if (shown < n) text_printf(out, "... and %zu more (summary.json has all)\n", n - shown);
}

static void put_scores(Ctx *c, const SampleRun *s, size_t width, Text *out) {
  Summary parts = {.n_obs = s->run->problem->model->n_obs};
  memcpy(parts.parts, s->run->scores->parts, sizeof parts.parts);
  text_puts(out, "\n");
  report_scores(c, &parts, width, out);
  const SampleLoo *l = s->loo;
  if (!l) return;
  const char *trust =
      l->bad ? arena_format(&c->arena,
                            "%zu of %zu observations have a Pareto k above 0.7 (at most %.2f): "
                            "their scores are not to be trusted, hold them out instead",
                            l->bad, l->sum.n, l->worst)
             : "every Pareto k is below 0.7";
  text_wrap(out, width, 2,
            arena_format(&c->arena,
                         "leave-one-out log score (PSIS-LOO): %.6g, standard error %.2g; %s",
                         l->sum.sum, l->sum.se * (double)l->sum.n, trust));
}

void report_sample(Ctx *c, const SampleRun *s, const Options *o, Text *out) {
  if (o->json) {
    sample_json(s, out);
    return;
  }
  put_head(c, s, report_width(o), out);
  put_table(s, (size_t)o->most, report_width(o), out);
  put_scores(c, s, report_width(o), out);
  if (s->run->folder) text_printf(out, "\nrun folder: %s\n", s->run->folder);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Readers expect a few chains, each in a file. Up to 8 have their own; more are in four files, one
 * chain behind the other. */
size_t sample_files(const SampleRun *s) {
  return s->sample->chains <= SAMPLE_FILES ? s->sample->chains : 4;
}

/* The draws of file k: those of the chains [from, to). */
static Draws part_of(Ctx *c, const SampleRun *s, size_t from, size_t to) {
  Draws d = *s->kept;
  size_t first = from * s->draws;
  DrawsColumn *columns = NEW_ARRAY(&c->arena, DrawsColumn, d.ncolumns);
  for (size_t k = 0; k < d.ncolumns; k++)
    columns[k] = (DrawsColumn){d.columns[k].name, d.columns[k].values + first};
  d.ndraws = (to - from) * s->draws;
  d.values += first * d.ncols;
  d.log_p += first;
  d.columns = columns;
  return d;
}

static void write_draws(Ctx *c, RunDir *dir, const SampleRun *s) {
  const Sample *x = s->sample;
  size_t files = sample_files(s), dim = x->dim;
  double *cov = NEW_ARRAY(&c->arena, double, (x->metric.dense ? dim * dim : dim) + 1);
  metric_covariance(&x->metric, cov);
  for (size_t k = 0; k < files; k++) {
    size_t from = x->chains * k / files, to = x->chains * (k + 1) / files;
    Draws d = part_of(c, s, from, to);
    ReportKey keys[] = {{"pvi_method", sampler_name(x->method)},
                        {"pvi_chains", arena_format(&c->arena, "%zu", to - from)}};
    CmdstanRun run = {.model = arena_format(&c->arena, "%s_model", s->run->problem->name),
                      .data_file = s->run->data_origin.shown,
                      .seed = (uint64_t)s->run->o->seed,
                      .id = (int)k + 1,
                      .keys = keys,
                      .nkeys = 2,
                      .metric_type = x->metric.dense ? "dense_e" : "diag_e",
                      .inv_metric = cov,
                      .ninv_metric = dim};
    CmdstanSample sample = {.num_warmup = x->warmup,
                            .num_samples = d.ndraws * s->thin,
                            .thin = (long)s->thin,
                            .delta = x->accept,
                            .stepsize = x->step,
                            .seconds_warmup = x->seconds_warmup,
                            .seconds_sampling = x->seconds_sampling};
    cmdstan_write_sample(dir, arena_format(&c->arena, "draws_%zu", k + 1), &d, &run, &sample);
  }
}

/* Every score of every observation and, of those trained on, the leave-one-out score and its k. */
static void write_scores(Ctx *c, RunDir *d, const SampleRun *s) {
  const Scores *x = s->run->scores;
  size_t n = x->list.count, each = s->loo ? n + 2 : n;
  const char **names = NEW_ARRAY(&c->arena, const char *, n + 2);
  double *values = NEW_ARRAY(&c->arena, double, x->n_obs *each + 1);
  for (size_t k = 0; k < n; k++) names[k] = x->list.names[k];
  names[n] = "loo";
  names[n + 1] = "pareto_k";
  for (size_t i = 0; i < x->n_obs; i++) {
    memcpy(values + i * each, x->by_obs + i * n, n * sizeof *values);
    if (s->loo) values[i * each + n] = s->loo->score[i], values[i * each + n + 1] = s->loo->k[i];
  }
  folder_write_scores(c, d, s->run,
                      &(ScoreTable){.nscores = each, .names = names, .values = values});
}

void sample_write(Ctx *c, RunDir *d, const SampleRun *s) {
  Text t = text_make(&c->arena);
  write_draws(c, d, s);
  write_scores(c, d, s);
  sample_json(s, &t);
  run_write(d, "summary.json", &t);
}
