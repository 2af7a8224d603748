/* dist.h: what the files behind dists.def share, for this folder.
 *
 * A distribution is a row of dists.def and the functions which the row names, next to each other in
 * the file of its group. The macros below are their heads; a[0] is the outcome and a[1..] are the
 * parameters, except where only parameters are given (RNG, SIMULATE): there they are a[0..].
 *
 *   LPDF(x)      { the log density or mass as a Value, one element per observation }
 *   CDF(x)       { log F(outcome), or with `complement` log(1 - F): each by itself, so that
 *                  neither tail is lost; NULL where this cannot be computed }
 *   COUNT_CDF(x) { the same, of outcomes that are not negative }
 *   RNG(x)       { a random number from the stream r, of parameters that are numbers }
 *   RNG_JOINT(x) { the same as a Value, of parameters that are known Values }
 *   SIMULATE(x)  { a draw made of NORMAL_NOISE or UNIFORM_NOISE: differentiable }
 *   OUTCOME(x)   { AS(y, parameters ...), y the distribution which x is another form of }
 *
 * Quantities that do not depend on the outcome (1/sigma, log sigma, log y!) are Values of their
 * own: where they are data they are computed now, where they are shared by all observations, once
 * per draw.
 */
#ifndef PVI_DIST_H
#define PVI_DIST_H

#include "model/arith.h"

typedef Value *DistLpdf(Eval *E, Value **a, int n);
typedef Value *DistCdf(Eval *E, Value **a, int n, bool complement);
typedef double DistRng(RngStream *r, const double *a);
typedef Value *DistRngJoint(Eval *E, Value **a, Loc loc);
typedef Value *DistSimulate(Eval *E, Value **a, int n);
typedef Outcome DistOutcome(Eval *E, Value **a);

/* What a row can do; NULL: it cannot. */
typedef struct {
  DistLpdf *lpdf;
  DistCdf *cdf, *count_cdf;
  DistRng *rng;
  DistRngJoint *rng_joint;
  DistSimulate *simulate;
  DistOutcome *outcome;
} DistCode;
const DistCode *dist_code(DistId id);

/* ---- declarations of all functions that rows name -------------------------------------------- */

#define LPDF(id) DistLpdf lpdf_##id;
#define CDF(id) DistCdf cdf_##id;
#define COUNT_CDF(id) DistCdf cdf_##id;
#define RNG(id) DistRng draw_##id;
#define RNG_JOINT(id) DistRngJoint draw_##id;
#define SIMULATE(id) DistSimulate simulate_##id;
#define OUTCOME(id) DistOutcome outcome_##id;
#define DIST(id, signature, flags, support, code) code
#include "stan/dists.def"
#undef DIST
#undef LPDF
#undef CDF
#undef COUNT_CDF
#undef RNG
#undef RNG_JOINT
#undef SIMULATE
#undef OUTCOME

/* ---- heads of their definitions -------------------------------------------------------------- */

#define MAYBE __attribute__((unused))
#define LPDF(id) Value *lpdf_##id(MAYBE Eval *E, MAYBE Value **a, MAYBE int n)
#define CDF(id) Value *cdf_##id(MAYBE Eval *E, MAYBE Value **a, MAYBE int n, MAYBE bool complement)
#define COUNT_CDF(id) CDF(id)
#define RNG(id) double draw_##id(MAYBE RngStream *r, MAYBE const double *a)
#define RNG_JOINT(id) Value *draw_##id(MAYBE Eval *E, MAYBE Value **a, MAYBE Loc loc)
#define SIMULATE(id) Value *simulate_##id(MAYBE Eval *E, MAYBE Value **a, MAYBE int n)
#define OUTCOME(id) Outcome outcome_##id(MAYBE Eval *E, MAYBE Value **a)

/* ---- what they are made of (dists.c) --------------------------------------------------------- */

static const double LOG_PI = 1.1447298858494002, LOG_2PI = 1.8378770664093453;

#define CHOOSE(condition, yes, no) map3(E, IR_SELECT, condition, yes, no)
#define LESS(x, y) map2(E, IR_LT, x, y)

Value *dist_standardise(Eval *E, Value **a); /* (a[0] - a[1]) / a[2] */
Value *dist_log_factorial(Eval *E, Value *y);
/* lgamma(a + b) - lgamma(a), however large a is */
Value *dist_log_rising(Eval *E, Value *a, Value *b);
/* log neg_binomial_2(y | e^eta, phi) */
Value *dist_neg_binomial_2(Eval *E, Value *y, Value *eta, Value *phi);

/* Of a distribution that is symmetric about 0: F(z), or 1 - F(z) = F(-z). */
#define COMPLEMENT(z) (complement ? M(NEG, z) : (z))
/* log F and log(1 - F) where log(1 - F), or log F, is the simple one: it is x <= 0. */
Value *dist_from_upper(Eval *E, Value *x, bool complement);
Value *dist_from_lower(Eval *E, Value *x, bool complement);
/* The regularized incomplete gamma function P(shape, x), or 1 - P; the incomplete beta function
 * I_x(a, b), or 1 - I. */
Value *dist_gamma_p(Eval *E, Value *shape, Value *x, bool complement);
Value *dist_inc_beta(Eval *E, Value *a, Value *b, Value *x, bool complement);

/* Noise of the shape of the largest parameter, one number per iteration in a lifted loop. */
Value *dist_noise(Eval *E, Value **a, int n, NoiseKind kind);
#define NORMAL_NOISE dist_noise(E, a, n, NOISE_NORMAL)
#define UNIFORM_NOISE dist_noise(E, a, n, NOISE_UNIFORM)

/* The outcome a[0] has the distribution `id` with the given parameters. */
enum { OUTCOME_PARAMETERS = 3 };
#define AS(id, ...) outcome_as(DIST_##id, a[0], (Value *[OUTCOME_PARAMETERS]){__VA_ARGS__})
Outcome outcome_as(DistId id, Value *y, Value *const *par);
Outcome outcome_of_trials(Value *trials, Outcome o); /* binomial */
Outcome outcome_of_categories(Outcome o);            /* categorical: one vector of probabilities */

Value *dist_factor(Eval *E, Value *S, const char *who); /* Cholesky's (dists_vector.c) */

#endif
