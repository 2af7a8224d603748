// Regression with centred predictors, the centring folded into the intercept; a truncated prior.
data {
  int<lower=1> N;
  vector[N] Y;
  int<lower=1> K;
  matrix[N, K] X;
  int prior_only;
}
transformed data {
  int Kc = K - 1;
  vector[Kc] means_X;
  matrix[N, Kc] X1 = X[ : , 2 : ];
  for (k in 1:Kc) {
    means_X[k] = mean(col(X1, k));
  }
}
parameters {
  vector[Kc] b;
  real Intercept;
  real<lower=0> sigma;
}
model {
  real b_Intercept = Intercept - dot_product(means_X, b);
  b ~ std_normal();
  Intercept ~ student_t(3, 8, 10);
  sigma ~ student_t(3, 0, 10) T[0, ];
  if (prior_only == 0) {
    Y ~ normal(b_Intercept + X1 * b, sigma);
  }
}
