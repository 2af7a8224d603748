/* test_functions.c: the library: matrices, covariances, joint distributions, functions of
 * functions, random numbers. Twins of two forms that must agree; densities of several numbers that
 * must integrate to one; draws whose means are known. */
#include "twins.h"

/* ---- matrices: A is symmetric positive definite, G any, L lower triangular, W weights that tell
 * elements apart  */

#define MATRICES                                                                                   \
  "matrix spd(vector a, real s) { return a * a' + diag_matrix([1 + s, 2 + s, 3]'); }"              \
  "matrix any(vector a, vector b, real s) { return [[a[1], 2, b[1]], [s, a[2], -1], [0.5, b[2], "  \
  "3 + a[3]]]; }"                                                                                  \
  "matrix low(vector a, vector b, real s) { return [[1 + s, 0, 0], [a[1], 2 + s, 0], [b[1], "      \
  "a[2], 1.5]]; }"                                                                                 \
  "matrix W() { return [[1, 2, -1], [0.5, 3, 1], [-2, 0.7, 1.2]]; }"                               \
  "matrix tall(vector a, vector b) { return [[1, a[1]], [b[1], 2], [a[2], b[2]], [0.3, -1]]; }"    \
  "real see(matrix M) { return sum(W() .* M); }"

static const Twin matrices[] = {
    {"cholesky_decompose", 0, EITHER, MATRICES,
     "model { matrix[3, 3] L = cholesky_decompose(spd(a, s)); target += see(tcrossprod(L)) + L[1, "
     "2] + L[2, 3]; }",
     "model { target += see(spd(a, s)); }"},
    {"elements of a Cholesky factor", 0, EITHER, MATRICES,
     "model { matrix[3, 3] L = cholesky_decompose(spd(a, s)); target += L[1, 1] + 2 * L[2, 1] + 3 "
     "* L[2, 2] + 4 * L[3, 1]; }",
     "model { matrix[3, 3] A = spd(a, s); real l = sqrt(A[1, 1]);"
     " target += l + 2 * A[2, 1] / l + 3 * sqrt(A[2, 2] - (A[2, 1] / l) ^ 2) + 4 * A[3, 1] / l; }"},
    {"triangles on the left", 0, EITHER, MATRICES,
     "model { matrix[3, 3] L = low(a, b, s); target += see(L * mdivide_left_tri_low(L, any(a, b, "
     "s)))"
     " + sum(L * mdivide_left_tri_low(L, a)); }",
     "model { target += see(any(a, b, s)) + sum(a); }"},
    {"triangles on the right", 0, EITHER, MATRICES,
     "model { matrix[3, 3] L = low(a, b, s); target += see(mdivide_right_tri_low(any(a, b, s), L) "
     "* L)"
     " + sum(mdivide_right_tri_low(a', L) * L); }",
     "model { target += see(any(a, b, s)) + sum(a); }"},
    {"triangles solved by division", 0, EITHER, MATRICES,
     "model { matrix[3, 3] L = low(a, b, s); target += sum(mdivide_left_tri_low(L, a)) + "
     "see(mdivide_right_tri_low(W(), L)); }",
     "model { matrix[3, 3] L = low(a, b, s); target += sum(L \\ a) + see(W() / L); }"},
    {"division", 0, EITHER, MATRICES,
     "model { matrix[3, 3] G = any(a, b, s); target += see(G * (G \\ spd(a, s))) + sum(G * "
     "mdivide_left(G, a))"
     " + see(spd(a, s) / G * G) + sum(mdivide_right(a', G) * G); }",
     "model { target += 2 * see(spd(a, s)) + 2 * sum(a); }"},
    {"the inverse of two by two", 0, EITHER, "",
     "model { matrix[2, 2] I = inverse([[s, b[1]], [-1, 2 + b[2] ^ 2]]); target += I[1, 1] + 2 * "
     "I[1, 2] - I[2, 1] + 3 * I[2, "
     "2]; }",
     "model { real q = 2 + b[2] ^ 2; real d = s * q + b[1]; target += (q - 2 * b[1] - 1 + 3 * s) / "
     "d; }"},
    {"inverses of positive definite matrices", 0, EITHER, MATRICES,
     "model { matrix[3, 3] A = spd(a, s); target += see(inverse_spd(A)) + "
     "see(chol2inv(cholesky_decompose(A)))"
     " + see(mdivide_left_spd(A, W())) + see(mdivide_right_spd(W(), A)) + sum(mdivide_left_spd(A, "
     "a))"
     " + sum(mdivide_right_spd(a', A)); }",
     "model { matrix[3, 3] I = inverse(spd(a, s)); target += 2 * see(I) + see(I * W()) + see(W() * "
     "I) + sum(I * a) + sum(a' * "
     "I); }"},
    {"determinants", 0, EITHER, MATRICES,
     "model { matrix[3, 3] G = any(a, b, s); target += determinant(G) + determinant(G[1:2, 1:2]) + "
     "determinant(G[1:1, 1:1])"
     " + log_determinant(G) + log_determinant_spd(spd(a, s)); }",
     "model { matrix[3, 3] G = any(a, b, s); matrix[3, 3] A = spd(a, s);"
     " real d = G[1, 1] * (G[2, 2] * G[3, 3] - G[2, 3] * G[3, 2]) - G[1, 2] * (G[2, 1] * G[3, 3] - "
     "G[2, 3] * G[3, 1])"
     " + G[1, 3] * (G[2, 1] * G[3, 2] - G[2, 2] * G[3, 1]);"
     " target += d + G[1, 1] * G[2, 2] - G[1, 2] * G[2, 1] + G[1, 1] + log(abs(d)) + "
     "log(determinant(A)); }"},
    {"Q times R", 0, EITHER, MATRICES,
     "model { matrix[4, 2] T = tall(a, b); matrix[4, 2] P = qr_thin_Q(T) * qr_thin_R(T); matrix[4, "
     "2] F = qr_Q(T) * qr_R(T);"
     " matrix[3, 3] Q = qr_Q(any(a, b, s)); target += P[1, 2] + 2 * P[3, 1] + F[4, 2] - 3 * F[2, "
     "1] + see(Q * Q'); }",
     "model { matrix[4, 2] T = tall(a, b); target += T[1, 2] + 2 * T[3, 1] + T[4, 2] - 3 * T[2, 1] "
     "+ 5.2; }"},
    {"R is the factor of the cross product", 0, EITHER, MATRICES,
     "model { matrix[2, 2] R = qr_thin_R(tall(a, b)); target += R[1, 1] + 2 * R[1, 2] + 3 * R[2, "
     "2] + R[2, 1]; }",
     "model { matrix[2, 2] L = cholesky_decompose(crossprod(tall(a, b))); target += L[1, 1] + 2 * "
     "L[2, 1] + 3 * L[2, 2]; }"},
    {"both by name", 0, EITHER, MATRICES,
     "model { matrix[4, 2] T = tall(a, b); tuple(matrix[4, 2], matrix[2, 2]) t = qr_thin(T);"
     " tuple(matrix[4, 4], matrix[4, 2]) f = qr(T); target += t.1[3, 2] * t.2[1, 2] + f.1[1, 1] + "
     "f.2[4, 2]; }",
     "model { matrix[4, 2] T = tall(a, b); target += qr_thin_Q(T)[3, 2] * qr_thin_R(T)[1, 2] + "
     "qr_Q(T)[1, 1]; }"},
    {"the generalized inverse", 0, EITHER, MATRICES,
     "model { matrix[4, 2] T = tall(a, b); matrix[2, 4] P = generalized_inverse(T);"
     " target += sum(P * T) + sum(T' * generalized_inverse(T')) + P[1, 2] + "
     "generalized_inverse(T')[3, 2]; }",
     "model { matrix[4, 2] T = tall(a, b); matrix[2, 4] P = crossprod(T) \\ T'; target += 4 + P[1, "
     "2] + P[2, 3]; }"},
    {"a rotation is an exponential", 0, EITHER, "",
     "model { matrix[2, 2] R = matrix_exp(b[1] * [[0, 1], [-1, 0]]); target += R[1, 1] + 2 * R[1, "
     "2] + 3 * R[2, 1]; }",
     "model { target += cos(b[1]) + 2 * sin(b[1]) - 3 * sin(b[1]); }"},
    {"exponentials times matrices", 0, EITHER, MATRICES,
     "model { target += see(matrix_exp_multiply(any(a, b, s), W())) + "
     "see(scale_matrix_exp_multiply(0.3, any(a, b, s), W())); "
     "}",
     "model { matrix[3, 3] G = any(a, b, s); target += see(matrix_exp(G) * W()) + "
     "see(matrix_exp(0.3 * G) * W()); }"},
    {"powers", 0, EITHER, MATRICES,
     "model { matrix[3, 3] G = any(a, b, s); target += see(matrix_power(G, 5)) + "
     "see(matrix_power(G, 0)) + see(matrix_power(G, "
     "1)); }",
     "model { matrix[3, 3] G = any(a, b, s); target += see(G * G * G * G * G) + 5.2 + see(G); }"},
    {"eigenvalues put together", 0, EITHER, MATRICES,
     "model { matrix[3, 3] A = spd(a, s); matrix[3, 3] V = eigenvectors_sym(A); vector[3] w = "
     "eigenvalues_sym(A);"
     " tuple(matrix[3, 3], vector[3]) t = eigendecompose_sym(A); target += see(V * diag_matrix(w) "
     "* V') + see(V * V') + "
     "see(t.1 * diag_matrix(log(t.2)) * t.1')"
     " + (w[1] < w[2] && w[2] < w[3]); }",
     "model { matrix[3, 3] A = spd(a, s); matrix[3, 3] V = eigenvectors_sym(A);"
     " target += see(A) + 5.2 + log(eigenvalues_sym(A))' * [V[ : , 1]' * W() * V[ : , 1], V[ : , "
     "2]' * W() * V[ : , 2], V[ : , "
     "3]' * W() * V[ : , 3]]' + 1; }"},
    {"eigenvectors of data and of parameters", 0, EITHER, MATRICES,
     "model { matrix[3, 3] A = spd([1, 2, 3]', 0.5); target += s + see(eigenvectors_sym(exp(s) * "
     "A)); }",
     "model { matrix[3, 3] A = spd([1, 2, 3]', 0.5); target += s + see(eigenvectors_sym(A)); }"},
    {"eigenvalues in a loop", 0, EITHER, MATRICES,
     "model { for (m in 1 : 4) { matrix[3, 3] A = m * spd(a, s); matrix[3, 3] V = "
     "eigenvectors_sym(A); target += see(V * diag_matrix(eigenvalues_sym(A) ^ 2) * V'); } }",
     "model { matrix[3, 3] A = spd(a, s); target += see(30 * A * A); }"},
    {"eigenvalues of two by two", 0, EITHER, "",
     "model { vector[2] w = eigenvalues_sym([[s, b[1]], [b[1], b[2]]]); target += w[1] + 3 * w[2]; "
     "}",
     "model { real m = (s + b[2]) / 2; real r = sqrt(square((s - b[2]) / 2) + b[1] ^ 2); target += "
     "m - r + 3 * (m + r); }"},
    {"functions of a matrix", 0, EITHER, MATRICES,
     "model { matrix[3, 3] A = spd(a, s) / 4; matrix[3, 3] V = eigenvectors_sym(A); target += "
     "see(V * "
     "diag_matrix(exp(eigenvalues_sym(A))) * V') + sum(log(eigenvalues_sym(A))); }",
     "model { matrix[3, 3] A = spd(a, s) / 4; target += see(matrix_exp(A)) + "
     "log_determinant_spd(A); }"},
    {"eigenvalues and singular values of data", 0, EITHER, MATRICES,
     "model { matrix[3, 3] A = spd([1, 2, 3]', 0.5); matrix[3, 3] V = eigenvectors_sym(A); "
     "matrix[4, 2] T = tall([1, 2, 3]', "
     "[4, 5]');"
     " matrix[4, 2] B = svd_U(T) * diag_matrix(singular_values(T)) * svd_V(T)'; tuple(matrix[2, "
     "2], vector[2], matrix[4, 2]) f "
     "= svd(T');"
     " matrix[2, 4] C = f.1 * diag_matrix(f.2) * f.3';"
     " target += s * (see(V * diag_matrix(eigenvalues_sym(A)) * V') + B[1, 2] + 2 * B[4, 1] + C[2, "
     "3] + (f.2[1] > f.2[2]) + "
     "sum(square(singular_values(T)))); }",
     "model { matrix[4, 2] T = tall([1, 2, 3]', [4, 5]'); target += s * (see(spd([1, 2, 3]', 0.5)) "
     "+ T[1, 2] + 2 * T[4, 1] + "
     "T[3, 2] + 1 + sum(square(T))); }"},
    {"sparse matrices", 0, EITHER, MATRICES,
     "model { matrix[3, 3] S = [[0, 2, 0], [0, 0, 0], [1, 0, 3]]; tuple(vector[3], array[3] int, "
     "array[4] int) t = "
     "csr_extract(S);"
     " target += sum(csr_matrix_times_vector(3, 3, csr_extract_w(S), csr_extract_v(S), "
     "csr_extract_u(S), a) .* [1, 2, 3]')"
     " + see(csr_to_dense_matrix(3, 3, a, t.2, t.3)) + sum(t.1) * s; }",
     "model { target += 2 * a[2] + 3 * (a[1] + 3 * a[3]) + 2 * a[1] - 2 * a[2] + 1.2 * a[3] + 6 * "
     "s; }"},
    {"quadratic forms of matrices", 0, EITHER, MATRICES,
     "model { matrix[3, 3] A = spd(a, s); matrix[3, 3] G = any(a, b, s); target += "
     "see(quad_form_sym(A, G)) + quad_form_sym(A, "
     "a)"
     " + trace_quad_form(A, G) + trace_quad_form(A, a) + trace_gen_quad_form(W(), A, G) + "
     "trace_dot(A, G); }",
     "model { matrix[3, 3] A = spd(a, s); matrix[3, 3] G = any(a, b, s); target += see(G' * A * G) "
     "+ a' * A * a"
     " + trace(G' * A * G) + a' * A * a + trace(W() * G' * A * G) + trace(A * G); }"},
    {"dot products of rows and columns", 0, EITHER, MATRICES,
     "model { matrix[4, 2] T = tall(a, b); matrix[4, 2] U = T + s; target += [1, 2, 3, 4] * "
     "rows_dot_product(T, U)"
     " + columns_dot_product(T, U) * b + [1, 2, 3, 4] * rows_dot_self(T) + columns_dot_self(T) * b"
     " + sum(rows_dot_product(a, a)) + sum(columns_dot_self(a)); }",
     "model { matrix[4, 2] T = tall(a, b); matrix[4, 2] U = T + s; for (i in 1:4) target += i * "
     "(dot_product(T[i], U[i]) + "
     "dot_self(T[i]));"
     " for (j in 1:2) target += b[j] * (dot_product(T[ : , j], U[ : , j]) + dot_self(T[ : , j])); "
     "target += 2 * dot_self(a); "
     "}"},
    {"diagonals that are added", 0, EITHER, MATRICES,
     "model { matrix[3, 3] G = any(a, b, s); target += see(add_diag(G, s)) + see(add_diag(G, a)) + "
     "see(add_diag(G, a')); }",
     "model { matrix[3, 3] G = any(a, b, s); target += 3 * see(G) + 5.2 * s + 2 * (a[1] + 3 * a[2] "
     "+ 1.2 * a[3]); }"},
    {"lower triangles", 0, EITHER, MATRICES,
     "model { matrix[3, 3] G = any(a, b, s); target += see(multiply_lower_tri_self_transpose(G)) + "
     "see(symmetrize_from_lower_tri(G)); }",
     "model { matrix[3, 3] G = any(a, b, s); matrix[3, 3] L = rep_matrix(0, 3, 3); for (i in 1:3) "
     "for (j in 1:i) L[i, j] = "
     "G[i, j];"
     " target += see(L * L') + see(L + L' - diag_matrix(diagonal(G))); }"},
    {"of data", 0, EITHER, MATRICES,
     "model { matrix[3, 3] A = spd([1, 2, 3]', 0.5); matrix[3, 3] G = any([1, 2, 3]', [4, 5]', 6);"
     " target += (log_determinant(G) + see(inverse_spd(A)) + see(G \\ W()) + see(matrix_exp(G / "
     "10))) * s; }",
     "model { matrix[3, 3] A = spd([1, 2, 3]', 0.5); matrix[3, 3] G = any([1, 2, 3]', [4, 5]', 6);"
     " target += (log(abs(determinant(G))) + see(inverse(A)) + see(inverse(G) * W()) + "
     "see(matrix_exp(G / 20) * matrix_exp(G / "
     "20))) * s; }"},
    {"in a lifted loop", 5, LIFTED, MATRICES,
     "model { for (n in 1:N) { matrix[2, 2] S = [[2 + square(b[1] * x[n]), b[1] * x[n]], [b[1] * "
     "x[n], 1 + s]];"
     " y[n] ~ normal(sum(cholesky_decompose(S)) + sum(mdivide_left_tri_low(cholesky_decompose(S), "
     "b)) + log_determinant(S), "
     "s); } }",
     "model { for (n in 1:N) { real o = b[1] * x[n]; real p = sqrt(2 + o ^ 2); real q = o / p; "
     "real r = sqrt(1 + s - q ^ 2);"
     " target += normal_lpdf(y[n] | p + q + r + b[1] / p + (b[2] - q * b[1] / p) / r + 2 * log(p * "
     "r), s); } }"},
};

/* ---- covariances ----------------------------------------------------------------------------- */

#define KERNELS                                                                                    \
  "real r2(vector p, vector q, vector l) { return dot_self((p - q) ./ l); }"                       \
  "matrix K(int kind, array[] vector p, array[] vector q, real s, vector l, real t) {"             \
  "  matrix[size(p), size(q)] M; for (i in 1:size(p)) for (j in 1:size(q)) { real d2 = r2(p[i], "  \
  "q[j], l); real c;"                                                                              \
  "    if (kind == 1) c = exp(-d2 / 2); else if (d2 == 0) c = 1; else if (kind == 2) c = "         \
  "exp(-sqrt(d2));"                                                                                \
  "    else if (kind == 3) c = (1 + sqrt(3 * d2)) * exp(-sqrt(3 * d2));"                           \
  "    else if (kind == 4) c = (1 + sqrt(5 * d2) + 5 * d2 / 3) * exp(-sqrt(5 * d2));"              \
  "    else c = exp(-2 * square(sin(pi() * sqrt(d2) * l[1] / t) / l[1]));"                         \
  "    M[i, j] = s ^ 2 * c; } return M; }"                                                         \
  "real all(matrix M) { real v = 0; for (i in 1:rows(M)) for (j in 1:cols(M)) v += M[i, j] * (i "  \
  "+ 0.3 * j * j); return v; }"
#define POINTS                                                                                     \
  "array[4] vector[2] p = {[1, 2]', [0, -1]', [1, 2]', [0.5, 0]'}; array[2] vector[2] q = {[1, "   \
  "2]', [3, -0.5]'};"                                                                              \
  " array[3] real u = {1, 2.5, 1}; array[3] vector[1] v = {[1]', [2.5]', [1]'};"                   \
  " array[2] real w = {1, 0.3}; array[2] vector[1] o = {[1]', [0.3]'};"

static const Twin covariances[] = {
    {"gp_exp_quad_cov", 0, EITHER, KERNELS,
     "model { " POINTS
     " target += all(gp_exp_quad_cov(p, s, 1.5 + b[1])) + all(gp_exp_quad_cov(p, q, s, 1.5 + b[1]))"
     " + all(gp_exp_quad_cov(p, s, {1 + s, 2})) + all(gp_exp_quad_cov(p, q, s, {1 + s, 2}))"
     " + all(gp_exp_quad_cov(u, s, 1 + s)) + all(gp_exp_quad_cov(u, w, s, 1 + s)); }",
     "model { " POINTS " vector[2] l = rep_vector(1.5 + b[1], 2); vector[1] m = [1 + s]'; target "
     "+= all(K(1, p, p, s, l, 1)) + "
     "all(K(1, p, q, s, l, 1))"
     " + all(K(1, p, p, s, [1 + s, 2]', 1)) + all(K(1, p, q, s, [1 + s, 2]', 1)) + all(K(1, v, v, "
     "s, m, 1)) + all(K(1, v, o, "
     "s, m, 1)); }"},
    {"cov_exp_quad", 0, EITHER, KERNELS,
     "model { " POINTS " target += all(cov_exp_quad(p, s, 2 + b[1])) + all(cov_exp_quad(p, q, s, "
     "2)) + all(cov_exp_quad(u, w, s, 2)); }",
     "model { " POINTS
     " target += all(gp_exp_quad_cov(p, s, 2 + b[1])) + all(gp_exp_quad_cov(p, q, s, 2)) + "
     "all(gp_exp_quad_cov(u, w, s, 2)); }"},
    {"points that are parameters", 0, EITHER, KERNELS,
     "model { array[3] vector[2] p = {b, [a[1], a[2]]', [0, a[3]]'}; target += "
     "all(gp_exp_quad_cov(p, s, 1.5)) + "
     "all(gp_matern32_cov(p, s, {1.5, s}))"
     " + all(gp_exp_quad_cov(to_array_1d(a), s, 1.5)); }",
     "model { array[3] vector[2] p = {b, [a[1], a[2]]', [0, a[3]]'}; array[3] vector[1] r = "
     "{a[1:1], a[2:2], a[3:3]};"
     " target += all(K(1, p, p, s, [1.5, 1.5]', 1)) + 0 * sum(p[1]); for (i in 1:3) for (j in 1:3) "
     "target += (i + 0.3 * j * j) "
     "* (i == j ? s ^ 2 :"
     " s ^ 2 * (1 + sqrt(3 * r2(p[i], p[j], [1.5, s]'))) * exp(-sqrt(3 * r2(p[i], p[j], [1.5, "
     "s]')))); target += all(K(1, r, "
     "r, s, [1.5]', 1)); }"},
    {"gp_exponential_cov", 0, EITHER, KERNELS,
     "model { " POINTS " target += all(gp_exponential_cov(p, s, 1.5 + b[1])) + "
     "all(gp_exponential_cov(p, q, s, {1 + s, 2})) + "
     "all(gp_exponential_cov(u, s, 1 + s)); }",
     "model { " POINTS " target += all(K(2, p, p, s, rep_vector(1.5 + b[1], 2), 1)) + all(K(2, p, "
     "q, s, [1 + s, 2]', 1)) + "
     "all(K(2, v, v, s, [1 + s]', 1)); }"},
    {"gp_matern32_cov", 0, EITHER, KERNELS,
     "model { " POINTS " target += all(gp_matern32_cov(p, s, 1.5 + b[1])) + all(gp_matern32_cov(p, "
     "q, s, {1 + s, 2})) + "
     "all(gp_matern32_cov(u, s, 1 + s)); }",
     "model { " POINTS " target += all(K(3, p, p, s, rep_vector(1.5 + b[1], 2), 1)) + all(K(3, p, "
     "q, s, [1 + s, 2]', 1)) + "
     "all(K(3, v, v, s, [1 + s]', 1)); }"},
    {"gp_matern52_cov", 0, EITHER, KERNELS,
     "model { " POINTS " target += all(gp_matern52_cov(p, s, 1.5 + b[1])) + all(gp_matern52_cov(p, "
     "q, s, {1 + s, 2})) + "
     "all(gp_matern52_cov(u, w, s, 1 + s)); }",
     "model { " POINTS " target += all(K(4, p, p, s, rep_vector(1.5 + b[1], 2), 1)) + all(K(4, p, "
     "q, s, [1 + s, 2]', 1)) + "
     "all(K(4, v, o, s, [1 + s]', 1)); }"},
    {"gp_periodic_cov", 0, EITHER, KERNELS,
     "model { " POINTS " target += all(gp_periodic_cov(p, s, 1.5 + b[1], 2 + s)) + "
     "all(gp_periodic_cov(p, q, s, 1.5, 2)) + "
     "all(gp_periodic_cov(u, s, 1 + s, 3)); }",
     "model { " POINTS " target += all(K(5, p, p, s, rep_vector(1.5 + b[1], 2), 2 + s)) + all(K(5, "
     "p, q, s, [1.5, 1.5]', 2)) + "
     "all(K(5, v, v, s, [1 + s]', 3)); }"},
    {"gp_dot_prod_cov", 0, EITHER, KERNELS,
     "model { " POINTS " target += gp_dot_prod_cov(p, s)[2, 4] + gp_dot_prod_cov(p, q, s)[4, 2] + "
     "gp_dot_prod_cov(u, s)[1, 2] "
     "+ gp_dot_prod_cov(u, w, s)[2, 2]; }",
     "model { target += 4 * s ^ 2 + 1.5 + 2.5 + 0.75; }"},
    {"a process", 1, EITHER, "",
     "model { matrix[N, N] K = add_diag(gp_exp_quad_cov(to_array_1d(x), s, 1.2), 0.3); y ~ "
     "multi_normal(rep_vector(b[1], N), "
     "K); }",
     "model { matrix[N, N] L = cholesky_decompose(add_diag(gp_exp_quad_cov(to_array_1d(x), s, "
     "1.2), 0.3)); vector[N] e = "
     "mdivide_left_tri_low(L, y - b[1]);"
     " target += std_normal_lpdf(y) - std_normal_lpdf(y) - 0.5 * dot_self(e) - "
     "sum(log(diagonal(L))) - 0.5 * N * log(2 * "
     "pi()); }"},
};

/* ---- distributions of vectors and matrices --------------------------------------------------- */

#define SIGMA "matrix[2, 2] S = [[1 + s, 0.4 * b[1]], [0.4 * b[1], 2]];"

static const Twin joints[] = {
    {"multi_normal of two", 1, EITHER, "", "model { " SIGMA " x[1:2] ~ multi_normal(b, S); }",
     "model { " SIGMA " vector[2] d = x[1:2] - b; real det = S[1, 1] * S[2, 2] - S[1, 2] ^ 2;"
     " target += bernoulli_logit_lpmf(1 | 0) + log(2) - log(2 * pi()) - 0.5 * log(det) - 0.5 * "
     "(S[2, 2] * d[1] ^ 2 - 2 * S[1, "
     "2] * d[1] * d[2] + S[1, 1] * d[2] ^ 2) / det; }"},
    {"precisions", 1, EITHER, "",
     "model { " SIGMA " x[1:2] ~ multi_normal_prec(b, S); a[1:2] ~ multi_normal_prec(b, S); }",
     "model { " SIGMA
     " x[1:2] ~ multi_normal(b, inverse_spd(S)); a[1:2] ~ multi_normal(b, inverse(S)); }"},
    {"factors", 1, EITHER, "",
     "model { " SIGMA " x[1:2]' ~ multi_normal_cholesky(b', cholesky_decompose(S)); }",
     "model { " SIGMA " x[1:2] ~ multi_normal(b, S); }"},
    {"many vectors", 3, EITHER, "",
     "model { " SIGMA " array[3] vector[2] v = {x[1:2], y[1:2], y[3:4]}; v ~ multi_normal(b, S); }",
     "model { " SIGMA " array[3] vector[2] v = {x[1:2], y[1:2], y[3:4]}; for (n in 1:3) v[n] ~ "
     "multi_normal(b, S); }"},
    {"many means", 3, EITHER, "",
     "model { " SIGMA " array[3] vector[2] v = {x[1:2], y[1:2], y[3:4]}; array[3] vector[2] m = "
     "{b, a[1:2], a[2:3]}; v ~ "
     "multi_normal_prec(m, S); }",
     "model { " SIGMA
     " array[3] vector[2] v = {x[1:2], y[1:2], y[3:4]}; array[3] vector[2] m = {b, a[1:2], a[2:3]};"
     " for (n in 1:3) v[n] ~ multi_normal_prec(m[n], S); }"},
    {"one vector, many means", 0, EITHER, "",
     "model { " SIGMA " array[2] vector[2] m = {b, a[1:2]}; a[2:3] ~ multi_normal_cholesky(m, "
     "cholesky_decompose(S)); }",
     "model { " SIGMA
     " for (n in 1:2) target += multi_normal_lpdf(a[2:3] | n == 1 ? b : a[1:2], S); }"},
    {"a lifted loop of vectors", 5, LIFTED, "",
     "model { " SIGMA " for (n in 1:N) X[n]' ~ multi_normal(b * x[n], S); }",
     "model { " SIGMA " for (n in 1:N) X[n] ~ multi_normal_prec(b' * x[n], inverse_spd(S)); }"},
    {"heavy tails in one dimension", 5, EITHER, "",
     "model { array[N] vector[1] v; for (n in 1:N) v[n] = y[n:n]; v ~ multi_student_t(3 + s, "
     "b[1:1], [[s ^ 2]]); }",
     "model { y ~ student_t(3 + s, b[1], s); }"},
    {"heavy tails from factors", 1, EITHER, "",
     "model { " SIGMA " x[1:2] ~ multi_student_t_cholesky(4 + s, b, cholesky_decompose(S)); }",
     "model { " SIGMA " x[1:2] ~ multi_student_t(4 + s, b, S); }"},
    {"very many degrees of freedom", 1, EITHER, "",
     "model { x[1:2] ~ multi_student_t(5, b, [[2, 0], [0, 2]]); }",
     "model { target += bernoulli_logit_lpmf(1 | 0) + log(2) + lgamma(3.5) - lgamma(2.5) - log(5 * "
     "pi()) - log(2) - 3.5 * "
     "log1p(dot_self(x[1:2] - b) / 10); }"},
    {"rows of a process", 2, EITHER, "",
     "model { " SIGMA " matrix[2, 2] Y = X[1:2]; Y ~ multi_gp(S, [1 + s, 2]'); }",
     "model { " SIGMA " for (n in 1:2) X[n] ~ multi_normal([0, 0], S / (n == 1 ? 1 + s : 2)); }"},
    {"rows of a process from factors", 2, EITHER, "",
     "model { " SIGMA
     " matrix[2, 2] Y = X[1:2]; Y ~ multi_gp_cholesky(cholesky_decompose(S), [1 + s, 2]'); }",
     "model { " SIGMA " matrix[2, 2] Y = X[1:2]; Y ~ multi_gp(S, [1 + s, 2]'); }"},
    {"wishart", 0, EITHER, "",
     "model { " SIGMA " matrix[2, 2] V = [[2 + s, 0.3], [0.3, 1]]; V ~ wishart(4 + s, S); }",
     "model { " SIGMA " matrix[2, 2] V = [[2 + s, 0.3], [0.3, 1]]; real nu = 4 + s; target += -nu "
     "* log(2) - lmgamma(2, nu / 2)"
     " - nu / 2 * log_determinant(S) + (nu - 3) / 2 * log_determinant(V) - 0.5 * trace(inverse(S) "
     "* V); }"},
    {"inv_wishart", 0, EITHER, "",
     "model { " SIGMA " matrix[2, 2] V = [[2 + s, 0.3], [0.3, 1]]; V ~ inv_wishart(4 + s, S); }",
     "model { " SIGMA " matrix[2, 2] V = [[2 + s, 0.3], [0.3, 1]];"
     " target += wishart_lpdf(inverse(V) | 4 + s, inverse(S)) - 3 * log_determinant(V); }"},
    {"factors of covariances", 0, EITHER, "",
     "model { " SIGMA
     " matrix[2, 2] C = [[1 + s, 0], [b[1], 2]]; matrix[2, 2] L = cholesky_decompose(S);"
     " target += wishart_cholesky_lpdf(C | 4 + s, L) + inv_wishart_cholesky_lpdf(C | 4 + s, L); }",
     "model { " SIGMA
     " matrix[2, 2] C = [[1 + s, 0], [b[1], 2]]; target += wishart_lpdf(tcrossprod(C) | 4 + s, S)"
     " + inv_wishart_lpdf(tcrossprod(C) | 4 + s, S) + 2 * (2 * log(2) + 2 * log(C[1, 1]) + "
     "log(C[2, 2])); }"},
    {"correlations", 0, EITHER, "",
     "model { matrix[3, 3] L = cholesky_decompose([[1, 0.2, tanh(b[1]) / 3], [0.2, 1, 0.1], "
     "[tanh(b[1]) / 3, 0.1, 1]]); L ~ "
     "lkj_corr_cholesky(1 + s); }",
     "model { matrix[3, 3] R = [[1, 0.2, tanh(b[1]) / 3], [0.2, 1, 0.1], [tanh(b[1]) / 3, 0.1, "
     "1]]; matrix[3, 3] L = "
     "cholesky_decompose(R);"
     " R ~ lkj_corr(1 + s); target += log(L[2, 2]); }"},
    {"correlations with scales", 0, EITHER, "",
     "model { matrix[2, 2] V = [[s, 0.3 * s], [0.3 * s, 1.5 * s]]; V ~ lkj_cov(b, [1, 2]', 1 + s); "
     "}",
     "model { vector[2] d = sqrt([s, 1.5 * s]'); d ~ lognormal(b, [1, 2]'); real r = 0.3 * s / "
     "(d[1] * d[2]); [[1, r], [r, 1]] "
     "~ lkj_corr(1 + s); }"},
    {"a level that walks", 1, EITHER, "",
     "model { matrix[1, 3] Y = to_matrix(y[1:3], 1, 3); Y ~ gaussian_dlm_obs([[1]], [[1]], [[0.5 + "
     "s]], [[s]], b[1:1], "
     "[[1.2]]); }",
     "model { matrix[3, 3] S; for (i in 1:3) for (j in 1:3) S[i, j] = 1.2 + s * min(i, j) + (i == "
     "j ? 0.5 + s : 0); y[1:3] ~ "
     "multi_normal(rep_vector(b[1], 3), S); }"},
    {"a level with a slope", 1, EITHER, "",
     "model { matrix[2, 2] Y = X[1:2]; Y ~ gaussian_dlm_obs([[1, b[1]], [0, 1]], [[1, 1], [0, s]], "
     "[0.5, 1 + s]', [[s, 0.1], "
     "[0.1, 1]], b, [[1, 0.2], [0.2, 2]]); }",
     "model { matrix[2, 2] F = [[1, b[1]], [0, 1]]; matrix[2, 2] G = [[1, 1], [0, s]]; matrix[2, "
     "2] W = [[s, 0.1], [0.1, 1]]; "
     "matrix[2, 2] C = quad_form([[1, 0.2], [0.2, 2]], G') + W;"
     " matrix[2, 2] V = diag_matrix([0.5, 1 + s]'); matrix[2, 2] D = quad_form(C, G') + W; "
     "matrix[4, 4] S; vector[4] m = "
     "append_row(F' * G * b, F' * G * G * b);"
     " S[1:2, 1:2] = F' * C * F + V; S[3:4, 3:4] = F' * D * F + V; S[3:4, 1:2] = F' * G * C * F; "
     "S[1:2, 3:4] = S[3:4, 1:2]'; "
     "to_vector(X[1:2]) ~ multi_normal(m, S); }"},
    {"many simplexes", 0, EITHER, "",
     "model { array[2] vector[3] t = {softmax(a), softmax(2 * a)}; t ~ dirichlet([1 + s, 2, 3]'); "
     "}",
     "model { target += dirichlet_lpdf(softmax(a) | [1 + s, 2, 3]') + dirichlet_lpdf(softmax(2 * "
     "a) | [1 + s, 2, 3]'); }"},
    {"softmax of an array", 0, EITHER, "",
     "model { array[2] vector[3] t = softmax({a, 2 * a}); target += t[1, 2] + 3 * t[2, 3]; }",
     "model { target += softmax(a)[2] + 3 * softmax(2 * a)[3]; }"},
    {"multinomial_logit", 1, EITHER, "", "model { k[1:3] ~ multinomial_logit(a); }",
     "model { k[1:3] ~ multinomial(softmax(a)); }"},
    {"dirichlet_multinomial of one", 1, EITHER, "",
     "model { {1, 0, 0} ~ dirichlet_multinomial([1 + s, 2, 3]'); }",
     "model { 1 ~ bernoulli((1 + s) / (6 + s)); }"},
    {"dirichlet_multinomial of two", 1, EITHER, "",
     "model { k[1:2] ~ dirichlet_multinomial([1 + s, 2]'); }",
     "model { k[1] ~ beta_binomial(k[1] + k[2], 1 + s, 2); }"},
    /* overdispersed by next to nothing */
    {"neg_binomial_2 next to poisson", 5, EITHER, "",
     "model { k ~ neg_binomial_2_log(X * b, exp(36 + 0 * s)); }",
     "model { k ~ poisson_log(X * b); }"},
    {"neg_binomial next to poisson", 5, EITHER, "", "model { k ~ neg_binomial(1e16 * s, 1e16); }",
     "model { k ~ poisson(s); }"},
    {"beta_binomial next to binomial", 5, EITHER, "",
     "model { k ~ beta_binomial(20, 1e16 * s, 2e16); }",
     "model { k ~ binomial(20, s / (s + 2)); }"},
    {"student_t next to normal", 5, EITHER, "",
     "model { x ~ student_t(exp(36 + 0 * s), b[1], s); }", "model { x ~ normal(b[1], s); }"},
};

/* ---- regressions in one, cutpoints, truncations ---------------------------------------------- */

static const Twin regressions[] = {
    {"bernoulli_logit_glm", 5, EITHER, "", "model { z ~ bernoulli_logit_glm(X, b[1], b); }",
     "model { z ~ bernoulli_logit(X * b + b[1]); }"},
    {"poisson_log_glm", 5, EITHER, "", "model { k ~ poisson_log_glm(X, x * b[1], b); }",
     "model { k ~ poisson_log(X * b + x * b[1]); }"},
    {"binomial_logit_glm", 5, EITHER, "",
     "model { k ~ binomial_logit_glm(rep_array(9, N), X, b[1], b); }",
     "model { k ~ binomial_logit(9, X * b + b[1]); }"},
    {"neg_binomial_2_log_glm", 5, EITHER, "",
     "model { k ~ neg_binomial_2_log_glm(X, b[1], b, s); }",
     "model { k ~ neg_binomial_2_log(X * b + b[1], s); }"},
    {"ordered_logistic_glm", 5, EITHER, "",
     "model { g ~ ordered_logistic_glm(X, b, [a[1], a[1] + s]'); }",
     "model { g ~ ordered_logistic(X * b, [a[1], a[1] + s]'); }"},
    {"categorical_logit_glm", 5, EITHER, "",
     "model { g ~ categorical_logit_glm(X, a, [[b[1], b[2], s], [1, b[1], 0]]); }",
     "model { matrix[2, 3] B = [[b[1], b[2], s], [1, b[1], 0]]; for (n in 1:N) g[n] ~ "
     "categorical_logit((X[n] * B)' + a); }"},
    {"categorical_logit_glm of one row", 5, EITHER, "",
     "model { g ~ categorical_logit_glm(X[2], a, [[b[1], b[2], s], [1, b[1], 0]]); }",
     "model { matrix[2, 3] B = [[b[1], b[2], s], [1, b[1], 0]]; for (n in 1:N) g[n] ~ "
     "categorical_logit((X[2] * B)' + a); }"},
    {"categorical_logit_glm in a loop", 5, EITHER, "",
     "model { for (n in 1:N) g[n] ~ categorical_logit_glm(X[n : n], a, [[b[1], b[2], s], [1, b[1], "
     "0]]); }",
     "model { g ~ categorical_logit_glm(X, a, [[b[1], b[2], s], [1, b[1], 0]]); }"},
    {"cutpoints of every outcome", 5, EITHER, "",
     "model { array[N] vector[2] c; for (n in 1:N) c[n] = [a[1] * x[n], a[1] * x[n] + s]'; g ~ "
     "ordered_logistic(X * b, c); }",
     "model { for (n in 1:N) g[n] ~ ordered_logistic(X[n] * b, [a[1] * x[n], a[1] * x[n] + s]'); "
     "}"},
    {"truncated counts", 5, EITHER, "", "model { for (n in 1:N) k[n] ~ poisson(s) T[0, 9]; }",
     "model { for (n in 1:N) target += poisson_lpmf(k[n] | s) - log(sum(exp(poisson_lpmf(0 | s) + "
     "rep_vector(0, 1)))"
     " + exp(poisson_lpmf(1 | s)) + exp(poisson_lpmf(2 | s)) + exp(poisson_lpmf(3 | s)) + "
     "exp(poisson_lpmf(4 | s)) + "
     "exp(poisson_lpmf(5 | s))"
     " + exp(poisson_lpmf(6 | s)) + exp(poisson_lpmf(7 | s)) + exp(poisson_lpmf(8 | s)) + "
     "exp(poisson_lpmf(9 | s))); }"},
    {"counts from a bound on", 3, EITHER, "",
     "model { for (n in 3:N) k[n] ~ neg_binomial_2(s, 2 + s) T[1, ]; }",
     "model { for (n in 3:N) target += neg_binomial_2_lpmf(k[n] | s, 2 + s) - "
     "log1m(exp(neg_binomial_2_lpmf(0 | s, 2 + s))); "
     "}"},
};

/* ---- functions of functions ------------------------------------------------------------------ */

static const Twin slices[] = {
    {"reduce_sum of a density", 5, LIFTED,
     "real f_lpdf(array[] real u, int from, int to, vector x, vector b, real s) { return "
     "normal_lpdf(u | b[1] + b[2] * x[from "
     ": to], s); }",
     "model { target += reduce_sum(f_lpdf, to_array_1d(y), 1, x, b, s); }",
     "model { y ~ normal(b[1] + b[2] * x, s); }"},
    {"reduce_sum over places", 5, LIFTED,
     "real f(array[] int at, int from, int to, vector y, matrix X, vector b, vector a, array[] int "
     "g, real s) { real t = 0; "
     "int n = to - from + 1; vector[n] m = rep_vector(0, n);"
     " m += X[from:to] * b; for (i in 1:n) m[i] += a[g[i + from - 1]]; t += normal_lpdf(y[from:to] "
     "| m, s); return t; }",
     "model { array[N] int at; for (n in 1:N) at[n] = n; target += reduce_sum(f, at, 1, y, X, b, "
     "a, g, s) - s; }",
     "model { y ~ normal(X * b + a[g], s); target += -s; }"},
    {"reduce_sum of parameters", 0, EITHER,
     "real f(array[] real u, int from, int to, real s) { return -dot_self(to_vector(u)) * s; }",
     "model { target += reduce_sum_static(f, to_array_1d(a), 1, s); real r = reduce_sum(f, "
     "to_array_1d(b), 2, s); target += r; "
     "}",
     "model { target += -(dot_self(a) + dot_self(b)) * s; }"},
    {"map_rect", 0, EITHER,
     "vector f(vector phi, vector t, data array[] real x, data array[] int i) { return phi[1] * t "
     "* x[i[1]]; }",
     "model { target += sum(map_rect(f, b, {a[1:2], a[2:3]}, {{1.5, 2}, {3, 4}}, {{1}, {2}})); }",
     "model { target += b[1] * (1.5 * (a[1] + a[2]) + 4 * (a[2] + a[3])); }"},
    {"hmm_marginal", 0, EITHER, "",
     "model { matrix[2, 3] o = [[a[1], a[2], 0.5], [0.2, b[1], a[3]]]; vector[2] r = softmax(b); "
     "matrix[2, 2] G = [[0.7, 0.3], "
     "[inv_logit(s), 1 - inv_logit(s)]];"
     " target += hmm_marginal(o, G, r); }",
     "model { matrix[2, 3] o = exp([[a[1], a[2], 0.5], [0.2, b[1], a[3]]]); vector[2] r = "
     "softmax(b); matrix[2, 2] G = [[0.7, "
     "0.3], [inv_logit(s), 1 - inv_logit(s)]];"
     " real p = 0; for (i in 1:2) for (j in 1:2) for (h in 1:2) p += r[i] * o[i, 1] * G[i, j] * "
     "o[j, 2] * G[j, h] * o[h, 3]; "
     "target += log(p); }"},
    {"integrate_1d", 0, EITHER,
     "real f(real x, real xc, array[] real t, data array[] real r, data array[] int i) { return "
     "exp(-t[1] * x ^ r[i[1]]); }",
     "model { target += integrate_1d(f, 0, positive_infinity(), {s}, {1, 2}, {1}) + "
     "integrate_1d(f, negative_infinity(),"
     " positive_infinity(), {s}, {1, 2}, {2}) + integrate_1d(f, b[1], 2 + s, {s}, {1, 2}, {1}, "
     "1e-8); }",
     "model { target += 1 / s + sqrt(pi() / s) + (exp(-s * b[1]) - exp(-s * (2 + s))) / s; }"},
    {"an integral over what is not seen", 1, EITHER,
     "real f(real x, real xc, array[] real t, data array[] real r, data array[] int i) { return "
     "exp(normal_lpdf(r[1] | x, 1) + "
     "normal_lpdf(x | t[1], t[2])); }",
     "model { target += log(integrate_1d(f, negative_infinity(), positive_infinity(), {b[1], s}, "
     "{y[1]}, {1})); }",
     "model { y[1] ~ normal(b[1], sqrt(1 + s ^ 2)); }"},
    {"integrate_1d near the limits", 0, EITHER,
     "real f(real x, real xc, array[] real t, data array[] real r, data array[] int i) { if (x < "
     "0.5) return x ^ (t[1] - 1) * "
     "(1 - x) ^ 1.5;"
     " else return x ^ (t[1] - 1) * xc ^ 1.5; }",
     "model { target += integrate_1d(f, 0, 1, {1 + s}, {1}, {1}); }",
     "model { target += beta(1 + s, 2.5); }"},
    {"a root", 0, EITHER, "vector f(vector x, real s) { return x .* x - 1 - s; }",
     "model { target += solve_newton(f, [2]', s)[1] + 2 * solve_powell_tol(f, [5]', 1e-8, 1e-9, "
     "100, s)[1]; }",
     "model { target += 3 * sqrt(1 + s); }"},
    {"a system", 0, EITHER,
     "vector f(vector x, vector t, data array[] real r, data array[] int i) { return [exp(x[1]) + "
     "x[2] - t[1] - r[i[1]], x[1] "
     "- x[2] * t[2]]'; }"
     "vector h(vector x, vector t) { return [x[1] ^ 3 + x[1] - t[1], x[2] - x[1] * t[2], x[3] * (1 "
     "+ x[1] ^ 2) - 1]'; }",
     "model { vector[2] t = [exp(b[1]) + b[1] / (1 + s) - 0.5, 1 + s]'; vector[3] r = "
     "solve_newton(h, [0.1, 0.2, 0.3]', [s ^ 3 "
     "+ s, b[2]]');"
     " target += sum(algebra_solver(f, [0.3, 0.3]', t, {0.5}, {1}) .* [1, 2]') + "
     "algebra_solver_newton(f, [0, 0]', t, {0.5}, "
     "{1}, 1e-10, 1e-9, 1e3)[1] + sum(r); }",
     "model { target += 2 * b[1] + 2 * b[1] / (1 + s) + s + s * b[2] + 1 / (1 + s ^ 2); }"},
    {"moving windows", 3, LIFTED, "",
     "model { for (n in 1:3) y[n] ~ normal(dot_self(x[n : n + 2]) * b[1], s); }",
     "model { vector[3] m = [dot_self(x[1:3]), dot_self(x[2:4]), dot_self(x[3:5])]'; y[1:3] ~ "
     "normal(m * b[1], s); }"},
};

/* ---- special functions ----------------------------------------------------------------------- */

static const Twin specials[] = {
    {"factorials", 0, EITHER, "",
     "model { target += falling_factorial(4 + s, 3) + rising_factorial(s, 2) + "
     "falling_factorial(s, 0) + "
     "log_rising_factorial(s, 3)"
     " + log_falling_factorial(5 + s, 2) + sum(rising_factorial([s, 2 + s]', {1, 2})) + choose(7, "
     "3) * s + rising_factorial(3, "
     "2) * s; }",
     "model { target += (4 + s) * (3 + s) * (2 + s) + s * (s + 1) + 1 + log(s * (s + 1) * (s + 2)) "
     "+ log((5 + s) * (4 + s))"
     " + s + (2 + s) * (3 + s) + 35 * s + 12 * s; }"},
    {"gamma functions", 0, EITHER, "",
     "model { target += beta(s, 2 + s) + lmgamma(2, 1 + s) + lmgamma(1, s) + gamma_p(1, s) + "
     "gamma_q(2 + s, 1 + s); }",
     "model { target += exp(lgamma(s) + lgamma(2 + s) - lgamma(2 + 2 * s)) + 0.5 * log(pi()) + "
     "lgamma(1 + s) + lgamma(0.5 + s) "
     "+ lgamma(s)"
     " + 1 - exp(-s) + 1 - gamma_p(2 + s, 1 + s); }"},
    {"the incomplete beta function", 0, EITHER, "",
     "model { real p = inv_logit(b[1]); target += inc_beta(2, 1, p) + inc_beta(1, 1 + s, p); }",
     "model { real p = inv_logit(b[1]); target += p ^ 2 + 1 - (1 - p) ^ (1 + s); }"},
    {"logarithms", 0, EITHER, "",
     "model { target += log_inv_logit_diff(b[1] + s, b[1]) + binary_log_loss(1, inv_logit(b[1])) + "
     "binary_log_loss(0, "
     "inv_logit(b[2])) + ldexp(s, 3) + log2() * s + log10() * s; }",
     "model { target += log(inv_logit(b[1] + s) - inv_logit(b[1])) - log_inv_logit(b[1]) - "
     "log1m_inv_logit(b[2]) + 8 * s + "
     "log(20) * s; }"},
    {"successes by guessing, surely", 3, EITHER, "",
     "model { real c = inv_logit(b[2]), p = c + (1 - c) * inv_logit(50 + b[1]), r = inv_logit(50 - "
     "b[1]) * (1 - c) + c, u = c + (1 - c) * Phi(12 + s); target += bernoulli_lpmf(0 | p) + "
     "binomial_lpmf(2 | 5, r) + log1m(u) + log(1 - r) + bernoulli_lpmf(1 | p); }",
     "model { target += 6 * log1m_inv_logit(b[2]) + log1m_inv_logit(50 + b[1]) + 4 * "
     "log1m_inv_logit(50 - b[1]) + log(10) + std_normal_lccdf(12 + s |); }"},
    {"intervals far above", 0, EITHER, "",
     "model { real f = 50 + s; target += log_diff_exp(normal_lcdf(2 * f + 3 | f, 1), normal_lcdf(2 "
     "* f | f, 1)) + log_diff_exp(logistic_lcdf(f + 9 | b[1], 0.1), logistic_lcdf(f | b[1], 0.1)) "
     "+ log_diff_exp(student_t_lcdf(1e9 * f | 3 + s, 0, 1), student_t_lcdf(1e7 * f | 3 + s, 0, 1)) "
     "+ log_diff_exp(exponential_lcdf(f + 2 | 3), exponential_lcdf(f | 3)) + log(Phi(f + 1) - "
     "Phi(f)) + log(inv_logit(f + 1) - inv_logit(f)); }",
     "model { real f = 50 + s; target += log_diff_exp(normal_lccdf(2 * f | f, 1), normal_lccdf(2 * "
     "f + 3 | f, 1)) + log_diff_exp(logistic_lccdf(f | b[1], 0.1), logistic_lccdf(f + 9 | b[1], "
     "0.1)) + log_diff_exp(student_t_lccdf(1e7 * f | 3 + s, 0, 1), student_t_lccdf(1e9 * f | 3 + "
     "s, 0, 1)) + log_diff_exp(exponential_lccdf(f | 3), exponential_lccdf(f + 2 | 3)) + "
     "log_diff_exp(std_normal_lccdf(f |), std_normal_lccdf(f + 1 |)) + log_inv_logit(f + 1) + "
     "log_inv_logit(-f) + log1m_exp(-1); }"},
    {"truncated far from the centre", 5, EITHER, "",
     "model { for (n in 1:N) y[n] ~ normal(b[1] - 60, 1) T[-1, 3]; }",
     "model { real m = b[1] - 60; for (n in 1:N) target += normal_lpdf(y[n] | m, 1) - "
     "log_diff_exp(normal_lccdf(-1 | m, 1), normal_lccdf(3 | m, 1)); }"},
    {"quantiles of beta", 0, EITHER, "",
     "model { real p = inv_logit(b[1]); target += inv_inc_beta(1 + s, 1, p) + inc_beta(2 + s, 3, "
     "inv_inc_beta(2 + s, 3, p)); }",
     "model { real p = inv_logit(b[1]); target += p ^ (1 / (1 + s)) + p; }"},
    {"inverses", 0, EITHER, "",
     "model { real p = inv_logit(b[1]); target += erfc(inv_erfc(p)) + Phi(std_normal_qf(p)) + "
     "Phi(std_normal_log_qf(log(p))) + "
     "lambert_w0(s * exp(s)) + lambert_wm1(-(1 + s) * exp(-1 - s)); }",
     "model { real p = inv_logit(b[1]); target += 3 * p + s - 1 - s; }"},
    {"Owen's function", 0, EITHER, "",
     "model { target += owens_t(b[1], 1) + owens_t(0, s) + owens_t(b[1], -s) + owens_t(b[1], s); }",
     "model { target += 0.5 * Phi(b[1]) * Phi(-b[1]) + atan(s) / (2 * pi()); }"},
    {"Bessel functions", 0, EITHER, "",
     "model { real r = 2 * s; target += bessel_first_kind(0, r) + bessel_first_kind(2, r) + "
     "bessel_second_kind(0, r) + "
     "bessel_second_kind(2, r)"
     " + modified_bessel_first_kind(0, r) - modified_bessel_first_kind(2, r) + "
     "modified_bessel_second_kind(2, r) - "
     "modified_bessel_second_kind(0, r)"
     " + exp(log_modified_bessel_first_kind(0.5, r)); }",
     "model { real r = 2 * s; target += 2 / r * (bessel_first_kind(1, r) + bessel_second_kind(1, "
     "r) + "
     "modified_bessel_first_kind(1, r) + modified_bessel_second_kind(1, r))"
     " + sqrt(2 / (pi() * r)) * sinh(r); }"},
    {"hitting the upper bound", 0, EITHER,
     "real f(real x, real xc, array[] real t, data array[] real r, data array[] int i) { return "
     "exp(wiener_lpdf(x | t[1], 0, "
     "t[2], t[3])); }",
     "model { target += integrate_1d(f, 0, positive_infinity(), {1 + s, inv_logit(b[1]), b[2]}, "
     "{1}, {1}); }",
     "model { real c = -2 * b[2] * (1 + s); target += expm1(c * inv_logit(b[1])) / expm1(c); }"},
    {"passing before or after", 0, EITHER, "",
     "model { real h = 1 + s, w = inv_logit(b[1]); target += exp(wiener_lcdf_unnorm(1.3, h, 0.2, "
     "w, "
     "b[2])) + exp(wiener_lccdf_unnorm(1.3, h, 0.2, w, b[2])) + exp(wiener_lccdf_unnorm(0.2, h, "
     "0.2, w, b[2])); }",
     "model { real c = -2 * b[2] * (1 + s); target += 2 * expm1(c * inv_logit(b[1])) / expm1(c); "
     "}"},
    {"passing before", 0, EITHER,
     "real f(real x, real xc, real h, real w, real d, real v) { return exp(wiener_lpdf(x | h, 0.2, "
     "w, "
     "d, v)); }",
     "model { real h = 1 + s, w = inv_logit(b[1]); target += wiener_lcdf_unnorm(1.3, h, 0.2, w, "
     "b[2]); "
     "target += wiener_lcdf_unnorm({0.9, 2}, h, 0.2, w, b[2], s, 0, 0); target += "
     "wiener_lccdf_unnorm(2, h, 0.2, w, b[2], s, 0, 0); }",
     "model { real h = 1 + s, w = inv_logit(b[1]); target += "
     "log(integrate_1d_double_exponential(f, "
     "0.2, 1.3, h, w, b[2], 0)) + log(integrate_1d_gauss_kronrod(f, 0.2, 0.9, h, w, b[2], s)) + "
     "log(integrate_1d_gauss_kronrod_tol(f, 0.2, 2, 1e-9, 1e-9, 8, h, w, b[2], s)) + "
     "log(integrate_1d_double_exponential_tol(f, 2, positive_infinity(), 1e-9, 1e-9, 8, h, w, "
     "b[2], "
     "s)); }"},
    {"drift that varies", 0, EITHER,
     "real f(real v, real vc, real t, real h, real w, real d, real r) { return exp(wiener_lpdf(t | "
     "h, "
     "0.2, w, v) + normal_lpdf(v | d, r)); }",
     "model { target += wiener_lpdf(2 + 0.1 * b[1] | 1 + s, 0.2, inv_logit(b[1]), b[2], s); }",
     "model { target += log(integrate_1d_double_exponential(f, negative_infinity(), "
     "positive_infinity(), 2 + 0.1 * b[1], 1 + s, inv_logit(b[1]), b[2], s)); }"},
    {"start and delay that vary", 0, EITHER,
     "real f(real w, real wc, real y0, real h, real t, real d, real v) { return exp(wiener_lpdf(y0 "
     "| h, "
     "t, w, d, v)); }"
     "real f2(real t, real tc, real y0, real h, real w, real d, real v) { return "
     "integrate_1d_double_exponential(f, w - 0.1, w + 0.1, y0, h, t, d, v); }",
     "model { target += wiener_lpdf(2 + 0.1 * b[1] | 1 + s, 0.2, 0.45, b[2], s, 0.2, 0.3); target "
     "+= "
     "wiener_lpdf(2 + 0.1 * b[1] | 1 + s, 0.2, 0.45, b[2], 0, 0, 0); }",
     "model { target += log(integrate_1d_double_exponential(f2, 0.2, 0.5, 2 + 0.1 * b[1], 1 + s, "
     "0.45, "
     "b[2], s) / (0.2 * 0.3)); target += wiener_lpdf(2 + 0.1 * b[1] | 1 + s, 0.2, 0.45, b[2]); }"},
    {"all of it varies", 0, EITHER,
     "real f(real w, real wc, real h, real d) { return expm1(-2 * d * h * w) / expm1(-2 * d * h); "
     "}",
     "model { for (t in {0.1, 0.35, 1.3}) target += exp(wiener_lcdf_unnorm(t, 1 + s, 0.2, 0.45, "
     "b[2], "
     "0, 0.2, 0.3)) + exp(wiener_lccdf_unnorm(t, 1 + s, 0.2, 0.45, b[2], 0, 0.2, 0.3)); }",
     "model { target += 3 * integrate_1d_double_exponential(f, 0.35, 0.55, 1 + s, b[2]) / 0.2; }"},
    {"hypergeometric functions", 0, EITHER, "",
     "model { real h = 0.8 * inv_logit(b[1]); target += hypergeometric_2F1(1, 1, 2, h) * h + "
     "hypergeometric_2F1(s, 1.5, 1.5, -h) + hypergeometric_2F1(0.5, 1, 1.5, -square(2 * h)) + "
     "hypergeometric_pFq({s}, {s}, b[2]) + hypergeometric_pFq({-2.0, s}, {1.0}, 0.3) + "
     "hypergeometric_3F2({1.0, 1, s}, {2, s}, h) * h + hypergeometric_2F1(s, b[2], 3, 0.4); }",
     "model { real h = 0.8 * inv_logit(b[1]); target += -2 * log1m(h) + (1 + h)^-s + atan(2 * h) / "
     "(2 "
     "* h) + exp(b[2]) + 1 - 0.6 * s + s * (s + 1) * 0.045 + hypergeometric_2F1(3 - s, 3 - b[2], "
     "3, "
     "0.4) * 0.6^(3 - s - b[2]); }"},
    {"quantiles of student_t", 0, EITHER, "",
     "model { for (p in {1e-6, 0.03, 0.24, 0.4999, 0.6, 0.93, 0.99999}) target += "
     "student_t_lcdf(student_t_qf(p, 1 + s, b[1], 2) | 1 + s, b[1], 2) * b[2]; target += "
     "student_t_qf(0.5, 3 + s, b[1], s) + sum(student_t_qf([0.1, 0.9]', 2 + s, b[1], s)) + "
     "student_t_qf(inv_logit(b[2]), 1, 0, 1) + student_t_qf(inv_logit(b[2]), 2, 0, 1); }",
     "model { for (p in {1e-6, 0.03, 0.24, 0.4999, 0.6, 0.93, 0.99999}) target += log(p) * b[2]; "
     "real "
     "q = inv_logit(b[2]); target += 3 * b[1] + tan(pi() * (q - 0.5)) + (2 * q - 1) * sqrt(2 / (4 "
     "* q "
     "* (1 - q))); }"},
    {"derivatives of gamma", 0, EITHER, "",
     "model { target += trigamma(s) - trigamma(1 + s) + hypergeometric_1F0(s, 0.3); }",
     "model { target += 1 / s ^ 2 + 0.7 ^ -s; }"},
    {"tests of parameters", 0, EITHER, "",
     "model { target += is_nan(s) + 2 * is_inf(b[1]) + 3 * int_step(s) + (is_nan(sqrt(-s)) ? b[2] "
     ": 0) + is_inf(1 / (s - s)); "
     "}",
     "model { target += 4 + b[2]; }"},
    {"mixtures of many", 0, EITHER, "",
     "model { target += log_mix([0.3, 0.7]', {b, [s, 1]'}) + log_mix([0.3, 0.7], b); }",
     "model { target += 2 * log_mix(0.3, b[1], b[2]) + log_mix(0.3, s, 1); }"},
    {"comparisons by name", 0, EITHER, "",
     "model { if (logical_and(logical_lt(N, 6), logical_gte(N, 5)) && logical_or(logical_eq(N, 1), "
     "logical_neq(N, 2)) && "
     "logical_negation(logical_gt(N, 9)) && logical_lte(N, 5))"
     " target += minus(s) + plus(b[1]) - sum(minus(a)); }",
     "model { target += -s + b[1] + sum(a); }"},
    {"order", 0, EITHER, "",
     "model { target += dot_product(sort_asc(a), [1, 2, 3]') + dot_product(sort_desc(append_row(a, "
     "b)), [1, 2, 3, 4, 5]') + "
     "rank(x, 3) * s + quantile(x, 0.5) * s + sum(quantile(x, {0, 1, 0.1})) * s; }",
     "model { vector[5] v = append_row(a, b); vector[5] r = rep_vector(1, 5); for (i in 1:5) for "
     "(j in 1:5) if (i != j) r[i] "
     "+= step(v[j] - v[i]);"
     " target += max(a) * 3 + min(a) + 2 * (sum(a) - max(a) - min(a)) + dot_product(r, v) + 4 * s "
     "+ 0.1 * s + (-1 + 2 - 0.72) "
     "* s; }"},
    {"whole numbers", 0, EITHER, "",
     "model { target += s * (sum(linspaced_int_array(4, 0, 9)) + linspaced_int_array(5, 1, 2)[4] + "
     "linspaced_int_array(1, 3, "
     "8)[1]); }",
     "model { target += s * (18 + 2 + 8); }"},
};

/* ---- densities of several numbers integrate to one: a sum over a grid in unconstrained space - */

static const struct Volume {
  const char *type, *density;
  double radius; /* of the grid, in every direction */
} volumes[] = {
    {"cholesky_factor_corr[3]", "lkj_corr_cholesky(1.5)", 7},
    {"corr_matrix[3]", "lkj_corr(2)", 6},
    {"cov_matrix[2]", "wishart(14, [[0.07, 0.01], [0.01, 0.06]])", 4},
    {"cov_matrix[2]", "inv_wishart(14, [[14, 2], [2, 12]])", 4},
    {"cholesky_factor_cov[2]", "wishart_cholesky(6, [[1, 0], [0.3, 0.8]])", 7},
    {"cholesky_factor_cov[2]", "inv_wishart_cholesky(14, [[4, 0], [0.5, 3]])", 4},
    {"vector[3]", "multi_normal([0.1, 0.2, -0.3]', [[1, 0.3, 0], [0.3, 0.8, 0.1], [0, 0.1, 1.1]])",
     7},
    {"vector[2]", "multi_student_t(12, [0.1, 0.2]', [[1, 0.3], [0.3, 0.8]])", 14},
    {"simplex[3]", "dirichlet([1.5, 2, 3]')", 16},
    {"real<lower=0.2>", "either_bound(1.5, 0.2, 0.4, 0.7)", 30},
    {"real<lower=0>", "either_bound(2.5, 0, 0.3, -1.2)", 30},
};

/* A Wiener process reaches one of its bounds. */
#define DENSITIES                                                                                  \
  "functions { real either_bound_lpdf(real y, real a, real t, real b, real d) {"                   \
  " return log_sum_exp(wiener_lpdf(y | a, t, b, d), wiener_lpdf(y | a, t, 1 - b, -d)); } } "

TEST(volume) {
  const struct Volume *t = row;
  const Model *m =
      model_of(c,
               arena_format(&c->arena, DENSITIES "parameters { %s y; } model { y ~ %s; }", t->type,
                            t->density),
               NULL);
  const size_t sides[] = {0, 20001, 301, 45};
  size_t side = sides[m->dim], points = 1;
  for (size_t k = 0; k < m->dim; k++) points *= side;
  double *u = NEW_ARRAY(&c->arena, double, points * m->dim), h = 2 * t->radius / (double)(side - 1),
         sum = 0;
  for (size_t p = 0; p < points; p++)
    for (size_t k = 0, rest = p; k < m->dim; k++, rest /= side)
      u[p * m->dim + k] = -t->radius + h * (double)(rest % side);
  DensityAt *d = densities(c, m, u, points);
  for (size_t p = 0; p < points; p++) sum += exp(d[p].lp) * pow(h, (double)m->dim);
  assert_close(sum, 1, 1e-5);
}

/* ---- draws: the mean of an expression in generated quantities -------------------------------- */

#define COV "[[2, 0.6], [0.6, 1]]"

static const struct Draw {
  const char *expression;
  double mean;
} draws[] = {
    {"multi_normal_rng([1, 2]', " COV ")[2]", 2},
    {"f(multi_normal_rng([0, 0]', " COV "))", 0.6},
    {"f(multi_normal_cholesky_rng([0, 0]', cholesky_decompose(" COV ")))", 0.6},
    {"f(multi_normal_rng({[1, 2]', [0, 0]'}, " COV ")[2])", 0.6},
    {"f(multi_student_t_rng(9, [0, 0]', " COV "))", 0.6 * 9 / 7},
    {"f(multi_student_t_cholesky_rng(9, [0, 0]', cholesky_decompose(" COV ")))", 0.6 * 9 / 7},
    {"wishart_rng(5, " COV ")[2, 1]", 3},
    {"tcrossprod(wishart_cholesky_rng(5, cholesky_decompose(" COV ")))[1, 1]", 10},
    {"inv_wishart_rng(9, " COV ")[1, 2]", 0.1},
    {"tcrossprod(inv_wishart_cholesky_rng(9, cholesky_decompose(" COV ")))[1, 1]", 2.0 / 6},
    {"square(lkj_corr_rng(3, 1.5)[1, 2])", 0.2},
    {"square(lkj_corr_rng(3, 1.5)[3, 2])", 0.2},
    {"square(tcrossprod(lkj_corr_cholesky_rng(4, 2))[4, 3])", 1 / 7.0},
    {"exp_mod_normal_rng(1, 2, 0.5)", 3},
    {"skew_double_exponential_rng(0, 1, 0.3)", 0.5 * 0.7 / 0.3 - 0.5 * 0.3 / 0.7},
    {"pareto_type_2_rng(1, 2, 5)", 1.5},
    {"loglogistic_rng(2, 4)", 2 * (M_PI / 4) / M_SQRT1_2},
    {"beta_neg_binomial_rng(3, 6, 2)", 1.2},
    {"yule_simon_rng(4)", 4.0 / 3},
    {"hypergeometric_rng(4, 6, 3)", 4 * 6 / 9.0},
    {"ordered_probit_rng(0, [0]')", 1.5},
    {"multinomial_logit_rng([0, log(3)]', 8)[2]", 6},
    {"dirichlet_multinomial_rng([1, 3]', 8)[2]", 6},
    {"bernoulli_logit_glm_rng([[1, 2], [3, 4]], [0, 1]', [0.5, -0.25]')[1]", 0.5},
    {"hmm_latent_rng([[0, 0], [0, 0]], [[0.9, 0.1], [0.4, 0.6]], [0.5, 0.5]')[2]", 1.35},
};

TEST(draw) {
  const struct Draw *t = row;
  enum { DRAWS = 4000 };
  const Model *m = model_of(c,
                            arena_format(&c->arena,
                                         "functions { real f(vector v) { return v[1] * v[2]; } } "
                                         "parameters { real p; } model { p ~ normal(0, 1); }"
                                         " generated quantities { real q = %s; }",
                                         t->expression),
                            NULL);
  double *theta = NEW_ARRAY(&c->arena, double, DRAWS),
         *out = NEW_ARRAY(&c->arena, double, 2 * DRAWS), s = 0, ss = 0;
  model_outputs(c, m, &(ModelPoints){theta, DRAWS, 1, DRAWS}, 7, out);
  for (int i = 0; i < DRAWS; i++) s += out[2 * i + 1], ss += out[2 * i + 1] * out[2 * i + 1];
  double mean = s / DRAWS, error = sqrt((ss / DRAWS - mean * mean) / DRAWS);
  if (!(fabs(mean - t->mean) < 4.5 * error))
    fail_msg("the mean is %g +- %g, not %g", mean, error, t->mean);
}

/* ---- numbers of data ------------------------------------------------------------------------- */

static const struct Number {
  const char *expression;
  double value;
} numbers[] = {
    {"hmm_hidden_state_prob([[0, log(2)], [0, 0]], [[0.9, 0.1], [0.4, 0.6]], [0.5, 0.5]')[1, 2]",
     1.3 / 1.65},
    {"hmm_hidden_state_prob([[0, log(2)], [0, 0]], [[0.9, 0.1], [0.4, 0.6]], [0.5, 0.5]')[1, 1]",
     0.95 / 1.65},
    {"is_nan(solve_newton(no_root, [1]')[1])", 1},
    {"gamma_lcdf(2 | 3, 1.5)", -0.5502424967772206},
};

TEST(number) {
  const struct Number *t = row;
  const Model *m =
      model_of(c,
               arena_format(&c->arena,
                            "functions { vector no_root(vector x) { return x .* x + 1; } }"
                            "parameters { real p; } model { p ~ normal(0, 1); } generated "
                            "quantities { real q = %s; }",
                            t->expression),
               NULL);
  double theta[1] = {0}, out[2];
  model_outputs(c, m, &(ModelPoints){theta, 1, 1, 1}, 7, out);
  assert_close(out[1], t->value, 1e-14);
}

/* ---- mistakes -------------------------------------------------------------------------------- */

static const struct Mistake {
  const char *what, *stan;
  Status status;
  const char *message;
} mistakes[] = {
    {"not positive definite",
     "transformed data { matrix[2, 2] L = cholesky_decompose([[1, 2], [2, 1]]); }", PVI_DATA,
     "cholesky_decompose: the matrix is not positive definite"},
    {"not symmetric",
     "transformed data { matrix[2, 2] L = cholesky_decompose([[1, 0], [0.5, 1]]); }", PVI_DATA,
     "cholesky_decompose: the matrix is not symmetric"},
    {"not square", "parameters { matrix[2, 3] A; } model { target += sum(cholesky_decompose(A)); }",
     PVI_PROGRAM,
     "cholesky_decompose: expecting a square matrix; rows of argument 1 (2) and columns of "
     "argument "
     "1 (3) must match in size"},
    {"a covariance that is none",
     "parameters { vector[2] y; } model { y ~ multi_normal([0, 0]', [[1, 2], [2, 1]]); }", PVI_DATA,
     "multi_normal: the matrix is not positive definite"},
    {"a covariance of another size",
     "parameters { vector[3] y; } model { y ~ multi_normal(y, [[1, 0], [0, 1]]); }", PVI_PROGRAM,
     "multi_normal: the size of the outcome (3) and rows of parameter 2 (2) must match in size"},
    {"means of another size",
     "parameters { vector[3] y; } model { y ~ multi_normal([1, 2]', [[1, 0], [0, 1]]); }",
     PVI_PROGRAM, "the outcome has size 3, but parameter 1 has size 2; they must be the same size"},
    {"arrays of another size",
     "parameters { array[3] vector[2] y; } model { y ~ multi_normal(y[1:2], [[1, 0], [0, 1]]); }",
     PVI_PROGRAM, "the size of the outcome (3) and the size of parameter 1 (2) must match in size"},
    {"sizes of an equation",
     "parameters { vector[3] y; } model { target += sum([[1, 0], [0, 1]] \\ y); }", PVI_PROGRAM,
     "mdivide_left: rows of argument 1 (2) and the size of argument 2 (3) must match in size"},
    {"too many length scales",
     "parameters { real s; } model { array[2] vector[2] p = {[1, 2]', [3, 4]'}; target += "
     "sum(gp_exp_quad_cov(p, s, {s, s, "
     "s})); }",
     PVI_PROGRAM,
     "the size of elements of argument 1 (2) and the size of argument 3 (3) must match in size"},
    {"a category of a regression",
     "parameters { matrix[1, 2] B; } model { {3} ~ categorical_logit_glm([[1]], [0, 0]', B); }",
     PVI_DATA, "the outcome is 3"},
    {"sizes of a map",
     "parameters { vector[3] a; vector[2] b; } model { target += sum(fmax(a, b)); }", PVI_PROGRAM,
     "fmax: argument 1 has size 3, but argument 2 has size 2; they must be the same size"},
    {"sizes of a distance",
     "parameters { vector[3] a; vector[2] b; } model { target += distance(a, b); }", PVI_PROGRAM,
     "distance: argument 1 has size 3, but argument 2 has size 2; they must be the same size"},
    {"sizes of a cumulative function",
     "parameters { vector[3] a; } model { target += normal_lcdf([1, 2]' | a, 1); }", PVI_PROGRAM,
     "normal_lcdf: the outcome has size 2, but parameter 1 has size 3"},
    {"sizes of random numbers",
     "transformed data { array[2] real x = normal_rng([1, 2], [1, 2, 3]); }", PVI_PROGRAM,
     "normal_rng: argument 1 has size 2, but argument 2 has size 3"},
    {"a diagonal of another size",
     "parameters { vector[3] a; } model { target += sum(add_diag(rep_matrix(1, 2, 4), a)); }",
     PVI_PROGRAM, "add_diag: the size of argument 2 is 3, but must be 2"},
    {"inner sizes of an array",
     "transformed data { array[2] vector[2] x = append_array({[1, 2]'}, {[1, 2, 3]'}); }",
     PVI_PROGRAM, "append_array: argument 1 has size 1 x 2, but argument 2 has size 1 x 3"},
    {"the mean of nothing", "transformed data { real x = mean(rep_vector(0, 0)); }", PVI_PROGRAM,
     "mean: argument 1 has size 0, but must have a non-zero size"},
    {"the greatest of no integers", "transformed data { int x = max(ones_int_array(0)); }",
     PVI_PROGRAM, "max: argument 1 has size 0, but must have a non-zero size"},
    {"a sum of too many terms",
     "parameters { real<lower=0> s; } model { target += beta_binomial_lcdf(1000000000 | "
     "2147483647, "
     "s, 1); }",
     PVI_PROGRAM, "a sum of 1000000001 probabilities"},
    {"rows of a sparse matrix that go too far and back",
     "transformed data { matrix[2, 3] X = csr_to_dense_matrix(2, 3, [1]', {1}, {1, 900, 2}); }",
     PVI_PROGRAM, "values, columns and rows do not fit together"},
    {"no rank of parameters", "parameters { vector[2] a; } model { target += rank(a, 1); }",
     PVI_PROGRAM, "not supported yet"},
    {"a shape of zero", "parameters { matrix[2, 2] L; } model { L ~ lkj_corr_cholesky(0); }",
     PVI_DATA, "it must be positive"},
};

static void make_model(Ctx *c, void *arg) { model_of(c, arg, NULL); }

TEST(mistake) {
  const struct Mistake *w = row;
  Status s = attempt(c, make_model, (void *)w->stan);
  if (s == PVI_OK) fail_msg("nothing was wrong");
  expect_message(c, w->message);
  assert_int_equal(s, w->status);
}

int main(void) {
  static Suite suite;
  ADD_ROWS(matrices, twin, .what);
  ADD_ROWS(covariances, twin, .what);
  ADD_ROWS(joints, twin, .what);
  ADD_ROWS(regressions, twin, .what);
  ADD_ROWS(slices, twin, .what);
  ADD_ROWS(specials, twin, .what);
  ADD_ROWS(volumes, volume, .density);
  ADD_ROWS(draws, draw, .expression);
  ADD_ROWS(numbers, number, .expression);
  ADD_ROWS(mistakes, mistake, .what);
  return suite_run("functions", &suite);
}
