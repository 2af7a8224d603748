/* fit.h: from a Model to a fitted q: starts, draws that grow until fresh ones agree, and a verdict.
 *
 * A fit can be interrupted before any evaluation (FitOptions.cancelled). It then returns the best q
 * it has, and with a journal (journal.h) it can be taken up again, to end with the same bits as if
 * it had never been interrupted.
 */
#ifndef PVI_FIT_H
#define PVI_FIT_H

#include "data/data.h"
#include "infer/optim.h"
#include "infer/predictive.h"
#include "infer/q.h"
#include "infer/subspace.h"

typedef struct Journal Journal;

/* How far a fit is. */
typedef struct {
  const char *stage;
  long iterations, total; /* of the optimizer run that is under way; total 0: not known */
  long evaluations;       /* of the whole fit */
  double objective, seconds;
} FitProgress;

/* What VI says of the parameters: mean and standard deviation of each under mean field, and its phi
 * in a family. */
typedef struct {
  const double *mean, *sd; /* NULL: not known */
  const double *phi;       /* of the family and shape of the fit that is begun with it */
} FitCentre;

/* Some of the training observations, and the way from the fit's q to the one that predicts them. */
typedef struct {
  const size_t *rows;
  size_t n;
  const double *offset; /* as many numbers as phi */
} FitPart;

typedef struct {
  Target target;
  FamilyId family;
  Shape shape;               /* what the user set of it; zeros: defaults */
  bool choose_family;        /* family is not given */
  const char *const *points; /* names of parameters to be estimated as points */
  int npoints;
  size_t draws;  /* 0: start small and grow */
  size_t sample; /* rows of the sample on which a fit to more than 16 times as many rows begins;
                    0: 16384, and 16 more for every parameter */
  OptimKind optimizer;
  long iterations;      /* 0: the optimizer's default */
  double learning_rate; /* 0: the optimizer's default */
  OptimSchedule schedule;
  double clip;      /* 0: off */
  size_t minibatch; /* 0: all observations */
  bool rejection;   /* log score by rejection sampling; stochastic optimizers only */
  /* one more start: phi of the given family and shape, asked for when q is known; NULL: none */
  const double *(*start)(void *self, const Q *q);
  void *start_self;
  /* What may leave the distribution it has in `start`; NULL: all. Goes with `warm` and families of
   * normals. */
  const Freedom *free;
  /* The training observations in parts, each with the way from `start` to the Bayes fit that has
   * not seen it: what is free moves away from all of these by the same, and so learns from
   * predictions of new observations. NULL: it learns from observations that the rest was fitted to.
   */
  const FitPart *parts;
  size_t nparts;
  bool warm;           /* begin at `start` at once: no VI, no other starts */
  const double *guess; /* or there, where that is better: as many numbers; NULL: nowhere else */
  size_t nodes;        /* of exact integration that a neighbour needed; 0: not known */
  bool rough;          /* one of many neighbours, compared by predictions: to fewer digits */
  FitCentre vi;        /* of the same data, where it was fitted before: it is not done again */
  const double *init;  /* the point where it begins, dim numbers; NULL: zero, and random points */
  double init_radius;  /* of these; 0: 2, as in Stan; negative: none of them */
  bool select_validation; /* keep the iterate with the best validation score */
  uint64_t seed;
  /* Asked before every evaluation of the objective; true interrupts the fit. May be NULL. */
  bool (*cancelled)(void *self);
  void *cancelled_self;
  Journal *journal; /* a new one, or one that was read and is to be continued; NULL: none */
  void (*progress)(void *self, const FitProgress *p); /* told after every iteration; may be NULL */
  void *progress_self;
} FitOptions;

/* One iteration of an optimizer. */
typedef struct {
  long iteration; /* counted over all of the fit's optimizer runs */
  double seconds, objective, score, regularizer, gradient_norm, step;
  double validation; /* the score of the validation part; NAN: none, or not yet */
} FitTrace;

/* One start that was tried, with its objective after a few iterations. */
typedef struct {
  const char *name;
  double objective;
} FitStart;

/* One number of draws (or of nodes, where the integration is exact) that was tried. */
typedef struct {
  size_t draws;
  double objective; /* on the draws of the optimizer, */
  double fresh;     /* on fresh ones, or on twice the nodes, */
  double gap;       /* and the difference */
} FitStage;

typedef struct {
  Q q;
  double *phi;
  PredictiveValue value; /* on draws that the optimizer has not seen; NAN: not finite there */
  long evaluations, iterations, skipped;
  bool exact;   /* integrated by quadrature */
  size_t draws; /* of the last stage; nodes per dimension where exact */
  bool converged;
  bool interrupted; /* phi is the best so far */
  const char *reason;
  FitCentre vi;   /* where it began; NULLs: elsewhere, or VI has no optimum */
  double seconds; /* of all processes that worked on it */
  FitTrace *trace;
  size_t ntrace, cap_trace;
  FitStart *starts;
  size_t nstarts, cap_starts;
  FitStage *stages;
  size_t nstages, cap_stages;
  const char **notes;
  size_t nnotes, cap_notes;
} Fit;

Fit *fit_run(Ctx *c, const Model *m, const Split *split, const FitOptions *o, Pool *pool);

#endif
