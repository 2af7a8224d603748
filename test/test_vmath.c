/* test_vmath.c: the vector functions against long double, in units in the last place.
 *
 * A row names a function, its reference, where to draw arguments and the error allowed. The file is
 * compiled once per instruction set (the same source as build/test/test_vmath, test_vmath_avx2,
 * test_vmath_avx512), so one table tests three builds.
 */
#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "num/vmath.h"

#define DRAWS 20000

typedef long double ld;

/* ---- references in long double --------------------------------------------------------------- */

static ld ref_inv_logit(ld x) { return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x)); }
static ld ref_log1p_exp(ld x) { return (x > 0 ? x : 0) + log1pl(expl(-fabsl(x))); }
static ld ref_logit(ld x) {
  return fabsl(x - 0.5L) < 0.2L ? log1pl((2 * x - 1) / (1 - x)) : logl(x / (1 - x));
}
static ld ref_log1m_exp(ld x) { return x > -0.69L ? logl(-expm1l(x)) : log1pl(-expl(x)); }
static ld ref_lgamma(ld x) {
  int sign;
  return lgammal_r(x, &sign);
}
#define SQRT_2PI 2.50662827463100050241576528481104525L

/* phi(a)/P(Z > a) for a >= 4: continued fraction of Mills' ratio. */
static ld mills(ld a) {
  ld f = a;
  for (int k = 600; k >= 1; k--) f = a + k / f;
  return f;
}
/* phi(x) with the square split so that no digit is lost. */
static ld phi(ld x) {
  ld h = (ld)(float)x;
  return expl(-0.5L * h * h) * expl(-0.5L * (x - h) * (x + h)) / SQRT_2PI;
}
static ld tail(ld a) { return a < 4 ? 0.5L * erfcl(a * sqrtl(0.5L)) : phi(a) / mills(a); }
static ld ref_Phi(ld x) { return x < 0 ? tail(-x) : 1 - tail(x); }
static ld ref_log_Phi(ld x) {
  if (x > 0) return log1pl(-tail(x));
  return x > -4 ? logl(tail(-x)) : -0.5L * x * x - logl(mills(-x) * SQRT_2PI);
}
static ld ref_log_Phi_d(ld x) { return x > -4 ? phi(x) / ref_Phi(x) : mills(-x); }

static ld ref_digamma(ld x) {
  if (x <= 0) return ref_digamma(1 - x) - (ld)M_PIl / tanl(M_PIl * (x - floorl(x)));
  ld s = 0;
  for (; x < 40; x++) s -= 1 / x;
  ld y = 1 / (x * x), t = 1.0L / 12;
  static const ld b[] = {1.0L / 12,  -1.0L / 120,     1.0L / 252, -1.0L / 240,
                         1.0L / 132, -691.0L / 32760, 1.0L / 12};
  t = 0;
  for (int k = 6; k >= 0; k--) t = t * y + b[k];
  return s + logl(x) - 0.5L / x - y * t;
}

/* One Newton step in long double from the double result: the quantile to long double accuracy. */
static ld ref_inv_Phi(ld p) {
  ld x = (ld)v_inv_Phi(v_splat((double)p))[0];
  for (int i = 0; i < 3; i++) {
    ld f = x < -1  ? tail(-x) - p
           : x > 1 ? (1 - p) - tail(x)
                   : 0.5L * erfl(x * sqrtl(0.5L)) - (p - 0.5L);
    x -= f / phi(x);
  }
  return x;
}

/* ---- rows ------------------------------------------------------------------------------------ */

typedef struct {
  const char *name;
  vd (*f)(vd);
  ld (*ref)(ld);
  double lo, hi; /* arguments: uniform, and log-uniform in magnitude, within [lo, hi] */
  double ulps;
} Row;

/* The inline functions need an address. */
#define ADDRESS(f)                                                                                 \
  static vd f##_(vd x) { return f(x); }
/* clang-format off */
ADDRESS(v_exp) ADDRESS(v_expm1) ADDRESS(v_log) ADDRESS(v_log1p)
ADDRESS(v_inv_logit) ADDRESS(v_log1p_exp) ADDRESS(v_tanh)
ADDRESS(v_sin) ADDRESS(v_cos) ADDRESS(v_sinh) ADDRESS(v_cosh)
ADDRESS(v_erf) ADDRESS(v_erfc) ADDRESS(v_Phi) ADDRESS(v_log_Phi)
ADDRESS(v_log_Phi_d) ADDRESS(v_inv_Phi) ADDRESS(v_lgamma) ADDRESS(v_digamma)
ADDRESS(v_logit) ADDRESS(v_log1m_exp)
ADDRESS(v_sqrt)
    /* clang-format on */

    static const Row rows[] = {
        {"exp", v_exp_, expl, -746, 710, 1.0},
        {"exp, near 0", v_exp_, expl, -2, 2, 1.0},
        {"expm1", v_expm1_, expm1l, -50, 709.7, 1.4},
        {"expm1, near 0", v_expm1_, expm1l, -1, 1, 1.4},
        {"log", v_log_, logl, 0, DBL_MAX, 1.0},
        {"log, near 1", v_log_, logl, 0.25, 4, 1.0},
        {"log1p", v_log1p_, log1pl, -1, DBL_MAX, 1.0},
        {"log1p, near 0", v_log1p_, log1pl, -1, 1, 1.0},
        {"inv_logit", v_inv_logit_, ref_inv_logit, -745, 50, 2.5},
        {"inv_logit, near 0", v_inv_logit_, ref_inv_logit, -5, 5, 2.5},
        {"log1p_exp", v_log1p_exp_, ref_log1p_exp, -745, 100, 2.0},
        {"log1p_exp, near 0", v_log1p_exp_, ref_log1p_exp, -5, 5, 2.0},
        {"logit", v_logit_, ref_logit, 0, 1, 3.0},
        {"log1m_exp", v_log1m_exp_, ref_log1m_exp, -700, -1e-300, 2.5},
        {"log1m_exp, near 0", v_log1m_exp_, ref_log1m_exp, -3, -1e-300, 2.5},
        {"tanh", v_tanh_, tanhl, -30, 30, 2.5},
        {"tanh, near 0", v_tanh_, tanhl, -2, 2, 2.5},
        {"sinh", v_sinh_, sinhl, -710, 710, 3.0},
        {"cosh", v_cosh_, coshl, -710, 710, 3.0},
        {"sin", v_sin_, sinl, -8, 8, 1.0},
        {"sin, moderate", v_sin_, sinl, -5e5, 5e5, 1.0},
        {"cos", v_cos_, cosl, -8, 8, 1.0},
        {"cos, moderate", v_cos_, cosl, -5e5, 5e5, 1.0},
        {"erf", v_erf_, erfl, -7, 7, 1.5},
        {"erfc", v_erfc_, erfcl, -7, 27.5, 2.5},
        {"erfc, near 0", v_erfc_, erfcl, -2, 2, 2.5},
        {"Phi", v_Phi_, ref_Phi, -38.5, 9, 3.0},
        {"Phi, near 0", v_Phi_, ref_Phi, -3, 3, 3.0},
        {"log_Phi", v_log_Phi_, ref_log_Phi, -1e10, 37, 3.0},
        {"log_Phi, near 0", v_log_Phi_, ref_log_Phi, -9, 9, 3.0},
        {"log_Phi'", v_log_Phi_d_, ref_log_Phi_d, -90, 30, 4.0},
        {"inv_Phi", v_inv_Phi_, ref_inv_Phi, 1e-300, 0.5, 6.0},
        {"inv_Phi, upper", v_inv_Phi_, ref_inv_Phi, 0.5, 0.999999, 6.0},
        {"lgamma, small", v_lgamma_, ref_lgamma, 0, 1, 3.0},
        {"lgamma", v_lgamma_, ref_lgamma, 0.5, 10, 4.0},
        {"lgamma, large", v_lgamma_, ref_lgamma, 7.5, 1e305, 2.5},
        {"digamma, small", v_digamma_, ref_digamma, 0, 1.4, 3.0},
        {"digamma", v_digamma_, ref_digamma, 1.5, 10, 4.0},
        {"digamma, large", v_digamma_, ref_digamma, 7.5, 1e300, 1.5},
        {"sqrt", v_sqrt_, sqrtl, 0, DBL_MAX, 0.51},
};

/* ---- drawing and measuring ------------------------------------------------------------------- */

static uint64_t state = 88172645463325252u;
static double uniform(void) { /* xorshift64 */
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (double)(state >> 11) * 0x1p-53;
}

static double draw(double lo, double hi, int kind) {
  if (kind == 0) return lo + (hi - lo) * uniform();
  for (;;) { /* magnitude log-uniform from 2^-1074, or (kind 2) from 2^-30 */
    double top = log2(fmax(fabs(lo), fabs(hi))), bottom = kind == 1 ? -1074 : -30;
    double x = exp2(bottom + (top - bottom) * uniform());
    if (lo < 0 && (hi <= 0 || uniform() < 0.5)) x = -x;
    if (x >= lo && x <= hi) return x;
    if (fmin(fabs(lo), fabs(hi)) > 0 && lo * hi > 0) return lo + (hi - lo) * uniform();
  }
}

static double ulps(double got, ld want) {
  double w = (double)want;
  if (isnan(w) || isnan(got)) return isnan(w) && isnan(got) ? 0 : INFINITY;
  if (isinf(w) || isinf(got)) {
    if (got == w) return 0;
    return fabsl(want) > (ld)DBL_MAX * 0.9999999999999998L && fabs(got) >= DBL_MAX ? 1 : INFINITY;
  }
  int e;
  frexp(w, &e);
  double ulp = ldexp(1.0, (e < -1021 ? -1021 : e) - 53);
  return (double)(fabsl((ld)got - want) / (ld)ulp);
}

static void accuracy(void **unused) {
  (void)unused;
  int bad = 0;
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    double worst = 0, at = 0;
    for (int i = 0; i < DRAWS; i++) {
      vd x;
      for (int j = 0; j < VL; j++) x[j] = draw(rows[r].lo, rows[r].hi, i % 3);
      vd y = rows[r].f(x);
      for (int j = 0; j < VL; j++) {
        double u = ulps(y[j], rows[r].ref((ld)x[j]));
        if (!(u <= worst)) worst = u, at = x[j];
      }
    }
    bool ok = worst <= rows[r].ulps;
    printf("  %-20s %7.3f ulp at %-24.17g %s\n", rows[r].name, worst, at, ok ? "" : "TOO MUCH");
    bad += !ok;
  }
  assert_int_equal(bad, 0);
}

static void power(void **unused) {
  (void)unused;
  double worst = 0, ax = 0, ay = 0;
  for (int i = 0; i < DRAWS; i++) {
    vd x, y;
    for (int j = 0; j < VL; j++) {
      x[j] = i % 2 ? exp(20 * uniform() - 10) : draw(0, DBL_MAX, 1);
      y[j] = (i % 3 == 0 ? 745 / fmax(fabs(log(x[j])), 1e-300) : 40) * (2 * uniform() - 1);
      if (i % 5 == 0)
        x[j] = 1 + (uniform() - 0.5) * exp2(-50 * uniform()),
        y[j] = 700 / log(x[j]) * (2 * uniform() - 1);
    }
    vd z = v_pow(x, y);
    for (int j = 0; j < VL; j++) {
      double u = ulps(z[j], powl((ld)x[j], (ld)y[j]));
      if (!(u <= worst)) worst = u, ax = x[j], ay = y[j];
    }
  }
  printf("  %-20s %7.3f ulp at %.17g ^ %.17g\n", "pow", worst, ax, ay);
  assert_true(worst <= 1.5);
}

/* ---- special values -------------------------------------------------------------------------- */

static void same(const char *what, double got, double want) {
  if ((isnan(want) && isnan(got)) || (got == want && signbit(got) == signbit(want))) return;
  print_error("%s: got %.17g, want %.17g\n", what, got, want);
  fail();
}

#define INF ((double)INFINITY)
#define QNAN ((double)NAN)

static void special_values(void **unused) {
  (void)unused;
  static const struct {
    const char *name;
    vd (*f)(vd);
    double x, y;
  } v[] = {
      {"exp(inf)", v_exp_, INF, INF},
      {"exp(-inf)", v_exp_, -INF, 0},
      {"exp(nan)", v_exp_, QNAN, QNAN},
      {"exp(0)", v_exp_, 0, 1},
      {"exp(-0)", v_exp_, -0.0, 1},
      {"exp(710)", v_exp_, 710, INF},
      {"exp(-746)", v_exp_, -746, 0},
      {"exp(1e308)", v_exp_, 1e308, INF},
      {"exp(-745)", v_exp_, -745, 0x1p-1074},
      {"exp(denormal)", v_exp_, 0x1p-1074, 1},
      {"expm1(inf)", v_expm1_, INF, INF},
      {"expm1(-inf)", v_expm1_, -INF, -1},
      {"expm1(nan)", v_expm1_, QNAN, QNAN},
      {"expm1(-0)", v_expm1_, -0.0, -0.0},
      {"expm1(710)", v_expm1_, 710, INF},
      {"expm1(denormal)", v_expm1_, 0x1p-1074, 0x1p-1074},
      {"log(0)", v_log_, 0, -INF},
      {"log(-0)", v_log_, -0.0, -INF},
      {"log(-1)", v_log_, -1, QNAN},
      {"log(inf)", v_log_, INF, INF},
      {"log(-inf)", v_log_, -INF, QNAN},
      {"log(nan)", v_log_, QNAN, QNAN},
      {"log(1)", v_log_, 1, 0},
      {"log(denormal)", v_log_, 0x1p-1074, -744.4400719213812},
      {"log(max)", v_log_, DBL_MAX, 709.782712893384},
      {"log1p(-1)", v_log1p_, -1, -INF},
      {"log1p(-2)", v_log1p_, -2, QNAN},
      {"log1p(inf)", v_log1p_, INF, INF},
      {"log1p(-0)", v_log1p_, -0.0, -0.0},
      {"log1p(nan)", v_log1p_, QNAN, QNAN},
      {"log1p(denormal)", v_log1p_, 0x1p-1074, 0x1p-1074},
      {"log1p(max)", v_log1p_, DBL_MAX, 709.782712893384},
      {"inv_logit(inf)", v_inv_logit_, INF, 1},
      {"inv_logit(-inf)", v_inv_logit_, -INF, 0},
      {"inv_logit(0)", v_inv_logit_, 0, 0.5},
      {"inv_logit(nan)", v_inv_logit_, QNAN, QNAN},
      {"inv_logit(-745)", v_inv_logit_, -745, 0x1p-1074},
      {"log1p_exp(inf)", v_log1p_exp_, INF, INF},
      {"log1p_exp(-inf)", v_log1p_exp_, -INF, 0},
      {"log1p_exp(nan)", v_log1p_exp_, QNAN, QNAN},
      {"log1p_exp(1000)", v_log1p_exp_, 1000, 1000},
      {"log1p_exp(-745)", v_log1p_exp_, -745, 0x1p-1074},
      {"logit(0)", v_logit_, 0, -INF},
      {"logit(1)", v_logit_, 1, INF},
      {"logit(2)", v_logit_, 2, QNAN},
      {"logit(nan)", v_logit_, QNAN, QNAN},
      {"log1m_exp(0)", v_log1m_exp_, 0, -INF},
      {"log1m_exp(-inf)", v_log1m_exp_, -INF, 0},
      {"log1m_exp(1)", v_log1m_exp_, 1, QNAN},
      {"tanh(inf)", v_tanh_, INF, 1},
      {"tanh(-inf)", v_tanh_, -INF, -1},
      {"tanh(-0)", v_tanh_, -0.0, -0.0},
      {"tanh(nan)", v_tanh_, QNAN, QNAN},
      {"tanh(denormal)", v_tanh_, 0x1p-1074, 0x1p-1074},
      {"sinh(inf)", v_sinh_, INF, INF},
      {"sinh(-inf)", v_sinh_, -INF, -INF},
      {"sinh(nan)", v_sinh_, QNAN, QNAN},
      {"sinh(-0)", v_sinh_, -0.0, -0.0},
      {"cosh(-inf)", v_cosh_, -INF, INF},
      {"cosh(nan)", v_cosh_, QNAN, QNAN},
      {"cosh(0)", v_cosh_, 0, 1},
      {"sin(-0)", v_sin_, -0.0, -0.0},
      {"sin(inf)", v_sin_, INF, QNAN},
      {"sin(nan)", v_sin_, QNAN, QNAN},
      {"cos(0)", v_cos_, 0, 1},
      {"cos(inf)", v_cos_, INF, QNAN},
      {"sin(1e22)", v_sin_, 1e22, -0.8522008497671888},
      {"sin(denormal)", v_sin_, 0x1p-1074, 0x1p-1074},
      {"erf(inf)", v_erf_, INF, 1},
      {"erf(-inf)", v_erf_, -INF, -1},
      {"erf(nan)", v_erf_, QNAN, QNAN},
      {"erf(-0)", v_erf_, -0.0, -0.0},
      {"erfc(inf)", v_erfc_, INF, 0},
      {"erfc(-inf)", v_erfc_, -INF, 2},
      {"erfc(nan)", v_erfc_, QNAN, QNAN},
      {"erfc(0)", v_erfc_, 0, 1},
      {"Phi(0)", v_Phi_, 0, 0.5},
      {"Phi(inf)", v_Phi_, INF, 1},
      {"Phi(-inf)", v_Phi_, -INF, 0},
      {"Phi(nan)", v_Phi_, QNAN, QNAN},
      {"log_Phi(inf)", v_log_Phi_, INF, 0},
      {"log_Phi(-inf)", v_log_Phi_, -INF, -INF},
      {"log_Phi(nan)", v_log_Phi_, QNAN, QNAN},
      {"log_Phi(-1e200)", v_log_Phi_, -1e200, -INF},
      {"log_Phi(-2^500)", v_log_Phi_, -0x1p500, -0x1p999},
      {"log_Phi'(inf)", v_log_Phi_d_, INF, 0},
      {"log_Phi'(nan)", v_log_Phi_d_, QNAN, QNAN},
      {"inv_Phi(0)", v_inv_Phi_, 0, -INF},
      {"inv_Phi(1)", v_inv_Phi_, 1, INF},
      {"inv_Phi(.5)", v_inv_Phi_, 0.5, 0},
      {"inv_Phi(-1)", v_inv_Phi_, -1, QNAN},
      {"inv_Phi(2)", v_inv_Phi_, 2, QNAN},
      {"inv_Phi(nan)", v_inv_Phi_, QNAN, QNAN},
      {"lgamma(1)", v_lgamma_, 1, 0},
      {"lgamma(2)", v_lgamma_, 2, 0},
      {"lgamma(0)", v_lgamma_, 0, INF},
      {"lgamma(-1)", v_lgamma_, -1, INF},
      {"lgamma(inf)", v_lgamma_, INF, INF},
      {"lgamma(-inf)", v_lgamma_, -INF, INF},
      {"lgamma(nan)", v_lgamma_, QNAN, QNAN},
      {"lgamma(max)", v_lgamma_, DBL_MAX, INF},
      {"lgamma(-.5)", v_lgamma_, -0.5, 1.2655121234846454},
      {"lgamma(denormal)", v_lgamma_, 0x1p-1074, 744.4400719213812},
      {"digamma(inf)", v_digamma_, INF, INF},
      {"digamma(0)", v_digamma_, 0, QNAN},
      {"digamma(-1)", v_digamma_, -1, QNAN},
      {"digamma(nan)", v_digamma_, QNAN, QNAN},
      {"digamma(-inf)", v_digamma_, -INF, QNAN},
  };
  for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
    vd x = v_splat(0.3);
    x[VL - 1] =
        v[i].x; /* among ordinary lanes, so that lane-by-lane paths are seen to leave them alone */
    vd y = v[i].f(x), plain = v[i].f(v_splat(0.3));
    same(v[i].name, y[VL - 1], v[i].y);
    same(v[i].name, y[0], plain[0]);
  }
}

static void pow_special(void **unused) {
  (void)unused;
  static const double a[] = {0,   -0.0, 1,    -1,        2,       -2,    0.5,    -0.5, 3,   -3,
                             INF, -INF, QNAN, 0x1p-1074, DBL_MAX, 1e300, -1e300, 0.1,  1e30};
  for (size_t i = 0; i < sizeof a / sizeof *a; i++)
    for (size_t j = 0; j < sizeof a / sizeof *a; j++) {
      double got = v_pow(v_splat(a[i]), v_splat(a[j]))[0], want = pow(a[i], a[j]);
      if (!(fabs(got - want) <= 2.3e-16 * fabs(want))) same("pow", got, want);
    }
}

static void log_sum_exp(void **unused) {
  (void)unused;
  same("lse(inf, 1)", v_log_sum_exp(v_splat(INF), v_splat(1))[0], INF);
  same("lse(-inf, 1)", v_log_sum_exp(v_splat(-INF), v_splat(1))[0], 1);
  same("lse(-inf, -inf)", v_log_sum_exp(v_splat(-INF), v_splat(-INF))[0], -INF);
  same("lse(inf, inf)", v_log_sum_exp(v_splat(INF), v_splat(INF))[0], INF);
  same("lse(nan, 1)", v_log_sum_exp(v_splat(QNAN), v_splat(1))[0], QNAN);
  same("lse(1, nan)", v_log_sum_exp(v_splat(1), v_splat(QNAN))[0], QNAN);
  assert_true(fabs(v_log_sum_exp(v_splat(1), v_splat(2))[0] - 2.313261687518223) < 1e-15);
  vd d;
  assert_true(v_log1p_exp_d(v_splat(-0.7), &d)[0] == v_log1p_exp(v_splat(-0.7))[0]);
  assert_true(d[0] == v_inv_logit(v_splat(-0.7))[0]);
}

static void vector_basics(void **unused) {
  (void)unused;
  double a[2 * VL + 1], b[VL];
  for (int i = 0; i < 2 * VL + 1; i++) a[i] = i - 1.5;
  vd x = v_load(a + 1), y = v_splat(0);
  v_store(b, v_select(v_lt(x, y), -x, x));
  for (int i = 0; i < VL; i++) same("abs by select", b[i], fabs(a[i + 1]));
  assert_true(v_all(v_eq(v_abs(x), v_load(b))));
  assert_true(v_any(v_lt(x, y)) && !v_all(v_lt(x, y)));
  double s = 0;
  for (int i = 0; i < VL; i++) s += a[i + 1];
  assert_true(fabs(v_sum(x) - s) < 1e-12);
  vd p = v_load_n(a, 1);
  assert_true(p[0] == a[0] && p[VL - 1] == 0);
  assert_true(isnan(v_max(v_splat(0), V_NAN)[0]) && v_max(V_NAN, v_splat(0))[0] == 0);
  assert_true(v_hmax(v_iota()) == VL - 1);
}

int main(void) {
#if defined(PVI_AVX512)
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq"))
    return puts("no AVX-512 here: skipped"), 0;
#elif defined(PVI_AVX2)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return puts("no AVX2 here: skipped"), 0;
#endif
  printf("VL = %d\n", VL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(vector_basics), cmocka_unit_test(accuracy),
      cmocka_unit_test(power),         cmocka_unit_test(special_values),
      cmocka_unit_test(pow_special),   cmocka_unit_test(log_sum_exp),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
