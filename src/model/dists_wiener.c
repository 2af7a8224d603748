/* dists_wiener.c: the time at which a Wiener process with drift first passes the upper one of two
 * bounds; its density, and how likely it comes before or after a time. dist.h tells how to read the
 * heads.
 *
 * The bounds are alpha apart, the start is at alpha beta, the drift is delta, and the clock starts
 * tau late; w = 1 - beta is how far it is to go. From trial to trial the drift may vary as a normal
 * distribution of sd s_v, beta uniformly over s_w, tau uniformly over (tau, tau + s_t): the first
 * has a closed form, the others are integrated by Gauss-Legendre quadrature. The probability of a
 * passage before or after a time is the integral of the density over log time, on which it is
 * smooth and no wider than a few units. */
#include "model/dist.h"
#include "model/fun.h"
#include "num/legendre.h"

#include <math.h>

enum { TIME_NODES = 80, START_NODES = 11, DELAY_NODES = 15 };
/* Beyond an exponent of this size nothing counts. */
static const double NEGLIGIBLE = 45;

typedef struct {
  Value *y, *alpha, *tau, *beta, *delta;
  Value *sv, *sw, *st; /* NULL: none */
  int32_t n;           /* elements of the longest */
} Passage;

static bool is_zero(const Value *v) {
  for (int32_t k = 0; v->known && k < value_total(v); k++)
    if (v->v[k] != 0) return false;
  return v->known;
}

/* (y, alpha, tau, beta, delta [, s_v [, s_w, s_t]]); a precision may follow, which is not needed.
 */
static Passage passage_of(Value **a, int n) {
  Passage p = {.y = a[0], .alpha = a[1], .tau = a[2], .beta = a[3], .delta = a[4], .n = 1};
  if (n > 5 && !is_zero(a[5])) p.sv = a[5];
  if (n > 7 && !is_zero(a[6])) p.sw = a[6];
  if (n > 7 && !is_zero(a[7])) p.st = a[7];
  for (int k = 0; k < n && k < 8; k++)
    if (a[k]->n > p.n) p.n = a[k]->n;
  return p;
}

/* The log density of passing at t, w to go. With a drift that is normal around delta,
 * exp((s^2 (alpha w)^2 + 2 delta alpha w - delta^2 t) / (2 (1 + s^2 t))) / sqrt(1 + s^2 t)
 * takes the place of exp(delta alpha w - delta^2 t / 2). */
static Value *log_density(Eval *E, const Passage *p, Value *t, Value *w) {
  Value *far = MUL(p->alpha, w), *r = map2(E, IR_LOG_PASSAGE, DIV(t, M(SQUARE, p->alpha)), w);
  r = SUB(r, MUL(NUM(2), M(LOG, p->alpha)));
  if (!p->sv) return ADD(r, MUL(p->delta, SUB(far, MUL(NUM(0.5), MUL(p->delta, t)))));
  Value *s = M(SQUARE, p->sv), *spread = MUL(s, map2(E, IR_FMAX, t, NUM(0)));
  Value *top = ADD(MUL(s, M(SQUARE, far)), MUL(p->delta, SUB(MUL(NUM(2), far), MUL(p->delta, t))));
  Value *below = ADD(NUM(1), spread);
  return ADD(r, MUL(NUM(0.5), SUB(DIV(top, below), M(LOG, below))));
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Every element K times. */
static Value *repeat(Eval *E, Value *v, int32_t K) {
  if (!v || v->n == 1) return v;
  int32_t n = v->n * K, *index = NEW_ARRAY(E->arena, int32_t, n);
  for (int32_t e = 0; e < n; e++) index[e] = e / K;
  return value_take(E, v, value_shape(E, TY_VECTOR, 0, 1, &n), NULL, index);
}

static Passage repeat_all(Eval *E, const Passage *p, int32_t K) {
  return (Passage){.y = repeat(E, p->y, K),
                   .alpha = repeat(E, p->alpha, K),
                   .tau = repeat(E, p->tau, K),
                   .beta = repeat(E, p->beta, K),
                   .delta = repeat(E, p->delta, K),
                   .sv = repeat(E, p->sv, K),
                   .sw = repeat(E, p->sw, K),
                   .st = repeat(E, p->st, K),
                   .n = p->n * K};
}

/* The rule's nodes and log weights, for each of the elements. */
typedef struct {
  int32_t K;
  Value *x, *log_weight;
} Nodes;

static Nodes nodes_of(Eval *E, int32_t K, int32_t elements) {
  Nodes r = {K, value_vector(E, K * elements), value_vector(E, K * elements)};
  double *x = NEW_ARRAY(E->arena, double, K), *w = NEW_ARRAY(E->arena, double, K);
  legendre_rule((size_t)K, x, w);
  for (int32_t e = 0; e < K * elements; e++) {
    r.x->v[e] = x[e % K];
    r.log_weight->v[e] = log(w[e % K]);
  }
  return r;
}

/* The log of a weighted sum, K terms each. */
static Value *joined(Eval *E, const Nodes *r, Value *log_terms, const Passage *p) {
  Value *all = ADD(r->log_weight, log_terms);
  return value_reduce_rows(E, IR_LSE, all, r->K, value_shape(E, TY_VECTOR, 0, 1, &p->n));
}

/* ---- over time, start and delay -------------------------------------------------------------- */

typedef enum { AT, BEFORE, AFTER } Side;

/* The integral over log time of t f(t), below T or above it. Below, nothing counts from where
 * (alpha w)^2 / (2 t) is NEGLIGIBLE more than at T; above, from where the slowest term,
 * exp(-pi^2 t / (2 alpha^2)), is so much less. */
static Value *over_time(Eval *E, const Passage *p, Value *T, Value *w, Side side) {
  Nodes r = nodes_of(E, TIME_NODES, p->n);
  Passage q = repeat_all(E, p, r.K);
  Value *far2 = M(SQUARE, MUL(p->alpha, w)), *low, *range;
  if (side == BEFORE) {
    range = M(LOG1P, DIV(MUL(NUM(2 * NEGLIGIBLE), T), far2));
    low = SUB(M(LOG, T), range);
  } else {
    Value *from = map2(E, IR_FMAX, T, DIV(far2, NUM(2 * NEGLIGIBLE)));
    Value *wide = MUL(NUM(2 * NEGLIGIBLE / (M_PI * M_PI)), M(SQUARE, p->alpha));
    low = M(LOG, from);
    range = M(LOG1P, DIV(wide, from));
  }
  Value *log_t = ADD(repeat(E, low, r.K), MUL(repeat(E, range, r.K), r.x));
  Value *f = log_density(E, &q, M(EXP, log_t), repeat(E, w, r.K));
  return ADD(joined(E, &r, ADD(f, log_t), p), M(LOG, range));
}

static Value *at_start(Eval *E, const Passage *p, Value *T, Value *w, Side side) {
  return side == AT ? log_density(E, p, T, w) : over_time(E, p, T, w, side);
}

/* The mean over the start. */
static Value *over_start(Eval *E, const Passage *p, Value *T, Side side) {
  Value *w = SUB(NUM(1), p->beta);
  if (!p->sw) return at_start(E, p, T, w, side);
  Nodes r = nodes_of(E, START_NODES, p->n);
  Passage q = repeat_all(E, p, r.K);
  Value *moved = ADD(repeat(E, w, r.K), MUL(q.sw, SUB(r.x, NUM(0.5))));
  return joined(E, &r, at_start(E, &q, repeat(E, T, r.K), moved, side), p);
}

/* The mean over the delay, of which only what is shorter than the time can have passed: `share` of
 * it. After the time remains also whatever starts later. */
static Value *over_delay(Eval *E, const Passage *p, Side side) {
  Value *T = SUB(p->y, p->tau);
  if (!p->st) {
    if (side != BEFORE) return over_start(E, p, T, side);
    Value *begun = LESS(NUM(0), T);
    return CHOOSE(begun, over_start(E, p, CHOOSE(begun, T, NUM(1)), side), NUM(-INFINITY));
  }
  Value *begun = LESS(NUM(0), T), *time = CHOOSE(begun, T, NUM(1));
  Value *length = map2(E, IR_FMIN, p->st, time);
  Nodes r = nodes_of(E, DELAY_NODES, p->n);
  Passage q = repeat_all(E, p, r.K);
  Value *later = SUB(repeat(E, time, r.K), MUL(repeat(E, length, r.K), r.x));
  Value *log_share = SUB(M(LOG, length), M(LOG, p->st));
  Value *value = ADD(joined(E, &r, over_start(E, &q, later, side), p), log_share);
  if (side != AFTER) return CHOOSE(begun, value, NUM(-INFINITY));
  Value *all = over_start(E, p, MUL(NUM(0), time), AFTER);
  Value *rest = CHOOSE(LESS(time, p->st), ADD(all, M(LOG1M, M(EXP, log_share))), NUM(-INFINITY));
  return CHOOSE(begun, map2(E, IR_LOG_SUM_EXP2, value, rest), all);
}

LPDF(wiener) {
  Passage p = passage_of(a, n);
  return over_delay(E, &p, AT);
}

/* Of passing the upper bound at all: the two together have its probability. */
FN(wiener_lcdf_unnorm) {
  Passage p = passage_of(a, n);
  return value_sum(E, over_delay(E, &p, BEFORE));
}
FN(wiener_lccdf_unnorm) {
  Passage p = passage_of(a, n);
  return value_sum(E, over_delay(E, &p, AFTER));
}
