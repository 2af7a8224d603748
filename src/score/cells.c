/* cells.c: the cdf of a mixture on a grid by adding up probabilities of its cells, for kinds
 * (student_t, gamma, beta) whose cdf costs a continued fraction but whose density costs an
 * exponential.
 *
 * The probability of a cell between two nodes is Gauss's rule with six points on f_j(T(x)) T'(x),
 * which is analytic and resolved by the grid: error about 1e-14. The cdf itself is needed at the
 * ends only. Cells left of the middle add up to F, those right of it to 1 - F, so both tails keep
 * their digits.
 *
 * The adjoint sums by parts: sum_i v_i dF_j(x_i) = sum over points of f_j T' (d log f_j / d par) V,
 * V = the sum of the v_i that the point's cell contributes to: no derivative of a cdf.
 *
 * Cells are taken 64 at a time, with shared rows of what the kind needs of the outcome; a lane's
 * log density there is linear in rows of logarithms (gamma, beta) or in one log1p (student_t).
 * Point q of cell i is at q * cells + i.
 */
#include "score/spread_int.h"

#include "num/simd.h"
#include "num/special.h"

#include <math.h>
#include <string.h>

enum { POINTS = 6, CELLS = 64, ROW = POINTS * CELLS };

static const double gauss_x[POINTS] = {0.03376524289842397, 0.16939530676686776,
                                       0.38069040695840156, 0.61930959304159849,
                                       0.83060469323313224, 0.96623475710157603};
static const double gauss_w[POINTS] = {0.08566224618958517, 0.18038078652406930,
                                       0.23395696728634552, 0.23395696728634552,
                                       0.18038078652406930, 0.08566224618958517};

/* Some cells of a grid: the outcome t at their points, log(weight T'), and what the kind wants:
 * gamma log t, -t; beta log t, log(1 - t). */
typedef struct {
  size_t cells, n; /* n = POINTS * cells, and zeros up to the next multiple of LANES */
  double t[ROW], weight[ROW], r1[ROW], r2[ROW];
} Chunk;

/* One lane on a chunk: probabilities of the points; student_t: z and log(1 + z^2 / nu). */
typedef struct {
  double p[ROW], z[ROW], l[ROW];
} LaneRow;

bool cells_serve(Kind kind) {
  return kind == KIND_STUDENT_T || kind == KIND_GAMMA || kind == KIND_BETA;
}

static void chunk_make(Kind kind, const Grid *g, size_t first, Chunk *c) {
  double slope;
  c->cells = g->n - first < CELLS ? g->n - first : CELLS;
  c->n = POINTS * c->cells;
  for (int q = 0; q < POINTS; q++)
    for (size_t i = 0; i < c->cells; i++) {
      size_t k = (size_t)q * c->cells + i;
      double x = g->x0 + ((double)(first + i) + gauss_x[q]) * g->h,
             t = axis_outcome(&g->axis, x, &slope);
      c->t[k] = t;
      c->weight[k] = log(g->h * gauss_w[q] * slope);
      c->r1[k] = kind == KIND_BETA ? num_log_inv_logit(x) : x;
      c->r2[k] = kind == KIND_BETA ? num_log1m_inv_logit(x) : -t;
    }
  for (size_t k = c->n; k < score_padded(c->n); k++)
    c->t[k] = c->r1[k] = c->r2[k] = 0, c->weight[k] = -600;
}

/* p = constant + weight + a r1 + b r2 */
static void linear_rows(const Chunk *c, double constant, double a, double b, double *p) {
  for (size_t k = 0; k < score_padded(c->n); k += VL)
    v_store(p + k,
            constant + v_load(c->weight + k) + a * v_load(c->r1 + k) + b * v_load(c->r2 + k));
}

static void student_rows(const ScoreCase *sc, const Chunk *c, const double *par, LaneRow *r) {
  double nu = par[0], inverse = 1 / par[2], half = 0.5 * (nu + 1);
  double constant = -num_lbeta(0.5, 0.5 * nu) - 0.5 * log(nu) - log(par[2]);
  size_t n = score_padded(c->n);
  for (size_t k = 0; k < n; k += VL) {
    vd z = (v_load(c->t + k) - par[1]) * inverse;
    v_store(r->z + k, z);
    v_store(r->l + k, z * z / nu);
  }
  sc->k->forward[IR_LOG1P](r->l, (const double *const[]){r->l}, (size_t[]){1}, n);
  for (size_t k = 0; k < n; k += VL)
    v_store(r->p + k, constant + v_load(c->weight + k) - half * v_load(r->l + k));
}

/* The probabilities of lane j's points. */
static void lane_rows(const ScoreCase *sc, const Chunk *c, const double *par, LaneRow *r) {
  size_t n = score_padded(c->n);
  double a = par[0], b = par[1];
  if (sc->q.kind == KIND_STUDENT_T) student_rows(sc, c, par, r);
  if (sc->q.kind == KIND_GAMMA) linear_rows(c, a * log(b) - num_lgamma(a), a - 1, b, r->p);
  if (sc->q.kind == KIND_BETA) linear_rows(c, -num_lbeta(a, b), a - 1, b - 1, r->p);
  for (size_t k = 0; k < n; k += VL)
    v_store(r->p + k, v_max(v_splat(-600), v_load(r->p + k))); /* nothing subnormal */
  sc->k->forward[IR_EXP](r->p, (const double *const[]){r->p}, (size_t[]){1}, n);
}

/* mass[i] += w p over the points of cell i */
static void add_mass(const Chunk *c, const LaneRow *r, double w, double *mass) {
  for (int q = 0; q < POINTS; q++)
    for (size_t i = 0; i < c->cells; i++) mass[i] += w * r->p[(size_t)q * c->cells + i];
}

/* The probability beyond an end of the grid, and with d its derivatives. A gamma or beta of small
 * shape has some there, if no width; at its upper end a beta is that of 1 - t with a and b
 * exchanged. */
static double end_mass(Kind kind, const double *par, const Grid *g, bool upper, double *d) {
  double slope, swapped[2] = {par[1], par[0]}, other[2];
  const Component *p = component_of(kind);
  if (kind == KIND_GAMMA && !upper) {
    double t = axis_outcome(&g->axis, g->x0, &slope);
    if (d) p->cdf_d(par, t, 3, d);
    return p->cdf(par, t);
  }
  if (kind == KIND_BETA) {
    double t = axis_outcome(&g->axis, upper ? -(g->x0 + (double)g->n * g->h) : g->x0, &slope);
    if (d) p->cdf_d(upper ? swapped : par, t, 3, other);
    for (int k = 0; d && k < 2; k++) d[k] = other[upper ? 1 - k : k];
    return p->cdf(upper ? swapped : par, t);
  }
  for (int k = 0; d && k < KIND_PARAMETERS; k++) d[k] = 0;
  return 0;
}

void cells_fill(const ScoreCase *c, const Grid *g, double *F) {
  Chunk chunk;
  LaneRow r;
  double par[KIND_PARAMETERS], below = 0, above = 0;
  for (size_t j = 0; j < c->q.M; j++) {
    mixture_lane(&c->q, j, par);
    below += mixture_weight(&c->q, j) * end_mass(c->q.kind, par, g, false, NULL);
    above += mixture_weight(&c->q, j) * end_mass(c->q.kind, par, g, true, NULL);
  }
  memset(F, 0, (g->n + 1) * sizeof *F);
  for (size_t first = 0; first < g->n; first += CELLS) { /* F[i + 1] = the probability of cell i */
    chunk_make(c->q.kind, g, first, &chunk);
    for (size_t j = 0; j < c->q.M; j++) {
      mixture_lane(&c->q, j, par);
      lane_rows(c, &chunk, par, &r);
      add_mass(&chunk, &r, mixture_weight(&c->q, j), F + 1 + first);
    }
  }
  size_t middle = 0; /* nodes 0 .. middle hold F <= 1/2 */
  F[0] = below;
  while (middle < g->n && F[middle] + F[middle + 1] <= 0.5) middle++, F[middle] += F[middle - 1];
  for (size_t i = g->n; i > middle; i--) {
    double cell = F[i];
    F[i] = -above;
    above += cell;
  }
}

/* ---- adjoint --------------------------------------------------------------------------------- */

/* d S / d par of a lane of probability one from the points of a chunk, V: per point; returns sum V
 * p. */

/* log f = -(nu + 1) / 2 log(1 + z^2 / nu) + ...: its derivatives are sums of log(1 + z^2 / nu), z /
 * (nu + z^2), z^2 / (nu + z^2) */
static double student_adjoint(const Chunk *c, const LaneRow *r, const double *V, const double *par,
                              double *d) {
  double nu = par[0], s = par[2], all = 0, logs = 0, ones = 0, twos = 0;
  for (size_t k = 0; k < c->n; k++) {
    double e = V[k] * r->p[k], z = r->z[k], q = e * z / (nu + z * z);
    all += e;
    logs += e * r->l[k];
    ones += q;
    twos += q * z;
  }
  d[0] = 0.5 * ((num_digamma(0.5 * (nu + 1)) - num_digamma(0.5 * nu) - 1 / nu) * all - logs +
                (nu + 1) / nu * twos);
  d[1] = (nu + 1) / s * ones;
  d[2] = ((nu + 1) * twos - all) / s;
  return all;
}

/* log f = (a - 1) log t + (log b - ...) a - b t, or (a - 1) log t + (b - 1) log(1 - t) - log
 * Beta(a, b) */
static double linear_adjoint(Kind kind, const Chunk *c, const LaneRow *r, const double *V,
                             const double *par, double *d) {
  double a = par[0], b = par[1], all = 0;
  d[0] = d[1] = 0;
  for (size_t k = 0; k < c->n; k++) {
    double e = V[k] * r->p[k];
    all += e;
    d[0] += e * c->r1[k];
    d[1] += e * c->r2[k];
  }
  d[0] += ((kind == KIND_GAMMA ? log(b) : num_digamma(a + b)) - num_digamma(a)) * all;
  d[1] += (kind == KIND_GAMMA ? a / b : num_digamma(a + b) - num_digamma(b)) * all;
  return all;
}

static void lane_adjoint(const ScoreCase *sc, const Chunk *c, const LaneRow *r, const double *V,
                         size_t j, const double *par, const ScoreAdjoint *adj) {
  Kind kind = sc->q.kind;
  double w = mixture_weight(&sc->q, j), d[KIND_PARAMETERS];
  double all = kind == KIND_STUDENT_T ? student_adjoint(c, r, V, par, d)
                                      : linear_adjoint(kind, c, r, V, par, d);
  for (int k = 0; k < kind_parameters(kind); k++)
    if (adj->par[k]) adj->par[k][j] += w * d[k];
  if (adj->weights) adj->weights[j] += all;
}

/* below, above: d S / d (probability beyond the ends) */
static void ends_adjoint(const ScoreCase *c, const Grid *g, double below, double above, size_t j,
                         const ScoreAdjoint *adj) {
  double par[KIND_PARAMETERS], d0[KIND_PARAMETERS], d1[KIND_PARAMETERS];
  mixture_lane(&c->q, j, par);
  double p0 = end_mass(c->q.kind, par, g, false, d0), p1 = end_mass(c->q.kind, par, g, true, d1);
  for (int k = 0; k < kind_parameters(c->q.kind); k++)
    if (adj->par[k]) adj->par[k][j] += mixture_weight(&c->q, j) * (below * d0[k] + above * d1[k]);
  if (adj->weights) adj->weights[j] += below * p0 + above * p1;
}

/* v becomes, in place of node i, what cell i - 1 (between nodes i - 1 and i) contributes to: its F
 * at the nodes from i to the middle, or minus its 1 - F at the nodes from the middle to i - 1.
 * Returns the sums over both halves: the share of the ends.
 */
static void cells_of_nodes(const Grid *g, const double *F, double *v, double *left, double *right) {
  size_t middle = 0;
  while (middle < g->n && F[middle + 1] >= 0) middle++;
  *left = *right = 0;
  for (size_t i = middle + 1; i-- > 0;) *left += v[i], v[i] = *left;
  for (size_t i = middle + 1; i <= g->n; i++) {
    double at = v[i];
    v[i] = -*right;
    *right += at;
  }
}

void cells_adjoint(const ScoreCase *c, const Grid *g, const double *F, double *v,
                   const ScoreAdjoint *adj) {
  Chunk chunk;
  LaneRow r;
  double par[KIND_PARAMETERS], V[ROW], left, right;
  cells_of_nodes(g, F, v, &left, &right);
  for (size_t first = 0; first < g->n; first += CELLS) {
    chunk_make(c->q.kind, g, first, &chunk);
    for (int q = 0; q < POINTS; q++)
      memcpy(V + (size_t)q * chunk.cells, v + 1 + first, chunk.cells * sizeof *V);
    for (size_t j = 0; j < c->q.M; j++) {
      mixture_lane(&c->q, j, par);
      lane_rows(c, &chunk, par, &r);
      lane_adjoint(c, &chunk, &r, V, j, par, adj);
    }
  }
  for (size_t j = 0; j < c->q.M; j++) ends_adjoint(c, g, left, -right, j, adj);
}
