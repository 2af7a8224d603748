/* embedding.c: units, features, and the least squares that make a summary of them. */
#include "infer/embedding.h"

#include "num/linalg.h"
#include "num/stats.h"

#include <math.h>
#include <string.h>

enum {
  FUNCTIONS = 4,      /* of one number of an outcome */
  MOST_PRODUCTS = 12, /* covariates of which products are taken */
  MOST_COVARIATES = 60,
  MOST_TOGETHER = 8, /* numbers of an outcome of which products are taken */
  FEW = 64,          /* numbers of a data set that are features themselves */
  MOST_SQUARES = 8,  /* elements of theta of which all products are predicted */
  UNIT_VALUES = 20000
};
static const double FAR = 10; /* standard deviations beyond which a feature says no more */

struct Embedding {
  size_t n, width, functions, multipliers, features;
  bool each;                 /* outcomes are features themselves */
  double *centre, *scale;    /* width: units of the outcome's numbers */
  double *x;                 /* [n x multipliers] */
  double *mean, *sd, *level; /* of features; level: of those, clipped, in the pairs */
  size_t summaries;
  double *coefficients, *offset; /* [summaries x features], summaries */
};

/* ---- covariates ------------------------------------------------------------------------------ */

/* Numbers that the data have of every observation of the model: columns that vary, in units. */
typedef struct {
  const double *values;
  size_t each, column;
  double mean, sd;
} Covariate;

static bool is_outcome(const Replicas *r, const double *values, const int32_t *which,
                       const double *seen) {
  for (size_t i = 0; i < replicas_count(r) * replicas_width(r); i++) {
    size_t w = replicas_width(r);
    if (values[(size_t)which[i / w] * w + i % w] != seen[i]) return false;
  }
  return true;
}

static void add_columns(const Model *m, const double *values, size_t each, Covariate *out,
                        size_t *count) {
  for (size_t k = 0; k < each && *count < MOST_COVARIATES; k++) {
    double sum = 0, squares = 0, n = (double)m->n_obs;
    for (size_t i = 0; i < m->n_obs; i++) sum += values[i * each + k];
    for (size_t i = 0; i < m->n_obs; i++) {
      double d = values[i * each + k] - sum / n;
      squares += d * d;
    }
    double sd = sqrt(squares / n);
    if (sd > 0 && isfinite(sd)) out[(*count)++] = (Covariate){values, each, k, sum / n, sd};
  }
}

static size_t find_covariates(Arena *a, const Model *m, const Replicas *r, const int32_t *which,
                              Covariate *out) {
  size_t count = 0, each;
  double *seen = NEW_ARRAY(a, double, replicas_count(r) * replicas_width(r) + 1);
  replicas_seen(r, seen);
  for (int k = 0; k < m->nknown; k++) {
    const double *values = model_known_rows(m, k, m->n_obs, &each);
    if (!values || (each == replicas_width(r) && is_outcome(r, values, which, seen))) continue;
    add_columns(m, values, each, out, &count);
  }
  return count;
}

static size_t pairs_of(size_t n) { return n * (n + 1) / 2; }

/* One, covariates, and products of two. */
static void make_multipliers(Arena *a, const Model *m, const Replicas *r, Embedding *e) {
  int32_t *which = NEW_ARRAY(a, int32_t, e->n + 1);
  Covariate list[MOST_COVARIATES];
  replicas_numbers(r, which);
  size_t count = find_covariates(a, m, r, which, list), at = 0;
  bool products = count <= MOST_PRODUCTS;
  e->multipliers = 1 + count + (products ? pairs_of(count) : 0);
  e->x = NEW_ARRAY(a, double, e->n * e->multipliers);
  for (size_t i = 0; i < e->n; i++) {
    double v[MOST_COVARIATES];
    for (size_t k = 0; k < count; k++) {
      const Covariate *c = &list[k];
      v[k] = (c->values[(size_t)which[i] * c->each + c->column] - c->mean) / c->sd;
    }
    e->x[at++] = 1;
    for (size_t k = 0; k < count; k++) e->x[at++] = v[k];
    for (size_t k = 0; products && k < count; k++)
      for (size_t l = 0; l <= k; l++) e->x[at++] = v[k] * v[l];
  }
}

/* ---- features -------------------------------------------------------------------------------- */

/* Median and quartiles of an outcome's number, over observations and data sets. */
static void find_units(Arena *a, Embedding *e, const double *y, size_t M) {
  double *x = NEW_ARRAY(a, double, UNIT_VALUES), *work = NEW_ARRAY(a, double, UNIT_VALUES);
  size_t all = e->n * M, step = all / UNIT_VALUES + 1;
  e->centre = NEW_ARRAY(a, double, e->width);
  e->scale = NEW_ARRAY(a, double, e->width);
  for (size_t k = 0; k < e->width; k++) {
    size_t count = 0;
    for (size_t i = 0; i < all && count < UNIT_VALUES; i += step) {
      double v = y[(i / M * e->width + k) * M + i % M];
      if (isfinite(v)) x[count++] = v;
    }
    e->centre[k] = count ? stat_median(x, count, work) : 0;
    double spread =
        count ? stat_quantile(x, count, 0.75, work) - stat_quantile(x, count, 0.25, work) : 0;
    e->scale[k] = spread > 0 ? spread / 1.349 : 1;
  }
}

Embedding *embedding_make(Arena *a, const Model *m, const Replicas *r, const double *y, size_t M) {
  Embedding *e = NEW(a, Embedding);
  e->n = replicas_count(r);
  e->width = replicas_width(r);
  e->each = e->n * e->width <= FEW;
  e->functions = FUNCTIONS * e->width;
  if (e->width > 1 && e->width <= MOST_TOGETHER) e->functions += pairs_of(e->width - 1);
  make_multipliers(a, m, r, e);
  find_units(a, e, y, M);
  e->features = e->functions * e->multipliers + (e->each ? 2 * e->n * e->width : 0);
  return e;
}

size_t embedding_features(const Embedding *e) { return e->features; }

/* g of observation i: functions of each number, then products of two. */
static void functions_of(const Embedding *e, const double *y, size_t M, size_t j, size_t i,
                         double *g) {
  double z[MOST_TOGETHER];
  size_t at = 0;
  for (size_t k = 0; k < e->width; k++) {
    double u = (y[(i * e->width + k) * M + j] - e->centre[k]) / e->scale[k], s = asinh(u);
    if (k < MOST_TOGETHER) z[k] = u;
    g[at++] = u;
    g[at++] = u * u;
    g[at++] = s;
    g[at++] = s * s;
  }
  for (size_t k = 1; at < e->functions; k++)
    for (size_t l = 0; l < k; l++) g[at++] = z[k] * z[l];
}

size_t embedding_room(const Embedding *e) { return e->features + e->functions; }

void embedding_feature(const Embedding *e, const double *y, size_t M, size_t j, double *out) {
  double *g = out + e->features, *own = out + e->functions * e->multipliers;
  memset(out, 0, e->features * sizeof *out);
  for (size_t i = 0; i < e->n; i++) {
    const double *x = e->x + i * e->multipliers;
    functions_of(e, y, M, j, i, g);
    for (size_t k = 0; k < e->functions; k++)
      for (size_t l = 0; l < e->multipliers; l++)
        out[k * e->multipliers + l] += g[k] * x[l] / (double)e->n;
    for (size_t k = 0; e->each && k < e->width; k++) {
      *own++ = g[k * FUNCTIONS];
      *own++ = g[k * FUNCTIONS + 2];
    }
  }
}

/* ---- the summary ----------------------------------------------------------------------------- */

static double clip(double x) { return fmax(-FAR, fmin(FAR, x)); }

/* In units of the middle half, for some data sets may be far out; as rows of features. */
static double *standardised(Arena *a, Embedding *e, const EmbeddingPairs *p, size_t ld) {
  double *rows = NEW_ARRAY(a, double, e->features *ld), *work = NEW_ARRAY(a, double, p->n);
  e->mean = NEW_ARRAY(a, double, e->features);
  e->sd = NEW_ARRAY(a, double, e->features);
  e->level = NEW_ARRAY(a, double, e->features);
  for (size_t f = 0; f < e->features; f++) {
    double *x = rows + f * ld;
    for (size_t i = 0; i < p->n; i++) x[i] = p->features[i * e->features + f];
    double spread = stat_quantile(x, p->n, 0.75, work) - stat_quantile(x, p->n, 0.25, work);
    e->mean[f] = stat_median(x, p->n, work);
    e->sd[f] = spread > 0 ? spread / 1.349 : fmax(stat_sd(x, p->n), 1e-300);
    for (size_t i = 0; i < p->n; i++) x[i] = clip((x[i] - e->mean[f]) / e->sd[f]);
    e->level[f] = stat_mean(x, p->n);
    for (size_t i = 0; i < p->n; i++) x[i] -= e->level[f];
  }
  return rows;
}

/* X'X with a ridge that grows until it can be decomposed. */
static double *decomposed(Arena *a, const double *rows, size_t F, size_t n, size_t ld,
                          const Kernels *k) {
  double *G = NEW_ARRAY(a, double, F *F), *L = NEW_ARRAY(a, double, F *F), ridge = 1e-8;
  for (size_t i = 0; i < F; i++)
    for (size_t j = 0; j <= i; j++) G[i * F + j] = k->dot(rows + i * ld, rows + j * ld, ld);
  do {
    for (size_t i = 0; i < F; i++) G[i * F + i] += ridge * (double)n;
    ridge *= 10;
  } while (!la_cholesky(G, L, F));
  return L;
}

/* Element t of what is predicted: theta, then products of two of its elements, or squares. */
static double target(const double *theta, size_t dim, size_t t) {
  if (t < dim) return clip(theta[t]);
  size_t k = 0;
  t -= dim;
  if (dim > MOST_SQUARES) return clip(theta[t]) * clip(theta[t]);
  while (t > k) t -= ++k;
  return clip(theta[k]) * clip(theta[t]);
}

void embedding_learn(Arena *a, Embedding *e, const EmbeddingPairs *p, const Kernels *k) {
  size_t F = e->features, dim = p->dim, ld = (p->n + LANES - 1) / LANES * LANES;
  double *rows = standardised(a, e, p, ld), *L = decomposed(a, rows, F, p->n, ld, k);
  double *h = NEW_ARRAY(a, double, ld), *xh = NEW_ARRAY(a, double, F);
  e->summaries = dim + (dim > MOST_SQUARES ? dim : pairs_of(dim));
  e->coefficients = NEW_ARRAY(a, double, e->summaries *F);
  e->offset = NEW_ARRAY(a, double, e->summaries);
  for (size_t t = 0; t < e->summaries; t++) {
    for (size_t i = 0; i < p->n; i++) h[i] = target(p->theta + i * dim, dim, t);
    e->offset[t] = stat_mean(h, p->n);
    for (size_t i = 0; i < p->n; i++) h[i] -= e->offset[t];
    for (size_t f = 0; f < F; f++) xh[f] = k->dot(rows + f * ld, h, ld);
    la_cholesky_solve(L, xh, e->coefficients + t * F, F);
  }
}

size_t embedding_size(const Embedding *e) { return e->summaries; }

void embedding_summary(const Embedding *e, const double *features, double *out) {
  memcpy(out, e->offset, e->summaries * sizeof *out);
  for (size_t f = 0; f < e->features; f++) {
    double x = clip((features[f] - e->mean[f]) / e->sd[f]) - e->level[f];
    for (size_t t = 0; t < e->summaries; t++) out[t] += e->coefficients[t * e->features + f] * x;
  }
}
