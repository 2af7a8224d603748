// Linear regression with normal noise; the data of scores.c have other noise.
data {
  int<lower=1> n;
  int<lower=1> d;
  matrix[n, d] X;
  vector[n] y;
}
parameters {
  vector[d] b;
  real log_sigma;
}
model {
  b ~ normal(0, 10);
  log_sigma ~ std_normal();
  y ~ normal(X * b, exp(log_sigma));
}
