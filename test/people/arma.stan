// Autoregressive and moving-average residuals, kept in a matrix of lags.
data {
  int<lower=1> N;
  vector[N] Y;
  vector[N] x;
  int<lower=0> Kar;
  int<lower=0> Kma;
  array[N] int<lower=0> J_lag;
}
transformed data {
  int max_lag = max(Kar, Kma);
}
parameters {
  real Intercept;
  real b;
  vector<lower=-1, upper=1>[Kar] ar;
  vector<lower=-1, upper=1>[Kma] ma;
  real<lower=0> sigma;
}
model {
  matrix[N, max_lag] Err = rep_matrix(0, N, max_lag);
  vector[N] err;
  vector[N] mu = rep_vector(0.0, N);
  mu += Intercept + x * b;
  for (n in 1:N) {
    mu[n] += Err[n, 1:Kma] * ma;
    err[n] = Y[n] - mu[n];
    for (i in 1:J_lag[n]) {
      Err[n + 1, i] = err[n + 1 - i];
    }
    mu[n] += Err[n, 1:Kar] * ar;
  }
  target += normal_lpdf(Y | mu, sigma);
  target += normal_lpdf(Intercept | 0, 5) + normal_lpdf(b | 0, 2) + normal_lpdf(sigma | 0, 1);
}
