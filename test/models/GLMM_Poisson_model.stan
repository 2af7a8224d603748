// A cubic trend with an effect of every year; the trend as one product, its priors as constants of the density.
data {
  int<lower=0> n;
  array[n] int<lower=0> C;
  vector[n] year;
}
transformed data {
  matrix[n, 3] powers = append_col(append_col(year, year ^ 2), year ^ 3);
}
parameters {
  real<lower=-20, upper=20> alpha;
  real<lower=-10, upper=10> beta1;
  real<lower=-10, upper=20> beta2;
  real<lower=-10, upper=10> beta3;
  vector[n] eps;
  real<lower=0, upper=5> sigma;
}
transformed parameters {
  vector[n] log_lambda = powers * [beta1, beta2, beta3]' + alpha + eps;
}
model {
  target += uniform_lpdf(alpha | -20, 20) + uniform_lpdf(sigma | 0, 5);
  [beta1, beta2, beta3] ~ uniform(-10, 10);
  eps ~ normal(0, sigma);
  C ~ poisson_log(log_lambda);
}
