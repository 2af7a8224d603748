// A loop over schools in which prior and observation stand together.
data {
  int<lower=0> J;
  array[J] real y;
  array[J] real<lower=0> sigma;
}
parameters {
  array[J] real theta;
  real mu;
  real<lower=0> tau;
}
model {
  mu ~ normal(0, 5);
  target += cauchy_lpdf(tau | 0, 5);
  for (j in 1:J) {
    theta[j] ~ normal(mu, tau);
    y[j] ~ normal(theta[j], sigma[j]);
  }
}
