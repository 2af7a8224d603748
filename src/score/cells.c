/* cells.c: the cdf of a mixture on a grid by adding up probabilities of its cells, for kinds whose
 * cdf costs a continued fraction but whose density costs an exponential.
 *
 * The probability of a cell between two nodes is Gauss's rule with four points on f_j(T(x)) T'(x),
 * which is analytic and resolved by the grid: with singularities 3.7 steps away, where the grid's
 * own sum has ten digits, its error is 15^-8 of the cell. The cdf itself is needed at the
 * ends only. Cells left of the middle add up to F, those right of it to 1 - F, so both tails keep
 * their digits.
 *
 * The adjoint sums by parts: sum_i v_i dF_j(x_i) = sum over points of f_j T' (d log f_j / d par) V,
 * V = the sum of the v_i that the point's cell contributes to: no derivative of a cdf.
 *
 * Cells are taken 64 at a time, with shared rows of what the kind needs of the outcome; what a lane
 * makes of them is the kind's own (KindCells). Point q of cell i is at q * cells + i.
 */
#include "score/spread_int.h"

#include "num/simd.h"
#include "num/special.h"

#include <math.h>
#include <string.h>

enum { POINTS = CELL_POINTS, CELLS = CELLS_AT_ONCE, ROW = CELL_ROW };

static const double gauss_x[POINTS] = {0.069431844202973714, 0.33000947820757187,
                                       0.66999052179242813, 0.93056815579702623};
static const double gauss_w[POINTS] = {0.17392742256872692, 0.3260725774312731, 0.3260725774312731,
                                       0.17392742256872692};

static const KindCells *cells_of(const ScoreCase *c) { return kind_code(c->q.kind)->cells; }

static void chunk_make(const KindCells *kind, const Grid *g, size_t first, CellChunk *c) {
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
      if (kind->features) kind->features(x, t, &c->r1[k], &c->r2[k]);
    }
  for (size_t k = c->n; k < score_padded(c->n); k++)
    c->t[k] = c->r1[k] = c->r2[k] = 0, c->weight[k] = -600;
}

/* p = constant + weight + a r1 + b r2 */
void cells_linear(const CellChunk *c, double constant, double a, double b, double *p) {
  for (size_t k = 0; k < score_padded(c->n); k += VL)
    v_store(p + k,
            constant + v_load(c->weight + k) + a * v_load(c->r1 + k) + b * v_load(c->r2 + k));
}

/* d[0], d[1] = the sums of V p r1 and V p r2; returns that of V p. */
double cells_linear_sums(const CellChunk *c, const CellLane *lane, const double *V, double *d) {
  double all = 0;
  d[0] = d[1] = 0;
  for (size_t k = 0; k < c->n; k++) {
    double e = V[k] * lane->p[k];
    all += e;
    d[0] += e * c->r1[k];
    d[1] += e * c->r2[k];
  }
  return all;
}

/* The probabilities of lane j's points. */
static void lane_make(const ScoreCase *sc, const CellChunk *c, size_t j, CellLane *lane) {
  size_t n = score_padded(c->n);
  lane->j = j;
  mixture_lane(&sc->q, j, lane->par);
  cells_of(sc)->log_mass(sc->k, c, lane);
  for (size_t k = 0; k < n; k += VL)
    v_store(lane->p + k, v_max(v_splat(-600), v_load(lane->p + k))); /* nothing subnormal */
  sc->k->forward[IR_EXP](lane->p, (const double *const[]){lane->p}, (size_t[]){1}, n);
}

/* mass[i] += w p over the points of cell i */
static void add_mass(const CellChunk *c, const CellLane *lane, double w, double *mass) {
  for (int q = 0; q < POINTS; q++)
    for (size_t i = 0; i < c->cells; i++) mass[i] += w * lane->p[(size_t)q * c->cells + i];
}

/* The probability beyond an end of the grid, and with d its derivatives. */
static double end_mass(const KindCells *kind, const double *par, const Grid *g, bool upper,
                       double *d) {
  if (kind->end_mass) return kind->end_mass(par, g, upper, d);
  for (int k = 0; d && k < KIND_PARAMETERS; k++) d[k] = 0;
  return 0;
}

void cells_fill(const ScoreCase *c, const Grid *g, double *F) {
  CellChunk chunk;
  CellLane lane;
  double par[KIND_PARAMETERS], below = 0, above = 0;
  for (size_t j = 0; j < c->q.M; j++) {
    mixture_lane(&c->q, j, par);
    below += mixture_weight(&c->q, j) * end_mass(cells_of(c), par, g, false, NULL);
    above += mixture_weight(&c->q, j) * end_mass(cells_of(c), par, g, true, NULL);
  }
  memset(F, 0, (g->n + 1) * sizeof *F);
  for (size_t first = 0; first < g->n; first += CELLS) { /* F[i + 1] = the probability of cell i */
    chunk_make(cells_of(c), g, first, &chunk);
    for (size_t j = 0; j < c->q.M; j++) {
      lane_make(c, &chunk, j, &lane);
      add_mass(&chunk, &lane, mixture_weight(&c->q, j), F + 1 + first);
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

static void lane_adjoint(const ScoreCase *sc, const CellChunk *c, const CellLane *lane,
                         const double *V, const ScoreAdjoint *adj) {
  double w = mixture_weight(&sc->q, lane->j), d[KIND_PARAMETERS];
  double all = cells_of(sc)->adjoint(c, lane, V, d);
  for (int k = 0; k < kind_parameters(sc->q.kind); k++)
    if (adj->par[k]) adj->par[k][lane->j] += w * d[k];
  if (adj->weights) adj->weights[lane->j] += all;
}

/* below, above: d S / d (probability beyond the ends) */
static void ends_adjoint(const ScoreCase *c, const Grid *g, double below, double above, size_t j,
                         const ScoreAdjoint *adj) {
  double par[KIND_PARAMETERS], d0[KIND_PARAMETERS], d1[KIND_PARAMETERS];
  mixture_lane(&c->q, j, par);
  double p0 = end_mass(cells_of(c), par, g, false, d0),
         p1 = end_mass(cells_of(c), par, g, true, d1);
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
  CellChunk chunk;
  CellLane lane;
  double V[ROW], left, right;
  cells_of_nodes(g, F, v, &left, &right);
  for (size_t first = 0; first < g->n; first += CELLS) {
    chunk_make(cells_of(c), g, first, &chunk);
    for (int q = 0; q < POINTS; q++)
      memcpy(V + (size_t)q * chunk.cells, v + 1 + first, chunk.cells * sizeof *V);
    for (size_t j = 0; j < c->q.M; j++) {
      lane_make(c, &chunk, j, &lane);
      lane_adjoint(c, &chunk, &lane, V, adj);
    }
  }
  for (size_t j = 0; j < c->q.M; j++) ends_adjoint(c, g, left, -right, j, adj);
}
