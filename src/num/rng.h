/* rng.h: random numbers without state, and a stream of them for samplers.
 *
 * Rng is a key: the number at (draw, dim) is a function of (seed, stream, draw, dim) alone
 * (Philox4x32-10, Salmon et al. 2011), so any thread can compute any number in any order and the
 * bytes are the same. RngStream walks through one key for the samplers of generated quantities and
 * simulators, which use an unknown number of uniforms each; give every task its own stream.
 */
#ifndef PVI_NUM_RNG_H
#define PVI_NUM_RNG_H

#include <stddef.h>
#include <stdint.h>

typedef struct Rng {
  uint32_t key[2];
} Rng;

/* The bare generator: 128 bits of counter and 64 bits of key to 128 random bits. */
void rng_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

Rng rng_make(uint64_t seed, uint64_t stream);

/* A bijection that scatters the bits of x: the finaliser of splitmix64 (Steele, Lea, Flood 2014).
 * Makes seeds out of small numbers. */
static inline uint64_t rng_mix(uint64_t x) {
  x += UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
  return x ^ (x >> 31);
}

uint64_t rng_bits(Rng k, uint64_t draw, uint64_t dim);
double rng_uniform(Rng k, uint64_t draw,
                   uint64_t dim); /* in (0, 1): the centre of one of 2^52 cells */
double rng_normal(Rng k, uint64_t draw,
                  uint64_t dim); /* the normal quantile of rng_uniform at the same place */

/* out[i] at (draw + i, dim), i < n; the same numbers as one by one. */
void rng_fill_uniform(Rng k, uint64_t draw, uint64_t dim, double *out, size_t n);
void rng_fill_normal(Rng k, uint64_t draw, uint64_t dim, double *out, size_t n);

/* ---- a stream and its samplers; parameters as in Stan's distributions of the same names, assumed
 * valid  */

typedef struct RngStream {
  Rng key;
  uint64_t next; /* how many 64-bit words were taken */
  uint64_t spare;
} RngStream;

RngStream rngs_make(uint64_t seed, uint64_t stream);
uint64_t rngs_bits(RngStream *r);
double rngs_uniform(RngStream *r); /* in (0, 1) */
double rngs_normal(RngStream *r);
double rngs_exponential(RngStream *r);         /* rate 1 */
double rngs_gamma(RngStream *r, double shape); /* rate 1 */
double
rngs_log_gamma(RngStream *r,
               double shape); /* log of a gamma(shape, 1): does not underflow for tiny shapes */
double rngs_beta(RngStream *r, double a, double b);
double rngs_chi_square(RngStream *r, double nu);
double rngs_student_t(RngStream *r, double nu);
double rngs_cauchy(RngStream *r);
double rngs_logistic(RngStream *r);
double rngs_double_exponential(RngStream *r);
double rngs_gumbel(RngStream *r);
double rngs_weibull(RngStream *r, double alpha);
double rngs_skew_normal(RngStream *r, double alpha);
double rngs_von_mises(RngStream *r, double mu, double kappa); /* in (mu - pi, mu + pi] */
int64_t rngs_bernoulli(RngStream *r, double p);
int64_t rngs_poisson(RngStream *r, double lambda);
int64_t rngs_binomial(RngStream *r, int64_t n, double p);
int64_t rngs_beta_binomial(RngStream *r, int64_t n, double a, double b);
int64_t rngs_neg_binomial(RngStream *r, double alpha, double beta);
int64_t rngs_neg_binomial_2(RngStream *r, double mu, double phi);
int64_t rngs_hypergeometric(RngStream *r, int64_t n, int64_t a,
                            int64_t b); /* n drawn from a good and b bad: how many good */
int64_t rngs_categorical(RngStream *r, const double *p,
                         size_t k); /* 0-based; p need not be normalised */
int64_t rngs_categorical_logit(RngStream *r, const double *logit, size_t k); /* 0-based */
void rngs_multinomial(RngStream *r, int64_t n, const double *p, size_t k, int64_t *out);
void rngs_dirichlet(RngStream *r, const double *alpha, size_t k, double *out);
void rngs_shuffle(RngStream *r, size_t *index,
                  size_t n); /* a random permutation of index, in place */

#endif
