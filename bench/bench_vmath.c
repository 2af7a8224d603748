/* bench_vmath.c: nanoseconds per double of the vector functions, and how many times faster than
 * libm called in a loop.
 *
 * Compile with the flags of the instruction set to measure, e.g. `cc -O2 -mavx2 -mfma -Isrc
 * bench/bench_vmath.c -lm`.
 */
#include <stdio.h>
#include <time.h>

#include "num/vmath.h"

#define N 1024     /* fits the first-level cache */
#define REPEAT 100 /* passes per timing; the best of BEST is kept */
#define BEST 40

static double x[N], y[N];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double scalar_inv_logit(double a) { return 1 / (1 + exp(-a)); }
static double scalar_log1p_exp(double a) { return log1p(exp(a)); }
static double scalar_Phi(double a) { return 0.5 * erfc(-a * 0.7071067811865476); }
static double scalar_log_Phi(double a) { return log(0.5 * erfc(-a * 0.7071067811865476)); }
static double scalar_pow(double a) { return pow(a, 1.7); }
static vd v_pow17(vd a) { return v_pow(a, v_splat(1.7)); }

#define TIME(loop)                                                                                 \
  ({                                                                                               \
    double best_ = 1e9;                                                                            \
    for (int r_ = 0; r_ < BEST; r_++) {                                                            \
      double t_ = now();                                                                           \
      for (int k_ = 0; k_ < REPEAT; k_++) {                                                        \
        loop;                                                                                      \
        __asm__ volatile("" ::: "memory");                                                         \
      }                                                                                            \
      t_ = now() - t_;                                                                             \
      best_ = t_ < best_ ? t_ : best_;                                                             \
    }                                                                                              \
    best_ / REPEAT / N * 1e9;                                                                      \
  })

#define ROW(name, v, f, lo, hi)                                                                    \
  do {                                                                                             \
    for (int i = 0; i < N; i++) x[i] = (lo) + ((hi) - (lo)) * ((double)(i * 7919 % N) + 0.5) / N;  \
    double a_ = TIME(for (int i = 0; i < N; i += VL) v_store(y + i, v(v_load(x + i))));            \
    double b_ = TIME(for (int i = 0; i < N; i++) y[i] = f(x[i]));                                  \
    printf("%-12s %7.2f ns   libm %7.2f ns   ratio %5.1f\n", name, a_, b_, b_ / a_);               \
  } while (0)

int main(void) {
  printf("VL = %d\n", VL);
  ROW("exp", v_exp, exp, -20.0, 20.0);
  ROW("log", v_log, log, 0.01, 100.0);
  ROW("expm1", v_expm1, expm1, -5.0, 5.0);
  ROW("log1p", v_log1p, log1p, -0.9, 10.0);
  ROW("inv_logit", v_inv_logit, scalar_inv_logit, -10.0, 10.0);
  ROW("log1p_exp", v_log1p_exp, scalar_log1p_exp, -10.0, 10.0);
  ROW("tanh", v_tanh, tanh, -3.0, 3.0);
  ROW("sin", v_sin, sin, -10.0, 10.0);
  ROW("cos", v_cos, cos, -10.0, 10.0);
  ROW("lgamma", v_lgamma, lgamma, 0.1, 20.0);
  ROW("digamma", v_digamma, lgamma, 0.1, 20.0);
  ROW("erf", v_erf, erf, -3.0, 3.0);
  ROW("erfc", v_erfc, erfc, -3.0, 5.0);
  ROW("Phi", v_Phi, scalar_Phi, -5.0, 5.0);
  ROW("log_Phi", v_log_Phi, scalar_log_Phi, -5.0, 5.0);
  ROW("inv_Phi", v_inv_Phi, erfc, 0.001, 0.999);
  ROW("pow 1.7", v_pow17, scalar_pow, 0.1, 10.0);
  return 0;
}
