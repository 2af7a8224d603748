/* rng.c: Philox and its uniforms and normals. The samplers are in sample.c. */
#include "num/rng.h"

#include "num/vmath.h"

/* Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3. */
#define PHILOX_M0 UINT64_C(0xD2511F53)
#define PHILOX_M1 UINT64_C(0xCD9E8D57)
#define PHILOX_W0 UINT32_C(0x9E3779B9) /* the golden ratio */
#define PHILOX_W1 UINT32_C(0xBB67AE85) /* sqrt(3) - 1 */

void rng_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0],
           k1 = key[1];
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = PHILOX_M0 * c0, p1 = PHILOX_M1 * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    k0 += PHILOX_W0;
    k1 += PHILOX_W1;
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

Rng rng_make(uint64_t seed, uint64_t stream) {
  uint64_t k = rng_mix(rng_mix(seed) + stream);
  return (Rng){{(uint32_t)k, (uint32_t)(k >> 32)}};
}

/* One block gives the words of two neighbouring draws. */
static void block(Rng k, uint64_t pair, uint64_t dim, uint64_t w[2]) {
  uint32_t c[4] = {(uint32_t)pair, (uint32_t)(pair >> 32), (uint32_t)dim, (uint32_t)(dim >> 32)},
           o[4];
  rng_philox(c, k.key, o);
  w[0] = o[0] | (uint64_t)o[1] << 32;
  w[1] = o[2] | (uint64_t)o[3] << 32;
}

static double uniform_of(uint64_t bits) { return ((double)(bits >> 12) + 0.5) * 0x1p-52; }

uint64_t rng_bits(Rng k, uint64_t draw, uint64_t dim) {
  uint64_t w[2];
  block(k, draw >> 1, dim, w);
  return w[draw & 1];
}

double rng_uniform(Rng k, uint64_t draw, uint64_t dim) {
  return uniform_of(rng_bits(k, draw, dim));
}
double rng_normal(Rng k, uint64_t draw, uint64_t dim) {
  return v_inv_Phi(v_splat(rng_uniform(k, draw, dim)))[0];
}

void rng_fill_uniform(Rng k, uint64_t draw, uint64_t dim, double *out, size_t n) {
  size_t i = 0;
  if ((draw & 1) && n > 0) out[i++] = rng_uniform(k, draw, dim);
  for (; i + 1 < n; i += 2) {
    uint64_t w[2];
    block(k, (draw + i) >> 1, dim, w);
    out[i] = uniform_of(w[0]);
    out[i + 1] = uniform_of(w[1]);
  }
  if (i < n) out[i] = rng_uniform(k, draw + i, dim);
}

void rng_fill_normal(Rng k, uint64_t draw, uint64_t dim, double *out, size_t n) {
  rng_fill_uniform(k, draw, dim, out, n);
  size_t i = 0;
  for (; i + VL <= n; i += VL) v_store(out + i, v_inv_Phi(v_load(out + i)));
  for (; i < n; i++) out[i] = v_inv_Phi(v_splat(out[i]))[0];
}

RngStream rngs_make(uint64_t seed, uint64_t stream) {
  return (RngStream){.key = rng_make(seed, stream)};
}

uint64_t rngs_bits(RngStream *r) {
  uint64_t n = r->next++;
  if (n & 1) return r->spare;
  uint64_t w[2];
  block(r->key, n >> 1, UINT64_MAX, w); /* a dimension that no one else uses */
  r->spare = w[1];
  return w[0];
}

double rngs_uniform(RngStream *r) { return uniform_of(rngs_bits(r)); }
double rngs_normal(RngStream *r) { return v_inv_Phi(v_splat(rngs_uniform(r)))[0]; }
