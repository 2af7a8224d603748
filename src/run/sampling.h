/* sampling.h: SampleRun, the posterior of a Problem by draws, and all that is said about them.
 *
 *   sample_problem     VI for a start, chains, columns, diagnostics, scores, the folder
 *   sample_draws, ...  a folder again
 */
#ifndef PVI_SAMPLING_H
#define PVI_SAMPLING_H

#include "infer/sampler.h"
#include "report/sample_summary.h"
#include "run/run.h"

/* Leave-one-out log scores of the training part. */
typedef struct {
  double *score, *k; /* n_obs each; NAN: not trained on */
  LooSummary sum;
} SampleLoo;

typedef struct {
  const Run *run; /* what was asked: options, problem, split, folder */
  const Sample *sample;
  size_t thin;           /* every so many draws of a chain are kept below */
  size_t draws;          /* kept of each chain */
  const Draws *kept;     /* chain after chain, with CmdStan's columns */
  const double *theta;   /* [kept x dim] */
  size_t whole;          /* so many columns, from all draws, are what the verdict is about */
  const SampleLoo *loo;  /* NULL: nothing can be left out */
  SampleSummary summary; /* all that is said of it */
} SampleRun;

SampleRun *sample_problem(Ctx *c, const Problem *p, const Options *o, const Split *split,
                          const RunHooks *h);
/* What was asked, checked: for the name of its folder. */
Run *sample_make(Ctx *c, const Problem *p, const Options *asked, const Split *split);

/* The stages behind the chains (sample_quality.c, sample_scores.c, report_sample.c): columns of the
 * program; what each is worth; what that comes to; r->scores and s->loo; its files. */
void sample_columns(Ctx *c, SampleRun *s);
void sample_quality(Ctx *c, SampleRun *s, Pool *pool);
void sample_verdict(Ctx *c, SampleRun *s);
/* Have the chains so many draws that the program's variables can be relied on? For SampleOptions.
 */
typedef struct {
  Ctx *ctx;
  const Model *model;
  Pool *pool;
} SampleJudge;
bool sample_is_settled(void *judge, const Sample *x, size_t draws);
void sample_score(Ctx *c, SampleRun *s, Run *r, Pool *pool);
/* Scores of the observations of a split under all draws. */
typedef struct {
  const Model *model;
  const ScoreList *list;
  const Split *split;
  const Options *o;
  Pool *pool;
} SampleParts;
/* How many of all draws score n observations. */
size_t sample_scored(size_t total, size_t n);
const Scores *sample_parts(Ctx *c, const Sample *x, const SampleParts *p);
void sample_write(Ctx *c, RunDir *d, const SampleRun *s);

/* ---- where chains begin, and how (sampling.c) ------------------------------------------------ */

typedef struct {
  double *start, *centre; /* [chains x dim], dim */
  Metric metric;
  double step;       /* 0: it is to be found */
  const char *words; /* that say so */
  bool near;         /* VI's q is so near the posterior that a short warm-up will do */
  bool interrupted;
} SampleStart;

SampleOptions sample_options(const Options *o, const RunHooks *h);
/* At draws of q, with its covariance as the first metric; or where other chains ended, with
 * theirs. */
SampleStart sample_start(Ctx *c, const Q *q, const double *phi, size_t chains, uint64_t seed);
SampleStart sample_start_again(Ctx *c, const Sample *x);

/* ---- a folder again (sample_read.c) ---------------------------------------------------------- */

/* The draws in a folder's files, chain after chain. */
typedef struct {
  size_t chains, draws;     /* draws: of each chain */
  size_t own;               /* the first so many columns are the method's: lp__, ... */
  size_t ncols;             /* of all */
  const char *const *names; /* ncols, as CmdStan dots them */
  const double *values;     /* [chains draws x ncols] */
} SampledDraws;

const SampledDraws *sample_draws(Ctx *c, const char *folder);
/* Points on the unconstrained scale, [chains draws x dim], of the program that was sampled. */
const double *sample_theta(Ctx *c, const SampledDraws *d, const Model *m);
/* The run with what predictions need: its draws in the place of q. */
const Run *sample_predictor(Ctx *c, const Run *r);

#endif
