// Zeros by a process of their own.
functions {
  real hurdle_poisson_log_lpmf(int y, real eta, real hu) {
    if (y == 0) {
      return bernoulli_lpmf(1 | hu);
    } else {
      return bernoulli_lpmf(0 | hu) + poisson_log_lpmf(y | eta) - log1m_exp(-exp(eta));
    }
  }
}
data {
  int<lower=1> N;
  array[N] int Y;
  vector[N] x;
}
parameters {
  real Intercept;
  real b;
  real<lower=0, upper=1> hu;
}
model {
  vector[N] mu = rep_vector(0.0, N);
  mu += Intercept + x * b;
  for (n in 1:N) {
    target += hurdle_poisson_log_lpmf(Y[n] | mu[n], hu);
  }
  target += normal_lpdf(Intercept | 0, 3) + normal_lpdf(b | 0, 2) + beta_lpdf(hu | 1, 1);
}
