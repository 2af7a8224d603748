/* dispatch.c: which kernels this machine runs. */
#include "vm/kernels.h"

#include <stdlib.h>
#include <string.h>

extern const Kernels kernels_base, kernels_avx2, kernels_avx512;

static bool has_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void) {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
}

const Kernels *kernels_named(const char *isa) {
  if (!strcmp(isa, "base")) return &kernels_base;
  if (!strcmp(isa, "avx2") && has_avx2()) return &kernels_avx2;
  if (!strcmp(isa, "avx512") && has_avx512()) return &kernels_avx512;
  return NULL;
}

static const Kernels *choose(void) {
  const char *wanted = getenv("PVI_ISA");
  const Kernels *k = wanted ? kernels_named(wanted) : NULL;
  if (k) return k;
  return has_avx512() ? &kernels_avx512 : has_avx2() ? &kernels_avx2 : &kernels_base;
}

/* Neither machine nor environment change: they are asked once per thread. */
const Kernels *kernels_best(void) {
  static _Thread_local const Kernels *best;
  if (!best) best = choose();
  return best;
}
