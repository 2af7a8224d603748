/* run.h: Run, the course from (Problem, Options) to a fitted q and all that is said about it.
 *
 *   run_fit       fits, evaluates, draws, summarises; checkpoints and writes its folder where it
 * has one run_read      a folder again: q, and what was reported run_draw      fresh draws of q
 *   run_predict   predictions for the observations of a Problem
 *
 * Everything a Run holds lives in the Ctx it was made with. It is never changed once it is made.
 */
#ifndef PVI_RUN_H
#define PVI_RUN_H

#include "infer/certificate.h"
#include "infer/fit.h"
#include "infer/journal.h"
#include "report/report.h"
#include "run/evaluate.h"
#include "run/options.h"
#include "run/problem.h"

typedef struct Run {
  const Options *o;
  bool sampling; /* of pvi sample: there is no q, but draws of the posterior */
  const struct SampleSummary *sampled; /* such a run that was read; NULL: a fit */
  const char *amortized;               /* "npe", "nre": a network found q; NULL: a fit did */
  const GivenDraws *given; /* draws that stand for q where observations are predicted; NULL: q */
  const Problem *problem;  /* NULL: a run that was read, and whose program was not needed yet */
  const Split *split;      /* NULL likewise */
  Q q;
  const double *phi;
  ScoringPlan scoring; /* a prediction uses the same, and so agrees with scores.csv */
  ScoreId score; /* what was maximised in the end, and its lambda: with lambda auto, as chosen */
  double lambda;
  Regularizer regularizer;
  struct TunePath *tuned;    /* lambda auto: how it was chosen; else NULL */
  const SummaryExact *exact; /* exact Bayes on held-out observations; NULL: not asked for */
  const Fit *fit;            /* NULL: read */
  const Scores *scores;
  const Scores
      *folds; /* of every observation when it was held out; NULL: no folds were asked for */
  const char *folds_rule; /* as the option names it */
  const Draws *draws;
  const Certificate *certificate; /* how much more any distribution could gain; NULL: not asked */
  const char *left_out; /* what of the program's quantities they lack, a sentence; NULL: nothing */
  const Summary *summary;
  const char *folder; /* NULL: nowhere */
  Origin program_origin, data_origin;
  const char *const *parameters; /* q.dim names of the unconstrained parameters */
} Run;

/* What a run tells while it goes on, and asks. Both may be NULL. */
typedef struct {
  void (*progress)(void *self, const FitProgress *p);
  bool (*cancelled)(void *self);
  void *self;
} RunHooks;

/* split NULL: as the options say. Option `out`: the folder is written. */
Run *run_fit(Ctx *c, const Problem *p, const Options *o, const Split *split, const RunHooks *h);
/* The same up to where it would begin: what was asked, checked. */
Run *run_make(Ctx *c, const Problem *p, const Options *o, const Split *split);
/* The score that it maximises, as people read it. */
const char *run_score_title(Ctx *c, const Options *o, ScoreId score);
/* Fit, scores and draws of a run whose r->fit is there: q and phi are taken from it. */
const struct RunDraws *run_take(Ctx *c, Run *r, const ScoreList *list, Pool *pool);
/* What the options ask of a fit. */
FitOptions run_fit_options(const Options *o, const RunHooks *h);
const Summary *run_summarise(Ctx *c, const Run *r);
/* The name of a parameter whose prior cannot be normalised; NULL: none was found (proper.c). */
const char *run_improper(Ctx *c, const Model *m);

/* ---- where it begins (init.c) ---------------------------------------------------------------- */

/* What the option `init` says, to f. */
void run_init(Ctx *c, const Model *m, const char *word, FitOptions *f);
/* A metric for chains, where the word is a file that has one; else NULL. */
typedef struct {
  const double *values; /* variances, or the covariance */
  bool dense;
  bool alone;  /* the file has no values of parameters */
  double step; /* 0: it names none */
  Loc loc;
} MetricFile;
const MetricFile *run_metric(Ctx *c, const Model *m, const char *word);

/* ---- reading again (run_read.c) -------------------------------------------------------------- */

Run *run_read(Ctx *c, const char *folder);
/* The Problem of a run that was read, loaded from the files that the run names; they must not have
 * changed since. */
const Problem *run_problem(Ctx *c, const Run *r);
void run_check_problem(Ctx *c, const Run *r, const Problem *p); /* is it the one that was fitted? */
const Split *run_split(Ctx *c, const Run *r, const Problem *p);

/* ---- draws ----------------------------------------------------------------------------------- */

typedef struct RunDraws {
  Draws draws;
  double *theta; /* [n x dim], point-major */
} RunDraws;
/* kept: flags of the program's variables, whose columns it has; NULL: all. */
RunDraws *run_draw(Ctx *c, const Run *r, const Problem *p, size_t n, uint64_t seed,
                   const bool *kept);
/* Of a run without a program: columns are the parameters, log p is not known. */
RunDraws *run_draw_plain(Ctx *c, const Run *r, size_t n, uint64_t seed);
/* What the option `save` keeps in the run folder: all but large quantities that follow from
 * parameters; and a sentence that names those, NULL where there are none. */
const bool *run_kept(Ctx *c, const Model *m, const OptionList *save);
const char *run_left_out(Ctx *c, const Model *m, const bool *kept);

/* Draws of the posterior are in so many files at most. */
enum { SAMPLE_FILES = 8 };

/* ---- folders (folder.c) ---------------------------------------------------------------------- */

/* What was asked for, as fit.json has it: enough to ask it again. */
typedef struct {
  const char *version, *identity;
  Origin program, data;
  Options *options;
  bool unfinished, has_results;
  bool sampling;         /* of pvi sample */
  const char *amortized; /* as in a Run */
} Asked;

Asked *folder_asked(Ctx *c, const char *folder);
/* Where a fit goes by default: the name tells what differs from the defaults, and gets a number
 * where a folder of that name holds another fit. */
const char *folder_default(Ctx *c, const Run *r);
/* The folder of the option `out`, made and marked with what is asked. One that holds another fit is
 * left alone, and the run ends with PVI_USAGE, unless `force` is given. */
RunDir *folder_open(Ctx *c, const Run *r);
/* The checkpoint in the folder; NULL when there is none. */
Journal *folder_checkpoint(Ctx *c, const RunDir *d, Arena *a);
/* The same as bytes, for chains; NULL: there are none. */
const char *folder_state(Ctx *c, const RunDir *d, size_t *n);
void folder_save_state(void *dir, const Text *state);
void folder_forget_state(const RunDir *d);
void folder_save_checkpoint(void *dir, const Journal *j); /* a RunDir; as the journal wants it */
/* scores.csv with these columns: nscores, names, values. */
void folder_write_scores(Ctx *c, RunDir *d, const Run *r, const ScoreTable *columns);
const ScoreTable *folder_scores(Ctx *c, const Run *r); /* as scores.csv has them */
void folder_write(Ctx *c, RunDir *d, const Run *r);    /* all files of a run that has ended */

/* ---- q as a file (qfile.c) ------------------------------------------------------------------- */

void qfile_write(Ctx *c, RunDir *d, const Run *r);
void qfile_read(Ctx *c, const char *path,
                Run *r); /* fills in q, phi, scoring, origins, parameters */
/* phi from another run's q.json, which must be of the same shape as q. */
const double *qfile_start(Ctx *c, const char *path, const Q *q);

#endif
