// ok
functions {
  real half(real x) { return x / 2; }
}
data {
  int<lower=0> N;
  array[N] real y;
}
transformed data {
  real mean_y = mean(y);
}
parameters {
  real mu;
  real<lower=0> sigma;
}
transformed parameters {
  real nu = half(mu);
}
model {
  y ~ normal(mu, sigma);
}
generated quantities {
  real z = normal_rng(nu, sigma) + mean_y;
}
