/* number.c: decimal text to double and back.
 *
 * Reading: up to 19 digits are collected in an integer; when mantissa and power of ten are both
 * exact doubles, one multiplication or division rounds correctly (Clinger 1990); all else goes to
 * strtod. Writing: the decimal with the fewest digits between the neighbours' midpoints, the
 * nearest of several, by three products with a power of ten of 128 bits (Giulietti, "The Schubfach
 * way to render doubles").
 */
#include "data/number.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char ch) { return ch >= '0' && ch <= '9'; }

/* ---- reading --------------------------------------------------------------------------------- */

static const double exact_power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                     1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                     1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t plain; /* the locale "C" */
static void make_tables(void);

static double read_slowly(const char *s) {
  pthread_once(&once, make_tables);
  return plain ? strtod_l(s, NULL, plain) : strtod(s, NULL);
}

/* Digits of a number as mantissa x 10^exponent; `digits` counts the significant ones, of which 19
 * fit. */
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
    if (d->exponent >= 0 && d->exponent <= 22)
      return sign * ((double)d->mantissa * exact_power[d->exponent]);
    if (d->exponent < 0 && d->exponent >= -22)
      return sign * ((double)d->mantissa / exact_power[-d->exponent]);
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

/* ---- writing --------------------------------------------------------------------------------- */

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

/* ceil(10^k 2^s), s such that it has 128 bits, for all k that a double may ask for. */
enum { LEAST_POWER = -292, MOST_POWER = 324, WORDS = 24 };
static struct { uint64_t high, low; } power[MOST_POWER - LEAST_POWER + 1];

/* The 128 bits from the highest one of a long number (least word first) on; *more: there are others
 * below. */
static void leading_bits(const uint64_t *x, uint64_t *high, uint64_t *low, bool *more) {
  int top = WORDS - 1;
  while (!x[top]) top--;
  int shift = __builtin_clzll(x[top]);
  uint64_t a = x[top], b = top > 0 ? x[top - 1] : 0, c = top > 1 ? x[top - 2] : 0;
  *high = shift ? a << shift | b >> (64 - shift) : a;
  *low = shift ? b << shift | c >> (64 - shift) : b;
  *more = c << shift;
  for (int k = 0; k < top - 2; k++) *more |= x[k] != 0;
}

static void make_power(int k, const uint64_t *x, bool inexact) {
  bool more;
  uint64_t high, low;
  leading_bits(x, &high, &low, &more);
  low += more || inexact;
  power[k - LEAST_POWER].high = high + (low == 0 && (more || inexact));
  power[k - LEAST_POWER].low = low;
}

static void make_tables(void) {
  uint64_t up[WORDS] = {1}, down[WORDS] = {0};
  down[WORDS - 1] = 1;
  for (int k = 0; k <= MOST_POWER; k++) {
    make_power(k, up, false);
    if (-k >= LEAST_POWER) make_power(-k, down, k > 0);
    unsigned __int128 carry = 0;
    for (int w = 0; w < WORDS; w++) {
      carry += (unsigned __int128)up[w] * 10;
      up[w] = (uint64_t)carry;
      carry >>= 64;
    }
    for (int w = WORDS - 1; w >= 0; w--) {
      carry = carry << 64 | down[w];
      down[w] = (uint64_t)(carry / 10);
      carry %= 10;
    }
  }
  plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static int floor_log10_pow2(int e) { return e * 1262611 >> 22; }
static int floor_log10_three_quarters_pow2(int e) { return (e * 1262611 - 524031) >> 22; }
static int floor_log2_pow10(int e) { return e * 1741647 >> 19; }

/* floor(10^k c), with the last bit set where something was cut off. */
static uint64_t times_power(int k, uint64_t c) {
  uint64_t high = power[k - LEAST_POWER].high, low = power[k - LEAST_POWER].low;
  unsigned __int128 y = (unsigned __int128)high * c + (uint64_t)((unsigned __int128)low * c >> 64);
  return (uint64_t)(y >> 64) | ((uint64_t)y > 1);
}

/* mantissa x 10^exponent of a positive finite double. */
static Decimal shortest(double x) {
  uint64_t bits, fraction;
  memcpy(&bits, &x, sizeof bits);
  fraction = bits & ((UINT64_C(1) << 52) - 1);
  int biased = (int)(bits >> 52);
  uint64_t c = biased ? fraction | UINT64_C(1) << 52 : fraction;
  int q = (biased ? biased : 1) - 1075;
  bool close = !fraction && biased > 1,
       open = c & 1; /* the lower neighbour is nearer; the ends of the interval are outside */
  int k = close ? floor_log10_three_quarters_pow2(q) : floor_log10_pow2(q);
  int h = q + floor_log2_pow10(-k) + 1;
  uint64_t lower = times_power(-k, (4 * c - 2 + close) << h) + open,
           upper = times_power(-k, (4 * c + 2) << h) - open;
  uint64_t v = times_power(-k, 4 * c << h), s = v / 4; /* in quarters of 10^k */
  if (s >= 10) {
    uint64_t tens = s / 10;
    bool below = lower <= 40 * tens, above = 40 * tens + 40 <= upper;
    if (below != above) return (Decimal){tens + above, k + 1, 0};
  }
  bool below = lower <= 4 * s, above = 4 * s + 4 <= upper;
  if (below != above) return (Decimal){s + above, k, 0};
  return (Decimal){s + (v > 4 * s + 2 || (v == 4 * s + 2 && s & 1)), k, 0};
}

/* As printf's %g has it: with an exponent where the first digit's place is below 1e-4 or not among
 * the digits. */
static size_t write_decimal(char *out, Decimal d) {
  enum { PLAIN_DIGITS = 15 };
  char digits[24];
  while (d.mantissa % 10 == 0) d.mantissa /= 10, d.exponent++;
  int n = (int)write_whole(digits, (int64_t)d.mantissa), place = n - 1 + (int)d.exponent, m = 0;
  if (place < -4 || place >= (n > PLAIN_DIGITS ? n : PLAIN_DIGITS)) {
    out[m++] = digits[0];
    if (n > 1) out[m++] = '.';
    for (int k = 1; k < n; k++) out[m++] = digits[k];
    out[m++] = 'e';
    out[m++] = place < 0 ? '-' : '+';
    if (abs(place) < 10) out[m++] = '0';
    return (size_t)m + write_whole(out + m, abs(place));
  }
  if (place < 0) out[m++] = '0', out[m++] = '.';
  for (int k = -1; k > place; k--) out[m++] = '0';
  for (int k = 0; k < n; k++) {
    out[m++] = digits[k];
    if (k == place && k < n - 1) out[m++] = '.';
  }
  for (int k = n; k <= place; k++) out[m++] = '0';
  out[m] = 0;
  return (size_t)m;
}

size_t number_write(char out[NUMBER_CHARS], double x) {
  if (isnan(x)) return (size_t)snprintf(out, NUMBER_CHARS, "nan");
  if (isinf(x)) return (size_t)snprintf(out, NUMBER_CHARS, x < 0 ? "-inf" : "inf");
  if (fabs(x) < 1e15 && x == (double)(int64_t)x && (x != 0 || !signbit(x)))
    return write_whole(out, (int64_t)x);
  if (x == 0) return (size_t)snprintf(out, NUMBER_CHARS, "-0");
  pthread_once(&once, make_tables);
  bool negative = x < 0;
  if (negative) *out++ = '-';
  return negative + write_decimal(out, shortest(fabs(x)));
}
