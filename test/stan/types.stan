// ok
data {
  int<lower=1> K, M;
  array[K, M] int<lower=0, upper=K> n;
  array[K] vector<lower=0>[M] v;
  tuple(int, array[K] real, tuple(vector[K], matrix[K, M])) t;
  complex c;
  complex_matrix[K, M] cm;
}
parameters {
  real<offset=1, multiplier=2> a;
  vector<upper=K, lower=-1>[K] b;
  ordered[K] o;
  positive_ordered[K] po;
  simplex[K] s;
  unit_vector[K] u;
  sum_to_zero_vector[K] z;
  sum_to_zero_matrix[K, M] zm;
  cholesky_factor_corr[K] L;
  cholesky_factor_cov[K] F;
  cholesky_factor_cov[K, M] G;
  corr_matrix[K] R;
  cov_matrix[K] S;
  column_stochastic_matrix[K, M] P;
  row_stochastic_matrix[K, M] Q;
  array[2, K] simplex[K] ss;
}
