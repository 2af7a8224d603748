// Children's test scores on their mothers' schooling and IQ. Data: posteriordb's kidiq.
functions {
  // mean 0 and standard deviation 1/2 over all rows
  vector standardize2(vector x) {
    vector[rows(x)] c = x - mean(x);
    return c / (2 * sqrt(dot_self(c) / rows(x)));
  }
}
data {
  int<lower=1> N;
  vector[N] kid_score;
  vector[N] mom_hs;                        // finished high school: 0 or 1
  vector[N] mom_iq;
}
transformed data {
  vector[N] z_hs = standardize2(mom_hs);
  vector[N] z_iq = standardize2(mom_iq);
  matrix[N, 4] X = [rep_row_vector(1, N), z_hs', z_iq', (z_hs .* z_iq)']';
}
parameters {
  real s;                                  // log sigma
  vector[4] a;
}
transformed parameters {
  real<lower=0> sigma = exp(s);
}
model {
  a ~ std_normal();
  sigma ~ std_normal();                    // half-normal(0, 1) on sigma ...
  target += log(2);
  target += s;                             // ... as a density of s: log |d sigma / d s|
  kid_score ~ normal(X * a, sigma);
}
