// Vectors indexed by the county, and a loop over observations that keeps its predictor in a matrix of coefficients.
data {
  int<lower=0> N;
  int<lower=0> J;
  array[N] int<lower=1, upper=J> county_idx;
  vector[N] floor_measure;
  vector[N] log_radon;
}
parameters {
  real<lower=0> sigma_y;
  real<lower=0> sigma_alpha;
  real<lower=0> sigma_beta;
  vector[J] alpha;
  vector[J] beta;
  real mu_alpha;
  real mu_beta;
}
model {
  matrix[J, 2] coef;
  coef[ : , 1] = alpha;
  coef[ : , 2] = beta;
  [sigma_y, sigma_beta, sigma_alpha] ~ std_normal();
  {mu_alpha, mu_beta} ~ normal(0, 10);
  for (j in 1:J) {
    alpha[j] ~ normal(mu_alpha, sigma_alpha);
    beta[j] ~ normal(mu_beta, sigma_beta);
  }
  for (n in 1:N) {
    int county = county_idx[n];
    real mu = coef[county, 1];
    mu += floor_measure[n] * coef[county, 2];
    log_radon[n] ~ normal(mu, sigma_y);
  }
}
