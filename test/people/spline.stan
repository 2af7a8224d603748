// A smooth term: its straight part, and a penalized one.
data {
  int<lower=1> N;
  vector[N] Y;
  int Ks;
  matrix[N, Ks] Xs;
  int nb_1;
  array[nb_1] int knots_1;
  matrix[N, knots_1[1]] Zs_1_1;
}
parameters {
  real Intercept;
  vector[Ks] bs;
  vector[knots_1[1]] zs_1_1;
  vector<lower=0>[nb_1] sds_1;
  real<lower=0> sigma;
}
transformed parameters {
  vector[knots_1[1]] s_1_1;
  s_1_1 = sds_1[1] * zs_1_1;
}
model {
  vector[N] mu = rep_vector(0.0, N);
  mu += Intercept + Xs * bs + Zs_1_1 * s_1_1;
  target += normal_lpdf(Y | mu, sigma);
  target += student_t_lpdf(Intercept | 3, 0, 2.5);
  target += normal_lpdf(bs | 0, 2);
  target += student_t_lpdf(sds_1 | 3, 0, 2.5) - 1 * student_t_lccdf(0 | 3, 0, 2.5);
  target += normal_lpdf(sigma | 0, 1);
  target += std_normal_lpdf(zs_1_1);
}
