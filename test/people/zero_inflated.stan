// Zero-inflated negative binomial, the zeros by a logit.
functions {
  real zero_inflated_neg_binomial_log_logit_lpmf(int y, real eta, real phi, real zi) {
    if (y == 0) {
      return log_sum_exp(bernoulli_logit_lpmf(1 | zi),
                         bernoulli_logit_lpmf(0 | zi) + neg_binomial_2_log_lpmf(0 | eta, phi));
    } else {
      return bernoulli_logit_lpmf(0 | zi) + neg_binomial_2_log_lpmf(y | eta, phi);
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
  real<lower=0> shape;
  real Intercept_zi;
}
model {
  vector[N] mu = rep_vector(0.0, N);
  vector[N] zi = rep_vector(0.0, N);
  mu += Intercept + x * b;
  zi += Intercept_zi - 0.5 * x;
  for (n in 1:N) {
    target += zero_inflated_neg_binomial_log_logit_lpmf(Y[n] | mu[n], shape, zi[n]);
  }
  target += normal_lpdf(Intercept | 0, 3) + normal_lpdf(b | 0, 2);
  target += gamma_lpdf(shape | 2, 0.5) + logistic_lpdf(Intercept_zi | 0, 1);
}
