// Counts by site; the rates as vectors, observations by multi-indexing.
data {
  int<lower=0> nobs;
  int<lower=0> nmis;
  int<lower=0> nyear;
  int<lower=0> nsite;
  array[nobs] int<lower=0> obs;
  array[nobs] int<lower=0> obsyear;
  array[nobs] int<lower=0> obssite;
  array[nmis] int<lower=0> misyear;
  array[nmis] int<lower=0> missite;
}
parameters {
  vector[nsite] alpha;
  real mu_alpha;
  real<lower=0, upper=5> sd_alpha;
}
transformed parameters {
  vector[nsite] lambda = exp(alpha);
}
model {
  mu_alpha ~ normal(0, 10);
  for (j in 1:nsite) {
    target += normal_lpdf(alpha[j] | mu_alpha, sd_alpha);
  }
  obs ~ poisson(lambda[obssite]);
}
