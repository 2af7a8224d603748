// The predictor in two loops: the varying intercepts through a user function, then the rest.
functions {
  real lookup(vector effects, int group) {
    return effects[group];
  }
}
data {
  int<lower=0> N;
  int<lower=0> n_age;
  int<lower=0> n_age_edu;
  int<lower=0> n_edu;
  int<lower=0> n_region_full;
  int<lower=0> n_state;
  array[N] int<lower=0, upper=n_age> age;
  array[N] int<lower=0, upper=n_age_edu> age_edu;
  vector<lower=0, upper=1>[N] black;
  array[N] int<lower=0, upper=n_edu> edu;
  vector<lower=0, upper=1>[N] female;
  array[N] int<lower=0, upper=n_region_full> region_full;
  array[N] int<lower=0, upper=n_state> state;
  vector[N] v_prev_full;
  array[N] int<lower=0, upper=1> y;
}
parameters {
  vector[n_age] a;
  vector[n_edu] b;
  vector[n_age_edu] c;
  vector[n_state] d;
  vector[n_region_full] e;
  vector[5] beta;
  real<lower=0, upper=100> sigma_a;
  real<lower=0, upper=100> sigma_b;
  real<lower=0, upper=100> sigma_c;
  real<lower=0, upper=100> sigma_d;
  real<lower=0, upper=100> sigma_e;
}
transformed parameters {
  vector[N] groups;
  for (i in 1:N) {
    groups[i] = lookup(a, age[i]) + lookup(b, edu[i]) + lookup(c, age_edu[i]) + d[state[i]] + e[region_full[i]];
  }
}
model {
  target += normal_lpdf(a | 0, sigma_a) + normal_lpdf(b | 0, sigma_b) + normal_lpdf(c | 0, sigma_c);
  d ~ normal(0, sigma_d);
  e ~ normal(0, sigma_e);
  for (k in 1:5) {
    beta[k] ~ normal(0, 100);
  }
  for (i in 1:N) {
    vector[4] row = [black[i], female[i], v_prev_full[i], female[i] * black[i]]';
    real eta = beta[1] + dot_product(row, beta[2:5]) + groups[i];
    target += bernoulli_logit_lpmf(y[i] | eta);
  }
}
