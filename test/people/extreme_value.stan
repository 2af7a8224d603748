// Generalized extreme values: a shape near zero has a form of its own, and the support depends on it.
functions {
  real gen_extreme_value_lpdf(real y, real mu, real sigma, real xi) {
    real x = (y - mu) / sigma;
    if (abs(xi) < 1e-8) {
      return -log(sigma) - x - exp(-x);
    } else {
      real t = 1 + xi * x;
      real inv_xi = 1 / xi;
      if (t <= 0) reject("outside of the support: ", y);
      return -log(sigma) - (1 + inv_xi) * log(t) - pow(t, -inv_xi);
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
  real<lower=-0.5, upper=0.5> xi;
}
model {
  vector[N] mu = rep_vector(0.0, N);
  mu += Intercept + x * b;
  for (n in 1:N) {
    target += gen_extreme_value_lpdf(Y[n] | mu[n], sigma, xi);
  }
  target += normal_lpdf(Intercept | 0, 5) + normal_lpdf(b | 0, 2) + normal_lpdf(sigma | 0, 2);
}
