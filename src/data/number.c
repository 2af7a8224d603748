/* number.c: decimal text to double and back. Reading: up to 19 digits are collected in an integer; when mantissa and power of
 * ten are both exact doubles, one multiplication or division rounds correctly (Clinger 1990); all else goes to strtod. */
#include "data/number.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char ch) { return ch >= '0' && ch <= '9'; }

/* ---- reading ------------------------------------------------------------------------------------------------------ */

static const double exact_power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                     1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static double read_slowly(const char *s) {
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!plain) return strtod(s, NULL);
  double x = strtod_l(s, NULL, plain);
  freelocale(plain);
  return x;
}

/* Digits of a number as mantissa x 10^exponent; `digits` counts the significant ones, of which 19 fit. */
typedef struct {
  uint64_t mantissa;
  long exponent;
  int digits;
} Decimal;

static const char *read_digits(const char *p, Decimal *d, bool fraction) {
  for (; is_digit(*p); p++) {
    if (d->digits < 19) {
      d->mantissa = d->mantissa * 10 + (uint64_t)(*p - '0');
      if (d->mantissa) d->digits++;
      d->exponent -= fraction;
    } else {
      d->digits++;
      d->exponent += !fraction;
    }
  }
  return p;
}

static const char *read_exponent(const char *p, Decimal *d) {
  const char *q = p + 1;
  bool negative = *q == '-';
  if (*q == '-' || *q == '+') q++;
  if (!is_digit(*q)) return p;
  long e = 0;
  for (; is_digit(*q); q++)
    if (e < 100000) e = e * 10 + (*q - '0');
  d->exponent += negative ? -e : e;
  return q;
}

static double decimal_value(const Decimal *d, bool negative, const char *s) {
  double sign = negative ? -1.0 : 1.0;
  if (d->digits <= 19 && d->mantissa <= (UINT64_C(1) << 53)) {
    if (d->mantissa == 0) return sign * 0.0;
    if (d->exponent >= 0 && d->exponent <= 22) return sign * ((double)d->mantissa * exact_power[d->exponent]);
    if (d->exponent < 0 && d->exponent >= -22) return sign * ((double)d->mantissa / exact_power[-d->exponent]);
  }
  return read_slowly(s);
}

Number number_read(const char *s, bool strict) {
  const Number none = {0.0, false, s};
  Decimal d = {0, 0, 0};
  const char *p = s;
  bool negative = *p == '-', dot = false, power = false;
  if (*p == '-' || (*p == '+' && !strict)) p++;
  const char *whole = p;
  p = read_digits(p, &d, false);
  size_t nwhole = (size_t)(p - whole), nfraction = 0;
  if (strict && (nwhole == 0 || (nwhole > 1 && *whole == '0'))) return none;
  if (*p == '.') {
    const char *q = read_digits(p + 1, &d, true);
    nfraction = (size_t)(q - p - 1);
    if (strict && nfraction == 0) return none;
    dot = true;
    p = q;
  }
  if (nwhole + nfraction == 0) return none;
  if (*p == 'e' || *p == 'E') {
    const char *q = read_exponent(p, &d);
    if (q == p) return none;
    power = true;
    p = q;
  }
  uint64_t most = (uint64_t)INT32_MAX + negative;
  bool is_int = !dot && !power && d.digits <= 10 && d.mantissa <= most;
  double x = decimal_value(&d, negative, s);
  return (Number){is_int ? x + 0.0 : x, is_int, p};
}

/* ---- writing ------------------------------------------------------------------------------------------------------ */

/* Digits of a whole number below 2^53: the common case of counts and indices. */
static size_t write_whole(char *out, int64_t k) {
  char digits[24];
  size_t n = 0, m = 0;
  uint64_t u = k < 0 ? (uint64_t)-k : (uint64_t)k;
  do digits[n++] = (char)('0' + u % 10);
  while (u /= 10);
  if (k < 0) out[m++] = '-';
  while (n) out[m++] = digits[--n];
  out[m] = 0;
  return m;
}

/* 15 digits survive any normal double; subnormals have fewer. */
static size_t write_shortest(char *out, double x) {
  int n = 0;
  for (int digits = fabs(x) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
    n = snprintf(out, NUMBER_CHARS, "%.*g", digits, x);
    if (digits == 17 || number_read(out, false).value == x) break;
  }
  return (size_t)n;
}

size_t number_write(char out[NUMBER_CHARS], double x) {
  if (isnan(x)) return (size_t)snprintf(out, NUMBER_CHARS, "nan");
  if (isinf(x)) return (size_t)snprintf(out, NUMBER_CHARS, x < 0 ? "-inf" : "inf");
  if (fabs(x) < 1e15 && x == (double)(int64_t)x && (x != 0 || !signbit(x))) return write_whole(out, (int64_t)x);
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  locale_t before = plain ? uselocale(plain) : (locale_t)0;
  size_t n = write_shortest(out, x);
  if (plain) {
    uselocale(before);
    freelocale(plain);
  }
  return n;
}
