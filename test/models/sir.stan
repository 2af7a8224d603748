// Cholera: susceptible, infected and recovered people, and bacteria in the water; the solution as vectors.
functions {
  vector slopes(real t, vector y, vector rates) {
    real infections = rates[1] * y[4] / (y[4] + rates[2]) * y[1];
    real recoveries = rates[3] * y[2];
    return [-infections, infections - recoveries, recoveries, rates[4] * y[2] - rates[5] * y[4]]';
  }
}
data {
  int<lower=0> N_t;
  array[N_t] real t;
  vector[4] y0;
  array[N_t] int stoi_hat;
  array[N_t] real B_hat;
}
parameters {
  real<lower=0> beta;
  real<lower=0> gamma;
  real<lower=0> xi;
  real<lower=0> delta;
}
transformed parameters {
  vector[5] rates = [beta, 1e6, gamma, xi, delta]';
  array[N_t] vector[4] y = ode_rk45(slopes, y0, 0, t, rates);
}
model {
  beta ~ cauchy(0, 2.5);
  gamma ~ cauchy(0, 1);
  xi ~ cauchy(0, 25);
  delta ~ cauchy(0, 1);
  for (n in 1:N_t) {
    stoi_hat[n] ~ poisson((n == 1 ? y0[1] : y[n - 1, 1]) - y[n, 1]);
    B_hat[n] ~ lognormal(log(y[n, 4]), 0.15);
  }
}
