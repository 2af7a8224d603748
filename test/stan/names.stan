// ok
data {
  int T;
}
parameters {
  real<lower=0, upper=T> beta;
  real<offset=T, multiplier=2> gamma;
}
model {
  beta ~ beta(2, 3) T[0.1, T];
  gamma ~ gamma(2, gamma);
}
