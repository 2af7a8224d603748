// Turnout by state and ethnicity: income is missing.
data {
  int<lower=0> N;                               // cells
  array[N] int<lower=1, upper=51> state;
  array[N] int<lower=1, upper=4> ethnicity;
  vector[N] income;                             // level, about the middle one: -2 to 2
  array[N] int<lower=0> n;                      // respondents
  array[N] int<lower=0> y;                      // of whom so many voted
}
parameters {
  vector[51] b1;                                // by state
  vector[4] b2;                                 // by ethnicity
}
model {
  b1 ~ normal(0, 1);
  b2 ~ normal(0, 1);
  y ~ binomial_logit(n, b1[state] + b2[ethnicity]);
}
