// Correlated group effects (scale_r_cor) and a robust likelihood.
functions {
  matrix scale_effects(matrix z, vector SD, matrix L) {
    return transpose(diag_pre_multiply(SD, L) * z);
  }
}
data {
  int<lower=1> N;
  vector[N] Y;
  vector[N] x;
  int<lower=1> N_1;
  array[N] int<lower=1> J_1;
}
parameters {
  real Intercept;
  real b;
  real<lower=0> sigma;
  real<lower=1> nu;
  vector<lower=0>[2] sd_1;
  matrix[2, N_1] z_1;
  cholesky_factor_corr[2] L_1;
}
transformed parameters {
  matrix[N_1, 2] r_1;
  vector[N_1] r_1_1;
  vector[N_1] r_1_2;
  r_1 = scale_effects(z_1, sd_1, L_1);
  r_1_1 = r_1[, 1];
  r_1_2 = r_1[, 2];
}
model {
  vector[N] mu = rep_vector(0.0, N);
  mu += Intercept + x * b;
  for (n in 1:N) {
    mu[n] += r_1_1[J_1[n]] + r_1_2[J_1[n]] * x[n];
  }
  target += student_t_lpdf(Y | nu, mu, sigma);
  target += normal_lpdf(b | 0, 2);
  target += gamma_lpdf(nu | 2, 0.1) - 1 * gamma_lccdf(1 | 2, 0.1);
  target += std_normal_lpdf(to_vector(z_1));
  target += lkj_corr_cholesky_lpdf(L_1 | 1);
  target += normal_lpdf(sd_1 | 0, 1);
  target += normal_lpdf(sigma | 0, 1);
}
