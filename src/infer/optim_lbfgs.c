/* optim_lbfgs.c: limited-memory BFGS with a strong Wolfe line search, maximising (Nocedal & Wright
 * 2006, chapters 3.5 and 7.2).
 *
 * The quasi-Newton pairs are s = phi' - phi and y = g - g' (so that s'y > 0 where the objective is
 * concave). H0 is gamma I, or gamma times the objective's own preconditioner, gamma = s'y / y'H0y
 * of the newest pair. Where the objective tells its curvature, or few differences of gradients do,
 * H0 is the inverse of that, made positive definite, and is renewed every RENEWAL iterations, or as
 * many as it costs evaluations: Newton's method, in between corrected by pairs. A failed line
 * search drops the pairs and tries steepest ascent once before giving up. Near the optimum, where
 * differences of values are rounding noise, a point is accepted by its slope alone (the approximate
 * Wolfe condition of Hager & Zhang 2005).
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "infer/optim_int.h"
#include "infer/sparse_hessian.h"
#include "num/linalg.h"

#define ARMIJO 1e-4 /* c1: the least part of the promised gain */
#define WOLFE 0.9   /* c2: the largest part of the slope that may remain */
#define MAX_TRIALS 40
#define MAX_SKIPS 12 /* of them without a finite value */
#define NOISE 1e-13  /* relative error of the objective assumed when values no longer tell */
#define MAX_WINDOW 64
#define RENEWAL 8
#define IN_VAIN 4       /* times as many where it was not to be had */
#define FIRST_RENEWAL 6 /* easy ones end before */
#define PATIENCE 40     /* iterations before the curvature on few draws is tried */
#define FEW_STEP 1e-5   /* of a number's unit, for its differences */
#define MOST_DENSE 600  /* numbers of a curvature that is factored as if none of them were zero, */
#define MOST_EIGEN 200  /* and of one whose eigenvalues are looked at */
#define NO_CURVATURE 1e-8 /* against a unit's */

/* Iterations of one kind, with the curvature by few draws or without: from where on, how many, and
 * what those without gained for an evaluation. */
typedef struct {
  long iterations, evaluations, length, plain_length;
  double value, plain_rate;
} Stretch;

typedef struct {
  Run *r;
  size_t dim, cap, count, next; /* pairs kept: count <= cap; `next` is overwritten next */
  double *s, *y, *rho;          /* [cap x dim], [cap x dim], [cap]: 1 / s'y */
  double *alpha;                /* [cap], scratch of the recursion */
  double *d, *room;             /* the direction; scratch */
  double *try_phi, *try_grad;   /* where the line search looks */
  double *best_phi, *best_grad; /* its best point so far */
  double values[MAX_WINDOW];    /* the last ones, to see what the window of iterations gained */
  bool restarted;               /* the pairs were just dropped */
  long edges;                   /* iterations in a row that were cut short at an edge */
  double *curvature, *root;     /* [dim x dim]: minus the Hessian; its Cholesky factor */
  Straight straight;            /* what is no curvature, and what takes its place */
  double *spectrum;             /* room for eigenvectors */
  bool curved;                  /* the root is there, or the factor of */
  bool whole;                   /* it is the root though there is a */
  SparseHessian *sparse;        /* this; NULL: it was not looked for yet, or is not to be had */
  bool sought;
  double *start;   /* where the run began: there it is looked for, */
  long probes;     /* by so many gradients so far */
  long renewed;    /* one more than the iteration in which it was asked for; 0: never */
  long promised;   /* iterations in a row that by it promised too little */
  Stretch stretch; /* under way, where curvature is by few draws */
  double leapt;    /* what the last leap promised; 0: no more of them */
} Lbfgs;

/* ---- direction: the two-loop recursion ------------------------------------------------------- */

static size_t pair(const Lbfgs *b, size_t k) {
  return (b->next + b->cap - 1 - k) % b->cap;
} /* k = 0: the newest */

/* room = H0 x without gamma; x'H0x, or nan where that is no use. */
static double precondition(Lbfgs *b, const double *x) {
  const Objective *f = b->r->f;
  memcpy(b->room, x, b->dim * sizeof *x);
  if (b->curved && b->sparse && !b->whole) { /* by differences, or few numbers of the curvature */
    sparse_hessian_solve(b->sparse, x, b->room);
  } else if (b->curved) {
    la_cholesky_solve(b->root, x, b->room, b->dim);
  } else if (f->precondition)
    f->precondition(f->self, b->r->phi, b->room);
  double square = la_dot(x, b->room, b->dim);
  return square > 0 && isfinite(square) ? square : (double)NAN;
}

/* What H0 is to be multiplied by; nan where it is no use for y. That of an ELBO has a scale of its
 * own. */
static double gamma_of(Lbfgs *b) {
  if (!b->count || b->curved || b->r->f->leap) return 1;
  size_t p = pair(b, 0);
  return 1 / (b->rho[p] * precondition(b, b->y + p * b->dim));
}

/* d = gamma H0 d */
static void begin_with(Lbfgs *b) {
  size_t n = b->dim, p = b->count ? pair(b, 0) : 0;
  const double *y = b->y + p * n;
  double gamma = gamma_of(b);
  bool plain = isnan(gamma) || isnan(precondition(b, b->d));
  if (plain) gamma = b->count && !b->curved ? 1 / (b->rho[p] * la_dot(y, y, n)) : 1;
  for (size_t i = 0; i < n; i++) b->d[i] = gamma * (plain ? b->d[i] : b->room[i]);
}

/* d = H g */
static void direction(Lbfgs *b) {
  size_t n = b->dim;
  memcpy(b->d, b->r->grad, n * sizeof *b->d);
  for (size_t k = 0; k < b->count; k++) {
    size_t p = pair(b, k);
    b->alpha[p] = b->rho[p] * la_dot(b->s + p * n, b->d, n);
    la_axpy(-b->alpha[p], b->y + p * n, b->d, n);
  }
  begin_with(b);
  for (size_t k = b->count; k-- > 0;) {
    size_t p = pair(b, k);
    double beta = b->rho[p] * la_dot(b->y + p * n, b->d, n);
    la_axpy(b->alpha[p] - beta, b->s + p * n, b->d, n);
  }
}

/* A number in which the objective is a straight line, or nearly so (a mean far out in a tail),
 * would go to the world's end by Newton's step, and if it is exactly one there is none for any of
 * them. So it gets the curvature by which alone it would go as far as it may. */
static void find_straight(Lbfgs *b) {
  const Run *r = b->r;
  const Objective *f = r->f;
  double *least = b->straight.least, *instead = b->straight.instead;
  if (f->unit) f->unit(f->self, r->phi, least);
  for (size_t i = 0; i < b->dim; i++)
    least[i] = f->unit ? NO_CURVATURE / (least[i] * least[i]) : DBL_MIN;
  memcpy(instead, least, b->dim * sizeof *least);
  if (!f->reach) return;
  f->reach(f->self, r->phi, b->room);
  for (size_t i = 0; i < b->dim; i++) instead[i] = fmax(least[i], fabs(r->grad[i]) / b->room[i]);
}

/* root root' = A where that is positive definite; elsewhere pivots are made positive, and large
 * enough that no factor is large (Gill, Murray & Wright 1981, section 4.4.2.2). A has ones on its
 * diagonal, and is destroyed. */
static void decompose_scaled(double *A, double *root, size_t n) {
  const double least = 1e-10;
  for (size_t j = 0; j < n; j++) {
    double most = 0, d = A[j * n + j];
    for (size_t i = j + 1; i < n; i++) most = fmax(most, fabs(A[i * n + j]));
    d = sqrt(fmax(fmax(fabs(d), most * most), least));
    for (size_t i = 0; i < j; i++) root[i * n + j] = 0;
    root[j * n + j] = d;
    for (size_t i = j + 1; i < n; i++) root[i * n + j] = A[i * n + j] / d;
    for (size_t i = j + 1; i < n; i++)
      for (size_t k = j + 1; k <= i; k++) A[i * n + k] -= root[i * n + j] * root[k * n + j];
  }
}

/* root root' = |A|, the matrix with the eigenvectors of A and the size of its eigenvalues: where an
 * objective curves upwards a step is as long as if it curved down (Dauphin et al. 2014).
 * Eigenvalues near zero promise steps beyond where the curvature holds. A has ones on its diagonal.
 * False: A is not finite. */
static bool decompose_absolute(Lbfgs *b, double *A) {
  const double least = 1e-3;
  size_t n = b->dim;
  double *V = b->spectrum, *w = V + n * n, *room = w + n;
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < i; k++) A[k * n + i] = A[i * n + k];
  if (!la_eigen_symmetric(A, w, V, room, n)) return false;
  memset(A, 0, n * n * sizeof *A);
  for (size_t k = 0; k < n; k++) w[k] = sqrt(fmax(fabs(w[k]), least));
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < n; k++) V[i * n + k] *= w[k];
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k <= i; k++) A[i * n + k] = la_dot(V + i * n, V + k * n, n);
  return la_cholesky(A, b->root, n);
}

/* The curvature made positive definite, decomposed; false: it is none. */
static bool decompose(Lbfgs *b) {
  size_t n = b->dim;
  double *A = b->curvature, *scale = b->room;
  bool whole = !b->r->f->curvature && n <= MOST_EIGEN;
  find_straight(b);
  for (size_t i = 0; i < n; i++) {
    if (!isfinite(A[i * n + i])) return false;
    if (fabs(A[i * n + i]) < b->straight.least[i]) A[i * n + i] = b->straight.instead[i];
    scale[i] = sqrt(fabs(A[i * n + i]));
  }
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k <= i; k++) A[i * n + k] /= scale[i] * scale[k];
  if (!whole)
    decompose_scaled(A, b->root, n);
  else if (!la_cholesky(A, b->root, n) && !decompose_absolute(b, A))
    return false;
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k <= i; k++) b->root[i * n + k] *= scale[i];
  return true;
}

static bool gradient_at(void *self, const double *phi, double *grad) {
  double value;
  return optim_eval(self, phi, &value, grad);
}

static bool probe_at(void *self, const double *phi, double *grad) {
  const Lbfgs *b = self;
  const Objective *probe = b->r->f->probe;
  double value;
  return probe->eval(probe->self, phi, &value, grad);
}

/* So many together take about as long as one evaluation. */
static bool probe_until_cancelled(void *self, const double *phi, double *grad) {
  enum { TOGETHER = 64 };
  Lbfgs *b = self;
  Run *r = b->r;
  bool ask = b->probes++ % TOGETHER == 0 && r->o->cancelled;
  r->interrupted = r->interrupted || (ask && r->o->cancelled(r->o->cancelled_self));
  return !r->interrupted && probe_at(self, phi, grad);
}

/* Always from the run's start, so that a run that is taken up again finds the same. */
static void seek_sparse(Lbfgs *b, bool (*at)(void *self, const double *phi, double *grad)) {
  Run *r = b->r;
  Gradient probe = {b->dim, b, at};
  b->sought = true;
  r->f->unit(r->f->self, b->start, b->room);
  b->sparse = sparse_hessian_make(r->arena, &probe, b->start, b->room);
}

/* A gradient of the objective on few draws; false: it is not finite, or nobody waits for it any
 * more. */
static bool few_at(void *self, const double *phi, double *grad) {
  const Lbfgs *b = self;
  Run *r = b->r;
  const Objective *few = r->f->few;
  double value;
  r->interrupted = r->interrupted || (r->o->cancelled && r->o->cancelled(r->o->cancelled_self));
  return !r->interrupted && few->eval(few->self, phi, &value, grad);
}

/* What so many gradients on few draws cost, in evaluations. */
static long price_of(const Lbfgs *b, size_t gradients) {
  return 1 + (long)(b->r->f->few_price * (double)gradients);
}

static bool is_few_close(const Lbfgs *b) { return b->r->f->few && b->r->f->few_close; }

/* What a renewal costs in evaluations, if that is many. */
static long cost_of(const Lbfgs *b) {
  if (!b->sparse) return 0;
  size_t moves = sparse_hessian_moves(b->sparse);
  return is_few_close(b) ? price_of(b, moves + 1) : (long)moves;
}

/* A few numbers' curvature that is not positive definite has eigenvalues. */
static bool make_whole(Lbfgs *b) {
  b->whole = false;
  if (b->dim > MOST_EIGEN || sparse_hessian_is_definite(b->sparse)) return true;
  sparse_hessian_matrix(b->sparse, b->curvature);
  b->whole = true;
  return decompose(b);
}

/* Few draws tell the curvature well enough: pairs of all draws correct it. */
static bool renew_sparse(Lbfgs *b) {
  Run *r = b->r;
  const double *base = r->grad;
  Gradient g = {b->dim, r, gradient_at};
  if (is_few_close(b)) {
    g = (Gradient){b->dim, b, few_at};
    r->evaluations += cost_of(b);
    if (!few_at(b, r->phi, b->try_grad)) return false;
    base = b->try_grad;
  }
  find_straight(b); /* in b->room, too */
  r->f->unit(r->f->self, r->phi, b->room);
  return sparse_hessian_renew(b->sparse, &g, r->phi, base, b->room, &b->straight) && make_whole(b);
}

static bool renew_dense(Lbfgs *b) {
  Run *r = b->r;
  long cost = r->f->curvature(r->f->self, r->phi, b->curvature);
  r->evaluations += cost;
  if (!cost || b->dim <= MOST_DENSE) return cost > 0 && decompose(b);
  if (!b->sparse) b->sparse = sparse_hessian_of(r->arena, b->curvature, b->dim);
  return b->sparse && sparse_hessian_set(b->sparse, b->curvature);
}

/* ---- curvature on few draws ------------------------------------------------------------------ */

static bool is_by_few(const Lbfgs *b) { return b->curved && !b->r->f->curvature && !b->sparse; }

/* Minus the Hessian of the objective on few draws, by differences; false: it is not finite. */
static bool few_curvature(Lbfgs *b) {
  const Objective *f = b->r->f;
  size_t n = b->dim;
  double *A = b->curvature, *at = b->try_phi, *base = b->try_grad, *unit = b->best_grad;
  f->unit(f->self, b->r->phi, unit);
  memcpy(at, b->r->phi, n * sizeof *at);
  if (!few_at(b, at, base)) return false;
  for (size_t k = 0; k < n; k++) {
    double h = FEW_STEP * unit[k];
    at[k] += h;
    if (!few_at(b, at, A + k * n)) return false;
    at[k] = b->r->phi[k];
    for (size_t i = 0; i < n; i++) A[k * n + i] = (base[i] - A[k * n + i]) / h;
  }
  for (size_t k = 0; k < n; k++)
    for (size_t i = 0; i < k; i++)
      A[k * n + i] = A[i * n + k] = 0.5 * (A[k * n + i] + A[i * n + k]);
  return true;
}

static void begin_stretch(Lbfgs *b, long evaluations, long length) {
  const Run *r = b->r;
  b->stretch.iterations = r->iterations;
  b->stretch.evaluations = evaluations;
  b->stretch.value = r->value;
  b->stretch.length = length;
}

/* Where L-BFGS goes on for long the curvature is tried, and stays for as long as an evaluation
 * gains more by it than without; then L-BFGS goes on for twice as long as before. */
static bool renew_by_few(Lbfgs *b) {
  Run *r = b->r;
  Stretch *s = &b->stretch;
  long cost = price_of(b, b->dim + 1), before = r->evaluations;
  if (!s->length) {
    s->plain_length = (long)fmax(PATIENCE, 3 * (double)cost);
    begin_stretch(b, before, s->plain_length);
  }
  if (r->iterations < s->iterations + s->length) return false;
  double rate = (r->value - s->value) / (double)(before - s->evaluations);
  if (b->curved && !(rate > s->plain_rate)) {
    b->curved = false;
    s->plain_length *= 2;
    begin_stretch(b, before, s->plain_length);
    return true;
  }
  bool known = few_curvature(b) && decompose(b);
  if (r->interrupted) return false;
  if (!b->curved) s->plain_rate = rate;
  r->evaluations += cost;
  if (known) b->count = 0;
  b->curved = known;
  if (!known) s->plain_length *= 2;
  begin_stretch(b, before, known ? (long)fmax(RENEWAL, (double)cost) : s->plain_length);
  return true;
}

/* H0 from the curvature here, where it is due; the pairs are of H0s before. False: nothing has
 * changed. */
static bool renew(Lbfgs *b) {
  Run *r = b->r;
  const Objective *f = r->f;
  long first = r->o->near ? 0 : FIRST_RENEWAL;
  if (!f->curvature && !f->probe) return false;
  if (r->iterations < (b->renewed ? b->renewed - 1 + RENEWAL : first)) return false;
  if (!f->curvature && !b->sought) seek_sparse(b, probe_until_cancelled);
  if (!f->curvature && !b->sparse) return f->few && renew_by_few(b);
  bool at_once = r->o->near && !b->renewed; /* whatever it costs */
  if (!f->curvature && !at_once && r->iterations < b->renewed - 1 + cost_of(b)) return false;
  bool before = b->curved, curved = f->curvature ? renew_dense(b) : renew_sparse(b);
  if (r->interrupted) return false;
  b->curved = curved;
  b->renewed = r->iterations + 1;
  if (curved || before) b->count = 0;
  if (!curved) b->renewed += IN_VAIN * cost_of(b);
  return true;
}

/* The pair from phi, grad to the accepted point; left out when the curvature is not safely
 * positive. */
static void remember(Lbfgs *b, const double *phi, const double *grad) {
  size_t n = b->dim;
  double *s = b->s + b->next * n, *y = b->y + b->next * n;
  for (size_t i = 0; i < n; i++) {
    s[i] = phi[i] - b->r->phi[i];
    y[i] = b->r->grad[i] - grad[i];
  }
  double sy = la_dot(s, y, n);
  if (!(sy > 1e-12 * la_norm(s, n) * la_norm(y, n)) || b->cap == 0) return;
  b->rho[b->next] = 1 / sy;
  b->next = (b->next + 1) % b->cap;
  b->count += b->count < b->cap;
}

/* ---- line search ----------------------------------------------------------------------------- */

typedef struct {
  double a, value, slope; /* a step length and what is there */
  bool finite;
} Point;

typedef struct {
  Lbfgs *b;
  Point start, best; /* best: the highest point found that satisfies Armijo; b->best_phi, best_grad
                        belong to it */
  double most;       /* the longest step allowed */
  int trials, skips; /* points looked at, and those among them where nothing is finite */
} Line;

static Point look(Line *l, double a) {
  Lbfgs *b = l->b;
  Point p = {.a = a};
  l->trials++;
  for (size_t i = 0; i < b->dim; i++) b->try_phi[i] = b->r->phi[i] + a * b->d[i];
  p.finite = optim_eval(b->r, b->try_phi, &p.value, b->try_grad);
  l->skips += !p.finite;
  if (p.finite) p.slope = la_dot(b->try_grad, b->d, b->dim);
  return p;
}

/* Armijo's condition; within the rounding noise a point that is not lower will do if its slope is
 * small enough. */
static bool gains(const Line *l, Point p) {
  if (!p.finite) return false;
  double noise = NOISE * fmax(fabs(l->start.value), 1);
  if (p.value >= l->start.value + ARMIJO * p.a * l->start.slope) return true;
  return p.value >= l->start.value - noise && fabs(p.slope) <= WOLFE * l->start.slope &&
         p.a * l->start.slope < 10 * noise;
}

static bool flat(const Line *l, Point p) { return fabs(p.slope) <= WOLFE * l->start.slope; }

static void keep(Line *l, Point p) {
  Lbfgs *b = l->b;
  l->best = p;
  double *t = b->best_phi;
  b->best_phi = b->try_phi, b->try_phi = t;
  t = b->best_grad, b->best_grad = b->try_grad, b->try_grad = t;
}

/* The maximiser of the cubic through two points with slopes; nan when it has none. */
static double cubic(Point p, Point q) {
  double h = q.a - p.a, d1 = p.slope + q.slope - 3 * (q.value - p.value) / h,
         disc = d1 * d1 - p.slope * q.slope;
  if (!(disc >= 0)) return (double)NAN;
  double d2 = copysign(sqrt(disc), h);
  return q.a - h * (q.slope - d1 - d2) / (q.slope - p.slope - 2 * d2);
}

static double clamp(double x, double lo, double hi, double otherwise) {
  if (!(x >= fmin(lo, hi) && x <= fmax(lo, hi)))
    return isnan(x) ? otherwise : fabs(x - lo) < fabs(x - hi) ? lo : hi;
  return x;
}

/* A step between lo, which gains, and hi, which is beyond the best: by the cubic, but not within a
 * tenth of the ends. */
static double between(Point lo, Point hi) {
  double h = hi.a - lo.a;
  if (!hi.finite) return lo.a + 0.2 * h;
  return clamp(cubic(lo, hi), lo.a + 0.1 * h, hi.a - 0.1 * h, lo.a + 0.5 * h);
}

/* Between a point that gains and an edge beyond which nothing is finite no slope need be flat. */
static bool at_edge(const Line *l, Point hi) {
  return !hi.finite && (l->best.a > 0 || l->skips >= MAX_SKIPS);
}

/* What an iteration has to gain. */
static double least_gain(const Run *r) {
  return fmax(r->o->tol_relative * fmax(fabs(r->value), 1), r->o->tol_absolute);
}

/* Where the slope promises nothing worth having between two points, their values differ by noise
 * (that of a differential equation's solution, say), and to look on there finds none that gains. */
static bool is_for_nothing(const Line *l, Point lo, Point hi) {
  const double part = 1e-3;
  return l->best.a == 0 && hi.finite &&
         l->start.slope * fabs(hi.a - lo.a) < part * least_gain(l->b->r);
}

/* Nocedal & Wright, algorithm 3.6. Invariant: lo is the highest point that gains (or the start),
 * and the slope at lo points to hi. */
static void zoom(Line *l, Point lo, Point hi) {
  while (l->trials < MAX_TRIALS && !optim_out_of_evaluations(l->b->r) && !at_edge(l, hi) &&
         !is_for_nothing(l, lo, hi) && fabs(hi.a - lo.a) > 4 * DBL_EPSILON * fabs(hi.a)) {
    Point p = look(l, between(lo, hi));
    if (!gains(l, p) || (p.value <= lo.value && !flat(l, p))) {
      hi = p;
      continue;
    }
    keep(l, p);
    if (flat(l, p)) return;
    if (p.slope * (hi.a - lo.a) <= 0) hi = lo;
    lo = p;
  }
}

/* Nocedal & Wright, algorithm 3.5: longer steps until a maximum is bracketed. True when a gaining
 * point is in best_phi. */
static bool line_search(Line *l, double a) {
  Point last = l->start;
  while (l->trials < MAX_TRIALS && !optim_out_of_evaluations(l->b->r)) {
    Point p = look(l, a);
    if (!gains(l, p) || (l->trials > 1 && p.value <= last.value)) {
      zoom(l, last, p);
      break;
    }
    keep(l, p);
    if (flat(l, p) || p.a >= l->most) break;
    if (p.slope <= 0) {
      zoom(l, p, last);
      break;
    }
    a = fmin(clamp(cubic(last, p), 1.5 * p.a, 10 * p.a, 4 * p.a), l->most);
    last = p;
  }
  return l->best.a > 0;
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Pairs of very many numbers are kept while there is room for them. */
static size_t history(const Run *r) {
  enum { ROOM = 1 << 22, LEAST = 10 }; /* numbers; pairs */
  size_t room = ROOM / (r->f->dim + 1), most = room > LEAST ? room : LEAST;
  return r->o->history < most ? r->o->history : most;
}

static Lbfgs make(Run *r) {
  size_t n = r->f->dim, m = history(r);
  Arena *a = r->arena;
  bool eigen = r->f->probe && n <= MOST_EIGEN;
  size_t square = r->f->curvature || r->f->few || eigen ? n * n : 0,
         dense = n <= MOST_DENSE ? square : 0;
  return (Lbfgs){.r = r,
                 .curvature = NEW_ARRAY(a, double, square),
                 .root = NEW_ARRAY(a, double, dense),
                 .spectrum = NEW_ARRAY(a, double, eigen ? 2 * n *n + 3 * n : 0),
                 .straight = {NEW_ARRAY(a, double, n), NEW_ARRAY(a, double, n)},
                 .dim = n,
                 .leapt = r->f->leap ? INFINITY : 0,
                 .start = memcpy(NEW_ARRAY(a, double, n), r->phi, n * sizeof *r->phi),
                 .cap = m,
                 .s = NEW_ARRAY(a, double, (m + 1) * n),
                 .y = NEW_ARRAY(a, double, (m + 1) * n),
                 .rho = NEW_ARRAY(a, double, m + 1),
                 .alpha = NEW_ARRAY(a, double, m + 1),
                 .d = NEW_ARRAY(a, double, n),
                 .room = NEW_ARRAY(a, double, n),
                 .try_phi = NEW_ARRAY(a, double, n),
                 .try_grad = NEW_ARRAY(a, double, n),
                 .best_phi = NEW_ARRAY(a, double, n),
                 .best_grad = NEW_ARRAY(a, double, n)};
}

/* The longest step along d that moves no number further than it may. */
static double longest_step(const Lbfgs *b) {
  const Objective *f = b->r->f;
  double most = INFINITY;
  if (!f->reach) return most;
  f->reach(f->self, b->r->phi, b->room);
  for (size_t i = 0; i < b->dim; i++)
    if (b->d[i] != 0) most = fmin(most, b->room[i] / fabs(b->d[i]));
  return most > 0 ? most : INFINITY;
}

/* Without any curvature known, the first step is no longer than 1. */
static double first_step(const Lbfgs *b) {
  if (b->count > 0 || b->curved || b->r->f->precondition) return 1;
  return fmin(1, 1 / la_norm(b->d, b->dim));
}

/* The way to where a leap leads, and the slope along it. Near the optimum the first ones are
 * Newton's steps; they are made for as long as each promises much less than the one before, and
 * then the pairs do better. */
static bool leap(Lbfgs *b, double *promise, double *leapt) {
  const double much = 0.25;
  Run *r = b->r;
  if (b->leapt == 0 || b->curved) return false;
  *leapt = 0;
  if (!r->f->leap(r->f->self, r->phi, r->grad, b->d)) return false;
  for (size_t i = 0; i < b->dim; i++) b->d[i] -= r->phi[i];
  *promise = la_dot(r->grad, b->d, b->dim);
  if (!(*promise > 0 && *promise < much * b->leapt)) return false;
  *leapt = *promise;
  return true;
}

/* One iteration from (phi, grad, value); false when no step gains. *promise is the slope along the
 * direction. */
static bool iterate(Lbfgs *b, double *promise) {
  Run *r = b->r;
  double leapt = b->leapt; /* the state stays what it is until the step is made */
  bool leaps = leap(b, promise, &leapt);
  if (!leaps) {
    direction(b);
    *promise = la_dot(r->grad, b->d, b->dim);
  }
  if (!(*promise > 0) || !isfinite(*promise)) return false;
  Line l = {.b = b, .start = {0, r->value, *promise, true}, .most = longest_step(b)};
  double first = fmin(leaps ? 1 : first_step(b), l.most);
  bool found = line_search(&l, first);
  if (r->interrupted) return false;
  b->leapt = leapt;
  b->edges = l.skips > 2 && l.best.a < 1e-3 * first ? b->edges + 1 : 0;
  if (!found) return false;
  remember(b, b->best_phi, b->best_grad);
  double *t = r->phi;
  r->phi = b->best_phi, b->best_phi = t;
  t = r->grad, r->grad = b->best_grad, b->best_grad = t;
  r->value = l.best.value;
  r->step = l.best.a;
  r->gradient_norm = la_norm(r->grad, b->dim);
  return true;
}

static bool gained_little(Lbfgs *b, long t) {
  const Run *r = b->r;
  long w = r->o->tol_window < 1 ? 1 : r->o->tol_window > MAX_WINDOW ? MAX_WINDOW : r->o->tol_window;
  double old = b->values[t % w];
  b->values[t % w] = r->value;
  return t >= w && r->value - old <= (double)w * least_gain(r);
}

/* By Newton's method half of what the slope promises is all that is left to gain; what few draws
 * tell of the curvature is too little for that. */
static bool promised_little(Lbfgs *b, double promise) {
  bool newton = b->curved && !is_by_few(b) && !is_few_close(b);
  b->promised = newton && promise <= least_gain(b->r) ? b->promised + 1 : 0;
  return b->promised > 1;
}

/* What iterations to come depend on, besides phi, its gradient and the counts: the pairs that are
 * kept, newest first, the window of values, and whether the pairs were just dropped. Between two
 * pauses only scratch changes. */
static void state(void *own, Archive *a) {
  Lbfgs *b = own;
  size_t n = b->dim;
  archive_count(a, &b->count, b->cap);
  archive_count(a, &b->next, b->cap);
  for (size_t k = 0; k < b->count; k++) {
    size_t p = pair(b, k);
    archive_doubles(a, b->s + p * n, n);
    archive_doubles(a, b->y + p * n, n);
    archive_double(a, &b->rho[p]);
  }
  archive_doubles(a, b->values, MAX_WINDOW);
  archive_bool(a, &b->restarted);
  archive_long(a, &b->edges);
  archive_bool(a, &b->curved);
  archive_long(a, &b->renewed);
  archive_long(a, &b->promised);
  archive_double(a, &b->leapt);
  if (b->curved && b->r->f->curvature && n <= MOST_DENSE) archive_doubles(a, b->root, n * n);
  if (b->curved && b->r->f->curvature && n > MOST_DENSE)
    sparse_hessian_whole_state(b->r->arena, &b->sparse, n, a);
  archive_long(a, &b->stretch.iterations);
  archive_long(a, &b->stretch.evaluations);
  archive_long(a, &b->stretch.length);
  archive_long(a, &b->stretch.plain_length);
  archive_double(a, &b->stretch.value);
  archive_double(a, &b->stretch.plain_rate);
  bool by_few = is_by_few(b);
  archive_bool(a, &by_few);
  if (by_few && !b->r->f->few) a->bad = true;
  if (by_few && !a->bad) archive_doubles(a, b->root, n * n);
  archive_bool(a, &b->whole);
  if (b->whole && n > MOST_EIGEN) a->bad = true;
  if (b->curved && b->whole && !a->bad) archive_doubles(a, b->root, n * n);
  if (b->curved && !b->r->f->curvature && !by_few) {
    if (!b->sought) seek_sparse(b, probe_at);
    if (b->sparse)
      sparse_hessian_state(b->sparse, a);
    else
      a->bad = true;
  }
}

/* Where the first iteration begins, or where an interrupted run was. */
static bool begin(Lbfgs *b) {
  Run *r = b->r;
  if (r->o->resume) {
    optim_state(r, r->o->resume);
    return !r->o->resume->bad;
  }
  if (!optim_eval(r, r->phi, &r->value, r->grad)) return false;
  r->gradient_norm = la_norm(r->grad, b->dim);
  gained_little(b, 0);
  return true;
}

/* No step gains: is there nothing left to gain beyond the tolerance? `promise` is the slope. */
static bool nothing_left(const Run *r, double promise) {
  return promise >= 0 && promise <= 100 * least_gain(r);
}

OptimStatus optim_lbfgs(Run *r, StepFn *unused, int vectors) {
  (void)unused, (void)vectors;
  double promise = 0;
  Lbfgs b = make(r);
  r->own = &b;
  r->own_state = state;
  if (!begin(&b)) return r->interrupted ? optim_interrupted(r) : OPTIM_NOT_FINITE;
  for (;;) {
    optim_pause(r);
    if (renew(&b)) optim_pause(r);
    if (r->interrupted) return optim_interrupted(r);
    if (r->gradient_norm <= r->o->tol_gradient) return OPTIM_CONVERGED;
    if (r->iterations >= r->o->max_iterations || optim_out_of_evaluations(r)) return OPTIM_LIMIT;
    if (!iterate(&b, &promise)) {
      if (r->interrupted) return optim_interrupted(r);
      if (optim_out_of_evaluations(r)) return OPTIM_LIMIT;
      if (nothing_left(r, promise)) return OPTIM_CONVERGED;
      if (b.restarted) return b.edges ? OPTIM_EDGE : OPTIM_STUCK;
      b.count = 0;
      b.restarted = true;
      continue;
    }
    b.restarted = false;
    r->iterations++;
    if (r->f->iteration) r->f->iteration(r->f->self, r->iterations - 1);
    if (!optim_observe(r)) return OPTIM_STOPPED;
    if (gained_little(&b, r->iterations) || promised_little(&b, promise))
      return b.edges > 1 ? OPTIM_EDGE : OPTIM_CONVERGED;
  }
}
