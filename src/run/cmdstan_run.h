/* cmdstan_run.h: a program as an executable of CmdStan: its command line, files and words, for
 * CmdStanPy, CmdStanR and what builds on them.
 *
 *   cmdstan_call       one call of a model executable (cmdstan_run.c): a row of its table of
 * methods stanc_call         one call of stanc (cmdstan_stanc.c): checks, describes or formats a
 * program, or makes a model executable of it
 *
 * What runs behind a method is what pvi has: chains (infer/sampler.h), VI (run_fit), the density
 * (infer/posterior.h). Lines go out through a Console as they come; what ends the work is a message
 * in the Ctx, as everywhere.
 */
#ifndef PVI_CMDSTAN_RUN_H
#define PVI_CMDSTAN_RUN_H

#include "infer/posterior.h"
#include "run/run.h"

typedef struct {
  void (*print)(void *self, const char *text);
  void *self;
} Console;
void console_say(const Console *o, Ctx *c, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

typedef struct {
  Ctx *c;
  const Console *out;
  CmdstanArgs *args;
  const char *name; /* of the model: golf_model */
  const Problem *problem;
  const Model *model;
  RunHooks hooks;
  Pool *pool;
  uint64_t seed;
  RunDir *dir;      /* of the output file */
  const char *base; /* its name without .csv */
  CmdstanRun run;   /* what every file begins with */
} CmdstanCall;

/* program: a file that stanc_call made. Returns whether the run did what was asked; false: it has
 * said why not, in words that readers of CmdStan's look for. */
bool cmdstan_call(Ctx *c, const Console *out, const char *program, int argc,
                  const char *const *argv, const RunHooks *h);
/* CmdStan's tools for files of draws (cmdstan_summary.c). */
void stansummary_call(Ctx *c, const Console *out, int argc, const char *const *argv);
void cmdstan_diagnose_call(Ctx *c, const Console *out, int argc, const char *const *argv);
void stanc_call(Ctx *c, const Console *out, int argc, const char *const *argv);

/* The methods. */
typedef bool CmdstanMethod(CmdstanCall *k);
CmdstanMethod cmdstan_sample, cmdstan_optimize, cmdstan_laplace, cmdstan_variational,
    cmdstan_pathfinder, cmdstan_generate, cmdstan_log_prob, cmdstan_diagnose;

/* The files of the chains as they are while nothing is drawn: settings alone. Whoever looks after a
 * run that failed, be it while data are read, finds them. */
void cmdstan_sample_begin(const CmdstanCall *k);

/* ---- what methods share ---------------------------------------------------------------------- */

/* cmdstan_points.c: where chain number id begins, dim numbers: what the argument `init` gives, the
 * rest at random; and what `init` means for it: a number or a file. */
void cmdstan_start(const CmdstanCall *k, size_t id, double *theta);
const char *cmdstan_init(const CmdstanCall *k, size_t id);
/* Parameters in the rows of a CSV file of CmdStan's, unconstrained: [n x dim]. */
double *cmdstan_fitted(const CmdstanCall *k, const char *path, size_t *n);
/* Output columns of points, [n x ncols], with their names; wanted NULL: all. */
Draws cmdstan_outputs(const CmdstanCall *k, const double *theta, size_t n, const bool *wanted);
/* Value and gradient of the density of all data at one point. */
typedef struct {
  Posterior *posterior;
  size_t dim;
} CmdstanDensity;
CmdstanDensity cmdstan_density(const CmdstanCall *k, bool jacobian);
double cmdstan_eval(const CmdstanDensity *d, const double *theta, double *gradient);
/* Names of the unconstrained parameters as CmdStan dots them, behind a prefix. */
const char *const *cmdstan_names(const CmdstanCall *k, const char *prefix);

#endif
