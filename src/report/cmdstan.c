/* cmdstan.c: draws as CmdStan writes them, so that CmdStanR, CmdStanPy, ArviZ and posterior read
 * them unchanged. A file begins with the settings (cmdstan_args.c), then a header and rows. */
#include "data/json.h"
#include "report/report.h"

#include <string.h>

/* ---- settings -------------------------------------------------------------------------------- */

static CmdstanTitle title_of(const CmdstanRun *run) {
  return (CmdstanTitle){
      .model = run->model, .start = run->start, .keys = run->keys, .nkeys = run->nkeys};
}

/* What was asked on a command line of CmdStan, or what a run of ours would have been asked there.
 */
static CmdstanArgs *args_of(RunDir *r, const CmdstanRun *run, const char *method, const char *csv) {
  CmdstanArgs *args = cmdstan_args(&r->c->arena);
  cmdstan_set(args, ARG_method, "%s", method);
  cmdstan_set(args, ARG_id, "%d", run->id ? run->id : 1);
  cmdstan_set(args, ARG_data_file, "%s", run->data_file ? run->data_file : "");
  cmdstan_set(args, ARG_seed, "%llu", (unsigned long long)run->seed);
  cmdstan_set(args, ARG_output_file, "%s", csv);
  return args;
}

static void put_settings(RunDir *r, OutFile *f, const CmdstanArgs *args, const CmdstanRun *run) {
  CmdstanTitle title = title_of(run);
  Text t = text_make(&r->c->arena);
  cmdstan_print(&t, args, &title, "# ");
  file_put(f, t.s, t.n);
}

static OutFile *begin_csv(RunDir *r, const char *base, const CmdstanArgs *args,
                          const CmdstanRun *run) {
  OutFile *f = file_begin(r->c, run_path(r, arena_format(&r->c->arena, "%s.csv", base)));
  file_digits(f, (int)cmdstan_whole(args, ARG_sig_figs));
  put_settings(r, f, args, run);
  return f;
}

/* ---- rows ------------------------------------------------------------------------------------ */

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

void cmdstan_write_config(RunDir *r, const char *base, const CmdstanRun *run,
                          const CmdstanArgs *args) {
  CmdstanTitle title = title_of(run);
  Text t = text_make(&r->c->arena);
  cmdstan_json(&t, args, &title);
  run_write(r, arena_format(&r->c->arena, "%s_config.json", base), &t);
}

/* Runs of ours have all sidecars; those that CmdStan was asked for, what was asked. */
static void write_sidecars(RunDir *r, const char *base, const CmdstanRun *run,
                           const CmdstanArgs *args, double stepsize) {
  if (!run->args) cmdstan_write_config(r, base, run, args);
  if (!run->args || cmdstan_flag(args, ARG_save_metric)) write_metric(r, base, run, stepsize);
}

/* ---- variational ----------------------------------------------------------------------------- */

static const CmdstanArgs *variational_args(RunDir *r, const char *csv, const CmdstanRun *run,
                                           const CmdstanVariational *v, size_t ndraws) {
  if (run->args) return run->args;
  CmdstanArgs *a = args_of(r, run, "variational", csv);
  cmdstan_set(a, ARG_vi_algorithm, "%s", v->algorithm);
  if (v->iter) cmdstan_set(a, ARG_vi_iter, "%ld", v->iter);
  if (v->grad_samples) cmdstan_set(a, ARG_grad_samples, "%ld", v->grad_samples);
  if (v->elbo_samples) cmdstan_set(a, ARG_elbo_samples, "%ld", v->elbo_samples);
  if (v->eta != 0) cmdstan_set(a, ARG_eta, "%.15g", v->eta);
  if (v->tol_rel_obj != 0) cmdstan_set(a, ARG_vi_tol_rel_obj, "%.15g", v->tol_rel_obj);
  if (v->eval_elbo) cmdstan_set(a, ARG_eval_elbo, "%ld", v->eval_elbo);
  cmdstan_set(a, ARG_output_samples, "%zu", ndraws);
  return a;
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
  const CmdstanArgs *args = variational_args(r, csv, run, v, d->ndraws);
  OutFile *f = begin_csv(r, base, args, run);
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
  write_sidecars(r, base, run, args, 1);
}

/* ---- NUTS ------------------------------------------------------------------------------------ */

static const CmdstanArgs *sample_args(RunDir *r, const char *csv, const CmdstanRun *run,
                                      const CmdstanSample *n) {
  if (run->args) return run->args;
  CmdstanArgs *a = args_of(r, run, "sample", csv);
  cmdstan_set(a, ARG_num_samples, "%zu", n->num_samples);
  cmdstan_set(a, ARG_num_warmup, "%zu", n->num_warmup);
  cmdstan_set(a, ARG_save_warmup, "%d", n->save_warmup);
  if (n->thin) cmdstan_set(a, ARG_thin, "%ld", n->thin);
  if (n->delta != 0) cmdstan_set(a, ARG_delta, "%.15g", n->delta);
  if (n->max_depth) cmdstan_set(a, ARG_max_depth, "%ld", n->max_depth);
  if (run->metric_type) cmdstan_set(a, ARG_metric, "%s", run->metric_type);
  return a;
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
  if (!run->inv_metric) {
    file_puts(f, "\n# No free parameters for unit metric\n");
    return;
  }
  file_puts(f, dense ? "\n# Elements of inverse mass matrix:\n"
                     : "\n# Diagonal elements of inverse mass matrix:\n");
  for (size_t k = 0; k < (dense ? run->ninv_metric : 1); k++) {
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
  const CmdstanArgs *args = sample_args(r, csv, run, n);
  OutFile *f = begin_csv(r, base, args, run);
  file_puts(f, "lp__");
  for (size_t k = 0; k < d->ncolumns; k++) file_puts(f, ","), file_puts(f, d->columns[k].name);
  put_names(f, d, run->predictive);
  for (size_t m = 0; m < nwarm && m < d->ndraws; m++) put_draw(f, d, m);
  if (n->stepsize > 0) put_adaptation(f, run, n);
  for (size_t m = nwarm; m < d->ndraws; m++) put_draw(f, d, m);
  file_puts(f, "# \n");
  put_elapsed(f, " Elapsed Time: ", n->seconds_warmup, "Warm-up");
  put_elapsed(f, "               ", n->seconds_sampling, "Sampling");
  put_elapsed(f, "               ", n->seconds_warmup + n->seconds_sampling, "Total");
  file_puts(f, "# \n");
  file_commit(f);
  write_sidecars(r, base, run, args, n->stepsize);
}

/* ---- the other methods ----------------------------------------------------------------------- */

void cmdstan_write_table(RunDir *r, const char *base, const CmdstanRun *run, const Draws *d) {
  OutFile *f = begin_csv(r, base, run->args, run);
  for (size_t k = 0; k < d->ncolumns; k++) {
    if (k) file_puts(f, ",");
    file_puts(f, d->columns[k].name);
  }
  for (size_t k = 0; k < d->ncols; k++) {
    if (k || d->ncolumns) file_puts(f, ",");
    file_puts(f, d->names[k]);
  }
  file_puts(f, "\n");
  for (size_t m = 0; m < d->ndraws; m++) {
    for (size_t k = 0; k < d->ncolumns; k++) {
      if (k) file_puts(f, ",");
      file_number(f, d->columns[k].values[m]);
    }
    if (d->ncolumns && d->ncols) file_puts(f, ",");
    put_values(f, d->values + m * d->ncols, d->ncols, ",");
    file_puts(f, "\n");
  }
  if (d->footer) file_puts(f, d->footer);
  file_commit(f);
}
