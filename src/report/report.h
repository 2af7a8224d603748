/* report.h: what a run leaves behind. A run is a folder; every file in it is whole or absent, also
 * after a crash.
 *
 *   run_open, run_path      the folder
 *   file_begin, ...         one file: written beside its final name, made durable, then renamed
 * over it by file_commit cmdstan_write_*         draws as CmdStan writes them, with its sidecars
 *   trace_write, scores_write, q_write, summary_write    our own files
 *   draws_read, scores_read, q_read, summary_read        the same files again
 *
 * Whatever the disk refuses ends the run with PVI_FAILURE and the reason; the old file, if there
 * was one, is untouched.
 */
#ifndef PVI_REPORT_H
#define PVI_REPORT_H

#include "base/base.h"
#include "report/cmdstan_args.h"
#include "report/draws.h"
#include "report/summary.h"

/* ---- the folder and its files ---------------------------------------------------------------- */

typedef struct RunDir {
  Ctx *c;
  const char *path;
} RunDir;

RunDir *run_open(Ctx *c, const char *dir);                  /* makes the folder and its parents */
const char *run_path(const RunDir *r, const char *name);    /* dir/name */
void run_write(RunDir *r, const char *name, const Text *t); /* a whole file */

typedef struct OutFile OutFile;
OutFile *file_begin(Ctx *c, const char *path);
void file_put(OutFile *f, const char *s, size_t n); /* errors stick; file_commit tells */
void file_puts(OutFile *f, const char *s);
void file_number(OutFile *f, double x);   /* shortest round trip; nan inf -inf */
void file_digits(OutFile *f, int digits); /* of numbers from now on; < 1: as many as it takes */
void file_integer(OutFile *f, long long k);
void file_commit(OutFile *f);  /* durable under its name, or ctx_fail */
void file_abandon(OutFile *f); /* leaves what was there before */

/* ---- draws.csv as CmdStan's ------------------------------------------------------------------ */

typedef struct {
  const CmdstanArgs *args; /* what CmdStan was asked for; NULL: a run of ours, see below */
  const char *model;       /* of the program: "golf_model" */
  const char *data_file;   /* NULL: none */
  const char *start;       /* date and time; NULL: left out */
  uint64_t seed;
  int id;          /* 0 counts as 1 */
  bool predictive; /* q is not the Bayes posterior: a column log_lik is written as log_lik_q, so
                      that nobody runs loo() on it */
  const ReportKey *keys; /* ours: objective, score, family, regularizer, lambda ... */
  size_t nkeys;
  const char *metric_type;  /* NULL: diag_e */
  const double *inv_metric; /* NULL: no metric sidecar. diag_e: n values; dense_e: n x n */
  size_t ninv_metric;       /* n */
} CmdstanRun;

typedef struct {
  const char *algorithm; /* meanfield or fullrank; readers accept nothing else */
  long iter, grad_samples, elbo_samples, eval_elbo; /* 0: CmdStan's default */
  double eta, tol_rel_obj;                          /* 0: CmdStan's default */
} CmdstanVariational;

/* base.csv, base_config.json and, when there is one, base_metric.json */
void cmdstan_write_variational(RunDir *r, const char *base, const Draws *d, const CmdstanRun *run,
                               const CmdstanVariational *v);

typedef struct {
  size_t num_warmup, num_samples; /* as asked; the draws have warm-up rows first if save_warmup */
  bool save_warmup;
  long thin, max_depth; /* 0: CmdStan's default */
  double delta;         /* 0: CmdStan's default */
  double stepsize;      /* as adapted; 0: nothing was */
  double seconds_warmup, seconds_sampling;
} CmdstanSample;

/* d->columns are accept_stat__ stepsize__ treedepth__ n_leapfrog__ divergent__ energy__, d->log_p
 * is lp__. */
void cmdstan_write_sample(RunDir *r, const char *base, const Draws *d, const CmdstanRun *run,
                          const CmdstanSample *s);

/* The other methods: base.csv with d->columns and then d->names; run->args says what was asked. */
void cmdstan_write_table(RunDir *r, const char *base, const CmdstanRun *run, const Draws *d);
void cmdstan_write_config(RunDir *r, const char *base, const CmdstanRun *run,
                          const CmdstanArgs *args); /* base_config.json */

/* A file of CmdStan's again, of any method; ends with PVI_DATA where it is none. */
typedef struct {
  const char *path, *model; /* its name, or NULL */
  const char **names;       /* ncols */
  size_t ncols, n, warm;    /* the first `warm` rows are of warm-up */
  double *values;           /* [n x ncols] */
  double save_warmup, num_warmup, thin, max_depth, chains,
      seconds; /* of its settings; of sampling */
} CmdstanTable;
CmdstanTable *cmdstan_table(Ctx *c, const char *path);
size_t cmdstan_column(const CmdstanTable *t, const char *name); /* ncols: there is none */

/* base.csv again, as cmdstan_write_variational wrote it; ctx_fail(PVI_DATA) when it is something
 * else. */
Draws *draws_read(Ctx *c, const char *path);

/* ---- our files ------------------------------------------------------------------------------- */

void trace_write(RunDir *r, const FitTrace *rows, size_t n); /* trace.csv */
/* Where the last of the optimizer's runs begins (there is one for every start and stage), by the
 * objective of all iterations. */
size_t trace_last_run(Arena *a, const double *objective, size_t n);

typedef struct {
  const char *name; /* what is observed: "y" */
  uint32_t line;    /* of its statement */
} ScoreSite;

typedef struct {
  size_t n; /* observations */
  const ScoreSite *sites;
  const uint32_t *site; /* n: index into sites; NULL: all 0 */
  const int *part;      /* n: Part, or < 0 for none; NULL: all train */
  size_t nscores;
  const char *const *names; /* nscores: "log", "crps" */
  const double *values;     /* [n x nscores] row-major */
} ScoreTable;

void scores_write(RunDir *r, const ScoreTable *t); /* scores.csv */
ScoreTable *scores_read(Ctx *c, const char *path); /* again, without its sites */

typedef enum {
  Q_SCALAR,
  Q_VECTOR,
  Q_MATRIX,
  Q_LOWER /* rows of a lower triangle, 1, 2, .. n long */
} QShape;

typedef struct {
  const char *name; /* "mean", "sd", "cholesky" */
  QShape shape;
  size_t rows, cols;    /* VECTOR: rows; LOWER: rows = cols */
  const double *values; /* row-major; LOWER: rows(rows + 1)/2 values */
} QArray;

typedef struct {
  const QArray *items;
  size_t count;
} QArrays;

/* q as a file: enough to draw more and to evaluate log q without program and data. */
typedef struct QFile {
  const char *family;
  size_t dim;
  const char *const *names;   /* dim names of the unconstrained parameters; NULL: none */
  const char *const *columns; /* ncolumns names of the constrained ones; NULL: none */
  size_t ncolumns;
  const ReportKey *keys; /* further words, such as program, data, score */
  size_t nkeys;
  QArrays shape;      /* the family's: components, rank, knots, layers, hidden */
  QArrays scoring;    /* how the scores were computed */
  QArrays parameters; /* slices of phi, and means and standard deviations for readers */
} QFile;

void q_write(RunDir *r, const QFile *q); /* q.json */
QFile *q_read(Ctx *c, const char *path); /* ctx_fail(PVI_DATA) when it is none */
QFile *q_read_source(Ctx *c, const Source *source);
const QArray *q_array(const QArrays *g, const char *name); /* NULL when absent */
double q_number(const QArrays *g, const char *name, double otherwise);
size_t q_array_count(const QArray *a);              /* number of values */
const char *q_key(const QFile *q, const char *key); /* NULL when absent */

void summary_write(RunDir *r, const Summary *s); /* summary.json */

#endif
