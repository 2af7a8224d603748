// The mixture as a user's density, by log_sum_exp.
functions {
  real mixture_lpdf(real y, real theta, vector mu, array[] real sigma) {
    vector[2] lp = [log(theta), log1m(theta)]';
    for (k in 1:2) {
      lp[k] += normal_lpdf(y | mu[k], sigma[k]);
    }
    return log_sum_exp(lp);
  }
}
data {
  int<lower=0> N;
  vector[N] y;
}
parameters {
  ordered[2] mu;
  array[2] real<lower=0> sigma;
  real<lower=0, upper=1> theta;
}
model {
  for (k in 1:2) {
    sigma[k] ~ normal(0, 2);
  }
  mu ~ normal(0, 2);
  theta ~ beta(5, 5);
  for (n in 1:N) {
    y[n] ~ mixture(theta, mu, sigma);
  }
}
