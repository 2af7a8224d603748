// rstanarm's stan_lmer in small: functions by #include with a slash, group effects of two factors
// (an intercept with a slope, and an intercept), a sparse matrix of theirs.
functions {
#include /functions/mixed.stan
}
data {
  int<lower=1> N;
  int<lower=0> K;
  matrix[N, K] X;
  vector[N] y;
  int<lower=1> t;
  array[t] int<lower=1> p;
  array[t] int<lower=1> l;
  int<lower=1> q;
  int<lower=1> len_theta_L;
  int<lower=0> len_rho;
  int<lower=0> len_zeta;
  int<lower=0> len_z_T;
  int<lower=0> len_regularization;
  array[len_regularization] real<lower=0> regularization;
  array[len_zeta] real<lower=0> delta;
  vector<lower=0>[t] shape;
  vector<lower=0>[t] scale;
  int<lower=1> num_non_zero;
  vector[num_non_zero] w;
  array[num_non_zero] int<lower=1> v;
  array[N + 1] int<lower=1> u;
  int<lower=0, upper=1> prior_PD;
}
parameters {
  real gamma;
  vector[K] z_beta;
  vector[q] z_b;
  vector[len_z_T] z_T;
  vector<lower=0, upper=1>[len_rho] rho;
  vector<lower=0>[len_zeta] zeta;
  vector<lower=0>[t] tau;
  real<lower=0> aux_unscaled;
}
transformed parameters {
  real aux = 2 * aux_unscaled;
  vector[K] beta = z_beta * 2.5;
  vector[q] b;
  vector[len_theta_L] theta_L;
  {
    vector[len_zeta] z = zeta;
    int mark = 1;
    for (i in 1:t) {
      if (p[i] > 1) {
        z[mark:(mark + p[i] - 1)] = segment(zeta, mark, p[i]) / sum(segment(zeta, mark, p[i]));
        mark += p[i];
      }
    }
    theta_L = make_theta_L(len_theta_L, p, aux, tau, scale, z, rho, z_T);
  }
  b = make_b(z_b, theta_L, p, l);
}
model {
  vector[N] eta = X * beta;
  eta += csr_matrix_times_vector(N, q, w, v, u, b);
  eta += gamma;
  if (prior_PD == 0) target += normal_lpdf(y | eta, aux);
  target += normal_lpdf(z_beta | 0, 1) + normal_lpdf(gamma | 0, 5);
  target += exponential_lpdf(aux_unscaled | 1);
  decov_lp(z_b, z_T, rho, zeta, tau, regularization, delta, shape, t, p);
}
