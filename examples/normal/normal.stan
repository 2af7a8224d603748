// The paper's normal example: a location, unit noise, flat prior.
data {
  int<lower=1> n;
  vector[n] y;
}
parameters {
  real theta;
}
model {
  y ~ normal(theta, 1);
}
