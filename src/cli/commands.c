/* commands.c: the commands, each one pipeline: arguments -> pvi.h -> printing. */
#include "cli/cli.h"

#include <string.h>

/* Prints what a report says, where there is something; then the messages. */
static int print(Cli *cli, int status, const char *text) {
  fputs(text, stdout);
  return cli_said(cli, status);
}

static const char *place(const Cli *cli, size_t k) {
  return k < cli->nplaces ? cli->place[k] : NULL;
}

/* ---- programs -------------------------------------------------------------------------------- */

int cmd_check(Cli *cli) {
  const char *text = "";
  int status = pvi_check_report(cli->c, place(cli, 0), place(cli, 1), cli->o, &text);
  return print(cli, status, text);
}

typedef int ModelReport(pvi_context *c, const pvi_model *m, const pvi_options *o,
                        const char **text);

/* A model, and one report of it. */
static int report_model(Cli *cli, ModelReport *report) {
  const char *text = "";
  pvi_model *m;
  int status = pvi_load(cli->c, place(cli, 0), place(cli, 1), cli->o, &m);
  if (status) return cli_said(cli, status);
  watch_begin(cli, place(cli, 0));
  status = report(cli->c, m, cli->o, &text);
  int interrupted = watch_end(cli);
  print(cli, status, text);
  pvi_model_free(m);
  return status && interrupted ? interrupted : status;
}

int cmd_density(Cli *cli) { return report_model(cli, pvi_density_report); }
int cmd_bench(Cli *cli) { return report_model(cli, pvi_bench_report); }
int cmd_bag(Cli *cli) { return report_model(cli, pvi_bag_report); }
int cmd_diagnose(Cli *cli) { return report_model(cli, pvi_diagnose_report); }

/* ---- fits ------------------------------------------------------------------------------------ */

typedef int FolderName(pvi_context *c, const pvi_model *m, const pvi_options *o, const char **text);

/* Without --out the folder's name follows from what is asked. */
static int choose_folder(Cli *cli, const pvi_model *m, FolderName *name) {
  const char *folder;
  if (*pvi_get(cli->o, "out")) return PVI_STATUS_OK;
  int status = name(cli->c, m, cli->o, &folder);
  return status ? status : pvi_set(cli->o, "out", folder);
}

static int fit_model(Cli *cli, pvi_model **m, pvi_run **run) {
  int status = pvi_load(cli->c, place(cli, 0), place(cli, 1), cli->o, m);
  if (!status) status = choose_folder(cli, *m, pvi_default_folder);
  return status ? status : pvi_fit(cli->c, *m, cli->o, NULL, run);
}

/* A program, or a run that goes on: with its own program and settings. */
static int missing_model(const Cli *cli, const char *command) {
  if (cli->resume && (cli->setting || cli->nplaces)) {
    fprintf(stderr,
            "pvi: error: --resume goes on with the program, the data and the settings of the run: "
            "leave out %s%s (a run with others is a new one)\n",
            cli->nplaces ? "" : "--", cli->nplaces ? cli->place[0] : cli->setting);
    return PVI_STATUS_USAGE;
  }
  if (cli->nplaces || cli->resume) return PVI_STATUS_OK;
  fprintf(stderr,
          "pvi: error: missing argument (usage: pvi %s MODEL [DATA] [options] | --resume RUN)\n",
          command);
  return PVI_STATUS_USAGE;
}

/* The page of a fit that has ended; what is said of it goes where words for people go. */
static void report_folder(Cli *cli, const char *folder) {
  const char *text = "";
  int status = pvi_page_report(cli->c, &folder, 1, cli->o, &text);
  if (!cli->quiet && !cli->json) fputs(text, stdout);
  cli_said(cli, status);
}

/* What a run that has ended found; NULL: there is none. */
static void show_run(Cli *cli, pvi_run *run) {
  const char *text = "";
  if (!run) return;
  if (cli->json || !cli->quiet) {
    pvi_fit_report(cli->c, run, cli->o, &text);
    fputs(text, stdout);
  }
  if (cli->report) report_folder(cli, pvi_result_of(run)->folder);
}

int cmd_fit(Cli *cli) {
  pvi_model *m = NULL;
  pvi_run *run = NULL;
  int status = missing_model(cli, "fit");
  if (status) return status;
  watch_begin(cli, cli->resume ? pvi_get(cli->o, "resume") : cli->place[0]);
  status = cli->resume ? pvi_resume(cli->c, pvi_get(cli->o, "resume"), NULL, &run)
                       : fit_model(cli, &m, &run);
  int interrupted = watch_end(cli);
  cli_said(cli, status);
  show_run(cli, run);
  if (run && pvi_result_of(run)->interrupted)
    fprintf(stderr, "interrupted; to go on: pvi fit --resume %s\n", pvi_result_of(run)->folder);
  pvi_run_free(run);
  pvi_model_free(m);
  return status == PVI_STATUS_INTERRUPTED && interrupted ? interrupted : status;
}

static int sample_model(Cli *cli, pvi_model **m, pvi_posterior **p) {
  int status = pvi_load(cli->c, place(cli, 0), place(cli, 1), cli->o, m);
  if (!status) status = choose_folder(cli, *m, pvi_sample_folder);
  return status ? status : pvi_sample(cli->c, *m, cli->o, NULL, p);
}

int cmd_sample(Cli *cli) {
  pvi_model *m = NULL;
  pvi_posterior *p = NULL;
  const char *text = "";
  int status = missing_model(cli, "sample");
  if (status) return status;
  watch_begin(cli, cli->resume ? pvi_get(cli->o, "resume") : cli->place[0]);
  status = cli->resume ? pvi_resume_sample(cli->c, pvi_get(cli->o, "resume"), NULL, &p)
                       : sample_model(cli, &m, &p);
  int interrupted = watch_end(cli);
  cli_said(cli, status);
  if (p && (cli->json || !cli->quiet)) {
    pvi_sample_report(cli->c, p, cli->o, &text);
    fputs(text, stdout);
  }
  if (p && p->interrupted && p->folder)
    fprintf(stderr, "interrupted; to go on: pvi sample --resume %s\n", p->folder);
  pvi_posterior_free(p);
  pvi_model_free(m);
  return interrupted ? interrupted : status;
}

typedef int NetworkFit(pvi_context *c, const pvi_model *m, const pvi_options *o,
                       const pvi_split *split, pvi_run **out);

static int fit_network(Cli *cli, NetworkFit *make, FolderName *name) {
  pvi_model *m = NULL;
  pvi_run *run = NULL;
  watch_begin(cli, cli->place[0]);
  int status = pvi_load(cli->c, place(cli, 0), place(cli, 1), cli->o, &m);
  if (!status) status = choose_folder(cli, m, name);
  if (!status) status = make(cli->c, m, cli->o, NULL, &run);
  int interrupted = watch_end(cli);
  cli_said(cli, status);
  show_run(cli, run);
  pvi_run_free(run);
  pvi_model_free(m);
  return status == PVI_STATUS_INTERRUPTED && interrupted ? interrupted : status;
}

int cmd_npe(Cli *cli) { return fit_network(cli, pvi_npe, pvi_npe_folder); }
int cmd_nre(Cli *cli) { return fit_network(cli, pvi_nre, pvi_nre_folder); }

/* ---- runs ------------------------------------------------------------------------------------ */

typedef int RunReport(pvi_context *c, const pvi_run *r, const pvi_options *o, const char **text);

static int report_run(Cli *cli, RunReport *report) {
  const char *text = "";
  pvi_run *run;
  int status = pvi_read(cli->c, place(cli, 0), NULL, &run);
  if (status) return cli_said(cli, status);
  status = report(cli->c, run, cli->o, &text);
  print(cli, status, text);
  pvi_run_free(run);
  return status;
}

int cmd_summary(Cli *cli) { return report_run(cli, pvi_summary_report); }
int cmd_draws(Cli *cli) { return report_run(cli, pvi_draws_report); }

int cmd_predict(Cli *cli) {
  const char *text = "";
  pvi_run *run;
  int status = pvi_read(cli->c, place(cli, 0), NULL, &run);
  if (status) return cli_said(cli, status);
  status = pvi_predict_report(cli->c, run, place(cli, 1), cli->o, &text);
  print(cli, status, text);
  pvi_run_free(run);
  return status;
}

int cmd_compare(Cli *cli) {
  const char *text = "";
  watch_begin(cli, cli->place[0]);
  int status = pvi_compare_report(cli->c, cli->place, cli->nplaces, cli->o, &text);
  int interrupted = watch_end(cli);
  print(cli, status, text);
  return status && interrupted ? interrupted : status;
}

int cmd_report(Cli *cli) {
  const char *text = "";
  int status = pvi_page_report(cli->c, cli->place, cli->nplaces, cli->o, &text);
  return print(cli, status, text);
}

int cmd_export(Cli *cli) {
  const char *text = "";
  int status = pvi_export_report(cli->c, place(cli, 0), cli->o, &text);
  return print(cli, status, text);
}

/* ---- about pvi itself ------------------------------------------------------------------------ */

typedef struct {
  const char *name;
  void (*print)(FILE *to);
} Form;

static int print_form(Cli *cli, const char *what, const Form *forms, size_t n) {
  const char *names[8];
  for (size_t k = 0; k < n; k++) {
    names[k] = forms[k].name;
    if (strcmp(cli->place[0], names[k]) != 0) continue;
    forms[k].print(stdout);
    return PVI_STATUS_OK;
  }
  return cli_said(cli, pvi_unknown(cli->c, what, cli->place[0], names, n));
}

int cmd_completion(Cli *cli) {
  static const Form shells[] = {{"bash", completion_bash}, {"zsh", completion_zsh}};
  return print_form(cli, "shell", shells, 2);
}

int cmd_manual(Cli *cli) {
  static const Form forms[] = {{"man", manual_page}, {"markdown", manual_markdown}};
  return print_form(cli, "form of the manual", forms, 2);
}
