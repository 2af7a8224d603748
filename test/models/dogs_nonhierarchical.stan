// Probabilities on the log scale, both coefficients of a dog in one row; shocks so far are counted in the loop that uses them.
data {
  int<lower=0> n_dogs;
  int<lower=0> n_trials;
  array[n_dogs, n_trials] int<lower=0, upper=1> y;
}
parameters {
  vector[2] mu_logit_ab;
  vector<lower=0>[2] sigma_logit_ab;
  cholesky_factor_corr[2] L_logit_ab;
  matrix[n_dogs, 2] z;
}
transformed parameters {
  matrix[n_dogs, 2] ab = log_inv_logit(rep_matrix(mu_logit_ab', n_dogs) + z * diag_pre_multiply(sigma_logit_ab, L_logit_ab));
}
model {
  for (j in 1:n_dogs) {
    int shocks = 0;
    for (t in 1:n_trials) {
      y[j, t] ~ bernoulli(exp(ab[j] * [shocks, t - 1 - shocks]'));
      shocks += y[j, t];
    }
  }
  mu_logit_ab ~ logistic(0, 1);
  sigma_logit_ab ~ std_normal();
  L_logit_ab ~ lkj_corr_cholesky(2);
  to_vector(z) ~ std_normal();
}
