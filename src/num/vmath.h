/* vmath.h: elementary and special functions of a vector, inlined into the kernels.
 *
 * Largest errors in ulp that some 10^7 random arguments of all magnitudes showed, over the three
 * instruction sets (test_vmath has the bounds): exp log log1p sin cos pow 1; erf expm1
 * log1p_exp 1.5; log1m_exp tanh erfc inv_logit logit Phi log_Phi sinh 2
 * - 2.8; lgamma digamma log_Phi_d 3.5 (digamma, lgamma: also near their zeros); inv_Phi 5. Special
 * values are those of IEEE 754. No branches but the predictable ones that take rare arguments aside
 * (marked so).
 *
 * How to read: `v_exp` and `v_log` are the hot pair and the others are made from their cores
 * (`exp_steps`, `log_core`), given an extra low-order part where the argument is not a double
 * (log1p: 1 + x; erfc: x^2). Polynomials whose origin is not named are minimax fits made for this
 * file (Remez in 50 digits; the error is stated relative to the function). Builds with FMA let the
 * compiler contract a*b + c; where that would hurt, the product passes through V_OPAQUE.
 */
#ifndef PVI_NUM_VMATH_H
#define PVI_NUM_VMATH_H

#include <math.h>

#include "num/simd.h"

/* ---- pieces ---------------------------------------------------------------------------------- */

#if defined(__clang__)
#define V_UNROLL _Pragma("clang loop unroll(full)")
#else
#define V_UNROLL _Pragma("GCC unroll 32")
#endif

/* Keeps the compiler from contracting a product into the sum that uses it. */
#if defined(__x86_64__) && defined(PVI_FMA)
#define V_OPAQUE(a) __asm__("" : "+v"(a))
#else
#define V_OPAQUE(a) ((void)0)
#endif

#define V_INF v_splat((double)INFINITY)
#define V_NAN v_splat((double)NAN)

/* sum_k c[k] x^k for k < n, as even and odd halves. */
VFN vd v_poly(vd x, const double *c, int n) {
  vd x2 = x * x, e = v_splat(c[(n - 1) & ~1]), o = v_splat(c[(n - 2) | 1]);
  V_UNROLL
  for (int k = ((n - 1) & ~1) - 2; k >= 0; k -= 2) e = v_fma(e, x2, v_splat(c[k]));
  V_UNROLL
  for (int k = ((n - 2) | 1) - 2; k >= 1; k -= 2) o = v_fma(o, x2, v_splat(c[k]));
  return v_fma(o, x, e);
}
#define V_POLY(x, c) v_poly(x, c, (int)(sizeof(c) / sizeof *(c)))

/* a + b = s + *err exactly (Knuth). */
VFN vd v_two_sum(vd a, vd b, vd *err) {
  vd s = a + b, t = s - a;
  *err = (a - (s - t)) + (b - t);
  return s;
}

/* a * b = p + *err exactly, away from over- and underflow (fma, or Veltkamp and Dekker). */
VFN vd v_two_prod(vd a, vd b, vd *err) {
  vd p = a * b;
  V_OPAQUE(p);
#ifdef PVI_FMA
  *err = v_fma(a, b, -p);
#else
  vd ta = a * 134217729.0, tb = b * 134217729.0; /* 2^27 + 1 */
  vd ah = ta - (ta - a), bh = tb - (tb - b), al = a - ah, bl = b - bh;
  *err = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
#endif
  return p;
}

/* n / (d + dl) for |dl| much smaller than d, d normal and finite. */
VFN vd v_div_sum(vd n, vd d, vd dl) {
#ifdef PVI_FMA
  vd r = 1.0 / d, q = n * r;
  V_OPAQUE(q);
  return v_fma(v_fma(-q, d, n) - q * dl, r, q);
#else
  vd q = n / d;
  return q - q * (dl / d);
#endif
}

/* x = n as an integer in the low bits of the result, for |x| < 2^51. */
#define V_MAGIC 6755399441055744.0 /* 1.5 * 2^52 */

/* ---- exp ------------------------------------------------------------------------------------- */

/* exp(r) = 1 + r + r^2 P(r) for |r| <= log(2)/2; relative error 2^-58. */
static const double exp_P[] = {
    0.5000000000000013,    0.166666666666667,      0.041666666666514966,   0.008333333333306981,
    0.00138888889471468,   0.00019841269917904558, 2.4801489794995142e-05, 2.7557215798968954e-06,
    2.763133680581867e-07, 2.5118029366010295e-08};
#define EXP_LN2_HI 6.93147180369123816490e-01 /* 33 bits: n * EXP_LN2_HI is exact */
#define EXP_LN2_LO 1.90821492927058770002e-10

/* Within these bounds exp is neither 0 nor infinite, or the scaling makes it so. */
VFN vd exp_clamp(vd x) { return v_min(v_splat(720.0), v_max(v_splat(-760.0), x)); }

/* n = x / log 2 rounded, also as an integer in the low bits of *t = n + V_MAGIC. */
VFN vd exp_steps(vd x, vd *t) {
  *t = v_fma(x, v_splat(1.4426950408889634), v_splat(V_MAGIC));
  return *t - V_MAGIC;
}

/* p 2^n, rounding once when the result is subnormal; |n| < 1100. */
VFN vd exp_scale(vd p, vd t, vd n) {
#ifdef PVI_AVX512
  (void)t;
  return (vd)_mm512_scalef_pd((__m512d)p, (__m512d)n);
#else
  (void)n;
  vu e = (vu)t - (vu)v_splat(V_MAGIC) + 2046; /* two exponents, whose sum this is */
  vu h = e >> 1;
  return p * (vd)(h << 52) * (vd)((e - h) << 52);
#endif
}

/* 2^n exp(r): 1 + r is kept to twice the precision. */
VFN vd exp_finish(vd r, vd t, vd n) {
  vd h = 1.0 + r, q = v_fma(r * r, V_POLY(r, exp_P), r - (h - 1.0));
  return exp_scale(h + q, t, n);
}

/* Where exp is 0 the lane is set aside: a product that underflows costs the processor some 200
 * cycles. */
VFN vd v_exp(vd x) {
  vm gone = v_lt(x, v_splat(-745.13321910194122));
  vd y = v_min(v_splat(720.0), v_select(gone, v_splat(0), x)), t, n = exp_steps(y, &t);
  vd e = exp_finish(v_fma(n, v_splat(-EXP_LN2_LO), v_fma(n, v_splat(-EXP_LN2_HI), y)), t, n);
  return v_select(gone, v_splat(0), e);
}

/* exp(x) within 1.5 ulp, for x from -708 to 0. */
VFN vd exp_negative(vd x) {
  vd t, n = exp_steps(x, &t);
  vd r = v_fma(n, v_splat(-EXP_LN2_LO), v_fma(n, v_splat(-EXP_LN2_HI), x));
  vd p = 1.0 + v_fma(r * r, V_POLY(r, exp_P), r);
#ifdef PVI_AVX512
  return (vd)_mm512_scalef_pd((__m512d)p, (__m512d)n);
#else
  return (vd)((vu)p + ((vu)t << 52));
#endif
}

/* exp(-|x|) where only sums with 1 matter: not below the smallest normal number. */
VFN vd v_exp_unit(vd x) { return exp_negative(v_max(v_splat(-708.0), -v_abs(x))); }

/* exp(x) of x <= 0, as weights beside a 1 take it: 0 below exp(-700), and where x is nan or
 * positive. */
VFN vd v_exp_weight(vd x) {
  vd y = v_min(v_splat(0), v_max(v_splat(-700.0), x));
  return v_select(v_eq(x, y), exp_negative(y), v_splat(0));
}

/* exp(x + l), l a correction below the last bit of x. */
VFN vd v_exp_sum(vd x, vd l) {
  vd y = exp_clamp(x), t, n = exp_steps(y, &t);
  return exp_finish(v_fma(n, v_splat(-EXP_LN2_HI), y) - v_fma(n, v_splat(EXP_LN2_LO), -l), t, n);
}

/* exp(x) - 1 = 2 (2^(n-1) (r + c + r^2 P) + (2^(n-1) - 1/2)), the leading sum compensated. */
static inline vd v_expm1(vd x) {
  vd t, err, z, y = v_min(v_splat(710.0), v_max(v_splat(-40.0), x)), n = exp_steps(y, &t);
  vd hi = v_fma(n, v_splat(-EXP_LN2_HI), y), lo = n * EXP_LN2_LO;
  vd r = v_two_sum(hi, -lo, &z);
  vd s = (vd)(((vu)t - (vu)v_splat(V_MAGIC) + 1022) << 52); /* 2^(n-1) */
  vd rs = r * s;
  V_OPAQUE(rs);
  vd m = v_two_sum(s - 0.5, rs, &err);
  vd q = v_fma(r * r, V_POLY(r, exp_P), z);
  vd e = 2.0 * (m + v_fma(q, s, err));
  e = v_select(v_lt(v_abs(x), v_splat(0x1p-55)), x, e);
  return v_select(v_isnan(x), x, e);
}

/* ---- log ------------------------------------------------------------------------------------- */

/* log(1+f) = 2 atanh(s) = f - (f^2/2 - s (f^2/2 + R)), s = f/(2+f), R = s^2 L(s^2); |s| <= 0.2,
 * error 2^-61 (form: fdlibm e_log.c). */
static const double log_L[] = {0.666666666666666,   0.40000000000056346, 0.2857142855591009,
                               0.22222224287058479, 0.18181666445243072, 0.1539109323205469,
                               0.13173915085441318, 0.13840897161097507};

/* log(1+f) + k log 2 + c + (g - f); f in [-1/4, 1/2], c small. g = f gives the log; g = f + a adds
 * a without rounding the log first. */
VFN vd log_core_by(vd f, vd s, vd g, vd k, vd c) {
  vd z = s * s, h = 0.5 * f * f;
  vd R = z * V_POLY(z, log_L);
  return v_fma(k, v_splat(EXP_LN2_HI),
               -((h - v_fma(s, h + R, v_fma(k, v_splat(EXP_LN2_LO), c))) - g));
}

VFN vd log_core_plus(vd f, vd g, vd k, vd c) { return log_core_by(f, f / (2.0 + f), g, k, c); }
VFN vd log_core(vd f, vd k, vd c) { return log_core_plus(f, f, k, c); }

/* x = 2^k m with m in [3/4, 3/2), for positive finite x. */
VFN vd log_reduce(vd x, vd *k) {
#ifdef PVI_AVX512
  __m512d m = _mm512_getmant_pd((__m512d)x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_src);
  *k = (vd)_mm512_getexp_pd((__m512d)x) - (vd)_mm512_getexp_pd(m);
  return (vd)m;
#else
  vm tiny = v_lt(x, v_splat(0x1p-1022));
  vu b = (vu)v_select(tiny, x * 0x1p54, x) + (0x3ff0000000000000 - 0x3fe8000000000000);
  vd e = (vd)((b >> 52) | (vu)v_splat(0x1p52)) -
         v_select(tiny, v_splat(0x1p52 + 1077), v_splat(0x1p52 + 1023));
  *k = e;
  return (vd)((b & 0x000fffffffffffff) + 0x3fe8000000000000);
#endif
}

/* The value r of log(x) for positive finite x, else what IEEE says: log(0) = -inf, log(<0) = nan,
 * log(inf) = inf, log(nan) = nan. */
VFN vd log_special(vd x, vd r) {
#ifdef PVI_AVX512
  /* classes: qnan snan 0 1 -inf +inf -x +x; actions: 0 keep, 1 copy x, 2 qnan(x), 3 indefinite nan,
   * 4 -inf, 5 +inf */
  const int64_t table = 0x03530422;
  return (vd)_mm512_fixupimm_pd((__m512d)r, (__m512d)x, _mm512_set1_epi64(table), 0);
#else
  r = v_select(v_lt(x, V_INF), r, x);
  vd bad = v_select(v_eq(x, v_splat(0)), -V_INF, V_NAN);
  return v_select(v_lt(v_splat(0), x), r, bad);
#endif
}

/* log(x + l) of any x; l a correction below the last bit of x. */
VFN vd log_any(vd x, vd l) {
  vd k, m = log_reduce(x, &k);
  vd c = v_select(v_and(v_lt(v_splat(0), x), v_lt(x, V_INF)), l / x, v_splat(0));
  return log_special(x, log_core(m - 1.0, k, c));
}

#ifdef PVI_AVX512
VFN vd v_log(vd x) {
  vd k, m = log_reduce(x, &k);
  return log_special(x, log_core(m - 1.0, k, v_splat(0)));
}
VFN vd v_log_sum(vd x, vd l) { return log_any(x, l); }
#else
/* Without getexp and fixup it pays to let only normal positive finite lanes take the short way; any
 * other lane sends the whole vector to log_rare. */
static __attribute__((noinline, cold, unused)) vd log_rare(vd x, vd l) { return log_any(x, l); }

VFN bool log_plain(vd x) { return v_all(v_and(v_le(v_splat(0x1p-1022), x), v_lt(x, V_INF))); }

VFN vd log_reduce_plain(vd x, vd *k) {
  vu b = (vu)x + (0x3ff0000000000000 - 0x3fe8000000000000);
  *k = (vd)((b >> 52) | (vu)v_splat(0x1p52)) - (0x1p52 + 1023);
  return (vd)((b & 0x000fffffffffffff) + 0x3fe8000000000000);
}

VFN vd v_log(vd x) {
  if (__builtin_expect(!log_plain(x), 0)) return log_rare(x, v_splat(0));
  vd k, m = log_reduce_plain(x, &k);
  return log_core(m - 1.0, k, v_splat(0));
}

/* 1 + f = (x + l) / 2^k: m - 1 is exact, and l 2^-k is added to it with an error below the last bit
 * of f, so that there is nothing to divide. */
VFN vd v_log_sum(vd x, vd l) {
  bool plain = v_all(v_and(v_le(v_splat(0x1p-1022), x), v_lt(x, v_splat(0x1p1023))));
  if (__builtin_expect(!plain, 0)) return log_rare(x, l);
  vd k, m = log_reduce_plain(x, &k);
  vd by = (vd)((vu)m - (vu)x + (vu)v_splat(1.0)); /* 2^-k */
  return log_core(v_fma(l, by, m - 1.0), k, v_splat(0));
}
#endif

static inline vd v_log1p(vd x) {
  vd e, u = v_two_sum(v_splat(1.0), x, &e);
  vd r = v_log_sum(u, e);
  return v_select(v_eq(x, v_splat(0)), x, r); /* keeps -0 */
}

/* log(1 + e) for e in [0, 1]: f = e, or f = (e-1)/2 and one log 2 when e > 1/2 (exact by Sterbenz).
 */
VFN vd log1p_unit(vd e) {
  vm big = v_lt(v_splat(0.5), e);
  vd f = v_select(big, 0.5 * (e - 1.0), e);
  return log_core(f, v_select(big, v_splat(1), v_splat(0)), v_splat(0));
}

/* ---- the logistic family --------------------------------------------------------------------- */

/* 1/(1 + exp(-x)) from e = exp(-|x|); the small tail is e/(1+e), so it stays accurate down to the
 * subnormals. */
VFN vd logistic_of(vd x, vd e) { return v_select(v_lt(x, v_splat(0)), e, v_splat(1)) / (1.0 + e); }

VFN vd v_inv_logit(vd x) { return logistic_of(x, v_exp(-v_abs(x))); }

/* log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)) */
VFN vd v_log1p_exp(vd x) { return v_max(v_splat(0), x) + log1p_unit(v_exp(-v_abs(x))); }

/* log(1 + exp(x)) and its derivative inv_logit(x), for the price of one exp and one division:
 * log1p_unit and logistic_of with the quotients f / (2 + f) and 1 / (1 + e) taken from 1 / ((2 + f)
 * (1 + e)). */
VFN vd v_log1p_exp_d(vd x, vd *d) {
  vd e = v_exp(-v_abs(x));
  vm big = v_lt(v_splat(0.5), e);
  vd f = v_select(big, 0.5 * (e - 1.0), e), u = 2.0 + f, v = 1.0 + e;
  vd q = 1.0 / (u * v);
  *d = v_select(v_lt(x, v_splat(0)), e, v_splat(1)) * (u * q);
  return v_max(v_splat(0), x) +
         log_core_by(f, v * q * f, f, v_select(big, v_splat(1), v_splat(0)), v_splat(0));
}

/* log(x / (1-x)); near 1/2 as log1p of a small quotient. */
static inline vd v_logit(vd x) {
  vd far = v_log(x / (1.0 - x)), near = v_log1p((2.0 * x - 1.0) / (1.0 - x));
  return v_select(v_lt(v_abs(x - 0.5), v_splat(0.2)), near, far);
}

/* log(1 - exp(x)), x <= 0 (Maechler 2012: the switch at -log 2). */
static inline vd v_log1m_exp(vd x) {
  vm near = v_lt(v_splat(-0.6931471805599453), x);
  vd u = v_select(near, -v_expm1(x), v_splat(1)), e = v_select(near, v_splat(0), -v_exp(x));
  vd err, s = v_two_sum(u, e, &err);
  return v_log_sum(s, err);
}

/* log(exp(a) + exp(b)) */
static inline vd v_log_sum_exp(vd a, vd b) {
  vd hi = v_max(a, b), d = v_abs(a - b);
  vd r = hi + log1p_unit(v_exp(-d));
  r = v_select(v_eq(a, b), a + 0.6931471805599453, r); /* also both infinite */
  return v_select(v_or(v_isnan(a), v_isnan(b)), a + b, r);
}

/* tanh|x| = t/(t+2), t = expm1(2|x|) */
static inline vd v_tanh(vd x) {
  vd t = v_expm1(v_min(v_splat(50), 2.0 * v_abs(x)));
  vd dl, d = v_two_sum(v_splat(2.0), t, &dl), r = v_copysign(v_div_sum(t, d, dl), x);
  return v_select(v_lt(v_abs(x), v_splat(0x1p-28)), x, r);
}

/* sinh|x| = (t + t/(t+1))/2, t = expm1|x|; beyond 709 as exp(x/2)^2/2. */
static inline vd v_sinh(vd x) {
  vd a = v_abs(x), t = v_expm1(a), h = v_exp(0.5 * a);
  vd r = v_select(v_lt(a, v_splat(40)), 0.5 * (t + t / (t + 1.0)), 0.5 * h * h);
  r = v_select(v_lt(a, v_splat(0x1p-28)), a, r);
  return v_copysign(r, x);
}

static inline vd v_cosh(vd x) {
  vd a = v_abs(x), e = v_exp(a), h = v_exp(0.5 * a);
  return v_select(v_lt(a, v_splat(700)), v_fma(v_splat(0.5), e, 0.5 / e), 0.5 * h * h);
}

/* ---- sin, cos -------------------------------------------------------------------------------- */

/* fdlibm k_sin.c, k_cos.c: on [-pi/4, pi/4] */
static const double sin_S[] = {-1.66666666666666324348e-01, 8.33333333332248946124e-03,
                               -1.98412698298579493134e-04, 2.75573137070700676789e-06,
                               -2.50507602534068634195e-08, 1.58969099521155010221e-10};
static const double cos_C[] = {4.16666666666666019037e-02, -1.38888888888741095749e-03,
                               2.48015872894767294178e-05, -2.75573143513906633035e-07,
                               2.08757232129817482790e-09, -1.13596475577881948265e-11};

/* x = n pi/2 + r + *rl for |x| < 2^19: pi/2 in three pieces of 33 bits, whose products with n are
 * exact, and a tail (fdlibm).
 */
VFN vd trig_reduce(vd x, vd *rl, vi *quadrant) {
  vd t = v_fma(x, v_splat(0.6366197723675814), v_splat(V_MAGIC)), n = t - V_MAGIC, e1, e2;
  *quadrant = (vi)t & 3;
  vd a = x - n * 1.57079632673412561417e+00;
  vd b = v_two_sum(a, -(n * 6.07710050630396597660e-11), &e1);
  vd c = v_two_sum(b, -(n * 2.02226624871116645580e-21), &e2);
  vd lo = (e1 + e2) - n * 8.47842766036889956997e-32;
  vd r = c + lo;
  *rl = (c - r) + lo;
  return r;
}

VFN vd sin_kernel(vd x, vd y) {
  vd z = x * x, v = z * x;
  vd r = v_poly(z, sin_S + 1, 5);
  return x - ((z * (0.5 * y - v * r) - y) - v * sin_S[0]);
}

VFN vd cos_kernel(vd x, vd y) {
  vd z = x * x, hz = 0.5 * z, w = 1.0 - hz;
  vd r = z * V_POLY(z, cos_C);
  return w + (((1.0 - w) - hz) + (z * r - x * y));
}

/* sin(x + shift pi/2); arguments beyond 2^19 go lane by lane. */
VFN vd sin_shifted(vd x, int shift) {
  vd rl;
  vi q;
  vm far = v_not(v_lt(v_abs(x), v_splat(0x1p19)));
  vd r = trig_reduce(v_select(far, v_splat(0), x), &rl, &q);
  q += shift;
  vd s = v_select(v_eqi(q & 1, v_splati(0)), sin_kernel(r, rl), cos_kernel(r, rl));
  s = v_xor(s, (vd)((vu)(q & 2) << 62));
  if (shift == 0) s = v_select(v_lt(v_abs(x), v_splat(0x1p-27)), x, s);
  if (__builtin_expect(v_any(far), 0))
    for (int i = 0; i < VL; i++)
      if (v_lane(far, i)) s[i] = shift ? cos(x[i]) : sin(x[i]);
  return s;
}

static inline vd v_sin(vd x) { return sin_shifted(x, 0); }
static inline vd v_cos(vd x) { return sin_shifted(x, 1); }

/* ---- the error function and the normal distribution ------------------------------------------ */

/* (1 + 2x) exp(x^2) erfc(x) = 1 + E(q), q = (x - K)/(x + K), K = 3.75, x >= 0; error 2^-58 (form:
 * Shepherd & Laframboise 1981). q is computed as 2x/(x + K) - 1, which is accurate where E is
 * steep. */
static const double erfcx_E[] = {
    0.2375126308378276,     -0.14024059858554697,   0.003585415485464774,    0.08227673849014676,
    -0.10880393014176584,   0.0923043211603363,     -0.05869339858931061,    0.02836227741945864,
    -0.009746579561252827,  0.0017556258494998177,  0.00029371368432917197,  -0.0002901540665399064,
    5.1649030025489785e-05, 2.238420213199647e-05,  -1.1443979984146484e-05, -9.734957992865233e-07,
    1.7513703972065835e-06, -5.729050937254717e-08, -2.5838519010458485e-07, 2.331464179216767e-08,
    3.848511529753588e-08,  -3.764814382111734e-09, -5.100706858079345e-09,  3.147509190112634e-10,
    4.1280715327643874e-10};

/* scale exp(x^2) erfc(x) for 0 <= x < 1e150. */
VFN vd erfcx_times(vd x, vd scale) {
  vd dl, d = v_two_sum(v_splat(1), 2.0 * x, &dl);
  vd p = V_POLY(2.0 * x / (x + 3.75) - 1.0, erfcx_E);
  return v_div_sum(v_fma(scale, p, scale), d, dl);
}

/* The same at x = a/sqrt 2, which is not rounded: 2 scale P(Z > a) exp(a^2/2). */
VFN vd erfcx_half_times(vd a, vd scale) {
  vd hl, h = v_two_prod(a, v_splat(1.4142135623730951), &hl), dl, d = v_two_sum(v_splat(1), h, &dl);
  dl += v_fma(a, v_splat(-9.667293313452913e-17), hl);
  vd p = V_POLY(2.0 * a / (a + 3.75 * 1.4142135623730951) - 1.0, erfcx_E);
  return v_div_sum(v_fma(scale, p, scale), d, dl);
}

/* exp(-c x^2), c = 1 or 1/2, the square to twice the precision. */
VFN vd exp_minus_square(vd x, double c) {
  vd l, h = v_two_prod(x, x, &l);
  return v_exp_sum(-c * h, -c * l);
}

/* erf(x)/x = 1 + e(x^2) for |x| <= 1, error 2^-62. */
static const double erf_e[] = {
    0.1283791670955126,    -0.3761263890318375,     0.11283791670954857,    -0.026866170645072893,
    0.005223977624780849,  -0.0008548326978741218,  0.00012055331036867641, -1.4925593506254136e-05,
    1.646097280914595e-06, -1.6350025163666317e-07, 1.4657879601536979e-08, -1.1365665583128013e-09,
    5.945261941183837e-11};

static inline vd v_erfc(vd x) {
  vd a = v_min(v_splat(28), v_abs(x)), xc = v_min(v_splat(1), v_max(v_splat(-1), x));
  vd tail = erfcx_times(a, exp_minus_square(a, 1.0));
  vd near =
      1.0 - v_fma(xc, V_POLY(xc * xc, erf_e), xc); /* erfc >= 1/2 here, so the difference is safe */
  vd r = v_select(v_lt(x, v_splat(0)), 2.0 - tail, tail);
  r = v_select(v_lt(v_abs(x), v_splat(0.45)), near, r);
  return v_select(v_isnan(x), x, r);
}

static inline vd v_erf(vd x) {
  vd a = v_min(v_splat(28), v_abs(x)), ac = v_min(v_splat(1), a);
  vd near = v_fma(ac, V_POLY(ac * ac, erf_e), ac),
     far = 1.0 - erfcx_times(a, exp_minus_square(a, 1.0));
  vd r = v_copysign(v_select(v_lt(a, v_splat(1)), near, far), x);
  return v_select(v_isnan(x), x, r);
}

#define V_SQRT_HALF 0.70710678118654752440
#define V_PHI_NEAR 0.6 /* nearer to zero Phi is 1/2 + erf(x/sqrt 2)/2 */

/* P(0 < Z < x) for |x| < sqrt 2 */
VFN vd normal_centre(vd x) {
  vd y = x * V_SQRT_HALF;
  y = v_min(v_splat(1), v_max(v_splat(-1), y));
  return 0.5 * v_fma(y, V_POLY(y * y, erf_e), y);
}

static inline vd v_Phi(vd x) {
  vd a = v_min(v_splat(40), v_abs(x));
  vd t = erfcx_half_times(a, 0.5 * exp_minus_square(a, 0.5)); /* P(Z > a) */
  vd r = v_select(v_lt(x, v_splat(0)), t, 1.0 - t);
  r = v_select(v_lt(a, v_splat(V_PHI_NEAR)), 0.5 + normal_centre(x), r);
  return v_select(v_isnan(x), x, r);
}

/* What log Phi and its derivative share: w = P(Z > |x|) exp(x^2/2) below, P(Z > |x|) above, e =
 * exp(-x^2/2). */
VFN vd normal_scaled_tail(vd x, vm below, vd *e) {
  vd a = v_min(v_splat(1e150), v_abs(x));
  *e = exp_minus_square(v_min(v_splat(40), a), 0.5);
  return erfcx_half_times(a, v_select(below, v_splat(0.5), 0.5 * *e));
}

/* log Phi(x): log(w) - x^2/2 below, log(1/2 + centre) near zero, log(1 - w) above. */
static inline vd v_log_Phi(vd x) {
  vm near = v_lt(v_abs(x), v_splat(V_PHI_NEAR)), below = v_and(v_not(near), v_lt(x, v_splat(0)));
  vd e, err, w = normal_scaled_tail(x, below, &e);
  vd u = v_two_sum(v_select(near, v_splat(0.5), v_splat(1)), v_select(near, normal_centre(x), -w),
                   &err);
  vd l = v_log_sum(v_select(below, w, u), v_select(below, v_splat(0), err));
  vd r = v_select(below, v_fma(-0.5 * x, x, l), l);
  return v_select(v_isnan(x), x, r);
}

/* log(Phi(a) - Phi(b)), a > b, by the tail in which both are small; where the two are near each
 * other (w = a - b, m between them) by log phi(m) + log w + log(1 + w^2 He2(m)/24 + w^4 He4(m)/1920
 * + w^6 He6(m)/322560), He: Hermite's polynomials, so that it holds as long as a and b can be told
 * apart
 */
static inline vd v_log_Phi_diff(vd a, vd b) {
  vm above = v_lt(v_splat(0), b);
  vd p = v_log_Phi(v_select(above, -b, a)), q = v_log_Phi(v_select(above, -a, b));
  vd wide = p + v_log1m_exp(q - p);
  vd w = a - b, m = 0.5 * (a + b), t = w * w, x = m * m;
  vm near = v_lt(w * v_max(v_splat(1), v_abs(m)), v_splat(0.05));
  if (__builtin_expect(!v_any(near), 1)) return wide;
  vd s = (x - 1.0) / 24.0 + t * ((x * (x - 6.0) + 3.0) / 1920.0 +
                                 t * ((x * (x * (x - 15.0) + 45.0) - 15.0) / 322560.0));
  return v_select(near, v_log(w) + (v_log1p(t * s) - (0.5 * x + 0.9189385332046727418)), wide);
}

/* Its derivative in a, and minus that in b, at x = a or b: phi(x) / (Phi(a) - Phi(b)), r its value;
 * 0 where there is none. */
static inline vd v_log_Phi_diff_d(vd x, vd r) {
  vd d = v_exp(-0.5 * x * x - 0.9189385332046727418 - r);
  return v_select(v_lt(v_splat(-(double)INFINITY), r), d, v_splat(0));
}

/* log(inv_logit(a) - inv_logit(b)) = log(inv_logit(a) inv_logit(-b) (1 - e^(b - a))), a > b */
static inline vd v_log_inv_logit_diff(vd a, vd b) {
  return v_log1m_exp(b - a) - v_log1p_exp(-a) - v_log1p_exp(b);
}

/* d/dx log Phi(x) = phi(x)/Phi(x) */
static inline vd v_log_Phi_d(vd x) {
  vm near = v_lt(v_abs(x), v_splat(V_PHI_NEAR)), below = v_and(v_not(near), v_lt(x, v_splat(0)));
  vd e, w = normal_scaled_tail(x, below, &e);
  vd P = v_select(below, w, v_select(near, 0.5 + normal_centre(x), 1.0 - w));
  vd r = 0.3989422804014326779 * (v_select(below, v_splat(1), e) / P);
  return v_select(v_isnan(x), x, r);
}

/* Wichura 1988, AS 241 (PPND16): centre |p - 1/2| <= 0.425, and two tails in r = sqrt(-log(min(p,
 * 1-p))). */
static const double as241_a[] = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                                 1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                 3.3430575583588128105e+4, 2.5090809287301226727e+3};
static const double as241_b[] = {1.0,
                                 4.2313330701600911252e+1,
                                 6.8718700749205790830e+2,
                                 5.3941960214247511077e+3,
                                 2.1213794301586595867e+4,
                                 3.9307895800092710610e+4,
                                 2.8729085735721942674e+4,
                                 5.2264952788528545610e+3};
static const double as241_c[] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                 5.76949722146069140550e0,  3.64784832476320460504e0,
                                 1.27045825245236838258e0,  2.41780725177450611770e-1,
                                 2.27238449892691845833e-2, 7.74545014278341407640e-4};
static const double as241_d[] = {1.0,
                                 2.05319162663775882187e0,
                                 1.67638483018380384940e0,
                                 6.89767334985100004550e-1,
                                 1.48103976427480074590e-1,
                                 1.51986665636164571966e-2,
                                 5.47593808499534494600e-4,
                                 1.05075007164441684324e-9};
static const double as241_e[] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                 1.78482653991729133580e0,  2.96560571828504891230e-1,
                                 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                 2.71155556874348757815e-5, 2.01033439929228813265e-7};
static const double as241_f[] = {1.0,
                                 5.99832206555887937690e-1,
                                 1.36929880922735805310e-1,
                                 1.48753612908506148525e-2,
                                 7.86869131145613259100e-4,
                                 1.84631831751005468180e-5,
                                 1.42151175831644588870e-7,
                                 2.04426310338993978564e-15};

/* The normal quantile at p = q + 1/2 where small = min(p, 1-p): both given, so that neither end
 * loses digits. */
static inline vd v_inv_Phi_split(vd q, vd small) {
  vd s = 0.180625 - q * q;
  vd centre = q * V_POLY(s, as241_a) / V_POLY(s, as241_b);
  vm inner = v_le(v_abs(q), v_splat(0.425));
  if (v_all(inner)) return centre;
  vd r = v_sqrt(-v_log(small)), r1 = r - 1.6;
  vd tail = V_POLY(r1, as241_c) / V_POLY(r1, as241_d);
  vm outer = v_lt(v_splat(5), r);
  if (__builtin_expect(v_any(outer), 0)) {
    vd r2 = v_min(v_splat(30), r) - 5.0;
    tail = v_select(outer, V_POLY(r2, as241_e) / V_POLY(r2, as241_f), tail);
    tail = v_select(v_eq(r, V_INF), V_INF, tail);
  }
  tail = v_copysign(tail, q);
  return v_select(inner, centre, tail); /* p outside [0, 1]: the log made it nan */
}

static inline vd v_inv_Phi(vd p) { return v_inv_Phi_split(p - 0.5, v_min(1.0 - p, p)); }

/* ---- gamma family ---------------------------------------------------------------------------- */

/* lgamma(z) = (z-1)(z-2) H(z - 1.85), 1.2 <= z <= 2.5, error 2^-60. */
static const double lgamma_H[] = {
    0.4386181413306453,     -0.11111600481590589,    0.03929151501604128,    -0.015927547360777724,
    0.006943969881309385,   -0.0031643055929994166,  0.001484712172429803,   -0.0007110685315790869,
    0.0003457215990003121,  -0.00017003522819816142, 8.438947005276973e-05,  -4.219060180657949e-05,
    2.1221758155864744e-05, -1.0733452534463399e-05, 5.4513073033035535e-06, -2.762027813532685e-06,
    1.4102579943882492e-06, -7.676224292336282e-07,  3.9898729598906866e-07, -1.322738764099205e-07,
    6.417356938338374e-08,  -1.0273060018731427e-07, 5.507304914458076e-08};

/* lgamma(x) = (x - 1/2)(log x - 1) + (log(2 pi) - 1)/2 + W(1/x^2)/x, x >= 4.5, error 2^-62 */
static const double lgamma_W[] = {
    0.0833333333333333,     -0.00277777777774067,  0.0007936507799341726,
    -0.0005952357766831282, 0.0008415362305705152, -0.0019056294994640604,
    0.005996885752092955,   -0.020349859689460244, 0.04557546031389638};
#define LGAMMA_W0 0.41893853320467274178

/* lgamma of x > 0. Below 4.5 the recurrence leads to z = x + shift in [1.2, 2.5], and the product
 * goes into the one log:
 *   lgamma(x) = lgamma(z) + log((x-1)(x-2)...) above, lgamma(z) - log(x) or - log(x (x+1)) below.
 * Where log and addend nearly cancel (around 1; and log x - 1 for large x) they are added before
 * the log is rounded. */
VFN vd lgamma_positive(vd x) {
  vm big = v_le(v_splat(4.5), x), b1 = v_lt(x, v_splat(1.2)), b2 = v_lt(x, v_splat(0.5));
  vm a1 = v_lt(v_splat(2.5), x), a2 = v_lt(v_splat(3.5), x),
     one = v_and(b1, v_le(v_splat(0.75), x));
  vd prod = v_select(a2, (x - 1.0) * (x - 2.0), v_select(a1, x - 1.0, v_splat(1)));
  prod = v_select(b2, v_fma(x, x, x), v_select(b1, x, prod));
  vd shift = v_select(
      a2, v_splat(-2),
      v_select(a1, v_splat(-1), v_select(b2, v_splat(2), v_select(b1, v_splat(1), v_splat(0)))));
  vd H = V_POLY(x + (shift - 1.85), lgamma_H);
  vd z1 = (x + (shift - 1.0)) * H,
     z2 = x + (shift - 2.0); /* lgamma(z) = z1 z2; both shifts are exact */
  vd k, f = log_reduce(v_select(big, x, prod), &k) - 1.0;
  vd g = v_select(big, f - 1.0, v_select(one, v_fma(-z1, z2, f), f));
  vd l = log_core_plus(f, g, k, v_splat(0));
  vd small = v_fma(z1, v_select(one, v_splat(0), z2), v_select(b1, -l, l));
  vd y = 1.0 / x, w = v_fma(y, V_POLY(y * y, lgamma_W), v_splat(LGAMMA_W0));
  return v_select(big, v_fma(x - 0.5, l, w), small);
}

static inline vd v_lgamma(vd x) {
  vd r = lgamma_positive(x);
  vm other = v_not(v_lt(v_splat(0), x));
  if (__builtin_expect(v_any(other), 0)) { /* zero, negative, nan: lane by lane */
    int sign;
    for (int i = 0; i < VL; i++)
      if (v_lane(other, i)) r[i] = lgamma_r(x[i], &sign);
  }
  return v_select(v_eq(x, V_INF), x, r);
}

/* digamma(x)/(x - x0) = D(x - 3/2) for 1 <= x <= 2, x0 the positive zero; error 2^-58. */
static const double digamma_D[] = {
    0.9510558760318328,    -0.4236274212814606,     0.24054248424078722,    -0.14840492305388028,
    0.09498872445284977,   -0.061922133275542406,   0.04076083394339051,    -0.026975796657635307,
    0.017907248235603145,  -0.011908220153004733,   0.007927023326825232,   -0.005279936637416975,
    0.003518088712589137,  -0.0023454998282592156,  0.0015635033431069159,  -0.0010364320401476407,
    0.0006902823989954693, -0.00048603460529828013, 0.00032588001099547126, -0.00014465636830106868,
    9.329631731420076e-05, -0.0001783334314902464,  0.00012117243818408086};
#define DIGAMMA_X0 1.4616321449683622
#define DIGAMMA_X0_LO 9.549995429965697e-17

/* digamma(x) = log x - 1/(2x) - B(1/x^2)/x^2, x >= 4, error 2^-61 */
static const double digamma_B[] = {
    0.08333333333333234,  -0.008333333332524933, 0.003968253740014513, -0.004166634519699558,
    0.007573122606006319, -0.02095631904306992,  0.07864280433495685,  -0.3325884122163699,
    1.1918340709240889,   -2.3491080080769415};

/* digamma of x > 0. Below 4 the recurrence leads to [1, 2]; the sum of reciprocals is one quotient
 * num/den. */
VFN vd digamma_positive(vd x) {
  vm below = v_lt(x, v_splat(1)), a1 = v_lt(v_splat(2), x), a2 = v_lt(v_splat(3), x);
  vd shift =
      v_select(below, v_splat(1), v_select(a2, v_splat(-2), v_select(a1, v_splat(-1), v_splat(0))));
  vd num = v_select(below, v_splat(-1),
                    v_select(a2, 2.0 * x - 3.0, v_select(a1, v_splat(1), v_splat(0))));
  vd den =
      v_select(below, x, v_select(a2, (x - 1.0) * (x - 2.0), v_select(a1, x - 1.0, v_splat(1))));
  vd z = v_select(below, x, x + shift),
     x0 = v_select(below, v_splat(DIGAMMA_X0 - 1), v_splat(DIGAMMA_X0));
  vd root = (z - x0) - DIGAMMA_X0_LO; /* x + shift - x0 without a rounding of x + shift */
  vd small = v_fma(root, V_POLY(x - (1.5 - shift), digamma_D), num / den);
  vd y = 1.0 / x, y2 = y * y;
  vd large = v_log(x) - v_fma(y2, V_POLY(y2, digamma_B), 0.5 * y);
  return v_select(v_le(v_splat(4), x), large, small);
}

/* digamma; x <= 0 by reflection, psi(x) = psi(1-x) - pi cot(pi x), lane by lane. */
static inline vd v_digamma(vd x) {
  vm other = v_not(v_lt(v_splat(0), x));
  if (__builtin_expect(!v_any(other), 1)) return v_select(v_eq(x, V_INF), x, digamma_positive(x));
  vd r = digamma_positive(v_select(other, 1.0 - x, x));
  for (int i = 0; i < VL; i++) {
    if (!v_lane(other, i)) continue;
    double f = x[i] - floor(x[i]);
    r[i] =
        f == 0 || !(x[i] > -0x1p52) ? (double)NAN : r[i] - M_PI / tan(M_PI * (f > 0.5 ? f - 1 : f));
  }
  return v_select(v_eq(x, V_INF), x, r);
}

/* ---- differences of lgamma ------------------------------------------------------------------- */

/* Where a is large, lgamma(a + b) - lgamma(a) is the difference of two numbers of the order of a
 * log a, of which rounding leaves nothing at last: a count that is overdispersed by next to nothing
 * would have any probability. There the series of the two are subtracted term by term. */
VFN vm rising_far(vd a, vd s) { return v_and(v_le(v_splat(1e3), a), v_le(v_splat(1e3), s)); }

/* lgamma(a + b) - lgamma(a), c = lgamma(a) */
static inline vd v_log_rising(vd a, vd b, vd c) {
  vd s = a + b, near = v_lgamma(s) - c;
  vm far = rising_far(a, s);
  if (__builtin_expect(!v_any(far), 1)) return near;
  vd y = 1.0 / s, x = 1.0 / a, w = y * V_POLY(y * y, lgamma_W) - x * V_POLY(x * x, lgamma_W);
  return v_select(far, (a - 0.5) * v_log1p(b * x) + (b * (v_log(s) - 1.0) + w), near);
}

/* Its derivative in a: digamma(a + b) - digamma(a); where they are near, the second is that of c.
 */
static inline vd v_log_rising_d(vd a, vd b) {
  vd s = a + b, near = v_digamma(s);
  vm far = rising_far(a, s);
  if (__builtin_expect(!v_any(far), 1)) return near;
  vd y = 1.0 / s, x = 1.0 / a, y2 = y * y, x2 = x * x;
  vd w = x2 * V_POLY(x2, digamma_B) - y2 * V_POLY(y2, digamma_B);
  return v_select(far, v_log1p(b * x) + (0.5 * b * x * y + w), near);
}

/* ---- powers ---------------------------------------------------------------------------------- */

/* (2 atanh(s) - 2s)/s^3 = 2/3 + s^2 T(s^2), |s| <= 0.2, error 2^-75 */
static const double log_T[] = {0.4,
                               0.28571428571426144,
                               0.22222222222844085,
                               0.18181818097883887,
                               0.15384622095130224,
                               0.1333299916901638,
                               0.11775166975643495,
                               0.10326882011392427,
                               0.11614710737461272};

/* log(x) = h + *lo to about 2^-65, x positive and finite. */
VFN vd log_double(vd x, vd *lo) {
  vd k, m = log_reduce(x, &k), e, dl;
  vd f = m - 1.0, d = v_two_sum(v_splat(2.0), f, &dl);
  vd s = f / d, p = v_two_prod(s, d, &e);
  vd sl = (((f - p) - e) - s * dl) / d; /* f/(2+f) = s + sl */
  vd zl, z = v_two_prod(s, s, &zl);
  zl = v_fma(2.0 * s, sl, zl);
  vd cl, c = v_two_prod(z, s, &cl); /* s^3 = c + cl */
  cl = v_fma(z, sl, v_fma(zl, s, cl));
  vd tl, t = v_two_prod(c, v_splat(0.66666666666666663), &tl);
  tl += v_fma(cl, v_splat(0.66666666666666663), c * 3.7007434154171886e-17);
  vd u = (c + cl) * (z + zl) * V_POLY(z, log_T);
  V_OPAQUE(u);
  vd kl, kh = v_two_prod(k, v_splat(EXP_LN2_LO), &kl); /* log 2 to 140 bits */
  kl = v_fma(k, v_splat(1.1612227229362532e-26), kl);
  vd e1, e2, e3, e4, r = v_two_sum(k * EXP_LN2_HI, 2.0 * s, &e1);
  r = v_two_sum(r, t, &e2);
  r = v_two_sum(r, u, &e3);
  r = v_two_sum(r, kh, &e4);
  vd l = ((e1 + e2) + (e3 + e4)) + (kl + v_fma(v_splat(2.0), sl, tl));
  vd h = r + l;
  *lo = (r - h) + l;
  return h;
}

/* x^y; zero, negative, infinite and nan arguments go lane by lane. */
static inline vd v_pow(vd x, vd y) {
  vm plain = v_and(v_and(v_lt(v_splat(0), x), v_lt(x, V_INF)), v_lt(v_abs(y), v_splat(0x1p64)));
  vd xs = v_select(plain, x, v_splat(1)), ys = v_select(plain, y, v_splat(1));
  vd ll, lh = log_double(xs, &ll), pl, ph = v_two_prod(lh, ys, &pl);
  vm far = v_not(v_lt(v_abs(ph), v_splat(1000)));
  pl = v_select(far, v_splat(0), v_fma(ll, ys, pl));
  vd r = v_exp_sum(ph, pl);
  if (__builtin_expect(!v_all(plain), 0))
    for (int i = 0; i < VL; i++)
      if (!v_lane(plain, i)) r[i] = pow(x[i], y[i]);
  return r;
}

/* ---- through libm, lane by lane -------------------------------------------------------------- */

LIFT(v_asin, asin)
LIFT(v_acos, acos)
LIFT(v_atan, atan)
LIFT(v_tan, tan)
LIFT(v_asinh, asinh)
LIFT(v_acosh, acosh)
LIFT(v_atanh, atanh)
LIFT(v_cbrt, cbrt)
LIFT(v_exp2, exp2)
LIFT(v_log2, log2)
LIFT(v_log10, log10)
LIFT(v_tgamma, tgamma)
LIFT(v_floor, floor)
LIFT(v_ceil, ceil)
LIFT(v_round, round)
LIFT(v_trunc, trunc)

#include "num/vspecial.h"

#endif
