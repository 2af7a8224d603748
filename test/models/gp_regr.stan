// A Gaussian process with its covariance given whole; the factor is the density's affair.
data {
  int<lower=1> N;
  array[N] real x;
  vector[N] y;
}
parameters {
  real<lower=0> rho;
  real<lower=0> alpha;
  real<lower=0> sigma;
}
model {
  [alpha, 2 * sigma] ~ normal(0, 2);
  target += log(2);
  rho ~ gamma(25, 4);
  y ~ multi_normal(zeros_vector(N), add_diag(gp_exp_quad_cov(x, alpha, rho), sigma));
}
