/* sampler.h: Sample, draws of the posterior by many chains at a time.
 *
 * Chains are divided into groups, each the lanes of one Posterior. Warm-up goes in windows: within
 * one every chain adapts its step, and when all chains are through, their draws together give the
 * metric for the next. Draws are made with one step and one metric for all chains, which no longer
 * change. Groups are pieces of work for threads; the numbers do not depend on who does them.
 */
#ifndef PVI_SAMPLER_H
#define PVI_SAMPLER_H

#include "infer/chain.h"
#include "infer/fit.h"
#include "infer/posterior.h"
#include "infer/warmup.h"

typedef struct Sample Sample;
typedef struct {
  SamplerId method;
  size_t chains, warmup, draws; /* warmup and draws: of each chain */
  size_t shorter;               /* warmup for starts near the posterior; 0: no other */
  size_t most;                  /* more draws, up to so many, until the chains agree; 0: no more */
  MetricKind metric;
  double accept; /* 0: the method's own */
  uint64_t seed;
  /* what CmdStan can be asked for, besides; 0: nothing special */
  uint64_t chain;         /* the number of the first chain, for its random numbers */
  long depth;             /* of trees */
  double step;            /* to begin with */
  bool as_given;          /* step and metric are not adapted */
  const WarmupPlan *plan; /* the windows of warm-up */
  bool keep_warmup;       /* its draws are wanted, too */
  const double *start;    /* [chains x dim] */
  const double *centre;   /* dim: a point with a density, towards which starts without one move */
  const Metric *first;    /* the metric to begin with */
  bool near;              /* normal(centre, first) is near the posterior */
  bool recentre;          /* warm-up may choose coordinates of hierarchies (coordinates.h) */
  /* Another log density in the place of the posterior's, for several threads at a time; NULL: the
   * posterior's. */
  void (*density)(const void *self, const PosteriorPoint *points, size_t n);
  const void *density_self;
  /* Told the state of everything, now and then and when it is interrupted; NULL: nobody is. */
  void (*save)(void *self, const Text *state);
  void *save_self;
  double save_every; /* seconds */
  /* Is the posterior known well enough by so many draws of each chain, whose parameters are? NULL:
   * it is. */
  bool (*settled)(void *self, const Sample *x, size_t draws);
  void *settled_self;
  const char *resume; /* a state that was saved, from which it goes on; NULL: none */
  size_t nresume;
  bool (*cancelled)(void *self); /* may be NULL, as may progress */
  void (*progress)(void *self, const FitProgress *p);
  void *self;
} SampleOptions;

struct Sample {
  SamplerId method;
  size_t chains, dim,
      draws; /* draws: of each chain; fewer than asked for where it was interrupted */
  size_t warmup;
  Chain **chain; /* its draws and stats */
  struct {       /* of every chain: those of warm-up, where they are wanted */
    double *draws;
    DrawStats *stats;
    size_t n;
  } * before;
  Metric metric; /* of the program's coordinates, in the end */
  double step, trajectory;
  long jumps;                  /* of chains in step: so many between two trajectories (chees.c) */
  double *share;               /* dim: how far each parameter was sampled non-centred; NULL: none */
  double accept;               /* the target */
  long evaluations, undefined; /* so many of them where there is no density */
  double seconds_warmup, seconds_sampling;
  bool interrupted;
};

/* Ends with PVI_FAILURE where no chain finds a density to begin with. */
Sample *sample_run(Ctx *c, const Observed *o, const SampleOptions *so, Pool *pool);
/* Draw i of chain k. */
static inline const double *sample_draw(const Sample *s, size_t k, size_t i) {
  return s->chain[k]->draws + i * s->dim;
}

#endif
