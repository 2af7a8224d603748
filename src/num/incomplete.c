/* incomplete.c: the incomplete gamma and beta functions with their derivatives in all arguments.
 *
 * Either function is a factor F, known in closed form, times a slowly varying s: a series or a
 * continued fraction. s is computed in dual numbers (value and derivatives in a and b), so that
 * every derivative comes out of the same few lines as the value; and because F stays apart, the
 * logs and the implicit derivatives do not underflow. Which of the two complementary functions is
 * computed directly is decided by the argument, so that neither s suffers from cancellation.
 *
 * F itself, for large parameters, is Loader's form (2000): exp(-a D((x-a)/a) - ...) instead of the
 * difference of large logs.
 */
#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "num/special.h"

#define LOG_SQRT_2PI 0.91893853320467274178
#define MAX_TERMS 2000000
#define TINY 1e-290

/* ---- dual numbers ---------------------------------------------------------------------------- */

typedef struct {
  double v, a, b; /* value, derivative in a, derivative in b */
} Dual;

static Dual constant(double v) { return (Dual){v, 0, 0}; }
static Dual add(Dual x, Dual y) { return (Dual){x.v + y.v, x.a + y.a, x.b + y.b}; }
static Dual times(Dual x, double c) { return (Dual){x.v * c, x.a * c, x.b * c}; }
static Dual mul(Dual x, Dual y) {
  return (Dual){x.v * y.v, x.a * y.v + x.v * y.a, x.b * y.v + x.v * y.b};
}
static Dual quo(Dual x, Dual y) {
  double r = 1 / y.v, q = x.v * r;
  return (Dual){q, (x.a - q * y.a) * r, (x.b - q * y.b) * r};
}

/* One function value in pieces: log F, its derivatives, and s; `lower` when F s is the lower
 * function (P, I). */
typedef struct {
  bool lower;
  double logF, logF_a, logF_b;
  Dual s;
  double density; /* the derivative in x, divided by F */
} Pieces;

static double direct(Pieces p) { return exp(p.logF) * p.s.v; }
static double log_direct(Pieces p) { return p.logF + log(p.s.v); }
static double one_minus(double log_x) { return log_x >= 0 ? 0 : -expm1(log_x); }
static double lower_value(Pieces p) { return p.lower ? direct(p) : one_minus(log_direct(p)); }
static double upper_value(Pieces p) { return p.lower ? one_minus(log_direct(p)) : direct(p); }
static double log_complement(Pieces p) {
  double l = log_direct(p);
  return l >= 0 ? -(double)INFINITY : num_log1m_exp(l);
}
static double log_lower(Pieces p) { return p.lower ? log_direct(p) : log_complement(p); }
static double log_upper(Pieces p) { return p.lower ? log_complement(p) : log_direct(p); }

/* Derivatives of the lower function, divided by F. */
static double lower_da(Pieces p) { return (p.lower ? 1 : -1) * (p.s.a + p.s.v * p.logF_a); }
static double lower_db(Pieces p) { return (p.lower ? 1 : -1) * (p.s.b + p.s.v * p.logF_b); }

/* What turns a derivative of the lower function, divided by F, into that of the log of the lower
 * or the upper one, whose value is log_value: neither F nor its inverse need be a number. */
static double log_scale(Pieces p, bool upper, double log_value) {
  double scale = p.lower != upper ? 1 / p.s.v : exp(p.logF - log_value);
  return upper ? -scale : scale;
}

/* ---- pieces of F ----------------------------------------------------------------------------- */

/* D(u) = u - log(1 + u) for |u| <= 0.6: from log(1+u) = 2 atanh(r), r = u/(2+u). */
static double deviance(double u) {
  double r = u / (2 + u), y = r * r, t = 0, sum = 0, power = 1;
  for (int k = 3; k < 200; k += 2) {
    t = power / k;
    sum += t;
    if (t < 1e-17 * sum) break;
    power *= y;
  }
  return r * (u - 2 * y * sum);
}

/* a log(a/x) + x - a >= 0 (Loader's bd0), d = x - a. */
static double deviance_of(double a, double x, double d) {
  return fabs(d) <= 0.6 * a ? a * deviance(d / a) : a * log(a / x) + d;
}

/* psi(a) - log(a), which is -1/(2a) - B(1/a^2)/a^2 for large a. */
static double digamma_minus_log(double a) {
  if (a < 10) return num_digamma(a) - log(a);
  static const double B[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                             1.0 / 132, -691.0 / 32760, 1.0 / 12,  -3617.0 / 8160};
  double y = 1 / (a * a), t = 0;
  for (int k = 7; k >= 0; k--) t = t * y + B[k];
  return -0.5 / a - y * t;
}

/* ---- incomplete gamma ------------------------------------------------------------------------ */

/* log of x^a e^-x / Gamma(a + 1) */
static double gamma_log_factor(double a, double x) {
  if (a < 10) return a * log(x) - x - num_lgamma1p(a);
  return -deviance_of(a, x, x - a) - num_stirling(a) - LOG_SQRT_2PI - 0.5 * log(a);
}

/* P = x^a e^-x / Gamma(a+1) sum_n x^n / ((a+1)...(a+n)) */
static Pieces gamma_series(double a, double x) {
  Dual t = constant(1), s = t;
  for (int n = 1; n < MAX_TERMS; n++) {
    t = times(quo(t, (Dual){a + n, 1, 0}), x);
    s = add(s, t);
    if (t.v < 1e-17 * s.v && fabs(t.a) <= 1e-16 * fabs(s.a)) break;
  }
  double la = a < 10 ? log(x) - num_digamma(a + 1)
                     : log(x / a) - digamma_minus_log(a) - 1 / a; /* log x - psi(a + 1) */
  return (Pieces){true, gamma_log_factor(a, x), la, 0, s, a / x};
}

/* Q = x^a e^-x / Gamma(a) * 1/(x+1-a - 1(1-a)/(x+3-a - 2(2-a)/(x+5-a - ...))), by Lentz' method. */
static Pieces gamma_fraction(double a, double x) {
  Dual b = {x + 1 - a, -1, 0}, c = constant(1 / TINY), d = quo(constant(1), b), h = d;
  for (int n = 1; n < MAX_TERMS; n++) {
    Dual an = {-n * (n - a), n, 0};
    b.v += 2;
    d = add(mul(an, d), b);
    c = add(b, quo(an, c));
    if (fabs(d.v) < TINY) d.v = TINY;
    if (fabs(c.v) < TINY) c.v = TINY;
    d = quo(constant(1), d);
    Dual del = mul(d, c);
    h = mul(h, del);
    if (fabs(del.v - 1) < 1e-16 && fabs(del.a) * fabs(h.v) <= 1e-16 * fabs(h.a)) break;
  }
  return (Pieces){false, gamma_log_factor(a, x) + log(a), log(x / a) - digamma_minus_log(a), 0, h,
                  1 / x};
}

/* Q for a < 1, x < 1, where 1 - P would cancel: with g = x^a / Gamma(1+a) and S = sum_n>0 (-x)^n /
 * (n! (a+n)), P = g (1 + a S), Q = (1 - g) - a g S, both terms positive. */
static double gamma_q_small(double a, double x) {
  double lg = a * log(x) - num_lgamma1p(a), t = 1, S = 0;
  for (int n = 1; n < 100; n++) {
    t *= -x / n;
    S += t / (a + n);
    if (fabs(t) < 1e-18) break;
  }
  return -expm1(lg) - a * exp(lg) * S;
}

static bool takes_series(double a, double x) { return x < a + 1 && !(a < 1 && x >= 1); }

static Pieces gamma_pieces(double a, double x) {
  return takes_series(a, x) ? gamma_series(a, x) : gamma_fraction(a, x);
}

/* Temme's uniform expansion (1979), for a beyond the reach of the series, which is that of a root
 * of a terms where x is near a: P = Phi(-eta sqrt(a)) - R, where eta^2/2 = D((x-a)/a). */
#define A_HUGE 1e9
static bool gamma_is_huge(double a, double x) { return a > A_HUGE && fabs(x - a) < 0.1 * a; }
static double gamma_eta(double a, double x) {
  double u = (x - a) / a, e = sqrt(2 * deviance_of(a, x, x - a) / a);
  return u < 0 ? -e : e;
}
static double gamma_huge_correction(double a, double eta) {
  double c0 = -1.0 / 3 + eta * (1.0 / 12 + eta * (-2.0 / 135 + eta * (1.0 / 864 + eta / 2835)));
  return c0 - 1 / (540 * a);
}
static double gamma_huge_rest(double a, double eta) {
  return exp(-0.5 * a * eta * eta) / sqrt(2 * M_PI * a) * gamma_huge_correction(a, eta);
}
static double gamma_huge(double a, double x, bool upper) {
  double eta = gamma_eta(a, x), z = eta * sqrt(a), r = gamma_huge_rest(a, eta);
  return upper ? num_Phi(-z) + r : num_Phi(z) - r;
}
/* Their ratio is that of F s: no number need be small. */
static double log_gamma_huge(double a, double x, bool upper) {
  double eta = gamma_eta(a, x), z = upper ? -eta * sqrt(a) : eta * sqrt(a);
  double log_main = num_log_Phi(z), r = gamma_huge_correction(a, eta);
  double ratio = exp(-0.5 * z * z - LOG_SQRT_2PI - 0.5 * log(a) - log_main) * r;
  return log_main + log1p(upper ? ratio : -ratio);
}

/* What needs no work: the ends and the wrong. Returns true with *p = P(a, x). */
static bool gamma_trivial(double a, double x, double *p) {
  *p = (double)NAN;
  if (!(a > 0) || !(x >= 0)) return !(a == 0 && x >= 0) || ((*p = 1), true);
  if (isinf(a)) return (*p = isinf(x) ? (double)NAN : 0), true;
  if (x == 0) return (*p = 0), true;
  if (isinf(x)) return (*p = 1), true;
  return false;
}

double num_gamma_p(double a, double x) {
  double p;
  if (gamma_trivial(a, x, &p)) return p;
  return gamma_is_huge(a, x) ? gamma_huge(a, x, false) : lower_value(gamma_pieces(a, x));
}

double num_gamma_q(double a, double x) {
  double p;
  if (gamma_trivial(a, x, &p)) return 1 - p;
  if (gamma_is_huge(a, x)) return gamma_huge(a, x, true);
  return a < 1 && x < 1 ? gamma_q_small(a, x) : upper_value(gamma_pieces(a, x));
}

double num_log_gamma_p(double a, double x) {
  double p;
  if (gamma_trivial(a, x, &p)) return log(p);
  if (gamma_is_huge(a, x)) return log_gamma_huge(a, x, false);
  return a < 1 && x < 1 && (p = gamma_q_small(a, x)) < 0.5 ? log1p(-p)
                                                           : log_lower(gamma_pieces(a, x));
}

double num_log_gamma_q(double a, double x) {
  double p;
  if (gamma_trivial(a, x, &p)) return log1p(-p);
  if (gamma_is_huge(a, x)) return log_gamma_huge(a, x, true);
  return a < 1 && x < 1 ? log(gamma_q_small(a, x)) : log_upper(gamma_pieces(a, x));
}

double num_gamma_p_dx(double a, double x) {
  if (a == 0 && x > 0) return 0;
  if (!(a > 0) || !(x >= 0)) return (double)NAN;
  if (x == 0) return a < 1 ? (double)INFINITY : a == 1;
  return isinf(x) ? 0 : exp(gamma_log_factor(a, x)) * (a / x);
}

/* A huge gamma is a normal moved by its skewness: x = a + z sqrt(a) + (z^2 - 1)/3, dx/da at fixed
 * z. */
static double gamma_huge_dx_da(double a, double x) { return 1 + 0.5 * (x - a) / a; }

double num_gamma_dx_da(double a, double x) {
  double p;
  if (gamma_trivial(a, x, &p)) return x == 0 && a > 0 ? 0 : (double)NAN;
  if (gamma_is_huge(a, x)) return gamma_huge_dx_da(a, x);
  Pieces q = gamma_pieces(a, x);
  return -lower_da(q) * x / (q.lower ? a : 1);
}

double num_gamma_p_da(double a, double x) {
  double p;
  if (gamma_trivial(a, x, &p)) return isnan(p) ? p : 0;
  if (gamma_is_huge(a, x)) return -num_gamma_p_dx(a, x) * gamma_huge_dx_da(a, x);
  Pieces q = gamma_pieces(a, x);
  return lower_da(q) * exp(q.logF);
}

void num_log_gamma_d(double a, double x, bool upper, double log_value, double *da, double *dx) {
  double p, sign = upper ? -1 : 1;
  if (gamma_trivial(a, x, &p)) {
    *da = isnan(p) ? p : 0;
    *dx = isnan(p) ? p : upper ? -num_gamma_p_dx(a, x) : x == 0 ? (double)INFINITY : 0;
  } else if (gamma_is_huge(a, x)) {
    *dx = sign * exp(gamma_log_factor(a, x) - log_value) * (a / x);
    *da = -*dx * gamma_huge_dx_da(a, x);
  } else {
    Pieces q = gamma_pieces(a, x);
    double scale = log_scale(q, upper, log_value);
    *da = scale * lower_da(q);
    *dx = scale * q.density;
  }
}

/* sum_n x^n / ((a+1)...(a+n)), and the continued fraction, as above: values alone. */
static double series_value(double a, double x) {
  double t = 1, s = 1;
  for (int n = 1; n < MAX_TERMS && t >= 1e-17 * s; n++) s += t *= x / (a + n);
  return s;
}
static double fraction_value(double a, double x) {
  double b = x + 1 - a, c = 1 / TINY, d = 1 / b, h = d, del = 0;
  for (int n = 1; n < MAX_TERMS && fabs(del - 1) >= 1e-16; n++) {
    double an = -n * (n - a);
    b += 2;
    d = an * d + b;
    c = b + an / c;
    if (fabs(d) < TINY) d = TINY;
    if (fabs(c) < TINY) c = TINY;
    d = 1 / d;
    del = d * c;
    h *= del;
  }
  return h;
}

/* log P, or log Q, and *slope = x dP/dx; lg = log Gamma(a + 1). */
static double log_side(double a, double x, double lg, bool lower, double *slope) {
  double logF = a < 10 ? a * log(x) - x - lg : gamma_log_factor(a, x);
  *slope = a * exp(logF);
  if (gamma_is_huge(a, x) || (a < 1 && x < 1))
    return lower ? num_log_gamma_p(a, x) : num_log_gamma_q(a, x);
  bool by_series = takes_series(a, x);
  double at = logF + (by_series ? log(series_value(a, x)) : log(a * fraction_value(a, x)));
  if (by_series == lower) return at;
  return at > -0.7 ? log(-expm1(at)) : log1p(-exp(at));
}

/* Halley's iteration on log P in log x (or on log Q, for the upper half), bracketed; the start is
 * Wilson and Hilferty's. F = log P has F' = r = x P' / P and F'' = r (a - x - r); F = -log Q, with
 * Q for P, has F'' = r (a - x + r). The error that a step leaves is about its cube, times what the
 * curvature changes in it: so the last one is told before it is made. */
double num_gamma_quantile(double a, double p) {
  if (!(a > 0) || !(p >= 0) || !(p <= 1)) return (double)NAN;
  if (p == 0 || p == 1) return p == 0 ? 0 : (double)INFINITY;
  double z = num_inv_Phi(p), c = 1 / (9 * a), w = 1 - c + z * sqrt(c), lo = 0,
         hi = (double)INFINITY, lg = num_lgamma1p(a), slope;
  double x = a * w * w * w;
  if (!(w > 0.2) || a < 0.2) x = exp((log(p) + lg) / a); /* P = x^a / Gamma(a+1) near zero */
  if (x < DBL_MIN) return x;
  if (p > 0.5 && a < 0.2) x = fmax(x, 1e-3);
  bool low = p < 0.5;
  double wanted = low ? log(p) : log1p(-p);
  for (int i = 0; i < 200; i++) {
    double at = log_side(a, x, lg, low, &slope), F = low ? at - wanted : wanted - at;
    if (F == 0) return x;
    if (F > 0)
      hi = fmin(hi, x);
    else
      lo = fmax(lo, x);
    double rate = slope / exp(at), step = F / rate,
           bend = 0.5 * step * (a - x + (low ? -rate : rate));
    if (fabs(bend) < 0.5) step /= 1 - bend;
    double next = x * exp(-step);
    bool inside = next > lo && next < hi;
    if (inside && fabs(step) * (bend * bend + step * step * (1 + x)) <= 1e-17) return next;
    if (!inside) next = isinf(hi) ? 2 * x : lo == 0 ? 0.5 * x : 0.5 * (lo + hi);
    if (fabs(next - x) <= 2e-16 * x) return next;
    x = next;
  }
  return x;
}

/* ---- incomplete beta ------------------------------------------------------------------------- */

/* log of x^a y^b / (a B(a, b)), y = 1 - x */
static double beta_log_factor(double a, double b, double x, double y) {
  if (a < 10 || b < 10) {
    double lx = x < 0.5 ? log(x) : log1p(-y), ly = y < 0.5 ? log(y) : log1p(-x);
    return a * lx + b * ly - num_lbeta(a, b) - log(a);
  }
  double n = a + b, e = (b * x - a * y); /* n x - a = b x - a y = -(n y - b) */
  return num_stirling(n) - num_stirling(a) - num_stirling(b) - deviance_of(a, n * x, e) -
         deviance_of(b, n * y, -e) + 0.5 * log(b / (a * n)) - LOG_SQRT_2PI;
}

/* The continued fraction of I_x(a, b) a B(a, b) / (x^a y^b) (Abramowitz & Stegun 26.5.8), Lentz'
 * method, two steps at a time.
 */
static Dual beta_fraction(Dual a, Dual b, double x) {
  Dual one = constant(1), n = add(a, b), c = one;
  Dual d = add(one, times(quo(n, add(a, one)), -x));
  if (fabs(d.v) < TINY) d.v = TINY;
  d = quo(one, d);
  Dual h = d;
  for (int m = 1; m < MAX_TERMS; m++) {
    Dual a2 = add(a, constant(2.0 * m)), change = one;
    Dual even = times(quo(add(b, constant(-m)), mul(add(a2, constant(-1)), a2)), m * x);
    Dual odd = times(quo(mul(add(a, constant(m)), add(n, constant(m))), mul(a2, add(a2, one))), -x);
    for (int half = 0; half < 2; half++) {
      Dual t = half ? odd : even;
      d = add(one, mul(t, d));
      c = add(one, quo(t, c));
      if (fabs(d.v) < TINY) d.v = TINY;
      if (fabs(c.v) < TINY) c.v = TINY;
      d = quo(one, d);
      change = mul(change, mul(c, d));
    }
    h = mul(h, change);
    double da = fabs(change.a * h.v), db = fabs(change.b * h.v);
    if (fabs(change.v - 1) < 1e-16 && da <= 1e-16 * fabs(h.a) + 1e-300 &&
        db <= 1e-16 * fabs(h.b) + 1e-300)
      break;
  }
  return h;
}

/* Its value alone: numerators and denominators of the convergents by their recurrence, which
 * divides once for two steps. Both are scaled together before they leave the range of numbers. */
static double beta_fraction_value(double a, double b, double x) {
  double n = a + b, A0 = 1, B0 = 1, A = 1, B = 1 - x * n / (a + 1);
  for (int m = 1; m < MAX_TERMS; m++) {
    double a2 = a + 2.0 * m, by = x / ((a2 - 1) * a2 * (a2 + 1));
    double even = m * (b - m) * (a2 + 1) * by, odd = -(a + m) * (n + m) * (a2 - 1) * by;
    A0 = A + even * A0, B0 = B + even * B0;
    A = A0 + odd * A, B = B0 + odd * B;
    if (fabs(A * B0 - A0 * B) <= 4e-16 * fabs(A * B0)) break;
    double top = fabs(A) + fabs(B);
    if (top > 1e100 || top < 1e-100) A0 /= top, B0 /= top, A /= top, B /= top;
  }
  return A / B;
}

/* psi(a + b) - psi(a + 1), the part of log F's derivative in a that is not log x. */
static double beta_digammas(double a, double b) {
  double n = a + b;
  if (a < 10) return num_digamma(n) - num_digamma(a + 1);
  return log1p(b / a) + digamma_minus_log(n) - digamma_minus_log(a) - 1 / a;
}

/* With a huge first shape I_x(a, b) is Q(b, z), z = -(a + (b - 1)/2) log x, up to b (b/a)^2
 * (DiDonato and Morris 1992, section 9); derivatives: dQ/db at z, and through z. */
static Pieces beta_as_gamma(double a, double b, double lx, double x) {
  double n = a + 0.5 * (b - 1), z = -n * lx;
  Pieces g = gamma_pieces(b, z), p = g;
  double sign = g.lower ? 1 : -1; /* of the derivative of F s in z */
  p.lower = !g.lower;
  p.logF_a = p.logF_b = 0;
  p.s.a = sign * g.density * -lx;
  p.s.b = g.s.a + g.s.v * g.logF_a + sign * g.density * -0.5 * lx;
  p.density = g.density * n / x;
  return p;
}

/* The same with the shapes and the tails exchanged: I_x(a, b) = 1 - I_y(b, a). */
static Pieces exchanged(Pieces p) {
  Pieces q = p;
  q.lower = !p.lower;
  q.s = (Dual){p.s.v, p.s.b, p.s.a};
  return q;
}

/* With two huge shapes the function is normal, in the variable w whose square is twice the deviance
 * of the binomial (Temme 1982): I = Phi(w) + phi(w) (1/w - sd / (x - mean)), up to 1/n. Its
 * derivatives in the shapes are those of x at fixed w, to the first order: mean and sd. */
static Pieces beta_as_normal(double a, double b, double x, double y) {
  double n = a + b, mean = a / n, e = b * x - a * y, sd = sqrt(mean * (b / n) / n);
  double w = sqrt(2 * (deviance_of(a, n * x, e) + deviance_of(b, n * y, -e)));
  double far = e / n / sd, skew = (b - a) / n / (n * sd), near = (e < 0 ? -1 : 1) * skew / 3;
  double rest = w > 1e-3 ? 1 / w - 1 / fabs(far) : near;
  Pieces p = {.lower = e < 0, .logF = num_log_Phi(-w)};
  double log_phi = -0.5 * w * w - LOG_SQRT_2PI - p.logF;
  p.s = constant(1 - rest * exp(log_phi));
  double log_density = log_phi - log(sd), sign = p.lower ? 1 : -1;
  p.density = exp(log_density);
  double by_sd = 0.5 * far * sd; /* sd^2 = a b / n^3 */
  p.s.a = sign * -p.density * (b / n / n + by_sd * (1 / a - 3 / n));
  p.s.b = sign * -p.density * (-mean / n + by_sd * (1 / b - 3 / n));
  return p;
}

/* The continued fraction needs as many terms as the root of the larger shape has. */
static Pieces beta_huge(double a, double b, double x, double y) {
  double lx = x < 0.5 ? log(x) : log1p(-y), ly = y < 0.5 ? log(y) : log1p(-x);
  if (b < 1e-5 * a && b < A_HUGE) return beta_as_gamma(a, b, lx, x);
  if (a < 1e-5 * b && a < A_HUGE) return exchanged(beta_as_gamma(b, a, ly, y));
  return beta_as_normal(a, b, x, y);
}

static Pieces beta_pieces(double a, double b, double x, double y) {
  if (fmax(a, b) > A_HUGE) return beta_huge(a, b, x, y);
  bool lower = x <= (a + 1) / (a + b + 2);
  double lx = x < 0.5 ? log(x) : log1p(-y), ly = y < 0.5 ? log(y) : log1p(-x);
  double na = digamma_minus_log(a + b);
  Pieces p = {.lower = lower};
  if (lower) {
    p.logF = beta_log_factor(a, b, x, y);
    p.logF_a = lx + beta_digammas(a, b);
    p.logF_b = ly + log1p(a / b) + na - digamma_minus_log(b);
    p.s = beta_fraction((Dual){a, 1, 0}, (Dual){b, 0, 1}, x);
    p.density = a / (x * y);
  } else {
    p.logF = beta_log_factor(b, a, y, x);
    p.logF_a = lx + log1p(b / a) + na - digamma_minus_log(a);
    p.logF_b = ly + beta_digammas(b, a);
    p.s = beta_fraction((Dual){b, 0, 1}, (Dual){a, 1, 0}, y);
    p.density = b / (x * y);
  }
  return p;
}

/* Without derivatives. */
static Pieces beta_values(double a, double b, double x, double y) {
  if (fmax(a, b) > A_HUGE) return beta_huge(a, b, x, y);
  if (x <= (a + 1) / (a + b + 2))
    return (Pieces){.lower = true,
                    .logF = beta_log_factor(a, b, x, y),
                    .s = constant(beta_fraction_value(a, b, x))};
  return (Pieces){.logF = beta_log_factor(b, a, y, x), .s = constant(beta_fraction_value(b, a, y))};
}

static bool beta_trivial(double a, double b, double x, double *p) {
  *p = (double)NAN;
  if (!(a > 0) || !(b > 0) || !(x >= 0 && x <= 1)) return true;
  if (x == 0 || x == 1) return (*p = x), true;
  return isinf(a) || isinf(b) ? (*p = isinf(a) && isinf(b) ? (double)NAN : isinf(b)), true : false;
}

double num_inc_beta(double a, double b, double x) {
  double p;
  return beta_trivial(a, b, x, &p) ? p : lower_value(beta_values(a, b, x, 1 - x));
}

double num_log_inc_beta(double a, double b, double x) {
  double p;
  return beta_trivial(a, b, x, &p) ? log(p) : log_lower(beta_values(a, b, x, 1 - x));
}

double num_log1m_inc_beta(double a, double b, double x) {
  double p;
  return beta_trivial(a, b, x, &p) ? log1p(-p) : log_upper(beta_values(a, b, x, 1 - x));
}

void num_inc_beta_d(double a, double b, double x, double *da, double *db, double *dx) {
  double p;
  if (beta_trivial(a, b, x, &p)) {
    *da = *db = isnan(p) ? p : 0;
    *dx = isnan(p)               ? p
          : (x == 0 ? a : b) < 1 ? (double)INFINITY
          : (x == 0 ? a : b) > 1 ? 0
                                 : (x == 0 ? b : a);
    return;
  }
  Pieces q = beta_pieces(a, b, x, 1 - x);
  double F = exp(q.logF);
  *da = lower_da(q) * F;
  *db = lower_db(q) * F;
  *dx = F * q.density;
}

void num_log_inc_beta_d(double a, double b, double x, double log_value, double *d) {
  double p;
  if (beta_trivial(a, b, x, &p)) {
    num_inc_beta_d(a, b, x, &d[0], &d[1], &d[2]);
    if (x == 0) d[2] = (double)INFINITY;
    return;
  }
  Pieces q = beta_pieces(a, b, x, 1 - x);
  double scale = log_scale(q, false, log_value);
  d[0] = scale * lower_da(q);
  d[1] = scale * lower_db(q);
  d[2] = scale * q.density;
}

void num_beta_dx_dab(double a, double b, double x, double *da, double *db) {
  double p;
  *da = *db = 0;
  if (beta_trivial(a, b, x, &p)) return;
  Pieces q = beta_pieces(a, b, x, 1 - x);
  double r = -1 / q.density;
  *da = lower_da(q) * r;
  *db = lower_db(q) * r;
}

/* ---- Student's t ----------------------------------------------------------------------------- */

/* P(T < -|t|) = I_x(nu/2, 1/2)/2 with x = nu/(nu + t^2), y = t^2/(nu + t^2): both ends of the
 * interval are exact. */
typedef struct {
  double x, y;
} Ends;

static Ends t_ends(double t, double nu) {
  double r = t / sqrt(nu), s = 1 / (1 + r * r);
  return r * r > 1e290 ? (Ends){TINY, 1} : (Ends){s, r * r * s};
}

static Pieces t_values(double t, double nu) {
  Ends e = t_ends(t, nu);
  return beta_values(0.5 * nu, 0.5, e.x, e.y);
}

static Pieces t_pieces(double t, double nu) {
  Ends e = t_ends(t, nu);
  return beta_pieces(0.5 * nu, 0.5, e.x, e.y);
}

static bool t_trivial(double t, double nu) {
  return isnan(t) || !(nu > 0) || isinf(nu) || isinf(t) || t == 0;
}

double num_student_t_cdf(double t, double nu) {
  if (isnan(t) || !(nu > 0)) return (double)NAN;
  if (isinf(nu) || nu > 1e15) return num_Phi(t);
  if (isinf(t) || t == 0) return t == 0 ? 0.5 : t > 0;
  double tail = 0.5 * lower_value(t_values(t, nu));
  return t < 0 ? tail : 1 - tail;
}

double num_student_t_log_cdf(double t, double nu) {
  if (t_trivial(t, nu) || nu > 1e15)
    return isnan(t) || !(nu > 0) ? (double)NAN
           : isinf(t) || t == 0  ? log(num_student_t_cdf(t, nu))
                                 : num_log_Phi(t);
  Pieces p = t_values(t, nu);
  return t < 0 ? log_lower(p) - 0.6931471805599453 : log1p(-0.5 * lower_value(p));
}

void num_student_t_cdf_d(double t, double nu, double *dt, double *dnu) {
  double c = nu > 1e15 ? 0 : num_stirling(0.5 * (nu + 1)) - num_stirling(0.5 * nu);
  if (nu < 1e15)
    c += 0.5 * nu * log1p(1 / nu) - 0.5; /* log of Gamma((nu+1)/2) / (Gamma(nu/2) sqrt(nu/2)) */
  *dt = exp(c - LOG_SQRT_2PI - (nu > 1e15 ? 0.5 * t * t : 0.5 * (nu + 1) * log1p(t * t / nu)));
  *dnu = 0;
  if (t_trivial(t, nu) || nu > 1e15) return;
  Pieces p = t_pieces(t, nu);
  double tail = 0.25 * lower_da(p) * exp(p.logF) +
                0.5 * fabs(t) / nu * *dt; /* dI/dx dx/dnu = 2 f(t) |t| / (2 nu) */
  *dnu = t < 0 ? tail : -tail;
}

void num_student_t_log_cdf_d(double t, double nu, double log_value, double *dt, double *dnu) {
  num_student_t_cdf_d(t, nu, dt, dnu);
  double scale = exp(-log_value);
  *dt *= scale, *dnu *= scale;
  if (scale < 1e290 || t_trivial(t, nu)) return;
  if (nu > 1e15) { /* far in the lower tail */
    *dt = num_log_Phi_d(t);
    return;
  }
  Ends e = t_ends(t, nu);
  Pieces p = t_pieces(t, nu);
  *dt = exp(p.logF - log_value) * p.density * e.x * e.y / fabs(t);
  *dnu = 0.25 * lower_da(p) * exp(p.logF - log_value) + 0.5 * fabs(t) / nu * *dt;
}

/* By the tail in which both are small. */
double num_student_t_log_diff(double a, double b, double nu) {
  bool above = b > 0;
  return num_log_diff_exp(num_student_t_log_cdf(above ? -b : a, nu),
                          num_student_t_log_cdf(above ? -a : b, nu));
}

/* With p and q the logarithms of F at both ends, d r = (e^p dp - e^q dq) / e^r. */
void num_student_t_log_diff_d(double a, double b, double nu, double r, double *da, double *db,
                              double *dnu) {
  bool above = b > 0;
  double at[2] = {above ? -b : a, above ? -a : b}, d[2], by_nu[2];
  *da = *db = *dnu = 0;
  if (!(r > -(double)INFINITY)) return; /* there is no density */
  for (int k = 0; k < 2; k++) {
    double p = num_student_t_log_cdf(at[k], nu), share = exp(p - r);
    num_student_t_log_cdf_d(at[k], nu, p, &d[k], &by_nu[k]);
    d[k] = share > 0 ? d[k] * share : 0;
    by_nu[k] = share > 0 ? by_nu[k] * share : 0;
  }
  *da = d[above];
  *db = -d[!above];
  *dnu = by_nu[0] - by_nu[1];
}

/* Newton's steps inside of an interval that always holds the root; halved where a step would leave
 * it. */
double num_inv_inc_beta(double a, double b, double p) {
  double low = 0, high = 1, x = a / (a + b);
  if (!(a > 0 && b > 0 && p >= 0 && p <= 1)) return (double)NAN;
  if (p == 0 || p == 1) return p;
  for (int k = 0; k < 200 && high - low > 1e-17 * x; k++) {
    double f = num_inc_beta(a, b, x) - p,
           log_slope = (a - 1) * log(x) + (b - 1) * log1p(-x) - num_lbeta(a, b);
    *(f > 0 ? &high : &low) = x;
    double next = x - f * exp(-log_slope);
    if (fabs(next - x) <= 1e-16 * x) return next;
    x = next > low && next < high ? next : 0.5 * (low + high);
  }
  return x;
}
