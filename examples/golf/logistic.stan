// Putts that go in, by distance: a line on the logit scale.
data {
  int<lower=0> N;                    // distance bins; one observation each
  vector<lower=0>[N] x;              // distance, feet
  array[N] int<lower=0> n;           // tries
  array[N] int<lower=0> y;           // successes
}
parameters {
  real theta0;                       // slope
  real theta1;                       // intercept
}
model {
  theta0 ~ std_normal();
  theta1 ~ std_normal();
  y ~ binomial_logit(n, theta0 * x + theta1);
}
