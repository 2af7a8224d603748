// Directions: above some concentration the density is taken from a normal one, so that it has two
// vectorized densities of the same outcome, and every draw takes one of them.
functions {
  real von_mises2_lpdf(vector y, vector mu, real kappa) {
    if (kappa < 100) {
      return von_mises_lpdf(y | mu, kappa);
    } else {
      return normal_lpdf(y | mu, sqrt(1 / kappa));
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
  real<lower=0> kappa;
}
model {
  vector[N] mu = 2 * atan(Intercept + x * b);
  target += von_mises2_lpdf(Y | mu, kappa);
  target += normal_lpdf(Intercept | 0, 1) + normal_lpdf(b | 0, 1) + gamma_lpdf(kappa | 2, 0.1);
}
