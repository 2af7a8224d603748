/* sample.c: exact samplers on an RngStream. */
#include <math.h>

#include "num/rng.h"
#include "num/special.h"

/* ---- continuous ------------------------------------------------------------------------------ */

double rngs_exponential(RngStream *r) { return -log(rngs_uniform(r)); }

/* Marsaglia & Tsang 2000, shape >= 1. */
static double gamma_large(RngStream *r, double shape) {
  double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
  for (;;) {
    double x = rngs_normal(r), t = 1 + c * x, v = t * t * t;
    if (t <= 0) continue;
    if (log(rngs_uniform(r)) < 0.5 * x * x + d * (1 - v + log(v))) return d * v;
  }
}

/* gamma(a) = gamma(a+1) U^(1/a), on the log scale. */
double rngs_log_gamma(RngStream *r, double shape) {
  if (!(shape > 0) || isinf(shape)) return shape > 0 ? shape : (double)NAN;
  if (shape >= 1) return log(gamma_large(r, shape));
  return log(gamma_large(r, shape + 1)) + log(rngs_uniform(r)) / shape;
}

double rngs_gamma(RngStream *r, double shape) {
  return shape >= 1 && !isinf(shape) ? gamma_large(r, shape) : exp(rngs_log_gamma(r, shape));
}

/* x/(x+y) of two gammas, which may both underflow: through their logs. */
double rngs_beta(RngStream *r, double a, double b) {
  double lx = rngs_log_gamma(r, a), ly = rngs_log_gamma(r, b);
  return num_inv_logit(lx - ly);
}

double rngs_chi_square(RngStream *r, double nu) { return 2 * rngs_gamma(r, 0.5 * nu); }
double rngs_student_t(RngStream *r, double nu) {
  double z = rngs_normal(r);
  return isinf(nu) ? z : z * exp(0.5 * (log(0.5 * nu) - rngs_log_gamma(r, 0.5 * nu)));
}
double rngs_cauchy(RngStream *r) {
  double u = rngs_uniform(r) - 0.5;
  return fabs(u) < 0.25 ? tan(M_PI * u) : copysign(1 / tan(M_PI * (0.5 - fabs(u))), u);
}
double rngs_logistic(RngStream *r) { return num_logit(rngs_uniform(r)); }
double rngs_double_exponential(RngStream *r) {
  double u = rngs_uniform(r);
  return u < 0.5 ? log(2 * u) : -log(2 * (1 - u));
}
double rngs_gumbel(RngStream *r) { return -log(rngs_exponential(r)); }
double rngs_weibull(RngStream *r, double alpha) { return pow(rngs_exponential(r), 1 / alpha); }

/* delta |z1| + sqrt(1 - delta^2) z2, delta = alpha/sqrt(1 + alpha^2) (Azzalini 1985). */
double rngs_skew_normal(RngStream *r, double alpha) {
  double s = sqrt(1 + alpha * alpha), z1 = fabs(rngs_normal(r)), z2 = rngs_normal(r);
  return isinf(s) ? copysign(z1, alpha) : (alpha * z1 + z2) / s;
}

/* Best & Fisher 1979: rejection from a wrapped Cauchy; for tiny kappa the uniform itself, for huge
 * kappa the normal limit. */
double rngs_von_mises(RngStream *r, double mu, double kappa) {
  if (isnan(kappa)) return kappa;
  if (kappa < 1e-8) return mu + M_PI * (2 * rngs_uniform(r) - 1);
  if (kappa > 1e8) return mu + rngs_normal(r) / sqrt(kappa);
  double tau = 1 + sqrt(1 + 4 * kappa * kappa), rho = (tau - sqrt(2 * tau)) / (2 * kappa),
         s = (1 + rho * rho) / (2 * rho);
  for (;;) {
    double z = cos(M_PI * rngs_uniform(r)), f = (1 + s * z) / (s + z), c = kappa * (s - f),
           u = rngs_uniform(r);
    if (c * (2 - c) > u || log(c / u) + 1 - c >= 0) {
      double angle = acos(fmin(1, fmax(-1, f)));
      return rngs_uniform(r) < 0.5 ? mu - angle : mu + angle;
    }
  }
}

/* ---- discrete -------------------------------------------------------------------------------- */

int64_t rngs_bernoulli(RngStream *r, double p) { return rngs_uniform(r) < p; }

/* lambda < 10: how many exponential gaps fit into lambda. */
static int64_t poisson_small(RngStream *r, double lambda) {
  double limit = exp(-lambda), prod = rngs_uniform(r);
  int64_t k = 0;
  for (; prod > limit; k++) prod *= rngs_uniform(r);
  return k;
}

/* Hoermann 1993, transformed rejection with squeeze (PTRS), lambda >= 10. */
static int64_t poisson_large(RngStream *r, double lambda) {
  double b = 0.931 + 2.53 * sqrt(lambda), a = -0.059 + 0.02483 * b,
         inv_alpha = 1.1239 + 1.1328 / (b - 3.4);
  double vr = 0.9277 - 3.6224 / (b - 2), log_lambda = log(lambda);
  for (;;) {
    double u = rngs_uniform(r) - 0.5, v = rngs_uniform(r), us = 0.5 - fabs(u),
           k = floor((2 * a / us + b) * u + lambda + 0.43);
    if (us >= 0.07 && v <= vr) return (int64_t)k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (log(v * inv_alpha / (a / (us * us) + b)) <= k * log_lambda - lambda - num_lgamma(k + 1))
      return (int64_t)k;
  }
}

int64_t rngs_poisson(RngStream *r, double lambda) {
  if (!(lambda > 0)) return 0;
  if (lambda > 0x1p60) return INT64_C(1) << 60; /* as near as counts of this kind come */
  return lambda < 10 ? poisson_small(r, lambda) : poisson_large(r, lambda);
}

/* n p < 10: waiting times between successes are geometric (Devroye 1986, X.4.3). */
static int64_t binomial_small(RngStream *r, int64_t n, double p) {
  double q = log1p(-p), sum = 0;
  for (int64_t k = 0;; k++) {
    sum += floor(log(rngs_uniform(r)) / q) + 1;
    if (sum > (double)n) return k;
  }
}

/* Hoermann 1993, BTRS, p <= 1/2, n p >= 10. */
static int64_t binomial_large(RngStream *r, int64_t n, double p) {
  double N = (double)n, sd = sqrt(N * p * (1 - p)), b = 1.15 + 2.53 * sd,
         a = -0.0873 + 0.0248 * b + 0.01 * p, c = N * p + 0.5;
  double vr = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * sd, odds = log(p / (1 - p)),
         m = floor((N + 1) * p);
  double h = num_lgamma(m + 1) + num_lgamma(N - m + 1);
  for (;;) {
    double u = rngs_uniform(r) - 0.5, v = rngs_uniform(r), us = 0.5 - fabs(u),
           k = floor((2 * a / us + b) * u + c);
    if (k < 0 || k > N) continue;
    if (us >= 0.07 && v <= vr) return (int64_t)k;
    if (log(v * alpha / (a / (us * us) + b)) <=
        h - num_lgamma(k + 1) - num_lgamma(N - k + 1) + (k - m) * odds)
      return (int64_t)k;
  }
}

int64_t rngs_binomial(RngStream *r, int64_t n, double p) {
  if (n <= 0 || !(p > 0)) return 0;
  if (p >= 1) return n;
  if (p > 0.5) return n - rngs_binomial(r, n, 1 - p);
  return (double)n * p < 10 ? binomial_small(r, n, p) : binomial_large(r, n, p);
}

int64_t rngs_beta_binomial(RngStream *r, int64_t n, double a, double b) {
  return rngs_binomial(r, n, rngs_beta(r, a, b));
}
int64_t rngs_neg_binomial(RngStream *r, double alpha, double beta) {
  return rngs_poisson(r, rngs_gamma(r, alpha) / beta);
}
int64_t rngs_neg_binomial_2(RngStream *r, double mu, double phi) {
  return rngs_poisson(r, isinf(phi) ? mu : rngs_gamma(r, phi) * (mu / phi));
}

/* Inversion outwards from the mode: the mass of k is (a over k)(b over n-k)/(a+b over n). */
int64_t rngs_hypergeometric(RngStream *r, int64_t n, int64_t a, int64_t b) {
  int64_t lo = n > b ? n - b : 0, hi = n < a ? n : a;
  double A = (double)a, B = (double)b, N = (double)n;
  int64_t mode = (int64_t)floor((N + 1) * (A + 1) / (A + B + 2));
  mode = mode < lo ? lo : mode > hi ? hi : mode;
  double K = (double)mode,
         top = exp(num_lchoose(A, K) + num_lchoose(B, N - K) - num_lchoose(A + B, N));
  double u = rngs_uniform(r), up = top, down = top;
  if ((u -= top) <= 0) return mode;
  for (int64_t i = mode + 1, j = mode - 1; i <= hi || j >= lo; i++, j--) {
    if (!(fmax(up, down) > 1e-300)) break;
    if (i <= hi) {
      double k = (double)i;
      up *= (A - k + 1) * (N - k + 1) / (k * (B - N + k));
      if ((u -= up) <= 0) return i;
    }
    if (j >= lo) {
      double k = (double)j + 1;
      down *= k * (B - N + k) / ((A - k + 1) * (N - k + 1));
      if ((u -= down) <= 0) return j;
    }
  }
  return mode; /* rounding left a crumb of u */
}

int64_t rngs_categorical(RngStream *r, const double *p, size_t k) {
  double sum = 0, acc = 0;
  for (size_t i = 0; i < k; i++) sum += p[i];
  double u = rngs_uniform(r) * sum;
  for (size_t i = 0; i < k; i++)
    if ((acc += p[i]) >= u && p[i] > 0) return (int64_t)i;
  return (int64_t)k - 1;
}

/* The largest of logit + Gumbel noise. */
int64_t rngs_categorical_logit(RngStream *r, const double *logit, size_t k) {
  int64_t best = 0;
  double top = -(double)INFINITY;
  for (size_t i = 0; i < k; i++) {
    double g = logit[i] + rngs_gumbel(r);
    if (g > top) top = g, best = (int64_t)i;
  }
  return best;
}

/* One binomial after the other, of what is left. */
void rngs_multinomial(RngStream *r, int64_t n, const double *p, size_t k, int64_t *out) {
  double rest = 0;
  for (size_t i = 0; i < k; i++) rest += p[i];
  for (size_t i = 0; i < k; i++) {
    out[i] = i + 1 == k ? n : rngs_binomial(r, n, rest > 0 ? fmin(1, p[i] / rest) : 0);
    n -= out[i];
    rest -= p[i];
  }
}

/* Gammas divided by their sum, through logs so that tiny alphas work. */
void rngs_dirichlet(RngStream *r, const double *alpha, size_t k, double *out) {
  for (size_t i = 0; i < k; i++) out[i] = rngs_log_gamma(r, alpha[i]);
  double lse = num_log_sum_exp(out, k);
  for (size_t i = 0; i < k; i++) out[i] = exp(out[i] - lse);
}

/* Fisher and Yates; the modulus' bias is below n/2^64. */
void rngs_shuffle(RngStream *r, size_t *index, size_t n) {
  for (size_t i = n; i > 1; i--) {
    size_t j = (size_t)(rngs_bits(r) % i), t = index[i - 1];
    index[i - 1] = index[j];
    index[j] = t;
  }
}
