/* test_complex.c: complex numbers in programs: elementary functions against C's, derivatives
 * against differences, Fourier transforms against their definition, decompositions by what they
 * promise, and everything that moves elements by what it does to real ones. */
#include "evaluate.h"

#include "num/spectrum.h"

#include <complex.h>

typedef double complex Z;

/* Derivatives of the log density against central differences. */
static void check_gradient(Ctx *c, const Model *m, const double *u) {
  DensityAt at = density(c, m, u);
  for (size_t k = 0; k < m->dim; k++) {
    double h = 1e-5, *v = NEW_ARRAY(&c->arena, double, m->dim);
    memcpy(v, u, m->dim * sizeof *v);
    v[k] = u[k] + h;
    double up = density(c, m, v).lp;
    v[k] = u[k] - h;
    assert_close(at.grad[k], (up - density(c, m, v).lp) / (2 * h), 1e-7);
  }
}

/* ---- elementary functions -------------------------------------------------------------------- */

static Z z_square(Z z) { return z * z; }
static Z z_power(Z z) { return cpow(z, 1.5 - 0.5 * I); }
static Z z_conj(Z z) { return conj(z); }
static Z z_log10(Z z) { return clog(z) / log(10); }
static Z z_quotient(Z z) { return (2 + I) / z; }
static Z z_abs(Z z) { return cabs(z); }
static Z z_arg(Z z) { return carg(z); }
static Z z_norm(Z z) { return creal(z * conj(z)); }
static Z z_polar(Z z) { return creal(z) * cexp(I * cimag(z)); }
static Z z_same(Z z) { return z; }
static Z z_compound(Z z) { return 3 * (z + 1) - I; }

static const struct Function {
  const char *text;
  Z (*f)(Z);
} functions[] = {
    {"exp(z)", cexp},
    {"log(z)", clog},
    {"log10(z)", z_log10},
    {"sqrt(z)", csqrt},
    {"sin(z)", csin},
    {"cos(z)", ccos},
    {"tan(z)", ctan},
    {"asin(z)", casin},
    {"acos(z)", cacos},
    {"atan(z)", catan},
    {"sinh(z)", csinh},
    {"cosh(z)", ccosh},
    {"tanh(z)", ctanh},
    {"asinh(z)", casinh},
    {"acosh(z)", cacosh},
    {"atanh(z)", catanh},
    {"z^2", z_square},
    {"z * z", z_square},
    {"pow(z, 1.5 - 0.5i)", z_power},
    {"conj(z)", z_conj},
    {"(2 + 1i) / z", z_quotient},
    {"to_complex(abs(z), 0)", z_abs},
    {"to_complex(arg(z), 0)", z_arg},
    {"norm(z)", z_norm},
    {"polar(get_real(z), get_imag(z))", z_polar},
    {"proj(z)", z_same},
    {"-(-z)", z_same},
    {"z == z && !(z != z) ? z : 2 * z", z_same},
    {"3 * (z + 1) - 1i", z_compound},
    {"sum([z, 1i, 0]) - 1i", z_same},
    {"prod([z, 1i, -1i])", z_same},
    {"[z, 2][1]", z_same},
    {"to_vector([z, 2])[1]", z_same},
    {"rep_vector(z, 3)[2]", z_same},
    {"rep_matrix(z, 2, 2)[2, 1]", z_same},
    {"append_row([1i, 2i]', z)[3]", z_same},
    {"append_col(1, [z, 3])[2]", z_same},
    {"reverse([1, 2, z])[1]", z_same},
    {"[z, 3]'[1]", z_same},
    {"cumulative_sum([z - 1i, 1i])[2]", z_same},
    {"dot_product([1, 1i]', [z, 0]')", z_same},
    {"conj(dot_product([z, 0]', [1, 0]'))", z_same},
    {"[[1, 2i], [3, 1]][1] * [z, 0]'", z_same},
    {"([[2i, 0], [0, 1]] * [z, 5]')[1] / 2i", z_same},
    {"([z, 1] * diag_matrix([1, 7i]'))[1]", z_same},
    {"([z, 1] / [[1, 2i], [0, 3]])[1]", z_same},
    {"(diag_pre_multiply([1i, 2], [[z, 1], [2, 3]]) .* rep_matrix(-1i, 2, 2))[1, 1]", z_same},
    {"trace([[z, 5], [3i, 1]]) - 1", z_same},
    {"add_diag([[1, 2], [3, 4]], z)[2, 2] - 4", z_same},
    {"rows_dot_product([[1i, 0]], [[-1i * z, 5]])[1]", z_same},
    {"to_array_1d([[z, 2]])[1]", z_same},
    {"f(z)", z_same},
};

TEST(elementary) {
  const struct Function *f = row;
  const Model *m = model_of(
      c,
      arena_format(
          &c->arena,
          "functions { complex f(complex z) { if (num_elements([z, z]) == 2 && rows([z]) == "
          "1) return z; return 0; } }\n"
          "parameters { real x; real y; } model { complex z = to_complex(x, y); complex w = "
          "%s; target += get_real(w) + 2 * get_imag(w); }",
          f->text),
      NULL);
  static const double points[][2] = {
      {0.4, 0.7}, {-1.3, 0.2}, {0.3, -2.1}, {-0.6, -0.8}, {1.7, 0.1}};
  for (size_t k = 0; k < sizeof points / sizeof *points; k++) {
    Z w = f->f(spectrum_number(points[k][0], points[k][1]));
    assert_close(density(c, m, points[k]).lp, creal(w) + 2 * cimag(w), 1e-13);
    check_gradient(c, m, points[k]);
  }
}

/* ---- variables ------------------------------------------------------------------------------- */

/* Data as pairs, parameters in Stan's order, columns by name. */
TEST(variables) {
  const Model *m = model_of(
      c,
      "data { complex z; complex_matrix[2, 2] M; array[2] complex_vector[1] v; }\n"
      "parameters { complex p; complex_matrix[2, 2] W; }\n"
      "model { target += get_real(sum(M .* W)) + get_imag(z * p) + get_real(v[2][1] * v[1, 1]); }\n"
      "generated quantities { complex q = z + 1i; complex_row_vector[2] r = M[1]; }",
      "{\"z\": [1, 2], \"M\": [[[1, 0], [2, 0]], [[3, 0], [4, 5]]], \"v\": [[[2, 0]], [[3, 1]]]}");
  assert_int_equal(m->dim, 10);
  double u[10] = {1, 2, 1, 0, 2, 0, 3, 0, 4, 1}; /* p; W by columns */
  double lp = (1 * 1 + 2 * 3 + 3 * 2 + 4 * 4 - 5 * 1) + (1 * 2 + 2 * 1) + 6;
  assert_close(density(c, m, u).lp, lp, 1e-14);
  static const char *names[] = {"p.real",      "p.imag",      "W[1,1].real", "W[1,1].imag",
                                "W[2,1].real", "W[2,1].imag", "W[1,2].real", "W[1,2].imag",
                                "W[2,2].real", "W[2,2].imag", "q.real",      "q.imag",
                                "r[1].real",   "r[1].imag",   "r[2].real",   "r[2].imag"};
  static const double values[] = {1, 2, 1, 0, 2, 0, 3, 0, 4, 1, 1, 3, 1, 0, 2, 0};
  double out[16];
  assert_int_equal(model_output_count(m), 16);
  model_outputs(c, m, &(ModelPoints){u, 1, m->dim, 1}, 1, out);
  for (size_t k = 0; k < 16; k++) {
    assert_string_equal(model_output_name(m, &c->arena, k, false), names[k]);
    assert_close(out[k], values[k], 1e-15);
  }
  double back[10];
  model_unconstrain(c, m, out, back);
  for (size_t k = 0; k < 10; k++) assert_close(back[k], u[k], 1e-15);
}

/* A loop over elements, written and read, that can be vectorized, and one that cannot. */
TEST(loops) {
  const Model *m =
      model_of(c,
               "parameters { complex_vector[3] p; } model { complex_vector[3] w; complex "
               "s = 0; for (i in 1:3) w[i] = p[i] * (2i)^i; for (i in 1:3) s = s * w[i] + "
               "1; target += norm(s); }",
               NULL);
  double u[6] = {0.1, 0.2, -0.3, 0.4, 0.5, -0.6};
  Z s = 0;
  for (int i = 0; i < 3; i++)
    s = s * (spectrum_number(u[2 * i], u[2 * i + 1]) * cpow(2 * I, i + 1)) + 1;
  assert_close(density(c, m, u).lp, creal(s * conj(s)), 1e-13);
  check_gradient(c, m, u);
}

/* ---- Fourier transforms ---------------------------------------------------------------------- */

static Z dft(const double *x, int n, int k) {
  Z sum = 0;
  for (int j = 0; j < n; j++)
    sum += spectrum_number(x[2 * j], x[2 * j + 1]) * cexp(-2 * M_PI * I * j * k / n);
  return sum;
}

TEST(fourier) {
  for (int n = 1; n <= 30; n++) {
    const Model *m =
        model_of(c,
                 arena_format(&c->arena,
                              "parameters { complex_vector[%d] x; } model { target += "
                              "get_real(fft(x)[%d]); target += norm(fft(x)[1]); } generated "
                              "quantities { complex_vector[%d] f = fft(x), g = inv_fft(f); }",
                              n, n, n),
                 NULL);
    size_t N = (size_t)n;
    double *x = test_point(c, 2 * N, (uint64_t)n, 1), *out = NEW_ARRAY(&c->arena, double, 6 * N);
    model_outputs(c, m, &(ModelPoints){x, 1, m->dim, 1}, 1, out);
    for (int k = 0; k < n; k++) {
      assert_close(out[2 * (n + k)], creal(dft(x, n, k)), 1e-12);
      assert_close(out[2 * (n + k) + 1], cimag(dft(x, n, k)), 1e-12);
      assert_close(out[2 * (2 * n + k)], x[2 * k], 1e-13);
      assert_close(out[2 * (2 * n + k) + 1], x[2 * k + 1], 1e-13);
    }
    check_gradient(c, m, x);
  }
}

TEST(fourier_of_matrices) {
  enum { M = 4, N = 6 };
  const Model *m =
      model_of(c,
               "parameters { complex_matrix[4, 6] x; } model { target += norm(fft2(x)[3, "
               "2]); } generated quantities { complex_matrix[4, 6] f = fft2(x), g = "
               "inv_fft2(f); }",
               NULL);
  double *x = test_point(c, 2 * M * N, 3, 1), out[6 * M * N];
  model_outputs(c, m, &(ModelPoints){x, 1, m->dim, 1}, 1, out);
  for (int a = 0; a < M; a++)
    for (int b = 0; b < N; b++) {
      Z sum = 0;
      for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
          sum += spectrum_number(x[2 * (j * M + i)], x[2 * (j * M + i) + 1]) *
                 cexp(-2 * M_PI * I * ((double)(a * i) / M + (double)(b * j) / N));
      assert_close(out[2 * (M * N + b * M + a)], creal(sum), 1e-12);
      assert_close(out[2 * (M * N + b * M + a) + 1], cimag(sum), 1e-12);
    }
  for (int k = 0; k < 2 * M * N; k++) assert_close(out[4 * M * N + k], x[k], 1e-13);
  check_gradient(c, m, x);
}

/* ---- decompositions -------------------------------------------------------------------------- */

/* Each of these is zero. */
static const char *zeros[] = {
    "A * eigenvectors(A) - eigenvectors(A) * diag_matrix(eigenvalues(A))",
    "C * eigenvectors(C) - eigenvectors(C) * diag_matrix(eigenvalues(C))",
    ("complex_schur_decompose_u(C) * complex_schur_decompose_t(C) * "
     "conj(complex_schur_decompose_u(C)') - C"),
    "complex_schur_decompose_u(C) * conj(complex_schur_decompose_u(C)') - identity_matrix(4)",
    "conj((C * A)') - conj(A') * conj(C')",
    "H * eigenvectors_sym(H) - eigenvectors_sym(H) * diag_matrix(eigenvalues_sym(H))",
    "svd_U(C) * diag_matrix(singular_values(C)) * conj(svd_V(C)') - C",
    "C / C - identity_matrix(4)",
    "symmetrize_from_lower_tri(H) - H",
    "f(C)",
};

TEST(decompositions) {
  for (size_t k = 0; k < sizeof zeros / sizeof *zeros; k++) {
    const Model *m = model_of(
        c,
        arena_format(
            &c->arena,
            "functions { complex_matrix f(complex_matrix X) { tuple(complex_matrix[4, 4], "
            "complex_matrix[4, 4]) s = complex_schur_decompose(X); return s.1 * s.2 * "
            "conj(s.1') - X; } }\n"
            "parameters { complex_matrix[4, 4] C; matrix[4, 4] A; }\n"
            "generated quantities { complex_matrix[4, 4] H = C * conj(C'); complex_matrix[4, "
            "4] zero = %s; }",
            zeros[k]),
        NULL);
    double *x = test_point(c, m->dim, 11 + k, 1), out[32 + 16 + 32 + 32];
    assert_int_equal(model_output_count(m), sizeof out / sizeof *out);
    model_outputs(c, m, &(ModelPoints){x, 1, m->dim, 1}, 1, out);
    for (size_t j = 80; j < 112; j++) assert_close(out[j], 0, 1e-11);
  }
}

int main(void) {
  static Suite suite;
  for (size_t k = 0; k < sizeof functions / sizeof *functions; k++)
    suite_add(&suite, functions[k].text, elementary, &functions[k]);
  SUITE_ADD(&suite, variables);
  SUITE_ADD(&suite, loops);
  SUITE_ADD(&suite, fourier);
  SUITE_ADD(&suite, fourier_of_matrices);
  SUITE_ADD(&suite, decompositions);
  return suite_run("complex", &suite);
}
