// Counts with exposures and group effects, by the function of a whole regression.
data {
  int<lower=1> N;
  array[N] int Y;
  matrix[N, 2] Xc;
  vector[N] offsets;
  int<lower=1> N_1;
  array[N] int<lower=1> J_1;
}
parameters {
  vector[2] b;
  real Intercept;
  real<lower=0> sd_1;
  vector[N_1] z_1;
}
model {
  vector[N] mu = rep_vector(0.0, N);
  mu += Intercept + offsets;
  for (n in 1:N) mu[n] += sd_1 * z_1[J_1[n]];
  target += poisson_log_glm_lpmf(Y | Xc, mu, b);
  target += normal_lpdf(Intercept | 0, 5);
  target += normal_lpdf(b | 0, 2);
  target += exponential_lpdf(sd_1 | 1);
  target += std_normal_lpdf(z_1);
}
