/* chain.c: a chain's memory, its leapfrog steps, and the adaptation of their length. */
#include "infer/chain.h"

#include "num/linalg.h"

#include <math.h>
#include <string.h>

static const struct {
  const char *name;
  const SamplerCode *code;
  double accept;
} rows[] = {
#define SAMPLER(id, name, accept) {name, &sampler_##id, accept},
#include "infer/samplers.def"
#undef SAMPLER
};

const SamplerCode *sampler_code(SamplerId id) { return rows[id].code; }
const char *sampler_name(SamplerId id) { return rows[id].name; }
double sampler_accept(SamplerId id) { return rows[id].accept; }

/* ---- memory ---------------------------------------------------------------------------------- */

/* The vectors of a chain, each dim numbers, and where they belong. */
Chain *chain_make(Arena *a, const Metric *metric, long depth, uint64_t seed, uint64_t number) {
  Chain *c = NEW(a, Chain);
  size_t dim = c->dim = metric->dim, room = (size_t)depth * dim;
  c->most_depth = depth;
  c->pace = 1;
  c->metric = metric;
  c->key = rng_make(seed, 2 * number + 1);
  c->rng = rngs_make(seed, 2 * number + 2);
  double **vectors[] = {&c->theta,         &c->gradient,      &c->at.theta,      &c->at.r,
                        &c->at.force,      &c->at_gradient,   &c->ends[0].theta, &c->ends[0].r,
                        &c->ends[0].force, &c->ends[1].theta, &c->ends[1].r,     &c->ends[1].force,
                        &c->rho,           &c->sub_rho,       &c->from,          &c->sub,
                        &c->sub_gradient,  &c->last_r};
  double **trees[] = {&c->start_r, &c->start_rho, &c->before_r};
  size_t n = sizeof vectors / sizeof *vectors, m = sizeof trees / sizeof *trees;
  c->nmemory = n * dim + m * room;
  double *at = c->memory = NEW_ARRAY(a, double, c->nmemory + 1);
  for (size_t k = 0; k < n; k++, at += dim) *vectors[k] = at;
  for (size_t k = 0; k < m; k++, at += room) *trees[k] = at;
  return c;
}

void chain_room(Arena *a, Chain *c, size_t room) {
  c->draws = NEW_ARRAY(a, double, room * c->dim + 1);
  c->stats = NEW_ARRAY(a, DrawStats, room + 1);
  c->room = room;
  c->ndraws = 0;
}

void chain_more_room(Arena *a, Chain *c, size_t room) {
  const double *draws = c->draws;
  const DrawStats *stats = c->stats;
  size_t n = c->ndraws;
  chain_room(a, c, room);
  memcpy(c->draws, draws, n * c->dim * sizeof *draws);
  memcpy(c->stats, stats, n * sizeof *stats);
  c->ndraws = n;
}

void chain_state(Chain *c, Archive *a) {
  double *numbers[] = {&c->step,
                       &c->trajectory,
                       &c->pace,
                       &c->adaptation.mu,
                       &c->adaptation.gap,
                       &c->adaptation.log_mean,
                       &c->adaptation.count,
                       &c->lp,
                       &c->energy,
                       &c->at_lp,
                       &c->direction,
                       &c->start_energy,
                       &c->accept_sum,
                       &c->sub_lp,
                       &c->sub_energy,
                       &c->log_weight,
                       &c->sub_log_weight};
  long *counts[] = {&c->transitions, &c->left,  &c->diverged, &c->counted_from,
                    &c->leapfrogs,   &c->steps, &c->depth,    &c->leaf};
  for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) archive_double(a, numbers[k]);
  for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) archive_long(a, counts[k]);
  archive_bool(a, &c->adapting);
  archive_bool(a, &c->divergent);
  archive_word(a, &c->rng.next);
  archive_word(a, &c->rng.spare);
  archive_doubles(a, c->memory, c->nmemory);
  archive_count(a, &c->ndraws, c->room);
  archive_doubles(a, c->draws, c->ndraws * c->dim);
  archive_doubles(a, (double *)c->stats, c->ndraws * DRAW_STATS);
}

/* ---- steps ----------------------------------------------------------------------------------- */

void chain_kick(Chain *c) {
  rng_fill_normal(c->key, 0, (uint64_t)c->transitions, c->at.r, c->dim);
  memcpy(c->at.theta, c->theta, c->dim * sizeof *c->theta);
  metric_force(c->metric, c->gradient, c->at.force);
  c->start_energy = 0.5 * la_dot(c->at.r, c->at.r, c->dim) - c->lp;
  c->energy = c->start_energy;
  c->accept_sum = 0;
  c->leapfrogs = 0;
  c->direction = 1;
  c->divergent = false;
}

void chain_leap(Chain *c) {
  double step = c->direction * c->pace * c->step;
  la_axpy(0.5 * step, c->at.force, c->at.r, c->dim);
  metric_move(c->metric, step, c->at.r, c->at.theta);
}

double chain_land(Chain *c) {
  const double lost = -1000; /* as in Stan */
  metric_force(c->metric, c->at_gradient, c->at.force);
  la_axpy(0.5 * c->direction * c->pace * c->step, c->at.force, c->at.r, c->dim);
  double weight = c->start_energy - (0.5 * la_dot(c->at.r, c->at.r, c->dim) - c->at_lp);
  c->leapfrogs++;
  c->divergent = !(weight > lost);
  if (c->divergent) return -INFINITY;
  c->accept_sum += weight > 0 ? 1 : exp(weight);
  return weight;
}

/* ---- adaptation ------------------------------------------------------------------------------ */

double step_adapt(StepAdaptation *s, double target, double accept) {
  const double gamma = 0.05, t0 = 10, kappa = 0.75;
  double n = ++s->count, eta = pow(n, -kappa);
  s->gap += ((target - accept) - s->gap) / (n + t0);
  double x = s->mu - sqrt(n) / gamma * s->gap;
  s->log_mean = eta * x + (1 - eta) * s->log_mean;
  return exp(x);
}

void chain_adapt_from(Chain *c, double step) {
  c->adaptation = (StepAdaptation){.mu = log(2 * step), .log_mean = log(step)};
  c->step = step;
  c->adapting = true;
}

double chain_adapted(const Chain *c) { return exp(c->adaptation.log_mean); }

void chain_keep(Chain *c) {
  double accept = c->leapfrogs ? c->accept_sum / (double)c->leapfrogs : 0;
  if (c->ndraws < c->room) {
    memcpy(c->draws + c->ndraws * c->dim, c->theta, c->dim * sizeof *c->theta);
    c->stats[c->ndraws++] = (DrawStats){.lp = c->lp,
                                        .accept = accept,
                                        .step = c->pace * c->step,
                                        .depth = (double)c->depth,
                                        .leapfrogs = (double)c->leapfrogs,
                                        .divergent = c->divergent,
                                        .energy = c->energy};
  }
  if (c->adapting) c->step = step_adapt(&c->adaptation, c->accept_target, accept);
  c->diverged += c->divergent && c->transitions >= c->counted_from;
  c->transitions++;
  c->left--;
}
