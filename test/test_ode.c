/* test_ode.c: differential equations: closed forms, gradients by finite differences, independence
 * of draws and threads, and what is said of wrong arguments. Programs against real Stan are in
 * test_oracle.c. */
#include "evaluate.h"

static const char *const methods[] = {"rk45", "ckrk", "adams", "bdf"};
enum { METHODS = sizeof methods / sizeof *methods };

static const char *format(Ctx *c, const char *text, const char *method) {
  Text t = text_make(&c->arena);
  for (const char *s = text; *s; s++) {
    if (*s == '@') {
      text_puts(&t, method);
    } else {
      text_add(&t, s, 1);
    }
  }
  return t.s;
}

/* ---- closed forms ---------------------------------------------------------------------------- */

/* y' = -k y, y(0.5) = a: the density is y at three times, weighted. */
static const char decay[] =
    "functions { vector f(real t, vector y, real k) { return -k * y; } }"
    "parameters { real a; real k; }"
    "model { array[3] vector[1] y = ode_@_tol(f, [a]', 0.5, {1, 2.5, 2.5}, 1e-8, 1e-8, 100000, k);"
    " target += y[1, 1] + 10 * y[2, 1] + 100 * y[3, 1]; }";

TEST(exponential_decay) {
  for (int m = 0; m < METHODS; m++) {
    Model *model = model_of(c, format(c, decay, methods[m]), NULL);
    bool tighter = !strcmp(methods[m], "adams") || !strcmp(methods[m], "bdf");
    double allowed = tighter ? 1e-8 : 1e-6;
    for (double k = -0.3; k < 3; k += 0.7) {
      double a = 1.5, e1 = exp(-0.5 * k), e2 = 110 * exp(-2 * k);
      DensityAt d = density(c, model, (double[]){a, k});
      assert_close(d.lp, a * (e1 + e2), allowed);
      assert_close(d.grad[0], e1 + e2, allowed);
      assert_close(d.grad[1], a * (-0.5 * e1 - 2 * e2), allowed);
    }
  }
}

/* y'' = -w^2 y, y(0) = 0, y'(0) = 1: sin(w t) / w. The old interface; the state is data. */
static const char oscillator[] =
    "functions { array[] real f(real t, array[] real y, array[] real theta, array[] real x_r, "
    "array[] int x_i) {"
    "  return {y[2], -x_r[1] * x_i[1] * square(theta[1]) * y[1]}; } }"
    "transformed data { array[2] real y0 = {0, 1}; array[1] real x_r = {0.5}; array[1] int x_i = "
    "{2};"
    "  array[2] real ts = {1.5, 12}; }"
    "parameters { real w; }"
    "model { array[2, 2] real y = integrate_ode_@(f, y0, 0, ts, {w}, x_r, x_i, 1e-9, 1e-9, 1e6);"
    " target += y[1, 1] + 10 * y[2, 1] + 100 * y[2, 2]; }";

TEST(harmonic_oscillator) {
  for (int m = 0; m < METHODS; m++) {
    if (!strcmp(methods[m], "ckrk")) continue; /* it is newer than the interface */
    Model *model = model_of(c, format(c, oscillator, methods[m]), NULL);
    for (double w = 0.4; w < 2; w += 0.5) {
      DensityAt d = density(c, model, &w);
      double t = 12, near = sin(1.5 * w) / w, far = sin(t * w) / w;
      assert_close(d.lp, near + 10 * far + 100 * cos(t * w), 1e-6);
      double dnear = (1.5 * cos(1.5 * w) - near) / w, dfar = (t * cos(t * w) - far) / w;
      assert_close(d.grad[0], dnear + 10 * dfar - 100 * t * sin(t * w), 1e-6);
    }
  }
}

/* y' = A y with eigenvalues -a and -k, k large. */
static const char stiff[] = "functions { vector f(real t, vector y, real a, data real k) {"
                            "  return [-a * y[1], k * (y[1] - y[2]) - a * y[1]]'; } }"
                            "data { real k; real tolerance; }"
                            "parameters { real a; real b; }"
                            "model { array[3] vector[2] y = ode_bdf_tol(f, [1, 1 + b]', 0, {1e-4, "
                            "0.3, 5}, tolerance, tolerance, 500, a, k);"
                            " target += y[1, 2] + 10 * y[2, 2] + 100 * y[3, 2]; }";

TEST(stiff_linear) {
  static const double tolerances[] = {1e-4, 1e-6, 1e-8, 1e-10}, rates[] = {1e2, 1e4, 1e6},
                      times[] = {1e-4, 0.3, 5};
  double a = 0.7, b = 0.4;
  for (int r = 0; r < 3; r++)
    for (int i = 0; i < 4; i++) {
      double k = rates[r], tolerance = tolerances[i], lp = 0, da = 0, db = 0;
      for (int n = 0; n < 3; n++) { /* y2 = exp(-a t) + b exp(-k t) */
        double weight = pow(10, n), slow = exp(-a * times[n]), fast = exp(-k * times[n]);
        lp += weight * (slow + b * fast);
        da += weight * -times[n] * slow;
        db += weight * fast;
      }
      DensityAt d =
          density(c,
                  model_of(c, stiff,
                           arena_format(&c->arena, "{\"k\": %g, \"tolerance\": %g}", k, tolerance)),
                  (double[]){a, b});
      double scale = 111 * tolerance; /* the sum of the weights */
      if (!(fabs(d.lp - lp) <= scale && fabs(d.grad[0] - da) <= scale &&
            fabs(d.grad[1] - db) <= scale))
        fail_msg("k %g, tolerance %g: errors %.2g, %.2g, %.2g", k, tolerance, d.lp - lp,
                 d.grad[0] - da, d.grad[1] - db);
    }
}

/* y' = k (g^3 - y^3) + g', g = 2 + a cos t, from y = g: then y = g for every k. The cube makes
 * Newton's method need more than one correction, so that stages which are not solved are seen. */
static const char stiff_cube[] =
    "functions { vector f(real t, vector y, real a, data real k) {"
    "  real g = 2 + a * cos(t); return [k * (g^3 - y[1]^3) - a * sin(t)]'; } }"
    "data { real k; real tolerance; }"
    "parameters { real a; }"
    "model { array[3] vector[1] y = ode_bdf_tol(f, [2 + a]', 0, {1, 2.5, 5}, tolerance, "
    "tolerance, 5000, a, k);"
    " target += y[1, 1] + 10 * y[2, 1] + 100 * y[3, 1]; }";

TEST(stiff_nonlinear) {
  static const double tolerances[] = {1e-4, 1e-6, 1e-8, 1e-10}, rates[] = {1, 1e2, 1e4};
  double a = 0.9, da = cos(1) + 10 * cos(2.5) + 100 * cos(5);
  for (int r = 0; r < 3; r++)
    for (int i = 0; i < 4; i++) {
      double k = rates[r], tolerance = tolerances[i], scale = 111 * tolerance;
      const char *data = arena_format(&c->arena, "{\"k\": %g, \"tolerance\": %g}", k, tolerance);
      DensityAt d = density(c, model_of(c, stiff_cube, data), &a);
      double lp = 222 + a * da;
      if (!(fabs(d.lp - lp) <= scale && fabs(d.grad[0] - da) <= scale))
        fail_msg("k %g, tolerance %g: errors %.2g, %.2g", k, tolerance, d.lp - lp, d.grad[0] - da);
    }
}

/* Robertson's reaction at t = 40 (Hairer and Wanner's reference), by numbers alone: transformed
 * data. */
TEST(robertson) {
  Model *m = model_of(c,
                      "functions { vector f(real t, vector y, vector k) { real a = k[1] * y[1]; "
                      "real b = k[2] * y[2] * y[3];"
                      "  real d = k[3] * y[2] * y[2]; return [b - a, a - b - d, d]'; } }"
                      "transformed data { array[1] vector[3] y = ode_bdf_tol(f, [1, 0, 0]', 0, "
                      "{40}, 1e-8, 1e-10, 1000,"
                      "  [0.04, 1e4, 3e7]'); }"
                      "parameters { real x; }"
                      "model { target += x * y[1, 1] + 1e5 * y[1, 2] + 10 * y[1, 3]; }",
                      NULL);
  double u = 100;
  DensityAt d = density(c, m, &u);
  assert_close(d.grad[0], 0.7158270687193941, 1e-7);
  assert_close(d.lp, 71.58270687193941 + 0.9185534764557338 + 2.841637457458413, 1e-7);
}

/* ---- linear systems -------------------------------------------------------------------------- */

/* A (A^-1 B) = B for every draw, also where the first pivots of some draws are zero. */
static void check_solve(Ctx *c, const Kernels *k, size_t order, size_t columns) {
  enum { LD = 2 * LANES };
  uint64_t seed = order;
  double *A = NEW_ARRAY(&c->arena, double, order *order *LD),
         *B = NEW_ARRAY(&c->arena, double, order *columns *LD);
  for (size_t i = 0; i < order * order * LD; i++)
    A[i] = i % 3 || i / LD ? uniform(&seed, -2, 2) : 0;
  for (size_t i = 0; i < order * columns * LD; i++) B[i] = uniform(&seed, -2, 2);
  double *matrix = NEW_ARRAY(&c->arena, double, order *order *LD),
         *x = NEW_ARRAY(&c->arena, double, order *columns *LD);
  double **rows = NEW_ARRAY(&c->arena, double *, order);
  memcpy(matrix, A, order * order * LD * sizeof *A);
  memcpy(x, B, order * columns * LD * sizeof *B);
  for (size_t i = 0; i < order; i++) rows[i] = x + i * columns * LD;
  k->solve(matrix, rows, order, columns, LD, LD);
  for (size_t i = 0; i < order; i++)
    for (size_t p = 0; p < columns; p++)
      for (size_t j = 0; j < LD; j++) {
        if (order == 1 && j % 3 == 0) continue; /* its only pivot is zero */
        double sum = 0;
        for (size_t l = 0; l < order; l++)
          sum += A[(i * order + l) * LD + j] * x[(l * columns + p) * LD + j];
        assert_close(sum, B[(i * columns + p) * LD + j], 1e-10);
      }
}

TEST(linear_systems) {
  static const char *const isas[] = {"base", "avx2", "avx512"};
  for (int i = 0; i < 3; i++)
    for (size_t order = 1; kernels_named(isas[i]) && order < 8; order++)
      check_solve(c, kernels_named(isas[i]), order, 3);
}

/* ---- gradients ------------------------------------------------------------------------------- */

typedef struct {
  const char *name, *program;
  size_t dim;
} Gradient;

/* What a right-hand side may be made of, and what it may be given. */
static const Gradient gradients[] = {
    {"arguments of all kinds",
     "functions { vector f(real t, vector y, matrix A, data matrix B, array[] real r, int n, "
     "row_vector v, tuple(real, vector) "
     "p) {"
     "  vector[3] s = A * y + B * y * 0.1 + cumulative_sum(y .* y) * r[n];"
     "  s[1] += sin(t * r[1]) + log_sum_exp(y) - v * y; s[2] -= sum(p.2) * y[3] * p.1; return s - "
     "0.3 * y; } }"
     "transformed data { matrix[3, 3] B = [[0, 1, 0], [0.5, 0, -1], [0, 0.3, 0]]; array[4] real ts "
     "= {0.2, 0.5, 1, 1.7}; }"
     "parameters { vector[3] y0; matrix[3, 3] A; array[2] real r; row_vector[3] v; real q; }"
     "model { array[4] vector[3] y = ode_@_tol(f, 0.2 * y0, 0.1, ts, 1e-11, 1e-11, 100000, 0.3 * "
     "A, B, r, 2, v, (q, y0));"
     " for (n in 1:4) target += sum(y[n] .* [1, 2, n]') + normal_lpdf(y[n] | 0, 1); }",
     18},
    {"times",
     "functions { vector f(real t, vector y, real k) { return [y[2], -k * y[1] + sin(t)]'; } }"
     "transformed data { vector[2] y0 = [1, 0.5]'; }"
     "parameters { real k; real t0; vector[2] lag; }"
     "model { array[2] vector[2] y = ode_@_tol(f, y0, 0.1 * t0, {1 + lag[1], 3 + lag[2]}, 1e-11, "
     "1e-11, 100000, k);"
     " array[3] vector[2] z = ode_@_tol(f, y0, 0, {lag[1] + 2, 5, 5}, 1e-11, 1e-11, 100000, 1);"
     " target += y[1, 1] - 2 * y[1, 2] + 3 * square(y[2, 1]) + z[1, 1] * z[2, 2] + z[3, 1]; }",
     4},
    {"conditions",
     "functions { array[] real f(real t, array[] real y, array[] real theta, array[] real x_r, "
     "array[] int x_i) {"
     "  array[2] real s; for (i in 1:2) s[i] = -theta[i] * y[i] + x_r[i];"
     "  if (theta[1] > 0) s[1] += 0.5 * y[2]; else s[1] -= 0.5 * y[2];"
     "  s[2] += t > 5 ? 1000 : fmin(y[1], 100) ^ 2 / (1 + y[1] ^ 2); return s; } }"
     "transformed data { array[2] real x_r = {0.1, 0.2}; array[0] int x_i; array[3] real ts = "
     "{0.5, 1, 3}; }"
     "parameters { array[2] real theta; array[2] real y0; }"
     "model { array[3, 2] real y = integrate_ode_@(f, y0, 0, ts, theta, x_r, x_i, 1e-11, 1e-11, "
     "1e6);"
     " target += -sum(square(to_vector(y[ : , 1]))) + sum(y[ : , 2]); }",
     4},
    {"one solution a subject",
     "functions { vector f(real t, vector y, real rate, data real input) { return input - rate * "
     "y; } }"
     "transformed data { vector[3] input = [0.5, 1, 2]'; }"
     "parameters { vector[3] rate; real y0; }"
     "model { for (j in 1:3) { array[2] vector[1] y = ode_@_tol(f, [y0]', 0, {j * 0.5, 2}, 1e-11, "
     "1e-11, 100000, rate[j],"
     " input[j]);"
     " target += normal_lpdf(j | y[1, 1], 1) + y[2, 1]; } }",
     4},
};

static void check_gradient(Ctx *c, const Gradient *g, const char *method) {
  if (!strcmp(method, "ckrk") && strstr(g->program, "integrate_ode")) return;
  Model *m = model_of(c, format(c, g->program, method), NULL);
  assert_int_equal(m->dim, g->dim);
  const double h = 1e-3;
  double *u = test_point(c, g->dim, 7, 0.9), *points = NEW_ARRAY(&c->arena, double, 5 * g->dim);
  for (size_t k = 0; k < g->dim; k++) {
    for (int i = 0; i < 5; i++) {
      memcpy(points + (size_t)i * g->dim, u, g->dim * sizeof *u);
      points[(size_t)i * g->dim + k] += h * (i - 2);
    }
    DensityAt *d = densities(c, m, points, 5);
    double by_difference = difference((double[]){d[0].lp, d[1].lp, d[3].lp, d[4].lp}, h);
    if (!(distance(d[2].grad[k], by_difference) < 1e-7))
      fail_msg("%s, %s: derivative %zu is %.12g, not %.12g", g->name, method, k + 1, d[2].grad[k],
               by_difference);
  }
}

static void gradient_body(Ctx *c, void *row) {
  for (int m = 0; m < METHODS; m++) check_gradient(c, row, methods[m]);
}
static void gradient(void **state) { run_body(gradient_body, *state); }

/* ---- draws and threads ----------------------------------------------------------------------- */

static const char predation[] =
    "functions { vector f(real t, vector z, vector r) {"
    "  return [z[1] * (r[1] - r[2] * z[2]), z[2] * (r[3] * z[1] - r[4])]'; } }"
    "data { real y; }"
    "parameters { vector<lower=0>[4] r; vector<lower=0>[2] z0; }"
    "model { array[4] vector[2] z = ode_@_tol(f, z0, 0, {1, 2, 3, 8}, 1e-5, 1e-5, 10000, r);"
    " y ~ normal(z[1, 1] - z[3, 2] + z[4, 1], 1); }";

enum { DRAWS = 203, DIM = 6 };

static double *many_points(Ctx *c) {
  double *u = NEW_ARRAY(&c->arena, double, DRAWS *DIM);
  for (size_t k = 0; k < DRAWS; k++)
    memcpy(u + k * DIM, test_point(c, DIM, k + 1, 1), DIM * sizeof *u);
  return u;
}

/* What a draw becomes does not depend on those beside it. */
TEST(draws_are_alone) {
  double *u = many_points(c);
  for (int m = 0; m < METHODS; m++) {
    Model *model = model_of(c, format(c, predation, methods[m]), "{\"y\": 1}");
    DensityAt *all = densities(c, model, u, DRAWS);
    for (size_t k = 0; k < DRAWS; k += 50) {
      DensityAt one = density(c, model, u + k * DIM);
      assert_true(isfinite(one.lp) && one.lp == all[k].lp);
      assert_memory_equal(one.grad, all[k].grad, DIM * sizeof *one.grad);
    }
  }
}

typedef struct {
  size_t lanes;
  double *value, *grad;
} Evaluation;

static void one_tile(void *self, const TileView *t) {
  Evaluation *e = self;
  memcpy(e->value, t->heads[0], t->ld * sizeof(double));
  for (size_t j = 0; j < t->ld; j++) t->adj[0][j] = 1;
}

static Evaluation evaluate(Ctx *c, const Model *m, const double *u, int threads) {
  Pool *pool = pool_make(c, threads);
  ModelRows all = model_rows(&c->arena, m, NULL, 0);
  Work *w = vm_work(&c->arena, model_tape(&c->arena, m, &all, WANT_LL), DRAWS, pool);
  size_t lanes = vm_ld(w);
  Evaluation e = {lanes, NEW_ARRAY(&c->arena, double, lanes),
                  NEW_ARRAY(&c->arena, double, DIM *lanes)};
  double *theta = NEW_ARRAY(&c->arena, double, DIM *lanes);
  for (size_t d = 0; d < DIM; d++)
    for (size_t j = 0; j < DRAWS; j++) theta[d * lanes + j] = u[j * DIM + d];
  for (int k = 0; k < 2; k++) { /* the second time must not see the first */
    vm_forward(w, theta);
    vm_tiles(w, one_tile, &e, true);
    vm_backward(w, (double[]){1, 1}, NULL, e.grad);
  }
  pool_free(pool);
  return e;
}

TEST(threads) {
  double *u = many_points(c);
  for (int m = 0; m < METHODS; m++) {
    Model *model = model_of(c, format(c, predation, methods[m]), "{\"y\": 1}");
    Evaluation one = evaluate(c, model, u, 1);
    for (int threads = 2; threads < 4; threads++) {
      Evaluation more = evaluate(c, model, u, threads);
      assert_memory_equal(one.value, more.value, DRAWS * sizeof(double));
      for (size_t d = 0; d < DIM; d++)
        assert_memory_equal(one.grad + d * one.lanes, more.grad + d * one.lanes,
                            DRAWS * sizeof(double));
    }
  }
}

/* A draw that needs too many steps, or leaves the numbers, has no density; those beside it have
 * theirs. */
TEST(failures) {
  for (int m = 0; m < METHODS; m++) {
    Model *model = model_of(
        c,
        format(
            c,
            "functions { vector f(real t, vector y, real k) { return k * y .* y; } }"
            "parameters { real k; }"
            "model { array[2] vector[1] y = ode_@_tol(f, [1.0]', 0, {0.5, 1}, 1e-6, 1e-6, 200, k);"
            " target += y[2, 1]; }",
            methods[m]),
        NULL);
    DensityAt *d = densities(c, model, (double[]){0.5, 1.5, NAN, -1}, 4); /* y = 1 / (1 - k t) */
    assert_close(d[0].lp, 2, 1e-5);
    assert_true(!isfinite(d[1].lp));
    assert_true(!isfinite(d[2].lp));
    assert_close(d[3].lp, 0.5, 1e-5);
    assert_close(d[3].grad[0], 0.25, 1e-5);
  }
}

/* Times of a draw that do not ascend are no times. */
TEST(times_of_draws) {
  Model *m = model_of(c,
                      "functions { vector f(real t, vector y) { return -y; } }"
                      "parameters { real t0; array[2] real ts; }"
                      "model { target += ode_rk45(f, [1.0]', t0, ts)[2, 1]; }",
                      NULL);
  DensityAt *d =
      densities(c, m, (double[]){0, 1, 2, 0, 2, 1, 0, -1, 2, 0, 1, INFINITY, 1, 1.5, 1.5}, 5);
  assert_close(d[0].lp, exp(-2), 1e-6);
  assert_close(d[0].grad[0], exp(-2), 1e-6);
  assert_close(d[0].grad[1], 0, 1e-15);
  assert_close(d[0].grad[2], -exp(-2), 1e-6);
  for (int k = 1; k < 4; k++) assert_true(isnan(d[k].lp));
  assert_close(d[4].lp, exp(-0.5), 1e-6);
}

/* ---- where it may stand ---------------------------------------------------------------------- */

/* Generated quantities run in numbers, transformed parameters on the tape: the same solution. */
TEST(outputs) {
  Model *m =
      model_of(c,
               "functions { vector f(real t, vector y, real k) { return -k * y; }"
               "  vector last(real k) { return ode_rk45(f, [1.0, 2.0]', 0, {0.5, 1}, k)[2]; } }"
               "parameters { real k; }"
               "transformed parameters { vector[2] y = last(k); }"
               "model { k ~ normal(0, 1); }"
               "generated quantities { vector[2] z = last(k); vector[2] w = ode_adjoint_tol_ctl(f, "
               "[1.0, 2.0]', 0,"
               " {0.5, 1}, 1e-8, [1e-8, 1e-9]', 1e-8, [1e-8, 1e-8]', 1e-8, 1e-8, 1000, 100, 1, 2, "
               "2, k)[2]; }",
               NULL);
  double theta[2] = {0.3, 1.2}, out[2 * 7];
  assert_int_equal(model_output_count(m), 7);
  model_outputs(c, m, &(ModelPoints){theta, 2, 1, 2}, 1, out);
  for (int draw = 0; draw < 2; draw++)
    for (int k = 1; k < 7; k++)
      assert_close(out[draw * 7 + k], (k % 2 ? 1 : 2) * exp(-theta[draw]), 1e-6);
}

/* ---- messages -------------------------------------------------------------------------------- */

typedef struct {
  const char *name, *call, *message;
} Wrong;

static const Wrong wrongs[] = {
    {"times that descend", "ode_rk45(f, y0, 0, {1, 3, 2}, k)",
     "must ascend, but time 2 is 3 and time 3 is 2"},
    {"a first time too early", "ode_rk45(f, y0, 1, {1, 2}, k)",
     "the first time of ode_rk45 is 1; it must be later"},
    {"no times", "ode_rk45(f, y0, 0, rep_array(1.0, 0), k)", "ode_rk45: argument 4 has size 0"},
    {"an infinite time", "ode_rk45(f, y0, 0, {positive_infinity()}, k)",
     "a time of ode_rk45 is not finite"},
    {"no states", "ode_bdf(f, rep_vector(1, 0), 0, {1}, k)", "ode_bdf: argument 2 has size 0"},
    {"too few derivatives", "ode_bdf(g, y0, 0, {1}, k)", "g returns 1 derivatives of 2 states"},
    {"a tolerance of 0", "ode_rk45_tol(f, y0, 0, {1}, 0, 1e-6, 100, k)",
     "the relative tolerance of ode_rk45_tol must be positive"},
    {"no steps", "ode_rk45_tol(f, y0, 0, {1}, 1e-6, 1e-6, 0, k)",
     "the greatest number of steps of ode_rk45_tol must be positive"},
    {"a solver in a right-hand side", "ode_rk45(h, y0, 0, {1}, k)",
     "solves a differential equation itself"},
};

static void make_model(Ctx *c, void *arg) { model_of(c, arg, NULL); }

static void wrong_body(Ctx *c, void *row) {
  const Wrong *w = row;
  const char *text = arena_format(
      &c->arena,
      "functions { vector f(real t, vector y, real k) { return -k * y; }\n"
      " vector g(real t, vector y, real k) { return [k]'; }\n"
      " vector h(real t, vector y, real k) { return ode_rk45(f, y, 0, {1}, k)[1]; } }\n"
      "transformed data { vector[2] y0 = [1, 2]'; }\n"
      "parameters { real k; }\n"
      "model { target += sum(%s[1]); }",
      w->call);
  assert_int_equal(attempt(c, make_model, (void *)text), PVI_PROGRAM);
  expect_message(c, w->message);
  assert_int_equal(c->messages[c->nmessages - 1].loc.line, 6);
}
static void wrong(void **state) { run_body(wrong_body, *state); }

/* ---- equations that are not solved for the derivatives --------------------------------------- */

/* Robertson's reactions with a conserved sum in the place of the last equation, against the
 * differential equations; values and gradients. */
#define REACTIONS                                                                                  \
  "functions { vector f(real t, vector y, vector v, real a) { return [v[1] + a * y[1] - 1e4 * "    \
  "y[2] * y[3], v[2] - a * y[1] + 1e4 * y[2] * y[3] + 3e7 * y[2]^2, sum(y) - 1]'; } "              \
  "vector g(real t, vector y, real a) { real up = a * y[1] - 1e4 * y[2] * y[3], on = 3e7 * "       \
  "y[2]^2; return [-up, up - on, on]'; } }"                                                        \
  "parameters { real<lower=0> a; } model { array[3] vector[3] y = "
#define REACTED "; target += y[1][1] + 2 * y[2][3] + 1e4 * y[2][2] + 5 * y[3][1]; }"

TEST(reactions_with_a_sum) {
  const Model *dae = model_of(
                  c, REACTIONS "dae(f, [1, 0, 0]', [-a, a, 0]', 0, {0.4, 40, 4000}, a)" REACTED,
                  NULL),
              *ode = model_of(c, REACTIONS "ode_bdf(g, [1, 0, 0]', 0, {0.4, 40, 4000}, a)" REACTED,
                              NULL);
  for (double u = -4; u < -2; u += 0.5) {
    DensityAt x = density(c, dae, &u), y = density(c, ode, &u);
    assert_close(x.lp, y.lp, 1e-9);
    assert_close(x.grad[0], y.grad[0], 1e-8);
  }
}

/* A pendulum's angle y and, by an algebraic equation in which no derivative stands, its height: the
 * derivatives by the initial angle, too. (y'' is not small: y1' = y2, y2' = -sin y1, y3 = -cos y1.)
 */
TEST(a_height) {
  const Model *m = model_of(
      c,
      "functions { vector f(real t, vector y, vector v, real g) { return [v[1] - y[2], v[2] + g * "
      "sin(y[1]), y[3] + cos(y[1])]'; } vector h(real t, vector y, real g) { return [y[2], -g * "
      "sin(y[1])]'; } }"
      "parameters { real b; real g; } model { array[2] vector[3] y = dae_tol(f, [b, 0, -cos(b)]', "
      "[0, -g "
      "* sin(b), 0]', 0, {0.7, 2}, 1e-11, 1e-11, 1000000, g); array[2] vector[2] z = "
      "ode_bdf_tol(h, [b, "
      "0]', 0, {0.7, 2}, 1e-11, 1e-11, 1000000, g); target += 100 * (y[1][3] + cos(z[1][1])) + 10 "
      "* "
      "(y[2][2] - z[2][2]) + z[2][1] + y[2][3]; }",
      NULL);
  for (double b = 0.3; b < 2; b += 0.5) {
    const double h = 1e-4, at[] = {b, 1.3};
    DensityAt d = density(c, m, at);
    double up = density(c, m, (double[]){b + h, 1.3}).lp,
           down = density(c, m, (double[]){b - h, 1.3}).lp;
    assert_close(d.grad[0], (up - down) / (2 * h), 1e-6);
    up = density(c, m, (double[]){b, 1.3 + h}).lp, down = density(c, m, (double[]){b, 1.3 - h}).lp;
    assert_close(d.grad[1], (up - down) / (2 * h), 1e-6);
  }
  double same[] = {1, 1.3};
  const Model *end = model_of(
      c,
      "functions { vector f(real t, vector y, vector v) { return [v[1] + y[1], y[2] - 2 * y[1]]'; "
      "} } "
      "generated quantities { array[1] vector[2] y = dae(f, [3, 6]', [-3, -6]', 0, {1.5}); }",
      NULL);
  double out[2];
  model_outputs(c, end, &(ModelPoints){same, 1, 0, 1}, 1, out);
  assert_close(out[0], 3 * exp(-1.5), 1e-9);
  assert_close(out[1], 6 * exp(-1.5), 1e-9);
}

int main(void) {
  static Suite s;
  SUITE_ADD(&s, exponential_decay);
  SUITE_ADD(&s, harmonic_oscillator);
  SUITE_ADD(&s, stiff_linear);
  SUITE_ADD(&s, stiff_nonlinear);
  SUITE_ADD(&s, robertson);
  SUITE_ADD(&s, linear_systems);
  SUITE_ADD(&s, reactions_with_a_sum);
  SUITE_ADD(&s, a_height);
  for (size_t k = 0; k < sizeof gradients / sizeof *gradients; k++)
    suite_add(&s, gradients[k].name, gradient, &gradients[k]);
  SUITE_ADD(&s, draws_are_alone);
  SUITE_ADD(&s, threads);
  SUITE_ADD(&s, failures);
  SUITE_ADD(&s, times_of_draws);
  SUITE_ADD(&s, outputs);
  for (size_t k = 0; k < sizeof wrongs / sizeof *wrongs; k++)
    suite_add(&s, wrongs[k].name, wrong, &wrongs[k]);
  return suite_run("ode", &s);
}
