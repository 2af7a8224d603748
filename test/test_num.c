/* test_num.c: special functions, random numbers, Sobol points, linear algebra and statistics. The
 * vector functions are in test_vmath.c.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "num/linalg.h"
#include "num/rng.h"
#include "num/sobol.h"
#include "num/special.h"
#include "num/stats.h"

#if __has_include(<Random123/philox.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wextra"
#include <Random123/philox.h>
#pragma GCC diagnostic pop
#define HAVE_RANDOM123 1
#endif

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- special functions against 20 digits ----------------------------------------------------- */

static double inc_beta_d(double a, double b, double x, int which) {
  double d[3];
  num_inc_beta_d(a, b, x, d, d + 1, d + 2);
  return d[which];
}
static double inc_beta_da(double a, double b, double x) { return inc_beta_d(a, b, x, 0); }
static double inc_beta_db(double a, double b, double x) { return inc_beta_d(a, b, x, 1); }
static double inc_beta_dx(double a, double b, double x) { return inc_beta_d(a, b, x, 2); }
static double beta_dx(double a, double b, double x, int which) {
  double d[2];
  num_beta_dx_dab(a, b, x, d, d + 1);
  return d[which];
}
static double beta_dx_da(double a, double b, double x) { return beta_dx(a, b, x, 0); }
static double beta_dx_db(double a, double b, double x) { return beta_dx(a, b, x, 1); }
static double student_t_d(double t, double nu, int which) {
  double d[2];
  num_student_t_cdf_d(t, nu, d, d + 1);
  return d[which];
}
static double student_t_cdf_dt(double t, double nu) { return student_t_d(t, nu, 0); }
static double student_t_cdf_dnu(double t, double nu) { return student_t_d(t, nu, 1); }
static double bessel_i(double n, double x) { return num_bessel_i((int)n, x); }
static double bessel_k(double n, double x) { return num_bessel_k((int)n, x); }

/* One part in 1e13, times the digits that a value of size e^-l has lost in its log. */
static int reference(const char *name, double got, double want, double a, double b, double c) {
  double e = fabs(got - want) / fabs(want), allowed = 1e-13 * (1 + fabs(log(fabs(want))) / 100);
  if (e <= allowed || got == want) return 0;
  print_error("%s(%g, %g, %g): got %.17g, want %.17g, error %.2g\n", name, a, b, c, got, want, e);
  return 1;
}

static void special_functions(void **unused) {
  (void)unused;
  int bad = 0;
#define REF1(f, a, v) bad += reference(#f, f(a), v, a, 0, 0);
#define REF2(f, a, b, v) bad += reference(#f, f(a, b), v, a, b, 0);
#define REF3(f, a, b, c, v) bad += reference(#f, f(a, b, c), v, a, b, c);
#include "num_reference.def"
  assert_int_equal(bad, 0);
}

static double between(RngStream *r, double lo, double hi) {
  return lo + (hi - lo) * rngs_uniform(r);
}
static double log_between(RngStream *r, double lo, double hi) {
  return exp(between(r, log(lo), log(hi)));
}

/* The two complementary functions add to one, derivatives are those of differences, quantiles
 * invert. */
static void incomplete_gamma_laws(void **unused) {
  (void)unused;
  RngStream r = rngs_make(11, 0);
  for (int i = 0; i < 3000; i++) {
    double a = log_between(&r, 1e-3, 1e4),
           x = i % 2 ? a * log_between(&r, 0.5, 2) : log_between(&r, 1e-4, 1e4), h = 1e-5 * a;
    double p = num_gamma_p(a, x), q = num_gamma_q(a, x);
    assert_true(fabs(p + q - 1) < 1e-12);
    assert_true(fabs(num_log_gamma_p(a, x) - log(p)) < 1e-10 || p < 1e-300);
    assert_true(fabs(num_log_gamma_q(a, x) - log(q)) < 1e-10 || q < 1e-300);
    double d = (num_gamma_p(a + h, x) - num_gamma_p(a - h, x)) / (2 * h),
           got = num_gamma_p_da(a, x);
    assert_true(fabs(got - d) < 1e-5 * fabs(d) + 1e-9 / a);
    double k = 1e-6 * x, dx = (num_gamma_p(a, x + k) - num_gamma_p(a, x - k)) / (2 * k);
    assert_true(fabs(num_gamma_p_dx(a, x) - dx) < 1e-5 * fabs(dx) + 1e-8 / x);
    if (num_gamma_p_dx(a, x) > 1e-200)
      assert_true(fabs(num_gamma_dx_da(a, x) * num_gamma_p_dx(a, x) + got) <= 1e-12 * fabs(got));
    if (p > 1e-8 && q > 1e-8)
      assert_true(fabs(num_gamma_quantile(a, p) / x - 1) <
                  1e-7 / fmin(1, a) + 1e-12 / num_gamma_p_dx(a, x) / x);
  }
}

static void incomplete_beta_laws(void **unused) {
  (void)unused;
  RngStream r = rngs_make(12, 0);
  for (int i = 0; i < 3000; i++) {
    double a = log_between(&r, 1e-2, 1e4), b = log_between(&r, 1e-2, 1e4),
           x = i % 2 ? rngs_uniform(&r) : rngs_beta(&r, a, b);
    if (!(x > 1e-6 && x < 1 - 1e-6)) continue;
    double p = num_inc_beta(a, b, x), q = num_inc_beta(b, a, 1 - x), da, db, dx, h = 1e-5;
    assert_true(fabs(p + q - 1) < 1e-11);
    num_inc_beta_d(a, b, x, &da, &db, &dx);
    double na = (num_inc_beta(a * (1 + h), b, x) - num_inc_beta(a * (1 - h), b, x)) / (2 * h * a);
    double nb = (num_inc_beta(a, b * (1 + h), x) - num_inc_beta(a, b * (1 - h), x)) / (2 * h * b);
    assert_true(fabs(da - na) < 1e-4 * fabs(na) + 1e-8 / a);
    assert_true(fabs(db - nb) < 1e-4 * fabs(nb) + 1e-8 / b);
    double ia, ib;
    num_beta_dx_dab(a, b, x, &ia, &ib);
    if (dx > 1e-200)
      assert_true(fabs(ia * dx + da) <= 1e-11 * fabs(da) && fabs(ib * dx + db) <= 1e-11 * fabs(db));
  }
}

static void normal_quantile(void **unused) {
  (void)unused;
  RngStream r = rngs_make(13, 0);
  for (int i = 0; i < 20000; i++) {
    double x = between(&r, -37, 8), p = num_Phi(x), back = num_inv_Phi(p);
    double lost = x > 0 ? 2e-16 / (0.4 * exp(-0.5 * x * x)) : 0; /* the digits that p cannot hold */
    assert_true(fabs(back - x) < 4e-16 * fabs(x) + 4e-16 + lost + 4e-16 / num_log_Phi_d(x));
    double y = between(&r, -200, 5);
    assert_true(fabs(num_inv_log_Phi(num_log_Phi(y)) - y) <
                1e-14 * fabs(y) + 1e-10 * exp(0.5 * y * fmax(y, 0)));
  }
  assert_true(num_inv_Phi(0.5) == 0 && isinf(num_inv_Phi(0)) && isinf(num_inv_Phi(1)) &&
              isnan(num_inv_Phi(2)));
}

static void edges(void **unused) {
  (void)unused;
  assert_true(num_gamma_p(2, 0) == 0 && num_gamma_q(2, 0) == 1 &&
              num_gamma_p(2, (double)INFINITY) == 1);
  assert_true(isnan(num_gamma_p(-1, 2)) && isnan(num_gamma_p(1, -2)));
  assert_true(num_inc_beta(2, 3, 0) == 0 && num_inc_beta(2, 3, 1) == 1 &&
              isnan(num_inc_beta(2, 3, 1.5)));
  assert_true(fabs(num_gamma_p(1e10, 1e10) - 0.5) < 1e-5 &&
              fabs(num_gamma_p(1e12, 1e12 + 1e6) - num_Phi(1)) < 1e-5);
  assert_true(num_student_t_cdf(0, 3) == 0.5 && num_student_t_cdf((double)INFINITY, 3) == 1);
  assert_true(fabs(num_student_t_cdf(-1, 1e20) - num_Phi(-1)) < 1e-15);
  assert_true(num_log_diff_exp(3, 3) == -(double)INFINITY &&
              fabs(num_log_diff_exp(3, 2) - log(exp(3) - exp(2))) < 1e-14);
  double x[3] = {1000, 1001, -(double)INFINITY};
  assert_true(fabs(num_log_sum_exp(x, 3) - (1001 + log1p(exp(-1)))) < 1e-12 &&
              num_log_sum_exp(x, 0) == -(double)INFINITY);
  assert_true(fabs(num_log_inv_logit_diff(2, -1) - log(num_inv_logit(2) - num_inv_logit(-1))) <
              1e-14);
  assert_true(fabs(num_lmgamma(3, 4) -
                   (1.5 * log(M_PI) + num_lgamma(4) + num_lgamma(3.5) + num_lgamma(3))) < 1e-13);
  assert_true(fabs(num_owens_t(0.7, 1) - 0.5 * num_Phi(0.7) * num_Phi(-0.7)) < 1e-15);
  assert_true(fabs(num_inv_erfc(erfc(0.3)) - 0.3) < 1e-15);
}

/* ---- Philox ---------------------------------------------------------------------------------- */

static void philox_answers(void **unused) { /* Random123's kat_vectors, philox4x32 with 10 rounds */
  (void)unused;
  static const uint32_t t[3][10] = {
      {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
      {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d,
       0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
      {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
       0x94fdcceb, 0x5001e420, 0x24126ea1},
  };
  uint32_t out[4];
  for (int i = 0; i < 3; i++) {
    rng_philox(t[i], t[i] + 4, out);
    assert_memory_equal(out, t[i] + 6, sizeof out);
  }
#ifdef HAVE_RANDOM123
  RngStream r = rngs_make(5, 5);
  for (int i = 0; i < 1000; i++) {
    uint32_t c[4], k[2];
    for (int j = 0; j < 4; j++) c[j] = (uint32_t)rngs_bits(&r);
    for (int j = 0; j < 2; j++) k[j] = (uint32_t)rngs_bits(&r);
    philox4x32_ctr_t want = philox4x32_R(10, (philox4x32_ctr_t){{c[0], c[1], c[2], c[3]}},
                                         (philox4x32_key_t){{k[0], k[1]}});
    rng_philox(c, k, out);
    assert_memory_equal(out, want.v, sizeof out);
  }
#endif
}

static void keyed_numbers(void **unused) {
  (void)unused;
  Rng k = rng_make(42, 7);
  double x[101], y[101];
  for (uint64_t first = 0; first < 2; first++)
    for (size_t n = 0; n < COUNT(x);
         n++) { /* filling is the same as one by one, wherever it starts and ends */
      rng_fill_uniform(k, first, 3, x, n);
      rng_fill_normal(k, first, 3, y, n);
      for (size_t i = 0; i < n; i++) {
        assert_true(x[i] == rng_uniform(k, first + i, 3) && x[i] > 0 && x[i] < 1);
        assert_true(y[i] == rng_normal(k, first + i, 3));
      }
    }
  assert_true(rng_bits(k, 0, 1) != rng_bits(k, 1, 0) &&
              rng_bits(k, 0, 0) != rng_bits(rng_make(42, 8), 0, 0));
  assert_true(rng_bits(rng_make(1, 0), 0, 0) != rng_bits(rng_make(0, 1), 0, 0));
  double s[5] = {0};
  size_t n = 200000;
  for (size_t i = 0; i < n; i++) {
    double u = rng_uniform(k, i, 0) - 0.5, z = rng_normal(k, i, 1);
    s[0] += u, s[1] += u * u, s[2] += z, s[3] += z * z, s[4] += u * z;
  }
  double N = (double)n, e = 4.5 / sqrt(N);
  assert_true(fabs(s[0] / N) < 0.29 * e && fabs(s[1] / N - 1.0 / 12) < 0.075 * e);
  assert_true(fabs(s[2] / N) < e && fabs(s[3] / N - 1) < 1.42 * e && fabs(s[4] / N) < 0.29 * e);
}

/* ---- samplers against distribution functions ------------------------------------------------- */

typedef struct {
  const char *name;
  double (*draw)(RngStream *, double, double);
  double (*cdf)(double x, double a, double b);
  double a, b;
  bool discrete;
} Sampler;

static double d_normal(RngStream *r, double a, double b) {
  return (void)a, (void)b, rngs_normal(r);
}
static double c_normal(double x, double a, double b) { return (void)a, (void)b, num_Phi(x); }
static double d_exponential(RngStream *r, double a, double b) {
  return (void)a, (void)b, rngs_exponential(r);
}
static double c_exponential(double x, double a, double b) { return (void)a, (void)b, -expm1(-x); }
static double d_gamma(RngStream *r, double a, double b) { return (void)b, rngs_gamma(r, a); }
static double c_gamma(double x, double a, double b) { return (void)b, num_gamma_p(a, x); }
static double d_beta(RngStream *r, double a, double b) { return rngs_beta(r, a, b); }
static double c_beta(double x, double a, double b) { return num_inc_beta(a, b, x); }
static double d_student(RngStream *r, double a, double b) { return (void)b, rngs_student_t(r, a); }
static double c_student(double x, double a, double b) { return (void)b, num_student_t_cdf(x, a); }
static double d_cauchy(RngStream *r, double a, double b) {
  return (void)a, (void)b, rngs_cauchy(r);
}
static double c_cauchy(double x, double a, double b) {
  return (void)a, (void)b, 0.5 + atan(x) / M_PI;
}
static double d_logistic(RngStream *r, double a, double b) {
  return (void)a, (void)b, rngs_logistic(r);
}
static double c_logistic(double x, double a, double b) {
  return (void)a, (void)b, num_inv_logit(x);
}
static double d_laplace(RngStream *r, double a, double b) {
  return (void)a, (void)b, rngs_double_exponential(r);
}
static double c_laplace(double x, double a, double b) {
  return (void)a, (void)b, x < 0 ? 0.5 * exp(x) : 1 - 0.5 * exp(-x);
}
static double d_gumbel(RngStream *r, double a, double b) {
  return (void)a, (void)b, rngs_gumbel(r);
}
static double c_gumbel(double x, double a, double b) { return (void)a, (void)b, exp(-exp(-x)); }
static double d_weibull(RngStream *r, double a, double b) { return (void)b, rngs_weibull(r, a); }
static double c_weibull(double x, double a, double b) { return (void)b, -expm1(-pow(x, a)); }
static double d_skew(RngStream *r, double a, double b) { return (void)b, rngs_skew_normal(r, a); }
static double c_skew(double x, double a, double b) {
  return (void)b, num_Phi(x) - 2 * num_owens_t(x, a);
}
static double d_mises(RngStream *r, double a, double b) { return (void)b, rngs_von_mises(r, 0, a); }
static double c_mises(double x, double a,
                      double b) { /* the Fourier series of the distribution function */
  double s = 0;
  (void)b;
  for (int k = 1; k < 60; k++)
    s += exp(num_log_bessel_i(k, a) - num_log_bessel_i0(a)) * sin(k * x) / k;
  return 0.5 + (x + 2 * s) / (2 * M_PI);
}
static double d_poisson(RngStream *r, double a, double b) {
  return (void)b, (double)rngs_poisson(r, a);
}
static double c_poisson(double x, double a, double b) {
  return (void)b, x < 0 ? 0 : num_gamma_q(x + 1, a);
}
static double d_binomial(RngStream *r, double a, double b) {
  return (double)rngs_binomial(r, (int64_t)a, b);
}
static double c_binomial(double x, double a, double b) {
  return x < 0 ? 0 : x >= a ? 1 : num_inc_beta(a - x, x + 1, 1 - b);
}
static double d_neg_binomial(RngStream *r, double a, double b) {
  return (double)rngs_neg_binomial_2(r, a, b);
}
static double c_neg_binomial(double x, double a, double b) {
  return x < 0 ? 0 : num_inc_beta(b, x + 1, b / (a + b));
}
static double sum_masses(double x, double n, double (*log_mass)(double, double, double, double),
                         double a, double b) {
  double s = 0;
  for (double k = 0; k <= x; k++) s += exp(log_mass(k, n, a, b));
  return s;
}
static double d_beta_binomial(RngStream *r, double a, double b) {
  return (double)rngs_beta_binomial(r, 30, a, b);
}
static double m_beta_binomial(double k, double n, double a, double b) {
  return num_lchoose(n, k) + num_lbeta(k + a, n - k + b) - num_lbeta(a, b);
}
static double c_beta_binomial(double x, double a, double b) {
  return sum_masses(x, 30, m_beta_binomial, a, b);
}
static double d_hyper(RngStream *r, double a, double b) {
  return (double)rngs_hypergeometric(r, 25, (int64_t)a, (int64_t)b);
}
static double m_hyper(double k, double n, double a, double b) {
  return k > a || n - k > b ? -(double)INFINITY
                            : num_lchoose(a, k) + num_lchoose(b, n - k) - num_lchoose(a + b, n);
}
static double c_hyper(double x, double a, double b) { return sum_masses(x, 25, m_hyper, a, b); }

static const Sampler samplers[] = {
    {"normal", d_normal, c_normal, 0, 0, false},
    {"exponential", d_exponential, c_exponential, 0, 0, false},
    {"gamma .05", d_gamma, c_gamma, 0.05, 0, false},
    {"gamma .7", d_gamma, c_gamma, 0.7, 0, false},
    {"gamma 1", d_gamma, c_gamma, 1, 0, false},
    {"gamma 30", d_gamma, c_gamma, 30, 0, false},
    {"beta .2 .3", d_beta, c_beta, 0.2, 0.3, false},
    {"beta 2 5", d_beta, c_beta, 2, 5, false},
    {"beta 300 10", d_beta, c_beta, 300, 10, false},
    {"student_t 1.5", d_student, c_student, 1.5, 0, false},
    {"student_t 20", d_student, c_student, 20, 0, false},
    {"cauchy", d_cauchy, c_cauchy, 0, 0, false},
    {"logistic", d_logistic, c_logistic, 0, 0, false},
    {"double_exponential", d_laplace, c_laplace, 0, 0, false},
    {"gumbel", d_gumbel, c_gumbel, 0, 0, false},
    {"weibull 1.7", d_weibull, c_weibull, 1.7, 0, false},
    {"skew_normal -3", d_skew, c_skew, -3, 0, false},
    {"von_mises .5", d_mises, c_mises, 0.5, 0, false},
    {"von_mises 8", d_mises, c_mises, 8, 0, false},
    {"poisson .3", d_poisson, c_poisson, 0.3, 0, true},
    {"poisson 9", d_poisson, c_poisson, 9, 0, true},
    {"poisson 11", d_poisson, c_poisson, 11, 0, true},
    {"poisson 3000", d_poisson, c_poisson, 3000, 0, true},
    {"binomial 20 .1", d_binomial, c_binomial, 20, 0.1, true},
    {"binomial 20 .95", d_binomial, c_binomial, 20, 0.95, true},
    {"binomial 50 .4", d_binomial, c_binomial, 50, 0.4, true},
    {"binomial 100000 .7", d_binomial, c_binomial, 1e5, 0.7, true},
    {"neg_binomial_2 5 .6", d_neg_binomial, c_neg_binomial, 5, 0.6, true},
    {"neg_binomial_2 50 9", d_neg_binomial, c_neg_binomial, 50, 9, true},
    {"beta_binomial 2 3", d_beta_binomial, c_beta_binomial, 2, 3, true},
    {"hypergeometric 10 60", d_hyper, c_hyper, 10, 60, true},
    {"hypergeometric 40 20", d_hyper, c_hyper, 40, 20, true},
};

/* Kolmogorov and Smirnov: sqrt(n) sup |F_n - F| exceeds 2.2 with probability 1e-4; for discrete
 * draws less often. */
static void samplers_ks(void **unused) {
  (void)unused;
  enum { N = 20000 };
  static double x[N];
  int bad = 0;
  for (size_t k = 0; k < COUNT(samplers); k++) {
    const Sampler *s = samplers + k;
    RngStream r = rngs_make(2024, k);
    for (size_t i = 0; i < N; i++) x[i] = s->draw(&r, s->a, s->b);
    stat_sort(x, N);
    double worst = 0;
    for (size_t i = 0, j; i < N; i = j) {
      for (j = i; j < N && x[j] == x[i]; j++) continue;
      double F = s->cdf(x[i], s->a, s->b), before = s->discrete ? s->cdf(x[i] - 1, s->a, s->b) : F;
      worst = fmax(worst, fmax(fabs((double)j / N - F), fabs((double)i / N - before)));
    }
    double ks = worst * sqrt(N);
    if (!(ks < 2.2)) print_error("%s: sqrt(n) D = %.3f\n", s->name, ks), bad++;
  }
  assert_int_equal(bad, 0);
}

static void categorical_draws(void **unused) {
  (void)unused;
  const double p[4] = {0.1, 0, 0.5, 0.4}, logit[4] = {log(0.2), -(double)INFINITY, 0, log(0.8)};
  const double alpha[3] = {0.01, 2, 3};
  RngStream r = rngs_make(8, 8);
  double n[2][4] = {{0}}, m[4] = {0}, mean[3] = {0};
  const int N = 100000;
  for (int i = 0; i < N; i++) {
    n[0][rngs_categorical(&r, p, 4)]++;
    n[1][rngs_categorical_logit(&r, logit, 4)]++;
  }
  for (int k = 0; k < 4; k++)
    for (int j = 0; j < 2; j++)
      assert_true(fabs(n[j][k] / N - p[k]) < 4.5 * sqrt(p[k] * (1 - p[k]) / N) + 1e-12);
  for (int i = 0; i < 2000; i++) {
    int64_t out[4], total = 0;
    double theta[3];
    rngs_multinomial(&r, 50, p, 4, out);
    for (int k = 0; k < 4; k++) m[k] += (double)out[k], total += out[k];
    assert_int_equal(total, 50);
    rngs_dirichlet(&r, alpha, 3, theta);
    assert_true(fabs(theta[0] + theta[1] + theta[2] - 1) < 1e-14);
    for (int k = 0; k < 3; k++) mean[k] += theta[k] / 2000;
  }
  for (int k = 0; k < 4; k++)
    assert_true(fabs(m[k] / 1e5 - p[k]) < 4.5 * sqrt(p[k] * (1 - p[k]) / 1e5) + 1e-12);
  for (int k = 0; k < 3; k++) assert_true(fabs(mean[k] - alpha[k] / 5.01) < 0.025);
  size_t index[50];
  for (size_t i = 0; i < 50; i++) index[i] = i;
  rngs_shuffle(&r, index, 50);
  size_t sum = 0, moved = 0;
  for (size_t i = 0; i < 50; i++) sum += index[i], moved += index[i] != i;
  assert_true(sum == 49 * 25 && moved > 40);
}

/* ---- Sobol ----------------------------------------------------------------------------------- */

/* Does every box of 2^a x 2^b equal boxes hold exactly one of the 2^(a+b) points? */
static bool one_each(const double *x, const double *y, int a, int b) {
  size_t M = (size_t)1 << (a + b);
  char *seen = calloc(M, 1);
  bool ok = true;
  for (size_t i = 0; i < M; i++) {
    size_t cell = (size_t)ldexp(x[i], a) << b | (size_t)ldexp(y[i], b);
    ok = ok && !seen[cell];
    seen[cell] = 1;
  }
  free(seen);
  return ok;
}

static void sobol_nets(void **unused) {
  (void)unused;
  enum { DIM = 60, M = 1024 };
  static double u[DIM * M];
  for (uint64_t seed = 0; seed < 3; seed++) {
    sobol_normal(u, DIM, M, M, seed, 1);
    for (size_t d = 0; d < DIM; d++) assert_true(one_each(u + d * M, u + d * M, 10, 0));
    for (int a = 0; a <= 10; a++)
      assert_true(one_each(u, u + M, a, 10 - a)); /* dimensions 0 and 1 are a (0, m, 2)-net */
    static const size_t high[] = {500, 1109, 1110, 1111, 3000};
    for (size_t k = 0; k < COUNT(high); k++) {
      sobol_normal_part(u, high[k], 1, M, M, seed, 1);
      assert_true(one_each(u, u, 10, 0));
    }
  }
  for (size_t n = 1; n <= 300;
       n += 13) { /* any number of points: still at most one in each interval */
    sobol_normal(u, 5, n, n + 3, 9, 1);
    for (size_t d = 0; d < 5; d++) {
      char seen[512] = {0};
      size_t cells = 1;
      while (cells < n) cells *= 2;
      for (size_t i = 0; i < n; i++) {
        double v = u[d * (n + 3) + i];
        assert_true(v > 0 && v < 1 && !seen[(size_t)(v * (double)cells)]++);
      }
    }
  }
}

/* A slice is what its points are in the whole set, to the bit, wherever it is cut: beyond the
 * table of polynomials too. */
static void sobol_slices(void **unused) {
  (void)unused;
  enum { DIM = 1200, M = 300, LD = 304 };
  static double whole[DIM * LD], part[DIM * LD];
  sobol_normal(whole, DIM, M, LD, 5, 0);
  static const size_t cuts[] = {0, 1, 8, 64, 127, 200, M};
  for (size_t k = 0; k + 1 < COUNT(cuts); k++) {
    size_t n = cuts[k + 1] - cuts[k];
    sobol_normal_slice(part, DIM, (SobolSlice){cuts[k], n, M}, LD, 5);
    for (size_t d = 0; d < DIM; d++)
      assert_memory_equal(part + d * LD, whole + d * LD + cuts[k], n * sizeof *part);
  }
}

/* All 2-D nets of the first dimensions are good: no pair leaves more than 2^t points in an
 * elementary box, t <= 5 of m = 10. */
static void sobol_pairs(void **unused) {
  (void)unused;
  enum { DIM = 12, M = 1024 };
  static double u[DIM * M];
  sobol_normal(u, DIM, M, M, 4, 1);
  for (size_t d = 0; d < DIM; d++)
    for (size_t e = 0; e < d; e++)
      for (int a = 0; a <= 5; a++) {
        int n[32] = {0}, b = 5 - a;
        for (size_t i = 0; i < M; i++)
          n[(int)ldexp(u[d * M + i], a) << b | (int)ldexp(u[e * M + i], b)]++;
        for (int c = 0; c < 32; c++) assert_int_equal(n[c], 32);
      }
}

/* The scramble is uniform: over the seeds, a fixed point's coordinate is uniform, and two points'
 * digits after the first where they differ are independent. Different seeds and dimensions have
 * nothing to do with each other. */
static void sobol_scramble(void **unused) {
  (void)unused;
  enum { S = 4000, M = 16 };
  static double first[S], other[S], u[3 * M];
  double corr = 0, cross = 0, tail = 0;
  for (uint64_t s = 0; s < S; s++) {
    sobol_normal(u, 3, M, M, s, 1);
    first[s] = u[5];
    other[s] = u[2 * M + 11];
    corr += (u[5] - 0.5) * (u[M + 5] - 0.5) * 12;
    double f = fmod(u[5] * M, 1) - 0.5, g = fmod(u[6] * M, 1) - 0.5; /* below the 16 cells */
    tail += f * g * 12;
    cross += (s ? (first[s] - 0.5) * (first[s - 1] - 0.5) : 0) * 12;
  }
  assert_true(fabs(corr / S) < 4.5 / sqrt(S) && fabs(cross / S) < 4.5 / sqrt(S) &&
              fabs(tail / S) < 4.5 / sqrt(S));
  for (int k = 0; k < 2; k++) {
    double *x = k ? other : first, worst = 0;
    stat_sort(x, S);
    for (size_t i = 0; i < S; i++) worst = fmax(worst, fabs(x[i] - ((double)i + 0.5) / S));
    assert_true(worst * sqrt(S) < 2.2);
  }
}

/* E prod cos-like functions in 20 dimensions: the error is far below that of independent draws. */
static void sobol_integrates(void **unused) {
  (void)unused;
  enum { DIM = 20, M = 4096, SEEDS = 16 };
  double *u = malloc(sizeof(double) * DIM * M), mse = 0, mc = 0;
  for (uint64_t s = 0; s < SEEDS; s++) {
    sobol_normal(u, DIM, M, M, s, 0);
    double sum = 0, sq = 0;
    for (size_t i = 0; i < M; i++) {
      double f = 0;
      for (size_t d = 0; d < DIM; d++) f += u[d * M + i] / (double)(d + 1);
      sum += exp(0.3 * f), sq += exp(0.6 * f);
    }
    double v = 0;
    for (size_t d = 0; d < DIM; d++) v += 0.09 / (double)((d + 1) * (d + 1));
    double truth = exp(0.5 * v), mean = sum / M;
    mse += (mean - truth) * (mean - truth) / SEEDS;
    mc += (sq / M - mean * mean) / M / SEEDS;
  }
  printf("  Sobol: root mean square error %.2g, of independent draws %.2g\n", sqrt(mse), sqrt(mc));
  assert_true(sqrt(mse) < 0.05 * sqrt(mc));
  free(u);
}

/* ---- linear algebra -------------------------------------------------------------------------- */

enum { N = 7 };

static void spd(RngStream *r, double *A, size_t n) {
  double B[N * N];
  for (size_t i = 0; i < n * n; i++) B[i] = rngs_normal(r);
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < n; j++) {
      A[i * n + j] = i == j ? 0.5 : 0;
      for (size_t k = 0; k < n; k++) A[i * n + j] += B[i * n + k] * B[j * n + k];
    }
}

static void cholesky(void **unused) {
  (void)unused;
  RngStream r = rngs_make(3, 1);
  for (size_t n = 1; n <= N; n++) {
    double A[N * N], L[N * N], X[N * N], W[N * N], b[N], x[N], y[N];
    spd(&r, A, n);
    assert_true(la_cholesky(A, L, n));
    for (size_t i = 0; i < n; i++)
      for (size_t j = 0; j < n; j++) {
        assert_true(fabs(la_dot(L + i * n, L + j * n, n) - A[i * n + j]) < 1e-12);
        if (j > i) assert_true(L[i * n + j] == 0);
      }
    for (size_t i = 0; i < n; i++) b[i] = rngs_normal(&r);
    la_cholesky_solve(L, b, x, n);
    la_matvec(A, x, y, n, n);
    for (size_t i = 0; i < n; i++) assert_true(fabs(y[i] - b[i]) < 1e-9);
    la_cholesky_inverse(L, X, W, n);
    la_matvec(X, b, y, n, n);
    for (size_t i = 0; i < n; i++) assert_true(fabs(y[i] - x[i]) < 1e-9);
    la_matvec_t(X, b, y, n, n);
    for (size_t i = 0; i < n; i++) assert_true(fabs(y[i] - x[i]) < 1e-9);

    size_t pivot[N];
    int sign;
    memcpy(W, A, sizeof A);
    assert_true(la_lu(W, pivot, &sign, n));
    double log_det = 0;
    for (size_t i = 0; i < n; i++) log_det += log(fabs(W[i * n + i]));
    assert_true(fabs(log_det - la_log_det_cholesky(L, n)) < 1e-10);
    la_lu_solve(W, pivot, b, y, n);
    for (size_t i = 0; i < n; i++) assert_true(fabs(y[i] - x[i]) < 1e-9);

    A[0] = -1;
    assert_false(la_cholesky(A, L, n));
    memset(W, 0, sizeof W);
    assert_false(la_lu(W, pivot, &sign, n));
  }
}

/* d/dA of sum(w .* L(A)) against central differences. */
static void cholesky_adjoint(void **unused) {
  (void)unused;
  RngStream r = rngs_make(3, 2);
  const size_t n = 5;
  double A[25], L[25], dL[25] = {0}, dA[25] = {0}, W[25];
  spd(&r, A, n);
  la_cholesky(A, L, n);
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j <= i; j++) dL[i * n + j] = rngs_normal(&r);
  la_cholesky_adjoint(L, dL, dA, W, n);
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j <= i; j++) {
      double h = 1e-6, f[2], keep = A[i * n + j];
      for (int s = 0; s < 2; s++) {
        A[i * n + j] = keep + (s ? h : -h);
        la_cholesky(A, L, n);
        f[s] = la_dot(L, dL, n * n);
      }
      A[i * n + j] = keep;
      assert_true(fabs((f[1] - f[0]) / (2 * h) - dA[i * n + j]) < 1e-7);
    }
}

/* A V = V diag(w), V'V = 1, w ascends. */
static void assert_eigen(const double *A, const double *w, const double *V, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (i) assert_true(w[i] >= w[i - 1]);
    for (size_t j = 0; j < n; j++) {
      double av = 0, vv = 0;
      for (size_t k = 0; k < n; k++)
        av += A[j * n + k] * V[k * n + i], vv += V[k * n + i] * V[k * n + j];
      assert_true(fabs(av - w[i] * V[j * n + i]) < 1e-12 * (1 + fabs(w[0]) + fabs(w[n - 1])));
      assert_true(fabs(vv - (i == j)) < 1e-13);
    }
  }
}

static void assert_decomposes(const double *A, size_t n) {
  double B[N * N], w[N], V[N * N], room[N * N + 2 * N];
  memcpy(B, A, sizeof B);
  assert_true(la_eigen_symmetric(B, w, V, room, n));
  assert_eigen(A, w, V, n);
  for (size_t i = 0; i < n; i++) { /* the largest number of a vector is positive */
    size_t top = 0;
    for (size_t k = 1; k < n; k++)
      if (fabs(V[k * n + i]) > fabs(V[top * n + i])) top = k;
    assert_true(V[top * n + i] > 0);
  }
}

static void eigen(void **unused) {
  (void)unused;
  RngStream r = rngs_make(3, 3);
  for (size_t n = 1; n <= N; n++) {
    double A[N * N] = {0};
    assert_decomposes(A, n);                                             /* all are equal */
    for (size_t i = 0; i < n; i++) A[i * n + i] = (double)((7 * i) % 3); /* some are */
    assert_decomposes(A, n);
    for (size_t i = 0; i < n * n; i++) A[i] = 1;
    assert_decomposes(A, n);
    spd(&r, A, n);
    assert_decomposes(A, n);
    for (size_t i = 0; i < n; i++) A[i * n + i] -= 3; /* some are negative */
    assert_decomposes(A, n);
    A[n * n - 1] = (double)NAN;
    double w[N], V[N * N], room[N * N + 2 * N];
    assert_false(la_eigen_symmetric(A, w, V, room, n));
  }
}

static void norms(void **unused) {
  (void)unused;
  double big[3] = {3e200, 4e200, 0}, small[2] = {3e-200, 4e-200}, bad[2] = {1, (double)NAN},
         inf[2] = {1, -(double)INFINITY};
  assert_true(fabs(la_norm(big, 3) / 5e200 - 1) < 1e-15 &&
              fabs(la_norm(small, 2) / 5e-200 - 1) < 1e-15);
  assert_true(isnan(la_norm(bad, 2)) && isinf(la_norm(inf, 2)) && la_norm(bad, 0) == 0);
}

/* ---- statistics ------------------------------------------------------------------------------ */

static void statistics(void **unused) {
  (void)unused;
  double x[4] = {4, 1, 3, 2}, y[4] = {8, 2, 6, 5}, w[1000];
  assert_true(stat_mean(x, 4) == 2.5 && fabs(stat_variance(x, 4) - 5.0 / 3) < 1e-15);
  assert_true(stat_quantile(x, 4, 0.25, w) == 1.75 && stat_median(x, 4, w) == 2.5 &&
              stat_quantile(x, 4, 1, w) == 4);
  assert_true(stat_min(x, 4) == 1 && stat_max(x, 4) == 4 &&
              fabs(stat_correlation(x, y, 4) - 9.5 / sqrt(93.75)) < 1e-14);
  assert_true(isnan(stat_mean(x, 0)) && isnan(stat_sd(x, 1)) && isnan(stat_quantile(x, 0, 0.5, w)));
  for (int i = 0; i < 1000; i++) w[i] = 0.1;
  assert_true(fabs(stat_sum(w, 1000) - 100) < 1e-13);

  RngStream r = rngs_make(1, 2);
  for (size_t n = 0; n < 1000; n += 37)
    for (int kind = 0; kind < 4; kind++) {
      double sum = 0;
      for (size_t i = 0; i < n; i++) {
        w[i] = kind == 0   ? (double)(rngs_bits(&r) % 5)
               : kind == 1 ? (double)i
               : kind == 2 ? (double)(n - i)
                           : (double)(rngs_bits(&r) % 100000);
        sum += w[i];
      }
      static const double levels[] = {0, 0.05, 0.051, 0.5, 0.95, 1};
      double copy[1000], chosen[6];
      memcpy(copy, w, n * sizeof *w);
      stat_quantiles(copy, n, levels, 6, chosen);
      for (int k = 0; k < 6; k++) {
        double q = stat_quantile(w, n, levels[k], copy);
        assert_true(q == chosen[k] || (n == 0 && isnan(chosen[k])));
      }
      if (n > 1 && kind == 3) sum -= w[1], w[1] = (double)NAN;
      memcpy(copy, w, n * sizeof *w);
      stat_quantiles(copy, n, levels, 6, chosen);
      assert_true(!(n > 1 && kind == 3) || isnan(chosen[3]));
      stat_sort(w, n);
      size_t numbers = n > 1 && kind == 3 ? n - 1 : n;
      for (size_t i = 1; i < numbers; i++) assert_true(w[i - 1] <= w[i]);
      assert_true(stat_sum(w, numbers) == sum && (numbers == n || isnan(w[n - 1])));
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(special_functions),
      cmocka_unit_test(incomplete_gamma_laws),
      cmocka_unit_test(incomplete_beta_laws),
      cmocka_unit_test(normal_quantile),
      cmocka_unit_test(edges),
      cmocka_unit_test(philox_answers),
      cmocka_unit_test(keyed_numbers),
      cmocka_unit_test(samplers_ks),
      cmocka_unit_test(categorical_draws),
      cmocka_unit_test(sobol_nets),
      cmocka_unit_test(sobol_slices),
      cmocka_unit_test(sobol_pairs),
      cmocka_unit_test(sobol_scramble),
      cmocka_unit_test(sobol_integrates),
      cmocka_unit_test(cholesky),
      cmocka_unit_test(cholesky_adjoint),
      cmocka_unit_test(eigen),
      cmocka_unit_test(norms),
      cmocka_unit_test(statistics),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
