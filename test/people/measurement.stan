// y ~ me(x, sdx) + z: a predictor that is measured with an error, non-centred.
data {
  int<lower=1> N;
  vector[N] Y;
  int<lower=1> Ksp;
  vector[N] Xn_1;
  vector<lower=0>[N] noise_1;
  int<lower=1> K;
  int<lower=1> Kc;
  matrix[N, K] X;
  int prior_only;
}
transformed data {
  matrix[N, Kc] Xc;
  vector[Kc] means_X;
  for (i in 2:K) {
    means_X[i - 1] = mean(X[, i]);
    Xc[, i - 1] = X[, i] - means_X[i - 1];
  }
}
parameters {
  vector[Kc] b;
  real Intercept;
  vector[Ksp] bsp;
  real<lower=0> sigma;
  vector[1] meanme_1;
  vector<lower=0>[1] sdme_1;
  vector[N] zme_1;
}
transformed parameters {
  vector[N] Xme_1;
  real lprior = 0;
  Xme_1 = meanme_1[1] + sdme_1[1] * zme_1;
  lprior += student_t_lpdf(Intercept | 3, 0, 2.5);
  lprior += student_t_lpdf(sigma | 3, 0, 2.5) - 1 * student_t_lccdf(0 | 3, 0, 2.5);
}
model {
  if (!prior_only) {
    vector[N] mu = rep_vector(0.0, N);
    mu += Intercept;
    for (n in 1:N) {
      mu[n] += (bsp[1]) * Xme_1[n];
    }
    target += normal_id_glm_lpdf(Y | Xc, mu, b, sigma);
  }
  target += lprior;
  target += normal_lpdf(Xn_1 | Xme_1, noise_1);
  target += std_normal_lpdf(zme_1);
}
