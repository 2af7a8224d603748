// A drug that is absorbed at first order and eliminated by Michaelis and Menten's law.
functions {
  vector slopes(real t, vector concentration, real k_a, real K_m, real V_m, data real D, data real V) {
    real dose = t > 0 ? exp(-k_a * t) * D * k_a / V : 0;
    return dose - V_m / V * concentration ./ (K_m + concentration);
  }
}
data {
  real t0;
  real D;
  real V;
  int<lower=1> N_t;
  array[N_t] real times;
  array[N_t] real C_hat;
}
parameters {
  real<lower=0> k_a;
  real<lower=0> K_m;
  real<lower=0> V_m;
  real<lower=0> sigma;
}
transformed parameters {
  array[N_t] vector[1] C = ode_bdf(slopes, rep_vector(0, 1), t0, times, k_a, K_m, V_m, D, V);
}
model {
  k_a ~ cauchy(0, 1);
  K_m ~ cauchy(0, 1);
  V_m ~ cauchy(0, 1);
  sigma ~ cauchy(0, 1);
  C_hat ~ lognormal(log(C[ : , 1]), sigma);
}
