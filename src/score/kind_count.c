/* kind_count.c: kinds of counts: binomial, poisson, neg_binomial_2. They are Panjer's class,
 * p(k + 1) / p(k) = (a + b k) / (k + 1), which has one mode, and d log p(k) / d par[0] = (k - mean)
 * slope: whatever a mixture of them is asked for is made of these, for all alike. Masses are
 * Loader's saddle-point forms (2000), exact to a few ulp at any size. kind_int.h says what the
 * functions are. */
#include "score/count_int.h"

#include "num/special.h"

#include <math.h>
#include <string.h>

/* Parameters on the boundary are moved a hair inside, where p(k) (k - mean) slope has the right
 * limit without 0/0. */
static double inside(double x, double top) { return fmin(fmax(x, 1e-280), top); }

/* x log(x / m) + m - x >= 0, without cancellation near x = m (Loader's bd0). */
static double deviance(double x, double m) {
  double d = x - m, v = d / (x + m);
  if (fabs(v) >= 0.1) return x * log(x / m) - d;
  double s = d * v, e = 2 * x * v;
  for (int k = 1; k < 40; k++) {
    double next = s + (e *= v * v) / (2 * k + 1);
    if (next == s) break;
    s = next;
  }
  return s;
}

/* The x of Bernstein's bound P(X >= mean + x) <= exp(-x^2 / (2 (variance + x / 3))) = exp(-nats),
 * which binomial and poisson have. */
static double bernstein(double nats, double variance) {
  double third = nats / 3;
  return third + sqrt(third * third + 2 * nats * variance);
}

/* x successes in n trials, x and n not necessarily whole; q = 1 - p */
static double binomial_log_pmf(double x, double n, double p, double q) {
  if (x == 0) return p < 0.1 ? n * log1p(-p) : n * log(q);
  if (x == n) return q < 0.1 ? n * log1p(-q) : n * log(p);
  return num_stirling(n) - num_stirling(x) - num_stirling(n - x) - deviance(x, n * p) -
         deviance(n - x, n * q) + 0.5 * log(n / (2 * PI * x * (n - x)));
}

/* ---- any of them ----------------------------------------------------------------------------- */

Count count_lane(const Mixture *q, size_t j) {
  double par[KIND_PARAMETERS];
  const struct CountKind *kind = kind_code(q->kind)->count;
  mixture_lane(q, j, par);
  Count c = kind->make(par, q->size);
  c.kind = kind;
  return c;
}

Range count_range(const Count *c) { return c->kind->range(c, 34.5); }

/* p(k + 1) >= p(k) while k <= (a - 1) / (1 - b) */
static double mode(const Count *c) {
  return fmin(c->n, fmax(0, floor((c->a - 1) / (1 - c->b)) + 1));
}

static double pmf_at(const Count *c, double k) {
  return k >= 0 && k <= c->n ? c->kind->pmf(c, k) : 0;
}

/* By recursion from the largest, which is next to the mode. All quotients come first: they do not
 * wait for each other. */
void count_block(const Count *c, double k, size_t n, double *p) {
  double top = fmin(fmax(mode(c), k), k + (double)(n - 1)), a = c->a, b = c->b;
  int at = (int)(top - k), end = (int)n;
  for (int i = 0; i < at; i++) {
    double m = k + i;
    p[i] = m < 0 ? 0 : (m + 1) / (a + b * m);
  }
  for (int i = at + 1; i < end; i++) {
    double m = k + i - 1, up = a + b * m;
    p[i] = (up > 0 ? up : 0) / (m + 1);
  }
  p[at] = pmf_at(c, top);
  for (int i = at; i-- > 0;) p[i] *= p[i + 1];
  for (int i = at + 1; i < end; i++) p[i] *= p[i - 1];
}

static void count_support(const Mixture *q, double *lo, double *hi) {
  *lo = (double)INFINITY;
  *hi = 0;
  for (size_t j = 0; j < q->M; j++) {
    Count c = count_lane(q, j);
    Range r = count_range(&c);
    *lo = fmin(*lo, r.lo);
    *hi = fmax(*hi, r.hi);
  }
}

/* The part of k .. k + n - 1 that is in the range of a lane: where it begins; *end: where it ends.
 */
static size_t part_of(const Count *c, double k, size_t n, size_t *end) {
  Range r = count_range(c);
  double from = fmax(r.lo - k, 0), to = fmin(r.hi - k + 1, (double)n);
  *end = to > from ? (size_t)to : 0;
  return to > from ? (size_t)from : 0;
}

static void count_pmf(const ScoreCase *c, double k, size_t n, double *p) {
  double one[PMF_BLOCK];
  memset(p, 0, n * sizeof *p);
  for (size_t j = 0; j < c->q.M; j++) {
    Count count = count_lane(&c->q, j);
    double w = mixture_weight(&c->q, j);
    size_t end, from = part_of(&count, k, n, &end);
    if (n == 1) from = 0, end = 1; /* a probability by itself keeps its digits */
    if (from == end) continue;
    count_block(&count, k + (double)from, end - from, one);
    for (size_t i = from; i < end; i++) p[i] += w * one[i - from];
  }
}

/* psi(k + size) - psi(size) + log(size / (mu + size)) + (mu - k) / (mu + size) */
double count_by_size(const Count *c, double k) {
  double s = c->size, all = c->mean + s;
  return num_digamma(k + s) - num_digamma(s) - log1p(c->mean / s) + (c->mean - k) / all;
}

void count_add_sums(const Mixture *q, size_t j, const Count *c, const CountSums *s,
                    const ScoreAdjoint *adj) {
  double w = mixture_weight(q, j);
  if (adj->par[0]) adj->par[0][j] += w * c->slope * s->moment;
  if (adj->par[1]) adj->par[1][j] += w * s->by_size;
  if (adj->weights) adj->weights[j] += s->p;
}

static void count_pmf_adjoint(const ScoreCase *c, double k, size_t n, const double *g,
                              const ScoreAdjoint *adj) {
  double one[PMF_BLOCK];
  for (size_t j = 0; j < c->q.M; j++) {
    Count count = count_lane(&c->q, j);
    CountSums s = {0};
    size_t end, from = part_of(&count, k, n, &end);
    if (n == 1) from = 0, end = 1;
    if (from == end) continue;
    count_block(&count, k + (double)from, end - from, one);
    double d = adj->par[1] ? count_by_size(&count, k + (double)from) : 0,
           all = count.mean + count.size;
    for (size_t i = from; i < end; i++) {
      double at = k + (double)i, gp = g[i] * one[i - from];
      s.p += gp;
      s.moment += gp * (at - count.mean);
      if (adj->par[1]) s.by_size += gp * d, d += 1 / (at + count.size) - 1 / all;
    }
    count_add_sums(&c->q, j, &count, &s, adj);
  }
}

/* ---- binomial(n, p) -------------------------------------------------------------------------- */

static Count binomial_make(const double *par, size_t trials) {
  double p = inside(par[0], 1 - 0x1p-53), n = (double)trials, odds = p / (1 - p);
  return (Count){.n = n, .a = n * odds, .b = -odds, .mean = n * p, .slope = 1 / (p * (1 - p))};
}
static double binomial_pmf(const Count *c, double k) {
  double p = c->mean / c->n;
  return c->n == 0 ? 1 : exp(binomial_log_pmf(k, c->n, p, -c->b > 1 ? p / -c->b : 1 - p));
}
static Range binomial_range(const Count *c, double nats) {
  double x = bernstein(nats, c->mean * (1 - c->mean / c->n));
  return (Range){fmax(0, floor(c->mean - x)), fmin(c->n, ceil(c->mean + x))};
}
static Moments binomial_moments(const double *p, size_t size) {
  double n = (double)size;
  return (Moments){n * p[0], n * p[0] * (1 - p[0]), {n}, {n * (1 - 2 * p[0])}};
}
static double binomial_sample(const double *p, size_t size, RngStream *r) {
  return (double)rngs_binomial(r, (int64_t)size, p[0]);
}

const KindCode kind_binomial = {
    .moments = binomial_moments,
    .sample = binomial_sample,
    .support = count_support,
    .pmf = count_pmf,
    .pmf_adjoint = count_pmf_adjoint,
    .count = &(const struct CountKind){binomial_make, binomial_pmf, binomial_range, true},
};

/* ---- poisson(mu) ----------------------------------------------------------------------------- */

static Count poisson_make(const double *par, size_t trials) {
  double mu = inside(par[0], (double)INFINITY);
  (void)trials;
  return (Count){.n = (double)INFINITY, .a = mu, .mean = mu, .slope = 1 / mu};
}
static double poisson_pmf(const Count *c, double k) {
  double mu = c->mean;
  return exp(k == 0 ? -mu : -num_stirling(k) - deviance(k, mu) - 0.5 * log(2 * PI * k));
}
/* P(X <= mean - x) <= exp(-x^2 / (2 variance)) below */
static Range poisson_range(const Count *c, double nats) {
  double mu = c->mean;
  return (Range){fmax(0, floor(mu - sqrt(2 * nats * mu))), ceil(mu + bernstein(nats, mu))};
}
static Moments poisson_moments(const double *p, size_t size) {
  (void)size;
  return (Moments){p[0], p[0], {1}, {1}};
}
static double poisson_sample(const double *p, size_t size, RngStream *r) {
  (void)size;
  return (double)rngs_poisson(r, p[0]);
}

const KindCode kind_poisson = {
    .moments = poisson_moments,
    .sample = poisson_sample,
    .support = count_support,
    .pmf = count_pmf,
    .pmf_adjoint = count_pmf_adjoint,
    .count = &(const struct CountKind){poisson_make, poisson_pmf, poisson_range, false},
};

/* ---- neg_binomial_2(mu, size) ---------------------------------------------------------------- */

static Count neg_binomial_make(const double *par, size_t trials) {
  double mu = inside(par[0], (double)INFINITY), size = par[1], q = mu / (mu + size);
  (void)trials;
  return (Count){.n = (double)INFINITY,
                 .a = size * q,
                 .b = q,
                 .mean = mu,
                 .slope = (1 - q) / mu,
                 .size = size};
}
static double neg_binomial_pmf(const Count *c, double k) {
  double s = c->size;
  return s / (s + k) * exp(binomial_log_pmf(s, s + k, s / (s + c->mean), c->b));
}
/* A poisson whose rate is a gamma(size), which is sub-gamma with variance size and scale 1. */
static Range neg_binomial_range(const Count *c, double nats) {
  nats += 0.7;
  double low = c->mean * fmax(0, 1 - sqrt(2 * nats / c->size)),
         high = c->mean * (1 + sqrt(2 * nats / c->size) + nats / c->size);
  return (Range){fmax(0, floor(low - sqrt(2 * nats * low))), ceil(high + bernstein(nats, high))};
}
static Moments neg_binomial_moments(const double *p, size_t size) {
  double r = p[0] / p[1];
  (void)size;
  return (Moments){p[0], p[0] * (1 + r), {1, 0}, {1 + 2 * r, -r * r}};
}
static double neg_binomial_sample(const double *p, size_t size, RngStream *r) {
  (void)size;
  return (double)rngs_neg_binomial_2(r, p[0], p[1]);
}

const KindCode kind_neg_binomial_2 = {
    .moments = neg_binomial_moments,
    .sample = neg_binomial_sample,
    .support = count_support,
    .pmf = count_pmf,
    .pmf_adjoint = count_pmf_adjoint,
    .count =
        &(const struct CountKind){neg_binomial_make, neg_binomial_pmf, neg_binomial_range, false},
};
