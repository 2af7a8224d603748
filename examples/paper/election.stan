// Votes for Bush in 1988: varying intercepts by age, education, both, state and region. Data: posteriordb's election88.
data {
  int<lower=1> N;
  int<lower=1> n_age;
  int<lower=1> n_edu;
  int<lower=1> n_age_edu;
  int<lower=1> n_state;
  int<lower=1> n_region_full;
  array[N] int<lower=1, upper=n_age> age;
  array[N] int<lower=1, upper=n_edu> edu;
  array[N] int<lower=1, upper=n_age_edu> age_edu;
  array[N] int<lower=1, upper=n_state> state;
  array[N] int<lower=1, upper=n_region_full> region_full;
  vector[N] black;
  vector[N] female;
  vector[N] v_prev_full;                   // the state's Republican share in earlier elections
  array[N] int<lower=0, upper=1> y;
}
parameters {
  vector[n_age] a;
  vector[n_edu] b;
  vector[n_age_edu] c;
  vector[n_state] d;
  vector[n_region_full] e;
  vector[5] beta;                          // constant, black, female, v_prev, black x female
  vector[5] s;                             // log standard deviations of a, b, c, d, e
}
model {
  beta ~ normal(0, 100);
  s ~ normal(3, 1);
  a ~ normal(0, exp(s[1]));
  b ~ normal(0, exp(s[2]));
  c ~ normal(0, exp(s[3]));
  d ~ normal(0, exp(s[4]));
  e ~ normal(0, exp(s[5]));
  for (i in 1:N) {
    real fixed = beta[1] + beta[2] * black[i] + beta[3] * female[i] + beta[4] * v_prev_full[i]
                 + beta[5] * black[i] * female[i];
    y[i] ~ bernoulli_logit(fixed + a[age[i]] + b[edu[i]] + c[age_edu[i]] + d[state[i]] + e[region_full[i]]);
  }
}
