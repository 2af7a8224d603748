/* kind_int.h: the code of a kind of outcome, for this folder. A kind is a row of kinds.def and a
 * KindCode that stands, with its functions, in the file of its group; predictive_mixture.c puts the
 * lanes of a predictive distribution together from it and knows no kind by name.
 *
 * par: the parameters of one lane in the order of kinds.def; d: derivatives in the same order.
 */
#ifndef PVI_SCORE_KIND_INT_H
#define PVI_SCORE_KIND_INT_H

#include "score/score.h"

static inline size_t score_padded(size_t M) { return (M + LANES - 1) / LANES * LANES; }

typedef struct {
  double mean, variance; /* nan, inf where they do not exist */
  double dmean[KIND_PARAMETERS], dvariance[KIND_PARAMETERS];
} Moments;

/* ---- coordinates and grids ------------------------------------------------------------------- */

/* A smooth coordinate for the outcome: t = T(x), x in R. */
typedef struct {
  enum {
    AXIS_PLAIN,
    AXIS_SINH,
    AXIS_EXP,
    AXIS_LOGIT
  } map; /* x, c + s sinh(x + g x^3), exp x, inv_logit x */
  double c, s, g;
} Axis;
double axis_outcome(const Axis *a, double x, double *slope); /* T(x), and T'(x) */
double axis_place(const Axis *a, double t);                  /* x */

typedef struct {
  Axis axis;
  double x0, h;
  size_t n; /* steps: nodes 0 .. n */
} Grid;

/* What one lane asks of a grid: no mass that matters outside [lo, hi]; a step that resolves it in
 * the outcome, at `at`. On the half line and the unit interval all are in the coordinate x. */
typedef struct {
  double lo, hi, at, step;
} Reach;

/* ---- cells of a grid: cells.c ---------------------------------------------------------------- */

enum { CELL_POINTS = 4, CELLS_AT_ONCE = 64, CELL_ROW = CELL_POINTS * CELLS_AT_ONCE };

/* Some cells of a grid: the outcome t at their points, log(weight T'), and two features of the
 * outcome in which the kind's log density is linear. */
typedef struct {
  size_t cells, n; /* n = CELL_POINTS * cells, and zeros up to the next multiple of LANES */
  double t[CELL_ROW], weight[CELL_ROW], r1[CELL_ROW], r2[CELL_ROW];
} CellChunk;

/* One lane on a chunk: probabilities of the points; z and l are the kind's own. */
typedef struct {
  size_t j;
  double par[KIND_PARAMETERS];
  double p[CELL_ROW], z[CELL_ROW], l[CELL_ROW];
} CellLane;

typedef struct {
  void (*features)(double x, double t, double *r1, double *r2);           /* NULL: it needs none */
  void (*log_mass)(const Kernels *k, const CellChunk *c, CellLane *lane); /* log p of the points */
  /* Of a lane of probability one, from V = d S / d p: its derivatives into d; returns sum V p. */
  double (*adjoint)(const CellChunk *c, const CellLane *lane, const double *V, double *d);
  /* The probability beyond an end of the grid, and with d its derivatives; NULL: none is there. */
  double (*end_mass)(const double *par, const Grid *g, bool upper, double *d);
} KindCells;

/* For log densities constant + a r1 + b r2. */
void cells_linear(const CellChunk *c, double constant, double a, double b, double *p);
double cells_linear_sums(const CellChunk *c, const CellLane *lane, const double *V, double *d);

/* ---- the code of a kind ---------------------------------------------------------------------- */

/* Is the outcome normal, or its logarithm? */
typedef enum { NOT_NORMAL, NORMAL_OUTCOME, NORMAL_LOG } Normality;
/* Where outcomes are, which decides the coordinate of searches and grids: the line, with light or
 * with heavy tails, the half line (exp), the unit interval (inv_logit). */
typedef enum { ON_LINE, ON_HEAVY_LINE, ON_POSITIVE, ON_UNIT } Domain;

typedef struct {
  Moments (*moments)(const double *par, size_t size); /* NULL: it has none */
  double (*sample)(const double *par, size_t size, RngStream *r);

  /* Continuous kinds. */
  double (*cdf)(const double *par, double t); /* F(t) */
  double (*pdf)(const double *par, double t); /* f(t) */
  /* d[k] = d F(t) / d par[k] for the k whose bit is in `want`; others may be set too */
  void (*cdf_d)(const double *par, double t, unsigned want, double *d);
  /* E|Y - y| and, with d, its derivatives; inf without a mean */
  double (*gap)(const double *par, double y, double *d);
  Normality normal; /* its lanes go through the kernels, all at once */
  Domain domain;
  int location;                          /* on a line: the parameter's number; the scale is next */
  double (*standard_quantile)(double p); /* at (0, 1), of location-scale kinds and their logs */
  Reach (*reach)(const double *par);
  /* E|A - B| of two lanes and its derivatives by the parameters of both; NULL: by quadrature */
  double (*pair)(const double *a, const double *b, double *da, double *db);
  const KindCells *cells; /* NULL: the cdf itself is fast enough */

  /* Discrete kinds; predictive_mixture.h says what these are. */
  bool vector; /* par[0] is a row per category */
  void (*support)(const Mixture *q, double *lo, double *hi);
  void (*pmf)(const ScoreCase *c, double k, size_t n, double *p);
  void (*pmf_adjoint)(const ScoreCase *c, double k, size_t n, const double *g,
                      const ScoreAdjoint *adj);
  const struct CountKind *count; /* kind_count.c's own */
} KindCode;

const KindCode *kind_code(Kind k);

#define KIND(ID, dist, parameters, discrete) extern const KindCode kind_##dist;
#include "score/kinds.def"
#undef KIND

#define PI 3.14159265358979323846
#define SQRT_2PI 2.50662827463100050242

#endif
