// Radon in houses: intercept and slope of the floor vary by county, centred. Data: posteriordb's radon_all.
data {
  int<lower=1> N;
  int<lower=1> J;                          // counties
  array[N] int<lower=1, upper=J> county_idx;
  vector[N] floor_measure;
  vector[N] log_radon;
}
parameters {
  vector[J] alpha;
  vector[J] beta;
  real mu_alpha;
  real mu_beta;
  real s_alpha;                            // log standard deviations
  real s_beta;
  real s_y;
}
model {
  mu_alpha ~ normal(0, 10);
  mu_beta ~ normal(0, 10);
  s_alpha ~ std_normal();
  s_beta ~ std_normal();
  s_y ~ std_normal();
  alpha ~ normal(mu_alpha, exp(s_alpha));
  beta ~ normal(mu_beta, exp(s_beta));
  for (i in 1:N) {
    log_radon[i] ~ normal(alpha[county_idx[i]] + beta[county_idx[i]] * floor_measure[i], exp(s_y));
  }
}
