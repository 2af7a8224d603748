/* fit_int.h: what the files of a fit share.
 *
 *   fit.c         the course, from VI's centre to the verdict
 *   setup.c       what has to be there before: q, the observations, checks of what was asked for
 *   steps.c       the two kinds of steps, evaluations and optimizer runs, with the journal
 *   centre.c      where VI begins, and the centre it finds
 *   starts.c      where predictive scores start
 *   curvature.c   the posterior's correlations, for starts
 *   components.c  groups of observations, for starts of mixtures
 *   stages.c      to convergence, with enough draws or nodes
 *   elsewhere.c   is there another optimum?
 *   stochastic.c  the same by stochastic optimizers
 *   bounds.c      is there an optimum?
 */
#ifndef PVI_FIT_INT_H
#define PVI_FIT_INT_H

#include "infer/exact.h"
#include "infer/fit.h"
#include "infer/journal_int.h"

#ifdef PVI_TORTURE
enum { VI_DRAWS = 16, EXPLORE_DRAWS = 32, FIRST_DRAWS = 64, MOST_DRAWS = 128, JUDGE_DRAWS = 64 };
#else
enum {
  VI_DRAWS = 64,
  EXPLORE_DRAWS = 256,
  FIRST_DRAWS = 1024,
  MOST_DRAWS = 16384,
  JUDGE_DRAWS = 1024
};
#endif

/* Something whose next evaluation depends on its last ones, with its number: the n-th one made. */
typedef struct {
  long number;
  void *self;
  void (*state)(void *self, Archive *a);
} Memory;
enum { MOST_MEMORIES = 8 };

/* Everything a fit needs at hand. */
typedef struct {
  Ctx *ctx;
  Arena *parts; /* of the observations */
  Arena *arena; /* of objectives and the like, reset from stage to stage */
  const Model *model;
  const FitOptions *o;
  Target target; /* as asked for, with what follows from it */
  Q q;
  Pool *pool;
  Fit *fit;
  double started;
  /* The observations. Training: with the heads of the target, and with the log likelihood. Where
   * there are very many, `few` is a sample of them, else the same. */
  size_t n;            /* training observations */
  const size_t *order; /* and which they are */
  const Observed *train, *train_ll, *few, *few_ll, *valid;
  PredictivePart *apart;    /* the parts in which they are predicted; NULL: together */
  bool sampling;            /* the training part is the sample for now */
  double *mean, *sd;        /* VI's, of every parameter */
  double *unit;             /* the same sds, once they are known; NULL before */
  const double *vi;         /* phi of VI in q's family, where an optimizer needs it; else NULL */
  const char *vi_unbounded; /* why VI has no optimum; NULL: it has */
  const char *unbounded;    /* why the fit has none, of the exact objective of the last stage or
                               because all starts are beyond an edge; likewise */
  size_t again; /* draws of the optimum that it has while it goes on to a higher one; else 0 */
  /* Selection by validation; best_phi is NULL where there is none. */
  size_t nvalid;
  bool validates; /* every iterate from now on is scored there */
  double *valid_scores, *best_phi, best_valid;
  /* steps.c */
  Predictive *running; /* of the optimizer at work, */
  Subspace *within;    /* and the part of phi on which it works; NULL: all */
  bool near;           /* it begins where a stage with fewer draws ended; */
  bool watched;        /* its fixed draws are compared with fresh ones on the way, */
  double fresh_before; /* which gave so much at the last look; nan: there was none */
  Predictive *twice;   /* or its nodes with twice as many; NULL: they are not */
  bool (*arrived)(void *self, const double *phi, double value); /* it need not go on; NULL: never */
  void *arrived_self;
  double memorised; /* a log score that no q comes to but one that reproduces the data */
  const char *stage;
  long planned;                   /* iterations of the run that is under way; 0: not known */
  Memory memories[MOST_MEMORIES]; /* of what is in use */
  int nmemories;
  long made;
  Text paused, one;    /* what they were at the run's last pause; room for one of them */
  bool live;           /* all steps of the journal were replayed */
  bool captured;       /* the interrupted run is in the journal */
  bool has_phi;        /* fit->phi is some q, */
  bool keep_phi;       /* and a better one than that of the running optimizer */
  jmp_buf interrupted; /* where an interruption comes out */
} Fitter;

/* ---- setup.c --------------------------------------------------------------------------------- */

void fit_setup(Fitter *f, const Split *split);
uint64_t fit_identity(const Fitter *f, const Split *split); /* tells one fit from another */

enum {
  SEED_VI = 1,
  SEED_EXPLORE,
  SEED_JUDGE,
  SEED_FIT,
  SEED_ELSEWHERE = 600,
  SEED_VI_OTHER = 700,
  SEED_VI_JUDGE = 800,
  SEED_POINTS = 900,
  SEED_FRESH = 1000,
  SEED_STEP = 100000
};
uint64_t fit_seed(const Fitter *f, uint64_t what);
void fit_note(Fitter *f, const char *text);
/* Scores with kinks (the interval score, wherever a quantile crosses a datum) are approached
 * through rounded ones, and an optimum may be a kink. */
static inline bool fit_kinked(const Fitter *f) { return target_needs(&f->target) & KINKED; }
bool fit_is_continuous(const Fitter *f); /* some outcomes are */
bool fit_is_exact(const Fitter *f);
bool fit_is_split(const Fitter *f); /* the score is exact, and the regularizer by draws */
/* Families that can put a component on a single datum need more draws from the beginning. */
bool fit_is_rich(const Fitter *f);
/* Is it by draws, which decide to which of several optima it comes, with so few numbers that long
 * ways to others are not longer than the fit itself? */
bool fit_looks_around(const Fitter *f);
size_t fit_draws(const Fitter *f, size_t draws); /* what so many draws are for this fit */
double fit_outcome_sd(const Fitter *f); /* of the training outcomes: the unit of their scores */

/* ---- steps.c --------------------------------------------------------------------------------- */

/* An objective in f->arena: of the fit's own q and target on the training part, or of any. */
Predictive *fit_objective(Fitter *f, size_t M, uint64_t seed);
Predictive *fit_objective_of(Fitter *f, const Observed *o, const Target *t, const Q *q,
                             NoiseSet noise);
void fit_remember(Fitter *f, void *self, void (*state)(void *self, Archive *a));
/* Resets f->arena to the mark: objectives made since are gone. */
typedef struct {
  ArenaMark arena;
  int memories;
} FitMark;
FitMark fit_mark(const Fitter *f);
void fit_release(Fitter *f, FitMark mark);
/* The steps. Whatever the course of a fit takes from its objectives has to come through these: in a
 * fit that is resumed, objectives are not evaluated again for steps that are done. */
bool fit_evaluate(Fitter *f, Predictive *p, const double *phi, PredictiveValue *v);
OptimResult fit_optimize(Fitter *f, Predictive *p, const Objective *objective, double *phi,
                         OptimOptions *o, const char *stage);
double fit_number(Fitter *f, double x); /* x, what an objective counted in the last step */
OptimResult fit_lbfgs(Fitter *f, Predictive *p, double *phi, long iterations, double tolerance,
                      const char *stage);
void fit_open_journal(Fitter *f, uint64_t identity);

/* ---- centre.c -------------------------------------------------------------------------------- */

Target fit_vi_target(const Fitter *f, size_t nodes);
void fit_centre(Fitter *f); /* f->mean and f->sd: those of mean-field VI */
Q *fit_point_q(Fitter *f);  /* all parameters are points, */
Predictive *fit_log_density(Fitter *f, const Q *point); /* and the log density at them */

/* ---- curvature.c ----------------------------------------------------------------------------- */

/* root root' is about the posterior's covariance of the parameters that have a distribution; false:
 * it is not known. */
bool fit_posterior_root(Fitter *f, double *root);

/* ---- starts.c -------------------------------------------------------------------------------- */

void fit_at_centre(const Fitter *f, double *phi); /* VI's q, in the fit's own family, */
void fit_widened(const Fitter *f, double factor, double *phi); /* with sds so much larger */
/* The normal with the posterior's covariance, in a full-rank q; false: that is not known. */
bool fit_at_curvature(Fitter *f, const Q *q, double *phi);
bool fit_explore(Fitter *f, double *phi); /* the best of several; false: none is finite */
/* Bayes, let go step by step: where the posterior's regularizer counts for much its optimum is VI's
 * q, and from there it counts for less and less. False: this fit has no use for that. */
bool fit_let_go(Fitter *f, NoiseSet noise, double *phi);
void fit_prefer(Fitter *f, Predictive *p, double *phi, const double *other); /* the better of two */

/* ---- components.c ---------------------------------------------------------------------------- */

/* phi of a mixture with a component for each group of observations; false: there are none. */
bool fit_components(Fitter *f, uint64_t seed, double *phi);

/* ---- bounds.c -------------------------------------------------------------------------------- */

/* Why the objective p of q has no maximum near phi, a sentence with the parameter's name; NULL: it
 * is bounded in all parameters that went far. */
const char *fit_unbounded(Fitter *f, Predictive *p, const Q *q, const double *phi);
/* Why a fit that found no optimum did not: it reproduces observations. NULL: it does not. */
const char *fit_reproduces(Fitter *f, const double *phi);
enum { MEMORISED_NATS = 5 }; /* above VI's log densities: what no noise explains any more */
/* At which edge of the program's support q is, likewise; NULL: at none. */
const char *fit_edge(Fitter *f, Predictive *p, const Q *q, const double *phi);
const char *fit_edge_of_vi(Fitter *f); /* and which one is near VI's mean, */
/* and near that of q, whose objective is not finite */
const char *fit_edge_around(Fitter *f, const Q *q, const double *phi);

/* ---- stages.c -------------------------------------------------------------------------------- */

void fit_finish(Fitter *f, double *phi);        /* L-BFGS, to convergence and a verdict */
void fit_measure(Fitter *f, const double *phi); /* fit->value on fresh draws */
/* What is small against the data's own noise: a fiftieth of the standard deviation of the sum of
 * scores, at most. */
double fit_tolerated_gap(const Fitter *f);
/* Does the running objective, `value` at phi, exploit its draws or nodes? Its noise is as before
 * then. */
bool fit_exploits(Fitter *f, const double *phi, double value);

/* ---- elsewhere.c ----------------------------------------------------------------------------- */

/* Of a fit that converged at phi: is there another optimum? Notes it, and goes on to a higher one.
 */
void fit_look_elsewhere(Fitter *f, double *phi);

/* ---- stochastic.c ---------------------------------------------------------------------------- */

void fit_stochastic(Fitter *f, double *phi);

#endif
