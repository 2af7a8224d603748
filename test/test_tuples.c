/* test_tuples.c: tuples and arrays of them: a program that has them must be the program that has
 * their items as variables, in log density, gradient, outputs and unconstrained values; and what
 * fails in generated quantities is the draw's, not the run's. */
#include "twins.h"

/* Assignment to items and elements, under conditions of data and of parameters, in loops. */
static const Twin assignments[] = {
    {"items of items", 0, EITHER, "",
     "model { tuple(real, tuple(vector[2], real)) t; t.2.1 = b; t.1 = s; t.2.2 = 1; t.2.1[2] += s; "
     "t.2.2 *= a[1]; target += -t.1 * t.2.1[1] - t.2.1[2] - t.2.2; }",
     "model { target += -s * b[1] - (b[2] + s) - a[1]; }"},
    {"elements of arrays", 0, EITHER, "",
     "model { array[2, 2] tuple(real, real) t; for (i in 1:2) for (j in 1:2) t[i, j] = (i * s, j); "
     "t[1, 2].2 = b[1]; t[2] = {(a[1], a[2]), (a[3], 1)}; target += -t[1, 1].1 * 3 - t[1, 2].1 * "
     "t[1, 2].2 - t[2, 1].2 * 5 - t[2][2].1; }",
     "model { target += -3 * s - s * b[1] - 5 * a[2] - a[3]; }"},
    {"slices", 0, EITHER, "",
     "model { array[3] tuple(real, int) t = {(a[1], 1), (a[2], 2), (a[3], 3)}; array[2] "
     "tuple(real, "
     "int) u = t[2:3]; t[{1, 3}] = {(s, 7), (b[1], 8)}; target += -u[1].1 * u[2].2 - t[1].1 - "
     "t[3].1 * t[3].2 - t[2].1; }",
     "model { target += -3 * a[2] - s - 8 * b[1] - a[2]; }"},
    {"a copy is a copy", 0, EITHER, "",
     "model { tuple(real, vector[2]) t = (s, b); tuple(real, vector[2]) u = t; u.2[1] = 0; t.1 = "
     "2; "
     "target += -t.2[1] - u.2[1] - u.2[2] - t.1 * u.1; }",
     "model { target += -b[1] - b[2] - 2 * s; }"},
    {"integers become reals", 0, EITHER, "",
     "model { tuple(real, real) t = (1, 2); t.1 = 3; target += -s * t.1 / 2; }",
     "model { target += -s * 1.5; }"},
    {"in some draws", 0, EITHER, "",
     "model { tuple(real, real) t = (s, 1); array[2] tuple(real, real) u = {(1, 2), (3, 4)}; if "
     "(b[1] > 0) { t.1 = 2 * s; u[2].1 = s; } target += -t.1 - u[2].1 * a[1]; }",
     "model { if (b[1] > 0) target += -2 * s - s * a[1]; else target += -s - 3 * a[1]; }"},
    {"in some iterations", 5, EITHER, "",
     "model { for (n in 1:N) { tuple(real, real) t = (s, b[1]); if (z[n] == 1) t.2 = b[2]; y[n] ~ "
     "normal(t.2, t.1); } }",
     "model { for (n in 1:N) y[n] ~ normal(z[n] == 1 ? b[2] : b[1], s); }"},
    {"carried along", 5, EITHER, "",
     "model { tuple(real, int) t = (0.0, 1); for (n in 1:N) { y[n] ~ normal(t.1, s); t.1 = t.1 + "
     "b[1]; "
     "} }",
     "model { for (n in 1:N) y[n] ~ normal((n - 1) * b[1], s); }"},
};

/* ---- variables ------------------------------------------------------------------------------- */

static const char with_tuples[] =
    "data { tuple(real, int) x; array[2] tuple(vector[2], tuple(int, real<lower=0>)) y; array[0] "
    "tuple(int, real) none; }\n"
    "parameters { tuple(real, real<lower=0>) p; array[2] tuple(simplex[3], real<lower=0, upper=1>) "
    "q; }\n"
    "transformed parameters { tuple(real, matrix[2, 2]) t = (p.1 * x.1, [[1, p.2], [q[2].2, "
    "q[1].1[3]]]); }\n"
    "model { p.1 ~ normal(x.2, 1); p.2 ~ exponential(y[2].2.2); q[1].2 ~ beta(2, 3); y[1].1 ~ "
    "normal(t.1, p.2); }\n"
    "generated quantities { array[2] tuple(int, complex) g = {(1, to_complex(p.1, 2)), (y[1].2.1, "
    "1i)}; }\n";
static const char without[] =
    "data { real x1; int x2; array[2] vector[2] y1; array[2] int y21; array[2] real y22; }\n"
    "parameters { real p1; real<lower=0> p2; simplex[3] q11; real<lower=0, upper=1> q12; "
    "simplex[3] "
    "q21; real<lower=0, upper=1> q22; }\n"
    "transformed parameters { real t1 = p1 * x1; matrix[2, 2] t2 = [[1, p2], [q22, q11[3]]]; }\n"
    "model { p1 ~ normal(x2, 1); p2 ~ exponential(y22[2]); q12 ~ beta(2, 3); y1[1] ~ normal(t1, "
    "p2); "
    "}\n"
    "generated quantities { int g11 = 1; complex g12 = to_complex(p1, 2); int g21 = y21[1]; "
    "complex "
    "g22 = 1i; }\n";
static const char tuples_data[] = "{\"x\": {\"1\": 1.5, \"2\": 2}, \"y\": [{\"1\": [1, 2], \"2\": "
                                  "{\"1\": 7, \"2\": 0.5}}, {\"1\": "
                                  "[3, 4], \"2\": {\"1\": 8, \"2\": 0.25}}], \"none\": []}";
static const char plain_data[] =
    "{\"x1\": 1.5, \"x2\": 2, \"y1\": [[1, 2], [3, 4]], \"y21\": [7, 8], \"y22\": [0.5, 0.25]}";
static const char *const columns[] = {
    "p:1",     "p:2",     "q.1:1.1",    "q.1:1.2",    "q.1:1.3", "q.1:2",      "q.2:1.1",
    "q.2:1.2", "q.2:1.3", "q.2:2",      "t:1",        "t:2.1.1", "t:2.2.1",    "t:2.1.2",
    "t:2.2.2", "g.1:1",   "g.1:2.real", "g.1:2.imag", "g.2:1",   "g.2:2.real", "g.2:2.imag"};
enum { NCOLUMNS = sizeof columns / sizeof *columns, NPARAMETERS = 10 };

TEST(items_as_variables) {
  const Model *m = model_of(c, with_tuples, tuples_data), *o = model_of(c, without, plain_data);
  double *u = test_point(c, m->dim, 5, 1), v[NCOLUMNS], w[NCOLUMNS], back[16];
  DensityAt d = density(c, m, u), e = density(c, o, u);
  assert_int_equal(m->dim, o->dim);
  assert_close(d.lp, e.lp, 1e-14);
  for (size_t k = 0; k < m->dim; k++) assert_close(d.grad[k], e.grad[k], 1e-13);
  assert_int_equal(model_output_count(m), NCOLUMNS);
  for (size_t k = 0; k < NCOLUMNS; k++)
    assert_string_equal(model_output_name(m, &c->arena, k, true), columns[k]);
  assert_string_equal(model_output_name(m, &c->arena, 3, false), "q[1].1[2]");
  assert_string_equal(model_unconstrained_name(m, &c->arena, 1), "p.2");
  model_outputs(c, m, &(ModelPoints){u, 1, m->dim, 1}, 1, v);
  model_outputs(c, o, &(ModelPoints){u, 1, o->dim, 1}, 1, w);
  for (size_t k = 0; k < NCOLUMNS; k++) assert_close(v[k], w[k], 1e-15);
  model_unconstrain(c, m, v, back);
  for (size_t k = 0; k < m->dim; k++) assert_close(back[k], u[k], 1e-9);
}

static const struct Wrong {
  const char *what, *data, *message;
} wrongs[] = {
    {"an item is missing", "{\"x\": {\"1\": 1}}", "the data variable 'x.2' (int) has no value"},
    {"an item is no integer", "{\"x\": {\"1\": 1, \"2\": 0.5}}",
     "'x.2' is declared int (declared at test.stan:1:"},
    {"an item is outside of its bounds",
     "{\"x\": {\"1\": 1, \"2\": 2}, \"y\": [{\"1\": [1, 2], \"2\": {\"1\": 7, \"2\": 1}}, {\"1\": "
     "[3, "
     "4], \"2\": {\"1\": 8, \"2\": -1}}], \"none\": []}",
     "y.2.2 is -1, but must be at least 0"},
    {"it is no tuple", "{\"x\": [1, 2]}", "the data variable 'x.1' (real) has no value"},
};

static void load_wrong(Ctx *c, void *self) { model_of(c, with_tuples, self); }

TEST(wrong_data) {
  const struct Wrong *w = row;
  Message why = {.text = ""};
  assert_false(ctx_try(c, load_wrong, (void *)w->data, &why));
  if (!strstr(why.text, w->message)) fail_msg("%s", why.text);
}

/* ---- draws without generated quantities ------------------------------------------------------ */

TEST(failing_draws) {
  const Model *m =
      model_of(c,
               "parameters { real x; } transformed parameters { real t = 2 * x; } model { x ~ "
               "normal(0, 1); } generated quantities { real g = x; vector[3] v; if (x > 1) "
               "reject(\"too large: \", x); real h = v[x > 0 ? 3 : 9]; }",
               "{}");
  double u[3] = {0.5, -1, 2}, out[3 * 7];
  model_outputs(c, m, &(ModelPoints){u, 3, 1, 1}, 1, out);
  assert_int_equal(model_output_count(m), 7);
  for (size_t i = 0; i < 3; i++) {
    assert_close(out[7 * i], u[i], 0);
    assert_close(out[7 * i + 1], 2 * u[i], 1e-15);
    assert_true(i == 0 ? out[2] == 0.5 : isnan(out[7 * i + 2]));
  }
  expect_message(c, "2 of 3 draws have no generated quantities");
  expect_message(c, "index 9 is out of range");
}

static void make_model(Ctx *c, void *self) {
  model_make(c, self, data_read_text(c, "test.json", "{}", NULL), NULL);
}

/* What print cannot show ends the program where Stan would. */
TEST(wrong_print) {
  static const struct {
    const char *program, *message;
  } programs[] = {
      {"parameters { vector[3] x; } transformed parameters { print(x[4]); } model { x ~ normal(0, "
       "1); }",
       "index 4 is out of range"},
      {"parameters { vector[3] x; } model { for (n in 1:4) print(\"x\", x[n]); x ~ normal(0, 1); }",
       "index 4 is out of range"},
      {"parameters { vector[3] x; } model { x ~ normal(0, 1); print(target(), x[x[1] > 0 ? 1 : "
       "2]); }",
       NULL},
  };
  for (size_t k = 0; k < sizeof programs / sizeof *programs; k++) {
    Message why = {.text = ""};
    Program *p = stan_parse_text(c, "t", programs[k].program, strlen(programs[k].program), NULL);
    stan_check(c, p);
    assert_int_equal(c->nerrors, 0);
    bool made = ctx_try(c, make_model, p, &why);
    assert_int_equal(made, !programs[k].message);
    if (!made && !strstr(why.text, programs[k].message)) fail_msg("%s", why.text);
  }
}

int main(void) {
  static Suite suite;
  ADD_ROWS(assignments, twin, .what);
  ADD_ROWS(wrongs, wrong_data, .what);
  SUITE_ADD(&suite, items_as_variables);
  SUITE_ADD(&suite, failing_draws);
  SUITE_ADD(&suite, wrong_print);
  return suite_run("tuples", &suite);
}
