/* test_model.c: what programs mean. Most tests are twins: two ways to write one log density, which
 * must agree in value, gradient, prior and observations; the gradient must also be that of finite
 * differences. Others are rows of programs that are wrong, of transforms, of distributions. */
#include "twins.h"

/* ---- twins ----------------------------------------------------------------------------------- */

static const Twin lifting[] = {
    {"a density per row", 5, LIFTED, "",
     "model { for (n in 1:N) y[n] ~ normal(b[1] + b[2] * x[n], s); }",
     "model { y ~ normal(b[1] + b[2] * x, s); }"},
    {"groups", 5, LIFTED, "", "model { for (n in 1:N) y[n] ~ normal(a[g[n]], s); }",
     "model { y ~ normal(a[g], s); }"},
    {"rows of a matrix", 5, LIFTED, "", "model { for (n in 1:N) y[n] ~ normal(X[n] * b, s); }",
     "model { y ~ normal(X * b, s); }"},
    {"columns of a row", 5, LIFTED, "",
     "model { for (n in 1:N) y[n] ~ normal(X[n, 1] * b[1] + X[n][2] * b[2], s); }",
     "model { y ~ normal(X * b, s); }"},
    {"a local variable", 5, LIFTED, "",
     "model { for (n in 1:N) { real mu = b[1]; mu += b[2] * x[n]; mu *= 2; y[n] ~ normal(mu, s); } "
     "}",
     "model { y ~ normal(2 * (b[1] + b[2] * x), s); }"},
    {"a local vector", 5, LIFTED, "",
     "model { for (n in 1:N) { vector[2] v = [b[1], x[n]]'; v[2] *= b[2]; y[n] ~ normal(sum(v), "
     "s); } }",
     "model { y ~ normal(b[1] + b[2] * x, s); }"},
    {"an outer vector filled", 5, LIFTED, "",
     "model { vector[N] mu; for (n in 1:N) mu[n] = b[1] + b[2] * x[n]; y ~ normal(mu, s); }",
     "model { y ~ normal(b[1] + b[2] * x, s); }"},
    {"a transformed parameter filled", 5, LIFTED, "",
     "transformed parameters { vector[N] mu; for (n in 1:N) { mu[n] = a[g[n]]; mu[n] += b[1]; } } "
     "model { y ~ normal(mu, s); }",
     "model { y ~ normal(a[g] + b[1], s); }"},
    {"a matrix filled row by row", 5, LIFTED, "",
     "model { matrix[N, 2] M; for (n in 1:N) { M[n, 1] = b[1] * x[n]; M[n, 2] = b[2]; } y ~ "
     "normal(M[ : , 1] + M[ : , 2], s); "
     "}",
     "model { y ~ normal(b[1] * x + b[2], s); }"},
    {"rows of a matrix assigned", 5, LIFTED, "",
     "model { matrix[N, 2] M; for (n in 1:N) M[n] = [x[n] * b[1], b[2]]; y ~ normal(M * [1, 1]', "
     "s); }",
     "model { y ~ normal(b[1] * x + b[2], s); }"},
    {"an array of vectors", 5, LIFTED, "",
     "model { array[N] vector[2] v; for (n in 1:N) v[n] = [x[n], 1]' .* b; for (n in 1:N) y[n] ~ "
     "normal(v[n, 1] + v[n][2], s); "
     "}",
     "model { y ~ normal(b[1] * x + b[2], s); }"},
    {"a temporary from outside", 5, LIFTED, "",
     "model { real t; for (n in 1:N) { t = b[1] * x[n]; y[n] ~ normal(t, s); } }",
     "model { y ~ normal(b[1] * x, s); }"},
    {"its last value", 5, LIFTED, "",
     "model { real t; for (n in 1:N) { t = b[1] * x[n]; y[n] ~ normal(t, s); } target += t; }",
     "model { y ~ normal(b[1] * x, s); target += b[1] * x[5]; }"},
    {"a temporary element", 5, LIFTED, "",
     "model { vector[2] t; t[2] = b[2]; for (n in 1:N) { t[1] = b[1] * x[n]; y[n] ~ normal(t[1] + "
     "t[2], s); } target += t[1]; "
     "}",
     "model { y ~ normal(b[1] * x + b[2], s); target += b[1] * x[5]; }"},
    {"a later element is read", 5, EITHER, "",
     "model { vector[N] m = b[1] * x; for (n in 1 : N - 1) m[n] = m[n + 1] * b[2]; y ~ normal(m, "
     "s); }",
     "model { vector[N] m = b[1] * x; m[1 : N - 1] = m[2 : N] * b[2]; y ~ normal(m, s); }"},
    {"gaps", 5, LIFTED, "",
     "model { vector[N] m = x; for (n in 1:2) m[2 * n] = b[1] * x[n]; y ~ normal(m, s); }",
     "model { y ~ normal([x[1], b[1] * x[1], x[3], b[1] * x[2], x[5]]', s); }"},
    {"the last one wins", 5, EITHER, "",
     "model { vector[3] m; for (n in 1:N) m[g[n]] = x[n] * b[1]; y ~ normal(m[g], s); }",
     "model { vector[3] m = b[1] * [x[5], x[3], x[4]]'; y ~ normal(m[g], s); }"},
    {"two writers that cross", 5, EITHER, "",
     "model { vector[N] m; for (n in 1:N) { m[n] = b[1] * n; m[N + 1 - n] = b[2]; } y ~ normal(m, "
     "s); }",
     "model { y ~ normal([b[2], b[2], b[2], 4 * b[1], 5 * b[1]]', s); }"},
    {"only a prior", 0, LIFTED, "", "model { for (i in 1:3) a[i] ~ normal(b[1], s); }",
     "model { a ~ normal(b[1], s); }"},
    {"a prior that is the same each time", 0, LIFTED, "",
     "model { for (n in 1:N) b[1] ~ normal(0, 1); }",
     "model { target += 5 * normal_lpdf(b[1] | 0, 1); }"},
    {"prior and observation", 5, LIFTED, "",
     "model { for (n in 1:N) { y[n] ~ normal(a[g[n]], s); a[g[n]] ~ std_normal(); } }",
     "model { y ~ normal(a[g], s); target += std_normal_lpdf(a[g]); }"},
    {"two increments are one observation", 5, LIFTED, "",
     "model { for (n in 1:N) { y[n] ~ normal(b[1], s); k[n] ~ poisson_log(b[2]); } }",
     "model { for (n in 1:N) target += normal_lpdf(y[n] | b[1], s) + poisson_log_lpmf(k[n] | "
     "b[2]); }"},
    {"a branch on data", 5, LIFTED, "",
     "model { for (n in 1:N) if (z[n] == 1) y[n] ~ normal(b[1], s); else y[n] ~ cauchy(b[2] * "
     "x[n], s); }",
     "model { for (n in 1:N) target += z[n] ? normal_lpdf(y[n] | b[1], s) : cauchy_lpdf(y[n] | "
     "b[2] * x[n], s); }"},
    {"branches in branches", 5, LIFTED, "",
     "model { for (n in 1:N) { real m; if (z[n]) { m = b[1]; if (g[n] > 1) m += a[g[n]]; else m -= "
     "1; } else m = b[2]; y[n] ~ "
     "normal(m, s); } }",
     "model { y ~ normal([b[2], b[1] + a[3], b[1] + a[2], b[2], b[1] - 1]', s); }"},
    {"sizes that differ between iterations", 5, LIFTED, "",
     "model { for (n in 1:N) { vector[g[n]] m = a[1 : g[n]]; y[n] ~ normal(log_sum_exp(m), s); } }",
     "model { y ~ normal([a[1], log_sum_exp(a), log_sum_exp(a[1], a[2]), log_sum_exp(a), a[1]]', "
     "s); }"},
    {"bounds that differ between iterations", 5, LIFTED, "",
     "model { for (n in 1:N) { real m = 0; for (i in 1 : g[n]) m += a[i] * x[n]; y[n] ~ normal(m, "
     "s); } }",
     "model { y ~ normal([a[1] * x[1], sum(a) * x[2], (a[1] + a[2]) * x[3], sum(a) * x[4], a[1] * "
     "x[5]]', s); }"},
    {"parts at places that move", 5, LIFTED, "",
     "model { for (n in 1:N) y[n] ~ normal(prod(segment(append_row(a, b), g[n], 2)), s); }",
     "model { y ~ normal([a[1] * a[2], a[3] * b[1], a[2] * a[3], a[3] * b[1], a[1] * a[2]]', s); "
     "}"},
    {"observations in some rows", 3, LIFTED, "",
     "model { for (n in 1:N) if (z[n]) y[n] ~ normal(b[1], s); }",
     "model { y[{2, 3, 5}] ~ normal(b[1], s); }"},
    {"more in some rows", 5, LIFTED, "",
     "model { for (n in 1:N) { y[n] ~ normal(b[1], s); if (z[n]) k[n] ~ poisson_log(b[2]); } }",
     "model { for (n in 1:N) target += normal_lpdf(y[n] | b[1], s) + (z[n] ? poisson_log_lpmf(k[n] "
     "| b[2]) : 0); }"},
    {"a prior in some rows", 0, LIFTED, "",
     "model { for (n in 1:N) if (z[n]) b[1] ~ normal(x[n], s); }",
     "model { target += normal_lpdf(b[1] | x[{2, 3, 5}], s); }"},
    {"an element set in some rows", 5, EITHER, "",
     "model { vector[N] m = rep_vector(b[2], N); for (n in 1:N) if (z[n]) m[n] = b[1] * x[n]; y ~ "
     "normal(m, s); }",
     "model { y ~ normal([b[2], b[1] * x[2], b[1] * x[3], b[2], b[1] * x[5]]', s); }"},
    {"a choice by data", 5, LIFTED, "",
     "model { for (n in 1:N) y[n] ~ normal(z[n] ? b[1] : b[2] * x[n], s); }",
     "model { y ~ normal([b[2] * x[1], b[1], b[1], b[2] * x[4], b[1]]', s); }"},
    {"an inner loop", 5, LIFTED, "",
     "model { for (n in 1:N) { vector[3] lp; for (i in 1:3) lp[i] = normal_lpdf(y[n] | a[i], s); "
     "target += log_sum_exp(lp); } "
     "}",
     "model { for (n in 1:N) target += log_sum_exp(log_sum_exp(normal_lpdf(y[n] | a[1], s), "
     "normal_lpdf(y[n] | a[2], s)),"
     " normal_lpdf(y[n] | a[3], s)); }"},
    {"increments in an inner loop", 5, LIFTED, "",
     "model { for (n in 1:N) for (i in 1:2) y[n] ~ normal(b[i], s); }",
     "model { for (n in 1:N) target += normal_lpdf(y[n] | b[1], s) + normal_lpdf(y[n] | b[2], s); "
     "}"},
    {"products of rows that are parameters", 5, LIFTED, "",
     "model { matrix[3, 2] M; for (i in 1:3) M[i] = [a[i], s]; for (n in 1:N) y[n] ~ "
     "normal(M[g[n]] * b, s); }",
     "model { y ~ normal(a[g] * b[1] + s * b[2], s); }"},
    {"a condition on parameters", 5, LIFTED, "",
     "model { for (n in 1:N) { real m = b[1] * x[n]; if (m > 0.1) m = 0.1 + (m - 0.1) / 2; y[n] ~ "
     "normal(m, s); } }",
     "model { y ~ normal(fmin(b[1] * x, 0.1 + (b[1] * x - 0.1) / 2), s); }"},
    {"a function", 5, LIFTED,
     "real line(vector b, real x) { real r = b[1]; r += b[2] * x; return r; }",
     "model { for (n in 1:N) y[n] ~ normal(line(b, x[n]), s); }",
     "model { y ~ normal(b[1] + b[2] * x, s); }"},
    {"ints by division", 5, LIFTED, "",
     "model { for (n in 1:N) y[n] ~ normal(a[(n + 1) / 2], s); }",
     "model { y ~ normal(a[{1, 1, 2, 2, 3}], s); }"},
    {"ints by choice and division", 5, LIFTED, "",
     "model { for (n in 1:N) y[n] ~ normal(a[(n > 2 ? 7 : 3) / 2] + (n > 1 ? 3 : 1) / 2, s); }",
     "model { y ~ normal([a[1], a[1] + 1, a[3] + 1, a[3] + 1, a[3] + 1]', s); }"},
    {"remainders", 5, LIFTED, "", "model { for (n in 1:N) y[n] ~ normal(a[n % 3 + 1], s); }",
     "model { y ~ normal(a[{2, 3, 1, 2, 3}], s); }"},
};

static const Twin dependences[] = {
    /* What the failed attempt to vectorize the loop made of values from outside must not stay. */
    {"a vector built outside by element, a loop one by one", 0, UNROLLED, "",
     "model { vector[2] T = [b[1], 0]'; int m = 1; for (j in 1:2) { target += "
     "normal_lpdf(segment(a, m, 2) | T, 1); m += 1; } }",
     "model { target += normal_lpdf(a[1] | b[1], 1) + normal_lpdf(a[2] | 0, 1) + normal_lpdf(a[2] "
     "| "
     "b[1], 1) + normal_lpdf(a[3] | 0, 1); }"},
    {"the same in a product", 0, UNROLLED, "",
     "model { vector[2] T = [b[1], s]'; int m = 1; for (j in 1:2) { target += "
     "-square(sum(segment(a, "
     "m, 2) .* T)); m += 1; } }",
     "model { target += -square(a[1] * b[1] + a[2] * s) - square(a[2] * b[1] + a[3] * s); }"},
    {"a matrix built outside by element", 0, UNROLLED, "",
     "model { matrix[2, 2] T = [[b[1], 1], [s, b[2]]]; int m = 1; for (j in 1:2) { target += "
     "-dot_self(T * segment(a, m, 2)); m += 1; } }",
     "model { matrix[2, 2] T = [[b[1], 1], [s, b[2]]]; target += -dot_self(T * a[1:2]) - "
     "dot_self(T * "
     "a[2:3]); }"},
    {"an accumulator", 0, UNROLLED, "",
     "model { real t = 0; for (n in 1:N) t += x[n] * b[1]; target += -square(t); }",
     "model { target += -square(sum(x) * b[1]); }"},
    {"a recurrence", 5, UNROLLED, "",
     "model { vector[N] m; m[1] = b[1]; for (n in 2:N) m[n] = 0.5 * m[n - 1] + x[n] * b[2]; y ~ "
     "normal(m, s); }",
     "model { vector[5] m = [b[1], 0, 0, 0, 0]'; m[2] = m[1] / 2 + x[2] * b[2]; m[3] = m[2] / 2 + "
     "x[3] * b[2];"
     " m[4] = m[3] / 2 + x[4] * b[2]; m[5] = m[4] / 2 + x[5] * b[2]; y ~ normal(m, s); }"},
    {"two steps back", 5, UNROLLED, "",
     "model { vector[N] m = x; for (n in 3:N) m[n] = b[1] * m[n - 2]; y ~ normal(m, s); }",
     "model { y ~ normal([x[1], x[2], b[1] * x[1], b[1] * x[2], b[1] ^ 2 * x[1]]', s); }"},
    {"a state that is carried", 5, UNROLLED, "",
     "model { real m = b[1]; for (n in 1:N) { y[n] ~ normal(m, s); m = m / 2 + x[n]; } }",
     "model { vector[N] m; m[1] = b[1]; for (n in 2:N) m[n] = m[n - 1] / 2 + x[n - 1]; y ~ "
     "normal(m, s); }"},
    {"sums by group", 5, UNROLLED, "",
     "model { vector[3] m = rep_vector(0, 3); for (n in 1:N) m[g[n]] += x[n] * b[1]; y ~ "
     "normal(m[g], s); }",
     "model { vector[3] m = b[1] * [x[1] + x[5], x[3], x[2] + x[4]]'; y ~ normal(m[g], s); }"},
    {"read after the whole was written", 0, UNROLLED, "",
     "model { vector[3] m = a; for (i in 1:3) { target += -square(m[2]); m = m * b[1]; } }",
     "model { target += -square(a[2]) * (1 + b[1] ^ 2 + b[1] ^ 4); }"},
    {"set in some rows only", 5, UNROLLED, "",
     "model { real m = b[2]; for (n in 1:N) { if (z[n]) m = b[1] * x[n]; y[n] ~ normal(m, s); } }",
     "model { y ~ normal([b[2], b[1] * x[2], b[1] * x[3], b[1] * x[3], b[1] * x[5]]', s); }"},
    {"inner bounds differ", 5, UNROLLED, "",
     "model { for (n in 1:N) { real m = 0; for (i in 1:n) m += b[1] * x[i]; y[n] ~ normal(m, s); } "
     "}",
     "model { y ~ normal(b[1] * cumulative_sum(x), s); }"},
    {"continue", 3, UNROLLED, "",
     "model { for (n in 1:N) { if (z[n] == 0) continue; y[n] ~ normal(b[1], s); } }",
     "model { y[{2, 3, 5}] ~ normal(b[1], s); }"},
    {"break", 3, UNROLLED, "",
     "model { for (n in 1:N) { if (n > 3) break; y[n] ~ normal(b[1], s); } }",
     "model { y[1:3] ~ normal(b[1], s); }"},
    {"break leaves one loop", 0, EITHER, "",
     "model { for (i in 1:2) for (n in 1:N) { if (n > i) break; target += -square(b[1] - x[n]); } "
     "}",
     "model { target += -2 * square(b[1] - x[1]) - square(b[1] - x[2]); }"},
    {"while", 5, UNROLLED, "",
     "model { int n = 1; while (n <= N) { y[n] ~ normal(b[1] * x[n], s); n += 1; } }",
     "model { y ~ normal(b[1] * x, s); }"},
    {"while in a loop", 0, EITHER, "",
     "model { for (i in 1:3) { int n = i; real t = 0; while (n > 0) { t += a[n]; n -= 1; } target "
     "+= -square(t); } }",
     "model { target += -dot_self(cumulative_sum(a)); }"},
    {"for each element", 5, UNROLLED, "",
     "model { for (v in y) target += normal_lpdf(v | b[1], s); }",
     "model { y ~ normal(b[1], s); }"},
    {"for each vector", 0, UNROLLED, "",
     "model { array[2] vector[3] v = {a, 2 * a}; for (e in v) e ~ normal(0, s); }",
     "model { target += normal_lpdf(a | 0, s) + normal_lpdf(2 * a | 0, s); }"},
    {"returns in the middle", 5, EITHER,
     "real f(int i, real x) { if (i == 1) return x; if (i == 2) return 2 * x; return -x; }",
     "model { for (n in 1:N) y[n] ~ normal(f(g[n], x[n]) * b[1], s); }",
     "model { y ~ normal([1, -1, 2, -1, 1]' .* x * b[1], s); }"},
    {"recursion", 0, EITHER,
     "real power(real x, int n); real power(real x, int n) { return n == 0 ? 1 : x * power(x, n - "
     "1); }",
     "model { target += -power(b[1], 4); }", "model { target += -b[1] ^ 4; }"},
};

static const Twin expressions[] = {
    {"matrix products", 0, EITHER, "", "model { target += -b' * (X' * (X * b)); }",
     "model { target += -dot_self(X * b); }"},
    {"quadratic forms", 0, EITHER, "",
     "model { target += -quad_form(crossprod(X), b) - trace(tcrossprod(X)) * s; }",
     "model { target += -dot_self(X * b) - dot_self(to_vector(X)) * s; }"},
    {"parameter matrices", 0, EITHER, "",
     "model { matrix[2, 2] M = b * b'; target += -sum(M * M); }",
     "model { target += -square(sum(b)) * dot_self(b); }"},
    {"matrix times matrix", 0, EITHER, "",
     "model { matrix[2, 3] A = b * a'; matrix[3, 2] B = a * [s, 1]; matrix[2, 2] C = A * B; target "
     "+= -C[1, 2] + C[2, 1]; }",
     "model { target += dot_self(a) * (-b[1] + b[2] * s); }"},
    {"diagonals", 0, EITHER, "",
     "model { target += -sum(diag_pre_multiply(b, [[1, 2], [3, 4]])) - sum(diag_post_multiply([[1, "
     "2], [3, 4]], b))"
     " - sum(diagonal(diag_matrix(a))); }",
     "model { target += -3 * b[1] - 7 * b[2] - 4 * b[1] - 6 * b[2] - sum(a); }"},
    {"transposes", 0, EITHER, "",
     "model { matrix[2, 3] M = [a', 2 * a']; target += -M'[3, 2] * (b' * M)[1]; }",
     "model { target += -2 * a[3] * (b[1] * a[1] + 2 * b[2] * a[1]); }"},
    {"elementwise", 0, EITHER, "", "model { target += -sum((a .* a) ./ (1 + square(a)) .^ 2); }",
     "model { for (i in 1:3) target += -a[i] ^ 2 / (1 + a[i] ^ 2) ^ 2; }"},
    {"many indexes", 0, EITHER, "",
     "model { target += -sum(a[{3, 1}]) - sum(a[2:]) * 2 - sum(a[ : 2]) * 3 - sum(X[{1, 5}, 2]) * "
     "b[1] - sum(X[2:4] * b) - "
     "sum(X[ : , 2] * b[1]); }",
     "model { target += -(a[3] + a[1]) - 2 * (a[2] + a[3]) - 3 * (a[1] + a[2]) - 0.2 * b[1] - (3 * "
     "b[1] + 1.1 * b[2]) - 1.3 * "
     "b[1]; }"},
    {"indexes of indexes", 0, EITHER, "", "model { target += -a[g][2] * a[{2, 3}][1]; }",
     "model { target += -a[3] * a[2]; }"},
    {"assigning parts", 0, EITHER, "",
     "model { vector[4] v = rep_vector(s, 4); v[2:3] = b; v[{4, 1}] = b; target += -dot_product(v, "
     "[1, 2, 3, 4]'); }",
     "model { target += -(b[2] + 2 * b[1] + 3 * b[2] + 4 * b[1]); }"},
    {"assigning rows and columns", 0, EITHER, "",
     "model { matrix[2, 3] M = rep_matrix(1, 2, 3); M[2] = a'; M[ : , 1] = b; M[1, 2:3] = [s, s]; "
     "target += -sum(square(M)); }",
     "model { target += -(b[1] ^ 2 + 2 * s ^ 2 + b[2] ^ 2 + a[2] ^ 2 + a[3] ^ 2); }"},
    {"parts of parts", 0, EITHER, "",
     "model { array[2] vector[3] v = {a, a}; v[2][1] = s; v[1, 2] = b[1]; target += -sum(v[1]) - 2 "
     "* sum(v[2]); }",
     "model { target += -(a[1] + b[1] + a[3]) - 2 * (s + a[2] + a[3]); }"},
    {"a copy is a copy", 0, EITHER, "",
     "model { vector[3] u = a; vector[3] v = u; v[1] = 0; u[2] = 7; target += -dot_self(u) - 2 * "
     "dot_self(v); }",
     "model { target += -(a[1] ^ 2 + 49 + a[3] ^ 2) - 2 * (a[2] ^ 2 + a[3] ^ 2); }"},
    {"compound assignment", 0, EITHER, "",
     "model { vector[3] v = a; real r = s; v += 1; v -= b[1]; v *= 2; v /= s; v .*= a; v ./= [1, "
     "2, 4]'; r += 1; r *= r; "
     "target += -sum(v) - r; }",
     "model { target += -sum(2 * (a + 1 - b[1]) / s .* a ./ [1, 2, 4]') - (s + 1) ^ 2; }"},
    {"tuples", 0, EITHER, "tuple(real, vector) both(vector b, real s) { return (s, 2 * b); }",
     "model { tuple(real, vector[2]) t = both(b, s); real r; vector[2] v; (r, v) = t; t.1 = 3; "
     "target += -r * v[1] - t.2[2] * "
     "t.1; }",
     "model { target += -s * 2 * b[1] - 6 * b[2]; }"},
    {"choices by parameters", 0, EITHER, "",
     "model { target += b[1] > b[2] ? -b[1] : -2 * b[2]; target += (s > 0 && b[1] < 100) ? -s : 0; "
     "}",
     "model { if (b[1] > b[2]) target += -b[1]; else target += -2 * b[2]; target += -s; }"},
    {"branches on parameters", 0, EITHER, "",
     "model { real r = 1; if (b[1] > 0 || b[2] > 0) { r = b[1]; target += -1; } else if (b[1] < "
     "-50) r = 2; target += -r; }",
     "model { real c = step(fmax(b[1], b[2])); target += c * (-1 - b[1]) + (1 - c) * -1; }"},
    {"one outcome, in branches on parameters", 5, EITHER, "",
     "model { if (s < 1) y ~ normal(x * b[1], s); else if (b[2] > 0) y ~ cauchy(x * b[1], s); else "
     "y ~ logistic(x, s); }",
     "model { for (n in 1:N) target += s < 1 ? normal_lpdf(y[n] | x[n] * b[1], s) : b[2] > 0 ? "
     "cauchy_lpdf(y[n] | x[n] * b[1], s) : logistic_lpdf(y[n] | x[n], s); }"},
    {"two outcomes, in branches on parameters", 10, EITHER, "",
     "model { if (s < 1) { y ~ normal(0, s); x ~ normal(b[1], 1); } else { y ~ cauchy(0, s); x ~ "
     "cauchy(b[1], 1); } }",
     "model { for (n in 1:N) target += s < 1 ? normal_lpdf(y[n] | 0, s) : cauchy_lpdf(y[n] | 0, "
     "s); for (n in 1:N) target += s < 1 ? normal_lpdf(x[n] | b[1], 1) : cauchy_lpdf(x[n] | b[1], "
     "1); }"},
    {"a density that returns in branches", 5, EITHER,
     "real f_lpdf(vector y, vector m, real s) { if (s < 1) { return normal_lpdf(y | m, s); } else "
     "{ return cauchy_lpdf(y | m, s); } } "
     "real g_lpdf(vector y, vector m, real s) { if (s < 1) return normal_lpdf(y | m, s); return "
     "cauchy_lpdf(y | m, s); }",
     "model { y ~ f(x * b[1], s); }", "model { target += g_lpdf(y | x * b[1], s); }"},
    {"branches on data", 0, EITHER, "",
     "model { if (N > 3 && z[2] == 1) target += -s; else reject(\"no\"); if (!z[2]) "
     "reject(\"no\"); }",
     "model { target += -s; }"},
    {"short circuits", 0, EITHER, "",
     "model { if (N < 3 && z[N + 10] == 1) reject(\"no\"); if (N > 3 || z[0]) target += -s; }",
     "model { target += -s; }"},
    {"ints", 0, EITHER, "",
     "model { int i = 7 / 2; int j = -7 / 2; int m = -7 % 3; int q = 7 %/% 2; array[3] int v = {4, "
     "5, 6};"
     " target += -(i + 10 * j + 100 * m + q) * s - abs(-5) / 2 * s - (sum(v) / 2 + max(v) / 4 + "
     "min(1, 5) / 2 + size(v) / 2) * "
     "s; }",
     "model { target += -(3 - 30 - 100 + 3) * s - 2 * s - (7 + 1 + 0 + 1) * s; }"},
    {"ints made by functions", 0, EITHER, "int twice(int i) { return 2 * i; }",
     "model { target += -(prod({2, 3}) / 4 + num_elements(X) / 4 + twice(3) / 4 + (N > 3 ? 5 : 4) "
     "/ 2) * s; }",
     "model { target += -(1 + 2 + 1 + 2) * s; }"},
    {"powers of ints are real", 0, EITHER, "", "model { target += -(2 ^ -1) * s - 3 / 2.0 * s; }",
     "model { target += -2 * s; }"},
    {"filling", 0, EITHER, "",
     "model { target += -sum(rep_vector(s, 3)) - sum(rep_matrix(b, 2)) - sum(rep_matrix(a', 2)) - "
     "sum(rep_array(s, 2, 2)[2]) "
     "- sum(append_row(a, b)) - sum(append_col(a', b')) - sum(append_col(rep_matrix(s, 3, 1), a)) "
     "- sum(head(a, 2)) - "
     "sum(tail(a, 1)); }",
     "model { target += -3 * s - 2 * sum(b) - 2 * sum(a) - 2 * s - sum(a) - sum(b) - sum(a) - "
     "sum(b) - 3 * s - sum(a) - "
     "sum(a); }"},
    {"reshaping", 0, EITHER, "",
     "model { matrix[2, 3] M = to_matrix(append_row(a, 2 * a), 2, 3); vector[6] v = to_vector(M');"
     " target += -M[1, 2] * 3 - v[2] * 5 - to_array_1d(M)[2] * 7 - to_matrix(append_row(a, 2 * a), "
     "2, 3, 0)[1, 2]; }",
     "model { target += -a[3] * 3 - a[3] * 5 - a[2] * 7 - a[2]; }"},
    {"reductions", 0, EITHER, "",
     "model { target += -mean(a) - variance(a) - sd(a) - prod(a) - max(a) - min(a) - "
     "dot_product(a, a) - log_sum_exp(a) - "
     "sum(softmax(a) .* a); }",
     "model { real m = sum(a) / 3; real v = sum(square(a - m)) / 2; real l = log(sum(exp(a)));"
     " target += -m - v - sqrt(v) - a[1] * a[2] * a[3] - fmax(a[1], fmax(a[2], a[3])) - fmin(a[1], "
     "fmin(a[2], a[3]))"
     " - a' * a - l - exp(a - l)' * a; }"},
    {"cumulative sums", 0, EITHER, "", "model { target += -dot_self(cumulative_sum(a)); }",
     "model { target += -a[1] ^ 2 - (a[1] + a[2]) ^ 2 - (a[1] + a[2] + a[3]) ^ 2; }"},
    {"reversed", 0, EITHER, "", "model { target += -dot_product(reverse(a), [1, 2, 3]'); }",
     "model { target += -a[3] - 2 * a[2] - 3 * a[1]; }"},
    {"transformed parameters", 0, EITHER, "",
     "transformed parameters { real r = s * 2; vector[3] v; v = a / r; { real hidden = 3; v *= "
     "hidden; } } model { v ~ "
     "std_normal(); }",
     "model { target += std_normal_lpdf(3 * a / (2 * s)); }"},
    {"a profile is a block", 5, EITHER, "",
     "model { profile(\"p\") { real m = b[1]; y ~ normal(m, s); } }",
     "model { y ~ normal(b[1], s); }"},
};

/* How the log density is split. */
static const Twin splitting[] = {
    {"a density of one's own, added with target +=", 5, EITHER,
     "real f_lpdf(vector y, real m, real s) { real l = 0; for (i in 1:rows(y)) { if (y[i] > 0) l "
     "+= "
     "normal_lpdf(y[i] | m, s); else l += student_t_lpdf(y[i] | 4, m, s); } return l; }",
     "model { target += f_lpdf(y | b[1], s); }",
     "model { for (n in 1:N) { if (y[n] > 0) y[n] ~ normal(b[1], s); else y[n] ~ student_t(4, "
     "b[1], s); "
     "} }"},
    {"elements of a vectorized statement", 5, EITHER, "", "model { y ~ normal(b[1], s); }",
     "model { for (n in 1:N) y[n] ~ normal(b[1], s); }"},
    {"target += with a vectorized density", 5, EITHER, "",
     "model { target += normal_lpdf(y | b[1], s); }", "model { y ~ normal(b[1], s); }"},
    {"terms of a sum", 5, EITHER, "",
     "model { target += normal_lpdf(y | b[1], s) + normal_lpdf(b | 0, 1); target += -s; }",
     "model { target += -s; b ~ normal(0, 1); y ~ normal(b[1], s); }"},
    {"terms beside a vectorized density", 5, EITHER, "",
     "model { target += normal_lpdf(y | b[1], s) - N * normal_lccdf(-1 | b[1], s); }",
     "model { for (n in 1:N) target += normal_lpdf(y[n] | b[1], s) - normal_lccdf(-1 | b[1], s); "
     "}"},
    {"increments without a density in a loop without one", 5, EITHER, "",
     "model { real r = 1; for (i in 1:3) target += -square(a[i]) - r; for (n in 1:N) y[n] ~ "
     "normal(r * b[1], s); target += -r; "
     "}",
     "model { target += -dot_self(a) - 4; y ~ normal(b[1], s); }"},
    {"vectors as increments", 0, EITHER, "",
     "model { target += -a; target += a + s; target += a - b[1]; target += {s, s}; }",
     "model { target += sum(a) + 5 * s - 3 * b[1]; }"},
    {"parameters on the left", 0, EITHER, "",
     "model { b ~ normal(0, s); a[1] + a[2] ~ normal(0, 1); }",
     "model { target += normal_lpdf(b | 0, s) + normal_lpdf(a[1] + a[2] | 0, 1); }"},
    {"transformed data on the left", 5, EITHER, "", "model { log(y + 2) ~ normal(b[1], s); }",
     "model { for (n in 1:N) target += normal_lpdf(log(y[n] + 2) | b[1], s); }"},
    {"a scalar observation", 1, EITHER, "", "model { y[2] ~ normal(b[1], s); }",
     "model { y[2:2] ~ normal(b[1], s); }"},
    {"two statements", 10, EITHER, "", "model { y ~ normal(b[1], s); k ~ poisson_log(b[2]); }",
     "model { for (n in 1:N) y[n] ~ normal(b[1], s); for (n in 1:N) k[n] ~ poisson_log(b[2]); }"},
    {"a mixture", 5, EITHER, "",
     "model { for (n in 1:N) target += log_mix(inv_logit(b[1]), normal_lpdf(y[n] | a[1], s), "
     "normal_lpdf(y[n] | a[2], s)); }",
     "model { for (n in 1:N) target += log_sum_exp(log_inv_logit(b[1]) + normal_lpdf(y[n] | a[1], "
     "s),"
     " log1m_inv_logit(b[1]) + normal_lpdf(y[n] | a[2], s)); }"},
    {"a mixture through variables", 5, EITHER, "",
     "model { for (n in 1:N) { vector[2] lp; lp[1] = log(0.3); lp[2] = log(0.7); for (i in 1:2) "
     "lp[i] += normal_lpdf(y[n] | "
     "b[i], s);"
     " target += log_sum_exp(lp); } }",
     "model { for (n in 1:N) target += log_mix(0.3, normal_lpdf(y[n] | b[1], s), normal_lpdf(y[n] "
     "| b[2], s)); }"},
    {"terms beside a density of data", 5, EITHER, "",
     "model { for (n in 1:N) target += log1m(inv_logit(b[1])) + poisson_log_lpmf(k[n] | b[2]); }",
     "model { for (n in 1:N) { 0 ~ bernoulli_logit(b[1]); k[n] ~ poisson_log(b[2]); } }"},
    {"a hurdle", 5, LIFTED, "",
     "model { for (n in 1:N) { if (k[n] == 0) 1 ~ bernoulli_logit(b[1]); else { 0 ~ "
     "bernoulli_logit(b[1]); k[n] ~ "
     "poisson_log(b[2]);"
     " target += -log1m_exp(-exp(b[2])); } } }",
     "model { for (n in 1:N) target += k[n] == 0 ? bernoulli_logit_lpmf(1 | b[1])"
     " : (bernoulli_logit_lpmf(0 | b[1]) + poisson_log_lpmf(k[n] | b[2]) - log1m_exp(-exp(b[2]))); "
     "}"},
    {"a hurdle without densities", 5, LIFTED, "",
     "model { for (n in 1:N) { if (k[n] == 0) target += log_inv_logit(b[1]); else target += "
     "log1m_inv_logit(b[1])"
     " + poisson_log_lpmf(k[n] | b[2]) - log1m_exp(-exp(b[2])); } }",
     "model { for (n in 1:N) target += k[n] == 0 ? bernoulli_logit_lpmf(1 | b[1])"
     " : (bernoulli_logit_lpmf(0 | b[1]) + poisson_log_lpmf(k[n] | b[2]) - log1m_exp(-exp(b[2]))); "
     "}"},
    {"censored outcomes", 5, LIFTED, "",
     "model { for (n in 1:N) if (z[n]) target += normal_lccdf(y[n] | b[1], s); else y[n] ~ "
     "normal(b[1], s); }",
     "model { for (n in 1:N) target += (z[n] ? normal_lccdf(y[n] | b[1], s) : 0) + (z[n] ? 0 : 1) "
     "* normal_lpdf(y[n] | b[1], "
     "s); }"},
    {"a user's density of one outcome", 5, EITHER,
     "real own_lpdf(real y, real m, real s) { return -square((y - m) / s) - log(s); }",
     "model { for (n in 1:N) y[n] ~ own(b[1], s); }",
     "model { for (n in 1:N) target += own_lpdf(y[n] | b[1], s); }"},
    {"censored outcomes", 10, EITHER, "",
     "model { y ~ normal(b[1], s); target += normal_lccdf(x | b[1], s); }",
     "model { for (n in 1:N) { y[n] ~ normal(b[1], s); } for (n in 1:N) target += "
     "normal_lccdf(x[n] "
     "| b[1], s); }"},
    {"so many outcomes above a limit", 8, EITHER, "",
     "model { y ~ normal(b[1], s); target += 3 * normal_lccdf(x[1] | b[1], s); }",
     "model { y ~ normal(b[1], s); for (j in 1:3) target += normal_lccdf(x[1] | b[1], s); }"},
    {"columns in a loop", 10, EITHER, "", "model { for (j in 1:2) X[, j] ~ normal(b[j], s); }",
     "model { for (j in 1:2) for (n in 1:N) X[n, j] ~ normal(b[j], s); }"},
    {"a user's density by cases", 5, LIFTED,
     "real own_lpdf(real y, real m, int g) { if (g == 1) return normal_lpdf(y | m, 1); else if (g "
     "== "
     "2) return -square(y - m); return normal_lpdf(y | m, 2) - 0.5 * m; }",
     "model { for (n in 1:N) y[n] ~ own(b[1] * x[n], g[n]); }",
     "model { for (n in 1:N) target += own_lpdf(y[n] | b[1] * x[n], g[n]); }"},
    {"a value by cases", 5, LIFTED,
     "real f(real x, int g) { real t = 2 * x; if (g == 1) return x; if (g == 2) { t += 1; return "
     "t; "
     "} return t - 1; }",
     "model { for (n in 1:N) y[n] ~ normal(b[1] * f(x[n], g[n]), s); }",
     "model { y ~ normal(b[1] * [x[1], 2 * x[2] - 1, 2 * x[3] + 1, 2 * x[4] - 1, x[5]]', s); }"},
    {"a user's density of all outcomes", 5, EITHER,
     "real own_lpdf(vector y, real m, real s) { return normal_lpdf(y | m, s); }",
     "model { y ~ own(b[1], s); }", "model { target += own_lpdf(y | b[1], s); }"},
    {"a user's density of parameters", 0, EITHER,
     "real own_lpdf(vector y, real m, real s) { return normal_lpdf(y | m, s); }",
     "model { a ~ own(b[1], s); }", "model { a ~ normal(b[1], s); }"},
    {"a function that changes target", 5, EITHER,
     "void add_lp(vector y, real m, real s) { y ~ normal(m, s); m ~ normal(0, 1); target += -s; }",
     "model { add_lp(y, b[1], s); }",
     "model { y ~ normal(b[1], s); b[1] ~ normal(0, 1); target += -s; }"},
    {"the outermost loop counts", 2, EITHER, "",
     "model { for (i in 1:2) for (n in 1:N) y[n] ~ normal(b[i], s); }",
     "model { for (i in 1:2) target += normal_lpdf(y | b[i], s); }"},
    {"an unrolled loop around a vectorized statement", 2, EITHER, "",
     "model { real m = 0; for (i in 1:2) { m += b[i]; y ~ normal(m, s); } }",
     "model { for (i in 1:2) target += normal_lpdf(y | sum(b[1:i]), s); }"},
    {"a block is no loop", 5, EITHER, "", "model { { { y ~ normal(b[1], s); } } }",
     "model { y ~ normal(b[1], s); }"},
    {"a truncated outcome", 5, EITHER, "",
     "model { for (n in 1:N) y[n] ~ normal(b[1], s) T[-1, 3]; }",
     "model { for (n in 1:N) target += normal_lpdf(y[n] | b[1], s) - log_diff_exp(normal_lcdf(3 | "
     "b[1], s), normal_lcdf(-1 | "
     "b[1], s)); }"},
    {"truncated on one side", 5, EITHER, "",
     "model { for (n in 1:N) y[n] ~ logistic(b[1], s) T[-1, ]; b[2] ~ normal(0, 1) T[ , 5]; }",
     "model { for (n in 1:N) target += logistic_lpdf(y[n] | b[1], s) - logistic_lccdf(-1 | b[1], "
     "s);"
     " target += normal_lpdf(b[2] | 0, 1) - normal_lcdf(5 | 0, 1); }"},
    {"a regression in one call", 5, EITHER, "", "model { y ~ normal_id_glm(X, b[1], b, s); }",
     "model { y ~ normal(X * b + b[1], s); }"},
    {"a literal on the left", 0, EITHER, "",
     "model { [b[1], s] ~ normal(0, 1); {b[2], 1} ~ normal(0, 2); }",
     "model { target += normal_lpdf(b[1] | 0, 1) + normal_lpdf(s | 0, 1) + normal_lpdf(b[2] | 0, "
     "2) + normal_lpdf(1 | 0, 2); "
     "}"},
    {"data with data", 5, EITHER, "", "model { y ~ normal(x, 1); s ~ exponential(1); }",
     "model { for (n in 1:N) target += normal_lpdf(y[n] | x[n], 1); target += exponential_lpdf(s | "
     "1); }"},
};

/* ---- transforms: log |det| of the Jacobian against finite differences ------------------------ */

/* Which elements of the constrained value are free, so that the transform is one of as many numbers
 * as there are. */
typedef enum { ALL, BUT_LAST, LOWER, STRICTLY_LOWER } Free;

static const struct Transform {
  const char *declaration;
  Free free;
  int item; /* elements of one item (vector or matrix), when not all are free */
  int dim;  /* unconstrained numbers */
} transforms[] = {
    {"real p;", ALL, 0, 1},
    {"real<lower=-1.5> p;", ALL, 0, 1},
    {"real<upper=2> p;", ALL, 0, 1},
    {"real<lower=-1, upper=3> p;", ALL, 0, 1},
    {"real<offset=2, multiplier=3> p;", ALL, 0, 1},
    {"real<multiplier=0.5> p;", ALL, 0, 1},
    {"vector<lower=0>[3] p;", ALL, 0, 3},
    {"vector<lower=[0, -1, 2]', upper=[1, 5, 2.5]'>[3] p;", ALL, 0, 3},
    {"vector<lower=[0, negative_infinity(), 2]', upper=[positive_infinity(), 5, 2.5]'>[3] p;", ALL,
     0, 3},
    {"row_vector<upper=0>[2] p;", ALL, 0, 2},
    {"matrix<lower=0>[2, 3] p;", ALL, 0, 6},
    {"array[2, 2] real<lower=0, upper=1> p;", ALL, 0, 4},
    {"array[2] vector<offset=1, multiplier=2>[2] p;", ALL, 0, 4},
    {"vector<offset=[1, 2]', multiplier=[3, 4]'>[2] p;", ALL, 0, 2},
    {"ordered[4] p;", ALL, 0, 4},
    {"ordered[1] p;", ALL, 0, 1},
    {"positive_ordered[3] p;", ALL, 0, 3},
    {"array[2] ordered[2] p;", ALL, 0, 4},
    {"simplex[2] p;", BUT_LAST, 2, 1},
    {"simplex[5] p;", BUT_LAST, 5, 4},
    {"array[2] simplex[3] p;", BUT_LAST, 3, 4},
    {"cholesky_factor_corr[2] p;", STRICTLY_LOWER, 4, 1},
    {"cholesky_factor_corr[4] p;", STRICTLY_LOWER, 16, 6},
    {"cholesky_factor_cov[3] p;", LOWER, 9, 6},
    {"corr_matrix[2] p;", STRICTLY_LOWER, 4, 1},
    {"corr_matrix[3] p;", STRICTLY_LOWER, 9, 3},
    {"corr_matrix[4] p;", STRICTLY_LOWER, 16, 6},
    {"cov_matrix[1] p;", LOWER, 1, 1},
    {"cov_matrix[3] p;", LOWER, 9, 6},
    {"array[2] cov_matrix[2] p;", LOWER, 4, 6},
};

/* Is element e (row-major within its item) one of the free ones? */
static bool is_free(const struct Transform *t, int e) {
  if (t->free == ALL) return true;
  int within = e % t->item, K = (int)lround(sqrt(t->item)), i = within / K, j = within % K;
  return t->free == BUT_LAST ? within != t->item - 1 : t->free == LOWER ? j <= i : j < i;
}

/* Constrained values, row-major, at `points` points. Columns come in CmdStan's order: the name
 * tells the place. */
static double *constrained(Ctx *c, const Model *m, const double *u, size_t points) {
  size_t n = model_output_count(m);
  double *columns = NEW_ARRAY(&c->arena, double, n *points);
  double *out = NEW_ARRAY(&c->arena, double, n *points);
  model_outputs(c, m, &(ModelPoints){u, points, m->dim, 1}, 1, columns);
  const Output *o = &m->outputs[0];
  for (size_t k = 0; k < n; k++) {
    const char *s = model_output_name(m, &c->arena, k, true) + strlen(o->name);
    size_t place = 0;
    for (int d = 0; d < o->ndims; d++) {
      assert_true(*s == '.');
      place = place * (size_t)o->dims[d] + strtoul(s + 1, (char **)&s, 10) - 1;
    }
    for (size_t p = 0; p < points; p++) out[p * n + place] = columns[p * n + k];
  }
  return out;
}

/* log |det A|, n x n, by elimination with pivots. */
static double log_det(double *A, int n) {
  double s = 0;
  for (int k = 0; k < n; k++) {
    int top = k;
    for (int i = k + 1; i < n; i++)
      if (fabs(A[i * n + k]) > fabs(A[top * n + k])) top = i;
    for (int j = 0; j < n; j++) {
      double t = A[k * n + j];
      A[k * n + j] = A[top * n + j];
      A[top * n + j] = t;
    }
    s += log(fabs(A[k * n + k]));
    for (int i = k + 1; i < n; i++)
      for (int j = n - 1; j >= k; j--) A[i * n + j] -= A[i * n + k] / A[k * n + k] * A[k * n + j];
  }
  return s;
}

TEST(transform) {
  const struct Transform *t = row;
  const Model *m =
      model_of(c, arena_format(&c->arena, "parameters { %s } model { }", t->declaration), NULL);
  assert_int_equal(m->dim, t->dim);
  const double h = 1e-3;
  int n = t->dim;
  double *u = test_point(c, m->dim, 3, 1), *A = NEW_ARRAY(&c->arena, double, n *n);
  double *all = NEW_ARRAY(&c->arena, double, 4 * n * n);
  for (int p = 0; p < 4 * n; p++) {
    memcpy(all + p * n, u, (size_t)n * sizeof *u);
    all[p * n + p / 4] += h * (double[]){-2, -1, 1, 2}[p % 4];
  }
  double *x = constrained(c, m, all, (size_t)(4 * n));
  int size = (int)model_output_count(m), free = 0;
  for (int e = 0; e < size; e++) {
    if (!is_free(t, e)) continue;
    for (int k = 0; k < n; k++) {
      double f[4] = {x[(4 * k) * size + e], x[(4 * k + 1) * size + e], x[(4 * k + 2) * size + e],
                     x[(4 * k + 3) * size + e]};
      A[free * n + k] = difference(f, h);
    }
    free++;
  }
  assert_int_equal(free, n);
  DensityAt d = density(c, m, u);
  assert_close(d.jacobian, log_det(A, n), 1e-8);
  assert_true(d.prior == 0 && d.n_obs == 0);
  expect_gradient(c, m, u, &d, 1e-7);
}

/* The values lie where the type says. */
TEST(constrained_values) {
  const Model *m = model_of(c, "parameters { simplex[4] p; }", NULL);
  double *x = constrained(c, m, test_point(c, 3, 1, 2), 1);
  assert_close(x[0] + x[1] + x[2] + x[3], 1, 1e-15);
  m = model_of(c, "parameters { corr_matrix[3] p; }", NULL);
  x = constrained(c, m, test_point(c, 3, 1, 2), 1);
  for (int i = 0; i < 3; i++) {
    assert_close(x[4 * i], 1, 1e-14);
    for (int j = 0; j < i; j++) assert_true(x[3 * i + j] == x[3 * j + i] && fabs(x[3 * i + j]) < 1);
  }
  m = model_of(c, "parameters { cholesky_factor_corr[3] p; }", NULL);
  x = constrained(c, m, test_point(c, 3, 1, 2), 1);
  for (int i = 0; i < 3; i++) {
    double s = 0;
    for (int j = 0; j < 3; j++) s += x[3 * i + j] * x[3 * i + j];
    assert_close(s, 1, 1e-14);
    for (int j = i + 1; j < 3; j++) assert_true(x[3 * i + j] == 0);
  }
  m = model_of(c, "parameters { unit_vector[3] p; }", NULL);
  double *u = test_point(c, 3, 1, 2);
  x = constrained(c, m, u, 1);
  assert_close(x[0] * x[0] + x[1] * x[1] + x[2] * x[2], 1, 1e-14);
  assert_close(density(c, m, u).jacobian, -0.5 * (u[0] * u[0] + u[1] * u[1] + u[2] * u[2]), 1e-14);
  m = model_of(c, "parameters { sum_to_zero_vector[4] p; }", NULL);
  assert_int_equal(m->dim, 3);
  u = test_point(c, 3, 1, 2);
  x = constrained(c, m, u, 1);
  assert_close(x[0] + x[1] + x[2] + x[3], 0, 1e-15);
  assert_true(density(c, m, u).jacobian == 0);
  m = model_of(c, "parameters { ordered[4] p; }", NULL);
  x = constrained(c, m, test_point(c, 4, 1, 2), 1);
  assert_true(x[0] < x[1] && x[1] < x[2] && x[2] < x[3]);
  m = model_of(c, "parameters { cov_matrix[2] p; }", NULL);
  x = constrained(c, m, test_point(c, 3, 1, 2), 1);
  assert_true(x[0] > 0 && x[0] * x[3] > x[1] * x[2] && x[1] == x[2]);
}

/* Bounds by other parameters. */
TEST(dependent_bounds) {
  const Model *m = model_of(
      c, "parameters { real a; real<lower=a> b; real<lower=a, upper=a + exp(b)> p; }", NULL);
  double *u = test_point(c, 3, 1, 1), a = u[0], b = a + exp(u[1]), q = 1 / (1 + exp(-u[2]));
  DensityAt d = density(c, m, u);
  assert_close(d.jacobian, u[1] + log(exp(b)) + log(q) + log1p(-q), 1e-14);
  expect_gradient(c, m, u, &d, 1e-7);
}

TEST(jacobian_statement) {
  const Model *m = model_of(c,
                            "parameters { real u; } transformed parameters { real s = exp(u); "
                            "jacobian += u; } model { s ~ exponential(1); }",
                            NULL);
  double u[1] = {0.3};
  DensityAt d = density(c, m, u);
  assert_close(d.jacobian, 0.3, 1e-15);
  assert_close(d.prior, -exp(0.3), 1e-15);
}

/* ---- distributions --------------------------------------------------------------------------- */

/* Densities integrate to one. The outcome is an unconstrained or a bounded parameter; its Jacobian
 * makes the integral one over u. */
static const struct Integral {
  const char *type, *density;
} integrals[] = {
    {"real", "normal(0.3, 1.4)"},
    {"real", "std_normal()"},
    {"real", "logistic(0.3, 0.8)"},
    {"real", "double_exponential(0.3, 1.2)"},
    {"real", "gumbel(-0.5, 1.3)"},
    {"real", "skew_normal(0.2, 1.1, 2)"},
    {"real", "student_t(9, 0.2, 1.1)"},
    {"real", "exp_mod_normal(0.3, 1.2, 0.7)"},
    {"real", "skew_double_exponential(0.3, 1.2, 0.4)"},
    {"real<lower=-3.141592653589793, upper=3.141592653589793>", "von_mises(0.4, 2.5)"},
    {"real<lower=0>", "lognormal(0.2, 0.7)"},
    {"real<lower=0.5>", "pareto_type_2(0.5, 2, 2.5)"},
    {"real<lower=0>", "loglogistic(1.5, 2.5)"},
    {"real<lower=0>", "exponential(1.3)"},
    {"real<lower=0>", "gamma(2.5, 1.3)"},
    {"real<lower=0>", "inv_gamma(2.5, 1.3)"},
    {"real<lower=0>", "chi_square(4)"},
    {"real<lower=0>", "inv_chi_square(4)"},
    {"real<lower=0>", "scaled_inv_chi_square(4, 1.3)"},
    {"real<lower=0>", "weibull(1.5, 2)"},
    {"real<lower=0>", "frechet(2.5, 2)"},
    {"real<lower=0>", "rayleigh(1.3)"},
    {"real<lower=2>", "pareto(2, 1.5)"},
    {"real<lower=0, upper=1>", "beta(2, 3.5)"},
    {"real<lower=0, upper=1>", "beta_proportion(0.3, 4)"},
    {"real<lower=-1, upper=2>", "uniform(-1, 2)"},
    {"real<lower=0>", "normal(0.3, 1.4) T[0, ]"},
    {"real<upper=1>", "normal(0.3, 1.4) T[ , 1]"},
    {"real<lower=0, upper=1>", "logistic(0.3, 1.4) T[0, 1]"},
    {"real<lower=0.5>", "lognormal(0.3, 0.4) T[0.5, ]"},
    {"real<lower=0, upper=2>", "exponential(0.7) T[ , 2]"},
    {"real<lower=1>", "weibull(1.5, 2) T[1, ]"},
    {"real<lower=1>", "student_t(9, 0.2, 1.1) T[1, ]"},
    {"real<lower=0.5, upper=2>", "gamma(2.5, 1.3) T[0.5, 2]"},
    {"real<upper=0.5, lower=0>", "beta(2, 3.5) T[ , 0.5]"},
};

TEST(integral) {
  enum { POINTS = 16001 };
  const struct Integral *t = row;
  const Model *m = model_of(
      c, arena_format(&c->arena, "parameters { %s y; } model { y ~ %s; }", t->type, t->density),
      NULL);
  double *u = NEW_ARRAY(&c->arena, double, POINTS), h = 80.0 / (POINTS - 1), s = 0;
  for (int k = 0; k < POINTS; k++) u[k] = -40 + h * k;
  DensityAt *d = densities(c, m, u, POINTS);
  for (int k = 0; k < POINTS; k++) s += h * exp(d[k].lp);
  assert_close(s, 1, 2e-6); /* a kink or a slow tail costs a little */
}

/* Probabilities of all outcomes sum to one. */
static const struct Sum {
  const char *density;
  int from, to;
} sums[] = {
    {"bernoulli(inv_logit(p))", 0, 1},
    {"bernoulli_logit(p)", 0, 1},
    {"binomial(7, inv_logit(p))", 0, 7},
    {"binomial_logit(7, p)", 0, 7},
    {"beta_binomial(7, exp(p), 2.5)", 0, 7},
    {"poisson(exp(p))", 0, 60},
    {"poisson_log(p)", 0, 60},
    {"neg_binomial(2.5, 1 + exp(p))", 0, 400},
    {"neg_binomial_2(exp(p), 2.5)", 0, 400},
    {"neg_binomial_2_log(p, 2.5)", 0, 400},
    {"beta_neg_binomial(2.5, 5 + exp(p), 1.2)", 0, 6000},
    {"yule_simon(5 + exp(p))", 1, 2000},
    {"discrete_range(2, 5)", 2, 5},
    {"categorical(softmax([p, 0.3, -1]'))", 1, 3},
    {"categorical_logit([p, 0.3, -1]')", 1, 3},
    {"ordered_logistic(rep_vector(p, N), [-1, 0.5, 2]')", 1, 4},
    {"ordered_probit(rep_vector(p, N), [-1, 0.5, 2]')", 1, 4},
};

TEST(sum_of_outcomes) {
  const struct Sum *t = row;
  Text json = text_make(&c->arena);
  text_printf(&json, "{\"N\": %d, \"y\": [", t->to - t->from + 1);
  for (int k = t->from; k <= t->to; k++) text_printf(&json, k > t->from ? ", %d" : "%d", k);
  text_puts(&json, "]}");
  const char *program = "data { int N; array[N] int y; } parameters { real p; } model { y ~ %s; }";
  Text stan = text_make(&c->arena);
  text_printf(&stan, "%.*s%s; }", (int)(strstr(program, "%s") - program), program, t->density);
  const Model *m = model_of(c, stan.s, json.s);
  assert_int_equal(m->n_obs, t->to - t->from + 1);
  double u[1] = {0.3};
  DensityAt d = density(c, m, u);
  double s = 0;
  for (size_t k = 0; k < m->n_obs; k++) s += exp(d.pointwise[k]);
  assert_close(s, 1, 1e-12);
  expect_gradient(c, m, u, &d, 1e-7);
}

/* A density is the derivative of its cumulative function, and the three forms of that agree. */
static const char *const cdfs[][2] = {
    {"normal", "0.3, exp(p[2])"},
    {"std_normal", NULL},
    {"student_t", "3 + p[2], 0.3, exp(p[2])"},
    {"lognormal", "0.3, exp(p[2])"},
    {"logistic", "0.3, exp(p[2])"},
    {"cauchy", "0.3, exp(p[2])"},
    {"double_exponential", "0.3, exp(p[2])"},
    {"double_exponential", "5, exp(p[2])"},
    {"skew_double_exponential", "0.3, exp(p[2]), 0.4"},
    {"skew_double_exponential", "5, 2, inv_logit(p[2])"},
    {"gumbel", "0.3, exp(p[2])"},
    {"skew_normal", "0.3, exp(p[2]), 1.5"},
    {"skew_normal", "0.3, 1.2, p[2]"},
    {"exp_mod_normal", "0.3, exp(p[2]), 0.7"},
    {"exponential", "exp(p[2])"},
    {"gamma", "2 + p[2], exp(p[2])"},
    {"inv_gamma", "2 + p[2], exp(p[2])"},
    {"chi_square", "3 + p[2]"},
    {"inv_chi_square", "3 + p[2]"},
    {"scaled_inv_chi_square", "3 + p[2], exp(p[2])"},
    {"weibull", "1.5, exp(p[2])"},
    {"frechet", "1.5, exp(p[2])"},
    {"rayleigh", "exp(p[2])"},
    {"pareto", "0.5, exp(p[2])"},
    {"pareto_type_2", "0.3, exp(p[2]), 1.5"},
    {"uniform", "0, 9"},
};

TEST(cumulative) {
  const char *const *t = row;
  const char *name = t[0],
             *of = arena_format(&c->arena, t[1] ? "(exp(p[1]) | %s)" : "(exp(p[1]))%.0s",
                                t[1] ? t[1] : "");
  const Model *m =
      model_of(c,
               arena_format(&c->arena, "parameters { vector[2] p; } model { target += %s_lcdf%s; }",
                            name, of),
               NULL);
  double u[2] = {0.4, -0.2};
  DensityAt d = density(c, m, u);
  expect_gradient(c, m, u, &d, 1e-7);
  DensityAt density_ = density(
      c,
      model_of(c,
               arena_format(&c->arena, "parameters { vector[2] p; } model { target += %s_lpdf%s; }",
                            name, of),
               NULL),
      u);
  DensityAt cdf = density(
      c,
      model_of(c,
               arena_format(&c->arena,
                            "parameters { vector[2] p; } model { target += log(%s_cdf%s); }", name,
                            of),
               NULL),
      u);
  DensityAt upper =
      density(c,
              model_of(c,
                       arena_format(&c->arena,
                                    "parameters { vector[2] p; } model { target += %s_lccdf%s; }",
                                    name, of),
                       NULL),
              u);
  assert_close(d.grad[0], exp(density_.lp - d.lp) * exp(u[0]),
               1e-12); /* d log F(e^u) / du = f e^u / F */
  assert_close(cdf.lp, d.lp, 1e-13);
  assert_close(exp(upper.lp) + exp(d.lp), 1, 1e-13);
}

/* On the unit interval. */
static const char *const unit_cdfs[] = {
    "beta_lcdf(inv_logit(p[1]) | 2, exp(p[2]))", "beta_lccdf(inv_logit(p[1]) | exp(p[2]), 1.5)",
    "beta_proportion_lcdf(inv_logit(p[1]) | 0.3, exp(p[2]) + 1)",
    "log(loglogistic_cdf(exp(p[1]) | exp(p[2]), 2.5))"};
static const char *const unit_densities[] = {
    "beta_lpdf(inv_logit(p[1]) | 2, exp(p[2]))", "beta_lpdf(inv_logit(p[1]) | exp(p[2]), 1.5)",
    "beta_proportion_lpdf(inv_logit(p[1]) | 0.3, exp(p[2]) + 1)",
    "loglogistic_lpdf(exp(p[1]) | exp(p[2]), 2.5)"};

TEST(cumulative_on_intervals) {
  for (int k = 0; k < 4; k++) {
    const Model *m =
        model_of(c,
                 arena_format(&c->arena, "parameters { vector[2] p; } model { target += %s; }",
                              unit_cdfs[k]),
                 NULL);
    const Model *f =
        model_of(c,
                 arena_format(&c->arena, "parameters { vector[2] p; } model { target += %s; }",
                              unit_densities[k]),
                 NULL);
    double u[2] = {0.4, -0.2}, x = 1 / (1 + exp(-u[0])), slope = k < 3 ? x * (1 - x) : exp(u[0]);
    DensityAt d = density(c, m, u);
    expect_gradient(c, m, u, &d, 1e-7);
    assert_close(d.grad[0], (k == 1 ? -1 : 1) * exp(density(c, f, u).lp - d.lp) * slope, 1e-12);
  }
}

/* Of counts: sums of probabilities, and the rest. */
static const struct Counted {
  const char *name, *parameters;
  int from, to;
} counted[] = {
    {"bernoulli", "inv_logit(p)", 0, 1},
    {"binomial", "7, inv_logit(p)", 0, 7},
    {"beta_binomial", "7, exp(p), 2.5", 0, 6},
    {"poisson", "exp(p)", 0, 9},
    {"neg_binomial", "2.5, exp(p)", 0, 9},
    {"neg_binomial_2", "exp(p), 2.5", 0, 9},
    {"beta_neg_binomial", "2.5, 3 + exp(p), 1.2", 0, 9},
    {"yule_simon", "1 + exp(p)", 1, 9},
    {"discrete_range", "2, 6", 2, 6},
};

TEST(counts) {
  const struct Counted *t = row;
  double u[1] = {0.3}, sum = 0;
  for (int y = t->from; y <= t->to; y++) {
    DensityAt d[3];
    for (int k = 0; k < 3; k++) {
      const char *name = k == 0 ? "lpmf" : k == 1 ? "lcdf" : "lccdf";
      const Model *m = model_of(
          c,
          arena_format(&c->arena,
                       "parameters { real p; } model { target += 0 * p + %s_%s(%d | %s); }",
                       t->name, name, y, t->parameters),
          NULL);
      d[k] = density(c, m, u);
      if (isfinite(d[k].lp)) expect_gradient(c, m, u, &d[k], 1e-7);
    }
    sum += exp(d[0].lp);
    assert_close(exp(d[1].lp), sum, 1e-13);
    assert_close(exp(d[2].lp), 1 - sum, 1e-13);
  }
}

/* ---- output ---------------------------------------------------------------------------------- */

/* Statements that fill `out`, as a block of transformed parameters, which is made of nodes for all
 * draws together, and of generated quantities, which are numbers of one draw after the other. */
typedef struct {
  const char *what, *text;
} Statements;

static const Statements statements[] = {
    {"operators",
     "out[1] = a[1] + a[2] * a[3] - a[4] / s; out[2] = -a[1] ^ 2 + s ^ 0.5 + s ^ -1 + s ^ a[2];"
     "out[3] = 7 / 2 + 7 % 4 + 7 %/% 3; out[4] = (a[1] < a[2]) + 2 * (a[1] >= a[3]) + !(s > 1);"
     "out[5] = (a[1] > 0 && a[2] > 0) || a[3] == a[4]; out[6] = a[1] > a[2] ? a[1] : 2;"
     "out[7] = a' * a + (a' * a) / 2; out[8] = (N > 2 ? 1 : 2.5) / 2;"},
    {"elements, rows and blocks",
     "array[3, 2] real x; matrix[2, 3] M = rep_matrix(1, 2, 3); array[2] vector[3] v;"
     "for (i in 1:3) for (j in 1:2) { x[i, j] = a[i] + j; M[j, i] = x[i][j] * s; }"
     "for (j in 1:2) { v[j] = M[j]'; v[j][2] += 1; v[j, 3] *= 2; }"
     "x[2] = x[1]; x[1, 1] = 9; out[1:3] = v[1]; out[4:6] = v[2]; out[7] = sum(x[2]);"
     "out[8] = x[1, 1] + M[2, g[2]] + v[g[1]][g[3]];"},
    {"what was copied stays",
     "array[3] real x = {a[1], a[2], a[3]}; array[3] real z = x; real b = a[1]; real d = b; int k;"
     "x[1] = 5; b += 1; out[1] = z[1]; out[2] = d; out[3] = sum(x); x[2] = 6; out[4] = sum(x);"
     "z = x; x[3] = 7; out[5] = z[3]; k = 3; { int l = k; k -= 1; out[6] = l * 10 + k; }"
     "{ array[2] int c; for (i in 1:2) c[i] = i; out[7] = c[1] + c[2] / 2; }"
     "{ tuple(real, real) t = (b, d); b = 0; out[8] = t.1 + t.2; }"},
    {"the best of several",
     "array[N, 2] real best; array[N, 2] int from = rep_array(0, N, 2);"
     "for (k in 1:2) best[1, k] = normal_lpdf(y[1] | a[k], s);"
     "for (t in 2:N) for (k in 1:2) { best[t, k] = negative_infinity();"
     "  for (j in 1:2) { real lp; lp = best[t - 1, j] + log(s + j) + normal_lpdf(y[t] | a[k], s);"
     "    if (lp > best[t, k]) { from[t, k] = j; best[t, k] = lp; } } }"
     "out[1] = max(best[N]); for (t in 2:N) out[t] = from[t, 1] + 10 * from[t, 2];"},
    {"densities in loops",
     "for (k in 1:4) for (n in 1:N) { real z; z = normal_lpdf(y[n] | a[k], s);"
     "  z += cauchy_lpdf(y[n] | a[k], s + k) - logistic_lpdf(a[k] | y[n], s);"
     "  z += double_exponential_lpdf(y[n] | a[k], s); z -= student_t_lpdf(y[n] | 3, a[k], s);"
     "  z += bernoulli_lpmf(k %/% 3 | inv_logit(a[k])) + bernoulli_logit_lpmf(g[n] %/% 2 | a[k]);"
     "  z += poisson_log_lpmf(g[n] | a[k]);"
     "  out[k] += z; out[k + 4] += poisson_lpmf(g[n] | s * k) + exponential_lpdf(s | k); }"},
    {"numbers in loops",
     "array[2, 3] int m; int c = 0; for (i in 1:2) for (j in 1:3) { c += 1; m[i, j] = c; }"
     "for (n in 1:N) { int k = m[1 + n % 2, 1 + n %/% 3]; real x; if (k > 2 && y[n] > 0) x = k / 2;"
     "  else if (!(k == 1)) x = pi() * k; else x = -e(); out[g[n]] += x * a[g[n]] ^ 2;"
     "  for (j in k:3) { if (j == 2) continue; out[4] += j .* s; if (out[4] > 9) break; }"
     "  { real late = x; for (i in 1:0) late = 0; out[5] += fmax(late, s) - fmin(x, y[n]); } }"
     "for (n in 1:N) { int i = 0; while (i < n) { i += 2; out[6] += i / 2.0 - a[1]; } }"
     "for (n in 1:N) profile(\"p\") { m[1][2] = m[1, 2] - n; m[1, 3] -= m[1][2]; }"
     "out[7] = m[1, 2] + 10 * m[1, 3]; for (n in 2:N) out[8] = out[8] * 0.5 + half(n, 2);"},
    {"sums of exponentials over states",
     "array[3] real acc; array[N, 3] real l; for (k in 1:3) l[1, k] = a[k];"
     "for (t in 2:N) for (k in 1:3) { for (j in 1:3) acc[j] = l[t - 1, j] + a[j] * k - s * y[t];"
     "  l[t, k] = log_sum_exp(acc); }"
     "out[1] = log_sum_exp(l[N]); out[2:4] = softmax(to_vector(l[2]));"},
    {"loops that are left",
     "real x = 0; for (n in 1:N) { if (n == 2) continue; if (n == 5) break; x += y[n] * a[1]; }"
     "out[1] = x; { int n = 0; while (n < 4) { n += 1; if (n == 3) continue; out[2] += a[n]; } }"
     "for (v in y) { real z = v * s; if (z > 2) out[3] += z; else out[4] -= z; }"
     "for (n in 1:N) { real fresh; if (n > 1) fresh = y[n - 1]; out[5] += n > 1 ? fresh : a[2]; }"},
    {"conditions on parameters, each iteration its own",
     "array[6] real x = rep_array(0, 6); vector[6] v; real z = 0; real w;"
     "for (n in 1:6) { if (a[1] > y[n]) x[n] = a[3]; else x[n] = 2; }"
     "for (n in 1:6) { v[n] = y[n]; for (j in 1:2) if (a[j] > v[n]) v[n] = a[j] * n; }"
     "for (n in 1:6) if (a[2] > y[n]) z = y[n];"
     "for (n in 1:6) { w = a[4]; if (a[1] > y[n]) w = y[n]; out[7] += w * n; }"
     "for (n in 1:6) { if (n > 2) { if (a[1] > y[n]) x[n] += y[n] * s; } out[n] = x[n] - v[n]; }"
     "out[8] = z;"},
    {"functions of the user",
     "out[1] = half(1, 2) + half(g[1], 2); out[2] = power_sum(a, 3); out[3] = clipped(a[1]);"
     "out[4] = clipped(a[2] + 10) + one() / 2; out[5] = mean_of({1, 2}); out[6:8] = shifted(a, "
     "s);"},
    {"a loop that is lifted in some calls and not in others",
     "vector[20] w = rep_vector(s, 20); vector[20] r = rep_vector(s, 20);"
     "for (n in 1:20) w[n] = w[n] * n + a[1]; for (n in 2:20) r[n] = r[n - 1] * 0.5 + a[2];"
     "out[1] = sum(w); out[2] = sum(r); out[3] = running(w, 0); out[4] = running(w, 1);"
     "for (n in 1:20) { int m = n %/% 3; out[5] += w[m + 1]; } out[6] = dot_product(w, r);"},
};

static const char statement_functions[] =
    "functions {"
    "real half(real x, real y) { return x / y; }"
    "real one() { return 1; }"
    "real mean_of(array[] real x) { return x[1] / x[2]; }"
    "real power_sum(vector a, int n) { real t = 0; for (k in 1:n) t += a[k] ^ k; return t; }"
    "real clipped(real x) { if (x > 2) return 2; return x; }"
    "vector shifted(vector a, real s) { vector[3] r; for (k in 1:3) r[k] = a[k + 1] - s; return r; "
    "}"
    "real running(vector w, int carry) { vector[num_elements(w)] r = w;"
    " for (n in 2:num_elements(w)) r[n] = carry ? r[n - 1] + w[n] : 2 * w[n];"
    " return r[num_elements(w)]; } }";

TEST(generated_as_transformed) {
  const Statements *t = row;
  enum { DRAWS = 70, OUT = 8 };
  const char *block = "vector[8] %s; { vector[8] out = rep_vector(0, 8); %s %s = out; }";
  const char *text =
      arena_format(&c->arena,
                   "%s data { int N; array[N] real y; array[N] int g; }"
                   "parameters { vector[4] a; real<lower=0> s; } transformed parameters { %s }"
                   "model { a ~ normal(0, 1); s ~ lognormal(0, 1); } generated quantities { %s }",
                   statement_functions, arena_format(&c->arena, block, "tp", t->text, "tp"),
                   arena_format(&c->arena, block, "gq", t->text, "gq"));
  const Model *m =
      model_of(c, text, "{\"N\": 6, \"y\": [0.5, 1, -1, 2, 0.25, 3], \"g\": [1, 2, 3, 1, 2, 3]}");
  size_t columns = model_output_count(m), first = 5;
  double *theta = NEW_ARRAY(&c->arena, double, 5 * DRAWS),
         *out = NEW_ARRAY(&c->arena, double, DRAWS *columns);
  uint64_t seed = 11;
  for (int k = 0; k < 5 * DRAWS; k++) theta[k] = uniform(&seed, -2, 2);
  model_outputs(c, m, &(ModelPoints){theta, DRAWS, 1, DRAWS}, 42, out);
  for (int i = 0; i < DRAWS; i++)
    for (size_t k = 0; k < OUT; k++) {
      double tp = out[(size_t)i * columns + first + k],
             gq = out[(size_t)i * columns + first + OUT + k];
      if (!(fabs(tp - gq) <= 1e-12 * (1 + fabs(tp))))
        fail_msg("out[%zu] of draw %d: %.17g for all draws, %.17g of one", k + 1, i, tp, gq);
    }
}

TEST(generated_quantities) {
  const Model *m =
      model_of(c,
               "data { int N; vector[N] x; } parameters { real b; real<lower=0> s; }"
               "transformed parameters { vector[N] mu = b * x; } model { b ~ normal(0, 1); }"
               "generated quantities { real twice = 2 * b; matrix[2, 2] M = [[b, s], [1, 2]]; "
               "vector[N] y; array[N] int big;"
               " for (n in 1:N) { y[n] = normal_rng(mu[n], s); big[n] = y[n] > mu[n]; }"
               " real lp = 0; for (n in 1:N) { if (n == 2) continue; lp += normal_lpdf(y[n] | "
               "mu[n], s); } }",
               "{\"N\": 3, \"x\": [1, 2, 4]}");
  enum { DRAWS = 70, COLUMNS = 2 + 3 + 1 + 4 + 3 + 3 + 1 };
  assert_int_equal(model_output_count(m), COLUMNS);
  static const char *const names[COLUMNS] = {"b",     "s",     "mu.1",  "mu.2",  "mu.3", "twice",
                                             "M.1.1", "M.2.1", "M.1.2", "M.2.2", "y.1",  "y.2",
                                             "y.3",   "big.1", "big.2", "big.3", "lp"};
  for (size_t k = 0; k < COLUMNS; k++)
    assert_string_equal(model_output_name(m, &c->arena, k, true), names[k]);
  assert_string_equal(model_output_name(m, &c->arena, 7, false), "M[2,1]");
  double *theta = NEW_ARRAY(&c->arena, double, 2 * DRAWS),
         *out = NEW_ARRAY(&c->arena, double, DRAWS *COLUMNS);
  double *again = NEW_ARRAY(&c->arena, double, DRAWS *COLUMNS),
         *other = NEW_ARRAY(&c->arena, double, DRAWS *COLUMNS);
  uint64_t seed = 5;
  for (int k = 0; k < 2 * DRAWS; k++) theta[k] = uniform(&seed, -1, 1);
  ModelPoints draws = {theta, DRAWS, 1, DRAWS};
  model_outputs(c, m, &draws, 42, out);
  model_outputs(c, m, &draws, 42, again);
  model_outputs(c, m, &draws, 43, other);
  assert_memory_equal(out, again, DRAWS * COLUMNS * sizeof *out);
  bool some[16] = {false}; /* by variable: M alone, and then the last generated one alone */
  for (int k = 0; k < m->noutputs; k++) some[k] = !strcmp(m->outputs[k].name, "M");
  model_some_outputs(c, m, &draws, 42, some, again);
  for (int i = 0; i < DRAWS; i++)
    assert_memory_equal(again + 4 * i, out + i * COLUMNS + 6, 4 * sizeof *out);
  for (int k = 0; k < m->noutputs; k++) some[k] = k == m->noutputs - 1;
  model_some_outputs(c, m, &draws, 42, some, again);
  for (int i = 0; i < DRAWS; i++) assert_true(again[i] == out[i * COLUMNS + COLUMNS - 1]);
  double sum = 0;
  for (int i = 0; i < DRAWS; i++) {
    const double *o = out + i * COLUMNS;
    double b = theta[i], s = exp(theta[DRAWS + i]), lp = 0;
    assert_true(o[0] == b && distance(o[1], s) < 1e-15 && o[4] == 4 * b && o[5] == 2 * b);
    assert_true(o[6] == b && o[7] == 1 && o[8] == o[1] && o[9] == 2);
    for (int n = 0; n < 3; n++) {
      double z = (o[10 + n] - o[2 + n]) / s;
      sum += z;
      assert_true(o[13 + n] == (o[10 + n] > o[2 + n]));
      if (n != 1) lp += -0.5 * z * z - log(s) - 0.5 * log(2 * M_PI);
      assert_true(o[10 + n] != other[i * COLUMNS + 10 + n]);
    }
    assert_close(o[16], lp, 1e-12);
    assert_true((o[10] - o[2]) / s != (o[11] - o[3]) / s);
  }
  assert_true(fabs(sum) / sqrt(3 * DRAWS) < 4);
}

/* ---- selections of observations -------------------------------------------------------------- */

TEST(tapes_of_some_rows) {
  const Model *m = model_of(
      c,
      HEAD PARAMETERS
      "model { for (n in 1:N) { if (z[n]) y[n] ~ normal(a[g[n]], s); else y[n] ~ cauchy(b[1], s); }"
      " k ~ poisson_log(X * b); real t = b[2]; for (n in 1:N) { t *= 0.5; y[n] ~ normal(t, s); } }",
      DATA);
  assert_int_equal(m->n_obs, 15);
  double *u = test_point(c, m->dim, 1, 1);
  DensityAt all = density(c, m, u);
  const size_t rows[] = {14, 0, 3, 7, 5, 1};
  int32_t obs[6];
  ModelRows selected = model_rows(&c->arena, m, rows, 6);
  model_numbers(m, &selected, obs);
  Tape *tape = model_tape(&c->arena, m, &selected, WANT_LL);
  assert_int_equal(vm_rows(tape), 6);
  bool seen[15] = {false};
  for (int k = 0; k < 6; k++) seen[obs[k]] = true;
  for (int k = 0; k < 6; k++) assert_true(seen[rows[k]]);
  double pointwise[6], likelihood, sum = 0;
  density_eval(density_make(&c->arena, m, rows, 6, 1), &(ModelPoints){u, 1, m->dim, 1},
               &(DensityOut){.pointwise = pointwise, .likelihood = &likelihood});
  for (int k = 0; k < 6; k++) assert_true(pointwise[k] == all.pointwise[rows[k]]);
  for (int k = 0; k < 6; k++) sum += pointwise[k];
  assert_close(likelihood, sum, 1e-14);
}

/* ---- densities ------------------------------------------------------------------------------- */

enum { DENSITY_ROWS = 70000, DENSITY_POINTS = 70 }; /* more than go into one batch of either */

static DensityOut new_out(Arena *a, size_t n, size_t dim) {
  return (DensityOut){.log_density = NEW_ARRAY(a, double, n),
                      .prior = NEW_ARRAY(a, double, n),
                      .jacobian = NEW_ARRAY(a, double, n),
                      .likelihood = NEW_ARRAY(a, double, n),
                      .gradient = NEW_ARRAY(a, double, n *dim)};
}

/* Batches of rows and of points, and how points lie in memory, make no difference. */
TEST(densities_in_batches) {
  Arena *a = &c->arena;
  Text json = text_make(a);
  text_printf(&json, "{\"N\": %d, \"y\": [0.25", DENSITY_ROWS);
  for (int k = 1; k < DENSITY_ROWS; k++) text_printf(&json, ",%d.25", k % 7 - 3);
  text_puts(&json, "]}");
  const Model *m =
      model_of(c,
               "data { int N; vector[N] y; } parameters { real mu; real<lower=0> sigma; }"
               "model { mu ~ normal(0, 5); sigma ~ exponential(1); y ~ normal(mu, sigma); }",
               json.s);
  size_t n = DENSITY_POINTS, rows = DENSITY_ROWS;
  double *u = test_point(c, n * m->dim, 3, 1), *turned = NEW_ARRAY(a, double, n * m->dim);
  for (size_t k = 0; k < n * m->dim; k++) turned[k % m->dim * n + k / m->dim] = u[k];
  DensityOut kept = new_out(a, n, m->dim), once = new_out(a, n, m->dim);
  density_eval(density_make(a, m, NULL, 0, n), &(ModelPoints){u, n, m->dim, 1}, &kept);
  density_once(c, m, NULL, 0, &(ModelPoints){turned, n, 1, n}, &once);
  for (size_t i = 0; i < n; i++) {
    assert_true(kept.log_density[i] == once.log_density[i] && kept.prior[i] == once.prior[i]);
    assert_true(kept.jacobian[i] == once.jacobian[i] && kept.likelihood[i] == once.likelihood[i]);
    assert_true(kept.log_density[i] == kept.likelihood[i] + (kept.prior[i] + kept.jacobian[i]));
    for (size_t k = 0; k < m->dim; k++)
      assert_close(kept.gradient[i * m->dim + k], once.gradient[i * m->dim + k], 1e-12);
  }
  double *pointwise = NEW_ARRAY(a, double, rows), sum = 0;
  density_once(c, m, NULL, 0, &(ModelPoints){u, 1, m->dim, 1},
               &(DensityOut){.pointwise = pointwise});
  for (size_t k = 0; k < rows; k++) sum += pointwise[k];
  assert_close(sum, kept.likelihood[0], 1e-12);
}

/* ---- programs and data that are wrong -------------------------------------------------------- */

static const struct Wrong {
  const char *what, *stan, *json;
  Status status;
  const char *message;
  unsigned line; /* of the message; 0: nowhere or not looked at */
} wrongs[] = {
    {"missing data", "data { int N; vector[N] x; }", "{\"N\": 2}", PVI_DATA, "x", 1},
    {"too few elements", "data { int N;\nvector[N] x; }", "{\"N\": 3, \"x\": [1, 2]}", PVI_DATA,
     "x", 0},
    {"real for int", "data { int N; }", "{\"N\": 2.5}", PVI_DATA, "N", 0},
    {"violated bound", "data { int<lower=3> N; }", "{\"N\": 2}", PVI_DATA, "N", 0},
    {"violated element bound", "data { vector<lower=0>[2] x; }", "{\"x\": [1, -2]}", PVI_DATA,
     "x[2]", 0},
    {"no simplex", "data { simplex[2] x; }", "{\"x\": [0.5, 0.6]}", PVI_DATA, "x", 0},
    {"negative size", "data { int N; vector[N] x; }", "{\"N\": -1, \"x\": []}", PVI_DATA,
     "size -1 of x is negative", 1},
    {"negative size of a local", "model { int n = -2;\nvector[n] v; }", "{}", PVI_DATA,
     "size -2 of v is negative", 2},
    {"huge size", "data { int N;\nvector[N] x; }", "{\"N\": 2000000000, \"x\": []}", PVI_DATA,
     "size 2000000000 of x is too large", 2},
    {"huge product of sizes", "parameters { real q; } model { matrix[100000, 100000] m; }", "{}",
     PVI_DATA, "m has 10000000000 elements, which is too large", 1},
    {"huge filling", "parameters { real q; } model {\ntarget += sum(rep_vector(q, 2147483647)); }",
     "{}", PVI_PROGRAM, "size 2147483647 is too large", 2},
    {"index too large", "parameters { vector[3] a; }\nmodel { target += a[4]; }", "{}", PVI_PROGRAM,
     "index 4 is out of range: the dimension has elements 1 to 3", 2},
    {"index zero", "parameters { vector[3] a; } model { target += a[0]; }", "{}", PVI_PROGRAM,
     "index 0 is out of range", 1},
    {"index in a loop", "parameters { vector[3] a; } model {\nfor (n in 1:4)\n target += a[n]; }",
     "{}", PVI_PROGRAM, "index 4 is out of range", 3},
    {"index of an empty vector", "parameters { vector[0] a; } model { target += a[1]; }", "{}",
     PVI_PROGRAM, "the dimension is empty", 1},
    {"slice out of range", "parameters { vector[3] a; } model { target += sum(a[2:5]); }", "{}",
     PVI_PROGRAM, "index 5 is out of range", 1},
    {"sizes of operands",
     "parameters { vector[3] a; vector[2] b; }\nmodel { target += sum(a + b); }", "{}", PVI_PROGRAM,
     "sizes do not match: 3 and 2", 2},
    {"sizes of a product",
     "data { matrix[2, 3] X; } parameters { vector[2] b; } model { target += sum(X * b); }",
     "{\"X\": [[1, 2, 3], [4, 5, 6]]}", PVI_PROGRAM, "2 x 3 times 2 x 1", 1},
    {"sizes of an assignment", "parameters { vector[3] a; } model { vector[2] v; v = a; }", "{}",
     PVI_PROGRAM, "sizes do not match in assignment: 3 elements into 2", 1},
    {"sizes of arguments",
     "data { vector[3] y; } parameters { vector[2] m; } model { y ~ normal(m, 1); }",
     "{\"y\": [1, 2, 3]}", PVI_PROGRAM,
     "normal: the outcome has size 3, but parameter 1 has size 2", 1},
    {"rejection", "data { int N; } model { if (N > 1)\nreject(\"N is \", N); }", "{\"N\": 2}",
     PVI_PROGRAM, "the program rejects: N is 2", 2},
    {"rejection in transformed data", "transformed data { reject(\"no\"); }", "{}", PVI_PROGRAM,
     "the program rejects: no", 1},
    {"division by zero", "data { int N; } model { int k = 3 / N; }", "{\"N\": 0}", PVI_PROGRAM,
     "division by zero", 1},
    {"no draw can be evaluated",
     "parameters { vector[2] a; } model { int k = 3; while (k < 9 - (a[1] > 0)) k += 1; target += "
     "a[k]; }",
     "{}", PVI_PROGRAM, "out of range", 1},
    {"endless recursion",
     "functions { real f(real x) { return f(x); } } parameters { real b; } model { target += f(b); "
     "}",
     "{}", PVI_PROGRAM, "levels deep", 0},
    {"rows of different sizes",
     "parameters { vector[2] b; vector[3] a; } model { matrix[2, 2] M = [b', a']; }", "{}",
     PVI_PROGRAM, "different sizes", 1},
    {"a category out of range",
     "data { int y; } parameters { simplex[3] p; } model { y ~ categorical(p); }", "{\"y\": 4}",
     PVI_DATA,
     "categorical: the outcome is 4; it must be between 1 and the number of categories, 3", 1},
    {"no bernoulli outcome",
     "data { array[3] int y; } parameters { real p; }\nmodel { y ~ bernoulli_logit(p); }",
     "{\"y\": [0, 2, 1]}", PVI_DATA,
     "bernoulli_logit: the outcome is 2 at element 2; it must be 0 or 1", 2},
    {"no bernoulli outcome in a loop",
     "data { array[3] int y; } parameters { real p; } model {\nfor (n in 1:3)\ny[n] ~ "
     "bernoulli_logit(p); }",
     "{\"y\": [0, -1, 1]}", PVI_DATA, "the outcome is -1 in iteration 2; it must be 0 or 1", 3},
    {"more successes than trials",
     "data { array[2] int y, n; } parameters { real p; } model { y ~ binomial_logit(n, p); }",
     "{\"y\": [3, 4], \"n\": [3, 3]}", PVI_DATA,
     "the outcome is 4 at element 2; it must be between 0 and the number of trials, 3", 1},
    {"more successes than trials in a loop",
     "data { array[2] int y, n; } parameters { real p; } model { for (i in 1:2) y[i] ~ "
     "binomial_logit(n[i], p); }",
     "{\"y\": [3, 4], \"n\": [3, 3]}", PVI_DATA,
     "the outcome is 4 in iteration 2; it must be between 0 and the number of trials, 3", 1},
    {"a negative count", "data { int y; } parameters { real p; } model { y ~ poisson_log(p); }",
     "{\"y\": -1}", PVI_DATA, "poisson_log: the outcome is -1; it must be nonnegative", 1},
    {"a negative count in a function",
     "data { int y; } parameters { real p; } model { target += poisson_log_lpmf(y | p); }",
     "{\"y\": -1}", PVI_DATA, "it must be nonnegative", 1},
    {"a negative duration",
     "data { real y; } parameters { real<lower=0> p; } model { y ~ exponential(p); }",
     "{\"y\": -0.5}", PVI_DATA, "exponential: the outcome is -0.5; it must be nonnegative", 1},
    {"log of zero", "data { real y; } parameters { real p; } model { y ~ lognormal(p, 1); }",
     "{\"y\": 0}", PVI_DATA, "it must be positive", 1},
    {"a proportion above one",
     "data { real y; } parameters { real<lower=0> p; } model { y ~ beta(p, p); }", "{\"y\": 1.5}",
     PVI_DATA, "it must be between 0 and 1", 1},
    {"a scale of zero", "data { real s, y; } parameters { real m; } model { y ~ normal(m, s); }",
     "{\"s\": 0, \"y\": 1}", PVI_DATA, "normal: parameter 2 is 0; it must be positive", 1},
    {"a scale in a prior", "parameters { real m; } model { m ~ normal(0, -1); }", "{}", PVI_DATA,
     "parameter 2 is -1; it must be positive", 1},
    {"a number that is none",
     "data { vector[2] y; } parameters { real m; } model { y ~ normal(m, 1); }",
     "{\"y\": [1, \"NaN\"]}", PVI_DATA, "the outcome is nan at element 2; it must be a number", 1},
    {"a function without return",
     "functions { real f(int n) { if (n > 0) return 1; else { reject(\"bad n\"); } } } model { "
     "target += f(0); }",
     "{}", PVI_PROGRAM, "bad n", 1},
};

typedef struct {
  const char *stan, *json;
} Texts;

static void make_model(Ctx *c, void *arg) {
  const Texts *t = arg;
  model_of(c, t->stan, t->json);
}

TEST(wrong) {
  const struct Wrong *w = row;
  Status s = attempt(c, make_model, &(Texts){w->stan, w->json});
  if (s == PVI_OK) fail_msg("nothing was wrong");
  expect_message(c, w->message);
  assert_int_equal(s, w->status);
  if (w->line) assert_int_equal(c->messages[c->nmessages - 1].loc.line, w->line);
}

/* Outcomes that data keep away from a density they do not suit; outcomes where a density is zero.
 */
static const struct Reached {
  const char *what, *model, *y;
  double lp;
} reached[] = {
    {"a branch on data", "for (n in 1:2) { if (y[n] > 0) y[n] ~ lognormal(p, 1); }", "[1, -1]",
     -0.9189385332046727},
    {"a choice by data", "for (n in 1:2) target += y[n] > 0 ? lognormal_lpdf(y[n] | p, 1) : 0;",
     "[-1, 1]", -0.9189385332046727},
    {"outside of uniform", "y ~ uniform(p, 1);", "[0.5, 2]", -INFINITY},
    {"inside of uniform", "y ~ uniform(p, 1);", "[0.5, 1]", 0},
    {"outside of a truncation", "y ~ normal(p, 1) T[0, ];", "[0.5, -0.5]", -INFINITY},
    {"outside of a truncation in a loop", "for (n in 1:2) y[n] ~ normal(p, 1) T[ , 1];",
     "[0.5, 1.5]", -INFINITY},
    {"outside of one that is a parameter", "for (n in 1:2) y[n] ~ normal(0, 1) T[p, ];",
     "[0.5, -0.1]", -INFINITY},
    {"inside of a truncation", "y ~ normal(p, 1) T[0, ];", "[0, 0]", -0.4515827052894549},
};

TEST(reaches) {
  const struct Reached *t = row;
  const Model *m =
      model_of(c,
               arena_format(&c->arena, "data { vector[2] y; } parameters { real p; } model { %s }",
                            t->model),
               arena_format(&c->arena, "{\"y\": %s}", t->y));
  double u[1] = {0};
  assert_close(density(c, m, u).lp, t->lp, 1e-15);
}

/* ---- all ------------------------------------------------------------------------------------- */

int main(void) {
  static Suite suite;
  ADD_ROWS(lifting, twin, .what);
  ADD_ROWS(dependences, twin, .what);
  ADD_ROWS(expressions, twin, .what);
  ADD_ROWS(splitting, twin, .what);
  ADD_ROWS(transforms, transform, .declaration);
  ADD_ROWS(integrals, integral, .density);
  ADD_ROWS(sums, sum_of_outcomes, .density);
  ADD_ROWS(cdfs, cumulative, [0]);
  ADD_ROWS(counted, counts, .name);
  SUITE_ADD(&suite, cumulative_on_intervals);
  ADD_ROWS(wrongs, wrong, .what);
  ADD_ROWS(reached, reaches, .what);
  SUITE_ADD(&suite, constrained_values);
  SUITE_ADD(&suite, dependent_bounds);
  SUITE_ADD(&suite, jacobian_statement);
  SUITE_ADD(&suite, generated_quantities);
  ADD_ROWS(statements, generated_as_transformed, .what);
  SUITE_ADD(&suite, tapes_of_some_rows);
  SUITE_ADD(&suite, densities_in_batches);
  return suite_run("model", &suite);
}
