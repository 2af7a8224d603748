/* chain.h: Chain, one Markov chain with all it needs, and the course of one transition.
 *
 * A transition is a game of question and answer: `begin` chooses a momentum and says at which point
 * the density is asked for (Chain.at); `take` has the answer, and either asks for the next point or
 * is done, with Chain.theta the new draw. So chains of different lengths of trajectory share every
 * evaluation: each puts its own question into a lane, and one that is done begins its next
 * transition at once (sampler.c).
 *
 * All numbers of a chain are in one piece of memory, which a checkpoint writes as it is.
 */
#ifndef PVI_CHAIN_H
#define PVI_CHAIN_H

#include "infer/archive.h"
#include "infer/metric.h"
#include "num/rng.h"

enum {
  SAMPLER_DEPTH = 10,
  SAMPLER_MOST_DEPTH = 30
}; /* trees of at most 2^10 steps, unless asked */

/* What goes with a draw, as CmdStan's columns have it. */
typedef struct {
  double lp, accept, step, depth, leapfrogs, divergent, energy;
} DrawStats;
enum { DRAW_STATS = sizeof(DrawStats) / sizeof(double) };

/* Nesterov's dual averaging of the log step (Hoffman and Gelman 2014, equation 6). */
typedef struct {
  double mu, gap, log_mean, count;
} StepAdaptation;

/* A normal distribution near the posterior: mean and root of the covariance. */
typedef struct {
  double *mean;
  Metric metric;
} Normal;

/* A place on a trajectory: position, momentum and force, both in the metric's units. */
typedef struct {
  double *theta, *r, *force;
} Place;

typedef struct Chain {
  size_t dim;
  const Metric *metric;
  Rng key;       /* momenta: number k of transition t */
  RngStream rng; /* decisions */
  long transitions, left;
  long diverged, counted_from; /* so many of them have, from this one on */
  double step, trajectory;     /* trajectory: how far, of chains in step */
  double pace;                 /* the part of the step that this transition takes */
  const Normal *normal;        /* of jumps; chains in step only */
  long jumps;                  /* so many between two trajectories */
  StepAdaptation adaptation;
  bool adapting;
  double accept_target;
  /* the present draw, and the question */
  double *theta, *gradient, lp, energy;
  Place at;
  double *at_gradient, at_lp;
  double *from; /* where the last transition began; chains in step only */
  double direction, start_energy, accept_sum;
  long leapfrogs, steps;
  bool divergent;
  /* the tree of NUTS */
  Place ends[2]; /* its left and right one */
  double *rho, *sub_rho;
  double *sub, *sub_gradient, sub_lp, sub_energy;
  double log_weight, sub_log_weight;
  long depth, leaf, most_depth;
  double *start_r, *start_rho, *before_r; /* [most_depth x dim]: checkpoints, see nuts.c */
  double *last_r;
  /* what came of it */
  double *draws; /* [room x dim] */
  DrawStats *stats;
  size_t ndraws, room;
  double *memory;
  size_t nmemory;
} Chain;

/* depth: of trees, at most. */
Chain *chain_make(Arena *a, const Metric *metric, long depth, uint64_t seed, uint64_t number);
void chain_room(Arena *a, Chain *c, size_t room); /* for so many draws; those there were are gone */
void chain_more_room(Arena *a, Chain *c, size_t room); /* they stay */
void chain_state(Chain *c, Archive *a);
/* Of chains in step: what transition t is like, which has nothing to do with where chains are. */
typedef struct {
  double steps, pace; /* so many, each this part of the step */
} Stride;
Stride chees_stride(long t, double trajectory, double step);

typedef struct {
  void (*begin)(Chain *c);
  bool (*take)(Chain *c); /* true: the transition is over */
} SamplerCode;
typedef enum {
#define SAMPLER(id, name, accept) SAMPLER_##id,
#include "infer/samplers.def"
#undef SAMPLER
  SAMPLER_COUNT
} SamplerId;
extern const SamplerCode sampler_nuts, sampler_chees;
const SamplerCode *sampler_code(SamplerId id);
const char *sampler_name(SamplerId id);
double sampler_accept(SamplerId id);

/* ---- what transitions are made of ------------------------------------------------------------ */

/* A fresh momentum at the present draw, which becomes c->at; c->start_energy is its energy. */
void chain_kick(Chain *c);
/* Half a step of the momentum and a step of the position: c->at.theta is the question. */
void chain_leap(Chain *c);
/* The other half, with the answer. Returns the log weight of the place, start energy minus energy;
 * counts it, and says in c->divergent whether the trajectory has lost its energy. */
double chain_land(Chain *c);
/* The draw that the transition came to is kept, its step adapted. */
void chain_keep(Chain *c);
void chain_adapt_from(Chain *c, double step); /* begins to adapt, from there */
double chain_adapted(const Chain *c);         /* the step it has come to */
/* Adaptation with the acceptance of the last transition. */
double step_adapt(StepAdaptation *s, double target, double accept);

#endif
