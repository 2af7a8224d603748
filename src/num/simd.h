/* simd.h: the vector type all kernels are written on.
 *
 * VL doubles wide, VL set by the compile flags (AVX-512: 8, AVX2: 4, else 2), over the vector
 * extensions of GCC and clang: `a +
 * b`, `a * 2.0` and the like work on `vd` as they do on double. What the language lacks is here:
 * loads, masks, select, min,
 * fma, sums.
 *
 *   vd   VL doubles          vi   VL int64           vu   VL uint64
 *   vm   a mask of VL lanes: the result of v_lt and friends, the argument of v_select. Its
 *        representation differs between
 *        instruction sets, so treat it as opaque (v_and, v_or, v_not, v_any, v_all).
 *
 * Everything is static inline and has no state: the header is compiled once per instruction set and
 * exports nothing.
 */
#ifndef PVI_NUM_SIMD_H
#define PVI_NUM_SIMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define VL 8
#define PVI_AVX512 1
#elif defined(__AVX2__)
#define VL 4
#define PVI_AVX2 1
#else
#define VL 2
#endif

#define VFN static inline __attribute__((always_inline))

typedef double vd __attribute__((vector_size(VL * 8)));
typedef int64_t vi __attribute__((vector_size(VL * 8)));
typedef uint64_t vu __attribute__((vector_size(VL * 8)));
typedef double vd_any
    __attribute__((vector_size(VL * 8), aligned(8), may_alias)); /* at any address of a double */
#ifdef PVI_AVX512
typedef __mmask8 vm;
#else
typedef vi vm; /* all bits of a lane set, or none */
#endif

/* ---- memory ---------------------------------------------------------------------------------- */

VFN vd v_load(const double *p) { return *(const vd_any *)p; }
VFN void v_store(double *p, vd a) { *(vd_any *)p = a; }
VFN vd v_splat(double x) { return x - (vd){0}; } /* + would lose the sign of -0 */
VFN vi v_splati(int64_t x) { return (vi){0} + x; }

/* The first n <= VL doubles; the other lanes are zero. */
VFN vd v_load_n(const double *p, size_t n) {
  vd a = {0};
  memcpy(&a, p, n * sizeof(double));
  return a;
}
VFN void v_store_n(double *p, vd a, size_t n) { memcpy(p, &a, n * sizeof(double)); }

/* p[k[0]], p[k[1]], ... */
VFN vd v_gather(const double *p, const int32_t *k) {
  vd a;
  for (int i = 0; i < VL; i++) a[i] = p[k[i]];
  return a;
}

/* 0, 1, 2, ... */
VFN vd v_iota(void) {
  vd a;
  for (int i = 0; i < VL; i++) a[i] = i;
  return a;
}

/* ---- masks ----------------------------------------------------------------------------------- */

#ifdef PVI_AVX512

VFN vm v_lt(vd a, vd b) { return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_LT_OQ); }
VFN vm v_le(vd a, vd b) { return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_LE_OQ); }
VFN vm v_eq(vd a, vd b) { return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_EQ_OQ); }
VFN vm v_lti(vi a, vi b) { return _mm512_cmplt_epi64_mask((__m512i)a, (__m512i)b); }
VFN vm v_eqi(vi a, vi b) { return _mm512_cmpeq_epi64_mask((__m512i)a, (__m512i)b); }
VFN vm v_and(vm a, vm b) { return (vm)(a & b); }
VFN vm v_or(vm a, vm b) { return (vm)(a | b); }
VFN vm v_not(vm a) { return (vm)~a; }
VFN bool v_any(vm a) { return a != 0; }
VFN bool v_all(vm a) { return a == (vm)0xff; }
VFN bool v_lane(vm a, int i) { return (a >> i) & 1; }
VFN vd v_select(vm m, vd a, vd b) { return (vd)_mm512_mask_blend_pd(m, (__m512d)b, (__m512d)a); }
VFN vi v_selecti(vm m, vi a, vi b) {
  return (vi)_mm512_mask_blend_epi64(m, (__m512i)b, (__m512i)a);
}

#else

VFN vm v_lt(vd a, vd b) { return (vm)(a < b); }
VFN vm v_le(vd a, vd b) { return (vm)(a <= b); }
VFN vm v_eq(vd a, vd b) { return (vm)(a == b); }
VFN vm v_lti(vi a, vi b) { return (vm)(a < b); }
VFN vm v_eqi(vi a, vi b) { return (vm)(a == b); }
VFN vm v_and(vm a, vm b) { return a & b; }
VFN vm v_or(vm a, vm b) { return a | b; }
VFN vm v_not(vm a) { return ~a; }
VFN bool v_lane(vm a, int i) { return a[i] != 0; }

#if defined(PVI_AVX2)
VFN bool v_any(vm a) { return _mm256_movemask_pd((__m256d)a) != 0; }
VFN bool v_all(vm a) { return _mm256_movemask_pd((__m256d)a) == 15; }
VFN vd v_select(vm m, vd a, vd b) {
  return (vd)_mm256_blendv_pd((__m256d)b, (__m256d)a, (__m256d)m);
}
VFN vi v_selecti(vm m, vi a, vi b) { return (vi)v_select(m, (vd)a, (vd)b); }
#else
#ifdef __SSE2__
VFN bool v_any(vm a) { return _mm_movemask_pd((__m128d)a) != 0; }
VFN bool v_all(vm a) { return _mm_movemask_pd((__m128d)a) == 3; }
#else
VFN bool v_any(vm a) { return (a[0] | a[1]) != 0; }
VFN bool v_all(vm a) { return (a[0] & a[1]) != 0; }
#endif
VFN vi v_selecti(vm m, vi a, vi b) { return (m & a) | (~m & b); }
VFN vd v_select(vm m, vd a, vd b) { return (vd)v_selecti(m, (vi)a, (vi)b); }
#endif

#endif

VFN vm v_gt(vd a, vd b) { return v_lt(b, a); }
VFN vm v_ge(vd a, vd b) { return v_le(b, a); }
VFN vm v_isnan(vd a) { return v_not(v_eq(a, a)); }

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* v_min(a, b) = a < b ? a : b, so a NaN in b goes through and a NaN in a is lost; v_max likewise.
 */
#if defined(PVI_AVX512)
VFN vd v_min(vd a, vd b) { return (vd)_mm512_min_pd((__m512d)a, (__m512d)b); }
VFN vd v_max(vd a, vd b) { return (vd)_mm512_max_pd((__m512d)a, (__m512d)b); }
VFN vd v_sqrt(vd a) { return (vd)_mm512_sqrt_pd((__m512d)a); }
#elif defined(PVI_AVX2)
VFN vd v_min(vd a, vd b) { return (vd)_mm256_min_pd((__m256d)a, (__m256d)b); }
VFN vd v_max(vd a, vd b) { return (vd)_mm256_max_pd((__m256d)a, (__m256d)b); }
VFN vd v_sqrt(vd a) { return (vd)_mm256_sqrt_pd((__m256d)a); }
#elif defined(__SSE2__)
VFN vd v_min(vd a, vd b) { return (vd)_mm_min_pd((__m128d)a, (__m128d)b); }
VFN vd v_max(vd a, vd b) { return (vd)_mm_max_pd((__m128d)a, (__m128d)b); }
VFN vd v_sqrt(vd a) { return (vd)_mm_sqrt_pd((__m128d)a); }
#else
VFN vd v_min(vd a, vd b) { return v_select(v_lt(a, b), a, b); }
VFN vd v_max(vd a, vd b) { return v_select(v_lt(b, a), a, b); }
VFN vd v_sqrt(vd a) {
  for (int i = 0; i < VL; i++) a[i] = __builtin_sqrt(a[i]);
  return a;
}
#endif

#if defined(PVI_AVX512)
#define PVI_FMA 1
VFN vd v_fma(vd a, vd b, vd c) { return (vd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c); }
#elif defined(PVI_AVX2) && defined(__FMA__)
#define PVI_FMA 1
VFN vd v_fma(vd a, vd b, vd c) { return (vd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c); }
#else
VFN vd v_fma(vd a, vd b, vd c) {
  return a * b + c;
} /* two roundings: code that needs one must ask for PVI_FMA */
#endif

#define V_SIGN_BIT ((int64_t)(UINT64_C(1) << 63))

VFN vd v_abs(vd a) { return (vd)((vi)a & ~v_splati(V_SIGN_BIT)); }
VFN vd v_sign_of(vd a) { return (vd)((vi)a & v_splati(V_SIGN_BIT)); } /* +0 or -0 */
VFN vd v_xor(vd a, vd b) { return (vd)((vi)a ^ (vi)b); } /* with v_sign_of: multiplies signs */
VFN vd v_copysign(vd a, vd s) {
  return (vd)((vi)v_abs(a) | (vi)v_sign_of(s));
} /* |a| with the sign of s */

/* Sum of the lanes as a fixed tree: ((0+4)+(2+6))+((1+5)+(3+7)). */
VFN double v_sum(vd a) {
#if defined(PVI_AVX512)
  __m256d b =
      _mm256_add_pd(_mm512_castpd512_pd256((__m512d)a), _mm512_extractf64x4_pd((__m512d)a, 1));
  __m128d c = _mm_add_pd(_mm256_castpd256_pd128(b), _mm256_extractf128_pd(b, 1));
  return c[0] + c[1];
#elif defined(PVI_AVX2)
  __m128d c = _mm_add_pd(_mm256_castpd256_pd128((__m256d)a), _mm256_extractf128_pd((__m256d)a, 1));
  return c[0] + c[1];
#else
  return a[0] + a[1];
#endif
}

VFN double v_hmax(vd a) {
#if defined(PVI_AVX512)
  __m256d b =
      _mm256_max_pd(_mm512_castpd512_pd256((__m512d)a), _mm512_extractf64x4_pd((__m512d)a, 1));
  __m128d c = _mm_max_pd(_mm256_castpd256_pd128(b), _mm256_extractf128_pd(b, 1));
  return c[0] > c[1] ? c[0] : c[1];
#else
  double m = a[0];
  for (int i = 1; i < VL; i++) m = m > a[i] ? m : a[i];
  return m;
#endif
}

/* A vector function from a scalar one, lane by lane. */
#define LIFT(name, scalar)                                                                         \
  static inline vd name(vd a) {                                                                    \
    vd r;                                                                                          \
    for (int i = 0; i < VL; i++) r[i] = scalar(a[i]);                                              \
    return r;                                                                                      \
  }

#endif
