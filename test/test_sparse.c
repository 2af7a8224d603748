/* test_sparse.c: factors of sparse matrices, Hessians by few differences, and Newton's method with
 * both. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "infer/meetings.h"
#include "infer/optim.h"
#include "infer/sparse_hessian.h"
#include "interruption.h"
#include "num/linalg.h"
#include "num/rng.h"
#include "num/sparse.h"

static Ctx ctx;

static int setup(void **unused) {
  (void)unused;
  ctx_init(&ctx);
  return 0;
}
static int teardown(void **unused) {
  (void)unused;
  ctx_free(&ctx);
  return 0;
}

/* ---- matrices -------------------------------------------------------------------------------- */

/* Who meets whom: groups that share some numbers, chains, rows crossed with columns, or anybody. */
typedef enum { ARROW, CHAIN, CROSSED, ANY, SHAPES } Net;

enum { GLOBALS = 3, SIDE = 5 };

static bool meet(Net shape, RngStream *r, size_t i, size_t k, size_t n) {
  size_t lo = i < k ? i : k, hi = i < k ? k : i;
  switch (shape) {
  case ARROW: return lo < GLOBALS || lo / 2 == hi / 2;
  case CHAIN: return hi - lo <= 1 || lo == 0;
  case CROSSED: return lo < SIDE && hi >= SIDE && (hi + lo) % 3 == 0 && hi < n;
  default: return rngs_uniform(r) < 0.2;
  }
}

/* A symmetric matrix, dense; definite: its diagonal outweighs the rest. */
static double *make_matrix(Net shape, uint64_t seed, size_t n, bool definite) {
  RngStream r = rngs_make(seed, 7);
  double *A = NEW_ARRAY(&ctx.arena, double, n *n);
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < i; k++)
      if (meet(shape, &r, i, k, n)) A[i * n + k] = A[k * n + i] = rngs_normal(&r);
  for (size_t i = 0; i < n; i++) {
    double sum = 0.1;
    for (size_t k = 0; k < n; k++) sum += k == i ? 0 : fabs(A[i * n + k]);
    A[i * n + i] = definite ? sum : rngs_normal(&r) + 0.01;
  }
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < n; k++) A[i * n + k] *= pow(10, (double)(i % 5) + (double)(k % 5) - 4);
  return A;
}

static SparsePattern *pattern_of(const double *A, size_t n, double **x) {
  SparsePattern *p = NEW(&ctx.arena, SparsePattern);
  size_t *first = NEW_ARRAY(&ctx.arena, size_t, n + 1), all = 0;
  int32_t *row = NEW_ARRAY(&ctx.arena, int32_t, n * n);
  *x = NEW_ARRAY(&ctx.arena, double, n *n);
  for (size_t k = 0; k < n; k++) {
    for (size_t i = 0; i < n; i++)
      if (i == k || A[i * n + k] != 0) row[all] = (int32_t)i, (*x)[all++] = A[i * n + k];
    first[k + 1] = all;
  }
  *p = (SparsePattern){n, first, row};
  return p;
}

/* |A x - b| against |b|, in the matrix's own units. */
static void assert_solves(const double *A, const double *x, const double *b, size_t n) {
  double *y = NEW_ARRAY(&ctx.arena, double, n);
  la_matvec(A, x, y, n, n);
  for (size_t i = 0; i < n; i++) {
    double unit = fabs(b[i]);
    for (size_t k = 0; k < n; k++) unit = fmax(unit, fabs(A[i * n + k] * x[k]));
    assert_true(fabs(y[i] - b[i]) <= 1e-10 * unit);
  }
}

static void solves(void **unused) {
  (void)unused;
  for (int shape = 0; shape < SHAPES; shape++)
    for (uint64_t seed = 1; seed <= 40; seed++) {
      size_t n = 1 + (size_t)(seed * 7 % 40);
      double *x, *A = make_matrix((Net)shape, seed, n, true), *b = NEW_ARRAY(&ctx.arena, double, n);
      SparseFactor *f = sparse_factor_make(&ctx.arena, pattern_of(A, n, &x), n * n);
      for (size_t i = 0; i < n; i++) b[i] = sin((double)(i + seed));
      double *y = NEW_ARRAY(&ctx.arena, double, n);
      assert_true(f && sparse_factor(f, x));
      sparse_solve(f, b, y);
      assert_solves(A, y, b, n);
      memcpy(y, b, n * sizeof *b);
      sparse_solve(f, y, y); /* in place */
      assert_solves(A, y, b, n);
    }
}

/* What is factored of a matrix that is not definite is: b' H b > 0. */
static void made_definite(void **unused) {
  (void)unused;
  for (int shape = 0; shape < SHAPES; shape++)
    for (uint64_t seed = 1; seed <= 40; seed++) {
      size_t n = 2 + (size_t)(seed * 11 % 30);
      double *x, *A = make_matrix((Net)shape, seed, n, false), b[32], y[32];
      SparseFactor *f = sparse_factor_make(&ctx.arena, pattern_of(A, n, &x), n * n);
      assert_true(sparse_factor(f, x));
      for (size_t e = 0; e < n; e++) {
        for (size_t i = 0; i < n; i++) b[i] = i == e ? 1 : 0.1 * cos((double)(i * e));
        sparse_solve(f, b, y);
        assert_true(la_dot(b, y, n) > 0);
      }
    }
  double x[] = {1, 0.5, 0.5, 0};
  SparsePattern p = {2, (size_t[]){0, 2, 4}, (int32_t[]){0, 1, 0, 1}};
  assert_false(sparse_factor(sparse_factor_make(&ctx.arena, &p, 10), x));
  x[3] = (double)NAN;
  assert_false(sparse_factor(sparse_factor_make(&ctx.arena, &p, 10), x));
}

/* Groups leave next to nothing, in whatever order they come; and there is a limit. */
static void few_numbers(void **unused) {
  (void)unused;
  size_t n = 400, count;
  double *x, *A = make_matrix(ARROW, 1, n, true), *chain = make_matrix(CHAIN, 1, n, true);
  sparse_numbers(sparse_factor_make(&ctx.arena, pattern_of(A, n, &x), n * n), &count);
  assert_true(count <= 2 * n + (GLOBALS + 2) * n);
  sparse_numbers(sparse_factor_make(&ctx.arena, pattern_of(chain, n, &x), n * n), &count);
  assert_true(count <= 2 * n + 4 * n);
  assert_null(sparse_factor_make(&ctx.arena, pattern_of(A, n, &x), n));
}

/* ---- Hessians -------------------------------------------------------------------------------- */

/* -1/2 (x - 1)' A (x - 1) - 1/4 c sum (x_i - 1)^4: its Hessian at 1 is -A. */
typedef struct {
  const double *A;
  size_t n;
  double quartic;
  long asked;
} Bowl;

static bool bowl(void *self, const double *x, double *value, double *g) {
  Bowl *b = self;
  *value = 0;
  b->asked++;
  for (size_t i = 0; i < b->n; i++) {
    double sum = 0, d = x[i] - 1;
    for (size_t k = 0; k < b->n; k++)
      if (b->A[i * b->n + k] != 0) sum += b->A[i * b->n + k] * (x[k] - 1);
    g[i] = -sum - b->quartic * d * d * d;
    *value -= 0.5 * d * sum + 0.25 * b->quartic * d * d * d * d;
  }
  return true;
}

static bool bowl_gradient(void *self, const double *x, double *g) {
  double value;
  return bowl(self, x, &value, g);
}

/* In the units of the matrices above. */
static void units(void *self, const double *x, double *unit) {
  const Bowl *b = self;
  (void)x;
  for (size_t i = 0; i < b->n; i++) unit[i] = pow(10, 2 - (double)(i % 5));
}

/* Newton's step from anywhere in a quadratic bowl is the way to its bottom; where few moves are
 * enough, few are made. */
static void hessians(void **unused) {
  (void)unused;
  static const size_t fewest[SHAPES] = {[ARROW] = GLOBALS + 3, [CHAIN] = 5, [CROSSED] = 8};
  for (int shape = 0; shape < SHAPES; shape++)
    for (uint64_t seed = 1; seed <= 20; seed++) {
      size_t n = shape == ANY ? 6 + (size_t)seed % 5 : 40 + (size_t)seed;
      Bowl b = {.A = make_matrix((Net)shape, seed, n, true), .n = n};
      double phi[64], base[64], unit[64], step[64];
      Straight none = {(double[64]){0}, NULL};
      for (size_t i = 0; i < n; i++) phi[i] = cos((double)i);
      units(&b, phi, unit);
      Gradient g = {n, &b, bowl_gradient};
      SparseHessian *h = sparse_hessian_make(&ctx.arena, &g, phi, unit);
      assert_non_null(h);
      size_t moves = sparse_hessian_moves(h);
      if (shape != ANY) assert_true(moves <= fewest[shape]);
      bowl_gradient(&b, phi, base);
      b.asked = 0;
      assert_true(sparse_hessian_renew(h, &g, phi, base, unit, &none));
      assert_int_equal(b.asked, moves);
      sparse_hessian_solve(h, base, step);
      for (size_t i = 0; i < n; i++) assert_true(fabs(phi[i] + step[i] - 1) < 1e-5 * unit[i]);
    }
}

/* With everybody meeting everybody it is not worth it, which is seen early; and a gradient that is
 * not finite ends it. */
static bool broken(void *self, const double *x, double *g) {
  bowl_gradient(self, x, g);
  return x[0] <= 1;
}

static void not_to_be_had(void **unused) {
  (void)unused;
  size_t n = 60;
  double *A = NEW_ARRAY(&ctx.arena, double, n *n), phi[60], base[60], unit[60];
  Straight none = {(double[60]){0}, NULL};
  for (size_t i = 0; i < n * n; i++) A[i] = i % (n + 1) ? 0.001 : 1;
  for (size_t i = 0; i < n; i++) phi[i] = 0.999, unit[i] = 1;
  Bowl b = {.A = A, .n = n};
  Gradient g = {n, &b, bowl_gradient};
  assert_null(sparse_hessian_make(&ctx.arena, &g, phi, unit));
  assert_true(b.asked < (long)n / 2);
  b.A = make_matrix(ARROW, 3, n, true);
  SparseHessian *h = sparse_hessian_make(&ctx.arena, &g, phi, unit);
  bowl_gradient(&b, phi, base);
  phi[0] = 1;
  g.at = broken;
  assert_false(sparse_hessian_renew(h, &g, phi, base, unit, &none));
  phi[0] = 0.9999;
  assert_null(sparse_hessian_make(&ctx.arena, &g, phi, unit));
}

/* ---- who meets whom -------------------------------------------------------------------------- */

static bool is_listed(const Meetings *m, size_t k, size_t i) {
  for (size_t e = m->first[k]; e < m->first[k + 1]; e++)
    if (m->row[e] == (int32_t)i) return true;
  return false;
}

/* Numbers are listed in order, only those that meet, and every pair by one of the two at least. */
static void assert_meetings(const double *A, const Meetings *m, size_t n) {
  for (size_t k = 0; k < n; k++)
    for (size_t e = m->first[k]; e < m->first[k + 1]; e++) {
      assert_true(m->row[e] == (int32_t)k || A[(size_t)m->row[e] * n + k] != 0);
      assert_true(e == m->first[k] || m->row[e] > m->row[e - 1]);
    }
  for (size_t k = 0; k < n; k++)
    for (size_t i = 0; i <= k; i++)
      if (A[i * n + k] != 0) assert_true(is_listed(m, k, i) || is_listed(m, i, k));
}

/* Of many numbers that meet few, a part of the moves tells as much as all would. */
static void in_groups(void **unused) {
  (void)unused;
  for (int shape = ARROW; shape <= CROSSED; shape++)
    for (size_t n = 500; n <= 900; n += 133) {
      Bowl b = {.A = make_matrix((Net)shape, n, n, true), .n = n};
      double *phi = NEW_ARRAY(&ctx.arena, double, n), *unit = NEW_ARRAY(&ctx.arena, double, n);
      for (size_t i = 0; i < n; i++) phi[i] = cos((double)i);
      units(&b, phi, unit);
      Meetings m;
      Gradient g = {n, &b, bowl_gradient};
      assert_true(meetings_find(&ctx.arena, &g, phi, unit, 64, &m));
      assert_meetings(b.A, &m, n);
      assert_true(b.asked < (long)n / 3);
    }
}

/* Blocks of numbers that all meet each other. */
static double *make_blocks(size_t n, size_t block) {
  double *A = NEW_ARRAY(&ctx.arena, double, n *n);
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < n; k++)
      if (i / block == k / block) A[i * n + k] = i == k ? 2.0 * (double)block : 1;
  return A;
}

/* Where each meets many, one by one; and where they are too many, or the probe breaks, no answer.
 */
static void one_after_the_other(void **unused) {
  (void)unused;
  enum { N = 600 };
  static double phi[N], unit[N];
  for (size_t i = 0; i < N; i++) phi[i] = 0.98, unit[i] = 1;
  Bowl b = {.A = make_blocks(N, 30), .n = N};
  Gradient g = {N, &b, bowl_gradient};
  Meetings m;
  assert_true(meetings_find(&ctx.arena, &g, phi, unit, 64, &m));
  assert_meetings(b.A, &m, N);
  b = (Bowl){.A = make_blocks(N, 100), .n = N};
  assert_false(meetings_find(&ctx.arena, &g, phi, unit, 64, &m));
  assert_true(b.asked < N / 3);
  for (double edge = 0.985; edge < 1; edge += 0.01) {
    b = (Bowl){.A = make_blocks(N, 2), .n = N};
    phi[0] = edge;
    g.at = broken;
    assert_int_equal(meetings_find(&ctx.arena, &g, phi, unit, 64, &m), edge < 0.99);
  }
}

static void one_unit(void *self, const double *x, double *unit) {
  const Bowl *b = self;
  (void)x;
  for (size_t i = 0; i < b->n; i++) unit[i] = 1;
}

/* ---- the optimizer --------------------------------------------------------------------------- */

static OptimResult climb_with(OptimOptions o, const Objective *f, Interruption *k,
                              const Interruption *from) {
  double *x0 = NEW_ARRAY(&ctx.arena, double, f->dim);
  k->state = text_make(&ctx.arena);
  o.tol_relative = 1e-14;
  o.cancelled = asked_to_stop;
  o.cancelled_self = k;
  o.pause = keep_state;
  o.pause_self = k;
  Archive in = from ? archive_reader(from->state.s, from->state.n) : (Archive){0};
  if (from && from->state.n) o.resume = &in;
  return optim_run(&ctx.arena, f, x0, &o);
}

static OptimResult climb(const Objective *f, Interruption *k, const Interruption *from) {
  return climb_with(optim_defaults(OPTIM_LBFGS), f, k, from);
}

/* Near the top the curvature is there at once. */
static void near_the_top(void **unused) {
  (void)unused;
  for (uint64_t seed = 1; seed <= 10; seed++) {
    Bowl b = {.A = make_matrix(ARROW, seed, 200, true), .n = 200};
    Objective probe = {.dim = b.n, .self = &b, .eval = bowl, .unit = units}, f = probe;
    f.probe = &probe;
    OptimOptions o = optim_defaults(OPTIM_LBFGS);
    o.near = true;
    Interruption never = {.stop = -1};
    OptimResult r = climb_with(o, &f, &never, NULL);
    assert_true(r.converged && r.iterations <= 4);
  }
}

/* With a probe the same top is reached in fewer evaluations, all of which are counted. */
static void newton(void **unused) {
  (void)unused;
  for (uint64_t seed = 1; seed <= 10; seed++) {
    Bowl b = {.A = make_matrix(ARROW, seed, 200, true), .n = 200, .quartic = 3}, cheap = b;
    Objective probe = {.dim = b.n, .self = &cheap, .eval = bowl, .unit = units};
    Objective f = {.dim = b.n, .self = &b, .eval = bowl, .unit = units}, g = f;
    g.probe = &probe;
    Interruption never = {.stop = -1};
    OptimResult plain = climb(&f, &never, NULL);
    b.asked = 0;
    OptimResult r = climb(&g, &never, NULL);
    assert_true(r.converged && r.evaluations == b.asked && r.evaluations < plain.evaluations / 2);
    double unit[200];
    units(&b, r.phi, unit);
    for (size_t i = 0; i < b.n; i++) assert_true(fabs(r.phi[i] - 1) < 1e-5 * unit[i]);
  }
}

/* Wherever it is interrupted, among the probe's moves, too, it ends with the same bits. */
static void interrupted(void **unused) {
  (void)unused;
  Bowl b = {.A = make_matrix(ARROW, 3, 16, true), .n = 16, .quartic = 3};
  Objective probe = {.dim = b.n, .self = &b, .eval = bowl, .unit = units}, f = probe;
  f.probe = &probe;
  Interruption never = {.stop = -1};
  OptimResult whole = climb(&f, &never, NULL);
  assert_true(whole.iterations > 10);
  for (long at = 0; at < never.asked; at++) {
    Interruption first = {.stop = at}, second = {.stop = 25}, last = {.stop = -1};
    OptimResult r = climb(&f, &first, NULL);
    assert_int_equal(r.status, OPTIM_INTERRUPTED);
    r = climb(&f, &second, &first);
    if (r.status == OPTIM_INTERRUPTED) r = climb(&f, &last, &second);
    assert_memory_equal(r.phi, whole.phi, b.n * sizeof *r.phi);
    assert_true(r.value == whole.value && r.iterations == whole.iterations &&
                r.evaluations == whole.evaluations && r.status == whole.status);
  }
}

/* The last number is on a straight line, as long as the way is to a wall. */
static bool straight(void *self, const double *x, double *value, double *g) {
  const double slope = 0.01, wall = 30;
  size_t last = ((Bowl *)self)->n - 1;
  bool ok = bowl(self, x, value, g);
  double beyond = fmax(x[last] - wall, 0);
  *value += slope * x[last] - 0.5 * beyond * beyond;
  g[last] += slope - beyond;
  return ok;
}

/* A number without any curvature takes none from the others. */
static void no_curvature(void **unused) {
  (void)unused;
  for (uint64_t seed = 1; seed <= 10; seed++) {
    size_t n = 200;
    double *A = make_matrix(ARROW, seed, n, true);
    for (size_t i = 0; i < n; i++) A[i * n + n - 1] = A[(n - 1) * n + i] = 0;
    Bowl b = {.A = A, .n = n};
    Objective probe = {.dim = n, .self = &b, .eval = straight, .unit = units}, f = probe, g = f;
    g.probe = &probe;
    Interruption never = {.stop = -1};
    OptimResult plain = climb(&f, &never, NULL), r = climb(&g, &never, NULL);
    assert_true(r.converged && r.evaluations < plain.evaluations / 2);
    assert_true(fabs(r.phi[n - 1] - 30.01) < 1e-4);
  }
}

/* From where a function curves upwards in many directions a top is found, too, with the same bits
 * wherever that is interrupted. */
static void saddles(void **unused) {
  (void)unused;
  long with = 0, without = 0;
  for (uint64_t seed = 1; seed <= 20; seed++) {
    Bowl b = {.A = make_matrix(ARROW, seed, 60, false), .n = 60, .quartic = 3};
    Objective probe = {.dim = b.n, .self = &b, .eval = bowl, .unit = one_unit}, f = probe, g = f;
    g.probe = &probe;
    Interruption never = {.stop = -1};
    without += climb(&f, &never, NULL).evaluations;
    OptimResult r = climb(&g, &never, NULL);
    with += r.evaluations;
    assert_true(r.converged);
    for (long at = 3; at < never.asked && seed == 1; at += 3) {
      Interruption first = {.stop = at}, last = {.stop = -1};
      climb(&g, &first, NULL);
      OptimResult again = climb(&g, &last, &first);
      assert_memory_equal(again.phi, r.phi, b.n * sizeof *r.phi);
      assert_true(again.value == r.value && again.evaluations == r.evaluations);
    }
  }
  assert_true(with < without);
}

/* Minus the Hessian. */
static long bowl_curvature(void *self, const double *x, double *H) {
  const Bowl *b = self;
  memcpy(H, b->A, b->n * b->n * sizeof *H);
  for (size_t i = 0; i < b->n; i++) H[i * (b->n + 1)] += 3 * b->quartic * (x[i] - 1) * (x[i] - 1);
  return 1;
}

/* A curvature by formula of more numbers than are factored as if none were zero: Newton's method
 * all the same, and the same bits wherever it is interrupted. */
static void known_curvature(void **unused) {
  (void)unused;
  Bowl b = {.A = make_matrix(ARROW, 5, 640, true), .n = 640, .quartic = 3};
  Objective f = {.dim = b.n, .self = &b, .eval = bowl, .unit = units}, g = f;
  Interruption never = {.stop = -1}, slow = {.stop = -1};
  g.curvature = bowl_curvature;
  OptimResult plain = climb(&f, &slow, NULL), whole = climb(&g, &never, NULL);
  assert_true(whole.converged && whole.evaluations < plain.evaluations / 2);
  for (size_t i = 0; i < b.n; i++)
    assert_true(fabs(whole.phi[i] - 1) < 1e-5 * pow(10, 2 - (double)(i % 5)));
  for (long at = 3; at < never.asked; at += 4) {
    Interruption first = {.stop = at}, last = {.stop = -1};
    OptimResult r = climb(&g, &first, NULL);
    assert_int_equal(r.status, OPTIM_INTERRUPTED);
    r = climb(&g, &last, &first);
    assert_memory_equal(r.phi, whole.phi, b.n * sizeof *r.phi);
    assert_true(r.value == whole.value && r.evaluations == whole.evaluations);
  }
}

/* ---- curvature on few draws ------------------------------------------------------------------ */

/* A bowl in which everybody meets everybody and which is a thousandth as steep along some
 * directions, and another that is about the same, as with fewer draws. */
static void make_pair(Bowl *b, Bowl *about, uint64_t seed, size_t n) {
  RngStream r = rngs_make(seed, 9);
  double *A = NEW_ARRAY(&ctx.arena, double, n *n), *C = NEW_ARRAY(&ctx.arena, double, n *n),
         *v = NEW_ARRAY(&ctx.arena, double, n);
  for (size_t k = 0; k < 2 * n; k++) {
    double steep = pow(10, -6 * rngs_uniform(&r)), other = 1 + 0.2 * rngs_normal(&r);
    for (size_t i = 0; i < n; i++) v[i] = rngs_normal(&r);
    for (size_t i = 0; i < n * n; i++) {
      A[i] += steep * v[i / n] * v[i % n];
      C[i] += steep * other * other * v[i / n] * v[i % n];
    }
  }
  *b = (Bowl){.A = A, .n = n, .quartic = 0.1};
  *about = (Bowl){.A = C, .n = n, .quartic = 0.1};
}

static Objective with_few(Bowl *b, Objective *few, double price) {
  Objective f = {.dim = b->n, .self = b, .eval = bowl, .unit = one_unit};
  f.probe = f.few = few;
  f.few_price = price;
  return f;
}

/* Where L-BFGS is slow it is worth its price, which is counted; where the few draws tell nothing of
 * the objective it costs a part of the whole. */
static void few_draws(void **unused) {
  (void)unused;
  for (uint64_t seed = 1; seed <= 5; seed++) {
    Bowl b, about, wrong;
    make_pair(&b, &about, seed, 120);
    wrong = (Bowl){.A = make_matrix(ANY, seed, 120, true), .n = 120};
    Objective few = {.dim = 120, .self = &about, .eval = bowl, .unit = one_unit}, other = few,
              f = with_few(&b, &few, 1.0 / 8), plain = f, misled = f;
    Interruption never = {.stop = -1};
    plain.few = NULL;
    other.self = &wrong;
    misled.few = &other;
    OptimResult slow = climb(&plain, &never, NULL), r = climb(&f, &never, NULL),
                astray = climb(&misled, &never, NULL);
    assert_true(r.converged && 2 * r.evaluations < slow.evaluations && r.value >= slow.value);
    assert_true(astray.converged && astray.evaluations < 2 * slow.evaluations);
  }
}

/* Interrupted anywhere, among the differences, too, it ends with the same bits. */
static void few_draws_interrupted(void **unused) {
  (void)unused;
  Bowl b, about;
  make_pair(&b, &about, 3, 70);
  Objective few = {.dim = 70, .self = &about, .eval = bowl, .unit = one_unit},
            f = with_few(&b, &few, 1.0 / 8);
  Interruption never = {.stop = -1};
  OptimResult whole = climb(&f, &never, NULL);
  assert_true(whole.converged && whole.iterations > 50);
  for (long at = 0; at < never.asked; at += 7) {
    Interruption first = {.stop = at}, last = {.stop = -1};
    OptimResult r = climb(&f, &first, NULL);
    assert_int_equal(r.status, OPTIM_INTERRUPTED);
    r = climb(&f, &last, &first);
    assert_memory_equal(r.phi, whole.phi, b.n * sizeof *r.phi);
    assert_true(r.value == whole.value && r.iterations == whole.iterations &&
                r.evaluations == whole.evaluations && r.status == whole.status);
  }
}

/* A bowl where few differences tell all, and another that is about the same. */
static void make_sparse_pair(Bowl *b, Bowl *about, uint64_t seed, size_t n) {
  RngStream r = rngs_make(seed, 10);
  double *A = make_matrix(ARROW, seed, n, true), *C = NEW_ARRAY(&ctx.arena, double, n *n),
         *by = NEW_ARRAY(&ctx.arena, double, n);
  for (size_t i = 0; i < n; i++) by[i] = 1 + 0.1 * rngs_normal(&r);
  for (size_t i = 0; i < n * n; i++) C[i] = by[i / n] * A[i] * by[i % n];
  *b = (Bowl){.A = A, .n = n, .quartic = 3};
  *about = (Bowl){.A = C, .n = n, .quartic = 3};
}

static Objective sparse_with_few(Bowl *b, Objective *few) {
  Objective f = with_few(b, few, 1.0 / 8);
  f.few_close = true;
  f.unit = units;
  return f;
}

/* Few differences are of few points, where these are close to all: the same top for less, the
 * objective itself is asked for the way alone, and what the few cost is counted. */
static void few_differences(void **unused) {
  (void)unused;
  for (uint64_t seed = 1; seed <= 10; seed++) {
    Bowl b, about;
    make_sparse_pair(&b, &about, seed, 200);
    Objective few = {.dim = 200, .self = &about, .eval = bowl, .unit = units},
              f = sparse_with_few(&b, &few), dear = f;
    Interruption never = {.stop = -1};
    double unit[200];
    dear.few = NULL;
    OptimResult all = climb(&dear, &never, NULL);
    b.asked = about.asked = 0;
    OptimResult r = climb(&f, &never, NULL);
    long found = 201; /* who meets whom is seen on the same few draws here */
    assert_true(r.converged && b.asked < r.evaluations && r.evaluations < all.evaluations);
    assert_true(8 * (r.evaluations - b.asked) >= about.asked - found);
    units(&b, r.phi, unit);
    for (size_t i = 0; i < b.n; i++) assert_true(fabs(r.phi[i] - 1) < 1e-5 * unit[i]);
  }
}

static void few_differences_interrupted(void **unused) {
  (void)unused;
  Bowl b, about;
  make_sparse_pair(&b, &about, 3, 16);
  Objective few = {.dim = 16, .self = &about, .eval = bowl, .unit = units},
            f = sparse_with_few(&b, &few);
  Interruption never = {.stop = -1};
  OptimResult whole = climb(&f, &never, NULL);
  assert_true(whole.iterations > 10);
  for (long at = 0; at < never.asked; at++) {
    Interruption first = {.stop = at}, last = {.stop = -1};
    OptimResult r = climb(&f, &first, NULL);
    assert_int_equal(r.status, OPTIM_INTERRUPTED);
    r = climb(&f, &last, &first);
    assert_memory_equal(r.phi, whole.phi, b.n * sizeof *r.phi);
    assert_true(r.value == whole.value && r.iterations == whole.iterations &&
                r.evaluations == whole.evaluations && r.status == whole.status);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(solves),
      cmocka_unit_test(made_definite),
      cmocka_unit_test(few_numbers),
      cmocka_unit_test(hessians),
      cmocka_unit_test(not_to_be_had),
      cmocka_unit_test(newton),
      cmocka_unit_test(near_the_top),
      cmocka_unit_test(in_groups),
      cmocka_unit_test(one_after_the_other),
      cmocka_unit_test(interrupted),
      cmocka_unit_test(known_curvature),
      cmocka_unit_test(no_curvature),
      cmocka_unit_test(saddles),
      cmocka_unit_test(few_draws),
      cmocka_unit_test(few_draws_interrupted),
      cmocka_unit_test(few_differences),
      cmocka_unit_test(few_differences_interrupted),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
