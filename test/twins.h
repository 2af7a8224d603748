/* twins.h: for tests of what programs mean: two ways to write one log density, which must agree in
 * value, gradient, prior and observations; the gradient must also be that of finite differences. */
#ifndef PVI_TEST_TWINS_H
#define PVI_TEST_TWINS_H

#include "evaluate.h"

#define DATA                                                                                       \
  "{\"N\": 5, \"x\": [0.5, -1, 2, 0.1, -0.3], \"y\": [1.2, 0.3, -0.7, 2.1, 0.4], \"g\": [1, 3, "   \
  "2, 3, 1], \"z\": [0, 1, 1, 0, "                                                                 \
  "1],"                                                                                            \
  " \"k\": [3, 0, 7, 1, 2], \"X\": [[1, 0.5], [1, -1], [1, 2], [1, 0.1], [1, -0.3]]}"
#define HEAD                                                                                       \
  "data { int N; vector[N] x; vector[N] y; array[N] int g; array[N] int<lower=0, upper=1> z; "     \
  "array[N] int<lower=0> k;"                                                                       \
  " matrix[N, 2] X; } "
#define PARAMETERS "parameters { vector[2] b; real<lower=0> s; vector[3] a; } "

typedef enum { EITHER, LIFTED, UNROLLED } Loops; /* what must become of the first program's loops */

typedef struct {
  const char *what;
  long n_obs; /* of the first program */
  Loops loops;
  const char *functions, *one, *other; /* functions of both; transformed parameters and model */
} Twin;

static const Model *twin_model(Ctx *c, const Twin *t, const char *body) {
  const char *functions =
      *t->functions ? arena_format(&c->arena, "functions { %s } ", t->functions) : "";
  return model_of(c, arena_format(&c->arena, "%s" HEAD PARAMETERS "%s", functions, body), DATA);
}

static void expect_loops(const Twin *t, const Model *m) {
  for (size_t k = 0; k < m->nloops && t->loops != EITHER; k++) {
    if (t->loops == LIFTED && !m->loops[k].lifted)
      fail_msg("the loop is not lifted: %s", m->loops[k].why);
    if (t->loops == UNROLLED && !m->loops[k].lifted) return;
  }
  if (t->loops == UNROLLED) fail_msg("every loop was lifted");
}

TEST(twin) {
  const Twin *t = row;
  const Model *m = twin_model(c, t, t->one), *o = twin_model(c, t, t->other);
  if ((long)m->n_obs != t->n_obs) fail_msg("%zu observations, not %ld", m->n_obs, t->n_obs);
  expect_loops(t, m);
  for (uint64_t seed = 2; seed <= 3; seed++) {
    double *u = test_point(c, m->dim, seed, 1);
    DensityAt d = density(c, m, u), e = density(c, o, u);
    assert_true(isfinite(d.lp));
    assert_close(d.lp, e.lp, 1e-13);
    assert_close(d.jacobian, e.jacobian, 1e-13);
    for (size_t k = 0; k < m->dim; k++) assert_close(d.grad[k], e.grad[k], 1e-12);
    expect_gradient(c, m, u, &d, 1e-7);
    if (m->n_obs != o->n_obs) continue;
    assert_close(d.prior, e.prior, 1e-13);
    for (size_t k = 0; k < m->n_obs; k++) assert_close(d.pointwise[k], e.pointwise[k], 1e-13);
  }
}

#define ADD_ROWS(rows, function, label)                                                            \
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)                                          \
  suite_add(&suite, rows[k] label, function, &rows[k])

#endif
