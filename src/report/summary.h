/* summary.h: everything a run has to say, as one struct; summary.json and `pvi fit --json` are its
 * text. */
#ifndef PVI_SUMMARY_H
#define PVI_SUMMARY_H

#include "base/base.h"
#include "data/data.h"
#include "data/json.h"
#include "infer/fit.h"
#include "report/draws.h"

typedef struct {
  const char *name;     /* "log", "crps", ... */
  double sum, mean, se; /* se: standard error of the mean, sd / sqrt(n) */
  size_t n;
} SummaryScore;

typedef struct {
  const SummaryScore *scores;
  size_t count; /* 0: the part is left out */
} SummaryPart;

typedef struct {
  const char *name; /* theta[2,1] */
  double mean, sd, q5, q50, q95;
  double bayes_mean, bayes_sd; /* under VI in the same family; NAN: the run has none */
  double corrected;            /* of VI: the posterior's mean by importance weights (has_khat) */
} SummaryParameter;

typedef struct {
  const char *name;
  long value;
} SummaryCounter;

/* How far q moved a parameter from Bayes: its place in standard deviations plus its width in log
 * factors. Negative: the run has no Bayes beside it. */
double summary_moved(const SummaryParameter *p);
/* What was freed, as people say it: b, b[2], or the elements of b together for `common:b`. */
const char *summary_freed_name(Arena *a, const char *name);

/* One lambda of the path by which it was chosen; gain over Bayes, with its paired standard error.
 */
typedef struct {
  bool prior; /* the regularizer is the prior, not the posterior */
  double lambda, sum, gain, se;
} SummaryLambda;

/* One variable that was freed, and the gain over Bayes with it and those before it. */
typedef struct {
  const char *name;
  double gain, se;
} SummaryFreed;

/* Exact Bayes on held-out observations, by draws of the posterior: its score, and what it gains
 * over VI and the fit over it, with paired standard errors; NAN: not known. */
typedef struct {
  const char *score;
  double sum, over_vi, over_vi_se, fit, fit_se;
  double rhat; /* the worst of all folds */
} SummaryExact;

typedef struct Summary {
  const char *version, *program, *data; /* data NULL: none */
  uint64_t seed;
  const char *score, *family, *regularizer; /* regularizer NULL: none */
  double lambda;
  bool exact; /* integrated by quadrature */
  long draws; /* per evaluation, or nodes per dimension */
  const char *optimizer;
  bool converged, interrupted;
  const char *reason; /* why it stopped */
  double objective;
  long evaluations, iterations;
  double seconds;
  size_t n_obs, dim;
  SummaryPart parts[PART_COUNT];
  SummaryPart folds;         /* of every observation when it was held out; count 0: no folds */
  const SummaryLambda *path; /* lambda auto: npath steps from Bayes (lambda infinite) on */
  size_t npath, best;        /* best: npath where freeing some variables was better */
  const SummaryFreed *freed; /* forward selection */
  size_t nfreed;
  const SummaryFreed *tried; /* each candidate alone; gain infinite: given up after one fold */
  size_t ntried;
  bool freeing;                    /* the fit has these free, and no others */
  const char *verdict;             /* of the search, in words; NULL: there was none */
  const char *folds_rule;          /* how they were made: "5", "group:county"; NULL: none */
  const SummaryExact *exact_bayes; /* NULL: it was not asked for */
  bool has_certificate; /* how much more log score any distribution could have (certificate.h) */
  bool limited;         /* false: without limit, and no number of the certificate means anything */
  double bound_slope, bound_at_q, gain_found, gain_at_most;
  bool has_khat;
  double khat; /* of VI: Pareto k of the weights posterior / q */
  const SummaryParameter *parameters;
  size_t nparameters;
  const char *const *notes;
  size_t nnotes;
  const SummaryCounter *counters; /* nonfinite, skipped_steps, ... */
  size_t ncounters;
  const FitStart *starts;
  size_t nstarts;
  const FitStage *stages;
  size_t nstages;
} Summary;

/* In the place of a score: exact Bayes, by draws of the posterior. */
#define SCORE_POSTERIOR "posterior"

/* summary.json again; ctx_fail(PVI_DATA) where something is missing. Counters are left out. */
Summary *summary_read(Ctx *c, const char *path);
void summary_json(Text *out, const Summary *s);               /* pretty, ends in a newline */
void summary_scores(JsonWriter *w, const SummaryPart *parts); /* "scores": PART_COUNT of them */
/* name mean sd 5% 50% 95%, at most so many rows (0: all) */
void summary_table(Text *out, const Summary *s, size_t most, size_t width);

/* Statistics of values that are there (NaN counts). */
SummaryScore summary_score(const char *name, const double *values, size_t n);
/* Of one variable, from n draws of it, which are sorted. */
SummaryParameter summary_of(const char *name, double *x, size_t n);
/* Digits that a number with this spread is printed with. */
int summary_digits(double x, double sd);
/* One row a column of the draws, in their order. */
SummaryParameter *summary_parameters(Ctx *c, const Draws *d, size_t n); /* of the first n */

#endif
