// Left, right and interval censoring of a Weibull regression.
data {
  int<lower=1> N;
  vector[N] Y;
  array[N] int<lower=-1, upper=2> cens;
  vector[N] rcens;
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
  mu = exp(mu);
  for (n in 1:N) {
    if (cens[n] == 0) {
      target += weibull_lpdf(Y[n] | shape, mu[n] / tgamma(1 + 1 / shape));
    } else if (cens[n] == 1) {
      target += weibull_lccdf(Y[n] | shape, mu[n] / tgamma(1 + 1 / shape));
    } else if (cens[n] == -1) {
      target += weibull_lcdf(Y[n] | shape, mu[n] / tgamma(1 + 1 / shape));
    } else if (cens[n] == 2) {
      target += log_diff_exp(
        weibull_lcdf(rcens[n] | shape, mu[n] / tgamma(1 + 1 / shape)),
        weibull_lcdf(Y[n] | shape, mu[n] / tgamma(1 + 1 / shape)));
    }
  }
  target += normal_lpdf(Intercept | 0, 3) + normal_lpdf(b | 0, 2) + gamma_lpdf(shape | 1, 1);
}
