// A design matrix made in a loop and a matrix product; the statement about the data comes first.
data {
  int<lower=0> N;
  vector<lower=0, upper=200>[N] kid_score;
  vector<lower=0, upper=200>[N] mom_iq;
  vector<lower=0, upper=1>[N] mom_hs;
}
transformed data {
  matrix[N, 4] X;
  for (n in 1:N) {
    X[n, 1] = 1;
    X[n, 2] = mom_hs[n];
    X[n, 3] = mom_iq[n];
    X[n, 4] = X[n, 2] * X[n, 3];
  }
}
parameters {
  vector[4] beta;
  real<lower=0> sigma;
}
transformed parameters {
  vector[N] mu = X * beta;
}
model {
  kid_score ~ normal(mu, sigma);
  sigma ~ cauchy(0, 2.5);
}
