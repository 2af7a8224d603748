// The effects one by one, with a fused multiply-add; Cauchy as a Student t.
data {
  int<lower=0> J;
  array[J] real y;
  array[J] real<lower=0> sigma;
}
parameters {
  vector[J] theta_trans;
  real mu;
  real<lower=0> tau;
}
transformed parameters {
  array[J] real theta;
  for (j in 1:J) {
    theta[j] = fma(tau, theta_trans[j], mu);
  }
}
model {
  theta_trans ~ std_normal();
  mu ~ normal(0, 5);
  tau ~ student_t(1, 0, 5);
  y ~ normal(theta, sigma);
}
