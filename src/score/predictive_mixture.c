/* predictive_mixture.c: the lanes put together: F(t) = sum_j w_j F_j(t) and what follows from it.
 * Sections: rows, normal kinds, cdf, axes, moments, quantiles, discrete kinds.
 *
 * The normal kind (and the lognormal, which is normal in log t) goes over all lanes at once through
 * the kernels, at the width of the machine; other kinds go lane by lane through their KindCode.
 * Numbers in the padding of a row may be anything until the end: sums run over M lanes, and
 * adjoints are written for j < M only, after score_clear. */
#include "score/predictive_mixture.h"

#include "num/special.h"

#include <math.h>
#include <string.h>

/* ---- rows ------------------------------------------------------------------------------------ */

static double *row_of(const ScoreCase *c, int k) {
  return c->scratch + (size_t)k * score_padded(c->q.M);
}
double *mixture_space(const ScoreCase *c) { return row_of(c, MIXTURE_ROWS); }

static void zero(double *row, size_t n) {
  if (row) memset(row, 0, n * sizeof *row);
}

void score_clear(const ScoreCase *c, const ScoreAdjoint *adj) {
  size_t n = score_padded(c->q.M), rows = kind_rows(c->q.kind, c->q.size);
  zero(adj->ll, n);
  zero(adj->weights, n);
  zero(adj->sim, c->nsim * (c->dim ? c->dim : 1));
  for (int k = 0; k < KIND_PARAMETERS; k++)
    for (size_t r = 0; adj->par[k] && r < (k == 0 ? rows : 1); r++)
      zero(adj->par[k] + r * c->q.ld, n);
}

double mixture_mean(const ScoreCase *c, const double *row) {
  size_t M = c->q.M;
  return c->q.weights ? c->k->dot(c->q.weights, row, M) : c->k->sum(row, M) / (double)M;
}

void mixture_lane(const Mixture *q, size_t j, double par[KIND_PARAMETERS]) {
  int n = kind_parameters(q->kind);
  for (int k = 0; k < n; k++) par[k] = q->par[k][j];
}

/* out = op(a) or op(a, b) over the lanes; `one` is the same number for all. */
static void map(const ScoreCase *c, IrOp op, double *out, const double *a, const double *b) {
  c->k->forward[op](out, (const double *const[]){a, b}, (size_t[]){1, 1}, score_padded(c->q.M));
}
static void map_one(const ScoreCase *c, IrOp op, double *out, double one, const double *b) {
  double copies[LANES];
  for (int k = 0; k < LANES; k++) copies[k] = one;
  c->k->forward[op](out, (const double *const[]){copies, b}, (size_t[]){0, 1},
                    score_padded(c->q.M));
}

/* ---- normal kinds: all lanes at once --------------------------------------------------------- */

enum { ROW_Z, ROW_R, ROW_INVERSE, ROW_LOCATION, ROW_SCALE }; /* the rows of MIXTURE_ROWS */

static Normality normality(const ScoreCase *c) { return kind_code(c->q.kind)->normal; }

/* Where t is in u, the coordinate in which the kind is normal; false when no lane has mass at or
 * below t. */
static bool normal_place(const ScoreCase *c, double t, double *u) {
  bool logs = normality(c) == NORMAL_LOG;
  if (logs && !(t > 0)) return false;
  *u = logs ? log(t) : t;
  return true;
}

/* z[j] = (u - mu_j) / s_j, given 1 / s_j; within +-30, away from subnormal numbers, which are slow.
 */
static double *normal_z(const ScoreCase *c, double u) {
  double *z = row_of(c, ROW_Z);
  map_one(c, IR_SUB, z, u, c->q.par[0]);
  map(c, IR_MUL, z, z, row_of(c, ROW_INVERSE));
  map_one(c, IR_FMIN, z, 30, z);
  map_one(c, IR_FMAX, z, -30, z);
  return z;
}

/* exp(-z[j]^2 / 2) */
static double *normal_exp(const ScoreCase *c, const double *z) {
  double *e = row_of(c, ROW_R);
  map(c, IR_SQUARE, e, z, NULL);
  map_one(c, IR_MUL, e, -0.5, e);
  map(c, IR_EXP, e, e, NULL);
  return e;
}

static NormalRow normal_row(const ScoreCase *c) {
  return (NormalRow){c->q.par[0], row_of(c, ROW_INVERSE), c->q.weights, c->q.M};
}

static double normal_cdf(const ScoreCase *c, double t, double *pdf) {
  double u;
  if (pdf) *pdf = 0;
  if (!normal_place(c, t, &u)) return 0;
  NormalRow q = normal_row(c);
  double f, slope, F = c->k->normal_cdf(&q, u, pdf ? &f : NULL, &slope);
  if (pdf) *pdf = f / (normality(c) == NORMAL_LOG ? t : 1);
  return F;
}

/* d F_j / d (mu_j, s_j) = -phi(z) (1, z) / s_j: sums over the points of g phi (1, z), times w_j /
 * s_j at the end. */
static void normal_adjoint(const ScoreCase *c, size_t n, const double *t, const double *g,
                           const ScoreAdjoint *adj) {
  const Mixture *q = &c->q;
  size_t M = q->M, padded = score_padded(M);
  if (n == 1 && !adj->weights) {
    double at;
    NormalRow row = normal_row(c);
    if (normal_place(c, t[0], &at))
      c->k->normal_cdf_adjoint(&row, at, g[0], adj->par[0], adj->par[1]);
    return;
  }
  double *location = row_of(c, ROW_LOCATION), *scale = row_of(c, ROW_SCALE),
         *inverse = row_of(c, ROW_INVERSE), u;
  zero(location, padded);
  zero(scale, padded);
  for (size_t k = 0; k < n; k++) {
    if (g[k] == 0 || !normal_place(c, t[k], &u)) continue;
    double *z = normal_z(c, u);
    if (adj->weights) {
      double *P = row_of(c, ROW_R);
      map(c, IR_PHI, P, z, NULL);
      for (size_t j = 0; j < M; j++) adj->weights[j] += g[k] * P[j];
    }
    double *e = normal_exp(c, z);
    c->k->axpy(location, g[k], e, padded);
    map(c, IR_MUL, z, z, e);
    c->k->axpy(scale, g[k], z, padded);
  }
  for (size_t j = 0; j < M; j++) {
    double f = -mixture_weight(q, j) * inverse[j] / SQRT_2PI;
    if (adj->par[0]) adj->par[0][j] += f * location[j];
    if (adj->par[1]) adj->par[1][j] += f * scale[j];
  }
}

/* ---- cdf and density ------------------------------------------------------------------------- */

static double lanes_cdf(const ScoreCase *c, double t, double *pdf) {
  const KindCode *p = kind_code(c->q.kind);
  double *F = row_of(c, 0), *f = row_of(c, 1), par[KIND_PARAMETERS];
  for (size_t j = 0; j < c->q.M; j++) {
    mixture_lane(&c->q, j, par);
    F[j] = p->cdf(par, t);
    if (pdf) f[j] = p->pdf(par, t);
  }
  if (pdf) *pdf = mixture_mean(c, f);
  return mixture_mean(c, F);
}

static void lanes_adjoint(const ScoreCase *c, double t, double g, const ScoreAdjoint *adj) {
  const KindCode *p = kind_code(c->q.kind);
  double par[KIND_PARAMETERS], d[KIND_PARAMETERS];
  unsigned want = 0;
  for (int k = 0; k < KIND_PARAMETERS; k++) want |= (unsigned)(adj->par[k] != NULL) << k;
  for (size_t j = 0; j < c->q.M; j++) {
    mixture_lane(&c->q, j, par);
    if (want) p->cdf_d(par, t, want, d);
    for (int k = 0; k < kind_parameters(c->q.kind); k++)
      if (adj->par[k]) adj->par[k][j] += g * mixture_weight(&c->q, j) * d[k];
    if (adj->weights) adj->weights[j] += g * p->cdf(par, t);
  }
}

void mixture_prepare(const ScoreCase *c) {
  if (normality(c)) map(c, IR_INV, row_of(c, ROW_INVERSE), c->q.par[1], NULL);
}

double mixture_cdf_pdf(const ScoreCase *c, double t, double *pdf) {
  return normality(c) ? normal_cdf(c, t, pdf) : lanes_cdf(c, t, pdf);
}

double mixture_cdf(const ScoreCase *c, double t) { return mixture_cdf_pdf(c, t, NULL); }

double mixture_tail(const ScoreCase *c, double t) {
  double u, *r = row_of(c, ROW_R);
  if (!normality(c)) return 1 - mixture_cdf(c, t);
  if (!normal_place(c, t, &u)) return 1;
  map_one(c, IR_MUL, r, -1, normal_z(c, u));
  map(c, IR_PHI, r, r, NULL);
  return mixture_mean(c, r);
}

void mixture_cdf_adjoint(const ScoreCase *c, size_t n, const double *t, const double *g,
                         const ScoreAdjoint *adj) {
  if (normality(c)) {
    normal_adjoint(c, n, t, g, adj);
    return;
  }
  for (size_t k = 0; k < n; k++)
    if (g[k] != 0) lanes_adjoint(c, t[k], g[k], adj);
}

/* ---- axes ------------------------------------------------------------------------------------ */

double axis_outcome(const Axis *a, double x, double *slope) {
  double e;
  switch (a->map) {
  case AXIS_SINH:
    e = x * (1 + a->g * x * x);
    *slope = a->s * cosh(e) * (1 + 3 * a->g * x * x);
    return a->c + a->s * sinh(e);
  case AXIS_EXP: return *slope = exp(x);
  case AXIS_LOGIT:
    e = num_inv_logit(x);
    *slope = e * num_inv_logit(-x);
    return e;
  default: *slope = 1; return x;
  }
}

/* x with x + g x^3 = v */
static double root_of_cubic(double v, double g) {
  double r = sqrt(3 * g);
  return g > 0 ? 2 / r * sinh(asinh(1.5 * r * v) / 3) : v;
}

double axis_place(const Axis *a, double t) {
  switch (a->map) {
  case AXIS_SINH: return root_of_cubic(asinh((t - a->c) / a->s), a->g);
  case AXIS_EXP: return log(t);
  case AXIS_LOGIT: return num_logit(t);
  default: return t;
  }
}

/* ---- moments --------------------------------------------------------------------------------- */

double mixture_moments(const ScoreCase *c, double *variance) {
  double *m = row_of(c, 0), *v = row_of(c, 1), par[KIND_PARAMETERS];
  for (size_t j = 0; j < c->q.M; j++) {
    mixture_lane(&c->q, j, par);
    Moments x = kind_code(c->q.kind)->moments(par, c->q.size);
    m[j] = x.mean;
    v[j] = x.variance;
  }
  double mean = mixture_mean(c, m);
  for (size_t j = 0; j < c->q.M; j++) v[j] += (m[j] - mean) * (m[j] - mean);
  *variance = mixture_mean(c, v);
  return mean;
}

/* ---- quantiles ------------------------------------------------------------------------------- */

/* Where the search for a quantile moves, starts, and what holds it: x in [lo, hi], infinite where
 * nothing is known. */
typedef struct {
  Axis axis;
  double lo, hi, start;
} Search;

/* Normal of the same mean and variance on the axis of the search; heavy tails by their locations
 * and scales. */
static Search quantile_start(const ScoreCase *c, double z) {
  const KindCode *kind = kind_code(c->q.kind);
  Search s = {.axis = {AXIS_PLAIN, 0, 1, 0}, .lo = (double)-INFINITY, .hi = (double)INFINITY};
  if (kind->normal || kind->domain == ON_HEAVY_LINE) {
    int at = kind->location;
    double mean = mixture_mean(c, c->q.par[at]), scale = mixture_mean(c, c->q.par[at + 1]);
    s.axis = kind->normal ? s.axis : (Axis){AXIS_SINH, mean, scale, 0};
    s.start = kind->normal ? mean + z * scale : z;
    return s;
  }
  double variance, mean = mixture_moments(c, &variance), sd = sqrt(variance);
  if (kind->domain == ON_UNIT) {
    s.axis.map = AXIS_LOGIT;
    s.start = num_logit(mean) + z * fmin(sd / (mean * (1 - mean)), 4);
  } else if (kind->domain == ON_POSITIVE) {
    double v = log1p(variance / (mean * mean));
    s.axis.map = AXIS_EXP;
    s.start = log(mean) - 0.5 * v + z * sqrt(v);
  } else {
    s.start = mean + z * sd;
  }
  return s;
}

/* Location-scale kinds: the quantile of the mixture lies among those of the lanes. z: the standard
 * normal quantile at p. */
static void quantile_bracket(const ScoreCase *c, double p, double z, Search *s) {
  const KindCode *kind = kind_code(c->q.kind);
  if (!kind->standard_quantile) return;
  double at = kind->normal ? z : kind->standard_quantile(p), lo = (double)INFINITY,
         hi = (double)-INFINITY;
  for (size_t j = 0; j < c->q.M; j++) {
    double q = c->q.par[0][j] + at * c->q.par[1][j];
    lo = q < lo ? q : lo;
    hi = q > hi ? q : hi;
  }
  s->lo = axis_place(&s->axis, lo);
  s->hi = axis_place(&s->axis, hi);
  s->start = fmin(fmax(s->start, s->lo), s->hi);
}

/* The next place when Newton's step leaves the bracket: its middle, or further out by twice as much
 * each time. */
static double fall_back(const Search *s, double x, bool up, int round) {
  if (isfinite(s->lo) && isfinite(s->hi)) return 0.5 * (s->lo + s->hi);
  double step = ldexp(1, round < 10 ? round : 10);
  return up ? fmin(x + step, s->hi) : fmax(x - step, s->lo);
}

/* The outcome at x of the search, and dt/dx: lognormal kinds are searched over log t. */
static double search_outcome(const ScoreCase *c, const Search *s, double x, double *slope) {
  double t = axis_outcome(&s->axis, x, slope);
  return normality(c) == NORMAL_LOG ? *slope = exp(t) : t;
}

/* A mixture of normals, over u = t or u = log t, from a place that is near: Halley's method, F and
 * two derivatives in one pass. A step of 1e-5 of the width leaves an error of its cube. False when
 * it does not settle. */
static bool normal_quantile(const ScoreCase *c, double p, const Search *s, double width,
                            double *x) {
  NormalRow q = normal_row(c);
  for (int round = 0; round < 8; round++) {
    double f, slope, F = c->k->normal_cdf(&q, *x, &f, &slope);
    double r = (F - p) / f, step = r / (1 - 0.5 * r * slope / f);
    if (!(fabs(step) <= 2 * width) || !(*x - step >= s->lo && *x - step <= s->hi)) return false;
    *x -= step;
    if (fabs(step) <= 1e-5 * width) return true;
  }
  return false;
}

static double continuous_quantile(const ScoreCase *c, double p, double *hint);

/* Where the cdf costs a continued fraction, the quantile of a few of many lanes is a start from
 * which few steps are left. */
static void start_by_few(const ScoreCase *c, double p, Search *s) {
  enum { FEW = 16 };
  ScoreCase few = *c;
  few.q.M = FEW;
  if (!kind_code(c->q.kind)->cells || c->q.weights || c->q.M < 4 * FEW) return;
  double x = axis_place(&s->axis, continuous_quantile(&few, p, NULL));
  if (x > s->lo && x < s->hi) s->start = x;
}

/* Newton on the probit scale, where a mixture's cdf is nearly straight: g(x) = inv_Phi(F(T(x))) -
 * inv_Phi(p), g' = f(T(x)) T'(x) / phi(inv_Phi(F)). Converges quadratically, so a step from |g| <
 * 1e-8 is the last one; and so is the cubic through two places whose product is small. */
typedef struct {
  double x, g, dx; /* a place, g there and dx/dg */
} Probe;

/* x where g is 0, by the cubic in g through two places: its error is of the order of both g
 * squared.
 */
static double inverse_cubic(const Probe *a, const Probe *b) {
  double h = b->g - a->g, t = -a->g / h, u = 1 - t;
  return u * u * (1 + 2 * t) * a->x + t * t * (1 + 2 * u) * b->x +
         t * u * h * (u * a->dx - t * b->dx);
}

/* From the search's start to where F is p; nan where F is. */
static double probit_search(const ScoreCase *c, double z, Search *s) {
  Probe last = {0, (double)INFINITY, 0};
  double x = s->start, slope, f;
  for (int round = 0; round < 200; round++) {
    double F = mixture_cdf_pdf(c, search_outcome(c, s, x, &slope), &f), at = num_inv_Phi(F);
    Probe here = {x, at - z, exp(-0.5 * at * at) / (SQRT_2PI * f * slope)};
    if (isnan(F)) return F;
    if (here.g == 0) break;
    *(here.g < 0 ? &s->lo : &s->hi) = x;
    bool near = fabs(here.g * last.g) < 1e-6 && fabs(here.g) < 0.1 * fabs(last.g);
    double next = near ? inverse_cubic(&last, &here) : x - here.g * here.dx;
    bool inside = next >= s->lo && next <= s->hi;
    if (!inside) next = fall_back(s, x, here.g < 0, round);
    bool done = (inside && (near || fabs(here.g) < 1e-8)) || fabs(next - x) <= 1e-16 * fabs(x);
    x = next;
    last = here;
    if (done) break;
  }
  return x;
}

static double continuous_quantile(const ScoreCase *c, double p, double *hint) {
  double z = num_inv_Phi(p), slope;
  Search s = quantile_start(c, z);
  quantile_bracket(c, p, z, &s);
  start_by_few(c, p, &s);
  if (hint && *hint != 0 && normality(c)) {
    double x = fmin(fmax(*hint, s.lo), s.hi);
    if (normal_quantile(c, p, &s, mixture_mean(c, c->q.par[1]), &x)) {
      *hint = x;
      return search_outcome(c, &s, x, &slope);
    }
  }
  double x = probit_search(c, z, &s);
  if (hint && !isnan(x)) *hint = x;
  return isnan(x) ? x : search_outcome(c, &s, x, &slope);
}

void mixture_quantile_adjoint(const ScoreCase *c, double Q, double g, const ScoreAdjoint *adj) {
  double f;
  if (kind_discrete(c->q.kind) || !(adj->par[0] || adj->par[1] || adj->par[2] || adj->weights))
    return;
  if (normality(c) == NORMAL_OUTCOME) {
    NormalRow q = normal_row(c);
    f = c->k->normal_pdf(&q, Q);
  } else {
    mixture_cdf_pdf(c, Q, &f);
  }
  if (f > 0) mixture_cdf_adjoint(c, 1, &Q, &(double){-g / f}, adj);
}

/* ---- discrete kinds -------------------------------------------------------------------------- */

void mixture_support(const ScoreCase *c, double *lo, double *hi) {
  kind_code(c->q.kind)->support(&c->q, lo, hi);
}

void mixture_pmf(const ScoreCase *c, double k, size_t n, double *p) {
  kind_code(c->q.kind)->pmf(c, k, n, p);
}

void mixture_pmf_adjoint(const ScoreCase *c, double k, size_t n, const double *g,
                         const ScoreAdjoint *adj) {
  kind_code(c->q.kind)->pmf_adjoint(c, k, n, g, adj);
}

/* The smallest k with P(Y <= k) >= p. */
static double discrete_quantile(const ScoreCase *c, double p) {
  double lo, hi, F = 0, at[PMF_BLOCK];
  mixture_support(c, &lo, &hi);
  for (double k = lo; k <= hi; k += PMF_BLOCK) {
    size_t n = (size_t)fmin(hi - k + 1, PMF_BLOCK);
    mixture_pmf(c, k, n, at);
    for (size_t i = 0; i < n; i++)
      if ((F += at[i]) >= p) return k + (double)i;
  }
  return hi;
}

double mixture_quantile(const ScoreCase *c, double p, double *hint) {
  return kind_discrete(c->q.kind) ? discrete_quantile(c, p) : continuous_quantile(c, p, hint);
}
