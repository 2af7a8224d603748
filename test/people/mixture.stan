// Two regressions mixed, their weights a simplex.
data {
  int<lower=1> N;
  vector[N] Y;
  vector[N] x;
  vector[2] con_theta;
}
parameters {
  ordered[2] ordered_Intercept;
  real b_mu1;
  real<lower=0> sigma1;
  real<lower=0> sigma2;
  simplex[2] theta;
}
transformed parameters {
  real theta1;
  real theta2;
  theta1 = theta[1];
  theta2 = theta[2];
}
model {
  vector[N] mu1 = rep_vector(0.0, N);
  vector[N] mu2 = rep_vector(0.0, N);
  mu1 += ordered_Intercept[1] + x * b_mu1;
  mu2 += ordered_Intercept[2];
  for (n in 1:N) {
    array[2] real ps;
    ps[1] = log(theta1) + normal_lpdf(Y[n] | mu1[n], sigma1);
    ps[2] = log(theta2) + normal_lpdf(Y[n] | mu2[n], sigma2);
    target += log_sum_exp(ps);
  }
  target += normal_lpdf(ordered_Intercept | 0, 3);
  target += normal_lpdf(b_mu1 | 0, 2);
  target += normal_lpdf(sigma1 | 0, 1) + normal_lpdf(sigma2 | 0, 1);
  target += dirichlet_lpdf(theta | con_theta);
}
