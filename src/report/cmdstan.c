/* cmdstan.c: draws as CmdStan writes them, so that CmdStanR, CmdStanPy, ArviZ and posterior read
 * them unchanged.
 *
 * CmdStan tells a run's settings twice: as nested comments at the head of the CSV, and as nested
 * objects in base_config.json. Here a setting is one call (`setting_*`) that writes both. Own
 * settings come last and at the top level; readers keep them as metadata.
 */
#include "data/json.h"
#include "data/number.h"
#include "report/report.h"

#include <math.h>
#include <string.h>

/* ---- settings, to comments and JSON at once -------------------------------------------------- */

typedef struct {
  Text comments, json;
  JsonWriter w;
  int depth; /* of the comments: two spaces each */
} Settings;

static void comment(Settings *s, const char *key, const char *value, bool is_default) {
  text_printf(&s->comments, "# %*s%s", 2 * s->depth, "", key);
  if (value) {
    text_puts(&s->comments, " = ");
    for (; *value; value++)
      text_add(&s->comments, *value == '\n' || *value == '\r' ? " " : value,
               1); /* one setting, one line */
    text_puts(&s->comments, is_default ? " (Default)" : "");
  }
  text_puts(&s->comments, "\n");
}

static void setting_text(Settings *s, const char *key, const char *value, const char *standard) {
  comment(s, key, value, standard && strcmp(value, standard) == 0);
  json_key(&s->w, key);
  json_string(&s->w, value);
}

static void setting_int(Settings *s, const char *key, long long value, long long standard) {
  comment(s, key, arena_format(s->comments.arena, "%lld", value), value == standard);
  json_key(&s->w, key);
  json_integer(&s->w, value);
}

static void setting_real(Settings *s, const char *key, double value, double standard) {
  char text[NUMBER_CHARS];
  number_write(text, value);
  comment(s, key, text, value == standard);
  json_key(&s->w, key);
  json_number(&s->w, value);
}

static void setting_bool(Settings *s, const char *key, bool value, bool standard) {
  comment(s, key, value ? "1" : "0", value == standard);
  json_key(&s->w, key);
  json_bool(&s->w, value);
}

static void group(Settings *s, const char *key) {
  comment(s, key, NULL, false);
  json_key(&s->w, key);
  json_object(&s->w);
  s->depth++;
}

static void group_end(Settings *s) {
  json_object_end(&s->w);
  s->depth--;
}

/* key = value, and below it the settings of that value: {"key": {"value": value, value: {...}}} */
static void choice(Settings *s, const char *key, const char *value, const char *standard) {
  comment(s, key, value, standard && strcmp(value, standard) == 0);
  json_key(&s->w, key);
  json_object(&s->w);
  json_key(&s->w, "value");
  json_string(&s->w, value);
  s->depth++;
  group(s, value);
}

static void choice_end(Settings *s) {
  group_end(s);
  group_end(s);
}

/* ---- what all methods share ------------------------------------------------------------------ */

/* The version whose transforms and formats we follow. */
static const struct {
  const char *comment, *json, *value;
} version[] = {
    {"stan_version_major", "stan_major_version", "2"},
    {"stan_version_minor", "stan_minor_version", "33"},
    {"stan_version_patch", "stan_patch_version", "0"},
};

static Settings *settings_begin(RunDir *r, const CmdstanRun *run) {
  Settings *s = NEW(&r->c->arena, Settings);
  s->comments = text_make(&r->c->arena);
  s->json = text_make(&r->c->arena);
  s->w = json_writer(&s->json, true);
  json_object(&s->w);
  for (size_t k = 0; k < sizeof version / sizeof *version; k++) {
    comment(s, version[k].comment, version[k].value, false);
    json_key(&s->w, version[k].json);
    json_string(&s->w, version[k].value);
  }
  comment(s, "model", run->model, false);
  json_key(&s->w, "model_name");
  json_string(&s->w, run->model);
  if (run->start) setting_text(s, "start_datetime", run->start, NULL);
  return s;
}

static void common_settings(Settings *s, const CmdstanRun *run, const char *csv) {
  setting_int(s, "id", run->id ? run->id : 1, 1);
  group(s, "data");
  setting_text(s, "file", run->data_file ? run->data_file : "", "");
  group_end(s);
  setting_text(s, "init", "2", "2");
  group(s, "random");
  comment(s, "seed", arena_format(s->comments.arena, "%llu", (unsigned long long)run->seed), false);
  json_key(&s->w, "seed");
  json_unsigned(&s->w, run->seed);
  group_end(s);
  group(s, "output");
  setting_text(s, "file", csv, NULL);
  setting_text(s, "diagnostic_file", "", "");
  setting_int(s, "refresh", 100, 100);
  setting_int(s, "sig_figs", -1, -1);
  setting_text(s, "profile_file", "profile.csv", "profile.csv");
  group_end(s);
  setting_int(s, "num_threads", 1, 1);
  for (size_t k = 0; k < run->nkeys; k++)
    setting_text(s, run->keys[k].key, run->keys[k].value, NULL);
  json_object_end(&s->w);
  text_puts(&s->json, "\n");
}

static void put_values(OutFile *f, const double *x, size_t n, const char *separator) {
  for (size_t k = 0; k < n; k++) {
    if (k) file_puts(f, separator);
    file_number(f, x[k]);
  }
}

/* log_lik under a q that is no posterior would mislead loo(); it keeps its values under another
 * name. */
static void put_name(OutFile *f, const char *name, bool predictive) {
  size_t n = strlen("log_lik");
  bool rename = predictive && strncmp(name, "log_lik", n) == 0 &&
                (name[n] == 0 || name[n] == '.' || name[n] == ':');
  if (rename) {
    file_puts(f, "log_lik_q");
    name += n;
  }
  file_puts(f, name);
}

static void put_names(OutFile *f, const Draws *d, bool predictive) {
  for (size_t k = 0; k < d->ncols; k++) {
    file_puts(f, ",");
    put_name(f, d->names[k], predictive);
  }
  file_puts(f, "\n");
}

static void put_row(OutFile *f, const double *x, size_t n) {
  if (n) file_puts(f, ",");
  put_values(f, x, n, ",");
  file_puts(f, "\n");
}

static void write_metric(RunDir *r, const char *base, const CmdstanRun *run, double stepsize) {
  if (!run->inv_metric) return;
  bool dense = run->metric_type && strcmp(run->metric_type, "dense_e") == 0;
  Text t = text_make(&r->c->arena);
  JsonWriter w = json_writer(&t, true);
  json_object(&w);
  json_key(&w, "stepsize");
  json_number(&w, stepsize);
  json_key(&w, "metric_type");
  json_string(&w, dense ? "dense_e" : "diag_e");
  json_key(&w, "inv_metric");
  size_t n = run->ninv_metric;
  if (dense) json_array(&w);
  for (size_t k = 0; k < (dense ? n : 1); k++) json_numbers(&w, run->inv_metric + k * n, n);
  if (dense) json_array_end(&w);
  json_object_end(&w);
  text_puts(&t, "\n");
  run_write(r, arena_format(&r->c->arena, "%s_metric.json", base), &t);
}

static void write_sidecars(RunDir *r, const char *base, const CmdstanRun *run, const Settings *s,
                           double stepsize) {
  run_write(r, arena_format(&r->c->arena, "%s_config.json", base), &s->json);
  write_metric(r, base, run, stepsize);
}

/* ---- variational ----------------------------------------------------------------------------- */

static void variational_settings(Settings *s, const CmdstanVariational *v, size_t ndraws) {
  choice(s, "method", "variational", NULL);
  choice(s, "algorithm", v->algorithm, "meanfield");
  choice_end(s);
  setting_int(s, "iter", v->iter ? v->iter : 10000, 10000);
  setting_int(s, "grad_samples", v->grad_samples ? v->grad_samples : 1, 1);
  setting_int(s, "elbo_samples", v->elbo_samples ? v->elbo_samples : 100, 100);
  setting_real(s, "eta", v->eta != 0 ? v->eta : 1, 1);
  group(s, "adapt");
  setting_bool(s, "engaged", true, true);
  setting_int(s, "iter", 50, 50);
  group_end(s);
  setting_real(s, "tol_rel_obj", v->tol_rel_obj != 0 ? v->tol_rel_obj : 0.01, 0.01);
  setting_int(s, "eval_elbo", v->eval_elbo ? v->eval_elbo : 100, 100);
  setting_int(s, "output_samples", (long long)ndraws, 1000);
  choice_end(s);
}

static const double *mean_of(Ctx *c, const Draws *d) {
  if (d->mean) return d->mean;
  double *mean = NEW_ARRAY(&c->arena, double, d->ncols + 1);
  for (size_t m = 0; m < d->ndraws; m++)
    for (size_t k = 0; k < d->ncols; k++)
      mean[k] += (d->values[m * d->ncols + k] - mean[k]) / (double)(m + 1);
  return mean;
}

void cmdstan_write_variational(RunDir *r, const char *base, const Draws *d, const CmdstanRun *run,
                               const CmdstanVariational *v) {
  const char *csv = arena_format(&r->c->arena, "%s.csv", base);
  const double *mean = mean_of(r->c, d);
  Settings *s = settings_begin(r, run);
  variational_settings(s, v, d->ndraws);
  common_settings(s, run, csv);
  OutFile *f = file_begin(r->c, run_path(r, csv));
  file_put(f, s->comments.s, s->comments.n);
  file_puts(f, "lp__,log_p__,log_g__");
  put_names(f, d, run->predictive);
  file_puts(f, "# Stepsize adaptation complete.\n# eta = 1\n0,0,0");
  put_row(f, mean, d->ncols);
  for (size_t m = 0; m < d->ndraws; m++) {
    const double front[] = {0, d->log_p ? d->log_p[m] : 0, d->log_g ? d->log_g[m] : 0};
    put_values(f, front, 3, ",");
    put_row(f, d->values + m * d->ncols, d->ncols);
  }
  file_commit(f);
  write_sidecars(r, base, run, s, 1);
}

/* ---- NUTS ------------------------------------------------------------------------------------ */

static void sample_settings(Settings *s, const CmdstanRun *run, const CmdstanSample *n) {
  choice(s, "method", "sample", "sample");
  setting_int(s, "num_samples", (long long)n->num_samples, 1000);
  setting_int(s, "num_warmup", (long long)n->num_warmup, 1000);
  setting_bool(s, "save_warmup", n->save_warmup, false);
  setting_int(s, "thin", n->thin ? n->thin : 1, 1);
  group(s, "adapt");
  setting_bool(s, "engaged", true, true);
  setting_real(s, "gamma", 0.05, 0.05);
  setting_real(s, "delta", n->delta != 0 ? n->delta : 0.8, 0.8);
  setting_real(s, "kappa", 0.75, 0.75);
  setting_real(s, "t0", 10, 10);
  setting_int(s, "init_buffer", 75, 75);
  setting_int(s, "term_buffer", 50, 50);
  setting_int(s, "window", 25, 25);
  group_end(s);
  choice(s, "algorithm", "hmc", "hmc");
  choice(s, "engine", "nuts", "nuts");
  setting_int(s, "max_depth", n->max_depth ? n->max_depth : 10, 10);
  choice_end(s);
  const char *metric = run->metric_type ? run->metric_type : "diag_e";
  comment(s, "metric", metric, strcmp(metric, "diag_e") == 0);
  json_key(&s->w, "metric");
  json_object(&s->w);
  json_key(&s->w, "value");
  json_string(&s->w, metric);
  json_object_end(&s->w);
  setting_text(s, "metric_file", "", "");
  setting_real(s, "stepsize", 1, 1);
  setting_real(s, "stepsize_jitter", 0, 0);
  choice_end(s);
  setting_int(s, "num_chains", 1, 1);
  choice_end(s);
}

static void put_draw(OutFile *f, const Draws *d, size_t m) {
  file_number(f, d->log_p ? d->log_p[m] : 0);
  for (size_t k = 0; k < d->ncolumns; k++) {
    file_puts(f, ",");
    file_number(f, d->columns[k].values[m]);
  }
  put_row(f, d->values + m * d->ncols, d->ncols);
}

static void put_adaptation(OutFile *f, const CmdstanRun *run, const CmdstanSample *n) {
  bool dense = run->metric_type && strcmp(run->metric_type, "dense_e") == 0;
  file_puts(f, "# Adaptation terminated\n# Step size = ");
  file_number(f, n->stepsize);
  file_puts(f, dense ? "\n# Elements of inverse mass matrix:\n"
                     : "\n# Diagonal elements of inverse mass matrix:\n");
  for (size_t k = 0; run->inv_metric && k < (dense ? run->ninv_metric : 1); k++) {
    file_puts(f, "# ");
    put_values(f, run->inv_metric + k * run->ninv_metric, run->ninv_metric, ", ");
    file_puts(f, "\n");
  }
}

static void put_elapsed(OutFile *f, const char *before, double seconds, const char *what) {
  char line[96];
  file_put(f, line,
           (size_t)snprintf(line, sizeof line, "# %s%.3f seconds (%s)\n", before, seconds, what));
}

void cmdstan_write_sample(RunDir *r, const char *base, const Draws *d, const CmdstanRun *run,
                          const CmdstanSample *n) {
  const char *csv = arena_format(&r->c->arena, "%s.csv", base);
  size_t thin = n->thin > 0 ? (size_t)n->thin : 1;
  size_t nwarm = n->save_warmup ? (n->num_warmup + thin - 1) / thin : 0;
  Settings *s = settings_begin(r, run);
  sample_settings(s, run, n);
  common_settings(s, run, csv);
  OutFile *f = file_begin(r->c, run_path(r, csv));
  file_put(f, s->comments.s, s->comments.n);
  file_puts(f, "lp__");
  for (size_t k = 0; k < d->ncolumns; k++) file_puts(f, ","), file_puts(f, d->columns[k].name);
  put_names(f, d, run->predictive);
  for (size_t m = 0; m < nwarm && m < d->ndraws; m++) put_draw(f, d, m);
  put_adaptation(f, run, n);
  for (size_t m = nwarm; m < d->ndraws; m++) put_draw(f, d, m);
  file_puts(f, "# \n");
  put_elapsed(f, " Elapsed Time: ", n->seconds_warmup, "Warm-up");
  put_elapsed(f, "               ", n->seconds_sampling, "Sampling");
  put_elapsed(f, "               ", n->seconds_warmup + n->seconds_sampling, "Total");
  file_puts(f, "# \n");
  file_commit(f);
  write_sidecars(r, base, run, s, n->stepsize);
}
