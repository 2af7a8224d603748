// Row by row, with the predictor as a function of one row.
functions {
  real predictor(vector beta, real height, real male) {
    return beta[1] + male * (beta[3] + beta[4] * height) + beta[2] * height;
  }
}
data {
  int<lower=0> N;
  array[N] real<lower=0> earn;
  vector[N] height;
  array[N] int<lower=0, upper=1> male;
}
parameters {
  vector[4] beta;
  real<lower=0> sigma;
}
model {
  for (n in 1:N) {
    target += normal_lpdf(log(earn[n]) | predictor(beta, height[n], male[n]), sigma);
  }
}
