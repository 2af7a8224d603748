/* warmup.h: what is adapted before draws are made: windows of warm-up, and for chains in step the
 * length of trajectories. */
#ifndef PVI_WARMUP_H
#define PVI_WARMUP_H

#include "infer/chain.h"

/* A stretch of warm-up; where `metric`, its draws make the metric of what follows. */
typedef struct {
  size_t length;
  bool metric;
} WarmupWindow;
enum { WARMUP_MOST = 32 };
/* Stan's plan: transitions to arrive, the first window for the metric (each next one is twice as
 * long), and transitions for the step at the end. */
typedef struct {
  size_t first, window, last;
} WarmupPlan;
/* How many there are. Together they have `warmup` transitions. plan NULL: Stan's for few chains,
 * and a shorter one for many. */
size_t warmup_windows(size_t warmup, size_t chains, const WarmupPlan *plan, WarmupWindow *windows);

/* The length T of trajectories that moves |z - mean|^2 most, z in the metric's units: stochastic
 * gradient ascent on log T, with Adam's steps. */
typedef struct {
  double log_length, sum, count; /* sum: of log lengths, with more weight on late ones */
  double m, v, t;                /* Adam's */
} LengthAdaptation;
LengthAdaptation length_begin(double length);
void length_state(LengthAdaptation *l, Archive *a);
double length_now(const LengthAdaptation *l);
double length_mean(const LengthAdaptation *l);
/* room: 3 dim numbers. */
void length_adapt(LengthAdaptation *l, Chain *const *chains, size_t n, const Metric *metric,
                  double *room);
/* The harmonic mean of the acceptance of the last transitions: chains that are stuck count most. */
double acceptance_together(Chain *const *chains, size_t n);

#endif
