// Outcomes in a table: items in a loop inside of one over subjects, some of them missing, and times that
// are censored by a vectorized statement each.
data {
  int<lower=1> I;
  int<lower=1> J;
  array[I, J] int<lower=-1, upper=1> answers;
  int<lower=0> N_obs;
  int<lower=0> N_cens;
  vector[N_obs] time_obs;
  vector[N_cens] time_cens;
}
parameters {
  vector[I] ability;
  vector[J] difficulty;
  real<lower=0> rate;
}
model {
  for (i in 1:I) {
    for (j in 1:J) {
      if (answers[i, j] >= 0) answers[i, j] ~ bernoulli_logit(ability[i] - difficulty[j]);
    }
  }
  target += exponential_lpdf(time_obs | rate);
  target += exponential_lccdf(time_cens | rate);
  ability ~ std_normal();
  difficulty ~ normal(0, 2);
  rate ~ gamma(2, 2);
}
