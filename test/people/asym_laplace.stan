// Quantile regression: the density is chosen by a condition on parameters.
functions {
  real asym_laplace_lpdf(real y, real mu, real sigma, real quantile) {
    if (y < mu) {
      return log(quantile * (1 - quantile)) - log(sigma) + (1 - quantile) * (y - mu) / sigma;
    } else {
      return log(quantile * (1 - quantile)) - log(sigma) - quantile * (y - mu) / sigma;
    }
  }
}
data {
  int<lower=1> N;
  vector[N] Y;
  vector[N] x;
}
parameters {
  real Intercept;
  real b;
  real<lower=0> sigma;
}
transformed parameters {
  real quantile = 0.25;
}
model {
  vector[N] mu = rep_vector(0.0, N);
  mu += Intercept + x * b;
  for (n in 1:N) {
    target += asym_laplace_lpdf(Y[n] | mu[n], sigma, quantile);
  }
  target += normal_lpdf(Intercept | 0, 5) + normal_lpdf(b | 0, 2) + normal_lpdf(sigma | 0, 2);
}
