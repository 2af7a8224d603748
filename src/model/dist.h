/* dist.h: what the files behind dists.def share, for this folder. LPDF(x) { ... } is the log
 * density of distribution x: a[0] the outcome, a[1..] the parameters, one element per observation.
 */
#ifndef PVI_DIST_H
#define PVI_DIST_H

#include "model/arith.h"

typedef Value *Density(Eval *E, Value **a, int n);

#define LPDF(id) Value *lpdf_##id(Eval *E, Value **a, __attribute__((unused)) int n)

#define CODE(id) Density lpdf_##id;
#define MISSING
#define DIST(id, signature, flags, code) code
#include "stan/dists.def"
#undef DIST
#undef MISSING
#undef CODE

static const double LOG_PI = 1.1447298858494002, LOG_2PI = 1.8378770664093453;

Value *dist_linear_predictor(Eval *E, Value *x, Value *alpha, Value *beta); /* x beta + alpha */
Value *dist_logits(Eval *E, Value *x, Value *alpha, Value *beta); /* of every row and category */
Value *dist_log_factorial(Eval *E, Value *y);
Value *dist_density(Eval *E, DistId id, Value **a, int n); /* of valid arguments */

/* cdf.c: log F and log(1 - F), one element per observation */
Value *dist_log_cdf(Eval *E, DistId id, Value **a, int n, bool complement, Loc loc);

#endif
