// Votes by state and year: two length scales for regions, two for states. Effects are added where the means are made.
functions {
  matrix process(array[] real at, matrix std, vector variances, array[] real lengths) {
    int n = size(at);
    matrix[n, n] K = gp_exp_quad_cov(at, sqrt(variances[1]), lengths[1]) + gp_exp_quad_cov(at, sqrt(variances[2]), lengths[2]);
    return cholesky_decompose(add_diag(K, 1e-6)) * std;
  }
}
data {
  int<lower=1> N;
  int<lower=1> N_states;
  int<lower=1> N_regions;
  int<lower=1> N_years_obs;
  int<lower=1> N_years;
  array[N_states] int<lower=1> state_region_ind;
  array[N] int<lower=1, upper=50> state_ind;
  array[N] int<lower=1, upper=10> region_ind;
  array[N] int<lower=1> year_ind;
  vector<lower=0, upper=1>[N] y;
}
transformed data {
  array[N_years] real years = linspaced_array(N_years, 1, N_years);
}
parameters {
  matrix[N_years, N_regions] GP_region_std;
  matrix[N_years, N_states] GP_state_std;
  vector[N_years_obs] year_std;
  vector[N_states] state_std;
  vector[N_regions] region_std;
  real<lower=0> tot_var;
  simplex[17] prop_var;
  real mu;
  real<lower=0> length_GP_region_long;
  real<lower=0> length_GP_state_long;
  real<lower=0> length_GP_region_short;
  real<lower=0> length_GP_state_short;
}
model {
  vector[17] v = 17 * tot_var * prop_var;
  matrix[N_years, N_regions] regions = process(years, GP_region_std, v[{13, 15}], {length_GP_region_long, length_GP_region_short});
  matrix[N_years, N_states] states = process(years, GP_state_std, v[{14, 16}], {length_GP_state_long, length_GP_state_short});
  vector[N_states] state = sqrt(v[3:12])[state_region_ind] .* state_std;
  for (n in 1:N) {
    y[n] ~ normal(mu + sqrt(v[1]) * year_std[year_ind[n]] + state[state_ind[n]] + sqrt(v[2]) * region_std[region_ind[n]]
                  + regions[year_ind[n], region_ind[n]] + states[year_ind[n], state_ind[n]], sqrt(v[17]));
  }
  to_vector(GP_region_std) ~ std_normal();
  to_vector(GP_state_std) ~ std_normal();
  append_row(append_row(year_std, state_std), region_std) ~ std_normal();
  mu ~ normal(0.5, 0.5);
  tot_var ~ gamma(3, 3);
  prop_var ~ dirichlet(rep_vector(2, 17));
  {length_GP_region_long, length_GP_state_long} ~ weibull(30, 8);
  {length_GP_region_short, length_GP_state_short} ~ weibull(30, 3);
}
