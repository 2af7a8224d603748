// Conway-Maxwell-Poisson: the normalizing constant is a series that ends when its terms are small,
// so the number of steps depends on the parameters.
functions {
  real log_Z_com_poisson(real log_mu, real nu) {
    real log_Z;
    int k = 2;
    int M = 10000;
    real leps = -52 * log2();
    vector[10000] terms;
    if (nu == 1) return exp(log_mu);
    if (nu <= 0) reject("nu must be positive");
    if (nu * log_mu > log(M)) reject("mu is too large");
    terms[1] = log1p_exp(nu * log_mu);
    terms[2] = nu * (2 * log_mu - lgamma(3.0));
    while ((terms[k] > leps) && k < M) {
      k += 1;
      terms[k] = nu * (k * log_mu - lgamma(k + 1.0));
    }
    log_Z = log_sum_exp(terms[1:k]);
    return log_Z;
  }
  real com_poisson_log_lpmf(int y, real log_mu, real nu) {
    if (nu == 1) return poisson_log_lpmf(y | log_mu);
    return nu * (y * log_mu - lgamma(y + 1.0)) - log_Z_com_poisson(log_mu, nu);
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
  real<lower=0> shape;
}
model {
  vector[N] mu = rep_vector(0.0, N);
  mu += Intercept + x * b;
  for (n in 1:N) {
    target += com_poisson_log_lpmf(Y[n] | mu[n], shape);
  }
  target += normal_lpdf(Intercept | 0, 2) + normal_lpdf(b | 0, 1) + gamma_lpdf(shape | 4, 4);
}
