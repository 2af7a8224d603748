/* chees.c: a transition of chains in step: Hamiltonian Monte Carlo whose trajectories have, for all
 * chains alike, the length u T, where u runs through a sequence that fills (0, 1) evenly and T is
 * adapted across chains (warmup.c).
 */
#include "infer/chain.h"

#include <math.h>
#include <string.h>

/* The bits of k mirrored at the point: 1/2, 1/4, 3/4, 1/8, ... (van der Corput). */
static double jitter(unsigned long k) {
  double x = 0, digit = 0.5;
  for (; k; k >>= 1, digit /= 2)
    if (k & 1) x += digit;
  return x;
}

double chees_share(long transition) { return jitter((unsigned long)transition % 1023 + 1); }

static void begin(Chain *c) {
  double n = ceil(chees_share(c->transitions) * c->trajectory / c->step);
  chain_kick(c);
  c->steps = n < 1 || isnan(n) ? 1 : n > 1 << SAMPLER_DEPTH ? 1 << SAMPLER_DEPTH : (long)n;
  chain_leap(c);
}

/* The end of the trajectory is accepted, or the draw stays. c->from keeps where it began. */
static bool take(Chain *c) {
  double weight = chain_land(c);
  if (!c->divergent && c->leapfrogs < c->steps) {
    chain_leap(c);
    return false;
  }
  double accept = c->divergent ? 0 : fmin(1, exp(weight));
  c->accept_sum = accept * (double)c->leapfrogs; /* that of the end is the one that counts */
  c->depth = 0;
  memcpy(c->from, c->theta, c->dim * sizeof *c->theta);
  if (!(rngs_uniform(&c->rng) < accept)) return true;
  memcpy(c->theta, c->at.theta, c->dim * sizeof *c->theta);
  memcpy(c->gradient, c->at_gradient, c->dim * sizeof *c->theta);
  c->lp = c->at_lp;
  c->energy = c->start_energy - weight;
  return true;
}

const SamplerCode sampler_chees = {begin, take};
