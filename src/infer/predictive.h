/* predictive.h: the objective of predictive variational inference,
 *
 *     L(phi) = sum_i S(int p(. | theta) q_phi(theta) d theta, y_i) - lambda r(phi),
 *
 * on given base noise: with the noise fixed it is a deterministic function of phi, with new noise
 * each time a stochastic one. r is KL(q || prior), or KL(q || posterior) up to its constant, or a
 * mean of both: lambda ((1 - share) KL(q || prior) + share KL(q || posterior)) = lambda (KL(q ||
 * prior) - share E log p(y | theta)) + constant. Ordinary VI is S = elbo with the prior and lambda
 * = 1.
 */
#ifndef PVI_PREDICTIVE_H
#define PVI_PREDICTIVE_H

#include "infer/objective.h"
#include "infer/observed.h"
#include "infer/q.h"
#include "model/model.h"
#include "score/score.h"

/* What q is held to; both: shares of lambda. */
typedef enum { REG_PRIOR, REG_POSTERIOR, REG_BOTH } Regularizer;

/* How the integral over theta is done: exactly where it can be (exact.h), or always by draws of q.
 */
typedef enum { INTEGRATE_AUTO, INTEGRATE_EXACT, INTEGRATE_DRAWS } Integrate;

typedef struct {
  ScoreId score;
  ScoreOptions score_options;
  Regularizer regularizer;
  double lambda;
  double share;        /* REG_BOTH: of lambda, the posterior's, 0 to 1; the prior has the rest */
  double score_weight; /* of the sum of scores: 1, or 1 - lambda to interpolate VI and PVI */
  Integrate integrate;
  size_t nodes; /* exact integration: per dimension; 0: EXACT_NODES */
  double reach; /* of nodes that are equidistant, in standard deviations; 0: the usual */
  bool forward; /* its gradient is never asked for */
} Target;
enum { EXACT_NODES = 32 };

unsigned target_needs(const Target *t);   /* flags of its score, or of all that it sums */
unsigned target_wants(const Target *t);   /* heads that the observations must have */
double target_posterior(const Target *t); /* the weight of KL(q || posterior) */
/* Is the score one of parameters, and are some outcomes counts? */
bool target_counts(const Target *t, const Observed *o);
/* Numbers of scratch for its score: M lanes, rows ld apart, as many simulated outcomes. */
size_t target_scratch(const Target *t, const Observed *o, size_t M, size_t ld);
/* Can the score be computed for every observation? If not, *why is the reason. ELBO is no part of a
 * sum: exact integration has its mean log density by another way than the density of the mean. */
bool target_allows(Ctx *c, const Model *m, const Target *t, const char **why);

/* A set of draws: how many, and the seed of their noise. Exact integration has none. */
typedef struct {
  size_t M;
  uint64_t seed;
} NoiseSet;

typedef struct Predictive Predictive;

/* Over the given observations: exactly, where the target lets it and the observations are reduced
 * (observed_reduce), or by the given draws. q must outlive it. */
Predictive *predictive_make(Arena *a, const Observed *o, const Target *t, const Q *q,
                            NoiseSet noise, Pool *pool);
/* Some of the observations, and the way from phi to the q that predicts them. */
typedef struct {
  const Observed *o;
  const double *offset; /* as many numbers as phi; outlives it */
} PredictivePart;
/* The sum over parts of the observations, each under a q of its own, phi + offset. The prior's
 * share of the regularizer is a mean over the parts. */
Predictive *predictive_of_parts(Arena *a, const PredictivePart *parts, size_t n, const Target *t,
                                const Q *q, NoiseSet noise, Pool *pool);
/* The same by draws that are given, rows of draws that follow each other (by_point 1, by_dim n),
 * whatever q is: their phi has no influence. */
Predictive *predictive_of_draws(Arena *a, const Observed *o, const Target *t, const Q *q,
                                const ModelPoints *draws, Pool *pool);
bool predictive_is_exact(const Predictive *p);
/* Would it be, if the target lets it, without draws for the score? */
bool predictive_splits(const Observed *o, const Target *t, const Q *q);
/* Is the score without draws, and the regularizer with them? */
bool predictive_is_split(const Predictive *p);
const Q *predictive_q(const Predictive *p);
const Target *predictive_target(const Predictive *p);
/* From now on its Objective tells its curvature, where formulas do (predictive_is_curved). */
void predictive_use_curvature(Arena *a, Predictive *p);
bool predictive_is_curved(const Predictive *p);
/* Where they do not: its Objective's probe is that of `cheap`, the same on few draws or nodes,
 * which lives as long. */
void predictive_use_probe(Predictive *p, Predictive *cheap);
/* Likewise its few, of which an evaluation costs the part `price` of one of p. Fewer points are
 * close to all; fewer draws are not, q having an optimum of its own on them. */
void predictive_use_few(Predictive *p, Predictive *few, double price);
/* The parameters' sds in the posterior, about: for optimizers (q_precondition). */
void predictive_set_units(Predictive *p, const double *unit);
/* phi of VI in the same family, which knows the posterior's correlations; NULL: unknown. A
 * predictive q is much wider than the posterior in some directions and not in others, so its own
 * covariance tells an optimizer less. */
void predictive_set_vi(Predictive *p, const double *phi);
/* What the optimizers see; lives as long as p. */
Objective predictive_objective(Predictive *p);
/* New noise: scrambled Sobol points, or pseudo-random numbers. */
void predictive_renew(Predictive *p, uint64_t seed, bool random);
/* A mini-batch: that part of the observations, lo to hi of 0 to 1, scaled up. */
void predictive_range(Predictive *p, double lo, double hi);

typedef struct {
  double value, score, regularizer; /* value = score - lambda regularizer */
} PredictiveValue;
/* At phi; grad may be NULL. False when not finite; then nothing in *v is a result. */
bool predictive_eval(Predictive *p, const double *phi, PredictiveValue *v, double *grad);

/* Seconds of evaluations since it was asked for, by stage; those of tiles summed over threads.
 * NULL: no clock is read. */
typedef struct {
  double draws, globals, observations, score, adjoints;
} Stages;
void predictive_time(Arena *a, Predictive *p, Stages *stages);
const Work *predictive_work(const Predictive *p);
size_t predictive_lanes(const Predictive *p); /* draws, or nodes of an observation, at most */
/* Of exact integration: are so many nodes per dimension worth their room and time? */
bool predictive_grid_fits(const Predictive *p, size_t nodes, size_t rows);
PredictiveValue predictive_last(const Predictive *p); /* of the last finite evaluation */

/* ---- scoring.c ------------------------------------------------------------------------------- */

/* Which observations are scored, by which q, and with which draws, if any are needed: ones that no
 * fit has seen, and at least so many. */
typedef struct {
  const Observed *o;
  const Q *q;
  const double *phi;
  NoiseSet noise;
  Pool *pool;
  double tolerance;  /* exact integration: nodes double until the score s of an observation changes
                        by less than this times 1 + |s|; 0: there are as many as there are */
  size_t *unsettled; /* adds the observations for which that was not enough: theirs are by draws */
  const double *theta; /* noise.M draws, [dim x M], that stand for q; NULL: q itself */
  /* Asked now and then; once it is true nobody waits for the scores, and all of them are nan. NULL:
   * never. */
  bool (*cancelled)(void *self);
  void *cancelled_self;
} Scoring;
/* Log scores log E_q p(y_i | theta) of every observation: exactly where it can be, else by draws.
 */
void predictive_log_scores(Ctx *c, const Scoring *s, Integrate how, double *scores);
/* Any score of every observation, likewise; with t->nodes, where given, or more. */
void predictive_scores(Ctx *c, const Scoring *s, const Target *t, double *scores);
/* log p(y_i | theta) of every observation at one point. */
void predictive_point(Ctx *c, const Observed *o, const double *theta, double *log_densities);

#endif
