// Turnout by state, ethnicity and income, whose slope is the same in all states.
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
  real b3;                                      // slope of income
}
model {
  b1 ~ normal(0, 1);
  b2 ~ normal(0, 1);
  b3 ~ normal(0, 1);
  y ~ binomial_logit(n, b1[state] + b2[ethnicity] + b3 * income);
}
