/* rqs.h: monotone rational-quadratic splines (Gregory & Delbourgo 1982; Durkan, Bekasov, Murray,
 * Papamakarios 2019, sec. 3).
 *
 * A spline maps [-RQS_BOUND, RQS_BOUND] onto itself and is the identity outside. It has `bins` bins
 * between knots (x_k, y_k) with slopes d_k there, d = 1 at both ends, so that value and slope are
 * continuous everywhere. In bin k, with
 *
 *   w = x_k+1 - x_k,   h = y_k+1 - y_k,   s = h / w,   xi = (x - x_k) / w,   p = xi (1 - xi),
 *
 * it is, by their equations 4 and 5,
 *
 *   y     = y_k + h (s xi^2 + d_k p) / (s + (d_k + d_k+1 - 2 s) p)
 *   dy/dx = s^2 (d_k+1 xi^2 + 2 s p + d_k (1 - xi)^2) / (s + (d_k + d_k+1 - 2 s) p)^2
 *
 * Splines come in lanes: number k of lane j is at [k ld + j], of raw parameters, knots and adjoints
 * alike. A raw parameter is any real number, and all zero is the identity: `bins` widths and `bins`
 * heights, through softmax, then `bins` - 1 inner slopes, through softplus.
 */
#ifndef PVI_FAMILY_RQS_H
#define PVI_FAMILY_RQS_H

#include "vm/kernels.h"

#define RQS_BOUND 4.0

typedef struct {
  size_t bins, ld;
  double *x, *y, *d; /* [(bins + 1) x ld] each */
} Knots;

static inline size_t rqs_raw(size_t bins) { return 3 * bins - 1; } /* raw parameters of a spline */
static inline size_t rqs_room(size_t bins) { return 3 * (bins + 1); } /* numbers of its knots */
Knots rqs_place(size_t bins, size_t ld, double *room); /* in rqs_room(bins) * ld numbers */

/* The knots of n lanes, n a multiple of LANES, from raw [rqs_raw x ld]. */
void rqs_knots(const Knots *knots, const double *raw, size_t n, const Kernels *k);
/* The adjoints of the raw parameters, from those of the knots, `adj`, which are destroyed. */
void rqs_knots_adjoint(const Knots *knots, const Knots *adj, double *adj_raw, size_t n,
                       const Kernels *k);

/* y at x of one lane; with log_slope, log dy/dx. */
double rqs_value(const Knots *knots, size_t lane, double x, double *log_slope);
/* x at y, and log dy/dx there. */
double rqs_inverse(const Knots *knots, size_t lane, double y, double *log_slope);
/* Given the adjoints of y and of log dy/dx: returns that of x, adds those of the knots to lane
 * `lane` of adj. */
double rqs_adjoint(const Knots *knots, size_t lane, double x, double adj_y, double adj_log_slope,
                   const Knots *adj);

#endif
