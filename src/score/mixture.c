/* mixture.c: the lanes put together: F(t) = sum_j w_j F_j(t) and what follows from it. Sections: rows, cdf, axes, quantiles,
 * moments, probabilities of discrete kinds.
 *
 * The normal kind (and the lognormal, which is normal in log t) goes over all lanes at once through the kernels; other kinds go
 * lane by lane through component.h. Numbers in the padding of a row may be anything until the end: sums run over M lanes, and
 * adjoints are written for j < M only, after score_clear. */
#include "score/mixture.h"

#include "num/simd.h"
#include "num/special.h"

#include <math.h>
#include <string.h>

#define SQRT_2PI 2.50662827463100050242

/* ---- rows ------------------------------------------------------------------------------------------------------------- */

static double *row_of(const ScoreCase *c, int k) { return c->scratch + (size_t)k * score_padded(c->q.M); }
double *mixture_space(const ScoreCase *c) { return row_of(c, MIXTURE_ROWS); }

static void zero(double *row, size_t n) {
  if (row) memset(row, 0, n * sizeof *row);
}

void score_clear(const ScoreCase *c, const ScoreAdjoint *adj) {
  size_t n = score_padded(c->q.M), rows = c->q.kind == KIND_CATEGORICAL ? c->q.size : 1;
  zero(adj->ll, n);
  zero(adj->weights, n);
  zero(adj->sim, c->nsim * (c->dim ? c->dim : 1));
  for (int k = 0; k < KIND_PARAMETERS; k++)
    for (size_t r = 0; adj->par[k] && r < (k == 0 ? rows : 1); r++) zero(adj->par[k] + r * c->q.ld, n);
}

double mixture_mean(const ScoreCase *c, const double *row) {
  size_t M = c->q.M;
  return c->q.weights ? c->k->dot(c->q.weights, row, M) : c->k->sum(row, M) / (double)M;
}

void mixture_lane(const Mixture *q, size_t j, double par[KIND_PARAMETERS]) {
  int n = kind_parameters(q->kind);
  for (int k = 0; k < n; k++) par[k] = q->par[k][j];
}

static void map(const ScoreCase *c, IrOp op, double *out, const double *in) {
  c->k->forward[op](out, &in, (size_t[]){1}, score_padded(c->q.M));
}

/* ---- cdf and density -------------------------------------------------------------------------------------------------- */

/* Kinds that are normal in u = t or u = log t; false when no lane has mass at or below t. */
static bool is_normal(Kind k) { return k == KIND_NORMAL || k == KIND_LOGNORMAL; }
static bool normal_place(Kind k, double t, double *u) {
  if (k == KIND_LOGNORMAL && !(t > 0)) return false;
  *u = k == KIND_LOGNORMAL ? log(t) : t;
  return true;
}

/* z[j] = (u - mu_j) / s_j */
static void normal_z(const ScoreCase *c, double u, double *z) {
  const double *mu = c->q.par[0], *s = c->q.par[1];
  for (size_t j = 0; j < score_padded(c->q.M); j += VL) v_store(z + j, (u - v_load(mu + j)) / v_load(s + j));
}

/* e[j] = exp(-z[j]^2 / 2) */
static void normal_exp(const ScoreCase *c, const double *z, double *e) {
  for (size_t j = 0; j < score_padded(c->q.M); j += VL) {
    vd x = v_load(z + j);
    v_store(e + j, -0.5 * x * x);
  }
  map(c, IR_EXP, e, e);
}

static double normal_cdf(const ScoreCase *c, double t, double *pdf) {
  double *z = row_of(c, 0), *r = row_of(c, 1), u;
  if (pdf) *pdf = 0;
  if (!normal_place(c->q.kind, t, &u)) return 0;
  normal_z(c, u, z);
  map(c, IR_PHI, r, z);
  double F = mixture_mean(c, r);
  if (!pdf) return F;
  normal_exp(c, z, r);
  for (size_t j = 0; j < score_padded(c->q.M); j += VL) v_store(r + j, v_load(r + j) / v_load(c->q.par[1] + j));
  *pdf = mixture_mean(c, r) / (SQRT_2PI * (c->q.kind == KIND_LOGNORMAL ? t : 1));
  return F;
}

double mixture_cdf_pdf(const ScoreCase *c, double t, double *pdf) {
  if (is_normal(c->q.kind)) return normal_cdf(c, t, pdf);
  const Component *p = component_of(c->q.kind);
  double *F = row_of(c, 0), *f = row_of(c, 1), par[KIND_PARAMETERS];
  for (size_t j = 0; j < c->q.M; j++) {
    mixture_lane(&c->q, j, par);
    F[j] = p->cdf(par, t);
    if (pdf) f[j] = p->pdf(par, t);
  }
  if (pdf) *pdf = mixture_mean(c, f);
  return mixture_mean(c, F);
}

double mixture_cdf(const ScoreCase *c, double t) { return mixture_cdf_pdf(c, t, NULL); }

/* out[j] += x[j] for the lanes there are: the padding keeps its zeros. */
static void add_lanes(const ScoreCase *c, double *out, const double *x) {
  size_t M = c->q.M, whole = M / VL * VL;
  for (size_t j = 0; j < whole; j += VL) v_store(out + j, v_load(out + j) + v_load(x + j));
  for (size_t j = whole; j < M; j++) out[j] += x[j];
}

/* d F_j / d (mu_j, s_j) = -phi(z) (1, z) / s_j */
static void normal_cdf_adjoint(const ScoreCase *c, double t, double g, const ScoreAdjoint *adj) {
  double *z = row_of(c, 0), *r = row_of(c, 1), u;
  if (!normal_place(c->q.kind, t, &u)) return;
  normal_z(c, u, z);
  if (adj->weights) {
    map(c, IR_PHI, r, z);
    for (size_t j = 0; j < c->q.M; j++) adj->weights[j] += g * r[j];
  }
  if (!adj->par[0] && !adj->par[1]) return;
  normal_exp(c, z, r);
  double each = -g / (SQRT_2PI * (c->q.weights ? 1 : (double)c->q.M));
  for (size_t j = 0; j < score_padded(c->q.M); j += VL) {
    vd x = each * v_load(r + j) / v_load(c->q.par[1] + j);
    if (c->q.weights) x *= v_load(c->q.weights + j);
    v_store(r + j, x);
    v_store(z + j, x * v_load(z + j));
  }
  if (adj->par[0]) add_lanes(c, adj->par[0], r);
  if (adj->par[1]) add_lanes(c, adj->par[1], z);
}

void mixture_cdf_adjoint(const ScoreCase *c, double t, double g, const ScoreAdjoint *adj) {
  if (g == 0) return;
  if (is_normal(c->q.kind)) {
    normal_cdf_adjoint(c, t, g, adj);
    return;
  }
  const Component *p = component_of(c->q.kind);
  double par[KIND_PARAMETERS], d[KIND_PARAMETERS];
  for (size_t j = 0; j < c->q.M; j++) {
    mixture_lane(&c->q, j, par);
    p->cdf_d(par, t, d);
    for (int k = 0; k < kind_parameters(c->q.kind); k++)
      if (adj->par[k]) adj->par[k][j] += g * mixture_weight(&c->q, j) * d[k];
    if (adj->weights) adj->weights[j] += g * p->cdf(par, t);
  }
}

/* ---- axes --------------------------------------------------------------------------------------------------------------- */

double axis_outcome(const Axis *a, double x, double *slope) {
  double e;
  switch (a->map) {
  case AXIS_SINH:
    *slope = a->s * cosh(x);
    return a->c + a->s * sinh(x);
  case AXIS_EXP: return *slope = exp(x);
  case AXIS_LOGIT:
    e = num_inv_logit(x);
    *slope = e * num_inv_logit(-x);
    return e;
  default:
    *slope = 1;
    return x;
  }
}

double axis_place(const Axis *a, double t) {
  switch (a->map) {
  case AXIS_SINH: return asinh((t - a->c) / a->s);
  case AXIS_EXP: return log(t);
  case AXIS_LOGIT: return num_logit(t);
  default: return t;
  }
}

/* ---- moments -------------------------------------------------------------------------------------------------------------- */

double mixture_moments(const ScoreCase *c, double *variance) {
  double *m = row_of(c, 0), *v = row_of(c, 1), par[KIND_PARAMETERS];
  for (size_t j = 0; j < c->q.M; j++) {
    mixture_lane(&c->q, j, par);
    Moments x = component_moments(c->q.kind, c->q.size, par);
    m[j] = x.mean;
    v[j] = x.variance;
  }
  double mean = mixture_mean(c, m);
  for (size_t j = 0; j < c->q.M; j++) v[j] += (m[j] - mean) * (m[j] - mean);
  *variance = mixture_mean(c, v);
  return mean;
}

/* ---- quantiles ------------------------------------------------------------------------------------------------------------ */

/* Where the search for a quantile moves, starts, and what holds it: x in [lo, hi], infinite where nothing is known. */
typedef struct {
  Axis axis;
  double lo, hi, start;
} Search;

/* Normal of the same mean and variance on the axis of the search; heavy tails by their locations and scales. */
static Search quantile_start(const ScoreCase *c, double z) {
  Kind kind = c->q.kind;
  Search s = {.axis = {AXIS_PLAIN, 0, 1}, .lo = (double)-INFINITY, .hi = (double)INFINITY};
  if (kind == KIND_STUDENT_T || kind == KIND_CAUCHY || is_normal(kind)) {
    int at = kind == KIND_STUDENT_T;
    double mean = mixture_mean(c, c->q.par[at]), scale = mixture_mean(c, c->q.par[at + 1]);
    s.axis = is_normal(kind) ? s.axis : (Axis){AXIS_SINH, mean, scale};
    s.start = is_normal(kind) ? mean + z * scale : z;
    return s;
  }
  double variance, mean = mixture_moments(c, &variance), sd = sqrt(variance);
  if (kind == KIND_BETA) {
    s.axis.map = AXIS_LOGIT;
    s.start = num_logit(mean) + z * fmin(sd / (mean * (1 - mean)), 4);
  } else if (kind == KIND_GAMMA || kind == KIND_EXPONENTIAL) {
    double v = log1p(variance / (mean * mean));
    s.axis.map = AXIS_EXP;
    s.start = log(mean) - 0.5 * v + z * sqrt(v);
  } else {
    s.start = mean + z * sd;
  }
  return s;
}

/* Location-scale kinds: the quantile of the mixture lies among those of the lanes. */
static void quantile_bracket(const ScoreCase *c, double p, Search *s) {
  Kind kind = c->q.kind == KIND_LOGNORMAL ? KIND_NORMAL : c->q.kind;
  double (*standard)(double) = component_of(kind)->standard_quantile;
  if (!standard) return;
  double z = standard(p), lo = (double)INFINITY, hi = (double)-INFINITY;
  for (size_t j = 0; j < c->q.M; j++) {
    double q = c->q.par[0][j] + z * c->q.par[1][j];
    lo = q < lo ? q : lo;
    hi = q > hi ? q : hi;
  }
  s->lo = axis_place(&s->axis, lo);
  s->hi = axis_place(&s->axis, hi);
  s->start = fmin(fmax(s->start, s->lo), s->hi);
}

/* The next place when Newton's step leaves the bracket: its middle, or further out by twice as much each time. */
static double fall_back(const Search *s, double x, bool up, int round) {
  if (isfinite(s->lo) && isfinite(s->hi)) return 0.5 * (s->lo + s->hi);
  double step = ldexp(1, round < 10 ? round : 10);
  return up ? fmin(x + step, s->hi) : fmax(x - step, s->lo);
}

/* Newton on the probit scale, where a mixture's cdf is nearly straight: g(x) = inv_Phi(F(T(x))) - inv_Phi(p),
 * g' = f(T(x)) T'(x) / phi(inv_Phi(F)). Converges quadratically, so a step from |g| < 1e-8 is the last one. */
static double continuous_quantile(const ScoreCase *c, double p) {
  double z = num_inv_Phi(p);
  Search s = quantile_start(c, z);
  quantile_bracket(c, p, &s);
  bool in_log = c->q.kind == KIND_LOGNORMAL; /* the search itself runs over log t */
  double x = s.start;
  for (int round = 0; round < 200; round++) {
    double f, slope, t = axis_outcome(&s.axis, x, &slope);
    if (in_log) slope = t = exp(t);
    double F = mixture_cdf_pdf(c, t, &f), at = num_inv_Phi(F), g = at - z;
    if (g == 0 || isnan(F)) return isnan(F) ? F : t;
    if (g < 0)
      s.lo = x;
    else
      s.hi = x;
    double next = x - g * exp(-0.5 * at * at) / (SQRT_2PI * f * slope);
    bool inside = next >= s.lo && next <= s.hi;
    if (!inside) next = fall_back(&s, x, g < 0, round);
    if ((inside && fabs(g) < 1e-8) || fabs(next - x) <= 1e-16 * fabs(x)) {
      t = axis_outcome(&s.axis, next, &slope);
      return in_log ? exp(t) : t;
    }
    x = next;
  }
  return axis_outcome(&s.axis, x, &z);
}

void mixture_quantile_adjoint(const ScoreCase *c, double Q, double g, const ScoreAdjoint *adj) {
  double f;
  if (kind_discrete(c->q.kind) || !(adj->par[0] || adj->par[1] || adj->par[2] || adj->weights)) return;
  mixture_cdf_pdf(c, Q, &f);
  if (f > 0) mixture_cdf_adjoint(c, Q, -g / f, adj);
}

/* ---- discrete kinds ---------------------------------------------------------------------------------------------------------- */

void mixture_support(const ScoreCase *c, double *lo, double *hi) {
  const Mixture *q = &c->q;
  *lo = q->kind == KIND_CATEGORICAL ? 1 : 0;
  *hi = q->kind == KIND_CATEGORICAL ? (double)q->size : 1;
  if (q->kind == KIND_CATEGORICAL || q->kind == KIND_BERNOULLI) return;
  *lo = (double)INFINITY;
  *hi = 0;
  for (size_t j = 0; j < q->M; j++) {
    double par[KIND_PARAMETERS], a, b;
    mixture_lane(q, j, par);
    Count n = count_make(q->kind, q->size, par);
    count_range(&n, 34.5, &a, &b);
    *lo = fmin(*lo, a);
    *hi = fmax(*hi, b);
  }
}

/* The probabilities of one lane at k .. k + n - 1 by recursion from their largest, which is next to the mode. Returns where the
 * ones that matter begin; *end: where they end. */
static size_t count_block(const Count *c, double k, size_t n, double *p, size_t *end) {
  double negligible = fmin(1e-22, 1e-22 / c->slope); /* neither p nor its derivative counts */
  double top = fmin(fmax(count_mode(c), k), k + (double)(n - 1));
  size_t i = (size_t)(top - k), from = i;
  *end = i;
  p[i] = count_pmf(c, top);
  if (!(p[i] > negligible)) return i;
  for (; from > 0 && p[from] > negligible; from--) {
    double m = k + (double)from - 1;
    p[from - 1] = p[from] * (m + 1) / (c->a + c->b * m);
  }
  for (*end = i + 1; *end < n && p[*end - 1] > negligible; ++*end) {
    double m = k + (double)*end - 1;
    p[*end] = p[*end - 1] * fmax(c->a + c->b * m, 0) / (m + 1);
  }
  return from;
}

static void count_pmf_rows(const ScoreCase *c, double k, size_t n, double *p) {
  double one[PMF_BLOCK], par[KIND_PARAMETERS];
  memset(p, 0, n * sizeof *p);
  for (size_t j = 0; j < c->q.M; j++) {
    mixture_lane(&c->q, j, par);
    Count count = count_make(c->q.kind, c->q.size, par);
    double w = mixture_weight(&c->q, j);
    size_t end, i = count_block(&count, k, n, one, &end);
    for (; i < end; i++) p[i] += w * one[i];
  }
}

static void count_pmf_adjoint_rows(const ScoreCase *c, double k, size_t n, const double *g, const ScoreAdjoint *adj) {
  double one[PMF_BLOCK], par[KIND_PARAMETERS];
  for (size_t j = 0; j < c->q.M; j++) {
    mixture_lane(&c->q, j, par);
    Count count = count_make(c->q.kind, c->q.size, par);
    double w = mixture_weight(&c->q, j), s0 = 0, s1 = 0, s2 = 0;
    size_t end, i = count_block(&count, k, n, one, &end);
    double d = adj->par[1] && i < end ? count_log_pmf_dsize(&count, k + (double)i) : 0, all = count.mean + count.size;
    for (; i < end; i++) {
      double at = k + (double)i, gp = g[i] * one[i];
      s0 += gp;
      s1 += gp * (at - count.mean);
      if (adj->par[1]) s2 += gp * d, d += 1 / (at + count.size) - 1 / all;
    }
    if (adj->par[0]) adj->par[0][j] += w * count.slope * s1;
    if (adj->par[1]) adj->par[1][j] += w * s2;
    if (adj->weights) adj->weights[j] += s0;
  }
}

/* Category k is row k - 1 of par[0]. */
static const double *category(const Mixture *q, double k) { return q->par[0] + (size_t)(k - 1) * q->ld; }

static void categorical_adjoint(const ScoreCase *c, double k, double g, const ScoreAdjoint *adj) {
  const Mixture *q = &c->q;
  double *out = adj->par[0] ? adj->par[0] + (size_t)(k - 1) * q->ld : NULL;
  for (size_t j = 0; out && j < q->M; j++) out[j] += g * mixture_weight(q, j);
  for (size_t j = 0; adj->weights && j < q->M; j++) adj->weights[j] += g * category(q, k)[j];
}

void mixture_pmf(const ScoreCase *c, double k, size_t n, double *p) {
  if (c->q.kind == KIND_BERNOULLI) {
    double one = mixture_mean(c, c->q.par[0]);
    for (size_t i = 0; i < n; i++) p[i] = k + (double)i == 1 ? one : k + (double)i == 0 ? 1 - one : 0;
  } else if (c->q.kind == KIND_CATEGORICAL) {
    for (size_t i = 0; i < n; i++) p[i] = mixture_mean(c, category(&c->q, k + (double)i));
  } else {
    count_pmf_rows(c, k, n, p);
  }
}

static void bernoulli_adjoint(const ScoreCase *c, double g0, double g1, const ScoreAdjoint *adj) {
  const double *p = c->q.par[0];
  for (size_t j = 0; adj->par[0] && j < c->q.M; j++) adj->par[0][j] += (g1 - g0) * mixture_weight(&c->q, j);
  for (size_t j = 0; adj->weights && j < c->q.M; j++) adj->weights[j] += g0 * (1 - p[j]) + g1 * p[j];
}

void mixture_pmf_adjoint(const ScoreCase *c, double k, size_t n, const double *g, const ScoreAdjoint *adj) {
  if (c->q.kind == KIND_BERNOULLI) {
    double by[2] = {0, 0};
    for (size_t i = 0; i < n; i++)
      if (k + (double)i == 0 || k + (double)i == 1) by[k + (double)i == 1] = g[i];
    bernoulli_adjoint(c, by[0], by[1], adj);
  } else if (c->q.kind == KIND_CATEGORICAL) {
    for (size_t i = 0; i < n; i++) categorical_adjoint(c, k + (double)i, g[i], adj);
  } else {
    count_pmf_adjoint_rows(c, k, n, g, adj);
  }
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

double mixture_quantile(const ScoreCase *c, double p) {
  return kind_discrete(c->q.kind) ? discrete_quantile(c, p) : continuous_quantile(c, p);
}
