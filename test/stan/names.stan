// ok
data {
  int lower, upper, offset, multiplier, T;
}
parameters {
  real<lower=lower, upper=upper> beta;
  real<offset=offset, multiplier=multiplier> gamma;
}
model {
  beta ~ beta(2, 3) T[0.1, T];
  gamma ~ gamma(2, gamma);
}
