// mi(): missing values of an outcome and of a predictor are parameters.
data {
  int<lower=1> N;
  vector[N] Y_y;
  vector[N] Y_x;
  int<lower=0> Nmi_x;
  array[Nmi_x] int<lower=1> Jmi_x;
  int<lower=0> Nmi_y;
  array[Nmi_y] int<lower=1> Jmi_y;
}
parameters {
  real a;
  real bsp;
  real m;
  real<lower=0> sigma_y;
  real<lower=0> sigma_x;
  vector[Nmi_x] Ymi_x;
  vector[Nmi_y] Ymi_y;
}
model {
  vector[N] Yl_x = Y_x;
  vector[N] Yl_y = Y_y;
  vector[N] mu_y = rep_vector(0.0, N);
  vector[N] mu_x = rep_vector(0.0, N);
  Yl_x[Jmi_x] = Ymi_x;
  Yl_y[Jmi_y] = Ymi_y;
  mu_y += a;
  mu_x += m;
  for (n in 1:N) {
    mu_y[n] += (bsp) * Yl_x[n];
  }
  target += normal_lpdf(Yl_y | mu_y, sigma_y);
  target += normal_lpdf(Yl_x | mu_x, sigma_x);
  target += normal_lpdf(a | 0, 5) + normal_lpdf(bsp | 0, 2) + normal_lpdf(m | 0, 5);
  target += normal_lpdf(sigma_y | 0, 2) + normal_lpdf(sigma_x | 0, 2);
}
