/* count_sums.c: sums over all outcomes of a mixture of counts: the CRPS and the sum of squares of
 * the quadratic score.
 *
 * Only outcomes where some lane has mass are looked at, one by one, up to `whole`: between them F
 * is constant and the sum is a product. From there on a mixture without bound is smooth (its
 * narrowest lanes have standard deviations of 20 and more), and points grow apart: they are k_i =
 * T(whole + i), with
 *
 *     T(x) = x + B z^10 / (1 + z^8), z = (x - whole) / B,
 *
 * which begins as x and ends as (x - whole)^2 / B: there are five or six points to a standard
 * deviation of a poisson, and 12 sqrt(k) up to k, whatever the lanes. T is smooth, so that sum_k
 * f(k) = sum_i f(k_i) T'(i) to all digits, as for every trapezoidal rule (Trefethen and Weideman
 * 2014). Partial sums of probabilities, F at the points, are the trapezoidal rule with Gauss's
 * corrections at the end, in differences: a linear map of the p_i, whose transpose the adjoint is.
 *
 * Beyond COUNT_FAR points, k of 8e6, a lane is taken for a point mass at its mean.
 */
#include "score/count_sums.h"

#include "score/count_int.h"

#include <math.h>
#include <string.h>

enum { ENDS = 4 /* points on either side that differences reach */ };
static const double WHOLE = 512, B = 128;

/* What is summed over. Lane j has its mass in from[j] .. to[j]. */
typedef struct {
  const ScoreCase *c;
  double *from, *to;
  double lo, hi;            /* of all lanes that count */
  double whole, top;        /* outcomes lo .. top < whole one by one */
  size_t far;               /* and so many points */
  double *k, *step, *p, *F; /* from ENDS points before them to as many behind */
} Sweep;

/* ---- where the mass is ----------------------------------------------------------------------- */

/* A lane counts, if what it adds to sum (1 - F)^2 does: the others, together, add less than 1e-18
 * times the number of lanes squared. */
static bool counts(const Mixture *q, size_t j, double hi) {
  double w = mixture_weight(q, j) * (double)q->M;
  return w * w * hi > 1e-18;
}

static double spread_apart(double x, double *slope) {
  double z = fmax(x / B, 0), z2 = z * z, z8 = z2 * z2 * z2 * z2, one = 1 + z8;
  *slope = 1 + z8 * z * (10 + 2 * z8) / (one * one);
  return x + B * z8 * z2 / one;
}

/* The points from `whole` on that it takes to pass hi, or all there are. */
static size_t points_to(double whole, double hi) {
  size_t lo = 1, up = COUNT_FAR;
  double slope;
  while (lo < up) {
    size_t mid = (lo + up) / 2;
    if (whole + spread_apart((double)mid, &slope) > hi)
      up = mid;
    else
      lo = mid + 1;
  }
  return lo;
}

static void place_points(Sweep *s) {
  size_t room = COUNT_FAR + 2 * ENDS;
  s->k = mixture_space(s->c) + ENDS;
  s->step = s->k + room;
  s->p = s->step + room;
  s->F = s->p + room;
  for (ptrdiff_t i = -ENDS; i < (ptrdiff_t)s->far + ENDS; i++)
    s->k[i] = s->whole + spread_apart((double)i, &s->step[i]);
}

static Sweep sweep_over(const ScoreCase *c) {
  size_t row = score_padded(c->q.M);
  Sweep s = {.c = c, .from = c->scratch, .to = c->scratch + row, .lo = (double)INFINITY};
  for (size_t j = 0; j < c->q.M; j++) {
    Count lane = count_lane(&c->q, j);
    Range r = count_range(&lane);
    s.from[j] = r.lo;
    s.to[j] = r.hi;
    s.lo = fmin(s.lo, r.lo);
    if (!(r.hi <= s.hi) && (isnan(r.hi) || counts(&c->q, j, r.hi))) s.hi = r.hi;
  }
  s.whole = kind_code(c->q.kind)->count->bounded ? (double)INFINITY : fmax(WHOLE, c->y + 1);
  s.lo = fmin(s.lo, s.whole);
  s.top = fmin(s.hi, s.whole - 1);
  s.far = s.hi > s.top ? points_to(s.whole, s.hi) : 0;
  if (s.far) place_points(&s);
  return s;
}

/* ---- one by one ------------------------------------------------------------------------------ */

/* The next outcomes from k on that have mass: where they begin; *n of them, at most PMF_BLOCK. */
static double next_block(const Sweep *s, double k, size_t *n) {
  double next = s->top + 1;
  for (size_t j = 0; j < s->c->q.M; j++)
    if (s->to[j] >= k) next = fmin(next, fmax(s->from[j], k));
  *n = (size_t)fmin(s->top - next + 1, PMF_BLOCK);
  return next;
}

/* The part of k .. k + n - 1 where lane j has mass. */
static bool lane_part(const Sweep *s, size_t j, double k, size_t n, size_t *from, size_t *end) {
  double lo = fmax(s->from[j] - k, 0), hi = fmin(s->to[j] - k + 1, (double)n);
  if (!(hi > lo)) return false;
  *from = (size_t)lo;
  *end = (size_t)hi;
  return true;
}

/* Nodes far out have weights that no digit of a probability shows: all of them together less than
 * 1e-20 times their number. Their derivatives are another matter. */
static const double NO_WEIGHT = 1e-20;

static void block_pmf(const Sweep *s, double k, size_t n, double *p) {
  double one[PMF_BLOCK];
  size_t from, end;
  memset(p, 0, n * sizeof *p);
  for (size_t j = 0; j < s->c->q.M; j++) {
    double w = mixture_weight(&s->c->q, j);
    if (w < NO_WEIGHT || !lane_part(s, j, k, n, &from, &end)) continue;
    Count lane = count_lane(&s->c->q, j);
    count_block(&lane, k + (double)from, end - from, one);
    for (size_t i = from; i < end; i++) p[i] += w * one[i - from];
  }
}

static void block_adjoint(const Sweep *s, double k, size_t n, const double *g,
                          const ScoreAdjoint *adj) {
  double one[PMF_BLOCK];
  size_t from, end;
  for (size_t j = 0; j < s->c->q.M; j++) {
    if (!lane_part(s, j, k, n, &from, &end)) continue;
    Count lane = count_lane(&s->c->q, j);
    CountSums sum = {0};
    count_block(&lane, k + (double)from, end - from, one);
    double d = adj->par[1] ? count_by_size(&lane, k + (double)from) : 0,
           all = lane.mean + lane.size;
    for (size_t i = from; i < end; i++) {
      double at = k + (double)i, gp = g[i] * one[i - from];
      sum.p += gp;
      sum.moment += gp * (at - lane.mean);
      if (adj->par[1]) sum.by_size += gp * d, d += 1 / (at + lane.size) - 1 / all;
    }
    count_add_sums(&s->c->q, j, &lane, &sum, adj);
  }
}

/* ---- points that grow apart ------------------------------------------------------------------ */

/* The points where lane j has mass, from *first to before *end. */
static bool lane_points(const Sweep *s, size_t j, ptrdiff_t *first, ptrdiff_t *end) {
  ptrdiff_t most = (ptrdiff_t)s->far + ENDS;
  if (!(s->to[j] >= s->k[-ENDS] && s->from[j] <= s->k[most - 1])) return false;
  *first = -ENDS;
  *end = most;
  for (ptrdiff_t up = most - 1; *first < up;) { /* the first with k >= from */
    ptrdiff_t mid = *first + (up - *first) / 2;
    if (s->k[mid] < s->from[j])
      *first = mid + 1;
    else
      up = mid;
  }
  for (ptrdiff_t lo = *first; lo < *end;) { /* the first with k > to */
    ptrdiff_t mid = lo + (*end - lo) / 2;
    if (s->k[mid] <= s->to[j])
      lo = mid + 1;
    else
      *end = mid;
  }
  return true;
}

static void points_pmf(Sweep *s) {
  ptrdiff_t first, end;
  memset(s->p - ENDS, 0, (s->far + 2 * ENDS) * sizeof *s->p);
  for (size_t j = 0; j < s->c->q.M; j++) {
    if (!lane_points(s, j, &first, &end)) continue;
    Count lane = count_lane(&s->c->q, j);
    double w = mixture_weight(&s->c->q, j);
    for (ptrdiff_t i = first; i < end; i++) s->p[i] += w * lane.kind->pmf(&lane, s->k[i]);
  }
}

/* g: d S / d p at the points */
static void points_adjoint(const Sweep *s, const double *g, const ScoreAdjoint *adj) {
  ptrdiff_t first, end;
  for (size_t j = 0; j < s->c->q.M; j++) {
    if (!lane_points(s, j, &first, &end)) continue;
    Count lane = count_lane(&s->c->q, j);
    CountSums sum = {0};
    for (ptrdiff_t i = first; i < end; i++) {
      double gp = g[i] * lane.kind->pmf(&lane, s->k[i]);
      sum.p += gp;
      sum.moment += gp * (s->k[i] - lane.mean);
      if (adj->par[1]) sum.by_size += gp * count_by_size(&lane, s->k[i]);
    }
    count_add_sums(&s->c->q, j, &lane, &sum, adj);
  }
}

/* Odd differences of a row, sum_e c_e (x_{i + e} - x_{i - e}): Gauss's corrections of a sum that is
 * to be an integral, mu delta / 12 - 11 mu delta^3 / 720 + 191 mu delta^5 / 60480 - 2497 mu delta^7
 * / 3628800; the first and the third derivative. */
static const double gauss[] = {1.0 / 24 + 11.0 / 720 + 2.5 * 191 / 60480 + 7.0 * 2497 / 3628800,
                               -11.0 / 1440 - 2.0 * 191 / 60480 - 7.0 * 2497 / 3628800,
                               191.0 / 120960 + 3.0 * 2497 / 3628800, -2497.0 / 7257600};
static const double first[] = {0.75, -0.15, 1.0 / 60, 0}, third[] = {-1.625, 1, -0.125, 0};

/* From the integral up to k it is p / 2 + p' / 12 - p''' / 720 to the sum over whole numbers up to
 * k: the share of the neighbour e points away in that, at a point. */
static double share(double step, ptrdiff_t e) {
  return first[e - 1] / (12 * step) - third[e - 1] / (720 * step * step * step);
}

/* F(k_i): with m = T' p, the integral is the sum of the m before i and half of m_i, corrected. */
static void points_cdf(const Sweep *s, double before) {
  const double *p = s->p, *step = s->step;
  for (ptrdiff_t i = 0; i < (ptrdiff_t)s->far; i++) {
    double m = step[i] * p[i], F = before + 0.5 * (m + p[i]);
    for (ptrdiff_t e = 1; e <= ENDS; e++)
      F += share(step[i], e) * (p[i + e] - p[i - e]) -
           gauss[e - 1] * (step[i + e] * p[i + e] - step[i - e] * p[i - e]);
    s->F[i] = F;
    before += m;
  }
}

/* What point i gave to the value at point `to`, e points away, sign being that of e. */
static void take_back(const Sweep *s, ptrdiff_t to, ptrdiff_t e, double sign, double *m,
                      double *p) {
  if (to < 0 || to >= (ptrdiff_t)s->far) return;
  *m -= sign * gauss[e - 1] * s->F[to];
  *p += sign * share(s->step[to], e) * s->F[to];
}

/* The transpose: from d S / d F at the points, in F, to d S / d p in p; returns that by what was
 * before. */
static double points_cdf_adjoint(Sweep *s) {
  ptrdiff_t n = (ptrdiff_t)s->far;
  double later = 0;
  for (ptrdiff_t i = n + ENDS; i-- > -ENDS;) {
    double own = i >= 0 && i < n ? s->F[i] : 0, m = 0.5 * own + (i < 0 ? 0 : later), p = 0.5 * own;
    for (ptrdiff_t e = 1; e <= ENDS; e++) {
      take_back(s, i - e, e, 1, &m, &p);
      take_back(s, i + e, e, -1, &m, &p);
    }
    s->p[i] = s->step[i] * m + p;
    later += own;
  }
  return later;
}

/* ---- lanes beyond all points ----------------------------------------------------------------- */

/* sum (1 - F)^2 over k > end of point masses: sum_jl w_j w_l (min(m_j, m_l) - end). */
static double beyond(const Sweep *s, const ScoreAdjoint *adj) {
  const Mixture *q = &s->c->q;
  double end = s->far == COUNT_FAR ? s->k[s->far - 1] : (double)INFINITY, sum = 0;
  for (size_t j = 0; j < q->M && s->hi > end; j++) {
    double above = 0, all = 0, w = mixture_weight(q, j), mean = q->par[0][j];
    if (!(mean > end)) continue;
    for (size_t i = 0; i < q->M; i++) {
      double other = q->par[0][i], wi = mixture_weight(q, i);
      if (!(other > end)) continue;
      above += other > mean ? 2 * wi : other == mean ? wi : 0;
      all += wi * (fmin(mean, other) - end);
    }
    sum += w * all;
    if (adj && adj->par[0]) adj->par[0][j] -= w * above;
    if (adj && adj->weights) adj->weights[j] -= 2 * all;
  }
  return sum;
}

/* ---- the CRPS -------------------------------------------------------------------------------- */

/* The sum of (F - 1{y <= k})^2 and of its slopes 2 (F - 1{y <= k}), so far. */
typedef struct {
  double F, value, slopes;
} Running;

/* k .. next - 1, where F does not change */
static void add_gap(const ScoreCase *c, double k, double next, Running *r) {
  double below = fmin(fmax(c->y - k, 0), next - k), above = next - k - below, left = 1 - r->F;
  r->value += below * r->F * r->F + above * left * left;
  r->slopes += 2 * (below * r->F - above * left);
}

static void sum_whole(const Sweep *s, Running *r) {
  double p[PMF_BLOCK];
  size_t n;
  for (double k = s->lo; k <= s->top; k += (double)n) {
    double next = next_block(s, k, &n);
    add_gap(s->c, k, next, r);
    k = next;
    block_pmf(s, k, n, p);
    for (size_t i = 0; i < n; i++) {
      r->F += p[i];
      double e = r->F - (s->c->y <= k + (double)i);
      r->value += e * e;
      r->slopes += 2 * e;
    }
  }
}

/* d CRPS = sum_k 2 (F(k) - 1{y <= k}) dF(k) = sum_k G(k) dp(k), G(k) = the sum of the slopes from k
 * on. */
static void whole_adjoint(const Sweep *s, double slopes, const ScoreAdjoint *adj) {
  double p[PMF_BLOCK], g[PMF_BLOCK];
  Running r = {0};
  size_t n;
  for (double k = s->lo; k <= s->top; k += (double)n) {
    double next = next_block(s, k, &n);
    add_gap(s->c, k, next, &r);
    k = next;
    block_pmf(s, k, n, p);
    for (size_t i = 0; i < n; i++) {
      g[i] = r.slopes - slopes;
      r.F += p[i];
      r.slopes += 2 * (r.F - (s->c->y <= k + (double)i));
    }
    block_adjoint(s, k, n, g, adj);
  }
}

static bool wanted(const ScoreAdjoint *adj) { return adj->par[0] || adj->par[1] || adj->weights; }

/* The points, y being below them: sum T' (1 - F)^2; in F and p then what the adjoint needs. */
static void sum_points(Sweep *s, Running *r, bool derivatives) {
  points_pmf(s);
  points_cdf(s, r->F);
  for (size_t i = 0; i < s->far; i++) {
    double left = 1 - s->F[i];
    r->value += s->step[i] * left * left;
    s->F[i] = 2 * s->step[i] * left;
  }
  if (!derivatives) return;
  r->slopes -= points_cdf_adjoint(s);
}

/* An outcome outside the support adds its distance: F is 0 or 1 on the way. */
double count_crps(const ScoreCase *c, const ScoreAdjoint *adj) {
  Sweep s = sweep_over(c);
  Running r = {0};
  bool derivatives = wanted(adj);
  if (!(s.hi < 1e300)) return isnan(s.hi) ? (double)NAN : -(double)INFINITY;
  sum_whole(&s, &r);
  if (s.far) sum_points(&s, &r, derivatives);
  if (derivatives) whole_adjoint(&s, r.slopes, adj);
  if (derivatives && s.far) points_adjoint(&s, s.p, adj);
  double distance = fmax(0, s.lo - c->y) + fmax(0, c->y - 1 - s.hi);
  return -(r.value + distance + (s.far ? beyond(&s, derivatives ? adj : NULL) : 0));
}

/* ---- the quadratic score --------------------------------------------------------------------- */

double count_quadratic(const ScoreCase *c, const ScoreAdjoint *adj) {
  Sweep s = sweep_over(c);
  double value = 0, p[PMF_BLOCK];
  bool derivatives = wanted(adj);
  size_t n;
  if (!(s.hi < 1e300)) return (double)NAN;
  for (double k = s.lo; k <= s.top; k += (double)n) {
    k = next_block(&s, k, &n);
    block_pmf(&s, k, n, p);
    for (size_t i = 0; i < n; i++) {
      bool here = c->y == k + (double)i;
      value += p[i] * (2 * here - p[i]);
      p[i] = 2 * (here - p[i]);
    }
    if (derivatives && n) block_adjoint(&s, k, n, p, adj);
  }
  if (!s.far) return value;
  points_pmf(&s);
  for (ptrdiff_t i = -ENDS; i < (ptrdiff_t)s.far + ENDS; i++) {
    bool inside = i >= 0 && i < (ptrdiff_t)s.far;
    if (inside) value -= s.step[i] * s.p[i] * s.p[i];
    s.p[i] *= inside ? -2 * s.step[i] : 0;
  }
  if (derivatives) points_adjoint(&s, s.p, adj);
  return value;
}
