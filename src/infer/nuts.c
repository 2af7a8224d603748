/* nuts.c: a transition of the no-U-turn sampler (Hoffman and Gelman 2014) with multinomial weights,
 * biased progressive sampling and the generalised criterion (Betancourt 2017).
 *
 * A trajectory grows in both directions, doubling: a subtree of 2^depth new places is added to a
 * random end, until it turns. The subtree is gone through leaf by leaf, without recursion. Its own
 * subtrees, of 2, 4, 8, ... neighbouring leaves, must not turn either: leaf number n, odd,
 * completes as many of them as n ends in ones. What a test needs of their first leaf is kept in
 * checkpoints: leaf n, even, goes to slot popcount(n / 2), and the subtrees that an odd leaf
 * completes begin in consecutive slots (Phan, Pradhan and Jankowiak 2019).
 *
 * A stretch of places turns where its first or its last momentum points against the sum rho of all
 * of its momenta. As in Stan, the halves of a stretch are also tested with the next place beyond.
 */
#include "infer/chain.h"

#include "num/linalg.h"

#include <math.h>
#include <string.h>

static void copy_place(Place *to, const Place *from, size_t dim) {
  memcpy(to->theta, from->theta, dim * sizeof *to->theta);
  memcpy(to->r, from->r, dim * sizeof *to->r);
  memcpy(to->force, from->force, dim * sizeof *to->force);
}

static double log_add(double a, double b) {
  double top = fmax(a, b);
  return top == -INFINITY ? top : top + log1p(exp(fmin(a, b) - top));
}

/* The end of the tree to which the subtree is added: 0 left, 1 right. */
static int side(const Chain *c) { return c->direction > 0; }

/* ---- turns ----------------------------------------------------------------------------------- */

/* rho' first and rho' last, for rho = sum_k coef[k] vectors[k]. */
static bool turns(const double *const *vectors, const double *coef, int n, const double *first,
                  const double *last, size_t dim) {
  double a = 0, b = 0;
  for (size_t i = 0; i < dim; i++) {
    double rho = 0;
    for (int k = 0; k < n; k++) rho += coef[k] * vectors[k][i];
    a += rho * first[i];
    b += rho * last[i];
  }
  return !(a > 0 && b > 0);
}

/* A subtree from the leaf in `slot` to the present one; its right half, of more than one leaf,
 * begins in the next slot. start_rho holds the sums up to and with their leaf. */
static bool stretch_turns(const Chain *c, size_t slot, bool halves) {
  size_t dim = c->dim;
  const double *r = c->at.r, *first = c->start_r + slot * dim, *sum = c->start_rho + slot * dim;
  if (turns((const double *[]){c->sub_rho, sum, first}, (double[]){1, -1, 1}, 3, first, r, dim))
    return true;
  if (!halves) return false;
  const double *mid = first + dim, *mid_sum = sum + dim, *before = c->before_r + (slot + 1) * dim;
  return turns((const double *[]){mid_sum, sum, first}, (double[]){1, -1, 1}, 3, first, mid, dim) ||
         turns((const double *[]){c->sub_rho, mid_sum, mid, before}, (double[]){1, -1, 1, 1}, 4,
               before, r, dim);
}

/* The leaf that was just reached: the subtrees it completes, or a checkpoint where it begins some.
 */
static bool leaf_turns(Chain *c) {
  size_t slot = (size_t)__builtin_popcountl((unsigned long)c->leaf >> 1), dim = c->dim;
  if (c->leaf % 2 == 0) {
    memcpy(c->start_r + slot * dim, c->at.r, dim * sizeof(double));
    memcpy(c->start_rho + slot * dim, c->sub_rho, dim * sizeof(double));
    memcpy(c->before_r + slot * dim, c->last_r, dim * sizeof(double));
    return false;
  }
  size_t ones = (size_t)__builtin_ctzl(~(unsigned long)c->leaf);
  for (size_t k = 0; k < ones; k++)
    if (stretch_turns(c, slot - k, k > 0)) return true;
  return false;
}

/* The whole tree with the finished subtree. Its near end was the tree's end before. */
static bool tree_turns(const Chain *c) {
  const double *far = c->ends[!side(c)].r, *near = c->ends[side(c)].r, *first = c->start_r;
  double one[] = {1, 1};
  return turns((const double *[]){c->rho, c->sub_rho}, one, 2, far, c->at.r, c->dim) ||
         turns((const double *[]){c->rho, first}, one, 2, far, first, c->dim) ||
         turns((const double *[]){c->sub_rho, near}, one, 2, near, c->at.r, c->dim);
}

/* ---- the tree -------------------------------------------------------------------------------- */

static void begin_subtree(Chain *c) {
  c->direction = rngs_uniform(&c->rng) < 0.5 ? -1 : 1;
  copy_place(&c->at, &c->ends[side(c)], c->dim);
  memset(c->sub_rho, 0, c->dim * sizeof *c->sub_rho);
  c->sub_log_weight = -INFINITY;
  c->leaf = 0;
  chain_leap(c);
}

static void begin(Chain *c) {
  size_t bytes = c->dim * sizeof(double);
  chain_kick(c);
  copy_place(&c->ends[0], &c->at, c->dim);
  copy_place(&c->ends[1], &c->at, c->dim);
  memcpy(c->rho, c->at.r, bytes);
  c->log_weight = 0;
  c->depth = 0;
  begin_subtree(c);
}

/* The place becomes the subtree's proposal with its share of the weight. */
static void sample_leaf(Chain *c, double weight) {
  c->sub_log_weight = log_add(c->sub_log_weight, weight);
  if (!(log(rngs_uniform(&c->rng)) < weight - c->sub_log_weight)) return;
  memcpy(c->sub, c->at.theta, c->dim * sizeof *c->sub);
  memcpy(c->sub_gradient, c->at_gradient, c->dim * sizeof *c->sub);
  c->sub_lp = c->at_lp;
  c->sub_energy = c->start_energy - weight;
}

/* The subtree's proposal becomes the draw with the ratio of its weight to the tree's: farther
 * places are preferred. */
static void sample_subtree(Chain *c) {
  if (log(rngs_uniform(&c->rng)) < c->sub_log_weight - c->log_weight) {
    memcpy(c->theta, c->sub, c->dim * sizeof *c->theta);
    memcpy(c->gradient, c->sub_gradient, c->dim * sizeof *c->theta);
    c->lp = c->sub_lp;
    c->energy = c->sub_energy;
  }
  c->log_weight = log_add(c->log_weight, c->sub_log_weight);
}

/* The subtree is whole. True: the tree is, too. */
static bool join(Chain *c) {
  sample_subtree(c);
  bool turned = tree_turns(c);
  copy_place(&c->ends[side(c)], &c->at, c->dim);
  la_axpy(1, c->sub_rho, c->rho, c->dim);
  return ++c->depth == c->most_depth || turned;
}

static bool take(Chain *c) {
  double weight = chain_land(c);
  if (c->divergent) return true;
  sample_leaf(c, weight);
  la_axpy(1, c->at.r, c->sub_rho, c->dim);
  if (leaf_turns(c)) return true;
  memcpy(c->last_r, c->at.r, c->dim * sizeof *c->last_r);
  if (++c->leaf < 1L << c->depth) {
    chain_leap(c);
    return false;
  }
  if (join(c)) return true;
  begin_subtree(c);
  return false;
}

const SamplerCode sampler_nuts = {begin, take};
