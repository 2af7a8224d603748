/* pvi.h: predictive variational inference for Stan programs, as a library.
 *
 * Handles are opaque. A function that can fail returns a status (0: ok; the numbers are the exit
 * codes of the command line) and leaves its messages in the context: pvi_error has them as text,
 * pvi_place one by one with file, line and column. Options are set by name, as on the command line.
 *
 *     pvi_context *c = pvi_open();
 *     pvi_options *o = pvi_options_new(c);
 *     pvi_model *m = NULL;
 *     pvi_run *r = NULL;
 *     pvi_set(o, "lambda", "0.1");
 *     if (pvi_load(c, "golf.stan", "golf.csv", o, &m) || pvi_fit(c, m, o, NULL, &r))
 *       fputs(pvi_error(c), stderr);
 *     else
 *       printf("%g\n", pvi_result_of(r)->objective);
 *     pvi_run_free(r);
 *     pvi_model_free(m);
 *     pvi_options_free(o);
 *     pvi_close(c);
 *
 * Threads. A context, and the options made with it, serve one thread at a time; different contexts
 * know nothing of each other. Models and runs are never changed once they are made: several
 * threads, each with a context of its own, may use one of them at once. (Only pvi_cancel may be
 * called from anywhere.)
 *
 * Memory. Models, runs, draws and predictions are freed by their own functions, in any order, but a
 * model after the runs that were made from it. Texts that a function returns through `text` belong
 * to the context and last until the next call with it. All freeing functions accept NULL.
 */
#ifndef PVI_H
#define PVI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined __GNUC__
#pragma GCC visibility push(default) /* these names, and no others, leave the shared library */
#endif

/* What a call returns. PVI_STATUS_NOT_CONVERGED and PVI_STATUS_INTERRUPTED come with a whole
 * result. */
enum {
  PVI_STATUS_OK,
  PVI_STATUS_FAILURE,       /* the machine or the run failed: memory, files, numbers */
  PVI_STATUS_USAGE,         /* an option or an argument is wrong */
  PVI_STATUS_DATA,          /* a data, split, points or run file is wrong */
  PVI_STATUS_PROGRAM,       /* the Stan program is wrong */
  PVI_STATUS_NOT_CONVERGED, /* the fit ended without converging */
  PVI_STATUS_INTERRUPTED    /* the fit was cancelled; its best q so far is there */
};

typedef struct pvi_context pvi_context;
typedef struct pvi_options pvi_options;
typedef struct pvi_model pvi_model;
typedef struct pvi_run pvi_run;

/* ---- contexts -------------------------------------------------------------------------------- */

const char *pvi_version(void);
pvi_context *pvi_open(void); /* NULL: no memory */
void pvi_close(pvi_context *c);

const char *pvi_error(const pvi_context *c); /* messages of the last call; "" when there are none */

typedef struct {
  const char *kind;      /* "error", "warning", "note" */
  const char *file;      /* NULL: no place in a file */
  unsigned line, column; /* counted from 1 */
  const char *text;
} pvi_message;
size_t pvi_messages(const pvi_context *c); /* of the last call */
pvi_message pvi_message_at(const pvi_context *c, size_t k);

/* How far a fit is. total: iterations in all where that is known, else 0. While lambda and what is
 * free are chosen, and in a diagnosis, done and total count fits, and the objective is NaN. */
typedef struct {
  const char *stage;
  long done, total, evaluations;
  double objective, seconds;
} pvi_progress;
/* Called now and then while a fit runs; a return other than 0 cancels it. NULL: no reports. */
void pvi_on_progress(pvi_context *c, int (*report)(void *self, const pvi_progress *p), void *self);
/* One line of at most `columns` characters that says the same; returns its length in bytes. */
size_t pvi_progress_line(char *out, size_t size, size_t columns, const char *label,
                         const pvi_progress *p);
/* Ends the fit that runs in this context at its next evaluation, or the next one where none runs.
 * May be called by a signal handler or another thread. */
void pvi_cancel(pvi_context *c);

/* For command lines: messages write the name of an option behind this prefix ("--"). The text is
 * kept, not copied. */
void pvi_option_prefix(pvi_context *c, const char *prefix);

/* For command lines and bindings: the answer to a word that is none of the names, with the nearest
 * of them; always PVI_STATUS_USAGE. */
int pvi_unknown(pvi_context *c, const char *what, const char *word, const char *const *names,
                size_t n);

/* ---- options --------------------------------------------------------------------------------- */

pvi_options *pvi_options_new(pvi_context *c); /* all defaults; NULL: no memory */
void pvi_options_free(pvi_options *o);
/* `pvi fit --help` and doc/options.md list names and values. Options that take several values get
 * one more with each call; NULL takes back all that were set. */
int pvi_set(pvi_options *o, const char *name, const char *value);
/* From now on pvi_set takes the options of one command ("fit", "sample", "predict", ...) alone:
 * those of others, which it would ignore, are refused by name. NULL: those of all commands. */
int pvi_options_for(pvi_options *o, const char *command);
/* What was set, or else the default, as text; values of a repeated option are separated by commas.
 * NULL: there is no such option. The text lasts until the next call with these options. */
const char *pvi_get(pvi_options *o, const char *name);

typedef struct {
  const char *name;
  const char *kind;   /* "flag", "whole", "real", "text", "choice", "names", "list" */
  const char *value;  /* what to call it; of a choice its words, separated by |; of a flag NULL */
  const char *byself; /* the default; "": none, or the help says on what it depends */
  double least, most; /* of numbers; kinds "whole" and "real" */
  const char *group;
  const char *commands; /* of the command line that take it, separated by blanks */
  const char *help;
} pvi_option;
size_t pvi_option_count(void);
pvi_option pvi_option_at(size_t k);

/* ---- models ---------------------------------------------------------------------------------- */

/* A program and its data (Stan JSON, CSV or a dump of R; NULL: none are needed): files, or their
 * texts. Options (NULL: defaults) that matter: set, include, observe, simulate, observed. */
int pvi_load(pvi_context *c, const char *program, const char *data, const pvi_options *o,
             pvi_model **out);
int pvi_load_text(pvi_context *c, const char *program, const char *data, const pvi_options *o,
                  pvi_model **out);
void pvi_model_free(pvi_model *m);

size_t pvi_dim(const pvi_model *m); /* unconstrained parameters */
size_t pvi_observations(const pvi_model *m);
const char *pvi_parameter(const pvi_model *m, size_t k); /* unconstrained; NULL: there is none */
/* Output columns as CmdStan has them: parameters, then transformed parameters, then generated
 * quantities; dotted names such as theta.2.1. */
size_t pvi_columns(const pvi_model *m);
size_t pvi_parameter_columns(const pvi_model *m); /* the first of them that are parameters */
const char *pvi_column(const pvi_model *m, size_t k);

/* From unconstrained points (point-major, dim numbers each) to all output columns
 * [npoints x columns]. Generated quantities draw their random numbers from the seed. */
int pvi_constrain(pvi_context *c, const pvi_model *m, const double *points, size_t npoints,
                  uint64_t seed, double *out);
/* Back: from the parameter columns of one point to its dim unconstrained numbers. */
int pvi_unconstrain(pvi_context *c, const pvi_model *m, const double *columns, double *theta);

/* The log density, with all constants and Jacobians, at unconstrained points. What is not NULL is
 * filled in. */
typedef struct {
  double *lp;         /* npoints: prior + likelihood */
  double *prior;      /* npoints: prior and Jacobian */
  double *jacobian;   /* npoints */
  double *likelihood; /* npoints */
  double *gradient;   /* [npoints x dim], of lp */
  double *pointwise;  /* [npoints x observations]: log likelihood of each */
} pvi_densities;
int pvi_density(pvi_context *c, const pvi_model *m, const double *points, size_t npoints,
                const pvi_densities *out);

/* ---- fits ------------------------------------------------------------------------------------ */

/* Observations (counted from 0) to train on, to validate on and to hold out. train NULL: all that
 * are in no other part. */
typedef struct {
  const size_t *train, *valid, *test;
  size_t ntrain, nvalid, ntest;
} pvi_split;

/* split NULL: as the options split and holdout say. With the option `out` the run folder is
 * written: checkpoints while the fit runs, and at its end all its files; without it nothing is
 * written. */
int pvi_fit(pvi_context *c, const pvi_model *m, const pvi_options *o, const pvi_split *split,
            pvi_run **out);
/* Goes on with the interrupted fit in a run folder. The model is loaded from the files that the
 * folder names, unless it is given. */
int pvi_resume(pvi_context *c, const char *folder, const pvi_model *m, pvi_run **out);
/* A run folder again: q, and what was reported. The model is loaded when it is first needed, from
 * the files that the folder names (they must not have changed), unless it is given. A folder of
 * pvi_sample has draws of the posterior instead of q: it can be summarised and predicted from, but
 * pvi_draw, pvi_log_q and pvi_covariance refuse it, and mean and sd of its result are NaN. */
int pvi_read(pvi_context *c, const char *folder, const pvi_model *m, pvi_run **out);
void pvi_run_free(pvi_run *r);

typedef struct {
  int converged, interrupted;
  const char *reason; /* why the fit ended */
  double objective, score,
      regularizer; /* of the training part, on draws the optimizer has not seen */
  long evaluations, iterations;
  double seconds;
  const char *family;
  const char *folder; /* where it was written; NULL: nowhere */
  size_t dim;
  const double *mean, *sd; /* dim: of q on the unconstrained scale */
} pvi_result;
const pvi_result *pvi_result_of(const pvi_run *r);

/* One score of one part ("train", "valid", "test"); larger is better for all of them. */
typedef struct {
  const char *part,
      *name; /* log, log_at_mean (the density at the mean of q), quadratic, crps, ... */
  size_t n;
  double sum, mean, se;       /* se: standard error of the mean */
  const size_t *observations; /* n: which they are, counted from 0, in increasing order */
  const double *rows;         /* n: of each */
} pvi_score;
size_t pvi_scores(const pvi_run *r); /* how many, of all parts together */
pvi_score pvi_score_at(const pvi_run *r, size_t k);
pvi_score pvi_score_of(const pvi_run *r, const char *part, const char *name); /* none: n is 0 */
/* What people call a score: "CRPS" of crps. *sign, if it is not NULL, becomes what tables for
 * people multiply its values by: -1 of losses, of which smaller is better, else 1. */
const char *pvi_score_title(const char *name, int *sign);

/* ---- the posterior by networks that learn from simulations ------------------------------------
 */

/* Neural posterior estimation and neural ratio estimation: pairs of parameters, drawn from the
 * program's prior, and data simulated with them teach a network what the observed data say. No
 * density of the data is needed (option simulate). The run is one of pvi_fit: its q is a flow (npe)
 * or particles (nre). Options: pairs, epochs, hidden, layers, knots, seed, threads, split, holdout,
 * metric, out. */
int pvi_npe(pvi_context *c, const pvi_model *m, const pvi_options *o, const pvi_split *split,
            pvi_run **out);
int pvi_nre(pvi_context *c, const pvi_model *m, const pvi_options *o, const pvi_split *split,
            pvi_run **out);

/* ---- the posterior by draws --------------------------------------------------------------------
 */

/* Draws of the posterior by many Markov chains: chain after chain, `draws` of each. With the option
 * `out` a run folder is written. PVI_STATUS_NOT_CONVERGED: `verdict` says why the draws are not to
 * be trusted. Options: method, chains, warmup, draws, metric, accept, init, seed, threads, split,
 * holdout. */
typedef struct {
  size_t chains, draws, ncols, dim;
  const char *const *names;                        /* ncols: dotted */
  const double *values;                            /* [chains draws x ncols]: output columns */
  const double *theta;                             /* [chains draws x dim]: unconstrained */
  const double *lp;                                /* [chains draws] */
  const double *rhat, *ess_bulk, *ess_tail, *mcse; /* ncols */
  size_t divergences;
  int trusted, interrupted;
  const char *verdict;
  const char *folder; /* where it was written; NULL: nowhere */
} pvi_posterior;
int pvi_sample(pvi_context *c, const pvi_model *m, const pvi_options *o, const pvi_split *split,
               pvi_posterior **out);
/* Goes on with the interrupted sampling in a run folder, to the draws that it would have come to.
 * The model is loaded from the files that the folder names, unless it is given. */
int pvi_resume_sample(pvi_context *c, const char *folder, const pvi_model *m, pvi_posterior **out);
void pvi_posterior_free(pvi_posterior *p);

/* ---- q --------------------------------------------------------------------------------------- */

/* Draws of q, made with a seed: the seed of the fit and the number it saved give those of
 * draws.csv. */
typedef struct {
  size_t n, ncols, dim;
  const char *const *names;    /* ncols: dotted */
  const double *values;        /* [n x ncols]: output columns */
  const double *theta;         /* [n x dim]: unconstrained */
  const double *log_p, *log_q; /* n: log joint density of the training part with Jacobian; log q */
} pvi_draws;
int pvi_draw(pvi_context *c, const pvi_run *r, size_t n, uint64_t seed, pvi_draws **out);
void pvi_draws_free(pvi_draws *d);

/* log q at unconstrained points (point-major). Parameters estimated as points have no density and
 * are left out. */
int pvi_log_q(pvi_context *c, const pvi_run *r, const double *points, size_t npoints, double *out);
int pvi_covariance(pvi_context *c, const pvi_run *r, double *out); /* [dim x dim] */

/* ---- predictions ----------------------------------------------------------------------------- */

typedef struct {
  size_t n; /* observations of the new data */
  size_t nlevels, nscores, noutcomes;
  const double *levels;     /* nlevels */
  const double *mean, *sd;  /* n; NaN where the outcome's distribution has none, or is not known */
  const double *quantiles;  /* [n x nlevels] */
  const char *const *names; /* nscores */
  const double *scores;     /* [n x nscores]: pointwise, as in scores.csv */
  const double *outcomes;   /* [n x noutcomes]: simulated, on request */
  const char *note;         /* why something is not available; NULL: all is */
} pvi_predictions;
/* new_data: a file, NULL: the data of the fit. Options: set, levels, n, outcomes, metric, alpha,
 * seed. */
int pvi_predict(pvi_context *c, const pvi_run *r, const char *new_data, const pvi_options *o,
                pvi_predictions **out);
void pvi_predictions_free(pvi_predictions *p);

/* ---- reports: what the commands print, as text or (option json) as JSON ---------------------- */

/* A program, and with data what pvi makes of it. The text is there also when the status says that
 * the program is wrong and the option json is set. */
int pvi_check_report(pvi_context *c, const char *program, const char *data, const pvi_options *o,
                     const char **text);
int pvi_density_report(pvi_context *c, const pvi_model *m, const pvi_options *o, const char **text);
int pvi_fit_report(pvi_context *c, const pvi_run *r, const pvi_options *o, const char **text);
int pvi_sample_report(pvi_context *c, const pvi_posterior *p, const pvi_options *o,
                      const char **text);
int pvi_summary_report(pvi_context *c, const pvi_run *r, const pvi_options *o, const char **text);
int pvi_draws_report(pvi_context *c, const pvi_run *r, const pvi_options *o, const char **text);
int pvi_predict_report(pvi_context *c, const pvi_run *r, const char *new_data, const pvi_options *o,
                       const char **text);
/* Run folders; or programs (.stan) and, last, their data: each is fitted by every method of the
 * option methods, on the same folds. */
int pvi_compare_report(pvi_context *c, const char *const *places, size_t n, const pvi_options *o,
                       const char **text);
/* Run folders as one self-contained HTML file; options: page, plots, threads. The text names it. */
int pvi_page_report(pvi_context *c, const char *const *runs, size_t n, const pvi_options *o,
                    const char **text);
/* A run folder (of a fit or of draws of the posterior) as a tree that ArviZ and xarray read;
 * options: to (zarr, netcdf), out. The text says what was written. */
int pvi_export_report(pvi_context *c, const char *folder, const pvi_options *o, const char **text);
/* Which variables vary in the population beyond what Bayes says. Options: simulations, folds,
 * score, family, seed, threads. */
int pvi_diagnose_report(pvi_context *c, const pvi_model *m, const pvi_options *o,
                        const char **text);
/* BayesBag: the mean of the posteriors of resampled data beside Bayes. Options: bags, family, seed,
 * threads, split, holdout. */
int pvi_bag_report(pvi_context *c, const pvi_model *m, const pvi_options *o, const char **text);
int pvi_bench_report(pvi_context *c, const pvi_model *m, const pvi_options *o, const char **text);

/* Where a fit of this program with these options goes when the option `out` is not set, and where
 * its draws of the posterior go. */
int pvi_default_folder(pvi_context *c, const pvi_model *m, const pvi_options *o, const char **text);
int pvi_sample_folder(pvi_context *c, const pvi_model *m, const pvi_options *o, const char **text);
int pvi_npe_folder(pvi_context *c, const pvi_model *m, const pvi_options *o, const char **text);
int pvi_nre_folder(pvi_context *c, const pvi_model *m, const pvi_options *o, const char **text);

/* What one value with gradient of the objective costs: seconds, the best of several runs, at q with
 * means 0 and standard deviations 0.1. Options: score, family, draws, integrate, threads, split. */
int pvi_time(pvi_context *c, const pvi_model *m, const pvi_options *o, double *seconds);

/* ---- simulators ------------------------------------------------------------------------------ */

/* A simulator of your own in the place of a program: no density is needed. It has one of two forms;
 * functions return 0 where they fail (the step is then taken back).
 *
 * Observations that differ in their distribution: `simulate` makes outcomes of all of them for M
 * draws. Arrays over draws hold a row of M numbers, ld apart: parameter d of draw j is
 * theta[d ld + j], number k of observation i is out[(i width + k) ld + j]. The same theta and seed
 * must give the same outcomes.
 *
 * Observations of one distribution, such as thousands of images: `simulate_one` makes the outcome
 * of one draw, and those of M draws serve all observations. Its noise is given to it. Threads call
 * it at once for different draws, and `pullback_one` after it for the same ones: what the first has
 * computed may be kept, by the draw's number, for the second. */
typedef struct {
  size_t j;            /* its number, less than the option draws */
  const double *theta; /* dim */
  const double *u;     /* noises: uniform in (0, 1) */
} pvi_simulator_draw;

typedef struct {
  size_t dim;                          /* parameters */
  size_t n, width;                     /* observations, numbers in each */
  const double *y;                     /* [n x width]: what was observed */
  const double *prior_mean, *prior_sd; /* dim: independent normal prior */
  void *self;
  int (*simulate)(void *self, const double *theta, size_t M, size_t ld, uint64_t seed, double *out);
  /* the vector-Jacobian product: adj_theta += adj_out d out / d theta */
  int (*pullback)(void *self, const double *theta, size_t M, size_t ld, uint64_t seed,
                  const double *adj_out, double *adj_theta);
  /* or, in their place: out has width numbers, adj_theta dim */
  int (*simulate_one)(void *self, const pvi_simulator_draw *d, double *out);
  int (*pullback_one)(void *self, const pvi_simulator_draw *d, const double *adj_out,
                      double *adj_theta);
  size_t noises;   /* uniform numbers that simulate_one takes; up to 8 with those of q are spread
                      evenly, more are independent */
  double noise_sd; /* of independent normal noise in every number of an outcome, which simulate_one
                      leaves out and the score integrates out; 0: none. From width 16 on */
} pvi_simulator;

/* Options: score (by default crps_sim; energy where width > 1), family (meanfield), alpha,
 * components, rank, knots, layers, hidden, lambda (of the prior), draws, optimizer, iterations,
 * learning-rate, schedule, clip, minibatch, seed, threads; out and checkpoint: a folder that gets
 * checkpoints, from which the same call goes on after an interruption, and q.json in the end.
 *
 * simulate: lbfgs on fixed noise by default, its draws (256, unless they are given) growing until
 * fresh noise agrees. simulate_one: adam by default, 2000 iterations of 64 draws with fresh noise,
 * a rate that warms up and falls to zero, and mini-batches of 1024 observations.
 *
 * pvi_draw, pvi_log_q and pvi_covariance work on the run; its scores are those of `train`. */
int pvi_fit_simulator(pvi_context *c, const pvi_simulator *s, const pvi_options *o, pvi_run **out);

/* ---- CmdStan's command lines ----------------------------------------------------------------- */

/* What CmdStan's tools call, for `pvi cmdstan` and whoever stands in for it. Lines for standard
 * output go to `print` as they come; messages are in the context, as always. */
typedef void (*pvi_printer)(void *self, const char *text);
/* A model executable with its arguments (method=sample num_samples=1000 ...).
 * PVI_STATUS_NOT_CONVERGED: it ended without what was asked for, and has said so. */
int pvi_cmdstan_model(pvi_context *c, const char *executable, int argc, const char *const *argv,
                      pvi_printer print, void *self);
/* stanc (--info FILE, --auto-format FILE ...; --executable=MODEL makes a model executable that
 * calls the program of --pvi=PATH; --threads: several chains may be asked of it), stansummary or
 * diagnose (files of draws). */
int pvi_cmdstan_tool(pvi_context *c, const char *tool, int argc, const char *const *argv,
                     pvi_printer print, void *self);

#if defined __GNUC__
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
