/* fun_fourier.c: discrete Fourier transforms of any length.
 *
 * A transform of length n = p q r ... is made of one stage per prime factor (Cooley and Tukey): the
 * elements are sorted so that every stage joins p neighbouring transforms of length L to one of
 * length p L,
 *
 *   X[k] = sum_j w^(j k) Y_j[k mod L],  w = exp(-2 pi i / (p L)),  k < p L,  j < p.
 *
 * All stages work on the elements of all rows together, so that what depends on parameters becomes
 * few long nodes. */
#include "model/complex.h"
#include "model/fun.h"

#include <math.h>

typedef struct {
  int32_t count, n; /* so many rows of so many elements */
  bool inverse;
} Fourier;

static int32_t smallest_factor(int32_t n) {
  for (int32_t p = 2; p * p <= n; p++)
    if (n % p == 0) return p;
  return n;
}

/* Element k of the sorted row: with the factors p, q, ... of the stages from the last one back,
 * place k = k1 (n / p) + k2 (n / (p q)) + ... has what was at k1 + k2 p + .... */
static int32_t source_of(int32_t k, const int32_t *factors, int stages, int32_t n) {
  int32_t at = 0, stride = 1, block = n;
  for (int s = stages; s-- > 0;) {
    block /= factors[s];
    at += k / block * stride;
    k %= block;
    stride *= factors[s];
  }
  return at;
}

static Parts take(Eval *E, Parts z, const int32_t *index) {
  return (Parts){value_take(E, z.re, z.re, NULL, index), value_take(E, z.im, z.im, NULL, index)};
}

/* w^(j k) of all elements. */
static Parts twiddles(Eval *E, const Fourier *f, const Value *shape, int32_t j, int32_t length) {
  Parts w = {value_known(E, shape, NULL), value_known(E, shape, NULL)};
  double sign = f->inverse ? 1 : -1;
  for (int32_t e = 0; e < shape->n; e++) {
    int64_t turn = (int64_t)j * (e % length) % length; /* rows are multiples of it */
    double angle = 2 * M_PI * (double)turn / length;
    w.re->v[e] = cos(angle);
    w.im->v[e] = sign * sin(angle);
  }
  return w;
}

static Parts stage(Eval *E, const Fourier *f, Parts z, int32_t L, int32_t p) {
  int32_t total = f->count * f->n, *index = NEW_ARRAY(E->arena, int32_t, total + 1);
  Parts sum = {NULL, NULL};
  for (int32_t j = 0; j < p; j++) {
    for (int32_t e = 0; e < total; e++) {
      int32_t at = e % f->n % (p * L);
      index[e] = e - at + j * L + at % L;
    }
    Parts term = take(E, z, index);
    if (j) term = complex_multiply(E, twiddles(E, f, z.re, j, p * L), term);
    sum = j ? complex_add(E, sum, term) : term;
  }
  return sum;
}

static Parts transform(Eval *E, const Fourier *f, Parts z) {
  int32_t factors[32], total = f->count * f->n, *index = NEW_ARRAY(E->arena, int32_t, total + 1);
  int stages = 0;
  for (int32_t n = f->n; n > 1; n /= factors[stages++]) factors[stages] = smallest_factor(n);
  for (int32_t e = 0; e < total; e++)
    index[e] = e - e % f->n + source_of(e % f->n, factors, stages, f->n);
  if (stages > 1) z = take(E, z, index);
  for (int32_t s = 0, L = 1; s < stages; L *= factors[s++]) z = stage(E, f, z, L, factors[s]);
  return f->inverse ? complex_scale(E, z, 1.0 / f->n) : z;
}

static Value *one(Eval *E, Value *v, bool inverse) {
  Parts z = complex_parts(E, v);
  if (!z.re->n) return complex_from(E, z.re, z.im);
  z = transform(E, &(Fourier){1, z.re->n, inverse}, z);
  return complex_from(E, z.re, z.im);
}

static Parts transposed(Eval *E, Parts z) {
  return (Parts){value_transpose(E, z.re), value_transpose(E, z.im)};
}

/* Rows, then columns. */
static Value *two(Eval *E, Value *v, bool inverse) {
  Parts z = complex_parts(E, v);
  int32_t m = z.re->dims[0], n = z.re->dims[1];
  if (!z.re->n) return complex_from(E, z.re, z.im);
  z = transposed(E, transform(E, &(Fourier){m, n, inverse}, z));
  z = transposed(E, transform(E, &(Fourier){n, m, inverse}, z));
  return complex_from(E, z.re, z.im);
}

FN(fft) { return one(E, a[0], false); }
FN(inv_fft) { return one(E, a[0], true); }
FN(fft2) { return two(E, a[0], false); }
FN(inv_fft2) { return two(E, a[0], true); }
