/* sobol.c: Sobol's sequence with Owen's scrambling.
 *
 * Dimension 0 is van der Corput's sequence; dimension d > 0 belongs to the d-th primitive
 * polynomial over GF(2) (Sobol' 1967, Bratley & Fox 1988). Its initial numbers are odd numbers
 * drawn by a hash of (d, choice), where `choice` minimises the 2-D t-values with all dimensions
 * before it (the aim of Joe & Kuo 2008): sobol_table.h has polynomial and choice for the first
 * dimensions. Beyond the table polynomials are found on the fly and choice is 0, so there is no
 * largest dimension.
 *
 * Scrambling (Owen 1995): every digit is flipped or not according to all the digits before it. The
 * first m digits, 2^m >= M, walk down a binary tree whose nodes are hashed bits; below, every point
 * is alone in its interval, so its remaining digits are random bits of its own. That is the exact
 * nested uniform scramble, to 52 digits.
 */
#include "num/sobol.h"

#include <stdbool.h>

#include "num/rng.h"
#include "num/sobol_table.h"
#include "num/vmath.h"

#define TABLE_DIMS (sizeof sobol_poly / sizeof *sobol_poly) /* dimension d > 0 is entry d - 1 */

/* ---- primitive polynomials ------------------------------------------------------------------- */

static int degree(uint32_t p) { return 31 - __builtin_clz(p); }

/* a b mod p over GF(2) */
static uint32_t gf2_mul(uint32_t a, uint32_t b, uint32_t p) {
  uint32_t top = UINT32_C(1) << degree(p), r = 0;
  for (; b; b >>= 1) {
    if (b & 1) r ^= a;
    a <<= 1;
    if (a & top) a ^= p;
  }
  return r;
}

static uint32_t gf2_pow(uint32_t a, uint32_t n, uint32_t p) {
  uint32_t r = 1;
  for (; n; n >>= 1, a = gf2_mul(a, a, p))
    if (n & 1) r = gf2_mul(r, a, p);
  return r;
}

/* Is x of order 2^s - 1 modulo p? Tests the divisors (2^s - 1)/q for every prime q. */
static bool primitive(uint32_t p) {
  int s = degree(p);
  if (!(p & 1)) return false;
  if (s == 1) return true;
  uint32_t n = (UINT32_C(1) << s) - 1, rest = n;
  if (gf2_pow(2, n, p) != 1) return false;
  for (uint32_t q = 2; q * q <= rest; q++)
    if (rest % q == 0) {
      if (gf2_pow(2, n / q, p) == 1) return false;
      while (rest % q == 0) rest /= q;
    }
  return rest == 1 || rest == n || gf2_pow(2, n / rest, p) != 1;
}

static uint32_t next_primitive(uint32_t p) {
  do p += 2;
  while (!primitive(p));
  return p;
}

/* ---- direction numbers ----------------------------------------------------------------------- */

/* m_1 .. m_s are odd, m_k < 2^k; m_k = 2 a_1 m_(k-1) ^ 4 a_2 m_(k-2) ^ ... ^ 2^s m_(k-s) ^ m_(k-s);
 * v_k = m_k / 2^k. */
static void directions(size_t d, uint32_t poly, uint32_t choice, uint32_t v[32]) {
  int s = degree(poly);
  for (int k = 0; k < 32; k++) {
    if (k < s) {
      uint64_t h = rng_mix(rng_mix(rng_mix((uint64_t)d) + choice) + (uint64_t)k);
      uint32_t m = (uint32_t)(h >> 32) & ((UINT32_C(2) << k) - 1);
      v[k] = (m | 1) << (31 - k);
    } else {
      v[k] = v[k - s] ^ (v[k - s] >> s);
      for (int i = 1; i < s; i++)
        if (poly >> (s - i) & 1) v[k] ^= v[k - i];
    }
  }
}

static void identity(uint32_t v[32]) {
  for (int k = 0; k < 32; k++) v[k] = UINT32_C(1) << (31 - k);
}

/* Where a walk through the dimensions stands, so that going on needs no search from the start. */
typedef struct {
  size_t d;
  uint32_t poly;
} Walk;

static uint32_t poly_at(Walk *w, size_t d) {
  if (d <= TABLE_DIMS) return sobol_poly[d - 1];
  if (w->d < TABLE_DIMS || w->d > d) *w = (Walk){TABLE_DIMS, sobol_poly[TABLE_DIMS - 1]};
  while (w->d < d) w->poly = next_primitive(w->poly), w->d++;
  return w->poly;
}

static void directions_at(Walk *w, size_t d, uint32_t v[32]) {
  if (d == 0)
    identity(v);
  else
    directions(d, poly_at(w, d), d <= TABLE_DIMS ? sobol_choice[d - 1] : 0, v);
}

/* ---- scrambling ------------------------------------------------------------------------------ */

/* The nodes of the tree are numbered 1 (root), 2 3, 4 5 6 7, ...: at depth l, x's first l digits
 * behind a one. 64 of them share one hashed word. Returns x's first m digits, scrambled. */
static uint32_t scramble(uint32_t x, int m, uint64_t key, uint64_t top_word) {
  uint32_t flips = 0;
  for (int l = 0; l < m && l < 6; l++) {
    uint32_t node = UINT32_C(1) << l | x >> 1 >> (31 - l);
    flips |= ((uint32_t)(top_word >> node) & 1) << (31 - l);
  }
  for (int l = 6; l < m; l++) {
    uint32_t node = UINT32_C(1) << l | x >> (32 - l);
    flips |= ((uint32_t)(rng_mix(key + (node >> 6)) >> (node & 63)) & 1) << (31 - l);
  }
  return m == 0 ? 0 : (x ^ flips) >> (32 - m);
}

/* Point i of the sequence: the directions of its digits. */
static uint32_t point(const uint32_t v[32], uint64_t i) {
  uint32_t x = 0;
  for (; i; i &= i - 1) x ^= v[__builtin_ctzll(i)];
  return x;
}

/* One dimension of the points of a slice: natural order, so going from i to i+1 changes the digits
 * 0 .. c, c the number of trailing ones of i. */
static void uniforms(double *u, const uint32_t v[32], SobolSlice s, uint64_t key, Rng tail,
                     size_t d) {
  uint32_t upto[32], x = point(v, s.first);
  for (int k = 0; k < 32; k++) upto[k] = v[k] ^ (k ? upto[k - 1] : 0);
  int m = 0;
  while (m < 32 && (UINT64_C(1) << m) < s.M) m++;
  uint64_t top_word = rng_mix(key);
  rng_fill_uniform(tail, s.first, d, u, s.n);
  for (size_t i = 0; i < s.n; i++) {
    uint64_t cell = (uint64_t)scramble(x, m, key, top_word) << (52 - m);
    uint64_t rest = (uint64_t)(u[i] * 0x1p52) >> m;
    u[i] = ((double)(cell | rest) + 0.5) * 0x1p-52;
    if (i + 1 < s.n) x ^= upto[__builtin_ctzll(~(uint64_t)(s.first + i))];
  }
}

static void to_normal(double *u, size_t n) {
  size_t i = 0;
  for (; i + VL <= n; i += VL) v_store(u + i, v_inv_Phi(v_load(u + i)));
  for (; i < n; i++) u[i] = v_inv_Phi(v_splat(u[i]))[0];
}

/* Dimensions [first, first + dim) of a slice. */
static void fill(double *u, size_t first, size_t dim, SobolSlice s, size_t ld, uint64_t seed,
                 int use_uniform) {
  Walk walk = {0};
  Rng nodes = rng_make(seed, UINT64_C(0x536f626f6c2d6e)),
      tail = rng_make(seed, UINT64_C(0x536f626f6c2d74));
  for (size_t k = 0; k < dim; k++) {
    uint32_t v[32];
    double *row = u + k * ld;
    directions_at(&walk, first + k, v);
    uniforms(row, v, s, rng_bits(nodes, 0, first + k), tail, first + k);
    if (!use_uniform) to_normal(row, s.n);
  }
}

void sobol_normal_part(double *u, size_t first, size_t dim, size_t M, size_t ld, uint64_t seed,
                       int use_uniform) {
  fill(u, first, dim, (SobolSlice){0, M, M}, ld, seed, use_uniform);
}

void sobol_normal(double *u, size_t dim, size_t M, size_t ld, uint64_t seed, int use_uniform) {
  sobol_normal_part(u, 0, dim, M, ld, seed, use_uniform);
}

void sobol_normal_slice(double *u, size_t dim, SobolSlice s, size_t ld, uint64_t seed) {
  fill(u, 0, dim, s, ld, seed, 0);
}
