// Putts that go in, by distance: the ball falls when the angle of the shot, normal(0, sigma), is small enough for the hole.
data {
  int<lower=0> N;                    // distance bins; one observation each
  vector<lower=0>[N] x;              // distance, feet
  array[N] int<lower=0> n;           // tries
  array[N] int<lower=0> y;           // successes
}
transformed data {
  real r = 1.68 / 24;                // radius of the ball, feet
  real R = 4.25 / 24;                // radius of the hole, feet
  vector[N] threshold = asin((R - r) / x);
}
parameters {
  real log_sigma;                    // of the angle, radians
}
model {
  log_sigma ~ std_normal();
  y ~ binomial(n, 2 * Phi(threshold / exp(log_sigma)) - 1);
}
