/* fit.h: from a Model to a fitted q: starts, draws that grow until fresh ones agree, and a verdict.
 */
#ifndef PVI_FIT_H
#define PVI_FIT_H

#include "data/data.h"
#include "infer/optim.h"
#include "infer/predictive.h"
#include "infer/q.h"

typedef struct {
  Target target;
  FamilyId family;
  Shape shape;               /* what the user set of it; zeros: defaults */
  bool choose_family;        /* family is not given */
  const char *const *points; /* names of parameters to be estimated as points */
  int npoints;
  size_t draws; /* 0: start small and grow */
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
  bool select_validation; /* keep the iterate with the best validation score */
  uint64_t seed;
  /* called now and then with the number of evaluations and the objective; may be NULL */
  void (*progress)(void *self, long evaluations, double objective, const char *stage);
  void *progress_self;
} FitOptions;

typedef struct {
  long iteration;
  double seconds, objective, score, regularizer, gradient_norm, step;
} FitTrace;

typedef struct {
  const char *name;
  double objective;
} FitStart;

/* draws, or nodes; fresh: the objective on fresh draws, or on twice the nodes */
typedef struct {
  size_t draws;
  double objective, fresh, gap;
} FitStage;

typedef struct {
  Q q;
  double *phi;
  PredictiveValue value; /* on draws that the optimizer has not seen */
  long evaluations, iterations, skipped;
  bool exact;   /* integrated by quadrature */
  size_t draws; /* of the last stage; nodes per dimension where exact */
  bool converged;
  const char *reason;
  double seconds;
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
