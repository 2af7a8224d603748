// The forward algorithm over vectors: one vector carried from step to step.
data {
  int<lower=0> N;
  int<lower=0> K;
  array[N] real y;
}
parameters {
  simplex[K] theta1;
  simplex[K] theta2;
  positive_ordered[K] mu;
}
transformed parameters {
  matrix[K, K] log_theta = log([theta1', theta2']);
}
model {
  vector[K] gamma;
  mu ~ normal([3, 10]', 1);
  for (t in 1:N) {
    vector[K] next;
    for (k in 1:K) {
      next[k] = normal_lpdf(y[t] | mu[k], 1);
      if (t > 1) {
        next[k] += log_sum_exp(gamma + log_theta[ : , k]);
      }
    }
    gamma = next;
  }
  target += log_sum_exp(gamma);
}
