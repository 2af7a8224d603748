// A loop with a branch on data for the age groups, and an accumulator declared inside.
data {
  int<lower=0> N;
  vector[N] partyid7;
  vector[N] real_ideo;
  vector[N] race_adj;
  vector[N] educ1;
  vector[N] gender;
  vector[N] income;
  array[N] int<lower=1, upper=4> age_discrete;
}
parameters {
  vector[9] beta;
  real<lower=0> sigma;
}
model {
  for (n in 1:N) {
    real mu = beta[1];
    mu += beta[2] * real_ideo[n] + beta[3] * race_adj[n];
    if (age_discrete[n] > 1) {
      mu += beta[2 + age_discrete[n]];
    }
    mu += beta[7:9]' * [educ1[n], gender[n], income[n]]';
    partyid7[n] ~ normal(mu, sigma);
  }
}
