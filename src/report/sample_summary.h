/* sample_summary.h: everything that draws of the posterior have to say, as one struct: the
 * summary.json of `pvi sample` and `pvi sample --json` are its text, and `pvi summary` and
 * `pvi report` have it from there again.
 */
#ifndef PVI_SAMPLE_SUMMARY_H
#define PVI_SAMPLE_SUMMARY_H

#include "infer/ess.h"
#include "report/summary.h"

typedef struct {
  SummaryParameter summary; /* name, mean, sd, quantiles */
  DrawsQuality quality;
} SampledVariable;

/* Leave-one-out log scores of the training part, summed up. */
typedef struct {
  double elpd, mean, se; /* se: of the sum */
  size_t n;
  double p_loo; /* the log score in sample, less this one */
  size_t draws; /* that it was computed from */
  double worst; /* the largest Pareto k */
  size_t bad;   /* observations whose k is too large for their score to be trusted */
} LooSummary;

/* A variable that chains saw non-centred, and how far, on average: 1 wholly. */
typedef struct {
  const char *name;
  double share;
} NoncentredVariable;

typedef struct SampleSummary {
  const char *version, *program, *data; /* data NULL: none */
  size_t seed;
  const char *method;
  size_t chains, warmup, draws, thin; /* draws: of a chain; every thin-th is in the files */
  const char *metric;
  double step, trajectory; /* trajectory: of lanes; NAN elsewhere */
  double jumps;            /* of lanes: so many between two trajectories; NAN: none */
  const NoncentredVariable *noncentred;
  size_t nnoncentred;
  const char *start; /* how it began, in words */
  size_t evaluations;
  double seconds, seconds_start, seconds_warmup, seconds_sampling;
  bool trusted, interrupted;
  const char *verdict;
  size_t divergences, deepest;           /* draws; deepest: whose trees were as deep as may be */
  double bfmi, rhat, ess_bulk, ess_tail; /* the worst of all chains, of all variables */
  size_t n_obs, dim;
  SummaryPart parts[PART_COUNT];
  const LooSummary *loo; /* NULL: nothing can be left out */
  const SampledVariable *variables;
  size_t nvariables;
} SampleSummary;

void sample_summary_json(Text *out, const SampleSummary *s); /* pretty, ends in a newline */
/* The same again; ctx_fail(PVI_DATA) where something is missing. */
SampleSummary *sample_summary_read(Ctx *c, const char *path);
/* What a fit would say in its place: for comparisons. Its score is "posterior", its family "draws".
 */
Summary *sample_summary_plain(Ctx *c, const SampleSummary *s);

#endif
