// The recurrence in one scalar that is carried from step to step.
data {
  int<lower=0> T;
  array[T] real y;
  real<lower=0> sigma1;
}
parameters {
  real mu;
  real<lower=0> alpha0;
  real<lower=0, upper=1> alpha1;
  real<lower=0, upper=(1 - alpha1)> beta1;
}
model {
  real variance = square(sigma1);
  for (t in 1:T) {
    if (t > 1) {
      variance = alpha0 + alpha1 * (y[t - 1] - mu) ^ 2 + beta1 * variance;
    }
    y[t] ~ normal(mu, sqrt(variance));
  }
}
