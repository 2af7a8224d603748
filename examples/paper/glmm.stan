// Counts of birds by site and year: Poisson with varying intercepts, centred. Data: posteriordb's GLMM_data.
data {
  int<lower=1> nobs;                       // counts; one observation each
  int<lower=1> nsite;
  int<lower=1> nyear;
  array[nobs] int<lower=0> obs;
  array[nobs] int<lower=1, upper=nsite> obssite;
  array[nobs] int<lower=1, upper=nyear> obsyear;
}
parameters {
  vector[nsite] alpha;
  vector[nyear] eps;
  real mu;
  real s_alpha;                            // log standard deviations
  real s_eps;
}
model {
  mu ~ normal(0, 10);
  s_alpha ~ normal(1, 1);
  s_eps ~ std_normal();
  alpha ~ normal(0, exp(s_alpha));
  eps ~ normal(0, exp(s_eps));
  obs ~ poisson_log(mu + alpha[obssite] + eps[obsyear]);
}
