/* sampling.h: SampleRun, the posterior of a Problem by draws, and all that is said about them.
 *
 *   sample_problem   VI for a start, chains, columns of the program, diagnostics, scores, the
 * folder report_sample    the same as text or JSON
 */
#ifndef PVI_SAMPLING_H
#define PVI_SAMPLING_H

#include "infer/ess.h"
#include "infer/sampler.h"
#include "run/run.h"

typedef struct {
  SummaryParameter summary; /* name, mean, sd, quantiles */
  DrawsQuality quality;
} SampledVariable;

/* What the diagnostics come to. */
typedef struct {
  size_t divergences, deepest;     /* draws; deepest: whose trees were as deep as they may be */
  double bfmi;                     /* the least of all chains */
  double rhat, ess_bulk, ess_tail; /* the worst of all variables, and whose they are: */
  const char *rhat_of, *bulk_of, *tail_of;
  bool trusted;
  const char *verdict;
} SampleVerdict;

/* Leave-one-out log scores of the training part. */
typedef struct {
  double *score, *k; /* n_obs each; NAN: not trained on */
  SummaryScore sum;
  double worst; /* k */
  size_t bad;   /* observations whose k is too large for their score to be trusted */
  size_t draws;
} SampleLoo;

typedef struct {
  const Run *run; /* what was asked: options, problem, split, folder */
  const Sample *sample;
  size_t thin;                      /* every so many draws of a chain are kept below */
  size_t draws;                     /* kept of each chain */
  const Draws *kept;                /* chain after chain, with CmdStan's columns */
  const double *theta;              /* [kept x dim] */
  const SampledVariable *variables; /* of every column */
  size_t whole; /* the first so many columns, from all draws, are what the verdict is about */
  SampleVerdict verdict;
  const SampleLoo *loo;          /* NULL: nothing can be left out */
  double seconds_start, seconds; /* of VI; of all */
  const char *start;             /* how it began, in words */
} SampleRun;

SampleRun *sample_problem(Ctx *c, const Problem *p, const Options *o, const Split *split,
                          const RunHooks *h);
void report_sample(Ctx *c, const SampleRun *s, const Options *o, Text *out);
void sample_write(Ctx *c, RunDir *d, const SampleRun *s); /* its files */
/* r->scores and s->loo. */
void sample_score(Ctx *c, SampleRun *s, Run *r, Pool *pool);
/* What was asked, checked: for the name of its folder. */
Run *sample_make(Ctx *c, const Problem *p, const Options *asked, const Split *split);

#endif
