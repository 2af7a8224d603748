/* report_sample.c: what `pvi sample` prints and writes: the summary as text and JSON, the draws as
 * CmdStan's files. */
#include "run/reports.h"
#include "run/sampling.h"

#include "report/table.h"

#include <math.h>
#include <string.h>

/* ---- text ------------------------------------------------------------------------------------ */

static void put_head(Ctx *c, const SampleSummary *s, size_t width, Text *out) {
  text_wrap(out, width, 2, sample_course(c, s));
  if (s->interrupted) text_wrap(out, width, 2, "INTERRUPTED: these are the draws so far");
  text_wrap(out, width, 2,
            arena_format(&c->arena, "%s%s", s->trusted ? "" : "CAUTION: ", s->verdict));
  text_puts(out, "\n");
}

static void put_table(const SampleSummary *s, size_t most, size_t width, Text *out) {
  static const char *const headers[] = {"",    "mean", "mcse", "sd",       "5%",
                                        "50%", "95%",  "ESS",  "ESS tail", "R-hat"};
  Table *t = table_make(out->arena, 10, headers);
  size_t n = s->nvariables, shown = most && most < n ? most : n;
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

static void put_scores(Ctx *c, const SampleSummary *s, size_t width, Text *out) {
  Summary parts = {.n_obs = s->n_obs};
  memcpy(parts.parts, s->parts, sizeof parts.parts);
  text_puts(out, "\n");
  report_scores(c, &parts, width, out);
  if (s->loo) text_wrap(out, width, 2, sample_loo_words(c, s->loo));
}

/* "; eps and alpha (0.6) non-centred": with the share where it is not the whole. */
static const char *noncentred_words(Ctx *c, const SampleSummary *s) {
  Text t = text_make(&c->arena);
  text_puts(&t, "");
  for (size_t k = 0; k < s->nnoncentred; k++) {
    const NoncentredVariable *v = &s->noncentred[k];
    text_printf(&t, "%s%s", !k ? "; " : k + 1 == s->nnoncentred ? " and " : ", ", v->name);
    if (v->share < 0.95) text_printf(&t, " (%.2g)", v->share);
  }
  if (s->nnoncentred) text_puts(&t, " sampled non-centred");
  return t.s;
}

const char *sample_course(Ctx *c, const SampleSummary *s) {
  return arena_format(
      &c->arena,
      "the posterior by %s%s: %zu chain%s of %zu draws after %zu of warm-up, begun at %s%s; "
      "%zu gradients in %.2f s",
      s->method,
      isnan(s->jumps) ? "" : arena_format(&c->arena, " (%.0f jumps a trajectory)", s->jumps),
      s->chains, s->chains == 1 ? "" : "s", s->draws, s->warmup, s->start, noncentred_words(c, s),
      s->evaluations, s->seconds);
}

const char *sample_loo_words(Ctx *c, const LooSummary *l) {
  const char *trust =
      l->bad ? arena_format(&c->arena,
                            "%zu of %zu observations have a Pareto k above 0.7 (at most %.2f): "
                            "their scores are not to be trusted, hold them out instead",
                            l->bad, l->n, l->worst)
             : "every Pareto k is below 0.7";
  return arena_format(&c->arena,
                      "leave-one-out log score (PSIS-LOO): %.6g, standard error %.2g; %s", l->elpd,
                      l->se, trust);
}

/* The wanted variables alone, in the order of the table. */
static SampleSummary chosen(Ctx *c, const SampleSummary *s, const Options *o) {
  SampleSummary out = *s;
  const char **names = NEW_ARRAY(&c->arena, const char *, s->nvariables + 1);
  for (size_t k = 0; k < s->nvariables; k++) names[k] = s->variables[k].summary.name;
  const size_t *rows = report_choose(c, names, s->nvariables, o, &out.nvariables);
  SampledVariable *v = NEW_ARRAY(&c->arena, SampledVariable, out.nvariables + 1);
  for (size_t k = 0; k < out.nvariables; k++) v[k] = s->variables[rows[k]];
  out.variables = v;
  return out;
}

void report_sample(Ctx *c, const SampleSummary *s, const char *folder, const Options *o,
                   Text *out) {
  Options asked = *o;
  if (o->json) asked.most = 0; /* machines get all of them in their order */
  const SampleSummary shown = chosen(c, s, &asked);
  if (o->json) {
    sample_summary_json(out, &shown);
    return;
  }
  put_head(c, s, report_width(o), out);
  put_table(&shown, (size_t)o->most, report_width(o), out);
  put_scores(c, s, report_width(o), out);
  if (folder) text_printf(out, "\nrun folder: %s\n", folder);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Readers expect a few chains, each in a file. Up to 8 have their own; more are in four files, one
 * chain behind the other. */
static size_t files_of(const SampleRun *s) {
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
  size_t files = files_of(s), dim = x->dim;
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
  sample_summary_json(&t, &s->summary);
  run_write(d, "summary.json", &t);
}
