// Truncation between bounds that differ from row to row.
data {
  int<lower=1> N;
  vector[N] Y;
  vector[N] lb;
  vector[N] ub;
  vector[N] x;
}
parameters {
  real Intercept;
  real b;
  real<lower=0> sigma;
}
model {
  vector[N] mu = Intercept + x * b;
  for (n in 1:N) {
    target += normal_lpdf(Y[n] | mu[n], sigma) -
      log_diff_exp(normal_lcdf(ub[n] | mu[n], sigma), normal_lcdf(lb[n] | mu[n], sigma));
  }
  target += normal_lpdf(Intercept | 0, 5) + normal_lpdf(b | 0, 2) + normal_lpdf(sigma | 0, 2);
}
