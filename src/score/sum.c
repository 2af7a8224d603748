/* sum.c: a weighted sum of scores, sum_k weight_k S_k: proper where its parts are, and strictly so
 * where one of them is. The parts see the same predictive distribution; each writes its derivatives
 * into rooms at the beginning of the scratch, from where they are added up. */
#include "score/predictive_mixture.h"

static size_t padded_simulations(size_t n) { return (n + LANES - 1) / LANES * LANES; }

size_t score_sum_scratch(size_t ld, size_t rows, size_t simulated) {
  return (rows + KIND_PARAMETERS + 1) * ld + padded_simulations(simulated);
}

static size_t simulated(const ScoreCase *c) { return c->nsim * (c->dim ? c->dim : 1); }

/* Rooms for what is asked for; `inner` is the case with the scratch that is left. */
static ScoreAdjoint rooms(const ScoreCase *c, const ScoreAdjoint *adj, ScoreCase *inner) {
  size_t ld = c->q.ld, rows = kind_rows(c->q.kind, c->q.size);
  double *at = c->scratch;
  ScoreAdjoint own = {.ll = adj->ll ? at : NULL, .weights = adj->weights ? at + ld : NULL};
  at += 2 * ld;
  for (int k = 0; k < KIND_PARAMETERS; at += (k == 0 ? rows : 1) * ld, k++)
    own.par[k] = adj->par[k] ? at : NULL;
  own.sim = adj->sim ? at : NULL;
  *inner = *c;
  inner->scratch = at + padded_simulations(simulated(c));
  return own;
}

/* What a part with these flags has derivatives in. */
static ScoreAdjoint of_part(const ScoreAdjoint *all, unsigned needs) {
  ScoreAdjoint own = {.weights = all->weights};
  if (needs & NEEDS_LL) own.ll = all->ll;
  for (int k = 0; needs & NEEDS_KIND && k < KIND_PARAMETERS; k++) own.par[k] = all->par[k];
  if (needs & (NEEDS_SIM | NEEDS_VECTOR_SIM)) own.sim = all->sim;
  return own;
}

static void add(double *to, double weight, const double *from, size_t n) {
  for (size_t j = 0; from && j < n; j++) to[j] += weight * from[j];
}

static void add_part(const ScoreCase *c, double weight, const ScoreAdjoint *from,
                     const ScoreAdjoint *to) {
  size_t n = score_padded(c->q.M), rows = kind_rows(c->q.kind, c->q.size);
  add(to->ll, weight, from->ll, n);
  add(to->weights, weight, from->weights, n);
  add(to->sim, weight, from->sim, simulated(c));
  for (int k = 0; k < KIND_PARAMETERS; k++)
    for (size_t r = 0; from->par[k] && r < (k == 0 ? rows : 1); r++)
      add(to->par[k] + r * c->q.ld, weight, from->par[k] + r * c->q.ld, n);
}

double score_sum(const ScoreCase *c, const ScoreAdjoint *adj) {
  ScoreCase inner;
  ScoreAdjoint all = rooms(c, adj, &inner);
  double sum = 0;
  score_clear(c, adj);
  for (size_t k = 0; k < c->o.nparts; k++) {
    const ScorePart *p = &c->o.parts[k];
    unsigned needs = score_needs(p->id);
    ScoreAdjoint own = of_part(&all, needs);
    inner.hint = needs & KEEPS_HINTS ? c->hint : NULL;
    sum += p->weight * score_of(p->id)(&inner, &own);
    add_part(c, p->weight, &own, adj);
  }
  return sum;
}
