/* test_constraints.c: laws of constraints.def: the way from unconstrained numbers to parameters and
 * back is the identity; what the transforms make passes the checks of given values; values outside
 * of a constraint are refused by name. (test_model.c has the Jacobians.) */
#include "evaluate.h"

static const struct Row {
  const char *block; /* of parameters */
  const char *data;  /* declarations | values */
  size_t dim;
} rows[] = {
    {"real p;", "", 1},
    {"matrix[2, 3] p;", "", 6},
    {"array[2] matrix[3, 2] p;", "", 12},
    {"real<lower=-1.5> p;", "", 1},
    {"real<upper=2> p;", "", 1},
    {"real<lower=-1, upper=3> p;", "", 1},
    {"real<lower=negative_infinity(), upper=positive_infinity()> p;", "", 1},
    {"vector<lower=[0, negative_infinity(), 2]', upper=[positive_infinity(), 5, 2.5]'>[3] p;", "",
     3},
    {"row_vector<upper=0>[2] p;", "", 2},
    {"matrix<lower=0>[2, 3] p;", "", 6},
    {"matrix<lower=L>[2, 2] p;", "matrix[2, 2] L; | \"L\": [[0, 1], [2, 3]]", 4},
    {"array[2, 2] real<lower=0, upper=1> p;", "", 4},
    {"array[3] vector<lower=l>[2] p;", "vector[2] l; | \"l\": [-1, 5]", 6},
    {"array[2] vector<offset=1, multiplier=2>[2] p;", "", 4},
    {"vector<offset=[1, 2]', multiplier=[3, 4]'>[2] p;", "", 2},
    {"real<multiplier=0.5> p;", "", 1},
    {"real<offset=-3> p;", "", 1},
    {"real a; real<lower=a> b; real<lower=a, upper=a + exp(b)> p;", "", 3},
    {"real<lower=0> s; vector<offset=m, multiplier=s>[3] p;", "real m; | \"m\": 4", 4},
    {"vector[2] a; vector<lower=a>[2] b; array[2] vector<upper=b>[2] p;", "", 8},
    {"ordered[4] p;", "", 4},
    {"ordered[1] p;", "", 1},
    {"ordered[0] p; real q;", "", 1},
    {"array[2] ordered[3] p;", "", 6},
    {"positive_ordered[3] p;", "", 3},
    {"positive_ordered[1] p;", "", 1},
    {"positive_ordered[0] p; real q;", "", 1},
    {"array[2, 2] positive_ordered[2] p;", "", 8},
    {"simplex[5] p;", "", 4},
    {"simplex[2] p;", "", 1},
    {"simplex[1] p; real q;", "", 1},
    {"array[3] simplex[4] p;", "", 9},
    {"sum_to_zero_vector[5] p;", "", 4},
    {"sum_to_zero_vector[2] p;", "", 1},
    {"sum_to_zero_vector[1] p; real q;", "", 1},
    {"array[2] sum_to_zero_vector[3] p;", "", 4},
    {"sum_to_zero_matrix[3, 4] p;", "", 6},
    {"sum_to_zero_matrix[2, 2] p;", "", 1},
    {"sum_to_zero_matrix[1, 3] p; real q;", "", 1},
    {"array[2] sum_to_zero_matrix[3, 2] p;", "", 4},
    {"cholesky_factor_corr[4] p;", "", 6},
    {"cholesky_factor_corr[2] p;", "", 1},
    {"cholesky_factor_corr[1] p; real q;", "", 1},
    {"cholesky_factor_corr[0] p; real q;", "", 1},
    {"array[2] cholesky_factor_corr[3] p;", "", 6},
    {"cholesky_factor_cov[3] p;", "", 6},
    {"cholesky_factor_cov[4, 2] p;", "", 7},
    {"cholesky_factor_cov[1] p;", "", 1},
    {"cholesky_factor_cov[0] p; real q;", "", 1},
    {"array[2] cholesky_factor_cov[3, 2] p;", "", 10},
    {"corr_matrix[4] p;", "", 6},
    {"corr_matrix[2] p;", "", 1},
    {"corr_matrix[1] p; real q;", "", 1},
    {"corr_matrix[0] p; real q;", "", 1},
    {"array[3] corr_matrix[3] p;", "", 9},
    {"cov_matrix[3] p;", "", 6},
    {"cov_matrix[1] p;", "", 1},
    {"cov_matrix[0] p; real q;", "", 1},
    {"array[2] cov_matrix[2] p;", "", 6},
    {"column_stochastic_matrix[3, 2] p;", "", 4},
    {"column_stochastic_matrix[2, 4] p;", "", 4},
    {"row_stochastic_matrix[3, 2] p;", "", 3},
    {"row_stochastic_matrix[2, 4] p;", "", 6},
    {"array[2] row_stochastic_matrix[2, 3] p;", "", 8},
    {"array[0] real<lower=0> p; array[0] simplex[3] r; real q;", "", 1},
};

static Model *model_with(Ctx *c, const char *block, const char *data) {
  const char *bar = strchr(data, '|');
  int n = bar ? (int)(bar - data) : 0;
  return model_of(
      c, arena_format(&c->arena, "data { %.*s }\nparameters { %s } model { }", n, data, block),
      arena_format(&c->arena, "{%s}", bar ? bar + 1 : ""));
}

/* The parameters, in the order of their columns. */
static double *values_of(Ctx *c, const Model *m, const double *theta) {
  double *values = NEW_ARRAY(&c->arena, double, model_output_count(m));
  model_outputs(c, m, &(ModelPoints){theta, 1, m->dim, 1}, 1, values);
  return values;
}

static void compare(const double *got, const double *want, size_t n) {
  for (size_t k = 0; k < n; k++) assert_close(got[k], want[k], 1e-9);
}

TEST(there_and_back) {
  const struct Row *r = row;
  const Model *m = model_with(c, r->block, r->data);
  assert_int_equal(m->dim, r->dim);
  double *back = NEW_ARRAY(&c->arena, double, m->dim);
  for (uint64_t seed = 1; seed <= 3; seed++) {
    double *theta = test_point(c, m->dim, seed, 2);
    model_unconstrain(c, m, values_of(c, m, theta), back);
    compare(back, theta, m->dim);
  }
}

/* Of a unit vector only the direction comes back. */
TEST(unit_vectors) {
  const Model *m = model_of(c, "parameters { array[2] unit_vector[3] p; unit_vector[1] q; }", NULL);
  double *theta = test_point(c, m->dim, 4, 2), back[7];
  assert_int_equal(m->dim, 7);
  double *x = values_of(c, m, theta);
  model_unconstrain(c, m, x, back);
  compare(values_of(c, m, back), x, 7);
  assert_close(back[0] * back[0] + back[1] * back[1] + back[2] * back[2], 1, 1e-14);
}

/* Every row and every column sums to zero, and lengths are kept: the numbers are coordinates. */
TEST(zero_sums) {
  const Model *m = model_of(c, "parameters { sum_to_zero_matrix[3, 4] p; }", NULL);
  double *theta = test_point(c, m->dim, 5, 2), *x = values_of(c, m, theta), length = 0;
  for (size_t k = 0; k < 6; k++) length += theta[k] * theta[k];
  for (size_t k = 0; k < 12; k++) length -= x[k] * x[k];
  assert_close(length, 0, 1e-13);
  for (size_t j = 0; j < 4; j++) assert_close(x[3 * j] + x[3 * j + 1] + x[3 * j + 2], 0, 1e-15);
  for (size_t i = 0; i < 3; i++) assert_close(x[i] + x[3 + i] + x[6 + i] + x[9 + i], 0, 1e-15);
  assert_true(density(c, m, theta).jacobian == 0);
}

/* Stan's conventions, worked out by hand. */
TEST(by_hand) {
  double u[8];
  const Model *m = model_of(
      c, "parameters { simplex[3] p; real<lower=1, upper=5> a; array[2] vector<upper=4>[2] b; }",
      NULL);
  /* columns: p.1 p.2 p.3 a b.1.1 b.2.1 b.1.2 b.2.2 */
  model_unconstrain(c, m, (double[]){0.5, 0.3, 0.2, 2, 3, 2, 1, 0}, u);
  compare(u,
          (double[]){log(0.5 / 0.5) + log(2), log(0.3 / 0.2), log(0.25 / 0.75), log(1), log(3),
                     log(2), log(4)},
          7);
  m = model_of(c, "parameters { matrix<lower=0>[2, 2] p; corr_matrix[2] r; cov_matrix[2] s; }",
               NULL);
  model_unconstrain(c, m, (double[]){1, 2, 3, 4, 1, 0.6, 0.6, 1, 4, 2, 2, 10}, u);
  compare(u, (double[]){log(1), log(2), log(3), log(4), atanh(0.6), log(2), 1, log(3)}, 8);
}

/* A value on its bound has an infinite unconstrained number. */
TEST(on_the_bound) {
  double u[2];
  const Model *m = model_of(c, "parameters { real<lower=1> a; real<lower=0, upper=1> b; }", NULL);
  model_unconstrain(c, m, (double[]){1, 1}, u);
  assert_true(u[0] == -INFINITY && u[1] == INFINITY);
}

/* ---- values outside of a constraint ---------------------------------------------------------- */

static const struct Outside {
  const char *block;
  double values[9];
  const char *message;
} outsides[] = {
    {"vector<lower=0>[3] p;",
     {1, -2, 3},
     "the parameters violate their declaration: p[2] is -2, "
     "but must be at least 0"},
    {"real a; array[2] real<upper=a> p;", {5, 4, 6}, "p[2] is 6, but must be at most 5"},
    {"matrix<lower=0>[2, 2] p;", {1, -1, 1, 1}, "p[2,1] is -1, but must be at least 0"},
    {"real<lower=0> p;", {NAN}, "p is nan, but must be at least 0"},
    {"simplex[2] p;", {0.5, 0.6}, "p is no simplex: the sum is 1.1, not 1"},
    {"array[2] ordered[2] p;",
     {1, 4, 2, 3},
     "p[2] is no ordered: element 2 is 3, not above the 4 "
     "before it"},
    {"positive_ordered[2] p;", {-1, 2}, "p is no positive_ordered: element 1 is -1"},
    {"unit_vector[2] p;", {1, 1}, "p is no unit_vector: the sum of squares is 2, not 1"},
    {"sum_to_zero_vector[2] p;", {1, 1}, "p is no sum_to_zero_vector: the sum is 2, not 0"},
    {"sum_to_zero_matrix[2, 2] p;", {1, -1, 1, -1}, "in row 1 the sum is 2, not 0"},
    {"cholesky_factor_corr[2] p;", {1, 0.6, 0, 0.9}, "p is no cholesky_factor_corr"},
    {"cholesky_factor_cov[2] p;", {1, 2, 0, -1}, "the diagonal element [2,2] is -1, not above 0"},
    {"corr_matrix[2] p;", {1, 2, 2, 1}, "p is no corr_matrix: it is not positive definite"},
    {"cov_matrix[2] p;", {1, 2, 0, 1}, "p is no cov_matrix: it is not symmetric"},
};

typedef struct {
  const Model *m;
  const double *values;
} Given;

static void unconstrain_given(Ctx *c, void *arg) {
  const Given *g = arg;
  model_unconstrain(c, g->m, g->values, NEW_ARRAY(&c->arena, double, g->m->dim));
}

TEST(outside) {
  const struct Outside *o = row;
  const Model *m = model_with(c, o->block, "");
  Status s = attempt(c, unconstrain_given, &(Given){m, o->values});
  assert_int_equal(s, PVI_DATA);
  expect_message(c, o->message);
}

/* ---- sizes that do not exist, types that cannot be parameters -------------------------------- */

static const struct {
  const char *block, *message;
} refused[] = {
    {"simplex[0] p;", "p: there is no simplex of size 0"},
    {"array[2] unit_vector[0] p;", "p: there is no unit_vector"},
    {"sum_to_zero_vector[0] p;", "p: there is no sum_to_zero_vector"},
    {"sum_to_zero_matrix[0, 2] p;", "p: there is no sum_to_zero_matrix of size 0 x 2"},
    {"cholesky_factor_cov[2, 3] p;", "p: there is no cholesky_factor_cov of size 2 x 3"},
    {"row_stochastic_matrix[2, 0] p;", "p: there is no row_stochastic_matrix of size 2 x 0"},
    {"vector<lower=[0, 1]'>[3] p;", "2 bounds for 3 elements"},
};

static void make_model(Ctx *c, void *block) { model_with(c, block, ""); }

TEST(refusals) {
  for (size_t k = 0; k < sizeof refused / sizeof *refused; k++) {
    assert_true(attempt(c, make_model, (void *)refused[k].block) != PVI_OK);
    expect_message(c, refused[k].message);
    c->nerrors = 0;
  }
}

/* ---- the same transforms, called by the program ---------------------------------------------- */

static const struct Called {
  const char *declared;    /* the type of p, a parameter */
  const char *free, *type; /* of the unconstrained numbers, and of p, both without constraint */
  const char *function, *sizes,
      *numbers; /* simplex, "", to_vector(x) of the free x; NULL: no way back */
} calls[] = {
    {"real<lower=-1.5>", "real", "real", "lower_bound", ", -1.5", "rep_vector(x, 1)"},
    {"vector<upper=[1, 2]'>[2]", "vector[2]", "vector[2]", "upper_bound", ", [1, 2]'", "x"},
    {"vector<lower=0, upper=3>[2]", "vector[2]", "vector[2]", "lower_upper_bound", ", 0, 3", "x"},
    {"vector<lower=[negative_infinity(), 1]'>[2]", "vector[2]", "vector[2]", "lower_bound",
     ", [negative_infinity(), 1]'", "x"},
    {"matrix<offset=2, multiplier=3>[2, 3]", "matrix[2, 3]", "matrix[2, 3]", "offset_multiplier",
     ", 2, 3", "to_vector(x)"},
    {"ordered[3]", "vector[3]", "vector[3]", "ordered", "", "x"},
    {"array[2] ordered[3]", "array[2] vector[3]", "array[2] vector[3]", "ordered", "",
     "append_row(x[1], x[2])"},
    {"positive_ordered[3]", "vector[3]", "vector[3]", "positive_ordered", "", "x"},
    {"simplex[4]", "vector[3]", "vector[4]", "simplex", "", "x"},
    {"array[2] simplex[3]", "array[2] vector[2]", "array[2] vector[3]", "simplex", "",
     "append_row(x[1], x[2])"},
    {"unit_vector[3]", "vector[3]", "vector[3]", "unit_vector", "", NULL},
    {"sum_to_zero_vector[4]", "vector[3]", "vector[4]", "sum_to_zero", "", "x"},
    {"sum_to_zero_matrix[3, 4]", "matrix[2, 3]", "matrix[3, 4]", "sum_to_zero", "", "to_vector(x)"},
    {"column_stochastic_matrix[3, 2]", "matrix[2, 2]", "matrix[3, 2]", "stochastic_column", "",
     "to_vector(x)"},
    {"row_stochastic_matrix[3, 4]", "matrix[3, 3]", "matrix[3, 4]", "stochastic_row", "",
     "to_vector(x)"},
    {"array[2] row_stochastic_matrix[2, 3]", "array[2] matrix[2, 2]", "array[2] matrix[2, 3]",
     "stochastic_row", "", "append_row(to_vector(x[1]), to_vector(x[2]))"},
    {"corr_matrix[3]", "vector[3]", "matrix[3, 3]", "corr_matrix", ", 3", "x"},
    {"cov_matrix[3]", "vector[6]", "matrix[3, 3]", "cov_matrix", ", 3", "x"},
    {"cholesky_factor_corr[4]", "vector[6]", "matrix[4, 4]", "cholesky_factor_corr", ", 4", "x"},
    {"cholesky_factor_cov[3, 2]", "vector[5]", "matrix[3, 2]", "cholesky_factor_cov", ", 3, 2",
     "x"},
    {"array[2] cov_matrix[2]", "array[2] vector[3]", "array[2] matrix[2, 2]", "cov_matrix", ", 2",
     "append_row(x[1], x[2])"},
};

/* An array of real numbers counts as any other: something that depends on every element. */
static const char *user =
    "functions { real f(real p) { return sin(p); } real f(vector p) { return dot_product(p, "
    "linspaced_vector(num_elements(p), 1, 2)); } real f(matrix p) { return f(to_vector(p)) + "
    "f(to_vector(p .* p)); } real f(array[] vector p) { return f(p[1]) + 3 * f(p[2]); } "
    "real f(array[] matrix p) { return f(p[1]) + 3 * f(p[2]); } }\n";

static void compare_densities(Ctx *c, const Model *m, const Model *n) {
  assert_int_equal(m->dim, n->dim);
  for (uint64_t seed = 1; seed <= 3; seed++) {
    const double *u = test_point(c, m->dim, seed, 1.5);
    DensityAt a = density(c, m, u), b = density(c, n, u);
    assert_close(a.lp, b.lp, 1e-12);
    assert_close(a.jacobian, b.jacobian, 1e-12);
    for (size_t k = 0; k < m->dim; k++) assert_close(a.grad[k], b.grad[k], 1e-11);
  }
}

/* A declared parameter is the function of unconstrained numbers that adds its Jacobian. */
TEST(as_functions) {
  const struct Called *f = row;
  const Model *declared =
      model_of(c,
               arena_format(&c->arena, "%sparameters { %s p; } model { target += f(p); }", user,
                            f->declared),
               NULL);
  const Model *called =
      model_of(c,
               arena_format(&c->arena,
                            "%sparameters { %s u; } transformed parameters { %s p = "
                            "%s_jacobian(u%s); } model { target += f(p); }",
                            user, f->free, f->type, f->function, f->sizes),
               NULL);
  compare_densities(c, declared, called);
}

/* The way back leads back, and its derivative is the identity. */
TEST(and_back) {
  const struct Called *f = row;
  const char *sizes = strchr(f->function, '_') && strstr("corr_matrix cov_matrix "
                                                         "cholesky_factor_corr "
                                                         "cholesky_factor_cov",
                                                         f->function)
                          ? ""
                          : f->sizes;
  const Model *there = model_of(
      c,
      arena_format(
          &c->arena,
          "parameters { %s u; } model { %s x = %s_unconstrain(%s_constrain(u%s)%s); target "
          "+= sum(%s .* %s); }",
          f->free, f->free, f->function, f->function, f->sizes, sizes, f->numbers, f->numbers),
      NULL);
  for (uint64_t seed = 1; seed <= 3; seed++) {
    const double *u = test_point(c, there->dim, seed, 1.5);
    DensityAt at = density(c, there, u);
    double sum = 0;
    for (size_t k = 0; k < there->dim; k++) sum += u[k] * u[k];
    assert_close(at.lp, sum, 1e-12);
    for (size_t k = 0; k < there->dim; k++) assert_close(at.grad[k], 2 * u[k], 1e-10);
  }
}

static void make_called(Ctx *c, void *text) { model_of(c, text, NULL); }

TEST(called_wrongly) {
  assert_int_equal(attempt(c, make_called,
                           "parameters { vector[4] u; } model { matrix[3, 3] p = "
                           "corr_matrix_constrain(u, 3); target += p[1, 2]; }"),
                   PVI_PROGRAM);
  expect_message(c, "4 numbers are given; a corr_matrix of this size is made of 3");
}

int main(void) {
  static Suite suite;
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
    suite_add(&suite, rows[k].block, there_and_back, &rows[k]);
  for (size_t k = 0; k < sizeof outsides / sizeof *outsides; k++)
    suite_add(&suite, outsides[k].message, outside, &outsides[k]);
  for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
    suite_add(&suite, calls[k].declared, as_functions, &calls[k]);
    if (calls[k].numbers) suite_add(&suite, calls[k].declared, and_back, &calls[k]);
  }
  SUITE_ADD(&suite, called_wrongly);
  SUITE_ADD(&suite, unit_vectors);
  SUITE_ADD(&suite, zero_sums);
  SUITE_ADD(&suite, by_hand);
  SUITE_ADD(&suite, on_the_bound);
  SUITE_ADD(&suite, refusals);
  return suite_run("constraints", &suite);
}
