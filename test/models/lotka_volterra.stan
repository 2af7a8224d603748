// Prey and predators, observed with lognormal errors; the solution as an array of states.
functions {
  array[] real slopes(real t, array[] real z, array[] real rates, array[] real x_r, array[] int x_i) {
    return {z[1] * (rates[1] - rates[2] * z[2]), z[2] * (rates[4] * z[1] - rates[3])};
  }
}
data {
  int<lower=0> N;
  array[N] real ts;
  array[2] real y_init;
  array[N, 2] real<lower=0> y;
}
transformed data {
  array[0] real x_r;
  array[0] int x_i;
}
parameters {
  array[4] real<lower=0> theta;
  array[2] real<lower=0> z_init;
  array[2] real<lower=0> sigma;
}
transformed parameters {
  array[N, 2] real z = integrate_ode_rk45(slopes, z_init, 0, ts, theta, x_r, x_i, 1e-5, 1e-3, 500);
}
model {
  theta[1] ~ normal(1, 0.5);
  theta[3] ~ normal(1, 0.5);
  theta[2] ~ normal(0.05, 0.05);
  theta[4] ~ normal(0.05, 0.05);
  z_init ~ lognormal(log(10), 1);
  sigma ~ lognormal(-1, 1);
  y_init ~ lognormal(log(z_init), sigma);
  for (n in 1:N) {
    y[n] ~ lognormal(log(z[n]), sigma);
  }
}
