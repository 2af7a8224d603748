/* shared_score.c: inner products by tiles, D and its slope of each, and back.
 *
 * Simulations are kept as x[k ld + j], number k of simulation j: a row of simulations for every
 * number, so that both the products and their adjoints are products of numbers with rows (kernels'
 * gemm). Observations come in slabs of SLAB rows; a slab is copied together, centred, and worked on
 * in units that the problem decides, never the threads.
 */
#include "infer/shared_score.h"

#include <math.h>
#include <string.h>

enum {
  SLAB = 256, /* observations at a time */
  UNIT = 64,  /* of them for one thread */
  STRIP = 128 /* numbers of an outcome at a time: x of so many stays in cache */
};

struct SharedScore {
  SharedProblem p;
  const Kernels *k;
  Pool *pool;
  size_t M, ld, ldy;
  double *centre; /* width: the mean of y, taken off everything, against cancellation */
  double *x, *adj;
  double *x2;               /* ld: |x_j|^2 */
  double *pair;             /* [M x ld]: products, then slopes times weights */
  double *y;                /* [SLAB x ldy]: of this slab */
  double *y2;               /* SLAB */
  double *cross;            /* [SLAB x ld]: products, then slopes times weights */
  double *weights;          /* ld */
  double *total_slope;      /* ld: sum of all slopes that x_j has a part in */
  double *pair_w, *cross_w; /* ld: dP / dw_j; sum_i D_ij */
  double *row;              /* SLAB: sum_j w_j D_ij */
  double *unit_w;           /* [SLAB / UNIT x ld]: the part of cross_w of a unit */
  /* during an evaluation: */
  const SharedCase *c;
  size_t from, count; /* the slab's observations */
  bool back;
};

/* ---- D --------------------------------------------------------------------------------------- */

/* With mu, k2, k3, k4 the cumulants of X = |a + tau e|^2 (a noncentral chi-squared times tau^2),
 * E sqrt X = sqrt mu (1 - a/8 + b/16 - 15 a^2/128 - 5 c/128 + 35 a b/128 - 315 a^3/1024 + ...),
 * a = k2/mu^2, b = k3/mu^3, c = k4/mu^4: Taylor's series of the square root at mu. */
double shared_mean_distance(double r2, double tau, size_t width, double *slope) {
  double t2 = tau * tau, P = (double)width, mu = r2 + t2 * P, root = sqrt(mu);
  if (!(t2 > 0)) {
    *slope = root > 0 ? 0.5 / root : 0;
    return root;
  }
  double a = t2 * (2 * t2 * P + 4 * r2) / (mu * mu),
         b = t2 * t2 * (8 * t2 * P + 24 * r2) / (mu * mu * mu),
         c = t2 * t2 * t2 * (48 * t2 * P + 192 * r2) / (mu * mu * mu * mu);
  double da = 4 * t2 / (mu * mu) - 2 * a / mu, db = 24 * t2 * t2 / (mu * mu * mu) - 3 * b / mu,
         dc = 192 * t2 * t2 * t2 / (mu * mu * mu * mu) - 4 * c / mu;
  double g = 1 - a / 8 + b / 16 - 15 * a * a / 128 - 5 * c / 128 + 35 * a * b / 128 -
             315 * a * a * a / 1024;
  double dg = -da / 8 + db / 16 - 30 * a * da / 128 - 5 * dc / 128 + 35 * (da * b + a * db) / 128 -
              945 * a * a * da / 1024;
  *slope = 0.5 * g / root + root * dg;
  return root * g;
}

/* E 2 exp(-|a + tau e|^2 / (2 h^2)) = 2 (h^2 / v)^(P/2) exp(-r2 / (2 v)), v = h^2 + tau^2 */
static double mean_kernel(const SharedProblem *p, double r2, double tau, double *slope) {
  double h = p->options.bandwidth > 0 ? p->options.bandwidth : 1, v = h * h + tau * tau;
  double value = 2 * exp(-0.5 * r2 / v + 0.5 * (double)p->width * log(h * h / v));
  *slope = -0.5 * value / v;
  return value;
}

/* D and dD / d r2, tau the sd of the noise in the difference. */
static double D(const SharedProblem *p, double r2, double tau, double *slope) {
  if (p->score == SCORE_mmd) return mean_kernel(p, r2, tau, slope);
  double value = shared_mean_distance(r2, tau, p->width, slope);
  *slope = -*slope;
  return -value;
}

/* A vector, its numbers so far apart, and their sum of squares. */
typedef struct {
  const double *at;
  size_t step;
  double square;
} Vector;

/* What is left of |a|^2 + |b|^2 - 2 a'b after cancellation says nothing: then it is summed. */
static double squared_distance(Vector a, Vector b, double product, size_t width) {
  double r2 = a.square + b.square - 2 * product;
  if (r2 > 1e-6 * (a.square + b.square)) return r2;
  double s = 0;
  for (size_t k = 0; k < width; k++) {
    double d = a.at[k * a.step] - b.at[k * b.step];
    s += d * d;
  }
  return s;
}

static Vector simulation(const SharedScore *s, size_t j) {
  return (Vector){s->x + j, s->ld, s->x2[j]};
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void find_centre(SharedScore *s) {
  const SharedProblem *p = &s->p;
  for (size_t i = 0; i < p->n; i++)
    for (size_t k = 0; k < p->width; k++) s->centre[k] += p->y[i * p->width + k];
  for (size_t k = 0; k < p->width; k++) s->centre[k] /= (double)p->n;
}

SharedScore *shared_make(Arena *a, const SharedProblem *p, size_t M, Pool *pool) {
  SharedScore *s = NEW(a, SharedScore);
  size_t ld = (M + LANES - 1) / LANES * LANES, slab = p->n < SLAB ? p->n : SLAB;
  size_t ldy = (p->width + LANES - 1) / LANES * LANES + LANES; /* no power of two: caches */
  *s = (SharedScore){.p = *p, .k = kernels_best(), .pool = pool, .M = M, .ld = ld, .ldy = ldy};
  s->centre = NEW_ARRAY(a, double, p->width);
  s->x = NEW_ARRAY(a, double, p->width *ld);
  s->adj = NEW_ARRAY(a, double, p->width *ld);
  s->pair = NEW_ARRAY(a, double, M *ld);
  s->y = NEW_ARRAY(a, double, slab *ldy);
  s->y2 = NEW_ARRAY(a, double, slab);
  s->row = NEW_ARRAY(a, double, slab);
  s->cross = NEW_ARRAY(a, double, slab *ld);
  s->unit_w = NEW_ARRAY(a, double, (SLAB / UNIT) * ld);
  double *rows = NEW_ARRAY(a, double, 5 * ld);
  s->x2 = rows;
  s->weights = rows + ld;
  s->total_slope = rows + 2 * ld;
  s->pair_w = rows + 3 * ld;
  s->cross_w = rows + 4 * ld;
  find_centre(s);
  return s;
}

static size_t pieces(size_t n, size_t each) { return (n + each - 1) / each; }
static size_t piece_end(size_t k, size_t each, size_t n) {
  return (k + 1) * each < n ? (k + 1) * each : n;
}

/* ---- simulations, and pairs of them ---------------------------------------------------------- */

static void transpose_strip(void *self, size_t piece, int worker) {
  SharedScore *s = self;
  (void)worker;
  for (size_t k = piece * STRIP; k < piece_end(piece, STRIP, s->p.width); k++) {
    double *x = s->x + k * s->ld;
    for (size_t j = 0; j < s->M; j++) x[j] = s->c->sim[j * s->p.width + k] - s->centre[k];
  }
}

static void pair_products(void *self, size_t piece, int worker) {
  SharedScore *s = self;
  size_t from = piece * UNIT, rows = piece_end(piece, UNIT, s->M) - from;
  (void)worker;
  for (size_t k = 0; k < s->p.width; k += STRIP)
    s->k->gemm(&(RowProduct){.out = s->pair + from * s->ld,
                             .ldo = s->ld,
                             .a = s->x + k * s->ld + from,
                             .a_row = 1,
                             .a_column = s->ld,
                             .b = s->x + k * s->ld,
                             .ldb = s->ld,
                             .rows = rows,
                             .inner = (s->p.width - k < STRIP ? s->p.width - k : STRIP),
                             .n = s->ld,
                             .add = k > 0});
}

/* P = -1/2 c sum_jl w_j w_l D_jl, c = 1 with the pairs j = l and 1 / (1 - sum w^2) without. The
 * products become the derivative of P in r2_jl, all of it with j; pair_w gets dP / dw. */
static double pair_sum(SharedScore *s) {
  const SharedProblem *p = &s->p;
  double tau = sqrt(2) * p->noise_sd, squares = 0, sum = 0;
  for (size_t j = 0; j < s->M; j++) squares += s->weights[j] * s->weights[j];
  double c = p->all_pairs ? 1 : 1 / (1 - squares);
  memset(s->pair_w, 0, s->ld * sizeof *s->pair_w);
  for (size_t j = 0; j < s->M; j++)
    for (size_t l = 0; l <= j; l++) {
      double *jl = &s->pair[j * s->ld + l], *lj = &s->pair[l * s->ld + j], slope;
      double r2 = j == l ? 0 : squared_distance(simulation(s, j), simulation(s, l), *jl, p->width);
      double d = D(p, r2, tau, &slope), both = s->weights[j] * s->weights[l];
      bool counts = j != l || p->all_pairs;
      *jl = *lj = j == l ? 0 : -c * both * slope;
      if (!counts) continue;
      sum += (j == l ? 1 : 2) * both * d;
      s->pair_w[j] -= c * s->weights[l] * d;
      if (j != l) s->pair_w[l] -= c * s->weights[j] * d;
    }
  double P = -0.5 * c * sum;
  for (size_t j = 0; j < s->M && !p->all_pairs; j++) s->pair_w[j] += 2 * P * c * s->weights[j];
  return P;
}

/* adj = count sum_l g_jl x_l; see finish_adjoint. */
static void pair_adjoint(void *self, size_t piece, int worker) {
  SharedScore *s = self;
  size_t from = piece * STRIP, end = piece_end(piece, STRIP, s->p.width);
  (void)worker;
  s->k->gemm(&(RowProduct){.out = s->adj + from * s->ld,
                           .ldo = s->ld,
                           .a = s->x + from * s->ld,
                           .a_row = s->ld,
                           .a_column = 1,
                           .b = s->pair,
                           .ldb = s->ld,
                           .rows = end - from,
                           .inner = s->M,
                           .n = s->ld});
  for (size_t k = from; k < end; k++)
    s->k->rescale(s->adj + k * s->ld, (double)s->c->count, 0, s->ld);
}

/* ---- observations ---------------------------------------------------------------------------- */

static size_t observation(const SharedScore *s, size_t i) {
  return s->c->rows ? s->c->rows[s->from + i] : s->from + i;
}

static void copy_observation(SharedScore *s, size_t i) {
  const double *y = s->p.y + observation(s, i) * s->p.width;
  double *to = s->y + i * s->ldy, sum = 0;
  for (size_t k = 0; k < s->p.width; k++) {
    to[k] = y[k] - s->centre[k];
    sum += to[k] * to[k];
  }
  s->y2[i] = sum;
}

/* From products to D, and to slopes times weights. */
static void cross_row(SharedScore *s, size_t i, double *by_draw) {
  double *g = s->cross + i * s->ld, sum = 0, slope;
  Vector y = {s->y + i * s->ldy, 1, s->y2[i]};
  for (size_t j = 0; j < s->M; j++) {
    double r2 = squared_distance(simulation(s, j), y, g[j], s->p.width);
    double d = D(&s->p, r2, s->p.noise_sd, &slope);
    sum += s->weights[j] * d;
    by_draw[j] += d;
    g[j] = s->weights[j] * slope;
  }
  s->row[i] = sum;
}

static void cross_unit(void *self, size_t unit, int worker) {
  SharedScore *s = self;
  size_t from = unit * UNIT, end = piece_end(unit, UNIT, s->count);
  double *by_draw = s->unit_w + unit * s->ld;
  (void)worker;
  for (size_t i = from; i < end; i++) copy_observation(s, i);
  for (size_t k = 0; k < s->p.width; k += STRIP)
    s->k->gemm(&(RowProduct){.out = s->cross + from * s->ld,
                             .ldo = s->ld,
                             .a = s->y + from * s->ldy + k,
                             .a_row = s->ldy,
                             .a_column = 1,
                             .b = s->x + k * s->ld,
                             .ldb = s->ld,
                             .rows = end - from,
                             .inner = (s->p.width - k < STRIP ? s->p.width - k : STRIP),
                             .n = s->ld,
                             .add = k > 0});
  memset(by_draw, 0, s->ld * sizeof *by_draw);
  for (size_t i = from; i < end; i++) cross_row(s, i, by_draw);
}

/* adj += sum_i g_ij y_i */
static void cross_adjoint(void *self, size_t piece, int worker) {
  SharedScore *s = self;
  size_t from = piece * STRIP, end = piece_end(piece, STRIP, s->p.width);
  (void)worker;
  s->k->gemm(&(RowProduct){.out = s->adj + from * s->ld,
                           .ldo = s->ld,
                           .a = s->y + from,
                           .a_row = 1,
                           .a_column = s->ldy,
                           .b = s->cross,
                           .ldb = s->ld,
                           .rows = end - from,
                           .inner = s->count,
                           .n = s->ld,
                           .add = true});
}

/* With g the derivatives in squared distances, the derivative in x_j is 2 sum g_j. (x_j - .), over
 * simulations and observations: adj has the sum of the others, total_slope that of g. */
static void finish_adjoint(void *self, size_t piece, int worker) {
  SharedScore *s = self;
  (void)worker;
  for (size_t k = piece * STRIP; k < piece_end(piece, STRIP, s->p.width); k++) {
    double *adj = s->adj + k * s->ld;
    const double *x = s->x + k * s->ld;
    for (size_t j = 0; j < s->M; j++) adj[j] = 2 * (x[j] * s->total_slope[j] - adj[j]);
  }
}

/* One slab: its sum, and what flows back from it. */
static double slab(SharedScore *s, double P, double *scores) {
  double sum = 0, constant = s->p.score == SCORE_mmd ? -1 : 0;
  size_t units = pieces(s->count, UNIT);
  pool_run(s->pool, units, cross_unit, s);
  for (size_t i = 0; i < s->count; i++) {
    sum += s->row[i] + P + constant;
    if (scores) scores[s->from + i] = s->row[i] + P + constant;
  }
  for (size_t u = 0; u < units; u++) s->k->add(s->cross_w, s->unit_w + u * s->ld, s->ld);
  if (!s->back) return sum;
  for (size_t i = 0; i < s->count; i++) s->k->add(s->total_slope, s->cross + i * s->ld, s->ld);
  pool_run(s->pool, pieces(s->p.width, STRIP), cross_adjoint, s);
  return sum;
}

static void begin(SharedScore *s, const SharedCase *c, bool back) {
  s->c = c;
  s->back = back;
  for (size_t j = 0; j < s->M; j++) s->weights[j] = c->weights ? c->weights[j] : 1 / (double)s->M;
  pool_run(s->pool, pieces(s->p.width, STRIP), transpose_strip, s);
  memset(s->x2, 0, s->ld * sizeof *s->x2);
  memset(s->cross_w, 0, s->ld * sizeof *s->cross_w);
  memset(s->total_slope, 0, s->ld * sizeof *s->total_slope);
  for (size_t k = 0; k < s->p.width; k++)
    s->k->multiply_add(s->x2, s->x + k * s->ld, s->x + k * s->ld, s->ld);
}

static void begin_back(SharedScore *s) {
  for (size_t l = 0; l < s->M; l++) s->k->add(s->total_slope, s->pair + l * s->ld, s->ld);
  s->k->rescale(s->total_slope, (double)s->c->count, 0, s->ld);
  pool_run(s->pool, pieces(s->p.width, STRIP), pair_adjoint, s);
}

double shared_eval(SharedScore *s, const SharedCase *c, double *scores, double *adj_sim,
                   double *adj_w) {
  double sum = 0;
  begin(s, c, adj_sim);
  pool_run(s->pool, pieces(s->M, UNIT), pair_products, s);
  double P = pair_sum(s);
  if (adj_sim) begin_back(s);
  for (s->from = 0; s->from < c->count; s->from += SLAB) {
    s->count = c->count - s->from < SLAB ? c->count - s->from : SLAB;
    sum += slab(s, P, scores);
  }
  for (size_t j = 0; adj_w && j < s->M; j++)
    adj_w[j] = s->cross_w[j] + (double)c->count * s->pair_w[j];
  if (!adj_sim) return sum;
  pool_run(s->pool, pieces(s->p.width, STRIP), finish_adjoint, s);
  for (size_t j = 0; j < s->M; j++)
    for (size_t k = 0; k < s->p.width; k++) adj_sim[j * s->p.width + k] = s->adj[k * s->ld + j];
  return sum;
}
