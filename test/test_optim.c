/* test_optim.c: the optimizers on problems whose answers are known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "infer/optim.h"
#include "interruption.h"
#include "num/linalg.h"
#include "num/rng.h"

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

/* ---- problems -------------------------------------------------------------------------------- */

/* -sum 100 (x_(i+1) - x_i^2)^2 + (1 - x_i)^2: the maximum 0 is at (1, ..., 1). self: the dimension.
 */
static bool rosenbrock(void *self, const double *x, double *value, double *g) {
  size_t n = *(size_t *)self;
  memset(g, 0, n * sizeof *g);
  *value = 0;
  for (size_t i = 0; i + 1 < n; i++) {
    double a = x[i + 1] - x[i] * x[i], b = 1 - x[i];
    *value -= 100 * a * a + b * b;
    g[i] += 400 * a * x[i] + 2 * b;
    g[i + 1] -= 200 * a;
  }
  return true;
}

/* -1/2 sum c_i (x_i - i)^2 with c from 1 to `condition`. */
typedef struct {
  size_t n;
  double condition, noise;
  RngStream rng;
  long iterations;
} Quadratic;

static double curvature(const Quadratic *q, size_t i) {
  return pow(q->condition, (double)i / (double)(q->n - 1));
}

static bool quadratic(void *self, const double *x, double *value, double *g) {
  Quadratic *q = self;
  *value = 0;
  for (size_t i = 0; i < q->n; i++) {
    double c = curvature(q, i), d = x[i] - (double)i;
    *value -= 0.5 * c * d * d;
    g[i] = -c * d + (q->noise > 0 ? q->noise * rngs_normal(&q->rng) : 0);
  }
  return true;
}
static void quadratic_precondition(void *self, const double *x, double *d) {
  Quadratic *q = self;
  (void)x;
  for (size_t i = 0; i < q->n; i++) d[i] /= curvature(q, i);
}
static void count_iterations(void *self, long t) {
  Quadratic *q = self;
  assert_int_equal(t, q->iterations++);
}

/* log x - x per coordinate, not defined for x <= 0: the maximum is at 1. */
static bool barrier(void *self, const double *x, double *value, double *g) {
  size_t n = *(size_t *)self;
  *value = 0;
  for (size_t i = 0; i < n; i++) {
    if (x[i] <= 0) return false;
    *value += log(x[i]) - x[i];
    g[i] = 1 / x[i] - 1;
  }
  return true;
}

/* A hill that begins at the foot, where it curves upwards: -cos(x) - cos(y) is at its top at (pi,
 * pi). Steps are short, so that many end where the curvature has the wrong sign: they tell nothing
 * about the top. */
static bool hill(void *self, const double *x, double *value, double *g) {
  (void)self;
  *value = -cos(x[0]) - cos(x[1]);
  g[0] = sin(x[0]);
  g[1] = sin(x[1]);
  return true;
}
static void short_steps(void *self, const double *x, double *reach) {
  (void)self;
  (void)x;
  reach[0] = reach[1] = 0.1;
}

static double distance(const OptimResult *r, size_t n, double (*truth)(size_t)) {
  double d = 0;
  for (size_t i = 0; i < n; i++) d = fmax(d, fabs(r->phi[i] - truth(i)));
  return d;
}
static double truth_one(size_t i) { return (void)i, 1; }
static double truth_index(size_t i) { return (double)i; }

/* ---- L-BFGS ---------------------------------------------------------------------------------- */

static void lbfgs_rosenbrock(void **unused) {
  (void)unused;
  for (size_t n = 2; n <= 64; n *= 2) {
    double x0[64];
    for (size_t i = 0; i < n; i++) x0[i] = i % 2 ? 1 : -1.2;
    Objective f = {.dim = n, .self = &n, .eval = rosenbrock};
    OptimOptions o = optim_defaults(OPTIM_LBFGS);
    o.tol_relative = 1e-14;
    OptimResult r = optim_run(&ctx.arena, &f, x0, &o);
    printf("  rosenbrock %2zu: %3ld iterations, %3ld evaluations, value %.2g, %s\n", n,
           r.iterations, r.evaluations, r.value, r.reason);
    assert_true(r.converged);
    assert_true(distance(&r, n, truth_one) < 1e-5 ||
                r.value > -5); /* n > 3 has a second, local maximum */
    assert_true(r.value <= 0);
    if (n <= 2) assert_true(distance(&r, n, truth_one) < 1e-5);
    assert_true((double)r.evaluations < 1.5 * (double)r.iterations + 10);
  }
}

static void lbfgs_quadratic(void **unused) {
  (void)unused;
  double x0[100] = {0};
  for (int scaled = 0; scaled < 2; scaled++) {
    Quadratic q = {.n = 100, .condition = 1e6};
    Objective f = {.dim = q.n,
                   .self = &q,
                   .eval = quadratic,
                   .precondition = scaled ? quadratic_precondition : NULL,
                   .iteration = count_iterations};
    OptimOptions o = optim_defaults(OPTIM_LBFGS);
    o.max_iterations = 10000;
    OptimResult r = optim_run(&ctx.arena, &f, x0, &o);
    printf("  quadratic, condition 1e6%s: %ld iterations, %ld evaluations, value %.2g, gradient "
           "%.2g\n",
           scaled ? ", scaled" : "", r.iterations, r.evaluations, r.value, r.gradient_norm);
    assert_true(r.converged);
    assert_true(r.value > -1e-5);
    assert_int_equal(q.iterations, r.iterations);
    assert_true((double)r.evaluations < 1.15 * (double)r.iterations + 5);
    if (scaled) assert_true(r.iterations <= 3);
  }
}

static void
lbfgs_precise(void **unused) { /* asked for more digits than there are, it stops all the same */
  (void)unused;
  double x0[20] = {0};
  Quadratic q = {.n = 20, .condition = 100};
  Objective f = {.dim = q.n, .self = &q, .eval = quadratic};
  OptimOptions o = optim_defaults(OPTIM_LBFGS);
  o.tol_relative = 0;
  o.tol_gradient = 0;
  o.max_iterations = 500;
  OptimResult r = optim_run(&ctx.arena, &f, x0, &o);
  assert_true(distance(&r, q.n, truth_index) < 1e-7);
  assert_true(r.iterations < 500);
}

static void lbfgs_barrier(void **unused) {
  (void)unused;
  size_t n = 5;
  static const double starts[] = {1e-3, 0.5, 10, 1e4};
  for (size_t k = 0; k < 4; k++) {
    double x0[5];
    for (size_t i = 0; i < n; i++) x0[i] = starts[k] * (1 + 0.1 * (double)i);
    Objective f = {.dim = n, .self = &n, .eval = barrier};
    OptimOptions o = optim_defaults(OPTIM_LBFGS);
    OptimResult r = optim_run(&ctx.arena, &f, x0, &o);
    printf("  barrier from %g: %ld iterations, %ld evaluations, %ld not finite\n", starts[k],
           r.iterations, r.evaluations, r.skipped);
    assert_true(r.converged);
    assert_true(distance(&r, n, truth_one) < 1e-3);
  }
  double bad[5] = {-1, 1, 1, 1, 1};
  Objective f = {.dim = n, .self = &n, .eval = barrier};
  OptimOptions o = optim_defaults(OPTIM_LBFGS);
  OptimResult r = optim_run(&ctx.arena, &f, bad, &o);
  assert_int_equal(r.status, OPTIM_NOT_FINITE);
  assert_false(r.converged);
}

/* A gradient with the wrong sign: the run must end and say so. */
static bool liar(void *self, const double *x, double *value, double *g) {
  bool ok = quadratic(self, x, value, g);
  for (size_t i = 0; i < ((Quadratic *)self)->n; i++) g[i] = -g[i];
  return ok;
}

static void lbfgs_hill(void **unused) {
  (void)unused;
  double phi[] = {0.02, 0.05};
  Objective f = {.dim = 2, .eval = hill, .reach = short_steps};
  OptimOptions o = optim_defaults(OPTIM_LBFGS);
  OptimResult r = optim_run(&ctx.arena, &f, phi, &o);
  printf("  hill: %ld iterations, %ld evaluations\n", r.iterations, r.evaluations);
  assert_true(r.converged);
  assert_true(fabs(r.phi[0] - acos(-1)) < 1e-4 && fabs(r.phi[1] - acos(-1)) < 1e-4);
}

static void lbfgs_stuck(void **unused) {
  (void)unused;
  Quadratic q = {.n = 3, .condition = 10};
  double x0[3] = {5, 5, 5};
  Objective f = {.dim = 3, .self = &q, .eval = liar};
  OptimOptions o = optim_defaults(OPTIM_LBFGS);
  OptimResult r = optim_run(&ctx.arena, &f, x0, &o);
  assert_int_equal(r.status, OPTIM_STUCK);
  assert_true(r.evaluations < 200);
}

typedef struct {
  long calls, stop_at;
  size_t used;
  ArenaBlock *block;
  bool allocated;
} Watch;

static bool watch(void *self, const OptimState *s) {
  Watch *w = self;
  if (w->calls++ == 0) w->used = ctx.arena.used, w->block = ctx.arena.block;
  w->allocated |= w->used != ctx.arena.used || w->block != ctx.arena.block;
  assert_int_equal(s->iteration, w->calls);
  assert_true(isfinite(s->value) && s->evaluations >= s->iteration && s->step > 0);
  return w->calls != w->stop_at;
}

/* -x^2 / 2, whose value is a little higher by an error of its own at one point, as a differential
 * equation's solution may make it. self: the point. */
static bool erring(void *self, const double *x, double *value, double *g) {
  *value = -100 - 0.5 * x[0] * x[0] + (x[0] == *(double *)self ? 1e-4 : 0);
  g[0] = -x[0];
  return true;
}

/* From there no step gains; where none is worth having the line is not searched to the last digit.
 */
static void lbfgs_errors(void **unused) {
  (void)unused;
  double x0 = 1e-3;
  Objective f = {.dim = 1, .self = &x0, .eval = erring};
  OptimOptions o = optim_defaults(OPTIM_LBFGS);
  o.tol_absolute = 1e-6;
  o.tol_relative = 0;
  o.tol_gradient = 0;
  OptimResult r = optim_run(&ctx.arena, &f, &x0, &o);
  assert_true(r.converged);
  if (r.evaluations > 20) fail_msg("%ld evaluations", r.evaluations);
}

static void limits(void **unused) {
  (void)unused;
  for (int kind = 0; kind < OPTIM_COUNT; kind++) {
    Quadratic q = {.n = 50, .condition = 1e4};
    double x0[50] = {0};
    Objective f = {.dim = q.n, .self = &q, .eval = quadratic};
    OptimOptions o = optim_defaults((OptimKind)kind);
    o.learning_rate = 1e-5;
    o.max_evaluations = 17;
    OptimResult r = optim_run(&ctx.arena, &f, x0, &o);
    assert_int_equal(r.status, OPTIM_LIMIT);
    assert_true(r.evaluations <= 17);

    Watch w = {.stop_at = 7};
    o.max_evaluations = 0;
    o.observer = watch;
    o.observer_self = &w;
    r = optim_run(&ctx.arena, &f, x0, &o);
    assert_int_equal(r.status, OPTIM_STOPPED);
    assert_int_equal(r.iterations, 7);
    assert_false(w.allocated);
  }
}

/* ---- interrupting and resuming --------------------------------------------------------------- */

/* One run, that stops at the given evaluation (< 0: never) and resumes where another one did. */
static OptimResult run_until(const Objective *f, OptimOptions o, Interruption *k,
                             const Interruption *from) {
  double x0[8];
  for (size_t i = 0; i < 8; i++) x0[i] = i % 2 ? 1 : -1.2;
  k->state = text_make(&ctx.arena);
  o.cancelled = asked_to_stop;
  o.cancelled_self = k;
  o.pause = keep_state;
  o.pause_self = k;
  Archive in = from ? archive_reader(from->state.s, from->state.n) : (Archive){0};
  if (from && from->state.n) o.resume = &in;
  return optim_run(&ctx.arena, f, x0, &o);
}

static void assert_same_end(const OptimResult *a, const OptimResult *b, size_t n) {
  assert_memory_equal(a->phi, b->phi, n * sizeof *a->phi);
  assert_memory_equal(&a->value, &b->value, sizeof a->value);
  assert_memory_equal(&a->gradient_norm, &b->gradient_norm, sizeof a->value);
  assert_int_equal(a->iterations, b->iterations);
  assert_int_equal(a->evaluations, b->evaluations);
  assert_int_equal(a->skipped, b->skipped);
  assert_int_equal(a->status, b->status);
}

/* Wherever a run is interrupted, and interrupted again, it ends with the same bits. */
static void interrupted_runs(void **unused) {
  (void)unused;
  for (int kind = 0; kind < OPTIM_COUNT; kind++) {
    size_t n = 8;
    Objective f = {.dim = n, .self = &n, .eval = rosenbrock};
    OptimOptions o = optim_defaults((OptimKind)kind);
    o.learning_rate = 1e-4;
    o.max_iterations = 100;
    o.history = 5;
    Interruption never = {.stop = -1};
    OptimResult whole = run_until(&f, o, &never, NULL);
    assert_true(never.asked > 30);
    for (long at = 0; at < never.asked; at++) {
      Interruption first = {.stop = at}, second = {.stop = 7}, last = {.stop = -1};
      OptimResult r = run_until(&f, o, &first, NULL);
      assert_int_equal(r.status, OPTIM_INTERRUPTED);
      assert_true(r.iterations <= at && !r.converged);
      r = run_until(&f, o, &second, &first);
      if (r.status == OPTIM_INTERRUPTED) r = run_until(&f, o, &last, &second);
      assert_same_end(&r, &whole, n);
    }
  }
}

/* A state that was cut short, or that is of a problem of another size, ends the run at once. */
static void foreign_states(void **unused) {
  (void)unused;
  size_t n = 8, other = 7;
  for (int kind = 0; kind < OPTIM_COUNT; kind++) {
    Objective f = {.dim = n, .self = &n, .eval = rosenbrock}, g = f;
    g.dim = other;
    OptimOptions o = optim_defaults((OptimKind)kind);
    Interruption k = {.stop = 9}, next = {.stop = -1};
    run_until(&f, o, &k, NULL);
    for (size_t length = 0; length < k.state.n; length += 1 + length / 10) {
      double x0[8] = {0};
      Archive in = archive_reader(k.state.s, length);
      o.resume = &in;
      OptimResult r = optim_run(&ctx.arena, &f, x0, &o);
      assert_true(in.bad && r.evaluations <= 9 && r.status == OPTIM_NOT_FINITE);
    }
    o.resume = NULL;
    assert_int_equal(run_until(&g, o, &next, &k).status, OPTIM_NOT_FINITE);
  }
}

/* ---- stochastic ------------------------------------------------------------------------------ */

static void noisy_quadratic(void **unused) {
  (void)unused;
  static const struct {
    OptimKind kind;
    OptimSchedule schedule;
    double rate, tolerance;
  } rows[] = {
      {OPTIM_ADAM, SCHEDULE_STEP, 0.01, 0.25},
      {OPTIM_ADAM, SCHEDULE_WARMUP_COSINE, 0.02, 0.1},
      {OPTIM_RMSPROP, SCHEDULE_STEP, 1e-3, 0.25},
      {OPTIM_RMSPROP, SCHEDULE_WARMUP_COSINE, 2e-3, 0.1},
      {OPTIM_SGD, SCHEDULE_STEP, 0.02, 0.25},
      {OPTIM_SGD, SCHEDULE_WARMUP_COSINE, 0.05, 0.2},
      {OPTIM_NESTEROV, SCHEDULE_STEP, 2e-3, 0.25},
      {OPTIM_NESTEROV, SCHEDULE_WARMUP_COSINE, 5e-3, 0.2},
  };
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    Quadratic q = {.n = 10, .condition = 10, .noise = 1, .rng = rngs_make(1, k)};
    double x0[10] = {0};
    Objective f = {.dim = q.n, .self = &q, .eval = quadratic, .iteration = count_iterations};
    OptimOptions o = optim_defaults(rows[k].kind);
    o.learning_rate = rows[k].rate;
    o.schedule = rows[k].schedule;
    o.max_iterations = 20000;
    OptimResult r = optim_run(&ctx.arena, &f, x0, &o);
    double d = distance(&r, q.n, truth_index);
    printf("  %-8s %-13s distance %.3f\n", optim_name(rows[k].kind),
           optim_schedule_name(rows[k].schedule), d);
    assert_int_equal(r.status, OPTIM_FINISHED);
    assert_int_equal(q.iterations, 20000);
    assert_true(d < rows[k].tolerance);
  }
}

/* The paper's rule: g = grad/100, or grad/|grad| when |grad| > 100; the first step of RMSProp is
 * then known. */
static void paper_clipping(void **unused) {
  (void)unused;
  for (int big = 0; big < 2; big++) {
    Quadratic q = {.n = 2, .condition = 1};
    double x0[2] = {big ? 300 : 3, big ? 401 : 5}, g[2], value;
    quadratic(&q, x0, &value, g);
    double norm = la_norm(g, 2);
    Objective f = {.dim = 2, .self = &q, .eval = quadratic};
    OptimOptions o = optim_defaults(OPTIM_RMSPROP);
    o.clip = 100;
    o.gradient_scale = 0.01;
    o.max_iterations = 1;
    OptimResult r = optim_run(&ctx.arena, &f, x0, &o);
    for (int i = 0; i < 2; i++) {
      double s = g[i] / (norm > 100 ? norm : 100), a = 0.1 * s * s;
      assert_true(fabs(r.phi[i] - (x0[i] + 1e-4 * s / sqrt(a + 1e-8))) < 1e-12);
    }
  }
}

static void rates(void **unused) {
  (void)unused;
  OptimOptions o = optim_defaults(OPTIM_ADAM);
  o.max_iterations = 1000;
  o.learning_rate = 1;
  o.schedule = SCHEDULE_STEP;
  assert_true(optim_rate(&o, 0) == 1 && optim_rate(&o, 499) == 1 &&
              fabs(optim_rate(&o, 500) - 0.1) < 1e-15);
  o.schedule = SCHEDULE_WARMUP_COSINE;
  o.warmup = 0.1;
  assert_true(optim_rate(&o, 0) < 0.011 && fabs(optim_rate(&o, 100) - 1) < 1e-12 &&
              fabs(optim_rate(&o, 550) - 0.5) < 1e-12);
  assert_true(optim_rate(&o, 999) < 1e-4);
  o.schedule = SCHEDULE_CONSTANT;
  assert_true(optim_rate(&o, 999) == 1);
}

/* Now and then not finite: those steps are left out and counted. */
static bool flaky(void *self, const double *x, double *value, double *g) {
  Quadratic *q = self;
  quadratic(self, x, value, g);
  double u = rngs_uniform(&q->rng);
  if (u < 0.1) return false;
  if (u < 0.2) g[0] = (double)NAN;
  return true;
}

static void skipped_steps(void **unused) {
  (void)unused;
  Quadratic q = {.n = 5, .condition = 3, .rng = rngs_make(3, 0)};
  double x0[5] = {0};
  Objective f = {.dim = 5, .self = &q, .eval = flaky};
  OptimOptions o = optim_defaults(OPTIM_ADAM);
  o.max_iterations = 5000;
  OptimResult r = optim_run(&ctx.arena, &f, x0, &o);
  assert_int_equal(r.status, OPTIM_FINISHED);
  assert_true(r.skipped > 800 && r.skipped < 1200);
  assert_true(distance(&r, 5, truth_index) < 0.01);
}

static void names(void **unused) {
  (void)unused;
  for (int i = 0; i < OPTIM_COUNT; i++) {
    OptimKind k;
    assert_true(optim_find(optim_name((OptimKind)i), &k) && (int)k == i);
  }
  OptimKind k;
  OptimSchedule s;
  assert_false(optim_find("newton", &k));
  assert_true(optim_find_schedule("warmup-cosine", &s) && s == SCHEDULE_WARMUP_COSINE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lbfgs_rosenbrock),
      cmocka_unit_test(lbfgs_quadratic),
      cmocka_unit_test(lbfgs_precise),
      cmocka_unit_test(lbfgs_barrier),
      cmocka_unit_test(lbfgs_hill),
      cmocka_unit_test(lbfgs_stuck),
      cmocka_unit_test(lbfgs_errors),
      cmocka_unit_test(limits),
      cmocka_unit_test(interrupted_runs),
      cmocka_unit_test(foreign_states),
      cmocka_unit_test(noisy_quadratic),
      cmocka_unit_test(paper_clipping),
      cmocka_unit_test(rates),
      cmocka_unit_test(skipped_steps),
      cmocka_unit_test(names),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
