/* crps.c: minus the continuous ranked probability score, CRPS = int (F(t) - 1{y <= t})^2 dt = E|Y -
 * y| - E|Y - Y'| / 2.
 *
 * Continuous kinds: the first term in closed form per lane, the second in spread.c. Accuracy about
 * 1e-11 relative for the normal kind whichever way spread.c goes. Without a mean (student_t with nu
 * <= 1, cauchy) the CRPS is infinite and the score -inf. Discrete kinds: sum_k (F(k) - 1{y <=
 * k})^2, for counts in count_sums.c; categories are taken as ordered. */
#include "score/count_sums.h"
#include "score/spread.h"

#include "num/simd.h"

#include <math.h>

/* ---- continuous ------------------------------------------------------------------------------ */

/* Adds g d/d(par, w) of sum_j w_j E|Y_j - y|, and returns the sum. */
static double mean_gap(const ScoreCase *c, double g, const ScoreAdjoint *adj) {
  const KindCode *p = kind_code(c->q.kind);
  double sum = 0, par[KIND_PARAMETERS], d[KIND_PARAMETERS];
  int n = kind_parameters(c->q.kind);
  bool back = adj->par[0] || adj->par[1] || adj->par[2];
  for (size_t j = 0; j < c->q.M; j++) {
    double w = mixture_weight(&c->q, j);
    mixture_lane(&c->q, j, par);
    double gap = p->gap(par, c->y, back ? d : NULL);
    sum += w * gap;
    for (int k = 0; k < n; k++)
      if (adj->par[k]) adj->par[k][j] += g * w * d[k];
    if (adj->weights) adj->weights[j] += g * gap;
  }
  return sum;
}

/* The same for normals over all lanes at once: A(d, s) = d (2 Phi - 1) + 2 s phi; d/dmu = 1 - 2
 * Phi, d/ds = 2 phi. */
static double mean_gap_normal(const ScoreCase *c, double g, const ScoreAdjoint *adj) {
  const double *mu = c->q.par[0], *s = c->q.par[1];
  size_t n = score_padded(c->q.M);
  double *z = mixture_space(c), *P = z + n, *e = P + n;
  for (size_t j = 0; j < n; j += VL) {
    vd x = (c->y - v_load(mu + j)) / v_load(s + j);
    vd near = v_min(v_splat(30), v_max(v_splat(-30), x)); /* no subnormal numbers, which are slow */
    v_store(z + j, x);
    v_store(P + j, near);
    v_store(e + j, -0.5 * near * near);
  }
  c->k->forward[IR_PHI](P, (const double *const[]){P}, (size_t[]){1}, n);
  c->k->forward[IR_EXP](e, (const double *const[]){e}, (size_t[]){1}, n);
  for (size_t j = 0; j < n; j += VL) {
    vd slope = 2.0 * v_load(P + j) - 1.0, phi = 2 / SQRT_2PI * v_load(e + j);
    v_store(P + j, slope);
    v_store(e + j, phi);
    v_store(z + j, v_load(s + j) * (v_load(z + j) * slope + phi));
  }
  for (size_t j = 0; j < c->q.M; j++) {
    double w = g * mixture_weight(&c->q, j);
    if (adj->par[0]) adj->par[0][j] -= w * P[j];
    if (adj->par[1]) adj->par[1][j] += w * e[j];
    if (adj->weights) adj->weights[j] += g * z[j];
  }
  return mixture_mean(c, z);
}

static double continuous(const ScoreCase *c, const ScoreAdjoint *adj) {
  bool normal = kind_code(c->q.kind)->normal == NORMAL_OUTCOME;
  double gap = normal ? mean_gap_normal(c, -1, adj) : mean_gap(c, -1, adj);
  if (!(gap < (double)INFINITY)) { /* also nan */
    score_clear(c, adj);
    return -gap;
  }
  return mixture_spread(c, SPREAD_CHEAPEST, 1, adj) - gap;
}

/* ---- categories ------------------------------------------------------------------------------ */

/* The last category is certain: its term is 0. */
static double categories(const ScoreCase *c, const ScoreAdjoint *adj) {
  double lo, hi, p, F = 0, sum = 0, slopes = 0;
  mixture_support(c, &lo, &hi);
  for (double k = lo; k < hi; k++) {
    mixture_pmf(c, k, 1, &p);
    double r = (F += p) - (c->y <= k);
    sum += r * r;
    slopes += 2 * r;
  }
  F = 0;
  for (double k = lo; k < hi && (adj->par[0] || adj->weights); k++) {
    mixture_pmf(c, k, 1, &p);
    mixture_pmf_adjoint(c, k, 1, &(double){-slopes}, adj); /* d F of this one and all later ones */
    slopes -= 2 * ((F += p) - (c->y <= k));
  }
  return -sum;
}

double score_crps(const ScoreCase *c, const ScoreAdjoint *adj) {
  score_clear(c, adj);
  if (kind_code(c->q.kind)->count) return count_crps(c, adj);
  return kind_discrete(c->q.kind) ? categories(c, adj) : continuous(c, adj);
}
