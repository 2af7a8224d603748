/* kind_category.c: kinds of outcome that are one of a few: bernoulli (0, 1) and categorical (1 ..
 * size). The probabilities of a mixture are the means of the lanes'. kind_int.h says what the
 * functions are. */
#include "score/predictive_mixture.h"

/* ---- bernoulli ------------------------------------------------------------------------------- */

static Moments bernoulli_moments(const double *p, size_t size) {
  (void)size;
  return (Moments){p[0], p[0] * (1 - p[0]), {1}, {1 - 2 * p[0]}};
}
static double bernoulli_sample(const double *p, size_t size, RngStream *r) {
  (void)size;
  return (double)rngs_bernoulli(r, p[0]);
}

static void bernoulli_support(const Mixture *q, double *lo, double *hi) {
  (void)q;
  *lo = 0;
  *hi = 1;
}

static void bernoulli_pmf(const ScoreCase *c, double k, size_t n, double *p) {
  double one = mixture_mean(c, c->q.par[0]);
  for (size_t i = 0; i < n; i++) p[i] = k + (double)i == 1 ? one : k + (double)i == 0 ? 1 - one : 0;
}

/* by[0], by[1] = d S / d P(Y = 0), d S / d P(Y = 1) */
static void bernoulli_pmf_adjoint(const ScoreCase *c, double k, size_t n, const double *g,
                                  const ScoreAdjoint *adj) {
  const double *p = c->q.par[0];
  double by[2] = {0, 0};
  for (size_t i = 0; i < n; i++)
    if (k + (double)i == 0 || k + (double)i == 1) by[k + (double)i == 1] = g[i];
  for (size_t j = 0; adj->par[0] && j < c->q.M; j++)
    adj->par[0][j] += (by[1] - by[0]) * mixture_weight(&c->q, j);
  for (size_t j = 0; adj->weights && j < c->q.M; j++)
    adj->weights[j] += by[0] * (1 - p[j]) + by[1] * p[j];
}

const KindCode kind_bernoulli = {
    .moments = bernoulli_moments,
    .sample = bernoulli_sample,
    .support = bernoulli_support,
    .pmf = bernoulli_pmf,
    .pmf_adjoint = bernoulli_pmf_adjoint,
};

/* ---- categorical ----------------------------------------------------------------------------- */

/* Categories count as the numbers 1, 2, ...; derivatives by a vector of probabilities are not among
 * the moments. */
static Moments categorical_moments(const double *p, size_t size) {
  Moments m = {0};
  for (size_t k = 0; k < size; k++) m.mean += (double)(k + 1) * p[k];
  for (size_t k = 0; k < size; k++) {
    double off = (double)(k + 1) - m.mean;
    m.variance += off * off * p[k];
  }
  return m;
}
static double categorical_sample(const double *p, size_t size, RngStream *r) {
  return (double)(rngs_categorical(r, p, size) + 1);
}

static void categorical_support(const Mixture *q, double *lo, double *hi) {
  *lo = 1;
  *hi = (double)q->size;
}

/* Category k is row k - 1 of par[0]. */
static const double *category(const Mixture *q, double k) {
  return q->par[0] + (size_t)(k - 1) * q->ld;
}

static void categorical_pmf(const ScoreCase *c, double k, size_t n, double *p) {
  for (size_t i = 0; i < n; i++) p[i] = mixture_mean(c, category(&c->q, k + (double)i));
}

static void categorical_pmf_adjoint(const ScoreCase *c, double k, size_t n, const double *g,
                                    const ScoreAdjoint *adj) {
  const Mixture *q = &c->q;
  for (size_t i = 0; i < n; i++) {
    const double *p = category(q, k + (double)i);
    double *out = adj->par[0] ? adj->par[0] + (p - q->par[0]) : NULL;
    for (size_t j = 0; out && j < q->M; j++) out[j] += g[i] * mixture_weight(q, j);
    for (size_t j = 0; adj->weights && j < q->M; j++) adj->weights[j] += g[i] * p[j];
  }
}

const KindCode kind_categorical = {
    .moments = categorical_moments,
    .sample = categorical_sample,
    .vector = true,
    .support = categorical_support,
    .pmf = categorical_pmf,
    .pmf_adjoint = categorical_pmf_adjoint,
};
