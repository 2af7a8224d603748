/* chees.c: a transition of chains in step: Hamiltonian Monte Carlo whose trajectories have, for all
 * chains alike, the length u T, where u runs through a sequence that fills (0, 1) evenly and T is
 * adapted across chains (warmup.c).
 *
 * Where the posterior is nearly normal, most transitions are jumps instead: a draw of a normal
 * distribution near it is proposed, wherever the chain is, and accepted by the rule of Metropolis
 * and Hastings. A jump costs one evaluation, and its draw owes nothing to the one before. What a
 * normal misses, tails above all, is left to the trajectories between.
 */
#include "infer/chain.h"

#include "num/linalg.h"

#include <math.h>
#include <string.h>

/* The bits of k mirrored at the point: 1/2, 1/4, 3/4, 1/8, ... (van der Corput). */
static double jitter(unsigned long k) {
  double x = 0, digit = 0.5;
  for (; k; k >>= 1, digit /= 2)
    if (k & 1) x += digit;
  return x;
}

/* Where the posterior is narrower than the step takes it to be, a chain that came there would stay
 * for long: all its trajectories lose their way. One trajectory in 32, of those that would be the
 * shortest, has therefore steps of a quarter or an eighth, and a length up to T / 2 or T / 4. It
 * leads such a chain out again, and costs a tenth of all steps. */
Stride chees_stride(long t, double trajectory, double step) {
  double share = jitter((unsigned long)t % 1023 + 1), pace = 1;
  if (share < 1. / 32) {
    pace = share < 1. / 64 ? 0.125 : 0.25;
    share *= 16;
  }
  double n = ceil(share * trajectory / (pace * step));
  return (Stride){n < 1 || isnan(n) ? 1 : fmin(n, 1 << SAMPLER_DEPTH), pace};
}

/* ---- trajectories ---------------------------------------------------------------------------- */

static void begin_trajectory(Chain *c) {
  Stride x = chees_stride(c->transitions / (c->jumps + 1), c->trajectory, c->step);
  chain_kick(c);
  c->steps = (long)x.steps;
  c->pace = x.pace;
  chain_leap(c);
}

/* The draw becomes the point that was asked for, with this probability; c->from keeps where it
 * began. */
static bool accept_or_stay(Chain *c, double accept) {
  memcpy(c->from, c->theta, c->dim * sizeof *c->theta);
  if (!(rngs_uniform(&c->rng) < accept)) return false;
  memcpy(c->theta, c->at.theta, c->dim * sizeof *c->theta);
  memcpy(c->gradient, c->at_gradient, c->dim * sizeof *c->theta);
  c->lp = c->at_lp;
  return true;
}

/* The end of the trajectory is accepted, or the draw stays. */
static bool take_trajectory(Chain *c) {
  double weight = chain_land(c);
  if (!c->divergent && c->leapfrogs < c->steps) {
    chain_leap(c);
    return false;
  }
  double accept = c->divergent ? 0 : fmin(1, exp(weight));
  c->accept_sum = accept * (double)c->leapfrogs; /* that of the end is the one that counts */
  c->depth = 0;
  if (accept_or_stay(c, accept)) c->energy = c->start_energy - weight;
  return true;
}

/* ---- jumps ----------------------------------------------------------------------------------- */

/* log of posterior over normal, up to a constant, at theta = mean + S z. */
static double log_ratio(double lp, const double *z, size_t dim) {
  return lp + 0.5 * la_dot(z, z, dim);
}

static void begin_jump(Chain *c) {
  chain_kick(c); /* its momentum is the normal draw z */
  for (size_t k = 0; k < c->dim; k++) c->at.force[k] = c->theta[k] - c->normal->mean[k];
  metric_whiten(&c->normal->metric, c->at.force, c->at.force);
  c->log_weight = log_ratio(c->lp, c->at.force, c->dim);
  memcpy(c->at.theta, c->normal->mean, c->dim * sizeof *c->at.theta);
  metric_move(&c->normal->metric, 1, c->at.r, c->at.theta);
  c->steps = 0;
}

static bool take_jump(Chain *c) {
  double weight = log_ratio(c->at_lp, c->at.r, c->dim) - c->log_weight,
         accept = weight > 0 ? 1 : exp(weight); /* no density, no weight: exp is 0 */
  c->leapfrogs = 1;
  c->accept_sum = accept;
  c->depth = 0;
  accept_or_stay(c, accept);
  c->energy = 0.5 * la_dot(c->at.r, c->at.r, c->dim) - c->lp;
  return true;
}

static void begin(Chain *c) {
  bool jumps = c->jumps && c->transitions % (c->jumps + 1);
  (jumps ? begin_jump : begin_trajectory)(c);
}

static bool take(Chain *c) { return (c->steps ? take_trajectory : take_jump)(c); }

const SamplerCode sampler_chees = {begin, take};
